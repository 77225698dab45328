"""play.sh: which model it plays, what it passes on, wrong options. A stand-in takes the place of Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Prints what it was called with; with the word 8001 among it, waits for SIGTERM.
STAND_IN = f"""#!{sys.executable}
import signal, sys, time
print(*sys.argv[1:], flush=True)
if "8001" in sys.argv:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    print("waiting", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A repository with the scripts alone, and a stand-in."""
    for name in ("play.sh", "setup.sh"):
        shutil.copy(ROOT / name, tmp_path)
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    return tmp_path


def start(home: Path, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "MUGO_PYTHON": str(home / "stand-in")}
    return subprocess.Popen(
        [str(home / "play.sh"), *options],
        env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(home: Path, *options: str) -> tuple[int, str, str]:
    """Exit code, what was printed, what was said."""
    process = start(home, *options)
    printed, said = process.communicate(timeout=60)
    return process.returncode, printed.strip(), said.strip()


def test_serve_chooses_the_models_unless_one_is_named(home: Path) -> None:
    (home / "pretrained" / "go9").mkdir(parents=True)
    assert run(home) == (0, "main.py serve", "")
    one = f"--model {home}/pretrained/go9"
    assert run(home, "--model", "pretrained/go9")[1] == f"main.py serve {one}"
    assert run(home, "--model=pretrained/go9", "--model", "pretrained/go9")[1] == f"main.py serve {one} {one}"


def test_options_are_passed_on(home: Path) -> None:
    options = ["--port", "9000", "--no-browser", "--host", "0.0.0.0"]
    assert run(home, *options)[1] == f"main.py serve {' '.join(options)}"


def test_help_says_all_options(home: Path) -> None:
    code, printed, _ = run(home, "--help")
    assert code == 0 and printed.startswith("usage: ./play.sh")
    for option in ("--model", "--port", "--host", "--no-browser"):
        assert f"  {option}" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fast"], "unknown option '--fast'"),
        (["--port"], "--port needs a value"),
        (["--port", "http"], "--port: found 'http'; wanted a number, e.g. 8000"),
        (["--model"], "--model needs a value"),
        (["--model="], "--model needs a value"),
        (["--model", "nowhere"], "no directory"),
    ],
)
def test_wrong_options_exit_2_and_are_named(home: Path, options: list[str], said: str) -> None:
    code, printed, problem = run(home, *options)
    assert code == 2 and printed == ""
    assert problem.startswith("play.sh: ") and said in problem


def test_ctrl_c_ends_the_server(home: Path) -> None:
    process = start(home, "--port", "8001")
    assert process.stdout is not None
    assert "waiting" in map(str.strip, process.stdout)  # read up to that line
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped; the games on the page have ended with it" in said
