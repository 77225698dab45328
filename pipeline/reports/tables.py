"""Facts as aligned text: tables, one line per fact, and the leaves of nested values. Knows neither games nor files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.phrases import counted, results

NUMBER = re.compile(r"[-+]?[\d.,/]*%?")
LONGEST_LIST = 6  # items of a list that are shown


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...], left_out: int = 0, where: str = "more") -> str:
    """Aligned columns; those that hold only numbers (or "-") are set to the right. left_out: rows that aren't shown."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    numeric = [bool(rows) and all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(header))]

    def line(cells: tuple[str, ...]) -> str:
        pairs = zip(cells, widths, numeric, strict=True)
        return "  ".join(f"{cell:>{width}}" if right else f"{cell:<{width}}" for cell, width, right in pairs).rstrip()

    end = [f"… and {left_out} {where}"] if left_out else []
    return "\n".join([line(header), *(line(row) for row in rows), *end])


def described(pairs: Mapping[str, object]) -> str:
    """One aligned line per fact."""
    width = max((len(name) for name in pairs), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in pairs.items())


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, text) of every leaf of a manifest or summary as JSON holds it, nested names joined by a blank."""
    for name, value in values.items():
        full = f"{prefix} {name}".strip()
        if isinstance(value, dict):
            yield from flattened(value, full)
        else:
            yield full, value_text(value)


def value_text(value: Any) -> str:
    """One leaf for a person: four digits, thousands set apart, yes and no; "-" stands for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        return listed(value, LONGEST_LIST) or "-"
    return str(value)


def listed(items: Sequence[Any], most: int) -> str:
    """E.g. "4, 6, 7, … (12 in all)": at most this many items."""
    shown = ", ".join(value_text(item) for item in items[:most])
    return f"{shown}, … ({len(items)} in all)" if len(items) > most else shown


def further_conditions(summary: Mapping[str, Any]) -> dict[str, str]:
    """What came of the further conditions of promotion, each of which has a match of its own."""
    guards = summary.get("guards")
    found: dict[str, str] = {}
    for text, met in (guards if isinstance(guards, dict) else {}).items():
        if isinstance(met, dict) and {"wins", "draws", "losses", "match"} <= met.keys():
            numbers = [met[name] if isinstance(met[name], int) else 0 for name in ("wins", "draws", "losses")]
            played = f"{results(*numbers)} of {counted(sum(numbers), 'game')}"
            found[text] = f"{'met' if met.get('passed') else 'not met'}: {played}, in {met['match']}"
    return found
