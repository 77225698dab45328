"""Self-play and matches on a Ray cluster: the same files as on this machine, although nodes die and join."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.run.models import set_champion
from pipeline.run.shards import newest_shards, read_shard
from pipeline.selfplay import in_workers as remote
from pipeline.selfplay.command import selfplay
from pipeline.workers import cluster as module
from tests.conftest import CACHES
from tests.helpers import make_champion, make_model
from tests.workers.selfplay_runs import Acting, numbers, selfplay_config, shards

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def pools(monkeypatch):
    """The pools that the test makes."""
    made: list[module.RayPool] = []
    init = module.RayPool.__init__

    def watched(self, *arguments, **options):
        init(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(module.RayPool, "__init__", watched)
    return made


def busiest_dies(nodes, pools, extra):
    """Returns a function that kills the node with the most games, except the head, and lets another join."""

    def act():
        busiest = max(pools[-1].workers, key=lambda one: len(one.games) if one.actor.node.id in extra else -1)
        if busiest.actor.node.id not in extra or not busiest.games:
            return False
        nodes.kill(extra.pop(busiest.actor.node.id))
        nodes.add()
        return True

    return act


def test_selfplay_writes_the_same_shards_though_the_busiest_node_dies(nodes, pools, tmp_path):
    for number in (0, 1):
        make_champion(tmp_path / "saved_models", number=number, spec="connect4", seed=number)
    here = selfplay(selfplay_config(tmp_path, "here"))
    extra = {node.node_id: node for node in (nodes.add(), nodes.add())}
    progress = Acting(8, busiest_dies(nodes, pools, extra))
    there = selfplay(selfplay_config(tmp_path, "there", runner="ray"), progress)
    assert there.games == 60 and numbers(tmp_path / "there") == list(range(60))
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert sum(meta.evaluations for meta in newest_shards(tmp_path / "there")) == there.evaluations
    assert there.evaluations >= here.evaluations
    assert there.opponents == here.opponents and len(there.opponents) == 3
    assert (there.average_length, there.first_player_wins) == (here.average_length, here.first_player_wins)
    assert progress.done and any("others play its" in line for line in progress.warnings)
    for meta in newest_shards(tmp_path / "there"):
        assert "runner" not in read_shard(meta.path, meta).header["provenance"]["config"]
        break


def test_a_cluster_of_this_machine_alone_starts_and_ends_with_the_command(tmp_path):
    """RAY_ADDRESS=local, as docs/machines.md says. Its home is new, because Ray makes a token there."""
    pytest.importorskip("ray", reason="Ray isn't installed: pip install '.[ray]'")
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    environment = {**os.environ, "RAY_ADDRESS": "local", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(CACHES)}
    environment.pop("RAY_AUTH_MODE", None)
    words = ["selfplay", "--runner", "ray", "--games", "12", "--readouts", "2", "--backend", "torch", "--seed", "1"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Ray cluster: 1 node" in done.stderr and "Traceback" not in done.stderr
    assert sum(meta.games for meta in newest_shards(tmp_path / "data/selfplay")) == 12


def test_a_promotion_reaches_new_games_within_seconds(nodes, monkeypatch, tmp_path):
    monkeypatch.setattr(remote, "UPDATE_SECONDS", 0.2)
    models = tmp_path / "saved_models"
    make_champion(models, number=0, spec="connect4")
    second = make_model(models, number=1, spec="connect4", seed=9)
    promoted = []

    def promote():
        set_champion(models, second, {"reason": "test"})
        promoted.append(time.monotonic())
        return True

    games = 200
    config = selfplay_config(
        tmp_path, "games", runner="ray", games=games, parallel_games=8, opponents="mirror=1", readouts=8
    )
    summary = selfplay(config, Acting(10, promote))
    ended = time.monotonic()
    by = Counter()
    for meta in newest_shards(tmp_path / "games"):
        by[meta.model, meta.generation] += meta.games
    assert set(by) == {("000000-test", 1), ("000001-test", 1)} and summary.model == "000001-test"
    # Games that had ended, begun or been handed over; and those that began within four seconds.
    soon = (games - 10) * 4 / (ended - promoted[0])
    assert by["000000-test", 1] <= 10 + 2 * 16 + soon


def games_of(folder: Path) -> list[dict]:
    """A match's lines without its date: the header, then the games in order."""
    lines = [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]
    lines[0].pop("created")
    return [lines[0], *sorted(lines[1:], key=json.dumps)]


def test_evaluate_comes_to_the_same_verdict_though_the_busiest_node_dies(nodes, pools, tmp_path):
    def config(name, **options):
        return EvaluateConfig(
            black_model="heuristic", white_model="random", game="go:5", games=40, seed=3, threads=1, opening_plies=3,
            output_dir=tmp_path / name, **options,
        )  # fmt: skip

    here = evaluate(config("here"))
    extra = {node.node_id: node for node in (nodes.add(),)}
    progress = Acting(2, busiest_dies(nodes, pools, extra))
    there = evaluate(config("there", runner="ray", parallel_games=12), progress)
    assert here.games_played == 40 and progress.done
    match = Path(here.match).name
    assert games_of(tmp_path / "there" / match) == games_of(tmp_path / "here" / match)
    for field in ("passed", "games_played", "wins", "draws", "losses", "failed", "reason"):
        assert getattr(there, field) == getattr(here, field), field
    assert any("its node" in line for line in progress.warnings)


def test_a_tournament_gives_the_same_ratings_and_uses_its_actors_again(nodes, pools, tmp_path):
    model = make_model(tmp_path, 0, "connect4")

    def played(name, **options):
        config = TournamentConfig(
            player=["random", "heuristic", str(model)], games=24, pairs_per_round=2, readouts=4, threads=1,
            backend="torch", output_dir=tmp_path / name / "tournament", **options,
        )  # fmt: skip
        tournament(config)
        games = {folder.name: games_of(folder) for folder in config.output_dir.iterdir() if folder.is_dir()}
        players = json.loads((tmp_path / name / "ratings.json").read_text())["players"]
        # Elo and TrueSkill go by the order of matches, which is that of the clock.
        return games, [(one["name"], one["wins"], one["losses"], round(one["bradley_terry"], 3)) for one in players]

    assert played("there", runner="ray") == played("here")
    assert len(pools) == 6 and len({worker.actor.handle for pool in pools for worker in pool.workers}) == 1


def test_the_command_finds_its_cluster(nodes, tmp_path):
    """As users start it: only its summary goes to standard output."""
    make_champion(tmp_path / "saved_models")
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "main.py"), "selfplay", "--runner", "ray", "--games", "6", "--readouts", "2",
            "--backend", "torch", "--json",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["games"] == 6
    assert "Ray cluster: 1 node with 1 CPU" in done.stderr
