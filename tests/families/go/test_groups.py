"""Groups as sets of points, against sets computed from the stones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline.compiled_kernels import kernel
from pipeline.families.go import groups
from pipeline.families.go.board import points_around
from pipeline.families.go.game import Go
from pipeline.games.testing import sample_positions
from tests.reference.go import BLACK, WHITE, GoReference

MOST_PLIES = 40


@kernel
def new_board(neighbours, beside, words):  # type: ignore[no-untyped-def]
    return groups.new_board(neighbours, beside, words, MOST_PLIES)


@kernel
def find_groups(board, state):  # type: ignore[no-untyped-def]
    return groups.find_groups(board, state)


@kernel
def put(board, point, colour, ply):  # type: ignore[no-untyped-def]
    return groups.put(board, point, colour, ply)


@kernel
def take_back(board, point, colour, ply):  # type: ignore[no-untyped-def]
    groups.take_back(board, point, colour, ply)


@kernel
def foresee(board, point, colour):  # type: ignore[no-untyped-def]
    return groups.takes(board, point, colour), groups.liberties_after(board, point, colour, point)


@kernel
def two_liberties(board, key):  # type: ignore[no-untyped-def]
    return groups.two_liberties(board, key)


def members(words: np.ndarray) -> set[int]:
    return {64 * i + bit for i, word in enumerate(words.tolist()) for bit in range(64) if word >> bit & 1}


def numbers(points: set[int]) -> int:
    """The same as a set of the twin."""
    return sum(1 << point for point in points)


def seen(board: groups.Board) -> dict[tuple[int, frozenset[int]], tuple[set[int], set[int]]]:
    """(colour, stones) of each group → (points around it, liberties). Checks keys against the stones of sets."""
    empty, nothing = members(board.empty), board.keys.shape[1] - 1
    found = {}
    for colour in range(2):
        for key in set(board.keys[colour].tolist()) - {nothing}:
            stones = set(np.flatnonzero(board.keys[colour] == key).tolist())
            around = members(board.sets[key, groups.AROUND])
            assert stones == members(board.sets[key, groups.STONES]) and key in stones
            found[colour, frozenset(stones)] = around, around & empty
    assert not board.sets[nothing].any() and (board.keys[:, nothing] == nothing).all()
    stones = {point for _, group in found for point in group}
    assert empty == set(range(nothing)) - stones
    return found


def wanted(twin: GoReference) -> dict[tuple[int, frozenset[int]], tuple[set[int], set[int]]]:
    """The same from the twin's stones."""

    def members_of(points: int) -> set[int]:
        return {point for point in range(twin.pass_action) if points >> point & 1}

    found = {}
    for side, colour in enumerate((BLACK, WHITE)):
        for point in members_of(twin.stones[colour]):
            group = twin._group(twin.stones, point)
            around = members_of(twin._beside(group))
            found[side, frozenset(members_of(group))] = around, members_of(twin._liberties(twin.stones, point))
    return found


@pytest.mark.parametrize(("size", "num_games", "share"), [(5, 40, 0.03), (9, 10, 0.025), (13, 3, 0.005)])
def test_stones_are_put_and_taken_back(size: int, num_games: int, share: float) -> None:
    game, rng = Go(size), np.random.default_rng(size)
    board = new_board(points_around(size), groups.sets_beside(size), groups.words_for(game.num_points))
    states = sample_positions(game, num_games, seed=size, share=share)[0]
    events: Counter[str] = Counter()
    for state in states:
        num_groups, num_free = find_groups(board, state)
        before = seen(board)
        assert len(before) == num_groups and members(board.empty) == set(board.free[:num_free].tolist())
        twin = GoReference(size)
        for colour in (BLACK, WHITE):
            twin.stones[colour] = numbers(set(np.flatnonzero(state[: game.num_points] == colour).tolist()))
        assert before == wanted(twin)
        keys, line = board.keys.copy(), []
        for ply in range(MOST_PLIES):
            free = sorted(members(board.empty))
            point, colour = int(rng.choice(free)), int(rng.integers(2))
            captures, liberties = foresee(board, point, colour)
            line.append((point, colour))
            found = put(board, point, colour, ply)
            after = twin._put(twin.stones, point, colour + 1)
            if after is None:
                assert found == liberties == 0 and not captures
                take_back(board, *line.pop(), ply)
                events["suicide"] += 1
                break
            twin.stones, taken = after, twin.stones[2 - colour] != after[2 - colour]
            assert seen(board) == wanted(twin) and found == twin.num_liberties(point) and captures == taken
            assert taken or liberties == found
            if found in (1, 2):
                few = twin._liberties(twin.stones, point)
                assert set(two_liberties(board, board.keys[colour, point])) == members_of_number(few)
            events["captures"] += taken
            events["joins many"] += board.changes[ply, groups.NUM_JOINED] > 0
            events["takes many"] += board.changes[ply, groups.NUM_TAKEN] > 1
        for ply in reversed(range(len(line))):
            take_back(board, *line[ply], ply)
        assert (board.keys == keys).all() and seen(board) == before
    assert min(events[name] for name in ("suicide", "captures", "joins many", "takes many")) > 0, events


def members_of_number(points: int) -> set[int]:
    return {point for point in range(points.bit_length()) if points >> point & 1}
