"""Schedules: settings that change while a run goes on, as data.

    learning_rate: [{until: 30, value: .002}, {until: 137, value: .0008}]
    readouts: [{until_samples: 1000000, value: 16}, {until_samples: 5000000, value: 32}]

An entry's value holds while the generation that is being made is at most its ``until``, or while fewer samples than its
``until_samples`` have been trained; the first entry that holds counts, and the last one's value stays for ever.
Generations count from 1, so ``until: 30`` is the first thirty; what comes before the first (the initial model) is 0.
Knows no stages and no files: which settings may follow a schedule, and what their values may be, is recipes.py's
business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline.errors import UsageError

WANTED = "a list of {until: GENERATION, value: VALUE}, or of {until_samples: SAMPLES, value: VALUE}"
CLOCKS = {"until": "generation", "until_samples": "samples"}


@dataclass(frozen=True)
class Moment:
    """Where a run stands.

    generation  the number of the model that is being made, or judged; the initial model is 0
    samples     how many samples the models up to now were trained on
    """

    generation: int
    samples: int = 0


START = Moment(0)


@dataclass(frozen=True)
class Schedule:
    """A setting's values in the order of time. clock: ``until`` or ``until_samples``, one for all entries."""

    clock: str
    untils: tuple[int, ...]
    values: tuple[Any, ...]

    def at(self, moment: Moment) -> Any:
        """The value that holds then."""
        for until, value in zip(self.untils, self.values, strict=True):
            holds = moment.generation <= until if self.clock == "until" else moment.samples < until
            if holds:
                return value
        return self.values[-1]


def parse_schedule(entries: Sequence[Any], where: str) -> Schedule:
    """The schedule that a list of a preset means. Its values are taken as they are.

    where: what every message begins with. Raises UsageError.
    """
    if not entries:
        raise UsageError(f"{where}: found an empty list; wanted {WANTED}")
    for entry in entries:
        if not isinstance(entry, dict) or len(entry) != 2 or "value" not in entry or not CLOCKS.keys() & entry.keys():
            raise UsageError(f"{where}: found the entry {entry!r}; wanted {WANTED}")
    clocks = {name for entry in entries for name in CLOCKS.keys() & entry.keys()}
    if len(clocks) > 1:
        raise UsageError(f"{where}: found both until and until_samples; wanted one of them in all entries")
    (clock,) = clocks
    untils = tuple(_whole_number(entry[clock], f"{where}, {clock}") for entry in entries)
    for before, after in pairwise(untils):
        if after <= before:
            raise UsageError(f"{where}: found {clock} {after} after {before}; wanted each greater than the one before")
    return Schedule(clock, untils, tuple(entry["value"] for entry in entries))


def _whole_number(found: Any, where: str) -> int:
    """YAML 1.1 reads 1e6 as text and 1.0e+6 as a float; both are meant as a number here."""
    try:
        number = float(found) if isinstance(found, int | float | str) and not isinstance(found, bool) else -1.0
        if number >= 0 and number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise UsageError(f"{where}: found {found!r}; wanted a whole number, 0 or more")
