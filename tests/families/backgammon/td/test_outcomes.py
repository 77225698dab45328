"""What outputs mean: values by hand, both viewpoints, certain results."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.td.outcomes import chances_of, discounted, seen_by_other, values_of
from tests.reference.afterstates import equity
from tests.reference.td import other


def random_chances(count: int, outputs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, outputs), np.float32)


@pytest.mark.parametrize(
    ("chances", "most", "value"),
    [
        ([0.5], 3, 0.0),
        ([1.0], 3, 3.0),
        ([0.25], 2.5, -1.25),
        ([1, 0, 0, 0, 0], 3, 1.0),
        ([1, 1, 0, 0, 0], 3, 2.0),
        ([1, 1, 1, 0, 0], 3, 3.0),
        ([1, 1, 1, 0, 0], 2.5, 2.5),
        ([0, 0, 0, 1, 1], 2.5, -2.5),
        # Half of the games won, a fifth of them all by a gammon; a tenth lost by a backgammon.
        ([0.5, 0.2, 0, 0.1, 0.1], 3, 0.5 + 0.2 - 0.5 - 0.1 - 0.1),
    ],
)
def test_values_by_hand(chances: list[float], most: float, value: float) -> None:
    assert values_of(np.array([chances], np.float32), most)[0] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("most", [3.0, 2.5])
def test_values_equal_the_plain_twin_and_change_sign_with_the_viewpoint(outputs: int, most: float) -> None:
    chances = random_chances(500, outputs)
    values = values_of(chances, most)
    assert values == pytest.approx([equity(row, most) for row in chances.tolist()], abs=1e-5)
    turned = seen_by_other(chances)
    assert turned == pytest.approx(np.array([other(row) for row in chances.tolist()]), abs=1e-6)
    assert values_of(turned, most) == pytest.approx(-values, abs=1e-5)
    assert seen_by_other(turned) == pytest.approx(chances, abs=1e-6)


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("most", [3.0, 2.5])
def test_results_are_certain(outputs: int, most: float) -> None:
    results = np.array([-most, -2, -1, 0, 1, 2, most], np.float32)
    found = chances_of(results, outputs, most)
    assert values_of(found, most) == pytest.approx(results, abs=1e-6)
    assert seen_by_other(found) == pytest.approx(chances_of(-results, outputs, most), abs=1e-6)


def test_discounted_chances_are_worth_less_by_that_much() -> None:
    for outputs in (1, 5):
        chances = random_chances(50, outputs)
        assert values_of(discounted(chances, 0.9), 3) == pytest.approx(0.9 * values_of(chances, 3), abs=1e-5)
        assert (discounted(chances, 1.0) == chances).all()
