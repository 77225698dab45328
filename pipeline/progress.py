"""How a stage reports what it is doing without printing: main.py passes a Progress that draws, tests pass none."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """Silent base. A stage calls start once per phase, advance when units are done, say for a line worth reading."""

    def start(self, what: str, total: int | None = None, unit: str = "units", done: int = 0) -> None:
        """A phase begins. total: how many units it has, if known; done: those that an earlier process did."""

    def advance(self, count: int = 1) -> None:
        """count more units of the phase are done."""

    def describe(self, text: str) -> None:
        """A short state beside the bar, e.g. the current loss or "12,345 positions, 402/s".

        Shown even while no unit is done, so call it every second or so where units take long.
        """

    def say(self, text: str) -> None:
        """One line for the user."""

    def warn(self, text: str) -> None:
        """One line about something skipped or odd."""

    def finish(self) -> None:
        """The phase is over."""


SILENT = Progress()


def once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """The same function, called with each text only the first time."""
    told: set[str] = set()

    def tell_once(text: str) -> None:
        if text not in told:
            told.add(text)
            tell(text)

    return tell_once
