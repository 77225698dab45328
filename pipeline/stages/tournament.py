"""``tournament``: players meet each other until it is known how strong they are. Nobody is promoted.

Reads players, or the pool; writes a folder of matches that grow by a few pairs of games at a time, and at the end the
ratings. Whoever meets next follows from the games of all matches, this folder's and those of evaluate beside it, so a
tournament that was stopped goes on where it stood, and one that is given more players or games just goes on.
Models play under the name that they are rated as: NAME@READOUTS.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.arena.ratings import Encounter, bradley_terry
from pipeline.arena.scheduling import next_pairs, worst_error
from pipeline.config import RatingsConfig, TournamentConfig
from pipeline.errors import NotYet, UsageError
from pipeline.progress import SILENT, Progress
from pipeline.records import layout
from pipeline.records.matches import match_lock
from pipeline.records.ratings import read_pool
from pipeline.reports.ratings import RatingsSummary
from pipeline.stages.contest import Contest, Seat, common_game, take_seat
from pipeline.stages.ratings import encounter_of, ratings, read_matches

LOWEST_PRIORITY = 19
MATCHES = Path("evaluate")  # evaluate's matches, beside the tournament's folder, are known results too


def tournament(config: TournamentConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Play config.games games, or until the ratings are known well enough; the ratings of everybody.

    Raises NotYet for fewer than two players or if another process plays the same two, UsageError for wrong players,
    KeyboardInterrupt after recording what was finished.
    """
    if config.games % 2:
        raise UsageError(f"tournament --games {config.games}: wanted an even number: every opening is played twice")
    seats = _seats(config)
    if config.background:
        os.nice(LOWEST_PRIORITY)
        config = config.model_copy(update={"threads": config.threads or 1})
    contest = Contest(config, common_game(config.game, list(seats.values())), progress)
    place = None if config.place is None else take_seat(config.place, config.readouts).info.rated_as
    left = config.games // 2
    while left > 0:
        encounters = _known(config)
        error = worst_error(bradley_terry(encounters, players=list(seats)), list(seats), place)
        if error <= config.until:
            progress.say(f"every rating is known to +-{config.until:g} Elo")
            break
        found = next_pairs(list(seats), encounters, 1, config.schedule, place, config.against)  # type: ignore[arg-type]
        pairs = min(left, config.pairs_per_round)
        played = _round(config, contest, seats[found[0][0]], seats[found[0][1]], pairs)
        left -= pairs
        if not played:
            progress.warn("no game of the last round came to an end; stopping here")
            break
    folders = [config.output_dir.parent / MATCHES, config.output_dir]
    return ratings(RatingsConfig(directory=folders, output=config.output_dir.parent / layout.RATINGS), progress)


def _seats(config: TournamentConfig) -> dict[str, Seat]:
    """Who plays, by the name that they are rated as."""
    texts = list(config.player) or [member.spec for member in read_pool(config.pool).members]
    if config.place is not None:
        texts.append(config.place)
    seats: dict[str, Seat] = {}
    for text in texts:
        seat = take_seat(text, config.readouts)
        rated = seat.info.rated_as
        seat = replace(seat, info=seat.info.model_copy(update={"name": rated}))
        other = seats.setdefault(rated, seat)
        if (other.info.weights, other.spec.command, other.info.kind) != (
            seat.info.weights, seat.spec.command, seat.info.kind,
        ):  # fmt: skip
            raise UsageError(
                f"tournament: {other.spec.text!r} and {text!r} would both be rated as {rated}; name one: NAME=PLAYER"
            )
    if len(seats) < 2:
        raise NotYet(
            f"tournament: {len(seats)} players; wanted at least two: name them with --player, or fill {config.pool} "
            "with `python main.py pool add PLAYER`",
            2 - len(seats),
        )
    return seats


def _known(config: TournamentConfig) -> list[Encounter]:
    matches, _ = read_matches([config.output_dir.parent / MATCHES, config.output_dir])
    return [encounter_of(match) for match in matches]


def _round(config: TournamentConfig, contest: Contest, one: Seat, other: Seat, num_pairs: int) -> int:
    """So many more pairs of games of these two; how many games came to an end."""
    folder = config.output_dir / layout.match_name(one.name, other.name)
    swapped = config.output_dir / layout.match_name(other.name, one.name)
    if swapped.exists():
        one, other, folder = other, one, swapped
    with match_lock(folder):
        writer = contest.open(folder, (one, other), 0)
        before = len(writer.games)
        wanted = before + 2 * num_pairs
        more = -(-(wanted - writer.num_games) // 2)
        if more > 0:  # games of a round that was cut short are played first
            contest.extend(writer, (one, other), more)
        contest.play(writer, (one, other), lambda so_far: len(so_far.games) >= wanted)
        return len(writer.games) - before

