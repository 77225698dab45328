"""Calibrated resignation: the same rule as in self-play, the highest safe threshold, and its effect on other games."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from pipeline.methods.alphazero.recording import GameBuffer
from pipeline.methods.resignation import (
    NEVER,
    RESIGN_THRESHOLD,
    Calibration,
    NoResignGame,
    calibrate,
    newest_games,
    no_resign_games,
    resignation_values,
    resigns,
)
from pipeline.run.shards import BOTH, NO_VALUE, End, GameRecord, read_shard
from tests.run.random_games import write_shard


def played(game: NoResignGame, threshold: float) -> int:
    """Who would have resigned first by self-play's GameBuffer: the plain twin."""
    buffer = GameBuffer(threshold)
    row, even = np.array([0]), np.full((1, 2), 0.5, np.float32)
    buffer.start(0, 1, True, opponent=None if game.learner == BOTH else "x", learner=game.learner)
    for ply, value in enumerate(np.asarray(game.values, np.float32)):
        mover, here = np.array([ply % 2], np.int8), np.array([value])
        if game.learner in (BOTH, ply % 2):
            buffer.resigns(row, here, mover)
            buffer.add(row, np.array([0], np.int32), np.array([[1, 0]], np.int32), here, even, np.array([True]))
        else:
            buffer.add_opponents(row, np.array([0], np.int32), here)
    return buffer.would_have_resigned(0)


@pytest.mark.parametrize("threshold", [-0.98, -0.9, -0.75])
@pytest.mark.parametrize("learner", [BOTH, 0, 1])
def test_it_resigns_where_self_play_would(threshold: float, learner: int) -> None:
    rng = np.random.default_rng(3)
    resigned = 0
    for result in (1.0, 0.0, -1.0):
        for _ in range(60):
            values = np.clip(rng.normal(-0.9, 0.2, int(rng.integers(1, 14))), -1, 1).astype(np.float32)
            game = NoResignGame(values, learner, result)
            player = played(game, threshold)
            found = calibrate([game], 1.0, threshold, threshold)
            result_to_player = result if player == 0 else -result
            assert (found.games, found.resignations) == (1, player >= 0)
            assert found.wrong_resignations == (player >= 0 and result_to_player >= 0)
            resigned += player >= 0
    assert 20 < resigned < 180


@pytest.mark.parametrize("threshold", [-0.9, -0.5, NEVER])
def test_the_rule_for_one_player_is_that_for_a_whole_game(threshold: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = rng.uniform(-1, 1, 12)
        low = resignation_values(values) < threshold
        assert [resigns(values[ply % 2 : ply + 1 : 2].tolist(), threshold) for ply in range(12)] == low.tolist()
    assert not resigns([math.nan, -1.0], -0.5) and not resigns([-1.0], -0.5)


def lost_at(value: float, lost: bool) -> NoResignGame:
    """The first player sees this value at its moves 0 and 2, nothing bad before or after."""
    return NoResignGame(np.array([value, 0.5, value, 0.5, 0.5, 0.5]), BOTH, -1.0 if lost else 0.0)


def test_the_highest_threshold_that_is_good_enough() -> None:
    games = [lost_at(-0.96, True)] * 100 + [lost_at(-0.92, True)] * 100 + [lost_at(-0.91, False)] * 4
    games += [lost_at(-0.87, False)] * 10
    # up to −.92: 0 of 100, so at most 2.6 %; to −.91: 0 of 200, 1.3 %; to −.87: 4 of 204, 4.3 %; then 14 of 214, 10.0 %
    found = calibrate(games, 0.05, -0.99, -0.8)
    assert found.threshold == pytest.approx(-0.87)  # at which those ten don't resign yet
    assert (found.games, found.resignations, found.wrong_resignations, found.wrong_share) == (214, 204, 4, 4 / 204)
    assert found.wrong_share_at_most == pytest.approx(0.0430, abs=1e-4)
    for share in (0.04, 0.02):
        strict = calibrate(games, share, -0.99, -0.8)
        assert strict.threshold == pytest.approx(-0.91) and (strict.resignations, strict.wrong_resignations) == (200, 0)
    assert calibrate(games, 0.5, -0.99, -0.8).threshold == pytest.approx(-0.8)
    assert calibrate(games, 0.5, -0.99, -0.9).threshold == pytest.approx(-0.9)  # within the bounds
    always_wrong = calibrate([lost_at(-0.999, False)] * 5, 0.05, -0.99, -0.8)
    assert (always_wrong.threshold, always_wrong.resignations, always_wrong.wrong_resignations) == (NEVER, 5, 5)
    too_few = calibrate([lost_at(-0.999, True)] * 51, 0.05, -0.99, -0.8)
    assert too_few.threshold == NEVER and too_few.wrong_share_at_most > 0.05
    assert calibrate([], 0.05, -0.99, -0.8).threshold == NEVER


@pytest.mark.parametrize(("wrong", "resignations"), [(0, 52), (4, 204), (14, 214), (5, 5)])
def test_what_a_share_may_really_be_is_wilsons_bound(wrong: int, resignations: int) -> None:
    expected = binomtest(wrong, resignations, alternative="less").proportion_ci(0.95, "wilson").high
    assert Calibration(-0.9, 1000, resignations, wrong).wrong_share_at_most == pytest.approx(expected, abs=1e-4)


def noisy_game(rng: np.random.Generator, noise: float) -> NoResignGame:
    """A random walk of the log-odds whose end decides the game; the values are its winning chances plus noise.

    A draw if neither leads by much.
    """
    steps = rng.normal(0, 0.6, 60)
    walk = np.cumsum(steps)
    left = np.sqrt(0.36 * np.arange(59, -1, -1) + 1e-9)
    chances = np.tanh(1.2 * walk / (left + 0.5))  # of the first player
    to_move = np.where(np.arange(60) % 2 == 0, chances, -chances)
    values = np.clip(to_move + rng.normal(0, noise, 60), -1, 1)
    return NoResignGame(values, BOTH, float(np.sign(walk[-1])) if abs(walk[-1]) > 0.5 else 0.0)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_in_games_not_seen_few_resignations_are_wrong(noise: float) -> None:
    """Calibrated ten times for at most 5 % on 400 games; measured at that threshold on 4,000 other games."""
    rng = np.random.default_rng(11)
    unseen = [noisy_game(rng, noise) for _ in range(4000)]
    shares, resigned = [], []
    for _ in range(10):
        found = calibrate([noisy_game(rng, noise) for _ in range(400)], 0.05, -0.99, -0.5)
        if found.threshold != NEVER:
            real = calibrate(unseen, 1.0, found.threshold, found.threshold)
            shares.append(real.wrong_share)
            resigned.append(real.resignations)
    assert len(shares) >= 5 and np.mean(shares) < 0.045 and max(shares) < 0.06
    assert min(resigned) > 400  # and it does save moves


def test_values_too_noisy_to_resign_on() -> None:
    """Without calibration the tests above would fail."""
    rng = np.random.default_rng(12)
    games = [noisy_game(rng, 0.3) for _ in range(1000)]
    assert calibrate(games, 1.0, -0.5, -0.5).wrong_share > 0.08
    assert calibrate(games, 0.05, -0.99, -0.5).threshold == NEVER


def test_without_a_threshold_nobody_resigns_whose_values_are_points() -> None:
    assert not resigns([-2.5, -3.0], NEVER) and resigns([-2.5, -3.0], -0.999)


# From shards


def record(value: float, result: float = -1.0, **more: Any) -> GameRecord:
    return GameRecord(
        game_id=1,
        moves=np.arange(3),
        flags=np.ones(3, np.uint8),
        root_values=np.full(3, value),
        visit_lengths=np.zeros(3, np.int64),
        visit_actions=np.zeros(0),
        visit_counts=np.zeros(0),
        result_first_player=result,
        **more,
    )


def put(folder: Path, *games: GameRecord, model: str = "000001-a", game: str = "go:9", **provenance: Any) -> Path:
    return write_shard(folder, model, "w00", game, games, provenance)


def values(games: list[NoResignGame]) -> list[float]:
    return [round(float(game.values[0]), 3) for game in games]


def test_which_games_never_resign(tmp_path: Path) -> None:
    games = [
        record(-0.1, no_resign=True),
        record(-0.2),  # was merely not resigned: chosen by its values
        record(-0.3, end=End.RESIGNED),
        record(-0.4, 1.0, no_resign=True, opponent="random", learner=1),
    ]
    found = no_resign_games(read_shard(put(tmp_path / "a", *games, **{RESIGN_THRESHOLD: -0.9})))
    assert values(found) == [-0.1, -0.4] and [game.learner for game in found] == [BOTH, 1]
    assert [game.result_first_player for game in found] == [-1.0, 1.0]
    nobody_resigned = no_resign_games(read_shard(put(tmp_path / "b", *games[:2], **{RESIGN_THRESHOLD: -1.0})))
    assert values(nobody_resigned) == [-0.1, -0.2]
    unknown = no_resign_games(read_shard(put(tmp_path / "c", *games[:2])))
    assert values(unknown) == [-0.1]


def test_an_opponents_opinion_counts_for_nothing() -> None:
    for learner, resignations in ((0, 1), (1, 0)):
        game = NoResignGame(np.array([-0.99, 0.9, -0.99, 0.9]), learner, -1.0)
        assert calibrate([game], 1.0, -0.9, -0.9).resignations == resignations
    assert NO_VALUE == 2  # an opponent without an opinion leaves a value of 0, on its own plies


def test_the_newest_games_of_few_models(tmp_path: Path) -> None:
    for number in range(1, 9):
        put(tmp_path, *[record(-number / 10, no_resign=True)] * 10, model=f"00000{number}-a")
    assert values(newest_games(tmp_path, "go:9")) == [-n / 10 for n in (8, 7, 6, 5, 4) for _ in range(10)]
    assert values(newest_games(tmp_path, "go:9", max_games=15)) == [-n / 10 for n in (8, 7) for _ in range(10)]
    (path,) = (tmp_path / "000007-a/w00").glob("*.gz")
    path.write_bytes(b"")
    assert values(newest_games(tmp_path, "go:9", max_games=15)) == [-n / 10 for n in (8, 6) for _ in range(10)]
    put(tmp_path, record(-0.9, no_resign=True), model="000008-a", game="ho:9")  # a damaged sidecar
    assert values(newest_games(tmp_path, "go:9", max_games=15)) == [-n / 10 for n in (8, 6) for _ in range(10)]
    put(tmp_path, record(-0.5, no_resign=True), model="000009-a", game="go:5")
    assert newest_games(tmp_path, "go:9") == [] and len(newest_games(tmp_path, "go:5")) == 1
    assert newest_games(tmp_path / "missing", "go:9") == []
