"""``train``: the model and its records, resuming to the last bit after any stop, and refusals."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.methods.alphazero.losses import TERMS
from pipeline.players.loading import calibration_of
from pipeline.progress import Progress
from pipeline.reports.summaries import summary_text
from pipeline.run import layout
from pipeline.run.chunks import read_chunk, write_chunk
from pipeline.run.models import read_calibration, read_info, read_model, read_optimizer
from pipeline.run.priorities import Priorities, read_priorities
from pipeline.run.store.requests import Conflict
from pipeline.tracking import tracker
from pipeline.tracking.tracker import Point, Sink
from pipeline.train import command, trainer
from pipeline.train.checkpoint import Checkpoint, State
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init
from pipeline.train.prioritised_replay import Replay
from tests.chaos.workshop import Workshop
from tests.run.random_games import window_of
from tests.train.chunk_sets import write_set

GAME = parse_game("tictactoe")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an initial model and a set of chunks, to work in."""
    monkeypatch.chdir(tmp_path)
    init(InitConfig(game="tictactoe", network_size="b1c8"))
    write_set(Path("data/training_data"), GAME, [40, 40], holdout=20)
    return tmp_path


def config(**changes: object) -> TrainConfig:
    return TrainConfig(**{"epochs": 3, "batch_size": 16, "learning_rate": 0.01, **changes})


class Stopper(Progress):
    """Interrupts after a number of steps."""

    def __init__(self, after: int) -> None:
        self.after, self.steps, self.said, self.warned = after, 0, [], []

    def advance(self, count: int = 1) -> None:
        self.steps += count
        if self.steps == self.after:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    model = read_model(path)
    packed = read_calibration(model)
    positions = {} if packed is None else {"calibration positions": packed}
    return {**model.weights, **(read_optimizer(path) or {}), **positions}


def assert_equal_models(first: Path, second: Path) -> None:
    one, other = arrays_of(first), arrays_of(second)
    assert set(one) == set(other)
    different = [name for name in one if not np.array_equal(one[name], other[name])]
    assert different == []


def differ(first: Path, second: Path) -> bool:
    one, other = (arrays_of(path)["stem.conv.weight"] for path in (first, second))
    return not np.array_equal(one, other)


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".") and "lock" not in path.name)


def test_makes_the_next_model_and_records_where_it_came_from(folder: Path) -> None:
    summary = train(config())
    assert summary.model == Path("saved_models/000001-b1c8")
    info = read_info(summary.model)
    assert (info.number, info.game, info.parents) == (1, "tictactoe", ["000000-init"])
    assert info.manifest["chunk_set"] == summary.chunk_set == "000001-00000000"
    assert info.manifest["config"]["learning_rate"] == 0.01
    assert info.manifest["window"] == window_of(positions=80, holdout_positions=20)
    assert summary.steps == info.manifest["steps"] == info.manifest["total_steps"] == 15
    assert (summary.examples, summary.holdout_examples, summary.resumed_from_step) == (80, 20, 0)
    assert summary.total_samples == info.manifest["total_samples"] == 240
    assert summary.steps_cut == info.manifest["steps_cut"] == 0
    assert summary.loss > 0
    assert summary.samples_per_second > 0
    metrics = info.manifest["metrics"]
    for part in ("holdout_before", "holdout_after"):
        assert metrics[part]["total"] == summary.metrics[part]["total"] > 0
    gap = metrics["holdout_after"]["value_mse"] - metrics["set_after"]["value_mse"]
    assert summary.value_gap == info.manifest["value_gap"] == pytest.approx(gap)
    assert hidden(Path("saved_models")) == []
    before, after = (read_model(path).weights["stem.conv.weight"] for path in (summary.original_model, summary.model))
    assert np.abs(after - before).max() > 0.001


def curves() -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator("data/logs/train")
    accumulator.Reload()
    return accumulator


def lines(tag: str) -> list[tuple[int, float]]:
    """The points of points.jsonl."""
    found = map(json.loads, Path("data/logs/train/points.jsonl").read_text().splitlines())
    return [(line["train/step"], line[tag]) for line in found if tag in line]


def points(accumulator: Any, tag: str) -> list[tuple[int, float]]:
    return [(point.step, pytest.approx(point.value, rel=1e-5)) for point in accumulator.Scalars(tag)]


def test_what_is_tracked(folder: Path) -> None:
    """Only the terms of the loss are losses; the names say so for every method."""
    summary = train(config())
    metrics = read_info(summary.model).manifest["metrics"]
    found = curves()
    measured = {f"loss/{name}" for name in TERMS if name not in ("reply", "soft_policy")}  # of weight 0: not computed
    assert all(not {"reply", "soft_policy"} & set(of_one) for of_one in metrics.values())
    measured |= {"policy_accuracy", "value_sign_accuracy", "policy_entropy", "value_mse"}
    names = {*measured, *(f"{name}_holdout" for name in measured), "value_mse_set", "value_gap"}
    names |= {"gradient_norm", "learning_rate", "samples_per_second"}
    assert {name for name in found.Tags()["scalars"] if "system/" not in name} == {f"train/{name}" for name in names}
    assert [step for step, _ in points(found, "train/loss/total")] == [10, 15]
    losses = [(1, metrics["holdout_before"]["total"]), (15, metrics["holdout_after"]["total"])]
    assert losses == points(found, "train/loss/total_holdout")
    for part in ("set", "holdout"):
        wanted = [(1, metrics[f"{part}_before"]["value_mse"]), (15, metrics[f"{part}_after"]["value_mse"])]
        assert wanted == points(found, f"train/value_mse_{part}")
    assert (15, summary.value_gap) == points(found, "train/value_gap")[-1]
    for name in names:
        assert lines(f"train/{name}") == points(found, f"train/{name}")


@pytest.mark.parametrize(("saved_at", "epochs"), [(12, 5), (22, 5), (None, 5), (22, 2)])
def test_the_next_run_replaces_the_points_of_a_killed_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, saved_at: int | None, epochs: int
) -> None:
    """The run is killed after step 22 of 25; its last checkpoint is of step saved_at."""
    save = command._Training._save
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(command._Training, "_save", lambda run: save(run) if run._done.step == saved_at else None)
        train(config(epochs=5, checkpoint_seconds=0), Stopper(22))
    next_one = train(config(epochs=epochs))
    assert next_one.resumed_from_step == ((saved_at or 0) if epochs == 5 else 0)
    for tag, wanted in (
        ("train/loss/total", [10, 20, 25] if epochs == 5 else [10]),
        ("train/loss/total_holdout", [1, 25] if epochs == 5 else [1, 10]),
    ):
        found = points(curves(), tag)
        assert [step for step, _ in found] == wanted and lines(tag) == found


def test_all_trainings_are_one_track(folder: Path) -> None:
    """A training from an older model replaces the points of later ones."""
    settings, trained = {"epochs": 2}, []
    for number in (1, 2, 3):
        write_set(Path("data/training_data"), GAME, [80], holdout=20, number=number + 1)
        original = {"original_model": trained[0]} if number == 3 else {}
        trained.append(train(config(**settings, **original)).model)
        found = points(curves(), "train/loss/total_holdout")
        steps = [1, 10] if number == 1 else [1, 10, 11, 20]
        assert [step for step, _ in found] == steps and lines("train/loss/total_holdout") == found
    newest = read_info(trained[2]).manifest["metrics"]["holdout_after"]["total"]
    assert found[-1] == (20, newest)


def test_a_network_that_grows_goes_on_with_its_track(folder: Path) -> None:
    """Its optimiser begins anew, and counts its own steps."""
    for number, size in ((1, "b1c8"), (2, "b2c16")):
        write_set(Path("data/training_data"), GAME, [80], holdout=20, number=number + 1)
        model = train(config(epochs=2, network_size=size)).model
    assert read_optimizer(model)["step"].tolist() == [10]
    assert read_info(model).manifest["total_steps"] == 20
    found = points(curves(), "train/loss/total_holdout")
    assert [step for step, _ in found] == [1, 10, 11, 20] and lines("train/loss/total_holdout") == found


def test_a_run_killed_before_its_model_appears_leaves_no_second_points(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(command, "write_model", killed)
        train(config(checkpoint_seconds=0))
    train(config())
    for tag, wanted in (("train/loss/total_holdout", [1, 15]), ("train/loss/total", [10, 15])):
        found = points(curves(), tag)
        assert [step for step, _ in found] == wanted and lines(tag) == found


def test_what_cannot_take_points_back_gets_each_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """wandb's and MLflow's part, over a kill after step 22 with a checkpoint of step 12, and a resumed run."""

    class Kept(Sink):
        takes_back = False

        def add(self, point: Point) -> None:
            names = [*point.scalars, *point.histograms]
            kept.extend((point.x, name) for name in names if not name.startswith("system/"))

    kept: list[tuple[int, str]] = []
    monkeypatch.setattr(tracker, "_shared", lambda name, logdir: Kept())
    monkeypatch.setattr(command, "check_packages", lambda *given: None)
    settings, save = config(epochs=5, checkpoint_seconds=0, track="wandb"), command._Training._save
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(command._Training, "_save", lambda run: save(run) if run._done.step == 12 else None)
        train(settings, Stopper(22))
    assert max(step for step, _ in kept) == 10
    train(settings)
    written = map(json.loads, Path("data/logs/train/points.jsonl").read_text().splitlines())
    expected = [(line["train/step"], name) for line in written for name in line if name.startswith("train/")]
    assert sorted(kept) == sorted((step, name) for step, name in expected if name != "train/step")


def test_tracking_changes_no_weights_and_no_key(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(config(new_model=Path("saved_models/000001-one")), Stopper(7))
    resumed = train(config(new_model=Path("saved_models/000001-one"), track="none", logdir=Path("other")))
    assert resumed.resumed_from_step == 7
    whole = train(config(original_model=resumed.original_model, new_model=Path("saved_models/000001-two")))
    assert_equal_models(resumed.model, whole.model)
    assert [path.name for path in Path("other/train").iterdir()] == ["points.jsonl"]


def test_results_are_not_compared_with_values_of_searches(folder: Path) -> None:
    write_set(Path("data/training_data"), GAME, [40], holdout=20, number=2, td_lambda=0.95)
    summary = train(config())
    metrics = read_info(summary.model).manifest["metrics"]
    assert (summary.holdout_examples, summary.value_gap, metrics["set_after"]) == (20, None, {})
    assert "value_gap" not in read_info(summary.model).manifest and "value gap" not in summary_text(summary, whole=True)
    assert metrics["holdout_after"]["value_mse"] > 0


def test_the_next_training_continues_model_and_optimiser(folder: Path) -> None:
    first = train(config())
    write_set(Path("data/training_data"), GAME, [40], number=2, seed=2)
    second = train(config())
    info = read_info(second.model)
    assert second.model.name == "000002-b1c8"
    assert second.original_model.name == first.model.name
    assert info.parents == [first.model.name]
    assert info.manifest["total_steps"] == 15 + 9
    assert read_optimizer(second.model)["step"].tolist() == [24]
    assert (second.holdout_examples, second.value_gap) == (0, None)


@pytest.mark.parametrize(
    ("before", "after", "steps"), [("muon", "adam", 5), ("adam", "muon", 10), ("muon", "muon", 10)]
)
def test_another_optimiser_continues_from_moments_that_it_knows(
    folder: Path, before: str, after: str, steps: int
) -> None:
    first = train(config(epochs=1, optimizer=before)).model
    told = Stopper(after=-1)
    second = train(config(epochs=1, optimizer=after, original_model=first), told).model
    assert read_optimizer(second)["step"].tolist() == [steps]
    anew = "the optimiser starts anew: 000001-b1c8 was trained by Muon, which has no moments for Adam"
    assert (anew in told.said) == (steps == 5)


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_adam_after_muon_continues_from_the_raw_weights(folder: Path, ema_decay: float) -> None:
    first = train(config(epochs=1, optimizer="muon", ema_decay=0.9)).model
    state = read_optimizer(first)
    settings = {"epochs": 1, "ema_decay": ema_decay, "learning_rate": 1e-9, "original_model": first}
    second = train(config(**settings)).model
    trained = read_model(second).weights if not ema_decay else read_optimizer(second)
    name = "stem.conv.weight"
    found = trained[f"raw.{name}" if ema_decay else name]
    np.testing.assert_allclose(found, state[f"raw.{name}"], atol=1e-6)
    assert np.abs(found - read_model(first).weights[name]).max() > 1e-4
    if ema_decay:
        assert trained["averaged_steps"].tolist() == [10]


def test_a_network_grows_on_the_way(folder: Path) -> None:
    first = train(config(epochs=1))
    write_set(Path("data/training_data"), GAME, [40], holdout=20, number=2, seed=2)
    second = train(config(epochs=1, network_size="b2c16"))
    small = train(config(epochs=1, original_model=first.model, new_model=Path("b/000002-x")))
    write_set(Path("data/training_data"), GAME, [40], number=5, seed=5)
    third = train(config(epochs=1, network_size="b2c16"))
    assert [one.model.name for one in (first, second, third)] == [
        "000001-b1c8", "000002-b2c16", "000003-b2c16"
    ]  # fmt: skip
    assert read_info(second.model).architecture["channels"] == 16
    before = [read_info(one.model).manifest["metrics"]["holdout_before"] for one in (small, second)]
    assert before[0] == pytest.approx(before[1], rel=0.02)  # starts where the small one stopped
    assert (read_optimizer(second.model)["step"].tolist(), read_optimizer(third.model)["step"].tolist()) == ([3], [6])
    with pytest.raises(UsageError, match="can't shrink"):
        train(config(original_model=third.model, new_model=Path("b/000001-x"), network_size="b1c8"))
    more_time = config(original_model=third.model, new_model=Path("b/000001-x"), network_size="b1c8", time_share=0.1)
    told = Stopper(after=-1)
    assert read_info(train(more_time, told).model).architecture == read_info(third.model).architecture
    assert "the network stays b2c16: it can't shrink to b1c8" in told.said


def test_a_network_grows_to_planes_that_its_game_has_since(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Path("old/000000-init")
    with monkeypatch.context() as earlier:
        earlier.setattr(type(GAME), "plane_names", GAME.plane_names[:-1])
        init(InitConfig(game="tictactoe", network_size="b1c8", new_model=old))
    new = train(config(epochs=1, original_model=old, new_model=Path("old/000001-b1c8"))).model
    assert [read_info(one).architecture["planes"] for one in (old, new)] == [GAME.num_planes - 1, GAME.num_planes]
    assert (read_model(new).weights["stem.conv.weight"][:, -1] != 0).any()
    assert calibration_of(read_model(new)).shape[1] == GAME.num_planes


def test_the_same_command_gives_the_same_model(folder: Path) -> None:
    first, second = (train(config(**paths(name))) for name in "ab")
    assert "calibration positions" in arrays_of(first.model)
    other = train(config(**paths("c"), seed=1))
    assert_equal_models(first.model, second.model)
    assert not np.array_equal(arrays_of(first.model)["stem.conv.weight"], arrays_of(other.model)["stem.conv.weight"])


def paths(name: str) -> dict[str, Path]:
    """A run from the initial model to a model in a folder of its own."""
    return {"original_model": Path("saved_models/000000-init"), "new_model": Path(name) / "000001-x"}


def take_priorities() -> dict[str, list[float]]:
    """The values in the files of priorities beside the chunks, by file name; removes these files.

    Ignores half-written files of killed processes, which gather sweeps.
    """
    found = {}
    for path in sorted(Path("data/training_data").glob("[!.]*priorities*")):
        found[path.name] = read_priorities(path).values.tolist()
        path.unlink()
    return found


class TestResume:
    @pytest.mark.parametrize("after", [1, 7, 15])
    @pytest.mark.parametrize("options", [{}, {"ema_decay": 0.9, "priority_exponent": 0.6}, {"network_size": "b2c12"}],
                             ids=["plain", "recipe", "growing"])  # fmt: skip
    def test_an_interrupted_run_ends_with_the_same_bits(self, folder: Path, after: int, options: dict) -> None:
        whole = train(config(**paths("whole"), **options))
        priorities = take_priorities()
        with pytest.raises(KeyboardInterrupt):
            # the call that starts the bar at 0 counts no step
            train(config(**paths("parts"), **options), Stopper(after))
        assert not Path("parts/000001-x").exists()
        assert hidden(Path("parts")) == [".000001-x.training"]
        progress = Stopper(-1)
        resumed = train(config(**paths("parts"), **options), progress)
        assert take_priorities() == priorities
        assert bool(priorities) == ("priority_exponent" in options)
        assert resumed.resumed_from_step == after
        assert ("samples/s" in "".join(resumed.lines())) == (after < resumed.steps)
        assert any("resuming at step" in text for text in progress.said)
        assert_equal_models(whole.model, resumed.model)
        assert resumed.loss == whole.loss
        assert resumed.metrics["holdout_before"] == whole.metrics["holdout_before"]
        assert hidden(Path("parts")) == []

    def test_a_killed_run_ends_with_the_same_bits(self, folder: Path) -> None:
        """kill -9 twice, at any moment; each time it resumes from its last checkpoint."""
        recipe = {"epochs": 20, "priority_exponent": 0.6, "ema_decay": 0.9}
        whole = train(config(**paths("whole"), **recipe))
        priorities = take_priorities()
        script = (
            "from pathlib import Path; from pipeline.train.config import TrainConfig; "
            "from pipeline.train.command import train; "
            "train(TrainConfig(epochs=20, batch_size=16, learning_rate=0.01, checkpoint_seconds=0, "
            "priority_exponent=0.6, ema_decay=0.9, "
            "original_model=Path('saved_models/000000-init'), new_model=Path('parts/000001-x')))"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        checkpoint = layout.checkpoint_path(Path("parts/000001-x")) / "checkpoint.safetensors"
        for _ in range(2):
            seen = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
            process = subprocess.Popen([sys.executable, "-c", script], env=environment)
            while process.poll() is None:
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns != seen:
                    process.kill()
                time.sleep(0.002)
            assert process.wait() == -signal.SIGKILL, "it finished before it was killed"
        resumed = train(config(**paths("parts"), **recipe))
        assert take_priorities() == priorities != {}
        assert 0 < resumed.resumed_from_step < 100
        assert_equal_models(whole.model, resumed.model)
        assert hidden(Path("parts")) == []

    @pytest.mark.parametrize("change", [{"learning_rate": 0.02}, {"seed": 3}, {"epochs": 2}])
    def test_other_settings_start_over(self, folder: Path, change: dict) -> None:
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts")), Stopper(5))
        progress = Stopper(-1)
        assert train(config(**{**paths("parts"), **change}), progress).resumed_from_step == 0
        assert any("starting over" in text for text in progress.said)

    def test_settings_that_change_no_result_do_not(self, folder: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts")), Stopper(5))
        assert train(config(**paths("parts"), checkpoint_seconds=1, logdir=Path("x"))).resumed_from_step == 5

    @pytest.mark.parametrize(
        "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-3] + b"abc"]
    )
    def test_a_damaged_checkpoint_starts_over(self, folder: Path, damage) -> None:
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts")), Stopper(5))
        file = Path("parts/.000001-x.training/checkpoint.safetensors")
        file.write_bytes(damage(file.read_bytes()))
        progress = Stopper(-1)
        assert train(config(**paths("parts")), progress).resumed_from_step == 0
        assert any("damaged" in text for text in progress.warned)

    @pytest.mark.parametrize(
        "change",
        [
            lambda state: state.progress.update(step="x"),
            lambda state: state.progress.update(step=10**6),
            lambda state: state.progress.update(epoch_sums={"total": None}),
            lambda state: state.progress.clear() or state.progress.update(step=None),
            lambda state: state.weights.pop("score.bias"),
            lambda state: state.replay.pop("priorities"),
            lambda state: state.replay.update(priorities=np.zeros(80, np.float32)),
        ],
    )
    def test_a_sealed_checkpoint_of_no_such_run_starts_over(self, folder: Path, monkeypatch, change) -> None:
        def write(checkpoint: Checkpoint, state: State) -> None:
            change(state)
            whole(checkpoint, state)

        whole = Checkpoint.write
        options = {**paths("parts"), "priority_exponent": 0.6}
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Checkpoint, "write", write)
            train(config(**options), Stopper(5))
        progress = Stopper(-1)
        assert train(config(**options), progress).resumed_from_step == 0
        assert any("damaged" in text and "starting over" in text for text in progress.warned)

    @pytest.mark.parametrize("name", ["step", "epoch_steps", "seconds", "total"])
    def test_a_flipped_digit_of_the_progress_starts_over(self, folder: Path, name: str) -> None:
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts")), Stopper(13))
        file = Path("parts/.000001-x.training/checkpoint.safetensors")
        data = bytearray(file.read_bytes())
        found = re.search(rb'\\"%b\\": (?:{\\"total\\": )?[0-9.]*([0-9])' % name.encode(), data)
        assert found is not None
        data[found.start(1)] ^= 1  # another digit
        file.write_bytes(data)
        progress = Stopper(-1)
        assert train(config(**paths("parts")), progress).resumed_from_step == 0
        assert any("damaged" in text for text in progress.warned)

    def test_a_checkpoint_left_beside_its_model_is_removed(self, folder: Path) -> None:
        left = layout.checkpoint_path(train(config()).model)
        left.mkdir()
        (left / "checkpoint.safetensors").write_bytes(b"x")
        with pytest.raises(NotYet):
            train(config())
        write_set(Path("data/training_data"), GAME, [40], number=2, seed=2)
        train(config())
        assert not left.exists()

    def test_a_model_left_half_written_is_removed(self, folder: Path) -> None:
        left = Path("saved_models/.000001-b1c8~elsewhere~5~20260101T000000~0123abcd.tmp")
        left.mkdir()
        train(config(epochs=1))
        assert not left.exists()

    def test_two_runs_at_once_are_refused(self, folder: Path) -> None:
        class Second(Progress):
            error: Exception | None = None

            def advance(self, count: int = 1) -> None:
                if self.error is None:
                    with pytest.raises(NotYet, match="another process is training this model") as caught:
                        train(config())
                    self.error = caught.value

        assert train(config(), Second()).model.name == "000001-b1c8"

    @pytest.mark.parametrize(
        ("at", "named"),
        [("check_holdout", False), ("next_model_path", False), ("Checkpoint", False), ("Checkpoint", True)],
    )
    def test_an_overtaken_run_trains_nothing(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, at: str, named: bool
    ) -> None:
        """The other training begins and ends while this one is about to call the function."""
        mine = config(new_model=Path("saved_models/000001-x") if named else None)
        real = getattr(command, at)

        def overtaken(*arguments: object) -> object:
            monkeypatch.setattr(command, at, real)
            train(mine)
            return real(*arguments)

        monkeypatch.setattr(command, at, overtaken)
        with pytest.raises(NotYet, match="another process has trained"):
            train(mine)
        assert len(list(Path("saved_models").glob("0*"))) == 2
        assert hidden(Path("saved_models")) == []

    def test_a_model_that_another_machine_wrote_to_the_bucket_first(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(path: Path, *rest: object) -> None:
            raise Conflict(path, "it has changed")

        monkeypatch.setattr(command, "write_model", refused)
        with pytest.raises(NotYet, match="000001-b1c8: another machine has trained a model meanwhile"):
            train(config())

    @pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")
    def test_of_two_processes_at_once_one_trains(self, workshop: Workshop, folder: Path) -> None:
        command = ["train", "--epochs", "40", "--batch-size", "16"]
        running = [workshop.start(command, Path.cwd()) for _ in range(2)]
        done = [one.wait() for one in running]
        said = [one.said for one in done]
        assert sorted(one.code for one in done) == [0, 75], said
        assert any("another process" in text or "no new chunks" in text for text in said)
        assert [path.name for path in sorted(Path("saved_models").glob("0*"))] == ["000000-init", "000001-b1c8"]

    def test_signals_wait_for_the_end_of_a_step(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = trainer.Trainer.step

        def interrupted_step(self, batch):
            if self.total_steps == 4:
                os.kill(os.getpid(), signal.SIGINT)  # in the middle of the fifth
            return real(self, batch)

        monkeypatch.setattr(trainer.Trainer, "step", interrupted_step)
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts")))
        assert signal.getsignal(signal.SIGINT) is before
        monkeypatch.undo()
        monkeypatch.chdir(folder)
        assert train(config(**paths("parts"))).resumed_from_step == 5


class TestRefusals:
    def test_no_chunks_is_not_yet(self, folder: Path) -> None:
        for directory in (Path("nowhere"), folder):
            with pytest.raises(NotYet, match="no complete set of chunks"):
                train(config(directory=directory))

    def test_a_half_made_set_is_not_yet(self, folder: Path) -> None:
        next(Path("data/training_data").glob("*-0001-of-0002.h5")).unlink()
        with pytest.raises(NotYet):
            train(config())

    def test_nothing_new_is_not_yet(self, folder: Path) -> None:
        train(config())
        with pytest.raises(NotYet, match="no new chunks since 000001-b1c8"):
            train(config())
        assert train(config(original_model=Path("saved_models/000001-b1c8"))).model.name == "000002-b1c8"

    def test_a_model_of_another_game(self, folder: Path) -> None:
        write_set(Path("data/training_data"), parse_game("connect4"), [40], number=2, seed=2)
        with pytest.raises(FileError, match="000000-init: it plays tictactoe; wanted a model that plays connect4"):
            train(config())

    def test_examples_of_another_method(self, folder: Path) -> None:
        write_set(Path("data/training_data"), GAME, [40], number=2, seed=2, method="td")
        with pytest.raises(FileError, match="examples of method td, but 000000-init learns by alphazero; wanted a fol"):
            train(config())

    def test_chunks_of_two_games_in_a_set(self, folder: Path) -> None:
        other = write_set(folder / "other", parse_game("connect4"), [40, 40])
        os.replace(other.chunks[1], Path("data/training_data") / other.chunks[1].name)
        with pytest.raises(FileError, match="it holds connect4; wanted tictactoe"):
            train(config())

    def test_a_truncated_chunk(self, folder: Path) -> None:
        chunk = next(Path("data/training_data").glob("*-0001-of-0002.h5"))
        chunk.write_bytes(chunk.read_bytes()[:3000])
        with pytest.raises(FileError, match="damaged or cut off"):
            train(config())
        assert hidden(Path("saved_models")) == []

    def test_no_model_and_a_damaged_one(self, folder: Path) -> None:
        with pytest.raises(FileError, match=r"empty: no models here; .*, --original-model names one elsewhere$"):
            train(config(new_model=Path("empty/000001-x")))
        weights = Path("saved_models/000000-init/weights.safetensors")
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
        with pytest.raises(FileError, match="checksum"):
            train(config())

    def test_an_existing_new_model_is_not_overwritten(self, folder: Path) -> None:
        with pytest.raises(FileError, match="exists already"):
            train(config(new_model=Path("saved_models/000000-init")))

    def test_a_loss_that_is_not_finite_writes_nothing(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = trainer.Trainer.step

        def step(self, batch):
            if self.total_steps == 3:
                batch = batch._replace(value=batch.value * float("nan"))
            return real(self, batch)

        monkeypatch.setattr(trainer.Trainer, "step", step)
        with pytest.raises(MuGoError, match="training step 4: the loss is not finite"):
            train(config(checkpoint_seconds=0))
        assert [path.name for path in Path("saved_models").glob("00*")] == ["000000-init"]
        assert hidden(Path("saved_models")) == []

    def test_a_log_folder_that_cannot_be_written_stops_nothing(self, folder: Path) -> None:
        Path("file").write_text("")
        listener = Stopper(0)
        assert train(config(logdir=Path("file")), listener).model.is_dir()
        assert [text.partition(":")[0] for text in listener.warned] == ["file/train"] * 2


def say_positions(total: int) -> None:
    """Make the chunks state how many positions self-play has made."""
    for path in Path("data/training_data").glob("*.h5"):
        chunk = read_chunk(path, GAME.spec, column_types(GAME))
        header = dataclasses.replace(chunk.header, window={**chunk.header.window, "total_positions": total})
        write_chunk(path, header, chunk.columns, chunk.shards)


class TestSamplesPerPosition:
    """80 examples, 3 epochs of 5 batches of 16."""

    @pytest.mark.parametrize(
        ("cap", "total", "steps"), [(1.0, 1000, 15), (2.0, 80, 10), (2.0, 79, 9), (0.5, 80, 2), (0.2, 80, 1)]
    )
    def test_cuts_the_run(self, folder: Path, cap: float, total: int, steps: int) -> None:
        say_positions(total)
        summary = train(config(max_samples_per_position=cap))
        assert (summary.steps, summary.steps_cut, summary.total_samples) == (steps, 15 - steps, 16 * steps)
        assert summary.total_samples <= cap * total
        manifest = read_info(summary.model).manifest
        assert manifest["total_steps"] == steps
        assert manifest["metrics"]["train"]["total"] == summary.loss > 0
        assert read_optimizer(summary.model)["step"].tolist() == [steps]

    @pytest.mark.parametrize("options", [{}, {"priority_exponent": 0.6}])
    def test_what_is_left_are_the_first_steps(self, folder: Path, options: dict) -> None:
        whole = train(config(**paths("whole"), epochs=1, **options))
        take_priorities()
        say_positions(80)
        cut = train(config(**paths("cut"), epochs=3, max_samples_per_position=1.0, **options))
        assert_equal_models(whole.model, cut.model)

    def test_counts_the_ancestors(self, folder: Path) -> None:
        say_positions(100)
        first = train(config(max_samples_per_position=2.0))
        assert first.total_samples == 192  # of 200
        write_set(Path("data/training_data"), GAME, [40], number=2, seed=2)
        say_positions(130)
        second = train(config(max_samples_per_position=2.0))
        # 40 examples in batches of 14, 13, 13: 192 + 40 + 14 = 246 of 260, and 13 more are one less than 260
        assert (second.total_samples, second.steps, second.steps_cut) == (259, 5, 4)
        write_set(Path("data/training_data"), GAME, [40], number=5, seed=5)
        say_positions(131)
        with pytest.raises(NotYet, match="131 positions: 6 more are missing") as caught:
            train(config(max_samples_per_position=2.0))
        assert "000002-b1c8 was trained on 259 samples" in str(caught.value)
        assert caught.value.missing == 6  # 2 · 137 = 274 ≥ 259 + 14, and 2 · 136 isn't
        assert hidden(Path("saved_models")) == []
        say_positions(137)
        assert train(config(max_samples_per_position=2.0)).steps == 1

    def test_a_cut_run_resumes(self, folder: Path) -> None:
        say_positions(80)
        options = {"max_samples_per_position": 2.0}
        whole = train(config(**paths("whole"), **options))
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("parts"), **options), Stopper(7))
        resumed = train(config(**paths("parts"), **options))
        assert (resumed.resumed_from_step, resumed.steps) == (7, 10)
        assert_equal_models(whole.model, resumed.model)
        assert resumed.loss == whole.loss


def priorities_file(number: int = 1) -> Path:
    return Path("data/training_data") / f"{number:06d}-{(0, 0, 2)[number]:08x}-priorities.safetensors"


class TestPriorities:
    def test_are_the_errors_of_the_value(self, folder: Path) -> None:
        """One step that sees every example: each priority is |v − z| + ε of the network before it."""
        write_set(Path("data/training_data"), GAME, [6], number=2, seed=2)
        summary = train(config(priority_exponent=0.01, epochs=1, batch_size=6, precision="float32"))
        found = read_priorities(priorities_file(2)).values
        assert summary.steps == 1
        # equal priorities: one draw from each sixth of the line, so all rows; a fresh network's value is nearly 0
        path = next(Path("data/training_data").glob("000002-*-of-*"))
        columns = read_chunk(path, GAME.spec, column_types(GAME)).columns
        np.testing.assert_allclose(found, np.abs(columns["value"]) + 0.001, atol=0.2)
        assert not (found == 1).any()

    def test_are_sampled_and_corrected_by_the_exponents_asked_for(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[Replay] = []

        def noted(*arguments: Any) -> Replay:
            made.append(Replay(*arguments))
            return made[-1]

        monkeypatch.setattr("pipeline.train.command.Replay", noted)
        train(config(epochs=1, priority_exponent=0.7, priority_correction=0.2, priority_floor=0.05))
        (replay,) = made
        values = replay.priorities.values.astype(np.float64)
        sample = replay.sample(0, 10_000, 1)
        # one of each ten thousandth of the line: at most one more or less at either end of an example's part
        expected = 10_000 * values**0.7 / (values**0.7).sum()
        assert np.abs(np.bincount(sample.rows, minlength=80) - expected).max() < 2
        assert values.min() >= 0.05
        weights = values[sample.rows] ** (-0.7 * 0.2)
        np.testing.assert_allclose(sample.weights, weights / weights.max(), rtol=1e-4)

    def test_make_another_model(self, folder: Path) -> None:
        plain, prioritised = train(config(**paths("a"))), train(config(**paths("b"), priority_exponent=0.6))
        assert plain.steps == prioritised.steps == 15
        assert differ(plain.model, prioritised.model)

    def test_a_later_training_starts_from_them(self, folder: Path) -> None:
        options = {"priority_exponent": 0.6}
        first = train(config(**paths("a"), **options))
        stored = priorities_file().read_bytes()
        second = train(config(**paths("b"), **options))
        assert differ(first.model, second.model)
        priorities_file().write_bytes(stored)
        assert_equal_models(second.model, train(config(**paths("c"), **options)).model)

    def test_a_damaged_file_is_reported_and_replaced(self, folder: Path) -> None:
        options = {"priority_exponent": 0.6}
        whole = train(config(**paths("a"), **options))
        wanted = read_priorities(priorities_file()).values
        priorities_file().write_bytes(priorities_file().read_bytes()[:-9])
        progress = Stopper(-1)
        again = train(config(**paths("b"), **options), progress)
        assert any("priorities.safetensors: damaged" in text and "start anew" in text for text in progress.warned)
        assert_equal_models(whole.model, again.model)
        assert np.array_equal(read_priorities(priorities_file()).values, wanted)

    def test_positions_of_an_earlier_set_keep_theirs(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        train(config(priority_exponent=0.6))
        known = read_priorities(priorities_file())
        largest = known.values.max()
        for path in Path("data/training_data").glob("000001-*.h5"):
            path.unlink()  # as gather does with old sets
        write_set(Path("data/training_data"), GAME, [60], number=2, seed=2)
        started = []

        def noted(start: Priorities, *rest: object) -> Replay:
            started.append(start)
            return Replay(start, *rest)

        monkeypatch.setattr("pipeline.train.command.Replay", noted)
        train(config(priority_exponent=0.6))
        table = dict(zip(known.examples.tolist(), known.values.tolist(), strict=True))
        new = [number for number in started[0].examples.tolist() if number not in table]
        assert 0 < len(new) < 60
        for number, value in zip(started[0].examples.tolist(), started[0].values.tolist(), strict=True):
            assert value in ([largest] if number in new else known.values[known.examples == number])
        assert not priorities_file().exists(), "its set is gone"
        assert priorities_file(2).exists()

    @pytest.mark.parametrize("where", ["write_priorities", "write_model", "remove_stale_priorities"])
    def test_a_kill_between_the_last_files_changes_nothing(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        options = {"priority_exponent": 0.6}
        whole = train(config(**paths("whole"), **options))
        wanted = take_priorities()

        def killed(*arguments: object) -> None:
            raise RuntimeError("killed")

        monkeypatch.setattr(f"pipeline.train.command.{where}", killed)
        with pytest.raises(RuntimeError, match="killed"):
            train(config(**paths("parts"), **options))
        monkeypatch.undo()
        monkeypatch.chdir(folder)
        if where != "remove_stale_priorities":
            train(config(**paths("parts"), **options))
        assert_equal_models(whole.model, Path("parts/000001-x"))
        assert take_priorities() == wanted

    def test_a_training_that_does_not_end_keeps_the_old_ones(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {"priority_exponent": 0.6, "checkpoint_seconds": 0}
        train(config(**paths("a"), **options))
        before = priorities_file().read_bytes()
        with pytest.raises(KeyboardInterrupt):
            train(config(**paths("b"), **options), Stopper(7))
        assert priorities_file().read_bytes() == before
        real = trainer.Trainer.step

        def step(self, batch):
            return real(self, batch._replace(value=batch.value * float("nan")) if self.total_steps == 9 else batch)

        monkeypatch.setattr(trainer.Trainer, "step", step)
        with pytest.raises(MuGoError, match="the loss is not finite"):
            train(config(**paths("b"), **options))
        assert priorities_file().read_bytes() == before

    def test_without_them_no_file_is_made(self, folder: Path) -> None:
        train(config())
        assert list(Path("data/training_data").glob("*priorities*")) == []


class TestAverage:
    def test_the_model_is_the_average_and_the_next_training_continues_from_the_raw_weights(self, folder: Path) -> None:
        plain, averaged = train(config(**paths("a"))), train(config(**paths("b"), ema_decay=0.9))
        state = read_optimizer(averaged.model)
        raw = read_model(plain.model).weights
        assert all(np.array_equal(state[f"raw.{name}"], array) for name, array in raw.items())
        assert not np.array_equal(read_model(averaged.model).weights["stem.conv.weight"], raw["stem.conv.weight"])
        assert averaged.metrics["holdout_after"] != plain.metrics["holdout_after"]
        next_paths = [
            {"original_model": Path(name) / "000001-x", "new_model": Path(name) / "000002-x"} for name in "ab"
        ]
        plain, averaged = train(config(**next_paths[0])), train(config(**next_paths[1], ema_decay=0.9))
        state = read_optimizer(averaged.model)
        raw = read_model(plain.model).weights
        assert all(np.array_equal(state[f"raw.{name}"], array) for name, array in raw.items())
        assert state["averaged_steps"].tolist() == [30]


def test_a_branch_has_a_track_of_its_own(folder: Path) -> None:
    """It leaves the points of later models, and after a kill makes its own again."""
    first = train(config(epochs=1))
    write_set(Path("data/training_data"), GAME, [40], number=2, seed=2)
    train(config(epochs=1))
    before = lines("train/loss/total")
    branch = config(epochs=1, original_model=first.original_model, new_model=Path("b/000001-x"))
    train(branch)
    own = Path("data/logs/train/000001-x/points.jsonl")
    points = own.read_text().splitlines()
    assert lines("train/loss/total") == before and points
    shutil.rmtree("b/000001-x")
    train(branch)
    assert len(own.read_text().splitlines()) == len(points)
    write_set(Path("data/training_data"), GAME, [40], number=4, seed=4)
    train(config(epochs=1, new_model=Path("b/000002-y")))  # goes on from the branch
    assert lines("train/loss/total") == before and Path("data/logs/train/000002-y/points.jsonl").exists()
    write_set(Path("data/training_data"), GAME, [40], number=5, seed=5)
    named = train(config(epochs=1, new_model=Path("saved_models/000003-named")))  # goes on from the newest
    assert named.model.name == "000003-named" and len(lines("train/loss/total")) > len(before)
