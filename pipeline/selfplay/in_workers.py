"""Self-play in workers: processes of this machine, or actors of a cluster.

``SelfplayExecutor`` is the worker's side: GameThreads on models and updates that the driver sends. ``DiskUpdates`` is
the driver's: it looks at the disk now and then.

    update   JSON: {"learner": path of the model that plays, "generation": of games that start now, "others": whom the
             model may meet (opponents.Others), "fair_setups": see Variety}
    outcome  a PlayedGame in base64: safetensors with the arrays of the record and the final state, and the rest as JSON
             in its metadata. Unversioned, because it is never stored
"""

from __future__ import annotations

import base64
import json
import queue
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from pipeline.errors import FileError
from pipeline.games.contract import AnyGame
from pipeline.methods.method import FinishedGame
from pipeline.progress import Progress
from pipeline.run import atomic, layout
from pipeline.run.arrays import metadata_of, pack
from pipeline.run.models import Model, home_of, newest_number, read_info, read_model, resolve_champion
from pipeline.run.shards import End, GameRecord
from pipeline.selfplay.opponents import OpponentSource, Others, OthersReader
from pipeline.selfplay.playing import GameThreads, ModelSource, Plan, PlayedGame
from pipeline.stalls import HANG_SECONDS
from pipeline.workers.cluster import Cluster, RayPool
from pipeline.workers.processes import ProcessPool, on_shares_of_the_machine
from pipeline.workers.worker_pool import Models, OutcomeReader, RemotePool

AHEAD = 2  # a worker is given this many times the games that it plays at once, so that it never waits
UPDATE_SECONDS = 1.0  # between two looks at the disk
EXECUTOR = f"{__name__}:SelfplayExecutor"
OWN, STATE, GAME = "own.", "final_state", "game"


def outcome_of(played: PlayedGame) -> str:
    said: dict[str, Any] = {"number": played.number, "generation": played.generation, "spec": played.game.spec}
    arrays = {}
    if (finished := played.finished) is not None:
        fields = vars(finished.record)
        arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
        said["record"] = {name: value for name, value in fields.items() if name not in arrays and name != "own"}
        said |= {"player": finished.player, "would_have_resigned": finished.would_have_resigned}
        arrays |= {OWN + name: column for name, column in finished.record.own.items()} | {STATE: finished.final_state}
    return base64.b64encode(pack(arrays, {GAME: json.dumps(said, default=lambda scalar: scalar.item())})).decode()


def played_game(outcome: str, games: Mapping[str, AnyGame]) -> tuple[int, PlayedGame]:
    """(the game's number, the game) from outcome_of().

    games: by their specs. Raises ValueError, TypeError or KeyError for anything else.
    """
    data = base64.b64decode(outcome, validate=True)
    said = json.loads(metadata_of(data)[GAME])
    finished = None
    if "record" in said:
        try:
            arrays: dict[str, Any] = safetensors.numpy.load(data)
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        state = arrays.pop(STATE)
        own = {name.removeprefix(OWN): arrays.pop(name) for name in list(arrays) if name.startswith(OWN)}
        fields = said["record"]
        texts = tuple((text, checksum) for text, checksum in fields["said"])
        record = GameRecord(**fields | {"end": End(fields["end"]), "said": texts}, **arrays, own=own)
        finished = FinishedGame(record, said["player"], said["would_have_resigned"], state)
    return said["number"], PlayedGame(games[said["spec"]], finished, said["generation"], said["number"])


class _Warnings(Progress):
    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def warn(self, text: str) -> None:
        self.lines.put(text)


class SelfplayExecutor(GameThreads):
    """See the module docstring. job: Plan.to_job(), and "update"."""

    def __init__(self, job: dict[str, Any], models: Models) -> None:
        self._plan = plan = Plan.of_job(job)
        self._models = models
        self._others: dict[Path, Others] = {}
        self._progress = _Warnings()
        self.update(job["update"])
        source = ModelSource(plan, lambda: self._learner, self._progress, self._read)
        opponents = OpponentSource(plan, self._progress, self._others.__getitem__, self._read)
        super().__init__(plan, source, opponents, lambda: self._newest, in_worker=True)

    def update(self, update: Any) -> None:
        learner = Path(update["learner"])
        self._others[learner] = Others.model_validate(update["others"])
        self._newest: int = update["generation"]
        self._plan.variety.fair_setups = update["fair_setups"]
        self._learner = learner  # last: a game that starts now finds its opponents

    def encode(self, outcome: PlayedGame) -> str:
        return outcome_of(outcome)

    def warnings(self) -> list[str]:
        found = []
        with suppress(queue.Empty):  # two threads may ask
            while True:
                found.append(self._progress.lines.get_nowait())
        return found

    def _read(self, path: Path) -> Model:
        return read_model(path, self._models.get(str(path)))


# The driver's side


class DiskUpdates:
    """The model that new games are played with, and whom it may meet, as the driver's disk says; see Updates.

    name: the model's       models: all that the update names
    """

    def __init__(self, plan: Plan, progress: Progress) -> None:
        """Raises as OpponentSource.meet for models that can't play; members of the pool are left out."""
        self._plan, self._progress = plan, progress
        self._reader, self._warn = OthersReader(plan, progress), cache(progress.warn)
        self._learner: Path | None = None
        self.update: dict[str, Any] = {}
        self._look()

    def __call__(self) -> tuple[Any, Sequence[Path]] | None:
        if time.monotonic() - self._looked <= UPDATE_SECONDS:
            return None
        before = self.update
        self._look()
        return None if self.update == before else (self.update, self.models)

    def _look(self) -> None:
        self._looked = time.monotonic()
        path = resolve_champion(self._plan.config.network)
        if path != self._learner:
            info = read_info(path)
            self._plan.check(info, path)
            others = self._reader.of(path)
            if others.previous is not None:
                self._plan.check_opponent(read_info(others.previous), others.previous)
            for name, member in list(others.models.items()):
                try:
                    self._plan.check_opponent(read_info(member), member)
                except FileError as error:  # one of many, as in OpponentSource
                    self._warn(f"{error}: it is left out")
                    del others.models[name]
            if self._learner is not None:
                self._progress.say(f"new games are played by {info.name}")
            self._learner, self.name, self.models = path, info.name, [path, *others.paths]
            for model in self.models:  # workers read this machine's disk, without object storage
                for name in read_info(model).files.keys() - {layout.OPTIMIZER}:
                    atomic.bring(model / name)
            self._met = others.model_dump(mode="json")
        generation = newest_number(home_of(self._plan.config.network, path))
        setups = dict(self._plan.variety.fair_setups)
        self.update = {"learner": str(path), "generation": generation, "others": self._met, "fair_setups": setups}


def games_in_workers(
    plan: Plan, workers: int, cluster: Cluster | None, progress: Progress
) -> tuple[RemotePool[PlayedGame, Any], DiskUpdates]:
    """A pool of a cluster's actors or of this many processes that plays a plan's games, and the source of its models.

    Each process keeps to its share of the cores, if there are enough.
    """
    updates = DiskUpdates(plan, progress)
    job = {"executor": EXECUTOR, **plan.to_job(), "update": updates.update}
    reader = OutcomeReader(partial(played_game, games={game.spec: game for game in plan.variety.games}))
    capacity = AHEAD * plan.rows * plan.threads
    if cluster is not None:
        return RayPool(cluster, reader, job, updates.models, capacity, HANG_SECONDS, updates), updates
    jobs = on_shares_of_the_machine(job, workers)
    return ProcessPool(reader, jobs, capacity, HANG_SECONDS, progress.warn, updates), updates
