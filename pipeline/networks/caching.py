"""An evaluation cache: positions that a network was asked about before are looked up instead.

Worth it where different moves often lead to the same position and a network's input holds no history: connect four, not
Go. A row's result doesn't depend on the batch (see ``backends.MIN_BATCH``), so games are the same with and without it.

One thread, one cache, no locks. Direct-mapped: a position that falls into a taken place replaces what stands there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from pipeline.networks.backends import Evaluation, Planes

Evaluate = Callable[[Planes], Evaluation]

EMPTY = np.uint64(0)


@njit(cache=True, nogil=True)
def hash_rows(rows, keys):  # type: ignore[no-untyped-def]
    """Fill keys [n] uint64 with a hash of each of rows [n, m] uint8, never EMPTY. Plain twin: hash_plain."""
    for i in range(rows.shape[0]):
        key = np.uint64(0xCBF29CE484222325)
        for j in range(rows.shape[1]):
            key = (key ^ np.uint64(rows[i, j])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        keys[i] = max(key, np.uint64(1))


def hash_plain(row: bytes) -> int:
    """The same of one row, slow and obvious."""
    key, low = 0xCBF29CE484222325, (1 << 64) - 1
    for byte in row:
        key = ((key ^ byte) * 0x9E3779B97F4A7C15) & low
        key ^= key >> 29
    return max(key, 1)


class CachedEvaluator:
    """``evaluate`` with a memory of so many positions, rounded up to a power of two.

    Two positions with the same 64-bit hash would be taken for one: for a million positions that is one chance in 4·10⁷.
    asked, found: positions so far, and how many of them were looked up.
    """

    def __init__(self, evaluate: Evaluate, positions: int, num_actions: int) -> None:
        size = 1 << max(0, positions - 1).bit_length()
        self._evaluate = evaluate
        self._mask = np.uint64(size - 1)
        self._keys = np.full(size, EMPTY, np.uint64)
        self._logits = np.empty((size, num_actions), np.float32)
        self._values = np.empty(size, np.float32)
        self.asked = self.found = 0

    def __call__(self, planes: Planes) -> Evaluation:
        """planes [K, C, H, W] uint8 → policy_logits [K, A], value_to_move [K], the caller's own."""
        keys = np.empty(len(planes), np.uint64)
        hash_rows(planes.reshape(len(planes), math.prod(planes.shape[1:])), keys)
        places = (keys & self._mask).astype(np.int64)
        known = self._keys[places] == keys
        self.asked += len(planes)
        self.found += int(known.sum())
        logits, values = self._logits[places], self._values[places]
        if not known.all():
            new = np.flatnonzero(~known)
            logits[new], values[new] = self._evaluate(planes[new])
            self._keys[places[new]] = keys[new]
            self._logits[places[new]] = logits[new]
            self._values[places[new]] = values[new]
        return logits, values
