"""``FeatureGame``: what method td requires of a game.

Axes as in games/contract.py; F features, X tactical features, W words of a state.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import BoolArray, FloatArray, States, SuccessorGame


@dataclass(frozen=True)
class FeatureTables:
    """A game's features as a sum over words of a state: then a network's first layer can follow a move cheaply.

    Seen by the player v whose turn it is, a state has the features fixed + Σ_w tables[v, w, state[words[w]] - lowest].

    words   [W] int64, indices into a state        tables  [2, W, V, F] float32; V: number of values of a word
    lowest  the least value of a word, at most 0   fixed   [F] float32
    """

    words: NDArray[np.int64]
    lowest: int
    tables: FloatArray
    fixed: FloatArray


class FeatureGame(SuccessorGame):
    """A game whose positions have features: a list of F numbers that a network sees."""

    num_features: int  # F
    num_tactical_features: int = 0  # X: features that aren't sums over a state's words
    has_structures = False  # whether structures() can ever be true

    @abstractmethod
    def turns(self, states: States) -> NDArray[np.int8]:
        """[B] int8: whose turn it is, 0 or 1, before an outcome of chance as well as after it."""

    @abstractmethod
    def features(self, states: States, viewers: NDArray[np.int8] | None = None) -> FloatArray:
        """[B, F] float32. viewers [B]: who sees each position; None: the player whose turn it is."""

    def tactical_features(self, states: States, viewers: NDArray[np.int8] | None = None) -> FloatArray:
        """[B, X] float32, like features(); of positions where the game isn't over."""
        return np.zeros((len(states), 0), np.float32)

    @abstractmethod
    def feature_tables(self) -> FeatureTables:
        """The tables whose sums are features() for the player whose turn it is, up to rounding."""

    def structures(self, states: States, players: NDArray[np.int8]) -> BoolArray:
        """[B, 2] whether a player [B] has closed the other out, and has a prime of five points, in states [B, S]."""
        raise NotImplementedError(f"{self.spec} has no structures to reward")
