"""What the same positions teach once the newest network has searched them again (*reanalysis*), and what that costs.

    python -m benchmarks.reanalysis --games data/selfplay --model saved_models/best_model --preset go9 \
        network_size=b4c64

The newest games, of at least --positions positions, are replayed, and every position that is a policy target is
searched again with --readouts and the preset's other settings; moves, results and all other positions stay. So there
are two sets of the same games, *recorded* and *remade*. Each argument is a network trained from random weights on
samples of either set, as in benchmarks.learning; where the preset draws by surprise, each set's own surprises count.
Both are measured on the same held-out games with remade targets, which favour the student trained on such targets: the
match between the two students decides. Printed is what benchmarks.learning prints, the match, and what a target costs
in evaluations, remade and as it was played, the cheap moves between targets included. Source of the idea: Schrittwieser
et al. 2021, "Online and offline reinforcement learning by planning with a learned model" (MuZero Reanalyse).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning import learn, make_chunks, nothing_held_out, untrained
from benchmarks.measuring import Result, measurement_with, player, refuse_too_many
from benchmarks.strength import HelpFormatter, ending
from benchmarks.tune import changed
from pipeline.errors import UsageError
from pipeline.games.contract import Evaluate, Game
from pipeline.games.specs import parse_game
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import holdout_games
from pipeline.machine import available_cores
from pipeline.methods.alphazero.recording import GameBuffer
from pipeline.networks.architecture import Architecture
from pipeline.players.loading import load_evaluators
from pipeline.presets import make_config
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run.models import ModelInfo, game_as_seen, read_model, resolve_champion, write_model
from pipeline.run.shards import POLICY_COUNTS, GameRecord, Shard, ShardMeta, newest_shards, read_shard, write_shard
from pipeline.search.batch import BatchSearch
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig, TrainConfig

ROWS = 256  # games replayed at a time, by one thread
NEVER = -2.0  # a threshold that no value is below
RECORDED, REMADE = "recorded", "remade"


class _Replaying:
    """A game that is played again: which of its positions are searched, and how far it is."""

    def __init__(self, record: GameRecord) -> None:
        self.record = record
        self.searched = np.flatnonzero(np.asarray(record.flags) & POLICY_COUNTS)
        self.ply = 0  # the next move
        self.found = 0  # of searched, those that have been


def remade(
    game: Game, records: Sequence[GameRecord], evaluate: Evaluate, config: SelfplayConfig, seed: int
) -> tuple[list[GameRecord], int]:
    """The games with new policy targets and values where there are policy targets; and the evaluations that it took."""
    search = BatchSearch(game, min(ROWS, len(records)), config.readouts, config, pass_after=config.pass_after)
    buffer = GameBuffer(NEVER)
    streams = np.random.default_rng(seed).integers(1, 2**63, len(records), dtype=np.uint64)
    waiting = list(enumerate(records))[::-1]
    rows: dict[int, tuple[int, _Replaying]] = {}
    done: dict[int, GameRecord] = {}

    def start(row: int) -> None:
        while waiting:
            index, record = waiting.pop()
            one = _Replaying(record)
            if not one.searched.size:
                done[index] = record
                continue
            here = np.array([row])
            search.new_games(here, streams[[index]])
            if record.setup:
                search.set_up(here, game.begin(np.array([record.setup])))
            buffer.start(row, record.game_id, no_resign=True)
            rows[row] = index, one
            return
        search.stop(np.array([row]))

    def go_on(some: Sequence[int]) -> None:
        """Play the recorded moves up to the next position that is to be searched, in all these rows together."""
        moving = [row for row in some if row in rows]
        while moving:
            moving = [row for row in moving if rows[row][1].ply < rows[row][1].searched[rows[row][1].found]]
            if moving:
                ones = [rows[row][1] for row in moving]
                search.advance(np.array(moving), np.array([one.record.moves[one.ply] for one in ones], np.int32))
                for one in ones:
                    one.ply += 1
        begun = np.array([row for row in some if row in rows], np.int64)
        if begun.size:
            search.begin(begun, np.full(len(begun), config.readouts, np.int32), np.ones(len(begun), np.bool_))

    for row in range(search.num_rows):
        start(row)
    go_on(list(rows))
    while rows:
        planes = search.leaves()
        if len(planes):
            search.expand(*evaluate(planes))
        finished = search.finished()
        if not finished.size:
            continue
        table = search.root_table(finished)
        ones = [rows[row][1] for row in finished.tolist()]
        moves = np.array([one.record.moves[one.ply] for one in ones], np.int32)
        values, every = search.root_values(finished), np.ones(len(finished), np.bool_)
        buffer.add(finished, moves, search.targets(finished, table), values, table[1], every)
        for row, one in zip(finished.tolist(), ones, strict=True):
            one.found += 1
            if one.found == len(one.searched):
                index = rows.pop(row)[0]
                done[index] = merged(one.record, buffer.finish(row, 0.0, one.record.end), one.searched)
                start(row)
        go_on(finished.tolist())
    return [done[index] for index in range(len(records))], search.evaluations


def merged(record: GameRecord, found: GameRecord, plies: NDArray[np.integer]) -> GameRecord:
    """record with what was found at these plies, the moves of `found`."""
    columns: dict[str, Any] = {}
    for name in ("root_values", "surprises", "visit_lengths"):
        columns[name] = np.array(getattr(record, name))
        columns[name][plies] = getattr(found, name)
    for name in ("visit_actions", "visit_counts"):
        parts = by_move(record, name)
        for ply, part in zip(plies.tolist(), by_move(found, name), strict=True):
            parts[ply] = part
        columns[name] = np.concatenate(parts)
    return replace(record, **columns)


def by_move(record: GameRecord, name: str) -> list[NDArray[Any]]:
    """The visits of each move."""
    return np.split(getattr(record, name), np.cumsum(record.visit_lengths)[:-1])


def window(directory: Path, positions: int) -> list[ShardMeta]:
    """The newest shards with at least so many positions together. Raises UsageError if there are none."""
    found: list[ShardMeta] = []
    for meta in newest_shards(directory):
        found.append(meta)
        positions -= meta.positions
        if positions <= 0:
            break
    if not found:
        raise UsageError(f"--games {directory}: no games; wanted a folder of self-play's")
    return found


def games_of(shard: Shard) -> list[GameRecord]:
    return [shard.game(index) for index in range(shard.num_games)]


def write(shard: Shard, games: Sequence[GameRecord], folder: Path) -> None:
    """These games as a shard like the one that they come from."""
    origin = shard.header["provenance"]
    write_shard(folder, shard.model, str(shard.header["worker"]), shard.game_spec, games, origin)


def parts_of(metas: Sequence[ShardMeta]) -> list[list[ShardMeta]]:
    """Shards of one board each, together of about 2 · ROWS games where there are as many; the largest parts first."""
    parts: list[list[ShardMeta]] = []
    for board in sorted({meta.game for meta in metas}):
        here = [meta for meta in metas if meta.game == board]
        count = min(len(here), max(1, sum(meta.games for meta in here) // (2 * ROWS)))
        parts += [here[number::count] for number in range(count)]
    return sorted(parts, key=lambda part: -sum(meta.positions for meta in part))


def remake(
    metas: Sequence[ShardMeta], model: Path, config: SelfplayConfig, seed: int, folder: Path, progress: Progress
) -> None:
    """Both sets of games, in folder/RECORDED and folder/REMADE. Raises UsageError if the model doesn't play them."""
    loaded = read_model(resolve_champion(model))
    seen_as: dict[str, Game] = {}  # by board
    for board in {meta.game for meta in metas}:
        seen = game_as_seen(loaded.info, parse_game(board))
        if seen is None:
            raise UsageError(f"--model {model}: it plays {loaded.info.game}; wanted one that plays {board}")
        seen_as[board] = seen
    threads = available_cores()
    evaluators: SimpleQueue[Evaluate] = SimpleQueue()
    for evaluator in load_evaluators(loaded, ROWS, threads, "auto", progress):
        evaluators.put(evaluator)
    parts = parts_of(metas)
    progress.start("searching again", len(parts), "parts")

    def work(number: int) -> tuple[list[tuple[Shard, list[GameRecord]]], int]:
        """The shards of a part, each with its games searched again; and the evaluations that it took."""
        shards = [read_shard(meta.path, meta) for meta in parts[number]]
        games = [game for shard in shards for game in games_of(shard)]
        evaluate = evaluators.get()
        try:
            again, asked = remade(seen_as[shards[0].game_spec], games, evaluate, config, seed + number)
        finally:
            evaluators.put(evaluate)
        progress.advance(1)
        left = iter(again)
        return [(shard, list(islice(left, shard.num_games))) for shard in shards], asked

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(work, range(len(parts))))
    progress.finish()
    both = {shard.id: (shard, again) for searched, _ in found for shard, again in searched}
    for meta in reversed(metas):  # the oldest first: names go by the time of writing
        shard, again = both[meta.id]
        write(shard, games_of(shard), folder / RECORDED)
        write(shard, again, folder / REMADE)
    targets = sum(int(np.count_nonzero(shard.flags & POLICY_COUNTS)) for shard, _ in both.values())
    told = all(meta.evaluations for meta in metas)
    played = f"{sum(meta.evaluations for meta in metas) / max(targets, 1):.1f} evaluations" if told else "not known"
    print(
        f"{targets:,} targets of {sum(meta.games for meta in metas):,} games: each cost {played} when it was played, "
        f"{sum(asked for _, asked in found) / max(targets, 1):.1f} again"
    )


def meeting(
    students: dict[str, Path], game: Game, readouts: int, games: int, folder: Path, progress: Progress
) -> Result:
    """What the student of the remade targets makes against the other one."""
    one, other = (player(students[kind], readouts) for kind in (REMADE, RECORDED))
    return measurement_with({}, students[REMADE], folder, progress, game.spec).play(one, other, games)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reanalysis", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("settings", nargs="+", metavar="NAME=VALUE[,NAME=VALUE…]", help="how to train")
    parser.add_argument("--games", type=Path, default=Path("data/selfplay"), help="of the preset's game, on any boards")
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"), help="who searches again")
    parser.add_argument("--preset", default="go9", help="a name, or a .yaml file")
    parser.add_argument("--readouts", type=int, default=48, help="of the new searches")
    parser.add_argument("--positions", type=int, default=400_000, help="the window, at least")
    parser.add_argument("--samples", type=int, default=250_000, help="that each is trained on")
    parser.add_argument("--match-game", help="that the two students play at the end [default: the preset's]")
    parser.add_argument("--match-games", type=int, default=200, help="how many")
    parser.add_argument("--match-readouts", type=int, default=64, help="simulations per move in these")
    parser.add_argument("--seed", type=int, default=0, help="of searches, weights and order")
    options = parser.parse_args(arguments)
    for name, least in (
        ("readouts", 2),
        ("positions", 1),
        ("samples", 1),
        ("match_games", 2),
        ("match_readouts", 1),
        ("seed", 0),
    ):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: wanted at least {least}")
    if options.match_games % 2:
        parser.error(f"--match-games {options.match_games}: wanted an even number: openings are played twice")
    with ending(parser), tempfile.TemporaryDirectory(prefix="mugo-reanalysis-") as name, ConsoleProgress() as progress:
        folder = Path(name)
        base = make_config(TrainConfig, "train", options.preset)
        configs = {text: changed(base, text) for text in options.settings}
        start = make_config(InitConfig, "init", options.preset)
        learned = parse_game(start.game)
        met = parse_game(options.match_game) if options.match_game else learned
        if learned.as_seen(met) is None:
            raise UsageError(f"--match-game {met.spec}: wanted one that models of {learned.spec} play")
        refuse_too_many(f"--match-games {options.match_games}:", options.match_games, met.spec)
        play = make_config(SelfplayConfig, "selfplay", options.preset, readouts=options.readouts)
        drawing = make_config(GatherConfig, "gather", options.preset)
        metas = window(options.games, options.positions)
        if not any(holdout_games(meta, drawing.holdout_fraction).any() for meta in metas):
            raise nothing_held_out(drawing)
        remake(metas, options.model, play, options.seed, folder, progress)
        sets = {}
        for kind in (RECORDED, REMADE):
            place = folder / f"{kind}-chunks"
            sets[kind] = make_chunks(folder / kind, options.preset, options.positions, options.samples, place, progress)
        for text, config in configs.items():
            sized = config.model_copy(update={"network_size": config.network_size or start.network_size})
            architecture = Architecture.for_game(str(sized.network_size), learned, start.value_head)
            students = {}
            for kind, chunks in sets.items():
                measured = replace(chunks, holdout=sets[REMADE].holdout)
                trainer = untrained(architecture, sized, options.seed)
                for found in learn(trainer, sized, measured, options.samples, options.seed):
                    print(f"{kind}, {text}: {found}", flush=True)
                info = ModelInfo(name=kind, number=0, game=learned.spec, architecture=architecture.to_dict())
                students[kind] = folder / "students" / text / kind
                write_model(students[kind], info, trainer.weights)
            place = folder / "matches" / text
            print(meeting(students, met, options.match_readouts, options.match_games, place, progress))


if __name__ == "__main__":
    main()
