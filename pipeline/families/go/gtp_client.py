"""``GtpEngine``: the client's side of the Go Text Protocol, version 2, for one engine in a process of its own.

This module knows no board: vertices are text here, and no rule is checked.
Source: Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pipeline.families.go.player_kind import EXAMPLE
from pipeline.players.engine_process import NumberedEngine, quote
from pipeline.players.player import PlayerFault

NEEDED_COMMANDS = ("boardsize", "clear_board", "komi", "play", "genmove")

_SCORE = re.compile(r"([BW])\+(\d{1,4}(?:\.\d{1,4})?)|0|jigo|draw", re.IGNORECASE)


def parse_score(name: str, answer: str) -> float:
    """Black's lead in an answer to final_score, ``B+3.5``, ``W+0.5`` or ``0``. Raises PlayerFault for anything else."""
    found = _SCORE.fullmatch(answer.strip())
    if found is None:
        raise PlayerFault("protocol", name, f"answered final_score with {quote(answer)}; wanted e.g. B+3.5")
    return float(found[2]) * (1 if found[1].upper() == "B" else -1) if found[1] else 0.0


class GtpEngine(NumberedEngine):
    """A running engine. Call handshake() first, then send() any number of times.

    commands: the answer to list_commands.
    """

    protocol: ClassVar[str] = "gtp"
    example: ClassVar[str] = EXAMPLE
    commands: frozenset[str] = frozenset()

    def handshake(self) -> None:
        """Check that it speaks GTP 2 and knows the commands of a game. Raises PlayerFault "protocol" if it doesn't.

        Each of the two answers may take start_seconds.
        """
        limit = self.start_seconds
        version = self.send("protocol_version", limit)
        if version.strip() != "2":
            raise self._fault("protocol", f"speaks GTP version {quote(version)}; wanted 2")
        self.commands = frozenset(self.send("list_commands", limit).split())
        missing = [command for command in NEEDED_COMMANDS if command not in self.commands]
        if missing:
            raise self._fault("protocol", f"doesn't know {', '.join(missing)}; wanted an engine that can play a game")
