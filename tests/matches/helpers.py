"""Matches for tests: made-up networks, players that misbehave in chosen games, and how to wait for processes."""

from __future__ import annotations

import numpy as np

from pipeline.games.specs import parse_game
from pipeline.matches.match import Pairing, ThreadPool, WorkerPool, conduct
from pipeline.players.builtin import HeuristicPlayer, RandomPlayer
from pipeline.players.player import RESIGN, Decisions, PlayerFault
from pipeline.players.searching import SearchPlayer
from pipeline.run.matches import MatchGame
from pipeline.search.options import SearchOptions
from tests.search.helpers import hashed_evaluator

CALM = SearchOptions(noise_weight=0.0)
NAMES = ("challenger", "champion")


def searching(network: int, readouts: int = 8, search: SearchOptions = CALM):
    """Makes players that search with the made-up network of that number."""
    return lambda game, rows, thread: SearchPlayer(game, rows, hashed_evaluator(game, network), search, readouts)


def random_player(game, rows, thread):
    return RandomPlayer(game, rows)


def heuristic_player(game, rows, thread):
    return HeuristicPlayer(game, rows)


def pairing_of(spec, openings, challenger=None, champion=None, seed=0) -> Pairing:
    makers = (challenger or searching(1), champion or searching(2))
    return Pairing(parse_game(spec), makers, NAMES, seed, openings)


def seed_of_game(match_seed: int, index: int, side: int) -> int:
    """The seed that the player of that side gets for a game, by which a test's player recognises the game."""
    return int(np.random.SeedSequence([match_seed, index]).generate_state(2, np.uint64)[side])


class Spoilt(RandomPlayer):
    """Plays at random, but in some games (given by their seeds) misbehaves when it must move; `times` in all, if given.

    mode: raise, exit, fault, illegal, outside, resign, lag (decides in the third step only).
    """

    def __init__(self, game, num_rows, mode, seeds, times=None) -> None:
        super().__init__(game, num_rows)
        self._mode, self._seeds, self._times = mode, seeds, times if times is not None else [10**6]
        self._guilty: set[int] = set()
        self._begun_steps = 0

    def new_games(self, rows, seeds) -> None:
        super().new_games(rows, seeds)
        for row, seed in zip(rows.tolist(), seeds.tolist(), strict=True):
            self._guilty.discard(row)
            if seed in self._seeds:
                self._guilty.add(row)

    def step(self) -> Decisions:
        rows = [row for row in self._guilty if self._wanted[row]]
        if not rows or self._times[0] <= 0:
            return super().step()
        if self._mode == "lag":
            self._begun_steps += 1
            return super().step() if self._begun_steps % 3 == 0 else Decisions.none()
        self._times[0] -= 1
        if self._mode == "raise":
            raise RuntimeError("the player\nbroke")
        if self._mode == "exit":
            raise SystemExit(3)
        self._wanted[rows] = False
        if self._mode == "fault":
            faults = {row: PlayerFault("refusal", "spoilt", "I won't") for row in rows}
            return Decisions(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), faults)
        if self._mode == "resign":
            actions = [RESIGN] * len(rows)
        elif self._mode == "outside":
            actions = [10_000] * len(rows)
        else:
            actions = np.argmin(self._boards.legal(np.array(rows)), axis=1)  # the first illegal one
        return Decisions(np.array(rows), np.array(actions, np.int32), np.full(len(rows), np.nan, np.float32))


def spoilt(mode, indices, side=0, times=None, match_seed=0):
    """Makes players of that side that misbehave in the games of these numbers."""
    seeds = {seed_of_game(match_seed, index, side) for index in indices}
    return lambda game, rows, thread: Spoilt(game, rows, mode, seeds, times)


def conducted(pool: WorkerPool, numbers):
    """(games by number, failures in order, numbers given up) of a pool that plays to the end."""
    games: dict[int, MatchGame] = {}
    failures = []
    given_up: set[int] = set()

    def on_outcomes(ended, failed):
        assert not games.keys() & {one.index for one in ended}
        games.update({one.index: one for one in ended})
        failures.extend(failed)
        return True

    conduct(pool, list(numbers), on_outcomes, given_up)
    return games, failures, given_up


def play(pairing: Pairing, numbers=None, threads=1, rows=4):
    """The games of a match without failures, by number, played by threads of this process."""
    numbers = range(2 * len(pairing.openings)) if numbers is None else numbers
    games, failures, _ = conducted(ThreadPool(pairing, threads, rows), numbers)
    assert not failures, failures
    return games
