"""Event files, read back by TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.progress import SILENT
from pipeline.tracking.options import TrackingOptions
from pipeline.tracking.tracker import Tracker


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def test_scalars_and_histograms(tmp_path: Path) -> None:
    with Tracker(TrackingOptions(logdir=tmp_path), tmp_path, "selfplay/w00", "selfplay/games", SILENT) as tracker:
        tracker.add({"score": 0.25, "plies": np.array([5, 9, 9, 7])}, 3)
        found = read(tmp_path / "selfplay/w00")  # at once
    assert found.Tags()["scalars"] == ["selfplay/score"] and found.Tags()["histograms"] == ["selfplay/plies"]
    (point,) = found.Scalars("selfplay/score")
    assert (point.step, point.value) == (3, 0.25)
    (histogram,) = found.Histograms("selfplay/plies")
    value = histogram.histogram_value
    assert (value.min, value.max, value.num, value.bucket[-1]) == (5, 9, 4, 2)
    assert value.sum == pytest.approx(30, rel=0.01)


def test_the_next_process_replaces_points_or_adds_some(tmp_path: Path) -> None:
    """A loop's processes add a file each; TensorBoard reads them as one run."""
    for first, steps in ((0, (10, 20, 30)), (11, (20,)), (None, (15,))):
        with Tracker(TrackingOptions(logdir=tmp_path), tmp_path, "train/m", "train/step", SILENT, first) as tracker:
            for step in steps:
                tracker.add({"a": step}, step)
    assert [point.step for point in read(tmp_path / "train/m").Scalars("train/a")] == [10, 20, 15]
    assert len(list((tmp_path / "train/m").glob("events.out.tfevents.*"))) == 3


def test_a_command_that_tracks_nothing_leaves_no_file(tmp_path: Path) -> None:
    with Tracker(TrackingOptions(logdir=tmp_path), tmp_path, "selfplay/w00", "selfplay/games", SILENT):
        pass
    assert list((tmp_path / "selfplay/w00").iterdir()) == []
