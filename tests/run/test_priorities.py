"""Priorities on disk: what is written is read, damage is noticed, and files of removed sets are removed."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.run import layout
from pipeline.run.chunks import list_sets, newest_complete_set, remove_old_sets
from pipeline.run.priorities import (
    Priorities,
    example_numbers,
    newest_priorities,
    read_priorities,
    remove_stale_priorities,
    write_priorities,
)
from tests.train.chunk_sets import write_set

SET = "000003-1a2b3c4d"


def some(count: int = 50, seed: int = 0) -> Priorities:
    rng = np.random.default_rng(seed)
    return Priorities(rng.integers(0, 2**64, count, np.uint64), (rng.random(count) + 0.01).astype(np.float32))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / layout.priorities_name(SET)
    for written in (some(), some(7, 1), some(0)):
        write_priorities(path, written)
        found = read_priorities(path)
        assert found.examples.dtype == np.uint64 and np.array_equal(found.examples, written.examples)
        assert found.values.dtype == np.float32 and np.array_equal(found.values, written.values)
    assert [file.name for file in tmp_path.iterdir()] == [f"{SET}-priorities.safetensors"]


def test_names(tmp_path: Path) -> None:
    assert layout.parse_priorities_name(layout.priorities_name(SET)) == layout.SetName(3, "1a2b3c4d")
    assert layout.parse_priorities_name(f"{SET}-holdout.h5") is None
    assert layout.parse_priorities_name(f".{SET}-priorities.safetensors~host~1~00000000.tmp") is None
    assert layout.parse_chunk_name(layout.priorities_name(SET)) is None


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / layout.priorities_name(SET)
    write_priorities(path, some(4))
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(FileError, match="damaged"):
            read_priorities(path)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            found = read_priorities(path)
        except FileError:
            continue
        # a bit of the header that changes no meaning, such as white space
        assert np.array_equal(found.values, some(4).values) and np.array_equal(found.examples, some(4).examples)
    with pytest.raises(FileError, match="No such file"):
        read_priorities(tmp_path / "none")


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_numbers_that_are_no_priorities_are_refused(tmp_path: Path, bad: float) -> None:
    values = np.array([1, bad], np.float32)
    write_priorities(tmp_path / "x", Priorities(np.arange(2, dtype=np.uint64), values))
    with pytest.raises(FileError, match="an example without a priority above 0"):
        read_priorities(tmp_path / "x")


def test_another_format_is_refused(tmp_path: Path) -> None:
    arrays = {"examples": np.arange(2, dtype=np.uint64), "priorities": np.ones(2, np.float32)}
    (tmp_path / "x").write_bytes(safetensors.numpy.save(arrays, {"format": "mugo-priorities", "version": "2"}))
    with pytest.raises(FileError, match=r"version '2'.*wanted priorities of version 1"):
        read_priorities(tmp_path / "x")


def test_numbers_of_examples_tell_positions_apart() -> None:
    """Every combination of shard, game and ply has a number of its own, whatever its index in the chunk."""
    shards = ["a/w0/1.gz", "a/w0/2.gz", "b/w0/1.gz"]
    shard, game, ply = (axis.ravel() for axis in np.meshgrid(np.arange(3), np.arange(64), np.arange(300)))
    numbers = example_numbers(shards, shard.astype("<u4"), game.astype("<u4"), ply.astype("<u2"))
    assert numbers.dtype == np.uint64
    assert len(np.unique(numbers)) == numbers.size
    turned = example_numbers(shards[::-1], 2 - shard, game, ply)
    assert np.array_equal(numbers, turned)
    assert example_numbers([], shard[:0], game[:0], ply[:0]).shape == (0,)
    # bits are mixed: each is set in about half of them
    shares = [((numbers >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)]
    assert 0.48 < min(shares) <= max(shares) < 0.52


def test_numbers_of_examples_stay_the_same_between_versions() -> None:
    """In plain Python: splitmix64's finaliser of the name's hash and the position."""
    import hashlib

    digest = hashlib.blake2b(b"000001-x/w00/s.gz", digest_size=8).digest()
    mixed = (int.from_bytes(digest, "little") + ((7 << 16) | 40) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    found = example_numbers(["000001-x/w00/s.gz"], np.array([0]), np.array([7], np.uint32), np.array([40], np.uint16))
    assert int(found[0]) == mixed ^ (mixed >> 31)


class TestSets:
    def test_the_newest_up_to_a_set(self, tmp_path: Path) -> None:
        for number in (1, 2, 5):
            write_priorities(tmp_path / f"{number:06d}-00000000-priorities.safetensors", some())
        assert newest_priorities(tmp_path, "000005-00000000") == tmp_path / "000005-00000000-priorities.safetensors"
        assert newest_priorities(tmp_path, "000004-00000000") == tmp_path / "000002-00000000-priorities.safetensors"
        assert newest_priorities(tmp_path, "000000-00000000") is None

    def test_files_of_sets_that_are_gone_go(self, tmp_path: Path) -> None:
        game = parse_game("tictactoe")
        for number in (1, 2, 3):
            chunks = write_set(tmp_path, game, [4], number=number, seed=number)
            write_priorities(tmp_path / layout.priorities_name(chunks.id), some())
        assert len(list_sets(tmp_path)) == 3, "priorities are no chunks"
        assert newest_complete_set(tmp_path) == chunks
        assert remove_old_sets(tmp_path, 2) == 1
        assert remove_stale_priorities(tmp_path, "000003-00000003") == 1
        left = sorted(path.name for path in tmp_path.glob("*-priorities*"))
        assert left == ["000002-00000002-priorities.safetensors", "000003-00000003-priorities.safetensors"]

    def test_the_file_of_the_set_at_hand_stays(self, tmp_path: Path) -> None:
        write_priorities(tmp_path / layout.priorities_name(SET), some())
        assert remove_stale_priorities(tmp_path, SET) == 0
        assert remove_stale_priorities(tmp_path, "000004-00000000") == 1
