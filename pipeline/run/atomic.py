"""Atomic writing, so that a reader sees a whole file or none, whenever the writer is killed; checked reading; locks.

Files are written under a temporary name in the same folder, synced and renamed; then the folder is synced. A failed
write removes its temporary file; a killed one leaves it, and ``sweep`` removes it later. A full or read-only disk is a
FileError of one line.

The store in force (store/base.py) is called before a file is read, listed, renamed into place or removed, and holds a
lock for the other copies of the run.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from pipeline.errors import FileError, explain
from pipeline.run import layout
from pipeline.run.store.base import Busy, current_store

Record = TypeVar("Record", bound=BaseModel)
MOST_NESTED = 64  # levels of lists and objects in JSON; MuGo's files have fewer than ten
LONGEST_INT = 300  # characters
TOO_DEEP = "lists or objects nested too deeply"

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the escape, not a backslash before "u0000"
ZEROS_AT_ONCE = 2**20  # bytes
LONGEST_WRITE = timedelta(days=1)

BUSY = "another process is at work on it; wait until it is done"
LOCKS, MOUNTS = Path("/proc/locks"), Path("/proc/self/mountinfo")  # Linux only


@contextmanager
def os_errors(path: Path | str, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn every OSError inside into a FileError about path, except those that are passing."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        raise explain(path, error) from error


def make_folder(path: Path) -> None:
    """Make the folder and its parents if they are missing. Raises FileError."""
    with os_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise FileError(path, "it is a file; wanted a directory; choose another path") from error


def sync(path: Path) -> None:
    """Make a file's content, or the renames in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems can't sync folders
            raise
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes | memoryview, folder_sync: bool = True) -> None:
    """Write a file, replacing an existing one. Raises FileError.

    folder_sync: False omits the folder's sync, for when several files go into it; call sync after the last.
    """
    with replacing(path, folder_sync) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _write_all(descriptor, memoryview(data).cast("B"))
        finally:
            os.close(descriptor)


@contextmanager
def replacing(path: Path, folder_sync: bool = True, upload: bool = True) -> Iterator[Path]:
    """A temporary name that is renamed to path at the end of the block, or removed on an error. Raises FileError.

    upload: False for files that come from the store.
    """
    temporary = layout.temporary_path(path)
    with os_errors(path):
        try:
            yield temporary
            if upload:
                current_store().commit(path, temporary)
            os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if folder_sync:
            sync(path.parent)


def _write_all(descriptor: int, rest: memoryview) -> None:
    """Write and sync, however little os.write takes at a time."""
    while rest.nbytes:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def allocate(descriptor: int, num_bytes: int) -> None:
    """Give an empty file this size and reserve its space on the disk. Raises OSError if there isn't enough.

    Without posix_fallocate (macOS) it writes zeros, because truncating a file to a larger size reserves nothing.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, num_bytes)
        return
    zeros = memoryview(bytes(min(num_bytes, ZEROS_AT_ONCE)))
    left = num_bytes
    while left:
        left -= os.write(descriptor, zeros[:left])


def write_text(path: Path, text: str, folder_sync: bool = True) -> None:
    """Like write_bytes, in UTF-8."""
    write_bytes(path, text.encode(), folder_sync)


def write_json(path: Path, value: Any, indent: int | None = None, folder_sync: bool = True) -> None:
    """Like write_bytes, as JSON with a newline at the end."""
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False) + "\n", folder_sync)


def append_line(path: Path, line: str) -> None:
    """Add one line to a text file and sync it. After a failure the file is as before; after Ctrl-C or SIGTERM it is as
    before or has the whole line.

    A kill can leave an unfinished line; the next append starts a new line. Takes no lock: two writers need a file_lock.
    Raises FileError.
    """
    with os_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            data = (("\n" if torn else "") + line + "\n").encode()
            try:
                _write_all(descriptor, memoryview(data))
            except BaseException as error:
                with suppress(OSError):
                    # If a signal comes after the whole line was written, other processes may have read it.
                    if isinstance(error, OSError) or os.fstat(descriptor).st_size < size + len(data):
                        os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
    current_store().appended(path)


def read_bytes(path: Path, wanted: str) -> bytes:
    """The whole file. Raises FileError that says what was wanted if it is missing or unreadable."""
    bring(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise FileError(path, f"it is no regular file; wanted {wanted}")  # reading a pipe could block for ever
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FileError(path, f"no such file; wanted {wanted}") from error
    except IsADirectoryError as error:
        raise FileError(path, f"it is a directory; wanted {wanted}") from error
    except OSError as error:
        raise explain(path, error) from error
    except MemoryError as error:
        raise FileError(path, f"it is larger than this machine's memory; wanted {wanted}") from error


def bring(path: Path) -> None:
    """Fetch a file from object storage before it is opened in another way than by read_bytes. Raises FileError."""
    current_store().want(path)


def bring_folder(path: Path) -> None:
    """Fetch a folder's files from object storage, if they are missing here or may have changed. Raises FileError."""
    for name in names_in(path):
        bring(path / name)


def exists(path: Path) -> bool:
    """Whether the file is here, or in object storage: then it is fetched. Raises FileError."""
    bring(path)
    return os.path.exists(path)


def read_json(path: Path, wanted: str) -> dict[str, Any]:
    """The JSON object in a file. Raises FileError if it is missing, unreadable or not a JSON object."""
    return parse_json(path, read_bytes(path, wanted), wanted)


def parse_json(path: Path, data: bytes, wanted: str) -> dict[str, Any]:
    """The JSON object in data, read from path. Raises FileError if it isn't one."""
    try:
        value = load_json(data)
    except ValueError as error:
        raise FileError(path, f"damaged: not readable as JSON ({error}); wanted {wanted}") from error
    if not isinstance(value, dict):
        raise FileError(path, f"damaged: found a JSON {type(value).__name__}; wanted {wanted}")
    return value


def load_json(data: bytes | str) -> Any:
    """JSON in which every number fits into a float64 and every text can be written again.

    Raises ValueError for anything else: NaN and Infinity, numbers beyond float64, duplicate names, nesting beyond
    MOST_NESTED, half of a surrogate pair, and the character NUL, which no path or name can hold.
    """
    text = data if isinstance(data, str) else data.decode()
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if text.count("[") + text.count("{") > MOST_NESTED:
        _check_depth(value)
    if "\\u" in text:
        if _NUL.search(text):
            raise ValueError("a text holds the character NUL")
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _whole_number(text: str) -> int:
    if len(text) > LONGEST_INT:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]}, which is no finite float64")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        duplicate, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the name {duplicate[:40]!r} appears twice")
    return value


_DECODER = json.JSONDecoder(
    parse_int=_whole_number,
    parse_float=_number,
    parse_constant=_number,
    object_pairs_hook=_object,
)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise ValueError(TOO_DEEP)


def check_format(path: Path, raw: dict[str, Any], file_format: str, version: int, wanted: str) -> None:
    """Raises FileError unless raw, read from path, is of this format and version."""
    found, found_version = raw.get("format"), raw.get("version")
    if found != file_format:
        raise FileError(path, f"damaged: format {found!r}; wanted {file_format!r}, {wanted}")
    if found_version != version:
        raise FileError(path, f"version {found_version!r}; this program reads version {version}; wanted {wanted}")


def parse_record(path: Path, kind: type[Record], raw: dict[str, Any], wanted: str) -> Record:
    """raw, read from path, as a record of this kind. Raises FileError that names the first wrong field.

    kind: its fields `format` and `version` are Literals.
    """
    (file_format,), (version,) = (get_args(kind.model_fields[name].annotation) for name in ("format", "version"))
    check_format(path, raw, file_format, version, wanted)
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise FileError(path, f"damaged: {first_problem(error)}; wanted {wanted}") from error


def read_record(path: Path, kind: type[Record], wanted: str) -> Record:
    """A JSON file as a record; see parse_record."""
    return parse_record(path, kind, read_json(path, wanted), wanted)


def check_content(path: Path, data: bytes, num_bytes: int, sha256: str, said_by: str) -> None:
    """Raises FileError unless data, read from path, has this size and checksum. said_by: the file that states them."""
    if len(data) != num_bytes:
        raise FileError(path, f"damaged: {len(data)} bytes; {said_by} says {num_bytes}")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise FileError(path, f"damaged: its checksum is not the one in {said_by}")


def first_problem(error: ValidationError) -> str:
    """ "FIELD: PROBLEM", or the problem alone if it concerns the whole record."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    problem = first["msg"].removeprefix("Value error, ")
    return f"{where}: {problem}" if where else problem


def names_in(folder: Path) -> list[str]:
    """The names in a folder, unordered; none if it is missing. Raises FileError if it can't be listed."""
    elsewhere = current_store().names(folder)
    with os_errors(folder):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            names = []
    return list(elsewhere.union(names)) if elsewhere else names


def is_folder(path: Path) -> bool:
    """Whether a folder is here, or in object storage: then its subfolders appear here. Raises FileError."""
    current_store().names(path)
    return os.path.isdir(path)


def remove(files: Iterable[Path]) -> None:
    """Remove files; some may already be gone. Raises FileError."""
    files = list(files)
    current_store().removing(files)
    for path in files:
        with os_errors(path):
            path.unlink(missing_ok=True)


def utc_now(to: str = "seconds") -> str:
    """Now, ISO 8601. to: "microseconds" sorts, as text, after the same second."""
    return datetime.now(UTC).isoformat(timespec=to)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A temporary folder to fill. At the end of the block it is synced and renamed to path, or removed on an error.

    A store gets its files first, model.json last. Raises FileError if path exists, before the block and again after it.
    """
    refuse_existing(path)
    make_folder(path.parent)
    temporary, store = layout.temporary_path(path), current_store()
    with os_errors(path):
        try:
            temporary.mkdir()
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    sync(Path(folder, name))
                sync(Path(folder))
            refuse_existing(path)
            for name in sorted(os.listdir(temporary), key=lambda name: (name == layout.MODEL_JSON, name)):
                if (temporary / name).is_file():
                    store.commit(path / name, temporary / name)
            (_merge if store.shared else os.rename)(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync(path.parent)


def _merge(temporary: Path, path: Path) -> None:
    """Rename a folder whose files are in object storage, where another process may have found them and made it, too."""
    try:
        os.rename(temporary, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        for name in os.listdir(temporary):
            os.replace(temporary / name, path / name)
        temporary.rmdir()


def refuse_existing(path: Path) -> None:
    """Raises FileError if anything has this path."""
    if os.path.lexists(path):
        raise FileError(path, "it exists already, and is never overwritten; choose another name or remove it")


def replace_symlink(link: Path, target: str) -> None:
    """Make link a symlink with this text, atomically. Raises FileError, also if link exists and is no symlink."""
    if os.path.lexists(link) and not link.is_symlink():
        raise FileError(link, "it is no symlink, and is never overwritten; wanted a symlink or nothing; move it away")
    with replacing(link) as temporary:
        os.symlink(target, temporary)


@contextmanager
def file_lock(
    path: Path, on_wait: Callable[[], None] | None = None, wait: bool = True, busy: str = ""
) -> Iterator[None]:
    """Hold the lock of this file or folder. The system releases it when the process ends, however it ends.

    The holder may remove the lock together with its folder: a process that waited for it makes both again.
    on_wait: called once before waiting for another process.
    wait: False raises Busy if another process holds the lock. busy: its message, by default one that names path.
    Raises FileError if the lock can't be created.
    """
    lock, busy = layout.lock_path(path), busy or f"{path}: {BUSY}"
    while True:
        descriptor = _open_lock(lock)
        try:
            with os_errors(lock):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    if not wait:
                        raise Busy(busy) from error
                    if on_wait is not None:
                        on_wait()
                        on_wait = None
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                except OSError as error:
                    if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):  # Lustre without locks, for example
                        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
                    raise
            if _is_at(descriptor, lock):
                with current_store().hold(path, on_wait, None if wait else busy):
                    yield
                return
        finally:
            os.close(descriptor)


def _open_lock(lock: Path) -> int:
    while True:
        make_folder(lock.parent)
        with os_errors(lock):
            try:
                return os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                if lock.parent.exists():  # otherwise another process has just removed the folder
                    raise


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def held_locks() -> set[tuple[int, int]] | None:
    """The lock_id of every file that a process of this machine has locked; None if the system doesn't list them.

    Takes no lock, so it never disturbs other processes. Doesn't see processes of other machines and containers.
    """
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    held = set()
    for line in lines:
        match line.split():  # 67: FLOCK ADVISORY WRITE 2897 fe:00:2154544 0 EOF
            case [_, "FLOCK", _, _, _, where, *_]:
                major, minor, inode = where.split(":")
                held.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return held


def lock_id(path: Path) -> tuple[int, int] | None:
    """(device, inode) of a file as in held_locks; None if it is gone. Opens it for neither reading nor writing.

    The device is that of the mount, from which stat's differs on btrfs and overlayfs for each subvolume or layer.
    """
    try:
        descriptor = os.open(path, getattr(os, "O_PATH", os.O_RDONLY))  # O_PATH: Linux only
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        return _mounted_device(descriptor) or found.st_dev, found.st_ino
    finally:
        os.close(descriptor)


def _mounted_device(descriptor: int) -> int | None:
    """The device of the mount that an open file is in; None if the system doesn't say."""
    with suppress(OSError):
        facts = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
        for line in MOUNTS.read_text().splitlines():
            number, _, device, *_ = line.split()  # 27 1 254:0 / /home rw,relatime - ext4 /dev/vda rw
            if number == facts.get("mnt_id", "").strip():
                major, minor = map(int, device.split(":"))
                return os.makedev(major, minor)
    return None


def remove_tree(path: Path) -> None:
    """Remove a file or folder that may be gone already. Raises FileError."""
    with os_errors(path), suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            remove([path])


def sweep(folder: Path) -> list[str]:
    """Remove the temporary files that killed processes left in this folder, if there is one; returns their names."""
    removed: list[str] = []
    with suppress(OSError):
        for name in filter(is_left_over, os.listdir(folder)):
            with suppress(FileError):
                remove_tree(folder / name)
                removed.append(name)
    return removed


def is_left_over(name: str) -> bool:
    """Whether this is the name of a temporary file that a killed process left.

    That is so if its process was one of this host and has ended, or if the time in the name is more than a day ago. A
    write takes minutes at most, and a process of another host or a former container can't be checked, nor can one
    whose number has been reused.
    """
    temporary = layout.parse_temporary_name(name)
    if temporary is None:
        return False
    if temporary.host == layout.this_host():
        try:
            os.kill(temporary.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
    return datetime.now(UTC) - temporary.time > LONGEST_WRITE
