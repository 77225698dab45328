"""``ChatApi``: answers of a language model behind an API: POST {base}/chat/completions, as OpenAI, OpenRouter, vLLM and
llama.cpp's server offer it. ``Requests``: several requests at once.

A request that gets no answer, or fails through the server's fault, is sent again after growing pauses. A problem that
every request would meet (a key that is refused, an unknown model) raises PlayerUnavailable, any other PlayerFault.

The key is sent to the server and appears nowhere else. Messages name the server by its host alone, because an address
may contain an account. Knows nothing of games and writes no files.
"""

from __future__ import annotations

import base64
import heapq
import http.client
import ipaddress
import itertools
import json
import socket
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeline.errors import UsageError
from pipeline.players.player import PlayerFault, PlayerUnavailable

RETRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between attempts
LONGEST_WAIT = 300.0  # seconds that a server may ask for by Retry-After
CONNECT_SECONDS = 10.0
MOST_BYTES = 1 << 24  # of an answer
LONGEST_QUOTE = 200  # characters of a server's own message
IDLE_SECONDS = 5.0  # after which a thread without requests ends
PATH = "/chat/completions"
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"  # OpenAI's newer models refuse the older name

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Access:
    """Where a server is, and the key. variables: the names of the environment's variables that say it.

    host: HOST or HOST:PORT, for messages; path: of requests
    """

    secure: bool
    name: str
    port: int | None
    path: str
    variables: tuple[str, str]
    key: str = field(repr=False)

    @property
    def host(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

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
            name, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{where}: {variables[0]} is no address ({error}); {wanted}") from None
        if parts.scheme not in ("http", "https") or not name or not base.isascii() or any(map(str.isspace, base)):
            raise UsageError(f"{where}: {variables[0]} is no address of a server; {wanted}")
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError(f"{where}: {variables[0]} has a user, a query or a fragment; {wanted}")
        folder = parts.path.rstrip("/").removesuffix(PATH).rstrip("/")
        return Access(parts.scheme == "https", name, port, (folder or "/v1") + PATH, variables, key)


class _Problem(Exception):
    """An attempt failed. kind: as in PlayerFault; again: whether the next one may succeed; for_all: whether every
    request would fail; after: seconds that the server asks for.
    """

    def __init__(self, kind: str, text: str, again: bool = False, for_all: bool = False, after: float = 0.0) -> None:
        super().__init__(text)
        self.kind, self.again, self.for_all, self.after = kind, again, for_all, after


class Request:
    """A question to a model. answer: its text, or a PlayerFault or PlayerUnavailable.

    most: tokens of the answer; urgency: the lowest is sent first
    """

    def __init__(self, messages: Messages, most: int, urgency: int) -> None:
        self.messages, self.most, self.urgency = messages, most, urgency
        self.answer: Future[str] = Future()
        self.abandoned = threading.Event()
        self._socket: socket.socket | None = None

    def sent_over(self, connected: socket.socket) -> None:
        """Raises OSError if the request has been abandoned."""
        self._socket = connected
        if self.abandoned.is_set():
            raise OSError("abandoned")

    def abandon(self) -> None:
        """The answer isn't wanted any more: hang up, so that the server can stop."""
        self.abandoned.set()
        self.answer.cancel()
        if (connected := self._socket) is not None:
            with suppress(OSError, ValueError):
                connected.shutdown(socket.SHUT_RDWR)


class ChatApi:
    """A model of a server. For any thread."""

    def __init__(
        self, access: Access, player: str, model: str, seconds: float, body: Mapping[str, Any] | None = None
    ) -> None:
        """player: for messages; seconds: of an attempt; body: further fields of a request.

        Sends nothing. Raises UsageError for a proxy in the environment that can't be used.
        """
        self.player = player
        self._access, self._model, self._seconds, self._body = access, model, seconds, body or {}
        self._limit = OLD_LIMIT
        self._told = False
        self._tls = ssl.create_default_context() if access.secure else None
        self._proxy = _proxy(access, f"player {player!r}")

    def answer(self, request: Request) -> str:
        """The text of the model's answer, perhaps empty. Raises PlayerFault, PlayerUnavailable."""
        attempts = 0
        while True:
            limit = self._limit
            try:
                return self._attempt(request, limit)
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
                if request.abandoned.wait(max(pause, problem.after)):
                    raise PlayerFault("broken", self.player, "its game was given up") from None

    def _attempt(self, request: Request, limit: str) -> str:
        """Raises _Problem."""
        host, before = self._access.host, time.monotonic()
        try:
            response, data = self._post(request, limit, before + self._seconds)
        except ssl.SSLCertVerificationError as error:
            remedy = "for a server of your own, name the file of its certificate in SSL_CERT_FILE"
            found = f"{host}: no trusted certificate ({error.verify_message})"
            raise _Problem("broken", f"{found}; {remedy}", for_all=True) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
                remedy = f"wanted http:// instead of https:// in {self._access.variables[0]}"
                raise _Problem("broken", f"{host}: it doesn't speak TLS; {remedy}", for_all=True) from None
            if isinstance(error, TimeoutError):
                found = f"no answer in {time.monotonic() - before:.0f} seconds"
            else:
                found = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _Problem("broken", f"{host}: {found}", again=True) from None
        if response.status != 200:
            raise self._refused(response.status, data, response)
        try:
            said = json.loads(data)
            if isinstance(said.get("error"), dict):
                code = said["error"].get("code")
                raise self._refused(code if isinstance(code, int) else 500, data, response)
            choice = said["choices"][0]
            text = _text(choice["message"].get("content"))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            found = f"{host} answered {self._quoted(data)}, which is no chat completion"
            raise _Problem("protocol", found, again=True) from None
        if not text.strip() and choice.get("finish_reason") == "length":
            self._tell_cut_off(request.most)
        return text

    def _post(self, request: Request, limit: str, deadline: float) -> tuple[http.client.HTTPResponse, bytes]:
        access, body = self._access, {"model": self._model, **self._body}
        if not {OLD_LIMIT, NEW_LIMIT} & body.keys():
            body[limit] = request.most
        body |= {"messages": request.messages, "stream": False}
        headers = {
            "Authorization": f"Bearer {access.key}", "Content-Type": "application/json", "Accept": "application/json",
            "Connection": "close", "User-Agent": "mugo",
        }  # fmt: skip
        connection, target = self._connection(headers)
        try:
            connection.connect()
            connected: socket.socket = connection.sock  # the connection lets go of it with the answer's headers
            request.sent_over(connected)
            _until(deadline, connected)
            connection.request("POST", target, json.dumps(body), headers)
            response = connection.getresponse()
            data = b""
            while len(data) < MOST_BYTES:
                _until(deadline, connected)
                part = response.read1(1 << 16)
                if not part:
                    break
                data += part
            response.close()
            return response, data
        finally:
            connection.close()

    def _connection(self, headers: dict[str, str]) -> tuple[http.client.HTTPConnection, str]:
        """A new connection, and the target of its requests. Adds to their headers."""
        access, timeout = self._access, min(self._seconds, CONNECT_SECONDS)
        name, port = (access.name, access.port) if self._proxy is None else self._proxy[:2]
        to_proxy = {} if self._proxy is None or not self._proxy[2] else {"Proxy-Authorization": self._proxy[2]}
        if self._tls is None:
            if self._proxy is None:
                return http.client.HTTPConnection(name, port or 80, timeout=timeout), access.path
            headers |= to_proxy
            return http.client.HTTPConnection(name, port, timeout=timeout), f"http://{access.host}{access.path}"
        connection = http.client.HTTPSConnection(name, port or 443, timeout=timeout, context=self._tls)
        if self._proxy is not None:
            connection.set_tunnel(access.name, access.port or 443, to_proxy)
        return connection, access.path

    def _refused(self, status: int, data: bytes, response: http.client.HTTPResponse) -> _Problem:
        """What an answer with this status means."""
        (base, key), model = self._access.variables, self._model
        found = f"{self._access.host} answered {status}"
        said = f" ({self._quoted(data)})" if data.strip() else ""
        if status == 401:  # some servers quote a part of the key
            return _Problem("refusal", f"{found}: it doesn't accept the key; check {key} and {base}", for_all=True)
        if status == 402 or (status == 429 and b"insufficient_quota" in data):
            return _Problem("refusal", f"{found}{said}: the account has no credit left; add some", for_all=True)
        if status == 403:
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
        return text.replace(self._access.key, "…")

    def _tell_cut_off(self, most: int) -> None:
        """Once: a model that only thinks loses every game, which a result doesn't show."""
        if not self._told:
            self._told = True
            problem = f"its answer was cut off at {most} tokens before any text, which is an invalid move"
            print(f"mugo: {self.player}: {problem}; allow more by tokens=", file=sys.stderr)


class Requests:
    """Sends requests, up to `most` at once, from threads that don't keep the process alive. For any thread."""

    def __init__(self, api: ChatApi, most: int) -> None:
        self._api, self._most = api, most
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Request]] = []  # a heap
        self._numbers = itertools.count()
        self._threads = self._idle = 0

    def add(self, request: Request) -> None:
        with self._changed:
            heapq.heappush(self._waiting, (request.urgency, next(self._numbers), request))
            if self._idle < len(self._waiting) and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name="requests", daemon=True).start()
            self._changed.notify()

    def _work(self) -> None:
        while (request := self._next()) is not None:
            if not request.answer.set_running_or_notify_cancel():
                continue
            try:
                text = self._api.answer(request)
            except (PlayerFault, PlayerUnavailable) as error:
                request.answer.set_exception(error)
            except BaseException as error:  # a bug fails this request only, and may quote what it was sent with
                problem = f"{type(error).__name__} in a request"
                request.answer.set_exception(PlayerFault("crash", self._api.player, problem))
            else:
                request.answer.set_result(text)

    def _next(self) -> Request | None:
        """None: there was none for IDLE_SECONDS, and the thread must end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: bool(self._waiting), IDLE_SECONDS)
            self._idle -= 1
            if self._waiting:
                return heapq.heappop(self._waiting)[2]
            self._threads -= 1
            return None


def _until(deadline: float, connected: socket.socket) -> None:
    """Let the next operation end by the deadline. Raises TimeoutError if it is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connected.settimeout(left)


def _text(content: Any) -> str:
    """Of a message's content: a text, a list of parts, or null. Raises TypeError."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str | None):
        raise TypeError
    return content or ""


def _retry_after(response: http.client.HTTPResponse) -> float:
    """The seconds that the server asks for: a number, or a date; 0: none."""
    text = (response.headers.get("Retry-After") or "").strip()
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _proxy(access: Access, where: str) -> tuple[str, int, str] | None:
    """(name, port, Proxy-Authorization) of the environment's proxy for a server; None for one without.

    This machine is never reached through one. Raises UsageError.
    """
    with suppress(ValueError):
        if ipaddress.ip_address(access.name).is_loopback:
            return None
    scheme = "https" if access.secure else "http"
    proxy = urllib.request.getproxies().get(scheme)
    if not proxy or access.name == "localhost" or urllib.request.proxy_bypass(access.name):
        return None
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        name, port = parts.hostname, parts.port
    except ValueError:
        name, port = None, None
    if parts.scheme != "http" or not name:
        raise UsageError(f"{where}: {scheme}_proxy in the environment can't be used; wanted http://HOST:PORT")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    permit = "" if parts.username is None else f"Basic {base64.b64encode(user.encode()).decode()}"
    return name, port or 80, permit
