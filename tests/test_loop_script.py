"""rl_loop.sh and setup.sh: the order of commands, exit codes, signals, locking and the set-up.

Here a scripted stand-in takes the place of Python; tests/test_loop.py runs the real commands.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PASS = ["evaluate", "selfplay --top-up", "gather", "train"]
FIRST_PASS = PASS[1:]  # the first model has nobody to meet

# Stands in for Python. `python -c …` is really run; `python main.py COMMAND …` is noted and does what plan.json says:
# a list of exit codes per command (0 when used up), or "hang": wait for SIGTERM, note it, exit 143.
# `python -m venv DIR` makes DIR with a copy of itself; `python -m pip install` is noted, with exit codes from the plan.
STAND_IN = f"""#!{sys.executable}
import json, os, shutil, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "-c":
    os.execv({sys.executable!r}, [{sys.executable!r}, *words])
home = Path(os.environ["STAND_IN_HOME"])
def note(text):
    with open(home / "notes", "a") as notes:
        notes.write(text + "\\n")
plan = json.loads((home / "plan.json").read_text())
def planned(name):
    codes = plan.get(name, [])
    code = codes.pop(0) if codes else 0
    (home / "plan.json").write_text(json.dumps(plan))
    return code
if words[0] == "-m":
    if words[1] == "venv":
        note("venv")
        folder = Path(words[-1])
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        shutil.copy(__file__, folder / "bin/python")
    elif words[1:3] == ["pip", "install"]:
        note("install")
        sys.exit(planned("install"))
    sys.exit(0)
command = words[1]
if command == "presets":
    sys.exit(planned(command))
note(command + (" --top-up" if "--top-up" in words else ""))
if "--time-share" in words:
    with open(home / "shares", "a") as shares:
        shares.write(f"{{command}} {{words[words.index('--time-share') + 1]}}\\n")
time.sleep(plan.get("seconds", 0))
def stopped(number, frame):
    note(command + " stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
code = planned(command)
if code == "hang":
    note("hanging")
    while True:
        time.sleep(0.05)
models = Path("saved_models")
if command == "init":
    (models / "000000-init").mkdir(parents=True)
    (models / "best_model").symlink_to("000000-init")
if command == "train" and code == 0:
    newest = max(int(path.name[:6]) for path in models.glob("0*"))
    (models / f"{{newest + 1:06d}}-x").mkdir()
sys.exit(code)
"""


class Loop:
    """A folder to run the loop in, with the stand-in's plan and notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "stand-in"
        self.python.write_text(STAND_IN)
        self.python.chmod(0o755)
        self.script = ROOT / "rl_loop.sh"
        self.env = {**os.environ, "MUGO_PYTHON": str(self.python), "STAND_IN_HOME": str(folder)}
        self.started: list[subprocess.Popen[str]] = []
        self.plan()

    def plan(self, **codes: list[int | str]) -> None:
        (self.folder / "plan.json").write_text(json.dumps(codes))

    def start(self, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(self.script), "--directory", str(self.folder / "run"), *options],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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


def test_help_and_wrong_usage(loop: Loop) -> None:
    helped = subprocess.run([str(loop.script), "--help"], capture_output=True, text=True, env=loop.env)
    assert helped.returncode == 0 and "--generations" in helped.stdout
    for options, named in [
        (["--generatoins", "3"], "--generatoins"),
        (["--generations", "three"], "three"),
        (["--generations"], "--generations"),
        (["--generations", "-1"], "-1"),
        (["--minutes", "0"], "--minutes: found '0'"),
        (["--minutes", "soon"], "soon"),
    ]:
        code, said = loop.run(*options)
        assert code == 2 and named in said
    assert loop.notes() == []


def test_order_of_commands(loop: Loop) -> None:
    loop.plan(evaluate=[75])
    code, said = loop.run("--generations", "2")
    assert code == 0, said
    assert loop.notes() == ["init", *FIRST_PASS, *PASS, "evaluate", "show"]
    assert "generation 0: evaluate" not in said


def test_finished_run_only_sums_up_and_a_larger_number_goes_on(loop: Loop) -> None:
    loop.run("--generations", "1")
    loop.forget()
    assert loop.run("--generations", "1")[0] == 0
    assert loop.notes() == ["evaluate", "show"]
    loop.forget()
    assert loop.run("--generations", "2")[0] == 0
    assert loop.notes() == [*PASS, "evaluate", "show"]


def test_a_newest_model_whose_match_is_over_is_not_evaluated_again(loop: Loop) -> None:
    loop.run("--generations", "1")
    match = loop.folder / "run/data/evaluate/000001-x-vs-000000-init"
    match.mkdir(parents=True)
    for summary, notes in (
        ('{"passed": false}', ["show"]),
        ('{"passed": true, "promotion_pending": true}', ["evaluate", "show"]),  # cut off: it must be made
    ):
        (match / "summary.json").write_text(summary)
        loop.forget()
        code, said = loop.run("--generations", "1")
        assert code == 0 and loop.notes() == notes, said
    champion = loop.folder / "run/saved_models/best_model"
    champion.unlink()
    champion.symlink_to("000001-x")
    (match / "summary.json").write_text('{"passed": true, "promoted": true}')
    loop.forget()
    assert loop.run("--generations", "1")[0] == 0 and loop.notes() == ["show"]


def test_a_preset_that_wants_minutes_is_refused_before_anything_is_done(loop: Loop) -> None:
    loop.plan(presets=[2])
    code, _ = loop.run("--generations", "1")
    assert code == 2 and loop.notes() == []
    assert loop.run("--minutes", "0.01")[0] == 0  # isn't asked


def test_too_few_positions_means_more_games(loop: Loop) -> None:
    loop.plan(gather=[75, 75, 0])
    assert loop.run("--generations", "1")[0] == 0
    assert loop.notes()[1:7] == ["selfplay --top-up", "gather", "selfplay", "gather", "selfplay", "gather"]


def test_selfplay_goes_on_while_training_may_not(loop: Loop) -> None:
    loop.plan(train=[75, 0])
    assert loop.run("--generations", "1")[0] == 0
    assert loop.notes()[1:7] == ["selfplay --top-up", "gather", "train", "selfplay", "gather", "train"]


@pytest.mark.parametrize("command", ["init", "evaluate", "selfplay", "gather", "train"])
def test_failure_stops_the_loop_with_its_code(loop: Loop, command: str) -> None:
    loop.plan(**{command: [3]})
    code, said = loop.run("--generations", "1")
    assert code == 3 and f"{command} failed" in said
    assert loop.notes()[-1].split()[0] == command


def test_second_copy_exits_at_once_saying_why(loop: Loop) -> None:
    loop.plan(selfplay=["hang"])
    first = loop.start("--generations", "1")
    loop.wait_for("hanging")
    before = loop.notes()
    code, said = loop.run("--generations", "1")
    assert code == 75 and str(first.pid) in said and "another copy" in said
    assert loop.notes() == before and first.poll() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["selfplay", "train"])
def test_signal_reaches_the_command_and_a_rerun_goes_on(
    loop: Loop, number: signal.Signals, code: int, command: str
) -> None:
    loop.plan(**{command: ["hang"]})
    process = loop.start("--generations", "1")
    loop.wait_for("hanging")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == code
    assert loop.notes()[-1] == f"{command} stopped"
    loop.forget()
    assert loop.run("--generations", "1")[0] == 0
    assert loop.notes() == [*FIRST_PASS, "evaluate", "show"]


def test_command_left_by_a_killed_loop_is_stopped_by_the_next(loop: Loop) -> None:
    loop.plan(train=["hang"])
    process = loop.start("--generations", "1")
    loop.wait_for("hanging")
    process.kill()
    process.wait(timeout=30)
    code, said = loop.run("--generations", "1")
    assert code == 0 and "was killed" in said
    notes = loop.notes()
    assert notes[notes.index("hanging") + 1 :] == ["train stopped", *FIRST_PASS, "evaluate", "show"]


def test_zero_generations_go_on_until_stopped(loop: Loop) -> None:
    loop.plan(gather=[0, 0, 0, "hang"])
    process = loop.start("--generations", "0")
    loop.wait_for("hanging")
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143 and loop.notes().count("train") == 3


def shares(loop: Loop) -> list[float]:
    """The shares of time that the commands were given; the file is forgotten."""
    path = loop.folder / "shares"
    lines = [line.split() for line in path.read_text().splitlines()]
    path.unlink()
    commands = [command for command, _ in lines]
    first = commands.index("selfplay")
    assert commands[:first] in ([], ["evaluate"])
    assert commands[first : first + 4] == ["selfplay", "gather", "train", "evaluate"]
    return [float(share) for _, share in lines]


def test_stages_hear_how_much_of_the_time_is_over(loop: Loop) -> None:
    loop.plan(seconds=0.5)  # of each command, of which a generation has four
    code, said = loop.run("--minutes", "0.1")  # 6 s
    assert code == 0, said
    told = shares(loop)
    assert told == sorted(told) and told[0] < 0.5 and 0.8 < told[-1] <= 1
    assert 5 <= len(told) <= 16 and loop.notes()[-2:] == ["evaluate", "show"]
    code, said = loop.run("--minutes", "0.3")  # it had 6 s and more: goes on from a third
    assert code == 0, said
    later = shares(loop)
    assert 0.333 <= later[0] < 0.7 and later[-1] > 0.9
    loop.forget()
    assert loop.run("--generations", "1")[0] == 0 and not (loop.folder / "shares").exists()


def test_time_is_noted_when_the_loop_is_stopped(loop: Loop) -> None:
    loop.plan(selfplay=["hang"])
    process = loop.start("--minutes", "1")
    loop.wait_for("hanging")
    time.sleep(2)
    process.terminate()
    process.communicate(timeout=30)
    assert int((loop.folder / "run/data/.rl_loop.seconds").read_text()) >= 2


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
    assert fresh.run("--generations", "1")[0] == 0
    assert fresh.notes()[:3] == ["venv", "install", "init"]
    fresh.forget()
    assert fresh.run("--generations", "1")[0] == 0
    assert fresh.notes() == ["evaluate", "show"]


def test_set_up_is_renewed_when_the_pins_change(fresh: SetUp) -> None:
    fresh.run("--generations", "1")
    with open(fresh.clone / "constraints.txt", "a") as constraints:
        constraints.write("# newer\n")
    fresh.forget()
    assert fresh.run("--generations", "1")[0] == 0
    assert fresh.notes() == ["install", "evaluate", "show"]


def test_the_tests_add_what_only_they_need(fresh: SetUp) -> None:
    """What tests compare with needn't be on a user's machine; what they have installed serves the loop too."""
    installing = 'source ./setup.sh; started() { :; }; set_up "$0"'
    for extras, installs in (("fast", True), ("fast,test", True), ("fast", False), ("fast,test", False)):
        before = fresh.notes().count("install")
        subprocess.run(["bash", "-c", installing, extras], cwd=fresh.clone, env=fresh.env, check=True, timeout=60)
        assert fresh.notes().count("install") == before + installs, extras


def test_half_made_environment_is_recovered(fresh: SetUp) -> None:
    broken = fresh.clone / ".venv" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert fresh.run("--generations", "1")[0] == 0
    assert fresh.notes()[:3] == ["venv", "install", "init"]


def test_failed_installation_is_tried_again(fresh: SetUp) -> None:
    fresh.plan(install=[1])
    code, said = fresh.run("--generations", "1")
    assert code == 1 and "installation failed" in said
    assert fresh.notes() == ["venv", "install"]
    assert fresh.run("--generations", "1")[0] == 0
    assert fresh.notes()[2:4] == ["install", "init"]


def test_too_old_python_is_named(fresh: SetUp) -> None:
    fresh.python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit\nexit 1\n')
    fresh.env["PATH"] = str(fresh.python.parent)
    for tool in ("bash", "env", "dirname", "basename", "mkdir", "cat", "date"):
        (fresh.python.parent / tool).symlink_to(shutil.which(tool) or tool)
    code, said = fresh.run("--generations", "1")
    assert code == 1 and "Python 3.9.2" in said and "3.11" in said
