"""Twenty faults and more for every stage. The long mode has hundreds: python -m tests.chaos --kills 500.

A failure names stage and seed: python -m tests.chaos --stages STAGE --seed SEED repeats it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.chaos import scenarios
from tests.chaos.faults import Fault
from tests.chaos.stages import STAGES, make_base, outcome
from tests.chaos.trials import Bench, Trial
from tests.chaos.workshop import Workshop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for processes as Linux has them")
FAULTS = 12
SEED = 1_000  # of the first trial here; the long mode begins at 1


@pytest.fixture(scope="module")
def bench(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """In a folder whose name has blanks and letters that are not English."""
    return Bench(workshop, tmp_path_factory.mktemp("chaos") / "ein Lauf, größer 名")


def whole(trial: Trial) -> Trial:
    assert not trial.failures, "\n".join([f"{trial.stage}, seed {trial.seed}: {trial.faults}", *trial.failures])
    assert (trial.lost, trial.twice, trial.wrong) == (0, 0, 0)
    return trial


@pytest.mark.parametrize("stage", STAGES)
def test_faults_at_any_call_and_any_moment(bench: Bench, stage: str) -> None:
    struck: list[str] = []
    seed = SEED
    while len(struck) < FAULTS:
        trial = whole(bench.disturb(stage, seed, faults=6, thorough=False))
        struck += trial.faults
        seed += 1
    assert sum(fault.startswith("kill") for fault in struck) >= FAULTS // 4


def test_the_loop(bench: Bench) -> None:
    seed = SEED
    while not whole(bench.disturb_loop(seed, faults=3)).faults:  # the loop may end before the signal comes
        seed += 1


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", scenarios.ON_STAGES)
def test_disks_machines_and_clocks(bench: Bench, name: str, stage: str) -> None:
    if list(scenarios.ON_STAGES).index(name) % 2 != list(STAGES).index(stage) % 2:
        pytest.skip("in the long mode")
    try:
        whole(scenarios.ON_STAGES[name](bench, stage, SEED))
    except scenarios.Skip as reason:
        pytest.skip(str(reason))


def test_eight_workers_of_whom_half_are_stopped(bench: Bench) -> None:
    assert whole(scenarios.eight_workers(bench, "selfplay", SEED + 1)).faults


@pytest.mark.parametrize("pattern", scenarios.KINDS)
def test_damaged_files(bench: Bench, pattern: str) -> None:
    whole(scenarios.damaged_file(bench, pattern, SEED + 1))


# That the harness can fail: what it looks for is found


def test_it_notices_a_file_that_is_gone_a_game_played_twice_and_another_outcome(bench: Bench) -> None:
    reference = bench.reference("selfplay")
    trial = Trial("selfplay", 0)
    with bench.copy_of("selfplay", "broken") as folder:
        done = bench.workshop.run(reference.stage.arguments, folder, Fault())
        next(folder.glob("data/selfplay/*/*/*.gz")).unlink()
        bench.check_kept({}, {}, done, trial)
        assert trial.lost == 1
        bench.verify_after_fault(folder, trial, repair=False)
        assert any("no such file" in text for text in trial.failures)
        trial = Trial("selfplay", 0)
        bench.finish(reference, folder, trial)
        assert trial.failures


def test_it_notices_a_wrong_exit_code_a_traceback_and_silence(bench: Bench, tmp_path: Path) -> None:
    done = bench.workshop.run(("selfplay",), tmp_path)
    assert done.code == 1 and done.said.startswith("mugo selfplay: ")
    for change, says in (({"code": 3}, "exit code 3"), ({"said": "Traceback"}, "Traceback"), ({"said": "x"}, "why")):
        trial = Trial("selfplay", 0)
        bench.check_end(type(done)(**{**vars(done), **change}), "none", "it", trial)
        assert says in "".join(trial.failures)


def test_every_point_of_a_commit_is_reached(bench: Bench) -> None:
    """The log of an undisturbed run has a line for every call, and a fault at a point strikes there."""
    stage = STAGES["gather"]
    reference = bench.reference("gather")
    with bench.copy_of("gather", "points") as folder:
        done = bench.workshop.run(stage.arguments, folder, Fault())
        assert {"open", "write", "fsync", "rename"} <= {name for _, name, _ in done.log}
        assert outcome(folder) == reference.outcome
    renamed = next(number for number, name, _ in done.log if name == "rename")
    for phase, is_there in ((0, False), (2, True)):
        with bench.copy_of("gather", f"point-{phase}") as folder:
            done = bench.workshop.run(stage.arguments, folder, Fault("kill", 3 * renamed + phase))
            assert done.code == -9
            assert bool(list(folder.glob("data/training_data/*.h5"))) == is_there


def test_the_base_of_a_stage_is_made_by_the_stages_before(bench: Bench, tmp_path: Path) -> None:
    folder = make_base(STAGES["gather"], tmp_path / "base", bench.workshop)
    assert list(folder.glob("data/selfplay/*/*/*.meta")) and not (folder / "data/training_data").exists()
