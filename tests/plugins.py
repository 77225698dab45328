"""For tests of packages of their own: installed from a folder, beside this program instead of into its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def install(source: Path, target: Path) -> None:
    """Install the package in this folder into target, a folder for sys.path; source gets files of the build."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def run(site: Path, folder: Path, *command: str, code: int = 0, text: str | None = None, **environment: str) -> str:
    """What a command says in this folder where the packages in site are installed.

    command: main.py's where it names no program's path. text: for standard input.
    """
    known = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "MUGO_PYTHON": sys.executable, **environment}
    program = command if command[0].startswith("/") else [sys.executable, str(ROOT / "main.py"), *command]
    done = subprocess.run(program, cwd=folder, env=known, input=text, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
