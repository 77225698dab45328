"""The actor itself, without Ray: its methods are called side by side, in any order."""

from __future__ import annotations

import json
import threading
import time

from pipeline.workers import ray_actor as module
from pipeline.workers.ray_actor import PlayingActor, frames, packed_files
from tests.workers.fake_playing import job_of


def begun(*models: str, **job) -> PlayingActor:
    actor = PlayingActor()
    actor.begin(json.dumps(job_of(**job)).encode(), list(models), *(packed_files({}) for _ in models))
    return actor


def played(actor: PlayingActor, number: int) -> dict[str, object]:
    actor.give(json.dumps([number]).encode())
    _, outcome = frames(actor.take(5.0))
    return json.loads(outcome)


def follow(actor: PlayingActor, number: int, *models: str) -> None:
    actor.follow(number, json.dumps(number).encode(), list(models), *(packed_files({}) for _ in models))


def test_older_news_that_come_later_are_dropped() -> None:
    actor = begun("a", news=0)
    follow(actor, 2, "c")
    follow(actor, 1, "b")
    assert played(actor, 0)["news"] == 2
    follow(actor, 3, "d")
    assert played(actor, 1)["news"] == 3


def test_models_stay_until_the_news_after_those_that_drop_them() -> None:
    """A game may begin with the model of the news before. Of hundreds of promotions two models are kept."""
    actor = begun("m0", news=0)
    for number in range(1, 6):
        follow(actor, number, f"m{number}", "pool")
        assert played(actor, number)["models"] == sorted({f"m{number - 1}", f"m{number}", "pool"})


def test_what_ended_before_stop_is_answered(monkeypatch) -> None:
    """A take() that waits for further outcomes while the job is stopped gives those it has."""
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.5)
    actor = begun()
    actor.give(b"[1, 2]")
    answers: list[bytes] = []
    taking = threading.Thread(target=lambda: answers.append(actor.take(5.0)))
    taking.start()
    time.sleep(0.2)
    actor.stop()
    taking.join()
    head, *outcomes = frames(answers[0])
    assert [json.loads(one)["number"] for one in outcomes] == [1, 2] and json.loads(head)["steps"] == [3]


def test_a_job_that_is_impossible_is_answered_with_its_error_and_exit_code_until_the_next() -> None:
    actor = begun(mode="error")
    for answer in (actor.take(5.0), actor.stop()):
        said = json.loads(*frames(answer))
        assert (said["error"], said["exit_code"]) == ("the weights are gone", 2)
    assert "error" not in json.loads(*frames(actor.take(0.0)))


def test_games_and_news_that_come_after_stop_are_nobody_s() -> None:
    actor = begun("a")
    actor.stop()
    actor.give(b"[1]")
    follow(actor, 1, "b")
    assert [*frames(actor.take(0.0))][1:] == []
