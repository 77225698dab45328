"""``ratings``: rate players from all match records, as a table and as ``data/ratings.json``.

All three methods are computed from the match records every time. The file is a copy for readers, so nothing is lost if
it is damaged. Methods that depend on order take matches by starting time. Failed games don't count. Plays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.matches.statistics import Z_95, Record, measured_games
from pipeline.progress import SILENT, Progress
from pipeline.ratings import strength
from pipeline.ratings.config import RatingsConfig
from pipeline.run import atomic, layout
from pipeline.run.matches import MatchResults, UnknownGame, list_matches, read_results
from pipeline.run.ratings import RatedPlayer, Ratings, read_ratings, write_record

NAMES_SHOWN = 3


@dataclass(frozen=True)
class RatingRow:
    """A player in the table, rated by the method asked for.

    rank                      within the group
    rating, average_opponent  on the method's scale: Elo or TrueSkill's; from games won, not from their points
    points_per_game           in games that count more than 1
    error                     half of the 95 % interval; None if the method has none
    group                     of players connected by games; 0: the largest
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
    points_per_game: float | None = None


@dataclass(frozen=True)
class RatingsSummary:
    """The result of `ratings`.

    anchor           NAME=ELO
    matches_skipped  damaged matches, each named in a warning
    path             of ratings.json; None: not written
    rows             by group, best first
    warnings         caveats about the rows
    left_out         rated players that aren't in rows
    """

    game: str
    method: str
    anchor: str
    matches: int
    matches_skipped: int
    games: int
    path: str | None
    rows: list[RatingRow]
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0


class RatedSide(NamedTuple):
    """The player of a match's side. name: as it is rated."""

    name: str
    kind: str
    weights: str
    parents: tuple[str, ...]


class RatedMatch(NamedTuple):
    """The data of a match that ratings need. Keeps no games or openings, as there may be 100,000 matches.

    points: the challenger's in each game, if games count more than 1, else empty
    """

    created: str
    folder: Path
    game: str
    sides: tuple[RatedSide, RatedSide]
    result: strength.MatchResult
    points: tuple[float, ...]


@dataclass(frozen=True)
class Rated:
    """The ratings of all players and their data.

    matches  in order of time
    fit      anchored
    """

    ratings: Ratings
    matches: Sequence[RatedMatch]
    fit: strength.BradleyTerry

    @property
    def results(self) -> list[strength.MatchResult]:
        return [match.result for match in self.matches]


def ratings(config: RatingsConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Rate all players of all matches, and write the ratings file.

    The default folders may be missing; given ones must exist. Ratings of given folders are written only if
    config.output is given too, so that the run's own file stays about the run.
    Raises NotYet if no game was played, UsageError for a missing folder or an unrated anchor, MuGoError if the matches
    are of several games, FileError if the ratings file can't be written.
    """
    are_given = config.directory != RatingsConfig.model_fields["directory"].default
    for directory in config.directory if are_given else ():
        if not directory.is_dir():
            raise UsageError(f"ratings --directory {directory}: no such folder; wanted a folder of matches")
    if are_given and "output" not in config.model_fields_set:
        return _summary(config, *_rated(config, progress), None)
    return rate_and_write(config, progress)


def rate_and_write(
    config: RatingsConfig, progress: Progress = SILENT, among: Sequence[str] | None = None
) -> RatingsSummary:
    """Like ratings(), but folders may be missing, and the file is always written.

    among: restricts the summary to these players, with errors relative to their mean; the file has all players.
    """
    if not any(map(list_matches, config.directory)):
        folders = ", ".join(map(str, config.directory))  # none is made, nor the lock
        raise NotYet(f"no games of matches in {folders} yet; `python main.py evaluate` plays some", missing=1)
    atomic.make_folder(config.output.parent)
    waiting = f"another process writes {config.output}; waiting"
    with atomic.file_lock(config.output, on_wait=lambda: progress.say(waiting)):
        atomic.sweep(config.output.parent)
        try:
            if atomic.exists(config.output):
                read_ratings(config.output)
        except FileError as error:
            progress.warn(f"{config.output} was unusable and is rebuilt from the match records: {error.problem}")
        found = _rated(config, progress)
        write_record(config.output, found[0].ratings)
    return _summary(config, *found, str(config.output), among)


def _rated(config: RatingsConfig, progress: Progress) -> tuple[Rated, int]:
    """(ratings, the number of damaged matches)."""
    anchor = strength.parse_anchor(config.anchor) if config.anchor is not None else None
    skipped: list[Path] = []
    return rate(each_match(config.directory, progress, True, skipped), anchor), len(skipped)


# Match records


def read_matches(directories: Sequence[Path], progress: Progress = SILENT) -> list[MatchResults]:
    """The matches with games in these folders, oldest first; see each_match()."""
    matches = (match for match in each_match(directories, progress) if len(match.rows))
    return sorted(matches, key=lambda match: (match.header.created, match.folder.name))


def each_match(
    directories: Sequence[Path],
    progress: Progress = SILENT,
    keep: bool = False,
    skipped: list[Path] | None = None,
    known: dict[Path, MatchResults] | None = None,
) -> Iterator[MatchResults]:
    """The matches in these folders, by folder.

    Every game that isn't in results.json is replayed; a match with an illegal game is damaged. A warning names each
    damaged match, which is left out. If the rules aren't known, games count unchecked, with a warning. A damaged
    summary also gives a warning, but the games count.

    keep     as in read_results
    skipped  gets the folders of damaged matches
    known    by real folder: matches that are read again only if they have grown; changed in place
    """
    folders: dict[Path, Path] = {}  # by real folder, as a match may be a link
    for directory in directories:
        home = directory.resolve()
        for folder in list_matches(directory):
            folders[folder.resolve() if folder.is_symlink() else home / folder.name] = folder
    for real, folder in folders.items():
        try:
            match = known.get(real) if known else None
            if match is None or _size(folder) != match.num_bytes:
                match = checked_results(folder, keep, progress)
        except FileError as error:
            progress.warn(f"skipped {error}")
            if skipped is not None:
                skipped.append(folder)
            continue
        if known is not None:
            known[real] = match
        try:
            match = match.with_summary()
        except FileError as error:
            progress.warn(f"{error}; the games still count; remove that file, nothing is lost with it")
        yield match


def _size(folder: Path) -> int | None:
    """Of games.jsonl; None: it is gone."""
    path = folder / layout.MATCH_GAMES
    return path.stat().st_size if path.exists() else None


def checked_results(folder: Path, keep: bool, progress: Progress = SILENT) -> MatchResults:
    """The results of a match for each_match(). Raises FileError if it is damaged."""
    try:
        return read_results(folder, checked=True, keep=keep)
    except UnknownGame as error:
        progress.warn(f"not checked, but counted: {error}")
        return read_results(folder)


def match_result(match: Record) -> strength.MatchResult:
    """The results of a match's measured_games(), with its players' names in ratings."""
    challenger, champion = match.header.players
    results = [game.challenger_result for game in measured_games(match)]
    signs = tuple((result > 0) - (result < 0) for result in results)
    return strength.MatchResult(challenger.rated_as, champion.rated_as, signs)


def _rated_match(match: Record, shared: dict[RatedSide, RatedSide]) -> RatedMatch:
    """shared: equal sides become one object, as a player has many matches."""
    header = match.header
    one, other = (RatedSide(one.rated_as, one.kind, one.weights, tuple(one.parents)) for one in header.players)
    points = tuple(game.challenger_result for game in measured_games(match)) if header.max_result > 1 else ()
    sides = shared.setdefault(one, one), shared.setdefault(other, other)
    return RatedMatch(header.created, match.folder, header.game, sides, match_result(match), points)


# From match records to ratings


def rate(records: Iterable[Record], anchor: tuple[str, float] | None = None) -> Rated:
    """The ratings of all players of these matches. Holds one match's games in memory at a time.

    anchor: (name, Elo) for Bradley-Terry; None: random at 0, or the oldest model if random didn't play.
    Raises NotYet if no game was played, UsageError for an unrated anchor, MuGoError if the matches are of several
    games.
    """
    shared: dict[RatedSide, RatedSide] = {}
    matches = [one for record in records if (one := _rated_match(record, shared)).result.results]
    matches.sort(key=lambda match: (match.created, match.folder.name))
    results = [match.result for match in matches]
    infos = {side.name: side for match in matches for side in match.sides}
    scores = strength.total_scores(results)
    if not scores:
        raise NotYet("no games between two players yet; `python main.py evaluate` plays some", missing=1)
    first = matches[0]
    for match in matches:
        if match.game != first.game:
            raise MuGoError(
                f"matches of several games: {first.folder} is {first.game}, {match.folder} is "
                f"{match.game}; wanted one game; move the others away, or name folders with --directory"
            )
    name, value = anchor or (_default_anchor(scores, infos), 0.0)
    found = strength.resolve_name(name, {one: score.games for one, score in scores.items()})
    if found is None:
        raise UsageError(f"--anchor {name!r}: no such rated player; rated players: {', '.join(scores)}")
    fit = strength.bradley_terry(results).anchored(found, value)
    errors, ratings_of = fit.errors(), fit.ratings
    groups = {member: number for number, group in enumerate(fit.groups) for member in group}
    elo = strength.elo(results)
    skills = strength.true_skill(results, {one: info.parents for one, info in infos.items()})
    players = [
        RatedPlayer(
            name=one,
            kind=infos[one].kind,
            games=score.games,
            **asdict(score),
            bradley_terry=ratings_of[one],
            bradley_terry_error=errors[one],
            group=groups[one],
            elo=elo[one],
            trueskill_mu=skills[one].mu,
            trueskill_sigma=skills[one].sigma,
        )
        for one, score in sorted(scores.items(), key=lambda item: -ratings_of[item[0]])
    ]
    record = Ratings(
        game=first.game,
        anchor=found,
        anchor_elo=value,
        matches=len(matches),
        games=sum(score.games for score in scores.values()) // 2,
        players=players,
    )
    return Rated(record, matches, fit)


def _default_anchor(names: Collection[str], infos: dict[str, RatedSide]) -> str:
    if "random" in names:
        return "random"
    if numbered := [name for name in names if layout.number_of(name.rpartition("@")[0]) is not None]:
        return min(numbered)
    return next((name for name in names if infos[name].kind == "model"), next(iter(names)))


# The summary


def _summary(
    config: RatingsConfig, rated: Rated, skipped: int, path: str | None, among: Sequence[str] | None = None
) -> RatingsSummary:
    shown = set(rated.ratings.by_name if among is None else among)
    groups = [[name for name in group if name in shown] for group in rated.fit.groups]
    groups = sorted(filter(None, groups), key=lambda group: -len(group))
    return RatingsSummary(
        game=rated.ratings.game,
        method=config.method,
        anchor=f"{rated.ratings.anchor}={rated.ratings.anchor_elo:g}",
        matches=rated.ratings.matches,
        matches_skipped=skipped,
        games=rated.ratings.games,
        path=path,
        rows=_rows(rated, config.method, groups),
        warnings=_warnings(rated, config.method, groups),
        left_out=len(rated.ratings.players) - sum(map(len, groups)),
    )


def _rows(rated: Rated, method: str, groups: Sequence[Sequence[str]]) -> list[RatingRow]:
    field_of = {"elo": "elo", "trueskill": "trueskill_mu", "bradley-terry": "bradley_terry"}[method]
    players = rated.ratings.by_name
    rating = {name: float(getattr(player, field_of)) for name, player in players.items()}
    opponents, points = strength.average_opponents(rated.results, rating), _points_per_game(rated.matches)
    rows = []
    for number, group in enumerate(groups):
        errors: dict[str, float | None] = dict.fromkeys(group)
        if method == "trueskill":
            errors |= {name: Z_95 * players[name].trueskill_sigma for name in group}
        elif method == "bradley-terry" and len(group) > 1:  # an error relative to itself would mean nothing
            errors |= rated.fit.errors_among(group)
        for rank, name in enumerate(sorted(group, key=lambda name: -rating[name]), start=1):
            rows.append(
                RatingRow(
                    rank=rank,
                    rating=rating[name],
                    error=errors[name],
                    average_opponent=opponents[name],
                    group=number,
                    points_per_game=points.get(name),
                    **players[name].model_dump(include={"name", "kind", "games", "wins", "draws", "losses"}),
                )
            )
    return rows


def _points_per_game(matches: Sequence[RatedMatch]) -> dict[str, float]:
    """Each player's points per game in the measured games of matches whose games count more than 1."""
    found: dict[str, list[float]] = {}
    for match in matches:
        for side, sign in zip(match.sides, (1, -1), strict=True):
            found.setdefault(side.name, []).extend(sign * points for points in match.points)
    return {name: sum(points) / len(points) for name, points in found.items() if points}


def _warnings(rated: Rated, method: str, groups: Sequence[Sequence[str]]) -> list[str]:
    shown = {name for group in groups for name in group}
    found = [
        f"no games connect {_some(group)} with the players above, so their ratings can't be compared; play a match "
        "between them"
        for group in groups[1:]
    ]
    if method == "bradley-terry":
        lopsided = [player.name for player in rated.ratings.players if player.games in (player.wins, player.losses)]
        lopsided = [name for name in lopsided if name in shown]
        if lopsided:
            found.append(f"{_some(lopsided)} won or lost every game: the distance to the others is set by the prior")
    versions = {(side.name, side.weights) for match in rated.matches for side in match.sides if side.name in shown}
    for name, count in sorted(Counter(name for name, _ in versions).items()):
        if count > 1:
            found.append(f"{name} played with {count} different sets of weights but is rated as one player")
    return found


def _some(names: Sequence[str]) -> str:
    left = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {left} more" if left > 0 else "")
