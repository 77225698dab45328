"""What int8 costs: the same model plays itself, in int8 and in the exact precision, with equal readouts.

    python -m benchmarks.precision [--model saved_models/best_model] [--games 400] [--readouts 64]

Also how far the two are apart on calibration positions, and how fast each is. Openings are played both ways. With equal
readouts; that int8 makes more of them a second is its gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.strength import ending
from benchmarks.tune import ROWS, meet, told
from pipeline.bench.match import SEARCH
from pipeline.games.contract import Planes
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.networks.inference import Evaluator, evaluation_rate, softmax
from pipeline.players.loading import calibration_of, load_evaluators
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.models import read_model, resolve_champion

SECONDS = 3.0
BACKENDS = ("int8", "openvino")


def compare(path: Path, games: int, readouts: int, progress: ConsoleProgress) -> None:
    model = read_model(resolve_champion(path))
    game, threads = parse_game(model.info.game), available_cores()
    evaluators = [load_evaluators(model, ROWS, threads, backend, progress) for backend in BACKENDS]
    planes = calibration_of(model)
    batch = planes[np.arange(ROWS) % len(planes)]
    print(f"{model.info.name}, {game.spec}, {readouts} readouts")
    for one in evaluators:
        print(f"{one[0].engine!s:<28}{evaluation_rate(one, batch, SECONDS):>10,.0f} evaluations/s")
    logits, values, exact_logits, exact_values = (part for one in evaluators for part in answers(one[0], planes))
    policy, exact = softmax(logits), softmax(exact_logits)
    divergence = (exact * np.log((exact + 1e-9) / (policy + 1e-9))).sum(axis=1).mean()
    same = (policy.argmax(axis=1) == exact.argmax(axis=1)).mean()
    apart = np.abs(values - exact_values)
    print(f"apart on {len(planes)} positions:")
    print(f"  policy by {divergence:.5f} nats, at most {np.abs(policy - exact).max():.3f} in any move's probability")
    print(f"  the same best move in {same:.1%}; value by {apart.mean():.4f}, at most {apart.max():.3f}")
    print(f"int8: {told(meet(game, evaluators, (SEARCH, SEARCH), games, readouts, progress))}")


def answers(evaluator: Evaluator, planes: Planes) -> list[np.ndarray]:
    """[policy logits [N, A], values [N]] of planes [N, C, H, W]."""
    parts = [evaluator(planes[at : at + ROWS]) for at in range(0, len(planes), ROWS)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.precision", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"))
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--readouts", type=int, default=64)
    options = parser.parse_args(arguments)
    if options.games % 2:
        parser.error(f"--games {options.games}: wanted an even number: every opening is played both ways")
    with ending(parser), ConsoleProgress() as progress:
        compare(options.model, options.games, options.readouts, progress)


if __name__ == "__main__":
    main()
