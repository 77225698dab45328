"""Designs that vary many things at once, and what each of them did.

A run of a recipe is worth some Elo more or less by luck alone. One run for each change, against one run without, leaves
that luck in every comparison twice. In a *Plackett-Burman design* each run has half of all changes, another half in
each, and every pair of changes comes in all four combinations equally often: so the effect of a change is the mean of
half of all runs less that of the other half, and all effects are known as well as if all runs had been spent on one.
The price: an effect is the mean over what else was on, and where two changes help or hinder each other, a share of that
(a third in the designs of 12 and 24 runs) is spread over the effects of others.

Source: Plackett and Burman, "The design of optimum multifactorial experiments", Biometrika 33 (1946); rows from
quadratic residues by Paley's construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline.errors import UsageError

PRIMES = (7, 11, 19, 23, 31, 43, 47)  # 3 modulo 4: designs of one run more
SPARE = 3  # columns that no factor takes, at least: they tell how much runs differ by luck
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Effect:
    """What one thing changes, in the unit of the results; error: half of the 95 % interval."""

    name: str
    value: float
    error: float


def plackett_burman(factors: int) -> NDArray[np.bool_]:
    """The runs of a design: [runs, factors], whether a run has a factor. The last has none.

    Raises UsageError if there are more than 44 factors.
    """
    prime = next((prime for prime in PRIMES if prime >= factors + SPARE), None)
    if prime is None:
        raise UsageError(f"found {factors} factors; wanted at most {PRIMES[-1] - SPARE}")
    residues = {i * i % prime for i in range(prime)}  # 0 among them
    first = np.array([i in residues for i in range(prime)])
    runs = np.vstack([*(np.roll(first, i) for i in range(prime)), np.zeros(prime, dtype=np.bool_)])
    return runs[:, :factors]


def model_matrix(runs: Sequence[Sequence[str]]) -> tuple[list[str], NDArray[np.float64]]:
    """Terms in order of appearance, and [runs, 1 + terms]: 1 for what all runs share, then 1 for each term of a run."""
    terms = list(dict.fromkeys(term for run in runs for term in run))
    return terms, np.array([[1.0, *(float(term in run) for term in terms)] for run in runs])


def spare_runs(runs: Sequence[Sequence[str]]) -> int:
    """How many more runs than things that are asked: the errors' degrees of freedom. Below 1, nothing is known."""
    matrix = model_matrix(runs)[1]
    return len(runs) - matrix.shape[1] if np.linalg.matrix_rank(matrix) == matrix.shape[1] else 0


def effects(runs: Sequence[Sequence[str]], results: Sequence[float]) -> tuple[list[Effect], float]:
    """What each term adds to a run's result, by least squares, and the standard deviation of runs that share all terms.

    The errors hold the luck of the runs and that of measuring them, by what the terms leave unexplained.
    """
    terms, matrix = model_matrix(runs)
    free = spare_runs(runs)
    found, *_ = np.linalg.lstsq(matrix, np.asarray(results, dtype=np.float64), rcond=None)
    left = np.asarray(results) - matrix @ found
    variance = float(left @ left) / free
    errors = stats.t.ppf((1 + CONFIDENCE) / 2, free) * np.sqrt(variance * np.diag(np.linalg.inv(matrix.T @ matrix)))
    return [Effect(*one) for one in zip(terms, found[1:].tolist(), errors[1:].tolist(), strict=True)], variance**0.5
