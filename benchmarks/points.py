"""How often matches by points promote a challenger of known strength: the condition of matches/points.py, simulated.

    python -m benchmarks.points [--matches 20000]

Whole pairs of backgammon games: whoever moves first wins 53 % between equals, 27 % of the wins are gammons or better,
1 % backgammons, and the two games of a pair are independent. A stronger challenger turns some of its lost games into
won ones. A line per number of pairs, a column per points per game that it is truly worth: the share of matches that
promote it. At most: what is promised of an equal challenger, whatever games count.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from pipeline.matches.points import PairPoints, false_promotion_at_most, passes

FIRST_WINS, GAMMONS, BACKGAMMONS = 0.53, 0.27, 0.01
PAIRS = (8, 20, 50, 100, 200, 500)
WORTH = (0.0, 0.05, 0.1, 0.2, 0.4)  # points per game


def simulate(rng: np.random.Generator, matches: int, pairs: int, worth: float) -> NDArray[np.float64]:
    """[matches, pairs] the challenger's points per game."""
    size = (matches, pairs, 2)
    gammon = rng.random(size) < GAMMONS
    count = 1.0 + gammon + (gammon & (rng.random(size) < BACKGAMMONS / GAMMONS))
    more = worth / (2 * (1 + GAMMONS + BACKGAMMONS))  # of games won, for so many points
    chances = np.array([FIRST_WINS, 1 - FIRST_WINS]) + more  # moving first, moving second
    return np.where(rng.random(size) < chances, count, -count).mean(axis=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=20_000, help="simulated per number")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("pairs  deviation  at most  " + "".join(f"{worth:+9.2f}" for worth in WORTH))
    for pairs in PAIRS:
        shares, deviation = [], 0.0
        for worth in WORTH:
            found = simulate(rng, options.matches, pairs, worth)
            shares.append(np.mean([passes(PairPoints.of(row)) for row in found.tolist()]))
            deviation = deviation or float(found.std(axis=1, ddof=1).mean())
        bound = false_promotion_at_most(pairs)
        print(f"{pairs:5d}  {deviation:9.2f}  {bound:7.1%}  " + "".join(f"{share:9.1%}" for share in shares))


if __name__ == "__main__":
    main()
