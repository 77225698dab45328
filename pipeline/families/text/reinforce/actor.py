"""Self-play of text games: one thread plays a share of the games and answers all waiting prompts in one batch.

In each step of the actor, chance gives every new game its seed, each model answers all of its prompts in one batch, and
opponents play as players; no game waits for the slow opponent of another one. Every answer of the learner is recorded.
An answer without an action, or with an illegal one, is an invalid move; the environment decides what follows. Where
actions are texts, the environment says which are. If an environment raises or an opponent fails, the game is dropped
with a warning and not counted, and the next one begins.

A game's moves depend only on its seed, its model and the settings, except that a batch's size may affect rounding.
Writes no files. Axes: R rows, n rows of a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GameFault, UsageError
from pipeline.families.text.game import INVALID, TextGame
from pipeline.families.text.language.players import ask
from pipeline.families.text.options import TextSelfplayOptions
from pipeline.families.text.reinforce.columns import (
    INVALID_MOVE,
    NOBODY,
    NONE,
    OTHER_ENDED_BY_INVALID,
    WELL_FORMED,
    packed,
    recorded_columns,
)
from pipeline.families.text.texts import FIRST
from pipeline.families.text.words import checksum
from pipeline.games.boards import Boards
from pipeline.games.capabilities import written
from pipeline.games.chance import outcomes
from pipeline.games.contract import CHANCE, Actions
from pipeline.methods.active_opponents import ActiveOpponent, ActiveOpponents
from pipeline.methods.method import Actor, ActorJob, FinishedGame, GameSeed, Learner, Opponent
from pipeline.options import taken
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, GameRecord

WAIT_SECONDS = 0.02  # for each opponent, if all games wait for opponents

Rows = NDArray[np.int64]


@dataclass
class _Playing:
    """A game in progress. learner: the model's side: 0, 1 or BOTH."""

    seed: GameSeed
    model: Learner
    learner: int
    opponent: Opponent | None
    moves: list[int] = field(default_factory=list)
    columns: dict[str, list[object]] = field(default_factory=dict)

    def note(self, **values: object) -> None:
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)


class TextActor(Actor):
    """See the module docstring."""

    def __init__(self, job: ActorJob) -> None:
        """Raises UsageError for settings that this method doesn't support."""
        if job.config.readouts:
            raise UsageError("selfplay --readouts: a language model answers without a search; wanted 0")
        game: TextGame = job.game
        self._job, self._game = job, game
        self._boards = Boards(game, job.num_rows)
        self._playing: list[_Playing | None] = [None] * job.num_rows
        self._opponents = ActiveOpponents(game, job.num_rows)
        self._no_prompt = np.full(game.prompt_tokens, NONE, np.int32)
        self._no_answer = np.full(game.reply_tokens, NONE, np.int32)
        self._no_text = packed("", game)
        self._start(np.arange(job.num_rows))

    def step(self) -> None:
        """Play one move of every game."""
        rows = np.array([row for row, playing in enumerate(self._playing) if playing is not None], np.int64)
        to_move = self._boards.to_move(rows)
        self._seed(rows[to_move == CHANCE])
        to_move = self._boards.to_move(rows := self._live(rows))
        models: dict[int, list[int]] = {}
        others: list[int] = []
        for row, mover in zip(rows.tolist(), to_move.tolist(), strict=True):
            playing = self._at(row)
            if playing.opponent is None or playing.learner == mover:
                models.setdefault(id(playing.model.evaluate), []).append(row)
            else:
                others.append(row)
        for same in models.values():
            self._answer(np.array(same, np.int64))
        waiting = np.array(others, np.int64)
        moved = bool(models)
        for active in self._opponents:
            theirs = waiting[active.plays[waiting] & ~active.asked[waiting]]
            if theirs.size:
                active.begin(theirs)
            if active.thinking:
                moved = self._let_move(active) or moved
        if not moved:
            for active in self._opponents:
                if active.thinking:
                    active.player.wait(WAIT_SECONDS)
        ended = [row for row, playing in enumerate(self._playing) if playing is None]
        if ended:
            self._start(np.array(ended, np.int64))

    def close(self) -> None:
        self._opponents.close()

    # Moves

    def _seed(self, rows: Rows) -> None:
        """Play chance's move in rows [n]."""
        if not rows.size:
            return
        streams = np.array([self._at(row).seed.stream for row in rows.tolist()], np.uint64)
        seeds = outcomes(self._game, self._boards.states[rows], streams)
        for row in rows.tolist():
            self._note_other(row, NOBODY)
        self._play(rows, seeds)

    def _answer(self, rows: Rows) -> None:
        """Play the learner's move in rows [n], all with the same model."""
        game, states = self._game, self._boards.states[rows]
        generator = self._at(rows[0]).model.evaluate
        keys = np.array([self._at(row).seed.kinds for row in rows.tolist()], np.uint64)
        replies = ask(game, generator, states, keys, self._job.config)
        answers, actions = replies.answers, replies.actions
        self.evaluations += len(rows)
        self.tokens += int((answers.tokens != NONE).sum())
        for i, (row, state) in enumerate(zip(rows.tolist(), states, strict=True)):
            notes = (0 if replies.texts[i] is None else WELL_FORMED) | (INVALID_MOVE if actions[i] == INVALID else 0)
            prompt = self._no_prompt.copy()
            prompt[len(prompt) - len(replies.prompts[i]) :] = replies.prompts[i]
            self._at(row).note(
                flags=POLICY_COUNTS | NO_VALUE,
                surprises=1.0,
                prompt=prompt,
                answer=answers.tokens[i],
                text=packed(answers.texts[i], game),
                player=game.seat(state),
                notes=notes,
                check=checksum(replies.shown[i]),
                value=answers.values[i],
            )
        self._play(rows, actions)

    def _let_move(self, opponent: ActiveOpponent) -> bool:
        """Play what an opponent decides in one step; drop the games where it fails. Whether it did anything."""
        decisions = opponent.step()
        for row, fault in decisions.faults.items():
            self._drop(row, str(fault))
        if decisions.rows.size:
            for row, action in zip(decisions.rows.tolist(), decisions.actions.tolist(), strict=True):
                seat = self._game.seat(self._boards.states[row])
                self._note_other(row, seat, INVALID_MOVE if action == INVALID else 0)
            self._play(decisions.rows, decisions.actions)
        return decisions.worked or bool(decisions.rows.size or decisions.faults)

    def _note_other(self, row: int, seat: int, notes: int = 0) -> None:
        """Record a move of chance or an opponent."""
        self._at(row).note(
            flags=NO_VALUE, surprises=0.0, prompt=self._no_prompt, answer=self._no_answer, text=self._no_text,
            player=seat, notes=notes, check=0, value=np.nan,
        )  # fmt: skip

    def _play(self, rows: Rows, actions: Actions) -> None:
        """Play recorded moves. Drops a row whose environment raises."""
        try:
            self._boards.advance(rows, actions)
        except GameFault:
            kept = []
            for i in range(len(rows)):
                try:
                    self._boards.advance(rows[i : i + 1], actions[i : i + 1])
                    kept.append(i)
                except GameFault as error:
                    self._drop(int(rows[i]), str(error))
            rows, actions = rows[kept], actions[kept]
        self.plies += len(rows)
        self._opponents.advance(rows, actions)
        self._note_refusals(rows[actions >= FIRST])
        over = self._boards.over(rows)
        for row, action, ended in zip(rows.tolist(), actions.tolist(), over.tolist(), strict=True):
            self._at(row).moves.append(action)
            if ended:
                self._finish(row)

    def _note_refusals(self, rows: Rows) -> None:
        """Mark the latest moves of rows [n], which were texts, if the environment called them invalid."""
        refused = self._game.refused(self._boards.states[rows])
        for row in rows[refused].tolist():
            notes = cast(list[int], self._at(row).columns["notes"])
            notes[-1] |= INVALID_MOVE

    # Games

    def _finish(self, row: int) -> None:
        playing, game = self._at(row), self._game
        states = self._boards.states[[row]]
        rewards = game.rewards(states)[0]
        loser = int(game.lost_by_invalid(states)[0])
        types = {name: np.dtype(dtype) for name, (dtype, _) in recorded_columns(game).items()}
        columns = {name: np.array(values, types[name]) for name, values in playing.columns.items()}
        players = columns["player"]
        columns["reward"] = np.append(rewards, np.float32(0))[np.minimum(players, len(rewards))]  # NOBODY's is 0
        if loser >= 0:
            owner = np.array([game.player_of(playing.moves[0], seat) for seat in range(len(rewards))] + [NOBODY])
            others = (owner[np.minimum(players, len(rewards))] != owner[loser]) & (players != NOBODY)
            columns["notes"][others] |= OTHER_ENDED_BY_INVALID
            if taken(self._job.config, TextSelfplayOptions).filter_opponent_invalid:
                columns["surprises"][others] = 0
        moves, said = written(game, playing.moves)
        record = GameRecord(
            game_id=playing.seed.game_id,
            moves=np.array(moves, np.uint16),
            said=said,
            flags=columns.pop("flags"),
            surprises=columns.pop("surprises"),
            own=columns,
            result_first_player=float(game.returns(states)[0]),
            end=End.MOVE_LIMIT if game.cut_short(states)[0] else End.PLAYED_OUT,
            opponent=playing.opponent.name if playing.opponent else None,
            learner=playing.learner,
        )
        self._release(row)
        self._job.on_finished(FinishedGame(record, playing.model.name, -1, states[0].copy()))

    def _drop(self, row: int, fault: str) -> None:
        game_id = self._at(row).seed.game_id
        self._release(row)
        self._job.on_dropped(game_id, fault)

    def _release(self, row: int) -> None:
        self._opponents.drop(row)
        self._playing[row] = None
        self.live -= 1

    def _start(self, rows: Rows) -> None:
        """Begin the next games in free rows. Rows stay empty if no games are left."""
        begun = []
        for row, seed in zip(rows.tolist(), self._job.seeds, strict=False):
            model = self._job.current_player()
            encounter = self._job.meet(seed, model) if self._job.meet else None
            opponent, learner = (encounter.opponent, encounter.learner) if encounter else (None, BOTH)
            self._playing[row] = _Playing(seed, model, learner, opponent)
            begun.append(row)
            if encounter is not None:
                self._opponents.meet(row, encounter)
        self._boards.new_games(np.array(begun, np.int64))
        self.live += len(begun)

    def _live(self, rows: Rows) -> Rows:
        return np.array([row for row in rows.tolist() if self._playing[row] is not None], np.int64)

    def _at(self, row: int | np.integer) -> _Playing:
        playing = self._playing[int(row)]
        assert playing is not None
        return playing
