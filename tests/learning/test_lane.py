"""Lanes and recording: what a record says is what was played, whoever played beside it."""

import itertools

import numpy as np
import pytest

from pipeline.config import SearchConfig
from pipeline.games.registry import parse_game
from pipeline.learning.lane import Lane, PlaySettings, game_seeds
from pipeline.learning.recording import GameBuffer
from pipeline.records.shards import POLICY_COUNTS, End
from tests.search.helpers import hashed_evaluator, zero_evaluator


class NamedPlayer:
    def __init__(self, name, evaluate):
        self.name = name
        self.evaluate = evaluate


def play(spec, count, rows, evaluate, readouts=8, resign_threshold=-1.0, no_resign_share=0.1, first=0):
    game = parse_game(spec)
    player = NamedPlayer("m", evaluate)
    finished = []
    settings = PlaySettings(SearchConfig(), readouts, 4, resign_threshold)
    seeds = game_seeds(7, iter(range(first, first + count)), no_resign_share)
    lane = Lane(game, rows, settings, seeds, lambda: player, finished.append)
    lane.run(lambda: False)
    assert lane.live == 0
    return finished


def as_bytes(record):
    arrays = (record.moves, record.root_values, record.visit_lengths, record.visit_actions, record.visit_counts)
    return b"".join(array.tobytes() for array in arrays) + bytes(str(record.result_first_player), "ascii")


@pytest.mark.parametrize("spec", ["tictactoe", "connect4", "go:5"])
def test_records_replay_to_their_results(spec):
    game = parse_game(spec)
    for finished in play(spec, 12, 5, hashed_evaluator(game)):
        record = finished.record
        states = game.initial(1)
        history = game.initial_history(states)
        visit = 0
        for ply, move in enumerate(record.moves):
            legal = game.legal(states, history)[0]
            actions = record.visit_actions[visit : visit + record.visit_lengths[ply]]
            counts = record.visit_counts[visit : visit + record.visit_lengths[ply]]
            assert legal[actions].all() and (counts > 0).all() and move in actions
            assert counts.sum() >= 8  # a kept subtree adds to it
            visit += int(record.visit_lengths[ply])
            states = game.play(states, np.array([move], np.int32), history)
            history.append(np.arange(1), game.keys(states))
        assert visit == len(record.visit_actions)
        assert game.is_over(states)[0] and record.end == End.PLAYED_OUT
        assert game.returns(states)[0] == record.result_first_player
        assert (record.flags == POLICY_COUNTS).all()
        assert (np.abs(record.root_values) <= 1).all()
        assert (finished.final_state == states[0]).all()


def test_a_game_is_the_same_whoever_plays_beside_it():
    evaluate = hashed_evaluator(parse_game("go:5"))
    wide = {f.record.game_id: as_bytes(f.record) for f in play("go:5", 12, 12, evaluate)}
    narrow = {f.record.game_id: as_bytes(f.record) for f in play("go:5", 12, 3, evaluate)}
    part = {f.record.game_id: as_bytes(f.record) for f in play("go:5", 4, 2, evaluate, first=5)}
    assert len(wide) == 12 and wide == narrow
    assert part.items() <= wide.items()
    assert len(set(wide.values())) > 6  # the games themselves differ


def test_without_readouts_the_raw_policys_own_move_is_the_target():
    for finished in play("connect4", 6, 6, hashed_evaluator(parse_game("connect4")), readouts=0):
        record = finished.record
        assert (record.visit_lengths == 1).all() and (record.visit_counts == 1).all()
        assert (record.visit_actions == record.moves).all()


def test_a_new_model_plays_the_next_games_and_old_games_keep_theirs():
    game = parse_game("tictactoe")
    asked = {"old": 0, "new": 0}

    def player(name, seed):
        evaluate = hashed_evaluator(game, seed)

        def counted(planes):
            asked[name] += len(planes)
            return evaluate(planes)

        return NamedPlayer(name, counted)

    old, new = player("old", 1), player("new", 2)
    finished = []
    settings = PlaySettings(SearchConfig(), 10, 4, -1.0)
    current = [old]
    lane = Lane(game, 4, settings, game_seeds(7, iter(range(20)), 0.0), lambda: current[0], finished.append)
    while len(finished) < 6:
        lane.step()
    started_by_old = len(finished) + lane.live
    current[0] = new
    before = asked["new"]
    lane.run(lambda: False)
    by_old = [f for f in finished if f.player == "old"]
    assert before == 0 and asked["new"] > 0
    assert len(by_old) == started_by_old and len(finished) == 20
    # and the old games are what they would have been without the change
    calm = {f.record.game_id: as_bytes(f.record) for f in play_with(game, settings, player("old", 1))}
    assert all(calm[f.record.game_id] == as_bytes(f.record) for f in by_old)


def play_with(game, settings, player):
    finished = []
    Lane(game, 4, settings, game_seeds(7, iter(range(20)), 0.0), lambda: player, finished.append).run(lambda: False)
    return finished


def always_lost(game):
    """Every position is lost for whoever is to move: the first player gives up first."""

    def evaluate(planes):
        return np.zeros((len(planes), game.num_actions), np.float32), np.full(len(planes), -0.99, np.float32)

    return evaluate


def test_resignation_needs_two_lost_moves_and_gives_the_game_to_the_other():
    game = parse_game("go:9")
    for finished in play("go:9", 4, 4, always_lost(game), readouts=0, resign_threshold=-0.9, no_resign_share=0.0):
        assert finished.record.end == End.RESIGNED
        assert len(finished.record.moves) == 2  # the first player's second look at a lost game
        assert finished.record.result_first_player == -1.0


def test_games_that_never_resign_say_who_would_have():
    game = parse_game("tictactoe")
    games = play("tictactoe", 30, 10, always_lost(game), readouts=0, resign_threshold=-0.9, no_resign_share=1.0)
    assert all(f.record.end == End.PLAYED_OUT and f.record.no_resign for f in games)
    assert {f.would_have_resigned for f in games} == {0}
    assert len({f.record.result_first_player for f in games}) > 1  # so some of those resignations were false


def test_calm_values_never_resign():
    games = play("tictactoe", 10, 10, zero_evaluator(parse_game("tictactoe")), readouts=4, resign_threshold=-0.9)
    assert all(f.record.end == End.PLAYED_OUT and f.would_have_resigned == -1 for f in games)


def test_the_share_of_games_that_never_resign():
    seeds = list(itertools.islice(game_seeds(3, itertools.count(), 0.25), 4000))
    assert abs(np.mean([seed.no_resign for seed in seeds]) - 0.25) < 0.03
    assert len({seed.stream for seed in seeds}) == len({seed.game_id for seed in seeds}) == 4000


def test_the_buffer_gives_back_what_was_added():
    buffer = GameBuffer(3, 10, -1.0)
    buffer.start(1, 42, True)
    buffer.start(2, 43, False)
    visits = np.array([[0, 3, 0, 5], [2, 0, 0, 0]], np.int32)
    buffer.add(np.array([1, 2]), np.array([3, 0], np.int32), visits, np.array([0.5, -0.25], np.float32))
    buffer.add(np.array([1]), np.array([1], np.int32), np.array([[0, 7, 0, 0]]), np.array([0.125], np.float32))
    record = buffer.finish(1, -1.0, End.RESIGNED)
    assert record.moves.tolist() == [3, 1] and record.root_values.tolist() == [0.5, 0.125]
    assert record.visit_lengths.tolist() == [2, 1]
    assert record.visit_actions.tolist() == [1, 3, 1] and record.visit_counts.tolist() == [3, 5, 7]
    assert (record.game_id, record.no_resign, record.end) == (42, True, End.RESIGNED)
