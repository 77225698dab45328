"""TensorBoard's event files, without torch's or TensorFlow's writers, which take seconds to import.

A file per tracker, in the track's folder, which TensorBoard shows as a run. The first event of a track whose points are
made anew says from where on: TensorBoard drops the older points from there. It does so at every point that comes behind
one with a larger x, too. So a track whose points come in another order, such as an older model's evaluation, is then
written again in order, from points.jsonl.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pipeline.run import atomic, layout
from pipeline.run.store.base import current_store
from pipeline.tracking.jsonl import read_points
from pipeline.tracking.tracker import Histogram, Point, Sink


class EventFile(Sink):
    """A point is on disk when it was added. The file appears with the first point, or at once if points are anew.

    Doesn't use TensorBoard's own writer, whose thread reports a full disk as a traceback.
    """

    def __init__(self, folder: Path, axis: str, first: int | None, last: int) -> None:
        """first: as in Tracker; last: x of the track's last point, 0 if there is none."""
        self._folder = self._path = folder
        self._axis, self._last = axis, last
        self._writer: Any = None
        if first is not None:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog

            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=first, session_log=start))

    def add(self, point: Point) -> None:
        if point.x >= self._last:
            self._last = point.x
            self._write_point(point)
            return
        with atomic.os_errors(self._folder):
            older = list(self._folder.glob(f"{layout.EVENTS}*"))
            self.close()
            self._writer = None
            for one in sorted(read_points(self._folder, self._axis), key=lambda one: one.x):
                self._write_point(one)
                self._last = one.x
            for path in older:
                path.unlink(missing_ok=True)

    def _write_point(self, point: Point) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in point.scalars.items()]
        values += [Summary.Value(tag=name, histo=_proto(one)) for name, one in point.histograms.items()]
        self._write(Event(wall_time=point.time, step=point.x, summary=Summary(value=values)))

    def _write(self, event: Any) -> None:
        with atomic.os_errors(self._folder):
            if self._writer is None:
                self._open()
            self._writer.write(event.SerializeToString())
            self._writer.flush()

    def _open(self) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        # One file per tracker, named as TensorBoard expects.
        self._path = self._folder / f"{layout.EVENTS}{time.time():017.6f}.{layout.this_host()}.{os.getpid()}"
        self._writer = RecordWriter(open(self._path, "ab"))  # noqa: SIM115  closed by close()
        self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    def close(self) -> None:
        if self._writer is not None:
            with atomic.os_errors(self._folder):
                self._writer.close()
            current_store().share(self._path)


def _proto(histogram: Histogram) -> Any:
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    edges, counts = histogram.edges, histogram.counts
    middles = (edges[:-1] + edges[1:]) / 2
    return HistogramProto(
        min=edges[0],
        max=edges[-1],
        num=counts.sum(),
        sum=(middles * counts).sum(),
        sum_squares=(middles**2 * counts).sum(),
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )
