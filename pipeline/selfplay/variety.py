"""Which board each game is played on, and how it begins, where a model plays boards of all sizes with any komi.

Both are drawn by the game's own numbers, so that a game is the same in whatever run and thread. A thread has an actor
for each board, which take their steps in turn: so a batch for the network has positions of one size. A board that gets
through its games faster than its share allows sits turns out: its games wait, and its batches stay full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pipeline.counter_rng import uniforms
from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame, small_number
from pipeline.methods.method import GameSeed
from pipeline.selfplay.config import SelfplayConfig

COUNTER = 1 << 33  # of a game's looked-up numbers: beyond those that its moves and its opening take
MOST_SETUP = 30  # half points of komi
HALF_POINTS = 2  # setups in a point
# Parts of a thread's rows that a board may have: batches of these sizes aren't padded, see backends.Backend.fractions.
PARTS = tuple(part / 2**halvings for halvings in range(6) for part in (1, 0.75))


class Numbered(NamedTuple):
    """A game that is to be played; number: which of the worker's."""

    number: int
    seed: GameSeed


@dataclass(frozen=True)
class Variety:
    """The boards that games are played on.

    games   one for each board       shares  of all games, sum to 1
    spread  of komi, in points; see selfplay's option
    """

    games: Sequence[AnyGame]
    shares: Sequence[float]
    spread: float

    @staticmethod
    def of(config: SelfplayConfig, home: AnyGame) -> Variety:
        """Raises UsageError for boards that aren't written right or that the model, which plays home, can't play."""
        weights = dict(_parsed(part) for part in config.boards.split(",")) if config.boards else {}
        if len(weights) < config.boards.count(",") + bool(config.boards):
            raise UsageError(f"selfplay --boards {config.boards}: a size stands twice")
        if config.komi_spread and not home.num_global_planes:
            raise UsageError(
                f"selfplay --komi-spread: networks of {home.spec} don't see komi; wanted a model of all boards"
            )
        if not weights:
            return Variety([home], [1.0], config.komi_spread)
        total = sum(weights.values())
        return Variety(
            [home.on_board(size) for size in weights],
            [weight / total for weight in weights.values()],
            config.komi_spread,
        )

    def board_of(self, seed: GameSeed) -> int:
        (drawn,) = uniforms(np.uint64(seed.kinds), np.array([COUNTER]))
        return int(np.searchsorted(np.cumsum(self.shares)[:-1], drawn, side="right"))

    def begun(self, seed: GameSeed) -> GameSeed:
        """The seed with the setup of its game."""
        if not self.spread:
            return seed
        (drawn,) = uniforms(np.uint64(seed.kinds), np.array([COUNTER + 1]))
        beyond = NormalDist(0, HALF_POINTS * self.spread).inv_cdf(min(max(drawn, 1e-9), 1 - 1e-9))
        return replace(seed, setup=round(min(max(beyond, -MOST_SETUP), MOST_SETUP)))

    def rows(self, most: int) -> list[int]:
        """How many of a thread's rows each board has, so that all end at about the same time: a game on a board of
        more points takes as many more moves.
        """
        work = np.array([share * game.state_size for share, game in zip(self.shares, self.games, strict=True)])
        sizes = np.unique([max(1, int(np.ceil(most * part))) for part in PARTS])
        return [int(sizes[np.abs(sizes - wanted).argmin()]) for wanted in most * work / work.sum()]


class Dealer:
    """Hands the games of one thread out to the actors of their boards, each when it starts. Used by that thread.

    Games are drawn in the order of their numbers; those for other boards than the one that asks wait for theirs.
    """

    def __init__(self, games: Iterator[Numbered], variety: Variety) -> None:
        self._games, self._variety = games, variety
        self._waiting: list[deque[Numbered]] = [deque() for _ in variety.games]

    def games_on(self, board: int) -> Iterator[Numbered]:
        """Ends where no game is left for now, and goes on when there are some again."""
        return _OnBoard(self, board)

    def next_on(self, board: int) -> Numbered | None:
        waiting = self._waiting[board]
        while not waiting and (dealt := next(self._games, None)) is not None:
            self._waiting[self._variety.board_of(dealt.seed)].append(dealt)
        if not waiting:
            return None
        number, seed = waiting.popleft()
        return Numbered(number, self._variety.begun(seed))

    def is_ahead(self, board: int) -> bool:
        """Whether games wait for other boards, and none for this one. If such boards sit turns out, the games that have
        been started are always about the first ones by number, so that their boards have the shares asked for.
        """
        return bool(self) and not self._waiting[board]

    def __bool__(self) -> bool:
        """Whether a game has been dealt to a board that hasn't asked for it yet."""
        return any(self._waiting)


@dataclass
class _OnBoard(Iterator[Numbered]):
    dealer: Dealer
    board: int

    def __next__(self) -> Numbered:
        dealt = self.dealer.next_on(self.board)
        if dealt is None:
            raise StopIteration
        return dealt


def _parsed(part: str) -> tuple[int, float]:
    size, equals, text = part.partition("=")
    try:
        share = float(text) if equals else 1.0
    except ValueError:
        share = float("nan")
    if not 0 < share < float("inf") or small_number(size.strip()) < 1:
        raise UsageError(f"selfplay --boards: {part!r}; wanted SIZE=SHARE, e.g. 7=1,9=4,13=2")
    return small_number(size.strip()), share
