"""``show`` for another program's game records, in any readable format of games/records.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame
from pipeline.games.records import ReadGame, RecordFormat
from pipeline.games.replay import replay_one
from pipeline.reports.show_records import final_board, more, move_lines, winner
from pipeline.reports.tables import described, table

GAMES_LISTED = 20


def show_foreign(form: RecordFormat, path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """The file's games, then the end of the first one. With index, that game move by move."""
    game, games = form.read(path)
    if index is not None and not 0 <= index < len(games):
        raise UsageError(f"show --game: found {index}; {path} holds games 0 to {len(games) - 1}")
    if index is None:
        yield described({f"{form.holds} of {game.spec.partition(',')[0]}": path, "games": len(games)})
        yield ""
        rows = [
            (str(i), *one.players, str(len(one.moves)), winner(one.points, game), one.end)
            for i, one in enumerate(games[:GAMES_LISTED])
        ]
        yield table(rows, ("game", "X", "O", "plies", "result", ""), len(games) - len(rows))
        yield ""
    yield from _game(game, index or 0, games[index or 0], moves, brief=index is None)
    if index is None:
        yield from more(path)


def _game(game: AnyGame, index: int, one: ReadGame, moves: bool, brief: bool) -> Iterator[str]:
    end = " by resignation" if one.end == "resigned" else f", {one.end}" if one.end else ""
    yield f"game {index}: X {one.players[0]}, O {one.players[1]}; {winner(one.points, game)}{end}"
    state = one.start
    for ply, state in enumerate(replay_one(game, one.moves, start=one.start)):
        if not brief and ply < len(one.moves):
            yield from move_lines(game, state, ply, one.moves[ply], moves)
    yield from final_board(game, state, scored=not one.end)
