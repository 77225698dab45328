"""rl_loop.sh and setup.sh: the set-up, and what the loop is called with. tests/loop has the loop itself.

A scripted stand-in takes the place of Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

# Stands in for Python. `python -c …` is really run; `python main.py loop --extras …` prints the plan's extras;
# `python main.py loop …` is noted and does what plan.json says: a list of exit codes (0 when used up), or "hang": wait
# for a signal. `python -m venv DIR` makes DIR with a copy of itself; `python -m pip install` is noted, with exit codes
# from the plan. "newer" in the plan: it finds nothing that was installed, as after an update of the system's Python.
STAND_IN = f"""#!{sys.executable}
import json, os, shutil, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "-c":
    plan = json.loads((Path(os.environ["STAND_IN_HOME"]) / "plan.json").read_text())
    if plan.get("newer") and "typer" in words[1]:
        sys.exit(1)
    os.execv({sys.executable!r}, [{sys.executable!r}, *words])
home = Path(os.environ["STAND_IN_HOME"])
def note(text):
    with open(home / "notes", "a") as notes:
        notes.write(text + "\\n")
plan = json.loads((home / "plan.json").read_text())
def planned(name):
    codes = plan.get(name, [])
    if not codes:
        return 0
    code = codes.pop(0)
    rest = home / f"plan.{{os.getpid()}}"  # renamed into place: another stand-in may be reading
    rest.write_text(json.dumps(plan))
    rest.rename(home / "plan.json")
    return code
if words[0] == "-m":
    if words[1] == "venv":
        note("venv")
        folder = Path(words[-1])
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        shutil.copy(__file__, folder / "bin/python")
    elif words[1:3] == ["pip", "--version"]:
        sys.exit(bool(plan.get("newer")))
    elif words[1:3] == ["pip", "install"]:
        note("install")
        time.sleep(plan.get("install_seconds", 0))
        sys.exit(planned("install"))
    sys.exit(0)
assert words[1] == "loop", words
if words[2:3] == ["--extras"]:
    code = planned("extras")
    if not code:
        print(plan.get("needs", ""))
    sys.exit(code)
note("loop")
(home / "given").write_text(json.dumps(words[2:]))
def stopped(number, frame):
    note("stopped")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, stopped)
signal.signal(signal.SIGINT, stopped)
code = planned("loop")
if code == "hang":
    note("hanging")
    while True:
        time.sleep(0.05)
sys.exit(code)
"""


class Loop:
    """A folder to run the script in, with the stand-in's plan and notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "stand-in"
        self.python.write_text(STAND_IN)
        self.python.chmod(0o755)
        self.script = ROOT / "rl_loop.sh"
        self.env = {**os.environ, "MUGO_PYTHON": str(self.python), "STAND_IN_HOME": str(folder)}
        self.started: list[subprocess.Popen[str]] = []
        self.plan()

    def plan(self, **codes: list[int | str] | float | str) -> None:
        (self.folder / "plan.json").write_text(json.dumps(codes))

    def start(self, *options: str, **how: Any) -> subprocess.Popen[str]:
        """how: as for Popen."""
        process = subprocess.Popen(
            [str(self.script), *options], cwd=self.folder,
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *options: str) -> tuple[int, str]:
        """Exit code and stderr."""
        process = self.start(*options)
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def given(self) -> list[str]:
        """What the loop was called with."""
        found: list[str] = json.loads((self.folder / "given").read_text())
        return found

    def forget(self) -> None:
        (self.folder / "notes").unlink()

    def wait_for(self, note: str) -> None:
        deadline = time.monotonic() + 30
        while note not in self.notes():
            assert time.monotonic() < deadline, f"{note!r} didn't come; notes: {self.notes()}"
            time.sleep(0.02)


@pytest.fixture
def loop(tmp_path: Path):  # type: ignore[no-untyped-def]
    loop = Loop(tmp_path)
    yield loop
    for process in loop.started:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=30)


def test_help_needs_no_environment(loop: Loop) -> None:
    for option in ("--help", "-h"):
        helped = subprocess.run([str(loop.script), option], capture_output=True, text=True, env=loop.env)
        assert helped.returncode == 0 and "--generations" in helped.stdout
    assert loop.notes() == []


def test_the_loop_gets_all_options_and_the_scripts_own_folder_unless_told_another(loop: Loop) -> None:
    options = ["--preset", "a preset.yaml", "--directory", "runs/a b", "--overlap"]
    assert loop.run(*options)[0] == 0
    assert loop.given() == ["--directory", str(ROOT), *options]  # the last one counts


def test_wrong_usage_is_found_before_the_loop_starts(loop: Loop) -> None:
    loop.plan(extras=[2])
    assert loop.run("--generatoins", "3")[0] == 2
    assert loop.notes() == []


@pytest.mark.parametrize("code", [1, 3, 75])
def test_the_loops_exit_code_is_the_scripts(loop: Loop, code: int) -> None:
    loop.plan(loop=[code])
    assert loop.run()[0] == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_loop(loop: Loop, number: signal.Signals) -> None:
    loop.plan(loop=["hang"])
    process = loop.start()
    loop.wait_for("hanging")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number and loop.notes()[-1] == "stopped"


def test_a_python_that_cannot_run_is_named(loop: Loop) -> None:
    loop.env["MUGO_PYTHON"] = str(loop.folder / "no-python")
    code, said = loop.run()
    assert code == 1 and "MUGO_PYTHON" in said and "no-python" in said


def test_scripts_keep_to_what_the_bash_of_macos_knows() -> None:
    """That is 3.2: no index from the end, and an empty array counts as unset."""
    for path in ROOT.glob("*.sh"):
        text = path.read_text()
        assert not re.search(r"\[-\d+\]\}", text), path
        assert not re.search(r'(?<!\+)"\$\{\w+\[@\]\}"', text), path
        assert not re.search(r"\b(mapfile|readarray|coproc|declare -A|local -n|wait -n)\b|\$\{\w+(,,|\^\^)", text), path


class SetUp(Loop):
    """A fresh clone, with a stand-in for python3 on the path and no environment of one's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clone = folder / "clone"
        self.clone.mkdir()
        for name in ("rl_loop.sh", "setup.sh", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.clone)
        self.script = self.clone / "rl_loop.sh"
        (folder / "bin").mkdir()
        self.python = self.python.rename(folder / "bin" / "python3")
        self.env = {**self.env, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        del self.env["MUGO_PYTHON"]


@pytest.fixture
def fresh(tmp_path: Path) -> SetUp:
    return SetUp(tmp_path)


def test_set_up_is_made_once(fresh: SetUp) -> None:
    assert fresh.run()[0] == 0
    assert fresh.notes() == ["venv", "install", "loop"]
    fresh.forget()
    assert fresh.run()[0] == 0
    assert fresh.notes() == ["loop"]


def test_set_up_is_renewed_when_the_pins_change(fresh: SetUp) -> None:
    fresh.run()
    with open(fresh.clone / "constraints.txt", "a") as constraints:
        constraints.write("# newer\n")
    fresh.forget()
    assert fresh.run()[0] == 0
    assert fresh.notes() == ["install", "loop"]


def test_a_newer_python_of_the_system_gets_an_environment_of_its_own(fresh: SetUp) -> None:
    fresh.run()
    fresh.forget()
    fresh.plan(newer=True)
    assert fresh.run()[0] == 0
    assert fresh.notes() == ["venv", "install", "loop"]


def test_the_tests_add_what_only_they_need(fresh: SetUp) -> None:
    """What tests compare with needn't be on a user's machine; what they have installed serves the loop too."""
    installing = 'source ./setup.sh; set_up "$0"'
    for extras, installs in (("fast", True), ("fast,test", True), ("fast", False), ("fast,test", False)):
        before = fresh.notes().count("install")
        subprocess.run(["bash", "-c", installing, extras], cwd=fresh.clone, env=fresh.env, check=True, timeout=60)
        assert fresh.notes().count("install") == before + installs, extras


def test_a_run_adds_the_extras_that_it_needs(fresh: SetUp) -> None:
    for needs, extras, missing in (
        ("", "fast", "what constraints.txt pins (1.6 GB, "),
        ("text", "fast,text", "what it lacks: text\n"),
        ("cloud,ray,text", "fast,cloud,ray,text", "what it lacks: cloud, ray\n"),
    ):
        fresh.plan(needs=needs)
        code, said = fresh.run()
        assert code == 0 and f"installing into .venv {missing}" in said
        assert (fresh.clone / ".venv/set-up").read_text().split()[-1] == extras


def test_half_made_environment_is_recovered(fresh: SetUp) -> None:
    broken = fresh.clone / ".venv" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert fresh.run()[0] == 0
    assert fresh.notes() == ["venv", "install", "loop"]


def test_failed_installation_is_tried_again(fresh: SetUp) -> None:
    fresh.plan(install=[1])
    code, said = fresh.run()
    assert code == 1 and "installation failed" in said
    assert fresh.notes() == ["venv", "install"]
    assert fresh.run()[0] == 0
    assert fresh.notes()[2:] == ["install", "loop"]


def test_of_two_first_runs_at_once_one_installs(fresh: SetUp) -> None:
    fresh.plan(install_seconds=1)
    both = [fresh.start("--directory", one) for one in "ab"]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [fresh.notes().count(what) for what in ("venv", "install", "loop")] == [1, 1, 2]
    assert sum("waiting" in text for text in said) == 1


def test_a_first_run_that_is_killed_leaves_no_lock(fresh: SetUp) -> None:
    fresh.plan(install_seconds=3)  # longer than the next loop needs to start
    first = fresh.start()
    fresh.wait_for("install")
    first.kill()
    first.wait(timeout=30)
    code, said = fresh.run()
    assert code == 0 and "waiting" in said  # for what it was installing
    assert fresh.notes() == ["venv", "install", "install", "loop"]


def test_too_old_python_is_named(fresh: SetUp) -> None:
    fresh.python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit\nexit 1\n')
    fresh.env["PATH"] = str(fresh.python.parent)
    for tool in ("bash", "env", "dirname", "basename", "cat", "cksum", "date"):
        (fresh.python.parent / tool).symlink_to(shutil.which(tool) or tool)
    code, said = fresh.run()
    assert code == 1 and "Python 3.9.2" in said and "3.11" in said


def test_ctrl_c_waits_for_what_takes_milliseconds() -> None:
    """A terminal sends it to every process of the job, and Python that is starting answers with a traceback."""
    code = "import os, signal; os.killpg(0, signal.SIGINT); print('done')"
    script = f'source {ROOT}/setup.sh; say begun; at_once {sys.executable} -c "$0"; say never'
    done = subprocess.run(["bash", "-c", script, code], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (130, "done\n")
    assert "Traceback" not in done.stderr and "stopped" in done.stderr and "never" not in done.stderr
