"""Runs in object storage and their working copies: folders in which commands work as usual.

The bucket is authoritative, and the working copy is a cache of it:

- A file is uploaded first and then renamed into place. So every file under its final name is in the bucket, and after a
  kill at any point the next command finds there everything that was committed. Files are uploaded in the order of their
  commits: shard, then sidecar; a model's files, then its model.json.
- Files that are written once (shards, sidecars, packs, chunks, models) are uploaded only if the bucket has no object of
  that name. They are fetched at most once, when they are read; sidecars when their folder is listed.
- Files that change are read again after FRESH_SECONDS or after a lock was taken, and replace only the version that was
  read. best_model is an object with the model's name; here it is a symlink.
- Lines added to a file are uploaded with the next commit, with the first line that is added SEND_SECONDS after the last
  upload, and before a lock is released; no timer uploads them. Lines left by a kill are uploaded by this copy's next
  command that takes the lock. A command without the lock leaves them alone, because they may belong to a command at
  work. If a machine is lost, its match games that weren't uploaded are played again.
- The working copy loses the shards that gather's window has passed, and the chunks and changing files that the bucket
  doesn't have any more. Files with other names, which a user has put in data/, stay.
- Listings are bounded. A numbered folder that was listed completely once is listed from its newest known number minus
  OVERLAP; a worker's folder from its last known shard; a generation is closed when OVERLAP newer ones have games.

Files of tracked numbers are uploaded whole at the end of the command that wrote them. Checkpoints, temporary files and
SGF stay in the working copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.errors import FileError
from pipeline.phrases import size
from pipeline.run import atomic, layout
from pipeline.run.store.base import Store
from pipeline.run.store.leases import Leases
from pipeline.run.store.requests import Conflict, Object, Objects

FRESH_SECONDS = 10.0
SEND_SECONDS = 10.0
OVERLAP = 4  # numbers of generations, models and matches in which new files may appear after newer ones
FETCHING_THREADS = 16
FETCHED_AT_ONCE = 256  # files in memory
LATE = ".jsonl"  # files to which lines are added


class BucketStore(Store):
    """A run in object storage and its working copy in the folder root. copy: identifies the working copy."""

    shared = True

    def __init__(self, root: Path, objects: Objects, copy: str) -> None:
        self.objects = objects
        self._roots = tuple(
            dict.fromkeys(f"{text.rstrip('/')}/" for text in (os.path.abspath(root), os.path.realpath(root)))
        )
        self.root = Path(self._roots[0])
        self._leases = Leases(objects, copy)
        self._pool = ThreadPoolExecutor(FETCHING_THREADS, "fetch")
        self._lock = threading.RLock()  # one thread at a time lists folders and reads files that change
        self._tags: dict[str, str] = {}  # of objects that change, as last read or written
        self._checked: dict[str, float] = {}  # when a key was read or a folder listed
        self._listed: dict[str, set[str]] = {}  # names of files by folder
        self._waiting: dict[str, Path] = {}  # files with lines that weren't uploaded yet
        self._sent: dict[str, float] = {}  # when lines were last uploaded
        self._newest = -1  # the newest generation with games
        self._unsure: FileError | None = None

    def close(self) -> None:
        """Upload the waiting lines. Raises FileError."""
        try:
            self.flush()
        finally:
            self._leases.close()
            self._pool.shutdown(wait=False, cancel_futures=True)

    # Reading

    def want(self, path: Path) -> None:
        parts = self._parts(path)
        if not layout.is_shared(parts):
            return
        if not layout.is_written_once(parts):
            self._refresh(path, parts)
        elif not os.path.lexists(path):
            self.fetch([path])

    def fetch(self, paths: Sequence[Path]) -> None:
        """The files appear here in this order; those that aren't in the bucket are left out."""
        inside = (path for path in paths if layout.is_shared(self._parts(path)))
        each = dict.fromkeys(path for one in inside for path in self._with_others(one))
        wanted = [path for path in each if not os.path.lexists(path)]
        for start in range(0, len(wanted), FETCHED_AT_ONCE):
            some = wanted[start : start + FETCHED_AT_ONCE]
            get: Callable[[Path], Object | None] = lambda path: self.objects.get(self._key(path))  # noqa: E731
            for path, found in zip(some, map(get, some) if len(some) == 1 else self._pool.map(get, some), strict=True):
                if found is not None:
                    if path.suffix == layout.SHARD_SUFFIX:
                        (path.parent.parent / layout.FORGOTTEN).unlink(missing_ok=True)
                    _place(path, found.data)
                elif layout.parse_shard_name(path.name):
                    self._list_place(path.parent, self._parts(path.parent), "")  # it may have been packed

    def _with_others(self, path: Path) -> Iterator[Path]:
        """The file and those fetched with it: for a model everything but the optimiser, which playing doesn't need."""
        parts = self._parts(path)
        if parts[0] != layout.SAVED_MODELS.name or path.name == layout.MODEL_JSON:
            yield path
            return
        description = path.parent / layout.MODEL_JSON
        self.want(description)
        if not os.path.exists(description):  # no model: a base model
            yield path
        for name in _files_of(description):
            if name == path.name or name != layout.OPTIMIZER:
                yield path.parent / name

    def _refresh(self, path: Path, parts: layout.Parts) -> None:
        key = "/".join(parts)
        with self._lock:
            if key in self._waiting or self._is_fresh(key):
                return
            here = _version(path)
            known = self._tags.get(key, "") if here else ""
            found = self.objects.get(key, known)
            self._checked[key] = time.monotonic()
            if found is None:
                self._tags.pop(key, None)
                # Unless another process of this copy has replaced it since.
                if here and layout.has_known_name(parts) and _version(path) == here:
                    with suppress(FileNotFoundError):
                        path.unlink()
            elif not known or found.tag != known:
                self._tags[key] = found.tag
                self._take(path, key, found.data)

    def _take(self, path: Path, key: str, data: bytes) -> None:
        if path.name == layout.CHAMPION:
            _place(path, data, link=True)
            return
        here = b""
        with suppress(FileNotFoundError):
            here = path.read_bytes()
        if path.suffix == LATE and here.startswith(data) and len(here) > len(data):
            lock = self.lease_key(path.with_name(layout.CHAMPION) if path.name == layout.PROMOTIONS else path.parent)
            if lock and self._leases.holds(lock):
                self._waiting[key] = path  # a kill has left lines that weren't uploaded
            else:
                del self._tags[key]  # so that it is read again when the lock is taken
        elif here != data or not data:
            _place(path, data)

    # Writing

    def commit(self, path: Path, temporary: Path) -> None:
        """Raises Conflict if another process has written this file."""
        parts = self._parts(path)
        if not layout.is_shared(parts):
            return
        self.flush()
        data = os.readlink(temporary).encode() if temporary.is_symlink() else temporary.read_bytes()
        key = self._key(path, temporary, data)
        if layout.is_written_once(parts):
            self._put(key, data, None)
            return
        with self._lock:
            try:
                self._tags[key] = self._put(key, data, self._tags.get(key))
            except Conflict:
                self._checked.pop(key, None)
                found = self.objects.get(key)
                if layout.is_kept_by_all(parts) or found is None:
                    raise
                self._tags[key] = self._put(key, data, found.tag)
            self._checked[key] = time.monotonic()

    def appended(self, path: Path) -> None:
        parts = self._parts(path)
        if not layout.is_shared(parts):
            return
        key, now = "/".join(parts), time.monotonic()
        self._waiting[key] = path
        if now - self._sent.setdefault(key, now) >= SEND_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Upload the waiting lines. Raises like commit."""
        with self._lock:
            for key, path in list(self._waiting.items()):
                with suppress(FileNotFoundError):
                    data = path.read_bytes()
                    self._tags[key] = self._put(key, data[: data.rfind(b"\n") + 1], self._tags.get(key))
                    self._sent[key] = self._checked[key] = time.monotonic()
                del self._waiting[key]

    def share(self, path: Path) -> None:
        parts = self._parts(path)
        if not layout.is_shared(parts):
            return
        key, data = "/".join(parts), path.read_bytes()
        with self._lock:
            try:
                self._tags[key] = self.objects.put(key, data, self._tags.get(key))
            except Conflict:
                found = self.objects.get(key)
                self._tags[key] = self.objects.put(key, data, found.tag if found else None)

    def removing(self, paths: Sequence[Path]) -> None:
        keys = [self._key(path) for path in paths if layout.is_shared(self._parts(path))]
        if keys:
            self.flush()
            self._leases.check()
            self.objects.delete(keys)
            for key in keys:
                folder, _, name = key.rpartition("/")
                self._tags.pop(key, None)
                self._listed.get(folder, set()).discard(name)

    def _put(self, key: str, data: bytes, replaces: str | None) -> str:
        if self._unsure is not None:
            raise self._unsure
        try:
            return self.objects.put(key, data, replaces, self._leases.check)
        except Conflict:
            raise
        except FileError as error:
            # The object may have been written anyway, and this command might write its contents again under another
            # name. So it writes nothing more; the next command looks at what is there.
            self._unsure = error
            self.objects.patience = 0.0
            raise

    @contextmanager
    def hold(self, path: Path, on_wait: Callable[[], None] | None, busy: str | None) -> Iterator[None]:
        """Hold the lease that stands for this lock. Files are read again after it was taken."""
        key = self.lease_key(path)
        if key is None:
            yield
            return
        with self._leases.hold(path, key, on_wait, busy):
            self.look_again()
            try:
                yield
            finally:
                self.flush()

    def forget_shards(self, directory: Path, before: int) -> None:
        """Shards that were fetched again since the last call are removed again."""
        parts = self._parts(directory)
        if parts != (layout.DATA, layout.SELFPLAY):
            return
        for folder in (directory / name for name in _names(directory) if -1 < layout.number_in(parts, name) < before):
            if (folder / layout.FORGOTTEN).exists():
                continue
            for path in folder.glob(f"*/*{layout.SHARD_SUFFIX}"):
                path.unlink(missing_ok=True)
            _place(folder / layout.FORGOTTEN, b"")

    # Listing

    def names(self, folder: Path) -> set[str]:
        """Lists only names that matter (see the module docstring). Also fetches sidecars."""
        parts = self._parts(folder)
        if not layout.is_shared((*parts, "any")):
            return set()
        key = "/".join(parts)
        with self._lock:
            if not self._is_fresh(key + "/"):
                self._listed[key] = self._list(folder, parts)
                self._checked[key + "/"] = time.monotonic()
            return self._listed[key]

    def fetch_names(self) -> None:
        for parts in ((layout.SAVED_MODELS.name,), (layout.DATA, layout.SELFPLAY), (layout.DATA, layout.EVALUATE)):
            self.names(self.root.joinpath(*parts))

    def traffic(self) -> str:
        objects = self.objects
        sent, fetched = size(objects.bytes_sent), size(objects.bytes_fetched)
        return f"{objects.address}: {objects.requests:,} requests, {sent} sent, {fetched} fetched"

    def fetch_whole(self) -> None:
        """Also removes shards that were packed or pruned elsewhere."""
        folders = [layout.SAVED_MODELS.name, layout.DATA]
        while folders:
            folder = folders.pop()
            parts, files = tuple(folder.split("/")), []
            if parts[:2] == (layout.DATA, layout.SELFPLAY) and len(parts) == 4:
                self.look_at_place(self.root / folder)
            for name in self.objects.names(folder, "/"):
                if name.endswith("/"):
                    folders.append(f"{folder}/{name[:-1]}")
                else:
                    files.append(self.root / folder / name)
            once = {path for path in files if layout.is_written_once(self._parts(path))}
            self.fetch([path for path in files if path in once and path.name != layout.MODEL_JSON])
            for path in files:
                if path.name == layout.MODEL_JSON:
                    self.want(path)
                    self.fetch([path.parent / name for name in _files_of(path)])
                elif path not in once:
                    self.want(path)

    def _list(self, folder: Path, parts: layout.Parts) -> set[str]:
        if parts[:2] == (layout.DATA, layout.SELFPLAY) and len(parts) in (3, 4):
            if not (folder / layout.CLOSED).exists():
                last = max((name for name in _names(folder) if name.endswith(layout.META_SUFFIX)), default="")
                self._list_place(folder, parts, last)
                if -1 < layout.number_in(parts[:2], parts[2]) < self._newest - OVERLAP:
                    _place(folder / layout.CLOSED, b"")
            return set()
        here = _names(folder)
        newest = max((layout.number_in(parts, name) for name in here), default=-1)
        is_numbered = layout.number_in(parts, "000000-any") == 0
        is_known = layout.WHOLE in here  # otherwise single folders may have been fetched by name
        after = f"{max(0, newest - OVERLAP):06d}" if is_known and newest > 0 else "/"  # hidden names sort before "/"
        found = set()
        for name in self.objects.names("/".join(parts), after):
            if not name.endswith("/"):
                found.add(name)
            elif is_listable(parts):
                _place(folder / name / layout.LISTED, b"")
            else:
                (folder / name).mkdir(parents=True, exist_ok=True)
        if is_numbered and not is_known and folder.is_dir():
            _place(folder / layout.WHOLE, b"")
        if parts == (layout.DATA, layout.SELFPLAY):
            self._newest = max((layout.number_in(parts, name) for name in _names(folder)), default=-1)
        if parts == (layout.DATA, layout.TRAINING):
            for name in here:
                if name not in found and layout.parse_chunk_name(name):  # removed by another machine
                    (folder / name).unlink(missing_ok=True)
        return found

    def _list_place(self, folder: Path, parts: layout.Parts, after: str) -> None:
        """Fetch a worker's sidecars after this name, or make the folders of a generation's workers."""
        key = "/".join(parts)
        if len(parts) == 3:
            for name in self.objects.names(key, "/"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        else:
            self.fetch([folder / name for name in self.objects.files(key, after) if name.endswith(layout.META_SUFFIX)])

    def look_at_place(self, folder: Path) -> None:
        """Fetch new sidecars, and shards and packs that a kill left without one; then remove what the bucket hasn't."""
        parts = self._parts(folder)
        if not layout.is_shared((*parts, "any")):
            return
        # Listed before the bucket, to which a file that is written meanwhile is added first.
        here = {name for name in _names(folder) if layout.is_written_once((*parts, name))}
        there = set(self.objects.files("/".join(parts)))
        bare = {name.removesuffix(layout.META_SUFFIX) for name in there if name.endswith(layout.META_SUFFIX)}
        wanted = (name for name in there if name.endswith(layout.META_SUFFIX) or Path(name).stem not in bare)
        self.fetch([folder / name for name in sorted(wanted)])
        for name in here - there:
            (folder / name).unlink(missing_ok=True)

    def is_listed(self, folder: Path) -> bool:
        return bool(self._parts(folder)) and os.path.isfile(folder / layout.LISTED)

    # Names

    def _is_fresh(self, key: str) -> bool:
        return time.monotonic() - self._checked.get(key, -FRESH_SECONDS) < FRESH_SECONDS

    def look_again(self) -> None:
        """Regard everything that was read as outdated."""
        with self._lock:
            self._checked.clear()

    def _parts(self, path: Path) -> layout.Parts:
        """The parts of a path in the run's folder; () for all other paths, which are left alone."""
        text = os.path.abspath(path)
        root = next((one for one in self._roots if text.startswith(one)), None)
        if root is None:
            return ()
        parts = tuple(text[len(root) :].split("/"))
        if len(parts) > 2 and parts[:2] == (layout.SAVED_MODELS.name, layout.CHAMPION):
            with suppress(OSError):
                return (parts[0], os.readlink(self.root / parts[0] / parts[1]), *parts[2:])
        return parts

    def _key(self, path: Path, temporary: Path | None = None, data: bytes = b"") -> str:
        """The object's key. temporary, data: of a file that isn't committed yet."""
        parts = self._parts(path)
        if parts[0] != layout.SAVED_MODELS.name or len(parts) != 3 or path.name == layout.MODEL_JSON:
            return "/".join(parts)
        description = (temporary or path).parent / layout.MODEL_JSON
        if not description.exists():  # of a base model
            return "/".join(parts)
        sha256 = hashlib.sha256(data).hexdigest() if temporary else _files_of(description).get(path.name, "")
        return layout.model_file_key(parts[1], path.name, sha256)

    def lease_key(self, path: Path) -> str | None:
        """The key of a lock; None if it isn't shared, like that of a pool outside the run."""
        parts = self._parts(path)
        if len(parts) < 2 or parts[0] not in (layout.DATA, layout.SAVED_MODELS.name):
            return None
        return "/".join((*parts[:-1], layout.lock_path(Path(parts[-1])).name))


def is_listable(parts: layout.Parts) -> bool:
    """Whether the folders in this one are models or matches."""
    if parts == (layout.SAVED_MODELS.name,):
        return True
    return len(parts) in (2, 3) and parts[0] == layout.DATA and parts[1] in (layout.EVALUATE, layout.TOURNAMENT)


def _files_of(description: Path) -> dict[str, str]:
    """The SHA-256 of a model's files by name, from its model.json; {} if that is missing or damaged."""
    try:
        files = json.loads(description.read_bytes())["files"]
        return {name: str(stamp["sha256"]) for name, stamp in files.items() if "/" not in name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _version(path: Path) -> tuple[int, int] | None:
    """A value that changes when the file is replaced or added to; None if it is missing."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _place(path: Path, data: bytes, link: bool = False) -> None:
    """Write a file from the bucket atomically, but without syncs, because it can be fetched again."""
    atomic.make_folder(path.parent)
    with atomic.replacing(path, folder_sync=False, upload=False) as temporary:
        if link:
            os.symlink(data.decode(), temporary)
        else:
            temporary.write_bytes(data)
