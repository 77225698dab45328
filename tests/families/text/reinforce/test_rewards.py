"""Reward transformations: each by a table, their order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.families.text.reinforce.examples import settle
from pipeline.families.text.reinforce.rewards import STEP, Final, Floats, Games, Step, Steps, apply, parse_stage
from pipeline.gather.config import GatherConfig

OWN = "tests.families.text.reinforce.test_rewards"
ENVIRONMENT = np.array([0, 1, 0, 0])
GAMES = Games(ENVIRONMENT)
FINALS = np.array([[1.0, -1], [0, 0], [-1, 1], [3, 1]])
STEPS = Steps(
    player=np.array([0, 1, 0, 1]),
    environment=ENVIRONMENT,
    well_formed=np.array([True, False, True, True]),
    invalid=np.array([False, True, True, False]),
    trajectory=np.array([0, 3, 0, 1]),
    index=np.array([0, 0, 2, 0]),
    length=np.array([3, 1, 3, 1]),
    num_tokens=np.array([4, 9, 1, 2]),
    final=np.array([[1.0, -1], [0, 0], [1, -1], [1, -1]]),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", FINALS),
        ("win-draw-loss=2:0.5:-1", [[2, -1], [0.5, 0.5], [-1, 2], [2, -1]]),
        ("zero-sum", [[1, -1], [0, 0], [-1, 1], [1, -1]]),
        # Averages of environment 0: ½·1 = .5, then .5 + ½·(−1 − .5) = −.25, then −.25 + ½·(3 + .25) = 1.375; the other
        # player's: −.5, .25, .625. Environment 1 has averages of its own.
        ("role-advantage-by-environment=0.5", [[0.5, -0.5], [0, 0], [-0.75, 0.75], [1.625, 0.375]]),
        # All environments together: .5, then .25 after the draw, then .25 + ½·(−1 − .25) = −.375, then 1.3125.
        ("role-advantage=0.5", [[0.5, -0.5], [-0.25, 0.25], [-0.625, 0.625], [1.6875, 0.3125]]),
        ("role-advantage=0.5:1", [[0, -1], [-0.5, 0], [-0.75, 0.5], [1.625, 0.25]]),
        ("role-advantage=1", np.zeros((4, 2))),
        ("OWN:scale=0.2", 0.2 * FINALS),
        ("win-draw-loss=1:0:-1,OWN:scale=0.2", [[0.2, -0.2], [0, 0], [-0.2, 0.2], [0.2, -0.2]]),
        ("zero-sum,win-draw-loss=5:0:-5", [[5, -5], [0, 0], [-5, 5], [5, -5]]),
    ],
)
def test_final_rewards(text: str, wanted: list[list[float]]) -> None:
    functions = parse_stage("final", text.replace("OWN", OWN))
    assert apply(functions, FINALS, GAMES, "final") == pytest.approx(np.array(wanted))


THREE = np.array([[2.0, -1, 2], [0, 3, -3], [1, 0, np.nan]])  # the last game's environment has two players


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("win-draw-loss=2:0.5:-1", [[0.5, -1, 0.5], [-1, 2, -1], [2, -1]]),
        ("zero-sum", [[1, -2, 1], [0, 3, -3], [0.5, -0.5]]),
        ("win-draw-loss=1:0:0,zero-sum", [[-0.0, 0, 0], [-1 / 3, 2 / 3, -1 / 3], [0.5, -0.5]]),
        # Averages: 1, −½, 1, then ½, 1¼, −1, then ¾, 5/8
        ("role-advantage=0.5", [[1, -0.5, 1], [-0.5, 1.75, -2], [0.25, -0.625]]),
    ],
)
def test_final_rewards_of_three_players(text: str, wanted: list[list[float]]) -> None:
    found = apply(parse_stage("final", text), THREE, Games(np.array([0, 0, 1])), "final")
    for one, row in zip(wanted, found, strict=True):
        assert row[: len(one)] == pytest.approx(np.array(one)) and np.isnan(row[len(one) :]).all()


@pytest.mark.parametrize(
    ("stage", "text", "wanted"),
    [
        ("step", "format=0.25:-0.5", [1.25, 0.5, 2.25, 4.25]),
        ("step", "valid=0:-2", [1, -1, 0, 4]),
        ("step", "valid=1:-1", [2, 0, 1, 5]),
        ("step", "format=1.5:0,valid=1:-1", [3.5, 0, 2.5, 6.5]),
        ("sampling", "normalise=mean", [-1, -1, 0, 2]),
        ("sampling", "normalise", np.array([-1, -1, 0, 2]) / np.sqrt(1.5)),
        ("sampling", "normalise-by-environment=mean", [1 - 7 / 3, 0, 2 - 7 / 3, 4 - 7 / 3]),
        ("sampling", "normalise=mean,negative=0.25", [-0.25, -0.25, 0, 2]),
        ("sampling", "OWN:doubled=3", [6, 6, 12, 24]),
        ("step", "OWN:discounted=0.5", [1, 1, 0.5, 4]),
        ("step", "format=0.05:-0.05,OWN:discounted=0.5", [1.05, 0.95, 0.5125, 4.05]),
        ("step", "OWN:lasting", [1 + 3, 1 + 1, 2 + 3, 4 + 1]),
        ("sampling", "normalise-by-environment,OWN:clamped=-1:0.5", [-1, 0, -0.26726124, 0.5]),
    ],
)
def test_rewards_of_steps(stage: str, text: str, wanted: list[float]) -> None:
    rewards = np.array([1.0, 1, 2, 4])
    assert apply(parse_stage(stage, text.replace("OWN", OWN)), rewards, STEPS, stage) == pytest.approx(np.array(wanted))


# The examples in UnstableBaselines' documentation: ScaleRewardTransform, DiscountFutureRewards, ClampRewards


def scale(value: str) -> Final:
    return lambda rewards, games: float(value) * rewards


def discounted(value: str) -> Step:
    return lambda rewards, steps: rewards * float(value) ** steps.index


def clamped(value: str) -> Step:
    least, most = map(float, value.split(":"))
    return lambda rewards, steps: np.clip(rewards, least, most)


def lasting(value: str) -> Step:
    """One that looks at whole trajectories: winners and losers alike get a point per step of theirs."""
    return lambda rewards, steps: rewards + steps.length


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
        ("final", "win=1", "unknown; wanted one of win-draw-loss, .*, zero-sum, or an import path"),
        ("final", "win-draw-loss=1:0", "value '1:0'; wanted WIN:DRAW:LOSS"),
        ("final", "role-advantage=nan", "value 'nan'; wanted RATE or RATE:START"),
        ("final", "role-advantage=0.1:0:0", "value '0.1:0:0'; wanted RATE or RATE:START"),
        ("final", "role-advantage-by-environment=1.5", "value '1.5'; wanted a rate above 0 and at most 1"),
        ("final", "zero-sum=1", "value '1'; zero-sum takes no value"),
        ("step", "format=1.5", "value '1.5'; wanted REWARD:PENALTY"),
        ("step", "valid=1:minus", "value '1:minus'; wanted REWARD:PENALTY"),
        ("step", "RewardForFormat=1", "unknown; wanted one of format, valid, or an import path"),
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
        "index": np.zeros(6, np.int64),
        "length": np.ones(6, np.int64),
        "num_tokens": np.ones(6, np.int64),
    }
    config = GatherConfig(
        final_rewards="role-advantage=0.5", step_rewards="valid=0:-1", sampling_rewards="normalise=mean"
    )
    # In the order of play: game 0 of shard 1 (averages ±.5), game 1 (∓.25), game 0 of shard 0 (±.375).
    finals = np.array([0.625, -0.625, 0.25, -0.5 - 1, -0.75, 0.75])
    found = settle(columns, config)
    assert found["advantage"] == pytest.approx(finals - finals.mean(), abs=1e-6)
    assert np.isnan(found["target"]).all()
    with_critic = settle(columns | {"value": np.full(6, 0.5), "baseline": np.full(6, -0.25)}, GatherConfig())
    raw = np.array([1, -1, 0.5, -1, -1, 1])
    assert with_critic["advantage"] == pytest.approx(raw - 0.25) and with_critic["target"] == pytest.approx(raw + 0.25)
    scaled = settle(columns, GatherConfig(step_rewards=f"{OWN}:scale=0.2"))  # of the discounted reward
    assert scaled["advantage"] == pytest.approx(0.2 * raw)


def test_steps_of_a_player_in_a_game_are_a_trajectory() -> None:
    seen: list[Steps] = []

    def look(value: str) -> Step:
        return lambda rewards, steps: seen.append(steps) or rewards

    columns = {
        "shard": np.array([0, 0, 1, 1]),
        "game": np.array([0, 0, 0, 0]),
        "player": np.array([0, 0, 0, 1]),
        "environment": np.zeros(4, np.int64),
        "final": np.array([[1, -1], [1, -1], [0, 0], [0, 0]], np.float32),
        "notes": np.ones(4, np.int64),
        "weight": np.ones(4),
        "baseline": np.zeros(4),
        "value": np.full(4, np.nan),
        "index": np.array([1, 0, 0, 0]),
        "length": np.array([2, 2, 1, 1]),
        "num_tokens": np.ones(4, np.int64),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STEP, "look", look)
        settle(columns, GatherConfig(step_rewards="look"))
    (steps,) = seen
    first, again, older, other = steps.trajectory.tolist()
    assert first == again and len({first, older, other}) == 3
    assert steps.index.tolist() == [1, 0, 0, 0] and steps.final[:, 0].tolist() == [1, 1, 0, 0]
