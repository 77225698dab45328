"""What networks learn of shogi stands where the mover sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import Positions, make_examples
from pipeline.run.shards import End, read_shard
from tests.methods.alphazero.test_examples import unpacked
from tests.run.random_games import random_games, write_shard

PIECES = 10  # kinds of minishogi


def test_owners_are_where_the_planes_show_pieces(tmp_path: Path) -> None:
    """The last move changes one point or two."""
    game = parse_game("shogi:5")
    records = [record for record in random_games(game, 24, seed=3) if record.end == End.PLAYED_OUT]
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", game.spec, records, {}))
    games, plies = np.arange(len(records)), np.array([len(record.moves) - 1 for record in records])
    columns = make_examples(game, [shard], Positions(np.zeros_like(games), games, plies))
    planes = unpacked(game, columns["planes"])
    own, theirs = (planes[:, first : first + PIECES].any(axis=1).reshape(len(games), -1) for first in (0, PIECES))
    changed = (columns["ownership"] != own.astype(int) - theirs).sum(axis=1)
    for side in (0, 1):  # who moves last
        rows = (plies % 2 == side) & (columns["final_weight"] == 1)
        assert rows.sum() > 2 and (changed[rows] <= 2).all() and (changed[rows] > 0).any()
