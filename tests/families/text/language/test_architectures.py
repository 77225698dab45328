"""Folders of Qwen3, Llama and Gemma as Hugging Face writes them: they load, answer and train; adapters go elsewhere."""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch

pytest.importorskip("textarena", reason="text games need the extra text")
pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline import main
from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.families.text.language.adapters import (
    ALL_LINEAR,
    LoraShape,
    last_part,
    layers_of,
    layers_without,
    new_adapter,
    peft_files,
    put_slot,
)
from pipeline.families.text.language.base_model import BYTES, Base, tiny_model, transformers_package
from pipeline.families.text.language.generation import NONE, Questions, SharedBase, TorchGenerator, sample_tokens
from pipeline.families.text.language.network import AdapterNetwork, critic_weights
from pipeline.families.text.language.players import SHARED_BASES, fingerprint, load_base, write_base
from pipeline.families.text.reinforce.columns import example_columns
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.run.chunks import newest_complete_set, read_chunk
from pipeline.run.models import read_model, write_model
from pipeline.run.shards import newest_shards, read_shard
from pipeline.train.config import InitConfig
from pipeline.train.init import init
from tests.families.text.language.folders import KINDS, write_folder
from tests.families.text.language.test_language import inputs_of
from tests.helpers import Heard

OBSERVATION = "### Starting round 1 of 3 rounds. Your card is: 'K' ♠. Your available actions are: '[check]', '[bet]'"
GAME = "text:KuhnPoker-v0,prompt=200,reply=8"
RANK = 4
every_kind = pytest.mark.parametrize("kind", list(KINDS))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("folders")
    return {kind: write_folder(place / kind, kind) for kind in KINDS}


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A folder of Qwen3 to damage."""
    return shutil.copytree(folders["qwen3"], tmp_path / "copy")


def shape_of(base: Base) -> LoraShape:
    return LoraShape(RANK, 2.0 * RANK, sorted({last_part(name) for name in layers_of(base.model)}))


def adapter(base: Base, seed: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = new_adapter(base.model, shape_of(base), seed)
    return {name: array + generator.normal(0, 0.05, array.shape).astype("f4") for name, array in weights.items()}


def speaker(base: Base, weights: dict[str, np.ndarray], template: str = "plain") -> TorchGenerator:
    shape = shape_of(base)
    return TorchGenerator(SharedBase(base, shape.targets), shape, weights, template, "brackets")


def raw_tokenizer(path: Path) -> Any:
    return transformers_package().AutoTokenizer.from_pretrained(path)


@every_kind
def test_a_folder_is_in_shards_and_an_answer_ends_at_any_of_its_end_tokens(
    folders: dict[str, Path], kind: str
) -> None:
    path = folders[kind]
    assert len(list(path.glob("model-*.safetensors"))) > 1 and (path / "model.safetensors.index.json").exists()
    base = load_base(path)
    assert {one.dtype for one in base.model.parameters()} == {torch.float32}
    raw = raw_tokenizer(path)
    assert set(base.tokenizer.end_tokens) == set(raw.convert_tokens_to_ids(KINDS[kind][2]))
    assert base.tokenizer.end_tokens[0] == raw.eos_token_id
    said = base.tokenizer.encode("[bet]")
    for end in base.tokenizer.end_tokens:
        assert base.tokenizer.decode([*said, end, *said]).strip() == "[bet]"


@every_kind
def test_without_a_generation_config_the_end_of_a_chat_is_known_from_its_template(
    folders: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path = shutil.copytree(folders[kind], tmp_path / kind)
    (path / "generation_config.json").unlink()
    end = {"qwen3": "<|im_end|>", "llama": "<|eot_id|>"}.get(kind, "<end_of_turn>")
    assert raw_tokenizer(path).convert_tokens_to_ids(end) in load_base(path).tokenizer.end_tokens


@every_kind
def test_greedy_answers_are_those_of_transformers(folders: dict[str, Path], kind: str) -> None:
    """Of prompts of different lengths in one batch, beyond the sliding window; transformers answers one at a time."""
    base = load_base(folders[kind])
    plain = new_adapter(base.model, shape_of(base), 1)
    one = speaker(base, plain, "chat")
    texts = [OBSERVATION[:20], OBSERVATION, OBSERVATION * 2, OBSERVATION[:33]]
    prompts = [one.prompt_tokens(text, 400) for text in texts]
    said = one.answer(Questions(prompts, np.zeros(4, np.uint64), np.zeros(4, int), 0.0, 12))
    package = transformers_package()
    model = package.AutoModelForCausalLM.from_pretrained(folders[kind], dtype=torch.float32)
    raw = raw_tokenizer(folders[kind])
    for text, prompt, tokens in zip(texts, prompts, said.tokens, strict=True):
        task = "You play a game. Reason briefly, then end with your action in square brackets."
        message = [{"role": "user", "content": f"{task}\n\n{text}"}]
        theirs = raw.apply_chat_template(message, add_generation_prompt=True, date_string="26 Jul 2024")["input_ids"]
        assert prompt == list(theirs)
        found = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.int64), do_sample=False,
            max_new_tokens=12, eos_token_id=list(base.tokenizer.end_tokens),
        )  # fmt: skip
        assert tokens[tokens != NONE].tolist() == found[0, len(prompt) :].tolist()


def test_a_template_that_shows_the_day_shows_always_the_same(folders: dict[str, Path]) -> None:
    tokenizer = load_base(folders["qwen3"]).tokenizer
    tokenizer._tokenizer.chat_template = "{{ strftime_now('%d %B %Y') }}: {{ messages[0]['content'] }}"
    assert tokenizer.chat("hello") == "26 Jul 2024: hello"


def test_an_answer_stops_at_the_first_of_several_ends(folders: dict[str, Path]) -> None:
    base = load_base(folders["llama"])
    one = speaker(base, new_adapter(base.model, shape_of(base), 1))
    prompt = one.prompt_tokens(OBSERVATION, 400)
    asked = Questions([prompt] * 400, np.arange(400, dtype=np.uint64), np.zeros(400, int), 3.0, 24)
    said = one.answer(asked)
    ends = list(base.tokenizer.end_tokens)
    last = [row[row != NONE] for row in said.tokens]
    assert {int(row[-1]) for row in last if len(row) < 24} == set(ends), "all of them end some answer"
    assert not any(np.isin(row[:-1], ends).any() for row in last)


@every_kind
def test_log_probabilities_count_every_end_token(folders: dict[str, Path], kind: str) -> None:
    base = load_base(folders[kind])
    one = speaker(base, new_adapter(base.model, shape_of(base), 1))
    prompt = one.prompt_tokens(OBSERVATION, 400)
    found = np.exp(one.logprobs([prompt], ["[bet]"]))[0]
    answer = base.tokenizer.encode("[bet]")
    by_hand = 0.0
    for end in base.tokenizer.end_tokens:
        text = torch.tensor([[*prompt, *answer, end]])
        chances = torch.softmax(load_base(folders[kind]).model(text).logits[0, len(prompt) - 1 : -1].double(), -1)
        by_hand += float(chances[torch.arange(len(answer) + 1), text[0, len(prompt) :]].prod())
    assert found == pytest.approx(by_hand, rel=1e-3)


@every_kind
def test_a_prompt_begins_once_with_the_token_for_it(folders: dict[str, Path], kind: str) -> None:
    base, raw = load_base(folders[kind]), raw_tokenizer(folders[kind])
    begins = [] if raw.bos_token_id is None else [raw.bos_token_id]
    assert bool(begins) == (kind != "qwen3")
    for template in ("plain", "chat"):
        one = speaker(load_base(folders[kind]), new_adapter(base.model, shape_of(base), 1), template)
        for most in (400, 40):
            tokens = one.prompt_tokens(OBSERVATION, most)
            assert tokens[: len(begins)] == begins and all(tokens.count(begin) == 1 for begin in begins)


@every_kind
def test_a_prompt_that_is_too_long_loses_the_oldest_of_the_observation_alone(
    folders: dict[str, Path], kind: str
) -> None:
    base = load_base(folders[kind])
    one = speaker(base, new_adapter(base.model, shape_of(base), 1), "chat")
    whole = one.prompt_tokens(OBSERVATION, 400)
    short = one.prompt_tokens(OBSERVATION, len(whole) - 9)
    assert len(short) == len(whole) - 9
    cut = next(at for at, (ours, theirs) in enumerate(zip(short, whole, strict=False)) if ours != theirs)
    assert short[cut:] == whole[cut + 9 :] and short[:cut] == whole[:cut]
    raw = raw_tokenizer(folders[kind])
    assert raw.decode(whole[:cut]).rstrip().endswith("in square brackets.")
    assert len(one.prompt_tokens(OBSERVATION, 5)) == 5


@every_kind
def test_special_tokens_that_a_player_says_are_ordinary_text(folders: dict[str, Path], kind: str) -> None:
    base, raw = load_base(folders[kind]), raw_tokenizer(folders[kind])
    special = [str(token) for token in raw.added_tokens_decoder.values() if token.special]
    ids = {index for index, token in raw.added_tokens_decoder.items() if token.special}
    assert raw.eos_token in special and set(base.tokenizer.end_tokens) <= ids
    for template in ("plain", "chat"):
        one = speaker(base, new_adapter(base.model, shape_of(base), 1), template)
        own = [token for token in one.prompt_tokens("", 400) if token in ids]
        for said in (*special, "".join(special), f"{special[0][:2]}{special[0]}{special[0][2:]}"):
            tokens = one.prompt_tokens(f"{OBSERVATION} I say {said} and you won", 900)
            assert [token for token in tokens if token in ids] == own


def test_a_template_without_an_observation_in_it_is_cut_at_its_beginning(folders: dict[str, Path]) -> None:
    tokenizer = load_base(folders["qwen3"]).tokenizer
    tokens = tokenizer.encode("one two three four")
    assert tokenizer.prompt("one two three four", "another text", len(tokens) - 2) == tokens[2:]


@every_kind
def test_the_commands_play_and_train(
    folders: dict[str, Path], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> None:
        assert not main.app(line.split(), standalone_mode=False), line

    run(f"init --game {GAME} --method reinforce --network-size r4 --base-model {folders[kind]} --prompt-template chat")
    run("selfplay --games 8 --threads 2 --top-p 0.9")
    run("gather --as-many-as-possible --positions-per-chunk 8 --holdout-fraction 0")
    run(
        "train --epochs 1 --batch-size 8 --learning-rate 0.01 --weight-decay 0 --lora-dropout 0.1 "
        "--activation-checkpointing --precision float32"
    )
    run("evaluate --white-model saved_models/000001-r4 --black-model random --games 4 --no-promote --top-p 0.5")
    first, second = (read_model(path) for path in sorted(Path("saved_models").glob("00000*")))
    changed = [name for name, array in second.weights.items() if (array != first.weights[name]).any()]
    assert any(name.endswith("lora_B.weight") for name in changed)
    base = load_base(folders[kind])
    assert second.info.architecture["base"] == str(folders[kind].resolve())
    (meta,) = newest_shards(Path("data/selfplay"))
    record = read_shard(meta.path, meta).game(0)
    prompt = record.own["prompt"][1]
    game = parse_game(GAME)
    state = game.play(game.initial(1), record.moves[:1].astype(np.int32), None)[0]
    one = speaker(base, new_adapter(base.model, shape_of(base), 1), "chat")
    assert prompt[prompt != NONE].tolist() == one.prompt_tokens(game.observation(state), 200)


@every_kind
def test_an_exported_adapter_opens_in_peft_and_has_the_form_that_vllm_reads(
    folders: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft", reason="a second opinion on adapters")
    path = tmp_path / "saved_models/000000-init"
    init(InitConfig(game=GAME, method="a2c", network_size="r4", base_model=folders[kind], new_model=path, lora_alpha=6))
    # B is 0 in a new adapter, which would hide a wrong name or scale
    model = read_model(path)
    generator = np.random.default_rng(5)
    weights = {
        name: generator.normal(0, 0.05, one.shape).astype("f4") if "lora_B" in name else one
        for name, one in model.weights.items()
    }
    write_model(path.with_name("000001-r4"), model.info.model_copy(update={"number": 1}), weights)
    main.app(["export", str(path.with_name("000001-r4")), str(tmp_path / "mine")], standalone_mode=False)
    theirs = peft.PeftModel.from_pretrained(load_base(folders[kind]).model, tmp_path / "mine").eval()
    base = load_base(folders[kind])
    shape = LoraShape(4, 6.0, shape_of(base).targets)
    network = AdapterNetwork(load_base(folders[kind]), shape, weights).eval()
    text = [base.tokenizer.encode(OBSERVATION)]
    logits = theirs(torch.tensor(text)).logits
    said = network(inputs_of([text[0][:-3]], [text[0][-3:]], len(text[0]), len(text[0]) + 3))
    wanted = torch.log_softmax(logits[0, -4:-1], -1)[torch.arange(3), torch.tensor(text[0][-3:])]
    assert torch.allclose(said.logprob[0, -3:], wanted, atol=1e-4) and said.kl.abs().max() > 1e-4

    described = json.loads((tmp_path / "mine/adapter_config.json").read_text())
    assert described["r"] == 4 and described["lora_alpha"] == 6 and isinstance(described["lora_alpha"], int)
    assert described["bias"] == "none" and not described["modules_to_save"] and not described["use_dora"]
    with safetensors.safe_open(tmp_path / "mine/adapter_model.safetensors", "np") as found:
        names = list(found.keys())
    assert set(names) == set(peft.get_peft_model_state_dict(theirs))
    for name in names:  # vLLM: base_model.model.MODULE.lora_A.weight, whose last part is one of target_modules
        match = re.fullmatch(r"base_model\.model\.(model\.layers\.\d+\.\w+\.(\w+))\.lora_[AB]\.weight", name)
        assert match and match[2] in described["target_modules"], name


def test_an_adapter_for_another_base_is_refused_with_both_fingerprints(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    path = shutil.copytree(folders["qwen3"], tmp_path / "base")
    expected = fingerprint(path)
    assert load_base(path, expected).fingerprint == expected
    for name, changed in (
        ("chat_template.jinja", "{{ messages[0]['content'] }}"),
        ("generation_config.json", '{"eos_token_id": 3}'),
    ):
        before = (path / name).read_text()
        (path / name).write_text(changed)
        with pytest.raises(FileError, match=rf"another base model \(\w{{8}}\) .* wanted {expected[:8]}; restore"):
            load_base(path, expected)
        (path / name).write_text(before)
    assert load_base(path, expected).fingerprint == expected


# What init refuses


def init_error(tmp_path: Path, base: Path | None, **changed: Any) -> str:
    asked = {"game": GAME, "method": "reinforce", "network_size": "r4", "new_model": tmp_path / "x/000000-init"}
    with pytest.raises((UsageError, FileError)) as caught:
        init(InitConfig(**{**asked, "base_model": base, **changed}))
    assert not (tmp_path / "x").exists() or not list((tmp_path / "x").iterdir())
    return str(caught.value)


def test_a_chat_template_that_is_missing_or_wrong(copy: Path, tmp_path: Path) -> None:
    wanted = "--prompt-template chat: the base model's tokenizer has no chat template; wanted another template"
    assert wanted in init_error(tmp_path, None, network_size="l1d32r4", prompt_template="chat")
    (copy / "chat_template.jinja").unlink()
    assert wanted in init_error(tmp_path, copy, prompt_template="chat")
    (copy / "chat_template.jinja").write_text("{{ raise_exception('no users') }}")
    load_base(copy)  # other templates don't need it
    with pytest.raises(MuGoError, match=r"chat template failed .*no users"):
        speaker(load_base(copy), {}, "chat")


def test_damaged_shards(copy: Path, tmp_path: Path) -> None:
    shards = sorted(copy.glob("model-*.safetensors"))
    whole = shards[1].read_bytes()
    shards[1].write_bytes(whole[:-100])
    assert f"{shards[1]}: not readable as a language model" in init_error(tmp_path, copy)
    shards[1].write_bytes(b"\xff" * 100)
    assert f"{shards[1]}: not readable as a language model" in init_error(tmp_path, copy)
    shards[1].unlink()
    assert f"{shards[1]}: missing: model.safetensors.index.json names it; wanted all shards" in init_error(
        tmp_path, copy
    )
    shards[1].write_bytes(whole)
    index = copy / "model.safetensors.index.json"
    for text, problem in (("{", "damaged: not JSON"), ("[]", "not a JSON object"), ("{}", 'it has no "weight_map"')):
        index.write_text(text)
        assert f"{index}: " in (said := init_error(tmp_path, copy)) and problem in said


def test_an_array_that_is_missing_is_not_replaced_by_random_numbers(copy: Path, tmp_path: Path) -> None:
    index = copy / "model.safetensors.index.json"
    facts = json.loads(index.read_text())
    name = "model.layers.1.mlp.up_proj.weight"
    file = copy / facts["weight_map"].pop(name)
    arrays = {key: one for key, one in _tensors(file).items() if key != name}
    from safetensors.torch import save_file

    save_file(arrays, file, {"format": "pt"})
    index.write_text(json.dumps(facts))
    assert f"its weights lack {name}; wanted all" in init_error(tmp_path, copy)


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(file)


def test_weights_in_pickles_are_never_read(copy: Path, tmp_path: Path) -> None:
    for file in copy.glob("*.safetensors*"):
        file.unlink()
    torch.save({"x": torch.zeros(1)}, copy / "pytorch_model.bin")
    assert "no *.safetensors is here" in init_error(tmp_path, copy)


def test_code_in_a_folder_is_never_run(copy: Path, tmp_path: Path) -> None:
    (copy / "modeling_own.py").write_text("import pathlib; pathlib.Path('was_run').touch()\nraise SystemExit\n")
    config = json.loads((copy / "config.json").read_text())
    own = {"AutoConfig": "modeling_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))
    said = init_error(tmp_path, copy)
    assert "has no architecture 'own', and code in a model's folder (auto_map) is never run; wanted another" in said
    (copy / "config.json").write_text(json.dumps({**config, "auto_map": own}))
    load_base(copy)  # by transformers' own class
    del config["model_type"]
    (copy / "config.json").write_text(json.dumps(config))
    assert 'it names no architecture; wanted a "model_type"' in init_error(tmp_path, copy)
    assert not Path("was_run").exists()


# Options of adapters


def test_targets_and_alpha(folders: dict[str, Path], tmp_path: Path) -> None:
    def architecture(number: int, **options: Any) -> dict[str, Any]:
        path = tmp_path / f"saved_models/{number:06}-init"
        asked = {"game": GAME, "method": "reinforce", "network_size": "r4", "base_model": folders["llama"]}
        init(InitConfig(**asked, new_model=path, **options))
        return read_model(path).info.architecture

    every = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    found = architecture(0, lora_targets=ALL_LINEAR)
    assert found["targets"] == every and found["alpha"] == 8 and found["rank"] == 4
    found = architecture(1, lora_targets="v_proj,q_proj,lm_head", lora_alpha=3)
    assert found["targets"] == ["lm_head", "q_proj", "v_proj"] and found["alpha"] == 3
    assert len(read_model(tmp_path / "saved_models/000001-init").weights) == 2 * (2 * 3 + 1)
    said = init_error(tmp_path, folders["llama"], lora_targets="q_proj,c_attn")
    assert "init --lora-targets q_proj,c_attn: " in said and "no linear layer named c_attn; its linear layers" in said


def test_what_gets_no_adapter_is_said(tmp_path: Path) -> None:
    """GPT-2's layers are of another kind, and experts are arrays of three axes."""
    package = transformers_package()
    small = {"vocab_size": BYTES + 92, "bos_token_id": None, "eos_token_id": BYTES}
    gpt2 = package.GPT2LMHeadModel(package.GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=256, **small))
    assert layers_without(gpt2) == ["c_attn.weight", "c_fc.weight", "c_proj.weight"]
    assert layers_without(tiny_model(1, 32, 64, 1)) == []
    moe = package.Qwen3MoeForCausalLM(
        package.Qwen3MoeConfig(
            hidden_size=32, intermediate_size=32, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2,
            num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
            max_position_embeddings=512, **small,
        )
    )  # fmt: skip
    write_base(tmp_path / "base", moe)
    heard = Heard()
    asked = {"game": GAME, "method": "reinforce", "network_size": "r4", "base_model": tmp_path / "base"}
    init(InitConfig(**asked, new_model=tmp_path / "saved_models/000000-init"), heard)
    said = [line for line in heard.said if "no adapters on" in line]
    assert len(said) == 1 and "experts.gate_up_proj" in said[0] and "which aren't linear layers" in said[0]


def test_dropout_leaves_out_inputs_of_the_adapter_in_training_alone(folders: dict[str, Path]) -> None:
    base = load_base(folders["qwen3"])
    weights = adapter(base) | critic_weights(64)
    inputs = inputs_of([base.tokenizer.encode("abc"), base.tokenizer.encode("d")], [[5, 6], [6]], 8, 12)

    def network(dropout: float, checkpointing: bool = False) -> AdapterNetwork:
        return AdapterNetwork(load_base(folders["qwen3"]), shape_of(base), weights, checkpointing, 0, dropout)

    plain, with_it = network(0.0), network(0.3)
    assert torch.equal(plain.eval()(inputs).logprob, with_it.eval()(inputs).logprob)
    said = with_it.train()(inputs).logprob
    assert not torch.allclose(said, plain.train()(inputs).logprob, atol=1e-3)
    torch.manual_seed(1)  # of no consequence
    assert torch.equal(with_it(inputs).logprob, said) and torch.equal(deepcopy(with_it)(inputs).logprob, said)
    gradients = []
    for one in (network(0.3), network(0.3, checkpointing=True)):
        one.train()(inputs).logprob.sum().backward()
        gradients.append({name: p.grad for name, p in one.named_parameters() if p.grad is not None})
    assert gradients[0] and all(torch.allclose(g, gradients[1][name], atol=1e-5) for name, g in gradients[0].items())


def test_dropout_is_right_on_average() -> None:
    package = transformers_package()
    config = package.LlamaConfig(
        vocab_size=8, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    model = package.LlamaForCausalLM(config).train()
    slot = put_slot(model, ["q_proj"])
    layer = model.model.layers[0].self_attn.q_proj
    slot.adapter = {"model.layers.0.self_attn.q_proj": (torch.randn(4, 32), torch.randn(32, 4))}
    x = torch.randn(1, 32)
    wanted = layer(x)
    slot.dropout = 0.25
    found = []
    for slot.key in range(4000):
        found.append(layer(x))
    assert len({tuple(one[0].tolist()) for one in found[:10]}) == 10
    spread = torch.stack(found).std(0) / 4000**0.5
    assert ((torch.stack(found).mean(0) - wanted).abs() < 5 * spread).all()


def test_only_the_likeliest_tokens_that_make_up_top_p_are_sampled() -> None:
    logits = torch.log(torch.tensor([[0.15, 0.4, 0.05, 0.4]])).expand(1000, 4)
    points = (np.arange(1000) + 0.5) / 1000
    for top_p, wanted in ((1.0, [150, 400, 50, 400]), (0.9, [158, 421, 0, 421]), (0.5, [0, 500, 0, 500]), (0.1, None)):
        counts = np.bincount(sample_tokens(logits, points, 1.0, top_p).numpy(), minlength=4).tolist()
        assert counts == wanted or (wanted is None and counts == [0, 1000, 0, 0]), top_p


def test_the_end_of_a_long_answer_is_not_learned_from(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> None:
        assert not main.app(line.split(), standalone_mode=False), line

    game = GAME.replace("200", "40")
    run(f"init --game {game} --method reinforce --network-size r4 --base-model {folders['qwen3']}")
    run("selfplay --games 4 --threads 1")
    with pytest.raises(UsageError, match=r"gather --max-train-len 40: .* has prompts of up to 40 tokens; wanted more"):
        gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=4, max_train_len=40))
    for most, longest in ((0, 8), (43, 3)):
        run(
            "gather --as-many-as-possible --positions-per-chunk 4 --holdout-fraction 0 "
            f"--max-train-len {most} --output-directory chunks{most}"
        )
        found = newest_complete_set(Path(f"chunks{most}"))
        assert found is not None
        types = example_columns(parse_game(game))
        tokens = np.concatenate([read_chunk(path, game, types).columns["tokens"] for path in found.chunks])
        assert (tokens[:, 39] != NONE).all() and (tokens[:, 40:] != NONE).sum(1).max() == longest
        assert (tokens[:, :40] != NONE).all(), "the prompt fills its room"


# Memory and numerics


def test_threads_and_replicas_share_the_weights_of_their_base(folders: dict[str, Path]) -> None:
    path, expected = folders["llama"], fingerprint(folders["llama"])
    targets = shape_of(load_base(path)).targets
    first, second = (SHARED_BASES.get(path, expected, targets, thread) for thread in (0, 1))
    assert SHARED_BASES.get(path, expected, targets, 0) is first and first.slot is not second.slot
    network = AdapterNetwork(SHARED_BASES.copy(path, expected), shape_of(first.base), adapter(first.base))
    replica = deepcopy(network)

    def places(model: Any) -> set[int]:
        return {one.data_ptr() for one in model.parameters() if not one.requires_grad}

    assert places(first.base.model) == places(second.base.model) == places(network.base) == places(replica.base)
    assert replica.slot is not network.slot
    mine, other = (set(map(id, one.adapter.parameters())) for one in (network, replica))
    assert mine and not mine & other
    # The adapter of one doesn't show in another.
    inputs = inputs_of([[5, 6, 7]], [[8, 9]], 8, 12)
    before = replica(inputs).logprob
    with torch.no_grad():
        for one in network.adapter.parameters():
            one.zero_()
    assert torch.equal(replica(inputs).logprob, before) and not torch.equal(network(inputs).logprob, before)


@every_kind
def test_on_a_gpu_weights_stay_as_they_are_stored(
    folders: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor computes the same in place of the GPU."""
    exact = load_base(folders[kind])
    monkeypatch.setattr("pipeline.families.text.language.players.gpu_fault", lambda: "")
    stored = load_base(folders[kind])
    assert {one.dtype for one in stored.model.parameters()} == {torch.bfloat16}
    weights = adapter(exact) | critic_weights(64)
    prompts = [exact.tokenizer.encode(OBSERVATION[: 10 * i]) for i in (1, 2, 3, 4)]
    inputs = inputs_of(prompts, [[5, 6, 7]] * 4, 60, 64)
    found = []
    for base in (exact, stored):
        network = AdapterNetwork(replace(base, model=deepcopy(base.model)), shape_of(base), weights).train()
        said = network(inputs)
        (said.logprob.sum() + said.kl.sum()).backward()
        grown = [one.grad for one in network.adapter.parameters() if one.grad is not None]
        assert {one.dtype for one in (*said, *grown)} == {torch.float32}
        found.append((said.logprob[said.logprob != 0], torch.cat([one.flatten() for one in grown])))
    (logprob, gradient), (stored_logprob, stored_gradient) = found
    assert not torch.equal(logprob, stored_logprob)
    assert torch.allclose(logprob, stored_logprob, rtol=0.05, atol=0.15)
    assert torch.cosine_similarity(gradient, stored_gradient, 0) > 0.97
    one = speaker(stored, weights)
    said = one.answer(Questions(prompts, np.arange(4, dtype=np.uint64), np.zeros(4, int), 1.0, 6))
    assert said.tokens.shape == (4, 6) and np.isfinite(said.values).all()


def test_adapter_files_name_integers_as_integers() -> None:
    weights = {"base_model.model.x.lora_A.weight": np.zeros((4, 3), "f4"), "value_head.weight": np.zeros((1, 3), "f4")}
    for alpha, wanted in ((8.0, "8"), (2.5, "2.5")):
        files = peft_files(LoraShape(4, alpha, ["x"]), weights, "/models/base")
        assert f'"lora_alpha": {wanted},' in files["adapter_config.json"].decode()
    assert list(safetensors.numpy.load(files["adapter_model.safetensors"])) == ["base_model.model.x.lora_A.weight"]
