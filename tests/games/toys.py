"""Three small games: one with dice, one whose moves are its successor positions, and one of moves on a board in numpy.

All can be solved exactly, so that what plays them can be compared with the truth.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.contract import (
    CHANCE,
    Actions,
    AnyGame,
    BoolArray,
    CommonWords,
    FloatArray,
    History,
    IntArray,
    KeyArray,
    Moves,
    Planes,
    States,
    SuccessorGame,
    Successors,
    move_symmetries,
)
from pipeline.games.keys import hashed

# Words of DiceRace's state.
FIRST_PLACE, SECOND_PLACE, MOVER, DIE, PLY = range(5)
STEP, RUN = 0, 1
PROBABILITIES = (0.5, 0.3, 0.2)  # of a die that shows 1, 2, 3


class DiceRace(AnyGame):
    """Two runners race to place `length`. The mover throws a die and takes one step, or runs as far as it shows.

    Whoever lands exactly on place `length` - 1 goes back to the start; at `length` or beyond the race is won. So
    running isn't always better than stepping. Rows start with a throw; actions are STEP and RUN. With the option
    double a race counts 2 if the loser is at the start.
    """

    has_chance = True
    state_size = 5
    num_actions = 2

    def __init__(self, length: int = 6, double: bool = False) -> None:
        self.length = length
        self.spec = f"dicerace:{length}{',double=on' if double else ''}"
        self.max_plies = 60  # then nobody has won
        if double:
            self.max_result, self.result_names = 2.0, {2.0: "double"}

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> DiceRace:
        return DiceRace(int(size or 6), "double" in options)

    def initial(self, num_games: int) -> States:
        return np.zeros((num_games, self.state_size), np.int16)

    def play(self, states: States, actions: Actions, history: History) -> States:
        after, actions = states.copy(), np.asarray(actions)
        thrown, over = self.to_move(states) == CHANCE, self.is_over(states)
        outside = (actions < 0) | (actions >= np.where(thrown, len(PROBABILITIES), self.num_actions))
        self._refuse(states, actions, np.where(over, 2, outside).astype(np.uint8), {1: "no such move", 2: "it is over"})
        rows = np.arange(len(states))
        places = states[rows, states[:, MOVER]] + np.where(actions == RUN, states[:, DIE], 1)
        places[places == self.length - 1] = 0
        after[rows[~thrown], states[~thrown, MOVER]] = places[~thrown]
        after[~thrown, MOVER] ^= 1
        after[:, DIE] = np.where(thrown, actions + 1, 0)
        after[:, PLY] += 1
        return after

    def moves(self, states: States, history: History) -> Moves:
        counts = np.where((self.to_move(states) == CHANCE) | self.is_over(states), 0, self.num_actions)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return Moves(offsets, np.tile(np.arange(2, dtype=np.int32), len(states))[: offsets[-1]])

    def is_over(self, states: States) -> BoolArray:
        return (states[:, :2] >= self.length).any(axis=1) | (states[:, PLY] >= self.max_plies)

    def returns(self, states: States) -> FloatArray:
        won = states[:, :2] >= self.length
        result = won[:, 0].astype(np.float32) - won[:, 1]
        return np.where((states[:, :2] == 0).any(axis=1), result * np.float32(self.max_result), result)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return np.where(states[:, DIE] == 0, CHANCE, states[:, MOVER]).astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, PLY].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return hashed(states[:, : DIE + 1])

    def chance(self, states: States) -> FloatArray:
        return np.tile(np.array(PROBABILITIES, np.float32), (len(states), 1))

    def move_name(self, state: States, action: int) -> str:
        return f"die {action + 1}" if state[DIE] == 0 else ("step", "run")[action]

    def parse_move(self, state: States, text: str) -> int:
        for action in range(3 if state[DIE] == 0 else 2):
            if self.move_name(state, action) == text.strip().lower():
                return action
        raise IllegalMove(f"{self.spec}: {text!r} is no move here")

    def diagram(self, state: States) -> str:
        lanes = ["".join("XO"[player] if place == state[player] else "." for place in range(self.length + 1))
                 for player in (0, 1)]  # fmt: skip
        return "\n".join([*lanes, f"  {'XO'[state[MOVER]]} to move, die {state[DIE] or '?'}"])

    def value(self, own: int, theirs: int) -> float:
        """The mover's chance of winning before the throw, both playing perfectly; there is no limit of plies here.

        own, theirs: the mover's place and the opponent's.
        """
        return float(_race_values(self)[own, theirs])


@cache
def _race_values(game: DiceRace) -> NDArray[np.float64]:
    """[own, theirs] the mover's chance of winning before the throw, by iterating Bellman's equation."""

    def after(place: int, theirs: int) -> float:
        place = 0 if place == game.length - 1 else place
        return 1.0 if place >= game.length else 1 - before[theirs, place]

    values = np.full((game.length, game.length), 0.5)
    for _ in range(2000):
        before = values.copy()
        for own in range(game.length):
            for theirs in range(game.length):
                values[own, theirs] = sum(
                    chance * max(after(own + gain, theirs) for gain in {1, die})
                    for die, chance in enumerate(PROBABILITIES, 1)
                )
    return values


class Heaps(SuccessorGame):
    """Nim: take any number from one heap; whoever takes the last wins. Heaps of equal size are the same heap.

    A move is the heaps that it leaves, so the same action means different things in different positions, and the number
    of moves has no useful bound that is the same for all. State: the heaps, largest first; mover; plies.
    """

    def __init__(self, *heaps: int) -> None:
        self.heaps = tuple(sorted(heaps or (1, 2, 4, 4), reverse=True))
        self.spec = f"heaps:{'-'.join(map(str, self.heaps))}"
        self.state_size = len(self.heaps) + 2
        self.max_plies = sum(self.heaps)

    def initial(self, num_games: int) -> States:
        return np.tile(np.array([*self.heaps, 0, 0], np.int16), (num_games, 1))

    def successors(self, states: States) -> Successors:
        found = [self._successors(tuple(state)) for state in states[:, :-2].tolist()]
        offsets = np.cumsum([0, *map(len, found)])
        after = np.array([heaps for row in found for heaps in row], np.int16).reshape(-1, len(self.heaps))
        tail = np.repeat(states[:, -2:], np.diff(offsets), axis=0)
        return Successors(offsets, np.hstack([after, tail[:, :1] ^ 1, tail[:, 1:] + 1]).astype(np.int16))

    @cache  # noqa: B019  one instance a test
    def _successors(self, heaps: tuple[int, ...]) -> list[tuple[int, ...]]:
        left = {
            tuple(sorted([*heaps[:i], size, *heaps[i + 1 :]], reverse=True))
            for i, heap in enumerate(heaps)
            for size in range(heap)
        }
        return sorted(left)

    def is_over(self, states: States) -> BoolArray:
        return ~states[:, :-2].any(axis=1)

    def returns(self, states: States) -> FloatArray:
        """Who is to move when nothing is left has lost."""
        return np.where(self.is_over(states), 2 * states[:, -2] - 1, 0).astype(np.float32)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, -2].astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, -1].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return hashed(states[:, :-1])

    def move_name(self, state: States, action: int) -> str:
        return "-".join(map(str, self._successors(tuple(state[:-2].tolist()))[action]))

    def parse_move(self, state: States, text: str) -> int:
        names = ["-".join(map(str, heaps)) for heaps in self._successors(tuple(state[:-2].tolist()))]
        if text.strip() not in names:
            raise IllegalMove(f"{self.spec}: {text!r} isn't among {', '.join(names)}")
        return names.index(text.strip())

    def diagram(self, state: States) -> str:
        return "\n".join(["o" * heap or "-" for heap in state[:-2].tolist()] + [f"  {'XO'[state[-2]]} to move"])

    def is_won(self, heaps: tuple[int, ...]) -> bool:
        """Whether the mover wins with perfect play: if the heaps' sizes don't cancel (Bouton 1901)."""
        return bool(np.bitwise_xor.reduce(np.array(heaps)))


class Hexapawn(CommonWords):
    """Pawns on 3×3 (Gardner 1962) move one ahead, or take diagonally; who comes across, or leaves no move, has won.

    Written as docs/add-a-game.md says. State: the points, then TO_MOVE, PLY, OVER and WINNER.
    """

    spec, board_shape, first_word, state_size, max_plies, repeats = "hexapawn", (3, 3), 9, 13, 9, False
    plane_names = ("own pawns", "other pawns", "second player moves")
    # The first player's moves start on the rows below, and go up.
    MOVES = tuple(
        (start, start + 3 * step + side)
        for step in (-1, 1)
        for start in range(9)
        for side in (-1, 0, 1)
        if 0 <= start // 3 + step < 3 and 0 <= start % 3 + side < 3
    )
    num_actions = len(MOVES)

    START = np.array([2, 2, 2, 0, 0, 0, 1, 1, 1], np.int16)
    symmetries = move_symmetries(MOVES, START.reshape(3, 3))

    def initial(self, num_games: int) -> States:
        return np.tile(np.pad(self.START, (0, 4)), (num_games, 1))

    def legal(self, states: States, history: History) -> BoolArray:
        own, allowed = self.to_move(states) + 1, np.zeros((len(states), self.num_actions), np.bool_)
        for action, (start, end) in enumerate(self.MOVES):
            ahead = (end < start) == (own == 1)
            wanted = 0 if end % 3 == start % 3 else 3 - own
            allowed[:, action] = (states[:, start] == own) & ahead & (states[:, end] == wanted)
        return allowed & ~self.is_over(states)[:, None]

    def play(self, states: States, actions: Actions, history: History) -> States:
        self.refuse_illegal(states, actions, history)
        after, rows, own = states.copy(), np.arange(len(states)), self.to_move(states) + 1
        starts, ends = np.array(self.MOVES)[actions].T
        after[rows, starts], after[rows, ends] = 0, own
        after[:, 9] ^= 1
        after[:, 10] += 1
        ended = (ends // 3 == np.where(own == 1, 0, 2)) | ~self.legal(after, history).any(axis=1)
        after[:, 11], after[:, 12] = ended, np.where(ended, own, 0)
        return after

    def keys(self, states: States) -> KeyArray:
        return hashed(states[:, :10])

    def observe(self, states: States, legal: BoolArray) -> Planes:
        points, second = states[:, :9].reshape(-1, 3, 3), self.to_move(states)[:, None, None]
        planes = [points == second + 1, points == 2 - second, np.broadcast_to(second, points.shape)]
        return np.stack(planes, axis=1).astype(np.uint8)

    def ownership(self, states: States) -> NDArray[np.int8]:
        return np.array([0, 1, -1], np.int8)[states[:, :9]]

    def action_name(self, action: int) -> str:
        return "-".join(f"{'abc'[point % 3]}{3 - point // 3}" for point in self.MOVES[action])

    def diagram(self, state: States) -> str:
        rows = [" ".join(".XO"[pawn] for pawn in state[row : row + 3]) for row in (0, 3, 6)]
        return "\n".join([*rows, f"{'XO'[state[9]]} to move"])
