"""The games of a match: ``MatchThread`` plays many at once; ``conduct()`` lets a pool play all, and failed ones again.

The thread is the referee: it keeps the positions, asks the player to move, and passes every move to both players. A
game depends only on its opening, its number, the match's seed and the two players, if the players' arithmetic doesn't
depend on thread, row and neighbouring games. So a match that is interrupted, or spread over processes, is the same.

An outcome is a game or a failure; as JSON it is {"game": MatchGame} or {"failure": MatchFailure}.

Sides: CHALLENGER = 0, CHAMPION = 1. Players of a game: 0 moves first, 1 second; but a side that takes a handicap is
player 0 of every game, and player 1 moves first. Axes: R rows, n rows named in a call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GameFault, IllegalMove
from pipeline.games.capabilities import written
from pipeline.games.chance import outcomes
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.games.replay import handicap_start
from pipeline.methods.resignation import NEVER, resigns
from pipeline.players.player import RESIGN, Boards, Decisions, MakePlayer, Player, PlayerFault, PlayerUnavailable, Rows
from pipeline.run.matches import MatchFailure, MatchGame, challenger_player, games_per_opening
from pipeline.workers import worker_pool
from pipeline.workers.worker_pool import Counts, GameQueue

Outcome = MatchGame | MatchFailure
WorkerPool = worker_pool.WorkerPool[Outcome]

CHALLENGER, CHAMPION = 0, 1
ATTEMPTS = 2  # at each game
GAME_FAULT = "game"  # the kind of failures of the game's own program
ENGINE_WAIT_SECONDS = 0.02  # an idle thread waits this long for each player before it steps all of them again


@dataclass(frozen=True)
class Pairing:
    """The game, players, seed and openings of a match."""

    game: AnyGame
    makers: tuple[MakePlayer, MakePlayer]  # the challenger's, the champion's
    names: tuple[str, str]
    seed: int
    openings: Sequence[Sequence[int]]
    handicap_side: int | None = None  # the side that takes a handicap in every game; None: neither
    stones: Sequence[Sequence[int]] = ()  # the handicap stones of each opening; empty without a handicap
    resign_threshold: float = NEVER  # a side whose own value is below this at two of its moves in a row has lost

    def opening(self, index: int) -> tuple[list[int], list[int]]:
        """(handicap stones, moves) at the beginning of game `index`."""
        number = index // games_per_opening(self.handicap_side)
        return list(self.stones[number]) if self.stones else [], list(self.openings[number])


@dataclass
class _Unfinished:
    """A game in play."""

    index: int
    stones: list[int]
    moves: list[int]
    opening_plies: int
    values: list[float | None]
    own_values: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))  # of each side's moves

    def failure(self, game: AnyGame, kind: str, player: str, problem: str) -> MatchFailure:
        """Its attempt is 1; conduct() sets the real number."""
        try:
            moves, said = written(game, self.moves)
        except IllegalMove:
            moves, said = [], ()
        return MatchFailure(
            failed=self.index, attempt=1, kind=kind, player=player, problem=problem, moves=moves, said=said
        )


class MatchThread:
    """Plays games from a queue, up to num_rows at a time, and passes each to on_outcome when it ends or fails.

    steps: made so far; live: games in play
    """

    def __init__(
        self, pairing: Pairing, num_rows: int, thread: int, queue: GameQueue, on_outcome: Callable[[Outcome], None]
    ) -> None:
        """thread: the number passed to the players' makers."""
        self._pairing = pairing
        self._queue = queue
        self._on_outcome = on_outcome
        self._boards = Boards(pairing.game, num_rows)
        self._rows: list[_Unfinished | None] = [None] * num_rows
        self._challenger_player = np.zeros(num_rows, np.int8)
        self.live = 0
        self.steps = 0
        self.players: list[Player] = []
        try:
            for make in pairing.makers:
                self.players.append(make(pairing.game, num_rows, thread))
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Play until the queue is closed."""
        while not self._queue.closed:
            if self.live < len(self._rows) and self._queue:
                self._start(np.flatnonzero([game is None for game in self._rows]))
            if self.live:
                self.step()
            else:
                self._queue.wait(0.2)
            self.steps += 1

    def step(self) -> None:
        """Let each player do a batch of work, then make the decided moves."""
        idle = True
        for side, player in enumerate(self.players):
            decisions = player.step()
            idle = idle and not (decisions.worked or decisions.rows.size or decisions.faults)
            for row, fault in decisions.faults.items():
                self._fail_by(row, fault)
            if decisions.rows.size:
                self._move(side, decisions)
        if idle:
            for player in self.players:
                player.wait(ENGINE_WAIT_SECONDS)

    def abandon(self, problem: str) -> None:
        """Report every game in play as failed, blaming neither player. Calls no player, as they may be broken."""
        for row, playing in enumerate(self._rows):
            if playing is not None:
                self._rows[row] = None
                self._on_outcome(playing.failure(self._pairing.game, "crash", "", problem))
        self.live = 0

    def close(self) -> None:
        for player in self.players:
            player.close()

    def _move(self, side: int, decisions: Decisions) -> None:
        """Make a side's moves on the boards and pass them to both players."""
        rows, actions, values = decisions.rows, decisions.actions, decisions.values
        resigned = (actions == RESIGN) | self._give_up(side, rows, values)
        for row in rows[resigned].tolist():
            resigner_first = (side == CHALLENGER) == (self._challenger_player[row] == 0)
            self._finish(row, -1 if resigner_first else 1, "resigned")
        rows, actions, values = rows[~resigned], actions[~resigned], values[~resigned]
        legal = self._play(side, rows, actions)
        rows, actions, values = rows[legal], actions[legal], values[legal]
        if rows.size == 0:
            return
        self._tell(rows, actions)
        for row, action, value in zip(rows.tolist(), actions.tolist(), values.tolist(), strict=True):
            playing = self._playing(row)
            playing.moves.append(action)
            playing.values.append(None if np.isnan(value) else round(value, 3))
        self._go_on(rows)

    def _give_up(self, side: int, rows: Rows, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """[n] whether a side resigns, with these values [n] of its present moves; NaN: unknown."""
        found = np.zeros(len(rows), np.bool_)
        for i, (row, value) in enumerate(zip(rows.tolist(), values.tolist(), strict=True)):
            own = self._playing(row).own_values[side]
            own.append(value)
            found[i] = resigns(own, self._pairing.resign_threshold)
        return found

    def _go_on(self, rows: Rows) -> None:
        """After a move in each of rows [n]: play chance's moves, end finished games, ask for the next moves."""
        if self._pairing.game.has_chance:
            rows = self._play_chance(rows)
        over = self._boards.over(rows)
        self._begin(rows[~over])
        if over.any():
            ended = rows[over]
            cut_short = self._pairing.game.cut_short(self._boards.states[ended])
            for row, result, cut in zip(ended.tolist(), self._boards.returns(ended).tolist(), cut_short, strict=True):
                self._finish(row, result, "move_limit" if cut else "played_out")

    def _play_chance(self, every: Rows) -> Rows:
        """Play chance's moves until a player is to move or the game is over. Returns the rows that haven't failed.

        The games of a pair have the same luck.
        """
        rows = every
        while (rows := rows[(self._boards.to_move(rows) == CHANCE) & ~self._boards.over(rows)]).size:
            pairs = [self._playing(row).index // 2 for row in rows.tolist()]
            streams = [np.random.SeedSequence([self._pairing.seed, CHANCE, pair]) for pair in pairs]
            keys = np.array([stream.generate_state(1, np.uint64)[0] for stream in streams], np.uint64)
            sampled = outcomes(self._pairing.game, self._boards.states[rows], keys)
            played = self._play(None, rows, sampled)
            rows, sampled = rows[played], sampled[played]
            self._tell(rows, sampled)
            for row, outcome in zip(rows.tolist(), sampled.tolist(), strict=True):
                self._playing(row).moves.append(outcome)
                self._playing(row).values.append(None)
        return self._unfailed(every)

    def _tell(self, rows: Rows, actions: NDArray[np.int32]) -> None:
        """Tell both players that these moves [n] were made in rows [n]."""
        if rows.size:
            for player in self.players:
                player.advance(rows, actions)

    def _unfailed(self, rows: Rows) -> Rows:
        return np.array([row for row in rows.tolist() if self._rows[row] is not None], np.int64)

    def _play(self, side: int | None, rows: Rows, actions: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Make moves on the boards; a row whose move can't be made fails. Returns [n] which moves were made.

        side: whose moves they are; None: chance's or an opening's.
        """
        made = np.ones(len(rows), np.bool_)
        if rows.size == 0:
            return made
        try:
            self._boards.advance(rows, actions)
        except IllegalMove:
            for i in range(len(rows)):
                try:
                    self._boards.advance(rows[i : i + 1], actions[i : i + 1])
                except IllegalMove as error:
                    made[i] = False
                    if side is None or isinstance(error, GameFault):
                        self._fail(int(rows[i]), GAME_FAULT, "", str(error))
                    else:
                        self._fail_by(int(rows[i]), PlayerFault("illegal", self._pairing.names[side], str(error)))
        return made

    def _begin(self, rows: Rows) -> None:
        """Ask the player to move in each of rows [n]."""
        if rows.size == 0:
            return
        sides = np.where(self._boards.to_move(rows) == self._challenger_player[rows], CHALLENGER, CHAMPION)
        for side, player in enumerate(self.players):
            theirs = rows[sides == side]
            if theirs.size:
                player.begin(theirs)

    def _start(self, free: Rows) -> None:
        """Begin the next games in free rows and play their openings."""
        numbers = self._queue.take(len(free))
        begun = free[: len(numbers)].tolist()
        for row, index in zip(begun, numbers, strict=True):
            stones, opening = self._pairing.opening(index)
            self._rows[row] = _Unfinished(index, stones, opening, len(opening), [None] * len(opening))
            self._challenger_player[row] = challenger_player(index, self._pairing.handicap_side)
        if not begun:
            return
        self.live += len(begun)
        started = np.array(begun, np.int64)
        self._boards.new_games(started)
        streams = [np.random.SeedSequence([self._pairing.seed, self._playing(row).index]) for row in begun]
        for side, player in enumerate(self.players):
            seeds = np.array([stream.generate_state(2, np.uint64)[side] for stream in streams], np.uint64)
            player.new_games(started, seeds)
        if self._pairing.stones:
            placed = [self._playing(row).stones for row in begun]
            states = np.concatenate([handicap_start(self._pairing.game, points) for points in placed])
            self._boards.set_up(started, states)
            for player in self.players:
                player.set_up(started, states, placed)
        longest = max(self._playing(row).opening_plies for row in begun)
        for ply in range(longest):
            moving = started[[self._playing(row).opening_plies > ply for row in started.tolist()]]
            actions = np.array([self._playing(row).moves[ply] for row in moving.tolist()], np.int32)
            played = self._play(None, moving, actions)
            self._tell(moving[played], actions[played])
            started = self._unfailed(started)
        self._go_on(started)

    def _finish(self, row: int, result_first_player: float, end: str) -> None:
        whole, playing = int(result_first_player), self._playing(row)
        moves, said = written(self._pairing.game, playing.moves)
        game = {
            "index": playing.index,
            "challenger_player": int(self._challenger_player[row]),
            "opening_plies": playing.opening_plies,
            "stones": playing.stones,
            "moves": moves,
            "said": said,
            "values_to_move": playing.values,
            "result_first_player": whole if whole == result_first_player else result_first_player,
            "end": end,
        }
        self._release(row, MatchGame.model_validate(game))

    def _fail_by(self, row: int, fault: PlayerFault) -> None:
        self._fail(row, fault.kind, fault.player, str(fault))

    def _fail(self, row: int, kind: str, player: str, problem: str) -> None:
        self._release(row, self._playing(row).failure(self._pairing.game, kind, player, problem))

    def _release(self, row: int, outcome: Outcome) -> None:
        """Free a row. Reports the outcome before it calls the players, so that an error of theirs loses no game."""
        self._rows[row] = None
        self.live -= 1
        self._on_outcome(outcome)
        for player in self.players:
            player.drop(np.array([row]))

    def _playing(self, row: int) -> _Unfinished:
        playing = self._rows[row]
        assert playing is not None
        return playing


# Pools


def _outcome_of(said: dict[str, Any]) -> tuple[int, Outcome]:
    """(the game's number, the outcome) from ThreadPool.encode(). Raises ValueError, TypeError or KeyError otherwise."""
    if "game" in said:
        game = MatchGame.model_validate(said["game"])
        return game.index, game
    failure = MatchFailure.model_validate(said["failure"])
    return failure.failed, failure


def _lost(number: int, problem: str) -> Outcome:
    return MatchFailure(failed=number, attempt=1, kind="crash", player="", problem=problem, moves=[])


READER: worker_pool.OutcomeReader[Outcome] = worker_pool.OutcomeReader(_outcome_of, _lost)


def conduct(
    pool: WorkerPool,
    numbers: Sequence[int],
    on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool],
    given_up: set[int] | None = None,
) -> None:
    """Let the pool play the games, with up to ATTEMPTS at each, then close it.

    When a thread or worker crashes, games that used up their attempts in company are tried again in smaller and smaller
    groups, until the guilty one crashes alone.

    on_outcomes  called with the outcomes since the last call; returns whether to play on. After False, or on
                 KeyboardInterrupt, the pool is closed, and on_outcomes gets the games that had ended by then
    given_up     gets the numbers of games that won't be tried again, before on_outcomes gets the failure
    """
    trials = _Trials(numbers, set() if given_up is None else given_up)

    def hand_over(outcomes: Sequence[Outcome]) -> bool:
        games = [one for one in outcomes if isinstance(one, MatchGame)]
        failures, again = trials.judge(outcomes)
        play_on = on_outcomes(games, failures) if outcomes else True
        if play_on and again:
            pool.give(again)
        return play_on

    closed = False
    try:
        pool.give(numbers)
        while trials.left and hand_over(pool.outcomes(0.5)):
            pass
        pool.close()
        closed = True
    finally:
        try:
            if not closed:  # also if Ctrl-C came while it closed
                pool.close()
        finally:
            hand_over([one for one in pool.outcomes(0.0) if isinstance(one, MatchGame)])


class _Trials:
    """The games still to be played and the attempts at each. left: games neither finished nor given up."""

    def __init__(self, numbers: Collection[int], given_up: set[int]) -> None:
        self.left = set(numbers)
        self._given_up = given_up
        self._attempts: dict[int, int] = {}
        self._suspects: list[list[int]] = []  # groups of games to try separately, as any may cause the crash

    def judge(self, outcomes: Sequence[Outcome]) -> tuple[list[MatchFailure], list[int]]:
        """(the failures among the outcomes, with their attempts; the games to be played again now)."""
        in_play = self._in_play()
        failures, again, crashed = [], [], []
        for one in outcomes:
            if isinstance(one, MatchGame):
                self.left.discard(one.index)
                continue
            number = one.failed
            attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
            failures.append(one.model_copy(update={"attempt": attempt}))
            if attempt < ATTEMPTS:
                again.append(number)
            elif one.player or one.kind == GAME_FAULT or in_play == {number}:
                self.left.discard(number)
                self._given_up.add(number)
            else:
                crashed.append(number)
        half = len(crashed) // 2
        self._suspects += [group for group in (crashed[:half], crashed[half:]) if group]
        if self._suspects and not self._in_play():
            again = self._suspects.pop()
        return failures, again

    def _in_play(self) -> set[int]:
        return self.left.difference(*self._suspects)


class ThreadPool(worker_pool.ThreadPool[Outcome]):
    """MatchThreads in this process. One that raises loses its games and is replaced by one with fresh players, but
    PlayerUnavailable is raised by outcomes().

    match_threads  by number; None until its players are made
    """

    def __init__(self, pairing: Pairing, num_threads: int, num_rows: int, watched: bool = True) -> None:
        self._pairing, self._num_rows = pairing, num_rows
        self.match_threads: list[MatchThread | None] = [None] * num_threads
        super().__init__(num_threads, 1, watched)

    def encode(self, outcome: Outcome) -> Any:
        return {"game" if isinstance(outcome, MatchGame) else "failure": outcome.model_dump(mode="json")}

    def counts(self) -> Counts:
        threads = self.match_threads
        return Counts([one.steps if one else 0 for one in threads], [one.live if one else 0 for one in threads])

    def steps_made(self) -> list[object]:
        made = [one and (id(one), one.steps) for one in self.match_threads]  # None: it is making its players
        return [count or () if one.is_alive() else None for one, count in zip(self.threads, made, strict=True)]

    def play(self, thread: int) -> None:
        (games,) = self.queues
        while not games.closed:
            match_thread = MatchThread(self._pairing, self._num_rows, thread, games, self.arrived.put)
            self.match_threads[thread] = match_thread
            try:
                match_thread.run()
            except PlayerUnavailable:  # ends the command: the others' games are worth more than another attempt
                raise
            except BaseException as error:  # a player's: KeyboardInterrupt is raised in the main thread
                match_thread.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
            finally:
                match_thread.close()
