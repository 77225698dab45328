"""What every game promises, checked on those with chance or without a fixed list of actions: registered ones and toys.

The others promise more: test_contract.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.games.contract import CHANCE, AnyGame, History, States
from pipeline.games.specs import parse_game
from tests.games.playing import OTHERS
from tests.games.toys import DiceRace, Heaps, replay

TOYS = {
    game.spec: game for game in (DiceRace(6), DiceRace(3), DiceRace(6, double=True), Heaps(1, 2, 4, 4), Heaps(3, 3))
}
NUM_GAMES = {"backgammon": 3, "backgammon,reward=2.5": 3, "hypergammon": 10}  # of many plies; toys: 60


@dataclass(frozen=True)
class Sample:
    """Whole games: moves of each, and all positions of all of them in a row."""

    game: AnyGame
    moves: list[list[int]]
    states: States
    history: History


def random_moves(game: AnyGame, seed: int) -> list[int]:
    """A whole game: outcomes by their probabilities, everything else uniform over the legal moves."""
    rng = np.random.default_rng(seed)
    state, moves = game.initial(1), []
    history = game.initial_history(state)
    while not game.is_over(state)[0]:
        if game.to_move(state)[0] == CHANCE:
            chances = game.chance(state)[0].astype(np.float64)
            move = int(rng.choice(len(chances), p=chances / chances.sum()))
        else:
            move = int(rng.choice(game.moves(state, history).of(0)))
        state = game.play(state, np.array([move], np.int32), history)
        history.append(np.array([0]), game.keys(state))
        moves.append(move)
    return moves


@pytest.fixture(scope="module", params=[*TOYS, *OTHERS])
def sample(request: pytest.FixtureRequest) -> Sample:
    game = TOYS.get(request.param) or parse_game(request.param)
    moves = [random_moves(game, seed) for seed in range(NUM_GAMES.get(game.spec, 60))]
    states = np.concatenate([replay(game, played) for played in moves])
    return Sample(game, moves, states, game.initial_history(states))


def test_shapes_and_types(sample: Sample) -> None:
    game, B = sample.game, len(sample.states)
    found = {
        "is_over": game.is_over(sample.states),
        "returns": game.returns(sample.states),
        "to_move": game.to_move(sample.states),
        "plies": game.plies(sample.states),
        "keys": game.keys(sample.states),
        "scores": game.scores(sample.states),
    }
    types = dict(is_over=np.bool_, returns=np.float32, to_move=np.int8, plies=np.int32, keys=np.uint64,
                 scores=np.float32)  # fmt: skip
    assert {name: (array.shape, array.dtype.type) for name, array in found.items()} == {
        name: ((B,), kind) for name, kind in types.items()
    }
    assert sample.states.shape == (B, game.state_size) and sample.states.dtype == np.int16
    moves = game.moves(sample.states, sample.history)
    assert moves.offsets.shape == (B + 1,) and moves.offsets.dtype == np.int64 and moves.actions.dtype == np.int32
    assert game.initial(3).shape == (3, game.state_size) and game.initial(3).dtype == np.int16
    assert game.has_chance == (found["to_move"] == CHANCE).any()


def test_zero_rows(sample: Sample) -> None:
    game = sample.game
    states = game.initial(0)
    history = game.initial_history(states)
    assert states.shape == (0, game.state_size)
    assert game.play(states, np.zeros(0, np.int32), history).shape == states.shape
    assert game.moves(states, history).offsets.tolist() == [0]
    for verb in (game.is_over, game.returns, game.to_move, game.plies, game.keys):
        assert verb(states).shape == (0,)


def test_games_from_their_start_to_their_end(sample: Sample) -> None:
    game, at = sample.game, 0
    for moves in sample.moves:
        states, at = sample.states[at : at + len(moves) + 1], at + len(moves) + 1
        assert len(moves) <= game.max_plies
        assert game.plies(states).tolist() == list(range(len(moves) + 1))
        assert game.is_over(states).tolist() == [False] * len(moves) + [True]
        assert (game.returns(states)[:-1] == 0).all() and abs(game.returns(states)[-1]) <= game.max_result
        turns, legal = game.to_move(states), game.moves(states, game.initial_history(states))
        assert legal.offsets[0] == 0 and legal.offsets[-1] == len(legal.actions)
        for ply, move in enumerate(moves):
            if turns[ply] == CHANCE:
                chances = game.chance(states[ply : ply + 1])
                assert not legal.counts[ply] and chances.sum() == pytest.approx(1) and chances[0, move] > 0
            else:
                assert move in legal.of(ply) and (np.diff(legal.of(ply)) > 0).all()
        assert legal.counts[-1] == 0


def test_names_of_moves_lead_back_to_them(sample: Sample) -> None:
    game = sample.game
    moves = np.concatenate([[*moves, -1] for moves in sample.moves])
    picked = np.random.default_rng(0).permutation(np.flatnonzero(moves >= 0))[:300]
    for state, move in zip(sample.states[picked], moves[picked].tolist(), strict=True):
        name = game.move_name(state, move)
        for text in (name, name.upper(), f" {name}\n"):
            assert game.parse_move(state, text) == move, game.diagram(state)


def test_rows_do_not_influence_each_other(sample: Sample) -> None:
    game = sample.game
    going = np.flatnonzero(~game.is_over(sample.states))
    going = np.random.default_rng(1).permutation(going)[:400]
    states, history = sample.states[going], sample.history.select(going)
    moves, turns = game.moves(states, history), game.to_move(states)
    first = np.array(
        [0 if turns[i] != CHANCE else game.chance(states[i : i + 1])[0].argmax() for i in range(len(states))]
    )
    before = states.copy()
    together = game.play(states, first, history)
    for i in range(len(states)):
        one, past = states[i : i + 1], history.select(np.array([i]))
        assert game.moves(one, past).of(0).tolist() == moves.of(i).tolist()
        assert (game.play(one, first[i : i + 1], past)[0] == together[i]).all()
    assert (states == before).all() and not np.shares_memory(together, states)
    if game.has_chance:
        assert len(set(turns.tolist())) == 3  # the batch mixed chance with both players


def test_what_is_no_move_is_refused_and_changes_nothing(sample: Sample) -> None:
    game = sample.game
    states = sample.states[: len(sample.moves[0]) + 1]
    before = states.copy()
    for row in range(len(states)):
        one, past = states[row : row + 1], sample.history.select(np.array([row]))
        for wrong in (-1, 30_000):
            with pytest.raises(IllegalMove, match=rf"{game.spec}, row 0: action {wrong}"):
                game.play(one, np.array([wrong], np.int32), past)
        with pytest.raises(IllegalMove, match="nonsense"):
            game.parse_move(states[row], "nonsense")
    assert (states == before).all()


def test_keys_are_equal_exactly_where_the_positions_are(sample: Sample) -> None:
    """The same position: the same diagram, the number of plies aside, which some show."""
    game = sample.game
    picked = np.random.default_rng(2).permutation(len(sample.states))[:2000]
    states = np.concatenate([sample.states[picked], game.initial(1)])
    boards = [game.diagram(state).partition(", ply")[0] for state in states]
    keys = game.keys(states).tolist()
    assert len(set(zip(boards, keys, strict=True))) == len(set(keys)) == len(set(boards))
