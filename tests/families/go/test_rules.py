"""Go's rules as data: positions with diagrams, moves, the positions after them, and forbidden moves with the reason.

Every case is checked on the kernels and on the plain twin. X is black, O white; row 1 is the last line of a diagram.
A position is set up by legal moves: the stones in reading order, colours in turn, passes where one colour has more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.go.game import Go
from tests.games.playing import assert_same_board
from tests.reference.go import BLACK, EMPTY, WHITE, GoReference

KOMI = 7.5
VALUES = {".": 0, "X": 1, "O": -1}
OCCUPIED, SUICIDE, REPEATS = "occupied", "suicide", "repeats"


def read_diagram(text: str) -> tuple[int, list[int]]:
    """-> board size, [P] 1 X, -1 O, 0 neither."""
    marks = text.split()
    size = int(len(marks) ** 0.5)
    assert size * size == len(marks)
    return size, [VALUES[mark] for mark in marks]


class Player(Protocol):
    """What a case needs from an implementation. Actions are points; size² passes."""

    def play(self, action: int) -> None: ...
    def legal(self) -> set[int]: ...
    def stones(self) -> list[int]: ...
    def ownership(self) -> list[int]: ...
    def score(self) -> float: ...
    def result(self) -> int: ...
    def is_over(self) -> bool: ...
    def mover(self) -> int: ...


class KernelPlayer:
    """One game on the batched kernels."""

    def __init__(self, size: int, max_plies: int) -> None:
        self.game = Go(size, KOMI, max_plies)
        self.states = self.game.initial(1)
        self.history = self.game.initial_history(self.states)

    def play(self, action: int) -> None:
        self.states = self.game.play(self.states, np.array([action], np.int32), self.history)
        self.history.append(np.arange(1), self.game.keys(self.states))

    def legal(self) -> set[int]:
        return set(np.flatnonzero(self.game.legal(self.states, self.history)[0]).tolist())

    def stones(self) -> list[int]:
        return [(0, 1, -1)[word] for word in self.states[0, : self.game.num_points]]

    def ownership(self) -> list[int]:
        return self.game.ownership(self.states)[0].tolist()

    def score(self) -> float:
        return float(self.game.scores(self.states)[0])

    def result(self) -> int:
        return int(self.game.returns(self.states)[0])

    def is_over(self) -> bool:
        return bool(self.game.is_over(self.states)[0])

    def mover(self) -> int:
        return (1, -1)[self.game.to_move(self.states)[0]]


class PlainPlayer:
    """One game on the plain twin."""

    def __init__(self, size: int, max_plies: int) -> None:
        self.game = GoReference(size, KOMI, max_plies)

    def play(self, action: int) -> None:
        self.game.play(action)

    def legal(self) -> set[int]:
        return set(self.game.legal())

    def stones(self) -> list[int]:
        return [{EMPTY: 0, BLACK: 1, WHITE: -1}[colour] for colour in self.game.board]

    def ownership(self) -> list[int]:
        return self.game.ownership()

    def score(self) -> float:
        return self.game.score()

    def result(self) -> int:
        return self.game.result()

    def is_over(self) -> bool:
        return self.game.is_over

    def mover(self) -> int:
        return {BLACK: 1, WHITE: -1}[self.game.to_move]


PLAYERS = pytest.mark.parametrize("player_class", [KernelPlayer, PlainPlayer])


def set_up(player_class: type[KernelPlayer] | type[PlainPlayer], diagram: str, mover: str = "X") -> Player:
    """A game that has reached this position, with this colour to move."""
    size, values = read_diagram(diagram)
    player = player_class(size, max_plies=1000)
    waiting = {colour: [point for point, value in enumerate(values) if value == colour] for colour in (1, -1)}
    while waiting[1] or waiting[-1] or player.mover() != VALUES[mover]:
        mine = waiting[player.mover()]
        player.play(mine.pop(0) if mine else size * size)
    assert_same_board(values, player.stones(), size, "set-up: wanted, found")
    assert not player.is_over()
    return player


@dataclass(frozen=True)
class Case:
    """mover: the first player to move in `before`; forbidden, allowed: of the player to move after `moves`."""

    name: str
    mover: str
    before: str
    moves: str = ""
    after: str = ""
    forbidden: dict[str, str] = field(default_factory=dict)  # vertex → word of the reason
    allowed: str = ""


CASES = [
    Case(
        "a stone in the corner",
        mover="X",
        before="""
        . . . . .
        . . . . .
        . . . . .
        X . . . .
        O . . . .""",
        moves="B1",
        after="""
        . . . . .
        . . . . .
        . . . . .
        X . . . .
        . X . . .""",
        forbidden={"B1": OCCUPIED, "A2": OCCUPIED, "A1": SUICIDE},
    ),
    Case(
        "four groups at once",
        mover="X",
        before="""
        . . X . .
        . X O X .
        X O . O X
        . X O X .
        . . X . .""",
        moves="C3",
        after="""
        . . X . .
        . X . X .
        X . X . X
        . X . X .
        . . X . .""",
        forbidden={"C4": SUICIDE, "B3": SUICIDE, "D3": SUICIDE, "C2": SUICIDE},
        allowed="A1 A5 E1 E5 B1",
    ),
    Case(
        "one group that touches the stone on all four sides",
        mover="X",
        before="""
        . . . . . . .
        . X X X X X .
        . X O O O X .
        . X O . O X .
        . X O O O X .
        . X X X X X .
        . . . . . . .""",
        moves="D4",
        after="""
        . . . . . . .
        . X X X X X .
        . X . . . X .
        . X . X . X .
        . X . . . X .
        . X X X X X .
        . . . . . . .""",
        allowed="C5 D5 E5 C4 E4 C3 D3 E3",
    ),
    Case(
        "a group and a single stone, the group on two sides",
        mover="O",
        before="""
        O O O O .
        O X X O .
        O X . X O
        . O O O .
        . . . . .""",
        moves="C3",
        after="""
        O O O O .
        O . . O .
        O . O . O
        . O O O .
        . . . . .""",
    ),
    Case(
        "suicide of one stone",
        mover="O",
        before="""
        . X . . .
        X . X . .
        . X . . .
        . . . . .
        . . . . .""",
        forbidden={"A5": SUICIDE, "B4": SUICIDE},
        allowed="C5 A3 C3",
    ),
    Case(
        "suicide of many stones",
        mover="O",
        before="""
        . O X . .
        O X . . .
        X . . . .
        . . . . .
        . . . . .""",
        forbidden={"A5": SUICIDE},
    ),
    Case(
        "suicide of the whole board",
        mover="X",
        before="""
        X X X X X
        X X X X X
        X X . X X
        X X X X X
        X X X X X""",
        forbidden={"C3": SUICIDE},
        allowed="pass",
    ),
    Case(
        "a capture from a point without liberties is no suicide",
        mover="X",
        before="""
        . O X . .
        O X . . .
        X . . . .
        . . . . .
        . . . . .""",
        moves="A5",
        after="""
        X . X . .
        . X . . .
        X . . . .
        . . . . .
        . . . . .""",
        forbidden={"B5": SUICIDE, "A4": SUICIDE},
    ),
    Case(
        "the last liberty of a board full of stones",
        mover="O",
        before="""
        X X X X X
        X X X X X
        X X . X X
        X X X X X
        X X X X X""",
        moves="C3",
        after="""
        . . . . .
        . . . . .
        . . O . .
        . . . . .
        . . . . .""",
    ),
    Case(
        "filling the last own eye is suicide",
        mover="X",
        before="""
        . X O . .
        X X O . .
        O O O . .
        . . . . .
        . . . X .""",
        forbidden={"A5": SUICIDE},
    ),
    Case(
        "joining a group that breathes is no suicide",
        mover="X",
        before="""
        . X O . .
        X O . . .
        . . . . .
        . . . . .
        . . . . .""",
        moves="A5",
        after="""
        X X O . .
        X O . . .
        . . . . .
        . . . . .
        . . . . .""",
        allowed="A3",
    ),
    Case(
        "snapback",
        mover="X",
        before="""
        . . . . .
        . . . . .
        X X X X X
        X O O O X
        X O . . X""",
        moves="C1 D1 C1",
        after="""
        . . . . .
        . . . . .
        X X X X X
        X . . . X
        X . X . X""",
    ),
    Case(
        "ko: no immediate recapture",
        mover="X",
        before="""
        . . . . .
        . X O . .
        X O . O .
        . X O . .
        . . . . .""",
        moves="C3",
        after="""
        . . . . .
        . X O . .
        X . X O .
        . X O . .
        . . . . .""",
        forbidden={"B3": REPEATS},
        allowed="A1 pass",
    ),
    Case(
        "ko: recapture after a threat and its answer",
        mover="X",
        before="""
        . . . . .
        . X O . .
        X O . O .
        . X O . .
        . . . . .""",
        moves="C3 E5 A1",
        after="""
        . . . . O
        . X O . .
        X . X O .
        . X O . .
        X . . . .""",
        allowed="B3",
    ),
    Case(
        "no ko where one stone is taken back for two",
        mover="X",
        before="""
        . X X O .
        X O O . O
        . X X O .
        . . . . .
        . . . . .""",
        moves="D4 C4",
        after="""
        . X X O .
        X . O . O
        . X X O .
        . . . . .
        . . . . .""",
        forbidden={"D4": SUICIDE},
        allowed="B4",
    ),
    Case(
        "triple ko: the sixth capture would restore the first position",
        mover="X",
        before="""
        . X O . . . . . .
        X O . O . . . . .
        . X O . . . . . .
        . X O . . . . . .
        X . X O . . . . .
        . X O . . . . . .
        . X O . . . . . .
        X O . O . . . . .
        . X O . . . . . .""",
        moves="C8 B5 C2 B8 C5",
        after="""
        . X O . . . . . .
        X O . O . . . . .
        . X O . . . . . .
        . X O . . . . . .
        X . X O . . . . .
        . X O . . . . . .
        . X O . . . . . .
        X . X O . . . . .
        . X O . . . . . .""",
        forbidden={"B2": REPEATS, "B5": REPEATS},
        allowed="J1 pass",
    ),
    Case(
        "sending two, returning one: forbidden although the other side would be to move (positional superko)",
        mover="O",
        before="""
        . . . . .
        . . . . .
        . . . . .
        X X O . .
        . O . O .""",
        moves="A1 C1",
        after="""
        . . . . .
        . . . . .
        . . . . .
        X X O . .
        . . X O .""",
        forbidden={"B1": REPEATS},
        allowed="A1",
    ),
    Case(
        "superko by a move that captures nothing",
        mover="X",
        before="""
        . . . . .
        . . . . .
        . . . . .
        X X O . .
        O O . O .""",
        moves="C1 B1 pass",
        after="""
        . . . . .
        . . . . .
        . . . . .
        X X O . .
        . O . O .""",
        forbidden={"A1": REPEATS},
        allowed="C1",
    ),
]


def action_of(size: int, vertex: str) -> int:
    return Go(size).parse_action(vertex)


@PLAYERS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case: Case, player_class: type[KernelPlayer] | type[PlainPlayer]) -> None:
    size, _ = read_diagram(case.before)
    player = set_up(player_class, case.before, case.mover)
    for vertex in case.moves.split():
        player.play(action_of(size, vertex))
    if case.moves:
        assert_same_board(read_diagram(case.after)[1], player.stones(), size, f"{case.name}: wanted, found")
    legal, stones = player.legal(), player.stones()
    for vertex, reason in case.forbidden.items():
        assert action_of(size, vertex) not in legal, f"{case.name}: {vertex} is legal"
        with pytest.raises(IllegalMove, match=reason):
            player.play(action_of(size, vertex))
    assert_same_board(stones, player.stones(), size, f"{case.name}: a refused move changed the board")
    for vertex in case.allowed.split():
        assert action_of(size, vertex) in legal, f"{case.name}: {vertex} is forbidden"


@dataclass(frozen=True)
class ScoreCase:
    name: str
    board: str
    owners: str
    score: int  # before komi


SCORE_CASES = [
    ScoreCase(
        "nobody owns an empty board",
        board=". . . . .  . . . . .  . . . . .  . . . . .  . . . . .",
        owners=". . . . .  . . . . .  . . . . .  . . . . .  . . . . .",
        score=0,
    ),
    ScoreCase(
        "one stone owns all",
        board="""
        . . . . .
        . . . . .
        . . . O .
        . . . . .
        . . . . .""",
        owners="""
        O O O O O
        O O O O O
        O O O O O
        O O O O O
        O O O O O""",
        score=-25,
    ),
    ScoreCase(
        "points between are nobody's, closed ones the owner's",
        board="""
        . X . O .
        . X . O .
        . X X O .
        . X . O .
        . X . O O""",
        owners="""
        X X . O O
        X X . O O
        X X X O O
        X X . O O
        X X . O O""",
        score=1,
    ),
    ScoreCase(
        "seki: the two shared liberties are nobody's",
        board="""
        . X . X . X .
        X X X X X X X
        O O O O O O O
        O O . X . X X
        X X X X X X X
        O O O O O O O
        . O . O . O .""",
        owners="""
        X X X X X X X
        X X X X X X X
        O O O O O O O
        O O . X . X X
        X X X X X X X
        O O O O O O O
        O O O O O O O""",
        score=1,
    ),
    ScoreCase(
        "no stone is judged dead",
        board="""
        . . X . .
        . . X . .
        O . X . .
        . . X . .
        . . X . .""",
        owners="""
        . . X X X
        . . X X X
        O . X X X
        . . X X X
        . . X X X""",
        score=14,
    ),
    ScoreCase(
        "regions that touch only diagonally are apart",
        board="""
        . X . . .
        X O O O O
        . O . . .
        . O . . .
        . O . . .""",
        owners="""
        X X . . .
        X O O O O
        . O O O O
        . O O O O
        . O O O O""",
        score=-13,
    ),
]


@PLAYERS
@pytest.mark.parametrize("case", SCORE_CASES, ids=lambda case: case.name)
def test_score(case: ScoreCase, player_class: type[KernelPlayer] | type[PlainPlayer]) -> None:
    size, owners = read_diagram(case.owners)
    player = set_up(player_class, case.board)
    assert_same_board(owners, player.ownership(), size, f"{case.name}: owners wanted, found")
    assert player.score() == case.score - KOMI
    assert player.result() == 0, "not over yet"
    while not player.is_over():
        player.play(size * size)
    assert player.result() == (1 if case.score > KOMI else -1)


@PLAYERS
def test_two_passes_in_a_row_end_the_game(player_class: type[KernelPlayer] | type[PlainPlayer]) -> None:
    player = player_class(5, max_plies=50)
    for action, over in [(25, False), (0, False), (25, False), (1, False), (25, False), (25, True)]:
        assert not player.is_over()
        player.play(action)
        assert player.is_over() == over
    assert player.legal() == set()
    for action in (25, 2):
        with pytest.raises(IllegalMove, match="the game is over"):
            player.play(action)


@PLAYERS
@pytest.mark.parametrize("last", [7, 25])
def test_the_move_limit_ends_and_scores_the_game(
    last: int, player_class: type[KernelPlayer] | type[PlainPlayer]
) -> None:
    player = player_class(5, max_plies=4)
    for action in (12, 25, 13):
        player.play(action)
        assert not player.is_over() and player.result() == 0
    player.play(last)
    assert player.is_over() and player.legal() == set()
    assert player.score() == (25 if last == 25 else 1) - KOMI
    assert player.result() == (1 if last == 25 else -1)


def test_a_position_is_its_stones_whoever_is_to_move() -> None:
    """The positional superko: a pass leads to no new position."""
    player = KernelPlayer(5, max_plies=50)
    for action in (12, 25):
        player.play(action)
    start, black, passed = player.history.keys[0, :3].tolist()
    assert start != black == passed


def test_whole_komi_can_draw() -> None:
    game = Go(5, komi=25)
    states = game.initial(1)
    history = game.initial_history(states)
    for action in (12, 25, 25):
        states = game.play(states, np.array([action], np.int32), history)
        history.append(np.arange(1), game.keys(states))
    assert game.is_over(states)[0] and game.scores(states)[0] == 0 and game.returns(states)[0] == 0


def test_planes_of_a_position() -> None:
    """Every plane of one position, written out."""
    before = """
    . . . . .
    . X O . .
    X O . O .
    . X O . .
    . . . . ."""
    player = set_up(KernelPlayer, before)
    assert isinstance(player, KernelPlayer)
    game = player.game
    player.play(action_of(5, "C3"))  # captures B3, which O may not take back
    planes = game.observe(player.states, game.legal(player.states, player.history))[0]
    named = {
        name: " ".join(game.action_name(p) for p in np.flatnonzero(plane))
        for name, plane in zip(game.plane_names, planes.reshape(game.num_planes, -1), strict=True)
    }
    everywhere = " ".join(game.action_name(p) for p in range(25))
    # Set-up in reading order: B4 C4, A3 B3, B2 D3, pass C2; then C3.
    assert named == {
        "own stones": "C4 D3 C2",
        "opponent's stones": "B4 A3 C3 B2",
        "own, 1 liberty": "",
        "own, 2 liberties": "C4 C2",
        "own, 3 or more liberties": "D3",
        "opponent's, 1 liberty": "C3",
        "opponent's, 2 liberties": "",
        "opponent's, 3 or more liberties": "B4 A3 B2",
        "last move": "C3",
        "move before last": "C2",
        "third last move": "",
        "fourth last move": "D3",
        "empty but forbidden (ko, superko, suicide)": "B3",
        "white to move": everywhere,
        "last move was a pass": "",
        "on the board": everywhere,
        "own, 4 or more liberties": "",
        "own, 5 or more liberties": "",
        "opponent's, 4 or more liberties": "",
        "opponent's, 5 or more liberties": "",
        "a play here has 1 liberty": "A4 B3 A2",
        "a play here has 2 liberties": "A5 B5 E5 A1 B1 E1",
        "a play here has 3 liberties": "C5 D5 E4 E2 C1 D1",
        "a play here has 4 or more liberties": "D4 E3 D2",
        "a play here captures": "B3",
        "opponent's play here has 1 liberty": "",
        "opponent's play here has 2 liberties": "A5 C5 E5 D4 E3 D2 A1 C1 E1",
        "opponent's play here has 3 liberties": "D5 E4 E2 D1",
        "opponent's play here has 4 or more liberties": "B5 A4 B3 A2 B1",
        "opponent's play here captures": "",
        "own, caught in a ladder": "",
        "opponent's, caught in a ladder": "",
        "a play here catches in a ladder": "",
        "opponent's play here catches in a ladder": "",
    }
