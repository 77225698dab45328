"""``ratings``: rate players from all match records, as a table and as ``data/ratings.json``.

All three rating systems are computed from the match records every time. The file is a copy for readers, so nothing is
lost if it is damaged. Systems that depend on order take matches by starting time. Failed games don't count. Plays
nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.matches.statistics import Z_95, Record, rated_games
from pipeline.progress import SILENT, Progress
from pipeline.ratings import strength
from pipeline.ratings.config import RatingsConfig
from pipeline.run import atomic, layout
from pipeline.run.matches import MatchResults, PlayerInfo, UnknownGame, list_matches, read_results
from pipeline.run.ratings import RatedPlayer, Ratings, read_ratings, write_record

NAMES_SHOWN = 3


@dataclass(frozen=True)
class RatingRow:
    """A player in the table, rated by the system asked for.

    rank                      within the group
    rating, average_opponent  on the system's scale: Elo or TrueSkill's; from games won, not from their points
    points_per_game           in games that count more than 1
    error                     half of the 95 % interval; None if the system has none
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
    system: str
    anchor: str
    matches: int
    matches_skipped: int
    games: int
    path: str | None
    rows: list[RatingRow]
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0


class Rated(NamedTuple):
    """The ratings of all players and their data.

    fit      anchored
    results  in order of time
    points   each player's in the games that count more than 1, by name
    weights  all that a player has played with, by name
    """

    ratings: Ratings
    fit: strength.BradleyTerry
    results: list[strength.MatchResult]
    points: Mapping[str, list[float]]
    weights: Mapping[str, set[str]]


def ratings(config: RatingsConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Rate all players of all matches, and write the ratings file.

    The default folders may be missing; given ones must exist. Ratings of given folders are written only if
    config.output is given too, so that the run's own file stays about the run.
    Raises NotYet if no game was played, UsageError for a missing folder or an unrated anchor, MuGoError if the matches
    are of several games, FileError if the ratings file can't be written.
    """
    are_given = config.directory != RatingsConfig.model_fields["directory"].default
    for directory in config.directory if are_given else ():
        if not atomic.is_folder(directory):
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
    anchor = strength.parse_anchor(config.anchor) if config.anchor is not None else None
    skipped: list[Path] = []
    return rate(each_match(config.directory, progress.warn, True, skipped), anchor), len(skipped)


# Match records


def read_matches(directories: Sequence[Path], warn: Callable[[str], None] = SILENT.warn) -> list[MatchResults]:
    """The matches with games in these folders, oldest first; see each_match()."""
    matches = (match for match in each_match(directories, warn) if len(match.rows))
    return sorted(matches, key=lambda match: (match.header.created, match.folder.name))


def each_match(
    directories: Sequence[Path],
    warn: Callable[[str], None] = SILENT.warn,
    keep: bool = False,
    skipped: list[Path] | None = None,
    known: dict[Path, MatchResults] | None = None,
) -> Iterator[MatchResults]:
    """The matches in these folders, by folder.

    Every game that isn't in results.json is replayed. Warns of each damaged match, which is left out, of games that
    can't be replayed as recorded, which don't count, and of each damaged summary and game of unknown rules, where the
    games count.

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
            games = folder / layout.MATCH_GAMES
            if match is None or not games.exists() or games.stat().st_size != match.num_bytes:
                match = checked_results(folder, keep, warn)
        except FileError as error:
            warn(f"skipped {error}")
            if skipped is not None:
                skipped.append(folder)
            continue
        if known is not None:
            known[real] = match
        try:
            match = match.with_summary()
        except FileError as error:
            warn(f"{error}; the games still count; remove that file, nothing is lost with it")
        yield match


def checked_results(folder: Path, keep: bool, warn: Callable[[str], None] = SILENT.warn) -> MatchResults:
    """The results of a match for each_match(). Raises FileError if it is damaged."""
    try:
        found = read_results(folder, checked=True, keep=keep)
        if found.left_out is not None:
            warn(f"counted for neither side: {found.left_out}")
        return found
    except UnknownGame as error:
        warn(f"not checked, but counted: {error}")
        return read_results(folder)


def match_result(match: Record) -> strength.MatchResult:
    """The results of a match's rated_games(), with its players' names in ratings."""
    challenger, champion = match.header.players
    results = [game.challenger_result for game in rated_games(match)]
    signs = tuple((result > 0) - (result < 0) for result in results)
    return strength.MatchResult(challenger.rated_as, champion.rated_as, signs)


# From match records to ratings


def rate(records: Iterable[Record], anchor: tuple[str, float] | None = None) -> Rated:
    """The ratings of all players of these matches. Holds one match's games in memory at a time.

    anchor: (name, Elo) for Bradley-Terry; None: random at 0, or the oldest model if random didn't play.
    Raises NotYet if no game was played, UsageError for an unrated anchor, MuGoError if the matches are of several
    games.
    """
    matches: list[tuple[tuple[str, str], Path, str, strength.MatchResult]] = []
    newest: dict[str, tuple[tuple[str, str], PlayerInfo]] = {}  # a player as its last match has it
    points: dict[str, list[float]] = defaultdict(list)
    weights: dict[str, set[str]] = defaultdict(set)
    for record in records:
        header, result = record.header, match_result(record)
        if not result.results:
            continue
        order = header.created, record.folder.name
        matches.append((order, record.folder, header.game, result))
        for info, sign in zip(header.players, (1, -1), strict=True):
            name = info.rated_as
            newest[name] = max((order, info), newest.get(name, (order, info)), key=itemgetter(0))
            weights[name].add(info.weights)
            if header.max_result > 1:
                points[name] += [sign * game.challenger_result for game in rated_games(record)]
    matches.sort(key=itemgetter(0))
    results = [result for _, _, _, result in matches]
    scores = strength.total_scores(results)
    if not scores:
        raise NotYet("no games between two players yet; `python main.py evaluate` plays some", missing=1)
    _, folder, game, _ = matches[0]
    for _, another, its_game, _ in matches:
        if its_game != game:
            raise MuGoError(
                f"matches of several games: {folder} is {game}, {another} is {its_game}; wanted one game; move the "
                "others away, or name folders with --directory"
            )
    infos = {name: info for name, (_, info) in newest.items()}
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
    rated = Ratings(
        game=game,
        anchor=found,
        anchor_elo=value,
        matches=len(matches),
        games=sum(score.games for score in scores.values()) // 2,
        players=players,
    )
    return Rated(rated, fit, results, points, weights)


def _default_anchor(names: Iterable[str], infos: Mapping[str, PlayerInfo]) -> str:
    """names: in the order of their first matches."""
    if "random" in names:
        return "random"
    numbers = {name: layout.number_of(name.rpartition("@")[0]) for name in names}
    if numbered := {name: number for name, number in numbers.items() if number is not None}:
        return min(numbered, key=lambda name: numbered[name])  # with the readouts that it had first
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
        system=config.system,
        anchor=f"{rated.ratings.anchor}={rated.ratings.anchor_elo:g}",
        matches=rated.ratings.matches,
        matches_skipped=skipped,
        games=rated.ratings.games,
        path=path,
        rows=_rows(rated, config.system, groups),
        warnings=_warnings(rated, config.system, groups),
        left_out=len(rated.ratings.players) - sum(map(len, groups)),
    )


def _rows(rated: Rated, system: str, groups: Sequence[Sequence[str]]) -> list[RatingRow]:
    field_of = {"elo": "elo", "trueskill": "trueskill_mu", "bradley-terry": "bradley_terry"}[system]
    players = rated.ratings.by_name
    rating = {name: float(getattr(player, field_of)) for name, player in players.items()}
    opponents = strength.average_opponents(rated.results, rating)
    rows = []
    for number, group in enumerate(groups):
        errors: dict[str, float | None] = dict.fromkeys(group)
        if system == "trueskill":
            errors |= {name: Z_95 * players[name].trueskill_sigma for name in group}
        elif system == "bradley-terry" and len(group) > 1:  # an error relative to itself would mean nothing
            errors |= rated.fit.errors_among(group)
        for rank, name in enumerate(sorted(group, key=lambda name: -rating[name]), start=1):
            rows.append(
                RatingRow(
                    rank=rank,
                    rating=rating[name],
                    error=errors[name],
                    average_opponent=opponents[name],
                    group=number,
                    points_per_game=statistics.fmean(points) if (points := rated.points.get(name)) else None,
                    **players[name].model_dump(include={"name", "kind", "games", "wins", "draws", "losses"}),
                )
            )
    return rows


def _warnings(rated: Rated, system: str, groups: Sequence[Sequence[str]]) -> list[str]:
    shown = {name for group in groups for name in group}
    found = [
        f"no games connect {_some(group)} with the players above, so their ratings can't be compared; play a match "
        "between them"
        for group in groups[1:]
    ]
    lopsided = [one.name for one in rated.ratings.players if one.name in shown and one.games in (one.wins, one.losses)]
    if lopsided and system == "bradley-terry":
        found.append(f"{_some(lopsided)} won or lost every game: the distance to the others is set by the prior")
    return found + [
        f"{name} played with {len(versions)} different sets of weights but is rated as one player"
        for name, versions in sorted(rated.weights.items())
        if name in shown and len(versions) > 1
    ]


def _some(names: Sequence[str]) -> str:
    left = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {left} more" if left > 0 else "")
