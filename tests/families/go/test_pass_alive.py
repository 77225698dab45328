"""Pass-alive areas: by hand, against the plain twin, and by playing on, since no attack may change their owner."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.go.game import Go
from pipeline.families.go.kernels import TO_MOVE
from pipeline.games.contract import States
from tests.reference import pass_alive as twin


def position(picture: str) -> tuple[Go, States]:
    rows = picture.split()
    game = Go(len(rows))
    points = "".join(rows)
    stones = [[point for point, found in enumerate(points) if found == colour] for colour in "XO"]
    return game, game.position(*stones)


def drawn(game: Go, states: States) -> list[str]:
    """Rows of X, O and . for black's area, white's and nobody's."""
    owners = game.settled_owners(states)[0].reshape(game.board_shape)
    return ["".join(".XO"[owner] for owner in row) for row in owners]


def test_two_eyes_live_and_one_does_not() -> None:
    assert drawn(*position(".X.X. XXXXX ..... OOOOO .O..."))[:2] == ["XXXXX", "XXXXX"]
    # White's: an eye of one point and one of three, of which all are beside the chain.
    assert drawn(*position(".X.X. XXXXX ..... OOOOO .O..."))[3:] == ["OOOOO", "OOOOO"]
    assert drawn(*position(".XXX. XX.XX .XXX. ..... ....."))[:2] == ["XXXXX", "XXXXX"]
    assert drawn(*position("..X.. XXX.. ..... ..... ....."))[:2] == [".....", "....."]  # one eye
    # Two eyes, but the second is false: the stone that closes it belongs to another chain, which has one eye.
    assert drawn(*position(".X.XO XXXOO XOOO. OO.O. ....."))[:2] == [".....", "....."]


def test_chains_that_live_together() -> None:
    # Three chains around two eyes: each eye is vital to both chains beside it.
    assert drawn(*position("X.X.X .XXX. XX.XX ..... ....."))[:2] == ["XXXXX", "XXXXX"]


def test_what_stands_in_a_living_area_is_dead() -> None:
    # No point of the corner with white's stone is away from black's chain: none for an eye.
    assert drawn(*position(".OX.X ..XXX XXX.. ..... ....."))[0] == "....."
    assert drawn(*position(".OX.X XXXX. ..... ..... ....."))[:1] == ["....."]
    assert drawn(*position(".OX.X XXXXX ..... ..... ....."))[:2] == ["XXXXX", "XXXXX"]
    # A region with two inner points may come to hold a living group.
    wide = "X...... X...... X...... XXXXXXX .X.X.X. XXXXXXX ......."
    assert drawn(*position(wide)) == [*["X......"] * 3, *["XXXXXXX"] * 4]


def test_an_empty_board_and_a_single_chain_are_nobodys() -> None:
    game = Go(5)
    assert not game.settled_owners(game.initial(3)).any()
    assert drawn(*position("..... ..X.. ..... ..... .....")) == ["....."] * 5


def dense_positions(size: int, count: int, seed: int) -> tuple[Go, States]:
    """Boards with many living groups, from random games in which nobody fills own surrounded points."""
    game, rng = Go(size, max_plies=400), np.random.default_rng(seed)
    states = game.initial(count)
    history = game.initial_history(states)
    found = []
    for ply in range(3 * size * size):
        going = np.flatnonzero(~game.is_over(states))
        if not going.size:
            break
        legal = game.legal(states[going], history.select(going))
        actions = np.full(len(going), game.pass_action, np.int32)
        for i, row in enumerate(going.tolist()):
            mover = 1 + int(states[row, game.num_points + TO_MOVE])
            board = states[row, : game.num_points]
            good = [
                point
                for point in np.flatnonzero(legal[i, :-1]).tolist()
                if any(board[near] != mover for near in twin.beside(point, size))
            ]
            if good:
                actions[i] = rng.choice(good)
        states[going] = game.play(states[going], actions, history.select(going))
        history.append(going, game.keys(states[going]))
        if ply > size * size // 2:
            found.append(states[going].copy())
    return game, rng.permutation(np.concatenate(found))


@pytest.mark.parametrize(("size", "count"), [(5, 1500), (7, 700), (9, 300), (13, 40)])
def test_areas_equal_the_plain_twin(size: int, count: int) -> None:
    game, states = dense_positions(size, 30, size)
    states = states[:count]
    found = game.settled_owners(states)
    assert found.dtype == np.int8 and (found != 0).any(axis=1).mean() > 0.2
    for state, owners in zip(states, found, strict=True):
        board = state[: game.num_points].tolist()
        assert {int(point) for point in np.flatnonzero(owners == 1)} == twin.area(board, size, 1)
        assert {int(point) for point in np.flatnonzero(owners == -1)} == twin.area(board, size, 2)


def capturing_moves(game: Go, board: np.ndarray, own: np.ndarray, mover: int) -> list[int]:
    """Where the owner of an area may play to capture the stones in it: never on the last empty point of a region,
    unless that captures; and on an inner point, which may be an eye, last.
    """
    found = []
    for region in twin.connected(set(np.flatnonzero(own & (board != mover)).tolist()), game.size):
        empty = [point for point in region if board[point] == 0]
        outer = [point for point in empty if any(board[near] == mover for near in twin.beside(point, game.size))]
        if len(empty) < len(region):
            found += outer if len(empty) > 1 else empty
    return found


@pytest.mark.parametrize("owner", [0, 1])
def test_no_attack_changes_whose_an_area_is(owner: int) -> None:
    """The opponent plays anywhere at random, then passes; the owner only captures stones in its area."""
    game, states = dense_positions(7, 30, 5 + owner)
    owners = game.settled_owners(states) * (1 - 2 * owner) == 1
    chosen = np.flatnonzero(owners.any(axis=1))[:60]
    rng = np.random.default_rng(1)
    taken = 0
    for own, state in zip(owners[chosen], states[chosen, None], strict=True):
        history = game.initial_history(state)
        taken += int((state[0, : game.num_points][own] == 2 - owner).sum())
        for turn in range(400):
            if game.is_over(state)[0]:
                break
            legal = game.legal(state, history)[0]
            if int(game.to_move(state)[0]) == owner:
                moves = capturing_moves(game, state[0, : game.num_points], own, owner + 1)
                allowed = [point for point in moves if legal[point]]
            else:
                allowed = np.flatnonzero(legal[:-1]).tolist() if turn < 150 else []
            action = int(rng.choice(allowed)) if allowed else game.pass_action
            state = game.play(state, np.array([action], np.int32), history)
            history.append(np.zeros(1, np.int64), game.keys(state))
        assert (game.ownership(state)[0][own] == 1 - 2 * owner).all(), game.diagram(state[0])
    assert taken > 50
