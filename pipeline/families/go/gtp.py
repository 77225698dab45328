"""The Go Text Protocol, version 2, the engine's side: for Sabaki, GoGui, CGOS and programs that run tournaments.

A command is one line, ``7 genmove black``; the answer is ``=7 D4`` or ``?7 reason``, and an empty line. Every line gets
one of the two answers, and no line stops the engine. Analysis (``kata-analyze``, ``lz-analyze``) streams lines until
the next line comes in, of some moves only if ``avoid`` or ``allow`` says so. A quit, or the end of the input, that
arrives during a search ends it, and all searches queued before the quit; see CommandLines.ended_by.

A model plays one size and one komi and refuses others, unless it is a model of go:any. As GTP demands, players may move
out of turn and go on after two passes. Only passes end a game, because self-play's move limit is off. Scoring is the
area of the rules that the model learned; stones that it expects to be captured are dead.

Commands that need more than a board with turns (komi, handicap, final_score …) exist for Go only.
Source: Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002; KGS' and KataGo's extensions.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.families.go.dead_stones import dead_groups, groups, owner_of, score_without
from pipeline.families.go.handicap import most_handicap
from pipeline.games.capabilities import AllBoards, AnyPosition, Komi, adopted, komi_of, usual_handicap
from pipeline.games.contract import Game
from pipeline.games.sgf import MainLine, SgfRecord, main_line, record_of
from pipeline.games.stones import in_protocol_letters
from pipeline.methods.resignation import OwnValues
from pipeline.phrases import counted
from pipeline.play.clock import MOST_SECONDS, Clock, TimeSettings
from pipeline.play.command_lines import TOO_LONG, CommandLines
from pipeline.play.findings import Findings
from pipeline.play.game_in_progress import GameInProgress, Position
from pipeline.play.session import SearchSession
from pipeline.run import atomic
from pipeline.search.restriction import Moves, restriction

Write = Callable[[str], None]

NAME, VERSION = "MuGo", "0.17"  # Lizzie asks all programs but KataGo for Leela Zero's 0.15 or later
COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}
COLOUR_NAMES = ("black", "white")
DEFAULT_INTERVAL = 1.0  # seconds between the lines of an analysis
LEAST_INTERVAL, MOST_INTERVAL = 0.02, 3600.0
MOST_MOVES = 10  # of a line of analysis, unless maxmoves says otherwise
MOVES_PER_EMPTY = 0.35  # moves that a player will still make, per empty point: a third of the points stays empty
# Commands that only Go has
GO_ONLY = frozenset(
    ["komi", "get_komi", "loadsgf", "fixed_handicap", "place_free_handicap", "set_free_handicap", "final_score",
     "final_status_list", "kgs-genmove_cleanup", "kata-get-rules", "kata-set-rules", "kgs-rules"]
)  # fmt: skip
RULES = {
    "ko": "POSITIONAL", "scoring": "AREA", "tax": "NONE", "suicide": False, "hasButton": False,
    "whiteHandicapBonus": "0",
}  # fmt: skip
RULES_IN_WORDS = "area scoring, superko, no suicide and no bonus"
# KataGo's and KGS' names of rules with area scoring, letters alone
AREA_RULES = frozenset(
    ["aga", "bga", "chinese", "chinesekgs", "chineseogs", "french", "newzealand", "nz", "tromptaylor"]
)  # fmt: skip
MOST_PLIES = 5_000  # of a loaded record, whose memory grows with their square
# Options of an analysis. Those that aren't used here only say what KataGo is to leave out or add.
KNOWN_PAIRS = frozenset(
    ["interval", "minmoves", "maxmoves", "ownership", "rootinfo", "ownershipstdev", "movesownership",
     "movesownershipstdev", "pvvisits", "pvedgevisits", "noresultvalue"]
)  # fmt: skip


class GtpError(MuGoError):
    """A command that can't be followed; the error's text is the answer."""


class Gtp:
    """The protocol's state for one manager."""

    def __init__(
        self,
        session: SearchSession,
        findings: Findings,
        resign_threshold: float = -1.0,
        ponder: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """resign_threshold: value_to_move; -1: never resign. ponder: search while the opponent thinks.
        say: tells people, beside the protocol, what was read from a record.
        """
        self.session, self._findings, self._say = session, findings, say
        self._usual_komi = komi_of(session.game) or 0.0
        self._resign_threshold, self._ponder = resign_threshold, ponder
        self._own_values = OwnValues(), OwnValues()  # of the moves generated for each colour
        self._clocks = [Clock(), Clock()]
        self._moved = False  # the last command made the engine move, so there is something to ponder
        self._lines: CommandLines | None = None
        self._write: Write = lambda text: None
        is_go = isinstance(self._game, Komi) and isinstance(self._game, AnyPosition)
        methods = {name.removeprefix("_on_").replace("__", "-"): name for name in dir(self) if name.startswith("_on_")}
        self._commands: dict[str, Callable[[list[str]], str | None]] = {
            command: getattr(self, name) for command, name in methods.items() if is_go or command not in GO_ONLY
        }

    @property
    def _game(self) -> Game:
        return self.session.game

    def run(self, lines: CommandLines, write: Write) -> None:
        """Answer until "quit" or the end of the lines. write must flush."""
        self._lines, self._write = lines, write
        self._quit = False
        while not self._quit:
            if self._ponder and self._moved and not self.session.is_over and not lines.waiting():
                self.session.search_until(lines.waiting, self.session.room())
            line = lines.next()
            if line is None:
                return
            self.answer(line)

    def answer(self, line: str) -> None:
        """Write the answer with its empty line; nothing for a line without a command."""
        words = _preprocessed(line.removeprefix(TOO_LONG)).split()
        self._number = words.pop(0) if words and words[0].isdecimal() and words[0].isascii() else ""
        if not words:
            if self._number:
                self._write(f"?{self._number} unknown command\n\n")
            return
        self._moved = False
        try:
            if line.startswith(TOO_LONG):
                raise GtpError("line too long")
            if words[0] not in self._commands:
                raise GtpError("unknown command")
            result = self._commands[words[0]](words[1:])
            if result is None:  # streamed already
                self._write("\n")
            else:
                blank = "" if result == "" or result.startswith("\n") else " "
                self._write(f"={self._number}{blank}{result}\n\n")
        except MuGoError as error:
            self._write(f"?{self._number} {self._game.in_words(' '.join(str(error).split()))}\n\n")

    # Administration

    def _on_protocol_version(self, words: list[str]) -> str:
        return "2"

    def _on_name(self, words: list[str]) -> str:
        return NAME

    def _on_version(self, words: list[str]) -> str:
        return VERSION

    def _on_known_command(self, words: list[str]) -> str:
        return "true" if words and words[0] in self._commands else "false"

    def _on_list_commands(self, words: list[str]) -> str:
        return "\n".join(sorted(self._commands))

    def _on_quit(self, words: list[str]) -> str:
        self._quit = True
        return ""

    # The board

    def _on_boardsize(self, words: list[str]) -> str:
        if len(words) == 2:
            return self._on_rectangular_boardsize(words)  # as KataGo takes it
        size, game = _whole(words, "boardsize"), self._game
        if (size, size) != game.board_shape:
            if not isinstance(game, AllBoards):
                raise GtpError(f"unacceptable size: found {size}, this model plays {game.board_shape[0]}")
            try:
                self.session.change_game(in_protocol_letters(game.on_board(size).without_move_limit()))
            except UsageError as error:
                raise GtpError(f"unacceptable size: {str(error).partition(': ')[2]}") from None
            self._warm_up()
        return self._on_clear_board([])

    def _on_rectangular_boardsize(self, words: list[str]) -> str:
        """KataGo's: width and height."""
        if len(words) != 2:
            raise GtpError("syntax error: wanted rectangular_boardsize WIDTH HEIGHT")
        if _whole(words, "width") != _whole(words[1:], "height"):
            raise GtpError(f"unacceptable size: found {words[0]} by {words[1]}, this model plays square boards")
        return self._on_boardsize(words[:1])

    def _on_clear_board(self, words: list[str]) -> str:
        self.session.restart()
        self._own_values = OwnValues(), OwnValues()
        self._clocks = [Clock(clock.settings) for clock in self._clocks]
        return ""

    def _on_komi(self, words: list[str]) -> str:
        komi, game = _number(words, "komi"), self._game
        assert isinstance(game, Komi)
        if komi == game.komi:
            return ""
        if not isinstance(game, AllBoards):
            raise GtpError(f"unacceptable komi: found {komi:g}, this model plays with {game.komi:g}")
        try:
            self.session.change_game(game.with_komi(komi))
        except UsageError:
            wanted = "wanted a multiple of 0.5 that the board has room for"
            raise GtpError(f"unacceptable komi: found {komi:g}, {wanted}") from None
        return ""

    def _on_get_komi(self, words: list[str]) -> str:
        return f"{komi_of(self._game):g}"

    def _on_kata__get__rules(self, words: list[str]) -> str:
        return json.dumps(RULES)

    def _on_kata__set__rules(self, words: list[str]) -> str:
        """Accept rules that score areas, as analysis.py does, and refuse others."""
        text = " ".join(words)
        try:
            rules = json.loads(text) if text.startswith("{") else text
        except (ValueError, RecursionError):
            rules = ""
        if not is_area_scoring(rules):
            raise GtpError(f"unsupported rules: found {text[:40]!r}; this model plays by {RULES_IN_WORDS}")
        return ""

    def _on_kgs__rules(self, words: list[str]) -> str:
        return self._on_kata__set__rules(words)

    def _on_play(self, words: list[str]) -> str:
        if len(words) != 2:
            raise GtpError("syntax error: wanted play COLOUR VERTEX")
        player, action = _colour(words), self._vertex(words[1])
        try:
            self.session.play(action, player)
        except IllegalMove:
            raise GtpError("illegal move") from None
        self._clocks[player].stop()
        return ""

    def _on_undo(self, words: list[str]) -> str:
        if not self.session.moves:
            raise GtpError("cannot undo")
        self.session.undo()
        return ""

    def _on_showboard(self, words: list[str]) -> str:
        return "\n" + self._game.diagram(self.session.state[0])

    def _on_loadsgf(self, words: list[str]) -> str:
        """loadsgf FILE [MOVE]: go to the position before that move, on the record's board and with its komi if the
        model can play them. Says in one line what was read. After an error, the game is what it was.

        A record without a komi that the model can play gets the one with which the engine began.
        """
        if not words:
            raise GtpError("syntax error: wanted loadsgf FILE [MOVE]")
        move = _whole(words[-1:], "move") if len(words) > 1 and words[-1].isdecimal() else None
        path = " ".join(words if move is None else words[:-1]).strip('"')
        game, session = self._game, self.session
        try:
            line = main_line(atomic.read_bytes(Path(path), "a record in SGF"))
            game = self._board_of(line)
            record = record_of(line, game)
            game = self._with_komi_of(record, game)
            last = len(record.moves) if move is None else min(max(0, move - 1), len(record.moves))
            if last > MOST_PLIES:
                raise MuGoError(f"{last:,} moves; wanted at most {MOST_PLIES:,}")
            _check(game, record, last)
        except MuGoError as error:
            raise GtpError(f"cannot load file: {game.in_words(str(error))}") from error
        if game.spec != self._game.spec:
            is_new_board = game.board_shape != self._game.board_shape
            session.change_game(game)
            if is_new_board:
                self._warm_up()
        session.restart(None if record.start is None else adopted(game, record.start))
        for number, (player, action) in enumerate(record.moves[:last]):
            self._set_up(record, number)
            session.play(action, player)
        self._set_up(record, last)
        self._own_values = OwnValues(), OwnValues()
        self._say("; ".join(["loadsgf: " + self._loaded(record, last), *record.notes]))
        return COLOUR_NAMES[session.to_move]

    def _board_of(self, line: MainLine) -> Game:
        """The game on a record's board if the model plays there, else the session's."""
        (height, width), game = line.shape, self._game
        other = line.shape != game.board_shape and height == width and line.kind in ("", "1")
        if not (other and isinstance(game, Komi) and isinstance(game, AllBoards)):
            return game
        try:
            return game.with_komi(0).on_board(height).without_move_limit()
        except UsageError:
            raise GtpError(f"the board is {height}×{height}; this model plays 5 to 19") from None

    def _with_komi_of(self, record: SgfRecord, game: Game) -> Game:
        """The game with a record's komi if it can be played, else with the usual one."""
        if not (isinstance(game, Komi) and isinstance(game, AllBoards)):
            return game
        if record.komi is not None:
            with suppress(UsageError):
                return game.with_komi(record.komi)
        return game.with_komi(self._usual_komi)

    def _warm_up(self) -> None:
        """The first move on a board would be made on its clock."""
        if not self._has_quit():
            self.session.warm_up(self._has_quit)

    def _set_up(self, record: SgfRecord, number: int) -> None:
        if number in record.setups:
            self.session.set_up(adopted(self._game, record.setups[number]))

    def _loaded(self, record: SgfRecord, moves: int) -> str:
        height, width = self._game.board_shape
        part = "" if moves == len(record.moves) else f"{moves} of "
        own = komi_of(self._game)
        komi = f"komi {own:g}"
        if record.komi is None:
            komi += " as the record gives no other"
        elif record.komi != own and isinstance(self._game, AllBoards):
            komi += f", as this model can't play the record's {record.komi:g}"
        elif record.komi != own:
            komi += f", the only one that this model plays, not the record's {record.komi:g}"
        return f"{width}×{height}, {komi}, {part}{counted(len(record.moves), 'move')}"

    # Handicap

    def _on_fixed_handicap(self, words: list[str]) -> str:
        return self._place(_whole(words, "stones"))

    def _on_place_free_handicap(self, words: list[str]) -> str:
        """The stones of fixed_handicap, fewer if its table has no more, which GTP allows."""
        return self._place(min(_whole(words, "stones"), most_handicap(self._game.board_shape[0])))

    def _place(self, stones: int) -> str:
        self._need_empty_board()
        try:
            points = usual_handicap(self._game, stones)
        except UsageError as error:
            raise GtpError(f"invalid number of stones: {error}") from error
        return self._handicap(points)

    def _on_set_free_handicap(self, words: list[str]) -> str:
        points = [self._vertex(word) for word in words]
        if len(points) < 2 or len(set(points)) < len(points) or self._game.pass_action in points:
            raise GtpError("bad vertex list")
        self._handicap(points)
        return ""

    def _need_empty_board(self) -> None:
        if self.session.state[0, : self._game.num_points].any():
            raise GtpError("board not empty")

    def _handicap(self, points: list[int]) -> str:
        self._need_empty_board()
        assert isinstance(self._game, AnyPosition)
        try:
            self.session.restart(self._game.position(points, [], 1))
        except IllegalMove as error:
            raise GtpError("bad vertex list") from error
        return " ".join(self._game.action_name(point) for point in points)

    # Time

    def _on_time_settings(self, words: list[str]) -> str:
        if len(words) != 3:
            raise GtpError("syntax error: wanted time_settings MAIN PERIOD STONES, seconds and a number")
        settings = TimeSettings(_seconds(words[0]), _seconds(words[1]), _whole(words[2:], "stones"))
        self._clocks = [Clock(settings), Clock(settings)]
        return ""

    def _on_kgs__time_settings(self, words: list[str]) -> str:
        kind, numbers = (words[0], words[1:]) if words else ("", [])
        settings = None
        if kind == "absolute" and len(numbers) == 1:
            settings = TimeSettings(_seconds(numbers[0]))
        elif kind in ("byoyomi", "canadian") and len(numbers) == 3:
            count = _whole(numbers[2:], "periods or stones")
            main, period = _seconds(numbers[0]), _seconds(numbers[1])
            stones, periods = (0, count) if kind == "byoyomi" else (count, 0)
            no_overtime = kind == "byoyomi" and count == 0
            settings = TimeSettings(main) if no_overtime else TimeSettings(main, period, stones, periods)
        elif kind != "none":
            raise GtpError("syntax error: wanted none, absolute MAIN, or byoyomi or canadian MAIN PERIOD NUMBER")
        self._clocks = [Clock(settings), Clock(settings)]
        return ""

    def _on_time_left(self, words: list[str]) -> str:
        if len(words) != 3:
            raise GtpError("syntax error: wanted time_left COLOUR SECONDS STONES")
        word = "0" if _number(words[1:2], "seconds") < 0 else words[1]  # a manager may say that the time is over
        self._clocks[_colour(words)].set_left(_seconds(word), _whole(words[2:], "stones"))
        return ""

    # Moves

    def _on_genmove(self, words: list[str]) -> str:
        return self._generate(_colour(words))

    def _on_stop(self, words: list[str]) -> str:
        """KataGo's: end pondering, as every command does."""
        return ""

    def _on_clear_cache(self, words: list[str]) -> str:
        """KataGo's: forget what was searched."""
        self.session.drop_tree()
        return ""

    def _on_reg_genmove(self, words: list[str]) -> str:
        """Choose without playing and without a clock: the same move each time."""
        before = self.session.here()
        try:
            self.session.set_turn(_colour(words))
            self.session.drop_tree()
            return self._game.action_name(self._think(None))
        finally:
            self.session.go_to(before)

    def _on_kgs__genmove_cleanup(self, words: list[str]) -> str:
        """While dead stones of the opponent are on the board, capture them instead of passing."""
        player = _colour(words)
        theirs = [group for group in self._dead_groups() if owner_of(self.session.state[0], group[0]) == 1 - player]
        return self._generate(player, never_pass=bool(theirs))

    def _generate(
        self,
        player: int,
        never_pass: bool = False,
        avoid: Sequence[Moves] = (),
        allow: Sequence[Moves] = (),
        report: Callable[[], None] = lambda: None,
    ) -> str:
        """Choose and play a move on the player's clock, or resign.

        never_pass: unless nothing else is legal; avoid, allow: see restriction(); report: called after each batch of
        the network.
        """
        session, clock, passes = self.session, self._clocks[player], self._game.pass_action
        clock.start()
        try:
            if self._begin_move(player, never_pass):
                if never_pass and passes is not None:
                    avoid = [*avoid, Moves(player, [passes])]
                session.restrict(restriction(self._game.num_actions, avoid, allow))
                action = self._think(clock.seconds(self._moves_left()), report)
                value = session.value_to_move()
            else:
                assert passes is not None
                action, value = passes, 0.0
            if self._own_values[player].resigns(len(session.moves), value, self._resign_threshold):
                return "resign"
            session.play(action, player)
        finally:
            clock.stop()
        self._moved = True
        return self._game.action_name(action)

    def _think(self, seconds: float | None, report: Callable[[], None] = lambda: None) -> int:
        """As SearchSession.think, until a quit ends the searches; a search that begins then is the raw policy."""

        def enough() -> bool:
            report()
            return self._has_quit()

        return self.session.think(seconds, 0 if self._has_quit() else None, enough)

    def _has_quit(self) -> bool:
        """Whether searches are to end because the manager has quit."""
        return self._lines is not None and self._lines.ended_by("quit")

    def _begin_move(self, player: int, never_pass: bool = False) -> bool:
        """Make it the player's turn -> whether to search; False after two passes, where the answer is another pass.

        Raises MuGoError if the player can't move.
        """
        if self.session.is_over and not never_pass:
            if self._game.pass_action is None or not isinstance(self._game, AnyPosition):
                raise GtpError("the game is over")
            return False
        self.session.set_turn(player)
        return True

    def _moves_left(self) -> int:
        stones = np.count_nonzero(self.session.state[0, : self._game.num_points])
        return int(MOVES_PER_EMPTY * (self._game.num_points - stones))

    # The end

    def _on_final_score(self, words: list[str]) -> str:
        """The score of the board without its dead stones."""
        assert isinstance(self._game, AnyPosition)
        score = score_without(self._game, self.session.state[0], self._dead_groups())
        return f"{'B' if score > 0 else 'W'}+{abs(score):g}" if score else "0"

    def _on_final_status_list(self, words: list[str]) -> str:
        """One group a line. No stone is ever in seki: area scoring counts stones in seki as alive."""
        if words not in (["alive"], ["dead"], ["seki"]):
            raise GtpError("syntax error: wanted alive, dead or seki")
        dead = self._dead_groups()
        chosen = {
            "dead": dead,
            "alive": [g for g in groups(self._game, self.session.state[0]) if g not in dead],
            "seki": [],
        }[words[0]]
        return "\n".join(" ".join(map(self._game.action_name, group)) for group in chosen)

    def _dead_groups(self) -> list[list[int]]:
        """The groups that the network expects to belong to the other side at the end; none without an estimate."""
        to_move = self._findings.ownership()
        black = to_move if to_move is None or self.session.to_move == 0 else -to_move
        return dead_groups(self._game, self.session.state[0], black)

    # Analysis

    def _on_lz__analyze(self, words: list[str]) -> None:
        self._analyse(words, self._lz_line)

    def _on_kata__analyze(self, words: list[str]) -> None:
        self._analyse(words, self._kata_line)

    def _on_lz__genmove_analyze(self, words: list[str]) -> None:
        self._generate_and_analyse(words, self._lz_line)

    def _on_kata__genmove_analyze(self, words: list[str]) -> None:
        self._generate_and_analyse(words, self._kata_line)

    def _analyse(self, words: list[str], line_of: Callable[[AnalysisOptions], str]) -> None:
        """Stream until a line comes in. answer() writes the empty line that ends the answer.

        A game that two passes ended is analysed as if it went on, and stays ended.
        """
        wanted, session = self._analysis_options(words), self.session
        before, goes_on = session.here(), not session.is_over or isinstance(self._game, AnyPosition)
        if goes_on:
            session.set_turn(session.to_move if wanted.player is None else wanted.player)
            self._restrict(wanted, before)
        report = self._reporter(wanted, line_of)
        self._write(f"={self._number}\n")
        lines = self._lines
        assert lines is not None, "analysis streams, so it needs run()"

        def line_waits() -> bool:
            report()
            return lines.waiting()

        try:
            if goes_on and not self._has_quit():
                session.search_until(line_waits, session.room())
            while not lines.wait(wanted.interval):  # the tree is full: repeat what was found
                report()
        finally:
            if self._game.is_over(before.states)[0]:
                session.go_to(before)

    def _restrict(self, wanted: AnalysisOptions, before: Position) -> None:
        """Raises GtpError, and goes back to the position before the command, if no legal move would be left."""
        until = restriction(self._game.num_actions, wanted.avoid, wanted.allow)
        if not (self.session.legal() & (until[self.session.to_move] == 0)).any():
            self.session.go_to(before)
            raise GtpError("avoid and allow leave no legal move")
        self.session.restrict(until)

    def _generate_and_analyse(self, words: list[str], line_of: Callable[[AnalysisOptions], str]) -> None:
        wanted = self._analysis_options(words)
        player = self.session.to_move if wanted.player is None else wanted.player
        before = self.session.here()
        if self._begin_move(player):  # an error must come before the answer begins
            self._restrict(wanted, before)
        report = self._reporter(wanted, line_of)
        self._write(f"={self._number}\n")
        self._write(f"play {self._generate(player, avoid=wanted.avoid, allow=wanted.allow, report=report)}\n")

    def _reporter(self, wanted: AnalysisOptions, line_of: Callable[[AnalysisOptions], str]) -> Callable[[], None]:
        """A function that writes a line, at most once per interval."""
        due = time.monotonic() + wanted.interval

        def report() -> None:
            nonlocal due
            if time.monotonic() >= due and (line := line_of(wanted)):
                self._write(line + "\n")
                due = time.monotonic() + wanted.interval

        return report

    def _lz_line(self, wanted: AnalysisOptions) -> str:
        """As Leela Zero writes it: shares in ten-thousandths."""
        parts = []
        for found in self._findings.candidates(wanted.most):
            shares = " ".join(f"{name} {round(10_000 * found[name])}" for name in ("winrate", "prior", "lcb"))
            pv = " ".join(found["pv"])
            parts.append(f"info move {found['move']} visits {found['visits']} {shares} order {found['order']} pv {pv}")
        return " ".join(parts)

    def _kata_line(self, wanted: AnalysisOptions) -> str:
        """As KataGo writes it: fractions, and points of score."""
        parts = []
        for found in self._findings.candidates(wanted.most):
            pv = found.pop("pv")
            parts.append(f"info {_pairs(found)} pv {' '.join(pv)}")
        if wanted.root_info and parts:  # after two passes nothing is searched
            parts.append(f"rootInfo {_pairs(self._findings.root())}")
        owners = self._findings.ownership() if wanted.ownership else None
        if owners is not None:
            parts.append("ownership " + " ".join(f"{owner:.3f}" for owner in owners.tolist()))
        return " ".join(parts)

    def _vertex(self, word: str) -> int:
        try:
            return self._game.parse_action(word)
        except IllegalMove:
            raise GtpError(f"invalid vertex: {word[:20]!r}") from None

    def _analysis_options(self, words: list[str]) -> AnalysisOptions:
        """``[COLOUR] [INTERVAL] [interval N] [maxmoves N] [ownership true] [rootInfo true]
        [avoid COLOUR VERTEX,… DEPTH] [allow COLOUR VERTEX,… DEPTH] …``; intervals in centiseconds. Other options of
        KataGo are ignored.
        """
        found, rest = AnalysisOptions(), deque(word.lower() for word in words)
        if rest and rest[0] in COLOURS:
            found.player = COLOURS[rest.popleft()]
        if rest and rest[0].replace(".", "", 1).isdecimal():
            rest.appendleft("interval")
        while rest:
            name = rest.popleft()
            if name in ("avoid", "allow"):
                (found.avoid if name == "avoid" else found.allow).append(self._moves_until(name, rest))
                continue
            if name not in KNOWN_PAIRS:
                raise GtpError(f"syntax error: {name[:20]!r} is no option of an analysis")
            if not rest:
                raise GtpError(f"syntax error: {name[:20]!r} has no value")
            value = rest.popleft()
            if name == "interval":
                found.interval = min(max(LEAST_INTERVAL, _number([value], "interval") / 100), MOST_INTERVAL)
            elif name == "maxmoves":
                found.most = max(1, _whole([value], "maxmoves"))
            elif name == "ownership":
                found.ownership = value == "true"
            elif name == "rootinfo":
                found.root_info = value == "true"
        return found

    def _moves_until(self, name: str, rest: deque[str]) -> Moves:
        """Take ``COLOUR VERTEX,VERTEX,… DEPTH`` from the words; blanks may follow the commas."""
        player, vertices = _colour([rest.popleft()] if rest else []), []
        while rest and not rest[0].isdecimal():
            vertices += [vertex for vertex in rest.popleft().split(",") if vertex]
        if not vertices or not rest:
            raise GtpError(f"syntax error: wanted {name} COLOUR VERTEX,VERTEX,… DEPTH")
        return Moves(player, [self._vertex(vertex) for vertex in vertices], _whole([rest.popleft()], "depth"))


@dataclass
class AnalysisOptions:
    """player: make it this player's turn; None: leave the turn as it is. interval: seconds. most: moves per line.
    avoid, allow: see restriction().
    """

    player: int | None = None
    interval: float = DEFAULT_INTERVAL
    most: int = MOST_MOVES
    ownership: bool = False
    root_info: bool = False
    avoid: list[Moves] = field(default_factory=list)
    allow: list[Moves] = field(default_factory=list)


def is_area_scoring(rules: str | dict[str, Any]) -> bool:
    """Whether rules, under KataGo's names, differ from the model's in ko, suicide and handicap at most."""
    if isinstance(rules, str):
        return re.sub("[-_ ]", "", rules.lower()) in AREA_RULES
    tax = str(rules.get("tax", "NONE")).upper()
    return str(rules.get("scoring", "AREA")).upper() == "AREA" and tax == "NONE" and not rules.get("hasButton")


def _check(game: Game, record: SgfRecord, moves: int) -> None:
    """Play the first moves of a record. Raises MuGoError for an illegal one."""
    played = GameInProgress(game, None if record.start is None else adopted(game, record.start))
    for number, (player, action) in enumerate(record.moves[:moves]):
        if number in record.setups:
            played = GameInProgress(game, adopted(game, record.setups[number]))
        try:
            played.play(action, player)
        except IllegalMove as error:
            raise MuGoError("; ".join([f"move {number + 1}: {error}", *record.notes])) from error


def _preprocessed(line: str) -> str:
    """The line without comments and control characters, tabs as blanks. Source: GTP 3.1."""
    kept = "".join(c for c in line.replace("\t", " ") if c >= " " and c != "\x7f")
    return kept.partition("#")[0]


def _pairs(fields: dict[str, object]) -> str:
    return " ".join(
        f"{name} {value:.6f}" if isinstance(value, float) else f"{name} {value}" for name, value in fields.items()
    )


def _quoted(words: list[str]) -> str:
    """The first word, as a message shows it."""
    return repr(words[0][:20]) if words else "nothing"


def _colour(words: list[str]) -> int:
    player = COLOURS.get(words[0].lower()) if words else None
    if player is None:
        raise GtpError(f"syntax error: {_quoted(words)} is no colour; wanted black or white")
    return player


def _whole(words: list[str], what: str) -> int:
    """The first word as a number from 0 up."""
    if not words or not (words[0].isascii() and words[0].isdecimal() and len(words[0]) < 10):
        raise GtpError(f"syntax error: {what} is {_quoted(words)}; wanted a whole number")
    return int(words[0])


def _number(words: list[str], what: str) -> float:
    """The first word as a number. A comma is a decimal point: programs that follow their user's locale write 7,5."""
    try:
        number = float(words[0].replace(",", "."))
    except (IndexError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise GtpError(f"syntax error: {what} is {_quoted(words)}; wanted a number")
    return number


def _seconds(word: str) -> float:
    number = _number([word], "time")
    if not 0 <= number < MOST_SECONDS:
        raise GtpError(f"syntax error: {word[:20]} seconds")
    return number
