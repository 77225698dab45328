"""``bench``: how fast this machine runs each stage, with an upper bound (the ceiling) for some.

Everything is measured on random weights and games, in a temporary folder. Rates to be compared are measured in
alternating windows, and a share is the median over pairs of neighbouring windows, which varies less on a busy machine.

Windows are too short to finish games, so self-play of random weights is measured on openings. With a model, each game
starts part-way through one played by the model's raw policy, where rules cost more than in openings.

    network      the bare network at self-play's batch size and number of threads: the ceiling of self-play
    self-play    the same threads with trees, rules and recording
    tree         the same without a network: an evaluator that returns constants
    gather       a whole run: scan, replay, features, shuffle, chunks on disk
    games/s      self-play's moves per second over the length of random games, or those of the model's raw policy
    train        steps on batches from chunks; the ceiling repeats one batch that is held in memory
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.config import BenchConfig
from pipeline.bench.match_speed import READOUTS, MatchBenchSummary, bench_match
from pipeline.errors import UsageError
from pipeline.games.contract import Evaluate, FloatArray, Game, Planes
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.machine import available_cores
from pipeline.matches.openings import sample_moves
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.methods.method import ActorJob, FinishedGame, Learner, game_seeds, run_in_turn
from pipeline.networks.inference import run_together
from pipeline.phrases import counted, percent
from pipeline.players.loading import calibration_of, calibration_positions
from pipeline.presets import make_config
from pipeline.progress import SILENT, Progress
from pipeline.run.models import Model, read_model, resolve_champion
from pipeline.run.shards import SEARCH_COLUMNS, RunNumbers, write_shard
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.variety import Variety
from pipeline.train.config import InitConfig, TrainConfig

if TYPE_CHECKING:
    from pipeline.networks.architecture import Architecture, Weights

PARALLEL_GAMES = 256
ROUNDS = 5  # pairs of windows per comparison
GATHERED_POSITIONS, SELFPLAY_POSITIONS = 200_000, 20_000  # self-play needs only how long games are
TEMPERATURE_PLIES = 16
TICK_SECONDS = 1.0


@dataclass(frozen=True)
class BenchSummary:
    """Medians; shares are of the ceiling named in the module docstring. None: not asked for."""

    game: str
    network_size: str
    games: int
    readouts: int
    threads: int
    backend: str | None = None
    network_evaluations_per_second: float | None = None
    selfplay_evaluations_per_second: float | None = None
    selfplay_share: float | None = None
    games_per_second: float | None = None
    tree_simulations_per_second: float | None = None
    gather_positions_per_second: float | None = None
    train_samples_per_second: float | None = None
    train_share: float | None = None

    def lines(self) -> list[str]:
        """The short form."""
        found = [f"{self.game}, {self.network_size}"]
        if self.selfplay_share is not None:
            found[0] += (
                f", {counted(self.games, 'game')} at once, {counted(self.readouts, 'readout')} a move, "
                f"{counted(self.threads, 'thread')}, {self.backend}"
            )
            found += [
                f"network    {self.network_evaluations_per_second:,.0f} evaluations/s",
                f"self-play  {self.selfplay_evaluations_per_second:,.0f} evaluations/s, "
                f"{percent(self.selfplay_share)} of the network's; {self.games_per_second:,.2f} games/s",
                f"tree       {self.tree_simulations_per_second:,.0f} simulations/s without a network",
            ]
        if self.gather_positions_per_second is not None:
            found.append(f"gather     {self.gather_positions_per_second:,.0f} positions/s")
        if self.train_share is not None:
            rate = f"{self.train_samples_per_second:,.0f} samples/s"
            found.append(f"train      {rate}, {percent(self.train_share)} of memory's")
        return found


def bench(config: BenchConfig, progress: Progress = SILENT) -> BenchSummary | MatchBenchSummary:
    """Measure every stage, which takes about 6 × config.seconds and compiling, or one of them; "evaluate": bench_match.

    Raises UsageError for a game that AlphaZero can't play, a preset without its searches, or an option that "evaluate"
    doesn't read.
    """
    if config.what == "evaluate":
        seconds = config.seconds if "seconds" in config.model_fields_set else None
        unread = {"model": config.model, "preset": config.preset, "boards": config.boards, "seconds": seconds}
        for name, found in unread.items():
            if found is not None:
                raise UsageError(
                    f"bench evaluate --{name}: found {str(found)!r}; wanted none, as its match is between random "
                    "weights, on one board, with evaluate's default settings"
                )
        with saying_parts(progress) as part:
            return bench_match(config, progress, part)
    if config.preset is not None:
        method = make_config(InitConfig, "init", config.preset).method
        if method != AlphaZero.name:
            raise UsageError(
                f"bench --preset {config.preset}: found method {method}; wanted a preset of {AlphaZero.name}"
            )
        if config.what != "train" and _play_settings(config).readouts == 0:
            raise UsageError(f"bench --preset {config.preset}: self-play begins with 0 readouts; wanted at least 1")
    with saying_parts(progress) as part:
        return _bench_pipeline(config, progress, part)


@contextmanager
def saying_parts(progress: Progress) -> Iterator[Callable[[str], None]]:
    """Every second says which part of a measurement is at work, and for how long: parts take minutes without units.

    Yields what names the part that begins.
    """
    begun, ended = ("", time.monotonic()), threading.Event()

    def part(text: str) -> None:
        nonlocal begun
        begun = text, time.monotonic()
        progress.describe(text)

    def tick() -> None:
        while not ended.wait(TICK_SECONDS):
            progress.describe(f"{begun[0]}, {time.monotonic() - begun[1]:.0f} s")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield part
    finally:
        ended.set()
        thread.join()


class _Network(NamedTuple):
    """What is measured. model: None for random weights."""

    game: Game
    architecture: Architecture
    weights: Weights
    model: Model | None


def _network(config: BenchConfig) -> _Network:
    from pipeline.networks.architecture import Architecture, random_weights

    model = None if config.model is None else read_model(resolve_champion(config.model))
    first = make_config(InitConfig, "init", config.preset, game=config.game, network_size=config.network_size)
    game = parse_game(model.info.game if model else first.game)
    AlphaZero().check(game)
    if model:
        return _Network(game, Architecture.from_dict(model.info.architecture), model.weights, model)
    architecture = Architecture.for_game(first.network_size, game, first.value_head)
    return _Network(game, architecture, random_weights(architecture, 0), None)


def _bench_pipeline(config: BenchConfig, progress: Progress, part: Callable[[str], None]) -> BenchSummary:
    network, settings = _network(config), _play_settings(config)
    game, window, whole = network.game, config.seconds / (2 * ROUNDS), config.what == "pipeline"
    parallel = config.games or PARALLEL_GAMES
    threads = min(available_cores(), parallel)
    variety = Variety.of(settings, game)
    boards = list(zip(cast(Sequence[Game], variety.games), variety.rows(-(-parallel // threads)), strict=True))
    num_games = sum(rows for _, rows in boards) * threads
    found = BenchSummary(game.spec, network.architecture.size, num_games, settings.readouts, threads)
    progress.start("bench", {"pipeline": 6, "selfplay": 4, "train": 2}[config.what], "parts")
    progress.left(None)  # some take ten times as long as others
    with tempfile.TemporaryDirectory(prefix="mugo-bench-") as name:
        folder = Path(name)
        part("random games")
        needed = SELFPLAY_POSITIONS if config.what == "selfplay" else GATHERED_POSITIONS
        length = write_random_games(game, folder / "selfplay", needed)
        progress.advance()
        if config.what != "train":
            found = replace(found, **_selfplay(network, settings, boards, threads, window, length, progress, part))
        if config.what != "selfplay":
            part("gather")
            plan = GatherConfig(directory=folder / "selfplay", as_many_as_possible=True)
            plans = [{"output_directory": folder / str(seed), "seed": seed} for seed in range(ROUNDS if whole else 1)]
            gathered = [gather(plan.model_copy(update=one)).positions_per_second for one in plans]
            if whole:
                progress.advance()
                # The first loads kernels.
                found = replace(found, gather_positions_per_second=statistics.median(gathered[1:]))
            part("train")
            rate, share = _train_rates(network, folder / "0", window, config.preset)
            found = replace(found, train_samples_per_second=rate, train_share=share)
            progress.advance()
    progress.finish()
    return found


def _selfplay(
    network: _Network,
    settings: SelfplayConfig,
    played: Sequence[tuple[Game, int]],
    threads: int,
    window: float,
    length: float,
    progress: Progress,
    part: Callable[[str], None],
) -> dict[str, Any]:
    """The summary's figures of self-play.

    played: each board's game, and how many of it a thread plays; length: of a game without a model
    """
    from pipeline.networks.inference import make_evaluators

    part("loading and compiling")
    model, boards = network.model, []
    for one, games in played:
        there = network.architecture.at(*one.board_shape)
        calibration = calibration_of(model, there) if model else calibration_positions(one)
        evaluators = make_evaluators(
            there, network.weights, games, threads, progress=progress, calibration=calibration, afresh=True
        )
        boards.append(_Board(one, games, evaluators, calibration[np.arange(games) % len(calibration)]))
    raw = [_raw_games(board) if model else [] for board in boards]
    if model:
        length = 1 + statistics.mean(len(moves) for games in raw for moves in games)
    begun = [_stages(games) for games in raw]
    playing = _Actors(settings, boards, begun)
    part("network and self-play")
    ceiling, evaluations, simulations, share = _selfplay_rates(boards, playing, window)
    progress.advance(2)
    part("tree")
    without_network = [
        replace(one, evaluators=[_constant(one.game, one.rows) for _ in one.evaluators]) for one in boards
    ]
    constant = _Actors(settings, without_network, begun)
    tree_rate = statistics.median(constant.run(window)[1] for _ in range(ROUNDS))
    progress.advance()
    full = settings.full_search_fraction
    readouts_per_move = full * settings.readouts + (1 - full) * settings.cheap_readouts
    return {
        "backend": ", ".join(sorted({str(one.evaluators[0].backend) for one in boards})),
        "network_evaluations_per_second": ceiling,
        "selfplay_evaluations_per_second": evaluations,
        "selfplay_share": share,
        "games_per_second": simulations / readouts_per_move / length,
        "tree_simulations_per_second": tree_rate,
    }


def _play_settings(config: BenchConfig) -> SelfplayConfig:
    """The search and playout cap of the preset; without a preset, plain search."""
    if config.preset is None:
        readouts = config.readouts or READOUTS
        return SelfplayConfig(readouts=readouts, temperature_plies=TEMPERATURE_PLIES, boards=config.boards or "")
    settings = make_config(SelfplayConfig, "selfplay", config.preset)
    return SelfplayConfig(
        **settings.search_options().model_dump(),
        readouts=config.readouts or settings.readouts,
        temperature_plies=TEMPERATURE_PLIES,
        full_search_fraction=settings.full_search_fraction,
        cheap_readouts=settings.cheap_readouts,
        boards=settings.boards if config.boards is None else config.boards,
        komi_spread=settings.komi_spread,
    )


@dataclass(frozen=True)
class _Board:
    """A game on one board in self-play. rows: of each thread; planes [rows, …]: for the bare network."""

    game: Game
    rows: int
    evaluators: Sequence[Any]
    planes: Planes


def _raw_games(board: _Board) -> list[list[int]]:
    """A game for each of a thread's rows, without its last move, sampled from the network's policy."""
    streams = [np.random.default_rng(row) for row in range(board.rows)]
    return sample_moves(board.game, board.evaluators[:1], board.game.max_plies, 1.0, streams, [()] * board.rows)


def _stages(games: Sequence[list[int]]) -> list[list[int]]:
    """Beginnings of games of all lengths: none of the first game's moves, nearly all of the last one's."""
    return [moves[: len(moves) * row // len(games)] for row, moves in enumerate(games)]


def _selfplay_rates(boards: Sequence[_Board], playing: _Actors, window: float) -> tuple[float, float, float, float]:
    """Measure in turn: ROUNDS windows of self-play, each between two of the network on all boards.

    Returns medians: the bare network's evaluations per second at self-play's mixture of boards, self-play's evaluations
    and simulations per second, and the share of self-play's time that the bare network needs for the same evaluations.
    """
    from pipeline.networks.inference import evaluation_rate

    def measured() -> FloatArray:
        each = window / len(boards)
        return np.array([evaluation_rate(one.evaluators, one.planes, each) for one in boards])

    network, played = [measured()], []
    for _ in range(ROUNDS):
        played.append(playing.run(window))
        network.append(measured())
    ceilings = [(before + after) / 2 for before, after in itertools.pairwise(network)]
    shares = [(evaluations / rates).sum() for (evaluations, _), rates in zip(played, ceilings, strict=True)]
    totals = [evaluations.sum() for evaluations, _ in played]
    ceiling = statistics.median(total / share for total, share in zip(totals, shares, strict=True))
    simulations = statistics.median(made for _, made in played)
    return ceiling, statistics.median(totals), simulations, statistics.median(shares)


def _constant(game: Game, rows: int) -> Evaluate:
    """An evaluator without a network: uniform policy, value 0."""
    logits, values = np.zeros((rows, game.num_actions), np.float32), np.zeros(rows, np.float32)
    return lambda planes: (logits[: len(planes)], values[: len(planes)])


class _Actors:
    """Endless self-play, one thread per evaluator of a board, in which all boards take turns."""

    def __init__(self, settings: SelfplayConfig, boards: Sequence[_Board], begun: Sequence[list[list[int]]]) -> None:
        """begun: for each board the moves with which its games begin; empty: none."""
        threads = len(boards[0].evaluators)

        def actor(thread: int, board: _Board, stages: list[list[int]]) -> TreeActor:
            model = Learner("bench", board.evaluators[thread])
            seeds = game_seeds(0, itertools.count(thread, threads), 0.0)
            made = TreeActor(ActorJob(board.game, board.rows, settings, seeds, lambda: model, lambda _: None))
            made.put_at(stages)
            return made

        self._actors = [[actor(thread, *one) for one in zip(boards, begun, strict=True)] for thread in range(threads)]
        compiling = itertools.count()
        run_together([partial(run_in_turn, actors, lambda: next(compiling) >= 2) for actors in self._actors])

    def run(self, seconds: float) -> tuple[NDArray[np.float64], float]:
        """Play for this long. Returns evaluations per second [boards] and simulations per second, over all threads."""
        before = self._counts()
        started = time.perf_counter()
        run_together(
            [partial(run_in_turn, actors, lambda: time.perf_counter() - started >= seconds) for actors in self._actors]
        )
        made = (self._counts() - before) / (time.perf_counter() - started)
        return made[0], float(made[1].sum())

    def _counts(self) -> NDArray[np.int64]:
        """[2, boards] evaluations and simulations so far, over all threads."""
        searches = [[actor.search for actor in actors] for actors in self._actors]
        made = [[(search.evaluations, search.simulations) for search in one] for one in searches]
        return np.array(made, np.int64).sum(axis=0).T


def write_random_games(game: Game, folder: Path, positions: int) -> float:
    """Write shards of random games, as self-play commits them; returns the average length in plies."""
    waiting: list[FinishedGame] = []
    rows = 256
    model = Learner("random", _constant(game, rows))
    settings = SelfplayConfig(readouts=0, temperature_plies=game.max_plies)
    actor = TreeActor(
        ActorJob(game, rows, settings, game_seeds(1, itertools.count(), 0.0), lambda: model, waiting.append)
    )
    written = games = 0
    while written < positions:
        actor.step()
        if len(waiting) >= 64:
            records = [finished.record for finished in waiting]
            write_shard(
                folder,
                "000000-random",
                "w00",
                game.spec,
                records,
                {"generation": 0},
                method="alphazero",
                recorded=SEARCH_COLUMNS,
                max_result=game.max_result,
                evaluations=0,
                numbers=range(games, games + len(records)),
                run=RunNumbers(0, 0, games + len(records)),
            )
            written += sum(len(record.moves) for record in records)
            games += len(records)
            waiting.clear()
    return written / games


def _train_rates(network: _Network, chunks: Path, window: float, preset: str | None) -> tuple[float, float]:
    """Samples per second on batches from chunks, and the share of that in the rate on one batch held in memory."""
    from pipeline.run.chunks import newest_complete_set
    from pipeline.train.dataset import Dataset, prefetched
    from pipeline.train.trainer import Trainer, samples_per_second

    chunk_set = newest_complete_set(chunks)
    assert chunk_set is not None
    config = make_config(TrainConfig, "train", preset)
    method = AlphaZero()
    trainer = Trainer(method.objective(network.architecture.to_dict(), config), network.weights, config)
    dataset = Dataset(method, network.game, chunk_set, config.batch_size, 0)

    one = next(dataset.batches(1))
    for _ in range(3):
        trainer.step(one)
    fed, ceilings = [], []
    for _ in range(ROUNDS):
        ceilings.append(samples_per_second(trainer, itertools.repeat(one), window))
        with prefetched(dataset.batches(1_000_000)) as batches:
            fed.append(samples_per_second(trainer, batches, window))
    return statistics.median(fed), statistics.median(a / b for a, b in zip(fed, ceilings, strict=True))
