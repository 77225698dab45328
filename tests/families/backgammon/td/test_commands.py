"""What commands do with models of this method, and with games that count several points."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.evaluate.watch import watch
from pipeline.families.backgammon.td import network as afterstates
from pipeline.families.backgammon.td.losses import AfterstateObjective, Batch
from pipeline.gather.command import gather
from pipeline.progress import SILENT
from pipeline.reports.report.facts import collect
from pipeline.reports.report.replays import replays
from pipeline.reports.summaries import summary_text
from pipeline.run.layout import Run
from pipeline.selfplay.command import selfplay
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init
from pipeline.train.trainer import CudaGraphPass, Trainer
from tests.evaluate.test_watch import Heard, settings
from tests.families.backgammon.td.helpers import play, shard_of, small_network
from tests.gather.test_command import GAME
from tests.gather.test_command import config as gather_config
from tests.reports.test_report import NOW
from tests.run.random_games import random_games, write_shard
from tests.selfplay.test_workers import selfplay_config
from tests.train.test_init import config as init_config


def test_a_match_for_points_that_is_too_short_to_be_passed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init(InitConfig(game="hypergammon", method="td", network_size="h4"))
    with pytest.raises(UsageError, match=r"--games 14: .*; wanted at least 16, or --threshold"):
        evaluate(EvaluateConfig(games=14, readouts=0, white_model="twin=saved_models/best_model"))
    assert not (tmp_path / "data/evaluate").exists()


def test_games_that_count_several_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    init(InitConfig(game="hypergammon", method="td", network_size="h4"))
    quick = {name: value for name, value in settings(readouts=0).model_dump(exclude_unset=True).items()
             if name != "opening_plies"}  # fmt: skip
    (found,) = watch(EvaluateConfig(**quick), Heard())
    assert found.is_whole and all(one.points_per_game is not None for one in found.results)
    text = summary_text(found)
    assert "points a game" in text and "share of games" in text and "of the points" not in text
    assert "opening_plies" not in found.settings


def test_options_that_only_workers_can_check_are_wrong_usage_there_too(tmp_path):
    path = tmp_path / "saved_models/000000-init"
    init(InitConfig(game="hypergammon", method="td", network_size="h8", new_model=path))
    with pytest.raises(MuGoError, match="worker 0: selfplay --readouts: method td plays without a search") as caught:
        selfplay(selfplay_config(tmp_path, "games", workers=1, network=path, opponents="mirror=1"))
    assert caught.value.exit_code == UsageError.exit_code


def test_a_method_that_is_bound_to_its_game_says_so(tmp_path: Path) -> None:
    small = init(init_config(tmp_path, game="hypergammon", method="td", network_size="h4", value_head="points")).model
    other = tmp_path / "other" / "saved_models" / "000000-init"
    with pytest.raises(FileError, match="networks of method td can't be taken to another game"):
        init(init_config(tmp_path, game="backgammon", new_model=other, original_model=small))


def test_methods_without_searches_refuse_to_learn_from_searches_alone(tmp_path: Path) -> None:
    write_shard(tmp_path / "selfplay", "000001-a", "w00", "tictactoe", random_games(GAME, 8, 0), {}, method="td")
    with pytest.raises(UsageError, match="--searched-only: method td"):
        gather(gather_config(tmp_path, searched_only=True))


def test_games_that_count_points_have_no_win_rates(tmp_path: Path) -> None:
    """Their values are points, of throws too."""
    (tmp_path / "saved_models").mkdir()
    shard_of(tmp_path / "data/selfplay", [one.record for one in play(small_network(), 3)])
    found = replays(collect(Run(tmp_path), SILENT, NOW))
    assert found and all("diagram" in here and "winrate" not in here for one in found for here in one["plies"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("capturable", [True, False])
def test_values_of_afterstates_are_learned_recorded_or_not(capturable: bool) -> None:
    config = TrainConfig(learning_rate=0.01, warmup_steps=0)
    objective = AfterstateObjective(10, 3.0, 5)
    objective.capturable = capturable
    weights = afterstates.random_weights(10, 8, 5, 0)
    found, wanted = (Trainer(one, weights, config) for one in (objective, AfterstateObjective(10, 3.0, 5)))
    assert isinstance(found._pass, CudaGraphPass) == capturable
    wanted._pass = wanted._pass_eagerly
    torch.manual_seed(0)
    for _ in range(6):
        parts = torch.rand(64, 10), torch.rand(64, 5), torch.rand(64), torch.ones(64)
        one, other = found.step(Batch(*parts)), wanted.step(Batch(*parts))
        assert one.metrics == pytest.approx(other.metrics, rel=1e-3)
        assert one.value_errors == pytest.approx(other.value_errors, abs=1e-3)
