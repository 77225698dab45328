"""What a search found, under the names of KataGo's analysis: shared by the protocols and the board page.

Everything here is seen by the player to move; a caller that reports another viewpoint converts it.

    winrate    (value + 1) / 2: a draw counts as half a win          utility  the value, in [-1, 1]
    lcb        lower end of the winrate's 95 % interval, as if each readout were a game won or lost
    scoreLead  points, estimated by the network without search
    prior      the network's policy, without noise                   order    0 is the best
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.games.contract import FloatArray, Planes
from pipeline.play.game_in_progress import Position
from pipeline.play.session import SearchedRow
from pipeline.search.batch import Candidate

if TYPE_CHECKING:
    from pipeline.networks.modules import Estimates

Z = 1.96  # two-sided, 95 %


def winrate(value_to_move: float) -> float:
    return (value_to_move + 1) / 2


class Findings:
    """Reads what the search and the network of a session or a row found in its present position."""

    def __init__(self, session: SearchedRow, estimate: Callable[[Planes], Estimates] | None) -> None:
        """estimate: None for games without a score, whose points' owners would say no more than the board."""
        self.session, self._estimate = session, estimate
        self._of: Position | None = None  # the position that the estimates belong to
        self._estimates: dict[int | None, tuple[FloatArray, float]] = {}  # by move, None: no move; ownership [P], lead

    def ownership(self, action: int | None = None) -> FloatArray | None:
        """[P] in [-1, 1], +1 the player to move; action: after this legal move."""
        return found[0] if (found := self._estimated(action)) else None

    def lead(self, action: int | None = None) -> float | None:
        return found[1] if (found := self._estimated(action)) else None

    def candidates(self, most: int) -> list[dict[str, Any]]:
        """The fields of at most `most` moves, best first; ``pv`` is a list of names of moves."""
        found = self.session.candidates()[:most]
        self._look([candidate.action for candidate in found])
        return [self._fields(order, candidate) for order, candidate in enumerate(found)]

    def root(self) -> dict[str, Any]:
        """The fields of the position itself."""
        value = self.session.value_to_move()
        visits = sum(candidate.visits for candidate in self.session.candidates())
        return {"visits": visits, "utility": value, "winrate": winrate(value), **self._score(self.lead())}

    def _fields(self, order: int, candidate: Candidate) -> dict[str, Any]:
        game, share = self.session.game, winrate(candidate.value_to_move)
        spread = Z * math.sqrt(max(share * (1 - share), 0.0) / max(candidate.visits, 1))
        return {
            "move": game.move_name(self.session.state[0], candidate.action),
            "visits": candidate.visits,
            "utility": candidate.value_to_move,
            "winrate": share,
            **self._score(self.lead(candidate.action)),
            "prior": candidate.prior,
            "lcb": max(0.0, share - spread),
            "order": order,
            "pv": game.line_names(self.session.state, candidate.variation),
        }

    def _estimated(self, action: int | None) -> tuple[FloatArray, float] | None:
        self._look([] if action is None else [action])
        return self._estimates.get(action)

    @staticmethod
    def _score(lead: float | None) -> dict[str, float]:
        return {} if lead is None else {"scoreLead": lead, "scoreMean": lead}

    def _look(self, actions: Sequence[int]) -> None:
        """Estimate the position and the positions after these moves, unless they are known already."""
        if self._estimate is None:
            return
        here = self.session.here()
        if self._of is None or not np.array_equal(here.state, self._of.state) or len(here.keys) != len(self._of.keys):
            self._of, self._estimates = here, {}
        new = [action for action in actions if action not in self._estimates]
        if new or not self._estimates:
            found = self._estimate(self.session.planes(new))
            self._estimates[None] = found.ownership[0], float(found.score[0])
            for action, owners, score in zip(new, found.ownership[1:], found.score[1:], strict=True):
                self._estimates[action] = -owners, -float(score)
