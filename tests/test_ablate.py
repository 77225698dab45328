"""The ablation benchmark: plans, and three small arms from empty folders to a table."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from benchmarks import ablate
from benchmarks.strength import changed_preset
from pipeline.config import CONFIGS
from pipeline.errors import UsageError
from pipeline.recipes import make_config

PLANS = sorted((Path(ablate.__file__).parent / "plans").glob("*.yaml"))

SMALL = """
preset: tictactoe
minutes: 0.2
readouts: 4
games: 8
references: [base, base again]
changes:
  init: {network_size: b1c8}
  selfplay: {games: 20, readouts: 4}
  gather: {chunks_to_make: 1}
  train: {epochs: 1}
  evaluate: {games: 4, readouts: 2, threshold: 0.01}
arms:
  base: {}
  base again: {seed: 1}
  no ownership: {train: {ownership_weight: 0}}
"""


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_arm_of_every_plan_is_a_valid_recipe(path: Path, tmp_path: Path) -> None:
    plan = ablate.read_plan(path)
    assert len(plan.references) >= 2
    for arm in plan.arms:
        sections = changed_preset(plan.preset, arm.changes, arm.seed)
        preset = tmp_path / "preset.yaml"
        preset.write_text(json.dumps(sections))
        for stage in sections:
            make_config(CONFIGS[stage], stage, str(preset))


def test_a_plan_is_read() -> None:
    plan = ablate.read_plan(write(SMALL))
    assert (plan.minutes, plan.readouts, plan.games, plan.references) == (0.2, 4, 8, ("base", "base-again"))
    base, again, without = plan.arms
    assert (base.folder, base.seed, again.folder, again.seed) == ("base", 0, "base-again", 1)
    assert without.changes == (*base.changes, "train.ownership_weight=0")
    assert "selfplay.games=20" in base.changes


def write(text: str, path: Path | None = None) -> Path:
    path = path or Path("plan.yaml")
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arms: [", "not readable"),
        ("preset: go9", "wanted the lines"),
        ("arms: {a: {}}\nreferences: [a]\nmintes: 3", "wanted the lines"),
        ("arms: {a: {}}\nreferences: [b]", "references among them"),
        ("arms: {a: {}}", "references among them"),
        ("arms: {a b: {}, a-b: {}}\nreferences: [a b]", "names of their own"),
        ("arms: {a: {selfplay: 3}}\nreferences: [a]", "arm a"),
        ("arms: {a: 3}\nreferences: [a]", "arm a"),
    ],
)
def test_a_wrong_plan_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ablate.read_plan(write(text))


def test_a_missing_plan_is_named() -> None:
    assert ablate.main(["nowhere.yaml", "runs"]) == 2


def test_arms_run_and_meet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablate, "WARM_UP_SECONDS", 1.0)
    plan = write(SMALL)
    assert ablate.main([str(plan), "runs"]) == 0
    rows = {row["arm"]: row for row in json.loads(Path("runs/ablation.json").read_text())["rows"]}
    assert set(rows) == {"base", "base again", "no ownership"}
    assert sum(rows[name]["elo"] for name in ("base", "base again")) == pytest.approx(0, abs=1e-6)
    assert all(row["minutes"] >= 0.2 and row["games"] >= 20 and row["error"] > 0 for row in rows.values())
    assert all(row["at_minute"] <= row["minutes"] for row in rows.values())
    found = rows["base"]["error"]
    assert rows["base again"]["error"] == pytest.approx(found)  # half the distance between the two, both ways
    assert "no ownership" in capsys.readouterr().out
    matches = list(Path("runs/measured").glob("[a-z]*-vs-*"))
    assert len(matches) == 3  # each arm with each reference
    assert not [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    assert ablate.main([str(plan), "runs"]) == 0  # all is there


def test_an_arm_that_fails_stops_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablate, "WARM_UP_SECONDS", 0.0)
    plan = write(SMALL.replace("{train: {ownership_weight: 0}}", "{selfplay: {gaems: 3}}").replace("0.2", "5"))
    assert ablate.main([str(plan), "runs"]) == 2
    assert "gaems" in capsys.readouterr().err
    # The first arm can't shrink its network; what ran beside it would go on for minutes.
    plan = write(SMALL.replace("  base: {}\n", "  base: {train: {network_size: b1c4}}\n").replace("0.2", "5"))
    assert ablate.main([str(plan), "runs"]) == 1
    assert "base failed with exit code" in capsys.readouterr().err
    assert not [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
