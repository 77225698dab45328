"""Google Cloud Storage, by its JSON API.

Credentials are those that all of Google's programs find: GOOGLE_APPLICATION_CREDENTIALS, ``gcloud auth
application-default login``, or the machine's service account. STORAGE_EMULATOR_HOST names another server, which is
asked without any. A tag is the object's *generation*, a number that every write changes; the condition of a write is
ifGenerationMatch, with 0 for an object that must not be there.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from pipeline.run.store import remote
from pipeline.run.store.remote import Facts, Object, Page, Problem, Store, Told, no_answer, server_problem

HOST = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
BOUNDARY = "mugo-7f9d1c0b6e5a4382"  # between what is said of an object and the object


class _Refused(Exception):
    def __init__(self, status: int, text: str, is_object: bool) -> None:
        super().__init__(text)
        self.status, self.is_object = status, is_object


class GcsStore(Store):
    """See Store."""

    protocol = "gs"
    no_tag = "1"

    def __init__(self, bucket: str, prefix: str, patience: float) -> None:
        import google.auth.transport.requests
        import requests

        super().__init__(bucket, prefix, patience)
        self._auth, self._requests = google.auth, requests
        host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
        self._host = host if "://" in host else f"http://{host}" if host else HOST
        self._credentials: Any = None
        self._lock = threading.Lock()
        self._local = threading.local()  # a session serves one thread at a time

    def _get(self, key: str, known: str, seconds: float) -> Object:
        condition = {"ifGenerationNotMatch": known} if known else {}
        answer = self._send("GET", self._url(key), seconds, params={"alt": "media", **condition})
        return Object(answer.content, str(answer.headers["x-goog-generation"]))

    def _look(self, key: str, seconds: float) -> Facts:
        answer = self._send("GET", self._url(key), seconds, params={"fields": "generation,metadata,updated"})
        facts, date = answer.json(), answer.headers.get("Date")
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        age = (now - datetime.fromisoformat(facts["updated"])).total_seconds()
        return Facts(str(facts["generation"]), str(facts.get("metadata", {}).get("sha256", "")), max(0.0, age))

    def _put(self, key: str, data: bytes, sha256: str, replaces: str | None, seconds: float) -> str:
        about = json.dumps({"name": key, "metadata": {"sha256": sha256}})
        head = f"--{BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n"
        head += f"--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n"
        answer = self._send(
            "POST",
            f"{self._host}/upload/storage/v1/b/{self._bucket}/o",
            seconds,
            params={"uploadType": "multipart", "ifGenerationMatch": replaces or "0", "fields": "generation"},
            headers={"Content-Type": f"multipart/related; boundary={BOUNDARY}"},
            data=head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode(),
        )
        return str(answer.json()["generation"])

    def _delete(self, key: str, tag: str, seconds: float) -> None:
        self._send("DELETE", self._url(key), seconds, params={"ifGenerationMatch": tag} if tag else {})

    def _page(self, prefix: str, after: str, more: str, seconds: float) -> Page:
        params = {"prefix": prefix, "delimiter": "/", "maxResults": remote.LISTED_AT_ONCE}
        params |= {"fields": "items/name,prefixes,nextPageToken"}
        params |= {"startOffset": after} if after else {}
        params |= {"pageToken": more} if more else {}
        found = self._send("GET", f"{self._host}/storage/v1/b/{self._bucket}/o", seconds, params=params).json()
        keys = [one["name"] for one in found.get("items", [])] + found.get("prefixes", [])
        return Page(keys, str(found.get("nextPageToken", "")))

    def _url(self, key: str) -> str:
        return f"{self._host}/storage/v1/b/{self._bucket}/o/{quote(key, safe='')}"

    def _send(self, method: str, url: str, seconds: float, **arguments: Any) -> Any:
        """seconds: of silence; an attempt may take longer as long as something comes."""
        timeout = (min(remote.CONNECT_SECONDS, seconds), seconds)
        answer = self._session().request(method, url, timeout=timeout, **arguments)
        if answer.status_code >= 300:
            raise _Refused(answer.status_code, answer.text, "/o/" in url)
        return answer

    def _session(self) -> Any:
        if not hasattr(self._local, "session"):
            if self._host != HOST:
                self._local.session = self._requests.Session()
            else:
                with self._lock:
                    if self._credentials is None:
                        self._credentials, _ = self._auth.default([SCOPE])
                self._local.session = self._auth.transport.requests.AuthorizedSession(self._credentials)
        return self._local.session

    def _judge(self, error: Exception) -> Told | Problem:
        from google.auth import exceptions

        if isinstance(error, _Refused):
            return self._refusal(error)
        if isinstance(error, exceptions.DefaultCredentialsError | exceptions.RefreshError):
            wanted = "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or a service account"
            return Problem(f"{' '.join(str(error).split()).rstrip('.')}; wanted {wanted}")
        known = self._requests.exceptions
        if isinstance(error, known.InvalidURL | known.InvalidSchema | known.MissingSchema):
            return Problem(f"{' '.join(str(error).split())}; correct the address or STORAGE_EMULATOR_HOST")
        if isinstance(error, known.RequestException | exceptions.TransportError):
            return no_answer(error)
        raise error

    def _refusal(self, error: _Refused) -> Told | Problem:
        if error.status == 304:
            return Told.UNCHANGED
        if error.status == 412:
            return Told.FAILED
        if error.status == 404:
            if error.is_object and "bucket does not exist" not in error.args[0]:
                return Told.MISSING
            return Problem(f"no bucket {self._bucket!r}; wanted one that is there; make it, or correct it")
        text = " ".join(error.args[0].split())[:200]
        return server_problem(error.status) or Problem(f"the store answers {error.status}: {text}")
