"""``Reinforce`` and ``ActorCritic``: REINFORCE and A2C as Methods."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, MuGoError, UsageError, naming
from pipeline.families.text.game import TO_MOVE, TextGame
from pipeline.families.text.language.players import (
    BACKENDS,
    SHARED_BASES,
    LanguageModelPlayer,
    load_base,
    make_generators,
    write_base,
)
from pipeline.families.text.language.prompts import reading_of
from pipeline.families.text.options import (
    TextGatherOptions,
    TextInitOptions,
    TextPlayerOptions,
    TextSelfplayOptions,
    TextTrainOptions,
)
from pipeline.families.text.reinforce.actor import TextActor
from pipeline.families.text.reinforce.columns import (
    INVALID_MOVE,
    NONE,
    WELL_FORMED,
    example_columns,
    recorded_columns,
    unpacked,
)
from pipeline.families.text.reinforce.examples import make_examples, settle
from pipeline.families.text.reinforce.rewards import parse_stages
from pipeline.families.text.reinforce.tracking import MEASURES, WINDOW, tracked
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.methods.method import (
    Actor,
    ActorJob,
    Grown,
    IndexArray,
    Measure,
    Method,
    Objective,
    Positions,
    Weights,
    learning_chart,
)
from pipeline.methods.options import (
    DiscountOptions,
    FirstModelOptions,
    GrowthOptions,
    LambdaOptions,
    ValueLossOptions,
)
from pipeline.options import Options, changed, taken
from pipeline.players.player import Player
from pipeline.progress import Progress
from pipeline.run import atomic
from pipeline.run.chunks import Columns, ColumnTypes
from pipeline.run.models import Model
from pipeline.run.shards import POLICY_COUNTS, GameRecord, Shard
from pipeline.search.options import SearchOptions

if TYPE_CHECKING:
    from pipeline.families.text.language.adapters import LoraShape
    from pipeline.families.text.language.base_model import Base
    from pipeline.families.text.reinforce.losses import Batch

BASE = "base"  # folder of the tiny base model, beside the models
_SIZE = re.compile(r"(?:l(\d{1,3})d(\d{1,5}))?r(\d{1,4})")
WANTED_SIZE = (
    "wanted rN, LoRA's rank, or lLdWrN, e.g. l2d64r16, for a tiny base model of L layers and width W, a multiple of 16"
)
PRETRAINING = "pretraining_steps", "pretraining_contrast"
DEFAULT_SIZE = 2, 64  # layers and width of the tiny base model


class Reinforce(Method):
    """Each part is documented in methods/method.py."""

    name = "reinforce"
    has_critic = False
    shown_terms: Sequence[str] = ("policy", "kl", "entropy")
    shown_shares = MappingProxyType(
        {"well_formed_share": "of the answers well formed", "valid_share": "of the moves legal"}
    )
    tabled: Mapping[str, Measure] = MappingProxyType(
        {
            "reward": Measure(heading="reward"),
            "policy": Measure(heading="policy loss"),
            "kl": Measure(heading="KL, nats"),
            "entropy": Measure(heading="entropy, nats"),
            "valid_share": Measure(True, "legal moves"),
        }
    )
    charts = (
        learning_chart(
            "Reward", "Mean of the answers' rewards at the end of their games, before transformations.", "reward"
        ),
        learning_chart(
            "Policy loss",
            "Mean of −advantage · log probability of an answer, with --ratio-clip of −advantage · ratio. It isn't an "
            "error, and needn't fall.",
            "policy",
        ),
        learning_chart("Entropy", "Of an answer, all tokens together: near 0 the model always answers the same.",
                       "entropy", unit="nats"),
        learning_chart("Distance from the base model", "KL divergence of an answer's tokens from the base model's.",
                       "kl", unit="nats"),
        learning_chart("Legal moves", "Share of the answers that are a legal action.", "valid_share", share=True),
    )  # fmt: skip
    steps_only = True
    searches = False
    options: Sequence[type[Options]] = (
        DiscountOptions,
        TextPlayerOptions,
        TextInitOptions,
        TextSelfplayOptions,
        TextGatherOptions,
        TextTrainOptions,
    )
    settled = ("advantage", "target")
    tracking_window = WINDOW
    measures = MEASURES

    def check(self, game: AnyGame) -> None:
        if not isinstance(game, TextGame):
            raise UsageError(f"method {self.name}: {game.spec} isn't a text game; wanted e.g. text:KuhnPoker-v0")

    # Models

    def first_model(
        self, game: TextGame, config: FirstModelOptions, progress: Progress
    ) -> tuple[dict[str, Any], Weights]:
        from pipeline.families.text.language.adapters import (
            ALL_LINEAR,
            LoraShape,
            last_part,
            layers_of,
            layers_without,
            new_adapter,
        )
        from pipeline.families.text.language.base_model import HEAD_WIDTH
        from pipeline.families.text.language.network import critic_weights, hidden_size
        from pipeline.families.text.language.prompts import template_named

        match = _SIZE.fullmatch(config.network_size)
        size = (int(match[1]), int(match[2])) if match and match[1] else None
        if not match or not int(match[3]) or (size and (0 in size or size[1] % HEAD_WIDTH)):
            raise UsageError(f"init --network-size {config.network_size}: {WANTED_SIZE}")
        ours = taken(config, TextInitOptions)
        reading = reading_of(ours.prompt_template, ours.reading)
        if ours.base_model and match[1]:
            raise UsageError(f"init --network-size {config.network_size}: the base model is given; wanted r{match[3]}")
        if changed(config, ["value_head"]):
            raise UsageError(f"init --value-head {config.value_head}: method {self.name} doesn't read it; leave it out")
        path = ours.base_model or config.new_model.parent / BASE
        atomic.bring_folder(path)
        if path.exists() and (of_new := changed(ours, PRETRAINING)):
            progress.say(f"{path} stays as it is: {' and '.join(of_new)} are for a new base model")
        if ours.base_model is None and not path.exists():
            self._make_base(path, game, config, size or DEFAULT_SIZE, progress)
        base = load_base(path)
        _check_base(base, size, game, config)
        template_named(ours.prompt_template, reading, base.tokenizer.chat)
        given = None if ours.lora_targets == ALL_LINEAR else ours.lora_targets.split(",")
        try:
            targets = sorted({last_part(name) for name in layers_of(base.model, given)})
        except MuGoError as error:
            raise UsageError(f"init --lora-targets {ours.lora_targets}: {path}: {error}") from error
        shape = LoraShape(int(match[3]), ours.lora_alpha or 2.0 * int(match[3]), targets)
        if others := layers_without(base.model):
            progress.say(f"{path}: no adapters on {', '.join(others)}, which aren't linear layers")
        architecture = {
            "base": _relative(path, config.new_model.parent),
            "base_fingerprint": base.fingerprint,
            "rank": shape.rank,
            "alpha": shape.alpha,
            "targets": targets,
            "template": ours.prompt_template,
            "reading": reading,
            "critic": self.has_critic,
        }
        weights = new_adapter(base.model, shape, config.seed)
        return architecture, weights | (critic_weights(hidden_size(base)) if self.has_critic else {})

    def _make_base(
        self, path: Path, game: TextGame, config: FirstModelOptions, size: tuple[int, int], progress: Progress
    ) -> None:
        """Make, pretrain and save the tiny base model."""
        from pipeline.families.text.language.base_model import BYTES, Tokenizer, byte_tokenizer, tiny_model
        from pipeline.families.text.language.prompts import FORMS, template_named
        from pipeline.families.text.reinforce.pretraining import pretrain

        ours = taken(config, TextInitOptions)
        tokenizer = Tokenizer(byte_tokenizer())
        reading = reading_of(ours.prompt_template, ours.reading)
        template = template_named(ours.prompt_template, reading, tokenizer.chat)
        model = tiny_model(*size, game.prompt_tokens + game.reply_tokens, config.seed)
        if ours.pretraining_steps:
            progress.say(f"pretraining a base model in {path} to write legal actions")
            pretrain(
                model, tokenizer, BYTES, game, template, FORMS[reading], ours.pretraining_steps,
                ours.pretraining_contrast, config.seed, progress,
            )  # fmt: skip
        write_base(path, model)

    def size(self, architecture: Mapping[str, Any]) -> str:
        return f"r{architecture['rank']}"

    def grown(self, game: TextGame, model: Model, config: GrowthOptions) -> Grown:
        if config.network_size:
            raise UsageError(f"train --network-size: adapters of method {self.name} don't grow; leave it out")
        return Grown(self.with_absolute_paths(model), model.weights)

    def with_absolute_paths(self, model: Model) -> dict[str, Any]:
        return {**model.info.architecture, "base": str(_base_path(model))}

    def stored(self, architecture: dict[str, Any], folder: Path) -> dict[str, Any]:
        return {**architecture, "base": _relative(Path(str(architecture["base"])), folder)}

    def files_for_others(self, model: Model) -> dict[str, bytes]:
        """The adapter as peft writes it. Its base is named by its whole path: peft takes others for names on a hub."""
        from pipeline.families.text.language.adapters import peft_files

        return peft_files(_shape(model.info.architecture), model.weights, os.path.realpath(_base_path(model)))

    # Playing

    def load(
        self,
        model: Model,
        max_batch: int,
        num_threads: int,
        backend: str,
        progress: Progress,
        options: Options = Options(),
    ) -> list[Any]:
        facts = model.info.architecture
        with naming(model.path):
            if backend not in BACKENDS:
                raise UsageError(f"--backend {backend}: language models have {', '.join(BACKENDS)}")
            shape, base = _shape(facts), (_base_path(model), str(facts["base_fingerprint"]))
            words = facts["template"], facts["reading"]
            return make_generators(
                backend, num_threads, base, shape, model.weights, words, taken(options, TextPlayerOptions)
            )

    def player(
        self, game: TextGame, num_rows: int, evaluate: Any, search: SearchOptions, readouts: int, leaves: int = 1
    ) -> Player:
        """Ignores readouts: it answers without a search."""
        return LanguageModelPlayer(game, num_rows, evaluate, search)

    def actor(self, job: ActorJob) -> Actor:
        return TextActor(job)

    def recorded(self, game: TextGame) -> ColumnTypes:
        return recorded_columns(game)

    def facts(self, game: TextGame, state: NDArray[np.int16], record: GameRecord, ply: int) -> dict[str, str | float]:
        """environment, observation, answer, well_formed, invalid, reward; empty where they don't apply."""
        learned = bool(record.flags[ply] & POLICY_COUNTS)
        own, is_move = record.own, int(state[TO_MOVE]) != CHANCE
        notes = int(own["notes"][ply])
        return {
            "environment": game.environments[game.environment_of(state)] if is_move else "",
            "observation": game.observation(state) if is_move else "",
            "answer": repr(unpacked(own["text"][ply])) if learned else "",
            "well_formed": int(bool(notes & WELL_FORMED)) if learned else "",
            "invalid": int(bool(notes & INVALID_MOVE)) if is_move else "",
            "reward": float(own["reward"][ply]) if is_move else "",
        }

    def tracked(self, game: TextGame, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
        return tracked(game, records)

    # Examples

    def check_options(self, command: str, config: Options) -> None:
        super().check_options(command, config)
        if command == "gather":
            parse_stages(taken(config, TextGatherOptions))  # report errors before reading any games
        if command == "train" and getattr(config, "priority_exponent", 0) > 0 and not self.has_critic:
            raise UsageError(
                f"train --priority-exponent: method {self.name} predicts no value whose error could be a priority; "
                "leave it out, or use a2c"
            )

    def columns(self, game: TextGame) -> ColumnTypes:
        return example_columns(game)

    def examples(
        self,
        game: TextGame,
        shards: Sequence[Shard],
        wanted: Positions,
        td_lambda: NDArray[np.float32] | None = None,
        config: Options | None = None,
    ) -> Columns:
        most = taken(config or Options(), TextGatherOptions).max_train_len
        if 0 < most <= game.prompt_tokens:
            raise UsageError(
                f"gather --max-train-len {most}: {game.spec} has prompts of up to {game.prompt_tokens} tokens; wanted "
                "more, or 0 for all"
            )
        lambdas = np.ones(len(wanted), np.float32) if td_lambda is None else td_lambda
        return make_examples(game, shards, wanted, lambdas, config or Options())

    def settle(self, columns: Columns, config: Options) -> Columns:
        return settle(columns, config)

    # The loss

    def make_batch(
        self, game: TextGame, columns: Mapping[str, NDArray[Any]], rows: IndexArray, symmetry: IndexArray
    ) -> Batch:
        import torch

        from pipeline.families.text.reinforce.losses import Batch

        tokens = columns["tokens"][rows].astype(np.int64)
        is_answer = tokens != NONE
        is_answer[:, : game.prompt_tokens] = False
        reward = columns["final"][rows, columns["player"][rows]]
        parts = (
            np.stack([tokens, is_answer], axis=1),
            columns["advantage"][rows],
            columns["target"][rows],
            reward,
            columns["notes"][rows].astype(np.int64),
            np.ones(len(rows), np.float32),
        )
        return Batch(*map(torch.from_numpy, parts))

    def objective(self, architecture: Mapping[str, Any], config: Options) -> Objective:
        from pipeline.families.text.language.network import AdapterNetwork
        from pipeline.families.text.reinforce.losses import ReinforceObjective

        ours = taken(config, TextTrainOptions)
        shape, path = _shape(architecture), Path(str(architecture["base"]))
        expected = str(architecture["base_fingerprint"])
        if ours.ratio_clip and ours.lora_dropout:
            raise UsageError("train --ratio-clip --lora-dropout: dropout changes the ratio; wanted one of them")

        def make(weights: Weights, start: Weights | None) -> AdapterNetwork:
            base = SHARED_BASES.copy(path, expected)
            return AdapterNetwork(
                base, shape, weights, ours.activation_checkpointing, ours.micro_batch, ours.lora_dropout, start
            )

        return ReinforceObjective(make, config, self.has_critic)


class ActorCritic(Reinforce):
    """With a critic: a linear layer on the hidden state at the end of a prompt."""

    name = "a2c"
    options = (*Reinforce.options, LambdaOptions, ValueLossOptions)
    has_critic = True
    shown_terms = ("policy", "kl", "entropy", "value")


def _check_base(base: Base, size: tuple[int, int] | None, game: TextGame, config: FirstModelOptions) -> None:
    """Raises UsageError if an existing base model has another size, or its context is shorter than prompt and reply."""
    facts, longest = base.model.config, game.prompt_tokens + game.reply_tokens
    if size is not None and size != (found := (facts.num_hidden_layers, facts.hidden_size)):
        rank = config.network_size.rpartition("r")[2]
        raise UsageError(
            f"init --network-size {config.network_size}: {base.path} is l{found[0]}d{found[1]}; "
            f"remove it, or give r{rank}"
        )
    found_longest = getattr(facts.get_text_config(decoder=True), "max_position_embeddings", None)
    if found_longest is not None and found_longest < longest:
        given = "choose another --base-model, or a shorter prompt=… or reply=…"
        made = "remove it, or choose another folder with --new-model"
        raise UsageError(
            f"init --game {game.spec}: {base.path} reads at most {found_longest} tokens; wanted {longest} for a prompt "
            f"and a reply; {given if taken(config, TextInitOptions).base_model else made}"
        )


def _shape(architecture: Mapping[str, Any]) -> LoraShape:
    """Raises UsageError for an architecture of another method."""
    from pipeline.families.text.language.adapters import LoraShape

    try:
        return LoraShape(int(architecture["rank"]), float(architecture["alpha"]), list(architecture["targets"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"its architecture isn't an adapter's ({error!r}); wanted rank, alpha and targets") from error


def _relative(path: Path, folder: Path) -> str:
    """A relative path for a base model beside the models, so that a run can be moved; else an absolute path."""
    real, beside = os.path.realpath(path), os.path.realpath(folder)
    return os.path.relpath(real, beside) if os.path.dirname(real) == beside else real


def _base_path(model: Model) -> Path:
    """The folder of this adapter's base model. Raises FileError if it is missing."""
    path = model.path.parent / str(model.info.architecture.get("base", BASE))
    atomic.bring_folder(path)
    if path.is_dir():
        return path
    if model.files is not None:  # the adapter was sent to a node without the run's disk
        raise FileError(
            model.path,
            f"its base model {path} isn't on this node: base models aren't sent to nodes; wanted that folder under the "
            "same path on every node; copy it there",
        )
    raise FileError(model.path, f"its base model {path} is missing; restore that folder or copy it there")
