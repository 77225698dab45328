"""Several processes train one model, bit for bit like one process with as many replicas, and end together."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pipeline.errors import Elsewhere, MuGoError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.run import layout, provenance
from pipeline.run.models import read_info, read_model, read_optimizer
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train import process_group
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init
from pipeline.train.process_group import ProcessGroup
from pipeline.train.rank import ALONE, Processes, is_quiet, processes_here
from tests.chaos.workshop import Done, Running, Workshop
from tests.families import there_is
from tests.train.chunk_sets import write_set

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for processes as Linux has them")
MAIN = Path(__file__).parents[2] / "main.py"
MODEL = Path("saved_models/000001-b1c8")
CHECKPOINT = layout.checkpoint_path(MODEL) / "checkpoint.safetensors"
SET = {
    "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "here", "MASTER_PORT": "9",
}  # fmt: skip
RECIPE = {"ema_decay": 0.9, "priority_exponent": 0.6, "optimizer": "muon", "precision": "bfloat16"}


class TestEnvironment:
    def test_the_place_of_this_process(self) -> None:
        assert processes_here("train", SET) == Processes(1, 2, 1, 2, "here", 9)
        assert not Processes(1, 2).first and ALONE.first
        others = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}  # one a machine
        assert processes_here("train", others) == Processes(5, 8, 0, 1, "a", 1)

    @pytest.mark.parametrize("environment", [{}, {"WORLD_SIZE": ""}, {"WORLD_SIZE": "1", "RANK": "0"}])
    def test_one_process_is_alone(self, environment: dict[str, str]) -> None:
        assert processes_here("selfplay", environment) == processes_here("train", environment) == ALONE

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"MASTER_ADDR": ""}, r"WORLD_SIZE=2 but MASTER_ADDR not set; start it by"),
            ({"RANK": "", "MASTER_PORT": ""}, "RANK and MASTER_PORT not set"),
            ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two: wanted a number"),
            ({"WORLD_SIZE": "-2"}, "WORLD_SIZE=-2: wanted a number"),
            ({"MASTER_PORT": "99999"}, "MASTER_PORT=99999: wanted a number from 1 to 65535"),
            ({"RANK": "2"}, "RANK=2 of WORLD_SIZE=2"),
            ({"LOCAL_WORLD_SIZE": "3"}, "LOCAL_RANK=1 of LOCAL_WORLD_SIZE=3"),
        ],
    )
    def test_what_is_missing_or_contradicts_itself_is_refused(self, changes: dict[str, str], says: str) -> None:
        with pytest.raises(UsageError, match=says):
            processes_here("train", {**SET, **changes})

    def test_other_commands_are_refused_in_one_line(self) -> None:
        with pytest.raises(UsageError, match="WORLD_SIZE=2 means that 2 processes run this command at once"):
            processes_here("selfplay", {**SET, "RANK": "0"})
        with pytest.raises(Elsewhere) as silent:
            processes_here("selfplay", SET)
        assert (str(silent.value), silent.value.exit_code) == ("", 2)

    def test_only_the_first_prints(self) -> None:
        assert is_quiet(SET)
        assert not any(map(is_quiet, ({}, {**SET, "RANK": "0"}, {"RANK": "3"}, {"WORLD_SIZE": "1", "RANK": "1"})))


class Outcome(threading.Thread):
    """One of several processes, as a thread of this one, that does something with its group."""

    def __init__(self, rank: int, store: Any, what: Any) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self._group = ProcessGroup(Processes(rank, 2, rank, 2, "here", 9), store, torch.device("cpu"), 1)
        self._what = what
        self.start()

    def run(self) -> None:
        try:
            try:
                self._what(self._group)
            except BaseException as error:
                self._group.failed(error, [])
                raise
        except BaseException as error:
            self.error = error


def both(*whats: Any) -> list[BaseException | None]:
    """The error that ends each of these threads, if any."""
    store = dist.HashStore()
    threads = [Outcome(rank, store, what) for rank, what in enumerate(whats)]
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return [thread.error for thread in threads]


class TestAgreement:
    """The agreement before any work, which needs only a store."""

    def agreeing(self, **facts: Any) -> Any:
        return lambda group: group.agree("processes", facts, 10, 1)

    def test_equal_facts_are_agreed_on(self) -> None:
        assert both(self.agreeing(code="a"), self.agreeing(code="a")) == [None, None]

    @pytest.mark.parametrize(("mine", "shown"), [({"code": "b"}, "b"), ({}, "nothing"), ({"code": 0.5}, "0.5")])
    def test_different_facts_end_both_and_the_first_says_so(self, mine: dict[str, Any], shown: str) -> None:
        first, second = both(self.agreeing(code="a"), self.agreeing(**mine))
        assert str(first).startswith(f"code differs: a in process 0 of 2, {shown} in process 1 of 2 on ")
        assert isinstance(second, Elsewhere) and (str(second), second.exit_code) == ("", 1)

    def test_versions_processors_and_sources_are_compared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = process_group._identity(torch.device("cpu"), {"--seed": 3})
        assert {"version of the code", "version of python", "version of torch", "processor", "--seed"} <= set(found)
        monkeypatch.setattr(provenance.Path, "read_bytes", lambda path: b"changed")
        assert provenance.source_digest.__wrapped__() != found["version of the code"]  # not the one that is kept

    def test_a_missing_process_is_named(self) -> None:
        first, _ = both(lambda group: group.agree("processes", {}, 0.3, 1), lambda group: None)
        assert "process 1 of 2 hasn't answered for 0 seconds" in str(first)

    def test_an_error_of_one_ends_both_with_its_exit_code(self) -> None:
        def refuse(group: ProcessGroup) -> None:
            raise NotYet("too few")

        for order in (1, -1):
            ends = both(*[refuse, lambda group: group.receive("chosen")][::order])[::order]
            assert [getattr(end, "exit_code", None) for end in ends] == [75, 75]
            assert "too few" in str(ends[0]) and str(ends[1]) == ""  # one line on the terminal

    def test_a_killed_process_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process_group, "REASON_SECONDS", 0.2)

        def lose(group: ProcessGroup) -> None:
            def closed() -> None:
                raise RuntimeError("Connection closed by peer")

            group._exchange(closed)

        first, _ = both(lose, lambda group: None)
        assert str(first).startswith("process 1 of 2 ended without giving a reason (killed, or out of memory?)")

    def test_an_address_without_a_listener_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process_group, "JOIN_SECONDS", 0.3)
        with pytest.raises(
            MuGoError, match=r"process 1 of 2 can't connect to the others at 127.0.0.1:9 \(Connection refused"
        ):
            process_group._store(Processes(1, 2, 1, 2, "127.0.0.1", 9))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an initial model and a set of chunks; one process has two replicas on any machine."""
    monkeypatch.setattr("pipeline.train.trainer.available_cores", lambda: 2)
    base = tmp_path / "base"
    base.mkdir()
    monkeypatch.chdir(base)
    init(InitConfig(game="tictactoe", network_size="b1c8"))
    write_set(Path("data/training_data"), parse_game("tictactoe"), [200, 200], holdout=60)
    return base


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"epochs": 2, "batch_size": 140, "learning_rate": 0.01, **changes})


def options(settings: TrainConfig) -> list[str]:
    """The command line that makes this config."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    return ["train", *(word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value)))]


def start(
    workshop: Workshop, folder: Path, *arguments: list[str], folders: Sequence[Path] | None = None
) -> list[Running]:
    """A process for each list of arguments, started by hand instead of by torchrun."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    count = str(len(arguments))
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        workshop.start(given, where, environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank, (given, where) in enumerate(zip(arguments, folders or [folder] * len(arguments), strict=True))
    ]


def run(workshop: Workshop, folder: Path, *arguments: list[str], folders: Sequence[Path] | None = None) -> list[Done]:
    return [one.wait() for one in start(workshop, folder, *arguments, folders=folders)]


def made(folder: Path, model: Path = MODEL) -> dict[str, np.ndarray]:
    """All arrays of the model that was trained, and the priorities."""
    found = {**read_model(folder / model).weights, **(read_optimizer(folder / model) or {})}
    for path in (folder / "data/training_data").glob("[!.]*priorities*"):
        found[path.name] = np.frombuffer(path.read_bytes(), np.uint8)
    return found


def curve(folder: Path) -> list[tuple[int, float]]:
    """The training loss by step, from the file of one process."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = (folder / "data/logs/train").glob("events.*")
    accumulator = EventAccumulator(str(file))
    accumulator.Reload()
    return [(point.step, point.value) for point in accumulator.Scalars("train/loss/total")]


def assert_same(one: Path, other: Path, model: Path = MODEL) -> None:
    first, second = made(one, model), made(other, model)
    assert set(first) == set(second)
    assert [name for name in first if not np.array_equal(first[name], second[name])] == []


class TestTraining:
    @pytest.mark.parametrize("changes", [{}, RECIPE, {"batch_size": 130}], ids=["plain", "recipe", "one of them idle"])
    def test_two_processes_are_one_with_two_replicas(
        self, workshop: Workshop, folder: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Bit by bit. In the last case batches are so small that one process has no rows."""
        monkeypatch.setattr("pipeline.train.command.SHOWN_EVERY", 1)
        settings, divided = config(**changes), Path(shutil.copytree(folder, folder.parent / "two", symlinks=True))
        summary = train(settings)
        done = run(workshop, divided, *[options(settings)] * 2)
        assert [one.code for one in done] == [0, 0], [one.said for one in done]
        assert_same(folder, divided)
        infos = [read_info(path / MODEL) for path in (folder, divided)]
        assert infos[0].manifest["metrics"] == infos[1].manifest["metrics"]
        assert summary.total_samples == infos[1].manifest["total_samples"] == 800
        losses = dict(curve(folder))
        assert len(losses) == summary.steps
        assert curve(divided) == [(step, losses[step]) for step in (summary.steps,)]  # every tenth step and the last
        assert "000001-b1c8 from 000000-init" in done[0].said
        assert done[1].said == ""
        assert sorted(path.name for path in (divided / "saved_models").glob("[!.]*")) == [
            "000000-init", MODEL.name, "best_model", "promotions.jsonl"
        ]  # fmt: skip
        assert not list((divided / "saved_models").glob(".0*"))

    @pytest.mark.skipif(not there_is("backgammon"), reason="needs the family backgammon")
    def test_a_network_without_norms(self, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its replicas have no statistics to share."""
        monkeypatch.setattr("pipeline.train.trainer.available_cores", lambda: 2)
        base = tmp_path / "base"
        base.mkdir()
        monkeypatch.chdir(base)
        init(InitConfig(game="hypergammon", method="td", network_size="h8"))
        selfplay(SelfplayConfig(games=30, threads=1))
        gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=256))
        divided = Path(shutil.copytree(base, tmp_path / "two", symlinks=True))
        train(config(epochs=1))
        done = run(workshop, divided, *[options(config(epochs=1))] * 2)
        assert [one.code for one in done] == [0, 0], [one.said for one in done]
        assert_same(base, divided, Path("saved_models/000001-h8"))

    def test_killed_and_stopped_they_resume_to_the_same_bits(self, workshop: Workshop, folder: Path) -> None:
        """Each process is killed once, and each once gets a signal that stops both after the same step."""
        settings = config(epochs=60, checkpoint_seconds=0, **RECIPE)
        divided = Path(shutil.copytree(folder, folder.parent / "two", symlinks=True))
        seen = None
        for rank, number in ((1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGTERM), (0, signal.SIGINT)):
            running = start(workshop, divided, *[options(settings)] * 2)
            until = time.monotonic() + 60
            while not (divided / CHECKPOINT).exists() or (divided / CHECKPOINT).stat().st_mtime_ns == seen:
                assert time.monotonic() < until, [one.output.read_text() for one in running]
                time.sleep(0.01)
            running[rank].signal(number)
            done = [one.wait() for one in running]
            seen = (divided / CHECKPOINT).stat().st_mtime_ns
            assert not (divided / MODEL).exists(), "it finished before it was killed"
            said = "".join(one.said for one in done)
            assert "Traceback" not in said
            if number == signal.SIGKILL:
                assert [done[rank].code, done[1 - rank].code] == [-9, 1]
                assert f"mugo train: process {rank} of 2 ended without giving a reason" in done[1 - rank].said
            else:
                assert [one.code for one in done] == [128 + number] * 2
                assert "interrupted after step" in done[0].said and done[1].said == ""
        done = run(workshop, divided, *[options(settings)] * 2)
        assert [one.code for one in done] == [0, 0] and "resumed at step" in done[0].said
        train(settings)
        assert_same(folder, divided)

    def test_torchrun_starts_them(self, folder: Path) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(MAIN)]
        environment = {name: value for name, value in os.environ.items() if name not in SET}
        done = subprocess.run(
            [*command, *options(config())], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("000001-b1c8 from 000000-init") == 1
        assert (folder / MODEL / "model.json").exists()


class TestRefusals:
    def test_other_options(self, workshop: Workshop, folder: Path) -> None:
        done = run(workshop, folder, options(config()), options(config(seed=1)))
        assert [one.code for one in done] == [1, 1]
        said = "mugo train: --seed differs: 0 in process 0 of 2, 1 in process 1 of 2 on"
        assert done[0].said.startswith(said) and done[0].said.count("\n") == 1
        assert done[1].said == ""
        assert not list(Path("saved_models").glob("*000001*"))

    def test_nothing_to_do_is_said_once(self, workshop: Workshop, folder: Path) -> None:
        shutil.rmtree("data")
        done = run(workshop, folder, *[options(config())] * 2)
        assert [one.code for one in done] == [75, 75]
        assert done[0].said.startswith("mugo train: data/training_data: no complete set") and done[1].said == ""

    def test_another_disk(self, workshop: Workshop, folder: Path) -> None:
        elsewhere = Path(shutil.copytree(folder, folder.parent / "elsewhere", symlinks=True))
        shutil.rmtree(elsewhere / "data")
        write_set(elsewhere / "data/training_data", parse_game("tictactoe"), [200], number=2)
        done = run(workshop, folder, *[options(config())] * 2, folders=[folder, elsewhere])
        assert [one.code for one in done] == [1, 1] and done[0].said == ""
        assert "process 1 of 2 on" in done[1].said
        assert "data/training_data: no complete set 000001-00000000; wanted the first" in done[1].said
        assert not list(Path("saved_models").glob("*000001*"))

    def test_a_waiting_process_can_be_stopped(self, workshop: Workshop, folder: Path) -> None:
        running = start(workshop, folder, options(config()), ["train", "--help"])
        assert running[1].wait().code == 0
        running[0].signal(signal.SIGTERM)
        assert running[0].wait().code == 143

    def test_a_loss_that_is_not_finite_ends_both_and_is_said_once(self, workshop: Workshop, folder: Path) -> None:
        settings = config(learning_rate=1e30, warmup_steps=0)
        done = run(workshop, folder, *[options(settings)] * 2)
        assert [one.code for one in done] == [1, 1]
        assert "".join(one.said for one in done).count("the loss is not finite") == 1
        assert not list(Path("saved_models").glob("*000001*"))

    def test_another_command(self, workshop: Workshop, folder: Path) -> None:
        done = run(workshop, folder, ["gather"], ["gather"])
        assert [one.code for one in done] == [2, 2]
        assert "only train divides its work" in done[0].said and done[1].said == ""
