"""The actor itself, without Ray: its methods are called side by side, in any order."""

from __future__ import annotations

import json
import threading
import time

from pipeline.workers import ray_actor as module
from pipeline.workers.ray_actor import JobActor
from tests.workers.fake_executor import job_of


def begun(*models: str, **job) -> JobActor:
    actor = JobActor()
    actor.begin(json.dumps(job_of(**job)).encode(), list(models), *({} for _ in models))
    return actor


def played(actor: JobActor, number: int) -> dict[str, object]:
    actor.give(json.dumps([number]).encode())
    (outcome,) = json.loads(actor.take(5.0))["outcomes"]
    return outcome


def update(actor: JobActor, number: int, *models: str) -> None:
    actor.update(number, json.dumps(number).encode(), list(models), *({} for _ in models))


def test_an_older_update_that_comes_later_is_dropped() -> None:
    actor = begun("a", update=0)
    update(actor, 2, "c")
    update(actor, 1, "b")
    assert played(actor, 0)["update"] == 2
    update(actor, 3, "d")
    assert played(actor, 1)["update"] == 3


def test_models_stay_until_the_update_after_the_one_that_drops_them() -> None:
    """A game may begin with the model of the update before. Of hundreds of promotions two models are kept."""
    actor = begun("m0", update=0)
    for number in range(1, 6):
        update(actor, number, f"m{number}", "pool")
        assert played(actor, number)["models"] == sorted({f"m{number - 1}", f"m{number}", "pool"})


def test_what_ended_before_stop_is_answered(monkeypatch) -> None:
    """A take() that waits for further outcomes when the job is stopped returns those it has."""
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.5)
    actor = begun()
    actor.give(b"[1, 2]")
    answers: list[bytes] = []
    taking = threading.Thread(target=lambda: answers.append(actor.take(5.0)))
    taking.start()
    time.sleep(0.2)
    actor.stop()
    taking.join()
    message = json.loads(answers[0])
    assert [one["number"] for one in message["outcomes"]] == [1, 2] and message["steps"] == [3]


def test_a_job_that_is_impossible_is_answered_with_its_error_and_exit_code_until_the_next() -> None:
    actor = begun(mode="error")
    for answer in (actor.take(5.0), actor.stop()):
        said = json.loads(answer)
        assert (said["error"], said["exit_code"]) == ("the weights are gone", 2)
    assert "error" not in json.loads(actor.take(0.0))


def test_games_and_updates_that_come_after_stop_are_dropped() -> None:
    actor = begun("a")
    actor.stop()
    actor.give(b"[1]")
    update(actor, 1, "b")
    assert json.loads(actor.take(0.0))["outcomes"] == []
