"""Text for people: numbers in plain English, and output that can't steer a terminal.

Texts call the program ``python main.py``, as in a checkout; where it runs as the installed command, ``write`` and help
texts say ``mugo`` instead.

main.py and the progress print only through ``write``: files, names and errors may contain a terminal's control
characters. Files are written as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TextIO

# Control characters other than tabs and ends of lines, C1 codes, characters that change the direction of writing, and
# halves of surrogate pairs. The last can't be encoded; they stand for bytes of file names that aren't UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LOADING = "loading networks; they and the kernels are compiled when this machine sees them first"
CHECKOUT, INSTALLED = "python main.py", "mugo"
EIGHTHS = "▁▂▃▄▅▆▇█"
BYTES = ("B", "kB", "MB", "GB", "TB")


def counted(number: int, one: str, many: str = "") -> str:
    """E.g. "1 game", "2,103 games"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float, digits: int = 1) -> str:
    """E.g. "95.3 %" of 0.953."""
    return f"{100 * share:.{digits}f} %"


def measured(number: float, is_share: bool = False) -> str:
    """A loss or another measure, e.g. "2.195", "0.00123"; of a share "95.3 %"."""
    if is_share:
        return percent(number)
    return f"{number:.3f}" if abs(number) >= 0.1 else f"{round(number, 5) + 0.0:.3g}"


def words(name: str) -> str:
    """The name of a measure in a sentence."""
    return name.replace("_", " ")


def duration(seconds: float) -> str:
    """E.g. "4.2 s", "61 s", "12 min"; whole minutes from ten on."""
    if seconds >= 600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def long_duration(seconds: float) -> str:
    """E.g. "12 s", "8 min", "3.5 h", "12 days"."""
    for unit, length, most in (("s", 1, 90), ("min", 60, 90), ("h", 3600, 72)):
        if seconds < most * length:
            digits = 1 if unit == "h" and seconds < 10 * length else 0
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds / 86_400:,.0f} days"


def size(num_bytes: float) -> str:
    """E.g. "82.9 GB"; powers of 1000."""
    power = 0
    while num_bytes >= 1000 and power < len(BYTES) - 1:
        num_bytes, power = num_bytes / 1000, power + 1
    return f"{num_bytes:,.{1 if power and num_bytes < 100 else 0}f} {BYTES[power]}"


def results(wins: int, draws: int, losses: int) -> str:
    """E.g. "60 won, 2 drawn, 2 lost"."""
    return f"{wins:,} won, {draws:,} drawn, {losses:,} lost"


def listed(words: Sequence[str]) -> str:
    """E.g. "--games, --readouts and --seed"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


_call = CHECKOUT


def call(program: str) -> None:
    """Note how the program was called: CHECKOUT or INSTALLED."""
    global _call
    _call = program


def is_installed() -> bool:
    return _call == INSTALLED


def as_called(text: str) -> str:
    """The text with the program's name as it was called."""
    return text.replace(f"{CHECKOUT} ", f"{_call} ")


def printable(text: str) -> str:
    """The text with every character replaced that a terminal would obey or that can't be printed."""
    return _UNPRINTABLE.sub(REPLACEMENT, text)


def sparkline(values: Sequence[float]) -> str:
    """One bar per value, scaled from the smallest to the largest."""
    low, high = min(values), max(values)
    steps = [0.0 if high == low else (value - low) / (high - low) for value in values]
    return "".join(EIGHTHS[round(step * (len(EIGHTHS) - 1))] for step in steps)


def write(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Print text. stream: by default standard output."""
    print(printable(as_called(text)), file=stream or sys.stdout, end=end, flush=stream is not None)
