"""A match for a person: the result as far as it is known, by colour, and its games."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.base import Game
from pipeline.games.registry import parse_game
from pipeline.records import layout
from pipeline.records.matches import Match, MatchGame, read_match
from pipeline.reports.boards import described, flattened, indented, replayed, table

GAMES_LISTED = 12
MOVES_LISTED = 12


@dataclass(frozen=True)
class Tally:
    """The challenger's results."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    def __str__(self) -> str:
        share = f" ({self.wins / self.games:.1%} won)" if self.games else ""
        return f"{self.wins} won, {self.draws} drawn, {self.losses} lost{share}"


def tally(games: Sequence[MatchGame]) -> Tally:
    results = [game.challenger_result for game in games]
    return Tally(results.count(1), results.count(0), results.count(-1))


def show_match(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A match's result, settings and games, then the end of its first game; with index, that game move by move."""
    match = read_match(path)
    header = match.header
    game = parse_game(header.game)
    if index is not None:
        found = [one for one in match.games if one.index == index]
        if not found:
            raise UsageError(f"show --game: game {index} of {path} isn't there; it has {len(match.games)} games so far")
        yield from _game(path, game, match, found[0], moves, brief=False)
        return
    yield described(_facts(match))
    if match.summary:
        yield ""
        yield "the summary of the stage that played it:"
        yield described(dict(flattened(match.summary)))
    if not match.games:
        return
    yield ""
    yield _games_table(game, match.games)
    yield ""
    yield from _game(path, game, match, match.games[0], moves, brief=True)
    yield ""
    yield f"More: show {path} --game N for every move of game N, and --moves for every board."
    if (path / layout.MATCH_SGF).is_dir():
        yield f"Game records for any Go program: {path / layout.MATCH_SGF}"


def _facts(match: Match) -> dict[str, object]:
    header, games = match.header, match.games
    lengths = np.array([game.length for game in games])
    facts: dict[str, object] = {
        "match": match.folder,
        "game": header.game,
        "challenger": header.challenger,
        "champion": header.champion,
        "games": f"{len(games)} of {header.games}" + ("" if match.summary else ", not decided yet"),
        "challenger in all": tally(games),
        "  moving first": tally([game for game in games if game.challenger_player == 0]),
        "  moving second": tally([game for game in games if game.challenger_player == 1]),
    }
    if games:
        distinct = len({tuple(game.moves) for game in games})
        facts["plies"] = f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average"
        facts["distinct games"] = f"{distinct} of {len(games)}"
    return {**facts, **dict(flattened(header.settings))}


def _games_table(game: Game, games: Sequence[MatchGame]) -> str:
    rows = []
    for one in games[:GAMES_LISTED]:
        opening = " ".join(game.action_name(move) for move in one.moves[: one.opening_plies]) or "-"
        result = {1: "won", 0: "drawn", -1: "lost"}[one.challenger_result]
        rows.append((str(one.index), "XO"[one.challenger_player], result, str(one.length), opening))
    text = table(rows, ("game", "challenger", "result", "plies", "opening"))
    left = len(games) - len(rows)
    return text + (f"\n… and {left} more" if left else "")


def _game(path: Path, game: Game, match: Match, one: MatchGame, moves: bool, brief: bool) -> Iterator[str]:
    """One game. brief: its moves in a line and the final board; else a line per move, with boards if moves."""
    names = (match.header.challenger, match.header.champion)
    first, second = names if one.challenger_player == 0 else names[::-1]
    result = {1: "X wins", 0: "draw", -1: "O wins"}[one.result_first_player]
    yield f"game {one.index}: X {first}, O {second}; {result} after {one.length} plies"
    state = None
    try:
        for ply, state in enumerate(replayed(game, np.array(one.moves, np.int32))):
            if brief or ply == one.length:
                continue
            if moves:
                yield ""
                yield indented(game.diagram(state[0]))
            value = one.values_to_move[ply]
            said = "opening" if ply < one.opening_plies else "" if value is None else f"value {value:+.2f}"
            yield f"{ply:4d}  {'XO'[int(game.to_move(state)[0])]} {game.action_name(one.moves[ply]):<5} {said}".rstrip()
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {one.index}: {error}") from error
    if brief:
        shown = " ".join(game.action_name(move) for move in one.moves[:MOVES_LISTED])
        yield f"    {shown}{' …' if one.length > MOVES_LISTED else ''}"
    if state is not None:
        yield indented(game.diagram(state[0]))
        yield f"    score of X: {float(game.scores(state)[0]):+g}"
