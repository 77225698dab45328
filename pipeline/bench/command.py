"""``bench``: what this machine reaches, each figure beside its ceiling.

Everything is measured on random weights and games, in a temporary folder. What is compared is measured in turn,
window by window, and shares are medians over pairs of neighbouring windows: on a machine that isn't idle the figures
wander more than the shares do.

    network      the bare network at self-play's batch and threads: the ceiling of self-play
    self-play    the same threads with trees, rules and recording
    tree         the same without a network: an evaluator that returns constants
    gather       a whole run: scan, replay, features, shuffle, chunks on disk
    games/s      self-play's moves per second over the length of random games: windows are too short to finish any
    train        steps fed from chunks, against the same steps fed one batch from memory
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.bench.match import MatchBenchSummary, bench_match
from pipeline.config import (
    BenchConfig,
    GatherConfig,
    InitConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
    available_cores,
)
from pipeline.games.base import FloatArray, Game, Planes
from pipeline.games.registry import parse_game
from pipeline.gather.command import gather
from pipeline.methods.alphazero.actor import Actor, FinishedGame, PlaySettings, game_seeds
from pipeline.phrases import counted, percent
from pipeline.players.loading import calibration_positions
from pipeline.presets import make_config
from pipeline.progress import SILENT, Progress
from pipeline.storage.shards import write_shard
from pipeline.threads import run_together

if TYPE_CHECKING:
    from pipeline.networks.architecture import Architecture, Weights

PARALLEL_GAMES = 256
ROUNDS = 5  # pairs of windows per comparison
GATHERED_POSITIONS = 200_000
TEMPERATURE_PLIES = 16


@dataclass(frozen=True)
class BenchSummary:
    """Medians; shares are of the ceiling named in the module docstring."""

    game: str
    network_size: str
    games: int
    readouts: int
    threads: int
    backend: str
    network_evaluations_per_second: float
    selfplay_evaluations_per_second: float
    selfplay_share: float
    games_per_second: float
    tree_simulations_per_second: float
    gather_positions_per_second: float
    train_samples_per_second: float
    train_share: float

    def lines(self) -> list[str]:
        """The short form."""
        return [
            f"{self.game}, {self.network_size}, {counted(self.games, 'game')} at once, "
            f"{counted(self.readouts, 'readout')} a move, {counted(self.threads, 'thread')}, {self.backend}",
            f"network    {self.network_evaluations_per_second:,.0f} evaluations/s",
            f"self-play  {self.selfplay_evaluations_per_second:,.0f} evaluations/s, {percent(self.selfplay_share)} of "
            f"the network's; {self.games_per_second:,.2f} games/s",
            f"tree       {self.tree_simulations_per_second:,.0f} simulations/s without a network",
            f"gather     {self.gather_positions_per_second:,.0f} positions/s",
            f"train      {self.train_samples_per_second:,.0f} samples/s, {percent(self.train_share)} of memory's",
        ]


@dataclass(frozen=True)
class _Player:
    name: str
    evaluate: Callable[[Planes], tuple[FloatArray, FloatArray]]


def bench(config: BenchConfig, progress: Progress = SILENT) -> BenchSummary | MatchBenchSummary:
    """Measure everything; takes about 6 × config.seconds and what compiling takes. With "evaluate" see bench_match."""
    if config.what == "evaluate":
        return bench_match(config, progress)
    return _bench_pipeline(config, config.games or PARALLEL_GAMES, progress)


def _bench_pipeline(config: BenchConfig, parallel: int, progress: Progress) -> BenchSummary:
    from pipeline.networks.architecture import Architecture, random_weights
    from pipeline.networks.inference import evaluation_rate, make_evaluators

    game = parse_game(config.game)
    value_head = make_config(InitConfig, "init", config.preset).value_head
    architecture = Architecture.for_game(config.network_size, game, value_head)
    weights = random_weights(architecture, 0)
    threads = min(available_cores(), parallel)
    rows = -(-parallel // threads)
    window = config.seconds / (2 * ROUNDS)
    progress.start("bench", 5, "parts")
    progress.describe("network and self-play")
    calibration = calibration_positions(game)
    evaluators = make_evaluators(architecture, weights, rows, threads, progress=progress, calibration=calibration)
    playing = _Actors(game, config, rows, [_Player("bench", evaluator) for evaluator in evaluators])
    planes = calibration[np.arange(rows) % len(calibration)]
    network_rates, played_rates, move_rates = [], [], []
    for _ in range(ROUNDS):
        network_rates.append(evaluation_rate(evaluators, planes, window))
        evaluations, simulations = playing.run(window)
        played_rates.append(evaluations)
        move_rates.append(simulations / _readouts_per_move(config))
    network_rates.append(evaluation_rate(evaluators, planes, window))
    progress.advance(2)
    progress.describe("tree")
    constant = _Actors(game, config, rows, [_Player("constant", _Constant(game, rows)) for _ in range(threads)])
    tree_rate = statistics.median(constant.run(window)[1] for _ in range(ROUNDS))
    progress.advance()
    with tempfile.TemporaryDirectory(prefix="mugo-bench-") as name:
        folder = Path(name)
        progress.describe("gather")
        average_length = _write_random_games(game, folder / "selfplay", GATHERED_POSITIONS)
        gathered = [_gather(folder, seed) for seed in range(ROUNDS)]
        progress.advance()
        progress.describe("train")
        train_rate, train_share = _train_rates(game, architecture, weights, folder / "0", window, config.preset)
        progress.advance()
    progress.finish()
    ceilings = [(before + after) / 2 for before, after in itertools.pairwise(network_rates)]
    return BenchSummary(
        game=game.spec,
        network_size=config.network_size,
        games=rows * threads,
        readouts=_play_settings(config).readouts,
        threads=threads,
        backend=str(evaluators[0].engine),
        network_evaluations_per_second=statistics.median(network_rates),
        selfplay_evaluations_per_second=statistics.median(played_rates),
        selfplay_share=statistics.median(rate / ceiling for rate, ceiling in zip(played_rates, ceilings, strict=True)),
        games_per_second=statistics.median(move_rates) / average_length,
        tree_simulations_per_second=tree_rate,
        gather_positions_per_second=statistics.median(gathered[1:]),  # the first loads kernels
        train_samples_per_second=train_rate,
        train_share=train_share,
    )


def _play_settings(config: BenchConfig) -> PlaySettings:
    """What is played with: a preset's search and playout cap, or plain search."""
    if config.preset is None:
        return PlaySettings(SearchConfig(), config.readouts, TEMPERATURE_PLIES, -1.0)
    settings = make_config(SelfplayConfig, "selfplay", config.preset)
    return PlaySettings(
        settings.search_config(),
        settings.readouts,
        TEMPERATURE_PLIES,
        -1.0,
        full_search_fraction=settings.full_search_fraction,
        cheap_readouts=settings.cheap_readouts,
    )


def _readouts_per_move(config: BenchConfig) -> float:
    settings = _play_settings(config)
    return (
        settings.full_search_fraction * settings.readouts
        + (1 - settings.full_search_fraction) * settings.cheap_readouts
    )


class _Constant:
    """An evaluator that knows nothing: uniform policy, value 0."""

    def __init__(self, game: Game, rows: int) -> None:
        self._logits = np.zeros((rows, game.num_actions), np.float32)
        self._values = np.zeros(rows, np.float32)

    def __call__(self, planes: Planes) -> tuple[FloatArray, FloatArray]:
        return self._logits[: len(planes)], self._values[: len(planes)]


class _Actors:
    """Self-play without end in as many threads as there are players."""

    def __init__(self, game: Game, config: BenchConfig, rows: int, players: Sequence[_Player]) -> None:
        settings = _play_settings(config)

        def actor(number: int, player: _Player) -> Actor:
            seeds = game_seeds(0, itertools.count(number, len(players)), 0.0)
            return Actor(game, rows, settings, seeds, lambda: player, lambda _: None)

        self._actors = [actor(number, player) for number, player in enumerate(players)]
        self.run(0.0)  # compiles

    def run(self, seconds: float) -> tuple[float, float]:
        """Play for so long: network evaluations and simulations per second, of all threads."""
        before = self._counts()
        started = time.perf_counter()
        steps = iter(range(2)) if seconds == 0.0 else None

        def over() -> bool:
            return next(steps, None) is None if steps else time.perf_counter() - started >= seconds

        run_together([partial(actor.run, over) for actor in self._actors])
        elapsed = time.perf_counter() - started
        after = self._counts()
        evaluations, simulations = ((b - a) / elapsed for a, b in zip(before, after, strict=True))
        return evaluations, simulations

    def _counts(self) -> tuple[int, int]:
        searches = [actor.search for actor in self._actors]
        return sum(search.evaluations for search in searches), sum(search.simulations for search in searches)


def _write_random_games(game: Game, folder: Path, positions: int) -> float:
    """Shards of games by a uniform policy without search, as self-play commits them; their average length in plies."""
    waiting: list[FinishedGame] = []
    rows = 256
    player = _Player("random", _Constant(game, rows))
    settings = PlaySettings(SearchConfig(), 0, game.max_plies, -1.0)
    actor = Actor(game, rows, settings, game_seeds(1, itertools.count(), 0.0), lambda: player, waiting.append)
    written = games = 0
    while written < positions:
        actor.step()
        if len(waiting) >= 64:
            records = [finished.record for finished in waiting]
            write_shard(folder, "000000-random", "w00", game.spec, records, {"generation": 0})
            written += sum(len(record.moves) for record in records)
            games += len(records)
            waiting.clear()
    return written / games


def _gather(folder: Path, seed: int) -> float:
    config = GatherConfig(
        directory=folder / "selfplay", output_directory=folder / str(seed), as_many_as_possible=True, seed=seed
    )
    return gather(config).positions_per_second


def _train_rates(
    game: Game, architecture: Architecture, weights: Weights, chunks: Path, window: float, preset: str | None
) -> tuple[float, float]:
    """Samples per second fed from chunks, and its share of the same steps on one batch in memory."""
    from pipeline.storage.chunks import newest_complete_set
    from pipeline.train.dataset import Dataset, prefetched
    from pipeline.train.trainer import Trainer

    chunk_set = newest_complete_set(chunks)
    assert chunk_set is not None
    config = make_config(TrainConfig, "train", preset)
    trainer = Trainer(architecture, weights, config)
    dataset = Dataset(game, chunk_set, config.batch_size, 0)

    def rate(batches: Iterator) -> float:
        samples, started = 0, time.perf_counter()
        while time.perf_counter() - started < window:
            samples += trainer.step(next(batches)).num_samples
        return samples / (time.perf_counter() - started)

    fed, ceilings = [], []
    with prefetched(dataset.batches(1_000_000)) as batches:
        one = next(batches)
        for _ in range(3):
            trainer.step(one)
    for _ in range(ROUNDS):
        ceilings.append(rate(itertools.repeat(one)))
        with prefetched(dataset.batches(1_000_000)) as batches:
            trainer.step(next(batches))
            fed.append(rate(batches))
    return statistics.median(fed), statistics.median(a / b for a, b in zip(fed, ceilings, strict=True))
