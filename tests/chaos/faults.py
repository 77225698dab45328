"""What goes wrong inside a process. Installed by the server into the process that it forks, before main.py runs.

The calls that change files are wrapped: open for writing, write, fsync, truncate, rename, replace, link, symlink,
unlink, mkdir, rmdir. Each has three *points*, numbered on: before the call, in the middle (half of a write is done if
the fault ends it; else the same as before), and after it. At its point a fault happens; with action "count" nothing
does, and the log says how many there were.

The log, a file outside the run, gets a line per call that succeeded: its number, its name, the size of a file that was
written, and the path that it changed.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, tzinfo
from threading import RLock
from typing import Any

POINTS = BEFORE, MIDDLE, AFTER = range(3)
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
ENDING = {"kill", "full", "fault", "read-only"}  # what keeps a call that has begun from going on
ERRORS = {"full": errno.ENOSPC, "fault": errno.EIO, "read-only": errno.EROFS}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CALLS = (
    "open", "write", "fsync", "ftruncate", "truncate", "posix_fallocate", "rename", "replace", "link", "symlink",
    "unlink", "remove", "mkdir", "rmdir",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """action: "count", a key of SIGNALS or ERRORS, "slow"; point: where, -1 nowhere.

    stays     of an error: every later call fails as well, as on a disk that stays full
    seconds   of "slow": that each call takes
    clock     seconds that the clock is ahead; back: after so many readings it jumps back an hour, 0 never
    """

    action: str = "count"
    point: int = -1
    stays: bool = False
    seconds: float = 0.0
    clock: float = 0.0
    back: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Injector:
    """Wraps the calls of this process. log: path of the log."""

    def __init__(self, fault: Fault, log: str) -> None:
        self.fault = fault
        self.calls = 0
        self.failing = False
        self._lock = RLock()
        self._write = os.write
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kill = os.kill

    def install(self) -> None:
        for name in CALLS:
            if hasattr(os, name):
                setattr(os, name, self._wrapped(name, getattr(os, name)))
        opened = self._wrapped("io.open", io.open)
        builtins.open = io.open = opened  # type: ignore[assignment]
        if self.fault.clock or self.fault.back:
            _install_clock(self.fault)

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            if not _changes_files(name, args, options, self._log):
                return call(*args, **options)
            with self._lock:
                first = len(POINTS) * self.calls
                self.calls += 1
            self._reach(first + BEFORE)
            if name == "write" and self.fault.point == first + MIDDLE and self.fault.action in ENDING:
                call(args[0], memoryview(args[1])[: len(args[1]) // 2])
            self._reach(first + MIDDLE)
            result = call(*args, **options)
            self._note(first // len(POINTS), name, args)
            self._reach(first + AFTER)
            return result

        return wrapped

    def _reach(self, point: int) -> None:
        fault = self.fault
        if fault.action == "slow":
            time.sleep(fault.seconds / len(POINTS))
        elif fault.action in SIGNALS and point == fault.point:
            self._kill(os.getpid(), SIGNALS[fault.action])
        elif fault.action in ERRORS and (point == fault.point or (self.failing and point % len(POINTS) == BEFORE)):
            self.failing = fault.stays
            number = ERRORS[fault.action]
            raise OSError(number, os.strerror(number))

    def _note(self, number: int, name: str, args: tuple[Any, ...]) -> None:
        what = args[1] if name in ("rename", "replace", "link", "symlink") else args[0]
        size = ""
        if isinstance(what, int):
            size = f"{os.fstat(what).st_size} "
            what = os.readlink(f"/proc/self/fd/{what}")
        line = f"{number} {name} {size}{os.path.abspath(os.fsdecode(what))}\n"
        self._write(self._log, line.encode(errors="surrogateescape"))


def _changes_files(name: str, args: tuple[Any, ...], options: dict[str, Any], log: int) -> bool:
    if name == "open":
        return bool((args[1] if len(args) > 1 else options.get("flags", 0)) & WRITING)
    if name == "io.open":
        mode = args[1] if len(args) > 1 else options.get("mode", "r")
        return isinstance(args[0], str | os.PathLike) and bool(set(mode) & set("wax+"))
    return not isinstance(args[0], int) or (args[0] > 2 and args[0] != log)


# Clocks


def _install_clock(fault: Fault) -> None:
    """Every module of the pipeline sees this clock: the time of day, not the monotonic one."""
    readings = 0
    real_time = time.time

    def offset() -> float:
        nonlocal readings
        readings += 1
        return fault.clock - (3600 if fault.back and readings > fault.back else 0)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=offset())

    for name, module in list(sys.modules.items()):
        if name.startswith("pipeline.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Clock  # type: ignore[attr-defined]
    time.time = lambda: real_time() + offset()
