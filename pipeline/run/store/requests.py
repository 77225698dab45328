"""Object storage: the objects below an address of Amazon S3 (or a server with its protocol), Google or Azure.

An object has a *key* and a *tag*, which changes with its content: an ETag, or with Google the object's generation.
Every write is conditional: it states the tag that it replaces, or that the object must not exist. So one of two writers
loses, and a request that arrives twice or late changes nothing.

obstore sends each request once. A request without an answer, or that fails through the server's fault, is sent again
here after growing pauses. If the answer to a write was lost, the object exists when the write is sent again, and its
content shows that it is the one written.

This module knows neither paths nor runs. It reads only those settings of the environment that obstore doesn't.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from random import uniform
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pipeline.errors import FileError, NotYet, UsageError, explain
from pipeline.machine import uptime

WANTED = "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER"
INSTALL = "pip install 'mugo[cloud]', or ./setup.sh's environment with `pip install -e '.[cloud]'`"
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://?([^/].*)")  # pathlib replaces two slashes by one
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0  # of silence until an attempt counts as lost; uploads get more time
SLOWEST = 1 << 20  # bytes per second that an upload must reach
RETRY_SECONDS = 60.0  # from the first attempt to the beginning of the last
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts
LISTED_AT_ONCE = 1_000  # names that a store lists in one request
DELETED_AT_ONCE = {"s3": 1_000, "gs": 1, "az": 256}  # objects that it deletes in one request
DELETING_THREADS = 16
NO_TAG = {"s3": '"0123456789abcdef0123456789abcdef"', "gs": "1", "az": '"0x8D0000000000000"'}  # the tag of no object
PROTOCOLS = tuple(NO_TAG)

RIGHTS = "wanted credentials that may read, write and list here"
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's own role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or a service account",
    "az": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
ROLES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
REFUSED = {
    "ExpiredToken": "the credentials have expired",
    "InvalidAccessKeyId": "the access key is unknown",
    "InvalidToken": "the credentials have expired",
    "SignatureDoesNotMatch": "the secret key doesn't belong to the access key",
}
AGAIN = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "InternalError", "ServiceUnavailable"}
AGAIN |= {"ConditionalRequestConflict", "OperationAborted"}
NO_BUCKET = {"NoSuchBucket": "bucket", "ContainerNotFound": "container"}

Answer = TypeVar("Answer")


class Conflict(FileError):
    """Another process has changed the object. The same command, run again, starts from the new state."""

    exit_code = NotYet.exit_code


@dataclass(frozen=True)
class Object:
    data: bytes
    tag: str
    modified: datetime | None = field(default=None, compare=False)  # by the server's clock


class Told(Enum):
    """An answer that isn't the object."""

    MISSING = "no such object"
    UNCHANGED = "the object has the known tag"
    FAILED = "the condition doesn't hold"


class Problem(NamedTuple):
    """What went wrong. again: whether another attempt may succeed."""

    text: str
    again: bool = False


class Objects:
    """Objects below one address. Keys have slashes, like relative paths. For any thread.

    address    PROTOCOL://BUCKET/FOLDER
    patience   seconds during which a request is sent again
    requests   number of attempts
    no_tag     a tag that no object has
    All methods raise FileError.
    """

    def __init__(self, address: str, patience: float = RETRY_SECONDS) -> None:
        """Sends no request. Raises UsageError for an unknown protocol, invalid settings or a missing extra."""
        protocol, rest = parse_address(address) or ("", "")
        if protocol not in PROTOCOLS:
            raise UsageError(
                f"{address}: wanted {WANTED}; promotions need conditional writes, which only these stores support "
                "here; for another store use a gateway with S3's protocol, or a mounted folder"
            )
        bucket, _, prefix = rest.partition("/")
        if not bucket or not prefix:
            raise UsageError(f"{address}: wanted a bucket and a folder in it, e.g. {protocol}://bucket/runs/go9")
        self.address = f"{protocol}://{bucket}/{prefix}"
        self.patience = patience
        self.requests = self.bytes_sent = self.bytes_fetched = 0
        self.no_tag = NO_TAG[protocol]
        self._protocol, self._bucket, self._prefix = protocol, bucket, prefix
        self._settings = SETTINGS[protocol](self.address)
        self._clients: dict[float, Any] = {}  # by their seconds of silence
        self._clock: tuple[datetime, float] | None = None  # (the server's time, uptime() then)
        try:
            self._client(0)
        except ImportError as error:
            raise UsageError(f"{address}: object storage needs the extra cloud; install it: {INSTALL}") from error

    def get(self, key: str, known: str = "") -> Object | None:
        """The object; None if there is none. known: a tag; if the object still has it, the data are empty."""
        import obstore

        if known and self._protocol == "gs":  # reads can't have a condition on the generation
            facts = self._ask(key, lambda client: obstore.head(client, key))
            if isinstance(facts, Told) or facts["version"] == known:
                return None if isinstance(facts, Told) else Object(b"", known)
            known = ""

        def read(client: Any) -> Object:
            answer = obstore.get(client, key, options={"if_none_match": known} if known else {})
            data = bytes(answer.bytes())
            self.bytes_fetched += len(data)
            return Object(data, self._tag(answer.meta), answer.meta["last_modified"])

        answer = self._ask(key, read)
        if isinstance(answer, Told):
            return Object(b"", known) if answer is Told.UNCHANGED else None
        return answer

    def put(
        self, key: str, data: bytes, replaces: str | None = None, check: Callable[[], None] = lambda: None
    ) -> str:
        """Write the object if its tag is `replaces`, or for None if there is none; returns its new tag.

        check: called before each attempt, and may raise.
        An object that already has this content counts as written. Raises Conflict for another one.
        """
        import obstore

        mode: Any = "create" if replaces is None else {"version" if self._protocol == "gs" else "e_tag": replaces}
        self.bytes_sent += len(data)

        def send(client: Any) -> Any:
            check()
            return obstore.put(client, key, data, mode=mode, use_multipart=False)

        answer = self._ask(key, send, len(data))
        if not isinstance(answer, Told):
            return self._tag(answer)
        found = self.get(key)
        if found is not None and found.data == data:
            return found.tag
        what = "written" if found else "removed"
        raise Conflict(
            f"{self.address}/{key}", f"another process has {what} it in the meantime; run the same command again"
        )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; some may already be gone."""
        import obstore

        def some(named: Sequence[str]) -> None:
            key = named[0] if len(named) == 1 else None
            answer = self._ask(key, lambda client: obstore.delete(client, list(named)))
            if isinstance(answer, Told) and len(named) > 1:  # one is missing, so others may not have been deleted
                for one in named:
                    some([one])

        step = DELETED_AT_ONCE[self._protocol]
        parts = [keys[start : start + step] for start in range(0, len(keys), step)]
        if len(parts) == 1:
            some(parts[0])
        elif parts:
            with ThreadPoolExecutor(DELETING_THREADS) as pool:
                list(pool.map(some, parts))

    def release(self, key: str, tag: str) -> None:
        """Delete an object that only the caller may change now. tag: from the caller's last write.

        Not all stores have conditional deletes. So before the request is sent again, the tag is checked: the first
        request may have arrived, and another process may have created the object again.
        """
        import obstore

        sent = False

        def once(client: Any) -> None:
            nonlocal sent
            if sent and self._tag(obstore.head(client, key)) != tag:
                return
            sent = True
            obstore.delete(client, key)

        self._ask(key, once)

    def names(self, folder: str, after: str = "") -> list[str]:
        """The names in a folder that sort after `after`, in byte order; names of folders end with a slash.

        Lists the whole folder, LISTED_AT_ONCE names per request.
        """
        import obstore

        answer = self._ask(None, lambda client: obstore.list_with_delimiter(client, folder or None))
        assert not isinstance(answer, Told)
        where = f"{folder}/" if folder else ""
        found = [one["path"].removeprefix(where) for one in answer["objects"]]
        found += [f"{path.removeprefix(where)}/" for path in answer["common_prefixes"]]
        self.requests += max(0, len(found) - 1) // LISTED_AT_ONCE
        return sorted(name for name in found if name > after)

    def files(self, folder: str, after: str = "") -> Iterator[str]:
        """The names in a folder without subfolders that sort after `after`, in byte order.

        Lazy: one page per request. The listing begins at `after`; Azure's servers may list earlier names, too.
        """
        import obstore

        where, last, listing = f"{folder}/", after, None

        def page(client: Any) -> Sequence[Any]:
            nonlocal listing
            going, listing = listing, None  # can't be continued after an error
            if going is None:
                offset = where + last if last else None
                going = iter(obstore.list(client, folder, offset=offset, chunk_size=LISTED_AT_ONCE))
            found = next(going, ())
            listing = going
            return found

        while True:
            found = self._ask(None, page)
            assert not isinstance(found, Told)
            for one in found:
                name = one["path"].removeprefix(where)
                if name > last and "/" not in name:
                    last = name
                    yield name
            if len(found) < LISTED_AT_ONCE:
                return

    def now(self) -> datetime:
        """The time by the server's clock, to within two seconds. The first call sends three requests."""
        import obstore

        if self._clock is None:
            key = f".clock-{secrets.token_hex(8)}"
            self.put(key, b"")
            here = uptime()
            answer = self._ask(key, lambda client: obstore.head(client, key))
            self.delete([key])
            if isinstance(answer, Told):
                raise FileError(self.address, "an object that was just written isn't there; wanted a consistent store")
            self._clock = answer["last_modified"], here
        there, here = self._clock
        return there + timedelta(seconds=uptime() - here)

    def _tag(self, facts: Any) -> str:
        return str(facts["version" if self._protocol == "gs" else "e_tag"])

    def _client(self, size: int) -> Any:
        """obstore's store with a timeout for an upload of this many bytes."""
        from obstore.store import AzureStore, GCSStore, S3Store

        seconds = ANSWER_SECONDS + (1 << (size // SLOWEST).bit_length() if size >= SLOWEST else 0)
        if seconds not in self._clients:
            kind: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[self._protocol]
            options: dict[str, Any] = {
                "allow_http": True,
                "connect_timeout": timedelta(seconds=min(CONNECT_SECONDS, seconds)),
                "read_timeout": timedelta(seconds=seconds),
                "timeout": timedelta(hours=1),
            }
            if self._protocol == "s3" and (bundle := os.environ.get("AWS_CA_BUNDLE")):
                try:
                    options["root_certificate"] = Path(bundle).read_bytes()
                except OSError as error:
                    raise explain(bundle, error) from error
            try:
                self._clients[seconds] = kind(
                    self._bucket,
                    prefix=self._prefix,
                    config=self._settings,
                    client_options=options,
                    retry_config={"max_retries": 0},
                )
            except Exception as error:
                text, wanted = _first_line(error), CREDENTIALS[self._protocol]
                raise UsageError(
                    f"{self.address}: {text}; correct the address, or its credentials: {wanted}"
                ) from error
        return self._clients[seconds]

    def _ask(self, key: str | None, send: Callable[[Any], Answer], size: int = 0) -> Answer | Told:
        """The answer. Raises FileError if the server refuses, or if it still fails after `patience` seconds."""
        where = self.address if key is None else f"{self.address}/{key}"
        client = self._client(size)
        start, pause, attempts = time.monotonic(), FIRST_PAUSE, 0
        while True:
            attempts += 1
            self.requests += 1
            try:
                return send(client)
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
            time.sleep(pause * uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _judge(self, error: Exception) -> Told | Problem:
        """The meaning of an error of obstore. Raises it again if it is a bug."""
        from obstore import exceptions as known

        if not isinstance(error, known.BaseError | FileNotFoundError):
            raise error
        text, code = str(error), _found(r"<Code>(\w+)</Code>", str(error))
        status = int(_found(r"status code: (\d{3})", text) or 0)
        if re.search(r"https?://(169\.254\.|metadata\.google|[^/ ]*oauth2|login\.microsoftonline|sts\.)", text):
            wanted = f"wanted {CREDENTIALS[self._protocol]}"
            return Problem(f"no credentials: {_first_line(error)}; {wanted}", again=status >= 500)
        if code in NO_BUCKET:
            return Problem(f"no {NO_BUCKET[code]} {self._bucket!r}; wanted one that is there; make it, or correct it")
        if code in AGAIN or status >= 500 or status in (408, 429):
            return Problem(f"the store answers {code or status}", again=True)
        if isinstance(error, FileNotFoundError):
            return Told.MISSING
        if isinstance(error, known.AlreadyExistsError | known.PreconditionError):
            return Told.FAILED
        if isinstance(error, known.NotModifiedError):
            return Told.UNCHANGED
        if status in (401, 403):
            return Problem(f"access denied: {REFUSED.get(code, code or status)}; {RIGHTS}")
        if "configured region" in text or code in ("PermanentRedirect", "AuthorizationHeaderMalformed"):
            return Problem(f"the bucket {self._bucket!r} is in another region; set AWS_REGION")
        if not status and "kind: Timeout" in text:
            return Problem("the store doesn't answer: no answer in time", again=True)
        if not status and "kind: Connect" in text:
            url = _found(r"(https?://[^\s?]+)", text)
            text = f"the store doesn't answer: Could not connect to the endpoint URL {url}".rstrip()
            return Problem(text, again=True)
        if not status and "HTTP error" in text:
            return Problem(f"the store doesn't answer: {_first_line(error)}", again=True)
        if not status:
            return Problem(_first_line(error))
        message = " ".join(_found(r"<Message>([^<]*)", text).split()) or _first_line(error)
        return Problem(f"the store answers {code or status}: {message}")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


def _first_line(error: Exception) -> str:
    """obstore's message, without its debugging text and the signatures in URLs."""
    text = str(error).partition("\n\nDebug source")[0].rpartition(" - ")[2]
    return re.sub(r"(https?://[^\s?]+)\?\S+", r"\1", " ".join(text.split())).rstrip(".")[:200]


# Settings of the environment that obstore doesn't read


def _amazon(address: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"conditional_put": "etag"}
    given, wanted = os.environ, CREDENTIALS["s3"]
    profile = _profile(address)
    if not given.get("AWS_ACCESS_KEY_ID"):
        names = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
        names |= {"session_token": "aws_session_token"}
        settings |= {name: profile[key] for name, key in names.items() if key in profile}
        if "access_key_id" not in settings and not any(map(given.get, ROLES)):
            if given.get("AWS_PROFILE"):
                raise UsageError(
                    f"{address}: the profile {given['AWS_PROFILE']!r} has no aws_access_key_id; export its keys: "
                    f'eval "$(aws configure export-credentials --profile {given["AWS_PROFILE"]} --format env)"'
                )
            if given.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
                raise UsageError(f"{address}: no credentials; wanted {wanted}")
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or profile.get("region")
    settings |= {"region": region} if region else {}
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    if endpoint:
        settings["endpoint"] = _url(address, "AWS_ENDPOINT_URL", endpoint)
    return settings


def _profile(address: str) -> dict[str, str]:
    """The settings of AWS_PROFILE in Amazon's files. Raises UsageError if they don't have this profile."""
    name = os.environ.get("AWS_PROFILE", "")
    keys = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    others = os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"
    found: dict[str, str] = {}
    for path, section in ((others, f"profile {name}" if name else "default"), (keys, name or "default")):
        parser = ConfigParser(interpolation=None, strict=False)
        try:
            parser.read(os.path.expanduser(path))
        except ConfigParserError as error:
            raise UsageError(f"{address}: {path}: {_first_line(error)}; correct that file") from error
        found |= parser[section] if parser.has_section(section) else {}
    if name and not found:
        raise UsageError(f"{address}: AWS_PROFILE: no profile {name!r} in {keys} or {others}; correct it")
    return found


def _google(address: str) -> dict[str, Any]:
    if host := os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/"):
        url = _url(address, "STORAGE_EMULATOR_HOST", host if "://" in host else f"http://{host}")
        return {"base_url": url, "bearer_token": "none"}
    path = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if path and not os.path.exists(path):
        raise UsageError(f"{address}: the file {path} was not found; wanted {CREDENTIALS['gs']}")
    return {}


def _azure(address: str) -> dict[str, Any]:
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    if not text:
        if not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
            raise UsageError(f"{address}: no account; wanted {CREDENTIALS['az']}")
        return {}
    parts = dict(part.partition("=")[::2] for part in text.split(";") if part)
    account, endpoint = parts.get("AccountName", ""), parts.get("BlobEndpoint", "")
    if not endpoint and account:
        protocol, suffix = (
            parts.get("DefaultEndpointsProtocol", "https"),
            parts.get("EndpointSuffix", "core.windows.net"),
        )
        endpoint = f"{protocol}://{account}.blob.{suffix}"
    if not endpoint or not (parts.get("AccountKey") or parts.get("SharedAccessSignature")):
        raise UsageError(
            f"{address}: AZURE_STORAGE_CONNECTION_STRING has no account or no key; wanted {CREDENTIALS['az']}"
        )
    endpoint = _url(address, "BlobEndpoint", endpoint.rstrip("/"))
    settings = {"endpoint": endpoint, "account_name": account or urlsplit(endpoint).netloc.partition(".")[0]}
    names = {"account_key": "AccountKey", "sas_key": "SharedAccessSignature"}
    return settings | {name: parts[key] for name, key in names.items() if parts.get(key)}


def _url(address: str, name: str, text: str) -> str:
    """Raises UsageError unless text is a URL, which obstore doesn't check."""
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise UsageError(f"{address}: {text!r} is no URL; wanted http://HOST or https://HOST; correct {name}")
    return text


SETTINGS = {"s3": _amazon, "gs": _google, "az": _azure}


def parse_address(text: str) -> tuple[str, str] | None:
    """(protocol, rest) of an address; None if it is a path."""
    if match := ADDRESS.fullmatch(text):
        return match[1], match[2].strip("/")
    protocol, colon, rest = text.partition(":")  # pathlib makes s3: of s3://
    return (protocol, "") if colon and not rest.strip("/") and protocol in PROTOCOLS else None
