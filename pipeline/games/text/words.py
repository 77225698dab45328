"""What a player is shown of an environment's messages, and which actions they list. Small named functions on text.

A *message* has a sender (a player's number, or GAME) and a kind: prompt (the rules), board, action (what a player
answered), told (what the game says) or admin (an answer was invalid). A player's *view* is the list of all messages to
it so far, the newest last.

An environment is played by the actions that it lists ("Available Moves: [0], [1]"). Those that stand in LISTED do so
whenever a player is to move; others ask for words that nobody lists, and aren't played.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

GAME = -1  # the sender of what the environment says

# Environments that list the legal actions, all of them and nothing else, wherever a player is to move.
LISTED = (
    "Crusade",
    "KuhnPoker",
    "Othello",
    "PigDice",
    "SimpleTak",
    "TicTacToe",
    "WildTicTacToe",
)

_INTRODUCES = re.compile(r"\b(?:available|valid|legal|possible)[^\n:]*:", re.IGNORECASE)
_ACTION = re.compile(r"\[[^\[\]\n]+\]")
_SCORES = re.compile(r"Current scores:[^\n]*")
_BLANKS = re.compile(r"\s+")


class Message(NamedTuple):
    sender: int
    text: str
    kind: str


View = Sequence[Message]


def listed_actions(view: View) -> tuple[str, ...]:
    """The actions that the newest message with a list names, in its order, each once; () if there is none."""
    for message in reversed(view):
        if message.kind in ("action", "admin", "prompt"):
            continue
        found = list(_INTRODUCES.finditer(message.text))
        if found and (actions := _ACTION.findall(message.text[found[-1].end() :])):
            return tuple(dict.fromkeys(actions))
    return ()


def plain(text: str) -> str:
    """An action as it is compared with others: case and blanks make no difference."""
    return _BLANKS.sub(" ", text).strip().replace("[ ", "[").replace(" ]", "]").casefold()


# What a player is shown


def whole(view: View) -> str:
    """Every message with its sender, as TextArena's own wrapper for language models does."""
    return "\n".join(f"[{'GAME' if sender == GAME else f'Player {sender}'}] {text}" for sender, text, _ in view)


def board(view: View) -> str:
    """The rules, what the game has told, and the newest board: TextArena's wrapper for training on board games."""
    rules = [message.text for message in view if message.kind == "prompt"]
    told = [message.text for message in view if message.kind == "told"]
    boards = [message.text for message in view if message.kind == "board"]
    return "\n\n".join([*rules[-1:], "\n".join(told), *boards[-1:]]).replace("\n\n\n\n", "\n\n")


def newest(view: View) -> str:
    """The newest board alone, and whatever came after it: enough where a board shows everything, and short."""
    last = max((i for i, message in enumerate(view) if message.kind == "board"), default=0)
    lines = [message.text for message in view[last:] if message.kind in ("board", "admin")]
    return _first_line(view) + "\n".join(lines)


def round_(view: View) -> str:
    """The round that is being played: from its heading ("### …") on, with the scores before it, without the rules."""
    headings = [i for i, message in enumerate(view) if message.text.startswith("###")]
    start = headings[-1] if headings else 0
    scores = [found[0] for message in view[:start] if (found := _SCORES.search(message.text))]
    lines = [message.text for message in view[start:] if message.kind != "action"]
    return _first_line(view) + "\n".join([*scores[-1:], *lines])


def _first_line(view: View) -> str:
    """ "You are Player 0 in …": how the rules begin."""
    return next((message.text.split("\n", 1)[0] + "\n" for message in view if message.kind == "prompt"), "")


SHOWN: dict[str, Callable[[View], str]] = {"whole": whole, "board": board, "newest": newest, "round": round_}
