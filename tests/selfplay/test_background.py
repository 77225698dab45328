"""Self-play beside other commands: when it starts anew, when it ends, and how other commands wait for its games."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import NotYet, UsageError
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.run import atomic, packs, shards
from pipeline.run.models import set_champion
from pipeline.run.shards import newest_shards, read_shard
from pipeline.schedules import RunState
from pipeline.selfplay import background
from pipeline.selfplay import coordination as others
from pipeline.selfplay.background import play_on
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import PlayedGames
from tests.helpers import Heard, make_champion, make_model, wait_for
from tests.run.random_games import random_games, write_shard

ROOT = Path(__file__).parent.parent.parent


def config_for(tmp_path: Path, **options: object) -> SelfplayConfig:
    settings = {
        "network": tmp_path / "saved_models/best_model",
        "output_dir": tmp_path / "selfplay",
        "parallel_games": 4,
        "threads": 1,
        "commit_seconds": 0.0,
        "backend": "torch",
    }
    return SelfplayConfig(**(settings | options))


def games(tmp_path: Path) -> Counter[tuple[str, int | None, int]]:
    """The number of games by model, generation and readouts."""
    found: Counter[tuple[str, int | None, int]] = Counter()
    for meta in newest_shards(tmp_path / "selfplay"):
        readouts = read_shard(meta.path, meta).header["provenance"]["config"]["readouts"]
        found[meta.model, meta.generation, readouts] += meta.games
    return found


def test_it_plays_on_and_starts_anew_only_when_a_setting_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.02)
    make_champion(tmp_path / "saved_models")
    asked: list[RunState] = []

    def settings_at(run_state: RunState) -> SelfplayConfig:
        asked.append(run_state)
        readouts, wanted = {1: (2, 5), 2: (2, 9)}.get(run_state.generation, (3, 9))
        return config_for(tmp_path, readouts=readouts, games=wanted, top_up=True)

    def events() -> None:
        """Meanwhile: a model is trained and promoted, then another one."""
        try:
            wait_for(lambda: games(tmp_path)["000000-test", 0, 2] > 8, 60)  # more than those that a command would play
            set_champion(tmp_path / "saved_models", make_model(tmp_path / "saved_models", 1), {"reason": "test"})
            wait_for(lambda: games(tmp_path)["000001-test", 1, 2] > 3 and len(asked) == 2, 60)
            make_model(tmp_path / "saved_models", 2)
            wait_for(lambda: games(tmp_path)["000001-test", 2, 3] > 3, 60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    meanwhile = threading.Thread(target=events)
    meanwhile.start()
    rounds = play_on(config_for(tmp_path, time_share=0.25), settings_at, SILENT)
    first = next(rounds)  # ended by the second new model, not by the first
    with pytest.raises(KeyboardInterrupt):
        next(rounds)
    meanwhile.join()
    found = games(tmp_path)
    assert first.games == sum(count for (*_, readouts), count in found.items() if readouts == 2)
    first_model, second_model = "000000-test", "000001-test"
    assert set(found) <= {
        *((first_model, generation, 2) for generation in (0, 1)),
        *((second_model, *how) for how in ((1, 2), (2, 2), (2, 3))),
    }
    assert [state.generation for state in asked] == [1, 2, 3, 3]
    assert {state.share for state in asked} == {0.0, 0.25}  # of the first model none of the time; others don't say
    shards = [read_shard(meta.path, meta) for meta in newest_shards(tmp_path / "selfplay")]
    assert len({one for shard in shards for one in shard.game_ids.tolist()}) == sum(found.values())


def test_a_calibrated_threshold_is_found_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr("pipeline.run.models.LOOKS_SHARE", math.inf)  # looks anew, however long a look takes
    make_champion(tmp_path / "saved_models")
    over: list[bool] = []
    for rate in (0.0, 0.05):
        config = config_for(tmp_path, resign_false_rate=rate)
        played = PlayedGames(config.output_dir, SILENT)
        current = background._Round(config, lambda _, config=config: config, played)  # type: ignore[misc]
        for number in range(1, 6):
            make_model(tmp_path / "saved_models", number)
            over.append(current.over())
        for path in (tmp_path / "saved_models").glob("00000[1-9]-test"):
            path.rename(tmp_path / f"{rate}-{path.name}")
    assert over == [False] * 5 + [True, True, False, True, False]


def test_it_ends_when_train_falls_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.02)
    make_champion(tmp_path / "saved_models")
    config = config_for(tmp_path, max_lead=100)
    with pytest.raises(NotYet, match="wanted at most 100"):
        list(play_on(config, lambda _: config, SILENT))
    assert sum(meta.positions for meta in newest_shards(tmp_path / "selfplay")) > 100


def test_each_look_opens_only_new_sidecars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.0)
    make_champion(tmp_path / "saved_models")
    opened: list[Path] = []
    read = shards.read_meta
    monkeypatch.setattr(shards, "read_meta", lambda path, pack=None: opened.append(path) or read(path, pack))
    game = parse_game("tictactoe")

    def commit(number: int, generation: int) -> int:
        """The positions of a shard."""
        records = random_games(game, 2, number)
        write_shard(tmp_path / "selfplay", "000000-test", "w00", game.spec, records, {"generation": generation})
        return sum(len(one.moves) for one in records)

    make_model(tmp_path / "saved_models", 1)
    commit(0, 0)  # before the newest model was made
    most = commit(1, 1) + commit(2, 1)
    config = config_for(tmp_path, max_lead=most)
    told = Heard()
    current = background._Round(config, lambda _: config, PlayedGames(config.output_dir, told))
    for _ in range(3):
        assert not current.over()
    assert len(opened) == len(set(opened)) == 2
    lead = most + commit(3, 1)
    with pytest.raises(NotYet, match=f"{lead} positions since model 000001 was made"):
        current.over()
    assert len(opened) == 3 and not told.warned


def test_waiting_ends_with_the_games_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(others, "PATIENCE_SECONDS", 300.0)  # until the process, of low priority, plays
    make_champion(tmp_path / "saved_models")
    words = ["--network", "saved_models/best_model", "--output-dir", "selfplay", "--threads", "1", "--backend", "torch"]
    player = subprocess.Popen(
        [sys.executable, str(ROOT / "main.py"), "selfplay", "--background", *words], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        found = selfplay(config_for(tmp_path, games=30, wait=True))
        assert "nothing to play" in found.lines()[0]
        assert sum(meta.games for meta in newest_shards(tmp_path / "selfplay")) >= 30 and player.poll() is None
        with pytest.raises(NotYet, match="another process plays as worker w00"):
            selfplay(config_for(tmp_path))
    finally:
        player.terminate()
        _, said = player.communicate(timeout=60)
    assert player.returncode == 143 and "finished games are kept" in said


def test_waiting_for_nobody_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(others, "PATIENCE_SECONDS", 0.2)
    make_champion(tmp_path / "saved_models")
    with pytest.raises(NotYet, match="nobody plays as worker w00, and 30 games are missing"):
        selfplay(config_for(tmp_path, games=30, wait=True))
    selfplay(config_for(tmp_path, games=30))
    assert "nothing to play" in selfplay(config_for(tmp_path, games=30, wait=True)).lines()[0]


def test_no_worker_has_the_name_of_the_lock_of_compact_and_prune(tmp_path: Path) -> None:
    with (
        packs.packing(tmp_path / "selfplay"),
        pytest.raises(UsageError, match=r"--worker packs: .* choose another name"),
        others.alone(config_for(tmp_path, worker="packs")),
    ):
        pass


def test_it_is_patient_with_a_process_that_only_looks_whether_somebody_plays(tmp_path: Path) -> None:
    make_champion(tmp_path / "saved_models")
    config = config_for(tmp_path)
    looking = atomic.file_lock(config.output_dir / config.worker)
    looking.__enter__()
    threading.Timer(0.2, looking.__exit__, (None, None, None)).start()
    with others.alone(config, patience=10):
        pass
