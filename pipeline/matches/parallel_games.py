"""Play the games of a match in parallel, and retry those that fail.

An outcome is a game or a failure; as JSON it is {"game": MatchGame} or {"failure": MatchFailure}.
ThreadPool plays in this process, with a MatchThread in each thread; workers/ has pools of processes and Ray actors.
conduct() gives a pool its games, and failed games again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pipeline.matches.match import GameQueue, MatchThread, Outcome, Pairing
from pipeline.run.matches import MatchFailure, MatchGame
from pipeline.stalls import Watch
from pipeline.workers import worker_pool

ATTEMPTS = 2  # at each game

WorkerPool = worker_pool.WorkerPool[Outcome]


def json_of(outcome: Outcome) -> dict[str, Any]:
    kind = "game" if isinstance(outcome, MatchGame) else "failure"
    return {kind: outcome.model_dump(mode="json")}


def _outcome_of(said: dict[str, Any]) -> tuple[int, Outcome]:
    """(the game's number, the outcome) from json_of(). Raises ValueError, TypeError or KeyError for anything else."""
    if "game" in said:
        game = MatchGame.model_validate(said["game"])
        return game.index, game
    failure = MatchFailure.model_validate(said["failure"])
    return failure.failed, failure


def _lost(number: int, problem: str) -> Outcome:
    return MatchFailure(failed=number, attempt=1, kind="crash", player="", problem=problem, moves=[])


READER: worker_pool.OutcomeReader[Outcome] = worker_pool.OutcomeReader(_outcome_of, _lost)


def conduct(
    pool: WorkerPool,
    numbers: Sequence[int],
    on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool],
    given_up: set[int] | None = None,
) -> None:
    """Let the pool play the games, with up to ATTEMPTS at each, then close it.

    When a thread or worker crashes, any of its games may be the cause. So games that used up their attempts in company
    are tried again in smaller and smaller groups, until the guilty one crashes alone.

    on_outcomes  called with the outcomes since the last call; returns whether to play on. After False, or on
                 KeyboardInterrupt, the pool is closed, and on_outcomes gets the games that had ended by then
    given_up     gets the numbers of games that won't be tried again, before on_outcomes gets the failure
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
    """The games still to be played and the attempts at each. left: games neither finished nor given up."""

    def __init__(self, numbers: Collection[int], given_up: set[int]) -> None:
        self.left = set(numbers)
        self._given_up = given_up
        self._attempts: dict[int, int] = {}
        self._suspects: list[list[int]] = []  # groups of games to be tried apart, as any may be the one that crashes

    def judge(self, outcomes: Sequence[Outcome]) -> tuple[list[MatchFailure], list[int]]:
        """(the failures among the outcomes, with their attempts; the games to be played again now)."""
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


class ThreadPool(WorkerPool):
    """MatchThreads in this process. One that raises loses its games and is replaced by one with fresh players.

    watched        whether outcomes() and close() raise Hung for a thread that hangs, as it can't be replaced; worker
                   processes are watched from outside
    match_threads  by number; None until its players are made
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
        """For the watch. A thread that is making its players has made no step."""
        made = [one and (id(one), one.steps) for one in self.match_threads]
        return [count or () if one.is_alive() else None for one, count in zip(self._threads, made, strict=True)]

    def _run(self, number: int) -> None:
        try:
            while not self._games.closed:
                match_thread = MatchThread(self._pairing, self._num_rows, number, self._games, self._arrived.put)
                self.match_threads[number] = match_thread
                try:
                    match_thread.run()
                except BaseException as error:  # a player's: KeyboardInterrupt is raised in the main thread
                    match_thread.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
                finally:
                    match_thread.close()
        except BaseException as error:  # the players can't be made: outcomes() raises it
            self._arrived.put(error)
