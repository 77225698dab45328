"""Do lost games end as they stood, or does the loser give everything away once nothing can be won?

    python -m benchmarks.endings runs/handicap/*-vs-gnugo-5 --engine 'gnugo --mode gtp --chinese-rules'

Each argument is a match folder of Go. The player is the challenger, or the side whose name contains --player. For each
game that it lost, the engine, which must know GTP's estimate_score as GNU Go does, says how the game stood after --ply
moves, or at the end of shorter games. Prints a summary, with --verbose also a line per game:

margin     the player's lead at the end; estimate: the engine's after --ply moves
given up   estimate - margin: the points that the player lost after that, by the engine
dead       whether the player has no stone left at the end
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.lost_games import lost_games
from benchmarks.strength import HelpFormatter, ending
from pipeline.errors import MuGoError, UsageError
from pipeline.families.go.gtp_client import GtpEngine, parse_score
from pipeline.families.go.gtp_player import COLOURS, set_up_board, set_up_stones, white_bonus
from pipeline.games.capabilities import Komi
from pipeline.games.contract import Game
from pipeline.games.replay import handicap_start, replay
from pipeline.games.specs import parse_game
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.matches import MatchGame, read_match

SECONDS = 60.0  # for an answer of the engine
NEAR = 10.0  # points: games that end within so much of the estimate are counted


@dataclass(frozen=True)
class Ending:
    """Points are the player's lead."""

    match: str
    index: int
    plies: int
    margin: float
    estimate: float
    dead: bool

    @property
    def given_up(self) -> float:
        return self.estimate - self.margin

    def __str__(self) -> str:
        dead = ", no stone left" if self.dead else ""
        return (
            f"{self.match} game {self.index}: {self.plies} plies, margin {self.margin:+g}, estimate "
            f"{self.estimate:+g}, given up {self.given_up:+g}{dead}"
        )


def estimate(engine: GtpEngine, game: Game, played: MatchGame, ply: int, bonus: float) -> float:
    """Black's lead after this many moves, by the engine."""
    if played.stones:
        set_up_stones(engine, game, played.stones, 0, SECONDS, bonus)
    else:
        set_up_board(engine, game, 0, SECONDS)
    for number, action in enumerate(played.moves[:ply]):
        colour = COLOURS[(number + bool(played.stones)) % 2]
        engine.send(f"play {colour} {game.action_name(action)}", SECONDS)
    return parse_score(engine.name, engine.send("estimate_score", SECONDS).split()[0])


def endings(options: argparse.Namespace, progress: Progress) -> list[Ending]:
    """Raises UsageError for a match of another game, MuGoError if no game was lost."""
    found: list[Ending] = []
    engine, bonuses = GtpEngine(options.engine, "engine", SECONDS), dict[int, float]()
    try:
        engine.handshake()
        for folder in options.matches:
            match = read_match(folder)
            game = parse_game(match.header.game)
            if not (isinstance(game, Game) and isinstance(game, Komi)):
                raise UsageError(f"{folder}: a match of {match.header.game}; wanted Go")
            lost = lost_games(match, options.player)[: options.games]
            progress.start(f"{folder.name}", len(lost), "games")
            for played, player in lost:
                stones = len(played.stones)
                if stones not in bonuses:
                    bonuses[stones] = white_bonus(engine, game, played.stones, SECONDS) if stones else 0.0
                moves = np.array(played.moves, np.int32).reshape(-1, 1)
                *_, (states, _) = replay(game, moves, np.array([len(moves)]), handicap_start(game, played.stones))
                sign = (1, -1)[player]
                found.append(
                    Ending(
                        folder.name,
                        played.index,
                        len(moves),
                        sign * float(game.scores(states)[0]),
                        sign * estimate(engine, game, played, options.ply, bonuses[stones]),
                        not (states[0, : game.num_points] == player + 1).any(),
                    )
                )
                progress.advance(1)
            progress.finish()
    finally:
        engine.close()
    if not found:
        raise MuGoError(f"{', '.join(map(str, options.matches))}: no lost game")
    return found


def summary(found: Sequence[Ending]) -> str:
    given = np.array([one.given_up for one in found])
    low, middle, high = np.percentile(given, [5, 50, 95])
    return (
        f"{len(found)} lost games of {np.mean([one.plies for one in found]):.0f} plies on average: "
        f"{np.mean(np.abs(given) <= NEAR):.1%} end within {NEAR:g} points of the estimate; given up: {middle:+.1f} "
        f"points (5 % below {low:+.1f}, 5 % above {high:+.1f}); no stone left in {sum(one.dead for one in found)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.endings", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("matches", nargs="+", type=Path, metavar="MATCH", help="a folder with games.jsonl")
    parser.add_argument("--engine", required=True, help="the command line of the engine that estimates scores")
    parser.add_argument("--player", default="", help="part of the loser's name [default: the challenger]")
    parser.add_argument("--ply", type=int, default=60, help="after how many moves the engine is asked")
    parser.add_argument("--games", type=int, default=200, help="the most lost games of a match")
    parser.add_argument("--verbose", action="store_true", help="print every game")
    options = parser.parse_args(arguments)
    for name in ("ply", "games"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: wanted at least 1")
    with ending(parser), ConsoleProgress() as progress:
        found = endings(options, progress)
    if options.verbose:
        print("\n".join(map(str, found)))
    print(summary(found))


if __name__ == "__main__":
    main()
