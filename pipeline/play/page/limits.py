"""Which requests the server accepts: those of the page itself, and none larger than a game needs.

Another site open in the browser can send requests here, or make its own name point to this machine (DNS rebinding). So
Host must name this machine, and if the browser says where a request comes from, that must be the page.

On a network, a browser must also have been let in: it opens an address with a token and gets a cookie. Each token works
once, so an address that somebody else sees later is worth nothing. HTTP isn't encrypted: who can read the network's
traffic can read the cookie.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 256 << 10  # of a request's body
BODY_SECONDS = 10.0

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_ALL = {"0.0.0.0", "::"}  # to listen on, no address of a page
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guests:
    """The browsers that have been let in on a network.

    announced  the token that is printed; when it has been used, another one takes its place
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        """announce: prints the next token."""
        self._announce = announce
        self._invited: set[str] = set()
        self._known: set[str] = set()  # what their cookies say
        self.announced = self.invite()

    def invite(self) -> str:
        """Another token."""
        self._invited.add(token := secrets.token_urlsafe(16))
        return token

    def admit(self, token: str) -> str | None:
        """Use up a token. Returns what the cookie must say; None if there is no such token."""
        if token not in self._invited:
            return None
        self._invited.remove(token)
        self._known.add(cookie := secrets.token_urlsafe(16))
        if token == self.announced:
            self.announced = self.invite()
            self._announce(self.announced)
        return cookie

    def knows(self, cookie: str | None) -> bool:
        return cookie in self._known


class RequestCheck:
    """Answers 403 to requests that aren't the page's, and adds headers that isolate the page from other sites."""

    def __init__(self, app: ASGIApp, guests: Guests | None = None, host: str = "") -> None:
        """guests: None: all browsers on this machine may come in. host: a name of this machine."""
        self._app, self._guests = app, guests
        self._names = _LOOPBACK | {host.lower()} - _ALL

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        problem = self._stranger(scope)
        app = self._admitted(scope) if problem is None else JSONResponse({"error": problem}, 403)
        await app(scope, receive, send_with_headers)

    def _stranger(self, scope: Scope) -> str | None:
        """What is wrong with a request's origin; None: nothing."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if host is None or host[1].strip("[]") not in self._names | {_arrived_at(scope)}:
            return "Host must be this machine's address: open the page by the address that the terminal shows"
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return "Origin must be this page: requests from other sites are refused"
        if any(site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")):
            return "the request comes from another site; open the page by its address"
        return None

    def _admitted(self, scope: Scope) -> ASGIApp:
        """What answers the request: the server; or with a new token, a redirect to the address without it."""
        if self._guests is None:
            return self._app
        name = f"mugo-{(scope.get('server') or ('', 0))[1]}"  # browsers send cookies to all ports of a host
        request = Request(scope)
        known = self._guests.knows(request.cookies.get(name))
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token = query["token"][0] if "token" in query and scope["method"] == "GET" else None
        cookie = None if known or token is None else self._guests.admit(token)
        if not known and cookie is None:
            problem = "open the page by the address that the terminal shows last; each works once"
            return JSONResponse({"error": problem}, 403)
        if token is None:
            return self._app
        page = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # "//host" would lead elsewhere
        if cookie is not None:
            page.set_cookie(name, cookie, httponly=True, samesite="lax")
        return page


def _arrived_at(scope: Scope) -> str:
    """The address of this machine that the connection came to."""
    return str((scope.get("server") or ("", 0))[0]).partition("%")[0].removeprefix("::ffff:").lower()


async def read_body(request: Request) -> bytes:
    """Raises HTTPException: 413 for a body that is too long, 408 for one that takes too long to arrive."""
    too_long = HTTPException(413, f"the request is longer than {MOST_BYTES >> 10} KiB")
    announced = request.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdecimal()) or len(announced) > 9 or int(announced) > MOST_BYTES:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, f"the request took longer than {BODY_SECONDS:g} seconds to arrive") from None
    return bytes(body)
