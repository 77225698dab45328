"""``Environment``: one game of a TextArena environment.

TextArena's environments use the global random generators of Python and numpy. Each Environment swaps in its own random
states while it runs, so that a game depends only on its seed and its actions. Therefore only one environment of a
process can run at a time.

Rewards are by player number. Source: TextArena 0.7.4, core.py and state.py.
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

_working = threading.RLock()  # guards the global random generators


def environment_class(name: str) -> tuple[Any, dict[str, Any]]:
    """(class, settings) of an environment, e.g. KuhnPoker-v0. Raises UsageError if it is unknown or unsupported."""
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
            f"game text:{name}: it expects free text, so its actions can't be numbered; wanted one that lists the "
            f"legal actions: {', '.join(known)}"
        )
    spec = ENV_REGISTRY[name]
    module, kind = spec.entry_point.split(":")
    return getattr(importlib.import_module(module), kind), dict(spec.kwargs)


def _is_plain(name: str) -> bool:
    """Whether it is registered without wrappers. TextArena also registers every environment with some."""
    return not name.endswith(("-raw", "-train"))


class Environment:
    """One game. messages: by player, all messages so far."""

    def __init__(self, name: str, made: Any, seed: int) -> None:
        """made: TextArena's environment, owned by this object. Raises GameFault if it can't begin."""
        self.name, self._env = name, made
        self.messages: tuple[list[Message], list[Message]] = ([], [])
        self._random = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed).get_state()
        self._done = False
        with self._running("its start"):
            self._env.reset(num_players=2, seed=seed)
            self._collect()

    @property
    def over(self) -> bool:
        return self._done

    @property
    def to_move(self) -> int:
        """The player to move, 0 or 1."""
        return int(self._env.state.current_player_id)

    @property
    def rewards(self) -> tuple[float, float]:
        """The rewards of players 0 and 1 when the game is over."""
        found = self._env.state.rewards or {}
        return float(found.get(0, 0.0)), float(found.get(1, 0.0))

    @property
    def invalid(self) -> int:
        """The player whose invalid actions ended the game, else -1."""
        info = self._env.state.game_info
        return next((player for player in (0, 1) if info.get(player, {}).get("invalid_move")), -1)

    def step(self, action: str) -> None:
        """Play an action, legal or not, of the player to move. Raises GameFault if the environment fails."""
        with self._running(f"action {action!r}"):
            done, _ = self._env.step(action)
            self._done = bool(done)
            self._collect()

    def _collect(self) -> None:
        """Move the environment's new observations to messages."""
        waiting = self._env.state.observations
        for player in (0, 1):
            for sender, text, kind in waiting[player]:
                self.messages[player].append(Message(int(sender), str(text), KINDS.get(kind.name, "event")))
            waiting[player] = []

    @contextlib.contextmanager
    def _running(self, what: str) -> Iterator[None]:
        with _working:
            ours = random.getstate(), np.random.get_state()
            random.setstate(self._random)
            np.random.set_state(self._numpy)
            try:
                yield
                if self._done and self._env.state.rewards is None:
                    raise ValueError("it ended without rewards")
            except Exception as error:  # a faulty environment must not stop the other games
                raise GameFault(f"text:{self.name}: at {what} it raised {type(error).__name__}: {error}") from error
            finally:
                self._random, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(ours[0])
                np.random.set_state(ours[1])
