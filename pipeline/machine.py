"""This machine: its cores, and the lowest priority for processes that run beside something more important.

Where Linux groups processes by session (*autogroup*, on by default), a process's niceness counts only within its
session. A session has a niceness of its own, in ``/proc/PID/autogroup`` (sched(7)). It is set here only for sessions
that this program has made, because a terminal's would apply to everything started there.

Niceness decides how much of a core a thread gets, not where other threads run: a core with a thread of niceness 19
counts as busy, one that only runs threads of the policy SCHED_IDLE as idle (sched(7)), so that policy is set as well.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

LOWEST = 19
CONTROL_GROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
SWITCH = Path("/proc/sys/kernel/sched_autogroup_enabled")
PATIENCE_SECONDS = 2.0  # the kernel accepts ten changes a second from all users but root together
LOOK_SECONDS = 1.0  # between two looks whether the process that started this one has ended
PR_SET_PDEATHSIG = 1
# The variable that tells a process who started it. That process may end before this one is as far as here, and before
# step_back watches it.
STARTER = "MUGO_STARTED_BY"
STARTED_BY = int(os.environ.pop(STARTER, os.getppid()))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def uptime() -> float:
    """Seconds on a clock that goes on while the machine is suspended."""
    # macOS has no CLOCK_BOOTTIME, and its CLOCK_MONOTONIC counts that time.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def available_cores() -> int:
    """How many cores this process may use; a container or job may have only a share of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = time_of_group(CONTROL_GROUPS, MEMBERSHIP)
    return min(cores, max(1, math.ceil(limit))) if math.isfinite(limit) else cores


@cache
def time_of_group(folder: Path, membership: Path) -> float:
    """The seconds of processor time per second that this process's control group and those around it have; infinite
    without a limit. With more threads, all of them are stopped for a part of each tenth of a second.

    folder, membership: /sys/fs/cgroup, /proc/self/cgroup. Linux with cgroup v2, and containers with v1.
    """
    limits = [math.inf]
    with suppress(OSError, ValueError):  # v1, where a container sees its own group; -1 is no limit
        quota, period = (int((folder / "cpu" / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
        limits += [quota / period] if quota > 0 else []
    with suppress(OSError):
        of_v2 = [line[4:] for line in membership.read_text().splitlines() if line.startswith("0::/")]
        for path in map(Path, of_v2):
            for group in (path, *path.parents):
                with suppress(OSError, ValueError):  # without a limit: "max 100000"
                    most, every = (folder / group / "cpu.max").read_text().split()
                    limits.append(int(most) / int(every))
    return min(limits)


def groups_by_session() -> bool:
    """Whether the kernel divides the processor among sessions first."""
    with suppress(OSError):
        return SWITCH.read_text().strip() == "1"
    return False


def step_back(end_with_parent: bool = False, may_fork: bool = True) -> None:
    """Give this process, and all processes that it starts, the lowest priority of the machine.

    Where the kernel groups by session and this process doesn't lead one, it continues as a child in a session of its
    own. The original process then only passes signals on, waits, and ends as the child does. Call this before threads
    are started, or with may_fork=False: then it stays, and the kernel may divide by sessions as before.
    end_with_parent: SIGTERM ends this process when the process that started it has ended in any way.
    """
    if end_with_parent:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        else:
            threading.Thread(target=_end_with, args=(STARTED_BY,), daemon=True).start()
        if os.getppid() != STARTED_BY:  # it has already ended
            signal.raise_signal(signal.SIGTERM)
    if may_fork and groups_by_session() and os.getsid(0) != os.getpid():
        _continue_in_own_session()
    os.nice(LOWEST)
    share_niceness(os.getpid())
    if sys.platform == "linux":
        with suppress(OSError):  # not permitted to this user: niceness remains
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def share_niceness(leader: int) -> None:
    """Give the session that process `leader` leads the niceness of the calling process: a new session begins at 0.

    Does nothing if the process leads no session or has ended, or if the kernel has no such groups.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0 or not groups_by_session():
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    with suppress(OSError):
        while os.getsid(leader) == leader:
            try:
                Path(f"/proc/{leader}/autogroup").write_text(str(niceness))
                return
            except OSError as error:
                if error.errno != errno.EAGAIN or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


def _end_with(process: int) -> None:
    """End this process by SIGTERM when the process that started it has ended."""
    while os.getppid() == process:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _continue_in_own_session() -> None:
    """Returns only in the child, which is killed when this process is."""
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until both processes have their handlers
    child = os.fork()
    if child:
        _stand_for(child, mask)
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has already been killed
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _stand_for(child: int, mask: set[int | signal.Signals]) -> None:
    """Pass signals on, and end as the child does."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
