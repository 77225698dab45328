"""Self-play by tree search: one thread that plays a share of the games, each with its own tree.

A game depends on its seed, network and settings, not on the actor or on other games (except where the backend's
arithmetic depends on the batch). Kernels and networks release Python's lock, so each actor keeps a core busy.

After a promotion the new model continues the games in progress, in its predecessor's trees, as in KataGo's self-play. A
game counts as played by the model that ends it. In some games an opponent, a Player, plays one side; the search of the
model, the *learner*, follows its moves, to keep its tree. Only the learner resigns. The moves of an opponent that
doesn't learn are policy targets if networks see that it is one, or if opponents teach.

Playout-cap randomisation (Wu 2019, arXiv 1902.10565, section 3.1) gives the learner two kinds of moves. *Full* moves
are searched with all readouts and exploration, and are policy targets. *Cheap* moves, chosen at random, are searched
with few readouts and without exploration, only to reach the game's result sooner; with 0 readouts they are sampled from
the raw policy. Temperature and resignation treat both alike.

In a *decided* game, one side has been sure of winning at the last moves of both. Then moves are searched with still
fewer readouts and aren't policy targets (KataGo: "reduced visits") until a search is less sure. Unlike a resigned game,
a decided one is played to its end. A game that can settle ends as soon as nothing can change any more.

pass_after keeps early passes out of the search and of random openings, because a weak network may learn on a large
board that komi alone decides: all moves seem as bad as a pass, and two passes confirm it. Opponents may pass any time.

Axes: R rows, K leaves, n rows of a call; see BatchSearch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.games.capabilities import SeesOpponents, beginning
from pipeline.games.contract import Actions, BoolArray, FloatArray, Planes, Rows
from pipeline.methods.active_opponents import ActiveOpponents
from pipeline.methods.alphazero.options import TreeActorOptions
from pipeline.methods.alphazero.recording import GameBuffer
from pipeline.methods.method import Actor, ActorJob, Encounter, FinishedGame, Learner
from pipeline.options import taken
from pipeline.run.shards import BOTH, End
from pipeline.search.batch import BatchSearch

OPENING_COUNTER = 1 << 32  # of a game's counter-based RNG; its moves use lower counters
DECIDED_CONSECUTIVE_MOVES = 2  # of each side, at which the leader must have been sure of winning
ROWS_PER_FINISHED = 16  # rows move when one in 16 has finished, because moving one takes as long as moving ten


class TreeActor(Actor):
    def __init__(self, job: ActorJob) -> None:
        game, num_rows, config = job.game, job.num_rows, taken(job.config, TreeActorOptions)
        self._job, self._config = job, config
        self._opponents = ActiveOpponents(game, num_rows)
        self._learner = np.full(num_rows, BOTH, np.int8)  # the side that the learner plays
        self._kinds = np.zeros(num_rows, np.uint64)
        self._full = np.ones(num_rows, np.bool_)  # whether the current search is a full one
        self._leader = np.full(num_rows, BOTH, np.int8)  # the side that was sure of winning at the last search
        self._sure_plies = np.zeros(num_rows, np.int32)  # for how many searches in a row
        most = max(config.readouts_of_searches())
        self.search = BatchSearch(game, num_rows, most, config, job.leaves, config.pass_after)
        self._buffer = GameBuffer(config.resign_threshold)
        self._players: list[Learner | None] = [None] * num_rows
        self._newest: Learner | None = None
        self._switched = False  # whether two networks may be playing at the same time
        self._start(np.arange(num_rows))

    def step(self) -> None:
        """Evaluate one batch, then move in the rows whose searches have finished, if these are enough."""
        planes = self.search.leaves()
        if len(planes):
            self.search.expand(*self._evaluate(planes))
            self.evaluations = self.search.evaluations
        finished = self.search.finished()
        if finished.size and (finished.size * ROWS_PER_FINISHED >= self.live or len(planes) == 0):
            self._move(finished)
        if self._opponents:
            self._let_opponents_move()

    def resume(self) -> None:
        idle = [row for row, player in enumerate(self._players) if player is None]
        if idle:
            self._start(np.array(idle))

    def put_at(self, games: Sequence[Sequence[int]]) -> None:
        """For benchmarks: play these moves in the first rows without recording them."""
        for ply in range(max(map(len, games), default=0)):
            rows = np.flatnonzero([len(moves) > ply for moves in games])
            self.search.advance(rows, np.array([games[row][ply] for row in rows.tolist()], np.int32))
        self._begin(np.arange(len(games)))

    def close(self) -> None:
        self._opponents.close()

    def _evaluate(self, planes: Planes) -> tuple[FloatArray, FloatArray]:
        rows = self.search.leaf_rows()
        first = self._players[int(rows[0])]
        assert first is not None
        if not self._switched:
            return first.evaluate(planes)
        owners = [self._players[row] for row in rows.tolist()]
        logits = np.empty((len(rows), self._job.game.num_actions), np.float32)
        values = np.empty(len(rows), np.float32)
        distinct = {id(owner): owner for owner in owners if owner is not None}
        for owner in distinct.values():
            owned = np.array([i for i, other in enumerate(owners) if other is owner])
            logits[owned], values[owned] = owner.evaluate(planes[owned])
        self._switched = len({id(player) for player in self._players if player is not None}) > 1
        return logits, values

    def _move(self, rows: Rows) -> None:
        search, config = self.search, self._config
        values = search.root_values(rows)
        movers = search.to_move(rows)
        resigned = self._buffer.resigns(rows, values, movers)
        if resigned.any():
            for row, mover in zip(rows[resigned].tolist(), movers[resigned].tolist(), strict=True):
                self._finish(row, -1.0 if mover == 0 else 1.0, End.RESIGNED)
            self._start(rows[resigned])
            rows, values = rows[~resigned], values[~resigned]
            if rows.size == 0:
                return
        temperature = np.where(search.plies(rows) < config.temperature_plies, 1.0, 0.0)
        table = search.root_table(rows)
        full = self._full[rows]
        targets = search.targets(rows, table)
        if config.cheap_readouts == 0 and not full.all():
            raw = ~full & ~self._is_decided(rows)
            table[0][raw] = 0  # the tree may have visits of earlier searches
            targets = np.where(raw[:, None], 0, targets)
        # By the targets, as in KataGo: forced playouts are no reason to play a move.
        actions = search.choose(rows, temperature, (targets, table[1]))
        self._buffer.add(rows, actions, targets, values, table[1], full)
        if config.decided_value < 1:
            self._update_leader(rows, values, search.to_move(rows))
        self._play(rows, actions)

    def _let_opponents_move(self) -> None:
        for active in self._opponents:
            if active.thinking:
                decisions = active.step()
                for fault in decisions.faults.values():
                    raise fault
                if len(decisions.rows):
                    copied = self._config.opponents_teach and not active.opponent.is_random
                    foreseen = isinstance(self._job.game, SeesOpponents)
                    teaches = not active.opponent.learns and (copied or foreseen)
                    self._buffer.add_opponents(decisions.rows, decisions.actions, decisions.values, teaches)
                    self._play(decisions.rows, decisions.actions)

    def _play(self, rows: Rows, actions: Actions) -> None:
        """Play recorded moves; start the next game where one ends."""
        self._advance(rows, actions)
        search = self.search
        over = search.over(rows)
        if over.any():
            ended = rows[over]
            cut_short = self._job.game.cut_short(search.states[ended])
            for row, result, cut in zip(ended.tolist(), search.returns(ended).tolist(), cut_short, strict=True):
                self._finish(row, result, End.MOVE_LIMIT if cut else End.PLAYED_OUT)
            self._start(ended)
            rows = rows[~over]
        if self._config.end_settled and rows.size:
            rows = self._end_settled(rows)
        self._begin(rows)

    def _end_settled(self, rows: Rows) -> Rows:
        """End the games in which nothing can change any more; returns the other games' rows."""
        game = self._job.game
        states = self.search.states[rows]
        owners = game.settled_owners(states)
        settled = (owners != 0).all(axis=1)
        if settled.any():
            results = np.sign(game.settled_scores(states[settled], owners[settled]))
            for row, result in zip(rows[settled].tolist(), results.tolist(), strict=True):
                self._finish(row, result, End.SETTLED)
            self._start(rows[settled])
        return rows[~settled]

    def _begin(self, rows: Rows) -> None:
        """Ask the player to move in each of rows [n] for a move."""
        if self._opponents:
            learner = self._learner[rows]
            is_learners_turn = (learner == BOTH) | (learner == self.search.to_move(rows))
            others, rows = rows[~is_learners_turn], rows[is_learners_turn]
            for active in self._opponents:
                if (its := others[active.plays[others]]).size:
                    active.begin(its)
        if rows.size:
            config = self._config
            decided = self._is_decided(rows)
            full = ~decided
            if config.full_search_fraction < 1:
                full &= uniforms(self._kinds[rows], self.search.plies(rows)) < config.full_search_fraction
            self._full[rows] = full
            few = np.where(decided, config.decided_readouts, config.cheap_readouts)
            readouts = np.where(full, config.readouts, few).astype(np.int32)
            self.search.begin(rows, readouts, full & (readouts > 0))

    def _is_decided(self, rows: Rows) -> BoolArray:
        """[n] whether one side was sure at the last DECIDED_CONSECUTIVE_MOVES moves of each side of the learner."""
        sides = np.where(self._learner[rows] == BOTH, 2, 1)
        return self._sure_plies[rows] >= DECIDED_CONSECUTIVE_MOVES * sides

    def _update_leader(self, rows: Rows, values: FloatArray, movers: NDArray[np.int8]) -> None:
        """Count the consecutive searches that found one side sure of winning; values, movers [n]: of the last ones."""
        leader = np.where(values > 0, movers, 1 - movers)
        sure = np.abs(values) >= self._config.decided_value
        goes_on = sure & (leader == self._leader[rows])
        self._sure_plies[rows] = np.where(goes_on, self._sure_plies[rows] + 1, sure)
        self._leader[rows] = np.where(sure, leader, BOTH)

    def _finish(self, row: int, result_first_player: float, end: End) -> None:
        player = self._players[row]
        assert player is not None
        record = self._buffer.finish(row, result_first_player, end)
        loser = self._buffer.would_have_resigned(row)
        self._players[row] = None
        self.live -= 1
        if self._learner[row] != BOTH:
            self._learner[row] = BOTH
            self._opponents.drop(row)
        self._job.on_finished(FinishedGame(record, player.name, loser, self.search.states[row].copy()))

    def _start(self, rows: Rows) -> None:
        """Begin the next games in free rows; rows stay empty if no games are left."""
        begun, streams, setups = [], [], []
        encounters: dict[int, Encounter] = {}
        for row in rows.tolist():
            seed = next(self._job.seeds, None)
            if seed is None:
                break
            player = self._job.current_player()
            if player is not self._newest:
                self._switch(player)
            # The newest model may come back when only its predecessor's games against opponents are left.
            self._switched |= any(other not in (None, player) for other in self._players)
            self._players[row] = player
            encounter = self._job.meet(seed, player) if self._job.meet else None
            if encounter is not None:
                encounters[row] = encounter
                self._learner[row] = encounter.learner  # before another model may come
            opponent, learner = (encounter.opponent.name, encounter.learner) if encounter else (None, BOTH)
            setup = seed.setup
            if encounter and isinstance(self._job.game, SeesOpponents) and not encounter.opponent.learns:
                setup = encounter.learner + 1
            self._buffer.start(row, seed.game_id, seed.no_resign, opponent=opponent, learner=learner, setup=setup)
            self._kinds[row] = seed.kinds
            self._sure_plies[row] = 0
            begun.append(row)
            streams.append(seed.stream)
            setups.append(setup)
        idle = np.setdiff1d(rows, begun)
        if idle.size:
            self.search.stop(idle)
        if begun:
            self.live += len(begun)
            started = np.array(begun, np.int64)
            self.search.new_games(started, np.array(streams, np.uint64))
            if any(setups):
                self.search.set_up(started, beginning(self._job.game, np.array(setups)))
            for row, encounter in encounters.items():
                opponent_player = self._opponents.meet(row, encounter)
                if setup := setups[begun.index(row)]:
                    opponent_player.set_up(np.array([row]), beginning(self._job.game, np.array([setup])), [[]])
            if self._config.random_plies:
                self._open(started)
            self._begin(started)

    def _switch(self, player: Learner) -> None:
        """Give the learner's games against itself to a new model; games against opponents keep the old model."""
        for row, other in enumerate(self._players):
            if other is not None and self._learner[row] == BOTH:
                self._players[row] = player
            elif other is not None:
                self._switched = True
        self._newest = player

    def _open(self, rows: Rows) -> None:
        """Play 0 to random_plies uniformly random moves in each of rows [n], all numbers equally likely.

        Stops before a move that would end the game. The moves are recorded without values, never as policy targets.
        """
        most = self._config.random_plies
        wanted = np.floor(uniforms(self._kinds[rows], np.full(len(rows), OPENING_COUNTER)) * (most + 1)).astype(int)
        for ply in range(most):
            rows, wanted = rows[wanted > ply], wanted[wanted > ply]
            if rows.size == 0:
                return
            search = self.search
            legal = search.allowed(rows)
            sampled = uniforms(self._kinds[rows], np.full(len(rows), OPENING_COUNTER + 1 + ply))
            nth = np.floor(sampled * legal.sum(axis=1)).astype(int)
            actions = np.argmax(np.cumsum(legal, axis=1) > nth[:, None], axis=1).astype(np.int32)
            after = search.game.play(search.states[rows], actions, search.history.select(rows))
            going = ~search.game.is_over(after)
            rows, wanted, actions = rows[going], wanted[going], actions[going]
            self._buffer.add_random(rows, actions)
            self._advance(rows, actions)

    def _advance(self, rows: Rows, actions: Actions) -> None:
        self.search.advance(rows, actions)
        self.plies += len(rows)
        self._opponents.advance(rows, actions)
