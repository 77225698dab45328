"""``bench evaluate``: a match played in batches, compared with the same games played one after another.

Two networks with random weights play a whole match as evaluate does, then ALONE of its games again, one at a time in
one thread; the summary says how often both ways gave the same moves. Playing alone is measured twice: "padded" as in
evaluate, where no batch is smaller than LEAST_BATCH so that rounding is the same, and "single" with batches of one.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.bench.config import BenchConfig
from pipeline.errors import UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.matches.match import Pairing, ThreadPool, conduct
from pipeline.matches.openings import make_openings
from pipeline.matches.runner import LEAST_BATCH
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.phrases import counted, duration
from pipeline.players.loading import calibration_positions
from pipeline.players.player import MakePlayer, Player
from pipeline.players.searching import SearchPlayer
from pipeline.presets import make_config
from pipeline.progress import SILENT, Progress
from pipeline.run.matches import MatchFailure, MatchGame
from pipeline.search.options import PlaySearchOptions, SearchOptions
from pipeline.train.config import InitConfig

if TYPE_CHECKING:
    from pipeline.networks.inference import Evaluator

GAMES = 400
READOUTS = 64
PARALLEL_GAMES = 256
OPENING_PLIES = 6
ALONE = 8  # games played one after another, spread evenly over the match
SEARCH = PlaySearchOptions().search_options()
NAMES = ("one", "other")


@dataclass(frozen=True)
class MatchBenchSummary:
    """speedup: seconds per game one after another (padded, unless a name says unpadded), over those in batches."""

    game: str
    network_size: str
    games: int
    readouts: int
    threads: int
    backend: str
    average_length: float
    match_seconds: float
    seconds_per_game: float
    alone_seconds_per_game: float
    alone_seconds_per_game_unpadded: float
    speedup: float
    speedup_unpadded: float
    games_alone: int
    games_alone_the_same: int
    games_alone_the_same_unpadded: int

    def lines(self) -> list[str]:
        """The short form."""
        return [
            f"{self.game}, {self.network_size}, {counted(self.readouts, 'readout')} a move, "
            f"{counted(self.threads, 'thread')}, {self.backend}",
            f"in batches         {counted(self.games, 'game')} in {duration(self.match_seconds)}, "
            f"{self.seconds_per_game:.3g} s a game",
            f"one after another  {self.alone_seconds_per_game:.3g} s a game: {self.speedup:.1f} times as long; without "
            f"padding {self.alone_seconds_per_game_unpadded:.3g} s, {self.speedup_unpadded:.1f} times",
            f"the same moves     {self.games_alone_the_same} of {counted(self.games_alone, 'game')}",
        ]


def bench_match(config: BenchConfig, progress: Progress, part: Callable[[str], None]) -> MatchBenchSummary:
    """Play config.games games in batches, and ALONE of them one after another.

    part: called with what begins. Raises UsageError for an odd number of games or a game that AlphaZero can't play.
    """
    from pipeline.networks.architecture import Architecture, random_weights
    from pipeline.networks.inference import make_evaluators

    first = make_config(InitConfig, "init", None, game=config.game, network_size=config.network_size)
    game = parse_game(first.game)
    AlphaZero().check(game)
    architecture = Architecture.for_game(first.network_size, game)
    weights = [random_weights(architecture, seed) for seed in range(2)]
    calibration = calibration_positions(game)
    num_games = config.games or GAMES
    if num_games % 2:
        raise UsageError(f"bench evaluate --games {num_games}: wanted an even number: openings are played twice")
    threads = min(available_cores(), num_games)
    rows = -(-min(PARALLEL_GAMES, num_games) // threads)

    progress.start("bench: in batches", num_games, "games", at_once=threads * rows)

    def load(batch: int, threads: int) -> list[list[Evaluator]]:
        return [
            make_evaluators(architecture, one, batch, threads, progress=progress, calibration=calibration)
            for one in weights
        ]

    part("loading and compiling")
    batched = load(max(LEAST_BATCH, rows), threads)
    alone = {"padded": load(LEAST_BATCH, 1), "single": load(1, 1)}
    policies = [evaluators[0] for evaluators in batched]
    openings = make_openings(game, policies, num_games // 2, min(OPENING_PLIES, game.max_plies - 1), 0, rows)
    readouts = config.readouts or READOUTS

    def play(
        evaluators: Sequence[Sequence[Evaluator]], numbers: Sequence[int], threads: int, rows: int, **more: Any
    ) -> dict[int, MatchGame]:
        one, other = (searching(each, readouts) for each in evaluators)
        return play_match(game, (one, other), openings, numbers, threads, rows, **more)

    play(batched, range(min(num_games, 2 * threads)), threads, 1, seconds=0.5)  # compiles the kernels
    part("playing")
    started = time.perf_counter()
    together = play(batched, range(num_games), threads, rows, progress=progress)
    seconds = time.perf_counter() - started
    numbers = sorted({int(number) for number in np.linspace(0, num_games - 1, ALONE)})
    progress.start("bench: one after another", len(alone) * len(numbers), "games")
    part("playing")
    seconds_per_move: dict[str, list[float]] = {how: [] for how in alone}
    same = dict.fromkeys(alone, 0)
    for number in numbers:
        for how, evaluators in alone.items():  # alternating, so that other load on the machine slows both alike
            started = time.perf_counter()
            one = play(evaluators, [number], 1, 1)[number]
            seconds_per_move[how].append((time.perf_counter() - started) / max(1, one.length - OPENING_PLIES))
            same[how] += one.moves == together[number].moves
            progress.advance()
    progress.finish()
    length = statistics.mean(one.length for one in together.values())
    per_game = seconds / num_games
    padded_game, single_game = (statistics.mean(each) * (length - OPENING_PLIES) for each in seconds_per_move.values())
    return MatchBenchSummary(
        game=game.spec,
        network_size=architecture.size,
        games=num_games,
        readouts=readouts,
        threads=threads,
        backend=str(batched[0][0].backend),
        average_length=length,
        match_seconds=seconds,
        seconds_per_game=per_game,
        alone_seconds_per_game=padded_game,
        alone_seconds_per_game_unpadded=single_game,
        speedup=padded_game / per_game,
        speedup_unpadded=single_game / per_game,
        games_alone=len(numbers),
        games_alone_the_same=same["padded"],
        games_alone_the_same_unpadded=same["single"],
    )


def searching(
    evaluators: Sequence[Evaluator],
    readouts: int,
    search: SearchOptions = SEARCH,
    make: Callable[[Game, int, Evaluator, SearchOptions, int], Player] = SearchPlayer,
) -> MakePlayer:
    """evaluators: of the player's network, one per thread."""
    return lambda game, rows, thread: make(game, rows, evaluators[thread], search, readouts)


def play_match(
    game: Game,
    makers: tuple[MakePlayer, MakePlayer],
    openings: Sequence[Sequence[int]],
    numbers: Sequence[int],
    threads: int,
    rows: int,
    seconds: float = math.inf,
    progress: Progress = SILENT,
) -> dict[int, MatchGame]:
    """Play these games of a match; returns by number those that end within this time."""
    found: dict[int, MatchGame] = {}
    stop = time.perf_counter() + seconds

    def on_outcomes(games: list[MatchGame], failures: list[MatchFailure]) -> bool:
        found.update({one.index: one for one in games})
        progress.advance(len(games))
        return time.perf_counter() < stop

    conduct(ThreadPool(Pairing(game, makers, NAMES, 0, openings), threads, rows), list(numbers), on_outcomes)
    return found
