"""``ShogiTable``: a game of shogi or minishogi, with pieces, hands, moves by name, and records for other programs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pipeline.families.shogi import kernels, notation
from pipeline.families.shogi.board import LETTERS
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import FORMATS
from pipeline.games.contract import BoolArray, States
from pipeline.games.records import PlayedGame, RecordText
from pipeline.play.page.table import Table

DRAWS = {kernels.REPETITION: "by repetition", kernels.BOTH_ENTERED: "by impasse", kernels.MOVE_LIMIT: "by its length"}


class ShogiTable(Table):
    board: ClassVar[str] = "shogi"
    game: Shogi

    @property
    def records(self) -> tuple[str, ...]:
        return tuple(one.suffixes[0][1:] for one in FORMATS.values() if not one.refusal(self.game))

    def _position(self, ply: int, legal: BoolArray) -> dict[str, Any]:
        """board  [P] pieces as SFEN writes them, or ""      hands  by letter, in SFEN's order
        legal  moves in USI                              last   [from, to] of the last move, from None for a drop
        """
        state, size = self._played.positions[ply].state, self.game.size
        return {
            "board": [notation.piece_letter(piece) if piece else "" for piece in notation.pieces(state, size)],
            "hands": [
                {LETTERS[kind]: held[kind] for kind in notation.HAND_ORDER if held[kind]}
                for held in notation.hands(state, size)
            ],
            "legal": [self.game.move_name(state, int(action)) for action in np.flatnonzero(legal)],
            "can_pass": False,
            "last": self._points_of(self._named[ply - 1]) if ply else None,
            "check": bool(self.game.in_check(state[None])[0]),
            "sfen": self.game.sfen(state),
        }

    def _points_of(self, name: str) -> list[int | None]:
        """[from, to] of a move in USI."""
        source = None if name[1] == "*" else notation.named_square(name[:2], self.game.size)
        return [source, notation.named_square(name[2:4], self.game.size)]

    def _written(self, suffix: str, text: RecordText) -> str:
        game, comments = self._played, self._comments()
        played = PlayedGame(game.actions, text, comments, resigned_by=game.resigned, start=game.start)
        return next(one for one in FORMATS.values() if f".{suffix}" in one.suffixes).write(self.game, played)

    def _outcome(self, states: States) -> str:
        end, result = int(self.game.ends(states)[0]), float(self.game.returns(states)[0])
        if not result:
            return f"The game is drawn {DRAWS[end]}"
        winner = int(result < 0)
        won, loser = f"{self.colours[winner]} wins", self.colours[1 - winner]
        if end == kernels.NO_MOVE:
            return f"{won} by checkmate" if self.game.in_check(states)[0] else f"{won}: {loser} has no move"
        if end == kernels.DECLARATION:
            return f"{won} by declaration: the king has entered with enough pieces"
        if end == kernels.PERPETUAL_CHECK:
            return f"{won}: {loser} gave perpetual check"
        return f"{won} by repetition"
