"""``Table``: one game at the server, and its view on the page; ``Tables``: the games that the server keeps.

Thread-safe: a lock guards each table, and no search holds it. The page gets JSON: plain numbers, names of moves as in
move_name, points row by row from the upper left. Win rates, leads and owners are seen by the *first player*, except
those of candidate moves, which are seen by the player to move. Subclasses (stones_page.py, plug-ins' pages) add what
depends on the kind of board.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.games.capabilities import komi_of
from pipeline.games.contract import BoolArray, Game, States
from pipeline.games.records import RecordText
from pipeline.methods.resignation import AgainstPerson
from pipeline.play.game_in_progress import GameInProgress, Line, PlayerOpponent
from pipeline.play.page.analyst import Analyst, Refused
from pipeline.play.page.later import LoadedLater
from pipeline.players.builtin import BUILT_INS

NOBODY = "nobody"  # the opponent of a person who plays both sides
MOST_TABLES = 16
PATIENCE_SECONDS = 0.5  # that a view waits for the rules: it can be shown without legal moves
MOST_MOVES = 1000  # per game; no record of a game between people is as long


def rules_of(game: Game) -> LoadedLater[None]:
    """The rules of games of this kind: their kernels, which may have to be compiled, for half a minute or longer."""

    def load() -> None:
        states = game.initial(1)
        game.legal(states, game.initial_history(states))

    return _RULES.setdefault(type(game), LoadedLater(f"the rules of {game.board_title}", load, alone=False))


def readiness(model: LoadedLater[Any] | None) -> dict[str, Any]:
    """For a view: whether the opponent can move, and why it can't be loaded. model: None: it isn't one."""
    return {"opponent_ready": model is None or model.is_ready, "opponent_problem": model and model.problem}


_RULES: dict[type, LoadedLater[None]] = {}


@dataclass(frozen=True)
class Beginning:
    """What a game begins with if it isn't new.

    start     [1, S] a position; None: the initial one
    moves     (player, action)
    names     of the players, "" where unknown
    resigned  the player who resigned after the last move
    notes     what to tell people about the record that it comes from
    """

    start: States | None = None
    moves: Sequence[tuple[int, int]] = ()
    names: tuple[str, str] = ("", "")
    resigned: int | None = None
    notes: Sequence[str] = ()


class BaseTable:
    """What all tables have: a game in progress, undo, resigning and records. human: the person's side; None: both."""

    def __init__(
        self,
        game: Any,
        colours: tuple[str, str],
        opponent: str,
        human: int | None,
        start: States | None,
        dice: Any = None,
    ) -> None:
        """start, dice: as for GameInProgress."""
        self.id = secrets.token_urlsafe(9)
        self.game, self.colours, self.opponent, self.human = game, colours, opponent, human
        self._lock = threading.RLock()
        self._played = GameInProgress(game, start, dice)

    def close(self) -> None:
        """Nothing to end."""

    def undo(self, ply: int) -> None:
        """Raises IllegalMove if there is nothing to take back."""
        with self._at_present(ply):
            self._undo()

    def resign(self, ply: int) -> None:
        with self._at_present(ply):
            if self.over:
                raise Refused(409, "the game is already over")
            self._played.resigned = self.to_move if self.human is None else self.human

    def record(self, suffix: str) -> str:
        """The game as a file's text. Raises Refused for a suffix that isn't one of records."""
        with self._lock:
            if suffix not in self.records:
                wanted = ", ".join(self.records) or "no file at all"
                raise Refused(400, f"{self.game.board_title} isn't written as {suffix[:10]}; wanted {wanted}")
            return self._written(suffix, RecordText(*map(self._player_name, (0, 1))))

    @property
    def records(self) -> tuple[str, ...]:
        """The suffixes of the files that the game can be saved as."""
        raise NotImplementedError

    def _written(self, suffix: str, text: RecordText) -> str:
        """The game in this format, one of records."""
        raise NotImplementedError

    @property
    def to_move(self) -> int:
        return self._played.to_move

    @property
    def over(self) -> bool:
        return self._played.is_over

    def _undo(self) -> None:
        """Take back the person's resignation, or else their last move and all after it."""
        self._played.undo(self.human)

    def _outcome(self, states: States) -> str:
        """How a game ended by its rules, in words. states [1, S]"""
        raise NotImplementedError

    def _result(self) -> str | None:
        """For example "Black wins by 7.5 points"; None while the game goes on."""
        if (loser := self._played.resigned) is not None:
            return f"{self.colours[loser]} resigned: {self.colours[1 - loser]} wins"
        return self._outcome(self._played.states) if self.over else None

    def _waits_at(self, line: Line) -> bool:
        """Whether the line is the whole game and nobody has resigned: the move after it is still wanted."""
        return self._played.resigned is None and tuple(self._played.moves) == line.moves

    @contextmanager
    def _at_present(self, ply: int) -> Iterator[None]:
        """Hold the lock. Raises Refused unless the game has this number of moves."""
        with self._lock:
            moves = len(self._played.moves)
            if ply != moves:
                raise Refused(409, f"the game has {moves} moves, not {ply}: it was changed from another window")
            yield

    def _player_name(self, player: int) -> str:
        return "you" if self.human in (None, player) else self.opponent


class Table(BaseTable):
    """A game on the main page.

    adviser  the model that gives hints, which is the opponent if that is a model; None: no hints
    """

    board: ClassVar[str]  # the name under which a script registers the board that shows the game
    territory: ClassVar[bool] = False  # whether the board can show who owns its points

    def __init__(
        self,
        game: Game,
        opponent: str,
        human: int | None,
        readouts: int,
        adviser: Analyst | None = None,
        begin: Beginning | None = None,
    ) -> None:
        """Raises UsageError for an opponent that doesn't play the game, Refused for a record that breaks the rules."""
        begin = begin or Beginning()
        super().__init__(game.without_move_limit(), game.colours, opponent, human, begin.start)
        self.spec, self.readouts, self.adviser = game.spec, readouts, adviser
        komi = komi_of(game) if adviser is None else adviser.komi_in(self.game)
        self._other_komi = None if komi == komi_of(game) else komi  # what the adviser assumes instead
        self._built_in = PlayerOpponent(opponent, BUILT_INS[opponent](self.game, 1)) if opponent in BUILT_INS else None
        self._names, self._notes = begin.names, list(begin.notes)
        self._named: list[str] = []  # the moves by name
        self._winrates: dict[int, float] = {}  # by ply, of the first player
        self._leads: dict[int, float] = {}  # likewise
        self._analyses: dict[int, dict[str, Any]] = {}  # by ply, as the page gets them
        self._looks = 0  # the person's moves, and the searches that they asked for one by one: the last one counts
        self._left = 0  # how often the person left for another game
        self._resignation = AgainstPerson(self.game)
        for number, (player, action) in enumerate(begin.moves, start=1):
            try:
                self._play(action, player)
            except Refused as error:
                raise Refused(400, f"move {number} of the record: {error}") from error
        if not self.over:
            self._played.resigned = begin.resigned

    # Requests of the page

    def play(self, move: str, ply: int) -> None:
        """Make a person's move. Raises Refused if it isn't their turn or the rules forbid it."""
        with self._at_present(ply):
            if self.human is not None and self.to_move != self.human:
                raise Refused(409, f"it is {self.colours[self.to_move]}'s turn, and your opponent plays that colour")
            try:
                action = self.game.parse_move(self._played.positions[-1].state, move)
            except IllegalMove as error:
                raise Refused(400, f"{move!r} is no move of {self.game.board_title}") from error
            if self.over:
                raise Refused(400, f"{self._played.name_of(action)} is not possible: the game is over")
            self._play(action, self.to_move)
            self._looks += 1

    def reply(self, ply: int) -> None:
        """Make the opponent's move. Does nothing if it isn't their turn or the game has changed meanwhile."""
        with self._at_present(ply):
            if self.human is None or self.over or self.to_move == self.human:
                return
            line, mover, left = self._played.line(), self.to_move, self._left
        if self._built_in is not None:
            action, _ = self._built_in.choose(line)
            with self._lock:
                if self._waits_at(line):
                    self._play(action, mover)
            return
        assert self.adviser is not None

        def stale() -> bool:
            return not self._waits_at(line) or self._left != left

        action, found = self.adviser.search(line, self.readouts, stale, plays=True)
        with self._lock:
            if stale():
                return
            self._note(ply, mover, found)
            if self._resignation.resigns(ply, 2 * found["winrate"] - 1, found["lead"]):
                self._played.resigned = mover
                return
            self._play(action, mover)
            best = next(iter(found["candidates"]), None)
            if best and best["move"] == self._named[ply] and not self.over:
                self._winrates[ply + 1] = best["winrate"] if mover == 0 else 1 - best["winrate"]

    def analyse(self, ply: int, readouts: int, whole: bool = False) -> int:
        """Search the position before move `ply` (counted from 0) with the adviser, and keep what was found.

        whole: the search runs to its end; otherwise the person's next move or search ends it.
        Does nothing at an end after which the game went on. Returns ply, which is to be shown. Raises Refused if the
        game has ended there, or if there is no adviser.
        """
        with self._lock:
            self._check(ply)
            if self.adviser is None:
                raise Refused(400, f"no model on this server plays {self.game.board_title}: there are no hints")
            if self._over_at(ply):
                if ply < len(self._played.moves):
                    return ply
                raise Refused(400, "the game is over here: there is no move to look for")
            line, mover = self._played.line(ply), self._to_move_at(ply)
            self._looks += not whole
            looks, left = self._looks, self._left

        def stale() -> bool:
            return self._changed(line) or self._left != left or (not whole and self._looks != looks)

        _, found = self.adviser.search(line, readouts, stale)
        with self._lock:
            if not stale():
                self._note(ply, mover, found)
        return ply

    def leave(self, ply: int) -> None:
        """End this game's searches: the person has begun another game, which may wait for the same model. Later ones
        aren't affected. ply: ignored
        """
        with self._lock:
            self._left += 1

    def judge(self, ply: int) -> None:
        """Ask the adviser for the result, if to_judge says so; here it never does."""
        raise Refused(400, f"nothing to judge: the rules of {self.game.board_title} decide every game")

    def rewind(self, ply: int, to: int) -> None:
        """Take back the moves from number `to` on."""
        with self._at_present(ply):
            self._check(to)
            self._cut(to)

    def view(self, ply: int | None = None) -> dict[str, Any]:
        """What the page shows: the whole game, and the position before move `ply`; None: the present one."""
        with self._lock:
            ply = len(self._played.moves) if ply is None else ply
            self._check(ply)
            position = self._played.positions[ply]
            known = rules_of(self.game).wait(PATIENCE_SECONDS)
            legal = np.zeros(self.game.num_actions, np.bool_)
            if known:
                legal = self.game.legal(position.states, position.history)[0]
            return {
                "id": self.id,
                **self._fixed(),
                "opponent": self.opponent,
                "human": self.human,
                "readouts": self.readouts,
                "adviser": self.adviser and self.adviser.name,
                "adviser_ready": self.adviser is not None and self.adviser.model.is_ready,
                **readiness(self.adviser.model if self.adviser and self.adviser.name == self.opponent else None),
                "other_komi": self._other_komi,
                "moves": list(self._named),
                "movers": [player for player, _ in self._played.moves],
                "over": self.over,
                "result": self._result(),
                "to_judge": self.to_judge,
                "turn": self.to_move,
                "winrates": self._winrates,
                "leads": self._leads,
                "searched": [one for one, found in self._analyses.items() if found["visits"]],
                "ply": ply,
                "to_move": self._to_move_at(ply),
                "over_here": self._over_at(ply),
                "analysis": self._analyses.get(ply),
                "rules_ready": known,  # until then, no move is shown as legal
                **self._position(ply, legal),
            }

    # What depends on the kind of board

    @property
    def to_judge(self) -> bool:
        """Whether the game has ended and judge() hasn't been asked yet."""
        return False

    def _fixed(self) -> dict[str, Any]:
        """What never changes during a game."""
        height, width = self.game.board_shape
        return {
            "board_kind": self.board,
            "game": self.spec,
            "title": self.game.title,
            "height": height,
            "width": width,
            "colours": self.colours,
            "passes": self.game.pass_action is not None,
            "territory": self.territory,
            "records": self.records,
            "players": [self._player_name(player) for player in (0, 1)],
            "notes": self._notes,
        }

    def _position(self, ply: int, legal: BoolArray) -> dict[str, Any]:
        """What is on the board before move `ply`, and which moves are legal there. legal [A]

        The page itself reads ``legal``, a list; ``can_pass``; ``last``, None before the first move; ``check``, whether
        a king is attacked; and ``remark``, what else is to be said of the position. The rest is for the board's script.
        """
        raise NotImplementedError

    def _seen(self, ply: int, found: dict[str, Any]) -> dict[str, Any]:
        """An analysis of that position, without its win rate. found: see Analyst.search."""
        keys = ("move", "visits", "winrate", "prior", "pv")
        return {"moves": [{key: move[key] for key in keys} for move in found["candidates"]]}

    # The game

    def _play(self, action: int, player: int) -> None:
        """Make a move, as GameInProgress.play does. Raises Refused."""
        name = self._played.name_of(action)
        if len(self._played.moves) >= MOST_MOVES:
            raise Refused(400, f"the game has {MOST_MOVES} moves, the most that are kept")
        try:
            self._played.play(action, player)
        except IllegalMove as error:
            raise Refused(400, f"{name} is not possible: {str(error).rpartition(': ')[2]}") from error
        self._named.append(name)

    def _undo(self) -> None:
        super()._undo()
        self._cut(len(self._played.moves))

    def _cut(self, ply: int) -> None:
        self._played.cut(ply)
        del self._named[ply:]
        for known in (self._winrates, self._leads, self._analyses):
            for later in [number for number in known if number > ply]:
                del known[later]  # type: ignore[attr-defined]

    def _check(self, ply: int) -> None:
        if not 0 <= ply <= len(self._played.moves):
            raise Refused(409, f"ply: found {ply}; this game has the positions 0 to {len(self._played.moves)}")

    def _changed(self, line: Line) -> bool:
        """Whether moves of the line were taken back."""
        return tuple(self._played.moves[: len(line.moves)]) != line.moves

    def _over_at(self, ply: int) -> bool:
        return bool(self.game.is_over(self._played.positions[ply].states)[0])

    def _to_move_at(self, ply: int) -> int:
        return int(self.game.to_move(self._played.positions[ply].states)[0])

    # What the page sees

    def _player_name(self, player: int) -> str:
        return self._names[player] or super()._player_name(player)

    def _comments(self) -> list[str]:
        """For each move: the first player's win rate after it, "" if unknown."""
        known = [self._winrates.get(ply) for ply in range(1, len(self._played.moves) + 1)]
        return ["" if rate is None else f"{self.colours[0]} {rate:.1%}" for rate in known]

    def _note(self, ply: int, mover: int, found: dict[str, Any]) -> None:
        """Keep what was found at a ply, in the page's form."""
        self._winrates[ply] = found["winrate"] if mover == 0 else 1 - found["winrate"]
        if found["lead"] is not None:
            self._leads[ply] = found["lead"] if mover == 0 else -found["lead"]
        self._analyses[ply] = {
            "visits": found["visits"],
            "winrate": self._winrates[ply],
            "lead": self._leads.get(ply),
            **self._seen(ply, found),
        }


class Tables:
    """The games of a page (kinds.OwnTable), at most MOST_TABLES: a new one replaces the one used least recently."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, table: Any) -> None:
        with self._lock:
            self._tables[table.id] = table
            if len(self._tables) > MOST_TABLES:
                self._tables.popitem(last=False)[1].close()

    def find(self, name: str) -> Any:
        """Raises Refused if it isn't kept."""
        with self._lock:
            if name not in self._tables:
                raise Refused(404, "no such game: the server was restarted, or newer games took its place")
            self._tables.move_to_end(name)
            return self._tables[name]
