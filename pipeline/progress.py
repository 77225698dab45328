"""How a stage tells what it is doing, without printing. main.py passes one that draws; tests pass none."""

from __future__ import annotations


class Progress:
    """Silent base. A stage calls start once per phase, advance as units are done, say for a line worth reading."""

    def start(self, what: str, total: int | None = None, unit: str = "it") -> None:
        """A phase begins. total: how many units it has, if known."""

    def advance(self, count: int = 1) -> None:
        """count more units of the phase are done."""

    def describe(self, text: str) -> None:
        """A short state beside the bar, e.g. the current loss."""

    def say(self, text: str) -> None:
        """One line for the user."""

    def warn(self, text: str) -> None:
        """One line about something skipped or odd."""

    def finish(self) -> None:
        """The phase is over."""


SILENT = Progress()
