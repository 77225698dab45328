"""``usi:COMMAND; NAME=VALUE; go LIMITS``: engines of shogi that speak the Universal Shogi Interface."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.players.kinds import ENGINE_ROWS, PlayerKind, name_of_command

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer

EXAMPLE = "fairy-stockfish; go nodes 500"
GO = "go btime 0 wtime 0 byoyomi 1000"  # a second a move

_OPTION = re.compile(r"([^=]+?)\s*=\s*(.*)")
_GO = re.compile(r"go(?: (?:btime|wtime|byoyomi|binc|winc|movetime|nodes|depth) \d{1,9})+")


@dataclass(frozen=True)
class UsiCommand:
    """A parsed spec. program: a command line; options: (name, value) in order; go: the line that asks for a move."""

    program: str
    options: tuple[tuple[str, str], ...]
    go: str


def parse_command(text: str) -> UsiCommand:
    """Parse what follows ``usi:``. Raises UsageError for a part that is neither an option nor go LIMITS."""
    program, *parts = (part.strip() for part in text.split(";"))
    options, go = [], GO
    for part in parts:
        named = _OPTION.fullmatch(part)
        if _GO.fullmatch(part):
            go = part
        elif named and not part.startswith("go "):
            options.append((named[1], named[2]))
        else:
            raise UsageError(f"usi:{text}: {part!r}; wanted NAME=VALUE, or go with limits, e.g. go nodes 1000")
    return UsiCommand(program, tuple(options), go)


class UsiKind(PlayerKind):
    help = "an engine of shogi, e.g. 'usi:fairy-stockfish; go nodes 500'"
    argument = "COMMAND; NAME=VALUE; go LIMITS"
    runs_program = True
    most_rows = ENGINE_ROWS
    takes_handicap = False
    default_game = "shogi"

    def default_name(self, spec: str, argument: str) -> str:
        parse_command(argument)
        return name_of_command(spec, argument, f"usi:{EXAMPLE}")

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:
        from pipeline.families.shogi.game import Shogi
        from pipeline.families.shogi.usi_player import UsiEngine
        from pipeline.players.engine_process import find_program

        if not isinstance(game, Shogi):
            raise UsageError(f"player {spec}: USI engines play shogi only, not {game.spec}; name another player")
        find_program(parse_command(argument).program, UsiEngine)

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.families.shogi.usi_player import UsiPlayer

        return lambda game, rows, thread: UsiPlayer(game, rows, argument, name, seconds)
