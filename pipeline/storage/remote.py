"""Object storage: the five requests that a run in a bucket is made of, and what may go wrong with each.

An object has a *key* and a *tag*, which changes with its content. Every write is conditional: it says which tag it
replaces, or that there must be none. So of two writers one loses, and a request that arrives twice, or late, changes
nothing. Nothing is ever written without a condition.

A request that isn't answered, or with a fault of the server's, is sent again with growing pauses. If an answer was
lost, the object is there already when the request is sent again: its SHA-256, which is kept beside each object, then
says that it is ours.

``open_store`` knows Amazon S3 and whatever speaks its protocol and honours its conditions, through s3fs, whose settings
and environment variables hold (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_PROFILE, …). Knows no paths and no run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from pipeline.errors import FileError, NotYet, UsageError

PROTOCOL = "s3"
INSTALL = "pip install 'mugo[cloud]', or ./setup.sh's environment with `pip install -e '.[cloud]'`"
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://?([^/].*)")  # pathlib makes one slash of two
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0  # until an attempt counts as lost, and
SLOWEST = 1 << 20  # bytes a second, for what it carries
RETRY_SECONDS = 60.0  # from the first attempt to the beginning of the last
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts
LISTED_AT_ONCE = 1_000  # the most that S3 lists or deletes in a request
REFUSED = {
    "AccessDenied": "access denied",
    "AllAccessDisabled": "access denied",
    "ExpiredToken": "the credentials have expired",
    "InvalidAccessKeyId": "nobody knows this access key",
    "InvalidToken": "the credentials have expired",
    "SignatureDoesNotMatch": "the secret key is not the access key's",
    "403": "access denied",
}
AGAIN = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "InternalError", "ServiceUnavailable"}
AGAIN |= {"ConditionalRequestConflict", "OperationAborted"}


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


class Store(Protocol):
    """Objects below one address. Keys have slashes, like relative paths. All methods raise FileError, in one line."""

    address: str
    patience: float  # seconds of sending a request again
    requests: Counter[str]  # sent, by their kind, each attempt counted
    bytes_sent: int
    bytes_fetched: int

    def get(self, key: str, known: str = "") -> Object | None:
        """The object; None if there is none. known: a tag, with which the data may be empty: nothing has changed."""
        ...

    def look(self, key: str) -> Facts | None:
        """None if there is no such object."""
        ...

    def put(self, key: str, data: bytes, replaces: str | None = None) -> str:
        """Write the object if its tag is `replaces`, or if there is none (None); returns its tag.

        An object that is there with this very content counts as written. Raises Conflict for another one.
        """
        ...

    def delete(self, keys: Sequence[str], tag: str = "") -> None:
        """Some may be gone already. tag: only an object with this tag, where the server knows that condition."""
        ...

    def names(self, folder: str, after: str = "", prefix: str = "") -> Iterator[str]:
        """The names in a folder in order of their bytes, folders' with a slash at the end, those behind `after` alone.

        Lazy, a thousand a request.
        """
        ...


def parse_address(text: str) -> tuple[str, str] | None:
    """(protocol, rest) of an address; None if it is a path."""
    match = ADDRESS.fullmatch(text)
    return (match[1], match[2].strip("/")) if match else None


def open_store(address: str, patience: float = RETRY_SECONDS) -> Store:
    """The store at an address; nothing is asked of it yet. patience: seconds of sending a request again and again.

    Raises UsageError for protocols other than S3's, and without the extra.
    """
    found = parse_address(address)
    protocol, rest = found if found else ("", "")
    if protocol != PROTOCOL:
        raise UsageError(
            f"{address}: wanted {PROTOCOL}://BUCKET/FOLDER; promotions need conditional writes, which are made for S3 "
            "and servers that speak its protocol alone; for another store use a server or gateway that does, or a "
            "mounted folder"
        )
    bucket, _, prefix = rest.partition("/")
    if not bucket or not prefix:
        raise UsageError(f"{address}: wanted a bucket and a folder in it, e.g. s3://bucket/runs/go9")
    settings = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "FSSPEC_"))}
    try:
        filesystem = _filesystem(frozenset(settings.items()))
    except ModuleNotFoundError as error:
        raise UsageError(f"{address}: object storage needs the extra cloud; install it: {INSTALL}") from error
    return S3Store(filesystem, f"{PROTOCOL}://{bucket}/{prefix}", bucket, prefix, patience)


@lru_cache(maxsize=4)
def _filesystem(settings: frozenset[tuple[str, str]]) -> Any:
    """s3fs with these environment variables, which it reads itself; making one takes a third of a second."""
    import s3fs

    return s3fs.S3FileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        config_kwargs={
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": 3600,  # attempts have a limit of their own, by what they carry
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": 64,
            "request_checksum_calculation": "when_required",  # others than Amazon may not know newer ones
            "response_checksum_validation": "when_required",
        },
    )


class S3Store:
    """See Store. For any thread."""

    def __init__(self, filesystem: Any, address: str, bucket: str, prefix: str, patience: float) -> None:
        self.address = address
        self.requests: Counter[str] = Counter()
        self.bytes_sent = self.bytes_fetched = 0
        self.patience = patience
        self._filesystem, self._bucket, self._prefix = filesystem, bucket, prefix + "/"

    def get(self, key: str, known: str = "") -> Object | None:
        condition: dict[str, Any] = {"IfNoneMatch": known} if known else {}
        answer = self._ask("get_object", key, missing=True, **condition)
        if answer is None:
            return None
        if "NotModified" in answer:
            return Object(b"", known)
        data: bytes = answer["Body"]
        self.bytes_fetched += len(data)
        return Object(data, str(answer["ETag"]))

    def look(self, key: str) -> Facts | None:
        answer = self._ask("head_object", key, missing=True)
        if answer is None:
            return None
        now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")) if answer else None
        age = ((now or datetime.now(UTC)) - answer["LastModified"]).total_seconds()
        return Facts(str(answer["ETag"]), str(answer.get("Metadata", {}).get("sha256", "")), max(0.0, age))

    def put(self, key: str, data: bytes, replaces: str | None = None) -> str:
        digest = hashlib.sha256(data).hexdigest()
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        self.bytes_sent += len(data)
        answer = self._ask(
            "put_object", key, missing=True, size=len(data), Body=data, Metadata={"sha256": digest}, **condition
        )
        if answer is not None and "Failed" not in answer:
            return str(answer["ETag"])
        found = self.look(key)
        if found is not None and (found.sha256 == digest or (not found.sha256 and self._is(key, data))):
            return found.tag
        what = "another process has written it meanwhile" if found else "another process has removed it meanwhile"
        raise Conflict(f"{self.address}/{key}", f"{what}; run the same command again")

    def _is(self, key: str, data: bytes) -> bool:
        found = self.get(key)
        return found is not None and found.data == data

    def delete(self, keys: Sequence[str], tag: str = "") -> None:
        if tag:
            for key in keys:
                self._ask("delete_object", key, missing=True, IfMatch=tag)
            return
        for start in range(0, len(keys), LISTED_AT_ONCE):
            named = [{"Key": self._prefix + key} for key in keys[start : start + LISTED_AT_ONCE]]
            answer = self._ask("delete_objects", None, Delete={"Objects": named, "Quiet": True})
            for failed in (answer or {}).get("Errors", []):
                raise FileError(f"{self.address}/{failed['Key']}", f"not deleted ({failed.get('Code')}); run it again")

    def names(self, folder: str, after: str = "", prefix: str = "") -> Iterator[str]:
        where = self._prefix + (f"{folder}/" if folder else "")
        how: dict[str, Any] = {"Delimiter": "/", "MaxKeys": LISTED_AT_ONCE}
        more: dict[str, Any] = {"StartAfter": where + after} if after else {}
        while True:
            answer = self._ask("list_objects_v2", None, Prefix=where + prefix, **how, **more) or {}
            found = [one["Key"] for one in answer.get("Contents", [])]
            found += [one["Prefix"] for one in answer.get("CommonPrefixes", [])]
            # A folder's own object, as some tools make them, has no name here.
            yield from sorted(name for key in found if (name := key.removeprefix(where)))
            if not answer.get("IsTruncated"):
                return
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    def _ask(self, method: str, key: str | None, missing: bool = False, size: int = 0, **arguments: Any) -> Any:
        """The answer. {"NotModified"}, {"Failed"}: by the condition; None: no such object, if that may be (missing).

        Raises FileError when patience is at its end, or for a refusal.
        """
        import fsspec.asyn

        if key is not None:
            arguments["Key"] = self._prefix + key
        limit = ANSWER_SECONDS + size / SLOWEST
        start, pause, attempts = time.monotonic(), FIRST_PAUSE, 0
        while True:
            attempts += 1
            self.requests[method] += 1
            try:
                return fsspec.asyn.sync(self._filesystem.loop, self._send, method, arguments, limit)
            except Exception as error:
                answer, problem = self._judge(error, missing)
                if problem is None:
                    return answer
            where = self.address if key is None else f"{self.address}/{key}"
            if not problem.again:
                raise FileError(where, problem.text)
            waited = time.monotonic() - start
            if waited + pause > self.patience:
                tried = f"{attempts} attempts in {waited:.0f} s" if attempts > 1 else "one attempt"
                raise FileError(where, f"{problem.text} ({tried}); wanted a store that answers; run it again")
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _send(self, method: str, arguments: dict[str, Any], limit: float) -> Any:
        await self._filesystem.set_session()
        client = await self._filesystem.get_s3(self._bucket)

        async def send() -> Any:
            answer = await getattr(client, method)(Bucket=self._bucket, **arguments)
            if method == "get_object":
                async with answer["Body"] as body:
                    answer["Body"] = await body.read()
                if len(answer["Body"]) != answer["ContentLength"]:
                    raise TimeoutError
            return answer

        return await asyncio.wait_for(send(), limit)

    def _judge(self, error: Exception, missing: bool) -> tuple[Any, _Problem | None]:
        """(what an error stands for as an answer, None), or (None, what went wrong)."""
        import botocore.exceptions as known

        response = getattr(error, "response", None)
        if isinstance(error, known.ClientError) and isinstance(response, dict):
            code = str(response.get("Error", {}).get("Code", ""))
            status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            if status == 304:
                return {"NotModified": True}, None
            if status == 412 or code == "PreconditionFailed":
                return {"Failed": True}, None
            if code == "NoSuchBucket":
                return None, _Problem(f"no bucket {self._bucket!r}; wanted one that is there; make it, or correct it")
            if status == 404 and missing:
                return None, None
            if code in AGAIN or status >= 500 or status == 429:
                return None, _Problem(f"the store answers {code or status}", again=True)
            if code in REFUSED or status in (401, 403):
                why = REFUSED.get(code, f"access denied ({code})")
                return None, _Problem(f"{why}; wanted credentials that may read, write and list here")
            return None, _Problem(f"the store answers {code or status}: {response.get('Error', {}).get('Message', '')}")
        if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError | known.ProfileNotFound):
            wanted = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's own role"
            return None, _Problem(f"{' '.join(str(error).split()).rstrip('.')}; wanted {wanted}")
        if isinstance(error, known.ParamValidationError | ValueError):
            return None, _Problem(f"{' '.join(str(error).split())}; correct the address or AWS_ENDPOINT_URL")
        if isinstance(error, known.BotoCoreError | OSError | asyncio.TimeoutError | TimeoutError):
            text = " ".join(str(error).split()) or "no answer in time"
            return None, _Problem(f"the store doesn't answer: {text}", again=True)
        if type(error).__module__.partition(".")[0] == "aiohttp":  # a connection that ended within an answer
            return None, _Problem(f"the store doesn't answer: {' '.join(str(error).split())}", again=True)
        raise error


class _Problem(NamedTuple):
    text: str
    again: bool = False  # whether it may be over soon
