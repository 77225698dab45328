"""Object storage: the five requests that a run in a bucket is made of, and what may go wrong with each.

An object has a *key* and a *tag*, which changes with its content. Every write is conditional: it says which tag it
replaces, or that there must be none. So of two writers one loses, and a request that arrives twice, or late, changes
nothing. Nothing is ever written without a condition.

A request that isn't answered, or with a fault of the server's, is sent again with growing pauses. If an answer was
lost, the object is there already when the request is sent again: its SHA-256, which is kept beside each object, then
says that it is ours.

fsspec has no common call for such a condition, so each kind of store has a module of its own (remote_s3.py,
remote_gcs.py, remote_azure.py), which knows its requests, and by what name its condition goes. ``open_store`` knows
which is whose. Knows no paths and no run.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from importlib import import_module
from typing import ClassVar, NamedTuple, TypeVar

from pipeline.errors import FileError, NotYet, UsageError

STORES = {"s3": "remote_s3.S3Store", "gs": "remote_gcs.GcsStore", "az": "remote_azure.AzureStore"}  # by protocol
WANTED = "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER"
INSTALL = "pip install 'mugo[cloud]', or ./setup.sh's environment with `pip install -e '.[cloud]'`"
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://?([^/].*)")  # pathlib makes one slash of two
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0  # until an attempt counts as lost, and
SLOWEST = 1 << 20  # bytes a second, for what it carries
RETRY_SECONDS = 60.0  # from the first attempt to the beginning of the last
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts
LISTED_AT_ONCE = 1_000  # the most that S3 lists or deletes in a request
DELETING_THREADS = 16  # where each object takes a request
RIGHTS = "wanted credentials that may read, write and list here"

Answer = TypeVar("Answer")


class Conflict(FileError):
    """Another process has written the object meanwhile: the same command again looks at that."""

    exit_code = NotYet.exit_code


class Object(NamedTuple):
    data: bytes
    tag: str


class Facts(NamedTuple):
    """What is known of an object without its content. sha256: empty if others wrote it; age: seconds, by the server."""

    tag: str
    sha256: str
    age: float


class Page(NamedTuple):
    """A part of a listing: keys, those of folders with a slash at the end, and where it goes on; "": nowhere."""

    keys: list[str]
    more: str


class Told(Enum):
    """What a server answers instead of what was asked for."""

    MISSING = "no such object"
    UNCHANGED = "the object is the one that is known"
    FAILED = "the condition doesn't hold"


class Problem(NamedTuple):
    """What went wrong. again: whether it may be over soon."""

    text: str
    again: bool = False


class Store(ABC):
    """Objects below one address. Keys have slashes, like relative paths. For any thread.

    address    PROTOCOL://BUCKET/FOLDER
    patience   seconds of sending a request again
    requests   sent, by their kind, each attempt counted
    All public methods raise FileError, in one line. The others are what a kind of store brings: each sends a request
    once and raises whatever its library does, which ``_judge`` understands. seconds: until the attempt counts as lost.
    """

    protocol: ClassVar[str]
    no_tag: ClassVar[str]  # the tag of no object

    def __init__(self, bucket: str, prefix: str, patience: float) -> None:
        """Asks nothing yet. Raises UsageError for what no request can be made of, ModuleNotFoundError."""
        self.address = f"{self.protocol}://{bucket}/{prefix}"
        self.patience = patience
        self.requests: Counter[str] = Counter()
        self.bytes_sent = self.bytes_fetched = 0
        self._bucket, self._prefix = bucket, prefix + "/"

    def get(self, key: str, known: str = "") -> Object | None:
        """The object; None if there is none. known: a tag, with which the data may be empty: nothing has changed."""
        answer = self._ask("get", key, lambda seconds: self._get(self._prefix + key, known, seconds))
        if isinstance(answer, Told):
            return Object(b"", known) if answer is Told.UNCHANGED else None
        self.bytes_fetched += len(answer.data)
        return answer

    def look(self, key: str) -> Facts | None:
        """None if there is no such object."""
        answer = self._ask("look", key, lambda seconds: self._look(self._prefix + key, seconds))
        return None if isinstance(answer, Told) else answer

    def put(self, key: str, data: bytes, replaces: str | None = None) -> str:
        """Write the object if its tag is `replaces`, or if there is none (None); returns its tag.

        An object that is there with this very content counts as written. Raises Conflict for another one.
        """
        digest = hashlib.sha256(data).hexdigest()
        self.bytes_sent += len(data)
        answer = self._ask(
            "put", key, lambda seconds: self._put(self._prefix + key, data, digest, replaces, seconds), len(data)
        )
        if not isinstance(answer, Told):
            return answer
        found = self.look(key)
        if found is not None and (found.sha256 == digest or (not found.sha256 and self._is(key, data))):
            return found.tag
        what = "another process has written it meanwhile" if found else "another process has removed it meanwhile"
        raise Conflict(f"{self.address}/{key}", f"{what}; run the same command again")

    def _is(self, key: str, data: bytes) -> bool:
        found = self.get(key)
        return found is not None and found.data == data

    def delete(self, keys: Sequence[str], tag: str = "") -> None:
        """Some may be gone already. tag: only an object with this tag, where the server knows that condition."""

        def one(key: str) -> None:
            self._ask("delete", key, lambda seconds: self._delete(self._prefix + key, tag, seconds))

        if len(keys) == 1:
            one(keys[0])
        elif keys:
            with ThreadPoolExecutor(DELETING_THREADS) as pool:
                list(pool.map(one, keys))

    def names(self, folder: str, after: str = "", prefix: str = "") -> Iterator[str]:
        """The names in a folder in order of their bytes, folders' with a slash at the end, those behind `after` alone.

        Lazy, a page a request.
        """
        where = self._prefix + (f"{folder}/" if folder else "")
        begin, more = (where + after if after else ""), ""
        while True:
            here = more
            page = self._ask("list", None, lambda seconds: self._page(where + prefix, begin, here, seconds))  # noqa: B023
            if isinstance(page, Told):
                return
            # A folder's own object, as some tools make them, has no name here.
            yield from sorted(name for key in page.keys if key > begin and (name := key.removeprefix(where)))
            if not (more := page.more):
                return

    @abstractmethod
    def _get(self, key: str, known: str, seconds: float) -> Object: ...

    @abstractmethod
    def _look(self, key: str, seconds: float) -> Facts: ...

    @abstractmethod
    def _put(self, key: str, data: bytes, sha256: str, replaces: str | None, seconds: float) -> str: ...

    @abstractmethod
    def _delete(self, key: str, tag: str, seconds: float) -> None: ...

    @abstractmethod
    def _page(self, prefix: str, after: str, more: str, seconds: float) -> Page:
        """In order of keys. after: where the server knows how, only those behind this key."""

    @abstractmethod
    def _judge(self, error: Exception) -> Told | Problem:
        """What an error of the library stands for. Raises it again if it is a bug of ours."""

    def _ask(self, kind: str, key: str | None, send: Callable[[float], Answer], size: int = 0) -> Answer | Told:
        """The answer. Raises FileError when patience is at its end, or for a refusal."""
        where = self.address if key is None else f"{self.address}/{key}"
        seconds = ANSWER_SECONDS + size / SLOWEST
        start, pause, attempts = time.monotonic(), FIRST_PAUSE, 0
        while True:
            attempts += 1
            self.requests[kind] += 1
            try:
                return send(seconds)
            except Exception as error:
                problem = self._judge(error)
            if isinstance(problem, Told):
                return problem
            if not problem.again:
                raise FileError(where, problem.text)
            waited = time.monotonic() - start
            if waited + pause > self.patience:
                tried = f"{attempts} attempts in {waited:.0f} s" if attempts > 1 else "one attempt"
                raise FileError(where, f"{problem.text} ({tried}); wanted a store that answers; run it again")
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)


def parse_address(text: str) -> tuple[str, str] | None:
    """(protocol, rest) of an address; None if it is a path."""
    match = ADDRESS.fullmatch(text)
    return (match[1], match[2].strip("/")) if match else None


def open_store(address: str, patience: float = RETRY_SECONDS) -> Store:
    """The store at an address; nothing is asked of it yet. patience: seconds of sending a request again and again.

    Raises UsageError for protocols that aren't known, and without the extra.
    """
    found = parse_address(address)
    protocol, rest = found if found else ("", "")
    if protocol not in STORES:
        raise UsageError(
            f"{address}: wanted {WANTED}; promotions need writes on a condition, which are made for these alone; for "
            "another store use a gateway that speaks S3's protocol, or a mounted folder"
        )
    bucket, _, prefix = rest.partition("/")
    if not bucket or not prefix:
        raise UsageError(f"{address}: wanted a bucket and a folder in it, e.g. {protocol}://bucket/runs/go9")
    module, _, name = STORES[protocol].partition(".")
    try:
        kind: type[Store] = getattr(import_module(f"pipeline.run.{module}"), name)
        return kind(bucket, prefix, patience)
    except ModuleNotFoundError as error:
        raise UsageError(f"{address}: object storage needs the extra cloud; install it: {INSTALL}") from error


def server_problem(status: int, code: str = "") -> Problem | None:
    """The problem that a status of HTTP stands for wherever it comes from; None: it depends."""
    if status >= 500 or status in (408, 429):
        return Problem(f"the store answers {code or status}", again=True)
    if status in (401, 403):
        return Problem(f"access denied ({code or status}); {RIGHTS}")
    return None


def no_answer(error: BaseException) -> Problem:
    return Problem(f"the store doesn't answer: {' '.join(str(error).split()) or 'no answer in time'}", again=True)
