"""The lowest priority: that it counts on the whole machine, that signals and exit codes go through."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import machine
from pipeline.machine import STARTER, groups_by_session, session_niceness, share_niceness, time_of_group
from tests.helpers import wait_for

ROOT = Path(__file__).parent.parent
STEP_BACK = "from pipeline.machine import step_back; import os, signal, sys, time; step_back(); "
grouped = pytest.mark.skipif(not groups_by_session(), reason="the kernel has no autogroups here")


def started(then: str, new_session: bool = False) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", STEP_BACK + then]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=new_session)


def said_by(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def test_a_group_with_a_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docker run --cpus 1.5 and Kubernetes' limits make them, around a group without a limit."""
    (tmp_path / "membership").write_text("1:name=systemd:/x\n0::/outer/inner\n")
    assert time_of_group(tmp_path, tmp_path / "membership") == math.inf
    time_of_group.cache_clear()
    (tmp_path / "outer/inner").mkdir(parents=True)
    (tmp_path / "outer/cpu.max").write_text("150000 100000\n")
    (tmp_path / "outer/inner/cpu.max").write_text("max 100000\n")
    assert time_of_group(tmp_path, tmp_path / "membership") == 1.5
    (tmp_path / "v1/cpu").mkdir(parents=True)
    for what, number in (("quota", -1), ("period", 100_000), ("quota", 765_000)):
        (tmp_path / f"v1/cpu/cpu.cfs_{what}_us").write_text(f"{number}\n")
    assert time_of_group(tmp_path / "v1", tmp_path / "none") == 7.65
    monkeypatch.setattr(machine, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    assert machine.available_cores() == 2


TELL = "print(os.getpid(), os.getsid(0), os.getpriority(os.PRIO_PROCESS, 0), flush=True); "


@grouped
@pytest.mark.parametrize("new_session", [False, True])
def test_the_session_is_its_own_and_has_the_lowest_niceness(new_session: bool) -> None:
    ours = session_niceness(os.getpid())
    process = started(TELL + "time.sleep(60)", new_session)
    pid, session, niceness = said_by(process)
    assert (session, niceness, session_niceness(pid)) == (pid, 19, 19)
    assert (pid == process.pid) == new_session  # a leader needs no other session
    assert session_niceness(os.getpid()) == ours  # that of whoever started it stays
    process.terminate()
    assert process.wait() == -signal.SIGTERM


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux alone has this policy")
def test_its_threads_and_processes_leave_their_cores_to_others() -> None:
    """Also those that it starts later."""
    ours = os.sched_getscheduler(0)
    asked = "import subprocess, threading; "
    asked += "threading.Thread(target=lambda: print(os.sched_getscheduler(0), end=' ', flush=True)).start(); "
    asked += "subprocess.run([sys.executable, '-c', 'import os; print(os.sched_getscheduler(0))'])"
    assert said_by(started(asked)) == [os.SCHED_IDLE, os.SCHED_IDLE]
    assert os.sched_getscheduler(0) == ours


@grouped
def test_exit_codes_and_signals_go_through() -> None:
    process = started("sys.exit(75)")
    assert process.wait() == 75
    handling = "signal.signal(signal.SIGINT, lambda *_: os._exit(9)); " + TELL + "time.sleep(60)"
    process = started(handling)
    said_by(process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 9
    process = started("os.kill(os.getpid(), signal.SIGKILL)")
    assert process.wait() == -signal.SIGKILL


@grouped
def test_it_dies_with_whoever_stands_for_it() -> None:
    process = started(TELL + "time.sleep(60)")
    pid, _, _ = said_by(process)
    process.kill()
    process.wait()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
@pytest.mark.parametrize("new_session", [False, True])
def test_it_can_end_with_whoever_started_it(new_session: bool) -> None:
    """Also if that one is killed."""
    words = [sys.executable, "-c", STEP_BACK.replace("step_back()", "step_back(end_with_parent=True)") + TELL]
    words[-1] += "time.sleep(60)"
    starting = f"import subprocess; subprocess.Popen({words!r}, start_new_session={new_session}).wait()"
    parent = subprocess.Popen([sys.executable, "-c", starting], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    pid, _, niceness = said_by(parent)
    assert niceness == 19
    parent.kill()
    parent.wait()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def test_it_ends_if_whoever_started_it_ended_before_it_could_ask() -> None:
    late = "import os, time; from pipeline.machine import step_back; print('loaded', flush=True)\n"
    late += "while os.getppid() == {}: time.sleep(0.01)\n"
    late += "step_back(end_with_parent=True); print('went on')"
    starting = f"import os, subprocess, sys; late = {late!r}.format(os.getpid()); "
    starting += "subprocess.Popen([sys.executable, '-c', late]).wait()"
    parent = subprocess.Popen([sys.executable, "-c", starting], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None and parent.stdout.readline() == "loaded\n"
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == ""


def test_it_ends_if_whoever_started_it_ended_before_it_was_loaded() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    late = "from pipeline.machine import step_back; step_back(end_with_parent=True); print('went on')"
    environment = {**os.environ, STARTER: str(gone.pid)}
    done = subprocess.run([sys.executable, "-c", late], env=environment, stdout=subprocess.PIPE, cwd=ROOT)
    assert done.returncode == -signal.SIGTERM and done.stdout == b""


def test_where_the_system_does_not_tell_that_the_parent_ended_a_thread_looks() -> None:
    """As on macOS."""
    looking = [sys.executable, "-c", "import os; from pipeline import machine; machine.LOOK_SECONDS = 0.01; "
               "parent = os.getppid(); print(os.getpid(), flush=True); machine._end_with(parent)"]  # fmt: skip
    starting = f"import subprocess; subprocess.Popen({looking!r}).wait()"
    parent = subprocess.Popen([sys.executable, "-c", starting], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    (pid,) = said_by(parent)
    assert Path(f"/proc/{pid}").exists() or sys.platform != "linux"
    parent.kill()
    parent.wait()
    assert parent.stdout is not None and parent.stdout.read() == ""  # at the end of all that hold it


@grouped
def test_processes_with_sessions_of_their_own_keep_the_niceness() -> None:
    start = (
        "import subprocess; from pipeline.machine import share_niceness; "
        "others = [subprocess.Popen(['sleep', '60'], start_new_session=True) for _ in range(3)]; "
        "[share_niceness(one.pid) for one in others]; print(*(one.pid for one in others), flush=True); "
        "sys.stdin.readline(); [one.kill() for one in others]"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", STEP_BACK + start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    others = said_by(process)
    assert [session_niceness(pid) for pid in others] == [19, 19, 19]
    process.communicate("\n")


@grouped
def test_a_session_gets_the_callers_niceness_and_nobodys_is_left_alone() -> None:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    member = subprocess.Popen(["sleep", "60"])  # leads no session
    ours = session_niceness(os.getpid())
    for pid in (process.pid, member.pid, 2**22 + 1):
        share_niceness(pid)
    assert session_niceness(process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert session_niceness(member.pid) == session_niceness(os.getpid()) == ours
    for one in (process, member):
        one.kill()
        one.wait()


def test_without_autogroups_it_is_plain_niceness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pipeline import machine

    monkeypatch.setattr(machine, "SWITCH", tmp_path / "none")
    given: list[int] = []
    monkeypatch.setattr(os, "nice", given.append)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *given: None)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("there is no need for another process"))
    machine.step_back()
    assert given == [19] and not groups_by_session()
