"""How often is a promotion wrong? Simulates promotion matches between players of known strength.

    python -m benchmarks.promotion [--games 400] [--sprt 0,35,0.05,0.05] [--matches 10000]
    python -m benchmarks.promotion --points [--matches 20000]

Prints one line per Elo difference, share of draws and first player's share of the points: how often the gate and the
sequential test promote the challenger, and how many games each needs on average if games end in the order of their
numbers. Stopping a match early doesn't change the gate's decision. Takes minutes.

With --points it simulates the points condition of evaluate/threshold.py for games that count more than 1, in pairs of
independent backgammon games: the player that moves first wins 53 % between equals; 27 % of the wins are gammons or
backgammons, 1 % backgammons. Prints one line per number of pairs and one column per points per game that the
challenger is worth: the share of matches that promote it. "at most" is the bound for an equal challenger, whatever
games count.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.evaluate.sprt import Sprt
from pipeline.evaluate.threshold import false_promotion, gate_half_points, points_false_promotion, points_pass
from pipeline.matches.statistics import PairPoints, elo_of_share, share_of_elo

ELO_DIFFERENCES = (-35, 0, 20, 35, 70, 150)
CONDITIONS = ((0.0, 0.5), (0.4, 0.5), (0.0, 0.65), (0.4, 0.65))  # share of draws, first player's share of the points
FIRST_WINS, GAMMONS, BACKGAMMONS = 0.53, 0.27, 0.01
PAIRS = (8, 20, 50, 100, 200, 500)
WORTH = (0.0, 0.05, 0.1, 0.2, 0.4)  # points per game

# M matches, P pairs; the challenger moves first in game 0 of a pair.
Games = NDArray[np.int8]  # [M, P, 2] half points of the challenger
Decisions = tuple[NDArray[np.bool_], NDArray[np.int64]]  # promoted [M], games played [M]


def play(
    rng: np.random.Generator, matches: int, pairs: int, elo: float, draw_share: float = 0.0, first_share: float = 0.5
) -> Games:
    """Matches of a challenger that is `elo` stronger; first_share: of the points, for the first player between equals.

    Both advantages add up in Elo, so a difference in strength is worth fewer points where openings favour a colour.
    Fewer games are drawn where one side's share of the points leaves no room for draw_share.
    """
    results = np.empty((matches, pairs, 2), np.int8)
    for game, advantage in enumerate((elo_of_share(first_share), -elo_of_share(first_share))):
        share = share_of_elo(elo + advantage)
        drawn = min(draw_share, 2 * share, 2 * (1 - share))
        chances = rng.random((matches, pairs))
        won = share - drawn / 2
        results[:, :, game] = np.where(chances < won, 2, np.where(chances < won + drawn, 1, 0))
    return results


def by_gate(results: Games) -> Decisions:
    """The derived gate's decision on all games, and the game after which it can no longer change."""
    games = results.reshape(len(results), -1)
    points, draws = games.cumsum(1, dtype=np.int64), (games == 1).cumsum(1, dtype=np.int64)
    num_games = games.shape[1]
    gates = np.array([gate_half_points(num_games, None, drawn) for drawn in range(num_games + 1)])[draws]
    still_to_win = 2 * (num_games - np.arange(1, num_games + 1))
    decided = (points >= gates) | (points + still_to_win < gates)
    return points[:, -1] >= gates[:, -1], decided.argmax(1) + 1


def by_sprt(results: Games, sprt: Sprt) -> Decisions:
    """The decisions of Sprt.run() for all matches at once."""
    matches, pairs, _ = results.shape
    scores = results.sum(2, dtype=np.int64)
    counts = np.zeros((matches, 5), np.int64)
    promoted, games = np.zeros(matches, bool), np.zeros(matches, np.int64)
    going = np.arange(matches)
    place_values = (pairs + 1) ** np.arange(5)
    for pair in range(pairs):
        counts[going, scores[going, pair]] += 1
        # Many matches have the same counts: compute each only once.
        _, row, which = np.unique(counts[going] @ place_values, return_index=True, return_inverse=True)
        decisions = sprt.decisions(counts[going[row]], pairs - pair - 1)[which]
        promoted[going] = decisions > 0
        games[going] = 2 * (pair + 1)
        going = going[decisions == 0]
    return promoted, games


def simulated_points(rng: np.random.Generator, matches: int, pairs: int, worth: float) -> NDArray[np.float64]:
    """[matches, pairs] the challenger's points per game. It wins more games, for `worth` more points per game."""
    size = (matches, pairs, 2)
    gammon = rng.random(size) < GAMMONS
    count = 1.0 + gammon + (gammon & (rng.random(size) < BACKGAMMONS / GAMMONS))
    more = worth / (2 * (1 + GAMMONS + BACKGAMMONS))
    chances = np.array([FIRST_WINS, 1 - FIRST_WINS]) + more  # moving first, moving second
    return np.where(rng.random(size) < chances, count, -count).mean(axis=2)


def report_points(matches: int, rng: np.random.Generator) -> None:
    print("pairs  deviation  at most  " + "".join(f"{worth:+9.2f}" for worth in WORTH))
    for pairs in PAIRS:
        shares, deviation = [], 0.0
        for worth in WORTH:
            found = simulated_points(rng, matches, pairs, worth)
            shares.append(np.mean([points_pass(PairPoints.of(row)) for row in found.tolist()]))
            deviation = deviation or float(found.std(axis=1, ddof=1).mean())
        bound = points_false_promotion(pairs)
        print(f"{pairs:5d}  {deviation:9.2f}  {bound:7.1%}  " + "".join(f"{share:9.1%}" for share in shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=400, help="the most games of a match; an even number")
    parser.add_argument("--sprt", default="0,35,0.05,0.05", help="elo0,elo1,alpha,beta")
    parser.add_argument("--matches", type=int, default=10_000, help="simulated matches per line")
    parser.add_argument("--points", action="store_true", help="simulate matches by points of backgammon")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    if options.points:
        report_points(options.matches, rng)
        return
    if options.games % 2:
        parser.error(f"--games {options.games}: wanted an even number")
    try:
        sprt = Sprt.parse(options.sprt)
        sprt.check_games(options.games)
    except UsageError as error:
        parser.error(str(error))
    gate = gate_half_points(options.games)
    print(
        f"{options.matches:,} matches of {options.games} games per line; gate: {gate / 2:g} points without draws, "
        f"which an equal model reaches in at most {false_promotion(options.games):.2%} of the matches; "
        f"--sprt {options.sprt}"
    )
    print(f"{'':>17} {'first':>7} |{'promoted':^17}|{'games on average':^19}")
    print(f"{'Elo':>6} {'draws %':>10} {'player%':>7} |{'gate':>8}{'SPRT':>8} |{'all':>6}{'gate':>7}{'SPRT':>6}")
    for draw_share, first_share in CONDITIONS:
        for elo in ELO_DIFFERENCES:
            results = play(rng, options.matches, options.games // 2, elo, draw_share, first_share)
            gate_promoted, gate_games = by_gate(results)
            sprt_promoted, sprt_games = by_sprt(results, sprt)
            print(
                f"{elo:>+6} {(results == 1).mean():>10.0%} {first_share:>7.0%} |{gate_promoted.mean():>8.2%}"
                f"{sprt_promoted.mean():>8.2%} |{options.games:>6}{gate_games.mean():>7.0f}{sprt_games.mean():>6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
