"""What plays the games of a match at once, and what becomes of a game that fails.

Outcomes are games, or failures. ThreadPool plays in this process, with a MatchThread in each thread; ProcessPool has
worker processes; Ray's actors are in workers/cluster.py. conduct() gives a pool its games, and failed ones again.

As bytes an outcome is a JSON line: {"game": MatchGame} or {"failure": MatchFailure}.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pipeline.matches.match import GameQueue, MatchThread, Outcome, Pairing
from pipeline.run.matches import MatchFailure, MatchGame
from pipeline.stalls import Watch
from pipeline.workers import processes
from pipeline.workers import worker_pool as remote

ATTEMPTS = 2  # a game that fails is tried once more

WorkerPool = remote.WorkerPool[Outcome]


def line_of(outcome: Outcome) -> bytes:
    kind = "game" if isinstance(outcome, MatchGame) else "failure"
    return json.dumps({kind: outcome.model_dump(mode="json")}).encode()


def _outcome_of(line: bytes) -> tuple[int, Outcome]:
    """What line_of() made, and the game's number. Raises ValueError, TypeError, KeyError or RecursionError."""
    message = json.loads(line)
    if "game" in message:
        game = MatchGame.model_validate(message["game"])
        return game.index, game
    failure = MatchFailure.model_validate(message["failure"])
    return failure.failed, failure


def _lost(number: int, problem: str) -> Outcome:
    return MatchFailure(failed=number, attempt=1, kind="crash", player="", problem=problem, moves=[])


READING: remote.Reading[Outcome] = remote.Reading(_outcome_of, _lost)


def conduct(
    pool: WorkerPool,
    numbers: Sequence[int],
    on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool],
    given_up: set[int] | None = None,
) -> None:
    """Let the pool play the games, then close it; a game that fails is tried again, up to ATTEMPTS times in all.

    When a thread or a worker crashes, it isn't known which of its games is to blame. So games that had their attempts
    and were not alone are tried further, apart from the others and in ever smaller groups, until one crashes alone.

    on_outcomes  called with what has ended since the last call; returns whether to play on. After False, or on
                 KeyboardInterrupt, the pool is closed, and the games that had ended by then are handed over
    given_up     numbers of failed games that won't be tried again are added, before on_outcomes gets the failure
    """
    trials = _Trials(numbers, set() if given_up is None else given_up)

    def hand_over(outcomes: Sequence[Outcome]) -> bool:
        games = [one for one in outcomes if isinstance(one, MatchGame)]
        failures, again = trials.judge(outcomes)
        play_on = on_outcomes(games, failures) if outcomes else True
        if play_on and again:
            pool.give(again)
        return play_on

    closed = False
    try:
        pool.give(numbers)
        while trials.left and hand_over(pool.outcomes(0.5)):
            pass
        pool.close()
        closed = True
    finally:
        try:
            if not closed:  # also if Ctrl-C came while it closed
                pool.close()
        finally:
            hand_over([one for one in pool.outcomes(0.0) if isinstance(one, MatchGame)])


class _Trials:
    """Which games are still to be played, and how often each was tried. left: those neither finished nor given up."""

    def __init__(self, numbers: Collection[int], given_up: set[int]) -> None:
        self.left = set(numbers)
        self._given_up = given_up
        self._attempts: dict[int, int] = {}
        self._suspects: list[list[int]] = []  # groups of games set apart, any of which may be the one that crashes

    def judge(self, outcomes: Sequence[Outcome]) -> tuple[list[MatchFailure], list[int]]:
        """(the failures among the outcomes, their attempts counted; the games to be played again now)."""
        in_play = self._in_play()
        failures, again, crashed = [], [], []
        for one in outcomes:
            if isinstance(one, MatchGame):
                self.left.discard(one.index)
                continue
            number = one.failed
            attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
            failures.append(one.model_copy(update={"attempt": attempt}))
            if attempt < ATTEMPTS:
                again.append(number)
            elif one.player or in_play == {number}:
                self.left.discard(number)
                self._given_up.add(number)
            else:
                crashed.append(number)
        half = len(crashed) // 2
        self._suspects += [group for group in (crashed[:half], crashed[half:]) if group]
        if self._suspects and not self._in_play():
            again = self._suspects.pop()
        return failures, again

    def _in_play(self) -> set[int]:
        return self.left.difference(*self._suspects)


# In this process


class ThreadPool(WorkerPool):
    """MatchThreads in this process. One that raises loses its games and is replaced by one with fresh players.

    One that hangs can't be replaced: outcomes() and close() raise Hung. watched: whether they look for that; a worker
    process is watched from outside.
    match_threads: by number; None before the first has its players.
    """

    def __init__(self, pairing: Pairing, num_threads: int, num_rows: int, watched: bool = True) -> None:
        self._pairing = pairing
        self._watch = Watch() if watched else None
        self._num_rows = num_rows
        self._arrived: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._problem: BaseException | None = None
        self._games = GameQueue()
        self.match_threads: list[MatchThread | None] = [None] * num_threads
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, numbers: Sequence[int]) -> None:
        self._games.give(numbers)

    def outcomes(self, seconds: float) -> list[Outcome]:
        """Raises the error that kept a thread's players from being made."""
        if self._problem is not None and not self._games.closed:
            raise self._problem
        found: list[Outcome] = []
        while self._problem is None or self._games.closed:
            try:
                one = self._arrived.get(timeout=seconds) if seconds > 0 and not found else self._arrived.get_nowait()
            except queue.Empty:
                break
            if isinstance(one, BaseException):
                self._problem = self._problem or one
            else:
                found.append(one)
        if self._watch is not None and not found and not self._games.closed:
            self._watch.look(self._counts())
        return found

    def close(self) -> None:
        self._games.close()
        if self._watch is not None:
            self._watch.join(self._threads, self._counts)
        for thread in self._threads:
            thread.join()

    def _counts(self) -> list[object]:
        """For the watch. A thread that makes its players has made no step."""
        made = [one and (id(one), one.steps) for one in self.match_threads]
        return [count or () if one.is_alive() else None for one, count in zip(self._threads, made, strict=True)]

    def _run(self, number: int) -> None:
        try:
            while not self._games.closed:
                match_thread = MatchThread(self._pairing, self._num_rows, number, self._games, self._arrived.put)
                self.match_threads[number] = match_thread
                try:
                    match_thread.run()
                except BaseException as error:  # KeyboardInterrupt comes to the main thread, so this is a player's
                    match_thread.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
                finally:
                    match_thread.close()
        except BaseException as error:  # without players there are no games: outcomes() raises it
            self._arrived.put(error)


# In other processes


class ProcessPool(processes.ProcessPool[Outcome]):
    """Worker processes, see workers/processes.py."""

    def __init__(
        self,
        command: Sequence[str],
        jobs: Sequence[dict[str, Any]],
        capacity: int,
        hang_seconds: float,
        environment: dict[str, str] | None = None,
    ) -> None:
        super().__init__(READING, command, jobs, capacity, hang_seconds, environment)
