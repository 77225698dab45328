"""Every kind of file that comes from outside or may be damaged: how one is made of parts, and who reads it.

``attempt`` makes one damaged file in a run and lets its readers read it. What a checksum covers is sealed again by
whoever makes the file, so that damage gets as far as somebody's who means it. HDF5 behind a seal is made by h5py from a
description: bytes that the library may not survive aren't tried (docs/files.md).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import pkgutil
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch  # noqa: F401  readers of models load it, which is no part of what a file costs

from pipeline.command_state import run_state_of
from pipeline.commands import COMMANDS
from pipeline.errors import MOST_CHARACTERS, MuGoError, naming
from pipeline.games.records import RecordText
from pipeline.games.sgf import read_sgf
from pipeline.games.specs import parse_game
from pipeline.matches.openings import read_openings, write_openings
from pipeline.methods.alphazero.examples import column_types
from pipeline.methods.named import method_named
from pipeline.methods.resignation import no_resign_games
from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import fold
from pipeline.phrases import printable
from pipeline.presets import make_config, preset_text
from pipeline.progress import SILENT
from pipeline.ratings.command import read_matches
from pipeline.ratings.pool import pool
from pipeline.reports.show import show
from pipeline.reports.show_as import records_of
from pipeline.reports.summaries import summary_text
from pipeline.run import layout, order, packs
from pipeline.run.chunks import SEAL_BYTES, read_chunk, read_header
from pipeline.run.evaluations import Evaluation, read_evaluation
from pipeline.run.layout import PRUNED
from pipeline.run.matches import (
    KeptResults,
    MatchGame,
    MatchHeader,
    MoreOpenings,
    PlayerInfo,
    read_match,
    read_results,
    read_summary,
    verify_match,
)
from pipeline.run.models import (
    read_champions,
    read_info,
    read_journal,
    read_model,
    read_optimizer,
    read_promotions,
    write_model,
)
from pipeline.run.priorities import Priorities, read_priorities, write_priorities
from pipeline.run.pruned import Pruned, PrunedPlace, read_pruned, write_pruned
from pipeline.run.ratings import read_pool, read_ratings
from pipeline.run.shards import SEARCH_COLUMNS, compress, decompress, newest_shards, read_meta, read_shard
from pipeline.schedules import RunState
from pipeline.selfplay.config import SelfplayConfig
from pipeline.tracking.jsonl import JsonLines
from pipeline.tracking.options import NONE, TrackingOptions
from pipeline.tracking.tracker import Tracker
from pipeline.train.config import TrainConfig
from pipeline.upkeep.verify.check_games import KnownGames, check_chunks, check_games
from pipeline.upkeep.verify.check_matches import check_evaluations, check_matches
from pipeline.upkeep.verify.check_models import check_models
from pipeline.upkeep.verify.problems import Findings
from tests.damage import GAME, file_of, make_run, reseal
from tests.families import of_each
from tests.fuzz.mutations import Choices, Parts, damage_bytes, damaged
from tests.games.playing import game_sgf
from tests.reports.test_show_games import LEFT_COLUMN, record
from tests.run.random_games import write_shard
from tests.run.test_packs import reread

MOST_SECONDS = 20  # of a core, for one file; a guard against endless loops, no measurement
MOST_MEGABYTES = 256  # that one file may add to the largest memory so far
MOST_NUMBERS = 1 << 16  # in an array of HDF5 that is made on purpose

Read = Callable[[Path, Path], Any]  # (the run's folder, the damaged file)


class Impossible(Exception):
    """No file can be made of these parts."""


class Endless(BaseException):
    """A reader took too long."""


@dataclass(frozen=True)
class Kind:
    """Files of one kind.

    make   the whole files to begin with, in parts; may put what belongs to them into the run
    write  the file with these parts in the run; its path. Raises Impossible
    reads  each is tried on every file
    """

    make: Callable[[Path], list[Parts]]
    write: Callable[[Path, Parts], Path]
    reads: tuple[Read, ...]


def attempt(name: str, folder: Path, data: bytes) -> bool:
    """Damage a file of this kind as data say, and read it; whether one could be made. folder: to work in.

    Raises whatever a reader raises that isn't MuGoError, Endless, and AssertionError for a message that isn't one line
    with the file's name, and for memory without bound.
    """
    kind, choices, run = KINDS[name], Choices(data), run_of(name, folder)
    whole = samples(name, run)
    parts = damaged(whole[choices.below(len(whole))], pieces(run), choices)
    try:
        path = kind.write(run, parts)
    except Impossible:
        return False
    if choices.below(8) == 7:
        path.write_bytes(damage_bytes(path.read_bytes(), pieces(run), choices))
    before = _most_memory()
    with _limited():
        for read in kind.reads:
            reread(None)  # packs are remembered by name and size
            try:
                read(run, path)
            except MuGoError as error:
                _check_message(str(error), path)
    grown = (_most_memory() - before) >> 20
    assert grown <= MOST_MEGABYTES, f"{grown} MiB for a file of {path.stat().st_size} bytes"
    return True


def _check_message(text: str, path: Path) -> None:
    assert "\n" not in text.strip(), text
    assert len(text) <= MOST_CHARACTERS + 99, f"a message of {len(text)} characters: {text[:300]}"
    assert path.stem in text or path.parent.name in text, f"a message without the file's name: {text}"


def _most_memory() -> int:
    """Bytes that the process has had at once so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def _limited() -> Iterator[None]:
    def end(number: int, frame: Any) -> None:
        raise Endless(f"a reader needs more than {MOST_SECONDS} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # time of the process: the machine may be busy
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def run_of(name: str, folder: Path) -> Path:
    """A run of its own for each kind: the others' files are whole."""
    if not (folder / "whole").exists():
        make_run(folder / "whole")
    return Path(shutil.copytree(folder / "whole", folder / name, symlinks=True))


@cache
def samples(name: str, run: Path) -> list[Parts]:
    return KINDS[name].make(run)


@cache
def pieces(run: Path) -> list[bytes]:
    """Of other kinds of files, to be put where they don't belong."""
    ends = (".meta", "model.json", "games.jsonl", "pool.json", "summary.json")
    return [file_of(run, end).read_bytes() for end in ends]


# How files are made


def one_part(path: Callable[[Path], Path]) -> dict[str, Any]:
    """A file that nothing seals and that is one part."""

    def write(run: Path, parts: Parts) -> Path:
        path(run).write_bytes(b"".join(parts))
        return path(run)

    return {"make": lambda run: [[path(run).read_bytes()]], "write": write}


def lines(path: Callable[[Path], Path]) -> dict[str, Any]:
    """A file whose parts are its lines."""

    def write(run: Path, parts: Parts) -> Path:
        path(run).write_bytes(b"\n".join(parts) + b"\n")
        return path(run)

    return {"make": lambda run: [path(run).read_bytes().splitlines()], "write": write}


def found(end: str) -> Callable[[Path], Path]:
    """The run's file whose name ends so, which is there before it is damaged."""
    known: dict[Path, Path] = {}

    def path(run: Path) -> Path:
        if run not in known:
            known[run] = file_of(run, end)
        return known[run]

    return path


SHARD, CHUNK, MODEL = found(".gz"), found(".h5"), found("model.json")
WEIGHTS, GAMES, SUMMARY = found("weights.safetensors"), found("games.jsonl"), found("summary.json")
PROMOTIONS, POOL, RATINGS = found("promotions.jsonl"), found("pool.json"), found("ratings.json")


def beside_shard(run: Path) -> Path:
    return layout.meta_path(SHARD(run))


def shard_parts(run: Path) -> list[Parts]:
    """[the header, the arrays] of a shard, and of one with an array of its method's own."""
    chances = {"chances": ("<f2", (5,))}
    games = [read_shard(SHARD(run)).game(number) for number in range(2)]
    games = [replace(game, own={"chances": np.zeros((len(game.moves), 5))}) for game in games]
    other = write_shard(
        run / "other", "000000-test", "w00", "tictactoe", games, {}, 7, recorded=SEARCH_COLUMNS | chances
    )
    return [decompress(path.read_bytes()).split(b"\n", 1) for path in (SHARD(run), other)]


def write_parts_of_shard(run: Path, parts: Parts) -> Path:
    path = SHARD(run)
    path.write_bytes(reseal(path, compress(b"\n".join(parts))))
    return path


def place_of_pack(run: Path) -> Path:
    return SHARD(run).parent.with_name("w07")


def make_pack(run: Path) -> list[Parts]:
    """[the list of shards without its seal, the sidecars, the shards]"""
    place, provenance = place_of_pack(run), {"generation": 0}
    for number in range(2):
        games = [record(LEFT_COLUMN), record([4, number])]
        write_shard(place.parent.parent, place.parent.name, place.name, "tictactoe", games, provenance, 7)
    names = sorted(packs.shards_in(place))
    pack = packs.write_pack(place, [(n, (place / n.shard).read_bytes(), (place / n.meta).read_bytes()) for n in names])
    packs.remove_files(place, names)
    head, rest = pack.meta.read_bytes().split(b"\n", 1)
    return [[_without_seal(head), rest, pack.path.read_bytes()]]


def _without_seal(line: bytes) -> bytes:
    raw = json.loads(line)
    del raw["seal"]
    return json.dumps(raw).encode()


def write_pack(run: Path, parts: Parts) -> Path:
    meta = next(path for path in place_of_pack(run).iterdir() if path.suffix == layout.META_SUFFIX)
    head, rest, shards = (*parts, b"", b"", b"")[:3]
    try:
        raw = json.loads(head)
        raw["seal"] = hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()
        head = json.dumps(raw).encode()
    except (ValueError, TypeError, RecursionError):
        pass  # no seal can make it right
    meta.write_bytes(head + b"\n" + rest)
    meta.with_suffix(layout.SHARD_SUFFIX).write_bytes(shards)
    return meta


def write_chunk_bytes(run: Path, parts: Parts) -> Path:
    """Damage that its seal must find."""
    path = CHUNK(run)
    path.write_bytes(b"".join(parts))
    return path


def chunk_description(run: Path) -> list[Parts]:
    with h5py.File(CHUNK(run), "r") as file:
        attributes = {name: value if isinstance(value, str) else int(value) for name, value in file.attrs.items()}
        arrays = {
            name: {"type": column.dtype.str, "shape": list(column.shape), "packed": column.compression == "gzip"}
            for name, column in file.items()
        }
    return [[json.dumps({"attributes": attributes, "arrays": arrays, "names": ["000000-m/w00/x.gz"]}).encode()]]


def write_described_chunk(run: Path, parts: Parts) -> Path:
    path, image = run / "data/training_data" / CHUNK(run).name.replace("ffffffff", "eeeeeeee"), io.BytesIO()
    try:
        wanted = json.loads(parts[0])
    except (LookupError, ValueError, RecursionError):
        raise Impossible from None
    refused = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
    with h5py.File(image, "w", userblock_size=SEAL_BYTES) as file:
        for name, value in _items(wanted, "attributes"):
            with suppress(*refused):  # what HDF5 can't hold is missing
                file.attrs[name] = value
        for name, one in _items(wanted, "arrays"):
            with suppress(*refused):
                if math.prod(map(float, one["shape"])) <= MOST_NUMBERS:
                    array = np.zeros(one["shape"], one["type"])
                    if array.dtype.kind == "S" and array.size:
                        array.flat[0] = str(wanted["names"][0]).encode(errors="replace")
                    file.create_dataset(name, data=array, compression=1 if one["packed"] and array.ndim else None)
    path.write_bytes(reseal(path, image.getvalue()))
    return path


def _items(value: Any, name: str) -> list[tuple[str, Any]]:
    inner = value.get(name) if isinstance(value, dict) else None
    return list(inner.items()) if isinstance(inner, dict) else []


def tensors(data: bytes) -> Parts:
    """[the header, the arrays] of safetensors."""
    end = 8 + int.from_bytes(data[:8], "little")
    return [data[8:end], data[end:]]


def from_tensors(parts: Parts) -> bytes:
    return len(parts[0]).to_bytes(8, "little") + b"".join(parts)


def write_weights(run: Path, parts: Parts) -> Path:
    path = WEIGHTS(run)
    path.write_bytes(reseal(path, from_tensors(parts)))
    return path


def make_optimizer(run: Path) -> list[Parts]:
    model = read_model(WEIGHTS(run).parent)
    trainer = _trainer(model.info.architecture, model.weights, None)
    write_model(run / "trained/000002-test", model.info, model.weights, trainer.optimizer_state)
    return [tensors((run / "trained/000002-test" / layout.OPTIMIZER).read_bytes())]


def write_optimizer(run: Path, parts: Parts) -> Path:
    path = run / "trained/000002-test" / layout.OPTIMIZER
    path.write_bytes(reseal(path, from_tensors(parts)))
    return path


def _trainer(architecture: dict[str, Any], weights: Any, optimizer: Any) -> Any:
    from pipeline.train.trainer import Trainer

    config = TrainConfig()
    objective = method_named("alphazero").objective(architecture, config)
    return Trainer(objective, weights, config, optimizer)


def go_on_training(run: Path, path: Path) -> None:
    with naming(path.parent):
        model = read_model(path.parent)
        _trainer(model.info.architecture, model.weights, read_optimizer(path.parent))


def make_priorities(run: Path) -> list[Parts]:
    path = run / "data/training_data/000001-ffffffff-priorities.safetensors"
    write_priorities(path, Priorities(np.arange(3, dtype=np.uint64), np.ones(3, np.float32)))
    return [tensors(path.read_bytes())]


def write_parts_of_priorities(run: Path, parts: Parts) -> Path:
    """With the checksum of its arrays, where they can be read."""
    import safetensors.numpy

    path, data = run / "data/training_data/000001-ffffffff-priorities.safetensors", from_tensors(parts)
    try:
        digest, arrays = hashlib.sha256(), safetensors.numpy.load(data)
        for name in sorted(arrays):
            digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        head = json.loads(parts[0])
        head["__metadata__"]["sha256"] = digest.hexdigest()
        data = from_tensors([json.dumps(head).encode(), *parts[1:]])
    except Exception:  # whatever the library says of what isn't its format: our reader is to find out
        pass
    path.write_bytes(data)
    return path


def make_games(run: Path) -> list[Parts]:
    """The lines of an even match, and of one of Go in which the champion takes a handicap."""
    even = GAMES(run).read_bytes().splitlines()
    challenger, champion = (PlayerInfo.model_validate(one) for one in json.loads(even[0])["players"])
    players = challenger, champion.model_copy(update={"handicap": 2})
    stones, settings = [[6, 18], [8, 16]], {"opening_plies": 0}
    header = MatchHeader(
        players=players, game="go:5", games=2, threshold=None, settings=settings, openings=[[], []], stones=stones,
    )  # fmt: skip
    game = MatchGame(
        index=1, challenger_player=1, opening_plies=0, stones=stones[1], moves=[12], values_to_move=[0.5],
        result_first_player=-1, end="resigned",
    )  # fmt: skip
    more = MoreOpenings(more=[[], []], stones=stones)
    return [even, [line.model_dump_json().encode() for line in (header, game, more)]]


def make_results(run: Path) -> list[Parts]:
    """[results.json without its seal], of all of games.jsonl and of all but its last line."""
    folder, made = GAMES(run).parent, []
    whole = GAMES(run).read_bytes()
    for data in (whole, whole[: whole.rfind(b"\n", 0, -1) + 1]):
        GAMES(run).write_bytes(data)
        read_results(folder, checked=True, keep=True)
        made.append([_without_seal((folder / layout.MATCH_RESULTS).read_bytes())])
    GAMES(run).write_bytes(whole)
    return made


def write_results(run: Path, parts: Parts) -> Path:
    path = GAMES(run).parent / layout.MATCH_RESULTS
    data = b"".join(parts)
    try:
        raw = json.loads(data)
        data = json.dumps({**raw, "seal": KeptResults.model_validate(raw).sealed()}).encode()
    except (ValueError, TypeError, RecursionError):
        pass
    path.write_bytes(data)
    return path


def make_pruned(run: Path) -> list[Parts]:
    name = read_name(run)
    place = PrunedPlace(kept=[name], number=1, shards=1, games=2, positions=7)
    write_pruned(run / "data/selfplay", Pruned(places={"000000-test/w00": place}))
    return [[(run / "data/selfplay" / PRUNED).read_bytes()]]


def make_points(run: Path) -> list[Parts]:
    (run / "data/logs/train/m").mkdir(parents=True, exist_ok=True)
    (run / "data/logs/train/m/points.jsonl").unlink(missing_ok=True)
    options = TrackingOptions(track=NONE)
    with Tracker(options, run / "data/training_data", "train/m", "train/step", SILENT) as tracker:
        for step in (10, 20):
            tracker.add({"loss/total": 1.5, "plies": np.arange(step)}, step)
    return [(run / "data/logs/train/m/points.jsonl").read_bytes().splitlines(keepends=True)]


def make_evaluation(run: Path) -> list[Parts]:
    """As it is when it is finished, of a match that isn't there."""
    rates = {"wins": 1, "draws": 0, "losses": 1, "share": 0.5, "low": 0.1, "high": 0.9}
    elo = {"elo_before": 1500.0, "elo_after": 1510.0}
    found = {
        "format": "mugo-evaluation", "version": 1, "model": "000001-test", "rated_as": "000001-test@8",
        "weights": "ff", "generation": 1, "game": "tictactoe", "settings": {"readouts": 8, "seed": 1},
        "opponents": [{"name": "random", "spec": "random", "weights": "", "games": 2, "elo": 1500.0, "rating": 0.0}],
        "strategies": [{"strategy": "ladder", "opponents": ["random"], "start": 0}], "rating_before": None,
        "results": [{**rates, **elo, "opponent": "random", "match": "000001-test@8-vs-random",
                     "moving_first": {"wins": 1}, "moving_second": {"losses": 1}, "average_length": 7.5, "shortest": 6,
                     "longest": 9, "ends": {"played_out": 2}, "duplicates": 0, "failed": 0}],
        "outcomes": [{**rates, "strategy": "ladder", "conclusion": "above random"}], **elo,
        "skipped": [{"opponent": "000000-test", "reason": "gone", "again": True}],
        "rating": 10.0, "rating_error": 5.0, "created": "2026-11-25T10:00:00+00:00",
        "finished": "2026-11-25T10:01:00+00:00",
    }  # fmt: skip
    text = json.dumps(Evaluation.model_validate(found).model_dump())
    folder = run / "data/evaluate/watch"
    folder.mkdir(exist_ok=True)
    return [[text.encode()]]


def read_name(run: Path) -> str:
    return SHARD(run).name.removesuffix(layout.SHARD_SUFFIX)


GO, GOMOKU = parse_game("go:5"), parse_game("gomoku:9")


def make_sgf(run: Path) -> list[Parts]:
    black = game_sgf(GO, [12, 25, 7, 8], RecordText("a", "b", comment="c [d\\] e"), ["one", "two"])
    setup = b"(;GM[1]SZ[5]CA[UTF-8]AB[aa:bb][dd]AW[ee]PL[W];W[cc];B[])"
    return [[black.encode()], [setup], [game_sgf(GOMOKU, [0, 1], RecordText("a", "b")).encode()]]


def text_file(name: str, make: Callable[[Path], list[Parts]]) -> dict[str, Any]:
    def write(run: Path, parts: Parts) -> Path:
        (run / name).write_bytes(b"".join(parts))
        return run / name

    return {"make": make, "write": write}


def make_openings(run: Path) -> list[Parts]:
    write_openings(run / "openings.json", GO, [[12, 7], [3]], {"how": "by hand"})
    return [[(run / "openings.json").read_bytes()]]


PRESET = b"""# a comment
train: {epochs: 2, learning_rate: [{until: 2, from: 0.1, value: 0.01}, {until: 7, value: 0.001}]}
selfplay: &anchor {readouts: 8, gumbel_scale: 1.0, opponents: "random=1,mirror=1"}
evaluate: {threshold: 0.55}
"""


def make_presets(run: Path) -> list[Parts]:
    as_json = {"train": {"epochs": 2, "network_size": [{"until_share": 0.5, "value": "b2c32"}]}, "gather": {"seed": 1}}
    return [[PRESET], [json.dumps(as_json).encode()]]


# How they are read


def shown(run: Path, path: Path) -> None:
    for text in show(path):
        printable(text).encode()


def whole_shard(run: Path, path: Path) -> None:
    shard = read_shard(path.with_suffix(layout.SHARD_SUFFIX), read_meta(path))
    no_resign_games(shard)
    for number in range(shard.num_games):
        shard.game(number)


def checked_games(run: Path, path: Path) -> None:
    check_games(run / "data/selfplay", 1, Findings(run), SILENT)


def every_shard(run: Path, path: Path) -> None:
    for meta in newest_shards(run / "data/selfplay", lambda error: _check_message(str(error), error.path)):
        if "w07" in meta.id:
            read_shard(meta.path, meta)


def whole_chunk(run: Path, path: Path) -> None:
    read_header(path)
    read_chunk(path, GAME.spec, column_types(GAME))


def checked_chunks(run: Path, path: Path) -> None:
    check_chunks(run / "data/training_data", KnownGames(), Findings(run), SILENT)


def whole_model(run: Path, path: Path) -> None:
    with naming(path.parent):
        model = read_model(path.parent)
        fold(Architecture.from_dict(model.info.architecture), model.weights)
        read_optimizer(path.parent)


def checked_models(run: Path, path: Path) -> None:
    check_models(run / "saved_models", Findings(run), SILENT)


def run_state(run: Path, path: Path) -> None:
    read_info(path.parent)
    run_state_of(SelfplayConfig(network=run / "saved_models/best_model"))


def whole_match(run: Path, path: Path) -> None:
    verify_match(read_match(path.parent))


def as_records(run: Path, path: Path) -> None:
    if read_match(path.parent).header.game.startswith("go"):
        list(records_of(path.parent))


def its_results(run: Path, path: Path) -> None:
    results = read_results(path.parent, checked=True)
    [game.identity for game in results.with_summary().games]


def rated(run: Path, path: Path) -> None:
    read_matches([run / "data/evaluate"])


def checked_matches(run: Path, path: Path) -> None:
    check_matches([run / "data/evaluate"], Findings(run), SILENT)


def its_summary(run: Path, path: Path) -> None:
    read_summary(path.parent)


def promotions(run: Path, path: Path) -> None:
    read_journal(path.parent)
    read_promotions(path.parent)
    read_champions(path.parent)


def the_pool(run: Path, path: Path) -> None:
    read_pool(path)
    summary_text(pool(path=path, ratings_path=RATINGS(run)))


def all_ratings(run: Path, path: Path) -> None:
    read_ratings(path)


def an_evaluation(run: Path, path: Path) -> None:
    summary_text(read_evaluation(path))
    check_evaluations(path.parent, Findings(run))


def what_was_pruned(run: Path, path: Path) -> None:
    pruned = read_pruned(path.parent)
    pruned.totals(order.model_of), pruned.totals(order.generation_of), pruned.counted, pruned.has(SHARD(run))


def points_made_anew(run: Path, path: Path) -> None:
    """Whatever is damaged, only whole lines below the first new x stay."""
    JsonLines(path.parent, "train/step", None)
    JsonLines(path.parent, "train/step", 15)
    assert all(json.loads(line)["train/step"] < 15 for line in path.read_bytes().splitlines())


def its_priorities(run: Path, path: Path) -> None:
    read_priorities(path)


def an_sgf(run: Path, path: Path) -> None:
    data = path.read_bytes()
    with naming(path):
        read_sgf(data, GOMOKU if b"GM[4]" in data else GO)


def the_openings(run: Path, path: Path) -> None:
    read_openings(path, GO)


def a_preset(run: Path, path: Path) -> None:
    for stage in ("train", "selfplay"):  # each reads all sections
        make_config(COMMANDS[stage].config, stage, str(path), lambda config: RunState(1, 2, 0.5))
    preset_text(str(path), RunState(3, 4, 0.5))


KINDS: dict[str, Kind] = {
    "shard": Kind(shard_parts, write_parts_of_shard, (whole_shard, shown, checked_games)),
    "sidecar": Kind(**one_part(beside_shard), reads=(whole_shard, shown, checked_games)),
    "pack": Kind(make_pack, write_pack, (every_shard, shown, checked_games)),
    "chunk": Kind(
        lambda run: [[CHUNK(run).read_bytes()[:SEAL_BYTES], CHUNK(run).read_bytes()[SEAL_BYTES:]]],
        write_chunk_bytes,
        (whole_chunk, shown),
    ),
    "described chunk": Kind(chunk_description, write_described_chunk, (whole_chunk, shown, checked_chunks)),
    "model": Kind(**one_part(MODEL), reads=(whole_model, shown, checked_models, run_state)),
    "weights": Kind(lambda run: [tensors(WEIGHTS(run).read_bytes())], write_weights, (whole_model, checked_models)),
    "optimizer": Kind(make_optimizer, write_optimizer, (go_on_training,)),
    "games of a match": Kind(
        make_games, lines(GAMES)["write"], (whole_match, its_results, shown, checked_matches, as_records)
    ),
    "results": Kind(make_results, write_results, (its_results, rated)),
    "summary": Kind(**one_part(SUMMARY), reads=(its_summary, shown, checked_matches)),
    "promotions": Kind(**lines(PROMOTIONS), reads=(promotions, shown, checked_models)),
    "pool": Kind(**one_part(POOL), reads=(the_pool, shown)),
    "ratings": Kind(**one_part(RATINGS), reads=(all_ratings, shown)),
    "evaluation": Kind(
        **text_file("data/evaluate/watch/000001-test.json", make_evaluation), reads=(an_evaluation, shown)
    ),
    "pruned games": Kind(**text_file(f"data/selfplay/{PRUNED}", make_pruned), reads=(what_was_pruned,)),
    "points": Kind(**text_file("data/logs/train/m/points.jsonl", make_points), reads=(points_made_anew,)),
    "priorities": Kind(make_priorities, write_parts_of_priorities, (its_priorities,)),
    **{
        f".{form}": Kind(
            **text_file(f"game.{form}", lambda run, text=text: [text.encode().splitlines(keepends=True)]),
            reads=(lambda run, path, read=read: read(path), shown),
        )
        for where in of_each("FUZZED")
        for form, (text, read) in pkgutil.resolve_name(where).items()
    },
    "SGF": Kind(**text_file("game.sgf", make_sgf), reads=(an_sgf,)),
    "openings": Kind(**text_file("openings.json", make_openings), reads=(the_openings,)),
    "preset": Kind(**text_file("preset.yaml", make_presets), reads=(a_preset,)),
}
