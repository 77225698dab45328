"""Runs a training loop for a given time on given cores and records how long each stage ran. For strength and ablate.

    <run>/clock.json   when the loop ran; for each stage how long it ran and how long its threads were busy

The clock stops while the loop doesn't run, so a run can be stopped and resumed. It is written every few seconds. The
loop doesn't outlive its caller, however that ends (Linux). Stages are found by sampling processes. Stages that run at
the same time all count, so their sum may exceed the clock. CPU time between the last sample and a process's end is
missed, so busy times are slightly too small.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from pipeline.run import atomic

CLOCK = "clock.json"  # in a run's folder
SAMPLE_SECONDS = 0.5
WRITE_SECONDS = 5.0  # the most of the clock that a kill loses
STOP_SECONDS = 60.0  # from SIGTERM to SIGKILL
LOOP_SECONDS = 1.0  # the loop counts whole seconds, so it may end this much early
SET_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG
SHELL = "between stages"


@dataclass
class StageTime:
    """seconds: how long it ran; cpu_seconds: how long its threads were busy, summed over cores."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class Clock:
    """stretches: (begin, end) of each time the loop ran, in seconds since 1970; stages: by name."""

    path: Path
    stretches: list[tuple[float, float]] = field(default_factory=list)
    stages: dict[str, StageTime] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Clock:
        """The clock at path, or a new one if there is none."""
        if not path.exists():
            return cls(path)
        raw = atomic.read_json(path, "the clock of a run")
        return cls(
            path,
            [(float(begin), float(end)) for begin, end in raw["stretches"]],
            {name: StageTime(**times) for name, times in raw["stages"].items()},
        )

    def write(self) -> None:
        stages = {name: vars(times) for name, times in self.stages.items()}
        atomic.write_json(self.path, {"stretches": self.stretches, "stages": stages}, indent=1)

    @property
    def seconds(self) -> float:
        """How long the loop has run."""
        return self.seconds_at(float("inf"))

    def seconds_at(self, moment: float) -> float:
        """How long the loop had run at a moment (seconds since 1970)."""
        return sum(max(0.0, min(end, moment) - begin) for begin, end in self.stretches)


def run_loop(
    command: Sequence[str | Path], stages: Sequence[str], clock: Clock, seconds: float, cores: int
) -> int | None:
    """Run the loop until the clock shows `seconds`, then stop it. Returns its exit code if it ended before, else None.

    stages: names of main.py's commands, which identify the processes. The loop gets the first cores that this process
    may use.
    """
    left = seconds - clock.seconds
    if left <= LOOP_SECONDS:
        return None
    allowed = sorted(os.sched_getaffinity(0))
    begin = time.time()
    with child([str(part) for part in command], allowed[:cores]) as loop:
        clock.stretches.append((begin, begin))
        sampler, written = _Sampler(loop.pid, stages, clock), begin
        try:
            while loop.poll() is None and time.time() - begin < left:
                time.sleep(SAMPLE_SECONDS)
                sampler.sample()
                clock.stretches[-1] = (begin, time.time())
                if time.time() - written > WRITE_SECONDS:
                    clock.write()
                    written = time.time()
            return loop.poll()
        finally:
            clock.write()


@contextmanager
def child(command: Sequence[str], cores: Sequence[int], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process on these cores that outlives neither the block nor this process. how: arguments of Popen."""
    process = start(command, cores, **how)
    try:
        yield process
    finally:
        stop(process)


def start(command: Sequence[str], cores: Sequence[int], **how: Any) -> subprocess.Popen[bytes]:
    """The same without a block: the caller must stop() it."""

    def prepare() -> None:
        os.sched_setaffinity(0, cores)
        with suppress(OSError, AttributeError):  # only Linux can end children with a killed parent
            ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGTERM)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=prepare, **how)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL for the process and its children if it doesn't end."""
    if process.poll() is not None:
        return
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for one in [process, *family]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the block, as Ctrl-C does, so that it cleans up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: dict[signal.Signals, Callable[..., Any] | int | None] = {}
    for wanted in (signal.SIGTERM, signal.SIGHUP):
        before[wanted] = signal.signal(wanted, interrupt)
    try:
        yield
    finally:
        for wanted, handler in before.items():
            signal.signal(wanted, handler)


class _Sampler:
    """Adds the time since the last sample to the clock's stages."""

    def __init__(self, pid: int, stages: Sequence[str], clock: Clock) -> None:
        self._loop = psutil.Process(pid)
        self._stages = frozenset(stages)
        self._clock = clock
        self._names: dict[psutil.Process, str] = {}  # the stage of each process; psutil compares pids and start times
        self._busy: dict[psutil.Process, float] = {}  # CPU seconds at the last sample
        self._last = time.monotonic()

    def sample(self) -> None:
        now = time.monotonic()
        elapsed, self._last = now - self._last, now
        running: dict[str, float] = {}
        try:
            processes = [self._loop, *self._loop.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                name = self._names.get(process) or self._name(process)
                times = process.cpu_times()
            except psutil.Error:
                continue
            busy = times.user + times.system
            running[name] = running.get(name, 0.0) + busy - self._busy.get(process, 0.0)
            self._busy[process] = busy
        for name, busy in running.items():
            if name == SHELL and len(running) > 1 and busy == 0:
                continue
            times_of = self._clock.stages.setdefault(name, StageTime())
            times_of.cpu_seconds += busy
            if name != SHELL or len(running) == 1:
                times_of.seconds += elapsed

    def _name(self, process: psutil.Process) -> str:
        words = process.cmdline()
        at = next((i for i, word in enumerate(words) if word.endswith("main.py")), len(words))
        name = words[at + 1] if at + 1 < len(words) else SHELL
        if name in self._stages:
            self._names[process] = name  # don't remember a shell that is about to become a stage
            return name
        return SHELL
