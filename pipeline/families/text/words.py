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

# Environments that list the legal actions, all of them and nothing else, wherever a player is to move. Othello doesn't:
# whoever has none is told of no way to say so, and nothing is listed for the opponent then.
LISTED = (
    "Crusade",
    "KuhnChips",
    "KuhnPoker",
    "PigDice",
    "SimpleTak",
    "TicTacToe",
    "WildTicTacToe",
)

_INTRODUCES = re.compile(r"\b(?:available|valid|legal|possible)[^\n:]*:", re.IGNORECASE)
_ACTION = re.compile(r"\[[^\[\]\n]+\]")
_SCORES = re.compile(r"Current scores:[^\n]*")
_OWN_LETTER = re.compile(r"(?:stones appear as|you will be) '(\w)'")
_CARD = re.compile(r"Your card is: '([JQK])'")
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


def grid(view: View) -> str:
    """The newest board alone, a word a cell: empty cells their numbers, own stones O, the opponent's X.

    For boards that are drawn with "|" between cells that have numbers. Whose letters are whose is read from the rules;
    where they don't say it, letters stay as they are, below the first line of the rules.
    """
    drawn = next((message.text for message in reversed(view) if message.kind == "board"), "")
    rows = [line.strip(" |").split("|") for line in drawn.split("\n") if "|" in line]
    rules = next((message.text for message in view if message.kind == "prompt"), "")
    letter = _OWN_LETTER.search(rules)

    def word(cell: str) -> str:
        return cell if letter is None or cell.isdigit() else "O" if cell == letter[1] else "X"

    text = "\n".join(" ".join(word(cell.strip()) for cell in row) for row in rows)
    return text if letter else _first_line(view) + text


def round_(view: View) -> str:
    """The round that is being played: from its heading ("### …") on, with the scores before it, without the rules."""
    headings = [i for i, message in enumerate(view) if message.text.startswith("###")]
    start = headings[-1] if headings else 0
    scores = [found[0] for message in view[:start] if (found := _SCORES.search(message.text))]
    lines = [message.text for message in view[start:] if message.kind != "action"]
    return _first_line(view) + "\n".join([*scores[-1:], *lines])


# An exact equilibrium of Kuhn poker


def kuhn_equilibrium(view: View, listed: Sequence[str], bets_count: bool) -> tuple[float, ...]:
    """The chance of each listed action.

    bets_count: of Kuhn's game, the equilibrium in which the first player never bets at once (alpha = 0). Source: Kuhn
    1950. Where bets cost nothing, an equilibrium is never to fold.
    """
    if "[fold]" in listed and not bets_count:
        return tuple(float(action != "[fold]") for action in listed)
    start = max((i for i, message in enumerate(view) if message.text.startswith("###")), default=0)
    card = _CARD.search(view[start].text)
    moves = sum("submitted move" in message.text for message in view[start:])
    # Of betting or calling: by card, the first player's before any move, the second's after one, the first's after two.
    chances = {"J": (0.0, 1 / 3, 0.0), "Q": (0.0, 0.0, 1 / 3), "K": (0.0, 1.0, 1.0)}
    chance = chances[card[1] if card else "J"][min(moves, 2)]
    if "[fold]" in listed and moves == 1:  # the first player has bet
        chance = {"J": 0.0, "Q": 1 / 3, "K": 1.0}[card[1] if card else "J"]
    return tuple(chance if action in ("[bet]", "[call]") else 1 - chance for action in listed)


def _first_line(view: View) -> str:
    """ "You are Player 0 in …": how the rules begin."""
    return next((message.text.split("\n", 1)[0] + "\n" for message in view if message.kind == "prompt"), "")


SHOWN: dict[str, Callable[[View], str]] = {
    "whole": whole,
    "board": board,
    "newest": newest,
    "grid": grid,
    "round": round_,
}
