"""Boards and komi of self-play's games: sampled in the shares asked for, by a game's own seed, in any thread."""

import itertools
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.method import Actor, ActorJob, FinishedGame, GameSeed, game_seeds
from pipeline.run.shards import GameRecord, newest_shards, read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.playing import GameThreads, Plan
from pipeline.selfplay.variety import Dealer, GamesOn, Variety
from tests.helpers import make_model

HOME = parse_game("go:any,komi=7")


def seeds_of(count: int) -> list[GameSeed]:
    return list(game_seeds(5, iter(range(count)), 0.1))


def test_shares_and_komi() -> None:
    variety = Variety.of(SelfplayConfig(boards="7=1,9=4,13=2.5", komi_spread=3), HOME)
    assert [game.spec for game in variety.games] == ["go:any,size=7,komi=7", "go:any,komi=7", "go:any,size=13,komi=7"]
    seeds = seeds_of(20_000)
    counts = np.bincount([variety.board_of(seed) for seed in seeds], minlength=3) / len(seeds)
    np.testing.assert_allclose(counts, np.array([1, 4, 2.5]) / 7.5, atol=0.015)
    points = np.array([variety.with_setup(seed, 1).setup for seed in seeds]) / 2
    assert abs(points.mean()) < 0.1 and abs(points.std() - 3) < 0.1 and np.abs(points).max() <= 15
    assert len(np.unique(points)) > 25 and (points % 1 == 0.5).any()


def test_without_options_the_model_plays_its_own_board() -> None:
    variety = Variety.of(SelfplayConfig(), parse_game("gomoku:9"))
    assert [game.spec for game in variety.games] == ["gomoku:9"] and variety.rows(37) == [37]
    assert all(variety.with_setup(seed, 0) is seed for seed in seeds_of(5))


def test_some_games_have_the_komi_that_makes_their_board_even() -> None:
    variety = Variety.of(SelfplayConfig(boards="9=1,19=1", komi_spread=1.5, fair_komi_fraction=0.75), HOME)
    usual = np.array([variety.with_setup(seed, 1).setup for seed in seeds_of(8000)]) / 2
    assert abs(usual.mean()) < 0.1  # before any game has ended
    variety.fair_setups = {"go:any,komi=7": 2, "go:any,size=19,komi=7": 24}
    for board, fair in enumerate((1.0, 12.0)):
        points = np.array([variety.with_setup(seed, board).setup for seed in seeds_of(8000)]) / 2
        assert abs(points.mean() - 0.75 * fair) < 0.15
        if board:
            nearer = np.abs(points - fair) < fair / 2
            assert abs(nearer.mean() - 0.75) < 0.02
            assert abs(points[nearer].mean() - fair) < 0.1 and abs(points[~nearer].mean()) < 0.1
            np.testing.assert_allclose([points[nearer].std(), points[~nearer].std()], 1.5, atol=0.1)


def test_komi_decides_no_game_alone() -> None:
    """Beyond all points of the board it would; komi of the spread adds to a fair one."""
    variety = Variety.of(SelfplayConfig(boards="5=1,19=1", komi_spread=15, fair_komi_fraction=1), HOME)
    variety.fair_setups = {game.spec: 60 for game in variety.games}
    small, large = (np.array([variety.with_setup(seed, board).setup for seed in seeds_of(4000)]) for board in (0, 1))
    assert small.max() == 2 * (25 - 7) and large.max() == 60 + 30 and large.min() == 60 - 30


def test_every_game_is_dealt_once() -> None:
    variety = Variety.of(SelfplayConfig(boards="7=3,9=1"), HOME)
    games = iter(seeds_of(200))
    dealer = Dealer(lambda: next(games, None), variety)
    hands = [GamesOn(dealer, board) for board in (0, 1)]
    dealt: list[list[int]] = [[], []]
    turns = np.random.default_rng(1).integers(0, 2, 600)
    for board in turns:
        found = next(hands[board], None)
        if found is not None:
            assert variety.board_of(found) == board
            dealt[board].append(found.number)
    assert sorted([*dealt[0], *dealt[1]]) == list(range(200)) and all(hand == sorted(hand) for hand in dealt)


def threads_of(config: SelfplayConfig, actor: type[Actor], rows: int) -> GameThreads:
    """One thread of such actors."""
    method: Any = SimpleNamespace(actor=actor)
    source: Any = SimpleNamespace(player=lambda thread: None)
    return GameThreads(Plan(config, HOME, method, rows=rows), source, None, lambda: 0)


class OneMove(Actor):
    """Plays one game of one move, or none if there was none when it was made."""

    def __init__(self, job: ActorJob) -> None:
        self._job, self._seed = job, next(job.seeds, None)
        self.live = int(self._seed is not None)

    def step(self) -> None:
        assert self._seed is not None
        record = GameRecord(game_id=self._seed.game_id, moves=np.array([0]), result_first_player=0.0)
        self.live = 0
        self._job.on_finished(FinishedGame(record, "x", -1, np.zeros(1, np.int16)))


def test_a_game_dealt_to_a_board_that_had_found_none_is_played() -> None:
    """It comes after the first board has asked: the second board takes it and deals it to the first one."""
    threads = threads_of(SelfplayConfig(boards="7=1,9=1", seed=1), OneMove, 1)
    variety = threads._plan.variety
    number = next(number for number in range(100) if variety.board_of(threads.seed_of(number)) == 0)
    (games,), asked = threads.queues, itertools.count()
    take = games.take
    games.take = lambda most: take(most) if next(asked) else []  # type: ignore[method-assign]
    threads.give([number])
    found = []
    while not found:
        found += threads.outcomes(5.0)
    threads.close()
    assert [(played.number, played.game) for played in found] == [(number, variety.games[0])]


class OfOneLength(Actor):
    """Its games take a step for every eight points of the board, and start at different times."""

    def __init__(self, job: ActorJob) -> None:
        self._job, self._length = job, job.game.num_points // 8
        self._rows: list[list[int]] = []  # the game, and the steps that are left
        for row in range(job.num_rows):
            self._begin(self._length * (row + 1) // job.num_rows)

    def step(self) -> None:
        for row in self._rows:
            row[1] -= 1
        ended = [game for game, left in self._rows if left <= 0]
        self._rows = [row for row in self._rows if row[1] > 0]
        for game in ended:
            record = GameRecord(game_id=game, moves=np.array([0]), result_first_player=0.0)
            self._job.on_finished(FinishedGame(record, "x", -1, np.zeros(1, np.int16)))
            self._begin(self._length)

    def _begin(self, steps: int) -> None:
        if (seed := next(self._job.seeds, None)) is not None:
            self._rows.append([seed.game_id, steps])
        self.live = len(self._rows)


def test_a_run_that_is_cut_off_has_the_shares_too() -> None:
    """Although one board has far more rows than its share of the work, and another one fewer."""
    threads = threads_of(SelfplayConfig(boards="7=4,9=160,11=6,13=30", seed=1), OfOneLength, 16)
    variety = threads._plan.variety
    assert variety.rows(16) == [1, 12, 1, 4]  # the work asks for 0.2, 10.9, 0.6 and 4.3
    threads.give(range(1_000_000))
    found: list[str] = []
    while len(found) < 1500:
        found += [played.game.spec for played in threads.outcomes(5.0)]
    threads.close()
    shares = [found.count(game.spec) / len(found) for game in variety.games]
    drawn = [variety.board_of(seed) for seed in game_seeds(1, iter(range(1500)), 0.0)]
    np.testing.assert_allclose(shares, np.bincount(drawn, minlength=4) / 1500, atol=0.01)


class FromTheStart(OfOneLength):
    """All of them begin at once."""

    steps_made: ClassVar[list[int]] = []  # the points of the board of each step

    def __init__(self, job: ActorJob) -> None:
        super().__init__(job)
        for row in self._rows:
            row[1] = self._length

    def step(self) -> None:
        super().step()
        self.steps_made.append(self._job.game.num_points)


def test_long_games_go_on_from_the_start() -> None:
    """Filling the rows of 19×19 deals many games of 9×9, which it doesn't wait for."""
    threads = threads_of(SelfplayConfig(boards="9=9,19=2", seed=1), FromTheStart, 64)
    threads.give(range(1_000_000))
    found: list[str] = []
    while len(found) < 2000:
        found += [played.game.spec for played in threads.outcomes(5.0)]
    threads.close()
    steps = FromTheStart.steps_made
    assert steps[:80].count(361) == 40, "both boards take turns until the first long games end"
    assert 0.12 < found.count("go:any,size=19,komi=7") / len(found) < 2 / 11


def test_rows_follow_the_work() -> None:
    rows = Variety.of(SelfplayConfig(boards="7=1,19=1"), HOME).rows(128)
    assert rows[1] == 96 or (rows[1] == 128 and rows[0] <= 24)


@pytest.mark.parametrize(
    ("options", "game", "found"),
    [
        ({"boards": "9=1"}, "go:9", "--boards 9=1: go:9 is played on one board; leave it out"),
        ({"boards": "4=1"}, "go:any", "5 to 19"),
        ({"boards": "9=0"}, "go:any", "SIZE=SHARE"),
        ({"boards": "9=x"}, "go:any", "SIZE=SHARE"),
        ({"boards": "nine"}, "go:any", "SIZE=SHARE"),
        ({"boards": "9=1,"}, "go:any", "SIZE=SHARE"),
        ({"boards": "9=1,9=2"}, "go:any", "listed twice"),
        ({"komi_spread": 2}, "go:9", "don't see komi"),
        ({"komi_spread": 2}, "gomoku:9", "don't see komi"),
        ({"komi_spread": 2}, "gomoku:any", "--komi-spread: networks of gomoku:any don't see komi"),
        ({"fair_komi_fraction": 0.5}, "go:9", "--fair-komi-fraction: networks of go:9 don't see komi"),
        ({"boards": "9=1,20=1"}, "gomoku:any", "found size 20; wanted 9 to 19"),
    ],
)
def test_what_cannot_be_played(options, game, found) -> None:
    with pytest.raises(UsageError, match=found):
        Variety.of(SelfplayConfig(**options), parse_game(game))


def played(folder, model, threads):
    config = SelfplayConfig(
        network=model, output_dir=folder, games=14, readouts=2, boards="5=2,6=1", komi_spread=4, parallel_games=6,
        threads=threads, seed=3, backend="torch", temperature_plies=4,
    )  # fmt: skip
    summary = selfplay(config)
    assert summary.games == 14
    games = {}
    for meta in newest_shards(folder):
        shard = read_shard(meta.path, meta)
        for index in range(shard.num_games):
            record = shard.game(index)
            games[record.game_id] = (shard.game_spec, record.setup, record.moves[:2].tolist())
    return games


def test_games_are_the_same_in_one_thread_and_in_two(tmp_path) -> None:
    """The same boards and komi; later moves may differ by rounding."""
    model = make_model(tmp_path / "saved_models", spec="go:any", size="b1c8")
    one, two = (played(tmp_path / str(threads), model, threads) for threads in (1, 2))
    assert len(one) == 14 and {spec for spec, _, _ in one.values()} == {"go:any,size=5", "go:any,size=6"}
    assert {game: facts[:2] for game, facts in one.items()} == {game: facts[:2] for game, facts in two.items()}
    assert len({setup for _, setup, _ in one.values()}) > 5
