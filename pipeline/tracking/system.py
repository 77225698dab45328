"""How much of the machine is in use: processor and memory from the system, GPUs from NVIDIA's library NVML.

Memory is known on Linux, GPUs with the package nvidia-ml-py. What isn't known is left out.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 10.0  # between two samples


class SystemUse:
    """Samples of a process, at most one every SECONDS for all trackers together."""

    def __init__(self) -> None:
        self._last, self._busy = time.monotonic(), _cpu_seconds()
        self._gpus: list[Any] | None = None

    def since_last(self) -> dict[str, float]:
        """By name; {} if the last sample is recent. Processor time is a mean since that sample."""
        now = time.monotonic()
        if now - self._last < SECONDS:
            return {}
        busy = _cpu_seconds()
        found = {"process_cpu_cores": (busy - self._busy) / (now - self._last), **_memory(), **self._of_gpus()}
        self._last, self._busy = now, busy
        return found

    def _of_gpus(self) -> dict[str, float]:
        found: dict[str, float] = {}
        with suppress(Exception):  # no package, no driver, no rights
            import pynvml

            if self._gpus is None:
                self._gpus = []
                pynvml.nvmlInit()
                self._gpus = [pynvml.nvmlDeviceGetHandleByIndex(one) for one in range(pynvml.nvmlDeviceGetCount())]
            for number, gpu in enumerate(self._gpus):
                memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)
                found[f"gpu{number}_memory_bytes"] = float(memory.used)
                found[f"gpu{number}_memory_share"] = memory.used / memory.total
                found[f"gpu{number}_use_share"] = pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100
        return found


def _cpu_seconds() -> float:
    """The CPU time of this process, without its child processes."""
    return sum(os.times()[:2])


def _memory() -> dict[str, float]:
    with suppress(OSError, ValueError, KeyError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        of_machine = {words[0].rstrip(":"): float(words[1]) for words in lines}
        return {
            "process_memory_bytes": float(pages * os.sysconf("SC_PAGE_SIZE")),
            "memory_share": 1 - of_machine["MemAvailable"] / of_machine["MemTotal"],
        }
    return {}
