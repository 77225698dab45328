"""``GameInProgress``: one game of any kind whose moves can be taken back; ``PlayerOpponent``: any player in it;
``FairDice``: its throws.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.capabilities import AnyPosition
from pipeline.games.contract import CHANCE, Actions, AnyGame, Game, History, KeyArray, States
from pipeline.players.player import Player

ROW = np.array([0])
PATIENCE_SECONDS = 0.05


class Position(NamedTuple):
    """A position to come back to: the state [S], and the keys [t] of all positions of its game so far."""

    state: NDArray[np.int16]
    keys: KeyArray

    @property
    def states(self) -> States:
        """[1, S]"""
        return self.state[None]

    @property
    def history(self) -> History:
        return History(self.keys[None], np.array([len(self.keys)], np.int32))


@dataclass(frozen=True)
class Line:
    """A position by the moves that lead to it.

    start  [1, S] where they begin; None: at the game's initial position
    moves  (player, action), with CHANCE as the player of a throw
    """

    game: Any
    start: States | None
    moves: tuple[tuple[int, int], ...]


def with_turn(game: AnyGame, states: States, player: int, history: History | None = None) -> States:
    """The position [1, S] with this player to move. Raises IllegalMove where the game allows no move out of turn.

    A pass that is the only move may be left out, as many programs do. history: what led here; None: nothing.
    """
    over = bool(game.is_over(states)[0])
    if player == game.to_move(states)[0] and not over:
        return states
    if not isinstance(game, AnyPosition):
        if not over and (passed := _after_only_pass(game, states, history)) is not None:
            return passed
        raise IllegalMove(f"{game.spec}: {'the game is over' if over else 'out of turn'}")
    return game.with_turn(states, player)


def _after_only_pass(game: AnyGame, states: States, history: History | None) -> States | None:
    """None if there are other moves, or if the game is over then."""
    if not isinstance(game, Game) or game.pass_action is None:
        return None
    history = history or game.initial_history(states)
    if np.flatnonzero(game.legal(states, history)[0]).tolist() != [game.pass_action]:
        return None
    after = game.play(states, np.array([game.pass_action], np.int32), history)
    return None if game.is_over(after)[0] else after


class FairDice:
    """Dice that can be checked: a secret seed is committed to before the game and shown after it.

    The *commitment* is the SHA-256 of the seed's text. The n-th throw of a game (n = 1, 2, …) comes from the first 8
    bytes of the SHA-256 of ``SEED:n``, as a fraction of 2^64, and from the game's own probabilities. So nobody can
    change a throw after the commitment is shown, and the dice are the same again after a move is taken back.
    """

    def __init__(self, seed: str | None = None) -> None:
        """seed: for a game that must be repeatable; None: a random one of 128 bits."""
        self.seed = seed or secrets.token_hex(16)
        self.commitment = hashlib.sha256(self.seed.encode()).hexdigest()

    def outcome(self, game: AnyGame, state: States, number: int) -> int:
        """The outcome of chance in a state [1, S] where it is to move. number: of the throw in its game, from 1."""
        digest = hashlib.sha256(f"{self.seed}:{number}".encode()).digest()
        share = Fraction(int.from_bytes(digest[:8], "big"), 2**64)
        bounds = np.cumsum(game.chance(state)[0], dtype=np.float64)
        return int((bounds <= float(share) * bounds[-1]).sum())


class GameInProgress:
    """One game, up to its present position. Throws come from FairDice as soon as they are due.

    start      [1, S] where it began; None: at the game's initial position
    moves      (player, action), with CHANCE as the player of a throw
    positions  the position before each move, and the present one
    resigned   the player who has resigned after the last move; None: nobody
    """

    def __init__(self, game: Any, start: States | None = None, dice: FairDice | None = None) -> None:
        """dice: wanted for games with chance."""
        self.game, self.dice, self.start = game, dice, start
        states = game.initial(1) if start is None else start
        self.moves: list[tuple[int, int]] = []
        self.positions = [Position(states[0].copy(), game.keys(states))]
        self.resigned: int | None = None
        self._throw()

    @property
    def states(self) -> States:
        """[1, S], the present position."""
        return self.positions[-1].states

    @property
    def actions(self) -> list[int]:
        """The moves without their players."""
        return [action for _, action in self.moves]

    @property
    def to_move(self) -> int:
        return int(self.game.to_move(self.states)[0])

    @property
    def has_ended(self) -> bool:
        """Whether it is over by its rules."""
        return bool(self.game.is_over(self.states)[0])

    @property
    def is_over(self) -> bool:
        return self.resigned is not None or self.has_ended

    def choices(self) -> Actions:
        """The legal actions."""
        return self.game.moves(self.states, self.positions[-1].history).of(0)

    def name_of(self, action: int) -> str:
        """The name of a move in the present position."""
        return self.game.move_name(self.positions[-1].state, action)

    def line(self, ply: int | None = None) -> Line:
        """How the position before move `ply` came about; None: the present one."""
        return Line(self.game, self.start, tuple(self.moves[:ply]))

    def play(self, action: int, player: int | None = None) -> None:
        """Make a move, and the throw after it. Raises IllegalMove; then nothing has changed.

        player: who moves; None: whose turn it is. Moves out of turn or after the end, as records have them, are
        allowed as with_turn says, and after an end that Game.played_on takes back.
        """
        game, before = self.game, self.positions[-1]
        states = game.played_on(before.states)
        if player is not None:
            states = with_turn(game, states, player, before.history)
        after = game.play(states, np.array([action], np.int32), before.history)
        self.positions.append(Position(after[0], np.append(before.keys, game.keys(after))))
        self.moves.append((int(game.to_move(states)[0]), action))
        self._throw()

    def cut(self, ply: int) -> None:
        """Take back move number `ply`, counted from 0, and all after it. Dice will fall the same again."""
        self.resigned = None
        del self.moves[ply:], self.positions[ply + 1 :]

    def undo(self, player: int | None) -> None:
        """Take back this player's resignation, or else their last move and all after it. None: either player's.

        Raises IllegalMove if there is none; then nothing has changed.
        """
        if self.resigned is not None and player in (None, self.resigned):
            self.resigned = None
            return
        plies = [ply for ply, (mover, _) in enumerate(self.moves) if mover != CHANCE and player in (None, mover)]
        if not plies:
            raise IllegalMove("there is no move of yours to take back")
        self.cut(plies[-1])

    def _throw(self) -> None:
        if self.dice is not None and not self.is_over and self.to_move == CHANCE:
            number = 1 + sum(mover == CHANCE for mover, _ in self.moves)
            self.play(self.dice.outcome(self.game, self.states, number))


class PlayerOpponent:
    """A player of one row that chooses moves in games in progress. Thread-safe: it thinks about one at a time."""

    def __init__(self, name: str, player: Player, seed: int | None = None) -> None:
        """seed: of the player's random choices; None: different every time."""
        self.name = name
        self._player, self._lock = player, threading.Lock()
        self._rng = np.random.default_rng(seed)

    def choose(self, line: Line) -> tuple[int, float | None]:
        """(the player's next move or RESIGN, the value that it gives the position; None if it estimates none).

        Replays the line, because a player knows nothing of moves taken back. Raises PlayerFault.
        """
        with self._lock:
            player = self._player
            player.new_games(ROW, self._rng.integers(0, 2**63, 1, np.uint64))
            if line.start is not None:
                player.set_up(ROW, line.start, [()])
            for _, action in line.moves:
                player.advance(ROW, np.array([action], np.int32))
            player.begin(ROW)
            while True:
                found = player.step()
                if found.faults:
                    raise found.faults[0]
                if found.rows.size:
                    value = float(found.values[0])
                    return int(found.actions[0]), None if np.isnan(value) else value
                if not found.worked:
                    player.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self._player.close()
