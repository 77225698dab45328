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
        description="An answer's tokens are drawn at this temperature; 0 = always the likeliest.",
    )


class TextInitOptions(Options):
    """The base model, and how it is asked."""

    panel = PANEL
    of_methods = True

    base_model: Path | None = Field(
        None,
        description="Folder of the language model that adapters are trained for, with its tokenizer "
        "[default: a tiny one is made].",
    )
    prompt_template: str = Field(
        "plain",
        pattern="^(plain|reasoning|chatml|boxed-chatml)$",
        description="How an observation is put to the model: plain, reasoning, chatml or boxed-chatml.",
    )
    reading: str = Field(
        "brackets",
        pattern="^(brackets|boxed|whole)$",
        description="How an action is read from an answer: brackets (the last), boxed (the last \\boxed{}) or whole.",
    )
    pretraining_steps: int = Field(
        400,
        ge=0,
        description="Steps in which a tiny model learns to write legal actions, from random play.",
    )


class TextSelfplayOptions(Options):
    """Which games are learned from."""

    panel = PANEL
    of_methods = True

    filter_opponent_invalid: bool = Field(
        False,
        description="Learn nothing from games that the other player ended by an invalid move.",
    )


class TextGatherOptions(Options):
    """What rewards become."""

    panel = PANEL
    of_methods = True

    final_rewards: str = Field(
        "",
        description="What a game's rewards become, in this order: win-draw-loss=W:D:L, zero-sum, "
        "role-advantage=RATE, or PACKAGE.MODULE:FUNCTION.",
    )
    step_rewards: str = Field(
        "",
        description="Then what a step gets for itself: format=X, valid=X, invalid=X or a function likewise.",
    )
    sampling_rewards: str = Field(
        "",
        description="Then what is trained on: normalise, normalise-by-environment (each may be =mean), "
        "negative=SHARE of what is below 0, or a function likewise.",
    )


class TextTrainOptions(Options):
    """The loss, and how much memory it takes."""

    panel = PANEL
    of_methods = True

    kl_weight: float = Field(0.0, ge=0, description="Weight of the answers' divergence from the base model.")
    entropy_weight: float = Field(0.0, ge=0, description="Weight of the answers' entropy.")
    activation_checkpointing: bool = Field(
        False,
        description="Keep less in memory and compute it again; a third more work.",
    )
    micro_batch: int = Field(
        0,
        ge=0,
        description="Go through so many answers of a batch at a time, and add up their gradients; 0 = all at once.",
    )
