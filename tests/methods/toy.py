"""A method without a tree, planes or a fixed list of actions: a table of afterstates, learned from results.

Of each move it records how it liked both, not visits; an example is the place that a move led to; the network is one
weight per place, and the loss is its squared error. It plays the move whose afterstate it likes best, now and then
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from pipeline.errors import UsageError
from pipeline.games.boards import Boards
from pipeline.games.chance import outcomes
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.games.replay import replay_one
from pipeline.methods.method import Actor, ActorJob, FinishedGame, Grown, Method, Objective
from pipeline.players.player import Decisions, Player
from pipeline.run.chunks import ORIGIN
from pipeline.run.shards import NO_VALUE, SEARCH_COLUMNS, GameRecord
from tests.games.toys import DIE, MOVER, DiceRace

EXPLORE = 0.2


def places_after(game: DiceRace, states: np.ndarray) -> np.ndarray:
    """[n, 2, 2] for each move of the player to move: its own place afterwards and the opponent's, by play() alone."""
    history, found = game.initial_history(states), []
    movers = game.to_move(states)
    rows = np.arange(len(states))
    for action in range(2):
        after = game.play(states, np.full(len(states), action, np.int32), history)
        found.append(np.stack([after[rows, movers], after[rows, 1 - movers]], axis=1))
    return np.stack(found, axis=1)


def index_of(game: DiceRace, places: np.ndarray) -> np.ndarray:
    """The table's entry of places [..., 2], the mover's and the opponent's; beyond the end is the end."""
    size = game.length + 1
    return np.minimum(places[..., 0], game.length) * size + np.minimum(places[..., 1], game.length)


class TablePlayer(Player):
    def __init__(self, game: DiceRace, num_rows: int, table: np.ndarray) -> None:
        self._boards, self._table = Boards(game, num_rows), table
        self._wanted = np.zeros(num_rows, np.bool_)

    def new_games(self, rows, seeds) -> None:
        self._boards.new_games(rows)

    def advance(self, rows, actions) -> None:
        self._boards.advance(rows, actions)

    def begin(self, rows) -> None:
        self._wanted[rows] = True

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if not rows.size:
            return Decisions.none()
        self._wanted[rows] = False
        game = self._boards.game
        liked = self._table[index_of(game, places_after(game, self._boards.states[rows]))]
        return Decisions(rows, liked.argmax(axis=1).astype(np.int32), liked.max(axis=1).astype(np.float32))


class TableActor(Actor):
    """One game at a time, played to its end in one step."""

    def __init__(self, job: ActorJob) -> None:
        self._game, self._seeds = job.game, job.seeds
        self._player, self._on_finished = job.current_player, job.on_finished
        self.live = 1

    def step(self) -> None:
        seed = next(self._seeds, None)
        if seed is None:
            self.live = 0
            return
        learner, rng = self._player(), np.random.default_rng(seed.stream)
        boards, moves, flags, liked_moves = Boards(self._game, 1), [], [], []
        row = np.array([0])
        while not boards.over(row)[0]:
            state, liked = boards.states, np.zeros(2)
            if boards.to_move(row)[0] == CHANCE:
                move, flag = int(outcomes(self._game, state, np.array([seed.stream], np.uint64))[0]), NO_VALUE
            else:
                liked = learner.evaluate[index_of(self._game, places_after(self._game, state))][0]
                move, flag = int(rng.integers(2)) if rng.random() < EXPLORE else int(liked.argmax()), 0
                self.evaluations += 1
            boards.advance(row, np.array([move], np.int32))
            moves.append(move)
            flags.append(flag)
            liked_moves.append(liked)
        self.plies += len(moves)
        record = GameRecord(
            game_id=seed.game_id, moves=np.array(moves), flags=np.array(flags),
            own={"liked": np.array(liked_moves, np.float32)}, result_first_player=float(boards.returns(row)[0]),
        )  # fmt: skip
        self._on_finished(FinishedGame(record, learner.name, -1, boards.states[0].copy()))


class Batch(NamedTuple):
    place: torch.Tensor  # [B] int64
    value: torch.Tensor  # [B] float32
    sample_weight: torch.Tensor  # [B] float32


class Outputs(NamedTuple):
    value: torch.Tensor


class Table(torch.nn.Module):
    def __init__(self, weights: np.ndarray) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.from_numpy(weights.copy()))

    def forward(self, place: torch.Tensor) -> Outputs:
        return Outputs(self.table[place])


class SquaredError(Objective):
    terms = ("total",)
    metrics = ("total",)

    def network(self, weights):
        return Table(weights["table"])

    def weights(self, network):
        return {"table": network.table.detach().cpu().numpy().copy()}

    def losses(self, outputs, batch):
        return {"total": ((outputs.value - batch.value).square() * batch.sample_weight).mean()}

    def accuracies(self, outputs, batch):
        return {}

    def counting_rows(self, batch):
        return {"total": torch.ones_like(batch.value)}

    def total(self, means):
        return means["total"]

    def errors(self, outputs, batch):
        return (outputs.value - batch.value).abs()


class ToyMethod(Method):
    name = "toy"

    def check(self, game: AnyGame) -> None:
        if not isinstance(game, DiceRace):
            raise UsageError(f"method toy: {game.spec} is no dice race")

    def first_model(self, game, config, progress):
        return {"places": (game.length + 1) ** 2}, {"table": np.zeros((game.length + 1) ** 2, np.float32)}

    def size(self, architecture: Mapping[str, Any]) -> str:
        return f"t{architecture['places']}"

    def grown(self, game, model, config) -> Grown:
        return Grown(model.info.architecture, model.weights)

    def load(self, model, max_batch, num_threads, backend, progress, options):
        return [model.weights["table"]] * num_threads

    def player(self, game, num_rows, evaluate, search, readouts, leaves=1) -> Player:
        return TablePlayer(game, num_rows, evaluate)

    def actor(self, job) -> Actor:
        return TableActor(job)

    def recorded(self, game):
        return {"flags": SEARCH_COLUMNS["flags"], "liked": ("<f4", (2,))}

    def columns(self, game):
        return {"place": ("<i8", ()), "value": ("<f4", ())}

    def examples(self, game, shards: Sequence[Any], wanted, td_lambda=None, config=None):
        columns = {"place": np.zeros(len(wanted), np.int64), "value": np.zeros(len(wanted), np.float32)}
        columns |= {name: getattr(wanted, name).astype(dtype) for name, (dtype, _) in ORIGIN.items()}
        played: dict[tuple[int, int], np.ndarray] = {}
        for i, place in enumerate(zip(wanted.shard.tolist(), wanted.game.tolist(), strict=True)):
            record = shards[place[0]].game(place[1])
            if place not in played:
                played[place] = np.concatenate(list(replay_one(game, record.moves)))
            before, after = played[place][wanted.ply[i]], played[place][wanted.ply[i] + 1]
            mover = int(before[MOVER]) if before[DIE] else 1 - int(before[MOVER])  # a throw: who has just moved
            columns["place"][i] = index_of(game, after[[mover, 1 - mover]])
            columns["value"][i] = record.result_first_player * (1 - 2 * mover)
        return columns

    def make_batch(self, game, columns, rows, symmetry) -> Batch:
        place, value = (torch.from_numpy(columns[name][rows]) for name in ("place", "value"))
        return Batch(place, value, torch.ones(len(rows)))

    def objective(self, architecture, config) -> Objective:
        return SquaredError()
