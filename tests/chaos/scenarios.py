"""Faults from outside: full, read-only and slow disks, several processes and machines at once, clocks, damaged files.

Each function disturbs one stage in one way and returns the trial: see trials.py for what is checked then. Raises Skip
where this machine doesn't permit it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.chaos.faults import POINTS, Fault
from tests.chaos.stages import STAGES, committed, copy, games_of
from tests.chaos.trials import VERIFY, Bench, Reference, Trial

HOSTS = ("alpha", "beta")
SPARE_BYTES = (0, 4_096, 12_288, 32_768, 65_536)  # on a disk that is nearly full
SLOW_SECONDS = 0.02  # for each call that changes files


class Skip(Exception):
    """Not possible on this machine; says why."""


class Disturbed(NamedTuple):
    """A stage that is to be disturbed. before: what its folder holds that must never be lost."""

    reference: Reference
    trial: Trial
    rng: random.Random
    folder: Path
    before: dict[str, str]


@contextmanager
def disturbed(bench: Bench, name: str, seed: int, what: str) -> Iterator[Disturbed]:
    """A folder in which the block disturbs the stage; afterwards the stage is run to its end and compared."""
    reference, trial = bench.reference(name), Trial(name, seed)
    with bench.copy_of(name, f"{what.replace(' ', '-')}-{seed}") as folder:
        yield Disturbed(reference, trial, random.Random(f"{what} {name} {seed}"), folder, committed(folder))
        bench.finish(reference, folder, trial)


# Disks


@contextmanager
def small_disk(folder: Path, num_bytes: int) -> Iterator[Callable[[str], None]]:
    """A file system of this size at folder; the function that the block gets changes its options. Raises Skip."""
    folder.mkdir(parents=True)

    def mount(options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode:
            raise Skip(f"no tmpfs can be mounted: {done.stderr.strip()}")

    if shutil.which("mount") is None:
        raise Skip("there is no mount command")
    mount(f"size={num_bytes}")
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def used_pages(folder: Path) -> int:
    """Bytes that a tmpfs needs for a copy of the folder."""
    pages = sum(-(-path.stat().st_size // 4096) for path in folder.rglob("*") if path.is_file())
    return 4096 * (pages + 1)


def full_disk(bench: Bench, name: str, seed: int) -> Trial:
    """A disk with less and less room left, then with enough."""
    reference, trial = bench.reference(name), Trial(name, seed)
    disk = bench.folder / f"{name}-disk-{seed}"
    spare = SPARE_BYTES[seed % len(SPARE_BYTES)]
    with small_disk(disk, used_pages(reference.base) + spare) as remount:
        folder = copy(reference.base, disk / "run")
        before = committed(folder)
        done = bench.workshop.run(reference.stage.arguments, folder, Fault())
        bench.check_end(done, "full", "full disk", trial)
        bench.check_kept(before, committed(folder), done, trial)
        if done.code != 0 and "disk is full" not in done.said:
            trial.fail(f"full disk: {done.said[-500:]}")
        remount("size=1g")
        bench.finish(reference, folder, trial)
    return trial


def read_only_disk(bench: Bench, name: str, seed: int) -> Trial:
    reference, trial = bench.reference(name), Trial(name, seed)
    disk = bench.folder / f"{name}-read-only-{seed}"
    with small_disk(disk, 2**30) as remount:
        folder = copy(reference.base, disk / "run")
        remount("ro")
        before = committed(folder)
        done = bench.workshop.run(reference.stage.arguments, folder, Fault())
        bench.check_end(done, "read-only", "read-only disk", trial)
        if done.code != 1 or "read-only" not in done.said:
            trial.fail(f"read-only disk: exit code {done.code}: {done.said[-500:]}")
        if committed(folder) != before:
            trial.fail("a read-only disk changed")
        verified = bench.workshop.run(("verify", "--verbose", "0"), folder)
        if verified.code != 0:
            trial.fail(f"verify on a read-only disk: {verified.said}")
        remount("rw")
        bench.finish(reference, folder, trial)
    return trial


def slow_disk(bench: Bench, name: str, seed: int) -> Trial:
    """Every call takes long, and a signal comes in the middle of it."""
    with disturbed(bench, name, seed, "slow") as (reference, trial, rng, folder, before):
        action, number = rng.choice((("kill", signal.SIGKILL), ("term", signal.SIGTERM), ("int", signal.SIGINT)))
        running = bench.workshop.start(reference.stage.arguments, folder, Fault("slow", seconds=SLOW_SECONDS))
        time.sleep(rng.uniform(0, reference.seconds + SLOW_SECONDS * reference.points / len(POINTS)))
        running.signal(number)
        done = running.wait()
        bench.check_end(done, action, f"{action} on a slow disk", trial)
        bench.check_kept(before, committed(folder), done, trial)
        bench.verify_after_fault(folder, trial, repair=False)
    return trial


# Several at once


def two_at_once(bench: Bench, name: str, seed: int, hosts: tuple[str | None, str | None] = (None, None)) -> Trial:
    """Two of a stage in one folder, the second a moment later; on machines of their own if hosts are given."""
    what = "two at once" if hosts[0] is None else "two hosts at once"
    with disturbed(bench, name, seed, what) as (reference, trial, rng, folder, before):
        running = []
        for host in hosts:
            running.append(bench.workshop.start(reference.stage.arguments, folder, Fault(), host))
            time.sleep(rng.uniform(0, reference.seconds) * rng.random())
        all_done = [one.wait() for one in running]
        if hosts[0] is not None and any("PermissionError" in done.said for done in all_done):
            raise Skip("no new process namespaces are permitted")
        for done in all_done:
            bench.check_end(done, "none", "", trial)
            bench.check_kept(before, committed(folder), done, trial)
            if done.code not in (0, 75):
                trial.fail(f"{what}: exit code {done.code}: {done.said[-1500:]}")
        if all(done.code == 75 for done in all_done):
            trial.fail(f"{what}: neither did it")
        trial.faults.append(what)
        bench.verify_after_fault(folder, trial, repair=False)
    return trial


def two_hosts(bench: Bench, name: str, seed: int) -> Trial:
    return two_at_once(bench, name, seed, HOSTS)


def one_host_dies(bench: Bench, name: str, seed: int) -> Trial:
    """A machine dies in the middle; another one, which can't ask for its processes, goes on."""
    with disturbed(bench, name, seed, "host") as (reference, trial, rng, folder, before):
        fault = Fault("kill", rng.randrange(reference.points))
        done = bench.workshop.run(reference.stage.arguments, folder, fault, HOSTS[0])
        if "PermissionError" in done.said:
            raise Skip("no new process namespaces are permitted")
        bench.check_end(done, "kill", "a host dies", trial)
        bench.check_kept(before, committed(folder), done, trial)
        other = bench.workshop.run(reference.stage.arguments, folder, Fault(), HOSTS[1])
        bench.check_end(other, "twice", "", trial)
    return trial


def eight_workers(bench: Bench, name: str, seed: int) -> Trial:
    """Eight workers of self-play in one folder, with one seed, of which two are killed and two stopped."""
    trial = Trial(name, seed)
    rng = random.Random(f"workers {seed}")
    arguments = [word for word in STAGES[name].arguments if word != "--top-up"]
    with bench.copy_of(name, f"workers-{seed}") as folder:
        running = [
            bench.workshop.start([*arguments, "--worker", f"w{number:02}", "--games", "6"], folder, Fault())
            for number in range(8)
        ]
        time.sleep(rng.uniform(0, 3 * bench.reference(name).seconds))
        for number, one in zip((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT), running, strict=False):
            one.signal(number)
        all_done = [one.wait() for one in running]
        for number, done in enumerate(all_done):
            action = ("kill", "kill", "term", "int", "none", "none", "none", "none")[number]
            bench.check_end(done, action, f"eight workers, {action}" if number < 4 else "", trial)
            bench.check_kept({}, committed(folder), done, trial)
        bench.verify_whole(folder, trial, after_a_kill=True)
        played = games_of(folder)
        least = 6 * sum(done.code == 0 for done in all_done)
        if not least <= len(played) <= 6 * 8:
            trial.fail(f"{len(played)} games of eight workers; wanted {least} at least")
    return trial


# Clocks


def wrong_clock(bench: Bench, name: str, seed: int) -> Trial:
    """A process whose clock is an hour ahead, or goes back by one, is killed; another, an hour behind, goes on."""
    with disturbed(bench, name, seed, "clock") as (reference, trial, rng, folder, before):
        ahead = Fault("kill", rng.randrange(reference.points), clock=3600.0, back=rng.choice((0, 5, 20)))
        done = bench.workshop.run(reference.stage.arguments, folder, ahead)
        bench.check_end(done, "kill", "clock an hour ahead", trial)
        bench.check_kept(before, committed(folder), done, trial)
        behind = bench.workshop.run(reference.stage.arguments, folder, Fault(clock=-3600.0))
        bench.check_end(behind, "none", "", trial)
        trial.faults.append("clock goes back" if ahead.back else "clock an hour behind")
    return trial


# Damaged files

KINDS = {  # a file of each kind in a run that is complete → the stage that reads it; whether a checksum covers it
    "data/selfplay/*/*/*.gz": ("gather", True),
    "data/selfplay/*/*/*.meta": ("gather", False),
    "data/training_data/*-of-*.h5": ("train", True),
    "data/training_data/*-holdout.h5": ("train", True),
    "data/training_data/*.safetensors": ("train", True),
    "saved_models/*/weights.safetensors": ("evaluate", True),
    "saved_models/*/optimizer.safetensors": ("train", True),
    "saved_models/*/model.json": ("selfplay", False),
    "saved_models/promotions.jsonl": ("evaluate", False),
    "data/evaluate/*/games.jsonl": ("evaluate", False),
    "data/evaluate/*/summary.json": ("evaluate", False),
    "data/pool.json": ("evaluate", False),
}


def damaged_file(bench: Bench, pattern: str, seed: int) -> Trial:
    """A file cut off or with a flipped bit: its stage says so in a line or does without it, and verify finds it."""
    name, has_checksum = KINDS[pattern]
    trial = Trial(name, seed)
    rng = random.Random(f"{pattern} {seed}")
    folder = copy(bench.finished(), bench.folder / f"damaged-{seed}-{pattern.replace('/', '_').replace('*', '')}")
    path = rng.choice(sorted(folder.glob(pattern)))
    data = bytearray(path.read_bytes())
    what = rng.choice(("flipped", "cut"))
    if what == "cut":
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    verified = bench.workshop.run(("verify", "--verbose", "0"), folder)
    bench.check_end(verified, "none", VERIFY, trial)
    if has_checksum and verified.code != 1:
        trial.fail(f"verify finds nothing wrong with {path}, {what}")
    for stage in (name, "selfplay", "gather", "train", "evaluate"):
        done = bench.workshop.run(STAGES[stage].arguments, folder, Fault())
        bench.check_end(done, "none", "", trial)
        if stage == name and seed % 2:
            break  # only the one that reads it, or all
    trial.faults.append(f"a file {what}")
    if not trial.failures:
        shutil.rmtree(folder)
    return trial


# Sizes


def many_shards(bench: Bench, number: int) -> dict[str, tuple[int, float]]:
    """So many shards of a game each: (exit code, seconds) of every command that looks at them."""
    from pipeline.run.shards import newest_shards, read_shard
    from tests.run.random_games import write_shard

    folder = copy(bench.reference("gather").base, bench.folder / "many")
    meta = next(newest_shards(folder / "data/selfplay"))
    shard = read_shard(meta.path, meta)
    record = shard.game(0)
    sync = os.fsync
    os.fsync = lambda descriptor: None
    try:
        for game in range(number):
            new = type(record)(**{**vars(record), "game_id": game})
            write_shard(folder / "data/selfplay", meta.model, "w01", meta.game, [new], shard.header["provenance"], 1)
    finally:
        os.fsync = sync
    took = {}
    commands = {
        "gather": STAGES["gather"].arguments,
        "gather of all": (*STAGES["gather"].arguments, "--max-positions", str(2**30), "--seed", "1"),
        "selfplay --top-up": STAGES["selfplay"].arguments,
        "status": ("status", "--json"),
        "verify": ("verify", "--verbose", "0"),
    }
    for name, arguments in commands.items():
        done = bench.workshop.run(arguments, folder, patience=3600)
        assert "Traceback" not in done.said, done.said
        took[name] = (done.code, round(done.seconds, 1))
    shutil.rmtree(folder)
    return took


ON_STAGES: dict[str, Callable[[Bench, str, int], Trial]] = {
    "full disk": full_disk,
    "read-only disk": read_only_disk,
    "slow disk": slow_disk,
    "two at once": two_at_once,
    "two hosts": two_hosts,
    "a host dies": one_host_dies,
    "wrong clock": wrong_clock,
}
