from __future__ import annotations

import base64
import errno
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.gather import command as gather_module
from pipeline.gather import extraction
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import holdout_games, scan_window
from pipeline.methods.alphazero.examples import column_types
from pipeline.run import atomic, layout
from pipeline.run.chunks import ORIGIN, Chunk, ChunkSet, check_holdout, newest_complete_set, read_chunk, read_header
from pipeline.run.order import Counted
from pipeline.run.shards import POLICY_COUNTS, SEARCHED, newest_shards, read_meta, read_shard
from tests.families import having
from tests.helpers import Heard, make_model
from tests.run.random_games import random_games, random_shards, write_shard

GAME = parse_game("tictactoe")


def config(tmp_path: Path, **options: Any) -> GatherConfig:
    defaults = {
        "directory": tmp_path / "selfplay",
        "output_directory": tmp_path / "chunks",
        "positions_per_chunk": 64,
        "chunks_to_make": 8,
        "holdout_fraction": 0.1,
    }
    return GatherConfig(**{**defaults, **options})


@pytest.fixture
def selfplay(tmp_path: Path) -> Path:
    """20 shards of 8 games of tic-tac-toe: about 1,200 positions."""
    random_shards(tmp_path / "selfplay", GAME, 20, 8)
    return tmp_path / "selfplay"


def chunks_of(folder: Path) -> list[Chunk]:
    found = newest_complete_set(folder)
    assert found is not None
    return [read_chunk(path, GAME.spec, column_types(GAME)) for path in found.chunks]


def holdout_of(folder: Path) -> Chunk:
    found = newest_complete_set(folder)
    assert found is not None and found.holdout is not None
    return read_chunk(found.holdout, GAME.spec, column_types(GAME))


def positions(chunk: Chunk) -> list[tuple[str, int, int]]:
    columns = chunk.columns
    return [
        (chunk.shards[shard], int(game), int(ply))
        for shard, game, ply in zip(columns["shard"], columns["game"], columns["ply"], strict=True)
    ]


def content(folder: Path) -> dict[str, bytes]:
    """Every file a person or a stage could see."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


# What is made


def test_chunks_are_full_and_no_position_occurs_twice(tmp_path: Path, selfplay: Path) -> None:
    summary = gather(config(tmp_path))
    chunks = chunks_of(tmp_path / "chunks")
    assert (summary.chunks, summary.chunks_made, summary.positions) == (8, 8, 512)
    assert [chunk.num_examples for chunk in chunks] == [64] * 8
    assert [chunk.header.index for chunk in chunks] == list(range(8))
    seen = [position for chunk in chunks for position in positions(chunk)]
    assert len(set(seen)) == 512
    held = positions(holdout_of(tmp_path / "chunks"))
    assert summary.holdout_positions == len(held) > 0
    assert not {position[:2] for position in held} & {position[:2] for position in seen}
    assert summary.window_positions == sum(meta.positions for meta in newest_shards(selfplay))
    assert (summary.window_games, summary.window_shards, summary.shards_read) == (160, 20, 20)


def test_examples_are_those_of_their_games(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    for chunk in (*chunks_of(tmp_path / "chunks"), holdout_of(tmp_path / "chunks")):
        for row, (name, index, ply) in enumerate(positions(chunk)):
            record = read_shard(selfplay / name).game(index)
            sign = 1 if ply % 2 == 0 else -1
            assert chunk.columns["value"][row] == sign * record.result_first_player
            planes = np.unpackbits(chunk.columns["planes"][row])[: GAME.num_planes * 9].reshape(-1, 9)
            assert int(planes[:2].sum()) == ply  # own and opponent's stones
            first = int(record.visit_lengths[:ply].sum())
            visited = record.visit_actions[first : first + int(record.visit_lengths[ply])]
            assert set(np.flatnonzero(chunk.columns["policy"][row])) == set(visited.tolist())


def test_every_position_is_as_likely(tmp_path: Path, selfplay: Path) -> None:
    counts: Counter[tuple[str, int, int]] = Counter()
    per_chunk: Counter[int] = Counter()
    for seed in range(20):
        folder = tmp_path / f"chunks{seed}"
        gather(config(tmp_path, output_directory=folder, seed=seed, chunks_to_make=4, holdout_fraction=0.0))
        for chunk in chunks_of(folder):
            counts.update(positions(chunk))
            per_chunk.update({chunk.header.index: sum(ply == 0 for _, _, ply in positions(chunk))})
    total = sum(meta.positions for meta in newest_shards(selfplay))
    found = np.array(list(counts.values()) + [0] * (total - len(counts)), float)
    share = 256 / total
    statistic = float(((found - found.mean()) ** 2 / found.mean()).sum()) / (1 - share)
    deviations = (statistic - (total - 1)) / np.sqrt(2 * (total - 1))
    assert abs(deviations) < 4.5  # χ² of many degrees of freedom is nearly normal
    assert chisquare([per_chunk[index] for index in range(4)]).pvalue > 1e-4
    shares = [sum(counts[position] for position in counts if position[2] == ply) for ply in range(5)]
    assert chisquare(shares).pvalue > 1e-4  # every game has plies 0 to 4


def test_games_are_shuffled_across_chunks_and_rows(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    for chunk in chunks_of(tmp_path / "chunks"):
        names = [name for name, _, _ in positions(chunk)]
        assert len(set(names)) >= 15  # of 20 shards
        assert sum(a == b for a, b in itertools.pairwise(names)) < 15  # 3 expected; 63 were they in order


def test_the_window_is_the_newest_positions(tmp_path: Path) -> None:
    old = random_shards(tmp_path / "selfplay", GAME, 5, 8, seed=1, model="000001-a")
    new = random_shards(tmp_path / "selfplay", GAME, 5, 8, seed=2, model="000002-b")
    inside = sum(read_meta(path).positions for path in new)
    summary = gather(config(tmp_path, max_positions=inside + 3, chunks_to_make=1, positions_per_chunk=inside + 3,
                            holdout_fraction=0.0))  # fmt: skip
    assert summary.window_positions == inside + 3 and summary.window_shards == 6
    names = Counter(name for name, _, _ in positions(chunks_of(tmp_path / "chunks")[0]))
    assert names[layout.shard_id(old[-1])] == 3
    assert set(names) == {layout.shard_id(path) for path in (*new, old[-1])}
    last = read_shard(old[-1])
    kept = sorted(position for position in positions(chunks_of(tmp_path / "chunks")[0]) if "000001-a" in position[0])
    assert [position[1:] for position in kept] == [(7, int(last.lengths[-1]) - back) for back in (3, 2, 1)]


def test_hold_out_games_stay_held_out_in_the_next_window(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    held = {position[:2] for position in positions(holdout_of(tmp_path / "chunks"))}
    random_shards(selfplay, GAME, 10, 8, seed=9, model="000002-b")
    gather(config(tmp_path, seed=5, chunks_to_make=16))
    trained = {position[:2] for chunk in chunks_of(tmp_path / "chunks") for position in positions(chunk)}
    assert held and not held & trained
    assert held <= {position[:2] for position in positions(holdout_of(tmp_path / "chunks"))}


def test_what_is_held_out_has_results_whatever_the_value_learns_from(tmp_path: Path, selfplay: Path) -> None:
    plain, mixed = tmp_path / "chunks", tmp_path / "mixed"
    gather(config(tmp_path))
    gather(config(tmp_path, output_directory=mixed, td_lambda=0.5))
    for name, column in holdout_of(plain).columns.items():
        np.testing.assert_array_equal(column, holdout_of(mixed).columns[name])
    for one, other in zip(chunks_of(plain), chunks_of(mixed), strict=True):
        np.testing.assert_array_equal(one.columns["planes"], other.columns["planes"])
        assert set(one.columns["value"].tolist()) <= {-1, 0, 1}
        assert len(set(other.columns["value"].tolist())) > len(other.columns["value"]) / 2
    # A chunk that is made again gets the same values.
    lost = sorted(mixed.glob("*-of-*.h5"))[3]
    whole = lost.read_bytes()
    lost.unlink()
    gather(config(tmp_path, output_directory=mixed, td_lambda=0.5))
    assert lost.read_bytes() == whole


def test_the_hold_out_is_bounded(tmp_path: Path, selfplay: Path) -> None:
    summary = gather(config(tmp_path, positions_per_chunk=16, holdout_fraction=0.5))
    assert summary.holdout_positions == 64 == holdout_of(tmp_path / "chunks").num_examples


def test_one_game_shards(tmp_path: Path) -> None:
    for number, record in enumerate(random_games(GAME, 60)):
        write_shard(tmp_path / "selfplay", "000001-a", f"w{number % 2}", "tictactoe", [record], {})
    size = training_positions(tmp_path / "selfplay")
    summary = gather(config(tmp_path, chunks_to_make=1, positions_per_chunk=size))
    assert summary.shards_read == summary.window_shards == 60


@pytest.mark.parametrize("num_chunks", [1, 8])
def test_each_shard_is_read_once(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch, num_chunks: int
) -> None:
    monkeypatch.setattr(extraction, "POSITIONS_PER_GROUP", 100)
    reads: list[Path] = []
    read = read_shard
    monkeypatch.setattr(extraction, "read_shard", lambda path, meta: (reads.append(path), read(path, meta))[1])
    summary = gather(config(tmp_path, chunks_to_make=num_chunks, positions_per_chunk=512 // num_chunks))
    assert len(reads) == len(set(reads)) == summary.shards_read <= 20


def test_threads_and_groups_do_not_change_the_result(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather(config(tmp_path))
    monkeypatch.setattr(extraction, "POSITIONS_PER_GROUP", 50)
    monkeypatch.setattr(extraction, "MAX_THREADS", 1)
    gather(config(tmp_path, output_directory=tmp_path / "again"))
    assert content(tmp_path / "chunks") == content(tmp_path / "again")


# Too little


def test_no_games_yet(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match=r"no games yet.*run `python main.py selfplay`") as caught:
        gather(config(tmp_path, min_positions=500))
    assert caught.value.missing == 500 and not (tmp_path / "chunks").exists()


def test_a_wrong_option_does_not_wait_for_games(tmp_path: Path) -> None:
    """The run's model tells the method."""
    run = layout.Run(tmp_path)
    make_model(run.models)
    with pytest.raises(UsageError, match="--discount: method alphazero doesn't read it"):
        gather(config(tmp_path, directory=run.games, discount=0.9))


@pytest.mark.parametrize(
    ("method", "options", "problem"),
    [
        ("alphazero", {"searched_only": True}, "none searched in full; give selfplay --readouts or leave out --search"),
        *having(
            "text",
            ("reinforce", {}, "none of them a move that the model learns from; leave out selfplay --filter-opp"),
        ),
    ],
)
def test_games_from_which_nothing_is_learned(
    tmp_path: Path, method: str, options: dict[str, Any], problem: str
) -> None:
    nothing = np.zeros(1000)
    games = [
        replace(record, surprises=nothing[: len(record.moves)], flags=nothing[: len(record.moves)].astype(np.uint8))
        for record in random_games(GAME, 8)
    ]
    write_shard(tmp_path / "selfplay", "000001-a", "w00", "tictactoe", games, {}, method=method)
    count = sum(len(record.moves) for record in games)
    with pytest.raises(MuGoError, match=f"selfplay: {count} positions, {problem}") as caught:
        gather(config(tmp_path, as_many_as_possible=True, **options))
    assert not isinstance(caught.value, NotYet)
    with pytest.raises(NotYet, match=f": 0 positions in the window; wanted {count + 1}") as caught:
        gather(config(tmp_path, min_positions=count + 1, **options))
    assert caught.value.missing == count + 1


def test_fewer_than_min_positions(tmp_path: Path, selfplay: Path) -> None:
    found = sum(meta.positions for meta in newest_shards(selfplay))
    with pytest.raises(NotYet, match=f"{found + 7:,}; 7 missing") as caught:
        gather(config(tmp_path, min_positions=found + 7))
    assert caught.value.missing == 7
    gather(config(tmp_path, min_positions=found))


def test_more_than_exists_is_an_error_with_the_number_missing(tmp_path: Path, selfplay: Path) -> None:
    available = training_positions(selfplay)
    with pytest.raises(MuGoError, match=f"need {available + 10:,}; 10 missing") as caught:
        gather(config(tmp_path, chunks_to_make=1, positions_per_chunk=available + 10))
    assert not isinstance(caught.value, NotYet)
    gather(config(tmp_path, chunks_to_make=1, positions_per_chunk=available))


def training_positions(directory: Path) -> int:
    config = GatherConfig(directory=directory, max_positions=10**9, holdout_fraction=0.1)
    return len(scan_window(config, Counted(), pytest.fail).pool(held_out=False))


def test_as_many_as_possible(tmp_path: Path, selfplay: Path) -> None:
    available = training_positions(selfplay)
    summary = gather(config(tmp_path, chunks_to_make=9000, as_many_as_possible=True))
    assert summary.chunks == available // 64 == len(chunks_of(tmp_path / "chunks"))
    with pytest.raises(NotYet, match="one chunk needs 100,000") as caught:
        gather(config(tmp_path, positions_per_chunk=100_000, as_many_as_possible=True))
    assert caught.value.missing == 100_000 - available


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ({"min_positions": 501}, r"500 positions in the window; wanted 501; 1 missing; the window is full; raise "
         r"--max-positions \(500\) or lower --min-positions"),
        ({"min_positions": 700, "replacement": "random"}, r"or lower --min-positions"),
        ({"min_positions": 500, "searched_only": True}, r"or lower --min-positions"),
        ({"positions_per_chunk": 500}, r"one chunk needs 500; .* is full; raise --max-positions .* --positions-per-"),
    ],
)  # fmt: skip
def test_what_a_full_window_never_holds_is_not_waited_for(
    tmp_path: Path, options: dict[str, Any], way_out: str
) -> None:
    games = [
        replace(record, flags=np.where(np.arange(len(record.moves)) % 2, POLICY_COUNTS | SEARCHED, 0).astype(np.uint8))
        for record in random_games(GAME, 120)
    ]
    write_shard(tmp_path / "selfplay", "000001-a", "w00", "tictactoe", games, {})
    options = {"as_many_as_possible": True, "max_positions": 500, **options}
    with pytest.raises(MuGoError, match=way_out) as caught:
        gather(config(tmp_path, **options))
    assert not isinstance(caught.value, NotYet)
    with pytest.raises(NotYet, match="missing; run selfplay again"):  # it grows
        gather(config(tmp_path, window_start=100, **{**options, "max_positions": 10_000}))


def test_a_window_from_which_any_position_may_leave_varies_in_size(tmp_path: Path, selfplay: Path) -> None:
    options = {"max_positions": 500, "replacement": "random", "min_positions": 500}
    for seed in range(30):
        try:
            gather(config(tmp_path, chunks_to_make=1, seed=seed, **options))
        except NotYet as error:
            assert 0 < error.missing < 100
            break
    else:
        pytest.fail("it always held more than its mean")


# Again


def test_a_rerun_finds_its_own_work(tmp_path: Path, selfplay: Path) -> None:
    first = gather(config(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "chunks").glob("*.h5")}
    listener = Heard()
    second = gather(config(tmp_path), listener)
    assert second.chunks_made == 0 and second.set_id == first.set_id and second.holdout_positions > 0
    assert not listener.said and [line for line in second.lines() if "nothing to gather" in line] == second.lines()
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "chunks").glob("*.h5")}


def test_only_what_is_missing_is_made_again_and_equal(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    whole = content(tmp_path / "chunks")
    for name in list(whole)[1:-1:2]:
        (tmp_path / "chunks" / name).unlink()
    assert gather(config(tmp_path)).chunks_made == len(list(whole)[1:-1:2])
    assert content(tmp_path / "chunks") == whole


def test_a_set_whose_shard_is_damaged_before_it_is_whole_is_made_anew(tmp_path: Path, selfplay: Path) -> None:
    """Otherwise some of its chunks would hold positions of the shard, and others say that it was skipped."""
    made = gather(config(tmp_path))
    for name in list(content(tmp_path / "chunks"))[:4]:
        (tmp_path / "chunks" / name).unlink()
    flip(next(newest_shards(selfplay)).path)
    again = gather(config(tmp_path))
    assert again.shards_skipped == 1 and again.chunks_made == 8 and again.set_id == made.set_id
    fresh = gather(config(tmp_path, output_directory=tmp_path / "fresh"))
    assert fresh.shards_skipped == 1 and content(tmp_path / "chunks") == content(tmp_path / "fresh")


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"positions_per_chunk": 63}, {"holdout_fraction": 0.2}, {"chunks_to_make": 7}]
)
def test_other_settings_make_another_set(tmp_path: Path, selfplay: Path, change: dict[str, Any]) -> None:
    first = gather(config(tmp_path))
    second = gather(config(tmp_path, **change))
    assert second.chunks_made and first.set_id[7:] != second.set_id[7:] and first.set_id < second.set_id
    found = newest_complete_set(tmp_path / "chunks")
    assert found is not None and found.id == second.set_id


def test_old_sets_go_when_the_new_one_is_complete(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [gather(config(tmp_path, seed=seed)).set_id for seed in (0, 1)]
    write = gather_module.write_chunk
    present: list[int] = []

    def watch(path: Path, *arguments: Any, **options: Any) -> None:
        present.append(sum(name.startswith(tuple(ids)) for name in os.listdir(path.parent)))
        write(path, *arguments, **options)

    monkeypatch.setattr(gather_module, "write_chunk", watch)
    summary = gather(config(tmp_path, seed=2))
    assert set(present) == {18}  # 2 sets of 8 chunks and a hold-out
    assert summary.sets_removed == 1
    kept = {name[:15] for name in content(tmp_path / "chunks")}
    assert kept == {ids[1], summary.set_id}


GATHER = """
import json, sys
from pipeline.gather.config import GatherConfig
from pipeline.gather.command import gather
print("ready", flush=True)
print(gather(GatherConfig(**json.loads(sys.argv[1]))).chunks_made)
"""


def test_killed_at_any_moment_a_rerun_gives_the_same_set(tmp_path: Path, selfplay: Path) -> None:
    whole_config = config(tmp_path, chunks_to_make=36, positions_per_chunk=25, output_directory=tmp_path / "whole")
    gather(whole_config)
    whole = content(tmp_path / "whole")
    options = json.dumps({**whole_config.model_dump(mode="json"), "output_directory": str(tmp_path / "chunks")})
    rng = random.Random(3)
    partial = 0
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", GATHER, options], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        goal = rng.randrange(0, 35)  # kill it when it has made this many chunks, at any instruction
        while process.poll() is None and len(list((tmp_path / "chunks").glob("*.h5"))) < goal:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if (tmp_path / "chunks").exists():
            made = content(tmp_path / "chunks")
            assert all(whole[name] == made[name] for name in made)  # nothing partial, ever
            partial += 0 < len(made) < len(whole)
    assert partial
    gather(config(tmp_path, chunks_to_make=36, positions_per_chunk=25))
    assert content(tmp_path / "chunks") == whole
    assert leftovers(tmp_path / "chunks") == []


# Damage


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def poison(path: Path) -> None:
    """A shard with a good checksum and a wrong result."""
    shard = read_shard(path)
    games = [shard.game(index) for index in range(shard.num_games)]
    games[0] = type(games[0])(**{**games[0].__dict__, "result_first_player": -games[0].result_first_player or 1.0})
    other = write_shard(path.parent.parent.parent / "other", "000001-a", "w00", "tictactoe", games, {})
    path.write_bytes(other.read_bytes())
    meta = json.loads(other.with_suffix(".meta").read_text())
    atomic.write_json(path.with_suffix(".meta"), meta)


@pytest.mark.parametrize("damage", [flip, Path.unlink, poison, lambda path: path.write_bytes(b"")])
def test_a_damaged_shard_is_skipped_named_and_replaced(tmp_path: Path, selfplay: Path, damage: Any) -> None:
    bad = sorted(selfplay.rglob("*.gz"))[7]
    damage(bad)
    listener = Heard()
    summary = gather(config(tmp_path, chunks_to_make=14), listener)
    assert summary.shards_skipped == 1 and len(listener.warned) == 1
    assert str(bad) in listener.warned[0] and "skipped" in listener.warned[0]
    seen = [position for chunk in chunks_of(tmp_path / "chunks") for position in positions(chunk)]
    assert len(set(seen)) == 14 * 64
    assert layout.shard_id(bad) not in {name for name, _, _ in seen}
    held = positions(holdout_of(tmp_path / "chunks"))
    assert not {position[:2] for position in held} & {position[:2] for position in seen}
    again = config(tmp_path, chunks_to_make=14, output_directory=tmp_path / "again")
    gather(again)
    assert content(tmp_path / "again") == content(tmp_path / "chunks")
    # an interrupted set with replacements is made again, equal
    for name in list(content(tmp_path / "again"))[2:9]:
        (tmp_path / "again" / name).unlink()
    gather(again)
    assert content(tmp_path / "again") == content(tmp_path / "chunks")


def test_damage_that_leaves_too_few(tmp_path: Path, selfplay: Path) -> None:
    available = training_positions(selfplay)
    for bad in sorted(selfplay.rglob("*.gz"))[3:9]:
        flip(bad)
    num_chunks = available // 64
    with pytest.raises(MuGoError, match="missing"):
        gather(config(tmp_path, chunks_to_make=num_chunks))
    assert newest_complete_set(tmp_path / "chunks") is None and content(tmp_path / "chunks") == {}
    listener = Heard()
    summary = gather(config(tmp_path, chunks_to_make=num_chunks, as_many_as_possible=True), listener)
    chunks = chunks_of(tmp_path / "chunks")
    assert 0 < summary.chunks == len(chunks) < num_chunks and summary.shards_skipped == 6 == len(listener.warned)
    seen = [position for chunk in chunks for position in positions(chunk)]
    assert len(set(seen)) == 64 * len(chunks)
    rerun = gather(config(tmp_path, chunks_to_make=num_chunks, as_many_as_possible=True))
    assert rerun.chunks_made == 0
    whole = content(tmp_path / "chunks")
    for name in list(whole)[1:6]:
        (tmp_path / "chunks" / name).unlink()
    gather(config(tmp_path, chunks_to_make=num_chunks, as_many_as_possible=True))
    assert content(tmp_path / "chunks") == whole


def test_a_damaged_sidecar_is_skipped_and_named(tmp_path: Path, selfplay: Path) -> None:
    bad = sorted(selfplay.rglob("*.meta"))[4]
    bad.write_text("{")
    listener = Heard()
    summary = gather(config(tmp_path), listener)
    assert summary.shards_skipped == 1 and summary.window_shards == 19 and str(bad) in listener.warned[0]


def test_two_board_sizes_in_one_window(tmp_path: Path) -> None:
    for size in (5, 6):
        random_shards(tmp_path / "selfplay", parse_game(f"go:{size}"), 1, 2, model=f"00000{size}-a")
    with pytest.raises(MuGoError, match=r"mix go:6 .* and go:5") as caught:
        gather(config(tmp_path))
    assert "\n" not in str(caught.value) and not (tmp_path / "chunks").exists()


def test_a_game_that_this_program_does_not_know(tmp_path: Path) -> None:
    record = random_games(GAME, 1)[0]
    write_shard(tmp_path / "selfplay", "000001-a", "w00", "chess", [record], {})
    with pytest.raises(FileError, match="unknown name 'chess'"):
        gather(config(tmp_path, chunks_to_make=1, positions_per_chunk=1, holdout_fraction=0.0))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("writes_before", [0, 5])
def test_a_full_or_read_only_disk_loses_nothing(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch, number: int, writes_before: int
) -> None:
    write, calls = os.write, []

    def fail(descriptor: int, data: Any) -> int:
        calls.append(descriptor)
        if len(calls) > writes_before:
            raise OSError(number, os.strerror(number))
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(FileError, match=r"disk is full|read-only") as caught:
            gather(config(tmp_path))
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path / "chunks") == [] and newest_complete_set(tmp_path / "chunks") is None
    assert len(content(tmp_path / "chunks")) == writes_before
    assert gather(config(tmp_path)).chunks == 8
    chunks_of(tmp_path / "chunks")


def full(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, "")


def test_no_room_for_the_scratch_file(tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match="disk is full"):
        gather(config(tmp_path))
    assert content(tmp_path / "chunks") == {}


def test_a_system_that_allocates_no_room_for_a_file(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As macOS: the scratch file is filled instead, and a full disk is still an error before the work."""
    monkeypatch.delattr(os, "posix_fallocate")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(FileError, match="disk is full"):
            gather(config(tmp_path))
    assert content(tmp_path / "chunks") == {}
    assert gather(config(tmp_path)).chunks == 8


def test_two_gathers_at_once_wait_for_each_other(tmp_path: Path, selfplay: Path) -> None:
    options = json.dumps(config(tmp_path).model_dump(mode="json"))
    command = [sys.executable, "-c", GATHER, options]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0].split() for process in processes]
    assert sorted(said) == [["ready", "0"], ["ready", "0"], ["ready", "8"]], "only the first one had something to make"
    assert len({name[:15] for name in content(tmp_path / "chunks")}) == 1


def test_a_holdout_that_is_lost_is_made_again(tmp_path: Path, selfplay: Path) -> None:
    """Damaged or removed; the other chunks stay unchanged. Until it is made again, train refuses the set."""
    first = gather(config(tmp_path))
    whole, bad = content(tmp_path / "chunks"), tmp_path / "chunks" / f"{first.set_id}-holdout.h5"
    check_holdout(complete(tmp_path), read_header(complete(tmp_path).chunks[0]))
    for lose in (lambda: flip(bad), bad.unlink):
        lose()
        listener = Heard()
        again = gather(config(tmp_path), listener)
        assert again.chunks_made == 0 and again.holdout_positions == first.holdout_positions > 0
        assert content(tmp_path / "chunks") == whole
        assert any("hold-out" in text and "made again" in text for text in listener.said)
    bad.unlink()
    with pytest.raises(FileError, match=rf"holdout.h5: missing; .* {first.holdout_positions:,} .*gather again"):
        check_holdout(complete(tmp_path), read_header(complete(tmp_path).chunks[0]))


def test_a_holdout_without_the_games_of_damaged_shards_is_made_again(tmp_path: Path, selfplay: Path) -> None:
    for meta in list(newest_shards(selfplay))[::2]:
        flip(meta.path)
    options = {"chunks_to_make": 9000, "as_many_as_possible": True, "holdout_fraction": 0.3}
    first = gather(config(tmp_path, **options))
    assert first.shards_skipped == 10
    whole = content(tmp_path / "chunks")
    (tmp_path / "chunks" / f"{first.set_id}-holdout.h5").unlink()
    assert gather(config(tmp_path, **options)).chunks_made == 0
    assert content(tmp_path / "chunks") == whole


def complete(tmp_path: Path) -> ChunkSet:
    found = newest_complete_set(tmp_path / "chunks")
    assert found is not None
    return found


# Repeated games


def test_repeated_games_are_sampled_from_once(tmp_path: Path, selfplay: Path) -> None:
    """For example games that a second run with the same seed repeated; the older copy stays."""
    metas = list(newest_shards(selfplay))
    for copied in metas[::4]:
        records = [read_shard(copied.path, copied).game(index) for index in range(copied.games)]
        write_shard(selfplay, "000001-a", "w07", GAME.spec, records[::2], {})
    listener = Heard()
    summary = gather(config(tmp_path, chunks_to_make=9000, as_many_as_possible=True), listener)
    assert summary.games_repeated == 20 and any("20 games left out" in text for text in listener.warned)
    assert summary.window_positions == sum(meta.positions for meta in metas) and summary.window_games == 160
    held_out = [shard for shard, _, _ in positions(holdout_of(tmp_path / "chunks"))]
    trained = [shard for chunk in chunks_of(tmp_path / "chunks") for shard, _, _ in positions(chunk)]
    assert not [shard for shard in held_out + trained if "w07" in shard]


def test_copies_are_on_one_side_of_the_holdout(selfplay: Path) -> None:
    for meta in newest_shards(selfplay):
        records = [read_shard(meta.path, meta).game(index) for index in range(meta.games)]
        copy = read_meta(write_shard(selfplay.parent / "copies", "000002-b", "w09", GAME.spec, records[::-1], {}))
        np.testing.assert_array_equal(holdout_games(meta, 0.3), holdout_games(copy, 0.3)[::-1])


# What the window was


def window_of(folder: Path) -> dict[str, Any]:
    found = newest_complete_set(folder)  # of few games by chance none is held out
    held_out = [holdout_of(folder)] if found is not None and found.holdout is not None else []
    windows = [chunk.header.window for chunk in (*chunks_of(folder), *held_out)]
    assert all(window == windows[0] for window in windows)
    return windows[0]


def test_all_positions_ever_made_are_counted_on_from_set_to_set(tmp_path: Path, selfplay: Path) -> None:
    first = sum(meta.positions for meta in newest_shards(selfplay))
    summary = gather(config(tmp_path, max_positions=800))
    assert (summary.total_positions, summary.new_positions) == (first, first)
    random_shards(selfplay, GAME, 3, 8, seed=5, model="000002-b")
    total = sum(meta.positions for meta in newest_shards(selfplay))
    for path in sorted(selfplay.glob("000001-a/w00/*"))[:4]:
        path.unlink()  # shards long outside the window
    summary = gather(config(tmp_path, max_positions=400, chunks_to_make=2))
    assert (summary.total_positions, summary.new_positions) == (total, total - first)
    window = window_of(tmp_path / "chunks")
    assert (window["total_positions"], window["new_positions"]) == (total, total - first)
    chunk = newest_complete_set(tmp_path / "chunks").chunks[1]  # type: ignore[union-attr]
    again = chunk.read_bytes()
    chunk.unlink()
    gather(config(tmp_path, max_positions=400, chunks_to_make=2))
    assert chunk.read_bytes() == again
    rerun = gather(config(tmp_path, max_positions=400, chunks_to_make=2))
    assert rerun.chunks_made == 0 and (rerun.total_positions, rerun.new_positions) == (total, total - first)


def test_a_clock_that_runs_ahead_does_not_freeze_the_count(tmp_path: Path, selfplay: Path) -> None:
    """By names alone its shard would stay the newest for decades, and no later shard would count as new."""

    def play_on_w09(seed: int) -> Path:
        return write_shard(selfplay, "000001-a", "w09", GAME.spec, random_games(GAME, 8, seed), {})

    ahead = play_on_w09(7)
    for suffix in (".gz", ".meta"):
        ahead.with_suffix(suffix).rename(ahead.with_name(f"20600101T000000.000000-000001{suffix}"))
    gather(config(tmp_path))
    before = sum(meta.positions for meta in newest_shards(selfplay))
    random_shards(selfplay, GAME, 3, 8, seed=5)
    play_on_w09(6)  # its clock has been set
    total = sum(meta.positions for meta in newest_shards(selfplay))
    summary = gather(config(tmp_path))
    assert (summary.total_positions, summary.new_positions) == (total, total - before)


def test_a_chunk_that_is_made_again_says_the_same_when_no_older_set_is_left(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path, keep_sets=1))
    random_shards(selfplay, GAME, 3, 8, seed=5)
    gather(config(tmp_path, keep_sets=1))
    whole = content(tmp_path / "chunks")
    (tmp_path / "chunks" / list(whole)[2]).unlink()
    assert gather(config(tmp_path, keep_sets=1)).chunks_made == 1
    assert content(tmp_path / "chunks") == whole


def test_sets_of_another_game_count_for_nothing(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    random_shards(tmp_path / "other", parse_game("connect4"), 2, 4)
    total = sum(meta.positions for meta in newest_shards(tmp_path / "other"))
    summary = gather(config(tmp_path, directory=tmp_path / "other", chunks_to_make=1))
    assert summary.total_positions == total


def test_a_growing_window(tmp_path: Path, selfplay: Path) -> None:
    grows = {"window_start": 200, "window_exponent": 0.5, "window_slope": 0.5, "chunks_to_make": 1}
    total = sum(meta.positions for meta in newest_shards(selfplay))
    wanted = int(0.5 * (total**0.5 - 200**0.5) / (0.5 * 200**-0.5) + 200)
    assert 300 < wanted < total
    summary = gather(config(tmp_path, **grows))
    assert summary.window_positions == wanted == window_of(tmp_path / "chunks")["capacity"]
    assert gather(config(tmp_path, **grows)).chunks_made == 0  # the same window again
    assert gather(config(tmp_path, max_positions=250, **grows)).window_positions == 250


def test_a_ring_is_a_fifo(tmp_path: Path, selfplay: Path) -> None:
    fifo = gather(config(tmp_path, max_positions=700, replacement="fifo"))
    ring = gather(config(tmp_path, max_positions=700, replacement="ring"))
    assert ring.chunks_made == 0 and ring.set_id == fifo.set_id


def test_random_eviction(tmp_path: Path, selfplay: Path) -> None:
    options = {"max_positions": 400, "replacement": "random", "chunks_to_make": 4}
    summary = gather(config(tmp_path, **options))
    assert abs(summary.window_positions - 400) < 5 * 20 and summary.oldest_shard < summary.newest_shard
    ages = [shard for chunk in chunks_of(tmp_path / "chunks") for shard, _, _ in positions(chunk)]
    fifo = gather(config(tmp_path, max_positions=400, chunks_to_make=4))
    assert len(set(ages)) > fifo.window_shards * 1.5  # it reaches back further
    assert gather(config(tmp_path, output_directory=tmp_path / "again", **options)).set_id[7:] == summary.set_id[7:]
    before = {meta.id for meta in newest_shards(selfplay)}
    random_shards(selfplay, GAME, 2, 8, seed=5)
    gather(config(tmp_path, **options))
    kept = {shard for chunk in chunks_of(tmp_path / "chunks") for shard, _, _ in positions(chunk)}
    assert kept - before and kept & before


def test_the_window_without_a_damaged_shard(tmp_path: Path, selfplay: Path) -> None:
    bad = max(newest_shards(selfplay), key=lambda meta: meta.id)
    flip(bad.path)
    everything = list(newest_shards(selfplay))
    available = training_positions(selfplay)
    one = config(tmp_path, chunks_to_make=available // 64 - 2)
    for summary in (gather(one), gather(one)):  # the second finds its own work
        assert summary.window_shards == 19 and summary.window_games == 152
        assert summary.window_positions == sum(meta.positions for meta in everything) - bad.positions
        assert summary.newest_shard != bad.id
    window = window_of(tmp_path / "chunks")
    assert (window["positions"], window["shards"], window["skipped"]) == (summary.window_positions, 19, [bad.id])


def test_fewer_chunks_are_reported(tmp_path: Path, selfplay: Path) -> None:
    listener = Heard()
    summary = gather(config(tmp_path, chunks_to_make=9000, as_many_as_possible=True), listener)
    assert summary.chunks_short == 9000 - summary.chunks and not listener.said  # each generation would say it again
    listener = Heard()
    assert gather(config(tmp_path, seed=1), listener).chunks_short == 0 and not listener.said


def test_an_output_that_cannot_be_written_is_noticed_before_anything_is_read(
    tmp_path: Path, selfplay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "read_shard", lambda path, meta: pytest.fail("read"))
    (tmp_path / "chunks").write_text("a file")
    with pytest.raises(FileError, match="directory"):
        gather(config(tmp_path))
    (tmp_path / "chunks").unlink()

    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, "")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(FileError, match="read-only"):
        gather(config(tmp_path))


# Surprise


def write_every_third_surprised(directory: Path, method: str = "alphazero") -> None:
    """20 shards of 8 games, where every third move was searched in full and surprised the network."""
    for number in range(20):
        games = []
        for record in random_games(GAME, 8, number):
            is_third = np.arange(len(record.moves)) % 3 == 0
            flags = np.where(is_third, POLICY_COUNTS | SEARCHED, 0).astype(np.uint8)
            games.append(replace(record, surprises=np.where(is_third, 1.5, 0.0), flags=flags))
        write_shard(directory, "000001-a", "w00", "tictactoe", games, {}, method=method)


def test_surprising_positions_are_sampled_more_often(tmp_path: Path) -> None:
    """Every third move surprised: it weighs .5 + .5 · 3 = 2, the others 1/2."""
    write_every_third_surprised(tmp_path / "selfplay")
    options = {"surprise_weight": 0.5, "holdout_fraction": 0.0, "chunks_to_make": 4}
    gather(config(tmp_path, **options))
    seen = [position for chunk in chunks_of(tmp_path / "chunks") for position in positions(chunk)]
    assert len(set(seen)) == 256  # nothing weighs more than one copy carries
    total = sum(meta.positions for meta in newest_shards(tmp_path / "selfplay"))
    third = sum(-(-int(n) // 3) for meta in newest_shards(tmp_path / "selfplay") for n in meta.lengths)
    share = third / total
    expected = 0.5 * share + 0.5
    drawn = sum(ply % 3 == 0 for _, _, ply in seen)
    assert abs(drawn - 256 * expected) < 5 * np.sqrt(256 * expected * (1 - expected))
    again = config(tmp_path, output_directory=tmp_path / "again", **options)
    gather(again)
    assert content(tmp_path / "again") == content(tmp_path / "chunks")
    for name in list(content(tmp_path / "again"))[1:3]:
        (tmp_path / "again" / name).unlink()
    gather(again)
    assert content(tmp_path / "again") == content(tmp_path / "chunks")


def test_a_chunk_has_the_weights_of_its_sampling(tmp_path: Path) -> None:
    write_every_third_surprised(tmp_path / "selfplay")
    gather(config(tmp_path, surprise_weight=0.5, chunks_to_make=2))
    for chunk in chunks_of(tmp_path / "chunks"):
        assert chunk.weights is not None
        surprised = chunk.columns["ply"] % 3 == 0
        assert len(set(chunk.weights[surprised].tolist())) == len(set(chunk.weights[~surprised].tolist())) == 1
        assert chunk.weights[~surprised][0] == 0.5 and 1.5 < chunk.weights[surprised][0] < 2.0
    assert holdout_of(tmp_path / "chunks").weights is None
    gather(config(tmp_path, output_directory=tmp_path / "uniform"))
    assert {chunk.weights for chunk in chunks_of(tmp_path / "uniform")} == {None}


def test_only_positions_that_were_searched_in_full(tmp_path: Path) -> None:
    """Every third move is. The others are neither sampled nor held out, but count for the window's capacity."""
    write_every_third_surprised(tmp_path / "selfplay")
    total = sum(meta.positions for meta in newest_shards(tmp_path / "selfplay"))
    searched = sum(-(-int(n) // 3) for meta in newest_shards(tmp_path / "selfplay") for n in meta.lengths)
    options = {"searched_only": True, "chunks_to_make": 9000, "as_many_as_possible": True}
    summary = gather(config(tmp_path, **options))
    assert (summary.window_positions, summary.total_positions) == (searched, total)
    drawn = [position for chunk in chunks_of(tmp_path / "chunks") for position in positions(chunk)]
    assert len(drawn) == len(set(drawn)) and len(drawn) > searched / 2 and all(ply % 3 == 0 for _, _, ply in drawn)
    held_out = positions(holdout_of(tmp_path / "chunks"))
    assert held_out and all(ply % 3 == 0 for _, _, ply in held_out)
    half = gather(config(tmp_path, output_directory=tmp_path / "half", max_positions=total // 2, **options))
    assert abs(half.window_positions - searched / 2) < 20


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        *having("text", ("alphazero", "sampling_rewards", "normalise")),
        ("alphazero", "discount", 0.9),
        *having("backgammon", ("td", "surprise_weight", 0.5)),
        *having("text", ("a2c", "surprise_weight", 0.5)),
        *having("backgammon", *having("text", ("td", "final_rewards", "zero-sum"))),
        *having("text", *having("backgammon", ("reinforce", "prime_reward", 0.1), ("a2c", "closeout_reward", 0.1))),
    ],
)
def test_options_of_other_methods_are_refused(tmp_path: Path, method: str, option: str, value: object) -> None:
    write_every_third_surprised(tmp_path / "selfplay", method)
    named = option.replace("_", "-")
    with pytest.raises(UsageError, match=f"^gather --{named}: method {method} doesn't read it; leave it out$"):
        gather(config(tmp_path, **{option: value}))
    assert not (tmp_path / "chunks").exists()


def test_copies_only_of_what_weighs_more_than_one_carries(tmp_path: Path) -> None:
    """Every third position has a large weight: it occurs twice and displaces others. Also with a damaged shard."""
    write_every_third_surprised(tmp_path / "selfplay")
    flip(sorted((tmp_path / "selfplay").rglob("*.gz"))[4])
    gather(config(tmp_path, surprise_weight=0.5, holdout_fraction=0.0, chunks_to_make=16))
    copies = Counter(position for chunk in chunks_of(tmp_path / "chunks") for position in positions(chunk))
    assert {count for (_, _, ply), count in copies.items() if ply % 3} == {1}
    heavy = [count for (_, _, ply), count in copies.items() if ply % 3 == 0]
    assert set(heavy) <= {1, 2} and heavy.count(2) > 50


@pytest.mark.parametrize("damaged", [range(18), [4]])
def test_positions_of_no_weight_replace_no_damaged_ones(tmp_path: Path, damaged: list[int]) -> None:
    """With surprise_weight 1 they are never sampled, even if nothing else is left."""
    write_every_third_surprised(tmp_path / "selfplay")
    for number in damaged:
        flip(sorted((tmp_path / "selfplay").rglob("*.gz"))[number])
    summary = gather(
        config(tmp_path, surprise_weight=1.0, holdout_fraction=0.0, chunks_to_make=40, positions_per_chunk=16,
               as_many_as_possible=True)
    )  # fmt: skip
    chunks = chunks_of(tmp_path / "chunks")  # read_chunk refuses a weight of 0
    assert len(chunks) == summary.chunks > 0
    assert all(ply % 3 == 0 for chunk in chunks for _, _, ply in positions(chunk))


def test_a_set_of_other_columns_is_another_set(tmp_path: Path, selfplay: Path) -> None:
    """As after an update that gives the game more planes."""
    settings = config(tmp_path)
    gather(settings)
    window = scan_window(settings, Counted(), pytest.fail)
    types = {**column_types(GAME), **ORIGIN}
    name = gather_module._set_name(settings, window, types)
    assert str(name) == gather(settings).set_id
    more = {**types, "planes": ("|u1", (99,))}
    assert gather_module._set_name(settings, window, more).number == name.number + 1


def test_uniform_sampling_ignores_surprises(tmp_path: Path, selfplay: Path) -> None:
    gather(config(tmp_path))
    for path in selfplay.rglob("*.meta"):
        raw = json.loads(path.read_text())
        raw["surprises"] = base64.b64encode(np.ones(raw["positions"], "<f2").tobytes()).decode()
        atomic.write_json(path, raw)
    assert gather(config(tmp_path, output_directory=tmp_path / "again")).chunks == 8
    assert content(tmp_path / "again") == content(tmp_path / "chunks")
