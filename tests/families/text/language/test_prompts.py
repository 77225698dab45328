"""Templates: their control tokens, as each family of models publishes them; and forms of answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.families.text.language.prompts import BOXED_TEMPLATES, FORMS, READINGS, TEMPLATES, reading_of
from pipeline.train.config import InitConfig
from pipeline.train.init import init

# Names as in UnstableBaselines' unstable/utils/templates.py
NAMES = ("default", "qwen3-zs", "qwen3-zs-instruct", "qwen3-sp", "qwen3-sp-instruct", "qwen3-mp", "qwen3-negotiation",
         "qwen3-negotiation-instruct", "qwen3-reasoning", "gemma3-zs", "llama-instruct-zs")  # fmt: skip
# The layout of a conversation's first user message, {} where text stands: the chat templates that Qwen 3, Gemma 3 and
# Llama 3 publish with their tokenizers, with the mark before the model's turn.
LAYOUTS = {
    "plain": "{}",
    "default": "{}",
    "qwen3": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    "qwen3-reasoning": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "gemma3": "<bos><start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
    "llama": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
}


def test_all_names_are_there() -> None:
    assert set(TEMPLATES) == {"plain", *NAMES}


@pytest.mark.parametrize("name", TEMPLATES)
def test_control_tokens_are_those_of_the_family(name: str) -> None:
    layout = LAYOUTS.get(name) or LAYOUTS[name.split("-")[0]]
    text = r"([^<]*What now\?[^<]*|[^<]*)" if "system" in layout else r"[^<]*What now\?[^<]*"
    assert re.fullmatch(re.escape(layout).replace(r"\{\}", text), TEMPLATES[name]("What now?"))
    assert TEMPLATES[name]("What now?").count("What now?") == 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_in_the_form_that_a_template_asks_for_is_read(name: str) -> None:
    reading = reading_of(name, None)
    assert (reading == "boxed") == ("\\boxed{}" in TEMPLATES[name](""))
    assert READINGS[reading](FORMS[reading].write("[bet]")) == "[bet]"


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (r"\boxed{\text{[3]}}", "[3]"), (r"so \boxed{\mathrm{bet}}.", "[bet]"), (r"\boxed{1} no, \boxed{[2]}", "[2]"),
        (r"\boxed{}", None), (r"\boxed{\text{}}", None), ("[3]", None),
    ],
)  # fmt: skip
def test_what_a_box_may_hold(answer: str, action: str | None) -> None:
    assert READINGS["boxed"](answer) == action


@pytest.mark.parametrize("action", ["[bet]", "[ 12 ]", "[a] to [b]", "Offer: [2 wood -> 1 ore]"])
@pytest.mark.parametrize("name", ["boxed", "whole"])
def test_what_is_written_is_read(name: str, action: str) -> None:
    assert READINGS[name](FORMS[name].write(action)).replace(" ", "") == action.replace(" ", "")


@pytest.mark.parametrize(
    ("template", "reading", "problem"),
    [
        ("qwen3-zs", "brackets", "because the template asks for .boxed{}; wanted --reading boxed$"),
        ("gemma3-zs", "whole", "because the template asks for .boxed{}; wanted --reading boxed$"),
        ("plain", "boxed", f"because the template doesn't ask for .boxed{{}}; wanted .*{', '.join(BOXED_TEMPLATES)}$"),
    ],
)
def test_a_template_whose_answers_could_not_be_read_is_refused(
    template: str, reading: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"init --prompt-template {template} --reading {reading}: .*{problem}"):
        init(InitConfig(game="text:KuhnPoker-v0", method="reinforce", network_size="r4", new_model=tmp_path / "m",
                        prompt_template=template, reading=reading))  # fmt: skip
    assert not list(tmp_path.iterdir())
