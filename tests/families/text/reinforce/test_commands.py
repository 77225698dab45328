"""What commands say of this method's options, and what a GPU doesn't record."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.families.text.reinforce.losses import ReinforceObjective
from pipeline.gather.command import gather
from pipeline.methods.named import method_named
from pipeline.train.config import TrainConfig
from tests.gather.test_command import config, write_every_third_surprised


def test_wrong_rewards_are_told_before_games_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_every_third_surprised(tmp_path / "selfplay", "a2c")
    monkeypatch.setattr("pipeline.gather.command._SetMaker", None)
    with pytest.raises(UsageError, match="gather --sampling-rewards, 'negative=2': value '2'"):
        gather(config(tmp_path, sampling_rewards="normalise,negative=2"))


def test_priorities_need_a_critic() -> None:
    with pytest.raises(UsageError, match="--priority-exponent: method reinforce predicts no value"):
        method_named("reinforce").check_options("train", TrainConfig(priority_exponent=0.6))
    method_named("a2c").check_options("train", TrainConfig(priority_exponent=0.6))


def test_reinforce_is_not_recorded() -> None:
    """Its network looks at its inputs."""
    assert not ReinforceObjective.capturable
