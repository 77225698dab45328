"""What a long run's files cost: self-play's shards by the hundred thousand, matches by the thousand.

    python -m benchmarks.retention shards FOLDER [--shards 100000] [--generations 50] [--workers 2]
    python -m benchmarks.retention matches FOLDER [--matches 500] [--games 200]

Makes a run in the folder, which must not exist: shards of four random games of tic-tac-toe, or matches between models
that never were. Then it measures, each in a process of its own, as a user would call it: listing,
`gather` (twice: without an earlier set, and going on from one), `status`, `show`, `compact`, and the same again on
packs, then `prune`; or `ratings` (twice: reading all games, and none), `show` and `report`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.bench.command import write_random_games
from pipeline.games.specs import parse_game
from pipeline.run import layout
from pipeline.run.shards import newest_shards, read_shard, write_shard

ROOT = Path(__file__).parent.parent
LIST = (
    "import sys; from pathlib import Path; from pipeline.run.order import newest_files; "
    "print(sum(1 for _ in newest_files(Path(sys.argv[1]))), 'shards')"
)


def make_shards(run: Path, shards: int, generations: int, workers: int) -> None:
    """The same four games in each, under other ids, without a sync: it is the number of files that is measured."""
    write_random_games(parse_game("tictactoe"), run / "random", 1)
    found = next(newest_shards(run / "random"))
    games = [read_shard(found.path, found).game(index) for index in range(4)]
    os.fsync = lambda descriptor: None
    for number in range(shards):
        generation = 1 + number * generations // shards
        named = [replace(game, game_id=4 * number + index) for index, game in enumerate(games)]
        write_shard(
            run / "data/selfplay", f"{generation:06d}-a", f"w{number % workers:02d}", "tictactoe", named,
            {"generation": generation},
        )  # fmt: skip
    shutil.rmtree(run / "random")
    (run / layout.SAVED_MODELS).mkdir()


def make_matches(run: Path, matches: int, games: int) -> None:
    """Matches of a tournament on 9×9, of 50 to 90 plies, whose openings came in rounds of eight."""
    rng = random.Random(1)
    (run / layout.SAVED_MODELS).mkdir(parents=True)
    for number in range(matches):
        one, other = f"{number + 1:06d}-b2c32", f"{max(0, number - rng.randrange(5)):06d}-b2c32"
        players = [
            {
                "name": f"{name}@200",
                "kind": "model",
                "spec": f"saved_models/{name}",
                "readouts": 200,
                "weights": "0" * 64,
            }
            for name in (one, other)
        ]
        openings = [[rng.randrange(81) for _ in range(6)] for _ in range(games // 2)]
        created = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        header = {
            "format": "mugo-match", "version": 2, "players": players, "game": "go:9", "games": 0, "threshold": None,
            "settings": {"opening_plies": 6, "seed": number}, "openings": [], "created": created.isoformat(),
        }  # fmt: skip
        lines: list[dict[str, object]] = [header]
        for index in range(games):
            if index % 16 == 0:
                lines.append({"more": openings[index // 2 : index // 2 + 8]})
            left = rng.randrange(44, 84)
            lines.append(
                {
                    "index": index, "challenger_player": index % 2, "opening_plies": 6,
                    "moves": openings[index // 2] + [rng.randrange(81) for _ in range(left)],
                    "values_to_move": [None] * 6 + [rng.uniform(-1, 1) for _ in range(left)],
                    "result_first_player": rng.choice([-1, 1]), "end": "played_out",
                }
            )  # fmt: skip
        folder = run / "data/tournament" / layout.match_name(f"{one}@200", f"{other}@200")
        folder.mkdir(parents=True)
        (folder / layout.MATCH_GAMES).write_text("".join(json.dumps(line) + "\n" for line in lines))


def measure(run: Path, what: str, *command: str) -> None:
    begun = time.monotonic()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *command], cwd=run, env=env, capture_output=True, text=True)
    seconds = time.monotonic() - begun
    last = (done.stdout or done.stderr).strip().splitlines()[-1:]
    print(f"{what:34} {seconds:8.2f} s  exit {done.returncode}  {' '.join(last)[:90]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shards", "matches"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--matches", type=int, default=500)
    parser.add_argument("--games", type=int, default=200)
    given = parser.parse_args()
    if given.folder.exists():
        parser.error(f"{given.folder} exists; wanted a new folder")
    run, program = given.folder.resolve(), str(ROOT / "main.py")
    if given.what == "matches":
        make_matches(run, given.matches, given.games)
        measure(run, "ratings, all games new", program, "ratings")
        measure(run, "ratings, no game new", program, "ratings")
        measure(run, "show", program, "show")
        measure(run, "report", program, "report")
        return
    make_shards(run, given.shards, given.generations, given.workers)
    chunks = ("--max-positions", "100000", "--as-many-as-possible", "--chunks-to-make", "20")
    for kind in ("files", "packs"):
        measure(run, f"listing, {kind}", "-c", LIST, "data/selfplay")
        measure(run, f"gather, first, {kind}", program, "gather", *chunks, "--output-directory", f"data/{kind}")
        measure(
            run,
            f"gather, next, {kind}",
            program,
            "gather",
            *chunks,
            "--output-directory",
            f"data/{kind}",
            "--seed",
            "1",
        )
        measure(run, f"status, {kind}", program, "status", "--json")
        measure(run, f"show, {kind}", program, "show")
        if kind == "files":
            measure(run, "compact", program, "compact")
    measure(run, "gather, for the totals", program, "gather", *chunks)
    for what in ("prune", "prune --apply", "show"):
        more = ("--keep-positions", "100000") if "prune" in what else ()
        measure(run, f"{what}, packs", program, *what.split(), *more)


if __name__ == "__main__":
    main()
