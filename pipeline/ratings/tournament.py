"""``tournament``: players meet each other until their strengths are known well enough. Promotes no model.

Reads players, or the pool. Writes a folder of matches that grow by a few pairs of games at a time, and at the end, or
when interrupted, the ratings. All matches in this folder and in evaluate's beside it determine who meets next. The
requested number of games is the folder's, between the players of this run, so a stopped tournament continues. Models
play under their names in ratings: NAME@READOUTS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.matches.options import SEED_OF_TOURNAMENTS
from pipeline.matches.runner import Entrant, MatchRunner, common_game, load_entrant
from pipeline.players.player_specs import is_engine
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import RatingsSummary, each_match, match_result, rate_and_write
from pipeline.ratings.config import RatingsConfig, TournamentConfig
from pipeline.ratings.matchmaking import next_pair, worst_error
from pipeline.ratings.strength import bradley_terry
from pipeline.run import layout
from pipeline.run.matches import MatchResults, MatchWriter, match_lock
from pipeline.run.models import check_champion
from pipeline.run.ratings import read_pool

Entrants = dict[str, Entrant]  # by name in ratings


def tournament(config: TournamentConfig, progress: Progress = SILENT) -> RatingsSummary:
    """Play until the folder has config.games games of these players, or their ratings are known well enough.

    The summary has only these players, with errors relative to their mean; config.until refers to those errors.
    Raises NotYet for a pool of fewer than two or if another process plays in this folder, UsageError for wrong players
    or rated matches of another game, FileError for a member of the pool that can't play, KeyboardInterrupt after
    recording the finished games.
    """
    if config.against and config.place is None:
        raise UsageError(f"tournament --against {config.against}: wanted --place PLAYER, the player to place")
    check_champion(layout.SAVED_MODELS)
    entrants, place, game = _players(config, progress)
    if config.background:
        config = config.model_copy(update={"threads": config.threads or 1})
    busy = "another process plays this tournament; wait until it is done, or choose another --output-dir"
    config = config.model_copy(update={"seed": config.seed + SEED_OF_TOURNAMENTS})
    with MatchRunner(config, game, progress) as runner, match_lock(config.output_dir, busy):
        known: dict[Path, MatchResults] = {}
        for match in each_match(_folders(config), keep=True, known=known):
            if len(match.rows) and match.header.game != game.spec:
                raise UsageError(
                    f"tournament --output-dir {config.output_dir}: {match.folder} is rated with it, but its game is "
                    f"{match.header.game}, not {game.spec}; wanted another folder, e.g. --output-dir "
                    f"other/{config.output_dir.name}"
                )
        try:
            _play(config, entrants, place, runner, known, progress)
        except BaseException:
            try:
                _rate(config, entrants)
            except NotYet:
                pass
            except Exception as error:  # must not hide the error that stopped the tournament
                progress.warn(f"the ratings were not written: {error}")
            raise
        return _rate(config, entrants, progress)


def _play(
    config: TournamentConfig,
    entrants: Entrants,
    place: str | None,
    runner: MatchRunner,
    known: dict[Path, MatchResults],
    progress: Progress,
) -> None:
    """place: the player to be placed; None: all meet all. known: as in each_match()."""
    names = list(entrants)
    apart = [name for name, entrant in entrants.items() if entrant.spec.handicap]  # no two of them can meet
    begun: set[str] = set()  # matches that this run has played: games missing there failed twice
    writers: dict[Path, MatchWriter] = {}

    def is_own(match: MatchResults) -> bool:
        """Whether this run may add games to this match: a tournament's, so without a fixed number of games."""
        players = {info.rated_as for info in match.header.players}
        grows = match.folder.parent == config.output_dir and match.header.games == 0
        return grows and players <= entrants.keys() and place in {None, *players}

    while True:
        matches = sorted(each_match(_folders(config), keep=True, known=known), key=lambda match: match.header.created)
        own = list(filter(is_own, matches))
        left = config.games - sum(len(match.games) for match in own)
        if left <= 0:
            return
        results = [match_result(match) for match in matches]
        if worst_error(bradley_terry(results, players=names), names, place) <= config.until:
            whose = f"the rating of {place} is" if place else "the ratings of these players are"
            mean = f"the mean of these {len(names)} players"
            progress.say(f"{whose} known to +-{config.until:g} Elo relative to {mean}")
            return
        cut_short = [match for match in own if len(match.games) < match.num_games and match.folder.name not in begun]
        if cut_short:
            one, other = (info.rated_as for info in cut_short[0].header.players)
            games, more = cut_short[0].num_games - len(cut_short[0].games), 0
        else:
            one, other = next_pair(names, results, config.matchmaking, place, config.against, apart)
            more = min(-(-left // 2), config.pairs_per_round)
            games = 2 * more
        begun |= {layout.match_name(one, other), layout.match_name(other, one)}
        ended = _round(config, runner, writers, entrants[one], entrants[other], games, more)
        # Games left by an earlier run may fail for good. Stop only if all new ones fail.
        if more and not ended:
            progress.warn("every game of the last round failed; stopping")
            return


def _folders(config: TournamentConfig) -> list[Path]:
    """The folders of rated matches: evaluate's beside this folder, and this folder."""
    return layout.match_folders(config.output_dir.parent / layout.EVALUATE, config.output_dir)


def _rate(config: TournamentConfig, entrants: Entrants, progress: Progress = SILENT) -> RatingsSummary:
    rating = RatingsConfig(directory=_folders(config), output=config.output_dir.parent / layout.RATINGS)
    return rate_and_write(rating, progress, among=list(entrants))


# The players


def _players(config: TournamentConfig, progress: Progress) -> tuple[Entrants, str | None, Game]:
    """The players, the one to be placed, and their game."""
    members: dict[str, str] = {}  # names in the pool, by name in ratings
    entrants: Entrants = {}
    for text in config.player:
        _entrant(config, entrants, text, progress)
    for member in () if config.player else read_pool(config.pool).members:
        if is_engine(member.spec) and not config.allow_engines:  # a program named in a file
            raise UsageError(
                f"tournament: member {member.name} of {config.pool} is an engine, which would run {member.spec!r}; "
                f"wanted --allow-engines to run it, or `python main.py pool remove {member.name}`"
            )
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
    # Check members one by one, so that an error names the member. The game is --game, else that of the placed player,
    # else that of the first model.
    placed_first = [*([entrants[place]] if place is not None else []), *entrants.values()]
    games = [config.game, *(entrant.model.info.game for entrant in placed_first if entrant.model)]
    if asked := next(filter(None, games), None):
        asked = parse_game(asked).spec
        for rated, name in members.items():
            with _blaming(config.pool, name):
                common_game(asked, [entrants[rated]])
    return entrants, place, common_game(config.game, list(entrants.values()))


@contextmanager
def _blaming(pool: Path, member: str) -> Iterator[None]:
    try:
        yield
    except MuGoError as error:
        raise FileError(
            pool, f"its member {member} can't play: {error}; `python main.py pool remove {member}` removes it"
        ) from error


def _entrant(config: TournamentConfig, entrants: Entrants, text: str, progress: Progress = SILENT) -> str:
    """Add a player to the entrants unless it is one already; returns its name in ratings."""
    entrant = load_entrant(text, config.readouts).as_rated
    other = entrants.setdefault(entrant.name, entrant)
    if other.identity != entrant.identity:
        raise UsageError(
            f"tournament: {other.spec.text!r} and {text!r} would both be rated as {entrant.name}; name one: NAME=PLAYER"
        )
    if other is not entrant:
        progress.say(f"{other.spec.text} and {text} are one player, {entrant.name}: it plays once")
    return entrant.name


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
