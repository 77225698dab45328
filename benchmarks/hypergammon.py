"""Hypergammon solved, and how far a model's values are from that.

    python -m benchmarks.hypergammon solve --table PATH [--precision 1e-4]
    python -m benchmarks.hypergammon compare MODEL --table PATH [--games 2000]

``solve`` makes a table of the expected points of every position with the dice still to be thrown, both sides playing
perfectly (max over turns, mean over throws), by value iteration: each sweep goes through all positions from the
shortest to the longest and uses what it has just found. It ends when no value changes by more than the precision; run
again it goes on. A sweep takes a minute of one core, and changes two thirds as much as the one before. ``compare``
plays games of the model against itself and says how far its values are from the exact ones in the positions that came
up, and what its moves lose.

A *side* is where one player's three checkers stand in that player's own numbering: 0 is off, 25 the bar. There are
3,276 sides; a position is the side of the player about to throw, then the other's.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.games.backgammon.game import OPENING_PROBABILITIES, THROWS, Backgammon
from pipeline.games.backgammon.kernels import BAR, NUM_POINTS, OFF, TURN
from pipeline.games.base import States
from pipeline.kernels import kernel
from pipeline.methods.registry import method_named
from pipeline.networks.afterstate_kernels import best_of
from pipeline.players.expectimax import Expectimax
from pipeline.progress import SILENT
from pipeline.storage.models import read_model

PLACES = 26
SIDES = np.array([(a, b, c) for a in range(PLACES) for b in range(a, PLACES) for c in range(b, PLACES)], np.int64)
START = (22, 23, 24)


def side_numbers() -> NDArray[np.int16]:
    """[26, 26, 26] the number of the side whose checkers stand at three places, in any order."""
    numbers = np.zeros((PLACES,) * 3, np.int16)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        numbers[tuple(SIDES[:, place] for place in order)] = np.arange(len(SIDES))
    return numbers


@kernel
def step(mine: NDArray[np.int64], theirs: NDArray[np.int64], checker: int, die: int) -> int:
    """Move one of three checkers by a die if the rules allow it; -> 0 if they don't, 1, or 2 + whom it has hit.

    Changes mine and theirs. Doesn't look at what else the dice allow.
    """
    place = mine[checker]
    highest = max(mine[0], max(mine[1], mine[2]))
    if place == 0 or (highest == 25 and place != 25):
        return 0
    target = place - die
    if target <= 0:
        if highest > 6 or (target < 0 and place < highest):
            return 0
        mine[checker] = 0
        return 1
    there, hit = 0, 0
    for other in range(3):
        if theirs[other] == 25 - target:
            there += 1
            hit = other
    if there > 1:
        return 0
    mine[checker] = target
    if there == 1:
        theirs[hit] = 25
        return 2 + hit
    return 1


@kernel
def take_back(mine: NDArray[np.int64], theirs: NDArray[np.int64], checker: int, place: int, done: int) -> None:
    """Undo a step that gave `done`."""
    if done >= 2:
        theirs[done - 2] = 25 - mine[checker]
    mine[checker] = place


@kernel
def worth(
    mine: NDArray[np.int64], theirs: NDArray[np.int64], values: NDArray[np.float32], numbers: NDArray[np.int16]
) -> float:
    """What a position is worth to the player who has just moved into it."""
    if mine[0] + mine[1] + mine[2] == 0:
        if min(theirs[0], min(theirs[1], theirs[2])) == 0:
            return 1.0
        return 3.0 if max(theirs[0], max(theirs[1], theirs[2])) >= 19 else 2.0
    return -values[numbers[theirs[0], theirs[1], theirs[2]], numbers[mine[0], mine[1], mine[2]]]


@kernel
def stands_before(mine: NDArray[np.int64], checker: int) -> bool:
    """Whether an earlier checker stands on the same place: moving this one would be the same move."""
    return (checker > 0 and mine[0] == mine[checker]) or (checker > 1 and mine[1] == mine[checker])


@kernel
def best_turn(
    mine: NDArray[np.int64],
    theirs: NDArray[np.int64],
    high: int,
    low: int,
    values: NDArray[np.float32],
    numbers: NDArray[np.int16],
) -> float:
    """What the best turn with these dice is worth to the player who plays it.

    A double is played from the farthest checker on; see games/backgammon/kernels.py for why that leaves nothing out.
    """
    most, best = 0, worth(mine, theirs, values, numbers)
    doubled, entering = high == low, max(mine[0], max(mine[1], mine[2])) == 25
    for order in range(1 if doubled else 2):
        one, other = (high, low) if order == 0 else (low, high)
        alone = most == 0  # whether this die may be played without the other: the lower one if the higher can't be
        for a in range(3):
            from_a = mine[a]
            if stands_before(mine, a):
                continue
            done_a = step(mine, theirs, a, one)
            if done_a == 0:
                continue
            if alone and most <= 1:
                value = worth(mine, theirs, values, numbers)
                best = value if most == 0 else max(best, value)
                most = 1
            farthest = max(mine[0], max(mine[1], mine[2]))
            known = (
                order == 1 and not entering and farthest > 6
            )  # as in the other order, unless one checker moves twice
            for b in range(3):
                from_b = mine[b]
                if (known and b != a) or (not known and stands_before(mine, b)) or (doubled and from_b > from_a):
                    continue
                done_b = step(mine, theirs, b, other)
                if done_b == 0:
                    continue
                if most <= 2:
                    value = worth(mine, theirs, values, numbers)
                    best = value if most < 2 else max(best, value)
                    most = 2
                if doubled:
                    for c in range(3):
                        from_c = mine[c]
                        if from_c > from_b or stands_before(mine, c):
                            continue
                        done_c = step(mine, theirs, c, high)
                        if done_c == 0:
                            continue
                        if most <= 3:
                            value = worth(mine, theirs, values, numbers)
                            best = value if most < 3 else max(best, value)
                            most = 3
                        for d in range(3):
                            from_d = mine[d]
                            if from_d > from_c or stands_before(mine, d):
                                continue
                            done_d = step(mine, theirs, d, high)
                            if done_d == 0:
                                continue
                            value = worth(mine, theirs, values, numbers)
                            best = value if most < 4 else max(best, value)
                            most = 4
                            take_back(mine, theirs, d, from_d, done_d)
                        take_back(mine, theirs, c, from_c, done_c)
                take_back(mine, theirs, b, from_b, done_b)
            take_back(mine, theirs, a, from_a, done_a)
    return best


@kernel
def sweep(
    order: NDArray[np.int64],
    sides: NDArray[np.int64],
    throws: NDArray[np.int16],
    values: NDArray[np.float32],
    numbers: NDArray[np.int16],
) -> float:
    """Renew values [3276, 3276] of the positions in this order, sides one and other in turn; -> the largest change."""
    largest = 0.0
    for at in range(len(order)):
        i, j = order[at] // len(sides), order[at] % len(sides)
        mine, theirs = sides[i].copy(), sides[j].copy()
        total = 0.0
        for roll in range(len(throws)):
            high, low = throws[roll, 0], throws[roll, 1]
            odds = 1.0 if high == low else 2.0
            total += odds * best_turn(mine, theirs, high, low, values, numbers)
        largest = max(largest, abs(total / 36 - values[i, j]))
        values[i, j] = total / 36
    return largest


def positions_in_order() -> NDArray[np.int64]:
    """All positions where somebody is about to throw, as one * 3276 + other, by pips left.

    Then by the other side: its row of the table is where most turns of these positions lead.
    """
    pips = SIDES.sum(axis=1)
    at = np.zeros((len(SIDES), PLACES), np.bool_)
    at[np.arange(len(SIDES))[:, None], SIDES] = True
    points = at[:, 1:25].astype(np.float32)
    possible = (points @ points[:, ::-1].T == 0) & (pips[:, None] > 0) & (pips > 0)  # nobody shares a point
    found = np.flatnonzero(possible)
    return found[np.lexsort((found % len(SIDES), (pips[:, None] + pips).ravel()[found]))]


def solve(table: Path, precision: float) -> NDArray[np.float32]:
    """[3276, 3276] the exact values; prints each sweep, and writes the table after it. Goes on from what is there."""
    order, numbers = positions_in_order(), side_numbers()
    values = np.load(table, allow_pickle=False) if table.exists() else np.zeros((len(SIDES),) * 2, np.float32)
    print(f"{len(order):,} positions", flush=True)
    change, number, started = np.inf, 0, time.process_time()
    while change > precision:
        before = values.copy()
        change, number = sweep(order, SIDES, THROWS, values, numbers), number + 1
        mean = float(np.abs(values - before).sum() / len(order))
        np.save(table, values)
        seconds = time.process_time() - started
        print(f"sweep {number}: change {change:.5f}, {mean:.6f} on average, {seconds:.0f} s of a core", flush=True)
    return values


def sides_of(states: States) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[B] the numbers of the sides of the player about to throw in states [B, S], and of the other."""
    found, numbers = [], side_numbers()
    for seat in range(2):
        player = np.where(seat == 0, states[:, TURN], 1 - states[:, TURN])[:, None]
        points = np.where(player == 0, states[:, :NUM_POINTS], -states[:, NUM_POINTS - 1 :: -1]).clip(0)
        off, bar = (np.where(player == 0, states[:, [at]], states[:, [at + 1]]) for at in (OFF, BAR))
        counts = np.concatenate([off, points, bar], axis=1)
        places = np.repeat(np.tile(np.arange(PLACES), (len(states), 1)).ravel(), counts.ravel()).reshape(-1, 3)
        found.append(numbers[tuple(places.T)])
    return found[0], found[1]


def exact(states: States, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[B] what states [B, S] are worth to the player about to throw; not where the game is over."""
    one, other = sides_of(states)
    return values[one, other]


def opening_value(values: NDArray[np.float32]) -> float:
    """The first player's, whose throw is no double."""
    side, numbers = np.array(START), side_numbers()
    turns = [best_turn(side.copy(), side.copy(), int(high), int(low), values, numbers) for high, low in THROWS]
    return float(np.dot(OPENING_PROBABILITIES, turns))


def compare(model: Path, values: NDArray[np.float32], num_games: int, seed: int) -> None:
    """Print how far a model's values are from the exact ones, at 0 plies and at 1, and what its moves lose."""
    read = read_model(model)
    network = method_named(read.info.method).load(read, num_games, 1, "auto", SILENT)[0]
    game: Backgammon = network.game
    rng, states = np.random.default_rng(seed), game.initial(num_games)
    search = Expectimax(network)
    errors, ahead, losses = [], [], []
    while len(states := states[~game.is_over(states)]):
        odds = game.chance(states).astype(np.float64)
        truth = exact(states, values)
        going = states[:, -1] > 0  # the first throw is no double: the table isn't about it
        errors.append(network.values(network.chances_at(states[going])) - truth[going])
        ahead.append(network.values(search.expected(states[going][:64], 1)) - truth[going][:64])
        outcomes = (odds.cumsum(axis=1) <= rng.random((len(states), 1)) * odds.sum(axis=1, keepdims=True)).sum(axis=1)
        found = game.successors(game.happen(states, outcomes.astype(np.int32)))
        chosen = best_of(found.offsets, -network.values(network.chances(states, found)))
        over = game.is_over(found.states)
        worths = np.empty(len(found.states), np.float32)
        worths[over] = np.abs(game.returns(found.states[over]))
        worths[~over] = -exact(found.states[~over], values)
        losses.append(np.maximum.reduceat(worths, found.offsets[:-1]) - worths[chosen])
        states = found.states[chosen]
    for name, found in (("0 plies", np.concatenate(errors)), ("1 ply", np.concatenate(ahead))):
        print(
            f"{name}: mean |error| {np.abs(found).mean():.4f}, root mean square {np.sqrt((found**2).mean()):.4f}, mean "
            f"{found.mean():+.4f} points in {len(found):,} positions of {num_games:,} games"
        )
    lost = np.concatenate(losses)
    print(f"a move loses {lost.mean():.5f} points, a game {lost.sum() / num_games:.4f} (both sides together)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    solving, comparing = commands.add_parser("solve"), commands.add_parser("compare")
    for one in (solving, comparing):
        one.add_argument("--table", type=Path, required=True, help="The .npy file of the exact values.")
    solving.add_argument("--precision", type=float, default=1e-4, help="End when no value changes by more.")
    comparing.add_argument("model", type=Path)
    comparing.add_argument("--games", type=int, default=2000)
    comparing.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.command == "solve":
        values = solve(options.table, options.precision)
        print(f"the first player wins {opening_value(values):+.4f} points a game")
    else:
        compare(options.model, np.load(options.table, allow_pickle=False), options.games, options.seed)


if __name__ == "__main__":
    main()
