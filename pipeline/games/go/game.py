"""Go on boards from 5×5 to 19×19: Tromp-Taylor area scoring, positional superko, no suicide.

Rules, where implementations differ:
    scoring      area: stones plus empty regions that touch one colour only; no stone is judged dead
    repetition   no play may recreate any earlier whole-board position, whoever is to move; passes are always legal
    suicide      forbidden, for one stone and for many
    end          two passes in a row, or the move limit (2·points by default); either way the board is scored
    komi         7.5 unless the spec says otherwise; whole komi can give draws

What a network sees: 34 planes, see Go.plane_names and features. Komi is one number for all games of a spec, so it
needs no plane: who has it follows from "white to move".

Spec: ``go:SIZE[,komi=K][,moves=LIMIT]``, e.g. ``go:9``, ``go:9,komi=7``. Resignation is no move: who runs a game
decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.games.base import (
    Actions,
    BoolArray,
    FloatArray,
    History,
    IntArray,
    KeyArray,
    Planes,
    Sgf,
    States,
    board_symmetries,
    small_number,
)
from pipeline.games.go import features, kernels
from pipeline.games.go.board import OFF_BOARD
from pipeline.games.go.heuristic import move_scores
from pipeline.games.heuristic import Scores
from pipeline.games.stones import GTP_COLUMNS, BoardGame

DEFAULT_KOMI = 7.5
MIN_SIZE, MAX_SIZE = 5, 19
# Area scoring, superko, no suicide: of the names that other programs know, the Chinese rules come closest.
SGF_RULES = "Chinese"
ZOBRIST_SEED = 20260119  # part of no file format: keys never leave a process

REFUSALS = {
    kernels.OUT_OF_RANGE: "no such action",
    kernels.GAME_OVER: "the game is over",
    kernels.OCCUPIED: "the point is occupied",
    kernels.SUICIDE: "suicide",
    kernels.REPETITION: "it repeats an earlier position (positional superko)",
}


class Go(BoardGame):
    """See the module docstring for the rules, ``kernels`` for the state's layout."""

    columns, examples = GTP_COLUMNS, "e.g. D4 or pass"
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
        points = size * size
        self.size = size
        self.komi = self.gtp_komi = komi
        self.max_plies = 2 * points if max_plies is None else max_plies
        self.spec = f"go:{size}"
        if komi != DEFAULT_KOMI:
            self.spec += f",komi={komi:g}"
        if self.max_plies != 2 * points:
            self.spec += f",moves={self.max_plies}"
        self.board_shape = (size, size)
        self.num_actions = points + 1
        self.state_size = points + kernels.EXTRA_WORDS
        self.pass_action = points
        self.sgf = Sgf(1, SGF_RULES, komi, margin=True)
        self.symmetries = board_symmetries(size, size, extra_actions=1)
        self._neighbours = _neighbour_table(size)
        self._zobrist = np.random.default_rng(ZOBRIST_SEED).integers(0, 2**64, (points, 2), np.uint64)

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Go:
        """Raises UsageError for a size outside 5–19, an unknown option or a value that is no number."""
        if size is None or not MIN_SIZE <= small_number(size) <= MAX_SIZE:
            found = "no size" if size is None else f"size {size!r}"
            raise UsageError(f"game go: {found}; wanted a number from {MIN_SIZE} to {MAX_SIZE}, e.g. go:9")
        board = int(size)
        komi, max_plies = DEFAULT_KOMI, None
        for name, text in options.items():
            if name not in ("komi", "moves"):
                raise UsageError(f"game go:{size}: unknown option {name!r}; known: komi, moves")
            try:
                number = float(text)
            except ValueError:
                number = float("nan")
            if name == "komi":
                if not abs(number) <= board * board or number * 2 != round(number * 2):
                    raise UsageError(f"game go:{size}: komi={text}; wanted a multiple of 0.5, at most {board * board}")
                komi = number + 0.0  # no -0 in a spec
            else:
                if not (text.isdecimal() and 2 <= number <= 30000):
                    raise UsageError(f"game go:{size}: moves={text}; wanted a whole number from 2 to 30000")
                max_plies = int(text)
        return Go(board, komi, max_plies)

    def initial(self, num_games: int) -> States:
        states = np.zeros((num_games, self.state_size), np.int16)
        states[:, self.num_points] = OFF_BOARD
        last = self.num_points + kernels.LAST
        states[:, last : last + kernels.NUM_LAST] = -1
        return states

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions = np.asarray(actions, np.int32)
        after, status = kernels.play(
            states, actions, history.keys, history.lengths, self.max_plies, self._neighbours, self._zobrist
        )
        self._refuse(states, actions, status, REFUSALS)
        return after

    def legal(self, states: States, history: History) -> BoolArray:
        return self._legal_and_observe(states, history, None, planes=False)[0]

    def is_over(self, states: States) -> BoolArray:
        return states[:, self.num_points + kernels.OVER] != 0

    def returns(self, states: States) -> FloatArray:
        results = np.zeros(len(states), np.float32)
        over = np.flatnonzero(self.is_over(states))
        if over.size:  # scoring costs a flood fill: only for finished games
            results[over] = np.sign(self.scores(states[over]))
        return results

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, self.num_points + kernels.TO_MOVE].astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, self.num_points + kernels.PLY].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return kernels.keys(states)

    def observe(self, states: States, legal: BoolArray) -> Planes:
        return self._legal_and_observe(states, None, legal, planes=True)[1]

    def legal_and_observe(
        self, states: States, history: History, out: tuple[BoolArray, Planes] | None = None
    ) -> tuple[BoolArray, Planes]:
        return self._legal_and_observe(states, history, None, planes=True, out=out)

    def _legal_and_observe(
        self,
        states: States,
        history: History | None,
        known: BoolArray | None,
        planes: bool,
        out: tuple[BoolArray, Planes] | None = None,
    ) -> tuple[BoolArray, Planes]:
        """Legal actions unless they are known, and planes if wanted, from one analysis of the groups."""
        num_rows = len(states)
        past = history or History.empty(0, 1)
        if out is None:
            allowed = np.empty((0 if history is None else num_rows, self.num_actions), np.bool_)
            observed = np.empty((num_rows if planes else 0, self.num_planes, *self.board_shape), np.uint8)
        else:
            allowed, observed = out
        told = np.zeros((0, self.num_actions), np.bool_) if known is None else known
        flat = observed.reshape(len(observed), self.num_planes, self.num_points)
        kernels.legal_and_observe(states, past.keys, past.lengths, told, self._neighbours, self._zobrist, allowed, flat)
        return allowed, observed

    def scores(self, states: States) -> FloatArray:
        return self.ownership(states).sum(axis=1, dtype=np.float32) - np.float32(self.komi)

    def ownership(self, states: States) -> NDArray[np.int8]:
        return kernels.ownership(states, self._neighbours)

    def heuristic(self) -> Callable[[States, History], Scores]:
        return partial(move_scores, self)

    def diagram(self, state: States) -> str:
        last = int(state[self.num_points + kernels.LAST])
        lines = []
        for row in range(self.size):
            cells = []
            for column in range(self.size):
                point = row * self.size + column
                mark = ".XO"[state[point]]
                cells.append(f"({mark})" if point == last else f" {mark} ")
            lines.append(f"{self._row_label(row)}{_squeeze(cells)}".rstrip())
        lines.append("   " + " " + " ".join(GTP_COLUMNS[: self.size]))
        mover = "XO"[int(state[self.num_points + kernels.TO_MOVE])]
        over = bool(state[self.num_points + kernels.OVER])
        lines.append(f"   {'over' if over else mover + ' to move'}, ply {int(state[self.num_points + kernels.PLY])}")
        return "\n".join(lines)


def _squeeze(cells: list[str]) -> str:
    """Cells of three characters drawn two apart: " X " and "(O)" share the blanks between them."""
    line = [" "] * (2 * len(cells) + 1)
    for i, cell in enumerate(cells):
        line[2 * i + 1] = cell[1]
        if cell[0] == "(":
            line[2 * i], line[2 * i + 2] = "(", ")"
    return "".join(line)


def _neighbour_table(size: int) -> NDArray[np.uint16]:
    """[P, 4] uint16: the points beside each point; P (the OFF_BOARD word) where the board ends."""
    points = np.full((size + 2, size + 2), size * size, np.uint16)
    points[1:-1, 1:-1] = np.arange(size * size).reshape(size, size)
    sides = [points[:-2, 1:-1], points[2:, 1:-1], points[1:-1, :-2], points[1:-1, 2:]]
    return np.ascontiguousarray(np.stack([side.ravel() for side in sides], axis=1))
