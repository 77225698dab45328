"""How fast a core plays backgammon by an afterstate network, beside the bare network.

    python -m benchmarks.td_speed [MODEL] [--network-size h80] [--value-head scalar] [--games 1024] [--seconds 3]

One thread, in seconds of a core (other programs' time doesn't count, though they disturb the caches); medians of five
rounds in which all are measured in turn:

    dense      the network as two products of matrices on the positions' features, which are there already: what
               self-play would be bound by if its network didn't follow the turns' changes
    network    the network of self-play on positions whose successors are there already
    self-play  whole turns: throws, rules, network, choice, recording

Without MODEL the weights are random, and games are several times as long as those of a model that has learned.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.config import InitConfig, SelfplayConfig
from pipeline.games.backgammon.game import Backgammon
from pipeline.methods.base import ActorJob, FinishedGame, Learner, game_seeds
from pipeline.methods.td.actor import AfterstateActor
from pipeline.methods.td.method import TemporalDifference
from pipeline.networks.afterstates import AfterstateNetwork
from pipeline.storage.models import read_model

ROUNDS = 5
WARM_TURNS = 60  # until games are at all stages


def dense_outputs(weights: dict[str, np.ndarray], features: np.ndarray) -> np.ndarray:
    """[N, O] by products of matrices. features [N, F]."""
    for layer in ("hidden", "output"):
        features = features @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
        np.negative(features, out=features)
        np.exp(features, out=features)
        features += 1
        np.reciprocal(features, out=features)
    return features


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Of what work() counts, in seconds of this thread."""
    done, started = 0, time.thread_time()
    while (spent := time.thread_time() - started) < seconds:
        done += work()
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--network-size", default="h80")
    parser.add_argument("--value-head", default="scalar")
    parser.add_argument("--games", type=int, default=1024, help="Games at once.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Of a core, for each measurement.")
    options = parser.parse_args()
    game, method = Backgammon(), TemporalDifference()
    if options.model:
        weights = read_model(options.model).weights
    else:
        config = InitConfig(game=game.spec, network_size=options.network_size, value_head=options.value_head)
        weights = method.first_model(game, config)[1]
    network = AfterstateNetwork(game, weights)
    finished: list[FinishedGame] = []
    seeds, learner = game_seeds(0, itertools.count(), 0.0), Learner("speed", network)
    job = ActorJob(game, options.games, SelfplayConfig(), seeds, lambda: learner, finished.append)
    actor = AfterstateActor(job)
    for _ in range(WARM_TURNS):
        actor.step()
    states = game.happen(actor._states, np.random.default_rng(0).integers(0, 21, options.games).astype(np.int32))
    found = game.successors(states)
    features = game.features(found.states)

    def play() -> int:
        before = actor.evaluations
        actor.step()
        return actor.evaluations - before

    def network_alone() -> int:
        return len(network.outputs_of(states, found))

    def dense() -> int:
        return len(dense_outputs(weights, features))

    share = options.seconds / ROUNDS
    rates: dict[str, list[float]] = {"dense": [], "network": [], "self-play": [], "games": []}
    for _ in range(ROUNDS):
        rates["dense"].append(per_second(dense, share))
        rates["network"].append(per_second(network_alone, share))
        games, started = len(finished), time.thread_time()
        rates["self-play"].append(per_second(play, share))
        rates["games"].append((len(finished) - games) / (time.thread_time() - started))
    lengths = np.array([len(one.record.moves) / 2 for one in finished])
    middle = {name: statistics.median(found) for name, found in rates.items()}
    shares = {
        name: statistics.median(a / b for a, b in zip(rates["self-play"], rates[name], strict=True))
        for name in ("dense", "network")
    }
    print(f"dense      {middle['dense']:,.0f} evaluations a second of a core")
    print(f"network    {middle['network']:,.0f}")
    print(f"self-play  {middle['self-play']:,.0f}: {shares['dense']:.2f} of dense, {shares['network']:.2f} of network")
    print(f"           {middle['games']:,.0f} games, of {np.median(lengths):.0f} turns (median)")


if __name__ == "__main__":
    main()
