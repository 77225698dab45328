"""bench: every figure is there and makes sense; how fast a machine is isn't tested."""

import json
import subprocess
import sys
from pathlib import Path

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


def test_bench_prints_every_figure_as_json(tmp_path, monkeypatch):
    main = Path(__file__).parents[2] / "main.py"
    options = "--game tictactoe --network-size b1c8 --games 16 --readouts 4 --seconds 0.5 --json"
    done = subprocess.run(
        [sys.executable, str(main), "bench", *options.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    summary = json.loads(done.stdout)
    assert summary.keys() >= KEYS
    assert all(summary[key] > 0 for key in KEYS)
    assert 0.01 < summary["selfplay_share"] < 3 and 0.01 < summary["train_share"] < 3
    assert summary["games"] == 16 and summary["game"] == "tictactoe"
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_bench_evaluate_plays_the_same_games_both_ways(tmp_path):
    main = Path(__file__).parents[2] / "main.py"
    options = "evaluate --game tictactoe --network-size b1c8 --games 40 --readouts 4 --json"
    done = subprocess.run(
        [sys.executable, str(main), "bench", *options.split()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    summary = json.loads(done.stdout)
    assert summary["games"] == 40 and summary["games_alone"] == summary["games_alone_the_same"] == 8
    assert summary["speedup"] > 0 and summary["speedup_unpadded"] > 0 and summary["match_seconds"] > 0


def test_bench_plays_with_the_settings_of_a_preset(tmp_path):
    from pipeline.bench.command import bench
    from pipeline.config import BenchConfig

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
