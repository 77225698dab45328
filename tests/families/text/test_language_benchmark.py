"""The table of benchmarks/language.py, with a tiny model on a processor."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("transformers", reason="language models need the extra text")

from benchmarks import language
from pipeline.families.text.language.generation import TorchGenerator
from pipeline.families.text.language.network import AdapterNetwork

TINY = ["--tiny", "--games", "4", "--prompt", "20", "--reply", "6", "--batch", "4", "--micro-batch", "2"]


def test_a_line_for_each_measurement(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, inputs = [], []
    answer, forward = TorchGenerator.answer, AdapterNetwork.forward
    monkeypatch.setattr(TorchGenerator, "answer", lambda one, given: (asked.append(given), answer(one, given))[1])
    monkeypatch.setattr(AdapterNetwork, "forward", lambda one, given: (inputs.append(given), forward(one, given))[1])
    language.main([*TINY, "--repeats", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("# the processor, torch") and lines[2].split() == language.HEAD.split()
    assert [line.split()[0] for line in lines[3:]] == ["generate", "self-play", "train"]
    for line in lines[3:]:
        numbers = re.fullmatch(r"\S+ +([\d,.]+) +([\d.]+) +([\d,]+)", line)
        assert numbers and all(float(number.replace(",", "")) > 0 for number in numbers.groups()), line
    assert [len(one.prompts) for one in asked] == [1, 4, 4, 4], "one to warm up, then one for each repetition"
    assert all(10 <= len(prompt) <= 20 for prompt in asked[-1].prompts) and asked[-1].most == 6
    assert [one.shape for one in inputs] == [(4, 2, 26)] * 3


def test_without_a_gpu_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device; --device cpu"):
        language.main([])


def test_the_shape_has_the_size_that_its_name_says() -> None:
    """Qwen3-0.6B: 0.6 B weights, 0.44 B of them without embeddings, as its model card says."""
    from pipeline.families.text.language.base_model import transformers_package

    package = transformers_package()
    with torch.device("meta"):
        model = package.AutoModelForCausalLM.from_config(package.Qwen3Config(**language.QWEN3_06B))
    weights = sum(one.numel() for one in model.parameters())
    assert round(weights / 1e9, 1) == 0.6
    assert round((weights - model.get_input_embeddings().weight.numel()) / 1e9, 2) == 0.44
