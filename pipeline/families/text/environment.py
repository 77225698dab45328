"""``Environment``: one game of a TextArena environment, as this program needs it.

TextArena's environments draw from Python's and numpy's global random numbers. Here each has states of its own, which
are exchanged for the global ones while it works, so that a game depends on its seed and its actions, not on the games
beside it. Therefore only one environment of a process works at a time.

Rewards stand by player, in whatever order the environment names them. Source: TextArena 0.7.4, core.py and state.py.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.errors import GameFault, UsageError
from pipeline.families.text.words import LISTED, Message

NOT_INSTALLED = "text games need the packages of the extra text: pip install 'mugo[text]'"
OWN = {"KuhnChips-v0": ("pipeline.families.text.kuhn", "KuhnChips", {"max_rounds": 1})}  # module, class, settings
KINDS = {"PROMPT": "prompt", "PLAYER_ACTION": "action", "GAME_BOARD": "board", "GAME_ADMIN": "admin"}

_working = threading.RLock()  # global random numbers are everybody's


def environment_class(name: str) -> tuple[Any, dict[str, Any]]:
    """(class, settings) of an environment, e.g. KuhnPoker-v0. Raises UsageError if there is none that can be played."""
    try:
        from textarena.envs.registration import ENV_REGISTRY
    except ImportError as error:
        raise UsageError(f"game text:{name}: {NOT_INSTALLED} ({error})") from error
    known = sorted([*OWN, *(one for one in ENV_REGISTRY if one.split("-")[0] in LISTED and _is_plain(one))])
    if name in OWN:
        module, kind, settings = OWN[name]
        return getattr(importlib.import_module(module), kind), dict(settings)
    if name not in ENV_REGISTRY or not _is_plain(name):
        raise UsageError(f"game text:{name}: unknown environment; wanted one of {', '.join(known)}")
    if name.split("-")[0] not in LISTED:
        raise UsageError(
            f"game text:{name}: it asks for words that nobody lists, so they have no numbers; wanted one that lists "
            f"the legal actions: {', '.join(known)}"
        )
    spec = ENV_REGISTRY[name]
    module, kind = spec.entry_point.split(":")
    return getattr(importlib.import_module(module), kind), dict(spec.kwargs)


def _is_plain(name: str) -> bool:
    """TextArena registers every environment a few times, with other wrappers, of which none is used here."""
    return not name.endswith(("-raw", "-train"))


class Environment:
    """One game. messages: by player, all that it was told so far."""

    def __init__(self, name: str, made: Any, seed: int) -> None:
        """made: an environment that this object alone uses. Raises GameFault if it can't begin."""
        self.name, self._env = name, made
        self.messages: tuple[list[Message], list[Message]] = ([], [])
        self._random = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed).get_state()
        self._done = False
        with self._at_work("its beginning"):
            self._env.reset(num_players=2, seed=seed)
            self._collect()

    @property
    def over(self) -> bool:
        return self._done

    @property
    def to_move(self) -> int:
        """The player to move; TextArena's number, 0 or 1."""
        return int(self._env.state.current_player_id)

    @property
    def rewards(self) -> tuple[float, float]:
        """Of players 0 and 1, when the game is over."""
        found = self._env.state.rewards or {}
        return float(found.get(0, 0.0)), float(found.get(1, 0.0))

    @property
    def invalid(self) -> int:
        """The player whose invalid actions ended the game; -1: nobody's did."""
        info = self._env.state.game_info
        return next((player for player in (0, 1) if info.get(player, {}).get("invalid_move")), -1)

    def step(self, action: str) -> None:
        """An action of the player to move, whether it is legal or not. Raises GameFault if the environment does."""
        with self._at_work(f"action {action!r}"):
            done, _ = self._env.step(action)
            self._done = bool(done)
            self._collect()

    def _collect(self) -> None:
        """Move what the players were told from the environment to messages."""
        waiting = self._env.state.observations
        for player in (0, 1):
            for sender, text, kind in waiting[player]:
                self.messages[player].append(Message(int(sender), str(text), KINDS.get(kind.name, "told")))
            waiting[player] = []

    @contextlib.contextmanager
    def _at_work(self, what: str) -> Iterator[None]:
        with _working:
            ours = random.getstate(), np.random.get_state()
            random.setstate(self._random)
            np.random.set_state(self._numpy)
            try:
                yield
                if self._done and self._env.state.rewards is None:
                    raise ValueError("it ended without rewards")
            except Exception as error:  # whatever the environment does is no reason to stop the other games
                raise GameFault(f"text:{self.name}: at {what} it raised {type(error).__name__}: {error}") from error
            finally:
                self._random, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(ours[0])
                np.random.set_state(ours[1])
