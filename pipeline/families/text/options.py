"""The options of text games and of the methods reinforce and a2c (docs/text.md)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.families.text.language.prompts import CHAT, FORMS, NAMES, TEMPLATES
from pipeline.options import Options

PANEL = "Text games (methods reinforce and a2c)"


class TextPlayerOptions(Options):
    """How a language model answers."""

    panel = PANEL
    of_methods = True

    reply_temperature: float = Field(
        1.0,
        ge=0,
        description="Temperature for sampling an answer's tokens; 0 = always the likeliest token.",
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Sample a token only from the likeliest ones that together have this probability.",
    )
    max_loras: int = Field(
        4,
        ge=1,
        description="Adapters that --backend vllm keeps loaded at the same time; others are loaded again.",
    )


class TextInitOptions(Options):
    """The base model and its prompts."""

    panel = PANEL
    of_methods = True

    base_model: Path | None = Field(
        None,
        description="Folder of the language model to train adapters for, with its tokenizer. "
        "[default: make a tiny one]",
    )
    prompt_template: str = Field(
        "plain",
        pattern=f"^({'|'.join(NAMES)})$",
        description=f"Format of the prompt: {', '.join(TEMPLATES)}, or {CHAT}: the base model's own.",
    )
    reading: str | None = Field(
        None,
        pattern=f"^({'|'.join(FORMS)})$",
        description="Where an answer's action is: brackets (the last ones), boxed (the last \\boxed{}) or whole. "
        "[default: as the template asks]",
    )
    lora_targets: str = Field(
        "all-linear",
        description="Linear layers that get adapters: all-linear (all except the output layer), or the last parts of "
        "their names, e.g. q_proj,v_proj.",
    )
    lora_alpha: float | None = Field(
        None,
        gt=0,
        description="An adapter's output counts ALPHA / rank. [default: twice the rank]",
    )
    pretraining_steps: int = Field(
        400,
        ge=0,
        description="Steps that train a tiny base model to write legal actions, on random play.",
    )
    pretraining_contrast: float = Field(
        0.0,
        ge=0,
        le=5,
        description="How much actions' chances there depend on the observation's words, at random, so that the model "
        "learns to read them: standard deviation of their logarithms at first; a sixth is left in the end. 0 = all are "
        "equally likely.",
    )


class TextSelfplayOptions(Options):
    """Which games to learn from."""

    panel = PANEL
    of_methods = True

    filter_opponent_invalid: bool = Field(
        False,
        description="Don't learn from games that the other player ended with an invalid move.",
    )


class TextGatherOptions(Options):
    """Reward transformations, and how much of an answer is learned from."""

    panel = PANEL
    of_methods = True

    max_train_len: int = Field(
        0,
        ge=0,
        description="Tokens of a prompt and its answer to learn from; the end of a longer answer isn't. 0 = all.",
    )

    final_rewards: str = Field(
        "",
        description="Transformations of a game's rewards, applied in this order: win-draw-loss=W:D:L, zero-sum, "
        "role-advantage=RATE, role-advantage-by-environment=RATE, or PACKAGE.MODULE:FUNCTION.",
    )
    step_rewards: str = Field(
        "",
        description="Rewards added to each step: format=REWARD:PENALTY, valid=REWARD:PENALTY, e.g. valid=1:-1, "
        "or a function as above.",
    )
    sampling_rewards: str = Field(
        "",
        description="Transformations of the advantages before training: normalise, normalise-by-environment (each may "
        "be =mean), negative=SHARE (scales negative ones), or a function as above.",
    )


class TextTrainOptions(Options):
    """The loss and its memory use."""

    panel = PANEL
    of_methods = True

    ratio_clip: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="PPO: a token's probability, divided by that before training, earns nothing beyond 1 ± this, e.g. "
        "0.2, for several epochs on the same answers; 0 = plain policy gradient.",
    )
    token_denominator: float = Field(
        1.0,
        gt=0,
        description="Divide sums over an answer's tokens by this number, the same for all answers, e.g. the reply's "
        "limit (Dr. GRPO).",
    )
    kl_weight: float = Field(0.0, ge=0, description="Weight of the answers' divergence from the base model.")
    entropy_weight: float = Field(0.0, ge=0, description="Weight of the answers' entropy.")
    lora_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of an adapter's inputs that are randomly left out in each training step.",
    )
    activation_checkpointing: bool = Field(
        False,
        description="Recompute activations instead of storing them: less memory, a third more work.",
    )
    micro_batch: int = Field(
        0,
        ge=0,
        description="Number of a batch's answers to process at a time, adding up the gradients; 0 = all at once.",
    )
