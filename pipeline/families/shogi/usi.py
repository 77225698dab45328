"""The Universal Shogi Interface: lines in, lines out, so that ShogiGUI, Shogidokoro and other managers can run a model.

A manager sends usi, isready and usinewgame, then position and go for each move; the answer to every go is any number of
info lines and one bestmove. It waits long for the answer to isready alone, so the model is loaded there. While a search
runs, the engine follows stop, ponderhit, isready, gameover and quit. Other lines wait for the end of the search; stop,
gameover and quit behind them still end it, unless a go comes first: then they are meant for that go. A go also ends a
search that has no limit. The answer to a line that can't be followed is ``info string`` and what was wanted; the line
changes nothing. After a position that can't be followed, nothing is searched until the next one.

    position   startpos or sfen …, then moves …, up to a word that says how the game ended, such as resign or rep_draw;
               an unknown word is named with an info string, a move behind it is refused. If it continues the last
               position, the tree is kept. The manager is the referee: moves may follow a position that could be
               declared or has occurred four times
    go         btime wtime byoyomi binc winc movestogo (milliseconds; negative ones count as 0), movetime, nodes, depth,
               searchmoves, infinite, ponder; without a limit, the readouts of the option Readouts. Each ply of depth
               doubles the readouts: 2^depth. What isn't known is ignored, with an info string
    ponderhit  may carry new times
    go mate    milliseconds to search for a mate by checks, or infinite; see families/shogi/mate.py
    bestmove   a move, resign, or win: a declaration, made as soon as possible

Scores are from the view of the player to move. cp is 600 · ln(p / (1 − p)), as usual for shogi programs, where p is the
winrate with a draw as half a win. nodes counts readouts. Source: http://shogidokoro.starfree.jp/usi.html
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, MuGoError
from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.mate import Mate, MateSearch
from pipeline.families.shogi.notation import END, KNOWN_END, is_usi
from pipeline.methods.resignation import OwnValues
from pipeline.play.clock import MARGIN_SECONDS, Clock, TimeSettings
from pipeline.play.command_lines import TOO_LONG, CommandLines, shown
from pipeline.play.findings import winrate
from pipeline.play.session import FIRST_SHARE, SearchSession
from pipeline.search.restriction import Moves, restriction

NAME, AUTHOR = "MuGo 0.1", "the MuGo developers"
CP_SCALE = 600.0  # of the winrate's logit
MOST_CP = 9999
REPORT_EVERY = 0.5  # seconds between info lines during a search
MOVES_LEFT = 60  # plies that a game still has at its beginning, for the clock
MOST_LINES = 100  # of the option MultiPV
ENDS = ("stop", "gameover", "quit")  # lines that end a search
BEFORE_LOADING = ("usi", "setoption", *ENDS)  # commands that need no model
CLOCKS = ("btime", "wtime", "byoyomi", "binc", "winc")
NUMBERS = (*CLOCKS, "movetime", "movestogo", "nodes", "depth")  # limits with a number
WORDS = ("ponder", "infinite", "searchmoves")  # the others
MOST_NUMBER = 10**9  # a manager may mean "no limit"
MOST_DEPTH, MOST_MOVES_TO_GO = 30, 100

Write = Callable[[str], None]


class UsiError(Exception):
    """A line that can't be followed. The manager gets the error's text."""


@dataclass
class Limits:
    """Limits of one search.

    numbers           by name, of NUMBERS
    ponder, infinite  a line ends it
    searchmoves       moves in USI, the only ones to search; none: all
    ignored           words that say nothing to us
    """

    numbers: dict[str, int]
    ponder: bool = False
    infinite: bool = False
    searchmoves: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    @property
    def open_ended(self) -> bool:
        return self.ponder or self.infinite

    @property
    def on_clock(self) -> bool:
        return any(name in self.numbers for name in (*CLOCKS, "movetime"))


class Usi:
    """The protocol's state for one manager. run() ends only at quit or at the end of the lines."""

    def __init__(
        self,
        game: Shogi,
        readouts: int,
        most_readouts: int,
        open_session: Callable[[], SearchSession],
        resign_threshold: float = -1.0,
    ) -> None:
        """open_session: called once; its session has this game and these numbers of readouts.

        resign_threshold: value_to_move at two moves in a row; -1: never resign.
        """
        self._open = open_session
        self._session: SearchSession | None = None
        self._game, self._usual_readouts, self._largest = game, readouts, most_readouts
        self._resign_threshold = resign_threshold
        self._readouts, self._lines_shown = readouts, 1
        self._begin = ""  # SFEN of the position before the moves; empty: the initial position
        self._lost = False  # whether the last position couldn't be followed, so that the session stands elsewhere
        self._own_values = OwnValues()
        self._stopped = self._quit = False
        self._later: deque[str | None] = deque()  # lines that wait for the end of a search
        self._lines: CommandLines | None = None
        self._write: Write = lambda text: None
        self._commands: dict[str, Callable[[list[str]], None]] = {
            name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if name.startswith("_on_")
        }

    def run(self, lines: CommandLines, write: Write) -> None:
        """Answer until quit or the end of the lines. write must flush. Raises what opening the session does."""
        self._lines, self._write = lines, write
        while not self._quit:
            line = self._later.popleft() if self._later else lines.next()
            if line is None:
                return
            self.answer(line)

    @property
    def session(self) -> SearchSession:
        if self._session is None:
            self._session = self._open()
        return self._session

    def answer(self, line: str) -> None:
        """Follow one line; for a go with limits, search to the end."""
        words = line.split()
        if words and words[0] in self._commands and words[0] not in BEFORE_LOADING:
            _ = self.session  # a model that can't be loaded ends the engine, unlike an error below
        try:
            if line.startswith(TOO_LONG):
                raise UsiError("the line is too long")
            if not words:
                return
            if words[0] not in self._commands:
                raise UsiError(f"unknown command {shown(words[0])}; known: {', '.join(sorted(self._commands))}")
            self._commands[words[0]](words[1:])
        except UsiError as error:
            self._say(f"info string {self._game.in_words(str(error))}")
        except MuGoError as error:  # the network gave up
            self._say(f"info string {self._game.in_words(' '.join(str(error).split()))}")
            if words[0] == "go":
                self._say("bestmove resign")

    def _say(self, text: str) -> None:
        self._write(text + "\n")

    # Administration

    def _on_usi(self, words: list[str]) -> None:
        self._say(f"id name {NAME}\nid author {AUTHOR}")
        self._say("option name USI_Ponder type check default true")
        self._say("option name USI_Hash type spin default 16 min 1 max 65536")  # managers set it; trees grow as needed
        self._say(f"option name Readouts type spin default {self._usual_readouts} min 0 max {self._largest}")
        self._say(f"option name MultiPV type spin default 1 min 1 max {MOST_LINES}")
        variant = self._game.usi_variant
        self._say(f"option name USI_Variant type combo default {variant} var {variant}")
        self._say("usiok")

    def _on_setoption(self, words: list[str]) -> None:
        if len(words) < 2 or words[0] != "name":
            raise UsiError("setoption: wanted name NAME value VALUE")
        end = words.index("value") if "value" in words else len(words)
        name, value = " ".join(words[1:end]), " ".join(words[end + 1 :])
        if name in ("USI_Ponder", "USI_Hash"):
            return
        if name == "USI_Variant":
            if value != self._game.usi_variant:
                raise UsiError(f"setoption {name}: found {shown(value)!r}; this model plays {self._game.usi_variant}")
            return
        if name not in ("Readouts", "MultiPV"):
            known = "MultiPV, Readouts, USI_Hash, USI_Ponder, USI_Variant"
            raise UsiError(f"setoption: unknown option {shown(name)}; known: {known}")
        low, high = (0, self._largest) if name == "Readouts" else (1, MOST_LINES)
        if not low <= (number := _whole(value)) <= high:
            raise UsiError(f"setoption {name}: found {shown(value)!r}; wanted a whole number from {low} to {high}")
        if name == "Readouts":
            self._readouts = number
        else:
            self._lines_shown = number

    def _on_isready(self, words: list[str]) -> None:
        self._say("readyok")

    def _on_usinewgame(self, words: list[str]) -> None:
        self.session.restart()
        self._begin, self._own_values, self._lost = "", OwnValues(), False

    def _on_gameover(self, words: list[str]) -> None:
        self._stopped = True

    def _on_stop(self, words: list[str]) -> None:
        """Without a search there is nothing to stop; a manager may be late, so this is no error."""

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
            raise UsiError(f"position: found {shown(rest[0])}; wanted moves")
        self._follow(begin, self._up_to_end(rest[1:]))
        self._lost = False

    def _up_to_end(self, moves: Sequence[str]) -> Sequence[str]:
        """Without what follows a word that ends the game. Raises UsiError if a move does."""
        end = next((at for at, word in enumerate(moves) if END.fullmatch(word)), len(moves))
        if late := next(filter(is_usi, moves[end:]), None):
            raise UsiError(f"position: move {shown(late)} behind the end of the game, {shown(moves[end])}")
        if end < len(moves) and not KNOWN_END.fullmatch(moves[end]):
            self._say(f"info string position: {shown(moves[end])} counts as the end of the game")
        return moves[:end]

    def _follow(self, begin: str, texts: Sequence[str]) -> None:
        """Go to the position after these moves. If the session's moves are their beginning, it keeps its tree."""
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
            raise UsiError(f"position: move {ply} {shown(texts[ply - 1])}: {error}") from error

    # The search

    def _on_go(self, words: list[str]) -> None:
        if words[:1] == ["mate"]:
            self._look_for_mate(words[1:])
            return
        limits = _parsed(words)
        if limits.ignored:
            known = ", ".join((*NUMBERS, *WORDS, "mate"))
            self._say(f"info string go: ignored {shown(' '.join(limits.ignored))}; known: {known}")
        self._stopped = False
        if (last_word := self._last_word()) is not None:
            self._wait_for_end(limits)
            self._say(f"bestmove {last_word}")
            return
        self.session.play_on()
        self.session.restrict(self._restriction(limits.searchmoves))
        until = self._search(limits)
        best = self.session.best()
        if not limits.open_ended:

            def over() -> bool:
                self._heard(limits)
                return self._stopped or time.monotonic() >= until

            most = self._most_readouts(limits)
            best = self.session.decide(over, int(most) if most < math.inf else self._readouts)
        line = next((found.variation for found in self.session.candidates() if found.action == best), (best,))
        if not limits.open_ended:  # otherwise it was no move: a wrong ponder move, or an analysis
            plies = int(self._game.plies(self.session.state)[0])
            if self._own_values.resigns(plies, self.session.value_to_move(), self._resign_threshold):
                self._say("bestmove resign")
                return
        named = self._line(line[:2])
        self._say(f"bestmove {named[0]}" + (f" ponder {named[1]}" if len(named) > 1 else ""))

    def _last_word(self) -> str | None:
        """The answer without a search: win if the game can be declared, resign if there is no move or the last position
        couldn't be followed. Otherwise None, even if the game has ended by repetition.
        """
        if self._lost:
            return "resign"
        if self._game.ends(self.session.state)[0] == kernels.DECLARATION:
            return "win"
        return "resign" if self._game.is_over(self._game.played_on(self.session.state))[0] else None

    def _restriction(self, texts: Sequence[str]) -> NDArray[np.int16] | None:
        """To these moves, of which illegal ones are ignored; None: all moves are searched."""
        if not texts:
            return None
        actions, unknown, legal = [], [], self.session.legal()
        for text in texts:
            try:
                action = self._game.parse_move(self.session.state[0], text)
            except IllegalMove:
                action = -1
            if action >= 0 and legal[action]:
                actions.append(action)
            else:
                unknown.append(text)
        if unknown:
            instead = "" if actions else ", so all moves are searched"
            self._say(f"info string go searchmoves: no legal move here: {shown(' '.join(unknown))}{instead}")
        if not actions:
            return None
        return restriction(self._game.num_actions, allow=[Moves(self.session.to_move, actions)])

    def _search(self, limits: Limits) -> float:
        """Search, with reports, until a limit is reached or a line ends it -> when the time is up, time.monotonic().

        A decided position is left some of its time for SearchSession.decide().
        """
        session, started = self.session, time.monotonic()
        most, counts = self._most_readouts(limits), False
        if session.room() < most < math.inf:
            more = "" if session.room() < self._largest else "; a larger --readouts makes room for more"
            self._say(f"info string {most} readouts: the tree has room for {session.room()}{more}")
        until = math.inf if limits.ponder else started + self._seconds(limits)
        begun, reported = started, started
        visits_before = self._readouts_here()
        with contextlib.closing(session.thinking(int(min(most, session.room())))) as batches:
            for _ in batches:
                now = time.monotonic()
                if self._heard(limits):
                    begun, until = now, now + self._seconds(limits)
                    most = self._most_readouts(limits)
                    counts = most < math.inf
                if (
                    self._stopped
                    or now >= until
                    or (counts and self._readouts_here() >= visits_before + most)
                    or (session.is_decided and now >= begun + FIRST_SHARE * (until - begun))
                ):
                    break
                if now - reported >= REPORT_EVERY:
                    self._report(started, visits_before)
                    reported = now
        if self._wait_for_end(limits):  # until then there was no clock
            until = time.monotonic() + self._seconds(limits)
        self._report(started, visits_before)
        return until

    def _most_readouts(self, limits: Limits) -> float:
        """What nodes and depth say; without limits the option; infinite if something else ends the search."""
        named = [limits.numbers["nodes"]] if "nodes" in limits.numbers else []
        if "depth" in limits.numbers:
            named.append(min(self.session.room(), 2 ** min(limits.numbers["depth"], MOST_DEPTH)))
        if named:
            return min(named)
        return math.inf if limits.open_ended or limits.on_clock else self._readouts

    def _readouts_here(self) -> int:
        return sum(candidate.visits for candidate in self.session.candidates())

    def _wait_for_end(self, limits: Limits) -> bool:
        """Wait for the line that ends a search without limits -> whether ponderhit came."""
        hit = self._heard(limits)
        while limits.open_ended and not self._stopped:
            self._wait_for_line()
            hit |= self._heard(limits)
        return hit

    def _heard(self, limits: Limits) -> bool:
        """Follow the lines that came during a search -> whether ponderhit was one of them. Others wait for its end."""
        hit, later, lines = False, self._later, self._lines
        while lines is not None and lines.waiting() and not (later and later[-1] is None):
            later.append(lines.next())
        at = 0
        while at < len(later) and not self._stopped:
            command = _command(line := later[at])
            if command == "ponderhit" and limits.ponder:
                limits.ponder, hit = False, True
                _read_limits(limits, (line or "").split()[1:])
            elif command == "isready":
                self._on_isready([])
            elif command in ENDS:
                self._stopped = True
                break
            elif command == "go" or line is None:
                self._stopped = limits.open_ended
                break
            else:
                at += 1
                continue
            del later[at]
        return hit

    def _wait_for_line(self) -> None:
        if self._lines is None:
            self._stopped = True
        else:
            self._lines.wait(1.0)

    def _seconds(self, limits: Limits) -> float:
        """The time for this move, from now on."""
        milliseconds = limits.numbers
        if "movetime" in milliseconds:
            return max(0.0, milliseconds["movetime"] / 1000 - MARGIN_SECONDS)
        if limits.infinite or not limits.on_clock:
            return math.inf
        ours = "bw"[self.session.to_move]
        main, period = milliseconds.get(f"{ours}time", 0) / 1000, milliseconds.get("byoyomi", 0) / 1000
        more = milliseconds.get(f"{ours}inc", 0) / 1000
        if moves := milliseconds.get("movestogo", 0):
            moves = min(moves, MOST_MOVES_TO_GO)
            return Clock(TimeSettings(0.0, main + moves * (period + more), stones=moves)).seconds(0) or 0.0
        clock = Clock(TimeSettings(main, period + more, periods=1 if period + more else 0))
        if main <= 0 and period + more > 0:
            clock.set_left(period + more, 1)
        plies = int(self._game.plies(self.session.state)[0])
        return clock.seconds(max(0, MOVES_LEFT - plies) // 2) or 0.0

    def _report(self, started: float, visits_before: int) -> None:
        """Write what was found so far, best line first."""
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
        """The names of these moves from here on."""
        return self._game.line_names(self.session.state, actions)

    def _look_for_mate(self, words: list[str]) -> None:
        limit = words[0] if words else "infinite"
        milliseconds = None if limit == "infinite" else _number(limit)
        if milliseconds is None and limit != "infinite":
            self._say(f"info string go mate: ignored {shown(limit)}; wanted milliseconds, or infinite")
        until = math.inf if milliseconds is None else time.monotonic() + milliseconds / 1000
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
    limits = Limits({})
    _read_limits(limits, words)
    return limits


def _read_limits(limits: Limits, words: Sequence[str]) -> None:
    """Add the limits that these words name."""
    left = deque(words)
    while left:
        word = left.popleft()
        if word in ("ponder", "infinite"):
            setattr(limits, word, True)
        elif word == "searchmoves":
            while left and left[0] not in (*NUMBERS, *WORDS):
                limits.searchmoves.append(left.popleft())
        elif word in NUMBERS and left and (number := _number(left[0])) is not None:
            limits.numbers[word] = number
            left.popleft()
        else:
            limits.ignored.append(word)


def _command(line: str | None) -> str:
    """The first word; empty for a line without words and for the end of the lines."""
    return next(iter((line or "").split()), "")


def _number(text: str) -> int | None:
    """A number, rounded down, from 0 to MOST_NUMBER; what lies outside counts as the nearer end. None: no number."""
    if not re.fullmatch(r"[+-]?\d+(\.\d*)?", text, re.ASCII):
        return None
    return int(max(0.0, min(float(text), MOST_NUMBER)))


def _whole(text: str) -> int:
    """A whole number of at most nine digits; -1 for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1
