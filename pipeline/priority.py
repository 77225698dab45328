"""The lowest priority, for what runs beside something more important: niceness that counts on the whole machine.

Where Linux groups processes by session (*autogroup*, on by default), a process's niceness counts inside its session
only: sessions get equal shares of the processor, whatever the niceness of what runs in them. A session has a niceness
of its own, in ``/proc/PID/autogroup`` (sched(7)). It is set here only for sessions that this program has made: a
terminal's would count for everything that is ever started there.

Niceness says how much of a core a thread gets, not which core others are put on: to Linux a core that a thread of
niceness 19 uses is busy, so threads that wake up together may be put on another one, together. A core that only runs
threads of the policy SCHED_IDLE counts as idle (sched(7)), so that is the policy here.

Sets priorities; knows nothing of what runs with them. Where the kernel has no autogroups it is plain niceness.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

LOWEST = 19
SWITCH = Path("/proc/sys/kernel/sched_autogroup_enabled")
PATIENCE_SECONDS = 2.0  # the kernel takes ten changes a second from all users other than root
PR_SET_PDEATHSIG = 1
STARTED_BY = os.getppid()  # looked up early: that process may end before step_back asks to be told
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def groups_by_session() -> bool:
    """Whether the kernel shares the processor out to sessions first."""
    with suppress(OSError):
        return SWITCH.read_text().strip() == "1"
    return False


def step_back(end_with_parent: bool = False) -> None:
    """Give this process, and all that it starts, the lowest priority of the machine.

    Where the kernel groups by session and this process doesn't lead one, it goes on as a child in a session of its own;
    the process that was there before only passes signals on, waits, and ends as the child does. Call it before threads
    are started.
    end_with_parent: SIGTERM ends it when the process that started it has ended, however that was (Linux; elsewhere if
    that has happened by now).
    """
    if end_with_parent:
        with suppress(AttributeError):  # elsewhere than on Linux
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != STARTED_BY:  # it ended before that
            signal.raise_signal(signal.SIGTERM)
    if groups_by_session() and os.getsid(0) != os.getpid():
        _go_on_in_own_session()
    os.nice(LOWEST)
    share_niceness(os.getpid())
    if sys.platform == "linux":
        with suppress(OSError):  # a policy that this user may not have: niceness remains
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def share_niceness(leader: int) -> None:
    """Give the session that this process leads the niceness of the calling process: a new session begins at 0.

    Does nothing for another session's member, one that has ended, or where the kernel has no such groups.
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


def session_niceness(process: int) -> int | None:
    """The niceness of the session that a process is in; None if the kernel has no such groups."""
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{process}/autogroup").read_text().rpartition(" ")[2])
    return None


def _go_on_in_own_session() -> None:
    """Returns in the child alone. It is killed if this process is: whoever kills that one means both."""
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until both have their handlers
    child = os.fork()
    if child:
        _stand_for(child, mask)
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before that
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
        with suppress(OSError):  # SIGKILL has no handler to be taken away
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
