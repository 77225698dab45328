"""The selfplay command: what it commits, and what it refuses."""

import errno
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero import method as alphazero
from pipeline.methods.method import FinishedGame
from pipeline.methods.resignation import NEVER, RESIGN_THRESHOLD
from pipeline.players.searching import leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.reports.show_games import show_one, show_shard
from pipeline.run import atomic
from pipeline.run.models import read_info, set_champion
from pipeline.run.shards import (
    BOTH,
    POLICY_COUNTS,
    SEARCHED,
    End,
    GameRecord,
    RunNumbers,
    newest_shards,
    read_shard,
)
from pipeline.selfplay import command as stage
from pipeline.selfplay import playing
from pipeline.selfplay.command import plies_left, selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import check_same_game
from pipeline.selfplay.numbering import Numbering
from tests.helpers import Heard, make_champion, make_model
from tests.run.random_games import random_games, write_shard
from tests.search.helpers import hashed_evaluator


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


def test_no_more_games_at_once_than_asked_for(tmp_path):
    plan, _ = stage._make_plan(
        config_for(tmp_path, threads=16, games=20, parallel_games=2),
        read_info(make_champion(tmp_path / "saved_models")),
        Numbering(RunNumbers(0, 0, 20), [*range(20)], None), {}, 0, False, SILENT,
    )  # fmt: skip
    assert (plan.threads, plan.rows) == (2, 1)


def test_more_games_than_fit_into_memory(tmp_path):
    make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match="--games 1000000000: wanted at most 10,000,000, or --background"):
        selfplay(config_for(tmp_path, games=10**9))


@pytest.mark.parametrize("algorithm", ["gumbel", "mixed"])
@pytest.mark.parametrize("option", ["forced_playouts", "noise_shape"])
def test_what_only_puct_reads_is_refused_with_others(tmp_path, algorithm, option):
    make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')}: it is PUCT's"):
        selfplay(config_for(tmp_path, algorithm=algorithm, **{option: 1.0}))


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
    assert again.games == 0 and again.note == "has its 12 games"
    make_model(models, number=1)  # trained, not promoted: the old champion plays on, for the next generation
    assert selfplay(config_for(tmp_path, games=4, top_up=True, seed=8)).games == 4


def test_games_of_a_champion_that_was_called_back_are_the_newest(tmp_path):
    models = tmp_path / "saved_models"
    first = make_champion(models, number=0)
    selfplay(config_for(tmp_path, games=3))
    make_champion(models, number=1, seed=9)
    selfplay(config_for(tmp_path, games=4, seed=6))
    set_champion(models, first, {"reason": "test"})
    selfplay(config_for(tmp_path, games=5, seed=7))
    found = [(meta.model, meta.generation) for meta in newest_shards(tmp_path / "selfplay") for _ in range(meta.games)]
    assert found == 5 * [("000000-test", 1)] + 4 * [("000001-test", 1)] + 3 * [("000000-test", 0)]
    assert selfplay(config_for(tmp_path, games=12, top_up=True, seed=8)).games == 3
    make_model(models, number=2)
    assert selfplay(config_for(tmp_path, games=6, top_up=True, seed=9)).games == 6
    assert selfplay(config_for(tmp_path, games=6, top_up=True, seed=10)).games == 0


def test_a_generation_begins_while_games_run(tmp_path, monkeypatch):
    """A model is trained meanwhile but not promoted. Games that begin afterwards are of its generation."""
    monkeypatch.setattr("pipeline.run.models.QUICK_SECONDS", 60)  # each game looks, however slow this machine is
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    before_games(monkeypatch, 20, lambda: (models / "000004-test").exists() or make_model(models, number=4))
    selfplay(config_for(tmp_path, games=30, threads=1))
    games = Counter()
    for meta in newest_shards(tmp_path / "selfplay"):
        games[meta.path.parts[-3], meta.generation] += meta.games
        assert read_shard(meta.path, meta).header["provenance"]["generation"] == meta.generation
    assert games == {("000000-test", 0): 20, ("000004+000000-test", 4): 10}


def numbers_in(directory: Path, worker: str = "w00") -> list[int]:
    metas = [meta for meta in newest_shards(directory) if meta.worker == worker]
    return sorted(number for meta in metas for number in meta.numbers.tolist())


def test_a_second_run_with_the_same_seed_goes_on(tmp_path):
    make_champion(tmp_path / "saved_models")
    selfplay(config_for(tmp_path, games=7))
    selfplay(config_for(tmp_path, games=5))
    assert numbers_in(tmp_path / "selfplay") == list(range(12))
    selfplay(config_for(tmp_path, games=12, output_dir=tmp_path / "at_once"))
    assert all_games(tmp_path / "selfplay").keys() == all_games(tmp_path / "at_once").keys()
    selfplay(config_for(tmp_path, games=15, top_up=True))
    make_model(tmp_path / "saved_models", number=1)
    selfplay(config_for(tmp_path, games=6, top_up=True))  # the next generation plays others, too
    assert numbers_in(tmp_path / "selfplay") == list(range(21)) and len(all_games(tmp_path / "selfplay")) == 21


def test_workers_with_the_same_seed_play_different_games(tmp_path):
    make_champion(tmp_path / "saved_models")
    for worker in ("w00", "w01", "w10"):
        selfplay(config_for(tmp_path, games=5, worker=worker))
        assert numbers_in(tmp_path / "selfplay", worker) == list(range(5))
    assert len(all_games(tmp_path / "selfplay")) == 15


@pytest.mark.parametrize("top_up", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_was_cut_off_plays_what_is_missing(tmp_path, monkeypatch, hashed_networks, top_up, threads):
    """After two kills the games are those of an undisturbed run."""
    make_champion(tmp_path / "saved_models")
    settings = {"games": 30, "threads": threads, "parallel_games": 8, "commit_seconds": 0.0}
    selfplay(config_for(tmp_path, output_dir=tmp_path / "undisturbed", **settings))
    for die_at in (22, 12):
        with monkeypatch.context() as patch:
            before_games(patch, die_at, lambda: (_ for _ in ()).throw(MuGoError("killed")))
            with pytest.raises(MuGoError, match="killed"):
                selfplay(config_for(tmp_path, top_up=top_up, **settings))
    played = numbers_in(tmp_path / "selfplay")
    assert threads > 1 or played != list(range(len(played)))  # there are gaps; two threads may leave none by chance
    missing = 30 - len(played)
    selfplay(config_for(tmp_path, top_up=top_up, **settings | ({} if top_up else {"games": missing})))
    assert numbers_in(tmp_path / "selfplay") == list(range(30))
    assert all_games(tmp_path / "selfplay") == all_games(tmp_path / "undisturbed")


def test_the_threshold_of_a_run_that_was_cut_off_stays_in_force(tmp_path, monkeypatch):
    make_champion(tmp_path / "saved_models")
    settings = {"games": 30, "resign_false_rate": 0.2, "no_resign_fraction": 1.0, "top_up": True}
    settings["resign_threshold"] = -0.9  # a calibration would give another one
    monkeypatch.setattr(stage.resignation, "MIN_GAMES", 5)
    with monkeypatch.context() as patch:
        before_games(patch, 20, lambda: (_ for _ in ()).throw(MuGoError("killed")))
        with pytest.raises(MuGoError, match="killed"):
            selfplay(config_for(tmp_path, **settings))  # none to calibrate by
    selfplay(config_for(tmp_path, **settings))  # there would be enough by now
    headers = [read_shard(meta.path, meta).header for meta in newest_shards(tmp_path / "selfplay")]
    found = {header["provenance"][RESIGN_THRESHOLD] for header in headers}
    assert found == {-0.9}


def test_one_process_at_a_time_plays_as_a_worker(tmp_path):
    make_champion(tmp_path / "saved_models")
    with atomic.file_lock(tmp_path / "selfplay/w00"):
        with pytest.raises(NotYet, match=r"another process plays as worker w00; .* choose another --worker"):
            selfplay(config_for(tmp_path))
        assert selfplay(config_for(tmp_path, worker="w01")).games == 20
    assert selfplay(config_for(tmp_path)).games == 20


def test_a_sidecar_that_cannot_be_read_is_not_counted(tmp_path):
    """Such a sidecar used to end every --top-up."""
    make_champion(tmp_path / "saved_models")
    selfplay(config_for(tmp_path, games=6, commit_seconds=0))
    bad = next(newest_shards(tmp_path / "selfplay"))
    bad.path.with_suffix(".meta").write_text("{")
    told = Heard()
    summary = selfplay(config_for(tmp_path, games=6, top_up=True), told)
    assert summary.games == 1 and len(told.warned) == 1 and bad.path.stem in told.warned[0]
    assert selfplay(config_for(tmp_path, games=6, top_up=True)).games == 0


def before_games(monkeypatch, number, act):
    """Call act() before each game from this number on gets its player; games count from 1 in the order of starts."""
    real, calls = playing.ModelSource.player, []

    def player(self, thread):
        calls.append(thread)
        if len(calls) >= number:
            act()
        return real(self, thread)

    monkeypatch.setattr(playing.ModelSource, "player", player)


def test_a_promotion_takes_effect_when_the_next_game_begins_and_in_all_under_way(tmp_path, monkeypatch):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    second = make_model(models, number=1, seed=9)
    before_games(monkeypatch, 20, lambda: set_champion(models, second, {"reason": "test"}))
    assert selfplay(config_for(tmp_path, games=40, threads=1)).games == 40
    by_model = {}
    for meta in newest_shards(tmp_path / "selfplay"):
        by_model[meta.model] = by_model.get(meta.model, 0) + meta.games
    assert set(by_model) == {"000000-test", "000001-test"}
    assert 21 < by_model["000001-test"] <= 28  # the twentieth and what comes then, and up to 7 under way


def test_a_promoted_model_of_another_game_ends_the_command_and_no_game_is_lost(tmp_path, monkeypatch):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    other = make_model(models, number=1, spec="connect4")
    before_games(monkeypatch, 20, lambda: set_champion(models, other, {"reason": "test"}))
    with pytest.raises(MuGoError, match=r"000001-test: plays connect4 .*, the games under way are tictactoe"):
        selfplay(config_for(tmp_path, games=40, threads=1))
    assert 12 <= len(all_games(tmp_path / "selfplay")) < 20


def test_a_missing_model_is_an_error_and_plays_nothing(tmp_path):
    with pytest.raises(FileError, match="best_model"):
        selfplay(config_for(tmp_path))
    assert not (tmp_path / "selfplay").exists()


def test_games_of_another_board_do_not_go_into_the_same_folder(tmp_path):
    make_champion(tmp_path / "saved_models")
    selfplay(config_for(tmp_path, games=2))
    before = sorted((tmp_path / "selfplay").rglob("*"))
    other = make_model(tmp_path / "others", spec="connect4")
    with pytest.raises(FileError, match=r"holds games of tictactoe .*, these would be of connect4; wanted a folder"):
        selfplay(config_for(tmp_path, network=other))
    assert sorted((tmp_path / "selfplay").rglob("*")) == before
    selfplay(config_for(tmp_path, network=other, output_dir=tmp_path / "elsewhere", games=2))


def test_a_sidecar_that_names_an_unknown_game_is_passed_over_unless_all_do(tmp_path):
    folder = tmp_path / "selfplay"
    for number, game in enumerate(("tictactoe", "tictactoe", "ticta\x7ftoe")):
        path = write_shard(folder, f"00000{number}-a", "w00", game, random_games(parse_game("tictactoe"), 1), {})
    check_same_game(folder, "tictactoe")
    with pytest.raises(FileError, match="holds games of tictactoe"):
        check_same_game(folder, "connect4")
    shutil.rmtree(folder / "000000-a")
    shutil.rmtree(folder / "000001-a")
    with pytest.raises(FileError, match=rf"{path.stem}\.meta: .*unknown name"):
        check_same_game(folder, "tictactoe")


def test_a_flipped_bit_in_the_weights_is_an_error(tmp_path):
    path = make_champion(tmp_path / "saved_models") / "weights.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[-9] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(FileError, match="checksum"):
        selfplay(config_for(tmp_path))


def test_sidecars_say_how_many_evaluations_there_were(tmp_path):
    make_champion(tmp_path / "saved_models")
    config = config_for(tmp_path, games=6, readouts=8, commit_seconds=0)
    summary = selfplay(config)
    metas = list(newest_shards(tmp_path / "selfplay"))
    assert len(metas) > 1 and sum(meta.evaluations for meta in metas) == summary.evaluations > 0


@pytest.mark.parametrize("writes_before", [0, 1, 4])
def test_when_the_disk_is_full_the_error_is_raised_and_nothing_is_half_written(tmp_path, monkeypatch, writes_before):
    make_champion(tmp_path / "saved_models")
    write, calls = os.write, []

    def fail(descriptor, data):
        calls.append(descriptor)
        if len(calls) > writes_before:
            raise OSError(errno.ENOSPC, "")
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(FileError, match="disk is full"):
            selfplay(config_for(tmp_path, games=30, commit_seconds=0))
    assert not list((tmp_path / "selfplay").rglob("*.tmp*"))
    for meta in newest_shards(tmp_path / "selfplay"):
        read_shard(meta.path, meta)
    selfplay(config_for(tmp_path, games=30, top_up=True))
    assert numbers_in(tmp_path / "selfplay") == list(range(30))


def test_an_error_in_an_actor_is_raised_after_its_finished_games_are_committed(tmp_path, monkeypatch):
    make_champion(tmp_path / "saved_models")

    def fail():
        raise MuGoError("the model went away")

    before_games(monkeypatch, 16, fail)
    with pytest.raises(MuGoError, match="went away"):
        selfplay(config_for(tmp_path, games=30))
    assert 1 <= len(all_games(tmp_path / "selfplay")) <= 15


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_leaves_whole_shards(workshop, tmp_path, how):
    make_champion(tmp_path / "saved_models", spec="connect4")
    output = tmp_path / "selfplay"
    options = f"--network {tmp_path}/saved_models/best_model --output-dir {output} --backend torch --parallel-games 16"
    options += " --games 1000000 --readouts 8 --commit-seconds 0.1"
    running = workshop.start(["selfplay", *options.split()], tmp_path)
    deadline = time.monotonic() + 60
    while not list(newest_shards(output)) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.signal(how)
    done = running.wait(60)
    assert done.code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[how], done.said
    before = len(all_games(output))  # reads and checks every shard
    assert before > 0
    if how is not signal.SIGKILL:
        assert not [
            path for path in output.rglob("*") if path.is_file() and path.suffix not in (".gz", ".meta", ".lock")
        ]


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


# Opponents


@pytest.fixture
def hashed_networks(monkeypatch):
    """A model's answers depend only on its number and the position, not on the rest of the batch."""

    def load(model, max_batch, num_threads, backend, progress):
        return [hashed_evaluator(parse_game(model.info.game), model.info.number)] * num_threads

    monkeypatch.setattr(alphazero, "load_with_margins", load)


def records_in(directory: Path) -> list[GameRecord]:
    shards = (read_shard(meta.path, meta) for meta in newest_shards(directory))
    return [shard.game(index) for shard in shards for index in range(shard.num_games)]


def test_the_mix_is_played_and_counted(tmp_path):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    make_champion(models, number=1, seed=9)
    config = config_for(tmp_path, games=60, opponents="random=2,previous=1,heuristic=1,mirror=1", commit_seconds=60)
    summary = selfplay(config)
    records = records_in(config.output_dir)
    assert {meta.model for meta in newest_shards(config.output_dir)} == {"000001-test"}
    assert set(summary.opponents) == {"000000-test", "heuristic", "mirror", "random"}
    for name, counts in summary.opponents.items():
        games = [record for record in records if (record.opponent or "mirror") == name]
        assert counts["games"] == len(games)
        if name != "mirror":
            results = [(1 - 2 * record.learner) * record.result_first_player for record in games]
            assert [counts["wins"], counts["draws"], counts["losses"]] == [results.count(r) for r in (1, 0, -1)]
    assert summary.games == 60 == sum(counts["games"] for counts in summary.opponents.values())
    index = next(i for i, record in enumerate(records) if record.opponent)
    text = "\n".join(show_one(next(newest_shards(config.output_dir)).path, index, False))
    assert records[index].opponent in text and "no policy target" in text
    assert "is random" in "\n".join(show_shard(next(newest_shards(config.output_dir)).path))


def test_without_opponents_nothing_is_said_of_them(tmp_path):
    make_champion(tmp_path / "saved_models")
    assert selfplay(config_for(tmp_path, opponents="champion=2,mirror=1")).opponents == {}
    assert all(record.learner == BOTH for record in records_in(tmp_path / "selfplay"))


def test_random_alone(tmp_path):
    make_champion(tmp_path / "saved_models")
    summary = selfplay(config_for(tmp_path, opponents="random=1", games=30))
    assert list(summary.opponents) == ["random"] and summary.opponents["random"]["games"] == 30
    records = records_in(tmp_path / "selfplay")
    assert {record.learner for record in records} == {0, 1}
    assert len({record.moves.tobytes() for record in records}) > 20


def test_games_against_opponents_are_the_same_for_any_number_of_threads(tmp_path, hashed_networks):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    make_champion(models, number=1)
    mix = {"opponents": "random=1,previous=1,mirror=1", "games": 30, "parallel_games": 30}
    selfplay(config_for(tmp_path, threads=1, output_dir=tmp_path / "a", **mix))
    selfplay(config_for(tmp_path, threads=2, output_dir=tmp_path / "b", **mix))
    assert len(all_games(tmp_path / "a")) == 30 and all_games(tmp_path / "a") == all_games(tmp_path / "b")
    selfplay(config_for(tmp_path, threads=2, output_dir=tmp_path / "c", **(mix | {"opponents": "mirror=1"})))
    mirror = {record.game_id for record in records_in(tmp_path / "a") if record.opponent is None}
    plain = all_games(tmp_path / "c")
    assert {key: plain[key] for key in mirror} == {key: all_games(tmp_path / "a")[key] for key in mirror}


def test_a_promotion_gives_new_games_a_new_predecessor(tmp_path, monkeypatch, hashed_networks):
    models = tmp_path / "saved_models"
    make_champion(models, number=0)
    make_champion(models, number=1)
    third = make_model(models, number=2)
    before_games(monkeypatch, 20, lambda: set_champion(models, third, {"reason": "test"}))
    summary = selfplay(config_for(tmp_path, games=40, threads=1, opponents="previous=1"))
    assert {name: counts["games"] for name, counts in summary.opponents.items()} == {
        "000000-test": 19, "000001-test": 21
    }  # fmt: skip
    for meta in newest_shards(tmp_path / "selfplay"):
        assert read_shard(meta.path).header["opponents"] == [f"{int(meta.model[:6]) - 1:06d}-test"]


def test_an_interrupt_keeps_the_finished_games(tmp_path, hashed_networks):
    class Impatient(Progress):
        advanced = 0

        def advance(self, count=1):
            self.advanced += count
            if self.advanced == 10:
                raise KeyboardInterrupt

    make_champion(tmp_path / "saved_models")
    config = config_for(tmp_path, games=100_000, opponents="random=1,mirror=1", commit_seconds=100.0)
    with pytest.raises(KeyboardInterrupt):
        selfplay(config, Impatient())
    records = records_in(tmp_path / "selfplay")  # whole shards
    assert len(records) >= 10 and {record.opponent for record in records} == {None, "random"}


def test_a_mix_that_cannot_be_played_is_refused_before_the_first_game(tmp_path):
    make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match="entry 'gtp:gnugo=1'"):
        selfplay(config_for(tmp_path, opponents="gtp:gnugo=1"))
    assert not (tmp_path / "selfplay").exists()


# Full and cheap moves, resignation


def test_full_and_cheap_moves(tmp_path):
    make_champion(tmp_path / "saved_models")
    summary = selfplay(
        config_for(
            tmp_path, games=40, readouts=32, full_search_fraction=0.25, cheap_readouts=4, commit_seconds=60, threads=1
        )
    )
    records = records_in(tmp_path / "selfplay")
    flags = np.concatenate([record.flags & POLICY_COUNTS for record in records])
    assert summary.games == 40 and 0.1 < flags.mean() < 0.4
    assert summary.evaluations < 40 * 9 * 20
    path = next(newest_shards(tmp_path / "selfplay")).path
    shard = read_shard(path)
    both = next(i for i in range(shard.num_games) if set(shard.game(i).flags.tolist()) == {0, POLICY_COUNTS | SEARCHED})
    text = "\n".join(show_one(path, both, False))
    assert "   cheap search, " in text and "   surprise 0." in text


def test_few_leaves_of_a_tree_wait_where_searches_are_cheap(tmp_path):
    options = {"readouts": 64, "cheap_readouts": 16}
    assert min(config_for(tmp_path, **options).readouts_of_searches()) == 64
    assert min(config_for(tmp_path, full_search_fraction=0.5, **options).readouts_of_searches()) == 16
    raw_moves = config_for(tmp_path, full_search_fraction=0.5, readouts=64)  # don't search
    assert min(raw_moves.readouts_of_searches()) == 64
    assert min(config_for(tmp_path, decided_value=0.9, decided_readouts=4, **options).readouts_of_searches()) == 4


@pytest.fixture
def hopeless_network(monkeypatch):
    """The first player's values are always very low, even if it wins."""

    def load(model, max_batch, num_threads, backend, progress):
        game = parse_game(model.info.game)
        hashed = hashed_evaluator(game)

        def evaluate(planes):
            first = planes[:, 0].sum(axis=(1, 2)) == planes[:, 1].sum(axis=(1, 2))  # as many stones of either side
            return hashed(planes)[0], np.where(first, -0.95, 0.95).astype(np.float32)

        return [evaluate] * num_threads

    monkeypatch.setattr(alphazero, "load_with_margins", load)


def test_false_resignations_are_measured_and_calibrated_away(tmp_path, hopeless_network):
    make_champion(tmp_path / "saved_models")
    base = {"readouts": 0, "resign_false_rate": 0.05, "no_resign_fraction": 0.5, "games": 120}
    heard = []

    class Listener(Progress):
        def say(self, text):
            heard.append(text)

    first = selfplay(config_for(tmp_path, resign_threshold=-0.9, **base), Listener())
    assert first.calibration == {} and first.resign_threshold == -0.9 and first.resigned > 30
    assert any("0 games that never resigned; wanted 50" in text for text in heard)
    assert first.no_resign_games == first.would_be_resignations > 40
    assert first.false_resignations > 0.2 * first.would_be_resignations
    second = selfplay(config_for(tmp_path, resign_threshold=-0.9, seed=6, **base), Listener())
    assert second.resign_threshold == NEVER and second.resigned == 0 and second.would_be_resignations == 0
    measured = second.calibration
    assert measured["games"] == first.no_resign_games
    if measured["resignations"]:
        assert measured["wrong_share"] == measured["wrong_resignations"] / measured["resignations"] > 0.05
    meta = next(newest_shards(tmp_path / "selfplay"))
    provenance = read_shard(meta.path).header["provenance"]
    assert provenance[RESIGN_THRESHOLD] == NEVER and provenance["resign_calibration"] == measured
    third = selfplay(config_for(tmp_path, seed=7, **base))
    assert third.calibration["games"] == first.no_resign_games + 120  # of a run in which nobody resigned all count


@pytest.fixture
def honest_network(monkeypatch):
    """Sees that the player to move is lost if it has fewer stones."""

    def load(model, max_batch, num_threads, backend, progress):
        hashed = hashed_evaluator(parse_game(model.info.game))

        def evaluate(planes):
            own, other = planes[:, 0].sum(axis=(1, 2)), planes[:, 1].sum(axis=(1, 2))
            return hashed(planes)[0], np.where(own < other, -0.95, 0.0).astype(np.float32)

        return [evaluate] * num_threads

    monkeypatch.setattr(alphazero, "load_with_margins", load)


def test_the_second_player_resigns_by_a_calibrated_threshold(tmp_path, honest_network, monkeypatch):
    """The second player's values say that it is lost, which is right in the games that it lost."""
    make_champion(tmp_path / "saved_models")
    played = selfplay(config_for(tmp_path, readouts=0, games=150))
    assert played.resign_threshold == NEVER
    all_lost = stage.resignation.newest_games

    def lost_by_the_second(directory, game):
        return [g for g in all_lost(directory, game) if g.result_first_player > 0]

    monkeypatch.setattr(stage.resignation, "newest_games", lost_by_the_second)
    summary = selfplay(config_for(tmp_path, readouts=0, games=30, resign_false_rate=0.05, worker="w01", seed=9))
    assert summary.resign_threshold == -0.8 and summary.resigned > 15
    assert summary.calibration["wrong_resignations"] == 0 < summary.calibration["wrong_share_at_most"] < 0.05
    resigned = [r for r in records_in(tmp_path / "selfplay") if r.end == End.RESIGNED]
    assert {r.result_first_player for r in resigned} == {1.0}


def test_false_resignations_of_games_against_opponents_do_not_count(tmp_path, hopeless_network):
    make_champion(tmp_path / "saved_models")
    options = {"readouts": 0, "resign_threshold": -0.9, "no_resign_fraction": 1.0, "games": 40}
    summary = selfplay(config_for(tmp_path, opponents="random=1", **options))
    assert summary.games == 40
    assert (summary.no_resign_games, summary.would_be_resignations, summary.false_resignations) == (0, 0, 0)


def test_bounds_that_contradict_each_other(tmp_path):
    make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match=r"--resign-lowest: -0\.5 is above --resign-highest"):
        selfplay(config_for(tmp_path, resign_lowest=-0.5))
    with pytest.raises(UsageError, match=r"--resign-false-rate 0\.05: .*wanted --no-resign-fraction above 0"):
        selfplay(config_for(tmp_path, resign_false_rate=0.05, no_resign_fraction=0.0))
    assert not (tmp_path / "selfplay").exists()


def test_wrong_options_are_found_before_a_cluster_is_looked_for(tmp_path):
    make_champion(tmp_path / "saved_models")
    with pytest.raises(UsageError, match="--pass-after: nobody passes in"):
        selfplay(config_for(tmp_path, runner="ray", pass_after=0.5))


def test_an_output_that_cannot_be_written_is_noticed_before_the_first_game(tmp_path, monkeypatch):
    make_champion(tmp_path / "saved_models")
    (tmp_path / "selfplay").write_text("a file")
    monkeypatch.setattr(playing, "GameThreads", lambda *arguments: pytest.fail("played"))
    with pytest.raises(FileError, match=r"wanted a directory|a part of its path is a file"):
        selfplay(config_for(tmp_path))


def test_points_against_an_opponent() -> None:
    tally = stage._Tally({2.0: "gammon", 3.0: "backgammon"})
    for result, learner in ((2.0, 0), (-3.0, 1), (1.0, 1)):
        record = GameRecord(
            game_id=1, moves=np.zeros(4, int), result_first_player=result, opponent="random", learner=learner
        )
        tally.add(FinishedGame(record, "a", -1, np.zeros(1, np.int16)))
    assert tally.opponents["random"] == {"games": 3, "wins": 2, "draws": 0, "losses": 1, "points": 4.0}
    summary = tally.summary("a")
    assert summary.points_per_game == 0.0 and summary.big_wins == {"gammon": 1, "backgammon": 1}
    assert summary.lines()[2:] == [
        "the first player won 66.7 % and +0.00 points a game, 33.3 % gammons, 33.3 % backgammons",
        "against random: 3 games: 2 won, 0 drawn, 1 lost, +1.33 points a game",
    ]


@pytest.mark.parametrize(
    ("total", "ended", "positions", "live", "plies", "left"),
    [
        (1000, 0, 0, 256, 5000, None),  # nothing has ended
        (1000, 3, 60, 256, 256 * 40, None),  # the first, short ones, say nothing about the others
        (1000, 128, 128 * 40, 128, 128 * 40 + 128 * 60, (1000 - 256) * 60),  # as long as those in progress at least
        (1000, 600, 600 * 70, 200, 600 * 70 + 200 * 30, 1000 * 70 - 48_000),
        (1000, 999, 999 * 70, 1, 999 * 70 + 69, 1),
        (1000, 999, 999 * 70, 1, 999 * 70 + 90, None),  # the last game is the longest
    ],
)
def test_what_is_left_is_told_by_positions(total, ended, positions, live, plies, left):
    assert plies_left(total, ended, positions, live, plies) == left
