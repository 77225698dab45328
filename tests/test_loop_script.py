"""rl_loop.sh and setup.sh: the order of commands, exit codes, signals, locking and the set-up.

Here a scripted stand-in takes the place of Python; tests/test_loop.py runs the real commands.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.run import layout

ROOT = Path(__file__).parent.parent
PASS = ["evaluate", "selfplay --top-up", "gather", "train"]
FIRST_PASS = PASS[1:]  # the first model has nobody to meet

# Stands in for Python. `python -c …` is really run; `python main.py COMMAND …` is noted and does what plan.json says:
# a list of exit codes per command (0 when used up), or "hang": wait for SIGTERM, note it, exit 143.
# `python -m venv DIR` makes DIR with a copy of itself; `python -m pip install` is noted, with exit codes from the plan.
STAND_IN = f"""#!{sys.executable}
import json, os, resource, shutil, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "-c":
    os.execv({sys.executable!r}, [{sys.executable!r}, *words])
home = Path(os.environ["STAND_IN_HOME"])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
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
    elif words[1:3] == ["pip", "install"]:
        note("install")
        time.sleep(plan.get("install_seconds", 0))
        sys.exit(planned("install"))
    sys.exit(0)
command = words[1]
if command == "presets":
    sys.exit(planned(command))
wants = [word for word in words if word in ("--top-up", "--background", "--wait")]
note(" ".join([command, *wants]))
if "--time-share" in words:
    with open(home / "shares", "a") as shares:
        shares.write(f"{{command}} {{words[words.index('--time-share') + 1]}}\\n")
time.sleep(plan.get("seconds", 0))
def stopped(number, frame):
    note(command + " stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
if "--background" in words:
    command = "background"
code = planned(command + (" --wait" if "--wait" in words else ""))
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

    def plan(self, **codes: list[int | str] | float) -> None:
        (self.folder / "plan.json").write_text(json.dumps(codes))

    def start(self, *options: str, **how: Any) -> subprocess.Popen[str]:
        """how: as for Popen."""
        process = subprocess.Popen(
            [str(self.script), "--directory", str(self.folder / "run"), *options],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *options: str, **how: Any) -> tuple[int, str]:
        """Exit code and stderr."""
        process = self.start(*options, **how)
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def forget(self) -> None:
        (self.folder / "notes").unlink()

    def wait_for(self, note: str, times: int = 1) -> None:
        deadline = time.monotonic() + 30
        while self.notes().count(note) < times:
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


def test_a_tidy_loop_packs_and_prunes_after_each_generation(loop: Loop) -> None:
    loop.plan(compact=[0, 75, 0], prune=[75])  # another machine may be at it
    tidied = ["compact", "prune"]
    code, said = loop.run("--generations", "2", "--minutes", "60", "--tidy")
    assert code == 0, said
    assert loop.notes() == ["init", *tidied, *FIRST_PASS, "evaluate", *tidied, *FIRST_PASS, "evaluate", *tidied, "show"]
    assert "compact" not in (loop.folder / "shares").read_text()
    loop.plan(prune=[1])
    assert loop.run("--generations", "2", "--tidy")[0] == 1


@pytest.mark.parametrize(("options", "named"), [(["--minutes", "60"], "60"), (["--minutes", "0.01"], "1")])
def test_it_names_more_minutes_only_when_they_are_over(loop: Loop, options: list[str], named: str) -> None:
    loop.plan(seconds=0.3)
    said, _ = loop.start("--generations", "1", *options).communicate(timeout=60)
    assert re.search(rf"--minutes {named}$", said, re.MULTILINE), said


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
    older = match.with_name("000000-y-vs-000000-init")
    older.mkdir()
    (older / "summary.json").write_text('{"promotion_pending": true}')  # of no model that may be promoted
    loop.forget()
    assert loop.run("--generations", "1")[0] == 0 and loop.notes() == ["show"]


@pytest.mark.parametrize("options", [["--generations", "1"], ["--minutes", "0.01"]])
def test_a_wrong_preset_is_refused_before_anything_is_done(loop: Loop, options: list[str]) -> None:
    """As one that goes by the share of time is without --minutes."""
    loop.plan(presets=[2])
    code, _ = loop.run(*options)
    assert code == 2 and loop.notes() == []
    assert loop.run(*options)[0] == 0


def beside(loop: Loop) -> list[str]:
    """The notes without those of the player in the background, which come at any time."""
    return [note for note in loop.notes() if note not in ("selfplay --background", "hanging", "background stopped")]


OVERLAPPED = ["selfplay --wait", "gather", "train"]


def test_with_overlap_one_player_plays_beside_all_other_commands(loop: Loop) -> None:
    loop.plan(background=["hang"], seconds=0.05)
    said, _ = loop.start("--generations", "2", "--overlap").communicate(timeout=60)
    assert beside(loop) == ["init", *OVERLAPPED, "evaluate", *OVERLAPPED, "evaluate", "show"]
    notes = loop.notes()
    assert notes.count("selfplay --background") == notes.count("background stopped") == 1
    assert notes.index("background stopped") < notes.index("show")
    assert "--generations 7" in said and "--overlap" in said


def test_a_player_that_ends_is_started_again_and_if_nobody_plays_the_loop_does(loop: Loop) -> None:
    loop.plan(background=[1, 1], **{"selfplay --wait": [75, 75]}, seconds=0.2)
    code, said = loop.run("--generations", "2", "--overlap")
    assert code == 0, said
    played = ["selfplay --wait", "selfplay --top-up", "gather", "train"]
    assert beside(loop) == ["init", *played, "evaluate", *played, "evaluate", "show"]
    assert loop.notes().count("selfplay --background") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_player_in_the_background_ends_with_the_loop(loop: Loop, number: signal.Signals) -> None:
    loop.plan(background=["hang"], train=["hang"], seconds=0.1)
    process = loop.start("--generations", "1", "--overlap")
    loop.wait_for("hanging", 2)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert loop.notes()[-2:] == ["train stopped", "background stopped"]


def test_a_training_that_was_cut_off_goes_on_with_its_own_set(loop: Loop) -> None:
    assert loop.run("--generations", "1")[0] == 0
    for name in (".000002-x.training", ".000001-x.training"):  # an old one is nobody's
        (loop.folder / "run/saved_models" / name).mkdir()
    loop.forget()
    loop.plan(train=[75])  # another process has trained it meanwhile, or goes on
    code, said = loop.run("--generations", "2")
    assert code == 0 and "generation 2 of 2: train, from where it stopped" in said
    assert loop.notes() == ["evaluate", "selfplay --top-up", "train", "gather", "train", "evaluate", "show"]
    loop.forget()
    (loop.folder / "run/saved_models/.000003-x.training").mkdir()
    assert loop.run("--generations", "3")[0] == 0
    assert loop.notes() == ["evaluate", "selfplay --top-up", "train", "evaluate", "show"]


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


def test_the_player_left_by_a_killed_loop_is_stopped_by_the_next(loop: Loop) -> None:
    loop.plan(background=["hang"], train=["hang"], seconds=0.1)
    process = loop.start("--generations", "1", "--overlap")
    loop.wait_for("hanging", 2)
    process.kill()
    process.wait(timeout=30)
    code, said = loop.run("--generations", "1")
    assert code == 0 and "was killed" in said
    notes = loop.notes()
    assert {"train stopped", "background stopped"} <= set(notes) and notes[-2:] == ["evaluate", "show"]


def test_the_lock_always_names_its_holder(loop: Loop) -> None:
    loop.plan(train=["hang"])
    process = loop.start("--generations", "1")
    loop.wait_for("init")
    lock, seen = loop.folder / "run/data/.rl_loop.lock", set()
    while "hanging" not in loop.notes():
        assert process.poll() is None
        seen.add(lock.read_text().rpartition("\n")[0].rpartition("\n")[2].split(" ")[0])
    process.terminate()
    process.communicate(timeout=30)
    assert seen == {str(process.pid)}


def pretend_killed(loop: Loop, command: int) -> None:
    """Let the lock file name a process that has ended, and this one as the command that it left."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = loop.folder / "run/data/.rl_loop.lock"
    lock.write_text(" ".join([str(dead.pid), str(command), *lock.read_text().splitlines()[-1].split()[2:]]) + "\n")


def test_a_copy_on_another_machine_is_left_alone_and_so_is_who_has_its_number_here(loop: Loop) -> None:
    names = loop.folder / "elsewhere"
    names.mkdir()
    (names / "uname").write_text("#!/bin/sh\necho elsewhere\n")
    (names / "uname").chmod(0o755)
    here = loop.env
    loop.plan(selfplay=["hang"])
    loop.env = {**here, "PATH": f"{names}:{here['PATH']}"}
    first = loop.start("--generations", "1")
    loop.wait_for("hanging")
    loop.env = here
    with subprocess.Popen(["sleep", "100"]) as innocent:
        pretend_killed(loop, innocent.pid)
        code, said = loop.run("--generations", "1")
        assert (code, first.poll(), innocent.poll()) == (75, None, None) and "on elsewhere" in said
        innocent.kill()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system doesn't tell who holds a file")
def test_a_process_that_got_the_number_of_a_command_is_left_alone(loop: Loop) -> None:
    loop.plan(selfplay=["hang"])
    first = loop.start("--generations", "1")
    loop.wait_for("hanging")
    with subprocess.Popen(["sleep", "100"]) as innocent:
        pretend_killed(loop, innocent.pid)
        second = loop.start("--generations", "1")
        time.sleep(1)
        assert (first.poll(), second.poll(), innocent.poll()) == (None, None, None)
        first.terminate()
        second.communicate(timeout=30)
        assert (second.returncode, innocent.poll()) == (0, None)
        innocent.kill()


def test_what_keeps_from_locking_is_a_failure_and_not_another_copy(loop: Loop) -> None:
    loop.env["MUGO_PYTHON"] = str(loop.folder / "no-python")
    code, said = loop.run("--generations", "1")
    assert code == 1 and "MUGO_PYTHON" in said and "no-python" in said and "another copy" not in said
    loop.python.write_text("#!/bin/sh\ncase $2 in *flock*) echo No locks available >&2; exit 1;; esac\n")
    loop.env["MUGO_PYTHON"] = str(loop.python)
    code, said = loop.run("--generations", "1")
    assert code == 1 and "cannot lock" in said and "No locks available" in said and "another copy" not in said


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


def test_a_training_that_was_cut_off_goes_on_at_the_share_of_time_that_it_was_begun_with(loop: Loop) -> None:
    run = loop.folder / "run"

    def trained_at() -> list[str]:
        """The shares that train was given; they are forgotten."""
        lines = (loop.folder / "shares").read_text().splitlines()
        (loop.folder / "shares").unlink()
        return [share for command, share in map(str.split, lines) if command == "train"]

    def cut_off(seconds: int, *options: str) -> None:
        (run / "data/.rl_loop.seconds").write_text(f"{seconds}\n")
        loop.plan(train=["hang"])
        loop.forget()
        process = loop.start(*options)
        loop.wait_for("hanging")
        process.terminate()
        process.communicate(timeout=30)

    assert loop.run("--generations", "1")[0] == 0
    cut_off(60_000, "--minutes", "2000")
    (run / "saved_models/.000002-b1c8.training").mkdir()
    cut_off(100_000, "--minutes", "2000")  # and once more
    (begun, again) = trained_at()
    assert again == begun and begun.startswith("0.50")
    assert not list(filter(layout.parse_checkpoint_name, os.listdir(run / "data")))  # names that clash
    (run / "data/.rl_loop.seconds").write_text("100000\n")
    assert loop.run("--minutes", "5000", "--generations", "3")[0] == 0  # other minutes make it another share, too
    (ended, later) = trained_at()
    assert ended == begun and later.startswith("0.33")
    cut_off(60_000, "--minutes", "2000", "--generations", "4")
    (run / "saved_models/.000004-b1c8.training").mkdir()
    (run / "data/.rl_loop.seconds").write_text("100000\n")
    assert loop.run("--minutes", "2000", "--generations", "4", "--preset", "go9")[0] == 0
    (of_one, of_another) = trained_at()  # whose training begins anew
    assert of_one.startswith("0.50") and of_another.startswith("0.83")


def test_time_is_noted_when_the_loop_is_stopped(loop: Loop) -> None:
    loop.plan(selfplay=["hang"])
    process = loop.start("--minutes", "1")
    loop.wait_for("hanging")
    time.sleep(2)
    process.terminate()
    process.communicate(timeout=30)
    assert int((loop.folder / "run/data/.rl_loop.seconds").read_text()) >= 2


def test_a_full_disk_keeps_the_time(loop: Loop) -> None:
    assert loop.run("--generations", "1")[0] == 0
    seconds = loop.folder / "run/data/.rl_loop.seconds"
    seconds.write_text("1234\n")

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    code, said = loop.run("--generations", "2", preexec_fn=no_room, restore_signals=False)
    assert code == 0 and "cannot write" in said and seconds.read_text() == "1234\n"


# Loaded before the C library: where the file that CLOCK_SET_BACK names exists, the system's clock goes an hour after.
CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, which, now);
    if (!failed && which == CLOCK_REALTIME && access(getenv("CLOCK_SET_BACK"), F_OK) == 0) now->tv_sec -= 3600;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
"""


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs LD_PRELOAD and a C compiler")
def test_a_clock_that_is_set_back_takes_no_time_away(loop: Loop) -> None:
    library, source = loop.folder / "clock.so", loop.folder / "clock.c"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loop.env |= {"LD_PRELOAD": str(library), "CLOCK_SET_BACK": str(loop.folder / "set-back")}
    loop.plan(seconds=0.5)
    process = loop.start("--generations", "1", "--minutes", "0.1")
    loop.wait_for("gather")
    (loop.folder / "set-back").touch()
    _, said = process.communicate(timeout=60)
    told = shares(loop)
    assert process.returncode == 0 and told == sorted(told) and told[0] >= 0 and 0.1 < told[-1] < 0.9, (told, said)
    assert 1 <= int((loop.folder / "run/data/.rl_loop.seconds").read_text()) < 60


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


def test_a_preset_of_text_games_adds_what_only_they_need(fresh: SetUp) -> None:
    preset = fresh.folder / "mine.yaml"
    for game, extras in (("go:9", "fast"), ("'text:KuhnPoker-v0,show=round'", "fast,text")):
        preset.write_text(f"init:\n  game: {game} # which\n")
        assert fresh.run("--preset", str(preset), "--generations", "1")[0] == 0
        assert (fresh.clone / ".venv/set-up").read_text().split()[-1] == extras


def test_a_preset_that_plays_on_ray_adds_it_unless_an_option_says_local(fresh: SetUp) -> None:
    preset = fresh.folder / "mine.yaml"
    for lines, options, extras in (
        ("selfplay:\n  runner: ray\n", ["--runner", "local"], "fast"),
        ("# runner: ray\nselfplay: {runner: local}\n", [], "fast"),
        ("selfplay: {games: 8, runner: ray}\n", [], "fast,ray"),
    ):
        preset.write_text(lines)
        assert fresh.run("--preset", str(preset), "--generations", "1", *options)[0] == 0
        assert (fresh.clone / ".venv/set-up").read_text().split()[-1] == extras


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


def test_of_two_first_runs_at_once_one_installs(fresh: SetUp) -> None:
    fresh.plan(install_seconds=1)
    both = [
        fresh.start("--generations", "0", "--minutes", "0.001", "--directory", str(fresh.folder / one)) for one in "ab"
    ]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [fresh.notes().count(what) for what in ("venv", "install", "init")] == [1, 1, 2]
    assert sum("waiting" in text for text in said) == 1


def test_a_first_run_that_is_killed_leaves_no_lock(fresh: SetUp) -> None:
    fresh.plan(install_seconds=3)  # longer than the next loop needs to start
    first = fresh.start("--generations", "1")
    fresh.wait_for("install")
    first.kill()
    first.wait(timeout=30)
    code, said = fresh.run("--generations", "1", "--directory", str(fresh.folder / "other"))
    assert code == 0 and "waiting" in said  # for what it was installing
    assert fresh.notes()[:4] == ["venv", "install", "install", "init"]


def test_too_old_python_is_named(fresh: SetUp) -> None:
    fresh.python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit\nexit 1\n')
    fresh.env["PATH"] = str(fresh.python.parent)
    for tool in ("bash", "env", "dirname", "basename", "mkdir", "cat", "date"):
        (fresh.python.parent / tool).symlink_to(shutil.which(tool) or tool)
    code, said = fresh.run("--generations", "1")
    assert code == 1 and "Python 3.9.2" in said and "3.11" in said


def test_ctrl_c_waits_for_what_takes_milliseconds() -> None:
    """A terminal sends it to every process of the job, and Python that is starting answers with a traceback."""
    code = "import os, signal; os.killpg(0, signal.SIGINT); print('done')"
    script = f'source {ROOT}/setup.sh; say begun; at_once {sys.executable} -c "$0"; say never'
    done = subprocess.run(["bash", "-c", script, code], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (130, "done\n")
    assert "Traceback" not in done.stderr and "stopped" in done.stderr and "never" not in done.stderr
