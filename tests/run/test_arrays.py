"""The same arrays give the same bytes in every process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from pipeline.run.arrays import pack

ROOT = Path(__file__).parents[2]
ARRAYS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3).T, "a": np.array([2**63], np.uint64)}
METADATA = {name: "é" + name for name in "qwertyuiop"}


def test_read_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(ARRAYS, METADATA))
    with safetensors.safe_open(path, framework="np") as opened:
        assert opened.metadata() == METADATA
        for name, array in ARRAYS.items():
            found = opened.get_tensor(name)
            assert found.dtype == array.dtype and np.array_equal(found, array)
    assert safetensors.numpy.load(pack(ARRAYS))["b"].shape == (3, 2)


def test_the_same_bytes_in_every_process() -> None:
    code = "from tests.run.test_arrays import *; print(pack(ARRAYS, METADATA).hex())"
    said = {subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).stdout for _ in range(3)}
    assert len(said) == 1 and said.pop().strip() == pack(ARRAYS, METADATA).hex().encode()
