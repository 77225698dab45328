"""Answers from a process of their own are those of this one; vLLM by a stand-in for its package."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline.errors import MuGoError, UsageError
from pipeline.families.text.language import players as language
from pipeline.families.text.language.adapters import LoraShape, new_adapter
from pipeline.families.text.language.base_model import tiny_model
from pipeline.families.text.language.generation import VALUE_BIAS, VALUE_WEIGHT, Questions, TorchGenerator
from pipeline.families.text.language.network import critic_weights
from pipeline.families.text.language.players import load_base, make_generators, write_base
from pipeline.families.text.language.server import GenerationServer, _Server
from pipeline.families.text.options import TextPlayerOptions
from tests.families.text.language.test_language import adapter, shape_of

WORDS = ("plain", "brackets")
KEYS, COUNTERS = np.arange(4, dtype=np.uint64), np.zeros(4, np.int64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "base"
    write_base(path, tiny_model(1, 32, 64, 1))
    return path


@pytest.fixture
def base(folder: Path) -> tuple[Path, str]:
    return folder, language.fingerprint(folder)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The server that a test starts, which ends with it."""
    started: list[Any] = []
    monkeypatch.setattr(language, "_SERVERS", started)
    yield started
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def started() -> Iterator[list[Any]]:
    found: list[Any] = []
    yield found
    for one in found:
        one.close()


@pytest.fixture
def lasting(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The server of all tests that leave it as it was."""
    monkeypatch.setattr(language, "_SERVERS", started)
    return started


def test_a_server_answers_as_this_process_does(base: tuple[Path, str], lasting: list[Any]) -> None:
    server, (path, _) = lasting, base
    shape, weights = shape_of(path), [adapter(path, 4) | critic_weights(32), adapter(path, 5) | critic_weights(32)]
    weights[0][VALUE_WEIGHT] += 0.1
    weights[0][VALUE_BIAS] += 0.5
    prompts = [load_base(path).tokenizer.encode(text) for text in ("one", "another", "one", "three")]
    here = [make_generators("auto", 1, base, shape, one, WORDS)[0] for one in weights]
    there = [make_generators("server", 2, base, shape, one, WORDS) for one in weights]
    assert os.getsid(server[0]._process.pid) != os.getsid(0)  # or Ctrl-C would reach it
    assert len(server) == 1 and there[0][0].prompt_tokens("one", 9) == here[0].prompt_tokens("one", 9)
    found: dict[int, Any] = {}

    def ask(thread: int) -> None:
        found[thread] = [one[thread].answer(Questions(prompts, KEYS + thread, COUNTERS, 1.0, 6, 0.7)) for one in there]

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for thread in (0, 1):
        for mine, theirs in zip(here, found[thread], strict=True):
            said = mine.answer(Questions(prompts, KEYS + thread, COUNTERS, 1.0, 6, 0.7))
            assert (said.tokens == theirs.tokens).all() and said.texts == theirs.texts
            assert theirs.values == pytest.approx(said.values, abs=1e-5)


def test_an_adapter_that_the_server_forgot_is_sent_again(base: tuple[Path, str], lasting: list[Any]) -> None:
    path, _ = base
    first = make_generators("server", 1, base, shape_of(path), adapter(path, 4), WORDS)[0]
    before = first.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))
    for seed in range(33):
        make_generators("server", 1, base, shape_of(path), adapter(path, seed), WORDS)
    assert (first.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4)).tokens == before.tokens).all()


def test_a_long_folder_of_temporary_files_is_no_obstacle(
    base: tuple[Path, str], server: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long := tmp_path / ("long" * 20)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    path, _ = base
    speaker = make_generators("server", 1, base, shape_of(path), adapter(path, 4), WORDS)[0]
    assert len(speaker.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4)).texts) == 1


def test_a_server_that_does_not_start_says_so_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    missing = GenerationServer("no_such_module")
    for _ in range(2):
        with pytest.raises(MuGoError, match=r"didn't start \(exit code 1\)"):
            missing.ask(0, {}, {})
    assert list(tmp_path.iterdir()) == []


class Served:
    """A server in this process, which notes requests and forgets adapters as often as it is told."""

    def __init__(self) -> None:
        self.serving = _Server()
        self.requests: list[tuple[int, dict[str, Any], Any]] = []
        self.forgets = 0

    def ask(self, thread: int, said: dict[str, Any], arrays: Any) -> Any:
        self.requests.append((thread, dict(said), arrays))
        if said["kind"] == "answer" and self.forgets:
            self.forgets -= 1
            return {"status": "unknown"}, {}
        return self.serving.replies([self.requests[-1]])[0][1:]

    def close(self) -> None:
        pass


def test_threads_share_an_adapter_and_are_answered_in_one_batch(
    base: tuple[Path, str], server: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = base
    server.append(served := Served())
    speakers = make_generators("server", 3, base, shape_of(path), adapter(path, 4), WORDS)
    assert [said["kind"] for _, said, _ in served.requests] == ["load"]
    questions = [Questions([[65], [66 + i]], KEYS[:2], COUNTERS[:2], 1.0, 4) for i in range(len(speakers))]
    alone = [one.answer(question).texts for one, question in zip(speakers, questions, strict=True)]
    asked, answer = [], TorchGenerator.answer
    batches = lambda one, *args: (asked.append(len(args[0].prompts)), answer(one, *args))[1]  # noqa: E731
    monkeypatch.setattr(TorchGenerator, "answer", batches)
    replies = served.serving.replies(served.requests[1:])
    assert asked == [6] and [said["texts"] for _, said, _ in replies] == alone


def test_a_question_is_repeated_while_the_adapter_is_forgotten(base: tuple[Path, str], server: list[Any]) -> None:
    path, _ = base
    server.append(served := Served())
    speaker = make_generators("server", 1, base, shape_of(path), adapter(path, 4), WORDS)[0]
    wanted = speaker.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))
    served.forgets = 3
    assert speaker.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4)).texts == wanted.texts
    served.forgets = 10**6
    with pytest.raises(MuGoError, match="more than 32 adapters answer at the same time"):
        speaker.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))


def test_an_adapter_that_is_pushed_out_still_answers_what_came_before(
    base: tuple[Path, str], server: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = base
    monkeypatch.setattr("pipeline.families.text.language.server.ADAPTERS_KEPT", 1)
    server.append(served := Served())
    first = make_generators("server", 1, base, shape_of(path), adapter(path, 4), WORDS)[0]
    first.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))
    _, question = served.requests
    make_generators("server", 1, base, shape_of(path), adapter(path, 5), WORDS)
    load_first, load_second = served.requests[0], served.requests[-1]
    served.serving.replies([load_first])
    replies = served.serving.replies([question, load_second, question])
    assert sorted(said["status"] for _, said, _ in replies) == ["done", "done", "unknown"]


def test_a_server_that_fails_or_ends_is_named(base: tuple[Path, str], server: list[Any]) -> None:
    path, _ = base
    with pytest.raises(MuGoError, match=r"the generation server: adapter: .* is missing; wanted"):
        make_generators("server", 1, base, shape_of(path), {}, WORDS)
    speaker = make_generators("server", 1, base, shape_of(path), adapter(path, 4), WORDS)[0]
    server[0]._process.kill()
    server[0]._process.wait()
    with pytest.raises(MuGoError, match=r"has ended \(exit code -9\); run the command again"):
        speaker.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))


class FakeVllm(ModuleType):
    """Says the seed's last digit and ends; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__("vllm")
        self.asked: list[Any] = []
        self.SamplingParams = lambda **settings: SimpleNamespace(**settings)
        outer = self

        class LLM:
            def __init__(self, **settings: Any) -> None:
                outer.settings = settings

            def generate(self, prompts: Any, params: Any, use_tqdm: bool, lora_request: Any) -> list[Any]:
                outer.asked.append((prompts, params, lora_request))
                answers = [[48 + one.seed % 10, one.stop_token_ids[0]] for one in params]
                return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=answer)]) for answer in answers]

        self.LLM = LLM


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> FakeVllm:
    fake, request = FakeVllm(), ModuleType("vllm.lora.request")
    request.LoRARequest = lambda name, number, folder: (name, number, Path(folder))  # type: ignore[attr-defined]
    for name, module in (("vllm", fake), ("vllm.lora", ModuleType("vllm.lora")), ("vllm.lora.request", request)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(language, "_VLLM_BASES", {})
    return fake


def test_vllm_is_asked_by_one_thread_at_a_time(base: tuple[Path, str], vllm: FakeVllm) -> None:
    speakers = make_generators("vllm", 2, base, shape_of(base[0]), adapter(base[0], 4), WORDS)
    together, met = threading.Barrier(2), []
    generate = vllm.LLM.generate

    def meeting(*args: Any, **settings: Any) -> list[Any]:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.5)
            met.append(threading.get_ident())
        return generate(*args, **settings)

    vllm.LLM.generate = meeting
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4)), speakers))
    assert not met and len(vllm.asked) == 2


def test_vllm_is_asked_with_adapters_lengths_and_seeds(base: tuple[Path, str], vllm: FakeVllm) -> None:
    path, _ = base
    speakers = make_generators("vllm", 2, base, shape_of(path), adapter(path, 4), WORDS, TextPlayerOptions(max_loras=7))
    assert vllm.settings["max_loras"] == 7
    said = speakers[0].answer(Questions([[65, 66], [67]], KEYS[:2], COUNTERS[:2], 0.5, 6, 0.9))
    prompts, params, (_, number, folder) = vllm.asked[0]
    assert [one["prompt_token_ids"] for one in prompts] == [[65, 66], [67]] and number == 1
    assert {(one.temperature, one.max_tokens, one.top_p) for one in params} == {(0.5, 6, 0.9)}
    assert params[0].seed != params[1].seed
    assert (folder / "adapter_config.json").exists() and (folder / "adapter_model.safetensors").exists()
    assert said.tokens.shape == (2, 6) and (said.tokens[:, 2:] == -1).all() and len(said.texts) == 2
    again = speakers[0].answer(Questions([[65, 66], [67]], KEYS[:2], COUNTERS[:2], 0.5, 6))
    assert (again.tokens == said.tokens).all()
    with pytest.raises(UsageError, match="it has no critic, which method a2c needs"):
        make_generators("vllm", 1, base, shape_of(path), adapter(path, 4) | critic_weights(32), WORDS)


@pytest.mark.parametrize(("rank", "most"), [(4, 8), (8, 8), (12, 16), (65, 128), (512, 512)])
def test_vllm_is_made_for_ranks_that_it_knows(base: tuple[Path, str], vllm: FakeVllm, rank: int, most: int) -> None:
    model, targets = load_base(base[0]).model, shape_of(base[0]).targets

    def loaded(rank: int) -> None:
        shape = LoraShape(rank, 2.0 * rank, targets)
        make_generators("vllm", 1, base, shape, new_adapter(model, shape, 1), WORDS)

    loaded(rank)
    assert vllm.settings["max_lora_rank"] == most
    loaded(most)
    with pytest.raises(UsageError, match=f"rank {most + 1}, but the first model loaded limits the rank to {most}"):
        loaded(most + 1)


def test_adapters_too_large_for_vllm_are_refused(base: tuple[Path, str], vllm: FakeVllm) -> None:
    shape = LoraShape(513, 1.0, shape_of(base[0]).targets)
    with pytest.raises(UsageError, match="an adapter of rank 513; wanted at most 512, or --backend auto"):
        make_generators("vllm", 1, base, shape, {}, WORDS)


def test_without_vllm_it_says_what_to_do(base: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(language, "_VLLM_BASES", {})
    with pytest.raises(UsageError, match=r"--backend vllm: vLLM isn't installed here; wanted `pip install vllm`"):
        make_generators("vllm", 1, base, shape_of(base[0]), adapter(base[0], 4), WORDS)


def test_vllm_ends_answers_at_every_end_token(vllm: FakeVllm, tmp_path: Path) -> None:
    from tests.families.text.language.folders import write_folder

    path = write_folder(tmp_path / "llama", "llama")
    loaded = load_base(path)
    shape = LoraShape(4, 8.0, ["q_proj"])
    weights = new_adapter(loaded.model, shape, 1)
    (one,) = make_generators("vllm", 1, (path, loaded.fingerprint), shape, weights, ("chat", "brackets"))
    one.answer(Questions([[65]], KEYS[:1], COUNTERS[:1], 1.0, 4))
    ((_, params, (_, _, folder)),) = vllm.asked
    assert params[0].stop_token_ids == list(loaded.tokenizer.end_tokens) and len(params[0].stop_token_ids) == 3
    assert "<|start_header_id|>" in one.template("What now?")
    assert (folder / "adapter_config.json").exists()
