"""The whole loop on tic-tac-toe with a tiny network: real commands, real files, real kills.

tests/loop covers the order of commands, the time and the lock with stand-ins, tests/test_loop_script.py the set-up.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.reports.config import StatusConfig
from pipeline.reports.show import show
from pipeline.reports.status import FINISHED, RUNNING, status
from pipeline.run.chunks import newest_complete_set, read_chunk
from pipeline.run.matches import list_matches, read_match
from pipeline.run.models import list_models, read_info, read_model, read_promotions, resolve_champion
from pipeline.run.shards import newest_shards, read_shard
from pipeline.train.checkpoint import FILE as CHECKPOINT
from tests.chaos.workshop import Workshop

ROOT = Path(__file__).parent.parent
GAMES = 30
PRESET = f"""
init: {{game: tictactoe, network_size: b1c8}}
selfplay: {{games: {GAMES}, readouts: 4, temperature_plies: 9, backend: torch, threads: 1, commit_seconds: 0.1,
           parallel_games: 8}}
gather: {{max_positions: 2000, positions_per_chunk: 32, as_many_as_possible: true}}
train: {{epochs: 1, batch_size: 32, checkpoint_seconds: 0}}
evaluate: {{games: 4, readouts: 2, opening_plies: 1, backend: torch, threads: 1, parallel_games: 2}}
"""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")


class Run:
    """A folder with a run of the loop in it. environment: of the loops."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "MUGO_PYTHON": sys.executable}
        (folder / "tiny.yaml").write_text(PRESET)
        self.number = 0
        self.log = folder / "log"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, generations: int, *options: str) -> subprocess.Popen[bytes]:
        self.number += 1
        self.log = self.folder / f"log{self.number}"
        command = [str(ROOT / "rl_loop.sh"), "--preset", str(self.folder / "tiny.yaml")]
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                [*command, "--directory", str(self.folder), "--generations", str(generations), *options],
                env=self.environment,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def finish(self, generations: int, *options: str) -> str:
        process = self.start(generations, *options)
        code = process.wait(timeout=300)
        said = self.log.read_text()
        assert code == 0, said
        return said

    def wait_until_said(self, text: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 200
        while text not in self.log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, f"{text!r} not in: {self.log.read_text()}"
            time.sleep(0.02)

    def check(self, generations: int, overlap: bool = False) -> None:
        """What must hold after a finished run, whatever happened on the way. overlap: somebody played on meanwhile."""
        models = list_models(self.folder / "saved_models")
        assert [int(path.name[:6]) for path in models] == list(range(generations + 1))
        for path in models:
            assert read_model(path).weights
        for path, parent in zip(models[1:], models, strict=False):
            assert read_info(path).parents == [parent.name]

        games: Counter[int | None] = Counter()
        ids = []
        for meta in newest_shards(self.folder / "data/selfplay"):  # raises on damage
            shard = read_shard(meta.path, meta)
            games[meta.generation] += shard.num_games
            ids += shard.game_ids.tolist()
        if overlap:
            assert all(games[generation] >= GAMES for generation in range(generations))
        else:
            assert games == {generation: GAMES for generation in range(generations)}
        assert len(set(ids)) == len(ids)

        chunks = newest_complete_set(self.folder / "data/training_data")
        assert chunks is not None
        for path in chunks.files:
            read_chunk(path, "tictactoe", column_types(parse_game("tictactoe")))

        matches = [read_match(folder) for folder in list_matches(self.folder / "data/evaluate")]
        assert len(matches) == generations and all(match.summary for match in matches)
        champion = resolve_champion(self.folder / "saved_models/best_model").name
        assert read_promotions(self.folder / "saved_models")[-1]["champion"] == champion
        assert not [path for path in (self.folder / "saved_models").iterdir() if path.name.endswith(".training")]


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    run = Run(tmp_path)
    yield run
    for process in run.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)


def test_a_generation_from_nothing_and_a_rerun(run: Run) -> None:
    said = run.finish(generations=1)
    run.check(generations=1)
    found = status(StatusConfig(directory=run.folder))
    positions = sum(meta.positions for meta in newest_shards(run.folder / "data/selfplay"))
    assert (found.generation, found.play.positions, found.warnings) == (1, positions, ())
    assert found.match is not None and found.match.decision != "not decided"
    assert "policy" in found.trainings[-1].measures and found.loop != RUNNING and "train" not in found.stages
    for wanted in ("champion", "policy loss", "--generations 6"):
        assert wanted in said
    assert said.index("to play against it:") < said.index("to train on:") < said.index("next:")
    before = sorted(path for path in run.folder.rglob("*") if path.is_file() and "log" not in path.name)
    assert found.loop == FINISHED and said.count("loading") == 1
    (line,) = run.finish(generations=1).splitlines()  # as a cron job
    assert line.startswith("mugo loop: ") and "1 of 1 generations are made; nothing to do" in line
    assert before == sorted(path for path in run.folder.rglob("*") if path.is_file() and "log" not in path.name)

    for path in ("", "saved_models", "saved_models/best_model", "data/selfplay", "data/training_data", "data/evaluate"):
        assert list(show(run.folder / path))


# At the lowest priority, whoever plays beside a loop might not come to play for a minute while other tests run.
NOT_LOWER = """
import os

def refuse(*arguments):
    raise PermissionError

os.nice, os.sched_setscheduler = lambda more: 0, refuse
"""


@pytest.fixture
def quick(run: Run, workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its loops are forked from a process that has imported everything, and what they start keeps its priority."""
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(NOT_LOWER)
    run.environment = {**workshop.loop_environment(), "PYTHONPATH": str(site)}
    return run


@LINUX
def test_games_go_on_beside_the_other_stages(quick: Run) -> None:
    run = quick
    said = run.finish(1, "--overlap")
    run.check(generations=1, overlap=True)
    process = run.start(2, "--overlap")
    run.wait_until_said("generation 2 of 2: selfplay", process)
    process.kill()  # whoever plays beside it ends with it, or the next loop would have to wait for ever
    process.wait(timeout=30)
    said += run.finish(2, "--overlap")
    run.check(generations=2, overlap=True)
    assert "failed" not in said and "nobody plays" not in said


TRAINING, MATCH = f"saved_models/.000001-*.training/{CHECKPOINT}", "data/evaluate/000001-*-vs-*/games.jsonl"


@LINUX
def test_killed_in_every_stage_and_run_again(quick: Run) -> None:
    """Stages are known by their files: what the loop says of training depends on where the last kill struck."""
    run = quick
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    delays = random.Random(seed)
    longer = PRESET.replace("epochs: 1,", "epochs: 60,").replace("games: 4,", "games: 200,")
    longer = longer.replace("readouts: 4,", "readouts: 100,")
    (run.folder / "tiny.yaml").write_text(longer)  # so that a kill can't miss
    kills = [
        ("init", "*", signal.SIGKILL, 0.5),
        ("selfplay", "*", signal.SIGKILL, 0.5),
        ("selfplay", "*", signal.SIGTERM, 0.5),
        ("train", "*", signal.SIGKILL, 0.3),  # in gather, unless it has ended already
        ("train", TRAINING, signal.SIGTERM, 0.3),
        ("train", TRAINING, signal.SIGKILL, 0.3),
        ("generation 1: evaluate", MATCH, signal.SIGKILL, 0.1),
    ]
    for stage, file, number, most in kills:
        process = run.start(generations=1)
        run.wait_until_said(stage, process)
        while not list(run.folder.glob(file)):
            assert process.poll() is None, run.log.read_text()
            time.sleep(0.01)
        time.sleep(delays.uniform(0, most))
        if number == signal.SIGTERM:
            process.terminate()
            assert process.wait(timeout=100) == 143
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
        assert file != TRAINING or list(run.folder.glob(file))  # it struck
    (games,) = run.folder.glob(MATCH)
    assert not (games.parent / "summary.json").exists()
    run.finish(generations=1)
    run.check(generations=1)


def test_second_copy_leaves_the_first_alone(run: Run) -> None:
    first = run.start(generations=1)
    run.wait_until_said("generation 1 of 1: selfplay", first)
    second = run.start(generations=1)
    assert second.wait(timeout=100) == 75
    assert f"process {first.pid}" in run.log.read_text()
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=100) == 130
