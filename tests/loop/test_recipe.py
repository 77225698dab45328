"""Settings derived from measurements: of games of all lengths, on fast and slow machines, for short and long runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.evaluate.config import EvaluateConfig
from pipeline.loop.recipe import (
    AT_ONCE,
    LARGEST_REUSE,
    Measurements,
    derive,
    generation_seconds,
    growth,
    match_readouts,
    measuring_seconds,
    random_plies,
    shortest_minutes,
)
from pipeline.presets import make_config, read_preset
from pipeline.schedules import RunState
from pipeline.selfplay.config import SelfplayConfig

# Measured on two cores, except for those whose names say something else.
TIC_TAC_TOE = Measurements("tictactoe", False, 9, 5.3, 7.6, 90_000, None, 60_000, 9_000)
FOUR = Measurements("connect4", False, 7, 6.5, 21, 70_000, 25_000, 45_000, 7_000)
NINE = Measurements("go:9,komi=7", True, 82, 33, 122, 40_000, 13_000, 28_000, 4_500)
LONG = Measurements("go:19", True, 11_000, 90, 220, 8_000, 3_000, 5_000, 900)  # the numbers are shogi's
SLOW = Measurements("go:5", False, 26, 16, 21, 3_000, 1_000, 600, 400)
GPU = Measurements("go:9", True, 82, 33, 122, 1_000_000, 600_000, 400_000, 100_000)
ALL = {"tictactoe": TIC_TAC_TOE, "connect4": FOUR, "go9": NINE, "shogi": LONG, "slow": SLOW, "gpu": GPU}


class Recipe:
    """What was derived. seconds: of a generation."""

    def __init__(self, found: Measurements, minutes: float) -> None:
        self.text, self.summary = derive(found, minutes)
        (about,) = re.findall(r"\(about ([\d.]+) (s|minutes)\)", self.summary)
        self.seconds = float(about[0]) * (60 if about[1] == "minutes" else 1)


def value(recipe: Recipe, option: str, section: str = "selfplay") -> Any:
    """Of an option, or the values of its schedule; None if the learning recipe's own stays."""
    found = yaml.safe_load(recipe.text)[section].get(option)
    return [entry["value"] for entry in found] if isinstance(found, list) else found


def last(recipe: Recipe, option: str) -> Any:
    return value(recipe, option)[-1]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("minutes", [0.6, 1, 3, 15, 120, 1440])
def test_every_recipe_is_a_preset_whose_training_takes_a_third_of_the_time(
    name: str, minutes: float, tmp_path: Path
) -> None:
    found = ALL[name]
    recipe = Recipe(found, minutes)
    path = tmp_path / "preset.yaml"
    path.write_text(recipe.text)
    settings = read_preset(str(path))
    assert settings["init"]["game"] == found.game and settings["train"]["optimizer"] == "muon"
    assert all(len(line) <= 120 for line in recipe.text.splitlines())
    assert [entry["until"] for entry in settings["selfplay"]["games"]] == [1, 2]
    first, games = value(recipe, "games")
    assert 16 <= first < games
    samples = value(recipe, "chunks_to_make", "gather") * value(recipe, "positions_per_chunk", "gather")
    assert samples / found.samples <= 0.36 * recipe.seconds or found.evaluations_large
    assert samples <= 1.1 * LARGEST_REUSE * games * found.plies * 0.33
    # The first generation has enough positions for a chunk.
    assert value(recipe, "positions_per_chunk", "gather") <= max(64, 0.33 * 0.6 * first * found.plies)
    assert 2 <= value(recipe, "opening_plies", "evaluate") < found.plies
    matches = value(recipe, "games", "evaluate")
    assert matches == sorted(set(matches)) and 32 <= matches[0] <= 64 and matches[-1] <= 512
    if found.simulations > 5000:
        assert matches[-3:] == [64, 256, 512] or recipe.seconds < 30
    decay = value(recipe, "ema_decay", "train")
    assert decay is None or 1 / (1 - decay) <= max(10, samples / value(recipe, "batch_size", "train"))


@pytest.mark.parametrize("spent", [0.05, 0.38, 0.45, 0.7, 0.95])
@pytest.mark.parametrize("name", ALL)
def test_every_recipe_is_a_preset_however_long_measuring_took(name: str, spent: float, tmp_path: Path) -> None:
    path = tmp_path / "preset.yaml"
    for minutes in (1.5, 4, 15):
        path.write_text(derive(ALL[name], minutes, spent)[0])
        settings = read_preset(str(path))
        first = settings["evaluate"]["games"][0]
        assert first["until_share"] > spent or spent > 0.7
        sizes = [entry["until_share"] for entry in settings["train"]["network_size"]]
        assert sizes == sorted(sizes) and sizes[-1] == 1


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [(0.5, 5), (1, 5), (3, 12), (15, 60), (19, 75), (60, 75), (120, 75), (480, 122), (1440, 179), (10_000, 180)],
)
def test_the_time_of_a_generation(minutes: float, seconds: float) -> None:
    assert round(generation_seconds(minutes)) == seconds


@pytest.mark.parametrize(
    ("found", "minutes", "games", "readouts", "sizes"),
    [
        (TIC_TAC_TOE, 1, 830, 48, ["b2c32"]),
        (TIC_TAC_TOE, 15, 9900, 48, ["b2c32"]),  # a few plies need no larger network
        (FOUR, 3, 390, 48, ["b2c32", "b4c64"]),
        (FOUR, 15, 1400, 48, ["b2c32", "b4c64"]),
        (NINE, 3, 160, 32, ["b2c32"]),
        (NINE, 15, 270, 48, ["b2c32", "b4c64"]),
        (NINE, 120, 290, 48, ["b2c32", "b4c64"]),
        (GPU, 15, 5500, 48, ["b2c32", "b4c64", "b6c64"]),
        (SLOW, 3, 32, 32, ["b2c32"]),
    ],
)
def test_games_readouts_and_growth(found: Measurements, minutes: float, games: int, readouts: int, sizes: Any) -> None:
    recipe = Recipe(found, minutes)
    assert last(recipe, "games") == pytest.approx(games, rel=0.25)
    assert last(recipe, "readouts") == readouts
    assert value(recipe, "network_size", "train") == sizes


def test_a_slow_machine_takes_longer_for_a_generation_rather_than_too_few_games() -> None:
    assert Recipe(FOUR, 3).seconds == pytest.approx(12, abs=0.5)
    assert Recipe(SLOW, 3).seconds == pytest.approx(27, abs=3) and last(Recipe(SLOW, 3), "games") == 32
    assert shortest_minutes(FOUR) == pytest.approx(5 / 60)
    assert shortest_minutes(SLOW) == pytest.approx(0.6, abs=0.1)


def test_no_more_games_at_once_than_in_a_generation() -> None:
    assert make_config(SelfplayConfig, "selfplay", "recipe", lambda _: RunState(9)).parallel_games == AT_ONCE
    assert value(Recipe(SLOW, 3), "parallel_games") == 32
    assert value(Recipe(FOUR, 15), "parallel_games") is None


def test_readouts_of_matches_are_the_recipes() -> None:
    for generation in range(1, 9):
        found = make_config(EvaluateConfig, "evaluate", "recipe", lambda _, at=generation: RunState(at))
        assert match_readouts(generation) == found.readouts


def test_growth_comes_after_six_million_evaluations() -> None:
    assert growth(60, 60_000, 15) == [(0.11, "b2c32"), (1, "b4c64")]
    assert growth(60, 60_000, 120) == [(0.05, "b2c32"), (0.4, "b4c64"), (1, "b6c64")]
    assert growth(60, 60_000, 2) == [(1, "b2c32")]
    assert growth(8, 60_000, 120) == [(1, "b2c32")]
    assert growth(60, 60_000, 15, 0.06) == [(0.17, "b2c32"), (1, "b4c64")]  # measuring and compiling took a minute


@pytest.mark.parametrize(
    ("games", "moves", "plies", "wanted"),
    [
        (50_000, 65, 110, 4),  # 9x9 Go
        (30_000, 6.5, 21, 8),  # connect four
        (20_000, 8, 60, 7),  # Othello
        (20_000, 5.3, 7.6, 3),  # tic-tac-toe: at most half of a game
        (20_000, 1, 60, 21),
    ],
)
def test_random_plies(games: float, moves: float, plies: float, wanted: int) -> None:
    assert random_plies(games, moves, plies) == wanted


def test_only_long_games_are_resigned_and_only_margins_are_played_to_the_end_quickly() -> None:
    assert value(Recipe(FOUR, 15), "resign_threshold") is None
    assert value(Recipe(NINE, 15), "resign_threshold") == -0.95 and value(Recipe(NINE, 15), "decided_value") == 0.95
    no_margins = Measurements(**{**vars(NINE), "has_margins": False})
    assert value(Recipe(no_margins, 15), "resign_threshold") == -0.95
    assert value(Recipe(no_margins, 15), "decided_value") is None


def test_the_line_that_is_printed() -> None:
    assert Recipe(FOUR, 15).summary == (
        "games of 21 plies, 7 actions, 70,000 evaluations/s: 1400 games per generation (about 60 s), b2c32 growing to "
        "b4c64 after 10 % of the time"
    )
    assert ", to b6c64 after 40 % of the time" in Recipe(GPU, 60).summary


@pytest.mark.parametrize(("minutes", "seconds"), [(1, 1.5), (3, 4.5), (10, 15), (600, 15)])
def test_measuring_takes_a_fortieth_of_the_time_and_at_most_a_quarter_of_a_minute(
    minutes: float, seconds: float
) -> None:
    assert measuring_seconds(minutes) == pytest.approx(seconds)
