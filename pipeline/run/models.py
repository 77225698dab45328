"""Models: directories in saved_models/; the champion; the journal of promotions.

A model is ``model.json`` (what it is and where it came from), ``weights.safetensors`` and, if training can continue
from it, ``optimizer.safetensors``; if it was trained and its method runs networks in int8, also
``calibration.safetensors``. It is renamed into place as a whole and never changes. Float16 arrays, which exported
models have, are read as float32. This module handles arrays; networks/ and train/ know what they mean.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, field_validator
from safetensors import SafetensorError

from pipeline.errors import FileError
from pipeline.games import specs
from pipeline.games.capabilities import seen_by
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.run import atomic, layout
from pipeline.run.arrays import pack
from pipeline.run.store.base import current_store
from pipeline.schedules import START, RunState

FORMAT = "mugo-model"
Weights = dict[str, NDArray[Any]]
MODEL_JSON_IS = "the description of a model"
PLANES = "planes"  # the array in calibration.safetensors
LOOKS_SHARE = 0.01  # the most time that may go into looking for the newest model
QUICK_SECONDS = 0.001  # a look that takes no longer isn't put off
LONGEST_SECONDS = 10.0  # the longest that a look is put off


class FileStamp(BaseModel, frozen=True):
    """Size and checksum of a file beside model.json."""

    bytes: int = Field(ge=0)
    sha256: str


class KnownFacts(BaseModel, frozen=True):
    """The fields of a model's manifest that commands read. Everything else in it is only shown."""

    total_samples: int = Field(0, ge=0, lt=2**63, description="Of the trainings of the model and its ancestors.")
    seconds: float | None = Field(None, ge=0, le=1e9, description="Of its training.")
    metrics: dict[str, dict[str, Any] | None] = Field({}, description="By part: train, holdout_before, holdout_after.")
    window: dict[str, Any] = Field({}, description="The window of its chunks.")
    config: dict[str, Any] = Field({}, description="Settings in effect.")


class ModelInfo(BaseModel, frozen=True):
    """model.json: what a model is and where it came from."""

    format: Literal["mugo-model"] = "mugo-model"
    version: Literal[1] = 1
    name: str = Field(description="Name of its directory when made.")
    number: int = Field(ge=0, lt=2**31, description="0 for an initial model, then counting up.")
    game: str = Field(description="Canonical game spec.")
    architecture: dict[str, Any]
    method: str = Field(description="How it learned.")
    parents: list[str] = Field(default_factory=list, description="Names of the models it was trained from.")
    created: str = Field(default_factory=atomic.utc_now, description="UTC, ISO 8601.")
    manifest: dict[str, Any] = Field(
        default_factory=dict, description="How it was made: config, data window, commit, seeds, metrics."
    )
    files: dict[str, FileStamp] = Field(default_factory=dict, description="Set by write_model.")

    @field_validator("manifest")
    @classmethod
    def _has_readable_facts(cls, manifest: dict[str, Any]) -> dict[str, Any]:
        try:
            KnownFacts.model_validate(manifest)
        except ValidationError as error:
            raise ValueError(atomic.first_problem(error)) from error
        return manifest


Files = Mapping[str, bytes]  # of a model, by name


@dataclass(frozen=True)
class Model:
    """files: of a model in memory; None: it is on the disk, at path."""

    path: Path
    info: ModelInfo
    weights: Weights
    files: Files | None = None


# Writing and reading


def write_model(
    path: Path,
    info: ModelInfo,
    weights: Weights,
    optimizer: Weights | None = None,
    calibration: NDArray[np.uint8] | None = None,
    others: Mapping[str, bytes] | None = None,
) -> None:
    """Make a model directory atomically. calibration: see read_calibration; others: files that other programs read.

    Raises FileError if path exists or can't be written, UsageError for an invalid name.
    """
    layout.check_model_name(path.name)
    blobs = {layout.WEIGHTS: pack(weights)}
    if optimizer is not None:
        blobs[layout.OPTIMIZER] = pack(optimizer)
    if calibration is not None:
        blobs[layout.CALIBRATION] = pack({PLANES: calibration})
    stamps = {name: FileStamp(bytes=len(b), sha256=hashlib.sha256(b).hexdigest()) for name, b in blobs.items()}
    info = info.model_copy(update={"name": path.name, "files": stamps})
    with atomic.new_directory(path) as folder:
        for name, blob in {**blobs, **(others or {})}.items():
            (folder / name).write_bytes(blob)
        (folder / layout.MODEL_JSON).write_bytes(info.model_dump_json(indent=2).encode() + b"\n")


def read_info(path: Path) -> ModelInfo:
    """A model's model.json. Raises FileError if it is missing, damaged or of another version."""
    if not path.is_dir() and not has_model(path):
        raise FileError(path, "no such directory; wanted a model directory; `python main.py init` makes a first one")
    return atomic.read_record(path / layout.MODEL_JSON, ModelInfo, MODEL_JSON_IS)


def read_model(path: Path, files: Files | None = None) -> Model:
    """A model with its weights. files: from model_files(), if it isn't on this disk.

    Raises FileError if a file is missing or differs from what model.json says.
    """
    if files is None:
        info = read_info(path)
    else:
        raw = atomic.load_json(files[layout.MODEL_JSON].decode())
        info = atomic.parse_record(path / layout.MODEL_JSON, ModelInfo, raw, MODEL_JSON_IS)
    return Model(path, info, _read_arrays(path / layout.WEIGHTS, info, files), files)


def model_files(path: Path) -> dict[str, bytes]:
    """The files that playing with a model needs. Raises FileError if one is missing."""
    stamped = read_info(path).files
    names = [layout.MODEL_JSON, *(name for name in (layout.WEIGHTS, layout.CALIBRATION) if name in stamped)]
    return {name: atomic.read_bytes(path / name, "a part of a model") for name in names}


def read_optimizer(path: Path) -> Weights | None:
    """The state of a model's optimiser; None if there is none. Raises FileError like read_model."""
    info = read_info(path)
    return _read_arrays(path / layout.OPTIMIZER, info) if layout.OPTIMIZER in info.files else None


def read_calibration(model: Model) -> NDArray[np.uint8] | None:
    """[N, bytes] the planes of N positions from its training window, by numpy.packbits in C order; None if it has none.

    Positions 0, 2, 4 … are from one half of the games, the others from the other half. The caller checks that they fit
    the model's network. Raises FileError like read_model.
    """
    if layout.CALIBRATION not in model.info.files:
        return None
    found = _read_arrays(file := model.path / layout.CALIBRATION, model.info, model.files).get(PLANES)
    if found is None or found.dtype != np.uint8 or found.ndim != 2 or not len(found) or len(found) % 2:
        shown = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
        raise FileError(file, f"damaged: its {PLANES} are {shown}; wanted uint8, an even number of positions")
    return found


def _read_arrays(file: Path, info: ModelInfo, files: Files | None = None) -> Weights:
    stamp = info.files.get(file.name)
    if stamp is None:
        raise FileError(file.parent / layout.MODEL_JSON, f"damaged: it has no checksum of {file.name}")
    data = atomic.read_bytes(file, "the arrays of a model") if files is None else files[file.name]
    atomic.check_content(file, data, stamp.bytes, stamp.sha256, layout.MODEL_JSON)
    try:
        arrays = safetensors.numpy.load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileError(file, f"not readable as safetensors ({error})") from error
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()}


def check_game(info: ModelInfo, spec: str, path: Path | str | None = None) -> None:
    """Raises FileError unless the model plays the game with this canonical spec."""
    if game_as_seen(info, parse_game(spec)) is None:
        raise FileError(path or info.name, f"it plays {info.game}; wanted a model that plays {spec}")


def game_as_seen(info: ModelInfo, game: AnyGame) -> AnyGame | None:
    """The game as the model sees it, see capabilities.seen_by; None if the model can't play it."""
    return game if info.game == game.spec else seen_by(parse_game(info.game), game)


def trust_games(paths: Iterable[Path]) -> None:
    """Let data files name the games of other packages that models of these paths' runs name, and no others.

    A path is in a run if it is the run's folder, or in its data/ or saved_models/. Models are read only when a data
    file names another package's game.
    """
    places = sorted({Path(os.path.abspath(path)) for path in paths})
    specs.TRUSTED[:] = [partial(_games_named, place) for place in places]


def _games_named(place: Path) -> Iterator[str]:
    """The game specs of the readable models of the run around this place, newest first."""
    for folder in (place, *place.parents):
        if folder.is_dir() and place.relative_to(folder).parts[:1] in ((), (layout.DATA,), (layout.SAVED_MODELS.name,)):
            for path in newest_models(folder / layout.SAVED_MODELS):
                with suppress(FileError):
                    yield read_info(path).game


# Which models there are


def list_models(folder: Path) -> list[Path]:
    """The numbered models in a folder, oldest first; none if it is missing."""
    return [*newest_models(folder)][::-1]


def has_model(path: Path) -> bool:
    """Whether there is a model, here or in object storage."""
    if current_store().is_listed(path):
        return True
    atomic.bring(description := path / layout.MODEL_JSON)
    return os.path.isfile(description)  # also False for a name that the file system refuses


def newest_models(folder: Path) -> Iterator[Path]:
    """Like list_models, but newest first, and lazy: looks into a model's folder only when it comes to it."""
    names = sorted(atomic.names_in(folder), reverse=True)
    return (folder / name for name in names if layout.number_of(name) is not None and has_model(folder / name))


def models_in_training(folder: Path) -> list[str]:
    """Names of the models whose checkpoint is in the folder: their training has begun and hasn't ended."""
    return sorted(filter(None, map(layout.parse_checkpoint_name, atomic.names_in(folder))))


def newest_model(folder: Path) -> Path:
    """Raises FileError if there is none."""
    newest = next(newest_models(folder), None)
    if newest is None:
        raise FileError(folder, "no models here; wanted at least one; `python main.py init` makes a first one")
    return newest


def newest_info(folder: Path) -> ModelInfo | None:
    """None if there is no model. Raises FileError like read_info."""
    newest = next(newest_models(folder), None)
    return None if newest is None else read_info(newest)


def newest_number(folder: Path, without: int = 0) -> int:
    """The number of the newest model, which is the generation of games that begin now. without: if there is none."""
    numbers = (layout.number_of(path.name) for path in newest_models(folder))
    return next((number for number in numbers if number is not None), without)


class NewestNumber:
    """newest_number() for callers that ask at every game. If listing the models is slow, an answer is kept for some
    seconds: see LOOKS_SHARE. For any thread: at worst two of them look at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = (0, -1.0)  # (number, time until which it is kept)

    def __call__(self) -> int:
        begun = time.monotonic()
        number, until = self._seen
        if begun < until:
            return number
        number = newest_number(self._folder)
        took = time.monotonic() - begun
        if took > QUICK_SECONDS:
            self._seen = number, begun + min(took / LOOKS_SHARE, LONGEST_SECONDS)
        return number


def next_model_path(folder: Path, label: str) -> Path:
    """The path of the next model: its number is one more than the folder's highest, or 0."""
    return folder / layout.model_name(newest_number(folder, without=-1) + 1, label)


# How far the run has come: settings with a schedule depend on it


def state_of(info: ModelInfo | None, time_share: float | None = None) -> RunState:
    """A model's own generation, samples and share of time; START without a model.

    time_share: the share if the model's manifest has none.
    """
    if info is None:
        return START
    share = info.manifest.get("config", {}).get("time_share")
    if not isinstance(share, int | float) or isinstance(share, bool):
        share = 0.0 if info.number == 0 else time_share
    return RunState(info.number, int(info.manifest.get("total_samples", 0)), share)


def state_of_next(folder: Path, time_share: float | None = None) -> RunState:
    """The state in which the generation after the folder's newest model is made; time_share: as above."""
    newest = newest_info(folder)
    state = RunState(0, 0, time_share) if newest is None else state_of(newest, time_share)
    return replace(state, generation=state.generation + 1)


# The champion


def with_pretrained(path: Path) -> Path:
    """path; for a pretrained/NAME that doesn't exist, the model of this name that comes with MuGo."""
    if path.parts[:1] != (layout.PRETRAINED,) or os.path.lexists(path):
        return path
    return _home_of_pretrained() / path


def _home_of_pretrained() -> Path:
    package = Path(__file__).parents[1]  # where an installed MuGo has them; a checkout has them beside the package
    return package if (package / layout.PRETRAINED).is_dir() else package.parent


def pretrained_models() -> list[Path]:
    """The models that come with MuGo, by name."""
    folder = _home_of_pretrained() / layout.PRETRAINED
    paths = [folder / name for name in sorted(atomic.names_in(folder))]
    return [path for path in paths if os.path.isfile(path / layout.MODEL_JSON)]


def resolve_champion(path: Path) -> Path:
    """The real directory of ``saved_models/best_model``, or of any other path to a model; see with_pretrained.

    Resolve once and keep the answer, because best_model may change. Raises FileError if there is no model.
    """
    path = with_pretrained(path)
    if path.name == layout.CHAMPION:
        check_champion(path.parent)
    else:
        atomic.bring(path / layout.MODEL_JSON)
    if not os.path.lexists(path):
        champion = "no champion yet; wanted a symlink to a model; to make a first one run `python main.py init`"
        problem = champion if path.name == layout.CHAMPION else "no such model; wanted a model directory"
        raise FileError(path, problem)
    real = Path(os.path.realpath(path))
    if not has_model(real):
        found = f"it points to {os.readlink(path)}, where no model is" if path.is_symlink() else "no model is here"
        raise FileError(path, f"{found}; wanted a directory with {layout.MODEL_JSON}; re-point or restore it")
    return real


def home_of(given: Path, model: Path) -> Path:
    """The folder of the run's models: where best_model is, which may point elsewhere; of another model its own.

    model: what resolve_champion() found for the path that was given.
    """
    return (given if given.name == layout.CHAMPION else model).parent


def check_champion(saved_models: Path, making: Path | None = None) -> None:
    """Raises FileError if this folder must have a champion, but its best_model is no link to a model.

    Copy tools lose the link, or make a directory or file of it. A folder must have a champion if it has a journal or
    models, except for a first model alone: init was stopped before it made the link. making: the model that init makes,
    or has made; any other one beside it counts.
    """
    link = saved_models / layout.CHAMPION
    atomic.bring(link)
    if link.is_symlink() and has_model(Path(os.path.realpath(link))):
        return
    journal = read_journal(saved_models)
    names = [path.name for path in newest_models(saved_models) if making is None or path.name != making.name]
    is_first_alone = making is None and len(names) == 1 and newest_number(saved_models) == 0
    if not journal and (not names or is_first_alone):
        return
    if link.is_symlink():
        found = f"it points to {os.readlink(link)}, where no model is"
    elif os.path.lexists(link):
        found = f"it is a {'directory' if link.is_dir() else 'file'}"
    else:
        beside = f"a journal with the promotion of {journal[-1].get('champion')}" if journal else f"models ({names[0]})"
        found = f"no such link, but the folder has {beside}"
    if target := champion_to_restore(saved_models):
        run = os.path.relpath(os.path.dirname(os.path.abspath(saved_models)))
        remedy = f"`python main.py verify{'' if run == '.' else f' {shlex.quote(run)}'} --repair` points it to {target}"
    else:
        name = names[0] if names else "MODEL"
        remedy = f"if {name} is the champion, move away what is there, and `ln -s {name} {shlex.quote(str(link))}`"
    raise FileError(link, f"{found}; wanted a symlink to the champion; {remedy}")


def champion_to_restore(saved_models: Path) -> str | None:
    """The target that best_model should have: of the last promotion, else the model of which what is there is a copy.

    None: it isn't known, or no model is there.
    """
    link, journal = saved_models / layout.CHAMPION, read_journal(saved_models)
    text: object = None
    if journal:
        text = journal[-1].get("champion")
    elif link.is_dir():
        with suppress(FileError):
            text = read_info(link).name
    elif link.is_file():
        text = link.read_bytes()[:300].decode(errors="replace").strip()
    return text if isinstance(text, str) and text and "\0" not in text and has_model(saved_models / text) else None


def restore_champion(saved_models: Path) -> str | None:
    """Point best_model to the champion again, where check_champion refuses; returns its target, None if it isn't known.

    A copy of the champion in the place of the link is removed, anything else there gets another name.
    """
    link = saved_models / layout.CHAMPION
    with atomic.file_lock(link):
        if (target := champion_to_restore(saved_models)) is None:
            return None
        if os.path.lexists(link) and not link.is_symlink():
            with atomic.os_errors(link):
                if link.is_dir() and has_model(link) and read_info(link) == read_info(saved_models / target):
                    shutil.rmtree(link)
                else:
                    link.rename(link.with_name(f"{link.name}.moved"))
        atomic.replace_symlink(link, target)
        return target


def present_champion(saved_models: Path) -> Path | None:
    """The real directory of best_model in this folder; None if there is no link or it leads to no model."""
    link = saved_models / layout.CHAMPION
    atomic.bring(link)
    return real if link.is_symlink() and has_model(real := Path(os.path.realpath(link))) else None


def set_champion(saved_models: Path, target: Path, entry: dict[str, Any], over: Path | None = None) -> Path | None:
    """Point best_model to target and append to promotions.jsonl, under a lock.

    entry  the reason as JSON: the match, its result, …; champion, previous and time are added
    over   do so only if best_model points to this model: another process may have been first
    Returns the present champion: target, unless best_model doesn't point to over (None: best_model is missing).
    Repeating the last promotion changes nothing. After a kill, the next call of this function or of read_promotions
    completes the journal. Raises FileError if target is not a model.
    """
    target = Path(os.path.realpath(target))
    if not has_model(target):
        raise FileError(target, f"no model is here; wanted a directory with {layout.MODEL_JSON}")
    link = saved_models / layout.CHAMPION
    atomic.make_folder(saved_models)
    with atomic.file_lock(link):
        atomic.sweep(saved_models)
        _settle(saved_models)
        present = present_champion(saved_models)
        text = os.path.relpath(target, os.path.realpath(saved_models))
        previous = os.readlink(link) if link.is_symlink() else None
        now = atomic.utc_now("microseconds")
        line = {"champion": text, "previous": previous, "time": now, **json.loads(json.dumps(entry))}
        journal = read_journal(saved_models)
        if previous == text and journal and _reason(journal[-1]) == _reason(line):
            return target
        if over is not None and present != Path(os.path.realpath(over)):
            return present
        # The intent is written first, so that after a kill the link tells whether the promotion happened.
        atomic.write_json(saved_models / layout.INTENT, line)
        atomic.replace_symlink(link, text)
        _settle(saved_models)
        return target


def read_promotions(saved_models: Path) -> list[dict[str, Any]]:
    """The journal, oldest first; empty before the first promotion. Raises FileError if unreadable."""
    if atomic.exists(saved_models / layout.INTENT):
        with atomic.file_lock(saved_models / layout.CHAMPION):
            _settle(saved_models)
    return read_journal(saved_models)


def read_champions(saved_models: Path) -> list[Path]:
    """The real directories of all champions in the journal, oldest first, without repetitions in a row."""
    folder = os.path.realpath(saved_models)
    champions: list[Path] = []
    for line in read_promotions(saved_models):
        for text in (line.get("previous"), line.get("champion")):  # previous may have been set by hand
            path = Path(os.path.realpath(os.path.join(folder, text))) if isinstance(text, str) else None
            if path and (not champions or champions[-1] != path):
                champions.append(path)
    return champions


def _reason(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("previous", "time")}


def _settle(saved_models: Path) -> None:
    """Finish an interrupted promotion: add it to the journal if the link was changed, otherwise forget it."""
    intent = saved_models / layout.INTENT
    if atomic.exists(intent):
        if (line := pending_promotion(saved_models)) is not None:
            atomic.append_line(saved_models / layout.PROMOTIONS, _journal_line(line))
        atomic.remove([intent])


def pending_promotion(saved_models: Path) -> dict[str, Any] | None:
    """A promotion that happened, but that a kill kept out of the journal; None if there is none. Writes nothing."""
    intent, link = saved_models / layout.INTENT, saved_models / layout.CHAMPION
    if not atomic.exists(intent):
        return None
    atomic.bring(link)
    line = atomic.read_json(intent, "a promotion in progress")
    journal = read_journal(saved_models)
    happened = link.is_symlink() and os.readlink(link) == line.get("champion")
    return line if happened and (not journal or journal[-1] != line) else None


def read_journal(saved_models: Path) -> list[dict[str, Any]]:
    """Like read_promotions, but writes nothing: an interrupted promotion may be missing."""
    return [line for _, line in _journal_lines(saved_models) if line is not None]


def damaged_promotions(saved_models: Path, pending: dict[str, Any] | None) -> list[int]:
    """The numbers, from 1, of the journal's lines that are neither a promotion nor one that a kill cut off and the next
    promotion repeats. pending: from pending_promotion.
    """
    damaged: list[int] = []
    following = b"" if pending is None else _journal_line(pending).encode()
    for number, (data, line) in reversed([*enumerate(_journal_lines(saved_models), 1)]):
        if line is not None:
            following = data
        elif not following.startswith(data):
            damaged.insert(0, number)
    return damaged


def _journal_line(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False)


def _journal_lines(saved_models: Path) -> list[tuple[bytes, dict[str, Any] | None]]:
    """(bytes, promotion) of each line of the journal; the promotion is None if the line is damaged or unfinished."""
    path = saved_models / layout.PROMOTIONS
    if not atomic.exists(path):
        return []
    lines: list[tuple[bytes, dict[str, Any] | None]] = []
    for data in atomic.read_bytes(path, "the journal of promotions").splitlines():
        line = None
        with suppress(FileError):
            line = atomic.parse_json(path, data, "a promotion")
        lines.append((data, line))
    return lines
