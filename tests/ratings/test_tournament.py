"""Tournaments: who plays, resuming, and the ranking of players of known strength."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.matches import runner
from pipeline.players import builtin
from pipeline.players.builtin import HeuristicPlayer, RandomPlayer
from pipeline.progress import Progress
from pipeline.ratings import tournament as stage
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.pool import pool
from pipeline.ratings.tournament import tournament
from pipeline.run import matches
from pipeline.run.matches import list_matches, match_lock, read_match
from pipeline.run.ratings import read_ratings
from tests.helpers import Heard, make_champion, make_model
from tests.matches.helpers import Spoilt, seed_of_game


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
    return {folder.name: len(read_match(folder).games) for folder in list_matches(tmp_path / "data" / "tournament")}


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


@pytest.mark.parametrize("matchmaking", ["uncertainty", "round-robin"])
def test_the_ranking_of_players_of_known_strength_comes_out(tmp_path, monkeypatch, matchmaking):
    shares = {"best": 0.0, "good": 0.25, "fair": 0.5, "poor": 0.75, "worst": 1.0}
    maker = runner.PlayerFactory.maker
    monkeypatch.setattr(
        runner.PlayerFactory,
        "maker",
        lambda self, entrant, other: (
            (lambda game, rows, thread: Mistaken(game, rows, shares[entrant.name]))
            if entrant.name in shares
            else maker(self, entrant)
        ),
    )
    names = ["fair=heuristic", "worst=heuristic", "best=heuristic", "poor=heuristic", "good=heuristic"]
    config = config_for(tmp_path, player=names, games=600, pairs_per_round=10, matchmaking=matchmaking)
    summary = tournament(config)
    assert [row.name for row in summary.rows] == ["best", "good", "fair", "poor", "worst"]
    assert sum(played(tmp_path).values()) == 600
    assert read_ratings(tmp_path / "data" / "ratings.json").players[0].name == "best"


def test_it_goes_on_where_it_stood(tmp_path):
    class Interrupting(Progress):
        remaining = 5

        def advance(self, count: int = 1) -> None:
            self.remaining -= count
            if self.remaining < 0:
                raise KeyboardInterrupt

    config = config_for(tmp_path, parallel_games=2, threads=1)  # two games in step: the first ones are over by then
    with pytest.raises(KeyboardInterrupt):
        tournament(config, Interrupting())
    before = sum(played(tmp_path).values())
    assert 0 < before < 16
    # The whole pairs are rated already. Of the later games only fast ones have ended.
    (match,) = map(read_match, list_matches(config.output_dir))
    gap = next(number for number in range(16) if number not in {game.index for game in match.games})
    assert read_ratings(tmp_path / "data" / "ratings.json").games == gap // 2 * 2 <= before
    summary = tournament(config)
    assert sum(played(tmp_path).values()) == summary.games == 16
    assert {row.name for row in summary.rows} == {"random", "heuristic"}
    folder = next(iter(list_matches(config.output_dir)))
    # A round that was cut short was made whole.
    assert [game.index for game in read_match(folder).games] == list(range(16))


def test_no_game_is_read_twice_to_find_out_who_meets_next(tmp_path, monkeypatch):
    """Nor to go on with its match, nor to rate them at the end."""
    lines: list[bytes] = []
    take = matches.MatchLines.take
    monkeypatch.setattr(matches.MatchLines, "take", lambda self, line: (lines.append(line), take(self, line))[1])
    players = ["random", "heuristic", "other=random"]
    summary = tournament(config_for(tmp_path, player=players, games=48, pairs_per_round=2))
    assert summary.games == 48
    assert sum(line.startswith(b'{"index"') for line in lines) == 48


@pytest.mark.parametrize("matchmaking", ["uncertainty", "round-robin"])
def test_games_are_those_of_these_players_in_all(tmp_path, matchmaking):
    names = ["a=random", "b=random", "c=random"]
    config = config_for(tmp_path, player=names, games=12, pairs_per_round=2, matchmaking=matchmaking)
    tournament(config)
    before = played(tmp_path)
    assert sum(before.values()) == 12
    tournament(config)
    assert played(tmp_path) == before  # a finished one plays nothing
    tournament(config.model_copy(update={"player": names[:2], "games": before.get("a-vs-b", 0) + 2}))
    assert played(tmp_path) == {**before, "a-vs-b": before.get("a-vs-b", 0) + 2}
    # Games of others among themselves don't count for the one to be placed.
    tournament(config.model_copy(update={"place": "d=random", "games": 6}))
    assert sum(games for name, games in played(tmp_path).items() if "d" in name.split("-vs-")) == 6


def test_rounds_that_were_cut_short_come_first(tmp_path):
    """However the next pair would have been chosen."""
    config = config_for(tmp_path, player=["a=random", "b=random", "c=random"], games=24, pairs_per_round=4)
    tournament(config)
    for folder in list_matches(config.output_dir):
        lines = (folder / "games.jsonl").read_text().splitlines()
        (folder / "games.jsonl").write_text("\n".join(lines[:-3]) + "\n")
    tournament(config)
    assert sum(played(tmp_path).values()) == 24
    for folder in list_matches(config.output_dir):
        match = read_match(folder)
        assert len(match.games) == match.num_games


def test_games_that_always_fail_take_no_room_of_later_ones(tmp_path, monkeypatch):
    seeds = {seed_of_game(0, index, 0) for index in (0, 1, 2, 4)}
    monkeypatch.setitem(builtin.BUILT_INS, "random", lambda game, rows: Spoilt(game, rows, "fault", seeds))
    tournament(config_for(tmp_path, games=12, pairs_per_round=2))
    assert sum(played(tmp_path).values()) == 12
    heard = Heard()
    tournament(config_for(tmp_path, games=16, pairs_per_round=2), heard)
    assert sum(played(tmp_path).values()) == 16  # though the games that the first run left fail again
    assert not any("stopping here" in text for text in heard.warned)


def test_an_interrupt_is_never_hidden(tmp_path, monkeypatch):
    def fail(*args, **options):
        raise FileError("data/ratings.json", "the disk is full")

    def interrupt(*args):
        raise KeyboardInterrupt

    heard = Heard()
    monkeypatch.setattr(stage, "rate_and_write", fail)
    monkeypatch.setattr(stage, "_round", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tournament(config_for(tmp_path), heard)
    assert heard.warned == ["the ratings were not written: data/ratings.json: the disk is full"]


def test_a_tournament_is_played_by_one_process(tmp_path):
    config = config_for(tmp_path)
    with match_lock(config.output_dir), pytest.raises(NotYet, match="another process plays this tournament") as raised:
        tournament(config)
    assert raised.value.exit_code == 75
    assert str(config.output_dir) in str(raised.value)
    assert played(tmp_path) == {}
    tournament(config)
    assert sum(played(tmp_path).values()) == 16


def test_models_are_rated_with_their_readouts_and_both_orders_are_one_match(tmp_path):
    models = tmp_path / "saved_models"
    make_champion(models, spec="connect4")
    make_model(models, number=1, spec="connect4", seed=1)
    one, other = str(models / "000000-test"), str(models / "000001-test@2")
    tournament(config_for(tmp_path, game=None, player=[one, other], games=4))
    tournament(config_for(tmp_path, game=None, player=[other, one], games=8))
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
    heard = Heard()
    tournament(config_for(tmp_path, player=["a=random", "b=random"], games=400, until=150.0), heard)
    assert sum(played(tmp_path).values()) == known
    assert "the ratings of these players are known to +-150 Elo relative to the mean of these 2 players" in heard.said


def test_the_table_prints_the_errors_that_end_it(tmp_path):
    """Also where others, hardly known, are rated in the same folder."""
    tournament(config_for(tmp_path, player=["a=random", "b=random", "x=random"], games=6, pairs_per_round=1))
    config = config_for(tmp_path, player=["a=random", "b=random", "c=random"], games=800, until=120.0)
    summary = tournament(config)
    assert sum(played(tmp_path).values()) < 800
    assert sorted(row.name for row in summary.rows) == ["a", "b", "c"]
    assert 90 < max(row.error for row in summary.rows) <= 120
    others = read_ratings(tmp_path / "data" / "ratings.json").by_name
    assert summary.left_out == len(others) - 3 > 0
    assert max(others[name].bradley_terry_error for name in "abc") != max(row.error for row in summary.rows)
    heard = Heard()
    tournament(config.model_copy(update={"place": "a=random"}), heard)
    assert heard.said[-1] == "the rating of a is known to +-120 Elo relative to the mean of these 3 players"


def test_the_pool_plays_by_default(tmp_path):
    config = config_for(tmp_path, player=[], games=8)
    with pytest.raises(NotYet, match="0 players; wanted at least two"):
        tournament(config)
    for player in ("random", "heuristic"):
        pool("add", player, config.pool, tmp_path / "data" / "ratings.json")
    assert len(tournament(config).rows) == 2


def test_those_who_take_handicap_stones_do_not_meet(tmp_path):
    two, three = "two=handicap:2:random", "three=handicap:3:random"
    config = config_for(tmp_path, player=["random", two, three], game="go:7", games=8, pairs_per_round=1)
    tournament(config)
    assert sum(played(tmp_path).values()) == 8 and played(tmp_path).keys() == {"random-vs-two-h2", "random-vs-three-h3"}
    with pytest.raises(UsageError, match="two-h2 and three-h3 all take handicap stones, so no two can meet"):
        tournament(config.model_copy(update={"player": [two, three]}))


def test_matches_of_another_game_are_told_before_anything_is_played(tmp_path):
    tournament(config_for(tmp_path, games=2))
    before = played(tmp_path)
    heard = Heard()
    with pytest.raises(UsageError, match=r"is rated with it, but its game is connect4, not tictactoe; wanted"):
        tournament(config_for(tmp_path, games=4, game="tictactoe"), heard)
    assert played(tmp_path) == before and not heard.warned
    elsewhere = tmp_path / "other" / "tournament"
    assert tournament(config_for(tmp_path, games=4, game="tictactoe", output_dir=elsewhere)).games == 4


def test_what_it_refuses(tmp_path):
    with pytest.raises(UsageError, match="--game: not given"):
        tournament(config_for(tmp_path, game=None))
    with pytest.raises(UsageError, match="both be rated as x"):
        tournament(config_for(tmp_path, player=["x=random", "x=heuristic"]))
    with pytest.raises(UsageError, match="--against 2: wanted --place"):
        tournament(config_for(tmp_path, against=2))
    heard = Heard()
    with pytest.raises(UsageError, match="only random would play; wanted at least two different players"):
        tournament(config_for(tmp_path, player=["random", "random"]), heard)
    assert heard.said == ["random and random are one player, random: it plays once"]
    assert not (tmp_path / "data").exists()


def test_a_member_of_the_pool_that_plays_another_game_is_named(tmp_path):
    model = make_model(tmp_path / "saved_models", number=1, spec="tictactoe")
    config = config_for(tmp_path, player=[])
    for player in ("random", "heuristic", f"m@4={model}"):
        pool("add", player, config.pool, tmp_path / "data" / "ratings.json")
    for options in ({}, {"game": None, "place": str(make_model(tmp_path / "saved_models", number=2, spec="connect4"))}):
        with pytest.raises(FileError, match=r"it plays tictactoe.*`python main.py pool remove m@4`") as raised:
            tournament(config.model_copy(update=options))
        assert raised.value.path == config.pool
    with pytest.raises(UsageError, match="unknown name 'nonsense'"):  # which is no member's fault
        tournament(config.model_copy(update={"game": "nonsense"}))
    (model / "model.json").unlink()
    with pytest.raises(FileError, match=r"member m@4 can't play.*pool remove m@4"):
        tournament(config)


def test_an_engine_of_the_pool_is_run_only_if_the_command_line_allows_it(tmp_path):
    ran = tmp_path / "ran"
    pool("add", f"evil=gtp:touch {ran}", tmp_path / "data" / "pool.json", tmp_path / "data" / "ratings.json")
    pool("add", "random", tmp_path / "data" / "pool.json", tmp_path / "data" / "ratings.json")
    config = config_for(tmp_path, player=[], game="go:5", games=2, workers=0)
    with pytest.raises(UsageError, match=r"member evil of .*pool\.json is an engine.*--allow-engines"):
        tournament(config)
    assert not ran.exists()
    with pytest.raises(MuGoError):  # it speaks no GTP
        tournament(config.model_copy(update={"allow_engines": True}))
    assert ran.exists()


def test_an_engine_of_the_command_line_needs_no_permission(tmp_path):
    ran = tmp_path / "ran"
    with pytest.raises(MuGoError):
        tournament(config_for(tmp_path, player=["random", f"gtp:touch {ran}"], game="go:5", games=2))
    assert ran.exists()
