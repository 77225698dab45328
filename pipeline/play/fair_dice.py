"""Dice that can be checked: a secret seed is committed to before the game and shown after it.

The *commitment* is the SHA-256 of the seed's text. The n-th throw of a game (n = 1, 2, …) comes from the first 8 bytes
of the SHA-256 of ``SEED:n``, as a fraction of 2^64, and from the game's own probabilities. So nobody can change a throw
after the commitment is shown, the dice are the same again after a move is taken back, and the person can check every
throw with the seed.
"""

from __future__ import annotations

import hashlib
import secrets
from fractions import Fraction

import numpy as np

from pipeline.games.contract import AnyGame, States


class FairDice:
    """seed: text, secret until the game is over. commitment: shown before the game begins."""

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
