"""Example extraction: replays recorded games, checks every move and makes training examples.

An example is one position; column_types lists its columns. Game records are seen by the first player, examples by the
player to move; only this module converts between them. Axes: N wanted positions, G games, T plies, A actions, P points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, IllegalMove
from pipeline.games.capabilities import AllBoards, beginning
from pipeline.games.contract import FloatArray, Game, States
from pipeline.games.replay import IllegalRecord, replay
from pipeline.games.specs import are_related, parse_game
from pipeline.methods.game_table import GameTable
from pipeline.methods.method import IndexArray, Positions
from pipeline.run.chunks import ORIGIN, Columns, ColumnTypes
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, Shard


def column_types(game: Game) -> ColumnTypes:
    """The columns of an example, without chunks.ORIGIN. All but reply are seen by the player to move.

    planes         C·P bits in C order, packed by numpy.packbits
    policy         [A] sums to 1, 0 for illegal actions; all 0 if policy_weight is 0 and nothing was searched
    policy_weight  1 if policy is a target: of a search, or the move of an opponent that teaches
    value          the game's result, or the target of gather --td-lambda. Games ended by the move limit count with
                   their results, as in self-play's searches, so that the network learns which moves lead nowhere
    ownership      [P] of the final position; +1 own
    score          of the final position
    final_weight   1 if ownership and score are known: the game was neither resigned nor ended by the move limit, which
                   leaves areas unsettled
    reply          [A] the policy of the position after the move played, in the opponent's actions, turned to the
                   points that the player to move sees; all 0 if unknown
    reply_weight   1 if reply is a target: the game went on, and that position's policy is a target
    side           the board's side, only for a game of all board sizes. Examples of smaller boards fill the first
                   entries of planes, policy, ownership and reply
    """
    side: ColumnTypes = {"side": ("|u1", ())} if isinstance(game, AllBoards) else {}
    return {
        "planes": ("|u1", ((game.num_planes * game.num_points + 7) // 8,)),
        "policy": ("<f2", (game.num_actions,)),
        "policy_weight": ("|u1", ()),
        "value": ("<f4", ()),
        "ownership": ("|i1", (game.num_points,)),
        "score": ("<f4", ()),
        "final_weight": ("|u1", ()),
        "reply": ("<f2", (game.num_actions,)),
        "reply_weight": ("|u1", ()),
        **side,
    }


def entries(game: Game) -> dict[str, int]:
    """Column → how many leading entries an example on this game's board fills."""
    return {"policy": game.num_actions, "reply": game.num_actions, "ownership": game.num_points}


def make_examples(
    game: Game, shards: Sequence[Shard], wanted: Positions, td_lambda: NDArray[np.float32] | None = None
) -> Columns:
    """Method.examples. game: that of the largest board; td_lambda [N]: equal for all positions of a game.

    Of all boards, td_lambda is meant for the home board. On one with k times as many points games have about k times as
    many plies, and λ is the k-th root, so that a result reaches back through as much of a game.
    Replays the games that contain a wanted position in one batch, to their end.
    Raises FileError, with the shard's path, for a game of another spec, an illegal move, a result that contradicts the
    final position, visits that no search of the position can have, or an opponent's policy target that isn't its move.
    """
    for shard in shards:
        if not are_related(shard.game_spec, game.spec):
            raise FileError(shard.path, f"games of {shard.game_spec}; wanted {game.spec}")
    if not isinstance(game, AllBoards):
        return _of_one_board(game, shards, wanted, td_lambda)
    types = {**column_types(game), **ORIGIN}
    columns = {name: np.zeros((len(wanted), *shape), dtype) for name, (dtype, shape) in types.items()}
    home = parse_game(game.family).num_points
    for spec in sorted({shard.game_spec for shard in shards}):
        board, numbers = parse_game(spec), np.flatnonzero([shard.game_spec == spec for shard in shards])
        rows = np.flatnonzero(np.isin(wanted.shard, numbers))
        here = wanted.at(rows)
        local = Positions(np.searchsorted(numbers, here.shard), here.game, here.ply)
        of_spec = [shards[number] for number in numbers.tolist()]
        lambdas = None if td_lambda is None else td_lambda[rows] ** np.float32(home / board.num_points)
        found = _of_one_board(board, of_spec, local, lambdas)
        found |= {"shard": here.shard, "side": np.full(len(rows), board.board_shape[0])}
        for name, column in found.items():
            filled = columns[name] if column.ndim == 1 else columns[name][:, : column.shape[1]]
            filled[rows] = column
    return columns


def _of_one_board(
    game: Game, shards: Sequence[Shard], wanted: Positions, td_lambda: NDArray[np.float32] | None
) -> Columns:
    """make_examples() for shards of one spec, without the column side."""
    table = GameTable(shards, wanted)
    planes, legal, movers, final_states = _replay(game, table)
    owners, scores = _final_boards(game, table, final_states)
    _check_results(game, table, final_states, owners, scores)

    to_move = movers[table.ply, table.row]
    sign = (1 - 2 * to_move).astype(np.float32)  # +1 where the first player is to move
    played_out = ~np.isin(table.ends, (End.RESIGNED, End.MOVE_LIMIT))[table.row]
    ownership = owners[table.row] * sign[:, None].astype(np.int8)
    if game.turns_board:
        ownership[to_move == 1] = ownership[to_move == 1, ::-1]
    score = scores[table.row] * sign
    ownership[~played_out] = 0
    score[~played_out] = 0
    visits = _visits(game, table, wanted, table.row, to_move)
    for edge in np.flatnonzero(~legal[visits.owner, visits.actions] & (visits.shares > 0)):
        index = visits.owner[edge]
        raise table.error(table.row[index], "visits of an illegal action", wanted.ply[index])
    policy = np.zeros((len(wanted), game.num_actions), np.float16)
    policy[visits.owner, visits.actions] = visits.shares
    values = table.results[table.row]
    if td_lambda is not None and (td_lambda < 1).any():
        values = _td_values(table, movers[:-1], td_lambda)
    reply, reply_weight = _replies(game, table, wanted, movers[table.ply + 1, table.row])
    columns: Columns = {
        "planes": planes,
        "policy": policy,
        "policy_weight": visits.weight,
        "value": values * sign,
        "ownership": ownership,
        "score": score,
        "final_weight": played_out,
        "reply": reply,
        "reply_weight": reply_weight,
        "shard": wanted.shard,
        "game": wanted.game,
        "ply": wanted.ply,
    }
    types = {**column_types(game), **ORIGIN}
    return {name: columns[name].astype(types[name][0], copy=False) for name in types if name in columns}


def _replay(game: Game, table: GameTable) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int8], States]:
    """Play all games in lockstep and observe each wanted position at its ply.

    Returns planes [N, bytes], packed, and legal [N, A] of the wanted positions; movers [T + 1, G], the player to move
    at each ply, 0 after a game's end; final_states [G, S].
    """
    num_wanted, num_bits, num_plies = len(table.ply), game.num_planes * game.num_points, len(table.moves)
    packed = np.empty((num_wanted, (num_bits + 7) // 8), np.uint8)
    legal = np.empty((num_wanted, game.num_actions), np.bool_)
    movers = np.zeros((num_plies + 1, len(table)), np.int8)
    final_states = np.empty((len(table), game.state_size), np.int16)
    by_ply = np.lexsort((table.row, table.ply))
    starts = np.searchsorted(table.ply[by_ply], np.arange(num_plies + 2))
    try:
        begun = beginning(game, table.setups)
    except IllegalMove as error:
        raise table.error(np.flatnonzero(table.setups)[0], f"{error}; wanted games that begin as they may") from error
    try:
        for ply, (states, history) in enumerate(replay(game, table.moves, table.lengths, begun)):
            movers[ply, : len(states)] = game.to_move(states)
            going_on = int(np.count_nonzero(table.lengths > ply))
            final_states[going_on : len(states)] = states[going_on:]
            here = by_ply[starts[ply] : starts[ply + 1]]
            if len(here):
                rows = table.row[here]
                legal[here], planes = game.legal_and_observe(states[rows], history.select(rows))
                packed[here] = np.packbits(planes.reshape(len(here), num_bits), axis=1)
    except IllegalRecord as error:
        problem = f"illegal move: {error}; wanted games as they were played"
        raise table.error(error.row, problem, error.ply) from error
    return packed, legal, movers, final_states


def _final_boards(game: Game, table: GameTable, final_states: States) -> tuple[NDArray[np.int8], FloatArray]:
    """Owners [G, P] and scores [G] of the final positions, seen by the first player."""
    owners, scores = game.ownership(final_states), game.scores(final_states)
    settled = np.flatnonzero(table.ends == End.SETTLED)
    if settled.size:
        owners[settled] = game.settled_owners(final_states[settled])
        scores[settled] = game.settled_scores(final_states[settled], owners[settled])
    return owners, scores


def _check_results(
    game: Game, table: GameTable, final_states: States, owners: NDArray[np.int8], scores: FloatArray
) -> None:
    over = game.is_over(final_states)
    settled = table.ends == End.SETTLED
    played_out = (table.ends != End.RESIGNED) & ~settled
    returns = game.returns(final_states)
    for row in np.flatnonzero(over != played_out):
        found = "the game is over" if over[row] else "the game is not over"
        before = "a settled" if settled[row] else "a resigned"
        wanted = f"{before} game to stop before its end" if over[row] else "a game that was played out"
        raise table.error(row, f"{found}; wanted {wanted}", table.lengths[row])
    for row in np.flatnonzero(settled & ~owners.all(axis=1)):
        open_points = int((owners[row] == 0).sum())
        raise table.error(row, f"recorded as settled; {open_points} points may still change", table.lengths[row])
    returns[settled] = np.sign(scores[settled])
    is_cut = game.cut_short(final_states) & played_out
    for row in np.flatnonzero(is_cut != (table.ends == End.MOVE_LIMIT)):
        ends = ("ended by the move limit", "its rules") if is_cut[row] else ("ended by its rules", "the move limit")
        raise table.error(row, "{}; recorded is an end by {}".format(*ends), table.lengths[row])
    for row in np.flatnonzero((played_out | settled) & (returns != table.results)):
        found, wanted = f"{table.results[row]:+g}", f"{returns[row]:+g}"
        raise table.error(row, f"recorded result {found} (first player); the final position gives {wanted}")
    for row in np.flatnonzero((table.ends == End.RESIGNED) & (table.results == 0)):
        raise table.error(row, "resigned with recorded result 0; wanted +1 or -1")


def _td_values(table: GameTable, movers: NDArray[np.int8], td_lambda: NDArray[np.float32]) -> NDArray[np.float32]:
    """[N] the value targets, seen by the first player: λ · the next position's target + (1 − λ) · the search's value.

    The target after the last move is the result; positions without a search value have λ = 1.
    Source: TD(lambda), Sutton 1988; with search values, Willemsen, Baier, Kaisers 2021.
    """
    of_game = np.ones(len(table), np.float32)
    of_game[table.row] = td_lambda
    searched = table.per_move("root_values", np.float32(0)) * (1 - 2 * movers)
    has_no_value = table.per_move("flags", np.uint8(NO_VALUE)) & NO_VALUE != 0
    lambdas = np.where(has_no_value, np.float32(1), of_game)
    targets = np.empty(table.moves.shape, np.float32)
    target = table.results.astype(np.float32)
    for ply in reversed(range(len(targets))):
        target = lambdas[ply] * target + (1 - lambdas[ply]) * searched[ply]
        targets[ply] = target
    return targets[table.ply, table.row]


class _Visits(NamedTuple):
    """The root visits of n positions, as a list of E visited actions: a dense array would be mostly zeros."""

    owner: IndexArray  # [E] index of the position
    actions: IndexArray  # [E]
    shares: NDArray[np.float32]  # [E] of the position's visits
    weight: NDArray[np.uint8]  # [n] 1 if they are a policy target


def _visits(game: Game, table: GameTable, positions: Positions, row: IndexArray, to_move: NDArray[np.int8]) -> _Visits:
    """The root visits of n positions, whose games are in rows [n] of the table. Doesn't check that they are legal."""
    weight = np.zeros(len(positions), np.uint8)
    found: list[tuple[NDArray[np.integer], ...]] = [tuple(np.zeros((3, 0), np.int64))]
    for number, shard in enumerate(table.shards):
        here = np.flatnonzero(positions.shard == number)
        moves = shard.move_offsets[positions.game[here]] + positions.ply[here]
        lengths = shard.visit_lengths[moves].astype(np.int64)
        ends = np.cumsum(lengths)
        # edge j of move i stands at visit_offsets[moves[i]] + j
        edges = np.arange(int(lengths.sum())) + np.repeat(shard.visit_offsets[moves] - (ends - lengths), lengths)
        found.append((np.repeat(here, lengths), shard.visit_actions[edges], shard.visit_counts[edges]))
        weight[here] = shard.flags[moves] & POLICY_COUNTS
    owner, actions, counts = (np.concatenate(column).astype(np.int64) for column in zip(*found, strict=True))
    outside = np.flatnonzero(actions >= game.num_actions)
    if outside.size:
        index, action = owner[outside[0]], actions[outside[0]]
        problem = f"visits of action {action}; {game.spec} has {game.num_actions} actions"
        raise table.error(row[index], problem, positions.ply[index])
    totals = np.bincount(owner, counts, len(positions)).astype(np.float32)
    for index in np.flatnonzero((totals == 0) & (weight == 1)):
        raise table.error(row[index], "a policy target without visits", positions.ply[index])
    cells = np.sort(owner * game.num_actions + actions)
    for cell in cells[1:][cells[1:] == cells[:-1]]:
        index = cell // game.num_actions
        raise table.error(row[index], "an action's visits are listed twice", positions.ply[index])
    shares = counts.astype(np.float32) / totals[owner].clip(1)
    certain = np.zeros(len(positions), np.bool_)
    certain[owner[(actions == table.moves[positions.ply, row][owner]) & (shares == 1)]] = True
    learners = table.learners[row]
    for index in np.flatnonzero((weight == 1) & (learners != BOTH) & (learners != to_move) & ~certain):
        problem = "an opponent's move is a policy target, but not its only visit"
        raise table.error(row[index], problem, positions.ply[index])
    return _Visits(owner, actions, shares, weight)


def _replies(
    game: Game, table: GameTable, wanted: Positions, next_to_move: NDArray[np.int8]
) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
    """reply [N, A]: the policy target of the position after each wanted one; weight [N]: 1 if there is one, else 0."""
    reply = np.zeros((len(wanted), game.num_actions), np.float16)
    weight = np.zeros(len(wanted), np.uint8)
    goes_on = np.flatnonzero(wanted.ply + 1 < table.lengths[table.row])
    row = table.row[goes_on]
    after = Positions(wanted.shard[goes_on], wanted.game[goes_on], wanted.ply[goes_on] + 1)
    visits = _visits(game, table, after, row, next_to_move[goes_on])
    counts = visits.weight[visits.owner] == 1
    reply[goes_on[visits.owner[counts]], visits.actions[counts]] = visits.shares[counts]
    weight[goes_on] = visits.weight
    if game.turns_board:
        of_points = reply[:, : game.kinds_per_point * game.num_points].reshape(len(reply), -1, game.num_points)
        of_points[:] = of_points[:, :, ::-1].copy()
    return reply, weight
