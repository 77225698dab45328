"""What self-play tracks: every POINT_SECONDS a point about the games that ended since the last one (docs/watch.md).

x counts the worker's games since tracking began, over all its runs. A method's own statistics (Method.tracked) are
those of its newest games in this run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import MuGoError
from pipeline.methods.method import FinishedGame
from pipeline.progress import Progress
from pipeline.run.models import read_info
from pipeline.run.shards import BOTH, NO_VALUE, End, GameRecord
from pipeline.tracking.tracker import Tracker, Value, step_of
from pipeline.workers.worker_pool import Counts

if TYPE_CHECKING:
    from pipeline.selfplay.playing import Plan

POINT_SECONDS = 10.0  # at least, between two points
AXIS = "games"
RATES = {"plies": "positions", "evaluations": "evaluations", "tokens": "tokens"}  # counter → what a second has of it
ENDS = {End.RESIGNED: "resigned_share", End.MOVE_LIMIT: "move_limit_share", End.SETTLED: "settled_share"}


class Points:
    """The points of one run. Use it as a context manager: the last point comes at its end.

    counts: of the pool of games; waiting: how many games wait to be committed
    """

    def __init__(
        self, plan: Plan, counts: Callable[[], Counts], waiting: Callable[[], int], progress: Progress
    ) -> None:
        config = plan.config
        self._plan, self._counts, self._waiting = plan, counts, waiting
        self._models = Path(config.network).parent
        self._tracker = Tracker(
            config, config.output_dir, f"selfplay/{config.worker}", f"selfplay/{AXIS}", progress
        )
        self._games = self._tracker.last
        self._new: list[FinishedGame] = []
        self._newest: deque[GameRecord] = deque(maxlen=plan.method.tracking_window)
        self._steps: dict[str, int] = {}  # by model
        self._since, self._before = time.monotonic(), Counts([], [])

    def __enter__(self) -> Points:
        return self

    def __exit__(self, *error: object) -> None:
        self.update(seconds=0)
        self._tracker.close()

    def add(self, finished: FinishedGame) -> None:
        self._new.append(finished)
        self._newest.append(finished.record)

    def update(self, seconds: float = POINT_SECONDS) -> None:
        """Add a point if games have ended and the last one is older than these seconds."""
        now = time.monotonic()
        if not self._new or now - self._since < seconds:
            return
        counts, passed = self._counts(), max(now - self._since, 1e-6)
        values: dict[str, Value] = {
            "games_per_second": len(self._new) / passed,
            "games_in_progress": sum(counts.live),
            "games_to_commit": self._waiting(),
            "training_step": self._step_of(self._new[-1].player),
        }
        if self._plan.method.resigns:
            values["resign_threshold"] = self._plan.config.resign_threshold
        for name, unit in RATES.items():
            if total := counts.totals.get(name, 0):
                values[f"{unit}_per_second"] = (total - self._before.totals.get(name, 0)) / passed
        values |= _about(self._new, self._plan.game.result_names)
        if self._newest:
            method, own_names = self._plan.method, {AXIS, *values}
            for source, facts in method.tracked(self._plan.game, list(self._newest)).items():
                for name, value in facts.items():
                    share = "_share" if name in method.measures and method.measures[name].share else ""
                    own = source.removeprefix("selfplay").removeprefix("/")
                    full = f"{own}/{name}{share}".removeprefix("/")
                    if full not in own_names:
                        values[full] = value
        self._games += len(self._new)
        self._tracker.add(values, self._games)
        self._new, self._since, self._before = [], now, counts

    def _step_of(self, model: str) -> int:
        if model not in self._steps:
            with suppress(MuGoError):
                self._steps[model] = step_of(read_info(self._models / model).manifest)
        return self._steps.get(model, 0)


def _about(games: list[FinishedGame], names: Mapping[float, str]) -> dict[str, Value]:
    """Statistics of games, at least one; docs/watch.md says what they mean. names: see AnyGame.result_names."""
    records = [game.record for game in games]
    results = np.array([record.result_first_player for record in records])
    plies = np.array([len(record.moves) for record in records])
    values: dict[str, Value] = {
        "positions": float(plies.sum()),
        "plies_per_game": float(plies.mean()),
        "plies": plies,
        "first_player_score": float((np.sign(results) + 1).mean() / 2),
        "draw_share": float((results == 0).mean()),
    }
    if names:
        values["first_player_points"] = float(results.mean())
    values |= {f"{name}_share": float((abs(results) == result).mean()) for result, name in names.items()}
    values |= {name: float(np.mean([record.end == end for record in records])) for end, name in ENDS.items()}
    known = [one.root_values[one.flags & NO_VALUE == 0] for one in records if len(one.root_values) == len(one.flags)]
    values["value_to_move"] = np.concatenate([np.zeros(0), *known])
    asked = [game for game in games if game.record.learner == BOTH and game.would_have_resigned >= 0]
    if asked:
        wrong = [game.record.result_of(game.would_have_resigned) >= 0 for game in asked]
        values["wrong_resignation_share"] = float(np.mean(wrong))
    met: dict[str, list[float]] = {}
    for record in records:
        if record.opponent is not None:
            met.setdefault(record.opponent, []).append(record.result_of(record.learner))
    for opponent, of_model in met.items():
        values[f"against/{opponent}/games"] = len(of_model)
        values[f"against/{opponent}/score"] = float((np.sign(of_model) + 1).mean() / 2)
    return values
