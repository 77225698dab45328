"""``Cluster`` and ``RayPool``: workers that are actors in a Ray cluster.

Actors (ray_actor.py) are stateless and share no disk with the driver, the process that runs a command. Models travel
through Ray's object store, once per version. The games of a lost actor are played by others under the same numbers. The
pool asks an actor for outcomes only after taking the last ones: a slow driver slows the actors, and memory is bounded.

The cluster must be running already (`ray start`). RAY_ADDRESS names it, as for any Ray program; the default is the one
on this machine. Ray's authentication token is used where there is one.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import MuGoError
from pipeline.phrases import counted
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.run.models import model_files
from pipeline.stalls import Hung, Watch
from pipeline.workers.ray_actor import JobActor, identity
from pipeline.workers.worker_pool import OutcomeReader, RemotePool, Updates, Worker

O = TypeVar("O")  # noqa: E741  an outcome

PORT_SECONDS = 10.0  # for a host to accept a connection
CONNECT_SECONDS = 30.0  # for the cluster to answer
LOCAL_SECONDS = 90.0  # for a cluster to start on this machine
NODE_SECONDS = 60.0  # for a node to start a process and give its identity
LOOK_SECONDS = 1.0  # between two queries for the cluster's nodes
TAKE_SECONDS = 0.5  # an actor answers at least this often
SILENT_SECONDS = 120.0  # an actor without an answer for this long is lost
STARTING_SECONDS = 30.0  # for this long a new actor counts in the sharing of games before it is ready
SUSPECT_SECONDS = 30.0  # no actor is started for this long on a node that lost one, until Ray knows whether it lives
GRACE_SECONDS = 5.0  # for actors to stop
IDLE_SECONDS = 0.2
GPU_UNIT = 0.0001  # the smallest fraction of a GPU in Ray
MAX_CONCURRENT_CALLS = 8  # of an actor
NAME = "Ray cluster"  # in messages
STATES = ("asked", "checked", "gone")  # of a node: asked for its identity; usable; dead, though Ray still lists it


@dataclass
class _Node:
    """A node of the cluster. state: one of STATES, or why it isn't used."""

    id: str
    host: str
    cpus: float
    gpus: float = 0.0
    state: str = "asked"
    answer: Any = None
    suspect_until: float = 0.0

    def gpus_of(self, cpus: int) -> float:
        """The share of its GPUs that belongs to this many of its CPUs. From 1 on it is a whole number, for Ray."""
        share = self.gpus * min(1.0, cpus / self.cpus)
        return float(int(share)) if share >= 1 else int(share / GPU_UNIT) * GPU_UNIT


@dataclass(eq=False)
class _Actor:
    handle: Any
    node: _Node
    threads: int


class Cluster:
    """One command's connection to a Ray cluster. Refuses nodes with another version of Python or of this program."""

    def __init__(self, progress: Progress) -> None:
        """Raises MuGoError if there is no cluster, if it doesn't answer, or if one of its nodes is refused."""
        self.progress = progress
        self.idle: list[_Actor] = []
        self.ray = ray = _imported()
        self._ours = not ray.is_initialized()
        self._closed = threading.Event()
        if self._ours:
            _connect(ray, os.environ.get("RAY_ADDRESS", "").strip() or "auto", self._closed)
        self._wanted = json.loads(identity())
        self._identity = ray.remote(identity)
        self._nodes: dict[str, _Node] = {}
        self._looked = 0.0
        self._put: dict[tuple[str, bytes], Any] = {}
        try:
            self._check_all()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect, which ends the actors."""
        for actor in self.idle:
            self.kill(actor)
        self.idle = []
        if self._ours:
            self.ray.shutdown()
        self._closed.set()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def nodes(self) -> list[_Node]:
        """The usable nodes. Looks for new ones every LOOK_SECONDS, and warns of refused ones."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._look()
        for node in self._nodes.values():
            if node.state == "asked":
                self._identify(node, 0.0)
                if node.state not in STATES:
                    self.progress.warn(f"{node.state}; this node isn't used")
        return [node for node in self._nodes.values() if node.state == "checked"]

    def actor(self, node: _Node, threads: int) -> _Actor:
        """An actor on this node. It may have to wait for free CPUs."""
        for actor in self.idle:
            if actor.node is node and actor.threads == threads:
                self.idle.remove(actor)
                return actor
        for actor in [actor for actor in self.idle if actor.node is node]:  # they occupy CPUs
            self.idle.remove(actor)
            self.kill(actor)
        resources = {"num_cpus": threads, "num_gpus": node.gpus_of(threads)}
        options = {**resources, "max_restarts": 0, "max_concurrency": MAX_CONCURRENT_CALLS, **self._on(node)}
        return _Actor(self.ray.remote(JobActor).options(**options).remote(), node, threads)

    def kill(self, actor: _Actor) -> None:
        with suppress(Exception):  # it is dead already
            self.ray.kill(actor.handle)

    def put(self, models: Sequence[Path]) -> dict[str, Any]:
        """References to the files of models in the object store, by path; all others are released. Raises FileError."""
        put: dict[tuple[str, bytes], Any] = {}
        for path in models:
            files = model_files(path)
            key = str(path), files[layout.MODEL_JSON]
            put[key] = self._put[key] if key in self._put else self.ray.put(files)
        self._put = put
        return {path: reference for (path, _), reference in put.items()}

    def answered(self, references: Sequence[Any], seconds: float) -> list[Any]:
        """The references whose answers have arrived; waits at most this long for the first."""
        if not references:
            time.sleep(min(seconds, IDLE_SECONDS))
            return []
        found, left = self.ray.wait(list(references), num_returns=1, timeout=max(0.0, seconds), fetch_local=True)
        if found and left:
            more, _ = self.ray.wait(left, num_returns=len(left), timeout=0, fetch_local=True)
            found += more
        return list(found)

    def answer(self, reference: Any) -> Any:
        """Raises _Lost if the actor is gone, MuGoError if its node lacks a package."""
        from ray import exceptions

        try:
            return self.ray.get(reference)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, ImportError):
                raise MuGoError(f"{NAME}: an actor can't run this program ({error.cause}); install it there") from error
            raise
        except exceptions.ActorUnavailableError as error:  # raised at once when a node dies, long before NodeDiedError
            raise _Lost("its node doesn't answer", True) from error
        except (exceptions.ObjectLostError, exceptions.NodeDiedError) as error:
            raise _Lost("its node is gone", True) from error
        except exceptions.RayError as error:
            if "node has died" in str(error):
                raise _Lost("its node is gone", True) from error
            raise _Lost(f"its process ended ({_reason(error)})", False) from error

    # Nodes

    def _look(self) -> None:
        """Add the nodes that joined and ask for their identity; remove those that left."""
        there = {node["NodeID"]: node for node in self.ray.nodes() if node["Alive"]}
        self._nodes = {name: node for name, node in self._nodes.items() if name in there}
        for name, found in there.items():
            cpus, gpus = (found["Resources"].get(kind, 0.0) for kind in ("CPU", "GPU"))
            if name not in self._nodes and cpus > 0:
                node = _Node(name, found["NodeManagerHostname"] or found["NodeManagerAddress"], cpus, gpus)
                # Without a CPU the call needn't wait for other computations there.
                node.answer = self._identity.options(num_cpus=0, max_retries=0, **self._on(node)).remote()
                self._nodes[name] = node

    def _check_all(self) -> None:
        """Raises MuGoError if a node is refused, or if none can be used."""
        self._look()
        deadline = time.monotonic() + NODE_SECONDS
        for node in self._nodes.values():
            self._identify(node, max(0.0, deadline - time.monotonic()))
            if node.state not in STATES:
                raise MuGoError(f"{NAME}: {node.state}")
        silent = [node.host for node in self._nodes.values() if node.state == "asked"]
        ready = [node for node in self._nodes.values() if node.state == "checked"]
        if not ready:
            found = f"none of {counted(len(silent), 'node')} has started a process" if silent else "no node has a CPU"
            raise MuGoError(f"{NAME}: {found} within {NODE_SECONDS:.0f} seconds; look at `ray status`")
        if silent:
            self.progress.warn(f"{NAME}: {', '.join(silent)} hasn't started a process yet; the others begin")
        cpus = int(sum(node.cpus for node in ready))
        self.progress.say(f"{NAME}: {counted(len(ready), 'node')} with {counted(cpus, 'CPU')}")

    def _identify(self, node: _Node, seconds: float) -> None:
        """Update a node's state if it answers within this time."""
        if not self.answered([node.answer], seconds):
            return
        from ray import exceptions

        gone = exceptions.NodeDiedError, exceptions.TaskUnschedulableError, exceptions.ObjectLostError
        try:
            found = json.loads(self.ray.get(node.answer))
        except gone:  # though Ray still lists it as alive
            node.state = "gone"
            return
        except exceptions.RayError as error:
            node.state = (
                f"node {node.host} can't run this program ({_reason(error)}); install it there, or `ray job submit "
                "--working-dir` sends it along"
            )
            return
        node.state = "checked"
        for kind, wanted in self._wanted.items():
            if found.get(kind) != wanted:
                node.state = (
                    f"node {node.host} has {kind} {found.get(kind)}, this machine {wanted}; wanted the same on all: "
                    "install this version there, or `ray job submit --working-dir` sends it along"
                )
                return

    def _on(self, node: _Node) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False)}


class _Lost(Exception):
    """An actor is gone. Arguments: the problem; whether its node is gone, which means that no game is the cause."""


# Playing


@dataclass(eq=False, kw_only=True)
class RayWorker(Worker):
    """An actor as a worker."""

    actor: _Actor
    begun: Any  # the pending answer of begin(); None once it has arrived
    asked: Any = None  # the pending answer of take()
    ready: bool = False  # whether it has begun the job and gets games
    answers: int = 0  # how many it has given
    silence: Watch = field(default_factory=Watch)
    update: int = 0  # the number of the last update sent to it

    @property
    def title(self) -> str:
        return f"worker on node {self.actor.node.host}"

    def send(self, numbers: Sequence[int]) -> None:
        self.actor.handle.give.remote(json.dumps(list(numbers)).encode())


class RayPool(RemotePool[O, RayWorker]):
    def __init__(
        self,
        cluster: Cluster,
        reader: OutcomeReader[O],
        job: dict[str, Any],
        models: Sequence[Path],
        capacity: int,
        hang_seconds: float,
        updates: Updates = lambda: None,
        most: int = sys.maxsize,
    ) -> None:
        """job: its "threads" are an actor's, each on a CPU. models: the real directories of the job's models."""
        super().__init__(reader, capacity, hang_seconds, cluster.progress.warn, updates, most)
        self._cluster = cluster
        self._threads = int(job["threads"])
        self._update = 0  # the number of the last update
        self._job: dict[str, Any] = {}
        self._job_reference: Any = None  # in the object store; None: not yet
        self._models: dict[str, Any] = {}
        self._arrived: deque[tuple[RayWorker, bytes]] = deque()
        self._recruited = 0.0
        self._without = time.monotonic()  # when the last worker was ready
        self._put(job, models)

    def update(self, update: Any, models: Sequence[Path]) -> None:
        self._update += 1
        self._put({**self._job, "update": update}, models)
        for worker in self.workers:
            self._bring_up_to_date(worker)

    def close(self) -> None:
        """Stop the actors; those that stop in time are kept for the next pool."""
        if self._closed:
            return
        self._closed = True
        ready = [worker for worker in self.workers if worker.ready]
        last = {worker.actor.handle.stop.remote(): worker for worker in ready}
        last |= {worker.asked: worker for worker in ready if worker.asked is not None}
        unusable = {worker for worker in self.workers if not worker.ready}
        deadline = time.monotonic() + GRACE_SECONDS
        while last and (left := deadline - time.monotonic()) > 0:
            for reference in self._cluster.answered(list(last), left):
                worker = last.pop(reference)
                try:
                    self._arrived.append((worker, self._cluster.answer(reference)))
                except Exception:  # the games are over; only don't use this actor again
                    unusable.add(worker)
        unusable.update(last.values())
        for worker in self.workers:
            if worker in unusable:
                self._cluster.kill(worker.actor)
            else:
                self._cluster.idle.append(worker.actor)

    # Messages

    def _receive(self, seconds: float) -> list[O] | None:
        if not self._arrived and not self._closed:
            self._recruit()
            lost = self._wait(seconds)
            if lost or not self._arrived:
                return lost
        return self._read(*self._arrived.popleft()) if self._arrived else None

    def _wait(self, seconds: float) -> list[O] | None:
        """Wait for the next answers. Returns the outcomes of workers lost meanwhile, None if nothing happened."""
        awaited: dict[Any, RayWorker] = {}
        for worker in self.workers:
            if worker.asked is None:
                worker.asked = worker.actor.handle.take.remote(TAKE_SECONDS)
            awaited[worker.asked] = worker
            if worker.begun is not None:
                awaited[worker.begun] = worker
        lost: list[O] = []
        answers = self._cluster.answered(list(awaited), min(seconds, LOOK_SECONDS))
        for reference in answers:
            worker = awaited[reference]
            if worker not in self.workers:
                continue
            try:
                data = self._cluster.answer(reference)
            except _Lost as error:
                lost += self._lost(worker, *error.args)
                continue
            if reference == worker.begun:
                worker.begun = None
            else:
                worker.asked = None
                self._arrived.append((worker, data))
        return lost if answers else None

    def _handle(self, worker: RayWorker, data: bytes) -> list[O]:
        found = super()._handle(worker, data)
        worker.answers += 1
        if worker.counts.steps and not worker.ready:
            worker.ready = True
            self._bring_up_to_date(worker)
            self._feed(worker)
        return found

    def _check(self, worker: RayWorker) -> list[O]:
        if worker.silence.stuck([worker.answers or None], SILENT_SECONDS):
            return self._lost(worker, f"it hasn't answered for {SILENT_SECONDS:.0f} seconds", blameless=True)
        return []

    def _lost(self, worker: RayWorker, problem: str, blameless: bool = False) -> list[O]:
        if blameless:
            worker.actor.node.suspect_until = time.monotonic() + SUSPECT_SECONDS
            if worker.ready:
                games = counted(len(worker.games), "game")
                self._cluster.progress.warn(f"{worker.title}: {problem}; others play its {games}")
        return super()._lost(worker, problem, blameless)

    def _replace(self, worker: RayWorker) -> None:
        """Actors are started by _recruit()."""
        self._cluster.kill(worker.actor)
        self.workers.remove(worker)
        self._arrived = deque((other, data) for other, data in self._arrived if other is not worker)

    # Workers

    def _recruit(self) -> None:
        """Start actors on unused CPUs, at most one per game."""
        now = time.monotonic()
        if now - self._recruited < LOOK_SECONDS:
            return
        self._recruited = now
        left = len(self._waiting) + sum(len(worker.games) for worker in self.workers)
        taken = Counter(worker.actor.node.id for worker in self.workers)
        for node in self._cluster.nodes():
            room = int(node.cpus // self._threads) - taken[node.id] if now >= node.suspect_until else 0
            for _ in range(min(room, left - len(self.workers))):
                self.workers.append(self._start(node))
        if any(worker.ready for worker in self.workers) or not left:
            self._without = now
        elif now - self._without > STARTING_SECONDS:
            self._without = now
            self._cluster.progress.warn(f"{NAME}: no worker yet; others may use its CPUs, see `ray status`")

    def _start(self, node: _Node) -> RayWorker:
        actor = self._cluster.actor(node, self._threads)
        if self._job_reference is None:
            self._job_reference = self._cluster.ray.put(json.dumps(self._job).encode())
        begun = actor.handle.begin.remote(self._job_reference, list(self._models), *self._models.values())
        number = max((one.number for one in self.workers), default=-1) + 1
        return RayWorker(number, actor=actor, begun=begun, update=self._update)

    def _put(self, job: dict[str, Any], models: Sequence[Path]) -> None:
        """The job of actors that start from now on, and its models."""
        self._job, self._job_reference = job, None
        self._models = self._cluster.put(models)

    def _bring_up_to_date(self, worker: RayWorker) -> None:
        """Send a ready worker the last update unless it has had it."""
        if worker.ready and worker.update < self._update:
            worker.update = self._update
            update = json.dumps(self._job["update"]).encode()
            worker.actor.handle.update.remote(self._update, update, list(self._models), *self._models.values())

    def _feed(self, worker: RayWorker) -> None:
        if worker.ready:
            super()._feed(worker)

    def _num_sharing(self) -> int:
        """Counts actors that were just started too, as they will soon take their share."""
        now = time.monotonic()
        return max(1, sum(one.ready or now - one.started < STARTING_SECONDS for one in self.workers))


# Connecting


def _imported() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its warning about actors without a GPU
    if _has_token():  # `ray start` then switches authentication on, but a program that connects doesn't by itself
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MuGoError("--runner ray: Ray isn't installed here; run pip install '.[ray]'") from error
    with suppress(ImportError):
        from ray._private import worker

        # Messages of dying nodes would go to standard output, like summaries. The pool reports them in one line.
        worker.print_to_stdstream = lambda *arguments, **options: None
    return ray


def _has_token() -> bool:
    """Whether there is a token where Ray looks for it."""
    named = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or os.path.isfile(named)


def _connect(ray: Any, address: str, closed: threading.Event) -> None:
    """closed: set when the connection is closed.

    Raises MuGoError if nothing answers at the address or the token is refused, Hung if it answers but is no cluster.
    """
    if address == "auto":
        next_step = "start one with `ray start --head`, or set RAY_ADDRESS to HOST:PORT of one"
    else:
        next_step = "see what `ray status` says there, or correct RAY_ADDRESS"
        _check_address(address, next_step)
    answers: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def connect() -> None:
        try:
            # First, as Ray warns that it sets no signal handlers in this thread, which is intended.
            logging.getLogger("ray").setLevel(logging.ERROR)
            alone = {"include_dashboard": False} if address == "local" else {}
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **alone)
        except BaseException as error:
            answers.put(error)
        else:
            answers.put(None)
            closed.wait()  # the processes of a local cluster end with the thread that has started them

    threading.Thread(target=connect, daemon=True).start()
    seconds = LOCAL_SECONDS if address == "local" else CONNECT_SECONDS
    try:
        error = answers.get(timeout=seconds)
    except queue.Empty:
        raise Hung(f"{NAME} {address}: no answer within {seconds:.0f} seconds; {next_step}") from None
    if error is not None and _is_refused(error):
        raise MuGoError(
            f"{NAME} {address}: it wants its authentication token, which is missing here or another one; set "
            "RAY_AUTH_MODE=token and copy ~/.ray/auth_token of its head to this machine, or name it by "
            "RAY_AUTH_TOKEN_PATH"
        ) from error
    if isinstance(error, ConnectionError):
        raise MuGoError(
            f"{NAME}: none runs on this machine; {next_step}"
            if address == "auto"
            else f"{NAME} {address}: {_reason(error)}; {next_step}"
        ) from error
    if isinstance(error, RuntimeError | ValueError):  # also another version of Ray or Python
        raise MuGoError(f"{NAME} {address}: {_reason(error)}") from error
    if error is not None:
        raise error


def _is_refused(error: BaseException) -> bool:
    """Whether Ray's token authentication refused the connection."""
    return type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in str(error)


def _check_address(address: str, next_step: str) -> None:
    if address == "local":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdigit() or not host:
        raise MuGoError(
            f"RAY_ADDRESS={address}: wanted HOST:PORT of the cluster's head (port 6379 as a rule), auto or local; run "
            "this on a machine of the cluster, or through `ray job submit`"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), PORT_SECONDS).close()
    except OSError as error:
        raise MuGoError(
            f"{NAME} {address}: no answer within {PORT_SECONDS:.0f} seconds ({error.strerror or error}); {next_step}"
        ) from error


def _reason(error: BaseException) -> str:
    """The last line of Ray's message, which is the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
