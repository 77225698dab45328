"""TD(λ): training targets for the positions of recorded games.

L_t was recorded at turn t's throw and C_t after its move (see actor.py):

    G_t = γ·L_t + λ·γ·(other(G_{t+1}) - C_t)          the last turn of a game: G_t = L_t, its result not discounted

other() converts one player's chances into the other's. If L_t = C_t, this is the usual
(1 - λ)·γ·C_t + λ·γ·other(G_{t+1}), where C_t is the network's value of the next position: λ = 0 is TD(0), and λ = 1
learns from the results alone. If L_t is the mean over all throws, the luck of the dice cancels: G_t is L_t plus the
network's later errors, which are free of luck too. All values come from the network that played, so a game's targets
don't depend on when it is gathered.

Shaping rewards are added to the value of the turn that earned them.

Sources: Sutton 1988, "Learning to predict by the methods of temporal differences"; Tesauro 1992; for the expectation
instead of a sample, van Seijen et al. 2009, "Expected Sarsa". Plain twin: tests/reference/td.py.

Axes: K turns of the longest game, G games, O outputs. Games are columns; entries after a game's end are ignored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.families.backgammon.td.outcomes import discounted, seen_by_other
from pipeline.games.contract import FloatArray


def lambda_returns(
    at_throw: FloatArray,
    after_move: FloatArray,
    num_turns: NDArray[np.integer],
    td_lambda: FloatArray,
    gamma: float = 1.0,
    rewards: FloatArray | None = None,
) -> FloatArray:
    """[K, G, O] the target G_t of each turn.

    at_throw, after_move [K, G, O]: L_t and C_t; num_turns [G] ≥ 1, td_lambda [G]
    rewards [K, G]: for a turn's mover, as a fraction of the output's range; only for networks with one output
    """
    targets = np.zeros_like(at_throw)
    for turn in range(len(at_throw) - 1, -1, -1):
        going = num_turns > turn
        here = at_throw[turn, going]
        goes_on = num_turns[going] > turn + 1
        if goes_on.any():
            later = seen_by_other(targets[turn + 1, going][goes_on]) - after_move[turn, going][goes_on]
            weight = (td_lambda[going][goes_on] * gamma).astype(np.float32)
            here[goes_on] = discounted(here[goes_on], gamma) + weight[:, None] * later
        if rewards is not None:
            here[:, 0] = np.clip(here[:, 0] + rewards[turn, going], 0, 1)
        targets[turn, going] = here
    return targets
