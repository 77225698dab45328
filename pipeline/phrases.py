"""Numbers in plain English, for the short summaries that commands print."""

from __future__ import annotations


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


def results(wins: int, draws: int, losses: int) -> str:
    """E.g. "60 won, 2 drawn, 2 lost"."""
    return f"{wins:,} won, {draws:,} drawn, {losses:,} lost"
