"""What games of this method keep of each move, and what an example holds.

Axes: P tokens of a prompt at most, A of an answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.families.text.game import TextGame
from pipeline.run.chunks import ColumnTypes

NONE = -1  # instead of a token
BYTES_PER_TOKEN = 4
WELL_FORMED, INVALID_MOVE, OTHER_ENDED_BY_INVALID = 1, 2, 4  # bits of a move's notes


def recorded_columns(game: TextGame) -> ColumnTypes:
    """Of each move; of those that the learner didn't make only player, reward and notes say anything.

    prompt   [P] tokens, at the end of the row         player  who moved: 0, 1, or CHANCE
    answer   [A] tokens, at its beginning              reward  that the game gave the player in the end
    notes    WELL_FORMED: an action could be read from the answer; INVALID_MOVE: it wasn't legal;
             OTHER_ENDED_BY_INVALID: the other player's invalid move ended the game
    text     [4·A] the answer in UTF-8, zeros behind it; what is longer is cut
    check    a hash of what the player was shown, by which a reader notices another version of the environment

    surprises are 1 for the learner's steps and 0 for all else: see Method.steps_only. root_values is what the critic
    said; without one flags say NO_VALUE.
    """
    return {
        "flags": ("|u1", ()),
        "root_values": ("<f4", ()),
        "surprises": ("<f4", ()),
        "prompt": ("<i4", (game.prompt_tokens,)),
        "answer": ("<i4", (game.reply_tokens,)),
        "text": ("|u1", (BYTES_PER_TOKEN * game.reply_tokens,)),
        "player": ("|u1", ()),
        "reward": ("<f4", ()),
        "notes": ("|u1", ()),
        "check": ("<u4", ()),
    }


def example_columns(game: TextGame) -> ColumnTypes:
    """What an example holds, beside chunks.ORIGIN.

    tokens     [P + A] the prompt, ending at P, and the answer from there on
    advantage  how much better than expected the step was, after all transformations: what its answer's gradient is
               multiplied with
    target     what the critic should have said, NaN without one
    value      what it said
    weight, baseline  what the reward is multiplied with, and what is added, see examples.py
    final      [2] the rewards of players 0 and 1, as the environment gave them
    player, notes  as recorded                environment  which of the game's it is
    """
    return {
        "tokens": ("<i4", (game.prompt_tokens + game.reply_tokens,)),
        "advantage": ("<f4", ()),
        "target": ("<f4", ()),
        "value": ("<f4", ()),
        "weight": ("<f4", ()),
        "baseline": ("<f4", ()),
        "final": ("<f4", (2,)),
        "player": ("|u1", ()),
        "notes": ("|u1", ()),
        "environment": ("<u2", ()),
    }


def packed(text: str, game: TextGame) -> NDArray[np.uint8]:
    """A text as the column text has it."""
    room = BYTES_PER_TOKEN * game.reply_tokens
    return np.frombuffer(text.encode()[:room].ljust(room, b"\0"), np.uint8)


def unpacked(cells: NDArray[np.uint8]) -> str:
    return cells.tobytes().rstrip(b"\0").decode(errors="replace")
