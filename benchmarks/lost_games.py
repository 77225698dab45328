"""Where does a player lose its games, and what did it think there?

    python -m benchmarks.lost_games --judge runs/go9/saved_models/best_model runs/go9/measured/*@200-vs-gnugo-10

Each argument is a match folder. The player is the challenger, which must be the same in all of them, or the side whose
name contains --player. The judge, a model, searches every position after the opening of up to --games lost games with
--readouts. It should be stronger than the player or search much more: errors that neither sees aren't found. 50 games
take a minute.

A game is *lost for good* at the first ply from which on the judge's value for the player stays below -LOST; the player
was *ahead* if that value exceeded LOST before. Prints a summary, then one line per stretch of plies:

plies        the stretch
games        lost games that reached it
lost         games that were lost for good in it
judge, own   mean value by the judge and by the player's own recorded searches, for the player; where own is higher, the
             player doesn't see the loss coming
given away   how much the player's moves in the stretch cost per game, by the judge: the sum of drops in value
by them      the same for the opponent's moves. Searches are noisy, so good moves cost something too: compare both
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.strength import HelpFormatter, ending
from benchmarks.targets import NO_NOISE, ROWS, parts, search_rows
from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import FloatArray, Game
from pipeline.games.replay import handicap_start, replay
from pipeline.games.specs import parse_game
from pipeline.matches.statistics import measured_games
from pipeline.players.loading import load_evaluators
from pipeline.players.searching import Evaluate
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.matches import SIDES, Match, MatchGame, read_match
from pipeline.run.models import read_model, resolve_champion
from pipeline.search.batch import BatchSearch

LOST = 0.5  # the value, three quarters of the points, at which a game counts as decided
STRETCH = 8  # plies per line of the table


@dataclass(frozen=True)
class Course:
    """A lost game from the loser's viewpoint.

    first                the first ply after the opening
    judged     [T + 1]   the judge's values before plies first to first + T; the last one is the result
    own        [T]       the player's own values at its moves, NaN at the opponent's
    by_player  [T]       whether the player made the move
    """

    first: int
    judged: FloatArray
    own: FloatArray
    by_player: np.ndarray

    @property
    def lost_at(self) -> int:
        """The first ply from which on the judge considers the game lost."""
        holding = np.flatnonzero(self.judged > -LOST)
        return self.first + (int(holding[-1]) + 1 if len(holding) else 0)

    @property
    def was_ahead(self) -> bool:
        return bool((self.judged > LOST).any())

    @property
    def drops(self) -> FloatArray:
        """[T] the cost of each move for the player that made it."""
        steps = self.judged[:-1] - self.judged[1:]
        return np.maximum(np.where(self.by_player, steps, -steps), 0)


def lost_games(match: Match, player: str) -> list[tuple[MatchGame, int]]:
    """The measured games that this side lost, each with its player number.

    player: part of the side's name; "" is the challenger. Raises UsageError unless it fits exactly one side.
    """
    names = [match.header.challenger, match.header.champion]
    sides = [side for side, name in enumerate(names) if player in name][: None if player else 1]
    if len(sides) != 1:
        raise UsageError(f"{match.folder}: --player {player!r} fits {len(sides)} of {' and '.join(names)}; wanted one")
    games = cast(Sequence[MatchGame], measured_games(match))
    if SIDES[sides[0]] == "challenger":
        return [(game, game.challenger_player) for game in games if game.challenger_result < 0]
    return [(game, 1 - game.challenger_player) for game in games if game.challenger_result > 0]


def course(game: Game, evaluate: Evaluate, played: MatchGame, player: int, readouts: int) -> Course:
    """The judge's values of a game that this player (0 or 1) lost."""
    moves = np.array(played.moves, np.int32).reshape(-1, 1)
    positions = []
    for states, history in replay(game, moves, np.array([len(moves)]), handicap_start(game, played.stones)):
        positions.append((states[0].copy(), history.keys[0, : history.lengths[0]].copy()))
    positions = positions[played.opening_plies : len(moves)]
    values = np.empty(len(positions) + 1, np.float32)
    movers = np.empty(len(positions), np.int8)
    for part in parts(len(positions)):
        rows = np.arange(len(positions[part]))
        search = BatchSearch(game, len(rows), readouts, NO_NOISE)
        search.new_games(rows, np.arange(1, len(rows) + 1, dtype=np.uint64))
        for row, position in enumerate(positions[part]):
            search.place(row, *position)
        movers[part] = search.to_move(rows)
        search_rows(search, evaluate, rows, readouts)
        values[:-1][part] = np.where(movers[part] == player, 1, -1) * search.root_values(rows)
    values[-1] = -1
    by_player = movers == player
    thought = np.array(played.values_to_move[played.opening_plies :], np.float32)  # None becomes NaN
    return Course(played.opening_plies, values, np.where(by_player, thought, np.nan), by_player)


def table(courses: Sequence[Course]) -> list[str]:
    """The table that the module docstring describes."""
    last = max(one.first + len(one.own) for one in courses)
    found = [f"{'plies':>9} {'games':>6} {'lost':>5} {'judge':>7} {'own':>7} {'given away':>11} {'by them':>8}"]
    for start in range(min(one.first for one in courses) // STRETCH * STRETCH, last, STRETCH):
        lost = sum(start <= one.lost_at < start + STRETCH for one in courses)
        cuts = [(one, slice(max(start - one.first, 0), max(start + STRETCH - one.first, 0))) for one in courses]
        cuts = [(one, cut) for one, cut in cuts if len(one.own[cut])]
        mine = [one.by_player[cut] for one, cut in cuts]
        judged = np.concatenate([one.judged[:-1][cut][by] for (one, cut), by in zip(cuts, mine, strict=True)])
        own = np.concatenate([one.own[cut] for one, cut in cuts])
        drops = [one.drops[cut] for one, cut in cuts]
        given = [
            sum(drop[moved].sum() for drop, moved in zip(drops, whose, strict=True)) / len(cuts)
            for whose in (mine, [~by for by in mine])
        ]
        values = [f"{np.nanmean(one):+.2f}" if np.isfinite(one).any() else "" for one in (judged, own)]
        found.append(
            f"{f'{start}-{start + STRETCH - 1}':>9} {len(cuts):>6} {lost or '':>5} {values[0]:>7} {values[1]:>7} "
            f"{given[0]:>11.2f} {given[1]:>8.2f}"
        )
    return found


def summary(courses: Sequence[Course]) -> str:
    plies = np.array([one.lost_at for one in courses])
    low, middle, high = np.percentile(plies, [25, 50, 75])
    ahead = sum(one.was_ahead for one in courses)
    return (
        f"{len(courses)} lost games: for good at ply {middle:.0f} (half of them between {low:.0f} and {high:.0f}); "
        f"the player was ahead in {ahead}"
    )


def judged_games(options: argparse.Namespace, progress: Progress) -> list[Course]:
    """The lost games of the matches. Raises UsageError if matches don't fit each other or the judge, MuGoError if no
    game was lost.
    """
    model = read_model(resolve_champion(options.judge))
    game = parse_game(model.info.game)
    lost, challenger = [], ""
    for folder in options.matches:
        match = read_match(folder)
        challenger = challenger or match.header.challenger
        if not options.player and match.header.challenger != challenger:
            raise UsageError(
                f"{folder}: the challenger is {match.header.challenger}, before it was {challenger}; wanted --player"
            )
        if parse_game(match.header.game).spec != game.spec:
            raise UsageError(f"{folder}: a match of {match.header.game}; the judge plays {game.spec}")
        lost += lost_games(match, options.player)
    if not lost:
        raise MuGoError(f"{', '.join(map(str, options.matches))}: no lost game")
    evaluate = load_evaluators(model, ROWS, 1, "auto", progress)[0]
    lost = lost[: options.games]
    progress.start("judging games", len(lost), "games")
    found = []
    for played, player in lost:
        found.append(course(game, evaluate, played, player, options.readouts))
        progress.advance(1)
    progress.finish()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lost_games", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("matches", nargs="+", type=Path, metavar="MATCH", help="a folder with games.jsonl")
    parser.add_argument("--judge", type=Path, required=True, help="the model that judges")
    parser.add_argument("--player", default="", help="part of the loser's name [default: the challenger]")
    parser.add_argument("--readouts", type=int, default=800, help="simulations of each of the judge's searches")
    parser.add_argument("--games", type=int, default=50, help="the most lost games to judge")
    options = parser.parse_args(arguments)
    for name in ("readouts", "games"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: wanted at least 1")
    with ending(parser), ConsoleProgress() as progress:
        courses = judged_games(options, progress)
    print(summary(courses))
    print("\n".join(table(courses)))


if __name__ == "__main__":
    main()
