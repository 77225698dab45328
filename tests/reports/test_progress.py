"""What a person sees while a stage works."""

from __future__ import annotations

import io

from pipeline.reports.progress import ConsoleProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_gets_plain_lines() -> None:
    log = io.StringIO()
    with ConsoleProgress(stream=log, log_seconds=0) as progress:
        progress.start("playing", total=1200, unit="games")
        progress.describe("value 0.5")
        progress.advance(1000)
        progress.say("half way")
        progress.advance(200)
    lines = log.getvalue().splitlines()
    assert lines[0].startswith("playing: 1,000 of 1,200 games in 0 s") and lines[0].endswith("value 0.5")
    assert lines[1] == "half way"
    assert lines[-1].startswith("playing: 1,200 of 1,200 games")
    assert "\r" not in log.getvalue()


def test_log_is_not_flooded() -> None:
    log = io.StringIO()
    with ConsoleProgress(stream=log, log_seconds=1000) as progress:
        progress.start("playing", total=500)
        for _ in range(500):
            progress.advance()
    assert len(log.getvalue().splitlines()) == 1


def test_terminal_gets_a_bar_and_lines_above_it() -> None:
    terminal = Terminal()
    with ConsoleProgress(stream=terminal) as progress:
        progress.start("gathering", total=4, unit="chunks")
        progress.advance(4)
        progress.warn("shard skipped")
    drawn = terminal.getvalue()
    assert "gathering" in drawn and "4/4" in drawn and "chunks" in drawn
    assert "warning: shard skipped\n" in drawn


def test_quiet_keeps_only_warnings() -> None:
    log = Terminal()
    with ConsoleProgress(quiet=True, stream=log) as progress:
        progress.start("playing", total=2)
        progress.advance(2)
        progress.say("done")
        progress.warn("odd")
    assert log.getvalue() == "warning: odd\n"


def test_a_phase_that_fails_is_ended_before_the_error_is_told() -> None:
    log = io.StringIO()
    try:
        with ConsoleProgress(stream=log) as progress:
            progress.start("training", total=10, unit="steps")
            progress.advance(3)
            raise ValueError
    except ValueError:
        pass
    assert log.getvalue().startswith("training: 3 of 10 steps") and log.getvalue().endswith("\n")
