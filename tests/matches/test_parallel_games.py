"""Worker pools of processes: games of a worker that fails are tried again, and no process is left behind.

The workers are real processes that play made-up games at once (fake_worker.py); threads of this process are in
test_match.py, workers that really play in test_runner.py.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import stalls
from pipeline.errors import MuGoError
from pipeline.matches.match import READER, WorkerPool, conduct
from pipeline.run.matches import MatchFailure, MatchGame
from pipeline.workers import processes
from pipeline.workers import worker_pool as pool_module
from pipeline.workers.processes import ProcessPool
from tests.matches import fake_worker
from tests.matches.helpers import conducted
from tests.players.scripted_engine import is_alive, open_files, wait_until_gone

COMMAND = [sys.executable, "-S", "-E", fake_worker.__file__]


def pool_of(mode="play", games=(), workers=2, capacity=4, hang_seconds=60.0, **job) -> ProcessPool:
    jobs = [{"mode": mode, "games": list(games), **job}] * workers
    return ProcessPool(READER, jobs, capacity, hang_seconds, command=COMMAND)


def played(pool: ProcessPool, num_games=20):
    """conducted(); afterwards no process that this pool ever started may be left."""
    seen: set[int] = set()
    start = pool._start

    def watched(number):
        worker = start(number)
        seen.add(worker.process.pid)
        return worker

    pool._start = watched  # type: ignore[method-assign]
    seen.update(worker.process.pid for worker in pool.workers)
    try:
        return conducted(pool, range(num_games))
    finally:
        for pid in seen:
            assert not is_alive(pid)


# Playing


@pytest.mark.parametrize(("workers", "capacity"), [(1, 1), (1, 50), (3, 2), (5, 50)])
def test_every_game_is_played_once(workers, capacity):
    games, failures, given_up = played(pool_of(workers=workers, capacity=capacity))
    assert sorted(games) == list(range(20))
    assert not failures and not given_up


def test_games_are_shared_out_and_no_worker_has_more_than_it_can_play(tmp_path):
    log = tmp_path / "log"
    played(pool_of(workers=3, capacity=4, log=str(log)), num_games=9)
    orders = [line.split(" ", 2) for line in log.read_text().splitlines() if "play" in line]
    first = {}
    for pid, _, numbers in orders:
        first.setdefault(pid, len(numbers.split(",")))
        assert len(numbers.split(",")) <= 4
    assert sorted(first.values()) == [3, 3, 3]


def test_nothing_to_play():
    assert played(pool_of(), num_games=0) == ({}, [], set())


# Workers that die, hang, or talk nonsense


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("die", r"its process ended \(signal SIGKILL\)"),
        ("alone", r"its process ended \(signal SIGKILL\)"),
        ("heir", r"its process ended \(signal SIGKILL\)"),
        ("stop", r"it made no step for \d seconds and was stopped"),
        ("stuck", r"it made no step for \d seconds and was stopped"),
        ("garbage", r"""it wrote b'{"outcomes": \[{"game": {"index": 3, "chal\\n', which is no valid message"""),
        ("foreign", r"""it wrote b'{"outcomes": \[{"game": {"index": 10.*, which is no valid message"""),
    ],
)
def test_a_worker_that_fails_once_costs_nothing_in_the_end(tmp_path, mode, problem):
    hang_seconds = 1.0 if mode in ("stop", "stuck") else 60.0
    games, failures, given_up = played(pool_of(mode, range(20), 2, 4, hang_seconds, marker=str(tmp_path / "marker")))
    assert sorted(games) == list(range(20)) and not given_up
    assert failures
    for one in failures:
        assert (one.attempt, one.kind, one.player, one.moves) == (1, "crash", "", [])
        assert re.match(rf"worker [01]: {problem}", one.problem), one.problem


@pytest.mark.parametrize("number", range(5))
def test_json_that_is_no_message_is_no_message(tmp_path, number):
    games, failures, _ = played(pool_of("strange", [number], 1, 1, marker=str(tmp_path / "marker")))
    assert sorted(games) == list(range(20))
    assert [(one.failed, one.attempt) for one in failures] == [(number, 1)]


@pytest.mark.parametrize("mode", ["die", "alone"])
def test_a_game_that_always_kills_its_worker_is_found_and_the_rest_finish(mode):
    games, failures, given_up = played(pool_of(mode, [3, 13], workers=2, capacity=10))
    assert given_up == {3, 13}
    assert sorted(games) == [number for number in range(20) if number not in (3, 13)]
    for number in (3, 13):
        attempts = [one.attempt for one in failures if one.failed == number]
        assert attempts == list(range(1, len(attempts) + 1)) and 2 <= len(attempts) <= 8


def test_a_game_that_a_player_fails_twice_is_given_up():
    games, failures, given_up = played(pool_of("fail", [3, 13]))
    assert given_up == {3, 13} and len(games) == 18
    assert sorted((one.failed, one.attempt, one.kind) for one in failures) == [
        (3, 1, "refusal"), (3, 2, "refusal"), (13, 1, "refusal"), (13, 2, "refusal")
    ]  # fmt: skip


def test_a_game_that_failed_once_is_not_given_up(tmp_path):
    games, failures, given_up = played(pool_of("fail", [3], marker=str(tmp_path / "marker")))
    assert sorted(games) == list(range(20)) and not given_up
    assert [(one.failed, one.attempt) for one in failures] == [(3, 1)]


def test_a_worker_that_exits_at_its_start_is_replaced(tmp_path):
    games, failures, given_up = played(pool_of("exit", marker=str(tmp_path / "marker")))
    assert sorted(games) == list(range(20)) and not given_up
    assert all("exit code 7" in one.problem and one.attempt == 1 for one in failures)


def test_workers_that_always_exit_at_their_start_stop_the_match():
    with pytest.raises(MuGoError, match=r"worker [01]: its process ended \(exit code 7\), before it played anything"):
        played(pool_of("exit"))


def test_a_job_that_is_impossible_stops_the_match_at_once_and_blames_no_game():
    failures: list[MatchFailure] = []

    def on_outcomes(games, failed):
        failures.extend(failed)
        return True

    with pytest.raises(MuGoError, match=r"worker [01]: the weights are gone"):
        conduct(pool_of("error"), range(20), on_outcomes)
    assert not failures


def test_a_command_that_does_not_exist():
    with pytest.raises(FileNotFoundError):
        ProcessPool(READER, [{}], 1, 1.0, command=["/nowhere/python"])


def test_workers_that_were_started_before_another_could_not_be_are_stopped(monkeypatch):
    started = []
    popen = subprocess.Popen

    def failing(*arguments, **options):
        if started:
            raise OSError("too many processes")
        started.append(popen(*arguments, **options))
        return started[0]

    with monkeypatch.context() as patch:
        patch.setattr(processes.subprocess, "Popen", failing)
        with pytest.raises(OSError, match="too many"):
            pool_of()
    assert not is_alive(started[0].pid)


def test_a_lost_workers_games_are_shared_out_to_all():
    """Also to one that has none left, which reports no game that would bring it others."""
    again = pool_module.OutcomeReader(lambda outcome: (0, outcome))
    pool = ProcessPool(again, [{"mode": "mute"}] * 2, 4, 60.0, command=COMMAND)
    try:
        lost = pool.workers[0]
        lost.games.update(range(4))
        lost.process.kill()
        while pool.workers[0] is lost:
            pool.outcomes(0.1)
        assert [len(worker.games) for worker in pool.workers] == [2, 2]
    finally:
        pool.close()


def test_a_worker_that_is_slow_but_steps_is_left_alone():
    games, failures, _ = played(pool_of("slow", workers=2, capacity=20, hang_seconds=2.5), num_games=4)
    assert len(games) == 4 and not failures


def test_time_in_which_nobody_looked_is_not_held_against_workers(monkeypatch):
    """As after Ctrl-Z: the workers went on, but nobody has read yet that they did."""
    monkeypatch.setattr(stalls, "PAUSE_SECONDS", 0.5)
    pool = pool_of("mute", workers=1, hang_seconds=1.0)
    try:
        pool.give([0])
        while not pool.workers[0].counts.steps:
            pool.outcomes(0.05)
        time.sleep(1.5)
        assert pool.outcomes(0.0) == []
    finally:
        pool.close()
    assert pool.workers[0].process.returncode == 0


class Talking(pool_module.RemotePool):
    """Its only worker says something all the time, until there are no messages left."""

    def __init__(self, messages):
        super().__init__(None, 1, 60.0)
        self.messages, self.looks = messages, 0
        self.workers = [SimpleNamespace(stuck=lambda limit: 0.0)]

    def _receive(self, seconds):
        if not self.messages:
            return None
        time.sleep(0.001)
        return [self.messages.pop()]

    def _check(self, worker):
        self.looks += 1
        return []

    def _replace(self, worker):
        raise AssertionError(worker)

    def update(self, update, models):
        raise AssertionError(update)

    def close(self):
        self._closed = True


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_messages_without_end_do_not_keep_the_outcomes_or_hide_a_worker_that_hangs(seconds):
    pool = Talking(list(range(2000)))
    first, second = pool.outcomes(seconds), pool.outcomes(seconds)
    assert first and second and pool.messages and pool.looks == 2
    pool.close()
    assert len(first) + len(second) + len(pool.outcomes(0.0)) == 2000 and pool.looks == 2


class Idle(pool_module.Worker):
    def send(self, numbers):
        pass


def test_a_worker_that_was_idle_for_long_is_not_taken_for_hanging_once_it_gets_a_game():
    now = [0.0]
    pool, worker = Talking([]), Idle(0, counts=pool_module.Counts([3, 3], [0, 0]), loaded=True)
    worker.watch = stalls.Watch(lambda: now[0])
    pool.workers = [worker]

    def stuck_after(seconds):
        for _ in range(seconds):
            now[0] += 1
            stuck = worker.stuck(60.0)
        return stuck

    assert not stuck_after(1000)
    pool.give([7])
    assert worker.games == {7} and not stuck_after(50)
    worker.counts = pool_module.Counts([4, 3], [1, 0])  # only one thread has a game
    assert not stuck_after(50)
    worker.counts = pool_module.Counts([4, 3], [1, 1])
    assert stuck_after(12) == 61


# The end


def test_a_worker_that_is_told_to_stop_ends_by_itself():
    pool = pool_of(workers=3)
    pool.give(range(6))
    while not all(worker.counts.steps for worker in pool.workers):
        pool.outcomes(0.1)
    pool.close()
    assert [worker.process.returncode for worker in pool.workers] == [0, 0, 0]


def test_a_worker_that_cannot_stop_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    pool = pool_of("stop", [0, 1], marker=str(tmp_path / "marker"))
    pool.give([0, 1])
    while not (tmp_path / "marker").exists():
        time.sleep(0.01)
    pool.close()
    assert sorted(worker.process.returncode for worker in pool.workers)[0] == -signal.SIGKILL
    assert not any(is_alive(worker.process.pid) for worker in pool.workers)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MuGoError("disk full")])
def test_no_worker_outlives_an_interruption_and_what_was_finished_is_handed_over(error):
    pool = pool_of(workers=3, capacity=2)
    found: list[MatchGame] = []

    def on_outcomes(games, failures):
        first = not found
        found.extend(games)
        if first:
            raise error
        return True

    with pytest.raises(type(error)):
        conduct(pool, range(200), on_outcomes)
    assert 0 < len(found) < 200
    assert not any(is_alive(worker.process.pid) for worker in pool.workers)


def test_workers_end_when_whoever_leads_them_is_killed(tmp_path):
    """The leader is another process, killed while its workers wait, play, and hang."""
    script = """
import sys
from tests.matches.test_parallel_games import pool_of
pools = [pool_of(mode, [0], 1) for mode in ("play", "mute", "slow")]
for pool in pools:
    pool.give([0])
print(*[worker.process.pid for pool in pools for worker in pool.workers], flush=True)
pools[0].outcomes(600)
import time; time.sleep(600)
"""
    root = Path(__file__).parent.parent.parent
    leader = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE)
    assert leader.stdout is not None
    pids = [int(word) for word in leader.stdout.readline().split()]
    assert len(pids) == 3 and all(is_alive(pid) for pid in pids)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    for pid in pids:
        wait_until_gone(pid)


def test_threads_and_files_are_let_go():
    played(pool_of(workers=1))
    files, threads = open_files(), threading.active_count()
    for _ in range(3):
        played(pool_of("die", [2], workers=3))
    assert open_files() <= files
    assert threading.active_count() <= threads


# Trials


class Scripted(WorkerPool):
    """A pool whose games end as a function says: of all that are in play, which end in one go, and how."""

    def __init__(self, crashes) -> None:
        self._crashes = crashes
        self._playing: list[int] = []
        self.given: list[list[int]] = []

    def give(self, numbers):
        self._playing += numbers
        self.given.append(list(numbers))

    def outcomes(self, seconds):
        playing, self._playing = self._playing, []
        crashed = self._crashes(playing)
        return [
            MatchFailure(failed=one, attempt=1, kind="crash", player="", problem="x", moves=[])
            if one in crashed
            else MatchGame.model_validate(fake_worker.game(one)["game"])
            for one in playing
        ]

    def close(self):
        pass


@pytest.mark.parametrize("guilty", [{0}, {7}, {63}, {0, 63}, {5, 6, 40}, set(range(64))])
def test_crashes_are_narrowed_down_to_the_games_at_fault(guilty):
    """A crash takes everything that is in play with it."""
    pool = Scripted(lambda playing: playing if guilty.intersection(playing) else [])
    games, failures, given_up = conducted(pool, range(64))
    assert given_up == guilty
    assert set(games) == set(range(64)) - guilty
    most = max(Counter(one.failed for one in failures).values())
    assert most <= 2 + 7  # twice with all, then 64 halved until it is alone
    for number in guilty:
        assert [one.attempt for one in failures if one.failed == number][:2] == [1, 2]


def test_a_crash_that_happens_once_is_tried_again_together():
    left = [2]

    def twice(playing):
        left[0] -= 1
        return playing if left[0] >= 0 else []

    pool = Scripted(twice)
    games, _, given_up = conducted(pool, range(8))
    assert len(games) == 8 and not given_up
    assert [len(numbers) for numbers in pool.given] == [8, 8, 4, 4]


def test_a_game_alone_that_crashes_twice_is_given_up():
    pool = Scripted(lambda playing: playing)
    games, failures, given_up = conducted(pool, [4])
    assert (games, given_up) == ({}, {4}) and [one.attempt for one in failures] == [1, 2]
