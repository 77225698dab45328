"""Statistics of td's newest self-play games: how far values change and are off, and what games brought.

In turn t the records have C_t after the move (actor.py), the mover's value in points, in the last turn the result. The
position before turn t was worth -C_{t-1} to its mover; that of turn 0 has no value. So the *TD error* of turn t ≥ 1 is
C_t + C_{t-1}. With value_plies 0 this is what TD(0) corrects, apart from γ and rewards. The *value error* compares C_t
with the result seen by the mover, of all turns but the last.

Calibration: values in BINS equal parts of -M to M. In each, a calibrated network's mean result is its mean value.

A player is paid once a game for a close-out and for a five-point prime (examples.py): a game's mean reward is the share
of games in which the player had it, times --closeout-reward or --prime-reward. Left out if neither was built, as in
hypergammon.

Computed from the records on demand; stores nothing. Axes: G games, N turns of all games.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from pipeline.families.backgammon.feature_game import FeatureGame
from pipeline.games.contract import FloatArray
from pipeline.games.replay import IllegalRecord, replay
from pipeline.methods.method import Measure
from pipeline.run.shards import GameRecord

WINDOW = 1_000  # games
BINS = 5
SOURCE = "selfplay"
PLAYERS = "first", "second"
STRUCTURES = "closeout", "prime"  # in the order of FeatureGame.structures
_POINTS = "In points, from records of self-play."
MEASURES = {
    "td_error": Measure(heading="TD error of self-play", about=f"Mean change of values from turn to turn. {_POINTS}"),
    "value_error": Measure(heading="Value error of self-play", about=f"Mean distance of values and results. {_POINTS}"),
    "calibration_error": Measure(
        heading="Calibration",
        about=f"Mean distance of value and mean result in {BINS} equal parts of all values. {_POINTS}",
    ),
    "single": Measure(True, "Single games", "Share of the games that count 1 point."),
    "gammon": Measure(True, "Gammons", "Share of the games."),
    "backgammon": Measure(True, "Backgammons", "Share of the games."),
    "unfinished": Measure(True),
    **{f"{what}_{who}": Measure(True) for what in STRUCTURES for who in PLAYERS},
}


def tracked(game: FeatureGame, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
    """The statistics by source and name. records: the newest WINDOW games, in any order."""
    games = list(records)
    results = np.array([one.result_first_player for one in games], np.float32)
    facts = {"games": float(len(games)), "plies": float(np.mean([len(one.moves) for one in games]))}
    facts["points"] = float(np.abs(results).mean())
    kinds = {"single": 1.0, **{name: points for points, name in game.result_names.items()}, "unfinished": 0.0}
    shares = {name: float((np.abs(results) == points).mean()) for name, points in kinds.items()}
    facts |= {name: share for name, share in shares.items() if share or name != "unfinished"}
    facts |= _values(game.max_result, games)
    with suppress(IllegalRecord):  # `verify` names the shard
        built = _structures(game, games)
        for what, by_player in zip(STRUCTURES, built.tolist(), strict=True) if built.any() else ():
            facts |= {f"{what}_{who}": share for who, share in zip(PLAYERS, by_player, strict=True)}
    return {SOURCE: facts}


def _values(most: float, games: Sequence[GameRecord]) -> dict[str, float]:
    """Errors and calibration. most: M."""
    errors: list[NDArray[np.floating]] = [np.zeros(0)]
    values: list[NDArray[np.floating]] = [np.zeros(0)]
    results: list[NDArray[np.floating]] = [np.zeros(0)]
    for one in games:
        after = one.root_values[1::2].astype(np.float64)
        signs = 1 - 2 * (np.arange(len(after)) % 2)  # turns alternate
        errors.append(np.abs(after[1:] + after[:-1]))
        values.append(after[:-1])
        results.append((signs * one.result_first_player)[:-1])
    error, value, result = map(np.concatenate, (errors, values, results))
    if not value.size:
        return {}
    facts = {"td_error": float(error.mean()), "value_error": float(np.abs(value - result).mean())}
    part = np.clip(((value + most) / (2 * most) * BINS).astype(int), 0, BINS - 1)
    counts = np.bincount(part, minlength=BINS)
    means = [np.bincount(part, of, BINS) / np.maximum(counts, 1) for of in (value, result)]
    facts["calibration_error"] = float((counts * np.abs(means[0] - means[1])).sum() / counts.sum())
    for number in np.flatnonzero(counts).tolist():
        part_name = f"{number + 1}_of_{BINS}"
        facts |= {f"value_{part_name}": float(means[0][number]), f"result_{part_name}": float(means[1][number])}
    return facts


def _structures(game: FeatureGame, games: Sequence[GameRecord]) -> FloatArray:
    """[2, 2] by structure and player: the share of games in which the player had built it at the end of a turn."""
    longest_first = sorted(games, key=lambda one: -len(one.moves))
    lengths = np.array([len(one.moves) for one in longest_first])
    moves = np.zeros((lengths.max(), len(games)), np.uint16)
    for number, one in enumerate(longest_first):
        moves[: len(one.moves), number] = one.moves
    earned: NDArray[np.bool_] = np.zeros((2, len(games), 2), np.bool_)  # by player, game and structure
    for ply, (states, _) in enumerate(replay(game, moves, lengths)):
        if ply and ply % 2 == 0:
            movers, rows = 1 - game.turns(states), np.arange(len(states))
            earned[movers, rows] |= game.structures(states, movers)
    found: FloatArray = earned.mean(axis=1).T
    return found
