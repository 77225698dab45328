"""The player spec ``gnubg:PLIES``: GNU Backgammon with a lookahead of 0, 1, 2 … plies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.players.kinds import PlayerKind

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer

MOST_PLIES = 4  # more take minutes a move


class GnubgKind(PlayerKind):
    help = "GNU Backgammon"
    argument = "PLIES"
    runs_program = True
    default_game = "backgammon"
    takes_handicap = False

    def default_name(self, spec: str, argument: str) -> str:
        if argument not in map(str, range(MOST_PLIES + 1)):
            raise UsageError(f"player {spec!r}: {argument[:20]!r} plies; wanted gnubg:0 to gnubg:{MOST_PLIES}")
        return f"gnubg-{argument}ply"

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:
        from pipeline.families.backgammon import gnubg
        from pipeline.families.backgammon.game import Backgammon

        if not isinstance(game, Backgammon) or game.is_hypergammon:
            raise UsageError(f"player {spec}: GNU Backgammon plays backgammon only, not {game.spec}; name another")
        gnubg.command(int(argument))  # raises UsageError if the program is missing

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.families.backgammon.gnubg import GnubgPlayer

        return lambda game, rows, thread: GnubgPlayer(game, rows, int(argument), name, seconds)
