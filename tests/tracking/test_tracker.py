"""The tracker: the same points in every sink, none twice after a kill, and no error that stops a command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeline.progress import Progress
from pipeline.tracking import tracker as module
from pipeline.tracking.options import TrackingOptions
from pipeline.tracking.tracker import Point, Sink, Tracker, close_shared
from tests.helpers import Heard


class Kept(Sink):
    """A sink that can't take points back."""

    takes_back = False
    made: ClassVar[list[Kept]] = []

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.closed = False
        Kept.made.append(self)

    def add(self, point: Point) -> None:
        self.points.append(point)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_failed", set())
    monkeypatch.setattr(module, "_of_process", {})
    monkeypatch.setattr(Kept, "made", [])
    monkeypatch.setattr(module.SYSTEM, "since_last", dict)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for wandb, without its second of start-up."""

    def made(name: str, logdir: Path) -> Sink:
        key = name, logdir, os.getpid()
        if key not in module._of_process:
            module._of_process[key] = Kept()
        return module._of_process[key]

    monkeypatch.setattr(module, "_shared", made)


def lines(track: str = "train/m") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("data/logs", track, "points.jsonl").read_text().splitlines()]


def tracker(first: int | None = None, track: str = "none", progress: Progress | None = None) -> Tracker:
    beside = Path("data/training_data")
    return Tracker(TrackingOptions(track=track), beside, "train/m", "train/step", progress or Heard(), first)


def test_a_point_is_a_line_with_whole_names() -> None:
    with tracker() as one:
        one.add({"loss/total": 1.5, "against/a+b@3/score": 0.5}, 10)
        (line,) = lines()  # at once
        assert line["time"] > 1.7e9
        del line["time"]
        assert line == {"train/step": 10, "train/loss/total": 1.5, "train/against/a_b_3/score": 0.5}


def test_samples_become_a_histogram_and_what_is_not_finite_is_left_out() -> None:
    with tracker() as one:
        one.add({"plies": np.array([1, 1, 4, np.nan]), "none": np.zeros(0), "bad": float("nan")}, 1)
    (line,) = lines()
    counts, edges = line["train/plies"]["counts"], line["train/plies"]["edges"]
    assert (sum(counts), counts[0], counts[-1], edges[0], edges[-1]) == (3, 2, 1, 1.0, 4.0)
    assert set(line) == {"time", "train/step", "train/plies"}


def test_points_that_are_made_anew_replace_those_of_a_killed_process() -> None:
    with tracker() as one:
        for step in (10, 20, 30):
            one.add({"a": step}, step)
    with open("data/logs/train/m/points.jsonl", "a") as file:
        file.write('{"time": 3, "train/st')  # killed while it wrote
    with tracker(first=20) as again:
        assert again.last == 10
        again.add({"a": -20}, 20)
    assert [(line["train/step"], line["train/a"]) for line in lines()] == [(10, 10), (20, -20)]
    with tracker() as more:
        assert more.last == 20
        more.add({"a": 0}, 15)  # a watcher evaluates older models later
    assert [line["train/step"] for line in lines()] == [10, 20, 15]


@pytest.mark.usefixtures("shared")
def test_what_cannot_take_points_back_gets_them_once_they_are_settled() -> None:
    with tracker(track="wandb") as one:
        one.add({"a": 1}, 10, settled=False)
        (sink,) = Kept.made
        assert sink.points == [] and len(lines()) == 1
        one.settle()
        one.add({"a": 2}, 20, settled=False)  # and then it is killed
    close_shared()
    assert [point.x for point in sink.points] == [10] and sink.closed
    with tracker(first=11, track="wandb") as again:
        again.add({"a": 3}, 20)
    assert [point.x for one in Kept.made for point in one.points] == [10, 20]
    assert Kept.made[1].points[0].scalars["train/a"] == 3 == lines()[-1]["train/a"]


@pytest.mark.usefixtures("shared")
def test_the_commands_of_a_loop_share_one_run() -> None:
    for step in (1, 2):
        with tracker(track="mlflow") as one:
            one.add({"a": 0}, step)
        assert not Kept.made[0].closed
    close_shared()
    assert len(Kept.made) == 1 and Kept.made[0].closed and len(Kept.made[0].points) == 2


def test_a_sink_that_fails_is_one_warning_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Sink):
        def add(self, point: Point) -> None:
            raise RuntimeError("the package\nraised")

    monkeypatch.setattr(module, "_tensorboard", lambda *_: Failing())
    progress = Heard()
    with tracker(track="tensorboard", progress=progress) as one:
        one.add({"a": 1}, 1)
        one.add({"a": 2}, 2)
    said = "data/logs/train/m: the package raised; tensorboard gets no more numbers, all else goes on"
    assert progress.warned == [said] and len(lines()) == 2


@pytest.mark.usefixtures("shared")
def test_a_sink_of_the_process_that_fails_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sink: Kept, point: Point) -> None:
        raise OSError("no network")

    monkeypatch.setattr(Kept, "add", fail)
    progress = Heard()
    for step in (1, 2):
        with tracker(track="wandb", progress=progress) as one:
            one.add({"a": 1}, step)
    assert len(progress.warned) == 1 and "no network; wandb gets no more" in progress.warned[0]


def test_a_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").write_text("")
    progress = Heard()
    with tracker(track="tensorboard", progress=progress) as one:
        one.add({"a": 1}, 1)
    named = [text.partition(" gets")[0].rpartition("; ")[2] for text in progress.warned]
    assert named == ["points.jsonl", "tensorboard"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
def test_a_full_disk() -> None:
    Path("data/logs/train/m").mkdir(parents=True)
    progress = Heard()
    one = tracker(progress=progress)
    os.symlink("/dev/full", "data/logs/train/m/points.jsonl")
    one.add({"a": 1}, 1)
    one.add({"a": 1}, 2)
    one.close()
    assert len(progress.warned) == 1 and "disk is full" in progress.warned[0]


def test_a_forked_child_adds_nothing() -> None:
    with tracker() as one:
        one.add({"a": 1}, 1)
        child = os.fork()
        if not child:
            one.add({"a": 2}, 2)
            one.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        one.add({"a": 3}, 3)
    assert [line["train/step"] for line in lines()] == [1, 3]


def test_nothing_is_tracked_without_options() -> None:
    with Tracker(None, Path("x"), "train/m", "train/step", Heard()) as one:
        one.add({"a": 1}, 1)
        one.settle()
    assert os.listdir() == []


def test_the_machine_is_sampled_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([{"process_cpu_cores": 1.5}, {}])
    monkeypatch.setattr(module.SYSTEM, "since_last", lambda: next(found))
    with tracker() as one:
        one.add({"a": 1}, 1)
        one.add({"a": 1}, 2)
    assert [line.get("system/process_cpu_cores") for line in lines()] == [1.5, None]


def test_closing_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Sink):
        def close(self) -> None:
            raise RuntimeError("gone")

    monkeypatch.setitem(module._of_process, ("wandb", Path("x"), os.getpid()), Failing())
    warned: list[str] = []
    close_shared(warned.append)
    assert warned == ["x: wandb couldn't be closed: gone"]
