"""For tests of packages of their own: installed from a folder, beside this program instead of into its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.workshop import Workshop

ROOT = Path(__file__).parent.parent


def install(source: Path, target: Path) -> None:
    """Install the package in this folder into target, a folder for sys.path; source gets files of the build."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class Site:
    """A folder for sys.path with packages in it, and the program beside them. Use it as a context.

    On Linux its commands are forked from a process that has imported all but these packages, which takes a tenth of the
    time; fork=False makes each a process of its own, as everywhere else.
    """

    def __init__(self, folder: Path, workshop: Path) -> None:
        """workshop: a folder for its own things."""
        self._environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "MUGO_PYTHON": sys.executable}
        self._open = ExitStack()
        self._workshop = None
        if sys.platform == "linux":
            self._workshop = self._open.enter_context(Workshop(workshop, **self._environment))

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def run(
        self, folder: Path, *command: str, code: int = 0, text: str = "", fork: bool = True, **environment: str
    ) -> str:
        """What a command says in this folder.

        command: main.py's where it names no program's path. text: for standard input.
        """
        is_path = command[0].startswith("/")
        if self._workshop is not None and fork and not is_path:
            done = self._workshop.run(command, folder, environment=environment, text=text)
            assert done.code == code, done.said
            return done.said
        known = {**os.environ, **self._environment, **environment}
        if self._workshop is not None and fork:
            known.update(self._workshop.loop_environment())  # what rl_loop.sh runs is forked, too
        program = command if is_path else [sys.executable, str(ROOT / "main.py"), *command]
        ended = subprocess.run(program, cwd=folder, env=known, input=text, capture_output=True, text=True)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr
