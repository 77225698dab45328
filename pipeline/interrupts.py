"""Interrupts that wait: what must be done whole or not at all, such as a training step or a commit, ends first."""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Held:
    """The signals that came since held_back() began; called, it delivers the first of them."""

    def __init__(self) -> None:
        self.caught: list[tuple[int, types.FrameType | None]] = []
        self.before: dict[int, Any] = {}

    @property
    def number(self) -> int:
        """Of the first signal that wasn't delivered yet; 0: none."""
        return self.caught[0][0] if self.caught else 0

    def __call__(self) -> None:
        if self.caught:
            number, frame = self.caught.pop(0)
            self.before[number](number, frame)


@contextmanager
def held_back() -> Iterator[Held]:
    """Hold SIGINT and SIGTERM back until the end of the block, or until what the block gets is called.

    Whoever handled them before handles them then. In other threads than the main one signals don't arrive anyway.
    """
    held = Held()
    with suppress(ValueError):  # not the main thread
        for wanted in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(wanted)):
                held.before[wanted] = signal.signal(wanted, lambda *args: held.caught.append(args))
    try:
        yield held
    finally:
        for number, handler in held.before.items():
            signal.signal(number, handler)
    held()


@contextmanager
def noted() -> Iterator[list[int]]:
    """The numbers of the SIGINT and SIGTERM that come during the block, each noted before it is handled as ever."""
    numbers: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is not threading.main_thread():  # where none arrive
        yield numbers
        return

    def note(number: int, frame: types.FrameType | None) -> None:
        numbers.append(number)
        before[number](number, frame)

    for wanted in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(wanted)):
            before[wanted] = handler  # first: a signal may come before the next line
            signal.signal(wanted, note)
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
