"""The built-in players: fair dice, a stream per row, and sense that beats them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from pipeline.errors import UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.players.builtin import BUILT_INS, HeuristicPlayer, RandomPlayer
from pipeline.players.kinds import make_player
from pipeline.players.player import Boards, Player
from pipeline.players.player_specs import BUILT_IN_NAMES

KINDS = pytest.mark.parametrize("kind", list(BUILT_INS))


def start(player: Player, num_rows: int, seed: int = 0) -> np.ndarray:
    rows = np.arange(num_rows)
    player.new_games(rows, rows.astype(np.uint64) + np.uint64(1_000_000 * seed))
    return rows


def play_games(game: Game, sides: tuple[Player, Player], num_games: int) -> tuple[np.ndarray, np.ndarray]:
    """Results of num_games games for sides[0], which moves first in every second one; and their lengths."""
    boards = Boards(game, num_games)
    for seed, side in enumerate(sides):
        live = start(side, num_games, seed)
    while live.size:
        turns = (boards.to_move(live) + live) % 2
        actions = np.full(num_games, -1, np.int32)
        for turn, side in enumerate(sides):
            side.begin(live[turns == turn])
            decisions = side.step()
            actions[decisions.rows] = decisions.actions
        for each in (boards, *sides):
            each.advance(live, actions[live])
        live = live[~boards.over(live)]
    rows = np.arange(num_games)
    return boards.returns(rows) * np.where(rows % 2 == 0, 1, -1), game.plies(boards.states)


def test_spec_strings_and_players_agree() -> None:
    assert tuple(BUILT_INS) == BUILT_IN_NAMES
    for kind, player in BUILT_INS.items():
        assert type(make_player(kind, "", kind, 1.0)(parse_game("tictactoe"), 2, 0)) is player


@pytest.mark.parametrize(("spec", "moves"), [("tictactoe", ()), ("connect4", (3,) * 6), ("go:5", (12, 7))])
def test_random_is_uniform_over_the_legal_moves(spec: str, moves: tuple[int, ...]) -> None:
    game = parse_game(spec)
    player, boards = RandomPlayer(game, 4000), Boards(game, 4000)
    rows = start(player, 4000)
    for move in moves:
        for each in (player, boards):
            each.advance(rows, np.full(4000, move, np.int32))
    player.begin(rows)
    decisions = player.step()
    np.testing.assert_array_equal(decisions.rows, rows)
    assert np.isnan(decisions.values).all()
    legal = boards.legal(rows[:1])[0]
    counts = np.bincount(decisions.actions, minlength=game.num_actions)
    assert not counts[~legal].any()
    assert legal.sum() < game.num_actions or not moves  # there was something to avoid
    assert chisquare(counts[legal]).pvalue > 1e-3


@KINDS
@pytest.mark.parametrize("spec", ["tictactoe", "go:5"])
def test_a_game_follows_from_its_seed_whatever_the_other_rows_do(kind: str, spec: str) -> None:
    game = parse_game(spec)

    def moves_of(num_rows: int, row: int, seed: int) -> list[int]:
        """Both sides of one game on `row`, while the others begin, advance, stop and start again at random."""
        player, boards = BUILT_INS[kind](game, num_rows), Boards(game, num_rows)
        start(player, num_rows)
        here = np.array([row])
        player.new_games(here, np.array([seed], np.uint64))
        others, rng, moves = np.delete(np.arange(num_rows), row), np.random.default_rng(num_rows), []
        while not boards.over(here)[0]:
            player.begin(here)
            player.begin(rng.permutation(others)[:2])
            player.drop(rng.permutation(others)[:1])
            decisions = player.step()
            actions = dict(zip(decisions.rows.tolist(), decisions.actions.tolist(), strict=True))
            moves.append(actions[row])
            for each in (player, boards):
                each.advance(decisions.rows, decisions.actions)
            ended = others[boards.over(others)]
            boards.new_games(ended)
            player.new_games(ended, rng.integers(0, 2**63, len(ended)).astype(np.uint64))
        return moves

    alone = moves_of(1, 0, seed=5)
    assert moves_of(5, 3, seed=5) == moves_of(3, 0, seed=5) == alone
    assert any(moves_of(1, 0, seed) != alone for seed in range(6, 16))


@KINDS
def test_each_begin_is_answered_once_and_only_while_it_stands(kind: str) -> None:
    player = BUILT_INS[kind](parse_game("connect4"), 4)
    start(player, 4)
    assert not player.step().worked
    player.begin(np.array([0, 1, 2, 3]))
    player.advance(np.array([0]), np.array([3], np.int32))
    player.drop(np.array([1]))
    player.new_games(np.array([2]), np.array([9], np.uint64))
    decisions = player.step()
    assert decisions.rows.tolist() == [3] and decisions.worked
    assert not player.step().rows.size


def test_heuristic_refuses_a_game_that_it_has_no_sense_of() -> None:
    unknown = type("Unknown", (Game,), {"spec": "unknown"})
    unknown.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="unknown has no heuristic evaluation"):
        HeuristicPlayer(unknown(), 1)


@pytest.mark.parametrize(
    ("spec", "num_games", "share"), [("tictactoe", 400, 0.9), ("connect4", 300, 0.98), ("go:9", 120, 0.98)]
)
def test_heuristic_beats_random_as_either_colour(spec: str, num_games: int, share: float) -> None:
    """When written it won all of 1,000 games of connect4 and 256 of go:9, and lost 2 of 1,000 of tictactoe."""
    game = parse_game(spec)
    results, lengths = play_games(game, (HeuristicPlayer(game, num_games), RandomPlayer(game, num_games)), num_games)
    for colour in (0, 1):
        assert (results[colour::2].mean() + 1) / 2 >= share
    assert (results < 0).mean() <= 0.02
    if spec == "go:9":
        assert lengths.mean() < 130  # it passes when it is done
