"""What a game may be able to do beyond its rules. Each class is one capability, with defaults that say "it can't".

``AnyGame`` inherits them all, so everybody may ask any game; an author overrides those that the game has and can skip
the rest. Axes and viewpoints are those of contract.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame, FloatArray, States
    from pipeline.games.records import PlayedGame


@dataclass(frozen=True)
class Sgf:
    """How a game is written in SGF. Moves are points of the board, and the pass.

    game   the standard's number (GM)       rules  the name of the rules (RU), may be empty
    komi   (KM), None where there is none   margin  whether results say by how much (RE[B+7.5]), in the unit of scores()
    """

    game: int
    rules: str = ""
    komi: float | None = None
    margin: bool = False


class Named:
    """Its spec, and what the other capabilities ask of the rules."""

    spec: str

    def initial(self, num_games: int) -> States:
        raise NotImplementedError


class InRecords(Named):
    """How people name its sides and moves, and how its games are written in SGF and other records."""

    colours = ("Black", "White")  # of the first and the second player
    sgf: Sgf | None = None  # how its games are written in SGF
    has_own_sgf = False  # whether own_sgf() writes them instead, since its moves aren't points of a board
    names_need_position = False  # whether move_name() depends on the position, so that an action alone can't be named

    def own_sgf(self, played: PlayedGame) -> str:
        """A game in SGF. Raises IllegalMove for a move that the rules forbid."""
        raise NotImplementedError(f"{self.spec} has no SGF of its own")

    def kind_of(self, moves: Sequence[int]) -> str:
        """Which of several games that this one plays these moves are of; "" where it is one alone."""
        return ""

    def played_on(self, states: States) -> States:
        """[B, S] the same positions, with the games going on where whoever leads a game may do so: records and managers
        of programs have gone on there. Only ends that others may overlook or decline are taken back; here none.
        """
        return states


class Komi(Named):
    """Points that the second player is given."""

    gtp_komi: float | None = None  # of a square board, in whose engines' notation action_name names the moves

    def with_komi(self, komi: float) -> Self:
        """This game with this komi. Raises UsageError for one that it doesn't know."""
        if komi != (self.gtp_komi or 0.0):
            raise UsageError(f"{self.spec}: komi {komi:g}; it has one komi only")
        return self


class Setups(Named):
    """Games of one spec that differ by their *setup*, a number: 0 is the usual game; for instance, half points of komi
    beyond the usual ones.
    """

    def begin(self, setups: NDArray[np.integer]) -> States:
        """[B, S] the initial positions of games with these setups [B]."""
        if np.any(setups):
            raise IllegalMove(f"{self.spec}: setup {setups[np.flatnonzero(setups)[0]]}; it has one beginning only")
        return self.initial(len(setups))

    def varied(self, setup: int) -> Self:
        """The game that begins with this setup where another isn't named."""
        if setup:
            raise IllegalMove(f"{self.spec}: setup {setup}; it has one beginning only")
        return self

    def adopt(self, states: States) -> States:
        """[B, S] positions of a game that differs from this one by its setup alone, as positions of this one."""
        return states


class AllBoards(Named):
    """One network for several boards."""

    # Of Game's planes the last ones, each the same at all points; only games of all boards with any komi have them.
    num_global_planes: int = 0

    @property
    def family(self) -> str:
        """The spec that its models name: its own, or that of the game of all boards that it belongs to."""
        return self.spec

    def on_board(self, size: int) -> Self:
        """This game on a square board of this size. Raises UsageError unless it is one of all boards."""
        raise UsageError(f"{self.spec} is played on one board; wanted a game of all boards")

    def as_seen(self, other: AnyGame) -> Self | None:
        """How whoever plays this game sees another: the same states, rules and actions, maybe more planes.

        None if it can't play that.
        """
        return self if other.spec == self.spec else None


class SetUpBoards(Named):
    """Positions that people set up: handicap stones, records that begin in the middle, moves out of turn."""

    can_set_up: bool = False  # whether position() and with_turn() work

    def position(self, first: Sequence[int], second: Sequence[int], to_move: int | None = None) -> States:
        """[1, S] with these stones of the first and of the second player, nothing played before.

        to_move: whose turn it is; None: as the numbers of stones say, or the first player's.

        Raises IllegalMove if the rules know no such position.
        """
        raise NotImplementedError(f"{self.spec} begins at its initial position")

    def with_turn(self, states: States, to_move: int) -> States:
        """[B, S] the same boards with this player to move and the games going on, even after their last moves."""
        raise NotImplementedError(f"{self.spec}: players take turns")

    def handicap(self, stones: int) -> list[int]:
        """The points on which the first player has so many handicap stones, for position(), in a usual order.

        Raises UsageError for a number that the game doesn't know.
        """
        raise UsageError(f"{self.spec} knows no handicap stones")


class Endings(Named):
    """What counts when a game stops before its board is settled, or could stop earlier."""

    can_settle: bool = False  # whether settled_owners() may ever say anything

    @property
    def num_points(self) -> int:
        """P"""
        raise NotImplementedError(f"{self.spec} isn't played on points")

    def settled_owners(self, states: States) -> NDArray[np.int8]:
        """[B, P] int8 like ownership(), but for good: 0 where play may still decide whose a point is.

        Where no point is 0, the game has nothing left to decide: its score is settled_scores() of these.
        """
        return np.zeros((len(states), self.num_points), np.int8)

    def settled_scores(self, states: States, owners: NDArray[np.int8]) -> FloatArray:
        """[B] float32, as scores(), of states [B, S] whose points belong to owners [B, P]."""
        raise NotImplementedError(f"{self.spec} is played to its end")

    def without_move_limit(self) -> Self:
        """The same game without a limit on its length that its rules don't need: for games against others."""
        return self


class SeesOpponents(Named):
    """Networks that see whether a player meets one that doesn't learn: a position's value depends on the opponent's
    strength. The setup says so: that player's number plus 1; 0: both learn.
    """

    sees_opponents = False

    def met_by(self, states: States, players: NDArray[np.int8]) -> States:
        """[B, S] the same positions of games in which players [B] meet one that doesn't learn. See sees_opponents."""
        raise NotImplementedError(f"{self.spec}: networks don't see who they meet")


class Capabilities(InRecords, Komi, Setups, AllBoards, SetUpBoards, Endings, SeesOpponents):
    """All of them."""
