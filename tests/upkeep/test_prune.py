"""prune lists what goes and why, removes only that, and keeps all totals."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.errors import FileError, NotYet
from pipeline.gather.command import GatherSummary, gather
from pipeline.gather.config import GatherConfig
from pipeline.phrases import size
from pipeline.progress import SILENT
from pipeline.reports.config import StatusConfig
from pipeline.reports.report.facts import collect
from pipeline.reports.run_files import scan_run
from pipeline.reports.show_models import show_run
from pipeline.reports.status import status
from pipeline.run import atomic, layout, packs
from pipeline.run.chunks import list_sets
from pipeline.run.layout import CHUNKS, GAMES, PRUNED, Run
from pipeline.run.order import newest_files
from pipeline.run.pruned import read_pruned
from pipeline.run.shards import newest_shards, read_shard
from pipeline.upkeep import prune as module
from pipeline.upkeep.compact import compact
from pipeline.upkeep.config import CompactConfig, PruneConfig
from pipeline.upkeep.prune import prune, sample
from tests.helpers import Heard
from tests.runs import make_run
from tests.upkeep.killing import killed
from tests.upkeep.test_compact import READER, files, play, read_beside

WINDOW = 250


def gathered(run: Path, output: str = "training_data", **changes) -> GatherSummary:
    config = GatherConfig(
        directory=run / GAMES, output_directory=run / "data" / output, positions_per_chunk=16, chunks_to_make=3,
        max_positions=WINDOW, **changes,
    )  # fmt: skip
    return gather(config)


def pruned(run: Path, apply: bool = True, keep: int | None = WINDOW):
    return prune(PruneConfig(directory=run, apply=apply, keep_positions=keep))


def everything(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def shown_counts(run: Path) -> list[str]:
    return [line for line in "\n".join(show_run(run)).splitlines() if line.startswith(("games", "positions"))]


def ids(run: Path, generation: int) -> list[str]:
    return [meta.id for meta in newest_shards(run / GAMES, pytest.fail) if meta.generation == generation]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Five generations of two workers, 60 shards each; a window that ends in the fourth; gathered once."""
    for generation in range(1, 6):
        play(tmp_path, generation, 60 if generation < 4 else 12)
    gathered(tmp_path)
    (tmp_path / layout.SAVED_MODELS).mkdir()
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_of_old_generations_a_sample_stays_and_totals_are_what_they_were(run, packed):
    if packed:
        compact(CompactConfig(directory=run))
    counts, last = shown_counts(run), ids(run, 2)[0]
    total = gathered(run, "again").total_positions
    listed = pruned(run, apply=False)
    assert [removal.what.split(" of generation ") for removal in listed.removals] == [
        ["44 of 60 shards", "3"], ["44 of 60 shards", "2"], ["44 of 60 shards", "1"]
    ]  # fmt: skip
    assert "behind the newest" in listed.removals[0].why and "16 shards stay" in listed.removals[0].why
    assert "files, or parts of packs" in listed.lines()[0]
    assert "264 files or parts of packs, " in listed.lines()[-1]
    assert "nothing was removed: --apply" in listed.lines()[-1] and not (run / GAMES / PRUNED).exists()
    size = scan_run(run).num_bytes["selfplay"]
    kept = {generation: ids(run, generation) for generation in (4, 5)}
    done = pruned(run)
    assert done.removals == listed.removals and done.lines()[-1].startswith("removed: ")
    assert {generation: ids(run, generation) for generation in (4, 5)} == kept
    assert [len(ids(run, generation)) for generation in (1, 2, 3)] == [16, 16, 16]
    assert ids(run, 2)[0] == last  # numbers go on behind it
    assert size - scan_run(run).num_bytes["selfplay"] > done.num_bytes * 0.8
    for meta in newest_shards(run / GAMES, pytest.fail):
        read_shard(meta.path, meta)
    assert shown_counts(run) == counts
    assert gathered(run, "afresh").total_positions == total
    assert pruned(run).removals == []


def test_sizes_have_no_exponents():
    sizes = [999, 12_340, 999_600_000, 1_234_000_000_000, 2_000_000_000_000_000]
    assert [size(one) for one in sizes] == ["999 B", "12.3 kB", "1,000 MB", "1.2 TB", "2,000 TB"]


def test_a_dry_run_changes_nothing(run):
    before = everything(run)
    assert pruned(run, apply=False).removals
    assert everything(run) == before


def test_gather_goes_on_as_if_nothing_had_happened(run):
    """The same chunks, the same counts, with sets that were made before and without."""
    before, first = gathered(run, "one", seed=5), everything(run / "data" / "one")
    pruned(run)
    after = gathered(run, "two", seed=5)
    second = everything(run / "data" / "two")
    assert after.total_positions == before.total_positions and after.window_positions == before.window_positions
    assert after.newest_shard == before.newest_shard and after.oldest_shard == before.oldest_shard
    assert len(first) == len(second) and after.set_id == before.set_id
    play(run, 5, 3)
    new = sum(meta.positions for meta in list(newest_shards(run / GAMES))[:3])
    grown = gathered(run)
    assert (grown.total_positions, grown.new_positions) == (before.total_positions + new, new)


def test_late_games_in_a_pruned_generation(run):
    pruned(run)
    counts = shown_counts(run)
    play(run, 1, 2)
    numbers = [file.number for file in newest_files(run / GAMES) if file.generation == 1]
    assert max(numbers) == 31  # each worker's next
    assert shown_counts(run) != counts
    counts = shown_counts(run)
    assert not pruned(run).removals  # no gather has counted them, and none will
    assert shown_counts(run) == counts
    gathered(run, seed=3)
    pruned(run)
    assert shown_counts(run) == counts


def test_old_games_that_were_too_few_to_prune_are_counted(tmp_path):
    for generation in range(1, 6):
        play(tmp_path, generation, 10 if generation == 1 else 60)
    gathered(tmp_path)
    (tmp_path / layout.SAVED_MODELS).mkdir()
    positions = sum(meta.positions for meta in newest_shards(tmp_path / GAMES))
    assert [removal.what[-1] for removal in pruned(tmp_path).removals] == ["3", "2"]
    assert status(StatusConfig(directory=tmp_path)).play.positions == positions
    assert gathered(tmp_path, "afresh").total_positions == gathered(tmp_path).total_positions == positions


def test_a_report_counts_what_was_played(run):
    def games() -> list[tuple[int, int, int]]:
        facts = collect(Run(run), SILENT, datetime.now(UTC))
        assert not facts.reading.warnings
        return [(one.generation, one.games, one.positions) for one in facts.games]

    before = games()
    assert [one[1] for one in before] == [120, 120, 120, 24, 24]
    pruned(run)
    assert games() == before


def test_what_nobody_has_counted_stays(tmp_path):
    for generation in range(1, 5):
        play(tmp_path, generation, 40)
    (tmp_path / layout.SAVED_MODELS).mkdir()
    summary = pruned(tmp_path, keep=0)
    assert not summary.removals and "nothing was gathered yet" in summary.lines()[0]


def test_the_newest_positions_and_generations_stay(run):
    assert not pruned(run, keep=None).removals  # fewer than the default
    assert not pruned(run, keep=10**9).removals
    assert [removal.what[-1] for removal in pruned(run, keep=0).removals] == ["3", "2", "1"]


def test_what_a_window_names_stays(run):
    def of_games() -> list[str]:
        return [removal.what for removal in pruned(run, apply=False, keep=0).removals if "generation" in removal.what]

    def gather_with(window: int, seed: int) -> None:
        gather(
            GatherConfig(
                directory=run / GAMES, output_directory=run / CHUNKS, positions_per_chunk=16, chunks_to_make=3,
                max_positions=window, seed=seed,
            )
        )  # fmt: skip

    gather_with(10**6, 1)
    assert not of_games()  # this set's window reaches back to the first game
    gather_with(WINDOW, 2)
    assert not of_games()
    gather_with(WINDOW, 3)  # now it is gone
    assert len(of_games()) == 3


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "unlink"])
def test_a_kill_anywhere_and_the_next_run_goes_on(tmp_path, monkeypatch, call):
    monkeypatch.setattr(module, "SAMPLE", 2)
    for moment in range(1000):  # before the first call, after it, before the second …
        if moment % 5 in (2, 3):  # there are many removals alike
            continue
        run = tmp_path / f"{moment}"
        for generation in (1, 2, 3):
            play(run, generation, 8 if generation == 1 else 2)
        if moment % 4 < 2:
            compact(CompactConfig(directory=run))
        (run / layout.SAVED_MODELS).mkdir()
        gather(
            GatherConfig(
                directory=run / GAMES, output_directory=run / CHUNKS, positions_per_chunk=4, chunks_to_make=1,
                max_positions=8,
            )
        )  # fmt: skip
        counts = shown_counts(run)
        calls = killed(call, moment, partial(pruned, run, keep=0))
        assert shown_counts(run) == counts
        for meta in newest_shards(run / GAMES, pytest.fail):
            read_shard(meta.path, meta)
        pruned(run, keep=0)
        assert shown_counts(run) == counts
        assert len(ids(run, 1)) == 4 and len(ids(run, 2)) == len(ids(run, 3)) == 2
        assert len(files(run, 1)) == 4 and not scan_run(run).uncommitted and not scan_run(run).temporaries
        if moment >= 2 * calls:
            break
    assert moment >= 8


def test_after_a_compact_that_was_killed_before_it_removed_what_it_had_packed(run):
    counts = shown_counts(run)
    assert killed("unlink", 0, partial(compact, CompactConfig(directory=run))) == 1
    place = run / GAMES / "000001-a" / "w00"
    assert len(files(run, 1)) == 122 and len(packs.list_packs(place)) == 1
    pruned(run)
    assert [len(ids(run, generation)) for generation in (1, 2, 3)] == [16, 16, 16] and shown_counts(run) == counts
    for meta in newest_shards(run / GAMES, pytest.fail):
        read_shard(meta.path, meta)


@pytest.mark.parametrize("which", [-1, -2], ids=["in the sample", "among those that go"])
def test_a_damaged_shard_keeps_its_place_as_it_is(run, which):
    place = run / GAMES / "000002-a" / "w01"
    (place / sorted(packs.shards_in(place))[which].shard).write_bytes(b"x")
    heard = Heard()
    done = prune(PruneConfig(directory=run, apply=True, keep_positions=WINDOW), heard)
    assert len(heard.warned) == 1 and "stays as it is" in heard.warned[0]
    assert len(list(place.iterdir())) == 60
    assert [removal.what.split(" of generation ") for removal in done.removals] == [
        ["44 of 60 shards", "3"], ["22 of 60 shards", "2"], ["44 of 60 shards", "1"]
    ]  # fmt: skip
    assert "38 shards stay" in done.removals[1].why and done.files == 2 * (44 + 22 + 44)
    assert pruned(run).removals == []  # however often
    assert "000002-a/w00" in read_pruned(run / GAMES).places
    assert "000002-a/w01" not in read_pruned(run / GAMES).places


def test_what_was_damaged_goes_once_it_is_mended(run):
    path = sorted((run / GAMES / "000002-a" / "w01").glob("*.gz"))[-1]
    whole = path.read_bytes()
    path.write_bytes(b"x")
    pruned(run)
    for generation in range(6, 6 + 2 * module.SETTLED):
        play(run, generation, 40)
    gathered(run)
    pruned(run)
    pruned(run)  # the set that there was has gone with what only it needed
    path.write_bytes(whole)
    assert [removal.what for removal in pruned(run).removals] == ["22 of 38 shards of generation 2"]
    assert read_pruned(run / GAMES).settled > 2


def test_small_generations_hide_no_large_ones(tmp_path):
    """If a generation has few shards, all stay. So it doesn't show that older ones have nothing to remove."""
    play(tmp_path, 1, 60)
    for generation in range(2, 4 + 2 * module.SETTLED):
        play(tmp_path, generation, 2)
    (tmp_path / layout.SAVED_MODELS).mkdir()
    gather(
        GatherConfig(
            directory=tmp_path / GAMES, output_directory=tmp_path / CHUNKS, positions_per_chunk=4,
            chunks_to_make=1, max_positions=8,
        )
    )  # fmt: skip
    assert [removal.what for removal in pruned(tmp_path, keep=0).removals] == ["44 of 60 shards of generation 1"]


def test_generations_that_were_found_settled_are_not_looked_at_again(run, monkeypatch):
    for generation in range(6, 8 + 2 * module.SETTLED):
        play(run, generation, 4)
    gathered(run)
    pruned(run)  # the set that there was goes with what only it needed
    pruned(run)
    asked: list[int] = []
    listed = module.files_of
    monkeypatch.setattr(module, "files_of", lambda run, one, names: asked.append(one) or listed(run, one, names))
    settled = read_pruned(run / GAMES).settled
    assert not pruned(run).removals and min(asked) == settled - module.SETTLED + 1 > 1


def test_a_damaged_list_is_an_error_that_says_what_to_do(run):
    pruned(run)
    (run / GAMES / PRUNED).write_text('{"format": "mugo-pruned", "version": 1, "places": {"x": {}}}')
    with pytest.raises(FileError, match="remove this file"):
        pruned(run)


def test_one_process_at_a_time(run):
    with packs.packing(run / GAMES):
        with pytest.raises(NotYet):
            pruned(run)
        assert pruned(run, apply=False).removals


def test_the_sample_is_even_and_has_no_long_breaks():
    names = [
        layout.parse_shard_name(f"20260101T{hour:02d}{minute:02d}00.000000-{60 * hour + minute + 1:06d}.gz")
        for hour in range(24)
        for minute in range(0, 60, 10)
    ]
    stay = sample(names)
    assert stay[-1] == names[-1] and len(stay) < len(names) / 2
    assert max(later.time - earlier.time for earlier, later in pairwise(stay)) <= module.SAMPLE_EVERY
    assert sample(names[:5]) == names[:5]


# Chunks, checkpoints, temporaries


def test_chunks_that_no_training_takes(tmp_path):
    make_run(tmp_path)
    first = list(list_sets(tmp_path / CHUNKS))
    gather_more = GatherConfig(
        directory=tmp_path / GAMES, output_directory=tmp_path / CHUNKS, positions_per_chunk=32, chunks_to_make=1,
        seed=4,
    )  # fmt: skip
    gather(gather_more)
    newest = list(list_sets(tmp_path / CHUNKS))[-1]
    assert newest != first[-1]
    folder = tmp_path / layout.SAVED_MODELS / ".000002-x.training"
    folder.mkdir()
    noted = prune(PruneConfig(directory=tmp_path, apply=True))
    assert not noted.removals and "000002-x has begun" in " ".join(noted.notes)
    folder.rename(folder := folder.with_name(".000001-other.training"))  # which no training will resume
    assert [one.what for one in prune(PruneConfig(directory=tmp_path)).removals] == [
        "1 set of chunks", "checkpoint of 000001-other",
    ]  # fmt: skip
    folder.rmdir()
    matches = everything(tmp_path / "data" / "evaluate"), everything(tmp_path / layout.SAVED_MODELS)
    summary = prune(PruneConfig(directory=tmp_path, apply=True))
    assert [removal.what for removal in summary.removals] == ["1 set of chunks"]
    assert list(list_sets(tmp_path / CHUNKS)) == [newest]
    assert (everything(tmp_path / "data" / "evaluate"), everything(tmp_path / layout.SAVED_MODELS)) == matches
    # The priorities of the set that is gone are what the next training begins with.
    assert len(list((tmp_path / CHUNKS).glob("*priorities*"))) == 1


def test_on_a_full_disk_sets_and_leftovers_go_all_the_same(tmp_path, monkeypatch):
    make_run(tmp_path)
    gathered(tmp_path, seed=4)
    sets = list(list_sets(tmp_path / CHUNKS))

    def full(*arguments, **options):
        raise FileError(tmp_path, "the disk is full; free some and run again")

    monkeypatch.setattr(module, "_prune_games", full)
    with pytest.raises(FileError, match="the disk is full"):
        prune(PruneConfig(directory=tmp_path, apply=True))
    assert len(sets) > 1 and list(list_sets(tmp_path / CHUNKS)) == sets[-1:]


def test_checkpoints_that_no_training_comes_back_to(tmp_path):
    make_run(tmp_path)
    saved_models = tmp_path / layout.SAVED_MODELS
    newest = sorted(path.name for path in saved_models.glob("0*"))[-1]
    for name in (f".{newest}.training", ".000001-other.training", ".000002-next.training", ".000001-busy.training"):
        (saved_models / name).mkdir()
        (saved_models / name / module.CHECKPOINT_FILE).write_bytes(b"x" * 10)
    with atomic.file_lock(saved_models / ".000001-busy.training" / module.CHECKPOINT_FILE):
        summary = prune(PruneConfig(directory=tmp_path, apply=True))
    assert sorted(removal.what for removal in summary.removals) == [
        f"checkpoint of {newest}", "checkpoint of 000001-other",
    ]  # fmt: skip
    assert sorted(path.name for path in saved_models.glob(".*.training")) == [
        ".000001-busy.training", ".000002-next.training",
    ]  # fmt: skip


def test_temporaries_of_killed_processes(tmp_path):
    make_run(tmp_path)
    dead = tmp_path / "data" / ".x~other-host~1~20200101T000000~0123abcd.tmp"
    dead.mkdir()
    (dead / "y").write_bytes(b"123")
    alive = layout.temporary_path(tmp_path / "data" / "z")
    alive.write_bytes(b"")
    summary = prune(PruneConfig(directory=tmp_path, apply=True))
    assert [(removal.what, removal.num_bytes) for removal in summary.removals] == [("1 temporary file", 3)]
    assert not dead.exists() and alive.exists()


def test_no_run_here(tmp_path):
    with pytest.raises(FileError, match="no run in this folder"):
        prune(PruneConfig(directory=tmp_path))


# Beside others


def test_readers_beside_it_never_fail(tmp_path):
    """Real processes list and read in a loop while generations come, are packed and pruned."""
    reader = READER
    for old, new in (
        ("list(range(1, len(numbers) + 1))", "sorted(set(numbers))"),  # what is pruned leaves gaps
        ("    assert not last - now, last - now\n", ""),
        ("    assert not now - whole(scan_run(run).shards)\n", "    scan_run(run)\n"),
        ("for file in files:\n        meta", "for file in files[:40]:\n        meta"),  # the rest may go meanwhile
        (  # and, beside a reader that waited long for a processor, some of these
            "        assert meta is not None, file\n",
            "        if meta is None:\n"
            "            assert file.name not in {one.name for one in newest_files(games)}, file\n"
            "            continue\n",
        ),
    ):
        assert old in reader
        reader = reader.replace(old, new)
    (tmp_path / layout.SAVED_MODELS).mkdir()
    expected = []

    def step(generation: int) -> None:
        play(tmp_path, generation, 24, games=1)
        compact(CompactConfig(directory=tmp_path))
        summary = gather(
            GatherConfig(
                directory=tmp_path / GAMES, output_directory=tmp_path / CHUNKS, positions_per_chunk=4,
                chunks_to_make=1, max_positions=50,
            )
        )  # fmt: skip
        expected.append(summary.new_positions)
        assert summary.total_positions == sum(expected)
        pruned(tmp_path, keep=0)

    steps = read_beside(tmp_path, reader, step)
    assert steps > 5
    games = sum(place.games for place in read_pruned(tmp_path / GAMES).places.values())
    assert games == 24 * (steps - 1) or games == 24 * (steps - 2)
