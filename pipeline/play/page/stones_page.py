"""``StonesPage`` and ``StonesTable``: games whose moves place stones on points or drop them into columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError, UsageError
from pipeline.games.capabilities import InSgf, Komi, adopted
from pipeline.games.contract import AnyGame, BoolArray, Game, States
from pipeline.games.records import PlayedGame, RecordText, name_of
from pipeline.games.sgf import COLOURS, AnotherGame, line_sgf, main_line, record_of
from pipeline.games.stones import BoardGame
from pipeline.play.page.page_kinds import BoardPage
from pipeline.play.page.table import Beginning, Table

SGF = "sgf"
RESIGNATION = re.compile(r"([BW])\+R(?:esign)?", re.IGNORECASE)
LONGEST_RESULT = 20


class StonesTable(Table):
    board: ClassVar[str] = "stones"
    game: BoardGame

    @property
    def records(self) -> tuple[str, ...]:
        return (SGF,) if isinstance(self.game, InSgf) else ()

    def _fixed(self) -> dict[str, Any]:
        game, (height, width) = self.game, self.game.board_shape
        points = range(game.num_points)
        if self._falls():
            names = [f"column {game.columns[point % width]}, row {height - point // width}" for point in points]
            plays, rows = [game.action_name(point % width) for point in points], [""] * height
        else:
            names = plays = [game.action_name(point) for point in points]
            rows = [names[row * width][1:] for row in range(height)]
        return {
            **super()._fixed(),
            "look": asdict(game.look),
            "columns": list(game.columns[:width]),
            "rows": rows,
            "names": names,
            "plays": plays,
        }

    def _position(self, ply: int, legal: BoolArray) -> dict[str, Any]:
        pass_action = self.game.pass_action
        return {
            "board": self._board(ply).tolist(),
            "legal": [action is not None and bool(legal[action]) for action in self._point_actions(ply)],
            "can_pass": pass_action is not None and bool(legal[pass_action]),
            "last": self._point_of(ply - 1) if ply else None,
            "area": self._area(ply),
            "remark": self.game.remark(self._played.positions[ply].state, self.colours),
        }

    def _seen(self, ply: int, found: dict[str, Any]) -> dict[str, Any]:
        """Also the point of each move, the policy [P], and each point's expected owner; None if it isn't estimated."""
        seen = super()._seen(ply, found)
        actions, policy, owners = self._point_actions(ply), found["policy"], found["ownership"]
        spots = {action: point for point, action in enumerate(actions) if action is not None}
        for move in seen["moves"]:
            move["point"] = spots.get(self.game.parse_action(move["move"]))
        sign = 1 if self._to_move_at(ply) == 0 else -1
        return {
            **seen,
            "policy": [0.0 if action is None else round(float(policy[action]), 4) for action in actions],
            "ownership": None if owners is None else [round(sign * float(owner), 2) for owner in owners],
        }

    def _written(self, suffix: str, text: RecordText) -> str:
        played = self._played
        states = [position.states for position in played.positions]
        moves = [action for _, action in played.moves]
        assert isinstance(self.game, InSgf)
        record = PlayedGame(moves, text, self._comments(), resigned_by=played.resigned)
        return line_sgf(self.game, states, [player for player, _ in played.moves], record)

    def _outcome(self, states: States) -> str:
        winner, score = float(self.game.returns(states)[0]), abs(float(self.game.scores(states)[0]))
        if winner == 0:
            return "The game is drawn"
        return self._won(int(winner < 0), score)

    def _won(self, winner: int, score: float) -> str:
        margin = f" by {score:g} points" if isinstance(self.game, InSgf) and self.game.sgf.margin else ""
        return f"{self.colours[winner]} wins{margin}"

    # Points

    def _board(self, ply: int) -> NDArray[np.int16]:
        return self._played.positions[ply].state[: self.game.num_points]

    def _falls(self) -> bool:
        """Whether actions are columns, into which stones drop."""
        return self.game.num_actions < self.game.num_points

    def _point_actions(self, ply: int) -> list[int | None]:
        """[P] the action that places a stone there in this position, or None."""
        if not self._falls():
            return list(range(self.game.num_points))
        width = self.game.board_shape[1]
        landing = {action: self._landing(ply, action) for action in range(width)}
        return [point % width if landing[point % width] == point else None for point in range(self.game.num_points)]

    def _landing(self, ply: int, column: int) -> int:
        """The lowest empty point of a column; -1 if it is full."""
        width = self.game.board_shape[1]
        empty = np.flatnonzero(self._board(ply)[column::width] == 0)
        return int(empty[-1]) * width + column if empty.size else -1

    def _area(self, ply: int) -> list[int] | None:
        """[P] the owner of each point, +1 the first player, if that decides a game that is over; else None."""
        return None

    def _point_of(self, number: int) -> int | None:
        """The point of move `number`; None for a pass."""
        action = self._played.actions[number]
        if action == self.game.pass_action:
            return None
        return self._landing(number, action) if self._falls() else action


class StonesPage(BoardPage):
    """Games of stones. Subclasses have specs: they show these games only and offer them even without a model."""

    table = StonesTable
    record_names: Mapping[str, str] = MappingProxyType({SGF: "SGF"})
    opens = (f".{SGF}",)

    def plays(self, game: AnyGame) -> bool:
        names = {spec.partition(":")[0] for spec in self.specs}
        return isinstance(game, BoardGame) and (not names or name_of(game) in names)

    def read(self, data: bytes, games: Sequence[Game]) -> tuple[Game, Beginning]:
        """The first game that an SGF fits, with the record's komi. Begins where stones are set up last."""
        games = [game for game in games if isinstance(game, InSgf)]
        if not games:
            raise AnotherGame("none of these games is written in SGF")
        line, problems = main_line(data), list[MuGoError]()
        for game in games:
            try:
                record = record_of(line, game)
            except MuGoError as error:
                problems.append(error)
                continue
            game = with_komi(game, record.komi)
            ply, notes = max(record.setups, default=0), record.notes
            if isinstance(game, Komi) and record.komi not in (None, game.komi):
                notes = (*notes, f"its komi {record.komi:g} can't be played with; {game.komi:g} counts")
            start = record.setups.get(ply, record.start)
            if ply:
                notes = (*notes, f"stones are set up after move {ply}: the game begins there")
            names, start = (record.black, record.white), None if start is None else adopted(game, start)
            resigned, result = None, record.result.strip()
            if won := RESIGNATION.fullmatch(result):
                resigned = 1 - COLOURS.index(won[1].upper())
            elif result not in ("", "?"):
                notes = (*notes, f"its result is {result[:LONGEST_RESULT]}")
            return game, Beginning(start, record.moves[ply:], names, resigned, notes)
        raise min(problems, key=lambda problem: isinstance(problem, AnotherGame))


def with_komi(game: Game, komi: float | None) -> Game:
    """The game with this komi; the game itself if komi is None or can't be played with."""
    try:
        return game.with_komi(komi) if isinstance(game, Komi) and komi is not None else game
    except UsageError:
        return game
