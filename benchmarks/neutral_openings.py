"""Which openings favour nobody? Finds random openings that a model and GNU Go both judge even.

    python -m benchmarks.neutral_openings --model pretrained/go9 --output benchmarks/openings/go9.json

Openings sampled from a model's own policy lead to positions that it knows, which favours it in matches against engines.
Here every ply is a uniformly random legal move other than pass. An opening is kept if
    the model    gives it a value of at most --value for either side in a search with --readouts, and
    GNU Go       at level 1, playing --playouts games against itself from it, ends within --points of even on average.
The judges only reject lopsided openings; they don't choose moves. No kept opening is a rotation or reflection of
another. Writes a file that also records how it was made; `main.py evaluate --openings FILE` and benchmarks.strength
play it. 150 openings of 9×9 take half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.measuring import gnugo
from benchmarks.strength import HelpFormatter, ending
from benchmarks.targets import NO_NOISE, searched
from pipeline.families.go.gtp_client import GtpEngine, parse_score
from pipeline.families.go.gtp_player import COLOURS, set_up_board
from pipeline.games.capabilities import Komi
from pipeline.games.contract import FloatArray, Game
from pipeline.games.specs import parse_game
from pipeline.matches.openings import write_openings
from pipeline.players.loading import load_evaluators
from pipeline.players.searching import Evaluate
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.models import game_as_seen, read_model, resolve_champion

BATCH = 256  # openings that the model judges together
LEVEL = 1  # of GNU Go; seven times as fast as level 10 and hardly weaker, so it allows more playouts
ENGINE_SECONDS = 60.0
LONGEST = 2  # the most plies of a playout, in points of the board


def random_openings(game: Game, count: int, plies: int, rng: np.random.Generator) -> list[list[int]]:
    """`count` openings of uniformly random legal moves without passes, except those that end the game."""
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
    """A key that is equal for openings whose positions are rotations or reflections of each other."""
    states = game.initial(1)
    history = game.initial_history(states)
    for action in opening:
        states = game.play(states, np.array([action], np.int32), history)
        history.append(np.array([0]), game.keys(states))
    board = states[0, : game.num_points].reshape(game.board_shape)
    turned = [np.rot90(one, quarter) for one in (board, board.T) for quarter in range(4)]
    return min(one.tobytes() for one in turned)


def values(game: Game, evaluate: Evaluate, openings: list[list[int]], readouts: int) -> FloatArray:
    """[n] the values of the positions after the openings for the player to move, by the model's search."""
    return searched(game, evaluate, openings, NO_NOISE, readouts, 0).root_values(np.arange(len(openings)))


def playout(engine: GtpEngine, game: Game, opening: Sequence[int], seed: int) -> float:
    """Black's score, with komi, after the engine has played both sides from an opening on."""
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
    parser.add_argument("--model", type=Path, default=Path("pretrained/go9"), help="the model that judges")
    parser.add_argument("--game", help="board and komi, if the model plays any board [default: the model's game]")
    parser.add_argument("--output", type=Path, default=Path("openings.json"), help="the file to write")
    parser.add_argument("--openings", type=int, default=150, help="openings to find")
    parser.add_argument("--plies", type=int, default=6, help="length of each; even, so that black moves next")
    parser.add_argument("--readouts", type=int, default=400, help="simulations of each of the model's searches")
    parser.add_argument("--value", type=float, default=0.3, help="the largest value for either side, by the model")
    parser.add_argument("--playouts", type=int, default=2, help="games of GNU Go against itself per opening")
    parser.add_argument("--points", type=float, default=7.0, help="the largest mean score of these for either side")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random plies")
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
        if command is None or not isinstance(game, Komi):
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
                progress.say(f"found {len(found)}; {even_to_model} of {tried} tried are even to the model")
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
