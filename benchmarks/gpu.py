"""What does a GPU give?

    python -m benchmarks.gpu plan FOLDER [--minutes 12] [--parts tests table … gnugo] [--dry-run]
    python -m benchmarks.gpu table [--boards 9 19] [--sizes b6c96 b10c128] [--batches 1024 2048] [--threads 16]

**plan** measures all that is to be known, with nobody watching. Its parts, each a process of its own:

    tests     those that need a GPU
    table     see below
    mugo      self-play with the network, games and readouts of the next part
    pgx       Pgx + mctx (benchmarks/pgx_mctx.py), if jax, pgx and mctx are installed
    language  a language model of 0.6 B weights (benchmarks.language), if the extra `text` is installed
    loop      a run of preset go9-gpu, for the time that the other parts leave
    match     its champion against pretrained/go9
    gnugo     its champion against GNU Go's level 10, if that is installed

--minutes is the time of the whole plan. A part that takes the time of later ones is stopped, and one for which too
little is left isn't begun. FOLDER/plan.md, written after each part, has every part's output and seconds, how busy the
processor and the GPU were, and what wasn't reached. The same command again goes on with the parts that aren't done. If
the run in FOLDER/run then trains on, its champion's matches are played again. Exit code 1: a part failed. --device cpu
makes the same plan in small on a processor, to see that it works.

**table** prints one line per board, network and batch: evaluations/s of the bare network with self-play's batches and
threads; evaluations/s of self-play and their share of the former (goal: 0.80); training samples/s from chunks and their
share of training on one batch in memory (goal: 0.95). The measurements are those of `main.py bench selfplay` and `bench
train`, in alternating windows. The default settings take some eight minutes. --device cpu prints the same table for
processors. Each thread has one batch of games; while it is on the GPU, other threads walk their trees. One thread per
core, the default, was fastest on the one GPU that was tried (docs/machines.md).
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import torch

from benchmarks.loop_clock import child, stopped_by_signals
from benchmarks.measuring import OPENINGS, gnugo
from benchmarks.strength import ending
from pipeline.bench.command import BenchSummary, bench
from pipeline.bench.config import BenchConfig
from pipeline.loop.command import read_kept
from pipeline.machine import available_cores
from pipeline.networks.gpu import gpu_fault
from pipeline.phrases import counted
from pipeline.run import atomic, layout
from pipeline.run.models import KnownFacts, list_models, read_info

SELFPLAY_GOAL, TRAIN_GOAL = 0.80, 0.95
HEAD = (
    f"{'board':>6} {'network':>8} {'batch':>6} {'network/s':>12} {'self-play/s':>12} {'share':>6} {'train/s':>10} "
    f"{'share':>6}"
)
STAGES = ("selfplay", "train")
ROOT = Path(__file__).parents[1]
RECORD, REPORT, RUN = "plan.json", "plan.md", "run"
TAIL = 40  # lines of a part's output in the report
MARGIN = 5.0  # seconds that ending a part may take
LAST_GENERATION = 0.12  # of a loop's time, by which it may end later than asked
DONE, FAILED, NOT_REACHED = "done", "failed", "not reached"
JUDGES = ("match", "gnugo")  # parts that play with the champion of the loop's run
# That the parts are expected to take; of the loop, the fewest that are worth it.
SECONDS = {
    "tests": 60.0, "table": 150.0, "mugo": 30.0, "pgx": 60.0, "language": 90.0, "loop": 120.0, "match": 90.0,
    "gnugo": 90.0,
}  # fmt: skip

# The table


def line(board: int, size: str, batch: int, found: dict[str, BenchSummary]) -> str:
    """A row of the table; ! marks a share below its goal."""
    selfplay, train = found.get("selfplay"), found.get("train")

    def rate(value: float | None) -> str:
        return "-" if value is None else f"{value:,.0f}"

    def share(value: float | None, goal: float) -> str:
        return "- " if value is None else f"{value:.2f}{'!' if value < goal else ' '}"

    return (
        f"{f'{board}x{board}':>6} {size:>8} {batch:>6,} "
        f"{rate(selfplay and selfplay.network_evaluations_per_second):>12} "
        f"{rate(selfplay and selfplay.selfplay_evaluations_per_second):>12} "
        f"{share(selfplay and selfplay.selfplay_share, SELFPLAY_GOAL):>6} "
        f"{rate(train and train.train_samples_per_second):>10} {share(train and train.train_share, TRAIN_GOAL):>6}"
    )


def table(given: argparse.Namespace) -> None:
    threads = min(given.threads, available_cores())
    if given.device == "cuda":
        print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {threads} threads")
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    print(HEAD, flush=True)
    try:
        if cores:
            os.sched_setaffinity(0, set(sorted(cores)[:threads]))  # bench starts a thread for each core
        for board, size, batch in itertools.product(given.boards, given.sizes, given.batches):
            found: dict[str, BenchSummary] = {}
            for stage in given.stages:
                config = BenchConfig(
                    what=stage, game=f"go:{board}", network_size=size, games=batch * threads, readouts=given.readouts,
                    seconds=given.seconds,
                )  # fmt: skip
                summary = bench(config)
                assert isinstance(summary, BenchSummary)
                if given.device == "cuda" and "cuda" not in (summary.backend or "cuda"):
                    sys.exit(f"benchmarks.gpu: {size} ran on {summary.backend}; the warnings above say why CUDA failed")
                found[stage] = summary
            print(line(board, size, batch, found), flush=True)
    finally:
        if cores:
            os.sched_setaffinity(0, cores)


# The plan


@dataclass(frozen=True)
class Part:
    """A command of the plan.

    seconds   see SECONDS
    missing   why it can't run here; "": it can
    run       the folder of the run that it trains on, in all the time that the other parts leave; then {minutes} in the
              command stands for the run's time
    judges    whether it plays with that run's champion: if the run goes on, it is to be played again
    """

    name: str
    command: Sequence[str]
    seconds: float
    missing: str = ""
    run: Path | None = None
    judges: bool = False


@dataclass(frozen=True)
class Outcome:
    """state: DONE, or what happened. cores, gpu: mean share of all cores and of the GPU in use; None: not known."""

    state: str
    seconds: float = 0.0
    cores: float | None = None
    gpu: float | None = None
    gpu_mebibytes: float | None = None


def parts(folder: Path, device: str) -> list[Part]:
    """The plan. Everything is small on a processor."""
    python, run, threads = sys.executable, folder / RUN, available_cores()
    program = [python, str(ROOT / "main.py")]
    measure = [python, "-m", "benchmarks.gpu", "table", "--device", device]
    if device == "cuda":
        games, size, searches = 16_384, "b4c64", ["--readouts", "32", "--seconds", "10"]
        table = ["--batches", "1024", "--seconds", "6"]
        settings, language = ["--preset", "go9-gpu", "--overlap"], []
        terms = ["--readouts", "200", "--games", "100", "--workers", "4"]
    else:
        games, size, searches = 32, "b1c16", ["--readouts", "4", "--seconds", "1"]
        table = ["--boards", "9", "--sizes", size, "--batches", "16", "--readouts", "4", "--seconds", "1"]
        language = ["--tiny", "--games", "4", "--prompt", "20", "--reply", "6", "--batch", "4", "--micro-batch", "2"]
        settings, terms = ["--game", "go:9,komi=7"], ["--readouts", "4", "--games", "4"]
    seconds = SECONDS if device == "cuda" else dict.fromkeys(SECONDS, 30.0)
    alike = ["--boards", "9", "--sizes", size, "--batches", str(games // threads), "--stages", "selfplay", *searches]
    match = [
        *program, "evaluate", "--no-promote", *terms, "--openings", str(OPENINGS / "go9.json"),
        "--output-dir", str(run / layout.MATCHES), "--white-model", str(run / layout.CHAMPION_LINK), "--black-model",
    ]  # fmt: skip
    engine = gnugo(10)
    commands: dict[str, list[str]] = {
        "tests": [python, "-m", "pytest", "-q", "tests/networks/test_cuda.py", "tests/train/test_cuda.py"],
        "table": [*measure, *table],
        "mugo": [*measure, *alike],
        "pgx": [
            python, str(ROOT / "benchmarks/pgx_mctx.py"), "--network-size", size, "--games", str(games),
            "--precision", "bfloat16", *searches,
        ],
        "language": [python, "-m", "benchmarks.language", *language],
        "loop": [*program, "loop", *settings, "--directory", str(run), "--minutes", "{minutes}"],
        "match": [*match, str(ROOT / "pretrained/go9")],
        "gnugo": [*match, f"gnugo-10=gtp:{engine}"],
    }  # fmt: skip
    missing = {
        "pgx": _not_installed("jax", "pgx", "mctx"),
        "language": _not_installed("transformers"),
        "gnugo": "" if engine else "GNU Go isn't installed",
    }
    return [
        Part(name, command, seconds[name], missing.get(name, ""), run if name == "loop" else None, name in JUDGES)
        for name, command in commands.items()
    ]


def _not_installed(*packages: str) -> str:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def run_plan(
    plan: Sequence[Part], folder: Path, minutes: float, say: Callable[[str], None], only: Collection[str] | None = None
) -> bool:
    """Run the parts that aren't done, one after another. Returns whether none failed.

    only: the names of those that are run; None: all. The outcomes of all parts are kept in the folder.
    """
    end = time.monotonic() + 60 * minutes
    atomic.make_folder(folder)
    record = folder / RECORD
    known = atomic.read_json(record, "the outcomes of a plan") if record.exists() else {}
    found = {part.name: Outcome(**known[part.name]) if part.name in known else Outcome(NOT_REACHED) for part in plan}
    asked = [part for part in plan if only is None or part.name in only]
    for number, part in enumerate(asked):
        if found[part.name].state == DONE:
            continue
        later = [one for one in asked[number + 1 :] if not one.missing and found[one.name].state != DONE]
        left = end - time.monotonic() - MARGIN
        limit = max(part.seconds, left - sum(one.seconds + MARGIN for one in later))
        if part.missing:
            found[part.name] = Outcome(part.missing)
        elif left < part.seconds:
            found[part.name] = Outcome(f"{NOT_REACHED}: {max(left, 0):.0f} s left, {part.seconds:.0f} wanted")
        else:
            say(f"{part.name}: {'' if part.run else 'at most '}{limit:.0f} s")
            if part.run:
                found |= {one.name: Outcome(NOT_REACHED) for one in plan if one.judges}
            found[part.name] = _measured(part, folder, limit)
        say(f"{part.name}: {found[part.name].state}")
        atomic.write_json(record, {name: asdict(outcome) for name, outcome in found.items()}, indent=1)
        atomic.write_text(folder / REPORT, report(folder, plan, found))
    return not any(found[part.name].state.startswith(FAILED) for part in asked)


def _measured(part: Part, folder: Path, limit: float) -> Outcome:
    """Run the part; stop it after limit seconds."""
    command = list(part.command)
    if part.run:
        before = read_kept(part.run / layout.LOOP_FILE).seconds
        minutes = (before + (1 - LAST_GENERATION) * limit) / 60
        command = [word.format(minutes=f"{minutes:.2f}") for word in command]
    log = folder / f"{part.name}.log"
    begun, busy, cores = time.monotonic(), _children_seconds(), sorted(os.sched_getaffinity(0))
    with log.open("w") as output, gpu_use() as use:
        output.write(f"$ {shlex.join(command)}\n")
        output.flush()
        with child(command, cores, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as process:
            try:
                code = process.wait(limit)
                state = DONE if code == 0 else f"{FAILED} with exit code {code}"
            except subprocess.TimeoutExpired:
                state = f"stopped after {limit:.0f} s"
    seconds = time.monotonic() - begun
    if part.run:
        with log.open("a") as output:
            output.writelines(f"{text}\n" for text in loop_lines(part.run))
    return Outcome(state, seconds, (_children_seconds() - busy) / seconds / len(cores), *use())


def _children_seconds() -> float:
    """CPU time of the child processes that have ended."""
    return sum(os.times()[2:4])


@contextmanager
def gpu_use() -> Iterator[Callable[[], tuple[float | None, float | None]]]:
    """Asks NVIDIA's driver every second. Yields a function for after the block: mean use, 0 to 1, and most MiB in use.

    Without a driver both are None.
    """
    found: list[tuple[float, float]] = []

    def summary() -> tuple[float | None, float | None]:
        if not found:
            return None, None
        return statistics.mean(use for use, _ in found) / 100, max(memory for _, memory in found)

    program = shutil.which("nvidia-smi")
    if program is None:
        yield summary
        return
    query = [program, "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits", "--loop=1"]
    with tempfile.TemporaryFile("w+") as lines:
        with child(query, sorted(os.sched_getaffinity(0)), stdout=lines):
            yield summary
        lines.seek(0)
        for text in lines:
            with suppress(ValueError):  # cut off, or "[N/A]"
                use, memory = map(float, text.split(","))
                found.append((use, memory))


def loop_lines(run: Path) -> list[str]:
    """Where the time of a loop went, and how long it paused between the trainings of two generations."""
    kept = read_kept(run / layout.LOOP_FILE)
    times = sorted(kept.commands.items(), key=lambda one: -one[1].seconds)
    lines = [f"{name:<22} {one.seconds:7.1f} s {one.seconds / kept.seconds:6.1%}" for name, one in times if one.seconds]
    trained = [read_info(path) for path in list_models(run / layout.SAVED_MODELS)][1:]
    ends = [datetime.fromisoformat(info.created).timestamp() for info in trained]
    seconds = [KnownFacts.model_validate(info.manifest).seconds or 0.0 for info in trained]
    pauses = [end - took - before for before, end, took in zip(ends, ends[1:], seconds[1:], strict=False)]
    if pauses:
        middle = statistics.median(pauses)
        lines.append(f"{len(trained)} trainings; between two of them {middle:.0f} s in the median (goal: 2 s)")
    return lines


def report(folder: Path, plan: Sequence[Part], found: dict[str, Outcome]) -> str:
    """plan.md."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    lines = [
        f"# {where}, {counted(available_cores(), 'core')}, torch {torch.__version__}",
        "",
        "| part | outcome | seconds | cores busy | GPU busy | GPU memory |",
        "|---|---|---|---|---|---|",
    ]
    for part in plan:
        one = found[part.name]
        memory = "-" if one.gpu_mebibytes is None else f"{one.gpu_mebibytes:,.0f} MiB"
        figures = [f"{one.seconds:.0f}", share(one.cores), share(one.gpu), memory]
        lines.append(f"| {' | '.join([part.name, one.state, *figures])} |")
    for part in plan:
        log = folder / f"{part.name}.log"
        if log.exists():
            command, *output = log.read_text(errors="replace").replace("\r", "\n").splitlines()
            lines += ["", f"## {part.name}", "", "```", command, *output[-TAIL:], "```"]
    return "\n".join(lines) + "\n"


def dry_run(plan: Sequence[Part], minutes: float) -> str:
    """The plan, for people."""
    wanted = sum(part.seconds for part in plan if not part.missing)
    rest = 60 * minutes - wanted
    lines = []
    for part in plan:
        time_of = part.seconds + max(rest, 0) if part.run else part.seconds
        lines.append(f"{part.name:<9} {part.missing or f'{time_of:.0f} s'}")
        lines.append(f"          {shlex.join(part.command)}")
    lines.append(f"in all    {wanted + max(rest, 0):.0f} s of {60 * minutes:.0f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_plan = commands.add_parser("plan", help="measure all that is to be known")
    of_plan.add_argument("folder", type=Path)
    of_plan.add_argument("--minutes", type=float, default=12.0, help="of the whole plan")
    of_plan.add_argument("--parts", nargs="+", choices=SECONDS, default=[*SECONDS], help="only these")
    of_plan.add_argument("--dry-run", action="store_true", help="show the plan; needs no GPU")
    of_table = commands.add_parser("table", help="self-play and training next to the bare network")
    of_table.add_argument("--boards", type=int, nargs="+", default=[9, 19], help="Go board sizes")
    of_table.add_argument("--sizes", nargs="+", default=["b6c96", "b10c128"])
    of_table.add_argument("--batches", type=int, nargs="+", default=[1024, 2048], help="games per thread")
    of_table.add_argument("--threads", type=int, default=available_cores())
    of_table.add_argument("--readouts", type=int, default=64)
    of_table.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    of_table.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="only these")
    for one in (of_plan, of_table):
        one.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args(arguments)
    if given.command == "plan":
        plan = parts(given.folder.resolve(), given.device)
        if given.dry_run:
            print(dry_run([part for part in plan if part.name in given.parts], given.minutes))
            return
    if given.device == "cuda" and (fault := gpu_fault()) != "":
        why = "torch finds no CUDA device" if fault is None else f"the GPU can't be used ({fault})"
        raise SystemExit(f"benchmarks.gpu: {why}; --device cpu measures the processor")
    with ending(parser), stopped_by_signals():
        if given.command == "table":
            table(given)
            return
        fine = run_plan(plan, given.folder, given.minutes, lambda text: print(text, flush=True), given.parts)
        print(given.folder / REPORT)
    if not fine:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
