"""bench: every figure exists and makes sense; the speed of a machine isn't tested."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline import main
from tests.families import having
from tests.helpers import make_model

KEYS = {
    "network_evaluations_per_second",
    "selfplay_evaluations_per_second",
    "selfplay_share",
    "games_per_second",
    "tree_simulations_per_second",
    "gather_positions_per_second",
    "train_samples_per_second",
    "train_share",
}


@pytest.fixture
def few_positions(monkeypatch):
    """Gather from fewer than a measurement needs."""
    monkeypatch.setattr("pipeline.bench.command.GATHERED_POSITIONS", 5_000)


def test_bench_prints_every_figure_as_json(tmp_path, monkeypatch, few_positions):
    monkeypatch.chdir(tmp_path)
    options = "--game tictactoe --network-size b1c8 --games 16 --readouts 4 --seconds 0.3 --json"
    done = CliRunner().invoke(main.app, ["bench", *options.split()])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary.keys() >= KEYS
    assert all(summary[key] > 0 for key in KEYS)
    assert 0.01 < summary["selfplay_share"] < 3 and 0.01 < summary["train_share"] < 3
    assert summary["games"] in range(16, 16 + summary["threads"]) and summary["games"] % summary["threads"] == 0
    assert summary["game"] == "tictactoe"
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_bench_evaluate_plays_the_same_games_both_ways(tmp_path):
    program = Path(__file__).parents[2] / "main.py"
    options = "evaluate --game tictactoe --network-size b1c8 --games 40 --readouts 4 --json"
    done = subprocess.run(
        [sys.executable, str(program), "bench", *options.split()],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["games"] == 40 and summary["games_alone"] == summary["games_alone_the_same"] == 8
    assert summary["speedup"] > 0 and summary["speedup_unpadded"] > 0 and summary["match_seconds"] > 0


def test_bench_plays_with_the_settings_of_a_preset(tmp_path, few_positions):
    from pipeline.bench.command import bench
    from pipeline.bench.config import BenchConfig

    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "init: {value_head: wdl}\n"
        "selfplay: {readouts: 8, full_search_fraction: 0.5, cheap_readouts: 2, forced_playouts: 2, noise_shape: 0.5}\n"
        "train: {batch_size: 64, reply_weight: 0.15, ema_decay: 0.9}\n"
    )
    config = BenchConfig(game="tictactoe", network_size="b1c8", games=8, seconds=0.3, preset=str(preset))
    summary = bench(config)
    assert summary.readouts == 8
    assert summary.selfplay_evaluations_per_second > 0 and summary.train_samples_per_second > 0


@pytest.mark.parametrize(("preset", "readouts", "expected"), [
    (True, None, 8), (True, 5, 5), (False, None, 64), (False, 5, 5),
])  # fmt: skip
def test_its_readouts_are_the_option_then_the_presets(tmp_path, preset, readouts, expected):
    from pipeline.bench.command import _play_settings
    from pipeline.bench.config import BenchConfig

    (tmp_path / "mine.yaml").write_text("selfplay: {readouts: 8}\n")
    config = BenchConfig(preset=str(tmp_path / "mine.yaml") if preset else None, readouts=readouts)
    assert _play_settings(config).readouts == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        *having(
            "backgammon",
            ({"preset": "backgammon"}, "--preset backgammon: found method td; wanted a preset of alphazero"),
        ),
        *having(
            "text",
            ({"preset": "text-kuhn"}, "--preset text-kuhn: found method reinforce; wanted a preset of alphazero"),
        ),
        ({"preset": "{}/raw.yaml"}, "raw.yaml: self-play begins with 0 readouts; wanted at least 1"),
        ({"what": "evaluate", "preset": "go9"}, "evaluate --preset: found 'go9'; wanted none"),
        ({"what": "evaluate", "boards": "9=1"}, "evaluate --boards: found '9=1'; wanted none"),
    ],
)
def test_bench_refuses_what_it_cannot_measure(tmp_path, monkeypatch, options, problem):
    from pipeline.bench import command
    from pipeline.bench.config import BenchConfig
    from pipeline.errors import UsageError

    def measure(*_):
        raise AssertionError("it began to measure")

    monkeypatch.setattr(command, "_bench_pipeline", measure)
    monkeypatch.setattr(command, "bench_match", measure)
    (tmp_path / "raw.yaml").write_text("selfplay: {games: 8}\n")
    given = {name: text.format(tmp_path) for name, text in options.items()}
    with pytest.raises(UsageError, match=problem):
        command.bench(BenchConfig(**given))


def test_bench_measures_a_model_in_the_middle_of_its_games(tmp_path, monkeypatch, few_positions):
    from pipeline.bench.command import bench
    from pipeline.bench.config import BenchConfig
    from pipeline.errors import UsageError
    from pipeline.methods.alphazero.actor import TreeActor

    model = make_model(tmp_path, spec="connect4", size="b2c8")
    begun = []
    monkeypatch.setattr(TreeActor, "put_at", lambda actor, games: begun.append((actor, games)))
    summary = bench(BenchConfig(model=model, game="go:9", network_size="b6c96", games=8, readouts=4, seconds=0.3))
    assert summary.game == "connect4" and summary.network_size == "b2c8"
    assert summary.selfplay_evaluations_per_second > 0 and summary.tree_simulations_per_second > 0
    assert len({id(actor) for actor, _ in begun}) == len(begun) == 2 * summary.threads  # with and without a network
    assert all(len(games) == summary.games // summary.threads for _, games in begun)
    with pytest.raises(UsageError, match=r"--model: found .*; wanted none"):
        bench(BenchConfig(what="evaluate", model=model))


def test_its_games_begin_at_all_stages():
    """Games are the policy's, which prefers the left half of the board here. Actors continue from there."""
    from pipeline.bench.command import _Board, _raw_games, _stages
    from pipeline.games.replay import replay_one
    from pipeline.games.specs import parse_game
    from pipeline.methods.alphazero.actor import TreeActor
    from pipeline.methods.method import ActorJob, Learner, game_seeds
    from pipeline.selfplay.config import SelfplayConfig

    game = parse_game("connect4")
    likes = np.where(np.arange(game.num_actions) < 4, 2.0, 0.0).astype(np.float32)

    def evaluate(planes):
        return np.tile(likes, (len(planes), 1)), np.zeros(len(planes), np.float32)

    stages = _stages(_raw_games(_Board(game, 64, [evaluate], np.zeros(0))))
    lengths = [len(moves) for moves in stages]
    assert lengths[0] == 0 and np.mean(lengths[:16]) < 6 < 10 < np.mean(lengths[-16:])
    everything = np.concatenate(stages)
    assert 0.75 < (everything < 4).mean() < 0.95
    job = ActorJob(
        game, 64, SelfplayConfig(readouts=3), game_seeds(0, iter(range(1000)), 0.0), lambda: Learner("l", evaluate),
        lambda _: None,
    )  # fmt: skip
    actor = TreeActor(job)
    actor.put_at(stages)
    for row, moves in enumerate(stages):
        assert (actor.search.states[row] == list(replay_one(game, moves))[-1]).all()
    before = actor.plies
    while actor.plies < before + 500:
        actor.step()


def test_it_measures_the_network_that_init_makes(tmp_path):
    from pipeline.bench.command import _network
    from pipeline.bench.config import BenchConfig
    from pipeline.train.config import InitConfig

    (tmp_path / "mine.yaml").write_text("init: {game: connect4, network_size: b1c16}\n")
    size = {"preset": str(tmp_path / "mine.yaml")}
    assert _network(BenchConfig(game="tictactoe"))[1].size == InitConfig().network_size
    assert _network(BenchConfig(**size))[1].size == "b1c16"
    assert _network(BenchConfig(**size))[0].spec == "connect4"
    assert _network(BenchConfig(**size, network_size="b1c8", game="tictactoe"))[1].size == "b1c8"


def test_it_says_what_it_does_every_few_seconds(monkeypatch):
    """However long a part takes: a thread says it, and the log has a line at least every five seconds."""
    from pipeline.bench import command
    from pipeline.commands import COMMANDS
    from pipeline.progress import Progress

    said = []

    class Listening(Progress):
        def describe(self, text):
            said.append(text)

    monkeypatch.setattr(command, "TICK_SECONDS", 0.02)
    with command.saying_parts(Listening()) as part:
        part("gather")
        time.sleep(0.3)
    ended = len(said)
    assert said[0] == "gather" and said[1] == "gather, 0 s" and ended > 3
    time.sleep(0.1)
    assert len(said) == ended
    assert COMMANDS["bench"].log_seconds + 1 <= 5
