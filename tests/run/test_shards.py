from __future__ import annotations

import errno
import gzip
import hashlib
import itertools
import json
import math
import os
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.run import atomic, layout, order, shards
from pipeline.run.chunks import ColumnTypes
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, SEARCHED, End, GameRecord
from tests.run.random_games import write_shard


def record(game_id: int = 1, length: int = 3, result: float = 1.0, **more: Any) -> GameRecord:
    """Move i is action i, after i + 1 visited edges: 0 … i."""
    lengths = np.arange(1, length + 1)
    facts = {
        "flags": np.arange(length) % 2,
        "root_values": np.linspace(-1, 1, length),
        "visit_lengths": lengths,
        "visit_actions": np.concatenate([np.arange(n) for n in lengths]),
        "visit_counts": np.concatenate([np.arange(n) + 70_000 for n in lengths]),
        **more,
    }
    return GameRecord(game_id=game_id, moves=np.arange(length), result_first_player=result, **facts)


def write(directory: Path, *games: GameRecord, model: str = "000001-a", worker: str = "w00") -> Path:
    return write_shard(directory, model, worker, "go:9", games, {"generation": 1, "seed": 4})


def test_texts_are_kept_with_their_checksums(tmp_path: Path) -> None:
    said = (("[1]\n\u2603 \"", 2**32 - 1), ("", 0))
    shard = shards.read_shard(write(tmp_path, record(1), record(2, said=said)))
    assert [shard.game(index).said for index in range(2)] == [(), said]
    assert "said" not in shards.read_shard(write(tmp_path, record(1), worker="w01")).header


def test_what_packs_too_well_is_written_so_that_it_can_be_read(tmp_path: Path) -> None:
    """Text games are mostly padding: 49 KB a move, of which hardly anything is left."""
    wide = {"prompt": ("<i4", (4096,)), "answer": ("<i4", (4096,)), "text": ("|u1", (8 * 4096,))}
    columns = {"prompt": np.full((60, 4096), -1, "<i4"), "answer": np.full((60, 4096), -1, "<i4")}
    columns["text"] = np.zeros((60, 8 * 4096), np.uint8)
    one = GameRecord(game_id=1, moves=np.zeros(60, int), result_first_player=0.0, own=columns)
    count = shards.fitting([one] * 30, wide)
    assert 1 < count < 30 and shards.fitting([one] * count, wide) == count
    longer = {name: np.repeat(column, 10, axis=0) for name, column in columns.items()}
    long = GameRecord(game_id=1, moves=np.zeros(600, int), result_first_player=0.0, own=longer)
    assert shards.fitting([long, one], wide) == 1
    for games, worker in (([one] * count, "w00"), ([long], "w01")):
        path = write_shard(tmp_path, "000001-a", worker, "go:9", games, {}, method="x", recorded=wide)
        assert shards.read_shard(path, shards.read_meta(path)).num_games == len(games)


def test_round_trip(tmp_path: Path) -> None:
    games = [record(2**63, 3, 1.0), record(7, 1, -1.0, end=End.RESIGNED), record(8, 5, 0.0, no_resign=True)]
    path = write(tmp_path, *games)
    meta = shards.read_meta(path)
    shard = shards.read_shard(path, meta)
    assert (meta.game, meta.model, meta.worker, meta.generation) == ("go:9", "000001-a", "w00", 1)
    assert (meta.positions, meta.games, meta.lengths.tolist()) == (9, 3, [3, 1, 5])
    assert meta.num_bytes == path.stat().st_size and meta.id == shard.id == f"000001-a/w00/{path.name}"
    assert (shard.game_spec, shard.model, shard.num_games, shard.num_positions) == ("go:9", "000001-a", 3, 9)
    assert shard.header["provenance"] == {"generation": 1, "seed": 4}
    assert shard.move_offsets.tolist() == [0, 3, 4, 9]
    for index, game in enumerate(games):
        found = shard.game(index)
        for name in ("game_id", "result_first_player", "end", "no_resign"):
            assert getattr(found, name) == getattr(game, name)
        for name in ("moves", "flags", "visit_lengths", "visit_actions", "visit_counts"):
            np.testing.assert_array_equal(getattr(found, name), getattr(game, name))
        np.testing.assert_allclose(found.root_values, game.root_values, atol=1e-7)


def test_how_games_begin(tmp_path: Path) -> None:
    path = write(tmp_path / "b", record(1, setup=-30), record(2), record(3, setup=7))
    shard = shards.read_shard(path, shards.read_meta(path))
    assert [shard.game(index).setup for index in range(3)] == [-30, 0, 7]


def test_who_played_whom(tmp_path: Path) -> None:
    met = [("random", 1), (None, BOTH), ("000004-x", 0), ("random", 0)]
    path = write(tmp_path, *(record(number, opponent=name, learner=side) for number, (name, side) in enumerate(met)))
    shard = shards.read_shard(path, shards.read_meta(path))
    assert shard.header["opponents"] == ["000004-x", "random"]
    assert [(shard.game(index).opponent, shard.game(index).learner) for index in range(4)] == met
    assert (POLICY_COUNTS, NO_VALUE) == (1, 2)  # bits of flags as they stand on disk


def test_the_same_games_give_the_same_bytes(tmp_path: Path) -> None:
    met = {"opponent": "random", "learner": 1}
    surprises = np.array([0.5, 0, 2.0], np.float32)
    path = write(tmp_path, record(5, surprises=surprises, **met), record(6, 1, -1.0, end=End.RESIGNED))
    wanted = "0141c97b97e643deeaaf8a53fa3d1392b78ef80e0c50eab0ad94cc3de723103f"
    assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == wanted
    meta = json.loads(path.with_suffix(".meta").read_text())
    assert (meta["version"], meta["surprises"]) == (1, "ADgAAABAAAA=")


OUTCOMES: ColumnTypes = {"outcomes": ("<f4", (5,)), "equity": ("<f2", ())}


def thought(game_id: int, length: int, result: float) -> GameRecord:
    """A game of a method without a search."""
    own = {"outcomes": np.arange(5.0 * length).reshape(length, 5), "equity": np.arange(length) / 2}
    return GameRecord(game_id=game_id, moves=np.arange(length), own=own, result_first_player=result)


def write_own(directory: Path, *games: GameRecord, recorded: ColumnTypes = OUTCOMES) -> Path:
    facts = ("000001-a", "w00", "backgammon")
    return write_shard(directory, *facts, games, {}, method="td", recorded=recorded, max_result=3.0)


def test_a_methods_own_columns_and_results_of_several_points(tmp_path: Path) -> None:
    games = [thought(5, 3, 2.0), thought(6, 1, -3.0)]
    path = write_own(tmp_path, *games)
    meta = shards.read_meta(path)
    shard = shards.read_shard(path, meta)
    names = [array["name"] for array in shard.header["arrays"]]
    assert names[-3:] == ["moves", "outcomes", "equity"] and not set(names) & set(shards.SEARCH_COLUMNS)
    assert (shard.max_result, shard.results.tolist()) == (3.0, [2.0, -3.0])
    assert shard.own["outcomes"].shape == (4, 5) and shard.own["equity"].dtype == np.float16
    assert meta.method == "td" and meta.surprises.tolist() == [0] * 4
    assert "surprises" not in json.loads(path.with_suffix(".meta").read_text())
    for index, game in enumerate(games):
        found = shard.game(index)
        assert found.result_first_player == game.result_first_player and found.moves.tolist() == game.moves.tolist()
        for name in OUTCOMES:
            np.testing.assert_array_equal(shard.own_column(name)[shard.move_offsets[index]], game.own[name][0])
            np.testing.assert_array_equal(found.own[name], game.own[name])
        # Of a search nothing is known.
        assert set(found.flags.tolist()) == {NO_VALUE} and not found.root_values.any() and not found.surprises.any()
        assert not found.visit_lengths.any() and len(found.visit_actions) == len(found.visit_counts) == 0
    with pytest.raises(FileError, match=f"{path}: it lacks the column hope, it has outcomes, equity"):
        shard.own_column("hope")


def test_a_choice_of_what_a_search_leaves(tmp_path: Path) -> None:
    chosen = {name: shards.SEARCH_COLUMNS[name] for name in ("surprises", "root_values")}  # in any order
    path = write_own(tmp_path, record(5, root_values=np.full(3, 2.5), surprises=np.ones(3)), recorded=chosen)
    shard = shards.read_shard(path, shards.read_meta(path))
    assert [array["name"] for array in shard.header["arrays"]][-3:] == ["moves", "root_values", "surprises"]
    assert shard.root_values.tolist() == [2.5] * 3 and shard.surprises.tolist() == [1.0] * 3
    assert shard.flags.tolist() == [NO_VALUE] * 3 and len(shard.visit_counts) == 0
    assert shards.read_meta(path).surprises.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("recorded", "problem"),
    [
        ({"moves": ("<u2", ())}, "column moves of .*: a shard has another"),
        ({"flags": ("<f4", ())}, "column flags of .*: a shard has another"),
        ({"visit_lengths": ("<u2", ())}, "as a whole or not at all"),
        ({"outcomes": ("O", (5,))}, "column outcomes of O"),
        ({"outcomes": ("<f4", (0,))}, "column outcomes of <f4"),
        ({"a b": ("<f4", ())}, "column a b of <f4"),
        ({"outcomes": ("<f4", (4,))}, r"column outcomes isn't there, or not \(3, 4\)"),
        ({"hope": ("<f4", ())}, "column hope isn't there"),
    ],
)
def test_columns_that_no_shard_can_have(tmp_path: Path, recorded: ColumnTypes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        write_own(tmp_path, thought(5, 3, 1.0), recorded=recorded)
    for result in (3.5, math.nan):
        with pytest.raises(ValueError, match="a result of"):
            write_own(tmp_path, thought(5, 3, result))


def test_surprises_stand_in_the_shard_and_rounded_in_the_sidecar(tmp_path: Path) -> None:
    surprises = np.array([0.1, 0.0, 27.3], np.float32)
    path = write(tmp_path, record(5, 2), record(6, 3, surprises=surprises))
    meta = shards.read_meta(path)
    shard = shards.read_shard(path, meta)
    assert shard.surprises.tolist() == [0, 0, *surprises.tolist()]
    assert shard.game(1).surprises.tolist() == surprises.tolist()
    assert meta.surprises.dtype == np.float16
    np.testing.assert_allclose(meta.surprises, shard.surprises, rtol=1e-3)


def test_what_was_searched_in_full_stands_in_the_sidecar(tmp_path: Path) -> None:
    flags = np.array([POLICY_COUNTS, POLICY_COUNTS | SEARCHED, SEARCHED], np.uint8)
    path = write(tmp_path, record(5, 2), record(6, 3, flags=flags))
    assert shards.read_meta(path).searched.tolist() == [False, False, False, True, True]
    raw = json.loads(path.with_suffix(".meta").read_text())
    for damaged, problem in (("AAA=", "2 bytes for 5 positions"), ("!", "damaged"), ("AA==", None)):
        path.with_suffix(".meta").write_text(json.dumps({**raw, "searched": damaged}))
        if problem:
            with pytest.raises(FileError, match=problem):
                shards.read_meta(path)
        else:
            with pytest.raises(FileError, match="searched in full are not those in its sidecar"):
                shards.read_shard(path, shards.read_meta(path))


def test_the_first_line_is_readable_json(tmp_path: Path) -> None:
    path = write(tmp_path, record())
    with gzip.open(path) as file:
        header = json.loads(file.readline())
        rest = file.read()
    assert (header["format"], header["version"], header["game"]) == ("mugo-shard", 1, "go:9")
    assert sum(np.dtype(array["dtype"]).itemsize * array["count"] for array in header["arrays"]) == len(rest)
    assert all(array["dtype"][0] in "<|" for array in header["arrays"])


def test_the_standard_library_writes_and_reads_the_same_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = write(tmp_path, record())
    with monkeypatch.context() as patch:
        patch.setattr(shards, "igzip_lib", None)
        patch.setattr(shards, "isal_zlib", None)
        plain = write(tmp_path, record())
        first = shards.read_shard(fast, shards.read_meta(fast))
    second = shards.read_shard(plain, shards.read_meta(plain))
    np.testing.assert_array_equal(first.visit_counts, second.visit_counts)
    assert first.header == second.header


def test_a_commit_costs_two_syncs_and_the_sidecar_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, record())
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(os, "rename", lambda a, b: (calls.append(Path(b).suffix), rename(a, b)))
    write(tmp_path, record())
    assert calls == ["sync", ".gz", "sync", ".meta"]


def test_a_rename_that_is_done_and_called_failed_is_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on network disks. Otherwise the games would be written again."""
    rename = os.rename

    def renamed(source: Path, target: Path) -> None:
        rename(source, target)
        if target.suffix == ".meta":
            raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "rename", renamed)
    path = write(tmp_path, record())
    assert shards.read_shard(path, shards.read_meta(path)).num_games == 1


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    whole = write(tmp_path, record())
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FileError, match="disk is full"):
        write(tmp_path, record())
    assert sorted(os.listdir(whole.parent)) == [whole.name, whole.with_suffix(".meta").name]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_an_interrupt_leaves_a_whole_shard_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """The interrupt comes right after this many renames."""
    rename, left = os.rename, [renames]

    def interrupted(source: Path, target: Path) -> None:
        if left[0] > 0:
            rename(source, target)
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, record())
    found = list(shards.newest_shards(tmp_path))
    assert len(found) == (renames == 2)
    for meta in found:
        shards.read_shard(meta.path, meta)
    assert len(os.listdir(tmp_path / "000001-a/w00")) == 2 * len(found)


def test_what_killed_workers_left_half_written_is_removed(tmp_path: Path) -> None:
    """In the newest two generations, and in the last one that the worker played in."""
    places = ["000001-a/w00", "000001-a/w1", "000004+000001-a/w1", "000005-b/w00", "000005+000001-a/w1"]
    left = {place: tmp_path / place / ".x.gz~elsewhere~5~20260101T000000~0123abcd.tmp" for place in places}
    for path in left.values():
        path.parent.mkdir(parents=True)
        path.touch()
    shards.prepare_folder(tmp_path, "000001-a", "w00", 6)
    assert [place for place, path in left.items() if path.exists()] == places[:3]
    shards.prepare_folder(tmp_path, "000001-a", "w1", 9)
    assert [place for place, path in left.items() if path.exists()] == places[:3]
    shutil.rmtree(tmp_path / "000005+000001-a/w1")
    shards.prepare_folder(tmp_path, "000001-a", "w1", 8)
    assert [place for place, path in left.items() if path.exists()] == places[:3]
    shutil.rmtree(tmp_path / "000009+000001-a/w1")
    shards.prepare_folder(tmp_path, "000001-a", "w1", 8)
    assert [place for place, path in left.items() if path.exists()] == places[:2]


def test_times_strictly_increase_whatever_the_clock_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        now_is = datetime(2026, 1, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.now_is

    monkeypatch.setattr(order, "datetime", Clock)
    paths = [write(tmp_path, record()), write(tmp_path, record())]
    Clock.now_is -= timedelta(days=3)
    paths.append(write(tmp_path, record()))
    monkeypatch.setattr(shards, "NAMES", order.ShardNames())  # another process, the clock still behind
    paths.append(write(tmp_path, record()))
    names = [layout.parse_shard_name(path.name) for path in paths]
    assert all(names) and sorted({path.name for path in paths}) == [path.name for path in paths]
    times = [name.time for name in names if name]
    assert all(a < b for a, b in itertools.pairwise(times))
    assert [name.number for name in names if name] == [1, 2, 3, 4]


def test_contradicting_records_are_our_own_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one game"):
        write(tmp_path)
    bad = record()
    with pytest.raises(ValueError, match="3 moves"):
        write(tmp_path, GameRecord(**{**bad.__dict__, "flags": bad.flags[:-1]}))
    with pytest.raises(ValueError, match="add up to 6"):
        write(tmp_path, GameRecord(**{**bad.__dict__, "visit_counts": bad.visit_counts[:-1]}))
    with pytest.raises(ValueError, match="learner 0, opponent None"):
        write(tmp_path, record(learner=0))
    with pytest.raises(ValueError, match="learner 2, opponent random"):
        write(tmp_path, record(opponent="random"))
    with pytest.raises(UsageError, match="model name"):
        write(tmp_path, record(), model="a/b")
    assert list(tmp_path.rglob("*.gz")) == []


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, record())
    meta = shards.read_meta(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(FileError, match=f"{path}: damaged: its checksum"):
            shards.read_shard(path, meta)
        path.write_bytes(whole[:at])
        with pytest.raises(FileError, match=f"damaged: {at} bytes; its sidecar says {len(whole)}"):
            shards.read_shard(path, meta)
        with pytest.raises(FileError, match="damaged: not readable as gzip"):
            shards.read_shard(path)
    path.unlink()
    with pytest.raises(FileError, match="no such file; wanted a game shard"):
        shards.read_shard(path, meta)


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> None:
    """Change header and arrays of a shard and correct its checksum."""
    header, _, body = gzip.decompress(path.read_bytes()).partition(b"\n")
    parsed = json.loads(header)
    arrays, offset = {}, 0
    for array in parsed["arrays"]:
        size = array["count"] * math.prod(array.get("shape", ()))
        arrays[array["name"]] = np.frombuffer(body, array["dtype"], size, offset).copy()
        offset += arrays[array["name"]].nbytes
    change(parsed, arrays)
    data = json.dumps(parsed).encode() + b"\n" + b"".join(array.tobytes() for array in arrays.values())
    path.write_bytes(gzip.compress(data))


def put(name: str, at: int, value: Any) -> Callable[[dict[str, Any], dict[str, np.ndarray]], None]:
    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[name][at] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda header, arrays: header.update(format="x"), "format 'x'; wanted 'mugo-shard'"),
        (lambda header, arrays: header.update(version=6), "version 6; this program reads version 1"),
        (lambda header, arrays: header.pop("game"), "names no game"),
        (lambda header, arrays: header.pop("method"), "no method"),
        (lambda header, arrays: header.pop("provenance"), "provenance"),
        (lambda header, arrays: header.pop("opponents"), "wanted a list of names"),
        (lambda header, arrays: header.pop("arrays"), "lists no arrays"),
        (lambda header, arrays: header["arrays"][0].update(dtype="<f8"), "its arrays are"),
        (lambda header, arrays: header["arrays"].pop(), "its arrays are"),
        (lambda header, arrays: header["arrays"][8].update(count=9), "bytes of arrays; its header wants"),
        (lambda header, arrays: header["arrays"][8].update(count=-1), "bytes of arrays; its header wants"),
        (put("lengths", 0, 4), "its games have 4 moves"),
        (put("lengths", 0, -3), "moves"),
        (put("visit_lengths", 0, 9), "visited edges"),
        (put("results", 0, 0.5), "a result is not"),
        (put("ends", 0, 4), "an end of 4"),
        (put("root_values", 0, np.nan), "root value"),
        (put("root_values", 0, 1.5), "root value"),
        (lambda header, arrays: header["arrays"][8].update(shape=[1]), "its arrays are"),
        (put("surprises", 0, np.nan), "a surprise is negative or not finite"),
        (put("surprises", 0, np.inf), "a surprise is negative or not finite"),
        (put("surprises", 0, -0.1), "a surprise is negative or not finite"),
        (put("opponents", 0, 0), "opponent 0; its header names 0"),
        (put("opponents", 0, -2), "opponent"),
        (put("learners", 0, 1), "side of the model"),
        (put("learners", 0, 3), "side of the model"),
        (lambda header, arrays: header.update(opponents=[1]), "wanted a list of names"),
        (lambda header, arrays: header.update(said=None), "the texts in its header"),
        (lambda header, arrays: header.update(said=[]), "the texts in its header"),
        (lambda header, arrays: header.update(said=["x"]), "the texts in its header"),
        (lambda header, arrays: header.update(said=[["x"]]), "the texts in its header"),
        (lambda header, arrays: header.update(said=[[["x", 1, 2]]]), "the texts in its header"),
        (lambda header, arrays: header.update(said=[[["x", True]]]), "the texts in its header"),
        (lambda header, arrays: header.update(said=[[[1, 1]]]), "the texts in its header"),
    ],
)
def test_contradicting_contents_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None], problem: str
) -> None:
    path = write(tmp_path, record())
    rewritten(path, change)
    with pytest.raises(FileError, match=problem):
        shards.read_shard(path)


def list_again(position: int, **change: Any) -> Callable[[dict[str, Any], dict[str, np.ndarray]], None]:
    return lambda header, arrays: header["arrays"][position].update(change)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("results", 0, 3.5), r"a result is not in \[-3, 3\]"),
        (put("results", 0, np.nan), r"a result is not in \[-3, 3\]"),
        (lambda header, arrays: header.update(max_result="x"), "count up to x"),
        (lambda header, arrays: header.update(max_result=-1), "count up to -1"),
        (lambda header, arrays: header.update(max_result=1e999), "Infinity|count up to"),
        (lambda header, arrays: header.pop("max_result"), "count up to None"),
        (list_again(9, dtype="|O"), "its arrays are"),
        (list_again(9, dtype="<U9"), "its arrays are"),
        (list_again(9, shape=[5, 1, -1]), "its arrays are"),
        (list_again(9, shape=[0]), "its arrays are"),
        (list_again(9, shape="x"), "lists no arrays"),
        (list_again(9, shape=7), "lists no arrays"),
        (list_again(9, shape=[1 << 40, 1 << 40]), "its arrays are"),
        (list_again(9, shape=[1 << 40, 1 << 40], count=0), "its arrays are"),
        (list_again(9, shape=[1] * 99), "its arrays are"),
        (list_again(9, shape=[5, 2]), "bytes of arrays; its header wants"),
        (list_again(9, shape=[1], count=20), "its columns of moves do not"),
        (list_again(9, name="visit_counts"), "its arrays are"),
        (list_again(9, name="equity"), "its arrays are"),
        (list_again(9, name="\x1b[2J"), "its arrays are"),
        (list_again(0, shape=[2]), "its arrays are"),
    ],
)
def test_contradicting_contents_of_own_columns_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None], problem: str
) -> None:
    path = write_own(tmp_path, thought(5, 3, 2.0), thought(6, 1, -3.0))
    rewritten(path, change)
    with pytest.raises(FileError, match=problem):
        shards.read_shard(path)


@pytest.mark.parametrize(
    "name", ["method", "generation", "evaluations", "cut_short", "game_ids", "numbers", "run", "sha256", "worker"]
)
def test_a_sidecar_says_everything(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, record()).with_suffix(".meta")
    raw = json.loads(path.read_text())
    del raw[name]
    path.write_text(json.dumps(raw))
    with pytest.raises(FileError, match=f"damaged: KeyError: '{name}'"):
        shards.read_meta(path)


@pytest.mark.parametrize("surprises", [None, "AAAAAAAA"])
def test_a_sidecar_has_the_surprises_of_its_shard(tmp_path: Path, surprises: str | None) -> None:
    path = write(tmp_path, record(surprises=np.array([0.5, 0.0, 2.0])))
    raw = json.loads(path.with_suffix(".meta").read_text())
    del raw["surprises"]
    path.with_suffix(".meta").write_text(json.dumps({**raw, **({"surprises": surprises} if surprises else {})}))
    with pytest.raises(FileError, match="surprises are not in its sidecar"):
        shards.read_shard(path, shards.read_meta(path))


def test_a_shard_must_be_the_one_of_its_sidecar(tmp_path: Path) -> None:
    path = write(tmp_path, record(length=3))
    other = write(tmp_path, record(length=4))
    data = other.read_bytes()
    meta = json.loads(path.with_suffix(".meta").read_text())
    path.write_bytes(data)
    meta.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    atomic.write_json(path.with_suffix(".meta"), meta)
    with pytest.raises(FileError, match="not those in its sidecar"):
        shards.read_shard(path, shards.read_meta(path))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "x"}, "format 'x'"),
        ({"generation": None}, "damaged"),
        ({"version": 9}, "version 9"),
        ({"lengths": [1, 1]}, "lengths"),
        ({"lengths": [4]}, "lengths"),
        ({"lengths": [-3]}, "lengths"),
        ({"lengths": "x"}, "damaged"),
        ({"positions": None}, "damaged"),
        ({"surprises": "!"}, "damaged"),
        ({"surprises": "AAA="}, "surprises are not 3"),
        ({"surprises": "AAAAAAA"}, "damaged"),
        ({"surprises": "AHwAAAAA"}, "surprises are not 3 finite"),  # infinity
        ({"surprises": "AIAAvAAA"}, "none negative"),  # -1
        ({"surprises": None}, "damaged"),
        ({"game_ids": "AAAAAAAAAAA"}, "damaged"),
        ({"game_ids": "AAAAAAAAAAAAAAAAAAAAAA=="}, "2 ids and 1 numbers of 1 games"),
        ({"game_ids": None}, "damaged"),
        ({"numbers": [1, 2]}, "2 numbers of 1 games"),
        ({"numbers": [-1]}, "damaged"),
        ({"numbers": [10**300]}, "damaged"),
        ({"numbers": 3}, "damaged"),
        ({"run": {"since": 1, "first": 2}}, "damaged"),
        ({"run": {"since": 1, "first": 2, "until": -3}}, "damaged"),
        ({"run": None}, "damaged"),
    ],
)
def test_damaged_sidecars(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = write(tmp_path, record()).with_suffix(".meta")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, **change}))
    with pytest.raises(FileError, match=problem):
        shards.read_meta(path)
    path.write_text("{")
    with pytest.raises(FileError, match="not readable as JSON"):
        shards.read_meta(path)


def test_ids_and_numbers_of_games(tmp_path: Path) -> None:
    run = shards.RunNumbers(since=3, first=40, until=60)
    path = write_shard(
        tmp_path, "000001-a", "w00", "go:9", [record(2**64 - 1), record(7)], {}, numbers=[41, 2**40], run=run
    )
    meta = shards.read_meta(path)
    assert meta.game_ids.tolist() == [2**64 - 1, 7]
    assert meta.numbers.tolist() == [41, 2**40] and meta.run == run
    shards.read_shard(path, meta)
    with pytest.raises(FileError, match="ids are not those in its sidecar"):
        shards.read_shard(path, replace(meta, game_ids=meta.game_ids[::-1]))


# Finding shards


def test_newest_first_by_model_then_time_then_worker(tmp_path: Path) -> None:
    made = [
        write(tmp_path, record(), model=model, worker=worker)
        for model, worker in [("000002-b", "w01"), ("000010-c", "w01"), ("000002-b", "w00"), ("000001-z", "w00"),
                              ("000010-c", "w00")]
    ]  # fmt: skip
    same_time = made[0].parent.parent / "w07" / made[0].name
    same_time.parent.mkdir()
    same_time.write_bytes(made[0].read_bytes())
    same_time.with_suffix(".meta").write_text(made[0].with_suffix(".meta").read_text())
    found = [meta.path for meta in shards.newest_shards(tmp_path)]
    assert found == [made[4], made[1], made[2], same_time, made[0], made[3]]


def test_only_committed_shards_exist(tmp_path: Path) -> None:
    path = write(tmp_path, record())
    path.with_suffix(".meta").rename(path.with_name(".x.meta"))
    assert list(shards.newest_shards(tmp_path)) == []
    assert list(shards.newest_shards(tmp_path / "missing")) == []


def test_damaged_sidecars_are_told_and_passed_over(tmp_path: Path) -> None:
    good, bad = write(tmp_path, record()), write(tmp_path, record())
    bad.with_suffix(".meta").write_text("{")
    with pytest.raises(FileError, match="JSON"):
        list(shards.newest_shards(tmp_path))
    told: list[FileError] = []
    assert [meta.path for meta in shards.newest_shards(tmp_path, told.append)] == [good]
    assert [error.path for error in told] == [bad.with_suffix(".meta")]


@pytest.mark.parametrize("num_older", [1, 200])
def test_the_scan_costs_the_same_with_any_history_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_older: int
) -> None:
    wanted = [write(tmp_path, record(), model="000009-new") for _ in range(3)]
    for number in range(num_older):
        write(tmp_path, record(), model="000008-old", worker=f"w{number % 7}")
    calls: list[str] = []
    listdir, scandir, read = os.listdir, os.scandir, shards.read_meta
    monkeypatch.setattr(os, "listdir", lambda path: (calls.append(str(path)), listdir(path))[1])
    monkeypatch.setattr(os, "scandir", lambda path: (calls.append(str(path)), scandir(path))[1])
    monkeypatch.setattr(shards, "read_meta", lambda path, pack: (calls.append(str(path)), read(path, pack))[1])
    newest = shards.newest_shards(tmp_path)
    assert [next(newest).path for _ in wanted] == wanted[::-1]
    # The folder of all games, of the generation, and of the worker twice: packs are looked for behind the names.
    assert len(calls) == 4 + len(wanted) and not any("old" in call for call in calls)


def test_a_folder_that_cannot_be_written_is_noticed_before_there_are_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards.prepare_folder(tmp_path / "selfplay", "000001-a", "w00", 1)
    assert list((tmp_path / "selfplay/000001-a/w00").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="wanted a directory"):
        shards.prepare_folder(tmp_path / "file", "000001-a", "w00", 1)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="disk is full"):
        shards.prepare_folder(tmp_path / "selfplay", "000001-a", "w00", 1)


@pytest.mark.parametrize("has_surprises", [False, True])
def test_a_sidecar_that_claims_more_positions_than_fit_into_memory(tmp_path: Path, has_surprises: bool) -> None:
    path = write(tmp_path, record()).with_suffix(".meta")
    raw = json.loads(path.read_text())
    if not has_surprises:
        del raw["surprises"]  # they have a size of their own
    for claims in (
        {"positions": 10**15},
        {"positions": 10**15, "lengths": [10**15]},
        {"positions": 2**31 - 1, "lengths": [2**31 - 1]},
        {"positions": 2**16, "lengths": [2**16]},
        {"positions": 200 * 65_535, "games": 200, "lengths": [65_535] * 200},
        {"games": 10**15},
    ):
        path.write_text(json.dumps({**raw, **claims}))
        with pytest.raises(FileError, match="damaged"):
            shards.read_meta(path)


@pytest.mark.parametrize("with_isal", [True, False])
def test_a_shard_that_unpacks_to_more_than_any_shard_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_isal: bool
) -> None:
    if not with_isal:
        monkeypatch.setattr(shards, "isal_zlib", None)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(100 << 20), 9))
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"a\.gz.*unpack to more than"):
            shards.read_shard(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("with_isal", [True, False])
def test_what_is_no_gzip_or_more_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_isal: bool) -> None:
    if not with_isal:
        monkeypatch.setattr(shards, "isal_zlib", None)
    whole = write(tmp_path, record()).read_bytes()
    path = tmp_path / "a.gz"
    for data in (b"", b"\x1f\x8b", whole[:-1], whole + b"x", whole * 2, whole[:30] + b"\xff" * 30 + whole[60:]):
        path.write_bytes(data)
        with pytest.raises(FileError, match="not readable as gzip"):
            shards.read_shard(path)
