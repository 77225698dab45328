"""Is behaviour the same? Short generations with fixed seeds, and digests of everything they make.

    python -m benchmarks.fixed_seed FOLDER [--checkout DIR] [--compare OTHER/digests.json] [--only RUN,RUN]

Every run of RUNS goes through the command line of the checkout alone, in FOLDER/RUN, on one core, a few minutes in
all. FOLDER/digests.json then has a digest of each array, FOLDER/arrays/RUN.npz the arrays themselves. --compare prints
one line for each part of a run that differs from an earlier folder, with the first array that does and how, and exits
with 1 if there is any. Two folders of one commit are equal if they come from one machine: another processor or another
version of a library may round differently.

A *part* is what a command made: games, examples, weights, matches. Compared are contents: no versions, copies of
settings, names of files, or times. Nothing is imported from pipeline, files are read as docs/files.md has them, so this
file measures any commit. Where a commit has other options or columns, change the tables at the top.

Two things would make two runs differ, and neither is behaviour. Shards of finished games are cut by the clock, so each
game is committed by itself. A set of chunks has a hash in its name, of its games' files and their times, by which train
orders examples: fix_set_name gives all sets the same hash before train reads them.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml
from numpy.typing import NDArray
from safetensors.numpy import load_file

Options = dict[str, Any]  # by the option's name; a list of mappings is a schedule and goes into a preset
Arrays = dict[str, NDArray[Any]]
Parts = dict[str, Arrays]

# Options of every run. Games are committed one by one: which of them share a shard would depend on the clock.
COMMON: dict[str, Options] = {
    "init": {"seed": 1},
    "selfplay": {"seed": 2, "threads": 1, "backend": "torch", "commit-seconds": 0},
    "gather": {"seed": 3, "as-many-as-possible": True, "chunks-to-make": 4, "holdout-fraction": 0.2},
    "train": {"seed": 4, "precision": "float32", "epochs": 1, "warmup-steps": 2},
    "evaluate": {"seed": 5, "threads": 1, "backend": "torch", "require-games": 8},
}

# Of each run the options of each command. "generations": how often selfplay, gather, train and evaluate follow each
# other; "matches": of evaluate, one after the other, in each generation.
RUNS: dict[str, dict[str, Any]] = {
    "tictactoe": {
        "init": {"game": "tictactoe", "network-size": "b1c8"},
        "selfplay": {"games": 24, "readouts": 16, "temperature-plies": 4, "noise-weight": 0.25},
        "gather": {"positions-per-chunk": 48},
        "train": {"batch-size": 16},
        "matches": [{"games": 8, "readouts": 16, "opening-plies": 2, "threshold": 0.01, "require": "random>=0"}],
    },
    "connect4": {  # two generations: windows, growing, schedules by generation and by share of time, earlier champions
        "generations": 2,
        "init": {"game": "connect4", "network-size": "b1c8", "value-head": "wdl"},
        "selfplay": {
            "algorithm": "gumbel",
            "games": [{"until": 1, "value": 16}, {"until": 2, "value": 12}],
            "readouts": [{"until": 1, "value": 12}, {"until": 2, "value": 16}],
            "max-num-considered-actions": 4,
            "full-search-fraction": 0.5,
            "cheap-readouts": 4,
            "random-plies": 6,
            "opponents": "previous=40,mirror=60",
        },
        "gather": {
            "window-start": 200,
            "max-positions": 500,
            "td-lambda": [{"until": 1, "value": 1}, {"until": 2, "value": 0.9}],
            "surprise-weight": 0.5,
            "searched-only": True,
            "positions-per-chunk": 32,
        },
        "train": {
            "network-size": [{"until": 1, "value": "b1c8"}, {"until": 2, "value": "b2c12"}],
            "batch-size": 32,
            "optimizer": "muon",
            "learning-rate": [{"until_share": 0.3, "value": 0.004}, {"until_share": 1, "value": 0.002}],
            "time-share": 0.5,
            "ema-decay": 0.9,
            "reply-weight": 0.15,
            "soft-policy-weight": 8,
            "priority-exponent": 0.6,
        },
        "matches": [{"games": 6, "readouts": 12, "threshold": 0.01, "algorithm": "gumbel"}],
    },
    "go": {  # ownership and score, opponents, resignation, passes; untrained networks play long games
        "init": {"game": "go:9,komi=7", "network-size": "b1c8", "value-head": "wdl"},
        "selfplay": {
            "seed": 7,  # random, heuristic and the network itself are all among the opponents
            "games": 16,
            "readouts": 16,
            "full-search-fraction": 0.3,
            "cheap-readouts": 4,
            "forced-playouts": 2,
            "noise-shape": 0.5,
            "random-plies": 8,
            "temperature-plies": 12,
            "opponents": "random=20,heuristic=20,mirror=60",
            "resign-threshold": -0.01,
            "no-resign-fraction": 0.5,
            "end-settled": True,
            "pass-after": 0.5,
        },
        "gather": {"positions-per-chunk": 64, "td-lambda": 0.95},
        "train": {"batch-size": 32},
        "matches": [{"games": 4, "readouts": 8, "opening-plies": 4, "threshold": 0.01, "require": "heuristic>=0"}],
    },
    "gomoku": {
        "init": {"game": "gomoku:9,opponents", "network-size": "b1c8", "value-head": "wdl"},
        "selfplay": {
            "games": 12,
            "readouts": 16,
            "random-plies": 4,
            "opponents": "heuristic=50,mirror=50",
            "decided-value": 0.003,
        },
        "gather": {"positions-per-chunk": 48},
        "train": {"batch-size": 32},
        "matches": [{"games": 4, "readouts": 16, "opening-plies": 2, "threshold": 0.01, "require": "heuristic>=0"}],
    },
    "shogi": {
        "init": {"game": "shogi:5", "network-size": "b1c8", "value-head": "wdl"},
        "selfplay": {
            "algorithm": "mixed",
            "games": 12,
            "readouts": 12,
            "full-search-fraction": 0.33,
            "cheap-readouts": 6,
            "max-num-considered-actions": 8,
            "temperature-plies": 0,
            "random-plies": 4,
        },
        "gather": {"positions-per-chunk": 64},
        "train": {"batch-size": 32},
        "matches": [{"games": 4, "readouts": 8, "opening-plies": 4, "threshold": 0.01, "require": "heuristic>=0"}],
    },
    "othello": {
        "init": {"game": "othello:6", "network-size": "b1c8"},
        "selfplay": {"games": 12, "readouts": 16, "random-plies": 4, "temperature-plies": 8},
        "gather": {"positions-per-chunk": 64},
        "train": {"batch-size": 32},
        "matches": [{"games": 4, "readouts": 8, "opening-plies": 4, "threshold": 0.01, "require": "heuristic>=0"}],
    },
    "hypergammon": {
        "init": {"game": "hypergammon", "method": "td", "network-size": "h16t", "value-head": "points"},
        "selfplay": {"games": 40, "value-plies": 1},
        "gather": {"positions-per-chunk": 256, "td-lambda": 0.7},
        "train": {"batch-size": 64, "ema-decay": 0.9},
        "matches": [
            {"games": 20, "readouts": 1, "threshold": -3},
            {"games": 20, "readouts": 0, "white-model": "heuristic"},
        ],
    },
    "backgammon": {
        "init": {"game": "backgammon", "method": "td", "network-size": "h16t", "value-head": "points"},
        "selfplay": {"games": 12},
        "gather": {"positions-per-chunk": 256, "td-lambda": 0.8},
        "train": {"batch-size": 64},
        "matches": [
            {"games": 8, "readouts": 0, "threshold": -3},
            {"games": 8, "readouts": 0, "white-model": "heuristic"},
        ],
    },
    "text": {
        "init": {
            "game": "text:KuhnPoker-v0,show=round,prompt=320,reply=12",
            "method": "reinforce",
            "network-size": "l1d48r4",
            "pretraining-steps": 60,
        },
        "selfplay": {"games": 12},
        "gather": {"positions-per-chunk": 16, "sampling-rewards": "normalise,negative=0.25"},
        "train": {"batch-size": 16, "entropy-weight": 0.02},
        "matches": [{"games": 4, "readouts": 0, "threshold": 0.01, "require": "random>=0"}],
    },
}

PARTS = ("games", "examples", "weights", "matches")
LIBRARIES = ("numpy", "numba", "torch")  # that a result may depend on
# What a shard's arrays have an entry for, docs/files.md; those that aren't named here have one for each move.
PER_GAME = {"game_ids", "lengths", "results", "ends", "no_resign", "opponents", "learners", "setups"}
PER_VISIT = {"visit_actions", "visit_counts"}
NAMES_OF_FILES = {"shards", "counted_shards"}  # datasets of a chunk
SEAL_BYTES = 512  # of a chunk, before what HDF5 reads
NUMBERED = re.compile(r"\d{6}-")  # the name of a model
SET_NAME = re.compile(r"(\d{6})-[0-9a-f]{8}")
SAME_HASH = r"\1-00000000"


# Playing


def play(run: Mapping[str, Any], checkout: Path, folder: Path) -> None:
    """All commands of a run. Raises SystemExit if one fails."""
    folder.mkdir(parents=True)
    preset = {name: schedules for name in COMMON if (schedules := _schedules(run.get(name, {})))}
    (folder / "schedules.yaml").write_text(yaml.safe_dump(preset))

    def call(command: str, more: Options) -> None:
        options = COMMON[command] | more
        named = {"preset": "schedules.yaml"} if command in preset else {}
        _call(checkout, folder, command, _arguments(named | options))

    call("init", run["init"])
    for _ in range(run.get("generations", 1)):
        for command in ("selfplay", "gather", "train"):
            call(command, run[command])
            if command == "gather":
                for chunk in sorted((folder / "data/training_data").glob("*.h5")):
                    fix_set_name(chunk)
        for match in run["matches"]:
            call("evaluate", match)


def _is_schedule(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], dict)


def _schedules(options: Options) -> Options:
    """Those options that need a preset, by the names that they have there."""
    return {name.replace("-", "_"): value for name, value in options.items() if _is_schedule(value)}


def _arguments(options: Options) -> Iterator[str]:
    """The other options, as on the command line."""
    for name, value in options.items():
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        elif not _is_schedule(value):
            yield from (f"--{name}", str(value))


def _call(checkout: Path, folder: Path, command: str, arguments: Iterator[str]) -> None:
    line = [sys.executable, str(checkout / "main.py"), command, *arguments, "--verbose", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(checkout)}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder.name}: {' '.join(line[1:])}\nended with {done.returncode}:\n{done.stderr.strip()}")


def fix_set_name(chunk: Path) -> None:
    """Give a chunk's set the name that it has in every run: in the file, in its seal, and in the file's name."""
    data = chunk.read_bytes()
    image = io.BytesIO(data)
    with h5py.File(image, "r+") as file:
        file.attrs["set_id"] = SET_NAME.sub(SAME_HASH, file.attrs["set_id"])
    body = image.getvalue()[SEAL_BYTES:]
    seal = json.loads(data[:SEAL_BYTES]) | {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    chunk.write_bytes(json.dumps(seal).encode().ljust(SEAL_BYTES - 1) + b"\n" + body)
    chunk.rename(chunk.with_name(SET_NAME.sub(SAME_HASH, chunk.name)))


# Reading


def read_run(folder: Path) -> Parts:
    """All that a run has made, by part and by name."""
    shards = {
        str(path.relative_to(folder / "data/selfplay")): read_shard(path)
        for path in sorted((folder / "data/selfplay").rglob("[!.]*.gz"))
    }
    ids = {name: arrays["game_ids"] for name, (arrays, _) in shards.items()}
    return {
        "games": read_games(list(shards.values())),
        "examples": read_examples(folder / "data/training_data", ids),
        "weights": read_weights(folder / "saved_models"),
        "matches": read_matches(folder),
    }


def read_shard(path: Path) -> tuple[Arrays, list[str]]:
    """A shard's arrays, and its opponents' names."""
    header, _, data = gzip.decompress(path.read_bytes()).partition(b"\n")
    facts = json.loads(header)
    arrays, offset = {}, 0
    for one in facts["arrays"]:
        shape = (one["count"], *one.get("shape", ()))
        arrays[one["name"]] = np.frombuffer(data, one["dtype"], int(np.prod(shape)), offset).reshape(shape)
        offset += arrays[one["name"]].nbytes
    return arrays, facts["opponents"]


def read_games(shards: Sequence[tuple[Arrays, list[str]]]) -> Arrays:
    """All arrays of all games, in order of the games' ids; opponents by name."""
    games = []
    for arrays, opponents in shards:
        named = np.array([*opponents, "itself"], "U")[arrays["opponents"]] if "opponents" in arrays else None
        moves = np.concatenate([[0], np.cumsum(arrays["lengths"])])
        visits = np.concatenate([[0], np.cumsum(arrays.get("visit_lengths", []), dtype=np.int64)])
        for game, game_id in enumerate(arrays["game_ids"]):
            begin, end = moves[game], moves[game + 1]
            rows: Arrays = {}
            for name, array in arrays.items():
                if name in PER_GAME:
                    rows[name] = array[game : game + 1]
                else:
                    rows[name] = array[visits[begin] : visits[end]] if name in PER_VISIT else array[begin:end]
            if named is not None:
                rows["opponents"] = named[game : game + 1]
            games.append((int(game_id), rows))
    return _joined([rows for _, rows in sorted(games, key=lambda one: one[0])])


def _joined(parts: Sequence[Arrays]) -> Arrays:
    """The arrays of each name one after the other."""
    found: dict[str, list[NDArray[Any]]] = defaultdict(list)
    for arrays in parts:
        for name, array in arrays.items():
            found[name].append(array)
    return {name: np.concatenate(found[name]) for name in sorted(found)}


def read_examples(folder: Path, ids: Mapping[str, NDArray[np.uint64]]) -> Arrays:
    """Every dataset of each set, its chunks one after the other and its hold-out, by ``set 0, chunks, planes``.

    ids: of a shard's games, by the shard's name. An example's shard and its index there become ``game_id``.
    """
    sets: dict[str, list[Arrays]] = defaultdict(list)
    for path in sorted(folder.glob("*.h5")):
        kind = "hold-out" if path.stem.endswith("holdout") else "chunks"
        with h5py.File(path, "r") as file:
            columns = {name: dataset[()] for name, dataset in file.items()}
        numbers, games = columns.pop("shard"), columns.pop("game")
        names = [name.decode() for name in columns["shards"]]
        columns["game_id"] = np.array(
            [ids[names[n]][game] for n, game in zip(numbers, games, strict=True)], dtype=np.uint64
        )
        kept = {name: column for name, column in columns.items() if name not in NAMES_OF_FILES}
        sets[f"set {int(path.name[:6])}, {kind}"].append(kept | {"examples": np.array([len(numbers)])})
    return {f"{one}, {name}": array for one, files in sets.items() for name, array in _joined(files).items()}


def read_weights(folder: Path) -> Arrays:
    """Every tensor of every model, of optimisers, of calibration positions, and of a base model."""
    found: Arrays = {}
    for model in sorted(path for path in folder.glob("[!.]*/") if not path.is_symlink()):
        name = f"model {int(model.name[:6])}" if NUMBERED.match(model.name) else model.name
        for path in sorted(model.rglob("*.safetensors")):
            where = f"{name}, {path.relative_to(model).with_suffix('')}"
            found |= {f"{where}, {tensor}": array for tensor, array in sorted(load_file(path).items())}
    return found


def read_matches(folder: Path) -> Arrays:
    """Of each match openings and games, and who is the champion in the end."""
    found = {"champion": np.array([os.path.basename(os.readlink(folder / "saved_models/best_model"))])}
    for path in sorted((folder / "data/evaluate").rglob("games.jsonl")):
        header, *lines = map(json.loads, path.read_text().splitlines())
        games = sorted((line for line in lines if "moves" in line and "index" in line), key=lambda line: line["index"])
        openings = header["openings"] + [one for line in lines for one in line.get("more", [])]
        where = str(path.parent.relative_to(folder / "data/evaluate"))
        arrays = {
            "players": np.array([one["name"] for one in header["players"]]),
            "openings": _flat(openings),
            "first player": np.array([game["challenger_player"] for game in games]),
            "opening plies": np.array([game["opening_plies"] for game in games]),
            "lengths": np.array([len(game["moves"]) for game in games]),
            "moves": _flat([game["moves"] for game in games]),
            "results": np.array([game["result_first_player"] for game in games], float),
            "ends": np.array([game["end"] for game in games], "U"),
            "values": _flat([game["values_to_move"] for game in games], float),
            "failures": np.array([line["failed"] for line in lines if "failed" in line], int),
        }
        found |= {f"{where}, {name}": array for name, array in arrays.items()}
    return found


def _flat(lists: Sequence[Sequence[Any]], dtype: type = int) -> NDArray[Any]:
    """The entries of all lists; None becomes NaN."""
    return np.array([entry for one in lists for entry in one], dtype)


# Digests


def digest(array: NDArray[Any]) -> str:
    """Of an array's type, shape and entries: 16 hexadecimal digits."""
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()[:16]


def digests_of(parts: Parts) -> dict[str, dict[str, str]]:
    return {part: {name: digest(array) for name, array in arrays.items()} for part, arrays in parts.items()}


def whole(digests: Mapping[str, str]) -> str:
    """The digest of a part: of its arrays' names and digests."""
    return hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()[:16]


def difference(name: str, now: NDArray[Any] | None, earlier: NDArray[Any] | None) -> str:
    """How an array differs, in words; None: there is none."""
    if now is None or earlier is None:
        return f"{name} is {'missing' if now is None else 'new'}"
    if now.dtype != earlier.dtype or now.shape != earlier.shape:
        return f"{name} is {now.dtype} {now.shape}, was {earlier.dtype} {earlier.shape}"
    numbers = now.dtype.kind == "f"
    places = np.flatnonzero(~np.isclose(now, earlier, rtol=0, atol=0, equal_nan=True) if numbers else now != earlier)
    if not len(places):
        return f"{name} has other bits of the same values"  # -0.0, another NaN
    first = places[0]
    most = np.nanmax(np.abs(now - earlier)) if numbers else 0
    size = f", by {most:.2g} at most" if numbers else ""
    found = f"{now.flat[first]}, was {earlier.flat[first]}"
    return f"{name} differs in {len(places)} of {now.size} entries{size}; entry {first} is {found}"


def differences(
    run: str, now: Mapping[str, Mapping[str, str]], earlier: Mapping[str, Mapping[str, str]], folder: Path, other: Path
) -> Iterator[str]:
    """A line for each part of a run that differs. folder, other: have the arrays in arrays/RUN.npz."""
    for part in PARTS:
        names = sorted(now[part].keys() | earlier[part].keys())
        differing = [name for name in names if now[part].get(name) != earlier[part].get(name)]
        if differing:
            first = differing[0]
            how = difference(first, _stored(folder, run, part, first), _stored(other, run, part, first))
            yield f"{run}, {part}: {len(differing)} of {len(names)} arrays differ; {how}"


def store(folder: Path, run: str, parts: Parts) -> None:
    """Write the arrays of a run to arrays/RUN.npz."""
    arrays = {f"{part}: {name}": array for part, named in parts.items() for name, array in named.items()}
    np.savez_compressed(folder / "arrays" / f"{run}.npz", **arrays)  # type: ignore[arg-type]


def _stored(folder: Path, run: str, part: str, name: str) -> NDArray[Any] | None:
    with np.load(folder / "arrays" / f"{run}.npz", allow_pickle=False) as file:
        return file.get(f"{part}: {name}")


def machine() -> dict[str, str]:
    """What a result may depend on beside the code."""
    found = {"processor": _processor(), "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "none"
    return found


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", facts.read_text(), re.MULTILINE) if facts.is_file() else []
    return str(names[0]) if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the runs and their digests: new, or empty")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parent.parent, help="whose main.py runs")
    parser.add_argument("--compare", type=Path, help="digests.json of an earlier folder, which is still there")
    parser.add_argument("--only", default=",".join(RUNS), help="runs, with commas between them [default: all]")
    options = parser.parse_args()
    folder, checkout, names = options.folder.absolute(), options.checkout.resolve(), options.only.split(",")
    if unknown := [name for name in names if name not in RUNS]:
        parser.error(f"--only {','.join(unknown)}: no such run; known: {', '.join(RUNS)}")
    if not (checkout / "main.py").is_file():
        parser.error(f"--checkout {checkout}: it has no main.py; wanted the root of a checkout")
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder}: it isn't empty; wanted a new folder")
    earlier = None
    if options.compare:
        try:
            earlier = json.loads(options.compare.read_text())
        except (OSError, ValueError) as error:
            parser.error(f"--compare {options.compare}: {error}; wanted digests.json of an earlier folder")
    if hasattr(os, "sched_setaffinity"):  # train divides a batch among the cores that it has
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})

    (folder / "arrays").mkdir(parents=True)
    runs: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        begin = time.monotonic()
        play(RUNS[name], checkout, folder / name)
        parts = read_run(folder / name)
        store(folder, name, parts)
        runs[name] = digests_of(parts)
        shown = "  ".join(f"{part} {whole(runs[name][part])}" for part in PARTS)
        print(f"{name:12}  {shown}  {time.monotonic() - begin:.0f} s", flush=True)
        found = {"machine": machine(), "runs": runs}
        (folder / "digests.json").write_text(json.dumps(found, indent=1) + "\n")  # after each run: the next may fail
    if earlier is None:
        return

    lines = [f"{name}: not in {options.compare}" for name in names if name not in earlier["runs"]]
    for name in names:
        if name in earlier["runs"]:
            lines += differences(name, runs[name], earlier["runs"][name], folder, options.compare.absolute().parent)
    print("\n".join(lines) if lines else f"the same as {options.compare}: {len(names)} runs")
    if lines:
        if found["machine"] != earlier["machine"]:
            print(f"note: the machine is {found['machine']}, was {earlier['machine']}")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
