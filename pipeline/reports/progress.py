"""Progress for a person: bars on a terminal, a plain line now and then in a log. Everything goes to stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

from pipeline.progress import Progress

LOG_SECONDS = 30.0  # between two lines about the same phase in a log


class ConsoleProgress(Progress):
    """One phase at a time. Leaving the context ends the phase that is open, so that an error starts on its own line.

    quiet    only warnings are shown
    stream   where lines go; bars are drawn only if it is a terminal
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, log_seconds: float = LOG_SECONDS) -> None:
        self.quiet = quiet
        self.stream = sys.stderr if stream is None else stream
        self.draws = not quiet and self.stream.isatty()
        self.log_seconds = log_seconds
        self.bar: tqdm | None = None
        self.what = ""
        self.unit = "it"
        self.total: int | None = None
        self.count = 0
        self.state = ""
        self.started = self.last_line = time.monotonic()

    def __enter__(self) -> ConsoleProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def start(self, what: str, total: int | None = None, unit: str = "it") -> None:
        self.finish()
        self.what, self.total, self.unit, self.count, self.state = what, total, unit, 0, ""
        self.started = self.last_line = time.monotonic()
        if self.draws:
            self.bar = tqdm(
                total=total, desc=what, unit=f" {unit}", file=self.stream, dynamic_ncols=True, smoothing=0.05
            )

    def advance(self, count: int = 1) -> None:
        self.count += count
        if self.bar is not None:
            self.bar.update(count)
        elif not self.quiet and self.what and time.monotonic() - self.last_line >= self.log_seconds:
            self._log_line()

    def describe(self, text: str) -> None:
        self.state = text
        if self.bar is not None:
            self.bar.set_postfix_str(text, refresh=False)

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

    def _log_line(self) -> None:
        """E.g. "playing: 120 of 400 games in 31 s (3.9/s)  loss 2.31"."""
        self.last_line = time.monotonic()
        seconds = self.last_line - self.started
        total = "" if self.total is None else f" of {self.total:,}"
        rate = f" ({self.count / seconds:,.1f}/s)" if seconds > 0 and self.count else ""
        self._write(f"{self.what}: {self.count:,}{total} {self.unit} in {seconds:.0f} s{rate}  {self.state}".rstrip())

    def _write(self, line: str) -> None:
        if self.draws:
            tqdm.write(line, file=self.stream)
        else:
            print(line, file=self.stream, flush=True)
