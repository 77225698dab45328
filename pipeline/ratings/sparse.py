"""The inverse of a large matrix of which hardly anything is needed: who meets few others has few entries in a row.

Of n players that meet a handful of others each, the curvature of all ratings has a handful of entries in each row, and
its inverse, the covariance, n² of them. So the matrix is factorised as it is, sparse, and of the inverse only what is
asked for is computed: its diagonal, and its products with given vectors.

    A = L D Lᵀ    L lower triangular with ones on its diagonal, D diagonal; rows in an order that keeps L sparse

The order takes the player with the fewest neighbours next, whose neighbours then are neighbours of each other (minimum
degree). A run's challengers meet one champion each, so L has hardly more entries than A. Where everybody met everybody
nothing is sparse; then this is right, and slower than a dense inverse.

Source: George & Liu 1989, "The Evolution of the Minimum Degree Ordering Algorithm"; for the diagonal of the inverse
Takahashi, Fagan & Chen 1973, "Formation of a Sparse Bus Impedance Matrix". Axes: N rows, E pairs, L entries of L below
its diagonal, column after column, rows ascending in each.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels import kernel

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Pattern:
    """Where entries are, whatever they are.

    order    [N] the row that is eliminated first, second, …
    columns  [N + 1] where the entries of each column of L begin
    rows     [L] their rows, by place in the order
    places   [E] of each pair: its entry in L
    """

    order: Indices
    columns: Indices
    rows: Indices
    places: Indices

    @property
    def ranks(self) -> Indices:
        """[N] the place of each row in the order."""
        ranks = np.empty_like(self.order)
        ranks[self.order] = np.arange(len(self.order))
        return ranks


def pattern_of(size: int, one: Indices, other: Indices) -> Pattern:
    """size: N; one, other: [E] the rows of each pair, different ones, each pair once."""
    neighbours: list[set[int]] = [set() for _ in range(size)]
    for i, j in zip(one.tolist(), other.tolist(), strict=True):
        neighbours[i].add(j)
        neighbours[j].add(i)
    waiting = [(len(near), row) for row, near in enumerate(neighbours)]
    heapq.heapify(waiting)
    order: list[int] = []
    below: list[list[int]] = []
    is_done = np.zeros(size, np.bool_)
    while waiting:
        degree, row = heapq.heappop(waiting)
        near = neighbours[row]
        if is_done[row] or degree != len(near):
            continue  # it has another number of neighbours by now, and waits with that as well
        if degree == size - len(order) - 1:  # all that are left are neighbours of each other
            left = [row, *near]
            order += left
            below += [left[at + 1 :] for at in range(len(left))]
            break
        is_done[row] = True
        order.append(row)
        below.append(list(near))
        for other_row in near:
            theirs = neighbours[other_row]
            theirs |= near
            theirs -= {row, other_row}
            heapq.heappush(waiting, (len(theirs), other_row))
        neighbours[row] = set()
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size)
    columns = np.cumsum([0, *map(len, below)], dtype=np.int64)
    found = [np.sort(ranks[near]) for near in below]
    rows = np.concatenate([np.zeros(0, np.int64), *found])
    low, high = np.minimum(ranks[one], ranks[other]), np.maximum(ranks[one], ranks[other])
    keys = np.repeat(np.arange(size), np.diff(columns)) * size + rows  # ascending
    return Pattern(np.array(order, np.int64), columns, rows, np.searchsorted(keys, low * size + high))


@dataclass(frozen=True)
class Factor:
    """L and D of a matrix. lower [L], diagonal [N], in the pattern's order."""

    pattern: Pattern
    lower: Vector
    diagonal: Vector

    def solve(self, right: Vector) -> Vector:
        """[N] A⁻¹ · right."""
        solved = right[self.pattern.order].copy()
        _substitute(self.pattern.columns, self.pattern.rows, self.lower, self.diagonal, solved)
        return solved[self.pattern.ranks]

    def inverse_diagonal(self) -> Vector:
        """[N] the diagonal of A⁻¹."""
        diagonal = 1 / self.diagonal
        _invert(self.pattern.columns, self.pattern.rows, self.lower, diagonal, np.zeros_like(self.lower))
        return diagonal[self.pattern.ranks]


def factorise(pattern: Pattern, diagonal: Vector, pairs: Vector) -> Factor:
    """Of a positive definite matrix. diagonal [N]; pairs [E] its entries beside it, as pattern_of() was told them."""
    lower = np.zeros(len(pattern.rows))
    lower[pattern.places] = pairs
    pivots = diagonal[pattern.order].copy()
    _factorise(pattern.columns, pattern.rows, lower, pivots)
    return Factor(pattern, lower, pivots)


# Kernels. Their plain twin is a dense inverse.


@kernel
def _factorise(columns: Indices, rows: Indices, lower: Vector, pivots: Vector) -> None:
    """lower [L], pivots [N]: A's entries, turned into L and D in place. Column after column, to the right."""
    place = np.empty(len(pivots), np.int64)  # of a row's entry in the column at hand
    for k in range(len(pivots)):
        start, stop = columns[k], columns[k + 1]
        for at in range(start, stop):
            j = rows[at]
            share = lower[at] / pivots[k]
            pivots[j] -= share * lower[at]
            for entry in range(columns[j], columns[j + 1]):
                place[rows[entry]] = entry
            for beyond in range(at + 1, stop):
                lower[place[rows[beyond]]] -= share * lower[beyond]
        for at in range(start, stop):
            lower[at] /= pivots[k]


@kernel
def _substitute(columns: Indices, rows: Indices, lower: Vector, pivots: Vector, right: Vector) -> None:
    """right [N]: solved in place."""
    for k in range(len(right)):
        for at in range(columns[k], columns[k + 1]):
            right[rows[at]] -= lower[at] * right[k]
    for k in range(len(right)):
        right[k] /= pivots[k]
    for k in range(len(right) - 1, -1, -1):
        for at in range(columns[k], columns[k + 1]):
            right[k] -= lower[at] * right[rows[at]]


@kernel
def _invert(columns: Indices, rows: Indices, lower: Vector, diagonal: Vector, inverse: Vector) -> None:
    """diagonal [N]: 1 / D, made that of A⁻¹ in place. inverse [L]: its other entries where L has any, filled here.

    Column after column from the last one: Z = D⁻¹ + (1 − Lᵀ) Z, of which each entry needs those behind it alone.
    """
    place = np.empty(len(diagonal), np.int64)
    for k in range(len(diagonal) - 1, -1, -1):
        start, stop = columns[k], columns[k + 1]
        for at in range(start, stop):
            j = rows[at]
            for entry in range(columns[j], columns[j + 1]):
                place[rows[entry]] = entry
            inverse[at] -= lower[at] * diagonal[j]
            for beyond in range(at + 1, stop):
                between = inverse[place[rows[beyond]]]
                inverse[at] -= lower[beyond] * between
                inverse[beyond] -= lower[at] * between
        for at in range(start, stop):
            diagonal[k] -= lower[at] * inverse[at]
