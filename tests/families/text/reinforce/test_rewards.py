"""Reward transformations: each by a table, their order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.families.text.reinforce.examples import settle
from pipeline.families.text.reinforce.rewards import Floats, Games, Step, Steps, apply, parse_stage
from pipeline.gather.config import GatherConfig

ENVIRONMENT = np.array([0, 1, 0, 0])
GAMES = Games(ENVIRONMENT)
FINALS = np.array([[1.0, -1], [0, 0], [-1, 1], [3, 1]])
STEPS = Steps(
    player=np.array([0, 1, 0, 1]),
    environment=ENVIRONMENT,
    well_formed=np.array([True, False, True, True]),
    invalid=np.array([False, True, True, False]),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", FINALS),
        ("win-draw-loss=2:0.5:-1", [[2, -1], [0.5, 0.5], [-1, 2], [2, -1]]),
        ("zero-sum", [[1, -1], [0, 0], [-1, 1], [1, -1]]),
        # Averages of environment 0: ½·1 = .5, then .5 + ½·(−1 − .5) = −.25, then −.25 + ½·(3 + .25) = 1.375; the other
        # player's: −.5, .25, .625. Environment 1 has averages of its own.
        ("role-advantage=0.5", [[0.5, -0.5], [0, 0], [-0.75, 0.75], [1.625, 0.375]]),
        ("zero-sum,win-draw-loss=5:0:-5", [[5, -5], [0, 0], [-5, 5], [5, -5]]),
    ],
)
def test_final_rewards(text: str, wanted: list[list[float]]) -> None:
    assert apply(parse_stage("final", text), FINALS, GAMES, "final") == pytest.approx(np.array(wanted))


@pytest.mark.parametrize(
    ("stage", "text", "wanted"),
    [
        ("step", "format=0.25", [1.25, 0.75, 2.25, 4.25]),
        ("step", "invalid=-2", [1, -1, 0, 4]),
        ("step", "valid=0.5", [1.5, 1, 2, 4.5]),
        ("step", "format=0.25,invalid=-2", [1.25, -1.25, 0.25, 4.25]),
        ("sampling", "normalise=mean", [-1, -1, 0, 2]),
        ("sampling", "normalise", np.array([-1, -1, 0, 2]) / np.sqrt(1.5)),
        ("sampling", "normalise-by-environment=mean", [1 - 7 / 3, 0, 2 - 7 / 3, 4 - 7 / 3]),
        ("sampling", "normalise=mean,negative=0.25", [-0.25, -0.25, 0, 2]),
        ("sampling", "tests.families.text.reinforce.test_rewards:doubled=3", [6, 6, 12, 24]),
    ],
)
def test_rewards_of_steps(stage: str, text: str, wanted: list[float]) -> None:
    rewards = np.array([1.0, 1, 2, 4])
    assert apply(parse_stage(stage, text), rewards, STEPS, stage) == pytest.approx(np.array(wanted))


def doubled(value: str) -> Step:
    return lambda rewards, steps: 2 * float(value) * rewards


def too_short(value: str) -> Step:
    return lambda rewards, steps: rewards[1:]


def none_is_made(value: str) -> None:
    pass


def that_raises(value: str) -> Step:
    raise ZeroDivisionError("of all things")


def later(value: str) -> Step:
    return lambda rewards, steps: {}["nothing"]


def no_numbers(value: str) -> Step:
    def transform(rewards: Floats, steps: Steps) -> Floats:
        return rewards * np.nan

    return transform


@pytest.mark.parametrize("name", ["normalise", "normalise-by-environment"])
@pytest.mark.parametrize("rewards", [[], [2.0], [3.0, 3, 3, 3]])
def test_rewards_that_are_all_alike_become_0(name: str, rewards: list[float]) -> None:
    steps = Steps(*(part[: len(rewards)] for part in vars(STEPS).values()))
    assert apply(parse_stage("sampling", name), np.array(rewards), steps, "sampling").tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize(
    ("stage", "text", "problem"),
    [
        ("final", "win=1", "unknown; wanted one of win-draw-loss, role-advantage, zero-sum, or an import path"),
        ("final", "win-draw-loss=1:0", "value '1:0'; wanted WIN:DRAW:LOSS"),
        ("final", "role-advantage=nan", "value 'nan'; wanted RATE"),
        ("final", "zero-sum=1", "value '1'; zero-sum takes no value"),
        ("step", "format", "value ''; wanted AMOUNT"),
        ("sampling", "normalise=std", "value 'std'; wanted normalise or normalise=mean"),
        ("sampling", "negative", "value ''; wanted SHARE"),
        ("sampling", "negative=2", "value '2'; wanted a share from 0 to 1"),
        ("sampling", "nowhere.at.all:f", "can't be imported"),
    ],
)
def test_what_is_refused(stage: str, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"gather --{stage}-rewards, .*{problem}"):
        parse_stage(stage, text)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none_is_made", "returned None; wanted a function \\(rewards, steps\\) → rewards"),
        ("that_raises", "ZeroDivisionError: of all things"),
        ("STEPS", "TypeError: 'Steps' object is not callable"),
    ],
)
def test_what_ones_own_makes_is_a_function(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"gather --step-rewards, '.*:{name}': {problem}"):
        parse_stage("step", f"tests.families.text.reinforce.test_rewards:{name}")


def test_a_function_of_ones_own_that_raises_is_named() -> None:
    functions = parse_stage("step", "tests.families.text.reinforce.test_rewards:later")
    with pytest.raises(UsageError, match=r"gather --step-rewards: later.* raised KeyError: 'nothing'"):
        apply(functions, np.ones(4), STEPS, "step")


@pytest.mark.parametrize("name", ["too_short", "no_numbers"])
def test_functions_of_ones_own_are_checked(name: str) -> None:
    functions = parse_stage("step", f"tests.families.text.reinforce.test_rewards:{name}")
    with pytest.raises(UsageError, match=f"{name}.* returned .*; wanted .4. numbers"):
        apply(functions, np.ones(4), STEPS, "step")


def test_the_three_stages_follow_each_other() -> None:
    """Two games of shard 1 (the older one) and one of shard 0; a step of player 0 and of player 1 each."""
    columns = {
        "shard": np.array([0, 0, 1, 1, 1, 1]),
        "game": np.array([0, 0, 0, 0, 1, 1]),
        "player": np.array([0, 1, 0, 1, 0, 1]),
        "environment": np.zeros(6, np.int64),
        "final": np.array([[1, -1], [1, -1], [1, -1], [1, -1], [-1, 1], [-1, 1]], np.float32),
        "notes": np.array([1, 1, 1, 2, 1, 1]),
        "weight": np.array([1, 1, 0.5, 1, 1, 1]),
        "baseline": np.zeros(6),
        "value": np.full(6, np.nan),
    }
    config = GatherConfig(
        final_rewards="role-advantage=0.5", step_rewards="invalid=-1", sampling_rewards="normalise=mean"
    )
    # In the order of play: game 0 of shard 1 (averages ±.5), game 1 (∓.25), game 0 of shard 0 (±.375).
    finals = np.array([0.625, -0.625, 0.25, -0.5 - 1, -0.75, 0.75])
    found = settle(columns, config)
    assert found["advantage"] == pytest.approx(finals - finals.mean(), abs=1e-6)
    assert np.isnan(found["target"]).all()
    with_critic = settle(columns | {"value": np.full(6, 0.5), "baseline": np.full(6, -0.25)}, GatherConfig())
    raw = np.array([1, -1, 0.5, -1, -1, 1])
    assert with_critic["advantage"] == pytest.approx(raw - 0.25) and with_critic["target"] == pytest.approx(raw + 0.25)
