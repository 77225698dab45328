"""The config of ``evaluate``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.evaluate.watch_options import WatchOptions
from pipeline.matches.options import MatchOptions
from pipeline.methods.options import TimeShare
from pipeline.options import composed
from pipeline.run import layout


@composed("evaluate")
class EvaluateConfig(WatchOptions, MatchOptions):
    """Play a match between the newest model and the champion; promote the newest if it scores enough.

    Every opening is played twice with colours swapped. An interrupted match keeps its finished games; only the missing
    ones are played. The match stops once the remaining games can't change the decision.

    The summary begins with the score, its 95 % interval and the Elo difference. --verbose 2 and --json add: pairs, the
    number of pairs of games worth 0, ½, 1, 1½ and 2 points; tail probability, the chance that an equal player scores at
    least as well (over games, or over pairs if some games were drawn); false promotion, the chance that an equal player
    passes; power, the chance that a player 35 Elo stronger passes.

    --watch evaluates every new model in the folder of best_model, at the lowest priority, and promotes none. There are
    four strategies with their own schedules (docs/evaluation.md): single, benchmark, ladder, tournament. It prints each
    finished evaluation and runs until Ctrl-C, or with --once until no model is left. Engines of the pool run only with
    --allow-engines.

    \b
    Any two players can play; only models can be promoted:
      PATH, PATH@READOUTS, policy:PATH   a model, with search or with its raw policy
    {players}
      handicap:N:PLAYER                  any of these, with N handicap stones in every game, if the game has them
      NAME=PLAYER                        any of these under a name of your choice

    \b
    Reads:   two players (--black-model is the champion, --white-model the challenger)
             --watch: the models beside best_model, the pool, data/ratings.json
    Writes:  data/evaluate/CHALLENGER-vs-CHAMPION/, and saved_models/best_model after a promotion
             --watch: data/evaluate/watch/, data/ratings.json, data/pool.json
    Exit:    0 played (promoted or not), 1 failed, 2 wrong usage,
             75 no new challenger, or another process is playing this match;
             --watch: 75 another watcher is at work, or --once found no model to evaluate
    Example: python main.py evaluate --games 100 --readouts 32 --require 'random>=0.95'
    """

    black_model: str = Field(
        str(layout.CHAMPION_LINK),
        description="The champion: a model (PATH, PATH@READOUTS, policy:PATH) or another player of the list above; "
        "handicap:N:PLAYER takes N handicap stones; NAME=PLAYER gives it a name.",
    )
    white_model: str | None = Field(
        None, description="The challenger, in the same notation [default: the newest model not yet evaluated]."
    )
    games: int = Field(400, ge=2, description="Games to play, half with each colour; an even number.")
    threshold: float | None = Field(
        None,
        ge=-3,
        le=1,
        description="Share of the points that promotes; a draw counts half [default: 1/2 + 1/sqrt(games)]. 0 promotes "
        "every challenger without a game. If games count more than 1: points per game over whole pairs [default: two "
        "standard errors above 0]; -3 promotes every challenger after one pair. A match with an engine is always "
        "played to its end.",
    )
    sprt: str | None = Field(
        None,
        description="Decide by a sequential test instead: elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05. "
        "--games is then the largest number of games.",
    )
    require: list[str] = Field(
        [], description="A promotion condition, e.g. 'random>=0.95'; may be given several times."
    )
    require_games: int = Field(100, ge=2, description="Games to play for each promotion condition; an even number.")
    exclude_duplicates: bool = Field(False, description="Count games with the same moves and colours only once.")
    output_dir: Path = Field(layout.MATCHES, description="Holds the matches, <challenger>-vs-<champion>/.")
    sgf_output: Path | None = Field(None, description="Folder for SGF records [default: the match's folder, sgf/].")
    promote: bool = Field(True, description="Re-point best_model when the challenger passes.")
    pool: Path = Field(layout.POOL_FILE, description="The pool of opponents, which a promoted model joins.")
    ratings: Path = Field(layout.RATINGS_FILE, description="The ratings, which decide what leaves a full pool.")
    time_share: TimeShare = None
