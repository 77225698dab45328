"""``TextGame``: environments of TextArena as a game. ``text:KuhnPoker-v0``, ``text:KuhnPoker-v0+SimpleTak-v0``.

The first move is chance's: one of SEEDS equally likely seeds, which fixes the environment's random numbers and, with
several environments, selects one. After it, action i is the i-th action that the environment lists in this position.
INVALID stands for any other answer: the environment gets INVALID_TEXT and applies its own rule for invalid moves, e.g.
a second try. So a game can be replayed from its moves.

Players are the environment's players 0 and 1; the environment decides which one begins. The result is the sign of the
difference of their rewards; rewards() returns the rewards themselves. A game is cut short at its limit of plies.

State words: PLIES, TO_MOVE, OVER, RESULT (first player's), LOST_BY (1 + the player whose invalid move ended the game),
CUT, SEED, then the actions in order. A state holds no messages: they are recovered by replaying the actions, and cached
for recent positions. Axes as in games/contract.py.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GameFault, IllegalMove, UsageError
from pipeline.families.text.environment import Environment, environment_class
from pipeline.families.text.words import SHOWN, Message, kuhn_equilibrium, listed_actions, plain
from pipeline.games.contract import (
    CHANCE,
    OFF,
    ON,
    Actions,
    AnyGame,
    BoolArray,
    FloatArray,
    History,
    IntArray,
    KeyArray,
    Moves,
    MoveScores,
    States,
    small_number,
)
from pipeline.games.keys import hashed

SEEDS = 4_096
INVALID = 9_999
INVALID_TEXT = "(none of the listed actions)"
PLIES, TO_MOVE, OVER, RESULT, LOST_BY, CUT, SEED = range(7)
HEADER = 7
KEPT = 20_000  # positions in the cache
# Options of a spec that aren't the environment's, with their defaults.
LENGTHS = {
    "plies": 64,  # maximum length of a game, including chance's ply
    "prompt": 512,  # maximum tokens of a prompt; the oldest are dropped
    "reply": 32,  # maximum tokens of an answer
}

_REFUSALS = {1: "not one of the listed actions", 2: "the game is over"}


@dataclass
class _Position:
    """The cached data of a position. messages [2]: by player; only the first counts[player] belong to the position.

    environment: None once it is over or has advanced to a later position.
    """

    environment: Environment | None
    messages: tuple[list[Message], list[Message]]
    counts: tuple[int, int]
    to_move: int
    over: bool
    invalid: int  # see Environment
    listed: tuple[str, ...]
    rewards: tuple[float, float]

    def view(self, player: int) -> list[Message]:
        return self.messages[player][: self.counts[player]]


class TextGame(AnyGame):
    """See the module docstring.

    environments: their names; prompt_tokens, reply_tokens: the maximum for a language model
    """

    has_chance = True
    perfect_information = False
    heuristic_mixes = True

    def __init__(
        self, names: tuple[str, ...], settings: dict[str, Any], show: str, plies: int, prompt: int, reply: int
    ) -> None:
        """settings: of the only environment; show: a key of words.SHOWN. Raises UsageError if it can't be played."""
        self.environments = names
        self._settings, self._show = settings, SHOWN[show]
        self._classes = [environment_class(name) for name in names]
        self.max_plies = self.move_limit = plies
        self.state_size = HEADER + plies
        self.prompt_tokens, self.reply_tokens = prompt, reply
        lengths = {"plies": plies, "prompt": prompt, "reply": reply}
        options = [f"{key}={value}" for key, value in sorted(settings.items())]
        options += [f"show={show}"] if show != "whole" else []
        options += [f"{key}={value}" for key, value in lengths.items() if value != LENGTHS[key]]
        self.spec = ",".join([f"text:{'+'.join(names)}", *options])
        self._lock = threading.RLock()
        self._known: OrderedDict[bytes, _Position] = OrderedDict()
        for seed in range(len(names)):
            self._check_begins(seed)

    @property
    def board_title(self) -> str:
        return f"the text game {' + '.join(self.environments)}"

    @classmethod
    def from_spec(cls, size: str | None, options: dict[str, str]) -> TextGame:
        if not size:
            raise UsageError("game text: no environment; wanted e.g. text:KuhnPoker-v0")
        names, options = tuple(size.split("+")), dict(options)
        show = options.pop("show", "whole")
        if show not in SHOWN:
            raise UsageError(f"game text:{size}: show={show}; wanted one of {', '.join(SHOWN)}")
        lengths = {}
        for key, default in LENGTHS.items():
            number = small_number(text) if (text := options.pop(key, None)) is not None else default
            if number < 2:
                raise UsageError(f"game text:{size}: {key}={text}; wanted a number from 2 to 9999")
            lengths[key] = number
        if options and len(names) > 1:
            raise UsageError(f"game text:{size}: {next(iter(options))}: several environments can't have settings")
        return cls(names, {key: _value(text) for key, text in options.items()}, show, **lengths)

    def _check_begins(self, seed: int) -> None:
        try:
            self._position(np.array([seed], np.int16).tobytes())
        except GameFault as error:
            settings = " and ".join(f"{key}={value}" for key, value in self._settings.items())
            wanted = f"settings with which two players begin, not {settings}" if settings else "a game of two players"
            raise UsageError(f"{error}; wanted {wanted}") from error

    # The environment behind a position

    def environment_of(self, state: NDArray[np.int16]) -> int:
        """The index of the environment in play; state [S] after chance's move."""
        return int(state[SEED]) % len(self.environments)

    def _make(self, seed: int) -> Environment:
        number = seed % len(self.environments)
        kind, settings = self._classes[number]
        name = self.environments[number]
        try:
            made = kind(**{**settings, **self._settings})
        except Exception as error:  # another package's class with the user's settings
            raise UsageError(
                f"game text:{name}: creating it raised {type(error).__name__}: {error}; "
                f"wanted settings such as {', '.join(f'{key}={value}' for key, value in settings.items()) or 'none'}"
            ) from error
        return Environment(name, made, seed)

    def _position(self, key: bytes) -> _Position:
        """key: the words from SEED on. Raises GameFault if the environment fails."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._reach(key)
                self._known[key] = found
                if len(self._known) > KEPT:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(key)
            return found

    def _reach(self, key: bytes) -> _Position:
        """Continue from the previous position if its environment is still there, else replay from the start."""
        words = np.frombuffer(key, np.int16).tolist()
        before = self._known.get(key[:-2]) if len(words) > 1 else None
        if before is not None and before.environment is not None:
            environment, before.environment = before.environment, None
            environment.step(INVALID_TEXT if words[-1] == INVALID else before.listed[words[-1]])
        else:
            environment = self._make(words[0])
            for action in words[1:]:
                choices = listed_actions(environment.messages[environment.to_move])
                environment.step(INVALID_TEXT if action == INVALID else choices[action])
        messages = environment.messages
        listed: tuple[str, ...] = ()
        if not environment.over:
            listed = listed_actions(messages[environment.to_move])
            if not listed:
                raise GameFault(f"text:{environment.name}: a player is to move, but no message lists the actions")
        counts = len(messages[0]), len(messages[1])
        rewards = environment.rewards if environment.over else (0.0, 0.0)
        facts = environment.to_move, environment.over, environment.invalid
        return _Position(None if environment.over else environment, messages, counts, *facts, listed, rewards)

    def _of(self, state: NDArray[np.int16]) -> _Position:
        return self._position(state[SEED : SEED + max(1, int(state[PLIES]))].tobytes())

    def kind_of(self, moves: Sequence[int]) -> str:
        several = len(self.environments) > 1 and len(moves) > 0
        return self.environments[int(moves[0]) % len(self.environments)] if several else ""

    # Text

    def observation(self, state: NDArray[np.int16]) -> str:
        """The text shown to the player to move; state [S] after chance's move, not over."""
        return self._show(self._of(state).view(int(state[TO_MOVE])))

    def messages_to(self, state: NDArray[np.int16], player: int) -> list[Message]:
        """All messages to a player so far; state [S] after chance's move."""
        return self._of(state).view(player)

    def listed(self, state: NDArray[np.int16]) -> tuple[str, ...]:
        """The legal actions in order; () where the game is over or chance is to move."""
        return () if state[OVER] or state[TO_MOVE] == CHANCE else self._of(state).listed

    def read(self, state: NDArray[np.int16], text: str) -> int:
        """The action that an answer names; INVALID if it isn't listed."""
        wanted = plain(text)
        return next((i for i, action in enumerate(self.listed(state)) if plain(action) == wanted), INVALID)

    def rewards(self, states: States) -> FloatArray:
        """[B, 2] the environment's rewards of players 0 and 1; 0 where the game isn't over."""
        found = [self._of(state).rewards if state[OVER] and not state[CUT] else (0.0, 0.0) for state in states]
        return np.array(found, np.float32).reshape(-1, 2)

    def lost_by_invalid(self, states: States) -> NDArray[np.int8]:
        """[B] the player whose invalid move ended the game, else -1."""
        return (states[:, LOST_BY] - 1).astype(np.int8)

    def heuristic(self) -> MoveScores | None:
        """Kuhn poker only: the logarithms of an exact equilibrium's probabilities."""
        if any(not name.startswith("Kuhn") for name in self.environments):
            return None

        def scores(states: States, history: History) -> NDArray[np.float64]:
            chances = [
                kuhn_equilibrium(
                    self.messages_to(state, int(state[TO_MOVE])),
                    self.listed(state),
                    self.environments[self.environment_of(state)].startswith("KuhnChips"),
                )
                for state in states
            ]
            with np.errstate(divide="ignore"):
                return np.log(np.array(chances))

        return scores

    # The verbs of the contract

    def initial(self, num_games: int) -> States:
        states = np.zeros((num_games, self.state_size), np.int16)
        states[:, TO_MOVE] = CHANCE
        return states

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions = np.asarray(actions, np.int32)
        status = np.zeros(len(states), np.uint8)
        for row, (state, action) in enumerate(zip(states, actions.tolist(), strict=True)):
            if state[OVER]:
                status[row] = 2
            elif state[TO_MOVE] == CHANCE:
                status[row] = not 0 <= action < SEEDS
            else:
                status[row] = action != INVALID and not 0 <= action < len(self.listed(state))
        self._refuse(states, actions, status, _REFUSALS)
        after = states.copy()
        for state, action in zip(after, actions.tolist(), strict=True):
            self._play_one(state, action)
        return after

    def _play_one(self, state: NDArray[np.int16], action: int) -> None:
        plies = int(state[PLIES])
        state[SEED + plies] = action
        found = self._position(state[SEED : SEED + plies + 1].tobytes())
        state[PLIES], state[TO_MOVE], state[OVER] = plies + 1, found.to_move, found.over
        if found.over:
            difference = found.rewards[0] - found.rewards[1]
            state[RESULT] = int(difference > 0) - int(difference < 0)
            state[LOST_BY] = 1 + found.invalid
        elif plies + 1 >= self.max_plies:
            state[OVER] = state[CUT] = 1

    def moves(self, states: States, history: History) -> Moves:
        counts = [len(self.listed(state)) for state in states]
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        actions = [np.arange(count, dtype=np.int32) for count in counts]
        return Moves(offsets, np.concatenate([np.zeros(0, np.int32), *actions]))

    def is_over(self, states: States) -> BoolArray:
        return states[:, OVER] != 0

    def cut_short(self, states: States) -> BoolArray:
        return states[:, CUT] != 0

    def returns(self, states: States) -> FloatArray:
        return states[:, RESULT].astype(np.float32)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, TO_MOVE].astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, PLIES].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return hashed(states)

    def chance(self, states: States) -> FloatArray:
        return np.full((len(states), SEEDS), 1 / SEEDS, np.float32)

    def move_name(self, state: NDArray[np.int16], action: int) -> str:
        if state[TO_MOVE] == CHANCE and not state[OVER]:
            if not 0 <= action < SEEDS:
                raise IndexError(action)
            return f"seed {action}"
        return "invalid" if action == INVALID else self.listed(state)[action]

    def parse_move(self, state: NDArray[np.int16], text: str) -> int:
        if state[TO_MOVE] == CHANCE:
            number = small_number(text.strip().casefold().removeprefix("seed").strip())
            if not 0 <= number < SEEDS:
                raise IllegalMove(f"{text!r}: wanted 'seed N' with N below {SEEDS}")
            return number
        if plain(text) == "invalid":
            return INVALID
        action = self.read(state, text)
        if action == INVALID:
            raise IllegalMove(f"{text!r}: wanted one of {', '.join(self.listed(state)) or 'none, the game is over'}")
        return action

    def diagram(self, state: NDArray[np.int16]) -> str:
        """The seed, all messages to player 0, those to player 1 alone, and the player to move."""
        if not state[PLIES]:
            return f"{self.spec}: before its seed"
        first, second = ([message.text for message in self._of(state).view(player)] for player in (0, 1))
        lines = [f"[to 0] {text}" for text in first] + [f"[to 1] {text}" for text in second if text not in first]
        turn = "over" if state[OVER] else f"player {state[TO_MOVE]} to move"
        return "\n".join([f"seed {state[SEED]}", *lines, f"{turn}, ply {state[PLIES]}"])


def _value(text: str) -> int | bool | str:
    """The value of an environment's setting in a spec. on and True are the same, as are off and False."""
    if text in (ON, OFF, "True", "False"):
        return text in (ON, "True")
    return small_number(text) if small_number(text) >= 0 else text
