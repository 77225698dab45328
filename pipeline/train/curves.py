"""TensorBoard curves: event files without torch's or TensorFlow's writers, which take seconds to import.

A training has two folders of curves, which TensorBoard shows as two lines of one chart where their tags are equal:

    LOGDIR/MODEL/train      of single steps, now and then       LOGDIR/MODEL/holdout   of games never trained on
    loss/total policy …     each term of the loss               the same, before and after
    accuracy/policy …       shares that were right              the same
    entropy/policy          how undecided the network is        the same
    overfitting/value       (v − z)² on examples of the set,    the same on the hold-out: where this line leaves the
                            before and after                    other, the value is learned by heart
    overfitting/value_gap                                       by how much, after
    step/learning_rate      and step/gradient_norm

What is measured before and after is the model that is exported, without symmetries, on equally many examples of both.
A point's x is the step counted over all trainings, so that the charts of one model after the other join. A training
that goes on after a kill, or starts over, says from which step on: TensorBoard leaves out the older points from there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pipeline.run import atomic, layout

GROUPS = ("accuracy", "entropy")  # of metrics that aren't losses, by the end of their names
VALUE_ERROR = "value_mse"  # the metric that overfitting is seen by, whatever the value head


class Curves:
    """The curves in one folder, which is made if need be; a point is in the file once it was added.

    Writes event files by itself: TensorBoard's own writer has a thread, which tells a full disk by a traceback.
    Raises FileError if the disk is full or read-only.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        """first_step: points at this step and later ones that stand in the folder don't count any more."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._folder = folder
        atomic.make_folder(folder)
        # Each process its own file, by the names that TensorBoard looks for.
        name = f"events.out.tfevents.{time.time():017.6f}.{layout.this_host()}.{os.getpid()}"
        with atomic.os_errors(folder):
            self._writer = RecordWriter(open(folder / name, "ab"))  # noqa: SIM115  closed by close()
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, values: dict[str, float], step: int) -> None:
        """One point on each curve, by tag."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        if points:
            self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def _write(self, event: Any) -> None:
        with atomic.os_errors(self._folder):
            self._writer.write(event.SerializeToString())
            self._writer.flush()

    def close(self) -> None:
        with atomic.os_errors(self._folder):
            self._writer.close()


def tagged(metrics: dict[str, float]) -> dict[str, float]:
    """Metrics of the losses by their tags."""
    return {_tag(name): value for name, value in metrics.items() if name != VALUE_ERROR}


def _tag(name: str) -> str:
    what, _, kind = name.rpartition("_")
    return f"{kind}/{what}" if kind in GROUPS else f"loss/{name}"


def overfitting(metrics: dict[str, float]) -> dict[str, float]:
    """The value's error by its tag; {} where nothing was measured."""
    return {"overfitting/value": metrics[VALUE_ERROR]} if VALUE_ERROR in metrics else {}
