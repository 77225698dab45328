"""A thread: one thread that plays games between two players, many at once.

The thread is the referee: it keeps the positions, asks whoever is to move, and tells both of every move. About half of
each player's rows are active at a time. A game depends on its opening, its number, the match's seed and the two
players, not on thread, row or neighbours, as far as the players' arithmetic doesn't depend on them. So a match that is
interrupted, or spread over threads and processes, is the same match.

Sides: CHALLENGER = 0, CHAMPION = 1; players of a game: 0 moves first, 1 second. Axes: R rows, n rows. Writes no files.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.base import Game
from pipeline.players.base import RESIGN, Boards, Decisions, MakePlayer, Player, PlayerFault, Rows
from pipeline.storage.matches import MatchFailure, MatchGame

Outcome = MatchGame | MatchFailure

CHALLENGER, CHAMPION = 0, 1
PATIENCE_SECONDS = 0.02  # how long a thread waits for an engine before it looks at everything again


@dataclass(frozen=True)
class Pairing:
    """What is played: the game, who makes each side's player, their names, the match's seed and its openings."""

    game: Game
    makers: tuple[MakePlayer, MakePlayer]  # challenger's, champion's
    names: tuple[str, str]
    seed: int
    openings: Sequence[Sequence[int]]


class GameQueue:
    """Numbers of games still to be played, shared by threads."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def give(self, numbers: Sequence[int]) -> None:
        """They are taken before those that wait already."""
        with self._changed:
            self._numbers.extendleft(reversed(numbers))
            self._changed.notify_all()

    def take(self) -> int | None:
        with self._changed:
            return self._numbers.popleft() if self._numbers and not self._closed else None

    def wait(self, seconds: float) -> None:
        """Until there is a number, the queue is closed, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._numbers), seconds)

    def close(self) -> None:
        """No further games: threads stop at their next step, and what they are playing is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def __bool__(self) -> bool:
        return bool(self._numbers)


@dataclass
class _Unfinished:
    """A game being played in some row."""

    index: int
    moves: list[int]
    opening_plies: int
    values: list[float | None] = field(default_factory=list)


class MatchThread:
    """Plays games from a queue, up to num_rows at a time, and hands each to on_outcome as it ends or fails.

    steps: how many it has made; live: games in play.
    """

    def __init__(
        self, pairing: Pairing, num_rows: int, thread: int, queue: GameQueue, on_outcome: Callable[[Outcome], None]
    ) -> None:
        self._pairing = pairing
        self._queue = queue
        self._on_outcome = on_outcome
        self._boards = Boards(pairing.game, num_rows)
        self._rows: list[_Unfinished | None] = [None] * num_rows
        self._challenger_player = np.zeros(num_rows, np.int8)
        self.live = 0
        self.steps = 0
        self.players: list[Player] = []
        try:
            for make in pairing.makers:
                self.players.append(make(pairing.game, num_rows, thread))
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Play until the queue is closed."""
        while not self._queue.closed:
            if self.live < len(self._rows) and self._queue:
                self._start(np.flatnonzero([game is None for game in self._rows]))
            if self.live:
                self.step()
            else:
                self._queue.wait(0.2)
            self.steps += 1

    def step(self) -> None:
        """A batch of work of each player, and a move in every row where one is decided."""
        idle = True
        for side, player in enumerate(self.players):
            decisions = player.step()
            idle = idle and not (decisions.worked or decisions.rows.size or decisions.faults)
            for row, fault in decisions.faults.items():
                self._fail(row, fault)
            if decisions.rows.size:
                self._move(side, decisions)
        if idle:
            for player in self.players:
                player.wait(PATIENCE_SECONDS)

    def abandon(self, problem: str) -> None:
        """Every game in play has failed, by no player's fault that is known."""
        for row, playing in enumerate(self._rows):
            if playing is not None:
                self._rows[row] = None
                self._on_outcome(_failure(playing, "crash", "", problem))
        self.live = 0

    def close(self) -> None:
        for player in self.players:
            player.close()

    def _move(self, side: int, decisions: Decisions) -> None:
        """Make the side's moves in both players' games and in ours."""
        rows, actions, values = decisions.rows, decisions.actions, decisions.values
        gone = actions == RESIGN
        for row in rows[gone].tolist():
            challenger_won = side == CHAMPION
            first_won = challenger_won == (self._challenger_player[row] == 0)
            self._finish(row, 1 if first_won else -1, "resigned")
        rows, actions, values = self._make(side, rows[~gone], actions[~gone], values[~gone])
        if rows.size == 0:
            return
        for player in self.players:
            player.advance(rows, actions)
        for row, action, value in zip(rows.tolist(), actions.tolist(), values.tolist(), strict=True):
            playing = self._playing(row)
            playing.moves.append(action)
            playing.values.append(None if np.isnan(value) else round(value, 3))
        over = self._boards.over(rows)
        self._begin(rows[~over])
        if over.any():
            ended = rows[over]
            for row, result in zip(ended.tolist(), self._boards.returns(ended).tolist(), strict=True):
                full = len(self._playing(row).moves) >= self._pairing.game.max_plies
                self._finish(row, int(result), "full_length" if full else "played_out")

    def _make(self, side: int, rows: Rows, actions: NDArray[np.int32], values: NDArray[np.float32]) -> tuple:
        """Play on our boards; a row whose move our rules forbid fails. Returns what is left of the three arrays."""
        try:
            if rows.size:
                self._boards.advance(rows, actions)
            return rows, actions, values
        except IllegalMove:
            good = []
            for i in range(len(rows)):
                try:
                    self._boards.advance(rows[i : i + 1], actions[i : i + 1])
                    good.append(i)
                except IllegalMove as error:
                    self._fail(int(rows[i]), PlayerFault("illegal", self._pairing.names[side], str(error)))
            return rows[good], actions[good], values[good]

    def _begin(self, rows: Rows) -> None:
        """Ask the player to move in each of rows [n]."""
        if rows.size == 0:
            return
        sides = np.where(self._boards.to_move(rows) == self._challenger_player[rows], CHALLENGER, CHAMPION)
        for side, player in enumerate(self.players):
            theirs = rows[sides == side]
            if theirs.size:
                player.begin(theirs)

    def _start(self, free: Rows) -> None:
        """Begin the next games in free rows, past their openings."""
        begun = []
        for row in free.tolist():
            index = self._queue.take()
            if index is None:
                break
            opening = list(self._pairing.openings[index // 2])
            self._rows[row] = _Unfinished(index, opening, len(opening), [None] * len(opening))
            self._challenger_player[row] = index % 2
            begun.append(row)
        if not begun:
            return
        self.live += len(begun)
        started = np.array(begun, np.int64)
        self._boards.new_games(started)
        streams = [np.random.SeedSequence([self._pairing.seed, self._playing(row).index]) for row in begun]
        for side, player in enumerate(self.players):
            seeds = np.array([stream.generate_state(2, np.uint64)[side] for stream in streams], np.uint64)
            player.new_games(started, seeds)
        lengths = np.array([self._playing(row).opening_plies for row in begun])
        for ply in range(int(lengths.max())):
            moving = started[lengths > ply]
            actions = np.array([self._playing(row).moves[ply] for row in moving.tolist()], np.int32)
            self._boards.advance(moving, actions)
            for player in self.players:
                player.advance(moving, actions)
        self._begin(started)

    def _finish(self, row: int, result_first_player: int, end: str) -> None:
        playing = self._playing(row)
        game = MatchGame(
            index=playing.index,
            challenger_player=playing.index % 2,  # type: ignore[arg-type]
            opening_plies=playing.opening_plies,
            moves=playing.moves,
            values_to_move=playing.values,
            result_first_player=result_first_player,  # type: ignore[arg-type]
            end=end,  # type: ignore[arg-type]
        )
        self._let_go(row, game)

    def _fail(self, row: int, fault: PlayerFault) -> None:
        self._let_go(row, _failure(self._playing(row), fault.kind, fault.player, str(fault)))

    def _let_go(self, row: int, outcome: Outcome) -> None:
        """Handed over first: whatever a player does when it hears of it, no game gets lost."""
        self._rows[row] = None
        self.live -= 1
        self._on_outcome(outcome)
        for player in self.players:
            player.drop(np.array([row]))

    def _playing(self, row: int) -> _Unfinished:
        playing = self._rows[row]
        assert playing is not None
        return playing


def _failure(playing: _Unfinished, kind: str, player: str, problem: str) -> MatchFailure:
    return MatchFailure(
        failed=playing.index, attempt=1, kind=kind, player=player, problem=problem, moves=playing.moves
    )  # whoever counts attempts sets the number
