"""Promotion conditions: what a challenger must achieve against players other than the champion, ``--require``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.evaluate.config import EvaluateConfig
from pipeline.matches.runner import Entrant, Sides, load_entrant
from pipeline.run import layout
from pipeline.run.matches import has_match, read_match


@dataclass(frozen=True)
class Condition:
    """A promotion condition, ``random>=0.95``: the challenger must score this share of the points against that player.

    If games count more than 1, `share` is in points per game. Otherwise a share of 0 is always met: the match is a
    measurement and never ends early.
    """

    text: str
    opponent: Entrant
    share: float

    def folder(self, config: EvaluateConfig, challenger: Entrant) -> Path:
        """Of its match."""
        return config.output_dir / layout.REQUIRED / layout.match_name(challenger.name, self.opponent.name)


def parse_condition(text: str, readouts: int) -> Condition:
    """Parse PLAYER>=SHARE. Raises UsageError, also for what load_entrant() refuses."""
    player, _, number = text.rpartition(">=")
    try:
        share = float(number)
        if not player.strip() or not 0 <= share <= 1:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"evaluate --require {text!r}: wanted PLAYER>=SHARE with a share from 0 to 1, e.g. 'random>=0.95'"
        ) from None
    return Condition(text, load_entrant(player.strip(), readouts), share)


def check_conditions(config: EvaluateConfig, entrants: Sides, conditions: list[Condition]) -> None:
    """Raises UsageError for a promotion condition that can't be played."""
    challenger, champion = entrants
    names = [one.opponent.name for one in conditions]
    for condition, name in zip(conditions, names, strict=True):
        where = f"--require {condition.text!r}"
        check_different(challenger, condition.opponent, where)
        if name == champion.name:
            raise UsageError(f"evaluate {where}: that is the champion of this match; use --threshold")
        if names.count(name) > 1:
            raise UsageError(f"evaluate {where}: {name} is given {names.count(name)} times; wanted once")
        folder = condition.folder(config, challenger)
        if has_match(folder) and (begun := read_match(folder).header.games) != config.require_games:
            raise UsageError(
                f"evaluate --require-games {config.require_games}: {folder} was begun with {begun}; use that number "
                "or remove the folder"
            )


def check_different(challenger: Entrant, other: Entrant, where: str = "--white-model") -> None:
    """Raises UsageError for two equal players. An explicit NAME=PLAYER lets a player play itself."""
    named = challenger.spec.own_name or other.spec.own_name
    if challenger.model and challenger.identity == other.identity and not named:
        who = "champion" if where == "--white-model" else "challenger"
        raise UsageError(
            f"evaluate {where} {other.spec.text}: it is the {who} itself; wanted another player, or another name for "
            "it: NAME=PLAYER"
        )
    if challenger.name == other.name:
        raise UsageError(f"evaluate {where}: both players are called {other.name}; name one of them: NAME=PLAYER")
