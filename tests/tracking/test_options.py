"""--track: names, packages, and where they are checked."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.presets import make_config, read_preset
from pipeline.tracking import options
from pipeline.tracking.options import check_packages, extras_of, sinks_in
from pipeline.train.config import TrainConfig


@pytest.mark.parametrize("track", ["", "tensorbord", "none,wandb", "wandb,wandb:online"])
def test_other_names_are_refused_in_one_line(track: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_config(TrainConfig, "train", None, track=track)
    names = "tensorboard, wandb, wandb:online, mlflow, several with commas, or none"
    assert str(raised.value) == f"train --track: found {track!r}; wanted {names}"


def test_a_preset_may_say_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("train: {track: 'tensorboard,wandb'}\nselfplay: {track: none}\n")
    assert make_config(TrainConfig, "train", str(path)).track == "tensorboard,wandb"
    assert read_preset(str(path))["selfplay"]["track"] == "none"
    path.write_text("train: {track: paper}\n")
    with pytest.raises(UsageError, match="found 'paper'; wanted tensorboard"):
        read_preset(str(path))


def test_names() -> None:
    assert sinks_in("none") == [] and sinks_in("tensorboard, mlflow") == ["tensorboard", "mlflow"]
    assert extras_of(["none", "tensorboard", "wandb:online", "mlflow"]) == {"wandb", "mlflow"}


@pytest.mark.parametrize("found", [False, True])
def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    folder = ModuleSpec("wandb", None)  # that wandb has left here
    monkeypatch.setattr(options, "find_spec", lambda name: folder if found else None)
    check_packages("train", "tensorboard")
    with pytest.raises(UsageError) as raised:
        check_packages("train", "tensorboard,wandb")
    assert str(raised.value) == (
        "train --track: found 'tensorboard,wandb', but the package wandb isn't installed; wanted the extra wandb: "
        "python -m pip install -c constraints.txt -e '.[wandb]'"
    )
