"""``Clock``: how long a player may think about its next move, under the time settings of tournaments.

There are three systems. *absolute*: all moves within the main time. *canadian*: after the main time, a number of stones
in each period. *byoyomi* (Japanese): after the main time, a number of periods; a move within a period leaves it whole.
Times are in seconds. The clock divides main time by the expected number of moves left, and uses a period except for a
margin.
Source: GTP version 2, 6.3.4; KGS, "kgs-time_settings".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

MARGIN_SECONDS = 0.15  # left of every limit, for everything but thinking
MARGIN_SHARE = 0.02
MOST_SECONDS = 1e9
RESERVE = 0.1  # share of absolute time kept for the overhead of a long game's many last moves, which take no thought
LEAST_MOVES_LEFT = 12  # the fewest moves that main time is divided by


@dataclass(frozen=True)
class TimeSettings:
    """main     seconds for the whole game
    period   seconds of each period after it: for `stones` moves (canadian) or one move (byoyomi)
    periods  byoyomi's number of periods; 0: canadian or absolute
    """

    main: float
    period: float = 0.0
    stones: int = 0
    periods: int = 0

    def __post_init__(self) -> None:
        for number in (self.main, self.period):
            if not 0 <= number < MOST_SECONDS:
                raise ValueError(f"{number:g} seconds")


class Clock:
    """One player's clock. Without settings there is no limit. It counts down between start() and stop(), until a
    manager corrects it with set_left().
    """

    def __init__(self, settings: TimeSettings | None = None) -> None:
        self.settings = settings
        self._started: float | None = None
        begin = settings or TimeSettings(0.0)
        self._main, self._left = begin.main, begin.period  # seconds
        self._stones = begin.stones  # still to be played in the present period

    def set_left(self, seconds: float, stones: int) -> None:
        """seconds: left of main time if stones is 0, else of the period, for that many stones (byoyomi: periods).

        Raises ValueError for a negative time or number. Without settings, the time is absolute.
        """
        if not 0 <= seconds < MOST_SECONDS or stones < 0:
            raise ValueError(f"{seconds:g} seconds, {stones} stones")
        if self.settings is None:
            self.settings = TimeSettings(seconds)
        self._main, self._left = (seconds, self.settings.period) if stones == 0 else (0.0, seconds)
        self._stones = stones or self.settings.stones

    def seconds(self, moves_left: int) -> float | None:
        """Time for the next move; None without a limit. moves_left: how many this player will make, roughly."""
        settings = self.settings
        if settings is None or (settings.period > 0 and not settings.stones and not settings.periods):
            return None  # a period for no stones is no limit
        for_one = self._left if settings.periods else self._left / max(1, self._stones)
        if self._main <= 0:
            return _less_margin(for_one, self._left)
        reserve = 0.0 if settings.period > 0 else RESERVE * settings.main
        share = max(0.0, self._main - reserve) / max(LEAST_MOVES_LEFT, moves_left)
        return _less_margin(max(share, for_one), self._main + for_one)

    def start(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        """Deduct the time since start() after a move."""
        if self._started is None:
            return
        used, self._started = time.monotonic() - self._started, None
        settings = self.settings
        if settings is None:
            return
        from_main = min(used, self._main)
        self._main -= from_main
        if settings.periods or from_main == used:
            return  # a period of byoyomi begins anew with each move
        self._left, self._stones = max(0.0, self._left - (used - from_main)), self._stones - 1
        if self._stones <= 0:
            self._left, self._stones = settings.period, settings.stones


def _less_margin(seconds: float, most: float) -> float:
    """seconds, cut so that a margin of `most` is left."""
    return max(0.0, min(seconds, most - MARGIN_SECONDS - MARGIN_SHARE * most))
