"""Matches between the models of runs and players that don't change: what strength and ablate measure by.

A *player* is a spec string with a name of its own, ``NAME=…``; see players/player_specs.py. All matches of a folder
are a tournament: whoever plays them again finds them there.
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
from pipeline.run.openings import WANTED, OpeningsFile, begins
from pipeline.search.options import SearchOptions

GNUGO_LEVELS = (1, 5, 10)
GNUGO = "{program} --mode gtp --level {level} --never-resign --chinese-rules --capture-all-dead --positional-superko"
SETTINGS = "strength.json"  # in a run: what it was asked for
OPENINGS = Path(__file__).parent / "openings"  # neutral ones, by game
PLACING_PAIRS = 8  # pairs of games before it is asked again whom a player should meet; 4 games take as long as 16
EARLIER = 3  # champions measured before that one meets


@dataclass(frozen=True)
class Result:
    """One player's games against another; share: its points per game, with the 95 % interval (Wilson)."""

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
    """A champion and when it became one, in seconds since 1970."""

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
    """The command line of GNU Go by our rules, playing every game to its end; None if it isn't installed."""
    program = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
    return GNUGO.format(level=level, program=program) if program else None


def anchors(game_spec: str) -> list[str]:
    """Specs of players that don't change, the strongest last."""
    if game_spec.startswith("go:") and gnugo(1):
        return ["random", *(f"gnugo-{level}=gtp:{gnugo(level)}" for level in GNUGO_LEVELS)]
    return ["random", "heuristic"]


def known_anchors(run: Path, game_spec: str) -> list[str]:
    """The anchors that the run began with. Raises MuGoError if one of them isn't installed any more."""
    wanted = atomic.read_json(run / SETTINGS, "the settings of a run")["anchors"]
    found = {name_of(one): one for one in ["heuristic", *anchors(game_spec)]}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise MuGoError(f"{run}: begun with the anchors {', '.join(wanted)}; missing here: {', '.join(missing)}")
    return [found[name] for name in wanted]


def name_of(player: str) -> str:
    return player.partition("=")[0]


class Measurement:
    """Matches of a run's players in RUN/measured."""

    def __init__(self, folder: Path, game: str, terms: dict[str, Any], progress: Progress) -> None:
        """terms: lines of TournamentConfig: the search that models play with, the length of openings."""
        self._folder = folder
        self._terms = terms
        self.game = game
        self._progress = progress

    def place(self, player: str, others: Sequence[str], games: int) -> None:
        """Let a player meet others where its rating gains most, until it has so many games against them."""
        self._play(self._terms, games, player=[*others], place=player, pairs_per_round=PLACING_PAIRS)

    def play(self, one: str, other: str, games: int, seed: int = 0) -> Result:
        """So many games in all, and the first one's result. Matches of up to 100 games with different seeds have
        different openings: only then are they evidence of their own.
        """
        self._play(self._terms, games, player=[one, other], pairs_per_round=-(-games // 2), seed=seed)
        return self.result(name_of(one), name_of(other))

    def with_stones(self, one: str, other: str, stones: int, games: int) -> Score:
        """So many games in all of one with white against the other with this handicap, and the first one's score.

        0 stones: the even games in which the other one had black, of so many with either colour. Those begin with
        openings; with a handicap the stones, which the other one places, are the opening.
        """
        if stones == 0:
            self.play(one, other, games)
            return self.score_as(1, one, other)
        taker = handicap_player(other, stones)
        terms = {name: value for name, value in self._terms.items() if name not in ("openings", "opening_plies")}
        self._play(terms, games, player=[one, taker], pairs_per_round=-(-games // 2))
        return self.score_as(1, one, taker)

    def score_as(self, colour: int, one: str, other: str) -> Score:
        """What one made in the games in which it was black (0) or white (1). Says so if some of them repeat others."""
        match = self._match(name_of(one), name_of(other))
        side = [info.rated_as for info in match.header.players].index(name_of(one))
        games = [game for game in measured_games(match) if (game.challenger_player == colour) == (side == 0)]
        repeats = len(repeated_games(games))
        if repeats:
            self._progress.warn(f"{match.folder}: {repeats} of {len(games)} games repeat others, so they say less")
        score = score_of(games)
        return score if side == 0 else score.reversed

    def _play(self, terms: dict[str, Any], games: int, **players: Any) -> None:
        config = TournamentConfig(**terms, **players, game=self.game, games=games, output_dir=self._folder)
        tournament(config, self._progress)

    def matches(self) -> list[Match]:
        return read_matches([self._folder], self._progress)[0]

    def result(self, one: str, other: str) -> Result:
        """What one made against the other. Raises MuGoError if they haven't met."""
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
    """The spec of a model under a name of its own. run: a prefix that tells it from those of other runs."""
    return f"{run}{model.name}@{readouts}={model.resolve()}@{readouts}"


def handicap_player(player: str, stones: int) -> str:
    """The spec of a player with so many handicap stones. player: NAME=SPEC, or a name that is a spec itself."""
    name, _, spec = player.partition("=")
    return f"{name}{handicap_suffix(stones)}={HANDICAP}{stones}:{spec or name}"


def named(player: str) -> str:
    """NAME=SPEC of any spec, so that name_of() knows the name. Raises UsageError for none."""
    spec = parse_player(player)
    return player.strip() if spec.own_name or spec.name == player.strip() else f"{spec.name}={player.strip()}"


def neutral_openings(game_spec: str) -> Path | None:
    """The file of openings for this game, with whatever komi, that favour no player's taste, if there is one
    (neutral_openings.py).
    """
    game = parse_game(game_spec)
    for path in sorted(OPENINGS.glob("*.json")):
        if begins(atomic.read_record(path, OpeningsFile, WANTED).game, game):
            return path
    return None


def most_games(game_spec: str) -> int | None:
    """Of a match that takes its openings from the file for this game; None: there is none, as many as you like."""
    path = neutral_openings(game_spec)
    return 2 * len(atomic.read_record(path, OpeningsFile, WANTED).openings) if path else None


def refuse_too_many(found: str, games: int, game_spec: str) -> None:
    """Raises UsageError for more games than that. found: what the error begins with."""
    most = most_games(game_spec)
    if most is not None and games > most:
        raise UsageError(f"{found} wanted at most {most}: each opening of the game's file both ways")


def measurement_of(run: Path, progress: Progress, folder: Path | None = None) -> Measurement:
    """Of a run's game, with searches as its evaluate stage has them where RUN/preset.yaml says so, else with the usual
    ones; in RUN/measured unless told where.

    Openings are neutral where there is a file of them, else as long as evaluate's and sampled by the players.
    """
    preset = run / "preset.yaml"  # of the runs of strength and ablate
    lines = read_preset(str(preset)).get("evaluate", {}) if preset.exists() else {}
    terms = {name: lines[name] for name in [*SearchOptions.model_fields, "opening_plies"] if name in lines}
    return measurement_with(terms, champion(run), folder or run / "measured", progress)


def measurement_with(
    terms: dict[str, Any], model: Path, folder: Path, progress: Progress, game: str | None = None
) -> Measurement:
    """Of a model's game, or another that it plays, with searches on these terms, in a folder."""
    game = game or read_info(model).game
    return Measurement(folder, game, {**terms, "openings": neutral_openings(game)}, progress)


def last_player(run: Path, readouts: int) -> str:
    """The champion of a run, under a name that says the run."""
    return player(champion(run), readouts, f"{run.resolve().name}-")


def has_champion(run: Path) -> bool:
    return (run / layout.SAVED_MODELS / layout.CHAMPION).exists()


def champion(run: Path) -> Path:
    return resolve_champion(run / layout.SAVED_MODELS / layout.CHAMPION)
