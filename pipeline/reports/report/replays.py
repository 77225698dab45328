"""The games that a report shows move by move, chosen to show the run's progress, and replayed by the rules.

A replay is JSON for replay.js: the board's size, look and colours, and for each position the move that led to it, the
points that it changed, so that the page needs no rules, and the search result there. Winrates are the first player's; a
game in which a win may count several points has none. Games that aren't played on points are shown as diagrams. A
search result is its policy: the shares of its visits, or Gumbel's target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from pipeline.errors import MuGoError
from pipeline.games.capabilities import InSgf
from pipeline.games.contract import Game, States
from pipeline.games.specs import parse_game
from pipeline.games.stones import BoardGame
from pipeline.reports.recorded_games import ENDINGS, RecordedGame, damaged_game
from pipeline.reports.report.facts import Facts
from pipeline.run.matches import read_match
from pipeline.run.shards import Shard, read_shard

TOP_MOVES = 5
GAMES_LOOKED_AT = 200  # of the newest generation

Choice = tuple[str, Callable[[], RecordedGame]]
"""A title, and what reads the game."""


def replays(facts: Facts) -> list[dict[str, Any]]:
    """The replays of the chosen games. Games that can't be read or replayed become warnings."""
    found = []
    for title, read in [*_of_matches(facts), *_of_selfplay(facts)]:
        try:
            one = read()
            with damaged_game(one.path, one.index):
                found.append(_replay(title, one))
        except MuGoError as error:
            facts.reading.warn(f"a game is not shown: {error}")
    return found


# Choosing games


def _of_matches(facts: Facts) -> Iterator[Choice]:
    """From the newest match: a game that the challenger won and one that it didn't, each of median length."""
    match = None
    if facts.matches:
        match = facts.reading.readable(read_match, facts.matches[-1].match.folder, with_summary=False)
    for wanted, what in ((True, "the challenger wins"), (False, "the challenger doesn't win")):
        games = [one for one in match.games if (one.challenger_result > 0) == wanted] if match else []
        if match and games:
            one = sorted(games, key=lambda game: (game.length, game.index))[len(games) // 2]
            yield f"Newest match: {what} (game {one.index})", partial(RecordedGame.of_match, match, one)


def _of_selfplay(facts: Facts) -> Iterator[Choice]:
    """A typical game of the first, the middle and the newest generation, then extremes of the newest."""
    numbers = list(facts.metas)
    if not numbers:
        return
    readable = facts.reading.readable
    generations = {numbers[0]: "first", numbers[len(numbers) // 2]: "a middle"} | {numbers[-1]: "newest"}
    for number, what in generations.items():
        meta = facts.metas[number][-1]
        if (shard := readable(read_shard, meta.path, meta)) is not None:
            index = int(np.argsort(shard.lengths, kind="stable")[shard.num_games // 2])
            usual = partial(RecordedGame.of_shard, shard, index)
            yield f"Self-play, {what} generation ({number}): a game of usual length", usual
    newest: list[tuple[Shard, int]] = []
    for meta in reversed(facts.metas[numbers[-1]]):
        if (shard := readable(read_shard, meta.path, meta)) is not None:
            newest += [(shard, index) for index in range(shard.num_games)]
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
        title = f"Self-play, newest generation: {name} of {len(newest)} games"
        yield title, partial(RecordedGame.of_shard, *newest[chosen])


def _turn(shard: Shard, index: int) -> float:
    """The largest value that the loser of a game had, from the loser's viewpoint; -2 for drawn games."""
    moves = slice(int(shard.move_offsets[index]), int(shard.move_offsets[index + 1]))
    values, result = shard.root_values[moves], float(shard.results[index])
    # Not exact for every game, but good enough to choose one. With dice, a throw and its move are two plies.
    plies = 1
    with suppress(MuGoError):  # of a package that isn't here
        plies = 2 if parse_game(shard.header["game"]).has_chance else 1
    movers = np.arange(len(values)) // plies % 2
    of_first = np.where(movers == 0, values, -values)
    return float(np.max(-of_first * result)) if result and len(values) else -2.0


# Replaying them


def _replay(title: str, one: RecordedGame) -> dict[str, Any]:
    """Raises FileError for an illegal move."""
    game = one.game
    states = list(one.states())
    values = one.values_first
    board = np.zeros(game.num_points, np.int16) if isinstance(game, BoardGame) else None
    plies: list[dict[str, Any]] = []
    for ply, state in enumerate(states):
        here: dict[str, Any] = {}
        if ply:
            here |= {"move": game.move_name(states[ply - 1][0], one.moves[ply - 1]), "by": one.movers[ply - 1]}
        if ply < len(one.moves):
            value = values[ply]
            if value is not None and game.max_result == 1:
                here["winrate"] = round((1 + value) / 2, 3)
            if one.searches and not one.made_by_opponent(int(game.to_move(state)[0])):
                actions, counts = one.searches[ply]
                shares = counts / max(int(counts.sum()), 1)
                top = np.argsort(-shares, kind="stable")[:TOP_MOVES].tolist()
                here["policy"] = [[game.move_name(state[0], int(actions[i])), round(float(shares[i]), 3)] for i in top]
        if board is not None:
            now = state[0][: len(board)]
            here["changes"] = [[int(point), int(now[point])] for point in np.flatnonzero(now != board)]
            board = now.copy()
        else:
            here["diagram"] = game.diagram(state[0])
        plies.append(here)
    colours = game.colours if isinstance(game, BoardGame) else ("First player", "Second player")
    return {
        "title": title,
        "game": game.spec,
        "players": one.players,
        "colours": colours,
        "result": _result(one, states[-1], colours),
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


def _result(one: RecordedGame, state: States, colours: tuple[str, str]) -> str:
    game = one.game
    if one.result_first_player == 0:
        return "drawn"
    winner = colours[int(one.result_first_player < 0)]
    if one.end == "resigned":
        return f"{winner} wins by resignation"
    if one.end == "settled" and isinstance(game, Game):
        scores = game.settled_scores(state, game.settled_owners(state))
    else:
        scores = game.scores(state)
    margin = f" by {abs(float(scores[0])):g} points" if isinstance(game, InSgf) and game.sgf.margin else ""
    return f"{winner} wins{margin}{ENDINGS[one.end]}"
