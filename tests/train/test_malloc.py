"""Freed memory stays with a process that trains."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.train.trainer import keep_freed_memory

STEPS = """
import resource, sys
from copy import deepcopy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import torch
from pipeline.train.trainer import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()

layers = [module for _ in range(6) for module in (torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU())]
networks, planes = [torch.nn.Sequential(*deepcopy(layers)) for _ in range(2)], torch.randn(64, 32, 9, 9)

def step(index):
    networks[index % 2](planes).square().mean().backward()

together = Barrier(2)  # each thread makes its share of the steps, however busy the machine is

def steps(index, count):
    together.wait()
    for _ in range(count):
        step(index)

with ThreadPoolExecutor(2) as threads:
    list(threads.map(steps, range(2), [3, 3]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(threads.map(steps, range(2), [10, 10]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="only glibc can be told")
def test_steps_that_follow_find_their_memory() -> None:
    ran = [
        subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
        for how in ("keep", "give back")
    ]
    kept, given_back = (int(one.stdout) for one in ran)
    assert kept < given_back / 10, (kept, given_back)
