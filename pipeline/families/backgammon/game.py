"""Backgammon without the doubling cube, and hypergammon: the same game with three checkers each.

Rules, where implementations differ:
    start      backgammon's standard position; in hypergammon each player's checkers are on their points 24, 23 and 22
    opening    the first player moves first, with two different dice; all fifteen such throws are equally likely. This
               equals the usual rule: both throw a die, and the higher one begins with these two dice
    turn       one move plays both dice, or a double's number four times, in any order. A player plays as many dice as
               possible, and the larger one if either can be played but not both
    same turn  turns that end in the same position are one move; a player who can't move has one move: no change
    bearing    only with all checkers in the home board; a die larger than the highest point bears off from that point
    result     1 point; 2 (gammon) if the loser has borne off no checker; 3 (backgammon) if the loser also has a checker
               on the bar or in the winner's home board
    end        a game of MAX_PLIES plies has no winner. The rules set no limit, but random players may never finish

Specs: ``backgammon``; ``backgammon,reward=2.5``, where a backgammon counts 2.5 points instead of 3; ``hypergammon``.

A throw and a turn are one ply each. Chance outcomes are the 21 throws: 11, 21, 22, 31, 32, 33 … 66.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.backgammon import kernels, notation, tactical_features
from pipeline.families.backgammon.feature_game import FeatureGame, FeatureTables
from pipeline.families.backgammon.heuristic import move_scores
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, NUM_POINTS, OFF, PLY, TURN
from pipeline.games.capabilities import OwnSgf
from pipeline.games.contract import (
    CHANCE,
    Actions,
    BoolArray,
    FloatArray,
    IntArray,
    KeyArray,
    MoveScores,
    States,
    Successors,
)

if TYPE_CHECKING:
    from pipeline.games.records import PlayedGame

MAX_PLIES = 2000
PRIME_LENGTH = 5  # points in a row
STARTS = {"backgammon": {24: 2, 13: 5, 8: 3, 6: 5}, "hypergammon": {24: 1, 23: 1, 22: 1}}  # point: checkers
REWARDS = {"3": 3.0, "2.5": 2.5}

THROWS = np.array([(high, low) for high in range(1, 7) for low in range(1, high + 1)], np.int16)  # [21, 2]
THROW_NAMES = [f"{high}{low}" for high, low in THROWS.tolist()]
PROBABILITIES = np.where(THROWS[:, 0] == THROWS[:, 1], 1 / 36, 2 / 36).astype(np.float32)
OPENING_PROBABILITIES = np.where(THROWS[:, 0] == THROWS[:, 1], 0, 1 / 15).astype(np.float32)
_ODDS = np.stack([PROBABILITIES, OPENING_PROBABILITIES])


class Backgammon(FeatureGame, OwnSgf):
    """Rules: the module docstring. State layout: kernels.py. Move names: notation.py."""

    state_size = kernels.STATE_SIZE
    max_plies = move_limit = MAX_PLIES
    has_chance = True
    num_features = kernels.NUM_FEATURES
    num_tactical_features = tactical_features.NUM_TACTICAL_FEATURES

    def __init__(self, name: str = "backgammon", reward: float = 3.0) -> None:
        """name: a key of STARTS; reward: points for a backgammon."""
        self.spec = name if reward == 3 else f"{name},reward={reward:g}"
        self.known_as = name.capitalize()
        self.is_hypergammon = name == "hypergammon"
        self.has_structures = not self.is_hypergammon  # three checkers make one point
        self.max_result = reward
        self.result_names = {2.0: "gammon", reward: "backgammon"}
        self.num_checkers = sum(STARTS[name].values())  # of each player
        self._start = np.zeros(self.state_size, np.int16)
        for point, count in STARTS[name].items():
            self._start[point - 1], self._start[NUM_POINTS - point] = count, -count

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Backgammon:
        """Raises UsageError for a size, an option other than reward, or a reward other than 3 and 2.5."""
        if size is not None or set(options) - {"reward"}:
            raise UsageError("game backgammon has no size and only the option reward=2.5; wanted just backgammon")
        reward = options.get("reward", "3")
        if reward not in REWARDS:
            raise UsageError(f"game backgammon: reward={reward}; wanted 3 or 2.5 points for a backgammon")
        return Backgammon(reward=REWARDS[reward])

    @staticmethod
    def hypergammon(size: str | None, options: dict[str, str]) -> Backgammon:
        """Raises UsageError for a size or options."""
        if size is not None or options:
            raise UsageError("game hypergammon has no size or options; wanted just hypergammon")
        return Backgammon("hypergammon")

    def initial(self, num_games: int) -> States:
        return np.tile(self._start, (num_games, 1))

    def successors(self, states: States) -> Successors:
        return Successors(*kernels.successors(states, self.num_checkers, self.max_plies))

    def happen(self, states: States, outcomes: Actions) -> States:
        after = states.copy()
        after[:, HIGH_DIE : LOW_DIE + 1] = THROWS[outcomes]
        after[:, PLY] += 1
        return after

    def chance(self, states: States) -> FloatArray:
        return _ODDS[(states[:, PLY] == 0).astype(np.intp)]

    def is_over(self, states: States) -> BoolArray:
        return kernels.ended(states, self.num_checkers, self.max_plies)

    def cut_short(self, states: States) -> BoolArray:
        return ~self._is_won(states) & (states[:, PLY] >= self.max_plies)

    def _is_won(self, states: States) -> BoolArray:
        return (states[:, OFF] == self.num_checkers) | (states[:, OFF + 1] == self.num_checkers)

    def returns(self, states: States) -> FloatArray:
        won = kernels.points_won(states, self.num_checkers).astype(np.float32)
        return np.sign(won) * np.where(np.abs(won) == 3, np.float32(self.max_result), np.abs(won))

    def to_move(self, states: States) -> NDArray[np.int8]:
        throwing = (states[:, HIGH_DIE] == 0) & ~self.is_over(states)
        return np.where(throwing, CHANCE, states[:, TURN]).astype(np.int8)

    def turns(self, states: States) -> NDArray[np.int8]:
        """[B] int8: whose turn it is, 0 or 1, both before and after the throw."""
        return states[:, TURN].astype(np.int8)

    def features(self, states: States, viewers: NDArray[np.int8] | None = None) -> FloatArray:
        """[B, 198] float32: Tesauro's inputs, see kernels.features.

        viewers [B] int8: each position's viewer; None: the player whose turn it is.
        """
        return kernels.features(states, self.turns(states) if viewers is None else viewers)

    def tactical_features(self, states: States, viewers: NDArray[np.int8] | None = None) -> FloatArray:
        """[B, 21] float32: tactical features, see tactical_features.py; viewers as in features()."""
        viewers = self.turns(states) if viewers is None else viewers
        return tactical_features.tactical_features(states, viewers, tactical_features.ways())

    def feature_tables(self) -> FeatureTables:
        # The contribution of each single word to an empty board. Counts on the bar and off are never negative, so
        # their negative entries are unused.
        words = np.arange(TURN)
        values = np.arange(-self.num_checkers, self.num_checkers + 1)
        empty = np.zeros((2, self.state_size), np.int16)
        empty[1, TURN] = 1
        fixed = self.features(empty)
        boards = np.tile(empty[:, None, None], (1, len(words), len(values), 1))
        boards[:, words[:, None], np.arange(len(values)), words[:, None]] = values
        tables = self.features(boards.reshape(-1, self.state_size)).reshape(*boards.shape[:3], -1)
        return FeatureTables(words, int(values[0]), tables - fixed[0], fixed[0])

    def structures(self, states: States, players: NDArray[np.int8]) -> BoolArray:
        points = np.where(players[:, None] == 0, states[:, :NUM_POINTS], -states[:, NUM_POINTS - 1 :: -1])
        made = points >= 2
        barred = states[np.arange(len(states)), kernels.BAR + 1 - players] > 0
        runs = np.lib.stride_tricks.sliding_window_view(made, PRIME_LENGTH, axis=1).all(axis=2)
        return np.stack([made[:, : kernels.HOME].all(axis=1) & barred, np.any(runs, axis=1)], axis=1)

    def plies(self, states: States) -> IntArray:
        return states[:, PLY].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return kernels.keys(states, _key_weights())

    def move_name(self, state: States, action: int) -> str:
        throwing = self._throwing(state)
        after = self.successors(state[None]).states
        if not 0 <= action < (len(THROWS) if throwing else len(after)):
            raise IndexError(action)
        return THROW_NAMES[action] if throwing else notation.name(state, after[action])

    def parse_move(self, state: States, text: str) -> int:
        if self._throwing(state):
            found = [i for i, throw in enumerate(THROW_NAMES) if text.strip() in (throw, throw[::-1])]
            if not found or not self.chance(state[None])[0, found[0]]:
                raise IllegalMove(f"{self.spec}: {text!r} is not a possible throw here; wanted two dice, e.g. 31")
            return found[0]
        after = self.successors(state[None]).states
        found = notation.matching(text, state, after)
        if len(found) == 1:
            return found[0]
        names = [notation.name(state, after[i]) for i in (found or range(min(len(after), 2)))]
        if not names:
            raise IllegalMove(f"{self.spec}: {text!r}: the game is over")
        problem = "is ambiguous; wanted" if found else "is not a legal move here; wanted e.g."
        raise IllegalMove(f"{self.spec}: {text!r} {problem} {' or '.join(names)}")

    def diagram(self, state: States) -> str:
        turn, throwing, over = "XO"[state[TURN]], self._throwing(state), bool(self.is_over(state[None])[0])
        to_do = "to throw" if throwing else f"to move, dice {state[HIGH_DIE]}{state[LOW_DIE]}"
        return "\n".join([*notation.diagram(state), f"  {'over' if over else f'{turn} {to_do}'}, ply {state[PLY]}"])

    def own_sgf(self, played: PlayedGame) -> str:
        from pipeline.families.backgammon.records import gammon_sgf

        return gammon_sgf(self, played.moves, played.text, played.comments, played.resigned_by)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)

    def _throwing(self, state: States) -> bool:
        """Whether a throw comes next in state [S]."""
        return bool(self.to_move(state[None])[0] == CHANCE)


@lru_cache(maxsize=1)
def _key_weights() -> KeyArray:
    return np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, PLY, np.uint64)
