"""Weights & Biases: a run per process, in the group named after the folder of the MuGo run.

Offline unless asked for: the files lie in LOGDIR/wandb/, and ``wandb sync`` sends them. Nothing else is sent either: no
error reports, code, or facts about the machine. x is a value of each point, e.g. train/step, and the charts' x.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.run import layout
from pipeline.tracking.tracker import Point, Sink

PROJECT = "mugo"


class WandbRun(Sink):
    """Raises what wandb raises, e.g. for missing credentials online."""

    takes_back = False

    def __init__(self, logdir: Path, online: bool) -> None:
        if not online:
            os.environ["WANDB_ERROR_REPORTING"] = "false"  # read at import
        import wandb

        self._wandb: Any = wandb
        group = layout.run_name(logdir)
        self._run = wandb.init(
            dir=logdir,
            project=PROJECT,
            group=group,
            name=f"{group}-{layout.this_host()}-{os.getpid()}",
            mode="online" if online else "offline",
            reinit="create_new",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
            ),
        )
        self._axes: set[str] = set()

    def add(self, point: Point) -> None:
        if point.axis not in self._axes:
            self._axes.add(point.axis)
            self._run.define_metric(point.axis)
            self._run.define_metric(f"{point.axis.partition('/')[0]}/*", step_metric=point.axis)
        values: dict[str, Any] = {point.axis: point.x, **point.scalars}
        for name, one in point.histograms.items():
            counts: Any = np.asarray(one.counts)
            values[name] = self._wandb.Histogram(np_histogram=(counts, one.edges))
        self._run.log(values)

    def close(self) -> None:
        self._run.finish()
