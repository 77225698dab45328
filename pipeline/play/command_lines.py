"""``CommandLines``: a manager's lines, read in a separate thread, so that a search notices when one arrives.

A *burst* is lines without a pause between them. The lines of a script form one burst, and each is answered in turn. A
manager that gives up sends its last command after a pause, so it is in a later burst than the command that still runs.
"""

from __future__ import annotations

import io
import os
import queue
import sys
import threading
import time
from typing import TextIO

from pipeline.phrases import counted

WAITING_LINES = 1024  # read ahead at most; then the manager's pipe fills up
TOO_LONG = "\0too long "  # begins what stands for a line longer than the limit; no protocol has such a command
KEPT = 40  # characters of such a line's beginning, which follow
BYTE_ORDER_MARK = "\ufeff"
PAUSE = 0.2  # seconds without a line that end a burst
PATIENCE = 0.35  # seconds that a manager's last command waits; managers stop an engine that takes longer than some


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
        self._queue: queue.Queue[tuple[int, str | None]] = queue.Queue(WAITING_LINES)  # with the number of the burst
        self._burst: int | None = None  # of the line that next() gave last
        self._is_ended = False
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next(self) -> str | None:
        """The next line; waits for it."""
        self._burst, line = self._queue.get()
        if line is None:
            self._queue.put((self._burst, None))
        return line

    def waiting(self) -> bool:
        """Whether next() would return at once."""
        return not self._queue.empty()

    def ended_by(self, command: str) -> bool:
        """Whether this command waits, with or without a number before it, or the end of the input, in a later burst
        than the line that next() gave last. Once that was true it remains so.
        """
        if not self._is_ended:
            self._is_ended = any(_is(line, command) for line in self._in_later_bursts())
        return self._is_ended

    def leave_on(self, command: str) -> None:
        """From now on, end the program where this command waits, as for ended_by, longer than PATIENCE.

        What loads networks or compiles kernels can't be stopped in any other way. A first line counts as well. Before
        next() is called at all, nothing else would answer: then it ends at once.
        """

        def watch() -> None:
            asked = None
            while asked is None or (self._burst is not None and time.monotonic() < asked + PATIENCE):
                time.sleep(PAUSE / 4)
                waits = any(line is not None and _is(line, command) for line in self._in_later_bursts())
                asked = (asked or time.monotonic()) if waits else None
            if before := self._queue.qsize() - 1:
                print(f"mugo: {command} while it was busy; not answered: {counted(before, 'line')}", file=sys.stderr)
            os._exit(0)

        threading.Thread(target=watch, name="last command", daemon=True).start()

    def _in_later_bursts(self) -> list[str | None]:
        """The waiting lines of later bursts than the one that next() gave last; before that, than the first one."""
        with self._queue.mutex:
            waiting = list(self._queue.queue)
        if self._burst is None:  # the first line alone is no script
            now = waiting[0][0] - (len(waiting) == 1) if waiting else 0
        else:
            now = self._burst
        return [line for burst, line in waiting if burst > now]

    def wait(self, seconds: float) -> bool:
        """Wait for a line, at most this long; whether one is there. Only for the thread that calls next()."""
        with self._queue.not_empty:
            return self._queue.not_empty.wait_for(self._queue._qsize, seconds) > 0  # type: ignore[attr-defined]

    def _read(self) -> None:
        mark, burst, more = BYTE_ORDER_MARK, 0, True
        while more:
            asked = time.monotonic()
            try:
                line = read_line(self._stream, self._longest)
            except (OSError, ValueError):  # the stream was closed
                line = ""
            burst += time.monotonic() - asked >= PAUSE
            more = line != ""
            self._queue.put((burst, line.removeprefix(mark).rstrip("\r\n") if more else None))
            mark = ""


def _is(line: str | None, command: str) -> bool:
    """Whether a line is this command, or the end of the input."""
    words = (command if line is None else line).casefold().split()
    return words[bool(words) and words[0].isdecimal() :][:1] == [command]
