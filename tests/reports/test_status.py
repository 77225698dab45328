"""``status``: its facts, its warnings, and its forms: screen, JSON and Prometheus."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pipeline import main
from pipeline.errors import FileError
from pipeline.methods.method import Measure
from pipeline.reports import reading, run_files
from pipeline.reports import status as status_module
from pipeline.reports.config import StatusConfig
from pipeline.reports.status import FINISHED, NOT_SEEN, RUNNING, UNKNOWN, StatusSummary, Trained, status
from pipeline.reports.status_metrics import exposition
from pipeline.reports.status_screen import screen
from pipeline.reports.summaries import summary_json
from pipeline.run import atomic, layout, packs
from pipeline.run.matches import match_lock, write_summary
from pipeline.run.models import set_champion
from pipeline.run.ratings import RatedPlayer, Ratings, write_record
from tests.reports.test_show import make_match, make_model, match_game, player
from tests.reports.test_show_games import LEFT_COLUMN, record
from tests.run.random_games import write_shard

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
sees_locks = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists the locks held")


def metrics(before: float, after: float) -> dict[str, object]:
    train = {"policy": 1.5, "value_mse": 0.75}
    return {"train": train, "holdout_before": {"policy": before}, "holdout_after": {"policy": after}}


def shard_at(
    run: Path, time: datetime, worker: str = "w00", model: str = "000000-m", evaluations: int = 0, generation: int = 0
) -> Path:
    """A shard of two games with seven positions, as if written at that time."""
    games, where = [record(LEFT_COLUMN), record([4, 0])], {"generation": generation}
    path = write_shard(run / "data/selfplay", model, worker, "tictactoe", games, where, evaluations)
    written = layout.parse_shard_name(path.name)
    assert written is not None
    name = layout.ShardName(time, written.number)
    os.rename(path.with_suffix(".meta"), path.with_name(name.meta))
    return path.rename(path.with_name(name.shard))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two models, of which the first is the champion; three shards within two minutes; a match of three games."""
    models = tmp_path / "saved_models"
    models.mkdir()
    first = make_model(models, 0, [], {})
    window = {"positions": 60, "capacity": 80, "max_positions": 100, "total_positions": 93, "counted_shards": {}}
    second = make_model(models, 1, [first], {"metrics": metrics(2.5, 2.25), "window": window})
    set_champion(models, models / first, {"reason": "init"})
    for seconds in (150, 90, 30):
        shard_at(tmp_path, NOW - timedelta(seconds=seconds), evaluations=600)
    match = make_match(tmp_path / f"data/evaluate/{second}-vs-{first}", (player(second), player(first)), [[0], [0]])
    match.add([match_game(index, LEFT_COLUMN, 1) for index in (0, 1, 2)])
    return tmp_path


def look(run: Path, now: datetime = NOW) -> StatusSummary:
    return status(StatusConfig(directory=run), now=now)


def text_of(summary: StatusSummary, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(screen(summary))
    return out.getvalue()


# What it finds


def test_facts_of_a_run(run: Path) -> None:
    summary = look(run)
    assert (summary.game, summary.generation, summary.champion, summary.promotions) == ("tictactoe", 1, "000000-m", 0)
    assert summary.champion_since is not None and not summary.warnings and not summary.ratings
    assert summary.play.shards == 3 and summary.play.positions == 93 + 21 and summary.play.positions_exact
    assert summary.play.newest_shard == NOW - timedelta(seconds=30)
    assert summary.window is not None and summary.window.positions == 60 and summary.window.max_positions == 100
    assert summary.trainings[-1].measures == {
        "policy": Trained("policy loss", False, 1.5, 2.25, 2.5, is_error=True),
        "value_mse": Trained("value error", False, 0.75, None, None, is_error=True),  # not measured on held-out games
    }
    assert [(one.worker, one.shards) for one in summary.workers] == [("w00", 3)]
    assert summary.disk.used_bytes.keys() == {"data", "evaluate", "saved_models", "selfplay"}


def test_tables_have_columns_for_what_was_measured_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = text_of(look(run))
    assert "policy loss   held out   value error  " in shown and shown.count("held out") == 1 and " – " not in shown
    path = run / "saved_models/000001-m/model.json"
    raw = json.loads(path.read_text())
    raw["manifest"] = {"metrics": {"train": {"total": 0.5, "error": 0.00123, "legal": 0.75}}}
    path.write_text(json.dumps(raw))
    with monkeypatch.context() as patch:
        measures = {"error": Measure(heading="error, points"), "legal": Measure(True, "legal moves")}
        patch.setattr(status_module, "tabled", lambda info: measures)
        shown = text_of(look(run))
        assert 'mugo_loss{model="000001-m",term="error",set="training"} 0.00123' in exposition(look(run))
    assert "error, points" in shown and "0.00123" in shown and "75.0 %" in shown
    assert "held out" not in shown and "policy" not in shown
    raw["manifest"]["metrics"]["holdout_after"] = {"error": 0.5, "total": 4}
    path.write_text(json.dumps(raw))
    with monkeypatch.context() as patch:
        measures |= {"total": Measure(heading="loss"), "kl": Measure(heading="KL, nats")}
        patch.setattr(status_module, "tabled", lambda info: measures)
        shown = text_of(look(run))
    assert "0.00123" not in shown and re.search(r"0\.500 +75\.0 % +4\.000 ", shown)  # three: one column each
    assert "KL" not in shown
    raw["method"] = "of-a-package-that-is-not-here"
    path.write_text(json.dumps(raw))
    assert "training ──" not in text_of(look(run))


def test_a_window_of_games_is_shown_in_games(run: Path) -> None:
    path = run / "saved_models/000001-m/model.json"
    raw = json.loads(path.read_text())
    raw["manifest"]["window"] |= {"games": 150, "max_games": 200}
    path.write_text(json.dumps(raw))
    shown = text_of(look(run))
    assert "150 of 200 games" in shown and "75 %" in shown


def test_rates_are_from_the_first_shard_to_the_last_of_the_last_hour(run: Path) -> None:
    shard_at(run, NOW - timedelta(hours=3))
    play = look(run).play  # two shards of two games and seven positions within two minutes
    assert play.games_per_hour == pytest.approx(4 * 30) and play.positions_per_hour == pytest.approx(14 * 30)
    assert play.evaluations_per_second == pytest.approx(2 * 600 / 120)
    later = look(run, NOW + timedelta(days=400)).play  # a run that ended long ago has the same
    assert later == play


def test_rates_of_several_workers_add_up(run: Path) -> None:
    for seconds in (140, 80):
        shard_at(run, NOW - timedelta(seconds=seconds), "w01", evaluations=300)
    summary = look(run)
    assert summary.play.evaluations_per_second == pytest.approx(2 * 600 / 120 + 300 / 60)
    assert [(one.worker, one.shards) for one in summary.workers] == [("w00", 3), ("w01", 2)]


def test_evaluations_per_second_leave_out_what_is_between_generations(run: Path) -> None:
    later = NOW + timedelta(minutes=30)
    shard_at(run, later, evaluations=300, generation=1)  # the first of its folder tells nothing yet
    assert look(run, later).play.evaluations_per_second == pytest.approx(2 * 600 / 120)
    shard_at(run, later + timedelta(seconds=20), evaluations=300, generation=1)
    assert look(run, later).play.evaluations_per_second == pytest.approx(300 / 20)


def test_evaluations_per_second_leave_out_a_stop(run: Path) -> None:
    later = NOW + timedelta(minutes=50)  # in the same generation
    for seconds in (0, 20, 40):
        shard_at(run, later + timedelta(seconds=seconds), evaluations=300)
    assert look(run, later).play.evaluations_per_second == pytest.approx(2 * 300 / 40)


def test_all_workers_of_the_newest_generations_count(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample represents older generations, which don't count for the rates."""
    monkeypatch.setattr(run_files, "NEWEST", 2)
    monkeypatch.setattr(run_files, "SPREAD", 1)
    monkeypatch.setattr(run_files, "MOST_WITHIN", 6)
    for generation, minutes in ((0, 20), (1, 10), (2, 0)):
        for worker in range(5):
            shard_at(run, NOW - timedelta(minutes=minutes, seconds=worker), f"w{worker:02d}", generation=generation)
    files = run_files.scan_run(run, whole=False)
    seen = [sum(shard.generation == generation for shard in files.shards) for generation in range(3)]
    assert seen == [3, 5, 5] and files.whole_from == 1 and files.num_shards == 3 * 5 and not files.is_whole
    summary = look(run)
    assert len(summary.workers) == 5
    assert summary.play.games_per_hour == pytest.approx(9 * 2 * 3600 / 604)


def test_of_many_shards_a_few_are_opened(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "MOST_READ", 10)
    opened = []
    meta_of = reading.meta_of
    monkeypatch.setattr(reading, "meta_of", lambda shard, *rest: opened.append(shard) or meta_of(shard, *rest))
    for seconds in range(200, 3000, 60):
        shard_at(run, NOW - timedelta(seconds=seconds))
    play = look(run).play
    assert play.shards == 50 and len(opened) == 10
    assert play.games_per_hour == pytest.approx(49 * 2 / (2930 / 3600), rel=1e-3)
    assert (play.positions, play.positions_exact) == (93 + 50 * 7, False)
    assert "about 443" in text_of(look(run))


def test_match_before_and_after_its_decision(run: Path) -> None:
    match = look(run).match
    assert match is not None and match.decision == "not decided"
    assert (match.games, match.games_played, match.wins, match.losses) == (4, 3, 2, 1)
    folder = run / "data/evaluate/000001-m-vs-000000-m"
    summary = {"games": 4, "games_that_count": 4, "measured": 4, "wins": 2, "draws": 0, "losses": 1}
    write_summary(folder, {**summary, "points_needed": 2.0, "promoted": True})
    match = look(run).match
    assert match is not None and match.decision == "promoted" and match.points_share_needed == 0.5
    write_summary(folder, {**summary, "games_that_count": 3, "points_needed": 1.5})  # where a duplicate doesn't count
    match = look(run).match
    assert match is not None and match.decision == "not promoted" and match.points_share_needed == 0.5
    assert (
        match.points_share == pytest.approx(2 / 3) and 0 < match.points_share_low < 2 / 3 < match.points_share_high < 1
    )


def test_promotion_conditions_of_the_last_match(run: Path) -> None:
    met = {"passed": True, "wins": 133, "draws": 0, "losses": 67, "match": "data/evaluate/required/1-vs-random"}
    conditions = {"random>=0": met, "heuristic>=0.5": met | {"passed": False, "wins": "?"}, "damaged": 3}
    write_summary(
        run / "data/evaluate/000001-m-vs-000000-m",
        {"games": 4, "measured": 4, "wins": 0, "promoted": True, "conditions": conditions},
    )
    shown = " ".join(text_of(look(run)).replace("│", " ").split())
    assert "random>=0 met: 133 won, 0 drawn, 67 lost of 200 games, in data/evaluate/required/1-vs-random" in shown
    assert "heuristic>=0.5 not met: 0 won, 0 drawn, 67 lost of 67 games" in shown and "damaged" not in shown


def test_last_match_is_the_newest_model_s(run: Path) -> None:
    other = player("random", kind="random", readouts=None, weights="")
    make_match(run / "data/evaluate/heuristic-vs-random", (player("heuristic"), other), [[0]])
    make_match(run / "data/evaluate/000001-m-vs-random", (player("000001-m"), other), [[0]])  # it can't promote
    match = look(run).match
    assert match is not None and (match.challenger, match.champion) == ("000001-m", "000000-m")


def test_ratings_best_first(run: Path) -> None:
    players = [RatedPlayer(name="000001-m@16", bradley_terry=120.0), RatedPlayer(name="random", kind="random")]
    ratings = Ratings(game="tictactoe", anchor="random", anchor_elo=0, matches=1, games=3, players=players)
    write_record(run / "data/ratings.json", ratings)
    assert [one.name for one in look(run).ratings] == ["000001-m@16", "random"]


def test_run_that_has_hardly_begun(tmp_path: Path) -> None:
    (tmp_path / "data/selfplay").mkdir(parents=True)
    summary = look(tmp_path)
    assert summary.generation is summary.champion is summary.match is summary.play.games_per_hour is None
    assert summary.play.positions == 0 and "none yet" in text_of(summary) and exposition(summary).endswith("\n")


@pytest.mark.parametrize("width", [20, 40, 59, 60, 200])
def test_a_terminal_of_any_width(run: Path, width: int) -> None:
    shown = io.StringIO()
    Console(file=shown, width=width).print(screen(look(run)))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    narrow = width < 60
    assert any("now" in line and "self-play" in line for line in lines) != narrow
    assert any("000000-m" in line for line in lines)


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FileError, match="wanted one with saved_models/ or data/selfplay/"):
            look(path)
        assert CliRunner().invoke(main.app, ["status", str(path)]).exit_code == 1


def test_what_watch_cannot_do_is_refused(run: Path) -> None:
    for other in (["--json"], ["--verbose", "2"], ["--prometheus"]):
        refused = CliRunner().invoke(main.app, ["status", str(run), "--watch", *other])
        assert refused.exit_code == 2 and "exclude each other" in refused.output


def test_nothing_is_written(run: Path) -> None:
    (run / "saved_models/.promotions.jsonl.intent").write_text("{}")  # a promotion that a kill interrupted

    def listing() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in [run, *run.rglob("*")]}

    before = listing()
    look(run)
    assert listing() == before


# What is at work


@sees_locks
def test_locks_tell_the_stage(run: Path) -> None:
    assert (look(run).loop, look(run).stages) == (NOT_SEEN, ("selfplay",))  # its newest shard is young
    training = run / "data/training_data"
    checkpoint = layout.checkpoint_path(run / "saved_models/000002-m")
    for folder in (training, checkpoint):
        folder.mkdir()
    late = NOW + timedelta(minutes=5)
    for stage, lock in (
        ("gather", atomic.file_lock(training / "sets")),
        ("train", atomic.file_lock(checkpoint / "checkpoint.safetensors")),
        ("evaluate", match_lock(run / "data/evaluate/000001-m-vs-000000-m")),
        ("evaluate", match_lock(run / "data/evaluate/required/000001-m-vs-random")),
        ("tournament", match_lock(run / "data/tournament")),
    ):
        with lock:
            assert look(run, late).stage == stage
    assert look(run, late).begun == ("000002-m",)


@sees_locks
def test_loop_that_holds_its_lock(run: Path) -> None:
    late = NOW + timedelta(minutes=5)
    with ExitStack() as stack:
        lock = stack.enter_context(open(run / "data/.loop.lock", "w"))
        assert look(run, late).loop == NOT_SEEN and look(run, late).stage == UNKNOWN
        assert look(run, NOW + timedelta(hours=1)).stage == "none"
        fcntl.flock(lock, fcntl.LOCK_EX)
        # All games are of the generation before the newest model, so the loop's stage is unknown.
        assert look(run, late).loop == RUNNING and look(run, late).stage == UNKNOWN
        (run / "data/selfplay/000001+000000-m/w07").mkdir(parents=True)  # self-play makes it before it plays
        assert look(run, late).stage == "selfplay"
        stack.enter_context(match_lock(run / "data/evaluate/000001-m-vs-000000-m"))
        assert look(run).stage == "evaluate"  # though a shard is young: the loop runs one stage at a time


@sees_locks
def test_self_play_holds_the_lock_of_its_worker(run: Path) -> None:
    late = NOW + timedelta(minutes=5)
    assert look(run, late).stages == ()
    with packs.packing(run / "data/selfplay"):  # compact's and prune's is no worker's
        assert look(run, late).stages == ()
    with atomic.file_lock(run / "data/selfplay/w03"):
        assert look(run, late).stages == ("selfplay",)
        assert "or has just ended" not in text_of(look(run), width=160)
    assert "or has just ended" in text_of(look(run), width=160)  # by its newest games


def test_where_the_system_lists_no_locks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "held_locks", lambda: None)
    summary = look(run, NOW + timedelta(hours=5))
    assert summary.loop == UNKNOWN and summary.stage == UNKNOWN
    assert "mugo_loop_running" not in exposition(summary) and "mugo_stage_running" not in exposition(summary)


# What it warns of


@pytest.mark.parametrize(
    "file",
    [
        "data/selfplay/000000-m/w00/20261121T115930.000000-000003.meta",
        "saved_models/000001-m/model.json",
        "data/evaluate/000001-m-vs-000000-m/games.jsonl",
        "data/evaluate/000001-m-vs-000000-m/summary.json",
        "data/ratings.json",
    ],
)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\x00\xff", b'{"format": "x", "wins": -3, "games": null}'])
def test_damaged_files_are_named(run: Path, file: str, content: bytes) -> None:
    (run / file).write_bytes(content)
    summary = look(run)
    assert summary.play.shards == 3
    assert any(str(run / file) in warning for warning in summary.warnings)
    assert Path(file).name in text_of(summary, width=300)
    json.loads(summary_json(summary))


def test_odd_numbers_in_a_manifest_count_as_unknown(run: Path) -> None:
    path = run / "saved_models/000001-m/model.json"
    raw = json.loads(path.read_text())
    raw["manifest"] = {"metrics": {"train": {"policy": float("nan"), "value": "x"}, "holdout_after": None}, "window": 3}
    path.write_text(json.dumps(raw))
    summary = look(run)
    assert summary.trainings[-1].measures == {} and summary.window is None
    json.loads(summary_json(summary), parse_constant=lambda name: pytest.fail(name))


def test_champion_that_is_gone(run: Path) -> None:
    link = run / "saved_models/best_model"
    link.unlink()
    link.symlink_to("000009-gone")
    summary = look(run)
    assert summary.champion is None and "000009-gone" in summary.warnings[0]


@sees_locks
def test_loop_without_new_games(run: Path) -> None:
    with open(run / "data/.loop.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not look(run, NOW + timedelta(minutes=10)).warnings
        assert look(run, NOW + timedelta(hours=2)).warnings == (
            "no new games for 2.0 h, though the loop is running (stage: unknown); see its log",
        )
        shard_at(run, NOW - timedelta(hours=8))  # breaks like this one are usual here
        assert not look(run, NOW + timedelta(hours=2)).warnings


@sees_locks
def test_breaks_between_generations_are_usual_however_many_shards_these_have(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_module, "MOST_READ", 2)
    shard_at(run, NOW - timedelta(hours=8))  # three shards are newer
    with open(run / "data/.loop.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not look(run, NOW + timedelta(hours=2)).warnings


@sees_locks
def test_the_time_before_the_loop_began_is_no_break_of_its_games(run: Path) -> None:
    shard_at(run, NOW - timedelta(minutes=1))
    began = NOW + timedelta(hours=10)
    (run / layout.LOOP_FILE).write_text(json.dumps({"began": f"{began:%FT%T}+00:00"}))
    with open(run / "data/.loop.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not look(run, began + timedelta(seconds=30)).warnings
        assert "no new games for 2.0 h" in look(run, began + timedelta(hours=2)).warnings[0]


@sees_locks
def test_generations_that_were_not_looked_at_are_no_break(run: Path) -> None:
    (run / "data/selfplay/000000-m").rename(run / "data/selfplay/000007-m")
    shard_at(run, NOW - timedelta(days=8))
    with open(run / "data/.loop.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert any(text.startswith("no new games for 2.0 h") for text in look(run, NOW + timedelta(hours=2)).warnings)


def test_a_few_seconds_tell_no_rate_per_hour(run: Path) -> None:
    for path in (run / "data/selfplay").rglob("*.*"):
        path.unlink()
    for seconds in (4, 2, 0):
        shard_at(run, NOW - timedelta(seconds=seconds), evaluations=600)
    summary = look(run)
    assert summary.play.games_per_hour is None and summary.play.positions_per_hour is None
    assert summary.disk.seconds_until_full is None and summary.play.evaluations_per_second == pytest.approx(300)


def test_a_finished_run_says_so_and_grows_no_more(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "LEAST_GROWTH_SECONDS", 60.0)
    file = run / layout.LOOP_FILE
    for ended, is_over in (("", False), ("soon", False), (f"{NOW - timedelta(seconds=50):%FT%T}+00:00", False),
                           (f"{NOW:%FT%T}+00:00", True)):  # fmt: skip
        file.write_text(json.dumps({"seconds": 1, "ended": ended}))
        summary = look(run)
        assert (summary.loop == FINISHED) == is_over, ended
        assert (summary.disk.seconds_until_full is None) == is_over
    assert (summary.stage, summary.stages, summary.is_guess) == ("none", (), False)
    assert "loop         finished" in text_of(summary) and "full in" not in text_of(summary)
    assert "mugo_loop_running 0" in exposition(summary)
    file.write_text("[")
    assert look(run).loop != FINISHED and ".loop.json" in look(run).warnings[0]
    file.write_text(json.dumps({"ended": f"{NOW:%FT%T}+00:00"}))
    if sys.platform.startswith("linux"):
        with open(run / "data/.loop.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert look(run).loop == RUNNING


def test_holdout_loss_that_rises_twice(run: Path) -> None:
    make_model(run / "saved_models", 2, [], {"metrics": metrics(2.25, 2.375)})
    assert not look(run).warnings
    make_model(run / "saved_models", 3, [], {"metrics": metrics(2.375, 2.5)})
    (warning,) = look(run).warnings
    assert warning.startswith("the policy loss on held-out games rose") and "from 2.375 to 2.5 in 000003-m" in warning


def test_disk_that_will_be_full(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(run).disk.seconds_until_full is None  # two minutes don't tell it
    monkeypatch.setattr(status_module, "LEAST_GROWTH_SECONDS", 60.0)
    disk = look(run).disk
    assert disk.bytes_per_second is not None
    sizes = [path.stat().st_size for path in (run / "data/selfplay").rglob("*") if path.is_file()]
    assert disk.bytes_per_second >= sum(sizes) * 2 / 3 / 120 * 0.99
    free = type("usage", (), {"free": round(disk.bytes_per_second * 7200)})
    monkeypatch.setattr(status_module.shutil, "disk_usage", lambda path: free)
    summary = look(run)
    assert summary.disk.seconds_until_full == pytest.approx(7200, rel=0.01)
    assert summary.warnings == ("the disk is full in 2.0 h at this rate",)


def test_what_kills_and_copies_leave_behind(run: Path) -> None:
    worker = run / "data/selfplay/000000-m/w00"
    dead = f".x.gz~{layout.this_host()}~{2**22 + 5}~20261121T110000~0123abcd.tmp"
    for name in (
        dead,
        f".y.gz~elsewhere~5~{datetime.now(UTC):{layout.SECOND_FORMAT}}~0123abcd.tmp",
        layout.temporary_path(worker / "z.gz").name,
    ):
        (worker / name).touch()
    (worker / layout.ShardName(NOW - timedelta(seconds=1), 9).shard).touch()  # its sidecar follows
    lost = worker / layout.ShardName(NOW - timedelta(hours=1), 9).shard
    lost.touch()
    warnings = look(run).warnings
    assert len(warnings) == 2
    assert "1 temporary file of killed processes" in warnings[0] and dead in warnings[0]
    assert "1 shard without a .meta file" in warnings[1] and lost.name in warnings[1]


def test_games_on_another_disk(run: Path) -> None:
    """A folder that is a link counts; best_model and links that lead back don't count twice."""
    before = look(run)
    (run / "data/selfplay").rename(run / "elsewhere")
    (run / "data/selfplay").symlink_to(run / "elsewhere")
    for name, target in (("up", run), ("data", run / "data"), ("again", run / "elsewhere")):
        (run / "elsewhere/000000-m" / name).symlink_to(target)
    summary = look(run)
    assert summary.play == before.play and summary.disk.used_bytes["selfplay"] == before.disk.used_bytes["selfplay"]


@pytest.mark.parametrize(
    "name", ["20261399T999999.000000-000001", "20261121T115930.000000", "x", "20260230T000000.0-1"]
)
def test_names_that_are_no_shards(run: Path, name: str) -> None:
    (run / f"data/selfplay/000000-m/w00/{name}.meta").touch()
    assert look(run).play.shards == 3


def test_clocks_that_disagree(run: Path) -> None:
    early = look(run, NOW - timedelta(minutes=10))
    assert "3 shards up to 10 min ahead of this machine's clock" in early.warnings[0]
    before = look(run)
    shard_at(run, NOW + timedelta(days=400), "w01")
    shard_at(run, NOW - timedelta(seconds=20))
    shard_at(run, NOW - timedelta(seconds=10))
    found = look(run)  # rates and ages are those of the others
    assert found.play.newest_shard == NOW - timedelta(seconds=10) and "worker w01" in found.warnings[0]
    assert found.stages == before.stages == ("selfplay",) and len(found.workers) == 1
    assert found.play.games_per_hour == pytest.approx(8 / 140 * 3600)


def test_positions_since_the_window_are_counted_without_clocks(run: Path) -> None:
    path = run / "saved_models/000001-m/model.json"
    raw = json.loads(path.read_text())
    raw["manifest"]["window"] = {"total_positions": 93, "counted_shards": {"000000-m/w00": 2}}
    path.write_text(json.dumps(raw))
    assert look(run).play.positions == 93 + 7
    for damaged in (["000000-m/w00"], {"000000-m/w00": "2"}, {"000000-m/w00": -1}):
        raw["manifest"]["window"]["counted_shards"] = damaged
        path.write_text(json.dumps(raw))
        assert look(run).play.positions == 21  # as if nothing were known
