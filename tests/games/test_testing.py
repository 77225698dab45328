"""That the kit of pipeline/games/testing.py finds faults: games that break the contract in one way each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.capabilities import AllBoards, AnyPosition, Komi, OwnSgf, Setups, SharedRules
from pipeline.games.contract import AnyGame, Moves
from pipeline.games.testing import check_first_plies, check_game
from tests.games.toys import DIE, DiceRace, Heaps

P = 9  # points of tic-tac-toe


class TitleOfTwoLines(TicTacToe):
    known_as = "Noughts\nand crosses"


class LegalTooWide(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        return np.zeros((len(states), P + 1), np.bool_)


class ReturnsInDoublePrecision(TicTacToe):
    def returns(self, states: Any) -> Any:
        return super().returns(states).astype(np.float64)


class LegalAndObserveWithoutPlanes(TicTacToe):
    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        return self.legal(states, history)


class PlayInPlace(TicTacToe):
    def play(self, states: Any, actions: Any, history: Any) -> Any:
        states[:] = super().play(states, actions, history)
        return states.copy()


class OverIsPartOfTheState(TicTacToe):
    def is_over(self, states: Any) -> Any:
        return states.view(np.bool_)[:, 2 * (P + 2)]


class LegalRaises(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        return states[:, : P + 100][:, P + 50] == 0


class RowsCount(TicTacToe):
    def plies(self, states: Any) -> Any:
        return np.full(len(states), super().plies(states).max(initial=0), np.int32)


class AcceptsOccupiedPoints(TicTacToe):
    def play(self, states: Any, actions: Any, history: Any) -> Any:
        free = self.legal(states, history).argmax(axis=1)
        taken = states[np.arange(len(states)), np.clip(actions, 0, P - 1)] != 0
        return super().play(states, np.where(taken & (actions >= 0) & (actions < P), free, actions), history)


class RefusesWithoutTheRow(TicTacToe):
    def play(self, states: Any, actions: Any, history: Any) -> Any:
        try:
            return super().play(states, actions, history)
        except IllegalMove:
            raise IllegalMove("not allowed") from None


class RefusesALegalMove(TicTacToe):
    def play(self, states: Any, actions: Any, history: Any) -> Any:
        if (np.asarray(actions) == 4).any():
            raise IllegalMove("not the centre")
        return super().play(states, actions, history)


class LegalAfterTheEnd(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        return states[:, :P] == 0

    def observe(self, states: Any, legal: Any) -> Any:
        return super().observe(states, super().legal(states, None))  # type: ignore[arg-type]

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        return self.legal(states, history), self.observe(states, None)


class NothingLegal(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        return super().legal(states, history) & (self.plies(states) < 4)[:, None]

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        legal = self.legal(states, history)
        return legal, self.observe(states, legal)


class WinsBeforeTheEnd(TicTacToe):
    def returns(self, states: Any) -> Any:
        return np.where(self.plies(states) == 3, 1, super().returns(states)).astype(np.float32)


class SeenByTheMover(TicTacToe):
    def returns(self, states: Any) -> Any:
        return np.where(self.to_move(states) == 1, -super().returns(states), super().returns(states))

    def scores(self, states: Any) -> Any:
        return super().returns(states)


class FirstPlayerAlwaysWins(TicTacToe):
    def returns(self, states: Any) -> Any:
        return self.is_over(states).astype(np.float32)


class ManyPlies(TicTacToe):
    def __init__(self) -> None:
        super().__init__()
        self.max_plies = 4


class TheSecondStarts(TicTacToe):
    def to_move(self, states: Any) -> Any:
        return 1 - super().to_move(states)


class PlanesInThrees(TicTacToe):
    def observe(self, states: Any, legal: Any) -> Any:
        return 3 * super().observe(states, legal)

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        legal = self.legal(states, history)
        return legal, self.observe(states, legal)


class PlanesOfTheFirstPlayer(TicTacToe):
    def observe(self, states: Any, legal: Any) -> Any:
        planes = super().observe(states, legal)
        for plane in (0, 1):
            planes[:, plane] = (states[:, :P] == plane + 1).reshape(-1, 3, 3)
        return planes

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        legal = self.legal(states, history)
        return legal, self.observe(states, legal)


class KeysOfThePlies(TicTacToe):
    def keys(self, states: Any) -> Any:
        return self.plies(states).astype(np.uint64)


class Inverse(TicTacToe):
    def __init__(self) -> None:
        super().__init__()
        self.symmetries = replace(self.symmetries, inverse=np.zeros(8, np.int32))


class SymmetryTwice(TicTacToe):
    def __init__(self) -> None:
        super().__init__()
        found = self.symmetries
        self.symmetries = replace(found, actions=found.actions[[0, 0]], points=found.points[[0, 0]],
                                  inverse=np.array([0, 1], np.int32))  # fmt: skip


class NoPermutation(TicTacToe):
    def __init__(self) -> None:
        super().__init__()
        found = self.symmetries
        table = found.points.copy()
        table[3] = 0
        self.symmetries = replace(found, points=table, actions=table)


class StartInACorner(TicTacToe):
    """Not all symmetries of the square leave its start as it is."""

    def initial(self, num_games: int) -> Any:
        states = super().initial(num_games)
        states[:, 0] = 1
        return states

    def is_over(self, states: Any) -> Any:
        return super().is_over(states) | (states[:, :9] != 0).all(axis=1)


class PlaneOfAnEdge(TicTacToe):
    """Its planes know left from right, as Hex's would; the rules don't."""

    def observe(self, states: Any, legal: Any) -> Any:
        planes = super().observe(states, legal)
        planes[:, 2] = np.arange(3) == 0
        return planes

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        legal = self.legal(states, history)
        return legal, self.observe(states, legal)


class NoRowsInTheFirstColumn(TicTacToe):
    """The rules aren't symmetric: who fills the left column hasn't won."""

    def returns(self, states: Any) -> Any:
        left = states[:, [0, 3, 6]]
        same = (left[:, 0] != 0) & (left == left[:, :1]).all(axis=1)
        return np.where(same, -super().returns(states), super().returns(states)).astype(np.float32)


class OneNameForTwo(TicTacToe):
    def action_name(self, action: int) -> str:
        return super().action_name(max(action, 1))


class ParsesAnything(TicTacToe):
    def parse_action(self, text: str) -> int:
        try:
            return super().parse_action(text)
        except IllegalMove:
            return 0


class ParseRaisesValueError(TicTacToe):
    def parse_action(self, text: str) -> int:
        try:
            return super().parse_action(text)
        except IllegalMove:
            return int(text)


class DiagramWithoutStones(TicTacToe):
    def diagram(self, state: Any) -> str:
        return super().diagram(0 * state)


class HeuristicOfAll(TicTacToe):
    def heuristic(self) -> Any:
        return lambda states, history: np.zeros((len(states), P))


class DiceWithoutChance(DiceRace):
    has_chance = False


class LoadedDice(DiceRace):
    def chance(self, states: Any) -> Any:
        return super().chance(states) / 2


class MovesBackwards(DiceRace):
    def moves(self, states: Any, history: Any) -> Any:
        found = super().moves(states, history)
        return Moves(found.offsets, np.ascontiguousarray(found.actions[::-1]))


class MovesForTheDie(DiceRace):
    def to_move(self, states: Any) -> Any:
        return np.where(states[:, DIE] == 3, states[:, 2], super().to_move(states)).astype(np.int8)

    def moves(self, states: Any, history: Any) -> Any:
        return Moves(np.arange(0, 2 * len(states) + 1, 2), np.tile(np.arange(2, dtype=np.int32), len(states)))


class NamesNothing(Heaps):
    def parse_move(self, state: Any, text: str) -> int:
        return 0


class ShortOffsets(Heaps):
    def moves(self, states: Any, history: Any) -> Any:
        found = super().moves(states, history)
        return Moves(found.offsets[:-1], found.actions)


class KomiWithoutItsClass(TicTacToe):
    komi = 0.5


class NoNumberOfKomi(TicTacToe, Komi):
    def with_komi(self, komi: float) -> Any:
        return self


class OneSpecForAllKomi(NoNumberOfKomi):
    komi = 0.5


class WritesNoSgf(Heaps, OwnSgf):
    def own_sgf(self, played: Any) -> str:
        return f"{played.moves}"


class NeverAnotherTurn(TicTacToe, AnyPosition):
    def position(self, first: Any, second: Any, to_move: int | None = None) -> Any:
        return self.initial(1)

    def with_turn(self, states: Any, to_move: int) -> Any:
        return states.copy()


class ForgetsTheStones(NeverAnotherTurn):
    def with_turn(self, states: Any, to_move: int) -> Any:
        after = states.copy()
        after[:, P], after[:, P + 2] = to_move, 0
        return after


class ASetupThatIsNone(TicTacToe, Setups):
    def begin(self, setups: Any) -> Any:
        states = self.initial(len(setups))
        states[:, 0] = 1
        return states

    def varied(self, setup: int) -> Any:
        return self


class SeenAsNobody(TicTacToe, SharedRules):
    def as_seen(self, other: Any) -> Any:
        return None


class GlobalPlanesThatVary(TicTacToe, AllBoards):
    num_global_planes, family = 2, "tictactoe"

    def as_seen(self, other: Any) -> Any:
        return self

    def on_board(self, size: int) -> Any:
        return self


class OneBoardForAll(GlobalPlanesThatVary):
    num_global_planes = 1


class AlwaysTheFirst(TicTacToe):
    def diagram(self, state: Any) -> str:
        return super().diagram(state).replace("O to move", "X to move")


class OneStart(TicTacToe):
    start = TicTacToe().initial(20)

    def initial(self, num_games: int) -> Any:
        return self.start[:num_games]


FAULTS = (  # game, what the first line of the message has
    (TitleOfTwoLines(), r"tictactoe, board_title: found 'Noughts..and crosses'; wanted a line of 1 to 200 characters"),
    (LegalTooWide(), r"tictactoe, legal: found bool of shape \[2, 10\]; wanted bool of shape \[B, 9\] for B = 2"),
    (ReturnsInDoublePrecision(), r"returns: found float64 of shape \[2\]; wanted float32 of shape \[B\] for B = 2"),
    (LegalAndObserveWithoutPlanes(), "legal_and_observe: found 1 arrays in a ndarray; wanted 2"),
    (PlayInPlace(), "play, row 0: found an input that the call has changed; wanted inputs left alone"),
    (OverIsPartOfTheState(), "is_over: found an answer that shares memory with an input; wanted a new array"),
    (LegalRaises(), "legal: raised IndexError: index 59 is out of bounds"),
    (RowsCount(), r"plies, row \d+: found \d; wanted \d: what the row gives alone"),
    (AcceptsOccupiedPoints(), r"play, row \d+: found action \d accepted, which isn't legal here; wanted IllegalMove"),
    (RefusesWithoutTheRow(), r"play, row \d+: found 'not allowed'; wanted a message with tictactoe and row 0: action"),
    (RefusesALegalMove(), "play: found a legal move refused: not the centre; wanted every move that legal"),
    (LegalAfterTheEnd(), r"legal, row \d+: found legal actions after the end; wanted none where is_over"),
    (NothingLegal(), "legal, row 0: found no action, though is_over.. says that the game goes on; wanted at least one"),
    (WinsBeforeTheEnd(), r"returns, row \d+: found 1.0; wanted 0 before the game is over"),
    (SeenByTheMover(), r"returns, row \d+: found -1.0; wanted the sign of scores"),
    (FirstPlayerAlwaysWins(), "returns: found 1 in all 12 random games; wanted different results"),
    (ManyPlies(), "max_plies: found a random game that goes on after ply 4; wanted a bound that holds"),
    (TheSecondStarts(), "to_move, row 0: found 1; wanted 0 at the initial position"),
    (PlanesInThrees(), r"observe, row \d+: found values \[0, 3\]; wanted nothing but \[0, 1\]"),
    (PlanesOfTheFirstPlayer(), r"observe, row \d+: found True at \d; wanted False: plane 0 is the mover's stones"),
    (KeysOfThePlies(), r"keys, row \d+: found the key of row \d+, whose diagram is another; wanted different keys"),
    (Inverse(), "symmetries.inverse: found 0 for symmetry 1, whose actions it doesn't undo; wanted the symmetry that"),
    (SymmetryTwice(), "symmetries.points: found two symmetries that are the same; wanted each once"),
    (NoPermutation(), r"symmetries.actions: found row 3, which is no permutation; wanted each of 0..8 once"),
    (StartInACorner(), "symmetries: found symmetry .*, which moves pieces of the start; wanted symmetries under which"),
    (PlaneOfAnEdge(), "symmetries, observe: found symmetry 1 .* doesn't carry over the plane 'second player to move'"),
    (NoRowsInTheFirstColumn(), "symmetries, returns: found symmetry . .*; wanted only symmetries that"),
    (OneNameForTwo(), "action_name: found 'b3' for actions 0 and 1; wanted a name for each"),
    (ParsesAnything(), "parse_action: found 0 for ''; wanted IllegalMove, as for any text that is no name"),
    (ParseRaisesValueError(), "parse_action: found ValueError for ''; wanted IllegalMove"),
    (DiagramWithoutStones(), r"keys, row \d+: found another key than row \d+ has, whose diagram and turn are the same"),
    (HeuristicOfAll(), r"heuristic, row \d+: found a finite score for the illegal move ..; wanted -inf"),
    (AlwaysTheFirst(), r"diagram: found the last line '.*X to move.*' for both players; wanted whose turn it is"),
    (OneStart(), "initial: found the array that it gave before; wanted a new one"),
    (DiceWithoutChance(), "dicerace:6, has_chance: found False; wanted True, as to_move"),
    (LoadedDice(), "chance, row 0: found probabilities that sum to 0.5; wanted 1"),
    (MovesBackwards(), r"moves, row \d+: found \[1, 0\]; wanted ascending numbers"),
    (MovesForTheDie(), r"moves, row \d+: found legal actions where chance is to move; wanted none where"),
    (NamesNothing(), r"parse_move: found 0 for '.*'; wanted \d+, whose name it is"),
    (KomiWithoutItsClass(), "komi: found an attribute that nothing asks for; wanted the base .*capabilities.Komi for"),
    (NoNumberOfKomi(), "tictactoe, komi: found no such attribute; wanted what the base Komi promises"),
    (OneSpecForAllKomi(), "with_komi: found a game with komi 0.5, tictactoe; wanted komi 1.5, and a spec for each"),
    (WritesNoSgf(), r"own_sgf: found '\[.*\]'; wanted a record of the game in SGF"),
    (NeverAnotherTurn(), r"with_turn, row \d+: found another turn; wanted player 0 to move"),
    (ForgetsTheStones(), "position: found other stones, another turn or plies; wanted the stones and turn given"),
    (ASetupThatIsNone(), "begin, row 0: found 1 at 0; wanted 0: initial.. for the setup 0"),
    (SeenAsNobody(), "as_seen: found None; wanted the game itself for itself"),
    (GlobalPlanesThatVary(), "num_global_planes: found 2; wanted the last planes, each one constant"),
    (OneBoardForAll(), "on_board: found tictactoe of the family tictactoe; wanted the game on size 2"),
    (ShortOffsets(), r"moves: found offsets int64 \[2\], actions int32; wanted offsets int64 \[3\], actions int32"),
)  # fmt: skip


@pytest.mark.parametrize(("game", "message"), FAULTS, ids=lambda value: type(value).__name__)
def test_a_fault_is_named(game: AnyGame, message: str) -> None:
    with pytest.raises(AssertionError, match=message) as raised:
        check_game(game)
    assert str(raised.value).splitlines()[0].startswith(game.spec)


def test_a_fault_of_a_position_shows_it() -> None:
    with pytest.raises(AssertionError, match="to move, ply 3"):
        check_game(WinsBeforeTheEnd())


def test_first_plies_show_wrong_answers_only() -> None:
    for game in (LegalTooWide(), ReturnsInDoublePrecision(), PlayInPlace(), LegalRaises()):
        with pytest.raises(AssertionError, match="tictactoe, "):
            check_first_plies(game)
    for sound in (TicTacToe(), KeysOfThePlies(), DiceRace(), Heaps()):
        check_first_plies(sound)
