"""Self-play in a worker: games given a few at a time are those of a local run, and travel as JSON unchanged."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import MuGoError
from pipeline.games.specs import parse_game
from pipeline.methods.method import ActorJob, FinishedGame, Learner, game_seeds
from pipeline.methods.named import method_named
from pipeline.progress import SILENT
from pipeline.run.models import Model, ModelInfo, model_files, read_model
from pipeline.run.ratings import RatedPlayer
from pipeline.run.shards import GameRecord
from pipeline.selfplay import command
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.in_workers import SelfplayExecutor, outcome_of, played_game
from pipeline.selfplay.opponents import Others
from pipeline.selfplay.playing import ModelSource, Plan, PlayedGame
from pipeline.train.config import InitConfig
from pipeline.workers.worker_pool import GameQueue
from tests.families import having
from tests.helpers import make_champion


def finished_by(executor: SelfplayExecutor, games: dict[str, Any], count: int) -> list[PlayedGame]:
    found: list[str] = []
    while len(found) < count:
        found += map(executor.encode, executor.outcomes(5.0))
    return [played_game(outcome, games)[1] for outcome in found]


def what(finished: FinishedGame) -> tuple[Any, ...]:
    """All fields of a game, with their types."""
    record = finished.record
    arrays = {name: value for name, value in vars(record).items() if isinstance(value, np.ndarray)} | dict(record.own)
    rest = {name: value for name, value in vars(record).items() if name not in arrays and name != "own"}
    said = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
    state = finished.final_state
    return said, rest, finished.player, finished.would_have_resigned, state.dtype.str, state.tobytes()


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("connect4", {"readouts": 16, "opponents": "mirror=1,random=1,previous=1", "no_resign_fraction": 0.5}),
        ("go:any", {"readouts": 2, "boards": "5=1,7=1", "komi_spread": 3.0, "temperature_plies": 4}),
    ],
)
def test_games_that_come_a_few_at_a_time_are_those_of_a_run(tmp_path, monkeypatch, spec, settings):
    """Rows that ran out of games take up those that come later."""
    for number in (0, 1):
        make_champion(tmp_path / "saved_models", number=number, spec=spec, seed=number)
    config = SelfplayConfig(
        network=tmp_path / "saved_models" / "best_model", output_dir=tmp_path / "games", games=14, parallel_games=8,
        threads=1, backend="torch", seed=3, **settings,
    )  # fmt: skip
    here: dict[int, PlayedGame] = {}
    take = command._Session._take

    def watched(self, played):
        here[played.number] = played
        take(self, played)

    monkeypatch.setattr(command._Session, "_take", watched)
    selfplay(config)
    boards = {played.game.spec: played.game for played in here.values()}
    learner, previous = tmp_path / "saved_models/000001-test", tmp_path / "saved_models/000000-test"
    others = {} if spec == "go:any" else Others(previous=previous).model_dump(mode="json")
    plan = Plan(config, parse_game(spec), method_named("alphazero"), threads=1, rows=8)
    update = {"learner": str(learner), "generation": 1, "others": others, "fair_setups": {}}
    job = {**plan.to_job(), "update": update}
    models = {str(path): model_files(path) for path in (learner, previous)}
    remote = SelfplayExecutor(job, models)
    try:
        there = []
        for numbers in ([0], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [11], [12, 13]):
            remote.give(numbers)
            there += finished_by(remote, boards, len(numbers))
        assert remote.warnings() == [] and sum(remote.counts().live) == 0
        remote.give(range(100, 120))
        more = finished_by(remote, boards, 1)
        remote.give(range(120, 140))  # while others play
        more += finished_by(remote, boards, 40 - len(more))
        assert {played.number for played in more} == set(range(100, 140))
    finally:
        remote.close()
    assert sorted(played.number for played in there) == list(range(14))
    for played in there:
        mine = here[played.number]
        assert what(played.finished) == what(mine.finished)
        assert (played.game.spec, played.generation) == (mine.game.spec, mine.generation)


def executor_for(model: Path, rows: int, threads: int = 1) -> SelfplayExecutor:
    """Its model plays tic-tac-toe against itself."""
    config = SelfplayConfig(backend="torch", seed=3)
    plan = Plan(config, parse_game("tictactoe"), method_named("alphazero"), threads, rows)
    update = {"learner": str(model), "generation": 0, "others": {}, "fair_setups": {}}
    job = {**plan.to_job(), "update": update}
    return SelfplayExecutor(job, {str(model): model_files(model)})


def test_games_that_had_ended_come_before_the_error_of_their_thread(tmp_path, monkeypatch):
    path = make_champion(tmp_path / "saved_models")
    player, asked = ModelSource.player, itertools.count(1)

    def failing(self, thread):
        if next(asked) > 4:
            raise MuGoError("no fifth game")
        return player(self, thread)

    monkeypatch.setattr(ModelSource, "player", failing)
    game = parse_game("tictactoe")
    remote = executor_for(path, rows=2)
    try:
        remote.give(range(10))
        remote.threads[0].join()
        numbers = [played_game(outcome, {game.spec: game})[0] for outcome in map(remote.encode, remote.outcomes(5.0))]
        assert len(numbers) >= 3 and set(numbers) <= {0, 1, 2, 3}
        for _ in range(2):
            with pytest.raises(MuGoError, match="no fifth game"):
                remote.outcomes(5.0)
    finally:
        remote.close()


def test_an_error_is_raised_though_another_thread_waits_for_games(tmp_path, monkeypatch):
    path = make_champion(tmp_path / "saved_models")

    taken, idle, wait = threading.Event(), threading.Event(), GameQueue.wait

    def failing(self, thread):
        taken.set()
        idle.wait(30)
        raise MuGoError("no game")

    def waiting(self, seconds):
        if taken.is_set():
            idle.set()
        wait(self, seconds)

    monkeypatch.setattr(ModelSource, "player", failing)
    monkeypatch.setattr(GameQueue, "wait", waiting)
    remote = executor_for(path, rows=1, threads=2)
    try:
        remote.give([0])
        with pytest.raises(MuGoError, match="no game"):
            for _ in range(20):
                remote.outcomes(0.2)
    finally:
        remote.close()


@pytest.mark.parametrize(("spec", "method"), [("connect4", "alphazero"), *having("backgammon", ("hypergammon", "td"))])
def test_an_actor_takes_up_games_that_come_after_it_had_none(spec, method):
    game = parse_game(spec)
    numbers: deque[int] = deque([0])

    class Seeds:
        def __iter__(self):
            return self

        def __next__(self):
            if not numbers:
                raise StopIteration
            return next(game_seeds(1, iter([numbers.popleft()]), 0.0))

    architecture, weights = method_named(method).first_model(
        game, InitConfig(network_size="b1c8" if method == "alphazero" else "h8"), SILENT
    )
    info = ModelInfo(name="x", number=0, game=spec, method=method, architecture=architecture)
    model = Model(Path("x"), info, weights)
    (evaluate,) = method_named(method).load(model, 4, 1, "torch", SILENT)
    ended: list[int] = []
    job = ActorJob(
        game, 4, SelfplayConfig(readouts=0), Seeds(), lambda: Learner("x", evaluate), lambda one: ended.append(1)
    )
    actor = method_named(method).actor(job)
    assert actor.live == 1
    actor.step()
    actor.resume()
    assert actor.live == 1 and not ended
    numbers.extend(range(1, 7))
    actor.step()
    assert actor.live == 1  # nobody has asked
    actor.resume()
    assert actor.live == 4 and len(numbers) == 3
    actor.run(lambda: False)
    assert len(ended) == 7
    numbers.extend(range(7, 9))
    actor.resume()
    actor.run(lambda: False)
    assert len(ended) == 9


def test_a_game_travels_with_all_that_a_method_records():
    game = parse_game("tictactoe")
    own = {"chances": np.arange(6, dtype=np.float16).reshape(3, 2), "flag": np.array([True, False, True])}
    record = GameRecord(
        game_id=2**64 - 1, moves=np.array([3, 1, 2]), own=own, result_first_player=0.5, no_resign=True, opponent="a b",
        learner=1, setup=-3,
    )  # fmt: skip
    played = PlayedGame(game, FinishedGame(record, "000001-x", -1, np.arange(9, dtype=np.int16)), 7, 2**40)
    number, back = played_game(outcome_of(played), {game.spec: game})
    assert what(back.finished) == what(played.finished)
    assert (back.game, back.generation, back.number, number) == (game, 7, 2**40, 2**40)


def test_a_game_that_was_dropped_travels_as_its_number():
    game = parse_game("tictactoe")
    dropped = PlayedGame(game, None, 3, 2**40)
    assert played_game(outcome_of(dropped), {game.spec: game}) == (2**40, dropped)


@pytest.mark.parametrize("cut", [0, 4, 30, 200, -1, -4])
def test_text_that_is_no_game(cut):
    game = parse_game("tictactoe")
    record = GameRecord(game_id=1, moves=np.array([3]), result_first_player=1.0)
    outcome = outcome_of(PlayedGame(game, FinishedGame(record, "x", -1, np.zeros(9, np.int16)), 0, 0))
    with pytest.raises((ValueError, TypeError, KeyError)):
        played_game(outcome[:cut], {game.spec: game})


def test_others_travel_as_json():
    rated = {"m": RatedPlayer(name="m", games=3)}
    others = Others(
        previous=Path("/a/b"), models={"m": Path("/c")}, built_ins={"r": "random"}, rated=rated, champions=["x", "y"]
    )
    for one in (others, Others()):
        assert Others.model_validate(json.loads(json.dumps(one.model_dump(mode="json")))) == one


def test_a_model_is_read_from_memory_as_from_the_disk(tmp_path):
    path = make_champion(tmp_path / "saved_models")
    disk, memory = read_model(path), read_model(Path("/nowhere") / path.name, model_files(path))
    assert memory.info == disk.info and memory.weights.keys() == disk.weights.keys()
    assert all((memory.weights[name] == disk.weights[name]).all() for name in disk.weights)
    damaged = {**model_files(path), "weights.safetensors": b"x"}
    with pytest.raises(Exception, match="damaged"):
        read_model(path, damaged)
