"""What it costs and brings that one game's search has many leaves in a batch, as `engine` does it.

    python -m benchmarks.one_tree speed --model saved_models/best_model
    python -m benchmarks.one_tree choices --model saved_models/best_model --leaves 32 --readouts 200
    python -m benchmarks.one_tree strength --model saved_models/best_model --leaves 32 --games 200

speed      readouts per second of one game, in the engine's way, in those of self-play with 256 games (the same network
           on all cores); windows in turn, the median of the shares of neighbours
choices    what the moves chosen are worth with so many leaves of each tree in a batch and with one, by a search of
           eight times the readouts, in positions that the raw policy has led to; trees are kept from two plies before,
           as in a game. Tells small differences with far fewer readouts than a match
strength   a match of the model with so many leaves of each tree in a batch against itself with one, both with equal
           readouts, from openings that its raw policy samples, each played both ways
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.strength import ending
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.matches.match import GameQueue, MatchThread, Outcome, Pairing
from pipeline.matches.openings import make_openings
from pipeline.matches.statistics import elo_interval, score_of
from pipeline.networks.inference import run_together
from pipeline.phrases import results
from pipeline.play.config import EngineConfig
from pipeline.play.engine import open_session
from pipeline.players.loading import load_evaluators
from pipeline.players.player import MakePlayer
from pipeline.players.searching import SearchPlayer
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.matches import MatchGame
from pipeline.run.models import Model, read_model, resolve_champion
from pipeline.search.options import PlaySearchOptions

SELFPLAY_GAMES = 256
ROUNDS = 5
GAMES_AT_ONCE = 32  # of a match's thread
OPENING_PLIES = 6
CHOICE_PLIES = (6, 18, 30)  # of the positions
JUDGE = 8  # times the readouts of the searches that are judged
NO_NOISE = PlaySearchOptions().search_options()


def speed(model: Model, readouts: int, seconds: float, progress: Progress) -> list[tuple[float, float]]:
    """(readouts/s of one game, readouts/s of 256 games) of ROUNDS pairs of windows."""
    game = parse_game(model.info.game)
    session, _ = open_session(model, EngineConfig(readouts=readouts), progress)
    session.warm_up()
    threads = available_cores()
    rows = SELFPLAY_GAMES // threads
    evaluators = load_evaluators(model, rows, threads, "auto", progress)
    players = [SearchPlayer(game, rows, evaluator, NO_NOISE, readouts) for evaluator in evaluators]
    for player in players:
        player.new_games(np.arange(rows), np.arange(rows, dtype=np.uint64))
        player.begin(np.arange(rows))

    def one_game() -> float:
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            if session.is_over:
                session.restart()
            session.play(session.think(None))
            done += readouts
        return done / (time.perf_counter() - started)

    def play(player: SearchPlayer) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            decided = player.step()
            if decided.rows.size:
                player.advance(decided.rows, decided.actions)
                over = decided.rows[player.search.over(decided.rows)]
                player.new_games(over, over.astype(np.uint64))
                player.begin(decided.rows)

    def many_games() -> float:
        before, started = sum(player.search.simulations for player in players), time.perf_counter()
        run_together([lambda player=player: play(player) for player in players])  # type: ignore[misc]
        after = sum(player.search.simulations for player in players)
        return (after - before) / (time.perf_counter() - started)

    one_game(), many_games()
    return [(one_game(), many_games()) for _ in range(ROUNDS)]


def choices(model: Model, leaves: int, readouts: int, games: int, seed: int, progress: Progress) -> list[list[float]]:
    """What the moves of a search with `leaves` lose in each position, and of one with a single leaf: the value of the
    judge's move less that of theirs, from 0 to 2. As many positions of each of three lengths as there are games.
    """
    game = parse_game(model.info.game)
    single, many = (load_evaluators(model, GAMES_AT_ONCE * n, 1, "auto", progress)[0] for n in (1, leaves))
    positions = list[list[int]]()
    for plies in CHOICE_PLIES:
        positions += make_openings(game, [single], games, plies, seed, GAMES_AT_ONCE)
    progress.start("choices", len(positions), "positions")
    lost: list[list[float]] = [[], []]
    for begin in range(0, len(positions), GAMES_AT_ONCE):
        some = positions[begin : begin + GAMES_AT_ONCE]
        judge = SearchPlayer(game, len(some), single, NO_NOISE, JUDGE * readouts)
        best, worth = think(judge, some), list[dict[int, float]]()
        for row in range(len(some)):
            worth.append({one.action: one.value_to_move for one in judge.search.candidates(row)})
        for side, (evaluate, number) in enumerate(((many, leaves), (single, 1))):
            player = SearchPlayer(game, len(some), evaluate, NO_NOISE, readouts, number)
            think(player, [moves[:-2] for moves in some])
            chosen = think(player, [moves[-2:] for moves in some], new=False)
            for values, judged, action in zip(worth, best, chosen, strict=True):
                lost[side].append(max(0.0, values[judged] - values.get(action, min(values.values()))))
        progress.advance(len(some))
    progress.finish()
    return lost


def think(player: SearchPlayer, moves: Sequence[Sequence[int]], new: bool = True) -> list[int]:
    """Each row's choice after these moves of its own, in a new game or in the one that it plays."""
    rows = np.arange(len(moves))
    if new:
        player.new_games(rows, rows.astype(np.uint64))
    for row in rows:
        for action in moves[row]:
            player.advance(rows[row : row + 1], np.array([action], np.int32))
    player.begin(rows)
    chosen = dict[int, int]()
    while len(chosen) < len(rows):
        decided = player.step()
        chosen.update(zip(decided.rows.tolist(), decided.actions.tolist(), strict=True))
    return [chosen[row] for row in rows.tolist()]


def strength(model: Model, leaves: int, readouts: int, games: int, seed: int, progress: Progress) -> list[MatchGame]:
    """The games; the challenger has `leaves` of each tree in a batch, the champion one."""
    game = parse_game(model.info.game)
    threads = available_cores()
    evaluators = [load_evaluators(model, GAMES_AT_ONCE * n, threads, "auto", progress) for n in (leaves, 1)]

    def maker(side: int, num_leaves: int) -> MakePlayer:
        def make(game: Game, rows: int, thread: int) -> SearchPlayer:
            return SearchPlayer(game, rows, evaluators[side][thread], NO_NOISE, readouts, num_leaves)

        return make

    openings = make_openings(game, [evaluators[1][0]], -(-games // 2), OPENING_PLIES, seed, GAMES_AT_ONCE)
    pairing = Pairing(game, (maker(0, leaves), maker(1, 1)), (f"{leaves} leaves", "1 leaf"), seed, openings)
    queue, found = GameQueue(), list[MatchGame]()
    queue.give(range(games))
    progress.start("match", games, "games")

    def keep(outcome: Outcome) -> None:
        assert isinstance(outcome, MatchGame), outcome
        found.append(outcome)
        progress.advance()
        so_far = score_of(found)
        progress.describe(results(so_far.wins, so_far.draws, so_far.losses))
        if len(found) == games:
            queue.close()

    run_together([MatchThread(pairing, GAMES_AT_ONCE, number, queue, keep).run for number in range(threads)])
    progress.finish()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "choices", "strength"))
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"))
    parser.add_argument("--readouts", type=int, default=800)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each window (speed)")
    parser.add_argument("--leaves", type=int, default=32, help="of one tree in a batch (choices, strength)")
    parser.add_argument("--games", type=int, default=200, help="of the match; a third of the positions (choices)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with ending(parser):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    model, progress = read_model(resolve_champion(options.model)), ConsoleProgress()
    if options.what == "speed":
        pairs = speed(model, options.readouts, options.seconds, progress)
        one, many = (statistics.median(rates) for rates in zip(*pairs, strict=True))
        share = statistics.median(a / b for a, b in pairs)
        print(f"one game {one:,.0f} readouts/s; {SELFPLAY_GAMES} games {many:,.0f}; share {share:.2f}")
        return
    if options.what == "choices":
        lost = np.array(choices(model, options.leaves, options.readouts, options.games, options.seed, progress))
        difference = lost[0] - lost[1]
        error = 1.96 * difference.std() / len(difference) ** 0.5
        print(f"{options.leaves} leaves lose {lost[0].mean():.4f} a move, 1 leaf {lost[1].mean():.4f}: "
              f"{difference.mean():+.4f} ± {error:.4f}; {len(difference)} positions")  # fmt: skip
        return
    score = score_of(strength(model, options.leaves, options.readouts, options.games, options.seed, progress))
    low, elo, high = elo_interval(score)
    print(f"{options.leaves} leaves against 1, {options.readouts} readouts: {score.wins}-{score.draws}-{score.losses}, "
          f"{score.share:.1%}, Elo {elo:+.0f} ({low:+.0f} to {high:+.0f})")  # fmt: skip


if __name__ == "__main__":
    main()
