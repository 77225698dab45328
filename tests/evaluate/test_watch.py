"""``evaluate --watch``: when strategies are due, a model's opponents; kills and damage change no results."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import main
from pipeline.errors import FileError, NotYet, UsageError, explain
from pipeline.evaluate import watch as module
from pipeline.evaluate.config import EvaluateConfig
from pipeline.evaluate.watch import climb, outcome_of, watch
from pipeline.evaluate.watch_plan import Candidate, Draft, calendar
from pipeline.games.specs import parse_game
from pipeline.machine import groups_by_session
from pipeline.matches.runner import MatchRunner, load_entrant
from pipeline.presets import make_config
from pipeline.progress import Progress
from pipeline.ratings.pool import pool
from pipeline.ratings.strength import elo_gain
from pipeline.reports.summaries import summary_json, summary_text
from pipeline.run import atomic
from pipeline.run.evaluations import Evaluation, Result, list_evaluations, read_evaluation
from pipeline.run.matches import list_matches, match_lock, read_match
from pipeline.run.models import read_model, set_champion, write_model
from pipeline.run.ratings import read_pool, read_ratings
from pipeline.schedules import RunState
from pipeline.workers.processes import ProcessPool
from tests.helpers import Heard, make_champion, make_model, session_niceness
from tests.players.scripted_engine import engine_command

WATCH = Path("data/evaluate/watch")
VARYING = {"created", "finished", "time"}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of tic-tac-toe: model 0 was champion, then model 1; models 2 and 3 are new."""
    monkeypatch.chdir(tmp_path)
    models = Path("saved_models")
    make_champion(models, number=0)
    for number in (1, 2, 3):
        make_model(models, number, seed=number)
    set_champion(models, models / "000001-test", {"reason": "test"})
    return tmp_path


def settings(**options: Any) -> EvaluateConfig:
    quick = {
        "watch": True, "once": True, "readouts": 2, "opening_plies": 2, "backend": "torch", "threads": 1,
        "single_games": 4, "benchmark_games": 2, "ladder_games": 2, "tournament_games": 2, "tournament_every": 1,
    }  # fmt: skip
    return EvaluateConfig(**(quick | options))


def watched(progress: Progress | None = None, **options: Any) -> dict[str, Evaluation]:
    """All evaluations that a watcher makes, by model, in their order."""
    return {one.model: one for one in watch(settings(**options), progress or Heard())}


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: steady(one) for name, one in value.items() if name not in VARYING}
    return [steady(one) for one in value] if isinstance(value, list) else value


def outcome() -> dict[str, Any]:
    """Records, games, ratings and the pool, without times."""
    found = {path.name: steady(json.loads(path.read_text())) for path in list_evaluations(WATCH)}
    for folder in list_matches(WATCH):
        found[folder.name] = [game.model_dump() for game in read_match(folder).games]
    for path in (Path("data/ratings.json"), Path("data/pool.json")):
        found[path.name] = steady(json.loads(path.read_text()))
    return found


# Whom a model meets


def test_every_new_model_meets_others_by_each_strategy(run: Path) -> None:
    pool("add", "saved_models/000000-test")
    found = watched()
    assert list(found) == ["000003-test", "000002-test", "000001-test", "000000-test"]  # the newest first
    newest = found["000003-test"]
    assert [one.strategy for one in newest.outcomes] == ["single", "benchmark", "ladder", "tournament"]
    by_strategy = {plan.strategy: plan.opponents for plan in newest.strategies}
    assert by_strategy["single"] == ["000001-test@2"]  # the newest champion among older models
    assert by_strategy["benchmark"] == ["random", "heuristic"]
    assert by_strategy["tournament"] == ["000000-test@2"]
    assert sorted(by_strategy["ladder"]) == ["000000-test@2", "heuristic", "random"]
    assert {one.opponent: one.games for one in newest.results} == {
        "000001-test@2": 4, "random": 2, "heuristic": 2, "000000-test@2": 2,
    }  # fmt: skip
    assert found["000001-test"].strategies[0].opponents == ["000000-test@2"]
    assert {one.opponent: one.reason for one in found["000000-test"].skipped} == {
        "champion": "no older model was champion"
    }
    assert all(one.is_whole for one in found.values())
    assert [read_evaluation(path) for path in list_evaluations(WATCH)] == list(reversed(found.values()))


def test_results_are_those_of_the_games(run: Path) -> None:
    found = watched(benchmark=["random"], ladder_games=0, tournament_games=0)["000002-test"]
    elo = found.elo_before
    for result in found.results:
        match = read_match(WATCH / result.match)
        won = [game.challenger_result for game in match.games]
        assert (result.wins, result.draws, result.losses) == tuple(won.count(one) for one in (1, 0, -1))
        firsts = [one for one, game in zip(won, match.games, strict=True) if game.challenger_player == 0]
        assert result.moving_first.games == result.moving_second.games == len(firsts) == len(won) // 2
        assert (result.moving_first.wins, result.moving_first.losses) == (firsts.count(1), firsts.count(-1))
        lengths = [game.length for game in match.games]
        assert (result.shortest, result.longest) == (min(lengths), max(lengths))
        assert result.average_length == sum(lengths) / len(lengths)
        assert result.low <= result.share <= result.high
        assert (result.elo_before, result.failed) == (elo, 0)
        elo += elo_gain(elo, found.planned[result.opponent].elo, result.share)
        assert result.elo_after == elo
    assert found.elo_after == elo != found.elo_before
    rated = read_ratings(Path("data/ratings.json")).by_name
    assert "000002-test@2" in rated and found.rating is not None and found.rating_error is not None


def test_each_evaluation_is_tracked_by_the_models_training_step(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "step_of", lambda manifest: 123)
    found = watched(benchmark=["random"], ladder_games=0, tournament_games=0)
    lines = [json.loads(line) for line in Path("data/logs/watch/points.jsonl").read_text().splitlines()]
    assert len(lines) == len(found) == 4
    newest, record = lines[0], found["000003-test"]
    assert newest["evaluate/step"] == 123 and newest["evaluate/games"] == 6
    assert newest["evaluate/win_rate"] == sum(one.wins for one in record.results) / 6
    assert (newest["evaluate/elo"], newest["evaluate/elo_error"]) == (record.rating, record.rating_error)
    plies = sum(one.average_length * one.games for one in record.results) / 6
    assert newest["evaluate/plies_per_game"] == pytest.approx(plies)
    for one in record.results:
        score = newest[f"evaluate/against/{one.opponent.replace('@', '_')}/score"]
        assert score == one.share
    assert not watched_again() and len(Path("data/logs/watch/points.jsonl").read_text().splitlines()) == 4


def watched_again() -> bool:
    """Whether another watcher finds anything to do."""
    with suppress(NotYet):
        watched(benchmark=["random"], ladder_games=0, tournament_games=0)
        return True
    return False


def test_two_that_have_met_already_do_not_play_again(run: Path) -> None:
    found = watched(single="saved_models/000003-test", benchmark_games=0, ladder_games=0, tournament_games=0)
    assert {path.name for path in list_matches(WATCH)} == {
        "000002-test@2-vs-000003-test@2", "000001-test@2-vs-000003-test@2", "000000-test@2-vs-000003-test@2",
    }  # fmt: skip
    shutil.rmtree(WATCH / "000000-test@2-vs-000003-test@2")
    (WATCH / "000003-test.json").unlink()
    (WATCH / "000002-test.json").unlink()
    again = watched(single="saved_models/000002-test", benchmark_games=0, ladder_games=0, tournament_games=0)
    there, back = found["000002-test"].results[0], again["000003-test"].results[0]
    assert back.match == there.match == "000002-test@2-vs-000003-test@2"
    assert (back.wins, back.losses, back.share) == (there.losses, there.wins, 1 - there.share)
    assert back.moving_first.wins == there.moving_second.losses
    assert back.elo_before == back.elo_after  # it was counted before


def ladder(rungs: list[str], start: int, beats: set[str], gone: set[str]) -> list[str]:
    """The opponents that a model meets on this ladder, and the conclusion."""
    met: list[str] = []

    def meet(name: str) -> Result | None:
        if name in gone:
            return None
        met.append(name)
        wins = 2 if name in beats else 0
        return Result.model_construct(
            opponent=name, share=wins / 2, wins=wins, draws=0, losses=2 - wins, points_per_game=None
        )

    said = outcome_of("ladder", climb(rungs, start, meet)).conclusion
    return [*met, said]


@pytest.mark.parametrize(
    ("start", "beats", "gone", "met"),
    [
        (1, "ab", "", ["b", "c", "above b, below c"]),
        (1, "", "", ["b", "a", "below a"]),
        (1, "a", "", ["b", "a", "above a, below b"]),
        (2, "abcd", "", ["c", "d", "above d"]),
        (0, "abcd", "b", ["a", "c", "d", "above d"]),
        (3, "a", "dc", ["b", "a", "above a, below b"]),
        (1, "a", "b", ["c", "a", "above a, below c"]),
        (0, "a", "abcd", ["no game was played"]),
    ],
)
def test_the_ladder(start: int, beats: str, gone: str, met: list[str]) -> None:
    assert ladder(list("abcd"), start, set(beats), set(gone)) == met


def test_a_ladder_rises_and_begins_beside_the_parent(run: Path) -> None:
    watched()
    child = read_model(Path("saved_models/000003-test"))
    info = child.info.model_copy(update={"number": 4, "parents": ["000003-test"]})
    write_model(Path("saved_models/000004-child"), info, child.weights)
    found = watched()["000004-child"]
    (plan,) = [plan for plan in found.strategies if plan.strategy == "ladder"]
    ratings = [found.planned[name].rating for name in plan.opponents]
    assert None not in ratings and ratings == sorted(ratings)  # type: ignore[type-var]
    parent = found.planned["000003-test@2"].rating  # a member of the pool by now
    assert ratings[plan.start] == parent
    assert found.rating_before is None and found.planned["random"].elo != 1500


def test_single_may_be_chosen_by_a_mode_of_the_pool(run: Path) -> None:
    pool("add", "heuristic")
    only = {"benchmark_games": 0, "ladder_games": 0, "tournament_games": 0, "single_every": 2}
    found = watched(single="pool:fixed=heuristic", **only)
    assert {name: one.results[0].opponent for name, one in found.items()} == {
        "000002-test": "heuristic", "000000-test": "heuristic",
    }  # fmt: skip
    shutil.rmtree(WATCH)
    found = watched(single="pool:fixed=nobody", **only)
    assert found["000002-test"].skipped[0].opponent == "pool:fixed=nobody" and not found["000002-test"].results


def test_a_champion_whose_folder_is_gone_is_skipped(run: Path) -> None:
    set_champion(Path("saved_models"), make_model(Path("elsewhere"), 0, seed=9), {"reason": "test"})
    shutil.rmtree("elsewhere")
    found = watched(single_every=3, benchmark_games=0, ladder_games=0, tournament_games=0)["000003-test"]
    assert "elsewhere" in found.skipped[0].opponent and found.skipped[0].again


# When


def candidates(*minutes: float, **options: Any) -> list[Candidate]:
    """Models that were made at these minutes."""
    begin = datetime(2026, 11, 25, tzinfo=UTC)
    return [
        Candidate(Path(f"{number:06d}-x"), number, begin + timedelta(minutes=one), settings(**options))
        for number, one in enumerate(minutes)
    ]


def due(strategy: str, found: list[Candidate]) -> list[int]:
    by_name = calendar(found, {})
    return [one.number for one in found if strategy in by_name[one.name]]


def test_every_strategy_is_due_at_its_own_times() -> None:
    found = candidates(0, 4, 9, 10, 11, 30, 31, ladder_every=3, single_minutes=10, benchmark_games=0)
    assert due("ladder", found) == [0, 3, 6]
    assert due("single", found) == [0, 3, 5]
    assert due("benchmark", found) == []
    assert due("tournament", found) == [0, 1, 2, 3, 4, 5, 6]
    both = candidates(0, 4, 9, 10, 11, 30, 31, single_minutes=5, single_every=2)
    assert due("single", both) == [0, 2, 6]


def test_a_model_whose_clock_lies_behind_is_due() -> None:
    assert due("single", candidates(10, 3, 4, 12)) == [0, 1, 2, 3]
    assert due("single", candidates(10, 3, 4, 12, single_minutes=5)) == [0, 1, 3]


def test_what_was_planned_counts_for_later_models(run: Path) -> None:
    only = {"benchmark_games": 0, "ladder_games": 0, "tournament_games": 0, "single": "random"}
    assert list(watched(single_every=3, **only)) == ["000003-test", "000000-test"]
    with pytest.raises(NotYet):  # model 3 was due, so no other is within the hour
        watched(single_minutes=60, **only)


def test_settings_are_those_of_the_models_generation(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "evaluate:\n  ladder_games: [{until: 1, value: 0}, {until: 2, value: 6}]\n  benchmark: [random]\n"
    )

    def at(state: RunState) -> EvaluateConfig:
        options = {name: value for name, value in settings().model_dump(exclude_unset=True).items()
                   if name not in ("ladder_games", "benchmark")}  # fmt: skip
        return make_config(EvaluateConfig, "evaluate", "mine.yaml", lambda _: state, **options)

    found = {one.model: one for one in watch(settings(), Heard(), at)}
    games = {name: {plan.strategy for plan in one.strategies} for name, one in found.items()}
    assert "ladder" not in games["000001-test"] and "ladder" in games["000002-test"]
    assert found["000003-test"].planned["random"].games == 6 and "heuristic" not in found["000003-test"].planned


# Going on


class Killed(BaseException):
    pass


def killing(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], None]:
    """Raises Killed at the first write after `after` writes of files. Returns a function that undoes it."""
    left = [after]
    originals = {name: getattr(atomic, name) for name in ("write_text", "write_json", "append_line")}

    def counting(original: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: Any, **options: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            original(*args, **options)

        return wrapped

    for name, original in originals.items():
        monkeypatch.setattr(atomic, name, counting(original))

    def restore() -> None:
        for name, original in originals.items():
            monkeypatch.setattr(atomic, name, original)

    return restore


def test_killed_anywhere_it_goes_on_to_the_same(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pool("add", "saved_models/000000-test")
    shutil.copytree(run, tmp_path.parent / "other", symlinks=True)
    watched()
    wanted = outcome()
    for start, step in ((1, 7), (3, 11)):
        folder = tmp_path.parent / f"killed-{step}"
        shutil.copytree(tmp_path.parent / "other", folder, symlinks=True)
        monkeypatch.chdir(folder)
        after, kills = start, 0
        while True:
            restore = killing(monkeypatch, after)
            try:
                watched()
                break
            except Killed:
                kills += 1
                after = step
            except NotYet:
                break
            finally:
                restore()
        assert kills > 5
        assert outcome() == wanted


def test_a_plan_is_obeyed_whatever_becomes_of_pool_and_options(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool("add", "saved_models/000000-test")
    with pytest.raises(Killed):
        monkeypatch.setattr(MatchRunner, "play", raising(Killed()))
        watched()
    monkeypatch.undo()
    monkeypatch.chdir(run)
    plan = read_evaluation(WATCH / "000003-test.json")
    assert plan.finished is None and not plan.is_whole
    assert "being evaluated by single, benchmark" in summary_text(plan)
    pool("remove", "000000-test")
    found = next(watch(settings(readouts=5, benchmark=["random"], seed=9, ladder_games=0), Heard()))
    assert found.model == "000003-test" and found.settings == plan.settings and found.opponents == plan.opponents
    assert {one.opponent for one in found.results} >= {"000000-test@2", "heuristic"}


def test_a_plan_means_the_model_that_best_model_was_then(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**BENCHMARK_ONLY, "benchmark": ["saved_models/best_model"]}
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MatchRunner, "play", raising(Killed()))
        watched(**options)
    models = Path("saved_models")
    set_champion(models, models / "000002-test", {"reason": "test"})
    found = watched(**options)
    assert [one.opponent for one in found["000003-test"].results] == ["000001-test@2"]
    assert [one.opponent for one in found["000001-test"].results] == ["000002-test@2"]


def test_a_second_watcher_has_nothing_to_do(run: Path) -> None:
    with match_lock(WATCH), pytest.raises(NotYet, match="another watcher is at work here") as error:
        watched()
    assert error.value.exit_code == 75


def test_once_ends_and_otherwise_it_waits_for_new_models(run: Path) -> None:
    assert len(watched()) == 4
    with pytest.raises(NotYet, match="no model in saved_models is left to evaluate"):
        watched()
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            make_model(Path("saved_models"), 7, seed=7)
        if len(waits) > 3:
            raise KeyboardInterrupt

    heard = Heard()
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(one.model for one in watch(settings(once=False), heard, None, wait))
    assert sum("waiting for new models" in text for text in heard.said) == 2  # before the new one, and after it


# What can't be played


def test_a_damaged_model_is_skipped_and_said_and_the_rest_is_as_without_it(run: Path) -> None:
    weights = Path("saved_models/000003-test/weights.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    heard = Heard()
    found = watched(heard)
    assert list(found) == ["000002-test", "000001-test", "000000-test"]
    assert any(text.startswith("000003-test is not evaluated: ") and "damaged" in text for text in heard.warned)
    with pytest.raises(NotYet, match="1 model skipped, the next run tries again: 000003-test"):
        watched()
    damaged = outcome()
    shutil.rmtree("data")
    shutil.rmtree("saved_models/000003-test")
    watched()
    assert damaged == outcome()


def test_a_model_that_is_damaged_after_its_plan_goes_on_once_it_is_restored(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**BENCHMARK_ONLY, "benchmark": ["random"], "benchmark_every": 3}
    undisturbed = watched(**options)["000003-test"]
    shutil.rmtree("data")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MatchRunner, "play", raising(Killed()))
        watched(**options)
    model, kept = Path("saved_models/000003-test"), Path("kept")
    model.rename(kept)
    for source, size, problem in (
        (kept, -1, "damaged"),
        (Path("saved_models/000002-test"), None, "its weights changed since its evaluation began"),
    ):
        shutil.copytree(source, model)
        weights = model / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:size])
        heard = Heard()
        with suppress(NotYet):
            assert "000003-test" not in watched(heard, **options)
        assert any(text.startswith("000003-test is not evaluated: ") and problem in text for text in heard.warned)
        shutil.rmtree(model)
    kept.rename(model)
    found = watched(**options)["000003-test"]
    assert steady(found.model_dump()) == {
        **steady(undisturbed.model_dump()), "rating": found.rating, "rating_error": found.rating_error
    }  # fmt: skip


@pytest.mark.parametrize("what, name", [("game", "nowhere:3"), ("method", "nowhere")])
def test_a_model_of_an_unknown_game_or_method_is_skipped_once(run: Path, what: str, name: str) -> None:
    path = Path("saved_models/000003-test/model.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), what: name}))
    heard = Heard()
    assert "000003-test" not in watched(heard)
    (said,) = [text for text in heard.warned if "000003-test" in text]
    assert said.startswith("000003-test is not evaluated: ") and "'nowhere'" in said
    assert not (WATCH / "000003-test.json").exists()


def test_a_member_of_the_pool_that_is_gone_is_skipped_until_it_is_back(run: Path) -> None:
    pool("add", "saved_models/000000-test")
    shutil.move("saved_models/000000-test", "elsewhere")
    heard = Heard()
    found = watched(heard)["000003-test"]
    assert "000000-test" in found.skipped[0].opponent and found.skipped[0].again and not found.is_whole
    assert "skipped: saved_models/000000-test: " in summary_text(found)
    heard = Heard()
    with pytest.raises(NotYet):  # it isn't back: nothing is written anew
        watched(heard)
    assert any(text.startswith("000003-test still can't play saved_models/000000-test: ") for text in heard.warned)
    shutil.move("elsewhere", "saved_models/000000-test")
    again = watched()
    for model in ("000003-test", "000002-test", "000001-test"):
        one = again[model]
        assert one.is_whole and "000000-test@2" in {result.opponent for result in one.results}
        by_strategy = {plan.strategy: plan.opponents for plan in one.strategies}
        assert "000000-test@2" in by_strategy["tournament"] and "000000-test@2" in by_strategy["ladder"]
    both = again["000003-test"]
    assert (both.elo_before, both.planned["random"]) == (found.elo_before, found.planned["random"])
    assert {one.opponent: one.share for one in found.results}.items() <= {
        one.opponent: one.share for one in both.results
    }.items()
    with pytest.raises(NotYet):
        watched()


def test_an_opponent_that_is_not_there_yet_is_skipped_until_it_is(run: Path) -> None:
    options = {**BENCHMARK_ONLY, "benchmark": ["random", "saved_models/000010-test@1"], "benchmark_every": 3}
    heard = Heard()
    found = watched(heard, **options)["000003-test"]
    assert [one.opponent for one in found.results] == ["random"]
    assert [(one.opponent, one.again) for one in found.skipped] == [("saved_models/000010-test@1", True)]
    make_model(Path("saved_models"), 10, seed=10)
    again = watched(**options)["000003-test"]
    assert again.is_whole and {one.opponent for one in again.results} == {"random", "000010-test@1"}


def test_an_opponent_that_is_added_leaves_the_ladder_as_it_was_planned(run: Path) -> None:
    """The ratings may have changed since."""
    model = load_entrant("saved_models/000003-test", 2).as_rated
    ladder_only = settings(benchmark=["saved_models/000010-test", "random", "heuristic", "saved_models/000002-test"])
    candidate = Candidate(Path("saved_models/000003-test"), 3, None, ladder_only, strategies=("ladder",))
    record = Draft(ladder_only, Path("saved_models"), candidate, model, 2).plan()
    rungs = ["random", "000002-test@2", "heuristic"]
    ratings = {"random": -300.0, "000002-test@2": -200.0, "heuristic": 400.0}
    record = record.model_copy(update={
        "strategies": [record.strategies[0].model_copy(update={"opponents": rungs, "start": 2})],
        "opponents": [record.planned[name].model_copy(update={"rating": ratings[name]}) for name in rungs],
    })  # fmt: skip
    assert [one.opponent for one in record.skipped] == ["saved_models/000010-test"]
    make_model(Path("saved_models"), 10, seed=10)
    [plan] = Draft(ladder_only, Path("saved_models"), candidate, model, 2).complete(record).strategies
    assert plan.opponents == ["random", "000002-test@2", "000010-test@2", "heuristic"]
    assert plan.opponents[plan.start] == "heuristic"


def test_a_pool_that_cannot_be_read_is_met_once_it_is_mended(run: Path) -> None:
    pool("add", "saved_models/000000-test")
    path = Path("data/pool.json")
    whole = path.read_text()
    path.write_text("{")
    found = watched()["000003-test"]
    assert [(one.opponent, one.strategies) for one in found.skipped] == [("the pool", ["ladder", "tournament"])]
    path.write_text(whole)
    again = watched()["000003-test"]
    assert again.is_whole and {one.opponent for one in again.results} >= {"000000-test@2"}
    assert [plan.opponents for plan in again.strategies if plan.strategy == "tournament"] == [["000000-test@2"]]


def test_who_of_a_damaged_pool_is_the_single_opponent_is_chosen_once_it_is_mended(run: Path) -> None:
    pool("add", "heuristic")
    path = Path("data/pool.json")
    whole = path.read_text()
    path.write_text("{")
    only = {"ladder_games": 0, "tournament_games": 0, "benchmark": ["random"], "single": "pool:fixed=heuristic"}
    found = watched(single_every=3, **only)
    assert [(one.opponent, one.strategies) for one in found["000003-test"].skipped] == [("the pool", ["single"])]
    assert found["000002-test"].is_whole  # it doesn't need the pool
    path.write_text(whole)
    again = watched(single_every=3, **only)["000003-test"]
    assert again.is_whole and {one.opponent for one in again.results} == {"random", "heuristic"}
    assert [plan.opponents for plan in again.strategies if plan.strategy == "single"] == [["heuristic"]]


BENCHMARK_ONLY = {"single_games": 0, "ladder_games": 0, "tournament_games": 0}


def steady_engine(folder: Path, *arguments: str) -> str:
    """A GTP engine whose moves depend on the position alone; by these arguments its first process misbehaves."""
    script = folder / "engine.py"
    source = Path(engine_command().split()[-1]).read_text()
    chosen = source.replace("self.random.choice(open_points)", "open_points[0]")
    assert chosen != source
    script.write_text(chosen)
    return "engine=gtp:" + shlex.join([sys.executable, "-S", "-E", str(script), *arguments])


@pytest.mark.parametrize("mode", ["die", "signal", "hang"])
def test_an_engine_that_dies_or_hangs_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    began = tmp_path / "began"
    engine = steady_engine(tmp_path, mode, "--at", "12", "--once", str(began))
    found = []
    for name in ("undisturbed", "disturbed"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        make_champion(Path("saved_models"), spec="go:5", number=3)
        began.touch() if name == "undisturbed" else began.unlink()
        heard = Heard()
        options = {**BENCHMARK_ONLY, "benchmark": [engine], "benchmark_games": 6, "parallel_games": 1}
        assert len(watched(heard, **options, engine_seconds=1.0)) == 1
        failures = read_match(next(iter(list_matches(WATCH)))).failures
        assert bool(failures) == (name == "disturbed")
        assert any("will be tried again" in text for text in heard.warned) == (name == "disturbed")
        found.append(outcome())
    assert found[0] == found[1]


def test_an_engine_that_never_works_is_skipped_and_tried_again(run: Path, tmp_path: Path) -> None:
    shutil.rmtree("saved_models")
    make_champion(Path("saved_models"), spec="go:5")
    engine = steady_engine(tmp_path, "die")
    options = {**BENCHMARK_ONLY, "benchmark": [engine, "random"]}
    heard = Heard()
    (found,) = watched(heard, **options).values()
    assert [one.opponent for one in found.results] == ["random"]
    assert [one.opponent for one in found.skipped] == ["engine"] and not found.is_whole
    assert "engine: every game failed" in " ".join(heard.warned) or "every game failed" in " ".join(heard.warned)
    (tmp_path / "engine.py").write_text((tmp_path / "engine.py").read_text().replace('"die"', '"never"'))
    (again,) = watched(**options).values()
    assert again.is_whole and {one.opponent for one in again.results} == {"engine", "random"}
    with pytest.raises(NotYet):
        watched(**options)


def test_a_worker_that_is_killed_changes_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = ProcessPool._start

    def starting(self: ProcessPool, number: int) -> Any:
        worker = start(self, number)
        started.append(worker.process.pid)
        return worker

    class Killing(Heard):
        def advance(self, count: int = 1) -> None:
            if len(started) == 1:
                os.kill(started[0], signal.SIGKILL)

    options = {**BENCHMARK_ONLY, "single_games": 4, "benchmark_games": 0, "parallel_games": 1, "single_every": 3}
    shutil.copytree(run, tmp_path.parent / "same", symlinks=True)
    watched(**options)
    wanted = outcome()
    monkeypatch.chdir(tmp_path.parent / "same")
    monkeypatch.setattr(ProcessPool, "_start", starting)
    watched(Killing(), **options, workers=1)
    assert len(started) >= 2 and outcome() == wanted


def test_nothing_of_the_pool_is_run_that_nobody_allowed(run: Path) -> None:
    pool("add", "evil=gtp:touch owned")
    found = watched()["000003-test"]
    assert {one.opponent: one.again for one in found.skipped} == {"evil": False}
    assert not Path("owned").exists()


def test_an_engine_of_a_plan_is_not_run_unasked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder from elsewhere may contain any plan."""
    engine = "evil=gtp:touch owned"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MatchRunner, "play", raising(Killed()))
        patch.setattr(module, "common_game", lambda asked, entrants: parse_game("tictactoe"))
        watched(benchmark=[engine], **BENCHMARK_ONLY)
    found = watched(benchmark=["random"], **BENCHMARK_ONLY)["000003-test"]
    assert "would run 'evil=gtp:touch owned'; wanted --allow-engines" in found.skipped[0].reason
    assert not found.results and not found.is_whole and not Path("owned").exists()


def test_a_full_disk_ends_it_with_a_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = atomic.append_line

    def full(path: Path, line: str) -> None:
        error = OSError(28, "No space left on device")
        raise explain(path, error) from error

    monkeypatch.setattr(atomic, "append_line", full)
    with pytest.raises(FileError, match="the disk is full"):
        watched()
    monkeypatch.setattr(atomic, "append_line", original)
    assert len(watched()) == 4
    after = outcome()
    shutil.rmtree("data")
    watched()
    assert after == outcome()


def test_a_damaged_record_is_made_anew_from_its_matches(run: Path) -> None:
    before = watched()["000003-test"]
    games = {folder.name: (folder / "games.jsonl").read_bytes() for folder in list_matches(WATCH)}
    (WATCH / "000003-test.json").write_text("{")
    heard = Heard()
    after = watched(heard)["000003-test"]
    assert any("made anew from its matches" in text for text in heard.warned)
    assert {one.opponent: one.share for one in before.results}.items() <= {
        one.opponent: one.share for one in after.results
    }.items()
    kept = {folder.name: (folder / "games.jsonl").read_bytes() for folder in list_matches(WATCH)}
    assert games.items() <= kept.items()


def test_a_record_that_is_made_anew_does_not_count_its_own_games_twice(run: Path) -> None:
    options = {**BENCHMARK_ONLY, "benchmark": ["random"]}
    before = watched(**options)["000003-test"]
    assert before.elo_before != before.elo_after
    (WATCH / "000003-test.json").unlink()
    after = watched(**options)["000003-test"]
    assert after.elo_before == before.elo_before and after.results[0].share == before.results[0].share


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"white_model": "random"}, "every new model is evaluated"),
        ({"black_model": "saved_models/000001-test"}, "wanted FOLDER/best_model"),
        ({"black_model": "policy:saved_models/best_model"}, "wanted FOLDER/best_model"),
        ({"black_model": "old=saved_models/best_model"}, "wanted FOLDER/best_model"),
        ({"benchmark": ["nobody"]}, "player 'nobody': no such model or built-in player"),
        ({"single": "nobody"}, "player 'nobody': no such model or built-in player"),
        ({"single": "pool:nobody"}, "mode 'nobody'"),
    ],
)
def test_wrong_options_are_named_before_anything_is_played(run: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        watched(**options)
    assert not list_matches(WATCH)


# The pool


def test_the_best_join_the_pool_and_champion_and_built_ins_stay(run: Path) -> None:
    pool("add", "random", capacity=3)
    pool("add", "saved_models/000001-test")
    watched()
    names = read_pool(Path("data/pool.json")).names
    assert names[:2] == ["random", "000001-test"] and len(names) == 3
    rated = read_ratings(Path("data/ratings.json")).by_name
    others = {name: rated[f"{name}@2"].bradley_terry for name in ("000000-test", "000002-test", "000003-test")}
    assert names[2] == max(others, key=lambda name: others[name])


# Reports


def test_reports_for_people_and_machines(run: Path) -> None:
    found = watched()["000003-test"]
    text = summary_text(found)
    assert text.startswith("000003-test (generation 3, tictactoe): Elo 1500 → ")
    for words in (
        "opponent",
        "000001-test@2",
        "single: ",
        "benchmark: at least half of the points against ",
        "ladder: ",
    ):
        assert words in text
    assert Evaluation.model_validate(json.loads(summary_json(found))) == found


@pytest.mark.parametrize("spec", ["connect4", "go:5", "gomoku:9"])
def test_other_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.chdir(tmp_path)
    make_champion(Path("saved_models"), spec=spec, number=0)
    make_model(Path("saved_models"), 1, spec, seed=1)
    found = watched(readouts=0, opening_plies=1, benchmark=["random"])["000001-test"]
    assert found.is_whole and {one.opponent for one in found.results} == {"000000-test@0", "random"}


# As a process


SLIGHTLY = "import pipeline.machine; pipeline.machine.LOWEST = 1; from pipeline import main; main.run_program()"


def command(*arguments: str) -> subprocess.Popen[str]:
    """main.py, with a priority just below ours: at the lowest it may take minutes to start on a busy machine."""
    words = [sys.executable, "-c", SLIGHTLY, "evaluate", "--watch", "--readouts", "2", "--backend", "torch",
             "--opening-plies", "2", "--benchmark-games", "2", "--single-games", "2", "--ladder-games", "0",
             "--tournament-games", "0", *arguments]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_watcher_a_second_one_and_its_end(run: Path, request: pytest.FixtureRequest) -> None:
    first = command("--json")
    request.addfinalizer(first.kill)
    assert first.stdout is not None
    first.stdout.readline()  # it has finished an evaluation
    second = command("--once")
    _, errors = second.communicate(timeout=120)
    assert second.returncode == 75 and errors.startswith("mugo evaluate: data/evaluate/watch: another watcher is at")
    if groups_by_session():
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first.pid)], capture_output=True, text=True)
        (child,) = map(int, listed.stdout.split())
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert session_niceness(child) == ours + 1 == os.getpriority(os.PRIO_PROCESS, child)
        assert os.getsid(child) == child
    first.terminate()
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 143 and "run the same command again to go on where it stood" in errors


def family(mark: str) -> dict[int, str]:
    """The processes that have this in their environment, and what their command lines say."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # another user's, or it has just ended
                if mark.encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_real_processes_that_are_killed_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of these, while they play: a watcher, what stands for it, its worker, and its engine."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chosen = random.Random(seed).sample(("worker", "watcher", "engine", "stand-in"), 2)
    engine = steady_engine(tmp_path, "never")
    arguments = ("--once", "--workers", "1", "--parallel-games", "1", "--threads", "1", "--benchmark", engine,
                 "--benchmark", "random", "--benchmark-games", "6", "--engine-seconds", "20")  # fmt: skip
    wanted = None
    for victims in ((), chosen):
        folder = tmp_path / f"with-{len(victims)}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        make_champion(Path("saved_models"), spec="go:5")
        left, killed, said = list(victims), [], ""
        monkeypatch.setenv("MUGO_TEST_FAMILY", mark := f"mark-{os.getpid()}-{len(victims)}-{tmp_path.name}")
        while True:
            process = command(*arguments)
            while left and process.poll() is None:
                games = sum(path.read_bytes().count(b"\n") for path in WATCH.glob("*/games.jsonl"))
                members = family(mark)
                inner = next((pid for pid in members if pid != process.pid and os.getsid(pid) == pid and "--watch" in
                              members[pid]), process.pid)  # fmt: skip
                others = {
                    "engine": [pid for pid, line in members.items() if "engine.py" in line and "--watch" not in line]
                }
                others["worker"] = [
                    pid for pid, line in members.items() if "--watch" not in line and "engine.py" not in line
                ]
                pids = others.get(left[0], [inner if left[0] == "watcher" else process.pid])
                if pids and games > len(killed):
                    killed.append(left.pop(0))
                    with suppress(ProcessLookupError):
                        os.kill(pids[0], signal.SIGKILL)
                time.sleep(0.02)
            _, errors = process.communicate(timeout=300)
            said += errors
            deadline = time.monotonic() + 60
            while family(mark):
                assert time.monotonic() < deadline, f"left behind: {family(mark)}"
                time.sleep(0.05)
            if process.returncode != -signal.SIGKILL:
                break
        assert process.returncode in (0, 75), said
        assert not left, (killed, said)
        found = outcome()
        assert wanted is None or found == wanted
        wanted = found


@pytest.mark.parametrize("option", ["--once", "--ladder-games=4", "--benchmark=random"])
def test_options_of_a_watcher_without_one_are_a_mistake(run: Path, option: str) -> None:
    done = CliRunner().invoke(main.app, ["evaluate", option])
    assert (
        done.exit_code == 2 and f"{option.partition('=')[0]}: it is for --watch; wanted --watch with it" in done.output
    )


def raising(error: BaseException) -> Any:
    def act(*args: Any, **options: Any) -> Iterator[Any]:
        raise error

    return act
