"""How fast is each inference engine on this machine, for each network size?

    python -m benchmarks.network [--seconds 2] [--game go:9] [--sizes b2c32 b4c64] [--backends openvino int8 torch]

Prints evaluations per second of each size and engine, with full batches as self-play uses them: two threads of 128 rows
and one of 256. All sizes take minutes. `main.py bench` measures training.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from benchmarks.strength import ending
from pipeline.errors import MuGoError
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import KNOWN_SIZES, Architecture, random_weights
from pipeline.networks.inference import evaluation_rate, make_evaluators
from pipeline.players.loading import calibration_positions

BATCHES = ((128, 2), (256, 1))  # rows per thread, threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--game", default="go:9", help="game whose positions are evaluated")
    parser.add_argument("--sizes", nargs="+", default=list(KNOWN_SIZES), help="network sizes")
    parser.add_argument("--backends", nargs="+", default=["openvino", "int8", "torch"], help="inference engines")
    arguments = parser.parse_args()
    with ending(parser):
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    game = parse_game(arguments.game)
    planes = calibration_positions(game)
    print(f"{'size':8} {'engine':10} " + " ".join(f"{f'{threads} x {batch}':>12}" for batch, threads in BATCHES))
    for size, backend in itertools.product(arguments.sizes, arguments.backends):
        architecture = Architecture.for_game(size, game)
        weights = random_weights(architecture, 0)
        try:
            rates = []
            for batch, threads in BATCHES:
                evaluators = make_evaluators(architecture, weights, batch, threads, backend, calibration=planes)
                rates.append(evaluation_rate(evaluators, planes[np.arange(batch) % len(planes)], arguments.seconds))
        except MuGoError as error:
            print(f"{size:8} {backend:10} {error}")
            continue
        print(f"{size:8} {backend:10} " + " ".join(f"{rate:12,.0f}" for rate in rates), flush=True)


if __name__ == "__main__":
    main()
