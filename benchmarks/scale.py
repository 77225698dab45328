"""What do a run's commands cost as its history grows, from 10^3 to 10^7 games?

    python -m benchmarks.scale FOLDER [--sizes 1000,10000,100000,1000000,10000000] [--window 100000] [--keep]

Makes a run in the folder, grows it from size to size, and at each size runs every command in a process of its own, as a
user would. Prints one line per command and size: seconds by the clock, CPU seconds, peak MiB, and the number of the
run's files it opened and folders it listed. Takes half an hour and 6 GB. Removes the folder unless --keep; a kept
folder from an earlier call is measured as it is, and stays.

The run has the files that self-play, compact, train and evaluate write, but nothing was played: a few games of
tic-tac-toe with ever new ids, in shards of ten; a one-block network that all models share by hard links; a match of ten
games per model, every second one won. `verify` accepts it. A generation is a hundred games in ten shards and one model.
All generations but the newest are packed, as the loop does it; --pruned also prunes before each measurement. Costs
depend on the number of generations, folders, shards and models, not on their size.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.strength import ending
from pipeline.bench.command import write_random_games
from pipeline.evaluate.promotion import Rule, stored, summarise
from pipeline.games.specs import parse_game
from pipeline.run import atomic, layout, packs
from pipeline.run.matches import (
    KeptResults,
    MatchGame,
    MatchHeader,
    PlayerInfo,
    open_match,
    read_results,
    write_summary,
)
from pipeline.run.models import read_info
from pipeline.run.shards import RunNumbers, compress, decompress, newest_shards, read_shard
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init
from pipeline.upkeep.compact import compact
from pipeline.upkeep.config import CompactConfig
from tests.run.random_games import write_shard

ROOT = Path(__file__).parent.parent
GAME = "tictactoe"
LABEL = "b1c8"
WORKERS = ("w00",)
SHARD_GAMES = 10
GENERATION_SHARDS = 10  # of all workers together
MATCH_GAMES = 10
BANK = 32  # distinct shards and matches; all others are copies with other names
BEGUN = datetime(2024, 1, 1, tzinfo=UTC)
GENERATION = timedelta(minutes=10)
MOST_LINKS = 30_000  # file systems allow about twice as many
MATCHES = "data/evaluate/"
GROWN = ".grown.json"  # its size in games, once it has been grown to it
CREATED = "2024-01-01T00:00:00+00:00"

# Counts, in a child process, the interpreter's audit events for paths inside the run.
COUNTING = """
import os, runpy, sys, time
begun = time.monotonic()
run, program, counts = os.getcwd(), sys.argv[1], {"open": 0, "os.listdir": 0, "os.scandir": 0}
def count(event, arguments):
    if event in counts and isinstance(arguments[0], (str, os.PathLike)):
        path = os.fspath(arguments[0])
        if isinstance(path, str) and (path.startswith(run) or not os.path.isabs(path)):
            counts[event] += 1
sys.addaudithook(count)
sys.argv = sys.argv[1:]
try:
    runpy.run_path(program, run_name="__main__")
finally:
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    listed = counts["os.listdir"] + counts["os.scandir"]
    sys.stderr.write(f"\\nCOUNTED {counts['open']} {listed} {peak} {time.monotonic() - begun} {time.process_time()}\\n")
"""


# A run that grows


@dataclass(frozen=True)
class StoredShard:
    """A shard and its sidecar as write_shard made them, from which copies with other names are made."""

    header: dict[str, Any]
    columns: bytes
    meta: dict[str, Any]
    positions: int

    def under(
        self, generation: int, worker: str, first_id: int, numbers: Sequence[int], run: RunNumbers
    ) -> tuple[bytes, bytes]:
        """(shard, sidecar) with other ids and numbers of the games."""
        ids = np.arange(first_id, first_id + SHARD_GAMES, dtype="<u8").tobytes()
        origin = {"model": layout.model_name(generation, LABEL), "worker": worker}
        header = {**self.header, **origin, "provenance": {"generation": generation}}
        data = compress(json.dumps(header, ensure_ascii=False).encode() + b"\n" + ids + self.columns[len(ids) :])
        meta = {
            **self.meta,
            **origin,
            "generation": generation,
            "game_ids": base64.b64encode(ids).decode(),
            "numbers": list(numbers),
            "run": run._asdict(),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return data, json.dumps(meta, ensure_ascii=False).encode() + b"\n"


def stored_shards(folder: Path) -> list[StoredShard]:
    """BANK distinct shards of random games."""
    write_random_games(parse_game(GAME), folder / "random", 20 * BANK * SHARD_GAMES)
    games = [
        shard.game(index)
        for meta in newest_shards(folder / "random")
        for shard in [read_shard(meta.path, meta)]
        for index in range(shard.num_games)
    ]
    found = []
    for number in range(BANK):
        few = games[number * SHARD_GAMES : (number + 1) * SHARD_GAMES]
        path = write_shard(
            folder, layout.model_name(1, LABEL), "w00", GAME, few, {"generation": 1}, 100,
            numbers=range(SHARD_GAMES), run=RunNumbers(1, 0, SHARD_GAMES),
        )  # fmt: skip
        line, _, columns = decompress(path.read_bytes()).partition(b"\n")
        meta = json.loads(layout.meta_path(path).read_text())
        found.append(StoredShard(json.loads(line), columns, meta, int(meta["positions"])))
    return found


@dataclass(frozen=True)
class StoredMatch:
    """A match as evaluate leaves it. texts: its files by name."""

    texts: dict[str, str]
    kept: KeptResults
    passed: bool

    def under(self, challenger: str, champion: str, created: str) -> dict[str, str]:
        """The files of the same match between other models, whose names have the same length."""
        texts = {}
        for name, text in self.texts.items():
            text = text.replace(layout.model_name(2, LABEL), "\0").replace(layout.model_name(1, LABEL), champion)
            texts[name] = text.replace("\0", challenger).replace(CREATED, created)
        sha256 = hashlib.sha256(texts[layout.MATCH_GAMES].encode()).hexdigest()
        kept = self.kept.model_copy(update={"sha256": sha256})
        kept = kept.model_copy(update={"seal": kept.sealed()})
        return {**texts, layout.MATCH_RESULTS: kept.model_dump_json() + "\n"}


def random_match(rng: np.random.Generator, index: int, opening: list[int], challenger_wins: bool) -> MatchGame:
    """A game of random moves with this result."""
    game = parse_game(GAME)
    while True:
        moves, states = list(opening), game.initial(1)
        history = game.initial_history(states)
        for ply in range(game.max_plies):
            if ply == len(moves):
                moves.append(int(rng.choice(np.flatnonzero(game.legal(states, history)[0]))))
            states = game.play(states, np.array(moves[ply : ply + 1], np.int32), history)
            if game.is_over(states)[0]:
                break
        result = float(game.returns(states)[0])
        if len(moves) > len(opening) and result * (1 if index % 2 == 0 else -1) == (1 if challenger_wins else -1):
            return MatchGame(
                index=index,
                challenger_player=index % 2,
                opening_plies=len(opening),
                moves=moves,
                values_to_move=[None] * len(opening) + [0.25] * (len(moves) - len(opening)),
                result_first_player=int(result),
                end="played_out",
            )


def stored_matches(folder: Path, weights: str) -> list[StoredMatch]:
    """BANK matches, won and lost by the challenger in turn, with 6 to 9 of 10 games."""
    rng = np.random.default_rng(1)
    found = []
    names = (layout.model_name(2, LABEL), layout.model_name(1, LABEL))
    players = [
        PlayerInfo(name=name, kind="model", spec=f"saved_models/{name}", readouts=2, weights=weights) for name in names
    ]
    for number in range(BANK):
        openings = [rng.permutation(9)[:2].tolist() for _ in range(MATCH_GAMES // 2)]
        header = MatchHeader(
            players=(players[0], players[1]), game=GAME, games=MATCH_GAMES, threshold=0.55,
            settings={"opening_plies": 2, "seed": number, "sprt": None, "exclude_duplicates": False},
            openings=openings, created=CREATED,
        )  # fmt: skip
        match = folder / str(number) / layout.match_name(*names)
        writer = open_match(match, header)
        wins = 9 - number // 2 % 4 if number % 2 == 0 else 1 + number // 2 % 4
        writer.add([random_match(rng, index, openings[index // 2], index < wins) for index in range(MATCH_GAMES)])
        summary = summarise(Rule(MATCH_GAMES, 0.55), writer, whole=True)
        write_summary(match, {**stored(replace(summary, promoted=summary.passed)), "match": MATCHES + match.name})
        read_results(match, checked=True, keep=True)
        texts = {name: (match / name).read_text() for name in (layout.MATCH_GAMES, layout.MATCH_SUMMARY)}
        kept = KeptResults.model_validate_json((match / layout.MATCH_RESULTS).read_text())
        found.append(StoredMatch(texts, kept, summary.passed))
    return found


class GrowingRun:
    """A run in a folder. generations: the number played; model g is the result of generation g."""

    def __init__(self, folder: Path, window: int) -> None:
        self.folder, self._window = folder, window
        self._games, self._models, self._matches = (
            folder / name for name in ("data/selfplay", layout.SAVED_MODELS, MATCHES)
        )
        os.fsync = lambda descriptor: None  # the number of files is measured, not the disk
        begin = folder / "begin"
        self._shards = stored_shards(begin)
        init(InitConfig(game=GAME, network_size=LABEL, new_model=self._models / layout.model_name(0, LABEL)))
        first = self._models / layout.model_name(0, LABEL)
        self._info = read_info(first)
        self._bank = stored_matches(begin, self._info.files[layout.WEIGHTS].sha256)
        shutil.rmtree(begin)
        self._linked, self._links = first / layout.WEIGHTS, 0
        self._champion = first.name
        self.generations = self.positions = 0

    @property
    def num_games(self) -> int:
        return self.generations * GENERATION_SHARDS * SHARD_GAMES

    def grow(self, games: int) -> None:
        """Grow to this many games. The newest generation isn't packed."""
        if self.generations:
            compact(CompactConfig(directory=self.folder))
        last = games // (GENERATION_SHARDS * SHARD_GAMES)
        for generation in range(self.generations + 1, last + 1):
            self._make_model(generation)
            self._make_match(generation)
            self._make_games(generation, packed=generation < last)
            self.generations = generation
        link = self._models / layout.CHAMPION
        link.unlink()
        link.symlink_to(self._champion)

    def _begun(self, generation: int) -> datetime:
        return BEGUN + generation * GENERATION

    def _make_games(self, generation: int, packed: bool) -> None:
        of_each = GENERATION_SHARDS // len(WORKERS)
        games = of_each * SHARD_GAMES
        for number, worker in enumerate(WORKERS):
            place = layout.shard_folder(self._games, layout.model_name(generation, LABEL), worker, generation)
            place.mkdir(parents=True)
            run = RunNumbers(generation, (generation - 1) * games, generation * games)
            made = []
            for index in range(of_each):
                template = self._shards[(generation + index) % BANK]
                time = self._begun(generation) + timedelta(seconds=1 + index)
                first = run.first + index * SHARD_GAMES
                ids = (generation * len(WORKERS) + number) * games + index * SHARD_GAMES
                both = template.under(generation, worker, ids, range(first, first + SHARD_GAMES), run)
                made.append((layout.ShardName(time, index + 1), *both))
                self.positions += template.positions
            if packed:
                packs.write_pack(place, made)
                continue
            for name, data, meta in made:
                (place / name.shard).write_bytes(data)
                (place / name.meta).write_bytes(meta)

    def _make_model(self, generation: int) -> None:
        """Its window ends where its generation begins."""
        path = self._models / layout.model_name(generation, LABEL)
        path.mkdir()
        if self._links == MOST_LINKS:
            self._links = 0
        if self._links == 0:
            shutil.copyfile(self._linked, path / layout.WEIGHTS)
            self._linked = path / layout.WEIGHTS
        else:
            os.link(self._linked, path / layout.WEIGHTS)
        self._links += 1
        info = self._info.model_copy(
            update={
                "name": path.name,
                "number": generation,
                "parents": [layout.model_name(generation - 1, LABEL)],
                "created": self._begun(generation).isoformat(timespec="seconds"),
                "manifest": self._manifest(generation),
            }
        )
        (path / layout.MODEL_JSON).write_text(info.model_dump_json(indent=2) + "\n")

    def _manifest(self, generation: int) -> dict[str, Any]:
        per_generation = max(1, self.positions // max(1, self.generations))
        reach = min(self.generations, -(-self._window // per_generation))
        places = [
            f"{layout.model_name(one, LABEL)}/{worker}"
            for one in range(self.generations - reach + 1, self.generations + 1)
            for worker in WORKERS
        ]
        metrics = {
            part: {"total": 2.0, "policy": 1.5, "value": 0.5}
            for part in ("train", "holdout_before", "holdout_after", "set_after")
        }
        last = f"{GENERATION_SHARDS // len(WORKERS):06d}"
        ends = {
            name: f"{place}/{self._begun(int(place[:6])):{layout.TIME_FORMAT}}-{last}.gz"
            for name, place in (("oldest", places[0]), ("newest", places[-1]))
        } if places else {}  # fmt: skip
        return {
            "stage": "train",
            "config": TrainConfig().stored(),
            "chunk_set": f"{generation:06d}-00000000",
            "window": {
                "positions": min(self.positions, self._window),
                "max_positions": self._window,
                "capacity": self._window,
                **ends,
                "total_positions": self.positions,
                "counted_shards": dict.fromkeys(places, GENERATION_SHARDS // len(WORKERS)),
            },
            "examples": 1000,
            "steps": 10,
            "total_samples": 1000 * generation,
            "seconds": 60.0,
            "metrics": metrics,
        }

    def _make_match(self, generation: int) -> None:
        template = self._bank[generation % BANK]
        challenger, champion = layout.model_name(generation, LABEL), self._champion
        created = self._begun(generation).isoformat(timespec="seconds")
        folder = self._matches / layout.match_name(challenger, champion)
        folder.mkdir(parents=True)
        texts = template.under(challenger, champion, created)
        for name, text in texts.items():
            (folder / name).write_text(text)
        layout.lock_path(folder).touch()
        if not template.passed:
            return
        summary = json.loads(texts[layout.MATCH_SUMMARY])
        recorded = (
            "games games_played wins draws losses threshold points_needed tail_probability match sprt conditions reason"
        )
        line = {
            "champion": challenger, "previous": champion, "time": created, "by": "evaluate", "challenger": challenger,
            "over": champion, **{name: summary[name] for name in recorded.split()},
        }  # fmt: skip
        with open(self._models / layout.PROMOTIONS, "a") as journal:
            journal.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._champion = challenger


# Measuring


@dataclass(frozen=True)
class Cost:
    """The cost of a command.

    seconds         by the clock
    busy            CPU seconds, which other programs change little
    peak            MiB
    opened, listed  number of the run's files and folders
    code, said      exit code, last line of the output
    """

    seconds: float
    busy: float
    peak: float
    opened: int
    listed: int
    code: int
    said: str


def cost(run: Path, prefix: Sequence[str], *command: str) -> Cost:
    """The cost of a command of main.py in the run's folder. prefix: see --prefix."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [*prefix, sys.executable, "-c", COUNTING, str(ROOT / "main.py"), *command]
    with open(run / "said", "w+") as said:
        child = subprocess.Popen(arguments, cwd=run, env=env, stdout=said, stderr=subprocess.STDOUT)
        child.wait()
        said.seek(0)
        lines = [line for line in said.read().splitlines() if line.strip()]
    (run / "said").unlink()
    counts = [line.split()[1:] for line in lines if line.startswith("COUNTED ")]
    opened, listed, kilobytes, seconds, busy = map(float, counts[-1]) if counts else [-1.0] * 5
    last = [line for line in lines if not line.startswith("COUNTED ")][-1:]
    return Cost(seconds, busy, kilobytes / 1024, int(opened), int(listed), child.returncode, " ".join(last))


def commands(window: int) -> Iterator[tuple[str, list[str]]]:
    """(name, arguments) of each measured command."""
    chunks = ["--max-positions", str(window), "--as-many-as-possible", "--chunks-to-make", "1"]
    play = ["selfplay", "--readouts", "2", "--threads", "1", "--games"]
    yield "selfplay, nothing to top up", [*play, "1", "--top-up"]
    yield "selfplay, one game", [*play, "1"]
    yield "selfplay, 201 games", [*play, "201"]
    yield "gather, first", ["gather", *chunks]
    yield "gather, next", ["gather", *chunks, "--seed", "1"]
    yield "status", ["status", "--json"]
    yield "evaluate, nobody new", ["evaluate", "--games", "10"]
    yield "ratings", ["ratings"]
    yield "prune", ["prune", "--keep-positions", str(window)]
    yield "verify --newest", ["verify", "--newest", str(window)]
    yield "verify", ["verify"]
    yield "compact", ["compact"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--window", type=int, default=100_000)
    parser.add_argument("--only", default="", help="measure only these lines of the table, separated by semicolons")
    parser.add_argument(
        "--most-seconds", type=float, default=170, help="skip a command at larger sizes once it took longer"
    )
    parser.add_argument("--prefix", default="", help="run commands with this prefix, e.g. 'taskset -c 1'")
    parser.add_argument("--pruned", action="store_true", help="prune before each measurement")
    parser.add_argument("--keep", action="store_true", help="don't remove the folder")
    given = parser.parse_args(arguments)
    run, measuring = given.folder.resolve(), Measuring(given)
    if run.exists():
        if not (run / GROWN).exists():
            parser.error(f"{run}: there, and not grown to its size by an earlier call with --keep; wanted a new folder")
        with ending(parser):
            measuring.measure(run, atomic.read_json(run / GROWN, "the size of a grown run")["games"])
        return
    with ending(parser):
        grow_and_measure(run, given, measuring)


def grow_and_measure(run: Path, given: argparse.Namespace, measuring: Measuring) -> None:
    try:
        grown = GrowingRun(run, given.window)
        for size in map(int, given.sizes.split(",")):
            begun = time.monotonic()
            (run / GROWN).unlink(missing_ok=True)
            grown.grow(size)
            atomic.write_json(run / GROWN, {"games": size})
            print(
                f"# {size:,} games, {grown.generations:,} models: made in {time.monotonic() - begun:.0f} s", flush=True
            )
            measuring.measure(run, size)
    finally:
        if not given.keep:
            shutil.rmtree(run, ignore_errors=True)


class Measuring:
    """Measures the commands. given: the arguments of the command line."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._slow: set[str] = set()

    def measure(self, run: Path, games: int) -> None:
        given, prefix = self._given, self._given.prefix.split()
        if given.pruned:
            cost(run, prefix, "prune", "--apply", "--keep-positions", str(given.window))
        for name, command in commands(given.window):
            if name in self._slow or (given.only and name not in given.only.split(";")):
                continue
            one = cost(run, prefix, *command)
            print(
                f"{games:>10,} {name:28} {one.seconds:7.2f} s {one.busy:7.2f} busy {one.peak:6.0f} MiB "
                f"{one.opened:9,} opened {one.listed:9,} listed  exit {one.code}  {one.said[:70]}",
                flush=True,
            )
            if one.seconds > given.most_seconds:
                self._slow.add(name)


if __name__ == "__main__":
    main()
