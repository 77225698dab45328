"""The models that come with the repository: small, whole, with their measured strength, and able to play."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from pipeline.errors import FileError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.reports.show import show
from pipeline.run.models import read_model
from pipeline.train.export import STRENGTH

ROOT = Path(__file__).parent.parent
MODELS = sorted((ROOT / "pretrained").iterdir())
MOST_BYTES = 1_500_000


def test_they_are_those_that_the_docs_name() -> None:
    names = ["backgammon", "connect4", "go-any", "go9", "gomoku-any", "gomoku9", "othello", "shogi", "shogi5"]
    assert [model.name for model in MODELS] == names
    text = (ROOT / "docs" / "play.md").read_text(encoding="utf-8")
    assert all(f"`pretrained/{model.name}`" in text for model in MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_each_is_small_and_says_how_strong_it_is(model: Path) -> None:
    assert sum(path.stat().st_size for path in model.iterdir()) <= MOST_BYTES
    found = read_model(model)
    assert found.info.name == model.name and found.info.manifest["exported"]["name"]
    for one in found.info.manifest[STRENGTH]:
        assert one["games"] >= 100 and one["points_share_low"] > 0.5, one["opponent"]
    stored = safetensors.numpy.load_file(model / "weights.safetensors")
    assert all(array.dtype == np.float16 for array in stored.values() if array.ndim > 1)


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_each_plays(model: Path, tmp_path: Path) -> None:
    config = EvaluateConfig(
        black_model="random", white_model=str(model), games=6, readouts=8, opening_plies=2, promote=False, threads=1,
        threshold=None, margin_from=1, output_dir=tmp_path, workers=0, backend="torch",
    )  # fmt: skip
    assert evaluate(config).wins == 6


def test_each_is_shown_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for model in MODELS:
        assert model.name in "\n".join(show(Path("pretrained") / model.name))
    with pytest.raises(FileError, match="pretrained/none: no such file"):
        show(Path("pretrained/none"))
