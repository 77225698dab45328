"""Gomoku: five in a row on boards from 9×9 to 19×19, free or with captures.

Free (``gomoku:15``): players place stones in turn; five or more of one colour in a row (horizontal, vertical, diagonal)
win, with the option ``exact`` only exactly five. A full board is a draw.

With captures (``gomoku:19,capture``), as in Ninuki-renju and Pente, and most of all in the Gomoku that pupils of the
school 42 program:
    capture      a stone that encloses exactly two enemy stones in a line between itself and another own one takes them
                 off the board, in all eight directions at once. Moving in between two enemy stones is safe.
    pairs        a player who has captured ``pairs`` pairs (5; 3 to 7) wins at once, whatever else stands
    five         a five doesn't win yet if the opponent can answer it, by a capture that leaves no five, or by one that
                 wins by pairs. If the opponent's move does neither, the five wins after it. ``breakable=off``: any
                 five wins at once.
    double-three a move that makes free threes on two or more lines at once is forbidden, for both players, unless it
                 makes a five or takes the last pair. A *free three* becomes a straight four (four in a row with both
                 ends empty) by one more stone, and isn't a four itself, i.e. can't become a five by one stone. It
                 contains the stone just played; broken threes (X.XX) count; of overlapping threes on one line only
                 one counts. (Three and straight four: International Rules of Renju, RIF 1998, chapter 3,
                 renju.net/study/rifrules.php; but stones beyond a gap don't matter here, and nothing looks ahead for
                 captures or further bans.) A move that captures may make two threes; with ``threes_by_capture=off``
                 it may not, and the threes that count are those after the capture.
    draw         when the player to move has no move left

The network sees (Gomoku.plane_names) the stones, the last move, and what a stone of either colour would make on each
empty point. With captures it also sees the pairs taken, forbidden points, and a five that must be answered.

Spec: ``gomoku:SIZE[,exact]`` or ``gomoku:SIZE,capture[,pairs=N][,threes_by_capture=off][,breakable=off]``. With
``,opponents`` after either, the network also sees whether a player meets one that doesn't learn (see SeesOpponents).
Actions are points; their names are a column letter, I included, and a row number from below: ``H8``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.gomoku import kernels
from pipeline.families.gomoku import shapes as gomoku_shapes
from pipeline.families.gomoku.heuristic import move_scores
from pipeline.games.all_boards import SIZE, maker
from pipeline.games.capabilities import InSgf, SeesOpponents, Sgf, SharedRules
from pipeline.games.contract import (
    OFF,
    ON,
    Actions,
    AnyGame,
    BoolArray,
    History,
    IntArray,
    MoveScores,
    Planes,
    States,
    small_number,
)
from pipeline.games.row_kernels import FIRST, SECOND
from pipeline.games.stones import COLUMNS_WITHOUT_I, REFUSALS, Look, RowGame

MIN_PAIRS, MAX_PAIRS, DEFAULT_PAIRS = 3, 7, 5
# Planes of what a stone on an empty point would make, captures aside. A threat is a straight four, a four or a three.
SHAPES = ("a five", "a straight four", "a four", "a three", "threats on two lines")


@lru_cache(maxsize=1)
def shape_table() -> NDArray[np.int32]:
    """shapes.shape_table(), made once per process."""
    return gomoku_shapes.shape_table()


class Gomoku(RowGame, InSgf, SharedRules):
    """See the module docstring for the rules, ``kernels`` for the state's layout.

    pairs: captured pairs that win; 0: the free game, without captures or the other rules of that variant.
    """

    known_as, examples, protocol_columns = "Gomoku", "e.g. H8", COLUMNS_WITHOUT_I
    look = Look(on_lines=True)
    refusals: ClassVar[Mapping[int, str]] = {
        **REFUSALS,
        kernels.DOUBLE_THREE: "it makes two free threes (double-three)",
    }

    def __init__(
        self,
        size: int,
        exact: bool = False,
        pairs: int = 0,
        threes_by_capture: bool = True,
        breakable: bool = True,
    ) -> None:
        super().__init__(size, size, kernels.EXTRA_WORDS)
        self.size = size
        self.rules = kernels.Rules(size, int(exact), pairs, int(pairs > 0), int(threes_by_capture), int(breakable))
        self.spec = f"gomoku:{size}"
        if exact:
            self.spec += ",exact"
        self.plane_names = ("own stones", "opponent's stones", "last move", "second player to move")
        for who in ("own", "opponent's"):
            self.plane_names += tuple(f"{who} stone would make {shape}" for shape in SHAPES)
        if pairs:
            self.spec += ",capture"
            self.spec += f",pairs={pairs}" if pairs != DEFAULT_PAIRS else ""
            self.spec += "" if threes_by_capture else f",threes_by_capture={OFF}"
            self.spec += "" if breakable else f",breakable={OFF}"
            for who in ("own", "opponent's"):
                self.plane_names += tuple(f"{who} pairs: {number} or more" for number in range(1, pairs))
            self.plane_names += ("empty but forbidden (double-three)", "opponent has a five to be answered")
        self.sgf = Sgf(4, rules=self.spec.partition(",")[2] or "free")
        # Every move adds a stone, and the captures before the last one take at most 2 (pairs - 1) pairs.
        self.max_plies = self.num_points + 4 * max(0, pairs - 1)
        self._lines = gomoku_shapes.board_lines(size)

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Gomoku:
        """Raises UsageError for a size outside 9–19, an unknown option, or options that contradict each other."""
        known = ("exact", "capture", "pairs", "threes_by_capture", "breakable", "opponents")
        kind = GomokuWithOpponents if options.get("opponents") == ON else Gomoku
        make = maker(kind, "gomoku", size, options, sizes=range(9, 20), home=9, usual=15, known=known)
        where = f"game gomoku:{size}"
        for name, text in options.items():
            if name not in ("pairs", SIZE) and text not in (ON, OFF):
                raise UsageError(f"{where}: {name}={text}; wanted {ON} or {OFF}")
        exact, capture = options.get("exact") == ON, options.get("capture") == ON
        if exact and capture:
            raise UsageError(f"{where}: exact and capture don't go together; leave one out")
        for name in ("pairs", "threes_by_capture", "breakable"):
            if name in options and not capture:
                raise UsageError(f"{where}: {name} needs captures; wanted gomoku:{size},capture,{name}={options[name]}")
        pairs = options.get("pairs", str(DEFAULT_PAIRS))
        if not MIN_PAIRS <= small_number(pairs) <= MAX_PAIRS:
            raise UsageError(f"{where}: pairs={pairs}; wanted a number from {MIN_PAIRS} to {MAX_PAIRS}")
        by_capture, breakable = (options.get(name, ON) == ON for name in ("threes_by_capture", "breakable"))
        return make(exact, int(pairs) if capture else 0, by_capture, breakable)

    def initial(self, num_games: int) -> States:
        states = np.zeros((num_games, self.state_size), np.int16)
        states[:, self.num_points + kernels.LAST] = -1
        return states

    @property
    def board_title(self) -> str:
        """Without what networks see of opponents: the board and the rules are the same."""
        rules = self.rules
        found = [f"{self.size}×{self.size} Gomoku" + (" with captures" if rules.goal else "")]
        found += ["exactly five win"] if rules.exact else []
        found += [f"{rules.goal} pairs win"] if rules.goal not in (0, DEFAULT_PAIRS) else []
        found += ["no double-threes by capture"] if rules.goal and not rules.by_capture else []
        found += ["any five wins at once"] if rules.goal and not rules.breakable else []
        return ", ".join(found)

    def as_seen(self, other: AnyGame) -> Self | None:
        return self if isinstance(other, Gomoku) and other.rules == self.rules else None

    def with_stones(self, first: Sequence[int], second: Sequence[int]) -> States:
        """[1, S] with these stones of the first and of the second player, and no captured pairs.

        The number of stones is the number of plies, and the last stone of the player who isn't to move is the last
        move. Raises IllegalMove if a point occurs twice, the numbers of stones are impossible, a five decides the game,
        or no move is possible.
        """
        state = self.initial(1)
        if len(first) - len(second) not in (0, 1):
            raise IllegalMove(f"{len(first)} and {len(second)} stones: no position of {self.spec}")
        everywhere = [*first, *second]
        twice = sorted({self.action_name(point) for point in everywhere if everywhere.count(point) > 1})
        if twice:
            raise IllegalMove(f"two stones on {', '.join(twice)}: no position of {self.spec}")
        colours = (FIRST, SECOND)
        state[0, list(first)], state[0, list(second)] = colours
        words = state[0, self.num_points :]
        words[kernels.TO_MOVE] = mover = len(first) - len(second)
        words[kernels.PLY] = len(first) + len(second)
        moved = (second, first)[mover]
        words[kernels.LAST] = moved[-1] if moved else -1
        fives = [colour for colour in colours if kernels.has_five(state[0], self.rules, colour)]
        breakable = self.rules.breakable and self.rules.goal and fives == [2 - mover]
        if breakable and kernels.can_answer(state[0], self.rules, mover, shape_table()):
            words[kernels.FIVE] = 2 - mover
        elif fives:
            raise IllegalMove(f"a five stands already: this game of {self.spec} is over")
        if not kernels.can_move(state[0], self.rules, mover, shape_table()):
            raise IllegalMove(f"nobody can move: this game of {self.spec} is over")
        return state

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(states, actions, self.rules, shape_table())

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        deciding = history is not None
        kernels.legal_and_observe(states, self.rules, self._lines, shape_table(), deciding, allowed, planes)

    def shapes(self, states: States) -> NDArray[np.uint8]:
        """[B, 2, P, 5] the number of lines on which a stone of each player on each empty point makes each shape."""
        counts = np.empty((len(states), 2, self.num_points, 5), np.uint8)
        gomoku_shapes.count_shapes(states, self._lines, shape_table(), counts)
        return counts

    def fives(self, states: States, players: NDArray[np.int8]) -> BoolArray:
        """[B, P] the empty points where a stone of players [B] would make a winning row."""
        return kernels.five_points(states, self.rules, players)

    def captures(self, states: States, players: NDArray[np.int8]) -> IntArray:
        """[B, P] how many pairs a stone of players [B] on each empty point captures."""
        return kernels.all_captures(states, self.size, players)

    def pairs(self, states: States) -> IntArray:
        """[B, 2] pairs that each player has captured."""
        first = self.num_points + kernels.PAIRS
        return states[:, first : first + 2].astype(np.int32)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)

    def remark(self, state: States, names: Sequence[str]) -> str:
        words, said = state[self.num_points :], []
        if self.rules.goal:
            said.append(f"pairs: {names[0]} {words[kernels.PAIRS]}, {names[1]} {words[kernels.PAIRS + 1]}")
        if words[kernels.FIVE]:
            said.append(f"{names[words[kernels.FIVE] - 1]}'s five must be answered")
        return "; ".join(said)


class GomokuWithOpponents(Gomoku, SeesOpponents):
    """``,opponents``: two more planes say who meets an opponent that doesn't learn."""

    def __init__(self, *rules: Any) -> None:
        super().__init__(*rules)
        self.spec += ",opponents"
        self._meets = len(self.plane_names)  # the first of the two planes
        self.plane_names += ("meets one who doesn't learn", "doesn't learn")

    def begin(self, setups: NDArray[np.integer]) -> States:
        wrong = np.flatnonzero((setups < 0) | (setups > 2))
        if wrong.size:
            raise IllegalMove(f"{self.spec}: setup {setups[wrong[0]]}; wanted 0, 1 or 2")
        states = self.initial(len(setups))
        states[:, self.num_points + kernels.MET] = setups
        return states

    def varied(self, setup: int) -> Self:
        self.begin(np.array([setup]))
        return self  # the rules are the same

    def met_by(self, states: States, players: NDArray[np.int8]) -> States:
        found = states.copy()
        found[:, self.num_points + kernels.MET] = players + 1
        return found

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        super().analyse(states, history, allowed, planes)
        if len(planes):
            words = states[:, self.num_points :]
            meets, own = words[:, kernels.MET], words[:, kernels.TO_MOVE] + 1
            planes[:, self._meets] = (meets == own)[:, None]
            planes[:, self._meets + 1] = (meets == 3 - own)[:, None]
