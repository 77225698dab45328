"""Tic-tac-toe solved: every position, its value under perfect play and under a policy."""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import History
from pipeline.games.specs import parse_game


class Solved:
    """The N reachable positions of tic-tac-toe that aren't over, and the values of their moves.

    states [N, S]; legal [N, A]; policy [N, A] some policy of arbitrary logits [N, A]; values of the player to move:
    best [N] under perfect play of both, best_q [N, A]; value [N] if both play the policy, q [N, A]. 0 if illegal.
    """

    def __init__(self, seed: int = 0) -> None:
        game = self.game = parse_game("tictactoe")
        layers = [game.initial(1)]
        while True:
            states, actions = self._moves(layers[-1])
            after = np.unique(game.play(states, actions, self._past(states)), axis=0)
            after = after[~game.is_over(after)]
            if not len(after):
                break
            layers.append(after)
        self.states = np.concatenate(layers)
        n = len(self.states)
        self.legal, planes = game.legal_and_observe(self.states, self._past(self.states))
        self._index = {plane.tobytes(): i for i, plane in enumerate(planes)}
        self.logits = np.random.default_rng(seed).normal(0, 1, (n, 9)).astype(np.float32)
        weights = np.where(self.legal, np.exp(self.logits.astype(np.float64)), 0)
        self.policy = weights / weights.sum(axis=1, keepdims=True)
        self.best, self.value = np.zeros(n), np.zeros(n)
        self.best_q, self.q = np.zeros((n, 9)), np.zeros((n, 9))
        ends = np.cumsum([len(layer) for layer in layers])
        for begin, end in reversed(list(zip(ends - [len(layer) for layer in layers], ends, strict=True))):
            rows, actions = np.nonzero(self.legal[begin:end])
            rows += begin
            after = game.play(self.states[rows], actions.astype(np.int32), self._past(self.states[rows]))
            over = game.is_over(after)
            won = np.abs(game.returns(after))  # nobody loses by a move of its own
            below = np.zeros(len(rows), int)
            below[~over] = self.indexes(game.legal_and_observe(after[~over], self._past(after[~over]))[1])
            self.best_q[rows, actions] = np.where(over, won, -self.best[below])
            self.q[rows, actions] = np.where(over, won, -self.value[below])
            span = slice(begin, end)
            self.best[span] = np.where(self.legal[span], self.best_q[span], -2).max(axis=1)
            self.value[span] = (self.policy[span] * self.q[span]).sum(axis=1)

    def indexes(self, planes):
        """[K] which positions these planes [K, C, H, W] show."""
        return np.array([self._index[plane.tobytes()] for plane in planes], np.int64)

    def evaluator(self, values):
        """A network that returns the policy's logits and these values [N]."""

        def evaluate(planes):
            found = self.indexes(planes)
            return self.logits[found], values[found].astype(np.float32)

        return evaluate

    def _past(self, states):
        return History.empty(len(states), 11)

    def _moves(self, states):
        rows, actions = np.nonzero(self.game.legal(states, self._past(states)))
        return states[rows], actions.astype(np.int32)
