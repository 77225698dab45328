"""``restriction``: which moves a search leaves out, from what protocols say: the argument of BatchSearch.restrict()."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_PLIES = np.iinfo(np.int16).max


class Moves(NamedTuple):
    """Moves of a player, for the plies of a search before `until`: 1 means its root alone."""

    player: int
    actions: Sequence[int]
    until: int = 1


def restriction(num_actions: int, avoid: Iterable[Moves] = (), allow: Iterable[Moves] = ()) -> NDArray[np.int16]:
    """[2, A]: by player and action, the first ply at which a search may try the move.

    A move that is named more than once is left out for the longest time. allow: of a player who is named, no other
    moves are searched; if he is named more than once, the moves of all lists are allowed.
    """
    until = np.zeros((2, num_actions), np.int16)
    allowed = np.zeros((2, num_actions), np.bool_)
    others = np.zeros(2, np.int16)
    for moves in allow:
        allowed[moves.player, list(moves.actions)] = True
        others[moves.player] = max(others[moves.player], min(moves.until, MOST_PLIES))
    until[:] = np.where(allowed, 0, others[:, None])
    for moves in avoid:
        here = list(moves.actions)
        until[moves.player, here] = np.maximum(until[moves.player, here], min(moves.until, MOST_PLIES))
    return until
