"""TensorBoard curves: event files without torch's or TensorFlow's writers, which take seconds to import.

A training has two folders of curves. TensorBoard draws equal tags as two lines of one chart:

    tag                     LOGDIR/MODEL/train: some steps      LOGDIR/MODEL/holdout: games never trained on
    loss/total policy …     each term of the loss               the same, before and after training
    accuracy/policy …       shares of correct predictions       the same
    entropy/policy          how undecided the network is        the same
    overfitting/value       (v − z)² on examples of the set,    the same on the hold-out: the network memorises values
                            before and after                    where the two lines part
    overfitting/value_gap                                       their difference after training
    step/learning_rate      and step/gradient_norm

Figures before and after training are of the saved weights, without symmetries, on about as many examples of both. Of
the set's, those are left out that were sampled for their surprise: the hold-out is sampled uniformly.
A point's x is the step counted over all trainings, so that successive models' curves join. A resumed or restarted
training writes its first step: TensorBoard drops older points from there on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pipeline.run import atomic, layout

GROUPS = ("accuracy", "entropy")  # suffixes of metrics that aren't losses
VALUE_ERROR = "value_mse"  # (v − z)², a metric of every value head


class Curves:
    """The curves in one folder of a training, which is made if needed. An added point is written at once.

    Doesn't use TensorBoard's own writer, whose thread reports a full disk as a traceback.
    Raises FileError if the disk is full or read-only.
    """

    def __init__(self, logs: Path | None, name: str, first_step: int) -> None:
        """The folder is logs/name, whose older points from first_step on no longer count. None: adds no points."""
        self._writer: Any = None
        if logs is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._folder = logs / name
        atomic.make_folder(self._folder)
        # One file per process, named as TensorBoard expects.
        file = f"events.out.tfevents.{time.time():017.6f}.{layout.this_host()}.{os.getpid()}"
        with atomic.os_errors(self._folder):
            self._writer = RecordWriter(open(self._folder / file, "ab"))  # noqa: SIM115  closed by close()
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, values: dict[str, float], step: int) -> None:
        """One point on each curve, by tag."""
        if self._writer is None or not values:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def _write(self, event: Any) -> None:
        with atomic.os_errors(self._folder):
            self._writer.write(event.SerializeToString())
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            with atomic.os_errors(self._folder):
                self._writer.close()


def tagged(metrics: dict[str, float]) -> dict[str, float]:
    """Metrics by tag, without the value error."""
    return {_tag(name): value for name, value in metrics.items() if name != VALUE_ERROR}


def _tag(name: str) -> str:
    what, _, kind = name.rpartition("_")
    return f"{kind}/{what}" if what and kind in GROUPS else f"loss/{name}"


def overfitting(metrics: dict[str, float]) -> dict[str, float]:
    """The value error by tag; {} if nothing was measured."""
    return {"overfitting/value": metrics[VALUE_ERROR]} if VALUE_ERROR in metrics else {}
