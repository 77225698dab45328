"""``CommandLines``: a manager's lines, read in a separate thread, so that a search notices when one arrives."""

from __future__ import annotations

import io
import queue
import sys
import threading
from collections.abc import Callable
from typing import TextIO

WAITING_LINES = 1024  # read ahead at most; then the manager's pipe fills up
TOO_LONG = "\0too long "  # begins what stands for a line longer than the limit; no protocol has such a command
KEPT = 40  # characters of such a line's beginning, which follow
BYTE_ORDER_MARK = "\ufeff"


def accept_any_bytes() -> None:
    """Replace bytes of standard input and output that aren't UTF-8: they must not end a game."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def read_line(stream: TextIO, longest: int) -> str:
    """The next line with its end; empty at the end of the input.

    longest: characters, the end included. A longer line is read to its end piece by piece; TOO_LONG and its beginning
    are returned.
    """
    line = stream.readline(longest)
    if len(line) < longest or line.endswith("\n"):
        return line
    while (rest := stream.readline(longest)) and not rest.endswith("\n"):
        pass
    return TOO_LONG + line[:KEPT]


def shown(word: str) -> str:
    """A manager's word as answers quote it: short and printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in word[:40])


class CommandLines:
    """Lines without their ends, in order. next() gives None at the end of the input, and from then on.

    A byte-order mark before the first line, as some shells send it, is dropped.

    longest: as in read_line.
    """

    def __init__(self, stream: TextIO, longest: int) -> None:
        self._stream, self._longest = stream, longest
        self._queue: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next(self) -> str | None:
        """The next line; waits for it."""
        line = self._queue.get()
        if line is None:
            self._queue.put(None)
        return line

    def waiting(self) -> bool:
        """Whether next() would return at once."""
        return not self._queue.empty()

    def watch(self, command: str) -> Callable[[], bool]:
        """A function that says whether this command has come since now, with or without a number before it.

        If it waits already, it never does: a script sends all its lines at once, and each has its turn.
        """
        known = self._holds(command)
        return lambda: not known and self._holds(command)

    def _holds(self, command: str) -> bool:
        with self._queue.mutex:
            waiting = [(line or "").casefold().split() for line in self._queue.queue]
        return any(words[words[0].isdecimal() :][:1] == [command] for words in waiting if words)

    def wait(self, seconds: float) -> bool:
        """Wait for a line, at most this long; whether one is there. Only for the thread that calls next()."""
        with self._queue.not_empty:
            return self._queue.not_empty.wait_for(self._queue._qsize, seconds) > 0  # type: ignore[attr-defined]

    def _read(self) -> None:
        mark = BYTE_ORDER_MARK
        try:
            while line := read_line(self._stream, self._longest):
                self._queue.put(line.removeprefix(mark).rstrip("\r\n"))
                mark = ""
        except (OSError, ValueError):  # the stream was closed
            pass
        self._queue.put(None)
