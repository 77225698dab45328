"""Go's planes of tactics: positions written out, and random games against the plain twin."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline.families.go import features, ladders
from pipeline.families.go import kernels as go_kernels
from pipeline.families.go.game import Go
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.reference.go import BLACK, EMPTY, WHITE, GoReference


def planes_of(game: Go, board: str, to_move: int) -> dict[str, str]:
    """The points that each plane marks, by name, on a board of ".XO" with X black; to_move 0: black."""
    words = board.split()
    states = game.initial(1)
    states[0, : game.num_points] = [".XO".index(word) for word in words]
    states[0, game.num_points + go_kernels.TO_MOVE] = to_move
    planes = game.observe(states, np.zeros((1, game.num_actions), np.bool_))[0]
    return {
        name: " ".join(game.action_name(int(point)) for point in np.flatnonzero(plane))
        for name, plane in zip(game.plane_names, planes.reshape(game.num_planes, -1), strict=True)
    }


LADDER = """
. . . . . . . . .
. . . . . . . . .
. . . X X . . . .
. . X O . . . . .
. . . X . . . . .
. . . . . . . . .
. . . . . . . . .
. . . . . . . . .
. . . . . . . . ."""


def with_stones(board: str, stones: str) -> str:
    """The board with more stones, e.g. "X E5, . D7"; 9×9."""
    words = board.split()
    for stone in stones.split(", "):
        words[Go(9).parse_action(stone[2:])] = stone[0]
    return " ".join(words)


def test_a_ladder_runs_to_the_edge_unless_a_stone_is_in_its_way() -> None:
    game = Go(9)
    found = planes_of(game, LADDER, to_move=0)
    assert found["opponent's, 1 liberty"] == found["opponent's, caught in a ladder"] == "D6"
    assert found["own, caught in a ladder"] == ""
    assert planes_of(game, LADDER, to_move=1)["own, caught in a ladder"] == "D6"
    for point in ("F5", "F4", "G4", "G3", "H2", "G5"):
        broken = planes_of(game, with_stones(LADDER, f"O {point}"), to_move=0)
        assert broken["opponent's, caught in a ladder"] == "", point
        still = planes_of(game, with_stones(LADDER, f"X {point}"), to_move=0)
        assert still["opponent's, caught in a ladder"] == "D6", point


def test_where_a_ladder_begins() -> None:
    board = with_stones(LADDER, ". D5")  # E6 is atari, too, but then D5 has three liberties
    found = planes_of(Go(9), board, to_move=0)
    assert found["opponent's, 2 liberties"] == found["opponent's, caught in a ladder"] == "D6"
    assert found["a play here catches in a ladder"] == "D5" and found["opponent's play here catches in a ladder"] == ""
    turned = planes_of(Go(9), board, to_move=1)
    assert turned["own, caught in a ladder"] == "D6"
    assert turned["a play here catches in a ladder"] == ""
    assert turned["opponent's play here catches in a ladder"] == "D5"


def test_who_takes_a_stone_in_atari_is_out_of_the_ladder() -> None:
    found = planes_of(Go(9), with_stones(LADDER, "O C5, O D4"), to_move=0)
    assert found["own, 1 liberty"] == "D5" and found["opponent's, 1 liberty"] == "D6"
    assert found["opponent's, caught in a ladder"] == "" and found["opponent's play here captures"] == "E5"
    assert found["a play here captures"] == "E6"


def test_liberties_after_a_play() -> None:
    board = """
    . X . . .
    X . O . .
    . O O X .
    O X X . .
    . X . . ."""
    found = planes_of(Go(5), board, to_move=0)
    counts = ["1 liberty", "2 liberties", "3 liberties", "4 or more liberties"]
    for play, wanted in {
        "a play here": {"A5": 3, "B4": 3, "A3": 2, "A1": 2},
        "opponent's play here": {"A5": 0, "B4": 3, "A3": 4, "A1": 1},  # A5: suicide
    }.items():
        for point, liberties in wanted.items():
            marked = [number for number, count in enumerate(counts, 1) if point in found[f"{play} has {count}"].split()]
            assert marked == [liberties] * (liberties > 0), (play, point)
        assert found[f"{play} captures"] == ""


SPECS = [("go:5", 80), ("go:5,moves=200", 10), ("go:6", 20), ("go:7", 15), ("go:9", 10), ("go:13", 2)]


@pytest.mark.parametrize(("spec", "num_games"), SPECS)
def test_planes_equal_the_plain_twin(spec: str, num_games: int) -> None:
    game = parse_game(spec)
    assert isinstance(game, Go)
    twins = [GoReference(game.size, game.komi, game.max_plies) for _ in range(num_games)]
    seen: Counter[str] = Counter()
    for step in random_games(game, num_games, seed=100 + game.size):
        planes = game.observe(step.states, step.legal).reshape(len(step.states), game.num_planes, -1)
        for i, row in enumerate(step.rows):
            found = planes[i, go_kernels.BASE_PLANES :]
            wanted = wanted_planes(twins[row])
            for name, one, other in zip(features.PLANE_NAMES, found, wanted, strict=True):
                assert np.flatnonzero(one).tolist() == sorted(other), f"{name}:\n{game.diagram(step.states[i])}"
                seen[name] += bool(other)
            twins[row].play(int(step.actions[i]))
    assert all(seen[name] for name in features.PLANE_NAMES), seen


def wanted_planes(twin: GoReference) -> list[set[int]]:
    """The points of each of features.PLANE_NAMES."""
    wanted: dict[str, set[int]] = {name: set() for name in features.PLANE_NAMES}
    board, opponent = twin.board, BLACK + WHITE - twin.to_move
    for point, stone in enumerate(board):
        if stone == EMPTY:
            for colour, play in ((twin.to_move, "a play here"), (opponent, "opponent's play here")):
                liberties, captured = twin.after_play(point, colour)
                if liberties:
                    count = ["1 liberty", "2 liberties", "3 liberties", "4 or more liberties"][min(liberties, 4) - 1]
                    wanted[f"{play} has {count}"].add(point)
                if captured:
                    wanted[f"{play} captures"].add(point)
            continue
        whose, attack = ("own", "opponent's play") if stone == twin.to_move else ("opponent's", "a play")
        for count in (4, 5):
            if twin.num_liberties(point) >= count:
                wanted[f"{whose}, {count} or more liberties"].add(point)
        caught, starts = twin.ladder(point, ladders.MAX_DEPTH, ladders.MAX_LINES)
        if caught:
            wanted[f"{whose}, caught in a ladder"].add(point)
        wanted[f"{attack} here catches in a ladder"] |= starts
    return list(wanted.values())
