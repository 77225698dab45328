"""Kernels of afterstate networks: one hidden layer of sigmoids over features that are a sum over a state's words.

The first layer of a position is a sum over words. A successor differs in a few words, so its first layer is updated for
those words only. Plain twin: tests/reference/afterstates.py.

Axes: B positions before a move, N successors of all positions, S state words, W words with features, V values of a
word, H hidden units, O outputs. Results don't depend on the rest of a batch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import make_kernel
from pipeline.games.contract import FloatArray, States

# Lets sums over hidden units be reordered and vectorised, and divisions skip the check for zero.
kernel = make_kernel(fastmath=True, error_model="numpy")

# Sigmoids of outputs are computed in blocks of exactly this size. The remainder of a vectorised loop is rounded
# differently, so without full blocks an output would depend on its index.
BLOCK = 512

ONE, HALF = np.float32(1), np.float32(0.5)
STEEPEST = np.float32(30)  # beyond ±30 a sigmoid is 0 or 1 up to rounding
TO_BITS = np.float32(-math.log2(math.e))
# Taylor series of exp2 on [-1/2, 1/2]; the seventh term is below the last bit of a float32.
C1, C2, C3, C4, C5, C6 = (np.float32(math.log(2) ** k / math.factorial(k)) for k in range(1, 7))
EXPONENT, BIAS = np.int32(23), np.int32(127)  # of a float32: the exponent's first bit and its bias


@kernel
def apply_sigmoid(x: FloatArray, bits: NDArray[np.int32], powers: FloatArray) -> None:
    """Replace x [H] by 1 / (1 + exp(-x)). bits, powers [≥ H]: scratch, two views of the same memory."""
    for h in range(len(x)):
        exponent = min(max(x[h], -STEEPEST), STEEPEST) * TO_BITS
        whole = np.floor(exponent + HALF)
        bits[h] = (np.int32(whole) + BIAS) << EXPONENT  # powers[h] is then 2 ** whole
        part = exponent - whole
        x[h] = ONE + part * (C1 + part * (C2 + part * (C3 + part * (C4 + part * (C5 + part * C6)))))
    for h in range(len(x)):
        x[h] = ONE / (ONE + x[h] * powers[h])


@kernel
def evaluate(
    before: States,
    offsets: NDArray[np.int64],
    after: States,
    viewers: NDArray[np.int8],
    words: NDArray[np.int64],
    lowest: int,
    tables: FloatArray,
    bias: FloatArray,
    tactics: FloatArray,
    tactics_weights: FloatArray,
    output_weights: FloatArray,
    output_bias: FloatArray,
) -> FloatArray:
    """-> [N, O] float32: the outputs for after [N, S], the successors of before [B, S].

    offsets [B + 1]: see games/contract.py, Successors; viewers [B]: the viewer of a row's successors
    tables [2, W * V, H]: contribution of a word's value to the hidden units, zero for value 0     bias [H]
    tactics [N, X], tactics_weights [X, H]: inputs that are not sums over words, and their weights; X may be 0
    output_weights [O, H], output_bias [O]
    """
    num_hidden, num_outputs, num_words = len(bias), len(output_bias), len(words)
    num_values = tables.shape[1] // num_words
    nothing = -lowest  # a table row of zeros: word 0 with value 0
    out = np.empty((len(after), num_outputs), np.float32)
    base, hidden = np.empty(num_hidden, np.float32), np.empty(num_hidden, np.float32)
    bits = np.empty(max(num_hidden, BLOCK), np.int32)
    powers = bits.view(np.float32)
    added_rows, removed_rows = np.empty(num_words + 2, np.int64), np.empty(num_words + 2, np.int64)
    for b in range(len(before)):
        if offsets[b] == offsets[b + 1]:
            continue
        table = tables[viewers[b]]
        base[:] = bias
        for w in range(num_words):
            value = before[b, words[w]]
            if value != 0:
                added = table[w * num_values + value - lowest]
                for h in range(num_hidden):
                    base[h] += added[h]
        for i in range(offsets[b], offsets[b + 1]):
            changed = 0
            for w in range(num_words):  # branch-free, because the branches would be unpredictable
                old, new = before[b, words[w]], after[i, words[w]]
                added_rows[changed] = w * num_values + new - lowest
                removed_rows[changed] = w * num_values + old - lowest
                changed += old != new
            for k in range(changed, max(2, changed + changed % 2)):
                added_rows[k] = removed_rows[k] = nothing
            first, second = table[added_rows[0]], table[added_rows[1]]
            third, fourth = table[removed_rows[0]], table[removed_rows[1]]
            for h in range(num_hidden):
                hidden[h] = base[h] + (first[h] + second[h]) - (third[h] + fourth[h])
            for k in range(2, changed, 2):
                first, second = table[added_rows[k]], table[added_rows[k + 1]]
                third, fourth = table[removed_rows[k]], table[removed_rows[k + 1]]
                for h in range(num_hidden):
                    hidden[h] += (first[h] + second[h]) - (third[h] + fourth[h])
            for x in range(tactics.shape[1]):
                amount, weights = tactics[i, x], tactics_weights[x]
                for h in range(num_hidden):
                    hidden[h] += amount * weights[h]
            apply_sigmoid(hidden, bits, powers)
            for o in range(num_outputs):
                total = output_bias[o]
                for h in range(num_hidden):
                    total += hidden[h] * output_weights[o, h]
                out[i, o] = total
    flat, block = out.reshape(-1), np.zeros(BLOCK, np.float32)
    for start in range(0, len(flat), BLOCK):
        end = min(start + BLOCK, len(flat))
        block[: end - start] = flat[start:end]
        apply_sigmoid(block, bits, powers)
        flat[start:end] = block[: end - start]
    return out


@kernel
def best_of(offsets: NDArray[np.int64], scores: FloatArray) -> NDArray[np.int64]:
    """-> [B] int64 the index of each row's highest score in scores [N], the first of equals; rows must not be empty."""
    found = np.empty(len(offsets) - 1, np.int64)
    for b in range(len(found)):
        best = offsets[b]
        for i in range(offsets[b] + 1, offsets[b + 1]):
            if scores[i] > scores[best]:
                best = i
        found[b] = best
    return found


@kernel
def sample_of(
    offsets: NDArray[np.int64], scores: FloatArray, temperature: float, points: NDArray[np.float64]
) -> NDArray[np.int64]:
    """-> [B] int64 for each row an index into scores [N], sampled with probability ∝ exp(score / temperature).

    points [B]: each row's random number in [0, 1). Rows must not be empty.
    """
    found = np.empty(len(offsets) - 1, np.int64)
    for b in range(len(found)):
        start, end = offsets[b], offsets[b + 1]
        highest = scores[start]
        for i in range(start + 1, end):
            highest = max(highest, scores[i])
        total = 0.0
        for i in range(start, end):
            total += math.exp((scores[i] - highest) / temperature)
        left, chosen = points[b] * total, end - 1
        for i in range(start, end):
            left -= math.exp((scores[i] - highest) / temperature)
            if left < 0:
                chosen = i
                break
        found[b] = chosen
    return found
