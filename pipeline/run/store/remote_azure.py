"""Azure Blob Storage, through Azure's own library.

The account and its credentials are those of the environment, under the names that adlfs has for them:
AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or
AZURE_STORAGE_SAS_TOKEN, or without, and then whatever DefaultAzureCredential finds. A tag is an ETag; the conditions
are If-None-Match and If-Match. A listing can't begin in the middle: a folder costs a request for each 5,000 names.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from pipeline.errors import UsageError
from pipeline.run.store import remote
from pipeline.run.store.remote import RIGHTS, Facts, Object, Page, Problem, Store, Told, no_answer, server_problem

WHOLE = 1 << 28  # bytes that are sent or fetched in one request
LISTED_AT_ONCE = 5_000  # the most that Azure lists in a request
NAMES = "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"


@lru_cache(maxsize=4)
def _service(settings: frozenset[tuple[str, str]]) -> Any:
    """The account that these environment variables name. Raises UsageError."""
    from azure.storage.blob import BlobServiceClient

    given = dict(settings)
    how: dict[str, Any] = {"max_single_put_size": WHOLE, "max_single_get_size": WHOLE}
    try:
        if text := given.get("AZURE_STORAGE_CONNECTION_STRING"):
            return BlobServiceClient.from_connection_string(text, **how)
        account = given.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        if not account:
            raise UsageError(f"az://: no account; wanted {NAMES}")
        credential: Any = given.get("AZURE_STORAGE_ACCOUNT_KEY") or given.get("AZURE_STORAGE_SAS_TOKEN")
        if not credential:
            from azure.identity import DefaultAzureCredential

            credential = DefaultAzureCredential()
        return BlobServiceClient(f"https://{account}.blob.core.windows.net", credential, **how)
    except ValueError as error:
        raise UsageError(f"az://: {' '.join(str(error).split())}; wanted {NAMES}") from error


class AzureStore(Store):
    """See Store."""

    protocol = "az"
    no_tag = '"0x8D0000000000000"'

    def __init__(self, bucket: str, prefix: str, patience: float) -> None:
        super().__init__(bucket, prefix, patience)
        settings = {name: value for name, value in os.environ.items() if name.startswith("AZURE_")}
        self._container = _service(frozenset(settings.items())).get_container_client(bucket)

    def _get(self, key: str, known: str, seconds: float) -> Object:
        from azure.core import MatchConditions

        condition = {"etag": known, "match_condition": MatchConditions.IfModified} if known else {}
        answer = self._container.download_blob(key, **condition, **_once(seconds))
        return Object(answer.readall(), str(answer.properties.etag))

    def _look(self, key: str, seconds: float) -> Facts:
        dates: list[str] = []
        facts = self._container.get_blob_client(key).get_blob_properties(
            raw_response_hook=lambda answer: dates.append(answer.http_response.headers.get("Date", "")),
            **_once(seconds),
        )
        now = parsedate_to_datetime(dates[-1]) if dates and dates[-1] else datetime.now(UTC)
        age = (now - facts.last_modified).total_seconds()
        return Facts(str(facts.etag), str(facts.metadata.get("sha256", "")), max(0.0, age))

    def _put(self, key: str, data: bytes, sha256: str, replaces: str | None, seconds: float) -> str:
        from azure.core import MatchConditions

        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if replaces is not None:
            condition = {"etag": replaces, "match_condition": MatchConditions.IfNotModified}
        answer = self._container.get_blob_client(key).upload_blob(
            data, overwrite=True, metadata={"sha256": sha256}, **condition, **_once(seconds)
        )
        return str(answer["etag"])

    def _delete(self, key: str, tag: str, seconds: float) -> None:
        from azure.core import MatchConditions

        condition = {"etag": tag, "match_condition": MatchConditions.IfNotModified} if tag else {}
        self._container.delete_blob(key, **condition, **_once(seconds))

    def _page(self, prefix: str, after: str, more: str, seconds: float) -> Page:
        found = self._container.walk_blobs(prefix, delimiter="/", results_per_page=LISTED_AT_ONCE, **_once(seconds))
        pages = found.by_page(more or None)
        keys = [one.name for one in next(pages)]
        return Page(keys, pages.continuation_token or "")

    def _judge(self, error: Exception) -> Told | Problem:
        from azure.core import exceptions as known

        if isinstance(error, known.ClientAuthenticationError):
            first = " ".join((str(error).splitlines() or [""])[0].split()).rstrip(".")
            return Problem(f"access denied ({first}); {RIGHTS}")
        if isinstance(error, known.HttpResponseError):
            return self._refusal(error)
        if isinstance(error, known.AzureError | OSError):
            return no_answer(error)
        raise error

    def _refusal(self, error: Any) -> Told | Problem:
        status, code = int(error.status_code or 0), str(getattr(error, "error_code", "") or "")
        if status == 304:
            return Told.UNCHANGED
        if status == 412 or (status == 409 and "Exists" in code):
            return Told.FAILED
        if "ContainerNotFound" in code:
            return Problem(f"no container {self._bucket!r}; wanted one that is there; make it, or correct it")
        if status == 404:
            return Told.MISSING
        text = " ".join((str(error).splitlines() or [""])[0].split())
        return server_problem(status, code) or Problem(f"the store answers {code or status}: {text}")


def _once(seconds: float) -> dict[str, Any]:
    """For a request that is sent once. seconds: of silence; an attempt may take longer as long as something comes."""
    return {"retry_total": 0, "connection_timeout": min(remote.CONNECT_SECONDS, seconds), "read_timeout": seconds}
