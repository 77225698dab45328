"""Self-play in workers: processes of this machine, or actors of a cluster, and what they must hear of the run's disk.

``RemoteGames`` is the worker's side: GameThreads on models and news that others send. ``ProcessGames`` and
``ClusterGames`` are the driver's. They look at the disk now and then, as the threads of a local run do for every game,
and tell the workers what has changed.

News, as JSON: {"learner": the path of the model that plays, "generation": of a game that starts now, "others": whom it
may meet (Others.to_json); null: it plays itself}.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.matches.match import GameQueue
from pipeline.methods.method import Method
from pipeline.methods.named import method_named
from pipeline.progress import Progress
from pipeline.run.models import Model, check_game, newest_number, read_info, read_model, resolve_champion
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.messages import bytes_of, bytes_of_dropped, read
from pipeline.selfplay.opponents import Mix, OpponentSource, Others, OthersReader, parse_mix
from pipeline.selfplay.playing import Arrival, GamePool, GameThreads, ModelSource, Plan, Supply, check_same, loading
from pipeline.selfplay.variety import Variety
from pipeline.stalls import HANG_SECONDS
from pipeline.workers.cluster import Cluster, RayPool
from pipeline.workers.processes import ProcessPool, beat_seconds, child_command
from pipeline.workers.worker_pool import Counts, Models, Playing, Reading

AHEAD = 2  # times the games that it plays at once an actor is given, so that none waits for the next
NEWS_SECONDS = 1.0  # between two looks at the disk
WAIT_SECONDS = 0.2
PLAY = f"{__name__}:RemoteGames"  # a job's line "play"
PLAY_IN_LINES = f"{__name__}:GamesInLines"
ARRIVAL = "arrival"  # a line's only entry
T = TypeVar("T")


class _Queued(Supply):
    """Numbers as they come; every thread takes the next one."""

    refills = True

    def __init__(self) -> None:
        self.numbers = GameQueue()

    def take(self, thread: int) -> int | None:
        return self.numbers.take()

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def wait(self, stopped: Callable[[], bool]) -> bool:
        while not (self.numbers or self.numbers.closed or stopped()):
            self.numbers.wait(WAIT_SECONDS)
        return not (self.numbers.closed or stopped())


class _Warnings(Progress):
    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def warn(self, text: str) -> None:
        self.lines.put(text)


class RemoteGames(Playing):
    """job: {"config", "seed", "threads", "rows", "leaves", "news"}."""

    def __init__(self, job: dict[str, Any], models: Models) -> None:
        config = SelfplayConfig(**job["config"])
        self._models = models
        self._others: dict[Path, Others] = {}
        self._progress = _Warnings()
        self.follow(job["news"])
        load = loading(config, job["rows"] * job["leaves"], job["threads"], self._progress)
        source = ModelSource(lambda: self._learner, load, self._progress, self._read)
        mix = parse_mix(config.opponents)
        opponents = None
        if not mix.only_mirror:
            opponents = OpponentSource(
                config, mix, source.game, load, job["leaves"], self._progress, self._others.__getitem__, self._read
            )
        plan = Plan(config, job["seed"], Variety.of(config, source.game), job["rows"], job["leaves"])
        self._supply = _Queued()
        self._dropped: queue.SimpleQueue[int] = queue.SimpleQueue()  # numbers
        self._threads = GameThreads(
            plan, source, opponents, lambda: self._generation, job["threads"], False, self._dropped.put
        )
        self._threads.play(self._supply)

    def follow(self, news: Any) -> None:
        learner = Path(news["learner"])
        if news["others"] is not None:
            self._others[learner] = Others.from_json(news["others"])
        self._generation: int = news["generation"]
        self._learner = learner  # last: a game that starts now finds its opponents

    def give(self, numbers: Sequence[int]) -> None:
        self._supply.numbers.give(numbers)

    def outcomes(self, seconds: float) -> list[bytes]:
        found = self._threads.outcomes(seconds)
        try:
            while more := self._threads.outcomes(0.0):
                found += more
        except Exception:  # raised again by the next call: first come the games that had ended
            if not found:
                raise
        return [bytes_of(arrival) for arrival in found] + [bytes_of_dropped(one) for one in _emptied(self._dropped)]

    def counts(self) -> Counts:
        return self._threads.counts()

    def warnings(self) -> list[str]:
        return _emptied(self._progress.lines)

    def close(self) -> None:
        self._supply.numbers.close()
        self._threads.close()

    def _read(self, path: Path) -> Model:
        return read_model(path, self._models.get(str(path)))


class GamesInLines(RemoteGames):
    """The same for a worker that writes lines."""

    def outcomes(self, seconds: float) -> list[bytes]:
        games = super().outcomes(seconds)
        return [json.dumps({ARRIVAL: base64.b64encode(game).decode()}).encode() for game in games]


def _emptied(waiting: queue.SimpleQueue[T]) -> list[T]:
    """What waits there."""
    found = []
    with suppress(queue.Empty):
        while True:
            found.append(waiting.get_nowait())
    return found


# The driver's side


class RemoteSource:
    """A Source: workers, which a pool has. Knows the model that new games are played with, and whom it may meet, as the
    driver's disk says.
    """

    def __init__(self, config: SelfplayConfig, mix: Mix, progress: Progress, make_pool: MakePool) -> None:
        """Raises as ModelSource does for a model that can't play."""
        self._config, self.progress, self._make_pool = config, progress, make_pool
        self._path = resolve_champion(config.network)
        model = read_model(self._path)
        self.name = model.info.name
        self.game: AnyGame = parse_game(model.info.game)
        self.method: Method = method_named(model.info.method)
        self.method.check(self.game)
        self._reader = None if mix.only_mirror else OthersReader(config, mix, self.game, progress)
        self._others: Others | None = None
        self.news: dict[str, Any] = {}

    def prepare(self) -> None:
        self._others = self._find_others()
        self.news = self._find_news()

    def begin(self, plan: Plan, num_threads: int, numbers: Callable[[int, int], Iterator[int]]) -> GamePool:
        pool = self._make_pool(self, plan, num_threads)
        pool.give(list(numbers(0, 1)))
        return pool

    @property
    def models(self) -> list[Path]:
        """All that the news name."""
        return [self._path, *(self._others.paths if self._others else [])]

    def has_changed(self) -> bool:
        """Look again; whether there are other news."""
        path = resolve_champion(self._config.network)
        if path != self._path:
            model = read_model(path)
            check_same(model, self.game, self.method)
            self._path, self.name = path, model.info.name
            self._others = self._find_others()
            self.progress.say(f"new games are played by {self.name}")
        before, self.news = self.news, self._find_news()
        return self.news != before

    def _find_news(self) -> dict[str, Any]:
        others = None if self._others is None else self._others.to_json()
        return {"learner": str(self._path), "generation": newest_number(self._path.parent), "others": others}

    def _find_others(self) -> Others | None:
        if self._reader is None:
            return None
        others = self._reader.of(self._path)
        for path in others.paths:
            check_game(read_info(path), self.game.spec, path)
        return others


MakePool = Callable[[RemoteSource, Plan, int], GamePool]
"""Of the threads of each worker."""


class _Look:
    """Looks at the disk now and then."""

    def __init__(self, source: RemoteSource) -> None:
        self._source, self._looked = source, time.monotonic()

    def finds_news(self) -> bool:
        now = time.monotonic()
        if now - self._looked <= NEWS_SECONDS:
            return False
        self._looked = now
        return self._source.has_changed()


class ClusterGames(RayPool[Arrival], GamePool):
    """A run's games, played by the actors of a cluster, with the champion that is the champion when they start."""

    def __init__(self, cluster: Cluster, source: RemoteSource, plan: Plan, num_threads: int) -> None:
        """num_threads: of each actor."""
        job = {**_job(source, plan, num_threads), "play": PLAY}
        super().__init__(cluster, _reading(plan, bytes), job, source.models, _capacity(plan, num_threads), HANG_SECONDS)
        self._source, self._look = source, _Look(source)

    def outcomes(self, seconds: float) -> list[Arrival]:
        if not self._closed and self._look.finds_news():
            self.follow(self._source.news, self._source.models)
        return super().outcomes(seconds)


class ProcessGames(ProcessPool[Arrival], GamePool):
    """The same, played by processes of this machine. Each keeps to its share of the cores, where there are enough."""

    def __init__(self, workers: int, source: RemoteSource, plan: Plan, num_threads: int) -> None:
        """num_threads: of each process."""
        job = {**_job(source, plan, num_threads), "play": PLAY_IN_LINES, "beat_seconds": beat_seconds(HANG_SECONDS)}
        jobs = [{**job, "cores": cores} for cores in _shares_of_cores(workers)]
        self._told: set[str] = set()
        self._source, self._look = source, _Look(source)
        command, environment = child_command()
        super().__init__(
            _reading(plan, _from_line), command, jobs, _capacity(plan, num_threads), HANG_SECONDS, environment
        )

    def outcomes(self, seconds: float) -> list[Arrival]:
        if not self._closed and self._look.finds_news():
            self.follow(self._source.news)
        return super().outcomes(seconds)

    def warned(self, text: str) -> None:
        """Once: all workers see the same."""
        if text not in self._told:
            self._told.add(text)
            self._source.progress.warn(text)


def _job(source: RemoteSource, plan: Plan, num_threads: int) -> dict[str, Any]:
    return {
        "config": plan.config.model_dump(mode="json"),
        "seed": plan.seed,
        "threads": num_threads,
        "rows": plan.rows,
        "leaves": plan.leaves,
        "news": source.news,
    }


def _capacity(plan: Plan, num_threads: int) -> int:
    return AHEAD * plan.rows * num_threads


def _reading(plan: Plan, decoded: Callable[[bytes], bytes]) -> Reading[Arrival]:
    """decoded: what the worker's bytes were made of."""
    games = {game.spec: game for game in plan.variety.games}

    return Reading(lambda data: read(decoded(data), games), lambda number, problem: None)


def _from_line(line: bytes) -> bytes:
    return base64.b64decode(json.loads(line)[ARRIVAL], validate=True)


def _shares_of_cores(workers: int) -> list[list[int]]:
    """The cores of each worker; [] is all of them, where there are fewer cores than workers."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < workers:
        return [[] for _ in range(workers)]
    return [cores[number * len(cores) // workers : (number + 1) * len(cores) // workers] for number in range(workers)]
