"""What does evaluation beside training cost it? Training and self-play alone, and with a watcher on the same cores.

    sudo setsid -w taskset -c 0 .venv/bin/python -m benchmarks.beside --rounds 12

It needs root, which alone may make a process less nice, and Linux's groups by session (/proc/PID/autogroup).

Each round measures all *ways* for some seconds, in turn, so that whatever else happens on the machine hits all alike:

    alone     nothing beside it
    watched   beside `evaluate --watch`, with the priority that it has: threads and their session at niceness 19, and
              the policy SCHED_IDLE
    niced     beside the same with niceness 19 for its threads alone, as it was before: where the kernel groups
              processes by session, that counts inside a session only
    equal     beside the same without any niceness

This process trains, and plays as self-play does; the watcher is a process in a session of its own, as in another
terminal, with a match that doesn't end. It gets its priority once it plays, and stands still but in its turns. *share*
is what it got of the cores in its turn, by the kernel's count of its processor time; *loss* what training or self-play
lost of its speed, against the same round's alone. A loss that isn't larger than the share means that the watcher costs
nothing beyond it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.method import ActorJob, Learner, game_seeds
from pipeline.methods.named import method_named
from pipeline.networks.architecture import Architecture
from pipeline.networks.inference import make_evaluators
from pipeline.players.loading import calibration_positions
from pipeline.run.chunks import newest_complete_set
from pipeline.run.models import read_model
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import TrainConfig
from pipeline.train.dataset import Dataset
from pipeline.train.trainer import Trainer

MAIN = Path(__file__).parent.parent / "main.py"
EQUAL = "import pipeline.priority as p; p.step_back = lambda: None; import main; main.run_program()"
ALONE = "alone"
# niceness of threads, of the session; whether threads have the policy SCHED_IDLE
WAYS = {ALONE: (0, 0, False), "watched": (19, 19, True), "niced": (19, 0, False), "equal": (0, 0, False)}
ROWS = 128  # games at once, in self-play
GAMES_FIRST = 20  # a watcher that has played so many is under way
START_SECONDS = 600.0

Slice = tuple[float, float]
"""Steps a second, and the watcher's share of the cores meanwhile."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0, help="Of each way in a round.")
    parser.add_argument("--game", default="go:7")
    parser.add_argument("--network-size", default="b2c32")
    parser.add_argument("--run", type=Path, help="Folder to prepare and measure in, kept [default: a new one].")
    asked = parser.parse_args()
    if os.geteuid() or not Path("/proc/self/autogroup").exists():
        parser.error("needs root, to make processes less nice again, and a Linux with /proc/PID/autogroup")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # the watchers end, too
    with tempfile.TemporaryDirectory() as made:
        run = asked.run or Path(made) / "run"
        if not run.exists():
            prepare(run, asked.game, asked.network_size)
        with watcher(run) as beside:
            for what, step in (("training steps", training(run)), ("self-play steps", playing(run))):
                rounds = [one_round(step, beside, number, asked.seconds) for number in range(asked.rounds)]
                print("\n".join(lines(what, rounds)), flush=True)


def prepare(run: Path, game: str, network_size: str) -> None:
    """A model, and chunks of its games to train on."""
    run.mkdir(parents=True)
    for words in (
        ("init", "--game", game, "--network-size", network_size),
        ("selfplay", "--games", "128", "--readouts", "8"),
        ("gather", "--as-many-as-possible", "--positions-per-chunk", "1024"),
    ):
        subprocess.run([sys.executable, str(MAIN), *words], cwd=run, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def watcher(run: Path) -> Iterator[psutil.Process]:
    """A watcher that has begun to play, and was stopped."""
    words = ["evaluate", "--watch", "--single", "random", "--single-games", "20000", "--benchmark-games", "0",
             "--ladder-games", "0", "--tournament-games", "0", "--readouts", "32", "--verbose", "0",
             "--parallel-games", str(ROWS)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(MAIN.parent)}
    process = subprocess.Popen([sys.executable, "-c", EQUAL, *words], cwd=run, start_new_session=True, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        games = run / "data/evaluate/watch"
        while not any(path.read_bytes().count(b"\n") > GAMES_FIRST for path in games.glob("*-vs-*/games.jsonl")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the watcher didn't begin to play")
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGSTOP)
        yield psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def be_nice(process: psutil.Process, threads: int, session: int, idle: bool) -> None:
    """Set the niceness of all threads of a process, and of its session, and whether the threads' policy is SCHED_IDLE.

    Needs root to make it less nice again.
    """
    for thread in process.threads():
        os.sched_setscheduler(thread.id, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread.id, threads)
    Path(f"/proc/{process.pid}/autogroup").write_text(str(session))


def training(run: Path) -> Callable[[], None]:
    """A step of train's."""
    model = read_model(run / "saved_models/best_model")
    method, game, config = method_named(model.info.method), parse_game(model.info.game), TrainConfig(batch_size=128)
    chunks = newest_complete_set(run / "data/training_data")
    assert chunks is not None
    trainer = Trainer(method.objective(model.info.architecture, config), model.weights, config)
    batches = itertools.cycle(Dataset(method, game, chunks, config.batch_size, 0).batches(8))

    def step() -> None:
        trainer.step(next(batches))

    return step


def playing(run: Path) -> Callable[[], None]:
    """A step of self-play's."""
    model = read_model(run / "saved_models/best_model")
    game = parse_game(model.info.game)
    architecture = Architecture.from_dict(model.info.architecture).at(*game.board_shape)
    (evaluator,) = make_evaluators(architecture, model.weights, ROWS, 1, calibration=calibration_positions(game))
    learner = Learner("measured", evaluator)
    seeds = game_seeds(0, itertools.count(), 0.0)
    settings = SelfplayConfig(readouts=32)
    actor = TreeActor(ActorJob(game, ROWS, settings, seeds, lambda: learner, lambda _: None))

    def step() -> None:
        actor.step()

    return step


def one_round(step: Callable[[], None], beside: psutil.Process, number: int, seconds: float) -> dict[str, Slice]:
    for _ in range(3):
        step()
    ways, turn = list(WAYS), number % len(WAYS)
    return {way: one_slice(step, beside, way, seconds) for way in (*ways[turn:], *ways[:turn])}


def one_slice(step: Callable[[], None], beside: psutil.Process, way: str, seconds: float) -> Slice:
    if way != ALONE:
        be_nice(beside, *WAYS[way])
        os.killpg(beside.pid, signal.SIGCONT)
        time.sleep(0.2)
    used, began, steps = cpu_seconds(beside), time.monotonic(), 0
    while (took := time.monotonic() - began) < seconds:
        step()
        steps += 1
    used = cpu_seconds(beside) - used
    if way != ALONE:
        os.killpg(beside.pid, signal.SIGSTOP)
    return steps / took, used / took / available_cores()


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def lines(what: str, rounds: Sequence[dict[str, Slice]]) -> Iterator[str]:
    """A line of a table for each way."""
    alone = statistics.median(one[ALONE][0] for one in rounds)
    for way in list(WAYS)[1:]:
        losses = sorted(1 - one[way][0] / one[ALONE][0] for one in rounds)
        share = statistics.median(one[way][1] for one in rounds)
        low, high = losses[len(losses) // 4], losses[-1 - len(losses) // 4]
        loss = f"{statistics.median(losses):.1%} ({low:.1%} to {high:.1%})"
        yield f"| {what}, {alone:.1f}/s alone | {way} | {loss} | {share:.1%} |"


if __name__ == "__main__":
    main()
