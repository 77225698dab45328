"""Text for a terminal: whatever files, names and errors say, it can't steer the terminal that shows it.

The one place through which main.py and the progress write. Files are written as they are.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

# Everything below the blank but tabs and ends of lines, the C1 codes, what turns the direction of writing around, and
# halves of surrogate pairs, which no encoding can print: they stand for bytes of file names that aren't UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text with every character that a terminal would obey, or that can't be printed, replaced."""
    return _UNPRINTABLE.sub(REPLACEMENT, text)


def write(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Print it. stream: standard output."""
    print(printable(text), file=stream or sys.stdout, end=end, flush=stream is not None)
