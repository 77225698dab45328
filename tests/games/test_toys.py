"""Chance and successor positions in the game contract: two toy games, played and solved through its verbs alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.games.base import CHANCE, AnyGame, SuccessorGame
from pipeline.games.registry import parse_game
from tests.games.playing import SMALL
from tests.games.toys import PROBABILITIES, DiceRace, Heaps, replay

GAMES = [DiceRace(6), DiceRace(3), Heaps(1, 2, 4, 4), Heaps(3, 3)]


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


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
def test_the_contract(game: AnyGame) -> None:
    met_chance = False
    for seed in range(60):
        moves = random_moves(game, seed)
        states = replay(game, moves)
        assert len(moves) <= game.max_plies
        assert game.plies(states).tolist() == list(range(len(moves) + 1))
        assert game.is_over(states).tolist() == [False] * len(moves) + [True]
        assert (game.returns(states)[:-1] == 0).all()
        history = game.initial_history(states)
        turns, legal = game.to_move(states), game.moves(states, history)
        assert legal.offsets[0] == 0 and legal.offsets[-1] == len(legal.actions)
        for ply, move in enumerate(moves):
            met_chance |= turns[ply] == CHANCE
            name = game.move_name(states[ply], move)
            assert game.parse_move(states[ply], name.upper()) == move
            if turns[ply] == CHANCE:
                assert not legal.counts[ply] and game.chance(states[ply : ply + 1]).sum() == pytest.approx(1)
            else:
                assert move in legal.of(ply) and (np.diff(legal.of(ply)) > 0).all()
        assert legal.counts[-1] == 0
        rows = np.arange(len(states))[:, None]
        alone = [game.moves(states[row], history.select(row)).of(0).tolist() for row in rows]
        assert alone == [legal.of(i).tolist() for i in range(len(states))]
    assert met_chance == game.has_chance


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
def test_what_is_no_move_is_refused_and_changes_nothing(game: AnyGame) -> None:
    states = replay(game, random_moves(game, 3))
    before, history = states.copy(), game.initial_history(states)
    for row in range(len(states)):
        one, past = states[row : row + 1], history.select(np.array([row]))
        for wrong in (-1, 99):
            with pytest.raises(IllegalMove, match=rf"{game.spec}, row 0: action {wrong}"):
                game.play(one, np.array([wrong], np.int32), past)
        with pytest.raises(IllegalMove, match="nonsense"):
            game.parse_move(states[row], "nonsense")
    assert (states == before).all()


def test_a_batch_may_mix_chance_and_players() -> None:
    game = DiceRace(6)
    states = np.concatenate([replay(game, random_moves(game, seed))[:6] for seed in range(8)])
    states = states[~game.is_over(states)]
    assert len(set(game.to_move(states).tolist())) == 3
    actions = np.arange(len(states), dtype=np.int32) % 2
    history = game.initial_history(states)
    together = game.play(states, actions, history)
    alone = [
        game.play(states[i : i + 1], actions[i : i + 1], history.select(np.array([i])))[0] for i in range(len(states))
    ]
    assert (together == np.stack(alone)).all()


def solver(game: AnyGame, depth: int):
    """The exact value for the first player by full expansion through the contract's verbs, to `depth` plies."""

    @cache
    def value(words: tuple[int, ...], left: int) -> float:
        state = np.array([words], np.int16)
        if left == 0 or game.is_over(state)[0]:
            return float(game.returns(state)[0])
        history, mover = game.initial_history(state), int(game.to_move(state)[0])
        if mover == CHANCE:
            chances = game.chance(state)[0]
            return sum(float(p) * value(after(state, i, history), left - 1) for i, p in enumerate(chances))
        found = [value(after(state, move, history), left - 1) for move in game.moves(state, history).of(0).tolist()]
        return max(found) if mover == 0 else min(found)

    def after(state, move, history):
        return tuple(game.play(state, np.array([move], np.int32), history)[0].tolist())

    return lambda state: value(tuple(state.tolist()), depth)


def test_chance_weighs_what_the_exact_solution_weighs() -> None:
    """Expectimax through the contract against Bellman's equation, which knows the rules in another way."""
    game = DiceRace(4)
    solved = solver(game, 36)  # after 18 turns nearly every race is over
    start = game.initial(1)[0]
    assert solved(start) == pytest.approx(2 * game.value(0, 0) - 1, abs=0.01)
    behind = np.array([0, 2, 0, 0, 0], np.int16)
    assert solved(behind) == pytest.approx(2 * game.value(0, 2) - 1, abs=0.01)
    assert game.value(2, 0) > 0.5 > game.value(0, 2)


def test_successors_are_solved_like_nim() -> None:
    game = Heaps(1, 2, 4, 4)
    solved = solver(game, game.max_plies)
    positions = {tuple(state[:-2].tolist()) for seed in range(200) for state in replay(game, random_moves(game, seed))}
    assert len(positions) > 40
    for heaps in positions:
        state = np.array([*heaps, 0, 0], np.int16)
        assert (solved(state) == 1) == game.is_won(heaps), heaps


def test_the_order_of_successors_never_changes_and_none_stands_twice() -> None:
    game = Heaps(3, 3)
    first, again = game.successors(game.initial(1)), Heaps(3, 3).successors(game.initial(1))
    assert first.states.tolist() == again.states.tolist()
    assert first.states[:, :2].tolist() == [[3, 0], [3, 1], [3, 2]]  # both heaps are alike: three moves, not six
    assert isinstance(game, SuccessorGame)


@pytest.mark.parametrize("spec", SMALL)
def test_moves_of_board_games_are_their_legal_actions(spec: str) -> None:
    game = parse_game(spec)
    states = game.initial(3)
    history = game.initial_history(states)
    found = game.moves(states, history)
    for row, legal in enumerate(game.legal(states, history)):
        assert found.of(row).tolist() == np.flatnonzero(legal).tolist()
        for action in found.of(row).tolist()[:5]:
            assert game.parse_move(states[row], game.move_name(states[row], action)) == action


def test_probabilities_are_exact() -> None:
    game = DiceRace()
    assert game.chance(game.initial(2)).tolist() == [pytest.approx(PROBABILITIES)] * 2
