"""Progress on stderr: bars on a terminal, occasional plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm

from pipeline.phrases import long_duration, printable, write
from pipeline.progress import Progress

FIRST_LOG_SECONDS = 5.0  # from the start of a phase to its first line in a log
LOG_SECONDS = 30.0  # between further lines of the phase
DRAW_SECONDS = 0.2  # between two redraws of a bar whose count stands still
BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{left}, {rate_fmt}{postfix}]"


class _Bar(tqdm):
    """A bar that shows the time left as its owner knows it."""

    seconds_left: Callable[[], float | None] = staticmethod(lambda: None)

    @property
    def format_dict(self) -> Any:
        left = self.seconds_left()
        return {**super().format_dict, "left": "" if left is None else f"<{self.format_interval(left)}"}


class ConsoleProgress(Progress):
    """One phase at a time. Leaving the context ends the phase, so that an error message starts on a new line.

    quiet        show only warnings
    stream       the output; bars are drawn only on a terminal
    log_seconds  time between two lines of a phase in a log
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, log_seconds: float = LOG_SECONDS) -> None:
        self.quiet = quiet
        self.stream = sys.stderr if stream is None else stream
        self.draws = not quiet and self.stream.isatty()
        self.log_seconds = log_seconds
        self.bar: tqdm | None = None
        self.what = ""
        self.unit = "units"
        self.total: int | None = None
        self.count = self.done_before = 0
        self.at_once = 1
        self.expected: list[float | None] = []  # what left() said last; empty: nothing
        self.state = ""
        self.started = self.next_time = 0.0  # next_time: when to show something, even if no unit is done by then

    def __enter__(self) -> ConsoleProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def start(self, what: str, total: int | None = None, unit: str = "units", done: int = 0, at_once: int = 1) -> None:
        self.finish()
        self.at_once, self.expected = at_once, []
        self.what, self.total, self.unit, self.state = what, total, unit, ""
        self.count = self.done_before = done
        self.started = time.monotonic()
        self.next_time = self.started + min(FIRST_LOG_SECONDS, self.log_seconds)
        if self.draws:
            self.next_time = self.started
            self.bar = _Bar(
                total=total, initial=done, desc=printable(what), unit=f" {unit}", file=self.stream,
                dynamic_ncols=True, smoothing=0.05, bar_format=BAR if total else None,
            )  # fmt: skip
            self.bar.seconds_left = self._seconds_left

    def advance(self, count: int = 1) -> None:
        self.count += count
        if self.bar is not None:
            self.bar.update(count)
        else:
            self._show_when_due()

    def describe(self, text: str) -> None:
        self.state = text
        if self.bar is not None:
            self.bar.set_postfix_str(printable(text), refresh=False)
        self._show_when_due()

    def left(self, seconds: float | None) -> None:
        self.expected = [seconds]

    def say(self, text: str) -> None:
        if not self.quiet:
            self._write(text)

    def warn(self, text: str) -> None:
        self._write(f"warning: {text}")

    def finish(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
        elif self.what and not self.quiet:
            self._log_line()
        self.what = ""

    def _show_when_due(self) -> None:
        if self.quiet or not self.what or time.monotonic() < self.next_time:
            return
        if self.bar is None:
            self._log_line()
        else:
            self.bar.refresh()
            self.next_time = time.monotonic() + DRAW_SECONDS

    def _seconds_left(self) -> float | None:
        """None: not known."""
        if self.expected:
            return self.expected[0]
        done, seconds = self.count - self.done_before, time.monotonic() - self.started
        if self.total is None or done < max(1, self.at_once) or seconds <= 0:
            return None
        return (self.total - self.count) * seconds / done

    def _log_line(self) -> None:
        """E.g. "playing: 120 of 400 games in 31 s (3.9/s, 72 s left)  loss 2.31"."""
        now = time.monotonic()
        self.next_time = now + self.log_seconds
        seconds = now - self.started
        total = "" if self.total is None else f" of {self.total:,}"
        rate = (self.count - self.done_before) / seconds if seconds > 0 else 0.0
        speed = f"{rate:,.1f}/s" if rate >= 1 else f"{rate:.2g}/s"
        if self.total is not None and self.total > self.count and (left := self._seconds_left()) is not None:
            speed += f", {long_duration(left)} left"
        speed = f" ({speed})" if rate else ""
        self._write(f"{self.what}: {self.count:,}{total} {self.unit} in {seconds:.0f} s{speed}  {self.state}".rstrip())

    def _write(self, line: str) -> None:
        if self.draws:
            tqdm.write(printable(line), file=self.stream)
        else:
            write(line, self.stream)
