"""From records to examples: states, targets as by hand, rewards, and records that can't be right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td.examples import make_examples
from pipeline.games.replay import replay_one
from pipeline.gather.config import GatherConfig
from pipeline.methods.method import Positions
from pipeline.run.shards import GameRecord, Shard
from tests.families.backgammon.boards import board, mirrored
from tests.families.backgammon.td.helpers import HYPERGAMMON, chances_of, play, shard_of, small_network
from tests.reference import td as twin


def all_of(shard: Shard) -> Positions:
    game = np.repeat(np.arange(shard.num_games), shard.lengths)
    ply = np.concatenate([np.arange(length) for length in shard.lengths])
    return Positions(np.zeros(len(game), np.int64), game, ply)


def examples(shard: Shard, td_lambda: float = 1.0, wanted: Positions | None = None, **settings: float) -> dict:
    wanted = all_of(shard) if wanted is None else wanted
    lambdas = np.full(len(wanted), td_lambda, np.float32)
    return make_examples(HYPERGAMMON, [shard], wanted, lambdas, GatherConfig(**settings))


@pytest.fixture(scope="module")
def records() -> list[GameRecord]:
    return [one.record for one in play(small_network(), 12)]


@pytest.mark.parametrize("td_lambda", [0.0, 0.7, 1.0])
def test_examples_are_the_positions_before_throws_with_their_targets(
    tmp_path: Path, records: list[GameRecord], td_lambda: float
) -> None:
    shard = shard_of(tmp_path, records)
    found = examples(shard, td_lambda, discount=0.95)
    start = 0
    for record in records:
        length = len(record.moves)
        states = np.concatenate(list(replay_one(HYPERGAMMON, record.moves)))
        # A throw and its move are the same example.
        assert (found["state"][start : start + length] == np.repeat(states[0:-1:2], 2, axis=0)).all()
        said = chances_of(record)[:, 1].tolist()
        wanted = [twin.mean_of_n_steps(said, turn, td_lambda, 0.95) for turn in range(length // 2)]
        assert found["target"][start : start + length] == pytest.approx(np.repeat(wanted, 2, axis=0), abs=2e-3)
        if td_lambda == 1.0:  # the last position's mover wins: its target is the exact result
            points = abs(record.result_first_player)
            assert found["target"][start + length - 1].tolist() == [1, points >= 2, points >= 3, 0, 0]
        start += length


def test_any_selection_in_any_order(tmp_path: Path, records: list[GameRecord]) -> None:
    shard = shard_of(tmp_path, records)
    everything = examples(shard, 0.8)
    some = np.random.default_rng(0).permutation(len(everything["ply"]))[:50]
    found = examples(shard, 0.8, all_of(shard).at(some))
    for name, column in everything.items():
        assert np.array_equal(found[name], column[some], equal_nan=column.dtype.kind == "f"), name
    assert len(examples(shard, 0.8, all_of(shard).at(some[:0]))["state"]) == 0


def test_networks_of_one_output_teach_one(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, [one.record for one in play(small_network(1), 5)])
    target = examples(shard, 0.5)["target"]
    assert np.isfinite(target[:, 0]).all() and np.isnan(target[:, 1:]).all()


def test_rewards_are_paid_once_per_player(tmp_path: Path) -> None:
    """In hypergammon nobody can build these: the game says that the first player has a prime from its third turn on."""
    undecided = [replace(one.record, own={"chances": even_of(one.record)}) for one in play(small_network(1), 3)]
    shard = shard_of(tmp_path, undecided)
    game = Backgammon("hypergammon")

    def structures(states: np.ndarray, players: np.ndarray) -> np.ndarray:
        has = (players == 0) & (game.plies(states) >= 10)
        return np.stack([np.zeros(len(states), bool), has], axis=1)

    with pytest.raises(UsageError, match="nobody can earn them in hypergammon"):
        make_examples(game, [shard], all_of(shard), np.zeros(0, np.float32), GatherConfig(prime_reward=0.3))
    game.structures, game.has_structures = structures, True
    wanted = all_of(shard)
    with_rewards, without = (
        make_examples(game, [shard], wanted, np.zeros(len(wanted), np.float32), GatherConfig(prime_reward=reward))
        for reward in (0.3, 0.0)
    )
    paid = (with_rewards["target"] - without["target"])[:, 0]
    turns = wanted.ply // 2
    # Turn 4 ends at ply 10, and even turns are the first player's: 0.3 points of the 6 from -3 to +3.
    assert paid[turns == 4] == pytest.approx(0.05, abs=1e-6) and not paid[turns != 4].any()


@pytest.mark.parametrize("mover", [0, 1])
def test_what_a_player_has_built(mover: int) -> None:
    game = Backgammon()
    closed = {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 10: 3}
    states = np.concatenate(
        [
            board(closed, {25: 1, 6: 14}, mover=mover),  # closed out, and a prime
            board(closed, {24: 1, 6: 14}, mover=mover),  # a prime of six alone
            board({4: 3, 5: 2, 6: 2, 7: 2, 8: 6}, {24: 15}, mover=mover),
            board({4: 3, 5: 2, 6: 1, 7: 2, 8: 2, 9: 5}, {24: 15}, mover=mover),  # a blot in the middle
        ]
    )
    players = np.full(4, mover, np.int8)
    wanted = [[True, True], [False, True], [False, True], [False, False]]
    assert game.structures(states, players).tolist() == wanted
    assert game.structures(mirrored(states), 1 - players).tolist() == wanted
    assert not game.structures(states, 1 - players)[:, 0].any()


def test_five_outputs_cannot_be_rewarded(tmp_path: Path, records: list[GameRecord]) -> None:
    with pytest.raises(UsageError, match=r"--closeout-reward.*wanted a model with one output"):
        examples(shard_of(tmp_path, records), 0.5, closeout_reward=0.3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: replace(r, result_first_player=-r.result_first_player), "recorded result .*; the final position"),
        (lambda r: replace(r, moves=np.append(r.moves[:-1], 60_000)), "illegal move"),
        (lambda r: cut(r, 2), "the game is not over"),
        (lambda r: replace(r, own={"chances": r.own["chances"] + 0.6}), "chances are not 5 numbers from 0 to 1"),
        (
            lambda r: replace(r, own={"chances": 0 * r.own["chances"] + np.nan}),
            "chances are not 5 numbers from 0 to 1 at every ply",
        ),
    ],
)
def test_wrong_records_are_refused(tmp_path: Path, records: list[GameRecord], change, problem: str) -> None:
    shard = shard_of(tmp_path, [records[0], change(records[1])])
    with pytest.raises(FileError, match=problem) as caught:
        examples(shard)
    assert caught.value.path == shard.path


def even_of(record: GameRecord) -> np.ndarray:
    """Chances of a network that says 0.5 everywhere: a target has room for a reward."""
    chances = record.own["chances"].copy()
    chances[:, 0] = 0.5
    return chances


def cut(record: GameRecord, plies: int) -> GameRecord:
    return replace(
        record,
        moves=record.moves[:-plies],
        flags=record.flags[:-plies],
        root_values=record.root_values[:-plies],
        own={"chances": record.own["chances"][:-plies]},
        surprises=record.surprises[:-plies],
        visit_lengths=record.visit_lengths[:-plies],
    )


def test_games_of_another_game_are_refused(tmp_path: Path, records: list[GameRecord]) -> None:
    shard = shard_of(tmp_path, records)
    with pytest.raises(FileError, match="games of hypergammon; wanted backgammon"):
        make_examples(Backgammon(), [shard], all_of(shard), np.ones(1, np.float32), GatherConfig())
