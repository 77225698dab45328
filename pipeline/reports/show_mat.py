"""``show`` for a match of backgammon in another program's file (.mat): its games, and one of them move by move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.games.backgammon.game import Backgammon
from pipeline.games.replay import replay_one
from pipeline.reports.show_records import final_board, winner
from pipeline.reports.tables import described, indented, table
from pipeline.storage.gammon import MatGame, read_mat

GAMES_LISTED = 20


def show_mat(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """What is in the file, then the end of its first game; with index, that game move by move."""
    game = Backgammon()
    games = read_mat(path, game)
    if index is not None and not 0 <= index < len(games):
        raise UsageError(f"show --game: found {index}; {path} holds games 0 to {len(games) - 1}")
    if index is None:
        yield described({"match of backgammon": path, "games": len(games)})
        yield ""
        rows = [
            (str(i), *one.players, str(len(one.moves)), winner(one.points, game), "resigned" if one.resigned else "")
            for i, one in enumerate(games[:GAMES_LISTED])
        ]
        yield table(rows, ("game", "X", "O", "plies", "result", ""), len(games) - len(rows))
        yield ""
    yield from _game(game, index or 0, games[index or 0], moves, brief=index is None)
    if index is None:
        yield ""
        yield f"More: show {path} --game N for every move of game N, and --moves for every board."


def _game(game: Backgammon, index: int, one: MatGame, moves: bool, brief: bool) -> Iterator[str]:
    end = " by resignation" if one.resigned else ""
    yield f"game {index}: X {one.players[0]}, O {one.players[1]}; {winner(one.points, game)}{end}"
    state = game.initial(1)
    for ply, state in enumerate(replay_one(game, one.moves)):
        if brief or ply == len(one.moves):
            continue
        if moves:
            yield ""
            yield indented(game.diagram(state[0]))
        yield f"{ply:4d}  {'XO*'[int(game.to_move(state)[0])]} {game.move_name(state[0], one.moves[ply])}"
    yield from final_board(game, state, scored=not one.resigned)
