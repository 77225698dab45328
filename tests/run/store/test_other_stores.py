"""Google Cloud Storage and Azure behave as a run in a bucket requires, tested with servers of other projects.

test_requests.py asks the same of S3. fake-gcs-server knows the conditions of writes, not those of reads and removals.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import MuGoError
from pipeline.run.store import requests, working_copy
from pipeline.run.store.requests import Object, Objects
from tests.run.store.buckets import Bucket, GoogleBucket, open_azure, open_gcs
from tests.run.store.test_requests import put_twice
from tests.runs import make_run
from tests.test_object_storage import faulty, outcome, undisturbed, whole_copy  # noqa: F401  a fixture


@pytest.fixture(scope="module", params=["gs", "az"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Bucket]]:
    with open_gcs() if request.param == "gs" else open_azure() as bucket:
        yield request.param, bucket


@pytest.fixture
def bucket(served: tuple[str, Bucket]) -> Iterator[Bucket]:
    yield served[1]
    served[1].plan = lambda request: None


@pytest.fixture
def store(served: tuple[str, Bucket], bucket: Bucket, request: pytest.FixtureRequest) -> Objects:
    return Objects(f"{served[0]}://bucket/{request.node.originalname}{time.monotonic_ns()}", patience=5)


def test_an_object_is_written_once_or_in_place_of_what_was_read(store: Objects) -> None:
    working_copy.check(store)
    tag, other = put_twice(store, "/one")
    assert store.put("one", b"second") == other  # the same bytes are no conflict
    assert store.get("one") == Object(b"second", other) and store.get("none") is None
    unchanged = store.get("one", other)
    assert unchanged is not None and unchanged.tag == other and store.get("one", tag) == Object(b"second", other)
    assert unchanged.data in (b"", b"second") and store.get("none", other) is None
    found = store.get("one")
    assert found is not None and found.modified is not None
    assert abs((store.now() - found.modified).total_seconds()) < 60
    store.delete(["one", "none"])
    assert store.get("one") is None
    store.put("one", b"")
    store.release("one", other)
    assert store.get("one") is None and store.names("") == []


@pytest.mark.parametrize("action", ["drop", "lose", "twice", "slow", "late", "again", 500, 503])
def test_whatever_becomes_of_a_request_it_counts_once(
    bucket: Bucket, store: Objects, monkeypatch: pytest.MonkeyPatch, action: str | int
) -> None:
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 0.5)
    bucket.late = 0.8  # longer than an attempt
    bucket.once(action)
    tag = store.put("one", b"new")
    assert store.get("one") == Object(b"new", tag)
    bucket.once(action)
    tag = store.put("one", b"changed", tag)
    latest = store.put("one", b"latest", tag)
    time.sleep(0.9 if action in ("late", "again") else 0)
    bucket.once(action)
    assert store.get("one") == Object(b"latest", latest)  # what came late or again changed nothing
    bucket.once(action)
    assert list(store.names("")) == ["one"]


def test_a_listing_is_in_order_and_begins_where_it_is_wanted(store: Objects) -> None:
    for number in range(12):
        store.put(f"folder/{number:06d}-a/x", b"")
    store.put("folder/.hidden", b"")
    store.put("folder/last", b"")
    everything = [f"{number:06d}-a/" for number in range(12)]
    assert list(store.names("folder")) == [".hidden", *everything, "last"]
    assert list(store.names("folder", after="/")) == [*everything, "last"]
    assert list(store.names("folder", after="000009")) == [*everything[9:], "last"]
    assert list(store.names("nothing")) == []
    store.delete([f"folder/{number:06d}-a/x" for number in range(12)])
    assert list(store.names("folder")) == [".hidden", "last"]


def problem(address: str, patience: float = 0.5) -> str:
    with pytest.raises(MuGoError) as caught:
        working_copy.check(Objects(address, patience))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_goes_wrong_for_good_is_one_line(
    served: tuple[str, Bucket], bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    protocol, _ = served
    address, start = f"{protocol}://bucket/run", time.monotonic()
    assert "'nobody'; wanted one that is there; make it" in problem(f"{protocol}://nobody/run")
    bucket.plan = lambda request: 403
    assert "access denied" in (text := problem(address)) and "that may read, write and list here" in text
    bucket.plan = lambda request: "drop"
    assert "the store doesn't answer" in problem(address)
    assert "wanted a bucket and a folder in it" in problem(f"{protocol}://bucket")
    if protocol == "gs":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
        assert "the store doesn't answer" in problem(address)
        monkeypatch.delenv("STORAGE_EMULATOR_HOST")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
        assert "none.json was not found; wanted GOOGLE_APPLICATION_CREDENTIALS" in problem(address)
    else:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "nonsense")
        assert "wanted AZURE_STORAGE_CONNECTION_STRING" in problem(address)
        monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
        assert "no account; wanted AZURE_STORAGE_CONNECTION_STRING" in problem(address)
    assert time.monotonic() - start < 20


def test_a_store_that_ignores_conditions_is_refused(
    served: tuple[str, Bucket], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    if served[0] == "az":
        pytest.skip("conditions are part of what a request is signed for")
    passed_on = GoogleBucket._pass_on

    def ignoring(self: Bucket, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        rest = {name: value for name, value in headers.items() if name.lower() != "x-goog-if-generation-match"}
        return passed_on(self, method, path, rest, body)

    monkeypatch.setattr(GoogleBucket, "_pass_on", ignoring)
    assert "this store ignores the conditions of writes" in problem("gs://bucket/run")


def test_the_four_stages_beside_faults(
    served: tuple[str, Bucket],
    bucket: Bucket,
    undisturbed: dict[str, Any],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sixth of all requests fail, without any effect on the run."""
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 1.0)
    address = f"{served[0]}://bucket/stages"
    folder = working_copy.make(address, tmp_path / "copy")
    with faulty(bucket), working_copy.opened(folder):
        make_run(folder)
    assert outcome(folder) == undisturbed
    assert outcome(whole_copy(address, tmp_path / "other")) == undisturbed
