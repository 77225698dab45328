"""``ProcessPlayer``: a player whose moves come from programs behind pipes, in any protocol.

A player asks its processes one after another, from a thread of its own, so a match uses as many cores as it has
players. A process is ended after any fault, and the next question that needs it starts a new one.
"""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import Actions, AnyGame, History, KeyArray, States
from pipeline.players.engine_process import PipedEngine, close_engines
from pipeline.players.player import Boards, Decisions, Player, PlayerFault, Rows

JOIN_SECONDS = 10.0  # the thread ends sooner, unless the system hangs

E = TypeVar("E", bound=PipedEngine)


@dataclass(eq=False)
class Question:
    """A move asked for by begin(). Only `dropped` ever changes, so that the player's thread may read the rest.

    game_number  counts the games of this row
    stones       the first player's handicap
    state        [1, S] after the moves
    dropped      whether the answer is no longer needed
    """

    row: int
    game_number: int
    seed: int
    moves: tuple[int, ...]
    stones: tuple[int, ...]
    state: States
    history: History
    dropped: bool = False


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
        self._waiting: dict[int, Question] = {}  # by row
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: deque[tuple[Question, int | PlayerFault]] = deque()
        self._answered = threading.Event()  # since the last step()
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
            self._waiting[row] = question
            self._questions.put(question)

    def drop(self, rows: Rows) -> None:
        """Ignore the answers for these rows. A thinking engine isn't stopped, as not every protocol can."""
        for row in rows.tolist():
            question = self._waiting.pop(row, None)
            if question is not None:
                question.dropped = True

    def step(self) -> Decisions:
        """The moves that have arrived; doesn't wait."""
        self._answered.clear()
        actions: dict[int, int] = {}
        faults: dict[int, PlayerFault] = {}
        while self._answers:
            question, answer = self._answers.popleft()
            if self._waiting.get(question.row) is not question:
                continue
            del self._waiting[question.row]
            if isinstance(answer, PlayerFault):
                faults[question.row] = answer
            else:
                actions[question.row] = answer
        return Decisions(
            np.array(list(actions), np.int64),
            np.array(list(actions.values()), np.int32),
            np.full(len(actions), np.nan, np.float32),
            faults,
            worked=bool(actions or faults),
        )

    def wait(self, seconds: float) -> None:
        self._answered.wait(seconds)

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
        while (question := self._questions.get()) is not None:
            if question.dropped or self._closing:
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
            self._answers.append((question, answer))
            self._answered.set()
        close_engines(list(self._engines.values()))

    def _answer(self, key: int, question: Question) -> int:
        is_new = key not in self._engines
        if is_new:
            self._engines[key] = self._start()
        with self._interruptible(self._engines[key]) as engine:
            return self._ask(engine, question, is_new)

    @contextmanager
    def _interruptible(self, engine: E) -> Iterator[E]:
        """Let close() interrupt the engine meanwhile. Raises PlayerFault if the player was closed."""
        with self._lock:
            if self._closing:
                raise PlayerFault("broken", self._name, "was closed")
            self._asked = engine
        try:
            yield engine
        finally:
            with self._lock:
                self._asked = None
