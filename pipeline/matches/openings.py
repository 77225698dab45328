"""Openings: the first moves of a match's games, which keep the games apart.

An opening is a list of moves from the initial position. Pair k of a match plays opening k twice, with colours swapped.

Sampled openings: the first 0 to MAX_RANDOM_PLIES moves are uniformly random. The others are sampled from the mean of
the players' raw policies, or uniformly if no player has a policy. They favour a model against an engine, which has no
part in the sampling. Such a match should take its openings from a file, e.g. ``benchmarks/openings/go9.json``, with
moves in the game's own notation: ``["C7", "G3", …]``. It serves every komi.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.capabilities import Komi, seen_by
from pipeline.games.contract import CHANCE, AnyGame, FloatArray, Game, States
from pipeline.games.replay import handicap_start, replay_one
from pipeline.games.specs import parse_game
from pipeline.players.searching import Evaluate
from pipeline.run import atomic

MAX_RANDOM_PLIES = 2
ATTEMPTS = 12
TEMPERATURE_FACTOR = 1.25  # by which the temperature rises with each attempt at an opening
OPENINGS_PER_SEED = 50  # of a file: matches of up to 100 games with different seeds share no opening
WANTED = "a file of openings, e.g. benchmarks/openings/go9.json"


# Sampled openings


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
    An opening that repeats another, leads to the same position or ends the game is sampled again at a higher
    temperature. The last of ATTEMPTS is accepted as it is. Every opening has its own random stream.
    """
    if plies == 0:
        return [[] for _ in range(num_pairs)]
    taken, before = {tuple(opening) for opening in known}, len(known)
    reached = set() if stones else {_reached(game, opening) for opening in known}
    openings: dict[int, list[int]] = {}
    waiting = list(range(before, before + num_pairs))
    for attempt in range(ATTEMPTS):
        again = []
        for start in range(0, len(waiting), max_batch):
            pairs = waiting[start : start + max_batch]
            streams = [np.random.default_rng([seed, pair, attempt]) for pair in pairs]
            begun = [stones[pair - before] if stones else [] for pair in pairs]
            sampled = sample_moves(game, policies, plies, TEMPERATURE_FACTOR**attempt, streams, begun)
            for pair, moves, points in zip(pairs, sampled, begun, strict=True):
                last_try, position = attempt == ATTEMPTS - 1, _reached(game, moves, points)
                is_new = len(moves) == plies and tuple(moves) not in taken and position not in reached
                if last_try or is_new:
                    openings[pair] = moves
                    taken.add(tuple(moves))
                    reached.add(position)
                else:
                    again.append(pair)
        waiting = again
    return [openings[pair] for pair in sorted(openings)]


def _reached(game: AnyGame, opening: Sequence[int], stones: Sequence[int] = ()) -> bytes:
    """The position's bytes. Moves in another order give the same, unless the state has the latest moves."""
    *_, last = replay_one(game, opening, stones)
    return last.tobytes()


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
        chances = game.passing_last(legal).astype(np.float64)  # a pass only if it is the only move
        chances /= chances.sum(axis=1, keepdims=True).clip(1)
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


# Openings of a file


class OpeningsFile(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The contents of a file of openings."""

    format: Literal["mugo-openings"] = "mugo-openings"
    version: Literal[1] = 1
    game: str = Field(description="Game spec.")
    origin: dict[str, Any] = Field(description="How the openings were made, as stated by the program that made them.")
    openings: list[list[str]] = Field(min_length=1, description="Moves of each, in the game's notation.")


def begins(listed: str, game: AnyGame) -> bool:
    """Whether openings of the game with the spec `listed` are openings of this one: they may differ in komi only."""
    with suppress(UsageError):  # an unknown game, or a komi that it can't have
        theirs: AnyGame = parse_game(listed)
        if isinstance(theirs, Komi) and isinstance(game, Komi):
            theirs = theirs.with_komi(game.komi)
        seen = seen_by(game, theirs)
        return seen is not None and seen.spec == game.spec
    return False


def read_openings(path: Path, game: Game) -> list[list[int]]:
    """The actions of every opening. Raises FileError unless they are different legal openings of this game."""
    found = atomic.read_record(path, OpeningsFile, WANTED)
    if not begins(found.game, game):
        raise FileError(path, f"openings of {found.game}; wanted some of {game.spec}: name another file")
    openings = []
    for number, names in enumerate(found.openings):
        opening = f"opening {number} ({' '.join(names)})"
        try:
            openings.append([game.parse_action(name) for name in names])
            *_, last = replay_one(game, openings[-1])
        except IllegalMove as error:
            raise FileError(path, f"{opening}: {error}; wanted legal moves") from error
        if game.is_over(last)[0]:
            raise FileError(path, f"{opening} ends the game; remove it")
    if len({tuple(opening) for opening in openings}) < len(openings):
        raise FileError(path, "an opening is listed twice; wanted each once, as repeated pairs are no new evidence")
    return openings


def write_openings(path: Path, game: Game, openings: list[list[int]], origin: dict[str, Any]) -> None:
    """One opening a line, so that people can read it."""
    named = [[game.action_name(action) for action in opening] for opening in openings]
    record = OpeningsFile(game=game.spec, origin=origin, openings=named)
    head = json.dumps(record.model_dump(exclude={"openings"}), indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(names) for names in named)
    atomic.make_folder(path.parent)
    atomic.write_text(path, f'{head},\n "openings": [\n  {lines}\n ]\n}}\n')


def choose_openings(listed: Sequence[list[int]], num_pairs: int, seed: int, num_known: int = 0) -> list[list[int]]:
    """Openings of a file for num_pairs pairs, numbered after num_known others.

    Goes through the file in order, beginning at OPENINGS_PER_SEED · seed, and from its end to its beginning. Raises
    UsageError if the file has too few, as a repeated pair is no independent evidence.
    """
    if num_known + num_pairs > len(listed):
        raise UsageError(
            f"--openings: {2 * (num_known + num_pairs)} games need {num_known + num_pairs} openings, the file has "
            f"{len(listed)}; wanted at most {2 * len(listed)} games, or a file with more"
        )
    first = OPENINGS_PER_SEED * seed + num_known
    return [listed[(first + pair) % len(listed)] for pair in range(num_pairs)]
