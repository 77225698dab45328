"""How often promotion matches of known strengths promote, and how many games they take: simulated.

    python -m benchmarks.promotion [--games 400] [--sprt 0,35,0.05,0.05] [--matches 10000]

A line per Elo difference, share of draws, and share that whoever moves first gets of an opening. Promoted: by the gate
(cut short or not, its decision is the same) and by the sequential test. Games: on average, until the gate is decided,
and until the test is, if games end in the order of their numbers.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.evaluate.sprt import Sprt
from pipeline.matches.statistics import elo_of_share, false_promotion, gate_half_points, share_of_elo

ELO_DIFFERENCES = (-35, 0, 20, 35, 70, 150)
CONDITIONS = ((0.0, 0.5), (0.4, 0.5), (0.0, 0.65), (0.4, 0.65))  # share of draws, share of the first player

# M matches, P pairs; the challenger moves first in game 0 of a pair.
Games = NDArray[np.int8]  # [M, P, 2] half points of the challenger
Verdicts = tuple[NDArray[np.bool_], NDArray[np.int64]]  # promoted [M], games played [M]


def play(
    rng: np.random.Generator, matches: int, pairs: int, elo: float, draw_share: float = 0.0, first_share: float = 0.5
) -> Games:
    """Matches of a challenger `elo` stronger, where a player that moves first against its equal gets first_share.

    The advantages add up in Elo, so the more an opening favours a colour, the fewer points a difference in strength is.
    Fewer games are drawn where a side's share leaves no room for so many draws.
    """
    results = np.empty((matches, pairs, 2), np.int8)
    for game, advantage in enumerate((elo_of_share(first_share), -elo_of_share(first_share))):
        share = share_of_elo(elo + advantage)
        drawn = min(draw_share, 2 * share, 2 * (1 - share))
        chances = rng.random((matches, pairs))
        won = share - drawn / 2
        results[:, :, game] = np.where(chances < won, 2, np.where(chances < won + drawn, 1, 0))
    return results


def by_gate(results: Games, gate: int) -> Verdicts:
    """Promoted by the half points of all games; games until that can no longer change."""
    points = results.reshape(len(results), -1).cumsum(1, dtype=np.int64)
    num_games = points.shape[1]
    still_to_win = 2 * (num_games - np.arange(1, num_games + 1))
    decided = (points >= gate) | (points + still_to_win < gate)
    return points[:, -1] >= gate, decided.argmax(1) + 1


def by_sprt(results: Games, sprt: Sprt) -> Verdicts:
    """As Sprt.run() decides, over all matches at once."""
    matches, pairs, _ = results.shape
    scores = results.sum(2, dtype=np.int64)
    counts = np.zeros((matches, 5), np.int64)
    promoted, games = np.zeros(matches, bool), np.zeros(matches, np.int64)
    going = np.arange(matches)
    place_values = (pairs + 1) ** np.arange(5)
    for pair in range(pairs):
        counts[going, scores[going, pair]] += 1
        # Many matches stand alike: one row of each kind.
        _, row, which = np.unique(counts[going] @ place_values, return_index=True, return_inverse=True)
        decisions = sprt.decisions(counts[going[row]], pairs - pair - 1)[which]
        promoted[going] = decisions > 0
        games[going] = 2 * (pair + 1)
        going = going[decisions == 0]
    return promoted, games


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=400, help="of a match, at most; an even number")
    parser.add_argument("--sprt", default="0,35,0.05,0.05", help="elo0,elo1,alpha,beta")
    parser.add_argument("--matches", type=int, default=10_000, help="simulated per line")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.games % 2:
        parser.error(f"--games {options.games}: wanted an even number")
    try:
        sprt = Sprt.parse(options.sprt)
        sprt.check_games(options.games)
    except UsageError as error:
        parser.error(str(error))
    gate = gate_half_points(options.games)
    rng = np.random.default_rng(options.seed)
    print(
        f"{options.matches:,} matches of {options.games} games a line; gate {gate / 2:g} points, which an equal model "
        f"reaches with {false_promotion(options.games, gate):.2%} at most; --sprt {options.sprt}"
    )
    print(f"{'':>17} {'first':>7} |{'promoted':^17}|{'games on average':^19}")
    print(f"{'Elo':>6} {'draws %':>10} {'player%':>7} |{'gate':>8}{'SPRT':>8} |{'all':>6}{'gate':>7}{'SPRT':>6}")
    for draw_share, first_share in CONDITIONS:
        for elo in ELO_DIFFERENCES:
            results = play(rng, options.matches, options.games // 2, elo, draw_share, first_share)
            gate_promoted, gate_games = by_gate(results, gate)
            sprt_promoted, sprt_games = by_sprt(results, sprt)
            print(
                f"{elo:>+6} {(results == 1).mean():>10.0%} {first_share:>7.0%} |{gate_promoted.mean():>8.2%}"
                f"{sprt_promoted.mean():>8.2%} |{options.games:>6}{gate_games.mean():>7.0f}{sprt_games.mean():>6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
