"""Where caches go if there is no home that can be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import caches, compiled_kernels


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files of a user without a home."""
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    caches._folder.cache_clear()
    compiled_kernels._root.cache_clear()
    yield tmp_path / "temporary"
    caches._folder.cache_clear()
    compiled_kernels._root.cache_clear()


def test_without_a_home_caches_are_temporary(homeless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = caches.cache_folder()
    assert folder == homeless / f"mugo-cache-{os.getuid()}" / "mugo" and folder.parent.stat().st_mode & 0o777 == 0o700
    assert caches.cache_folder() == folder
    assert os.environ["XDG_CACHE_HOME"] == str(folder.parent)  # for workers
    (line,) = capsys.readouterr().err.splitlines()
    assert "set XDG_CACHE_HOME" in line and str(folder) in line
    assert line.startswith(f"mugo: {os.environ['HOME']}/.cache can't be written, so compiled kernels")


def test_a_user_whom_the_system_does_not_know(
    homeless: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert caches.cache_folder().is_relative_to(homeless)
    assert capsys.readouterr().err.startswith("mugo: this user has no home folder, so compiled kernels")


def test_kernels_are_cached_there_too(
    homeless: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", os.environ["HOME"])
    assert compiled_kernels._root() == caches.cache_folder() / "kernels"
    assert "NUMBA_CACHE_DIR=" in capsys.readouterr().err
    assert compiled_kernels._Locator.from_function(caches.cache_folder, "") is not None


def test_a_folder_that_others_may_write_is_not_trusted(homeless: Path) -> None:
    planted = homeless / f"mugo-cache-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert not caches.cache_folder().is_relative_to(planted)
