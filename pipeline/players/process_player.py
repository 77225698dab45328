"""``ProcessPlayer``: a player whose moves come from programs behind pipes, in any protocol.

A player asks its processes one after another, from a thread of its own, so a match uses as many cores as it has
players. A process is ended after any fault, and the next question that needs it starts a new one.
"""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import Actions, AnyGame, History, KeyArray, States
from pipeline.players.engine_process import PipedEngine, close_engines
from pipeline.players.player import Boards, Decisions, Player, PlayerFault, Rows

JOIN_SECONDS = 10.0  # the thread ends sooner, unless the system hangs

E = TypeVar("E", bound=PipedEngine)


@dataclass(frozen=True, eq=False)
class Question:
    """A move asked for by begin().

    game_number  counts the games of this row
    stones       the first player's handicap
    state        [1, S] after the moves
    """

    row: int
    game_number: int
    seed: int
    moves: tuple[int, ...]
    stones: tuple[int, ...]
    state: States
    history: History


class ProcessPlayer(Player, Generic[E]):
    """Asks processes from its own thread. A subclass words the questions.

    Starts no process until the first move is asked for. Without close() the thread lives as long as this process.
    per_row  whether each row has a process of its own, kept for the row's later games; else one serves all rows
    """

    per_row: ClassVar[bool] = False

    def __init__(self, game: AnyGame, num_rows: int, name: str, start: Callable[[], E]) -> None:
        """start: starts a process. Raises PlayerFault, UsageError if there is no such program."""
        self._game = game
        self._name = name
        self._start = start
        self._engines: dict[int, E] = {}  # by row, or of row 0 alone; used by the player's thread only
        self._boards = Boards(game, num_rows)
        self._moves: list[list[int]] = [[] for _ in range(num_rows)]
        self._stones: list[tuple[int, ...]] = [()] * num_rows
        self._seeds = np.zeros(num_rows, np.uint64)
        self._game_numbers = [0] * num_rows
        self._answers: dict[int, Future[int | PlayerFault]] = {}  # awaited, by row
        self._questions: queue.SimpleQueue[tuple[Question, Future[int | PlayerFault]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # protects the two below
        self._closing = False
        self._asked: PipedEngine | None = None  # the engine whose answer the thread awaits
        self._thread = threading.Thread(target=self._answer_questions, name=f"engines of {name}", daemon=True)
        self._thread.start()

    @abstractmethod
    def _ask(self, engine: E, question: Question, is_new: bool) -> int:
        """The engine's move, or RESIGN. is_new: this is the engine's first question. Raises PlayerFault."""

    def _allowed(self, question: Question, text: str, action: int, hint: str = "") -> int:
        """The action. Raises PlayerFault "illegal" if the rules forbid it. text: the move in the engine's answer."""
        try:
            self._game.play(question.state, np.array([action], np.int32), question.history)
        except IllegalMove as error:
            reason = str(error).rsplit(": ", 1)[-1]
            problem = f"chose {text} at ply {len(question.moves)}, which {self._game.spec} forbids: {reason}{hint}"
            raise PlayerFault("illegal", self._name, problem) from None
        return action

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self.drop(rows)
        self._boards.new_games(rows)
        self._seeds[rows] = seeds
        for row in rows.tolist():
            self._moves[row] = []
            self._stones[row] = ()
            self._game_numbers[row] += 1

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        self._boards.set_up(rows, states)
        for row, points in zip(rows.tolist(), stones, strict=True):
            self._stones[row] = tuple(points)

    def advance(self, rows: Rows, actions: Actions) -> None:
        self._boards.advance(rows, actions)
        self.drop(rows)
        for row, action in zip(rows.tolist(), np.asarray(actions).tolist(), strict=True):
            self._moves[row].append(action)

    def begin(self, rows: Rows) -> None:
        self.drop(rows)
        for row in rows.tolist():
            question = Question(
                row,
                self._game_numbers[row],
                int(self._seeds[row]),
                tuple(self._moves[row]),
                self._stones[row],
                self._boards.states[[row]],
                self._boards.history.select(np.array([row])),
            )
            self._answers[row] = answer = Future[int | PlayerFault]()
            with self._lock:
                if self._closing:  # nobody answers any more
                    answer.set_result(PlayerFault("broken", self._name, "was closed"))
                else:
                    self._questions.put((question, answer))

    def drop(self, rows: Rows) -> None:
        """Ignore the answers for these rows. A thinking engine isn't stopped, as not every protocol can."""
        for row in rows.tolist():
            if row in self._answers:
                self._answers.pop(row).cancel()

    def step(self) -> Decisions:
        """The moves that have arrived; doesn't wait."""
        actions: dict[int, int] = {}
        faults: dict[int, PlayerFault] = {}
        for row in [row for row, answer in self._answers.items() if answer.done()]:
            answer = self._answers.pop(row).result()
            if isinstance(answer, PlayerFault):
                faults[row] = answer
            else:
                actions[row] = answer
        return Decisions.arrived(actions, faults)

    def wait(self, seconds: float) -> None:
        wait(self._answers.values(), seconds, FIRST_COMPLETED)

    def close(self) -> None:
        """End all processes. A thinking engine is killed; the others are asked to quit first."""
        with self._lock:
            self._closing = True
            if self._asked is not None:
                self._asked.interrupt()
            self._questions.put(None)
        self._thread.join(JOIN_SECONDS)

    # The methods below run in the player's thread.

    def _answer_questions(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, future = asked
            if self._closing or not future.set_running_or_notify_cancel():
                continue
            key = question.row if self.per_row else 0
            try:
                answer: int | PlayerFault = self._answer(key, question)
            except PlayerFault as fault:
                answer = fault
            except UsageError as error:  # the program existed when the player was made
                answer = PlayerFault("broken", self._name, str(error))
            except Exception as error:  # fails this row only
                answer = PlayerFault("crash", self._name, f"{type(error).__name__}: {error}")
            if isinstance(answer, PlayerFault) and key in self._engines:
                self._engines.pop(key).kill()
            future.set_result(answer)
        close_engines(list(self._engines.values()))

    def _answer(self, key: int, question: Question) -> int:
        is_new = key not in self._engines
        if is_new:
            self._engines[key] = self._start()
        with self._lock:
            if self._closing:
                raise PlayerFault("broken", self._name, "was closed")
            self._asked = engine = self._engines[key]
        try:
            return self._ask(engine, question, is_new)
        finally:
            with self._lock:
                self._asked = None
