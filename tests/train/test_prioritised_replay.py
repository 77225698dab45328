"""Prioritised replay: the formulas by hand, the tree against a plain twin, the samples against exact probabilities."""

import numpy as np
import pytest
from scipy import stats

from pipeline.run.priorities import Priorities
from pipeline.train.prioritised_replay import Replay, SumTree, starting_priorities


def replay(values: list[float], exponent: float = 0.6, correction: float = 0.4, floor: float = 0.001) -> Replay:
    priorities = Priorities(np.arange(len(values), dtype=np.uint64), np.array(values, np.float32))
    return Replay(priorities, exponent, correction, floor, [0])


def plain_find(weights: np.ndarray, point: float) -> int:
    """The plain twin of SumTree.find: walk along the line until the point is passed."""
    for row, weight in enumerate(weights):
        if point < weight:
            return row
        point -= weight
    return len(weights) - 1


class TestSumTree:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 100])
    def test_finds_what_a_walk_along_the_line_finds(self, size: int) -> None:
        """Whole numbers, so that sums are exact, and every seam is hit."""
        rng = np.random.default_rng(size)
        weights = rng.integers(0, 4, size).astype(np.float64)
        weights[size // 2] = 5
        tree = SumTree(weights)
        assert tree.total == weights.sum()
        points = np.arange(0, weights.sum(), 0.25)
        assert tree.find(points).tolist() == [plain_find(weights, point) for point in points]

    @pytest.mark.parametrize("size", [1, 2, 7, 64, 100])
    def test_changed_it_equals_one_made_anew(self, size: int) -> None:
        """To the last bit, in any order of changes; of a row that occurs twice in a change, the last weight counts."""
        rng = np.random.default_rng(size)
        weights = rng.random(size)
        tree = SumTree(weights)
        for _ in range(20):
            rows = rng.integers(0, size, 12)
            new = rng.random(12) ** 4
            tree.set(rows, new)
            for row, weight in zip(rows, new, strict=True):
                weights[row] = weight
        assert np.array_equal(tree._nodes, SumTree(weights)._nodes)
        assert tree.total == pytest.approx(weights.sum())
        assert np.array_equal(tree[np.arange(size)], weights)

    def test_never_finds_a_row_of_weight_zero(self) -> None:
        """Rounded sums: points at and past the end must not fall into the padding or beside the line."""
        rng = np.random.default_rng(0)
        weights = np.where(rng.random(777) < 0.5, rng.random(777) * 1e-3, 0.0)
        weights[[0, -1]] = 0
        tree = SumTree(weights)
        points = np.concatenate([np.cumsum(weights), [0.0, tree.total, np.nextafter(tree.total, 2)]])
        assert (weights[tree.find(points)] > 0).all()


class TestFormulas:
    def test_by_hand(self) -> None:
        """α = ½, β = 1: p 1, 4, 4, 9 gives √p 1, 2, 2, 3 of 8, so P 1/8, 1/4, 1/4, 3/8 and w 1, 1/2, 1/2, 1/3."""
        subject = replay([1, 4, 4, 9], exponent=0.5, correction=1.0)
        sample = subject.sample(0, 8, 8)  # eighths of the line: as many samples of each row as eighths it has
        assert sample.rows.tolist() == [0, 1, 1, 2, 2, 3, 3, 3]
        np.testing.assert_allclose(sample.weights, [1, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)

    def test_of_the_paper(self) -> None:
        """w = (N·P)^−β / max over the batch, literally; and the maximum is the batch's, not the set's."""
        rng = np.random.default_rng(1)
        values = rng.random(300) * 2 + 0.001
        for step in range(5):
            sample = replay(list(values), exponent=0.6, correction=0.4).sample(step, 16, 8)
            chance = values**0.6 / (values**0.6).sum()
            weights = (300 * chance[sample.rows]) ** -0.4
            np.testing.assert_allclose(sample.weights, weights / weights.max(), rtol=1e-5)
            assert sample.weights.max() == 1
            assert values[sample.rows].min() > values.min()

    def test_priorities_are_errors_and_the_floor(self) -> None:
        subject = replay([1, 1, 1, 1], floor=0.25)
        subject.update(np.array([2, 0, 2]), np.array([1.5, 0, 0.5], np.float32))
        assert subject.priorities.values.tolist() == [0.25, 1, 0.75, 1]
        changed = replay([0.25, 1, 0.75, 1]).sample(3, 64, 8)
        assert np.array_equal(subject.sample(3, 64, 8).rows, changed.rows), "samples see the update"
        assert np.array_equal(subject.sample(3, 64, 8).weights, changed.weights)

    def test_no_correction_weighs_all_alike(self) -> None:
        assert replay([1, 2, 3], correction=0.0).sample(0, 10, 8).weights.tolist() == [1.0] * 10


class TestDraws:
    def test_come_by_their_exact_probabilities(self) -> None:
        """χ² at one in a million over 400,000 samples. Stratified samples vary less, so that this is an upper bound."""
        values = np.random.default_rng(2).random(50) * 2 + 0.001
        values[7] = 0.001
        subject = replay(list(values))
        counts = np.zeros(50)
        for step in range(4000):
            counts += np.bincount(subject.sample(step, 100, 8).rows, minlength=50)
        chance = values**0.6 / (values**0.6).sum()
        assert stats.chisquare(counts, chance * counts.sum()).pvalue > 1e-6
        # another α must be told from this one
        other = values**0.5 / (values**0.5).sum()
        assert stats.chisquare(counts, other * counts.sum()).pvalue < 1e-6

    def test_single_samples_come_by_them_too(self) -> None:
        """A batch of one sample has one part: only the tree and the uniform number matter."""
        values = [0.1, 0.4, 1.9, 0.001, 1.0]
        subject = replay(values)
        counts = np.bincount([int(subject.sample(step, 1, 1).rows[0]) for step in range(5000)], minlength=5)
        chance = np.array(values) ** 0.6 / (np.array(values) ** 0.6).sum()
        assert stats.chisquare(counts, chance * 5000).pvalue > 1e-6

    def test_symmetries_are_uniform_and_independent_of_the_row(self) -> None:
        subject = replay([1.0, 0.5, 0.25, 2.0])
        table = np.zeros((4, 8))
        for step in range(300):
            sample = subject.sample(step, 64, 8)
            np.add.at(table, (sample.rows, sample.symmetries), 1)
        assert stats.chisquare(table.sum(0)).pvalue > 1e-6
        assert stats.chi2_contingency(table).pvalue > 1e-6

    def test_depend_on_seed_step_and_priorities_only(self) -> None:
        first, second = replay([1, 2, 3, 4]), replay([1, 2, 3, 4])
        first.sample(0, 8, 8)
        one, other = first.sample(5, 8, 8), second.sample(5, 8, 8)
        assert np.array_equal(one.rows, other.rows) and np.array_equal(one.symmetries, other.symmetries)
        big = np.arange(1, 1000)
        seeds = [
            Replay(Priorities(big.astype(np.uint64), big.astype(np.float32)), 0.6, 0.4, 0.001, [seed]).sample(0, 64, 8)
            for seed in (0, 1)
        ]
        assert not np.array_equal(seeds[0].rows, seeds[1].rows)

    def test_what_is_learned_is_sampled_less(self) -> None:
        """Rows whose error has vanished are sampled less, as in the formula."""
        subject = replay([1.0] * 100)
        subject.update(np.arange(50), np.zeros(50, np.float32))
        rows = np.concatenate([subject.sample(step, 100, 8).rows for step in range(50)])
        wanted = 0.001**0.6 / (1 + 0.001**0.6)
        assert (rows < 50).mean() == pytest.approx(wanted, rel=0.25)


class TestStart:
    def test_without_stored_ones_all_are_1(self) -> None:
        examples = np.arange(3, dtype=np.uint64)
        for stored in (None, Priorities(examples[:0], np.empty(0, np.float32))):
            assert starting_priorities(examples, stored).values.tolist() == [1, 1, 1]

    def test_of_the_same_set_row_by_row(self) -> None:
        """Even if a position is in the set twice, each copy keeps its own."""
        examples = np.array([5, 5, 9], np.uint64)
        values = np.array([0.5, 0.25, 2.0], np.float32)
        found = starting_priorities(examples, Priorities(examples, values))
        assert found.values.tolist() == [0.5, 0.25, 2.0]

    def test_of_an_earlier_set_by_number(self) -> None:
        """Shared positions keep theirs, new ones get the largest so far."""
        stored = Priorities(np.array([30, 10, 20], np.uint64), np.array([0.3, 0.1, 1.75], np.float32))
        found = starting_priorities(np.array([10, 99, 30, 0, 20, 25], np.uint64), stored)
        np.testing.assert_array_equal(found.values, np.array([0.1, 1.75, 0.3, 1.75, 1.75, 1.75], np.float32))
        assert found.values.dtype == np.float32
