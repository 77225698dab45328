"""Which requests the server accepts: those of the page itself, and none larger than a game needs.

Another site open in the browser can send requests here, or make its own name point to this machine (DNS rebinding). So
Host must name this machine, and if the browser says where a request comes from, that must be the page.
"""

from __future__ import annotations

import asyncio
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 256 << 10  # of a request's body
BODY_SECONDS = 10.0

_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestCheck:
    """Answers 403 to requests that aren't the page's, and adds headers that isolate the page from other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        problem = _stranger(Headers(scope=scope))
        app = self._app if problem is None else JSONResponse({"error": problem}, 403)
        await app(scope, receive, send_with_headers)


def _stranger(headers: Headers) -> str | None:
    """What is wrong with a request's origin; None: nothing."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return "Host must be 127.0.0.1 or localhost: this server is for this machine alone"
    if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
        return "Origin must be this page: requests from other sites are refused"
    if any(site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")):
        return "the request comes from another site; open the page by its address"
    return None


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
