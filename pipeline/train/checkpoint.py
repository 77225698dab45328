"""The checkpoint of a training run: one file in a hidden folder beside the run's future model.

It holds weights, the optimiser's state, priorities if any, and the run's progress, with a key that identifies the run
and a checksum over everything. Writing replaces it atomically, so a kill leaves the previous one. A run locks the
folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from pipeline.progress import Progress
from pipeline.run import atomic, layout
from pipeline.run.arrays import pack
from pipeline.run.models import has_model, models_in_training

Arrays = dict[str, NDArray[Any]]

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class State:
    """What a checkpoint holds. progress: JSON that only the run interprets."""

    progress: dict[str, Any]
    weights: Arrays
    optimizer: Arrays
    replay: Arrays  # {} without priorities


class Checkpoint:
    """``with Checkpoint(folder, key) as checkpoint``: makes and locks the folder; removes it if it stays empty.

    Raises Busy if another process has the lock, FileError if the folder can't be made.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self._file = folder / FILE

    def __enter__(self) -> Checkpoint:
        # The lock file is inside the folder, so it is removed with it.
        busy = f"{self._folder}: another process is training this model; wait until it is done"
        self._lock = atomic.file_lock(self._file, wait=False, busy=busy)
        self._lock.__enter__()
        atomic.sweep(self._folder)
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self._file.exists():
            self.remove()
        self._lock.__exit__(*exception)

    def read(self, progress: Progress, check: Callable[[State], None] = lambda state: None) -> State | None:
        """The state of an interrupted run with this key; None and a message if it is damaged or another run's.

        check: raises ValueError or KeyError for a state that the run can't resume from.
        """
        if not self._file.exists():
            return None
        try:
            with safetensors.safe_open(self._file, framework="np") as opened:
                metadata = opened.metadata() or {}
                names = list(opened.keys())
                arrays = {name: opened.get_tensor(name) for name in names}
            if metadata["sha256"] != _digest(metadata["key"], metadata["progress"], arrays):
                raise ValueError("its checksum doesn't match")
            if metadata["key"] != self._key:
                progress.say("the checkpoint found is of other settings, chunks or another model: starting over")
                return None
            state = State(atomic.load_json(metadata["progress"]), {}, {}, {})
            for name, array in arrays.items():
                group, _, rest = name.partition("/")
                {"weights": state.weights, "optimizer": state.optimizer, "replay": state.replay}[group][rest] = array
            check(state)
        except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            progress.warn(f"{self._file}: damaged ({' '.join(str(error).split())}): starting over")
            return None
        return state

    def write(self, state: State) -> None:
        """Replace the checkpoint. Raises FileError if the disk is full or read-only."""
        groups = {"weights": state.weights, "optimizer": state.optimizer, "replay": state.replay}
        arrays = {f"{group}/{name}": array for group, named in groups.items() for name, array in named.items()}
        progress = json.dumps(state.progress)
        metadata = {"key": self._key, "progress": progress, "sha256": _digest(self._key, progress, arrays)}
        atomic.write_bytes(self._file, pack(arrays, metadata))

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def finished_checkpoints(saved_models: Path) -> list[Path]:
    """Checkpoints whose model exists: leftovers of a kill between writing the model and removing the checkpoint."""
    begun = (saved_models / name for name in models_in_training(saved_models))
    return [layout.checkpoint_path(model) for model in begun if has_model(model)]


def remove_finished(saved_models: Path) -> None:
    for folder in finished_checkpoints(saved_models):
        shutil.rmtree(folder, ignore_errors=True)


def _digest(key: str, progress: str, arrays: Arrays) -> str:
    listed = [(name, str(arrays[name].dtype), arrays[name].shape) for name in sorted(arrays)]
    digest = hashlib.sha256(json.dumps([key, progress, listed]).encode())
    for name, _, _ in listed:
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
