"""SearchPlayer: equal to the searches it is made of, each row for itself, each decision once."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import MuGoError
from pipeline.games.specs import parse_game
from pipeline.players.player import Decisions, Player
from pipeline.players.searching import SearchPlayer
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from tests.games.playing import SMALL
from tests.reference.puct import ReferenceSearch
from tests.search.helpers import hashed_evaluator, run_searches

CALM = SearchOptions(noise_weight=0.0)
NOISY = SearchOptions(noise_weight=0.25)


def rows_of(*rows: int) -> np.ndarray:
    return np.array(rows, np.int64)


def seeds_of(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.uint64) + np.uint64(100)


def make(spec: str, num_rows: int, readouts: int, config: SearchOptions = CALM, leaves: int = 1) -> SearchPlayer:
    game = parse_game(spec)
    player = SearchPlayer(game, num_rows, hashed_evaluator(game), config, readouts, leaves)
    rows = np.arange(num_rows)
    player.new_games(rows, seeds_of(rows))
    return player


def decide(player: Player, max_steps: int = 1000) -> dict[int, tuple[int, float]]:
    """Row → (action, value) of everything that was begun; no row twice."""
    found: dict[int, tuple[int, float]] = {}
    for _ in range(max_steps):
        decisions = player.step()
        for row, action, value in zip(decisions.rows, decisions.actions, decisions.values, strict=True):
            assert int(row) not in found
            found[int(row)] = int(action), float(value)
        if not decisions.worked:
            assert not decisions.rows.size and not decisions.faults
            return found
    raise AssertionError("the player never comes to rest")


@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize("readouts", [1, 20])
def test_plays_like_the_plain_search_and_keeps_its_tree_whoever_moves(spec: str, readouts: int) -> None:
    game = parse_game(spec)
    player = make(spec, 1, readouts)
    plain = ReferenceSearch(game, CALM, hashed_evaluator(game))
    rng = np.random.default_rng(1)
    for ply in range(min(game.max_plies, 30)):
        if game.is_over(plain.state)[0]:
            break
        if ply % 2 == 0:  # the player's turn; the other side's moves come from elsewhere
            player.begin(rows_of(0))
            plain.search(readouts)
            action, value = decide(player)[0]
            visits, priors = plain.visits(), plain.policy()
            assert action == max(range(game.num_actions), key=lambda a, v=visits, p=priors: (v[a], p[a], -a))
            assert value == pytest.approx(float(plain.root_value()), abs=1e-6)
        else:
            action = int(rng.choice(np.flatnonzero(game.legal(plain.state, plain.past)[0])))
        player.advance(rows_of(0), np.array([action], np.int32))
        plain.advance(action)


@pytest.mark.parametrize(
    ("config", "readouts", "leaves"), [(NOISY, 16, 1), (NOISY, 16, 4), (CALM, 16, 4), (NOISY, 0, 1)]
)
def test_plays_like_a_batch_search(config: SearchOptions, readouts: int, leaves: int) -> None:
    game = parse_game("connect4")
    rows = np.arange(6)
    player = make("connect4", 6, readouts, config, leaves)
    search = BatchSearch(game, 6, readouts, config, leaves)
    search.new_games(rows, seeds_of(rows))
    for _ in range(6):
        player.begin(rows)
        search.begin(rows, np.full(6, readouts, np.int32), np.full(6, config.noise_weight > 0 and readouts > 0))
        run_searches(search, hashed_evaluator(game))
        actions = search.choose(rows, np.zeros(6, np.float32))
        found = decide(player)
        assert [found[row] for row in range(6)] == list(
            zip(actions.tolist(), search.root_values(rows).tolist(), strict=True)
        )
        player.advance(rows, actions)
        search.advance(rows, actions)
    if config is NOISY and readouts:
        assert len({tuple(stones) for stones in search.states.tolist()}) > 1  # noise made the rows differ
    else:
        assert len({tuple(stones) for stones in search.states.tolist()}) == 1


def test_without_readouts_it_is_the_raw_policy() -> None:
    game = parse_game("go:5")
    player = make("go:5", 2, 0, NOISY)
    player.advance(rows_of(1), np.array([12], np.int32))
    player.begin(rows_of(0, 1))
    states = np.concatenate([game.initial(1), game.play(game.initial(1), [12], game.initial_history(game.initial(1)))])
    legal, planes = game.legal_and_observe(states, game.initial_history(states))
    logits, values = hashed_evaluator(game)(planes)
    best = np.where(legal, logits, -np.inf).argmax(axis=1)
    assert decide(player) == {row: (int(best[row]), float(values[row])) for row in (0, 1)}
    assert (player.search.evaluations, player.search.simulations) == (2, 0)


def test_rows_do_not_influence_each_other() -> None:
    """One game alone and the same game among others that begin, stop and start again at odd times."""
    alone, among = make("connect4", 1, 12, NOISY), make("connect4", 4, 12, NOISY)
    alone.new_games(rows_of(0), np.array([7], np.uint64))
    among.new_games(rows_of(2), np.array([7], np.uint64))
    rng = np.random.default_rng(0)
    for _ in range(10):
        alone.begin(rows_of(0))
        action, value = decide(alone)[0]
        among.begin(rows_of(2))
        mine: list[Decisions] = []
        while not mine:
            other = rows_of(int(rng.choice([0, 1, 3])))
            match rng.integers(5):
                case 0:
                    among.new_games(other, seeds_of(other))
                case 1:
                    among.drop(other)
                case _:
                    among.begin(other)
            decisions = among.step()
            for row, chosen in zip(decisions.rows, decisions.actions, strict=True):
                if row == 2:
                    mine.append(decisions)
                else:
                    among.new_games(rows_of(row), seeds_of(rows_of(row)))
                    among.advance(rows_of(row), np.array([chosen], np.int32))
        at = int(np.flatnonzero(mine[0].rows == 2)[0])
        assert (mine[0].actions[at], mine[0].values[at]) == (action, np.float32(value))
        alone.advance(rows_of(0), np.array([action], np.int32))
        among.advance(rows_of(2), np.array([action], np.int32))
        if alone.search.over(rows_of(0))[0]:
            break


def test_a_row_is_decided_once_and_can_be_asked_again() -> None:
    player = make("tictactoe", 3, 5)
    assert not player.step().worked
    player.begin(rows_of(0, 2))
    first = decide(player)
    assert set(first) == {0, 2}
    assert decide(player) == {}
    player.begin(rows_of(2))
    assert set(decide(player)) == {2}


@pytest.mark.parametrize("end", ["advance", "new_games", "drop"])
def test_what_ended_before_the_decision_is_no_longer_thought_about(end: str) -> None:
    player = make("connect4", 2, 30)
    player.begin(rows_of(0, 1))
    for _ in range(3):
        assert player.step().worked
    if end == "advance":
        player.advance(rows_of(0), np.array([3], np.int32))
    elif end == "new_games":
        player.new_games(rows_of(0), seeds_of(rows_of(0)))
    else:
        player.drop(rows_of(0))
    assert set(decide(player)) == {1}
    player.new_games(rows_of(0), seeds_of(rows_of(0)))
    player.begin(rows_of(0))
    fresh = make("connect4", 1, 30)
    fresh.begin(rows_of(0))
    assert decide(player)[0] == decide(fresh)[0]


def test_a_kept_tree_saves_evaluations() -> None:
    player, fresh = make("connect4", 1, 60), make("connect4", 1, 60)
    player.begin(rows_of(0))
    action = decide(player)[0][0]
    before = player.search.evaluations
    for each in (player, fresh):
        each.advance(rows_of(0), np.array([action], np.int32))
        each.begin(rows_of(0))
        decide(each)
    assert player.search.evaluations - before == 60  # the root's own evaluation was kept
    assert fresh.search.evaluations == 61


def test_a_network_that_answers_nonsense_is_reported() -> None:
    game = parse_game("tictactoe")

    def broken(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full((len(planes), 9), np.nan, np.float32), np.zeros(len(planes), np.float32)

    player = SearchPlayer(game, 1, broken, CALM, 4)
    player.new_games(rows_of(0), np.array([1], np.uint64))
    player.begin(rows_of(0))
    with pytest.raises(MuGoError, match="not finite"):
        player.step()


@pytest.mark.parametrize("leaves", [1, 4])
def test_after_one_failure_of_the_network_it_plays_on_as_from_the_start(leaves: int) -> None:
    game, row = parse_game("connect4"), rows_of(0)
    answers, asked = hashed_evaluator(game), 0

    def fails_once(planes):
        nonlocal asked
        asked += 1
        if asked == 10:
            raise MuGoError("no answer")
        return answers(planes)

    player = SearchPlayer(game, 1, fails_once, CALM, 40, leaves)
    player.new_games(row, seeds_of(row))
    player.begin(row)
    with pytest.raises(MuGoError, match="no answer"):
        decide(player)
    assert decide(player) == {}, "its search is over"
    player.begin(row)
    found = decide(player)
    fresh = make("connect4", 1, 40, leaves=leaves)
    fresh.begin(row)
    assert found == decide(fresh)
