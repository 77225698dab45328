"""The Universal Shogi Interface: lines in, lines out, so that ShogiGUI, Shogidokoro and other managers can run a model.

A manager sends usi, isready and usinewgame, then for each move position and go; the answer to go is any number of info
lines and one bestmove. While a search runs, stop, ponderhit, isready, gameover and quit are followed; other lines wait
for its end, if it has one. Of lines behind those that wait, stop, gameover and quit still end the search, unless a go
is among them: they are meant for that. A line that can't be followed is answered with ``info string`` and what was
wanted, and changes nothing. Behind a position that can't be followed there is nothing to search, up to the next one.

    position   startpos or sfen …, then moves …; one that goes on from the last position keeps its tree. The manager is
               the referee: moves behind a position that may be declared, or has occurred four times, go on from it
    go         btime wtime byoyomi binc winc (milliseconds), movetime, nodes, infinite, ponder; without any limit as
               many readouts as the option Readouts says
    go mate    milliseconds in which a mate by checks is looked for, or infinite; see families/shogi/mate.py
    bestmove   a move, resign, or win: a declaration, which is made as soon as it can be

Scores are seen by the player to move: cp is 600 · ln(p / (1 − p)), as shogi programs are used to, p the winrate with a
draw as half a win. nodes counts readouts. Source: http://shogidokoro.starfree.jp/usi.html
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.errors import IllegalMove, MuGoError
from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.mate import Mate, MateSearch
from pipeline.play.clock import MARGIN_SECONDS, Clock, TimeSettings
from pipeline.play.findings import winrate
from pipeline.play.lines import TOO_LONG, CommandLines
from pipeline.play.session import SearchSession

NAME, AUTHOR = "MuGo 0.1", "the MuGo developers"
CP_SCALE = 600.0  # of the winrate's logit
MOST_CP = 9999
SHOWN_EVERY = 0.5  # seconds between two looks at what was found so far
MOVES_LEFT = 60  # of the game, in plies, at its beginning; half of them ours
MOST_LINES = 100  # of the option MultiPV
RESIGN_MOVES = 2  # that were hopeless in a row
ENDS = ("stop", "gameover", "quit")  # lines that end a search
TIMES = ("btime", "wtime", "byoyomi", "binc", "winc", "movetime", "nodes")

Write = Callable[[str], None]


class UsiError(Exception):
    """A line that can't be followed; its text is for the manager."""


@dataclass
class Limits:
    """Of one search. milliseconds and nodes by name, as go gave them; ponder, infinite: wait to be told the end."""

    numbers: dict[str, int]
    ponder: bool = False
    infinite: bool = False

    @property
    def open_ended(self) -> bool:
        return self.ponder or self.infinite


class Usi:
    """The protocol's state for one manager. Whatever the manager sends, run() goes on until quit or the end."""

    def __init__(self, session: SearchSession, resign_threshold: float = -1.0) -> None:
        """session: of a game with SFEN. resign_threshold: value_to_move, two moves in a row; -1: never."""
        assert isinstance(session.game, Shogi)
        self.session, self._game = session, session.game
        self._resign_threshold = resign_threshold
        self._readouts, self._lines_shown = session.readouts, 1
        self._begin = ""  # the SFEN of the position before the moves; empty: the initial one
        self._lost = False  # whether the last position couldn't be followed: the session stands elsewhere
        self._hopeless = 0
        self._stopped = self._quit = False
        self._later: deque[str | None] = deque()  # lines that came during a search and waited for its end
        self._lines: CommandLines | None = None
        self._write: Write = lambda text: None
        self._commands: dict[str, Callable[[list[str]], None]] = {
            name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if name.startswith("_on_")
        }

    def run(self, lines: CommandLines, write: Write) -> None:
        """Answer until quit or the end of the lines. write must send at once."""
        self._lines, self._write = lines, write
        while not self._quit:
            line = self._later.popleft() if self._later else lines.next()
            if line is None:
                return
            self.answer(line)

    def answer(self, line: str) -> None:
        """Follow one line; a go with limits is searched to its end."""
        words = line.split()
        try:
            if line == TOO_LONG:
                raise UsiError("the line is too long")
            if not words:
                return
            if words[0] not in self._commands:
                raise UsiError(f"unknown command {_shown(words[0])}; known: {', '.join(sorted(self._commands))}")
            self._commands[words[0]](words[1:])
        except UsiError as error:
            self._say(f"info string {error}")
        except MuGoError as error:  # the network gave up
            self._say(f"info string {' '.join(str(error).split())}")
            if words[0] == "go":
                self._say("bestmove resign")

    def _say(self, text: str) -> None:
        self._write(text + "\n")

    # Administration

    def _on_usi(self, words: list[str]) -> None:
        self._say(f"id name {NAME}\nid author {AUTHOR}")
        self._say("option name USI_Ponder type check default true")
        self._say("option name USI_Hash type spin default 16 min 1 max 65536")  # managers set it; trees grow as needed
        session = self.session
        self._say(f"option name Readouts type spin default {session.readouts} min 0 max {session.most_readouts}")
        self._say(f"option name MultiPV type spin default 1 min 1 max {MOST_LINES}")
        self._say("usiok")

    def _on_setoption(self, words: list[str]) -> None:
        if len(words) < 2 or words[0] != "name" or (len(words) > 2 and words[2] != "value"):
            raise UsiError("setoption: wanted name NAME value VALUE")
        name, value = words[1], " ".join(words[3:])
        if name in ("USI_Ponder", "USI_Hash"):
            return
        if name not in ("Readouts", "MultiPV"):
            raise UsiError(f"setoption: unknown option {_shown(name)}; known: MultiPV, Readouts, USI_Hash, USI_Ponder")
        low, high = (0, self.session.most_readouts) if name == "Readouts" else (1, MOST_LINES)
        if not low <= (number := _whole(value)) <= high:
            raise UsiError(f"setoption {name}: found {_shown(value)!r}; wanted a whole number from {low} to {high}")
        if name == "Readouts":
            self._readouts = number
        else:
            self._lines_shown = number

    def _on_isready(self, words: list[str]) -> None:
        self._say("readyok")

    def _on_usinewgame(self, words: list[str]) -> None:
        self.session.restart()
        self._begin, self._hopeless, self._lost = "", 0, False

    def _on_gameover(self, words: list[str]) -> None:
        self._stopped = True

    def _on_stop(self, words: list[str]) -> None:
        """Only a search can be stopped; a manager may be late by a moment, so that is no error."""

    def _on_ponderhit(self, words: list[str]) -> None:
        raise UsiError("ponderhit, but nothing is pondered; wanted go ponder before")

    def _on_quit(self, words: list[str]) -> None:
        self._quit = True

    # The position

    def _on_position(self, words: list[str]) -> None:
        self._lost = True
        if words[:1] == ["startpos"]:
            begin, rest = "", words[1:]
        elif words[:1] == ["sfen"]:
            end = words.index("moves") if "moves" in words else len(words)
            begin, rest = " ".join(words[1:end]), words[end:]
        else:
            raise UsiError("position: wanted startpos or sfen SFEN, then moves MOVE …")
        if rest and rest[0] != "moves":
            raise UsiError(f"position: found {_shown(rest[0])}; wanted moves")
        self._follow(begin, rest[1:])
        self._lost = False

    def _follow(self, begin: str, texts: Sequence[str]) -> None:
        """Stand after these moves; where the session stands on the way there, it plays on and keeps its tree."""
        session = self.session
        before, moves, here = self._begin, session.moves, session.here()
        try:
            start = self._game.from_sfen(begin) if begin else None
        except IllegalMove as error:
            raise UsiError(f"position: {error}") from error
        begun = self._game.initial(1) if start is None else start
        goes_on = begin == self._begin and list(texts[: len(moves)]) == self._game.line_names(begun, moves)
        try:
            if not goes_on:
                session.restart(start)
                self._begin = begin
            for text in texts[len(session.moves) :]:
                session.play(self._game.parse_move(session.state[0], text))
        except IllegalMove as error:
            ply = len(session.moves) + 1
            session.restart(self._game.from_sfen(before) if before else None)
            self._begin = before
            for action in moves:
                session.play(action)
            session.go_to(here)
            raise UsiError(f"position: move {ply} {_shown(texts[ply - 1])}: {error}") from error

    # The search

    def _on_go(self, words: list[str]) -> None:
        if words[:1] == ["mate"]:
            self._look_for_mate(words[1:])
            return
        limits = _parsed(words)
        self._stopped = False
        if (last_word := self._last_word()) is not None:
            self._wait_for_end(limits)
            self._say(f"bestmove {last_word}")
            return
        self.session.play_on()
        self._search(limits)
        best = self.session.best()
        line = next((found.variation for found in self.session.candidates() if found.action == best), (best,))
        if not limits.open_ended:  # else it was no move: what was pondered didn't come, or the position is analysed
            value = self.session.value_to_move()
            self._hopeless = self._hopeless + 1 if value <= self._resign_threshold else 0
            if self._resign_threshold > -1 and self._hopeless >= RESIGN_MOVES:
                self._say("bestmove resign")
                return
        named = self._line(line[:2])
        self._say(f"bestmove {named[0]}" + (f" ponder {named[1]}" if len(named) > 1 else ""))

    def _last_word(self) -> str | None:
        """What there is to say without a search: win where the game can be declared, resign where there is no move, or
        the last position wasn't followed. None elsewhere, in games that have ended by repetition, too.
        """
        if self._lost:
            return "resign"
        if self._game.ends(self.session.state)[0] == kernels.DECLARATION:
            return "win"
        return "resign" if self._game.is_over(self._game.played_on(self.session.state))[0] else None

    def _search(self, limits: Limits) -> None:
        """Search, with reports, until the limits are reached or a line says so."""
        session, started = self.session, time.monotonic()
        readouts = limits.numbers.get("nodes")
        if readouts is None:
            readouts = session.room() if limits.open_ended or limits.numbers else self._readouts
        if readouts > session.room():
            more = "" if session.room() < session.most_readouts else "; a larger --readouts makes room for more"
            self._say(f"info string {readouts} readouts: the tree has room for {session.room()}{more}")
        until = math.inf if limits.ponder else started + self._seconds(limits)
        shown = started
        visits_before = sum(candidate.visits for candidate in session.candidates())
        with contextlib.closing(session.thinking(readouts)) as batches:
            for _ in batches:
                if self._heard(limits):
                    until = time.monotonic() + self._seconds(limits)
                now = time.monotonic()
                if self._stopped or now >= until:
                    break
                if now - shown >= SHOWN_EVERY:
                    self._report(started, visits_before)
                    shown = now
        self._wait_for_end(limits)
        self._report(started, visits_before)

    def _wait_for_end(self, limits: Limits) -> None:
        """Until a line asks for the answer, if one has to."""
        while limits.open_ended and not self._stopped:
            self._wait_for_line()
            self._heard(limits)

    def _heard(self, limits: Limits) -> bool:
        """Follow the lines that came during a search; whether ponderhit was one of them.

        Where the search has an end, other lines wait for it; where its end has to be asked for, they are refused.
        """
        hit, later, lines = False, self._later, self._lines
        while lines is not None and lines.waiting() and not (later and later[-1] is None):
            later.append(lines.next())
        while later and limits.open_ended and not self._stopped:
            command = _command(line := later.popleft())
            if command == "ponderhit" and limits.ponder:
                limits.ponder, hit = False, True
            elif command in ENDS or line is None:
                self._stopped = True
                self._quit = self._quit or command == "quit"
            elif command == "isready":
                self._on_isready([])
            elif command:
                self._lost = self._lost or command == "position"
                self._say(f"info string {_shown(command)} while searching without an end; wanted stop before it")
        if not limits.open_ended:
            while later and _command(later[0]) == "isready":
                self._on_isready([])
                later.popleft()
            next_end = next((command for command in map(_command, later) if command in (*ENDS, "go")), "go")
            self._stopped = self._stopped or next_end != "go"
        return hit

    def _wait_for_line(self) -> None:
        if self._lines is None:
            self._stopped = True
        elif not self._later:
            self._lines.wait(1.0)

    def _seconds(self, limits: Limits) -> float:
        """For this move, from now on."""
        milliseconds = limits.numbers
        if "movetime" in milliseconds:
            return max(0.0, milliseconds["movetime"] / 1000 - MARGIN_SECONDS)
        if limits.infinite or not set(milliseconds) & {"btime", "wtime", "byoyomi", "binc", "winc"}:
            return math.inf
        ours = "bw"[self.session.to_move]
        main, period = milliseconds.get(f"{ours}time", 0) / 1000, milliseconds.get("byoyomi", 0) / 1000
        more = milliseconds.get(f"{ours}inc", 0) / 1000
        clock = Clock(TimeSettings(main, period + more, periods=1 if period + more else 0))
        if main <= 0 and period + more > 0:
            clock.set_left(period + more, 1)
        plies = int(self._game.plies(self.session.state)[0])
        return clock.seconds(max(0, MOVES_LEFT - plies) // 2) or 0.0

    def _report(self, started: float, visits_before: int) -> None:
        """What was found so far, best line first."""
        found = self.session.candidates()[: self._lines_shown]
        milliseconds = round(1000 * (time.monotonic() - started))
        nodes = sum(candidate.visits for candidate in self.session.candidates())
        speed = round(1000 * max(0, nodes - visits_before) / max(1, milliseconds))
        for order, candidate in enumerate(found, 1):
            multi = f" multipv {order}" if self._lines_shown > 1 else ""
            line = self._line(candidate.variation)
            self._say(
                f"info depth {len(line)}{multi} score cp {centipawns(candidate.value_to_move)} nodes {nodes} "
                f"nps {speed} time {milliseconds} pv {' '.join(line)}"
            )

    def _line(self, actions: Sequence[int]) -> list[str]:
        """What these moves from here on are called."""
        return self._game.line_names(self.session.state, actions)

    def _look_for_mate(self, words: list[str]) -> None:
        limit = words[0] if words else "infinite"
        if limit != "infinite" and _whole(limit) < 0:
            raise UsiError(f"go mate: found {_shown(limit)}; wanted milliseconds, or infinite")
        until = math.inf if limit == "infinite" else time.monotonic() + _whole(limit) / 1000
        self._stopped, limits = False, Limits({}, infinite=math.isinf(until))

        def enough() -> bool:
            self._heard(limits)
            return self._stopped or time.monotonic() >= until

        mate = Mate.UNKNOWN if self._lost else MateSearch(self._game, enough).find(self.session.state)
        if isinstance(mate, Mate):
            self._say(f"checkmate {mate.value}")
        else:
            self._say(f"checkmate {' '.join(self._line(mate))}")


def centipawns(value_to_move: float) -> int:
    """See the module docstring."""
    share = winrate(value_to_move)
    if not 0 < share < 1:
        return MOST_CP if share >= 1 else -MOST_CP
    return round(max(-MOST_CP, min(MOST_CP, CP_SCALE * math.log(share / (1 - share)))))


def _parsed(words: Sequence[str]) -> Limits:
    limits, left = Limits({}), list(words)
    while left:
        word = left.pop(0)
        if word in ("ponder", "infinite"):
            setattr(limits, word, True)
        elif word in TIMES:
            number = _whole(left.pop(0)) if left else -1
            if number < 0:
                raise UsiError(f"go {word}: wanted a whole number after it")
            limits.numbers[word] = number
        else:
            raise UsiError(f"go: found {_shown(word)}; known: {', '.join((*TIMES, 'infinite', 'mate', 'ponder'))}")
    return limits


def _command(line: str | None) -> str:
    """The first word; empty for a line without words and for the end of the lines."""
    return next(iter((line or "").split()), "")


def _whole(text: str) -> int:
    """A whole number of at most nine digits; -1 for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1


def _shown(word: str) -> str:
    """A manager's word, short and printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in word[:40])
