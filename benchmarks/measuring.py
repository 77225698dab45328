"""Matches between the champions of runs and fixed players, by which strength and ablate measure. Not a command.

A *player* is a spec string with a name, ``NAME=…``; see players/player_specs.py. The matches of a folder form a
tournament, so games that were played before count again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.errors import MuGoError, UsageError
from pipeline.games.specs import parse_game
from pipeline.matches.openings import WANTED, OpeningsFile, begins
from pipeline.matches.statistics import Score, measured_games, repeated_games, score_of, wilson_interval
from pipeline.players.player_specs import HANDICAP, parse_player
from pipeline.presets import read_preset
from pipeline.progress import Progress
from pipeline.ratings.command import read_matches
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.run import atomic, layout
from pipeline.run.matches import Match, handicap_suffix
from pipeline.run.models import read_info, read_promotions, resolve_champion
from pipeline.search.options import SearchOptions

GNUGO_LEVELS = (1, 5, 10)
GNUGO = "{program} --mode gtp --level {level} --never-resign --chinese-rules --capture-all-dead --positional-superko"
SETTINGS = "strength.json"  # in a run's folder: its settings
MEASURED = "measured"  # the folder of a run's matches
TERMS = (*SearchOptions.model_fields, "opening_plies")  # what matches take from a preset's evaluate section
OPENINGS = Path(__file__).parent / "openings"  # neutral openings, a file per game
PLACING_PAIRS = 8  # pairs of games between choices of the next opponent; 4 games take as long as 16
EARLIER = 3  # how many previously measured champions a champion meets


@dataclass(frozen=True)
class Result:
    """One player's games against another. share: its points per game; low, high: the 95 % interval (Wilson)."""

    player: str
    opponent: str
    games: int
    wins: int
    draws: int
    losses: int
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        counts = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        return f"{self.player} against {self.opponent}: {counts}: {self.share:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Promotion:
    """A champion and the time of its promotion, in seconds since 1970."""

    model: Path
    time: float


def champions(run: Path, every: int) -> list[Promotion]:
    """The initial model, every k-th champion after it, and the last."""
    folder = run / layout.SAVED_MODELS
    found = [
        Promotion(folder / line["champion"], datetime.fromisoformat(line["time"]).timestamp())
        for line in read_promotions(folder)
    ]
    return [one for i, one in enumerate(found) if i % every == 0 or i == len(found) - 1]


def gnugo(level: int) -> str | None:
    """GNU Go's command line for our rules, playing every game to its end; None if it isn't installed."""
    program = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
    return GNUGO.format(level=level, program=program) if program else None


def anchors(game_spec: str) -> list[str]:
    """Specs of fixed players, the strongest last."""
    if game_spec.startswith("go:") and gnugo(1):
        return ["random", *(f"gnugo-{level}=gtp:{gnugo(level)}" for level in GNUGO_LEVELS)]
    return ["random", "heuristic"]


def known_anchors(run: Path, game_spec: str) -> list[str]:
    """The anchors that the run began with. Raises MuGoError if one of them is no longer installed."""
    wanted = atomic.read_json(run / SETTINGS, "the settings of a run")["anchors"]
    found = {name_of(one): one for one in ["heuristic", *anchors(game_spec)]}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise MuGoError(f"{run}: begun with the anchors {', '.join(wanted)}; missing here: {', '.join(missing)}")
    return [found[name] for name in wanted]


def name_of(player: str) -> str:
    return player.partition("=")[0]


class Measurement:
    """The matches of a folder, which all have one game and the same terms."""

    def __init__(self, folder: Path, game: str, terms: dict[str, Any], progress: Progress) -> None:
        """terms: settings of TournamentConfig: the models' search and the openings."""
        self._folder = folder
        self._terms = terms
        self.game = game
        self._progress = progress

    def place(self, player: str, others: Sequence[str], games: int) -> None:
        """Let a player meet the others, most informative first, until it has this many games against them."""
        self._play(self._terms, games, player=[*others], place=player, pairs_per_round=PLACING_PAIRS)

    def play(self, one: str, other: str, games: int, seed: int = 0) -> Result:
        """Play until there are this many games; returns the first player's result.

        Matches of up to 100 games have different openings, and so are independent, if their seeds differ.
        """
        self._play(self._terms, games, player=[one, other], pairs_per_round=-(-games // 2), seed=seed)
        return self.result(name_of(one), name_of(other))

    def with_stones(self, one: str, other: str, stones: int, games: int) -> Score:
        """Play until there are this many games of one, with white, against the other with stones; returns one's score.

        With 0 stones, `games` even games with both colours are played from openings, and those count in which the other
        had black. With a handicap, the stones, which the other places, are the opening.
        """
        if stones == 0:
            self.play(one, other, games)
            return self.score_as(1, one, other)
        taker = handicap_player(other, stones)
        terms = {name: value for name, value in self._terms.items() if name not in ("openings", "opening_plies")}
        self._play(terms, games, player=[one, taker], pairs_per_round=-(-games // 2))
        return self.score_as(1, one, taker)

    def score_as(self, colour: int, one: str, other: str) -> Score:
        """One's score in the games in which it was black (0) or white (1). Warns if some games repeat others."""
        match = self._match(name_of(one), name_of(other))
        side = [info.rated_as for info in match.header.players].index(name_of(one))
        games = [game for game in measured_games(match) if (game.challenger_player == colour) == (side == 0)]
        repeats = len(repeated_games(games))
        if repeats:
            self._progress.warn(
                f"{match.folder}: {repeats} of {len(games)} games repeat others, so the interval is too narrow"
            )
        score = score_of(games)
        return score if side == 0 else score.reversed

    def _play(self, terms: dict[str, Any], games: int, **players: Any) -> None:
        config = TournamentConfig(**terms, **players, game=self.game, games=games, output_dir=self._folder)
        tournament(config, self._progress)

    def matches(self) -> list[Match]:
        return read_matches([self._folder], self._progress.warn)

    def result(self, one: str, other: str) -> Result:
        """One's result against the other. Raises MuGoError if they haven't met."""
        match = self._match(one, other)
        score = score_of(measured_games(match))
        if match.header.players[0].rated_as != one:
            score = score.reversed
        low, high = wilson_interval(score)
        return Result(one, other, score.games, score.wins, score.draws, score.losses, score.share, low, high)

    def _match(self, one: str, other: str) -> Match:
        for match in self.matches():
            if {info.rated_as for info in match.header.players} == {one, other}:
                return match
        raise MuGoError(f"{self._folder}: no games of {one} and {other}")


def player(model: Path, readouts: int, run: str = "") -> str:
    """The spec of a model with a name. run: a prefix that tells it from models of other runs."""
    return f"{run}{model.name}@{readouts}={model.resolve()}@{readouts}"


def handicap_player(player: str, stones: int) -> str:
    """The spec of a player with handicap stones. player: NAME=SPEC, or a name that is itself a spec."""
    name, _, spec = player.partition("=")
    return f"{name}{handicap_suffix(stones)}={HANDICAP}{stones}:{spec or name}"


def named(player: str) -> str:
    """NAME=SPEC of any spec, so that name_of() finds the name. Raises UsageError if it is no spec."""
    spec = parse_player(player)
    return player.strip() if spec.own_name or spec.name == player.strip() else f"{spec.name}={player.strip()}"


def neutral_openings(game_spec: str) -> Path | None:
    """The file of neutral openings (neutral_openings.py) for this board, with any komi, if there is one."""
    game = parse_game(game_spec)
    for path in sorted(OPENINGS.glob("*.json")):
        if begins(atomic.read_record(path, OpeningsFile, WANTED).game, game):
            return path
    return None


def most_games(game_spec: str) -> int | None:
    """The most games that a match has neutral openings for; None if the game has no file of them, so no limit."""
    path = neutral_openings(game_spec)
    return 2 * len(atomic.read_record(path, OpeningsFile, WANTED).openings) if path else None


def refuse_too_many(found: str, games: int, game_spec: str) -> None:
    """Raises UsageError for more games than that. found: the beginning of the message."""
    most = most_games(game_spec)
    if most is not None and games > most:
        raise UsageError(f"{found} wanted at most {most}: each opening of the game's file with both colours")


def measurement_of(run: Path, progress: Progress, folder: Path | None = None) -> Measurement:
    """A measurement of a run's game, in `folder` or RUN/measured.

    Searches are those of the evaluate section of RUN/preset.yaml, or the defaults without that file; in decided
    positions they always look for the margin, too, as in play. Openings are neutral if the game has a file of them,
    else sampled by the players and as long as evaluate's.
    """
    preset = run / "preset.yaml"  # of the runs of strength and ablate
    lines = read_preset(str(preset)).get("evaluate", {}) if preset.exists() else {}
    terms = {name: lines[name] for name in TERMS if name in lines}
    return measurement_with(terms, champion(run), folder or run / MEASURED, progress)


def measurement_with(
    terms: dict[str, Any], model: Path, folder: Path, progress: Progress, game: str | None = None
) -> Measurement:
    """A measurement of the model's game, or another game that it plays, on these terms."""
    game = game or read_info(model).game
    return Measurement(folder, game, {**terms, "openings": neutral_openings(game)}, progress)


def last_player(run: Path, readouts: int) -> str:
    """The spec of a run's champion, named after the run."""
    return player(champion(run), readouts, f"{run.resolve().name}-")


def has_champion(run: Path) -> bool:
    return (run / layout.SAVED_MODELS / layout.CHAMPION).exists()


def champion(run: Path) -> Path:
    return resolve_champion(run / layout.SAVED_MODELS / layout.CHAMPION)
