"""The tests of the core in a copy of the tree without some families, as if somebody had deleted their folders.

    python -m tests.without                        # without shogi, backgammon and text: all tests of the core
    python -m tests.without shogi tests/play       # without shogi: these alone

test_structure.py runs a part of them each time. Exit code: pytest's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DELETED = ("shogi", "backgammon", "text")
ABOUT_ALL = (  # tests that compare the docs with all families
    "tests/test_pretrained.py::test_they_are_those_that_the_docs_name",
    "tests/test_cli.py::test_every_command_line_in_the_docs_parses",
)


def copy_without(families: Sequence[str], folder: Path) -> Path:
    """A copy of the tree in which these families' folders, tests and models are deleted."""
    copy = folder / "tree"
    for name in ("pipeline", "tests", "benchmarks", "docs", "deploy", "examples"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy2(path, copy)
    (copy / "pretrained").mkdir()
    for model in (ROOT / "pretrained").iterdir():
        if not model.name.startswith(tuple(families)):
            (copy / "pretrained" / model.name).symlink_to(model)
    for name in ("pipeline", "tests"):
        for family in families:
            shutil.rmtree(copy / name / "families" / family)
    return copy


def environment_of(copy: Path) -> dict[str, str]:
    """In which Python finds the modules of a copy first."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    environment.pop("PYTEST_CURRENT_TEST", None)
    return environment


def main(words: Sequence[str]) -> int:
    families = [word for word in words if word in DELETED] or DELETED
    chosen = [word for word in words if word not in DELETED] or ["tests", "--ignore", "tests/families"]
    with tempfile.TemporaryDirectory(prefix="mugo-without-") as made:
        copy = copy_without(families, Path(made))
        left_out = [word for test in ABOUT_ALL for word in ("--deselect", test)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out, *chosen]
        return subprocess.run(command, cwd=copy, env=environment_of(copy)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
