"""The base model, adapters, answers, and the network that is trained: that all of them are the same model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline.errors import FileError, MuGoError
from pipeline.families.text.language import generation
from pipeline.families.text.language.adapters import PREFIX, A, B, LoraShape, layers_of, new_adapter
from pipeline.families.text.language.base_model import BYTES, Tokenizer, byte_tokenizer, tiny_model
from pipeline.families.text.language.generation import NONE, Questions, SharedBase, TorchGenerator, sample_tokens
from pipeline.families.text.language.network import AdapterNetwork, critic_weights
from pipeline.families.text.language.players import fingerprint, load_base, write_base
from pipeline.families.text.language.prompts import READINGS

RANK = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "base"
    write_base(path, tiny_model(2, 32, 128, seed=1))
    return path


def shape_of(folder: Path) -> LoraShape:
    return LoraShape(RANK, 2.0 * RANK, sorted({name.rsplit(".", 1)[-1] for name in layers_of(load_base(folder).model)}))


def adapter(folder: Path, seed: int) -> dict[str, np.ndarray]:
    """One that says something else than the base."""
    generator = np.random.default_rng(seed)
    weights = new_adapter(load_base(folder).model, shape_of(folder), seed)
    return {name: array + generator.normal(0, 0.2, array.shape).astype("f4") for name, array in weights.items()}


def speaker(shared: SharedBase, folder: Path, weights: dict[str, np.ndarray]) -> TorchGenerator:
    return TorchGenerator(shared, shape_of(folder), weights, "plain", "brackets")


def prompts_of(one: TorchGenerator) -> list[list[int]]:
    return [one.prompt_tokens(text, 64) for text in ("a", "Héllo", "a", "a longer observation with [1], [2]", "b")]


def merged(folder: Path, weights: dict[str, np.ndarray]) -> torch.nn.Module:
    """The base with the adapter added to its weights: the definition of LoRA."""
    model = load_base(folder).model
    layers = dict(model.named_modules())
    for name, array in weights.items():
        if name.endswith(A):
            delta = weights[name.removesuffix(A) + B] @ array
            layers[name.removeprefix(PREFIX).removesuffix(A)].weight.data += 2.0 * torch.from_numpy(delta)
    return model


def test_bytes_are_tokens_and_come_back(folder: Path) -> None:
    base = load_base(folder)
    for text in ("[check]\n> ", "Zürich ♠ 3", "  two  blanks ", "<|im_start|>"):
        tokens = base.tokenizer.encode(text)
        assert len(tokens) == len(text.encode()) and max(tokens) < BYTES and base.tokenizer.decode(tokens) == text
    assert base.tokenizer.end_tokens == (BYTES,) and base.tokenizer.decode([BYTES]) == ""


def test_answers_dont_depend_on_their_neighbours_nor_on_adapters_used_in_between(folder: Path) -> None:
    shared = SharedBase(load_base(folder), shape_of(folder).targets)
    one, other = (speaker(shared, folder, adapter(folder, seed)) for seed in (1, 2))
    prompts, keys, counters = prompts_of(one), np.arange(5).astype(np.uint64), np.full(5, 7)
    together = one.answer(Questions(prompts, keys, counters, 1.0, 8))
    assert together.tokens.shape == (5, 8) and np.isnan(together.values).all()
    assert (together.tokens[0] != together.tokens[2]).any()  # the same prompt, another stream
    different = other.answer(Questions(prompts, keys, counters, 1.0, 8))
    assert (different.tokens != together.tokens).any()
    for row in range(5):
        alone = one.answer(Questions([prompts[row]], keys[row : row + 1], counters[row : row + 1], 1.0, 8))
        assert (alone.tokens[0] == together.tokens[row]).all() and alone.texts[0] == together.texts[row]


def test_equal_beginnings_of_answers_are_processed_once(folder: Path) -> None:
    """However many rows: in each call there is one text for each different beginning."""
    shared = SharedBase(load_base(folder), shape_of(folder).targets)
    one = speaker(shared, folder, adapter(folder, 1))
    prompts = [one.prompt_tokens(text, 64) for text in ("a", "a longer b")] * 50
    sizes: list[int] = []
    shared.base.model.register_forward_pre_hook(
        lambda module, given, named: sizes.append(len(named["input_ids"])), with_kwargs=True
    )
    keys = np.arange(100).astype(np.uint64)
    said = one.answer(Questions(prompts, keys, np.zeros(100, int), 0.3, 6))
    texts = [tuple(row) for row in said.tokens.tolist()]
    going = [[(i % 2, text[:n]) for i, text in enumerate(texts) if BYTES not in text[:n]] for n in range(6)]
    assert sizes == [len(set(some)) for some in going if some] and sizes[0] == 2 and 2 < sizes[1] < 100
    for row in range(100):
        alone = one.answer(Questions([prompts[row]], keys[row : row + 1], np.zeros(1, int), 0.3, 6))
        assert (alone.tokens[0] == said.tokens[row]).all()


def test_a_batch_holds_no_more_tokens_than_there_is_room_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of answers to one prompt, which soon differ."""
    shared = SharedBase(load_base(folder), shape_of(folder).targets)
    one = speaker(shared, folder, adapter(folder, 1))
    prompts = [one.prompt_tokens(text, 64) for text in ("a", "a longer b")] * 20
    asked = Questions(prompts, np.arange(40).astype(np.uint64), np.zeros(40, int), 1.0, 6)
    whole = one.answer(asked)
    sizes: list[int] = []
    shared.base.model.register_forward_pre_hook(
        lambda module, given, named: sizes.append(len(named["input_ids"])), with_kwargs=True
    )
    monkeypatch.setattr(generation, "MOST_TOKENS", 7 * (max(map(len, prompts)) + 6) + 1)
    parts = one.answer(asked)
    assert parts.texts == whole.texts and (parts.tokens == whole.tokens).all() and max(sizes) <= 7


def test_likeliest_answers_are_those_of_the_merged_model(folder: Path) -> None:
    """Temperature 0, against plain decoding without cache, padding or hooks."""
    weights = adapter(folder, 3)
    one, reference = (
        speaker(SharedBase(load_base(folder), shape_of(folder).targets), folder, weights),
        merged(folder, weights),
    )
    prompts = prompts_of(one)
    said = one.answer(Questions(prompts, np.zeros(5, np.uint64), np.zeros(5, int), 0.0, 6))
    for prompt, tokens in zip(prompts, said.tokens, strict=True):
        text = list(prompt)
        for token in tokens[tokens != NONE]:
            assert int(reference(torch.tensor([text])).logits[0, -1].argmax()) == token
            text.append(int(token))


def test_tokens_are_drawn_in_proportion() -> None:
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).expand(1000, 3)
    points = (np.arange(1000) + 0.5) / 1000
    assert np.bincount(sample_tokens(logits, points, 1.0).numpy()).tolist() == [100, 200, 700]
    squared = np.array([0.01, 0.04, 0.49]) / 0.54
    assert np.bincount(sample_tokens(logits, points, 0.5).numpy()) == pytest.approx(1000 * squared, abs=1)
    assert sample_tokens(logits, points, 0.0).unique().tolist() == [2]


def inputs_of(prompts: list[list[int]], answers: list[list[int]], at: int, width: int) -> torch.Tensor:
    found = torch.zeros(len(prompts), 2, width, dtype=torch.int64)
    found[:, 0] = NONE
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        found[row, 0, at - len(prompt) : at] = torch.tensor(prompt)
        found[row, 0, at : at + len(answer)] = torch.tensor(answer)
        found[row, 1, at : at + len(answer)] = 1
    return found


def test_the_trained_network_says_what_the_merged_model_does(folder: Path) -> None:
    weights = adapter(folder, 4)
    base, reference = load_base(folder), merged(folder, weights)
    prompts = [base.tokenizer.encode(text) for text in ("one", "another one", "one")]
    answers = [[65, 66, 67, BYTES], [1], [65, 66, 67, BYTES]]  # the first and the last row are alike
    network = AdapterNetwork(load_base(folder), shape_of(folder), weights | critic_weights(32))
    said = network(inputs_of(prompts, answers, 20, 30))
    assert said.logprob.shape == (3, 30) and said.value.tolist() == [0, 0, 0]
    plain = load_base(folder).model
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        text = torch.tensor([prompt + answer])
        log_all, log_base = (torch.log_softmax(m(text).logits[0, len(prompt) - 1 : -1], -1) for m in (reference, plain))
        here = slice(20, 20 + len(answer))
        assert said.logprob[row, here].detach().numpy() == pytest.approx(
            log_all[torch.arange(len(answer)), torch.tensor(answer)].detach().numpy(), abs=1e-4
        )
        kl = (log_all.exp() * (log_all - log_base)).sum(-1)
        assert said.kl[row, here].detach().numpy() == pytest.approx(kl.detach().numpy(), abs=1e-4)
        entropy = -(log_all.exp() * log_all).sum(-1)
        assert said.entropy[row, here].detach().numpy() == pytest.approx(entropy.detach().numpy(), abs=1e-4)
        assert said.logprob[row].count_nonzero() == len(answer)


def test_only_the_adapter_is_trained_and_checkpointing_or_accumulation_changes_no_gradient(
    folder: Path,
) -> None:
    weights = adapter(folder, 5) | critic_weights(32)
    base = load_base(folder)
    inputs = inputs_of([base.tokenizer.encode("abc"), base.tokenizer.encode("d")], [[5, BYTES], [6]], 8, 12)
    gradients = []
    for checkpointing, micro_batch in ((False, 0), (True, 0), (False, 1), (True, 1)):
        network = AdapterNetwork(load_base(folder), shape_of(folder), weights, checkpointing, micro_batch).train()
        trained = {name: one for name, one in network.named_parameters() if one.requires_grad}
        assert {name.removeprefix("adapter.").replace("/", ".") for name in trained} == set(weights)
        said = network(inputs)
        (said.logprob.sum() + said.kl.sum() + said.value.sum()).backward()
        gradients.append({name: one.grad.clone() for name, one in trained.items() if one.grad is not None})
        assert set(gradients[-1]) == set(trained)
    for name, gradient in gradients[0].items():
        assert all(torch.allclose(gradient, other[name], atol=1e-5) for other in gradients[1:]), name


def test_a_base_with_dropout_is_trained_without(tmp_path: Path) -> None:
    import transformers

    path = tmp_path / "base"
    config = transformers.OPTConfig(
        vocab_size=BYTES + 92, hidden_size=32, word_embed_proj_dim=32, ffn_dim=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, dropout=0.5, attention_dropout=0.5, layerdrop=0.5,
        bos_token_id=None, eos_token_id=BYTES, pad_token_id=BYTES + 1,
    )  # fmt: skip
    write_base(path, transformers.OPTForCausalLM(config))
    network = AdapterNetwork(load_base(path), shape_of(path), adapter(path, 5))
    inputs = inputs_of([[65, 66], [67]], [[5, BYTES], [6, BYTES]], 8, 12)
    said = network.eval()(inputs)
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(network.train()(inputs), said, strict=True))


def test_in_bfloat16_it_says_and_learns_nearly_the_same(folder: Path) -> None:
    weights = adapter(folder, 6) | critic_weights(32)
    base = load_base(folder)
    prompts = [base.tokenizer.encode(f"text {i}") for i in range(8)]
    inputs = inputs_of(prompts, [[65 + i, 66, BYTES] for i in range(8)], 8, 12)
    found = []
    for mixed in (False, True):
        network = AdapterNetwork(load_base(folder), shape_of(folder), weights).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            said = network(inputs)
        assert said.logprob.dtype == said.kl.dtype == said.entropy.dtype == said.value.dtype == torch.float32
        (said.logprob.sum() + said.kl.sum() + said.value.sum()).backward()
        trained = [one for one in network.parameters() if one.requires_grad]
        assert all(one.dtype == one.grad.dtype == torch.float32 for one in trained if one.grad is not None)
        found.append((said, torch.cat([one.grad.flatten() for one in trained if one.grad is not None])))
    (exact, gradient), (mixed_said, mixed_gradient) = found
    assert not torch.equal(exact.logprob, mixed_said.logprob), "both were computed in the same precision"
    for name in ("logprob", "kl", "entropy"):
        assert torch.allclose(getattr(exact, name), getattr(mixed_said, name), rtol=0.02, atol=0.02), name
    assert torch.cosine_similarity(gradient, mixed_gradient, 0) > 0.995
    assert mixed_gradient.norm().item() == pytest.approx(gradient.norm().item(), rel=0.02)


def test_accumulation_keeps_the_activations_of_one_part_alone(folder: Path) -> None:
    base, weights = load_base(folder), adapter(folder, 5)
    inputs = inputs_of([base.tokenizer.encode(f"text {i}") for i in range(8)], [[5, BYTES]] * 8, 8, 12)
    kept = {}
    for micro_batch in (0, 2):
        network = AdapterNetwork(load_base(folder), shape_of(folder), weights, micro_batch=micro_batch).train()
        sizes: list[int] = []

        def keep(one: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(one.numel())
            return one

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
            network(inputs)
        kept[micro_batch] = sum(sizes)
    assert kept[2] < kept[0] / 4


def test_what_is_only_measured_goes_in_parts_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, weights = load_base(folder), adapter(folder, 5) | critic_weights(32)
    inputs = inputs_of([base.tokenizer.encode(f"text {i}") for i in range(7)], [[5, BYTES]] * 7, 8, 12)
    sizes, logits = [], AdapterNetwork._logits
    monkeypatch.setattr(AdapterNetwork, "_logits", lambda *given: (sizes.append(len(given[1])), logits(*given))[1])
    with torch.inference_mode():
        whole, parts = (
            AdapterNetwork(load_base(folder), shape_of(folder), weights, micro_batch=micro_batch).eval()(inputs)
            for micro_batch in (0, 3)
        )
    assert sizes == [7, 7, 3, 3, 3, 3, 1, 1]
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(whole, parts, strict=True))


def test_peft_reads_the_adapter_and_says_the_same(folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="a second opinion on adapters")
    import safetensors.numpy

    weights, shape = adapter(folder, 6), shape_of(folder)
    safetensors.numpy.save_file(weights, tmp_path / "adapter_model.safetensors")
    described = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": shape.alpha,
                 "target_modules": list(shape.targets), "base_model_name_or_path": str(folder)}  # fmt: skip
    (tmp_path / "adapter_config.json").write_text(json.dumps(described))
    theirs = peft.PeftModel.from_pretrained(load_base(folder).model, tmp_path).eval()
    text = torch.tensor([load_base(folder).tokenizer.encode("What now?")])
    assert torch.allclose(theirs(text).logits, merged(folder, weights)(text).logits, atol=1e-4)


def test_a_folder_that_is_no_base_model_is_refused(folder: Path, tmp_path: Path) -> None:
    for missing, problem in (
        ("config.json", "no config.json is here"),
        ("model.safetensors", "no .* is here"),
        ("tokenizer", "no tokenizer is here; wanted tokenizer.json"),
    ):
        copy = tmp_path / missing
        shutil.copytree(folder, copy)
        for file in copy.glob(f"{missing}*"):
            file.unlink()
        with pytest.raises(FileError, match=problem):
            load_base(copy)
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(FileError, match="not readable as a language model"):
        load_base(broken)
    with pytest.raises(
        FileError, match=r"another base model \(\w{8}\) than the adapter was trained on; wanted 00000000"
    ):
        load_base(folder, "0" * 64)
    assert fingerprint(folder) == load_base(folder).fingerprint


def test_an_adapter_of_another_base_is_refused(folder: Path) -> None:
    shared = SharedBase(load_base(folder), shape_of(folder).targets)
    weights = adapter(folder, 7)
    name = next(iter(weights))
    for wrong, problem in (
        ({**weights, name: weights[name][:, :-1]}, "was it trained on another base model"),
        ({key: array for key, array in weights.items() if key != name}, "is missing"),
        ({**weights, PREFIX + "model.layers.9.x" + A: weights[name]}, "is unexpected"),
    ):
        with pytest.raises(MuGoError, match=problem):
            speaker(shared, folder, wrong)
    with pytest.raises(MuGoError, match="names 'loud'"):
        TorchGenerator(shared, shape_of(folder), weights, "loud", "brackets")


@pytest.mark.parametrize(
    ("reading", "answer", "action"),
    [
        ("brackets", "I think [a] or [bet]", "[bet]"),
        ("brackets", "bet", None),
        ("brackets", "[bet", None),
        ("boxed", "so \\boxed{bet}", "[bet]"),
        ("boxed", "\\boxed{[3]} \\boxed{ [4] }", "[4]"),
        ("boxed", "[4]", None),
        ("boxed", "\\boxed{ }", None),
        ("boxed", "\\boxed{I say [3]}", "I say [3]"),
        ("whole", " [bet]\n", "[bet]"),
    ],
)
def test_actions_are_read_from_answers(reading: str, answer: str, action: str | None) -> None:
    assert READINGS[reading](answer) == action


def test_a_generator_remembers_prompts_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "MOST_KEPT", 1000)
    kept = generation.TextGenerator.prompt_tokens

    class Remembers(generation.TextGenerator):
        def answer(self, asked):
            raise NotImplementedError

    one = Remembers(Tokenizer(byte_tokenizer()), "plain", "brackets")
    for number in range(50):
        text = f"{number:05d}" * 20
        assert kept(one, text, 50) == kept(one, text, 50)
        held = [len(text) + len(found) for (text, _), found in one._prompts.items()]
        assert one._kept == sum(held) <= 1000
    assert len(one._prompts) == 6
