"""What is known of the machine."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from pipeline.tracking import system
from pipeline.tracking.system import SystemUse


def fake_nvml(count: int = 2, **changes: Any) -> types.ModuleType:
    """The functions of NVML's Python package that are used, as NVIDIA documents them."""
    module = types.ModuleType("pynvml")
    module.inits = 0  # type: ignore[attr-defined]

    def init() -> None:
        module.inits += 1  # type: ignore[attr-defined]

    functions = {
        "nvmlInit": init,
        "nvmlDeviceGetCount": lambda: count,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetMemoryInfo": lambda gpu: types.SimpleNamespace(used=(gpu + 1) * 2**30, total=4 * 2**30),
        "nvmlDeviceGetUtilizationRates": lambda gpu: types.SimpleNamespace(gpu=75 - gpu, memory=3),
    }
    for name, function in (functions | changes).items():
        setattr(module, name, function)
    return module


def sampled(use: SystemUse) -> dict[str, float]:
    use._last -= system.SECONDS
    return use.since_last()


def test_processor_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    use = SystemUse()
    assert use.since_last() == {}  # too early
    monkeypatch.setattr(system, "_cpu_seconds", lambda: use._busy + 15)
    found = sampled(use)
    assert found["process_cpu_cores"] == pytest.approx(15 / system.SECONDS, rel=0.01)
    if sys.platform == "linux":
        assert 2**20 < found["process_memory_bytes"] < 2**40 and 0 < found["memory_share"] < 1
    assert not any(name.startswith("gpu") for name in found)
    assert use.since_last() == {}


def test_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = fake_nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    use = SystemUse()
    first, found = sampled(use), sampled(use)
    assert {name: value for name, value in found.items() if name.startswith("gpu")} == {
        "gpu0_memory_bytes": 2**30, "gpu0_memory_share": 0.25, "gpu0_use_share": 0.75,
        "gpu1_memory_bytes": 2**31, "gpu1_memory_share": 0.5, "gpu1_use_share": 0.74,
    }  # fmt: skip
    assert set(first) == set(found) and nvml.inits == 1


def test_a_driver_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=fail))
    assert "process_cpu_cores" in sampled(SystemUse())
