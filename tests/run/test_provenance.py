"""provenance: the commit of this program, and of no other repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipeline.run import provenance


def test_the_commit_is_none_of_a_repository_that_the_program_only_lies_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    module = tmp_path / "unpacked" / "provenance.py"
    module.parent.mkdir()
    module.touch()
    monkeypatch.setattr(provenance, "__file__", str(module))
    assert provenance.source_commit() is None
    git("init")
    git("commit", "--allow-empty", "-m", "another's")
    assert provenance.source_commit() is None
    git("add", "unpacked")
    git("commit", "-m", "its own")
    assert provenance.source_commit() == git("rev-parse", "HEAD")
    module.write_text("changed")
    assert provenance.source_commit() == git("rev-parse", "HEAD") + "-changed"
