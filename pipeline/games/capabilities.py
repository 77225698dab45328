"""What only some games can do: classes that a game adds to the bases it has from contract.py.

A game with such a base has all its attributes and methods. Callers ask ``isinstance(game, Komi)``, or one of the
functions here, which answer for any game.

Axes and viewpoints: see contract.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import AnyGame, BoolArray, Game, History, States

if TYPE_CHECKING:
    from pipeline.games.records import PlayedGame

G = TypeVar("G", bound=AnyGame)

Said = tuple[tuple[str, int], ...]
"""The texts among a game's moves, in order, each with a checksum (CRC-32) of what its player was shown before."""


@dataclass(frozen=True)
class Sgf:
    """How a game is written in SGF.

    game    the standard's number (GM)
    rules   the name of the rules (RU), may be empty
    margin  whether results say by how much (RE[B+7.5]), in the unit of scores()
    rules_with_handicap  RU of games with handicap stones; "": rules
    """

    game: int
    rules: str = ""
    margin: bool = False
    rules_with_handicap: str = ""


class InSgf(Game):
    """A game that SGF can hold (sgf.py): its moves are points of the board, and the pass."""

    sgf: Sgf


class OwnSgf(AnyGame):
    """A game that writes SGF by itself, because its moves aren't points of a board."""

    @abstractmethod
    def own_sgf(self, played: PlayedGame) -> str:
        """A game in SGF. Raises IllegalMove for a move that the rules forbid."""


class Komi(AnyGame):
    """A game in which the second player gets points for moving second. scores() include them, spec names them."""

    komi: float

    @abstractmethod
    def with_komi(self, komi: float) -> Self:
        """This game with this komi. Raises UsageError if it isn't played with it."""

    @property
    def title(self) -> str:
        return f"{self.board_title}, komi {self.komi:g}"


def komi_of(game: AnyGame) -> float | None:
    """None: the game has no komi."""
    return game.komi if isinstance(game, Komi) else None


class AnyPosition(Game):
    """A game that goes on from any position: handicap stones, records that begin in the middle, moves out of turn."""

    @abstractmethod
    def position(self, first: Sequence[int], second: Sequence[int], to_move: int | None = None) -> States:
        """[1, S] with these stones of the first and of the second player and no moves before.

        to_move: None: the first player. Raises IllegalMove if the rules allow no such position.
        """

    @abstractmethod
    def with_turn(self, states: States, to_move: int) -> States:
        """[B, S] the same boards with this player to move and the games going on, even after their last moves."""

    def handicap(self, stones: int) -> list[int]:
        """The points of a usual handicap of this many stones for the first player, for position().

        Raises UsageError for a number that the game doesn't have; by default it has none.
        """
        raise UsageError(f"{self.spec} knows no handicap stones")


def usual_handicap(game: AnyGame, stones: int) -> list[int]:
    """AnyPosition.handicap. Also raises UsageError for a game without positions."""
    if not isinstance(game, AnyPosition):
        raise UsageError(f"{game.spec} knows no handicap stones")
    return game.handicap(stones)


class Setups(AnyGame):
    """Games of one spec that begin differently, by a number, the *setup*: 0 is the usual game.

    A setup may be, for instance, half points of komi beyond the usual ones.
    """

    @abstractmethod
    def begin(self, setups: NDArray[np.integer]) -> States:
        """[B, S] the initial positions of games with these setups [B]. Raises IllegalMove for an unknown setup."""

    @abstractmethod
    def varied(self, setup: int) -> Self:
        """The game in which games with this setup can be replayed from initial(). Raises IllegalMove likewise."""

    def adopt(self, states: States) -> States:
        """[B, S] positions of a game that differs from this one only in its setup, as positions of this one."""
        return states


def beginning(game: AnyGame, setups: NDArray[np.integer]) -> States:
    """Setups.begin; a game without setups has only number 0."""
    if isinstance(game, Setups):
        return game.begin(setups)
    if np.any(setups):
        raise IllegalMove(f"{game.spec}: setup {setups[np.flatnonzero(setups)[0]]}; it has one beginning only")
    return game.initial(len(setups))


def variant(game: G, setup: int) -> G:
    """Setups.varied, likewise."""
    if isinstance(game, Setups):
        return game.varied(setup)
    beginning(game, np.array([setup]))
    return game


def adopted(game: AnyGame, states: States) -> States:
    """Setups.adopt."""
    return game.adopt(states) if isinstance(game, Setups) else states


class Spoken(AnyGame):
    """A game whose moves may be texts.

    In play, a number stands for a text, in this process only; play() takes any text that was said, and moves() lists
    suggestions. Records have the texts.

    speaks  whether any of its moves are texts
    """

    speaks: bool

    def legal(self, states: States, history: History) -> BoolArray:
        if self.speaks:
            raise NotImplementedError(f"{self.spec}: its moves are texts, of which no table has room")
        return super().legal(states, history)

    @abstractmethod
    def refused(self, states: States) -> BoolArray:
        """[B] whether the latest move was invalid; states after a player's move."""

    @abstractmethod
    def written(self, moves: Sequence[int]) -> tuple[list[int], Said]:
        """A game's first moves as records have them: numbers below 2^16, the same for every text; and the texts."""

    @abstractmethod
    def recalled(self, moves: Sequence[int], said: Said) -> list[int]:
        """The inverse, in this process. Plays the recorded game again.

        Raises IllegalMove, with the ply, if the moves and texts aren't those of a game, or if a player is now shown
        something else than was recorded.
        """


def written(game: AnyGame, moves: Sequence[int]) -> tuple[list[int], Said]:
    """Spoken.written; the moves of other games are stored as they are."""
    return game.written(moves) if isinstance(game, Spoken) else (list(moves), ())


def recalled(game: AnyGame, moves: Sequence[int], said: Said) -> list[int]:
    """Spoken.recalled, likewise."""
    if isinstance(game, Spoken):
        return game.recalled(moves, said)
    if said:
        raise IllegalMove(f"{len(said)} texts are among the moves, but {game.spec} has none; wanted unchanged records")
    return list(moves)


class SeesOpponents(Setups):
    """A game whose networks see which kind of opponent a player meets: a position's value depends on its strength.

    The setup is the number, plus 1, of a player whose opponent doesn't learn.
    """

    @abstractmethod
    def met_by(self, states: States, players: NDArray[np.int8]) -> States:
        """[B, S] the same positions of games in which players [B] meet an opponent that doesn't learn."""


class SharedRules(AnyGame):
    """A game whose models also play games with other specs, by the same rules."""

    @abstractmethod
    def as_seen(self, other: AnyGame) -> Self | None:
        """Another game as a player of this one sees it: the same states, rules and actions, maybe more planes;
        or for a player that knows no planes and no fixed actions, the other game itself.

        None if a player of this game can't play the other.
        """


def seen_by(game: G, other: AnyGame) -> G | None:
    """SharedRules.as_seen; a player of another game plays that one alone."""
    if isinstance(game, SharedRules):
        return game.as_seen(other)
    return game if other.spec == game.spec else None


class AllBoards(Game, SharedRules):
    """A game of which one network plays boards of many sizes, and with any komi, if the game has it.

    num_global_planes  how many of the last planes are each the same at all points: they tell boards and komi apart
    family             the spec that its models name
    """

    num_global_planes: int
    family: str

    @abstractmethod
    def on_board(self, size: int) -> Self:
        """This game on a square board of this size. Raises UsageError for a size that it doesn't have."""


def family_of(game: AnyGame) -> str:
    """The spec that its models name."""
    return game.family if isinstance(game, AllBoards) else game.spec
