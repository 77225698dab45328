"""Playing the games of a match: many at once, two networks, one search per network and lane.

A lane is a thread that owns a share of the games. It has one BatchSearch per side with a row for each game; a move is
played in both and searched in that of the side to move: about half of each one's rows are active, and both keep their
trees. A game depends on its opening, its number, the two networks and the settings; not on lane, row or neighbours, as
far as the networks' arithmetic doesn't depend on the batch. So an interrupted match goes on as if nothing had happened.

Sides: CHALLENGER = 0, CHAMPION = 1; players: 0 moves first, 1 second. Axes: K leaves, n rows. Writes no files.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.config import SearchConfig
from pipeline.games.base import FloatArray, Game, Planes
from pipeline.records.matches import MatchGame
from pipeline.search.batch import BatchSearch

Evaluate = Callable[[Planes], tuple[FloatArray, FloatArray]]  # planes [K, C, H, W] → logits [K, A], value to move [K]
Sides = tuple[Evaluate, Evaluate]  # challenger's, champion's

CHALLENGER, CHAMPION = 0, 1
OPENING_ATTEMPTS = 12
WARMING = 1.25  # each attempt at an opening that isn't taken yet is so much warmer than the one before


@dataclass(frozen=True)
class MatchSettings:
    """How the games are played. seed: of the root noise, where there is any."""

    search: SearchConfig
    readouts: int
    seed: int


# Openings


def make_openings(game: Game, sides: Sides, num_pairs: int, plies: int, seed: int, max_batch: int) -> list[list[int]]:
    """Openings for num_pairs pairs of games: `plies` moves each, sampled from the mean of both raw policies.

    None of them ends the game, and they differ from each other as far as possible: what is taken or ends the game is
    drawn again, a little warmer each time; after OPENING_ATTEMPTS a repetition is accepted, and so is an opening cut
    short before the move that ends the game. Each is drawn from a stream of its own.
    """
    openings: dict[int, list[int]] = {}
    if plies == 0:
        return [[] for _ in range(num_pairs)]
    taken: set[tuple[int, ...]] = set()
    waiting = list(range(num_pairs))
    for attempt in range(OPENING_ATTEMPTS):
        again = []
        for start in range(0, len(waiting), max_batch):
            pairs = waiting[start : start + max_batch]
            streams = [np.random.default_rng([seed, pair, attempt]) for pair in pairs]
            for pair, moves in zip(pairs, _sample(game, sides, plies, WARMING**attempt, streams), strict=True):
                last_try = attempt == OPENING_ATTEMPTS - 1
                if last_try or (len(moves) == plies and tuple(moves) not in taken):
                    openings[pair] = moves
                    taken.add(tuple(moves))
                else:
                    again.append(pair)
        waiting = again
    return [openings[pair] for pair in range(num_pairs)]


def _sample(
    game: Game, sides: Sides, plies: int, temperature: float, streams: Sequence[np.random.Generator]
) -> list[list[int]]:
    """One opening per stream; one that ended its game stops before the move that did."""
    states = game.initial(len(streams))
    history = game.initial_history(states)
    openings: list[list[int]] = [[] for _ in streams]
    rows = np.arange(len(streams))
    for _ in range(plies):
        if rows.size == 0:
            break
        legal, planes = game.look(states[rows], history.select(rows))
        chances = sum(_policy(evaluate(planes)[0], legal, temperature) for evaluate in sides)
        bounds = np.cumsum(chances, axis=1)
        # A point drawn in [0, total) falls into exactly one move's interval; an illegal move's is empty.
        points = np.array([streams[row].random() for row in rows.tolist()]) * bounds[:, -1]
        actions = np.array([np.searchsorted(b, p, side="right") for b, p in zip(bounds, points, strict=True)], np.int32)
        after = game.play(states[rows], actions, history.select(rows))
        going = ~game.is_over(after)
        rows, actions = rows[going], actions[going]
        states[rows] = after[going]
        history.append(rows, game.keys(states[rows]))
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            openings[row].append(action)
    return openings


def _policy(logits: FloatArray, legal: NDArray[np.bool_], temperature: float) -> NDArray[np.float64]:
    """[n, A] softmax(logits / temperature) over the legal moves."""
    scaled = np.where(legal, logits.astype(np.float64) / temperature, -np.inf)
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


# Games


@dataclass
class _Unfinished:
    """A game being played in some row."""

    index: int
    moves: list[int]
    opening_plies: int
    values: list[float | None] = field(default_factory=list)


class MatchLane:
    """Plays the games that `numbers` yields, up to num_rows at a time, and hands each to on_game as it ends."""

    def __init__(
        self,
        game: Game,
        sides: Sides,
        settings: MatchSettings,
        openings: Sequence[Sequence[int]],
        num_rows: int,
        numbers: Iterator[int],
        on_game: Callable[[MatchGame], None],
    ) -> None:
        self._game = game
        self._sides = sides
        self._settings = settings
        self._openings = openings
        self._numbers = numbers
        self._on_game = on_game
        self.searches = tuple(BatchSearch(game, num_rows, settings.readouts, settings.search) for _ in sides)
        self._rows: list[_Unfinished | None] = [None] * num_rows
        self._challenger_player = np.zeros(num_rows, np.int8)
        self._start(np.arange(num_rows))

    @property
    def live(self) -> int:
        """Games in play."""
        return sum(game is not None for game in self._rows)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Step until no game is left, or stopped() says so: unfinished games are then dropped."""
        while self.live and not stopped():
            self.step()

    def step(self) -> None:
        """One batch for each side, and a move in every row whose search is done."""
        for side, search in enumerate(self.searches):
            planes = search.leaves()
            if len(planes):
                search.accept(*self._sides[side](planes))
            finished = search.finished()
            if finished.size:
                self._move(side, finished)

    def _move(self, side: int, rows: NDArray[np.int64]) -> None:
        """The side's best move in each of rows [n], in both searches."""
        search = self.searches[side]
        values = search.root_values(rows).tolist()
        actions = search.choose(rows, np.zeros(len(rows), np.float32))
        for other in self.searches:
            other.advance(rows, actions)
        for row, action, value in zip(rows.tolist(), actions.tolist(), values, strict=True):
            playing = self._playing(row)
            playing.moves.append(action)
            playing.values.append(round(value, 3))
        over = search.over(rows)
        self._begin(rows[~over])
        if over.any():
            ended = rows[over]
            for row, result in zip(ended.tolist(), search.returns(ended).tolist(), strict=True):
                self._finish(row, int(result))
            self._start(ended)

    def _begin(self, rows: NDArray[np.int64]) -> None:
        """Search in each of rows [n] with the network of the side to move."""
        settings = self._settings
        noisy = settings.readouts > 0 and settings.search.noise_weight > 0
        sides = np.where(self.searches[0].to_move(rows) == self._challenger_player[rows], CHALLENGER, CHAMPION)
        for side, search in enumerate(self.searches):
            theirs = rows[sides == side]
            if theirs.size:
                readouts = np.full(len(theirs), settings.readouts, np.int32)
                search.begin(theirs, readouts, np.full(len(theirs), noisy))

    def _start(self, rows: NDArray[np.int64]) -> None:
        """Begin the next games in free rows, past their openings; rows stay empty when there are none left."""
        begun = []
        for row in rows.tolist():
            index = next(self._numbers, None)
            if index is None:
                break
            opening = list(self._openings[index // 2])
            self._rows[row] = _Unfinished(index, opening, len(opening), [None] * len(opening))
            self._challenger_player[row] = index % 2
            begun.append(row)
        if not begun:
            return
        started = np.array(begun, np.int64)
        streams = [np.random.SeedSequence([self._settings.seed, self._playing(row).index]) for row in begun]
        for side, search in enumerate(self.searches):
            seeds = np.array([stream.generate_state(2, np.uint64)[side] for stream in streams], np.uint64)
            search.new_games(started, seeds)
        lengths = np.array([self._playing(row).opening_plies for row in begun])
        for ply in range(int(lengths.max())):
            moving = started[lengths > ply]
            actions = np.array([self._playing(row).moves[ply] for row in moving.tolist()], np.int32)
            for search in self.searches:
                search.advance(moving, actions)
        self._begin(started)

    def _finish(self, row: int, result_first_player: int) -> None:
        playing = self._playing(row)
        self._rows[row] = None
        self._on_game(
            MatchGame(
                index=playing.index,
                challenger_player=playing.index % 2,  # type: ignore[arg-type]
                opening_plies=playing.opening_plies,
                moves=playing.moves,
                values_to_move=playing.values,
                result_first_player=result_first_player,  # type: ignore[arg-type]
                end="full_length" if len(playing.moves) >= self._game.max_plies else "played_out",
            )
        )

    def _playing(self, row: int) -> _Unfinished:
        playing = self._rows[row]
        assert playing is not None
        return playing


def play_match(
    game: Game,
    lanes: Sequence[Sides],
    settings: MatchSettings,
    openings: Sequence[Sequence[int]],
    missing: Sequence[int],
    rows_per_lane: int,
    on_games: Callable[[list[MatchGame]], bool],
) -> None:
    """Play the games numbered in `missing`, lane i every len(lanes)-th of them from the i-th on.

    lanes: each lane's evaluators, for batches of up to rows_per_lane.
    on_games: called in this thread with those that have finished since the last call; returns whether to play on.
    If it says no, or on KeyboardInterrupt, lanes stop at their next batch, games finished by then are handed over,
    unfinished ones are dropped. Raises what a lane or on_games raised.
    """
    arrived: queue.SimpleQueue[MatchGame | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    def run_lane(lane: int) -> None:
        try:
            numbers = iter(missing[lane :: len(lanes)])
            MatchLane(game, lanes[lane], settings, openings, rows_per_lane, numbers, arrived.put).run(stop.is_set)
        except BaseException as error:  # handed to the calling thread, which raises it
            arrived.put(error)
        finally:
            arrived.put(None)

    threads = [threading.Thread(target=run_lane, args=(lane,), daemon=True) for lane in range(len(lanes))]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running and not stop.is_set():
            games, ended = _arrivals(arrived, 0.5)
            running -= ended
            if games and not on_games(games):
                stop.set()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        games, _ = _arrivals(arrived, 0.0)
        if games:
            on_games(games)


def _arrivals(
    arrived: queue.SimpleQueue[MatchGame | BaseException | None], seconds: float
) -> tuple[list[MatchGame], int]:
    """All that has arrived, after waiting for the first: games, and how many lanes have ended.

    Raises what a lane raised; the games that arrived before it stay in the queue.
    """
    games: list[MatchGame] = []
    ended = 0
    while True:
        try:
            item = arrived.get(timeout=seconds) if seconds > 0 and not games else arrived.get_nowait()
        except queue.Empty:
            return games, ended
        if item is None:
            ended += 1
            seconds = 0.0
        elif isinstance(item, BaseException):
            for game in games:
                arrived.put(game)
            raise item
        else:
            games.append(item)
