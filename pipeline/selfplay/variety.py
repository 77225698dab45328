"""Which board each game is played on, and with what komi, for models that play boards of all sizes with any komi.

Both are sampled by the game's own seed, komi around the usual one or around one that makes games even (fair_komi.py).

A thread has an actor for each board, as a batch for the network has positions of one size; the actors take turns. At
first each board fills its rows. From then on, a board that begins its games faster than its share allows skips turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from pipeline.counter_rng import uniforms
from pipeline.errors import UsageError
from pipeline.games.capabilities import AllBoards, Komi, komi_of
from pipeline.games.contract import AnyGame, small_number
from pipeline.methods.method import GameSeed
from pipeline.options import changed
from pipeline.selfplay.config import SelfplayConfig

COUNTER = 1 << 33  # of a game's counter-based RNG; its moves and its opening use lower counters
HALF_POINTS = 2  # setups in a point
MOST_SPREAD = 15 * HALF_POINTS
MOST_FAIR = 30 * HALF_POINTS  # by which a fair komi differs from the usual one
# Parts of a thread's rows that a board may have. Batches of these sizes aren't padded, see Backend.fractions.
PARTS = tuple(part / 2**halvings for halvings in range(6) for part in (1, 0.75))


@dataclass
class Variety:
    """The boards that games are played on, and their komi; see the options of the same names.

    fair_setups  by the board's spec; replaced, never changed, as games end
    """

    games: Sequence[AnyGame]  # one for each board
    shares: Sequence[float]  # of all games; they sum to 1
    komi_spread: float = 0.0
    fair_komi_fraction: float = 0.0
    fair_setups: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(config: SelfplayConfig, home: AnyGame) -> Variety:
        """home: the model's own board. Raises UsageError for boards that are malformed or that the model can't play."""
        parts = config.boards.split(",") if config.boards else []
        weights = dict(map(_parsed, parts))
        if len(weights) < len(parts):
            raise UsageError(f"selfplay --boards {config.boards}: a size is listed twice")
        if not (isinstance(home, AllBoards) and isinstance(home, Komi)):
            for name in changed(config, ["komi_spread", "fair_komi_fraction"]):
                option = name.replace("_", "-")
                raise UsageError(f"selfplay --{option}: networks of {home.spec} don't see komi; leave it out")
        if not isinstance(home, AllBoards):
            if weights:
                raise UsageError(f"selfplay --boards {config.boards}: {home.spec} is played on one board; leave it out")
            return Variety([home], [1.0])
        games = [home.on_board(size) for size in weights] or [home]
        total = sum(weights.values())
        shares = [weight / total for weight in weights.values()] or [1.0]
        return Variety(games, shares, config.komi_spread, config.fair_komi_fraction)

    def board_of(self, seed: GameSeed) -> int:
        """The index of a game's board."""
        (sampled,) = uniforms(np.uint64(seed.kinds), np.array([COUNTER]))
        return int(np.searchsorted(np.cumsum(self.shares)[:-1], sampled, side="right"))

    def with_setup(self, seed: GameSeed, board: int) -> GameSeed:
        """The seed of a game on a board, with its komi."""
        if not self.komi_spread and not self.fair_komi_fraction:
            return seed
        of_spread, of_fair = uniforms(np.uint64(seed.kinds), COUNTER + np.array([1, 2]))
        game, differs = self.games[board], 0.0
        if self.komi_spread:
            differs = NormalDist(0, HALF_POINTS * self.komi_spread).inv_cdf(min(max(of_spread, 1e-9), 1 - 1e-9))
        setup = within(differs, MOST_SPREAD)
        if of_fair < self.fair_komi_fraction:
            setup += self.fair_setups.get(game.spec, 0)
        assert isinstance(game, AllBoards)  # or its networks see no komi
        most = HALF_POINTS * (game.num_points - abs(komi_of(game) or 0))  # komi beyond all points decides the game
        return replace(seed, setup=round(within(setup, most)))

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
        return self._variety.with_setup(waiting.popleft(), board) if waiting else None

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


def within(number: float, most: float) -> float:
    return min(max(number, -most), most)


def _parsed(part: str) -> tuple[int, float]:
    size, equals, text = part.partition("=")
    try:
        share = float(text) if equals else 1.0
    except ValueError:
        share = float("nan")
    if not 0 < share < float("inf") or small_number(size.strip()) < 1:
        raise UsageError(f"selfplay --boards: {part!r}; wanted SIZE=SHARE, e.g. 7=1,9=4,13=2")
    return small_number(size.strip()), share
