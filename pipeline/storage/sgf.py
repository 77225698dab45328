"""Game records in SGF, the format that every Go program opens: FF[4], one game a file, UTF-8.

Writes games that say how (Game.sgf). Doesn't read SGF.
Coordinates are letters from the upper left corner, column first; a pass is an empty move.
Source: https://www.red-bean.com/sgf/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pipeline.games.base import Game
from pipeline.games.replay import replay_one

COLOURS = "BW"  # the first player is black


@dataclass(frozen=True)
class SgfText:
    """What a record says besides the moves. black, white: who played; any text may be empty."""

    black: str
    white: str
    event: str = ""
    round: str = ""
    comment: str = ""


def sgf_name(index: int) -> str:
    """The file name of a match's game, counted from 0."""
    return f"{index:06d}.sgf"


def game_sgf(
    game: Game, moves: Sequence[int], text: SgfText, comments: Sequence[str] = (), resigned: bool = False
) -> str:
    """The record of one game from the initial position.

    comments: one per move, "" for none; may be shorter than moves. resigned: the player to move after them gave up.
    The result is computed from the moves: RE[B+7.5] in Go, RE[B+] in Gomoku, RE[0] for a draw, RE[B+R] where white
    resigned, RE[?] if the game isn't over. The rules of Gomoku are the options of its spec, or "free".
    Raises IllegalMove for a move that the rules forbid.
    """
    form = game.sgf
    assert form is not None, f"{game.spec} isn't written in SGF"
    *before, state = replay_one(game, moves)
    nodes = [
        f";{COLOURS[int(game.to_move(here)[0])]}[{_point(game, move)}]" + _property("C", comment or "")
        for here, move, comment in zip_longest(before, moves, comments[: len(moves)])
    ]
    result = "?"
    if game.is_over(state)[0]:
        score = float(game.scores(state)[0])
        margin = f"{abs(score):g}" if form.margin else ""
        result = f"{COLOURS[score < 0]}+{margin}" if score else "0"
    elif resigned:
        result = f"{COLOURS[1 - int(game.to_move(state)[0])]}+R"
    header = [
        _property("FF", "4"),
        _property("GM", str(form.game)),
        _property("CA", "UTF-8"),
        _property("AP", "MuGo:1"),
        _property("SZ", str(game.board_shape[0])),
        _property("KM", "" if form.komi is None else f"{form.komi:g}"),
        _property("RU", form.rules),
        _property("PB", text.black),
        _property("PW", text.white),
        _property("EV", text.event),
        _property("RO", text.round),
        _property("RE", result),
        _property("C", text.comment),
    ]
    return f"(;{''.join(header)}\n" + "\n".join(nodes) + ")\n"


def _point(game: Game, move: int) -> str:
    if move == game.pass_action:
        return ""
    row, column = divmod(move, game.board_shape[1])
    return chr(ord("a") + column) + chr(ord("a") + row)


def _property(name: str, value: str) -> str:
    """``NAME[value]`` with what must be escaped escaped; nothing for an empty value."""
    if not value:
        return ""
    escaped = value.replace("\\", "\\\\").replace("]", "\\]")
    return f"{name}[{escaped}]"
