"""Batches: every example once an epoch, moved whole by its symmetry, the same again from the same seed and step."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.errors import FileError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.games.testing import symmetries_of_start
from pipeline.methods.alphazero.method import AlphaZero
from pipeline.methods.alphazero.training_batch import Batch, make_batch
from pipeline.run.chunks import newest_complete_set, write_chunk
from pipeline.run.priorities import example_numbers
from pipeline.train.dataset import Dataset, holdout_batches, prefetched
from tests.games.playing import SMALL
from tests.run.random_games import window_of
from tests.train.chunk_sets import chunk_of, made_up_examples, write_set


@pytest.fixture(params=SMALL)
def game(request: pytest.FixtureRequest) -> Game:
    return parse_game(request.param)


def dataset_of(*arguments, **options) -> Dataset:
    return Dataset(AlphaZero(), *arguments, **options)


def equal(first: Batch, second: Batch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def naive_batch(game: Game, columns: dict[str, np.ndarray], rows: np.ndarray, symmetry: np.ndarray) -> Batch:
    """The plain twin of make_batch: one example and one entry at a time, straight from the definition of Symmetries."""
    height, width = game.board_shape
    planes = np.zeros((len(rows), game.num_planes, game.num_points), np.uint8)
    policy = np.zeros((len(rows), game.num_actions), np.float32)
    reply = np.zeros_like(policy)
    ownership = np.zeros((len(rows), game.num_points), np.float32)
    for i, (row, k) in enumerate(zip(rows, symmetry, strict=True)):
        bits = np.unpackbits(columns["planes"][row])[: game.num_planes * game.num_points].reshape(game.num_planes, -1)
        for p in range(game.num_points):
            planes[i, :, game.symmetries.points[k, p]] = bits[:, p]
            ownership[i, game.symmetries.points[k, p]] = columns["ownership"][row, p]
        for a in range(game.num_actions):
            policy[i, game.symmetries.actions[k, a]] = columns["policy"][row, a]
            reply[i, game.symmetries.actions[k, a]] = columns["reply"][row, a]
    numbers = {name: torch.from_numpy(columns[name][rows].astype(np.float32)) for name in Batch._fields[2:-1]}
    return Batch(
        **{
            **numbers,
            "planes": torch.from_numpy(planes.reshape(len(rows), game.num_planes, height, width)),
            "policy": torch.from_numpy(policy),
            "ownership": torch.from_numpy(ownership),
            "reply": torch.from_numpy(reply),
            "sample_weight": torch.ones(len(rows)),
        }
    )


def test_vectorised_equals_one_at_a_time(game: Game) -> None:
    columns = made_up_examples(game, 60)
    rng = np.random.default_rng(3)
    rows, symmetry = rng.permutation(60)[:40], rng.integers(0, game.symmetries.count, 40)
    assert len(set(symmetry.tolist())) == game.symmetries.count
    assert equal(make_batch(game, columns, rows, symmetry), naive_batch(game, columns, rows, symmetry))


def test_without_symmetries_every_example_is_unchanged(game: Game, tmp_path: Path) -> None:
    chunks = write_set(tmp_path, game, [30, 20])
    planes = {
        True: sorted(row.numpy().tobytes() for b in dataset_of(game, chunks, 8, 1).batches(1) for row in b.planes),
        False: sorted(
            row.numpy().tobytes()
            for b in dataset_of(game, chunks, 8, 1, symmetries=False).batches(1)
            for row in b.planes
        ),
    }
    batches = dataset_of(game, chunks, 8, 1).uniform(50)
    as_they_stand = sorted(row.numpy().tobytes() for batch in batches for row in batch.planes)
    assert planes[False] == as_they_stand
    assert (planes[True] != as_they_stand) == (game.symmetries.count > 1)


def test_moved_planes_are_those_of_the_transformed_game(game: Game) -> None:
    """Play a game and its mirror image side by side: what is observed must be moved by the symmetry, too."""
    rng = np.random.default_rng(1)
    kept = symmetries_of_start(game)
    numbers = np.arange(len(kept))
    states = game.initial(len(kept))
    history = game.initial_history(states)
    for _ in range(min(game.max_plies, 8)):
        legal = game.legal(states, history)
        if not legal[0].any():
            break
        action = int(rng.choice(np.flatnonzero(legal[0])))
        states = game.play(states, game.symmetries.actions[kept, action], history)
        history.append(numbers, game.keys(states))
        planes = game.observe(states, game.legal(states, history))
        columns = made_up_examples(game, 1)
        columns["planes"] = np.packbits(planes[:1].reshape(1, -1), axis=1)
        moved = make_batch(game, columns, np.zeros_like(kept), kept).planes.numpy()
        np.testing.assert_array_equal(moved, planes)


def keys_of(batch: Batch) -> list[float]:
    """One number per example that no symmetry changes: its score, distinct in made-up sets where it is known."""
    return batch.score.tolist()


def test_an_epoch_holds_every_example_once(tmp_path: Path) -> None:
    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, [30, 30, 17])
    dataset = dataset_of(game, chunks, batch_size=16, seed=0)
    batches = list(dataset.batches(2))
    assert [len(batch.value) for batch in batches] == dataset.batch_sizes(2).tolist() == 2 * [16, 16, 15, 15, 15]
    scores = np.concatenate([chunk_of(path, game).columns["score"] for path in chunks.chunks])
    for epoch in (batches[:5], batches[5:]):
        assert sorted(score for batch in epoch for score in keys_of(batch)) == sorted(scores.tolist())
    assert [keys_of(batch) for batch in batches[:5]] != [keys_of(batch) for batch in batches[5:]]
    assert dataset.num_examples == 77
    assert dataset.window == window_of(positions=77)


@pytest.mark.parametrize("memory_bytes", [1 << 30, 3000])
def test_batches_depend_on_seed_and_step_only(tmp_path: Path, memory_bytes: int) -> None:
    game = parse_game("go:5")
    chunks = write_set(tmp_path, game, [20, 20, 20, 9])

    def dataset(seed: int) -> Dataset:
        return dataset_of(game, chunks, batch_size=8, seed=seed, memory_bytes=memory_bytes)

    whole = list(dataset(5).batches(3))
    assert [len(batch.value) for batch in whole] == dataset(5).batch_sizes(3).tolist()
    for start in (0, 1, 7, 9, 13, len(whole) - 1, len(whole)):
        rest = list(dataset(5).batches(3, start))
        assert len(rest) == len(whole) - start
        assert all(equal(one, other) for one, other in zip(rest, whole[start:], strict=True))
    assert not equal(next(dataset(6).batches(1)), whole[0])


def test_a_set_larger_than_memory_is_read_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, [20] * 6)
    columns = chunk_of(chunks.chunks[0], game).columns
    chunk_bytes = sum(column.nbytes for name, column in columns.items() if name not in ("shard", "game", "ply"))
    dataset = dataset_of(game, chunks, batch_size=10, seed=0, memory_bytes=2 * chunk_bytes)
    held = []
    load = dataset._load
    monkeypatch.setattr(dataset, "_load", lambda group: held.append(group) or load(group))
    scores = [keys_of(batch) for batch in dataset.batches(2)]
    assert len(scores) == 24
    assert [len(group) for group in held] == [2] * 6
    assert held[:3] != held[3:]
    wanted = sorted(score for path in chunks.chunks for score in chunk_of(path, game).columns["score"].tolist())
    epochs = [sorted(score for scores in epoch for score in scores) for epoch in (scores[:12], scores[12:])]
    assert epochs == [wanted, wanted]


def test_a_group_may_lack_a_kind_of_examples(tmp_path: Path) -> None:
    class ByWeight(AlphaZero):
        def kinds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
            return columns["policy_weight"].astype(np.uint8)

    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, [20, 1, 20])
    dataset = Dataset(ByWeight(), game, chunks, 8, seed=0, memory_bytes=1)
    assert dataset.kinds == [0, 1]
    batches = list(dataset.batches(2))
    assert [len(batch.value) for batch in batches] == dataset.batch_sizes(2).tolist()
    assert sum(len(batch.value) for batch in batches) == 2 * 41
    assert all(len(set(batch.policy_weight.tolist())) == 1 for batch in batches)


@pytest.mark.parametrize("sizes", [[20], [20, 11]])
def test_chunks_larger_than_memory_are_read_one_by_one(tmp_path: Path, sizes: list[int]) -> None:
    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, sizes)
    dataset = dataset_of(game, chunks, batch_size=10, seed=0, memory_bytes=1)
    scores = sorted(score for batch in dataset.batches(1) for score in keys_of(batch))
    assert scores == sorted(score for path in chunks.chunks for score in chunk_of(path, game).columns["score"].tolist())


def test_every_symmetry_is_sampled_equally_often(tmp_path: Path) -> None:
    """χ² at one in a million over the 8 images of one position that has no symmetry of its own."""
    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, [1])
    images = [batch.policy.numpy().tobytes() for batch in dataset_of(game, chunks, 1, seed=0).batches(800)]
    _, counts = np.unique(images, return_counts=True)
    assert len(counts) == 8
    assert ((counts - 100) ** 2 / 100).sum() < 40.5


def test_damage_and_another_game_are_found_before_training(tmp_path: Path) -> None:
    game = parse_game("tictactoe")
    chunks = write_set(tmp_path, game, [20, 20])
    with pytest.raises(FileError, match="wanted go:5"):
        dataset_of(parse_game("go:5"), chunks, 8, 0)
    data = chunks.chunks[1].read_bytes()
    chunks.chunks[1].write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match="-0001-of-0002"):
        dataset_of(game, chunks, 8, 0)


def test_a_set_without_examples_is_refused(tmp_path: Path) -> None:
    game = parse_game("tictactoe")
    with pytest.raises(FileError, match="no examples"):
        dataset_of(game, write_set(tmp_path, game, [0]), 8, 0)


def test_the_holdout_is_unchanged(tmp_path: Path) -> None:
    game = parse_game("go:5")
    chunks = write_set(tmp_path, game, [10], holdout=21)
    holdout = newest_complete_set(tmp_path).holdout
    columns = chunk_of(holdout, game).columns
    (batches,) = holdout_batches(AlphaZero(), game, holdout, batch_size=8, most=100).values()
    assert [len(batch.value) for batch in batches] == [8, 8, 5]
    rows = np.arange(21)
    whole = Batch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))
    assert equal(whole, naive_batch(game, columns, rows, np.zeros_like(rows)))
    (few,) = holdout_batches(AlphaZero(), game, chunks.holdout, batch_size=8, most=7).values()
    assert few[0].score.tolist() == columns["score"][::3].tolist()


def test_prefetching_changes_nothing_and_ends(tmp_path: Path) -> None:
    import threading

    game = parse_game("tictactoe")
    dataset = dataset_of(game, write_set(tmp_path, game, [40]), 4, 0)
    with prefetched(dataset.batches(2)) as batches:
        assert all(equal(one, other) for one, other in zip(batches, dataset.batches(2), strict=True))
    with prefetched(dataset.batches(1000)) as batches:
        next(batches)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches")]

    def failing():
        yield from dataset.batches(1)
        raise FileError("x.h5", "gone")

    with pytest.raises(FileError, match="gone"), prefetched(failing()) as batches:
        list(batches)


class TestWhole:
    """What prioritised replay and measuring need: examples by their row in the set."""

    def test_rows_count_over_the_chunks_in_order(self, tmp_path: Path) -> None:
        game = parse_game("tictactoe")
        chunks = write_set(tmp_path, game, [20, 5, 11])
        dataset = dataset_of(game, chunks, batch_size=8, seed=0, memory_bytes=math.inf)
        rows, symmetry = np.array([35, 0, 24, 20, 19, 20]), np.array([0, 1, 2, 3, 4, 5])
        weights = np.linspace(0.1, 1, 6).astype(np.float32)
        found = dataset.batch(rows, symmetry, weights)
        parts = [chunk_of(path, game).columns for path in chunks.chunks]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        wanted = make_batch(game, columns, rows, symmetry)._replace(sample_weight=torch.from_numpy(weights))
        assert equal(found, wanted)

    def test_a_set_of_any_size_can_be_held(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        game = parse_game("tictactoe")
        chunks = write_set(tmp_path, game, [20, 5])
        dataset = dataset_of(game, chunks, batch_size=8, seed=0, memory_bytes=math.inf)
        for path in chunks.chunks:
            path.unlink()
        assert len(dataset.batch(np.arange(25), np.zeros(25, np.int64), np.ones(25, np.float32)).value) == 25

    def test_examples_are_numbered_by_where_they_came_from(self, tmp_path: Path) -> None:
        game = parse_game("tictactoe")
        chunks = write_set(tmp_path, game, [20, 5])
        for limit in (1 << 30, 1):
            dataset = dataset_of(game, chunks, batch_size=8, seed=0, memory_bytes=limit)
            parts = [chunk_of(path, game) for path in chunks.chunks]
            wanted = [
                example_numbers(part.shards, *(part.columns[name] for name in ("shard", "game", "ply")))
                for part in parts
            ]
            assert np.array_equal(dataset.examples, np.concatenate(wanted))

    def test_what_was_sampled_for_its_surprise_counts_as_often_as_the_rest(self, tmp_path: Path) -> None:
        """Half of the examples have four times the weight of the others: about a quarter of them is measured."""
        game = parse_game("tictactoe")
        chunks = write_set(tmp_path, game, [1000, 1000])
        for path in chunks.chunks:
            chunk = chunk_of(path, game)
            weights = np.where(np.arange(1000) % 2, 0.5, 2.0).astype(np.float32)
            write_chunk(path, chunk.header, chunk.columns, chunk.shards, weights=weights)
        dataset = dataset_of(game, chunks, batch_size=5000, seed=0)
        found = [score for batch in dataset.uniform(5000) for score in keys_of(batch) if score]
        light = {score for path in chunks.chunks for score in chunk_of(path, game).columns["score"][1::2].tolist()}
        of_light = sum(score in light for score in found)
        assert of_light == sum(score != 0 for score in light) and abs(len(found) / of_light - 1.25) < 0.06
        assert len(dataset.uniform(50)[0].value) == 50

    @pytest.mark.parametrize(("most", "sizes"), [(0, []), (7, [7]), (22, [8, 8, 4, 2]), (99, [8, 8, 4, 5])])
    def test_the_first_are_unchanged(self, tmp_path: Path, most: int, sizes: list[int]) -> None:
        game = parse_game("tictactoe")
        chunks = write_set(tmp_path, game, [20, 5])
        found = dataset_of(game, chunks, batch_size=8, seed=0).uniform(most)
        assert [len(batch.value) for batch in found] == sizes
        scores = np.concatenate([chunk_of(path, game).columns["score"] for path in chunks.chunks])
        assert [score for batch in found for score in keys_of(batch)] == scores[:most].tolist()
        assert all((batch.sample_weight == 1).all() for batch in found)
