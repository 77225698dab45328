"""``ChatApi``: answers of a language model behind an API: POST {base}/chat/completions, as OpenAI, OpenRouter, vLLM and
llama.cpp's server offer it. ``Access``: the server's address and the key.

A request that gets no answer, or fails through the server's fault, is sent again after growing pauses. A problem that
every request would meet (a key that is refused, an unknown model) raises PlayerUnavailable, any other PlayerFault.

The key is sent to the server and appears nowhere else. Messages name the server by its host alone, because an address
may contain an account. Knows nothing of games and writes no files.
"""

from __future__ import annotations

import asyncio
import bisect
import ipaddress
import itertools
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any
from urllib.parse import urlsplit

import httpx2

from pipeline.errors import UsageError
from pipeline.players.player import PlayerFault, PlayerUnavailable

RETRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between attempts
LONGEST_WAIT = 300.0  # seconds that a server may ask for by Retry-After
CONNECT_SECONDS = 10.0
MOST_BYTES = 1 << 24  # of an answer
LEAST_KEY = 8  # characters
LONGEST_QUOTE = 200  # characters of a server's own message
PATH = "/chat/completions"
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"  # OpenAI's newer models refuse the older name

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Access:
    """Where a server is, and the key. variables: the names of the environment's variables that say it.

    address: of requests; host: HOST or HOST:PORT, for messages
    """

    address: str = field(repr=False)
    host: str
    variables: tuple[str, str]
    key: str = field(repr=False)

    @staticmethod
    def of(where: str, variables: tuple[str, str], base: str, key: str) -> Access:
        """Raises UsageError, which quotes neither. where: begins messages."""
        wanted = f"wanted http[s]://HOST[:PORT]/v1 in {variables[0]}"
        if not base or not key:
            missing = " and ".join(name for name, value in zip(variables, (base, key), strict=True) if not value)
            example = f"{variables[0]}=http://localhost:8000/v1 {variables[1]}=none for a server without keys"
            raise UsageError(f"{where}: the environment has no {missing}; wanted e.g. {example}")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(f"{where}: {variables[1]} contains a character that no key has; copy the key again")
        try:
            parts = urlsplit(base)
            name, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{where}: {variables[0]} is no address ({error}); {wanted}") from None
        if parts.scheme not in ("http", "https") or not name or not base.isascii() or any(map(str.isspace, base)):
            raise UsageError(f"{where}: {variables[0]} is no address of a server; {wanted}")
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError(f"{where}: {variables[0]} has a user, a query or a fragment; {wanted}")
        folder = parts.path.rstrip("/").removesuffix(PATH).rstrip("/") or "/v1"
        return Access(f"{parts.scheme}://{parts.netloc}{folder}{PATH}", parts.netloc, variables, key)


class _Problem(Exception):
    """An attempt failed. kind: as in PlayerFault; again: whether the next one may succeed; for_all: whether every
    request would fail; after: seconds that the server asks for.
    """

    def __init__(self, kind: str, text: str, again: bool = False, for_all: bool = False, after: float = 0.0) -> None:
        super().__init__(text)
        self.kind, self.again, self.for_all, self.after = kind, again, for_all, after


class ChatApi:
    """A model of a server. For any thread."""

    def __init__(
        self, access: Access, player: str, model: str, seconds: float, most: int, body: Mapping[str, Any] | None = None
    ) -> None:
        """player: for messages; seconds: of an attempt; most: requests at once; body: further fields of a request.

        Sends nothing. Raises UsageError for a proxy in the environment that can't be used.
        """
        self.player = player
        self._access, self._model, self._seconds, self._body = access, model, seconds, body or {}
        self._turns = _Turns(most)
        self._limit = OLD_LIMIT
        self._told = False
        self._has_answered = False
        headers = {
            "Authorization": f"Bearer {access.key}", "Content-Type": "application/json", "Accept": "application/json",
            "Accept-Encoding": "identity", "User-Agent": "mugo",
        }  # fmt: skip
        try:
            self._client = httpx2.AsyncClient(
                headers=headers,
                timeout=httpx2.Timeout(None, connect=min(seconds, CONNECT_SECONDS)),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
                mounts=_without_proxy(access.address),
            )
        except (ValueError, ImportError, httpx2.InvalidURL):
            wanted = "http_proxy and https_proxy like http://HOST:PORT"
            raise UsageError(f"player {player!r}: the environment's proxy can't be used; wanted {wanted}") from None

    def ask(self, messages: Messages, most: int, urgency: int) -> Future[str]:
        """The text of the model's answer, perhaps empty; or PlayerFault, PlayerUnavailable.

        most: tokens of the answer; urgency: the lowest is sent first. To cancel the future is to hang up, so that the
        server can stop.
        """
        return asyncio.run_coroutine_threadsafe(self._answer(messages, most, urgency), _loop())

    async def _answer(self, messages: Messages, most: int, urgency: int) -> str:
        async with self._turns.turn(urgency):
            try:
                return await self._attempts(messages, most)
            except (PlayerFault, PlayerUnavailable):
                raise
            except Exception as error:  # a bug, whose text may quote what was sent
                raise PlayerFault("crash", self.player, f"{type(error).__name__} in a request") from None

    async def _attempts(self, messages: Messages, most: int) -> str:
        attempts = 0
        while True:
            limit = self._limit
            try:
                return await self._attempt(messages, limit, most)
            except _Problem as problem:
                said = self._without_key(str(problem))
                if problem.for_all:
                    raise PlayerUnavailable(f"{self.player}: {said}") from None
                if limit == OLD_LIMIT and NEW_LIMIT in said and problem.kind == "refusal":
                    self._limit = NEW_LIMIT
                    continue
                attempts += 1
                if not problem.again or attempts > RETRIES or problem.after > LONGEST_WAIT:
                    tries = f", attempt {attempts}" if problem.again else ""
                    raise PlayerFault(problem.kind, self.player, f"{said}{tries}") from None
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1)) * uniform(0.5, 1)
                await asyncio.sleep(max(pause, problem.after))

    async def _attempt(self, messages: Messages, limit: str, most: int) -> str:
        """Raises _Problem."""
        body = {"model": self._model, **self._body}
        if not {OLD_LIMIT, NEW_LIMIT} & body.keys():
            body[limit] = most
        body |= {"messages": messages, "stream": False}
        host, data, before = self._access.host, b"", time.monotonic()
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._client.stream("POST", self._access.address, content=json.dumps(body)) as response,
            ):
                async for part in response.aiter_bytes():
                    data += part
                    if len(data) > MOST_BYTES:
                        break
        except (TimeoutError, httpx2.TimeoutException):
            found = f"no answer in {time.monotonic() - before:.0f} seconds"
            raise _Problem("broken", f"{host}: {found}", again=True) from None
        except httpx2.HTTPError as error:
            raise self._unreached(error) from None
        if response.status_code != 200:
            raise self._refused(response.status_code, data, response)
        try:
            said = json.loads(data)
            choice = (said.get("choices") or [{}])[0]
            if isinstance(failure := said.get("error") or choice.get("error"), dict):
                code = failure.get("code")
                raise self._refused(code if isinstance(code, int) else 500, data, response)
            if choice.get("finish_reason") == "error":  # of OpenRouter, in the middle of an answer
                raise self._refused(500, data, response)
            text = _text(choice["message"].get("content"))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            found = f"{host} answered {self._quoted(data)}, which is no chat completion"
            raise _Problem("protocol", found, again=True) from None
        self._has_answered = True
        if not text.strip() and choice.get("finish_reason") == "length":
            self._tell_cut_off(most)
        return text

    def _unreached(self, error: httpx2.HTTPError) -> _Problem:
        """What a connection that failed means."""
        host, text = self._access.host, str(error) or type(error).__name__
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                remedy = "for a server of your own, name the file of its certificate in SSL_CERT_FILE"
                found = f"{host}: no trusted certificate ({cause.verify_message})"
                return _Problem("broken", f"{found}; {remedy}", for_all=True)
            if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
                remedy = f"wanted http:// instead of https:// in {self._access.variables[0]}"
                return _Problem("broken", f"{host}: it doesn't speak TLS; {remedy}", for_all=True)
            if isinstance(cause, OSError) and cause.errno is not None:  # asyncio's own words name ports only
                text = os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or text
        return _Problem("broken", f"{host}: {text}", again=True)

    def _refused(self, status: int, data: bytes, response: httpx2.Response) -> _Problem:
        """What an answer with this status means."""
        (base, key), model = self._access.variables, self._model
        found = f"{self._access.host} answered {status}"
        said = f" ({self._quoted(data)})" if data.strip() else ""
        if status == 401:  # some servers quote a part of the key
            return _Problem("refusal", f"{found}: it doesn't accept the key; check {key} and {base}", for_all=True)
        if status == 402 or (status == 429 and b"insufficient_quota" in data):
            return _Problem("refusal", f"{found}{said}: the account has no credit left; add some", for_all=True)
        if status == 403 and not self._has_answered:  # later, of one prompt: OpenRouter's moderation answers so
            remedy = f"check the account's rights and {key}"
            return _Problem("refusal", f"{found}{said}: the key may not use model {model!r}; {remedy}", for_all=True)
        if status in (404, 405):
            remedy = f"check the model's name and {base}, which mostly ends in /v1"
            return _Problem("refusal", f"{found}{said}: no model {model!r} or no {PATH}; {remedy}", for_all=True)
        if 300 <= status < 400:
            to = urlsplit(response.headers.get("Location", "")).hostname or "another path"
            return _Problem("refusal", f"{found}: it redirects to {to}; put the final one into {base}", for_all=True)
        again = status >= 500 or status in (408, 409, 425, 429)
        return _Problem("broken" if again else "refusal", f"{found}{said}", again, after=_retry_after(response))

    def _quoted(self, data: bytes) -> str:
        """The message in a server's answer, or its beginning."""
        text = data.decode(errors="replace").strip()
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            error = json.loads(text)["error"]
            text = str(error["message"] if isinstance(error, dict) else error)
        return repr(self._without_key(text)[:LONGEST_QUOTE])  # in this order, or a part of the key might be left

    def _without_key(self, text: str) -> str:
        """A short key is a placeholder for a server without keys, e.g. none: redacting it would hide words."""
        key = self._access.key
        return text.replace(key, "…") if len(key) >= LEAST_KEY else text

    def _tell_cut_off(self, most: int) -> None:
        """Once: a model that only thinks loses every game, which a result doesn't show."""
        if not self._told:
            self._told = True
            problem = f"its answer was cut off at {most} tokens before any text, which is an invalid move"
            print(f"mugo: {self.player}: {problem}; allow more by tokens=", file=sys.stderr)


class _Turns:
    """At most `most` have their turn at once. Next is the lowest urgency of those waiting, of equal ones the oldest."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: list[tuple[int, int]] = []  # (urgency, number), sorted
        self._numbers = itertools.count()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def turn(self, urgency: int) -> AsyncIterator[None]:
        mine = urgency, next(self._numbers)
        async with self._changed:
            bisect.insort(self._waiting, mine)
            try:
                await self._changed.wait_for(lambda: self._free > 0 and self._waiting[0] == mine)
                self._free -= 1
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()
        try:
            yield
        finally:
            self._free += 1
            async with self._changed:
                self._changed.notify_all()


_starting = threading.Lock()
_started: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    """Of all requests of the process, in a thread that doesn't keep it alive."""
    with _starting:
        if not _started:
            _started.append(asyncio.new_event_loop())
            threading.Thread(target=_started[0].run_forever, name="requests", daemon=True).start()
        return _started[0]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _text(content: Any) -> str:
    """Of a message's content: a text, a list of parts, or null. Raises TypeError."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str | None):
        raise TypeError
    return content or ""


def _retry_after(response: httpx2.Response) -> float:
    """The seconds that the server asks for: a number, or a date; 0: none."""
    text = response.headers.get("Retry-After", "").strip()
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _without_proxy(address: str) -> dict[str, None]:
    """The servers that are never reached through the environment's proxy: this machine."""
    name = urlsplit(address).hostname or ""
    try:
        here = ipaddress.ip_address(name).is_loopback
    except ValueError:
        here = name == "localhost"
    return {f"all://{f'[{name}]' if ':' in name else name}": None} if here else {}
