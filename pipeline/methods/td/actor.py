"""Self-play without a tree: one thread that plays a share of the games, a turn of all of them at a time.

Each step throws in every game, judges all turns that the throws allow in one batch, and plays the best, or one drawn
with probability ∝ exp(value / temperature). What is recorded of turn t, at both of its plies:

    after the move    the chances that the network gives the mover after it: C_t
    at the throw      what the position before the throw turned out to be worth: C_t again, or with value_plies 1 the
                      mean over all throws, each followed by the best move; it costs some twenty times as much, and
                      takes the luck of the dice out of what is learned

A game's moves depend on its seed, its network and the settings, not on the games beside it. Writes no files.

Axes: R rows, n rows of a call, O outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.errors import UsageError
from pipeline.games.chance import outcomes
from pipeline.methods.base import Actor, ActorJob, FinishedGame, Learner
from pipeline.methods.td.records import MOST_OUTPUTS
from pipeline.networks.afterstate_kernels import best_of, draw_of
from pipeline.networks.afterstates import AfterstateNetwork
from pipeline.networks.outcomes import seen_by_other, values_of
from pipeline.players.expectimax import Expectimax
from pipeline.storage.shards import End, GameRecord

Rows = NDArray[np.int64]


class AfterstateActor(Actor):
    """See the module docstring."""

    def __init__(self, job: ActorJob) -> None:
        """Raises UsageError for settings that this method hasn't."""
        if job.meet is not None:
            raise UsageError("selfplay --opponents: method td plays itself only; wanted mirror=1")
        if job.config.readouts:
            raise UsageError("selfplay --readouts: method td plays its games by the network alone; wanted 0")
        game, num_rows = job.game, job.num_rows
        self._job, self._game = job, game
        self._states = game.initial(num_rows)
        self._said = np.zeros((num_rows, MOST_OUTPUTS), np.float32)  # by the network, of the states: s_t
        self._dice, self._draws = (np.zeros(num_rows, np.uint64) for _ in range(2))  # streams of random numbers
        self._moves = np.zeros((num_rows, game.max_plies + 1), np.uint16)
        self._chances = np.full((num_rows, game.max_plies + 1, MOST_OUTPUTS), np.nan, np.float16)
        self._lengths = np.zeros(num_rows, np.int64)
        self._game_ids = [0] * num_rows
        self._players: list[Learner | None] = [None] * num_rows
        self._live = np.zeros(num_rows, np.bool_)
        self._start(np.arange(num_rows))

    def step(self) -> None:
        """One turn of every game."""
        rows = np.flatnonzero(self._live)
        networks = {id(player.evaluate): player.evaluate for player in self._players if player is not None}
        for key, network in networks.items():
            here = rows
            if len(networks) > 1:  # a promotion: games that have begun are ended by the network that began them
                here = rows[[id(player.evaluate) == key for player in self._players if player is not None]]
            self._turn(network, here)

    def _turn(self, network: AfterstateNetwork, rows: Rows) -> None:
        game, config = self._game, self._job.config
        states, plies = self._states[rows], self._lengths[rows]
        search = Expectimax(network)
        expected = search.expected(states, 1) if config.value_plies else None

        thrown = outcomes(game, states, self._dice[rows])
        found = game.successors(game.happen(states, thrown))
        chances = network.chances(states, found)
        scores = -network.values(chances)  # the mover's: the network sees what the opponent is left with
        if config.temperature:
            points = uniforms(self._draws[rows], plies)
            chosen = draw_of(found.offsets, scores, config.temperature, points)
        else:
            chosen = best_of(found.offsets, scores)
        said = chances[chosen]
        self.evaluations += len(scores) + search.evaluations

        mine = seen_by_other(said)
        self._moves[rows, plies] = thrown
        self._moves[rows, plies + 1] = chosen - found.offsets[:-1]
        self._chances[rows, plies, : network.outputs] = mine if expected is None else expected
        self._chances[rows, plies + 1, : network.outputs] = mine
        self._lengths[rows] += 2
        self.plies += 2 * len(rows)
        after = found.states[chosen]
        self._states[rows] = after
        over = game.is_over(after)
        if over.any():
            ended, ends = rows[over], after[over]
            for row, result, cut in zip(
                ended.tolist(), game.returns(ends).tolist(), game.cut_short(ends).tolist(), strict=True
            ):
                self._finish(row, result, End.MOVE_LIMIT if cut else End.PLAYED_OUT, network.outputs)
            self._start(ended)

    def _finish(self, row: int, result_first_player: float, end: End, num_outputs: int) -> None:
        player, length = self._players[row], int(self._lengths[row])
        assert player is not None
        chances = self._chances[row, :length].copy()
        record = GameRecord(
            game_id=self._game_ids[row],
            moves=self._moves[row, :length].copy(),
            flags=np.zeros(length, np.uint8),
            root_values=values_of(chances[:, :num_outputs].astype(np.float32), self._game.max_result),
            own={"chances": chances},
            result_first_player=result_first_player,
            end=end,
        )
        self._players[row] = None
        self._live[row] = False
        self.live -= 1
        self._job.on_finished(FinishedGame(record, player.name, -1, self._states[row].copy()))

    def _start(self, rows: Rows) -> None:
        """Begin the next games in free rows; rows stay empty when there are none left."""
        for row in rows.tolist():
            seed = next(self._job.seeds, None)
            if seed is None:
                break
            self._players[row] = self._job.current_player()
            self._game_ids[row] = seed.game_id
            self._dice[row], self._draws[row] = seed.stream, seed.kinds
            self._live[row] = True
            self.live += 1
        begun = rows[self._live[rows]]
        self._states[begun] = self._game.initial(len(begun))
        self._lengths[begun] = 0
        self._chances[begun] = np.nan  # a network with fewer outputs may follow
