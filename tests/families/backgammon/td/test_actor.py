"""Self-play: what is played and recorded, that neighbours don't matter, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td.actor import AfterstateActor
from pipeline.families.backgammon.td.expectimax import Expectimax
from pipeline.families.backgammon.td.outcomes import seen_by_other
from pipeline.games.contract import CHANCE
from pipeline.games.replay import replay_one
from pipeline.methods.method import ActorJob, Learner, game_seeds
from pipeline.run.shards import End
from pipeline.selfplay.config import SelfplayConfig
from tests.families.backgammon.boards import random_positions
from tests.families.backgammon.td.helpers import HYPERGAMMON, chances_of, play, small_network
from tests.families.backgammon.td.test_network import BACKGAMMON, network

NET = small_network()


@pytest.mark.parametrize("outputs", [1, 5])
def test_records_are_of_the_games_that_were_played(outputs: int) -> None:
    net = small_network(outputs)
    for finished in play(net, 20):
        record = finished.record
        states = np.concatenate(list(replay_one(HYPERGAMMON, record.moves)))
        assert (states[-1] == finished.final_state).all() and HYPERGAMMON.is_over(states[-1:])[0]
        assert HYPERGAMMON.returns(states[-1:])[0] == record.result_first_player
        who = HYPERGAMMON.to_move(states[:-1]).tolist()
        assert who[0::2] == [CHANCE] * (len(who) // 2) and who[1::2] == [turn % 2 for turn in range(len(who) // 2)]
        # After a move, what the network says; the mover sees the other side of it. The best turn was played.
        said = seen_by_other(net.chances_at(states[2::2]))
        kept = chances_of(record)
        assert kept[:, 1, :outputs] == pytest.approx(said, abs=5e-4) and (kept[:, 0] == kept[:, 1])[:, :outputs].all()
        assert np.isnan(kept[:, :, outputs:]).all()
        assert record.root_values[1::2] == pytest.approx(net.values(said), abs=4e-3)
        for turn in range(len(who) // 2):
            after = HYPERGAMMON.successors(states[2 * turn + 1][None])
            scores = -net.values(net.chances(states[2 * turn + 1][None], after))
            assert scores[record.moves[2 * turn + 1]] == scores.max()


@pytest.mark.parametrize("tactics", [False, True])
def test_outputs_do_not_depend_on_the_batch(tactics: bool) -> None:
    """Not among the tests of kernels: with bounds checked, they are compiled so that the last bit depends on it."""
    net = network(BACKGAMMON, 24, tactics=tactics)
    states = random_positions(BACKGAMMON, 20, 4)[0][:300]
    together = net.chances(states, BACKGAMMON.successors(states))
    apart = [net.chances(one[None], BACKGAMMON.successors(one[None])) for one in states]
    assert (together == np.concatenate(apart)).all()


def test_games_depend_on_their_seeds_alone() -> None:
    for settings in ({}, {"temperature": 0.5}, {"value_plies": 1}):
        wide, narrow = ({one.record.game_id: one.record for one in play(NET, 12, rows, **settings)} for rows in (12, 5))
        assert len(wide) == 12 and set(wide) == set(narrow)
        for game_id, record in wide.items():
            assert (record.moves == narrow[game_id].moves).all()
            assert np.array_equal(record.own["chances"], narrow[game_id].own["chances"], equal_nan=True)


def test_a_temperature_makes_other_turns_be_played() -> None:
    best, warm = (play(NET, 30, 30, temperature=t) for t in (0.0, 2.0))
    values = [np.mean([chances_of(one.record)[0, 1, 0] for one in games]) for games in (best, warm)]
    assert values[1] < values[0]
    first = [{tuple(one.record.moves[:2].tolist()) for one in games} for games in (best, warm)]
    assert len(first[1]) > len(first[0])


def test_value_plies_records_the_mean_over_all_throws() -> None:
    plain, ahead = play(NET, 6), play(NET, 6, value_plies=1)
    search = Expectimax(NET)
    by_id = {one.record.game_id: one.record for one in plain}
    for one in ahead:
        record, other = one.record, by_id[one.record.game_id]
        assert (record.moves == other.moves).all()  # only what is recorded differs
        states = np.concatenate(list(replay_one(HYPERGAMMON, record.moves)))
        kept = chances_of(record)
        assert kept[:, 0] == pytest.approx(search.expected(states[0:-1:2], 1), abs=5e-4)
        assert (kept[:, 1] == chances_of(other)[:, 1]).all()


def test_a_promotion_counts_for_the_next_games() -> None:
    players = [Learner("one", NET), Learner("two", small_network(1))]
    asked, found = [], []

    def current() -> Learner:
        asked.append(1)
        return players[0] if len(asked) <= 3 else players[1]

    seeds = game_seeds(3, iter(range(6)), 0.0)
    AfterstateActor(ActorJob(HYPERGAMMON, 3, SelfplayConfig(), seeds, current, found.append)).run(lambda: False)
    assert sorted(one.player for one in found) == ["one"] * 3 + ["two"] * 3
    for one in found:
        assert np.isnan(chances_of(one.record)[..., 1:]).all() == (one.player == "two")
        states = np.concatenate(list(replay_one(HYPERGAMMON, one.record.moves)))
        net = players[one.player == "two"].evaluate
        said = seen_by_other(net.chances_at(states[2::2]))
        assert chances_of(one.record)[:, 1, : net.outputs] == pytest.approx(said, abs=5e-4)


def test_games_without_end_end_at_the_limit() -> None:
    short = Backgammon("hypergammon")
    short.max_plies = 12
    records = [one.record for one in play(small_network(game=short), 30, game=short)]
    cut = [record for record in records if record.end == End.MOVE_LIMIT]
    assert cut and all(len(record.moves) == 12 and record.result_first_player == 0 for record in cut)
    assert all(record.result_first_player for record in records if record.end == End.PLAYED_OUT)


def test_what_it_refuses() -> None:
    job = ActorJob(HYPERGAMMON, 2, SelfplayConfig(), iter(()), lambda: Learner("x", NET), lambda _: None)
    with pytest.raises(UsageError, match="--opponents: method td plays itself only"):
        AfterstateActor(ActorJob(**{**vars(job), "meet": lambda seed, learner: None}))
    with pytest.raises(UsageError, match=r"--readouts: .* wanted 0"):
        AfterstateActor(ActorJob(**{**vars(job), "config": SelfplayConfig(readouts=2)}))
