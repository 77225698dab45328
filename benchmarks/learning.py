"""Which training settings learn most from the same games?

    python -m benchmarks.learning --games data/selfplay --preset go9 optimizer=adam,learning_rate=0.002 optimizer=muon

Each argument trains a network from random weights with these changes to the preset's train section. All networks see
the same samples, drawn once as the preset's gather section says from at most the newest --positions; if the window
holds fewer than --samples, samples repeat. Schedules, also those of gather, stay at their start: with go9, values learn
from results alone. The learning rate stays constant and falls linearly to zero over the last 30 % of the steps.

After each sixth of the samples it prints the policy and value losses (nats) and the value's mean squared error on
held-out games, and the training speed. Takes minutes per setting, while whole runs take hours and differ by luck.
Ignore differences that are smaller than those between two seeds (--seed). A network's cost in self-play isn't measured:
see `main.py bench`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.strength import HelpFormatter, ending
from benchmarks.tune import changed
from pipeline.errors import UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.presets import make_config
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.chunks import ChunkSet, newest_complete_set, read_header
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.dataset import Dataset, holdout_batches, prefetched
from pipeline.train.trainer import Trainer

METHOD = AlphaZero()
MEASURED = 4_096  # held-out positions to measure on
PARTS = 6
NOT_READ = ("epochs", "max_samples_per_position", "priority_exponent", "priority_correction", "priority_floor")
DECAY = 0.3  # the last share of the steps, over which the learning rate falls


@dataclass(frozen=True)
class Found:
    """The hold-out's losses after a number of samples and seconds of training."""

    samples: int
    seconds: float
    policy: float
    value: float
    value_mse: float

    def __str__(self) -> str:
        speed = f"{self.samples:>10,} samples  {self.samples / self.seconds:>6,.0f}/s"
        return f"{speed}  policy {self.policy:.4f}  value {self.value:.4f}  mse {self.value_mse:.4f}"


def make_chunks(games: Path, preset: str, positions: int, samples: int, folder: Path, progress: Progress) -> ChunkSet:
    """A chunk set in folder with about `samples` of the newest positions, and held-out games.

    Raises UsageError if no game is held out.
    """
    drawing = make_config(GatherConfig, "gather", preset)
    changes = {
        "directory": games,
        "output_directory": folder,
        "max_positions": positions,
        "chunks_to_make": -(-samples // drawing.positions_per_chunk),
        "as_many_as_possible": True,
    }
    gather(drawing.model_copy(update=changes), progress)
    made = newest_complete_set(folder)
    assert made is not None
    if made.holdout is None:
        raise nothing_held_out(drawing)
    return made


def nothing_held_out(drawing: GatherConfig) -> UsageError:
    wanted = "wanted a hold-out to measure on: more games, or a preset that holds out a larger share"
    return UsageError(f"gather --holdout-fraction {drawing.holdout_fraction:g} holds out none of these games; {wanted}")


def untrained(architecture: Architecture, config: TrainConfig, seed: int) -> Trainer:
    """A trainer of a network with random weights."""
    return Trainer(METHOD.objective(architecture.to_dict(), config), random_weights(architecture, seed), config)


def game_of(chunks: ChunkSet) -> Game:
    """The game of the examples; with several boards, the largest one."""
    return parse_game(read_header(chunks.chunks[0]).game)


def learn(trainer: Trainer, config: TrainConfig, chunks: ChunkSet, samples: int, seed: int) -> Iterator[Found]:
    """Train; yields the losses after each of PARTS."""
    game = game_of(chunks)
    dataset = Dataset(METHOD, game, chunks, config.batch_size, seed, symmetries=config.symmetries)
    assert chunks.holdout is not None
    held_out = list(holdout_batches(METHOD, game, chunks.holdout, config.batch_size, MEASURED).values())
    steps = max(PARTS, samples // config.batch_size)
    trained, seconds, began = 0, 0.0, time.perf_counter()
    with prefetched(dataset.batches(1 + samples // dataset.num_examples)) as batches:
        for step, batch in zip(range(1, steps + 1), batches, strict=False):
            trainer.learning_rate = config.learning_rate * min(1.0, (steps + 1 - step) / (DECAY * steps))
            trained += trainer.step(batch).num_samples
            if step % (steps // PARTS) == 0:
                seconds += time.perf_counter() - began
                trainer.finish(dataset.some(MEASURED))
                found = trainer.evaluate_parts(held_out)[0]
                yield Found(trained, seconds, found["policy"], found["value"], found["value_mse"])
                began = time.perf_counter()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument(
        "settings", nargs="+", metavar="NAME=VALUE[,NAME=VALUE…]", help="changes to the preset's train section"
    )
    parser.add_argument(
        "--games", type=Path, default=Path("data/selfplay"), help="self-play games of the preset's game"
    )
    parser.add_argument("--preset", default="go9", help="a name, or a .yaml file")
    parser.add_argument("--positions", type=int, default=400_000, help="the largest window")
    parser.add_argument("--samples", type=int, default=250_000, help="samples that each network trains on")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and of the order of samples")
    options = parser.parse_args(arguments)
    for name, least in (("positions", 1), ("samples", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: wanted at least {least}")
    with ending(parser), tempfile.TemporaryDirectory(prefix="mugo-learning-") as name, ConsoleProgress() as progress:
        base = make_config(TrainConfig, "train", options.preset)
        configs = {text: changed(base, text) for text in options.settings}
        for text, config in configs.items():
            if unread := [name for name in NOT_READ if getattr(config, name) != getattr(base, name)]:
                found = f"{text!r}: {', '.join(unread)} without effect here"
                raise UsageError(f"{found}: one pass over evenly drawn samples")
        if base.priority_exponent:
            progress.warn(f"{options.preset} samples by priority; here all positions are sampled alike")
        start = make_config(InitConfig, "init", options.preset)
        chunks = make_chunks(options.games, options.preset, options.positions, options.samples, Path(name), progress)
        game = game_of(chunks)
        for text, config in configs.items():
            sized = config.model_copy(update={"network_size": config.network_size or start.network_size})
            architecture = Architecture.for_game(str(sized.network_size), game, start.value_head)
            trainer = untrained(architecture, sized, options.seed)
            for found in learn(trainer, sized, chunks, options.samples, options.seed):
                print(f"{text}: {found}", flush=True)


if __name__ == "__main__":
    main()
