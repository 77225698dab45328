"""``GtpEngine``: the client's side of the Go Text Protocol, version 2, for one engine in a process of its own.

A command goes out as one line, ``7 genmove black``; the answer comes back as ``=7 D4`` or ``?7 why not``, any number
of further lines, and an empty line. A ``?`` answer is the fault "refusal"; see ``PipedEngine`` for the others.

This module knows no board: vertices are text here, and no rule is checked.
Source: Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002.
"""

from __future__ import annotations

import re
import time
from typing import ClassVar

from pipeline.players.engine_process import MAX_REPLY_BYTES, PipedEngine, quote
from pipeline.players.player import PlayerFault

NEEDED_COMMANDS = ("boardsize", "clear_board", "komi", "play", "genmove")

_SCORE = re.compile(r"([BW])\+(\d{1,4}(?:\.\d{1,4})?)|0|jigo|draw", re.IGNORECASE)
_REPLY = re.compile(r"([=?])(\d*)(?: (.*))?")


def parse_score(name: str, answer: str) -> float:
    """Black's lead in an answer to final_score, ``B+3.5``, ``W+0.5`` or ``0``. Raises PlayerFault for anything else."""
    found = _SCORE.fullmatch(answer.strip())
    if found is None:
        raise PlayerFault("protocol", name, f"answered final_score with {quote(answer)}; wanted e.g. B+3.5")
    return float(found[2]) * (1 if found[1].upper() == "B" else -1) if found[1] else 0.0


class GtpEngine(PipedEngine):
    """A running engine. handshake() comes first, then send() any number of times.

    commands: what list_commands answered.
    """

    protocol: ClassVar[str] = "gtp"

    def __init__(self, command: str, name: str, seconds: float) -> None:
        self.commands: frozenset[str] = frozenset()
        self._next_id = 1
        super().__init__(command, name, seconds)

    def handshake(self) -> None:
        """Check that it speaks GTP 2 and knows the commands of a game. Raises PlayerFault "protocol" if it doesn't.

        Each of its two answers may take the limit of a command, or START_SECONDS if that is longer.
        """
        limit = self.start_seconds
        version = self.send("protocol_version", limit)
        if version.strip() != "2":
            raise self._fault("protocol", f"speaks GTP version {quote(version)}; wanted 2")
        self.commands = frozenset(self.send("list_commands", limit).split())
        missing = [command for command in NEEDED_COMMANDS if command not in self.commands]
        if missing:
            raise self._fault("protocol", f"doesn't know {', '.join(missing)}; wanted an engine that can play a game")

    def send(self, command: str, seconds: float | None = None) -> str:
        """Its answer to one command, without marker, id, comments and control characters; lines are kept apart.

        seconds: how long the answer may take; then the engine is killed. Raises PlayerFault of all three kinds.
        """
        limit = self.seconds if seconds is None else seconds
        deadline = time.monotonic() + limit
        number = str(self._next_id)
        self._write(command)
        self._next_id += 1
        lines: list[str] = []
        num_bytes = 0
        while True:
            line = self._read_line(command, deadline, limit)
            num_bytes += len(line)
            if num_bytes > MAX_REPLY_BYTES:
                raise self._fault("protocol", f"answered {command!r} with more than {MAX_REPLY_BYTES} bytes")
            if not line:
                if lines:
                    break
                continue  # no answer has begun that an empty line could end
            text, comment, _ = line.partition("#")
            if comment and not text.strip():
                continue  # a comment alone doesn't end an answer
            if not lines and text[0] not in "=?":
                problem = f"answered {command!r} with {quote(line)}; wanted a line that begins with = or ?"
                raise self._fault("protocol", problem)
            lines.append(text)
        parts = _REPLY.fullmatch(lines[0])
        if parts is None or parts[2] != number:
            problem = f"answered {command!r}, number {number}, with {quote(lines[0])}; wanted ={number} or ?{number}"
            raise self._fault("protocol", problem)
        self._speaks = True
        answer = "\n".join([parts[3] or "", *lines[1:]]).strip()
        if parts[1] == "?":
            raise self._fault("refusal", f"refused {command!r}: {quote(answer)}")
        return answer

    def _line(self, command: str) -> str:
        return f"{self._next_id} {command}"
