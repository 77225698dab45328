"""Tournaments: who plays, that they go on where they stood, and that the ranking of players of known strength comes
out."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.config import TournamentConfig
from pipeline.errors import NotYet, UsageError
from pipeline.players.builtin import HeuristicPlayer, RandomPlayer
from pipeline.progress import Progress
from pipeline.records.matches import list_matches, read_match
from pipeline.records.ratings import read_ratings
from pipeline.stages import contest
from pipeline.stages.pool import pool
from pipeline.stages.tournament import tournament
from tests.stages.helpers import make_champion, make_model


def config_for(tmp_path: Path, **options) -> TournamentConfig:
    settings = {
        "game": "connect4",
        "player": ["random", "heuristic"],
        "output_dir": tmp_path / "data" / "tournament",
        "pool": tmp_path / "data" / "pool.json",
        "games": 16,
        "readouts": 4,
        "opening_plies": 3,
        "pairs_per_round": 4,
        "threads": 2,
        "backend": "torch",
    }
    return TournamentConfig(**(settings | options))


def played(tmp_path: Path) -> dict[str, int]:
    return {
        folder.name: len(read_match(folder).games) for folder in list_matches(tmp_path / "data" / "tournament")
    }


class Mistaken(HeuristicPlayer):
    """The heuristic player, but a share of its moves are random: strength is known by construction."""

    def __init__(self, game, num_rows: int, share: float) -> None:
        super().__init__(game, num_rows)
        self._share = share
        self._fool = RandomPlayer(game, num_rows)
        self._luck = np.random.default_rng(int(share * 100))

    def new_games(self, rows, seeds) -> None:
        super().new_games(rows, seeds)
        self._fool.new_games(rows, seeds)

    def advance(self, rows, actions) -> None:
        super().advance(rows, actions)
        self._fool.advance(rows, actions)

    def begin(self, rows) -> None:
        mistaken = self._luck.random(len(rows)) < self._share
        if mistaken.any():
            self._fool.begin(rows[mistaken])
        super().begin(rows[~mistaken])

    def step(self):
        sensible = super().step()
        return sensible if sensible.rows.size else self._fool.step()


@pytest.mark.parametrize("schedule", ["uncertainty", "round-robin"])
def test_the_ranking_of_players_of_known_strength_comes_out(tmp_path, monkeypatch, schedule):
    shares = {"best": 0.0, "good": 0.25, "fair": 0.5, "poor": 0.75, "worst": 1.0}
    maker = contest.Cast.maker
    monkeypatch.setattr(
        contest.Cast,
        "maker",
        lambda self, seat: (
            (lambda game, rows, lane: Mistaken(game, rows, shares[seat.name]))
            if seat.name in shares
            else maker(self, seat)
        ),
    )
    names = ["fair=heuristic", "worst=heuristic", "best=heuristic", "poor=heuristic", "good=heuristic"]
    config = config_for(tmp_path, player=names, games=600, pairs_per_round=10, schedule=schedule)
    summary = tournament(config)
    assert [row.name for row in summary.rows] == ["best", "good", "fair", "poor", "worst"]
    assert sum(played(tmp_path).values()) == 600
    assert read_ratings(tmp_path / "data" / "ratings.json").players[0].name == "best"


def test_it_goes_on_where_it_stood(tmp_path):
    class Interrupting(Progress):
        left = 5

        def advance(self, count: int = 1) -> None:
            self.left -= count
            if self.left < 0:
                raise KeyboardInterrupt

    config = config_for(tmp_path, parallel_games=2)
    with pytest.raises(KeyboardInterrupt):
        tournament(config, Interrupting())
    before = sum(played(tmp_path).values())
    assert 0 < before < 16
    summary = tournament(config)
    # Games of this run are on top of those there were; one or two that ended at the same time count as well.
    total = sum(played(tmp_path).values())
    assert before + 16 <= total <= before + 18
    assert {row.name for row in summary.rows} == {"random", "heuristic"}
    folder = next(iter(list_matches(config.output_dir)))
    # A round that was cut short was made whole.
    assert [game.index for game in read_match(folder).games][:16] == list(range(16))


def test_models_are_rated_with_their_readouts_and_both_orders_are_one_match(tmp_path):
    models = tmp_path / "saved_models"
    make_champion(models, spec="connect4")
    make_model(models, number=1, spec="connect4", seed=1)
    one, other = str(models / "000000-test"), str(models / "000001-test@2")
    tournament(config_for(tmp_path, game=None, player=[one, other], games=4))
    tournament(config_for(tmp_path, game=None, player=[other, one], games=4))
    assert list(played(tmp_path).values()) == [8]
    assert {row.name for row in tournament(config_for(tmp_path, game=None, player=[one, other], games=2)).rows} == {
        "000000-test@4", "000001-test@2",
    }  # fmt: skip


def test_placing_one_player_plays_only_its_games(tmp_path):
    config = config_for(tmp_path, player=["random", "heuristic", "second=heuristic"], place="new=random", games=32)
    summary = tournament(config)
    assert all("new" in name.split("-vs-") for name in played(tmp_path))
    assert next(row for row in summary.rows if row.name == "new").games == 32


def test_it_stops_when_enough_is_known(tmp_path):
    tournament(config_for(tmp_path, player=["a=random", "b=random"], games=400, until=150.0))
    assert 0 < sum(played(tmp_path).values()) < 400
    known = sum(played(tmp_path).values())
    tournament(config_for(tmp_path, player=["a=random", "b=random"], games=400, until=150.0))
    assert sum(played(tmp_path).values()) == known


def test_the_pool_plays_by_default(tmp_path):
    config = config_for(tmp_path, player=[], games=8)
    with pytest.raises(NotYet, match="0 players; wanted at least two"):
        tournament(config)
    for player in ("random", "heuristic"):
        pool("add", player, config.pool, tmp_path / "data" / "ratings.json")
    assert len(tournament(config).rows) == 2


def test_what_it_refuses(tmp_path):
    with pytest.raises(UsageError, match="even number"):
        tournament(config_for(tmp_path, games=7))
    with pytest.raises(UsageError, match="--game: not given"):
        tournament(config_for(tmp_path, game=None))
    with pytest.raises(UsageError, match="both be rated as x"):
        tournament(config_for(tmp_path, player=["x=random", "x=heuristic"]))
    assert not (tmp_path / "data").exists()
