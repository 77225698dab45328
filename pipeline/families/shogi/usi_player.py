"""``UsiPlayer``: an engine of shogi behind a pipe that speaks the Universal Shogi Interface.

``usi:COMMAND; NAME=VALUE; go LIMITS``: the command line, then options of the engine's, then what it gets to think with
(``go nodes 1000``, ``go btime 0 wtime 0 byoyomi 1000``; a second by default) for each move, whatever it used before.
One process serves all rows of a player, since every question carries its whole game. An engine that plays several games
is told which by its option USI_Variant or UCI_Variant. Its moves are checked by our rules. ``bestmove win``, a
declaration, is a fault: with declaration=27 the game ends before the engine can declare, and with the other rules the
engine must be set to the same one.

Source: http://shogidokoro.starfree.jp/usi.html
"""

from __future__ import annotations

import re
import time
from typing import ClassVar, cast

from pipeline.errors import IllegalMove
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.player_kind import EXAMPLE, UsiCommand, parse_command
from pipeline.games.contract import AnyGame
from pipeline.players.engine_process import PipedEngine, quote
from pipeline.players.player import RESIGN, PlayerFault
from pipeline.players.process_player import ProcessPlayer, Question

VARIANTS = ("USI_Variant", "UCI_Variant")
_OPTION = re.compile(r"option name (.+?) type \w+.*")


class UsiEngine(PipedEngine):
    """A running engine. handshake() comes first, then begin() and best() any number of times."""

    protocol: ClassVar[str] = "usi"
    example: ClassVar[str] = EXAMPLE

    def __init__(self, command: str, name: str, seconds: float) -> None:
        self._games: dict[int, int] = {}  # row → the number of the latest game there that it knows of
        super().__init__(command, name, seconds)

    def handshake(self, command: UsiCommand, variant: str) -> None:
        """Set its options and the game. Raises PlayerFault "protocol" if it hasn't got them or doesn't speak USI."""
        limit = self.start_seconds
        known = {found[1] for line in self._until("usi", "usiok", limit) if (found := _OPTION.fullmatch(line.strip()))}
        known |= {"USI_Hash", "USI_Ponder"}  # which engines needn't list
        self._speaks = True
        chosen = {name for name, _ in command.options}
        names = [name for name in VARIANTS if name in known and name not in chosen]
        for name, value in [*((name, variant) for name in names), *command.options]:
            if name not in known:
                raise self._fault("protocol", f"has no option {name!r}; known: {', '.join(sorted(known))}")
            self._write(f"setoption name {name} value {value}")
        self._until("isready", "readyok", limit)

    def begin(self, row: int, game_number: int) -> None:
        """Tell it of a new game in this row, unless it has been told."""
        if self._games.get(row) != game_number:
            self._write("usinewgame")
            self._games[row] = game_number

    def best(self, position: str, go: str) -> str:
        """The word that follows bestmove: a move, resign or win. Raises PlayerFault."""
        self._write(position)
        last = self._until(go, "bestmove", self.seconds)[-1].split()
        if len(last) < 2:
            raise self._fault("protocol", f"answered {go!r} with {quote(' '.join(last))}; wanted bestmove MOVE")
        return last[1]

    def _until(self, command: str, word: str, seconds: float) -> list[str]:
        """Send this; its lines up to the one that begins with this word, that included."""
        self._write(command)
        deadline = time.monotonic() + seconds
        lines = [self._read_line(command, deadline, seconds)]
        while lines[-1].split()[:1] != [word]:
            if lines[-1].startswith("info"):
                lines.pop()
            lines.append(self._read_line(command, deadline, seconds))
        return lines


class UsiPlayer(ProcessPlayer[UsiEngine]):
    """See the module docstring."""

    def __init__(self, game: AnyGame, num_rows: int, command: str, name: str, seconds: float) -> None:
        """game: one that UsiKind.check_game accepts. Raises UsageError for an invalid command."""
        self._shogi = cast(Shogi, game)
        self._command = parse_command(command)
        super().__init__(game, num_rows, name, lambda: UsiEngine(self._command.program, name, seconds))

    def _ask(self, engine: UsiEngine, question: Question, is_new: bool) -> int:
        if is_new:
            engine.handshake(self._command, self._shogi.usi_variant)
        engine.begin(question.row, question.game_number)
        moves = self._shogi.line_names(self._shogi.initial(1), question.moves)
        position = f"position startpos{' moves ' if moves else ''}{' '.join(moves)}"
        answer = engine.best(position, self._command.go)
        if answer == "resign":
            return RESIGN
        if answer == "win":
            problem = (
                f"declares a win at ply {len(moves)}, where {self._shogi.spec} allows none; wanted an engine with the "
                "same rule: set its own option, e.g. EnteringKingRule"
            )
            raise PlayerFault("protocol", self._name, problem)
        try:
            action = self._shogi.parse_move(question.state[0], answer)
        except IllegalMove as error:
            problem = f"answered at ply {len(moves)}: {self._shogi.in_words(str(error))}"
            raise PlayerFault("protocol", self._name, problem) from None
        return self._allowed(question, answer, action)
