"""Which search settings make a model play best? The model plays itself with other settings.

    python -m benchmarks.tune --model saved_models/best_model --readouts 200 c_puct=1 fpu_reduction=0.4,c_puct=1
    python -m benchmarks.tune --model saved_models/best_model --backend int8 --base-backend openvino ""

Each argument changes some settings of --base, which are the defaults unless you give others; `main.py evaluate --help`
lists the settings. The changed player meets the base player, each opening with both colours. Prints one line per
argument: the score, its share and the Elo difference with 95 % intervals, from pairs of games. 400 games take minutes.

The best of many settings is partly luck, so play the winner again with another --seed. The settings that win belong in
the selfplay or evaluate section of a preset. The second command asks what int8 costs at equal readouts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from benchmarks.strength import HelpFormatter, ending
from pipeline.bench.match_speed import OPENING_PLIES, SEARCH, play_match, searching
from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.matches.openings import make_openings
from pipeline.matches.statistics import PairPoints, elo_of_share, pair_points, score_of, wilson_interval
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.networks.inference import Evaluator
from pipeline.options import Options
from pipeline.players.loading import load_with_margins
from pipeline.players.player import RESIGN, Decisions
from pipeline.players.searching import SearchPlayer
from pipeline.presets import make_config
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.matches import MatchGame
from pipeline.run.models import read_model, resolve_champion
from pipeline.search.options import SearchOptions

ROWS = 128  # games per thread
C = TypeVar("C", bound=Options)


class ResigningPlayer(SearchPlayer):
    """Resigns when its search values the position below -resign, which halves the length of most games."""

    def __init__(self, resign: float, game: Game, rows: int, evaluate: Evaluator, *more: Any) -> None:
        super().__init__(game, rows, evaluate, *more, margins=getattr(evaluate, "margins", None))
        self._resign = resign

    def step(self) -> Decisions:
        found = super().step()
        return replace(found, actions=np.where(found.values < -self._resign, RESIGN, found.actions).astype(np.int32))


def meet(
    game: Game,
    evaluators: Sequence[Sequence[Evaluator]],
    searches: tuple[SearchOptions, SearchOptions],
    games: int,
    readouts: int,
    progress: Progress,
    opening_plies: int = OPENING_PLIES,
    seed: int = 0,
    resign: float | None = None,
) -> list[MatchGame]:
    """A whole match. evaluators: one per thread and player; games: even; resign: see ResigningPlayer."""
    plies = min(opening_plies, game.max_plies - 1)
    openings = make_openings(game, [one[0] for one in evaluators], games // 2, plies, seed, ROWS)
    make = AlphaZero().player if resign is None else partial(ResigningPlayer, resign)
    one, other = (searching(each, readouts, search, make) for each, search in zip(evaluators, searches, strict=True))
    progress.start("match", games, "games")
    found = play_match(game, (one, other), openings, range(games), len(evaluators[0]), ROWS, progress=progress)
    progress.finish()
    if len(found) < games:
        raise MuGoError(f"{games - len(found)} of {games} games failed")
    return list(found.values())


def described(games: Sequence[MatchGame]) -> str:
    """The first player's score, share and Elo with their 95 % intervals."""
    score, pairs = score_of(games), PairPoints.of(pair_points(games))
    low, high = wilson_interval(score)
    if 0 < pairs.deviation < math.inf:  # pairs of nearly equal players are mostly 1-1, which makes it much narrower
        low, high = (min(max((1 + end) / 2, 0.0), 1.0) for end in pairs.interval())
    below, elo, above = map(elo_of_share, (low, score.share, high))
    return (
        f"{score.wins} won, {score.draws} drawn, {score.losses} lost: {score.share:.1%} ({low:.1%} to {high:.1%}), "
        f"{elo:+.0f} Elo ({below:+.0f} to {above:+.0f})"
    )


def changed(base: C, changes: str) -> C:
    """base with changes such as "c_puct=1,algorithm=gumbel". Raises UsageError for unknown names and wrong values."""
    lines = base.model_dump()
    for change in filter(None, changes.split(",")):
        name, equals, text = change.partition("=")
        if not equals or name not in lines:
            raise UsageError(f"{change!r}: wanted NAME=VALUE, NAME one of {', '.join(lines)}")
        try:
            lines[name] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"{change!r}: the value is not readable as YAML") from error
    return make_config(type(base), type(base).__name__.removesuffix("Config").lower(), None, **lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tune", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE[,NAME=VALUE…]", help='settings; "" changes nothing')
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"), help="the model that plays")
    parser.add_argument("--base", default="", metavar="NAME=VALUE[,…]", help="the opponent's settings")
    parser.add_argument("--games", type=int, default=400, help="for each argument; an even number")
    parser.add_argument("--readouts", type=int, default=200, help="simulations per move")
    parser.add_argument("--opening-plies", type=int, default=OPENING_PLIES, help="length of the openings")
    parser.add_argument("--resign", type=float, help="resign below minus this value, e.g. 0.8")
    parser.add_argument("--seed", type=int, default=0, help="seed of the openings")
    parser.add_argument("--backend", default="auto", help="inference backend of the tested settings")
    parser.add_argument("--base-backend", help="inference backend of the opponent [default: the same]")
    options = parser.parse_args(arguments)
    if options.games < 2 or options.games % 2:
        parser.error(f"--games {options.games}: wanted an even number: every opening is played with both colours")
    with ending(parser):
        base = changed(SEARCH, options.base)
        players = {text: changed(base, text) for text in options.settings}
        with ConsoleProgress() as progress:
            model = read_model(resolve_champion(options.model))
            game = parse_game(model.info.game)
            backends = (options.backend, options.base_backend or options.backend)
            loaded = {name: load_with_margins(model, ROWS, available_cores(), name, progress) for name in set(backends)}
            evaluators = [loaded[name] for name in backends]
            for text, search in players.items():
                terms = (options.games, options.readouts, progress, options.opening_plies, options.seed, options.resign)
                print(f"{text or 'base'}: {described(meet(game, evaluators, (search, base), *terms))}", flush=True)


if __name__ == "__main__":
    main()
