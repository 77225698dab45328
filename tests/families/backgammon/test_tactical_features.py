"""Shots, ways and the rest: by hand, against the plain twin, and shots against the rules themselves."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import THROWS, Backgammon
from pipeline.families.backgammon.kernels import BAR, HIGH_DIE, TURN
from pipeline.families.backgammon.tactical_features import HALF, NUM_TACTICAL_FEATURES
from tests.families.backgammon.boards import board, mirrored, random_positions, seen_by
from tests.reference import tactical_features as twin

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
SHOTS, PIPS_HIT, DOUBLE_SHOTS, MOVES, WAY, NEXT_MOVES, NEXT_WAY, PIPS, PRIME, ENTERS = range(HALF)
CONTACT = 2 * HALF


def seen(state: np.ndarray) -> np.ndarray:
    return BACKGAMMON.tactical_features(state)[0]


@pytest.mark.parametrize(
    ("distance", "throws"),
    # How many of 36 throws hit a blot so many points away with nothing between: the table in every book.
    list(enumerate([11, 12, 14, 15, 15, 17, 6, 6, 5, 3, 2, 3, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 0], start=1)),
)
def test_shots_as_in_the_books(distance: int, throws: int) -> None:
    found = seen(board({24: 1}, {25 - (24 - distance): 1}))
    assert found[SHOTS] == pytest.approx(throws / 36)
    assert found[PIPS_HIT] == pytest.approx(throws / 36 * (24 - distance) / 25)
    assert found[DOUBLE_SHOTS] == 0


@pytest.mark.parametrize("mover", [0, 1])
def test_a_board_by_hand(mover: int) -> None:
    # Mine: 24, 13. Theirs, as I count: points on 22, 21, 20 and 18, blots on 17 and 8.
    state = board({24: 1, 13: 1}, {25 - 22: 2, 25 - 21: 2, 25 - 20: 2, 25 - 18: 2, 25 - 17: 1, 25 - 8: 1}, mover=mover)
    found = seen(state)
    # Point 8 by any five (11), 41 (2; over 12 or 9) and 32 (2). Point 17 is seven away: 61 over 23 only (2), 52 over 19
    # (2; 52 hits point 8 too), 43 not at all. So 61 is the only throw that hits 17 alone.
    hits_8, hits_17 = 15, 4
    assert found[SHOTS] == pytest.approx((hits_8 + 2) / 36)
    assert found[PIPS_HIT] == pytest.approx((hits_17 * 17 + (hits_8 - 2) * 8) / 36 / 25)
    assert found[DOUBLE_SHOTS] == pytest.approx(2 / 36)
    # From 24: 1 (23) and 5 (19) are free; 2, 3, 4, 6 not: 20 throws. 11 and 44, 33, ... don't get on: 11 makes 1, 55
    # makes 10 (14). With a one: 12 makes 1 (21 is made), 13 1, 14 5 (19), 15 5 (18 is made), 16 7 (17). With a five:
    # 52 7 (17), 53 8 (16), 54 9 (15), 56 11 (13).
    assert found[MOVES] == pytest.approx(20 / 36)
    assert found[WAY] == pytest.approx((1 + 10 + 2 * (1 + 1 + 5 + 5 + 7 + 7 + 8 + 9 + 11)) / 36 / 8)
    assert found[NEXT_MOVES] == 1 and found[NEXT_WAY] == pytest.approx(sum(map(sum, twin.ROLLS)) / 36 / 8)
    assert found[PIPS] == pytest.approx(0.37) and found[PRIME] == pytest.approx(3 / 4) and found[ENTERS] == 1
    assert found[HALF + PIPS] == pytest.approx((2 * (3 + 4 + 5 + 7) + 8 + 17) / 100)
    assert found[CONTACT] == pytest.approx((24 + 17 - 25) / 12)


def test_who_sits_on_the_bar_enters_first() -> None:
    home = {25 - 24: 2, 25 - 23: 2, 25 - 22: 2, 25 - 21: 2}
    one, two = (seen(board({25: on_bar, 13: 1}, {**home, 25 - 20: 1, 25 - 8: 1})) for on_bar in (1, 2))
    # The five enters and hits; the six enters, and then the five brings 13 to 8: that is a five too.
    assert one[SHOTS] == pytest.approx(11 / 36) and one[ENTERS] == pytest.approx(20 / 36)
    assert one[DOUBLE_SHOTS] == pytest.approx(3 / 36)  # 65 and 55
    assert two[SHOTS] == pytest.approx(11 / 36) and two[DOUBLE_SHOTS] == pytest.approx(1 / 36)  # 55 has two steps left


def test_a_race_has_no_contact_and_the_last_checker_no_next() -> None:
    found = seen(board({3: 1}, {6: 2}))
    assert found[CONTACT] == found[SHOTS] == found[NEXT_MOVES] == found[NEXT_WAY] == 0
    assert found[MOVES] == 1 and found[WAY] == pytest.approx(sum(map(sum, twin.ROLLS)) / 36 / 8)


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
def test_tactics_equal_the_plain_twin(game: Backgammon) -> None:
    states = random_positions(game, 60, 1)[0][:2000]
    viewers = np.random.default_rng(2).integers(0, 2, len(states)).astype(np.int8)
    wanted = [twin.tactical_features(seen_by(state, viewer)) for state, viewer in zip(states, viewers, strict=True)]
    found = game.tactical_features(states, viewers)
    assert found.dtype == np.float32 and found == pytest.approx(np.array(wanted), abs=1e-6)
    assert found.shape == (len(states), NUM_TACTICAL_FEATURES) and found.std(axis=0).min() > 0
    assert (game.tactical_features(states) == game.tactical_features(states, game.turns(states))).all()


def test_exchanged_players_look_alike() -> None:
    states, _ = random_positions(BACKGAMMON, 30, 3)
    found = BACKGAMMON.tactical_features(states)
    assert (BACKGAMMON.tactical_features(mirrored(states)) == found).all()
    across = BACKGAMMON.tactical_features(states, 1 - BACKGAMMON.turns(states))
    assert (across[:, :HALF] == found[:, HALF:-1]).all() and (across[:, HALF:-1] == found[:, :HALF]).all()


def test_shots_are_what_the_rules_allow() -> None:
    """Throws with a legal turn that hits; only that both dice have to be played may forbid a shot."""
    states = random_positions(BACKGAMMON, 60, 4)[0][:1500]
    thrown = np.repeat(states, len(THROWS), axis=0)
    thrown[:, HIGH_DIE : HIGH_DIE + 2] = np.tile(THROWS, (len(states), 1))
    found = BACKGAMMON.successors(thrown)
    rows = np.repeat(np.arange(len(thrown)), np.diff(found.offsets))
    others_bar = BAR + 1 - thrown[rows, TURN].astype(np.int64)
    hit = found.states[np.arange(len(rows)), others_bar] > thrown[rows, others_bar]
    can_hit = np.bincount(rows, hit, len(thrown)) > 0
    weights = np.where(THROWS[:, 0] == THROWS[:, 1], 1, 2) / 36
    legal = can_hit.reshape(len(states), -1) @ weights
    shots = BACKGAMMON.tactical_features(states)[:, SHOTS]
    assert (shots > legal - 1e-6).all()
    assert np.mean(shots < legal + 1e-6) > 0.995 and np.count_nonzero(legal) > 500
