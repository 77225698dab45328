"""Threads that hang: who waits for them gives up, keeps what was finished, and ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline import stalls
from pipeline.matches.match import MatchThread
from pipeline.run.matches import read_match
from pipeline.stalls import HANG_SECONDS, PAUSE_SECONDS, Hung, Watch
from tests.helpers import make_champion
from tests.matches.test_runner import play


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, watch: Watch, seconds: float, *counts: object) -> dict[int, float]:
        """Looking every second."""
        found: dict[int, float] = {}
        for _ in range(int(seconds)):
            self.now += 1
            found = watch.stuck(counts)
        return found


def test_a_thread_that_makes_no_step_is_noticed() -> None:
    clock = Clock()
    watch = Watch(clock)
    assert clock.wait(watch, HANG_SECONDS, 1, 7) == {}
    assert clock.wait(watch, HANG_SECONDS / 2, 2, 7) == {1: 1.5 * HANG_SECONDS - 1}
    with pytest.raises(Hung, match=r"thread 1 of 2 made no step for 2699 seconds .*run this again") as caught:
        watch.look((2, 7))
    assert "\n" not in str(caught.value)
    assert clock.wait(watch, HANG_SECONDS / 2, 2, 8) == {}


def test_a_thread_without_work_does_not_hang() -> None:
    clock = Clock()
    watch = Watch(clock)
    assert clock.wait(watch, 2 * HANG_SECONDS, None, None) == {}
    assert clock.wait(watch, HANG_SECONDS, None, 1) == {}
    assert clock.wait(watch, 2, None, 1) != {}


def test_a_pause_of_the_process_is_nobodys_fault() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.look((1,))
    clock.now += 10 * HANG_SECONDS
    assert watch.stuck((1,)) == {}
    assert clock.wait(watch, HANG_SECONDS, 1) == {}
    assert clock.wait(watch, PAUSE_SECONDS, 1) != {}


def test_who_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "HANG_SECONDS", 0.3)
    forever, soon = threading.Event(), threading.Event()
    threads = [threading.Thread(target=event.wait, daemon=True) for event in (forever, soon)]
    for thread in threads:
        thread.start()
    steps = iter(range(10**9))

    def counts() -> list[object]:
        count = next(steps)
        if count == 3:
            soon.set()
        return [0, count]

    with pytest.raises(Hung, match="thread 0 of 2"):
        Watch().join(threads, counts)
    assert not threads[1].is_alive()
    forever.set()
    Watch().join(threads, lambda: [0, 0])


HANGS = """
import sys, threading
from pipeline import main
from pipeline import stalls
from pipeline.methods.alphazero.actor import TreeActor
finish, step = TreeActor._finish, TreeActor.step
finished = []

def finish_and_count(self, *arguments):
    finish(self, *arguments)
    finished.append(1)

def step_or_hang(self):
    if len(finished) >= 5:
        stalls.HANG_SECONDS = 1.0
        threading.Event().wait()
    step(self)

TreeActor._finish, TreeActor.step = finish_and_count, step_or_hang
main.app(sys.argv[1:], prog_name="main.py")
"""


def test_self_play_that_hangs_keeps_its_games_and_ends(tmp_path: Path) -> None:
    from pipeline.run.shards import newest_shards

    make_champion(tmp_path / "saved_models")
    options = ["--readouts", "4", "--games", "100", "--parallel-games", "4", "--threads", "1", "--backend", "torch"]
    paths = ["--network", str(tmp_path / "saved_models/best_model"), "--output-dir", str(tmp_path / "selfplay")]
    ended = subprocess.run(
        [sys.executable, "-c", HANGS, "selfplay", *options, *paths, "--commit-seconds", "3600"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    assert "mugo selfplay: thread 0 of 1 made no step for" in ended.stderr and "Traceback" not in ended.stderr
    assert sum(meta.games for meta in newest_shards(tmp_path / "selfplay")) >= 5


def test_a_match_that_hangs_keeps_its_games_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, real = threading.Event(), MatchThread.step
    finished: list[int] = []

    def step(self: MatchThread) -> None:
        if len(finished) >= 6:
            stalls.HANG_SECONDS = 0.5
            released.wait()
        real(self)

    def finish(self: MatchThread, *arguments: object) -> None:
        real_finish(self, *arguments)  # type: ignore[arg-type]
        finished.append(1)

    real_finish = MatchThread._finish
    monkeypatch.setattr(stalls, "HANG_SECONDS", HANG_SECONDS)  # so that it is put back
    monkeypatch.setattr(MatchThread, "step", step)
    monkeypatch.setattr(MatchThread, "_finish", finish)
    try:
        with pytest.raises(Hung, match="made no step"):
            play(tmp_path / "match", ("heuristic", "random"), 40, game="tictactoe", threads=1, parallel_games=4)
        assert len(read_match(tmp_path / "match", with_summary=False).games) == len(finished) >= 6
    finally:
        released.set()
