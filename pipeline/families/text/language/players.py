"""Base models on disk, and language models as players of text games.

A base model is a folder with a causal language model and its tokenizer, as saved by Hugging Face's transformers.
Nothing is downloaded, no code in the folder is run, and only safetensors weights are read. A base model is identified
by its fingerprint: a hash of its configuration, its tokenizer, and its weight files' names, sizes, and first and last
bytes (hashing a large file completely would take longer than loading it).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.families.text.game import INVALID, TextGame
from pipeline.games.contract import Actions, KeyArray, Rows, States
from pipeline.machine import available_cores
from pipeline.players.player import BoardsPlayer, Decisions
from pipeline.run import atomic

if TYPE_CHECKING:
    from pipeline.families.text.language.adapters import LoraShape
    from pipeline.families.text.language.base_model import Base
    from pipeline.families.text.language.generation import Answers, SharedBase, TextGenerator
    from pipeline.families.text.language.server import GenerationServer

CONFIG, TOKENIZER = "config.json", ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
HASHED_BYTES = 1 << 20  # at each end of a file
BASES_KEPT = 4
BACKENDS = ("auto", "torch", "server", "vllm")  # auto means torch
COUNTERS = 1 << 16  # maximum random numbers of an answer


def fingerprint(path: Path) -> str:
    """A hash that identifies a base model. Raises FileError if the folder has no model or no tokenizer."""
    wanted = "wanted a causal language model saved by transformers' save_pretrained"
    if not (path / CONFIG).is_file():
        raise FileError(path, f"no {CONFIG} is here; {wanted}; give its folder as --base-model")
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
    """The folder's fingerprint. Raises FileError if it isn't the expected one."""
    found = fingerprint(path)
    if expected is not None and found != expected:
        raise FileError(
            path,
            f"it is another base model ({found[:8]}) than the adapter was trained on; wanted {expected[:8]}; restore "
            "the original folder",
        )
    return found


def load_base(path: Path, expected: str | None = None) -> Base:
    """Load a base model. Raises FileError if it can't be read or has another fingerprint than expected."""
    found = _checked(path, expected)
    import torch

    from pipeline.families.text.language.base_model import Base, transformers_package, without_dropout

    transformers = transformers_package()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
        without_dropout(config)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, config=config, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:  # damaged files raise many types
        text = str(error).split("\n")[0]
        raise FileError(path, f"not readable as a language model ({type(error).__name__}: {text})") from error
    end = tokenizer.eos_token_id
    if end is None:
        raise FileError(path, "its tokenizer has no eos_token; wanted a token that ends a text")
    model.requires_grad_(False)
    model.eval()
    return Base(path, found, model, tokenizer, int(end))


def write_base(path: Path, model: Any) -> None:
    """Write a folder with the model and the byte tokenizer, atomically. Raises FileError if it exists."""
    from pipeline.families.text.language.base_model import byte_tokenizer

    with atomic.new_directory(path) as folder:
        model.save_pretrained(folder, safe_serialization=True)
        byte_tokenizer().save_pretrained(folder)


class SharedBases:
    """The base models loaded in this process, one for each thread, fingerprint and targets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, tuple[str, ...], int], SharedBase] = OrderedDict()

    def get(self, path: Path, expected: str, targets: Sequence[str], thread: int) -> SharedBase:
        """Raises FileError like load_base."""
        import torch

        from pipeline.families.text.language.generation import SharedBase

        key = _checked(path, expected), tuple(targets), thread
        with self._lock:
            if key not in self._known:
                base = load_base(path, expected)
                if torch.cuda.is_available():
                    base.model.to("cuda")
                self._known[key] = SharedBase(base, targets)
                while len(self._known) > BASES_KEPT and len({one[0] for one in self._known}) > 1:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]


SHARED_BASES = SharedBases()
_SERVERS: list[GenerationServer] = []  # at most one for this process
_VLLM_BASES: dict[str, Any] = {}  # by fingerprint


def make_generators(
    backend: str,
    num_threads: int,
    base: tuple[Path, str],
    shape: LoraShape,
    weights: Mapping[str, NDArray[Any]],
    words: tuple[str, str],
) -> list[TextGenerator]:
    """A generator for each thread. backend: one of BACKENDS; base: folder and fingerprint; words: template and reading.

    Raises FileError for an unreadable base model, UsageError for a backend that isn't installed, MuGoError for weights
    that don't fit the base model.
    """
    import torch

    from pipeline.families.text.language.generation import TorchGenerator

    torch.set_num_threads(max(1, available_cores() // num_threads))
    if backend == "server":
        from pipeline.families.text.language.server import GenerationServer, RemoteAdapter, RemoteGenerator

        _checked(*base)
        tokenizer = _tokenizer(base[0])
        if not _SERVERS:
            _SERVERS.append(GenerationServer())
        adapter = RemoteAdapter(_SERVERS[0], base, shape, weights, *words)
        return [RemoteGenerator(adapter, thread, tokenizer, *words) for thread in range(num_threads)]
    if backend == "vllm":
        from pipeline.families.text.language.vllm import VllmBase, VllmGenerator

        fingerprint = _checked(*base)
        if fingerprint not in _VLLM_BASES:
            _VLLM_BASES[fingerprint] = VllmBase(base[0], _tokenizer(base[0]), shape.rank)
        return [VllmGenerator(_VLLM_BASES[fingerprint], shape, weights, *words)] * num_threads
    shared = [SHARED_BASES.get(*base, shape.targets, thread) for thread in range(num_threads)]
    return [TorchGenerator(shared, shape, weights, *words) for shared in shared]


def _tokenizer(path: Path) -> Any:
    from pipeline.families.text.language.base_model import transformers_package

    return transformers_package().AutoTokenizer.from_pretrained(path, local_files_only=True)


class Replies(NamedTuple):
    """Of n positions: the observations and prompts, the model's answers, and the actions [n] int32 read from them, None
    in texts and INVALID in actions where an answer names no action.
    """

    shown: list[str]
    prompts: list[list[int]]
    answers: Answers
    texts: list[str | None]
    actions: Actions


def ask(game: TextGame, generator: TextGenerator, states: States, keys: KeyArray, temperature: float) -> Replies:
    """A model's replies in states [n, S]. keys [n]: each game's random stream."""
    from pipeline.families.text.language.generation import Questions

    shown = [game.observation(state) for state in states]
    prompts = [generator.prompt_tokens(text, game.prompt_tokens) for text in shown]
    counters = game.plies(states).astype(np.int64) * COUNTERS
    answers = generator.answer(Questions(prompts, keys, counters, temperature, game.reply_tokens))
    texts = [generator.reading(text) for text in answers.texts]
    actions = [INVALID if text is None else game.read(state, text) for state, text in zip(states, texts, strict=True)]
    return Replies(shown, prompts, answers, texts, np.array(actions, np.int32))


class LanguageModelPlayer(BoardsPlayer):
    """A language model as a player of a text game; it answers all waiting rows in one batch."""

    def __init__(self, game: TextGame, num_rows: int, generator: TextGenerator, temperature: float) -> None:
        super().__init__(game, num_rows)
        self._game, self._generator, self._temperature = game, generator, temperature
        self._keys = np.zeros(num_rows, np.uint64)

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        super().new_games(rows, seeds)
        self._keys[rows] = seeds

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if not rows.size:
            return Decisions.none()
        replies = ask(self._game, self._generator, self._boards.states[rows], self._keys[rows], self._temperature)
        self._wanted[rows] = False
        return Decisions(rows, replies.actions, replies.answers.values)
