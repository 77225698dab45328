"""Games of the method on hypergammon, played by a small network in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td.actor import AfterstateActor, recorded_columns
from pipeline.families.backgammon.td.network import AfterstateNetwork
from pipeline.methods.method import ActorJob, FinishedGame, GameSeed, Learner, game_seeds
from pipeline.run.shards import GameRecord, Shard, read_shard
from pipeline.selfplay.config import SelfplayConfig
from tests.families.backgammon.td.test_network import network
from tests.run.random_games import write_shard

HYPERGAMMON = Backgammon("hypergammon")


def play(
    net: AfterstateNetwork, num_games: int, num_rows: int = 8, game: Backgammon = HYPERGAMMON, **settings: object
) -> list[FinishedGame]:
    """Games 0 to num_games - 1 of seed 3, in the order in which they end."""
    found: list[FinishedGame] = []
    seeds: Iterator[GameSeed] = itertools.islice(game_seeds(3, itertools.count(), 0.0), num_games)
    learner = Learner("000000-test", net)
    actor = AfterstateActor(ActorJob(game, num_rows, SelfplayConfig(**settings), seeds, lambda: learner, found.append))
    actor.run(lambda: False)
    assert actor.live == 0 and actor.plies == sum(len(one.record.moves) for one in found)
    return found


def shard_of(folder: Path, records: list[GameRecord], game: Backgammon = HYPERGAMMON) -> Shard:
    columns = recorded_columns()
    path = write_shard(folder, "000000-test", "w00", game.spec, records, {}, 0, "td", columns, game.max_result)
    return read_shard(path)


def small_network(outputs: int = 5, game: Backgammon = HYPERGAMMON) -> AfterstateNetwork:
    return network(game, outputs=outputs)


def chances_of(record: GameRecord) -> np.ndarray:
    """[K, 2, 5] of each turn: at its throw, and after its move."""
    return record.own["chances"].astype(np.float32).reshape(-1, 2, 5)
