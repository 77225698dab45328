"""Environments for three players and more: two players share the seats."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from benchmarks.text_environments import random_game
from pipeline.errors import UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.text.environment import Environment, registered
from pipeline.families.text.game import OVER, SEED, TO_MOVE, TextGame
from pipeline.families.text.reinforce.columns import OTHER_ENDED_BY_INVALID
from pipeline.families.text.texts import TEXTS
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.run.matches import read_match
from pipeline.run.shards import read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig
from pipeline.train.init import init

THREE = "text:ThreePlayerTicTacToe-v0"


def test_seats_are_divided_and_take_turns() -> None:
    game = parse_game(THREE)
    assert isinstance(game, TextGame) and game.num_seats == [3] and game.most_seats == 3
    owners = [[game.player_of(seed, seat) for seat in range(3)] for seed in range(6)]
    assert owners[:3] == [[0, 1, 0], [0, 0, 1], [1, 0, 0]] and owners[3:] == owners[:3]
    four = parse_game("text:LiarsDice-v0,players=4")
    assert [four.player_of(0, seat) for seat in range(4)] == [0, 1, 0, 1]
    assert [four.player_of(1, seat) for seat in range(4)] == [1, 0, 1, 0]


def test_the_number_of_players_stands_in_the_spec_only_if_it_is_unusual() -> None:
    assert parse_game("text:LiarsDice-v0,players=2").spec == "text:LiarsDice-v0"
    assert parse_game(f"{THREE},players=3").spec == THREE
    game = parse_game("text:LiarsDice-v0,players=4")
    assert game.spec == "text:LiarsDice-v0,players=4" == parse_game(game.spec).spec and game.num_seats == [4]
    with pytest.raises(UsageError, match="players=99; wanted a number from 1 to 15"):
        parse_game("text:LiarsDice-v0,players=99")
    with pytest.raises(UsageError, match="wanted another number of players"):
        parse_game("text:TicTacToe-v0,players=3")


def test_a_seat_that_gave_up_is_not_to_blame_for_a_later_end() -> None:
    """Of four players of liar's dice, one is out after two invalid moves, and the others end the game by the rules."""
    name = "LiarsDice-v0-small"
    alone = Environment(name, registered(name), {}, 1, 4)
    first = alone.to_move
    for text in ("no", "never"):
        assert alone.to_move == first
        alone.step(text)
        assert alone.refused and alone.invalid == -1
    assert not alone.over and alone.to_move != first
    texts = itertools.cycle(["[Bid: 1, 1]", "[Call]"])
    while not alone.over:
        alone.step(next(texts))
        assert not alone.refused and alone.to_move != first
    assert alone.invalid == -1 and alone.rewards[first] == -1


@pytest.mark.parametrize("spec", [f"{THREE},plies=60", "text:ThreePlayerIPD-v0", "text:LiarsDice-v0-small,players=4"])
def test_games_are_those_of_the_environment_itself(spec: str) -> None:
    """Seats, what they are shown and their rewards, compared with an environment that is told the same."""
    game = parse_game(spec)
    results = Counter[float]()
    for seed in range(3, 9):
        moves, said, _ = random_game(game, seed)
        recalled = parse_game(spec).recalled(moves, said)
        alone = Environment(game.environments[0], registered(game.environments[0]), {}, seed, game.num_seats[0])
        for ply, states in enumerate(replay_one(game, recalled)):
            if ply == 0 or states[0, OVER]:
                continue
            seat = alone.to_move
            assert game.seat(states[0]) == seat and states[0, TO_MOVE] == game.player_of(int(states[0, SEED]), seat)
            for one in range(game.num_seats[0]):
                assert game.messages_to(states[0], one) == alone.messages[one]
            alone.step(TEXTS.text(recalled[ply]))
        rewards = np.array(alone.rewards if alone.over else [0.0] * game.most_seats)
        assert game.rewards(states)[0] == pytest.approx(rewards)
        owners = np.array([game.player_of(seed, one) for one in range(game.most_seats)])
        assert game.returns(states)[0] == np.sign(rewards[owners == 0].mean() - rewards[owners == 1].mean())
        results[float(game.returns(states)[0])] += 1
    assert len(results) > 1 or "IPD" in spec


def test_a_match_swaps_the_seats(tmp_path) -> None:
    config = EvaluateConfig(
        game=f"{THREE},plies=40", white_model="one=random", black_model="other=random", games=8, output_dir=tmp_path,
        promote=False, seed=1,
    )  # fmt: skip
    assert evaluate(config).games_played == 8
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    games = read_match(folder).games
    for number in range(0, 8, 2):
        one, other = games[number], games[number + 1]
        assert one.moves[0] == other.moves[0] and {one.challenger_player, other.challenger_player} == {0, 1}


def test_environments_with_different_numbers_of_players() -> None:
    game = parse_game(f"text:ConnectFour-v0+{THREE.partition(':')[2]},plies=60")
    assert game.num_seats == [2, 3] and game.most_seats == 3
    for seed in (0, 1):
        *_, states = random_game(game, seed)
        rewards = game.rewards(states)[0]
        assert np.isnan(rewards).tolist() == [False, False, seed == 0]


def test_a_generation_of_nine_players(tmp_path, monkeypatch) -> None:
    """The rewards of all seats are among the columns that gather's transformations get."""
    monkeypatch.chdir(tmp_path)
    game = "text:LiarsDice-v0,players=9,plies=30,prompt=64,reply=4"
    init(InitConfig(game=game, method="reinforce", network_size="r2", pretraining_steps=0,
                    new_model=tmp_path / "saved_models/000000-init"))  # fmt: skip
    selfplay(SelfplayConfig(games=4, seed=1, threads=1, opponents="random=1"))
    made = gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=2, holdout_fraction=0))
    assert made.chunks > 0


def test_an_invalid_end_is_the_others_fault_on_the_other_side_alone(tmp_path, monkeypatch) -> None:
    """With three seats one of the players has two: its own mistake spoils no step of its other seat."""
    monkeypatch.chdir(tmp_path)
    game = parse_game(f"{THREE},prompt=64,reply=4")
    init(InitConfig(game=game.spec, method="reinforce", network_size="r2", pretraining_steps=0,
                    new_model=tmp_path / "saved_models/000000-init"))  # fmt: skip
    selfplay(SelfplayConfig(games=24, seed=1, threads=1, opponents="random=1"))
    marked = 0
    for path in Path("data/selfplay").rglob("*.gz"):
        shard = read_shard(path)
        players, notes = shard.own_column("player"), shard.own_column("notes")
        for one in range(shard.num_games):
            at = slice(shard.move_offsets[one], shard.move_offsets[one] + shard.lengths[one])
            seats, marks = players[at], notes[at] & OTHER_ENDED_BY_INVALID != 0
            seed, loser = int(shard.moves[at][0]), int(seats[-1])
            for seat, mark in zip(seats[marks].tolist(), marks[marks], strict=True):
                assert mark and game.player_of(seed, seat) != game.player_of(seed, loser)
                marked += 1
    assert marked
