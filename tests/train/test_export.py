"""``export``: half the size, the same player but for rounding, with the results of its matches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.run.matches import MatchFailure, MatchHeader, PlayerInfo, open_match
from pipeline.run.models import Model, read_info, read_model, write_model
from pipeline.train.config import ExportConfig
from pipeline.train.export import STRENGTH, export
from tests.helpers import make_model
from tests.reports.test_show import match_game
from tests.reports.test_show_games import LEFT_COLUMN


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / "saved_models").mkdir()
    return read_model(make_model(tmp_path / "saved_models", 3, size="b2c16"))


def test_a_copy_is_half_as_large_and_the_same_but_for_rounding(model: Model, tmp_path: Path) -> None:
    found = export(ExportConfig(model=model.path, output=tmp_path / "mine", note="plays well"))
    copy = read_model(tmp_path / "mine")
    weights = "weights.safetensors"
    assert copy.info.files[weights].bytes < 0.6 * model.info.files[weights].bytes and set(copy.info.files) == {weights}
    assert (copy.info.name, copy.info.number, copy.info.game) == ("mine", 3, "tictactoe")
    assert copy.info.manifest["exported"] == {"name": model.path.name, "weights": model.info.files[weights].sha256}
    assert copy.info.manifest["note"] == "plays well"
    for name, array in model.weights.items():
        assert copy.weights[name].dtype == np.float32
        assert copy.weights[name] == pytest.approx(array, rel=0 if array.ndim < 2 else 2**-11, abs=1e-7)
    assert found.num_bytes == sum(path.stat().st_size for path in (tmp_path / "mine").iterdir())


def test_a_copy_evaluates_like_the_model(model: Model, tmp_path: Path) -> None:
    export(ExportConfig(model=model.path, output=tmp_path / "mine"))
    architecture = Architecture.from_dict(model.info.architecture)
    planes = np.random.default_rng(0).integers(0, 2, (64, architecture.planes, 3, 3)).astype(np.uint8)
    one, other = (
        evaluate_plain(architecture, fold(architecture, weights), planes)
        for weights in (model.weights, read_model(tmp_path / "mine").weights)
    )
    for first, second in zip(one, other, strict=True):
        assert np.abs(np.asarray(first) - np.asarray(second)).max() < 0.02


@pytest.mark.parametrize("is_challenger", [True, False])
def test_strength_is_seen_by_the_model(model: Model, tmp_path: Path, is_challenger: bool) -> None:
    sha = model.info.files["weights.safetensors"].sha256
    me = PlayerInfo(name=model.path.name, kind="model", spec="x", readouts=50, weights=sha)
    them = PlayerInfo(name="gnugo", kind="gtp", spec="gtp:gnugo --mode gtp")
    players = (me, them) if is_challenger else (them, me)
    header = MatchHeader(
        players=players, game="tictactoe", games=4, threshold=None, settings={"opening_plies": 1}, openings=[[0], [0]]
    )
    folder = tmp_path / "match"
    # the challenger moves first in even games; the first player wins all of them but the last
    match = open_match(folder, header)
    match.add([match_game(index, LEFT_COLUMN, 1) for index in (0, 1, 2)])
    match.add_failure(MatchFailure(failed=3, attempt=2, kind="crash", player="", problem="", moves=[]))
    (found,) = export(ExportConfig(model=model.path, output=tmp_path / "mine", match=[folder])).strength
    assert (found.wins, found.losses, found.opponent, found.readouts) == (
        (2, 1, "gnugo", 50) if is_challenger else (1, 2, "gnugo", 50)
    )
    (stored,) = read_info(tmp_path / "mine").manifest[STRENGTH]
    assert stored["games"] == 3 and stored["points_share_low"] < stored["points_share"] < stored["points_share_high"]
    export(ExportConfig(model=tmp_path / "mine", output=tmp_path / "copied-again"))
    again = read_info(tmp_path / "copied-again").manifest
    assert again[STRENGTH] == [stored] and again["exported"]["name"] == model.path.name


def test_bad_input(model: Model, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no output given"):
        export(ExportConfig(model=model.path))
    with pytest.raises(FileError, match="no such model"):
        export(ExportConfig(model=tmp_path / "none", output=tmp_path / "mine"))
    with pytest.raises(FileError):
        export(ExportConfig(model=model.path, output=model.path))
    huge = {name: array * (1e6 if array.ndim > 1 else 1) for name, array in model.weights.items()}
    write_model(tmp_path / "000009-huge", model.info, huge)
    with pytest.raises(FileError, match="16 bits can't hold"):
        export(ExportConfig(model=tmp_path / "000009-huge", output=tmp_path / "mine"))
    me = PlayerInfo(name="a", kind="model", spec="x", readouts=5, weights="other")
    header = MatchHeader(players=(me, PlayerInfo(name="b", kind="random", spec="random")), game="tictactoe", games=2,
                         threshold=None, settings={}, openings=[[0]])  # fmt: skip
    open_match(tmp_path / "match", header).add([match_game(0, LEFT_COLUMN, 1)])
    with pytest.raises(UsageError, match="players a and b"):
        export(ExportConfig(model=model.path, output=tmp_path / "mine", match=[tmp_path / "match"]))
    assert not (tmp_path / "mine").exists()
