"""Shards: the games of one self-play worker, written a group at a time.

A shard is gzip: one line of JSON, then the arrays that it lists, little-endian. Axes: G games, M moves of all games,
V visited edges of all moves. A position is what stood before a move, so positions = M; position i of a shard is
before move i, and games follow each other. The sidecar ``.meta`` is written after the shard and commits it:
a shard without one does not exist.

Doesn't know rules: whether the moves are legal is methods/alphazero/examples.py's business.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.storage import atomic, layout
from pipeline.storage.gzipped import compress, decompress
from pipeline.storage.shard_columns import ARRAYS, BOTH, PER_MOVE, SINCE, End, are_surprises, parse_columns
from pipeline.storage.shard_names import NAMES

SHARD_FORMAT, META_FORMAT = "mugo-shard", "mugo-shard-meta"
VERSION = 3
READABLE = (1, 2, 3)  # version 1 knew no opponents: a model played itself; 1 and 2 no surprises: all are 0
POLICY_COUNTS = 1  # bit 0 of flags: the visits of this move are a policy target
NO_VALUE = 2  # bit 1: whoever made this move had no opinion; its root value is 0 and means nothing
TRIAL_BYTES = 65_536  # about a shard's size


@dataclass(frozen=True)
class GameRecord:
    """One finished game of T moves that visited V edges.

    moves        [T] actions                  visit_lengths  [T] edges that the root search of each move visited
    flags        [T] POLICY_COUNTS, NO_VALUE  visit_actions  [V] their actions, move after move
    root_values  [T] to move                  visit_counts   [V] their visits
    opponent     whom the model met; None: itself
    learner      the side that the model played: 0 first, 1 second, BOTH; the opponent's moves are no policy targets
    surprises    [T] how far the policy target is from the network's prior, in nats; None: 0 everywhere
    """

    game_id: int
    moves: NDArray[np.integer]
    flags: NDArray[np.integer]
    root_values: NDArray[np.floating]
    visit_lengths: NDArray[np.integer]
    visit_actions: NDArray[np.integer]
    visit_counts: NDArray[np.integer]
    result_first_player: float
    end: End = End.PLAYED_OUT
    no_resign: bool = False
    opponent: str | None = None
    learner: int = BOTH
    surprises: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class ShardMeta:
    """A sidecar: what a shard holds, without opening it."""

    path: Path  # of the shard
    game: str
    model: str
    worker: str
    generation: int | None
    positions: int
    games: int
    lengths: NDArray[np.int32]  # [G]
    surprises: NDArray[np.float16]  # [M] the shard's, rounded: drawing positions needs them before any shard is read
    num_bytes: int  # of the shard
    sha256: str
    # Positions that the search asked about since the worker's shard before, found in an evaluation cache or not; 0 in
    # files that don't say it. Those of games that a kill lost are in none.
    evaluations: int = 0
    method: str = layout.DEFAULT_METHOD  # that recorded the games; files that name none are of this one

    @property
    def id(self) -> str:
        """``MODEL/WORKER/FILE.gz``"""
        return layout.shard_id(self.path)


@dataclass(frozen=True)
class Shard:
    """A shard's columns; see shard_columns.ARRAYS for axes and units."""

    path: Path
    header: dict[str, Any]
    game_ids: NDArray[np.uint64]
    lengths: NDArray[np.int32]
    results: NDArray[np.float32]
    ends: NDArray[np.uint8]
    no_resign: NDArray[np.uint8]
    opponents: NDArray[np.int16]
    learners: NDArray[np.uint8]
    moves: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    root_values: NDArray[np.float32]
    surprises: NDArray[np.float32]
    visit_lengths: NDArray[np.uint16]
    visit_actions: NDArray[np.uint16]
    visit_counts: NDArray[np.uint32]
    move_offsets: NDArray[np.int64] = field(init=False)  # [G+1] game g has moves move_offsets[g] … [g+1]
    visit_offsets: NDArray[np.int64] = field(init=False)  # [M+1] the same for the visits of a move

    def __post_init__(self) -> None:
        object.__setattr__(self, "move_offsets", _offsets(self.lengths))
        object.__setattr__(self, "visit_offsets", _offsets(self.visit_lengths))

    @property
    def game_spec(self) -> str:
        return str(self.header["game"])

    @property
    def model(self) -> str:
        return str(self.header["model"])

    @property
    def id(self) -> str:
        return layout.shard_id(self.path)

    @property
    def num_games(self) -> int:
        return len(self.lengths)

    @property
    def num_positions(self) -> int:
        return len(self.moves)

    def opponent(self, index: int) -> str | None:
        """Whom the model met in this game; None if itself."""
        number = int(self.opponents[index])
        return str(self.header["opponents"][number]) if number >= 0 else None

    def game(self, index: int) -> GameRecord:
        """One game as it was recorded."""
        moves = slice(int(self.move_offsets[index]), int(self.move_offsets[index + 1]))
        visits = slice(int(self.visit_offsets[moves.start]), int(self.visit_offsets[moves.stop]))
        return GameRecord(
            game_id=int(self.game_ids[index]),
            moves=self.moves[moves],
            flags=self.flags[moves],
            root_values=self.root_values[moves],
            visit_lengths=self.visit_lengths[moves],
            visit_actions=self.visit_actions[visits],
            visit_counts=self.visit_counts[visits],
            result_first_player=float(self.results[index]),
            end=End(int(self.ends[index])),
            no_resign=bool(self.no_resign[index]),
            opponent=self.opponent(index),
            learner=int(self.learners[index]),
            surprises=self.surprises[moves],
        )


def _offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


# Writing


def write_shard(
    output_dir: Path,
    model_name: str,
    worker: str,
    game_spec: str,
    games: Sequence[GameRecord],
    provenance: dict[str, Any],
    evaluations: int = 0,
    method: str = layout.DEFAULT_METHOD,
) -> Path:
    """Write games as one shard and commit it with its sidecar; the shard's path.

    provenance  what else made the games, as JSON: seed, settings, …; "generation" also goes into the sidecar.
    evaluations how many the network made for it; only the sidecar has them.
    Two syncs: a kill loses nothing that was returned from here; a power cut may lose the last shards, whole.
    Raises FileError if the disk is full or read-only, ValueError if games is empty or its arrays contradict each other.
    """
    opponents = sorted({game.opponent for game in games if game.opponent is not None})
    columns = _columns(games, opponents)
    header = {
        "format": SHARD_FORMAT,
        "version": VERSION,
        "game": game_spec,
        "model": model_name,
        "worker": worker,
        "games": len(games),
        "positions": len(columns["moves"]),
        "opponents": opponents,
        "arrays": [{"name": name, "dtype": ARRAYS[name], "count": len(column)} for name, column in columns.items()],
        "provenance": provenance,
    }
    named = {} if method == layout.DEFAULT_METHOD else {"method": method}
    header |= named
    data = json.dumps(header, ensure_ascii=False).encode() + b"\n"
    packed = compress(data + b"".join(column.tobytes() for column in columns.values()))

    folder = layout.shard_folder(output_dir, model_name, worker)
    atomic.make_folder(folder)
    with atomic.os_errors(folder):
        name = NAMES.next(folder)
    path = folder / name.shard
    meta = {
        "format": META_FORMAT,
        "version": VERSION,
        "game": game_spec,
        "model": model_name,
        "worker": worker,
        "generation": provenance.get("generation"),
        "positions": header["positions"],
        "games": len(games),
        "lengths": columns["lengths"].tolist(),
        "surprises": base64.b64encode(columns["surprises"].astype("<f2").tobytes()).decode(),
        "evaluations": evaluations,
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        **named,
    }
    atomic.write_bytes(path, packed, folder_sync=False)
    try:
        atomic.write_json(folder / name.meta, meta, folder_sync=False)
    except BaseException:
        path.unlink(missing_ok=True)  # nobody would ever read it
        raise
    return path


def prepare_folder(output_dir: Path, model_name: str, worker: str) -> None:
    """Make the folder of a worker's shards and try to write there, so that trouble shows before the games are played.

    Raises FileError if the disk is full or read-only, or a file is in the way.
    """
    folder = layout.shard_folder(output_dir, model_name, worker)
    atomic.make_folder(folder)
    with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(TRIAL_BYTES))
        file.flush()
        os.fsync(file.fileno())


def check_same_game(output_dir: Path, game_spec: str) -> None:
    """Raises FileError if the newest shard there is of another game: its window would mix two."""
    newest = next(newest_shards(output_dir, lambda error: None), None)
    if newest is not None and newest.game != game_spec:
        raise FileError(
            output_dir,
            f"holds games of {newest.game} ({newest.id}), these would be of {game_spec}; "
            "wanted a folder for each game, e.g. another --output-dir",
        )


def _columns(games: Sequence[GameRecord], opponents: list[str]) -> dict[str, NDArray[Any]]:
    if not games:
        raise ValueError("a shard holds at least one game")
    for game in games:
        num_moves, num_visits = len(game.moves), int(np.sum(game.visit_lengths))
        if num_moves < 1 or any(len(_moves_column(game, name)) != num_moves for name in PER_MOVE):
            raise ValueError(f"game {game.game_id}: its arrays don't all have its {num_moves} moves")
        if len(game.visit_actions) != num_visits or len(game.visit_counts) != num_visits:
            raise ValueError(f"game {game.game_id}: visit_lengths add up to {num_visits}, its visits don't")
        if (game.opponent is None) != (game.learner == BOTH):
            raise ValueError(f"game {game.game_id}: learner {game.learner}, opponent {game.opponent}")
    per_game: dict[str, list[Any]] = {
        "game_ids": [game.game_id for game in games],
        "lengths": [len(game.moves) for game in games],
        "results": [game.result_first_player for game in games],
        "ends": [int(game.end) for game in games],
        "no_resign": [game.no_resign for game in games],
        "opponents": [-1 if game.opponent is None else opponents.index(game.opponent) for game in games],
        "learners": [game.learner for game in games],
    }
    return {
        name: np.array(per_game[name], dtype)
        if name in per_game
        else np.concatenate([_moves_column(game, name) for game in games]).astype(dtype)
        for name, dtype in ARRAYS.items()
    }


def _moves_column(game: GameRecord, name: str) -> NDArray[Any]:
    column = getattr(game, name)
    return np.zeros(len(game.moves), np.float32) if column is None else column


# Reading


def read_meta(path: Path) -> ShardMeta:
    """The sidecar at path (the ``.meta`` or the shard it belongs to). Raises FileError if missing or damaged."""
    path = layout.meta_path(path)
    raw = atomic.read_json(path, "the sidecar of a game shard")
    _check_format(path, raw, META_FORMAT)
    try:
        lengths = np.array(raw["lengths"], np.int32)
        generation = raw["generation"]
        meta = ShardMeta(
            path=layout.shard_path(path),
            game=str(raw["game"]),
            model=str(raw["model"]),
            worker=str(raw["worker"]),
            generation=None if generation is None else int(generation),
            positions=int(raw["positions"]),
            games=int(raw["games"]),
            lengths=lengths,
            surprises=_unpack_surprises(raw),
            evaluations=int(raw.get("evaluations", 0)),
            method=str(raw.get("method", layout.DEFAULT_METHOD)),
            num_bytes=int(raw["bytes"]),
            sha256=str(raw["sha256"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error) as error:
        problem = f"damaged: {type(error).__name__}: {error}; wanted a sidecar of version {VERSION}"
        raise FileError(path, problem) from error
    if lengths.shape != (meta.games,) or (lengths < 1).any() or int(lengths.sum()) != meta.positions or meta.games < 1:
        raise FileError(
            path, f"damaged: the lengths of its games don't give its {meta.games} games, {meta.positions} positions"
        )
    if len(meta.surprises) != meta.positions or not are_surprises(meta.surprises):
        raise FileError(path, f"damaged: its surprises are not {meta.positions} finite numbers, none negative")
    return meta


def _unpack_surprises(raw: dict[str, Any]) -> NDArray[np.float16]:
    if raw["version"] < SINCE["surprises"]:
        return np.zeros(int(raw["positions"]), np.float16)
    return np.frombuffer(base64.b64decode(raw["surprises"], validate=True), "<f2")


def read_shard(path: Path, meta: ShardMeta | None = None) -> Shard:
    """The games of a shard, checked: size and checksum against meta if given, version, array types and totals.

    Raises FileError that says what was found and wanted.
    """
    packed = atomic.read_bytes(path, "a game shard")
    if meta is not None:
        if len(packed) != meta.num_bytes:
            raise FileError(path, f"damaged: {len(packed)} bytes; its sidecar says {meta.num_bytes}")
        if hashlib.sha256(packed).hexdigest() != meta.sha256:
            raise FileError(path, "damaged: its checksum is not the one in its sidecar")
    try:
        data = decompress(packed)
    except (EOFError, OSError, zlib.error) as error:
        raise FileError(path, f"damaged: not readable as gzip ({error}); wanted a game shard") from error
    end = data.find(b"\n")
    try:
        header = json.loads(data[:end]) if end >= 0 else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FileError(path, "damaged: its first line is no JSON object; wanted the header of a game shard")
    _check_format(path, header, SHARD_FORMAT)
    if not isinstance(header.get("game"), str) or not isinstance(header.get("model"), str):
        raise FileError(path, "damaged: its header names no game or no model")
    columns = parse_columns(path, header, memoryview(data)[end + 1 :])
    shard = Shard(path, header, **columns)
    if meta is not None and (shard.game_spec != meta.game or not np.array_equal(shard.lengths, meta.lengths)):
        raise FileError(path, "its games or their lengths are not those in its sidecar")
    return shard


def _check_format(path: Path, raw: dict[str, Any], wanted: str) -> None:
    if raw.get("format") != wanted:
        raise FileError(path, f"format {raw.get('format')!r}; wanted {wanted!r}")
    if raw.get("version") not in READABLE:
        wanted = f"{READABLE[0]} to {READABLE[-1]}"
        raise FileError(path, f"version {raw.get('version')!r}; this program reads versions {wanted}; update it")


def newest_shards(directory: Path, on_damage: Callable[[FileError], None] | None = None) -> Iterator[ShardMeta]:
    """Sidecars, newest first: by model, then time, then worker. Lazy: stop when you have enough.

    Opens only the sidecars it yields and lists only the folders it comes to; older models cost nothing.
    on_damage: is told of each sidecar that can't be used, which is then passed over; without it FileError is raised.
    Sidecars that disappear meanwhile are passed over. A missing directory holds no shards.
    """
    for model in sorted(_folders(directory, layout.is_model_folder_name), reverse=True):
        names = [
            (name, worker)
            for worker in _folders(directory / model, layout.is_worker_name)
            for name in os.listdir(directory / model / worker)
            if name.endswith(layout.META_SUFFIX) and not name.startswith(".")
        ]
        for name, worker in sorted(names, reverse=True):
            path = directory / model / worker / name
            if layout.parse_shard_name(name) is None:
                continue
            try:
                meta = read_meta(path)
            except FileError as error:
                if not path.exists():
                    continue
                if on_damage is None:
                    raise
                on_damage(error)
                continue
            yield meta


def _folders(directory: Path, is_ours: Callable[[str], bool]) -> list[str]:
    with atomic.os_errors(directory):
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry in entries if is_ours(entry.name) and entry.is_dir()]
        except FileNotFoundError:
            return []
