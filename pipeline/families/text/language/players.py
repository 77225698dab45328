"""Base models on disk, and language models as players of text games.

A base model is a folder with a causal language model and its tokenizer, as saved by Hugging Face's transformers.
Nothing is downloaded, no code in the folder is run, and only safetensors weights are read, in one file or in shards
with an index. A base model is identified by its fingerprint: a hash of its configuration, its tokenizer with the chat
template, and its weight files' names, sizes, and first and last bytes (hashing a large file completely would take
longer than loading it).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.families.text.game import TextGame
from pipeline.families.text.options import TextPlayerOptions
from pipeline.games.contract import Actions, KeyArray, Rows, States
from pipeline.machine import available_cores
from pipeline.networks.gpu import gpu_fault
from pipeline.options import Options, taken
from pipeline.players.player import BoardsPlayer, Decisions
from pipeline.run import atomic

if TYPE_CHECKING:
    from pipeline.families.text.language.adapters import LoraShape
    from pipeline.families.text.language.base_model import Base, Tokenizer
    from pipeline.families.text.language.generation import Answers, SharedBase, TextGenerator
    from pipeline.families.text.language.server import GenerationServer

CONFIG, TOKENIZER = "config.json", ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
GENERATION, INDEX = "generation_config.json", "model.safetensors.index.json"
DETAILS = (GENERATION, INDEX, "chat_template.jinja", "special_tokens_map.json", "added_tokens.json", "merges.txt")
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
HASHED_BYTES = 1 << 20  # at each end of a file
BASES_KEPT = 4
BACKENDS = ("auto", "torch", "server", "vllm")  # auto means torch
COUNTERS = 1 << 16  # maximum random numbers of an answer


def fingerprint(path: Path) -> str:
    """A hash that identifies a base model. Raises FileError if its tokenizer or a part of its weights is missing."""
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
    if INDEX in names:
        shards = _json(path / INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            raise FileError(path / INDEX, 'it has no "weight_map" from arrays to files; copy the model again')
        if missing := sorted(set(shards.values()) - set(names)):
            raise FileError(path / missing[0], f"missing: {INDEX} names it; wanted all shards; copy the model again")
    digest = hashlib.sha256()
    for name in (CONFIG, *tokenizer, *(name for name in DETAILS if name in names), *weights):
        file = path / name
        with atomic.os_errors(file), file.open("rb") as stream:
            digest.update(f"{name} {file.stat().st_size} ".encode())
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
    """Load a base model. Raises FileError if it can't be read or has another fingerprint than expected.

    Weights are float32. With a GPU, those stored in bfloat16 stay so.
    """
    found = _checked(path, expected)
    import safetensors
    import torch

    from pipeline.families.text.language.base_model import Base, transformers_package, without_dropout

    _check_architecture(path)
    tokenizer = load_tokenizer(path)
    for file in sorted(path.glob("*.safetensors")):
        with _readable(file), safetensors.safe_open(file, "pt"):  # its header, and whether all bytes are there
            pass
    transformers = transformers_package()
    with _readable(path):
        config = transformers.AutoConfig.from_pretrained(path, **LOCAL)
        without_dropout(config)
        stored = config.get_text_config(decoder=True).dtype or config.dtype
        dtype = torch.bfloat16 if gpu_fault() == "" and stored == torch.bfloat16 else torch.float32
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            path, config=config, use_safetensors=True, dtype=dtype, output_loading_info=True, **LOCAL
        )
    if missing := sorted(report["missing_keys"]):
        raise FileError(path, f"its weights lack {missing[0]}; wanted all {len(model.state_dict())} arrays")
    model.requires_grad_(False)
    model.eval()
    return Base(path, found, model, tokenizer)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a base model. Raises FileError if it can't be read, or nothing ends a text."""
    from pipeline.families.text.language.base_model import Tokenizer, transformers_package

    transformers = transformers_package()
    ends: list[int] = []
    with _readable(path):
        config = transformers.AutoConfig.from_pretrained(path, **LOCAL)
        facts = [config, config.get_text_config(decoder=True)]
        if (path / GENERATION).is_file():
            facts.append(transformers.GenerationConfig.from_pretrained(path, local_files_only=True))
        for one in facts:
            end = getattr(one, "eos_token_id", None)
            ends += end if isinstance(end, list) else [] if end is None else [end]
        tokenizer = Tokenizer(transformers.AutoTokenizer.from_pretrained(path, **LOCAL), ends)
    if not tokenizer.end_tokens:
        raise FileError(path, "its tokenizer has no eos_token; wanted a token that ends a text")
    return tokenizer


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns every exception in the block into a FileError: damaged files raise many types."""
    try:
        yield
    except Exception as error:
        text = str(error).strip().split("\n")[0]
        raise FileError(path, f"not readable as a language model ({type(error).__name__}: {text})") from error


def _check_architecture(path: Path) -> None:
    """Raises FileError unless transformers has a class for this folder's model, without code of its own."""
    from pipeline.families.text.language.base_model import transformers_package

    transformers, facts = transformers_package(), _json(path / CONFIG)
    kind = facts.get("model_type")
    if not isinstance(kind, str):
        raise FileError(path / CONFIG, 'it names no architecture; wanted a "model_type", e.g. "qwen3" or "llama"')
    if kind not in transformers.CONFIG_MAPPING:
        code = ", and code in a model's folder (auto_map) is never run" if "auto_map" in facts else ""
        raise FileError(
            path / CONFIG,
            f"transformers {transformers.__version__} has no architecture {kind!r}{code}; wanted another base model, "
            "or a newer transformers",
        )


def _json(path: Path) -> dict[str, Any]:
    with atomic.os_errors(path):
        data = path.read_bytes()
    try:
        found = atomic.load_json(data)
    except ValueError as error:
        raise FileError(path, f"damaged: not JSON ({error}); copy the model again") from error
    if not isinstance(found, dict):
        raise FileError(path, "damaged: not a JSON object; copy the model again")
    return found


def write_base(path: Path, model: Any) -> None:
    """Write a folder with the model and the byte tokenizer, atomically. Raises FileError if it exists."""
    from pipeline.families.text.language.base_model import byte_tokenizer

    with atomic.new_directory(path) as folder:
        model.save_pretrained(folder, safe_serialization=True)
        byte_tokenizer().save_pretrained(folder)


class SharedBases:
    """The base models loaded in this process, and a copy for each thread and targets. All copies share the weights."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bases: OrderedDict[str, Base] = OrderedDict()
        self._copies: dict[tuple[str, tuple[str, ...], int], SharedBase] = {}

    def get(self, path: Path, expected: str, targets: Sequence[str], thread: int) -> SharedBase:
        """A copy for this thread, always the same. Raises FileError like load_base."""
        from pipeline.families.text.language.generation import SharedBase

        base = self.copy(path, expected)
        with self._lock:
            key = expected, tuple(targets), thread
            if key not in self._copies:
                self._copies[key] = SharedBase(base, targets)
            return self._copies[key]

    def copy(self, path: Path, expected: str) -> Base:
        """A copy to modify, except its weights. Raises FileError like load_base."""
        from pipeline.families.text.language.base_model import with_same_weights

        _checked(path, expected)
        with self._lock:
            if expected not in self._bases:
                self._bases[expected] = load_base(path, expected)
                if gpu_fault() == "":
                    self._bases[expected].model.to("cuda")
                if len(self._bases) > BASES_KEPT:
                    oldest, _ = self._bases.popitem(last=False)
                    self._copies = {key: one for key, one in self._copies.items() if key[0] != oldest}
            self._bases.move_to_end(expected)
            found = self._bases[expected]
        return replace(found, model=with_same_weights(found.model))


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
    options: TextPlayerOptions = TextPlayerOptions(),
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
        tokenizer = load_tokenizer(base[0])
        if not _SERVERS:
            _SERVERS.append(GenerationServer())
        adapter = RemoteAdapter(_SERVERS[0], base, shape, weights, *words)
        return [RemoteGenerator(adapter, thread, tokenizer, *words) for thread in range(num_threads)]
    if backend == "vllm":
        from pipeline.families.text.language.vllm import VllmBase, VllmGenerator

        fingerprint = _checked(*base)
        if fingerprint not in _VLLM_BASES:
            _VLLM_BASES[fingerprint] = VllmBase(base[0], load_tokenizer(base[0]), shape.rank, options.max_loras)
        return [VllmGenerator(_VLLM_BASES[fingerprint], shape, weights, *words)] * num_threads
    shared = [SHARED_BASES.get(*base, shape.targets, thread) for thread in range(num_threads)]
    return [TorchGenerator(shared, shape, weights, *words) for shared in shared]


class Replies(NamedTuple):
    """Of n positions: the observations and prompts, the model's answers, the texts read from them, None where an answer
    names no action, and the actions [n] int32 (TextGame.answered).
    """

    shown: list[str]
    prompts: list[list[int]]
    answers: Answers
    texts: list[str | None]
    actions: Actions


def ask(game: TextGame, generator: TextGenerator, states: States, keys: KeyArray, options: Options) -> Replies:
    """A model's replies in states [n, S]. keys [n]: each game's random stream; options: with TextPlayerOptions."""
    from pipeline.families.text.language.generation import Questions

    shown = [game.observation(state) for state in states]
    prompts = [generator.prompt_tokens(text, game.prompt_tokens) for text in shown]
    counters = game.plies(states).astype(np.int64) * COUNTERS
    sampling = taken(options, TextPlayerOptions)
    answers = generator.answer(
        Questions(prompts, keys, counters, sampling.reply_temperature, game.reply_tokens, sampling.top_p)
    )
    texts = [generator.reading(text) for text in answers.texts]
    actions = [game.answered(*one) for one in zip(states, texts, answers.texts, strict=True)]
    return Replies(shown, prompts, answers, texts, np.array(actions, np.int32))


class LanguageModelPlayer(BoardsPlayer):
    """A language model as a player of a text game; it answers all waiting rows in one batch."""

    def __init__(self, game: TextGame, num_rows: int, generator: TextGenerator, options: Options) -> None:
        super().__init__(game, num_rows)
        self._game, self._generator, self._options = game, generator, options
        self._keys = np.zeros(num_rows, np.uint64)

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        super().new_games(rows, seeds)
        self._keys[rows] = seeds

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if not rows.size:
            return Decisions.none()
        replies = ask(self._game, self._generator, self._boards.states[rows], self._keys[rows], self._options)
        self._wanted[rows] = False
        unknown = np.full(len(rows), np.nan, np.float32)  # a critic estimates rewards, not the result
        return Decisions(rows, replies.actions, unknown)
