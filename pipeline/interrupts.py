"""Interrupts that wait until a training step, a commit or other work that must not be cut short has ended."""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Held:
    """The signals received since held_back() began. Calling it delivers the first of them."""

    def __init__(self) -> None:
        self.caught: list[tuple[int, types.FrameType | None]] = []
        self.before: dict[int, Any] = {}

    @property
    def number(self) -> int:
        """The number of the first signal not yet delivered; 0: none."""
        return self.caught[0][0] if self.caught else 0

    def __call__(self) -> None:
        if self.caught:
            number, frame = self.caught.pop(0)
            self.before[number](number, frame)


@contextmanager
def held_back() -> Iterator[Held]:
    """Hold back SIGINT and SIGTERM until the block ends or calls Held. The former handlers then get the first signal.

    Does nothing in other threads than the main one, where no signals arrive.
    """
    held = Held()
    with _handled_by(lambda *args: held.caught.append(args), held.before):
        yield held
    held()


@contextmanager
def noted() -> Iterator[list[int]]:
    """The numbers of SIGINT and SIGTERM received during the block, which are handled as usual."""
    numbers: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: types.FrameType | None) -> None:
        numbers.append(number)
        before[number](number, frame)

    with _handled_by(note, before):
        yield numbers


@contextmanager
def _handled_by(handler: Callable[..., None], before: dict[int, Any]) -> Iterator[None]:
    """Let this function handle SIGINT and SIGTERM in the block. Fills before with the former handlers."""
    if threading.current_thread() is threading.main_thread():
        for wanted in (signal.SIGINT, signal.SIGTERM):
            if callable(former := signal.getsignal(wanted)):
                before[wanted] = former  # before the next line, after which a signal may come
                signal.signal(wanted, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
