"""MLflow's file store, read back by its client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.progress import SILENT
from pipeline.tracking.options import TrackingOptions
from pipeline.tracking.tracker import Histogram, Tracker, close_shared


def test_a_loop_is_one_run(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from pipeline.tracking.mlflow import STORE

    logdir = tmp_path / "go9/data/logs"
    options = TrackingOptions(track="mlflow", logdir=logdir)
    with Tracker(options, Path(), "selfplay/w00", "selfplay/games", SILENT) as one:
        one.add({"draw_share": 0.25, "plies": np.arange(101)}, 7)
    with Tracker(options, Path(), "train/m", "train/step", SILENT) as one:
        one.add({"loss/total": 1.5, "a@b": 2}, 10, settled=False)
        one.add({"loss/total": 1.25}, 20, settled=False)
        one.settle()
        one.add({"loss/total": 1.0}, 30, settled=False)
    close_shared(pytest.fail)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(logdir / STORE).as_uri())
    experiment = client.get_experiment_by_name("go9")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.data.metrics["train/a_b"] == 2
    found = {
        name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
        for name in ("selfplay/draw_share", "train/loss/total", "selfplay/plies_p50")
    }
    assert found["selfplay/draw_share"] == [(7, 0.25)] and found["train/loss/total"] == [(10, 1.5), (20, 1.25)]
    assert found["selfplay/plies_p50"] == [(7, pytest.approx(50, abs=2))]


def test_quantiles() -> None:
    pytest.importorskip("mlflow")
    from pipeline.tracking.mlflow import quantile

    histogram = Histogram(np.array([0.0, 10.0, 20.0]), np.array([1, 3]))
    assert [quantile(histogram, share) for share in (0.0, 0.25, 0.625, 1.0)] == [0, 10, 15, 20]
