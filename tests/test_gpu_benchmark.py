"""benchmarks/gpu.py, its table and its plan, on a processor and in small; no GPU is needed."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.gpu import Part, run_plan
from pipeline.machine import available_cores

TINY = ["--boards", "5", "--sizes", "b1c8", "--batches", "8", "--threads", "1", "--readouts", "4", "--seconds", "0.4"]


@pytest.fixture
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.bench.command.GATHERED_POSITIONS", 5_000)


@pytest.mark.usefixtures("few_positions")
def test_a_line_for_each_board_network_and_batch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cores = available_cores()
    gpu.main(["table", *TINY, "--device", "cpu"])
    gpu.main(["table", *TINY, "--device", "cpu", "--stages", "selfplay"])
    head, row, _, alone = capsys.readouterr().out.splitlines()
    assert head.split() == ["board", "network", "batch", "network/s", "self-play/s", "share", "train/s", "share"]
    assert re.fullmatch(r" *5x5 +b1c8 +8 +[\d,]+ +[\d,]+ +\d\.\d\d!? +[\d,]+ +\d\.\d\d!? *", row), row
    assert re.fullmatch(r" *5x5 +b1c8 +8 +[\d,]+ +[\d,]+ +\d\.\d\d!? +- +- *", alone), alone
    assert available_cores() == cores


@pytest.mark.parametrize("arguments", [["table", *TINY], ["plan", "anywhere"]])
def test_without_a_gpu_it_is_one_line(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device; --device cpu"):
        gpu.main(arguments)
    assert not list(tmp_path.iterdir())


def python(name: str, code: str, seconds: float = 1.0, **how: object) -> Part:
    return Part(name, [sys.executable, "-c", code], seconds, **how)


def outcomes(folder: Path) -> dict[str, str]:
    return {name: one["state"] for name, one in json.loads((folder / gpu.RECORD).read_text()).items()}


def test_a_plan_runs_what_fits_and_says_what_it_did_not_reach(tmp_path: Path) -> None:
    work = "import time\nwhile time.process_time() < 0.8: pass\nprint('worked')"
    hang = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    plan = [
        python("works", work, 9),
        python("fails", "raise SystemExit('no')", 9),
        python("cannot", "print('never')", missing="not installed: jax"),
        python("hangs", hang, 2),
        python("late", "print('on time')", 9),
        python("last", "print('never')", 60),
    ]
    said: list[str] = []
    begun = time.monotonic()
    run_plan(plan, tmp_path / "plan", (50 + gpu.MARGIN) / 60, said.append)
    assert time.monotonic() - begun < 50
    found = outcomes(tmp_path / "plan")
    assert found["works"] == gpu.DONE and found["fails"] == "failed with exit code 1"
    assert found["cannot"] == "not installed: jax"
    assert re.fullmatch(r"stopped after \d+ s", found["hangs"])
    assert found["last"].startswith(f"{gpu.NOT_REACHED}: ") and found["last"].endswith("s left, 60 wanted")
    assert json.loads((tmp_path / "plan" / gpu.RECORD).read_text())["works"]["cores"] > 0.2 / available_cores()
    report = (tmp_path / "plan" / gpu.REPORT).read_text()
    for wanted in ("| works | done |", "\nworked\n", "\nno\n", "\nbegun\n", "| cannot | not installed: jax |"):
        assert wanted in report, report
    assert "never" not in report.replace("print('never')", "")


def test_the_same_plan_again_goes_on(tmp_path: Path) -> None:
    counted = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    plan = [python("once", counted), python("again", f"{counted}; raise SystemExit(3)")]
    for _ in range(2):
        run_plan(plan, tmp_path / "plan", 1, lambda _: None)
    assert outcomes(tmp_path / "plan") == {"once": gpu.DONE, "again": "failed with exit code 3"}
    assert (tmp_path / "count").read_text() == "xxx"


def test_single_parts_leave_the_outcomes_of_the_others(tmp_path: Path) -> None:
    """Except of the matches of a run that goes on: its champion is another one then."""
    folder, counted = tmp_path / "plan", f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    loop = Part("loop", [sys.executable, "-c", "raise SystemExit(1)", "{minutes}"], 1, run=tmp_path / "run")
    match = Part("match", [sys.executable, "-c", counted], 1, judges=True)
    plan = [python("table", counted), loop, match]
    assert not run_plan(plan, folder, 1, lambda _: None)
    assert run_plan(plan, folder, 1, lambda _: None, only=["table"])
    assert outcomes(folder) == {"table": gpu.DONE, "loop": "failed with exit code 1", "match": gpu.DONE}
    assert "| match | done |" in (folder / gpu.REPORT).read_text()
    assert not run_plan(plan, folder, 1, lambda _: None, only=["loop"])
    assert outcomes(folder)["match"] == gpu.NOT_REACHED
    run_plan(plan, folder, 1, lambda _: None)
    assert (tmp_path / "count").read_text() == "xxx" and outcomes(folder)["match"] == gpu.DONE


def test_a_loop_gets_the_time_that_the_others_leave(tmp_path: Path) -> None:
    loop = Part("loop", [sys.executable, "-c", "import sys; print(sys.argv[1])", "{minutes}"], 5, run=tmp_path / "run")
    run_plan([loop, python("after", "pass", 60)], tmp_path / "plan", 10, lambda _: None)
    minutes = float((tmp_path / "plan" / "loop.log").read_text().splitlines()[1])
    assert 60 * minutes == pytest.approx((600 - 60 - 2 * gpu.MARGIN) * (1 - gpu.LAST_GENERATION), abs=3)


def test_a_loops_pauses_and_commands(tmp_path: Path) -> None:
    from pipeline.loop.command import CommandTime, Kept
    from pipeline.run import layout
    from tests.helpers import make_model

    run = tmp_path / "run"
    (run / "data").mkdir(parents=True)
    kept = Kept(seconds=100.0, commands={"selfplay": CommandTime(seconds=75.0), "train": CommandTime(seconds=5.0)})
    (run / layout.LOOP_FILE).write_text(kept.model_dump_json())
    for number, (minute, seconds) in enumerate([(0, None), (1, 10.0), (2, 20.0), (4, 30.0)]):
        path = make_model(run / layout.SAVED_MODELS, number)
        info = json.loads((path / "model.json").read_text())
        info |= {"created": f"2026-11-29T12:{minute:02d}:00+00:00", "manifest": {"seconds": seconds}}
        (path / "model.json").write_text(json.dumps(info))
    assert gpu.loop_lines(run) == [
        "selfplay                  75.0 s  75.0%",
        "train                      5.0 s   5.0%",
        "3 trainings; between two of them 65 s in the median (goal: 2 s)",  # 40 and 90 s
    ]


def test_a_dry_run_shows_every_command_and_needs_no_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gpu.main(["plan", str(tmp_path / "there"), "--dry-run"])
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == [*gpu.SECONDS, "in"]
    assert text.splitlines()[-1].split() == ["in", "all", "720", "s", "of", "720"]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("few_positions")
def test_a_part_of_the_real_plan(tmp_path: Path) -> None:
    gpu.main(["plan", str(tmp_path), "--device", "cpu", "--parts", "mugo", "--minutes", "2"])
    found = outcomes(tmp_path)
    assert found.pop("mugo") == gpu.DONE and set(found.values()) == {gpu.NOT_REACHED}
    assert "network/s" in (tmp_path / gpu.REPORT).read_text()
