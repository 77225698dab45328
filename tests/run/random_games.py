"""Games of random moves, recorded as by self-play, for tests and benchmarks of gather."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.games.contract import Game
from pipeline.run import layout, shards
from pipeline.run.chunks import ColumnTypes
from pipeline.run.shards import POLICY_COUNTS, SEARCH_COLUMNS, End, GameRecord, RunNumbers


def random_games(game: Game, num_games: int, seed: int = 0, resign_share: float = 0.0) -> list[GameRecord]:
    """Played in lockstep. Each move has visits of up to 8 legal moves, including the one played.

    resign_share: this share of the games stops at a random ply, and the one who was to move lost.
    """
    rng = np.random.default_rng(seed)
    states = game.initial(num_games)
    history = game.initial_history(states)
    running = np.arange(num_games)
    stop = np.where(rng.random(num_games) < resign_share, rng.integers(1, 5, num_games), game.max_plies)
    moves: list[list[int]] = [[] for _ in range(num_games)]
    visits: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(num_games)]
    results = np.zeros(num_games, np.float32)
    ends = np.zeros(num_games, np.int64)
    while running.size:
        legal = game.legal(states, history)
        keys = rng.random(legal.shape) * legal
        top = np.argsort(-keys, axis=1)[:, :8]
        for row, index in enumerate(running):
            edges = top[row][legal[row, top[row]]]
            moves[index].append(int(edges[0]))
            visits[index].append((edges, rng.integers(1, 50, len(edges))))
        states = game.play(states, top[:, 0].astype(np.int32), history)
        history.append(np.arange(len(states)), game.keys(states))
        over = game.is_over(states)
        resigned = ~over & (game.plies(states) >= stop[running])
        results[running[over]] = game.returns(states)[over]
        ends[running[over & game.cut_short(states)]] = End.MOVE_LIMIT
        results[running[resigned]] = 2 * game.to_move(states)[resigned] - 1
        ends[running[resigned]] = End.RESIGNED
        going = ~over & ~resigned
        states, history, running = states[going], history.select(np.flatnonzero(going)), running[going]
    return [
        GameRecord(
            game_id=seed * 1_000_000 + index,
            moves=np.array(moves[index], np.uint16),
            flags=np.full(len(moves[index]), POLICY_COUNTS, np.uint8),
            root_values=rng.uniform(-1, 1, len(moves[index])).astype(np.float32),
            visit_lengths=np.array([len(edges) for edges, _ in visits[index]], np.uint16),
            visit_actions=np.concatenate([edges for edges, _ in visits[index]]),
            visit_counts=np.concatenate([counts for _, counts in visits[index]]),
            result_first_player=float(results[index]),
            end=End(int(ends[index])),
        )
        for index in range(num_games)
    ]


def write_shard(
    output_dir: Path,
    model_name: str,
    worker: str,
    game_spec: str,
    games: Sequence[GameRecord],
    provenance: dict[str, Any],
    evaluations: int = 0,
    method: str = "alphazero",
    recorded: ColumnTypes = SEARCH_COLUMNS,
    max_result: float = 1.0,
    numbers: Sequence[int] | None = None,
    run: RunNumbers | None = None,
) -> Path:
    """Write them as a run's first shard, by default of AlphaZero and of the model's own generation."""
    provenance = {"generation": layout.number_of(model_name) or 0, **provenance}
    return shards.write_shard(
        output_dir, model_name, worker, game_spec, games, provenance, method=method, recorded=recorded,
        max_result=max_result, evaluations=evaluations, numbers=range(len(games)) if numbers is None else numbers,
        run=run or RunNumbers(provenance["generation"], 0, len(games)),
    )  # fmt: skip


def window_of(**facts: Any) -> dict[str, Any]:
    """A window as in a chunk: facts, and default values for the rest."""
    nothing = {"total_positions": 0, "new_positions": 0, "holdout_positions": 0, "td_lambda": 1.0}
    return {**nothing, "skipped": [], "counted_shards": {}, **facts}


def random_shards(
    directory: Path, game: Game, num_shards: int, games_per_shard: int, seed: int = 0, model: str = "000001-a"
) -> list[Path]:
    """Shards in three workers' folders, oldest first."""
    return [
        write_shard(
            directory,
            model,
            f"w{number % 3:02d}",
            game.spec,
            random_games(game, games_per_shard, seed * 1000 + number),
            {"generation": 1, "seed": seed},
        )
        for number in range(num_shards)
    ]
