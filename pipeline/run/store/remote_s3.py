"""Amazon S3 and whatever speaks its protocol and honours its conditions, through s3fs.

s3fs's settings and environment variables hold: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_PROFILE, … A tag is an ETag;
the conditions are If-None-Match and If-Match.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from pipeline.errors import FileError
from pipeline.run.store import remote
from pipeline.run.store.remote import RIGHTS, Facts, Object, Page, Problem, Store, Told, no_answer, server_problem

REFUSED = {
    "AccessDenied": "access denied",
    "AllAccessDisabled": "access denied",
    "ExpiredToken": "the credentials have expired",
    "InvalidAccessKeyId": "nobody knows this access key",
    "InvalidToken": "the credentials have expired",
    "SignatureDoesNotMatch": "the secret key is not the access key's",
}
AGAIN = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "InternalError", "ServiceUnavailable"}
AGAIN |= {"ConditionalRequestConflict", "OperationAborted"}


@lru_cache(maxsize=4)
def _filesystem(settings: frozenset[tuple[str, str]]) -> Any:
    """s3fs with these environment variables, which it reads itself; making one takes a third of a second."""
    import s3fs

    return s3fs.S3FileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        config_kwargs={
            "connect_timeout": remote.CONNECT_SECONDS,
            "read_timeout": 3600,  # attempts have a limit of their own, by what they carry
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": 64,
            "request_checksum_calculation": "when_required",  # others than Amazon may not know newer ones
            "response_checksum_validation": "when_required",
        },
    )


class S3Store(Store):
    """See Store."""

    protocol = "s3"
    no_tag = '"0123456789abcdef0123456789abcdef"'

    def __init__(self, bucket: str, prefix: str, patience: float) -> None:
        super().__init__(bucket, prefix, patience)
        settings = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "FSSPEC_"))}
        self._filesystem = _filesystem(frozenset(settings.items()))

    def delete(self, keys: Sequence[str], tag: str = "") -> None:
        """As many in a request as S3 takes."""
        if tag:
            super().delete(keys, tag)
            return
        for start in range(0, len(keys), remote.LISTED_AT_ONCE):
            named = [{"Key": self._prefix + key} for key in keys[start : start + remote.LISTED_AT_ONCE]]
            what = {"Objects": named, "Quiet": True}
            answer = self._ask("delete", None, lambda seconds: self._send("delete_objects", seconds, Delete=what))  # noqa: B023
            for failed in answer.get("Errors", []) if isinstance(answer, dict) else []:
                where = f"{self.protocol}://{self._bucket}/{failed['Key']}"
                raise FileError(where, f"not deleted ({failed.get('Code')}); run it again")

    def _get(self, key: str, known: str, seconds: float) -> Object:
        condition = {"IfNoneMatch": known} if known else {}
        answer = self._send("get_object", seconds, Key=key, **condition)
        return Object(answer["Body"], str(answer["ETag"]))

    def _look(self, key: str, seconds: float) -> Facts:
        answer = self._send("head_object", seconds, Key=key)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        age = (now - answer["LastModified"]).total_seconds()
        return Facts(str(answer["ETag"]), str(answer.get("Metadata", {}).get("sha256", "")), max(0.0, age))

    def _put(self, key: str, data: bytes, sha256: str, replaces: str | None, seconds: float) -> str:
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        answer = self._send("put_object", seconds, Key=key, Body=data, Metadata={"sha256": sha256}, **condition)
        return str(answer["ETag"])

    def _delete(self, key: str, tag: str, seconds: float) -> None:
        self._send("delete_object", seconds, Key=key, IfMatch=tag)

    def _page(self, prefix: str, after: str, more: str, seconds: float) -> Page:
        begin = {"ContinuationToken": more} if more else {"StartAfter": after} if after else {}
        answer = self._send(
            "list_objects_v2", seconds, Prefix=prefix, Delimiter="/", MaxKeys=remote.LISTED_AT_ONCE, **begin
        )
        keys = [one["Key"] for one in answer.get("Contents", [])]
        keys += [one["Prefix"] for one in answer.get("CommonPrefixes", [])]
        return Page(keys, str(answer["NextContinuationToken"]) if answer.get("IsTruncated") else "")

    def _send(self, method: str, seconds: float, **arguments: Any) -> Any:
        import fsspec.asyn

        return fsspec.asyn.sync(self._filesystem.loop, self._send_there, method, arguments, seconds)

    async def _send_there(self, method: str, arguments: dict[str, Any], seconds: float) -> Any:
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

        return await asyncio.wait_for(send(), seconds)

    def _judge(self, error: Exception) -> Told | Problem:
        import botocore.exceptions as known

        response = getattr(error, "response", None)
        if isinstance(error, known.ClientError) and isinstance(response, dict):
            return self._refusal(response)
        if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError | known.ProfileNotFound):
            wanted = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's own role"
            return Problem(f"{' '.join(str(error).split()).rstrip('.')}; wanted {wanted}")
        if isinstance(error, known.ParamValidationError | ValueError):
            return Problem(f"{' '.join(str(error).split())}; correct the address or AWS_ENDPOINT_URL")
        if isinstance(error, known.BotoCoreError | OSError | asyncio.TimeoutError | TimeoutError):
            return no_answer(error)
        if type(error).__module__.partition(".")[0] == "aiohttp":  # a connection that ended within an answer
            return no_answer(error)
        raise error

    def _refusal(self, response: dict[str, Any]) -> Told | Problem:
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status == 304:
            return Told.UNCHANGED
        if status == 412 or code == "PreconditionFailed":
            return Told.FAILED
        if code == "NoSuchBucket":
            return Problem(f"no bucket {self._bucket!r}; wanted one that is there; make it, or correct it")
        if status == 404:
            return Told.MISSING
        if code in AGAIN:
            return Problem(f"the store answers {code}", again=True)
        if code in REFUSED:
            return Problem(f"{REFUSED[code]}; {RIGHTS}")
        message = response.get("Error", {}).get("Message", "")
        return server_problem(status, code) or Problem(f"the store answers {code or status}: {message}")
