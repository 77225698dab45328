"""Exact best responses against brute force over all pure strategies, on one round of Kuhn poker."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from pipeline.errors import UsageError
from pipeline.families.text import game_tree
from pipeline.families.text.game import TextGame
from pipeline.families.text.game_tree import Tree, build_tree, exploitability
from pipeline.games.specs import parse_game


@pytest.fixture(scope="module")
def tree() -> Tree:
    return build_tree(parse_game("text:KuhnPoker-v0,show=round,max_rounds=1"))


def play(tree: Tree, number: int, chances: list[np.ndarray], responder: int, choice: dict[int, int]) -> float:
    """Player 0's value of a node where one player follows a pure strategy by information sets."""
    node = tree.nodes[number]
    if node.player < 0:
        return node.value
    odds = np.eye(2)[choice[node.information_set]] if node.player == responder else chances[node.decision]
    return sum(p * play(tree, child, chances, responder, choice) for p, child in zip(odds, node.children, strict=True))


def test_the_tree_is_that_of_kuhn_poker(tree: Tree) -> None:
    assert len(tree.roots) == 6 and tree.weights.sum() == pytest.approx(1) and (abs(tree.weights - 1 / 6) < 0.02).all()
    assert sum(node.player < 0 for node in tree.nodes) == 6 * 5
    assert len({node.information_set for node in tree.nodes if node.player >= 0}) == len(tree.decisions) == 12
    assert all(child < number for number, node in enumerate(tree.nodes) for child in node.children)


@pytest.mark.parametrize("seed", range(3))
def test_a_best_response_is_the_best_of_all_pure_strategies(tree: Tree, seed: int) -> None:
    generator = np.random.default_rng(seed)
    chances = [generator.dirichlet(np.ones(len(listed))) for _, listed in tree.decisions]
    found = exploitability(tree, lambda asked: chances)
    for responder, best in enumerate(found.best):
        sets = sorted({node.information_set for node in tree.nodes if node.player == responder})
        assert len(sets) == 6
        values = [
            sum(weight * play(tree, root, chances, responder, dict(zip(sets, pure, strict=True)))
                for weight, root in zip(tree.weights, tree.roots, strict=True))
            for pure in product((0, 1), repeat=6)
        ]  # fmt: skip
        assert best == pytest.approx(max(values) if responder == 0 else -min(values))
    assert found.best[0] >= found.value >= -found.best[1] and found.total > 0


def test_never_to_fold_is_an_equilibrium_because_bets_cost_nothing_here(tree: Tree) -> None:
    """TextArena's Kuhn poker never adds bets to the pot."""
    policy = [np.array([float(action != "[fold]") for action in listed]) for _, listed in tree.decisions]
    assert exploitability(tree, lambda asked: policy).total == pytest.approx(0)
    always = [np.array([float(action not in ("[call]", "[bet]")) for action in listed]) for _, listed in tree.decisions]
    assert exploitability(tree, lambda asked: always).total > 0.5


@pytest.fixture(scope="module")
def chips() -> Tree:
    return build_tree(parse_game("text:KuhnChips-v0,show=round"))


def even(tree: Tree) -> Tree:
    """With cards that are dealt as they should be, which those of 4,096 seeds nearly are."""
    return Tree(tree.nodes, tree.roots, np.full(len(tree.roots), 1 / len(tree.roots)), tree.decisions)


def equilibrium(spec: str, asked: list[tuple[str, tuple[str, ...]]]) -> list[np.ndarray]:
    """The heuristic player's chances, by what is asked: the same in all positions that ask it."""
    game = parse_game(spec)
    assert isinstance(game, TextGame)
    score, found = game.heuristic(), {}
    assert score is not None
    waiting = [
        game.play(game.initial(1), np.array([seed]), game.initial_history(game.initial(1))) for seed in range(64)
    ]
    while waiting:
        states = waiting.pop()
        if not game.is_over(states)[0]:
            history = game.initial_history(states)
            key = game.observation(states[0]), game.listed(states[0])
            found[key] = np.exp(score(states, history)[0])
            waiting += [game.play(states, np.array([action]), history) for action in range(len(key[1]))]
    return [found[key] for key in asked]


def test_the_heuristic_player_of_kuhn_poker_is_an_equilibrium(tree: Tree, chips: Tree) -> None:
    found = exploitability(even(chips), lambda asked: equilibrium("text:KuhnChips-v0,show=round", list(asked)))
    assert found.total == pytest.approx(0, abs=1e-9)
    assert found.value == pytest.approx(1 / 18)  # TextArena's player 1 begins
    spec = "text:KuhnPoker-v0,show=round,max_rounds=1"
    assert exploitability(tree, lambda asked: equilibrium(spec, list(asked))).total == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_kuhn_poker_with_bets_is_open_spiels(chips: Tree, seed: int) -> None:
    """The same exploitability as OpenSpiel finds, whatever the policy."""
    pyspiel = pytest.importorskip("pyspiel", reason="a second opinion: pip install open_spiel")
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability as oracle

    game = pyspiel.load_game("kuhn_poker")
    policy = policies.TabularPolicy(game)
    generator = np.random.default_rng(seed)
    chances = {}
    for key, row in policy.state_lookup.items():  # "0", "1pb": the card, then p and b
        chances[key] = policy.action_probability_array[row] = generator.dirichlet(np.ones(2))
    ours = []
    for shown, listed in chips.decisions:
        card = "JQK".index(shown.split("Your card is: '")[1][0])
        moves = "".join("p" if "[check]" in line else "b" for line in shown.split("\n") if "submitted move" in line)
        passes, bets = chances[f"{card}{moves}"]
        ours.append(np.array([bets if action in ("[bet]", "[call]") else passes for action in listed]))
    assert exploitability(even(chips), lambda asked: ours).total == pytest.approx(oracle.nash_conv(game, policy))


def test_a_game_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game_tree, "MOST_NODES", 40)
    monkeypatch.setattr(game_tree, "SEEDS", 64)  # deals to look at first
    game = parse_game("text:KuhnPoker-v0,show=round,max_rounds=2")
    assert isinstance(game, TextGame)
    with pytest.raises(UsageError, match="more than 40 positions; wanted a smaller game"):
        build_tree(game)
