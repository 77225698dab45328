"""What commands cost as a run's history grows, in files opened and folders listed: never in seconds.

The run is benchmarks/scale.py's, at two lengths. What costs in proportion to the window is the same at both.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.scale import GENERATION_SHARDS, LABEL, MATCHES, SHARD_GAMES, GrowingRun
from pipeline.errors import NotYet
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.ratings.command import ratings
from pipeline.ratings.config import RatingsConfig
from pipeline.reports.config import StatusConfig
from pipeline.reports.run_files import NEWEST, SPREAD, scan_run
from pipeline.reports.status import status
from pipeline.run import layout, packs
from pipeline.run.models import newest_number, resolve_champion
from pipeline.run.shards import newest_shards, prepare_folder
from pipeline.selfplay.coordination import check_same_game
from pipeline.selfplay.numbering import numbering
from pipeline.upkeep.compact import SETTLED, compact
from pipeline.upkeep.config import CompactConfig, PruneConfig, VerifyConfig
from pipeline.upkeep.prune import prune
from pipeline.upkeep.verify.command import verify

SHORT, LONG = 160, 240  # generations
WINDOW = 4_000  # positions: about five generations
OF_A_GENERATION = GENERATION_SHARDS * SHARD_GAMES


@dataclass
class Operations:
    """Counted while a block runs. paths: opened and listed, relative to the working directory."""

    opened: Counter[str]
    listed: Counter[str]

    @property
    def count(self) -> int:
        return self.opened.total() + self.listed.total()


class _Hook:
    """An audit hook can't be removed again; it counts while it has something to count into."""

    def __init__(self) -> None:
        self.into: Operations | None = None
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.into is None or event not in ("open", "os.listdir", "os.scandir"):
            return
        path = str(arguments[0])
        if path.startswith(("data", "saved_models", "./data", "./saved_models")):
            (self.into.opened if event == "open" else self.into.listed)[path] += 1


@pytest.fixture(scope="module")
def hook() -> _Hook:
    return _Hook()


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrowingRun]:
    """At first of SHORT generations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        run = GrowingRun(tmp_path_factory.mktemp("scale") / "run", WINDOW)
        run.grow(SHORT * OF_A_GENERATION)
        yield run


@pytest.fixture
def measured(hook: _Hook, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], Operations]:
    def measure(call: Callable[[], object]) -> Operations:
        hook.into = found = Operations(Counter(), Counter())
        try:
            call()
        finally:
            hook.into = None
        return found

    return measure


def selfplay_starts() -> None:
    """As selfplay does before it plays. benchmarks/scale.py measures the command."""
    games, generation = Path("data/selfplay"), newest_number(Path("saved_models"))
    champion = resolve_champion(Path("saved_models/best_model")).name
    found = numbering(games, "w00", generation, 10, pytest.fail)
    assert found.numbers[0] == generation * OF_A_GENERATION
    check_same_game(games, "tictactoe")
    prepare_folder(games, champion, "w00", generation)


def nobody_to_evaluate() -> None:
    with pytest.raises(NotYet, match="no new challenger"):
        evaluate(EvaluateConfig(games=10))


def next_gather(seed: int) -> None:
    made = gather(GatherConfig(max_positions=WINDOW, as_many_as_possible=True, chunks_to_make=1, seed=seed))
    assert made.chunks_made and not made.new_positions


def no_games_to_remove() -> None:
    removals = prune(PruneConfig(keep_positions=WINDOW, apply=True)).removals
    assert all("of chunks" in one.what for one in removals)


def test_a_longer_history_costs_no_more(grown: GrowingRun, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grown.folder)
    commands: dict[str, Callable[[], object]] = {
        "selfplay": selfplay_starts,
        "gather": lambda: next_gather(grown.generations),
        "status": lambda: status(StatusConfig()),
        "evaluate": nobody_to_evaluate,
        "compact": lambda: compact(CompactConfig()),
        "prune": no_games_to_remove,
        "verify": lambda: verify(VerifyConfig(newest=WINDOW)),
    }
    costs: dict[int, dict[str, int]] = {}
    for generations in (SHORT, LONG):
        grown.grow(generations * OF_A_GENERATION)
        gather(GatherConfig(max_positions=WINDOW, as_many_as_possible=True, chunks_to_make=1))
        compact(CompactConfig())
        assert prune(PruneConfig(keep_positions=WINDOW, apply=True)).removals
        prune(PruneConfig(keep_positions=WINDOW, apply=True))  # games that a set needed, which is gone now
        costs[generations] = {name: measured(call).count for name, call in commands.items()}
    for name, before in costs[SHORT].items():
        assert costs[LONG][name] <= 1.1 * before + 5, (name, costs)
    assert verify(VerifyConfig()).clean
    assert sum(meta.games for meta in newest_shards(Path("data/selfplay"))) < 0.6 * LONG * OF_A_GENERATION


def test_ratings_open_each_match_once(grown: GrowingRun, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grown.folder)
    opened = measured(lambda: ratings(RatingsConfig())).opened
    matches = [path for path in opened if path.startswith(MATCHES)]
    assert len(matches) == 3 * grown.generations and max(opened[path] for path in matches) == 1


def test_status_estimates_what_it_doesn_t_look_at(grown: GrowingRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grown.folder)
    whole, some = scan_run(Path()), scan_run(Path(), whole=False)
    assert whole.is_whole and not some.is_whole
    assert whole.num_shards == len(whole.shards) > len(some.shards)
    assert some.num_shards == pytest.approx(whole.num_shards, rel=0.02)
    assert set(some.num_bytes) == set(whole.num_bytes)
    for folder, size in whole.num_bytes.items():
        assert some.num_bytes[folder] == pytest.approx(size, rel=0.1), folder
    newest = max(shard.generation for shard in whole.shards)
    recent = [shard for shard in whole.shards if shard.generation > newest - NEWEST]
    assert some.shards[-len(recent) :] == recent
    assert len({shard.generation for shard in some.shards}) <= NEWEST + SPREAD
    found = status(StatusConfig())
    assert not found.play.shards_exact and found.play.positions == grown.positions and found.play.positions_exact


def test_compact_finds_what_a_kill_left_unpacked(grown: GrowingRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """It packs from the oldest generation on, so the newest are left, and it looks from the newest on."""
    monkeypatch.chdir(grown.folder)
    grown.grow((grown.generations + 2 * SETTLED) * OF_A_GENERATION)
    last = grown.generations
    unpacked = [unpack(last - back) for back in (1, 2, 3, SETTLED + 2)]
    packed = compact(CompactConfig())  # and what was the newest generation before
    assert packed.packs == len(unpacked) + 1 and packed.generations <= 3 * SETTLED
    assert not any(layout.parse_shard_name(name) for place in unpacked for name in os.listdir(place))


def unpack(generation: int) -> Path:
    """Put a generation's shards back into files of their own."""
    place = Path("data/selfplay") / layout.model_name(generation, LABEL) / "w00"
    (pack,) = packs.list_packs(place).values()
    assert isinstance(pack, packs.Pack)
    for name in pack.names:
        (place / name.shard).write_bytes(pack.read(name, layout.SHARD_SUFFIX))
        (place / name.meta).write_bytes(pack.read(name, layout.META_SUFFIX))
    pack.meta.unlink()
    pack.path.unlink()
    return place


def test_a_folder_that_it_has_not_made_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It plays games in its run, and prunes it."""
    (tmp_path / "data").mkdir()
    with pytest.raises(SystemExit) as stopped:
        scale.main([str(tmp_path), "--pruned"])
    assert stopped.value.code == 2 and "wanted a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]
