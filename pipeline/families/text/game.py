"""``TextGame``: environments of TextArena as a game. ``text:KuhnPoker-v0``, ``text:KuhnPoker-v0+SimpleTak-v0``.

The first move is chance's: one of SEEDS equally likely seeds, which fixes the environment's random numbers and, with
several environments, selects one.

Where the environment lists its actions (words.LISTED), action i is the i-th one in this position. INVALID stands for
any other answer: the environment gets INVALID_TEXT and applies its own rule for invalid moves, e.g. a second try. So a
game can be replayed from its moves.

In all other environments, actions are texts. Any text may be said; moves() suggests some, for play at random. In this
process an action is the text's number (texts.py). A record has SPOKEN instead, and the texts beside the moves, each
with a checksum of the observation before it, which shows on replay whether the environment is still the same.

A *seat* is the environment's number of a player; the environment decides which one begins. With up to two seats, player
0 has seat 0 and player 1 seat 1, if it is there. More seats are divided between two players: player 0 has every other
one, from one that the seed selects. No seat sees what another one is told. The result is the sign of the difference of
the players' mean rewards; rewards() returns those of the seats. A game is cut short at its limit of plies.

State words: PLIES, TO_MOVE, OVER, RESULT (first player's), LOST_BY (1 + the seat whose invalid move ended the game),
CUT, then the actions in order, two words each, the seed first. A state holds no messages: they are recovered by
replaying the actions, and cached for recent positions. Axes as in games/contract.py.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GameFault, IllegalMove, UsageError
from pipeline.families.text.environment import Environment, registered
from pipeline.families.text.texts import FIRST, TEXTS, clean
from pipeline.families.text.words import (
    SHOWN,
    Message,
    bracketed,
    checksum,
    kuhn_equilibrium,
    listed_actions,
    plain,
    suggested_actions,
)
from pipeline.games.capabilities import Said, SharedRules, Spoken
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
SPOKEN = 10_000  # in records: a text
PLIES, TO_MOVE, OVER, RESULT, LOST_BY, CUT, SEED = range(7)
HEADER = SEED
WORDS = 2  # of a state for an action
KEPT = 20_000  # positions in the cache
# Options of a spec that aren't the environment's, with their defaults.
LENGTHS = {
    "plies": 64,  # maximum length of a game, including chance's ply
    "prompt": 512,  # maximum tokens of a prompt; the oldest are dropped
    "reply": 32,  # maximum tokens of an answer
}
PLAYERS = (2, 1, *range(3, 16))  # numbers of seats, in the order in which they are tried

DIFFERS = "the environment's observation differs from the recorded one; was another version of textarena used?"
_REFUSALS = {
    1: "not one of the listed actions",
    2: "the game is over",
    3: "no text that was said in this process, or one that was forgotten",
}
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?")  # among an environment's settings


@dataclass
class _Position:
    """The cached data of a position. messages: by seat; only the first counts[seat] belong to the position.

    environment: None once it is over or has advanced to a later position. marks: as in Environment, of the whole game.
    listed: the legal actions; where actions are texts, some suggestions once asked for. refused: whether the latest
    action was invalid.
    """

    environment: Environment | None
    messages: tuple[list[Message], ...]
    counts: tuple[int, ...]
    to_move: int  # a seat
    over: bool
    invalid: int  # see Environment
    listed: tuple[str, ...]
    rewards: tuple[float, ...]
    marks: list[tuple[int, int]]
    refused: bool

    def view(self, seat: int) -> list[Message]:
        return self.messages[seat][: self.counts[seat]]


class TextGame(Spoken, SharedRules):
    """See the module docstring.

    environments: their names; prompt_tokens, reply_tokens: the maximum for a language model
    num_seats: of each environment; most_seats: of all, at least 2; speaks: whether actions are texts in one of them
    """

    has_chance = True
    perfect_information = False
    marks = ("player 0", "player 1")
    heuristic_mixes = True

    def __init__(
        self, names: tuple[str, ...], settings: dict[str, Any], show: str, plies: int, prompt: int, reply: int,
        players: int | None = None,
    ) -> None:  # fmt: skip
        """settings: of the only environment; show: a key of words.SHOWN, or "" for what each one's wrapper shows.

        players: seats; None: the first of PLAYERS with which an environment begins.

        Raises UsageError if it can't be played.
        """
        self.environments = names
        self._settings = settings
        self._entries = [registered(name) for name in names]
        defaults = {entry.show for entry in self._entries}
        show = "" if defaults == {show} else show
        self._shows = [SHOWN[show or entry.show] for entry in self._entries]
        self.speaks = not all(entry.lists for entry in self._entries)
        self.max_plies = self.move_limit = plies
        self.state_size = HEADER + WORDS * plies
        self.prompt_tokens, self.reply_tokens = prompt, reply
        lengths = {"plies": plies, "prompt": prompt, "reply": reply}
        options = [f"{key}={value}" for key, value in sorted(settings.items())]
        options += [f"show={show}"] if show else []
        options += [f"{key}={value}" for key, value in lengths.items() if value != LENGTHS[key]]
        self.spec = ",".join([f"text:{'+'.join(names)}", *options])
        self._lock = threading.RLock()
        self._known: OrderedDict[bytes, _Position] = OrderedDict()
        self.num_seats = [0 for _ in names]
        for number in range(len(names)):
            self._seat(number, PLAYERS)
        if players is not None and {players} != set(self.num_seats):
            for number in range(len(names)):
                self._seat(number, (players,))
            self.spec += f",players={players}"
        self.most_seats = max(2, *self.num_seats)
        if self.most_seats > 2:
            self.marks = ("the first side", "the second side")

    @property
    def board_title(self) -> str:
        return f"the text game {' + '.join(self.environments)}"

    @classmethod
    def from_spec(cls, size: str | None, options: dict[str, str]) -> TextGame:
        if not size:
            raise UsageError("game text: no environment; wanted e.g. text:KuhnPoker-v0")
        names, options = tuple(size.split("+")), dict(options)
        show = options.pop("show", "")
        if show and show not in SHOWN:
            raise UsageError(f"game text:{size}: show={show}; wanted one of {', '.join(SHOWN)}")
        lengths = {}
        for key, default in LENGTHS.items():
            number = small_number(text) if (text := options.pop(key, None)) is not None else default
            if number < 2:
                raise UsageError(f"game text:{size}: {key}={text}; wanted a number from 2 to 9999")
            lengths[key] = number
        players = small_number(given) if (given := options.pop("players", None)) is not None else None
        if players is not None and players not in PLAYERS:
            raise UsageError(f"game text:{size}: players={given}; wanted a number from 1 to {max(PLAYERS)}")
        if options and len(names) > 1:
            raise UsageError(f"game text:{size}: {next(iter(options))}: several environments can't have settings")
        return cls(names, {key: _value(text) for key, text in options.items()}, show, **lengths, players=players)

    def _seat(self, number: int, choices: Sequence[int]) -> None:
        """Find how many seats this environment begins with. Raises UsageError if it is none of the choices."""
        first: GameFault | None = None
        also = f"; every environment also has show, {', '.join(LENGTHS)} and players" if self._settings else ""
        for seats in choices:
            if first is not None and seats > 2 and "player" not in str(first).casefold():
                break  # more players won't help
            self.num_seats[number] = seats
            try:
                self._make(number)
                return
            except UsageError as error:  # the settings are none of its own
                raise UsageError(f"{error}{also}") from error
            except GameFault as error:
                first = first or error
        settings = " and ".join(f"{key}={value}" for key, value in self._settings.items())
        wanted = f"settings with which players begin, not {settings}" if settings else "another number of players"
        raise UsageError(f"{first}; wanted {wanted}{also}") from first

    def player_of(self, seed: int, seat: int) -> int:
        """Who has a seat in the game with this seed."""
        seats, first = self.num_seats[self.selected(seed)], seed // len(self.environments)
        return seat if seats <= 2 else (seat - first) % seats % 2

    def _of_players(self, seed: int, rewards: Sequence[float]) -> tuple[float, float]:
        """The mean rewards of each player's seats."""
        if len(rewards) == 2:
            return rewards[0], rewards[1]
        each = [[one for seat, one in enumerate(rewards) if self.player_of(seed, seat) == side] for side in (0, 1)]
        return sum(each[0]) / len(each[0]), sum(each[1]) / len(each[1])

    def as_seen(self, other: AnyGame) -> Self | None:
        """Any text game: a language model that has learned one reads the others as well."""
        return other if isinstance(other, type(self)) else None

    # The environment behind a position

    def selected(self, seed: int) -> int:
        """The index of the environment that a seed selects."""
        return seed % len(self.environments)

    def environment_of(self, state: NDArray[np.int16]) -> int:
        """The index of the environment in play; state [S] after chance's move."""
        return self.selected(int(state[SEED]))

    def _lists(self, seed: int) -> bool:
        """Whether the environment that a seed selects lists its actions."""
        return self._entries[self.selected(seed)].lists

    def _make(self, seed: int) -> Environment:
        number = self.selected(seed)
        entry, name = self._entries[number], self.environments[number]
        return Environment(name, entry, self._settings, seed, self.num_seats[number])

    def _position(self, key: bytes) -> _Position:
        """key: the actions of a game, see _key. Raises GameFault if the environment fails."""
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
        actions = np.frombuffer(key, _ACTION).tolist()
        lists = self._lists(actions[0])
        texts = [None if lists else self._text(action) for action in actions[1:]]  # all: those in use are kept
        before = self._known.get(key[: -_ACTION.itemsize]) if len(actions) > 1 else None
        if before is not None and before.environment is not None:
            environment, before.environment = before.environment, None
            environment.step(_listed_text(before.listed, actions[-1]) if (text := texts[-1]) is None else text)
        else:
            environment = self._make(actions[0])
            for action, text in zip(actions[1:], texts, strict=True):
                if text is None:
                    text = _listed_text(listed_actions(environment.messages[environment.to_move]), action)
                environment.step(text)
        messages = environment.messages
        listed: tuple[str, ...] = ()
        if lists and not environment.over:
            listed = listed_actions(messages[environment.to_move])
            if not listed:
                raise GameFault(f"text:{environment.name}: a player is to move, but no message lists the actions")
        counts = tuple(map(len, messages))
        facts = environment.to_move, environment.over, environment.invalid
        return _Position(
            None if environment.over else environment, messages, counts, *facts, listed, environment.rewards,
            environment.marks, environment.refused,
        )  # fmt: skip

    def _text(self, action: int) -> str:
        """What the environment gets, where actions are texts."""
        if action == INVALID:
            return INVALID_TEXT
        try:
            return TEXTS.text(action)
        except KeyError:
            raise GameFault(f"{self.spec}: a text of this game was forgotten; wanted fewer games at once") from None

    def _of(self, state: NDArray[np.int16]) -> _Position:
        return self._position(_key(state, max(1, int(state[PLIES]))))

    def kind_of(self, moves: Sequence[int]) -> str:
        several = len(self.environments) > 1 and len(moves) > 0
        return self.environments[self.selected(int(moves[0]))] if several else ""

    # Records

    def written(self, moves: Sequence[int]) -> tuple[list[int], Said]:
        if not any(move >= FIRST for move in moves):
            return list(moves), ()
        found = self._position(np.array(moves, _ACTION).tobytes())
        show = self._shows[self.selected(moves[0])]
        said = []
        for move, (seat, count) in zip(moves[1:], found.marks, strict=False):
            if move >= FIRST:
                said.append((TEXTS.text(move), checksum(show(found.messages[seat][:count]))))
        return [SPOKEN if move >= FIRST else move for move in moves], tuple(said)

    def recalled(self, moves: Sequence[int], said: Said) -> list[int]:
        spoken = sum(move == SPOKEN for move in moves)
        if spoken != len(said):
            raise IllegalMove(f"{len(said)} texts for {spoken} moves that are texts; wanted unchanged records")
        if not spoken:
            return list(moves)
        seed, texts = moves[0], iter(said)
        if not 0 <= seed < SEEDS or self._lists(seed):
            raise IllegalMove(f"ply 1: a text, but {self.spec} lists its actions; wanted unchanged records")
        environment, show = self._make(seed), self._shows[self.selected(seed)]
        found = [seed]
        for ply, move in enumerate(moves[1:], start=1):
            if environment.over:
                raise IllegalMove(f"ply {ply}: {DIFFERS} It ends the game here")
            if move == SPOKEN:
                text, recorded = next(texts)
                if recorded != checksum(show(environment.messages[environment.to_move])):
                    raise IllegalMove(f"ply {ply}: {DIFFERS}")
                move = TEXTS.number(clean(text))
            elif move != INVALID:
                raise IllegalMove(f"ply {ply}: action {move}; wanted a text")
            try:
                environment.step(self._text(move))
            except GameFault as error:
                raise IllegalMove(f"ply {ply}: {error}") from error
            found.append(move)
        return found

    # Text

    def observation(self, state: NDArray[np.int16]) -> str:
        """The text shown to the seat to move; state [S] after chance's move, not over."""
        position = self._of(state)
        return self._shows[self.environment_of(state)](position.view(position.to_move))

    def seat(self, state: NDArray[np.int16]) -> int:
        """The seat to move; state [S] after chance's move, not over."""
        return self._of(state).to_move

    def messages_to(self, state: NDArray[np.int16], seat: int) -> list[Message]:
        """All messages to a seat so far; state [S] after chance's move."""
        return self._of(state).view(seat)

    def listed(self, state: NDArray[np.int16]) -> tuple[str, ...]:
        """The legal actions in order, or where actions are texts, some suggestions; () where no player is to move."""
        if state[OVER] or state[TO_MOVE] == CHANCE:
            return ()
        position = self._of(state)
        if not position.listed:
            position.listed = suggested_actions(position.view(position.to_move))
        return position.listed

    def lists(self, state: NDArray[np.int16]) -> bool:
        """Whether this game's environment lists its actions; else they are texts. state [S] after chance's move."""
        return self._lists(int(state[SEED]))

    def read(self, state: NDArray[np.int16], text: str) -> int:
        """The action that a text names: any text where actions are texts, else INVALID if it isn't listed."""
        if not self.lists(state):
            return TEXTS.number(clean(text))
        wanted = plain(text)
        return next((i for i, action in enumerate(self.listed(state)) if plain(action) == wanted), INVALID)

    def answered(self, state: NDArray[np.int16], read: str | None, answer: str) -> int:
        """The action of an answer. read: the action read from it; None: it doesn't have the form that was asked for.

        Then the environment hears the whole answer; where it lists its actions, the first one in it is taken.
        """
        if read is not None:
            return self.read(state, read)
        if not self.lists(state):
            return self.read(state, answer)
        actions = (self.read(state, one) for one in bracketed(answer))
        return next((action for action in actions if action != INVALID), INVALID)

    def refused(self, states: States) -> BoolArray:
        return np.array([self._of(state).refused for state in states], np.bool_)

    def rewards(self, states: States) -> FloatArray:
        """[B, most_seats] by seat; 0 where the game isn't over, NaN for seats that its environment doesn't have."""
        found = np.full((len(states), self.most_seats), np.nan, np.float32)
        for row, state in zip(found, states, strict=True):
            seats = max(2, self.num_seats[self.environment_of(state)])
            row[:seats] = self._of(state).rewards if state[OVER] and not state[CUT] else 0.0
        return found

    def lost_by_invalid(self, states: States) -> NDArray[np.int8]:
        """[B] the seat whose invalid move ended the game, else -1."""
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
            elif action == INVALID:
                continue
            elif self.lists(state):
                status[row] = not 0 <= action < len(self.listed(state))
            else:
                status[row] = 0 if action in TEXTS else 3
        self._refuse(states, actions, status, _REFUSALS)
        after = states.copy()
        for state, action in zip(after, actions.tolist(), strict=True):
            self._play_one(state, action)
        return after

    def _play_one(self, state: NDArray[np.int16], action: int) -> None:
        plies = int(state[PLIES])
        start = HEADER + WORDS * plies
        state[start], state[start + 1] = (action & 0xFFFF ^ 0x8000) - 0x8000, action >> 16  # both signed
        found = self._position(_key(state, plies + 1))
        seed = int(state[SEED])
        state[PLIES], state[TO_MOVE], state[OVER] = plies + 1, self.player_of(seed, found.to_move), found.over
        if found.over:
            first, second = self._of_players(seed, found.rewards)
            state[RESULT] = int(first > second) - int(first < second)
            state[LOST_BY] = 1 + found.invalid
        elif plies + 1 >= self.max_plies:
            state[OVER] = state[CUT] = 1

    def actions(self, state: NDArray[np.int16]) -> list[int]:
        """The actions that listed() names, in its order."""
        listed = self.listed(state)
        texts = bool(listed) and not self.lists(state)
        return [self.read(state, one) for one in listed] if texts else list(range(len(listed)))

    def moves(self, states: States, history: History) -> Moves:
        """Where actions are texts, those of listed(); play() takes any."""
        actions = [np.unique(np.array(self.actions(state), np.int32)) for state in states]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in actions], dtype=np.int64)]).astype(np.int64)
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
        if action == INVALID:
            return "invalid"
        if self.lists(state):
            return self.listed(state)[action]
        if action not in TEXTS:
            raise IndexError(action)
        return _in_one_line(TEXTS.text(action))

    def parse_move(self, state: NDArray[np.int16], text: str) -> int:
        if state[TO_MOVE] == CHANCE:
            number = small_number(text.strip().casefold().removeprefix("seed").strip())
            if not 0 <= number < SEEDS:
                raise IllegalMove(f"{text!r}: wanted 'seed N' with N below {SEEDS}")
            return number
        if not state[OVER] and not self.lists(state):
            return self.read(state, text)
        if plain(text) == "invalid":
            return INVALID
        action = self.read(state, text)
        if action == INVALID:
            raise IllegalMove(f"{text!r}: wanted one of {', '.join(self.listed(state)) or 'none, the game is over'}")
        return action

    def view(self, state: NDArray[np.int16], player: int) -> str:
        """All messages to the player's seat, of several the one to move; what is sent twice is shown once."""
        said: list[Message] = []
        if state[PLIES]:
            position, seed = self._of(state), int(state[SEED])
            seats = [seat for seat in range(len(position.messages)) if self.player_of(seed, seat) == player]
            said = position.view(position.to_move if position.to_move in seats else seats[0])
        lines = [_printable(f"[{message.speaker}] {message.text}") for message in said]
        return "\n".join(line for line, _ in itertools.groupby(lines))

    def diagram(self, state: NDArray[np.int16]) -> str:
        """The seed, all messages to seat 0, those that others got first, and the seat to move."""
        if not state[PLIES]:
            return f"{self.spec}: before its seed"
        position, known = self._of(state), set[str]()
        lines = []
        for seat in range(len(position.messages)):
            texts = [message.text for message in position.view(seat)]
            lines += [f"[to {seat}] {text}" for text in texts if text not in known]
            known |= set(texts)
        turn = "over" if state[OVER] else f"player {position.to_move} to move"
        return "\n".join([f"seed {state[SEED]}", *map(_printable, lines), f"{turn}, ply {state[PLIES]}"])


_WORD, _ACTION = np.dtype("<i2"), np.dtype("<i4")


def _listed_text(listed: tuple[str, ...], action: int) -> str:
    return INVALID_TEXT if action == INVALID else listed[action]


def _key(state: NDArray[np.int16], plies: int) -> bytes:
    """The first actions of a state [S], four bytes each."""
    return state[HEADER : HEADER + WORDS * plies].astype(_WORD, copy=False).tobytes()


def _printable(text: str) -> str:
    """Without characters that a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)


def _in_one_line(text: str) -> str:
    return " ".join(_printable(text).split())


def _value(text: str) -> int | float | bool | str:
    """The value of an environment's setting in a spec. on and True are the same, as are off and False.

    Numbers count as such only in the form in which specs write them.
    """
    if text in (ON, OFF, "True", "False"):
        return text in (ON, "True")
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text) if "." in text else int(text)
    return text if "e" in str(number) else number
