"""``NAME:any``: a game of square boards as one game of all their sizes, for networks that play them all.

Further planes, each constant, tell a network the size of its board: one for every second size above the smallest. The
game's own board is its *home*, where matches are played; the others have the specs ``NAME:any,size=SIZE``. A model of
it plays every ``NAME:SIZE`` by the same rules.

A game offers this by making its boards with ``maker()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np

from pipeline.errors import UsageError
from pipeline.games.capabilities import AllBoards, seen_by
from pipeline.games.contract import AnyGame, BoolArray, History, Planes, States
from pipeline.games.stones import BoardGame, square_board

ANY, SIZE = "any", "size"


def sides(sizes: range) -> range:
    """The sizes that have a plane: whether a board's side is at least that long."""
    return range(sizes[0] + 2, sizes[-1] + 1, 2)


def side_planes(sizes: range) -> tuple[str, ...]:
    return tuple(f"side of the board at least {side}" for side in sides(sizes))


def maker(
    kind: type[BoardGame], name: str, size: str | None, options: Mapping[str, str], sizes: range, home: int,
    usual: int | None = None, known: tuple[str, ...] = (),
) -> Callable[..., Any]:  # fmt: skip
    """What makes the game of a spec from its rules: kind(side, *rules), of one board or of all.

    kind: takes the side of a board first; home: the board of NAME:any; usual: the size that an error suggests; None:
    home; known: names of options. Raises UsageError for a size that isn't in sizes, or an unknown option.
    """
    usual = home if usual is None else usual
    if size != ANY:
        return partial(kind, square_board(name, size, options, sizes, usual, known))
    side = square_board(name, options.get(SIZE, str(home)), options, sizes, usual, (*known, SIZE))
    return partial(_on_all(kind, name, sizes, home), side)


@lru_cache(maxsize=32)
def _on_all(kind: type[BoardGame], name: str, sizes: range, home: int) -> type[BoardGame]:
    facts = {"_kind": kind, "_name": name, "_sizes": sizes, "_home": home, "__module__": kind.__module__}
    return type(f"{kind.__name__}OnAllBoards", (_OnAllBoards, kind), facts)


class _OnAllBoards(BoardGame, AllBoards):
    """Before a class of games of one board."""

    _kind: ClassVar[type[BoardGame]]
    _name: ClassVar[str]
    _sizes: ClassVar[range]
    _home: ClassVar[int]

    def __init__(self, side: int, *rules: Any) -> None:
        super().__init__(side, *rules)  # type: ignore[call-arg]  # of the class behind this one
        self._side, self._rules = side, rules
        _, comma, options = self.spec.partition(",")
        self.family = f"{self._name}:{ANY}{comma}{options}"
        here = "" if side == self._home else f",{SIZE}={side}"
        self.spec = f"{self._name}:{ANY}{here}{comma}{options}"
        self.plane_names = (*self.plane_names, *side_planes(self._sizes))
        self.num_global_planes = len(sides(self._sizes))
        self._told = (side >= np.array(sides(self._sizes))).astype(np.uint8)[:, None]

    @property
    def board_title(self) -> str:
        square = f"{self._side}×{self._side}"
        name = self._plain(self._side).board_title.removeprefix(f"{square} ")
        return f"{name} on all boards" + ("" if self._side == self._home else f", here {square}")

    def _plain(self, side: int) -> BoardGame:
        """The game of one board."""
        return self._kind(side, *self._rules)  # type: ignore[call-arg]

    def on_board(self, size: int) -> Self:
        if size not in self._sizes:
            kind = "" if self._sizes.step == 1 else "an even number from "
            wanted = f"wanted {kind}{self._sizes[0]} to {self._sizes[-1]}"
            raise UsageError(f"{self.spec}: found size {size}; {wanted}")
        return type(self)(size, *self._rules)

    def as_seen(self, other: AnyGame) -> Self | None:
        side = other.board_shape[0] if isinstance(other, BoardGame) else 0
        if side not in self._sizes:
            return None
        own = self.on_board(side)
        return own if other.spec == own.spec or seen_by(self._plain(side), other) is not None else None

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        super().analyse(states, history, allowed, planes)  # type: ignore[misc]
        if len(planes):
            planes[:, -self.num_global_planes :] = self._told
