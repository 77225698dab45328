"""``DiceGame``: a game with chance that can be taken back; ``PlayerOpponent``: any player as a person's opponent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.games.contract import CHANCE, Actions, AnyGame, States
from pipeline.play.fair_dice import FairDice
from pipeline.players.player import Player

ROW = np.array([0])
PATIENCE_SECONDS = 0.05


class DiceGame:
    """A game whose throws come from FairDice, made as soon as they are due. moves: throws among them."""

    def __init__(self, game: AnyGame, dice: FairDice) -> None:
        self.game, self.dice = game, dice
        self.moves: list[int] = []
        self._movers: list[int] = []  # of each move
        self._states = [game.initial(1)]
        self._throw()

    @property
    def state(self) -> States:
        """[1, S]"""
        return self._states[-1]

    @property
    def to_move(self) -> int:
        return int(self.game.to_move(self.state)[0])

    @property
    def is_over(self) -> bool:
        return bool(self.game.is_over(self.state)[0])

    def actions(self) -> Actions:
        """What may be played."""
        return self.game.moves(self.state, self.game.initial_history(self.state)).of(0)

    def play(self, action: int) -> None:
        """A move, and the throw after it. Raises IllegalMove."""
        self._play(action)
        self._throw()

    def undo_to(self, player: int | None) -> None:
        """Back to where this player (None: either) moved last, with the same dice.

        Raises IllegalMove if they haven't moved; then nothing has changed.
        """
        movers = self._movers
        last = max((ply for ply, mover in enumerate(movers) if mover != CHANCE and player in (None, mover)), default=-1)
        if last < 0:
            raise IllegalMove("there is no turn of yours to take back")
        del self.moves[last:], self._movers[last:], self._states[last + 1 :]

    def _play(self, action: int) -> None:
        after = self.game.play(self.state, np.array([action], np.int32), self.game.initial_history(self.state))
        self._movers.append(self.to_move)
        self._states.append(after)
        self.moves.append(action)

    def _throw(self) -> None:
        while not self.is_over and self.to_move == CHANCE:
            self._play(self.dice.outcome(self.game, self.state, self._movers.count(CHANCE) + 1))


class PlayerOpponent:
    """A player of one row that is asked about positions of a DiceGame, one at a time."""

    def __init__(self, name: str, player: Player, seed: int | None) -> None:
        """seed: of what it leaves to chance; None: another every time."""
        self.name = name
        self._player = player
        self._rng = np.random.default_rng(seed)

    def choose(self, moves: Sequence[int]) -> tuple[int, float | None]:
        """(its move after these, or RESIGN; what it thinks the position is worth to the player to move, if it says so).

        moves: of the DiceGame. Plays the game again for the player, which knows nothing of moves taken back. Raises
        PlayerFault.
        """
        self._player.new_games(ROW, self._rng.integers(0, 2**63, 1, np.uint64))
        for move in moves:
            self._player.advance(ROW, np.array([move], np.int32))
        self._player.begin(ROW)
        while True:
            found = self._player.step()
            if found.faults:
                raise found.faults[0]
            if found.rows.size:
                value = float(found.values[0])
                return int(found.actions[0]), None if np.isnan(value) else value
            if not found.worked:
                self._player.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self._player.close()
