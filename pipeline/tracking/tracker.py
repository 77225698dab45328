"""One tracker for all commands: numbers with a name and an x, handed to every sink.

A *point* is what a command knows at one x: scalars and histograms by name. A name is PREFIX/NAME, where the prefix is
the command's (``selfplay``, ``train``, ``evaluate``) or ``system``, and is the same in all sinks. docs/watch.md lists
the names with units and viewpoints. A *track* is a series of points that grows in one folder below --logdir:

    track             x                                  prefix
    train             train/step: over all trainings     train
    train/MODEL       the same, of a branch              train
    selfplay/WORKER   selfplay/games: of the worker      selfplay
    evaluate, watch   evaluate/step: of the model        evaluate

points.jsonl in that folder has every point as a line of JSON; other sinks copy them. Sinks *that can't take points
back* (wandb, mlflow) get them once they are settled: no later process will make them again. A process has one run of
such a sink, however many commands it calls.

A tracker never raises: the first error of a sink is one warning, and the sink gets nothing more. Points made in a
forked child are ignored. Not thread-safe: a tracker belongs to the thread that reports.
"""

from __future__ import annotations

import atexit
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.progress import Progress
from pipeline.run import atomic, layout
from pipeline.run.store.base import current_store
from pipeline.tracking.options import MLFLOW, TENSORBOARD, WANDB_ONLINE, TrackingOptions, sinks_in
from pipeline.tracking.system import SystemUse

Value = float | NDArray[Any]
"""A scalar, or the samples of a histogram."""

BINS = 30  # of a histogram
_UNUSABLE = re.compile(r"[^A-Za-z0-9_./ -]")  # in a name; MLflow takes no others


@dataclass(frozen=True)
class Histogram:
    """edges: [bins + 1] float64, ascending; counts: [bins] int64, how many samples are between them."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Point:
    """time: seconds since 1970; axis: the name of x, e.g. train/step; values: by whole name."""

    time: float
    axis: str
    x: int
    scalars: dict[str, float]
    histograms: dict[str, Histogram]


class Sink:
    """What keeps points. Its methods may raise anything; the tracker warns once and drops it."""

    takes_back = True  # whether points can be replaced by those of a process that makes them again

    def add(self, point: Point) -> None:
        """Keep a point."""

    def close(self) -> None:
        """Nothing more will be added."""


class Tracker:
    """See the module docstring. Use it as a context manager, or close it.

    last: x of the last point in points.jsonl when it was opened; 0: there was none
    """

    def __init__(
        self,
        options: TrackingOptions | None,
        beside: Path,
        track: str,
        axis: str,
        progress: Progress,
        first: int | None = None,
    ) -> None:
        """
        options  None: nothing is tracked
        beside   the folder of what the command makes; logs/ lies beside it by default
        track    the folder's name below the one of all tracks
        first    points from this x on are made anew; None: none is
        """
        self._axis, self._progress, self._pid = axis, progress, os.getpid()
        self._sinks: list[tuple[str, Sink]] = []
        self._pending: list[Point] = []
        self.last = 0
        if options is None:
            return
        logdir = options.logdir or beside.parent / layout.LOGS
        self._folder = logdir / track
        self._open(layout.POINTS, lambda: self._points(first))
        for name in sinks_in(options.track):
            if name == TENSORBOARD:
                self._open(name, lambda: _tensorboard(self._folder, self._axis, first, self.last))
            elif (name, os.getpid()) not in _failed:
                self._open(name, lambda name=name: _shared(name, logdir))  # type: ignore[misc]

    def add(self, values: Mapping[str, Value], x: int, settled: bool = True) -> None:
        """Add a point. Leaves out values that aren't finite, and histograms without a sample.

        values: by name without the prefix, which is the axis's; settled: False if a later process may make it again.
        """
        if os.getpid() != self._pid or not self._sinks:
            return
        prefix = self._axis.partition("/")[0]
        scalars, histograms = {}, {}
        for name, value in values.items():
            name = f"{prefix}/{_UNUSABLE.sub('_', name)}"
            if isinstance(value, np.ndarray):
                samples = value[np.isfinite(value)].astype(np.float64)
                if samples.size:
                    counts, edges = np.histogram(samples, BINS)
                    histograms[name] = Histogram(edges, counts.astype(np.int64))
            elif math.isfinite(value):
                scalars[name] = float(value)
        scalars |= {f"system/{name}": value for name, value in SYSTEM.since_last().items()}
        point = Point(time.time(), self._axis, int(x), scalars, histograms)
        self._pending.append(point)
        self._each(lambda sink: sink.add(point), takes_back=True)
        if settled:
            self.settle()

    def settle(self) -> None:
        """All points so far are final."""
        points, self._pending = self._pending, []
        for point in points:
            self._each(lambda sink, point=point: sink.add(point), takes_back=False)  # type: ignore[misc]

    def close(self) -> None:
        """Points that aren't settled never reach sinks that can't take them back."""
        if os.getpid() != self._pid:
            return
        self._each(lambda sink: sink.close(), takes_back=True)
        self._sinks = []

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _points(self, first: int | None) -> Sink:
        from pipeline.tracking.jsonl import JsonLines

        atomic.make_folder(self._folder)
        lines = JsonLines(self._folder, self._axis, first)
        self.last = lines.last
        return lines

    def _open(self, name: str, make: Callable[[], Sink]) -> None:
        try:
            self._sinks.append((name, make()))
        except Exception as error:
            self._fail(name, error)

    def _each(self, act: Callable[[Sink], None], takes_back: bool) -> None:
        for named in [one for one in self._sinks if one[1].takes_back is takes_back]:
            try:
                act(named[1])
            except Exception as error:
                self._sinks.remove(named)
                self._fail(named[0], error)

    def _fail(self, name: str, error: Exception) -> None:
        _failed.add((name, os.getpid()))
        said = " ".join(str(error).split()) or type(error).__name__
        self._progress.warn(f"{self._folder}: {said}; {name} gets no more numbers, all else goes on")


SYSTEM = SystemUse()


def step_of(manifest: Mapping[str, Any]) -> int:
    """The steps that a model was trained for, its ancestors' included: x of what is known about it."""
    found = manifest.get("total_steps", 0)
    return found if isinstance(found, int) else 0


def place_of(track: str) -> str:
    """The folder of a track that several machines may add to: in a bucket each has its own."""
    return f"{track}/{layout.this_host()}" if current_store().shared else track


# Making sinks; their modules are imported when they are needed


def _tensorboard(folder: Path, axis: str, first: int | None, last: int) -> Sink:
    from pipeline.tracking.tensorboard import EventFile

    return EventFile(folder, axis, first, last)


_of_process: dict[tuple[str, Path, int], Sink] = {}  # by name, folder and process
_failed: set[tuple[str, int]] = set()  # names and processes of sinks that failed


def _shared(name: str, logdir: Path) -> Sink:
    """This process's sink of this name in a folder."""
    key = name, Path(os.path.abspath(logdir)), os.getpid()
    if not _of_process:
        atexit.register(close_shared)
    if key not in _of_process:
        atomic.make_folder(logdir)
        if name == MLFLOW:
            from pipeline.tracking.mlflow import MlflowRun

            _of_process[key] = MlflowRun(key[1])
        else:
            from pipeline.tracking.wandb import WandbRun

            _of_process[key] = WandbRun(key[1], online=name == WANDB_ONLINE)
    return _of_process[key]


def close_shared(warn: Callable[[str], None] = lambda problem: None) -> None:
    """Close the sinks that belong to the process. Call it when the program's command ends."""
    while _of_process:
        (name, folder, pid), sink = _of_process.popitem()
        try:
            if pid == os.getpid():
                sink.close()
        except Exception as error:
            warn(f"{folder}: {name} couldn't be closed: {' '.join(str(error).split())}")
