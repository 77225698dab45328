"""Game records in SGF, which every program of board games opens: FF[4], one game a file, UTF-8.

Writes games that are ``InSgf``, and reads the main line of any record of such a game: handicap, stones that are set
up before or between moves, and what programs write against the standard (docs/files.md). Doesn't read variations. A
game whose moves aren't points of its board writes its own SGF (OwnSgf). Coordinates are letters from the upper
left corner, column first; a pass is an empty move.

A record is read whole or not at all. What was skipped, guessed or unreadable is in its notes.
Source: https://www.red-bean.com/sgf/
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.games.capabilities import AnyPosition, InSgf, Komi, OwnSgf
from pipeline.games.contract import AnyGame, Game, History, States
from pipeline.games.encodings import Text, decode
from pipeline.games.records import PlayedGame, RecordFormat
from pipeline.games.replay import replay_one

COLOURS = "BW"  # the first player is black
SETUP = ("AB", "AW", "AE")
MOST_BYTES = 4 << 20

MOST_NOTES = 5  # words of what was skipped
MOST_SETUPS = 1000  # between moves
DIGITS = str.maketrans("〇一二三四五六七八九,·", "0123456789..")
FRACTIONS = {"¼": ".25", "½": ".5", "¾": ".75"}

_CHARSET = re.compile(rb"(?<![A-Z])CA\s*\[([^\]]{1,20})\]")
_BEGIN = re.compile(r"\(\s*;|\A\s*\(\s*[A-Z][A-Za-z]*\s*\[")  # some programs leave the first ; out
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]*)\s*(?=\[)")
_VALUE = re.compile(r"((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_BRACKET = re.compile(r"\\.|[\[\]]", re.DOTALL)
_KOMI_VALUE = re.compile(r"(?<![A-Z])KM\[([^\]]+)\]")
_WHOLE_VALUE = re.compile(r"\[(?:[^\]\\]|\\.)*+(?:\]|\Z)", re.DOTALL)  # the last one may lack its end
_ODD_ESCAPE = re.compile(r"\\[^\]\[\\:\r\n]")
_OUTSIDE = re.compile(r"[^\sA-Za-z0-9();]+")
_OPEN = re.compile(r"(?:[^\\\[]|\\.)*\[", re.DOTALL)  # a [ that isn't escaped
_AFTER_VALUE = re.compile(r"\s*(?:[();\[]|[A-Za-z][A-Za-z0-9]*\s*\[|\Z)")
_STRAY = re.compile(r"[^\s();\[\]]+|\]")
_SIZE = re.compile(r"(\d{1,3})(?:\.0)?\s*(?:[:xX×*]\s*(\d{1,3}))?\s*(?:路盤?|道|줄)?", re.ASCII)
_KOMI = re.compile(
    r"(?:chinese|japanese)?\s*[黑黒]?(?:コミ|komi|贴|貼)?\s*([+-]?\d{1,4}(?:\.\d{1,12})?)(?:(?:又|\s+)(\d)/(\d))?\s*"
    r"(?:目|子|点|點|집|points?|pts?|moku)?\s*(半|반)?\s*(?:コミ)?(?:出し)?\s*(?:\((?:chinese|japanese)\))?",
    re.IGNORECASE | re.ASCII,
)


class AnotherGame(MuGoError):
    """A record of another game or board size than expected."""


class SgfFormat(RecordFormat):
    """The format "sgf" of ``mugo.records``. Has no read(): read_sgf must know the game beforehand."""

    suffixes = (".sgf",)

    def is_for(self, game: AnyGame) -> bool:
        return isinstance(game, InSgf | OwnSgf)

    def refusal(self, game: AnyGame) -> str:
        return "" if self.is_for(game) else f"{game.spec} isn't written in SGF"

    def write(self, game: AnyGame, played: PlayedGame) -> str:
        if isinstance(game, OwnSgf):
            return game.own_sgf(played)
        assert isinstance(game, InSgf)
        states = list(replay_one(game, played.moves, played.stones, played.start))
        return line_sgf(game, states, [int(game.to_move(here)[0]) for here in states[:-1]], played)


def sgf_name(index: int) -> str:
    """The file name of a match's game, counted from 0."""
    return f"{index:06d}.sgf"


def line_sgf(game: InSgf, states: Sequence[States], players: Sequence[int], played: PlayedGame) -> str:
    """The record of any line of play, also from a position that was set up or with moves out of turn.

    states: T + 1 positions [1, S]; players [T]: who made each move of `played`, whose stones and start aren't read.
    The result is that of the last position: RE[B+7.5] where the game has a margin, else RE[B+], RE[0] for a draw,
    RE[B+R] where white resigned, RE[?] if the game isn't over.
    """
    form, state, text = game.sgf, states[-1], played.text
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
    setup = _setup(game, states[0])
    has_handicap = any(one.startswith("HA") for one in setup)
    header = [
        sgf_property("FF", "4"),
        sgf_property("GM", str(form.game)),
        sgf_property("CA", "UTF-8"),
        sgf_property("AP", "MuGo:1"),
        sgf_property("SZ", str(game.board_shape[0])),
        sgf_property("KM", f"{game.komi:g}" if isinstance(game, Komi) else ""),
        sgf_property("RU", (has_handicap and form.rules_with_handicap) or form.rules),
        sgf_property("PB", text.first),
        sgf_property("PW", text.second),
        sgf_property("EV", text.event),
        sgf_property("RO", text.round),
        sgf_property("RE", result),
        *setup,
        *shown[:1],
        sgf_property("C", text.comment),
    ]
    return f"(;{''.join(header)}\n" + "\n".join(nodes) + ")\n"


def _setup(game: Game, state: States) -> list[str]:
    """Properties of the stones on the board before the first move, and of who makes it; none for the initial position.
    """
    if np.array_equal(state, game.initial(1)) or not isinstance(game, AnyPosition):
        return []
    points = state[0][: game.num_points]
    stones = [np.flatnonzero(points == player + 1).tolist() for player in range(2)]
    to_move = int(game.to_move(state)[0])
    handicap = len(stones[0]) if to_move == 1 and not stones[1] and len(stones[0]) > 1 else 0
    found = [sgf_property("HA", str(handicap) if handicap else "")]
    for name, of_player in zip(SETUP, stones, strict=False):
        if of_player:
            found.append(name + "".join(f"[{_point(game, point)}]" for point in of_player))
    return [*found, sgf_property("PL", COLOURS[to_move])]


@dataclass(frozen=True)
class MainLine:
    """The first game of a file, along the first variations.

    nodes  the properties of each node: values by name
    notes  the encoding, if it isn't UTF-8, and what was skipped
    """

    nodes: list[dict[str, list[str]]]
    notes: tuple[str, ...] = ()

    def root(self, name: str) -> str:
        """The first value of a property before the first move, which should be the root's; "" without one."""
        for node in self.nodes:
            if name in node:
                return node[name][0].strip()
            if not node.keys().isdisjoint(COLOURS):
                break
        return ""

    @property
    def kind(self) -> str:
        """The number of the game in SGF, GM; "" if it isn't given."""
        kind = self.root("GM")
        return str(int(kind)) if len(kind) < 10 and kind.isascii() and kind.isdecimal() else kind

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the board. Raises MuGoError for a size that is none."""
        size = self.root("SZ") or "19"
        found = _SIZE.fullmatch(unicodedata.normalize("NFKC", size))
        if found is None:
            raise MuGoError(f"SGF: SZ[{size[:10]}] is no size of a board; wanted e.g. SZ[19]")
        return int(found[2] or found[1]), int(found[1])


@dataclass(frozen=True)
class SgfRecord:
    """The main line of a record.

    start                 [1, S] the position before the first move; None: the game's initial one
    moves                 (player, action), players need not take turns
    black, white, result  as the record names them; may be empty
    komi                  in points; None if the game has none or the record gives no number
    setups                [1, S] positions by the number of the move before which stones were set up; 0 is start
    notes                 what to tell people: as in MainLine, and what was guessed or is unreadable
    """

    start: States | None
    moves: list[tuple[int, int]]
    black: str = ""
    white: str = ""
    result: str = ""
    komi: float | None = None
    setups: Mapping[int, States] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def is_sgf(data: bytes) -> bool:
    """Whether the data contain the beginning of a game."""
    try:
        return _BEGIN.search(_decoded(data).text) is not None
    except MuGoError:
        return False


def read_sgf(data: bytes, game: Game) -> SgfRecord:
    """Read the first game of a collection. Checks only moves before stones that are set up between moves.

    Raises AnotherGame for another game or size, MuGoError for data that aren't SGF, a point off the board, or stones
    that give no position.
    """
    return record_of(main_line(data), game)


def record_of(line: MainLine, game: Game) -> SgfRecord:
    """The same for a file that is parsed already."""
    if not isinstance(game, InSgf):
        raise MuGoError(f"{game.spec} isn't written in SGF")
    form = game.sgf
    if (kind := line.kind or "1") != str(form.game):
        raise AnotherGame(f"SGF: GM[{kind[:10]}] is another game; {game.board_title} is GM[{form.game}]")
    if line.shape != game.board_shape:
        found, wanted = ("×".join(map(str, reversed(shape))) for shape in (line.shape, game.board_shape))
        raise AnotherGame(f"SGF: the board is {found}; wanted {wanted}")
    notes = [*line.notes]
    komi = None
    if isinstance(game, Komi):
        komi, note = read_komi(line.root("KM") or line.root("KO"))
        notes += [note] if note else []
    steps = _steps(line, game)
    points, note = _handicap(line.root("HA"), steps, game)
    notes += [note] if note else []
    moves, positions = _followed([_Setup(0, dict.fromkeys(points, 0), 1), *steps] if points else steps, game)
    start = positions.pop(0, None)
    if start is not None and np.array_equal(start, game.initial(1)):
        start = None
    names = {key: line.root(name) for key, name in (("black", "PB"), ("white", "PW"), ("result", "RE"))}
    return SgfRecord(start, moves, **names, komi=komi, setups=positions, notes=tuple(notes))


def read_komi(text: str) -> tuple[float | None, str]:
    """(points, a note for people) of a komi as people and programs write it: 6.5, 6,5, 6.5目, 5目半, 650.

    Numbers from 100 on are hundredths. Quarters are stones of Chinese counting, two points each: 3.75 and 375 are 7.5
    points. (None, "") for an empty text, (None, a note) for an unreadable one.
    """
    plain = text.strip()
    for fraction, decimals in FRACTIONS.items():
        plain = plain.replace(fraction, decimals)
    plain = unicodedata.normalize("NFKC", plain).translate(DIGITS)
    found = _KOMI.fullmatch(plain)
    if found is None:
        return None, f"its komi {text.strip()[:20]!r} is unreadable" if plain else ""
    number = float(found[1]) + (0.5 if found[4] else 0.0)
    if found[2] and found[3] != "0":
        number += int(found[2]) / int(found[3])
    komi = number / 100 if abs(number) >= 100 and number % 25 == 0 else number
    if komi % 0.5 == 0.25:
        komi *= 2
    points = f"{komi:g} {'point' if komi == 1 else 'points'}"
    note = f"its komi {text.strip()[:20]} is read as {points}" if komi != number else ""
    return komi + 0.0, note  # no -0


@dataclass
class _Setup:
    """Stones that are set up: by point the player, None for an empty point. turn: who moves next; None: not said."""

    node: int
    stones: dict[int, int | None] = field(default_factory=dict)
    turn: int | None = None


def _steps(line: MainLine, game: Game) -> list[tuple[int, int] | _Setup]:
    """The moves of a line and what is set up between them, in order. Raises MuGoError."""
    steps: list[tuple[int, int] | _Setup] = []
    for number, node in enumerate(line.nodes):
        for name, values in node.items():
            if name in COLOURS:
                try:
                    steps += [(COLOURS.index(name), _action(value, game)) for value in values]
                except MuGoError as error:
                    raise MuGoError(f"{error} (node {number})") from error
            elif name in (*SETUP, "PL"):
                here = steps[-1] if steps else None
                if not isinstance(here, _Setup):
                    steps.append(here := _Setup(number))
                _set_up(here, name, values, game)
    return steps


def _set_up(here: _Setup, name: str, values: list[str], game: Game) -> None:
    if name == "PL":
        here.turn = {"W": 1, "2": 1, "B": 0, "1": 0}.get(values[0].strip().upper()[:1])
        return
    player, count = (None if name == "AE" else SETUP.index(name)), 0
    for value in filter(str.strip, values):
        points = _points(value, game)
        count += len(points)
        if count > game.num_points:
            raise MuGoError(f"SGF: {name} sets up more stones than {game.title_here} has points")
        here.stones |= dict.fromkeys(points, player)


def _handicap(text: str, steps: list[tuple[int, int] | _Setup], game: Game) -> tuple[list[int], str]:
    """(points, a note for people) of a handicap that is only a number, as servers write it: the usual points."""
    if not (text.isascii() and text.isdecimal()):
        return [], f"its handicap {text[:20]!r} is no number" if text else ""
    if int(text[:3]) < 2 or not isinstance(game, AnyPosition):
        return [], ""
    mover = next((step[0] for step in steps if not isinstance(step, _Setup)), 1)
    if mover == 0 or (steps and isinstance(steps[0], _Setup) and steps[0].stones):
        return [], ""  # it is set up, or played move by move
    try:
        points = game.handicap(int(text[:3]))
    except UsageError:
        return [], f"no stones are given for its handicap of {text[:3]}, and none are placed"
    return points, f"no stones are given for its handicap of {text}: they are placed on the usual points"


def _followed(steps: list[tuple[int, int] | _Setup], game: Game) -> tuple[list[tuple[int, int]], dict[int, States]]:
    """The moves, and the positions that are set up, by the number of the move before which they are.

    Raises MuGoError for a game that begins at its initial position, for stones that give no position, and for an
    illegal move before a setup.
    """
    moves: list[tuple[int, int]] = []
    positions: dict[int, States] = {}
    rules = game.without_move_limit()
    state, history, done = game.initial(1), History.empty(1, len(steps) + 1), 0
    history.append(np.arange(1), game.keys(state))
    for index, step in enumerate(steps):
        if not isinstance(step, _Setup):
            moves.append(step)
            continue
        if not isinstance(game, AnyPosition):
            if step.stones:
                raise MuGoError(f"SGF: stones are set up, and {game.board_title} begins at its initial position")
            continue
        following = steps[index + 1 : index + 2]
        if not step.stones and following:
            continue  # the next move says whose turn it is
        if len(positions) == MOST_SETUPS:
            raise MuGoError(f"SGF: stones are set up more than {MOST_SETUPS} times")
        for player, action in moves[done:]:
            done += 1
            try:
                if int(rules.to_move(state)[0]) != player or rules.is_over(state)[0]:
                    state = game.with_turn(state, player)
                state = rules.play(state, np.array([action], np.int32), history)
            except IllegalMove as error:
                raise MuGoError(f"SGF: move {done}, before stones are set up: {error}") from error
            history.append(np.arange(1), game.keys(state))
        stones = dict(enumerate(state[0, : game.num_points].tolist()))
        stones |= {point: 0 if player is None else player + 1 for point, player in step.stones.items()}
        of_player = [[point for point, stone in stones.items() if stone == player + 1] for player in range(2)]
        turn = step.turn
        if turn is None and following and not isinstance(following[0], _Setup):
            turn = following[0][0]
        if turn is None:
            turn = int(game.to_move(state)[0]) if moves else int(bool(of_player[0]) and not of_player[1])
        try:
            state = game.position(of_player[0], of_player[1], turn)
        except IllegalMove as error:
            raise MuGoError(f"SGF: the stones that node {step.node} sets up: {error}") from error
        history = History.empty(1, len(steps) + 1)
        history.append(np.arange(1), game.keys(state))
        positions[len(moves)] = state
    return moves, positions


def _points(text: str, game: Game) -> list[int]:
    """A point, or the points of a rectangle ``aa:cc`` in SGF's compressed lists, by any two opposite corners."""
    corners, width = [_action(part, game) for part in text.split(":")], game.board_shape[1]
    if len(corners) > 2 or max(corners) >= game.num_points:
        raise MuGoError(f"SGF: [{text[:10]}] is no point of {game.title_here}")
    rows, columns = zip(*(divmod(corner, width) for corner in corners), strict=True)
    return [
        row * width + column
        for row in range(min(rows), max(rows) + 1)
        for column in range(min(columns), max(columns) + 1)
    ]


def _action(text: str, game: Game) -> int:
    """The inverse of _point. On boards up to 19×19 ``tt`` is a pass, too, as in FF[3]."""
    height, width = game.board_shape
    text = "".join(text.split())
    if text == "" or (text == "tt" and max(height, width) <= 19):
        if game.pass_action is None:
            raise MuGoError(f"SGF: a pass, and {game.board_title} has none")
        return game.pass_action
    column, row = (ord(letter) - ord("a") for letter in text) if len(text) == 2 else (-1, -1)
    if not (0 <= column < width and 0 <= row < height):
        raise MuGoError(f"SGF: [{text[:10]}] is no point of {game.title_here}")
    return row * width + column


def main_line(data: bytes) -> MainLine:
    """Parse a file. Raises MuGoError for data that aren't SGF, or that end within a value."""
    if len(data) > MOST_BYTES:
        raise MuGoError(f"SGF: {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    decoded = _decoded(data)
    text = decoded.text
    begin = _BEGIN.search(text)
    nodes: list[dict[str, list[str]]] = []
    opened = 0
    name, at, stray = "", begin.start() if begin else len(text), list[str]()
    pairs = _pairs(text, at)
    while at < len(text):
        letter = text[at]
        if letter in "(;":
            nodes += [{}] if letter == ";" else []
            opened += letter == "("
            at += 1
        elif letter == ")":
            break  # the end of the first variation
        elif letter == "[":
            value, at = _value(text, at + 1, len(nodes), pairs)
            nodes[-1].setdefault(name, []).append(value)
        elif named := _NAME.match(text, at):
            nodes += [] if nodes else [{}]
            # Lower-case letters of FF[1] to FF[3] only explain: SiZe[19]. Some programs write nothing else.
            name = "".join(letter for letter in named[1] if not letter.islower()) or named[1].upper()
            at = named.end()
        elif letter.isspace():
            at += 1
        elif odd := _STRAY.match(text, at):
            stray += [odd[0]] if len(stray) <= MOST_NOTES else []
            at = odd.end()
    if not nodes:
        raise MuGoError("SGF: no game found; wanted a text that begins with (;")
    notes = [decoded.note] if decoded.note else []
    if stray:
        shown = " ".join(word[:20] for word in stray[:MOST_NOTES]) + (" …" if len(stray) > MOST_NOTES else "")
        notes.append(f"text between its properties is skipped: {shown}")
    if at >= len(text):
        notes.append("its last ) is missing: the file may have been cut off")
    if _has_another_game(text, at, opened):
        notes.append("only the first of its games is read")
    return MainLine(nodes, tuple(notes))


def _has_another_game(text: str, end: int, opened: int) -> bool:
    """Whether a game begins behind the first one. end: of its main line; opened: brackets ( up to there."""
    for bracket in re.findall("[()]", _WHOLE_VALUE.sub("", text[end:])):
        if bracket == "(" and opened <= 0:
            return True
        opened += 1 if bracket == "(" else -1
    return False


def _value(text: str, begin: int, node: int, pairs: dict[int, int]) -> tuple[str, int]:
    """A value, unescaped, and where it ends: at the first ``]`` that isn't escaped.

    pairs: of _pairs(). If there are any, a value with an unescaped ``[`` ends at its pair or, if nothing that may
    follow a value stands there, at the first ``]`` where it does.
    """
    found = _VALUE.match(text, begin)
    if found is not None and pairs and _OPEN.match(text, begin, found.end() - 1):
        pair = pairs.get(begin - 1, -1) + 1
        if pair and _AFTER_VALUE.match(text, pair):
            found = _VALUE.match(text, pair - 1)
        while found is not None and not _AFTER_VALUE.match(text, found.end()):
            found = _VALUE.match(text, found.end())
    if found is None:
        raise MuGoError(f"SGF: a value of node {max(0, node - 1)} has no end ]; was the file cut off?")
    return re.sub(r"\\(\r\n|\n|.)", r"\1", text[begin : found.end() - 1], flags=re.DOTALL), found.end()


def _pairs(text: str, begin: int) -> dict[int, int]:
    """Where the bracket that opens at a place is closed, counting pairs within values, too.

    Empty for a record by the standard, which escapes every ``]`` of a value, but not every ``[``.
    """
    opened, pairs = list[int](), dict[int, int]()
    within, by_standard = False, True
    for found in _BRACKET.finditer(text, begin):
        if found[0] == "[":
            within = True
            opened.append(found.start())
        elif found[0] == "]":
            by_standard &= within
            within = False
            if opened:
                pairs[opened.pop()] = found.start()
    return {} if by_standard else pairs


def _decoded(data: bytes) -> Text:
    charset = _CHARSET.search(data)
    try:
        return decode(data, charset[1].decode("ascii", "replace") if charset else "", _faults)
    except MuGoError as error:
        raise MuGoError(f"SGF: {error}") from error


def _faults(text: str) -> int:
    r"""Values with a ``[`` or ``\`` that needn't be there, text outside values, and a komi that isn't readable.

    They appear where a ``]`` is read as a part of a letter, or a part of a letter as ``]`` or ``\``.
    """
    outside, num_values = _WHOLE_VALUE.subn("", text)
    komi = _KOMI_VALUE.search(text)
    wrong = komi is not None and read_komi(komi[1])[0] is None
    brackets = text.count("[") - text.count("\\[") - outside.count("[") - num_values
    return wrong + brackets + len(_ODD_ESCAPE.findall(text)) + len(_OUTSIDE.findall(outside))


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
