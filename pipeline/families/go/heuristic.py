"""Heuristic evaluation of moves in Go: captures, rescue, atari, shape.

Axes: n positions, M moves (of all positions together), A actions, S state words, P points. Scores as in
games/heuristic.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.families.go import groups
from pipeline.families.go import kernels as go_kernels
from pipeline.families.go.board import EMPTY, OFF_BOARD, kernel, points_around
from pipeline.games.contract import BoolArray, History, IntArray, Scores, States
from pipeline.games.heuristic import DECISIVE, after_each

if TYPE_CHECKING:
    from pipeline.families.go.game import Go

# In stones. After our move, the opponent can take or save what is in atari.
STONE = 2.0  # a captured stone counts, and so does its point
OWN_IN_ATARI, THEIRS_IN_ATARI = -2.0, 0.75
OWN_SHORT, THEIRS_SHORT = -0.25, 0.25  # stones with two liberties
LIBERTY, MOST_LIBERTIES = 0.25, 4  # of the new stone's group
FIRST_LINE, SECOND_LINE = -1.0, -0.5
CONTACT = 0.5  # with an enemy stone on one of the eight points around
PASS = 1.0  # better than putting a lone stone into atari, worse than any quiet move
OPENING_SHARE = 0.3  # of the points occupied; from then on the edge is no worse than other places


def move_scores(game: Go, states: States, history: History) -> Scores:
    """Capture, save stones and give atari, judged by the stones in atari after each move; never fill an own eye.

    It passes once all other moves only lose stones or fill eyes. After the opponent's pass, a pass is the best move if
    it wins, and the worst one but for filling eyes if it loses.
    """
    legal = game.legal(states, history)
    legal[:, game.pass_action] = False
    rows, actions, after = after_each(game, states, legal)
    around = points_around(game.size)
    movers = game.to_move(states)
    sets = groups.sets_beside(game.size), groups.words_for(game.num_points)
    counts, liberties = count_stones(after, around, *sets)
    gain = _safety(counts, movers[rows]) - _safety(count_stones(states, around, *sets)[0], movers)[rows]
    gain += LIBERTY * np.minimum(liberties, MOST_LIBERTIES)
    own_eyes, contact = shapes(states, around)
    opening = (states[:, : game.num_points] != EMPTY).mean(axis=1) < OPENING_SHARE
    place = CONTACT * contact + opening[:, None] * _edge(game.size)
    gain += place[rows, actions]

    scores = np.full(legal.shape, -np.inf)
    scores[rows, actions] = np.where(own_eyes[rows, actions], -DECISIVE, gain)
    scores[:, game.pass_action] = PASS
    passed = np.flatnonzero(states[:, game.num_points + go_kernels.PASSES] > 0)
    if passed.size:
        ahead = game.scores(states[passed]) * np.where(movers[passed] == 0, 1, -1)
        scores[passed, game.pass_action] = np.where(ahead > 0, DECISIVE, -DECISIVE / 2)
    return scores


def _safety(counts: IntArray, movers: NDArray[np.int8]) -> Scores:
    """[M] how positions stand for `movers` [M] with the opponent to move: stones minus those in danger.

    counts: from count_stones.
    """
    every = np.arange(len(counts))
    own, theirs = counts[every, movers].astype(np.float64), counts[every, 1 - movers].astype(np.float64)
    return (
        STONE * (own[:, 0] - theirs[:, 0])
        + OWN_IN_ATARI * own[:, 1]
        + THEIRS_IN_ATARI * theirs[:, 1]
        + OWN_SHORT * own[:, 2]
        + THEIRS_SHORT * theirs[:, 2]
    )


@lru_cache(maxsize=16)
def _edge(size: int) -> Scores:
    """[A] a point's worth in the opening by its distance from the edge; 0 for the pass."""
    line = np.minimum(np.arange(size), np.arange(size)[::-1])
    lines = np.minimum(line[:, None], line[None, :]).ravel()
    return np.append(np.select([lines == 0, lines == 1], [FIRST_LINE, SECOND_LINE], 0.0), 0.0)


@kernel
def count_stones(
    states: States, around: NDArray[np.uint16], beside: NDArray[np.uint64], words: tuple[int, ...]
) -> tuple[IntArray, IntArray]:
    """-> [M, 2, 3] int32: for black and white, the stones, those in atari, and those with two liberties; and [M] int32:
    the liberties of the last stone's group, 0 after a pass. Checked against Go.observe's planes.
    beside and words: as in ``groups``.
    """
    num_rows, state_size = states.shape
    num_points = state_size - go_kernels.EXTRA_WORDS
    board = groups.new_board(around, beside, words, 0)
    counts = np.zeros((num_rows, 2, 3), np.int32)
    last_liberties = np.zeros(num_rows, np.int32)
    for row in range(num_rows):
        state = states[row]
        num_groups, _ = groups.find_groups(board, state)
        for key in board.groups[:num_groups]:
            liberties, size = groups.count_liberties(board, key), groups.count_stones(board, key)
            count = counts[row, state[key] - 1]
            count[0] += size
            count[1] += size * (liberties == 1)
            count[2] += size * (liberties == 2)
        last = state[num_points + go_kernels.LAST]
        if 0 <= last < num_points:
            last_liberties[row] = groups.count_liberties(board, board.keys[state[last] - 1, last])
    return counts, last_liberties


@kernel
def shapes(states: States, around: NDArray[np.uint16]) -> tuple[BoolArray, BoolArray]:
    """-> [n, A] bool: the mover's eyes; [n, A] bool: empty points with an enemy stone on one of the eight around.

    An eye is an empty point with own stones on all sides, and enemies on at most one diagonal point, or none at the
    edge. Source: Brügmann 1993 and Gelly et al. 2006, section 3.2: the eyes that random playouts don't fill.
    """
    num_rows, state_size = states.shape
    num_points = state_size - go_kernels.EXTRA_WORDS
    eyes = np.zeros((num_rows, num_points + 1), np.bool_)
    contact = np.zeros((num_rows, num_points + 1), np.bool_)
    for row in range(num_rows):
        state = states[row]
        own = state[num_points + go_kernels.TO_MOVE] + 1
        for point in range(num_points):
            if state[point] != EMPTY:
                continue
            surrounded, edge, corners, beside = True, 0, 0, 0
            for side in range(8):
                found = state[around[point, side]]
                enemy = found == 3 - own
                outside = found == OFF_BOARD
                beside += enemy
                if side < 4:
                    surrounded &= (found == own) | outside
                    edge |= outside
                else:
                    corners += enemy
            eyes[row, point] = surrounded and corners + edge <= 1
            contact[row, point] = beside > 0
    return eyes, contact
