"""What games of stones on points share: names of points, diagrams, and verbs of games that a row of stones wins."""

from __future__ import annotations

import copy
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.games import row_kernels
from pipeline.games.contract import Game, KernelGame, KeyArray, Planes, States, board_symmetries, small_number

REFUSALS = {
    row_kernels.OUT_OF_RANGE: "no such action",
    row_kernels.GAME_OVER: "the game is over",
    row_kernels.OCCUPIED: "the point is occupied",
}
MARKS = ".XO"  # in diagrams: an empty point, stones of the first and of the second player
COLUMNS = string.ascii_uppercase
COLUMNS_WITHOUT_I = COLUMNS.replace("I", "")  # I looks like a 1


def point_name(point: int, height: int, width: int, columns: str = COLUMNS) -> str:
    """A column letter and a row number, counted from below: "H8"."""
    row, column = divmod(point, width)
    return f"{columns[column]}{height - row}"


def named_point(text: str, height: int, width: int, columns: str = COLUMNS) -> int:
    """The point of a name in either case; -1 if the board has no such point."""
    name = text.strip().upper()
    column, row = columns[:width].upper().find(name[:1] or "?"), small_number(name[1:])
    return (height - row) * width + column if column >= 0 and 1 <= row <= height else -1


def square_board(
    name: str, size: str | None, options: Mapping[str, str], sizes: range, usual: int, known: tuple[str, ...] = ()
) -> int:
    """The size in a game's spec. Raises UsageError for a size that isn't in sizes, or an unknown option."""
    number = small_number(size or "")
    if number not in sizes:
        found = "no size" if size is None else f"size {size!r}"
        kind = "a number" if sizes.step == 1 else "an even number"
        raise UsageError(f"game {name}: {found}; wanted {kind} from {sizes[0]} to {sizes[-1]}, e.g. {name}:{usual}")
    check_options(f"{name}:{size}", options, known)
    return number


def check_options(spec: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises UsageError for an option that isn't known. spec: what the message calls the game."""
    for option in options:
        if option not in known:
            wanted = f"known: {', '.join(known)}" if known else "there are none"
            raise UsageError(f"game {spec}: unknown option {option!r}; {wanted}")


def whose_turn(game: Game, state: States) -> str:
    """ "X to move, ply 7" or "over, ply 9", of one state [S]."""
    one = state[None]
    turn = "over" if game.is_over(one)[0] else f"{'XO'[game.to_move(one)[0]]} to move"
    return f"{turn}, ply {game.plies(one)[0]}"


@lru_cache(maxsize=16)
def _key_weights(num_points: int) -> KeyArray:
    return np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, num_points, np.uint64)


@dataclass(frozen=True)
class Look:
    """How the browser page draws a board of stones.

    ground       "wood", "felt", "paper", or "frame": with a hole at each point
    on_lines     whether stones stand where lines cross, or between the lines
    stones       each player's: a disc, "black", "white", "red" or "yellow", or a mark, "cross" or "ring"
    called       what people call one of them
    shows_legal  whether dots show where the player to move may play
    """

    ground: str = "wood"
    on_lines: bool = False
    stones: tuple[str, str] = ("black", "white")
    called: str = "stone"
    shows_legal: bool = False


class BoardGame(Game):
    """A game of stones whose actions are the points, and a pass if it has one.

    A state begins with the points: 0 empty, 1 the first player's stone, 2 the second's. The first two planes are the
    mover's and the opponent's stones.
    """

    columns = COLUMNS  # the letters of the board's columns ...
    protocol_columns: ClassVar[str] = ""  # ... and in protocols of other games, if these use others
    look: ClassVar[Look] = Look()
    examples: str  # of names, for the error about a text that names no point
    refusals: ClassVar[Mapping[int, str]] = REFUSALS  # why a kernel refuses a move, by status

    def __init__(self, height: int, width: int, extra_words: int, passes: bool = False) -> None:
        """extra_words: of a state after the points. passes: whether the last action is a pass."""
        points = height * width
        self.board_shape = (height, width)
        self.num_actions = points + passes
        self.pass_action = points if passes else None
        self.state_size = points + extra_words
        self.symmetries = board_symmetries(height, width, extra_actions=int(passes))

    def action_name(self, action: int) -> str:
        return "pass" if action == self.pass_action else point_name(action, *self.board_shape, self.columns)

    def parse_action(self, text: str) -> int:
        if self.pass_action is not None and text.strip().upper() == "PASS":
            return self.pass_action
        point = named_point(text, *self.board_shape, self.columns)
        if point < 0:
            raise IllegalMove(f"{self.spec}: {text!r} is no point; wanted {self.examples}")
        return point

    def diagram(self, state: States) -> str:
        lines = self._board([MARKS[found] for found in state[: self.num_points]])
        said = "; ".join(filter(None, (whose_turn(self, state), self.remark(state, MARKS[1:]))))
        return "\n".join([*lines, self._indent() + said])

    def remark(self, state: States, names: Sequence[str]) -> str:
        """What else a player must know, such as stones taken; may be empty. names: of the two players."""
        return ""

    def planes_diagram(self, planes: Planes) -> str:
        own, theirs = planes[0].ravel().tolist(), planes[1].ravel().tolist()
        return "\n".join(self._board([MARKS[mine or 2 * other] for mine, other in zip(own, theirs, strict=True)]))

    def _board(self, marks: list[str]) -> list[str]:
        """The lines of a board with its labels; marks: one character for each point."""
        height, width = self.board_shape
        rows = [self._row_label(row) + " ".join(marks[row * width : (row + 1) * width]) for row in range(height)]
        return [*rows, self._indent() + " ".join(self.columns[:width])]

    def _row_label(self, row: int) -> str:
        """The label left of a row of the diagram; all have the same width."""
        return f"{self.board_shape[0] - row:2d} "

    def _indent(self) -> str:
        return " " * len(self._row_label(0))


def in_protocol_letters(game: Game) -> Game:
    """The game with points named by its protocol_columns."""
    if not isinstance(game, BoardGame) or game.protocol_columns in ("", game.columns):
        return game
    found = copy.copy(game)
    found.columns = game.protocol_columns
    return found


class RowGame(BoardGame, KernelGame):
    """A game that a row of stones, or anything else recorded as a winner, decides; draws are possible.

    A state is the points, then TO_MOVE, PLY, OVER and WINNER as in row_kernels.py, then words of the game's own.
    Stones own their points; the score is the result.
    """

    repeats = False

    def __init__(self, height: int, width: int, extra_words: int, passes: bool = False) -> None:
        super().__init__(height, width, extra_words, passes)
        self.first_word = self.num_points

    def keys(self, states: States) -> KeyArray:
        return row_kernels.keys(states, _key_weights(self.num_points))

    def ownership(self, states: States) -> NDArray[np.int8]:
        points = states[:, : self.num_points]
        return (points == row_kernels.FIRST).astype(np.int8) - (points == row_kernels.SECOND)
