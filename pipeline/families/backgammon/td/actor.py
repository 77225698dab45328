"""Self-play without a tree: one thread plays a share of the games, one turn of all of them at a time.

Each step throws the dice in every game, evaluates all turns in one batch, and plays the best, or samples one with
probability ∝ exp(value / temperature). It records at the two plies of turn t:

    after the move    C_t: the mover's chances after the move, by the network
    at the throw      L_t: the value of the position before the throw. With value_plies 0 this is C_t again. With
                      value_plies 1 it is the mean over all throws, each followed by its best move: free of the luck of
                      the dice, and about twenty times as expensive

A game's moves depend only on its seed, its network and the settings, not on the other games. Writes no files.

Axes: R rows, n rows of a call, O outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.errors import UsageError
from pipeline.families.backgammon.options import TdPlayerOptions, TdSelfplayOptions
from pipeline.families.backgammon.td.expectimax import Expectimax
from pipeline.families.backgammon.td.kernels import best_of, sample_of
from pipeline.families.backgammon.td.network import AfterstateNetwork
from pipeline.families.backgammon.td.outcomes import MOST_OUTPUTS, seen_by_other, values_of
from pipeline.games.chance import outcomes
from pipeline.games.contract import States
from pipeline.methods.method import Actor, ActorJob, FinishedGame, Learner
from pipeline.options import taken
from pipeline.run.chunks import ColumnTypes
from pipeline.run.shards import End, GameRecord

Rows = NDArray[np.int64]


def recorded_columns() -> ColumnTypes:
    """The columns of each ply. chances: L_t or C_t, NaN beyond the outputs; root_values: their values in points."""
    return {"flags": ("|u1", ()), "root_values": ("<f4", ()), "chances": ("<f2", (MOST_OUTPUTS,))}


class AfterstateActor(Actor):
    """See the module docstring."""

    def __init__(self, job: ActorJob) -> None:
        """Raises UsageError for settings that this method doesn't support."""
        if job.meet is not None:
            raise UsageError("selfplay --opponents: method td plays itself only; wanted mirror=1")
        if job.config.readouts:
            raise UsageError("selfplay --readouts: method td plays without a search; wanted 0")
        game, num_rows = job.game, job.num_rows
        self._job, self._game = job, game
        self._states = game.initial(num_rows)
        # Random streams of the throws and of sampled moves.
        self._dice, self._sampling = (np.zeros(num_rows, np.uint64) for _ in range(2))
        most = game.max_plies // 2 + 1
        self._moves = np.zeros((num_rows, most, 2), np.uint16)
        self._chances = np.empty((num_rows, most, 2, MOST_OUTPUTS), np.float16)
        self._turns = np.zeros(num_rows, np.int64)  # turns played so far
        self._game_ids = [0] * num_rows
        self._players: list[Learner | None] = [None] * num_rows
        self._networks = np.zeros(num_rows, np.uint64)  # id() of each player's network
        self._live = np.zeros(num_rows, np.bool_)
        self._start(np.arange(num_rows))

    def step(self) -> None:
        """Play one turn of every game."""
        rows = np.flatnonzero(self._live)
        while rows.size:
            player = self._players[rows[0]]
            assert player is not None
            # After a promotion there are two networks: a game is finished by the network that began it.
            same = self._networks[rows] == id(player.evaluate)
            self._turn(player.evaluate, rows[same])
            rows = rows[~same]

    def resume(self) -> None:
        if not self._live.all():
            self._start(np.flatnonzero(~self._live))

    def _turn(self, network: AfterstateNetwork, rows: Rows) -> None:
        game, config = self._game, taken(self._job.config, TdPlayerOptions)
        states, turns = self._states[rows], self._turns[rows]
        search = Expectimax(network)
        expected = search.expected(states, 1) if taken(self._job.config, TdSelfplayOptions).value_plies else None

        thrown = outcomes(game, states, self._dice[rows])
        found = game.successors(game.happen(states, thrown))
        chances = network.chances(states, found)
        scores = -network.values(chances)  # the mover's view: the network evaluates for the opponent, who throws next
        if config.temperature:
            points = uniforms(self._sampling[rows], 2 * turns)
            chosen = sample_of(found.offsets, scores, config.temperature, points)
        else:
            chosen = best_of(found.offsets, scores)
        self.evaluations += len(scores) + search.evaluations

        kept = np.full((len(rows), 2, MOST_OUTPUTS), np.nan, np.float16)
        kept[:, 1, : network.outputs] = mine = seen_by_other(chances[chosen])
        kept[:, 0, : network.outputs] = mine if expected is None else expected
        self._chances[rows, turns] = kept
        self._moves[rows, turns] = np.column_stack([thrown, chosen - found.offsets[:-1]])
        self._turns[rows] += 1
        self.plies += 2 * len(rows)
        after = found.states[chosen]
        self._states[rows] = after
        over = game.is_over(after)
        if over.any():
            self._finish(rows[over], after[over], network.outputs)
            self._start(rows[over])

    def _finish(self, rows: Rows, ends: States, num_outputs: int) -> None:
        """Hand over the games in these rows, finished in states ends [n, S]."""
        turns = self._turns[rows].tolist()
        chances = [self._chances[row, :count].reshape(-1, MOST_OUTPUTS) for row, count in zip(rows, turns, strict=True)]
        together = np.concatenate(chances)
        values = values_of(together[:, :num_outputs].astype(np.float32), self._game.max_result)
        results, cut = self._game.returns(ends).tolist(), self._game.cut_short(ends).tolist()
        start = 0
        for i, row in enumerate(rows.tolist()):
            player, length = self._players[row], 2 * turns[i]
            assert player is not None
            here = slice(start, start := start + length)
            record = GameRecord(
                game_id=self._game_ids[row],
                moves=self._moves[row, : turns[i]].flatten(),
                flags=np.zeros(length, np.uint8),
                root_values=values[here],
                own={"chances": together[here]},
                result_first_player=results[i],
                end=End.MOVE_LIMIT if cut[i] else End.PLAYED_OUT,
            )
            self._players[row] = None
            self._live[row] = False
            self.live -= 1
            self._job.on_finished(FinishedGame(record, player.name, -1, ends[i].copy()))

    def _start(self, rows: Rows) -> None:
        """Begin the next games in free rows. Rows stay empty if no games are left."""
        begun = []
        for row, seed in zip(rows.tolist(), self._job.seeds, strict=False):
            self._players[row] = player = self._job.current_player()
            self._networks[row] = id(player.evaluate)
            self._game_ids[row] = seed.game_id
            self._dice[row], self._sampling[row] = seed.stream, seed.kinds
            begun.append(row)
        self._states[begun] = self._game.initial(len(begun))
        self._turns[begun] = 0
        self._live[begun] = True
        self.live += len(begun)
