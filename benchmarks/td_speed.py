"""How fast a core plays backgammon by an afterstate network, beside the bare network, and two processes beside one.

    python -m benchmarks.td_speed [MODEL] [--network-size h80] [--value-head scalar] [--games 1024] [--seconds 3]

One thread, in seconds of a core (other programs' time doesn't count, though they disturb the caches); medians of five
rounds in which all are measured in turn:

    dense          the network as two products of matrices on the positions' features, which are there already: what
                   self-play would be bound by if its network didn't follow the turns' changes
    network        the network of self-play on positions whose successors are there already
    rules          the successors of these positions, which self-play has to find
    self-play      whole turns: throws, rules, network, choice, recording
    two processes  self-play of two processes at the same time, as a multiple of one of them alone: in seconds of a core
                   each, which shows what they take from each other's caches, and by the clock, which shows besides
                   whether two cores were free

Without MODEL the weights are random, and so are the games; trained ones are about as long.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.backgammon import model_of
from benchmarks.strength import ending
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td.actor import AfterstateActor
from pipeline.families.backgammon.td.method import TemporalDifference
from pipeline.families.backgammon.td.network import AfterstateNetwork
from pipeline.methods.method import ActorJob, FinishedGame, Learner, game_seeds
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig

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


class SelfPlay:
    """Games of one thread at all stages. finished: those that are over."""

    def __init__(self, game: Backgammon, network: AfterstateNetwork, num_games: int) -> None:
        self.finished: list[FinishedGame] = []
        seeds, learner = game_seeds(0, itertools.count(), 0.0), Learner("speed", network)
        job = ActorJob(game, num_games, SelfplayConfig(), seeds, lambda: learner, self.finished.append)
        self.actor = AfterstateActor(job)
        for _ in range(WARM_TURNS):
            self.actor.step()

    def play(self) -> int:
        """A turn of each; -> evaluations."""
        before = self.actor.evaluations
        self.actor.step()
        return self.actor.evaluations - before


class Child:
    """Another process that plays when it is told to: a line of seconds in, a line of JSON out."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks.td_speed", *sys.argv[1:], "--child"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()  # it is warm

    def begin(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def answer(self) -> tuple[float, float]:
        """(evaluations in a second of a core, in a second by the clock)."""
        assert self._process.stdout is not None
        core, clock = json.loads(self._process.stdout.readline())
        return core, clock

    def end(self) -> None:
        self._process.communicate()


def be_child(games: SelfPlay) -> None:
    print(json.dumps([0, 0]), flush=True)
    for line in sys.stdin:
        done, clock, core = 0, time.perf_counter(), time.thread_time()
        while (spent := time.perf_counter() - clock) < float(line):
            done += games.play()
        print(json.dumps([done / (time.thread_time() - core), done / spent]), flush=True)


def two_beside_one(seconds: float) -> tuple[float, float]:
    """Self-play of two processes as a multiple of one alone: in seconds of a core, and by the clock."""
    children, ratios = [Child(), Child()], []
    for turn in range(ROUNDS):
        alone = children[turn % 2]
        alone.begin(seconds)
        one = alone.answer()
        for child in children:
            child.begin(seconds)
        both = [child.answer() for child in children]
        ratios.append([sum(rates) / rate for rates, rate in zip(zip(*both, strict=True), one, strict=True)])
    for child in children:
        child.end()
    core, clock = (statistics.median(found) for found in zip(*ratios, strict=True))
    return core, clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--network-size", default="h80")
    parser.add_argument("--value-head", default="scalar")
    parser.add_argument("--games", type=int, default=1024, help="Games at once.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Of a core, for each measurement.")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    game, method = Backgammon(), TemporalDifference()
    if options.model:
        with ending(parser):
            weights = model_of(options.model, game.spec).weights
    else:
        config = InitConfig(game=game.spec, network_size=options.network_size, value_head=options.value_head)
        weights = method.first_model(game, config)[1]
    network = AfterstateNetwork(game, weights)
    games = SelfPlay(game, network, options.games)
    if options.child:
        be_child(games)
        return
    throws = np.random.default_rng(0).integers(0, 21, options.games).astype(np.int32)
    states = game.happen(games.actor._states, throws)
    found = game.successors(states)
    inputs = np.concatenate([game.features(found.states), game.tactics(found.states)], axis=1)
    features = np.ascontiguousarray(inputs[:, : weights["hidden.weight"].shape[1]])

    def network_alone() -> int:
        return len(network.outputs_of(states, found))

    def dense() -> int:
        return len(dense_outputs(weights, features))

    def rules() -> int:
        return len(game.successors(states).states)

    share, finished = options.seconds / ROUNDS, games.finished
    rates: dict[str, list[float]] = {"dense": [], "network": [], "rules": [], "self-play": [], "games": []}
    for _ in range(ROUNDS):
        rates["dense"].append(per_second(dense, share))
        rates["network"].append(per_second(network_alone, share))
        rates["rules"].append(per_second(rules, share))
        before, started = len(finished), time.thread_time()
        rates["self-play"].append(per_second(games.play, share))
        rates["games"].append((len(finished) - before) / (time.thread_time() - started))
    lengths = np.array([len(one.record.moves) / 2 for one in finished])
    middle = {name: statistics.median(found) for name, found in rates.items()}
    shares = {
        name: statistics.median(a / b for a, b in zip(rates["self-play"], rates[name], strict=True))
        for name in ("dense", "network")
    }
    print(f"dense          {middle['dense']:,.0f} evaluations a second of a core")
    print(f"network        {middle['network']:,.0f}")
    print(f"rules          {middle['rules']:,.0f}")
    print(
        f"self-play      {middle['self-play']:,.0f}: {shares['dense']:.2f} of dense, {shares['network']:.2f} of network"
    )
    print(f"               {middle['games']:,.0f} games, of {np.median(lengths):.0f} turns (median)")
    core, clock = two_beside_one(share)
    print(f"two processes  {core:.2f} times one in seconds of a core, {clock:.2f} by the clock")


if __name__ == "__main__":
    main()
