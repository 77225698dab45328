"""The options of text games and of the methods reinforce and a2c (docs/text.md)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

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
        pattern="^(plain|reasoning|chatml|boxed-chatml)$",
        description="Format of the prompt: plain, reasoning, chatml or boxed-chatml.",
    )
    reading: str = Field(
        "brackets",
        pattern="^(brackets|boxed|whole)$",
        description="Where an answer's action is: brackets (the last ones), boxed (the last \\boxed{}) or whole.",
    )
    pretraining_steps: int = Field(
        400,
        ge=0,
        description="Steps that train a tiny base model to write legal actions, on random play.",
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
    """Reward transformations."""

    panel = PANEL
    of_methods = True

    final_rewards: str = Field(
        "",
        description="Transformations of a game's rewards, applied in this order: win-draw-loss=W:D:L, zero-sum, "
        "role-advantage=RATE, or PACKAGE.MODULE:FUNCTION.",
    )
    step_rewards: str = Field(
        "",
        description="Rewards added to each step: format=X, valid=X, invalid=X, or a function as above.",
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

    kl_weight: float = Field(0.0, ge=0, description="Weight of the answers' divergence from the base model.")
    entropy_weight: float = Field(0.0, ge=0, description="Weight of the answers' entropy.")
    activation_checkpointing: bool = Field(
        False,
        description="Recompute activations instead of storing them: less memory, a third more work.",
    )
    micro_batch: int = Field(
        0,
        ge=0,
        description="Number of a batch's answers to process at a time, adding up the gradients; 0 = all at once.",
    )
