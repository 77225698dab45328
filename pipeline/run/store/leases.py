"""Locks of a run in object storage: objects that name their holder and expire.

A *lease* is an object that its holder renews. If it isn't renewed for LEASE_SECONDS, by the server's clock, anybody may
take it. A holder that hasn't been able to renew its lease for nearly that long must not write any more: see check. The
holder also has the lock file on its disk, so nobody else in that working copy can hold the lease: the lease of a killed
command is taken over at once.

A process that is suspended for minutes between a check and its write may write after losing its lease. Promotions,
models and match records don't rely on leases, because their writes are conditional. The worst such a process can do is
to commit one more shard of a worker that another machine has continued.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import FileError
from pipeline.machine import uptime
from pipeline.run import layout
from pipeline.run.store.base import Busy
from pipeline.run.store.requests import ANSWER_SECONDS, Conflict, Object, Objects

LEASE_SECONDS = 90.0
RENEWED_EVERY = 20.0
LAST_WRITE = LEASE_SECONDS - ANSWER_SECONDS - 5  # seconds after a renewal until which a write may begin
LOOK_EVERY = 2.0  # seconds, while waiting


@dataclass
class _Lease:
    path: Path  # the locked file or folder
    tag: str
    since: float  # when the request of the last renewal was sent, by uptime()
    number: int = 0  # of renewals
    lost: bool = False


class Leases:
    """The leases of this process. copy: identifies the working copy."""

    def __init__(self, objects: Objects, copy: str) -> None:
        self._objects, self._copy = objects, copy
        self._held: dict[str, _Lease] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, path: Path, key: str, on_wait: Callable[[], None] | None, busy: str | None) -> Iterator[None]:
        """Hold the lease of this key. Parameters as in file_lock, Busy too."""
        while (lease := self._acquire(path, key)) is None:
            if busy is not None:
                raise Busy(f"{busy}{self._holder(key)}")
            if on_wait is not None:
                on_wait()
                on_wait = None
            time.sleep(LOOK_EVERY)
        with self._lock:
            self._held[key] = lease
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="leases", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._held[key]
                if not lease.lost and uptime() - lease.since <= LAST_WRITE:  # otherwise another process may have it
                    with suppress(FileError):  # the lease then expires by itself
                        self._objects.release(key, lease.tag)

    def close(self) -> None:
        """End the thread that renews leases. None may be held any more."""
        self._wake.set()

    def holds(self, key: str) -> bool:
        return key in self._held

    def check(self) -> None:
        """Raises Conflict if another process may have taken one of the leases."""
        for lease in list(self._held.values()):
            if lease.lost:
                raise Conflict(lease.path, "another process has taken its lock over; run the same command again")
            if uptime() - lease.since > LAST_WRITE:
                raise Conflict(lease.path, "its lock couldn't be renewed in time; run the same command again")

    def _acquire(self, path: Path, key: str) -> _Lease | None:
        """None: another process has it."""
        begin = uptime()
        try:
            return _Lease(path, self._objects.put(key, self._content(0), None), begin)
        except Conflict:
            pass
        found = self._objects.get(key)
        if found is None:
            return None  # released since
        who = _parse(found.data)
        is_of_killed = who.get("copy") == self._copy and who.get("host") == layout.this_host()
        if not is_of_killed and self._age(found) <= LEASE_SECONDS:
            return None
        try:
            return _Lease(path, self._objects.put(key, self._content(0), found.tag), begin)
        except Conflict:
            return None

    def _content(self, number: int) -> bytes:
        who = {"host": layout.this_host(), "process": os.getpid(), "copy": self._copy, "renewed": number}
        return json.dumps({**who, "random": secrets.token_hex(8)}).encode()

    def _holder(self, key: str) -> str:
        found = self._objects.get(key)
        if found is None:
            return ""
        who = _parse(found.data)
        left = max(0.0, LEASE_SECONDS - self._age(found))
        host, process = (str(who.get(name, "?"))[:64] for name in ("host", "process"))
        return f" (process {process} on {host}; its lock ends in {left:.0f} s unless it is renewed)"

    def _age(self, lease: Object) -> float:
        """Seconds since it was renewed, by the server's clock."""
        assert lease.modified is not None
        return max(0.0, (self._objects.now() - lease.modified).total_seconds())

    def _renew(self) -> None:
        while not self._wake.wait(RENEWED_EVERY):
            for key, lease in list(self._held.items()):
                with self._lock:  # not while it is released
                    if self._held.get(key) is not lease or lease.lost:
                        continue
                    begin = uptime()
                    try:
                        lease.tag = self._objects.put(key, self._content(lease.number + 1), lease.tag)
                        lease.since, lease.number = begin, lease.number + 1
                    except Conflict:
                        lease.lost = True
                    except FileError:
                        continue  # check() measures how long the lease hasn't been renewed


def _parse(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
