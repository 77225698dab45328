"""Every name of a file or folder: built and parsed here and nowhere else.

    saved_models/000018-name/            a model: six digits, then a label
    saved_models/.000018-name.training/  the checkpoint of the training that will become it
    saved_models/best_model              the champion, a relative symlink; promotions.jsonl beside it
    data/selfplay/000018-name/WORKER/20261121T131500.123456-000001.gz    a shard; .meta beside it commits it
    data/selfplay/000021+000018-name/WORKER/…                            games of model 18 in generation 21
    data/selfplay/…/WORKER/20261121T131500.123456-002000x01998.gz        a pack of 1998 shards, named by the last
    data/training_data/000007-1a2b3c4d-0003-of-0190.h5            chunk 3 of 190 of set 000007-1a2b3c4d
    data/training_data/000007-1a2b3c4d-holdout.h5                 its hold-out
    data/training_data/000007-1a2b3c4d-priorities.safetensors     how often to sample each of its examples
    data/evaluate/CHALLENGER-vs-CHAMPION/                         a match of two players
    data/evaluate/watch/000018-name.json                          a model's evaluation by evaluate --watch
    .NAME~HOST~PID~TIME~RANDOM.tmp       NAME while it is being written; readers ignore hidden names
    .NAME.lock                           held while NAME is changed
    .mugo-copy.json                      marks a folder as the working copy of a run in object storage

Names of one kind sort alphabetically by age: numbers are zero-padded, times are UTC. A set's number counts the sets
made in its folder, so that even two sets of one model sort by age; the hash after it identifies what it was made from.

The age of a game is its *generation*: the number of the newest model in saved_models/ when it began, or the number of
the model that finished it, if that is higher. It is in the name of the folder of games: as the number with which a
model's name begins, or, if the model plays in a later generation, as a number before it with a "+", which no model's
name has. So games sort by when they began in the run, even those of an old champion or one that was reinstated. Folders
of one generation are of the same age; see order.py.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import FileError, UsageError

DATA, SELFPLAY, TRAINING, LOGS = "data", "selfplay", "training_data", "logs"
EVALUATE, TOURNAMENT = "evaluate", "tournament"
PRETRAINED = "pretrained"  # models that come with MuGo
CHAMPION = "best_model"
PROMOTIONS = "promotions.jsonl"
MODEL_JSON = "model.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
CALIBRATION = "calibration.safetensors"
POOL, RATINGS, PRUNED = "pool.json", "ratings.json", "pruned.json"
MATCH_GAMES = "games.jsonl"
MATCH_SUMMARY = "summary.json"
MATCH_RESULTS = "results.json"
MATCH_SGF = "sgf"
POINTS = "points.jsonl"  # of what is tracked
EVENTS = "events.out.tfevents."  # TensorBoard's files begin like this
DEFAULT_WORKER = "w00"
REQUIRED = "required"  # matches of promotion conditions
MEASURED = "measured"  # matches by which the loop says how strong its champion is
WATCH = "watch"  # matches and evaluations of evaluate --watch
INNER = (REQUIRED, MEASURED, WATCH)  # folders within evaluate's, whose matches count for ratings, too
SHARD_SUFFIX = ".gz"
META_SUFFIX = ".meta"
CHUNK_SUFFIX = ".h5"

# The parts of a run, relative to its folder
SAVED_MODELS = Path("saved_models")
CHAMPION_LINK = SAVED_MODELS / CHAMPION
GAMES, CHUNKS, CURVES = Path(DATA, SELFPLAY), Path(DATA, TRAINING), Path(DATA, LOGS)
MATCHES = Path(DATA, EVALUATE)
REQUIRED_MATCHES, MEASURED_MATCHES, WATCH_MATCHES = (MATCHES / name for name in INNER)
TOURNAMENT_MATCHES = Path(DATA, TOURNAMENT)


def home_of_matches(folder: Path) -> Path:
    """evaluate's own folder, for matches in it or in one of the folders within it."""
    return folder.parent if folder.name in INNER and folder.parent.name == EVALUATE else folder


def match_folders(evaluated: Path, tournament: Path) -> list[Path]:
    """All folders whose matches count for ratings. evaluated, tournament: where these two commands keep theirs."""
    return [evaluated, *(evaluated / name for name in INNER), tournament]


MATCH_FOLDERS = tuple(match_folders(MATCHES, TOURNAMENT_MATCHES))
POOL_FILE, RATINGS_FILE = Path(DATA, POOL), Path(DATA, RATINGS)
LOOP, LOOP_FILE = Path(DATA, "loop"), Path(DATA, ".loop.json")  # whose lock the loop holds; what it keeps

PRESET_FILE = Path(DATA, "preset.yaml")  # of a run that the loop began for a game, without a preset

HOST_PID_NAMESPACE = 0xEFFFFFFC  # inode of Linux's initial PID namespace, outside of all containers
MAX_NUMBER = 999_999
MAX_CHUNKS = 9_999
VERSUS = "-vs-"
TIME_FORMAT = "%Y%m%dT%H%M%S.%f"
SECOND_FORMAT = "%Y%m%dT%H%M%S"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLAYER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_WORKER = re.compile(r"[A-Za-z0-9_-]+")
_MODEL = re.compile(r"(\d{6})-([A-Za-z0-9][A-Za-z0-9._-]*)")
_CHECKPOINT = re.compile(r"\.(.+)\.training")
_GAMES = re.compile(r"(\d{6})\+([A-Za-z0-9][A-Za-z0-9._-]*)")
_SHARD = re.compile(r"(\d{8}T\d{6}\.\d{6})-(\d{6}|[1-9]\d{6,11})\.(?:gz|meta)")
_PACK = re.compile(r"(\d{8}T\d{6}\.\d{6}-(?:\d{6}|[1-9]\d{6,11}))x(\d{5,9})\.(?:gz|meta)")
_CHUNK = re.compile(r"(\d{6})-([0-9a-f]{8})-(?:(\d{4})-of-(\d{4})|holdout)\.h5")
_PRIORITIES = re.compile(r"(\d{6})-([0-9a-f]{8})-priorities\.safetensors")
_TEMPORARY = re.compile(r"\.(.+)~([A-Za-z0-9-]+)~(\d+)~(\d{8}T\d{6})~[0-9a-f]{8}\.tmp", re.DOTALL)


class Run:
    """The paths of the run in a folder, which has data/ and saved_models/.

    champion       the symlink; models.resolve_champion follows it
    matches        of promotion; required, measured, watch, tournament: see above
    match_folders  all folders that hold matches
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = folder / SAVED_MODELS
        self.champion = folder / CHAMPION_LINK
        self.games = folder / GAMES
        self.pruned = self.games / PRUNED
        self.chunks = folder / CHUNKS
        self.match_folders = [folder / matches for matches in MATCH_FOLDERS]
        self.matches, self.required, self.measured, self.watch, self.tournament = self.match_folders
        self.pool = folder / POOL_FILE
        self.ratings = folder / RATINGS_FILE

    @classmethod
    def of_games(cls, games: Path) -> Run:
        """The run whose data/selfplay, or other folder in data/, this is."""
        return cls(Path(os.path.abspath(games)).parent.parent)

    @classmethod
    def at(cls, folder: Path) -> Run:
        """The run in this folder. Raises FileError if there is none."""
        if not is_run(folder):
            found = "no run in this folder" if folder.is_dir() else "no such folder"
            raise FileError(folder, f"{found}; wanted one with {SAVED_MODELS}/ or {GAMES}/ in it")
        return cls(folder)


def run_name(logdir: Path) -> str:
    """The name of the run whose tracked numbers are in this folder: of a run's data/logs, that of the run's folder."""
    folder = Path(os.path.abspath(logdir))
    return folder.parents[1].name if folder.parts[-2:] == CURVES.parts else folder.name


def is_run(folder: Path) -> bool:
    return (folder / SAVED_MODELS).is_dir() or (folder / GAMES).is_dir()


# Models


def model_name(number: int, label: str) -> str:
    """``000018-label``; number: 0 for the initial model. Raises UsageError for one that a name can't have."""
    if not 0 <= number <= MAX_NUMBER:
        raise UsageError(f"model number {number}: wanted 0 to {MAX_NUMBER}")
    return check_model_name(f"{number:06d}-{label}")


def check_model_name(name: str) -> str:
    """Returns name if a model's folder may have it, numbered or not; otherwise raises UsageError."""
    if not _NAME.fullmatch(name) or VERSUS in name or name == CHAMPION:
        raise UsageError(
            f"model name {name!r}: wanted letters, digits, '.', '_' and '-', no {VERSUS!r} and not {CHAMPION!r}, "
            "e.g. 000018-name"
        )
    return name


def number_of(model: str) -> int | None:
    """The number in a model's name, ``000018-label``; None if it isn't of that form."""
    match = _MODEL.fullmatch(model)
    return int(match[1]) if match and VERSUS not in model else None


def checkpoint_path(model: Path) -> Path:
    """The checkpoint of this model's training: hidden, in the same folder."""
    return model.with_name(f".{model.name}.training")


def parse_checkpoint_name(name: str) -> str | None:
    """The name of the model that a checkpoint's folder will become; None for any other folder."""
    match = _CHECKPOINT.fullmatch(name)
    return match[1] if match else None


# Shards


class GamesFolder(NamedTuple):
    """The folder of a model's games in a generation."""

    generation: int
    model: str

    def __str__(self) -> str:
        is_own = number_of(self.model) == self.generation
        return self.model if is_own else f"{self.generation:06d}+{self.model}"


def games_folder(model: str, generation: int) -> GamesFolder:
    """The generation is at least the model's number. Raises UsageError for an invalid model name or generation."""
    own = number_of(check_model_name(model))
    if own is not None:
        generation = max(generation, own)
    if not 0 <= generation <= MAX_NUMBER:
        raise UsageError(f"generation {generation}: wanted 0 to {MAX_NUMBER}")
    return GamesFolder(generation, model)


def parse_games_folder(name: str) -> GamesFolder | None:
    """The parts of a folder's name; None if it isn't a folder of games."""
    if match := _GAMES.fullmatch(name):
        return GamesFolder(int(match[1]), match[2])
    number = number_of(name)
    return None if number is None else GamesFolder(number, name)


class ShardName(NamedTuple):
    """Time and number strictly increase within a worker's folder."""

    time: datetime  # UTC
    number: int  # 1, 2, …

    @property
    def stem(self) -> str:
        return f"{self.time.astimezone(UTC).strftime(TIME_FORMAT)}-{self.number:06d}"

    @property
    def shard(self) -> str:
        return self.stem + SHARD_SUFFIX

    @property
    def meta(self) -> str:
        return self.stem + META_SUFFIX


def parse_shard_name(name: str) -> ShardName | None:
    """The parts of a shard's or a sidecar's file name; None if it is neither."""
    match = _SHARD.fullmatch(name)
    if not match:
        return None
    try:
        time = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return ShardName(time, int(match[2])) if 2000 <= time.year <= 9998 else None  # so that adding hours can't overflow


def shard_named(stem: str) -> ShardName:
    """Raises ValueError if no shard has this name without a suffix."""
    name = parse_shard_name(f"{stem}{SHARD_SUFFIX}")
    if name is None:
        raise ValueError(f"a shard {str(stem)[:40]!r}")
    return name


@dataclass(frozen=True, order=True)
class PackName:
    """Many shards in one file: see packs.py."""

    last: ShardName
    count: int  # of shards

    @property
    def stem(self) -> str:
        return f"{self.last.stem}x{self.count:05d}"

    @property
    def shard(self) -> str:
        return self.stem + SHARD_SUFFIX

    @property
    def meta(self) -> str:
        return self.stem + META_SUFFIX


def parse_pack_name(name: str) -> PackName | None:
    """The parts of the name of a pack or its sidecar; None if it is neither."""
    match = _PACK.fullmatch(name)
    last = parse_shard_name(match[1] + META_SUFFIX) if match else None
    return PackName(last, int(match[2])) if match and last and int(match[2]) else None


def shard_folder(directory: Path, model: str, worker: str, generation: int) -> Path:
    """The folder for a worker's games of a model in a generation. Raises UsageError for an invalid model or worker."""
    if not _WORKER.fullmatch(worker):
        raise UsageError(f"worker {worker!r}: wanted letters, digits, '_' and '-', e.g. w03")
    return directory / str(games_folder(model, generation)) / worker


def is_worker_name(name: str) -> bool:
    return _WORKER.fullmatch(name) is not None


def meta_path(shard: Path) -> Path:
    return shard.with_suffix(META_SUFFIX)


def shard_id(path: Path) -> str:
    """``FOLDER/WORKER/FILE.gz``, which identifies a shard wherever the run is. path: the shard or its sidecar."""
    return "/".join((*path.parts[-3:-1], path.stem + SHARD_SUFFIX))


# Chunks


class SetName(NamedTuple):
    number: int  # counts the sets made in a folder, so that names sort by age
    digest: str  # eight hexadecimal digits: a hash of window, settings and seed

    def __str__(self) -> str:
        return f"{self.number:06d}-{self.digest}"


@dataclass(frozen=True, order=True)
class ChunkName:
    set: SetName
    index: int  # from 0; -1 for the hold-out
    count: int  # chunks in the set without the hold-out; 0 for the hold-out


def chunk_name(set_name: SetName, index: int, count: int) -> str:
    """Raises UsageError for numbers that a name can't have."""
    if not 0 <= index < count <= MAX_CHUNKS or not 0 <= set_name.number <= MAX_NUMBER:
        raise UsageError(f"chunk {index} of {count} of set {set_name}: wanted at most {MAX_CHUNKS} chunks in a set")
    return f"{set_name}-{index:04d}-of-{count:04d}{CHUNK_SUFFIX}"


def holdout_name(set_name: SetName) -> str:
    return f"{set_name}-holdout{CHUNK_SUFFIX}"


def parse_chunk_name(name: str) -> ChunkName | None:
    """The parts of a chunk's or hold-out's file name; None if it is neither."""
    match = _CHUNK.fullmatch(name)
    if not match:
        return None
    set_name = SetName(int(match[1]), match[2])
    if match[3] is None:
        return ChunkName(set_name, -1, 0)
    index, count = int(match[3]), int(match[4])
    return ChunkName(set_name, index, count) if index < count else None


def priorities_name(set_id: str) -> str:
    return f"{set_id}-priorities.safetensors"


def parse_priorities_name(name: str) -> SetName | None:
    """The set of a file of priorities; None for any other file."""
    match = _PRIORITIES.fullmatch(name)
    return SetName(int(match[1]), match[2]) if match else None


# Matches


def check_player_name(name: str) -> str:
    """Returns name if a player may have it: as a model's folder, but also with '@'; otherwise raises UsageError."""
    if not _is_player_name(name):
        raise UsageError(
            f"player name {name!r}: wanted letters, digits, '.', '_', '-' and '@', a letter or digit first, "
            f"no {VERSUS!r} and not {CHAMPION!r}, e.g. 000018-name@800"
        )
    return name


def _is_player_name(name: str) -> bool:
    # The "-" is appended because "a-vs-vs-b" could be a match of "a-vs" with "b" or of "a" with "vs-b".
    return _PLAYER.fullmatch(name) is not None and VERSUS not in f"{name}-" and name != CHAMPION


def match_name(challenger: str, champion: str) -> str:
    """``CHALLENGER-vs-CHAMPION``. Raises UsageError for invalid players' names."""
    return f"{check_player_name(challenger)}{VERSUS}{check_player_name(champion)}"


def parse_match_name(name: str) -> tuple[str, str] | None:
    """(challenger, champion); None if it isn't the name of a match."""
    challenger, versus, champion = name.partition(VERSUS)
    if not versus or not _is_player_name(challenger) or not _is_player_name(champion):
        return None
    return challenger, champion


def evaluation_name(model: str) -> str:
    """The file of a model's evaluation by evaluate --watch. Raises UsageError for an invalid model name."""
    return check_model_name(model) + ".json"


def parse_evaluation_name(name: str) -> str | None:
    """The model's name; None if it isn't the file of an evaluation."""
    model = name.removesuffix(".json")
    return model if model != name and number_of(model) is not None else None


# Temporaries and locks


class TemporaryName(NamedTuple):
    name: str  # after the rename
    host: str
    pid: int
    time: datetime  # when the writing began


@lru_cache(maxsize=1)
def this_host() -> str:
    """This machine's name in characters that temporary names can have. A container's name includes its PID namespace:
    its host name may be its machine's, but its process ids are its own.
    """
    name = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not Linux
        return name
    return name if namespace == HOST_PID_NAMESPACE else f"{name}-{namespace}"


def temporary_path(path: Path) -> Path:
    """A new hidden name in the same folder, with the host and process that write it and the time of the start."""
    who = f"{this_host()}~{os.getpid()}~{datetime.now(UTC):{SECOND_FORMAT}}"
    return path.with_name(f".{path.name}~{who}~{secrets.token_hex(4)}.tmp")


def parse_temporary_name(name: str) -> TemporaryName | None:
    match = _TEMPORARY.fullmatch(name)
    if match is None:
        return None
    try:
        time = datetime.strptime(match[4], SECOND_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return TemporaryName(match[1], match[2], int(match[3]), time)


def lock_path(path: Path) -> Path:
    """The lock of a file or folder: hidden, beside it."""
    return path.with_name(f".{path.name}.lock")


# Runs in object storage: a bucket has the contents of data/ and saved_models/ under the same names, except weights

WORKING_COPY = ".mugo-copy.json"  # in the folder of a run
LISTED = ".listed"  # in the folder of a model or match: it is in the bucket, whether its files are here or not
WHOLE = ".whole"  # in the folder of all models, games or matches: it was listed from its beginning
FORGOTTEN = ".forgotten"  # in a folder of games: no window needs them, so the shards were removed here
CLOSED = ".closed"  # in a folder of games or a worker's: it was listed after the last game of that generation
INTENT = f".{PROMOTIONS}.intent"  # of a promotion in progress

Parts = tuple[str, ...]
"""The parts of a path below the folder of a run."""


def end_of_run(parts: Parts, is_run: bool) -> int | None:
    """The number of parts of an address that are the folder of a run; None if it leads into no run.

    A run may be below another folder named data, so the run ends before the last data/ that is followed by selfplay/, …
    or saved_models/ that is followed by a model; if there is none, before the last folder of these names. is_run: the
    address may be that of a run; then nothing may follow in this last case.
    """
    named = [at for at, part in enumerate(parts) if at and part in (DATA, SAVED_MODELS.name)]
    known = [at for at in named if _is_below(parts[at], "".join(parts[at + 1 : at + 2]))]
    if known:
        return known[-1]
    return named[-1] if named and (not is_run or named[-1] == len(parts) - 1) else None


def _is_below(folder: str, name: str) -> bool:
    if folder == DATA:
        return name in (SELFPLAY, TRAINING, LOGS, EVALUATE, TOURNAMENT, POOL, RATINGS)
    # In player specs more may follow the model: best_model>=0.5
    return name.startswith(CHAMPION) or name == PROMOTIONS or _MODEL.match(name) is not None


def is_shared(parts: Parts) -> bool:
    """Whether the bucket has a file: all but temporary files, locks, checkpoints, SGF, and tracked numbers for others
    than TensorBoard.
    """
    if len(parts) < 2 or parts[0] not in (DATA, SAVED_MODELS.name):
        return False
    if parts == (SAVED_MODELS.name, INTENT):
        return True
    if any(part.startswith(".") for part in parts):
        return False
    if parts[:2] == (DATA, LOGS):
        return parts[-1] == POINTS or parts[-1].startswith(EVENTS)
    return MATCH_SGF not in parts[2:-1]


def is_written_once(parts: Parts) -> bool:
    """Whether a shared file never changes: shards, sidecars, packs, chunks and the files of models."""
    if parts[0] == SAVED_MODELS.name:
        return len(parts) == 3
    name = parts[-1]
    if parts[1] == SELFPLAY:
        return parse_shard_name(name) is not None or parse_pack_name(name) is not None
    return parse_chunk_name(name) is not None or (parts[1] == LOGS and name.startswith(EVENTS))


def has_known_name(parts: Parts) -> bool:
    """Whether a file that changes has a name that commands use: other files below data/ may be a user's own."""
    name = parts[-1]
    if parts[0] == SAVED_MODELS.name:
        return name in (CHAMPION, PROMOTIONS, INTENT)
    if name in (MATCH_GAMES, MATCH_SUMMARY, MATCH_RESULTS, POOL, RATINGS, PRUNED):
        return True
    is_evaluation = parts[-2] == WATCH and parse_evaluation_name(name) is not None
    return is_evaluation or parse_priorities_name(name) is not None


def is_kept_by_all(parts: Parts) -> bool:
    """Whether a file that changes must be read before it is replaced: others are copies, or can be made again."""
    return parts[-1] in (CHAMPION, PROMOTIONS, INTENT, MATCH_GAMES, POOL, PRUNED)


def model_file_key(model: str, name: str, sha256: str) -> str:
    """The key of a model's file other than model.json. It contains the file's checksum: if two trainings make models of
    the same name, only one of them commits model.json, which has the checksums of its files.
    """
    return f"{SAVED_MODELS.name}/.files/{model}/{sha256[:16]}-{name}"


def number_in(parts: Parts, name: str) -> int:
    """The number by which a folder with this name sorts in the folder of these parts: that of a model, of a generation
    or of a match's challenger. -1: it has none.
    """
    if parts == (SAVED_MODELS.name,):
        number = number_of(name)
        return -1 if number is None else number
    if parts == (DATA, SELFPLAY):
        games = parse_games_folder(name)
        return games.generation if games else -1
    match = _MODEL.match(name) if parts == (DATA, EVALUATE) else None
    return int(match[1]) if match else -1
