"""evaluate: which challenger it picks, when it stops, what it promotes; killed matches continue."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.evaluate import command as stage
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.evaluate.watch_plan import folders_of_matches
from pipeline.games.specs import parse_game
from pipeline.matches.runner import MatchRunner, PlayerFactory
from pipeline.matches.statistics import measured_games
from pipeline.players import builtin
from pipeline.progress import Progress
from pipeline.ratings.command import rate, read_matches
from pipeline.reports.show import show
from pipeline.run import layout
from pipeline.run.matches import read_match
from pipeline.run.models import read_promotions, resolve_champion, set_champion
from pipeline.run.ratings import read_pool
from pipeline.upkeep.config import VerifyConfig
from pipeline.upkeep.verify.command import verify
from tests.helpers import make_champion, make_model
from tests.matches.helpers import Spoilt, seed_of_game
from tests.players.scripted_engine import wait_until_gone
from tests.search.helpers import hashed_evaluator

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

    def make(architecture, weights, max_batch, num_threads, backend, progress, calibration, name, least_batch):
        loaded.append(max_batch)
        seed = int(np.abs(weights["stem.conv.weight"]).sum() * 1000)
        game = {9: "tictactoe", 25: "go:5", 42: "connect4"}[architecture.height * architecture.width]
        return [hashed_evaluator(parse_game(game), seed) for _ in range(num_threads)]

    monkeypatch.setattr("pipeline.networks.inference.make_evaluators", make)
    return loaded


def promised(summary) -> dict:
    """The fields that interruptions must not change."""
    return {name: getattr(summary, name) for name in ("passed", "promoted", "games", "points_needed", "champion")}


def test_a_match_from_first_to_last_with_real_networks(tmp_path, models):
    summary = evaluate(config_for(tmp_path, threshold=1.0, promote=False))
    match = read_match(tmp_path / "evaluate" / "000001-test-vs-000000-test")
    assert summary.challenger == "000001-test" and summary.champion == "000000-test"
    assert summary.measured == summary.games_played == summary.wins + summary.draws + summary.losses
    assert summary.games_played == len(measured_games(match)) <= len(match.games)
    assert match.summary["wins"] == summary.wins
    assert match.summary["moving_first"]["wins"] + match.summary["moving_second"]["wins"] == summary.wins
    json.dumps(match.summary, allow_nan=False)


def test_each_colour_gets_half_of_the_games_and_each_opening(tmp_path, models, made_up_networks):
    # A share that stays open to the end: 12 of 24 half points pass, so nothing is decided early but by a lead.
    summary = evaluate(config_for(tmp_path, games=40, threshold=0.5, promote=False))
    match = read_match(Path(summary.match))
    by_opening: dict[tuple, set] = {}
    measured = measured_games(match)
    for game in match.games:
        by_opening.setdefault(tuple(game.moves[:3]), set()).add(game.challenger_player)
    assert len(match.header.openings) == 20
    assert {0, 1} in by_opening.values()
    assert sum(vars(summary.moving_first).values()) + sum(vars(summary.moving_second).values()) == summary.games_played
    assert summary.average_length == pytest.approx(np.mean([game.length for game in measured]))
    assert summary.duplicates == len(measured) - len({(game.challenger_player, *game.moves) for game in measured})


def test_it_stops_when_the_decision_is_settled(tmp_path, models, made_up_networks):
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


@pytest.mark.parametrize("spec", ["policy:{}", "old={}", "old=policy:{}", "{}@3"])
def test_the_champion_may_be_asked_for_by_any_spec(tmp_path, models, spec):
    summary = evaluate(config_for(tmp_path, threshold=0, black_model=spec.format(models / "best_model")))
    assert summary.promoted and resolve_champion(models / "best_model").name == "000001-test"
    assert [path.name for path in tmp_path.iterdir() if "saved_models" in path.name] == ["saved_models"]


def test_nobody_is_promoted_over_a_model_that_is_not_the_champion(tmp_path, models):
    make_model(models, number=2, seed=2)
    elsewhere = make_model(tmp_path / "elsewhere", seed=3)  # a folder without a champion
    for black in (models / "000001-test", elsewhere):
        config = config_for(tmp_path, threshold=0, black_model=str(black), white_model=str(models / "000002-test"))
        summary = evaluate(config)
        assert summary.passed and not summary.promoted
        assert summary.reason.endswith(f"not promoted: {black.name} isn't the champion")
    assert os.listdir(elsewhere.parent) == [elsewhere.name]
    assert resolve_champion(models / "best_model").name == "000000-test"
    assert evaluate(config_for(tmp_path, threshold=0, black_model=str(models / "000000-test"))).promoted


def test_no_gate_promotes_without_a_game(tmp_path, models, monkeypatch):
    monkeypatch.setattr(PlayerFactory, "_loaded", None)  # no network, either: loading takes longer than the rest
    summary = evaluate(config_for(tmp_path, threshold=0))
    assert summary.promoted and (summary.games_played, summary.points_needed, summary.share) == (0, 0, 0.5)
    assert resolve_champion(models / "best_model").name == "000001-test"
    with pytest.raises(NotYet):
        evaluate(config_for(tmp_path, threshold=0))


def test_a_match_that_only_measures_is_played_to_its_end(tmp_path, models, made_up_networks):
    condition = {"require": ["random>=0.01"], "require_games": 20}
    summary = evaluate(config_for(tmp_path, games=40, threshold=0.01, promote=False, **condition))
    assert summary.games_played == summary.measured == 40
    assert summary.conditions["random>=0.01"].games_played == 20
    # A preset's condition about the champion of this match is what the match itself shows.
    sides = {"white_model": str(models / "000001-test"), "black_model": "random"}
    measured = evaluate(config_for(tmp_path, games=20, promote=False, **sides, **condition))
    assert measured.games_played == 20 and not measured.conditions


def test_no_promote(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, threshold=0.01, promote=False))
    assert summary.passed and not summary.promoted and "--no-promote" in summary.reason
    assert resolve_champion(models / "best_model").name == "000000-test"
    # Asked for by name and with promotion, the finished match counts; nothing is played or loaded again.
    count = len(made_up_networks)
    again = evaluate(config_for(tmp_path, threshold=0.01, white_model=str(models / "000001-test")))
    assert again.promoted and len(made_up_networks) == count
    assert resolve_champion(models / "best_model").name == "000001-test"
    # The promotion is tracked, and not again by a third call.
    sides = {"white_model": str(models / "000001-test"), "black_model": str(models / "000000-test")}
    evaluate(config_for(tmp_path, threshold=0.01, **sides))
    assert [point["evaluate/promoted"] for point in tracked(tmp_path) if "evaluate/promoted" in point] == [1.0]


def test_games_of_a_match_that_needed_none_are_not_played_without_openings(tmp_path, models, made_up_networks):
    sides = {"white_model": str(models / "000001-test"), "black_model": str(models / "000000-test")}
    assert evaluate(config_for(tmp_path, threshold=0, **sides)).games_played == 0
    with pytest.raises(FileError, match="opening_plies"):
        evaluate(config_for(tmp_path, threshold=0, promote=False, **sides))


def test_a_champion_that_changed_meanwhile_is_left_alone(tmp_path, models, made_up_networks, monkeypatch):
    third = make_model(models, number=2, seed=2)
    played = MatchRunner.play

    def play_and_change(*arguments):
        played(*arguments)
        set_champion(models, third, {"reason": "somebody else"})

    monkeypatch.setattr(MatchRunner, "play", play_and_change)
    warned = []
    progress = Progress()
    progress.warn = warned.append
    summary = evaluate(config_for(tmp_path, threshold=0.01, white_model=str(models / "000001-test")), progress)
    assert summary.passed and not summary.promoted
    assert "best_model is now 000002-test" in summary.reason and "000000-test" in summary.reason
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
    """Raises KeyboardInterrupt after this many finished games."""

    def __init__(self, after: int) -> None:
        self.remaining = after

    def advance(self, count: int = 1) -> None:
        self.remaining -= count
        if self.remaining < 0:
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


def test_a_kill_between_decision_and_promotion_is_made_good(tmp_path, models, made_up_networks, monkeypatch):
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    config = config_for(tmp_path, threshold=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "set_champion", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate(config)
    assert resolve_champion(models / "best_model").name == "000000-test"
    # Measuring the challenger in between doesn't make it champion.
    evaluate(config.model_copy(update={"black_model": str(models / "000001-test"), "white_model": "heuristic"}))
    # Nor does measuring the match itself, or take the promotion away.
    evaluate(config.model_copy(update={"promote": False}))
    saved = read_match(tmp_path / "evaluate" / "000001-test-vs-000000-test").summary
    assert saved["promotion_pending"] is True and not saved["promoted"]
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


@pytest.mark.parametrize("killed", [False, True])
def test_a_promotion_stays_one_when_its_match_is_asked_for_again(tmp_path, models, monkeypatch, killed):
    """Both players by name, as the champion of then isn't best_model any more."""
    names = {"black_model": str(models / "000000-test"), "white_model": str(models / "000001-test")}
    config = config_for(tmp_path, threshold=0, **names)
    written = stage.write_summary

    def write(folder, summary):
        if killed and summary["promoted"]:
            raise KeyboardInterrupt
        written(folder, summary)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "write_summary", write)
        if killed:
            with pytest.raises(KeyboardInterrupt):
                evaluate(config)
            (tmp_path / "pool.json").unlink()  # as if the kill had come before it joined
        else:
            evaluate(config)
    folder = tmp_path / "evaluate" / "000001-test-vs-000000-test"
    for _ in range(2):
        summary = evaluate(config)
        assert summary.promoted and summary.reason.endswith("; promoted")
        saved = read_match(folder).summary
        assert saved["promoted"] is True and "promotion_pending" not in saved
        assert "000001-test" in [member.name for member in read_pool(tmp_path / "pool.json").members]
    set_champion(models, make_model(models, number=2, seed=2), {"reason": "somebody else"})
    assert evaluate(config).promoted and resolve_champion(models / "best_model").name == "000002-test"
    assert len(read_promotions(models)) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_match_killed_hard_goes_on(tmp_path, models, workers):
    """Real processes, real networks, SIGKILL. The threshold is far from what random networks score against each other:
    the decision is that of the gate, not of the last bits of a network's answers."""
    config = config_for(tmp_path, games=400, threshold=0.9, readouts=12, backend="openvino")
    folder = tmp_path / "evaluate" / "000001-test-vs-000000-test"
    command = [sys.executable, "main.py", "evaluate", "--games", "400", "--threshold", "0.9"]
    command += ["--workers", str(workers)]
    for name in ("black_model", "output_dir", "readouts", "opening_plies", "parallel_games", "threads", "backend"):
        command += ["--" + name.replace("_", "-"), str(getattr(config, name))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children: list[int] = []
    try:
        deadline = time.monotonic() + 120
        games = folder / "games.jsonl"
        while time.monotonic() < deadline and process.poll() is None:
            if games.exists() and games.read_bytes().count(b"\n") > 5:
                break
            time.sleep(0.005)
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
        children = [int(word) for word in listed.stdout.split()]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = read_match(folder)
    assert process.returncode == -signal.SIGKILL
    assert before.games and before.summary is None
    assert len(children) == workers
    resumed = evaluate(config)
    for pid in children:
        wait_until_gone(pid)
    after = read_match(folder)
    assert {game.index: game for game in after.games}.items() >= {game.index: game for game in before.games}.items()
    assert after.summary["games_played"] == resumed.games_played == len(measured_games(after))
    whole = evaluate(config.model_copy(update={"output_dir": tmp_path / "whole"}))
    assert promised(resumed) == promised(whole)


class Once(Progress):
    """Does something when the first games are finished; remembers warnings."""

    def __init__(self, then=None) -> None:
        self.then, self.warnings = then, []

    def advance(self, count: int = 1) -> None:
        if count and self.then is not None:
            then, self.then = self.then, None
            then()

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_two_evaluators_of_one_match(tmp_path, models, made_up_networks):
    """The second one, in this process or another, exits with 75; nothing is played or promoted twice."""
    config = config_for(tmp_path, threshold=0.01, white_model=str(models / "000001-test"))
    seen = []

    def second():
        with pytest.raises(NotYet, match="being played by another process") as caught:
            evaluate(config)
        seen.append(caught.value.exit_code)
        command = [sys.executable, "main.py", "evaluate", "--threshold", "0.01", "--games", "12", "--readouts", "6"]
        for name in ("black_model", "white_model", "output_dir", "pool", "ratings"):
            command += ["--" + name.replace("_", "-"), str(getattr(config, name))]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seen.append(ended.returncode)
        assert "being played by another process" in ended.stderr

    summary = evaluate(config, Once(second))
    assert seen == [75, 75]
    assert summary.promoted
    indices = [game.index for game in read_match(Path(summary.match)).games]
    assert len(indices) == len(set(indices)) >= summary.games_played
    assert len(read_promotions(models)) == 2  # the test's own first champion, and this one
    with pytest.raises(UsageError, match="it is the champion itself"):
        evaluate(config)
    assert len(read_promotions(models)) == 2


# Games that fail


def fail_in(monkeypatch, mode, *indices):
    """The random player, as challenger, misbehaves in these games from now on."""
    seeds = {seed_of_game(0, index, 0) for index in indices}
    monkeypatch.setitem(builtin.BUILT_INS, "random", lambda game, rows: Spoilt(game, rows, mode, seeds))


@pytest.mark.parametrize("mode", ["fault", "illegal", "raise"])
def test_a_decision_that_hangs_on_failed_games_is_refused_and_a_rerun_plays_only_those(tmp_path, monkeypatch, mode):
    config = config_for(tmp_path, game="tictactoe", black_model="heuristic", white_model="random", games=20)
    every = evaluate(config.model_copy(update={"output_dir": tmp_path / "every"}))  # nothing at stake: all are played
    assert every.games_played == 20
    results = {game.index: game.challenger_result for game in read_match(Path(every.match)).games}
    asking = config.model_copy(update={"sprt": "0,300,0.05,0.05"})  # which looks at the pairs by their numbers
    tested = evaluate(asking.model_copy(update={"output_dir": tmp_path / "tested"}))
    fail_in(monkeypatch, mode, 0, 1)
    folder = tmp_path / "evaluate" / "random-vs-heuristic"
    with pytest.raises(MuGoError, match=r"2 games failed twice \(the last: .*\) and the decision depends on them; fix"):
        evaluate(asking)
    match = read_match(folder)
    assert match.summary is None and len(match.games) == 18
    assert all(game.challenger_result == results[game.index] for game in match.games)
    assert {failure.failed for failure in match.failures} >= {0, 1}
    monkeypatch.undo()
    played = Once()
    played.counts = []
    played.advance = played.counts.append
    summary = evaluate(asking, played)
    assert sum(played.counts) == 2 and summary.failed == 0
    assert (summary.passed, summary.wins, summary.losses, summary.sprt) == (
        tested.passed, tested.wins, tested.losses, tested.sprt,
    )  # fmt: skip
    assert [game for game in read_match(folder).games if game.index > 1] == match.games


@pytest.mark.parametrize("threshold", [None, 0.0, 0.1])
def test_a_match_that_promotes_nobody_is_played_to_its_end_whatever_the_threshold(tmp_path, threshold):
    config = config_for(
        tmp_path, game="tictactoe", black_model="random", white_model="heuristic", games=40, threshold=threshold
    )
    summary = evaluate(config)
    assert summary.passed and summary.games_played == 40 and "decided after" not in summary.reason


def test_games_that_failed_never_count_as_wins_and_may_not_matter(tmp_path, monkeypatch):
    fail_in(monkeypatch, "fault", *range(0, 40, 2))
    config = config_for(
        tmp_path, game="tictactoe", black_model="heuristic", white_model="random", games=40, threshold=0.9
    )
    summary = evaluate(config)  # half of the games can't bring 90 % of the points: that is certain
    assert not summary.passed and summary.wins < 20
    assert "decided after" in summary.reason


# Further conditions


def guarded(tmp_path, *conditions, **options):
    return config_for(tmp_path, threshold=0.01, require=list(conditions), require_games=8, **options)


def test_promotion_needs_every_condition(tmp_path, models, made_up_networks):
    summary = evaluate(guarded(tmp_path, "random>=0.01", "rival=random>= 0.05", "heuristic>=0.000001", readouts=40))
    assert summary.passed and summary.promoted
    assert list(summary.conditions) == ["random>=0.01", "rival=random>= 0.05", "heuristic>=0.000001"]
    for condition in summary.conditions.values():
        assert condition.passed and condition.wins + condition.draws + condition.losses == condition.games_played <= 8
        assert read_match(Path(condition.match)).summary["passed"]
    entry = read_promotions(models)[-1]
    assert entry["conditions"]["random>=0.01"]["needed"] == 0.01
    assert entry["conditions"]["random>=0.01"]["wins"] == summary.conditions["random>=0.01"].wins
    assert Path(summary.conditions["rival=random>= 0.05"].match).name == "000001-test-vs-rival"


def test_a_condition_that_fails_stops_the_promotion_and_says_so(tmp_path, models, made_up_networks):
    summary = evaluate(guarded(tmp_path, "random>=0.01", "heuristic>=1.0", "rival=random>=0.01", readouts=0))
    assert not summary.passed and not summary.promoted
    assert [condition.passed for condition in summary.conditions.values()] == [True, False]  # the third was not played
    assert "heuristic>=1.0 not met: " in summary.reason and summary.reason.endswith("; not promoted")
    assert resolve_champion(models / "best_model").name == "000000-test"
    assert len(read_promotions(models)) == 1
    saved = read_match(Path(summary.match)).summary
    assert saved["passed"] is False and saved["conditions"]["heuristic>=1.0"]["passed"] is False
    with pytest.raises(NotYet):  # its case is closed
        evaluate(guarded(tmp_path))


def test_a_condition_of_0_asks_for_nothing_and_measures_all_its_games(tmp_path, models, made_up_networks):
    summary = evaluate(guarded(tmp_path, "random>=0", readouts=0))
    found = summary.conditions["random>=0"]
    assert summary.promoted and found.passed and found.needed == 0
    assert found.games_played == found.wins + found.draws + found.losses == 8
    saved = read_match(Path(found.match)).summary
    assert saved["measured"] == saved["games"] == 8 and saved["threshold"] == 0
    shown = "\n".join(show(Path(summary.match)))
    results = f"{found.wins} won, {found.draws} drawn, {found.losses} lost of 8 games, in {found.match}"
    assert f"random>=0 met: {results}" in " ".join(shown.split())
    assert not verify(VerifyConfig(directory=tmp_path)).problems


def test_conditions_are_played_only_if_the_match_is_won(tmp_path, models, made_up_networks):
    summary = evaluate(guarded(tmp_path, "random>=0.01").model_copy(update={"threshold": 1.0, "games": 40}))
    assert not summary.passed and summary.conditions == {}
    assert not (tmp_path / "evaluate" / "required").exists()


def test_an_interrupted_condition_goes_on(tmp_path, models, made_up_networks):
    config = guarded(tmp_path, "random>=0.5", readouts=30)
    folder = tmp_path / "evaluate" / "required" / "000001-test-vs-random"

    class Breaking(Progress):
        def start(self, what, total=None, unit="units", done=0, at_once=1):
            self.condition = "random" in what

        def advance(self, count=1):
            if self.condition and count:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(config, Breaking())
    before = read_match(folder).games
    assert before and resolve_champion(models / "best_model").name == "000000-test"
    assert evaluate(config).promoted
    assert {game.index for game in before} <= {game.index for game in read_match(folder).games}


@pytest.mark.parametrize(
    "text",
    ["random", "random>0.5", "random>=", ">=0.5", "random>=x", "random>=1.5", "random>=nan", "random>=-1"],
)
def test_malformed_conditions(tmp_path, models, text):
    with pytest.raises(UsageError, match=r"evaluate --require .*: wanted PLAYER>=SHARE"):
        evaluate(guarded(tmp_path, "heuristic>=0.5", text))
    assert not (tmp_path / "evaluate").exists()


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        (["nobody>=0.5"], "no such model or built-in player"),
        (["random>=0.5", "random>=0.6"], "random is given 2 times; wanted once"),
        (["{models}/000000-test>=0.5"], "that is the champion of this match"),
        (["{models}/000001-test>=0.5"], "it is the challenger itself; wanted another player"),
    ],
)
def test_conditions_that_make_no_sense(tmp_path, models, conditions, problem):
    with pytest.raises(UsageError, match=problem):
        evaluate(guarded(tmp_path, *[text.format(models=models) for text in conditions]))
    assert not (tmp_path / "evaluate").exists()


# Players that are no models, and the same model twice


@pytest.mark.parametrize(("black", "white"), [("random", "{models}/000001-test"), ("{models}/000001-test", "heuristic"),
                                              ("random", "heuristic")])  # fmt: skip
def test_nobody_is_promoted_where_a_player_is_no_model(tmp_path, models, made_up_networks, black, white):
    config = config_for(tmp_path, black_model=black.format(models=models), white_model=white.format(models=models),
                        game="tictactoe", threshold=0.000001)  # fmt: skip
    summary = evaluate(config)
    assert not summary.promoted
    if summary.passed:
        assert re.search("not promoted: (random|heuristic) isn't a model$", summary.reason)
    assert resolve_champion(models / "best_model").name == "000000-test"


def test_where_nothing_is_at_stake_every_game_is_played(tmp_path):
    config = config_for(tmp_path, game="tictactoe", black_model="random", white_model="heuristic", games=40)
    summary = evaluate(config)
    assert summary.games_played == 40 and summary.pairs and sum(summary.pairs) == 20
    assert summary.elo is None or summary.elo > 0
    with pytest.raises(UsageError, match="--white-model: not given; against random there is no newest model"):
        evaluate(config.model_copy(update={"white_model": None}))


@pytest.mark.parametrize("readouts", [0, 12])
def test_a_model_against_itself_under_another_name_comes_out_even(tmp_path, models, made_up_networks, readouts):
    config = config_for(tmp_path, white_model=f"twin={models}/000000-test", readouts=readouts, games=20, threshold=0.5)
    summary = evaluate(config)
    # Both players are the same and draw nothing, so the second game of a pair is the first with the names swapped.
    whole = evaluate(config.model_copy(update={"output_dir": tmp_path / "whole", "threshold": 0.999}))
    for one in (summary, whole):
        games = {game.index: game for game in read_match(Path(one.match)).games}
        for index, game in games.items():
            if index % 2 == 0 and index + 1 in games:
                assert games[index + 1].moves == game.moves
                assert games[index + 1].challenger_result == -game.challenger_result
        assert one.pairs[:2] == [0, 0] and one.pairs[3:] == [0, 0]
        assert one.pairs[2] > 0 and one.duplicates == 0  # the same moves, but with colours swapped
    assert summary.passed and not whole.passed
    assert not summary.promoted and "twin is the champion itself" in summary.reason
    assert len(read_promotions(models)) == 1


# The sequential test


def test_a_strong_player_is_told_from_a_weak_one_early(tmp_path, models, made_up_networks):
    config = config_for(tmp_path, black_model="random", white_model=str(models / "000001-test"), readouts=40, games=400,
                        sprt="0,100,0.05,0.05")  # fmt: skip
    summary = evaluate(config)
    assert summary.passed and not summary.promoted
    assert summary.sprt is not None and summary.sprt.decision == "accepted"
    assert 2 * summary.sprt.pairs <= summary.games_played < 200
    assert summary.sprt.llr >= summary.sprt.upper
    assert summary.reason.startswith(f"sequential test: stronger after {summary.sprt.pairs} of 200 pairs")
    weak = evaluate(config_for(tmp_path, black_model=str(models / "000001-test"), white_model="random", readouts=40,
                               games=400, sprt="0,100,0.05,0.05"))  # fmt: skip
    assert not weak.passed and weak.sprt is not None and weak.sprt.decision == "rejected"
    assert weak.games_played < 200


def test_a_promotion_by_the_sequential_test_tells_its_numbers(tmp_path, models, made_up_networks):
    names = {"black_model": f"{models}/best_model@0", "white_model": f"{models}/000001-test@60"}
    condition = {"require": ["random>=0.5"], "require_games": 8}
    config = config_for(tmp_path, games=400, sprt="0,200,0.1,0.1", **names, **condition)
    summary = evaluate(config)
    assert summary.promoted
    entry = read_promotions(models)[-1]
    assert (entry["challenger"], entry["over"], entry["by"]) == ("000001-test@60", "000000-test@0", "evaluate")
    assert entry["sprt"] == vars(summary.sprt) and entry["sprt"]["decision"] == "accepted"
    assert entry["conditions"]["random>=0.5"]["passed"] is True
    assert entry["match"] == summary.match and entry["reason"].startswith("sequential test: stronger")
    assert entry["time"] and entry["champion"] == "000001-test" and entry["previous"] == "000000-test"


def test_a_sequential_match_that_was_interrupted_ends_the_same(tmp_path, models, made_up_networks):
    config = config_for(tmp_path, black_model="random", white_model=str(models / "000001-test"), readouts=40, games=100,
                        sprt="0,60,0.05,0.05", parallel_games=4)  # fmt: skip
    whole = evaluate(config.model_copy(update={"output_dir": tmp_path / "whole"}))
    for after in (1, 5):
        with pytest.raises(KeyboardInterrupt):
            evaluate(config, Interrupting(after))
    resumed = evaluate(config.model_copy(update={"threads": 1, "parallel_games": 16}))
    assert resumed.sprt == whole.sprt and promised(resumed) == promised(whole)


@pytest.mark.parametrize("text", ["0,35", "0,35,0.05,x", "35,0,0.05,0.05", "0,35,0.05,0.7"])
def test_malformed_sequential_tests(tmp_path, models, text):
    with pytest.raises(UsageError, match="--sprt"):
        evaluate(config_for(tmp_path, sprt=text))


def test_a_sequential_test_that_could_never_accept(tmp_path, models):
    with pytest.raises(UsageError, match=r"--sprt .* accepts nothing before \d+ games; found --games 12"):
        evaluate(config_for(tmp_path, sprt="0,5,0.05,0.05"))


# Duplicates


def test_repeated_games_are_counted_and_excluded_on_request(tmp_path, models, made_up_networks):
    """Greedy players without openings: all games of a colour are the same one."""
    common = {"opening_plies": 0, "games": 20, "threshold": 0.999, "promote": False}
    counting = evaluate(config_for(tmp_path, **common, output_dir=tmp_path / "counting"))
    assert counting.duplicates >= counting.games_played - 2
    excluding = evaluate(config_for(tmp_path, **common, exclude_duplicates=True))
    match = read_match(Path(excluding.match))
    assert len(match.games) > 2 >= excluding.games_played == len({game.challenger_player for game in match.games})
    measured = measured_games(match)
    assert excluding.duplicates == len(measured) - len({(game.challenger_player, *game.moves) for game in measured})
    assert excluding.wins + excluding.draws + excluding.losses == excluding.games_played


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
    left = elsewhere / Path(summary.match).name / ".000000.sgf~elsewhere~5~20260101T000000~0123abcd.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    white = str(folder / "000001-test")
    evaluate(config_for(tmp_path, games=4, threshold=0.6, readouts=2, promote=False, white_model=white,
                        sgf_output=elsewhere))  # fmt: skip
    assert [path.read_text() for path in sorted(elsewhere.glob("*/*.sgf"))] == [path.read_text() for path in records]
    assert not left.exists()


def test_moves_without_a_value_are_not_called_an_opening(tmp_path, made_up_networks):
    white = str(make_model(tmp_path / "saved_models", spec="go:5"))
    summary = evaluate(config_for(tmp_path, white_model=white, black_model="heuristic", games=4, readouts=2,
                                  opening_plies=2))  # fmt: skip
    for path in (Path(summary.match) / "sgf").iterdir():
        moves = path.read_text().split(";")[2:]
        assert [i for i, move in enumerate(moves) if "opening" in move] == [0, 1]
        assert sum("to move]" in move for move in moves) == pytest.approx((len(moves) - 2) / 2, abs=0.5)


def test_no_sgf_for_tictactoe(tmp_path, models, made_up_networks):
    assert not (Path(evaluate(config_for(tmp_path)).match) / "sgf").exists()


# What it refuses


def test_processes_of_this_machine_and_a_cluster(tmp_path, models):
    """An error before the challenger is looked for."""
    with pytest.raises(UsageError, match=r"--workers 2: .* leave it out with --runner ray"):
        evaluate(config_for(tmp_path, workers=2, runner="ray", white_model=None))


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


def test_a_challenger_from_another_folder_joins_the_pool_itself(tmp_path, models):
    other = make_model(tmp_path / "other", number=1, seed=7)  # named like a model of the champion's folder
    assert evaluate(config_for(tmp_path, threshold=0, white_model=str(other))).promoted
    assert resolve_champion(models / "best_model") == other
    assert [member.spec for member in read_pool(tmp_path / "pool.json").members] == [str(other)]


@pytest.mark.parametrize("champion", ["best_model", "best_model@3"])
def test_trouble_with_the_pool_does_not_hide_a_promotion(tmp_path, models, made_up_networks, champion):
    (tmp_path / "pool.json").write_text("{")
    progress = Once()
    options = {"black_model": str(models / champion)}
    summary = evaluate(config_for(tmp_path, threshold=0.01, **options), progress)
    assert summary.promoted and read_match(Path(summary.match)).summary["promoted"] is True
    assert ["couldn't join the pool" in text for text in progress.warnings] == [True]
    (tmp_path / "pool.json").unlink()
    with pytest.raises(NotYet):  # the champion has no new challenger, and joins now
        evaluate(config_for(tmp_path, **options), Once())
    assert [member.name for member in read_pool(tmp_path / "pool.json").members] == ["000001-test"]
    after = read_match(Path(summary.match)).summary
    assert after["promoted"] is True and "not_in_pool" not in after


def test_a_condition_is_no_match_that_was_asked_for_by_name(tmp_path, models, made_up_networks):
    """It has a folder of its own, and the share that it asks for may change."""
    by_name = config_for(tmp_path, white_model=str(models / "000001-test"), black_model="random", games=8)
    evaluate(by_name)
    config = config_for(tmp_path, threshold=0.01, promote=False, require=["random>=1.0"], require_games=10)
    assert set(evaluate(config).conditions) == {"random>=1.0"}
    config = config.model_copy(update={"white_model": str(models / "000001-test")})
    again = evaluate(config.model_copy(update={"require": ["random>=0.01"]}))
    assert again.conditions["random>=0.01"].passed and again.passed
    with pytest.raises(UsageError, match=r"--require-games 12: .*was begun with 10"):
        evaluate(config.model_copy(update={"require_games": 12}))


def test_a_negative_threshold_is_for_games_that_count_several_points(tmp_path, models, made_up_networks):
    with pytest.raises(UsageError, match=r"--threshold: found -1; wanted at least 0, .*a game of tictactoe counts 1"):
        evaluate(config_for(tmp_path, threshold=-1.0))


def test_a_threshold_beside_a_sequential_test(tmp_path, models):
    with pytest.raises(UsageError, match=r"--threshold and --sprt: each decides"):
        evaluate(config_for(tmp_path, games=400, sprt="0,100,0.05,0.05", threshold=0.6))


def tracked(tmp_path: Path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "logs/evaluate/points.jsonl").read_text().splitlines()]


def test_a_match_is_tracked_once_by_the_models_training_step(tmp_path, models, made_up_networks, monkeypatch):
    monkeypatch.setattr(stage, "step_of", lambda manifest: 123)
    summary = evaluate(config_for(tmp_path, threshold=0.01))
    (line,) = tracked(tmp_path)
    assert line["evaluate/step"] == 123
    assert (line["evaluate/win_rate"], line["evaluate/score"]) == (summary.win_rate, summary.share)
    assert (line["evaluate/games"], line["evaluate/promoted"]) == (summary.games_played, summary.promoted)
    rated = rate(read_matches([tmp_path / "evaluate"])).ratings.by_name[f"{summary.challenger}@6"]
    assert line["evaluate/elo"] == rated.bradley_terry
    evaluate(config_for(tmp_path, threshold=0.01, readouts=2, white_model=str(models / "000000-test")))
    assert "evaluate/elo" not in tracked(tmp_path)[1]  # another player, with other readouts
    shutil.rmtree(tmp_path / "evaluate/000000-test-vs-000001-test")
    (tmp_path / "logs/evaluate/points.jsonl").write_text(json.dumps(line) + "\n")
    both = {"white_model": str(models / "000001-test"), "black_model": str(models / "000000-test")}
    evaluate(config_for(tmp_path, threshold=0.01, **both))
    assert len(tracked(tmp_path)) == 1  # the match had ended
    evaluate(config_for(tmp_path, black_model="random", white_model=str(models / "000001-test"), promote=False))
    second = tracked(tmp_path)[1]
    assert "evaluate/win_rate" not in second and second["evaluate/against/random/games"] == 12
    assert set(second) >= {"evaluate/elo", "evaluate/against/random/score"} and "evaluate/promoted" not in second
    evaluate(config_for(tmp_path, black_model="random", white_model="heuristic", promote=False, game="tictactoe"))
    assert len(tracked(tmp_path)) == 2  # no model


def test_matches_in_evaluates_inner_folders_are_tracked_and_rated_with_the_others(tmp_path, models, made_up_networks):
    evaluate(config_for(tmp_path, threshold=0.01))
    measured = config_for(tmp_path, black_model="random", white_model=str(models / "000001-test"), promote=False)
    evaluate(measured.model_copy(update={"output_dir": tmp_path / "evaluate" / layout.MEASURED}))
    _, second = tracked(tmp_path)
    assert "evaluate/against/random/games" in second and not (tmp_path / "evaluate/logs").exists()
    folders = [tmp_path / "evaluate", tmp_path / "evaluate" / layout.MEASURED]
    rated = rate(read_matches(folders)).ratings
    assert rated.anchor == "random" and second["evaluate/elo"] == rated.by_name["000001-test@6"].bradley_terry


def test_conditions_are_tracked_and_rated_where_no_game_decides(tmp_path, models, made_up_networks):
    summary = evaluate(config_for(tmp_path, threshold=0, require=["random>=0"], require_games=8))
    assert summary.promoted and summary.games_played == 0
    met = summary.conditions["random>=0"]
    (line,) = tracked(tmp_path)
    assert "evaluate/games" not in line and line["evaluate/promoted"] == 1.0
    assert line["evaluate/against/random/games"] == met.games_played == 8
    assert line["evaluate/against/random/win_rate"] == met.wins / 8
    assert line["evaluate/against/random/score"] == met.share
    rated = rate(read_matches(folders_of_matches(config_for(tmp_path)))).ratings
    name = f"{summary.challenger}@6"
    assert rated.anchor == "random" and line["evaluate/elo"] == rated.by_name[name].bradley_terry


def test_a_kill_before_the_decision_tracks_the_match_once(tmp_path, models, made_up_networks, monkeypatch):
    def killed(*arguments, **named):
        raise RuntimeError("killed")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(stage, "set_champion", killed)
        evaluate(config_for(tmp_path, threshold=0.01))
    assert not (tmp_path / "logs").exists()
    assert evaluate(config_for(tmp_path, threshold=0.01)).promoted and len(tracked(tmp_path)) == 1
