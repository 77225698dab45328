"""The arrays of a shard: their names, types and versions, and what can be checked without the rules of the game.

Axes: G games, M moves of all games, V visited edges of all moves.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError

BOTH = 2  # learner: the model played both sides

ARRAYS: dict[str, str] = {  # name → dtype, in the order in which they stand in the file
    "game_ids": "<u8",  # [G]
    "lengths": "<i4",  # [G] moves
    "results": "<f4",  # [G] -1, 0 or +1, seen by the first player
    "ends": "|u1",  # [G] End
    "no_resign": "|u1",  # [G] 1: this game was not allowed to resign
    "opponents": "<i2",  # [G] index into the header's opponents; -1 nobody: the model played itself
    "learners": "|u1",  # [G] which side the model played: 0 first, 1 second, 2 BOTH
    "moves": "<u2",  # [M]
    "flags": "|u1",  # [M] bit 0: POLICY_COUNTS, bit 1: NO_VALUE
    "root_values": "<f4",  # [M] in [-1, 1], seen by the player to move
    "surprises": "<f4",  # [M] KL(policy target || network's prior) in nats where the target counts, else 0
    "visit_lengths": "<u2",  # [M] edges visited at the root
    "visit_actions": "<u2",  # [V]
    "visit_counts": "<u4",  # [V]
}
SINCE = {"opponents": 2, "learners": 2, "surprises": 3}  # the version that brought an array
PER_GAME = ("game_ids", "lengths", "results", "ends", "no_resign", "opponents", "learners")
PER_MOVE = ("moves", "flags", "root_values", "surprises", "visit_lengths")


class End(IntEnum):
    PLAYED_OUT = 0
    RESIGNED = 1


def are_surprises(numbers: NDArray[np.floating]) -> bool:
    """Whether all are finite and none is negative."""
    return bool(numbers.min(initial=0.0) >= 0 and np.isfinite(numbers.sum(dtype=np.float64)))  # NaN fails both


def parse_columns(path: Path, header: dict[str, Any], body: memoryview) -> dict[str, Any]:
    """The arrays of a shard by name, from what stands after its header; checked as far as the rules aren't needed.

    Arrays that came with later versions say what was so before them. Raises FileError.
    """
    columns = _columns(path, header, body)
    _check_columns(path, columns)
    _check_opponents(path, header, columns)
    return columns


def _columns(path: Path, header: dict[str, Any], body: memoryview) -> dict[str, Any]:
    try:
        listed = [(str(array["name"]), str(array["dtype"]), int(array["count"])) for array in header["arrays"]]
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(path, "damaged: its header lists no arrays") from error
    version = header["version"]
    known = [(name, dtype) for name, dtype in ARRAYS.items() if SINCE.get(name, 1) <= version]
    if [(name, dtype) for name, dtype, _ in listed] != known:
        raise FileError(path, f"its arrays are {listed}; wanted {known}")
    wanted = sum(np.dtype(dtype).itemsize * count for _, dtype, count in listed)
    if any(count < 0 for _, _, count in listed) or wanted != len(body):
        raise FileError(path, f"damaged: {len(body)} bytes of arrays; its header wants {wanted}")
    columns, offset = {}, 0
    for name, dtype, count in listed:
        columns[name] = np.frombuffer(body, dtype, count, offset)
        offset += columns[name].nbytes
    num_games, num_moves = len(columns["lengths"]), len(columns["moves"])
    if version < SINCE["opponents"]:
        columns.update(opponents=np.full(num_games, -1, "<i2"), learners=np.full(num_games, BOTH, "|u1"))
    if version < SINCE["surprises"]:
        columns.update(surprises=np.zeros(num_moves, "<f4"))
    return columns


def _check_columns(path: Path, columns: dict[str, Any]) -> None:
    lengths, visit_lengths = columns["lengths"], columns["visit_lengths"]
    num_moves, num_visits = int(lengths.sum(dtype=np.int64)), int(visit_lengths.sum(dtype=np.int64))
    if len(lengths) < 1 or any(len(columns[name]) != len(lengths) for name in PER_GAME):
        raise FileError(path, f"damaged: its columns of games are not all {len(lengths)} long")
    if (lengths < 1).any() or any(len(columns[name]) != num_moves for name in PER_MOVE):
        raise FileError(path, f"damaged: its games have {num_moves} moves, its columns of moves do not")
    if any(len(columns[name]) != num_visits for name in ("visit_actions", "visit_counts")):
        raise FileError(path, f"damaged: its moves have {num_visits} visited edges, its columns of visits do not")
    if not np.isin(columns["results"], (-1, 0, 1)).all():
        raise FileError(path, "damaged: a result is not -1, 0 or +1")
    if (columns["ends"] > max(End)).any():
        raise FileError(path, f"damaged: an end of {int(columns['ends'].max())}; wanted at most {int(max(End))}")
    if not (np.abs(columns["root_values"]) <= 1.001).all():  # also false for NaN; 0.001 forgives rounding
        raise FileError(path, "damaged: a root value is not in [-1, 1]")
    if not are_surprises(columns["surprises"]):
        raise FileError(path, "damaged: a surprise is negative or not finite")


def _check_opponents(path: Path, header: dict[str, Any], columns: dict[str, Any]) -> None:
    names = header.get("opponents", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(path, f"damaged: its opponents are {names!r}; wanted a list of names")
    numbers, learners = columns["opponents"], columns["learners"]
    if (numbers < -1).any() or (numbers >= len(names)).any():
        raise FileError(path, f"damaged: a game against opponent {int(numbers.max())}; its header names {len(names)}")
    if ((numbers < 0) != (learners == BOTH)).any() or (learners > BOTH).any():
        raise FileError(path, "damaged: a side of the model that doesn't go with its opponent")
