"""``SearchSession``: one game that can be taken back, and a model that searches it for as long as a protocol allows."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Generator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.capabilities import adopted, seen_by
from pipeline.games.contract import BoolArray, Evaluate, FloatArray, Game, Planes, States
from pipeline.games.margins import MarginNetwork
from pipeline.play.game_in_progress import ROW, Line, Position, with_turn
from pipeline.players.endings import MOST_READOUTS, Endings
from pipeline.players.searching import SearchPlayer
from pipeline.search.batch import BatchSearch, Candidate
from pipeline.search.options import SearchOptions

WARM_UP_READOUTS = 64  # two batches and more
FIRST_SHARE = 0.75  # of the time for a move, in which a decided position is searched for the first time
LEAST_ROOM = 20_000  # the readouts of an analysis that isn't stopped; memory is allocated as they are made


class SearchedRow:
    """A view of one row of a search: where its game stands, and what was found there so far."""

    def __init__(self, search: BatchSearch, row: int = 0) -> None:
        self.game = search.game
        self._search, self._row = search, np.array([row])

    @property
    def state(self) -> States:
        """[1, S]"""
        return self._search.states[self._row[0] : self._row[0] + 1]

    @property
    def to_move(self) -> int:
        return int(self.game.to_move(self.state)[0])

    def legal(self) -> BoolArray:
        """[A]"""
        return self._search.legal(self._row)[0]

    def here(self) -> Position:
        history, row = self._search.history, self._row[0]
        return Position(self.state[0].copy(), history.keys[row, : history.lengths[row]].copy())

    def value_to_move(self) -> float:
        """In [-1, 1]: the mean of the network's value of the position and those of all readouts so far."""
        return float(self._search.root_values(self._row)[0])

    def policy(self) -> FloatArray:
        """[A] float32: the network's policy here; all 0 before the first batch."""
        return self._search.root_table(self._row)[1][0]

    def candidates(self) -> list[Candidate]:
        """What was found so far; see search/batch.py. Empty before the first batch."""
        return self._search.candidates(int(self._row[0]))

    def room(self) -> int:
        """How many more readouts the tree has room for."""
        return self._search.room(int(self._row[0]))

    def planes(self, actions: Sequence[int] = ()) -> Planes:
        """[1 + n, C, H, W]: the network's view of this position, and of those after each of these legal moves."""
        count = 1 + len(actions)
        states, history = self.state.repeat(count, 0), self._search.history.select(self._row.repeat(count))
        if actions:
            later = np.arange(1, count)
            states[1:] = self.game.play(states[1:], np.array(actions, np.int32), history.select(later))
            history.append(later, self.game.keys(states[1:]))
        return self.game.legal_and_observe(states, history)[1]


def tree_room(config: SearchOptions, readouts: int) -> int:
    """How many readouts a search needs room for if it may be asked for more than `readouts`.

    Gumbel divides its budget from the start, so it never gets more. Under `mixed`, searches that play use PUCT.
    """
    return readouts if config.algorithm == "gumbel" else max(readouts, LEAST_ROOM)


class SearchSession(SearchedRow):
    """A SearchPlayer of one row, with a clock. It keeps its tree from move to move; taking a move back drops it.

    What was found is the first search's; only the move to play may come from the second, see players/endings.py.
    readouts  the most of a search, unless it is given another number; 0: the raw policy
    """

    def __init__(
        self,
        game: Game,
        evaluate: Evaluate,
        config: SearchOptions,
        readouts: int,
        leaves: int = 1,
        margins: MarginNetwork | None = None,
    ) -> None:
        """evaluate: for batches of up to `leaves` positions of the one tree; margins: see Endings; None: not known."""
        self.readouts, self._margins = readouts, margins
        alone, room = config.first_search(), tree_room(config, readouts)
        self._make_player = lambda game: SearchPlayer(game, 1, evaluate, alone, room, leaves)
        self._make_endings = lambda game: Endings(game, 1, evaluate, margins, config, MOST_READOUTS, leaves)
        self._before: list[tuple[Position, int, int]] = []  # of each move: where it was made, player, action
        self._start: States | None = None  # of the line that follow() was given last
        self._player, self._endings = self._make_player(game), self._make_endings(game)
        super().__init__(self._player.search)
        self.restart()

    def change_game(self, game: Game) -> None:
        """Go on with another game that the network can play: at the same position if the boards have the same shape,
        else at the initial one.
        """
        before, here = self._before, self.here()
        same_board = game.board_shape == self.game.board_shape
        self._player, self._endings = self._make_player(game), self._make_endings(game)
        super().__init__(self._player.search)
        self.restart()
        if same_board:
            self._before = [(self._adopted(position), player, action) for position, player, action in before]
            self.go_to(self._adopted(here))

    def _adopted(self, position: Position) -> Position:
        return Position(adopted(self.game, position.state[None])[0], position.keys)

    def warm_up(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Do everything twice, so that nothing is compiled on a move's time; then restart. enough: ends it earlier.

        Few readouts are enough, and a manager is waiting. Margins are only asked for in decided positions: none is
        among these.
        """
        if self._margins is not None and self.readouts > 0:
            for ask in (self._margins.evaluate, self._margins.owners):
                if not enough():
                    ask(self.planes())
        self.game.ownership(self.here().state[None])  # asked for there, too
        readouts = min(self.readouts, WARM_UP_READOUTS)
        for _ in range(2):
            self.think(None, readouts, enough)
            if enough():
                break
            self.play(self.think(0.0, readouts))
        self.restart()

    # The game

    def restart(self, state: States | None = None) -> None:
        """Begin at this position [1, S], or at the initial one."""
        self._player.new_games(ROW, np.zeros(1, np.uint64))
        self._before, self._start = [], None
        if state is not None:
            self._search.place(0, state[0], self.game.keys(state))

    @property
    def moves(self) -> list[int]:
        """The actions since the last restart."""
        return [action for *_, action in self._before]

    @property
    def is_over(self) -> bool:
        return bool(self.game.is_over(self.state)[0])

    def play(self, action: int, player: int | None = None) -> None:
        """Make a move, as GameInProgress.play does. Raises IllegalMove; then nothing has changed."""
        before = self.here()
        try:
            self.play_on()
            if player is not None:
                self.set_turn(player)
            player = self.to_move
            self._player.advance(ROW, np.array([action], np.int32))
        except IllegalMove:
            self.go_to(before)
            raise
        self._before.append((before, player, action))

    def play_on(self) -> None:
        """Let an ended game go on if Game.played_on does."""
        if self.is_over:
            self._search.place(0, self.game.played_on(self.state)[0], self.here().keys)

    def set_up(self, state: States) -> None:
        """Replace the position by this one [1, S], whose stones were set up. Moves made so far can be taken back."""
        self._search.place(0, state[0], self.game.keys(state))

    def undo(self) -> int:
        """Take the last move back and return it. Raises IllegalMove if there is none."""
        if not self._before:
            raise IllegalMove(f"{self.game.spec}: no move to take back")
        before, _, action = self._before.pop()
        self.go_to(before)
        return action

    def set_turn(self, player: int) -> None:
        """Make it this player's turn. Raises IllegalMove as with_turn does."""
        before = self.state
        turned = with_turn(self.game, before, player, self.here().history)
        if turned is not before:
            self._search.place(0, turned[0], self.here().keys)

    def follow(self, line: Line) -> None:
        """Stand at the end of a line. Only moves that differ from those made so far are taken back and played."""
        game = seen_by(self.game, line.game)
        changes = game is not None and game.spec != self.game.spec
        if game is not None and changes:
            self.change_game(game)
        if changes or line.start is not self._start:
            self.restart(None if line.start is None else adopted(self.game, line.start))
            self._start = line.start
        common = 0
        for (_, *made), move in zip(self._before, line.moves, strict=False):
            if tuple(made) != move:
                break
            common += 1
        for _ in self._before[common:]:
            self.undo()
        for player, action in line.moves[common:]:
            self.play(action, player)

    def go_to(self, position: Position) -> None:
        """Move to a position, with the same moves to take back. Drops the tree unless the session is there already."""
        if not np.array_equal(self.state[0], position.state):
            self._search.place(0, position.state, position.keys)

    def restrict(self, until: NDArray[np.int16] | None = None) -> None:
        """Leave moves out of what is searched here, until the game goes on: see search/restriction.py; None: no more.

        Drops what was found here if that changes anything.
        """
        every = np.zeros((2, self.game.num_actions), np.int16)
        self._search.restrict(ROW, (every if until is None else until)[None])

    def drop_tree(self) -> None:
        """Drop what was found here."""
        here = self.here()
        self._search.place(0, here.state, here.keys)

    # The search

    def thinking(self, readouts: int | None = None) -> Generator[None, None, None]:
        """Search the position, one batch per step, until the readouts are used up or there is no room.

        readouts: None: the session's. The first step evaluates the position itself. What was found is kept if the
        caller stops early. The game must not be over. Raises MuGoError if the network's answer isn't finite.
        """
        self._player.readouts = min(self.readouts if readouts is None else readouts, self._search.room(0))
        self._player.begin(ROW)
        try:
            while not self._player.step().rows.size:
                yield
        finally:
            self._player.drop(ROW)

    def think(
        self, seconds: float | None, readouts: int | None = None, enough: Callable[[], bool] = lambda: False
    ) -> int:
        """The move to play, without playing it. seconds: the time limit; None: no limit. enough: ends it earlier.

        The clock is read after every batch, so at most one more batch is evaluated when the time is up.
        """
        now = time.monotonic()
        until, early = (math.inf, math.inf) if seconds is None else (now + seconds, now + FIRST_SHARE * seconds)

        def over() -> bool:
            return enough() or time.monotonic() >= until

        self.search_until(lambda: over() or (time.monotonic() >= early and self.is_decided), readouts)
        return self.decide(over, readouts)

    def decide(self, enough: Callable[[], bool] = lambda: False, readouts: int | None = None) -> int:
        """The move to play after a search: best(), or in a decided position what a second search prefers.

        enough: ends the second search after a batch. readouts: its most, as in thinking(); 0: there is none.
        """
        best = self.best()
        most = self.readouts if readouts is None else readouts
        if most < 1 or not self.is_decided or enough():
            return best
        actions, begun = self._endings.begin(self._search, ROW, np.array([best]), most)
        if not begun[0]:
            return int(actions[0])
        try:
            while True:
                rows, actions = self._endings.step()
                if rows.size:
                    return int(actions[0])
                if enough():
                    return self._endings.best(0)
        finally:
            self._endings.stop(ROW)

    @property
    def is_decided(self) -> bool:
        """Whether decide() would search a second time. At least one batch must have been searched here."""
        return bool(self._endings.are_decided(self._search, ROW)[0])

    def search_until(self, enough: Callable[[], bool], readouts: int | None = None) -> None:
        """Search until this is true after a batch, or as long as thinking() does."""
        with contextlib.closing(self.thinking(readouts)) as batches:
            for _ in batches:
                if enough():
                    return

    def best(self) -> int:
        """The move that the first search prefers. At least one batch must have been searched since the last move."""
        return int(self._search.choose(ROW, np.zeros(1, np.float32))[0])
