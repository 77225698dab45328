"""The config of ``evaluate``, with the strategies of ``evaluate --watch`` and when they are due.

    single      one opponent: the champion before the model, any player, or one that a mode of the pool chooses
    benchmark   a fixed set of players, so that results compare over a whole run
    ladder      the pool and the benchmark set by rating: up after at least half of the points, down otherwise
    tournament  every member of the pool

A strategy is *due* for models whose number is a multiple of N, at least M minutes after the last model that it was due
for. N and M may follow schedules (schedules.py).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.matches.options import MatchOptions
from pipeline.methods.options import TimeShare
from pipeline.options import Options, composed
from pipeline.run import layout
from pipeline.tracking.options import TrackingOptions

SINGLE, BENCHMARK, LADDER, TOURNAMENT = STRATEGIES = ("single", "benchmark", "ladder", "tournament")
CHAMPION = "champion"  # as the single opponent
POOL = "pool:"


def _games(default: int, against: str) -> int:
    about = f"Games against {against}, rounded up to an even number; 0 = strategy off."
    return Field(default, ge=0, description=about)  # type: ignore[no-any-return]


def _every(default: int, strategy: str) -> int:
    about = f"{strategy}: only models whose number is a multiple of this."
    return Field(default, ge=1, description=about)  # type: ignore[no-any-return]


def _minutes(strategy: str) -> float:
    about = f"{strategy}: only models made at least this many minutes after the last one that it was due for."
    return Field(0.0, ge=0, description=about)  # type: ignore[no-any-return]


class WatchOptions(Options):
    """See the module docstring."""

    panel = "Evaluating every new model (with --watch)"

    watch: bool = Field(
        False,
        description="Evaluate every new model in the folder of --black-model, at the lowest priority, by the "
        "strategies single, benchmark, ladder and tournament. Promotes no model.",
    )
    once: bool = Field(False, description="Stop when no model is left to evaluate; exit 75 if none was.")
    single: str = Field(
        CHAMPION,
        description="The single opponent: champion (the newest older champion), pool:MODE as in selfplay --opponents, "
        "or any player.",
    )
    single_games: int = _games(40, "the single opponent")
    single_every: int = _every(1, SINGLE)
    single_minutes: float = _minutes(SINGLE)
    benchmark: list[str] = Field(
        ["random", "heuristic"], description="A player of the benchmark set; may be given several times."
    )
    benchmark_games: int = _games(20, "each player of the benchmark set")
    benchmark_every: int = _every(1, BENCHMARK)
    benchmark_minutes: float = _minutes(BENCHMARK)
    ladder_games: int = _games(20, "each player of the ladder that it plays")
    ladder_every: int = _every(1, LADDER)
    ladder_minutes: float = _minutes(LADDER)
    tournament_games: int = _games(20, "every member of the pool")
    tournament_every: int = _every(5, TOURNAMENT)
    tournament_minutes: float = _minutes(TOURNAMENT)

    def games_of(self, strategy: str) -> int:
        """Games against each opponent; even."""
        games: int = getattr(self, f"{strategy}_games")
        return games + games % 2


class OtherFiles(Options):
    """What evaluate reads and writes beside the match."""

    panel = "Other files"

    sgf_output: Path | None = Field(None, description="Folder for SGF records. [default: the match's folder, sgf/]")
    pool: Path = Field(layout.POOL_FILE, description="The pool of opponents, which a promoted model joins.")
    ratings: Path = Field(layout.RATINGS_FILE, description="The ratings, which decide what leaves a full pool.")


@composed("evaluate")
class EvaluateConfig(MatchOptions, OtherFiles, WatchOptions, TrackingOptions):
    """Play a match between the newest model and the champion; promote the newest if it scores enough.

    Every opening is played twice with colours swapped. An interrupted match keeps its finished games; only the missing
    ones are played. The match stops once the remaining games can't change the decision; one with an engine or with
    --no-promote is played to its end, unless --sprt is given.

    The summary begins with the score, its 95 % interval and the Elo difference. --verbose 2 and --json add: pairs, the
    number of pairs of games worth 0, ½, 1, 1½ and 2 points; tail probability, the chance that an equal player scores at
    least as well (over games, or over pairs if some games were drawn); false promotion, the chance that an equal player
    passes; power, the chance that a player 35 Elo stronger passes.

    --watch evaluates every new model in the folder of best_model, at the lowest priority, and promotes none. Its
    strategies single, benchmark, ladder and tournament choose the opponents, each for the models that it is due for
    (docs/evaluation.md). It prints each finished evaluation and runs until Ctrl-C, or with --once until no model is
    left. Engines of the pool run only with --allow-engines.

    \b
    Any two players can play; only models can be promoted:
      PATH, PATH@READOUTS, policy:PATH   a model, with search or with its raw policy
    {players}
      handicap:N:PLAYER                  any of these, with N handicap stones in every game, if the game has them
      NAME=PLAYER                        any of these under a name of your choice

    \b
    Reads:   two players (--black-model is the champion, --white-model the challenger)
             --watch: the models beside best_model, the pool, data/ratings.json
    Writes:  data/evaluate/CHALLENGER-vs-CHAMPION/, tracked numbers in data/logs/, and saved_models/best_model after a
             promotion
             --watch: data/evaluate/watch/, data/logs/, data/ratings.json, data/pool.json
    Exit:    0 played (promoted or not), 1 failed, 2 wrong usage,
             75 no new challenger, or another process is playing this match;
             --watch: 75 another watcher is at work, or --once found no model to evaluate
    Example: python main.py evaluate --games 100 --readouts 32 --require 'random>=0.95'
    """

    leading = ("black_model", "white_model", "game", "games", "readouts")

    black_model: str = Field(
        str(layout.CHAMPION_LINK), description="The champion: a model or another player, written as above."
    )
    white_model: str | None = Field(
        None, description="The challenger, written likewise. [default: the newest model not yet evaluated]"
    )
    games: int = Field(400, ge=2, multiple_of=2, description="Games to play, half with each colour; even.")
    threshold: float | None = Field(
        None,
        ge=-3,
        le=1,
        description="Share of the points that promotes, a draw counting half; 0 promotes every challenger without a "
        "game. If games count more than 1: points per game over whole pairs; -3 promotes every challenger after one "
        "pair. [default: 1/2 + 1/sqrt(games), or two standard errors above 0]",
    )
    sprt: str | None = Field(
        None,
        description="Decide by a sequential test instead: elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05. "
        "--games is then the largest number of games.",
    )
    require: list[str] = Field(
        [], description="A promotion condition, e.g. 'random>=0.95'; may be given several times."
    )
    require_games: int = Field(
        100, ge=2, multiple_of=2, description="Games to play for each promotion condition; even."
    )
    exclude_duplicates: bool = Field(False, description="Count games with the same moves and colours only once.")
    promote: bool = Field(
        True, description="Re-point best_model when the challenger passes. --no-promote only measures."
    )
    output_dir: Path = Field(layout.MATCHES, description="Holds the matches, <challenger>-vs-<champion>/.")
    time_share: TimeShare = None
