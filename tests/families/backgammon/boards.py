"""Boards for the tests of backgammon: written by hand, from random games, and as the plain twin sees them.

Points are counted by each player so that they bear off below 1; 0 is off, 25 the bar.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipeline.families.backgammon.game import THROWS, Backgammon
from pipeline.families.backgammon.kernels import BAR, HIGH_DIE, LOW_DIE, NUM_POINTS, OFF, PLY, TURN
from pipeline.games.contract import States
from tests.reference.backgammon import BackgammonReference


def board(
    mine: Mapping[int, int], theirs: Mapping[int, int], dice: str = "00", mover: int = 0, checkers: int = 15
) -> States:
    """[1, S]: point → checkers of the mover and of the opponent. Those that are missing are off."""
    state = np.zeros((1, Backgammon.state_size), np.int16)
    for player, own in ((mover, mine), (1 - mover, theirs)):
        for point, count in own.items():
            if point == 25:
                state[0, BAR + player] = count
            else:
                state[0, point - 1 if player == 0 else NUM_POINTS - point] = count if player == 0 else -count
        state[0, OFF + player] = checkers - sum(own.values())
    state[0, TURN], state[0, PLY] = mover, 20
    state[0, HIGH_DIE], state[0, LOW_DIE] = sorted(map(int, dice), reverse=True)
    return state


def seen_by(state: np.ndarray, player: int) -> BackgammonReference:
    """The twin's view of a state [S], this player as its mover."""
    sides = []
    for side in (player, 1 - player):
        points = state[:NUM_POINTS] if side == 0 else -state[NUM_POINTS - 1 :: -1]
        sides.append((int(state[OFF + side]), *points.clip(0).tolist(), int(state[BAR + side])))
    return BackgammonReference(*sides)


def mirrored(states: States) -> States:
    """The same positions with the players' parts exchanged."""
    swapped = states.copy()
    swapped[:, :NUM_POINTS] = -states[:, NUM_POINTS - 1 :: -1]
    swapped[:, [BAR, BAR + 1, OFF, OFF + 1]] = states[:, [BAR + 1, BAR, OFF + 1, OFF]]
    swapped[:, TURN] = 1 - states[:, TURN]
    return swapped


def random_positions(game: Backgammon, num_games: int, seed: int) -> tuple[States, States]:
    """Of uniformly random games: all positions with dice, and all ends. Both in random order."""
    rng = np.random.default_rng(seed)
    states, thrown, ends = game.initial(num_games), [], []
    while len(states):
        bounds = game.chance(states).cumsum(axis=1)
        states = game.happen(states, (bounds <= rng.random((len(states), 1)) * bounds[:, -1:]).sum(axis=1))
        thrown.append(states)
        found = game.successors(states)
        picked = rng.integers(np.diff(found.offsets))
        states = found.states[found.offsets[:-1] + picked]
        over = game.is_over(states)
        ends.append(states[over])
        states = states[~over]
    return rng.permutation(np.concatenate(thrown)), rng.permutation(np.concatenate(ends))


def with_every_throw(states: States) -> States:
    """The same positions with the 21 throws in turn instead of their dice."""
    states = states.copy()
    states[:, HIGH_DIE : LOW_DIE + 1] = THROWS[np.arange(len(states)) % len(THROWS)]
    return states
