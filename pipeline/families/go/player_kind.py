"""``gtp:COMMAND``: engines of Go that speak the Go Text Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.players.kinds import ENGINE_ROWS, PlayerKind, name_of_command

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer

EXAMPLE = "gnugo --mode gtp --level 1"


class GtpKind(PlayerKind):
    help = "an engine that speaks GTP, e.g. 'gtp:gnugo --mode gtp --level 1 --chinese-rules'"
    argument = "COMMAND"
    runs_program = True
    most_rows = ENGINE_ROWS

    def default_name(self, spec: str, argument: str) -> str:
        return name_of_command(spec, argument, f"gtp:{EXAMPLE}")

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:
        from pipeline.families.go.gtp_client import GtpEngine
        from pipeline.games.capabilities import Komi
        from pipeline.players.engine_process import find_program

        if not isinstance(game, Komi):
            raise UsageError(f"player {spec!r}: GTP engines play Go only; the game is {game.spec}")
        find_program(argument, GtpEngine)

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.families.go.gtp_player import GtpPlayer

        return lambda game, rows, thread: GtpPlayer(game, rows, argument, name, seconds)

    def place_handicap(
        self,
        game: AnyGame,
        argument: str,
        name: str,
        stones: int,
        seeds: Sequence[Sequence[int]],
        seconds: float,
        known: Sequence[Sequence[int]],
    ) -> list[list[int]]:
        """As the engine likes best."""
        from pipeline.families.go.gtp_player import place_handicap
        from pipeline.games.contract import Game

        assert isinstance(game, Game)  # as check_game has found
        return place_handicap(game, argument, name, stones, seeds, seconds, known)
