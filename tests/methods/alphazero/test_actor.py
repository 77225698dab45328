"""Actors and game records: a record says what was played, independent of the other games."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import rel_entr

from pipeline.errors import FileError, MuGoError
from pipeline.games.specs import parse_game
from pipeline.methods.active_opponents import MAX_IDLE_OPPONENTS
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.alphazero.examples import Positions, make_examples
from pipeline.methods.alphazero.recording import GameBuffer
from pipeline.methods.method import ActorJob, Encounter, Learner, Opponent, game_seeds
from pipeline.players.builtin import RandomPlayer
from pipeline.players.player import RESIGN, Boards, Decisions, Player, PlayerFault
from pipeline.players.searching import SearchPlayer
from pipeline.run.shards import BOTH, DRAWN, NO_VALUE, POLICY_COUNTS, SEARCHED, End, read_shard
from pipeline.search.batch import BatchSearch
from pipeline.search.gumbel import TARGET_SUM
from pipeline.search.options import SearchOptions
from pipeline.selfplay.config import SelfplayConfig
from tests.games.playing import SMALL
from tests.run.random_games import write_shard
from tests.search.helpers import hashed_evaluator, zero_evaluator


def play(spec, count, rows, evaluate, readouts=8, resign_threshold=-1.0, no_resign_fraction=0.1, first=0):
    game = parse_game(spec)
    player = Learner("m", evaluate)
    finished = []
    settings = SelfplayConfig(readouts=readouts, temperature_plies=4, resign_threshold=resign_threshold)
    seeds = game_seeds(7, iter(range(first, first + count)), no_resign_fraction)
    actor = TreeActor(ActorJob(game, rows, settings, seeds, lambda: player, finished.append))
    actor.run(lambda: False)
    assert actor.live == 0
    return finished


def as_bytes(record):
    arrays = (record.moves, record.root_values, record.visit_lengths, record.visit_actions, record.visit_counts)
    return b"".join(array.tobytes() for array in arrays) + bytes(str(record.result_first_player), "ascii")


@pytest.mark.parametrize("spec", SMALL)
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
        assert game.is_over(states)[0]
        assert record.end == (End.MOVE_LIMIT if game.cut_short(states)[0] else End.PLAYED_OUT)
        assert game.returns(states)[0] == record.result_first_player
        assert (record.flags == POLICY_COUNTS | SEARCHED).all()
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


@pytest.mark.parametrize("opponents", [False, True])
def test_a_new_model_goes_on_with_games_against_itself_and_not_with_those_against_others(opponents):
    game = parse_game("tictactoe")
    asked = {"old": 0, "new": 0}

    def player(name, seed):
        evaluate = hashed_evaluator(game, seed)

        def counted(planes):
            asked[name] += len(planes)
            return evaluate(planes)

        return Learner(name, counted)

    old, new = player("old", 1), player("new", 2)
    finished = []
    settings = SelfplayConfig(readouts=10, temperature_plies=4)
    current = [old]
    meet = meeting(random_opponent(), None) if opponents else None
    seeds = game_seeds(7, iter(range(20)), 0.0)
    actor = TreeActor(ActorJob(game, 4, settings, seeds, lambda: current[0], finished.append, meet))
    while len(finished) < 6 or actor.live < 4:
        actor.step()
    under_way, by_old, asked_before = actor.live, len(finished), asked["old"]
    assert asked["new"] == 0 and {f.player for f in finished} == {"old"}
    current[0] = new
    while asked["new"] == 0:
        actor.step()  # until the next game begins
    ended_before = sum(f.player == "old" for f in finished)
    actor.run(lambda: False)
    later = finished[ended_before:]
    assert len(finished) == 20 and ended_before - by_old <= under_way
    mirror = [f.player for f in later if f.record.opponent is None]
    against = [f.player for f in later if f.record.opponent is not None]
    assert set(mirror) == {"new"} and len(mirror) > under_way
    if opponents:
        assert "new" in against and against.count("old") <= under_way
        assert asked["old"] > asked_before
    # what nobody went on with is what it would have been without the change
    calm = {f.record.game_id: as_bytes(f.record) for f in play_with(game, settings, player("old", 1), meet)}
    assert all(calm[f.record.game_id] == as_bytes(f.record) for f in finished if f.player == "old")
    assert any(calm[f.record.game_id] != as_bytes(f.record) for f in finished if f.player == "new")


def test_the_newest_model_may_come_back_beside_the_last_game_of_its_predecessor():
    """All its games have ended, and none were left for a moment; meanwhile the other's were evaluated together."""
    game = parse_game("tictactoe")
    asked = []
    old, new = (
        Learner(name, lambda planes, name=name: (asked.append(name), zero_evaluator(game)(planes))[1])
        for name in ("old", "new")
    )
    settings = SelfplayConfig(readouts=4)
    seeds = game_seeds(7, iter(range(6)), 0.0)
    actor = TreeActor(ActorJob(game, 2, settings, seeds, lambda: new, lambda finished: None))
    actor._players, actor._switched = [old, None], False
    actor._start(np.array([1]))
    asked.clear()
    actor.step()
    assert set(asked) == {"old", "new"}


def play_with(game, settings, player, meet=None):
    finished = []
    seeds = game_seeds(7, iter(range(20)), 0.0)
    TreeActor(ActorJob(game, 4, settings, seeds, lambda: player, finished.append, meet)).run(lambda: False)
    return finished


def always_lost(game):
    """Every position is lost for the player to move, so the first player resigns first."""

    def evaluate(planes):
        return np.zeros((len(planes), game.num_actions), np.float32), np.full(len(planes), -0.99, np.float32)

    return evaluate


def test_games_that_the_move_limit_ends_say_so():
    game = parse_game("go:5,moves=30")
    records = [finished.record for finished in play(game.spec, 40, 10, hashed_evaluator(game), readouts=2)]
    assert {record.end for record in records} == {End.PLAYED_OUT, End.MOVE_LIMIT}
    for record in records:
        passed = record.moves[-2:].tolist() == [25, 25]
        assert (record.end == End.PLAYED_OUT) == passed and (passed or len(record.moves) == 30)


def test_resignation_needs_two_lost_moves_and_gives_the_game_to_the_other():
    game = parse_game("go:9")
    for finished in play("go:9", 4, 4, always_lost(game), readouts=0, resign_threshold=-0.9, no_resign_fraction=0.0):
        assert finished.record.end == End.RESIGNED
        assert len(finished.record.moves) == 2  # the first player's second look at a lost game
        assert finished.record.result_first_player == -1.0


def test_games_that_never_resign_say_who_would_have():
    game = parse_game("tictactoe")
    games = play("tictactoe", 30, 10, always_lost(game), readouts=0, resign_threshold=-0.9, no_resign_fraction=1.0)
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
    buffer = GameBuffer(-1.0)
    buffer.start(1, 42, True)
    buffer.start(2, 43, False)
    visits = np.array([[0, 3, 0, 5], [2, 0, 0, 0]], np.int32)
    even = np.full((2, 4), 0.25, np.float32)
    yes = np.ones(2, np.bool_)
    buffer.add(np.array([1, 2]), np.array([3, 0], np.int32), visits, np.array([0.5, -0.25], np.float32), even, yes)
    last = np.array([[0, 7, 0, 0]])
    buffer.add(np.array([1]), np.array([1], np.int32), last, np.array([0.125], np.float32), even[:1], yes[:1])
    record = buffer.finish(1, -1.0, End.RESIGNED)
    assert record.moves.tolist() == [3, 1] and record.root_values.tolist() == [0.5, 0.125]
    assert record.visit_lengths.tolist() == [2, 1]
    assert record.visit_actions.tolist() == [1, 3, 1] and record.visit_counts.tolist() == [3, 5, 7]
    assert (record.game_id, record.no_resign, record.end) == (42, True, End.RESIGNED)


# Opponents


class Stubborn(Player):
    """Plays the first legal move and always returns the same value; counts how often it was closed."""

    closed = 0

    def __init__(self, game, num_rows, value=np.nan, action=None):
        self.boards = Boards(game, num_rows)
        self.value, self.action = value, action
        self.asked = np.empty(0, np.int64)

    def new_games(self, rows, seeds):
        self.boards.new_games(rows)

    def advance(self, rows, actions):
        self.boards.advance(rows, actions)

    def begin(self, rows):
        self.asked = np.union1d(self.asked, rows)

    def step(self):
        rows, self.asked = self.asked[:2], self.asked[2:]  # slow: two rows at a time
        actions = np.argmax(self.boards.legal(rows), axis=1).astype(np.int32)
        if self.action is not None:
            actions[:] = self.action
        return Decisions(rows, actions, np.full(len(rows), self.value, np.float32))

    def close(self):
        Stubborn.closed += 1


def stubborn(value=np.nan, action=None):
    return Opponent("stubborn", lambda game, num_rows: Stubborn(game, num_rows, value, action))


def random_opponent():
    return Opponent("random", RandomPlayer)


def searching(game, seed=99, readouts=6):
    config = SearchOptions(noise_weight=0.0)
    evaluate = hashed_evaluator(game, seed)
    return Opponent("old", lambda game, num_rows: SearchPlayer(game, num_rows, evaluate, config, readouts))


def meeting(*opponents):
    """Each game meets one of these, on either side; None: itself. By the game's own seed."""

    def meet(seed, learner):
        opponent = opponents[seed.encounter % len(opponents)]
        side = seed.encounter // len(opponents) % 2
        return None if opponent is None else Encounter(opponent, side, seed.encounter)

    return meet


def play_against(spec, meet, count=24, rows=7, evaluate=None, numbers=None, **settings):
    game = parse_game(spec)
    player = Learner("m", evaluate or hashed_evaluator(game))
    finished = []
    seeds = game_seeds(
        7, iter(numbers if numbers is not None else range(count)), settings.pop("no_resign_fraction", 0.0)
    )
    search = settings.pop("search", SearchOptions()).model_dump()
    config = SelfplayConfig(**(search | {"readouts": 8, "temperature_plies": 4} | settings))
    actor = TreeActor(ActorJob(game, rows, config, seeds, lambda: player, finished.append, meet))
    actor.run(lambda: False)
    actor.close()
    return finished


@pytest.mark.parametrize("spec", SMALL)
def test_an_opponents_moves_are_recorded_and_are_no_targets(spec):
    game = parse_game(spec)
    games = play_against(spec, meeting(random_opponent(), searching(game), None))
    assert {(f.record.opponent, f.record.learner) for f in games} == {
        ("random", 0), ("random", 1), ("old", 0), ("old", 1), (None, BOTH)
    }  # fmt: skip
    for record in (finished.record for finished in games):
        offsets = np.cumsum([0, *record.visit_lengths])
        for ply, move in enumerate(record.moves):
            visited = record.visit_actions[offsets[ply] : offsets[ply + 1]]
            if record.learner in (BOTH, ply % 2):
                assert record.flags[ply] == POLICY_COUNTS | SEARCHED and move in visited
            else:
                assert record.flags[ply] == (NO_VALUE if record.opponent == "random" else 0) and len(visited) == 0
                assert record.opponent != "random" or record.root_values[ply] == 0
    assert any(f.record.opponent == "old" and (f.record.root_values != 0).all() for f in games)


@pytest.mark.parametrize("spec", ["tictactoe", "go:5"])
def test_labels_of_games_against_opponents_are_right_for_both_colours(tmp_path, spec):
    game = parse_game(spec)
    opponents = meeting(random_opponent(), searching(game), None)
    games = [f.record for f in play_against(spec, opponents, 60, resign_threshold=-0.05, no_resign_fraction=0.6)]
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", spec, games, {}))
    plies = [(index, ply) for index, record in enumerate(games) for ply in range(len(record.moves))]
    which, ply = np.array(plies).T
    columns = make_examples(game, [shard], Positions(np.zeros_like(which), which, ply))
    seen = set()
    for row, (index, at) in enumerate(plies):
        record, learners_move = games[index], games[index].learner in (BOTH, at % 2)
        states = game.initial(1)
        history = game.initial_history(states)
        for move in record.moves:
            states = game.play(states, np.array([move], np.int32), history)
            history.append(np.arange(1), game.keys(states))
        if record.end != End.RESIGNED:
            result_first_player = game.returns(states)[0]
        else:  # whoever was to move gave up, and that is the learner
            assert record.learner in (BOTH, len(record.moves) % 2)
            result_first_player = -1.0 if len(record.moves) % 2 == 0 else 1.0
        assert columns["value"][row] == (result_first_player if at % 2 == 0 else -result_first_player)
        assert columns["policy_weight"][row] == learners_move
        assert columns["policy"][row].sum() == pytest.approx(1.0 if learners_move else 0.0, abs=5e-3)
        seen.add((record.opponent, record.learner, result_first_player, record.end))
    for side, result in itertools.product((0, 1), (-1.0, 1.0)):  # each side won and lost against somebody
        assert {(name, side, result) for name in ("random", "old")} & {found[:3] for found in seen}
    assert any(end == End.RESIGNED and side != BOTH for _, side, _, end in seen)


def test_examples_refuse_an_opponents_move_as_a_target(tmp_path):
    game = parse_game("tictactoe")
    record = next(f.record for f in play_against("tictactoe", meeting(random_opponent())))
    theirs = int(1 - record.learner)
    flags = record.flags.copy()
    flags[theirs] |= POLICY_COUNTS
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", "tictactoe", [replace(record, flags=flags)], {}))
    with pytest.raises(FileError, match=f"ply {theirs}: "):
        make_examples(game, [shard], Positions(np.array([0]), np.array([0]), np.array([theirs])))


def test_a_game_against_an_opponent_is_the_same_whoever_plays_beside_it():
    game = parse_game("connect4")
    opponents = (random_opponent(), searching(game), None)

    def games(**how):
        return {f.record.game_id: as_bytes(f.record) + bytes(f.record.flags) for f in
                play_against("connect4", meeting(*opponents), **how)}  # fmt: skip

    whole = games(rows=24)
    actors = games(rows=3, numbers=range(0, 24, 2)) | games(rows=5, numbers=range(1, 24, 2))
    assert len(whole) == 24 and whole == actors
    mirror = {f.record.game_id: as_bytes(f.record) + bytes(f.record.flags) for f in play_against("connect4", None)}
    same = {game_id for game_id in whole if whole[game_id] == mirror[game_id]}
    assert same == {f.record.game_id for f in play_against("connect4", meeting(*opponents)) if not f.record.opponent}


def test_the_streams_of_games_are_what_they_were_before_there_were_opponents():
    for number, seed in enumerate(itertools.islice(game_seeds(11, itertools.count(), 0.3), 50)):
        stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([11, number])))
        assert [seed.game_id, seed.stream] == stream.integers(0, 2**64, 2, np.uint64).tolist()
        assert seed.no_resign == (stream.random() < 0.3)


def test_the_learners_tree_is_kept_through_an_opponents_moves():
    games = play_against("tictactoe", meeting(random_opponent()), readouts=60, evaluate=zero_evaluator(
        parse_game("tictactoe")))  # fmt: skip
    totals = [
        int(record.visit_counts[start : start + length].sum())
        for record in (finished.record for finished in games)
        for start, length in zip(np.cumsum([0, *record.visit_lengths[:-1]]), record.visit_lengths, strict=True)
        if length
    ]
    assert min(totals) == 60 and max(totals) > 62


def test_only_the_learner_resigns():
    game = parse_game("go:5")
    hopeless = play_against("go:5", meeting(stubborn(value=-1.0)), evaluate=zero_evaluator(game), readouts=0,
                            resign_threshold=-0.9)  # fmt: skip
    assert {f.record.end for f in hopeless} == {End.MOVE_LIMIT} and {f.would_have_resigned for f in hopeless} == {-1}
    for finished in play_against("go:5", meeting(stubborn(value=0.0)), evaluate=always_lost(game), readouts=0,
                                 resign_threshold=-0.9):  # fmt: skip
        record = finished.record
        assert record.end == End.RESIGNED and len(record.moves) == 2 + record.learner  # its second look
        assert record.result_first_player == (-1.0 if record.learner == 0 else 1.0)
    never = play_against("tictactoe", meeting(stubborn()), evaluate=always_lost(parse_game("tictactoe")), readouts=0,
                         resign_threshold=-0.9, no_resign_fraction=1.0)  # fmt: skip
    assert all(f.would_have_resigned == f.record.learner for f in never)


@pytest.mark.parametrize(("teach", "learns"), [(False, False), (True, False), (True, True)])
def test_an_opponent_teaches_if_told_to_and_if_it_is_no_model(teach, learns):
    game = parse_game("tictactoe")
    met = meeting(replace(searching(game), learns=learns))
    for finished in play_against("tictactoe", met, 4, readouts=4, random_plies=1, opponents_teach=teach):
        record = finished.record
        plies = np.arange(len(record.moves))
        theirs = (plies % 2 != record.learner) & (record.flags & DRAWN == 0)
        assert ((record.flags[theirs] & (POLICY_COUNTS | SEARCHED) != 0) == (teach and not learns)).all()
        if teach and not learns:
            ends = np.cumsum(record.visit_lengths)
            assert (record.visit_lengths[theirs] == 1).all()
            assert (record.visit_actions[ends[theirs] - 1] == record.moves[theirs]).all()
            own = (record.flags & SEARCHED != 0) & ~theirs
            wanted = record.surprises[own].mean() if own.any() else 0  # sampled as often as the game's searches
            assert record.surprises[theirs] == pytest.approx(wanted)


def test_random_moves_teach_nobody():
    for finished in play_against("tictactoe", meeting(replace(random_opponent(), is_random=True)), 4, readouts=4,
                                 opponents_teach=True):  # fmt: skip
        record = finished.record
        theirs = np.arange(len(record.moves)) % 2 != record.learner
        assert not (record.flags[theirs] & POLICY_COUNTS).any() and record.flags[~theirs].any()


def test_what_an_opponent_thinks_is_no_reason_to_resign():
    buffer = GameBuffer(-0.9)
    row, lost = np.array([0]), np.array([-0.99], np.float32)

    def learner_plays(value):
        values, priors = np.array([value], np.float32), np.full((1, 2), 0.5, np.float32)
        buffer.add(row, np.array([0], np.int32), np.array([[1, 0]], np.int32), values, priors, np.array([True]))

    buffer.start(0, 1, False, opponent="x", learner=0)
    learner_plays(0.5)
    buffer.add_opponents(row, np.array([1], np.int32), lost)
    assert not buffer.resigns(row, lost, np.array([0], np.int8)).any()  # its own move before looked well
    learner_plays(-0.99)
    buffer.add_opponents(row, np.array([1], np.int32), np.array([np.nan], np.float32))
    assert buffer.resigns(row, lost, np.array([0], np.int8)).all()  # calm as the 0 of no opinion may look
    assert buffer.finish(0, -1.0, End.RESIGNED).root_values.tolist() == pytest.approx([0.5, -0.99, -0.99, 0.0])


def test_an_opponent_that_fails_or_gives_up_ends_the_run():
    with pytest.raises(MuGoError, match="stubborn resigned"):
        play_against("tictactoe", meeting(stubborn(action=RESIGN)))

    class Broken(Stubborn):
        def step(self):
            return replace(Decisions.none(), faults={int(row): PlayerFault("crash", "b", "it broke")
                                                     for row in self.asked})  # fmt: skip

    with pytest.raises(PlayerFault, match="it broke"):
        play_against("tictactoe", meeting(Opponent("broken", Broken)))


def test_opponents_that_are_met_no_more_are_let_go(monkeypatch):
    monkeypatch.setattr(Stubborn, "closed", 0)
    met = []

    def always_another(seed, learner):
        met.append(stubborn())
        return Encounter(met[-1], 0, 0)

    game = parse_game("tictactoe")
    player, settings = (
        Learner("m", hashed_evaluator(game)),
        SelfplayConfig(readouts=4, temperature_plies=4),
    )
    actor = TreeActor(
        ActorJob(game, 3, settings, game_seeds(7, iter(range(30)), 0.0), lambda: player, lambda _: None, always_another)
    )
    actor.run(lambda: False)
    assert len(met) == 30 and 30 - 3 - MAX_IDLE_OPPONENTS <= Stubborn.closed < 30
    actor.close()
    assert Stubborn.closed == 30


# Full and cheap moves


def play_capped(spec, count=24, rows=7, numbers=None, evaluate=None, meet=None, **settings):
    """Full searches of 40 readouts on a quarter of the moves, cheap ones of 6."""
    capped = {"readouts": 40, "full_search_fraction": 0.25, "cheap_readouts": 6} | settings
    return play_against(spec, meet, count, rows, evaluate, numbers, **capped)


def visits_of(record):
    """[T] visits at the root of each move."""
    totals = np.concatenate([[0], np.cumsum(record.visit_counts.astype(np.int64))])
    ends = np.cumsum(record.visit_lengths.astype(np.int64))
    return totals[ends] - totals[ends - record.visit_lengths]


def test_a_full_search_with_one_legal_move_is_one_though_it_surprises_nobody():
    for finished in play_capped("tictactoe", full_search_fraction=1.0):
        record = finished.record
        assert (record.flags & SEARCHED).all()
        assert (record.surprises[8:] == 0).all()  # the ninth move has one square left


def test_only_full_moves_are_policy_targets_and_cheap_ones_cost_less():
    game = parse_game("connect4")
    records = [f.record for f in play_capped("connect4", evaluate=hashed_evaluator(game))]
    every_flag = np.concatenate([record.flags for record in records])
    assert set(every_flag.tolist()) == {0, POLICY_COUNTS | SEARCHED}
    flags = every_flag & POLICY_COUNTS
    visits = np.concatenate([visits_of(record) for record in records])
    surprises = np.concatenate([record.surprises for record in records])
    assert abs(flags.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / len(flags))
    assert (visits[flags == 1] >= 40).all() and (visits[flags == 0] >= 6).all() and visits[flags == 0].min() < 12
    assert (surprises[flags == 0] == 0).all() and (surprises[flags == 1] > 0).mean() > 0.9


def test_mixed_search_learns_from_gumbel_and_keeps_its_tree_for_cheap_moves():
    game = parse_game("connect4")
    search = SearchOptions(algorithm="mixed")
    records = [f.record for f in play_capped("connect4", evaluate=hashed_evaluator(game), search=search)]
    every_flag = np.concatenate([record.flags for record in records])
    assert set(every_flag.tolist()) == {0, POLICY_COUNTS | SEARCHED}
    flags = every_flag & POLICY_COUNTS
    visits = np.concatenate([visits_of(record) for record in records])
    assert (abs(visits[flags == 1] - TARGET_SUM) < 10).all()
    assert visits[flags == 0].min() >= 6 and visits[flags == 0].mean() > 8 and visits[flags == 0].max() < 60


def test_which_moves_are_full_depends_on_the_game_alone():
    def games(**how):
        return {f.record.game_id: as_bytes(f.record) + bytes(f.record.flags) + f.record.surprises.tobytes()
                for f in play_capped("go:5", **how)}  # fmt: skip

    whole = games(rows=24)
    assert whole == games(rows=3, numbers=range(0, 24, 2)) | games(rows=5, numbers=range(1, 24, 2))
    kinds = {f.record.game_id: f.record.flags for f in play_capped("go:5")}
    assert len({bytes(flags[:8]) for flags in kinds.values()}) > 15  # another pattern in each
    other = {f.record.game_id: f.record.flags for f in play_capped("go:5", evaluate=zero_evaluator(parse_game("go:5")))}
    for game_id, flags in kinds.items():  # whatever is played
        common = min(len(flags), len(other[game_id]))
        assert (flags[:common] == other[game_id][:common]).all()


def test_when_all_moves_are_full_the_games_are_what_they_were():
    plain = {f.record.game_id: as_bytes(f.record) for f in play_against("go:5", None)}
    unused = {f.record.game_id: as_bytes(f.record) for f in play_against("go:5", None, cheap_readouts=3)}
    larger = {f.record.game_id: as_bytes(f.record) for f in play_against("go:5", None, cheap_readouts=30)}
    assert plain == unused == larger


def test_no_move_is_played_only_because_it_was_forced():
    """Sampled moves have visits in the policy target, which leaves out what forced playouts added."""
    search, readouts = SearchOptions(forced_playouts=2.0), 40
    totals = []
    for finished in play_against("go:5", None, search=search, readouts=readouts, temperature_plies=1000):
        record = finished.record
        offsets = np.cumsum([0, *record.visit_lengths])
        for ply, move in enumerate(record.moves):
            assert move in record.visit_actions[offsets[ply] : offsets[ply + 1]]
        totals += visits_of(record).tolist()
    assert min(totals) < readouts - 5  # the others were forced


def test_moves_are_sampled_up_to_the_ply_asked_for(monkeypatch):
    asked = {}
    choose = BatchSearch.choose

    def watch(self, rows, temperature, table=None):
        for ply, found in zip(self.plies(rows).tolist(), temperature.tolist(), strict=True):
            asked.setdefault(ply, set()).add(found)
        return choose(self, rows, temperature, table)

    monkeypatch.setattr(BatchSearch, "choose", watch)
    play_against("tictactoe", None, 12, temperature_plies=4)
    assert len(asked) > 5 and asked == {ply: {1.0 if ply < 4 else 0.0} for ply in asked}


def test_only_full_moves_explore(monkeypatch):
    asked = []
    begin = BatchSearch.begin

    def watch(self, rows, readouts, explore):
        asked.extend(zip(readouts.tolist(), explore.tolist(), strict=True))
        begin(self, rows, readouts, explore)

    monkeypatch.setattr(BatchSearch, "begin", watch)
    play_capped("tictactoe")
    assert set(asked) == {(40, True), (6, False)}
    asked.clear()
    play_capped("tictactoe", readouts=5, cheap_readouts=9)  # the search has room for the larger of the two
    assert set(asked) == {(5, True), (9, False)}


def test_cheap_moves_without_readouts_are_the_raw_policys():
    game = parse_game("connect4")
    evaluate = hashed_evaluator(game)
    cheap = 0
    for finished in play_capped("connect4", evaluate=evaluate, cheap_readouts=0, temperature_plies=0):
        record = finished.record
        boards = Boards(game, 1)
        for ply, move in enumerate(record.moves):
            if not record.flags[ply]:
                logits = evaluate(game.observe(boards.states, boards.legal(np.array([0]))))[0][0]
                best = np.where(boards.legal(np.array([0]))[0], logits, -np.inf)
                assert best[move] == best.max() and record.visit_lengths[ply] == 0
                cheap += 1
            boards.advance(np.array([0]), np.array([move], np.int32))
    assert cheap > 100


def settled_evaluator(game, since):
    """Uniform policy; nobody leads before ply `since` (stones on the board), from there on the first player surely."""

    def evaluate(planes):
        stones = planes[:, :2].reshape(len(planes), -1).sum(axis=1)
        values = np.where(stones < since, 0, np.where(stones % 2 == 0, 0.95, -0.95))
        return np.zeros((len(planes), game.num_actions), np.float32), values.astype(np.float32)

    return evaluate


@pytest.mark.parametrize("full_search_fraction", [0.25, 1.0])
def test_a_decided_game_is_played_to_its_end_with_few_readouts_and_no_targets(monkeypatch, full_search_fraction):
    game = parse_game("connect4")
    asked = {}
    begin = BatchSearch.begin

    def watch(self, rows, readouts, explore):
        for ply, number in zip(self.plies(rows).tolist(), readouts.tolist(), strict=True):
            asked.setdefault(ply, set()).add(number)
        begin(self, rows, readouts, explore)

    monkeypatch.setattr(BatchSearch, "begin", watch)
    evaluate = settled_evaluator(game, 8)
    how = {
        "evaluate": evaluate,
        "full_search_fraction": full_search_fraction,
        "decided_value": 0.9,
        "decided_readouts": 3,
    }
    records = [finished.record for finished in play_capped("connect4", count=40, **how)]
    # Searches from ply 8 on see values beyond 0.9; a few of before do, too, since they look ahead.
    early = set().union(*(asked[ply] for ply in range(8)))
    assert early == ({40, 6} if full_search_fraction < 1 else {40})
    long = [record for record in records if len(record.moves) > 20]
    assert len(long) > 5
    values = [record.root_values * np.where(np.arange(len(record.moves)) % 2, -1, 1) for record in records]
    for record, seen in zip(records, values, strict=True):
        sure = np.sign(np.where(np.abs(seen) >= 0.9, seen, 0))
        decided = [ply for ply in range(4, len(sure)) if abs(sure[ply - 4 : ply].sum()) == 4]
        assert not record.flags[decided].any()
        assert all(record.flags[ply] for ply in range(len(sure)) if full_search_fraction == 1 and ply not in decided)
        assert record.end == End.PLAYED_OUT
    assert 3 in asked[20]


def test_against_an_opponent_two_moves_of_the_learner_decide():
    game = parse_game("connect4")
    asked = Opponent("random", lambda game, rows: RandomPlayer(game, rows))
    meet = lambda seed, learner: Encounter(asked, seed.encounter % 2, seed.encounter)  # noqa: E731
    how = {
        "evaluate": settled_evaluator(game, 8),
        "full_search_fraction": 1.0,
        "decided_value": 0.9,
        "decided_readouts": 3,
    }
    checked = 0
    for finished in play_capped("connect4", count=30, meet=meet, **how):
        record = finished.record
        own = np.flatnonzero((record.flags & NO_VALUE) == 0)
        sure = np.abs(record.root_values[own]) >= 0.9
        for before, now in itertools.pairwise(range(1, len(own))):
            if sure[before] and sure[before - 1]:
                assert not record.flags[own[now]] & POLICY_COUNTS
                checked += 1
    assert checked > 20


def test_a_game_is_decided_anew_in_its_row():
    game = parse_game("connect4")
    settled = {
        "evaluate": settled_evaluator(game, 8),
        "full_search_fraction": 1.0,
        "decided_value": 0.9,
        "decided_readouts": 3,
    }
    alone = {f.record.game_id: as_bytes(f.record) for f in play_capped("connect4", rows=24, **settled)}
    assert alone == {f.record.game_id: as_bytes(f.record) for f in play_capped("connect4", rows=3, **settled)}


def test_an_opponents_moves_are_neither_full_nor_cheap():
    for finished in play_capped("connect4", meet=meeting(random_opponent())):
        record = finished.record
        own = np.arange(len(record.moves)) % 2 == record.learner
        assert (record.flags[~own] == NO_VALUE).all()
        assert set(record.flags[own].tolist()) <= {0, POLICY_COUNTS | SEARCHED}
        assert (record.surprises[~own] == 0).all()


def test_both_kinds_of_moves_resign():
    """Everything is lost from the start: the first player resigns at its second move, full or cheap."""
    game = parse_game("go:9")
    games = play_capped("go:9", evaluate=always_lost(game), readouts=0, cheap_readouts=0, resign_threshold=-0.9)
    assert {int(flag) for f in games for flag in f.record.flags} == {0, POLICY_COUNTS}
    assert {len(f.record.moves) for f in games} == {2} and {f.record.end for f in games} == {End.RESIGNED}


@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_a_capped_game_is_read_back_as_examples(tmp_path, algorithm):
    search = SearchOptions(algorithm=algorithm, forced_playouts=2.0, noise_shape=0.5)
    games = [f.record for f in play_capped("go:5", search=search, count=10)]
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", "go:5", games, {}))
    which = np.repeat(np.arange(10), shard.lengths)
    ply = np.concatenate([np.arange(length) for length in shard.lengths])
    columns = make_examples(parse_game("go:5"), [shard], Positions(np.zeros_like(which), which, ply))
    is_target = shard.flags & POLICY_COUNTS
    assert (columns["policy_weight"] == is_target).all() and 0 < is_target.mean() < 1
    sums = columns["policy"].astype(np.float32).sum(axis=1)
    assert sums[is_target == 1] == pytest.approx(1.0, abs=5e-3)


# Surprise


def test_surprise_by_hand():
    """Visits 3:1 where the network gave 1/4 to each: 3/4 ln 3 + 1/4 ln 1 = .8240; as the network: 0."""
    buffer = GameBuffer(-1.0)
    rows = np.arange(4)
    for row in rows.tolist():
        buffer.start(row, row, False)
    visits = np.array([[3, 1, 0, 0], [1, 1, 1, 1], [3, 1, 0, 0], [0, 0, 0, 0]])
    priors = np.full((4, 4), 0.25, np.float32)
    counts = np.array([True, True, False, True])
    buffer.add(rows, np.zeros(4, np.int32), visits, np.zeros(4, np.float32), priors, counts)
    records = [buffer.finish(row, 0.0, End.PLAYED_OUT) for row in rows.tolist()]
    found = [float(record.surprises[0]) for record in records]
    assert found == pytest.approx([0.75 * np.log(3), 0.0, 0.0, 0.0], abs=1e-6)
    assert [int(record.flags[0]) for record in records] == [9, 9, 0, 1]
    assert records[3].visit_actions.tolist() == [0]  # the raw policy's own sample, which surprises nobody
    assert records[2].visit_counts.tolist() == [3, 1]


def test_surprise_is_the_divergence_that_scipy_computes():
    rng = np.random.default_rng(0)
    buffer = GameBuffer(-1.0)
    visits = rng.integers(0, 40, (50, 9)) * (rng.random((50, 9)) < 0.6)
    visits[:, 0] += 1
    priors = rng.dirichlet(np.full(9, 0.3), 50).astype(np.float32)
    priors[visits == 0] = 0.0  # unvisited moves have no part in it
    rows = np.arange(50)
    for row in rows.tolist():
        buffer.start(row, row, False)
    buffer.add(rows, np.zeros(50, np.int32), visits, np.zeros(50, np.float32), priors, np.ones(50, np.bool_))
    for row in rows.tolist():
        target = visits[row] / visits[row].sum()
        expected = rel_entr(target, np.maximum(priors[row], 1e-12)).sum()
        assert buffer.finish(row, 0.0, End.PLAYED_OUT).surprises[0] == pytest.approx(max(expected, 0.0), rel=1e-5)


# Random openings


def open_at_random(spec, count, rows, most, readouts=4):
    game = parse_game(spec)
    player = Learner("m", hashed_evaluator(game))
    finished = []
    settings = SelfplayConfig(readouts=readouts, temperature_plies=4, random_plies=most)
    seeds = game_seeds(11, iter(range(count)), 0.1)
    TreeActor(ActorJob(game, rows, settings, seeds, lambda: player, finished.append)).run(lambda: False)
    return finished


def test_random_openings_are_no_targets_and_every_length_is_as_likely():
    finished = open_at_random("connect4", 700, 64, 6)
    lengths = []
    for one in finished:
        random = one.record.flags == NO_VALUE | DRAWN
        lengths.append(int(random.sum()))
        assert random[: lengths[-1]].all() and (one.record.flags[lengths[-1] :] & POLICY_COUNTS).all()
        assert (one.record.visit_lengths[: lengths[-1]] == 0).all() and one.record.opponent is None
        assert (one.record.root_values[: lengths[-1]] == 0).all() and len(one.record.moves) > lengths[-1]
    counts = np.bincount(lengths, minlength=7)
    assert len(counts) == 7 and ((counts - 100) ** 2 / 100).sum() < 22.5  # chi-square, 6 degrees of freedom, p = .001
    first = np.bincount([one.record.moves[0] for one, n in zip(finished, lengths, strict=True) if n], minlength=7)
    assert ((first - first.sum() / 7) ** 2 / (first.sum() / 7)).sum() < 22.5


def test_a_random_opening_is_the_same_whoever_plays_beside_it():
    wide, narrow = (
        {one.record.game_id: as_bytes(one.record) for one in open_at_random("go:5", 12, rows, 9)} for rows in (12, 2)
    )
    assert len(wide) == 12 and wide == narrow


def test_no_random_opening_ends_its_game():
    finished = open_at_random("tictactoe", 200, 16, 9)
    assert max(int((one.record.flags == NO_VALUE | DRAWN).sum()) for one in finished) >= 7
    for one in finished:
        assert one.record.flags[-1] & POLICY_COUNTS  # the last move was the model's own
