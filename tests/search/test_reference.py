"""ReferenceSearch: exact values, legality under superko, viewpoints; the kernels equal it move for move."""

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.games.specs import parse_game
from pipeline.search.options import SearchOptions
from tests.reference.puct import Node, ReferenceSearch, mean_value
from tests.search.helpers import hashed_evaluator, run_searches, twin_games, zero_evaluator

CALM = SearchOptions(noise_weight=0.0)
ROW = np.arange(1)


def search_from(spec, moves, readouts, evaluate=None, config=CALM):
    game = parse_game(spec)
    search = ReferenceSearch(game, config, evaluate or zero_evaluator(game))
    for move in moves:
        search.advance(game.parse_action(move))
    search.search(readouts)
    return search


def names(spec, actions):
    return [parse_game(spec).action_name(action) for action in actions]


def nodes_of(search):
    """Every node of the tree with the moves that lead to it."""
    found, waiting = [], [(search.root, ())]
    while waiting:
        node, path = waiting.pop()
        found.append((node, path))
        waiting += [(edge.child, (*path, edge.action)) for edge in node.edges if edge.child is not None]
    return found


@pytest.mark.parametrize(
    ("moves", "best", "value"),
    [
        ("a3 a2 b3 b2", {"c3"}, 1.0),  # X wins at once
        ("a3 b3 a2 c3", {"a1"}, 1.0),
        ("a3 b2 c1", {"b1", "b3", "a2", "c2"}, 0.0),  # O must not take a corner: then X forks
        ("a3 b3 b2", None, -1.0),  # O is lost: X threatens c1, and blocking it leaves two lines
    ],
)
def test_tictactoe_is_solved(moves, best, value):
    search = search_from("tictactoe", moves.split(), 3000)
    chosen = search.game.action_name(int(search.visits().argmax()))
    assert best is None or chosen in best
    edge = next(edge for edge in search.root.edges if edge.visits == search.visits().max())
    assert edge.value_sum / edge.visits == pytest.approx(value, abs=0.1)
    assert search.root_value() == pytest.approx(value, abs=0.15)
    assert search.visits().sum() == 3000


def test_the_value_of_a_decided_move_is_exact_and_terminal_nodes_are_never_evaluated():
    game = parse_game("tictactoe")
    asked = []

    def evaluate(planes):
        asked.append(planes.copy())
        return np.zeros((1, 9), np.float32), np.full(1, 0.25, np.float32)

    search = search_from("tictactoe", ["a3", "a2", "b3", "b2"], 60, evaluate)
    winning = next(edge for edge in search.root.edges if game.action_name(edge.action) == "c3")
    assert winning.visits > 40  # revisits of a decided leaf are readouts too
    assert winning.value_sum == winning.visits
    inner = [node for node, _ in nodes_of(search) if not node.terminal]
    assert len(asked) == len(inner)
    total = sum(edge.value_sum for edge in search.root.edges)
    assert search.root_value() == pytest.approx((0.25 + total) / 61)


def test_values_are_seen_by_the_player_to_move():
    game = parse_game("tictactoe")

    def evaluate(planes):  # the first player is always thought to be ahead
        second_to_move = planes[0, -1].any()
        return np.zeros((1, 9), np.float32), np.full(1, -0.5 if second_to_move else 0.5, np.float32)

    assert "second player to move" in game.plane_names[-1]
    assert search_from("tictactoe", [], 8, evaluate).root_value() == pytest.approx(0.5)
    search = search_from("tictactoe", ["a1"], 7, evaluate)  # nothing can be decided within two plies
    assert search.root_value() == pytest.approx(-0.5)
    assert all(edge.value_sum == pytest.approx(-0.5 * edge.visits) for edge in search.root.edges)


def test_connect_four_finds_a_forced_win():
    search = search_from("connect4", names("connect4", [2, 2, 3, 3]), 1500)
    assert int(search.visits().argmax()) in (1, 4)
    assert search.root_value() > 0.5


def test_no_node_of_the_tree_breaks_superko():
    game = parse_game("go:5")
    # A ko at once: X takes on c3's side, O may not retake before playing elsewhere.
    moves = ["b3", "c3", "c4", "d4", "c2", "d2", "a1", "e3", "d3"]
    search = search_from("go:5", moves, 400)
    forbidden = game.parse_action("c3")
    assert not search.game.legal(search.state, search.past)[0, forbidden]
    assert search.visits()[forbidden] == 0
    assert forbidden not in [edge.action for edge in search.root.edges]
    past = {int(key) for key in search.past.keys[0, : search.past.lengths[0]]}
    retakes = 0
    for _, path in nodes_of(search):
        seen, state, history = set(past), search.state, search.past.select(ROW)
        for action in path:
            before = state
            state = game.play(state, np.array([action], np.int32), history)  # raises if it is illegal
            key = game.keys(state)
            history.append(ROW, key)
            if action != game.pass_action:
                assert int(key[0]) not in seen
            seen.add(int(key[0]))
            retakes += action == forbidden and before[0, game.parse_action("d3")] != 0
    assert retakes > 0  # after a move elsewhere it is legal, and the search knows


def test_superko_counts_positions_of_the_tree_itself():
    game = parse_game("go:5")
    a5, d3, c3 = (game.parse_action(name) for name in ("a5", "d3", "c3"))
    second_to_move = game.plane_names.index("white to move")

    def evaluate(planes):  # O plays elsewhere, X takes the ko, O wants to take it back
        logits = np.zeros((1, game.num_actions), np.float32)
        if planes[0, second_to_move].any():
            logits[0, [c3, a5]] = 12, 8
        else:
            logits[0, d3] = 8
        return logits, np.zeros(1, np.float32)

    # The ko as above, but O is to move: what c3 would repeat comes about only within the tree, by a5.
    search = search_from("go:5", ["b3", "c3", "c4", "d4", "c2", "d2", "a1", "e3", "a2"], 30, evaluate)
    node = search.root
    for move in (a5, d3):
        node = next(edge.child for edge in node.edges if edge.action == move)
    assert node.visits > 0
    assert node.state[0, c3] == 0
    assert c3 not in [edge.action for edge in node.edges]
    assert a5 not in [edge.action for edge in node.edges]  # it is occupied


def test_noise_is_mixed_into_a_copy_of_the_priors():
    game = parse_game("tictactoe")
    config = SearchOptions(noise_weight=0.5)
    search = ReferenceSearch(game, config, zero_evaluator(game))
    noise = np.zeros(9, np.float32)
    noise[7] = 1
    search.search(5, noise)
    assert search.visits().argmax() == 7
    assert np.allclose(search.policy(), 1 / 9)
    calm = ReferenceSearch(game, config, zero_evaluator(game))
    calm.search(5)
    assert calm.visits().tolist() == [1] * 5 + [0] * 4


def test_the_subtree_is_kept():
    search = search_from("connect4", [], 200, hashed_evaluator(parse_game("connect4")))
    best = int(search.visits().argmax())
    child = next(edge.child for edge in search.root.edges if edge.action == best)
    counts, value = {edge.action: edge.visits for edge in child.edges}, mean_value(child)
    search.advance(best)
    assert search.visits().tolist() == [counts.get(action, 0) for action in range(7)]
    assert search.root_value() == value
    search.search(10)
    assert search.visits().sum() == sum(counts.values()) + 10


def test_players_need_not_alternate():
    """A value changes its sign only if the player to move differs."""
    search = search_from("tictactoe", [], 0)
    root = search.root
    child_state = search.game.play(root.state, np.array([4], np.int32), search.past)
    for child_mover, sign in ((0, 1), (1, -1)):
        root.visits, root.value_sum, root.tried = 0, np.float32(0), []
        edge = root.edges[0]
        edge.visits, edge.value_sum = 0, np.float32(0)
        edge.child = Node(child_state, child_mover, np.float32(0.75), terminal=True)
        root.edges = [edge]
        search.search(1)
        assert edge.value_sum == pytest.approx(sign * 0.75)


def test_nothing_to_search_when_the_game_is_over():
    game = parse_game("go:5")
    search = ReferenceSearch(game, CALM, zero_evaluator(game))
    search.advance(game.pass_action)
    search.advance(game.pass_action)
    with pytest.raises(IllegalMove, match="over"):
        search.search(1)
    assert search.visits().sum() == 0
    search.new_game()
    search.search(3)
    assert search.visits().sum() == 3


@pytest.mark.parametrize(
    ("spec", "readouts", "leaves", "config"),
    [
        ("tictactoe", 50, 1, CALM),
        ("tictactoe", 90, 3, CALM),
        ("connect4", 80, 1, SearchOptions(c_puct=2.5, fpu_reduction=0.4, root_fpu_reduction=0.1)),
        ("connect4", 200, 8, SearchOptions(c_puct=2.5, fpu_reduction=0.4, root_fpu_reduction=0.1)),
        ("go:5", 40, 1, SearchOptions(c_puct=0.7, fpu_reduction=0.0)),
        ("go:5", 120, 4, SearchOptions(c_puct=0.7, fpu_reduction=0.0)),
    ],
)
def test_kernels_equal_it_move_for_move(spec, readouts, leaves, config):
    game = parse_game(spec)
    rngs = [np.random.default_rng(seed) for seed in range(3)]
    for seed, _ply, evaluate, plain, fast in twin_games(ReferenceSearch, game, config, readouts, 3, 12, leaves):
        plain.search(readouts, leaves=leaves)
        fast.begin(ROW, np.array([readouts], np.int32), np.zeros(1, np.bool_))
        run_searches(fast, evaluate)
        assert plain.visits().tolist() == fast.root_table(ROW)[0][0].tolist()
        assert plain.policy().tolist() == fast.root_table(ROW)[1][0].tolist()
        assert plain.root_value() == fast.root_values(ROW)[0]
        visits = plain.visits()
        rng = rngs[seed]
        action = int(visits.argmax()) if rng.random() < 0.5 else int(rng.choice(np.flatnonzero(visits)))
        plain.advance(action)
        fast.advance(ROW, np.array([action], np.int32))
