"""Kills at every call that changes files: used to test compact and prune."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest


def killed(call: str, moment: int, work: Callable[[], object]) -> int:
    """Does the work in a child that gets SIGKILL at a call of os.CALL: before the first (moment 0), after it (1),
    before the second … Returns how many calls there were; the work has come to its end if moment is at least twice
    that.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, none of which the work needs
        child = os.fork()
    if child == 0:
        try:
            _work(call, moment, work, writing)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as calls:
        count = len(calls.read())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if moment < 2 * count else 0)
    return count


def _work(call: str, moment: int, work: Callable[[], object], calls: int) -> None:
    """calls: gets a byte for each."""
    real: Callable[..., object] = getattr(os, call)
    note, count = os.write, 0

    def dying(*args, **kwargs):
        nonlocal count
        count += 1
        note(calls, b".")
        if 2 * (count - 1) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return real(*args, **kwargs)
        finally:
            if 2 * (count - 1) + 1 == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, dying)
        patch.setattr(Path, "unlink", _unlink)  # pathlib has a reference of its own to the real call
        work()


def _unlink(path: Path, missing_ok: bool = False) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise
