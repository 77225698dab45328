"""``AfterstateNetwork``: evaluates afterstates, the positions after each possible turn, of many games at once.

The network is one hidden layer of sigmoids over a game's features, followed by one or five sigmoids (outcomes.py). With
a size like h80t its inputs also include the game's tactical features, after the features. Its weights are arrays:
hidden.weight [H, F], hidden.bias [H], output.weight [O, H], output.bias [O]. It evaluates a position for the player
whose turn it is, so the player who has just moved prefers low values. Finished games use their exact results instead.

Axes: B positions before a move, N their successors, O outputs, H hidden units, F inputs.
"""

from __future__ import annotations

import re

import numpy as np

from pipeline.errors import MuGoError, UsageError
from pipeline.families.backgammon.feature_game import FeatureGame
from pipeline.families.backgammon.td import kernels
from pipeline.families.backgammon.td.outcomes import chances_of, values_of
from pipeline.games.contract import FloatArray, States, Successors

Weights = dict[str, FloatArray]

MOST_HIDDEN = 4096


def parse_hidden(size: str) -> tuple[int, bool]:
    """(hidden units, whether tactical features are inputs) of a network size like h80 or h80t. Raises UsageError."""
    found = re.fullmatch(r"h([1-9][0-9]{0,3})(t?)", size)
    if found is None or int(found[1]) > MOST_HIDDEN:
        raise UsageError(
            f"network size {size!r}: wanted hN with N hidden units, 1 to {MOST_HIDDEN}, e.g. h80, or hNt with tactics"
        )
    return int(found[1]), bool(found[2])


def weight_shapes(num_features: int, hidden: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {
        "hidden.weight": (hidden, num_features),
        "hidden.bias": (hidden,),
        "output.weight": (outputs, hidden),
        "output.bias": (outputs,),
    }


def random_weights(num_features: int, hidden: int, outputs: int, seed: int) -> Weights:
    """Uniform in ±1/sqrt(inputs), so that outputs are nearly constant."""
    rng = np.random.default_rng(seed)
    reach = {"hidden": num_features**-0.5, "output": hidden**-0.5}
    return {
        name: (rng.uniform(-1, 1, shape) * reach[name.partition(".")[0]]).astype(np.float32)
        for name, shape in weight_shapes(num_features, hidden, outputs).items()
    }


def check_weights(weights: Weights, num_features: int) -> tuple[int, int]:
    """(hidden units, outputs). Raises MuGoError unless these are the weights of a network with num_features inputs."""
    hidden, outputs = (len(weights.get(f"{part}.bias", ())) for part in ("hidden", "output"))
    wanted = weight_shapes(num_features, hidden, outputs)
    found = {name: array.shape for name, array in weights.items()}
    if found != wanted or outputs not in (1, 5):
        raise MuGoError(f"its weights are {found}; wanted {wanted} with one or five outputs")
    return hidden, outputs


class AfterstateNetwork:
    """A game's network. Thread-safe. outputs: O."""

    def __init__(self, game: FeatureGame, weights: Weights) -> None:
        """Raises MuGoError if the weights don't fit this game."""
        self.game = game
        num_inputs = game.num_features + game.num_tactical_features
        self._sees_tactics = np.shape(weights.get("hidden.weight", ()))[-1:] == (num_inputs,)
        hidden, self.outputs = check_weights(weights, num_inputs if self._sees_tactics else game.num_features)
        parts = game.feature_tables()
        first, tactics = np.split(weights["hidden.weight"].astype(np.float32), [game.num_features], axis=1)
        self._tactics_weights = np.ascontiguousarray(tactics.T)
        tables = parts.tables @ first.T  # [2, W, V, H]
        # Move the contribution of words that are 0 into the bias.
        zero = tables[:, :, -parts.lowest]
        self._bias = (weights["hidden.bias"] + first @ parts.fixed + zero.sum(axis=1)[0]).astype(np.float32)
        assert np.allclose(zero.sum(axis=1)[0], zero.sum(axis=1)[1], atol=1e-5), "an empty board depends on the viewer"
        tables = np.ascontiguousarray((tables - zero[:, :, None]).reshape(2, -1, hidden), np.float32)
        self._parts = (parts.words, parts.lowest, tables)
        self._output = tuple(np.ascontiguousarray(weights[f"output.{name}"], np.float32) for name in ("weight", "bias"))

    def outputs_of(self, before: States, found: Successors) -> FloatArray:
        """[N, O]: the outputs for found, the successors of before [B, S], seen by the player whose turn it is.

        Not exact where the game is over.
        """
        if not len(found.states):
            return np.zeros((0, self.outputs), np.float32)
        first = np.minimum(found.offsets[:-1], len(found.states) - 1)
        viewers = self.game.turns(found.states[first])
        none = np.zeros((len(found.states), 0), np.float32)
        tactics = self.game.tactical_features(found.states) if self._sees_tactics else none
        inputs = before, found.offsets, found.states, viewers, *self._parts, self._bias
        chances: FloatArray = kernels.evaluate(*inputs, tactics, self._tactics_weights, *self._output)
        return chances

    def chances(self, before: States, found: Successors) -> FloatArray:
        """Like outputs_of, with exact results where the game is over."""
        chances = self.outputs_of(before, found)
        over = np.flatnonzero(self.game.is_over(found.states))
        if over.size:
            chances[over] = self.exact(found.states[over])
        return chances

    def chances_at(self, states: States) -> FloatArray:
        """[B, O] of single positions [B, S]."""
        return self.chances(states, Successors(np.arange(len(states) + 1), states))

    def exact(self, states: States) -> FloatArray:
        """[B, O] of finished games."""
        results = self.game.returns(states)
        turned = np.where(self.game.turns(states) == 0, results, -results)
        return chances_of(turned, self.outputs, self.game.max_result)

    def values(self, chances: FloatArray) -> FloatArray:
        """[N] expected points, from the same viewpoint as chances [N, O]."""
        return values_of(chances, self.game.max_result)
