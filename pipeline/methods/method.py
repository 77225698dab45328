"""What a method is: how games are played and recorded, what an example is, and what the loss of a batch is.

The stages are generic. A model's ``model.json`` names the method that made it, a shard and a chunk name the one that
recorded and extracted them (``alphazero`` where they name none), and each stage asks that method for its part:

    init      Method.first_model                        train      Method.grown, Method.make_batch, Method.objective
    selfplay  Method.load, .actor, .recorded, .resigns  evaluate   Method.load, Method.player
    gather    Method.columns, Method.examples

A method may do without a tree (it records no visits, but what it likes), without planes (its examples likewise) and
without a fixed list of actions (a move is then the number of a successor position; see games/contract.py). It says in
check() which games it can learn.

Axes: R rows (games of one thread), N examples, B batch, T plies. Values are seen by the player to move unless a name
says otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import AnyGame
from pipeline.methods.options import FirstModelOptions, GameOptions, GrowthOptions
from pipeline.options import Options, used_of_methods
from pipeline.players.player import Player
from pipeline.progress import Progress
from pipeline.run.chunks import Columns, ColumnTypes
from pipeline.run.layout import DEFAULT_WORKER
from pipeline.run.models import Model
from pipeline.run.shards import SEARCH_COLUMNS, GameRecord, Shard
from pipeline.search.options import SearchOptions

if TYPE_CHECKING:
    import torch

Weights = dict[str, NDArray[np.float32]]
IndexArray = NDArray[np.int64]

# Self-play

STEPS_OF_A_TURN = 4  # measured in docs/log, "A network for all boards at its own pace"


@dataclass(frozen=True)
class Learner:
    """A model ready to play in one thread: its name, what Method.load gave for that thread, and its real directory."""

    name: str
    evaluate: Any
    path: Path | None = None


@dataclass(frozen=True)
class GameSeed:
    """What makes one game differ from the next: its id, its random stream (uint64) and whether it never resigns.

    encounter: uint64, a stream of its own for the opponent that the learner meets, its side, and its randomness.
    kinds: uint64, the key of the numbers that say which moves are searched in full.
    setup: how the game begins, see AnyGame.begin.
    """

    game_id: int
    stream: int
    no_resign: bool
    encounter: int
    kinds: int
    setup: int = 0


def game_seeds(
    seed: int, numbers: Iterator[int], no_resign_fraction: float, worker: str = DEFAULT_WORKER
) -> Iterator[GameSeed]:
    """One GameSeed per game number, from a numpy stream of its own: a worker's game i is the same in whatever thread.

    Workers of other names play other games.
    """
    who = () if worker == DEFAULT_WORKER else tuple(worker.encode())
    for number in numbers:
        # The bits as they come, at half the time of a Generator: its integers(0, 2**64, 2), random(), integers again.
        stream = np.random.PCG64(np.random.SeedSequence([seed, number], spawn_key=who))
        first, second, fraction, encounter, kinds = stream.random_raw(5).tolist()
        no_resign = (fraction >> 11) * 2.0**-53 < no_resign_fraction
        yield GameSeed(first, second, no_resign, encounter, kinds)


@dataclass(frozen=True, eq=False)
class Opponent:
    """Somebody to meet. make: (game, num_rows) → the player for an actor's games, called in its thread.

    Two Opponents are two players even if they have the same name; an actor makes the player of each once.
    """

    name: str
    make: Callable[[Any, int], Player]
    learns: bool = False  # whether it is a model


@dataclass(frozen=True)
class Encounter:
    """A game against an opponent. learner: the learner's side, 0 (moves first) or 1; seed: uint64, the opponent's."""

    opponent: Opponent
    learner: int
    seed: int


Meet = Callable[[GameSeed, Learner], Encounter | None]
"""(seed of a new game, the learner in it) → the opponent's part in it; None: the learner plays itself."""


@dataclass(frozen=True)
class FinishedGame:
    """A record, with the id of the seed that it was begun with, the name of the model that played it, and how it ended.

    would_have_resigned: the player (0, 1) who would have resigned first in a game that never resigns; −1 nobody.
    final_state  [S] int16
    """

    record: GameRecord
    player: str
    would_have_resigned: int
    final_state: NDArray[np.int16]


@dataclass(frozen=True)
class ActorJob:
    """What an actor plays: the games that seeds yields, up to num_rows at a time.

    seeds            may have games again after it had none, see Actor.resume
    config           how; its resign_threshold is the one in force, calibrated or given
    current_player   asked once per new game, so that a promotion takes effect with the next one; trees go on with it
    on_finished      gets each game as it ends
    meet             asked once per new game for an opponent; None: the learner always plays itself
    leaves           of one tree that may be in a batch, for methods that have trees
    on_dropped       gets the id of each game that ends without a record, and which fault of its environment ended it
    """

    game: Any
    num_rows: int
    config: GameOptions
    seeds: Iterator[GameSeed]
    current_player: Callable[[], Learner]
    on_finished: Callable[[FinishedGame], None]
    meet: Meet | None = None
    leaves: int = 1
    on_dropped: Callable[[int, str], None] = lambda game_id, fault: None


class Actor(ABC):
    """Plays self-play games in one thread, up to R at a time, and hands each to a callback as it ends.

    It never gives a game up unless its method resigns (Method.resigns).

    live         games in play
    steps        made so far by run(): what shows that the thread doesn't hang
    plies        moves recorded so far, those of unfinished games included
    evaluations  positions that the learner's network was asked about so far
    """

    live: int = 0
    steps: int = 0
    plies: int = 0
    evaluations: int = 0

    @abstractmethod
    def step(self) -> None:
        """One batch of work."""

    def run(self, stopped: Callable[[], bool]) -> None:
        """Step until no game is left, or stopped() says so: unfinished games are then dropped."""
        run_in_turn([self], stopped)

    def resume(self) -> None:  # noqa: B027  one that can't is used until it has no game left, then replaced
        """Ask for games again where none is in play: there were none left, and now there are."""

    def close(self) -> None:  # noqa: B027  most actors have nothing to let go
        """Let go of opponents; the actor is of no more use."""


def run_in_turn(
    actors: Sequence[Actor], stopped: Callable[[], bool], ahead: Callable[[int], bool] = lambda index: False
) -> None:
    """Let the actors of one thread step in turn until none has a game left, or stopped() says so before a round.

    With several, a turn is STEPS_OF_A_TURN steps: each actor has trees and a network of its own, which first have to
    come back into a core's caches. ahead: whether the actor of this index sits the round out, as long as another takes
    its turn.
    """
    while (busy := [index for index, actor in enumerate(actors) if actor.live]) and not stopped():
        for actor in [actors[index] for index in busy if not ahead(index)] or [actors[index] for index in busy]:
            for _ in range(STEPS_OF_A_TURN if len(busy) > 1 else 1):
                if actor.live:
                    actor.step()
                    actor.steps += 1


# Examples


@dataclass(frozen=True)
class Positions:
    """N positions.

    shard  [N] index into the shards at hand   game  [N] index in the shard   ply  [N] moves made before the position
    """

    shard: IndexArray
    game: IndexArray
    ply: IndexArray

    def __len__(self) -> int:
        return len(self.ply)

    def at(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Positions:
        return Positions(self.shard[rows], self.game[rows], self.ply[rows])

    def __add__(self, other: Positions) -> Positions:
        both = zip((self.shard, self.game, self.ply), (other.shard, other.game, other.ply), strict=True)
        return Positions(*map(np.concatenate, both))


# What status and reports show


@dataclass(frozen=True)
class Measure:
    """One of the numbers that Method.tracked gives, by its name there.

    share    whether it is one, shown in percent
    heading  of its chart in a report, "" for none      about  what the chart says beneath it
    """

    share: bool = False
    heading: str = ""
    about: str = ""


# Training


@dataclass(frozen=True)
class Grown:
    """What a training starts from.

    note: what is said of it, "" if nothing; fresh_optimizer: whether the original's optimiser fits no more.
    """

    architecture: dict[str, Any]
    weights: Weights
    fresh_optimizer: bool = False
    note: str = ""


class Objective(ABC):
    """A network's shape and what a batch costs it. Imports torch; made where training happens.

    A batch is a NamedTuple of tensors [B, …]: the network's input first, and among the others ``sample_weight``, how
    much each row counts for (1, or what prioritised replay corrects for). The network's outputs are a NamedTuple of
    tensors [B, …].
    terms       names of the loss's parts, "total" among them      metrics  terms and whatever else is reported
    recordable  whether network, losses, accuracies and errors ask for the same operations whatever the numbers of a
                batch are, and for nothing outside of the batch's device; only so can a GPU record them (CudaGraphPass)
    shareable   whether several threads may ask one network at the same time
    """

    terms: Sequence[str]
    metrics: Sequence[str]
    recordable: bool = True
    shareable: bool = True

    @abstractmethod
    def network(self, weights: Weights) -> torch.nn.Module:
        """Raises MuGoError if the weights aren't those of this network."""

    @abstractmethod
    def weights(self, network: torch.nn.Module) -> Weights:
        """A copy of all that network() takes."""

    def check(self, batch: Any) -> None:  # noqa: B027  most networks learn from all examples of their method
        """Raise MuGoError for a batch, still in this machine's memory, that this network can't learn from."""

    @abstractmethod
    def losses(self, outputs: Any, batch: Any) -> dict[str, torch.Tensor]:
        """The terms as scalar float32 tensors; "total" is what is minimised."""

    @abstractmethod
    def accuracies(self, outputs: Any, batch: Any) -> dict[str, torch.Tensor]:
        """The metrics beside the terms, scalar float32."""

    @abstractmethod
    def counting_rows(self, batch: Any) -> dict[str, torch.Tensor]:
        """[B] 0 or 1: which rows count for each metric."""

    @abstractmethod
    def total(self, means: Mapping[str, float]) -> float:
        """The total of terms that are already means over many batches."""

    @abstractmethod
    def errors(self, outputs: Any, batch: Any) -> torch.Tensor:
        """[B] how wrong each row's value is, which prioritised replay goes by."""


# The method


class Method(ABC):
    """See the module docstring. Stateless: one instance serves all."""

    name: str
    resigns = False  # whether its actor gives games up by the rule of methods/resignation.py
    searches = True  # whether readouts matter: players of others count as having 0
    steps_only = False  # whether examples are made of positions with a surprise above 0 alone: others are never sampled
    # The groups of options that only some methods read (Options.of_methods) and this one does. SearchTargetOptions: its
    # records keep the surprise of each position's search, above 0 where that is a policy target.
    options: Sequence[type[Options]] = ()
    settled: Sequence[str] = ()  # the columns of examples that settle() fills in
    # What train's summary shows of its objective's metrics: terms beside the total; shares, with what they are of, e.g.
    # "of the moves right"; and the one that is also measured on held out examples, before and after training.
    shown_terms: Sequence[str] = ()
    shown_shares: Mapping[str, str] = MappingProxyType({})
    held_out_share = ""

    @abstractmethod
    def check(self, game: AnyGame) -> None:
        """Raise UsageError, saying what is missing, if this method can't learn the game."""

    # Models

    @abstractmethod
    def first_model(self, game: Any, config: FirstModelOptions, progress: Progress) -> tuple[dict[str, Any], Weights]:
        """Architecture (JSON) and random weights. Raises UsageError for a network size that it doesn't know."""

    @abstractmethod
    def size(self, architecture: Mapping[str, Any]) -> str:
        """An architecture as a word of a model's name, e.g. b2c32."""

    @abstractmethod
    def grown(self, game: Any, model: Model, config: GrowthOptions) -> Grown:
        """What a training of this model starts from. Raises UsageError for what it can't grow to."""

    def with_whole_paths(self, model: Model) -> dict[str, Any]:
        """A model's architecture, in which paths don't depend on its folder. Raises FileError for what isn't there."""
        return model.info.architecture

    def stored(self, architecture: dict[str, Any], folder: Path) -> dict[str, Any]:
        """An architecture that grown() or with_whole_paths() gave, as a model in this folder keeps it."""
        return architecture

    def moved(self, old: Any, new: Any, model: Model) -> tuple[dict[str, Any], Weights]:
        """Architecture and weights with which a model of the game old begins to learn the game new.

        Raises MuGoError unless its network can see and answer for that game, too.
        """
        raise MuGoError(f"networks of method {self.name} can't be taken to another game; leave --original-model out")

    # Playing

    @abstractmethod
    def load(self, model: Model, max_batch: int, num_threads: int, backend: str, progress: Progress) -> list[Any]:
        """What plays in each thread, for batches of up to max_batch. Raises FileError naming the model."""

    @abstractmethod
    def player(
        self, game: Any, num_rows: int, evaluate: Any, search: SearchOptions, readouts: int, leaves: int = 1
    ) -> Player:
        """A model as a player of matches. evaluate: what load() gave for its thread; leaves: of one tree in a batch."""

    @abstractmethod
    def actor(self, job: ActorJob) -> Actor:
        """What plays self-play games in one thread."""

    def recorded(self, game: Any) -> ColumnTypes:
        """What its actor's records keep of each move, beside the move: shards have these columns.

        Any of SEARCH_COLUMNS, with their types, and columns of its own (GameRecord.own), dtype and shape for a move;
        own dtypes are among shards.OWN_TYPES. Here everything that a tree search leaves.
        """
        return SEARCH_COLUMNS

    def facts(self, game: Any, state: NDArray[np.int16], record: GameRecord, ply: int) -> dict[str, str | float]:
        """What a record keeps of the move at this ply beside what every record does, by name: for people to read.

        state [S]: the position before it.
        """
        return {name: " ".join(f"{value:.3g}" for value in of[ply].ravel().tolist()) for name, of in record.own.items()}

    tracking_window: int = 0  # of how many of the newest games tracked() says something; 0: of none

    measures: Mapping[str, Measure] = MappingProxyType({})  # what tracked() gives, where a plain number won't do

    def tracked(self, game: Any, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
        """What status and reports show of the newest games: numbers by source and name."""
        return {}

    def policy(self, loaded: Any) -> Callable[..., Any] | None:
        """Of what load() gave: planes [K, C, H, W] → logits [K, A], value to move [K]. None: openings are random."""
        return None

    # Examples

    def check_options(self, command: str, config: Options) -> None:
        """Raise UsageError for options of a command that this method doesn't read, or for values that mean nothing."""
        for name, group in used_of_methods(config):
            if group not in self.options:
                option = name.replace("_", "-")
                raise UsageError(f"{command} --{option}: method {self.name} doesn't read it; leave it out")

    def calibration(self, columns: Columns) -> NDArray[np.uint8] | None:
        """Of the columns of n examples, the network's input as bits [n, bytes], C-order: int8 takes its scales from
        such positions. None: its networks aren't run in int8.
        """
        return None

    @abstractmethod
    def columns(self, game: Any) -> ColumnTypes:
        """What an example holds, beside where it came from (chunks.ORIGIN)."""

    @abstractmethod
    def examples(
        self,
        game: Any,
        shards: Sequence[Shard],
        wanted: Positions,
        td_lambda: NDArray[np.float32] | None = None,
        config: Options | None = None,
    ) -> Columns:
        """The examples of N wanted positions, in their order; columns() and chunks.ORIGIN.

        wanted.shard is the index into shards. td_lambda [N]: how much the value learns of the result, see gather's
        option. config: gather's, for what else targets depend on.
        Raises FileError, whose path is the shard's, if its games can't be those of this game and method.
        """

    def settle(self, columns: Columns, config: Options) -> Columns:
        """Of the columns of all examples that are trained on (or held out), whatever depends on the others: `settled`.

        columns: those of one entry per example, or a few, and chunks.ORIGIN, whose shard counts from the newest one on.
        """
        return {}

    # The loss

    def kinds(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.integer] | None:
        """[n] of the columns of n examples, numbers: only equal ones may be in one batch. None: any may."""
        return None

    def num_symmetries(self, game: Any) -> int:
        """How many equivalent forms an example has; 0 is the example as it stands."""
        return 1

    @abstractmethod
    def make_batch(self, game: Any, columns: Mapping[str, NDArray[Any]], rows: IndexArray, symmetry: IndexArray) -> Any:
        """The examples rows [B] of columns as tensors, each in its form symmetry [B]. See Objective."""

    @abstractmethod
    def objective(self, architecture: Mapping[str, Any], config: Options) -> Objective:
        """What training minimises. Raises UsageError for an architecture that isn't this method's."""
