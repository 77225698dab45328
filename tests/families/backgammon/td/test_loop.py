"""The method through all four commands: what they leave behind, that it learns, and that a training resumes exactly."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

from pipeline.errors import UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.backgammon.td.method import TemporalDifference
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.progress import Progress
from pipeline.reports.config import ReportConfig, StatusConfig
from pipeline.reports.report.command import report
from pipeline.reports.show import show
from pipeline.reports.status import status
from pipeline.reports.status_screen import screen
from pipeline.reports.summaries import summary_text
from pipeline.run.chunks import newest_complete_set, read_header
from pipeline.run.models import read_model, read_optimizer
from pipeline.run.shards import newest_shards
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which two generations were made; the tests work there."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        init(InitConfig(game="hypergammon", method="td", network_size="h16t", value_head="points"))
        for generation in range(2):
            selfplay(SelfplayConfig(games=300, seed=generation, threads=2, value_plies=generation))
            gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=512, seed=generation, td_lambda=0.9))
            train(TrainConfig(epochs=4, batch_size=128, learning_rate=0.01, weight_decay=0))
            match = evaluate(EvaluateConfig(games=200, readouts=0, threshold=0, seed=generation))
            assert match.promoted and match.points is not None and match.points.per_game > 0
        yield folder


def console_text(shown: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(shown)
    return out.getvalue()


def test_what_the_commands_leave_behind(run: Path) -> None:
    model = read_model(Path("saved_models/best_model").resolve())
    assert model.info.name == "000002-h16t" and model.info.method == "td" and model.info.game == "hypergammon"
    assert model.info.architecture == {"features": 198, "tactics": 21, "hidden": 16, "outputs": 5, "max_result": 3.0}
    assert {meta.method for meta in newest_shards(Path("data/selfplay"))} == {"td"}
    chunks = newest_complete_set(Path("data/training_data"))
    assert chunks is not None and read_header(chunks.chunks[0]).method == "td"
    for path in (Path("saved_models/000002-h16t"), Path("data/selfplay"), Path("data/training_data"), Path()):
        assert "hypergammon" in "\n".join(show(path))


def test_what_is_shown_is_what_was_measured(run: Path) -> None:
    """No zeros and no dashes for what the method doesn't have, and its own terms everywhere."""
    for text in ("\n".join(show(Path())), console_text(screen(status(StatusConfig())))):
        assert "error, points" in text and "policy" not in text and "value loss" not in text
    newest = status(StatusConfig()).trainings[-1].measures
    assert newest.keys() == {"total", "target_error"}
    assert all(one.training is not None and one.holdout is not None for one in newest.values())
    report(ReportConfig(output=Path("report.html")))
    page = Path("report.html").read_text(encoding="utf-8")
    titles = "Distance from targets", "TD error of self-play", "Calibration", "Gammons", "Single games", "Game length"
    for title in titles:
        assert f"<h3>{title}</h3>" in page
    assert "<h3>Policy" not in page and "search" not in page.partition('id="replay"')[0].lower()
    lines = Path("data/logs/selfplay/w00/points.jsonl").read_text().splitlines()
    tracked = json.loads(lines[-1])
    assert tracked["selfplay/games"] == 600 and 0 < tracked["selfplay/td_error"] < 3
    assert tracked["selfplay/single_share"] + tracked["selfplay/gammon_share"] + tracked[
        "selfplay/backgammon_share"
    ] == pytest.approx(1)
    assert "selfplay/resign_threshold" not in tracked
    points = [json.loads(line) for line in Path("data/logs/train/points.jsonl").read_text().splitlines()]
    names = {name for point in points for name in point}
    assert {"train/target_error", "train/target_error_holdout", "train/predicted_value", "train/gradient_norm"} <= names
    weights = [point for point in points if "train/weights/hidden" in point]
    assert len(weights) == 2 and sum(weights[0]["train/weights/hidden"]["counts"]) == 16 * 219 + 16
    assert sum(weights[0]["train/gradients/output"]["counts"]) == 5 * 16 + 5


def test_chances_and_targets_are_shown_by_name_or_entry(run: Path) -> None:
    shard = next(newest_shards(Path("data/selfplay")))
    game = "\n".join(show(shard.path, 0))
    assert re.search(r"wins 0\.\d+", game) and "loses backgammon 0" in game and "nan" not in game
    chunks = newest_complete_set(Path("data/training_data"))
    assert chunks is not None
    text = "\n".join(show(chunks.chunks[0]))
    assert re.search(r"target +(\S+ ){5}on average", text) and "nan" not in text


def test_all_games_of_a_generation_are_trained_on(run: Path, tmp_path: Path) -> None:
    """However long they are: a window counted in positions would cut them."""
    network = Path("saved_models/000001-h16t")
    played = [
        selfplay(SelfplayConfig(network=network, output_dir=tmp_path / "selfplay", games=40, seed=seed, temperature=9))
        for seed in range(2)
    ]
    found = gather(
        GatherConfig(directory=tmp_path / "selfplay", output_directory=tmp_path / "chunks", max_games=40,
                     positions_per_chunk=2, chunks_to_make=10**5, as_many_as_possible=True, holdout_fraction=0)
    )  # fmt: skip
    assert (found.window_games, found.window_positions) == (40, played[1].positions)
    assert found.positions == played[1].positions == found.new_positions - played[0].positions


def test_a_point_is_about_its_own_games(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them td's own numbers are about."""
    monkeypatch.setattr(TemporalDifference, "tracking_window", 3)
    selfplay(SelfplayConfig(output_dir=tmp_path / "selfplay", logdir=tmp_path / "logs", games=8))
    points = list(map(json.loads, (tmp_path / "logs/selfplay/w00/points.jsonl").read_text().splitlines()))
    assert points[-1]["selfplay/games"] == sum(sum(one["selfplay/plies"]["counts"]) for one in points) == 8


def test_self_play_says_nothing_about_resignations(run: Path, tmp_path: Path) -> None:
    summary = selfplay(SelfplayConfig(output_dir=tmp_path / "selfplay", games=2))
    assert summary.resign_threshold is summary.would_be_resignations is summary.resigned is None
    assert "resign" not in summary_text(summary, whole=True)


class Stopper(Progress):
    """Interrupts after so many steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, count: int = 1) -> None:
        self.left -= count
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interrupted_training_ends_with_the_same_weights(run: Path) -> None:
    def config(name: str) -> TrainConfig:
        return TrainConfig(
            original_model=Path("saved_models/000001-h16t"), new_model=Path(f"resumed/{name}"), epochs=2, batch_size=64,
            ema_decay=0.9,
        )  # fmt: skip

    whole = train(config("000002-whole"))
    with pytest.raises(KeyboardInterrupt):
        train(config("000003-stopped"), Stopper(20))
    resumed = train(config("000003-stopped"))
    assert resumed.resumed_from_step == 20 and resumed.steps == whole.steps > 40
    models = [{**read_model(one.model).weights, **(read_optimizer(one.model) or {})} for one in (whole, resumed)]
    assert models[0].keys() == models[1].keys()
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])


def test_who_asks_for_the_wrong_thing_is_told(run: Path) -> None:
    elsewhere = Path("other/000000-init")
    with pytest.raises(UsageError, match=r"method td: tictactoe has no features.*wanted backgammon or hypergammon"):
        init(InitConfig(game="tictactoe", method="td", network_size="h8"))
    with pytest.raises(UsageError, match=r"network size 'b2c32': wanted hN"):
        init(InitConfig(game="backgammon", method="td", new_model=elsewhere))
    with pytest.raises(UsageError, match=r"--value-head wdl: method td has scalar .* and points"):
        init(InitConfig(game="backgammon", method="td", network_size="h8", value_head="wdl", new_model=elsewhere))
    with pytest.raises(UsageError, match=r"--value-head points: method alphazero has scalar and wdl"):
        init(InitConfig(game="tictactoe", value_head="points", new_model=elsewhere))
    with pytest.raises(UsageError, match="networks of method td don't grow"):
        train(TrainConfig(network_size="b2c32", original_model=Path("saved_models/000001-h16t"), new_model=Path("x/1")))
    with pytest.raises(UsageError, match="--backend vllm: networks of method td don't run on it"):
        selfplay(SelfplayConfig(games=2, backend="vllm", output_dir=Path("other")))
    with pytest.raises(UsageError, match="selfplay --replies-counted: it is for matches"):
        selfplay(SelfplayConfig(games=2, replies_counted=3, output_dir=Path("other")))
    with pytest.raises(UsageError, match="train --optimizer muon: it is for the matrices of residual blocks"):
        train(TrainConfig(optimizer="muon", original_model=Path("saved_models/000001-h16t"), new_model=Path("x/1")))
    two = {"white_model": "saved_models/000001-h16t@0", "black_model": "random", "promote": False}
    with pytest.raises(UsageError, match=r"--resign-threshold -0\.9: 000001-h16t.* is of method td"):
        evaluate(EvaluateConfig(**two, resign_threshold=-0.9, output_dir=Path("x")))
    with pytest.raises(UsageError, match="--opponents: method td plays itself only"):
        selfplay(SelfplayConfig(games=2, opponents="random=1", output_dir=Path("other")))
