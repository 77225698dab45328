"""Evaluators: correct on every backend, for every batch, from several threads; the measured choice and its cache."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import Evaluate, Evaluation, Planes
from pipeline.networks import folding, gpu, inference, openvino_backend
from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.gpu import gpu_fault
from pipeline.networks.inference import (
    INT8_POLICY_TOLERANCE,
    INT8_VALUE_TOLERANCE,
    POLICY_TOLERANCE,
    VALUE_TOLERANCE,
    BackendSpec,
    Evaluator,
    available_backends,
    evaluation_rate,
    make_evaluators,
    run_together,
    softmax,
)
from tests.helpers import Heard
from tests.networks.conftest import ARCHITECTURES, lively_weights, random_planes

GO = ARCHITECTURES["points and pass"]
needs_openvino = pytest.mark.skipif(not openvino_backend.is_installed("openvino"), reason="openvino is not installed")
ENGINES = ["torch", pytest.param("openvino", marks=needs_openvino)]


@pytest.fixture(autouse=True)
def cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(inference, "MEASURED_SECONDS", 0.01)
    return tmp_path / "cache" / "mugo" / "backends.json"


@pytest.mark.parametrize("backend", ENGINES)
def test_every_backend_agrees_with_float32(backend: str, architecture: Architecture) -> None:
    weights = lively_weights(architecture)
    evaluator = make_evaluators(architecture, weights, 40, 1, backend)[0]
    planes = random_planes(architecture, 40)
    logits, value = evaluator(planes)
    wanted_logits, wanted_value = evaluate_plain(architecture, fold(architecture, weights), planes)
    assert np.abs(softmax(logits) - softmax(wanted_logits)).max() < POLICY_TOLERANCE
    assert np.abs(value - wanted_value).max() < VALUE_TOLERANCE
    assert logits.dtype == value.dtype == np.float32


@pytest.mark.parametrize("backend", ENGINES)
def test_float32_backends_agree_closely(backend: str, architecture: Architecture) -> None:
    """A bf16 backend may hide a mistake in its rounding; the same graph in float32 can't."""
    folded = fold(architecture, lively_weights(architecture))
    planes = random_planes(architecture, 16)
    logits, value = BackendSpec(backend, "cpu", "float32").build(architecture, folded, 1).for_thread(0)(planes)
    wanted_logits, wanted_value = evaluate_plain(architecture, folded, planes)
    np.testing.assert_allclose(logits, wanted_logits, atol=1e-4)
    np.testing.assert_allclose(value, wanted_value, atol=1e-4)


@pytest.mark.parametrize("backend", ENGINES)
def test_any_number_of_rows_up_to_the_largest(backend: str) -> None:
    weights = lively_weights(GO)
    evaluator = make_evaluators(GO, weights, 24, 1, backend)[0]
    assert evaluator.max_batch == 24
    planes = random_planes(GO, 25)
    whole_logits, whole_value = evaluator(planes[:24])
    for count in (0, 1, 2, 15, 16, 17, 23, 24):
        logits, value = evaluator(planes[:count])
        assert (logits.shape, value.shape) == ((count, GO.actions), (count,))
        np.testing.assert_allclose(logits, whole_logits[:count], atol=0.02)
        np.testing.assert_allclose(value, whole_value[:count], atol=0.02)
    with pytest.raises(ValueError, match="at most 24"):
        evaluator(planes)
    with pytest.raises(ValueError, match="float32"):
        evaluator(planes[:3].astype(np.float32))


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("count", [5, 16])
def test_a_network_sees_the_planes_that_it_was_made_with(backend: str, count: int) -> None:
    evaluator = make_evaluators(GO, lively_weights(GO), 16, 1, backend)[0]
    planes = random_planes(GO, count)
    more = np.concatenate([planes, np.ones_like(planes)], axis=1)
    for found, wanted in zip(evaluator(more), evaluator(planes), strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match=f"at least {GO.planes}, "):
        evaluator(planes[:, 1:])


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("count", [5, 16, 20, 24])
def test_a_row_does_not_depend_on_what_the_others_hold(backend: str, count: int) -> None:
    evaluator = make_evaluators(GO, lively_weights(GO), 24, 1, backend)[0]
    planes, others = random_planes(GO, count, 1), random_planes(GO, count, 2)
    others[2] = planes[2]
    first, second = evaluator(planes), evaluator(others)
    np.testing.assert_array_equal(first[0][2], second[0][2])
    assert first[1][2] == second[1][2]


@pytest.mark.parametrize("backend", ENGINES)
def test_outputs_belong_to_the_caller(backend: str) -> None:
    evaluator = make_evaluators(GO, lively_weights(GO), 24, 1, backend)[0]
    logits, value = evaluator(random_planes(GO, 24, 1))
    kept = logits.copy(), value.copy()
    evaluator(random_planes(GO, 24, 2))
    np.testing.assert_array_equal(logits, kept[0])
    np.testing.assert_array_equal(value, kept[1])
    logits[:] = 0  # writable


@pytest.mark.parametrize("backend", ENGINES)
def test_threads_run_at_once_without_mixing(backend: str) -> None:
    weights = lively_weights(GO)
    alone = make_evaluators(GO, weights, 32, 1, backend)[0]
    evaluators = make_evaluators(GO, weights, 32, 3, backend)
    counts = (32, 19, 7)
    wanted = [alone(random_planes(GO, counts[thread], thread)) for thread in range(3)]
    differences: list[float] = []

    def work(thread: int) -> None:
        planes = random_planes(GO, counts[thread], thread)
        for _ in range(40):
            for found, expected in zip(evaluators[thread](planes), wanted[thread], strict=True):
                differences.append(float(np.abs(found - expected).max()))

    run_together([partial(work, thread) for thread in range(3)])
    assert len(differences) == 3 * 40 * 2
    assert max(differences) < 0.02


def test_batch_sizes_are_few_and_end_at_the_largest() -> None:
    class Any(openvino_backend.Backend):
        def for_thread(self, index: int) -> Evaluate:
            raise NotImplementedError

    assert Any().batch_sizes(128) == [16, 24, 32, 48, 64, 96, 128]
    assert Any().batch_sizes(20) == [16, 20]
    assert Any().batch_sizes(1) == [1]


class TestChoice:
    def test_is_measured_once_and_then_remembered(self, cache_file: Path) -> None:
        first, second = Heard(), Heard()
        chosen = make_evaluators(GO, lively_weights(GO), 16, 1, progress=first)[0].backend
        assert "measuring inference backends" in first.said[0]
        again = make_evaluators(GO, lively_weights(GO), 16, 1, progress=second)[0].backend
        assert again == chosen
        assert second.said == []
        (entry,) = json.loads(cache_file.read_text()).values()
        assert entry["backend"]["name"] == chosen.name
        assert [path.name for path in cache_file.parent.iterdir()] == ["backends.json"]

    def test_beside_other_work_the_preferred_one_is_chosen_and_soon_measured_again(
        self, cache_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As was found on a busy machine: the better one is hardly ahead, because both wait for cores."""
        int8, exact = BackendSpec("torch", "cpu", "int8"), BackendSpec("torch", "cpu", "float32")
        monkeypatch.setattr(inference, "available_backends", lambda *_: [int8, exact])
        plain = BackendSpec.build
        monkeypatch.setattr(BackendSpec, "build", lambda one, *rest: plain(exact, *rest[:3]))
        rates = {int8: 936.0, exact: 868.0}

        def rate(found: list[Evaluator], *_: object) -> float:
            time.sleep(0.006)  # without a core
            return rates[found[0].backend]

        monkeypatch.setattr(inference, "evaluation_rate", rate)
        monkeypatch.setattr(inference, "INT8_VALUE_TOLERANCE", 1.0)
        calibration, heard = random_planes(GO, 64), Heard()
        found = make_evaluators(GO, lively_weights(GO), 16, 1, progress=heard, calibration=calibration)[0].backend
        assert found == int8 and "measured again in an hour" in heard.said[-1]
        (entry,) = json.loads(cache_file.read_text()).values()
        assert entry["quiet"] is False
        for hours, is_again in ((0.5, False), (2, True)):
            then = datetime.now(UTC) - timedelta(hours=hours)
            keys = json.loads(cache_file.read_text())
            cache_file.write_text(json.dumps({key: {**entry, "measured": then.isoformat()} for key in keys}))
            heard = Heard()
            make_evaluators(GO, lively_weights(GO), 16, 1, progress=heard, calibration=calibration)
            assert bool(heard.said) == is_again

    @pytest.mark.parametrize(("refused", "measured_for"), [(0, ["m", "other", "m"]), (1, ["m"])])
    def test_where_one_was_refused_the_choice_is_remembered(
        self, refused: int, measured_for: list[str], cache_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For all models if it was the preferred one; else only for this model, as others may suit the refused one."""
        backends = [BackendSpec(name, "cpu", "float32") for name in ("torch", "compile")]
        monkeypatch.setattr(inference, "available_backends", lambda *_: list(backends))
        build = BackendSpec.build
        monkeypatch.setattr(BackendSpec, "build", lambda one, *rest: build(backends[0], *rest))

        def difference(starter: inference._Starter, evaluator: Evaluator) -> str:
            starter.has_differed |= evaluator.backend == backends[refused]
            return "differs" if evaluator.backend == backends[refused] else ""

        monkeypatch.setattr(inference._Starter, "_difference", difference)
        measured = []
        for name in ("m", "m", "other", "other", "m"):
            heard = Heard()
            found = make_evaluators(GO, lively_weights(GO), 16, 1, progress=heard, name=name)[0].backend
            assert found == backends[1 - refused]
            if any("measuring" in line for line in heard.said):
                measured.append(name)
        assert measured == measured_for

    def test_a_quiet_choice_holds_for_a_month_and_is_measured_again_on_request(self, cache_file: Path) -> None:
        make_evaluators(GO, lively_weights(GO), 16, 1)
        entries = json.loads(cache_file.read_text())
        for days, is_again in ((29, False), (31, True), (-1, True)):
            then = (datetime.now(UTC) - timedelta(days=days)).isoformat()
            again = {key: {**entry, "quiet": True, "measured": then} for key, entry in entries.items()}
            cache_file.write_text(json.dumps(again))
            heard = Heard()
            make_evaluators(GO, lively_weights(GO), 16, 1, progress=heard)
            assert bool(heard.said) == is_again
        heard = Heard()
        make_evaluators(GO, lively_weights(GO), 16, 1, progress=heard, afresh=True)
        assert heard.said[0].startswith("remembered for this machine and architecture: ") and len(heard.said) > 2

    def test_it_holds_for_every_batch_and_number_of_threads(self, cache_file: Path) -> None:
        """Processes that share a match must compute alike."""
        chosen = {
            make_evaluators(GO, lively_weights(GO), batch, threads, calibration=random_planes(GO, 64))[0].backend
            for batch, threads in ((16, 1), (24, 1), (16, 2))
        }
        assert len(chosen) == 1 and len(json.loads(cache_file.read_text())) == 1
        make_evaluators(GO, lively_weights(GO), 16, 1)  # without calibration positions int8 is out: another choice
        make_evaluators(ARCHITECTURES["points"], lively_weights(ARCHITECTURES["points"]), 16, 1)
        assert len(json.loads(cache_file.read_text())) in (2, 3)

    @needs_openvino
    def test_a_cached_backend_that_is_wrong_for_these_weights_is_replaced(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backends = [BackendSpec("openvino", "cpu", "int8"), BackendSpec("torch", "cpu", "float32")]
        monkeypatch.setattr(inference, "available_backends", lambda *_: backends)
        rates = dict(zip(backends, (300.0, 100.0), strict=True))
        monkeypatch.setattr(inference, "evaluation_rate", lambda evaluators, *_: rates[evaluators[0].backend])
        calibration = random_planes(GO, 64)
        assert make_evaluators(GO, lively_weights(GO), 16, 1, calibration=calibration)[0].backend == backends[0]
        monkeypatch.setattr(inference, "INT8_VALUE_TOLERANCE", 0.0)
        recorder = Heard()
        found = make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder, calibration=calibration)[0].backend
        assert found == backends[1] and "int8 refused" in recorder.warned[0]
        monkeypatch.setattr(inference, "VALUE_TOLERANCE", -1.0)
        with pytest.raises(MuGoError, match=r"openvino cpu int8 .differs .* torch cpu float32 .differs"):
            make_evaluators(GO, lively_weights(GO), 16, 1, calibration=calibration)

    @pytest.mark.parametrize("wrong", [0, 1, 32])
    def test_int8_may_be_wrong_now_and_then(
        self, cache_file: Path, monkeypatch: pytest.MonkeyPatch, wrong: int
    ) -> None:
        """Wrong in this many of the 32 positions checked. A refused int8 may suit the next model's weights."""
        int8, exact = BackendSpec("openvino", "cpu", "int8"), BackendSpec("torch", "cpu", "float32")
        build, answer = BackendSpec.build, Evaluator.__call__

        def call(evaluator: Evaluator, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            logits, values = answer(evaluator, planes)
            if evaluator.backend == int8:
                logits[:wrong], values[:wrong] = logits[:wrong, ::-1], values[:wrong] + 1
            return logits, values

        monkeypatch.setattr(BackendSpec, "build", lambda _, *rest: build(exact, *rest[:3]))
        monkeypatch.setattr(Evaluator, "__call__", call)
        monkeypatch.setattr(inference, "available_backends", lambda *_: [int8, exact])
        monkeypatch.setattr(inference, "MIN_INT8_SPEEDUP", 0.01)  # wherever it isn't refused, it is chosen
        monkeypatch.setattr(inference, "CLEARLY_SLOWER", 100.0)
        found = make_evaluators(GO, lively_weights(GO), 32, 1, calibration=random_planes(GO, 64))[0].backend
        assert found == (exact if wrong == 32 else int8)
        assert cache_file.exists() == (wrong < 32)

    @needs_openvino
    def test_the_difference_of_int8_is_kept_by_the_name_of_the_weights(
        self, cache_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inference, "CACHED_MODELS", 2)
        monkeypatch.setattr(inference, "available_backends", lambda *_: [BackendSpec("openvino", "cpu", "int8")])
        for name in ("a", "b", "", "c"):
            make_evaluators(GO, lively_weights(GO), 16, 1, calibration=random_planes(GO, 64), name=name)
        (entry,) = json.loads(cache_file.read_text()).values()
        assert list(entry["int8"]) == ["b", "c"]
        found = entry["int8"]["c"]
        assert found["positions"] == 32 and 0 < found["policy"] < 0.05 and 0 < found["value"] < 0.05
        monkeypatch.setattr(inference._CachedChoice, "_put", lambda *_: pytest.fail("nothing new was written"))
        make_evaluators(GO, lively_weights(GO), 16, 1, calibration=random_planes(GO, 64), name="c")

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}', "\x00\xff", "[" * 99_999])
    def test_a_damaged_cache_is_replaced(self, cache_file: Path, content: str) -> None:
        cache_file.parent.mkdir(parents=True)
        cache_file.write_text(content)
        make_evaluators(GO, lively_weights(GO), 16, 1)
        assert len(json.loads(cache_file.read_text())) >= 1

    def test_a_cached_backend_that_is_gone_is_measured_again(self, cache_file: Path) -> None:
        make_evaluators(GO, lively_weights(GO), 16, 1)
        entries = json.loads(cache_file.read_text())
        for entry in entries.values():
            entry["backend"]["name"] = "abacus"
        cache_file.write_text(json.dumps(entries))
        recorder = Heard()
        assert make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder)[0].backend.name != "abacus"
        assert recorder.said

    def test_a_cache_that_cannot_be_written_is_no_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        make_evaluators(GO, lively_weights(GO), 16, 1)

    def test_the_fastest_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow, fast = BackendSpec("torch", "cpu", "float32"), BackendSpec("openvino", "cpu", "float32")
        made_of = {slow: 10.0, fast: 20.0}
        built: list[BackendSpec] = []
        real = BackendSpec.build

        def build(backend: BackendSpec, *rest):
            built.append(backend)
            return real(slow, *rest)

        monkeypatch.setattr(inference, "available_backends", lambda *_: [slow, fast])
        monkeypatch.setattr(BackendSpec, "build", build)
        monkeypatch.setattr(inference, "evaluation_rate", lambda evaluators, *_: made_of[evaluators[0].backend])
        assert make_evaluators(GO, lively_weights(GO), 16, 1)[0].backend == fast
        assert built == [slow, fast, fast]

    def test_a_backend_out_of_tolerance_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A backend whose value is shifted is fast and wrong."""
        wrong, right = BackendSpec("openvino", "cpu", "float32"), BackendSpec("torch", "cpu", "float32")
        real = BackendSpec.build

        def build(backend: BackendSpec, architecture: Architecture, folded, num_threads: int, calibration=None):
            if backend == wrong:
                folded = {**folded, "value_output.bias": folded["value_output.bias"] + 1}
            return real(right, architecture, folded, num_threads)

        monkeypatch.setattr(BackendSpec, "build", build)
        monkeypatch.setattr(inference, "available_backends", lambda *_: [wrong, right])
        recorder = Heard()
        assert make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder)[0].backend == right
        assert any("refused: differs from float32" in text for text in recorder.warned)
        monkeypatch.setattr(inference, "available_backends", lambda *_: [wrong])
        with pytest.raises(MuGoError, match=r"nothing computes this network .*openvino cpu float32 .differs"):
            make_evaluators(GO, lively_weights(GO), 16, 1)

    def test_a_backend_that_fails_is_skipped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = BackendSpec.build

        def build(backend: BackendSpec, *rest):
            if backend.name == "openvino":
                raise RuntimeError("no such instruction")
            return real(backend, *rest)

        backends = [BackendSpec("openvino", "cpu", "float32"), BackendSpec("torch", "cpu", "float32")]
        monkeypatch.setattr(inference, "available_backends", lambda *_: backends)
        monkeypatch.setattr(BackendSpec, "build", build)
        recorder = Heard()
        assert make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder)[0].backend.name == "torch"
        assert any("no such instruction" in text for text in recorder.warned)


def test_unknown_and_missing_backends_are_usage_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="abacus"):
        available_backends("abacus")
    monkeypatch.setattr(inference, "BACKENDS", (*inference.NETWORK_BACKENDS, "slate"))
    with pytest.raises(UsageError, match="slate runs other methods' models only; wanted one of auto, torch, compile"):
        available_backends("slate")
    monkeypatch.setattr(inference, "is_installed", lambda _: False)
    with pytest.raises(UsageError, match="openvino: not installed"):
        available_backends("openvino")
    monkeypatch.setattr(inference.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="no C\\+\\+ compiler"):
        available_backends("compile")
    monkeypatch.setattr(inference, "gpu_fault", lambda: None)
    assert {backend.name for backend in available_backends("auto")} == {"torch"}


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_a_gpu_that_cannot_be_used_does_not_stop_playing(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Its memory is full, or it is too old for this torch."""
    build = BackendSpec.build

    def fails(spec: BackendSpec, *arguments: Any) -> Any:
        if spec.device == "cuda":
            raise RuntimeError("CUDA error: no kernel image is available")
        return build(spec, *arguments)

    monkeypatch.setattr(inference, "gpu_fault", lambda: "")
    monkeypatch.setattr(BackendSpec, "build", fails)
    said = Heard()
    [evaluator] = make_evaluators(GO, lively_weights(GO), 16, 1, backend, said)
    assert evaluator.backend.device == "cpu" and evaluator(random_planes(GO, 2))[1].shape == (2,)
    assert any(f"the GPU can't be used (see above): {evaluator.backend} computes" in text for text in said.warned)


def test_a_gpu_that_fails_once_it_is_tried_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_fault.cache_clear()
    monkeypatch.setattr(gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.nn.Module.cuda", lambda self: (_ for _ in ()).throw(RuntimeError("no kernel\nimage")))
    try:
        assert gpu_fault() == "RuntimeError: no kernel image"
        said = Heard()
        [evaluator] = make_evaluators(GO, lively_weights(GO), 16, 1, "auto", said)
        assert evaluator.backend.device == "cpu" and any("no kernel image" in text for text in said.warned)
    finally:
        gpu_fault.cache_clear()


def test_a_backend_that_fails_while_it_is_measured_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rate, failed = inference.evaluation_rate, []

    def fails(evaluators: Any, planes: Planes, seconds: float) -> float:
        if failed in ([], [evaluators[0].backend]):
            failed[:] = [evaluators[0].backend]
            raise RuntimeError("out of memory")
        return rate(evaluators, planes, 0.01)

    monkeypatch.setattr(inference, "evaluation_rate", fails)
    said = Heard()
    [evaluator] = make_evaluators(GO, lively_weights(GO), 16, 1, "auto", said, random_planes(GO, 64), afresh=True)
    assert [evaluator.backend] != failed and any("refused: RuntimeError: out of memory" in text for text in said.warned)


def test_weights_of_another_architecture_are_refused() -> None:
    with pytest.raises(MuGoError, match="has shape"):
        make_evaluators(GO, lively_weights(ARCHITECTURES["points"]), 16, 1)


def test_the_network_can_be_measured() -> None:
    evaluators = make_evaluators(GO, lively_weights(GO), 16, 2, "torch")
    assert evaluation_rate(evaluators, random_planes(GO, 16), seconds=0.05) > 0


def test_measuring_ends_with_the_error_of_a_backend_that_fails() -> None:
    def fail(planes: Planes) -> Evaluation:
        raise MuGoError("out of memory")

    def measure() -> None:
        with pytest.raises(MuGoError, match="out of memory"):
            evaluation_rate([working, broken], random_planes(GO, 16), seconds=0.05)
        ended.set()

    [working] = make_evaluators(GO, lively_weights(GO), 16, 1, "torch")
    broken = Evaluator(GO, fail, [16], working.backend)
    ended = threading.Event()
    threading.Thread(target=measure, daemon=True).start()
    assert ended.wait(60), "one thread waits for another that has ended"


def test_measuring_ends_where_the_system_gives_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, count = inference.ThreadPoolExecutor.submit, [0]

    def limited(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] > 1:
            raise RuntimeError("can't start new thread")
        return submit(*arguments)

    def measure() -> None:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            evaluation_rate(evaluators, random_planes(GO, 16), seconds=0.05)
        ended.set()

    evaluators = make_evaluators(GO, lively_weights(GO), 16, 2, "torch")
    monkeypatch.setattr(inference.ThreadPoolExecutor, "submit", limited)
    ended = threading.Event()
    threading.Thread(target=measure, daemon=True).start()
    assert ended.wait(60), "one thread waits for another that never began"


@needs_openvino
def test_openvino_starts_without_torch() -> None:
    code = (
        "import sys, numpy as np; from pipeline.networks.architecture import *; "
        "from pipeline.networks.inference import make_evaluators; a = Architecture(1, 8, 3, 3, 3, 9); "
        "make_evaluators(a, random_weights(a, 0), 4, 1, 'openvino')[0](np.zeros((2, 3, 3, 3), np.uint8)); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_openvino
def test_nothing_is_sent_over_the_network():
    """In a fresh process: opening a connection, looking up a name or forking to do so would raise."""
    code = """
import os, socket, sys
def refuse(*arguments, **named): raise SystemExit(f"network: {arguments}")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = os.fork = refuse
from pipeline.networks.openvino_backend import load_openvino
load_openvino().Core()
assert sys.modules["openvino_telemetry"] is None
print("quiet")
"""
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.stdout == "quiet\n", done.stderr


# int8


@needs_openvino
def test_int8_agrees_with_float32_on_calibration_positions(architecture: Architecture) -> None:
    weights, planes = lively_weights(architecture), random_planes(architecture, 64)
    evaluator = make_evaluators(architecture, weights, 40, 1, "int8", calibration=planes)[0]
    assert evaluator.backend == BackendSpec("openvino", "cpu", "int8")
    logits, value = evaluator(planes[:40])
    wanted_logits, wanted_value = evaluate_plain(architecture, fold(architecture, weights), planes[:40])
    assert np.abs(softmax(logits) - softmax(wanted_logits)).max() < INT8_POLICY_TOLERANCE
    assert np.abs(value - wanted_value).max() < INT8_VALUE_TOLERANCE
    assert (logits != wanted_logits).any()


@needs_openvino
def test_int8_is_what_rounding_to_whole_numbers_gives(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against plain numpy with kernels and inputs rounded as openvino_backend.py says."""
    monkeypatch.setattr(openvino_backend, "has_bfloat16", lambda: False)
    folded, planes = fold(architecture, lively_weights(architecture)), random_planes(architecture, 48)
    exact, maxima = folding._convolve, openvino_backend.input_maxima(architecture, folded, planes)
    found: dict[str, float] = {}

    def watching(x: np.ndarray, folded: dict, name: str) -> np.ndarray:
        found[name] = float(x.max())
        return exact(x, folded, name)

    monkeypatch.setattr(folding, "_convolve", watching)
    evaluate_plain(architecture, folded, planes)
    assert maxima == pytest.approx({name: value for name, value in found.items() if name != "stem"}, rel=1e-4)

    def rounding(x: np.ndarray, folded: dict, name: str) -> np.ndarray:
        if name == "stem":
            return exact(x, folded, name)
        step = openvino_backend.MARGIN * maxima[name] / 255
        kernel = folded[f"{name}.weight"]
        scale = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True) / openvino_backend.largest_int8_kernel()
        rounded = {f"{name}.weight": np.rint(kernel / scale) * scale, f"{name}.bias": folded[f"{name}.bias"]}
        return exact(np.clip(np.rint(x / step), 0, 255) * step, rounded, name)

    monkeypatch.setattr(folding, "_convolve", rounding)
    wanted_logits, wanted_value = evaluate_plain(architecture, folded, planes)
    logits, value = BackendSpec("openvino", "cpu", "int8").build(architecture, folded, 1, planes).for_thread(0)(planes)
    # A value that float32 puts on the other side of a rounding threshold moves a whole step: most agree closely.
    assert np.quantile(np.abs(logits - wanted_logits), 0.9) < 1e-4
    assert np.abs(softmax(logits) - softmax(wanted_logits)).mean() < 1e-6
    assert np.quantile(np.abs(value - wanted_value), 0.9) < 1e-4
    monkeypatch.setattr(folding, "_convolve", exact)
    exact_logits, _ = evaluate_plain(architecture, folded, planes)
    assert np.quantile(np.abs(logits - exact_logits), 0.5) > 1e-4  # and it isn't just float32


@needs_openvino
def test_int8_sums_of_the_largest_numbers_do_not_saturate() -> None:
    """All kernels and inputs have their largest values, so that sums of two products need more than 16 bits."""
    folded, planes = fold(GO, lively_weights(GO)), np.ones_like(random_planes(GO, 48))
    for name in folded:
        if name.startswith(("stem", "blocks")):
            fan_in = folded[name][0].size if folded[name].ndim == 4 else np.inf
            folded[name] = np.full_like(folded[name], 1 / fan_in)
    logits, value = BackendSpec("openvino", "cpu", "int8").build(GO, folded, 1, planes).for_thread(0)(planes)
    wanted_logits, wanted_value = evaluate_plain(GO, folded, planes)
    np.testing.assert_allclose(logits, wanted_logits, atol=0.05)
    np.testing.assert_allclose(value, wanted_value, atol=0.05)


@pytest.mark.parametrize(
    ("entries", "instructions", "fast"),
    [
        ({"vendor_id": "GenuineIntel", "flags": "avx2 avx512f"}, False, False),
        ({"vendor_id": "GenuineIntel", "flags": "avx512f avx512_bf16"}, True, False),  # AMX is hidden
        ({"vendor_id": "GenuineIntel", "flags": "avx512_bf16 amx_bf16"}, True, True),
        ({"vendor_id": "AuthenticAMD", "flags": "avx512f avx512_bf16"}, True, True),
        ({"Features": "asimddp bf16"}, True, True),  # Arm
        ({}, False, False),
    ],
)
def test_bfloat16_is_for_processors_that_it_makes_faster(
    entries: dict[str, str], instructions: bool, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_backend, "_processor", lambda: entries)
    assert (openvino_backend.has_bfloat16(), openvino_backend.has_fast_bfloat16()) == (instructions, fast)


def test_int8_kernels_are_as_large_as_the_processor_can_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, wanted in (({"avx2", "avx512_vnni"}, 127), ({"asimd", "asimddp"}, 127), ({"avx2"}, 64), ({"asimd"}, 0)):
        monkeypatch.setattr(openvino_backend, "_flags", lambda flags=flags: flags)
        assert openvino_backend.largest_int8_kernel() == wanted
    monkeypatch.setattr(inference, "is_installed", lambda _: True)
    with pytest.raises(UsageError, match="int8: this processor has nothing to gain"):
        available_backends("int8")


@needs_openvino
def test_int8_rows_do_not_depend_on_their_number() -> None:
    planes = random_planes(GO, 64)
    evaluator = make_evaluators(GO, lively_weights(GO), 64, 1, "int8", calibration=planes)[0]
    whole = evaluator(planes)
    for count in (1, 16, 30, 48):
        part = evaluator(planes[:count])
        np.testing.assert_array_equal(part[0], whole[0][:count])
        np.testing.assert_array_equal(part[1], whole[1][:count])


@needs_openvino
def test_int8_beyond_its_tolerance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Heard()
    monkeypatch.setattr(inference, "INT8_VALUE_TOLERANCE", 0.0)
    calibration = random_planes(GO, 64)
    evaluator = make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder, calibration=calibration)[0]
    assert evaluator.backend.precision != "int8"
    assert any("int8 refused" in text for text in recorder.warned)
    with pytest.raises(MuGoError, match="int8"):
        make_evaluators(GO, lively_weights(GO), 16, 1, "int8", calibration=calibration)


@needs_openvino
def test_int8_needs_calibration_positions() -> None:
    assert make_evaluators(GO, lively_weights(GO), 16, 1)[0].backend.precision != "int8"
    with pytest.raises(MuGoError, match="int8"):
        make_evaluators(GO, lively_weights(GO), 16, 1, "int8")


def test_int8_must_be_faster_to_be_chosen(cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backends = [BackendSpec("torch", "cpu", "int8"), BackendSpec("torch", "cpu", "float32")]
    monkeypatch.setattr(inference, "available_backends", lambda *_: backends)
    plain = BackendSpec.build
    monkeypatch.setattr(BackendSpec, "build", lambda one, *rest: plain(replace(one, precision="float32"), *rest))
    calibration = random_planes(GO, 64)
    for int8_rate, wanted in ((105.0, "float32"), (150.0, "int8")):
        rates = dict(zip(backends, (int8_rate, 100.0), strict=True))
        monkeypatch.setattr(inference, "evaluation_rate", lambda found, *_, rates=rates: rates[found[0].backend])
        cache_file.unlink(missing_ok=True)
        recorder = Heard()
        found = make_evaluators(GO, lively_weights(GO), 16, 1, progress=recorder, calibration=calibration)
        assert found[0].backend.precision == wanted
        last = recorder.said[-2:] if wanted == "float32" else recorder.said[-1:]
        assert last[0] == f"fastest: torch cpu int8, {int8_rate:.0f} evaluations/s"
        assert last[1:] == [
            "using torch cpu float32, which is exact: torch cpu int8 is 1.05 times as fast, wanted 1.1"
        ][: len(last) - 1]


def test_an_interrupt_during_the_import_of_openvino_stays_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its extension would turn the interrupt into an ImportError, after which another backend is taken."""
    (tmp_path / "openvino.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(10**5))\n"
        "except KeyboardInterrupt:\n    raise ImportError('initialization failed')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    with pytest.raises(KeyboardInterrupt):
        openvino_backend.load_openvino()
    del sys.modules["openvino"]  # the one above
