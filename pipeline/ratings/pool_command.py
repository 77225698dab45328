"""pool: look at the pool of opponents, and change who is in it.

Every change reads and writes ``data/pool.json`` under its lock: a person and `evaluate` don't undo each other's.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import FileError, UsageError
from pipeline.progress import SILENT, Progress
from pipeline.ratings import pool as arena
from pipeline.ratings.summaries import PoolRow, PoolSummary
from pipeline.storage.ratings import Member, RatedPlayer, pool_lock, read_pool, read_ratings, write_pool

POOL, RATINGS = Path("data/pool.json"), Path("data/ratings.json")
ACTIONS = ("add", "remove")


def pool(
    action: str | None = None,
    what: str | None = None,
    path: Path = POOL,
    ratings_path: Path = RATINGS,
    capacity: int | None = None,
    progress: Progress = SILENT,
) -> PoolSummary:
    """Show the pool (no action), "add" the player of a spec string, or "remove" a name; capacity changes its size.

    Ratings that can't be read are warned of: then all are unrated, and who has been there longest leaves a full pool.
    Raises UsageError for a wrong action, spec or name, FileError for a damaged pool.
    """
    if action is not None and action not in ACTIONS:
        raise UsageError(f"pool {action}: no such action; wanted add SPEC, remove NAME, or nothing to look at it")
    if (action is None) != (what is None):
        wanted = "add SPEC or remove NAME" if action is None else "a spec" if action == "add" else "a member's name"
        example = f"{action or 'add'} heuristic"
        raise UsageError(f"pool {action or what}: wanted {wanted}, e.g. `python main.py pool {example}`")
    if capacity is not None and capacity < 1:
        raise UsageError(f"pool --capacity {capacity}: wanted at least 1")
    rated = _rated_players(ratings_path, progress)
    if action == "add" and what is not None:
        return _add(arena.make_member(what), path, rated, capacity)
    if action == "remove" and what is not None:
        return _remove(what, path, rated, capacity)
    return _show(path, rated, capacity)


def remember_champion(pool_path: Path, ratings_path: Path, spec: str, progress: Progress = SILENT) -> PoolSummary:
    """Add a model that was promoted. Raises FileError for a damaged pool; ratings as in pool()."""
    return _add(arena.make_member(spec), pool_path, _rated_players(ratings_path, progress), None)


def _show(path: Path, rated: arena.RatedPlayers, capacity: int | None) -> PoolSummary:
    if capacity is None:
        return _summary(path, arena.Change(read_pool(path)), rated)
    with pool_lock(path):
        change = arena.resize(read_pool(path), capacity, rated)
        write_pool(path, change.pool)
    return _summary(path, change, rated)


def _add(member: Member, path: Path, rated: arena.RatedPlayers, capacity: int | None) -> PoolSummary:
    with pool_lock(path):
        before = read_pool(path)
        resized = arena.resize(before, capacity or before.capacity, rated)
        change = arena.add(resized.pool, member, rated)
        if change.pool != before:
            write_pool(path, change.pool)
    change = arena.Change(change.pool, change.added, (*resized.evicted, *change.evicted))
    already = next((one.name for one in change.pool.members if one.spec == member.spec and not change.added), None)
    return _summary(path, change, rated, added=[member.name] if change.added else [], already=already)


def _remove(name: str, path: Path, rated: arena.RatedPlayers, capacity: int | None) -> PoolSummary:
    with pool_lock(path):
        left = arena.remove(read_pool(path), name)
        change = arena.resize(left, capacity or left.capacity, rated)
        write_pool(path, change.pool)
    return _summary(path, change, rated, removed=[name])


def _rated_players(ratings_path: Path, progress: Progress) -> dict[str, RatedPlayer]:
    """The rated players by name; nobody if there are no ratings yet, or if they can't be read, which is warned of."""
    if not ratings_path.exists():
        return {}
    try:
        return read_ratings(ratings_path).by_name
    except FileError as error:
        progress.warn(f"the pool takes everybody as unrated: {error}")
        return {}


def _summary(
    path: Path,
    change: arena.Change,
    rated: arena.RatedPlayers,
    added: list[str] | None = None,
    removed: list[str] | None = None,
    already: str | None = None,
) -> PoolSummary:
    rows = []
    for member in change.pool.members:
        one = arena.rated_player(member.name, rated)
        if one is None:
            rows.append(PoolRow(member.name, member.spec, None, None, 0))
            continue
        rating, error = one.bradley_terry, one.bradley_terry_error
        rows.append(PoolRow(member.name, member.spec, rating, error, one.games, one.name))
    return PoolSummary(
        path=str(path),
        capacity=change.pool.capacity,
        members=sorted(rows, key=lambda row: (row.rating is None, -(row.rating or 0.0))),
        added=added or [],
        removed=removed or [],
        evicted=[member.name for member in change.evicted],
        already=[already] if already is not None else [],
    )
