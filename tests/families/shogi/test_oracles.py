"""Shogi's rules beside those of other programs; the whole comparisons are `python -m tests.families.shogi`."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.families.shogi import oracles

DEPTHS = {"start": 4, "YaneuraOu's bench, 2": 4, "593 moves": 2}  # of CI; 3 elsewhere


@pytest.mark.parametrize("name", oracles.PERFT)
def test_perft_counts_are_those_of_other_programs(name: str) -> None:
    game = parse_game("shogi,declaration=off")
    sfen, wanted = oracles.PERFT[name]
    for depth in range(1, min(DEPTHS.get(name, 3), len(wanted)) + 1):
        found = oracles.perft(game, game.from_sfen(sfen), depth)
        assert found == wanted[depth - 1], f"{name}, depth {depth}: {sfen}"


def test_perft_counts_of_minishogi_are_those_of_shogiops() -> None:
    game = parse_game("shogi:5")
    assert tuple(oracles.perft(game, game.initial(1), depth) for depth in range(1, 5)) == oracles.MINI_PERFT[:4]


@pytest.mark.parametrize("spec", ["shogi", "shogi,declaration=24"])
def test_cshogi_allows_the_same_moves_and_ends(spec: str) -> None:
    pytest.importorskip("cshogi", reason="cshogi isn't installed: pip install cshogi")
    game = parse_game(spec)
    counts = oracles.compare_with_cshogi(game, random_games(game, 8, 3), 8)
    counts += oracles.compare_with_cshogi(game, oracles.likely_games(game, 16, 4, 0.1), 16)
    assert counts["positions"] > 3000 and counts["end 1"] > 10, counts


@pytest.mark.skipif(
    oracles.FAIRY is None, reason="Fairy-Stockfish isn't installed (Debian: apt install fairy-stockfish)"
)
@pytest.mark.parametrize(("spec", "variant"), [("shogi:5", "minishogi"), ("shogi", "shogi")])
def test_fairy_stockfish_allows_the_same_moves(spec: str, variant: str) -> None:
    game = parse_game(spec)
    steps = [*random_games(game, 12, 5), *oracles.likely_games(game, 12, 6, 0.2)]
    states = np.concatenate([step.states for step in steps])
    legal = np.concatenate([step.legal for step in steps])
    picked = np.random.default_rng(0).permutation(len(states))[:1000]
    assert oracles.compare_with_fairy(game, variant, states[picked], legal[picked]) > 0, "no pawn mated"
