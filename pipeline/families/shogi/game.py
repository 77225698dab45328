"""Shogi, and minishogi on 5×5.

Rules, where implementations differ:
    no move      a player without a legal move loses, in check or not
    pawns        no two unpromoted ones of a player on a column; a drop may not mate by itself (but may give check)
    promotion    optional where a piece moves in, into or out of the zone (the three rows at the far end, one on 5×5),
                 forced where it could never move again
    repetition   the fourth occurrence of a position (pieces, hands, player to move) ends the game. A player who gave
                 check with every move since the first occurrence loses. Otherwise it is a draw, on 5×5 a loss of the
                 first player
    declaration  a player to move wins who isn't in check and has the king and ten more pieces in the zone, and enough
                 points: the game ends without a further move, because nobody would decline. Pieces in the zone and in
                 hand count, rooks and bishops 5 points, others 1. The first player needs 28, the second 27.
                 With declaration=24 both need 31; it is a draw if both kings have entered with ten pieces and both
                 players have 24. With declaration=off and on 5×5 there are no declarations
    end          at the move limit, 512 plies by default, 256 on 5×5, the game is a draw and reported as cut short

Spec: ``shogi[,declaration=27|24|off][,moves=LIMIT]`` and ``shogi:5[,moves=LIMIT]``. Actions: see ``moves``. The board
is turned for the second player, so both see their own pieces move up. There are no symmetries: as the rook starts on
the right, mirrored positions don't arise in play.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.shogi import features, kernels, notation
from pipeline.families.shogi.board import HAND_KINDS, LETTERS, THEIRS, geometry
from pipeline.families.shogi.heuristic import move_scores
from pipeline.families.shogi.moves import NUM_KINDS
from pipeline.games.capabilities import SharedRules
from pipeline.games.contract import (
    Actions,
    AnyGame,
    BoolArray,
    History,
    KernelGame,
    KeyArray,
    MoveScores,
    Planes,
    States,
    small_number,
    spec_in_words,
)
from pipeline.games.keys import load_keys
from pipeline.games.row_kernels import GAME_OVER, OCCUPIED, OUT_OF_RANGE
from pipeline.games.stones import check_options, whose_turn

SIZES = (9, 5)
MOVE_LIMITS = {9: 512, 5: 256}
LONGEST = 9_999  # plies of a game without a move limit
OVERLOOKED = (kernels.REPETITION, kernels.PERPETUAL_CHECK, kernels.DECLARATION, kernels.BOTH_ENTERED)  # see played_on
DECLARATIONS = {"27": kernels.RULE_27, "24": kernels.RULE_24, "off": kernels.NO_RULE}
ZOBRIST_SEED = 20261125  # part of no file format: keys never leave a process


class Shogi(KernelGame, SharedRules):
    """See the module docstring for the rules, ``kernels`` for the state's layout."""

    colours = ("Sente", "Gote")
    names_need_position = True
    turns_board = True
    resigned_behind = 0.0  # there is no margin: hopeless games are resigned
    refusals: ClassVar[Mapping[int, str]] = {
        OUT_OF_RANGE: "no such action",
        GAME_OVER: "the game is over",
        OCCUPIED: "an own piece stands there, or a drop needs an empty point",
        kernels.NO_PIECE: "the mover has no piece that can move so",
        kernels.NOT_IN_HAND: "there is none in hand",
        kernels.TWO_PAWNS: "a second pawn on its column",
        kernels.DEAD_END: "the piece could never move again",
        kernels.NO_PROMOTION: "it can't promote there",
        kernels.LEAVES_CHECK: "the king could be taken",
        kernels.PAWN_MATE: "a pawn may not mate by being dropped",
    }

    def __init__(self, size: int, declaration: int = kernels.RULE_27, max_plies: int | None = None) -> None:
        self.size = size
        self.board_shape = (size, size)
        self.num_actions, self.kinds_per_point = NUM_KINDS * size * size, NUM_KINDS
        self.first_word = kernels.words_of(size * size)
        self.state_size = self.first_word + kernels.EXTRA_WORDS
        self.max_plies = self.move_limit = max_plies or MOVE_LIMITS[size]
        self.declaration = declaration if size == 9 else kernels.NO_RULE
        self._layout, self.plane_names = features.layout(size)
        named = {rule: name for name, rule in DECLARATIONS.items()}
        declared = "" if size != 9 or declaration == kernels.RULE_27 else f",declaration={named[declaration]}"
        limit = "" if self.max_plies == MOVE_LIMITS[size] else f",moves={self.max_plies}"
        self.spec = ("shogi" if size == 9 else f"shogi:{size}") + declared + limit
        self.usi_variant = "shogi" if size == 9 else "minishogi"
        self.geometry = geometry(size)
        draw = np.random.default_rng(ZOBRIST_SEED)
        self._zobrist = tuple(
            draw.integers(0, 2**63, shape, np.uint64) * np.uint64(2)
            for shape in ((32, size * size), (2, HAND_KINDS + 1, 19), ())
        )
        self._rules = self.declaration, int(size == 5)

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Shogi:
        """Raises UsageError for a size that isn't in SIZES, an unknown option or an unknown value."""
        board = 9 if size is None else small_number(size)
        if board not in SIZES:
            raise UsageError(f"game shogi: size {size!r}; wanted shogi, or shogi:5")
        check_options("shogi", options, ("declaration", "moves") if board == 9 else ("moves",))
        declaration = options.get("declaration", "27")
        if declaration not in DECLARATIONS:
            raise UsageError(f"game shogi: declaration={declaration}; wanted {', '.join(DECLARATIONS)}")
        limit = options.get("moves")
        if limit is not None and small_number(limit) < 2:
            raise UsageError(f"game shogi: moves={limit}; wanted a whole number from 2 to 9999")
        return Shogi(board, DECLARATIONS[declaration], None if limit is None else int(limit))

    @cached_property
    def _start(self) -> States:
        """[1, S] the initial position. Made when it is needed, as that compiles kernels."""
        return self.from_sfen(notation.START[self.size])

    @property
    def board_title(self) -> str:
        head, _, limit = self.spec.partition(",moves=")
        words = spec_in_words(head.replace(":5", ""), "Shogi" if self.size == 9 else "Minishogi")
        return words if limit in ("", str(LONGEST)) else f"{words}, at most {limit} moves"

    def as_seen(self, other: AnyGame) -> Self | None:
        """Declarations and the move limit may differ: positions and moves are the same."""
        return other if isinstance(other, type(self)) and other.size == self.size else None

    def without_move_limit(self) -> Self:
        return type(self)(self.size, self.declaration, LONGEST)

    def initial(self, num_games: int) -> States:
        return np.repeat(self._start, num_games, axis=0)

    def from_sfen(self, text: str) -> States:
        """[1, S] the position of an SFEN, without earlier moves. Raises IllegalMove that says what is wrong with it."""
        state = notation.parse_sfen(text, self.size)
        if kernels.set_up(state, self.max_plies, self._rules, self.geometry, self._zobrist)[0]:
            raise IllegalMove(f"SFEN {text[:200]!r}: the player who isn't to move is in check")
        return state

    def sfen(self, state: States) -> str:
        """The position [S] as SFEN."""
        return notation.sfen(state, self.size)

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(
            np.ascontiguousarray(states), actions, history.keys, history.lengths, self.max_plies, self._rules,
            self.geometry, self._zobrist,
        )  # fmt: skip

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        kernels.legal_and_observe(
            np.ascontiguousarray(states), history is not None, self.geometry, self._layout, allowed, planes
        )

    def cut_short(self, states: States) -> BoolArray:
        return self.ends(states) == kernels.MOVE_LIMIT

    def ends(self, states: States) -> NDArray[np.int16]:
        """[B] why each game is over, one of kernels' ENDS; 0 if it isn't."""
        found: NDArray[np.int16] = states[:, self.first_word + kernels.END]
        return found

    def played_on(self, states: States) -> States:
        """Take back declarations and repetitions, which players may not make or not notice."""
        after = states.copy()
        overlooked = np.isin(self.ends(states), OVERLOOKED)
        after[overlooked, self.first_word + kernels.END] = after[overlooked, self.first_word + kernels.WINNER] = 0
        return after

    def keys(self, states: States) -> KeyArray:
        """Equal for equal boards, hands and players to move."""
        return load_keys(states, kernels.EXTRA_WORDS - kernels.KEY)

    def in_check(self, states: States) -> BoolArray:
        """[B] whether the player to move is in check."""
        return states[:, self.first_word + kernels.KEY] & 1 == 1

    def ownership(self, states: States) -> NDArray[np.int8]:
        pieces = np.ascontiguousarray(states).view(np.int8)[:, : self.num_points]
        return (pieces != 0).astype(np.int8) - 2 * (pieces >= THEIRS).astype(np.int8)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)

    def action_name(self, action: int) -> str:
        return notation.action_name(action, self.size)

    def parse_action(self, text: str) -> int:
        action = notation.parse_action(text, self.size)
        if action is None:
            raise IllegalMove(
                f"{self.spec}: {text!r} is no action; wanted e.g. U5e, UL5a+ or P*5e, in the mover's view"
            )
        return action

    def move_name(self, state: States, action: int) -> str:
        return notation.usi(state, action, self.size)

    def line_names(self, state: States, actions: Sequence[int]) -> list[str]:
        """These legal moves in USI, one after another from state [1, S]. Ignores repetition and declarations."""
        game = self if self.max_plies >= LONGEST else self.without_move_limit()
        forgotten, names = History.empty(1, 1), []
        for action in actions:
            names.append(game.move_name(state[0], action))
            state = game.play(game.played_on(state), np.array([action], np.int32), forgotten)
        return names

    def parse_move(self, state: States, text: str) -> int:
        action = notation.parse_usi(state, text, self.size)
        if action is None:
            raise IllegalMove(f"{self.spec}: {text!r} is no move here; wanted USI, e.g. 5d5c, 5d5c+ or P*5e")
        return action

    def diagram(self, state: States) -> str:
        """X or O before a piece says whose it is, + that it is promoted; the last line is the position's SFEN."""
        lines = []
        for row in range(self.size):
            pieces = notation.pieces(state, self.size)[row * self.size : (row + 1) * self.size]
            cells = ["XO"[piece >= THEIRS] + notation.piece_letter(piece & 15) if piece else "." for piece in pieces]
            lines.append("".join(f"{cell:>4}" for cell in cells) + f"  {notation.ROWS[row]}")
        lines.append("".join(f"{self.size - column:>4}" for column in range(self.size)))
        for whose, held in zip("XO", notation.hands(state, self.size), strict=True):
            counts = [f"{held[kind]}{LETTERS[kind]}" for kind in notation.HAND_ORDER if held[kind]]
            lines.append(f"{whose} in hand: {' '.join(counts) or '-'}")
        check = ", in check" if self.in_check(state[None])[0] else ""
        return "\n".join([*lines, whose_turn(self, state) + check, f"SFEN {self.sfen(state)}"])
