"""From recorded games to examples: replay the games, check every move, compute the targets.

A throw and the move that follows are two plies of a record, but one turn and one example: the position before the
throw. Both plies map to it, so each example occurs twice among a window's positions.

Axes: N wanted positions, G games, T plies, K turns, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.errors import FileError, UsageError
from pipeline.families.backgammon.feature_game import FeatureGame
from pipeline.families.backgammon.options import TdGatherOptions
from pipeline.families.backgammon.td.outcomes import MOST_OUTPUTS
from pipeline.families.backgammon.td.targets import lambda_returns
from pipeline.games.contract import CHANCE, FloatArray, States
from pipeline.games.replay import IllegalRecord, replay
from pipeline.methods.game_table import GameTable
from pipeline.methods.method import Positions
from pipeline.methods.options import DiscountOptions
from pipeline.options import Options, taken
from pipeline.run.chunks import ORIGIN, Columns, ColumnTypes
from pipeline.run.shards import Shard


def column_types(game: FeatureGame) -> ColumnTypes:
    """The columns of an example, in addition to chunks.ORIGIN.

    state   [S] the position before a throw             target  the outputs' target; NaN beyond the outputs
    """
    return {"state": ("<i2", (game.state_size,)), "target": ("<f4", (MOST_OUTPUTS,))}


def make_examples(
    game: FeatureGame, shards: Sequence[Shard], wanted: Positions, td_lambda: FloatArray, config: Options
) -> Columns:
    """The examples of the wanted positions, in their order; columns as in column_types and chunks.ORIGIN.

    td_lambda: [N], the same for all positions of a game. config: reads TdGatherOptions and DiscountOptions.
    Raises FileError, with the shard's path, for a shard of another game, an illegal move, throws and moves that don't
    alternate, a result that contradicts the board, or invalid chances; UsageError for rewards with five outputs, or in
    a game in which nobody can earn them.
    """
    for shard in shards:
        if shard.game_spec != game.spec:
            raise FileError(shard.path, f"games of {shard.game_spec}; wanted {game.spec}")
    table = GameTable(shards, wanted)
    shaping = taken(config, TdGatherOptions)
    with_rewards = shaping.closeout_reward > 0 or shaping.prime_reward > 0
    states, rewards = _replay(game, table, shaping if with_rewards else None)
    chances = table.per_move("chances", np.float32(np.nan), (MOST_OUTPUTS,))
    num_outputs = _outputs(table, chances)
    if with_rewards and num_outputs > 1:
        raise UsageError(
            "gather --closeout-reward, --prime-reward: a network with five outputs learns chances, to which no reward "
            "can be added; wanted a model with one output (init --value-head scalar)"
        )
    if with_rewards and not game.has_structures:
        raise UsageError(
            f"gather --closeout-reward, --prime-reward: nobody can earn them in {game.spec}; leave them out"
        )
    by_game = np.ones(len(table), np.float32)
    by_game[table.row] = td_lambda
    targets = lambda_returns(
        chances[0::2, :, :num_outputs],
        chances[1::2, :, :num_outputs],
        table.lengths // 2,
        by_game,
        taken(config, DiscountOptions).discount,
        rewards / np.float32(2 * game.max_result) if with_rewards else None,
    )
    target = np.full((len(wanted), MOST_OUTPUTS), np.nan, np.float32)
    target[:, :num_outputs] = targets[table.ply // 2, table.row]
    columns: Columns = {
        "state": states,
        "target": target,
        "shard": wanted.shard,
        "game": wanted.game,
        "ply": wanted.ply,
    }
    types = {**column_types(game), **ORIGIN}
    return {name: columns[name].astype(dtype, copy=False) for name, (dtype, _) in types.items()}


def _outputs(table: GameTable, chances: FloatArray) -> int:
    """The number of outputs of the network that recorded chances [T, G, MOST_OUTPUTS]."""
    if not len(table):
        return MOST_OUTPUTS
    num_outputs = int(np.isfinite(chances[0, 0]).sum())
    played = np.arange(len(chances))[:, None] < table.lengths
    known = np.isfinite(chances) & (chances >= 0) & (chances <= 1)
    wrong = (known != (np.arange(MOST_OUTPUTS) < num_outputs)).any(axis=2) & played
    if num_outputs not in (1, MOST_OUTPUTS) or wrong.any():
        row = int(wrong.any(axis=0).argmax())
        raise table.error(row, f"its chances are not {num_outputs} numbers from 0 to 1 at every ply")
    return num_outputs


def _replay(game: FeatureGame, table: GameTable, shaping: TdGatherOptions | None) -> tuple[States, FloatArray]:
    """Replay all games in lockstep. Returns states [N, S] before the throws of wanted turns, and rewards [K, G].

    Rewards are in points.
    """
    num_turns = (len(table.moves) + 1) // 2
    states_of_wanted = np.empty((len(table.ply), game.state_size), np.int16)
    rewards = np.zeros((num_turns, len(table)), np.float32)
    earned = np.zeros((2, len(table), 2), np.bool_)  # by player, game and kind: each is paid once
    by_turn = np.argsort(table.ply // 2, kind="stable")
    starts = np.searchsorted((table.ply // 2)[by_turn], np.arange(num_turns + 1))
    try:
        for ply, (states, _) in enumerate(replay(game, table.moves, table.lengths)):
            going = int(np.count_nonzero(table.lengths > ply))
            throws = game.to_move(states[:going]) == CHANCE
            if (throws != (ply % 2 == 0)).any():
                raise table.error(int((throws != (ply % 2 == 0)).argmax()), "throws and moves don't alternate", ply)
            _check_results(game, table, states, going)
            if shaping is not None and ply > 0 and ply % 2 == 0:
                rewards[ply // 2 - 1, : len(states)] = _rewards(game, states, earned, shaping)
            if ply % 2 == 0 and ply // 2 < num_turns:
                here = by_turn[starts[ply // 2] : starts[ply // 2 + 1]]
                states_of_wanted[here] = states[table.row[here]]
    except IllegalRecord as error:
        raise table.error(error.row, f"illegal move: {error}; wanted unchanged records", error.ply) from error
    return states_of_wanted, rewards


def _check_results(game: FeatureGame, table: GameTable, states: States, going: int) -> None:
    """Check the games after the first `going` of states, which end here."""
    ended = np.arange(going, len(states))
    over = game.is_over(states)
    for row in ended[~over[ended]]:
        raise table.error(row, "the game is not over; wanted a finished game", int(table.lengths[row]))
    returns = game.returns(states[ended])
    for row in ended[returns != table.results[ended]]:
        found, wanted = f"{table.results[row]:+g}", f"{returns[row - going]:+g}"
        raise table.error(row, f"recorded result {found} (first player); the final position gives {wanted}")


def _rewards(game: FeatureGame, states: States, earned: np.ndarray, shaping: TdGatherOptions) -> FloatArray:
    """[g] points for the player who has just moved to states [g, S]. Updates earned [2, G, 2], what has been paid."""
    movers = 1 - game.turns(states)
    built = game.structures(states, movers)
    rows = np.arange(len(states))
    fresh = built & ~earned[movers, rows]
    earned[movers, rows] |= built
    return (fresh @ np.array([shaping.closeout_reward, shaping.prime_reward])).astype(np.float32)
