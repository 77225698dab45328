"""Working copies on two machines: each sees the other's commits atomically, and neither overwrites the other's."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import FileError, NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.reports.show import show
from pipeline.reports.show_as import csv_lines
from pipeline.run import atomic, chunks, layout, models, order, packs
from pipeline.run.matches import match_lock, open_match, read_match, write_summary
from pipeline.run.ratings import Member, pool_lock, read_pool, write_record
from pipeline.run.shards import newest_shards, read_shard
from pipeline.run.store import leases, requests, working_copy
from pipeline.run.store.base import Store, current_store, using
from pipeline.run.store.bucket import OVERLAP, BucketStore
from pipeline.run.store.requests import Conflict
from pipeline.tracking.options import TrackingOptions
from pipeline.tracking.tracker import Tracker
from tests.helpers import Heard, make_champion, make_model
from tests.run.random_games import random_shards
from tests.run.store.buckets import Bucket, Request, open_bucket
from tests.run.test_chunks import write as write_chunk
from tests.run.test_matches import header, made_up_game
from tests.tracking.test_tensorboard import read as read_events

GAME = parse_game("tictactoe")


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with open_bucket() as bucket:
        yield bucket


class Dead:
    """The objects of a machine that was lost."""

    def __getattr__(self, name: str) -> Any:
        raise FileError("nobody", "dead")


class SideBySide:
    """The stores of several machines in one process, each for its own folder."""

    def __init__(self) -> None:
        self.stores: dict[Path, Store] = {}

    def of(self, path: Path) -> Any:
        return next((store for folder, store in self.stores.items() if path.is_relative_to(folder)), Store())

    def __getattr__(self, name: str) -> Any:
        def call(where: Path | list[Path], *rest: Any, **named: Any) -> Any:
            path = where if isinstance(where, Path) else next(iter(where), Path())
            return getattr(self.of(path), name)(where, *rest, **named)

        return call


def store_of(folder: Path) -> BucketStore:
    together: Any = current_store()
    store = together.of(folder)
    assert isinstance(store, BucketStore)
    return store


class Machines:
    """Working copies of one run, each as on a machine of its own."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self._folder = address, folder
        self._open: dict[str, ExitStack] = {}
        self.together = SideBySide()

    def __call__(self, name: str) -> Path:
        """This machine's working copy, in use."""
        folder = working_copy.make(self.address, self._folder / name)
        if name not in self._open:
            self._open[name] = ExitStack()
            self.together.stores[folder] = self._open[name].enter_context(working_copy.connected(folder))
        look_again(folder)
        return folder

    def ends(self, name: str) -> None:
        """Its command ends."""
        self._open.pop(name).close()
        del self.together.stores[self._folder / name]

    def dies(self, name: str) -> None:
        """Its command is killed: it uploads and releases nothing any more."""
        copy = store_of(self._folder / name)
        copy._leases._wake.set()
        copy._waiting.clear()
        copy.objects = copy._leases._objects = Dead()  # type: ignore[assignment]
        with suppress(FileError):
            self._open.pop(name).close()
        del self.together.stores[self._folder / name]

    def close(self) -> None:
        for name in list(self._open):
            self.ends(name)


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(working_copy, "RETRY_SECONDS", 1.0)
    yield server
    server.plan = lambda request: None


@pytest.fixture
def machines(bucket: Bucket, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machines]:
    found = Machines(f"s3://bucket/{request.node.name}", tmp_path)
    with using(found.together):  # type: ignore[arg-type]
        yield found
        bucket.plan = lambda one: None
        found.close()


def look_again(folder: Path) -> None:
    store_of(folder).look_again()


def shard_ids(folder: Path) -> list[str]:
    return [meta.id for meta in newest_shards(folder / "data/selfplay", pytest.fail)]


def keys(machines: Machines, bucket: Bucket) -> list[str]:
    prefix = machines.address.removeprefix("s3://bucket/") + "/"
    return [key.removeprefix(prefix) for key in bucket.all_keys(prefix)]


def stop_at(bucket: Bucket, method: str, ending: str, action: str = "drop") -> None:
    """From the first request of this kind on, no request gets through."""
    struck: list[bool] = []

    def plan(request: Request) -> str | None:
        if not struck and request.method == method and request.key.endswith(ending):
            struck.append(True)
            return action
        return "drop" if struck else None

    bucket.plan = plan


# Games


def test_games_of_one_machine_are_seen_by_another_and_fetched_once(machines: Machines, bucket: Bucket) -> None:
    one, two = machines("one"), machines("two")
    random_shards(one / "data/selfplay", GAME, 4, 3)
    assert len(shard_ids(one)) == 4
    with bucket.counted() as requests:
        assert shard_ids(two) == shard_ids(one)
    assert sum(request.key.endswith(".meta") for request in requests) == 4
    assert not any(request.key.endswith(".gz") for request in requests)
    metas = list(newest_shards(two / "data/selfplay"))
    games = [read_shard(meta.path, meta).game_ids.tolist() for meta in metas]
    assert games == [read_shard(meta.path, meta).game_ids.tolist() for meta in newest_shards(one / "data/selfplay")]
    random_shards(one / "data/selfplay", GAME, 1, 3, seed=5)
    look_again(two)
    with bucket.counted() as requests:
        assert shard_ids(two) == shard_ids(one) and len(shard_ids(two)) == 5
        for meta in metas:
            read_shard(meta.path, meta)
    fetched = [request.key for request in requests if request.method == "GET" and not request.query]
    assert len(fetched) == 1 and fetched[0].endswith(".meta")


def test_a_shard_without_its_sidecar_does_not_exist_and_the_next_command_goes_on(
    machines: Machines, bucket: Bucket
) -> None:
    one = machines("one")
    random_shards(one / "data/selfplay", GAME, 1, 3)
    stop_at(bucket, "PUT", ".meta")
    with pytest.raises(FileError, match="the store doesn't answer"):
        random_shards(one / "data/selfplay", GAME, 1, 3, seed=1)
    bucket.plan = lambda request: None
    with pytest.raises(FileError):  # it may have been written: nothing is written twice
        random_shards(one / "data/selfplay", GAME, 1, 3, seed=1)
    machines.dies("one")
    one, two = machines("one"), machines("two")
    assert len(shard_ids(one)) == len(shard_ids(two)) == 1
    random_shards(one / "data/selfplay", GAME, 1, 3, seed=1)
    look_again(two)
    assert shard_ids(two) == shard_ids(one) and len(shard_ids(two)) == 2


def test_a_sidecar_whose_answer_was_lost_for_good_is_found_by_the_next_command(
    machines: Machines, bucket: Bucket
) -> None:
    one = machines("one")
    stop_at(bucket, "PUT", ".meta", "lose")
    with pytest.raises(FileError, match="the store doesn't answer"):
        random_shards(one / "data/selfplay", GAME, 1, 3)
    bucket.plan = lambda request: None
    machines.dies("one")
    one = machines("one")
    assert len(shard_ids(one)) == 1
    assert order.ShardNames().next(one / "data/selfplay/000001-a/w00").number == 2


def test_shards_that_another_machine_packs_stay_readable(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    random_shards(one / "data/selfplay", GAME, 4, 3)
    ids = shard_ids(two)
    metas = list(newest_shards(two / "data/selfplay"))
    place = one / "data/selfplay" / ids[0].rpartition("/")[0]
    names = sorted(packs.shards_in(place))
    for name in names:
        atomic.bring(place / name.shard)
    packs.write_pack(
        place, [(one_, (place / one_.shard).read_bytes(), (place / one_.meta).read_bytes()) for one_ in names]
    )
    packs.remove_files(place, names)
    look_again(two)
    assert shard_ids(two) == ids == shard_ids(one)
    assert sum(read_shard(meta.path, meta).num_games for meta in metas) == 12
    three = machines("three")
    assert shard_ids(three) == ids
    assert sum(read_shard(meta.path, meta).num_games for meta in newest_shards(three / "data/selfplay")) == 12


def test_listings_cost_what_is_new_not_what_there_ever_was(machines: Machines, bucket: Bucket) -> None:
    one = machines("one")
    for generation in range(12):
        for worker in ("w00", "w01"):
            folder = one / f"data/selfplay/{generation:06d}-a" / worker
            atomic.make_folder(folder)
            for number in range(1, 4):
                name = layout.parse_shard_name(f"20261121T131500.{generation * 1000 + number:06d}-{number:06d}.meta")
                assert name is not None
                atomic.write_text(folder / name.meta, "{}")
    two = machines("two")

    def newest(folder: Path, count: int) -> list[int]:
        look_again(folder)
        found = []
        for file in order.newest_files(folder / "data/selfplay"):
            found.append(file.generation)
            if len(found) == count:
                break
        return found

    with bucket.counted() as requests:
        assert newest(two, 1) == [11]
    assert len(requests) == 1 + 1 + 2 + 6  # the folder of all games, a generation, its workers, their sidecars
    newest(two, 72)  # all
    with bucket.counted() as requests:
        assert newest(two, 72)[-1] == 0
    assert len(requests) == 1 + (OVERLAP + 1) * (1 + 2)
    machines.ends("two")
    two = machines("two")
    with bucket.counted() as requests:
        assert len(newest(two, 72)) == 72
    assert len(requests) == 1 + (OVERLAP + 1) * (1 + 2)
    atomic.write_text(one / "data/selfplay/000010-a/w01/20261121T131600.000000-000004.meta", "{}")
    with bucket.counted() as requests:
        assert len(newest(two, 73)) == 73
    assert len(requests) == 2 + (OVERLAP + 1) * (1 + 2)


def test_shards_that_no_window_needs_go_from_the_copy_alone(machines: Machines) -> None:
    one = machines("one")
    random_shards(one / "data/selfplay", GAME, 3, 2)
    random_shards(one / "data/selfplay", GAME, 3, 2, seed=1, model="000002-b")
    current_store().forget_shards(one / "data/selfplay", 2)
    there = [(one / "data/selfplay" / name).exists() for name in shard_ids(one)]
    assert there.count(True) == 3 and len(there) == 6
    metas = list(newest_shards(one / "data/selfplay"))
    assert sum(read_shard(meta.path, meta).num_games for meta in metas) == 12  # fetched again
    copy = store_of(one)
    copy.fetch_whole()
    current_store().forget_shards(one / "data/selfplay", 2)
    assert sum((one / "data/selfplay" / name).exists() for name in shard_ids(one)) == 3


# Showing


def test_what_is_in_the_bucket_alone_is_shown(machines: Machines) -> None:
    one = machines("one")
    random_shards(one / "data/selfplay", GAME, 1, 2)
    (shard,) = (f"data/selfplay/{name}" for name in shard_ids(one))
    match, chunk = "data/evaluate/000002-b-vs-000001-a", "data/training_data/000004-1a2b3c4d-0000-of-0001.h5"
    with match_lock(one / match):
        open_match(one / match, header()).add([made_up_game(0)])
    make_model(one / "saved_models", 1)
    atomic.make_folder((one / chunk).parent)
    write_chunk(one / chunk)

    def fresh_copy(name: str) -> Path:
        folder = machines(name)
        copy = store_of(folder)
        copy.fetch_names()
        return folder

    of_games = ("data/selfplay", shard, os.path.dirname(shard))
    for number, path in enumerate((*of_games, match, f"{match}/games.jsonl", "saved_models/000001-test", chunk)):
        assert list(show(fresh_copy(f"two{number}") / path))
    assert list(csv_lines(fresh_copy("csv") / shard))
    two = fresh_copy("two")
    assert "MISSING" not in "".join(show((two / shard).with_suffix(layout.META_SUFFIX)))
    assert list(show((two / chunk).parent))
    assert list(show(two / "data"))  # the run
    (two / "empty").mkdir()
    with pytest.raises(FileError, match="none of MuGo's files in this folder"):
        show(two / "empty")
    with pytest.raises(FileError, match="no such file"):
        show(two / "data/evaluate/000003-c-vs-000001-a")


# Models


def test_a_model_is_seen_whole_or_not_at_all(machines: Machines, bucket: Bucket) -> None:
    one, two = machines("one"), machines("two")
    make_champion(one / "saved_models")
    stop_at(bucket, "PUT", "model.json")
    with pytest.raises(FileError, match="the store doesn't answer"):
        make_model(one / "saved_models", 1)
    bucket.plan = lambda request: None
    assert any("000001-test/" in key for key in keys(machines, bucket))  # its weights
    assert [path.name for path in models.list_models(two / "saved_models")] == ["000000-test"]
    assert models.newest_number(two / "saved_models") == 0
    assert models.resolve_champion(two / "saved_models/best_model").name == "000000-test"
    machines.dies("one")
    one = machines("one")
    make_model(one / "saved_models", 1)
    look_again(two)
    assert models.newest_number(two / "saved_models") == 1
    with bucket.counted() as requests:
        found = models.read_model(two / "saved_models/000001-test")
    assert found.weights and len(requests) == 2
    with bucket.counted() as requests:
        models.read_model(two / "saved_models/000001-test")
    assert not requests


def test_a_base_model_is_seen_by_other_machines(machines: Machines, bucket: Bucket) -> None:
    """Its folder has no model.json, but several files with names of their own."""
    one, two = machines("one"), machines("two")
    base = Path("saved_models/base")
    with atomic.new_directory(one / base) as folder:
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_text(name)
    assert {"saved_models/base/config.json", "saved_models/base/model.safetensors"} <= set(keys(machines, bucket))
    atomic.bring_folder(two / base)
    assert {path.name: path.read_text() for path in (two / base).glob("[!.]*")} == {
        "config.json": "config.json", "model.safetensors": "model.safetensors",
    }  # fmt: skip
    make_champion(two / "saved_models")  # models' files have checksums in their keys, as ever
    assert not any(key.startswith("saved_models/000000") and "weights" in key for key in keys(machines, bucket))
    machines.dies("one")
    shutil.rmtree(one)
    atomic.bring_folder((one := machines("one")) / base)
    assert (one / base / "config.json").exists()


def test_each_attempt_to_write_needs_the_lease(
    machines: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machines("one")
    monkeypatch.setattr(leases, "RENEWED_EVERY", 60)

    def fails_once(request: Request) -> int | None:
        if request.method == "PUT" and request.key.endswith("pool.json"):
            monkeypatch.setattr(leases, "LAST_WRITE", 0.0)  # as if it took a minute
            return 503
        return None

    with atomic.file_lock(one / "data/thing"):
        bucket.plan = fails_once
        with pytest.raises(Conflict, match="couldn't be renewed in time"):
            atomic.write_text(one / "data/pool.json", "[]")
    bucket.plan = lambda request: None
    assert not any(key.endswith("pool.json") for key in keys(machines, bucket))


def test_of_two_trainings_of_one_model_one_wins_with_its_own_weights(machines: Machines, bucket: Bucket) -> None:
    one, two, three = machines("one"), machines("two"), machines("three")
    stop_at(bucket, "PUT", "model.json")
    with pytest.raises(FileError):
        make_model(one / "saved_models", 1, seed=1)  # weights alone
    bucket.plan = lambda request: None
    make_model(two / "saved_models", 1, seed=2)
    machines.dies("one")
    one = machines("one")
    with pytest.raises(Conflict) as caught:
        make_model(one / "saved_models", 1, seed=1)
    assert caught.value.exit_code == NotYet.exit_code
    first = models.read_model(two / "saved_models/000001-test")
    for folder in (one, three):
        found = models.read_model(folder / "saved_models/000001-test")  # checks its files' checksums
        assert found.info == first.info


def test_a_model_that_another_process_finds_before_it_is_renamed(machines: Machines, monkeypatch: Any) -> None:
    one = machines("one")
    committed = BucketStore.commit

    def commit(self: BucketStore, path: Path, temporary: Path) -> None:
        committed(self, path, temporary)
        if path.name == layout.MODEL_JSON:
            look_again(one)
            assert models.newest_number(one / "saved_models") == 1  # makes its folder

    monkeypatch.setattr(BucketStore, "commit", commit)
    make_model(one / "saved_models", 1)
    assert models.read_model(one / "saved_models/000001-test").weights
    assert not [name for name in os.listdir(one / "saved_models") if name.endswith(".tmp")]


def test_a_copy_that_began_with_a_model_s_name_learns_of_those_before_it(machines: Machines, bucket: Bucket) -> None:
    one, two = machines("one"), machines("two")
    for number in range(8):
        make_model(one / "saved_models", number)
        random_shards(one / "data/selfplay", GAME, 1, 1, model=f"{number:06d}-test")
    assert models.resolve_champion(two / "saved_models/000007-test").name == "000007-test"
    atomic.make_folder(two / "data/selfplay/000007-test/w05")
    assert len(models.list_models(two / "saved_models")) == 8
    assert len(shard_ids(two)) == 8
    look_again(two)
    with bucket.counted() as requests:
        assert len(models.list_models(two / "saved_models")) == 8
    assert len(requests) == 1


# Promotions


def promote(folder: Path, number: int, over: int | None) -> str:
    saved = folder / "saved_models"
    look_again(folder)
    beaten = None if over is None else saved / f"{over:06d}-test"
    present = models.set_champion(saved, saved / f"{number:06d}-test", {"by": f"{number}"}, over=beaten)
    return present.name if present else ""


def champions(folder: Path) -> list[str]:
    look_again(folder)
    return [line["champion"] for line in models.read_promotions(folder / "saved_models")]


def test_no_promotion_is_overwritten_by_an_older_one(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    make_champion(one / "saved_models")
    for number in (1, 2, 3):
        make_model(one / "saved_models", number)
    assert promote(two, 2, over=0) == "000002-test"
    assert promote(one, 1, over=0) == "000002-test"  # it beat a champion that is none any more
    assert promote(one, 3, over=2) == "000003-test"
    for folder in (one, two, machines("three")):
        assert champions(folder) == ["000000-test", "000002-test", "000003-test"]
        assert models.resolve_champion(folder / "saved_models/best_model").name == "000003-test"


@pytest.mark.parametrize("action", ["drop", "lose"])
@pytest.mark.parametrize("where", [layout.INTENT, layout.CHAMPION, layout.PROMOTIONS])
def test_a_promotion_that_is_cut_off_anywhere_is_completed_or_forgotten(
    machines: Machines, bucket: Bucket, where: str, action: str
) -> None:
    one, two = machines("one"), machines("two")
    make_champion(one / "saved_models")
    make_model(one / "saved_models", 1)
    stop_at(bucket, "PUT", where, action)
    with pytest.raises(FileError):
        promote(one, 1, over=0)
    bucket.plan = lambda request: None
    machines.dies("one")  # and that machine never comes back
    happened = (where, action) not in ((layout.INTENT, "drop"), (layout.INTENT, "lose"), (layout.CHAMPION, "drop"))
    look_again(two)
    copy = store_of(two)
    for key in [key for key in keys(machines, bucket) if key.endswith(".lock")]:  # as if its time were over
        copy.objects.delete([key])
    assert models.resolve_champion(two / "saved_models/best_model").name == f"00000{int(happened)}-test"
    assert champions(two) == ["000000-test", "000001-test"][: 1 + happened]
    assert promote(two, 1, over=0) == "000001-test"
    assert champions(two) == champions(machines("one")) == ["000000-test", "000001-test"]
    assert layout.INTENT not in " ".join(keys(machines, bucket))


def test_a_promotion_by_one_whose_lock_is_another_s_by_now_fails(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended between reading and writing best_model. Even without locks it overwrites nothing."""
    one, two = machines("one"), machines("two")
    make_champion(one / "saved_models")
    for number in (1, 2):
        make_model(one / "saved_models", number)
    replace = atomic.replace_symlink
    monkeypatch.setattr(leases, "LEASE_SECONDS", -1.0)
    monkeypatch.setattr(leases.Leases, "check", lambda self: None)

    def slow(link: Path, target: str) -> None:
        monkeypatch.setattr(atomic, "replace_symlink", replace)
        assert promote(two, 2, over=0) == "000002-test"
        replace(link, target)

    monkeypatch.setattr(atomic, "replace_symlink", slow)
    with pytest.raises(Conflict, match="best_model: another process has written it"):
        promote(one, 1, over=0)
    assert champions(one) == champions(two) == ["000000-test", "000002-test"]


def test_the_pool_keeps_what_both_added(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    for number, folder in enumerate((one, two, one)):
        path = folder / "data/pool.json"
        with pool_lock(path):
            pool = read_pool(path)
            member = Member(name=f"m{number}", spec="random")
            write_record(path, pool.model_copy(update={"members": (*pool.members, member)}))
    look_again(two)
    assert read_pool(two / "data/pool.json").names == ["m0", "m1", "m2"]
    path = one / "data/pool.json"
    pool = read_pool(path)  # without the lock, and so long ago that another has written since
    write_record(two / "data/pool.json", pool.model_copy(update={"capacity": 9}))
    with pytest.raises(Conflict):
        write_record(path, pool.model_copy(update={"capacity": 7}))
    assert read_pool(two / "data/pool.json").capacity == 9


# Files that are here and not in the bucket


def test_files_that_a_user_puts_below_data_stay_when_they_are_read(machines: Machines) -> None:
    one = machines("one")
    for name in ("data/game.mat", "data/mine.json", "data/evaluate/notes/000001-a.json", "saved_models/notes.txt"):
        path = one / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        assert atomic.read_bytes(path, "a file") == b"mine"


def test_a_file_that_is_in_the_bucket_no_more_goes_unless_another_process_of_the_copy_has_just_written_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines("one"), machines("two")
    for name in ("data/ratings.json", "data/evaluate/watch/000001-a.json"):
        atomic.make_folder((one / name).parent)
        atomic.write_text(one / name, "{}")
        assert atomic.exists(two / name)
        atomic.remove([one / name])
        look_again(two)
        assert not atomic.exists(two / name)
    copy = store_of(two)
    get = copy.objects.get

    def slow(key: str, known: str = "") -> requests.Object | None:
        found = get(key, known)
        (two / "new").write_text("{}")
        os.rename(two / "new", two / key)
        return found

    monkeypatch.setattr(copy.objects, "get", slow)
    for before in (False, True):
        path = two / "data/ratings.json"
        if before:
            path.write_text("old")
        look_again(two)
        assert atomic.read_bytes(path, "a file") == b"{}"


# Locks


def test_a_lock_keeps_others_out_until_it_is_given_back(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    waited: list[int] = []
    with atomic.file_lock(one / "data/thing"):
        with (
            pytest.raises(atomic.Busy, match=r"wait until it is done \(process \d+ on .*; its lock ends in"),
            atomic.file_lock(two / "data/thing", wait=False),
        ):
            pass
        with atomic.file_lock(two / "data/other", wait=False):
            pass
    with atomic.file_lock(two / "data/thing", on_wait=lambda: waited.append(1)):
        pass
    assert not waited


def test_a_command_that_ends_leaves_no_thread(machines: Machines) -> None:
    """A loop's commands come one after another in one process, for days."""

    def renewing() -> int:
        return sum(thread.name == "leases" for thread in threading.enumerate())

    folder = machines("one")
    with atomic.file_lock(folder / "data/training_data/sets"):
        assert renewing() == 1
    machines.ends("one")
    deadline = time.monotonic() + 10
    while renewing() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert renewing() == 0


def test_a_lock_of_a_dead_command_is_its_copy_s_at_once_and_others_when_its_time_is_over(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = machines("two")
    for name in ("one", "one"):
        stack = ExitStack()
        stack.enter_context(atomic.file_lock(machines(name) / "data/thing", wait=False))
        with pytest.raises(atomic.Busy), atomic.file_lock(two / "data/thing", wait=False):
            pass
        machines.dies(name)
        stack.pop_all()
    monkeypatch.setattr(leases, "LEASE_SECONDS", -1.0)
    with atomic.file_lock(two / "data/thing", wait=False):
        pass


def test_leases_are_renewed_and_whoever_lost_one_writes_nothing(
    machines: Machines, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEWED_EVERY", 0.1)
    one = machines("one")
    copy = store_of(one)
    with atomic.file_lock(one / "data/thing"):
        deadline = time.monotonic() + 5
        while b'"renewed": 2' not in bucket.read(f"{machines.address[12:]}/data/.thing.lock"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        atomic.write_text(one / "data/pool.json", "{}")
        bucket.write(f"{machines.address[12:]}/data/.thing.lock", b"another's")
        while not next(iter(copy._leases._held.values())).lost:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(Conflict, match="another process has taken its lock over"):
            atomic.write_text(one / "data/pool.json", "[]")
    assert bucket.read(f"{machines.address[12:]}/data/.thing.lock") == b"another's"  # not given back by its loser
    monkeypatch.setattr(leases, "RENEWED_EVERY", 60)
    monkeypatch.setattr(leases, "LAST_WRITE", 0.0)
    bucket.remove(f"{machines.address[12:]}/data/.thing.lock")
    with atomic.file_lock(one / "data/thing"), pytest.raises(Conflict, match="couldn't be renewed in time"):
        atomic.write_text(one / "data/pool.json", "[]")


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that goes on in its sleep")
def test_a_lease_ages_while_the_machine_is_suspended(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    one = machines("one")
    clock = time.clock_gettime
    with atomic.file_lock(one / "data/thing"):
        atomic.write_text(one / "data/pool.json", "{}")
        monkeypatch.setattr(time, "clock_gettime", lambda which: clock(which) + leases.LEASE_SECONDS)
        with pytest.raises(Conflict, match="couldn't be renewed in time"):
            atomic.write_text(one / "data/pool.json", "[]")


# Matches


def test_lines_of_a_match_are_sent_together_and_those_that_a_kill_kept_back_by_the_next_command(
    machines: Machines, bucket: Bucket
) -> None:
    one, two = machines("one"), machines("two")
    name = "data/evaluate/000002-b-vs-000001-a"

    def play(folder: Path, indexes: range) -> None:
        with match_lock(folder / name):
            writer = open_match(folder / name, header())
            for index in indexes:
                writer.add([made_up_game(index)])
            write_summary(folder / name, {"games": len(writer.games), "measured": len(writer.games)})

    stack = ExitStack()
    stack.enter_context(match_lock(one / name))
    writer = open_match(one / name, header())
    with bucket.counted() as requests:
        for index in range(3):
            writer.add([made_up_game(index)])
    assert not requests
    machines.dies("one")
    stack.pop_all()
    look_again(two)
    assert not read_match(two / name).games
    with pytest.raises(NotYet):
        play(two, range(6))
    one = machines("one")
    assert len(read_match(one / name).games) == 3  # not by looking at it
    look_again(two)
    assert not read_match(two / name).games
    with match_lock(one / name):
        assert sorted(open_match(one / name, header()).games) == [0, 1, 2]
    look_again(two)
    assert [game.index for game in read_match(two / name).games] == [0, 1, 2]
    play(two, range(3, 6))
    look_again(one)
    found = read_match(one / name)
    assert [game.index for game in found.games] == [0, 1, 2, 3, 4, 5] and found.summary
    assert found.summary["games"] == 6


def test_whoever_looks_at_a_match_that_is_played_in_the_same_copy_sends_none_of_its_lines(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    name = "data/evaluate/000002-b-vs-000001-a"
    with match_lock(one / name):
        writer = open_match(one / name, header())
        writer.add([made_up_game(0)])
        reader = BucketStore(one, requests.Objects(machines.address), "copy")  # of another process
        reader.want(one / name / layout.MATCH_GAMES)
        reader.close()
        look_again(two)
        assert not read_match(two / name).games
        writer.add([made_up_game(1)])
        write_summary(one / name, {"games": 2, "measured": 2})
    look_again(two)
    assert [game.index for game in read_match(two / name).games] == [0, 1]


def test_of_two_who_play_one_match_the_second_writes_nothing(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.run.store.bucket.SEND_SECONDS", 0.0)
    one, two = machines("one"), machines("two")
    name = "data/evaluate/000002-b-vs-000001-a"
    writers = [open_match(folder / name, header()) for folder in (one, two)]
    writers[0].add([made_up_game(0)])
    with pytest.raises(Conflict):
        writers[1].add([made_up_game(1)])
    machines.dies("two")
    look_again(one)
    assert [game.index for game in read_match(one / name).games] == [0]


# Chunks


def test_sets_of_chunks_come_and_go(machines: Machines, bucket: Bucket) -> None:
    one, two = machines("one"), machines("two")
    for folder in (one, two):
        atomic.make_folder(folder / "data/training_data")
    sets = [layout.SetName(number, "1a2b3c4d") for number in (3, 4)]
    for found in sets:
        for index in range(2):
            write_chunk(one / "data/training_data" / layout.chunk_name(found, index, 2), set_id=str(found), index=index)
    newest = chunks.newest_complete_set(two / "data/training_data")
    assert newest is not None and newest.id == str(sets[1]) and not any(path.exists() for path in newest.chunks)
    with bucket.counted() as requests:
        current_store().fetch(newest.files)
        assert chunks.read_header(newest.chunks[0]).num_examples == 40
    assert len(requests) == 2
    assert chunks.remove_old_sets(one / "data/training_data", 1) == 1
    assert list(chunks.list_sets(one / "data/training_data")) == sets[1:]
    write_chunk(one / "data/training_data" / layout.chunk_name(sets[0], 0, 2))  # made again under the same name
    look_again(two)
    assert list(chunks.list_sets(two / "data/training_data")) == sets
    chunks.remove_old_sets(one / "data/training_data", 1)
    atomic.bring(two / "data/training_data" / layout.chunk_name(sets[1], 1, 2))
    atomic.remove([one / "data/training_data" / layout.chunk_name(sets[1], 1, 2)])
    look_again(two)
    assert chunks.newest_complete_set(two / "data/training_data") is None
    assert not (two / "data/training_data" / layout.chunk_name(sets[1], 1, 2)).exists()


# Other files


def test_what_lies_outside_of_the_working_copy_is_left_alone(
    bucket: Bucket, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = working_copy.make(f"s3://bucket/{request.node.name}", tmp_path / "copy")
    with working_copy.opened(folder) as store:
        assert store is current_store() and store.shared
        with bucket.counted() as requests:
            for outside in (tmp_path, tmp_path / "copycat"):
                atomic.make_folder(outside / "data")
                with atomic.file_lock(outside / "data/thing"), atomic.new_directory(outside / "saved_models/mine"):
                    atomic.write_text(outside / "data/ratings.json", "{}")
                    atomic.append_line(outside / "data/lines.jsonl", "{}")
                assert atomic.exists(outside / "data/ratings.json") and not current_store().is_listed(outside / "data")
                assert order.folders_in(outside / "data", lambda name: True) == []
                current_store().fetch([outside / "data/none.gz"])
                current_store().look_at_place(outside / "data")
                current_store().forget_shards(outside / "data", 9)
                assert "ratings.json" in atomic.names_in(outside / "data")
                atomic.remove([outside / "data/ratings.json"])
        assert not requests
    assert type(current_store()) is Store and not current_store().shared


# Making working copies


def test_a_working_copy_is_made_once_and_only_of_what_it_is(
    machines: Machines, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machines("one")
    with pytest.raises(UsageError, match="it is the working copy of s3://bucket/test_a_working"):
        working_copy.make("s3://bucket/another", folder)
    (tmp_path / "mine/saved_models").mkdir(parents=True)
    with pytest.raises(UsageError, match="it holds a run of its own; wanted a new folder"):
        working_copy.make(machines.address, tmp_path / "mine")
    bucket.plan = lambda request: 403
    monkeypatch.setattr(working_copy, "FIRST_SECONDS", 0.2)
    with pytest.raises(FileError, match="wanted credentials"):
        working_copy.make(machines.address, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (folder / layout.WORKING_COPY).write_text("{}")
    with pytest.raises(FileError, match="damaged"):
        working_copy.make(machines.address, folder)


def test_tracked_numbers_of_all_machines_come_with_a_whole_copy(machines: Machines, bucket: Bucket) -> None:
    """Each file is uploaded whole when its command ends; several commands and machines add to a track."""
    one, two = machines("one"), machines("two")
    options = {"axis": "train/step", "progress": SILENT}
    for folder, track, step in ((one, "train/m", 10), (one, "train/m", 20), (two, "selfplay/w01", 1)):
        before = sorted(keys(machines, bucket))
        with Tracker(TrackingOptions(), folder / "data/training_data", track, **options) as tracker:  # type: ignore[arg-type]
            tracker.add({"a": step}, step)
            assert sorted(keys(machines, bucket)) == before
        look_again(folder)
    here = sorted(key for key in keys(machines, bucket) if key.startswith("data/logs/"))
    assert [key.rpartition("/")[0] for key in here] == ["data/logs/selfplay/w01"] * 2 + ["data/logs/train/m"] * 3
    three = working_copy.attach(machines.address, one.with_name("three"), whole=True)
    assert [point.step for point in read_events(three / "data/logs/train/m").Scalars("train/a")] == [10, 20]
    points = (three / "data/logs/train/m/points.jsonl").read_text()
    assert points == (one / "data/logs/train/m/points.jsonl").read_text() and points.count("\n") == 2


def test_a_store_that_fails_costs_tracked_numbers_only(machines: Machines, bucket: Bucket) -> None:
    one, heard = machines("one"), Heard()
    with Tracker(TrackingOptions(), one / "data/training_data", "train/m", "train/step", heard) as tracker:
        tracker.add({"a": 1}, 1)
        bucket.plan = lambda request: "drop"
    bucket.plan = lambda request: None
    assert len(heard.warned) == 2 and all("all else goes on" in text for text in heard.warned)
    random_shards(one / "data/selfplay", GAME, 1, 3)  # the same command goes on
    assert sum(key.endswith(".gz") for key in keys(machines, bucket)) == 1
    with Tracker(TrackingOptions(), one / "data/training_data", "train/m", "train/step", heard) as tracker:
        assert tracker.last == 1


def test_a_whole_copy_has_every_file(machines: Machines) -> None:
    one = machines("one")
    random_shards(one / "data/selfplay", GAME, 4, 3)
    make_champion(one / "saved_models")
    atomic.make_folder(one / "data/training_data")
    write_chunk(one / "data/training_data/000004-1a2b3c4d-0000-of-0002.h5")
    machines.ends("one")
    two = working_copy.attach(machines.address, one.with_name("two"), whole=True)
    assert [str(path.relative_to(two)) for path in sorted(two.rglob("*")) if not path.name.startswith(".")] == [
        str(path.relative_to(one)) for path in sorted(one.rglob("*")) if not path.name.startswith(".")
    ]
    shutil.rmtree(one)


def test_addresses_among_options_become_paths_of_a_working_copy(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    moved: Callable[..., tuple[dict[str, Any], Path | None]] = working_copy.moved
    options = {"directory": Path("s3://bucket/a/b/data/selfplay"), "output": Path("here"), "games": 3, "name": "x"}
    found, folder = moved(options, False)
    assert found == {"directory": Path("data/selfplay"), "output": tmp_path / "here", "games": 3, "name": "x"}
    assert folder is not None and folder.is_relative_to(tmp_path / "cache/mugo/runs") and folder.name[:4] == "buck"
    assert moved({"black": "mine=s3://bucket/a/b/saved_models/000001-x@80"}, False) == (
        {"black": "mine=saved_models/000001-x@80"},
        folder,
    )
    listed = moved({"list": ["random>=0.9", "s3://bucket/a/b/saved_models/x>=0.5"]}, False)[0]["list"]
    assert listed == ["random>=0.9", "saved_models/x>=0.5"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.yaml").touch()
    given = {
        "directory": Path("s3://bucket/a/b/data"), "preset": "mine.yaml", "game": "go:9", "worker": "mine",
        "player": ["./mine@80", "me=handicap:3:policy:./mine", "./mine>=0.5", "no/such", "random", "gtp:./mine x"],
    }  # fmt: skip
    found, _ = moved(given, False)
    mine = tmp_path / "mine"
    players = [f"{mine}@80", f"me=handicap:3:policy:{mine}", f"{mine}>=0.5", "no/such", "random", "gtp:./mine x"]
    assert found == {**given, "directory": Path("data"), "preset": f"{mine}.yaml", "player": players}
    assert moved({"directory": Path("s3://bucket/a/b")}, True) == ({"directory": Path()}, folder)
    selfplay = {"directory": Path("s3://bucket/a/data/go9/data/selfplay")}
    found, below = moved(selfplay, False)
    assert found == {"directory": Path("data/selfplay")}
    assert below is not None and below.name.startswith("bucket-a-data-go9")
    assert moved({"directory": Path("s3://bucket/a/data/go9")}, True) == ({"directory": Path()}, below)
    assert moved({"directory": Path("data"), "player": "gtp:/usr/bin/gnugo"}, False)[1] is None
    asked = {"player": ["far=gtp:client --url http://10.0.0.5:8080"], "directory": Path("s3://bucket/a/b/data")}
    assert moved(asked, False) == ({**asked, "directory": Path("data")}, folder)  # what the engine is told is its own
    with pytest.raises(UsageError, match=r"wanted a folder of a run, e.g. s3://BUCKET/FOLDER/data/selfplay"):
        moved({"directory": Path("s3://bucket/a/b")}, False)
    with pytest.raises(UsageError, match=r"addresses of 2 runs: s3://bucket/a, s3://bucket/b; wanted those of one"):
        moved({"one": Path("s3://bucket/a/data"), "two": Path("s3://bucket/b/data")}, False)
    with pytest.raises(UsageError, match="wanted s3://BUCKET/FOLDER"):
        moved({"one": Path("hf://bucket/a/data")}, False)
    (tmp_path / layout.WORKING_COPY).touch()  # one store is in force, that of the address
    (tmp_path / "saved_models/mine").mkdir(parents=True)
    for here in ({"pool": Path("data/pool.json")}, {"player": "me=saved_models/mine@8"}):
        with pytest.raises(UsageError, match="it is in the working copy of another run; wanted files of one run"):
            moved({"directory": Path("s3://bucket/a/b/data"), **here}, False)
    given = {"directory": Path("s3://bucket/a/b/data"), "output": Path("here")}
    assert moved(given, False)[0] == {"directory": Path("data"), "output": tmp_path / "here"}
