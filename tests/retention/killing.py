"""Kills at every call that changes files: what compact and prune are tried with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


class Killed(BaseException):
    """What a kill is within a test."""


@dataclass
class Calls:
    count: int = 0


@contextmanager
def killed(call: str, moment: int) -> Iterator[Calls]:
    """Ends the block at a call of os.CALL, as a kill would: before the first (moment 0), after it (1), before the
    second … Gives how many calls there were; the block has come to its end if moment is at least twice that.
    """
    real: Callable[..., object] = getattr(os, call)
    calls = Calls()

    def dying(*args, **kwargs):
        calls.count += 1
        if 2 * (calls.count - 1) == moment:
            raise Killed
        result = real(*args, **kwargs)
        if 2 * (calls.count - 1) + 1 == moment:
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(os, call, dying)
        patch.setattr(Path, "unlink", _unlink)  # pathlib has a reference of its own to the real call
        yield calls


def _unlink(path: Path, missing_ok: bool = False) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise
