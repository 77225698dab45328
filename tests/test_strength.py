"""The strength benchmark: its clock, what it asks for, and a whole small run from an empty folder to a curve."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from benchmarks import strength
from benchmarks.handicap import Level, estimate
from benchmarks.loop_clock import Clock, run_loop
from benchmarks.measuring import champions, measurement_of, measurement_with
from benchmarks.strength import label_groups
from pipeline.errors import UsageError
from pipeline.matches.statistics import Score
from pipeline.presets import read_preset
from pipeline.progress import SILENT
from pipeline.run import atomic
from pipeline.run.matches import read_match
from tests.chaos.workshop import Workshop
from tests.helpers import make_champion
from tests.players.scripted_engine import engine_command

ROOT = Path(__file__).parent.parent
SMALL = [
    "init.network_size=b1c8", "selfplay.games=20", "selfplay.readouts=4", "gather.chunks_to_make=1", "train.epochs=1",
    "evaluate.games=4", "evaluate.readouts=2", "evaluate.threshold=0.01",
]  # fmt: skip


# The clock


def test_only_the_time_that_the_loop_ran_counts(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock.json", [(100.0, 160.0), (1000.0, 1030.0)])
    assert clock.seconds == 90
    assert [clock.seconds_at(run_state) for run_state in (50, 100, 130, 500, 1010, 5000)] == [0, 0, 30, 60, 70, 90]
    clock.write()
    assert Clock.read(clock.path) == clock
    assert Clock.read(tmp_path / "none.json").seconds == 0


def test_the_loop_runs_for_its_time(tmp_path: Path) -> None:
    loop = ["sleep", "60"]
    clock = Clock(tmp_path / "clock.json")
    assert run_loop(loop, clock, seconds=2, cores=1) is None
    assert 2 <= clock.seconds < 4

    resumed = Clock.read(clock.path)
    begun = time.monotonic()
    assert run_loop(loop, resumed, seconds=2, cores=1) is None  # it has had its time
    assert time.monotonic() - begun < 0.5
    assert run_loop(loop, resumed, seconds=4, cores=1) is None
    assert len(resumed.stretches) == 2 and 4 <= resumed.seconds < 6


def test_a_loop_that_ends_says_how(tmp_path: Path) -> None:
    assert run_loop(["bash", "-c", "exit 3"], Clock(tmp_path / "clock.json"), seconds=60, cores=1) == 3


# What is asked for


def test_a_preset_is_changed_line_by_line() -> None:
    sections = strength.changed_preset(
        "go9-tour", ["selfplay.games=7", "train.learning_rate=[{until: 2, value: .1}]"], 5
    )
    assert sections["selfplay"]["games"] == 7 and sections["init"]["seed"] == 5
    assert sections["train"]["learning_rate"] == [{"until": 2, "value": 0.1}]
    assert sections["gather"] == read_preset("go9-tour")["gather"]


@pytest.mark.parametrize(
    "change", ["games=7", "selfplay.games", "selfpaly.games=7", "selfplay.games=[1", "selfplay.gaems=7", "init.seed=7"]
)
def test_a_wrong_change_is_refused(change: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        strength.changed_preset("go9-tour", [change], 0)


def test_a_schedule_is_no_setting_of_a_measurement(tmp_path: Path) -> None:
    change = "evaluate.opening_plies=[{until: 5, value: 2}, {until: 6, value: 4}]"
    with pytest.raises(UsageError, match="opening_plies: found a schedule"):
        strength.prepare(tmp_path, strength.Settings("tictactoe", (change,), seed=0, cores=1, anchors=("random",)))


def test_a_run_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    settings = strength.Settings("tictactoe", ("selfplay.games=7",), seed=0, cores=1, anchors=("random", "heuristic"))
    preset = strength.prepare(tmp_path / "run", settings)
    assert read_preset(str(preset))["selfplay"]["games"] == 7
    assert strength.prepare(tmp_path / "run", settings) == preset
    with pytest.raises(UsageError, match="begun with seed 0"):
        strength.prepare(tmp_path / "run", replace(settings, seed=1))
    with pytest.raises(UsageError, match="wanted at least 1"):
        strength.prepare(tmp_path / "other", replace(settings, changes=("selfplay.games=0",)))
    assert not (tmp_path / "other" / "strength.json").exists()


def test_an_engine_installed_later_counts_until_something_is_measured(tmp_path: Path) -> None:
    without = strength.Settings("tictactoe", (), seed=0, cores=1, anchors=("random", "heuristic"))
    preset = strength.prepare(tmp_path, without)
    more = replace(without, anchors=("random", "heuristic", "gnugo-10"))
    assert strength.prepare(tmp_path, more) == preset
    assert json.loads((tmp_path / "strength.json").read_text())["anchors"] == ["random", "heuristic", "gnugo-10"]
    (tmp_path / "measured").mkdir()
    assert strength.prepare(tmp_path, without) == preset
    assert json.loads((tmp_path / "strength.json").read_text())["anchors"] == ["random", "heuristic", "gnugo-10"]


def test_anchors_side_by_side_share_a_label() -> None:
    elos = {"random": -900, "gnugo-1": -30, "gnugo-5": -70, "gnugo-10": 0}
    anchors = {name: {"elo": elo, "error": 100.0} for name, elo in elos.items()}
    assert label_groups(anchors, 50) == [("gnugo-10, gnugo-1, gnugo-5", -70), ("random", -900)]
    assert len(label_groups(anchors, 35)) == 3 and len(label_groups(anchors, 10)) == 4


# A whole run


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")
def test_from_an_empty_folder_to_a_curve(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    for name, value in workshop.loop_environment().items():
        monkeypatch.setenv(name, value)
    run = tmp_path / "run"
    measuring = ["--every", "1", "--games", "8", "--readouts", "4", "--verdict-games", "8", "--cores", "1"]
    changes = [word for change in SMALL for word in ("--set", change)]

    def command(minutes: float) -> list[str]:
        return ["run", str(run), "--preset", "tictactoe", "--minutes", str(minutes), *changes, *measuring]

    minutes = 0.1
    assert strength.main([*command(minutes), "--train-only"]) == 0
    while len(champions(run, 1)) < 2:  # a busy machine: more minutes go on with the same run
        assert (minutes := 2 * minutes) < 10, "not even one generation"
        assert strength.main([*command(minutes), "--train-only"]) == 0
    assert not (run / "measured").exists() and strength.main(command(minutes)) == 0
    found = json.loads((run / "curve.json").read_text())
    points = found["points"]
    assert [one["model"] for one in points] == [one.model.name for one in champions(run, 1)]
    for one, next_one in pairwise(points):
        assert one["minutes"] <= next_one["minutes"] <= found["minutes"] and one["games"] < next_one["games"]
        assert one["evaluations"] < next_one["evaluations"]
    assert points[0]["games"] == 0 and all(one["games"] % 20 == 0 for one in points)
    assert found["anchors"]["heuristic"] == {"elo": 0, "error": 0}
    assert found["anchors"]["random"]["elo"] < 0 < found["anchors"]["random"]["error"]
    assert [result["player"].rpartition("@")[2] for result in found["verdict"]] == ["4", "0", "800"]
    assert all(result["games"] >= 8 for result in found["verdict"])
    met = [match.name for match in (run / "measured").iterdir() if f"{points[-1]['model']}@4" in match.name]
    assert any("heuristic" not in name for name in met)  # the curve's last point hangs on more than the verdict
    assert {"selfplay", "train"} <= set(found["profile"])
    assert "<svg" in (run / "curve.svg").read_text()
    assert "against heuristic" in capsys.readouterr().out

    played = sorted((run / "measured").rglob("games.jsonl"))
    before = [path.read_text() for path in played]
    assert strength.main(command(minutes)) == 0  # all is there: nothing is played again
    assert [path.read_text() for path in played] == before
    assert json.loads((run / "curve.json").read_text()) == found

    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)
    shutil.copytree(run / "saved_models", other / "saved_models", symlinks=True)
    shutil.copy(run / "preset.yaml", other)
    capsys.readouterr()
    assert strength.main(["meet", str(run), str(other), "--games", "4", "--readouts", "3"]) == 0
    assert re.fullmatch(r"\d{6}-b1c8@3 against other-\d{6}-b1c8@3: .*\n", capsys.readouterr().out)
    assert strength.main([*command(minutes), "--against", str(other)]) == 0
    against = json.loads((run / "curve.json").read_text())["verdict"][-1]
    assert against["opponent"].startswith("other-") and against["games"] >= 8

    assert strength.main(["plot", str(run), "--output", str(tmp_path / "one.png")]) == 0
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    (other / "curve.json").write_text((run / "curve.json").read_text().replace('"readouts": 4', '"readouts": 5', 1))
    assert strength.main(["plot", str(run), str(other), "--output", str(tmp_path / "two.png")]) == 2


# Handicap, and several seeds


def go_run(folder: Path, seed: int) -> Path:
    """What a run of 7×7 Go leaves, as far as a champion is measured."""
    make_champion(folder / "saved_models", spec="go:7", size="b1c8", seed=seed)
    (folder / "preset.yaml").write_text("evaluate: {opening_plies: 4}\n")
    return folder


def test_a_run_without_a_preset_of_its_own_is_measured_with_the_usual_search(tmp_path: Path) -> None:
    run = go_run(tmp_path / "run", 1)
    assert measurement_of(run, SILENT)._terms == {"opening_plies": 4, "openings": None}
    (run / "preset.yaml").unlink()  # as ./rl_loop.sh leaves it
    assert measurement_of(run, SILENT)._terms == {"openings": None}


def test_a_model_against_stones_and_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = "fake=gtp:" + engine_command("bonus")
    model = make_champion(tmp_path / "saved_models", spec="go:7", size="b1c8")
    words = ["--opponent", engine, "--readouts", "2", "--games", "4"]
    asked = ["handicap", str(model), *words, "--stones", "2", "0", "--output", str(tmp_path / "matches")]
    assert strength.main(asked) == 0
    name = f"{model.name}@2"
    out = capsys.readouterr()
    assert re.match(rf"handicap at which {name} scores half against fake, in stones: ", out.out)
    even, two = (read_match(tmp_path / "matches" / f"{name}-vs-fake{stones}") for stones in ("", "-h2"))
    assert (even.header.handicap, two.header.handicap) == (0, 2)
    assert len(even.games) == len(two.games) == 4 and all(len(game.stones) == 2 for game in two.games)
    assert [game.opening_plies for game in (*even.games, *two.games)] == [6] * 4 + [0] * 4
    assert "with no stones" in out.err and "with 2 stones" in out.err
    before = (tmp_path / "matches" / f"{name}-vs-fake-h2" / "games.jsonl").read_bytes()
    assert strength.main(asked) == 0  # nothing is played again
    assert (tmp_path / "matches" / f"{name}-vs-fake-h2" / "games.jsonl").read_bytes() == before

    runs = [go_run(tmp_path / f"s{seed}", seed) for seed in (1, 2)]
    capsys.readouterr()
    assert strength.main(["handicap", *map(str, runs), *words, "--stones", "2"]) == 0
    *each, spread = capsys.readouterr().out.splitlines()
    assert len(each) == 2 and spread.startswith("half at ") and "s1-" in each[0] and "s2-" in each[1]
    assert (runs[0] / "measured" / f"{model.name}@2-vs-fake-h2").is_dir()  # as `run` calls it


def test_a_model_of_all_boards_against_points_of_komi(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = "fake=gtp:" + engine_command("bonus")
    model = make_champion(tmp_path / "saved_models", spec="go:any", size="b1c8")
    asked = ["komi", str(model), "--opponent", engine, "--readouts", "2", "--games", "4", "--board", "7"]
    assert strength.main([*asked, "--points", "0", "4.5", "--output", str(tmp_path / "matches")]) == 0
    name = f"{model.name}@2"
    out = capsys.readouterr()
    assert re.match(rf"handicap at which {name} scores half against fake, in points of komi: ", out.out)
    matches = [read_match(tmp_path / "matches" / moved / f"{name}-vs-fake") for moved in ("komi+0-7", "komi+4.5-7")]
    assert [match.header.game for match in matches] == ["go:7", "go:7,komi=12"]
    assert [line.split(" points")[0] for line in out.err.splitlines() if "points: " in line] == ["-4.5", "+0", "+4.5"]
    assert strength.main([*asked, "--points", "1", "--output", str(tmp_path / "one-sided")]) == 0
    assert strength.main(["komi", str(make_champion(tmp_path / "nine", spec="go:9", size="b1c8")), *asked[2:]]) == 2


def test_which_side_is_ahead_by_how_much() -> None:
    """By hand: komi moved by 5 puts the other one 5 ahead where one is black, 5 behind where one is white."""

    class Moved:
        def __init__(self, moved: float) -> None:
            self.moved = moved

        def play(self, one: str, other: str, games: int) -> None:
            assert (one, other, games) == ("a", "b", 40)

        def score_as(self, colour: int, one: str, other: str) -> Score:
            return {(0, 0): Score(14, 0, 6), (0, 1): Score(16, 0, 4), (5, 0): Score(4, 0, 16), (5, 1): Score(20, 0, 0)}[
                int(self.moved), colour
            ]

    found = strength.points_of_komi(Moved, "a", "b", [0, 5], 40)  # type: ignore[arg-type]
    levels = {level.amount: (level.score.wins, level.score.games) for level in found.levels}
    assert levels == {-5: (20, 20), 0: (30, 40), 5: (4, 20)}
    assert found.unit == "points of komi" and found.half == pytest.approx(2.4, abs=0.6)


def test_a_run_goes_on_with_stones_after_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = go_run(tmp_path / "run", 3)
    settings = strength.Settings("go9", (), seed=3, cores=1, anchors=("random", "fake"))
    atomic.write_json(run / "strength.json", json.loads(json.dumps(vars(settings))))
    anchors = ["random", "fake=gtp:" + engine_command("bonus")]
    monkeypatch.setattr(strength, "known_anchors", lambda run, game: anchors)
    monkeypatch.setattr(strength, "VERDICT_READOUTS", (0,))
    monkeypatch.setattr(strength, "LEAST_SHARE", 0.0)
    options = strength.parse(
        ["run", str(run), "--readouts", "2", "--verdict-games", "4", "--games", "4", "--handicap-games", "2"]
    )
    clock = Clock(run / "clock.json", [(100.0, 160.0)])
    measurement, verdict = strength.measure(run, options, SILENT)
    strength.report(run, clock, measurement, verdict, options.readouts)
    found = json.loads((run / "curve.json").read_text())["handicap"]
    assert found["opponent"] == "fake" and found["unit"] == "stones"
    # of the even games half count, those in which the engine has black; 7×7 has four stones at most
    played = {one["amount"]: one["wins"] + one["draws"] + one["losses"] for one in found["levels"]}
    assert played == {1: 2, 2: 2, 3: 2, 4: 2}
    name = next(iter(verdict.results)).player
    assert f"handicap at which {name} scores half against fake, in stones: " in capsys.readouterr().out
    assert {path.name for path in (run / "measured").iterdir()} >= {f"{name}-vs-fake-h{stones}" for stones in (2, 3, 4)}
    options.handicap_games = 0
    assert strength.measure(run, options, SILENT)[1].handicap is None


def test_the_even_games_that_count_are_those_in_which_the_engine_has_black(tmp_path: Path) -> None:
    model = make_champion(tmp_path / "saved_models", spec="go:7", size="b1c8")
    measurement = measurement_with({}, model, tmp_path / "matches", SILENT)
    score = measurement.with_stones("heuristic", "random", 0, 8)
    match = read_match(next(path for path in (tmp_path / "matches").iterdir() if path.is_dir()))
    blacks = [game for game in match.games if match.header.players[game.challenger_player].name == "random"]
    assert score.games == 4 == len(blacks)  # player 0 is black: side 0 has it where the challenger is player 0
    assert score.wins == sum(game.result_first_player < 0 for game in blacks)
    with_stones = measurement.with_stones("heuristic", "random", 2, 6)
    assert with_stones.games == 6


def test_larger_handicaps_are_not_tried_once_hardly_anything_is_won(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Measured:
        def with_stones(self, one: str, other: str, stones: int, games: int) -> Score:
            asked.append((one, other, stones, games))
            return {0: Score(9, 0, 1), 2: Score(4, 0, 6), 3: Score(0, 1, 9)}[stones]

    found = strength.handicap(Measured(), "a", "b", {0: 10, 2: 20, 3: 20, 4: 20}, SILENT)  # type: ignore[arg-type]
    assert asked == [("a", "b", 0, 10), ("a", "b", 2, 20), ("a", "b", 3, 20)]
    assert found.half == pytest.approx(1.86, abs=0.05)


def curve_of(seed: int, share: float, half: float | None, **changes: object) -> dict[str, object]:
    found = estimate([Level(2, Score(60, 0, 40)), Level(3, Score(30, 0, 70))])
    verdict = [{"opponent": "gnugo-10", "player": f"00007{seed}-a@{readouts}", "share": share} for readouts in (200, 0)]
    settings = {"preset": "go9", "changes": [], "seed": seed, "cores": 2, "anchors": ["gnugo-10"]}
    handicap = {"opponent": "gnugo-10", **found.as_json(), "half": half}
    return {
        "game": "go:9", "readouts": 200, "minutes": 120.5, "settings": settings, "verdict": verdict,
        "handicap": handicap, **changes,
    }  # fmt: skip


def test_what_seeds_come_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str, curve: dict[str, object]) -> str:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "curve.json").write_text(json.dumps(curve))
        return str(tmp_path / name)

    runs = [
        write(f"s{seed}", curve_of(seed, share, half))
        for seed, share, half in ((3, 0.9, 2.5), (4, 0.8, 2.0), (5, 0.85, 3.0))
    ]
    assert strength.main(["seeds", *runs]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "go:9, seeds 3, 4, 5, 3 runs" and out[1].startswith("minutes on 2 cores: mean 120.5")
    assert out[2] == (
        "against gnugo-10 with 200 readouts: 90.0%, 80.0%, 85.0%; "
        "mean 85.0%, standard deviation between runs 5.0%, 80.0% to 90.0%, 3 runs"
    )
    assert out[3].startswith("against gnugo-10 with 0 readouts") and len(out) == 5
    assert out[4].endswith("half at mean 2.50, standard deviation between runs 0.50, 2.00 to 3.00, 3 runs")
    assert strength.main(["seeds", runs[0], write("open", curve_of(6, 0.9, None))]) == 0
    assert "no mean, since not all are numbers" in capsys.readouterr().out
    assert strength.main(["seeds", runs[0], write("none", curve_of(6, 0.9, 2.0, handicap=None))]) == 0
    assert "half at" not in capsys.readouterr().out
    overlapped = {**curve_of(7, 0.9, 2.0)["settings"], "overlap": True}  # type: ignore[dict-item]
    assert strength.main(["seeds", runs[0], write("wrong", curve_of(7, 0.9, 2.0, settings=overlapped))]) == 2
    assert "differ in overlap" in capsys.readouterr().err
    other = {**curve_of(7, 0.9, 2.0)["settings"], "preset": "go9-tour"}  # type: ignore[dict-item]
    for curve in (curve_of(7, 0.9, 2.0, readouts=50), curve_of(7, 0.9, 2.0, settings=other), curve_of(3, 0.9, 2.0)):
        assert strength.main(["seeds", runs[0], write("wrong", curve)]) == 2


@pytest.mark.parametrize("words", [["--stones", "1"], ["--stones", "-2"], ["--games", "3"]])
def test_wrong_handicaps(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        strength.main(["handicap", "pretrained/go9", *words])
    assert stopped.value.code == 2


@pytest.mark.parametrize("opponent", ["pretrained/go9", "strong=pretrained/go9@100"])
@pytest.mark.parametrize("command", ["handicap", "komi"])
def test_a_model_is_no_opponent_that_takes_stones_or_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, opponent: str
) -> None:
    words = ["pretrained/go9", "--games", "2", "--readouts", "1", "--output", str(tmp_path / "matches")]
    assert strength.main([command, *words, "--opponent", opponent]) == 2
    assert "a model; wanted an engine" in capsys.readouterr().err and not (tmp_path / "matches").exists()


def test_a_model_needs_a_folder_for_its_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert strength.main(["handicap", "pretrained/go9", "--opponent", "random"]) == 2
    assert "--output FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--every", "0"],
        ["--games", "7"],
        ["--verdict-games", "0"],
        ["--cores", "0"],
        ["--against", "nowhere"],
        ["--readouts", "-1"],
    ],
)
def test_what_would_be_wrong_later_is_said_at_once(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        strength.main(["run", str(tmp_path / "run"), "--preset", "tictactoe", *words])
    assert stopped.value.code == 2 and not (tmp_path / "run").exists()


def test_a_run_of_another_game_is_no_opponent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(strength, "train", lambda *given: pytest.fail("nothing is to be trained"))
    other = go_run(tmp_path / "other", 1)
    words = ["run", str(tmp_path / "run"), "--preset", "tictactoe", "--cores", "1", "--against", str(other)]
    assert strength.main(words) == 2
    assert "a run of go:7; wanted one whose champion plays tictactoe" in capsys.readouterr().err


def test_more_games_than_a_file_has_openings_are_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []
    monkeypatch.setattr(strength, "train", lambda run, *rest: begun.append(run.name))
    for games, code in (("302", 2), ("300", 0)):
        words = ["--preset", "go9", "--cores", "1", "--verdict-games", games, "--train-only"]
        assert strength.main(["run", str(tmp_path / games), *words]) == code
    assert begun == ["300"] and "--verdict-games 302: wanted at most 300" in capsys.readouterr().err


@pytest.mark.parametrize(("readouts", "lines"), [(200, [200, 0, 800]), (0, [0, 800]), (800, [800, 0])])
def test_no_line_of_the_verdict_is_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readouts: int, lines: list[int]
) -> None:
    played = []

    class Played:
        game = "tictactoe"

        def play(self, one: str, other: str, games: int, seed: int) -> str:
            played.append((int(one.rpartition("@")[2]), seed))
            return one

        def place(self, one: str, others: list[str], games: int) -> None:
            pass

    make_champion(tmp_path / "saved_models")
    monkeypatch.setattr(strength, "measurement_of", lambda run, progress: Played())
    monkeypatch.setattr(strength, "known_anchors", lambda run, game: ["heuristic"])
    strength.measure(tmp_path, strength.parse(["run", str(tmp_path), "--readouts", str(readouts)]), SILENT)
    assert played == [(one, seed) for seed, one in enumerate(lines)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_however_it_is_stopped_no_loop_is_left_and_the_clock_is_written(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    words = ["run", str(run), "--preset", "tictactoe", "--minutes", "5", "--cores", "1"]
    environment = {**os.environ, "MUGO_PYTHON": sys.executable}
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.strength", *words], cwd=ROOT, env=environment)
    family: list[psutil.Process] = []
    until = time.monotonic() + 60
    while time.monotonic() < until and not (run / "clock.json").exists():
        time.sleep(0.2)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(number)
    assert process.wait(60) == code
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    assert Clock.read(run / "clock.json").seconds > 3
    # Nobody else may be at work on a run.
    with atomic.file_lock(run / "strength.json", wait=False):
        busy = subprocess.run(
            [sys.executable, "-m", "benchmarks.strength", *words], cwd=ROOT, env=environment, capture_output=True
        )
    assert busy.returncode == 75 and b"another process is at work" in busy.stderr
