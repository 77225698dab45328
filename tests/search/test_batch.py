"""BatchSearch: exact values, legality, independence of rows, reuse of trees, leaf batches."""

import numpy as np
import pytest

from pipeline.errors import IllegalMove, MuGoError
from pipeline.games.specs import parse_game
from pipeline.search import kernels
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from pipeline.search.tree import EDGE_ARRAYS, PENDING
from tests.search.helpers import hashed_evaluator, run_searches, tree_of, zero_evaluator

CALM = SearchOptions(noise_weight=0.0)
QUIET = np.zeros(1, np.bool_)


def search_from(game, moves, readouts, evaluate, config=CALM, leaves=1):
    """One row, the moves played, then a search."""
    search = BatchSearch(game, 1, readouts, config, leaves)
    row = np.arange(1)
    search.new_games(row, np.array([1], np.uint64))
    for move in moves:
        search.advance(row, np.array([move], np.int32))
    search.begin(row, np.array([readouts], np.int32), QUIET)
    run_searches(search, evaluate)
    return search


def check_tree(search, rows):
    """Invariants of every tree: counts and sums agree between nodes and edges, and nothing is pending."""
    tree = tree_of(search)
    for row in rows:
        assert tree.pending[row] == 0
        for node in range(tree.num_nodes[row]):
            this = tree.node[row, node]
            start, count, tried = this["edge_start"], this["edge_count"], this["num_visited"]
            edges = tree.edge[row, start : start + tried]
            assert this["visits"] == edges["visits"].sum()
            assert np.isclose(this["value_sum"], edges["value_sum"].sum(), atol=1e-4)
            assert (edges["visits"] > 0).all()
            assert (tree.edge_pending[row, start : start + tried] == 0).all()
            assert (np.abs(edges["value_sum"]) <= edges["visits"] + 1e-4).all()
            assert len(set(tree.edge_action[row, start : start + count])) == count
            if count:
                assert np.isclose(tree.edge_prior[row, start : start + count].sum(), 1, atol=1e-5)
            for edge in edges:
                child = edge["child"]
                assert child != PENDING
                if child >= 0:
                    assert tree.node[row, child]["parent"] == node and child > node
                    assert tree.node[row, child]["visits"] <= edge["visits"]


@pytest.mark.parametrize(
    ("moves", "value"),
    [
        ([0, 3, 1, 4], 1.0),  # X to move wins at once with 2
        ([0, 1, 3, 2], 1.0),  # X: 6 wins
        ([0, 4, 8], 0.0),  # a drawn game
        ([0, 1, 4], -1.0),  # O to move is lost: X threatens 8, and then two lines
        ([], 0.0),
    ],
)
def test_tictactoe_values_are_exact(moves, value):
    search = search_from(parse_game("tictactoe"), moves, 4000, zero_evaluator(parse_game("tictactoe")))
    tree = tree_of(search)
    best = int(search.choose(np.arange(1), np.zeros(1))[0])
    start, tried = tree.node[0, 0]["edge_start"], tree.node[0, 0]["num_visited"]
    edges = {int(tree.edge_action[0, e]): tree.edge[0, e] for e in range(start, start + tried)}
    assert abs(edges[best]["value_sum"] / edges[best]["visits"] - value) < 0.12
    check_tree(search, [0])


def test_connect_four_finds_a_forced_win():
    game = parse_game("connect4")
    # X has 2, 3 on the bottom row with both ends free after O's nonsense: 1 or 4 makes an open three that can't be
    # parried.
    search = search_from(game, [2, 2, 3, 3], 3000, zero_evaluator(game))
    assert int(search.choose(np.arange(1), np.zeros(1))[0]) in (1, 4)
    assert search.root_values(np.arange(1))[0] > 0.5


def test_illegal_moves_are_never_visited_in_go_with_superko():
    game = parse_game("go:5")
    rng = np.random.default_rng(3)
    evaluate = hashed_evaluator(game, 1)
    rows = np.arange(16)
    search = BatchSearch(game, 16, 30, SearchOptions(), 1)
    search.new_games(rows, rng.integers(0, 2**63, 16).astype(np.uint64))
    forbidden_seen = 0
    for _ in range(40):
        rows = rows[~search.over(rows)]
        if rows.size == 0:
            break
        search.begin(rows, np.full(len(rows), 30), np.ones(len(rows), np.bool_))
        run_searches(search, evaluate)
        legal = game.legal(search.states[rows], search.history.select(rows))
        visits, priors = search.root_table(rows)
        assert (visits[~legal] == 0).all() and (priors[~legal] == 0).all()
        assert (priors[legal] > 0).all()
        points = search.states[rows][:, : game.num_points]
        forbidden_seen += int(((points == 0) & ~legal[:, :-1]).sum())
        check_tree(search, rows)
        search.advance(rows, search.choose(rows, np.ones(len(rows))))
    assert forbidden_seen > 0


def test_a_row_is_the_same_alone_and_in_a_batch():
    game = parse_game("go:5")
    evaluate = hashed_evaluator(game)
    readouts = np.array([5, 40, 17, 1, 0, 33, 26, 40])
    seeds = np.arange(100, 108).astype(np.uint64)

    def play(rows_together):
        search = BatchSearch(game, len(rows_together), 40, SearchOptions(), 1)
        rows = np.arange(len(rows_together))
        search.new_games(rows, seeds[rows_together])
        found = [[] for _ in rows]
        search.begin(rows, readouts[rows_together], np.ones(len(rows), np.bool_))
        for _ in range(400):
            planes = search.leaves()
            if len(planes):
                search.expand(*evaluate(planes))
            done = search.finished()
            if done.size == 0:
                continue
            visits, values = search.root_table(done)[0], search.root_values(done)
            actions = search.choose(done, np.ones(len(done)))
            search.advance(done, actions)
            over = search.over(done)
            for i, row in enumerate(done.tolist()):
                found[row].append((int(actions[i]), float(values[i]), visits[i].tobytes()))
            going = done[~over]
            search.begin(going, readouts[rows_together][going], np.ones(len(going), np.bool_))
        return found

    together = play(np.arange(8))
    compared = 0
    for row in range(8):
        (alone,) = play(np.array([row]))
        shared = min(len(alone), len(together[row]))
        compared += shared
        assert alone[:shared] == together[row][:shared]
    assert compared >= 40


def test_readouts_zero_is_the_raw_policy():
    game = parse_game("go:5")
    evaluate = hashed_evaluator(game)
    search = search_from(game, [], 0, evaluate)
    logits, value = evaluate(game.observe(search.states, game.legal(search.states, search.history)))
    policy = np.exp(logits[0] - logits[0].max())
    assert np.allclose(search.root_table(np.arange(1))[1][0], policy / policy.sum(), rtol=1e-5)
    assert search.root_values(np.arange(1))[0] == value[0]
    assert search.root_table(np.arange(1))[0].sum() == 0
    assert search.choose(np.arange(1), np.zeros(1))[0] == policy.argmax()


def test_sampling_follows_visits_and_temperature():
    streams = np.array([4], np.uint64)
    visits = np.array([[0, 10, 30, 60]], np.int32)
    priors = np.array([[0.7, 0.1, 0.1, 0.1]], np.float32)
    action = np.empty(1, np.int32)
    rows = np.zeros(1, np.int64)

    def frequencies(temperature, visits):
        counts = np.zeros(4)
        for _ in range(20_000):
            kernels.sample_actions(streams, rows, visits, priors, np.array([temperature]), action)
            counts[action[0]] += 1
        return counts / counts.sum()

    assert np.allclose(frequencies(1.0, visits), [0, 0.1, 0.3, 0.6], atol=0.02)
    assert np.allclose(frequencies(0.5, visits), np.array([0, 1, 9, 36]) / 46, atol=0.02)
    assert np.allclose(frequencies(0.0, visits), [0, 0, 0, 1])
    assert np.allclose(frequencies(0.0, np.array([[0, 40, 40, 20]], np.int32)), [0, 1, 0, 0])  # never sampled
    assert np.allclose(frequencies(1.0, np.zeros((1, 4), np.int32)), priors[0], atol=0.02)


def test_noise_moves_the_root_only_and_keeps_a_distribution():
    game = parse_game("go:5")
    search = BatchSearch(game, 1, 1, SearchOptions(noise_weight=0.25), 1)
    row = np.arange(1)
    search.new_games(row, np.array([3], np.uint64))
    search.begin(row, np.array([1], np.int32), np.ones(1, np.bool_))
    run_searches(search, zero_evaluator(game))
    noisy = tree_of(search).root_prior[0]
    assert abs(noisy.sum() - 1) < 1e-5 and noisy.std() > 1e-4
    assert (noisy >= 0.75 / game.num_actions - 1e-6).all()
    assert np.allclose(search.root_table(row)[1], 1 / game.num_actions)


@pytest.mark.parametrize("leaves", [1, 4, 8])
def test_readouts_are_counted_exactly_with_many_leaves(leaves):
    game = parse_game("go:5")
    search = search_from(game, [12], 100, hashed_evaluator(game), leaves=leaves)
    assert search.root_table(np.arange(1))[0].sum() == 100
    check_tree(search, [0])


def test_leaf_batches_find_the_same_win():
    game = parse_game("tictactoe")
    search = search_from(game, [0, 3, 1, 4], 400, zero_evaluator(game), leaves=8)
    assert search.choose(np.arange(1), np.zeros(1))[0] == 2


def test_the_subtree_of_the_move_is_kept():
    game = parse_game("go:5")
    search = search_from(game, [], 60, hashed_evaluator(game))
    row = np.arange(1)
    before = search.root_table(row)[0][0]
    move = int(before.argmax())
    search.advance(row, np.array([move], np.int32))
    check_tree(search, row)
    assert tree_of(search).node[0, 0]["visits"] == before[move] - 1
    search.begin(row, np.array([10], np.int32), QUIET)
    run_searches(search, hashed_evaluator(game))
    assert search.root_table(row)[0].sum() == before[move] - 1 + 10


def test_long_forced_games_never_outgrow_their_room():
    game = parse_game("tictactoe")
    config = SearchOptions(noise_weight=0.0)
    search = BatchSearch(game, 2, 3, config, 1)
    rows = np.arange(2)
    search.new_games(rows, np.array([1, 2], np.uint64))
    while not search.over(rows).any():
        for _ in range(3):  # the forced lines of a small board carry most of each tree along
            search.begin(rows, np.full(2, 1), np.zeros(2, np.bool_))
            run_searches(search, zero_evaluator(game))
        search.advance(rows, search.choose(rows, np.zeros(2)))
        check_tree(search, rows)
        assert (tree_of(search).num_nodes <= search._max_kept).all()


def test_more_readouts_than_there_is_room_for_are_refused():
    search = BatchSearch(parse_game("tictactoe"), 1, 3, CALM)
    search.new_games(np.arange(1), np.array([1], np.uint64))
    with pytest.raises(MuGoError, match="room"):
        search.begin(np.arange(1), np.array([100], np.int32), QUIET)


def test_edges_grow_when_a_game_needs_more():
    game = parse_game("go:9")
    search = BatchSearch(game, 2, 400, CALM, 1)
    small = {name: getattr(tree_of(search), name)[:, :100].copy() for name in EDGE_ARRAYS}
    search._tree = tree_of(search)._replace(**small)
    rows = np.arange(2)
    search.new_games(rows, np.array([1, 2], np.uint64))
    search.begin(rows, np.array([400, 7]), np.zeros(2, np.bool_))
    run_searches(search, hashed_evaluator(game))
    check_tree(search, rows)
    roomy = search_from(game, [], 400, hashed_evaluator(game))
    assert (search.root_table(rows[:1])[0] == roomy.root_table(rows[:1])[0]).all()


@pytest.mark.parametrize("leaves", [1, 8])
def test_what_undefined_edges_hold_changes_nothing(leaves):
    """As in arrays that have just grown: visited edges move to places where none was visited before."""
    game = parse_game("go:5")
    config = SearchOptions(noise_weight=0.0, lcb_deviations=5.0)
    rows = np.arange(2)

    def play(filling):
        search = BatchSearch(game, 2, 60, config, leaves)
        for name in EDGE_ARRAYS:
            getattr(tree_of(search), name).view(np.uint8)[:] = filling
        search.new_games(rows, np.array([1, 2], np.uint64))
        found = []
        for _ in range(6):
            search.begin(rows, np.full(2, 60), np.zeros(2, np.bool_))
            run_searches(search, hashed_evaluator(game))
            check_tree(search, rows)
            actions = search.choose(rows, np.zeros(2))
            found.append((search.root_table(rows)[0].tolist(), search.root_values(rows).tolist(), actions.tolist()))
            search.advance(rows, actions)
        return found

    assert play(7) == play(0)


def test_trees_that_no_machine_can_hold_are_refused():
    for readouts in (10_000_000, 10**9, 10**15):
        with pytest.raises(MuGoError, match=f"{readouts:,} readouts in 3 games at once don't fit into memory; wanted"):
            BatchSearch(parse_game("go:9"), 3, readouts, CALM)


def test_bad_input_is_refused():
    game = parse_game("tictactoe")
    search = BatchSearch(game, 1, 5, CALM)
    row = np.arange(1)
    search.new_games(row, np.array([1], np.uint64))
    search.advance(row, np.array([4], np.int32))
    states = search.states.copy()
    with pytest.raises(IllegalMove):
        search.advance(row, np.array([4], np.int32))
    assert (search.states == states).all()
    search.begin(row, np.array([5], np.int32), QUIET)
    planes = search.leaves()
    with pytest.raises(MuGoError, match="finite"):
        search.expand(np.full((len(planes), 9), np.nan, np.float32), np.zeros(len(planes), np.float32))
