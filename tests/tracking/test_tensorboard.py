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


def events(path: Path) -> list[Any]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return list(EventFileLoader(str(path)).Load())


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
    assert [point.step for point in read(tmp_path / "train/m").Scalars("train/a")] == [10, 15, 20]


@pytest.mark.parametrize("at_once", [True, False])
def test_points_out_of_order_are_written_again_in_order(tmp_path: Path, at_once: bool) -> None:
    """TensorBoard's own reader keeps none behind a smaller step."""
    folder = tmp_path / "evaluate"
    for steps in ((30, 20, 25, 10, 40),) if at_once else ((30,), (20, 25), (10,), (40,)):
        with Tracker(TrackingOptions(logdir=tmp_path), tmp_path, "evaluate", "evaluate/step", SILENT) as tracker:
            for step in steps:
                tracker.add({"elo": step / 2, "plies": np.array([step, step + 1])}, step)
    found = read(folder)
    wanted = [(step, step / 2) for step in (10, 20, 25, 30, 40)]
    assert [(point.step, point.value) for point in found.Scalars("evaluate/elo")] == wanted
    written = [event for path in sorted(folder.glob("events.*")) for event in events(path) if event.summary.value]
    assert [event.step for event in written] == [10, 20, 25, 30, 40]
    assert all(any(one.tag == "evaluate/plies" for one in event.summary.value) for event in written)


def test_a_command_that_tracks_nothing_leaves_no_file(tmp_path: Path) -> None:
    with Tracker(TrackingOptions(logdir=tmp_path), tmp_path, "selfplay/w00", "selfplay/games", SILENT):
        pass
    assert list((tmp_path / "selfplay/w00").iterdir()) == []
