"""Schedules: settings that change during a run.

    learning_rate: [{until: 30, value: .002}, {until: 137, value: .0008}]
    readouts: [{until_samples: 1000000, value: 16}, {until_samples: 5000000, value: 32}]
    network_size: [{until_share: 0.4, value: b2c32}, {until_share: 1, value: b4c64}]
    temperature: [{until: 4000, from: 1.5, value: 0.5}]

An entry holds up to and including generation ``until``, until ``until_samples`` samples have been trained, or until the
share ``until_share`` of the run's time has passed. The first entry that holds gives the value; the last one's value
stays. Generations count from 1, so ``until: 30`` means the first thirty; the initial model is generation 0. An entry
with ``from`` changes linearly from that number to its value, between the end of the entry before (or 0) and its own.

Knows neither commands nor files; presets/ decides which settings may follow a schedule, which values they may have, and
which of them are rounded to whole numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeline.errors import UsageError

SHARE, FROM = "until_share", "from"
CLOCKS = {"until": "GENERATION", "until_samples": "SAMPLES", SHARE: "SHARE"}
WANTED = "a list of " + ", or of ".join(f"{{{clock}: {unit}, value: VALUE}}" for clock, unit in CLOCKS.items())


@dataclass(frozen=True)
class RunState:
    """How far a run has come.

    generation  number of the model being made or judged; the initial model is 0
    samples     samples that the models so far were trained on
    share       share of the run's time that has passed, 0 to 1; None: unknown
    """

    generation: int
    samples: int = 0
    share: float | None = None


START = RunState(0, 0, 0.0)


@dataclass(frozen=True)
class Schedule:
    """A setting's values in order of time: untils increase. clock: one of CLOCKS."""

    clock: str
    untils: tuple[float, ...]
    values: tuple[Any, ...]
    starts: tuple[Any, ...] = ()  # of entries that change linearly, None for others; empty if none does

    def at(self, run_state: RunState) -> Any:
        """The value that holds at run_state. Raises UsageError if it depends on an unknown share of time."""
        clocks = {"until": run_state.generation, "until_samples": run_state.samples, SHARE: run_state.share}
        reached = clocks[self.clock]
        if reached is None:
            raise UsageError(
                "depends on the share of the run's time; run `python main.py loop --minutes …`, or give "
                "--time-share 0 to 1"
            )
        find = bisect_left if self.clock == "until" else bisect_right  # up to and including that generation
        place = min(find(self.untils, reached), len(self.values) - 1)
        start, value = self.starts[place] if self.starts else None, self.values[place]
        if start is None:
            return value
        begin, end = self.untils[place - 1] if place else 0, self.untils[place]
        return start + (value - start) * min(1.0, (reached - begin) / (end - begin))


def parse_schedule(entries: Sequence[Any], where: str) -> Schedule:
    """The schedule that a list in a preset describes, its values unchecked.

    where: the beginning of every message. Raises UsageError.
    """
    if not entries:
        raise UsageError(f"{where}: found an empty list; wanted {WANTED}")
    for entry in entries:
        named = entry.keys() - {FROM} if isinstance(entry, dict) else set()
        if len(named) != 2 or "value" not in named or not CLOCKS.keys() & named:
            raise UsageError(f"{where}: found the entry {entry!r}; wanted {WANTED}")
    clocks = {name for entry in entries for name in CLOCKS.keys() & entry.keys()}
    if len(clocks) > 1:
        raise UsageError(f"{where}: found both {' and '.join(sorted(clocks))}; wanted one of them in all entries")
    (clock,) = clocks
    read = _share if clock == SHARE else _whole_number
    untils = tuple(read(entry[clock], f"{where}, {clock}") for entry in entries)
    for before, after in pairwise(untils):
        if after <= before:
            raise UsageError(f"{where}: found {clock} {after} after {before}; wanted each greater than the one before")
    for entry in entries:
        if FROM in entry and not all(_is_number(entry[name]) for name in (FROM, "value")):
            raise UsageError(f"{where}: found the entry {entry!r}; wanted numbers after {FROM} and value")
    if untils[0] == 0 and FROM in entries[0]:
        raise UsageError(f"{where}: found the entry {entries[0]!r}; wanted it to last, so that a value can change")
    starts = tuple(entry.get(FROM) for entry in entries) if any(FROM in entry for entry in entries) else ()
    return Schedule(clock, untils, tuple(entry["value"] for entry in entries), starts)


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _whole_number(found: Any, where: str) -> int:
    """YAML 1.1 reads 1e6 as text and 1.0e+6 as a float; here both are numbers."""
    try:
        number = float(found) if isinstance(found, int | float | str) and not isinstance(found, bool) else -1.0
        if number >= 0 and number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise UsageError(f"{where}: found {found!r}; wanted a whole number, 0 or more")


def _share(found: Any, where: str) -> float:
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found <= 1:
        return float(found)
    raise UsageError(f"{where}: found {found!r}; wanted a share, above 0 and at most 1")
