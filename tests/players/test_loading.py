"""Loading models: the positions that int8 networks are scaled for and checked on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture
from pipeline.networks.inference import BackendSpec
from pipeline.players import loading
from pipeline.players.loading import CALIBRATION_GAMES, calibration_positions, load_evaluators, load_tree_evaluator
from pipeline.players.player import Boards
from pipeline.progress import SILENT
from pipeline.run.models import read_model
from tests.helpers import make_model


@pytest.mark.parametrize("spec", ["gomoku:9", "tictactoe", "go:5"])
def test_int8_is_checked_on_other_games_than_its_scales_come_from(spec: str) -> None:
    game, rng = parse_game(spec), np.random.default_rng(0)
    of_games: list[set[bytes]] = [set() for _ in range(CALIBRATION_GAMES)]
    boards, rows = Boards(game, CALIBRATION_GAMES), np.arange(CALIBRATION_GAMES)
    while rows.size:  # the same random games again
        legal, planes = game.legal_and_observe(boards.states[rows], boards.history.select(rows))
        for row, seen in zip(rows.tolist(), planes, strict=True):
            of_games[row].add(seen.tobytes())
        boards.advance(rows, (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32))
        rows = rows[~boards.over(rows)]
    found = [seen.tobytes() for seen in calibration_positions(game)]
    assert len(found) == 2 * len(found[1::2]) > 50
    halves = [set().union(*of_games[half::2]) for half in (0, 1)]
    assert set(found[::2]) <= halves[0] and set(found[1::2]) <= halves[1]
    assert len(set(found[::2]) - halves[1]) > len(set(found)) / 4  # they have openings in common, no more


class Prepared:
    """An evaluator that notes the board and the thread it is warmed up for, and the sizes that it is asked for."""

    def __init__(self, architecture: Architecture, backend: BackendSpec, thread: int, most: int, warmed: list) -> None:
        self.backend, self.max_batch, self._actions = backend, most, architecture.actions
        self._note = lambda: warmed.append((architecture.height, architecture.width, thread))

    def warm_up(self) -> None:
        self._note()

    def __call__(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert len(planes) <= self.max_batch
        return np.zeros((len(planes), self._actions), np.float32), np.zeros(len(planes), np.float32)


def test_a_network_that_sees_more_than_its_game_has(tmp_path: Path) -> None:
    model = read_model(make_model(tmp_path))
    architecture = {**model.info.architecture, "planes": model.info.architecture["planes"] + 1}
    newer = replace(model, info=model.info.model_copy(update={"architecture": architecture}))
    with pytest.raises(FileError, match=r"000000-test.* sees 4 planes, its game has 3; a newer MuGo made it"):
        load_evaluators(newer, 8, 1, "torch", SILENT)


@pytest.mark.parametrize(("device", "threads"), [("cpu", 2), ("cuda", 1)])
def test_every_board_is_prepared_before_its_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, threads: int
) -> None:
    """And no other: a backend that plays on 7×7 doesn't wait for the model's own 9×9."""
    backend, warmed, made = BackendSpec("torch", device, "float32"), [], []

    def make(architecture, weights, max_batch, num_threads, **options):
        made.append((architecture.height, max_batch, num_threads))
        return [Prepared(architecture, backend, thread, max_batch, warmed) for thread in range(num_threads)]

    monkeypatch.setattr(loading, "make_evaluators", make)
    monkeypatch.setattr(loading, "available_backends", lambda name: [backend], raising=False)
    monkeypatch.setattr(loading, "available_cores", lambda: 2)
    model = read_model(make_model(tmp_path, spec="go:any"))
    evaluate = load_tree_evaluator(model, 8, "torch", SILENT)
    assert not warmed
    for side in (7, 7, 5):
        game = parse_game("go:any").on_board(side)
        states = game.initial(8)
        logits, _ = evaluate(game.legal_and_observe(states, game.initial_history(states))[1])
        assert logits.shape == (8, side * side + 1)
    assert warmed == [(side, side, thread) for side in (7, 5) for thread in range(threads)]
    assert made == [(side, 8 // threads, threads) for side in (7, 5)]
