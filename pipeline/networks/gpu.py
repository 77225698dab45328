"""Whether torch can compute on a GPU of this machine."""

from __future__ import annotations

import os
from functools import cache
from itertools import takewhile
from pathlib import Path


def in_a_line(error: Exception) -> str:
    """What a library said, which may be pages."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def may_have_gpu() -> bool:
    """Whether there is an NVIDIA driver, without importing torch."""
    signs = "/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"  # the last one: Linux on Windows
    return any(Path(sign).exists() for sign in signs) or os.name == "nt"


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them, without importing torch."""
    if not may_have_gpu():
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:  # on Windows and in its Linux there are no such files: one is assumed
        return [str(number) for number in range(max(1, len(list(Path("/dev").glob("nvidia[0-9]*")))))]
    return list(takewhile(lambda name: name not in ("", "-1"), map(str.strip, given.split(","))))


@cache
def gpu_fault() -> str | None:
    """Why the GPU that torch finds can't be used, e.g. because it is full, or too old for this torch; "": it can.

    None: torch finds no GPU. Tries it once per process, with a convolution forth and back.
    """
    if not may_have_gpu():
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    try:
        layer = torch.nn.Conv2d(8, 8, 3).cuda()
        layer(torch.ones(2, 8, 9, 9, device="cuda")).sum().backward()
        torch.cuda.synchronize()
    except Exception as error:  # torch's own kinds differ between its versions
        return in_a_line(error)
    return ""
