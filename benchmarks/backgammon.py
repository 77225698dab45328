"""How strong is a backgammon model, in points per game against pubeval, GNU Backgammon or another model?

    python -m benchmarks.backgammon MODEL [--opponent pubeval|gnubg|gnubg:PLIES|MODEL] [--plies 0|1|2] [--games 20000]

Plays cubeless games in pairs with the same dice (duplicate dice): in the second game of a pair the players swap sides.
Gammons count 2, backgammons 3; plies are counted as gnubg does. Prints the mean points per game with a 95 % interval
over pairs, and the shares of wins and gammons. 20,000 games at 0 plies take half a minute.

pubeval (Tesauro's public evaluation) and gnubg (GNU Backgammon's networks) need the package gnubg-nn: docs/strength.md
says how to install it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.strength import ending
from pipeline.errors import UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, NUM_POINTS, TURN
from pipeline.families.backgammon.notation import diagram, view
from pipeline.families.backgammon.td.expectimax import ExpectimaxPlayer
from pipeline.families.backgammon.td.kernels import best_of
from pipeline.games.chance import outcomes
from pipeline.games.contract import States, Successors
from pipeline.games.specs import parse_game
from pipeline.methods.named import method_named
from pipeline.progress import SILENT
from pipeline.run.models import Model, read_model
from pipeline.search.options import SearchOptions

Choose = Callable[[States, Successors], NDArray[np.int64]]
"""(states [n, S] with dice, their successors) → [n] which successor of each row is played."""

PARALLEL = 512  # games played at once


@dataclass(frozen=True)
class Points:
    """One player's results. mean: points per game; error: half the 95 % interval; the others: shares of all games."""

    games: int
    mean: float
    error: float
    wins: float
    gammons_won: float
    gammons_lost: float

    def __str__(self) -> str:
        return (
            f"{self.mean:+.4f} ± {self.error:.4f} points per game in {self.games:,} games: {self.wins:.1%} won; "
            f"gammons {self.gammons_won:.1%} won, {self.gammons_lost:.1%} lost"
        )


def summary(results: NDArray[np.floating]) -> Points:
    """results [P, 2]: a player's points in both games of each pair."""
    pairs = results.mean(axis=1)
    error = 1.96 * pairs.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.inf
    shares = [float((one).mean()) for one in (results > 0, results >= 2, results <= -2)]
    return Points(results.size, float(pairs.mean()), float(error), *shares)


def play(game: Backgammon, one: Choose, other: Choose, num_pairs: int, seed: int) -> NDArray[np.float32]:
    """[num_pairs, 2] the points of `one` in both games of each pair; it moves first in the first game."""
    results = np.zeros((num_pairs, 2), np.float32)
    keys = np.random.default_rng(seed).integers(0, 2**64, num_pairs, np.uint64)
    for start in range(0, num_pairs, PARALLEL // 2):
        pairs = np.arange(start, min(start + PARALLEL // 2, num_pairs))
        pair, seat = np.repeat(pairs, 2), np.tile([0, 1], len(pairs))
        states = game.initial(len(pair))
        while (going := np.flatnonzero(~game.is_over(states))).size:
            thrown = game.happen(states[going], outcomes(game, states[going], keys[pair[going]]))
            found = game.successors(thrown)
            chosen = np.empty(len(going), np.int64)
            mine = thrown[:, TURN] == seat[going]
            for rows, choose in ((np.flatnonzero(mine), one), (np.flatnonzero(~mine), other)):
                if rows.size:
                    chosen[rows] = choose(thrown[rows], part_of(found, rows))
            states[going] = found.states[found.offsets[:-1] + chosen]
        results[pair, seat] = game.returns(states) * (1 - 2 * seat)
    return results


def part_of(found: Successors, rows: NDArray[np.int64]) -> Successors:
    counts = np.diff(found.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    at = np.arange(offsets[-1]) + np.repeat(found.offsets[rows] - offsets[:-1], counts)
    return Successors(offsets, found.states[at])


def model_of(path: Path, game: str) -> Model:
    """A model of this game (a name without options). Raises UsageError for another game, FileError for no model."""
    model = read_model(path)
    if model.info.game.partition(",")[0] != game:
        raise UsageError(f"{path}: it plays {model.info.game}; wanted a model of {game}")
    return model


def model_chooses(path: Path, plies: int) -> Choose:
    model = model_of(path, "backgammon")
    network = method_named(model.info.method).load(model, PARALLEL, 1, "auto", SILENT)[0]
    player = ExpectimaxPlayer(network.game, 1, network, SearchOptions(), plies)

    def choose(states: States, found: Successors) -> NDArray[np.int64]:
        again, scores, _ = player.scores(states)
        return best_of(again.offsets, scores) - again.offsets[:-1]

    return choose


def engine_chooses(name: str) -> Choose:
    """name: pubeval, gnubg or gnubg:PLIES. Raises UsageError for another name, or if gnubg-nn isn't installed."""
    kind, colon, plies = name.partition(":")
    if colon and not (kind == "gnubg" and plies in ("0", "1", "2")):
        raise UsageError(f"{name}: wanted pubeval, gnubg, or gnubg:PLIES with 0 to 2 plies")
    try:
        import gnubg_nn
    except ModuleNotFoundError as error:
        wanted = "python -m pip install -c constraints.txt gnubg-nn"
        raise UsageError(f"{name} needs the package gnubg-nn; {wanted}") from error

    def turn(board: list[list[int]], high: int, low: int) -> list[tuple[int, int]]:
        if kind == "pubeval":  # source and target in turn, counted from 0
            flat = gnubg_nn.pub_best_move(board, high, low)
            return [(source + 1, target + 1) for source, target in zip(flat[::2], flat[1::2], strict=True)]
        return list(gnubg_nn.best_move(board, high, low, int(plies or 0)))

    def choose(states: States, found: Successors) -> NDArray[np.int64]:
        chosen = np.empty(len(states), np.int64)
        for row, state in enumerate(states):
            board = view(state, int(state[TURN]))
            mine, theirs = [max(count, 0) for count in board], [max(-count, 0) for count in board]
            other = view(state, 1 - int(state[TURN]))
            theirs_own = [max(count, 0) for count in other[1:]]
            steps = turn([theirs_own, mine[1:]], int(state[HIGH_DIE]), int(state[LOW_DIE]))
            for source, target in steps:
                target = max(target, 0)
                mine[source] -= 1
                mine[target] += 1
                if target:
                    theirs[target] = 0
            after = found.states[found.offsets[row] : found.offsets[row + 1]]
            points = after[:, :NUM_POINTS] if state[TURN] == 0 else -after[:, NUM_POINTS - 1 :: -1]
            wanted = np.array(mine[1 : NUM_POINTS + 1]) - np.array(theirs[1 : NUM_POINTS + 1])
            same = np.flatnonzero((points == wanted).all(axis=1))
            if len(same) != 1:
                raise RuntimeError(f"{name} plays {steps}, which is not a legal turn here:\n{diagram(state)}")
            chosen[row] = same[0]
        return chosen

    return choose


def chooser(name: str, plies: int) -> Choose:
    return engine_chooses(name) if name.partition(":")[0] in ("pubeval", "gnubg") else model_chooses(Path(name), plies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model's folder, pubeval or gnubg:PLIES")
    parser.add_argument("--opponent", default="pubeval", help="the same")
    parser.add_argument("--plies", type=int, choices=(0, 1, 2), default=0, help="lookahead of the model")
    parser.add_argument("--opponent-plies", type=int, choices=(0, 1, 2), default=0, help="of an opposing model")
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    game = parse_game("backgammon")
    assert isinstance(game, Backgammon)
    with ending(parser):
        one, other = chooser(options.model, options.plies), chooser(options.opponent, options.opponent_plies)
        started = time.process_time()
        points = summary(play(game, one, other, options.games // 2, options.seed))
    seconds = time.process_time() - started
    print(f"{options.model} at {options.plies} plies against {options.opponent}: {points} ({seconds:.0f} s of a core)")


if __name__ == "__main__":
    main()
