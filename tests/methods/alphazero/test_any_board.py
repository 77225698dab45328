"""Examples of several board sizes together: each as on its own board, in batches of one size."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.alphazero import examples
from pipeline.methods.alphazero.examples import make_examples
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.methods.alphazero.training_batch import make_batch
from pipeline.methods.method import Positions
from pipeline.networks.architecture import OF_SIDE
from pipeline.reports.show_chunks import distributions, example
from pipeline.run.chunks import newest_complete_set, read_chunk, read_header
from pipeline.run.models import read_info, read_model, read_optimizer, write_model
from pipeline.run.shards import newest_shards, read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.dataset import Dataset, holdout_batches
from pipeline.train.init import init
from pipeline.train.trainer import Trainer
from tests.run.random_games import random_games, write_shard
from tests.train.test_command import Stopper, assert_equal_models

METHOD = AlphaZero()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with games on 5×5, 6×6 and 7×7 and komi of all kinds, gathered."""
    folder = tmp_path_factory.mktemp("run")
    init(InitConfig(game="go:any,komi=7", network_size="b1c8", new_model=folder / "models/000000-init"))
    selfplay(
        SelfplayConfig(
            network=folder / "models/best_model", output_dir=folder / "games", games=40, readouts=3, seed=2,
            boards="5=3,6=2,7=1", komi_spread=6, temperature_plies=8, backend="torch",
        )
    )  # fmt: skip
    gather(
        GatherConfig(
            directory=folder / "games", output_directory=folder / "chunks", positions_per_chunk=128, chunks_to_make=6,
            holdout_fraction=0.25,
        )
    )  # fmt: skip
    return folder


def shards_of(run):
    return [read_shard(meta.path, meta) for meta in newest_shards(run / "games")]


def all_positions(shards):
    found = [(s, g, p) for s, one in enumerate(shards) for g in range(one.num_games) for p in range(one.lengths[g])]
    return Positions(*(np.array(column, np.int64) for column in zip(*found, strict=True)))


def test_examples_are_those_of_each_board_alone(run) -> None:
    shards = shards_of(run)
    wanted = all_positions(shards)
    rng = np.random.default_rng(0)
    wanted = wanted.at(rng.permutation(len(wanted))[:1500])
    largest = parse_game("go:any,size=7,komi=7")
    mixed = make_examples(largest, shards, wanted, np.full(len(wanted), 0.9, np.float32))
    assert set(np.unique(mixed["side"]).tolist()) == {5, 6, 7}
    for number, shard in enumerate(shards):
        game = parse_game(shard.game_spec)
        rows = np.flatnonzero(wanted.shard == number)
        here = Positions(np.zeros(len(rows), np.int64), wanted.game[rows], wanted.ply[rows])
        alone = make_examples(game, [shard], here, np.full(len(rows), 0.9, np.float32))
        assert (mixed["side"][rows] == game.board_shape[0]).all()
        for name, column in alone.items():
            if name == "shard":
                assert (mixed[name][rows] == number).all()
                continue
            found = mixed[name][rows]
            size = column.shape[1:] and column.shape[1]
            assert (found[:, :size] == column).all() if size else (found == column).all(), name
            assert not size or not found[:, size:].any(), name


def test_a_result_reaches_back_through_as_much_of_a_game_on_every_board(run, monkeypatch) -> None:
    """λ = 0.9 is the home board's, of 81 points: 0.9 ** (81 / 25) on 5×5."""
    seen = {}

    def noted(game, shards, wanted, lambdas):
        seen[game.num_points] = set(lambdas.tolist())
        return of_one_board(game, shards, wanted, lambdas)

    of_one_board = examples._of_one_board
    monkeypatch.setattr(examples, "_of_one_board", noted)
    shards = shards_of(run)
    wanted = all_positions(shards)
    for given, at_25, at_49 in ((0.9, 0.9**3.24, 0.9 ** (81 / 49)), (1.0, 1.0, 1.0)):
        make_examples(parse_game("go:any,size=7,komi=7"), shards, wanted, np.full(len(wanted), given, np.float32))
        assert [*seen[25], *seen[49]] == pytest.approx([at_25, at_49])


def test_a_games_komi_is_in_planes_score_and_result(tmp_path) -> None:
    """By hand, from the board's area: the mover's komi plane by plane, and who won."""
    seen = set()
    for side, setup in ((5, -3), (5, 24), (6, 0), (6, -30), (7, 7)):
        game = parse_game(f"go:any,size={side},komi=7,moves=400")
        records = [replace(one, setup=setup) for one in random_games(game.varied(setup), 6, seed=side)]
        shard = read_shard(write_shard(tmp_path, "000000-x", "w00", game.spec, records, {}))
        komi = 7 + setup / 2
        for index, record in enumerate(records):
            for ply in (len(record.moves) - 1, len(record.moves) - 2):
                columns = make_examples(game, [shard], Positions(*(np.array([one]) for one in (0, index, ply))))
                planes = np.unpackbits(columns["planes"], axis=1, count=game.num_planes * game.num_points)
                planes = planes.reshape(game.num_planes, game.num_points)
                white = planes[game.plane_names.index("white to move"), 0]
                for_mover = komi if white else -komi
                for bound in (-8, 0, 8, 18):
                    assert planes[game.plane_names.index(f"komi for the mover above {bound}"), 0] == (for_mover > bound)
                if columns["final_weight"][0]:
                    lead = int(columns["ownership"].sum()) + for_mover
                    assert columns["score"][0] == lead and columns["value"][0] == np.sign(lead)
                    seen.add((side, bool(white), bool(lead > 0)))
    assert len(seen) >= 6


def test_batches_are_of_one_size_and_every_example_comes_once(run) -> None:
    chunks = newest_complete_set(run / "chunks")
    game = parse_game(read_chunk_game(chunks))
    dataset = Dataset(METHOD, game, chunks, 50, seed=1)
    assert dataset.kinds == [5, 6, 7]
    for epochs, memory in ((1, 1 << 30), (2, 1 << 30), (2, 400_000)):
        dataset = Dataset(METHOD, game, chunks, 50, seed=1, memory_bytes=memory)
        batches = list(dataset.batches(epochs))
        assert [len(batch.value) for batch in batches] == dataset.batch_sizes(epochs).tolist()
        sizes = [batch.planes.shape[2] for batch in batches]
        assert set(sizes) == {5, 6, 7} and sizes != sorted(sizes), "the sizes come mixed"
        assert sum(len(batch.value) for batch in batches) == epochs * dataset.num_examples
        later = list(dataset.batches(epochs, start_step=3))
        assert len(later) == len(batches) - 3
        for one, other in zip(later, batches[3:], strict=True):
            assert all((a == b).all() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("memory", [1 << 30, 400_000])
def test_some_batches_are_an_epochs_until_there_are_enough_of_each_board(run, memory: int) -> None:
    chunks = newest_complete_set(run / "chunks")
    dataset = Dataset(METHOD, parse_game(read_chunk_game(chunks)), chunks, 50, seed=1, memory_bytes=memory)
    seen, wanted = {5: 0, 6: 0, 7: 0}, []
    for batch in dataset.batches(1):
        side = batch.planes.shape[2]
        if seen[side] < 200:
            wanted.append(batch)
        seen[side] += len(batch.value)
    assert min(seen.values()) < 200 < max(seen.values())
    for one, other in zip(dataset.some(200), wanted, strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


def read_chunk_game(chunks) -> str:
    return read_header(chunks.chunks[0]).game


def test_a_batch_under_a_symmetry_is_that_of_its_own_board(run) -> None:
    chunks = newest_complete_set(run / "chunks")
    game = parse_game(read_chunk_game(chunks))
    columns = read_chunk(chunks.chunks[0], game.spec, METHOD.columns(game)).columns
    for side in (5, 6, 7):
        board = game.on_board(side)
        rows = np.flatnonzero(columns["side"] == side)[:12]
        symmetry = np.arange(len(rows)) % 8
        found = make_batch(game, columns, rows, symmetry)
        own = {
            name: columns[name][:, : shape[0]] if shape else columns[name]
            for name, (_, shape) in METHOD.columns(board).items()
            if name != "side"
        }
        for one, other in zip(found, make_batch(board, own, rows, symmetry), strict=True):
            assert (one == other).all()
    mixed = np.array([np.flatnonzero(columns["side"] == side)[0] for side in (5, 6)])
    with pytest.raises(ValueError, match="too many values"):
        make_batch(game, columns, mixed, np.zeros(2, np.int64))


def test_holdouts_of_several_sizes(run) -> None:
    chunks = newest_complete_set(run / "chunks")
    by_board = holdout_batches(METHOD, parse_game(read_chunk_game(chunks)), chunks.holdout, 64, 10_000)
    assert sorted(by_board) == [5, 6, 7]
    for side, batches in by_board.items():
        assert {batch.planes.shape[2] for batch in batches} == {side}


def test_training_and_what_does_not_go_together(run) -> None:
    settings = {
        "directory": run / "chunks", "original_model": run / "models/best_model", "batch_size": 64,
        "logdir": run / "logs", "precision": "float32",
    }  # fmt: skip
    summary = train(TrainConfig(**settings, new_model=run / "models/000001-a"))
    model = read_model(run / "models/000001-a")
    assert model.info.game == "go:any,komi=7" and model.info.architecture["global_planes"] == 39
    before = read_model(run / "models/000000-init").weights
    for name in ("stem_globals.weight", "value_hidden.weight"):
        assert (model.weights[name] != before[name]).mean() > 0.5, name
    sides = {name.partition(".")[0] for name in model.weights} & {"side5", "side6", "side7"}
    assert sides == {"side5", "side6", "side7"}, "each board's statistics of norms"
    train(TrainConfig(**{**settings, "original_model": model.path, "new_model": run / "models/000002-a"}))
    boards, together = model.info.manifest["holdout_kinds"], summary.metrics["holdout_after"]
    assert list(boards) == ["5×5", "6×6", "7×7"] and summary.kinds == boards
    assert sum(one["examples"] for one in boards.values()) == summary.holdout_examples
    for name in ("policy_accuracy", "value_sign_accuracy"):
        assert min(one[name] for one in boards.values()) <= together[name] <= max(one[name] for one in boards.values())
    shares = r"[\d.]+ % of the moves right, [\d.]+ % of the winners right"
    assert re.fullmatch(rf"held out, 7×7: {shares} \(\d+ examples\)", summary.lines()[-1])
    tracked = [path.read_text() for path in (run / "logs").rglob("points.jsonl")]
    assert sum('"train/policy_accuracy_holdout_7x7"' in text for text in tracked) == 2
    again = read_model(run / "models/000002-a")
    assert again.weights.keys() == model.weights.keys()
    assert not [name for name in read_optimizer(again.path) if "side" in name]  # of the average alone
    with pytest.raises(UsageError, match="kinds of examples"):
        train(TrainConfig(**settings, new_model=run / "models/000002-b", priority_exponent=0.6))


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_model_with_statistics_of_boards_resumes(run, tmp_path, monkeypatch, ema_decay: float) -> None:
    """Interrupted between two steps, and when the statistics have just been measured, of a board that had none too."""
    first = {"directory": run / "chunks", "batch_size": 64, "logdir": tmp_path / "logs", "precision": "float32"}
    train(TrainConfig(**first, original_model=run / "models/best_model", new_model=tmp_path / "000001-a"))
    model = read_model(tmp_path / "000001-a")
    weights = {name.replace("side7", "side9"): array for name, array in model.weights.items()}
    write_model(tmp_path / "000001-some", model.info, weights)
    settings = {**first, "original_model": tmp_path / "000001-some", "ema_decay": ema_decay}
    whole = train(TrainConfig(**settings, new_model=tmp_path / "000002-whole"))
    other = train(TrainConfig(**{**settings, "ema_decay": 0.9 - ema_decay}, new_model=tmp_path / "000002-other"))
    assert other.metrics["holdout_before"] == whole.metrics["holdout_before"], "with the statistics of boards"
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings, new_model=tmp_path / "000002-parts"), Stopper(3))
    measured, calls = Trainer.evaluate_parts, []

    def interrupted(self: Trainer, parts: Any) -> Any:
        calls.append(parts)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return measured(self, parts)

    monkeypatch.setattr(Trainer, "evaluate_parts", interrupted)
    second, third = Stopper(-1), Stopper(-1)
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings, new_model=tmp_path / "000002-parts"), second)
    parts = train(TrainConfig(**settings, new_model=tmp_path / "000002-parts"), third)
    for step, progress in ((3, second), (whole.steps, third)):
        assert progress.said[0] == f"resuming at step {step} of {whole.steps}" and not progress.warned
    assert_equal_models(whole.model, parts.model)
    found = read_model(parts.model).weights
    assert {name.partition(".")[0] for name in found if OF_SIDE.fullmatch(name)} == {"side5", "side6", "side7"}


def test_games_of_another_kind_are_refused(run, tmp_path) -> None:
    with pytest.raises(FileError, match="wanted go:9"):
        make_examples(parse_game("go:9"), shards_of(run), Positions(*(np.zeros(1, np.int64) for _ in range(3))))
    init(InitConfig(game="go:9", network_size="b1c8", new_model=tmp_path / "000000-init"))
    with pytest.raises(FileError, match="holds games of go:any"):
        selfplay(SelfplayConfig(network=tmp_path / "best_model", output_dir=run / "games", games=2))


def test_a_game_that_knows_no_setup_spoils_its_shard_alone(tmp_path) -> None:
    """The file's own error, which gather names and goes on after."""
    game = parse_game("tictactoe")
    records = random_games(game, 3, seed=1)
    records[1] = replace(records[1], setup=4)
    shard = read_shard(write_shard(tmp_path, "000000-x", "w00", game.spec, records, {}))
    with pytest.raises(FileError, match="game 1: tictactoe: setup 4") as found:
        make_examples(game, [shard], all_positions([shard]))
    assert found.value.path == shard.path


def test_a_model_of_one_board_begins_a_run_on_all(run, tmp_path) -> None:
    init(InitConfig(game="go:9", network_size="b1c8", new_model=tmp_path / "a/000000-init", value_head="wdl"))
    init(
        InitConfig(
            game="go:any,komi=7", original_model=tmp_path / "a/000000-init", new_model=tmp_path / "b/000000-init"
        )
    )
    info = read_info(tmp_path / "b/000000-init")
    assert info.game == "go:any,komi=7" and info.architecture["value_head"] == "wdl"
    with pytest.raises(Exception, match="other planes"):
        init(InitConfig(game="go:9", original_model=tmp_path / "b/000000-init", new_model=tmp_path / "c/000000-init"))


def test_show_draws_each_example_on_its_own_board(run) -> None:
    chunks = newest_complete_set(run / "chunks")
    game = parse_game(read_chunk_game(chunks))
    chunk = read_chunk(chunks.chunks[0], game.spec, METHOD.columns(game))
    for side in (5, 6, 7):
        index = int(np.flatnonzero(chunk.columns["side"] == side)[0])
        columns = {name: column[[index]] for name, column in chunk.columns.items()}
        shown = example(game, chunk, index)
        rows = [line for line in shown.splitlines() if re.match(r" +\d+ [.XO]( [.XO])*$", line)]
        board = make_batch(game, columns, np.array([0]), np.array([0])).planes[0].numpy()
        stones = board[0] + 2 * board[1]  # own stones, the opponent's
        wanted = ["".join(".XO"[stone] for stone in line) for line in stones.tolist()]
        assert ["".join(line.split()[1:]) for line in rows] == wanted
    facts = distributions(chunk.columns)
    assert re.fullmatch(r"5×5 [\d.]+%, 6×6 [\d.]+%, 7×7 [\d.]+%", str(facts["boards"]))
