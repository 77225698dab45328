"""A manager's lines: marks, lines that are too long, and what comes while the engine is busy."""

from __future__ import annotations

import io
import os
import time

import pytest

from pipeline.play.lines import TOO_LONG, CommandLines


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


@pytest.mark.parametrize("line", ["quit", "7 quit", " QUIT now"])
def test_a_command_that_comes_while_the_engine_is_busy(line: str) -> None:
    """A script's lines are there from the start, and each has its turn."""
    read, write = os.pipe()
    with os.fdopen(read) as commands, os.fdopen(write, "w") as typed:
        lines = CommandLines(commands, 100)
        has_quit = lines.watch("quit")
        typed.write("name\n7\nquitter\nplay quit\n\n")
        typed.flush()
        while lines._queue.qsize() < 5:
            time.sleep(0.01)
        assert not has_quit()
        typed.write(line + "\n")
        typed.flush()
        until = time.monotonic() + 20
        while not has_quit() and time.monotonic() < until:
            time.sleep(0.01)
        assert has_quit() and not lines.watch("quit")()
        typed.close()
        while lines.next() is not None:
            pass
