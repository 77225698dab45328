"""``MateSearch``: whether the player to move can mate by checks alone, by depth-first proof-number search (df-pn).

The attacker plays moves that give check, the defender all its moves. Each position has two numbers from the view of its
player to move. *phi* is the least number of positions that must still be decided to prove that the player reaches its
goal (for the attacker, mate; for the defender, no mate); *delta* is the same for the opposite. 0 means proven, INFINITE
disproven. A position that is already on the search's path counts as no mate, because perpetual check loses. Positions
are identified by pieces, hands and turn, so "no mate" may be wrong if only a repetition on another path prevents one; a
mate that is found is always correct.

Plain Python, some thousand positions a second. Source: Nagai 2002, "Df-pn Algorithm for Searching AND/OR Trees and Its
Applications", chapter 3.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.games.contract import History, States

INFINITE = 1 << 40
LONGEST = 200  # plies of a line of play
ASK_EVERY = 64  # positions between two calls of enough()
MOST_KNOWN = 2_000_000  # positions, some gigabytes; a search without a limit would take all memory


class Mate(enum.Enum):
    """Why there are no moves that mate: there is no mate, or the search was stopped before it knew."""

    NONE = "nomate"
    UNKNOWN = "timeout"


@dataclass(eq=False)
class _Position:
    """phi, delta: see the module docstring. moves: None until _look() finds them."""

    state: States  # [1, S]
    phi: int = 1
    delta: int = 1
    moves: list[tuple[int, _Position]] | None = None
    length: int = -1  # plies to mate, once that is proven and computed


class _Stopped(Exception):
    pass


class MateSearch:
    """One search. See the module docstring."""

    def __init__(self, game: Shogi, enough: Callable[[], bool] = lambda: False) -> None:
        """enough: called now and then; True ends the search."""
        # Nobody declares on the way to a mate.
        self._game, self._enough = Shogi(game.size, kernels.NO_RULE).without_move_limit(), enough
        self._known: dict[int, _Position] = {}
        self._path: set[int] = set()
        self.positions = 0  # searched

    def find(self, state: States) -> tuple[int, ...] | Mate:
        """Both players' actions that lead to mate from state [1, S], or Mate.

        Among the lines searched, the attacker chooses the shortest, the defender the longest.
        """
        state = self._game.played_on(state)
        root = self._known[int(self._game.keys(state)[0])] = _Position(state)
        try:
            self._search(root, INFINITE, INFINITE, True, 0)
        except _Stopped:
            return Mate.UNKNOWN
        if root.phi != 0:
            return Mate.NONE if root.delta == 0 else Mate.UNKNOWN
        return tuple(self._line(root))

    def _search(self, here: _Position, most_phi: int, most_delta: int, attacks: bool, depth: int) -> None:
        """Search below a position until its phi or delta reaches its limit."""
        if here.moves is None:
            self._look(here, attacks)
        moves = here.moves
        assert moves is not None
        self._path.add(id(here))
        try:
            while True:
                numbers = [self._seen(child, attacks) for _, child in moves]
                here.phi = min((delta for _, delta in numbers), default=INFINITE)
                here.delta = min(INFINITE, sum(phi for phi, _ in numbers))
                if here.phi >= most_phi or here.delta >= most_delta:
                    return
                if depth >= LONGEST:
                    raise _Stopped
                order = sorted(range(len(moves)), key=lambda i: numbers[i][1])
                best = order[0]
                second = numbers[order[1]][1] if len(order) > 1 else INFINITE
                child_phi = most_delta - here.delta + numbers[best][0]
                self._search(moves[best][1], child_phi, min(most_phi, second + 1), not attacks, depth + 1)
        finally:
            self._path.discard(id(here))

    def _seen(self, child: _Position, attacks: bool) -> tuple[int, int]:
        """A child's phi and delta; no mate if it is on the path. attacks: whether the attacker's move leads to it."""
        if id(child) in self._path:
            return (0, INFINITE) if attacks else (INFINITE, 0)
        return child.phi, child.delta

    def _look(self, here: _Position, attacks: bool) -> None:
        """Find the moves: the attacker's checks, or all of the defender's."""
        self.positions += 1
        if len(self._known) > MOST_KNOWN or (self.positions % ASK_EVERY == 0 and self._enough()):
            raise _Stopped
        game = self._game
        history = History(np.zeros((1, 4), np.uint64), np.zeros(1, np.int32))
        here.moves = []
        actions = np.flatnonzero(game.legal(here.state, history)[0]).astype(np.int32)
        if actions.size == 0 or game.is_over(here.state)[0]:
            return
        after = game.play(here.state.repeat(len(actions), 0), actions, history.select(np.zeros(len(actions), np.int64)))
        if attacks:
            checks = game.in_check(after)
            actions, after = actions[checks], after[checks]
        for action, key, state in zip(actions.tolist(), game.keys(after).tolist(), after, strict=True):
            child = self._known.get(key)
            if child is None:
                child = self._known[key] = _Position(state[None])
                self._count(child, not attacks)
            here.moves.append((action, child))

    def _count(self, child: _Position, attacks: bool) -> None:
        """A new position's first numbers: decided if the game is over."""
        if self._game.is_over(child.state)[0]:
            won = self._game.returns(child.state)[0] == (1 if self._game.to_move(child.state)[0] else -1)
            mated = bool(won) and not attacks  # the defender to move has lost
            child.phi, child.delta = (INFINITE, 0) if mated or attacks else (0, INFINITE)
            child.moves = []

    def _line(self, here: _Position) -> list[int]:
        """The line of play through proven positions: the attacker's shortest, the defender's longest."""
        line: list[int] = []
        attacks, passed = True, {id(here)}
        while here.moves:
            proven = [(action, child) for action, child in here.moves if (child.delta if attacks else child.phi) == 0]
            lengths = [self._length(child, not attacks, set(passed)) for _, child in proven]
            action, here = proven[(np.argmin if attacks else np.argmax)(lengths)]
            line.append(action)
            passed.add(id(here))
            attacks = not attacks
        return line

    def _length(self, here: _Position, attacks: bool, passed: set[int]) -> int:
        """Plies to mate from a position where mate is proven; INFINITE if the way returns to an earlier position."""
        if here.length >= 0:
            return here.length
        if id(here) in passed:
            return INFINITE
        passed.add(id(here))
        moves = here.moves or []
        below = [
            self._length(child, not attacks, passed)
            for _, child in moves
            if (child.delta if attacks else child.phi) == 0
        ]
        passed.discard(id(here))
        found = min(INFINITE, 1 + (min if attacks else max)(below)) if below else 0
        if found < INFINITE:
            here.length = found
        return found
