"""Aligned text: tables, one line per fact, and nested values flattened to one line per leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NUMBER = re.compile(r"[-+]?[\d.,/]*%?")
LIST_ITEMS_SHOWN = 6


def table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...], left_out: int = 0, where: str = "more") -> str:
    """Aligned columns; numeric columns ("-" counts as a number) are right-aligned, columns without text are left out.

    left_out: number of rows omitted.
    """
    shown = [i for i in range(len(header)) if not rows or any(row[i] for row in rows)]
    rows, header = [tuple(row[i] for i in shown) for row in rows], tuple(header[i] for i in shown)
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
    """(name, text) of every leaf of a JSON object; nested names are joined by a space."""
    for name, value in values.items():
        full = f"{prefix} {name}".strip()
        if isinstance(value, dict):
            yield from flattened(value, full)
        else:
            yield full, value_text(value)


def value_text(value: Any) -> str:
    """One leaf as text: four significant digits, thousands separators, yes/no, and "-" for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        return shortened_list(value, LIST_ITEMS_SHOWN) or "-"
    return str(value)


def shortened_list(items: Sequence[Any], most: int) -> str:
    """At most this many items, e.g. "4, 6, 7, … (12 in all)"."""
    shown = ", ".join(value_text(item) for item in items[:most])
    return f"{shown}, … ({len(items)} in all)" if len(items) > most else shown
