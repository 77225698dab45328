"""Which search teaches most for its evaluations? Measures the policy targets of searches, without training.

    python -m benchmarks.targets --model saved_models/best_model \
        readouts=100,forced_playouts=2 readouts=32,algorithm=gumbel,max_num_considered_actions=8

Each argument is a search: its readouts and changes to the default settings (`main.py selfplay --help` lists them). All
search the same positions, sampled from the model's raw policy at all stages of a game, with self-play's noise. A search
with --deep readouts of the position after each legal move gives that move's value, in [-1, 1] for the player to move.
Takes minutes. Prints, for the model's own policy and for each search's targets, means over positions and --repeats:

regret     the value of the best move minus that of a move sampled from the policy: how a perfect student would play
mode       the same for the policy's likeliest move
entropy    of the policy, in nats
best       the logarithm of the probability of the best move, in nats, averaged over repeats first

A policy that puts everything on one move can have little regret and teach nothing about the others: look at entropy
and best too. A network learns the average of many targets, so many cheap ones may be worth more than a few good ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.strength import HelpFormatter, ending
from benchmarks.tune import changed
from pipeline.errors import UsageError
from pipeline.games.contract import BoolArray, FloatArray, Game, Rows
from pipeline.games.specs import parse_game
from pipeline.matches.openings import make_openings
from pipeline.players.loading import load_evaluators
from pipeline.players.searching import Evaluate
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.models import read_model, resolve_champion
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions

ROWS = 256  # positions searched together
STAGES = 8  # stages of a game, with equally many positions
LONGEST = 0.6  # plies before the last stage's positions, in points of the board
LEAST = 1e-4  # the smallest probability in `best`
NO_NOISE = SearchOptions(noise_weight=0.0)


@dataclass(frozen=True)
class Positions:
    """games [P]: the moves that lead there; priors, values [P, A]: of the legal moves, for the player to move."""

    games: list[list[int]]
    priors: FloatArray
    values: FloatArray
    legal: BoolArray


@dataclass(frozen=True)
class Lesson:
    """See the module docstring."""

    regret: float
    mode: float
    entropy: float
    best: float

    def __str__(self) -> str:
        return f"regret {self.regret:.4f}  mode {self.mode:.4f}  entropy {self.entropy:.2f}  best {self.best:.2f}"


def searched(
    game: Game, evaluate: Evaluate, games: Sequence[Sequence[int]], config: SearchOptions, readouts: int, seed: int
) -> BatchSearch:
    """A search of the positions after games [P], except those that are over."""
    rows = np.arange(len(games))
    search = BatchSearch(game, len(games), max(readouts, 1), config)
    search.new_games(rows, np.random.default_rng(seed).integers(1, 2**63, len(games), dtype=np.uint64))
    for ply in range(max(map(len, games))):
        there = np.flatnonzero([len(moves) > ply for moves in games])
        search.advance(there, np.array([games[row][ply] for row in there], np.int32))
    search_rows(search, evaluate, rows[~search.over(rows)], readouts)
    return search


def search_rows(search: BatchSearch, evaluate: Evaluate, rows: Rows, readouts: int) -> None:
    """Search the positions in rows [n] to the end, with the search's noise. No other row may be in progress."""
    search.begin(rows, np.full(len(rows), readouts, np.int32), np.ones(len(rows), np.bool_))
    while len(search.finished()) < len(rows):
        search.expand(*evaluate(search.leaves()))


def make_positions(game: Game, evaluate: Evaluate, count: int, deep: int, seed: int, progress: Progress) -> Positions:
    """About `count` positions, equally many of each stage of a game, with the values of their moves."""
    plies = np.unique(np.linspace(1, LONGEST * np.prod(game.board_shape), STAGES).astype(int))
    games: list[list[int]] = []
    for one in plies.tolist():
        games += make_openings(game, [evaluate], -(-count // len(plies)), one, seed, ROWS)
    return judged(game, evaluate, games, deep, seed, progress)


def judged(
    game: Game, evaluate: Evaluate, games: list[list[int]], deep: int, seed: int, progress: Progress
) -> Positions:
    """The positions after games [P], with values of their moves by searches of `deep` readouts."""
    found = []
    for part in parts(len(games)):
        search = searched(game, evaluate, games[part], NO_NOISE, 0, seed)
        found.append(search.root_table(np.arange(search.num_rows))[1])
    priors = np.concatenate(found)
    legal = priors > 0
    moves = np.argwhere(legal)
    values = np.zeros_like(priors)
    progress.start("judging moves", len(moves), "moves")
    for part in parts(len(moves)):
        after = [[*games[row], action] for row, action in moves[part].tolist()]
        rows = np.arange(len(after))
        search = searched(game, evaluate, after, NO_NOISE, deep, seed)
        by_mover = search.root_values(rows)
        over = search.over(rows)
        by_first = search.returns(rows)[over]
        by_mover[over] = np.where(search.to_move(rows)[over] == 0, by_first, -by_first)
        values[moves[part, 0], moves[part, 1]] = -by_mover
        progress.advance(len(rows))
    progress.finish()
    return Positions(games, priors, values, legal)


def parts(count: int) -> list[slice]:
    """Slices of at most ROWS each."""
    return [slice(start, start + ROWS) for start in range(0, count, ROWS)]


def lesson(positions: Positions, policies: FloatArray) -> Lesson:
    """The measures of policies [S, P, A], one set per repeat."""
    values = np.where(positions.legal, positions.values, -np.inf)
    every, best = np.arange(len(values)), values.argmax(axis=1)
    top = values[every, best]
    expected = (policies * positions.values).sum(axis=2)
    likeliest = np.take_along_axis(positions.values, policies.argmax(axis=2).T, axis=1).T
    chance = policies.mean(axis=0)[every, best]
    return Lesson(
        regret=float((top - expected).mean()),
        mode=float((top - likeliest).mean()),
        entropy=float(-(policies * np.log(np.maximum(policies, 1e-12))).sum(axis=2).mean()),
        best=float(np.log(np.maximum(chance, LEAST)).mean()),
    )


def taught(
    game: Game, evaluate: Evaluate, positions: Positions, config: SearchOptions, readouts: int, repeats: int, seed: int
) -> FloatArray:
    """[S, P, A] the targets of `repeats` searches of each position, as probabilities."""
    found = []
    for repeat in range(repeats):
        targets = []
        for part in parts(len(positions.games)):
            search = searched(game, evaluate, positions.games[part], config, readouts, seed + repeat)
            targets.append(search.targets(np.arange(search.num_rows)))
        visits = np.concatenate(targets).astype(np.float64)
        found.append(visits / visits.sum(axis=1, keepdims=True))
    return np.stack(found)


def setting(text: str) -> tuple[SearchOptions, int]:
    """ "readouts=32,max_num_considered_actions=8" as a search and its readouts. Raises UsageError."""
    lines = text.split(",")
    readouts = [line.partition("=")[2] for line in lines if line.startswith("readouts=")]
    if len(readouts) != 1 or not readouts[0].isdecimal() or not 2 <= int(readouts[0]) <= 100_000:
        raise UsageError(f"{text!r}: wanted readouts=N once, N at least 2, e.g. readouts=32,algorithm=gumbel")
    rest = ",".join(line for line in lines if not line.startswith("readouts="))
    return changed(SearchOptions(), rest), int(readouts[0])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.targets", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("settings", nargs="+", metavar="readouts=N[,NAME=VALUE…]", help="a search to measure")
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"), help="the model that searches")
    parser.add_argument("--positions", type=int, default=64, help="number of positions")
    parser.add_argument("--deep", type=int, default=100, help="readouts of the search that judges each move")
    parser.add_argument("--repeats", type=int, default=4, help="searches per position")
    parser.add_argument("--seed", type=int, default=0, help="seed of positions and noise")
    options = parser.parse_args(arguments)
    for name, least in (("positions", 1), ("deep", 1), ("repeats", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: wanted at least {least}")
    with ending(parser):
        settings = {text: setting(text) for text in options.settings}
        with ConsoleProgress() as progress:
            model = read_model(resolve_champion(options.model))
            game = parse_game(model.info.game)
            evaluate = load_evaluators(model, ROWS, 1, "auto", progress)[0]
            positions = make_positions(game, evaluate, options.positions, options.deep, options.seed, progress)
            print(f"{model.info.name}, {game.spec}: {len(positions.games)} positions, {positions.legal.sum()} moves")
            width = max(map(len, ["the model itself", *settings]))
            print(f"{'the model itself':<{width}}  {lesson(positions, positions.priors[None])}", flush=True)
            for text, (config, readouts) in settings.items():
                policies = taught(game, evaluate, positions, config, readouts, options.repeats, options.seed)
                print(f"{text:<{width}}  {lesson(positions, policies)}", flush=True)


if __name__ == "__main__":
    main()
