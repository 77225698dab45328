"""Does a run of Gomoku learn to answer threats? Counts in its self-play games, generation by generation.

    python -m benchmarks.gomoku_threats runs/gomoku/data/selfplay --every 5

Counts the models' moves that are policy targets, and, for comparison, the moves of players that don't learn, and
random moves in the same positions as the models'. A position counts for the first of these that it has:

five   the opponent has a five, which a capture can break. Answered: the game goes on.
pairs  the player can win by capturing. Answered: the game is won.
four   the opponent threatens a five on one point, and the player can't make one. Answered: none is threatened any more.
three  the opponent threatens a straight four and no five, and the player can't make a five. Answered: no straight four
       is threatened any more, or the player threatens a five.

A move that wins the game answers everything. A percentage is followed by the number of positions.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.strength import HelpFormatter, ending
from pipeline.errors import MuGoError, UsageError
from pipeline.families.gomoku import kernels
from pipeline.families.gomoku.game import Gomoku
from pipeline.families.gomoku.shapes import STRAIGHT_FOUR
from pipeline.games.capabilities import beginning
from pipeline.games.contract import BoolArray, States
from pipeline.games.replay import replay
from pipeline.games.specs import parse_game
from pipeline.methods.game_table import GameTable
from pipeline.methods.method import Positions
from pipeline.reports.tables import table
from pipeline.run import layout
from pipeline.run.shards import POLICY_COUNTS, Shard, newest_shards, read_shard

KINDS = ("five", "pairs", "four", "three")
FIVE, PAIRS, FOUR, THREE = range(len(KINDS))
RANDOM = "random moves"
Players = NDArray[np.int8]
Counts = NDArray[np.int64]  # [kinds, 2]: positions, and how many of them were answered


def threatens_straight_four(game: Gomoku, states: States, players: Players) -> BoolArray:
    """[n] whether players [n] could make a straight four with their next stone."""
    return (game.shapes(states)[np.arange(len(states)), players, :, STRAIGHT_FOUR] > 0).any(axis=1)


def kinds(game: Gomoku, states: States) -> Players:
    """[n] the kind of each position, which isn't over, by its number in KINDS; -1: none of them."""
    movers = game.to_move(states)
    captured, taken = game.pairs(states)[np.arange(len(states)), movers], game.captures(states, movers).max(axis=1)
    quiet, threatened = ~game.fives(states, movers).any(axis=1), game.fives(states, 1 - movers).sum(axis=1)
    found = [
        states[:, game.num_points + kernels.FIVE] != 0,
        (taken > 0) & (captured + taken >= game.rules.goal),
        quiet & (threatened == 1),
        quiet & (threatened == 0) & threatens_straight_four(game, states, 1 - movers),
    ]
    return np.select(found, range(len(KINDS)), -1).astype(np.int8)


def answered(game: Gomoku, found: Players, players: Players, after: States) -> BoolArray:
    """[n] whether the moves of players [n] in positions of the kinds found led to states in which they are answered."""
    over = game.is_over(after)
    won = over & (np.where(players == 0, 1, -1) * game.returns(after) > 0)
    others = 1 - players
    fours = ~game.fives(after, others).any(axis=1)
    threes = ~threatens_straight_four(game, after, others) | game.fives(after, players).any(axis=1)
    return won | np.select([found == FIVE, found == FOUR, found == THREE], [~over, fours, threes], False)


def count(shard: Shard, rng: np.random.Generator) -> dict[str, Counts]:
    """By who moved: "" is a model. Raises UsageError for games other than Gomoku."""
    game = parse_game(shard.game_spec)
    if not isinstance(game, Gomoku):
        raise UsageError(f"{shard.path}: games of {shard.game_spec}; wanted Gomoku")
    counts: dict[str, Counts] = defaultdict(lambda: np.zeros((len(KINDS), 2), np.int64))
    every = np.arange(shard.num_games)
    games = GameTable([shard], Positions(np.zeros_like(every), every, np.zeros_like(every)))
    opponents = np.array([shard.opponent(index) or "" for index in games.game.tolist()])
    targets = games.per_move("flags", np.uint8(0)) & POLICY_COUNTS > 0
    before = game.initial(0)
    for ply, (states, _) in enumerate(replay(game, games.moves, games.lengths, beginning(game, games.setups))):
        found, movers = kinds(game, before), game.to_move(before)
        who = np.where(games.learners[: len(before)] == 1 - movers, opponents[: len(before)], "")
        rows = np.flatnonzero((found >= 0) & (targets[ply - 1, : len(before)] | (who != "")))
        for name in np.unique(who[rows]).tolist():
            own = rows[who[rows] == name]
            counts[name] += tally(found[own], answered(game, found[own], movers[own], states[own]))
        rows = rows[who[rows] == ""]
        history = game.initial_history(before[rows])
        tried = [rng.choice(np.flatnonzero(legal)) for legal in game.legal(before[rows], history)]
        after = game.play(before[rows], np.array(tried, np.int32), history)
        counts[RANDOM] += tally(found[rows], answered(game, found[rows], movers[rows], after))
        before = states[games.lengths[: len(states)] > ply]
    return counts


def tally(found: Players, good: BoolArray) -> Counts:
    return np.stack([np.bincount(some, minlength=len(KINDS)) for some in (found, found[good])], axis=1)


def rows(folder: Path, every: int) -> Iterator[tuple[str, ...]]:
    """One for each `every` generations, then one for each who doesn't learn. Raises MuGoError if there are no games."""
    of_model: dict[int, Counts] = {}
    of_others: dict[str, Counts] = {}
    rng = np.random.default_rng(0)
    for meta in newest_shards(folder):
        for who, counts in count(read_shard(meta.path, meta), rng).items():
            if not who:
                part = meta.generation // every
                of_model[part] = of_model.get(part, 0) + counts
            elif layout.number_of(who) is None:  # older models learned, but less
                of_others[who] = of_others.get(who, 0) + counts
    if not of_model:
        raise MuGoError(f"{folder}: no games; wanted those of self-play, e.g. data/selfplay")
    for part, counts in sorted(of_model.items()):
        first, last = part * every, (part + 1) * every - 1
        yield (str(first) if every == 1 else f"{first}–{last}", *map(share, counts))
    for who, counts in sorted(of_others.items()):
        yield (who, *map(share, counts))


def share(counts: NDArray[np.int64]) -> str:
    positions, good = counts.tolist()
    return f"{good / positions:.1%} of {positions:,}" if positions else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gomoku_threats", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder of self-play's games")
    parser.add_argument("--every", type=int, default=5, help="generations per line")
    options = parser.parse_args(arguments)
    if options.every < 1:
        parser.error(f"--every {options.every}: wanted at least 1")
    with ending(parser):
        print(table(list(rows(options.folder, options.every)), ("generations", *KINDS)))


if __name__ == "__main__":
    main()
