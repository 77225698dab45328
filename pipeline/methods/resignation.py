"""Where to resign: the threshold at which few resignations would have been wrong, measured on games that never resign.

A game that never resigns is played to its end whatever the values say, so it shows what a resignation would have
done. At a threshold t the first player whose own value was below t at two of its moves in a row would have resigned,
as players of a method that resigns do; that would have been *wrong* if that player did not lose. The learner's moves
alone count, in games against opponents too, and searches of both kinds. Values are seen by the player to move. Players
take turns; methods for other games don't resign.

What counts is not the share of wrong ones that was measured but what it may really be: the upper end of a one-sided
interval of 95 %. The threshold that looks best of many was lucky, and few games say little: none wrong of 52 is what
it takes for 5 %.

Axes: G games, T plies of a game, K thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.run.shards import BOTH, End, Shard

CALM = 2  # how many of a player's moves in a row must look lost before it resigns; its last is that many plies ago
NEVER = -1.0  # no value is below it
CONFIDENCE = 1.645  # standard deviations above what was measured: 95 % of a normal distribution lie below
STEP = 0.001  # between the thresholds that are tried
EFFECTIVE = "resign_threshold"  # in a shard's provenance: the threshold by which its games were resigned


@dataclass(frozen=True)
class Watched:
    """One game that never resigned: the values [T] of its moves, the side that the learner played, and the result."""

    values: NDArray[np.floating]
    learner: int
    result_first_player: float


@dataclass(frozen=True)
class Calibration:
    """threshold: at which, of so many games, so many would have been resigned, and so many of those not lost.

    NEVER, if even the lowest that was allowed is wrong too often; the numbers are then those of the lowest.
    """

    threshold: float
    games: int
    resignations: int
    wrong: int

    @property
    def wrong_share(self) -> float:
        return self.wrong / self.resignations if self.resignations else 0.0

    @property
    def wrong_share_at_most(self) -> float:
        """What it may really be; 1 without resignations."""
        return float(_at_most(np.array(self.wrong), np.array(self.resignations)))


def calibrate(games: Sequence[Watched], wrong_share: float, lowest: float, highest: float) -> Calibration:
    """The highest threshold in [lowest, highest] at which surely at most that share of the resignations is wrong.

    NEVER, if there is none. Tried at distances of STEP. Raises ValueError if lowest is above highest.
    """
    if lowest > highest:
        raise ValueError(f"lowest {lowest} is above highest {highest}")
    count = round((highest - lowest) / STEP) + 1
    thresholds = np.linspace(lowest, highest, count) if count > 1 else np.array([lowest])
    resigned = np.zeros(count, np.int64)
    wrong = np.zeros(count, np.int64)
    for game in games:
        player = _first_to_resign(game, thresholds)
        result = np.where(player == 0, game.result_first_player, -game.result_first_player)
        resigned += player >= 0
        wrong += (player >= 0) & (result >= 0)
    good = np.flatnonzero(_at_most(wrong, resigned) <= wrong_share)
    best = int(good[-1]) if len(good) else 0
    threshold = float(thresholds[best]) if len(good) else NEVER
    return Calibration(threshold, len(games), int(resigned[best]), int(wrong[best]))


def _at_most(wrong: NDArray[np.int64], resigned: NDArray[np.int64]) -> NDArray[np.float64]:
    """[K] the share that is wrong, at most: the upper end of Wilson's interval; 1 where nobody resigned.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    n, z = np.maximum(resigned, 1), CONFIDENCE
    share = wrong / n
    most = (share + z * z / (2 * n) + z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return np.where(resigned > 0, most, 1.0)


def _first_to_resign(game: Watched, thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """[K] the player (0, 1) who would resign first at each threshold; −1 nobody."""
    values = game.values.astype(np.float64)
    if len(values) <= CALM:
        return np.full(len(thresholds), -1)
    needed = np.maximum(values[CALM:], values[:-CALM])  # at ply CALM + i its player resigns if this is below
    if game.learner != BOTH:
        needed[np.arange(CALM, len(values)) % 2 != game.learner] = np.inf
    so_far = np.minimum.accumulate(needed)
    first = np.searchsorted(-so_far, -thresholds, side="right")  # the first that is below; so_far never rises
    return np.where(first < len(needed), (first + CALM) % 2, -1)


def watched(shard: Shard) -> list[Watched]:
    """A shard's games that were never resigned, whatever their values said.

    Those marked so; and all if nobody could resign. That a game was merely not resigned isn't enough: such games are
    chosen by their values.
    """
    nobody = shard.header["provenance"].get(EFFECTIVE) == NEVER
    return [
        Watched(
            values=shard.root_values[shard.move_offsets[index] : shard.move_offsets[index + 1]],
            learner=int(shard.learners[index]),
            result_first_player=float(shard.results[index]),
        )
        for index in range(shard.num_games)
        if (nobody or shard.no_resign[index]) and shard.ends[index] != End.RESIGNED
    ]
