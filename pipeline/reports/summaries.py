"""A command's summary as text: short for a person, whole on request, exact as JSON.

A summary is a frozen dataclass. One that has a method ``lines()`` says its short form itself, in sentences with units;
of any other the whole is shown, one line per field.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from pipeline.ratings.command import RatingsSummary
from pipeline.ratings.pool import PoolSummary
from pipeline.reports.rating_tables import pool_table, ratings_table
from pipeline.reports.tables import described, flattened


def summary_text(summary: Any, whole: bool = False) -> str:
    """whole: every field, instead of the short form."""
    if isinstance(summary, RatingsSummary):
        return ratings_table(summary)
    if isinstance(summary, PoolSummary):
        return pool_table(summary)
    if hasattr(summary, "lines") and not whole:
        return "\n".join(summary.lines())
    return described({name.replace("_", " "): text for name, text in flattened(plain(summary)) if text})


def summary_json(summary: Any) -> str:
    return json.dumps(plain(summary), indent=2)


def plain(value: Any) -> Any:
    """A summary, or a value in it, as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") else value  # of a numpy scalar
