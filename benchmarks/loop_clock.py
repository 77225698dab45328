"""Runs a training loop for a given time on given cores and records when it ran. For strength and ablate.

    <run>/clock.json   when the loop ran

The clock stops while the loop doesn't run, so a run can be stopped and resumed. It is written every few seconds. The
loop doesn't outlive its caller, however that ends (Linux).
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
POLL_SECONDS = 0.5
WRITE_SECONDS = 5.0  # the most of the clock that a kill loses
STOP_SECONDS = 60.0  # from SIGTERM to SIGKILL
LOOP_SECONDS = 1.0  # the loop's own clock begins later, so it may end this much early
SET_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


@dataclass
class Clock:
    """stretches: (begin, end) of each time the loop ran, in seconds since 1970."""

    path: Path
    stretches: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Clock:
        """The clock at path, or a new one if there is none."""
        if not path.exists():
            return cls(path)
        raw = atomic.read_json(path, "the clock of a run")
        return cls(path, [(float(begin), float(end)) for begin, end in raw["stretches"]])

    def write(self) -> None:
        atomic.write_json(self.path, {"stretches": self.stretches}, indent=1)

    @property
    def seconds(self) -> float:
        """How long the loop has run."""
        return self.seconds_at(float("inf"))

    def seconds_at(self, moment: float) -> float:
        """How long the loop had run at a moment (seconds since 1970)."""
        return sum(max(0.0, min(end, moment) - begin) for begin, end in self.stretches)


def run_loop(command: Sequence[str | Path], clock: Clock, seconds: float, cores: int) -> int | None:
    """Run the loop until the clock shows `seconds`, then stop it. Returns its exit code if it ended before, else None.

    The loop gets the first cores that this process may use.
    """
    left = seconds - clock.seconds
    if left <= LOOP_SECONDS:
        return None
    allowed = sorted(os.sched_getaffinity(0))
    begin = time.time()
    with child([str(part) for part in command], allowed[:cores]) as loop:
        clock.stretches.append((begin, begin))
        written = begin
        try:
            while loop.poll() is None and time.time() - begin < left:
                time.sleep(POLL_SECONDS)
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
