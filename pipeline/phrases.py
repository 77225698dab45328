"""Numbers in plain English, for the short summaries that commands print."""

from __future__ import annotations

from collections.abc import Sequence

BYTES = ("B", "kB", "MB", "GB", "TB")


def counted(number: int, one: str, many: str = "") -> str:
    """E.g. "1 game", "2,103 games"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float, digits: int = 1) -> str:
    """E.g. "95.3 %" of 0.953."""
    return f"{100 * share:.{digits}f} %"


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
