"""Language models on disk, and as players of text games.

A base model is a folder with a causal language model and its tokenizer, as Hugging Face's transformers save them.
Nothing is ever downloaded, no code of the folder is run, and weights are read from safetensors only. A base is
recognised by its fingerprint: a hash of its configuration, its tokenizer, and the names, sizes and ends of its weight
files (all of a small file; hashing all of a large one would take longer than to load it).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.families.text.game import TextGame
from pipeline.games.contract import KeyArray, Rows
from pipeline.machine import available_cores
from pipeline.players.player import BoardsPlayer, Decisions
from pipeline.run import atomic

if TYPE_CHECKING:
    from pipeline.families.text.language.adapters import LoraShape
    from pipeline.families.text.language.base import Base
    from pipeline.families.text.language.generation import Answering, Voice
    from pipeline.families.text.language.server import GenerationServer

CONFIG, TOKENIZER = "config.json", ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
HASHED_BYTES = 1 << 20  # of either end of a file
BASES_KEPT = 4
BACKENDS = ("auto", "torch", "server", "vllm")  # auto is torch, in this process
COUNTERS = 1 << 16  # random numbers of an answer at most


def fingerprint(path: Path) -> str:
    """Raises FileError if the folder has no model or no tokenizer."""
    wanted = "wanted a causal language model as transformers' save_pretrained writes it"
    if not (path / CONFIG).is_file():
        raise FileError(path, f"no {CONFIG} is here; {wanted}; give its folder by --base-model")
    names = atomic.names_in(path)
    weights = sorted(name for name in names if name.endswith(".safetensors"))
    if not weights:
        raise FileError(path, f"no *.safetensors is here; {wanted}, with safe_serialization")
    tokenizer = sorted(name for name in names if name in TOKENIZER)
    if not tokenizer:
        raise FileError(path, "no tokenizer is here; wanted tokenizer.json; save the model's tokenizer to this folder")
    digest = hashlib.sha256()
    for name in (CONFIG, *tokenizer, *weights):
        file = path / name
        digest.update(f"{name} {file.stat().st_size} ".encode())
        with atomic.os_errors(file), file.open("rb") as stream:
            digest.update(stream.read(HASHED_BYTES))
            if file.stat().st_size > 2 * HASHED_BYTES:
                stream.seek(-HASHED_BYTES, os.SEEK_END)
            digest.update(stream.read())
    return digest.hexdigest()


def _checked(path: Path, expected: str | None) -> str:
    """The fingerprint of the folder. Raises FileError if it isn't the expected one."""
    found = fingerprint(path)
    if expected is not None and found != expected:
        raise FileError(
            path,
            f"it is another base model ({found[:8]}) than the adapter was trained on; wanted {expected[:8]}; restore "
            "that folder",
        )
    return found


def load_base(path: Path, expected: str | None = None) -> Base:
    """Raises FileError if it can't be read, or isn't the base with the expected fingerprint."""
    found = _checked(path, expected)
    import torch

    from pipeline.families.text.language.base import Base, transformers_package, without_dropout

    transformers = transformers_package()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
        without_dropout(config)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, config=config, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:  # of many kinds, whatever is wrong with the files
        text = str(error).split("\n")[0]
        raise FileError(path, f"not readable as a language model ({type(error).__name__}: {text})") from error
    end = tokenizer.eos_token_id
    if end is None:
        raise FileError(path, "its tokenizer has no token that ends a text (eos_token); wanted one")
    model.requires_grad_(False)
    model.eval()
    return Base(path, found, model, tokenizer, int(end))


def write_base(path: Path, model: Any) -> None:
    """A folder with the model and the byte tokenizer, whole or not at all. Raises FileError if it exists."""
    from pipeline.families.text.language.base import byte_tokenizer

    with atomic.new_directory(path) as folder:
        model.save_pretrained(folder, safe_serialization=True)
        byte_tokenizer().save_pretrained(folder)


class Voices:
    """The base models that this process has loaded: one for each thread and kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, tuple[str, ...], int], Voice] = OrderedDict()

    def get(self, path: Path, expected: str, targets: Sequence[str], thread: int) -> Voice:
        """Raises FileError like load_base."""
        import torch

        from pipeline.families.text.language.generation import Voice

        key = _checked(path, expected), tuple(targets), thread
        with self._lock:
            if key not in self._known:
                base = load_base(path, expected)
                if torch.cuda.is_available():
                    base.model.to("cuda")
                self._known[key] = Voice(base, targets)
                while len(self._known) > BASES_KEPT and len({one[0] for one in self._known}) > 1:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]


VOICES = Voices()
_SERVERS: list[GenerationServer] = []  # at most one, of this process
_ENGINES: dict[str, Any] = {}  # vLLM's, by the fingerprint of their base


def answering(
    backend: str,
    num_threads: int,
    base: tuple[Path, str],
    shape: LoraShape,
    weights: Mapping[str, NDArray[Any]],
    words: tuple[str, str],
) -> list[Answering]:
    """What answers in each thread, by one of BACKENDS. base: its folder and fingerprint; words: template and reading.

    Raises FileError for a base that can't be read, UsageError for a backend that isn't installed, MuGoError for weights
    of another base.
    """
    import torch

    from pipeline.families.text.language.generation import Speaker

    torch.set_num_threads(max(1, available_cores() // num_threads))
    if backend == "server":
        from pipeline.families.text.language.server import GenerationServer, RemoteAdapter, RemoteSpeaker

        _checked(*base)
        tokenizer = _tokenizer(base[0])
        if not _SERVERS:
            _SERVERS.append(GenerationServer("pipeline.families.text.language.server_process"))
        adapter = RemoteAdapter(_SERVERS[0], base, shape, weights, *words)
        return [RemoteSpeaker(adapter, thread, tokenizer, *words) for thread in range(num_threads)]
    if backend == "vllm":
        from pipeline.families.text.language.vllm import Engine, VllmSpeaker

        fingerprint = _checked(*base)
        if fingerprint not in _ENGINES:
            _ENGINES[fingerprint] = Engine(base[0], _tokenizer(base[0]), shape.rank)
        return [VllmSpeaker(_ENGINES[fingerprint], shape, weights, *words)] * num_threads
    voices = [VOICES.get(*base, shape.targets, thread) for thread in range(num_threads)]
    return [Speaker(voice, shape, weights, *words) for voice in voices]


def _tokenizer(path: Path) -> Any:
    from pipeline.families.text.language.base import transformers_package

    return transformers_package().AutoTokenizer.from_pretrained(path, local_files_only=True)


class SpeakingPlayer(BoardsPlayer):
    """A language model that plays a text game: all its waiting rows are answered in one batch."""

    def __init__(self, game: TextGame, num_rows: int, speaker: Answering, temperature: float) -> None:
        super().__init__(game, num_rows)
        self._game, self._speaker, self._temperature = game, speaker, temperature
        self._keys = np.zeros(num_rows, np.uint64)

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        super().new_games(rows, seeds)
        self._keys[rows] = seeds

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if not rows.size:
            return Decisions.none()
        game, states = self._game, self._boards.states[rows]
        prompts = [self._speaker.prompt_tokens(game.observation(state), game.prompt_tokens) for state in states]
        counters = game.plies(states).astype(np.int64) * COUNTERS
        said = self._speaker.answer(prompts, self._keys[rows], counters, self._temperature, game.reply_tokens)
        actions = [
            game.read(state, self._speaker.reading(text) or "") for state, text in zip(states, said.texts, strict=True)
        ]
        self._wanted[rows] = False
        return Decisions(rows, np.array(actions, np.int32), said.values)
