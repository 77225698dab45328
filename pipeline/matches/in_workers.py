"""What plays a match in a worker: see workers/worker_pool.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.matches.parallel_games import ThreadPool, line_of
from pipeline.matches.runner import job_pairing
from pipeline.workers.worker_pool import Counts, Models, Playing


class MatchPlaying(Playing):
    """See Playing. Plays the games of one match in threads; outcomes are lines of worker_pool.line_of."""

    def __init__(self, job: dict[str, Any], models: Models) -> None:
        self._pool = ThreadPool(job_pairing(job, models), job["threads"], job["rows"], watched=False)

    def give(self, numbers: Sequence[int]) -> None:
        self._pool.give(numbers)

    def outcomes(self, seconds: float) -> list[bytes]:
        return [line_of(outcome) for outcome in self._pool.outcomes(seconds)]

    def counts(self) -> Counts:
        threads = self._pool.match_threads
        return Counts([one.steps if one else 0 for one in threads], [one.live if one else 0 for one in threads])

    def close(self) -> None:
        self._pool.close()
