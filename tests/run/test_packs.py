"""Packs: every shard of a place is seen once, wherever it is; errors name damaged files."""

import base64
import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.run import layout, order, packs
from pipeline.run.shards import Shard, newest_shards, read_meta, read_shard
from tests.run.random_games import random_shards

GAME = parse_game("tictactoe")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    random_shards(tmp_path / "selfplay", GAME, 21, 2)
    return tmp_path / "selfplay" / "000001-a" / "w01"


def pack_some(place: Path, names: list[layout.ShardName], remove: bool = True) -> packs.Pack:
    pack = packs.write_pack(
        place, [(name, (place / name.shard).read_bytes(), (place / name.meta).read_bytes()) for name in names]
    )
    if remove:
        packs.remove_files(place, names)
    return pack


def content(shard: Shard) -> bytes:
    return b"".join(getattr(shard, name).tobytes() for name in ("game_ids", "moves", "visit_counts", "results"))


def reread(pack: packs.Pack) -> None:
    """Clear the cache of lists: a pack never changes, so its list is read once."""
    packs._read_pack.cache_clear()


def seen(place: Path) -> list[tuple[str, bytes, bytes]]:
    """Everything that readers see of the place's shards."""
    found = []
    for meta in newest_shards(place.parent.parent, pytest.fail):
        found.append((meta.id, meta.surprises.tobytes(), content(read_shard(meta.path, meta))))
        assert read_meta(meta.path).id == meta.id
    return found


def test_packed_shards_are_what_they_were(place):
    before = seen(place)
    names = sorted(packs.shards_in(place))
    assert len(names) == 7
    pack_some(place, names[:3])
    assert seen(place) == before
    pack_some(place, names[3:6], remove=False)  # as a kill leaves it
    assert seen(place) == before
    packs.remove_files(place, names[3:6])
    assert seen(place) == before
    assert sorted(path.name for path in place.iterdir()) == sorted(
        name
        for pack in (layout.PackName(names[2], 3), layout.PackName(names[5], 3), names[6])
        for name in (pack.shard, pack.meta)
    )


def test_a_pack_is_gzip_and_its_sidecar_json_lines(place):
    names = sorted(packs.shards_in(place))
    shards = [gzip.decompress((place / name.shard).read_bytes()) for name in names]
    sidecars = [json.loads((place / name.meta).read_text()) for name in names]
    pack = pack_some(place, names)
    assert gzip.decompress(pack.path.read_bytes()) == b"".join(shards)
    head, *rest = pack.meta.read_text().splitlines()
    assert json.loads(head)["shards"] == [name.stem for name in names]
    assert [json.loads(line) for line in rest] == sidecars
    assert [pack.num_bytes(name) for name in names] == pack.sizes.sum(axis=1).tolist()


def test_readers_find_what_was_packed_after_they_listed_it(place):
    files = list(order.newest_files(place.parent.parent))
    metas = list(newest_shards(place.parent.parent))
    names = sorted(packs.shards_in(place))
    pack_some(place, names[:6])
    for file, meta in zip(files, metas, strict=True):
        assert read_meta(file.meta(place.parent.parent), None).id == meta.id
        assert read_shard(meta.path, meta).num_games == 2


def test_readers_find_what_moved_to_another_pack(place):
    names = sorted(packs.shards_in(place))
    first = pack_some(place, names)
    metas = [read_meta(place / name.meta) for name in names]
    kept = [names[0], names[-1]]
    packs.write_pack(place, [(name, first.read(name, ".gz"), first.read(name, ".meta")) for name in kept])
    first.meta.unlink()
    first.path.unlink()
    for meta, name in zip(metas, names, strict=True):
        assert meta.pack is not None and meta.pack.name == first.name
        if name in kept:
            assert read_shard(meta.path, meta).num_games == 2
            assert read_meta(meta.path, first).pack.name.count == 2
        else:
            with pytest.raises(packs.Gone, match="no such file"):
                read_shard(meta.path, meta)
            with pytest.raises(packs.Gone, match="no such file"):
                read_meta(meta.path)
            assert packs.is_gone(meta.path)
    assert sorted(packs.shards_in(place)) == kept


def test_numbers_go_on_behind_a_pack(place):
    names = sorted(packs.shards_in(place))
    pack_some(place, names)
    following = order.ShardNames().next(place)
    assert following.number == names[-1].number + 1 and following.time > names[-1].time


def test_every_byte_of_a_damaged_pack(place):
    """Readers get the original games or an error that names a file, never other games."""
    before = {name: rest for name, *rest in seen(place)}
    names = sorted(packs.shards_in(place))
    pack = pack_some(place, names)
    rng = random.Random(1)
    for path in (pack.meta, pack.path):
        whole = path.read_bytes()
        for at in rng.sample(range(len(whole)), 50):
            for data in (whole[:at], whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]):
                path.write_bytes(data)
                reread(pack)
                problems: list[FileError] = []
                for meta in newest_shards(place.parent.parent, problems.append):
                    try:
                        shard = read_shard(meta.path, meta)
                    except FileError as error:
                        problems.append(error)
                        continue
                    assert before[meta.id] == [meta.surprises.tobytes(), content(shard)]
                assert problems, (path.name, at)
        path.write_bytes(whole)
        reread(pack)
    assert {name: rest for name, *rest in seen(place)} == before


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "version 2"),
        ({"format": "x"}, "format"),
        ({"shards": []}, "checksum"),
        ({"seal": None}, "checksum"),
    ],
)
def test_a_list_that_is_not_the_packs(place, change, problem):
    pack = pack_some(place, sorted(packs.shards_in(place)))
    head, rest = pack.meta.read_bytes().split(b"\n", 1)
    pack.meta.write_bytes(json.dumps(json.loads(head) | change).encode() + b"\n" + rest)
    reread(pack)
    errors: list[FileError] = []
    found = list(newest_shards(place.parent.parent, errors.append))
    assert len(found) == 14 and len(errors) == 1
    assert problem in str(errors[0]) and pack.meta.name in str(errors[0])
    with pytest.raises(FileError, match=problem):
        list(newest_shards(place.parent.parent))


def sealed(raw: dict) -> bytes:
    raw.pop("seal", None)
    return json.dumps({**raw, "seal": packs._seal(raw)}).encode() + b"\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(shards=raw["shards"][::-1]),
        lambda raw: raw.update(shards=raw["shards"][:-1]),
        lambda raw: raw.update(shards=["../../x", *raw["shards"][1:]]),
        lambda raw: raw.update(shards=7),
        lambda raw: raw.update(bytes="AAAA"),
        lambda raw: raw.update(bytes=None),
        lambda raw: raw.pop("sidecar_checksums"),
    ],
)
def test_sealed_nonsense(place, change):
    pack = pack_some(place, sorted(packs.shards_in(place)))
    head, rest = pack.meta.read_bytes().split(b"\n", 1)
    raw = json.loads(head)
    change(raw)
    pack.meta.write_bytes(sealed(raw) + rest)
    reread(pack)
    errors: list[FileError] = []
    list(newest_shards(place.parent.parent, errors.append))
    assert [error.path for error in errors] == [pack.meta]


def test_sizes_beyond_the_file_ask_for_no_memory(place):
    pack = pack_some(place, sorted(packs.shards_in(place)))
    head, rest = pack.meta.read_bytes().split(b"\n", 1)
    raw = json.loads(head)
    for key in ("bytes", "sidecar_bytes"):
        raw[key] = base64.b64encode(np.full(7, 2**32 - 1, "<u4").tobytes()).decode()
    pack.meta.write_bytes(sealed(raw) + rest)
    reread(pack)
    errors: list[FileError] = []
    assert len(list(newest_shards(place.parent.parent, errors.append))) == 14
    assert len(errors) == 7 and all("bytes; its list has a shard up to byte" in str(error) for error in errors)


def test_names():
    last = layout.parse_shard_name("20261121T131500.123456-002000.gz")
    name = layout.PackName(last, 1998)
    assert name.shard == "20261121T131500.123456-002000x01998.gz"
    assert layout.parse_pack_name(name.meta) == layout.parse_pack_name(name.shard) == name
    assert layout.parse_shard_name(name.shard) is None
    assert layout.parse_pack_name(last.shard) is None
    assert layout.parse_pack_name("20261121T131500.123456-002000x00000.gz") is None  # of nothing
    assert layout.parse_pack_name("20269921T131500.123456-002000x01998.gz") is None
