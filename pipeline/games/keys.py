"""64-bit position keys: made of a state's words, or kept in four of them by the kernels of a game."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import KeyArray, States


def hashed(words: States) -> KeyArray:
    """[B] the keys of words [B, W]: the same for equal rows, different for others, but for one pair in 2⁶⁴.

    Each word is mixed with its place as SplitMix64 does (Steele, Lea, Flood 2014).
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = words.astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + places
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))).sum(axis=1, dtype=np.uint64))


@kernel
def load_key(state, at):
    """The uint64 stored in four int16 words from index `at`, lowest 16 bits first."""
    key = np.uint64(0)
    for word in range(4):
        key |= np.uint64(np.uint16(state[at + word])) << np.uint64(16 * word)
    return key


@kernel
def store_key(state, at, key):
    """The inverse of load_key. Changes state."""
    for word in range(4):
        state[at + word] = np.int16(np.uint16((key >> np.uint64(16 * word)) & np.uint64(0xFFFF)))


@kernel
def load_keys(states, before_end):
    """-> [B] uint64, the keys of states [B, S]; before_end: words from a key's beginning to the state's end."""
    num_rows, state_size = states.shape
    found = np.empty(num_rows, np.uint64)
    for row in range(num_rows):
        found[row] = load_key(states[row], state_size - before_end)
    return found
