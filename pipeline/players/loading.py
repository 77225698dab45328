"""Load a model's evaluators for the threads that play, and the calibration positions of int8 networks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, UsageError, naming
from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import Evaluate, Evaluation, FloatArray, Game, Planes
from pipeline.games.margins import MarginNetwork
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.networks.architecture import Architecture, check_planes, check_weights
from pipeline.networks.folding import margin_network
from pipeline.networks.inference import Evaluator, available_backends, make_evaluators
from pipeline.networks.openvino_backend import MIN_BATCH
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.run.models import Model, read_calibration

if TYPE_CHECKING:
    from pipeline.networks.modules import Estimates

CALIBRATION_POSITIONS, CALIBRATION_GAMES = 512, 16  # of random games
LEAST_SHARE = 2  # fewest positions of one tree per core: two take a fifth of the time of sixteen (docs/log)


def load_evaluators(
    model: Model,
    max_batch: int,
    num_threads: int,
    backend: str,
    progress: Progress,
    least_batch: int = MIN_BATCH,
    warm: bool = False,
) -> list[Evaluator] | list[AnyBoardEvaluator]:
    """One evaluator per thread; see make_evaluators.

    warm: compile for every batch size when the evaluators are made; for a network for all boards, when a board is first
    seen. Raises FileError that names the model if its weights don't fit its architecture, or if it sees more planes
    than its game has.
    """

    def make(architecture: Architecture) -> list[Evaluator]:
        with naming(model.path):
            evaluators = make_evaluators(
                architecture,
                model.weights,
                max_batch=max_batch,
                num_threads=num_threads,
                backend=backend,
                progress=progress,
                calibration=calibration_of(model, architecture) if backend in ("auto", "int8") else None,
                name=model.info.files[layout.WEIGHTS].sha256 if layout.WEIGHTS in model.info.files else "",
                least_batch=least_batch,
            )
        if warm:
            for evaluator in evaluators:
                evaluator.warm_up()
        return evaluators

    with naming(model.path):
        architecture = Architecture.from_dict(model.info.architecture)
        if architecture.any_board:
            check_weights(architecture, model.weights)
    try:
        check_planes(architecture, parse_game(model.info.game).num_planes)
    except UsageError as error:
        raise FileError(model.path, str(error)) from error
    if not architecture.any_board:
        return make(architecture)
    boards = _Boards(architecture, make)
    return [AnyBoardEvaluator(boards, thread) for thread in range(num_threads)]


def load_with_margins(
    model: Model, max_batch: int, num_threads: int, backend: str, progress: Progress
) -> list[Evaluator] | list[AnyBoardEvaluator]:
    """load_evaluators(), with ``margins`` where the game has them, whose networks are loaded on first use."""
    evaluators = load_evaluators(model, max_batch, num_threads, backend, progress)
    if parse_game(model.info.game).has_margins:
        made: list[Evaluate] = []
        lock = threading.Lock()

        def margins(thread: int, planes: Planes) -> Evaluation:
            with lock:
                if not made:
                    made.extend(load_evaluators(_of_margins(model), max_batch, num_threads, _exact(backend), progress))
            return made[thread](planes)

        owners = _owners_of(model, num_threads)
        for thread in range(num_threads):
            evaluators[thread].margins = MarginNetwork(partial(margins, thread), owners)
    return evaluators


def _of_margins(model: Model) -> Model:
    with naming(model.path):
        architecture = Architecture.from_dict(model.info.architecture)
        check_weights(architecture, model.weights)
        found, weights = margin_network(architecture, model.weights)
    return replace(model, info=model.info.model_copy(update={"architecture": found.to_dict()}), weights=weights)


def _exact(backend: str) -> str:
    """The backend for margins: int8's error is worth a point and more, and to measure backends takes too long."""
    found = available_backends(backend)
    return next((one for one in found if one.precision != "int8"), found[0]).name


class _Boards:
    """All threads' evaluators of a network for all boards, made for each board when it is first seen."""

    def __init__(self, architecture: Architecture, make: Callable[[Architecture], list[Evaluator]]) -> None:
        self.architecture = architecture
        self._make = make
        self._made: dict[tuple[int, int], list[Evaluator]] = {}
        self._lock = threading.Lock()

    def on(self, height: int, width: int) -> list[Evaluator]:
        board = height, width
        if board not in self._made:  # no thread waits for another's new board
            with self._lock:
                if board not in self._made:
                    self._made[board] = self._make(self.architecture.at(*board))
        return self._made[board]


class AnyBoardEvaluator:
    """An Evaluator of a network for all boards: takes planes [K, C, H, W], with any H and W in each call."""

    margins: MarginNetwork | None = None

    def __init__(self, boards: _Boards, thread: int) -> None:
        self._boards, self._thread = boards, thread

    def __call__(self, planes: Planes) -> Evaluation:
        return self._boards.on(planes.shape[2], planes.shape[3])[self._thread](planes)


def load_tree_margins(model: Model, leaves: int, backend: str, progress: Progress) -> MarginNetwork | None:
    """The margins of a game that has them, evaluated as load_tree_evaluator() does; None for other games."""
    if not parse_game(model.info.game).has_margins:
        return None
    return MarginNetwork(load_tree_evaluator(_of_margins(model), leaves, _exact(backend), progress), _owners_of(model))


def _owners_of(model: Model, callers: int = 1) -> Callable[[Planes], FloatArray]:
    """The expected owners of points, as load_estimator(). Loads its network, and torch, when it is first called."""
    made = cache(lambda: load_estimator(model, callers))
    return lambda planes: made()(planes).ownership


def load_tree_evaluator(model: Model, leaves: int, backend: str, progress: Progress) -> Evaluate:
    """An evaluator for batches of up to `leaves` positions of one tree, each split over the cores.

    Small batches aren't padded, so the size of a batch may change the last bits of its results. A GPU gets whole,
    padded batches. Compiles now, or for a network for all boards at the first batch on each board. Raises FileError as
    load_evaluators does.
    """
    if any(one.device != "cpu" for one in available_backends(backend)):
        return load_evaluators(model, leaves, 1, backend, progress, warm=True)[0]
    threads = max(1, min(available_cores(), leaves // LEAST_SHARE))
    share = -(-leaves // threads)
    evaluators = load_evaluators(model, share, threads, backend, progress, LEAST_SHARE, warm=True)
    if threads == 1:
        return evaluators[0]
    pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="evaluator")

    def evaluate(planes: Planes) -> Evaluation:
        count = max(1, min(threads, len(planes) // LEAST_SHARE))
        if count == 1 and len(planes) <= share:
            return evaluators[0](planes)
        parts = np.array_split(planes, max(count, -(-len(planes) // share)))
        others = [pool.submit(evaluators[i], part) for i, part in enumerate(parts[1:], start=1)]
        answers = [evaluators[0](parts[0]), *(other.result() for other in others)]
        logits, values = zip(*answers, strict=True)
        return np.concatenate(logits), np.concatenate(values)

    return evaluate


def load_estimator(model: Model, callers: int = 1) -> Callable[[Planes], Estimates]:
    """Estimates ownership and score of single positions: networks/modules.py. Raises FileError naming the model.

    callers: threads that share the cores
    """
    from pipeline.networks.modules import estimator

    with naming(model.path):
        threads = max(1, available_cores() // callers)
        return estimator(Architecture.from_dict(model.info.architecture), model.weights, threads)


def calibration_of(model: Model, architecture: Architecture | None = None) -> Planes:
    """[N, C, H, W] a model's calibration positions for int8, in the order of calibration_positions().

    Training stores them with the model, from its training games; an initial model gets positions of random games.
    architecture: on the board in question; None: the model's own.
    Raises FileError if they are damaged or belong to another network.
    """
    architecture = architecture or Architecture.from_dict(model.info.architecture)
    packed = read_calibration(model)
    if packed is None:
        game = parse_game(model.info.game)
        # parse_game() gives the same object each time, by which positions are remembered
        return calibration_positions(
            parse_game(game.on_board(architecture.height).spec) if isinstance(game, AllBoards) else game
        )
    shape = (architecture.planes, architecture.height, architecture.width)
    bits = math.prod(shape)
    if packed.shape[1] != -(-bits // 8):
        found = f"its positions have {packed.shape[1]} bytes; wanted {-(-bits // 8)}, for {shape[0]} planes"
        raise FileError(model.path / layout.CALIBRATION, f"{found}; restore the file from a copy")
    return np.unpackbits(packed, axis=1, count=bits).reshape(-1, *shape)


def in_turn(halves: Sequence[NDArray[Any]], most: int) -> NDArray[Any]:
    """At most `most` rows, alternately from two arrays [n, …]: the same number from each, evenly spread."""
    count = min(most // 2, *map(len, halves))
    chosen = [half[np.linspace(0, len(half) - 1, count).astype(int)] for half in halves]
    return np.stack(chosen, axis=1).reshape(-1, *halves[0].shape[1:])


@lru_cache(maxsize=32)
def calibration_positions(game: Game) -> Planes:
    """[N, C, H, W] planes from random games, in the order of plies; N is at most CALIBRATION_POSITIONS.

    Even rows are from one half of the games, odd rows from the other: int8 takes its scales from the even rows and is
    checked on the odd ones. The array is always the same and cached per game; don't modify it. A network's activations
    are about as large as in its own games (docs/log).
    """
    rng = np.random.default_rng(0)
    states = game.initial(CALIBRATION_GAMES)
    history = game.initial_history(states)
    rows = np.arange(CALIBRATION_GAMES)
    found: tuple[list[Planes], list[Planes]] = ([], [])
    while rows.size:
        legal, planes = game.legal_and_observe(states[rows], history.select(rows))
        for half, planes_of in enumerate(found):
            planes_of.append(planes[rows % 2 == half])
        actions = (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32)
        states[rows] = game.play(states[rows], actions, history.select(rows))
        history.append(rows, game.keys(states[rows]))
        rows = rows[~game.is_over(states[rows])]
    return in_turn([np.concatenate(one) for one in found], CALIBRATION_POSITIONS)
