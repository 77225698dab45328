"""``OpenAiPlayer``: a language model behind an API as a player of text games.

Each waiting row is a request of its own. What the model answers is read as a language model's answer is: an answer that
names no legal action, or an empty one, is an invalid move. A request that fails makes its row faulty.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, wait

import numpy as np

from pipeline.families.text.chat_api import ChatApi
from pipeline.families.text.game import TextGame
from pipeline.families.text.language.prompts import CHAT_TASKS, READINGS
from pipeline.families.text.player_kind import ApiOptions
from pipeline.games.contract import Actions, KeyArray, Rows
from pipeline.players.player import BoardsPlayer, Decisions, PlayerFault


class OpenAiPlayer(BoardsPlayer):
    """See the module docstring. One thread uses it; other players of the process may share the model."""

    def __init__(self, game: TextGame, num_rows: int, options: ApiOptions, model: ChatApi) -> None:
        super().__init__(game, num_rows)
        self._game, self._model = game, model
        self._most = options.tokens
        self._reading = READINGS[options.reading]
        system = CHAT_TASKS[options.reading] if options.system is None else options.system
        self._before = [{"role": "system", "content": system}] if system else []
        self._asked: dict[int, Future[str]] = {}  # by row

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self.drop(rows)
        super().new_games(rows, seeds)

    def advance(self, rows: Rows, actions: Actions) -> None:
        self.drop(rows)
        super().advance(rows, actions)

    def begin(self, rows: Rows) -> None:
        """Games that are further on are answered first, so that few are lost if the command is killed."""
        self.drop(rows)
        super().begin(rows)
        states = self._boards.states[rows]
        for row, state, plies in zip(rows.tolist(), states, self._game.plies(states).tolist(), strict=True):
            messages = [*self._before, {"role": "user", "content": self._game.observation(state)}]
            self._asked[row] = self._model.ask(messages, self._most, -plies)

    def drop(self, rows: Rows) -> None:
        super().drop(rows)
        for row in rows.tolist():
            if row in self._asked:
                self._asked.pop(row).cancel()

    def step(self) -> Decisions:
        """The answers that have arrived; doesn't wait. Raises PlayerUnavailable."""
        actions: dict[int, int] = {}
        faults: dict[int, PlayerFault] = {}
        for row in [row for row, answer in self._asked.items() if answer.done()]:
            try:
                text = self._asked.pop(row).result()
            except PlayerFault as fault:
                faults[row] = fault
            else:
                actions[row] = self._game.answered(self._boards.states[row], self._reading(text), text)
            self._wanted[row] = False
        return Decisions.arrived(actions, faults)

    def wait(self, seconds: float) -> None:
        wait(self._asked.values(), seconds, FIRST_COMPLETED)

    def close(self) -> None:
        self.drop(np.array(list(self._asked), np.int64))
