"""MLflow's file store in LOGDIR/mlflow: a run per process, in the experiment named after the folder of the MuGo run.

x is MLflow's step. MLflow has no histograms: NAME becomes its quantiles NAME_p10, NAME_p50 and NAME_p90. Sends nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from pipeline.run import layout
from pipeline.tracking.tracker import Histogram, Point, Sink

STORE = "mlflow"  # below logdir
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}


class MlflowRun(Sink):
    """Raises what MLflow raises."""

    takes_back = False

    def __init__(self, logdir: Path) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read at import
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self._metric = Metric
        self._client = MlflowClient(tracking_uri=(logdir / STORE).as_uri())
        name = layout.run_name(logdir)
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        run = self._client.create_run(experiment, run_name=f"{name}-{layout.this_host()}-{os.getpid()}")
        self._id = run.info.run_id

    def add(self, point: Point) -> None:
        scalars = dict(point.scalars)
        for name, histogram in point.histograms.items():
            scalars |= {f"{name}_{what}": quantile(histogram, share) for what, share in QUANTILES.items()}
        time = round(1000 * point.time)
        metrics = [self._metric(name, value, time, point.x) for name, value in scalars.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._id)


def quantile(histogram: Histogram, share: float) -> float:
    """Samples are taken to be spread evenly between two edges."""
    below = np.concatenate([[0], np.cumsum(histogram.counts)])
    return float(np.interp(share * below[-1], below, histogram.edges))
