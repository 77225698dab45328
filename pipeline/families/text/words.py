"""The text shown to a player, made from an environment's messages, and the actions that the messages list.

A *message* has a sender (a player's number, or GAME) and a kind: prompt (the rules), board, action (a player's answer),
event (news of the game) or admin (an answer was invalid). A player's *view* is the list of all messages to it so far,
the newest last.

The environments in LISTED list the legal actions whenever a player is to move ("Available Moves: [0], [1]"), and
players choose from them. In all others players say what they like; some list actions, or have examples in their rules.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

GAME = -1  # the sender of the environment's own messages
REFUSAL = "attempted an invalid move"  # in TextArena's message to a player whose action was invalid

# Environments that list exactly the legal actions whenever a player is to move. Othello doesn't: it has no action for a
# player without a move, and then lists nothing for the opponent.
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
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_SCORES = re.compile(r"Current scores:[^\n]*")
_OWN_LETTER = re.compile(r"(?:stones appear as|you will be) '(\w)'")
_CARD = re.compile(r"Your card is: '([JQK])'")
_BLANKS = re.compile(r"\s+")
# In examples of actions: a number; the letter of a square such as e4; a word that stands alone, such as "column"
_NUMBER = re.compile(r"\d+")
_FILE = re.compile(r"(?<![A-Za-z])[A-Za-z](?=\d)")
_PLACEHOLDER = re.compile(r"(?<![^\s\[,])[a-z]+(?![^\s\],])")
_WORD = re.compile(r"[A-Za-z]{3,}")
_ROLE = re.compile(r"\[(?:GAME|Player \d+)\]")
MOST_SUGGESTIONS, MOST_EXAMPLE = 64, 60  # texts; characters of an example


class Message(NamedTuple):
    """role: the sender's name where the environment gives players other names than "Player 0"."""

    sender: int
    text: str
    kind: str
    role: str = ""

    @property
    def speaker(self) -> str:
        return "GAME" if self.sender == GAME else self.role or f"Player {self.sender}"


View = Sequence[Message]


def bracketed(text: str) -> list[str]:
    """The parts of a text that are in square brackets, including these."""
    return _BRACKETS.findall(text)


def checksum(observation: str) -> int:
    """What a record keeps of an observation."""
    return zlib.crc32(observation.encode(errors="surrogatepass"))


def listed_actions(view: View) -> tuple[str, ...]:
    """The actions in the newest message with a list, in order, each once; () if there is none."""
    for message in reversed(view):
        if message.kind in ("action", "admin", "prompt"):
            continue
        found = list(_INTRODUCES.finditer(message.text))
        if found and (actions := _ACTION.findall(message.text[found[-1].end() :])):
            return tuple(dict.fromkeys(actions))
    return ()


def suggested_actions(view: View) -> tuple[str, ...]:
    """Texts for a player who knows nothing; some of them may be legal actions. At least one; depends on the view alone.

    The listed actions; else up to MOST_SUGGESTIONS: the examples in square brackets in the game's messages, as they are
    and with other numbers and letters; else words of the messages.
    """
    if listed := listed_actions(view):
        return listed
    said = "\n".join(message.text for message in view if message.sender == GAME and message.kind != "admin")
    found = dict.fromkeys(_ACTION.findall(_ROLE.sub("", said)))
    examples = [one for one in found if len(one) <= MOST_EXAMPLE and any(map(str.isalnum, one))]
    generator = random.Random(zlib.crc32(f"{len(view)} {said}".encode(errors="replace")))
    if not examples:
        words = list(dict.fromkeys(_WORD.findall(said))) or ["pass"]
        return tuple(generator.sample(words, min(len(words), MOST_SUGGESTIONS)))
    others = (_varied(generator.choice(examples), generator) for _ in range(2 * MOST_SUGGESTIONS))
    return tuple(dict.fromkeys([*examples[: MOST_SUGGESTIONS // 2], *others]))[:MOST_SUGGESTIONS]


def _varied(example: str, generator: random.Random) -> str:
    """An example of an action with other numbers and letters of squares; without numbers, with some for its words."""
    text = _FILE.sub(lambda found: generator.choice("abcdefgh" if found[0].islower() else "ABCDEFGH"), example)
    if not _NUMBER.search(text):
        text = _PLACEHOLDER.sub(lambda found: generator.choice((found[0], str(generator.randrange(10)))), text)
    return _NUMBER.sub(lambda found: str(generator.randrange(max(10, 2 * int(found[0][:6]) + 1))), text)


def plain(text: str) -> str:
    """An action normalised for comparison, without regard to case and blanks."""
    return _BLANKS.sub(" ", text).strip().replace("[ ", "[").replace(" ]", "]").casefold()


# Ways to show a view, see SHOWN


def whole(view: View) -> str:
    """Every message with its sender, like TextArena's LLMObservationWrapper."""
    return "\n".join(f"[{message.speaker}] {message.text}" for message in view)


def messages(view: View) -> str:
    """The rules, the events and all boards, like TextArena's GameMessagesObservationWrapper."""
    return "\n ".join(message.text for message in view if message.kind not in ("action", "admin"))


def board(view: View) -> str:
    """The rules, the events and the newest board, like TextArena's GameMessagesAndCurrentBoardObservationWrapper."""
    rules, events, boards = (
        [message.text for message in view if message.kind == kind] for kind in ("prompt", "event", "board")
    )
    return "\n\n".join([*rules[-1:], "\n".join(events).strip(), *boards[-1:]])


def position(view: View) -> str:
    """The rules and the newest board, like TextArena's GameBoardObservationWrapper."""
    rules, boards = ([message.text for message in view if message.kind == kind] for kind in ("prompt", "board"))
    return "\n\n".join([*rules[:1], *boards[-1:]])


def newest(view: View) -> str:
    """The newest board and the admin messages after it: short, and sufficient if a board shows everything."""
    last = max((i for i, message in enumerate(view) if message.kind == "board"), default=0)
    lines = [message.text for message in view[last:] if message.kind in ("board", "admin")]
    return _first_line(view) + "\n".join(lines)


def grid(view: View) -> str:
    """The newest board, one word for each cell: an empty cell's number, O for own stones, X for the opponent's.

    For boards drawn with "|" between numbered cells. The rules tell which letter is the player's own. If they don't,
    letters stay unchanged, and the first line of the rules comes first.
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
    """The current round from its heading ("### …") on, with the scores before it, without the rules.

    A refusal is a word: with its reasons, a short prompt wouldn't reach back to what the round began with, e.g. a card.
    """
    headings = [i for i, message in enumerate(view) if message.text.startswith("###")]
    start = headings[-1] if headings else 0
    scores = [found[0] for message in view[:start] if (found := _SCORES.search(message.text))]
    lines = [
        "Refused." if REFUSAL in message.text else message.text
        for message in view[start:]
        if message.kind != "action"
    ]
    return _first_line(view) + "\n".join([*scores[-1:], *lines])


# An exact equilibrium of Kuhn poker


def kuhn_equilibrium(view: View, listed: Sequence[str], bets_count: bool) -> tuple[float, ...]:
    """The probability of each listed action.

    bets_count: the equilibrium of Kuhn's game in which the first player never bets at once (alpha = 0); source: Kuhn
    1950. Otherwise bets cost nothing, and never folding is an equilibrium.
    """
    if "[fold]" in listed and not bets_count:
        return tuple(float(action != "[fold]") for action in listed)
    start = max((i for i, message in enumerate(view) if message.text.startswith("###")), default=0)
    card = _CARD.search(view[start].text)
    moves = sum("submitted move" in message.text for message in view[start:])
    # Probability of a bet or call by card: first player at once, second player after one move, first player after two.
    chances = {"J": (0.0, 1 / 3, 0.0), "Q": (0.0, 0.0, 1 / 3), "K": (0.0, 1.0, 1.0)}
    chance = chances[card[1] if card else "J"][min(moves, 2)]
    if "[fold]" in listed and moves == 1:  # the first player has bet
        chance = {"J": 0.0, "Q": 1 / 3, "K": 1.0}[card[1] if card else "J"]
    return tuple(chance if action in ("[bet]", "[call]") else 1 - chance for action in listed)


def _first_line(view: View) -> str:
    """The first line of the rules: "You are Player 0 in …"."""
    return next((message.text.split("\n", 1)[0] + "\n" for message in view if message.kind == "prompt"), "")


SHOWN: dict[str, Callable[[View], str]] = {
    "whole": whole,
    "messages": messages,
    "board": board,
    "position": position,
    "newest": newest,
    "grid": grid,
    "round": round_,
}
