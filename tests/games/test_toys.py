"""Chance, successor positions and defaults of the game contract: toy games, solved through its verbs alone.

That they keep the contract is tested in test_contract.py.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.games.contract import CHANCE, AnyGame, SuccessorGame
from pipeline.games.keys import hashed
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_moves, replay
from tests.games.playing import SMALL
from tests.games.toys import PROBABILITIES, DiceRace, Heaps, Hexapawn


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


def test_hexapawn_is_won_by_the_second_player() -> None:
    """Gardner 1962: on 3×3 the second player wins, after any first move."""
    game = Hexapawn()
    start = game.initial(1)
    assert game.symmetries.points.tolist() == [[*range(9)], [2, 1, 0, 5, 4, 3, 8, 7, 6]]
    assert solver(game, game.max_plies)(start[0]) == -1
    with pytest.raises(IllegalMove, match=r"^hexapawn, row 1: action 1 \(.*\): not legal$"):
        game.play(game.initial(2), np.array([game.parse_action("A1-a2"), 1]), game.initial_history(start))
    for text in ("a1-a4", "", "a1"):
        with pytest.raises(IllegalMove, match=f"^hexapawn: '{text}' is no move; wanted e.g. a2-a3$"):
            game.parse_action(text)


def test_hashed_words_are_told_apart() -> None:
    """Rows of few small words, moved to other places or with two changed by the same amount, never have equal keys."""
    rows = np.array(np.meshgrid(*[np.arange(-2, 3, dtype=np.int16)] * 7)).reshape(7, -1).T
    assert len(np.unique(hashed(rows))) == len(rows) == 5**7
    assert (hashed(rows[::-1])[::-1] == hashed(rows)).all()
    bits = np.unpackbits(hashed(rows)[:, None].view(np.uint8), axis=1).mean(axis=0)
    assert (abs(bits - 0.5) < 0.02).all()  # five standard deviations are 0.009


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
