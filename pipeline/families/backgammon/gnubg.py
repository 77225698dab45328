"""``GnubgPlayer``: GNU Backgammon as a player, cubeless money play with the match's own dice.

gnubg runs as an engine; its embedded Python runs gnubg_answers.py. One process serves all rows of a player, since every
question carries its complete position. Its answers are checked against the rules. Requires the program ``gnubg``
(Debian package gnubg) on the PATH or in /usr/games.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.backgammon import notation
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, TURN
from pipeline.games.contract import AnyGame
from pipeline.players.engine_process import GAMES_FOLDER, NumberedEngine
from pipeline.players.player import PlayerFault
from pipeline.players.process_player import ProcessPlayer, Question

PROGRAM, SCRIPT = "gnubg", Path(__file__).with_name("gnubg_answers.py")
# Answers go through a separate file descriptor, because gnubg prints a greeting on standard output.
REDIRECTED = 'exec 3>&1 1>&2 "$0" "$@"'


def installed() -> str | None:
    """The path of gnubg; None if it isn't installed."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=GAMES_FOLDER)


def command(plies: int) -> str:
    """The command line that runs gnubg. Raises UsageError if it isn't installed."""
    path = installed()
    if path is None:
        raise UsageError(
            f"gnubg:{plies}: no program {PROGRAM!r} on the PATH or in {GAMES_FOLDER}; install it "
            "(Debian: apt install gnubg)"
        )
    return shlex.join(["sh", "-c", REDIRECTED, path, "--tty", "--quiet", "--no-rc", "--python", str(SCRIPT)])


class GnubgEngine(NumberedEngine):
    """A running gnubg with its script."""

    protocol: ClassVar[str] = PROGRAM
    example: ClassVar[str] = "0"


class GnubgPlayer(ProcessPlayer[GnubgEngine]):
    """See the module docstring."""

    def __init__(self, game: AnyGame, num_rows: int, plies: int, name: str, seconds: float) -> None:
        """game: one that GnubgKind.check_game accepts. Raises UsageError if gnubg isn't installed."""
        self._plies, line = plies, command(plies)
        super().__init__(game, num_rows, name, lambda: GnubgEngine(line, name, seconds))

    def _ask(self, engine: GnubgEngine, question: Question, is_new: bool) -> int:
        if is_new and engine.send("hello", engine.start_seconds) != PROGRAM:
            raise PlayerFault("protocol", self._name, f"is not the program {PROGRAM}")
        text = engine.send(f"move {' '.join(map(str, self._numbers(question)))}")
        try:
            return self._game.parse_move(question.state[0], text)
        except IllegalMove as error:
            problem = f"chose {text[:60]!r} at ply {len(question.moves)}: {error}"
            raise PlayerFault("illegal", self._name, problem) from None

    def _numbers(self, question: Question) -> list[int]:
        """The numbers of a question, see gnubg_answers.py: dice, both players' checkers, plies."""
        state = question.state[0]
        mover = int(state[TURN])
        found = [int(state[HIGH_DIE]), int(state[LOW_DIE])]
        for player in (mover, 1 - mover):
            found += np.maximum(notation.view(state, player)[1:], 0).tolist()
        return [*found, self._plies]
