"""A manager's lines: marks, lines that are too long, and what comes while the engine is busy."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest

from pipeline.play.command_lines import PAUSE, TOO_LONG, WAITING_LINES, CommandLines


def lines_of(text: str, longest: int = 100) -> list[str]:
    lines, found = CommandLines(io.StringIO(text), longest), []
    while (line := lines.next()) is not None:
        found.append(line)
    return found


def test_ends_of_lines_and_a_mark_before_the_first() -> None:
    assert lines_of("\ufeff1 name\r\n\nquit\n") == ["1 name", "", "quit"]
    assert lines_of("name\n\ufeffquit") == ["name", "\ufeffquit"]


def test_a_line_that_is_too_long_keeps_its_beginning() -> None:
    first, second = lines_of("12 play b D4" + "x" * 5000 + "\nname\n")
    assert first.startswith(f"{TOO_LONG}12 play b D4x") and len(first) < 100 and second == "name"


@pytest.mark.parametrize("line", ["quit", "7 quit", " QUIT now", None])
def test_a_command_that_comes_while_the_engine_is_busy(line: str | None) -> None:
    """None: the end of the input. A script's lines come without a pause, and each has its turn."""
    read, write = os.pipe()
    with os.fdopen(read) as commands, os.fdopen(write, "w") as typed:
        lines = CommandLines(commands, 100)
        typed.write("name\n7\nquitter\nplay quit\n\nquit\n")
        typed.flush()
        assert lines.next() == "name"
        while lines._queue.qsize() < 5:
            time.sleep(0.01)
        time.sleep(1.5 * PAUSE)
        assert not lines.ended_by("quit")
        if line is None:
            typed.close()
        else:
            typed.write(f"genmove b\n{line}\n")
            typed.flush()
        until = time.monotonic() + 20
        while not lines.ended_by("quit") and time.monotonic() < until:
            time.sleep(0.01)
        assert lines.ended_by("quit")
        while lines.waiting() and lines.next() not in (line, None):
            assert lines.ended_by("quit"), "so does every search before it, whenever its line came"
        typed.close()
        while lines.next() is not None:
            pass


def test_a_long_script_is_no_later_burst() -> None:
    """Its last lines are read only when there is room for them."""
    lines = CommandLines(io.StringIO("name\n" * 3 * WAITING_LINES + "quit\n"), 100)
    for _ in range(3 * WAITING_LINES):
        assert lines.next() == "name" and not lines.ended_by("quit")
    assert lines.next() == "quit" and lines.next() is None


BUSY = """
import sys, time
from pipeline.play.command_lines import CommandLines
lines = CommandLines(sys.stdin, 100)
lines.leave_on("quit")
print("ready", flush=True)
if sys.argv[1:]:
    lines.next()
time.sleep(6)
"""


@pytest.mark.parametrize(
    ("bursts", "taken", "leaves"),
    [
        (["quit\n"], [], True),
        (["name\n", "7 quit\n"], [], True),
        (["name\n", "quit\n"], ["name"], True),
        (["name\nversion\nquit\n"], [], False),
        (["name\nquit\n"], ["name"], False),
        (["name\n", "version\n"], ["name"], False),
    ],
)
def test_a_last_command_ends_a_program_that_loads(bursts: list[str], taken: list[str], leaves: bool) -> None:
    """Not that of a script, whose lines come together: the program is busy for six seconds, and then takes its turn."""
    with subprocess.Popen([sys.executable, "-c", BUSY, *taken], stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for burst in bursts:
            time.sleep(2 * PAUSE)
            process.stdin.write(burst)
            process.stdin.flush()
        asked = time.monotonic()
        assert process.wait() == 0 and (time.monotonic() - asked < 3) == leaves
        assert process.stderr is not None
        assert ("not answered: 1 line" in process.stderr.read()) == (leaves and len(bursts) > 1 and not taken)
