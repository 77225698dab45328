"""TensorBoard curves: event files without torch's or TensorFlow's writers, which take seconds to import."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.records import atomic


class Curves:
    """Curves of one run, in one folder. A point's x is a step."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._folder = folder
        with atomic.os_errors(folder):
            self._writer = EventFileWriter(str(folder))

    def add(self, prefix: str, values: dict[str, float], step: int) -> None:
        """One point on each curve PREFIX/NAME. Raises FileError if the disk is full or read-only."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=f"{prefix}/{name}", simple_value=value) for name, value in values.items()]
        if points:
            with atomic.os_errors(self._folder):
                self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def close(self) -> None:
        with atomic.os_errors(self._folder):
            self._writer.close()


@contextmanager
def curves_of(folder: Path) -> Iterator[Curves]:
    """Make the folder if need be; points are on the disk at the end of the block. Raises FileError."""
    atomic.make_folder(folder)
    curves = Curves(folder)
    try:
        yield curves
    finally:
        curves.close()
