"""The table of considered visits: the examples published by mctx, and invariants."""

import pytest

from pipeline.search.gumbel import sequence_of_considered_visits, table_of_considered_visits

# num_considered, readouts, visits. Source of the first five: mctx, mctx/_src/tests/seq_halving_test.py; the others
# were made with mctx 0.0.71's get_sequence_of_considered_visits.
EXAMPLES = [
    (
        8, 24,
        [
            0, 0, 0, 0, 0, 0, 0, 0,  # 8 moves
            1, 1, 1, 1,              # 4 moves
            2, 2, 2, 2,              # 4 moves, second round
            3, 3, 4, 4, 5, 5, 6, 6,  # 2 moves
        ],
    ),
    (
        8, 47,
        [
            0, 0, 0, 0, 0, 0, 0, 0,
            1, 1, 1, 1,
            2, 2, 2, 2,
            3, 3, 3, 3,
            4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10,
            11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16, 17,
        ],
    ),
    (8, 2, [0, 0]),
    (8, 13, [0] * 8 + [1] * 4 + [2]),
    (
        7, 24,
        [
            0, 0, 0, 0, 0, 0, 0,  # 7 moves
            1, 1, 1, 2, 2, 2,     # 3 moves
            3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8,
        ],
    ),
    (0, 16, list(range(16))),
    (1, 16, list(range(16))),
    (1, 2, [0, 1]),
    (2, 1, [0]),
    (2, 2, [0, 0]),
    (2, 7, [0, 0, 1, 1, 2, 2, 3]),
    (4, 1, [0]),
    (4, 2, [0, 0]),
    (4, 4, [0, 0, 0, 0]),
    (4, 16, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
    (16, 4, [0, 0, 0, 0]),
    (16, 16, [0] * 16),
    (16, 32, [0] * 16 + [1] * 8 + [2] * 4 + [3] * 4),
    (16, 64, [0] * 16 + [1] * 8 + [2] * 8 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4
     + [7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14]),
]  # fmt: skip


@pytest.mark.parametrize(("considered", "readouts", "visits"), EXAMPLES)
def test_published_examples(considered, readouts, visits):
    assert sequence_of_considered_visits(considered, readouts) == visits
    assert table_of_considered_visits(considered, readouts)[considered].tolist() == visits


@pytest.mark.parametrize("considered", range(1, 20))
def test_there_is_always_a_move_with_the_tabled_visits(considered):
    for readouts in (1, 2, 3, 5, 16, 17, 50, 200):
        table = table_of_considered_visits(considered, readouts)
        assert table.shape == (considered + 1, readouts)
        given = [0] * considered
        for wanted in table[considered].tolist():
            given[given.index(wanted)] += 1  # raises if there is none
        assert sum(given) == readouts
        if readouts >= considered:
            assert min(given) >= 1
