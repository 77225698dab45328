"""A scratch file of examples: written in any order by several threads, read in the order of its rows.

It has no name, so a killed process leaves nothing behind. Its disk space is allocated at once, so that a full disk is
an error before the work and not a fault in the middle of it. A row holds all columns of one example side by side.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.storage import atomic


class Scratch:
    """num_rows examples with these columns, as in chunks.column_types, in a nameless file of that folder.

    Raises FileError if the disk has no room for it. Close it when done.
    """

    def __init__(self, folder: Path, num_rows: int, columns: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self._dtype = np.dtype([(name, dtype, shape) for name, (dtype, shape) in columns.items()])
        size = max(num_rows * self._dtype.itemsize, 1)
        with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self._map = mmap.mmap(file.fileno(), size)
        self._rows = np.frombuffer(self._map, np.uint8, num_rows * self._dtype.itemsize).reshape(num_rows, -1)

    def put(self, rows: NDArray[np.integer], columns: dict[str, NDArray[Any]]) -> None:
        """Write examples to these rows. Threads may do so at once, each to its own rows."""
        packed = np.empty(len(rows), self._dtype)
        for name, column in columns.items():
            packed[name] = column
        self._rows[rows] = packed.view(np.uint8).reshape(len(rows), -1)

    def get(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The columns of these rows, copied."""
        packed = np.ascontiguousarray(self._rows[start:stop]).view(self._dtype)[:, 0]
        return {name: np.ascontiguousarray(packed[name]) for name in self._dtype.names or ()}

    def move(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> None:
        """Copy whole rows."""
        self._rows[targets] = self._rows[sources]

    def close(self) -> None:
        del self._rows
        self._map.close()
