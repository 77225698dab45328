"""The search's tree against the rules: repetition depends on the order of the positions before."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.shogi import kernels
from pipeline.games.specs import parse_game
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from tests.families.shogi.test_shogi import PERPETUAL, played
from tests.search.helpers import run_searches, tree_of


@pytest.mark.parametrize("before", [6, 7, 8, 9, 10, 11])
@pytest.mark.parametrize(("start", "moves", "end", "result"), [PERPETUAL[0], PERPETUAL[1], PERPETUAL[2]])
def test_a_repetition_in_the_tree_is_judged_as_on_the_board(
    start: str, moves: str, end: int, result: int, before: int
) -> None:
    """The tree reaches the end of the game, after twelve moves, at depths one to six."""
    game = parse_game("shogi")
    line = moves.split()
    state, history = played(game, game.from_sfen(start), " ".join(line[:before]))
    assert not game.is_over(state)[0]
    positions = [played(game, game.from_sfen(start), " ".join(line[:at]))[0][0] for at in range(12)]
    wanted = [game.parse_move(position, move) for position, move in zip(positions, line, strict=True)]

    def evaluate(planes):
        logits = np.zeros((len(planes), game.num_actions), np.float32)
        logits[:, wanted] = 8
        return logits, np.zeros(len(planes), np.float32)

    search, rows = BatchSearch(game, 1, 200, SearchOptions(noise_weight=0.0)), np.arange(1)
    search.new_games(rows, np.zeros(1, np.uint64))
    search.place(0, state[0], history.keys[0, : history.lengths[0]])
    search.begin(rows, np.array([200]), np.array([False]))
    run_searches(search, evaluate)
    tree, found = tree_of(search), []
    for index in range(int(tree.num_nodes[0])):
        node, path = tree.node[0, index], []
        if not node["terminal"]:
            continue
        above = node
        while above["parent"] >= 0:
            parent = tree.node[0, above["parent"]]
            path.append(int(tree.edge_action[0, parent["edge_start"] + above["parent_edge"]]))
            above = parent
        after, past = played(game, game.from_sfen(start), " ".join(line[:before]))
        for action in reversed(path):
            after = game.play(after, np.array([action]), past)
            past.append(np.arange(1), game.keys(after))
        assert game.is_over(after)[0]
        assert node["value"] == game.returns(after)[0] * (1 - 2 * game.to_move(after)[0]), path[::-1]
        found.append((len(path), int(game.ends(after)[0])))
    assert (12 - before, end) in found, found
    assert all(kind in (end, kernels.REPETITION) for _, kind in found)
