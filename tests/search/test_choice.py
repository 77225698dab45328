"""Choice of a move by its lower confidence bound."""

import math

import numpy as np
import pytest

from pipeline.games.specs import parse_game
from pipeline.search import puct
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from pipeline.search.tree import NO_CHILD, ROOT, empty_tree
from tests.reference.puct import Edge, Node, ReferenceSearch, lower_bound
from tests.search.helpers import hashed_evaluator, run_searches, twin_games

ROW = np.arange(1)
GREEDY = np.zeros(1)


def root_of(edges):
    """(tree, its twin's edges) of a root. edges: (visits, value sum, child) by action, in the order of first visits;
    child: (value, visits, value sum, square sum, terminal), or None where its node was dropped.
    """
    tree = empty_tree(1, 1 + len(edges), len(edges), len(edges), 1)
    tree.num_nodes[0] = 1 + len(edges)
    root = tree.node[0, ROOT]
    root["edge_start"], root["edge_count"], root["num_visited"] = 0, len(edges), len(edges)
    plain = []
    for place, (action, (visits, value_sum, child)) in enumerate(edges.items()):
        tree.edge_action[0, place] = action
        tree.edge[0, place] = (visits, value_sum, NO_CHILD if child is None else 1 + place)
        plain.append(Edge(action, np.float32(0.1), visits, np.float32(value_sum)))
        if child is not None:
            value, below, total, squares, terminal = child
            node = tree.node[0, 1 + place]
            node["value"], node["visits"], node["value_sum"], node["square_sum"] = value, below, total, squares
            node["terminal"] = terminal
            plain[-1].child = Node(None, 0, np.float32(value), terminal, [], [], below)
            plain[-1].child.value_sum, plain[-1].child.square_sum = np.float32(total), np.float32(squares)
    return tree, plain


def chosen(tree, deviations, temperature=0.0):
    """The action, -1 if it was left unchanged."""
    actions = np.array([-1], np.int32)
    everything = np.ones((1, 1 + tree.edge_action.max()), np.int32)
    puct.lcb_actions(tree, ROW, everything, np.array([temperature]), deviations, actions)
    return int(actions[0])


def test_bounds_by_hand():
    """Action 3: 10 visits, Q 0.5, values 0 and ±1 at the child: mean 0.4, squares 0.4 on average, so spread
    10·(0.4 − 0.16) = 2.4; with a tenth of a value that is off by 1: s² = (2.4 + 0.1)/(10 + 0.1); Q − 5·s/sqrt(10).
    Action 1: 4 visits, all values 0.25: s² = (0 + 1/4)/(4 + 1/4). Action 0: ends the game, so its bound is Q.
    Action 2: its node was dropped: s² = 1.
    """
    edges = {
        3: (10, 5.0, (0.0, 9, 4.0, 4.0, False)),
        1: (4, 1.0, (-0.25, 3, -0.75, 0.1875, False)),
        0: (2, -1.0, (1.0, 0, 0.0, 0.0, True)),
        2: (9, 4.5, None),
    }
    tree, plain = root_of(edges)
    wanted = [0.5 - 5 * math.sqrt(2.5 / 10.1 / 10), 0.25 - 5 * math.sqrt(0.25 / 4.25 / 4), -0.5, 0.5 - 5 / 3]
    for place, bound in enumerate(wanted):
        assert puct.lower_bound(tree, 0, place, 5.0) == pytest.approx(bound)
        assert lower_bound(plain[place], 5.0) == pytest.approx(bound)
    assert chosen(tree, 5.0) == 3
    assert chosen(tree, 20.0) == 0  # the most certain of all, however bad
    assert chosen(tree, 5.0, temperature=0.5) == -1


def test_few_visits_have_no_bound_and_ties_go_to_the_lower_action():
    same = (4, 2.0, (-0.5, 3, -1.5, 0.75, False))
    assert chosen(root_of({5: same, 2: same, 7: same})[0], 5.0) == 2
    certain = (2, 2.0, (-1.0, 0, 0.0, 0.0, True))
    assert chosen(root_of({0: (20, 0.0, None), 1: certain})[0], 5.0) == 0  # 2 visits are less than 15 % of 20
    assert chosen(root_of({0: (13, 0.0, None), 1: certain})[0], 5.0) == 1
    assert chosen(root_of({0: (1, 0.0, None), 1: (1, 1.0, certain[2])})[0], 5.0) == -1


def test_choices_of_thousands_of_random_roots_equal_the_plain_twin():
    rng = np.random.default_rng(1)
    search = ReferenceSearch(parse_game("tictactoe"), SearchOptions(), lambda planes: None)
    by_visits = 0  # how often it is the first move of most visits
    for _ in range(3000):
        count = int(rng.integers(1, 12))
        edges = {}
        for action in rng.permutation(count).tolist():
            visits = int(rng.integers(1, rng.choice([3, 10, 100])))
            values = np.clip(rng.normal(rng.normal(0, 0.1), 0.3, visits), -1, 1).astype(np.float32)
            below = (float(values[0]), visits - 1, float(values[1:].sum()), float((values[1:] ** 2).sum()))
            child = None if rng.random() < 0.1 else (*below, bool(rng.random() < 0.1))
            edges[action] = (visits, float(-values.sum()), child)
        tree, plain = root_of(edges)
        search.root = Node(None, 0, np.float32(0.0), False, sorted(plain, key=lambda edge: edge.action))
        expected = search.lcb_action(2.0)
        assert chosen(tree, 2.0) == (-1 if expected is None else expected)
        by_visits += expected == max(edges, key=lambda action: edges[action][0])
    assert 500 < by_visits < 2500


@pytest.mark.parametrize(("spec", "readouts", "leaves"), [("connect4", 90, 1), ("connect4", 150, 6), ("go:5", 40, 1)])
def test_whole_searches_choose_as_the_plain_twin(spec, readouts, leaves):
    game = parse_game(spec)
    config = SearchOptions(noise_weight=0.0, lcb_deviations=3.0)
    otherwise = 0
    for _seed, _ply, evaluate, plain, fast in twin_games(ReferenceSearch, game, config, readouts, 3, 12, leaves):
        plain.search(readouts, leaves=leaves)
        fast.begin(ROW, np.array([readouts], np.int32), np.zeros(1, np.bool_))
        run_searches(fast, evaluate)
        action = int(fast.choose(ROW, GREEDY)[0])
        assert action == plain.lcb_action(3.0)
        assert fast.candidates(0)[0].action == action
        otherwise += action != plain.visits().argmax()
        plain.advance(action)
        fast.advance(ROW, np.array([action], np.int32))
    assert otherwise


def test_the_table_says_which_moves_count():
    """Moves whose visits the caller removed can't be chosen; without any visits the highest prior is."""
    game = parse_game("connect4")
    search = BatchSearch(game, 1, 90, SearchOptions(noise_weight=0.0, lcb_deviations=3.0))
    search.new_games(ROW, np.array([1], np.uint64))
    search.begin(ROW, np.array([90], np.int32), np.zeros(1, np.bool_))
    run_searches(search, hashed_evaluator(game))
    visits, priors = search.root_table(ROW)
    best = search.choose(ROW, GREEDY)[0]
    assert search.choose(ROW, GREEDY, (visits, priors))[0] == best
    pruned = visits.copy()
    pruned[0, best] = 0
    assert pruned[0, search.choose(ROW, GREEDY, (pruned, priors))[0]] > 0
    for likeliest in range(game.num_actions):
        raw = np.where(np.arange(game.num_actions) == likeliest, 0.5, 0.01).astype(np.float32)[None]
        assert search.choose(ROW, GREEDY, (np.zeros_like(visits), raw))[0] == likeliest


def test_without_it_and_in_gumbel_search_nothing_changes():
    game = parse_game("connect4")
    evaluate = hashed_evaluator(game)
    for algorithm in ("puct", "gumbel"):
        found = []
        for deviations in (0.0, 3.0):
            config = SearchOptions(noise_weight=0.0, algorithm=algorithm, lcb_deviations=deviations)
            search = BatchSearch(game, 1, 60, config)
            search.new_games(ROW, np.array([1], np.uint64))
            moves = []
            for _ in range(8):
                search.begin(ROW, np.array([60], np.int32), np.zeros(1, np.bool_))
                run_searches(search, evaluate)
                visits = search.root_table(ROW)[0][0]
                moves.append((int(search.choose(ROW, GREEDY)[0]), int(visits.argmax())))
                search.advance(ROW, np.array([moves[-1][1]], np.int32))
            found.append(moves)
        if algorithm == "gumbel":
            assert found[0] == found[1]
        else:
            assert all(move == most for move, most in found[0])
            assert any(move != most for move, most in found[1])
