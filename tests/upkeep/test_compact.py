"""compact changes only the number of files, even if it is killed or other commands read at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pipeline.errors import FileError, NotYet
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.progress import Progress
from pipeline.reports.config import StatusConfig
from pipeline.reports.run_files import scan_run
from pipeline.reports.show import show
from pipeline.reports.status import status
from pipeline.run import layout, packs
from pipeline.run.shards import newest_shards, read_shard
from pipeline.upkeep import compact as module
from pipeline.upkeep.compact import compact
from pipeline.upkeep.config import CompactConfig
from pipeline.upkeep.verify.check_games import check_games
from pipeline.upkeep.verify.problems import GAMES, Findings
from tests.helpers import Heard
from tests.run.random_games import random_games, write_shard
from tests.upkeep.killing import killed

GAME = parse_game("tictactoe")
WORKERS = ("w00", "w01")


def play(run: Path, generation: int, shards: int, games: int = 2, workers: tuple[str, ...] = WORKERS) -> None:
    """Shards of a generation, those of the workers taking turns."""
    for number in range(shards):
        write_shard(
            run / layout.GAMES,
            f"{generation:06d}-a",
            workers[number % len(workers)],
            GAME.spec,
            random_games(GAME, games, seed=1000 * generation + number),
            {"generation": generation},
            evaluations=number,
        )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for generation in (1, 2, 3):
        play(tmp_path, generation, 10)
    return tmp_path


def content(run: Path) -> list[tuple[object, ...]]:
    """The content of all shards as readers see it, in order."""
    found: list[tuple[object, ...]] = []
    for meta in newest_shards(run / layout.GAMES, pytest.fail):
        shard = read_shard(meta.path, meta)
        arrays = [getattr(shard, name).tobytes() for name in ("game_ids", "moves", "visit_counts", "results")]
        found.append((meta.id, meta.sha256, meta.evaluations, str(shard.header), *arrays))
    return found


def files(run: Path, generation: int) -> list[str]:
    return sorted(path.name for path in (run / layout.GAMES).glob(f"{generation:06d}-a/*/*"))


def test_old_generations_become_few_files_and_nothing_changes(run):
    before, listed = content(run), scan_run(run)
    newest = files(run, 3)
    summary = compact(CompactConfig(directory=run))
    assert (summary.generations, summary.packs, summary.shards, summary.games) == (2, 4, 20, 40)
    assert (summary.files_before, summary.files_after, summary.skipped) == (40, 8, 0)
    assert summary.positions == sum(m.positions for m in newest_shards(run / layout.GAMES) if m.generation != 3)
    assert content(run) == before
    after = scan_run(run)
    assert after.shards == listed.shards and not after.uncommitted and not after.unreadable
    assert files(run, 3) == newest and len(files(run, 1)) == len(files(run, 2)) == 4
    assert all(path.name.endswith(("x00005.gz", "x00005.meta")) for path in (run / layout.GAMES).glob("000001-a/*/*"))
    again = compact(CompactConfig(directory=run))
    assert (again.packs, again.shards, again.files_before, again.files_after) == (0, 0, 8, 8)
    assert again.lines() == ["nothing to pack: all shards before the newest generation are packed"]


def test_generations_of_one_shard_hide_none_that_were_never_packed(run):
    for generation in range(4, 6 + 2 * module.SETTLED):
        play(run, generation, 1)
    assert compact(CompactConfig(directory=run)).packs == 6


def test_the_same_gather_gives_the_same_chunks(run, tmp_path_factory):
    """Also by surprise, with random eviction, and with a window that cuts a shard; and it finds existing sets."""

    def gathered(output: Path, **changes) -> tuple[dict[str, object], dict[str, bytes]]:
        config = GatherConfig(
            directory=run / layout.GAMES, output_directory=output, positions_per_chunk=16, chunks_to_make=4,
            as_many_as_possible=True, holdout_fraction=0.2, seed=7, **changes,
        )  # fmt: skip
        summary = gather(config)
        facts = {name: value for name, value in vars(summary).items() if "second" not in name}
        return facts, {path.name: path.read_bytes() for path in output.iterdir() if not path.name.startswith(".")}

    settings = [{}, {"max_positions": 201}, {"replacement": "random", "max_positions": 100}, {"surprise_weight": 0.5}]
    outputs = [(tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")) for _ in settings]
    before = [gathered(output, **changes) for (output, _), changes in zip(outputs, settings, strict=True)]
    compact(CompactConfig(directory=run))
    for (first, second), changes, expected in zip(outputs, settings, before, strict=True):
        assert gathered(second, **changes) == expected
        assert gathered(first, **changes)[0]["chunks_made"] == 0  # the set is found to be made already


def test_new_games_are_counted_behind_packs(run):
    def total() -> tuple[int, int]:
        summary = gather(
            GatherConfig(
                directory=run / layout.GAMES, output_directory=run / "chunks", positions_per_chunk=8, chunks_to_make=2
            )
        )
        return summary.total_positions, summary.new_positions

    first, new = total()
    assert first == new
    compact(CompactConfig(directory=run))
    play(run, 2, 1, workers=("w01",))  # a game that was begun long ago
    play(run, 4, 2)
    late = sum(m.positions for m in newest_shards(run / layout.GAMES)) - first
    assert total() == (first + late, late)
    summary = compact(CompactConfig(directory=run))
    assert summary.packs == 2  # of generation 3; a single shard gains nothing
    play(run, 2, 1, workers=("w01",))
    assert compact(CompactConfig(directory=run)).packs == 1
    names = sorted(packs.shards_in(run / layout.GAMES / "000002-a" / "w01"))
    assert [name.number for name in names] == list(range(1, 8))


def test_packs_have_a_largest_size(run, monkeypatch):
    before = content(run)
    monkeypatch.setattr(module, "PACK_SHARDS", 2)
    assert compact(CompactConfig(directory=run)).packs == 8  # and four single shards that stay
    assert content(run) == before
    play(run, 4, 6)
    monkeypatch.setattr(module, "PACK_SHARDS", 100)
    sizes = [m.num_bytes for m in newest_shards(run / layout.GAMES) if m.generation == 3 and m.worker == "w00"]
    monkeypatch.setattr(module, "PACK_BYTES", sum(sizes[-3:]))
    before = content(run)
    compact(CompactConfig(directory=run))
    assert content(run) == before
    names = map(layout.parse_pack_name, os.listdir(run / layout.GAMES / "000003-a" / "w00"))
    assert sorted(pack.count for pack in names if pack and pack.last.number) == [2, 2, 3, 3]


def test_what_is_damaged_stays_and_is_named(run):
    place = run / layout.GAMES / "000001-a" / "w00"
    names = sorted(packs.shards_in(place))
    (place / names[1].shard).write_bytes(b"x" * (place / names[1].shard).stat().st_size)
    (place / names[2].meta).write_text("{}\n")
    (place / names[3].shard).unlink()
    (place / names[4].meta).unlink()  # not committed
    heard = Heard()
    summary = compact(CompactConfig(directory=run), heard)
    assert summary.skipped == 3 and len(heard.warned) == 3
    for name, text in zip((names[1].shard, names[2].meta, names[3].shard), sorted(heard.warned), strict=True):
        assert name in text
    assert not any(layout.parse_pack_name(name) for name in os.listdir(place))  # one good shard is left
    assert len(summary.lines()) == 3


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "unlink"])
def test_a_kill_anywhere_loses_nothing_and_the_next_run_goes_on(tmp_path, call):
    """Before and after every write, sync, rename and removal: readers then see every shard once."""
    for moment in range(1000):  # before the first call, after it, before the second …
        run = tmp_path / f"{moment}"
        for generation in (1, 2):
            play(run, generation, 4)
        before = content(run)
        calls = killed(call, moment, partial(compact, CompactConfig(directory=run)))
        assert content(run) == before
        compact(CompactConfig(directory=run))
        assert content(run) == before
        assert len(files(run, 1)) == 4 and not scan_run(run).uncommitted and not scan_run(run).temporaries
        if moment >= 2 * calls:
            break
    assert moment >= 8


def test_what_differs_from_its_pack_stays(run):
    """One of the two is damaged, and nothing tells which."""
    place = run / layout.GAMES / "000001-a" / "w00"
    names = sorted(packs.shards_in(place))
    kept = {path.name: path.read_bytes() for path in place.iterdir()}
    compact(CompactConfig(directory=run))
    for name in names[:2]:
        for path in (name.meta, name.shard):
            (place / path).write_bytes(kept[path])
    (place / names[1].shard).write_bytes(b"other")
    heard = Heard()
    compact(CompactConfig(directory=run), heard)
    assert len(heard.warned) == 1 and names[1].shard in heard.warned[0]
    assert (place / names[1].shard).exists() and not (place / names[0].shard).exists()


def test_one_process_at_a_time(run):
    with packs.packing(run / layout.GAMES), pytest.raises(NotYet, match="another process packs or prunes"):
        compact(CompactConfig(directory=run))
    assert compact(CompactConfig(directory=run)).packs == 4


def test_no_run_and_no_games(tmp_path):
    with pytest.raises(FileError, match="no run in this folder"):
        compact(CompactConfig(directory=tmp_path))
    (tmp_path / layout.SAVED_MODELS).mkdir()
    assert compact(CompactConfig(directory=tmp_path)).lines() == [
        "nothing to pack: only generations before the newest are packed"
    ]
    play(tmp_path, 1, 4)
    assert compact(CompactConfig(directory=tmp_path)).packs == 0


def test_a_full_disk_leaves_everything_as_it_was(run, monkeypatch):
    before = content(run)
    fsync = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="the disk is full"):
        compact(CompactConfig(directory=run))
    monkeypatch.setattr(os, "fsync", fsync)
    assert content(run) == before
    assert not scan_run(run).temporaries


def test_other_commands_see_no_difference(run):
    def said() -> tuple[object, ...]:
        found = status(StatusConfig(directory=run))
        shown = [text for text in show(run) if "selfplay" not in text]
        findings = Findings(run)
        known = check_games(run / layout.GAMES, 30, findings, Progress())
        return found.play, found.warnings, shown, findings.counts[GAMES], findings.problems, sorted(known.shards)

    (run / layout.SAVED_MODELS).mkdir()
    before = said()
    compact(CompactConfig(directory=run))
    assert said() == before


def test_shards_are_shown_by_name_wherever_they_lie(run):
    place = run / layout.GAMES / "000001-a" / "w01"
    shard = place / sorted(packs.shards_in(place))[1].shard
    alone = "\n".join(show(shard)), "\n".join(show(shard, game=1, moves=True))
    sidecar = "\n".join(show(layout.meta_path(shard)))
    compact(CompactConfig(directory=run))
    assert not shard.exists()
    assert ("\n".join(show(shard)), "\n".join(show(shard, game=1, moves=True))) == alone
    assert "\n".join(show(layout.meta_path(shard))) == sidecar
    pack = next(place.glob("*x00005.gz"))
    whole = "\n".join(show(pack))
    assert "5, " in whole and "games      10" in whole and "\n".join(show(layout.meta_path(pack))) == whole
    assert "\n".join(show(pack, game=3, moves=True)).splitlines()[1:] == alone[1].splitlines()[1:]
    assert "the newest in" in next(iter(show(place)))


def test_damage_in_a_pack_is_found_by_verify(run):
    compact(CompactConfig(directory=run))
    pack = next((run / layout.GAMES).glob("000001-a/w00/*.gz"))
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    findings = Findings(run)
    check_games(run / layout.GAMES, 30, findings, Progress())
    assert len(findings.problems) == 1 and "checksum" in findings.problems[0].text


# Beside others

READER = """
import sys, time
from collections import Counter
from pathlib import Path
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import scan_window
from pipeline.reports.run_files import scan_run
from pipeline.run.order import Counted, newest_files
from pipeline.run.shards import meta_of, newest_shards, read_shard

run = Path(sys.argv[1])
games = run / "data" / "selfplay"

def fail(error):
    raise SystemExit(f"damaged: {error}")

def whole(files):
    # In each folder, numbers are 1, 2, … without a gap and without a double: nothing is lost, nothing twice.
    found = {}
    for file in files:
        found.setdefault(file.place, []).append(file.number)
    for place, numbers in found.items():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), (place, sorted(numbers))
    return Counter({place: len(numbers) for place, numbers in found.items()})

loops = shards = 0
last = Counter()
while not loops or not (run / "stop").exists():
    files = list(newest_files(games))
    now = whole(files)
    assert not last - now, last - now
    assert not now - whole(scan_run(run).shards)
    last = now
    for file in files:
        meta = meta_of(file, games, fail)
        assert meta is not None, file
        assert read_shard(meta.path, meta).num_games == 1
        shards += 1
    window = scan_window(GatherConfig(directory=games, max_positions=10**9, holdout_fraction=0), Counted(), fail)
    assert window.num_positions >= len(files)
    loops += 1
print(loops, shards)
"""


SECONDS = 6  # at most, but for the first steps; fewer where so many steps are enough
STEPS = 140


def read_beside(run: Path, reader: str, step: Callable[[int], None]) -> int:
    """Take steps 2, 3, … while two processes run this program; neither may fail. Returns the number of steps."""
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", reader, str(run)], env=path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(2)
    ]
    steps = 0
    try:
        end = time.monotonic() + SECONDS
        for generation in range(2, STEPS):
            step(generation)
            steps += 1
            if (steps > 8 and time.monotonic() > end) or any(one.poll() is not None for one in readers):
                break
    finally:
        (run / "stop").touch()
    for one in readers:
        output = one.communicate(timeout=300)[0].decode()
        assert one.returncode == 0, output
        loops, shards = map(int, output.split())
        assert loops > 0 and shards > 0
    return steps


def test_readers_beside_it_see_every_shard_once(tmp_path):
    """Real processes list and read everything in a loop, while games come in and are packed again and again."""
    play(tmp_path, 1, 4, games=1)
    packed = 0

    def step(generation: int) -> None:
        nonlocal packed
        play(tmp_path, generation, 4, games=1)
        packed += compact(CompactConfig(directory=tmp_path)).packs

    steps = read_beside(tmp_path, READER, step)
    assert packed == 2 * steps > 10
