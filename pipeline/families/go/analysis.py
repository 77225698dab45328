"""KataGo's JSON analysis protocol, for KaTrain and programs that look at whole games: many positions searched together.

A query is one line with a game and the turns of it to analyse. Each turn gets one answer, in the order in which they
are finished, and partial answers before it if the query asks for them. Positions of all queries share the rows of one
search, so that the network sees full batches. Every line is answered, if need be with {"error": …}, and none stops the
engine. At the end of the input it finishes the queries that it has.

The engine analyses one size and one komi and refuses others; a model of go:any analyses any komi. For rules without
area scoring it warns and uses the model's rules. It also warns of requests beyond the fields below. Each warning is
given once, not with every query. Turns behind an illegal move, such as a suicide, have no results; those before it are
analysed. Moves that avoidMoves or allowMoves leave out have no prior; if no legal move is left, there are no results.
maxVisits counts readouts; evaluating the position itself is not one. Values are black's unless
overrideSettings.reportAnalysisWinratesAs says WHITE or SIDETOMOVE.
Source: KataGo, docs/Analysis_Engine.md
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

import pipeline
from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.families.go.gtp import COLOURS, RULES_IN_WORDS, is_area_scoring
from pipeline.games.capabilities import AllBoards, AnyPosition, Komi, komi_of
from pipeline.games.contract import BoolArray, FloatArray, Planes, States
from pipeline.games.stones import in_protocol_letters
from pipeline.play.command_lines import TOO_LONG, CommandLines
from pipeline.play.config import EngineConfig
from pipeline.play.engine import game_of
from pipeline.play.findings import Findings
from pipeline.play.game_in_progress import Position, with_turn
from pipeline.play.session import WARM_UP_READOUTS, SearchedRow, tree_room
from pipeline.players.loading import load_estimator, load_tree_evaluator
from pipeline.players.searching import SearchPlayer, leaves_per_tree
from pipeline.progress import Progress
from pipeline.run.models import Model
from pipeline.search.restriction import Moves, restriction

if TYPE_CHECKING:
    from pipeline.networks.modules import Estimates

ROWS = 8  # positions searched at a time
LINES_PER_BATCH = 16  # read at most between two batches, so that the first answers come soon after many queries
MOST_MOVES = 5000  # of a query
MOST_NAMES = 10  # of unknown fields in a warning
ALL_MOVES = 1 << 16
NEGATED, MIRRORED = ("utility", "scoreLead", "scoreMean", "scoreSelfplay"), ("winrate", "lcb")

Pair = Annotated[list[str], Field(min_length=2, max_length=2)]
"""A colour and a point."""


def _without_point(found: Any) -> Any:
    return int(found) if isinstance(found, float) and abs(found) < 2**53 and found.is_integer() else found


Whole = Annotated[int, BeforeValidator(_without_point)]
"""A whole number, which some languages write as 100.0."""


class QueryError(MuGoError):
    """A query that can't be answered. name: the field at fault."""

    def __init__(self, problem: str, name: str) -> None:
        super().__init__(problem)
        self.name = name


class IllegalTurn(QueryError):
    """A move of a query that the rules forbid."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "moves")


class Fields(BaseModel):
    """The fields of a JSON object under KataGo's names. Unknown ones are kept as model_extra."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel, frozen=True)


class Settings(Fields):
    report_analysis_winrates_as: Literal["BLACK", "WHITE", "SIDETOMOVE"] = "BLACK"
    max_time: float = Field(math.inf, ge=0)  # seconds per position


class MovesUntil(Fields):
    """until_depth: a ply of the search, counted from 1."""

    player: str
    moves: list[str]
    until_depth: Whole = Field(ge=1)


class Query(Fields):
    id: str
    moves: list[Pair]
    board_x_size: Whole
    board_y_size: Whole
    initial_stones: list[Pair] = []
    initial_player: str | None = None
    rules: str | dict[str, Any] | None = None
    komi: float | None = None
    analyze_turns: list[Whole] | None = None
    max_visits: Whole | None = Field(None, ge=1)
    avoid_moves: list[MovesUntil] = []
    allow_moves: list[MovesUntil] = []
    include_ownership: bool = False
    include_moves_ownership: bool = False
    include_policy: bool = False
    report_during_search_every: float = Field(math.inf, gt=0)  # seconds
    priority: Whole = 0
    priorities: list[Whole] | None = None
    override_settings: Settings = Settings()


class Action(Fields):
    id: str
    action: Literal["terminate", "terminate_all", "query_version", "clear_cache"]
    terminate_id: str | None = None
    turn_numbers: list[Whole] | None = None


@dataclass
class Turn:
    """A position to analyse.

    until     of BatchSearch.restrict()
    ends      when its time is up
    due       when its next partial answer is
    findings  None until the search begins
    """

    query: Query
    number: int
    position: Position
    mover: int
    readouts: int
    until: NDArray[np.int16]
    ends: float = math.inf
    due: float = math.inf
    findings: Findings | None = None


class Analysis:
    """The protocol's state for one client."""

    def __init__(
        self, player: SearchPlayer, estimate: Callable[[Planes], Estimates] | None, readouts: int, most_readouts: int
    ) -> None:
        """player: with room for most_readouts. readouts: of queries without maxVisits. estimate: as in Findings."""
        self._player, self._game, self._estimate = player, player.search.game, estimate
        self._readouts, self._most_readouts = readouts, most_readouts
        self._waiting: list[tuple[int, int, Turn]] = []  # a heap of (−priority, number in order of arrival, turn)
        self._count = 0  # turns that have had to wait
        self._warned: set[tuple[str, str]] = set()
        self._searching: dict[int, Turn] = {}  # by row
        self._write: Callable[[str], None] = lambda text: None

    def run(self, lines: CommandLines, write: Callable[[str], None]) -> None:
        """Answer until the end of the lines, then finish what was asked. write must flush."""
        self._write, more = write, True
        while more or self.busy:
            for _ in range(LINES_PER_BATCH):
                if not more or (self.busy and not lines.waiting()):
                    break
                line = lines.next()
                if line is None:
                    more = False
                else:
                    self.answer(line)
            if self.busy:
                self.step()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._searching)

    def warm_up(self) -> None:
        """Search every row a little, twice, so that nothing is compiled while a client waits."""
        player, rows = self._player, np.arange(self._player.search.num_rows)
        player.readouts = min(self._most_readouts, WARM_UP_READOUTS)
        for _ in range(2):
            player.new_games(rows, np.zeros(len(rows), np.uint64))
            player.begin(rows)
            undecided = len(rows)
            while undecided:
                undecided -= player.step().rows.size

    def answer(self, line: str) -> None:
        """Follow a line: carry out an action, queue the turns of a query, or write an error."""
        if not line.strip():
            return
        if line.startswith(TOO_LONG):
            self._say({"error": "the line is too long"})
            return
        try:
            found = from_json(line, allow_inf_nan=False)
        except ValueError as error:
            self._say({"error": f"could not parse input line as JSON: {error}"})
            return
        name = found.get("id") if isinstance(found, dict) else None
        if not isinstance(name, str):
            self._say({"error": "wanted a JSON object with a string field 'id'"})
            return
        try:
            if "action" in found:
                self._act(Action.model_validate(found), found)
            else:
                self._ask(Query.model_validate(found))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = [str(part) for part in first["loc"]]
            self._say({"error": f"{' '.join(where)}: {first['msg']}", "field": where[0], "id": name})
        except QueryError as error:
            self._say({"error": str(error), "field": error.name, "id": name})

    def step(self) -> None:
        """Give free rows to waiting turns, evaluate one batch, and answer the turns that are finished or due."""
        self._begin()
        finished = set(self._player.step().rows.tolist())
        now = time.monotonic()
        for row, turn in list(self._searching.items()):
            if row in finished or now >= turn.ends:
                self._finish(row)
            elif now >= turn.due:
                self._say(self._result(turn, during=True))
                turn.due = now + turn.query.report_during_search_every

    # Actions

    def _act(self, action: Action, line: dict[str, Any]) -> None:
        """line: the action as it came, which is also the answer."""
        if action.action == "query_version":
            line = {**line, "version": pipeline.__version__, "git_hash": "<omitted>"}
        if action.action == "terminate" and action.terminate_id is None:
            raise QueryError("terminate needs the id of a query", "terminateId")
        self._say(line)
        if action.action not in ("terminate", "terminate_all"):
            return  # clear_cache: there is none

        def is_meant(turn: Turn) -> bool:
            if action.action == "terminate" and turn.query.id != action.terminate_id:
                return False
            return action.turn_numbers is None or turn.number in action.turn_numbers

        for *_, turn in sorted(self._waiting):
            if is_meant(turn):
                self._say_nothing_found(turn.query, turn.number)
        self._waiting = [waiting for waiting in self._waiting if not is_meant(waiting[-1])]
        heapq.heapify(self._waiting)
        for row in [row for row, turn in self._searching.items() if is_meant(turn)]:
            self._finish(row)

    # Queries

    def _ask(self, query: Query) -> None:
        """Check a query, write its warnings and queue its turns."""
        self._check_board(query)
        readouts, warnings = self._warnings(query)
        priorities = self._priorities(query)
        avoid, allow = self._left_out(query.avoid_moves, "avoidMoves"), self._left_out(query.allow_moves, "allowMoves")
        until = restriction(self._game.num_actions, avoid, allow)
        turns: list[Turn] = []
        try:
            for number, position in enumerate(self._positions(query)):
                if number in priorities:
                    mover = int(self._game.to_move(position.states)[0])
                    turns.append(Turn(query, number, position, mover, readouts, until))
        except IllegalTurn as error:
            if not turns:
                raise
            warnings.append(("moves", str(error)))
            missing = [number for number in priorities if number > turns[-1].number]
        else:
            missing = []
        for name, text in warnings:
            if name == "moves" or (name, text) not in self._warned:
                self._warned.add((name, text))
                self._say({"warning": text, "field": name, "id": query.id})
        for number in missing:
            self._say_nothing_found(query, number)
        for turn in turns:
            over, legal = self._game.is_over(turn.position.states), self._legal(turn.position)
            if over[0] or not (legal & (until[turn.mover] == 0)).any():
                self._say_nothing_found(turn.query, turn.number)
                continue
            heapq.heappush(self._waiting, (-priorities[turn.number], self._count, turn))
            self._count += 1

    def _check_board(self, query: Query) -> None:
        for name, found, wanted in (
            ("boardXSize", query.board_x_size, self._game.board_shape[1]),
            ("boardYSize", query.board_y_size, self._game.board_shape[0]),
        ):
            if found != wanted:
                on_all = isinstance(self._game, AllBoards) and query.board_x_size == query.board_y_size
                can = f"this engine was started on {wanted}; start another with --game go:{found}"
                raise QueryError(f"found {name} {found}; {can if on_all else f'this model plays {wanted}'}", name)
        game, komi = self._game, komi_of(self._game) or 0.0
        if query.komi is not None and query.komi != komi:
            if not (isinstance(game, AllBoards) and isinstance(game, Komi)):
                raise QueryError(f"found komi {query.komi:g}; this model plays with {komi:g}", "komi")
            try:
                game.with_komi(query.komi)
            except UsageError as error:
                raise QueryError(
                    f"found komi {query.komi:g}; wanted a multiple of 0.5 on this board", "komi"
                ) from error

    def _left_out(self, found: list[MovesUntil], name: str) -> list[Moves]:
        moves = []
        for one in found:
            actions = [self._action_of(point, name) for point in one.moves]
            moves.append(Moves(self._player_of(one.player, name), actions, one.until_depth))
        return moves

    def _legal(self, position: Position) -> BoolArray:
        """[A]"""
        return self._game.legal(position.states, position.history)[0]

    def _warnings(self, query: Query) -> tuple[int, list[tuple[str, str]]]:
        """The readouts of each position, and (field, text) of each request that won't be followed."""
        found = []
        if query.rules is not None and not is_area_scoring(query.rules):
            found.append(("rules", f"not the model's rules: it uses {RULES_IN_WORDS}"))
        readouts = query.max_visits if query.max_visits is not None else self._readouts
        if readouts > self._most_readouts:
            readouts = self._most_readouts
            found.append(("maxVisits", f"at most {readouts} are searched"))
        settings = query.override_settings
        for name, extra in (("", query.model_extra), ("overrideSettings", settings.model_extra)):
            if unused := [key for key, value in (extra or {}).items() if value not in (None, False, [], "")]:
                names = ", ".join(key[:40] for key in unused[:MOST_NAMES])
                found.append((name or unused[0][:40], f"unexpected or unused: {names}"))
        return readouts, found

    def _priorities(self, query: Query) -> dict[int, int]:
        """The priority of each turn to analyse."""
        last = len(query.moves)
        turns = [last] if query.analyze_turns is None else query.analyze_turns
        for turn in turns:
            if not 0 <= turn <= last:
                raise QueryError(f"found turn {turn}; wanted 0 to {last}, the number of moves", "analyzeTurns")
        priorities = [query.priority] * len(turns) if query.priorities is None else query.priorities
        if len(priorities) != len(turns):
            raise QueryError(f"found {len(priorities)} priorities for {len(turns)} turns", "priorities")
        return dict(zip(turns, priorities, strict=True))

    def _positions(self, query: Query) -> Iterator[Position]:
        """The position of each turn. Raises QueryError for stones and moves that the rules forbid."""
        game = self._game
        if len(query.moves) > MOST_MOVES:
            raise QueryError(f"found {len(query.moves)} moves; wanted at most {MOST_MOVES}", "moves")
        moves = [(self._player_of(colour, "moves"), self._action_of(point, "moves")) for colour, point in query.moves]
        state = self._start(query, moves[0][0] if moves else None)
        history = game.initial_history(state)
        for number in range(len(moves) + 1):
            yield Position(state[0], history.keys[0, : history.lengths[0]])
            if number == len(moves):
                return
            player, action = moves[number]
            try:
                state = game.play(with_turn(game, state, player, history), np.array([action], np.int32), history)
            except IllegalMove as error:
                why = game.in_words(str(error))
                raise IllegalTurn(f"Illegal move {number}: {query.moves[number][1][:10]} ({why})") from error
            history.append(np.array([0]), game.keys(state))
            if isinstance(game, AnyPosition):
                state = game.with_turn(state, 1 - player)  # after two passes, too

    def _start(self, query: Query, first_mover: int | None) -> States:
        """[1, S]: the position of turn 0."""
        stones: tuple[list[int], list[int]] = ([], [])
        for colour, point in query.initial_stones:
            action = self._action_of(point, "initialStones")
            if action >= self._game.num_points:
                raise QueryError(f"found {point[:10]!r}; wanted a point of the board", "initialStones")
            stones[self._player_of(colour, "initialStones")].append(action)
        to_move = self._player_of(query.initial_player, "initialPlayer") if query.initial_player else first_mover
        if to_move is None:
            to_move = int(bool(stones[0]) and not stones[1])  # white begins after handicap stones
        game = self._game
        if query.komi is not None and isinstance(game, Komi):
            game = game.with_komi(query.komi)
        try:
            if any(stones):
                if not isinstance(game, AnyPosition):
                    raise QueryError(f"{game.board_title} begins at its initial position", "initialStones")
                return game.position(*stones, to_move)
            return with_turn(game, game.initial(1), to_move)
        except IllegalMove as error:
            name = "initialStones" if any(stones) else "initialPlayer" if query.initial_player else "moves"
            raise QueryError(game.in_words(str(error)), name) from error

    def _player_of(self, text: str, name: str) -> int:
        player = COLOURS.get(text.lower())
        if player is None:
            raise QueryError(f"found player {text[:10]!r}; wanted B or W", name)
        return player

    def _action_of(self, text: str, name: str) -> int:
        try:
            return self._game.parse_action(text)
        except IllegalMove:
            raise QueryError(f"found {text[:10]!r}; wanted a point of the board or pass", name) from None

    # The search

    def _begin(self) -> None:
        player, search = self._player, self._player.search
        free = [row for row in range(search.num_rows) if row not in self._searching]
        for row in free:
            if not self._waiting:
                return
            turn, rows = heapq.heappop(self._waiting)[-1], np.array([row])
            player.new_games(rows, np.zeros(1, np.uint64))
            search.place(row, *turn.position)
            search.restrict(rows, turn.until[None])
            player.readouts = turn.readouts
            player.begin(rows)
            now = time.monotonic()
            turn.ends = now + turn.query.override_settings.max_time
            turn.due = now + turn.query.report_during_search_every
            turn.findings = Findings(SearchedRow(search, row), self._estimate)
            self._searching[row] = turn

    def _finish(self, row: int) -> None:
        self._player.drop(np.array([row]))
        self._say(self._result(self._searching.pop(row), during=False))

    # Answers

    def _result(self, turn: Turn, during: bool) -> dict[str, Any]:
        query, findings = turn.query, turn.findings
        assert findings is not None
        viewer = {"BLACK": 0, "WHITE": 1}.get(query.override_settings.report_analysis_winrates_as, turn.mover)
        turned = viewer != turn.mover
        moves = [_seen(fields, turned) for fields in findings.candidates(ALL_MOVES)]
        if query.include_moves_ownership:
            for fields in moves:
                owners = findings.ownership(self._game.parse_action(fields["move"]))
                if owners is not None:
                    fields["ownership"] = _owners(owners, turned)
        answer: dict[str, Any] = {
            "id": query.id,
            "turnNumber": turn.number,
            "isDuringSearch": during,
            "moveInfos": moves,
            "rootInfo": {**_seen(findings.root(), turned), "currentPlayer": "BW"[turn.mover]},
        }
        owners = findings.ownership() if query.include_ownership else None
        if owners is not None:
            answer["ownership"] = _owners(owners, turned)
        if query.include_policy:
            policy = np.where(findings.session.legal(), findings.session.policy(), -1.0)
            answer["policy"] = policy.astype(np.float64).round(6).tolist()
        return answer

    def _say_nothing_found(self, query: Query, number: int) -> None:
        self._say({"id": query.id, "turnNumber": number, "isDuringSearch": False, "noResults": True})

    def _say(self, answer: dict[str, Any]) -> None:
        self._write(json.dumps(answer) + "\n")


def open_analysis(model: Model, config: EngineConfig, progress: Progress) -> Analysis:
    """Like engine.open_session, for many positions of any games at once."""
    game = in_protocol_letters(game_of(model, config).without_move_limit())
    leaves = leaves_per_tree(1, config.readouts)
    evaluate = load_tree_evaluator(model, ROWS * leaves, config.backend, progress)
    settings = config.first_search()
    room = tree_room(settings, config.readouts)
    player = SearchPlayer(game, ROWS, evaluate, settings, room, leaves)
    return Analysis(player, load_estimator(model) if isinstance(game, AnyPosition) else None, config.readouts, room)


def _seen(fields: dict[str, Any], turned: bool) -> dict[str, Any]:
    """The fields of a move or of the position, rounded. turned: from the view of the player who isn't to move."""
    if "scoreLead" in fields:
        fields = {**fields, "scoreSelfplay": fields["scoreLead"]}
    return {
        name: round(_other_view(name, value) if turned else value, 6) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def _other_view(name: str, value: float) -> float:
    return -value if name in NEGATED else 1 - value if name in MIRRORED else value


def _owners(ownership: FloatArray, turned: bool) -> list[float]:
    return (-ownership if turned else ownership).astype(np.float64).round(4).tolist()
