"""What a person sees while a stage works."""

from __future__ import annotations

import io

import pytest

from pipeline.reports.progress_bars import ConsoleProgress


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
    assert lines[0] == "playing: 0 of 1,200 games in 0 s  value 0.5"
    assert lines[1].startswith("playing: 1,000 of 1,200 games in 0 s") and lines[1].endswith("value 0.5")
    assert lines[2] == "half way"
    assert lines[-1].startswith("playing: 1,200 of 1,200 games")
    assert "\r" not in log.getvalue()


def test_what_an_earlier_process_did_has_no_part_in_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("pipeline.reports.progress_bars.time.monotonic", lambda: now)
    log = io.StringIO()
    with ConsoleProgress(stream=log) as progress:
        progress.start("training", total=1000, unit="steps", done=800)
        now = 110.0
        progress.advance(20)
        now = 130.0
    first, last = log.getvalue().splitlines()
    assert first == "training: 820 of 1,000 steps in 10 s (2.0/s, 2 min left)"
    assert last.startswith("training: 820 of 1,000 steps in 30 s (0.67/s, 4 min left)")


def test_the_time_left_waits_until_as_many_units_are_done_as_are_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games that are played side by side end together: the first one says nothing about the rest."""
    now = 100.0
    monkeypatch.setattr("pipeline.reports.progress_bars.time.monotonic", lambda: now)
    log, terminal = io.StringIO(), Terminal()
    with ConsoleProgress(stream=log, log_seconds=0) as in_log, ConsoleProgress(stream=terminal) as on_terminal:
        for progress in (in_log, on_terminal):
            progress.start("match", total=100, unit="games", at_once=20)
        now = 110.0
        in_log.advance(1)
        on_terminal.advance(1)
        on_terminal.bar.refresh()  # type: ignore[union-attr]
        now = 120.0
        in_log.advance(19)
        on_terminal.advance(19)
        on_terminal.bar.refresh()  # type: ignore[union-attr]
    lines = log.getvalue().splitlines()
    assert "left" not in lines[0] and lines[1] == "match: 20 of 100 games in 20 s (1.0/s, 80 s left)"
    drawn = terminal.getvalue().split("\r")
    first, second = ([one for one in drawn if f" {count}/100 [" in one][-1] for count in (1, 20))
    assert "<" not in first and "<01:20" in second


def test_a_phase_may_know_its_time_better_than_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("pipeline.reports.progress_bars.time.monotonic", lambda: now)
    log = io.StringIO()
    with ConsoleProgress(stream=log, log_seconds=0) as progress:
        progress.start("selfplay", total=100, unit="games")
        progress.left(None)
        now = 110.0
        progress.advance(1)
        progress.left(125.0)
        progress.advance(1)
        progress.start("next", total=10)
        progress.advance(5)
        now = 120.0
        progress.advance(1)
    lines = log.getvalue().splitlines()
    assert "left" not in lines[0] and lines[1].endswith("(0.2/s, 2 min left)")
    assert lines[-1].endswith("in 10 s (0.6/s, 7 s left)")  # by its units again


def test_log_is_not_flooded() -> None:
    log = io.StringIO()
    with ConsoleProgress(stream=log, log_seconds=1000) as progress:
        progress.start("playing", total=500)
        for _ in range(500):
            progress.advance()
    assert len(log.getvalue().splitlines()) == 1


def test_state_is_shown_before_the_first_unit_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games take minutes, but their speed is known after seconds."""
    now = 100.0
    monkeypatch.setattr("pipeline.reports.progress_bars.time.monotonic", lambda: now)
    log, terminal = io.StringIO(), Terminal()
    with ConsoleProgress(stream=log) as in_log, ConsoleProgress(stream=terminal) as on_terminal:
        for progress in (in_log, on_terminal):
            progress.start("selfplay", total=500, unit="games")
        for seconds in range(1, 60):
            now = 100.0 + seconds
            for progress in (in_log, on_terminal):
                progress.describe(f"{40 * seconds:,} positions, 40/s")
        assert "2,360 positions, 40/s" in terminal.getvalue()
    assert [line.split(" games ")[1] for line in log.getvalue().splitlines()] == [
        "in 5 s  200 positions, 40/s",
        "in 35 s  1,400 positions, 40/s",
        "in 59 s  2,360 positions, 40/s",
    ]


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
