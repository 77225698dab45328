"""``show`` for games in another program's file: a match of backgammon (.mat), records of shogi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.records import MAT_SUFFIX, MatGame, read_mat
from pipeline.families.shogi.kifu_reading import SUFFIXES as KIFU_SUFFIXES
from pipeline.families.shogi.kifu_reading import KifuGame, read_kifu
from pipeline.games.contract import AnyGame
from pipeline.games.replay import replay_one
from pipeline.reports.show_records import final_board, winner
from pipeline.reports.tables import described, indented, table

GAMES_LISTED = 20
SUFFIXES = (MAT_SUFFIX, *KIFU_SUFFIXES)


def show_foreign(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """What is in the file, then the end of its first game; with index, that game move by move."""
    game: AnyGame = Backgammon()
    if path.suffix.lower() == MAT_SUFFIX:
        what, games = "match of backgammon", list[MatGame | KifuGame](read_mat(path, Backgammon()))
    else:
        game, found = read_kifu(path)
        what, games = f"record of {game.spec.partition(',')[0]}", list[MatGame | KifuGame](found)
    if index is not None and not 0 <= index < len(games):
        raise UsageError(f"show --game: found {index}; {path} holds games 0 to {len(games) - 1}")
    if index is None:
        yield described({what: path, "games": len(games)})
        yield ""
        rows = [
            (str(i), *one.players, str(len(one.moves)), winner(one.points, game), _end(one))
            for i, one in enumerate(games[:GAMES_LISTED])
        ]
        yield table(rows, ("game", "X", "O", "plies", "result", ""), len(games) - len(rows))
        yield ""
    yield from _game(game, index or 0, games[index or 0], moves, brief=index is None)
    if index is None:
        yield ""
        yield f"More: show {path} --game N for every move of game N, and --moves for every board."


def _end(one: MatGame | KifuGame) -> str:
    """How a game stopped before its end by the rules."""
    if isinstance(one, KifuGame):
        return one.end
    return "resigned" if one.resigned else ""


def _game(game: AnyGame, index: int, one: MatGame | KifuGame, moves: bool, brief: bool) -> Iterator[str]:
    end = " by resignation" if _end(one) == "resigned" else f", {_end(one)}" if _end(one) else ""
    yield f"game {index}: X {one.players[0]}, O {one.players[1]}; {winner(one.points, game)}{end}"
    start = one.start if isinstance(one, KifuGame) else None
    state = game.initial(1) if start is None else start
    for ply, state in enumerate(replay_one(game, one.moves, start=start)):
        if brief or ply == len(one.moves):
            continue
        if moves:
            yield ""
            yield indented(game.diagram(state[0]))
        yield f"{ply:4d}  {'XO*'[int(game.to_move(state)[0])]} {game.move_name(state[0], one.moves[ply])}"
    yield from final_board(game, state, scored=not _end(one))
