"""What a method is: how games are played and recorded, what an example is, and what the loss of a batch is.

The commands are generic. A model's ``model.json``, a shard and a chunk name the method that made them (by default
``alphazero``), and each command asks that method for its part:

    init      Method.first_model                        train      Method.grown, .make_batch, .objective
    selfplay  Method.load, .actor, .recorded, .resigns  evaluate   Method.load, .player
    gather    Method.columns, .examples

A method may do without a tree (its records then have other columns than visits), without planes and without a fixed
list of actions (a move is then the number of a successor position; see games/contract.py). check() says which games it
can learn, check_options() which options it reads.

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
from pipeline.options import Options, changed, group_of, plain
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
    """A model loaded for one thread. evaluate: this thread's item of Method.load; path: the model's real directory."""

    name: str
    evaluate: Any
    path: Path | None = None


@dataclass(frozen=True)
class GameSeed:
    """What determines one game. The seeds are uint64."""

    game_id: int
    stream: int  # seed of the game's random stream
    no_resign: bool  # whether the game is never resigned
    encounter: int  # seed of the choice of an opponent and its side, and of the opponent's randomness
    kinds: int  # key of the counter-based RNG that chooses the moves searched in full
    setup: int = 0  # see capabilities.Setups
    number: int = 0  # which of its worker's games it is


def game_seeds(
    seed: int, numbers: Iterator[int], no_resign_fraction: float, worker: str = DEFAULT_WORKER
) -> Iterator[GameSeed]:
    """One GameSeed per game number, each from a numpy stream of its own.

    A worker's game i is the same in any thread; workers with different names play different games.
    """
    spawn_key = () if worker == DEFAULT_WORKER else tuple(worker.encode())
    for number in numbers:
        # As a Generator's integers(0, 2**64, 2), random(), integers(0, 2**64, 2), in half the time.
        stream = np.random.PCG64(np.random.SeedSequence([seed, number], spawn_key=spawn_key))
        first, second, fraction, encounter, kinds = stream.random_raw(5).tolist()
        no_resign = (fraction >> 11) * 2.0**-53 < no_resign_fraction
        yield GameSeed(first, second, no_resign, encounter, kinds, number=number)


@dataclass(frozen=True, eq=False)
class Opponent:
    """An opponent of the learner. make: (game, num_rows) → its player; called once in each actor's thread.

    Compared by identity: two Opponents of one name are two players.
    """

    name: str
    make: Callable[[Any, int], Player]
    learns: bool = False  # whether it is a model
    is_random: bool = False  # whether its moves are random: worth foreseeing, not worth copying


@dataclass(frozen=True)
class Encounter:
    """A game's opponent. learner: the learner's side, 0 (moves first) or 1; seed: the opponent's, uint64."""

    opponent: Opponent
    learner: int
    seed: int


Meet = Callable[[GameSeed, Learner], Encounter | None]
"""(seed of a new game, its learner) → the opponent; None: the learner plays both sides."""


@dataclass(frozen=True)
class FinishedGame:
    record: GameRecord
    player: str  # name of the model that played it
    would_have_resigned: int  # the player (0, 1) who'd have resigned first in a game that never resigns; −1 nobody
    final_state: NDArray[np.int16]  # [S]


@dataclass(frozen=True)
class ActorJob:
    """What an actor plays: the games of seeds, up to num_rows at a time.

    on_dropped: called with the id of each game that ends without a record, and the environment's fault
    """

    game: Any
    num_rows: int
    config: GameOptions  # its resign_threshold is the one in use, calibrated or given
    seeds: Iterator[GameSeed]  # may yield games again after it ran out, see Actor.resume
    current_player: Callable[[], Learner]  # called once per new game, so that a promotion takes effect with the next
    on_finished: Callable[[FinishedGame], None]  # called with each game as it ends
    meet: Meet | None = None  # called once per new game for an opponent; None: the learner always plays both sides
    leaves: int = 1  # how many leaves of one tree may be in a batch, for methods with trees
    on_dropped: Callable[[int, str], None] = lambda game_id, fault: None


class Actor(ABC):
    """Plays self-play games in one thread, up to R at a time, and hands each to a callback as it ends.

    Resigns only if its method does (Method.resigns). Counts what it has done so far.
    """

    live: int = 0  # games in progress
    steps: int = 0  # shows that the thread doesn't hang
    plies: int = 0  # moves recorded, those of unfinished games included
    evaluations: int = 0  # of the learner's network
    tokens: int = 0  # that the learner generated, if it generates any

    @abstractmethod
    def step(self) -> None:
        """Do one batch of work."""

    def run(self, stopped: Callable[[], bool]) -> None:
        """Step until no game is left, or until stopped(), which drops unfinished games."""
        run_in_turn([self], stopped)

    def resume(self) -> None:  # noqa: B027  an actor that can't resume is replaced when it has no game left
        """Fill empty rows when seeds, which had run out, yields games again."""

    def close(self) -> None:  # noqa: B027  most actors have nothing to close
        """Close the opponents; the actor can't be used any more."""


def run_in_turn(
    actors: Sequence[Actor], stopped: Callable[[], bool], ahead: Callable[[int], bool] = lambda index: False
) -> None:
    """Step the actors of one thread in turn until no game is left or stopped(), which is checked before each round.

    With several actors, a turn is STEPS_OF_A_TURN steps, for the caches' sake. ahead(index): whether an actor skips the
    round, unless all would.
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
    """N positions of recorded games."""

    shard: IndexArray  # [N] index into a list of shards
    game: IndexArray  # [N] index in the shard
    ply: IndexArray  # [N] moves made before the position

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
    """How a number that a method measures is shown: of its games (Method.tracked) or of a training (Method.tabled)."""

    share: bool = False  # whether it is a share, shown in percent
    heading: str = ""  # of its chart in a report, "" for no chart; of its column in tables of models
    about: str = ""  # the text below the chart
    is_error: bool = False  # whether it means overfitting if a training makes it larger on held-out games


@dataclass(frozen=True)
class LearningChart:
    """A report's chart of trainings. series: (part, metric) of a model's manifest, by the name of the line.

    Parts: train, the last epoch; holdout_before, holdout_after; set_after, as many examples of the set. A part that
    wasn't measured has no line.
    """

    title: str
    about: str
    series: Mapping[str, tuple[str, str]]
    unit: str = ""  # of the numbers
    share: bool = False  # whether they are shares, shown in percent


PARTS = {"in training": "train", "held out, after": "holdout_after", "held out, before": "holdout_before"}


def learning_chart(title: str, about: str, metric: str, unit: str = "", share: bool = False) -> LearningChart:
    """One metric in training and on held-out games."""
    return LearningChart(title, about, {name: (part, metric) for name, part in PARTS.items()}, unit, share)


# Training


@dataclass(frozen=True)
class Grown:
    """What training starts from."""

    architecture: dict[str, Any]
    weights: Weights
    fresh_optimizer: bool = False  # whether the original's optimiser state no longer fits
    note: str = ""  # a message for the user, or ""


class Objective(ABC):
    """A network and its loss. Imports torch, so it is only made for training.

    A batch is a NamedTuple of tensors [B, …]: the network's input first, and among the others ``sample_weight``, each
    row's weight (1, or prioritised replay's correction). The network's outputs are a NamedTuple of tensors [B, …].
    """

    terms: Sequence[str]  # names of the loss's parts, "total" among them
    metrics: Sequence[str]  # the terms and everything else that is reported
    # Whether network, losses, accuracies and errors run the same operations for every batch, all on the batch's device;
    # only then can they become a CUDA graph.
    capturable: bool = True
    shareable: bool = True  # whether several threads may run one network at the same time

    @abstractmethod
    def network(self, weights: Weights) -> torch.nn.Module:
        """Raises MuGoError if the weights aren't those of this network."""

    @abstractmethod
    def weights(self, network: torch.nn.Module) -> Weights:
        """A copy of a network's weights, as network() takes them."""

    def start_from(self, weights: Weights) -> None:  # noqa: B027  most losses don't depend on them
        """Called before network() with the weights of the model that training starts from, also if it is resumed."""

    def check(self, batch: Any) -> None:  # noqa: B027  most networks learn from all examples of their method
        """Raise MuGoError if this network can't learn from a batch, a batch in the CPU's memory."""

    def finish(  # noqa: B027  most networks are complete with their weights
        self, network: torch.nn.Module, inputs: Iterable[Any], evaluate: Callable[[torch.nn.Module, Any], Any]
    ) -> None:
        """Called with the network that will be saved and, of each kind, some of the inputs that it was trained on.

        evaluate: (network, input) → its outputs, computed as in training.
        """

    def trained(self, weights: Weights) -> Weights:
        """Those of a network's weights that training changes: all but what finish() adds."""
        return weights

    @abstractmethod
    def losses(self, outputs: Any, batch: Any) -> dict[str, torch.Tensor]:
        """The terms as scalar float32 tensors; "total" is minimised."""

    @abstractmethod
    def accuracies(self, outputs: Any, batch: Any) -> dict[str, torch.Tensor]:
        """The metrics that aren't terms, scalar float32."""

    @abstractmethod
    def counting_rows(self, batch: Any) -> dict[str, torch.Tensor]:
        """For each metric [B] 0 or 1: which rows count. A metric without any isn't measured, and nowhere shown."""

    @abstractmethod
    def total(self, means: Mapping[str, float]) -> float:
        """The total, from means of the terms over many batches."""

    @abstractmethod
    def errors(self, outputs: Any, batch: Any) -> torch.Tensor:
        """[B] the error of each row's value, used as prioritised replay's priority."""


# The method


class Method(ABC):
    """See the module docstring. Stateless: one instance serves all."""

    name: str
    resigns = False  # whether its actor resigns games by the rule in methods/resignation.py
    searches = True  # whether its players use readouts; otherwise they count as players with 0 readouts
    steps_only = False  # whether only positions with a surprise above 0 are sampled as examples
    # Groups with of_methods = True that this method reads. A method that reads SearchTargetOptions records the surprise
    # of each position's search, above 0 where the search is a policy target.
    options: Sequence[type[Options]] = ()
    settled: Sequence[str] = ()  # the columns of examples that settle() computes
    # Metrics in train's summary: terms beside the total; shares, with a suffix such as "of the moves right"; and the
    # share that is also measured on held-out examples, before and after training.
    shown_terms: Sequence[str] = ()
    shown_shares: Mapping[str, str] = MappingProxyType({})
    held_out_share = ""
    # Metrics in tables of models, of training and of held-out examples; charts of a report. Neither shows what wasn't
    # measured.
    tabled: Mapping[str, Measure] = MappingProxyType({})
    charts: Sequence[LearningChart] = ()

    @abstractmethod
    def check(self, game: AnyGame) -> None:
        """Raise UsageError, naming what is missing, if this method can't learn the game."""

    # Models

    @abstractmethod
    def first_model(self, game: Any, config: FirstModelOptions, progress: Progress) -> tuple[dict[str, Any], Weights]:
        """Architecture (JSON) and random weights. Raises UsageError for an unknown network size."""

    @abstractmethod
    def size(self, architecture: Mapping[str, Any]) -> str:
        """The architecture's size, as in a model's name, e.g. b2c32."""

    @abstractmethod
    def grown(self, game: Any, model: Model, config: GrowthOptions) -> Grown:
        """What training of this model starts from. Raises UsageError for a size that it can't grow to."""

    def with_absolute_paths(self, model: Model) -> dict[str, Any]:
        """A model's architecture with absolute paths. Raises FileError if one doesn't exist."""
        return model.info.architecture

    def stored(self, architecture: dict[str, Any], folder: Path) -> dict[str, Any]:
        """An architecture from grown() or with_absolute_paths(), in the form that a model in this folder stores."""
        return architecture

    def moved(self, old: Any, new: Any, model: Model) -> tuple[dict[str, Any], Weights]:
        """Architecture and weights of a model of the game old, for learning the game new.

        Raises MuGoError unless the network fits the new game's planes and actions.
        """
        raise MuGoError(f"networks of method {self.name} can't be taken to another game; leave --original-model out")

    def files_for_others(self, model: Model) -> dict[str, bytes]:
        """Files for other programs, by name, that a model's exported copy also has: by default none."""
        return {}

    # Playing

    @abstractmethod
    def load(
        self,
        model: Model,
        max_batch: int,
        num_threads: int,
        backend: str,
        progress: Progress,
        options: Options = Options(),
    ) -> list[Any]:
        """The model loaded for each of num_threads, for batches of up to max_batch. options: the command's.

        Raises FileError.
        """

    @abstractmethod
    def player(
        self, game: Any, num_rows: int, evaluate: Any, search: SearchOptions, readouts: int, leaves: int = 1
    ) -> Player:
        """A model as a player of matches. evaluate: the thread's item of load(); leaves: of one tree in a batch."""

    @abstractmethod
    def actor(self, job: ActorJob) -> Actor:
        """The actor that plays self-play games in one thread."""

    def recorded(self, game: Any) -> ColumnTypes:
        """The columns of shards with an entry per move, beside the moves: by default what a tree search records.

        Any of SEARCH_COLUMNS, with their types, and columns of the method's own (GameRecord.own), each with an entry's
        dtype, one of shards.OWN_TYPES, and shape.
        """
        return SEARCH_COLUMNS

    def facts(self, game: Any, state: NDArray[np.int16], record: GameRecord, ply: int) -> dict[str, str | float]:
        """The method's own columns of the move at this ply, by name, for people. state [S]: the position before it."""
        return {name: " ".join(f"{value:.3g}" for value in of[ply].ravel().tolist()) for name, of in record.own.items()}

    tracking_window: int = 0  # number of newest games that tracked() reads
    measures: Mapping[str, Measure] = MappingProxyType({})  # numbers of tracked() that aren't shown as plain numbers

    def tracked(self, game: Any, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
        """Statistics of the newest games, by source and name, for status, reports and what self-play tracks."""
        return {}

    def policy(self, loaded: Any) -> Callable[..., Any] | None:
        """Of a loaded model: planes [K, C, H, W] → logits [K, A], value_to_move [K]. None: openings are random."""
        return None

    # Examples

    def unread(self, config: Options) -> list[str]:
        """The options of a command that this method doesn't read."""
        kind, own = type(config), {plain(group) for group in self.options}
        groups = {name: group_of(kind, name) for name in kind.model_fields}
        return [name for name, group in groups.items() if group is not kind and group.of_methods and group not in own]

    def check_options(self, command: str, config: Options) -> None:
        """Raise UsageError for options of a command that this method doesn't read, or that contradict each other."""
        for name in changed(config, self.unread(config)):
            option = name.replace("_", "-")
            raise UsageError(f"{command} --{option}: method {self.name} doesn't read it; leave it out")

    def calibration(self, columns: Columns) -> NDArray[np.uint8] | None:
        """The network's inputs in n examples as bits [n, bytes], C order: calibration positions for int8.

        None: networks of this method don't run in int8.
        """
        return None

    @abstractmethod
    def columns(self, game: Any) -> ColumnTypes:
        """The columns of an example, without chunks.ORIGIN."""

    @abstractmethod
    def examples(
        self,
        game: Any,
        shards: Sequence[Shard],
        wanted: Positions,
        td_lambda: NDArray[np.float32] | None = None,
        config: Options | None = None,
    ) -> Columns:
        """The examples of N wanted positions, in their order: columns() and chunks.ORIGIN.

        wanted     its shard is an index into shards
        td_lambda  [N] gather's option for each position; None: 1
        config     gather's, if targets depend on other options
        Raises FileError, with a shard's path, if its games can't be of this game and method; GamesDiffer if only some
        of them can't be replayed as they were recorded.
        """

    def settle(self, columns: Columns, config: Options) -> Columns:
        """The columns `settled`, which depend on all examples of the training set, or of the hold-out.

        columns: those with one or a few numbers per example, and chunks.ORIGIN, whose shard counts from the newest.
        """
        return {}

    # The loss

    def kinds(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.integer] | None:
        """[n] a number for each of n examples: only examples of equal numbers may share a batch. None: all may."""
        return None

    def kind_name(self, kind: int) -> str:
        """What a person calls the examples of a kind, e.g. 13×13. Asked only of methods that have kinds."""
        raise NotImplementedError

    def num_symmetries(self, game: Any) -> int:
        """The number of equivalent forms of an example; form 0 is the example itself."""
        return 1

    @abstractmethod
    def make_batch(self, game: Any, columns: Mapping[str, NDArray[Any]], rows: IndexArray, symmetry: IndexArray) -> Any:
        """Examples rows [B] of columns as a batch, each in its form symmetry [B]. See Objective."""

    @abstractmethod
    def objective(self, architecture: Mapping[str, Any], config: Options) -> Objective:
        """The loss to minimise. Raises UsageError for an architecture of another method."""
