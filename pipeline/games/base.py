"""The contract of a game: batched verbs over rows of one flat state array.

Axes: B batch (independent games), S state words, A actions, C planes, H×W the board, P = H·W points,
K symmetries, T plies. Players are 0 (moves first; black in Go) and 1. Every value or score that a game returns
is seen by the *first player*; planes are seen by the player to move. Functions are pure: they never change
their inputs, rows never influence each other, and nothing here knows search, networks or files.

``History`` carries what repetition rules need: the keys (64-bit hashes) of every position that has occurred,
the current one included. States themselves don't carry it, so a search tree can share one history between
all its nodes. Games without repetition rules accept a history and ignore it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove

States = NDArray[np.int16]
Actions = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
KeyArray = NDArray[np.uint64]
Planes = NDArray[np.uint8]


ON = "on"  # the value of a spec's option that stands alone


def small_number(text: str) -> int:
    """A whole number of at most four digits; -1 for anything else, of whatever length or script."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else -1


@dataclass(frozen=True)
class Symmetries:
    """How each board symmetry permutes actions and points. Row 0 is the identity.

    actions  [K, A] int32   transformed_policy[actions[k, a]] = policy[a]
    points   [K, P] int32   transformed_plane[points[k, p]] = plane[p]
    inverse  [K]    int32   index of the symmetry that undoes k
    """

    actions: IntArray
    points: IntArray
    inverse: IntArray

    @property
    def count(self) -> int:
        return len(self.points)


@dataclass
class History:
    """Keys of the positions that occurred in each of B games, the current one included.

    keys     [B, T] uint64   the first lengths[b] of row b count
    lengths  [B]    int32
    """

    keys: KeyArray
    lengths: IntArray

    @staticmethod
    def empty(num_games: int, max_positions: int) -> History:
        return History(np.zeros((num_games, max_positions), np.uint64), np.zeros(num_games, np.int32))

    def append(self, rows: NDArray[np.integer], keys: KeyArray) -> None:
        """Record that position keys[i] now stands in game rows[i]. Changes this history in place."""
        self.keys[rows, self.lengths[rows]] = keys
        self.lengths[rows] += 1

    def select(self, rows: NDArray[np.integer]) -> History:
        """A copy that holds only these games."""
        return History(self.keys[rows], self.lengths[rows])


class Game(ABC):
    """One game with its board size and rules fixed. See the module docstring for axes and viewpoints."""

    spec: str  # canonical, e.g. "go:9,komi=7.5"; parse_game(spec) gives an equal game
    num_actions: int  # A
    state_size: int  # S
    board_shape: tuple[int, int]  # (H, W)
    plane_names: tuple[str, ...]  # C names; new ones always last: older models see the first ones
    max_plies: int  # T: no game lasts longer
    symmetries: Symmetries

    @property
    def num_points(self) -> int:
        return self.board_shape[0] * self.board_shape[1]

    @property
    def num_planes(self) -> int:
        return len(self.plane_names)

    @abstractmethod
    def initial(self, num_games: int) -> States:
        """[B, S] int16, the starting position."""

    @abstractmethod
    def play(self, states: States, actions: Actions, history: History) -> States:
        """[B, S] the states after one action each. Doesn't change history.

        Raises IllegalMove, naming row and action, if an action is outside 0..A-1, forbidden by the rules
        (repetition by `history` included), or the game is over.
        """

    @abstractmethod
    def legal(self, states: States, history: History) -> BoolArray:
        """[B, A] which actions the rules allow; all False where the game is over, never so elsewhere."""

    @abstractmethod
    def is_over(self, states: States) -> BoolArray:
        """[B]"""

    @abstractmethod
    def returns(self, states: States) -> FloatArray:
        """[B] float32 in {-1, 0, +1}: the result for the first player; 0 where the game is not over."""

    @abstractmethod
    def to_move(self, states: States) -> NDArray[np.int8]:
        """[B] int8: 0 if the first player is to move, else 1."""

    @abstractmethod
    def plies(self, states: States) -> IntArray:
        """[B] int32: moves made so far, passes included."""

    @abstractmethod
    def keys(self, states: States) -> KeyArray:
        """[B] uint64: equal for positions that the repetition rule calls the same."""

    @abstractmethod
    def observe(self, states: States, legal: BoolArray) -> Planes:
        """[B, C, H, W] uint8, each 0 or 1: the network's input, from the mover's side.

        legal: what legal() returned for the same states (forbidden points are themselves an input).
        """

    def legal_and_observe(
        self, states: States, history: History, out: tuple[BoolArray, Planes] | None = None
    ) -> tuple[BoolArray, Planes]:
        """legal() and observe() of the same states: what a search asks of every new position.

        out: arrays of those shapes to fill and return instead of new ones; memory that is already mapped makes a
        difference for large batches. A game overrides this where both need the same costly analysis.
        """
        legal = self.legal(states, history)
        planes = self.observe(states, legal)
        if out is None:
            return legal, planes
        out[0][:], out[1][:] = legal, planes
        return out

    @abstractmethod
    def scores(self, states: States) -> FloatArray:
        """[B] float32: by how much the first player is ahead, in the game's own unit (Go: points, komi included)."""

    @abstractmethod
    def ownership(self, states: States) -> NDArray[np.int8]:
        """[B, P] int8: +1 where the first player owns the point in this position, -1 the second, 0 nobody."""

    @abstractmethod
    def action_name(self, action: int) -> str:
        """The move in the game's usual notation (Go: GTP, "D4", "pass")."""

    @abstractmethod
    def parse_action(self, text: str) -> int:
        """The inverse of action_name, case-insensitive. Raises IllegalMove that carries the text."""

    @abstractmethod
    def diagram(self, state: States) -> str:
        """A board a person can read, of one state [S]; X is the first player, O the second."""

    def _refuse(self, actions: Actions, status: NDArray[np.uint8], reasons: Mapping[int, str]) -> None:
        """Raise IllegalMove for the first action [B] whose status [B] isn't 0; reasons: by status."""
        if not status.any():
            return
        row = int(np.flatnonzero(status)[0])
        action = int(actions[row])
        name = self.action_name(action) if 0 <= action < self.num_actions else "?"
        raise IllegalMove(f"{self.spec}, row {row}: action {action} ({name}): {reasons[int(status[row])]}")

    def initial_history(self, states: States) -> History:
        """A history with room for a whole game that holds just these positions."""
        history = History.empty(len(states), self.max_plies + 1)
        history.append(np.arange(len(states)), self.keys(states))
        return history


def board_symmetries(height: int, width: int, extra_actions: int = 0) -> Symmetries:
    """The symmetries of a board whose action p < P is "play on point p" and whose other actions never move.

    Square boards have 8 (rotations and reflections), others 4.
    """
    points = np.arange(height * width).reshape(height, width)
    images = []
    for flipped in (points, points[:, ::-1]):
        for quarter_turns in range(4):
            image = np.rot90(flipped, quarter_turns)
            if image.shape == (height, width):
                images.append(np.ascontiguousarray(image).ravel())
    # image[q] = the point that lands on q, so point image[q] moves to q: invert to get "p goes to".
    table = np.stack([np.argsort(image) for image in images]).astype(np.int32)
    inverse = np.array(
        [next(j for j, other in enumerate(table) if (other[row] == np.arange(row.size)).all()) for row in table],
        np.int32,
    )
    fixed = np.arange(height * width, height * width + extra_actions, dtype=np.int32)
    actions = np.concatenate([table, np.broadcast_to(fixed, (len(table), extra_actions))], axis=1)
    return Symmetries(np.ascontiguousarray(actions), table, inverse)
