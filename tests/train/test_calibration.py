"""Calibration positions of the training window: chosen, kept with the model, used for int8."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.methods.named import method_named
from pipeline.networks.architecture import Architecture
from pipeline.players.loading import calibration_of, calibration_positions
from pipeline.run import layout
from pipeline.run.chunks import ChunkSet, read_chunk
from pipeline.run.models import Model, read_calibration, read_model, write_model
from pipeline.train import dataset
from pipeline.train.config import ExportConfig
from pipeline.train.export import export
from tests.helpers import make_model
from tests.train.chunk_sets import write_set

GAME = parse_game("connect4")
ALPHAZERO = method_named("alphazero")


def chosen(chunks: ChunkSet) -> np.ndarray | None:
    return dataset.calibration_positions(ALPHAZERO, GAME, chunks)


def origins(chunks: ChunkSet) -> dict[bytes, set[int]]:
    """The games that each position's planes occur in."""
    found: dict[bytes, set[int]] = {}
    for path in chunks.chunks:
        columns = read_chunk(path, GAME.spec, column_types(GAME)).columns
        for packed, game in zip(columns["planes"], columns["game"], strict=True):
            found.setdefault(packed.tobytes(), set()).add(int(game))
    return found


def test_halves_are_of_different_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "CALIBRATION_POSITIONS", 80)
    chunks = write_set(tmp_path, GAME, [120, 90])
    packed = chosen(chunks)
    assert packed is not None and packed.shape == (80, 16)  # 3 planes of 42 points
    games = [origins(chunks)[row.tobytes()] for row in packed]
    only = [{game for one in games[half::2] for game in one if len(one) == 1} for half in range(2)]
    assert len(only[0]) > 15 and len(only[1]) > 15 and not only[0] & only[1]
    stones = np.unpackbits(packed, axis=1, count=126).reshape(80, 3, 42)[:, :2].sum(axis=(1, 2))
    assert (np.diff(stones[::2].astype(int)) >= 0).all() and stones[::2].max() - stones[::2].min() > 6  # by ply


def test_the_same_set_gives_the_same_and_few_positions_none(tmp_path: Path) -> None:
    one, other = (chosen(write_set(tmp_path / name, GAME, [300])) for name in ("one", "other"))
    assert one is not None and one.tobytes() == other.tobytes() and len(one) == 256
    assert chosen(write_set(tmp_path / "few", GAME, [40])) is None


def with_positions(folder: Path, packed: np.ndarray) -> Model:
    plain = read_model(make_model(folder, 1, "connect4"))
    write_model(folder / "000002-test", plain.info, plain.weights, calibration=packed)
    return read_model(folder / "000002-test")


def packed_noise(count: int = 8, num_bytes: int = 16) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, num_bytes)).astype(np.uint8)


def test_int8_gets_them_and_random_games_without_them(tmp_path: Path) -> None:
    packed = packed_noise()
    model = with_positions(tmp_path, packed)
    found = calibration_of(model)
    assert found.shape == (8, 3, 6, 7) and found.dtype == np.uint8
    assert (found.reshape(8, -1) == np.unpackbits(packed, axis=1)[:, :126]).all()
    without = read_model(tmp_path / "000001-test")
    assert read_calibration(without) is None
    assert (calibration_of(without) == calibration_positions(GAME)).all()


def test_an_exported_model_keeps_them(tmp_path: Path) -> None:
    model = with_positions(tmp_path, packed_noise())
    export(ExportConfig(model=model.path, output=tmp_path / "mine"))
    name = layout.CALIBRATION
    assert (tmp_path / "mine" / name).read_bytes() == (model.path / name).read_bytes()
    assert (calibration_of(read_model(tmp_path / "mine")) == calibration_of(model)).all()


@pytest.mark.parametrize("packed", [packed_noise(8, 15), packed_noise(7), packed_noise(0), packed_noise()[0],
                                    packed_noise().astype(np.float32)])  # fmt: skip
def test_positions_of_another_network_or_none(tmp_path: Path, packed: np.ndarray) -> None:
    with pytest.raises(FileError, match=r"calibration\.safetensors: .*wanted"):
        calibration_of(with_positions(tmp_path, packed))


def test_a_damaged_or_missing_file(tmp_path: Path) -> None:
    model = with_positions(tmp_path, packed_noise())
    file = model.path / layout.CALIBRATION
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FileError, match="checksum"):
        calibration_of(model)
    file.unlink()
    with pytest.raises(FileError, match="no such file"):
        calibration_of(model)


def test_weights_and_optimiser_know_nothing_of_them(tmp_path: Path) -> None:
    model = with_positions(tmp_path, packed_noise())
    other = make_model(tmp_path / "other", 1, "connect4")
    name = layout.WEIGHTS
    assert (model.path / name).read_bytes() == (other / name).read_bytes()
    assert Architecture.from_dict(model.info.architecture).planes == 3
    said = json.loads((model.path / "model.json").read_text())["files"]
    assert list(said) == [name, layout.CALIBRATION]
    digest = hashlib.sha256((model.path / layout.CALIBRATION).read_bytes()).hexdigest()
    assert said[layout.CALIBRATION]["sha256"] == digest
    shutil.rmtree(other)
