"""One frozen, validated config per command.

The fields of a config *are* the command's options: name, type, default and help text stand here once. command_line.py
makes the command line from them, presets/ fills them from YAML. Files keep copies of configs (``stored``), so fields
keep their order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pipeline.evaluate.watch_options import WatchOptions
from pipeline.families.text import options as text_options
from pipeline.stage_config import LATER as LATER
from pipeline.stage_config import OF_METHODS as OF_METHODS
from pipeline.stage_config import StageConfig as StageConfig
from pipeline.stage_config import current_names as current_names

NETWORK_BACKENDS = ("auto", "torch", "compile", "openvino", "int8")
BACKENDS = (*NETWORK_BACKENDS, "server", "vllm")  # the last two answer for language models only
Backend = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(BACKENDS)})$",
        description="How the network runs; auto takes the fastest, measured once per machine; openvino excludes int8. "
        "Language models: auto, torch, server (a process of its own answers for all threads) or vllm.",
    ),
]
DEFAULT_WORKER = "w00"
ENGINES = ("local", "ray")

TimeShare = Annotated[
    float | None,
    Field(ge=0, le=1, description="Share of the run's time that has passed, 0 to 1, for schedules by until_share."),
]


ENGINE: Any = Field(
    "local",
    pattern=f"^({'|'.join(ENGINES)})$",
    description="Where games are played: local, on this machine; ray, on all of the Ray cluster that RAY_ADDRESS names "
    "or that runs here; see docs/machines.md.",
    json_schema_extra=LATER,
)


C_PUCT = "Exploration constant of PUCT."
NOISE_WEIGHT = "Share of Dirichlet noise in the root prior."
LCB = (
    "PUCT, at temperature 0: play the move of highest value less this many standard errors, the lower confidence "
    "bound, of those with 15 % of the most visits (KataGo: 5); 0 = the most visited move."
)


class SearchConfig(StageConfig):
    """How a search spends its readouts; shared by self-play and matches."""

    algorithm: str = Field(
        "puct",
        pattern="^(puct|gumbel|mixed)$",
        description="puct; gumbel, which learns from few readouts; or mixed: gumbel for self-play's full searches, and "
        "puct, which keeps its tree from move to move, for cheap searches and matches.",
    )
    c_puct: float = Field(1.5, gt=0, description=C_PUCT)
    fpu_reduction: float = Field(
        0.2,
        ge=0,
        description="An unvisited move's value is its parent's, minus this times sqrt(prior of the visited moves).",
    )
    root_fpu_reduction: float = Field(0.0, ge=0, description="The same at the root.")
    lcb_deviations: float = Field(0.0, ge=0, description=LCB, json_schema_extra=LATER)
    noise_weight: float = Field(0.25, ge=0, le=1, description=NOISE_WEIGHT)
    noise_total: float = Field(
        10.83, gt=0, description="Sum of the Dirichlet parameters, spread evenly over the legal moves."
    )
    noise_shape: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the Dirichlet parameters that favours moves of higher prior (KataGo: 0.5).",
    )
    forced_playouts: float = Field(
        0.0,
        ge=0,
        description="k: a root move that is searched at all gets at least sqrt(k * prior * readouts) readouts; policy "
        "targets leave out the forced ones (KataGo: 2); 0 = off.",
    )
    max_num_considered_actions: int = Field(16, ge=2, description="Gumbel: most root moves that share the readouts.")
    gumbel_scale: float = Field(1.0, ge=0, description="Gumbel: noise in self-play; matches have none.")
    value_scale: float = Field(0.1, gt=0, description="Gumbel: weight of a move's rescaled value, added to its logit.")
    max_visit_init: float = Field(50.0, ge=0, description="Gumbel: added to the largest visit count in that weight.")

    temperature: float = Field(
        0.0,
        ge=0,
        description="td: moves are drawn in proportion to exp(value / temperature); 0 = the best one.",
        json_schema_extra=LATER,
    )
    static_weight: float = Field(
        0.0,
        ge=0,
        description="td, 1 ply: weight of the network's own value in a move's score.",
        json_schema_extra=LATER,
    )
    replies_weight: float = Field(
        1.0, ge=0, description="td, 1 ply: weight of the replies' mean value in it.", json_schema_extra=LATER
    )
    replies_counted: int = Field(
        1,
        ge=1,
        description="td, 1 ply: best replies to each throw in that mean; 1 = expectimax.",
        json_schema_extra=LATER,
    )

    reply_temperature: float = text_options.REPLY_TEMPERATURE

    def search_config(self) -> SearchConfig:
        """Only the fields that concern the search."""
        return SearchConfig(**{name: getattr(self, name) for name in SearchConfig.model_fields})


class PlaySearchConfig(SearchConfig):
    """The same for whoever plays to win, in matches or against people: without noise, and with what plays best in 9x9
    Go (LOG.md). Self-play keeps what its presets were measured with.
    """

    c_puct: float = Field(0.9, gt=0, description=C_PUCT)
    lcb_deviations: float = Field(5.0, ge=0, description=LCB)
    noise_weight: float = Field(0.0, ge=0, le=1, description=NOISE_WEIGHT)


class InitConfig(StageConfig):
    game: str = Field(
        "go:9",
        description="Game spec: go:9, go:9,komi=7, gomoku:15, gomoku:19,capture, connect4, tictactoe; docs/ lists all.",
    )
    network_size: str = Field(
        "b2c32",
        description="Blocks and channels of the network, e.g. b2c32, b4c64, b6c96; td: hidden units, e.g. h80t.",
    )
    new_model: Path = Field(
        Path("saved_models/000000-init"), description="Directory to create; an existing one is never overwritten."
    )
    original_model: Path | None = Field(
        None,
        description="Begin with the weights of this model instead of random ones, e.g. of a smaller board; its method, "
        "size and value head are kept.",
    )
    value_head: str = Field(
        "scalar",
        pattern="^(scalar|wdl|points)$",
        description="How the value is learned: scalar; wdl for win, draw, loss; td: scalar, or points for five chances "
        "of winning and losing 1, 2 or 3 points.",
    )
    method: str = Field(
        "alphazero",
        description="How it learns: alphazero; td, from later positions, for games with dice; reinforce, or a2c with a "
        "critic, for text games; or a method of an installed package.",
    )
    base_model: Path | None = text_options.BASE_MODEL
    prompt_template: str = text_options.PROMPT_TEMPLATE
    reading: str = text_options.READING
    pretraining_steps: int = text_options.PRETRAINING_STEPS
    seed: int = Field(0, ge=0, description="Seed of the random weights.")


class SelfplayConfig(SearchConfig):
    network: Path = Field(Path("saved_models/best_model"), description="Directory of the model that plays.")
    output_dir: Path = Field(Path("data/selfplay"), description="Where games are written: $MODEL/$WORKER/*.gz, .meta.")
    readouts: int = Field(0, ge=0, description="Simulations per move; 0 plays the raw policy.")
    games: int = Field(1, ge=1, description="Games to play.")
    verbose: int = Field(
        1,
        ge=0,
        description="0 warnings and a short summary, 1 progress too, 2 also a line per game and the whole summary, "
        "3 also boards.",
    )
    top_up: bool = Field(
        False, description="Play only the missing games: those played since the newest model was trained count."
    )
    background: bool = Field(
        False,
        description="Play on until stopped, with the settings that hold for each generation, at the lowest priority, "
        "so that other commands can go on. Ends with the process that started it.",
        json_schema_extra=LATER,
    )
    wait: bool = Field(
        False,
        description="Play nothing: wait until another process of this worker has played the missing games.",
        json_schema_extra=LATER,
    )
    parallel_games: int = Field(
        256, ge=1, description="Games that are played at once and share batches; ray: in each actor."
    )
    threads: int = Field(
        0, ge=0, description="Threads that play; 0 = one per core. ray: threads and CPUs of each actor; 0 = 1."
    )
    workers: int = Field(
        0,
        ge=0,
        description="Processes that the threads are divided among; 0 = this one. Python lets one thread of a process "
        "run at a time, so six cores are as many as one keeps busy.",
        json_schema_extra=LATER,
    )
    engine: str = ENGINE
    worker: str = Field(
        DEFAULT_WORKER,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="Name of this worker, and of its folder; with one --seed each plays other games.",
    )
    commit_seconds: float = Field(1.0, ge=0, description="Seconds between commits of finished games; 0 = commit each.")
    value_plies: int = Field(
        0,
        ge=0,
        le=1,
        description="td: 1 records what positions are worth on average over all throws, instead of after the throw "
        "that came: far less noise to learn from, twenty times the work.",
        json_schema_extra=LATER,
    )
    temperature_plies: int = Field(16, ge=0, description="Opening plies played with temperature 1; greedy afterwards.")
    random_plies: int = Field(
        0,
        ge=0,
        description="Each game begins with up to this many uniformly random moves, none of them a policy target.",
    )
    boards: str = Field(
        "",
        description="go:any: sizes of the boards and their shares of the games, e.g. '7=1,9=4,13=2'; empty: its own "
        "board alone.",
        json_schema_extra={**LATER, "scheduled": True},
    )
    komi_spread: float = Field(
        0.0,
        ge=0,
        le=15,
        description="go:any: komi of each game differs from the usual one by chance, with this standard deviation in "
        "points, by 15 at most.",
        json_schema_extra=LATER,
    )
    full_search_fraction: float = Field(
        1.0, gt=0, le=1, description="Share of moves searched in full; only those are policy targets (KataGo: 0.25)."
    )
    cheap_readouts: int = Field(0, ge=0, description="Simulations of the other moves, which have no noise.")
    decided_value: float = Field(
        1.0,
        gt=0,
        le=1,
        description="A game is decided as long as one side has been this sure of winning at the last two moves of "
        "each: then moves get few readouts and are no policy targets (KataGo: 0.9); 1 = never.",
    )
    decided_readouts: int = Field(4, ge=1, description="Simulations per move in a decided game.")
    end_settled: bool = Field(
        False, description="End games in which nothing can change any more (Go: all points are in pass-alive areas)."
    )
    pass_after: float = Field(
        0.0,
        ge=0,
        le=2,
        description="Moves per point of the board before the learner may pass, searching too (Go: 0.75); 0 = no limit.",
    )
    filter_opponent_invalid: bool = text_options.FILTER_OPPONENT_INVALID
    max_lead: int = Field(
        0,
        ge=0,
        description="Play nothing, and exit with 75, while more positions than this were played since the newest model "
        "was trained; 0 = no limit.",
        json_schema_extra=LATER,
    )
    resign_threshold: float = Field(
        -1.0, ge=-1, le=0, description="Resign when the mover's value is below this at two moves in a row; -1 = never."
    )
    resign_false_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Calibrate the threshold on games that never resign: with 95 % confidence, at most this share of "
        "resignations would have been wrong. If no threshold is that safe, nobody resigns. 0 = off.",
    )
    resign_lowest: float = Field(-0.99, ge=-1, le=0, description="Lower bound of the calibrated threshold.")
    resign_highest: float = Field(-0.8, ge=-1, le=0, description="Upper bound of the calibrated threshold.")
    no_resign_fraction: float = Field(
        0.1, ge=0, le=1, description="Share of games that never resign and measure false resignations."
    )
    opponents: str = Field(
        "mirror=1",
        description="The model's opponents and their weights, e.g. 'random=5,previous=30,mirror=65'. mirror: the model "
        "itself; previous: the champion before it; random, heuristic; pool:MODE with MODE uniform, champion, "
        "lagged=FROM-TO, mirror, fixed=NAME, top-k=K, nearest[=ELO], match-quality[=TEMPERATURE], ts-dist[=POINTS] or "
        "exploration. An opponent's moves are recorded, but are no policy targets except in gomoku:…,opponents.",
    )
    pool: Path = Field(Path("data/pool.json"), description="The pool of opponents that pool:MODE chooses from.")
    backend: Backend = "auto"
    seed: int | None = Field(None, ge=0, description="Seed of all randomness [default: a fresh one].")
    time_share: TimeShare = None


class GatherConfig(StageConfig):
    directory: Path = Field(Path("data/selfplay"), description="Holds $MODEL/$WORKER/*.gz; the folders sort by age.")
    output_directory: Path = Field(Path("data/training_data"), description="Where chunks are written.")
    max_positions: int = Field(2_500_000, ge=1, description="How many of the newest positions form the window.")
    replacement: str = Field(
        "fifo",
        pattern="^(fifo|ring|random)$",
        description="Which positions leave a full window: the oldest (fifo, ring), or any (random).",
    )
    window_start: int = Field(
        0,
        ge=0,
        description="The window starts at this many positions and grows by a power of their total; 0 = fixed size.",
    )
    window_exponent: float = Field(0.65, gt=0, le=1, description="That power (KataGo: 0.65).")
    window_slope: float = Field(0.4, gt=0, description="How fast the window grows at first (KataGo: 0.4).")
    surprise_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the samples that goes to positions whose search surprised the network (KataGo: 0.5). "
        "Needs a method that searches.",
        json_schema_extra=OF_METHODS,
    )
    searched_only: bool = Field(
        False,
        description="Sample only positions whose search was a full one, the policy's targets (KataGo does); the others "
        "carried games on. Needs a method that searches.",
        json_schema_extra=LATER | OF_METHODS,
    )
    td_lambda: float = Field(
        1.0,
        ge=0,
        le=1,
        json_schema_extra=OF_METHODS,
        description="The value target is this times the next position's target, plus the rest times the search's own "
        "value; 1 = the game's result alone.",
    )
    discount: float = Field(
        1.0,
        gt=0,
        le=1,
        description="td, reinforce, a2c: gamma, by which a later value or reward counts less.",
        json_schema_extra=LATER | OF_METHODS,
    )
    closeout_reward: float = Field(
        0.0,
        ge=0,
        description="td: points for a player's first close-out in a game (six points made, the opponent on the bar).",
        json_schema_extra=LATER | OF_METHODS,
    )
    prime_reward: float = Field(
        0.0, ge=0, description="td: the same for the first prime of five points.", json_schema_extra=LATER | OF_METHODS
    )
    final_rewards: str = text_options.FINAL_REWARDS
    step_rewards: str = text_options.STEP_REWARDS
    sampling_rewards: str = text_options.SAMPLING_REWARDS
    positions_per_chunk: int = Field(2_048, ge=1, description="Positions in each chunk.")
    chunks_to_make: int = Field(190, ge=1, description="Chunks to make.")
    min_positions: int = Field(0, ge=0, description="Exit with 75 (not yet) while the window holds fewer positions.")
    as_many_as_possible: bool = Field(
        False, description="Make fewer chunks instead of failing if the window has too few positions for all of them."
    )
    holdout_fraction: float = Field(0.05, ge=0, lt=1, description="Share of games held out to measure the loss.")
    keep_sets: int = Field(2, ge=1, description="Sets of chunks to keep, including the new one.")
    seed: int = Field(0, ge=0, description="Seed of the sampling.")
    time_share: TimeShare = None


class TrainConfig(StageConfig):
    directory: Path = Field(Path("data/training_data"), description="Chunks; the newest complete set is used.")
    original_model: Path | None = Field(None, description="Model to start from [default: newest beside --new-model].")
    new_model: Path | None = Field(None, description="Model to create [default: the next number in saved_models/].")
    network_size: str | None = Field(
        None,
        pattern=r"^b\d{1,4}c\d{1,6}$",
        description="Grow the network to this size first, e.g. b4c64, without changing its outputs "
        "[default: the original's size].",
        json_schema_extra={"scheduled": True},
    )
    epochs: int = Field(10, ge=1, description="Passes over the set of chunks.")
    logdir: Path = Field(Path("data/logs"), description="Where TensorBoard event files are written.")
    batch_size: int = Field(512, ge=1, description="Samples per step.")
    symmetries: bool = Field(True, description="Turn and mirror each example at random, as far as the game allows.")
    optimizer: str = Field(
        "adam", pattern="^(adam|muon)$", description="adam; or muon: orthogonal steps in the blocks, adam elsewhere."
    )
    learning_rate: float = Field(0.002, gt=0, description="The optimiser's peak learning rate.")
    warmup_steps: int = Field(50, ge=0, description="Steps in which the rate rises linearly from 0.")
    weight_decay: float = Field(1e-4, ge=0, description="Decoupled weight decay (L2), on weights only.")
    value_weight: float = Field(1.0, ge=0, description="Weight of the value loss.")
    ownership_weight: float = Field(0.3, ge=0, description="Weight of the ownership loss.")
    score_weight: float = Field(0.05, ge=0, description="Weight of the score loss.")
    reply_weight: float = Field(0.0, ge=0, description="Weight of the loss for the opponent's reply (KataGo: 0.15).")
    soft_policy_weight: float = Field(0.0, ge=0, description="Weight of the loss for the softened policy (KataGo: 8).")
    soft_policy_temperature: float = Field(4.0, ge=1, description="Temperature of the softened policy.")
    kl_weight: float = text_options.KL_WEIGHT
    entropy_weight: float = text_options.ENTROPY_WEIGHT
    activation_checkpointing: bool = text_options.ACTIVATION_CHECKPOINTING
    micro_batch: int = text_options.MICRO_BATCH
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The model is a moving average of the weights with this decay per step; 0 = the last weights.",
    )
    priority_exponent: float = Field(
        0.0,
        ge=0,
        description="alpha: sample positions in proportion to (value error)^alpha (usual: 0.6); 0 = uniformly.",
    )
    priority_correction: float = Field(0.4, ge=0, le=1, description="beta: how far weights correct for that, 0 to 1.")
    priority_floor: float = Field(0.001, gt=0, description="epsilon: added to every value error.")
    max_samples_per_position: float = Field(
        0.0,
        ge=0,
        description="Train on at most this many samples per position that self-play made (KataGo: 8); 0 = no cap.",
    )
    gradient_clip: float = Field(5.0, gt=0, description="Largest norm of a gradient; longer ones are scaled down.")
    precision: str = Field(
        "auto",
        pattern="^(auto|float32|bfloat16)$",
        description="auto: bfloat16 where the processor is fast at it, else float32.",
    )
    checkpoint_seconds: float = Field(60.0, ge=0, description="Seconds between checkpoints to resume from.")
    seed: int = Field(0, ge=0, description="Seed of the order of examples and of their symmetries.")
    time_share: TimeShare = None


class ArenaConfig(PlaySearchConfig):
    """How games between players are played; shared by the commands that play matches."""

    game: str | None = Field(None, description="Game spec, needed if no player is a model.")
    readouts: int = Field(800, ge=0, description="Simulations per move of each model given without @READOUTS.")
    opening_plies: int = Field(
        6,
        ge=0,
        description="Plies of each opening; some are random, the others sampled from the players' policies. Games with "
        "dice have no openings unless this is given.",
    )
    openings: Path | None = Field(
        None,
        description="Take openings from this file instead, e.g. benchmarks/openings/go9.json: those that models sample "
        "favour models over engines. Each --seed begins 50 openings further on.",
    )
    engine_seconds: float = Field(60.0, gt=0, description="An engine that thinks longer than this has failed.")
    parallel_games: int = Field(256, ge=1, description="Games that are played at once and share batches.")
    threads: int = Field(
        0, ge=0, description="Threads that play; 0 = one per core. ray: threads and CPUs of each actor; 0 = 1."
    )
    engine: str = ENGINE
    workers: int = Field(
        0, ge=0, description="Processes that play; 0 = this one. A worker that dies or hangs loses only its own games."
    )
    hang_seconds: float = Field(120.0, gt=0, description="A worker that makes no progress for this long is replaced.")
    backend: Backend = "auto"
    seed: int = Field(0, ge=0, description="Seed of openings, random players and noise.")
    allow_engines: bool = Field(
        False, description="Run engines (gtp:COMMAND …) that files name: members of a pool, settings of a preset."
    )


class EvaluateConfig(WatchOptions, ArenaConfig):
    black_model: str = Field(
        "saved_models/best_model",
        description="The champion: a model (PATH, PATH@READOUTS, policy:PATH) or another player of the list above; "
        "handicap:N:PLAYER takes N handicap stones; NAME=PLAYER gives it a name.",
    )
    white_model: str | None = Field(
        None, description="The challenger, written likewise [default: the newest model not yet evaluated]."
    )
    games: int = Field(400, ge=2, description="Games to play, half with each colour; an even number.")
    threshold: float | None = Field(
        None,
        ge=-3,
        le=1,
        description="Share of the points that promotes, a draw counting half [default: 1/2 + 1/sqrt(games)]; 0 "
        "promotes every challenger without a game. Of games that count more than 1: points per game over whole pairs "
        "[default: two standard errors above 0]; -3 promotes every challenger after a pair. A match with an engine is "
        "played to its end all the same.",
    )
    sprt: str | None = Field(
        None,
        description="Decide by a sequential test instead: elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05. "
        "--games is then the largest number of games.",
    )
    require: list[str] = Field(
        [], description="A further condition of promotion, e.g. 'random>=0.95'; may be given several times."
    )
    require_games: int = Field(100, ge=2, description="Games to play for each further condition; an even number.")
    exclude_duplicates: bool = Field(False, description="Of games with the same moves and colours count only one.")
    output_dir: Path = Field(Path("data/evaluate"), description="Holds the matches, <challenger>-vs-<champion>/.")
    sgf_output: Path | None = Field(None, description="Folder for SGF records [default: the match's folder, sgf/].")
    promote: bool = Field(True, description="Re-point best_model when the challenger passes.")
    pool: Path = Field(Path("data/pool.json"), description="The pool of opponents, which a promoted model joins.")
    ratings: Path = Field(Path("data/ratings.json"), description="The ratings, which decide who leaves a full pool.")
    time_share: TimeShare = None


class RatingsConfig(StageConfig):
    directory: list[Path] = Field(
        [Path("data") / name for name in ("evaluate", "evaluate/required", "evaluate/watch", "tournament")],
        description="Folder of matches; may be given several times.",
    )
    method: str = Field(
        "bradley-terry", pattern="^(bradley-terry|elo|trueskill)$", description="bradley-terry, elo or trueskill."
    )
    anchor: str | None = Field(
        None,
        description="NAME or NAME=ELO: fixes a player's Bradley-Terry rating [default: random=0, else the oldest "
        "model].",
    )
    output: Path = Field(Path("data/ratings.json"), description="Where the ratings by all three methods are written.")


class TournamentConfig(ArenaConfig):
    player: list[str] = Field(
        [], description="A player, written as for evaluate; may be given several times [default: the pool]."
    )
    place: str | None = Field(None, description="Play this player against the others, instead of all against all.")
    against: int = Field(0, ge=0, description="With --place: only this many others, nearest in rating; 0 = all.")
    games: int = Field(200, ge=2, description="Games between these players in total; those of earlier runs count.")
    until: float = Field(
        0.0, ge=0, description="Stop once every rating is known to +- this many Elo (95 %); 0 = never."
    )
    pairs_per_round: int = Field(8, ge=1, description="Pairs of games between two updates of the ratings.")
    schedule: str = Field(
        "uncertainty",
        pattern="^(uncertainty|round-robin)$",
        description="Who plays next: uncertainty, the players who tell most about the ratings; or round-robin.",
    )
    pool: Path = Field(Path("data/pool.json"), description="The pool of opponents.")
    output_dir: Path = Field(Path("data/tournament"), description="Holds the matches, <one>-vs-<other>/.")
    background: bool = Field(False, description="Lowest priority and one thread, so that training can go on.")


class EngineConfig(PlaySearchConfig):
    protocol: str | None = Field(
        None,
        description="The manager's, by its name in the list above [default: the usual one of the model's game].",
    )
    model: Path = Field(Path("saved_models/best_model"), description="Directory of the model that plays.")
    game: str | None = Field(
        None, description="Of a model of go:any: the board and komi to begin with, e.g. go:19 [default: 9x9]."
    )
    readouts: int = Field(
        800, ge=0, description="Most simulations per move; fewer where the manager's time limits demand it."
    )
    resign_threshold: float = Field(
        -1.0, ge=-1, lt=0, description="Resign at values this low, two moves in a row, if the protocol can; -1 = never."
    )
    ponder: bool = Field(False, description="Search on while the opponent thinks, unless the protocol says when to.")
    backend: Backend = "auto"


class PlayConfig(StageConfig):
    model: str = Field(
        "saved_models/best_model", description="Who plays: a model's directory, heuristic, random or gnubg:PLIES."
    )
    readouts: int = Field(400, ge=0, description="A model's simulations per move.")
    colour: str = Field("b", pattern="^(b|w)$", description="Yours: b moves first, w second.")
    game: str | None = Field(
        None, description="Against heuristic and random: the game spec [default: go:9]; a model plays its own."
    )
    seed: int | None = Field(
        None, ge=0, description="Fixes what random and heuristic choose among equals [default: another every time]."
    )
    backend: Backend = "auto"


MOST_SERVED_READOUTS = 10_000  # of one search of the board page


class ServeConfig(StageConfig):
    port: int = Field(8000, ge=0, le=65535, description="Port of this machine to listen at; 0 = any that is free.")
    model: list[Path] = Field(
        [],
        description="Directory of a model to play against; may be given several times "
        "[default: saved_models/best_model if there is one].",
    )
    readouts: int = Field(
        400,
        ge=0,
        le=MOST_SERVED_READOUTS,
        description="Simulations per move of a model, unless the page chooses another number.",
    )
    browser: bool = Field(True, description="Open the page in a browser.")
    backend: Backend = "auto"


class BenchConfig(StageConfig):
    what: str = Field(
        "pipeline",
        pattern="^(pipeline|evaluate)$",
        description="pipeline: every command; evaluate: a match in batches, and one game after another.",
        json_schema_extra={"argument": True},
    )
    game: str = Field("go:9", description="Game spec, e.g. gomoku:15; see init --help.")
    network_size: str = Field("b6c96", description="Blocks and channels of the network, which has random weights.")
    model: Path | None = Field(
        None,
        description="Measure with this model, its game and games of its own, instead of --network-size and --game.",
    )
    games: int | None = Field(
        None, ge=1, description="Games in parallel [default: 256]; with evaluate, games of the match [default: 400]."
    )
    readouts: int | None = Field(None, ge=1, description="Simulations per move [default: the preset's, else 64].")
    preset: str | None = Field(None, description="Play and train with this preset's settings [default: plain search].")
    boards: str | None = Field(
        None, description="go:any: self-play on these, see selfplay --boards [default: the preset's at its start]."
    )
    seconds: float = Field(10.0, gt=0, description="Seconds per measurement; each is repeated and paired.")


class ExportConfig(StageConfig):
    model: Path = Field(
        Path("saved_models/best_model"), description="The model to copy.", json_schema_extra={"argument": True}
    )
    output: Path | None = Field(
        None, description="The directory to make; never an existing one.", json_schema_extra={"argument": True}
    )
    match: list[Path] = Field(
        [], description="Folder of a match that it played, whose result the copy names; may be given several times."
    )
    note: str = Field("", description="A sentence that the copy says about itself, e.g. what else was measured.")


class StatusConfig(StageConfig):
    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    watch: bool = Field(False, description="Renew the screen until Ctrl-C.")
    seconds: float = Field(5.0, ge=0.5, description="With --watch: seconds between two screens.")
    prometheus: bool = Field(False, description="Print metrics in the text format of Prometheus.")


class ReportConfig(StageConfig):
    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    output: Path = Field(
        Path("report.html"), description="The page to write; replaced if it is there.", json_schema_extra={"short": "o"}
    )


class VerifyConfig(StageConfig):
    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    repair: bool = Field(
        False,
        description="Remove what killed processes left behind, and nothing that counts: temporary files, checkpoints "
        "of finished trainings, shards a day old that were never committed, unreadable ratings.",
    )
    newest: int | None = Field(
        None,
        ge=1,
        description="Check no more games than have this many positions, the newest, and the models and matches of "
        "their generations: as long as a window stays the same, so does what it takes [default: all].",
    )


class CompactConfig(StageConfig):
    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )


class PruneConfig(StageConfig):
    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    apply: bool = Field(False, description="Remove it; without this nothing is removed, only listed.")
    keep_positions: int | None = Field(
        None,
        ge=0,
        description="Newest positions of self-play that stay [default: as many as the largest window of any set of "
        "chunks here or of the newest models may hold, and at least as many as gather's].",
    )


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
