"""Plants each fault of ``table.py`` in a copy of the program, and runs the tests that should catch it.

    python -m tests.mutants                        # all faults, one after another
    python -m tests.mutants kept-duplicates        # these alone
    python -m tests.mutants --list                 # what each would do to a run, and the tests that should catch it

A fault is caught if one of its tests fails; its line names that test. Works on copies of the tracked files as they are
now, so the checkout never changes. Exit code 1 if fewer than 95 % are caught.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent.parent
CAUGHT, SURVIVED, DOES_NOT_APPLY, NO_ANSWER = "caught", "survived", "doesn't apply", "no answer"
WANTED = 0.95  # the share that must be caught
MOST_SECONDS = 900  # of a fault's tests; a fault that makes them hang is caught
TESTS_FAILED = 1  # pytest's exit code


@dataclass(frozen=True)
class Outcome:
    """verdict: one of the above; why: the test that failed, or what pytest said."""

    verdict: str
    why: str
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="Faults; all without it.")
    parser.add_argument("--list", action="store_true", help="Only say what there is.")
    parser.add_argument("--jobs", type=int, default=1, help="How many at a time [default: 1].")
    asked = parser.parse_args()
    if asked.jobs < 1:
        parser.error(f"--jobs {asked.jobs}: wanted 1 or more")
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; --list names all")
    chosen = [known[name] for name in dict.fromkeys(asked.names)] or list(MUTANTS)
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.name}  ({mutant.file})\n  {mutant.effect}\n  {' '.join(mutant.tests)}")
        return 0
    files = tracked_files()
    width = max(len(mutant.name) for mutant in chosen)
    verdicts: list[str] = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        try:
            for mutant, found in zip(chosen, pool.map(lambda one: tried(one, files), chosen), strict=True):
                verdicts.append(found.verdict)
                print(f"{mutant.name:{width}}  {found.verdict:13}  {found.seconds:4.0f} s  {found.why}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            print(f"interrupted after {len(verdicts)} of {len(chosen)}")
            return 130
    share = verdicts.count(CAUGHT) / len(verdicts)
    print(f"{verdicts.count(CAUGHT)} of {len(verdicts)} caught: {100 * share:.0f} %; wanted {100 * WANTED:.0f} %")
    return int(share < WANTED)


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise SystemExit(f"python -m tests.mutants: {ROOT} is no git checkout; wanted one, to know what to copy")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def tried(mutant: Mutant, files: list[str]) -> Outcome:
    """Run the mutant's tests in a copy of these files that has its fault."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if (times := text.count(mutant.old)) != 1:
        return Outcome(DOES_NOT_APPLY, f"its old text is there {times} times", 0.0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as made:
        copy = Path(made) / "copy"
        for name in files:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        (copy / mutant.file).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        environment = dict(os.environ)
        if "@kernel" in text:
            environment["NUMBA_CACHE_DIR"] = str(own_kernels(Path(made) / "kernels"))
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *mutant.tests]
        try:
            ran = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, errors="replace", check=False,
                timeout=MOST_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(CAUGHT, f"its tests hang for {MOST_SECONDS} seconds", time.monotonic() - began)
    seconds = time.monotonic() - began
    last = (ran.stdout.strip() or ran.stderr.strip() or "nothing").splitlines()[-1]
    if ran.returncode == 0:
        return Outcome(SURVIVED, last, seconds)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    if ran.returncode == TESTS_FAILED and failed:
        return Outcome(CAUGHT, failed[1], seconds)
    return Outcome(NO_ANSWER, f"pytest ended with {ran.returncode}: {last}", seconds)


def own_kernels(folder: Path) -> Path:
    """A cache of kernels that begins with links to those compiled already, and keeps the mutant's to itself."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    shared = Path(os.environ.get("NUMBA_CACHE_DIR") or caches / "mugo" / "kernels")
    folder.mkdir()
    for one in shared.iterdir() if shared.is_dir() else ():
        (folder / one.name).symlink_to(one, target_is_directory=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
