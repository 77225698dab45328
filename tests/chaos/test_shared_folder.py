"""One folder, many machines: whatever several processes write at once is neither lost nor made twice.

Machines are spaces of processes of their own (``server.py``), on one disk: what a disk of a network adds to that is in
docs/machines.md. Eight workers of whom half are stopped: ``test_chaos.py``.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.run import layout
from pipeline.run.models import read_journal
from pipeline.run.shards import newest_shards
from tests.chaos.faults import Fault
from tests.chaos.stages import GATHER, INIT, PLAY, games_of
from tests.chaos.workshop import ROOT, Done, Running, Workshop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for processes as Linux has them")
WORKERS = 8
GAMES = 6  # of each


@pytest.fixture(scope="module")
def workshop(workshop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    done = workshop.run(INIT, tmp_path_factory.mktemp("shared"), host="alpha")
    if "PermissionError" in done.said:
        pytest.skip("no new process namespaces are permitted")
    assert done.code == 0, done.said
    return workshop


@pytest.fixture
def folder(workshop: Workshop, tmp_path: Path) -> Path:
    done = workshop.run(INIT, tmp_path)
    assert done.code == 0, done.said
    return tmp_path


def wait(running: list[Running]) -> list[Done]:
    done = [one.wait() for one in running]
    assert [one.said for one in done if "Traceback" in one.said] == []
    return done


def selfplay(number: int, *more: str) -> list[str]:
    worker = ("--worker", f"w{number}", "--games", str(GAMES), "--seed", "7", "--commit-seconds", "0")
    return ["selfplay", "--readouts", "2", "--parallel-games", "3", *worker, *PLAY, *more]


def numbers_of(folder: Path) -> dict[str, Counter[int]]:
    """How often each worker's game numbers stand in the folder."""
    found: dict[str, Counter[int]] = {}
    for meta in newest_shards(folder / "data/selfplay"):
        assert meta.numbers is not None
        found.setdefault(meta.worker, Counter()).update(meta.numbers.tolist())
    return found


def test_eight_workers_lose_no_game_and_play_none_twice(workshop: Workshop, folder: Path) -> None:
    """While two of the same name are refused, and somebody gathers."""
    names = [f"host{number}" for number in range(WORKERS)]
    slow = Fault("slow", seconds=0.05)  # so that the first still plays when another of its name comes
    running = [workshop.start(selfplay(number), folder, slow, name) for number, name in enumerate(names)]
    until = time.monotonic() + 60
    while not layout.lock_path(folder / "data/selfplay/w0").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    double = workshop.start(selfplay(0), folder, host="another")
    gathering = [workshop.start(GATHER, folder, host=name) for name in ("gather1", "gather2")]
    done = wait(running)
    assert [one.code for one in done] == [0] * WORKERS
    assert double.wait().code == 75
    wait(gathering)
    found = numbers_of(folder)
    assert set(found) == {f"w{number}" for number in range(WORKERS)}
    for worker, numbers in found.items():
        assert numbers == Counter(range(GAMES)), worker  # each once, none missing
    assert len(games_of(folder)) == GAMES * WORKERS  # as many games as ids
    verified = workshop.run(("verify",), folder)
    assert verified.code == 0, verified.said


def test_workers_that_are_killed_leave_no_gap(workshop: Workshop, folder: Path) -> None:
    """All eight machines die at some moment; others go on under the same names."""
    for seconds in (0.0, 0.3):
        running = [workshop.start(selfplay(number), folder, host=f"a{number}") for number in range(WORKERS)]
        for one in running:
            time.sleep(seconds / WORKERS)
            one.signal(signal.SIGKILL)
        for one in running:
            one.wait()
    before = numbers_of(folder)
    wait([workshop.start(selfplay(number), folder, host=f"b{number}") for number in range(WORKERS)])
    after = numbers_of(folder)
    for worker, numbers in after.items():
        assert numbers == Counter(range(len(numbers))), worker
        assert before.get(worker, Counter()) <= numbers
        assert len(numbers) >= GAMES
    games_of(folder)


def test_what_another_container_of_the_same_name_writes_is_not_swept_away(workshop: Workshop, folder: Path) -> None:
    """Containers may share the name of their machine; each counts its processes from 1, so numbers say nothing."""
    script = (
        "import os, pathlib, sys; sys.path.insert(0, sys.argv[1]); from pipeline.run import atomic, layout\n"
        "if sys.argv[2] == 'write': layout.temporary_path(pathlib.Path('saved_models/x')).write_text('mine')\n"
        "else: print(len(atomic.sweep(pathlib.Path('saved_models'))))"
    )
    python = [sys.executable, "-c", script, str(ROOT)]
    contained = ["unshare", "--pid", "--fork", "--mount-proc"]
    for command in ([*contained, *python, "write"], [*python, "write"]):
        subprocess.run(command, cwd=folder, check=True)
    # The second writer is dead, and so is its machine's process of that number; of the first nobody else can know.
    swept = subprocess.run([*python, "sweep"], cwd=folder, check=True, capture_output=True, text=True)
    assert swept.stdout == "1\n"
    (left,) = (folder / "saved_models").glob(".x~*.tmp")
    parsed = layout.parse_temporary_name(left.name)
    assert parsed is not None and parsed.host.startswith(f"{layout.this_host()}-")
    swept = subprocess.run([*contained, *python, "sweep"], cwd=folder, check=True, capture_output=True, text=True)
    assert swept.stdout == "0\n"


PROMOTE = """
import os, sys
from pathlib import Path
from pipeline.run.models import set_champion
models = [Path("saved_models/000000-init"), Path("saved_models/000001-other")]
children = []
for writer in range(8):
    if (pid := os.fork()) == 0:
        for number in range(12):
            set_champion(Path("saved_models"), models[(writer + number) % 2], {"reason": f"{writer} {number}"})
        os._exit(0)
    children.append(pid)
    if len(children) == 3:
        os.kill(children[0], 9)  # in the middle
sys.exit(sum(os.waitpid(pid, 0)[1] != 0 for pid in children[1:]))
"""


def test_no_promotion_is_lost(workshop: Workshop, folder: Path) -> None:
    """Eight processes re-point best_model and write its journal; one of them is killed."""
    made = workshop.run([*INIT, "--new-model", "saved_models/000001-other"], folder)
    assert made.code == 0, made.said
    done = subprocess.run(
        [sys.executable, "-c", PROMOTE], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=100
    )
    assert done.returncode == 0
    # A call that finds its promotion done by a killed one's intent completes that first: read after one more call.
    assert workshop.run(("show",), folder).code == 0
    journal = [line for line in read_journal(folder / "saved_models") if line.get("reason", "").count(" ") == 1]
    reasons = Counter(line["reason"] for line in journal)
    wanted = {f"{writer} {number}" for writer in range(1, 8) for number in range(12)}
    assert wanted <= set(reasons) and set(reasons.values()) == {1}
    for one, later in itertools.pairwise(journal):
        assert later["previous"] == one["champion"]  # a chain: nobody overlooked the one before
    assert os.readlink(folder / "saved_models/best_model") == journal[-1]["champion"]


def test_no_member_of_the_pool_is_lost(workshop: Workshop, folder: Path) -> None:
    players = [f"saved_models/000000-init@{readouts}" for readouts in range(1, WORKERS + 1)]
    slow = Fault("slow", seconds=0.05)  # so that all of them want to write at once
    arguments = [("pool", "add", player, "--capacity", "20") for player in players]
    done = wait([workshop.start(one, folder, slow, f"host{number}") for number, one in enumerate(arguments)])
    assert [one.code for one in done] == [0] * WORKERS, done[0].said
    members = json.loads((folder / "data/pool.json").read_text())["members"]
    assert len(members) == WORKERS


def test_no_match_is_played_twice_and_none_is_missing_from_the_ratings(workshop: Workshop, folder: Path) -> None:
    """Four matches on four machines, one of them asked for twice, while others write the ratings."""
    pairs = [
        ("random", "heuristic"),
        ("saved_models/000000-init@1", "random"),
        ("heuristic", "saved_models/000000-init@2"),
    ]
    arguments = ("--game", "tictactoe", "--games", "4", "--opening-plies", "2", "--no-promote", *PLAY)
    matches = [
        ("evaluate", "--black-model", one, "--white-model", other, *arguments) for one, other in [*pairs, pairs[0]]
    ]
    running = [workshop.start(match, folder, host=f"host{number}") for number, match in enumerate(matches)]
    rating = [workshop.start(("ratings",), folder, host=f"rating{number}") for number in range(3)]
    done = wait(running)
    assert [one.code for one in done[1:3]] == [0, 0], [one.said for one in done]
    assert {done[0].code, done[3].code} <= {0, 75} and 0 in (done[0].code, done[3].code), [one.said for one in done]
    wait(rating)
    assert workshop.run(("ratings",), folder).code == 0
    games = [path.read_text().splitlines() for path in (folder / "data/evaluate").glob("*/games.jsonl")]
    assert [len(lines) for lines in games] == [1 + 4] * len(pairs)  # a header each
    rated = json.loads((folder / "data/ratings.json").read_text())
    assert len(rated["players"]) == 4
    verified = workshop.run(("verify",), folder)
    assert verified.code == 0, verified.said
