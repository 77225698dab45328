"""Finished games as bytes, on their way from where they were played to who commits them: exactly as they were recorded.

safetensors: the arrays of the record and the final state, and the rest as JSON in its metadata. Of a game that was
dropped, the number is all there is. Nothing of it is ever kept, so it needs no version: both sides are the same code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.numpy
from safetensors import SafetensorError

from pipeline.games.contract import AnyGame
from pipeline.methods.method import FinishedGame
from pipeline.run.arrays import metadata_of, pack
from pipeline.run.shards import SEARCH_COLUMNS, End, GameRecord
from pipeline.selfplay.playing import Arrival

OWN, STATE, SAID, DROPPED = "own.", "final_state", "game", "dropped"


def bytes_of(arrival: Arrival) -> bytes:
    record = arrival.finished.record
    arrays = {"moves": record.moves, **{name: getattr(record, name) for name in SEARCH_COLUMNS}}
    arrays |= {OWN + name: column for name, column in record.own.items()}
    said = {
        "number": arrival.number,
        "generation": arrival.generation,
        "spec": arrival.game.spec,
        "player": arrival.finished.player,
        "would_have_resigned": arrival.finished.would_have_resigned,
        "game_id": record.game_id,
        "result_first_player": record.result_first_player,
        "end": int(record.end),
        "no_resign": bool(record.no_resign),
        "opponent": record.opponent,
        "learner": int(record.learner),
        "setup": int(record.setup),
    }
    return pack({**arrays, STATE: arrival.finished.final_state}, {SAID: json.dumps(said)})


def bytes_of_dropped(number: int) -> bytes:
    return pack({}, {DROPPED: str(number)})


def read(data: bytes, games: Mapping[str, AnyGame]) -> tuple[int, Arrival | None]:
    """(a game's number, the game; None if it was dropped) of what the others made. games, errors: see arrival_of."""
    said = metadata_of(data)
    if DROPPED in said:
        return int(said[DROPPED]), None
    arrival = arrival_of(data, games)
    return arrival.number, arrival


def arrival_of(data: bytes, games: Mapping[str, AnyGame]) -> Arrival:
    """What bytes_of() made. games: by their specs. Raises ValueError, TypeError or KeyError for anything else."""
    said = json.loads(metadata_of(data)[SAID])
    try:
        arrays = safetensors.numpy.load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    own = {name.removeprefix(OWN): array for name, array in arrays.items() if name.startswith(OWN)}
    record = GameRecord(
        game_id=said["game_id"],
        moves=arrays["moves"],
        **{name: arrays[name] for name in SEARCH_COLUMNS},
        own=own,
        result_first_player=said["result_first_player"],
        end=End(said["end"]),
        no_resign=said["no_resign"],
        opponent=said["opponent"],
        learner=said["learner"],
        setup=said["setup"],
    )
    finished = FinishedGame(record, said["player"], said["would_have_resigned"], arrays[STATE])
    return Arrival(games[said["spec"]], finished, said["generation"], said["number"])
