"""Loading models: the positions that int8 networks are scaled for and checked on."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.registry import parse_game
from pipeline.players.base import Boards
from pipeline.players.loading import CALIBRATION_GAMES, calibration_positions


@pytest.mark.parametrize("spec", ["gomoku:9", "tictactoe", "go:5"])
def test_int8_is_checked_on_other_games_than_its_scales_come_from(spec: str) -> None:
    game, rng = parse_game(spec), np.random.default_rng(0)
    of_games: list[set[bytes]] = [set() for _ in range(CALIBRATION_GAMES)]
    boards, rows = Boards(game, CALIBRATION_GAMES), np.arange(CALIBRATION_GAMES)
    while rows.size:  # the same random games again
        legal, planes = game.legal_and_observe(boards.states[rows], boards.history.select(rows))
        for row, seen in zip(rows.tolist(), planes, strict=True):
            of_games[row].add(seen.tobytes())
        boards.advance(rows, (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32))
        rows = rows[~boards.over(rows)]
    found = [seen.tobytes() for seen in calibration_positions(game)]
    assert len(found) == 2 * len(found[1::2]) > 50
    halves = [set().union(*of_games[half::2]) for half in (0, 1)]
    assert set(found[::2]) <= halves[0] and set(found[1::2]) <= halves[1]
    assert len(set(found[::2]) - halves[1]) > len(set(found)) / 4  # they have openings in common, no more
