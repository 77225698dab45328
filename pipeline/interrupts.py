"""Interrupts that wait: what must be done whole or not at all, such as a training step or a commit, ends first."""

from __future__ import annotations

import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold SIGINT and SIGTERM back until the end of the block, or until the function that the block gets is called.

    Whoever handled them before handles them then. In other threads than the main one signals don't arrive anyway.
    """
    caught: list[tuple[int, types.FrameType | None]] = []
    before: dict[int, Any] = {}

    def deliver() -> None:
        if caught:
            number, frame = caught.pop(0)
            before[number](number, frame)

    with suppress(ValueError):  # not the main thread
        for wanted in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(wanted)):
                before[wanted] = signal.signal(wanted, lambda *args: caught.append(args))
    try:
        yield deliver
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    deliver()
