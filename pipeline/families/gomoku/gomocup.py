"""The Gomocup (Piskvork) protocol: lines in, lines out, so that public managers can run a model of Gomoku.

A manager sends START, then BEGIN or TURN X,Y or BOARD … DONE, and gets the engine's own move ``X,Y`` as the answer; X
is the column and Y the row, both counted from 0 at the upper left. The answer to an unknown line is UNKNOWN, to another
line that can't be followed ERROR; the position stays as it was and the engine goes on. (A TURN that ends the game is
played before the answer ERROR, because no move is left.) Lines between BOARD and DONE get no answers, nor does INFO,
unless its rule isn't the model's. Stones of BOARD may come in any order; lines of a continuous game (third field 3) are
refused.

INFO's limits of time are observed, to within one batch of the network; its other limits are ignored. SWAP2BOARD and
other opening rules are unknown: the answer is one UNKNOWN for the command and its lines up to DONE.
Source: https://plastovicka.github.io/protocl2en.htm
"""

from __future__ import annotations

import math
import re

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.families.gomoku.game import Gomoku
from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import small_number
from pipeline.play.command_lines import TOO_LONG, CommandLines, shown
from pipeline.play.session import SearchSession

ABOUT = 'name="MuGo", version="0.1", author="the MuGo developers", country="international"'
OWN, THEIRS = "1", "2"  # fields of BOARD
MARGIN_SECONDS = 0.1  # of every limit, for everything but thinking
MOVES_LEFT = 20  # moves for which the rest of a match's time must last
WITHIN_BOARD = {"INFO", "ABOUT", "END"}  # commands that may come between BOARD and DONE
MILLISECONDS = {"timeout_turn", "timeout_match", "time_left"}
UNLIMITED = 2147483.647  # seconds of time_left; a manager sends negative ones when the time is over


class ProtocolError(Exception):
    """A line that can't be followed; the error's text is the answer."""


class Gomocup:
    """The protocol's state for one manager. answer() never raises, whatever the manager sends."""

    def __init__(self, session: SearchSession, lines: CommandLines | None = None) -> None:
        """lines: END and the end of the input end searches, see CommandLines.ended_by; None: they wait."""
        assert isinstance(session.game, Gomoku)
        self.session, self._game = session, session.game
        self._size, self._captures = self._game.size, self._game.rules.goal > 0
        self._lines = lines
        self._started = False
        self._board: list[tuple[str, int]] | None = None  # lines of BOARD so far
        self._broken = ""  # what is wrong with the first bad one
        self._placed: tuple[list[int], list[int]] = ([], [])  # each player's stones of the last BOARD
        self._skips = False  # whether lines belong to an unknown command, up to DONE
        self._limits: dict[str, float] = {}  # by INFO key, in seconds
        self.ended = False

    def answer(self, line: str) -> list[str]:
        """The lines to send back, none or more."""
        if line.startswith(TOO_LONG):
            self._board = None
            return ["ERROR line too long"]
        words = line.strip().split(None, 1)
        if not words:
            return []
        command, rest = words[0].upper(), words[1] if len(words) > 1 else ""
        if self._skips and (command == "DONE" or not line.strip()[0].isalpha()):
            self._skips = command != "DONE"
            return []
        self._skips = False
        try:
            if self._board is not None and command not in WITHIN_BOARD:
                if command != "DONE" and line.strip()[:1].isalpha():
                    self._board = None
                    raise ProtocolError(f"{shown(words[0])} before the DONE of a BOARD, which is dropped")
                return self._board_line(line.strip())
            method = getattr(self, f"_on_{command.lower()}", None)
            if method is None:
                self._skips = command.endswith("BOARD")
                return [f"UNKNOWN command {shown(words[0])}; known: {', '.join(self._known())}"]
            return method(rest)
        except (ProtocolError, MuGoError) as error:
            return [f"ERROR {' '.join(self._game.in_words(str(error)).split())}"]

    def _known(self) -> list[str]:
        return sorted(name.removeprefix("_on_").upper() for name in dir(self) if name.startswith("_on_"))

    # Commands

    def _on_start(self, rest: str) -> list[str]:
        """START 15; Yixin's board sends both sides, 15 15."""
        sides, game = {small_number(side) for side in re.split(r"[\s,]+", rest.strip())}, self._game
        if sides != {self._size}:
            plays = f"unsupported size {rest[:20]!r}; this model plays on"
            if not isinstance(game, AllBoards):
                raise ProtocolError(f"{plays} {self._size}")
            try:
                other = game.on_board(sides.pop() if len(sides) == 1 else -1)
            except UsageError:
                raise ProtocolError(f"{plays} 9 to 19") from None
            self.session.change_game(other.without_move_limit())
            self.session.warm_up()  # else the first move would load the network on its clock
            self._game, self._size = other, other.size
        return self._restart()

    def _on_rectstart(self, rest: str) -> list[str]:
        return self._on_start(rest)

    def _on_restart(self, rest: str) -> list[str]:
        self._need_start()
        return self._restart()

    def _on_begin(self, rest: str) -> list[str]:
        self._need_start()
        moves = self.session.moves
        if moves and not self.session.is_over:
            raise ProtocolError(f"BEGIN within a game (ply {len(moves)}); wanted TURN X,Y, BOARD or RESTART")
        return [self._move()]

    def _on_turn(self, rest: str) -> list[str]:
        self._need_start()
        self._play(self._point("TURN", rest))
        try:
            return [self._move()]
        except MuGoError:  # of the search
            self.session.undo()
            raise

    def _on_board(self, rest: str) -> list[str]:
        self._need_start()
        self._board, self._broken = [], ""
        return []

    def _on_takeback(self, rest: str) -> list[str]:
        self._need_start()
        point, last = self._point("TAKEBACK", rest), self.session.moves[-1:]
        of_last = self._placed[1 - int(self._game.to_move(self.session.state)[0])]
        if not last and point in of_last and not self._captures:
            of_last.remove(point)
            self.session.restart(self._game.with_stones(*self._placed))
            return ["OK"]
        if last != [point]:
            named = self._text(last[0]) if last else "none"
            raise ProtocolError(f"TAKEBACK {rest}: that isn't the last move ({named})")
        self.session.undo()
        return ["OK"]

    def _on_info(self, rest: str) -> list[str]:
        key, _, value = rest.partition(" ")
        if key in MILLISECONDS:
            try:
                seconds = float(value) / 1000
            except ValueError:
                seconds = math.nan
            if not math.isfinite(seconds):
                return [f"MESSAGE INFO {key}: {value[:20]!r} is no number of milliseconds; ignored"]
            if key == "timeout_match":
                self._limits.pop("time_left", None)  # of the match before
            self._limits[key] = seconds
        if key == "rule" and (self._captures or value.strip() != str(self._game.rules.exact)):  # 1: exactly five
            return [f"MESSAGE INFO rule {value[:20]}: this model plays {self._game.title}"]
        return []

    def _on_about(self, rest: str) -> list[str]:
        return [ABOUT]

    def _on_end(self, rest: str) -> list[str]:
        self.ended = True
        return []

    # A whole position

    def _board_line(self, line: str) -> list[str]:
        assert self._board is not None
        if line.upper() != "DONE":
            parts = [part.strip() for part in line.split(",")]
            try:
                if len(parts) != 3 or parts[2] not in (OWN, THEIRS):
                    raise ProtocolError(
                        f"BOARD line {line[:20]!r}; wanted X,Y,1 for own stones, X,Y,2 for theirs, or DONE"
                    )
                if len(self._board) >= self._size**2:
                    raise ProtocolError(f"BOARD with more than {self._size**2} stones")
                self._board.append((parts[2], self._point("BOARD", ",".join(parts[:2]))))
            except ProtocolError as error:
                self._broken = self._broken or str(error)  # for the answer to DONE: a manager expects none before
            return []
        stones, self._board = self._board, None
        if self._broken:
            raise ProtocolError(self._broken)
        own, theirs = ([point for who, point in stones if who == side] for side in (OWN, THEIRS))
        if len(theirs) - len(own) not in (0, 1):
            raise ProtocolError(
                f"BOARD with {len(own)} own stones and {len(theirs)} of the opponent's: not our turn"
                + (", or pairs were captured, which a BOARD can't say" if self._captures else "")
            )
        first, second = (own, theirs) if len(own) == len(theirs) else (theirs, own)
        try:
            position = self._game.with_stones(first, second)
        except IllegalMove as error:
            raise ProtocolError(f"BOARD: {error}") from error
        self.session.restart(position)
        self._placed = first, second
        return [self._move()]

    # Moves

    def _need_start(self) -> None:
        if not self._started:
            raise ProtocolError(f"no game yet; wanted START {self._size} first")

    def _restart(self) -> list[str]:
        self._started = True
        self._placed = [], []
        self.session.restart()
        return ["OK"]

    def _play(self, point: int) -> None:
        try:
            self.session.play(point)
        except IllegalMove as error:
            raise ProtocolError(f"{self._text(point)}: {str(error).rpartition(': ')[2]}") from error

    def _move(self) -> str:
        if self.session.is_over:
            raise ProtocolError("the game is over; wanted RESTART or START")
        action = self.session.think(self._seconds(), 0 if self._has_ended() else None, self._has_ended)
        self._play(action)
        return self._text(action)

    def _has_ended(self) -> bool:
        """Whether searches are to end because the manager has ended."""
        return self._lines is not None and self._lines.ended_by("end")

    def _seconds(self) -> float | None:
        """For one move; None without limits. A turn's limit of 0 means as fast as possible, a match's no limit."""
        turn, match = self._limits.get("timeout_turn"), self._limits.get("timeout_match", math.inf)
        rest = self._limits.get("time_left", match) if match else math.inf
        limits = [rest / MOVES_LEFT] if rest < UNLIMITED else []
        limits += [] if turn is None else [turn]
        return max(0.0, min(limits) - MARGIN_SECONDS) if limits else None

    def _point(self, command: str, text: str) -> int:
        parts = [part.strip() for part in text.split(",")]
        size = self._size
        if len(parts) != 2 or not all(0 <= small_number(part) < size for part in parts):
            raise ProtocolError(f"{command} {text[:20]!r} is no point; wanted X,Y, each from 0 to {size - 1}")
        return int(parts[1]) * size + int(parts[0])

    def _text(self, action: int) -> str:
        row, column = divmod(action, self._size)
        return f"{column},{row}"
