"""How fast is each inference engine on this machine, and training, for each network size?

    python -m benchmarks.network [--seconds 2] [--game go:9] [--sizes b2c32 b4c64] [--backends openvino int8 torch]

Prints evaluations per second of each size and engine, with full batches as self-play uses them: two threads of 128 rows
and one of 256. Then training samples per second from one batch in memory, from a chunk set with symmetries drawn at
load time, and the share of the former that the latter reaches (goal: 0.90). Both are measured alternately, best of
three, because a busy machine slows whichever runs. All sizes take minutes.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np

from pipeline.errors import MuGoError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.networks.architecture import KNOWN_SIZES, Architecture, random_weights
from pipeline.networks.inference import evaluation_rate, make_evaluators
from pipeline.players.loading import calibration_positions
from pipeline.run import layout
from pipeline.run.chunks import ORIGIN, ChunkHeader, ChunkSet, newest_complete_set, write_chunk
from pipeline.train.config import TrainConfig
from pipeline.train.dataset import Dataset, prefetched
from pipeline.train.trainer import Trainer, samples_per_second
from tests.run.random_games import window_of

METHOD = AlphaZero()
BATCHES = ((128, 2), (256, 1))  # rows per thread, threads


def noise_set(folder: Path, game: Game, num_chunks: int = 10, positions: int = 2048) -> ChunkSet:
    """Chunks of the right shapes, filled with noise: speed doesn't depend on their contents."""
    rng = np.random.default_rng(0)
    name = layout.SetName(1, "00000000")
    for index in range(num_chunks):
        columns = {
            column: rng.integers(0, 2, (positions, *shape)).astype(dtype)
            for column, (dtype, shape) in {**METHOD.columns(game), **ORIGIN}.items()
        }
        columns["shard"][:] = 0
        header = ChunkHeader(game.spec, str(name), index, num_chunks, 0, game.num_planes, METHOD.name, window_of())
        write_chunk(folder / layout.chunk_name(name, index, num_chunks), header, columns, ["a/b/c.gz"])
    found = newest_complete_set(folder)
    assert found is not None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--game", default="go:9", help="game whose positions are evaluated")
    parser.add_argument("--sizes", nargs="+", default=list(KNOWN_SIZES), help="network sizes")
    parser.add_argument("--backends", nargs="+", default=["openvino", "int8", "torch"], help="inference engines")
    arguments = parser.parse_args()
    game = parse_game(arguments.game)
    planes = calibration_positions(game)

    print(f"{'size':8} {'engine':10} " + " ".join(f"{f'{threads} x {batch}':>12}" for batch, threads in BATCHES))
    for size, backend in itertools.product(arguments.sizes, arguments.backends):
        architecture = Architecture.for_game(size, game)
        weights = random_weights(architecture, 0)
        try:
            rates = []
            for batch, threads in BATCHES:
                evaluators = make_evaluators(architecture, weights, batch, threads, backend, calibration=planes)
                rates.append(evaluation_rate(evaluators, planes[np.arange(batch) % len(planes)], arguments.seconds))
        except MuGoError as error:
            print(f"{size:8} {backend:10} {error}")
            continue
        print(f"{size:8} {backend:10} " + " ".join(f"{rate:12,.0f}" for rate in rates), flush=True)

    print(f"\n{'size':8} {'in memory':>12} {'streamed':>12} {'share':>6}   (training, samples/s)")
    with tempfile.TemporaryDirectory() as folder:
        chunks = noise_set(Path(folder), game)
        for size in arguments.sizes:
            architecture = Architecture.for_game(size, game)
            objective = METHOD.objective(architecture.to_dict(), TrainConfig())
            trainer = Trainer(objective, random_weights(architecture, 0), TrainConfig())
            dataset = Dataset(METHOD, game, chunks, TrainConfig().batch_size, seed=0)
            one = next(dataset.batches(1))
            in_memory, streamed = 0.0, 0.0
            for _ in range(3):
                in_memory = max(in_memory, samples_per_second(trainer, itertools.repeat(one), arguments.seconds))
                with prefetched(dataset.batches(1_000_000)) as batches:
                    streamed = max(streamed, samples_per_second(trainer, batches, arguments.seconds))
            print(f"{size:8} {in_memory:12,.0f} {streamed:12,.0f} {streamed / in_memory:6.2f}", flush=True)


if __name__ == "__main__":
    main()
