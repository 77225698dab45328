"""The CUDA backend against numpy, from several threads, in batches of every size. Skipped without a GPU."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.inference import POLICY_TOLERANCE, VALUE_TOLERANCE, make_evaluators, run_together, softmax
from tests.networks.conftest import lively_weights, random_planes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def assert_right(architecture: Architecture, folded: dict[str, np.ndarray], planes: np.ndarray, found: object) -> None:
    logits, value = found
    wanted_logits, wanted_value = evaluate_plain(architecture, folded, planes)
    assert np.abs(softmax(logits) - softmax(wanted_logits)).max() < POLICY_TOLERANCE
    assert np.abs(value - wanted_value).max() < VALUE_TOLERANCE


def test_it_answers_as_numpy_does(architecture: Architecture) -> None:
    weights = lively_weights(architecture)
    (evaluator,) = make_evaluators(architecture, weights, 200, 1, "torch")
    assert evaluator.backend.device == "cuda"
    kept = []
    for turn, count in enumerate((200, 1, 16, 77, 200)):  # a captured size is used again
        planes = random_planes(architecture, count, turn)
        found = evaluator(planes)
        assert_right(architecture, fold(architecture, weights), planes, found)
        kept.append((found[0], found[0].copy()))
    assert all((found == before).all() for found, before in kept)  # outputs belong to the caller


def test_more_threads_than_streams_record_while_others_evaluate(architecture: Architecture) -> None:
    """Torch has only 32 streams and reuses them, so threads share them."""
    weights = lively_weights(architecture)
    folded = fold(architecture, weights)
    evaluators = make_evaluators(architecture, weights, 64, 40, "torch")

    def work(thread: int) -> None:
        for turn in range(20):
            planes = random_planes(architecture, 1 + (7 * thread + 11 * turn) % 64, 100 * thread + turn)
            assert_right(architecture, folded, planes, evaluators[thread](planes))

    run_together([lambda thread=thread: work(thread) for thread in range(len(evaluators))])


def test_networks_that_come_and_go_disturb_no_other(architecture: Architecture) -> None:
    """As at a promotion: some threads still evaluate; others capture the new model's graphs and drop their own."""
    weights = lively_weights(architecture)
    folded = fold(architecture, weights)
    evaluators = make_evaluators(architecture, weights, 256, 8, "torch")
    going = True

    def work(thread: int) -> None:
        turn = 0
        while going or turn < 10:
            planes = random_planes(architecture, 1 + (61 * thread + 97 * turn) % 256, 100 * thread + turn)
            assert_right(architecture, folded, planes, evaluators[thread](planes))
            turn += 1

    def come_and_go() -> None:
        nonlocal going
        try:
            for turn in range(10):
                for evaluator in make_evaluators(architecture, weights, 256, 8, "torch"):
                    planes = random_planes(architecture, 200, turn)
                    assert_right(architecture, folded, planes, evaluator(planes))
        finally:
            going = False

    run_together([come_and_go, *(lambda thread=thread: work(thread) for thread in range(len(evaluators)))])


def test_threads_that_record_and_evaluate_at_the_same_time_do_not_disturb_each_other(
    architecture: Architecture,
) -> None:
    weights = lively_weights(architecture)
    folded = fold(architecture, weights)
    evaluators = make_evaluators(architecture, weights, 128, 8, "torch")
    together = threading.Barrier(len(evaluators))

    def work(thread: int) -> None:
        together.wait()
        for turn in range(6):
            planes = random_planes(architecture, [128, 64, 20, 100, 7, 128][turn], 100 * thread + turn)
            assert_right(architecture, folded, planes, evaluators[thread](planes))

    run_together([lambda thread=thread: work(thread) for thread in range(len(evaluators))])
