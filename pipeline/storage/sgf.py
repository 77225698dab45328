"""Game records in SGF, the format that every Go program opens: FF[4], one game a file, UTF-8.

Writes games that the format knows (GM in the standard's list of games); has_sgf() says which. Doesn't read SGF.
Coordinates are letters from the upper left corner, column first; a pass is an empty move.
Source: https://www.red-bean.com/sgf/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeGuard

from pipeline.games.base import Game
from pipeline.games.go.game import Go
from pipeline.games.gomoku.game import Gomoku
from pipeline.games.replay import replay_one

GAME_CODES = {Go: 1, Gomoku: 4}  # the standard's GM numbers, of the games that can be written
# Area scoring, superko, no suicide: of the names that other programs know, the Chinese rules come closest.
GO_RULES = "Chinese"
COLOURS = "BW"  # the first player is black


@dataclass(frozen=True)
class SgfText:
    """What a record says besides the moves. black, white: who played; any text may be empty."""

    black: str
    white: str
    event: str = ""
    round: str = ""
    comment: str = ""


def has_sgf(game: Game) -> TypeGuard[Go | Gomoku]:
    return type(game) in GAME_CODES


def sgf_name(index: int) -> str:
    """The file name of a match's game, counted from 0."""
    return f"{index:06d}.sgf"


def game_sgf(
    game: Go | Gomoku, moves: Sequence[int], text: SgfText, comments: Sequence[str] = (), resigned: bool = False
) -> str:
    """The record of one game from the initial position.

    comments: one per move, "" for none; may be shorter than moves. resigned: the player to move after them gave up.
    The result is computed from the moves: RE[B+7.5] in Go, RE[B+] in Gomoku, RE[0] for a draw, RE[B+R] where white
    resigned, RE[?] if the game isn't over. The rules of Gomoku are the options of its spec, or "free".
    Raises IllegalMove for a move that the rules forbid.
    """
    *before, state = replay_one(game, moves)
    nodes = [
        f";{COLOURS[int(game.to_move(here)[0])]}[{_point(game, move)}]" + _property("C", comment or "")
        for here, move, comment in zip_longest(before, moves, comments[: len(moves)])
    ]
    result = "?"
    if game.is_over(state)[0]:
        score = float(game.scores(state)[0])
        margin = f"{abs(score):g}" if isinstance(game, Go) else ""
        result = f"{COLOURS[score < 0]}+{margin}" if score else "0"
    elif resigned:
        result = f"{COLOURS[1 - int(game.to_move(state)[0])]}+R"
    header = [
        _property("FF", "4"),
        _property("GM", str(GAME_CODES[type(game)])),
        _property("CA", "UTF-8"),
        _property("AP", "MuGo:1"),
        _property("SZ", str(game.size)),
        _property("KM", f"{game.komi:g}" if isinstance(game, Go) else ""),
        _property("RU", GO_RULES if isinstance(game, Go) else game.spec.partition(",")[2] or "free"),
        _property("PB", text.black),
        _property("PW", text.white),
        _property("EV", text.event),
        _property("RO", text.round),
        _property("RE", result),
        _property("C", text.comment),
    ]
    return f"(;{''.join(header)}\n" + "\n".join(nodes) + ")\n"


def _point(game: Go | Gomoku, move: int) -> str:
    if isinstance(game, Go) and move == game.pass_action:
        return ""
    row, column = divmod(move, game.size)
    return chr(ord("a") + column) + chr(ord("a") + row)


def _property(name: str, value: str) -> str:
    """``NAME[value]`` with what must be escaped escaped; nothing for an empty value."""
    if not value:
        return ""
    escaped = value.replace("\\", "\\\\").replace("]", "\\]")
    return f"{name}[{escaped}]"
