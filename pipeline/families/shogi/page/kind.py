"""``ShogiPage``: shogi and minishogi on the main page, from any SFEN, with the records of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import FORMATS, NOT_DECIDED, SUFFIXES, parse_kifu
from pipeline.families.shogi.page.table import ShogiTable
from pipeline.games.contract import AnyGame, Game
from pipeline.games.sgf import AnotherGame, is_sgf
from pipeline.play.page.analyst import Refused
from pipeline.play.page.page_kinds import BeginningField, BoardPage
from pipeline.play.page.table import Beginning


def beginning_at(game: Shogi, text: str) -> Beginning:
    """Raises Refused if the text is no position of this board, or one in which the game is over."""
    sfen = text.removeprefix("position ").removeprefix("sfen ")
    try:
        start = game.without_move_limit().from_sfen(sfen)
    except IllegalMove as error:
        raise Refused(400, str(error)) from error
    if game.without_move_limit().is_over(start)[0]:
        raise Refused(400, f"SFEN {sfen[:100]!r}: the game is over there")
    return Beginning(start)


class ShogiPage(BoardPage):
    files = ("shogi.js", "shogi.css")
    specs = ("shogi", "shogi:5")
    table = ShogiTable
    beginning = BeginningField("an SFEN", beginning_at)
    record_names: Mapping[str, str] = MappingProxyType(
        {one.suffixes[0][1:]: form.upper() for form, one in FORMATS.items()}
    )
    opens = SUFFIXES

    def plays(self, game: AnyGame) -> bool:
        return isinstance(game, Shogi)

    def read(self, data: bytes, games: Sequence[Game]) -> tuple[Game, Beginning]:
        """The first game of a KIF, CSA, USI or SFEN."""
        if is_sgf(data):
            raise AnotherGame("an SGF; records of shogi aren't SGF")
        own, (found, *others) = parse_kifu(data)
        game = next((game for game in games if isinstance(game, Shogi) and game.size == own.size), None)
        if game is None:
            raise AnotherGame(f"a record of {Shogi(own.size).board_title}, which isn't offered")
        first = int(own.to_move(found.start)[0])
        moves = [((first + ply) % 2, action) for ply, action in enumerate(found.moves)]
        names = tuple("" if name == "?" else name for name in found.players)
        loser = int(found.points > 0) if found.end == "resigned" else None
        notes = list(found.notes)
        if found.end not in ("", NOT_DECIDED, "resigned"):
            who = f"{own.colours[found.points < 0]} wins" if found.points else "a draw"
            notes.append(who if found.end == who else f"{who}: {found.end}")
        if others:
            notes.append(f"the first of {len(others) + 1} games")
        usual = np.array_equal(found.start, own.initial(1))
        return game, Beginning(None if usual else found.start, moves, (names[0], names[1]), loser, tuple(notes))
