"""The ablation benchmark: designs, plans, and three small arms from empty folders to a table."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from benchmarks import ablate, loop_clock
from benchmarks.ablate import effects, plackett_burman, spare_runs
from benchmarks.strength import changed_preset
from pipeline.commands import COMMANDS
from pipeline.errors import UsageError
from pipeline.presets import make_config
from pipeline.progress import SILENT
from pipeline.run.store.base import Busy
from tests.chaos.workshop import Workshop
from tests.helpers import make_champion

PLANS = sorted((Path(ablate.__file__).parent / "plans").glob("*.yaml"))

SMALL = """
preset: tictactoe
minutes: 0.2
readouts: 4
opponents: 2
games: 8
changes:
  init: {network_size: b1c8}
  selfplay: {games: 20, readouts: 4, backend: torch} # no engines are measured first
  gather: {chunks_to_make: 1}
  train: {epochs: 1}
  evaluate: {games: 4, readouts: 2, threshold: 0.01}
arms:
  base: {}
  base again: {seed: 1}
  no ownership: {train: {ownership_weight: 0}}
"""


@pytest.mark.parametrize("factors", range(1, 45))
def test_a_design_has_every_pair_of_factors_in_all_four_ways_equally_often(factors: int) -> None:
    runs = plackett_burman(factors)
    assert not runs[-1].any() and len(runs) % 4 == 0 and len(runs) >= factors + 4
    signs = np.where(runs, 1, -1)
    np.testing.assert_array_equal(signs.T @ signs, len(runs) * np.eye(factors, dtype=int))
    np.testing.assert_array_equal(signs.sum(axis=0), 0)


def test_the_design_of_twelve_is_the_published_one() -> None:
    # Plackett and Burman 1946, N = 12, first row + + - + + + - - - + -; ours is its cycle, mirrored or not.
    published = "++-+++---+-"
    rows = {"".join("+" if on else "-" for on in row) for row in plackett_burman(8)}
    cycles = {(published[i:] + published[:i])[:8] for i in range(11)}
    mirrored = {(published[::-1][i:] + published[::-1][:i])[:8] for i in range(11)}
    assert rows - {"-" * 8} in (cycles, mirrored)


def test_too_many_factors_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 44"):
        plackett_burman(45)


def test_effects_are_found_and_their_bars_hold_what_they_promise() -> None:
    """Simulated: known effects, runs that differ by 40 Elo; an effect lies outside its bar once in twenty."""
    rng, names = np.random.default_rng(0), [f"f{i}" for i in range(18)]
    true = np.linspace(-100, 100, 18)
    design = plackett_burman(18)
    runs = [[name for name, on in zip(names, row, strict=True) if on] for row in design]
    inside, errors, lucks = 0, [], []
    for _ in range(500):
        found, luck = effects(runs, design @ true + rng.normal(0, 40, len(runs)))
        by_name = {one.name: one for one in found}
        inside += sum(
            abs(by_name[name].value - worth) <= by_name[name].error for name, worth in zip(names, true, strict=True)
        )
        errors += [by_name[name].value - worth for name, worth in zip(names, true, strict=True)]
        lucks.append(luck**2)
    assert inside / (500 * 18) == pytest.approx(0.95, abs=0.01)
    assert np.std(errors) == pytest.approx(2 * 40 / np.sqrt(24), rel=0.05)  # half of the runs against the other half
    assert np.sqrt(np.mean(lucks)) == pytest.approx(40, rel=0.05)


def test_arms_alone_are_told_from_repeated_ones() -> None:
    found, luck = effects([[], [], ["a"]], [10, 20, 115])
    assert (found[0].name, found[0].value) == ("a", pytest.approx(100))
    assert luck == pytest.approx(np.sqrt(50))
    assert found[0].error == pytest.approx(12.706 * np.sqrt(50 * 1.5), rel=1e-4)  # one degree of freedom
    assert spare_runs([[], ["a"]]) == 0
    assert spare_runs([[], [], ["a", "b"]]) == 0  # a can't be told from b


def test_everybody_meets_so_many_others() -> None:
    for runs in range(2, 40):
        pairs = ablate.meetings(runs, 6)
        met = [sum(i in pair for pair in pairs) for i in range(runs)]
        assert len(set(pairs)) == len(pairs) and min(met) >= min(6, runs - 1) - 1 and max(met) <= 6, runs


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_arm_of_every_plan_is_a_valid_recipe(path: Path, tmp_path: Path) -> None:
    plan = ablate.read_plan(path)
    assert spare_runs([arm.terms for arm in plan.arms]) >= 3
    for arm in plan.arms:
        sections = changed_preset(plan.preset, arm.changes, arm.seed)
        preset = tmp_path / "preset.yaml"
        preset.write_text(json.dumps(sections))
        for stage in sections:
            make_config(COMMANDS[stage].config, stage, str(preset))


def test_a_plan_is_read() -> None:
    plan = ablate.read_plan(write(SMALL))
    assert (plan.minutes, plan.readouts, plan.opponents, plan.games) == (0.2, 4, 2, 8)
    base, again, without = plan.arms
    assert (base.folder, base.seed, again.folder, again.seed) == ("base", 0, "base-again", 1)
    assert without.changes == (*base.changes, "train.ownership_weight=0")
    assert "selfplay.games=20" in base.changes
    assert (base.terms, again.terms, without.terms) == ((), (), ("no ownership",))


def test_a_plan_with_factors_is_read() -> None:
    text = """
preset: tictactoe
factors:
  a: {selfplay: {readouts: 4}}
  b: {train: {epochs: 2}}
arms:
  c: {train: {epochs: 3}}
  c again: {seed: 5, train: {epochs: 3}}
"""
    plan = ablate.read_plan(write(text))
    assert len(plan.arms) == 8 + 2 and len({arm.seed for arm in plan.arms[:8]}) == 8
    for arm in plan.arms[:8]:
        assert arm.changes == tuple(
            change for term, change in (("a", "selfplay.readouts=4"), ("b", "train.epochs=2")) if term in arm.terms
        )
    assert [arm.terms for arm in plan.arms[8:]] == [("c",), ("c",)]


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
        ("arms: {a: {}}\nmintes: 3", "wanted the lines"),
        ("arms: {a: {}}", "repeat an arm"),
        ("arms: {a: {}, b: {selfplay: {games: 3}}}", "repeat an arm"),
        ("arms: {a b: {}, a-b: {}}", "different names"),
        ("start: nowhere\narms: {a: {}, b: {}}", "start: nowhere is not a run with a champion"),
        ("arms: {a: {selfplay: 3}}", "arm a"),
        ("arms: {a: 3}", "arm a"),
        ("factors: {a: 3}", "factors"),
        ("factors: {a: {selfplay: {games: 3}}, b: {selfplay: {games: 4}}}", "two factors change selfplay.games"),
        ("factors: {a: {selfplay: {games: 3}}}\narms: {a: {}}", "different names"),
        ("factors: {a: {selfplay: {games: 3}}}\narms: {mixed 01: {}}", "different names"),
        ("factors: {a: {selfplay: {gaems: 3}}}", "no line 'gaems'"),
        ("games: 25\narms: {a: {}, b: {}}", "games: 25; wanted an even number"),
        ("games: 0\narms: {a: {}, b: {}}", "games: 0; wanted at least 2"),
        ("games: 400\narms: {a: {}, b: {}}", "games: 400; wanted at most 300"),
        ("readouts: -1\narms: {a: {}, b: {}}", "readouts: -1; wanted at least 0"),
        ("minutes: .nan\narms: {a: {}, b: {}}", "minutes: nan; wanted at least"),
        ("arms: {a: {}, b: {train: {epochs: 0}}, c: {}}", "arm b: train --epochs .* found 0; wanted at least 1"),
        ("arms: {a: {}, b: {init: {seed: 7}}, c: {}}", "arm b: --set 'init.seed=7': wanted --seed instead"),
    ],
)
def test_a_wrong_plan_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ablate.read_plan(write(text))


def test_a_missing_plan_is_named() -> None:
    assert ablate.main(["nowhere.yaml", "runs"]) == 2


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")


@pytest.fixture(scope="module")
def ablation(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small plan that was run from nothing."""
    folder = tmp_path_factory.mktemp("ablation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablate, "WARM_UP_SECONDS", 1.0)
        before = running()
        train_until_all_have_played(SMALL, folder, workshop)
    assert not running() - before
    return folder


def forked(workshop: Workshop) -> Callable[..., subprocess.Popen[bytes]]:
    """Stands for ablate.start: the loops are forked from a process that has imported everything."""

    def start(command: Sequence[str], cores: Sequence[int], **how: Any) -> subprocess.Popen[bytes]:
        return loop_clock.start(command, cores, **{**how, "env": {**how["env"], **workshop.loop_environment()}})

    return start


def train_until_all_have_played(text: str, folder: Path, workshop: Workshop) -> None:
    """Run a plan in folder/runs. On a busy machine its minutes may be over before an arm has played: more go on."""
    plan, minutes = folder / "plan.yaml", 0.1
    while True:
        write(text.replace("minutes: 0.2", f"minutes: {minutes}"), plan)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ablate, "start", forked(workshop))
            assert ablate.main([str(plan), str(folder / "runs")]) == 0
        rows = json.loads((folder / "runs/ablation.json").read_text())["runs"]
        if all(row["games"] > 0 for row in rows):
            return
        minutes *= 2
        assert minutes < 10, "not even one generation"


def running() -> set[psutil.Process]:
    """The processes that this one has started; other tests of its leave some, such as a cluster's."""
    return {one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE}


@LINUX
def test_arms_run_and_meet(ablation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ablation / "runs"
    found = json.loads((runs / "ablation.json").read_text())
    rows = {row["arm"]: row for row in found["runs"]}
    assert set(rows) == {"base", "base again", "no ownership"}
    assert sum(row["elo"] for row in rows.values()) == pytest.approx(0, abs=1e-6)
    assert all(row["minutes"] >= 0.1 and row["games"] >= 20 and row["error"] > 0 for row in rows.values())
    for name, row in rows.items():
        metas = sidecars(runs / name.replace(" ", "-"))
        assert row["games"] == sum(meta["games"] for meta in metas)
        assert row["evaluations"] == sum(meta["evaluations"] for meta in metas)
    assert all(row["at_minute"] <= row["minutes"] for row in rows.values())
    base = (rows["base"]["elo"] + rows["base again"]["elo"]) / 2
    (effect,) = found["effects"]
    assert (effect["name"], effect["value"]) == ("no ownership", pytest.approx(rows["no ownership"]["elo"] - base))
    matches = list((runs / "measured").glob("[a-z]*-vs-*"))
    assert len(matches) == 3  # everybody everybody
    assert ablate.main([str(ablation / "plan.yaml"), str(runs)]) == 0  # all is there
    assert "no ownership" in capsys.readouterr().out


def sidecars(run: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (run / "data" / "selfplay").rglob("*.meta")]


@LINUX
def test_arms_go_on_from_a_run(ablation: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablate, "WARM_UP_SECONDS", 0.0)
    start = ablation / "runs" / "base"
    before = (last_model(start), sidecars(start), (start / "saved_models/promotions.jsonl").read_bytes())
    train_until_all_have_played(f"start: {start}\n{SMALL}".replace("  no own", "  # "), Path.cwd(), workshop)
    assert (last_model(start), sidecars(start), (start / "saved_models/promotions.jsonl").read_bytes()) == before
    for row in json.loads(Path("runs/ablation.json").read_text())["runs"]:
        run = Path("runs", row["arm"].replace(" ", "-"))
        assert (run / "saved_models/promotions.jsonl").read_bytes().startswith(before[2])
        both = sum(meta["games"] for meta in sidecars(run))
        assert 0 < row["games"] == both - sum(meta["games"] for meta in before[1])
        assert (run / "saved_models" / before[0]).is_dir() and row["at_minute"] <= row["minutes"]


def last_model(run: Path) -> str:
    return max(path.name for path in (run / "saved_models").glob("0*"))


@LINUX
def test_a_copy_that_was_cut_off_is_made_again(ablation: Path, tmp_path: Path) -> None:
    start, arm = ablation / "runs" / "base", tmp_path / "arm"
    for rest in ("copy/data/selfplay", "copy/saved_models/000099-half", "data/selfplay/000099-half"):
        (arm / rest).mkdir(parents=True)
    ablate.branch(start, arm)
    assert sorted(path.name for path in arm.iterdir()) == ["data", "saved_models"]
    assert sidecars(arm) == sidecars(start) and not list(arm.rglob("*half"))
    (arm / "saved_models" / "000099-mine").mkdir()
    ablate.branch(start, arm)  # it has begun
    assert (arm / "saved_models" / "000099-mine").exists()


def test_shards_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_disk(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link", source, None, target)

    monkeypatch.setattr("os.link", other_disk)
    make_champion(tmp_path / "run/saved_models")
    shard = tmp_path / "run/data/selfplay/000000-a/w00/1.gz"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"games")
    ablate.branch(tmp_path / "run", tmp_path / "arm")
    assert (tmp_path / "arm" / shard.relative_to(tmp_path / "run")).read_bytes() == b"games"


@LINUX
def test_nothing_goes_on_from_a_run_that_is_going_on(ablation: Path, tmp_path: Path) -> None:
    start = ablation / "runs" / "base"
    loop = "exec 9>>data/.loop.lock; flock 9 || exit; echo held; read"  # as the loop holds it
    with subprocess.Popen(["bash", "-c", loop], cwd=start, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match="another process is at work on it"):
            ablate.branch(start, tmp_path / "arm")
        running.communicate(b"\n")
        ablate.branch(start, tmp_path / "arm")


def test_throw_away_runs_of_the_last_time_are_removed(tmp_path: Path) -> None:
    """They were begun with the changes of the plan's last arm, and the plan may have another one by now."""
    for name in ("throw-away-0", "base"):
        (tmp_path / name).mkdir()
    ablate.train_all(replace(ablate.read_plan(write(SMALL)), arms=()), tmp_path, SILENT)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["base"]


@LINUX
def test_an_arm_that_fails_stops_the_others(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablate, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(ablate, "start", forked(workshop))
    plan = write(SMALL.replace("{train: {ownership_weight: 0}}", "{selfplay: {gaems: 3}}").replace("0.2", "5"))
    assert ablate.main([str(plan), "runs"]) == 2
    assert "gaems" in capsys.readouterr().err
    # The first arm trains what isn't there; what ran beside it would go on for minutes.
    broken = SMALL.replace("  base: {}\n", "  bad: {train: {original_model: saved_models/none}}\n  base: {}\n")
    plan = write(broken.replace("0.2", "5"))
    before = running()
    assert ablate.main([str(plan), "runs"]) == 1
    assert "bad failed with exit code" in capsys.readouterr().err
    assert not running() - before
