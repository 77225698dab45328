"""Arrays as safetensors whose bytes depend only on the arrays and the metadata.

The library alone writes metadata in the order of a hash table, which differs between processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

METADATA = "__metadata__"
LENGTH_BYTES = 8  # of the number before the header, whose length is padded to a multiple of it


def pack(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """The file's content."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    packed = safetensors.numpy.save(contiguous, dict(metadata) if metadata else None)
    if not metadata:
        return packed
    end = _header_end(packed)
    header = json.loads(packed[LENGTH_BYTES:end])
    header[METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + packed[end:]


def metadata_of(packed: bytes) -> dict[str, str]:
    """The metadata of an output of pack(). Raises ValueError or KeyError for other bytes."""
    return json.loads(packed[LENGTH_BYTES : _header_end(packed)])[METADATA]


def _header_end(packed: bytes) -> int:
    return LENGTH_BYTES + int.from_bytes(packed[:LENGTH_BYTES], "little")
