"""Gumbel AlphaZero: formulas by hand and from mctx, kernels against their plain twin, no reuse of trees."""

import numpy as np
import pytest

from pipeline.games.specs import parse_game
from pipeline.search import gumbel
from pipeline.search import random as kernel_random
from pipeline.search.batch import BatchSearch
from pipeline.search.gumbel import TARGET_SUM, Gumbel
from pipeline.search.options import SearchOptions
from pipeline.search.tree import ROOT, empty_tree
from tests.reference.gumbel import GumbelReference, MixedReference
from tests.search.helpers import hashed_evaluator, run_searches, tree_of, twin_games, zero_evaluator

ROW = np.arange(1)
GUMBEL = SearchOptions(algorithm="gumbel")
MIXED = SearchOptions(algorithm="mixed")


def drawn_noise(search, legal, scale):
    """[A] the noise that the search will sample at the root, from the row's stream in the order of actions."""
    stream = tree_of(search).streams.copy()
    noise = np.zeros(len(legal))
    for action in np.flatnonzero(legal):
        noise[action] = scale * kernel_random.gumbel(stream, 0)
    return noise


CASES = [
    ("tictactoe", 1, {}),
    ("tictactoe", 2, {"max_num_considered_actions": 4}),
    ("tictactoe", 50, {"gumbel_scale": 0.3}),
    ("connect4", 4, {}),
    ("connect4", 60, {"max_num_considered_actions": 3, "value_scale": 1.0, "max_visit_init": 5.0}),
    ("go:5", 16, {}),
    ("go:5", 64, {"max_num_considered_actions": 8}),
    ("go:5", 7, {"max_num_considered_actions": 100, "gumbel_scale": 0.0}),
]


@pytest.mark.parametrize(("spec", "readouts", "settings"), CASES)
def test_kernels_equal_the_plain_twin(spec, readouts, settings):
    """Visits and choices are the same, move for move; targets differ by at most 1 of 65,535."""
    game = parse_game(spec)
    config = GUMBEL.model_copy(update=settings)
    for _seed, ply, evaluate, plain, fast in twin_games(GumbelReference, game, config, readouts, 3, 12):
        explore = ply % 3 != 2
        legal = game.legal(fast.states, fast.history)[0]
        noise = drawn_noise(fast, legal, config.gumbel_scale) if explore else None
        before = tree_of(fast).streams.copy()
        plain.search(readouts, noise)
        fast.begin(ROW, np.array([readouts], np.int32), np.array([explore]))
        run_searches(fast, evaluate)
        assert plain.visits().tolist() == fast.root_table(ROW)[0][0].tolist()
        assert plain.policy().tolist() == fast.root_table(ROW)[1][0].tolist()
        assert plain.root_value() == fast.root_values(ROW)[0]
        assert np.abs(plain.targets() - fast.targets(ROW)[0]).max() <= 1
        assert explore or (tree_of(fast).streams == before).all()
        action = plain.winner()
        for temperature in (0.0, 1.0):
            assert fast.choose(ROW, np.array([temperature]))[0] == action
        plain.advance(action)
        fast.advance(ROW, np.array([action], np.int32))


@pytest.mark.parametrize(("spec", "readouts", "leaves"), [("tictactoe", 60, 3), ("connect4", 150, 8), ("go:5", 80, 4)])
def test_pending_leaves_are_no_part_of_the_values_that_are_rescaled(spec, readouts, leaves):
    """With several leaves pending, kernels equal the plain twin, which knows which visits have a value."""
    game = parse_game(spec)
    together = 0
    for seed in range(4):
        evaluate = hashed_evaluator(game, seed)
        plain, fast = GumbelReference(game, GUMBEL, evaluate), BatchSearch(game, 1, readouts, GUMBEL, leaves)
        fast.new_games(ROW, np.array([seed], np.uint64))
        for _ply in range(10):
            if fast.over(ROW)[0]:
                break
            noise = drawn_noise(fast, game.legal(fast.states, fast.history)[0], 1.0)
            plain.search(readouts, noise, leaves=leaves)
            fast.begin(ROW, np.array([readouts], np.int32), np.array([True]))
            while not fast.finished().size:
                planes = fast.leaves()
                together = max(together, len(planes))
                if len(planes):
                    fast.expand(*evaluate(planes))
            assert plain.visits().tolist() == fast.root_table(ROW)[0][0].tolist()
            assert np.abs(plain.targets() - fast.targets(ROW)[0]).max() <= 1
            tree = tree_of(fast)
            assert not tree.edge_pending[0, : tree.num_edges[0]].any()
            action = plain.winner()
            assert fast.choose(ROW, np.zeros(1))[0] == action
            plain.advance(action)
            fast.advance(ROW, np.array([action], np.int32))
    assert together == leaves


@pytest.mark.parametrize(("spec", "full", "cheap"), [("tictactoe", 20, 3), ("connect4", 60, 16), ("go:5", 40, 9)])
def test_mixed_searches_equal_the_plain_twin(spec, full, cheap):
    """Gumbel where it explores; elsewhere PUCT, which continues the tree that either left."""
    game = parse_game(spec)
    kept = 0
    for seed, ply, evaluate, plain, fast in twin_games(MixedReference, game, MIXED, full, 4, 16):
        explore = (ply + seed) % 4 == 0
        readouts = full if explore else cheap
        noise = drawn_noise(fast, game.legal(fast.states, fast.history)[0], 1.0) if explore else None
        plain.search(readouts, noise)
        fast.begin(ROW, np.array([readouts], np.int32), np.array([explore]))
        run_searches(fast, evaluate)
        visits = fast.root_table(ROW)[0][0]
        assert plain.visits().tolist() == visits.tolist()
        assert visits.sum() == full if explore else visits.sum() >= cheap
        kept += int(visits.sum()) - readouts
        assert plain.root_value() == fast.root_values(ROW)[0]
        assert np.abs(plain.targets() - fast.targets(ROW)[0]).max() <= explore
        action = int(fast.choose(ROW, np.zeros(1))[0])
        assert visits[action] == visits.max()
        assert not explore or action == plain.winner()
        plain.advance(action)
        fast.advance(ROW, np.array([action], np.int32))
    assert kept > 0


def test_rows_of_a_mixed_batch_dont_disturb_each_other():
    game = parse_game("go:5")
    evaluate = hashed_evaluator(game)

    def found(numbers):
        search = BatchSearch(game, len(numbers), 40, MIXED)
        rows = np.arange(len(numbers))
        search.new_games(rows, numbers.astype(np.uint64))
        seen = []
        for turn in range(6):
            explore = (numbers + turn) % 3 == 0
            search.begin(rows, np.where(explore, 40, 7).astype(np.int32), explore)
            run_searches(search, evaluate)
            targets = search.targets(rows)
            actions = search.choose(rows, np.where(numbers % 2, 1.0, 0.0))
            seen.append(np.column_stack([targets, search.root_table(rows)[0], actions]))
            search.advance(rows, actions)
        return np.stack(seen, axis=1)

    together = found(np.arange(9))
    for number in range(9):
        assert (found(np.array([number]))[0] == together[number]).all()


def random_node(rng, shuffled=True):
    """(tree, priors, visits, values, v): a root with random edges, and their contents by action."""
    count = int(rng.integers(1, 30))
    tree = empty_tree(1, 1, count, count, 1)
    tried = int(rng.integers(0, count + 1))
    priors = rng.dirichlet(np.full(count, rng.choice([0.05, 0.5, 5.0]))).astype(np.float32)
    visits = np.zeros(count, np.int32)
    sums = np.zeros(count, np.float32)
    chosen = rng.permutation(count) if shuffled else np.arange(count)
    visits[chosen[:tried]] = rng.integers(1, 20, tried)
    sums[chosen[:tried]] = visits[chosen[:tried]] * rng.uniform(-1, 1, tried)
    tree.num_nodes[0] = 1
    root = tree.node[0, ROOT]
    root["visits"], root["value"], root["value_sum"] = visits.sum(), rng.uniform(-1, 1), sums.sum()
    root["edge_start"], root["edge_count"], root["num_visited"] = 0, count, tried
    rest = sorted(chosen[tried:].tolist(), key=lambda action: (-priors[action], action))
    order = chosen[:tried].tolist() + rest
    tree.edge_action[0], tree.edge_prior[0], tree.root_prior[0] = order, priors[order], 0.0
    tree.edge["visits"][0], tree.edge["value_sum"][0] = visits[order], sums[order]
    return tree, priors.astype(np.float64), visits, sums.astype(np.float64), float(root["value"])


def improved_by_the_formula(priors, visits, sums, value, scale, init):
    """softmax(logits + σ(completed Q)), line by line as in the paper, sections 4 and appendix D."""
    priors = np.maximum(priors, gumbel.MIN_PRIOR)
    seen = visits > 0
    q = np.divide(sums, visits, out=np.zeros_like(sums), where=seen)
    v_mix = value
    if seen.any():
        v_mix = (value + visits.sum() * (priors[seen] * q[seen]).sum() / priors[seen].sum()) / (1 + visits.sum())
    q = np.where(seen, q, v_mix)
    q = (q - q.min()) / max(q.max() - q.min(), 1e-8)
    weights = np.log(priors) + (init + visits.max()) * scale * q
    weights = np.exp(weights - weights.max())
    return weights / weights.sum()


def settings(tree, scale=0.1, init=50.0):
    return Gumbel(np.zeros((1, 2, 1), np.int32), np.zeros(1, np.int32), scale, init, np.empty(tree.edge.shape[1]))


def test_targets_of_thousands_of_random_nodes():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        tree, priors, visits, sums, value = random_node(rng)
        scale, init = rng.choice([0.02, 0.1, 1.0]), rng.choice([0.0, 5.0, 50.0])
        out = np.empty((1, len(priors)), np.int32)
        gumbel.targets(tree, ROW, settings(tree, scale, init), out)
        if visits.sum() == 0:
            assert not out.any()
            continue
        improved = improved_by_the_formula(priors, visits, sums, value, scale, init)
        assert np.abs(out[0] - improved * TARGET_SUM).max() <= 0.5 + 1e-3
        assert abs(int(out.sum()) - TARGET_SUM) <= len(priors)


def test_inner_choices_of_thousands_of_random_nodes():
    """argmax of the improved policy − N/(1 + ΣN), although the kernel reads only the visited edges and one more."""
    rng = np.random.default_rng(2)
    for _ in range(3000):
        tree, priors, visits, sums, value = random_node(rng)
        # as an inner node: 1 is no ROOT
        node = np.empty((1, 2), tree.node.dtype)
        node[0, 1] = tree.node[0, ROOT]
        found = gumbel.select_child(tree._replace(node=node), 0, 1, settings(tree))
        score = improved_by_the_formula(priors, visits, sums, value, 0.1, 50.0) - visits / (1 + visits.sum())
        assert score[tree.edge_action[0, found]] >= score.max() - 1e-6


def test_a_hand_calculation():
    """Three moves, logits log(1/2), log(1/4), log(1/4), v = 0; the first two visited: N = 2, 1; q = 0.5, −0.5.

    v_mix = (0 + 3 · (1/2 · 0.5 − 1/4 · 0.5)/(3/4)) / 4 = 0.125; completed Q = (0.5, −0.5, 0.125), rescaled
    (1, 0, 0.625); σ = (50 + 2) · 0.1 · that = (5.2, 0, 3.25); softmax of logits + σ ~ (e^5.2/2, 1/4, e^3.25/4).
    """
    tree, *_ = random_node(np.random.default_rng(0))
    tree = empty_tree(1, 1, 3, 3, 1)
    tree.num_nodes[0] = 1
    tree.node[0, ROOT] = (3, 0.5, 0.0, 0, 3, 2, -1, 0, 0, 0, 0, 0)
    tree.edge_action[0], tree.edge_prior[0] = [2, 0, 1], [0.5, 0.25, 0.25]
    tree.edge[0] = [(2, 1.0, 0), (1, -0.5, 0), (99, 99.0, 99)]  # an untried edge's record means nothing
    out = np.empty((1, 3), np.int32)
    gumbel.targets(tree, ROW, settings(tree), out)
    weights = {2: np.exp(5.2) / 2, 0: 1 / 4, 1: np.exp(3.25) / 4}
    assert out[0].tolist() == [round(weights[a] / sum(weights.values()) * TARGET_SUM) for a in range(3)]


def test_noise_is_gumbel_drawn_once_per_search_and_absent_without_exploring():
    game = parse_game("go:5")
    rows = np.arange(400)
    search = BatchSearch(game, 400, 4, GUMBEL)
    search.new_games(rows, np.arange(400).astype(np.uint64))
    evaluate = zero_evaluator(game)
    search.begin(rows, np.full(400, 4), rows % 2 == 0)
    search.expand(*evaluate(search.leaves()))
    scores = tree_of(search).root_prior[rows].copy()
    run_searches(search, evaluate)
    assert (np.sort(tree_of(search).root_prior[rows]) == np.sort(scores)).all()
    assert (scores[1::2] == 0).all()  # uniform priors
    drawn = scores[::2].ravel()
    assert abs(drawn.mean() - 0.5772) < 0.04 and abs(drawn.std() - np.pi / 6**0.5) < 0.04
    # The top four by noise were visited, once each, though the policy and the values say nothing.
    for row in rows[::2]:
        by_action = np.empty(game.num_actions)
        by_action[tree_of(search).edge_action[row, : game.num_actions]] = tree_of(search).root_prior[row]
        assert set(np.argsort(-by_action)[:4]) == set(np.flatnonzero(search.root_table(np.array([row]))[0][0]))
    first = search.root_table(rows)[0]
    search.begin(rows, np.full(400, 4), rows % 2 == 0)
    run_searches(search, evaluate)
    assert (search.root_table(rows)[0][::2] != first[::2]).any(axis=1).mean() > 0.9
    assert (search.root_table(rows)[0][1::2] == first[1::2]).all()


def test_a_move_keeps_the_roots_evaluation_and_nothing_else():
    game = parse_game("connect4")
    evaluate = hashed_evaluator(game)
    search = BatchSearch(game, 1, 40, GUMBEL)
    search.new_games(ROW, np.array([5], np.uint64))
    search.begin(ROW, np.array([40]), np.ones(1, np.bool_))
    run_searches(search, evaluate)
    search.advance(ROW, search.choose(ROW, np.zeros(1)))
    assert tree_of(search).num_nodes[0] == 1
    assert search.root_table(ROW)[0].sum() == 0 and search.targets(ROW).sum() == 0
    logits, value = evaluate(game.legal_and_observe(search.states, search.history)[1])
    assert search.root_values(ROW)[0] == value[0]
    priors = np.exp(logits[0] - logits[0].max())
    assert np.allclose(search.root_table(ROW)[1][0], priors / priors.sum(), rtol=1e-5)
    before = search.evaluations
    for budget in (40, 3, 0, 40):  # also without a move between: a search is a new one
        search.begin(ROW, np.array([budget]), np.zeros(1, np.bool_))
        run_searches(search, evaluate)
        assert search.root_table(ROW)[0].sum() == budget
    assert search.evaluations - before <= 83  # the root was not asked about again


def test_a_position_can_be_searched_again_with_all_readouts():
    """The second search drops the first one's nodes and can use their room."""
    game = parse_game("connect4")
    search = BatchSearch(game, 1, 60, SearchOptions(algorithm="gumbel"))
    rows = np.arange(1)
    search.new_games(rows, np.array([1], np.uint64))
    for _ in range(2):
        assert search.room(0) == 60
        search.begin(rows, np.array([search.room(0)], np.int32), np.zeros(1, np.bool_))
        run_searches(search, hashed_evaluator(game))
        assert search.root_table(rows)[0].sum() == 60
    search.advance(rows, np.array([3], np.int32))
    assert search.room(0) == 60


def test_readouts_zero_is_the_raw_policy():
    game = parse_game("go:5")
    search = BatchSearch(game, 2, 8, GUMBEL)
    rows = np.arange(2)
    search.new_games(rows, np.arange(2).astype(np.uint64))
    search.begin(rows, np.array([0, 8]), np.zeros(2, np.bool_))
    run_searches(search, hashed_evaluator(game))
    assert search.root_table(rows)[0].sum(axis=1).tolist() == [0, 8]
    assert search.targets(rows).any(axis=1).tolist() == [False, True]
    chosen = search.choose(rows, np.zeros(2))
    assert chosen[0] == search.root_table(rows)[1][0].argmax()
    assert search.root_table(rows)[0][1, chosen[1]] > 0


@pytest.mark.parametrize("leaves", [1, 4])
def test_rows_are_independent_and_count_exactly(leaves):
    game = parse_game("go:5")
    evaluate = hashed_evaluator(game)
    readouts = np.array([1, 2, 4, 16, 33, 50, 7, 0])

    def found(rows_together):
        search = BatchSearch(game, len(rows_together), 50, GUMBEL, leaves)
        rows = np.arange(len(rows_together))
        search.new_games(rows, rows_together.astype(np.uint64))
        for _ in range(3):
            search.begin(rows, readouts[rows_together], np.ones(len(rows), np.bool_))
            run_searches(search, evaluate)
            assert search.root_table(rows)[0].sum(axis=1).tolist() == readouts[rows_together].tolist()
            targets = search.targets(rows)
            search.advance(rows, search.choose(rows, np.zeros(len(rows))))
        return targets

    together = found(np.arange(8))
    for row in range(8):
        assert (found(np.array([row]))[0] == together[row]).all()
