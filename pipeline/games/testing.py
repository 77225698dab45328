"""A test kit for authors of games: ``check_game`` plays random games and checks that the contract holds.

    from pipeline.games.testing import check_game
    check_game(from_spec("5", {}))

The first fault raises AssertionError: one line with the game, the verb, the row of the batch, what was found and what
was wanted, then that position's diagram. The kit needs no pytest. ``random_games`` serves tests that compare a game
with a plain twin.

The kit doesn't check the rules: a game may keep the contract and still not be the game that its author means. It
refuses symmetries that change the initial position, as no game from there has an image, unless the game declares
``symmetries_move_start``.

Axes: see contract.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import get_annotations
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.games.answers import answers_of, arrays_in, misfit, raised
from pipeline.games.capabilities import (
    AllBoards,
    AnyPosition,
    InSgf,
    Komi,
    OwnSgf,
    SeesOpponents,
    Setups,
    SharedRules,
    Spoken,
)
from pipeline.games.contract import CHANCE, Actions, AnyGame, BoolArray, Game, History, Rows, States
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.replay import replay_one
from pipeline.games.sgf import SgfFormat, is_sgf, read_sgf
from pipeline.games.stones import BoardGame

NOT_ACTIONS = ("", " ", "?", "A0", "0", "A20", "Z1", "A", "5A", "passs", "-1", "A1 B2", "A-1")
POSITIONS = 80  # with a move left, of a Game
OTHER_POSITIONS = 400  # of another game
MOVES = 300  # of those positions
LARGE_BOARD = 100  # points; random games on larger ones are long, so fewer positions are compared
SMOKE_PLIES = 4
LONGEST_TITLE = 200  # characters
WHOLE_GAMES = 3  # that are checked ply by ply
CAPABILITIES = (InSgf, OwnSgf, Komi, AnyPosition, Setups, Spoken, SeesOpponents, SharedRules, AllBoards)


def check_game(game: AnyGame, *, num_games: int = 12, share: float | None = None, seed: int = 1) -> None:
    """Play random games and check all that the contract promises. Raises AssertionError for the first fault.

    num_games  more games find rarer faults
    share      of the positions with moves left that are checked, beside all final ones; None: about POSITIONS of them.
               Of games without a fixed list of actions, all final positions and OTHER_POSITIONS others.
    """
    check_first_plies(game)
    if isinstance(game, Game):
        share = POSITIONS / num_games / sum(1 for _ in random_games(game, 1, seed)) if share is None else share
        positions = sample_positions(game, num_games, seed, share)
        games = [random_moves(game, seed + number) for number in range(WHOLE_GAMES)]
    else:
        games = [random_moves(game, seed + number) for number in range(num_games)]
        played = [replay(game, moves) for moves in games]
        others = np.random.default_rng(seed).permutation(np.concatenate([states[:-1] for states in played]))
        states = np.concatenate([others[:OTHER_POSITIONS], *(states[-1:] for states in played)])
        positions = states, game.initial_history(states)
    sample = _Sample(game, _Asked(game), *positions, games)
    for check in (*_CHECKS, *(_CHECKS_OF_GAMES if isinstance(game, Game) else ())):
        check(sample)


def check_first_plies(game: AnyGame, seed: int = 0) -> None:
    """Ask every verb at each of the first plies of two random games, and check the shapes and types of the answers.

    Takes milliseconds: done whenever another package's game is loaded. Raises AssertionError.
    """
    rng, asked = np.random.default_rng(seed), _Asked(game)
    _demand_capabilities(game)
    for verb, text in (("board_title", game.board_title), ("title", game.title)):
        fits = isinstance(text, str) and 0 < len(text) <= LONGEST_TITLE and text.isprintable()
        _demand(fits, game, verb, repr(text)[:LONGEST_TITLE], f"a line of 1 to {LONGEST_TITLE} characters")
    states = asked.initial(2)
    history = asked.initial_history(states)
    for _ in range(min(SMOKE_PLIES, game.max_plies)):
        _ask_all(asked, states, history)
        if game.is_over(states).any():
            return
        actions = np.array([_random_move(game, states[b : b + 1], history, b, rng) for b in range(2)], np.int32)
        states = _play(asked, states, actions, history)
        history.append(np.arange(2), game.keys(states))


# Random games


@dataclass
class Step:
    """One ply of several games played side by side; games that are over are left out."""

    rows: Rows  # [B] which games
    states: States  # [B, S] before the actions
    history: History
    legal: BoolArray  # [B, A]
    actions: Actions  # [B]
    after: States  # [B, S]


def random_games(game: Game, num_games: int, seed: int, pass_share: float = 0.02) -> Iterator[Step]:
    """Uniformly random legal play until every game is over.

    pass_share: the chance of a pass where other moves are legal.
    Raises AssertionError if a game can't go on, or goes on beyond max_plies.
    """
    rng = np.random.default_rng(seed)
    states = game.initial(num_games)
    history = game.initial_history(states)
    for _ in range(game.max_plies + 1):
        rows = np.flatnonzero(~game.is_over(states))
        if rows.size == 0:
            return
        before, past = states[rows], history.select(rows)
        legal = game.legal(before, past)
        stuck = np.flatnonzero(~legal.any(axis=1))
        if stuck.size:
            _fail(game, "legal", stuck[0], "no action, though is_over() says that the game goes on",
                  "at least one (a pass action, where a player may have no other)", before[stuck[0]])  # fmt: skip
        weights = legal * rng.random(legal.shape)
        if game.pass_action is not None:
            passing = np.where(rng.random(len(rows)) < pass_share, 2.0, 1e-9)
            weights[:, game.pass_action] = passing * legal[:, game.pass_action]
        actions = weights.argmax(axis=1).astype(np.int32)
        after = _play(game, before, actions, past)
        yield Step(rows, before, past, legal, actions, after)
        states[rows] = after
        if history.lengths.max() <= game.max_plies:
            history.append(rows, game.keys(after))
    _fail_length(game)


def sample_positions(game: Game, num_games: int, seed: int, share: float) -> tuple[States, History]:
    """Positions of random games with their histories: this share of those with a move left, and all final ones."""
    rng = np.random.default_rng(seed)
    states, keys, lengths = [], [], []

    def keep(rows: NDArray[Any], found: States, history: History) -> None:
        states.append(found[rows])
        keys.append(history.keys[rows])
        lengths.append(history.lengths[rows])

    for step in random_games(game, num_games, seed):
        keep(rng.random(len(step.rows)) < share, step.states, step.history)
        past = History(step.history.keys.copy(), step.history.lengths.copy())
        past.append(np.arange(len(step.rows)), game.keys(step.after))
        keep(game.is_over(step.after), step.after, past)
    return np.concatenate(states), History(np.concatenate(keys), np.concatenate(lengths))


def random_moves(game: AnyGame, seed: int) -> list[int]:
    """A whole game: outcomes by their probabilities, moves uniformly from the legal ones."""
    rng = np.random.default_rng(seed)
    state, moves = game.initial(1), list[int]()
    history = game.initial_history(state)
    while not game.is_over(state)[0]:
        if len(moves) == game.max_plies:
            _fail_length(game)
        moves.append(_random_move(game, state, history, 0, rng))
        state = _play(game, state, np.array(moves[-1:], np.int32), history)
        history.append(np.array([0]), game.keys(state))
    return moves


def replay(game: AnyGame, moves: Sequence[int]) -> States:
    """[T + 1, S] the positions of one game, whose moves include outcomes of chance."""
    return np.concatenate(list(replay_one(game, moves)))


def stones_of(game: Game, states: States) -> NDArray[np.int8]:
    """[B, P] int8: 1 the first player's stone, -1 the second's, read from the diagrams alone."""
    stones = np.zeros((len(states), game.num_points), np.int8)
    for row, state in enumerate(states):
        board = "".join(game.diagram(state).splitlines()[: game.board_shape[0]])
        marks = [mark for mark in board if mark in ".XO"]
        if len(marks) != game.num_points:
            said = f"{len(marks)} of the marks X, O and . in its first {game.board_shape[0]} lines"
            _fail(game, "diagram", row, said, f"{game.num_points}, one for each point", state)
        stones[row] = [(mark == "X") - (mark == "O") for mark in marks]
    return stones


def symmetries_of_start(game: Game) -> NDArray[np.int64]:
    """[k] the symmetries that leave the start unchanged, so that any game has a legal image: all for an empty board."""
    start = stones_of(game, game.initial(1))[0]
    return np.flatnonzero((start[game.symmetries.points] == start).all(axis=1))


def _random_move(game: AnyGame, state: States, history: History, row: int, rng: np.random.Generator) -> int:
    """A move or outcome in one state [1, S]; its history is this row's."""
    if game.to_move(state)[0] == CHANCE:
        chances = game.chance(state)[0].astype(np.float64)
        if not abs(chances.sum() - 1) < 1e-5:
            _fail(game, "chance", row, f"probabilities that sum to {chances.sum():g}", "1", state[0])
        return int(rng.choice(len(chances), p=chances / chances.sum()))
    moves = game.moves(state, history.select(np.array([row]))).of(0)
    if not len(moves):
        _fail(game, "moves", row, "none, though is_over() says that the game goes on", "at least one", state[0])
    return int(rng.choice(moves))


def _play(game: Any, states: States, actions: Actions, history: History) -> States:
    try:
        return cast(States, game.play(states, actions, history))
    except IllegalMove as error:
        _fail(game, "play", None, f"a legal move refused: {error}", "every move that legal() or moves() allows")


# Faults


def _fail(game: AnyGame, verb: str, row: Any, found: str, wanted: str, state: States | None = None) -> NoReturn:
    """row: of the batch that was asked about; state [S]: shown as a diagram."""
    line = f"{game.spec}, {verb}{'' if row is None else f', row {row}'}: found {found}; wanted {wanted}"
    with suppress(Exception):  # a faulty game's diagram may fail, too
        line += "" if state is None else f"\n{game.diagram(state)}"
    raise AssertionError(line)


def _fail_length(game: AnyGame) -> NoReturn:
    _fail(game, "max_plies", None, f"a random game that goes on after ply {game.max_plies}", "a bound that holds")


def _demand(holds: Any, game: AnyGame, verb: str, found: str, wanted: str) -> None:
    if not holds:
        _fail(game, verb, None, found, wanted)


def _demand_rows(holds: Any, game: AnyGame, verb: str, states: States, found: Any, wanted: str) -> None:
    """holds [B]; found: text, or values [B] of which the faulty row's is named."""
    if not np.all(holds):
        row = int(np.flatnonzero(~holds)[0])
        _fail(game, verb, row, found if isinstance(found, str) else f"{found[row]}", wanted, states[row])


def _demand_equal(found: Any, wanted: Any, game: AnyGame, verb: str, states: States, reason: str) -> None:
    """Arrays [B, …] must be equal. reason: what `wanted` is."""
    differ = np.asarray(found != wanted)
    if differ.any():
        row = int(np.argwhere(differ)[0, 0])
        at = tuple(int(i) for i in np.argwhere(np.asarray(found[row] != wanted[row]))[0])
        where = f" at {at[0] if len(at) == 1 else at}" if at else ""
        _fail(game, verb, row, f"{found[row][at]}{where}", f"{wanted[row][at]}: {reason}", states[row])


# Answers: fresh memory, unchanged inputs


class _Asked:
    """A game whose answers are checked. All other attributes are the game's."""

    def __init__(self, game: AnyGame) -> None:
        self.game = game
        self._answers = answers_of(type(game))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.game, name)
        if name == "moves":
            return lambda *arguments: self._moves(*arguments)
        return (lambda *arguments: self._ask(name, found, *arguments)) if name in self._answers else found

    def _ask(self, verb: str, function: Callable[..., Any], *arguments: Any) -> Any:
        given = arrays_in(arguments)
        before = [array.copy() for array in given]
        try:
            answer = function(*arguments)
        except (IllegalMove, AssertionError):
            raise
        except Exception as error:
            raise AssertionError(f"{self.game.spec}, {verb}: {raised(error)}; wanted an answer") from error
        finally:
            for array, copy in zip(given, before, strict=True):
                if not np.array_equal(array, copy):
                    states = arguments[0]
                    changed = (array != copy).reshape(len(copy), -1).any(axis=1)
                    row = int(np.flatnonzero(changed)[0]) if len(changed) == len(states) else None
                    _fail(self.game, verb, row, "an input that the call has changed", "inputs left alone")
        arrays, wanted = arrays_in(answer), self._answers.get(verb, ())
        rows = arguments[0] if verb == "initial" else len(arguments[0])
        if wanted and (fault := misfit(self.game, wanted, rows, answer)):
            _fail(self.game, verb, None, *fault)
        if any(np.shares_memory(a, b) for a in given for b in arrays):
            _fail(self.game, verb, None, "an answer that shares memory with an input", "a new array")
        return answer

    def _moves(self, states: States, history: History) -> Any:
        found = self._ask("moves", self.game.moves, states, history)
        types = (found.offsets.shape, found.offsets.dtype, found.actions.dtype)
        if types != ((len(states) + 1,), np.int64, np.int32):
            said = f"offsets {found.offsets.dtype} {list(found.offsets.shape)}, actions {found.actions.dtype}"
            _fail(self.game, "moves", None, said, f"offsets int64 [{len(states) + 1}], actions int32")
        if found.offsets[0] != 0 or found.offsets[-1] != len(found.actions):
            said = f"offsets from {found.offsets[0]} to {found.offsets[-1]}"
            _fail(self.game, "moves", None, said, f"from 0 to {len(found.actions)}, the number of actions")
        return found


def _ask_all(asked: Any, states: States, history: History) -> dict[str, NDArray[Any]]:
    """The answers of all verbs for these rows: verb → array with the rows first."""
    names = ("is_over", "returns", "cut_short", "to_move", "plies", "keys", "scores")
    found = {name: getattr(asked, name)(states) for name in names}
    if isinstance(asked.game, Game):
        found["legal"] = asked.legal(states, history)
        found["observe"] = asked.observe(states, found["legal"])
        found["ownership"] = asked.ownership(states)
        pair = asked.legal_and_observe(states, history)
        for name, array in zip(("legal", "observe"), pair, strict=True):
            reason = f"legal_and_observe() says what {name}() says"
            _demand_equal(array, found[name], asked.game, "legal_and_observe", states, reason)
    asked.moves(states, history)
    return found


# Checks of all games


@dataclass(frozen=True)
class _Sample:
    """Positions of random games with their histories, and the moves of whole games."""

    game: Any
    asked: Any  # the same game, as _Asked
    states: States
    history: History
    games: list[list[int]]

    def at(self, rows: NDArray[Any]) -> tuple[States, History]:
        return self.states[rows], self.history.select(rows)


def _check_start(sample: _Sample) -> None:
    game, states = sample.game, sample.game.initial(2)
    is_new = not np.shares_memory(states, game.initial(2))
    _demand(is_new, game, "initial", "the array that it gave before", "a new one")
    for verb, wanted in (("to_move", 0), ("plies", 0), ("is_over", False)):
        if verb == "to_move" and game.has_chance:
            continue
        found = getattr(game, verb)(states)
        _demand_rows(found == wanted, game, verb, states, found, f"{wanted} at the initial position")
    lengths = game.initial_history(states).lengths
    _demand((lengths == 1).all(), game, "initial_history", f"lengths {lengths.tolist()}", "1, the initial position")


def _check_ranges(sample: _Sample) -> None:
    game, states = sample.game, sample.states
    found = _ask_all(sample.asked, states, sample.history)
    sets: dict[str, set[int]] = {"to_move": {0, 1, CHANCE} if game.has_chance else {0, 1}}
    if isinstance(game, Game):
        sets |= {"observe": {0, 1}, "ownership": {-1, 0, 1}, "returns": {-1, 0, 1}}
    turns = np.unique(found["to_move"])
    _demand(game.has_chance == (CHANCE in turns), game, "has_chance", f"{game.has_chance}",
            f"{CHANCE in turns}, as to_move() says")  # fmt: skip
    for verb, wanted in sets.items():
        ranges = np.isin(found[verb], list(wanted)).reshape(len(states), -1).all(axis=1)
        said = [f"values {np.unique(row).tolist()}" for row in found[verb]]
        _demand_rows(ranges, game, verb, states, said, f"nothing but {sorted(wanted)}")
    _demand(turns.size == len(sets["to_move"]), game, "to_move", f"only {turns.tolist()} in all random games",
            "all players to move at some time")  # fmt: skip
    most = f"at most max_result = {game.max_result:g}"
    _demand_rows(np.abs(found["returns"]) <= game.max_result, game, "returns", states, found["returns"], most)


def _check_zero_rows(sample: _Sample) -> None:
    game = sample.asked
    _ask_all(game, *sample.at(np.arange(0)))
    states = game.initial(0)
    game.play(states, np.zeros(0, np.int32), game.initial_history(states))
    game.initial(3)


def _check_ends(sample: _Sample) -> None:
    game, states = sample.game, sample.states
    over, cut, returns = game.is_over(states), game.cut_short(states), game.returns(states)
    waits = over | (game.to_move(states) == CHANCE)
    verb = "legal" if isinstance(game, Game) else "moves"
    none = ~game.legal(states, sample.history).any(axis=1)
    after = np.where(over, "legal actions after the end", "legal actions where chance is to move")
    said = np.where(waits, after, "no legal action before the end")
    _demand_rows(waits == none, game, verb, states, said,
                 "none where is_over() or where chance is to move, at least one elsewhere")  # fmt: skip
    _demand_rows(over | ~cut, game, "cut_short", states, "a game cut short that goes on", "is_over() there as well")
    at_limit = game.plies(states) == (-1 if game.move_limit is None else game.move_limit)
    _demand_rows(at_limit | ~cut, game, "cut_short", states, "a game cut short at another ply",
                 f"games cut short by the limit alone, here move_limit = {game.move_limit}")  # fmt: skip
    _demand_rows(over | (returns == 0), game, "returns", states, returns, "0 before the game is over")


def _check_rows_are_independent(sample: _Sample) -> None:
    game, states, history = sample.game, sample.states, sample.history
    reason = "what the row gives alone (rows must not influence each other)"
    together, moves, turns = _ask_all(sample.asked, states, history), game.moves(states, history), game.to_move(states)
    alone = []
    for row in range(len(states)):
        one = sample.at(np.array([row]))
        alone.append(_ask_all(sample.asked, *one))
        listed = game.moves(*one).of(0)
        if not np.array_equal(listed, moves.of(row)):
            _fail(game, "moves", row, f"{moves.of(row).tolist()}", f"{listed.tolist()}: {reason}", states[row])
    for verb, array in together.items():
        _demand_equal(array, np.concatenate([one[verb] for one in alone]), game, verb, states, reason)
    rows, actions = np.repeat(np.arange(len(states)), moves.counts), moves.actions
    picked = np.random.default_rng(0).permutation(len(rows))[:MOVES]
    rows, actions = rows[picked], actions[picked]
    thrown = np.flatnonzero((turns == CHANCE) & ~game.is_over(states))
    if thrown.size:
        likeliest = sample.asked.chance(states[thrown]).argmax(axis=1).astype(np.int32)
        rows, actions = np.concatenate([rows, thrown]), np.concatenate([actions, likeliest])
    states, history = sample.at(rows)
    after = _play(sample.asked, states, actions, history)
    singles = []
    for i in range(len(rows)):
        past = history.select(np.array([i]))
        singles.append(_play(game, states[i : i + 1], actions[i : i + 1], past))
    _demand_equal(after, np.concatenate(singles), game, "play", states, reason)


def _check_refusals(sample: _Sample) -> None:
    beyond = [sample.game.num_actions] if isinstance(sample.game, Game) else []
    for row in range(len(sample.states)):
        for action in (-1, *beyond, 30_000):
            _demand_refusal(sample.asked, *sample.at(np.array([row])), action, row)


def _check_whole_games(sample: _Sample) -> None:
    game = sample.game
    for moves in sample.games:
        states = replay(game, moves)
        plies, over, turns = game.plies(states), game.is_over(states), game.to_move(states)
        _demand_rows(plies == np.arange(len(states)), game, "plies", states, plies, "the number of moves made")
        ended = np.arange(len(states)) == len(moves)
        _demand_rows(over == ended, game, "is_over", states, over, "True exactly after the last move")
        for ply in np.flatnonzero(turns[:-1] == CHANCE).tolist():
            chance = game.chance(states[ply : ply + 1])[0]
            if abs(chance.sum() - 1) > 1e-6 or not chance[moves[ply]] > 0:
                said = f"sum {chance.sum():g}, {chance[moves[ply]]:g} for the outcome that came"
                _fail(game, "chance", ply, said, "sum 1, more than 0", states[ply])
        found = game.moves(states, game.initial_history(states))
        for ply, move in enumerate(moves):
            listed = found.of(ply)
            if (np.diff(listed) <= 0).any():
                _fail(game, "moves", ply, f"{listed.tolist()}", "ascending numbers", states[ply])
            if turns[ply] != CHANCE and move not in listed:
                _fail(game, "moves", ply, f"{listed.tolist()}", f"{move} among them, as before", states[ply])


def _check_keys(sample: _Sample) -> None:
    """The same position: the same stones or pieces, or besides the same player to move."""
    game = sample.game
    states = np.concatenate([sample.states, game.initial(1)])
    if isinstance(game, BoardGame):
        boards = [row.tobytes() for row in stones_of(game, states)]
    elif isinstance(game, Game):  # all but the last line, which says whose turn it is
        boards = ["\n".join(game.diagram(state).splitlines()[:-1]).encode() for state in states]
    else:  # all but the number of plies, which some diagrams show
        boards = [game.diagram(state).partition(", ply")[0].encode() for state in states]
    positions = list(zip(boards, game.to_move(states).tolist(), strict=True))
    keys = game.keys(states).tolist()
    board_of, key_of = dict[int, int](), dict[Any, int]()
    for row, key in enumerate(keys):
        other = board_of.setdefault(key, row)
        if boards[other] != boards[row]:
            _fail(game, "keys", row, f"the key of row {other}, whose diagram is another", "different keys", states[row])
        other = key_of.setdefault(positions[row], row)
        if keys[other] != key:
            said = f"another key than row {other} has, whose diagram and turn are the same"
            _fail(game, "keys", row, said, "equal keys for equal positions", states[row])
    pairs = [len(set(same)) for same in (boards, positions)]
    _demand(len(set(keys)) in pairs, game, "keys", "keys that depend on the turn in some positions only",
            "in all of them or in none")  # fmt: skip


def _check_names(sample: _Sample) -> None:
    """Names are parsed in either case; texts that are none are refused."""
    game = sample.game
    if isinstance(game, Game):
        _demand_action_names(game)
    for moves in sample.games[:WHOLE_GAMES]:
        states = replay(game, moves)
        for move, state in zip(moves, states, strict=False):
            name = game.move_name(state, move)
            for text in (name, name.upper(), f" {name}\n"):
                _demand_parsed(game, "parse_move", text, move, partial(game.parse_move, state), state)
        for state in states:
            _demand_parsed(game, "parse_move", "nonsense", None, partial(game.parse_move, state), state)


def _demand_action_names(game: Game) -> None:
    names = [game.action_name(action) for action in range(game.num_actions)]
    seen: dict[str, int] = {}
    for action, name in enumerate(names):
        first = seen.setdefault(name.lower(), action)
        _demand(first == action, game, "action_name", f"{name!r} for actions {first} and {action}", "a name for each")
    for action, name in enumerate(names):
        for text in (name, name.lower(), name.upper(), f" {name}\n"):
            _demand_parsed(game, "parse_action", text, action, game.parse_action)
    for text in NOT_ACTIONS:
        if text.strip().lower() not in seen:
            _demand_parsed(game, "parse_action", text, None, game.parse_action)


def _demand_refusal(game: Any, states: States, history: History, action: int, row: int) -> None:
    """play() of one state [1, S] must refuse this action. row: of the sample."""
    try:
        game.play(states, np.array([action], np.int32), history)
    except IllegalMove as error:
        if not re.search(rf"row 0: action {action}\b", str(error)) or game.spec not in str(error):
            _fail(game, "play", row, repr(str(error)), f"a message with {game.spec} and row 0: action {action}")
        return
    _fail(game, "play", row, f"action {action} accepted, which isn't legal here", "IllegalMove", states[0])


def _demand_parsed(
    game: AnyGame, verb: str, text: str, wanted: int | None, parse: Callable[[str], int], state: States | None = None
) -> None:
    """parse(text) must give the move of this number; None: it must raise IllegalMove, which names the text."""
    try:
        found = parse(text)
        said = f"{found} for {text!r}"
    except IllegalMove as error:
        found, said = None, f"IllegalMove for {text!r} ({error})"
        is_named = repr(text) in str(error) and (game.spec in str(error) or not isinstance(game, Game))
        if wanted is None and not is_named:
            _fail(game, verb, None, repr(str(error)), f"a message with {game.spec} and {text!r}")
    except Exception as error:
        found, said = -1, f"{type(error).__name__} for {text!r}"
    if found != wanted:
        named = "IllegalMove, as for any text that is no name" if wanted is None else f"{wanted}, whose name it is"
        _fail(game, verb, None, said, named, state)


# Capabilities


def _demand_capabilities(game: AnyGame) -> None:
    """The game has what the classes among its bases promise, and nothing that other classes do."""
    for one in CAPABILITIES:
        for name in (*get_annotations(one), *vars(one)):
            if name.startswith("_") or hasattr(Game, name):
                continue
            if isinstance(game, one):
                _demand(hasattr(game, name), game, name, "no such attribute", f"what the base {one.__name__} promises")
            else:
                wanted = f"the base pipeline.games.capabilities.{one.__name__} for it, or another name"
                _demand(not hasattr(game, name), game, name, "an attribute that nothing asks for", wanted)


def _check_sgf(sample: _Sample) -> None:
    game, moves = sample.game, sample.games[0]
    if not isinstance(game, InSgf | OwnSgf):
        return
    verb, text = "sgf" if isinstance(game, InSgf) else "own_sgf", ""
    try:
        text = SgfFormat().write(game, PlayedGame(moves, RecordText("first", "second")))
        read = [action for _, action in read_sgf(text.encode(), game).moves] if isinstance(game, InSgf) else moves
    except MuGoError as error:
        _fail(game, verb, None, f"a record of a random game that can't be read: {error}", "points and passes as moves")
    _demand(is_sgf(text.encode()) and read == moves, game, verb, f"{text[:60]!r}", "a record of the game in SGF")


def _check_komi(sample: _Sample) -> None:
    game = sample.game
    if not isinstance(game, Komi):
        return
    for komi in (game.komi, game.komi + 1, game.komi - 1):
        with suppress(UsageError):
            other = game.with_komi(komi)
            fits = other.komi == komi and (other.spec == game.spec) == (komi == game.komi)
            found = f"a game with komi {other.komi:g}, {other.spec}"
            _demand(fits, game, "with_komi", found, f"komi {komi:g}, and a spec for each komi")


def _check_positions(sample: _Sample) -> None:
    game, states = sample.game, sample.states
    if not isinstance(game, AnyPosition):
        return
    for player in range(2):
        turned = sample.asked.with_turn(states, player)
        fits = (game.to_move(turned) == player) & ~game.is_over(turned)
        _demand_rows(fits, game, "with_turn", turned, "another turn", f"player {player} to move")
    going = states[~game.is_over(states)][-WHOLE_GAMES:]
    for row, stones in enumerate(stones_of(game, going) if isinstance(game, BoardGame) else []):
        first, second = (np.flatnonzero(stones == colour).tolist() for colour in (1, -1))
        state = game.position(first, second, row % 2)
        found = stones_of(game, state)[0], game.to_move(state)[0], game.plies(state)[0]
        fits = (found[0] == stones).all() and found[1:] == (row % 2, 0)
        _demand(fits, game, "position", "other stones, another turn or plies", "the stones and turn given, and no ply")
    for count in range(2, 10):
        with suppress(UsageError):
            points = game.handicap(count)
            fits = len(set(points)) == count and game.to_move(game.position(points, [], 1))[0] == 1
            _demand(fits, game, "handicap", f"{points}", f"{count} points for position()")


def _check_setups(sample: _Sample) -> None:
    game, states, asked = sample.game, sample.states, sample.asked
    if not isinstance(game, Setups):
        return
    start = game.initial(2)
    _demand_equal(asked.begin(np.zeros(2, np.int64)), start, game, "begin", start, "initial() for the setup 0")
    _demand_equal(game.adopt(states), states, game, "adopt", states, "positions of this very game")
    for setup in (1, 2):
        with suppress(IllegalMove):
            begun = asked.begin(np.array([setup]))
            reason = f"a position of the game with the setup {setup}, as begin() says"
            _demand_equal(game.varied(setup).adopt(begun), begun, game, "varied", begun, reason)
    if isinstance(game, SeesOpponents):
        met, reason = asked.met_by(start, np.array([0, 1], np.int8)), "as begin() for the setups 1 and 2"
        _demand_equal(met, game.begin(np.array([1, 2])), game, "met_by", start, reason)


def _check_boards(sample: _Sample) -> None:
    game = sample.game
    if isinstance(game, SharedRules):
        seen = game.as_seen(game)
        _demand(seen is not None and seen.spec == game.spec, game, "as_seen", f"{seen}", "the game itself for itself")
    if isinstance(game, AllBoards):
        planes = game.observe(sample.states, game.legal(sample.states, sample.history))
        last = planes[:, -game.num_global_planes :].reshape(len(planes), game.num_global_planes, -1)
        fits = 0 < game.num_global_planes < game.num_planes and (last == last[:, :, :1]).all()
        _demand(fits, game, "num_global_planes", f"{game.num_global_planes}", "the last planes, each one constant")
        side = game.board_shape[0]
        for size in (side - 1, side, side + 1):
            with suppress(UsageError):
                other = game.on_board(size)
                fits = (other.board_shape, other.plane_names) == ((size, size), game.plane_names)
                found = f"{other.spec} of the family {other.family}"
                _demand(fits and other.family == game.family, game, "on_board", found, f"the game on size {size}")


_CHECKS: tuple[Callable[[_Sample], None], ...] = (
    _check_ranges,
    _check_start,
    _check_zero_rows,
    _check_ends,
    _check_rows_are_independent,
    _check_refusals,
    _check_whole_games,
    _check_keys,
    _check_names,
    _check_sgf,
    _check_komi,
    _check_positions,
    _check_setups,
    _check_boards,
)


# Checks of games with a fixed list of actions, on a board


def _check_play(sample: _Sample) -> None:
    """play() accepts all legal actions, refuses all others, and names the first fault of a batch."""
    game = sample.game
    legal = game.legal(sample.states, sample.history)
    rows, actions = np.nonzero(legal)
    for part in np.array_split(np.arange(len(rows)), 1 + len(rows) // 4000):
        states, history = sample.at(rows[part])
        after = _play(game, states, actions[part].astype(np.int32), history)
        _demand_equal(game.plies(after), game.plies(states) + 1, game, "plies", states, "one more than before the move")
        _demand_equal(game.to_move(after), 1 - game.to_move(states), game, "to_move", states, "players take turns")
    for row in range(len(legal)):
        for action in np.flatnonzero(~legal[row]).tolist():
            _demand_refusal(game, *sample.at(np.array([row])), action, row)
    states = game.initial(4)
    history = game.initial_history(states)
    first, second = np.flatnonzero(game.legal(states, history)[0])[:2]
    try:
        game.play(states, np.array([first, second, -7, -8], np.int32), history)
    except IllegalMove as error:
        said = str(error)
        named = re.search(r"row 2: action -7\b", said) and game.spec in said and "\n" not in said
        _demand(named, game, "play", repr(said), f"one line with {game.spec} and the first fault, row 2: action -7")


def _check_results(sample: _Sample) -> None:
    game, states = sample.game, sample.states
    over, returns, scores = game.is_over(states), game.returns(states), game.scores(states)
    _demand_rows(~over | (returns == np.sign(scores)), game, "returns", states, returns, "the sign of scores()")
    _demand(np.unique(returns[over]).size > 1 or game.num_points > LARGE_BOARD, game, "returns",
            f"{returns[over][0]:g} in all {over.sum()} random games",
            "different results, seen by the first player; where they are rare, ask for more num_games")  # fmt: skip


def _check_stones(sample: _Sample) -> None:
    """Of a BoardGame: planes 0 and 1 are the stones of the diagram, and a move places one stone."""
    game = sample.game
    if not isinstance(game, BoardGame):
        return
    planes = game.observe(sample.states, game.legal(sample.states, sample.history))
    own, theirs = planes[:, :2].reshape(len(planes), 2, game.num_points).astype(bool).swapaxes(0, 1)
    stones_to_move = stones_of(game, sample.states) * (1 - 2 * game.to_move(sample.states))[:, None]
    for plane, colour, whose in ((own, 1, "mover's"), (theirs, -1, "opponent's")):
        reason = f"plane {0 if colour == 1 else 1} is the {whose} stones, as the diagram shows them"
        _demand_equal(plane, stones_to_move == colour, game, "observe", sample.states, reason)
    for step in random_games(game, 1, 3, pass_share=0):
        side = 1 - 2 * game.to_move(step.states)[0]
        before, after = side * stones_of(game, step.states)[0], side * stones_of(game, step.after)[0]
        passed = int(step.actions[0]) == game.pass_action
        placed, own_placed = (((before == 0) & added).sum() for added in (after != 0, after == 1))
        wanted = "none by a pass, the mover's alone; no stone of the mover's removed"
        kept = (after[before == 1] == 1).all() and not (passed and (before != after).any())
        if not (placed == own_placed == (0 if passed else 1) and kept):
            name = game.action_name(int(step.actions[0]))
            _fail(game, "play", 0, f"{placed} stones placed by {name}", f"one by a move, {wanted}", step.after[0])
        if game.plies(step.after)[0] > 60:
            break


def _check_symmetry_tables(sample: _Sample) -> None:
    symmetries, game = sample.game.symmetries, sample.game
    K = symmetries.count
    for name, table, size in (
        ("actions", symmetries.actions, game.num_actions),
        ("points", symmetries.points, game.num_points),
    ):
        verb, numbers = f"symmetries.{name}", np.arange(size)
        found = f"{table.dtype} of shape {list(table.shape)}"
        fits = table.shape == (K, size) and table.dtype == np.int32
        _demand(fits, game, verb, found, f"int32 of shape [{K}, {size}]")
        _demand((table[0] == numbers).all(), game, verb, "a first row that moves something", "the identity first")
        others = (np.sort(table, axis=1) != numbers).any(axis=1)
        found = f"row {others.argmax()}, which is no permutation"
        _demand(not others.any(), game, verb, found, f"each of 0..{size - 1} once in every row")
        for k in range(K):
            inverse = int(symmetries.inverse[k])
            undone = 0 <= inverse < K and (table[inverse][table[k]] == numbers).all()
            said = f"{inverse} for symmetry {k}, whose {name} it doesn't undo"
            _demand(undone, game, "symmetries.inverse", said, "the symmetry that undoes it")
    images = {row.tobytes() for row in symmetries.points}
    _demand(len(images) == K, game, "symmetries.points", "two symmetries that are the same", "each once")
    P = game.num_points
    if isinstance(game, BoardGame) and game.num_actions >= P:  # actions are points; others never move
        as_points = (symmetries.actions[:, :P] == symmetries.points).all()
        _demand(as_points and (symmetries.actions[:, P:] == np.arange(P, game.num_actions)).all(), game,
                "symmetries.actions", "other permutations than symmetries.points has",
                "the same, since actions are points; further actions stay")  # fmt: skip


def _check_symmetries_hold(sample: _Sample) -> None:
    """Play the images of one random game beside it: all answers must be images, too."""
    game = sample.game
    symmetries, kept = game.symmetries, symmetries_of_start(game)
    if not game.symmetries_move_start:
        moved = np.setdiff1d(np.arange(symmetries.count), kept)
        found = f"symmetry {moved[:1].tolist()}, which moves pieces of the start"
        _demand(not moved.size, game, "symmetries", found, "symmetries under which the start looks the same")
    images = game.initial(len(kept))
    history = game.initial_history(images)
    everyone = np.arange(len(kept))
    check_from = max(0, game.max_plies - 20) if game.num_points > LARGE_BOARD else 0
    state = game.initial(1)
    _demand_images(game, kept, state, game.initial_history(state), images, history)
    for ply, step in enumerate(random_games(game, 1, 5), 1):
        try:
            images = game.play(images, symmetries.actions[kept, step.actions[0]], history)
        except IllegalMove as error:
            _fail_symmetry(game, "play", f"a move's image refused: {error}", step.states[0])
        history.append(everyone, game.keys(images))
        if ply < check_from and ply % 23 and not game.is_over(step.after)[0]:
            continue
        past = step.history.select(np.arange(1))
        past.append(np.arange(1), game.keys(step.after))
        _demand_images(game, kept, step.after, past, images, history)


def _demand_images(
    game: Game, kept: NDArray[np.int64], state: States, past: History, images: States, history: History
) -> None:
    """state [1, S]; images [k, S] its images by the symmetries kept [k]."""
    symmetries = game.symmetries
    legal, image_legal = game.legal(state, past), game.legal(images, history)
    planes = game.observe(state, legal).reshape(game.num_planes, game.num_points)
    image_planes = game.observe(images, image_legal).reshape(len(kept), game.num_planes, game.num_points)
    ownership, image_ownership = game.ownership(state)[0], game.ownership(images)
    for row, k in enumerate(kept):
        by = f"symmetry {k} (point 0 → {symmetries.points[k, 0]}, point 1 → {symmetries.points[k, 1]})"
        if (image_legal[row, symmetries.actions[k]] != legal[0]).any():
            _fail_symmetry(game, "legal", f"{by}, by whose image of this position other actions are legal", state[0])
        differ = (image_planes[row][:, symmetries.points[k]] != planes).any(axis=1)
        if differ.any():
            name = game.plane_names[int(differ.argmax())]
            _fail_symmetry(game, "observe", f"{by}, which doesn't carry over the plane {name!r}", state[0])
        if (image_ownership[row, symmetries.points[k]] != ownership).any():
            _fail_symmetry(game, "ownership", f"{by}, by which other points are owned", state[0])
        for verb in ("is_over", "returns", "scores"):
            found, wanted = getattr(game, verb)(images[row : row + 1])[0], getattr(game, verb)(state)[0]
            if found != wanted:
                _fail_symmetry(game, verb, f"{by}, by whose image {verb} is {found} instead of {wanted}", state[0])


def _fail_symmetry(game: Game, verb: str, found: str, state: States) -> NoReturn:
    _fail(game, f"symmetries, {verb}", None, found, "only symmetries that rules and planes obey", state)


def _check_turns_shown(sample: _Sample) -> None:
    """The last line of a diagram, but for its numbers, tells whose turn it is."""
    game, going = sample.game, np.flatnonzero(~sample.game.is_over(sample.states))
    shown: dict[str, int] = {}
    for state, mover in zip(sample.states[going], game.to_move(sample.states[going]).tolist(), strict=True):
        last = game.diagram(state).splitlines()[-1]
        first = shown.setdefault(re.sub(r"\d+", "", last), mover)
        _demand(first == mover, game, "diagram", f"the last line {last!r} for both players", "whose turn it is")


def _check_heuristic(sample: _Sample) -> None:
    game = sample.game
    evaluate = game.heuristic()
    if evaluate is None:
        return
    going = np.flatnonzero(~game.is_over(sample.states))
    states, history = sample.at(going)
    together = evaluate(states, history)
    found = f"{together.dtype} of shape {list(together.shape)}"
    fits = together.dtype == np.float64 and together.shape == (len(going), game.num_actions)
    _demand(fits, game, "heuristic", found, f"float64 of shape [{len(going)}, {game.num_actions}]")
    finite, legal = np.isfinite(together), game.legal(states, history)
    wrong = np.argwhere(finite != legal)
    if len(wrong):
        row, action = wrong[0].tolist()
        name = game.move_name(states[row], action)
        kinds = ("a finite score", "illegal", "-inf") if finite[row, action] else ("no finite score", "legal", "one")
        _fail(game, "heuristic", row, f"{kinds[0]} for the {kinds[1]} move {name}", kinds[2], states[row])
    alone = [evaluate(states[at : at + 1], history.select(np.array([at]))) for at in range(len(going))]
    reason = "what the row gives alone (rows must not influence each other)"
    _demand_equal(together, np.concatenate(alone), game, "heuristic", states, reason)


_CHECKS_OF_GAMES: tuple[Callable[[_Sample], None], ...] = (
    _check_play,
    _check_results,
    _check_stones,
    _check_symmetry_tables,
    _check_symmetries_hold,
    _check_turns_shown,
    _check_heuristic,
)
