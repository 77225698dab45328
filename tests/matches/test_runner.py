"""A match from an empty folder on: the same games however it is played, real worker processes, engines that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.specs import parse_game
from pipeline.matches import runner as module
from pipeline.matches.openings import write_openings
from pipeline.matches.options import MatchOptions
from pipeline.matches.runner import (
    Entrant,
    MatchRunner,
    PlayerFactory,
    batch_of,
    common_game,
    load_entrant,
    match_executor,
)
from pipeline.progress import Progress
from pipeline.run.matches import MatchFailure, match_lock, read_match
from pipeline.run.models import game_as_seen
from pipeline.workers.worker_pool import GameQueue
from tests.helpers import make_model
from tests.players.scripted_engine import engine_command, is_alive, wait_until_gone

ROOT = Path(__file__).parent.parent.parent


def config_of(**options) -> MatchOptions:
    settings = {"readouts": 8, "opening_plies": 2, "parallel_games": 8, "threads": 2, "backend": "openvino"}
    return MatchOptions(**(settings | options))


def never(writer) -> bool:
    return False


def play(folder: Path, texts, num_games, progress=None, settled=never, **options):
    """The record of a match between these players, played with these options."""
    config = config_of(**options)
    entrants = tuple(load_entrant(text, config.readouts) for text in texts)
    runner = MatchRunner(config, common_game(config.game, entrants), progress or Progress())
    with match_lock(folder):
        writer = runner.open(folder, entrants, num_games)
        runner.play(writer, entrants, settled)
    return read_match(folder)


class Watching(Progress):
    """Calls `then` after this many games; remembers warnings."""

    def __init__(self, after=0, then=None) -> None:
        self.remaining, self.then, self.warnings = after, then, []

    def warn(self, text) -> None:
        self.warnings.append(text)

    def advance(self, count=1) -> None:
        self.remaining -= count
        if self.remaining < 0 and self.then is not None:
            then, self.then = self.then, None
            then()


@pytest.fixture
def workers(monkeypatch):
    """Process numbers of all workers that the test starts, in order; at its end none may be left."""
    pids: list[int] = []

    class Watched(module.ProcessPool):
        def _start(self, number):
            worker = super()._start(number)
            pids.append(worker.process.pid)
            return worker

    monkeypatch.setattr(module, "ProcessPool", Watched)
    yield pids
    assert not [pid for pid in pids if is_alive(pid)]


# The same games


def test_players_without_a_network_play_the_same_games_however_they_are_played(tmp_path, workers):
    def games(name, **options):
        found = play(tmp_path / name, ("random", "heuristic"), 20, game="go:5", **options)
        assert not found.failures
        return found.openings, found.games

    wanted = games("wanted", threads=1, parallel_games=64)
    assert len(wanted[1]) == 20
    assert games("threads", threads=3, parallel_games=64) == wanted
    assert games("one", threads=1, parallel_games=1) == wanted
    assert games("worker", workers=1) == wanted
    assert games("workers", workers=3, threads=1, parallel_games=5) == wanted
    assert len(workers) == 4
    assert games("seed", seed=1) != wanted


@pytest.mark.parametrize(("spec", "backend"), [("tictactoe", "torch"), ("go:5", "openvino")])
def test_small_networks_play_the_same_games_however_they_are_played(tmp_path, workers, spec, backend):
    """Real networks, on one backend, in threads and in worker processes: bit for bit, values and all.

    It holds because batches are never smaller than backends.MIN_BATCH, and for small networks only as far as that
    promise goes: it is about kernels of the backend's that we can't see.
    """
    models = [make_model(tmp_path, number, spec, seed=number) for number in (0, 1)]
    texts = [str(models[0]), f"{models[1]}@3"]

    def games(name, **options):
        found = play(tmp_path / "matches" / name, texts, 24, backend=backend, readouts=4, **options)
        assert not found.failures
        return found.openings, found.games

    wanted = games("wanted", threads=1, parallel_games=256)
    assert len(wanted[1]) == 24
    assert games("threads", threads=3, parallel_games=24) == wanted
    assert games("few", threads=1, parallel_games=3) == wanted
    assert games("workers", workers={"openvino": 2, "torch": 1}[backend], parallel_games=7) == wanted


def test_a_match_that_is_resumed_another_way_is_the_same_match(tmp_path, workers):
    texts = ("random", "heuristic")
    wanted = play(tmp_path / "wanted", texts, 40, game="go:5")
    folder = tmp_path / "match"
    options = {"game": "go:5", "parallel_games": 2}
    first = play(folder, texts, 40, settled=lambda writer: len(writer.games) > 5, threads=1, **options)
    assert 5 < len(first.games) < 40
    second = play(folder, texts, 40, settled=lambda writer: len(writer.games) > 20, workers=2, **options)
    assert len(first.games) < len(second.games) < 40
    last = play(folder, texts, 40, threads=2, **options)
    assert last.games == wanted.games and last.openings == wanted.openings
    lines = (folder / "games.jsonl").read_text().splitlines()
    assert len(lines) == 41  # each game was written once


def test_the_same_player_begins_in_neighbouring_games_that_begin_at_once():
    assert module.in_step(range(10), 6, None) == [0, 2, 4, 1, 3, 5, 6, 7, 8, 9]
    assert module.in_step([1, 2, 5, 8], 256, None) == [2, 8, 1, 5]  # of a match that goes on
    assert module.in_step(range(4), 4, 0) == [0, 1, 2, 3]  # one player is black in all


def test_batches_against_an_engine_have_one_size_however_many_games_are_left(tmp_path):
    """And it is small: a thread plays few games with an engine, and padding them to sixteen took most of the time."""
    model = str(make_model(tmp_path, spec="go:5"))
    engine, other = load_entrant(f"e=gtp:{engine_command('play')}", 8), load_entrant(f"other={model}", 8)
    here = load_entrant(model, 8)
    assert [batch_of((here, engine), rows) for rows in (1, 3, 4)] == [4, 4, 4]
    assert [batch_of((here, other), rows) for rows in (1, 4, 40)] == [16, 16, 40]


@pytest.mark.parametrize("backend", ["openvino", "int8", "torch"])
@pytest.mark.parametrize("spec", ["go:5", "go:any"])
def test_small_batches_have_the_same_bits_for_a_position_in_any_row(tmp_path, backend, spec):
    """A match that goes on plays its games in other rows."""
    entrant = load_entrant(str(make_model(tmp_path, spec=spec, size="b2c16")), 8)
    assert entrant.model is not None
    evaluate = PlayerFactory(config_of(backend=backend), 1, batch_of((entrant,), 1) // 4)._loaded(entrant)[0]
    game = parse_game("go:9" if spec == "go:any" else spec)
    seen = game_as_seen(entrant.model.info, game)
    states = seen.initial(1)
    _, planes = seen.legal_and_observe(states, seen.initial_history(states))
    generator = np.random.default_rng(5)
    others = (generator.random((3, *planes.shape[1:])) < 0.3).astype(np.uint8)
    expected = evaluate(planes)
    for row in range(4):
        found = evaluate(np.insert(others, row, planes[0], axis=0))
        assert np.array_equal(found[0][row], expected[0][0]) and found[1][row] == expected[1][0]


def test_a_queue_gives_neighbours():
    games = GameQueue()
    games.give(range(5))
    assert [games.take(most) for most in (3, 0, 4, 1)] == [[0, 1, 2], [], [3, 4], []]
    games.give([7])
    games.close()
    assert games.take(1) == []


def test_a_match_may_grow(tmp_path):
    config = config_of(game="connect4")
    entrants = (load_entrant("random", 8), load_entrant("heuristic", 8))
    runner = MatchRunner(config, common_game("connect4", entrants), Progress())
    folder = tmp_path / "match"
    for pairs in (3, 5):
        with match_lock(folder):
            writer = runner.open(folder, entrants, 0)
            runner.extend(writer, entrants, pairs - len(writer.openings))
            runner.play(writer, entrants, never)
            runner.play(writer, entrants, never)  # nothing is missing
    grown = read_match(folder)
    assert len(grown.games) == 10
    assert grown.games == play(tmp_path / "at_once", ("random", "heuristic"), 10, game="connect4").games


# Entrants


def test_seats_say_what_the_records_need(tmp_path):
    path = make_model(tmp_path, 3)
    entrant = load_entrant(f"{path}", 40)
    assert (entrant.name, entrant.info.kind, entrant.info.readouts, len(entrant.info.weights)) == (
        "000003-test",
        "model",
        40,
        64,
    )
    assert load_entrant(f"{path}@5", 40).info.readouts == 5
    assert load_entrant(f"policy:{path}", 40).info.readouts == 0
    assert load_entrant("random", 40).info.model_dump(include={"name", "kind", "readouts", "weights"}) == {
        "name": "random", "kind": "random", "readouts": None, "weights": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["random", "x=random", "heuristic", "gtp:gnugo --mode gtp", "e=gtp:cmd a=b", "{path}", "m={path}", "{path}@7"],
)
def test_a_full_spec_means_the_same_player_elsewhere(tmp_path, text, monkeypatch):
    make_model(tmp_path, 3)
    monkeypatch.chdir(tmp_path)
    entrant = load_entrant(text.format(path="./000003-test"), 40)
    monkeypatch.chdir(ROOT)
    again = load_entrant(entrant.full_spec, 0)
    for field in ("name", "kind", "readouts", "weights"):
        assert getattr(again.info, field) == getattr(entrant.info, field)
    assert again.spec.argument == entrant.spec.argument and again.spec.path == entrant.spec.path


def test_who_plays_what(tmp_path):
    tictactoe, connect4 = make_model(tmp_path, 1), make_model(tmp_path, 2, spec="connect4")
    entrants = {name: load_entrant(str(text), 1) for name, text in
             {"t": tictactoe, "c": connect4, "r": "random", "g": "gtp:gnugo"}.items()}  # fmt: skip
    assert common_game(None, [entrants["t"], entrants["r"]]).spec == "tictactoe"
    assert common_game("go:5", [entrants["g"], entrants["r"]]).spec == "go:5"
    with pytest.raises(UsageError, match=r"--game: not given, and random and gnugo.* may play any"):
        common_game(None, [entrants["r"], entrants["g"]])
    with pytest.raises(FileError, match="000002-test: it plays connect4; wanted a model that plays tictactoe"):
        common_game(None, [entrants["t"], entrants["c"]])
    with pytest.raises(FileError, match="it plays tictactoe; wanted a model that plays go:5"):
        common_game("go:5", [entrants["r"], entrants["t"]])
    with pytest.raises(UsageError, match="GTP engines play Go only; the game is tictactoe"):
        common_game(None, [entrants["t"], entrants["g"]])


def test_a_worker_plays_the_players_that_were_asked_for_or_nothing(tmp_path):
    path = make_model(tmp_path, 1)
    job = {
        "config": {"backend": "openvino"}, "game": "tictactoe", "players": [f"m={path}@3", "random"],
        "weights": ["0" * 64, ""], "openings": [[0]], "threads": 1, "rows": 1,
    }  # fmt: skip
    with pytest.raises(FileError, match="its weights changed since the match began"):
        match_executor(job, {})


# Workers that fail


def test_a_worker_that_is_killed_while_it_plays_costs_nothing_in_the_end(tmp_path, workers):
    texts, options = ("random", "heuristic"), {"game": "go:5", "parallel_games": 8, "threads": 2}
    wanted = play(tmp_path / "wanted", texts, 60, **options)
    progress = Watching(3, lambda: os.kill(workers[0], signal.SIGKILL))
    found = play(tmp_path / "match", texts, 60, progress, workers=2, **options)
    assert found.games == wanted.games
    assert found.failures and {one.attempt for one in found.failures} == {1}
    assert {one.problem for one in found.failures} == {"worker 0: its process ended (signal SIGKILL)"}
    assert len(workers) == 3 and len(progress.warnings) == 1
    assert "failed and will be tried again: worker 0: its process ended" in progress.warnings[0]


def test_a_worker_that_hangs_while_it_plays_is_replaced(tmp_path, workers):
    texts, options = ("random", "heuristic"), {"game": "go:5", "parallel_games": 8, "threads": 1}
    wanted = play(tmp_path / "wanted", texts, 60, **options)
    progress = Watching(3, lambda: os.kill(workers[0], signal.SIGSTOP))
    found = play(tmp_path / "match", texts, 60, progress, workers=1, hang_seconds=6.0, **options)
    assert found.games == wanted.games
    assert found.failures and all("it made no step for" in one.problem for one in found.failures)
    assert not is_alive(workers[0])


def test_a_model_that_changed_under_the_workers_stops_the_match_and_blames_no_game(tmp_path, workers):
    path = make_model(tmp_path, 1)
    texts = (str(path), "random")
    entrants = tuple(load_entrant(text, 2) for text in texts)
    runner = MatchRunner(config_of(workers=2), common_game(None, entrants), Progress())
    changed = make_model(tmp_path / "other", 1, seed=5)
    with match_lock(tmp_path / "match"):
        writer = runner.open(tmp_path / "match", entrants, 8)
        path.rename(tmp_path / "away")
        changed.rename(path)
        with pytest.raises(MuGoError, match="its weights changed since the match began"):
            runner.play(writer, entrants, never)
    match = read_match(tmp_path / "match")
    assert not match.games and not match.failures


@pytest.mark.parametrize("error", [KeyboardInterrupt, FileError("/x", "disk full")])
def test_no_worker_outlives_a_match_that_is_broken_off(tmp_path, workers, error):
    def fail():
        raise error

    with pytest.raises(error if isinstance(error, type) else type(error)):
        play(tmp_path / "match", ("random", "heuristic"), 200, Watching(3, fail), game="go:5", workers=2)
    assert len(workers) == 2 and not any(is_alive(pid) for pid in workers)
    match = read_match(tmp_path / "match")
    assert 3 < len(match.games) < 200 and not match.failures


def test_no_worker_outlives_an_interruption_before_the_first_game(tmp_path, workers):
    class Impatient(Progress):
        def advance(self, count=1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "match", ("random", "heuristic"), 20, Impatient(), game="go:5", workers=2)


def test_no_worker_outlives_its_leader(tmp_path):
    """The leading process is killed; the engines of its workers end too, though one of them thinks for ten minutes."""
    log = tmp_path / "engine.log"
    engine = engine_command("slow", "--at", "3", "--seconds", "0.05", "--log", str(log))
    command = [sys.executable, "main.py", "evaluate", "--game", "go:5", "--black-model", "random", "--white-model",
               f"gtp:{engine}", "--games", "40", "--workers", "2", "--output-dir", str(tmp_path / "out")]  # fmt: skip
    leader = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text().count("genmove") > 6):
            assert time.monotonic() < deadline and leader.poll() is None
            time.sleep(0.02)
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(leader.pid)], capture_output=True, text=True)
        found = [int(word) for word in children.stdout.split()]
    finally:
        leader.kill()
        leader.wait()
    assert len(found) == 2
    engines = {int(line.split()[0]) for line in log.read_text().splitlines()}
    for pid in [*found, *engines]:
        wait_until_gone(pid)


# Engines that fail


def engine(*arguments) -> str:
    return "engine=gtp:" + engine_command(*arguments)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_game_whose_engine_crashes_is_tried_again_and_the_rest_finishes(tmp_path, workers, num_workers):
    """The engine's first process dies at its 30th move, in its third game or so; the next gets through all games."""
    dying = engine("die", "--at", "30", "--once", str(tmp_path / "began"))
    found = play(
        tmp_path / "match", (dying, "heuristic"), 12, game="go:5", opening_plies=3, threads=1, parallel_games=1,
        workers=num_workers,
    )  # fmt: skip
    assert len(found.games) == 12
    [failed] = found.failures
    assert (failed.attempt, failed.kind, failed.player) == (1, "broken", "engine")
    assert "ended with status 3" in failed.problem
    assert failed.moves[:3] == found.openings[failed.failed // 2]
    assert failed.failed > 0 and len(failed.moves) > 3


@pytest.mark.parametrize(("mode", "kind"), [("die", "broken"), ("hang", "broken"), ("garbage", "protocol"),
                                            ("refuse-genmove", "refusal"), ("occupied", "illegal")])  # fmt: skip
def test_an_engine_that_never_works_is_not_tried_for_hundreds_of_games(tmp_path, mode, kind):
    with pytest.raises(MuGoError, match=r"every game failed, e.g. engine: .*; fix that and run it again"):
        play(tmp_path / "match", (engine(mode), "random"), 200, game="go:5", threads=2, engine_seconds=0.3)
    match = read_match(tmp_path / "match")
    assert not match.games and 8 <= len(match.failures) < 40
    assert {(one.kind, one.player) for one in match.failures} == {(kind, "engine")}


def test_games_that_failed_for_good_are_played_by_the_next_run(tmp_path):
    """An engine that refuses to play on from some openings; then it is mended."""
    script = tmp_path / "engine.py"
    entrants = (f"engine=gtp:{sys.executable} {script}", "random")
    source = Path(engine_command("play").split()[-2]).read_text()
    broken = source.replace(
        "        self.num_genmoves += 1\n",
        "        self.num_genmoves += 1\n"
        # It fails before its first move, so a game that fails once fails again.
        "        if len(self.stones) < 4 and any('C' in vertex for vertex in self.stones):\n"
        "            raise ValueError('not that')\n",
    )
    assert broken != source
    script.write_text(broken)
    progress = Watching()
    first = play(tmp_path / "match", entrants, 12, progress, game="go:5", threads=1)
    missing = set(range(12)) - {one.index for one in first.games}
    assert missing and first.games
    assert {one.failed for one in first.failures} == missing
    assert sorted(one.attempt for one in first.failures) == [1] * len(missing) + [2] * len(missing)
    assert any("failed again and won't count" in text for text in progress.warnings)
    script.write_text(source)
    second = play(tmp_path / "match", entrants, 12, game="go:5", threads=1)
    assert len(second.games) == 12 and second.failures == first.failures
    assert [one for one in second.games if one.index not in missing] == first.games


def test_games_that_fail_again_and_again_do_not_keep_the_others_from_being_played(tmp_path, monkeypatch):
    """They come first in the next run, and aren't taken for all games."""
    players = ("random", "heuristic")
    games = {one.index: one for one in play(tmp_path / "whole", players, 60, game="tictactoe").games}
    problem = {"attempt": 2, "kind": "refusal", "player": "random", "problem": "I won't", "moves": []}

    def go_on(*batches: range) -> int:
        """So end the games of these batches, one batch after the other; how many are recorded then."""

        def conduct(pool, numbers, on_outcomes, given_up) -> None:
            for batch in batches:
                failed = [one for one in batch if one in bad]
                given_up.update(failed)
                ended = [games[one] for one in batch if one not in bad]
                if not on_outcomes(ended, [MatchFailure(failed=one, **problem) for one in failed]):
                    return

        monkeypatch.setattr(module, "conduct", conduct)
        return len(play(tmp_path / "match", players, 60, game="tictactoe").games)

    monkeypatch.setattr(MatchRunner, "_pool", lambda *arguments: None)
    bad = range(20, 30)
    assert go_on(range(20), bad) == 20
    assert go_on(bad, range(30, 40)) == 30
    bad = range(20, 60)
    with pytest.raises(MuGoError, match=r"match: all 20 games that were tried failed, e.g. I won't; fix that"):
        go_on(range(20, 30), range(40, 50), range(50, 60))


def test_engines_end_with_the_match(tmp_path, workers):
    for num_workers in (0, 2):
        log = tmp_path / f"log{num_workers}"
        texts = (engine("play", "--log", str(log)), "random")
        play(tmp_path / f"match{num_workers}", texts, 8, game="go:5", workers=num_workers)
        pids = {int(line.split()[0]) for line in log.read_text().splitlines()}
        assert pids
        for pid in pids:
            wait_until_gone(pid)


# What it refuses


def test_openings_longer_than_the_game():
    with pytest.raises(UsageError, match=r"--opening-plies 9: games of tictactoe end within 9 plies"):
        play(Path("never"), ("random", "heuristic"), 2, game="tictactoe", opening_plies=9)


def test_a_job_is_json_and_says_everything(tmp_path, workers, monkeypatch):
    """Nothing but the job's line tells a worker what to play: not the folder it runs in, nor the match's files."""
    jobs = []

    class Spying(module.ProcessPool):
        def __init__(self, reader, given, *rest):
            super().__init__(reader, given, *rest)
            jobs.extend(self._jobs)

    monkeypatch.setattr(module, "ProcessPool", Spying)
    make_model(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    found = play(tmp_path / "match", ("000001-test/", "random"), 4, workers=2, hang_seconds=2.0)
    assert len(found.games) == 4 and len(jobs) == 2
    assert json.loads(json.dumps(jobs[0])) == jobs[0]
    assert jobs[0]["players"] == [f"000001-test={tmp_path.resolve()}/000001-test@8", "random=random"]
    assert jobs[0]["beat_seconds"] == 0.5
    assert isinstance(load_entrant(jobs[0]["players"][0], 0), Entrant)


def test_openings_from_a_file_are_part_of_the_match(tmp_path):
    def played(**options):
        return play(tmp_path / "match", ["a=random", "b=random"], 4, game="tictactoe", **options)

    game, path = parse_game("tictactoe"), tmp_path / "openings.json"
    write_openings(path, game, [[number] for number in range(9)], {})
    match = played(openings=path)
    assert match.openings == [[0], [1]] and match.header.settings["opening_plies"] == 1
    assert [one.moves[0] for one in match.games] == [0, 0, 1, 1]
    (tmp_path / "elsewhere").mkdir()
    moved = path.rename(tmp_path / "elsewhere" / "openings.json")
    assert played(openings=moved).openings == [[0], [1]]
    write_openings(moved, game, [[8], [7]], {})
    with pytest.raises(FileError, match=r"this match was begun with openings 'openings\.json"):
        played(openings=moved)
    with pytest.raises(FileError, match="this match was begun with"):
        played()
