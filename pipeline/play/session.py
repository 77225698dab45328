"""``SearchSession``: one game that can be taken back, and a model that searches it for as long as a protocol allows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.contract import BoolArray, Evaluate, FloatArray, Game, KeyArray, Planes, States
from pipeline.players.searching import SearchPlayer
from pipeline.search.batch import BatchSearch
from pipeline.search.candidates import Candidate
from pipeline.search.options import SearchOptions

ROW = np.array([0])
WARM_UP_READOUTS = 64  # two batches and more
LEAST_ROOM = 20_000  # readouts of an analysis that nobody stops; memory is taken as they are made


class Position(NamedTuple):
    """To come back to: the state [S] and the keys [t] of all positions of its game so far."""

    state: NDArray[np.int16]
    keys: KeyArray


class SearchedRow:
    """One row of a search, to read: where its game stands, and what was found there so far."""

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
        """What was found so far; see search/candidates.py. Empty before the first batch."""
        return self._search.candidates(int(self._row[0]))

    def room(self) -> int:
        """How many readouts may still be added to the tree."""
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
    """How many readouts a search needs room for where whoever asks may want more than `readouts`.

    Gumbel divides its budget from the start, so it never gets more. Mixed searches of whoever plays are by PUCT.
    """
    return readouts if config.algorithm == "gumbel" else max(readouts, LEAST_ROOM)


class SearchSession(SearchedRow):
    """A SearchPlayer of one row, with a clock. It keeps its tree from move to move; taking a move back drops it.

    readouts  of a search at most, where nothing else is said; 0: the raw policy
    """

    def __init__(self, game: Game, evaluate: Evaluate, config: SearchOptions, readouts: int, leaves: int = 1) -> None:
        """evaluate: for batches of up to `leaves` positions of the one tree."""
        self.readouts = readouts
        self._make_player = lambda game: SearchPlayer(game, 1, evaluate, config, tree_room(config, readouts), leaves)
        self._before: list[tuple[Position, int]] = []
        self._player = self._make_player(game)
        super().__init__(self._player.search)
        self.restart()

    @property
    def most_readouts(self) -> int:
        """Of a search that begins with an empty tree, whatever is asked for."""
        return self._search.max_readouts

    def change_game(self, game: Game) -> None:
        """Go on with another game that the network can play: at the same position if that differs by its setup alone,
        else at the initial one.
        """
        before, here = self._before, self.here()
        same_board = game.board_shape == self.game.board_shape
        self._player = self._make_player(game)
        super().__init__(self._player.search)
        self.restart()
        if same_board:
            self._before = [(self._adopted(position), action) for position, action in before]
            self.go_to(self._adopted(here))

    def _adopted(self, position: Position) -> Position:
        return Position(self.game.adopt(position.state[None])[0], position.keys)

    def warm_up(self) -> None:
        """Do everything twice, so that nothing is compiled on a move's time; then restart.

        Uses few readouts, however many a move will get: a manager is waiting.
        """
        readouts = min(self.readouts, WARM_UP_READOUTS)
        for _ in range(2):
            self.think(None, readouts)
            self.play(self.think(0.0, readouts))
        self.restart()

    # The game

    def restart(self, state: States | None = None) -> None:
        """Begin at this position [1, S], or at the initial one."""
        self._player.new_games(ROW, np.zeros(1, np.uint64))
        self._before = []
        if state is not None:
            self._search.place(0, state[0], self.game.keys(state))

    @property
    def moves(self) -> list[int]:
        """The actions since the last restart."""
        return [action for _, action in self._before]

    @property
    def is_over(self) -> bool:
        return bool(self.game.is_over(self.state)[0])

    def play(self, action: int, player: int | None = None) -> None:
        """Make a move, for this player (None: whose turn it is). Raises IllegalMove; then nothing has changed.

        Out of turn, or where the game is over, only games that can_set_up go on, and those that play_on() knows.
        """
        before = self.here()
        try:
            self.play_on()
            if player is not None:
                self.set_turn(player)
            self._player.advance(ROW, np.array([action], np.int32))
        except IllegalMove:
            self.go_to(before)
            raise
        self._before.append((before, action))

    def play_on(self) -> None:
        """Where the game has ended, let it go on if Game.played_on does."""
        if self.is_over:
            self._search.place(0, self.game.played_on(self.state)[0], self.here().keys)

    def undo(self) -> int:
        """Take the last move back and return it. Raises IllegalMove if there is none."""
        if not self._before:
            raise IllegalMove(f"{self.game.spec}: no move to take back")
        before, action = self._before.pop()
        self.go_to(before)
        return action

    def set_turn(self, player: int) -> None:
        """Make it this player's turn. Raises IllegalMove where the game knows no turn out of order."""
        if player == self.to_move and not self.is_over:
            return
        if not self.game.can_set_up:
            raise IllegalMove(f"{self.game.spec}: {'the game is over' if self.is_over else 'out of turn'}")
        self._search.place(0, self.game.with_turn(self.state, player)[0], self.here().keys)

    def go_to(self, position: Position) -> None:
        """Stand there, with the same moves to take back; the tree is dropped unless that is where we are."""
        if not np.array_equal(self.state[0], position.state):
            self._search.place(0, position.state, position.keys)

    def drop_tree(self) -> None:
        """Forget what was found here."""
        here = self.here()
        self._search.place(0, here.state, here.keys)

    # The search

    def thinking(self, readouts: int | None = None) -> Generator[None, None, None]:
        """Search the position, a batch of the network per step, until it has had its readouts or there is no room.

        readouts: None as many as the session's. Whoever stops in the middle keeps what was found; the first step
        evaluates the position itself. The game must not be over. Raises MuGoError if the network's answer isn't finite.
        """
        self._player.readouts = min(self.readouts if readouts is None else readouts, self._search.room(0))
        self._player.begin(ROW)
        try:
            while not self._player.step().rows.size:
                yield
        finally:
            self._player.drop(ROW)

    def think(self, seconds: float | None, readouts: int | None = None) -> int:
        """The move to play, without playing it. seconds: when to stop; None: as long as it takes.

        The clock is read after every batch, so at most one more batch is evaluated when the time is up.
        """
        until = np.inf if seconds is None else time.monotonic() + seconds
        self.search_until(lambda: time.monotonic() >= until, readouts)
        return self.best()

    def search_until(self, enough: Callable[[], bool], readouts: int | None = None) -> None:
        """thinking() until this is true after a batch."""
        with contextlib.closing(self.thinking(readouts)) as batches:
            for _ in batches:
                if enough():
                    return

    def best(self) -> int:
        """The move that the search so far prefers. At least one batch must have been searched since the last move."""
        return int(self._search.choose(ROW, np.zeros(1, np.float32))[0])
