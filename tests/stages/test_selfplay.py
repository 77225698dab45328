"""The selfplay stage: what it commits, and what it refuses."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.config import SelfplayConfig
from pipeline.errors import FileError, MuGoError
from pipeline.records.models import set_champion
from pipeline.records.shards import newest_shards, read_shard
from pipeline.stages import selfplay as stage
from pipeline.stages.selfplay import leaves_per_tree, selfplay
from tests.stages.helpers import make_champion, make_model


def config_for(tmp_path: Path, **options) -> SelfplayConfig:
    settings = {
        "network": tmp_path / "saved_models" / "best_model",
        "output_dir": tmp_path / "selfplay",
        "games": 20,
        "readouts": 4,
        "parallel_games": 8,
        "backend": "torch",
        "seed": 5,
    }
    return SelfplayConfig(**(settings | options))


def all_games(directory: Path) -> dict[int, bytes]:
    games = {}
    for meta in newest_shards(directory):
        shard = read_shard(meta.path, meta)
        for index in range(shard.num_games):
            record = shard.game(index)
            games[record.game_id] = record.moves.tobytes() + record.visit_counts.tobytes()
    return games


def test_games_arrive_with_sidecars_and_say_who_played(tmp_path):
    make_champion(tmp_path / "saved_models", number=3)
    summary = selfplay(config_for(tmp_path))
    metas = list(newest_shards(tmp_path / "selfplay"))
    assert summary.games == sum(meta.games for meta in metas) == 20
    assert summary.positions == sum(meta.positions for meta in metas)
    assert {meta.model for meta in metas} == {"000003-test"} and {meta.generation for meta in metas} == {3}
    assert {meta.path.parent.name for meta in metas} == {"w00"}
    header = read_shard(metas[0].path, metas[0]).header
    assert header["provenance"]["seed"] == 5 and header["provenance"]["config"]["readouts"] == 4


def test_the_same_seed_gives_the_same_games_for_any_number_of_threads(tmp_path):
    make_champion(tmp_path / "saved_models")
    first = config_for(tmp_path, threads=1, games=12, parallel_games=12, output_dir=tmp_path / "a")
    second = config_for(tmp_path, threads=2, games=12, parallel_games=12, output_dir=tmp_path / "b")
    selfplay(first)
    selfplay(second)
    assert len(all_games(tmp_path / "a")) == 12
    assert set(all_games(tmp_path / "a")) == set(all_games(tmp_path / "b"))
    third = config_for(tmp_path, threads=2, games=12, parallel_games=12, output_dir=tmp_path / "c")
    selfplay(third)
    assert all_games(tmp_path / "b") == all_games(tmp_path / "c")


def test_without_a_seed_every_run_is_new(tmp_path):
    make_champion(tmp_path / "saved_models")
    selfplay(config_for(tmp_path, seed=None))
    selfplay(config_for(tmp_path, seed=None))
    assert len(all_games(tmp_path / "selfplay")) == 40


def test_commit_seconds_zero_makes_a_shard_of_each_game(tmp_path):
    make_champion(tmp_path / "saved_models")
    summary = selfplay(config_for(tmp_path, commit_seconds=0.0))
    assert summary.shards == 20 == len(list(newest_shards(tmp_path / "selfplay")))
    assert selfplay(config_for(tmp_path, commit_seconds=3600.0, worker="w01")).shards == 1


def test_readouts_zero_works(tmp_path):
    make_champion(tmp_path / "saved_models")
    assert selfplay(config_for(tmp_path, readouts=0)).games == 20


def test_top_up_plays_what_is_missing_in_this_generation(tmp_path):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    selfplay(config_for(tmp_path, games=5))
    assert selfplay(config_for(tmp_path, games=12, top_up=True, seed=6)).games == 7
    again = selfplay(config_for(tmp_path, games=12, top_up=True))
    assert again.games == 0 and "already" in again.note
    make_model(models, number=1)  # trained, not promoted: the old champion plays on, for the next generation
    assert selfplay(config_for(tmp_path, games=4, top_up=True, seed=8)).games == 4


def test_a_promotion_takes_effect_with_the_next_game(tmp_path, monkeypatch):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    second = make_model(models, number=1, seed=9)
    real, calls = stage.ModelSource.player, []

    def promoting(self, lane):
        calls.append(lane)
        if len(calls) == 20:
            set_champion(models, second, {"reason": "test"})
        return real(self, lane)

    monkeypatch.setattr(stage.ModelSource, "player", promoting)
    assert selfplay(config_for(tmp_path, games=40, threads=1)).games == 40
    by_model = {}
    for meta in newest_shards(tmp_path / "selfplay"):
        by_model[meta.model] = by_model.get(meta.model, 0) + meta.games
    assert set(by_model) == {"000000-test", "000001-test"}
    assert by_model["000001-test"] == 21


def test_a_missing_model_is_an_error_and_plays_nothing(tmp_path):
    with pytest.raises(FileError, match="best_model"):
        selfplay(config_for(tmp_path))
    assert not (tmp_path / "selfplay").exists()


def test_a_flipped_bit_in_the_weights_is_an_error(tmp_path):
    path = make_champion(tmp_path / "saved_models") / "weights.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[-9] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(FileError, match="checksum"):
        selfplay(config_for(tmp_path))


def test_when_the_disk_is_full_the_error_is_raised_and_nothing_is_half_written(tmp_path, monkeypatch):
    make_champion(tmp_path / "saved_models")

    def full(*args, **kwargs):
        raise FileError(tmp_path, "the disk is full")

    monkeypatch.setattr(stage, "write_shard", full)
    with pytest.raises(FileError, match="full"):
        selfplay(config_for(tmp_path))


def test_an_error_in_a_lane_is_raised_after_its_finished_games_are_committed(tmp_path, monkeypatch):
    make_champion(tmp_path / "saved_models")
    real, calls = stage.ModelSource.player, []

    def failing(self, lane):
        calls.append(lane)
        if len(calls) > 15:
            raise MuGoError("the model went away")
        return real(self, lane)

    monkeypatch.setattr(stage.ModelSource, "player", failing)
    with pytest.raises(MuGoError, match="went away"):
        selfplay(config_for(tmp_path, games=30))
    assert 1 <= len(all_games(tmp_path / "selfplay")) <= 15


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_leaves_whole_shards(tmp_path, how):
    make_champion(tmp_path / "saved_models", spec="connect4")
    output = tmp_path / "selfplay"
    options = f"--network {tmp_path}/saved_models/best_model --output-dir {output} --backend torch --parallel-games 16"
    command = [sys.executable, "main.py", "selfplay", *options.split()]
    command += ["--games", "1000000", "--readouts", "8", "--commit-seconds", "0.1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 60
    while not list(newest_shards(output)) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[how], errors
    before = len(all_games(output))  # reads and checks every shard
    assert before > 0
    if how is not signal.SIGKILL:
        assert not [path for path in output.rglob("*") if path.is_file() and path.suffix not in (".gz", ".meta")]


def test_leaves_of_one_tree_fill_the_batch_only_where_games_are_few():
    assert leaves_per_tree(128, 800) == 1
    assert leaves_per_tree(1, 800) == 8
    assert leaves_per_tree(1, 32) == 2
    assert leaves_per_tree(1, 0) == 1


def test_one_game_with_many_readouts(tmp_path):
    make_champion(tmp_path / "saved_models")
    config = config_for(tmp_path, games=1, readouts=64)
    assert selfplay(config).games == 1
    (meta,) = newest_shards(config.output_dir)
    record = read_shard(meta.path, meta).game(0)
    assert record.visit_counts[: record.visit_lengths[0]].sum() == 64
    assert np.isfinite(record.root_values).all()
