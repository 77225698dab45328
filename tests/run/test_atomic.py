from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from pipeline.errors import FileError
from pipeline.run import atomic, layout


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def fail_with(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic.write_text(path, "old and longer")
    atomic.write_json(path, {"b": [1, "é"]})
    assert path.read_text() == '{"b": [1, "é"]}\n'
    assert atomic.read_json(path, "x") == {"b": [1, "é"]}
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("function", ["write", "fsync"])
@pytest.mark.parametrize(
    ("number", "text"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission denied")],
)
def test_a_failed_write_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, text: str
) -> None:
    path = tmp_path / "a.bin"
    atomic.write_bytes(path, b"old")
    with monkeypatch.context() as patch:
        fail_with(patch, function, number)
        with pytest.raises(FileError, match=f"^{path}: .*{text}") as caught:
            atomic.write_bytes(path, b"new" * 1000)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a.bin"]


def test_a_disk_that_takes_a_part_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:7]))
    atomic.write_bytes(tmp_path / "a", bytes(range(100)))
    assert (tmp_path / "a").read_bytes() == bytes(range(100))


def test_a_file_size_limit_is_one_line(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from pipeline.run import atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: atomic.write_bytes(Path(sys.argv[1]), b'x' * 5000)\n"
        "except atomic.FileError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1 and "largest size" in done.stdout and names(tmp_path) == []


def test_the_content_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "rename", lambda a, b: (calls.append("rename"), rename(a, b)))
    atomic.write_bytes(tmp_path / "a", b"x")
    assert calls == ["fsync", "rename", "fsync"]


def test_new_directory_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "model"
    with atomic.new_directory(path) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("a")
        assert not path.exists()
    assert (path / "inner" / "a").read_text() == "a" and names(path.parent) == ["model"]


def test_new_directory_of_a_failed_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), atomic.new_directory(tmp_path / "model") as folder:
        (folder / "a").write_text("a")
        raise RuntimeError("mine")
    with pytest.raises(FileError, match="disk is full"), atomic.new_directory(tmp_path / "model"):
        raise OSError(errno.ENOSPC, "")
    assert names(tmp_path) == []


def test_new_directory_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(FileError, match="exists already"), atomic.new_directory(tmp_path / "model"):
        pytest.fail("the block ran")
    with pytest.raises(FileError, match="exists already"), atomic.new_directory(tmp_path / "late"):
        (tmp_path / "late").mkdir()  # another process was faster
    assert names(tmp_path) == ["late", "model"]


def test_replace_symlink(tmp_path: Path) -> None:
    link = tmp_path / "best"
    for target in ("one", "two"):
        atomic.replace_symlink(link, target)
        assert os.readlink(link) == target
    assert names(tmp_path) == ["best"]
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileError, match="no symlink"):
        atomic.replace_symlink(tmp_path / "file", "one")
    assert (tmp_path / "file").read_text() == "precious"


def test_append_line_starts_after_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    atomic.append_line(path, "one")
    with path.open("a") as file:
        file.write("tor")
    atomic.append_line(path, "two")
    assert path.read_text() == "one\ntor\ntwo\n"


def test_append_line_takes_back_what_a_full_disk_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    atomic.append_line(path, "one")
    with monkeypatch.context() as patch:
        fail_with(patch, "fsync", errno.ENOSPC)
        with pytest.raises(FileError, match="disk is full"):
            atomic.append_line(path, "two")
    assert path.read_text() == "one\n"


def test_append_line_keeps_a_line_that_is_whole_when_a_signal_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    atomic.append_line(path, "one")
    for call, rest in (("write", "one\n"), ("fsync", "one\ntwo\n")):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                atomic.append_line(path, "two")
        assert path.read_text() == rest


def hold_lock(path: Path, held: multiprocessing.Event) -> None:  # type: ignore[valid-type]
    with atomic.file_lock(path):
        held.set()  # type: ignore[attr-defined]
        time.sleep(60)


def test_a_lock_excludes_and_ends_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held = context.Event()
    process = context.Process(target=hold_lock, args=(tmp_path / "x", held))
    process.start()
    assert held.wait(20)
    with pytest.raises(atomic.Busy, match="another process"), atomic.file_lock(tmp_path / "x", wait=False):
        pytest.fail("both hold it")
    waited: list[bool] = []

    def kill() -> None:
        waited.append(True)
        os.kill(process.pid or 0, signal.SIGKILL)

    with atomic.file_lock(tmp_path / "x", on_wait=kill):
        assert waited == [True]
    process.join()
    with atomic.file_lock(tmp_path / "x", wait=False):
        pass


def test_a_lock_whose_file_its_holder_removed_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder of a lock may remove it together with its folder: a process that waited for it must not then hold a
    deleted file."""
    path, flock = tmp_path / "folder" / "x", fcntl.flock

    def after_removal(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        shutil.rmtree(path.parent)
        flock(descriptor, operation)

    path.parent.mkdir()
    monkeypatch.setattr(fcntl, "flock", after_removal)
    with atomic.file_lock(path):
        assert layout.lock_path(path).exists()
        with pytest.raises(atomic.Busy, match="another process"), atomic.file_lock(path, wait=False):
            pytest.fail("both hold it")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists the locks held")
def test_a_lock_is_known_by_the_device_of_its_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On btrfs stat says another one."""
    with atomic.file_lock(tmp_path / "a"):
        lock = tmp_path / ".a.lock"
        assert atomic.lock_id(lock) in (atomic.held_locks() or ())
        found = lock.stat()
        device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
        monkeypatch.setattr(atomic, "LOCKS", tmp_path / "locks")
        (tmp_path / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 7 00:1e:{found.st_ino} 0 EOF\n")
        assert atomic.lock_id(lock) not in (atomic.held_locks() or ())
        mounts = atomic.MOUNTS.read_text().replace(f" {device} ", " 0:30 ")
        monkeypatch.setattr(atomic, "MOUNTS", tmp_path / "mounts")
        (tmp_path / "mounts").write_text(mounts)
        assert atomic.lock_id(lock) in (atomic.held_locks() or ())
        (tmp_path / "mounts").write_text("")
        assert atomic.lock_id(lock) == (found.st_dev, found.st_ino)
    assert atomic.lock_id(tmp_path / "none") is None


def test_sweep_removes_only_what_the_dead_left(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = layout.this_host()
    now = datetime.now(UTC)
    recently, days_ago, ahead = (f"{now - timedelta(hours=hours):{layout.SECOND_FORMAT}}" for hours in (23, 25, -99))
    leftovers = [
        f".a.gz~{host}~{dead.pid}~{recently}~0123abcd.tmp",
        f".model~{host}~{dead.pid}~{recently}~0123abcd.tmp",
        f".a.gz~elsewhere~{os.getpid()}~{days_ago}~0123abcd.tmp",
        f".b.gz~{host}~{os.getpid()}~{days_ago}~0123abcd.tmp",  # its number is another process's now
        f".c.gz~{host}~{dead.pid}~{recently}~0123abcd.tmp",
    ]
    kept = [
        f".a.gz~{host}~{os.getpid()}~{recently}~0123abcd.tmp",
        f".a.gz~elsewhere-{host}~{dead.pid}~{recently}~0123abcd.tmp",
        f".a.gz~elsewhere~{dead.pid}~{recently}~0123abcd.tmp",
        f".a.gz~elsewhere~{dead.pid}~{ahead}~0123abcd.tmp",
        f".a.gz~elsewhere~{dead.pid}~20269999T999999~0123abcd.tmp",
        layout.temporary_path(Path("a.gz")).name,
        "a.gz",
        "b.tmp",
    ]
    for name in (leftovers[0], *leftovers[2:], *kept):
        (tmp_path / name).write_text("x")
    (tmp_path / leftovers[1]).mkdir()
    (tmp_path / leftovers[1] / "weights").write_text("x")
    assert sorted(atomic.sweep(tmp_path)) == sorted(leftovers)
    assert names(tmp_path) == sorted(kept)
    assert atomic.sweep(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("content", "problem"), [(b"{", "not readable as JSON"), (b"[1]", "JSON list"), (b"\xff", "JSON")]
)
def test_read_json_of_damaged_files(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FileError, match=problem) as caught:
        atomic.read_json(tmp_path / "a", "a sidecar")
    assert "wanted a sidecar" in str(caught.value)


def test_read_bytes_of_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file; wanted a shard"):
        atomic.read_bytes(tmp_path / "a", "a shard")
    with pytest.raises(FileError, match="directory; wanted a shard"):
        atomic.read_bytes(tmp_path, "a shard")


def test_make_folder_where_a_file_stands(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(FileError, match="wanted a directory"):
        atomic.make_folder(tmp_path / "a")
    with pytest.raises(FileError, match="is a file"):
        atomic.make_folder(tmp_path / "a" / "b")


@pytest.mark.parametrize("text", ["{}", '{"a": [1, -2.5, 1e300, null, "\\u00e9", {"b": 18446744073709551616}]}'])
def test_json_is_loaded(text: str) -> None:
    assert atomic.load_json(text) == atomic.load_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NaN", "NaN"),
        ('{"a": [-Infinity]}', "-Infinity"),
        ("1e999", "no finite float64"),
        ("-1e999", "no finite float64"),
        ("1" + "0" * 400, "401 digits"),
        ("9" * 5000, "5000 digits"),
        ("[" * 65 + "]" * 65, "too deeply"),
        ('{"a":' * 65 + "1" + "}" * 65, "too deeply"),
        ("[" * 10_000 + "]" * 10_000, "too deeply"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' appears twice"),
        ('"\\ud800"', "surrogate"),
        ('{"\\u0000": 1}', "NUL"),
        ("", "Expecting value"),
        ("{} x", "Extra data"),
    ],
)
def test_json_that_nobody_can_work_with(text: str, problem: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(ValueError, match=problem):
            atomic.load_json(data)
    with pytest.raises(ValueError, match="utf-8"):
        atomic.load_json(b'"\xff"')


def test_a_backslash_before_u0000_is_text() -> None:
    assert atomic.load_json(r'["\\u0000 \\\\u0000"]') == ["\\u0000 \\\\u0000"]
    with pytest.raises(ValueError, match="NUL"):
        atomic.load_json(r'"\\\u0000"')


def test_what_is_no_file_to_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="no regular file; wanted a thing"):
        atomic.read_bytes(tmp_path / "pipe", "a thing")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_named(tmp_path, monkeypatch, code):
    def flock(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    with pytest.raises(FileError, match="this disk gives no locks"), atomic.file_lock(tmp_path / "a"):
        pass
