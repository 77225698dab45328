"""``UsiPlayer``: an engine of shogi behind a pipe that speaks the Universal Shogi Interface.

``usi:COMMAND; NAME=VALUE; go LIMITS``: the command line, then options of the engine, then what it may use for each move
(``go nodes 1000``, ``go btime 0 wtime 0 byoyomi 1000``; a second by default), whatever it used before.
One process serves all rows of a player, because every question carries its whole game. An engine that plays several
games is told which by its option USI_Variant or UCI_Variant. Its moves are checked by our rules. ``bestmove win``, a
declaration, is no move: by our rules a game that can be declared is over already.

Source: http://shogidokoro.starfree.jp/usi.html
"""

from __future__ import annotations

import re
import time
from typing import ClassVar, cast

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.player_kind import EXAMPLE, UsiCommand, parse_command
from pipeline.games.contract import AnyGame
from pipeline.players.engine_process import PipedEngine, quote
from pipeline.players.player import RESIGN, PlayerFault
from pipeline.players.process_player import ProcessPlayer, Question

VARIANTS = ("USI_Variant", "UCI_Variant")
_OPTION = re.compile(r"option name (.+?) type \w+.*")


def check_game(game: AnyGame, text: str) -> None:
    """Raises UsageError unless USI engines play the game. text: the player's spec."""
    if not isinstance(game, Shogi):
        raise UsageError(f"player {text}: USI engines play shogi only, not {game.spec}; name another player")


class UsiEngine(PipedEngine):
    """A running engine. Call handshake() first, then best() any number of times.

    games: for each row, the number of the game that the engine was told of last.
    """

    protocol: ClassVar[str] = "usi"
    example: ClassVar[str] = EXAMPLE

    def __init__(self, command: UsiCommand, variant: str, name: str, seconds: float) -> None:
        self._options, self._variant = command.options, variant
        self.games: dict[int, int] = {}
        super().__init__(command.program, name, seconds)

    def handshake(self) -> None:
        """Set its options and the game. Raises PlayerFault "protocol" if it lacks one or doesn't speak USI."""
        limit = self.start_seconds
        known = {found[1] for line in self._until("usi", "usiok", limit) if (found := _OPTION.fullmatch(line.strip()))}
        self._speaks = True
        chosen = {name for name, _ in self._options}
        variants = [(name, self._variant) for name in VARIANTS if name in known and name not in chosen]
        for name, value in [*variants, *self._options]:
            if name not in known:
                raise self._fault("protocol", f"has no option {name!r}; known: {', '.join(sorted(known))}")
            self._write(f"setoption name {name} value {value}")
        self._until("isready", "readyok", limit)

    def new_game(self) -> None:
        self._write("usinewgame")

    def best(self, position: str, go: str) -> str:
        """The word that follows bestmove: a move, resign or win. Raises PlayerFault."""
        self._write(position)
        last = self._until(go, "bestmove", self.seconds)[-1].split()
        if len(last) < 2:
            raise self._fault("protocol", f"answered {go!r} with {quote(' '.join(last))}; wanted bestmove MOVE")
        return last[1]

    def _until(self, command: str, word: str, seconds: float) -> list[str]:
        """Send a command -> the lines of its answer up to the one that begins with this word, without info lines."""
        self._write(command)
        deadline = time.monotonic() + seconds
        lines: list[str] = []
        while not lines or lines[-1].split()[:1] != [word]:
            line = self._read_line(command, deadline, seconds)
            if not line.startswith("info"):
                lines.append(line)
        return lines


class UsiPlayer(ProcessPlayer[UsiEngine]):
    """See the module docstring."""

    def __init__(self, game: AnyGame, num_rows: int, command: str, name: str, seconds: float) -> None:
        """seconds: limit of each move. Starts no process yet."""
        self._shogi = cast(Shogi, game)
        self._command = parse_command(command)
        self._seconds = seconds
        super().__init__(game, num_rows, name)

    def _start(self) -> UsiEngine:
        return UsiEngine(self._command, self._shogi.usi_variant, self._name, self._seconds)

    def _ask(self, engine: UsiEngine, question: Question) -> int:
        game = self._shogi
        if engine.games.get(question.row) != question.game_number:
            engine.new_game()
            engine.games[question.row] = question.game_number
        moves = game.line_names(game.initial(1), question.moves)
        position = f"position startpos{' moves ' if moves else ''}{' '.join(moves)}"
        answer = engine.best(position, self._command.go)
        if answer == "resign":
            return RESIGN
        try:
            action = game.parse_move(question.state[0], answer)
        except IllegalMove as error:
            problem = f"answered at ply {len(question.moves)}: {error}"
            raise PlayerFault("protocol", self._name, problem) from None
        self._check_rules(question, action, answer)
        return int(action)
