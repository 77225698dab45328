"""The evaluate stage: whom it picks, when it stops, what it promotes, and that a killed match goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.config import EvaluateConfig
from pipeline.errors import FileError, NotYet, UsageError
from pipeline.games.registry import parse_game
from pipeline.progress import Progress
from pipeline.records.matches import read_match
from pipeline.records.models import read_promotions, resolve_champion, set_champion
from pipeline.stages import evaluate as stage
from pipeline.stages.contest import Contest
from pipeline.stages.evaluate import evaluate
from tests.search.helpers import hashed_evaluator
from tests.stages.helpers import make_champion, make_model

ROOT = Path(__file__).parent.parent.parent


def config_for(tmp_path: Path, **options) -> EvaluateConfig:
    settings = {
        "black_model": str(tmp_path / "saved_models" / "best_model"),
        "output_dir": tmp_path / "evaluate",
        "pool": tmp_path / "pool.json",
        "ratings": tmp_path / "ratings.json",
        "games": 12,
        "readouts": 6,
        "opening_plies": 3,
        "parallel_games": 8,
        "threads": 2,
        "backend": "torch",
    }
    return EvaluateConfig(**(settings | options))


@pytest.fixture
def models(tmp_path):
    """saved_models with champion 000000-test and one challenger."""
    folder = tmp_path / "saved_models"
    make_champion(folder)
    make_model(folder, number=1, seed=1)
    return folder


@pytest.fixture
def made_up_networks(monkeypatch):
    """Networks that answer at once, a different one for each model; counts how often they are loaded."""
    loaded = []

    def make(architecture, weights, max_batch, num_lanes, backend, progress):
        loaded.append(max_batch)
        seed = int(np.abs(weights["stem.conv.weight"]).sum() * 1000)
        game = {9: "tictactoe", 25: "go:5", 42: "connect4"}[architecture.height * architecture.width]
        return [hashed_evaluator(parse_game(game), seed) for _ in range(num_lanes)]

    monkeypatch.setattr("pipeline.networks.inference.make_evaluators", make)
    return loaded


def promised(summary) -> dict:
    """What must be the same however often a match was interrupted."""
    return {name: getattr(summary, name) for name in ("passed", "promoted", "games", "points_needed", "champion")}


def test_a_match_from_first_to_last_with_real_networks(tmp_path, models):
    summary = evaluate(config_for(tmp_path, threshold=1.0, promote=False))
    match = read_match(tmp_path / "evaluate" / "000001-test-vs-000000-test")
    assert summary.challenger == "000001-test" and summary.champion == "000000-test"
    assert len(match.games) == summary.games_played == summary.wins + summary.draws + summary.losses
    assert match.summary["wins"] == summary.wins
    assert match.summary["moving_first"]["wins"] + match.summary["moving_second"]["wins"] == summary.wins
    json.dumps(match.summary, allow_nan=False)


def test_each_colour_gets_half_of_the_games_and_each_opening(tmp_path, models, made_up_networks):
    # A share that stays open to the end: 12 of 24 half points pass, so nothing is decided early but by a lead.
    summary = evaluate(config_for(tmp_path, games=40, threshold=0.5, promote=False))
    match = read_match(Path(summary.match))
    by_opening: dict[tuple, set] = {}
    for game in match.games:
        by_opening.setdefault(tuple(game.moves[:3]), set()).add(game.challenger_player)
    assert len(match.header.openings) == 20
    assert {0, 1} in by_opening.values()
    assert sum(vars(summary.moving_first).values()) + sum(vars(summary.moving_second).values()) == summary.games_played
    assert summary.average_length == pytest.approx(np.mean([game.length for game in match.games]))
    assert summary.duplicates == len(match.games) - len({tuple(game.moves) for game in match.games})


def test_it_stops_when_the_verdict_is_settled(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, games=200, threshold=1.0, parallel_games=2, threads=1))
    assert not summary.passed and not summary.promoted
    assert summary.games_played < 200  # the first game that isn't won decides
    assert "decided after" in summary.reason
    assert summary.points_needed == 200


def test_a_challenger_that_passes_becomes_champion(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, threshold=0.01))
    assert summary.passed and summary.promoted
    assert resolve_champion(models / "best_model").name == "000001-test"
    assert os.readlink(models / "best_model") == "000001-test"
    entry = read_promotions(models)[-1]
    assert entry["challenger"] == "000001-test" and entry["over"] == "000000-test" and entry["by"] == "evaluate"
    for name in ("wins", "draws", "losses", "threshold", "tail_probability", "games"):
        assert entry[name] == getattr(summary, name)
    assert "time" in entry
    saved = read_match(Path(summary.match)).summary
    assert saved["promoted"] is True and "promotion_pending" not in saved
    with pytest.raises(NotYet) as caught:  # the old champion is no challenger
        evaluate(config_for(tmp_path, threshold=0.01))
    assert caught.value.missing == 1 and caught.value.exit_code == 75


def test_no_promote(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, threshold=0.01, promote=False))
    assert summary.passed and not summary.promoted and "--no-promote" in summary.reason
    assert resolve_champion(models / "best_model").name == "000000-test"
    # Asked for by name and with promotion, the finished match counts; nothing is played or loaded again.
    count = len(made_up_networks)
    again = evaluate(config_for(tmp_path, threshold=0.01, white_model=str(models / "000001-test")))
    assert again.promoted and len(made_up_networks) == count
    assert resolve_champion(models / "best_model").name == "000001-test"


def test_a_champion_that_changed_meanwhile_is_left_alone(tmp_path, models, made_up_networks, monkeypatch):
    third = make_model(models, number=2, seed=2)
    played = Contest.play

    def play_and_change(*arguments):
        played(*arguments)
        set_champion(models, third, {"reason": "somebody else"})

    monkeypatch.setattr(Contest, "play", play_and_change)
    warned = []
    progress = Progress()
    progress.warn = warned.append
    summary = evaluate(config_for(tmp_path, threshold=0.01, white_model=str(models / "000001-test")), progress)
    assert summary.passed and not summary.promoted
    assert "best_model is 000002-test by now" in summary.reason and "000000-test" in summary.reason
    assert warned == [summary.reason]
    assert resolve_champion(models / "best_model").name == "000002-test"


def test_the_newest_unplayed_model_is_picked(tmp_path, models, made_up_networks):
    for number in (2, 3):
        make_model(models, number=number, seed=number)
    picked = [evaluate(config_for(tmp_path, threshold=1.0)).challenger for _ in range(3)]
    assert picked == ["000003-test", "000002-test", "000001-test"]
    with pytest.raises(NotYet, match="newer ones: 3, all have played it"):
        evaluate(config_for(tmp_path))


def test_no_newer_model(tmp_path):
    make_champion(tmp_path / "saved_models", number=4)
    make_model(tmp_path / "saved_models", number=3, seed=3)
    with pytest.raises(NotYet, match="no model is newer"):
        evaluate(config_for(tmp_path))


# Interruption


class Interrupting(Progress):
    """Raises KeyboardInterrupt once so many games are finished."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


def test_an_interrupted_match_goes_on_and_comes_to_the_same_games(tmp_path, models, made_up_networks):
    config = config_for(tmp_path, games=60, threshold=0.5, promote=False)
    whole = evaluate(config.model_copy(update={"output_dir": tmp_path / "whole"}))
    wanted = {game.index: game for game in read_match(Path(whole.match)).games}
    folder = tmp_path / "evaluate" / Path(whole.match).name
    for after in (0, 3, 17):
        with pytest.raises(KeyboardInterrupt):
            evaluate(config, Interrupting(after))
        match = read_match(folder)
        assert match.games and match.summary is None
    resumed = evaluate(config)
    assert promised(resumed) == promised(whole)
    found = {game.index: game for game in read_match(folder).games}
    common = found.keys() & wanted.keys()
    assert len(common) > 20
    assert all(found[index] == wanted[index] for index in common)


def test_a_kill_between_verdict_and_promotion_is_made_good(tmp_path, models, made_up_networks, monkeypatch):
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    config = config_for(tmp_path, threshold=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "set_champion", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate(config)
    assert resolve_champion(models / "best_model").name == "000000-test"
    count = len(made_up_networks)
    summary = evaluate(config)
    assert summary.promoted and len(made_up_networks) == count
    assert len(read_promotions(models)) == 2


def test_a_kill_between_promotion_and_summary_is_made_good(tmp_path, models, made_up_networks, monkeypatch):
    config = config_for(tmp_path, threshold=0.01)
    written = stage.write_summary

    def killed(folder, summary):
        if summary["promoted"]:
            raise KeyboardInterrupt
        written(folder, summary)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "write_summary", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate(config)
    assert resolve_champion(models / "best_model").name == "000001-test"
    with pytest.raises(NotYet):
        evaluate(config)
    saved = read_match(tmp_path / "evaluate" / "000001-test-vs-000000-test").summary
    assert saved["promoted"] is True and "promotion_pending" not in saved


def test_a_match_killed_hard_goes_on(tmp_path, models):
    """Real processes, real networks, SIGKILL. The threshold is far from what random networks score against each other:
    the last bits of a real network's answers depend on how many games share a batch."""
    config = config_for(tmp_path, games=400, threshold=0.9, readouts=12, promote=False)
    folder = tmp_path / "evaluate" / "000001-test-vs-000000-test"
    command = [sys.executable, "main.py", "evaluate", "--no-promote", "--games", "400", "--threshold", "0.9"]
    for name in ("black_model", "output_dir", "readouts", "opening_plies", "parallel_games", "threads", "backend"):
        command += ["--" + name.replace("_", "-"), str(getattr(config, name))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        games = folder / "games.jsonl"
        while time.monotonic() < deadline and process.poll() is None:
            if games.exists() and games.read_bytes().count(b"\n") > 5:
                break
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = read_match(folder)
    assert process.returncode == -signal.SIGKILL
    assert before.games and before.summary is None
    resumed = evaluate(config)
    after = read_match(folder)
    assert {game.index: game for game in after.games}.items() >= {game.index: game for game in before.games}.items()
    assert after.summary["games_played"] == resumed.games_played == len(after.games)
    whole = evaluate(config.model_copy(update={"output_dir": tmp_path / "whole"}))
    assert promised(resumed) == promised(whole)


# Records


def test_sgf_where_the_game_has_it(tmp_path, made_up_networks):
    folder = tmp_path / "saved_models"
    make_champion(folder, spec="go:5")
    make_model(folder, number=1, spec="go:5", seed=1)
    summary = evaluate(config_for(tmp_path, games=4, threshold=0.6, readouts=2, promote=False))
    records = sorted((Path(summary.match) / "sgf").iterdir())
    assert [path.name for path in records] == [
        f"{game.index:06d}.sgf" for game in read_match(Path(summary.match)).games
    ]
    first = records[0].read_text()
    names = ("000001-test", "000000-test")
    black, white = names if int(records[0].stem) % 2 == 0 else reversed(names)
    assert f"PB[{black}]PW[{white}]" in first and "C[opening]" in first and "to move]" in first
    elsewhere = tmp_path / "records"
    evaluate(config_for(tmp_path, games=4, threshold=0.6, readouts=2, promote=False, white_model=str(folder / "000001-test"),
                        sgf_output=elsewhere))  # fmt: skip
    assert [path.read_text() for path in sorted(elsewhere.glob("*/*.sgf"))] == [path.read_text() for path in records]


def test_no_sgf_for_tictactoe(tmp_path, models, made_up_networks):
    assert not (Path(evaluate(config_for(tmp_path)).match) / "sgf").exists()


# What it refuses


def test_an_odd_number_of_games(tmp_path, models):
    with pytest.raises(UsageError, match=r"--games 7.*even"):
        evaluate(config_for(tmp_path, games=7))


def test_openings_longer_than_the_game(tmp_path, models):
    with pytest.raises(UsageError, match=r"--opening-plies 9.*within 9 plies"):
        evaluate(config_for(tmp_path, opening_plies=9))


def test_a_model_against_itself(tmp_path, models):
    with pytest.raises(UsageError, match="it is the champion itself"):
        evaluate(config_for(tmp_path, white_model=str(models / "000000-test")))


def test_models_of_different_games(tmp_path, models):
    make_model(models, number=2, spec="connect4")
    with pytest.raises(FileError, match="000002-test: it plays connect4; wanted a model that plays tictactoe"):
        evaluate(config_for(tmp_path))
    assert not (tmp_path / "evaluate").exists()


def test_missing_and_damaged_models(tmp_path, models):
    with pytest.raises(FileError, match="no such model"):
        evaluate(config_for(tmp_path, white_model=str(models / "000009-x")))
    weights = models / "000001-test" / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(FileError, match="checksum"):
        evaluate(config_for(tmp_path))
    with pytest.raises(FileError, match="no champion yet"):
        evaluate(config_for(tmp_path, black_model=str(tmp_path / "best_model")))
    assert not (tmp_path / "evaluate").exists()


def test_other_settings_for_a_match_that_has_begun(tmp_path, models, made_up_networks):
    evaluate(config_for(tmp_path, threshold=1.0))
    white = str(models / "000001-test")
    with pytest.raises(FileError, match="begun with challenger's readouts 6, now it is 7"):
        evaluate(config_for(tmp_path, threshold=1.0, readouts=7, white_model=white))
    with pytest.raises(FileError, match=r"begun with threshold 1\.0, now it is None"):
        evaluate(config_for(tmp_path, white_model=white))
    # What doesn't change the games may change.
    evaluate(config_for(tmp_path, threshold=1.0, threads=1, parallel_games=2, white_model=white))


def test_a_tampered_game_is_found(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, threshold=1.0))
    path = Path(summary.match) / "games.jsonl"
    text = path.read_text()
    lost = '"result_first_player":-1' in text
    old, new = ('"result_first_player":-1', '"result_first_player":1') if lost else ('player":1,"end', 'player":0,"end')
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileError, match="don't lead to its result"):
        evaluate(config_for(tmp_path, threshold=1.0, white_model=str(models / "000001-test")))


