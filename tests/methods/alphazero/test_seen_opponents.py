"""Networks that see which side meets a player that isn't a learner: consistent in self-play, labels and matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.gomoku import kernels
from pipeline.games.capabilities import SeesOpponents, beginning
from pipeline.games.contract import History
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import Positions, make_examples
from pipeline.players.searching import SearchPlayer
from pipeline.reports.show import show
from pipeline.reports.show_as import csv_lines
from pipeline.run.shards import BOTH, DRAWN, NO_VALUE, POLICY_COUNTS, SEARCHED, read_shard
from pipeline.search.options import SearchOptions
from tests.helpers import make_model
from tests.matches.test_runner import play
from tests.methods.alphazero.test_actor import meeting, play_against, random_opponent, searching
from tests.methods.alphazero.test_examples import unpacked
from tests.run.random_games import write_shard
from tests.search.helpers import hashed_evaluator

SPEC = "gomoku:9,opponents"
GAME = parse_game(SPEC)
MEETS, DOESNT_LEARN = -2, -1  # planes


def observed(states):
    history = History.empty(len(states), 1)
    return GAME.observe(states, GAME.legal(states, history))


def test_the_planes_of_every_setup() -> None:
    states = GAME.begin(np.array([0, 1, 2]))
    for ply, wanted in enumerate(([0, 0], [1, 0], [0, 1]), start=0):  # of setups 0, 1, 2 where the first player moves
        assert observed(states)[ply, [MEETS, DOESNT_LEARN]].reshape(2, -1).mean(axis=1).tolist() == wanted
    after = GAME.play(states, np.array([40, 41, 42], np.int32), History.empty(3, 1))
    for row, wanted in enumerate(([0, 0], [0, 1], [1, 0])):
        assert observed(after)[row, [MEETS, DOESNT_LEARN]].reshape(2, -1).mean(axis=1).tolist() == wanted
    plain = parse_game("gomoku:9")
    assert GAME.sgf == plain.sgf  # the rules are the same
    assert plain.num_planes == GAME.num_planes - 2 and plain.spec != GAME.spec and not isinstance(plain, SeesOpponents)
    states[:, GAME.num_points + kernels.MET] = 0
    assert (observed(states)[:, :MEETS] == plain.observe(states, plain.legal(states, History.empty(3, 1)))).all()


def test_setups_that_nobody_knows() -> None:
    for game, setup in ((GAME, 3), (GAME, -1), (parse_game("gomoku:9"), 1)):
        with pytest.raises(IllegalMove, match=f"setup {setup}"):
            beginning(game, np.array([0, setup]))


def test_games_of_every_setup_are_shown(tmp_path) -> None:
    """Setups are valid records: the rules are the same in each."""
    opponents = meeting(random_opponent(), replace(searching(GAME), learns=True), None)
    records = [f.record for f in play_against(SPEC, opponents, 6, readouts=4, random_plies=3)]
    assert {record.setup for record in records} >= {1, 2}
    path = write_shard(tmp_path, "000001-a", "w00", SPEC, records, {})
    rows = list(csv_lines(tmp_path))
    assert len(rows) == 1 + sum(len(record.moves) for record in records)
    for index in range(len(records)):
        assert "damaged" not in "\n".join(show(path, index))


def test_who_sees_whom() -> None:
    plain, captures = parse_game("gomoku:9"), parse_game("gomoku:9,capture,opponents")
    assert GAME.as_seen(plain) is GAME and plain.as_seen(GAME) is plain
    assert captures.as_seen(GAME) is None and GAME.as_seen(parse_game("gomoku:10")) is None
    assert GAME.as_seen(parse_game("tictactoe")) is None


def test_labels_of_games_against_one_who_doesnt_learn(tmp_path) -> None:
    """Replayed by hand: who sees which plane, whose result the value is, and that only moves of the one who doesn't
    learn, the opening's random ones excepted, are learned as they were played.
    """
    opponents = meeting(random_opponent(), replace(searching(GAME), learns=True), None)
    records = [f.record for f in play_against(SPEC, opponents, 18, readouts=4, random_plies=3)]
    assert {record.opponent for record in records} == {"random", "old", None}
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", SPEC, records, {}))
    plies = [(index, ply) for index, record in enumerate(records) for ply in range(len(record.moves))]
    which, ply = np.array(plies).T
    columns = make_examples(GAME, [shard], Positions(np.zeros_like(which), which, ply))
    planes = unpacked(GAME, columns["planes"])
    copied = drawn = 0
    for row, (index, at) in enumerate(plies):
        record, mover = records[index], at % 2
        told = record.opponent == "random"
        assert record.setup == (record.learner + 1 if told else 0)
        assert (planes[row, MEETS] == (told and mover == record.learner)).all()
        assert (planes[row, DOESNT_LEARN] == (told and mover != record.learner)).all()
        assert columns["value"][row] == record.result_first_player * (1 if mover == 0 else -1)
        is_drawn = bool(record.flags[at] & DRAWN)
        learns = told and mover != record.learner and not is_drawn
        assert columns["policy_weight"][row] == bool(record.flags[at] & POLICY_COUNTS)
        if learns:
            assert record.flags[at] & SEARCHED  # so that it is sampled with --searched-only, too
            assert columns["policy"][row].argmax() == record.moves[at] and columns["policy"][row].sum() == 1
        copied, drawn = copied + learns, drawn + is_drawn
    assert copied > 20 and drawn > 5


def test_a_games_random_opening_is_marked() -> None:
    for finished in play_against("tictactoe", meeting(None), 12, random_plies=3):
        drawn = finished.record.flags & DRAWN != 0
        assert finished.record.learner == BOTH
        assert (drawn[: drawn.sum()]).all() and drawn.sum() <= 3  # nothing but its beginning
        assert (finished.record.flags[drawn] == DRAWN | NO_VALUE).all()


@pytest.mark.parametrize("side", [0, 1])
def test_a_player_is_told_on_whichever_side_it_is(side) -> None:
    seen = []

    def evaluate(planes):
        seen.append(planes[:, MEETS:, 0, 0].copy())
        return hashed_evaluator(GAME)(planes)

    player = SearchPlayer(GAME, 2, evaluate, SearchOptions(noise_weight=0.0), 8)
    player.meets_fixed = True
    rows = np.arange(2)
    player.new_games(rows, np.array([1, 2], np.uint64))
    for ply in range(6):
        if ply % 2 == side:
            seen.clear()
            player.begin(rows)
            while len(player.step().rows) < 2:
                pass
            assert (seen[0] == [1, 0]).all() or ply > 1  # the root, which later moves find evaluated
            told = np.concatenate(seen)
            assert (told.sum(axis=1) == 1).all()  # everywhere in the tree one of the two is to move
        player.advance(rows, np.array([ply, 80 - ply], np.int32))
    assert (player.search.states[:, GAME.num_points + kernels.MET] == side + 1).all()


def test_in_matches_models_are_told_of_players_that_dont_learn(tmp_path, monkeypatch) -> None:
    told = {}
    begin = SearchPlayer.begin

    def noting(self, rows) -> None:
        told[id(self)] = self.meets_fixed
        begin(self, rows)

    monkeypatch.setattr(SearchPlayer, "begin", noting)
    one, other = (str(make_model(tmp_path / name, spec=spec)) for name, spec in (("a", SPEC), ("b", "gomoku:9")))
    play(tmp_path / "m1", [f"one={one}", "random"], 2, game="gomoku:9", threads=1, readouts=4)
    assert set(told.values()) == {True}
    told.clear()
    play(tmp_path / "m2", [f"one={one}", f"other={other}"], 2, game="gomoku:9", threads=1, readouts=4)
    assert set(told.values()) == {False}
    told.clear()
    play(tmp_path / "m3", [f"other={other}", "random"], 2, game="gomoku:9", threads=1, readouts=4)
    assert set(told.values()) == {False}  # it sees no such plane
