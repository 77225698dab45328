"""The table of benchmarks/gpu.py, on a processor and in small; no GPU is needed."""

from __future__ import annotations

import re

import pytest

from benchmarks import gpu
from pipeline.machine import available_cores

TINY = ["--boards", "5", "--sizes", "b1c8", "--batches", "8", "--threads", "1", "--readouts", "4", "--seconds", "0.4"]


def test_a_line_for_each_board_network_and_batch(
    capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("pipeline.bench.command.GATHERED_POSITIONS", 5_000)
    cores = available_cores()
    gpu.main([*TINY, "--device", "cpu"])
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["board", "network", "batch", "network/s", "self-play/s", "share", "train/s", "share"]
    assert re.fullmatch(r" *5x5 +b1c8 +8 +[\d,]+ +[\d,]+ +\d\.\d\d!? +[\d,]+ +\d\.\d\d!? *", row), row
    assert available_cores() == cores


def test_without_a_gpu_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device; --device cpu"):
        gpu.main(TINY)
