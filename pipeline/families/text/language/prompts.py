"""Prompts from observations, and actions from answers.

Templates carry the names of UnstableBaselines' (unstable/utils/templates.py): a family of models, then a kind of game:
zs two players, sp one, mp several. ``-instruct`` leaves the form of an answer to the environment's own rules. The
control tokens are those of each family's published chat template; special tokens are never added to a prompt, so a
template starts with the family's first token, if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pipeline.errors import MuGoError, UsageError
from pipeline.families.text.words import bracketed

_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_STYLED = re.compile(r"\\[a-z]+\{([^{}]*)\}")

Template = Callable[[str], str]
Reading = Callable[[str], "str | None"]
"""An answer → its action as text; None if the answer doesn't have the expected form."""


# Chat formats


def qwen(observation: str) -> str:
    """ChatML; Qwen models begin with no special token."""
    return f"<|im_start|>user\n{observation}<|im_end|>\n<|im_start|>assistant\n"


def gemma(observation: str) -> str:
    return f"<bos><start_of_turn>user\n{observation}<end_of_turn>\n<start_of_turn>model\n"


def llama(observation: str, system: str) -> str:
    """Of Llama 3."""
    parts = [("system", system), ("user", observation)]
    turns = "".join(f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>" for role, text in parts)
    return f"<|begin_of_text|>{turns}<|start_header_id|>assistant<|end_header_id|>\n\n"


# Templates by name

_TWO = "You play a two-player zero-sum game. Choose legal actions and win."
_ONE = "You play a single-player game. Choose legal actions and solve it completely."
_SEVERAL = "You compete in a game of several players. Choose legal actions and win."
_DEAL = "You negotiate with another player."
_BOX = "Reason step by step, then put your action into \\boxed{}."
_STEPS = "Reason step by step."


def _asked(task: str, observation: str, form: str = "") -> str:
    return "\n".join(filter(None, [task, f"Observation: {observation}", form]))


def plain(observation: str) -> str:
    """The observation, and a mark before the answer."""
    return f"{observation}\n> "


TEMPLATES: dict[str, Template] = {
    "plain": plain,
    "default": lambda observation: _asked(_TWO, observation, _BOX) + "\n",
    "qwen3-zs": lambda observation: qwen(_asked(_TWO, observation, _BOX)),
    "qwen3-zs-instruct": lambda observation: qwen(_asked(_TWO, observation)),
    "qwen3-sp": lambda observation: qwen(_asked(_ONE, observation, _BOX)),
    "qwen3-sp-instruct": lambda observation: qwen(_asked(_ONE, observation)),
    "qwen3-mp": lambda observation: qwen(_asked(_SEVERAL, observation, _BOX)),
    "qwen3-negotiation": lambda observation: qwen(_asked(_DEAL, observation, _STEPS)),
    "qwen3-negotiation-instruct": lambda observation: qwen(_asked(_DEAL, observation)),
    "qwen3-reasoning": lambda question: qwen(f"{_BOX}\nQuestion: {question}") + "<think>\n",
    "gemma3-zs": lambda observation: gemma(_asked(_TWO, observation, _BOX)),
    "llama-instruct-zs": lambda observation: llama(_asked("", observation, _BOX), _TWO),
}
BOXED_TEMPLATES = tuple(name for name, template in TEMPLATES.items() if "\\boxed{}" in template(""))


# Readings


def brackets(answer: str) -> str | None:
    """The last text in square brackets, including the brackets."""
    found = bracketed(answer)
    return found[-1] if found else None


def boxed(answer: str) -> str | None:
    """The content of the last \\boxed{}, with square brackets added if it has none. An empty box is no action.

    Of \\text{…} and the like in the box, the content counts.
    """
    found = _BOXED.findall(answer)
    action = _STYLED.sub(r"\1", found[-1]).strip() if found else ""
    return (action if "[" in action else f"[{action}]") if action else None


def _box(action: str) -> str:
    """An answer from which boxed() reads the action."""
    return f"\\boxed{{{action[1:-1] if bracketed(action) == [action] else action}}}"


def whole_answer(answer: str) -> str | None:
    """The complete answer; any form is valid."""
    return answer.strip()


class Form(NamedTuple):
    """How an action stands in an answer. write: an action → an answer from which it is read."""

    read: Reading
    write: Callable[[str], str]


FORMS: dict[str, Form] = {
    "brackets": Form(brackets, str),
    "boxed": Form(boxed, _box),
    "whole": Form(whole_answer, str),
}
READINGS: dict[str, Reading] = {name: form.read for name, form in FORMS.items()}
CHAT = "chat"  # the template of the base model's tokenizer
CHAT_TASKS = {  # by reading; a user's message, because some chat templates allow no system message
    "brackets": "You play a game. Reason briefly, then end with your action in square brackets.",
    "boxed": "You play a game. Reason step by step and put your action into \\boxed{}.",
    "whole": "You play a game. Answer with your action alone.",
}
NAMES = (*TEMPLATES, CHAT)  # of all templates


def template_named(name: str, reading: str, chat: Callable[[str], str]) -> Template:
    """chat: a message in the base model's chat template. Raises MuGoError for an unknown name, or if chat does."""
    if name == CHAT:
        task = CHAT_TASKS[reading]
        chat(task)  # so that one that fails is reported before a game begins
        return lambda observation: chat(f"{task}\n\n{observation}")
    if name not in TEMPLATES:
        raise MuGoError(f"its architecture names {name!r}; known are {', '.join(NAMES)}")
    return TEMPLATES[name]


def reading_of(template: str, asked: str | None) -> str:
    """The reading of a template's answers. asked: --reading; None: the template's own.

    Raises UsageError if the template asks for another form than the one that would be read.
    """
    boxes = template in BOXED_TEMPLATES
    if asked and template != CHAT and boxes != (asked == "boxed"):
        asks = "asks for" if boxes else "doesn't ask for"
        wanted = "--reading boxed" if boxes else f"--reading brackets or whole, or {', '.join(BOXED_TEMPLATES)}"
        raise UsageError(
            f"init --prompt-template {template} --reading {asked}: its answers couldn't be read, because the template "
            f"{asks} \\boxed{{}}; wanted {wanted}"
        )
    return asked or ("boxed" if boxes else "whole" if "negotiation" in template else "brackets")
