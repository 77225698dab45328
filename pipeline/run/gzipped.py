"""gzip for shards: by the fastest library installed, without a time stamp, with a limit on the unpacked size."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # the standard library is slower
    igzip_lib = isal_zlib = None  # type: ignore[assignment]
INFLATE_ERRORS: Any = (zlib.error,) if isal_zlib is None else (zlib.error, isal_zlib.error)

# A shard may unpack to this many bytes plus MOST_RATIO times its size. Games pack to a third or a tenth.
MOST_UNPACKED, MOST_RATIO = 16 << 20, 64
COMPRESSION_LEVEL = 1  # higher levels cost more time than their smaller files are worth


def compress(data: bytes) -> bytes:
    """Deterministic."""
    if igzip_lib is not None:
        return igzip_lib.compress(data, level=COMPRESSION_LEVEL, flag=igzip_lib.COMP_GZIP)
    return gzip.compress(data, COMPRESSION_LEVEL, mtime=0)


def most_unpacked(num_bytes: int) -> int:
    """The most bytes that a shard of num_bytes may unpack to."""
    return MOST_UNPACKED + MOST_RATIO * num_bytes


def decompress(data: bytes) -> bytes:
    """Raises EOFError, ValueError or one of INFLATE_ERRORS for data that are damaged, cut off or beyond the limit."""
    most = most_unpacked(len(data))
    stream = (isal_zlib or zlib).decompressobj(wbits=31)
    unpacked = stream.decompress(data, most)
    if not stream.eof:
        if len(unpacked) >= most:
            raise ValueError(f"its {len(data)} bytes unpack to more than {most}")
        raise EOFError("cut off")
    if stream.unused_data:
        raise ValueError("something follows the end")
    return unpacked
