"""``Table``: one game at the server, and what the page shows of it; ``Tables``: those that are kept.

Thread-safe: a lock guards each table, and no search holds it. What the page gets is JSON: plain numbers, names of moves
as in move_name, points row by row from the upper left, and every win rate, lead and owner seen by the *first player*,
but those of candidate moves, which are seen by the player to move. What depends on the kind of board, its subclasses
say: stones.py, and those of plug-ins' pages.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.games.contract import BoolArray, Game, History, States
from pipeline.games.records import RecordText
from pipeline.play.page.analyst import Analyst, Line, Refused
from pipeline.play.session import Position

NOBODY, RANDOM, HEURISTIC = "nobody", "random", "heuristic"  # opponents that are no models
MOST_TABLES = 16
MOST_MOVES = 1000  # of a game; no record between people is as long


@dataclass(frozen=True)
class Beginning:
    """What a game begins with that isn't new.

    start   [1, S] a position; None: the initial one
    moves   (player, action)
    names   of the players, "" where unknown
    resigned  who gave up after the last move
    """

    start: States | None = None
    moves: Sequence[tuple[int, int]] = ()
    names: tuple[str, str] = ("", "")
    resigned: int | None = None


class Table:
    """A game between a person and an opponent, or of a person against themselves.

    human: 0 or 1; None: plays both sides. adviser: the model that hints come from, None where there is none; it is the
    opponent if that is a model.
    """

    board: ClassVar[str]  # which of the page's boards shows it: the name that a script registers
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
        """Raises Refused for an opponent that the game hasn't, and for a record that breaks the rules."""
        self.id = secrets.token_urlsafe(9)
        self.spec, self.game = game.spec, game.without_move_limit()
        self.colours = game.colours
        self.opponent, self.human, self.readouts, self.adviser = opponent, human, readouts, adviser
        komi = game.komi if adviser is None else adviser.komi_in(self.game)
        self._other_komi = None if komi == game.komi else komi  # that the adviser thinks is given
        self._heuristic = game.heuristic() if opponent == HEURISTIC else None
        if opponent == HEURISTIC and self._heuristic is None:
            raise Refused(400, f"{self.spec} has no heuristic player; choose another opponent")
        self._rng = np.random.default_rng()
        self._lock = threading.RLock()
        begin = begin or Beginning()
        self._start, self._names = begin.start, begin.names
        states = self.game.initial(1) if self._start is None else self._start
        self._positions = [Position(states[0].copy(), game.keys(states))]
        self._moves: list[tuple[int, int]] = []  # (player, action)
        self._named: list[str] = []  # the same
        self._resigned: int | None = None
        self._winrates: dict[int, float] = {}  # by ply, of the first player
        self._leads: dict[int, float] = {}
        self._analyses: dict[int, dict[str, Any]] = {}  # by ply, as the page gets them
        for number, (player, action) in enumerate(begin.moves, start=1):
            try:
                self._play(action, player)
            except Refused as error:
                raise Refused(400, f"move {number} of the record: {error}") from error
        if not self.over:
            self._resigned = begin.resigned

    def close(self) -> None:
        """Nothing has to be ended."""

    # What the page asks for

    def play(self, move: str, ply: int) -> None:
        """A person's move. Raises Refused where it isn't theirs to make or the rules forbid it."""
        with self._lock:
            self._check_current(ply)
            if self.human is not None and self.to_move != self.human:
                raise Refused(409, f"it is {self.colours[self.to_move]}'s turn, and your opponent plays that colour")
            try:
                action = self.game.parse_move(self._positions[-1].state, move)
            except IllegalMove as error:
                raise Refused(400, f"{move!r} is no move of {self.spec}") from error
            if self.over:
                raise Refused(400, f"{self._name_of(action)} is not possible: the game is over")
            self._play(action, self.to_move)

    def reply(self, ply: int) -> None:
        """The opponent's move; nothing happens where it isn't the opponent's turn or the game changed meanwhile."""
        with self._lock:
            self._check_current(ply)
            if self.human is None or self.over or self.to_move == self.human:
                return
            line, mover = self._line(ply), self.to_move
        if self.opponent in (RANDOM, HEURISTIC):
            action, found = self._built_in_move(), None
        else:
            assert self.adviser is not None
            action, found = self.adviser.choose(line, self.readouts, lambda: not self._waits_at(line))
        with self._lock:
            if not self._waits_at(line):
                return
            self._play(action, mover)
            if found is not None:
                self._note(ply, mover, found)
                chosen = next((move for move in found["candidates"] if move["order"] == 0), None)
                if chosen and chosen["move"] == self._named[ply] and not self.over:
                    self._winrates[ply + 1] = chosen["winrate"] if mover == 0 else 1 - chosen["winrate"]

    def analyse(self, ply: int, readouts: int) -> None:
        """Search the position before move `ply` (counted from 0), with the adviser, and keep what was found.

        Nothing happens where the game was over and went on. Raises Refused where it has ended.
        """
        with self._lock:
            self._check(ply)
            if self.adviser is None:
                raise Refused(400, f"no model at this server plays {self.spec}, so there is nobody to ask")
            if self._over_at(ply):
                if ply < len(self._moves):
                    return
                raise Refused(400, "the game is over here: there is no move to look for")
            line, mover = self._line(ply), self._to_move_at(ply)
        found = self.adviser.analyse(line, readouts, lambda: self._changed(line))
        with self._lock:
            if not self._changed(line):
                self._note(ply, mover, found)

    def judge(self, ply: int) -> None:
        """Ask the adviser what the end is worth, where to_judge says so; here it never does."""
        raise Refused(400, f"nothing to judge: {self.spec} needs nobody to say how it ended")

    def undo(self, ply: int) -> None:
        """Take back until a move of the person's is taken back; or the resignation."""
        with self._lock:
            self._check_current(ply)
            if self._resigned is not None:
                self._resigned = None
                return
            mine = [i for i, (player, _) in enumerate(self._moves) if self.human in (None, player)]
            if not mine:
                raise Refused(400, "there is no move of yours to take back")
            self._cut(mine[-1])

    def rewind(self, ply: int, to: int) -> None:
        """Forget the moves from number `to` on."""
        with self._lock:
            self._check_current(ply)
            self._check(to)
            self._resigned = None
            self._cut(to)

    def resign(self, ply: int) -> None:
        with self._lock:
            self._check_current(ply)
            if self.over:
                raise Refused(409, "the game is over already")
            self._resigned = self.to_move if self.human is None else self.human

    def record(self, suffix: str) -> str:
        """The game as a file's text. Raises Refused for a suffix that isn't one of its records."""
        with self._lock:
            if suffix not in self.records:
                wanted = ", ".join(self.records) or "no file at all"
                raise Refused(400, f"{self.spec} isn't written as {suffix[:10]}; wanted {wanted}")
            return self._written(suffix, RecordText(*map(self._player_name, (0, 1))), self._resigned)

    def view(self, ply: int | None = None) -> dict[str, Any]:
        """What the page shows: the whole game, and the position before move `ply`; None: the last."""
        with self._lock:
            last = len(self._moves)
            ply = last if ply is None else ply
            self._check(ply)
            return {
                "id": self.id,
                **self._fixed(),
                "opponent": self.opponent,
                "human": self.human,
                "readouts": self.readouts,
                "adviser": self.adviser and self.adviser.name,
                "other_komi": self._other_komi,
                "moves": list(self._named),
                "movers": [player for player, _ in self._moves],
                "over": self.over,
                "result": self._result(),
                "to_judge": self.to_judge,
                "turn": self.to_move,
                "winrates": self._winrates,
                "leads": self._leads,
                "ply": ply,
                "to_move": self._to_move_at(ply),
                "over_here": self._over_at(ply),
                "analysis": self._analyses.get(ply),
                **self._position(ply, self._legal(ply)),
            }

    # What depends on the kind of board

    @property
    def to_judge(self) -> bool:
        """Whether the game has ended, and judge() is yet to be asked."""
        return False

    @property
    def records(self) -> tuple[str, ...]:
        """Suffixes of the files that it can be saved to."""
        raise NotImplementedError

    def _fixed(self) -> dict[str, Any]:
        """What never changes during a game."""
        height, width = self.game.board_shape
        return {
            "board_kind": self.board,
            "game": self.spec,
            "height": height,
            "width": width,
            "colours": self.colours,
            "passes": self.game.pass_action is not None,
            "territory": self.territory,
            "records": self.records,
            "players": [self._player_name(player) for player in (0, 1)],
        }

    def _position(self, ply: int, legal: BoolArray) -> dict[str, Any]:
        """What is on the board before move `ply`, and what may be played there. legal [A]

        The page itself reads ``legal``, a list, ``can_pass``, ``last``, None before the first move, and ``check``,
        whether a king is attacked; everything else is for the board's script.
        """
        raise NotImplementedError

    def _seen(self, ply: int, found: dict[str, Any]) -> dict[str, Any]:
        """An analysis of that position, but for win rates; found: see Analyst."""
        keys = ("move", "visits", "winrate", "prior", "pv")
        return {"moves": [{key: move[key] for key in keys} for move in found["candidates"]]}

    def _written(self, suffix: str, text: RecordText, resigned_by: int | None) -> str:
        """The game in this format, one of records."""
        raise NotImplementedError

    def _outcome(self, states: States) -> str:
        """How a game has ended by its rules, in words. states [1, S]"""
        raise NotImplementedError

    # The game

    @property
    def to_move(self) -> int:
        return self._to_move_at(len(self._moves))

    @property
    def over(self) -> bool:
        return self._resigned is not None or self._over_at(len(self._moves))

    def _play(self, action: int, player: int) -> None:
        """Records may go on after the last pass and out of turn, where the game knows such positions, and behind an
        end that Game.played_on takes back.
        """
        game = self.game
        name = self._name_of(action)
        states, keys = game.played_on(self._positions[-1].state[None]), self._positions[-1].keys
        over = bool(game.is_over(states)[0])
        if over and not game.can_set_up:
            raise Refused(400, f"{name} is not possible: the game is over")
        if len(self._moves) >= MOST_MOVES:
            raise Refused(400, f"the game has {MOST_MOVES} moves, and longer ones aren't kept")
        history = History(keys[None], np.array([len(keys)], np.int32))
        try:
            if player != self.to_move or over:
                if not game.can_set_up:
                    raise Refused(400, f"{name} is not possible: it is {self.colours[self.to_move]}'s turn")
                states = game.with_turn(states, player)
            after = game.play(states, np.array([action], np.int32), history)
        except IllegalMove as error:
            raise Refused(400, f"{name} is not possible: {str(error).rpartition(': ')[2]}") from error
        self._positions.append(Position(after[0], np.append(keys, game.keys(after))))
        self._moves.append((player, action))
        self._named.append(name)

    def _cut(self, ply: int) -> None:
        del self._moves[ply:], self._named[ply:], self._positions[ply + 1 :]
        for known in (self._winrates, self._leads, self._analyses):
            for later in [number for number in known if number > ply]:
                del known[later]  # type: ignore[attr-defined]

    def _built_in_move(self) -> int:
        """Of the players `random` and `heuristic`; among equals chance decides."""
        position, legal = self._positions[-1], self._legal(len(self._moves))
        scores = np.where(legal, 0.0, -np.inf)
        if self._heuristic is not None:
            history = History(position.keys[None], np.array([len(position.keys)], np.int32))
            scores = self._heuristic(position.state[None], history)[0]
        return int(self._rng.choice(np.flatnonzero(scores == scores.max())))

    def _check(self, ply: int) -> None:
        if not 0 <= ply <= len(self._moves):
            raise Refused(400, f"ply: found {ply}; this game has the positions 0 to {len(self._moves)}")

    def _check_current(self, ply: int) -> None:
        if ply != len(self._moves):
            raise Refused(409, f"the game has {len(self._moves)} moves, not {ply}: it was changed from another window")

    def _line(self, ply: int) -> Line:
        return Line(self.game, self._start, tuple(self._moves[:ply]))

    def _waits_at(self, line: Line) -> bool:
        """Whether the game, which went on there, still waits for the move after the line's last one."""
        return self._resigned is None and tuple(self._moves) == line.moves

    def _changed(self, line: Line) -> bool:
        """Whether moves of the line were taken back."""
        return tuple(self._moves[: len(line.moves)]) != line.moves

    def _over_at(self, ply: int) -> bool:
        return bool(self.game.is_over(self._positions[ply].state[None])[0])

    def _to_move_at(self, ply: int) -> int:
        return int(self.game.to_move(self._positions[ply].state[None])[0])

    def _name_of(self, action: int) -> str:
        """Of a move in the last position."""
        return self.game.move_name(self._positions[-1].state, action)

    def _legal(self, ply: int) -> BoolArray:
        """[A]"""
        state, keys = self._positions[ply]
        return self.game.legal(state[None], History(keys[None], np.array([len(keys)], np.int32)))[0]

    # What the page sees

    def _player_name(self, player: int) -> str:
        if self._names[player]:
            return self._names[player]
        return "you" if self.human in (None, player) else self.opponent

    def _comments(self) -> list[str]:
        """For each move: the first player's chances after it, where they are known."""
        known = [self._winrates.get(ply) for ply in range(1, len(self._moves) + 1)]
        return ["" if rate is None else f"{self.colours[0]} {rate:.1%}" for rate in known]

    def _result(self) -> str | None:
        """ "Black wins by 7.5 points"; None while the game goes on."""
        if self._resigned is not None:
            return f"{self.colours[self._resigned]} resigned: {self.colours[1 - self._resigned]} wins"
        states = self._positions[-1].state[None]
        return self._outcome(states) if self.game.is_over(states)[0] else None

    def _note(self, ply: int, mover: int, found: dict[str, Any]) -> None:
        """Keep what was found at a ply, as the page gets it."""
        self._winrates[ply] = found["winrate"] if mover == 0 else 1 - found["winrate"]
        if found["lead"] is not None:
            self._leads[ply] = found["lead"] if mover == 0 else -found["lead"]
        self._analyses[ply] = {
            "visits": found["visits"],
            "winrate": self._winrates[ply],
            "lead": self._leads.get(ply),
            **self._seen(ply, found),
        }


class Kept(Protocol):
    """A table, of whatever game."""

    id: str

    def close(self) -> None:
        """It is kept no longer."""


T = TypeVar("T", bound=Kept)


class Tables(Generic[T]):
    """The games that are kept: at most MOST_TABLES; the one idle for longest makes room for another."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._tables.values()))

    def add(self, table: T) -> None:
        with self._lock:
            self._tables[table.id] = table
            while len(self._tables) > MOST_TABLES:
                _, oldest = self._tables.popitem(last=False)
                oldest.close()

    def find(self, name: str) -> T:
        """Raises Refused if it isn't kept."""
        with self._lock:
            table = self._tables.get(name)
            if table is None:
                raise Refused(404, "no such game: the server was started anew, or newer games took its place")
            self._tables.move_to_end(name)
            return table
