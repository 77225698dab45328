"""``show``: any of MuGo's files as text. Read-only. Raises FileError for other files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from pipeline.errors import FileError, UsageError
from pipeline.games.records import SGF, format_that_reads, record_names
from pipeline.phrases import counted, listed
from pipeline.reports.recorded_games import is_pack, is_shard
from pipeline.reports.show_as import Named, records_of
from pipeline.reports.show_chunks import show_chunk
from pipeline.reports.show_games import show_foreign, show_match, show_one, show_pack, show_shard, show_sidecar
from pipeline.reports.show_models import show_model, show_models, show_promotions, show_run
from pipeline.reports.tables import described, table
from pipeline.run import atomic, layout
from pipeline.run.chunks import list_sets
from pipeline.run.evaluations import FORMAT as EVALUATION_FORMAT
from pipeline.run.evaluations import read_evaluation
from pipeline.run.layout import is_run
from pipeline.run.matches import newest_matches
from pipeline.run.models import FORMAT as MODEL_FORMAT
from pipeline.run.models import check_champion, list_models, with_pretrained
from pipeline.run.order import folders_in
from pipeline.run.packs import is_gone, shards_in
from pipeline.run.ratings import POOL_FORMAT, RATINGS_FORMAT, read_pool, read_ratings
from pipeline.run.shards import newest_shards

KNOWN = (
    "a game shard (.gz) or a pack of them, its .meta, a chunk (.h5), a model or match directory, ratings, a pool, an "
    "evaluation of --watch, a run, or a folder that holds such files"
)
# By file name, so that the message about a damaged file names the remedy for its format.
FORMATS = {layout.RATINGS: RATINGS_FORMAT, layout.POOL: POOL_FORMAT, layout.MODEL_JSON: MODEL_FORMAT}
SGF_SUFFIX = ".sgf"
MATCH_FILES = (layout.MATCH_GAMES, layout.MATCH_SUMMARY)


def show(path: Path, game: int | None = None, moves: bool = False) -> Iterator[str]:
    """Texts that describe the file or folder, in order. A folder of games, chunks or matches shows its newest one.

    game   index of a game in a shard or match: show it move by move
    moves  also show the board before every move
    Raises FileError for unknown or damaged files, UsageError if game or moves don't apply.
    """
    asked, path = path, with_pretrained(path)
    for link in (path, path.parent):  # the champion, or a file of it
        if link.name == layout.CHAMPION:
            check_champion(link.parent)
    if is_gone(path):
        raise FileError(asked, f"no such file; wanted {KNOWN}")
    if (games := _games_at(path, game)) is not None:
        place, index = games
        if index is not None:
            return show_one(place, index, moves)
        if place.is_dir():
            return show_match(place, moves, whole=path.name in MATCH_FILES)
        return show_pack(place) if is_pack(place) else show_shard(place)
    if (reader := _reader_of(path)) is not None:
        if game is not None or moves:
            raise UsageError(f"show {path}: --game and --moves are for game shards and matches")
        return reader(path)
    if not path.is_dir():
        if (form := format_that_reads(path.suffix.lower())) is not None:
            return show_foreign(form, path, game, moves)
        raise FileError(path, f"not one of MuGo's files; wanted {KNOWN}")
    sets = list_sets(path)  # of each the hold-out comes first
    newest = next(reversed(sets.values()))[-1] if sets else next(newest_matches(path), None) or _newest_shard(path)
    if newest is None:
        raise FileError(path, f"none of MuGo's files in this folder; wanted {KNOWN}")
    return chain([f"the newest in {path}:"], show(newest, game, moves))


def game_records(path: Path, game: int | None = None, form: str = SGF) -> Iterator[Named]:
    """File names and records of all games at path, or of one. A folder stands for its newest match or shard.

    form: the name of a record format.
    Raises FileError for missing or damaged games, UsageError if the format can't hold them.
    """
    if is_gone(path):
        raise FileError(path, "no such file; wanted a game shard or a match directory")
    if (games := _games_at(path, game)) is not None:
        return records_of(*games, form)
    newest = next(newest_matches(path), None) or _newest_shard(path) if path.is_dir() else None
    if newest is None:
        flags = listed([f"--{name}" for name in record_names()])
        raise UsageError(f"show {path}: {flags} are for game shards, matches and folders of them")
    return game_records(newest, game, form)


def _games_at(path: Path, game: int | None) -> tuple[Path, int | None] | None:
    """The pack, shard or folder of a match at path, and the index of the game asked for."""
    if is_pack(path) or is_shard(path):
        return path, game
    if (match := _match_of(path)) is None:
        return None
    return match, int(path.stem) if path.suffix == SGF_SUFFIX and game is None else game


def _match_of(path: Path) -> Path | None:
    """The folder of the match at path, or of the match that a file belongs to."""
    if path.is_dir():
        return path if any(atomic.exists(path / name) for name in MATCH_FILES) else None
    is_record = path.suffix == SGF_SUFFIX and path.stem.isdecimal() and path.parent.name == layout.MATCH_SGF
    if path.name not in MATCH_FILES and not is_record:
        return None
    folder = path.parent.parent if is_record else path.parent
    return folder if atomic.exists(folder / layout.MATCH_GAMES) else None


def _reader_of(path: Path) -> Callable[[Path], Iterator[str]] | None:
    """The function that shows a file or folder without games of its own, if there is one."""
    if not path.is_dir():
        return show_promotions if path.name == layout.PROMOTIONS else READERS.get(path.suffix)
    if atomic.exists(path / layout.MODEL_JSON):
        return show_model
    if is_run(path):
        return show_run
    if path.resolve().name == layout.DATA and is_run(path.resolve().parent):
        return lambda data: show_run(data.resolve().parent)
    return show_models if list_models(path) else None


def show_json(path: Path) -> Iterator[str]:
    """A JSON file, by its format; a damaged one by its name."""
    found = None
    try:
        found = atomic.read_json(path, KNOWN).get("format")
    except FileError:
        if path.name not in FORMATS:
            raise
    reader = JSON_READERS.get(str(found)) or JSON_READERS.get(FORMATS.get(path.name, ""))
    if reader is None:
        raise FileError(path, f"not one of MuGo's files: format {found!r}; wanted {KNOWN}")
    yield from reader(path)


def show_evaluation(path: Path) -> Iterator[str]:
    from pipeline.reports.summaries import evaluation_text  # imports all of ratings, which takes long

    yield evaluation_text(read_evaluation(path))


def _newest_shard(path: Path) -> Path | None:
    """path: data/selfplay, or the folder of a generation or a worker in it."""
    if (meta := next(newest_shards(path, on_damage=lambda error: None), None)) is not None:
        return meta.path
    folders = [path, *(path / name for name in folders_in(path, layout.is_worker_name))]
    name, folder = max(((name, folder) for folder in folders for name in shards_in(folder)), default=(None, path))
    return folder / name.shard if name else None


def show_ratings(path: Path) -> Iterator[str]:
    """The players by all three rating systems, in the file's order: best Bradley-Terry rating first."""
    ratings = read_ratings(path)
    yield described(
        {
            "ratings": path,
            "game": ratings.game,
            "anchor": f"{ratings.anchor} = {ratings.anchor_elo:g} Elo",
            "made of": f"{counted(ratings.matches, 'match', 'matches')}, {counted(ratings.games, 'game')}",
            "created": f"{ratings.created}; python main.py ratings recreates it",
        }
    )
    yield ""
    groups = len({player.group for player in ratings.players}) > 1
    header = (
        "player", "kind", "games", "won", "drawn", "lost", "Bradley-Terry", "+-", "Elo", "TrueSkill", "sigma", "group",
    )  # fmt: skip
    rows = [
        (
            player.name,
            player.kind,
            *map(str, (player.games, player.wins, player.draws, player.losses)),
            f"{player.bradley_terry:.0f}",
            f"{player.bradley_terry_error:.0f}",
            f"{player.elo:.0f}",
            f"{player.trueskill_mu:.1f}",
            f"{player.trueskill_sigma:.1f}",
            str(player.group) if groups else "",
        )
        for player in ratings.players
    ]
    yield table(rows, header)
    yield "(Bradley-Terry in Elo; +- is half of the 95 % interval)"
    if groups:
        yield "(no games connect players of different groups: compare within a group only)"


def show_pool(path: Path) -> Iterator[str]:
    pool = read_pool(path)
    yield f"pool of opponents {path}: {len(pool.members)} of at most {pool.capacity} members"
    if pool.members:
        yield ""
        yield table([(member.name, member.spec) for member in pool.members], ("name", "player"))


JSON_READERS = {
    EVALUATION_FORMAT: show_evaluation,
    RATINGS_FORMAT: show_ratings,
    POOL_FORMAT: show_pool,
    MODEL_FORMAT: show_model,
}
READERS = {layout.META_SUFFIX: show_sidecar, layout.CHUNK_SUFFIX: show_chunk, ".json": show_json}
