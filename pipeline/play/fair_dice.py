"""Dice that nobody can have chosen: a secret seed that is committed to before the game and shown after it.

The *commitment* is the SHA-256 of the seed's text. The n-th throw of a game (n = 1, 2, …) comes from the first 8 bytes
of the SHA-256 of ``SEED:n``, as a fraction of 2^64, and the game's own probabilities. So the server or program can't
change a throw once the commitment has been seen, a move that is taken back meets the same dice again, and whoever is
shown the seed at the end can check every throw. Axes: O outcomes of chance.
"""

from __future__ import annotations

import hashlib
import secrets
from fractions import Fraction

import numpy as np

from pipeline.games.contract import AnyGame, States


class FairDice:
    """seed: text, kept secret until the game is over; commitment: to be shown before it begins."""

    def __init__(self, seed: str | None = None) -> None:
        """seed: a fixed one, for games that must be repeated; None: a fresh one of 128 bits."""
        self.seed = seed or secrets.token_hex(16)
        self.commitment = hashlib.sha256(self.seed.encode()).hexdigest()

    def outcome(self, game: AnyGame, state: States, number: int) -> int:
        """What chance does in a state [1, S] where it is to move. number: of the throw in its game, from 1."""
        digest = hashlib.sha256(f"{self.seed}:{number}".encode()).digest()
        share = Fraction(int.from_bytes(digest[:8], "big"), 2**64)
        bounds = np.cumsum(game.chance(state)[0], dtype=np.float64)
        return int((bounds <= float(share) * bounds[-1]).sum())
