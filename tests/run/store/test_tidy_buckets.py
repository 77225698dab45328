"""compact and prune in a bucket: other machines find every shard, even after a kill."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.errors import FileError
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.reports.config import StatusConfig
from pipeline.reports.status import status
from pipeline.run import atomic, layout
from pipeline.run.chunks import list_sets
from pipeline.run.layout import CHUNKS, GAMES
from pipeline.run.models import read_info, set_champion
from pipeline.run.pruned import read_pruned
from pipeline.run.store import requests, working_copy
from pipeline.run.store.bucket import BucketStore
from pipeline.upkeep.compact import compact
from pipeline.upkeep.config import CompactConfig, PruneConfig, VerifyConfig
from pipeline.upkeep.prune import prune
from pipeline.upkeep.verify.command import verify
from tests.helpers import Heard, make_model
from tests.run.store.buckets import Bucket, Request, open_bucket
from tests.test_object_storage import faulty
from tests.upkeep.test_compact import WORKERS, content, play

OLD = (1, 2, 3)  # generations that nobody plays in any more; 4 and 5 are the newest


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with open_bucket() as found:
        yield found


def played(address: str, folder: Path, shards: int = 40) -> Path:
    """A run of five generations of two workers in the bucket, gathered once; returns its working copy."""
    run = working_copy.make(address, folder)
    with working_copy.opened(run):
        for generation in (*OLD, 4, 5):
            play(run, generation, shards if generation in OLD else 4, games=1)
        (run / layout.SAVED_MODELS).mkdir(exist_ok=True)
        gathered(run)
    return run


def gathered(run: Path, seed: int = 0) -> int:
    config = GatherConfig(
        directory=run / GAMES, output_directory=run / CHUNKS, positions_per_chunk=8, chunks_to_make=1,
        max_positions=40, seed=seed,
    )  # fmt: skip
    return gather(config).total_positions


def attached(address: str, folder: Path, whole: bool = False) -> Path:
    return working_copy.attach(address, folder, whole=whole)


def test_another_machine_finds_what_was_packed(bucket: Bucket, tmp_path: Path) -> None:
    address = "s3://bucket/packed"
    one = played(address, tmp_path / "one")
    two = attached(address, tmp_path / "two")
    with working_copy.opened(one):
        before = content(one)
        total = gathered(one, 1)
        with faulty(bucket, least=3):
            assert compact(CompactConfig(directory=one)).shards == 40 * len(OLD) + 4
        assert content(one) == before
    keys = bucket.all_keys("packed/data/selfplay/000001-a/")
    assert len(keys) == 4 and all("x00020." in key for key in keys)
    with working_copy.opened(two):  # knows the shards as they were
        assert content(two) == before and gathered(two, 2) == total
        heard = Heard()
        again = compact(CompactConfig(directory=two), heard)
        assert (again.packs, again.skipped, heard.warned) == (0, 0, [])
        assert content(two) == before
    for name, whole in (("three", True), ("four", False)):
        three = attached(address, tmp_path / name, whole)
        with working_copy.opened(three):
            assert status(StatusConfig(directory=three)).play.shards == 40 * len(OLD) + 8
            assert content(three) == before
    with working_copy.opened(attached(address, tmp_path / "five")):  # which hasn't looked for games yet
        assert compact(CompactConfig(directory=tmp_path / "five")).generations
    three = attached(address, tmp_path / "six", whole=True)
    with working_copy.opened(three):
        assert content(three) == before
        assert status(StatusConfig(directory=three)).play.shards == 40 * len(OLD) + 8


def test_another_machine_finds_what_was_pruned(bucket: Bucket, tmp_path: Path) -> None:
    address = "s3://bucket/pruned"
    one = played(address, tmp_path / "one")
    two = attached(address, tmp_path / "two")
    with working_copy.opened(one):
        total, before = gathered(one, 1), content(one)
        with faulty(bucket, least=3):
            prune(PruneConfig(directory=one, apply=True, keep_positions=40))
        assert {entry[0].split("/")[0] for entry in content(one)} == {entry[0].split("/")[0] for entry in before}
        left = content(one)
        assert len(left) < len(before) / 2 and set(left) <= set(before)
    three = attached(address, tmp_path / "three", whole=True)
    with working_copy.opened(three):
        assert content(three) == left
        assert gathered(three, 2) == total
    with working_copy.opened(two):  # has the sidecars of all shards
        assert gathered(two, 3) == total
        prune(PruneConfig(directory=two, apply=True, keep_positions=40))
        assert content(two) == left and read_pruned(two / GAMES).settled == 3
    assert len(bucket.all_keys("pruned/data/selfplay/000001-a/")) == 4


NEVER = 10**9  # no run has so many requests
UNDISTURBED: dict[str, list[tuple[object, ...]]] = {}  # by command: what a run ends with


@pytest.mark.parametrize("action", ["drop", "lose"])
@pytest.mark.parametrize("command", ["compact", "prune"])
def test_a_command_that_is_cut_off_at_any_request_goes_on(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, action: str
) -> None:
    """At two requests of three, chosen at random; one run of each command isn't cut off."""
    monkeypatch.setattr(requests, "FIRST_PAUSE", 0.01)
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")

    def run(folder: Path, heard: Heard) -> None:
        if command == "compact":
            compact(CompactConfig(directory=folder), heard)
        else:
            prune(PruneConfig(directory=folder, apply=True, keep_positions=40), heard)

    points = random.Random(seed).sample((7, 12, 19), 2)
    for point in points if command in UNDISTURBED else (NEVER, *points):
        address = f"s3://bucket/{command}-{action}-{point}"
        one = played(address, tmp_path / f"{point}-one", shards=20)
        start, struck = len(bucket.requests), []

        def plan(request: Request, start: int = start, point: int = point, struck: list[int] = struck) -> str | None:
            if request.number < start + point:
                return None
            struck.append(request.number)
            return action if len(struck) == 1 else "drop"

        bucket.plan = plan
        try:
            with working_copy.opened(one) as store:
                assert isinstance(store, BucketStore)
                store.objects.patience = 0.0
                run(one, Heard())
        except FileError:
            assert struck
        bucket.plan = lambda request: None
        other = attached(address, tmp_path / f"{point}-other")  # another machine goes on when the lease has ended
        monkeypatch.setattr("pipeline.run.store.leases.LEASE_SECONDS", -1.0)
        with working_copy.opened(other):
            heard = Heard()
            run(other, heard)
            assert not heard.warned
            names = [entry[1:] for entry in content(other)]
        wanted = UNDISTURBED.setdefault(command, names)
        assert [entry[1] for entry in names] == [entry[1] for entry in wanted]
        whole = attached(address, tmp_path / f"{point}-whole", whole=True)
        with working_copy.opened(whole):
            assert [entry[1:] for entry in content(whole)] == names


def test_a_shard_without_a_sidecar_is_removed_from_the_bucket(bucket: Bucket, tmp_path: Path) -> None:
    played("s3://bucket/bare", tmp_path / "one", shards=2)
    old = layout.ShardName(datetime.now(UTC) - timedelta(days=2), 1)
    key = f"bare/data/selfplay/000001-a/{WORKERS[0]}/{old.shard}"
    bucket.write(key, b"half")
    run = attached("s3://bucket/bare", tmp_path / "two", whole=True)
    path = run / key.removeprefix("bare/")
    with working_copy.opened(run):
        assert path.exists()
        found = verify(VerifyConfig(directory=run, repair=True)).problems
        assert [one.where for one in found if one.repaired] == [str(path.relative_to(run))]
    assert not path.exists() and key not in bucket.all_keys("bare/")


def test_sets_that_another_machine_may_train_on_stay(bucket: Bucket, tmp_path: Path) -> None:
    """Its checkpoint is in its own working copy. It trains on no set older than the newest model's."""
    run = played("s3://bucket/sets", tmp_path / "run", shards=4)
    with working_copy.opened(run):
        gathered(run, 1)
        sets = [str(name) for name in list_sets(run / CHUNKS)]
        assert len(sets) == 2
        assert not prune(PruneConfig(directory=run, apply=True)).removals
        info = read_info(make_model(tmp_path, 1))
        manifest = {**info.manifest, "chunk_set": sets[1]}
        with atomic.new_directory(run / layout.SAVED_MODELS / "000001-a") as folder:
            (folder / layout.MODEL_JSON).write_text(info.model_copy(update={"manifest": manifest}).model_dump_json())
        set_champion(run / layout.SAVED_MODELS, run / layout.SAVED_MODELS / "000001-a", {"reason": "test"})
        assert [one.what for one in prune(PruneConfig(directory=run, apply=True)).removals] == ["1 set of chunks"]
        assert [str(name) for name in list_sets(run / CHUNKS)] == sets[1:]
