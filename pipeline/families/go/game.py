"""Go on boards from 5×5 to 19×19: Tromp-Taylor area scoring, positional superko, no suicide.

Rules, where implementations differ:
    scoring      area: stones plus empty regions that touch one colour only; no stone is judged dead
    repetition   no play may recreate any earlier whole-board position, whoever is to move; passes are always legal
    suicide      forbidden, for one stone and for many
    end          two passes in a row, or the move limit (2·points by default); either way the board is scored
    komi         7.5 unless the spec says otherwise; whole komi can give draws

The network sees 34 planes: Go.plane_names, with those of features. Komi needs no plane, as it is the same in all games
of a spec and "white to move" tells who has it.

Spec: ``go:SIZE[,komi=K][,moves=LIMIT]``, e.g. ``go:9``, ``go:9,komi=7``. Resignation is no move of the game: the
program that runs a game decides it.

``go:any`` is for networks that play boards of every size with any komi, which further planes show (any_board). Its
own board is 9×9, the others have the specs ``go:any,size=SIZE``. Its komi is the usual one; a game's setup says how
many half points more it begins with. A model of ``go:any`` plays every ``go:SIZE``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.go import any_board as any_board_planes
from pipeline.families.go import features, kernels, pass_alive
from pipeline.families.go.any_board import SIZES
from pipeline.families.go.board import BLACK, EMPTY, OFF_BOARD, WHITE, count_liberties, points_around
from pipeline.families.go.groups import sets_beside, words_for
from pipeline.families.go.handicap import fixed_handicap
from pipeline.families.go.heuristic import move_scores
from pipeline.games.all_boards import ANY, SIZE
from pipeline.games.capabilities import AllBoards, AnyPosition, InSgf, Komi, Setups, Sgf
from pipeline.games.contract import (
    Actions,
    AnyGame,
    BoolArray,
    FloatArray,
    History,
    KernelGame,
    KeyArray,
    MoveScores,
    Planes,
    States,
)
from pipeline.games.keys import load_keys, store_key
from pipeline.games.stones import COLUMNS_WITHOUT_I, REFUSALS, BoardGame, Look, square_board

DEFAULT_KOMI = 7.5
HOME = 9  # the own board of the game of all sizes
LONGEST = 10_000  # plies of a game without a move limit; in theory superko allows many more
# Of the rules that other programs know, these come closest to area scoring with superko. For each handicap stone,
# Chinese rules give White a point; New Zealand's don't.
SGF_RULES, SGF_RULES_WITH_HANDICAP = "Chinese", "NZ"
ZOBRIST_SEED = 20260119  # part of no file format: keys never leave a process


class Go(BoardGame, KernelGame, InSgf, Komi, AnyPosition, Setups):
    """See the module docstring for the rules, ``kernels`` for the state's layout."""

    known_as = "Go"
    columns, examples = COLUMNS_WITHOUT_I, "e.g. D4 or pass"
    look = Look(on_lines=True)
    sgf = Sgf(1, SGF_RULES, True, SGF_RULES_WITH_HANDICAP)
    can_settle = has_margins = True
    resigned_behind = 10.0  # points: games that are closer are played to two passes
    refusals: ClassVar[Mapping[int, str]] = {
        **REFUSALS,
        kernels.SUICIDE: "suicide",
        kernels.REPETITION: "it repeats an earlier position (positional superko)",
    }
    plane_names = (
        "own stones",
        "opponent's stones",
        "own, 1 liberty",
        "own, 2 liberties",
        "own, 3 or more liberties",
        "opponent's, 1 liberty",
        "opponent's, 2 liberties",
        "opponent's, 3 or more liberties",
        "last move",
        "move before last",
        "third last move",
        "fourth last move",
        "empty but forbidden (ko, superko, suicide)",
        "white to move",
        "last move was a pass",
        "on the board",
        *features.PLANE_NAMES,
    )

    def __init__(self, size: int, komi: float = DEFAULT_KOMI, max_plies: int | None = None) -> None:
        super().__init__(size, size, kernels.EXTRA_WORDS, passes=True)
        self.first_word = self.num_points + kernels.TO_MOVE
        self.size, self.komi = size, komi
        self._boards = self.title_here
        usual = 2 * self.num_points
        self.max_plies = self.move_limit = usual if max_plies is None else max_plies
        self._given = None if max_plies == usual else max_plies  # what the spec says
        self._options = "" if komi == DEFAULT_KOMI else f",komi={komi:g}"
        self._limit = "" if self._given is None else f",moves={self._given}"
        self.spec = f"go:{size}{self._options}{self._limit}"
        self._neighbours = np.ascontiguousarray(points_around(size)[:, :4])
        self._beside, self._words = sets_beside(size), words_for(self.num_points)
        self._zobrist = np.random.default_rng(ZOBRIST_SEED).integers(0, 2**64, (self.num_points, 2), np.uint64)

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Go:
        """Raises UsageError for a size outside 5–19, an unknown option or a value that is no number."""
        any_board, name = size == ANY, f"go:{size}"
        if any_board:
            size = options.get(SIZE, str(HOME))
        known = ("komi", "moves", SIZE) if any_board else ("komi", "moves")
        side = square_board("go", size, options, sizes=SIZES, usual=9, known=known)
        komi_text, moves = options.get("komi", f"{DEFAULT_KOMI}"), options.get("moves")
        try:
            komi = float(komi_text) + 0.0  # no -0 in a spec
        except ValueError:
            komi = float("nan")
        if not _is_komi(komi, side * side):
            raise UsageError(f"game {name}: komi={komi_text}; wanted a multiple of 0.5, at most {side * side}")
        if moves is not None and not (re.fullmatch(r"\d{1,5}", moves, re.ASCII) and 2 <= int(moves) <= 30000):
            raise UsageError(f"game {name}: moves={moves}; wanted a whole number from 2 to 30000")
        return (GoAnyBoard if any_board else Go)(side, komi, None if moves is None else int(moves))

    @property
    def board_title(self) -> str:
        usual = self.max_plies in (2 * self.num_points, LONGEST)
        return self._boards if usual else f"{self._boards}, at most {self.max_plies} moves"

    @property
    def title_here(self) -> str:
        return f"{self.size}×{self.size} Go"

    def varied(self, setup: int) -> Self:
        return type(self)(self.size, self.komi + setup / 2, self._given) if setup else self

    def with_komi(self, komi: float) -> Self:
        if komi == self.komi:
            return self
        if not _is_komi(komi, self.num_points):
            wanted = f"wanted a multiple of 0.5, at most {self.num_points}"
            raise UsageError(f"{self.board_title}: found komi {komi:g}; {wanted}")
        return type(self)(self.size, komi, self._given)

    def adopt(self, states: States) -> States:
        adopted = states.copy()
        adopted[:, self.num_points + kernels.KOMI] = round(2 * self.komi)
        return adopted

    def begin(self, setups: NDArray[np.integer]) -> States:
        states = self.initial(len(setups))
        states[:, self.num_points + kernels.KOMI] += np.asarray(setups, np.int16)
        return states

    def initial(self, num_games: int) -> States:
        states = np.zeros((num_games, self.state_size), np.int16)
        states[:, self.num_points + kernels.KOMI] = round(2 * self.komi)
        states[:, self.num_points] = OFF_BOARD
        last = self.num_points + kernels.LAST
        states[:, last : last + kernels.NUM_LAST] = -1
        return states

    def without_move_limit(self) -> Self:
        return type(self)(self.size, self.komi, LONGEST)

    def handicap(self, stones: int) -> list[int]:
        """GTP's fixed handicap."""
        return fixed_handicap(self.size, stones)

    def position(self, first: Sequence[int], second: Sequence[int], to_move: int | None = None) -> States:
        state = self.initial(1)
        for stone, points in ((BLACK, first), (WHITE, second)):
            for point in points:
                if not 0 <= point < self.num_points:
                    raise IllegalMove(f"{self.spec}: {point} is no point of the board")
                if state[0, point] != EMPTY:
                    raise IllegalMove(f"{self.spec}: two stones on {self.action_name(point)}")
                state[0, point] = stone
        key = np.bitwise_xor.reduce([*self._zobrist[list(first), 0], *self._zobrist[list(second), 1], np.uint64(0)])
        words = state[0, self.num_points :]
        store_key(words, kernels.KEY, key)
        words[kernels.TO_MOVE] = to_move or 0
        words[kernels.STONES] = words[kernels.MAX_STONES] = len(first) + len(second)
        stamps, lists = np.zeros(self.num_points + 2, np.int32), np.empty((3, self.num_points + 1), np.int16)
        for point in (*first, *second):
            if not count_liberties(state[0], point, 1, self._neighbours, stamps, lists)[0]:
                raise IllegalMove(f"{self.spec}: the stone on {self.action_name(point)} has no liberty")
        return state

    def with_turn(self, states: States, to_move: int) -> States:
        after = states.copy()
        words = after[:, self.num_points :]
        words[:, kernels.TO_MOVE], words[:, kernels.OVER] = to_move, 0  # one more pass ends it again
        return after

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(
            states, actions, history.keys, history.lengths, self.max_plies, self._neighbours, self._zobrist
        )

    def cut_short(self, states: States) -> BoolArray:
        return self.is_over(states) & (states[:, self.num_points + kernels.PASSES] < 2)

    def returns(self, states: States) -> FloatArray:
        results = np.zeros(len(states), np.float32)
        over = np.flatnonzero(self.is_over(states))
        if over.size:  # scoring costs a flood fill
            results[over] = np.sign(self.scores(states[over]))
        return results

    def keys(self, states: States) -> KeyArray:
        """The Zobrist hash of the points, not of the mover: positional superko."""
        return load_keys(states, kernels.EXTRA_WORDS - kernels.KEY)

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        past = history or History.empty(0, 1)
        kernels.legal_and_observe(
            states, past.keys, past.lengths, history is not None, self._neighbours, self._beside, self._words,
            self._zobrist, allowed, planes,
        )  # fmt: skip

    def scores(self, states: States) -> FloatArray:
        return self.settled_scores(states, self.ownership(states))

    def settled_owners(self, states: States) -> NDArray[np.int8]:
        """The pass-alive areas, see pass_alive.py."""
        return pass_alive.areas(states, self.num_points, self._neighbours)

    def settled_scores(self, states: States, owners: NDArray[np.int8]) -> FloatArray:
        komi = states[:, self.num_points + kernels.KOMI].astype(np.float32) / 2
        return owners.sum(axis=1, dtype=np.float32) - komi

    def ownership(self, states: States) -> NDArray[np.int8]:
        return kernels.ownership(states, self._neighbours)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)

    def diagram(self, state: States) -> str:
        """The last stone stands in brackets."""
        *board, turn = super().diagram(state).splitlines()
        board = [f"{line[:3]} {line[3:]}" for line in board]  # room for a bracket before the first column
        last = int(state[self.num_points + kernels.LAST])
        if 0 <= last < self.num_points:
            row, column = divmod(last, self.size)
            line, at = board[row], 4 + 2 * column
            board[row] = f"{line[: at - 1]}({line[at]}){line[at + 2 :]}"
        return "\n".join([*board, turn])


class GoAnyBoard(Go, AllBoards):
    """``go:any``, on one of its boards: networks see its size, and the komi."""

    plane_names = (*Go.plane_names, *any_board_planes.PLANE_NAMES)
    num_global_planes = any_board_planes.NUM_PLANES

    def __init__(self, size: int, komi: float = DEFAULT_KOMI, max_plies: int | None = None) -> None:
        super().__init__(size, komi, max_plies)
        self._given = max_plies  # of all boards, also where it is this one's usual limit
        self._limit = "" if max_plies is None else f",moves={max_plies}"
        self.family = f"go:{ANY}{self._options}{self._limit}"
        self._boards = "Go on all boards" if size == HOME else f"Go on all boards, here {size}×{size}"
        board = "" if size == HOME else f",{SIZE}={size}"
        self.spec = f"go:{ANY}{board}{self._options}{self._limit}"

    def on_board(self, size: int) -> Self:
        if size not in SIZES:
            raise UsageError(f"{self.spec}: found size {size}; wanted {SIZES[0]} to {SIZES[-1]}")
        if not _is_komi(self.komi, size * size):
            raise UsageError(f"{self.spec}: komi {self.komi:g} on size {size}; wanted a board of more points than that")
        return type(self)(size, self.komi, self._given)

    def as_seen(self, other: AnyGame) -> Self | None:
        return type(self)(other.size, other.komi, other._given) if isinstance(other, Go) else None

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        super().analyse(states, history, allowed, planes)
        if len(planes):
            words = states[:, self.num_points :]
            komi = np.where(words[:, kernels.TO_MOVE] == 1, words[:, kernels.KOMI], -words[:, kernels.KOMI])
            any_board_planes.show(komi, self.size, planes)


def _is_komi(number: float, num_points: int) -> bool:
    """Whether it is a multiple of half a point and no more than the board's points."""
    return abs(number) <= num_points and number * 2 == round(number * 2)
