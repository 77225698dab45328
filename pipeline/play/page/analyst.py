"""``Analyst``: a model that chooses moves and explains positions for all tables that play its game, one at a time.

Whatever it says of a position is seen by the player to move there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import MuGoError
from pipeline.games.contract import FloatArray, Game, States
from pipeline.play.findings import Findings, winrate
from pipeline.play.session import SearchSession

MOST_WAITING = 8  # searches that wait for one model; more are turned away
MOST_CANDIDATES = 8
SEARCH_SECONDS = 30.0


class Refused(MuGoError):
    """A request that can't be followed now; status: of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Line:
    """A position and how it came about: start [1, S] (None: the game's initial one), then (player, action)."""

    game: Game
    start: States | None
    moves: tuple[tuple[int, int], ...]


class Analyst:
    """A search session behind a lock. Its tree is kept where a line goes on from the one before it.

    specs     of the games that the model plays here
    stopping: set when the server ends; searches then stop after their batch
    """

    def __init__(
        self, name: str, specs: Sequence[str], session: SearchSession, findings: Findings, stopping: threading.Event
    ) -> None:
        """name: the model's."""
        self.name, self.specs = name, specs
        self._session, self._findings, self._stopping = session, findings, stopping
        self._lock, self._places = threading.Lock(), threading.Semaphore(MOST_WAITING)
        self._start: States | None = None
        self._players: list[int] = []  # who made the moves of the session

    def komi_in(self, game: Game) -> float | None:
        """What it takes komi to be in this game: its own, unless its network is told; None where there is none."""
        own = self._session.game
        return (own.as_seen(game) or own).komi

    def choose(self, line: Line, readouts: int, stale: Callable[[], bool]) -> tuple[int, dict[str, Any]]:
        """(the move to play, what was found). stale: whether nobody wants the answer any more; the search then ends."""
        with self._searched(line, readouts, stale) as session:
            return session.best(), self._found()

    def analyse(self, line: Line, readouts: int, stale: Callable[[], bool]) -> dict[str, Any]:
        """What was found: see _found. stale: as for choose."""
        with self._searched(line, readouts, stale):
            return self._found()

    def owners(self, line: Line) -> FloatArray | None:
        """[P] who is expected to own each point, +1 the first player; None if the model has no opinion."""
        with self._asked():
            self._stand_at(line)
            ownership = self._findings.ownership()
            return ownership if ownership is None or self._session.to_move == 0 else -ownership

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Wait for the session. Raises Refused if too many wait already."""
        if not self._places.acquire(blocking=False):
            raise Refused(503, f"{self.name} has {MOST_WAITING} searches waiting; try again in a moment")
        try:
            with self._lock:
                yield
        finally:
            self._places.release()

    @contextlib.contextmanager
    def _searched(self, line: Line, readouts: int, stale: Callable[[], bool]) -> Iterator[SearchSession]:
        """Search the line's last position, once the session is free."""
        with self._asked():
            self._stand_at(line)
            until = time.monotonic() + SEARCH_SECONDS
            self._session.search_until(
                lambda: time.monotonic() >= until or self._stopping.is_set() or stale(), readouts
            )
            yield self._session

    def _stand_at(self, line: Line) -> None:
        """Play the line in the session, from where it parts from the line before."""
        session = self._session
        game = session.game.as_seen(line.game)
        changes = game is not None and game.spec != session.game.spec
        if game is not None and changes:
            session.change_game(game)
        if changes or line.start is not self._start:
            self._start, self._players = line.start, []
            session.restart(None if line.start is None else session.game.adopt(line.start))
        common, before = 0, tuple(zip(self._players, session.moves, strict=True))
        while common < min(len(before), len(line.moves)) and before[common] == line.moves[common]:
            common += 1
        for _ in before[common:]:
            session.undo()
        del self._players[common:]
        for player, action in line.moves[common:]:
            session.play(action, player)
            self._players.append(player)

    def _found(self) -> dict[str, Any]:
        """candidates: as in findings.py; policy [A]; winrate; visits; lead and ownership [P], or None."""
        ownership = self._findings.ownership()
        return {
            "candidates": self._findings.candidates(MOST_CANDIDATES),
            "policy": self._session.policy(),
            "winrate": winrate(self._session.value_to_move()),
            "visits": self._findings.root()["visits"],
            "lead": self._findings.lead(),
            "ownership": None if ownership is None else np.asarray(ownership),
        }
