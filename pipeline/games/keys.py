"""A 64-bit position key stored in a state's int16 words, for kernels of games that keep it there."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.compiled_kernels import kernel


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
