"""ratings.json and pool.json for a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.reports.tables import described, table
from pipeline.storage.ratings import RatedPlayer, read_pool, read_ratings


def show_ratings(path: Path) -> Iterator[str]:
    """The players by all three methods, in the file's order: best Bradley-Terry rating first."""
    ratings = read_ratings(path)
    yield described(
        {
            "ratings": path,
            "game": ratings.game,
            "anchor": f"{ratings.anchor} = {ratings.anchor_elo:g} Elo",
            "made of": f"{ratings.matches:,} matches, {ratings.games:,} games",
            "created": f"{ratings.created}; python main.py ratings makes it anew",
        }
    )
    yield ""
    groups = len({player.group for player in ratings.players}) > 1
    header = ("player", "kind", "games", "won", "drawn", "lost", "Bradley-Terry", "+-", "Elo", "TrueSkill", "sigma")
    rows = [_row(player) + ((str(player.group),) if groups else ()) for player in ratings.players]
    yield table(rows, header + (("group",) if groups else ()))
    yield "(Bradley-Terry in Elo, +- the half of its 95 % interval)"
    if groups:
        yield "(players of different groups never met, not even through others: compare within a group only)"


def _row(player: RatedPlayer) -> tuple[str, ...]:
    counts = (player.games, player.wins, player.draws, player.losses)
    return (
        player.name,
        player.kind,
        *(str(count) for count in counts),
        f"{player.bradley_terry:.0f}",
        f"{player.bradley_terry_error:.0f}",
        f"{player.elo:.0f}",
        f"{player.trueskill_mu:.1f}",
        f"{player.trueskill_sigma:.1f}",
    )


def show_pool(path: Path) -> Iterator[str]:
    pool = read_pool(path)
    yield f"pool of opponents {path}: {len(pool.members)} of at most {pool.capacity} members"
    if pool.members:
        yield ""
        yield table([(member.name, member.spec) for member in pool.members], ("name", "player"))
