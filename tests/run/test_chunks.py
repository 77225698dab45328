from __future__ import annotations

import errno
import os
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.run import chunks, layout
from pipeline.run.chunks import ORIGIN, ChunkHeader
from tests.run.random_games import window_of

GAME = parse_game("go:5")
SET = layout.SetName(4, "1a2b3c4d")
HEADER = ChunkHeader("go:5", str(SET), 0, 2, 9, GAME.num_planes, "alphazero", window_of(positions=10))
SHARDS = ["000001-a/w00/x.gz", "000001-a/w01/y.gz"]


def random_columns(num_examples: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = {
        name: rng.integers(0, 2, (num_examples, *shape)).astype(dtype)
        for name, (dtype, shape) in {**column_types(GAME), **ORIGIN}.items()
    }
    columns["policy"] = rng.random(columns["policy"].shape).astype(np.float16)
    return columns


def write(path: Path, num_examples: int = 40, **header: Any) -> Path:
    shards = SHARDS if num_examples else []
    chunks.write_chunk(path, replace(HEADER, **header), random_columns(num_examples), shards)
    return path


@pytest.mark.parametrize("num_examples", [0, 1, 40])
def test_round_trip(tmp_path: Path, num_examples: int) -> None:
    path = write(tmp_path / "a.h5", num_examples)
    chunk = chunks.read_chunk(path, GAME.spec, column_types(GAME))
    assert chunk.header == replace(HEADER, num_examples=num_examples) == chunks.read_header(path)
    assert chunk.num_examples == num_examples and chunk.shards == (SHARDS if num_examples else [])
    for name, column in random_columns(num_examples).items():
        assert chunk.columns[name].dtype == column.dtype
        np.testing.assert_array_equal(chunk.columns[name], column)


def test_more_places_are_counted_than_fit_into_an_attribute(tmp_path: Path) -> None:
    """An HDF5 attribute has at most 64 KiB."""
    counted = {f"000001-a/worker-{number}-with-a-rather-long-name": number for number in range(2500)}
    window = window_of(total_positions=5, counted_shards=counted)
    path = write(tmp_path / "a.h5", window=window)
    assert chunks.read_header(path).window == window
    assert chunks.read_chunk(path, GAME.spec, column_types(GAME)).header.window == window
    assert chunks.read_header(write(path, window=window_of())).window == window_of()


@pytest.mark.parametrize("name", [*chunks.COUNTS, "td_lambda", "skipped"])
def test_a_chunk_says_everything_of_its_window(tmp_path: Path, name: str) -> None:
    window = {other: value for other, value in window_of().items() if other != name}
    with pytest.raises(FileError, match=f"window has no {name}"):
        chunks.read_header(write(tmp_path / "a.h5", window=window))


@pytest.mark.parametrize("line", ["", "000001-a/w00", "000001-a/w00 -1", "000001-a/w00 x", f"a/w00 {2**63}"])
def test_damaged_counts_of_shards(tmp_path: Path, line: str) -> None:
    place, _, number = line.rpartition(" ")
    with pytest.raises(FileError, match=r"not readable as HDF5 .*counted_shards"):
        chunks.read_header(write(tmp_path / "a.h5", window=window_of(counted_shards={place: number})))


def test_the_same_examples_give_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "a.h5").read_bytes() == write(tmp_path / "b.h5").read_bytes()


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        for read in (lambda: chunks.read_chunk(path, GAME.spec, column_types(GAME)), lambda: chunks.read_header(path)):
            with pytest.raises(FileError, match=f"{path}: (damaged|version)"):
                read()
        path.write_bytes(whole[:at])
        with pytest.raises(FileError, match=f"{path}: damaged"):
            chunks.read_chunk(path, GAME.spec, column_types(GAME))


def test_missing_and_other_chunks(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no such file.*main.py gather"):
        chunks.read_chunk(tmp_path / "a.h5", GAME.spec, column_types(GAME))
    path = write(tmp_path / "a.h5")
    with pytest.raises(FileError, match="holds go:5; wanted go:6"):
        chunks.read_chunk(path, parse_game("go:6").spec, column_types(parse_game("go:6")))
    with h5py.File(path) as file:  # any other program can read it
        assert file.attrs["game"] == "go:5"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(FileError, match=r"another version: format 2; wanted 1; run `python main.py gather` again"):
        chunks.read_chunk(path, GAME.spec, column_types(GAME))
    with h5py.File(path, "w") as file:
        file.attrs["game"] = "go:5"
    with pytest.raises(FileError, match="no chunk of training examples"):
        chunks.read_header(path)


def resealed(path: Path, change: Callable[[h5py.File], None]) -> None:
    """Change a chunk and seal it again."""
    with h5py.File(path, "r+") as file:
        change(file)
    data = bytearray(path.read_bytes())
    data[: chunks.SEAL_BYTES] = chunks._seal(memoryview(data))
    path.write_bytes(data)


def test_columns_of_another_shape(tmp_path: Path) -> None:
    def narrow(file: h5py.File) -> None:
        del file["policy"]
        file["policy"] = np.zeros((40, 25), np.float16)

    path = write(tmp_path / "a.h5")
    resealed(path, narrow)
    with pytest.raises(FileError, match=r"policy is float16 \(40, 25\); go:5 needs float16 \(40, 26\)"):
        chunks.read_chunk(path, GAME.spec, column_types(GAME))
    resealed(path, lambda file: file.pop("policy"))
    with pytest.raises(FileError, match="not readable as HDF5"):
        chunks.read_chunk(path, GAME.spec, column_types(GAME))


def test_an_index_outside_the_list_of_shards(tmp_path: Path) -> None:
    columns = random_columns()
    columns["shard"][:] = 2
    chunks.write_chunk(tmp_path / "a.h5", HEADER, columns, SHARDS)
    with pytest.raises(FileError, match="not in its list of shards"):
        chunks.read_chunk(tmp_path / "a.h5", GAME.spec, column_types(GAME))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(FileError, match="disk is full"):
        write(tmp_path / "a.h5")
    assert os.listdir(tmp_path) == []


# Sets


def touch(folder: Path, name: layout.SetName, indices: list[int], count: int, holdout: bool = False) -> None:
    for index in indices:
        (folder / layout.chunk_name(name, index, count)).touch()
    if holdout:
        (folder / layout.holdout_name(name)).touch()


def test_the_newest_complete_set(tmp_path: Path) -> None:
    assert chunks.newest_complete_set(tmp_path / "missing") is None
    assert chunks.newest_complete_set(tmp_path) is None
    old, new, half = (
        layout.SetName(number, digest) for number, digest in [(9, "ffffffff"), (10, "00000000"), (11, "a" * 8)]
    )
    touch(tmp_path, half, [0, 2], 3, holdout=True)
    assert chunks.newest_complete_set(tmp_path) is None
    touch(tmp_path, old, [0, 1], 2)
    touch(tmp_path, new, [0, 1, 2], 3, holdout=True)
    (tmp_path / ".000012-aaaaaaaa-0000-of-0001.h5").touch()
    (tmp_path / "notes.h5").touch()
    found = chunks.newest_complete_set(tmp_path)
    assert found is not None and found.id == "000010-00000000"
    assert [path.name for path in found.chunks] == [layout.chunk_name(new, index, 3) for index in range(3)]
    assert found.holdout == tmp_path / layout.holdout_name(new) and len(found.files) == 4
    found.chunks[1].unlink()
    found = chunks.newest_complete_set(tmp_path)
    assert found is not None and found.id == "000009-ffffffff" and found.holdout is None


def test_old_sets_are_removed_and_half_made_ones(tmp_path: Path) -> None:
    names = [layout.SetName(number, "0" * 8) for number in range(5)]
    for name in names:
        touch(tmp_path, name, [0] if name.number == 3 else [0, 1], 2, holdout=True)
    (tmp_path / "notes.h5").touch()
    assert chunks.remove_old_sets(tmp_path, keep=2) == 3
    assert list(chunks.list_sets(tmp_path)) == [names[2], names[4]]
    assert (tmp_path / "notes.h5").exists()
    assert chunks.remove_old_sets(tmp_path, keep=1, made=str(names[2])) == 0  # an older one, completed again


def test_a_kill_while_a_set_is_removed_leaves_no_whole_set_without_its_hold_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        touch(tmp_path, layout.SetName(number, "0" * 8), [0, 1], 2, holdout=True)
    monkeypatch.setattr(chunks.atomic, "remove", lambda paths: next(iter(paths)).unlink())  # the first alone
    chunks.remove_old_sets(tmp_path, keep=1)
    old, new = chunks.list_sets(tmp_path).items()
    assert len(old[1]) == 2 and chunks.complete_set(*old) is None and chunks.complete_set(*new) is not None


# Chunks that somebody made to do harm: their seal is right


def crafted(path: Path, change: Callable[[h5py.File], None]) -> Path:
    """A chunk after this change, sealed again."""
    resealed(write(path), change)
    return path


def replaced(name: str, **how: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        old = file[name]
        shape, dtype = old.shape, old.dtype
        del file[name]
        file.create_dataset(name, **{"shape": shape, "dtype": dtype, **how})

    return change


def linked(name: str, link: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = link

    return change


def outside(path: Path, name: str) -> Path:
    """A file that reading a chunk must not open, with an array that would fit."""
    with h5py.File(path, "w") as file:
        file[name] = random_columns()[name]
    return path


def virtual(secret: Path) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file["value"]
        source = h5py.VirtualSource(str(secret), "value", shape=(40,))
        layout_ = h5py.VirtualLayout((40,), "<f4")
        layout_[:] = source
        file.create_virtual_dataset("value", layout_)

    return change


def attribute(name: str, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file.attrs[name] = value

    return change


def no_longer(name: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]

    return change


def read(path: Path) -> chunks.Chunk:
    return chunks.read_chunk(path, GAME.spec, column_types(GAME))


def test_a_changed_chunk_that_is_sealed_again_is_read(tmp_path: Path) -> None:
    """Otherwise the tests below might fail for another reason."""
    assert read(crafted(tmp_path / "a.h5", attribute("seed", 3))).header.seed == 3


@pytest.mark.parametrize("kind", ["external", "soft", "virtual", "storage"])
def test_a_chunk_never_reads_another_file(tmp_path: Path, kind: str) -> None:
    secret = outside(tmp_path / "secret.h5", "value")
    change = {
        "external": linked("value", h5py.ExternalLink(str(secret), "value")),
        "soft": linked("value", h5py.SoftLink("/planes")),
        "virtual": virtual(secret),
        "storage": replaced("value", external=[("/etc/passwd", 0, 160)]),
    }[kind]
    with pytest.raises(FileError, match="value is no array in this file"):
        read(crafted(tmp_path / "a.h5", change))


@pytest.mark.parametrize(
    "change",
    [
        replaced("value", dtype="<f8"),
        replaced("value", shape=(40, 2)),
        replaced("value", shape=(10**15,), chunks=(1024,)),
        replaced("value", chunks=(40,)),
        replaced("value", chunks=(40,), compression=9),
        replaced("value"),  # never written: its bytes aren't there
        replaced("shards", shape=(10**15,), dtype="S17", chunks=(1024,)),
        replaced("shards", shape=(2,), dtype="S100000000", chunks=(2,), compression=9),
        replaced("shards", shape=(1,), dtype="S60", chunks=(10**8,), maxshape=(None,), compression=9),
        replaced("shards", shape=(2,), dtype="S17", chunks=(2,), fletcher32=True),
        replaced("shards", shape=(2,), dtype=h5py.string_dtype()),
        replaced("shards", shape=(2, 2), dtype="S17"),
        replaced("shards", shape=(2,), dtype="<f4"),
        linked("shards", h5py.SoftLink("/value")),
        no_longer("shards"),
        no_longer("value"),
        lambda file: (no_longer("value")(file), file.create_group("value")),
        attribute("num_examples", 10**15),
        attribute("num_examples", -1),
        attribute("num_examples", [1, 2]),
        attribute("seed", float("inf")),
        attribute("game", 3),
        attribute("window", "[" * 100_000),
        attribute("window", "[]"),
        attribute("window", '{"total_positions": null}'),
        attribute("window", '{"total_positions": Infinity}'),
    ],
)
def test_a_crafted_chunk(tmp_path: Path, change: Callable[[h5py.File], None]) -> None:
    with pytest.raises(FileError, match=r"a\.h5"):
        read(crafted(tmp_path / "a.h5", change))


def test_a_list_of_shards_that_unpacks_to_more_than_it_says(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        replaced("shards", shape=(2,), dtype="S17", chunks=(2,), compression=9)(file)
        file["shards"].id.write_direct_chunk((0,), zlib.compress(bytes(50 << 20), 9))

    path = crafted(tmp_path / "a.h5", change)
    tracemalloc.start()
    try:
        names = read(path).shards
        assert names == ["", ""] and tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_chunk_that_claims_to_be_longer_than_its_file(tmp_path: Path) -> None:
    data = bytearray(write(tmp_path / "a.h5").read_bytes())
    at = data.index(len(data).to_bytes(8, "little"), chunks.SEAL_BYTES)  # the end of the file, in HDF5's superblock
    data[at : at + 8] = (10**15).to_bytes(8, "little")
    data[: chunks.SEAL_BYTES] = chunks._seal(memoryview(data))
    (tmp_path / "a.h5").write_bytes(data)
    with pytest.raises(FileError, match="not readable as HDF5"):
        read(tmp_path / "a.h5")
