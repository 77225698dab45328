"""ratings: from the records of all matches to a table of strengths and ``data/ratings.json``.

Everything is computed anew from the match records whenever asked, by all three methods; the file is a copy for readers,
and a damaged one costs nothing. Matches count in order of time where the method has an order: by the time at which they
were begun. Failed games count for nobody. Doesn't play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.arena import ratings as arena
from pipeline.arena.statistics import Z_95
from pipeline.config import RatingsConfig
from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.progress import SILENT, Progress
from pipeline.records import atomic, layout
from pipeline.records.matches import Match, PlayerInfo, list_matches, read_match
from pipeline.records.ratings import RatedPlayer, Ratings, read_ratings, write_ratings
from pipeline.reports.ratings import RatingRow, RatingsSummary

NAMES_SHOWN = 5


@dataclass(frozen=True)
class Rated:
    """Everything known about everybody's strength."""

    ratings: Ratings
    encounters: list[arena.Encounter]  # in order of time
    fit: arena.BradleyTerry  # anchored


def ratings(config: RatingsConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Rate every player of every match, and write the ratings file.

    Raises NotYet if no game was played, UsageError for an anchor that isn't rated, MuGoError if the matches are of
    several games, FileError if the ratings file can't be written.
    """
    anchor = arena.parse_anchor(config.anchor) if config.anchor is not None else None
    output = config.output
    atomic.make_folder(output.parent)
    with atomic.file_lock(output, on_wait=lambda: progress.say(f"another process writes {output}; waiting")):
        _warn_of_damage(output, progress)
        matches, skipped = read_matches(config.directory, progress)
        if not matches:
            folders = ", ".join(map(str, config.directory))
            raise NotYet(f"no games of matches in {folders} yet; `python main.py evaluate` plays some", missing=1)
        rated = rate(matches, anchor)
        write_ratings(output, rated.ratings)
    return RatingsSummary(
        game=rated.ratings.game,
        method=config.method,
        anchor=f"{rated.ratings.anchor}={rated.ratings.anchor_elo:g}",
        matches=rated.ratings.matches,
        matches_skipped=skipped,
        games=rated.ratings.games,
        path=str(output),
        rows=_rows(rated, config.method),
        warnings=_warnings(rated, matches, config.method),
    )


def _warn_of_damage(path: Path, progress: Progress) -> None:
    if not path.exists():
        return
    try:
        read_ratings(path)
    except FileError as error:
        progress.warn(f"{path} was unusable and is made anew from the match records: {error.problem}")


# From match records to ratings, also for other stages


def read_matches(directories: Sequence[Path], progress: Progress = SILENT) -> tuple[list[Match], int]:
    """(the matches with games in these folders, oldest first; how many are damaged, each named in a warning)."""
    matches, skipped = [], 0
    folders = {folder.resolve(): folder for directory in directories for folder in list_matches(directory)}
    for folder in folders.values():
        try:
            match = read_match(folder)
        except FileError as error:
            progress.warn(f"skipped {error}")
            skipped += 1
            continue
        if match.games:
            matches.append(match)
    return sorted(matches, key=lambda match: (match.header.created, match.folder.name)), skipped


def encounter_of(match: Match) -> arena.Encounter:
    """A match's finished games, as the ratings name its players."""
    challenger, champion = match.header.players
    return arena.Encounter(
        challenger.rated_as, champion.rated_as, tuple(game.challenger_result for game in match.games)
    )


def rate(matches: Sequence[Match], anchor: tuple[str, float] | None = None) -> Rated:
    """The ratings of everybody in these matches, which must be in order of time; at least one must have games.

    anchor: (name, Elo) for Bradley-Terry; None: random at 0, without it the oldest model at 0.
    Raises UsageError for an anchor that isn't rated, MuGoError if the matches are of several games.
    """
    game = _one_game(matches)
    encounters = [encounter_of(match) for match in matches]
    infos = {info.rated_as: info for match in matches for info in match.header.players}
    tallies = arena.tallies(encounters)
    if not tallies:
        raise NotYet("no player has met another one yet", missing=1)
    name, value = anchor or (_default_anchor(tallies, infos), 0.0)
    found = arena.resolve_name(name, tallies, {one: tally.games for one, tally in tallies.items()})
    if found is None:
        raise UsageError(f"--anchor {name!r}: no such rated player; there are: {', '.join(tallies)}")
    fit = arena.bradley_terry(encounters).anchored(found, value)
    errors, strengths = fit.errors(), fit.ratings
    groups = {member: number for number, group in enumerate(fit.groups) for member in group}
    elo = arena.elo(encounters)
    skills = arena.true_skill(encounters, {one: info.parents for one, info in infos.items()})
    players = [
        RatedPlayer(
            name=one,
            kind=infos[one].kind,
            games=tally.games,
            wins=tally.wins,
            draws=tally.draws,
            losses=tally.losses,
            bradley_terry=strengths[one],
            bradley_terry_error=errors[one],
            group=groups[one],
            elo=elo[one],
            trueskill_mu=skills[one].mu,
            trueskill_sigma=skills[one].sigma,
        )
        for one, tally in sorted(tallies.items(), key=lambda item: -strengths[item[0]])
    ]
    record = Ratings(
        game=game,
        anchor=found,
        anchor_elo=value,
        matches=len(matches),
        games=sum(tally.games for tally in tallies.values()) // 2,
        players=players,
    )
    return Rated(record, encounters, fit)


def _one_game(matches: Sequence[Match]) -> str:
    first = matches[0]
    for match in matches:
        if match.header.game != first.header.game:
            raise MuGoError(
                f"matches of several games: {first.folder} is {first.header.game}, {match.folder} is "
                f"{match.header.game}; wanted one game; move the others away, or name folders with --directory"
            )
    return first.header.game


def _default_anchor(tallies: dict[str, arena.Tally], infos: dict[str, PlayerInfo]) -> str:
    if "random" in tallies:
        return "random"
    numbers = {name: layout.parse_model_name(name.rpartition("@")[0]) for name in tallies}
    numbered = [name for name, number in numbers.items() if number is not None]
    if numbered:
        return min(numbered)
    return next((name for name in tallies if infos[name].kind == "model"), next(iter(tallies)))


# The summary


def _rows(rated: Rated, method: str) -> list[RatingRow]:
    def rating(player: RatedPlayer) -> float:
        if method == "elo":
            return player.elo
        return player.trueskill_mu if method == "trueskill" else player.bradley_terry

    def error(player: RatedPlayer) -> float | None:
        if method == "elo":
            return None
        return Z_95 * player.trueskill_sigma if method == "trueskill" else player.bradley_terry_error

    players = sorted(rated.ratings.players, key=lambda player: -rating(player))
    opponents = arena.average_opponents(rated.encounters, {player.name: rating(player) for player in players})
    return [
        RatingRow(
            rank=rank,
            name=player.name,
            kind=player.kind,
            rating=rating(player),
            error=error(player),
            games=player.games,
            wins=player.wins,
            draws=player.draws,
            losses=player.losses,
            average_opponent=opponents[player.name],
            group=player.group,
        )
        for rank, player in enumerate(players, start=1)
    ]


def _warnings(rated: Rated, matches: Sequence[Match], method: str) -> list[str]:
    found = []
    main, *others = rated.fit.groups
    for group in others:
        found.append(
            f"{_some(group)} never met {_some(main)}, not even through others: their ratings don't compare; a match "
            "between any two of them mends that"
        )
    if method == "bradley-terry":
        lopsided = [player.name for player in rated.ratings.players if player.games in (player.wins, player.losses)]
        if lopsided:
            found.append(f"{_some(lopsided)} won or lost every game: how far above or below is a guess of the prior")
    weights: dict[str, set[str]] = {}
    for match in matches:
        for info in match.header.players:
            weights.setdefault(info.rated_as, set()).add(info.weights)
    for name, versions in weights.items():
        if len(versions) > 1:
            found.append(f"{name} played with {len(versions)} different sets of weights, and is rated as one player")
    return found


def _some(names: Sequence[str]) -> str:
    left = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {left} more" if left > 0 else "")
