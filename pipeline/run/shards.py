"""Shards: the games of one self-play worker, written in groups.

A shard is gzip: one line of JSON, then the columns that it lists, little-endian. The line also has the texts that are
moves, if there are any. Axes: G games, M moves of all games,
V visited edges of all moves. Position i of a shard is the position before move i, so there are M positions; games
follow each other. The sidecar ``.meta`` is written after the shard and commits it: a shard without one does not exist.
The same games give the same bytes.

Every shard has the moves, the players and the results. The method that recorded the games decides what else is kept of
each move: any of SEARCH_COLUMNS, and columns of its own. For missing SEARCH_COLUMNS readers get values that mean
"unknown".

This module doesn't know the rules: methods/alphazero/examples.py checks that moves are legal.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.run import atomic, layout, order, packs

if TYPE_CHECKING:
    from pipeline.games.capabilities import Said
    from pipeline.run.chunks import ColumnTypes

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # the standard library is slower
    igzip_lib = isal_zlib = None  # type: ignore[assignment]
INFLATE_ERRORS: Any = (zlib.error,) if isal_zlib is None else (zlib.error, isal_zlib.error)

WANTED_META = "the sidecar of a game shard"
SHARD_FORMAT, META_FORMAT = "mugo-shard", "mugo-shard-meta"
VERSION = 1
OWN_TYPES = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8")
POLICY_COUNTS = 1  # bit 0 of flags: the visits of this move are a policy target
NO_VALUE = 2  # bit 1: no value is known for this move; its root value is 0 and means nothing
DRAWN = 4  # bit 2: a random opening move
SEARCHED = 8  # bit 3: searched in full
SAID = "said"  # in the header: the texts among each game's moves, if there are any
BOTH = 2  # learner: the model played both sides
TRIAL_BYTES = 65_536  # about a shard's size
MOST_GENERATION, MOST_EVALUATIONS = 2**31 - 1, 2**63 - 1
MOST_NUMBER = 2**62  # of a game
MOST_MOVES = 2**16 - 1  # of a game: chunks have plies as u2
MOST_AXES, MOST_PER_MOVE = 8, 2**20  # axes and numbers per move in a method's own column
NAMES = order.ShardNames()
# A shard may unpack to this many bytes plus MOST_RATIO times its size. Games pack to a third or a tenth.
MOST_UNPACKED, MOST_RATIO = 16 << 20, 64
COMPRESSION_LEVEL = 1  # higher levels cost more time than their smaller files are worth
SWEPT_GENERATIONS = 2  # swept for all workers, because a killed one may never come back


class End(IntEnum):
    """How a game ended."""

    PLAYED_OUT = 0
    RESIGNED = 1
    MOVE_LIMIT = 2  # see AnyGame.cut_short
    SETTLED = 3  # by Game.settled_owners, which also give the result


_UNKNOWN: Any = None  # a column that a record lacks, until __post_init__


@dataclass(frozen=True, kw_only=True)
class GameRecord:
    """One finished game of T moves that visited V edges.

    moves        [T] actions                  visit_lengths  [T] edges that the root search of each move visited
    flags        [T] POLICY_COUNTS, …         visit_actions  [V] their actions, move after move
    root_values  [T] to move                  visit_counts   [V] their visits
    surprises    [T] KL(policy target || network's prior) in nats; of an opponent's move that teaches, the mean of the
                 game's searches
    own          the method's own columns by name: [T, ...]
    opponent     the model's opponent; None: itself
    learner      the side that the model played: 0 first, 1 second, BOTH; the opponent's moves are no searches
    setup        how the game begins, see capabilities.Setups
    said         the texts among the moves, see capabilities.Spoken

    A method gives those of flags, values, surprises and visits that it has; the others get values that mean "unknown".
    """

    game_id: int
    moves: NDArray[np.integer]
    flags: NDArray[np.integer] = _UNKNOWN
    root_values: NDArray[np.floating] = _UNKNOWN
    visit_lengths: NDArray[np.integer] = _UNKNOWN
    visit_actions: NDArray[np.integer] = _UNKNOWN
    visit_counts: NDArray[np.integer] = _UNKNOWN
    surprises: NDArray[np.floating] = _UNKNOWN
    own: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    result_first_player: float
    end: End = End.PLAYED_OUT
    no_resign: bool = False
    opponent: str | None = None
    learner: int = BOTH
    setup: int = 0
    said: Said = ()

    def __post_init__(self) -> None:
        for name in SEARCH_COLUMNS:
            if getattr(self, name) is _UNKNOWN:
                object.__setattr__(self, name, COLUMNS[name].unknown(len(self.moves)))

    def result_of(self, player: int) -> float:
        """The result for player 0, who moves first, or 1."""
        return self.result_first_player if player == 0 else -self.result_first_player


class RunNumbers(NamedTuple):
    """The numbers of the games of a run of self-play. See selfplay/numbering.py."""

    since: int  # the generation in which the run began
    first: int  # of the worker's games in that generation
    until: int  # one more than the run's last


@dataclass(frozen=True)
class ShardMeta:
    """A sidecar: the contents of a shard without its moves."""

    path: Path  # of the shard
    game: str
    model: str
    worker: str
    method: str  # that recorded the games
    generation: int
    positions: int
    games: int
    lengths: NDArray[np.int32]  # [G]
    # [M] the shard's, rounded: sampling needs them before any shard is read. 0 if the method records none.
    surprises: NDArray[np.float16]
    searched: NDArray[np.bool_]  # [M] which positions were searched in full
    # Positions that the search evaluated since the worker's previous shard, by the network or a cache, without those of
    # games lost by a kill.
    evaluations: int
    cut_short: int  # games that the move limit ended
    game_ids: NDArray[np.uint64]  # [G]
    numbers: NDArray[np.int64]  # [G] which games of the worker they are
    run: RunNumbers  # that played them
    num_bytes: int  # of the shard
    sha256: str
    pack: packs.Pack | None = None  # that had the shard when this was read; None: files of its own

    @property
    def id(self) -> str:
        """``FOLDER/WORKER/FILE.gz``"""
        return layout.shard_id(self.path)


class Column(NamedTuple):
    """An array of a shard. If the method doesn't record it, it is `lacking` everywhere."""

    dtype: str
    axis: str  # G, M or V
    lacking: int
    of_search: bool

    def unknown(self, count: int) -> NDArray[Any]:
        """The column of a shard or game that lacks it. count: length along its axis; along V it is empty."""
        size = 0 if self.axis == "V" else count
        return np.full(size, self.lacking, self.dtype) if self.lacking else np.zeros(size, self.dtype)


def _column(dtype: str, axis: str, lacking: int = 0, of_search: bool = False) -> dict[str, Column]:
    return {"column": Column(dtype, axis, lacking, of_search)}


@dataclass(frozen=True)
class Shard:
    """A shard's header and columns, in the file's order. own: the method's own columns, last, by name, [M, ...]."""

    path: Path
    header: dict[str, Any]
    game_ids: NDArray[np.uint64] = field(metadata=_column("<u8", "G"))
    lengths: NDArray[np.int32] = field(metadata=_column("<i4", "G"))  # moves
    results: NDArray[np.float32] = field(metadata=_column("<f4", "G"))  # seen by the first player
    ends: NDArray[np.uint8] = field(metadata=_column("|u1", "G"))  # End
    no_resign: NDArray[np.uint8] = field(metadata=_column("|u1", "G"))  # 1: this game was not allowed to resign
    # Index into the header's opponents; -1: the model played itself.
    opponents: NDArray[np.int16] = field(metadata=_column("<i2", "G"))
    # The side that the model played: 0 first, 1 second, BOTH.
    learners: NDArray[np.uint8] = field(metadata=_column("|u1", "G"))
    setups: NDArray[np.int16] = field(metadata=_column("<i2", "G"))
    moves: NDArray[np.uint16] = field(metadata=_column("<u2", "M"))
    # POLICY_COUNTS, NO_VALUE, DRAWN, SEARCHED
    flags: NDArray[np.uint8] = field(metadata=_column("|u1", "M", lacking=NO_VALUE, of_search=True))
    # From the view of the player to move; at most max_result.
    root_values: NDArray[np.float32] = field(metadata=_column("<f4", "M", of_search=True))
    # As GameRecord.surprises where the target counts, else 0.
    surprises: NDArray[np.float32] = field(metadata=_column("<f4", "M", of_search=True))
    visit_lengths: NDArray[np.uint16] = field(metadata=_column("<u2", "M", of_search=True))  # edges visited at the root
    visit_actions: NDArray[np.uint16] = field(metadata=_column("<u2", "V", of_search=True))
    visit_counts: NDArray[np.uint32] = field(metadata=_column("<u4", "V", of_search=True))
    own: dict[str, NDArray[Any]]
    move_offsets: NDArray[np.int64] = field(init=False)  # [G+1] game g has moves move_offsets[g] … [g+1]
    visit_offsets: NDArray[np.int64] = field(init=False)  # [M+1] the same for the visits of a move

    def __post_init__(self) -> None:
        for name, lengths in (("move_offsets", self.lengths), ("visit_offsets", self.visit_lengths)):
            object.__setattr__(self, name, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

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

    @property
    def max_result(self) -> float:
        """The most points that a game counted when it was recorded."""
        return float(self.header["max_result"])

    def of_opponents(self) -> NDArray[np.bool_]:
        """[M] the moves of opponents, in games whose players take turns."""
        plies = np.arange(self.num_positions) - np.repeat(self.move_offsets[:-1], self.lengths)
        learners = np.repeat(self.learners, self.lengths)
        return (learners != BOTH) & (learners != plies % 2)

    def said(self, index: int) -> Said:
        """The texts among a game's moves."""
        return tuple((text, checksum) for text, checksum in self.header[SAID][index]) if SAID in self.header else ()

    def own_column(self, name: str) -> NDArray[Any]:
        """[M, ...] one of the method's own columns. Raises FileError if the shard lacks it."""
        if name not in self.own:
            found = ", ".join(self.own) or "none of its own"
            raise FileError(self.path, f"it lacks the column {name}, it has {found}; wanted games of another method")
        return self.own[name]

    def opponent(self, index: int) -> str | None:
        """The model's opponent in this game; None: itself."""
        number = int(self.opponents[index])
        return str(self.header["opponents"][number]) if number >= 0 else None

    def game(self, index: int) -> GameRecord:
        """One game as it was recorded."""
        moves = slice(int(self.move_offsets[index]), int(self.move_offsets[index + 1]))
        visits = slice(int(self.visit_offsets[moves.start]), int(self.visit_offsets[moves.stop]))
        return GameRecord(
            game_id=int(self.game_ids[index]),
            **{name: getattr(self, name)[moves] for name in PER_MOVE},
            **{name: getattr(self, name)[visits] for name in PER_VISIT},
            own={name: column[moves] for name, column in self.own.items()},
            result_first_player=float(self.results[index]),
            end=End(int(self.ends[index])),
            no_resign=bool(self.no_resign[index]),
            opponent=self.opponent(index),
            learner=int(self.learners[index]),
            setup=int(self.setups[index]),
            said=self.said(index),
        )


COLUMNS: dict[str, Column] = {one.name: one.metadata["column"] for one in fields(Shard) if one.metadata}
PER_GAME, PER_MOVE, PER_VISIT = ([name for name, column in COLUMNS.items() if column.axis == axis] for axis in "GMV")
SEARCH_COLUMNS: ColumnTypes = {name: (column.dtype, ()) for name, column in COLUMNS.items() if column.of_search}
"""What a tree search records of a move. A method may record any of them, but visits all three or none."""


# Writing


def write_shard(
    output_dir: Path,
    model_name: str,
    worker: str,
    game_spec: str,
    games: Sequence[GameRecord],
    provenance: dict[str, Any],
    *,
    method: str,
    recorded: ColumnTypes,
    max_result: float,
    evaluations: int,
    numbers: Sequence[int],
    run: RunNumbers,
) -> Path:
    """Write games as one shard and commit it with its sidecar; returns the shard's path.

    provenance  what made the games, as JSON: seed, settings, …; its "generation", by which games sort, also goes into
                the sidecar and the name of the folder
    recorded    the columns of each move, see Method.recorded; other columns of the records aren't written
    max_result  the most points that a game counts
    evaluations, numbers, run  see ShardMeta; only the sidecar has them
    After the return a kill loses nothing; a power cut may lose the last shards, as a whole.
    Raises FileError if the disk is full or read-only, ValueError if games is empty or its arrays contradict each other.
    """
    opponents = sorted({game.opponent for game in games if game.opponent is not None})
    columns = _columns(games, opponents, recorded, max_result)
    origin = {"version": VERSION, "game": game_spec, "model": model_name, "worker": worker, "method": method}
    num_positions = len(columns["moves"])
    shapes = {name: {"shape": list(shape)} for name, (_, shape) in recorded.items() if shape}
    header = {
        "format": SHARD_FORMAT,
        **origin,
        "games": len(games),
        "positions": num_positions,
        "max_result": max_result,
        "opponents": opponents,
        "arrays": [
            {"name": name, "dtype": column.dtype.str, "count": len(column), **shapes.get(name, {})}
            for name, column in columns.items()
        ],
        "provenance": provenance,
        **({SAID: [game.said for game in games]} if any(game.said for game in games) else {}),
    }
    data = json.dumps(header, ensure_ascii=False).encode() + b"\n"
    data += b"".join(column.tobytes() for column in columns.values())
    packed = compress(data)
    if len(data) > most_unpacked(len(packed)):  # readers would refuse it
        packed = gzip.compress(data, 0, mtime=0)

    of_moves = {}
    if "surprises" in columns:
        of_moves["surprises"] = base64.b64encode(columns["surprises"].astype("<f2").tobytes()).decode()
    if (searched := columns["flags"] & SEARCHED if "flags" in columns else np.zeros(0, np.uint8)).any():
        of_moves["searched"] = base64.b64encode(np.packbits(searched).tobytes()).decode()

    generation = provenance["generation"]
    folder = layout.shard_folder(output_dir, model_name, worker, generation)
    atomic.make_folder(folder)
    with atomic.os_errors(folder):
        name = NAMES.next(folder)
    path = folder / name.shard
    meta = {
        "format": META_FORMAT,
        **origin,
        "generation": generation,
        "positions": num_positions,
        "games": len(games),
        "lengths": columns["lengths"].tolist(),
        **of_moves,
        "evaluations": evaluations,
        "cut_short": sum(game.end == End.MOVE_LIMIT for game in games),
        "game_ids": base64.b64encode(columns["game_ids"].tobytes()).decode(),
        "numbers": list(numbers),
        "run": run._asdict(),
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    try:
        atomic.write_bytes(path, packed, folder_sync=False)
        atomic.write_json(folder / name.meta, meta, folder_sync=False)
    except BaseException as error:
        is_committed = (folder / name.meta).exists()
        if not is_committed:
            path.unlink(missing_ok=True)  # nothing would ever read it
        # An interrupt may come after the commit, and a network disk may report that a finished rename failed.
        if not (is_committed and isinstance(error, FileError)):
            raise
    return path


def fitting(games: Sequence[GameRecord], recorded: ColumnTypes) -> int:
    """How many of the first games, at least one, have MOST_UNPACKED bytes, which readers accept at any ratio.

    Columns of mostly padding pack so well that a larger group could unpack to more than the limit.
    """
    of_move = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in recorded.values())
    left = MOST_UNPACKED
    for count, game in enumerate(games):
        left -= len(game.moves) * of_move + 6 * len(game.visit_actions)
        if left < 0:
            return max(1, count)
    return len(games)


def prepare_folder(output_dir: Path, model_name: str, worker: str, generation: int) -> None:
    """Make the folder of a worker's shards and try to write there, so that problems show before games are played.

    Removes temporary files of killed workers in the newest generations and in this worker's last one. Raises FileError
    if the disk is full or read-only, or a file is in the way.
    """
    folder = layout.shard_folder(output_dir, model_name, worker, generation)
    atomic.make_folder(folder)
    NAMES.forget(folder)
    found_earlier = False  # an earlier folder of this worker
    for number, (_, folders) in enumerate(order.newest_generations(output_dir)):
        if found_earlier and number >= SWEPT_GENERATIONS:
            break
        for place in order.places_in(output_dir, folders):
            if number < SWEPT_GENERATIONS or place.name == worker:
                atomic.sweep(place)
            found_earlier |= place.name == worker and place != folder
    with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(TRIAL_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _columns(
    games: Sequence[GameRecord], opponents: list[str], recorded: ColumnTypes, max_result: float
) -> dict[str, NDArray[Any]]:
    """The columns by name, in the file's order. Raises ValueError like write_shard."""
    if not games:
        raise ValueError("a shard holds at least one game")
    own = _own_types(recorded)
    for game in games:
        num_moves, num_visits = len(game.moves), int(np.sum(game.visit_lengths))
        if num_moves < 1 or any(len(getattr(game, name)) != num_moves for name in PER_MOVE):
            raise ValueError(f"game {game.game_id}: its arrays don't all have its {num_moves} moves")
        if len(game.visit_actions) != num_visits or len(game.visit_counts) != num_visits:
            raise ValueError(f"game {game.game_id}: visit_lengths add up to {num_visits}, its visits don't")
        if (game.opponent is None) != (game.learner == BOTH):
            raise ValueError(f"game {game.game_id}: learner {game.learner}, opponent {game.opponent}")
        if not abs(game.result_first_player) <= max_result:
            raise ValueError(f"game {game.game_id}: a result of {game.result_first_player:g}; it counts {max_result:g}")
        for name, (_, shape) in own.items():
            if name not in game.own or game.own[name].shape != (num_moves, *shape):
                raise ValueError(f"game {game.game_id}: column {name} isn't there, or not {(num_moves, *shape)}")
    per_game: dict[str, list[Any]] = {
        "game_ids": [game.game_id for game in games],
        "lengths": [len(game.moves) for game in games],
        "results": [game.result_first_player for game in games],
        "ends": [int(game.end) for game in games],
        "no_resign": [game.no_resign for game in games],
        "opponents": [-1 if game.opponent is None else opponents.index(game.opponent) for game in games],
        "learners": [game.learner for game in games],
        "setups": [game.setup for game in games],
    }
    columns = {
        name: np.array(per_game[name], column.dtype)
        if name in per_game
        else np.concatenate([getattr(game, name) for game in games]).astype(column.dtype)
        for name, column in COLUMNS.items()
        if name in recorded or not column.of_search
    }
    for name, (dtype, _) in own.items():
        columns[name] = np.concatenate([game.own[name] for game in games]).astype(dtype)
    return columns


def _own_types(recorded: ColumnTypes) -> ColumnTypes:
    """The method's own columns. Raises ValueError if a shard can't have one of the columns."""
    for name, kind in recorded.items():
        if name in COLUMNS and (SEARCH_COLUMNS.get(name) != kind):
            raise ValueError(f"column {name} of {kind}: a shard has another one of this name")
    if len({name in recorded for name in ("visit_lengths", *PER_VISIT)}) == 2:
        raise ValueError("visits are recorded as a whole or not at all")
    own = {name: kind for name, kind in recorded.items() if name not in COLUMNS}
    for name, (dtype, shape) in own.items():
        if not _is_own(name, dtype, shape):
            raise ValueError(f"column {name} of {dtype} {shape}: wanted a name and one of {', '.join(OWN_TYPES)}")
    return own


def _is_own(name: str, dtype: str, shape: tuple[int, ...]) -> bool:
    fits = len(shape) <= MOST_AXES and all(size > 0 for size in shape) and math.prod(shape) <= MOST_PER_MOVE
    return name.isidentifier() and name not in COLUMNS and dtype in OWN_TYPES and fits


# Reading


def read_meta(path: Path, pack: packs.Pack | None = None) -> ShardMeta:
    """The sidecar of the shard at path. pack: where the shard was listed. Raises FileError; packs.Gone if missing."""
    path = layout.meta_path(path)
    return parse_meta(path, *packs.read_stored(path, pack, WANTED_META))


def parse_meta(path: Path, data: bytes, pack: packs.Pack | None = None) -> ShardMeta:
    """A sidecar from its content. Raises FileError if that is damaged. pack: where it was found."""
    raw = atomic.parse_json(path, data, WANTED_META)
    atomic.check_format(path, raw, META_FORMAT, VERSION, WANTED_META)
    try:
        lengths = np.array(raw["lengths"], np.int32)
        num_positions, num_games, num_bytes = int(raw["positions"]), int(raw["games"]), int(raw["bytes"])
        if lengths.shape != (num_games,) or num_games < 1:
            raise ValueError(f"lengths of shape {list(lengths.shape)} for {num_games} games")
        if not 1 <= lengths.min() <= lengths.max() <= MOST_MOVES:
            raise ValueError(f"lengths from {lengths.min()} to {lengths.max()}; wanted 1 to {MOST_MOVES}")
        if int(lengths.sum(dtype=np.int64)) != num_positions:
            raise ValueError(f"lengths of {int(lengths.sum(dtype=np.int64))} positions in all, not {num_positions}")
        if num_positions * np.dtype(COLUMNS["moves"].dtype).itemsize > most_unpacked(num_bytes):
            raise ValueError(f"{num_positions} positions in {num_bytes} bytes")
        if "surprises" in raw:
            surprises = np.frombuffer(base64.b64decode(raw["surprises"], validate=True), "<f2")
        else:
            surprises = np.broadcast_to(np.float16(0), num_positions)  # takes no memory, whatever the file claims
        if len(surprises) != num_positions or not _are_surprises(surprises):
            raise ValueError(f"its surprises are not {num_positions} finite numbers, none negative")
        searched = np.zeros(num_positions, np.bool_)
        if "searched" in raw:
            packed = np.frombuffer(base64.b64decode(raw["searched"], validate=True), np.uint8)
            if len(packed) != (num_positions + 7) // 8:
                raise ValueError(f"its searched positions are {len(packed)} bytes for {num_positions} positions")
            searched = np.unpackbits(packed, count=num_positions).astype(np.bool_)
        game_ids = np.frombuffer(base64.b64decode(raw["game_ids"], validate=True), "<u8")
        numbers = np.array([_count(number, MOST_NUMBER) for number in raw["numbers"]], np.int64)
        if not len(game_ids) == len(numbers) == num_games:
            raise ValueError(f"{len(game_ids)} ids and {len(numbers)} numbers of {num_games} games")
        return ShardMeta(
            path=path.with_suffix(layout.SHARD_SUFFIX),
            game=str(raw["game"]),
            model=str(raw["model"]),
            worker=str(raw["worker"]),
            method=str(raw["method"]),
            generation=_count(raw["generation"], MOST_GENERATION),
            positions=num_positions,
            games=num_games,
            lengths=lengths,
            surprises=surprises,
            searched=searched,
            evaluations=_count(raw["evaluations"], MOST_EVALUATIONS),
            cut_short=_count(raw["cut_short"], num_games),
            game_ids=game_ids,
            numbers=numbers,
            run=RunNumbers(**{name: _count(raw["run"][name], MOST_NUMBER) for name in RunNumbers._fields}),
            num_bytes=num_bytes,
            sha256=str(raw["sha256"]),
            pack=pack,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileError(path, f"damaged: {type(error).__name__}: {error}; wanted {WANTED_META}") from error


def _count(value: Any, most: int) -> int:
    """Raises ValueError unless it is a number from 0 to most."""
    number = int(value)
    if not 0 <= number <= most:
        raise ValueError(f"the number {number}; wanted 0 to {most}")
    return number


def read_shard(path: Path, meta: ShardMeta | None = None) -> Shard:
    """A shard. Checks version, array types and totals, and if meta is given, size and checksum. Raises FileError."""
    packed, _ = packs.read_stored(path, meta.pack if meta else None, "a game shard")
    if meta is not None:
        atomic.check_content(path, packed, meta.num_bytes, meta.sha256, "its sidecar")
    try:
        data = decompress(packed)
    except (EOFError, ValueError, *INFLATE_ERRORS) as error:
        raise FileError(path, f"damaged: not readable as gzip ({error}); wanted a game shard") from error
    wanted = "the header of a game shard in its first line"
    first_line = data[: data.find(b"\n") + 1]
    header = atomic.parse_json(path, first_line, wanted)
    atomic.check_format(path, header, SHARD_FORMAT, VERSION, wanted)
    if not all(isinstance(header.get(name), str) for name in ("game", "model", "method")):
        raise FileError(path, "damaged: its header names no game, no model or no method")
    if not isinstance(header.get("provenance"), dict):
        raise FileError(path, "damaged: the provenance in its header is no JSON object")
    most = header.get("max_result")
    if not isinstance(most, int | float) or not 0 < most < math.inf:
        raise FileError(path, f"damaged: its games count up to {str(most)[:20]}; wanted a number above 0")
    columns, own = _parse_columns(path, header, memoryview(data)[len(first_line) :])
    if SAID in header and not _are_said(header[SAID], len(columns["lengths"])):
        raise FileError(path, "damaged: the texts in its header are not those of its games")
    for problem in _problems(columns, own, most, header.get("opponents")):
        raise FileError(path, f"damaged: {problem}")
    shard = Shard(path, header, **columns, own=own)
    if meta is not None:
        if shard.game_spec != meta.game or not np.array_equal(shard.lengths, meta.lengths):
            raise FileError(path, "its games or their lengths are not those in its sidecar")
        if not np.array_equal(shard.game_ids, meta.game_ids):
            raise FileError(path, "its games' ids are not those in its sidecar")
        if shard.surprises.astype("<f2").any() and not meta.surprises.any():
            raise FileError(path, "its surprises are not in its sidecar")
        if not np.array_equal(shard.flags & SEARCHED != 0, meta.searched):
            raise FileError(path, "its positions searched in full are not those in its sidecar")
    return shard


def _parse_columns(
    path: Path, header: dict[str, Any], body: memoryview
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """(the columns of class Shard, the method's own columns)."""
    try:
        listed = [
            (str(array["name"]), str(array["dtype"]), int(array["count"]), tuple(map(int, array.get("shape", ()))))
            for array in header["arrays"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileError(path, "damaged: its header lists no arrays") from error
    names = [name for name, *_ in listed]
    known = [(name, column.dtype, ()) for name, column in COLUMNS.items() if name in names or not column.of_search]
    own = listed[len(known) :]
    found = [(name, dtype, shape) for name, dtype, _, shape in listed]
    has_visits = {name in names for name in ("visit_lengths", *PER_VISIT)}
    are_own = all(_is_own(name, dtype, shape) for name, dtype, _, shape in own)
    fit = found[: len(known)] == known and len(has_visits) == 1 and are_own
    if not fit or len(set(names)) < len(names):
        raise FileError(path, f"its arrays are {found}; wanted {known}{' and its own' if own else ''}")
    wanted = sum(np.dtype(dtype).itemsize * count * math.prod(shape) for _, dtype, count, shape in listed)
    if any(count < 0 for _, _, count, _ in listed) or wanted != len(body):
        raise FileError(path, f"damaged: {len(body)} bytes of arrays; its header wants {wanted}")
    columns, offset = {}, 0
    for name, dtype, count, shape in listed:
        columns[name] = np.frombuffer(body, dtype, count * math.prod(shape), offset).reshape(count, *shape)
        offset += columns[name].nbytes
    count_along = {"G": len(columns["lengths"]), "M": len(columns["moves"]), "V": 0}
    for name, column in COLUMNS.items():
        if name not in columns:
            columns[name] = column.unknown(count_along[column.axis])
    return columns, {name: columns.pop(name) for name, _, _, _ in own}


def _problems(columns: dict[str, Any], own: dict[str, Any], most: float, opponents: Any) -> Iterator[str]:
    """What is wrong with a shard's columns. most: points that a game counts; opponents: as in the header."""
    lengths, visit_lengths = columns["lengths"], columns["visit_lengths"]
    num_moves, num_visits = int(lengths.sum(dtype=np.int64)), int(visit_lengths.sum(dtype=np.int64))
    of_moves = [*(columns[name] for name in PER_MOVE), *own.values()]
    numbers, learners = columns["opponents"], columns["learners"]
    if len(lengths) < 1 or any(len(columns[name]) != len(lengths) for name in PER_GAME):
        yield f"its columns of games are not all {len(lengths)} long"
    if (lengths < 1).any() or any(len(column) != num_moves for column in of_moves):
        yield f"its games have {num_moves} moves, its columns of moves do not"
    if any(len(columns[name]) != num_visits for name in PER_VISIT):
        yield f"its moves have {num_visits} visited edges, its columns of visits do not"
    if most == 1 and not np.isin(columns["results"], (-1, 0, 1)).all():
        yield "a result is not -1, 0 or +1"
    if not (np.abs(columns["results"]) <= most).all():
        yield f"a result is not in [-{most:g}, {most:g}]"
    if (columns["ends"] > max(End)).any():
        yield f"an end of {int(columns['ends'].max())}; wanted at most {int(max(End))}"
    if not (np.abs(columns["root_values"]) <= 1.001 * most).all():  # also false for NaN; 0.001 allows for rounding
        yield f"a root value is not in [-{most:g}, {most:g}]"
    if not _are_surprises(columns["surprises"]):
        yield "a surprise is negative or not finite"
    if not isinstance(opponents, list) or not all(isinstance(name, str) for name in opponents):
        yield f"its opponents are {opponents!r}; wanted a list of names"
    if (numbers < -1).any() or (numbers >= len(opponents)).any():
        yield f"a game against opponent {int(numbers.max())}; its header names {len(opponents)}"
    if ((numbers < 0) != (learners == BOTH)).any() or (learners > BOTH).any():
        yield "a side of the model that contradicts its opponent"


def _are_said(found: Any, num_games: int) -> bool:
    """Whether these are pairs of a text and a checksum for every game."""
    return (
        isinstance(found, list)
        and len(found) == num_games
        and all(isinstance(game, list) for game in found)
        and all(isinstance(pair, list) and len(pair) == 2 for game in found for pair in game)
        and all(isinstance(text, str) and type(number) is int for game in found for text, number in game)
    )


def _are_surprises(numbers: NDArray[np.floating]) -> bool:
    """Whether all are finite and none is negative."""
    return bool(numbers.min(initial=0.0) >= 0 and np.isfinite(numbers.sum(dtype=np.float64)))  # NaN fails both


def newest_shards(directory: Path, on_damage: Callable[[FileError], None] | None = None) -> Iterator[ShardMeta]:
    """Sidecars, newest first (see order.py); none if directory is missing. Skips sidecars that disappear.

    Lazy: opens only the sidecars that it yields and lists only the folders that it comes to.
    on_damage: called for each damaged sidecar, which is then skipped; without it FileError is raised.
    """
    for file in order.newest_files(directory):
        meta = meta_of(file, directory, on_damage)
        if meta is not None:
            yield meta


def meta_of(
    file: order.ShardFile, directory: Path, on_damage: Callable[[FileError], None] | None = None
) -> ShardMeta | None:
    """The sidecar of a shard under directory; None if it is gone, or damaged and on_damage was called."""
    try:
        if isinstance(file.pack, FileError):
            raise file.pack
        return read_meta(file.meta(directory), file.pack)
    except packs.Gone:
        return None
    except FileError as error:
        if on_damage is None:
            raise
        on_damage(error)
        return None


# Compression: by the fastest library installed, without a time stamp, with a limit on the unpacked size


def compress(data: bytes) -> bytes:
    """Deterministic."""
    if igzip_lib is not None:
        return igzip_lib.compress(data, level=COMPRESSION_LEVEL, flag=igzip_lib.COMP_GZIP)
    return gzip.compress(data, COMPRESSION_LEVEL, mtime=0)


def most_unpacked(num_bytes: int) -> int:
    """The most bytes that a shard of num_bytes may unpack to."""
    return MOST_UNPACKED + MOST_RATIO * num_bytes


def decompress(data: bytes) -> bytes:
    """Raises EOFError, ValueError or one of INFLATE_ERRORS for data that are damaged, cut off or beyond the limit."""
    most = most_unpacked(len(data))
    stream = (isal_zlib or zlib).decompressobj(wbits=31)
    unpacked = stream.decompress(data, most)
    if not stream.eof:
        if len(unpacked) >= most:
            raise ValueError(f"its {len(data)} bytes unpack to more than {most}")
        raise EOFError("cut off")
    if stream.unused_data:
        raise ValueError("something follows the end")
    return unpacked
