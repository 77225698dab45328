"""The strength benchmark: its clock, what it asks for, and a whole small run from an empty folder to a curve."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import strength
from benchmarks.loop_clock import Clock, run_loop
from pipeline.errors import UsageError
from pipeline.recipes import read_preset

SMALL = [
    "init.network_size=b1c8", "selfplay.games=20", "selfplay.readouts=4", "gather.chunks_to_make=1", "train.epochs=1",
    "evaluate.games=4", "evaluate.readouts=2", "evaluate.threshold=0.01",
]  # fmt: skip


# The clock


def test_only_the_time_that_the_loop_ran_counts(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock.json", [(100.0, 160.0), (1000.0, 1030.0)])
    assert clock.seconds == 90
    assert [clock.seconds_at(moment) for moment in (50, 100, 130, 500, 1010, 5000)] == [0, 0, 30, 60, 70, 90]
    clock.write()
    assert Clock.read(clock.path) == clock
    assert Clock.read(tmp_path / "none.json").seconds == 0


@pytest.fixture
def loop(tmp_path: Path) -> list[str]:
    """A loop of two stages, one busy, one idle, over and over."""
    script = tmp_path / "main.py"
    script.write_text(
        "import sys, time\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n"
        "    if sys.argv[1] == 'rest': time.sleep(0.1)\n"
    )
    shell = tmp_path / "loop.sh"
    shell.write_text(
        f'trap "kill $! 2>/dev/null; exit 143" TERM\n'
        f'while true; do for stage in work rest; do "{sys.executable}" "{script}" $stage & wait $!; done; done\n'
    )
    return ["bash", str(shell)]


def test_the_loop_runs_for_its_time_and_its_stages_are_told_apart(tmp_path: Path, loop: list[str]) -> None:
    clock = Clock(tmp_path / "clock.json")
    assert run_loop(loop, ["work", "rest"], clock, seconds=5, cores=1) is None
    assert 5 <= clock.seconds < 7
    work, rest = clock.stages["work"], clock.stages["rest"]
    assert work.seconds > 1 and rest.seconds > 1 and work.cpu_seconds > 3 * rest.cpu_seconds
    assert work.seconds + rest.seconds < 8

    resumed = Clock.read(clock.path)
    begun = time.monotonic()
    assert run_loop(loop, ["work", "rest"], resumed, seconds=5, cores=1) is None  # it has had its time
    assert time.monotonic() - begun < 0.5
    assert run_loop(loop, ["work", "rest"], resumed, seconds=7, cores=1) is None
    assert len(resumed.stretches) == 2 and 7 <= resumed.seconds < 9


def test_a_loop_that_ends_says_how(tmp_path: Path) -> None:
    assert run_loop(["bash", "-c", "exit 3"], [], Clock(tmp_path / "clock.json"), seconds=60, cores=1) == 3


# What is asked for


def test_a_preset_is_changed_line_by_line() -> None:
    sections = strength.changed_preset(
        "go9-tour", ["selfplay.games=7", "train.learning_rate=[{until: 2, value: .1}]"], 5
    )
    assert sections["selfplay"]["games"] == 7 and sections["init"]["seed"] == 5
    assert sections["train"]["learning_rate"] == [{"until": 2, "value": 0.1}]
    assert sections["gather"] == read_preset("go9-tour")["gather"]


@pytest.mark.parametrize("change", ["games=7", "selfplay.games", "selfpaly.games=7", "selfplay.games=[1"])
def test_a_wrong_change_is_refused(change: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        strength.changed_preset("go9-tour", [change], 0)


def test_a_run_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    settings = strength.Settings("tictactoe", ("selfplay.games=7",), seed=0, cores=1)
    preset = strength.prepare(tmp_path / "run", settings)
    assert read_preset(str(preset))["selfplay"]["games"] == 7
    assert strength.prepare(tmp_path / "run", settings) == preset
    with pytest.raises(UsageError, match="begun with seed 0"):
        strength.prepare(tmp_path / "run", strength.Settings("tictactoe", ("selfplay.games=7",), seed=1, cores=1))
    with pytest.raises(UsageError, match="gaems"):
        strength.prepare(tmp_path / "other", strength.Settings("tictactoe", ("selfplay.gaems=7",), seed=0, cores=1))
    assert not (tmp_path / "other" / "strength.json").exists()


# A whole run


def test_from_an_empty_folder_to_a_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("MUGO_PYTHON", sys.executable)
    run = tmp_path / "run"
    measuring = ["--every", "1", "--games", "8", "--readouts", "4", "--verdict-games", "8", "--cores", "1"]
    changes = [word for change in SMALL for word in ("--set", change)]

    def command(minutes: str) -> list[str]:
        return ["run", str(run), "--preset", "tictactoe", "--minutes", minutes, *changes, *measuring]

    assert strength.main(command("0.4")) == 0
    found = json.loads((run / "curve.json").read_text())
    points = found["points"]
    assert len(points) >= 2, "not even one generation"
    for one, next_one in pairwise(points):
        assert one["minutes"] <= next_one["minutes"] <= found["minutes"] and one["games"] < next_one["games"]
        assert one["evaluations"] < next_one["evaluations"]
    assert points[0]["games"] == 0 and all(one["games"] % 20 == 0 for one in points)
    assert found["anchors"]["heuristic"] == 0 and found["anchors"]["random"] < 0
    assert [result["player"].rpartition("@")[2] for result in found["verdict"]] == ["4", "0", "800"]
    assert all(result["games"] >= 8 for result in found["verdict"])
    assert {"selfplay", "train"} <= set(found["profile"])
    assert "<svg" in (run / "curve.svg").read_text()
    assert "against heuristic" in capsys.readouterr().out

    played = sorted((run / "measured").rglob("games.jsonl"))
    before = [path.read_text() for path in played]
    assert strength.main(command("0.4")) == 0  # all is there: nothing is played again
    assert [path.read_text() for path in played] == before
    assert json.loads((run / "curve.json").read_text()) == found

    assert strength.main(["meet", str(run), str(run), "--games", "2"]) == 2  # a run can't meet itself
    assert strength.main(["plot", str(run), "--output", str(tmp_path / "both.png")]) == 0
    assert (tmp_path / "both.png").stat().st_size > 1000
