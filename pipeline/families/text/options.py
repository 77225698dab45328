"""The options of text games (docs/text.md). config.py says whose they are."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pipeline.stage_config import LATER, OF_METHODS

REPLY_TEMPERATURE: Any = Field(
    1.0,
    ge=0,
    description="text games: an answer's tokens are drawn at this temperature; 0 = always the likeliest.",
    json_schema_extra=LATER,
)
BASE_MODEL: Any = Field(
    None,
    description="text games: folder of the language model that adapters are trained for, with its tokenizer "
    "[default: a tiny one is made].",
    json_schema_extra=LATER,
)
PROMPT_TEMPLATE: Any = Field(
    "plain",
    pattern="^(plain|reasoning|chatml|boxed-chatml)$",
    description="text games: how an observation is put to the model: plain, reasoning, chatml or boxed-chatml.",
    json_schema_extra=LATER,
)
READING: Any = Field(
    "brackets",
    pattern="^(brackets|boxed|whole)$",
    description="text games: how an action is read from an answer: brackets (the last), boxed (the last \\boxed{}) "
    "or whole.",
    json_schema_extra=LATER,
)
PRETRAINING_STEPS: Any = Field(
    400,
    ge=0,
    description="text games: steps in which a tiny model learns to write legal actions, from random play.",
    json_schema_extra=LATER,
)
FILTER_OPPONENT_INVALID: Any = Field(
    False,
    description="text games: learn nothing from games that the other player ended by an invalid move.",
    json_schema_extra=LATER,
)
FINAL_REWARDS: Any = Field(
    "",
    description="text games: what a game's rewards become, in this order: win-draw-loss=W:D:L, zero-sum, "
    "role-advantage=RATE, or PACKAGE.MODULE:FUNCTION.",
    json_schema_extra=LATER | OF_METHODS,
)
STEP_REWARDS: Any = Field(
    "",
    description="text games: then what a step gets for itself: format=X, valid=X, invalid=X or a function likewise.",
    json_schema_extra=LATER | OF_METHODS,
)
SAMPLING_REWARDS: Any = Field(
    "",
    description="text games: then what is trained on: normalise, normalise-by-environment (each may be =mean), "
    "negative=SHARE of what is below 0, or a function likewise.",
    json_schema_extra=LATER | OF_METHODS,
)
KL_WEIGHT: Any = Field(
    0.0,
    ge=0,
    description="text games: weight of the answers' divergence from the base model.",
    json_schema_extra=LATER,
)
ENTROPY_WEIGHT: Any = Field(
    0.0, ge=0, description="text games: weight of the answers' entropy.", json_schema_extra=LATER
)
ACTIVATION_CHECKPOINTING: Any = Field(
    False,
    description="text games: keep less in memory and compute it again; a third more work.",
    json_schema_extra=LATER,
)
MICRO_BATCH: Any = Field(
    0,
    ge=0,
    description="text games: go through so many answers of a batch at a time, and add up their gradients; "
    "0 = all at once.",
    json_schema_extra=LATER,
)
