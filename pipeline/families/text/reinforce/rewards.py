"""Reward transformations: small functions that compose in three stages, over all sampled steps.

    final     the rewards of a game's players                      rewards [G, P] → [G, P]
    step      a step's reward: its player's, plus for its form     rewards [N] → [N]
    sampling  the advantages to train on, e.g. normalised          advantages [N] → [N]

Each stage is a list of NAME or NAME=VALUE, applied in order: ``win-draw-loss=1:0:-1,role-advantage=0.05``. A user's own
transformation is an import path, ``mypackage.rewards:bonus`` or ``…:bonus=VALUE``: a function (value: str) that returns
the transformation. Source: Guertler et al. 2025, UnstableBaselines, core/reward_transforms; role advantage: Liu et al.
2025, SPIRAL, arXiv 2506.24119.

Axes: G games from oldest to newest, P players as the environment numbers them, N steps. Rewards of players that a
game's environment doesn't have are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.families.text.options import TextGatherOptions

Floats = NDArray[np.float64]
LEAST_SPREAD = 1e-8  # below this standard deviation, rewards count as equal


@dataclass(frozen=True)
class Games:
    """environment [G]: the index of each game's environment."""

    environment: NDArray[np.integer]


@dataclass(frozen=True)
class Steps:
    """Of each step [N]. A *trajectory* is one player's steps in one game; the set may lack some of them.

    Observations and answers aren't among them: a set's columns of texts are large.

    player, environment   who moved, and the index of its environment
    well_formed, invalid  whether the answer had an action, and whether the move was illegal
    trajectory            a number of its trajectory
    index, length         the number of its earlier steps, and of all its steps
    num_tokens            of the answer
    final                 [N, P] the environment's rewards of all players
    """

    player: NDArray[np.integer]
    environment: NDArray[np.integer]
    well_formed: NDArray[np.bool_]
    invalid: NDArray[np.bool_]
    trajectory: NDArray[np.integer]
    index: NDArray[np.integer]
    length: NDArray[np.integer]
    num_tokens: NDArray[np.integer]
    final: Floats


Final = Callable[[Floats, Games], Floats]
Step = Callable[[Floats, Steps], Floats]
Maker = Callable[[str], "Final | Step"]


# Final rewards


def win_draw_loss(value: str) -> Final:
    """WIN:DRAW:LOSS: the new rewards, by comparison with the highest reward of another player."""
    win, draw, loss = numbers(value, (3,), "WIN:DRAW:LOSS")

    def transform(rewards: Floats, games: Games) -> Floats:
        others = [np.nanmax(np.delete(rewards, player, axis=1), axis=1) for player in range(rewards.shape[1])]
        ahead = np.sign(rewards - np.stack(others, axis=1))
        found = np.where(ahead > 0, win, np.where(ahead < 0, loss, draw))
        return np.where(np.isnan(rewards), np.nan, found)  # a seat that this environment hasn't

    return transform


def role_advantage(value: str) -> Final:
    """RATE or RATE:START: subtract the moving average of the rewards of the same player.

    The average starts at START, by default 0, with the oldest game of each set. It compensates for a role that wins
    more often than the other.
    """
    return _minus_average(value, lambda games: np.zeros_like(games.environment))


def role_advantage_by_environment(value: str) -> Final:
    """The same with an average for each environment."""
    return _minus_average(value, lambda games: games.environment)


def _minus_average(value: str, kinds: Callable[[Games], NDArray[np.integer]]) -> Final:
    rate, start, *_ = [*numbers(value, (1, 2), "RATE or RATE:START, e.g. 0.05"), 0.0]
    if not 0 < rate <= 1:
        raise UsageError(f"value {value!r}; wanted a rate above 0 and at most 1")

    def transform(rewards: Floats, games: Games) -> Floats:
        averages: dict[int, Floats] = {}
        found = np.empty_like(rewards)
        for row, kind in enumerate(kinds(games).tolist()):
            average = averages.setdefault(kind, np.full(rewards.shape[1], start))
            average += rate * np.nan_to_num(rewards[row] - average)
            found[row] = rewards[row] - average
        return found

    return transform


def zero_sum(value: str) -> Final:
    """Subtract the mean reward of a game's players: of two, half of the difference is left."""
    no_value("zero-sum", value)
    return lambda rewards, games: rewards - np.nanmean(rewards, axis=1, keepdims=True)


# Rewards of steps


def format_reward(value: str) -> Step:
    """REWARD:PENALTY: the first is added if the answer had an action, else the second, e.g. a negative number."""
    reward, penalty = numbers(value, (2,), "REWARD:PENALTY, e.g. 1.5:-0.5")
    return lambda rewards, steps: rewards + np.where(steps.well_formed, reward, penalty)


def valid_reward(value: str) -> Step:
    """REWARD:PENALTY: the first is added if the move was legal, else the second, e.g. a negative number."""
    reward, penalty = numbers(value, (2,), "REWARD:PENALTY, e.g. 1:-1")
    return lambda rewards, steps: rewards + np.where(steps.invalid, penalty, reward)


# Advantages


def normalise(value: str) -> Step:
    """Subtract the mean of all steps and divide by the standard deviation; ``normalise=mean`` only subtracts the mean.

    Equal advantages become 0.
    """
    only_mean = _only_mean("normalise", value)
    return lambda rewards, steps: _normalised(rewards, only_mean)


def normalise_by_environment(value: str) -> Step:
    """Like normalise, separately for each environment."""
    only_mean = _only_mean("normalise-by-environment", value)

    def transform(rewards: Floats, steps: Steps) -> Floats:
        found = rewards.copy()
        for environment in np.unique(steps.environment):
            here = steps.environment == environment
            found[here] = _normalised(rewards[here], only_mean)
        return found

    return transform


def negative(value: str) -> Step:
    """SHARE: the factor for negative advantages.

    Lowering an answer's probability raises that of all other texts, including illegal answers; raising it doesn't.
    """
    (share,) = numbers(value, (1,), "SHARE, e.g. 0.25")
    if not 0 <= share <= 1:
        raise UsageError(f"value {value!r}; wanted a share from 0 to 1")
    return lambda rewards, steps: np.where(rewards < 0, share * rewards, rewards)


def _normalised(rewards: Floats, only_mean: bool) -> Floats:
    centred = rewards - (rewards.mean() if len(rewards) else 0.0)
    spread = centred.std() if len(rewards) else 0.0
    return centred if only_mean else centred / spread if spread > LEAST_SPREAD else np.zeros_like(centred)


# By name

FINAL: dict[str, Maker] = {
    "win-draw-loss": win_draw_loss,
    "role-advantage": role_advantage,
    "role-advantage-by-environment": role_advantage_by_environment,
    "zero-sum": zero_sum,
}
STEP: dict[str, Maker] = {"format": format_reward, "valid": valid_reward}
SAMPLING: dict[str, Maker] = {
    "normalise": normalise,
    "normalise-by-environment": normalise_by_environment,
    "negative": negative,
}
STAGES: dict[str, Mapping[str, Maker]] = {"final": FINAL, "step": STEP, "sampling": SAMPLING}
_ABOUT = {"final": "games", "step": "steps", "sampling": "steps"}


def parse_stages(config: TextGatherOptions) -> dict[str, list[Callable[..., Floats]]]:
    """The functions of each stage, by name, from gather's options. Raises UsageError like parse_stage."""
    return {stage: parse_stage(stage, getattr(config, f"{stage}_rewards")) for stage in STAGES}


def parse_stage(stage: str, text: str) -> list[Callable[..., Floats]]:
    """The functions of a stage's option, in order. Raises UsageError if one is unknown or malformed."""
    known, where = STAGES[stage], f"gather --{stage}-rewards"
    found: list[Callable[..., Floats]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        try:
            function = (known[name] if name in known else _imported(name, known))(value)
            if not callable(function):
                raise UsageError(f"returned {function!r:.60}; wanted a function (rewards, {_ABOUT[stage]}) → rewards")
        except UsageError as error:
            raise UsageError(f"{where}, {entry!r}: {error}") from error
        except Exception as error:  # from a user's module or function
            raise UsageError(f"{where}, {entry!r}: {type(error).__name__}: {error}") from error
        found.append(function)
    return found


def _imported(name: str, known: Mapping[str, Maker]) -> Maker:
    if ":" not in name:
        raise UsageError(
            f"unknown; wanted one of {', '.join(known)}, or an import path such as mypackage.rewards:bonus"
        )
    try:
        return resolve_name(name)
    except Exception as error:  # an import can raise anything
        raise UsageError(f"can't be imported ({type(error).__name__}: {error})") from error


def numbers(value: str, counts: Sequence[int], wanted: str) -> list[float]:
    """Parse as many numbers as one of counts, separated by colons. Raises UsageError."""
    parts = value.split(":") if value else []
    try:
        found = [float(part) for part in parts]
    except ValueError:
        found = []
    if len(found) not in counts or not np.isfinite(found).all():
        raise UsageError(f"value {value!r}; wanted {wanted}")
    return found


def no_value(name: str, value: str) -> None:
    if value:
        raise UsageError(f"value {value!r}; {name} takes no value")


def _only_mean(name: str, value: str) -> bool:
    if value not in ("", "mean"):
        raise UsageError(f"value {value!r}; wanted {name} or {name}=mean")
    return value == "mean"


def apply(functions: Sequence[Callable[..., Floats]], rewards: Floats, about: Games | Steps, stage: str) -> Floats:
    """Apply all functions to rewards in order. Raises UsageError if one fails or returns the wrong shape."""
    for function in functions:
        name = getattr(function, "__qualname__", repr(function))
        try:
            after = np.asarray(function(rewards, about), np.float64)
        except Exception as error:  # from a user's function
            raise UsageError(f"gather --{stage}-rewards: {name} raised {type(error).__name__}: {error}") from error
        finite = after.shape != rewards.shape or bool(np.isfinite(after[~np.isnan(rewards)]).all())
        if after.shape != rewards.shape or not finite:
            raise UsageError(
                f"gather --{stage}-rewards: {name} returned shape {list(after.shape)}"
                f"{'' if finite else ' with infinities or NaN'}; wanted {list(rewards.shape)} numbers"
            )
        rewards = after
    return rewards
