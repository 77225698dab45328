"""The contract, rules in diagrams, and a plain twin by union-find."""

from __future__ import annotations

import numpy as np
import pytest
from mugo_hex.game import Hex

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import History, board_symmetries
from pipeline.games.testing import check_game, random_games

NO_HISTORY = History.empty(1, 1)  # earlier positions mean nothing here


@pytest.mark.parametrize("size", [3, 5, 8])
def test_the_contract(size: int) -> None:
    check_game(Hex(size))


def test_all_boards_as_one_game() -> None:
    game = Hex.from_spec("any", {"size": "5"})
    assert isinstance(game, Hex) and game.spec == "hex:any,size=5" and Hex.from_spec("any", {}).board_shape == (7, 7)
    check_game(game)


def test_reflections_are_no_symmetries() -> None:
    game = Hex(4)
    game.symmetries = board_symmetries(4, 4)
    with pytest.raises(AssertionError, match=r"symmetries, .*; wanted only symmetries that rules and planes obey"):
        check_game(game)


def played(game: Hex, moves: str) -> np.ndarray:
    """[1, S] after moves like "D4 A1"."""
    state = game.initial(1)
    for name in moves.split():
        state = game.play(state, np.array([game.parse_action(name)], np.int32), NO_HISTORY)
    return state


RULES = (  # moves, whose result, diagram
    ("B3 A1 B2 C1 B1", 1, """
 3 . X .
 2  . X .
 1   O X O
      A B C
      over, ply 5"""),
    ("C3 A1 B2 A2 A3 B1 C2", 0, """
 3 X . X
 2  O X X
 1   O O .
      A B C
      O to move, ply 7"""),
    ("C3 A1 B2 B1 A3 C1", -1, """
 3 X . X
 2  . X .
 1   O O O
      A B C
      over, ply 6"""),
    ("A3 C3 B2 C1 C2 B1 A2", 0, """
 3 X . O
 2  X X X
 1   . O O
      A B C
      O to move, ply 7"""),
)  # fmt: skip


@pytest.mark.parametrize(("moves", "result", "diagram"), RULES)
def test_rules(moves: str, result: int, diagram: str) -> None:
    game = Hex(3)
    state = played(game, moves)
    assert game.diagram(state[0]) == diagram[1:]
    assert game.returns(state)[0] == result


def test_what_is_refused() -> None:
    game = Hex(3)
    with pytest.raises(IllegalMove, match=r"hex:3, row 0: action 6 \(A1\): the point is occupied"):
        played(game, "A1 A1")
    with pytest.raises(IllegalMove, match=r"action 3 \(A2\): the game is over"):
        played(game, "B3 A1 B2 C1 B1 A2")
    for size, options in (("2", {}), ("20", {}), (None, {}), ("5", {"swap": "on"})):
        with pytest.raises(UsageError, match="hex"):
            Hex.from_spec(size, options)


class UnionFind:
    """The plain twin of one game: chains as sets of points, the four sides among them."""

    def __init__(self, size: int) -> None:
        self.size, self.stones = size, dict[tuple[int, int], int]()
        self.parent: dict[object, object] = {}

    def root(self, one: object) -> object:
        while (above := self.parent.get(one, one)) != one:
            one = above
        return one

    def _join(self, one: object, other: object) -> None:
        self.parent[self.root(one)] = self.root(other)

    def put(self, row: int, column: int, player: int) -> bool:
        """Whether this stone wins."""
        self.stones[row, column] = player
        for down, right in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)):
            if self.stones.get((row + down, column + right)) == player:
                self._join((row + down, column + right), (row, column))
        along = row if player == 0 else column
        for side, place in (("near", 0), ("far", self.size - 1)):
            if along == place:
                self._join((player, side), (row, column))
        return self.root((player, "near")) == self.root((player, "far"))


@pytest.mark.parametrize(("size", "num_games"), [(3, 2000), (5, 1000), (11, 40)])
def test_the_twin_agrees(size: int, num_games: int) -> None:
    game = Hex(size)
    twins = [UnionFind(size) for _ in range(num_games)]
    for step in random_games(game, num_games, seed=size):
        over, returns = game.is_over(step.after), game.returns(step.after)
        for i, row in enumerate(step.rows.tolist()):
            player = int(game.plies(step.states[i : i + 1])[0]) % 2
            wins = twins[row].put(*divmod(int(step.actions[i]), size), player)
            assert over[i] == wins, game.diagram(step.after[i])
            assert returns[i] == wins * (1 - 2 * player)


def test_the_heuristic_wins_at_once_and_blocks() -> None:
    game = Hex(3)
    for moves, best in (("B3 A1 B2 C1", {"A1", "B1"}), ("A3 B1 A2 C1", {"A1"})):
        state = played(game, moves)
        scores = game.heuristic()(state, NO_HISTORY)[0]
        assert game.action_name(int(scores.argmax())) in best, game.diagram(state[0])
