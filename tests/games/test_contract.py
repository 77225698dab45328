"""What every game promises (pipeline/games/contract.py), checked on every registered game and on toys."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.extensions import GAMES, bundled
from pipeline.games.contract import Game, board_symmetries
from pipeline.games.specs import parse_game
from pipeline.games.testing import check_game, random_games, stones_of
from tests.games.playing import OTHERS, SPECS, name_of
from tests.games.toys import DiceRace, Heaps, Hexapawn

NUM_GAMES = {"go:13": 6, "go:19": 2, "shogi": 4, "shogi,declaration=24,moves=300": 6, "gomoku:19,capture,pairs=7": 3}
SHARES = {"tictactoe": 0.5, "go:9": 0.04, "go:9,komi=7": 0.04, "go:13": 0.01, "go:19": 0.006,
          "gomoku:15": 0.02, "gomoku:19,capture,pairs=7": 0.01,
          "shogi": 0.006, "shogi,declaration=24,moves=300": 0.004, "shogi:5": 0.02}  # fmt: skip
LIMITED = {"go", "shogi"}  # whose games are ended by a limit on their length
NUM_SYMMETRIES = {"connect4": 2, "shogi": 1}  # of games with fewer than their board: stones fall, rooks stand right
RACES = DiceRace(6), DiceRace(3), DiceRace(6, double=True)
TOYS = {game.spec: game for game in (*RACES, Heaps(1, 2, 4, 4), Heaps(3, 3), Hexapawn())}
NUM_GAMES_OF_OTHERS = {"backgammon": 3, "backgammon,reward=2.5": 3, "hypergammon": 10}  # of many plies; toys: 60


def test_every_registered_game_is_in_the_list() -> None:
    missing = set(bundled(GAMES)) - {name_of(spec) for spec in (*SPECS, *OTHERS)}
    assert not missing, (
        f"no test plays {', '.join(sorted(missing))}: add a spec of each to tests/families/NAME/__init__.py"
    )


@pytest.mark.parametrize("spec", SPECS)
def test_a_game_with_fixed_actions(spec: str) -> None:
    check_game(parse_game(spec), num_games=NUM_GAMES.get(spec, 12), share=SHARES.get(spec, 0.08))


@pytest.mark.parametrize("spec", [*TOYS, *OTHERS])
def test_another_game(spec: str) -> None:
    check_game(TOYS.get(spec) or parse_game(spec), num_games=NUM_GAMES_OF_OTHERS.get(spec, 60), seed=0)


@pytest.mark.parametrize("spec", SPECS)
def test_only_games_with_a_limit_are_cut_short(spec: str) -> None:
    game = parse_game(spec)
    assert (game.move_limit is None) == (name_of(spec) not in LIMITED)
    if name_of(spec) not in LIMITED:
        assert not any(game.cut_short(step.after).any() for step in random_games(game, 3, 1))


@pytest.mark.parametrize("spec", SPECS)
def test_no_symmetry_is_missing(spec: str) -> None:
    """All of the board's; where the start isn't symmetric, those that leave it as it is will do."""
    game = parse_game(spec)
    assert isinstance(game, Game)
    board, start = board_symmetries(*game.board_shape).points, stones_of(game, game.initial(1))[0]
    images = {row.tobytes() for row in game.symmetries.points}
    assert images <= {row.tobytes() for row in board}
    kept = board[(start[board] == start).all(axis=1)]
    found = np.array([row.tobytes() in images for row in kept])
    assert len(images) == NUM_SYMMETRIES.get(name_of(spec), len(board)) or (found.all() and len(images) == len(kept))
