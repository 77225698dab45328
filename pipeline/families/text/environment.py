"""``Environment``: one game of a TextArena environment.

TextArena's environments use the global random generators of Python and numpy. Each Environment swaps in its own random
states while it runs, so that a game depends only on its seed and its actions. Therefore only one environment of a
process can run at a time. Some environments download data of nltk, or ask language models on the network. Here nltk's
data must be installed, and no server is asked.

TextArena registers most environments three times: NAME with wrappers for language models, NAME-train with those for
training, and NAME-raw without. An observation wrapper is one of words.SHOWN here. Action wrappers, which may add
brackets or cut a text, are TextArena's own, and used where actions are texts.

A *seat* is the environment's number of a player. Source: TextArena 0.7.4, core.py, state.py and envs/registration.py.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import math
import random
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pipeline.errors import GameFault, UsageError
from pipeline.families.text.words import LISTED, REFUSAL, Message

NOT_INSTALLED = "text games need the packages of the extra text: pip install 'mugo[text]'"
OWN = {"KuhnChips-v0": ("pipeline.families.text.kuhn", "KuhnChips", {"max_rounds": 1})}  # module, class, settings
KINDS = {"PROMPT": "prompt", "PLAYER_ACTION": "action", "GAME_BOARD": "board", "GAME_ADMIN": "admin"}
# What TextArena's observation wrappers show: keys of words.SHOWN
SHOWN_BY = {
    "LLMObservationWrapper": "whole",
    "GameMessagesAndCurrentBoardObservationWrapper": "board",
    "GameMessagesObservationWrapper": "messages",
    "GameBoardObservationWrapper": "position",
}
NEAR = 5  # names that are suggested

_working = threading.RLock()  # guards the global random generators
_RESOURCE = re.compile(r"Resource\W+(?:\d+m)?(\w+)")  # in nltk's message, perhaps in colour


class Registered(NamedTuple):
    """An environment as it is registered.

    kind, settings  its class and arguments
    lists           whether it lists exactly the legal actions whenever a player is to move
    show            what a player sees, a key of words.SHOWN
    wrappers        TextArena's wrappers for actions, the innermost first
    """

    kind: Any
    settings: dict[str, Any]
    lists: bool
    show: str = "whole"
    wrappers: tuple[Any, ...] = ()


def registered(name: str) -> Registered:
    """An environment, e.g. KuhnPoker-v0. Raises UsageError if it is unknown or can't be imported."""
    try:
        from textarena.core import ActionWrapper
        from textarena.envs.registration import ENV_REGISTRY
    except ImportError as error:
        raise UsageError(f"game text:{name}: {NOT_INSTALLED} ({error})") from error
    lists = name.split("-")[0] in LISTED
    if name in OWN:
        module, kind, settings = OWN[name]
        return Registered(getattr(importlib.import_module(module), kind), dict(settings), lists)
    if name not in ENV_REGISTRY:
        known = {one.casefold(): one for one in (*OWN, *ENV_REGISTRY)}
        near = difflib.get_close_matches(name.casefold(), known, NEAR, 0.5)
        wanted = " or ".join(known[one] for one in near) or "a name such as KuhnPoker-v0"
        raise UsageError(f"game text:{name}: unknown environment; wanted {wanted}; docs/text.md lists them")
    spec = ENV_REGISTRY[name]
    module, kind = spec.entry_point.split(":")
    with _working, _offline():
        try:
            found = getattr(importlib.import_module(module), kind)
        except Exception as error:  # another package's module
            raise UsageError(f"game text:{name}: {_explained(error)}") from error
    wrappers = spec.default_wrappers or ()
    show = next((SHOWN_BY[one.__name__] for one in wrappers if one.__name__ in SHOWN_BY), "whole")
    actions = () if lists else tuple(one for one in wrappers if issubclass(one, ActionWrapper))
    return Registered(found, dict(spec.kwargs), lists, show, actions)


class _OnTheNetwork(Exception):
    """An environment wants to ask a language model, e.g. who has won."""


def _no_agent(*args: object, **options: object) -> None:
    raise _OnTheNetwork


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Nothing is downloaded, no server is asked: nltk finds the data that are installed, or raises."""
    import nltk
    from textarena import agents

    before = nltk.download, agents.OpenRouterAgent
    nltk.download, agents.OpenRouterAgent = lambda *names, **options: False, _no_agent
    try:
        yield
    finally:
        nltk.download, agents.OpenRouterAgent = before


def _explained(error: Exception, what: str = "importing it") -> str:
    """What an environment raised at something, and the next step if it lacks data or a package."""
    if isinstance(error, LookupError) and (found := _RESOURCE.search(str(error))):
        return f"it needs nltk's {found[1]}, which aren't installed: python -m nltk.downloader {found[1]}"
    if isinstance(error, _OnTheNetwork):
        return "it asks language models on the network; wanted an environment that needs none"
    if isinstance(error, ModuleNotFoundError):
        return f"it needs the package {error.name}, which isn't installed"
    if isinstance(error, SyntaxError):
        return f"its code isn't valid in Python {sys.version_info[0]}.{sys.version_info[1]}; try a newer one ({error})"
    return f"{what} raised {type(error).__name__}: {' '.join(str(error).split())}"


class Environment:
    """One game.

    messages  by seat, all messages so far; none to seat 1 if the environment has one player
    marks     before each action: its seat, and the number of messages to that seat
    refused   whether the latest action was an invalid move
    invalid   the seat whose invalid action ended the game, else -1
    """

    def __init__(self, name: str, entry: Registered, settings: dict[str, Any], seed: int, num_players: int = 2) -> None:
        """settings: beside the registered ones.

        Raises UsageError if its class refuses the settings, GameFault if it can't begin.
        """
        self.name = name
        self.messages: tuple[list[Message], ...] = tuple([] for _ in range(max(2, num_players)))
        self.marks: list[tuple[int, int]] = []
        self.refused, self.invalid = False, -1
        self._num_players, self._lists = num_players, entry.lists
        self._done = False
        self._rewards = (0.0,) * len(self.messages)
        self._seed(seed)
        try:
            with contextlib.nullcontext() if entry.lists else self._its_world():  # those of LISTED draw nothing here
                self._env = entry.kind(**{**entry.settings, **settings})
        except Exception as error:  # another package's class with the user's settings
            given = ", ".join(f"{key}={value}" for key, value in entry.settings.items()) or "none"
            wanted = f"; wanted settings such as {given}" if settings else ""
            raise UsageError(f"game text:{name}: {_explained(error, 'creating it')}{wanted}") from error
        for wrapper in entry.wrappers:
            self._env = wrapper(self._env)
        if not entry.lists:
            self._seed(seed)
        with self._running("its start"):
            self._env.reset(num_players=num_players, seed=seed)
            self._collect()

    @property
    def over(self) -> bool:
        return self._done

    @property
    def to_move(self) -> int:
        """The seat to move."""
        return int(self._env.state.current_player_id)

    @property
    def rewards(self) -> tuple[float, ...]:
        """By seat, when the game is over."""
        return self._rewards

    def step(self, action: str) -> None:
        """Play an action, legal or not, of the seat to move. Raises GameFault if the environment fails."""
        shown = repr(action if len(action) <= 80 else f"{action[:80]}…")
        mover = self.to_move
        before = len(self.messages[mover])
        for info in self._flags():  # a flag would stay: games of several seats go on without the one that has it
            info["invalid_move"] = False
        with self._running(f"action {shown}"):
            done, _ = self._env.step(action)
            self._done = bool(done)
            self._collect()
            told = self.messages[mover][before:]
            gave_up_on = [seat for seat, info in enumerate(self._flags()) if info.get("invalid_move")]
            self.refused = mover in gave_up_on or any(one.kind == "admin" and REFUSAL in one.text for one in told)
            self.invalid = min(gave_up_on, default=-1) if self._done else -1
        self.marks.append((mover, before))

    def _flags(self) -> list[dict[str, Any]]:
        """By seat, where TextArena notes, as "invalid_move", that it made too many invalid moves in a row."""
        return [self._env.state.game_info.get(seat, {}) for seat in range(len(self.messages))]

    def _collect(self) -> None:
        """Move the environment's new observations to messages, and take the rewards of a finished game."""
        state = self._env.state
        asked = {}
        if not self._done and self.to_move in range(self._num_players):
            asked[self.to_move] = self._env.get_observation()[1]  # some environments tell more to who is asked
        for seat in range(self._num_players):
            for sender, text, kind in asked.get(seat, state.observations[seat]):
                role = str(state.role_mapping.get(sender, ""))
                self.messages[seat].append(Message(int(sender), str(text), KINDS.get(kind.name, "event"), role))
            state.observations[seat] = []
        if self._done:
            if state.rewards is None:
                raise ValueError("it ended without rewards")
            self._rewards = tuple(float(state.rewards.get(seat, 0.0)) for seat in range(len(self.messages)))
            if not all(map(math.isfinite, self._rewards)):
                raise ValueError(f"its rewards are {self._rewards}")
        elif not 0 <= self.to_move < self._num_players:
            raise ValueError(f"player {self.to_move} is to move")

    def _seed(self, seed: int) -> None:
        self._random = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed).get_state()

    @contextlib.contextmanager
    def _its_world(self) -> Iterator[None]:
        """The environment's random states in place of the global ones, and no downloads; those of LISTED try none."""
        with _working, contextlib.nullcontext() if self._lists else _offline():
            ours = random.getstate(), np.random.get_state()
            random.setstate(self._random)
            np.random.set_state(self._numpy)
            try:
                yield
            finally:
                self._random, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(ours[0])
                np.random.set_state(ours[1])

    @contextlib.contextmanager
    def _running(self, what: str) -> Iterator[None]:
        try:
            with self._its_world():
                yield
        except Exception as error:  # a faulty environment must not stop the other games
            raise GameFault(f"text:{self.name}: {_explained(error, f'at {what} it')}") from error
