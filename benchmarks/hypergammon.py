"""How far are a hypergammon model's values from the exact ones?

    python -m benchmarks.hypergammon solve --table PATH [--precision 1e-4]
    python -m benchmarks.hypergammon compare MODEL --table PATH [--games 2000] [--positions 200000]

``solve`` writes a table of the exact expected points of every position before the throw, with perfect play by both
sides, and prints one line per sweep. It uses modified policy iteration (Puterman and Shin 1978): a sweep goes through
all positions from the shortest to the longest, finds the best turns and uses new values at once; then values follow
these turns, at a fraction of the cost, until they change little. It stops when a sweep changes no value by more than
the precision; a rerun continues from the table. A sweep takes some 80 seconds of a core and 0.7 GB; all of it some ten
minutes.

``compare`` takes seconds. It plays games of the model against itself and prints the errors of its values, in positions
of these games and in positions drawn uniformly from all, and how many points its moves lose.

A *side* is the points of one player's three checkers in that player's own numbering: 0 is off, 25 the bar. There are
3,276 sides; a position is the side of the player about to throw and the side of the other.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.backgammon import model_of
from benchmarks.strength import ending
from pipeline.compiled_kernels import kernel
from pipeline.errors import FileError
from pipeline.families.backgammon.game import OPENING_PROBABILITIES, THROWS, Backgammon
from pipeline.families.backgammon.kernels import BAR, NUM_POINTS, OFF, PLY, STATE_SIZE, TURN
from pipeline.families.backgammon.td.expectimax import Expectimax
from pipeline.families.backgammon.td.kernels import best_of
from pipeline.games.contract import States
from pipeline.methods.named import method_named
from pipeline.progress import SILENT
from pipeline.run.atomic import make_folder, read_bytes, write_bytes

PLACES = 26
SIDES = np.array([(a, b, c) for a in range(PLACES) for b in range(a, PLACES) for c in range(b, PLACES)], np.int64)
NUM_SIDES = len(SIDES)
START = (22, 23, 24)
FOLLOWED = 0.1  # turns are followed until values change by less than this share of the sweep's change


def side_numbers() -> NDArray[np.int16]:
    """[26, 26, 26] the number of the side with checkers at these three places, in any order."""
    numbers = np.zeros((PLACES,) * 3, np.int16)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        numbers[tuple(SIDES[:, place] for place in order)] = np.arange(len(SIDES))
    return numbers


@kernel
def step(mine: NDArray[np.int64], theirs: NDArray[np.int64], checker: int, die: int) -> int:
    """Move one checker by a die. Returns 0 if that is illegal, 1, or 2 + the index of the checker that it hit.

    Changes mine and theirs. Doesn't check the rule that both dice must be played if possible.
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
    """Undo a step that returned `done`."""
    if done >= 2:
        theirs[done - 2] = 25 - mine[checker]
    mine[checker] = place


@kernel
def place_of(mine: NDArray[np.int64], theirs: NDArray[np.int64], numbers: NDArray[np.int16]) -> int:
    """The position after a turn: an index into the flat values, or -1, -2, -3 if it won that many points."""
    if mine[0] + mine[1] + mine[2] == 0:
        if min(theirs[0], min(theirs[1], theirs[2])) == 0:
            return -1
        return -3 if max(theirs[0], max(theirs[1], theirs[2])) >= 19 else -2
    one, other = numbers[theirs[0], theirs[1], theirs[2]], numbers[mine[0], mine[1], mine[2]]
    return np.int64(one) * NUM_SIDES + other


@kernel
def worth(place: int, values: NDArray[np.float32]) -> float:
    """The value of a place for the player whose turn led there. values: flat."""
    return -values[place] if place >= 0 else np.float32(-place)


@kernel
def stands_before(mine: NDArray[np.int64], checker: int) -> bool:
    """Whether an earlier checker stands on the same point, so that moving this one is the same move."""
    return (checker > 0 and mine[0] == mine[checker]) or (checker > 1 and mine[1] == mine[checker])


@kernel
def better_turn(
    dice: int,
    found: tuple[int, float, int],
    mine: NDArray[np.int64],
    theirs: NDArray[np.int64],
    values: NDArray[np.float32],
    numbers: NDArray[np.int16],
) -> tuple[int, float, int]:
    """The better turn of `found`, the best so far, and the one that led here: more dice first, then the higher value.

    found: (number of dice, value, place).
    """
    most, best, _place = found
    if dice < most:
        return found
    there = place_of(mine, theirs, numbers)
    value = worth(there, values)
    return (dice, value, there) if dice > most or value > best else found


@kernel
def best_turn(
    mine: NDArray[np.int64],
    theirs: NDArray[np.int64],
    high: int,
    low: int,
    values: NDArray[np.float32],
    numbers: NDArray[np.int16],
) -> int:
    """The place, as in place_of, to which the best turn with these dice leads. values: flat.

    Doubles are played from the farthest checker on; families/backgammon/kernels.py explains why that misses no turn.
    """
    place = place_of(mine, theirs, numbers)
    found = 0, worth(place, values), place
    doubled, entering = high == low, max(mine[0], max(mine[1], mine[2])) == 25
    for order in range(1 if doubled else 2):
        one, other = (high, low) if order == 0 else (low, high)
        alone = found[0] == 0  # whether this die may be played alone: the lower one only if the higher one can't be
        for a in range(3):
            from_a = mine[a]
            if stands_before(mine, a):
                continue
            done_a = step(mine, theirs, a, one)
            if done_a == 0:
                continue
            if alone:
                found = better_turn(1, found, mine, theirs, values, numbers)
            farthest = max(mine[0], max(mine[1], mine[2]))
            # Then the other order has found the same turns, unless one checker moves twice.
            known = order == 1 and not entering and farthest > 6
            for b in range(3):
                from_b = mine[b]
                if (known and b != a) or (not known and stands_before(mine, b)) or (doubled and from_b > from_a):
                    continue
                done_b = step(mine, theirs, b, other)
                if done_b == 0:
                    continue
                found = better_turn(2, found, mine, theirs, values, numbers)
                if doubled:
                    for c in range(3):
                        from_c = mine[c]
                        if from_c > from_b or stands_before(mine, c):
                            continue
                        done_c = step(mine, theirs, c, high)
                        if done_c == 0:
                            continue
                        found = better_turn(3, found, mine, theirs, values, numbers)
                        for d in range(3):
                            from_d = mine[d]
                            if from_d > from_c or stands_before(mine, d):
                                continue
                            done_d = step(mine, theirs, d, high)
                            if done_d == 0:
                                continue
                            found = better_turn(4, found, mine, theirs, values, numbers)
                            take_back(mine, theirs, d, from_d, done_d)
                        take_back(mine, theirs, c, from_c, done_c)
                take_back(mine, theirs, b, from_b, done_b)
            take_back(mine, theirs, a, from_a, done_a)
    return found[2]


@kernel
def sweep(
    order: NDArray[np.int64],
    sides: NDArray[np.int64],
    throws: NDArray[np.int16],
    values: NDArray[np.float32],
    numbers: NDArray[np.int16],
    turns: NDArray[np.int32],
) -> float:
    """Update the values [3276 * 3276] of the positions in this order by their best turns; returns the largest change.

    Fills turns [len(order), 21] with the places to which the best turns lead.
    """
    largest = 0.0
    for at in range(len(order)):
        i, j = order[at] // len(sides), order[at] % len(sides)
        mine, theirs = sides[i].copy(), sides[j].copy()
        for roll in range(len(throws)):
            turns[at, roll] = best_turn(mine, theirs, throws[roll, 0], throws[roll, 1], values, numbers)
        largest = max(largest, renew(order[at], throws, values, turns[at]))
    return largest


@kernel
def follow(
    order: NDArray[np.int64], throws: NDArray[np.int16], values: NDArray[np.float32], turns: NDArray[np.int32]
) -> float:
    """Update the values of the positions in this order by these turns, without looking for better ones."""
    largest = 0.0
    for at in range(len(order)):
        largest = max(largest, renew(order[at], throws, values, turns[at]))
    return largest


@kernel
def renew(position: int, throws: NDArray[np.int16], values: NDArray[np.float32], turns: NDArray[np.int32]) -> float:
    """Set a position's value to the mean over throws of its turns [21]; returns the change."""
    total = 0.0
    for roll in range(len(throws)):
        total += (1.0 if throws[roll, 0] == throws[roll, 1] else 2.0) * worth(turns[roll], values)
    change = abs(total / 36 - values[position])
    values[position] = total / 36
    return change


def positions_in_order() -> NDArray[np.int64]:
    """All positions in which a player is about to throw, as one * 3276 + other, sorted by pips left.

    Then by the other side, whose row of the table most turns of these positions lead to.
    """
    pips = SIDES.sum(axis=1)
    at = np.zeros((len(SIDES), PLACES), np.bool_)
    at[np.arange(len(SIDES))[:, None], SIDES] = True
    points = at[:, 1:25].astype(np.float32)
    possible = (points @ points[:, ::-1].T == 0) & (pips[:, None] > 0) & (pips > 0)  # no point has checkers of both
    found = np.flatnonzero(possible)
    return found[np.lexsort((found % len(SIDES), (pips[:, None] + pips).ravel()[found]))]


def improve(order: NDArray[np.int64], values: NDArray[np.float32], precision: float) -> Iterator[tuple[float, int]]:
    """Sweep until no value changes by more than the precision. Changes values [3276 * 3276] in place.

    Yields, after each sweep, the largest change and the number of rounds that followed its turns.
    """
    numbers, turns = side_numbers(), np.empty((len(order), len(THROWS)), np.int32)
    change = np.inf
    while change > precision:
        change, rounds = sweep(order, SIDES, THROWS, values, numbers, turns), 0
        if change > precision:
            rounds = 1
            while follow(order, THROWS, values, turns) > max(change, precision) * FOLLOWED:
                rounds += 1
        yield change, rounds


def solve(table: Path, precision: float) -> NDArray[np.float32]:
    """[3276, 3276] the exact values. Prints each sweep and then writes the table; continues an existing table."""
    order = positions_in_order()
    make_folder(table.parent)
    values = read_table(table) if table.exists() else np.zeros((NUM_SIDES, NUM_SIDES), np.float32)
    print(f"{len(order):,} positions", flush=True)
    started = time.process_time()
    for number, (change, rounds) in enumerate(improve(order, values.reshape(-1), precision), 1):
        packed = io.BytesIO()
        np.save(packed, values)
        write_bytes(table, packed.getbuffer())
        seconds = time.process_time() - started
        print(f"sweep {number}: change {change:.5f}, followed {rounds} times, {seconds:.0f} s of a core", flush=True)
    return values


def read_table(table: Path) -> NDArray[np.float32]:
    """[3276, 3276] the table that solve() wrote. Raises FileError."""
    try:
        values: NDArray[np.float32] = np.load(io.BytesIO(read_bytes(table, "a table of solve")), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FileError(table, f"not a table of solve: {error}") from error
    if values.shape != (NUM_SIDES, NUM_SIDES):
        raise FileError(
            table, f"values of shape {values.shape}; wanted {NUM_SIDES} × {NUM_SIDES}, as solve writes them"
        )
    return values


def sides_of(states: States) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """([B] the numbers of the sides of the player about to throw in states [B, S], [B] those of the other)."""
    found, numbers = [], side_numbers()
    for seat in range(2):
        player = np.where(seat == 0, states[:, TURN], 1 - states[:, TURN])[:, None]
        points = np.where(player == 0, states[:, :NUM_POINTS], -states[:, NUM_POINTS - 1 :: -1]).clip(0)
        off, bar = (np.where(player == 0, states[:, [at]], states[:, [at + 1]]) for at in (OFF, BAR))
        counts = np.concatenate([off, points, bar], axis=1)
        places = np.repeat(np.tile(np.arange(PLACES), (len(states), 1)).ravel(), counts.ravel()).reshape(-1, 3)
        found.append(numbers[tuple(places.T)])
    return found[0], found[1]


def states_of(one: NDArray[np.integer], other: NDArray[np.integer]) -> States:
    """[B, S] positions with the first player about to throw, from the numbers of both sides [B]."""
    states, rows = np.zeros((len(one), STATE_SIZE), np.int16), np.arange(len(one))
    for player, sides in enumerate((SIDES[one], SIDES[other])):
        for place in sides.T:
            word = place - 1 if player == 0 else NUM_POINTS - place
            word = np.where(place == 0, OFF + player, np.where(place == PLACES - 1, BAR + player, word))
            states[rows, word] += np.where((place % (PLACES - 1) == 0) | (player == 0), 1, -1).astype(np.int16)
    states[:, PLY] = 2  # the opening is over
    return states


def exact(states: States, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[B] the exact values of states [B, S], which aren't over, for the player about to throw."""
    one, other = sides_of(states)
    return values[one, other]


def opening_value(values: NDArray[np.float32]) -> float:
    """The first player's value of the whole game; the first throw is no double."""
    side, numbers = np.array(START), side_numbers()
    flat = values.reshape(-1)
    turns = [best_turn(side.copy(), side.copy(), int(high), int(low), flat, numbers) for high, low in THROWS]
    return float(np.dot(OPENING_PROBABILITIES, [worth(turn, flat) for turn in turns]))


def compare(model: Path, values: NDArray[np.float32], num_games: int, num_positions: int, seed: int) -> None:
    """Print the errors of a model's values, and how many points its moves lose.

    Positions of games count as often as they occur: all of them at 0 plies, a part of them at 1 ply. A sample of
    num_positions from all positions is measured at 0 plies.
    """
    read = model_of(model, "hypergammon")
    network = method_named(read.info.method).load(read, num_games, 1, "auto", SILENT)[0]
    game: Backgammon = network.game
    rng, states = np.random.default_rng(seed), game.initial(num_games)
    search = Expectimax(network)
    errors, ahead, losses = [], [], []
    while len(states := states[~game.is_over(states)]):
        odds = game.chance(states).astype(np.float64)
        truth = exact(states, values)
        going = states[:, -1] > 0  # the table doesn't hold the first throw, which is no double
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
    order = positions_in_order()
    one, other = np.divmod(rng.choice(order, num_positions), NUM_SIDES)
    drawn = network.values(network.chances_at(states_of(one, other))) - values[one, other]
    of_games = f"positions of {num_games:,} games"
    for plies, among, found in (
        ("0 plies", of_games, np.concatenate(errors)),
        ("1 ply", of_games, np.concatenate(ahead)),
        ("0 plies", f"drawn uniformly from {len(order):,} positions", drawn),
    ):
        print(
            f"{plies}: mean |error| {np.abs(found).mean():.4f}, root mean square {np.sqrt((found**2).mean()):.4f}, "
            f"mean {found.mean():+.4f} points in {len(found):,} {among}"
        )
    lost = np.concatenate(losses)
    print(f"a move loses {lost.mean():.5f} points, a game {lost.sum() / num_games:.4f} (both sides together)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    solving = commands.add_parser("solve", help="compute the exact values")
    comparing = commands.add_parser("compare", help="compare a model with them")
    for one in (solving, comparing):
        one.add_argument("--table", type=Path, required=True, help="the .npy file of exact values")
    solving.add_argument("--precision", type=float, default=1e-4, help="stop when no value changes by more")
    comparing.add_argument("model", type=Path)
    comparing.add_argument("--games", type=int, default=2000)
    comparing.add_argument("--positions", type=int, default=200_000, help="drawn uniformly from all positions")
    comparing.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with ending(parser):
        if options.command == "solve":
            values = solve(options.table, options.precision)
            print(f"the first player wins {opening_value(values):+.4f} points a game")
        else:
            values = read_table(options.table)
            compare(options.model, values, options.games, options.positions, options.seed)


if __name__ == "__main__":
    main()
