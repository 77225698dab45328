"""One frozen, validated config per stage.

A config's fields *are* the command's options: name, type, default and help text stand here once, and main.py
makes the command line from them. Presets fill them: see presets/.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

BACKENDS = ("auto", "torch", "compile", "openvino", "int8")
Backend = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(BACKENDS)})$",
        description="Inference; auto measures once per machine, openvino is without int8.",
    ),
]


TimeShare = Annotated[
    float | None,
    Field(ge=0, le=1, description="How much of the run's time is over, 0 to 1, for schedules that go by it."),
]


# Options that have another name in files, and had it in presets once.
STORED_NAMES = {
    "full_search_fraction": "full_share",
    "holdout_fraction": "holdout_share",
    "max_num_considered_actions": "considered",
    "no_resign_fraction": "no_resign_share",
}


def current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values by the names that options have now."""
    current = {stored: name for name, stored in STORED_NAMES.items()}
    return {current.get(name, name): value for name, value in values.items()}


class StageConfig(BaseModel):
    """Base of every stage's config: frozen, unknown fields refused, defaults validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, given: Any) -> Any:
        return current_names(given) if isinstance(given, dict) else given

    def stored(self, exclude: Collection[str] = ()) -> dict[str, Any]:
        """What files keep of it, as JSON. Names never change there, so that a rerun finds what it made before."""
        values = self.model_dump(mode="json", exclude=set(exclude))
        return {STORED_NAMES.get(name, name): value for name, value in values.items()}


class SearchConfig(StageConfig):
    """What a search does with its readouts; shared by self-play and evaluation."""

    algorithm: str = Field(
        "puct",
        pattern="^(puct|gumbel|mixed)$",
        description="puct; gumbel: learns from few readouts; mixed: gumbel for self-play's full moves, and puct, which "
        "keeps its tree from move to move, for the cheap ones and in matches.",
    )
    c_puct: float = Field(1.5, gt=0, description="Exploration constant of PUCT.")
    fpu_reduction: float = Field(
        0.2, ge=0, description="An unvisited move counts as the parent's value minus this times sqrt(prior visited)."
    )
    root_fpu_reduction: float = Field(0.0, ge=0, description="The same at the root.")
    noise_weight: float = Field(0.25, ge=0, le=1, description="Share of Dirichlet noise in the root prior (self-play).")
    noise_total: float = Field(
        10.83, gt=0, description="Sum of the Dirichlet parameters, spread evenly over the legal moves."
    )
    noise_shape: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the Dirichlet parameters that goes to the moves of higher prior (KataGo: 0.5).",
    )
    forced_playouts: float = Field(
        0.0,
        ge=0,
        description="k: a root move that noise found gets at least sqrt(k * prior * readouts) of the readouts; targets "
        "leave out what was forced (KataGo: 2); 0 = off.",
    )
    max_num_considered_actions: int = Field(16, ge=2, description="Gumbel: root moves that share the readouts.")
    gumbel_scale: float = Field(1.0, ge=0, description="Gumbel: noise in self-play; matches have none.")
    value_scale: float = Field(0.1, gt=0, description="Gumbel: weight of a move's rescaled value beside its logit.")
    max_visit_init: float = Field(50.0, ge=0, description="Gumbel: added to the most visits in that weight.")
    virtual_loss: float = Field(1.0, ge=0, description="Losses that a pending leaf counts as, when one tree has many.")

    def search_config(self) -> SearchConfig:
        """Only what concerns the search, of a stage's config that has more."""
        return SearchConfig(**{name: getattr(self, name) for name in SearchConfig.model_fields})


class InitConfig(StageConfig):
    game: str = Field(
        "go:9",
        description="Game spec: go:9, go:9,komi=7, gomoku:15, gomoku:19,capture, connect4, tictactoe; README has all.",
    )
    network_size: str = Field("b2c32", description="Blocks and channels of the network, e.g. b2c32, b4c64, b6c96.")
    new_model: Path = Field(
        Path("saved_models/000000-init"), description="Directory to make. An existing one is never overwritten."
    )
    value_head: str = Field(
        "scalar", pattern="^(scalar|wdl)$", description="What the value is learned as: scalar, or wdl: win, draw, loss."
    )
    seed: int = Field(0, ge=0, description="Seed of the random weights.")


class SelfplayConfig(SearchConfig):
    network: Path = Field(Path("saved_models/best_model"), description="Directory of the model that plays.")
    output_dir: Path = Field(Path("data/selfplay"), description="Where games go, as $MODEL/$WORKER/*.gz with .meta.")
    readouts: int = Field(0, ge=0, description="Simulations per move; 0 plays the raw policy.")
    games: int = Field(1, ge=1, description="Games to play.")
    verbose: int = Field(1, ge=0, description="0 quiet, 1 progress, 2 debug lines, 3 boards.")
    top_up: bool = Field(
        False, description="Play only the games still missing: count those made since the newest model was trained."
    )
    parallel_games: int = Field(256, ge=1, description="Games that share the batches.")
    threads: int = Field(0, ge=0, description="Threads that play; 0 = one per core.")
    worker: str = Field("w00", pattern=r"^[A-Za-z0-9_-]+$", description="Name of this worker's folder.")
    commit_seconds: float = Field(1.0, ge=0, description="Finished games are committed this often; 0 = each its own.")
    temperature_plies: int = Field(16, ge=0, description="Opening plies played with temperature 1; greedy after.")
    random_plies: int = Field(
        0, ge=0, description="Each game begins with up to so many uniformly random moves, which are no policy targets."
    )
    full_search_fraction: float = Field(
        1.0, gt=0, le=1, description="Share of moves searched in full; only those are policy targets (KataGo: 0.25)."
    )
    cheap_readouts: int = Field(0, ge=0, description="Simulations of the other moves, without noise.")
    decided_value: float = Field(
        1.0,
        gt=0,
        le=1,
        description="A game is decided when at two moves of each side in a row the same one was this sure of "
        "winning; it is then played to its end with few readouts and without policy targets (KataGo: 0.9); 1 = never.",
    )
    decided_readouts: int = Field(4, ge=1, description="Simulations of a move in a decided game.")
    resign_threshold: float = Field(
        -1.0, ge=-1, le=0, description="Resign when the mover's value is below this for two of its moves; -1 = never."
    )
    resign_false_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Calibrate the threshold instead: at most this share of resignations would have been wrong in "
        "games that never resign, with 95 % certainty; where no threshold is that sure, nobody resigns; 0 = off.",
    )
    resign_lowest: float = Field(-0.99, ge=-1, le=0, description="The calibrated threshold is at least this ...")
    resign_highest: float = Field(-0.8, ge=-1, le=0, description="... and at most this.")
    no_resign_fraction: float = Field(
        0.1, ge=0, le=1, description="Share of games that never resign and measure false resignations."
    )
    opponents: str = Field(
        "mirror=1",
        description="Whom the model meets, with weights, e.g. 'random=5,previous=30,mirror=65'. mirror: itself; "
        "previous: the champion before; random, heuristic; pool:MODE with MODE uniform, champion, lagged=FROM-TO, "
        "mirror, fixed=NAME, top-k=K, nearest[=ELO], match-quality[=TEMPERATURE] or exploration. An opponent's moves "
        "are recorded, but are no policy targets.",
    )
    pool: Path = Field(Path("data/pool.json"), description="The pool that pool:MODE chooses from.")
    backend: Backend = "auto"
    seed: int | None = Field(None, ge=0, description="Seed of all randomness; fresh randomness if absent.")
    time_share: TimeShare = None


class GatherConfig(StageConfig):
    directory: Path = Field(Path("data/selfplay"), description="Holds $MODEL/$WORKER/*.gz; names sort by age.")
    output_directory: Path = Field(Path("data/training_data"), description="Where chunks go.")
    max_positions: int = Field(2_500_000, ge=1, description="How many of the newest positions form the window.")
    replacement: str = Field(
        "fifo",
        pattern="^(fifo|ring|random)$",
        description="Who leaves a full window: fifo and ring the oldest positions, random any.",
    )
    window_start: int = Field(
        0,
        ge=0,
        description="The window grows from so many positions by a power of all there ever were; 0 = max-positions.",
    )
    window_exponent: float = Field(0.65, gt=0, le=1, description="That power (KataGo: 0.65).")
    window_slope: float = Field(0.4, gt=0, description="How fast it grows at its start (KataGo: 0.4).")
    surprise_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the draws that goes to positions whose search surprised the network (KataGo: 0.5).",
    )
    td_lambda: float = Field(
        1.0,
        ge=0,
        le=1,
        description="What the value learns: this times what it learns of the next position, the rest what the search "
        "said; 1 = the result alone.",
    )
    positions_per_chunk: int = Field(2_048, ge=1, description="Positions in each chunk.")
    chunks_to_make: int = Field(190, ge=1, description="Chunks to make.")
    min_positions: int = Field(0, ge=0, description="Exit 75 (not yet) while the window holds fewer positions.")
    as_many_as_possible: bool = Field(
        False, description="If the window has too few positions for all chunks, make fewer instead of failing."
    )
    holdout_fraction: float = Field(0.05, ge=0, lt=1, description="Share of games kept for a hold-out loss.")
    keep_sets: int = Field(2, ge=1, description="How many sets of chunks to keep, this one included.")
    seed: int = Field(0, ge=0, description="Seed of the sampling.")
    time_share: TimeShare = None


class TrainConfig(StageConfig):
    directory: Path = Field(Path("data/training_data"), description="Chunks; the newest complete set is used.")
    original_model: Path | None = Field(None, description="Model to start from [default: newest in saved_models/].")
    new_model: Path | None = Field(None, description="Model to make [default: next number in saved_models/].")
    network_size: str | None = Field(
        None,
        pattern=r"^b\d{1,4}c\d{1,6}$",
        description="Grow the network to this size first, e.g. b4c64; it goes on saying what it said "
        "[default: the original's].",
        json_schema_extra={"scheduled": True},
    )
    epochs: int = Field(10, ge=1, description="Times that each position of the set is seen.")
    logdir: Path = Field(Path("data/logs"), description="TensorBoard event files.")
    batch_size: int = Field(512, ge=1, description="Samples per step.")
    symmetries: bool = Field(True, description="Show each example turned and mirrored at random, as the game allows.")
    optimizer: str = Field(
        "adam", pattern="^(adam|muon)$", description="adam, or muon: orthogonal steps within blocks, adam elsewhere."
    )
    learning_rate: float = Field(0.002, gt=0, description="The optimiser's peak rate.")
    warmup_steps: int = Field(50, ge=0, description="Steps of linear warm-up from 0.")
    weight_decay: float = Field(1e-4, ge=0, description="L2 by decoupled weight decay, on weights only.")
    value_weight: float = Field(1.0, ge=0, description="Weight of the value loss.")
    ownership_weight: float = Field(0.3, ge=0, description="Weight of the ownership loss.")
    score_weight: float = Field(0.05, ge=0, description="Weight of the score loss.")
    reply_weight: float = Field(0.0, ge=0, description="Weight of predicting the opponent's reply (KataGo: 0.15).")
    soft_policy_weight: float = Field(0.0, ge=0, description="Weight of the softened policy (KataGo: 8).")
    soft_policy_temperature: float = Field(4.0, ge=1, description="How much softer it is.")
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The model gets a moving average of the weights with this decay a step; 0 = the last ones.",
    )
    priority_exponent: float = Field(
        0.0, ge=0, description="alpha: positions are drawn by (error of the value)^alpha (usual: 0.6); 0 = all alike."
    )
    priority_correction: float = Field(0.4, ge=0, le=1, description="beta: how much that is corrected by weights.")
    priority_floor: float = Field(0.001, gt=0, description="epsilon: added to every error.")
    max_samples_per_position: float = Field(
        0.0,
        ge=0,
        description="Never train on more samples than this per position that self-play made (KataGo: 8); 0 = no cap.",
    )
    gradient_clip: float = Field(5.0, gt=0, description="Largest gradient norm.")
    precision: str = Field(
        "auto", pattern="^(auto|float32|bfloat16)$", description="auto = bfloat16 where the processor is fast at it."
    )
    checkpoint_seconds: float = Field(60.0, ge=0, description="How often a resumable checkpoint is written.")
    seed: int = Field(0, ge=0, description="Seed of the order and of the symmetries.")
    time_share: TimeShare = None


class ArenaConfig(SearchConfig):
    """How games between players are played; shared by all commands that play matches."""

    game: str | None = Field(None, description="Game spec, where no player is a model that says it.")
    readouts: int = Field(800, ge=0, description="Simulations per move of every model that says no number of its own.")
    opening_plies: int = Field(
        6, ge=0, description="Each opening: so many plies, some at random, the rest sampled from the policies."
    )
    noise_weight: float = Field(0.0, ge=0, le=1, description="Share of Dirichlet noise in the root prior.")
    engine_seconds: float = Field(60.0, gt=0, description="An external engine that takes longer for a move has failed.")
    parallel_games: int = Field(256, ge=1, description="Games that share the batches.")
    threads: int = Field(0, ge=0, description="Threads that play; 0 = one per core.")
    workers: int = Field(
        0, ge=0, description="Processes that play; 0 = this one. A worker that dies or hangs costs only its games."
    )
    hang_seconds: float = Field(120.0, gt=0, description="A worker that makes no step for so long is replaced.")
    backend: Backend = "auto"
    seed: int = Field(0, ge=0, description="Seed of openings, random players and noise.")


class EvaluateConfig(ArenaConfig):
    black_model: str = Field(
        "saved_models/best_model",
        description="The champion: a model (PATH, PATH@READOUTS, policy:PATH), random, heuristic, gtp:COMMAND; "
        "NAME=PLAYER gives it a name.",
    )
    white_model: str | None = Field(
        None, description="The challenger, likewise [default: newest model not yet evaluated]."
    )
    games: int = Field(400, ge=2, description="Games, half with each colour; an even number.")
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of the points (a draw is half) to win [default: 1/2 + 1/sqrt(games)]; 0 promotes every "
        "challenger without a game.",
    )
    sprt: str | None = Field(
        None,
        description="Decide by a sequential test instead: elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05. "
        "--games is then the most that are played.",
    )
    require: list[str] = Field(
        [], description="A further condition of promotion, e.g. 'random>=0.95'; may be given several times."
    )
    require_games: int = Field(100, ge=2, description="Games of each further condition; an even number.")
    exclude_duplicates: bool = Field(False, description="Of games with the same moves and colours only one counts.")
    output_dir: Path = Field(Path("data/evaluate"), description="Match records, as <challenger>-vs-<champion>/.")
    sgf_output: Path | None = Field(None, description="Game records [default: in the match's folder, sgf/].")
    promote: bool = Field(True, description="Re-point best_model when the challenger passes.")
    pool: Path = Field(Path("data/pool.json"), description="The pool of opponents, which a promoted model joins.")
    ratings: Path = Field(Path("data/ratings.json"), description="Ratings, which say who leaves a full pool.")
    time_share: TimeShare = None


class RatingsConfig(StageConfig):
    directory: list[Path] = Field(
        [Path("data/evaluate"), Path("data/evaluate/required"), Path("data/tournament")],
        description="Folders of matches; may be given several times.",
    )
    method: str = Field(
        "bradley-terry", pattern="^(bradley-terry|elo|trueskill)$", description="bradley-terry, elo or trueskill."
    )
    anchor: str | None = Field(
        None,
        description="NAME or NAME=ELO: this player's Bradley-Terry rating [default: random=0, else the oldest model].",
    )
    output: Path = Field(Path("data/ratings.json"), description="Where the ratings of all three methods are kept.")


class TournamentConfig(ArenaConfig):
    player: list[str] = Field(
        [], description="Who plays, as in evaluate; may be given several times [default: the pool]."
    )
    place: str | None = Field(None, description="Place this player against the others, instead of all against all.")
    against: int = Field(0, ge=0, description="With --place: how many of the others, nearest in rating; 0 = all.")
    games: int = Field(200, ge=2, description="Games between these players in all; those of earlier runs count.")
    until: float = Field(0.0, ge=0, description="Stop when every rating is known to +- so many Elo (95 %); 0 = never.")
    pairs_per_round: int = Field(8, ge=1, description="Pairs of games between two looks at the ratings.")
    schedule: str = Field(
        "uncertainty",
        pattern="^(uncertainty|round-robin)$",
        description="uncertainty: whoever tells most; or round-robin.",
    )
    pool: Path = Field(Path("data/pool.json"), description="The pool of opponents.")
    output_dir: Path = Field(Path("data/tournament"), description="Match records, as <one>-vs-<other>/.")
    background: bool = Field(False, description="Lowest priority and one thread: lets training go on beside it.")


class EngineConfig(SearchConfig):
    protocol: str = Field("gomocup", pattern="^(gomocup)$", description="gomocup (Piskvork): Gomoku.")
    model: Path = Field(Path("saved_models/best_model"), description="Directory of the model that plays.")
    readouts: int = Field(
        800, ge=0, description="Simulations per move at most; fewer where the manager's time limits say so."
    )
    noise_weight: float = Field(0.0, ge=0, le=1, description="Share of Dirichlet noise in the root prior.")
    backend: Backend = "auto"


class BenchConfig(StageConfig):
    what: str = Field(
        "pipeline",
        pattern="^(pipeline|evaluate)$",
        description="pipeline: every stage; evaluate: a match in batches, and one game after another.",
        json_schema_extra={"argument": True},
    )
    game: str = Field("go:9", description="Game spec, e.g. gomoku:15; see init --help.")
    network_size: str = Field("b6c96", description="Blocks and channels of a randomly initialised network.")
    games: int | None = Field(
        None, ge=1, description="Games in parallel [default: 256]; with evaluate, games of the match [default: 400]."
    )
    readouts: int = Field(64, ge=1, description="Simulations per move.")
    preset: str | None = Field(
        None, description="Play and train with this preset's settings, readouts included [default: plain search]."
    )
    seconds: float = Field(10.0, gt=0, description="How long each measurement runs; each is repeated and paired.")


CONFIGS: dict[str, type[StageConfig]] = {
    "init": InitConfig,
    "selfplay": SelfplayConfig,
    "gather": GatherConfig,
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "ratings": RatingsConfig,
    "tournament": TournamentConfig,
}


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
