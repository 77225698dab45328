"""The rating table and the pool for a person."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.reports.boards import table


@dataclass(frozen=True)
class RatingRow:
    """A player in the table, rated by the method asked for.

    rating, average_opponent  in the method's points: Elo, or TrueSkill's
    error                     half of the 95 % interval; None where the method has none
    group                     0 for the largest group of players that games connect
    """

    rank: int
    name: str
    kind: str
    rating: float
    error: float | None
    games: int
    wins: int
    draws: int
    losses: int
    average_opponent: float
    group: int


@dataclass(frozen=True)
class RatingsSummary:
    """What `ratings` found. rows: best first; warnings: what to mind when reading them."""

    game: str
    method: str
    anchor: str  # NAME=ELO
    matches: int
    matches_skipped: int  # damaged, each named in a warning on the way
    games: int
    path: str  # of ratings.json
    rows: list[RatingRow]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PoolRow:
    """A member. rating, error: Bradley-Terry; None while it is unrated."""

    name: str
    spec: str
    rating: float | None
    error: float | None
    games: int


@dataclass(frozen=True)
class PoolSummary:
    """The pool after the command. members: best first, the unrated last; added, removed, evicted: names."""

    path: str
    capacity: int
    members: list[PoolRow]
    added: list[str]
    removed: list[str]
    evicted: list[str]


def ratings_table(summary: RatingsSummary) -> str:
    """The table, what it means in two lines, and the warnings."""
    header = ("rank", "player", "rating", "+-", "games", "won", "drawn", "lost", "average opponent")
    digits = 1 if summary.method == "trueskill" else 0
    rows = [
        (
            str(row.rank),
            row.name,
            _number(row.rating, digits),
            "-" if row.error is None else _number(row.error, digits),
            str(row.games),
            *(f"{count / row.games:.1%}" for count in (row.wins, row.draws, row.losses)),
            _number(row.average_opponent, digits),
        )
        for row in summary.rows
    ]
    lines = [table(rows, header), "", _meaning(summary)]
    played = f"{summary.games:,} games of {summary.matches:,} matches"
    lines.append(f"{summary.game}, {played}; by all three methods: {summary.path}")
    if summary.matches_skipped:
        lines.append(f"{summary.matches_skipped} damaged matches are missing here")
    return "\n".join([*lines, *(f"note: {warning}" for warning in summary.warnings)])


def pool_table(summary: PoolSummary) -> str:
    """What the command did, and who is in the pool."""
    lines = [
        f"{what}: {', '.join(names)}"
        for what, names in (("added", summary.added), ("removed", summary.removed), ("evicted", summary.evicted))
        if names
    ]
    rows = [
        (
            row.name,
            "-" if row.rating is None else _number(row.rating, 0),
            "-" if row.error is None else _number(row.error, 0),
            str(row.games),
            row.spec,
        )
        for row in summary.members
    ]
    lines.append(table(rows, ("member", "rating", "+-", "games", "player")) if rows else "nobody is in the pool")
    lines.append(f"{len(rows)} of at most {summary.capacity}: {summary.path}")
    return "\n".join(lines)


def _meaning(summary: RatingsSummary) -> str:
    if summary.method == "elo":
        return "Elo, match after match: everybody starts at 1500, K 32; a match moves it by 32 at most, however long"
    if summary.method == "trueskill":
        return "TrueSkill, game after game: mu, +- 95 %; everybody starts at 25 +- 16, a model from its parent's"
    return f"Bradley-Terry in Elo, {summary.anchor}; +- 95 %, relative to the mean of the players that games connect"


def _number(value: float, digits: int) -> str:
    """Rounded, without the sign of a negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"
