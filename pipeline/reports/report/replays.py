"""The games that a report shows move by move, chosen to show the run's progress, and replayed by the rules.

A replay is JSON for replay.js: the board's size, look and colours, and for each position the move that led to it, the
points that it changed, so that the page needs no rules, and the search result there. Winrates are the first player's; a
game in which a win may count several points has none. Games that aren't played on points are shown as diagrams. A
search result is its policy: the shares of its visits, or Gumbel's target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from pipeline.errors import IllegalMove, MuGoError
from pipeline.games.contract import CHANCE, Game
from pipeline.games.replay import movers, replay_one
from pipeline.games.specs import recorded_game
from pipeline.games.stones import BoardGame
from pipeline.reports.report.facts import Facts, readable
from pipeline.reports.show_records import player_names, searches, values_to_move
from pipeline.run.matches import MatchGame, read_match
from pipeline.run.shards import End, GameRecord, Shard, ShardMeta, read_shard

TOP_MOVES = 5
GAMES_LOOKED_AT = 200  # of the newest generation


@dataclass(frozen=True)
class Chosen:
    """A game to show. values_first, policies: per move; None or empty for chance and moves without a search.

    settled: the game ended because nothing was left to decide, see Game.settled_owners.
    """

    title: str
    players: tuple[str, str]
    game: str
    moves: list[int]
    values_first: list[float | None]
    policies: list[list[tuple[int, float]]]  # (action, share), most first
    result_first_player: float
    end: str
    stones: Sequence[int] = ()  # the first player's handicap
    settled: bool = False


Choose = Callable[[], Chosen]


def replays(facts: Facts) -> list[dict[str, Any]]:
    """The replays of the chosen games. Games that can't be read or replayed become warnings."""
    found = []
    for choose in [*_of_matches(facts), *_of_selfplay(facts)]:
        try:
            found.append(_replay(choose()))
        except (MuGoError, IllegalMove) as error:
            facts.warnings.append(f"a game is not shown: {error}")
    return found


# Choosing games


def _of_matches(facts: Facts) -> Iterator[Choose]:
    """From the newest match: a game that the challenger won and one that it didn't, each of median length."""
    if not facts.gates:
        return
    match = readable(facts, lambda: read_match(facts.gates[-1].match.folder, with_summary=False))
    if match is None:
        return
    names = (match.header.challenger, match.header.champion)
    for wanted, what in ((True, "the challenger wins"), (False, "the challenger doesn't win")):
        games = [one for one in match.games if (one.challenger_result > 0) == wanted]
        if games:
            one = sorted(games, key=lambda game: (game.length, game.index))[len(games) // 2]
            yield partial(_of_match, one, names, match.header.game, f"Newest match: {what} (game {one.index})")


def _of_match(one: MatchGame, names: tuple[str, str], game: str, title: str) -> Chosen:
    made_by = movers(recorded_game(game), one.moves, one.stones)
    values = [_of_first(value, mover) for value, mover in zip(one.values_to_move, made_by, strict=True)]
    players = names if one.challenger_player == 0 else (names[1], names[0])
    end = {"resigned": "resignation", "move_limit": "at the move limit", "played_out": ""}[one.end]
    return Chosen(title, players, game, one.moves, values, [], one.result_first_player, end, one.stones)


def _of_first(value_to_move: float | None, mover: int) -> float | None:
    """None for chance: the value of a throw belongs to the player whose turn it is, and is repeated at that move."""
    if value_to_move is None or mover == CHANCE:
        return None
    return value_to_move if mover == 0 else -value_to_move


def _of_selfplay(facts: Facts) -> Iterator[Choose]:
    """A typical game of the first, the middle and the newest generation, then extremes of the newest."""
    numbers = list(facts.metas)
    if not numbers:
        return
    for number, what in ((numbers[0], "first"), (numbers[len(numbers) // 2], "a middle"), (numbers[-1], "newest")):
        if number == numbers[-1] and what != "newest":
            continue
        shard = _shard(facts, facts.metas[number][-1])
        if shard is not None:
            index = int(np.argsort(shard.lengths, kind="stable")[shard.num_games // 2])
            yield partial(_of_shard, shard, index, f"Self-play, {what} generation ({number}): a game of usual length")
    newest: list[tuple[Shard, int]] = []
    for meta in reversed(facts.metas[numbers[-1]]):
        shard = _shard(facts, meta)
        newest += [(shard, index) for index in range(shard.num_games)] if shard else []
        if len(newest) >= GAMES_LOOKED_AT:
            break
    if not newest:
        return
    lengths = [int(shard.lengths[index]) for shard, index in newest]
    turns = [_turn(shard, index) for shard, index in newest]
    for name, chosen in (
        ("the longest", lengths.index(max(lengths))),
        ("the shortest", lengths.index(min(lengths))),
        ("the greatest turn", turns.index(max(turns))),
    ):
        yield partial(_of_shard, *newest[chosen], f"Self-play, newest generation: {name} of {len(newest)} games")


def _shard(facts: Facts, meta: ShardMeta) -> Shard | None:
    return readable(facts, lambda: read_shard(meta.path, meta))


def _turn(shard: Shard, index: int) -> float:
    """The largest value that the loser of a game had, from the loser's viewpoint; -2 for drawn games."""
    moves = slice(int(shard.move_offsets[index]), int(shard.move_offsets[index + 1]))
    values, result = shard.root_values[moves], float(shard.results[index])
    movers = np.arange(len(values)) % 2  # not exact for every game, but good enough to choose one
    of_first = np.where(movers == 0, values, -values)
    return float(np.max(-of_first * result)) if result and len(values) else -2.0


def _of_shard(shard: Shard, index: int, title: str) -> Chosen:
    record = shard.game(index)
    game = recorded_game(shard.game_spec).varied(record.setup)
    moves = record.moves.tolist()
    made_by = movers(game, moves)
    values = [_of_first(value, mover) for value, mover in zip(values_to_move(record), made_by, strict=True)]
    ends = {End.RESIGNED: "resignation", End.SETTLED: "nothing left to decide", End.MOVE_LIMIT: "at the move limit"}
    end = ends.get(record.end, "")
    return Chosen(
        title, player_names(shard, record), game.spec, moves, values, _policies(record), record.result_first_player,
        end, settled=record.end == End.SETTLED,
    )  # fmt: skip


def _policies(record: GameRecord) -> list[list[tuple[int, float]]]:
    found = []
    for actions, counts in searches(record):
        order = np.argsort(-counts.astype(np.int64), kind="stable")[:TOP_MOVES]
        total = max(int(counts.sum()), 1)
        found.append([(int(actions[i]), float(counts[i]) / total) for i in order])
    return found


# Replaying them


def _replay(one: Chosen) -> dict[str, Any]:
    """Raises IllegalMove."""
    game = recorded_game(one.game)
    states = list(replay_one(game, one.moves, one.stones))
    on_points = isinstance(game, BoardGame)
    board = np.zeros(game.num_points, np.int16) if on_points else None
    plies: list[dict[str, Any]] = []
    for ply, state in enumerate(states):
        here: dict[str, Any] = {}
        if ply:
            before = states[ply - 1]
            here |= {"move": game.move_name(before[0], one.moves[ply - 1]), "by": int(game.to_move(before)[0])}
        if ply < len(one.moves):
            value = one.values_first[ply]
            if value is not None and game.max_result == 1:
                here["winrate"] = round((1 + value) / 2, 3)
            if one.policies:
                named = [[game.move_name(state[0], move), round(share, 3)] for move, share in one.policies[ply]]
                here["policy"] = named
        if board is not None:
            now = state[0][: game.num_points]
            here["changes"] = [[int(point), int(now[point])] for point in np.flatnonzero(now != board)]
            board = now.copy()
        else:
            here["diagram"] = game.diagram(state[0])
        plies.append(here)
    colours = game.colours if isinstance(game, BoardGame) else ("First player", "Second player")
    return {
        "title": one.title,
        "game": one.game,
        "players": one.players,
        "colours": colours,
        "result": _result(game, one, states[-1], colours),
        "plies": plies,
        **(_board(game) if isinstance(game, BoardGame) else {}),
    }


def _board(game: BoardGame) -> dict[str, Any]:
    height, width = game.board_shape
    labels = game.diagram(game.initial(1)[0]).splitlines()[:height]
    return {
        "height": height,
        "width": width,
        "look": asdict(game.look),
        "columns": list(game.columns[:width]),
        "rows": [line.split()[0] if line.split()[0].isdigit() else "" for line in labels],
    }


def _result(game: Game, one: Chosen, state: np.ndarray, colours: tuple[str, str]) -> str:
    if one.result_first_player == 0:
        return "drawn"
    winner = colours[int(one.result_first_player < 0)]
    form = game.sgf
    if one.end == "resignation":
        return f"{winner} wins by resignation"
    scores = game.settled_scores(state, game.settled_owners(state)) if one.settled else game.scores(state)
    margin = f" by {abs(float(scores[0])):g} points" if form is not None and form.margin else ""
    return f"{winner} wins{margin}" + (f", {one.end}" if one.end else "")
