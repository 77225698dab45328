"""Heuristic evaluation of moves in shogi: material, mates, captures, hanging pieces.

Axes: n positions, M moves (of all positions together), A actions, S state words, P points. Scores as in
games/heuristic.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.compiled_kernels import kernel
from pipeline.families.shogi import kernels
from pipeline.families.shogi.board import (
    EMPTY,
    HAND_KINDS,
    KING,
    OPPOSITE,
    PAWN,
    SLIDES,
    STEPS,
    STRAIGHT,
    THEIRS,
    Geometry,
    part,
)
from pipeline.families.shogi.features import count_attacks
from pipeline.games.contract import History, Scores, States
from pipeline.games.heuristic import scores_of_positions

if TYPE_CHECKING:
    from pipeline.families.shogi.game import Shogi

# In pawns, by kind. A piece in hand is worth a little more, because it can be dropped anywhere.
WORTH = np.array([0, 1, 3, 3, 5, 6, 8, 10, 0, 4, 5, 5, 6, 0, 11, 13], np.float64)
IN_HAND = 1.15
THREATENED = 0.1  # weight of hanging pieces but the most valuable one: they can be saved later
AROUND_KING = 0.3  # for each point beside a king that the other player attacks
CHECK = 0.3


def move_scores(game: Shogi, states: States, history: History) -> Scores:
    """[n, A] material after each move, minus what the opponent can capture at once; a mate decides."""

    def leads(after: States) -> Scores:
        moved = np.where(game.to_move(after) == 1, 1.0, -1.0)  # whether the first player has just moved
        return moved * evaluate(np.ascontiguousarray(after), game.geometry)

    return scores_of_positions(game, states, history, leads)


@part
def cheapest_attacker(view, beside, point):  # type: ignore[no-untyped-def]
    """The worth of the cheapest piece of the mover that attacks a point; 1000 for a king, infinite if there is none."""
    least = np.inf
    for direction in range(10):
        back = OPPOSITE[direction]
        at = beside[point, back]
        found = view[at]
        slid = False
        while found == EMPTY and direction < STRAIGHT:
            slid = True
            at = beside[at, back]
            found = view[at]
        if 0 < found < THEIRS and (((SLIDES[found] if slid else STEPS[found] | SLIDES[found]) >> direction) & 1):
            least = min(least, 1000.0 if found == KING else WORTH[found])
    return least


@kernel
def evaluate(states: States, geometry: Geometry) -> Scores:
    """-> [M] the material advantage of the player who has just moved, minus the most that the opponent can capture."""
    num_rows, state_size = states.shape
    words, num_points = state_size - kernels.EXTRA_WORDS, geometry.rows.size - 1
    all_bytes = states.view(np.int8)
    view, hands = np.empty(num_points + 1, np.int8), np.zeros((2, HAND_KINDS + 1), np.int8)
    attacks = np.empty((2, num_points + 1), np.uint8)
    standing = np.zeros(num_rows, np.float64)
    for row in range(num_rows):
        state = states[row]
        mover = np.int64(state[words + kernels.TO_MOVE])  # the opponent of the player whose advantage it is
        kernels.see(all_bytes[row], mover, num_points, view, hands)
        count_attacks(view, geometry.beside, attacks)
        total = CHECK * (state[words + kernels.KEY] & 1)
        for kind in range(PAWN, HAND_KINDS + 1):
            total += IN_HAND * WORTH[kind] * (hands[1, kind] - hands[0, kind])
        dearest, hanging = 0.0, 0.0
        for point in range(num_points):
            piece = view[point]
            if piece == EMPTY:
                continue
            if piece & 15 == KING:
                attackers, sign = (0, -1.0) if piece & THEIRS else (1, 1.0)
                for direction in range(STRAIGHT):
                    beside = geometry.beside[point, direction]
                    total += sign * AROUND_KING * (attacks[attackers, beside] > 0 and beside < num_points)
                continue
            if not piece & THEIRS:
                total -= WORTH[piece]
                continue
            total += WORTH[piece & 15]
            if attacks[0, point]:
                # A capture also adds a piece to the hand.
                loss = WORTH[piece & 15] + WORTH[piece & 7]
                if attacks[1, point]:
                    attacker = cheapest_attacker(view, geometry.beside, point)
                    loss = 0.0 if attacker >= 1000.0 else max(0.0, loss - 2 * attacker)
                hanging += loss
                dearest = max(dearest, loss)
        standing[row] = total - dearest - THREATENED * (hanging - dearest)
    return standing
