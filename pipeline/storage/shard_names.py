"""Names for the shards that this process writes: a folder's names sort by when they were written."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from pipeline.storage import layout


class ShardNames:
    """The next name in each folder: times strictly increase, though the clock may step back. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[Path, layout.ShardName] = {}

    def next(self, folder: Path) -> layout.ShardName:
        """Raises OSError if the folder can't be listed."""
        with self._lock:
            last = self._last.get(folder)
            if last is None:  # an earlier process may have written here under a clock that was ahead
                found = [name for name in map(layout.parse_shard_name, os.listdir(folder)) if name]
                last = layout.ShardName(max(found).time, 0) if found else None
            time = datetime.now(UTC)
            if last is not None:
                time = max(time, last.time + timedelta(microseconds=1))
            name = layout.ShardName(time, last.count + 1 if last else 1)
            self._last[folder] = name
            return name


NAMES = ShardNames()
