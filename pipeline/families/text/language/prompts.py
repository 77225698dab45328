"""Prompts from observations, and actions from answers."""

from __future__ import annotations

import re
from collections.abc import Callable

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")

Template = Callable[[str], str]
Reading = Callable[[str], "str | None"]
"""An answer → its action as text; None if the answer doesn't have the expected form."""


def plain(observation: str) -> str:
    """The observation, and a mark before the answer."""
    return f"{observation}\n> "


def reasoning(observation: str) -> str:
    """For instruction-following models without a chat format."""
    return (
        f"{observation}\n\nThink step by step. Then write your action alone on the last line, in square brackets.\n"
        "Answer: "
    )


def chatml(observation: str) -> str:
    """The chat format of Qwen and others."""
    task = "You play a two-player game. Reason briefly, then end with your action in square brackets."
    return f"<|im_start|>system\n{task}<|im_end|>\n<|im_start|>user\n{observation}<|im_end|>\n<|im_start|>assistant\n"


def boxed_chatml(observation: str) -> str:
    """The same for models that box their answers."""
    task = "You play a two-player game. Reason step by step and put your action into \\boxed{}."
    return f"<|im_start|>system\n{task}<|im_end|>\n<|im_start|>user\n{observation}<|im_end|>\n<|im_start|>assistant\n"


def brackets(answer: str) -> str | None:
    """The last text in square brackets, including the brackets."""
    found = _BRACKETS.findall(answer)
    return found[-1] if found else None


def boxed(answer: str) -> str | None:
    """The content of the last \\boxed{}, with square brackets added if it has none."""
    found = _BOXED.findall(answer)
    if not found:
        return None
    action = found[-1].strip()
    return action if action.startswith("[") else f"[{action}]"


def whole_answer(answer: str) -> str | None:
    """The complete answer; any form is valid."""
    return answer.strip()


TEMPLATES: dict[str, Template] = {
    "plain": plain,
    "reasoning": reasoning,
    "chatml": chatml,
    "boxed-chatml": boxed_chatml,
}
READINGS: dict[str, Reading] = {"brackets": brackets, "boxed": boxed, "whole": whole_answer}
