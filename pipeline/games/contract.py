"""The contract of a game: batched verbs over rows of one flat state array.

Axes: B batch (independent games), S state words, A actions, C planes, H×W the board, P = H·W points, K symmetries, T
plies, N moves of all rows, O outcomes of chance. Players are 0 (moves first) and 1. Every value or score that a game
returns is seen by the *first player*; planes are seen by the player to move. Functions are pure: they never change
their inputs, rows never influence each other, and nothing here knows search, networks or files.

Three classes, from what every game has to what a method may require:
    AnyGame          states, turns, chance, moves, results: enough for matches, records and replay
    SuccessorGame    its moves are its successor positions: no action has a fixed number (full turns of several dice)
    Game             a fixed list of A actions, a board and planes: what AlphaZero's search and networks need

What only some games can do (SGF, komi, handicaps, many boards) is in capabilities.py: classes that they add as bases.

*Chance* (dice, a shuffled deck) is a player of its own: where to_move() is CHANCE, the next move is an outcome, whose
probabilities chance() lists, and play() takes the outcome's number. Outcomes are recorded with the moves, so replaying
a game needs no dice.

``History`` carries what repetition rules need: the keys (64-bit hashes) of all positions so far, the current one
included. States don't carry it, so the nodes of a search tree can share one history. Games without repetition rules
accept a history and ignore it. Where a repetition ends the game, play() finds it in the history and marks the state.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GameFault, IllegalMove

States = NDArray[np.int16]
Actions = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
KeyArray = NDArray[np.uint64]
Planes = NDArray[np.uint8]
Rows = NDArray[np.int64]  # [n] which games of a batch a call is about
Evaluation = tuple[FloatArray, FloatArray]  # policy_logits [B, A], value_to_move [B]
Evaluate = Callable[[Planes], Evaluation]  # planes [B, C, H, W], C-contiguous; the caller owns the arrays it returns
Scores = NDArray[np.float64]  # [B, A] how good moves are; see games/heuristic.py

CHANCE = 2  # to_move: an outcome of chance comes next
ON = "on"  # the value of a spec's option that stands alone
OFF = "off"


def small_number(text: str) -> int:
    """A whole number of at most four ASCII digits; -1 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else -1


def spec_in_words(spec: str, known_as: str = "", square: bool = False) -> str:
    """ "hex:11,swap" → "Hex 11, swap"; on a square board of that size "11×11 Hex, swap". Leaves komi out.

    known_as: the name to use instead of the spec's.
    """
    head, *options = spec.split(",")
    name, _, size = head.partition(":")
    name = known_as or (name[:1].upper() + name[1:]).replace("_", " ").replace("-", " ")
    words = [f"{size}×{size} {name}" if square else f"{name} {size}".rstrip()]
    pairs = [option.partition("=") for option in options if not option.startswith("komi=")]
    words += [f"{key} {value}".rstrip().replace("_", " ") for key, _, value in pairs]
    return ", ".join(words)


@dataclass(frozen=True)
class Symmetries:
    """How each board symmetry permutes actions and points. Row 0 is the identity.

    actions  [K, A] int32   transformed_policy[actions[k, a]] = policy[a]
    points   [K, P] int32   transformed_plane[points[k, p]] = plane[p]
    inverse  [K]    int32   index of the symmetry that undoes k
    """

    actions: IntArray
    points: IntArray
    inverse: IntArray

    @property
    def count(self) -> int:
        return len(self.points)


@dataclass
class History:
    """Keys of the positions so far in each of B games, the current one included.

    keys     [B, T] uint64   in order of play; the first lengths[b] of row b count
    lengths  [B]    int32
    """

    keys: KeyArray
    lengths: IntArray

    @staticmethod
    def empty(num_games: int, max_positions: int) -> History:
        return History(np.zeros((num_games, max_positions), np.uint64), np.zeros(num_games, np.int32))

    def append(self, rows: NDArray[np.integer], keys: KeyArray) -> None:
        """Record keys[i] as the current position of game rows[i]. Changes this history in place.

        Raises GameFault for a game that goes on beyond its max_plies.
        """
        try:
            self.keys[rows, self.lengths[rows]] = keys
        except IndexError as error:
            most = self.keys.shape[1] - 1
            raise GameFault(f"a game goes on after ply {most}; wanted a max_plies that no game exceeds") from error
        self.lengths[rows] += 1

    def select(self, rows: NDArray[np.integer]) -> History:
        """A copy that holds only these games."""
        return History(self.keys[rows], self.lengths[rows])


MoveScores = Callable[[States, History], Scores]


@dataclass(frozen=True)
class Moves:
    """The legal moves of B positions: row b has actions[offsets[b] : offsets[b + 1]], ascending.

    offsets  [B + 1] int64      actions  [N] int32
    """

    offsets: NDArray[np.int64]
    actions: Actions

    @property
    def counts(self) -> NDArray[np.int64]:
        """[B]"""
        return np.diff(self.offsets)

    def of(self, row: int) -> Actions:
        return self.actions[self.offsets[row] : self.offsets[row + 1]]


class AnyGame(ABC):
    """What every game has, and below it, by topic, what a game may have: the defaults there say that it doesn't.

    See the module docstring for axes, viewpoints and chance. A verb whose default raises NotImplementedError is only
    called for games that say they have it.
    """

    spec: str  # canonical, e.g. "go:9,komi=7.5"; parse_game(spec) gives an equal game
    state_size: int  # S
    max_plies: int  # T: no game lasts longer, outcomes of chance included

    @abstractmethod
    def initial(self, num_games: int) -> States:
        """[B, S] int16, the starting position."""

    @abstractmethod
    def play(self, states: States, actions: Actions, history: History) -> States:
        """[B, S] the states after one move each: an action, or an outcome's number where chance is to move.

        Doesn't change history. Raises IllegalMove, naming row and action, if the position has no such action, the rules
        forbid it (repetition by `history` included), or the game is over.
        """

    @abstractmethod
    def moves(self, states: States, history: History) -> Moves:
        """The legal moves: none where the game is over or chance is to move, at least one elsewhere."""

    @abstractmethod
    def is_over(self, states: States) -> BoolArray:
        """[B]"""

    @abstractmethod
    def returns(self, states: States) -> FloatArray:
        """[B] float32: the result for the first player, 0 where the game is not over.

        In {-1, 0, +1}; in games with double wins and the like, up to max_result.
        """

    @abstractmethod
    def to_move(self, states: States) -> NDArray[np.int8]:
        """[B] int8: 0 if the first player is to move, 1 if the second, CHANCE if an outcome comes next."""

    @abstractmethod
    def plies(self, states: States) -> IntArray:
        """[B] int32: moves made so far, passes and outcomes included."""

    @abstractmethod
    def keys(self, states: States) -> KeyArray:
        """[B] uint64: equal for positions that the repetition rule calls the same."""

    @abstractmethod
    def move_name(self, state: States, action: int) -> str:
        """A move or outcome in the game's usual notation, seen from the position [S] before it."""

    @abstractmethod
    def parse_move(self, state: States, text: str) -> int:
        """The inverse of move_name, case-insensitive. Raises IllegalMove that carries the text."""

    @abstractmethod
    def diagram(self, state: States) -> str:
        """A board a person can read, of one state [S]; X is the first player, O the second."""

    def legal(self, states: States, history: History) -> BoolArray:
        """[B, A] moves() as a table; A is one more than the highest action of these rows, or what the game fixes."""
        moves = self.moves(states, history)
        table = np.zeros((len(states), int(moves.actions.max(initial=-1)) + 1), np.bool_)
        table[np.repeat(np.arange(len(states)), moves.counts), moves.actions] = True
        return table

    def initial_history(self, states: States) -> History:
        """A history with room for a whole game that holds just these positions."""
        history = History.empty(len(states), self.max_plies + 1)
        history.append(np.arange(len(states)), self.keys(states))
        return history

    def _refuse(self, states: States, actions: Actions, status: NDArray[np.uint8], reasons: Mapping[int, str]) -> None:
        """Raise IllegalMove for the first action [B] whose status [B] isn't 0; reasons: by status."""
        if not status.any():
            return
        row = int(np.flatnonzero(status)[0])
        action, reason = int(actions[row]), reasons[int(status[row])]
        try:
            name = self.move_name(states[row], action)
        except IndexError:
            name = "?"
        raise IllegalMove(f"{self.spec}, row {row}: action {action} ({name}): {reason}")

    # Chance, hidden information, passes

    has_chance = False  # whether to_move() may be CHANCE
    perfect_information = True  # whether both players may see all that diagram() shows, and each other's moves
    marks = ("X", "O")  # how the two players are called
    pass_action: int | None = None  # the action that passes

    def view(self, state: States, player: int) -> str:
        """What a person who is this player may see of one state [S]. Without perfect information: all so far."""
        return self.diagram(state)

    def chance(self, states: States) -> FloatArray:
        """[B, O] float32: the probability of each outcome, rows sum to 1. Only asked where chance is to move.

        play() refuses an outcome of probability 0.
        """
        raise NotImplementedError(f"{self.spec} has no chance")

    def passing_last(self, legal: BoolArray) -> BoolArray:
        """legal [n, A], with a pass only where there is no other move."""
        if self.pass_action is None:
            return legal
        others = legal.copy()
        others[:, self.pass_action] = False
        return np.where(others.any(axis=1, keepdims=True), others, legal)

    # Results and ends

    max_result: float = 1.0  # the most points that a win counts
    result_names: Mapping[float, str] = MappingProxyType({})  # names of wins that count more than 1: {2: "double"}
    move_limit: int | None = None  # plies at which a game is ended though its rules would continue it; None: no limit
    has_margins: bool = False  # whether scores() tell more than who has won
    can_settle: bool = False  # whether settled_owners() may ever find an owner
    # By how much people must be behind, in the unit of scores(), to resign a lost game; None: they play to its end.
    resigned_behind: float | None = None

    def scores(self, states: States) -> FloatArray:
        """[B] float32: by how much the first player is ahead, in the game's own unit (points, komi included); by
        default the result.
        """
        return self.returns(states)

    def cut_short(self, states: States) -> BoolArray:
        """[B] whether the move limit alone ended the game, so that nothing is settled on its board."""
        return np.zeros(len(states), np.bool_)

    def without_move_limit(self) -> Self:
        """The same game without a limit on its length that its rules don't need: for games against others."""
        return self

    @property
    def num_points(self) -> int:
        """P"""
        raise NotImplementedError(f"{self.spec} isn't played on points")

    def settled_owners(self, states: States) -> NDArray[np.int8]:
        """[B, P] int8 like ownership(), but final: 0 where play may still decide who gets the point.

        Where no point is 0, the game has nothing left to decide: its score is settled_scores() of these owners.
        """
        return np.zeros((len(states), self.num_points), np.int8)

    def settled_scores(self, states: States, owners: NDArray[np.int8]) -> FloatArray:
        """[B] float32, as scores(), of states [B, S] whose points belong to owners [B, P]."""
        raise NotImplementedError(f"{self.spec} is played to its end")

    # Heuristic

    heuristic_mixes = False  # whether heuristic()'s scores are log-probabilities, from which the move is sampled

    def heuristic(self) -> MoveScores | None:
        """What scores the moves of positions that are not over, for the heuristic player."""
        return None

    # What people call it

    known_as: str = ""  # its name without board and options, such as "Hex"; "": made of the spec
    colours = ("Black", "White")  # of the first and the second player

    @property
    def board_title(self) -> str:
        """The game in words, without its komi, such as "Nim 7" or "11×11 Hex, swap". Made of the spec by default.

        Games with the same board_title have the same board and rules, but for komi.
        """
        return spec_in_words(self.spec, self.known_as)

    @property
    def title(self) -> str:
        """The game in words, such as "11×11 Hex, komi 1.5". By default board_title."""
        return self.board_title

    @property
    def title_here(self) -> str:
        """board_title; of a game of all boards, that of the present one."""
        return self.board_title

    def in_words(self, message: str) -> str:
        """An error's message about this game, for people who see the board: without its spec, rows and numbers."""
        refused = rf"{re.escape(self.spec)}, row \d+: action -?\d+ \((.*?)\): "
        return re.sub(refused, rf"{self.title_here}: \1: ", message).replace(self.spec, self.title_here)

    # Records

    names_need_position = False  # whether move_name() depends on the position

    def kind_of(self, moves: Sequence[int]) -> str:
        """Which game these moves belong to, if this one is a collection of games; else ""."""
        return ""

    def played_on(self, states: States) -> States:
        """[B, S] the same positions, with the game going on where the rules let the players continue.

        Takes back only an end that other programs may overlook or decline, as records show; by default none.
        """
        return states


@dataclass(frozen=True)
class Successors:
    """The positions that the legal moves lead to: row b has states[offsets[b] : offsets[b + 1]], all different.

    offsets  [B + 1] int64      states  [N, S]
    """

    offsets: NDArray[np.int64]
    states: States


class SuccessorGame(AnyGame):
    """A game whose moves are its successor positions: action i is the i-th of them, in an order that never changes.

    A subclass lists them in successors(), and plays the outcomes of chance, if it has any, in happen().
    """

    @abstractmethod
    def successors(self, states: States) -> Successors:
        """The positions after each legal move: none if the game is over or chance is to move, some elsewhere."""

    def happen(self, states: States, outcomes: Actions) -> States:
        """[B, S] the states after an outcome each. All of states [B, S] wait for chance; outcomes [B] are in 0..O-1."""
        raise NotImplementedError(f"{self.spec} has no chance")

    def moves(self, states: States, history: History) -> Moves:
        offsets = self.successors(states).offsets
        counts = np.diff(offsets)
        return Moves(offsets, (np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)).astype(np.int32))

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions, thrown = np.asarray(actions, np.int32), self.to_move(states) == CHANCE
        found = self.successors(states)
        outside = (actions < 0) | (actions >= np.diff(found.offsets))
        if thrown.any():
            chances, outcomes = self.chance(states[thrown]), actions[thrown]
            known = (outcomes >= 0) & (outcomes < chances.shape[1])
            outside[thrown] = ~known | (chances[np.arange(len(outcomes)), np.where(known, outcomes, 0)] == 0)
        status = np.where(self.is_over(states), 2, outside).astype(np.uint8)
        self._refuse(states, actions, status, {1: "no such move", 2: "the game is over"})
        after = np.empty_like(states)
        after[~thrown] = found.states[(found.offsets[:-1] + actions)[~thrown]]
        if thrown.any():
            after[thrown] = self.happen(states[thrown], actions[thrown])
        return after


class Game(AnyGame):
    """A game with a fixed list of actions, on a board that a network sees as planes.

    The players take turns: a player without another move plays a pass action, unless the game is over.
    """

    num_actions: int  # A
    board_shape: tuple[int, int]  # (H, W)
    plane_names: tuple[str, ...]  # C names; new ones always last: older models see the first ones
    repeats: bool = True  # whether earlier positions forbid moves or end games; without, a search keeps no histories
    symmetries_move_start: bool = False  # True: some change the start; check_game can't check those
    turns_board: bool = False  # True: planes and actions are turned by 180° for the second player
    kinds_per_point: int = 1  # action k·P + p, k below this, is a move of kind k to point p; others have no point

    @property
    def board_title(self) -> str:
        size = small_number(self.spec.partition(",")[0].partition(":")[2])
        return spec_in_words(self.spec, self.known_as, square=self.board_shape == (size, size))

    @property
    def num_points(self) -> int:
        return self.board_shape[0] * self.board_shape[1]

    @property
    def num_planes(self) -> int:
        return len(self.plane_names)

    @cached_property
    def symmetries(self) -> Symmetries:
        """Of the board; the start looks the same under all of them. By default there is only the identity."""
        actions, points = np.arange(self.num_actions, dtype=np.int32), np.arange(self.num_points, dtype=np.int32)
        return Symmetries(actions[None], points[None], np.zeros(1, np.int32))

    @abstractmethod
    def legal(self, states: States, history: History) -> BoolArray:
        """[B, A] which actions the rules allow; all False where the game is over, never so elsewhere."""

    def refuse_illegal(self, states: States, actions: Actions, history: History) -> None:
        """For play(): raise IllegalMove for the first of actions [B], any numbers, that legal() doesn't allow."""
        actions = np.asarray(actions)
        known = (actions >= 0) & (actions < self.num_actions)
        allowed = self.legal(states, history)[np.arange(len(states)), np.where(known, actions, 0)]
        status = np.where(known, np.where(self.is_over(states), 2, np.where(allowed, 0, 3)), 1).astype(np.uint8)
        self._refuse(states, actions, status, {1: "no such action", 2: "the game is over", 3: "not legal"})

    @abstractmethod
    def observe(self, states: States, legal: BoolArray) -> Planes:
        """[B, C, H, W] uint8, each 0 or 1: the network's input, from the mover's side.

        legal: what legal() returned for the same states (forbidden points are themselves an input).
        """

    def legal_and_observe(
        self, states: States, history: History, out: tuple[BoolArray, Planes] | None = None
    ) -> tuple[BoolArray, Planes]:
        """legal() and observe() of the same states: what a search asks of every new position.

        out: arrays of those shapes to fill and return instead of new ones, which saves mapping memory for large
        batches. See OneAnalysis for games where both need the same costly analysis.
        """
        legal = self.legal(states, history)
        planes = self.observe(states, legal)
        if out is None:
            return legal, planes
        out[0][:], out[1][:] = legal, planes
        return out

    @abstractmethod
    def ownership(self, states: States) -> NDArray[np.int8]:
        """[B, P] int8: +1 where the first player owns the point in this position, -1 the second, 0 nobody."""

    @abstractmethod
    def action_name(self, action: int) -> str:
        """The move in the game's usual notation ("D4", "pass")."""

    def parse_action(self, text: str) -> int:
        """The inverse of action_name, case-insensitive. Raises IllegalMove that carries the text."""
        action = self._actions_by_name.get(text.strip().casefold())
        if action is None:
            raise IllegalMove(f"{self.spec}: {text!r} is no move; wanted e.g. {self.action_name(0)}")
        return action

    @cached_property
    def _actions_by_name(self) -> dict[str, int]:
        return {self.action_name(action).casefold(): action for action in range(self.num_actions)}

    def planes_diagram(self, planes: Planes) -> str:
        """Planes [C, H, W] of one position as a board a person can read; by default those that vary, by name."""
        lines = []
        for name, plane in zip(self.plane_names, planes, strict=True):
            if plane.any() and not plane.all():
                lines += [f"{name}:", *("  " + " ".join(".#"[cell] for cell in row) for row in plane.tolist())]
        return "\n".join(lines)

    def moves(self, states: States, history: History) -> Moves:
        rows, actions = np.nonzero(self.legal(states, history))
        offsets = np.searchsorted(rows, np.arange(len(states) + 1))
        return Moves(offsets.astype(np.int64), actions.astype(np.int32))

    def move_name(self, state: States, action: int) -> str:
        if not 0 <= action < self.num_actions:
            raise IndexError(action)
        return self.action_name(action)

    def parse_move(self, state: States, text: str) -> int:
        return self.parse_action(text)

    def line_names(self, state: States, actions: Sequence[int]) -> list[str]:
        """The names, as move_name gives them, of legal moves played one after another from state [1, S].

        By default names don't depend on the position; a game where they do plays the moves.
        """
        return [self.action_name(action) for action in actions]


class OneAnalysis(Game):
    """A game whose legal actions and planes come from one costly analysis of a position, which a subclass makes."""

    @abstractmethod
    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        """Fill allowed [B, A] like legal() and planes [B, C, P] like observe().

        Without a history, allowed is already filled and only read. planes may have 0 rows: then none are made.
        """

    def legal(self, states: States, history: History) -> BoolArray:
        allowed = np.empty((len(states), self.num_actions), np.bool_)
        self.analyse(states, history, allowed, np.empty((0, self.num_planes, self.num_points), np.uint8))
        return allowed

    def observe(self, states: States, legal: BoolArray) -> Planes:
        planes = np.empty((len(states), self.num_planes, self.num_points), np.uint8)
        self.analyse(states, None, legal, planes)
        return planes.reshape(-1, self.num_planes, *self.board_shape)

    def legal_and_observe(
        self, states: States, history: History, out: tuple[BoolArray, Planes] | None = None
    ) -> tuple[BoolArray, Planes]:
        if out is None:
            planes = np.empty((len(states), self.num_planes, *self.board_shape), np.uint8)
            out = np.empty((len(states), self.num_actions), np.bool_), planes
        self.analyse(states, history, out[0], out[1].reshape(len(states), self.num_planes, self.num_points))
        return out


class CommonWords(Game):
    """A game whose states have the words TO_MOVE, PLY, OVER and WINNER, in this order.

    TO_MOVE is 0 or 1, PLY the moves made, OVER 0 until the game is over, WINNER 1 for the first player, 2 for the
    second, else 0. A game without a word for its winner overrides returns().

    first_word  where TO_MOVE stands in a state
    """

    first_word: int

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, self.first_word].astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, self.first_word + 1].astype(np.int32)

    def is_over(self, states: States) -> BoolArray:
        return states[:, self.first_word + 2] != 0

    def returns(self, states: States) -> FloatArray:
        winners = states[:, self.first_word + 3]
        return (winners == 1).astype(np.float32) - (winners == 2)


class KernelGame(OneAnalysis, CommonWords):
    """A game whose rules are kernels.

    refusals  why an action is refused, by the kernel's status
    """

    refusals: ClassVar[Mapping[int, str]]

    @abstractmethod
    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        """-> states [B, S] after actions [B] int32, and status [B]: 0, or one of refusals (then the row is garbage)."""

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions = np.asarray(actions, np.int32)
        after, status = self.attempt(states, actions, history)
        self._refuse(states, actions, status, self.refusals)
        return after


def move_symmetries(moves: Sequence[tuple[int, int]], start: NDArray[np.integer]) -> Symmetries:
    """The symmetries of a board whose action a moves a piece from point moves[a][0] to point moves[a][1].

    Those of the board that send every move to a move, and under which the start [H, W], any numbers, looks the same.
    """
    number, board = {move: action for action, move in enumerate(moves)}, board_symmetries(*start.shape)
    images: dict[int, list[int]] = {}  # of all actions, by symmetry of the board
    for k, points in enumerate(board.points):
        found = [number.get((int(points[a]), int(points[b])), -1) for a, b in moves]
        if min(found) >= 0 and (start.ravel()[points] == start.ravel()).all():
            images[k] = found
    kept = [*images]
    inverse = [kept.index(k) for k in board.inverse[kept]]
    return Symmetries(np.array([*images.values()], np.int32), board.points[kept], np.array(inverse, np.int32))


def board_symmetries(height: int, width: int, extra_actions: int = 0) -> Symmetries:
    """The symmetries of a board whose action p < P is "play on point p"; other actions stay as they are.

    Square boards have 8 (rotations and reflections), others 4.
    """
    points = np.arange(height * width).reshape(height, width)
    images = []
    for flipped in (points, points[:, ::-1]):
        for quarter_turns in range(4):
            image = np.rot90(flipped, quarter_turns)
            if image.shape == (height, width):
                images.append(np.ascontiguousarray(image).ravel())
    # image[q] = the point that lands on q, so point image[q] moves to q: invert to get "p goes to".
    table = np.stack([np.argsort(image) for image in images]).astype(np.int32)
    inverse = np.array([(table == image).all(axis=1).argmax() for image in images], np.int32)
    fixed = np.arange(height * width, height * width + extra_actions, dtype=np.int32)
    actions = np.concatenate([table, np.broadcast_to(fixed, (len(table), extra_actions))], axis=1)
    return Symmetries(np.ascontiguousarray(actions), table, inverse)
