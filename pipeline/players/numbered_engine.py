"""``NumberedEngine``: a program behind a pipe that answers numbered commands.

A command is one line, ``7 genmove black``. The answer is ``=7 D4`` or ``?7 why not``, any number of further lines, and
an empty line. A ``?`` answer is the fault "refusal"; see ``PipedEngine`` for the others. Knows no specific command.
"""

from __future__ import annotations

import re
import time

from pipeline.players.engine_process import MAX_REPLY_BYTES, PipedEngine, quote

_REPLY = re.compile(r"([=?])(\d*)(?: (.*))?")


class NumberedEngine(PipedEngine):
    """A running engine that answers numbered commands."""

    def __init__(self, command: str, name: str, seconds: float) -> None:
        self._next_id = 1
        super().__init__(command, name, seconds)

    def send(self, command: str, seconds: float | None = None) -> str:
        """The answer to one command, without marker, number, comments and control characters; keeps line breaks.

        seconds: time limit, after which the engine is killed. Raises PlayerFault of all three kinds.
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
                continue  # no answer has begun
            text, comment, _ = line.partition("#")
            if comment and not text.strip():
                continue  # a line with only a comment doesn't end an answer
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
