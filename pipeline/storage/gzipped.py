"""gzip by the fastest installed library: the same data gives the same bytes, and damage is always noticed."""

from __future__ import annotations

import gzip
import zlib

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # the standard library reads and writes the same files, slower
    igzip_lib = isal_zlib = None  # type: ignore[assignment]

COMPRESSION_LEVEL = 1  # higher levels cost more time than their smaller files are worth


def compress(data: bytes) -> bytes:
    """gzip without a time stamp, so that the same games give the same bytes."""
    if igzip_lib is not None:
        return igzip_lib.compress(data, level=COMPRESSION_LEVEL, flag=igzip_lib.COMP_GZIP)
    return gzip.compress(data, COMPRESSION_LEVEL, mtime=0)


def decompress(data: bytes) -> bytes:
    """Raises EOFError, OSError or zlib.error for damaged or cut data."""
    if isal_zlib is None:
        return gzip.decompress(data)
    stream = isal_zlib.decompressobj(wbits=31)
    unpacked = stream.decompress(data)
    if not stream.eof:
        raise EOFError("cut off")
    if stream.unused_data:
        raise zlib.error("something follows the end")
    return unpacked
