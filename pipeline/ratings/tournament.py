"""``tournament``: players meet each other until their strengths are known well enough. Nobody is promoted.

Reads players, or the pool. Writes a folder of matches that grow by a few pairs of games at a time, and at the end, or
when interrupted, the ratings. All matches in this folder and in evaluate's beside it determine who meets next. The
requested number of games is the folder's, between the players of this run. So a stopped tournament continues where it
stopped, a finished one plays nothing, and more players or games may be added later. Models play under their names in
ratings: NAME@READOUTS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.matches.runner import Entrant, MatchRunner, common_game, load_entrant
from pipeline.players.player_specs import is_engine
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import RatingsSummary, checked_results, match_result, rate_and_write
from pipeline.ratings.config import RatingsConfig, TournamentConfig
from pipeline.ratings.scheduling import next_pair, worst_error
from pipeline.ratings.strength import bradley_terry
from pipeline.run import layout
from pipeline.run.matches import MatchResults, MatchWriter, list_matches, match_lock
from pipeline.run.ratings import Member, read_pool


@dataclass(frozen=True)
class Field:
    """The players. entrants: by name in ratings; place: the player to be placed; None: all meet all."""

    entrants: dict[str, Entrant]
    place: str | None

    @property
    def names(self) -> list[str]:
        return list(self.entrants)

    @property
    def with_handicap(self) -> list[str]:
        """The players that take handicap stones. No two of them can meet."""
        return [name for name, entrant in self.entrants.items() if entrant.spec.handicap]

    def plays(self, match: MatchResults) -> bool:
        """Whether this run may add games to this match: a tournament's, so without a fixed number of games."""
        names = {info.rated_as for info in match.header.players}
        return match.header.games == 0 and names <= self.entrants.keys() and self.place in {None, *names}


def tournament(config: TournamentConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Play until the folder has config.games games of these players, or their ratings are known well enough.

    The summary has only these players, with errors relative to their mean; config.until refers to those errors.
    Raises NotYet for a pool of fewer than two or if another process plays in this folder, UsageError for wrong players
    or rated matches of another game, FileError for a member of the pool that can't play, KeyboardInterrupt after
    recording the finished games.
    """
    if config.games % 2:
        raise UsageError(f"tournament --games {config.games}: wanted an even number: every opening is played twice")
    if config.against and config.place is None:
        raise UsageError(f"tournament --against {config.against}: wanted --place PLAYER, the player to place")
    field, game = _field(config, progress)
    if config.background:
        config = config.model_copy(update={"threads": config.threads or 1})
    busy = "another process plays this tournament; wait until it is done, or choose another --output-dir"
    with MatchRunner(config, game, progress) as runner, match_lock(config.output_dir, busy):
        history = _History(_folders(config))
        _check_game(config, history.read(), game)
        try:
            _play(config, field, runner, history, progress)
        except BaseException:
            try:
                _rate(config, field)
            except NotYet:
                pass
            except Exception as error:  # must not hide the error that stopped the tournament
                progress.warn(f"the ratings were not written: {error}")
            raise
        return _rate(config, field, progress)


def _check_game(config: TournamentConfig, known: Sequence[MatchResults], game: Game) -> None:
    """Raises UsageError for matches of another game, which can't be rated together with this tournament's."""
    for match in known:
        if len(match.rows) and match.header.game != game.spec:
            raise UsageError(
                f"tournament --output-dir {config.output_dir}: {match.folder} is rated with it, but its game is "
                f"{match.header.game}, not {game.spec}; wanted another folder, e.g. --output-dir "
                f"other/{config.output_dir.name}"
            )


def _play(config: TournamentConfig, field: Field, runner: MatchRunner, history: _History, progress: Progress) -> None:
    begun: set[str] = set()  # matches that this run has played: games missing there failed twice
    writers: dict[Path, MatchWriter] = {}
    while True:
        known = history.read()
        own = [match for match in known if match.folder.parent == config.output_dir and field.plays(match)]
        left = config.games - sum(len(match.games) for match in own)
        if left <= 0:
            return
        results = [match_result(match) for match in known]
        error = worst_error(bradley_terry(results, players=field.names), field.names, field.place)
        if error <= config.until:
            num, known_to = len(field.entrants), f"known to +-{config.until:g} Elo relative to"
            if field.place is None:
                progress.say(f"the ratings of these {num} players are {known_to} their mean")
            else:
                progress.say(f"the rating of {field.place} is {known_to} the mean of these {num} players")
            return
        cut_short = [match for match in own if len(match.games) < match.num_games and match.folder.name not in begun]
        if cut_short:
            one, other = (info.rated_as for info in cut_short[0].header.players)
            games, more = cut_short[0].num_games - len(cut_short[0].games), 0
        else:
            how = config.schedule, field.place, config.against, field.with_handicap
            one, other = next_pair(field.names, results, *how)
            more = min(-(-left // 2), config.pairs_per_round)
            games = 2 * more
        begun |= {layout.match_name(one, other), layout.match_name(other, one)}
        ended = _round(config, runner, writers, field.entrants[one], field.entrants[other], games, more)
        # Games left by an earlier run may fail for good. Stop only if all new ones fail.
        if more and not ended:
            progress.warn("every game of the last round failed; stopping")
            return


class _History:
    """All matches of some folders, including those without games. Rereads only matches that have grown."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._known: dict[Path, MatchResults] = {}

    def read(self) -> list[MatchResults]:
        """Oldest first, without damaged ones, which the ratings at the end name."""
        folders = {folder.resolve(): folder for directory in self._directories for folder in list_matches(directory)}
        found: dict[Path, MatchResults] = {}
        for real, folder in folders.items():
            known = self._known.get(real)
            with suppress(OSError, FileError):
                is_same = known and (folder / layout.MATCH_GAMES).stat().st_size == known.num_bytes
                found[real] = known if known and is_same else checked_results(folder, keep=True)
        self._known = found.copy()
        for real, match in found.items():
            with suppress(FileError):
                found[real] = match.with_summary()
        return sorted(found.values(), key=lambda match: (match.header.created, match.folder.name))


def _folders(config: TournamentConfig) -> list[Path]:
    """The folders of rated matches: evaluate's beside this folder, and this folder."""
    evaluated = config.output_dir.parent / layout.EVALUATE
    return [evaluated, evaluated / layout.REQUIRED, evaluated / layout.WATCH, config.output_dir]


def _rate(config: TournamentConfig, field: Field, progress: Progress = SILENT) -> RatingsSummary:
    rating = RatingsConfig(directory=_folders(config), output=config.output_dir.parent / layout.RATINGS)
    return rate_and_write(rating, progress, among=field.names)


# The players


def _field(config: TournamentConfig, progress: Progress) -> tuple[Field, Game]:
    members: dict[str, str] = {}  # names in the pool, by name in ratings
    entrants: dict[str, Entrant] = {}
    for text in config.player:
        _entrant(config, entrants, text, progress)
    if not config.player:
        for member in _allowed_members(config):
            with _blaming(config.pool, member.name):
                members[_entrant(config, entrants, member.spec)] = member.name
    place = None if config.place is None else _entrant(config, entrants, config.place)
    if len(entrants) < 2 and config.player:
        raise UsageError(f"tournament: only {next(iter(entrants))} would play; wanted at least two different players")
    if len(entrants) < 2:
        raise NotYet(
            f"tournament: {len(entrants)} players; wanted at least two: name them with --player, or add them to "
            f"{config.pool} with `python main.py pool add PLAYER`",
            2 - len(entrants),
        )
    if all(entrant.spec.handicap for entrant in entrants.values()):
        raise UsageError(
            f"tournament: {' and '.join(entrants)} all take handicap stones, so no two can meet; wanted a player that "
            "takes none"
        )
    asked = config.game
    if place is not None and (model := entrants[place].model):
        asked = asked or model.info.game
    models = [entrant.model for entrant in entrants.values() if entrant.model]
    if asked or models:
        asked = parse_game(asked or models[0].info.game).spec
        for rated, name in members.items():
            with _blaming(config.pool, name):
                common_game(asked, [entrants[rated]])
    return Field(entrants, place), common_game(config.game, list(entrants.values()))


def _allowed_members(config: TournamentConfig) -> tuple[Member, ...]:
    """The pool's members. Raises UsageError for an engine, a program named in a file, without --allow-engines."""
    members = read_pool(config.pool).members
    for member in members:
        if not config.allow_engines and is_engine(member.spec):
            raise UsageError(
                f"tournament: member {member.name} of {config.pool} is an engine, which would run {member.spec!r}; "
                f"wanted --allow-engines to run it, or `python main.py pool remove {member.name}`"
            )
    return members


@contextmanager
def _blaming(pool: Path, member: str) -> Iterator[None]:
    """Turn the error of a member that can't play into one that names the pool and how to remove the member."""
    try:
        yield
    except MuGoError as error:
        raise FileError(
            pool, f"its member {member} can't play: {error}; `python main.py pool remove {member}` removes it"
        ) from error


def _entrant(config: TournamentConfig, entrants: dict[str, Entrant], text: str, progress: Progress = SILENT) -> str:
    """Add a player to the entrants unless it is one already; returns its name in ratings."""
    entrant = load_entrant(text, config.readouts)
    rated = entrant.info.rated_as
    entrant = replace(entrant, info=entrant.info.model_copy(update={"name": rated}))
    other = entrants.setdefault(rated, entrant)
    if other is entrant:
        return rated
    if (other.info.weights, other.spec.argument, other.info.kind, other.info.handicap) != (
        entrant.info.weights, entrant.spec.argument, entrant.info.kind, entrant.info.handicap,
    ):  # fmt: skip
        raise UsageError(
            f"tournament: {other.spec.text!r} and {text!r} would both be rated as {rated}; name one: NAME=PLAYER"
        )
    progress.say(f"{other.spec.text} and {text} are one player, {rated}: it plays once")
    return rated


# Playing


def _round(
    config: TournamentConfig,
    runner: MatchRunner,
    writers: dict[Path, MatchWriter],
    one: Entrant,
    other: Entrant,
    num_games: int,
    num_pairs: int,
) -> int:
    """Add num_pairs pairs of games between two players and play num_games, oldest first; returns how many ended.

    writers: of the matches played so far, by folder, so that a match isn't reread and replayed in each round. That is
    safe as this process holds the tournament's lock.
    """
    folder = config.output_dir / layout.match_name(one.name, other.name)
    swapped = config.output_dir / layout.match_name(other.name, one.name)
    if swapped.exists():
        one, other, folder = other, one, swapped
    with match_lock(folder):
        if folder not in writers:
            writers[folder] = runner.open(folder, (one, other), 0)
        writer = writers[folder]
        before = len(writer.games)
        wanted = before + num_games
        runner.extend(writer, (one, other), num_pairs)
        runner.play(writer, (one, other), lambda so_far: len(so_far.games) >= wanted)
        return len(writer.games) - before
