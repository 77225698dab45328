"""Conditional requests to moto, through a proxy that loses, repeats and delays them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.run.store import requests, working_copy
from pipeline.run.store.requests import Conflict, Object, Objects
from tests.run.store.buckets import Bucket, open_bucket


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with open_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 0.5)
    for key in server.all_keys():
        server.remove(key)
    yield server
    server.plan = lambda request: None


@pytest.fixture
def store(bucket: Bucket) -> Objects:
    return Objects("s3://bucket/run", patience=5)


def put_twice(store: Objects, name: str) -> tuple[str, str]:
    """(the object's tag at first, its tag now); writes that replace anything else lose. name: in the error."""
    tag = store.put("one", b"first")
    with pytest.raises(Conflict, match=rf"{name}: another process has written it in the meantime"):
        store.put("one", b"second")
    other = store.put("one", b"second", tag)
    with pytest.raises(Conflict):
        store.put("one", b"third", tag)
    with pytest.raises(Conflict, match="has removed it"):
        store.put("none", b"third", tag)
    return tag, other


def test_an_object_is_written_once_or_in_place_of_what_was_read(bucket: Bucket, store: Objects) -> None:
    tag, other = put_twice(store, "s3://bucket/run/one")
    assert store.get("one") == Object(b"second", other) and store.get("none") is None
    assert store.get("one", other) == Object(b"", other) and store.get("one", tag) == Object(b"second", other)
    assert bucket.all_keys() == ["run/one"]
    store.delete(["one", "none"])
    assert not bucket.all_keys()


@pytest.mark.parametrize("action", ["drop", "lose", "twice", "slow", "late", "again", 500, 503])
def test_whatever_becomes_of_a_request_it_counts_once(bucket: Bucket, store: Objects, action: str | int) -> None:
    bucket.late = 0.8  # longer than an attempt
    bucket.once(action, "PUT")
    tag = store.put("one", b"new")
    assert store.get("one") == Object(b"new", tag)
    bucket.once(action, "PUT")
    tag = store.put("one", b"changed", tag)
    assert store.get("one") == Object(b"changed", tag)
    latest = store.put("one", b"latest", tag)
    time.sleep(0.9 if action in ("late", "again") else 0)
    assert store.get("one") == Object(b"latest", latest)  # what came late or again changed nothing


@pytest.mark.parametrize("action", ["drop", "lose", "slow", 503])
def test_reading_and_listing_are_tried_again(bucket: Bucket, store: Objects, action: str | int) -> None:
    store.put("folder/one", b"1")
    bucket.once(action, "GET")
    assert store.get("folder/one") is not None
    bucket.once(action, "GET")
    assert list(store.names("folder")) == ["one"]
    bucket.once(action, "HEAD")
    assert store.now() is not None


def test_the_same_bytes_by_two_writers_are_no_conflict(store: Objects, bucket: Bucket) -> None:
    assert store.put("one", b"same") == store.put("one", b"same")
    bucket.write("run/two", b"by another tool, without our checksum")
    assert store.put("two", b"by another tool, without our checksum")
    with pytest.raises(Conflict):
        store.put("two", b"other")


def test_a_listing_is_in_pages_and_begins_where_it_is_wanted(
    bucket: Bucket, store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        bucket.write(f"run/folder/{number:06d}-a/x", b"")
        bucket.write(f"run/folder/{number:06d}-a/y", b"")
    bucket.write("run/folder/.hidden", b"")
    bucket.write("run/folder/last", b"")
    everything = [f"{number:06d}-a/" for number in range(12)]
    assert list(store.names("folder")) == [".hidden", *everything, "last"]
    assert list(store.names("folder", after="/")) == [*everything, "last"]
    assert list(store.names("folder", after="000009")) == [*everything[9:], "last"]
    with bucket.counted() as requests:
        store.delete([f"folder/{number:06d}-a/x" for number in range(12)])
        store.delete([f"folder/{number:06d}-a/y" for number in range(12)])
    assert len(requests) == 2
    assert store.names("folder") == [".hidden", "last"] and store.names("nothing") == []


def test_files_are_listed_in_pages(bucket: Bucket, store: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:06d}" for number in range(12)]
    for name in names:
        bucket.write(f"run/folder/{name}", b"")
    passed_on = Bucket._pass_on

    def in_pages(self: Bucket, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        return passed_on(self, method, f"{path}&max-keys=5" if "list-type" in path else path, headers, body)

    monkeypatch.setattr(Bucket, "_pass_on", in_pages)
    monkeypatch.setattr("pipeline.run.store.requests.LISTED_AT_ONCE", 5)
    with bucket.counted() as requests:
        assert list(store.files("folder", after="000003")) == names[4:]
    assert len(requests) == 2
    with bucket.counted() as requests:
        assert next(iter(store.files("folder"))) == names[0]
    assert len(requests) == 1  # lazy
    assert store.names("folder") == names
    bucket.plan = lambda request: 503 if request.number % 2 else None
    assert list(store.files("folder")) == names  # goes on where it was cut off


# What goes wrong for good: one line, at once or when patience is at its end


def problem(bucket: Bucket, address: str = "s3://bucket/run", patience: float = 0.5) -> str:
    with pytest.raises(MuGoError) as caught:
        working_copy.check(Objects(address, patience))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_store_that_does_not_answer(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.plan = lambda request: "drop"
    assert "s3://bucket/run/.trial" in (text := problem(bucket, patience=3.0))
    assert "attempts in" in text
    bucket.plan = lambda request: 503
    assert "the store answers SlowDown (" in problem(bucket)
    bucket.plan = lambda request: "slow"
    bucket.late = 1.0
    assert "the store doesn't answer: no answer in time" in problem(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "the store doesn't answer: Could not connect to the endpoint URL" in problem(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")
    assert "nonsense" in (text := problem(bucket)) and "AWS_ENDPOINT_URL" in text


def test_wrong_credentials_and_a_missing_bucket(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start = time.monotonic()
    bucket.plan = lambda request: 403
    assert "the access key is unknown; wanted credentials that may read, write and list here" in problem(bucket)
    bucket.plan = lambda request: None
    assert "no bucket 'nobody'; wanted one that is there" in problem(bucket, "s3://nobody/run")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    assert "wanted AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE" in problem(bucket)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "nobody" in problem(bucket)
    (tmp_path / "none").write_text("[default]\nregion\n")
    assert "correct that file" in problem(bucket)
    assert time.monotonic() - start < 5  # nothing of this is tried again


def test_a_store_that_ignores_conditions_is_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_on = Bucket._pass_on

    def ignoring(self: Bucket, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        rest = {name: value for name, value in headers.items() if name.lower() not in ("if-match", "if-none-match")}
        return passed_on(self, method, path, rest, body)

    monkeypatch.setattr(Bucket, "_pass_on", ignoring)
    assert "this store ignores the conditions of writes" in problem(bucket)


def test_addresses_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("ftp://host/x", "s3a://bucket/run", "bucket/run", "memory://x", "file://run"):
        with pytest.raises(UsageError, match=r"wanted s3://BUCKET/FOLDER, gs://.*conditional writes.*here; "):
            Objects(address)
    for address in ("s3://", "s3://bucket", "s3://bucket/"):
        with pytest.raises(UsageError, match="wanted"):
            Objects(address)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UsageError, match=r"s3://bucket/run: object storage needs the extra cloud; install it: pip"):
        Objects("s3://bucket/run")


def test_bugs_are_not_taken_for_faults(store: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obstore.get", None)
    with pytest.raises(TypeError):
        store.get("one")
