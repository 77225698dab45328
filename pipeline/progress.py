"""How a command reports without printing: main.py passes a Progress that draws; the default is silent."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

T = TypeVar("T")


class Progress:
    """Silent base. A command calls start once per phase, advance when units are done, say for a line worth reading."""

    def start(self, what: str, total: int | None = None, unit: str = "units", done: int = 0, at_once: int = 1) -> None:
        """A phase begins.

        total    its number of units, if known
        done     units done by an earlier process
        at_once  units in progress at once: until so many are done, their rate doesn't tell the time left
        """

    def advance(self, count: int = 1) -> None:
        """More units of the phase are done."""

    def describe(self, text: str) -> None:
        """A short state beside the bar, e.g. "12,345 positions, 402/s". Where units take long, call it every second."""

    def left(self, seconds: float | None) -> None:
        """The time left of the phase, where its units don't tell it; None: not known yet."""

    def say(self, text: str) -> None:
        """One line for the user."""

    def warn(self, text: str) -> None:
        """One line about something skipped or odd."""

    def finish(self) -> None:
        """The phase is over."""

    def each(self, items: Collection[T], what: str, unit: str) -> Iterator[T]:
        """The items, as the units of a phase; none without items. An item is done when the next one is asked for."""
        if items:
            self.start(what, len(items), unit)
            for item in items:
                yield item
                self.advance()
            self.finish()


SILENT = Progress()


_told: set[str] = set()


def say_first(progress: Progress, text: str) -> None:
    """Say a text only the first time in this process."""
    if text not in _told:
        _told.add(text)
        progress.say(text)
