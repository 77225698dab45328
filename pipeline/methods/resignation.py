"""When to resign: the rule, and the calibration of its threshold on games that never resign.

A player resigns when its own value is below the threshold at two of its moves in a row. In self-play only the learner
resigns, and only in games in which players take turns.

In a game that never resigns, a resignation would have been *wrong* if the first player to resign did not lose.
Calibration only counts the learner's moves. It bounds the wrong share of resignations by the upper end of a one-sided
95 % confidence interval: a bound of 5 % takes 52 resignations without a wrong one.

Values are seen by the player to move. Axes: T plies of a game, K thresholds, n players to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, UsageError
from pipeline.games.contract import AnyGame
from pipeline.games.specs import are_related
from pipeline.run.shards import BOTH, End, Shard, newest_shards, read_shard

RESIGN_CONSECUTIVE_MOVES = 2  # of one player, whose values must be below the threshold
PLIES = 2 * RESIGN_CONSECUTIVE_MOVES - 1  # from the first of these moves to the last
NEVER = -1.0  # as a threshold: no resignation
HOPELESS = -0.95  # the threshold against a person
RESIGN_THRESHOLD = "resign_threshold"  # key of a shard's provenance: the threshold of its games
CONFIDENCE = 1.645  # standard deviations; 95 % of a normal distribution lie below
STEP = 0.001  # between the thresholds tried
MIN_GAMES = 50  # fewer don't determine a rate of a few per cent
MAX_GAMES = 1000
MAX_MODELS = 5  # games of older models differ too much


def resignation_values(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """[T] for values [T]: at each ply the highest value of the mover's last RESIGN_CONSECUTIVE_MOVES moves.

    The rule: the player to move resigns if this is below the threshold. It is inf after fewer moves.
    """
    found = np.full_like(values, np.inf)
    if len(values) >= PLIES:
        found[PLIES - 1 :] = np.lib.stride_tricks.sliding_window_view(values, PLIES)[:, ::2].max(axis=1)
    return found


def resigns(values: Sequence[float], threshold: float) -> bool:
    """Whether a player resigns at the last of its own moves, whose values these are; NaN: unknown.

    With NEVER it doesn't, even where values aren't between -1 and 1, e.g. in points.
    """
    last = values[-RESIGN_CONSECUTIVE_MOVES:]
    return threshold > NEVER and len(last) == RESIGN_CONSECUTIVE_MOVES and all(value < threshold for value in last)


class OwnValues:
    """The rule in a game whose moves may be taken back, by a manager."""

    def __init__(self) -> None:
        self._values: dict[int, float] = {}  # by the number of moves before

    def resigns(self, ply: int, value_to_move: float, threshold: float) -> bool:
        """Whether the player resigns at its move after `ply` moves; what was later is forgotten."""
        self._values = {at: value for at, value in self._values.items() if at < ply} | {ply: value_to_move}
        return resigns([*self._values.values()], threshold)


class AgainstPerson:
    """The rule in a game against a person, whose moves may be taken back: as people do, it plays close games on."""

    def __init__(self, game: AnyGame) -> None:
        self._game = game
        self._values: dict[int, float] = {}  # by ply; inf in close games

    def resigns(self, ply: int, value_to_move: float, lead_to_move: float | None) -> bool:
        """Whether the player to move at this ply resigns. lead_to_move: in the unit of scores(); None: not known."""
        behind = self._game.resigned_behind
        is_close = behind is None or (lead_to_move is not None and lead_to_move > -behind)
        self._values[ply] = np.inf if is_close else value_to_move
        return resigns([self._values.get(at, np.inf) for at in range(ply - PLIES + 1, ply + 1, 2)], HOPELESS)


@dataclass(frozen=True)
class NoResignGame:
    """A game that never resigns: values [T] of its moves, the side that the learner played or BOTH, and the result."""

    values: NDArray[np.floating]
    learner: int
    result_first_player: float


@dataclass(frozen=True)
class Calibration:
    """The threshold found, and what it would have done in the games it was found on."""

    threshold: float  # NEVER if even the lowest allowed one is wrong too often; the numbers are then the lowest one's
    games: int  # that never resign
    resignations: int  # games that would have been resigned
    wrong_resignations: int  # those whose first player to resign did not lose

    @property
    def wrong_share(self) -> float:
        return self.wrong_resignations / self.resignations if self.resignations else 0.0

    @property
    def wrong_share_at_most(self) -> float:
        """Upper confidence bound of the wrong share; 1 without resignations."""
        return float(_upper_bound(np.array(self.wrong_resignations), np.array(self.resignations)))


def calibrate(games: Sequence[NoResignGame], wrong_share: float, lowest: float, highest: float) -> Calibration:
    """The highest threshold in [lowest, highest], by STEP, whose wrong share is at most this with 95 % confidence."""
    count = round((highest - lowest) / STEP) + 1
    thresholds = np.linspace(lowest, highest, count)
    resigned, wrong = np.zeros((2, count), np.int64)
    for game in games:
        player = _first_to_resign(game, thresholds)
        result = np.where(player == 0, game.result_first_player, -game.result_first_player)
        resigned += player >= 0
        wrong += (player >= 0) & (result >= 0)
    good = np.flatnonzero(_upper_bound(wrong, resigned) <= wrong_share)
    best = int(good[-1]) if len(good) else 0
    threshold = float(thresholds[best]) if len(good) else NEVER
    return Calibration(threshold, len(games), int(resigned[best]), int(wrong[best]))


def _upper_bound(wrong: NDArray[np.int64], resigned: NDArray[np.int64]) -> NDArray[np.float64]:
    """[K] the upper end of Wilson's interval of the wrong share; 1 without resignations.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    n, z = np.maximum(resigned, 1), CONFIDENCE
    share = wrong / n
    most = (share + z * z / (2 * n) + z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return np.where(resigned > 0, most, 1.0)


def _first_to_resign(game: NoResignGame, thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """[K] the player (0, 1) who would resign first at each threshold; −1 nobody."""
    values = resignation_values(game.values.astype(np.float64))
    plies = np.arange(len(values))
    if game.learner != BOTH:
        values[plies % 2 != game.learner] = np.inf
    lowest_so_far = np.minimum.accumulate(values)
    first = np.searchsorted(-lowest_so_far, -thresholds, side="right")  # the first ply below each threshold
    return np.where(first < len(values), first % 2, -1)


def no_resign_games(shard: Shard) -> list[NoResignGame]:
    """The games of a shard that never resign: those marked so, or all if the threshold was NEVER.

    Other games that weren't resigned don't count: their values selected them.
    """
    never = shard.header["provenance"].get(RESIGN_THRESHOLD) == NEVER
    return [
        NoResignGame(
            values=shard.root_values[shard.move_offsets[index] : shard.move_offsets[index + 1]].copy(),
            learner=int(shard.learners[index]),
            result_first_player=float(shard.results[index]),
        )
        for index in range(shard.num_games)
        if (never or shard.no_resign[index]) and shard.ends[index] != End.RESIGNED
    ]


def newest_games(directory: Path, game: str, max_games: int = MAX_GAMES) -> list[NoResignGame]:
    """The newest games under directory that never resign, from whole shards of up to MAX_MODELS models.

    game: its spec. Stops at max_games and at a shard of an unrelated game. Skips shards that can't be read or whose
    game is unknown; gather reports those.
    """
    games: list[NoResignGame] = []
    models: set[str] = set()
    for meta in newest_shards(directory, on_damage=lambda error: None):
        try:
            is_related = are_related(meta.game, game)
        except UsageError:
            continue
        models.add(meta.model)
        if len(models) > MAX_MODELS or len(games) >= max_games or not is_related:
            break
        try:
            shard = read_shard(meta.path, meta)
        except FileError:
            continue
        games += no_resign_games(shard)
    return games
