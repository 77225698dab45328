"""Sequential halving: which moves of the root get the next readout, as a table of visit counts.

The next readout goes to the best of those moves that have exactly the tabled number of visits. First every considered
move gets one, then the better half more, and so on down to two; that the scores pick the half is what makes it
halving, no list of survivors is kept.

Sources: Karnin et al. 2013, "Almost Optimal Exploration in Multi-Armed Bandits"; Danihelka et al. 2022, "Policy
improvement by planning with Gumbel", algorithm 2; the table as in mctx, mctx/_src/seq_halving.py.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.base import IntArray


def considered_visits(num_considered: int, readouts: int) -> list[int]:
    """[readouts] how many visits the move has that gets each readout, when so many moves are considered.

    A budget too small for one visit each ends within the first round; 0 or 1 moves get every readout.
    """
    if num_considered <= 1:
        return list(range(readouts))
    num_rounds = (num_considered - 1).bit_length()  # ceil(log2)
    given = [0] * num_considered  # visits so far, the survivors first
    sequence: list[int] = []
    survivors = num_considered
    while len(sequence) < readouts:
        for _ in range(max(1, readouts // (num_rounds * survivors))):
            sequence += given[:survivors]
            given[:survivors] = [visits + 1 for visits in given[:survivors]]
        survivors = max(2, survivors // 2)
    return sequence[:readouts]


def halving_table(most_considered: int, readouts: int) -> IntArray:
    """[most_considered + 1, readouts] int32: a line of considered_visits for each number of moves considered."""
    return np.array([considered_visits(m, readouts) for m in range(most_considered + 1)], np.int32)
