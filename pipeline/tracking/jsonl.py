"""points.jsonl: a line of JSON for each point, the file that one can tail and that pandas reads as it is.

    {"time": 1795917600.12, "train/step": 120, "train/loss/total": 1.234}
    {"time": 1795917600.12, "selfplay/games": 12, "selfplay/plies": {"edges": [5, 7, 9], "counts": [4, 8]}}

Lines appear whole as soon as points are added, but aren't synced: a power cut may lose the last ones. One process at a
time makes points anew; others may add lines at the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.run import atomic, layout
from pipeline.run.store.base import current_store
from pipeline.tracking.tracker import Histogram, Point, Sink

LONGEST = 2**18  # bytes of a line


class JsonLines(Sink):
    """last: x of the last line when the file was opened; 0 for none."""

    def __init__(self, folder: Path, axis: str, first: int | None) -> None:
        """Removes lines from first on, and what a kill left of a line."""
        self._path, self._added, self.last = folder / layout.POINTS, False, 0
        atomic.sweep(folder)
        if not atomic.exists(self._path):
            return
        if (x := self._last_x(axis)) is not None and (first is None or x < first):
            self.last = x
            return
        lines = atomic.read_bytes(self._path, "points").splitlines(keepends=True)
        found = [(x, line) for line in lines if (x := _x_of(line, axis)) is not None]
        kept = [(x, line) for x, line in found if first is None or x < first]
        self.last = kept[-1][0] if kept else 0
        if len(kept) < len(lines):
            with atomic.replacing(self._path, upload=False) as temporary:
                temporary.write_bytes(b"".join(line for _, line in kept))

    def _last_x(self, axis: str) -> int | None:
        """From the file's end alone, however long it is; None if a kill has left half of a line."""
        with open(self._path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
            lines = file.read().splitlines(keepends=True)
        return _x_of(lines[-1], axis) if lines else 0

    def add(self, point: Point) -> None:
        line: dict[str, Any] = {"time": round(point.time, 3), point.axis: point.x, **point.scalars}
        for name, histogram in point.histograms.items():
            line[name] = {"edges": histogram.edges.tolist(), "counts": histogram.counts.tolist()}
        data = json.dumps(line).encode() + b"\n"
        with atomic.os_errors(self._path):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(28, "No space left on device")
            finally:
                os.close(descriptor)
        self._added = True

    def close(self) -> None:
        if self._added:
            current_store().share(self._path)


def read_points(folder: Path, axis: str) -> Iterator[Point]:
    """The points of a track, in the order in which they came."""
    for line in atomic.read_bytes(folder / layout.POINTS, "points").splitlines(keepends=True):
        if (values := _point_in(line, axis)) is None:
            continue
        added, x = values.pop("time"), values.pop(axis)
        histograms = {
            name: Histogram(np.array(value["edges"], np.float64), np.array(value["counts"], np.int64))
            for name, value in values.items()
            if isinstance(value, dict)
        }
        scalars = {name: value for name, value in values.items() if name not in histograms}
        yield Point(added, axis, x, scalars, histograms)


def _x_of(line: bytes, axis: str) -> int | None:
    """None for a line that no point has, such as half of one."""
    point = _point_in(line, axis)
    return None if point is None else point[axis]


def _point_in(line: bytes, axis: str) -> dict[str, Any] | None:
    """The object in a line; None as _x_of."""
    try:
        found = json.loads(line)
        x = found[axis]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(x, int) and line.endswith(b"\n") else None
