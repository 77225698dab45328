"""pool: look at the pool of opponents, and change who is in it.

Every change reads and writes ``data/pool.json`` under its lock: a person and `evaluate` don't undo each other's.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.arena import pool as arena
from pipeline.errors import FileError, UsageError
from pipeline.progress import SILENT, Progress
from pipeline.records.ratings import Member, RatedPlayer, pool_lock, read_pool, read_ratings, write_pool
from pipeline.reports.ratings import PoolRow, PoolSummary

POOL, RATINGS = Path("data/pool.json"), Path("data/ratings.json")
ACTIONS = ("add", "remove")


def pool(
    action: str | None = None,
    what: str | None = None,
    path: Path = POOL,
    ratings_path: Path = RATINGS,
    capacity: int | None = None,
) -> PoolSummary:
    """Show the pool (no action), "add" the player of a spec string, or "remove" a name; capacity changes its size.

    Raises UsageError for a wrong action, spec or name, FileError for a damaged pool, or for damaged ratings: without
    them nobody knows whom to evict.
    """
    if action is not None and action not in ACTIONS:
        raise UsageError(f"pool {action}: no such action; wanted add SPEC, remove NAME, or nothing to look at it")
    if (action is None) != (what is None):
        wanted = "add SPEC or remove NAME" if action is None else "a spec" if action == "add" else "a member's name"
        raise UsageError(f"pool {action or what}: wanted {wanted}, e.g. `python main.py pool add heuristic`")
    if capacity is not None and capacity < 1:
        raise UsageError(f"pool --capacity {capacity}: wanted at least 1")
    if action == "add" and what is not None:
        return add_member(what, path, ratings_path, capacity)
    if action == "remove" and what is not None:
        return remove_member(what, path, ratings_path, capacity)
    return show_pool(path, ratings_path, capacity)


def show_pool(path: Path = POOL, ratings_path: Path = RATINGS, capacity: int | None = None) -> PoolSummary:
    """The pool as it is; with a capacity, after it was given that size."""
    standings = read_standings(ratings_path)
    if capacity is None:
        return _summary(path, arena.Change(read_pool(path)), standings)
    with pool_lock(path):
        change = arena.resize(read_pool(path), capacity, standings)
        write_pool(path, change.pool)
    return _summary(path, change, standings)


def add_member(
    spec: str, path: Path = POOL, ratings_path: Path = RATINGS, capacity: int | None = None
) -> PoolSummary:
    """Add a player; the lowest rated other leaves if there is no room."""
    return _add(arena.make_member(spec), path, read_standings(ratings_path), capacity)


def _add(member: Member, path: Path, standings: dict[str, RatedPlayer], capacity: int | None) -> PoolSummary:
    with pool_lock(path):
        before = read_pool(path)
        resized = arena.resize(before, capacity or before.capacity, standings)
        change = arena.add(resized.pool, member, standings)
        if change.pool != before:
            write_pool(path, change.pool)
    change = arena.Change(change.pool, change.added, (*resized.evicted, *change.evicted))
    return _summary(path, change, standings, added=[member.name] if change.added else [])


def remove_member(
    name: str, path: Path = POOL, ratings_path: Path = RATINGS, capacity: int | None = None
) -> PoolSummary:
    """Remove a member; its rating stays."""
    standings = read_standings(ratings_path)
    with pool_lock(path):
        left = arena.remove(read_pool(path), name)
        change = arena.resize(left, capacity or left.capacity, standings)
        write_pool(path, change.pool)
    return _summary(path, change, standings, removed=[name])


def remember_champion(
    pool_path: Path, ratings_path: Path, spec: str, progress: Progress = SILENT
) -> PoolSummary:
    """Add a model that was promoted. Raises FileError for a damaged pool.

    Ratings that can't be read don't stop it: then all are unrated, and the member that has been there longest leaves.
    """
    try:
        standings = read_standings(ratings_path)
    except FileError as error:
        progress.warn(f"the pool takes everybody as unrated: {error}")
        standings = {}
    return _add(arena.make_member(spec), pool_path, standings, None)


def read_standings(ratings_path: Path) -> dict[str, RatedPlayer]:
    """The rated players by name; nobody if there are no ratings yet. Raises FileError if they are damaged."""
    return read_ratings(ratings_path).by_name if ratings_path.exists() else {}


def _summary(
    path: Path,
    change: arena.Change,
    standings: dict[str, RatedPlayer],
    added: list[str] | None = None,
    removed: list[str] | None = None,
) -> PoolSummary:
    rows = []
    for member in change.pool.members:
        standing = arena.standing_of(member.name, standings)
        rating, error = (standing.bradley_terry, standing.bradley_terry_error) if standing else (None, None)
        rows.append(PoolRow(member.name, member.spec, rating, error, standing.games if standing else 0))
    return PoolSummary(
        path=str(path),
        capacity=change.pool.capacity,
        members=sorted(rows, key=lambda row: (row.rating is None, -(row.rating or 0.0))),
        added=added or [],
        removed=removed or [],
        evicted=[member.name for member in change.evicted],
    )
