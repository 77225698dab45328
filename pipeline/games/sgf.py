"""Game records in SGF, which every program of board games opens: FF[4], one game a file, UTF-8.

Writes games that have an ``Sgf``, and reads the main line of any record of such a game, handicap and setup stones
included. Doesn't read variations or stones that are set up after the first move. A game whose moves aren't points of
its board writes its own SGF (AnyGame.own_sgf). Coordinates are letters from the upper left corner, column first; a pass
is an empty move.
Source: https://www.red-bean.com/sgf/
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from pipeline.errors import MuGoError
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.records import PlayedGame, RecordFormat
from pipeline.games.replay import replay_one

COLOURS = "BW"  # the first player is black
SETUP = ("AB", "AW", "AE")
MOST_BYTES = 4 << 20

# Python's encodings of texts. Its others (punycode, idna) take long or fail for some texts.
_CHARSETS = b"utf|ascii|us|iso|latin|l1|cp|windows|gb|hz|big5|euc|shift|sjis|koi8|mac"
_CHARSET = re.compile(rb"CA\[((?:%b)[\w-]{0,20})\]" % _CHARSETS, re.IGNORECASE)
_BEGIN = re.compile(r"\(\s*;")
_TOKEN = re.compile(r"(?P<mark>[();])|(?P<name>[A-Za-z]+)|\[(?P<value>(?:[^\]\\]|\\.)*)\]", re.DOTALL)


class AnotherGame(MuGoError):
    """A record of another game or board size than expected."""


class SgfFormat(RecordFormat):
    """The format "sgf" of ``mugo.records``. Has no read(): read_sgf must know the game beforehand."""

    suffixes = (".sgf",)

    def is_for(self, game: AnyGame) -> bool:
        return game.sgf is not None or game.has_own_sgf

    def refusal(self, game: AnyGame) -> str:
        return "" if self.is_for(game) else f"{game.spec} isn't written in SGF"

    def write(self, game: AnyGame, played: PlayedGame) -> str:
        if game.has_own_sgf:
            return game.own_sgf(played)
        assert isinstance(game, Game)
        states = list(replay_one(game, played.moves, played.stones, played.start))
        return line_sgf(game, states, [int(game.to_move(here)[0]) for here in states[:-1]], played)


def sgf_name(index: int) -> str:
    """The file name of a match's game, counted from 0."""
    return f"{index:06d}.sgf"


def line_sgf(game: Game, states: Sequence[States], players: Sequence[int], played: PlayedGame) -> str:
    """The record of any line of play, also from a position that was set up or with moves out of turn.

    states: T + 1 positions [1, S]; players [T]: who made each move of `played`, whose stones and start aren't read.
    The result is that of the last position: RE[B+7.5] where the game has a margin, else RE[B+], RE[0] for a draw,
    RE[B+R] where white resigned, RE[?] if the game isn't over.
    """
    form, state, text = game.sgf, states[-1], played.text
    assert form is not None, f"{game.spec} isn't written in SGF"
    # Sabaki shows these; each stands in the node before its move.
    shown = [sgf_property("SBKV", "" if winrate is None else f"{winrate:.2f}") for winrate in played.winrates]
    T = len(players)
    nodes = [
        f";{COLOURS[player]}[{_point(game, move)}]{winrate or ''}" + sgf_property("C", comment or "")
        for player, move, winrate, comment in zip_longest(players, played.moves, shown[1:T], played.comments[:T])
    ]
    result = "?"
    if game.is_over(state)[0] or played.settled:
        scores = game.settled_scores(state, game.settled_owners(state)) if played.settled else game.scores(state)
        margin = f"{abs(float(scores[0])):g}" if form.margin else ""
        result = f"{COLOURS[int(scores[0] < 0)]}+{margin}" if scores[0] else "0"
    elif played.resigned_by is not None:
        result = f"{COLOURS[1 - played.resigned_by]}+R"
    header = [
        sgf_property("FF", "4"),
        sgf_property("GM", str(form.game)),
        sgf_property("CA", "UTF-8"),
        sgf_property("AP", "MuGo:1"),
        sgf_property("SZ", str(game.board_shape[0])),
        sgf_property("KM", "" if game.komi is None else f"{game.komi:g}"),
        sgf_property("RU", form.rules),
        sgf_property("PB", text.first),
        sgf_property("PW", text.second),
        sgf_property("EV", text.event),
        sgf_property("RO", text.round),
        sgf_property("RE", result),
        *_setup(game, states[0]),
        *shown[:1],
        sgf_property("C", text.comment),
    ]
    return f"(;{''.join(header)}\n" + "\n".join(nodes) + ")\n"


def _setup(game: Game, state: States) -> list[str]:
    """Properties of the stones on the board before the first move, and of who makes it; none for the initial position.
    """
    if np.array_equal(state, game.initial(1)) or not game.can_set_up:
        return []
    points = state[0][: game.num_points]
    stones = [np.flatnonzero(points == player + 1).tolist() for player in range(2)]
    handicap = len(stones[0]) if not stones[1] and len(stones[0]) > 1 else 0
    found = [sgf_property("HA", str(handicap) if handicap else "")]
    for name, of_player in zip(SETUP, stones, strict=False):
        if of_player:
            found.append(name + "".join(f"[{_point(game, point)}]" for point in of_player))
    return [*found, sgf_property("PL", COLOURS[int(game.to_move(state)[0])])]


@dataclass(frozen=True)
class SgfRecord:
    """The main line of a record.

    start                 [1, S] the position before the first move; None: the game's initial one
    moves                 (player, action), players need not take turns
    black, white, result  as the record names them; may be empty
    komi                  None if the game has none or the record gives no number
    """

    start: States | None
    moves: list[tuple[int, int]]
    black: str = ""
    white: str = ""
    result: str = ""
    komi: float | None = None


def is_sgf(data: bytes) -> bool:
    """Whether the data contain the beginning of a game."""
    return _BEGIN.search(_decoded(data)) is not None


def read_sgf(data: bytes, game: Game) -> SgfRecord:
    """Read the first game of a collection. Doesn't check moves against the rules.

    Raises AnotherGame for another game or size, MuGoError for data that aren't SGF or a point off the board.
    """
    nodes = _main_line(data)
    root, form = nodes[0], game.sgf
    if form is None:
        raise MuGoError(f"{game.spec} isn't written in SGF")
    kind, size = root.get("GM", ["1"])[0].strip(), root.get("SZ", ["19"])[0].strip()
    width, _, height = size.partition(":")
    if kind != str(form.game):
        raise AnotherGame(f"SGF: GM[{kind[:10]}] is another game; {game.spec} is GM[{form.game}]")
    if (height or width, width) != tuple(map(str, game.board_shape)):
        raise AnotherGame(f"SGF: the board is {size[:10]}; {game.spec} is played on {game.board_shape[1]}")
    start = _start(root, game)
    moves = []
    for number, node in enumerate(nodes):
        if number and any(name in node for name in SETUP):
            raise MuGoError(f"SGF: stones are set up in node {number}, after the first; only moves can follow")
        for player, colour in enumerate(COLOURS):
            for text in node.get(colour, []):
                moves.append((player, _action(text.strip(), game)))
    named = {key: root.get(name, [""])[0].strip() for key, name in (("black", "PB"), ("white", "PW"), ("result", "RE"))}
    komi = None if game.komi is None else _number(root.get("KM", [""])[0])
    return SgfRecord(start, moves, **named, komi=komi)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number + 0.0 if math.isfinite(number) else None  # no -0


def _start(root: dict[str, list[str]], game: Game) -> States | None:
    stones: list[list[int]] = [[], []]
    for name, of_player in zip(SETUP, stones, strict=False):
        for text in root.get(name, []):
            of_player += _points(text, game)
            if len(of_player) > game.num_points:
                raise MuGoError(f"SGF: {name} sets up more stones than {game.spec} has points")
    to_move = root.get("PL", ["W" if stones[0] and not stones[1] else "B"])[0].strip().upper()[:1]
    if not any(stones):
        return None
    if not game.can_set_up:
        raise MuGoError(f"SGF: stones are set up, and {game.spec} begins at its initial position")
    return game.position(stones[0], stones[1], int(to_move == "W"))


def _points(text: str, game: Game) -> list[int]:
    """A point, or the points of a rectangle ``aa:cc`` in SGF's compressed lists."""
    corners = [divmod(_action(part.strip(), game), game.board_shape[1]) for part in text.split(":")]
    (top, left), (bottom, right) = corners[0], corners[-1]
    width = game.board_shape[1]
    return [row * width + column for row in range(top, bottom + 1) for column in range(left, right + 1)]


def _action(text: str, game: Game) -> int:
    """The inverse of _point. On boards up to 19×19 ``tt`` is a pass, too, as in FF[3]."""
    height, width = game.board_shape
    if text == "" or (text == "tt" and max(height, width) <= 19):
        if game.pass_action is None:
            raise MuGoError(f"SGF: a pass, and {game.spec} has none")
        return game.pass_action
    column, row = (ord(letter) - ord("a") for letter in text) if len(text) == 2 else (-1, -1)
    if not (0 <= column < width and 0 <= row < height):
        raise MuGoError(f"SGF: [{text[:10]}] is no point of {game.spec}")
    return row * width + column


def _main_line(data: bytes) -> list[dict[str, list[str]]]:
    """The properties of the nodes from the root along the first variations."""
    if len(data) > MOST_BYTES:
        raise MuGoError(f"SGF: {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    text = _decoded(data)
    begin = _BEGIN.search(text)
    if begin is None:
        raise MuGoError("SGF: no game found; wanted a text that begins with (;")
    nodes: list[dict[str, list[str]]] = []
    name = ""
    for match in _TOKEN.finditer(text, begin.start()):
        mark, word, value = match["mark"], match["name"], match["value"]
        if mark == ";":
            nodes.append({})
        elif mark == ")":
            break  # the end of the first variation
        elif word:
            name = "".join(letter for letter in word if letter.isupper())
        elif value is not None and nodes:
            nodes[-1].setdefault(name, []).append(re.sub(r"\\(\r\n|\n|.)", r"\1", value, flags=re.DOTALL))
    return nodes


def _decoded(data: bytes) -> str:
    charset = _CHARSET.search(data)
    try:
        return data.decode(charset[1].decode() if charset else "utf-8", errors="replace")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", errors="replace")


def _point(game: Game, move: int) -> str:
    if move == game.pass_action:
        return ""
    row, column = divmod(move, game.board_shape[1])
    return chr(ord("a") + column) + chr(ord("a") + row)


def sgf_property(name: str, value: str) -> str:
    """``NAME[value]``, escaped; nothing for an empty value."""
    if not value:
        return ""
    escaped = value.replace("\\", "\\\\").replace("]", "\\]")
    return f"{name}[{escaped}]"
