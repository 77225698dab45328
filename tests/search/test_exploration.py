"""Exploration at PUCT's root: shaped noise, forced playouts, and targets without them."""

import numpy as np
import pytest
from scipy import stats

from pipeline.games.specs import parse_game
from pipeline.search import puct
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from pipeline.search.tree import ROOT, empty_tree
from tests.reference import puct as reference
from tests.reference.puct import ReferenceSearch
from tests.search.helpers import run_searches, tree_of, twin_games, zero_evaluator

ROW = np.arange(1)
FORCING = SearchOptions(forced_playouts=2.0, c_puct=1.1)


def shapes_of(priors, total, share):
    shapes = np.empty(len(priors))
    puct.noise_shapes(np.array(priors, np.float32), total, share, shapes)
    return shapes


def test_noise_shapes_by_hand():
    """Priors e^-5, e^-7, e^-9 (all below 0.01) and one of 0.9, which counts as 0.01 = e^-4.60517.

    The logs' mean is −6.40129; above it lie −4.60517 by 1.79612 and −5 by 1.40129, together 3.19741: of the shaped
    half they get 0.56174 and 0.43826.
    """
    shapes = shapes_of([0.9, np.exp(-5), np.exp(-7), np.exp(-9)], 8.0, 0.5)
    assert shapes == pytest.approx([1 + 4 * 0.56174, 1 + 4 * 0.43826, 1, 1], abs=1e-3)
    assert shapes_of([0.9, np.exp(-5), np.exp(-7), np.exp(-9)], 8.0, 1.0)[2:].tolist() == [0, 0]
    assert shapes_of([0.7, 0.2, 0.06, 0.04], 8.0, 0.5).tolist() == [2, 2, 2, 2]  # all above 0.01
    assert shapes_of([1 / 3] * 3, 9.0, 0.5).tolist() == [3, 3, 3]
    assert shapes_of([1.0], 10.83, 0.5).tolist() == [10.83]
    assert shapes_of([0.999, 0.001, 0.0], 10.83, 0.0).tolist() == [10.83 / 3] * 3


def test_noise_shapes_equal_the_plain_twin():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        priors = rng.dirichlet(np.full(rng.integers(1, 82), rng.choice([0.03, 0.3, 3.0]))).astype(np.float32)
        share = rng.choice([0.0, 0.25, 0.5, 1.0])
        shapes = shapes_of(priors, 10.83, share)
        assert shapes == pytest.approx(reference.noise_shapes(priors, 10.83, share), rel=1e-6, abs=1e-12)
        assert shapes.sum() == pytest.approx(10.83)


def test_shaped_noise_follows_its_distribution():
    """The root's noise in a search: each move's share is Beta(shape, total − shape)."""
    game = parse_game("tictactoe")
    logits = np.log(np.array([0.9, 0.09, 0.009, 1e-3 * 0.9, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5]), dtype=np.float32)[None]

    def evaluate(planes):
        return np.repeat(logits, len(planes), axis=0), np.zeros(len(planes), np.float32)

    rows = np.arange(1500)
    search = BatchSearch(game, 1500, 1, SearchOptions(noise_weight=0.25, noise_total=10.83, noise_shape=0.5))
    search.new_games(rows, rows.astype(np.uint64))
    search.begin(rows, np.ones(1500, np.int32), np.ones(1500, np.bool_))
    run_searches(search, evaluate)
    tree, priors = tree_of(search), search.root_table(rows)[1][0]
    noisy = np.empty((1500, 9))
    np.put_along_axis(noisy, tree.edge_action[:, :9].astype(int), tree.root_prior, axis=1)
    shapes = reference.noise_shapes(priors, 10.83, 0.5)
    assert shapes[0] > 2 * shapes[-1]
    for action in (0, 2, 3):
        drawn = (noisy[:, action] - 0.75 * priors[action]) / 0.25
        assert stats.kstest(drawn, stats.beta(shapes[action], 10.83 - shapes[action]).cdf).pvalue > 1e-3


def by_action(search):
    """[A] the noise in the root's priors, for ReferenceSearch, which mixes it to the same bits."""
    tree, game = tree_of(search), search.game
    noisy = np.zeros(game.num_actions, np.float32)
    count = tree.node[0, ROOT]["edge_count"]
    noisy[tree.edge_action[0, :count]] = tree.root_prior[0, :count]
    return noisy


@pytest.mark.parametrize(("spec", "readouts"), [("tictactoe", 30), ("connect4", 60), ("go:5", 50), ("go:5", 200)])
def test_forced_searches_and_targets_equal_the_plain_twin(spec, readouts):
    """Noise of weight 1 replaces the priors, so that both searches see the same bits."""
    game = parse_game(spec)
    config = FORCING.model_copy(update={"noise_weight": 1.0, "noise_total": 3.0})
    forced_somewhere = pruned_somewhere = False
    for _seed, ply, evaluate, plain, fast in twin_games(ReferenceSearch, game, config, readouts, 3, 9):
        explore = ply % 3 != 2
        fast.begin(ROW, np.array([readouts], np.int32), np.array([explore]))
        run_searches(fast, evaluate)
        noise = by_action(fast) if explore else None
        plain.search(readouts, noise, force=explore)
        table = fast.root_table(ROW)
        visits, targets = table[0][0], fast.targets(ROW, table)[0]
        assert plain.visits().tolist() == visits.tolist()
        assert plain.targets().tolist() == targets.tolist() == fast.targets(ROW)[0].tolist()
        assert plain.root_value() == fast.root_values(ROW)[0]
        assert (targets <= visits).all() and targets[visits.argmax()] == visits.max()
        if not explore:
            assert (targets == visits).all()
        else:
            tried = visits > 1
            wanted = np.sqrt(config.forced_playouts * noise * visits.sum())
            assert (visits[tried] >= wanted[tried] - 1).all() or visits.sum() > readouts
            forced_somewhere |= bool((visits != plain_visits(game, config, evaluate, plain, readouts, noise)).any())
            pruned_somewhere |= bool((targets < visits).any())
        action = int(visits.argmax())
        plain.advance(action)
        fast.advance(ROW, np.array([action], np.int32))
    assert forced_somewhere and pruned_somewhere


def plain_visits(game, config, evaluate, search, readouts, noise):
    """The result of the same search from a fresh tree without forcing."""
    other = ReferenceSearch(game, config, evaluate)
    other.state, other.past = search.state, search.past
    other.search(readouts, noise)
    return other.visits()


def prune_root(edges, k, c_puct):
    """The pruned visits of a root with these edges: (visits, q, prior with noise) by action."""
    tree = empty_tree(1, 1, len(edges), len(edges), 1)
    tree.num_nodes[0] = 1
    order = [i for i, edge in enumerate(edges) if edge[0]] + [i for i, edge in enumerate(edges) if not edge[0]]
    visits = np.array([edge[0] for edge in edges], np.int32)
    tree.node[0, ROOT] = (visits.sum(), 0, 0, 0, len(edges), (visits > 0).sum(), -1, 0, 0, 0, 0, 0)
    for place, action in enumerate(order):
        n, q, prior = edges[action]
        tree.edge_action[0, place], tree.edge_prior[0, place] = action, prior
        tree.root_prior[0, place] = prior
        tree.edge[0, place] = (n, n * q, -1)
    found = visits[None].copy()
    puct.prune_forced(tree, ROW, np.array([k], np.float32), c_puct, found)
    return found[0].tolist()


def test_pruning_by_hand():
    """100 visits, c_puct = 1, so a score is Q + 10·P/(1 + N); k = 2 forces sqrt(200·P).

    The best, action 1, has 0.5 + 10 · 0.5/81 = 0.5617.
    Action 0: P = 0.32 forces 8; of its 9 visits, with Q = 0, n are needed while 3.2/(1 + n) ≥ 0.5617: n ≤ 4.697, so 5
    is the least count whose score stays below it.
    Action 2: P = 0.08 forces 4; Q = −0.9 never comes near (0.8/1 − 0.9 < 0.56): 4 of 6 go, and the score is not why.
    Action 3: P = 0.05 forces 3.16, so 3; 4 − 3 = 1 left, Q = −1: removed.
    Action 4: a single visit, of P = 0.0001, nothing forced: removed as well.
    """
    edges = [(9, 0.0, 0.32), (80, 0.5, 0.5), (6, -0.9, 0.08), (4, -1.0, 0.05), (1, 0.0, 0.0001), (0, 0, 0.0499)]
    assert prune_root(edges, 2.0, 1.0) == [5, 80, 2, 0, 0, 0]
    assert prune_root(edges, 0.0, 1.0) == [9, 80, 6, 4, 1, 0]


def test_pruning_leaves_good_moves_and_thin_searches_alone():
    # A move that turned out better than the most visited one keeps every visit: PUCT would have come to it.
    assert prune_root([(10, 0.9, 0.2), (20, 0.5, 0.5)], 2.0, 1.0) == [10, 20]
    # One visit each: nothing was forced. The tie isn't broken by wiping out all but one.
    assert prune_root([(1, 0.0, 0.5), (1, 0.2, 0.5)], 2.0, 1.0) == [1, 1]
    assert prune_root([(0, 0.0, 0.5), (0, 0.0, 0.5)], 2.0, 1.0) == [0, 0]
    # Equal visits: the higher prior is the most visited one, then the lower action.
    assert prune_root([(2, -1.0, 0.3), (2, -0.5, 0.7)], 2.0, 1.0) == [0, 2]
    assert prune_root([(2, 0.5, 0.5), (2, -1.0, 0.5)], 2.0, 1.0) == [2, 0]


def test_pruning_of_thousands_of_random_roots_equals_the_plain_twin():
    rng = np.random.default_rng(4)
    changed = 0
    for _ in range(3000):
        count = int(rng.integers(1, 20))
        visits = rng.integers(1, rng.choice([2, 4, 12, 60]), count).tolist()
        q = rng.integers(-64, 65, count) / np.float32(64)
        priors = rng.dirichlet(np.full(count, 0.5)).astype(np.float32)
        # n · q / n must give q again, bit for bit
        q = (np.float32(visits) * q.astype(np.float32)) / np.float32(visits)
        best = max(range(count), key=lambda i: (visits[i], priors[i], -i))
        expected = reference.prune(visits, list(q), list(priors), best, 1.3, 2.0)
        found = prune_root(list(zip(visits, q, priors, strict=True)), 2.0, 1.3)
        assert found == expected
        changed += found != visits
    assert changed > 1000


def test_forced_playouts_look_again_at_what_noise_found():
    """A move that only noise likes, beside one that wins at once: forced it gets sqrt(2·P·ΣN) = 7.07 visits, so 8.

    The target has what PUCT alone would have given it.
    """
    game = parse_game("tictactoe")

    def searched(force):
        search = ReferenceSearch(game, FORCING.model_copy(update={"noise_weight": 1.0}), zero_evaluator(game))
        for move in ("a1", "b1", "b2", "a3"):
            search.advance(game.parse_action(move))  # c3 wins for X at once
        noise = np.zeros(9, np.float32)
        noise[[win, other]] = 0.75, 0.25
        search.search(100, noise, force)
        return search.visits(), search.targets()

    win, other = game.parse_action("c3"), game.parse_action("c2")
    visits, targets = searched(force=True)
    alone, unpruned = searched(force=False)
    assert visits[[win, other]].tolist() == [92, 8] and alone[other] == 2
    assert targets[[win, other]].tolist() == [92, 2]
    assert (unpruned == alone).all()
