"""The columns of game records and examples.

Axes: P maximum tokens of a prompt, A of an answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.families.text.game import TextGame
from pipeline.run.chunks import ColumnTypes

NONE = -1  # no token
NOBODY = 255  # the seat of a move of chance
BYTES_PER_TOKEN = 8  # of an answer; English has four or five
WELL_FORMED, INVALID_MOVE, OTHER_ENDED_BY_INVALID = 1, 2, 4  # bits of a move's notes


def recorded_columns(game: TextGame) -> ColumnTypes:
    """The columns of each move. Moves of other players have only player, reward and notes.

    prompt   [P] tokens, right-aligned                 player  who moved: a seat, or NOBODY
    answer   [A] tokens, left-aligned                  reward  the seat's reward at the end of the game
    notes    WELL_FORMED: the answer had an action; INVALID_MOVE: it wasn't legal;
             OTHER_ENDED_BY_INVALID: the other player's invalid move ended the game
    text     [8·A] the answer in UTF-8, padded with zeros or truncated
    check    a hash of the observation, which detects another version of the environment

    value    the critic's, NaN without one: not a root value, as it estimates rewards, which have no bound

    surprises: 1 for the learner's steps, else 0, see Method.steps_only.
    """
    return {
        "flags": ("|u1", ()),
        "surprises": ("<f4", ()),
        "prompt": ("<i4", (game.prompt_tokens,)),
        "answer": ("<i4", (game.reply_tokens,)),
        "text": ("|u1", (BYTES_PER_TOKEN * game.reply_tokens,)),
        "player": ("|u1", ()),
        "reward": ("<f4", ()),
        "notes": ("|u1", ()),
        "check": ("<u4", ()),
        "value": ("<f4", ()),
    }


def example_columns(game: TextGame) -> ColumnTypes:
    """The columns of an example, in addition to chunks.ORIGIN.

    tokens     [P + A] the prompt, ending at P, and the answer from P on
    advantage  the step's advantage after all transformations, the weight of its answer's gradient
    target     the critic's target, NaN without a critic
    value      the critic's recorded value
    weight, baseline  the advantage is weight · reward + baseline, see examples.py
    final      [seats] the environment's rewards, NaN for seats that it doesn't have
    player, notes  as recorded                environment  index into the game's environments
    index, length  the number of the seat's earlier steps in the game, and of all of them
    num_tokens     of the answer
    """
    return {
        "tokens": ("<i4", (game.prompt_tokens + game.reply_tokens,)),
        "advantage": ("<f4", ()),
        "target": ("<f4", ()),
        "value": ("<f4", ()),
        "weight": ("<f4", ()),
        "baseline": ("<f4", ()),
        "final": ("<f4", (game.most_seats,)),
        "player": ("|u1", ()),
        "notes": ("|u1", ()),
        "environment": ("<u2", ()),
        "index": ("<u2", ()),
        "length": ("<u2", ()),
        "num_tokens": ("<u4", ()),
    }


def packed(text: str, game: TextGame) -> NDArray[np.uint8]:
    """A text in the format of the column text."""
    room = BYTES_PER_TOKEN * game.reply_tokens
    return np.frombuffer(text.encode(errors="replace")[:room].ljust(room, b"\0"), np.uint8)


def unpacked(cells: NDArray[np.uint8]) -> str:
    return cells.tobytes().rstrip(b"\0").decode(errors="replace")
