"""``Analyst``: a model that chooses moves and analyses positions for all tables that play its game, one at a time.

Everything it says of a position is seen by the player to move there. The model is loaded in the background once
somebody chooses it as an opponent, or when it is first asked for something.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.errors import MuGoError
from pipeline.games.capabilities import komi_of, seen_by
from pipeline.games.contract import FloatArray, Game
from pipeline.play.findings import Findings, winrate
from pipeline.play.game_in_progress import Line
from pipeline.play.page.later import LoadedLater
from pipeline.play.session import SearchSession

MOST_WAITING = 8  # searches that wait for one model; more are refused
MOST_CANDIDATES = 8
SEARCH_SECONDS = 30.0


class Refused(MuGoError):
    """A request that can't be granted now. status: the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Analyst:
    """A search session behind a lock. It keeps its tree if a line continues the previous one.

    game: the model's; boards: the games that it plays here, by board_title.
    """

    def __init__(
        self,
        name: str,
        game: Game,
        boards: Mapping[str, Game],
        model: LoadedLater[tuple[SearchSession, Findings]],
        stopping: threading.Event,
    ) -> None:
        """name: the model's. stopping: set when the server ends; searches then stop after their batch."""
        self.name, self.game, self.boards, self.model = name, game, boards, model
        self._stopping = stopping
        self._lock, self._places = threading.Lock(), threading.Semaphore(MOST_WAITING)

    def plays(self, game: Game) -> bool:
        return game.board_title in self.boards and seen_by(self.game, game) is not None

    def komi_in(self, game: Game) -> float | None:
        """The komi that the model assumes in this game: its own, unless its network sees komi; None without komi."""
        return komi_of(seen_by(self.game, game) or self.game)

    def search(
        self, line: Line, readouts: int, stale: Callable[[], bool], plays: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Search the line's last position, once the session is free. Raises Refused if too many searches wait already.

        stale: whether the answer is no longer needed; the search then ends after its batch. plays: whether the move
        will be played: then it may come from a second search (players/endings.py).
        Returns the best move and what was found: candidates, as in findings.py; policy [A]; winrate; visits; lead
        and ownership [P], or None.
        """
        with self._session_at(line) as (session, findings):
            until = time.monotonic() + SEARCH_SECONDS

            def over() -> bool:
                return time.monotonic() >= until or self._stopping.is_set() or stale()

            session.search_until(over, readouts)
            return session.decide(over, readouts) if plays else session.best(), {
                "candidates": findings.candidates(MOST_CANDIDATES),
                "policy": session.policy(),
                "winrate": winrate(session.value_to_move()),
                "visits": findings.root()["visits"],
                "lead": findings.lead(),
                "ownership": findings.ownership(),
            }

    def owners(self, line: Line) -> FloatArray | None:
        """[P] the expected owner of each point, +1 the first player; None if the model doesn't estimate owners."""
        with self._session_at(line) as (session, findings):
            ownership = findings.ownership()
            return ownership if ownership is None or session.to_move == 0 else -ownership

    @contextlib.contextmanager
    def _session_at(self, line: Line) -> Iterator[tuple[SearchSession, Findings]]:
        """Wait for the session. Raises Refused if too many wait already or the model can't be loaded."""
        if not self._places.acquire(blocking=False):
            raise Refused(503, f"{self.name} has {MOST_WAITING} searches waiting; try again in a moment")
        try:
            session, findings = self.model.get()
            with self._lock:
                session.follow(line)
                yield session, findings
        finally:
            self._places.release()
