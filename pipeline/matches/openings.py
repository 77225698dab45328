"""Openings: the first moves of a match's games, which keep the games apart.

An opening is a list of moves from the initial position. Pair k of a match plays opening k twice, with colours swapped.
The first 0 to MAX_RANDOM_PLIES moves are uniformly random. The others are sampled from the mean of the players' raw
policies, or uniformly if no player has a policy. So openings are varied but sensible. They are fair between related
models, but against an engine, which has no part in the sampling, they favour the model. Such matches should take
openings from a file (run/openings.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.games.contract import CHANCE, AnyGame, FloatArray, Game, States
from pipeline.games.replay import handicap_start
from pipeline.players.searching import Evaluate

MAX_RANDOM_PLIES = 2
ATTEMPTS = 12
OPENINGS_PER_SEED = 50  # of a file: matches of up to 100 games with different seeds share no opening
TEMPERATURE_FACTOR = 1.25  # by which the temperature rises with each attempt at an opening


def make_openings(
    game: AnyGame,
    policies: Sequence[Evaluate],
    num_pairs: int,
    plies: int,
    seed: int,
    max_batch: int,
    known: Sequence[Sequence[int]] = (),
    stones: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """Openings of `plies` moves for num_pairs pairs, numbered after those already known.

    stones: the first player's handicap stones, placed before the moves of each new opening; empty: no handicap.

    An opening that repeats another or ends the game is sampled again at a higher temperature. The last of ATTEMPTS is
    accepted as it is: repeated, or cut short before the move that ends the game. Every opening has its own random
    stream, so opening k doesn't depend on how many are made, unless it would repeat another.
    """
    taken = {tuple(opening) for opening in known}
    before = len(known)
    if plies == 0:
        return [[] for _ in range(num_pairs)]
    openings: dict[int, list[int]] = {}
    waiting = list(range(before, before + num_pairs))
    for attempt in range(ATTEMPTS):
        again = []
        for start in range(0, len(waiting), max_batch):
            pairs = waiting[start : start + max_batch]
            streams = [np.random.default_rng([seed, pair, attempt]) for pair in pairs]
            begun = [stones[pair - before] if stones else [] for pair in pairs]
            sampled = sample_moves(game, policies, plies, TEMPERATURE_FACTOR**attempt, streams, begun)
            for pair, moves in zip(pairs, sampled, strict=True):
                last_try = attempt == ATTEMPTS - 1
                if last_try or (len(moves) == plies and tuple(moves) not in taken):
                    openings[pair] = moves
                    taken.add(tuple(moves))
                else:
                    again.append(pair)
        waiting = again
    return [openings[pair] for pair in sorted(openings)]


def choose_openings(listed: Sequence[list[int]], num_pairs: int, seed: int, num_known: int = 0) -> list[list[int]]:
    """Openings of a file for num_pairs pairs, numbered after num_known others.

    Goes through the file in order, from OPENINGS_PER_SEED · seed on and round. Raises UsageError if the file has too
    few, as a repeated pair is no independent evidence.
    """
    if num_known + num_pairs > len(listed):
        raise UsageError(
            f"--openings: {2 * (num_known + num_pairs)} games need {num_known + num_pairs} openings, the file has "
            f"{len(listed)}; wanted at most {2 * len(listed)} games, or a file with more"
        )
    first = OPENINGS_PER_SEED * seed + num_known
    return [listed[(first + pair) % len(listed)] for pair in range(num_pairs)]


def sample_moves(
    game: AnyGame,
    policies: Sequence[Evaluate],
    plies: int,
    temperature: float,
    streams: Sequence[np.random.Generator],
    stones: Sequence[Sequence[int]],
) -> list[list[int]]:
    """One opening per stream, after its handicap stones. An opening stops before a move that would end the game."""
    states = np.concatenate([handicap_start(game, points) for points in stones])
    history = game.initial_history(states)
    openings: list[list[int]] = [[] for _ in streams]
    num_random = np.array([stream.integers(0, MAX_RANDOM_PLIES + 1) for stream in streams])
    rows = np.arange(len(streams))
    for ply in range(plies):
        if rows.size == 0:
            break
        past = history.select(rows)
        if policies:
            assert isinstance(game, Game)  # only its networks have policies
            legal, planes = game.legal_and_observe(states[rows], past)
        else:
            legal = game.legal(states[rows], past)
        chances = _uniform(game, legal)
        if game.has_chance:
            chances = _with_outcomes(game, states[rows], chances)
        if policies:
            mean = sum(_policy(evaluate(planes)[0], legal, temperature) for evaluate in policies) / len(policies)
            chances = np.where((ply < num_random[rows])[:, None], chances, mean)
        bounds = np.cumsum(chances, axis=1)
        # A point in [0, total) lies in one move's interval; intervals of illegal moves are empty.
        points = np.array([streams[row].random() for row in rows.tolist()]) * bounds[:, -1]
        actions = np.array([np.searchsorted(b, p, side="right") for b, p in zip(bounds, points, strict=True)], np.int32)
        after = game.play(states[rows], actions, past)
        going = ~game.is_over(after)
        rows, actions = rows[going], actions[going]
        states[rows] = after[going]
        history.append(rows, game.keys(states[rows]))
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            openings[row].append(action)
    return openings


def _uniform(game: AnyGame, legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[n, A] equal probabilities of the legal moves, of a pass only if it is the only one; all 0 without a move."""
    chosen = game.passing_last(legal)
    return chosen / chosen.sum(axis=1, keepdims=True).clip(1)


def _with_outcomes(game: AnyGame, states: States, chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """chances [n, A], replaced by the outcomes' probabilities where chance is to move."""
    waiting = game.to_move(states) == CHANCE
    if not waiting.any():
        return chances
    outcomes = game.chance(states[waiting])
    table = np.zeros((len(states), max(chances.shape[1], outcomes.shape[1])))
    table[:, : chances.shape[1]] = chances
    table[np.flatnonzero(waiting), : outcomes.shape[1]] = outcomes
    return table


def _policy(logits: FloatArray, legal: NDArray[np.bool_], temperature: float) -> NDArray[np.float64]:
    """[n, A] softmax(logits / temperature) over the legal moves."""
    scaled = np.where(legal, logits.astype(np.float64) / temperature, -np.inf)
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
