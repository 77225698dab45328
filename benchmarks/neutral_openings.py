"""Openings that favour nobody's taste: uniformly random plies that two judges who learned apart both call even.

    python -m benchmarks.neutral_openings --model pretrained/go9 --output benchmarks/openings/go9.json

Openings sampled from a model's own policy lead to positions that it knows, so a match against an engine that begins
there counts in the model's favour. These are made otherwise: every ply is any legal move with the same chance, a pass
never. Such an opening is kept if
    the model    sees a value of at most --value after a search with --readouts, and
    GNU Go       at level 1, playing it out against itself --playouts times, ends within --points of even on average.
The judges only turn lopsided openings down; they don't choose what is played. None is another one mirrored or turned.
`main.py evaluate --openings FILE` and benchmarks.strength play them; the file says how it was made.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.measuring import gnugo
from benchmarks.strength import HelpFormatter, ending
from benchmarks.targets import NO_NOISE, searched
from pipeline.families.go.gtp_engine import GtpEngine, parse_score
from pipeline.families.go.gtp_player import COLOURS, set_up_board
from pipeline.games.contract import FloatArray, Game
from pipeline.games.specs import parse_game
from pipeline.players.loading import load_evaluators
from pipeline.players.searching import Evaluate
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.models import game_as_seen, read_model, resolve_champion
from pipeline.run.openings import write_openings

BATCH = 256  # openings that the model judges at once
LEVEL = 1  # of GNU Go: seven times as fast as level 10 and hardly weaker, so several playouts instead of one
ENGINE_SECONDS = 60.0
LONGEST = 2  # plies of a playout, in points of the board


def random_openings(game: Game, count: int, plies: int, rng: np.random.Generator) -> list[list[int]]:
    """So many openings of uniformly random legal moves, passes excepted; those that end the game are left out."""
    states = game.initial(count)
    history = game.initial_history(states)
    rows, moves = np.arange(count), np.empty((count, plies), np.int32)
    for ply in range(plies):
        legal = game.legal(states, history)
        if game.pass_action is not None:
            legal[:, game.pass_action] = False
        moves[:, ply] = (legal * rng.random(legal.shape)).argmax(axis=1)
        states = game.play(states, moves[:, ply], history)
        history.append(rows, game.keys(states))
    return moves[~game.is_over(states)].tolist()


def seen_from_all_sides(game: Game, opening: Sequence[int]) -> bytes:
    """The same for openings that lead to one position, mirrored or turned."""
    states = game.initial(1)
    history = game.initial_history(states)
    for action in opening:
        states = game.play(states, np.array([action], np.int32), history)
        history.append(np.array([0]), game.keys(states))
    board = states[0, : game.num_points].reshape(game.board_shape)
    turned = [np.rot90(one, quarter) for one in (board, board.T) for quarter in range(4)]
    return min(one.tobytes() for one in turned)


def values(game: Game, evaluate: Evaluate, openings: list[list[int]], readouts: int) -> FloatArray:
    """[n] of the positions after the openings, by the model's search, for the player to move."""
    return searched(game, evaluate, openings, NO_NOISE, readouts, 0).root_values(np.arange(len(openings)))


def playout(engine: GtpEngine, game: Game, opening: Sequence[int], seed: int) -> float:
    """The score for black, komi included, after the engine has played both sides from an opening on."""
    set_up_board(engine, game, seed, engine.seconds)
    for ply, action in enumerate(opening):
        engine.send(f"play {COLOURS[ply % 2]} {game.action_name(action)}")
    passes, ply = 0, len(opening)
    while passes < 2 and ply < LONGEST * game.num_points:
        vertex = engine.send(f"genmove {COLOURS[ply % 2]}")
        passes = passes + 1 if vertex.lower() == "pass" else 0
        ply += 1
    return parse_score(engine.name, engine.send("final_score"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.neutral_openings", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("pretrained/go9"), help="one of the judges")
    parser.add_argument("--game", help="the board and komi, of a model of any board; else the model's game")
    parser.add_argument("--output", type=Path, default=Path("openings.json"), help="the file")
    parser.add_argument("--openings", type=int, default=150, help="that are wanted")
    parser.add_argument("--plies", type=int, default=6, help="of each; even, so that black is to move")
    parser.add_argument("--readouts", type=int, default=400, help="of the model's searches")
    parser.add_argument("--value", type=float, default=0.3, help="the most that the model may see for a side")
    parser.add_argument("--playouts", type=int, default=2, help="games of GNU Go against itself")
    parser.add_argument("--points", type=float, default=7.0, help="that these may end from even, on average")
    parser.add_argument("--seed", type=int, default=0, help="of the random plies")
    options = parser.parse_args(arguments)
    for name, least in (("openings", 1), ("plies", 1), ("readouts", 1), ("playouts", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: wanted at least {least}")
    with ending(parser), ConsoleProgress() as progress:
        model = read_model(resolve_champion(options.model))
        game = parse_game(options.game or model.info.game)
        seen_as = game_as_seen(model.info, game)
        if seen_as is None:
            parser.error(f"--game {options.game}: {options.model} plays {model.info.game}; wanted a board of that")
        command = gnugo(LEVEL)
        if command is None or game.gtp_komi is None:
            parser.error("wanted a model of Go, and GNU Go (Debian: apt-get install gnugo)")
        evaluate = load_evaluators(model, BATCH, 1, "auto", progress)[0]
        engine = GtpEngine(command, "gnugo", ENGINE_SECONDS)
        rng = np.random.default_rng(options.seed)
        found: list[list[int]] = []
        seen: set[bytes] = set()
        tried = even_to_model = 0
        progress.start("openings", options.openings, "openings")
        try:
            engine.handshake()
            while len(found) < options.openings:
                candidates = random_openings(game, BATCH, options.plies, rng)
                for opening, value in zip(
                    candidates, values(seen_as, evaluate, candidates, options.readouts).tolist(), strict=True
                ):
                    if len(found) == options.openings:
                        break
                    tried += 1
                    if abs(value) > options.value:
                        continue
                    even_to_model += 1
                    scores = [playout(engine, game, opening, seed) for seed in range(1, options.playouts + 1)]
                    key = seen_from_all_sides(game, opening)
                    if abs(sum(scores)) <= options.points * len(scores) and key not in seen:
                        seen.add(key)
                        found.append(opening)
                        progress.advance(1)
                progress.say(f"{len(found)} of {even_to_model} even to the model of {tried}")
        finally:
            engine.kill()
            progress.finish()
        origin = {
            "made_by": "python -m benchmarks.neutral_openings",
            "model": model.info.name,
            "weights": model.info.files["weights.safetensors"].sha256,
            "engine": command.replace(command.split()[0], "gnugo", 1),
            **{name: getattr(options, name) for name in ("plies", "readouts", "value", "playouts", "points", "seed")},
            "tried": tried,
            "even_to_model": even_to_model,
        }
        write_openings(options.output, game, found, origin)
        print(f"{options.output}: {len(found)} openings of {tried} tried, {even_to_model} of them even to the model")


if __name__ == "__main__":
    main()
