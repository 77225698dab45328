"""Benson's pass-alive areas: points that belong to a player for good, even if this player only passes from now on.

The *parts* of a board from the view of a colour X are its chains of X and its *regions*: connected points without a
stone of X. A region is vital to a chain if each of its empty points is a liberty of that chain. Chains with fewer than
two vital regions are dropped, and regions that touch a dropped chain, until nothing changes. The remaining chains are
pass-alive: to capture one, the opponent would have to fill both of its vital regions, which is impossible. Source:
D. B. Benson, "Life in the game of Go", Information Sciences 10 (1976).

The *area* of X is these chains, and the remaining regions of which at most one point isn't beside one of them. Stones
of the opponent in there can be captured: a living group needs two eyes, and an eye has no point beside a stone that
can't be captured. (Superko or a threat elsewhere may delay the capture, but good play arrives at it.)

Axes: B batch, P points, S state words. Plain twin: tests/reference/pass_alive.py.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.families.go.board import BLACK, EMPTY, WHITE, kernel

NO_PART = -1
MOST_CHAINS = 4  # beside one point


@kernel
def find_parts(state, num_points, colour, neighbours, parts, points, starts):
    """Number the parts of a board -> how many there are.

    Fills parts [P], the number of each point's part; points [P], the points part by part; starts [P+1], where each
    part's points begin in it.
    """
    parts[:] = NO_PART
    count, end = 0, 0
    for first in range(num_points):
        if parts[first] != NO_PART:
            continue
        is_chain = state[first] == colour
        starts[count] = i = end
        parts[first], points[end] = count, first
        end += 1
        while i < end:
            point = points[i]
            i += 1
            for side in range(4):
                near = neighbours[point, side]
                if near < num_points and parts[near] == NO_PART and (state[near] == colour) == is_chain:
                    parts[near], points[end] = count, near
                    end += 1
        count += 1
    starts[count] = end
    return count


@kernel
def is_beside(point, part, num_points, neighbours, parts):
    found = False
    for side in range(4):
        near = neighbours[point, side]
        found |= near < num_points and parts[near] == part
    return found


@kernel
def find_vital(state, num_points, colour, neighbours, parts, region, chains):
    """Fill chains [MOST_CHAINS] with the chains to which a region is vital -> their number. region: its points."""
    found, begun = 0, False
    for point in region:
        if state[point] != EMPTY:
            continue
        if not begun:  # only the first empty point's chains can be beside all of them
            begun = True
            for side in range(4):
                near = neighbours[point, side]
                if near < num_points and state[near] == colour and not (chains[:found] == parts[near]).any():
                    chains[found] = parts[near]
                    found += 1
        else:
            kept = 0
            for k in range(found):
                if is_beside(point, chains[k], num_points, neighbours, parts):
                    chains[kept] = chains[k]
                    kept += 1
            found = kept
    return found


@kernel
def drop(state, num_points, colour, neighbours, parts, points, starts, count, vital, num_vital, remains):
    """Set remains [P] of all parts by Benson's algorithm. vital [P, MOST_CHAINS], num_vital [P]: see find_vital."""
    eyes = np.empty(count, np.int64)
    remains[:count] = True
    dropped = True
    while dropped:
        dropped = False
        eyes[:] = 0
        for part in range(count):
            for k in range(num_vital[part] if remains[part] else 0):
                eyes[vital[part, k]] += 1
        for part in range(count):
            if not remains[part] or state[points[starts[part]]] != colour or eyes[part] >= 2:
                continue
            remains[part], dropped = False, True
            for point in points[starts[part] : starts[part + 1]]:
                for side in range(4):
                    near = neighbours[point, side]
                    if near < num_points and state[near] != colour:
                        remains[parts[near]] = False


@kernel
def areas(states, num_points, neighbours):
    """-> [B, P] int8: +1 in black's pass-alive area, -1 in white's, 0 elsewhere."""
    owners = np.zeros((len(states), num_points), np.int8)
    parts, points = np.empty(num_points, np.int64), np.empty(num_points, np.int64)
    starts = np.empty(num_points + 1, np.int64)
    vital, num_vital = np.empty((num_points, MOST_CHAINS), np.int64), np.empty(num_points, np.int64)
    remains = np.empty(num_points, np.bool_)
    for row in range(len(states)):
        state = states[row]
        for colour, owner in ((BLACK, 1), (WHITE, -1)):
            count = find_parts(state, num_points, colour, neighbours, parts, points, starts)
            for part in range(count):
                region, num_vital[part] = points[starts[part] : starts[part + 1]], 0
                if state[region[0]] != colour:
                    num_vital[part] = find_vital(state, num_points, colour, neighbours, parts, region, vital[part])
            drop(state, num_points, colour, neighbours, parts, points, starts, count, vital, num_vital, remains)
            for part in range(count):
                if not remains[part]:
                    continue
                region, inner, has_chains = points[starts[part] : starts[part + 1]], 0, False
                for point in region:
                    beside = state[point] == colour
                    for side in range(4):
                        near = neighbours[point, side]
                        beside |= near < num_points and state[near] == colour
                    inner += not beside
                    has_chains |= beside
                if inner <= 1 and has_chains:
                    for point in region:
                        owners[row, point] = owner
    return owners
