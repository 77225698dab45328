"""Which board each game is played on, and with what komi, for models that play boards of all sizes with any komi.

Both are sampled by the game's own seed. A thread has an actor for each board, as a batch for the network has positions
of one size; the actors take turns. At first each board fills its rows. From then on, a board that begins its games
faster than its share allows skips turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from pipeline.counter_rng import uniforms
from pipeline.errors import UsageError
from pipeline.games.capabilities import AllBoards, Komi
from pipeline.games.contract import AnyGame, small_number
from pipeline.methods.method import GameSeed
from pipeline.selfplay.config import SelfplayConfig

COUNTER = 1 << 33  # of a game's counter-based RNG; its moves and its opening use lower counters
MAX_SETUP = 30  # half points of komi
HALF_POINTS = 2  # setups in a point
# Parts of a thread's rows that a board may have. Batches of these sizes aren't padded, see Backend.fractions.
PARTS = tuple(part / 2**halvings for halvings in range(6) for part in (1, 0.75))


@dataclass(frozen=True)
class Variety:
    """The boards that games are played on."""

    games: Sequence[AnyGame]  # one for each board
    shares: Sequence[float]  # of all games; they sum to 1
    spread: float  # of komi, in points; see the option komi_spread

    @staticmethod
    def of(config: SelfplayConfig, home: AnyGame) -> Variety:
        """home: the model's own board. Raises UsageError for boards that are malformed or that the model can't play."""
        parts = config.boards.split(",") if config.boards else []
        weights = dict(map(_parsed, parts))
        if len(weights) < len(parts):
            raise UsageError(f"selfplay --boards {config.boards}: a size is listed twice")
        if config.komi_spread and not (isinstance(home, AllBoards) and isinstance(home, Komi)):
            raise UsageError(f"selfplay --komi-spread: networks of {home.spec} don't see komi; leave it out")
        if not isinstance(home, AllBoards):
            if weights:
                raise UsageError(f"selfplay --boards {config.boards}: {home.spec} is played on one board; leave it out")
            return Variety([home], [1.0], 0.0)
        games = [home.on_board(size) for size in weights] or [home]
        total = sum(weights.values())
        return Variety(games, [weight / total for weight in weights.values()] or [1.0], config.komi_spread)

    def board_of(self, seed: GameSeed) -> int:
        """The index of a game's board."""
        (sampled,) = uniforms(np.uint64(seed.kinds), np.array([COUNTER]))
        return int(np.searchsorted(np.cumsum(self.shares)[:-1], sampled, side="right"))

    def with_setup(self, seed: GameSeed) -> GameSeed:
        """The seed of a game, with its komi."""
        if not self.spread:
            return seed
        (sampled,) = uniforms(np.uint64(seed.kinds), np.array([COUNTER + 1]))
        setup = NormalDist(0, HALF_POINTS * self.spread).inv_cdf(min(max(sampled, 1e-9), 1 - 1e-9))
        return replace(seed, setup=round(min(max(setup, -MAX_SETUP), MAX_SETUP)))

    def rows(self, most: int) -> list[int]:
        """How many of a thread's rows each board has, by its share of the moves: games are longer on larger boards."""
        work = np.array([share * game.state_size for share, game in zip(self.shares, self.games, strict=True)])
        sizes = np.unique([max(1, int(np.ceil(most * part))) for part in PARTS])
        return [int(sizes[np.abs(sizes - wanted).argmin()]) for wanted in most * work / work.sum()]


class Dealer:
    """Hands the games of one thread to the actors of their boards, each when it starts. Used by that thread only.

    Games are dealt in the order of their numbers; a game for another board waits until that board asks. Filling the
    rows of a board with few but long games deals many games of other boards, which go on waiting: if these were begun
    first, the long games would stand still meanwhile.
    """

    def __init__(self, take: Callable[[], GameSeed | None], variety: Variety) -> None:
        """take: returns the next game; None: there is none now."""
        self._take, self._variety = take, variety
        self._waiting: list[deque[GameSeed]] = [deque() for _ in variety.games]
        self._waited_at_first = [0] * len(variety.games)  # how many waited once the rows were filled

    def rows_are_filled(self) -> None:
        """Called after all boards have asked for their first games."""
        self._waited_at_first = [len(waiting) for waiting in self._waiting]

    def next_on(self, board: int) -> GameSeed | None:
        waiting = self._waiting[board]
        while not waiting and (dealt := self._take()) is not None:
            self._waiting[self._variety.board_of(dealt)].append(dealt)
        return self._variety.with_setup(waiting.popleft()) if waiting else None

    def is_ahead(self, board: int) -> bool:
        """Whether more games wait for other boards than at first, and none for this one. It then skips turns."""
        if self._waiting[board]:
            return False
        return any(len(waiting) > first for waiting, first in zip(self._waiting, self._waited_at_first, strict=True))

    def __bool__(self) -> bool:
        """Whether a game has been dealt to a board that hasn't asked for it yet."""
        return any(self._waiting)


@dataclass
class GamesOn(Iterator[GameSeed]):
    """The games of a board. Ends when no game is left, and yields games again once there are new ones."""

    dealer: Dealer
    board: int

    def __next__(self) -> GameSeed:
        if (dealt := self.dealer.next_on(self.board)) is None:
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
