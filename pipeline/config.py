"""One frozen, validated config per stage, and the presets that fill them.

A config's fields *are* the command's options: name, type, default and help text stand here once, and main.py
makes the command line from them. What counts, first to last: an option on the command line, the preset's
line, the default below. A preset is a YAML file in ``pipeline/presets``: a section per stage, a line per field.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import UsageError
from pipeline.schedules import START, Moment, parse_schedule

PRESET_FOLDER = Path(__file__).parent / "presets"
NUMBERS = (int, float, int | None, float | None)  # types of the settings that can follow a schedule

# What a field wants, by the first word of pydantic's error type, by its bounds, by its pattern.
KINDS = {"int": "a whole number", "finite": "a whole number", "float": "a number", "bool": "yes or no",
         "string": "a text", "path": "a path", "list": "a list"}  # fmt: skip
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
PATTERNS = {r"^[A-Za-z0-9_-]+$": "letters, digits, - and _ only"}


class StageConfig(BaseModel):
    """Base of every stage's config: frozen, unknown fields refused, defaults validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, protected_namespaces=())


C = TypeVar("C", bound=StageConfig)


class SearchConfig(StageConfig):
    """What a search does with its readouts; shared by self-play and evaluation."""

    algorithm: str = Field(
        "puct", pattern="^(puct|gumbel)$", description="puct, or gumbel: better with few readouts (16 or less)."
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
    considered: int = Field(16, ge=2, description="Gumbel: root moves that share the readouts.")
    gumbel_scale: float = Field(1.0, ge=0, description="Gumbel: noise in self-play; matches have none.")
    value_scale: float = Field(0.1, gt=0, description="Gumbel: weight of a move's rescaled value beside its logit.")
    max_visit_init: float = Field(50.0, ge=0, description="Gumbel: added to the most visits in that weight.")
    virtual_loss: float = Field(1.0, ge=0, description="Losses that a pending leaf counts as, when one tree has many.")

    def search_config(self) -> SearchConfig:
        """Only what concerns the search, of a stage's config that has more."""
        return SearchConfig(**{name: getattr(self, name) for name in SearchConfig.model_fields})


class InitConfig(StageConfig):
    game: str = Field("go:9", description="Game spec, e.g. go:9, go:9,komi=7, connect4, tictactoe.")
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
    full_share: float = Field(
        1.0, gt=0, le=1, description="Share of moves searched in full; only those are policy targets (KataGo: 0.25)."
    )
    cheap_readouts: int = Field(0, ge=0, description="Simulations of the other moves, without noise.")
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
    no_resign_share: float = Field(
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
    evaluation_cache: int = Field(
        0, ge=0, description="Positions whose evaluation each thread remembers: pays in connect four, not in Go."
    )
    backend: str = Field(
        "auto", pattern="^(auto|torch|compile|openvino)$", description="Inference; auto measures once per machine."
    )
    seed: int | None = Field(None, ge=0, description="Seed of all randomness; fresh randomness if absent.")


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
    positions_per_chunk: int = Field(2_048, ge=1, description="Positions in each chunk.")
    chunks_to_make: int = Field(190, ge=1, description="Chunks to make.")
    min_positions: int = Field(0, ge=0, description="Exit 75 (not yet) while the window holds fewer positions.")
    as_many_as_possible: bool = Field(
        False, description="If the window has too few positions for all chunks, make fewer instead of failing."
    )
    holdout_share: float = Field(0.05, ge=0, lt=1, description="Share of games kept for a hold-out loss.")
    keep_sets: int = Field(2, ge=1, description="How many sets of chunks to keep, this one included.")
    seed: int = Field(0, ge=0, description="Seed of the sampling.")


class TrainConfig(StageConfig):
    directory: Path = Field(Path("data/training_data"), description="Chunks; the newest complete set is used.")
    original_model: Path | None = Field(None, description="Model to start from [default: newest in saved_models/].")
    new_model: Path | None = Field(None, description="Model to make [default: next number in saved_models/].")
    epochs: int = Field(10, ge=1, description="Times that each position of the set is seen.")
    logdir: Path = Field(Path("data/logs"), description="TensorBoard event files.")
    batch_size: int = Field(512, ge=1, description="Samples per step.")
    learning_rate: float = Field(0.002, gt=0, description="Adam's peak rate.")
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
    backend: str = Field(
        "auto", pattern="^(auto|torch|compile|openvino)$", description="Inference; auto measures once per machine."
    )
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
        None, gt=0, le=1, description="Share of the points (a draw is half) to win [default: 1/2 + 1/sqrt(games)]."
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


class BenchConfig(StageConfig):
    what: str = Field(
        "pipeline",
        pattern="^(pipeline|evaluate)$",
        description="pipeline: every stage; evaluate: a match in batches, and one game after another.",
        json_schema_extra={"argument": True},
    )
    game: str = Field("go:9", description="Game spec.")
    network_size: str = Field("b6c96", description="Blocks and channels of a randomly initialised network.")
    games: int | None = Field(
        None, ge=1, description="Games in parallel [default: 256]; with evaluate, games of the match [default: 400]."
    )
    readouts: int = Field(64, ge=1, description="Simulations per move.")
    recipe: str | None = Field(
        None, description="Play and train with the settings of this preset, readouts included [default: plain search]."
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


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESET_FOLDER.glob("*.yaml"))


def preset_path(name: str) -> Path:
    """Where a preset is, if there is one: one of ours by name, any other by its path."""
    return Path(name) if name.endswith((".yaml", ".yml")) else PRESET_FOLDER / f"{name}.yaml"


def read_preset(name: str) -> dict[str, dict[str, Any]]:
    """The sections of a preset: one of ours by name, or a path to a YAML file.

    Raises UsageError if there is none, it isn't YAML, or a section or line is unknown.
    """
    path = preset_path(name)
    if not path.is_file():
        raise UsageError(
            f"preset {name!r}: no such preset; known: {', '.join(preset_names())}; or give a path to a .yaml file"
        )
    try:
        sections = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"preset {path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(sections, dict) or not all(isinstance(lines, dict) for lines in sections.values()):
        raise UsageError(f"preset {path}: wanted sections {', '.join(CONFIGS)}, each with lines 'name: value'")
    for stage, lines in sections.items():
        if stage not in CONFIGS:
            raise UsageError(f"preset {path}: unknown section {stage!r}; wanted one of {', '.join(CONFIGS)}")
        known = CONFIGS[stage].model_fields
        for field in lines:
            if field not in known:
                raise UsageError(f"preset {path}, {stage}: unknown line {field!r}; known: {', '.join(known)}")
            if isinstance(lines[field], list):
                _check_list(CONFIGS[stage], field, lines[field], f"preset {path}, {stage}, {field}")
    return sections


def _check_list(kind: type[StageConfig], field: str, found: list[Any], where: str) -> None:
    """Raises UsageError unless a line's list is a schedule of good numbers, or the setting is a list itself.

    All entries are checked at once: a value that nobody can use must not wait for its generation to be found.
    """
    if field in scheduled_lines(kind, {field: found}):
        for value in parse_schedule(found, where).values:
            if value is None or isinstance(value, bool):
                raise UsageError(f"{where}: found the value {value!r}; wanted a number")
            try:
                kind(**{field: value})
            except ValidationError as error:
                raise UsageError(f"{where}: {_problem(kind, error.errors()[0])}") from error
    elif not isinstance(kind.model_fields[field].default, list):
        raise UsageError(f"{where}: found a list; wanted one value: only numbers can follow a schedule")


def scheduled_lines(kind: type[StageConfig], lines: Mapping[str, Any]) -> list[str]:
    """Which of a section's lines follow a schedule: numbers that are given as lists."""

    lists = [field for field, value in lines.items() if isinstance(value, list)]
    return [field for field in lists if kind.model_fields[field].annotation in NUMBERS]


def lines_at(kind: type[StageConfig], lines: Mapping[str, Any], moment: Moment) -> dict[str, Any]:
    """A section's lines with what counts at a moment instead of schedules."""
    numbers = {field: parse_schedule(lines[field], field).at(moment) for field in scheduled_lines(kind, lines)}
    return {**lines, **numbers}


def make_config(
    kind: type[C],
    stage: str,
    preset: str | None = None,
    moment_of: Callable[[StageConfig], Moment] = lambda _: START,
    **options: Any,
) -> C:
    """The config of one stage from a preset's section and the options given (None = not given).

    moment_of: when it is, of a config whose schedules all stand at their start; asked only if there are any.
    Raises UsageError that names the option, what was found and what was wanted.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lines = {**(read_preset(preset).get(stage, {}) if preset else {}), **given}
    config = _validated(kind, stage, preset, lines_at(kind, lines, START), given)
    if scheduled_lines(kind, lines):
        config = _validated(kind, stage, preset, lines_at(kind, lines, moment_of(config)), given)
    return config


def _validated(kind: type[C], stage: str, preset: str | None, values: dict[str, Any], options: dict[str, Any]) -> C:
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else stage
        where = f" (preset {preset})" if preset and str(first["loc"][0]) not in options else ""
        raise UsageError(f"{stage} {option}{where}: {_problem(kind, first)}") from error


def _problem(kind: type[StageConfig], error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in our words: what was found and what the field wants."""
    field = kind.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    facts = field.metadata if field is not None else []
    bounds = [
        f"{text} {getattr(fact, name):g}" for fact in facts for name, text in BOUNDS.items() if hasattr(fact, name)
    ]
    wanted = ", ".join(filter(None, [KINDS.get(error["type"].partition("_")[0]), " and ".join(bounds)]))
    for pattern in (fact.pattern for fact in facts if hasattr(fact, "pattern")):
        choices = re.fullmatch(r"\^\((.+)\)\$", pattern)
        wanted = f"one of {choices[1].replace('|', ', ')}" if choices else PATTERNS[pattern]
    return f"found {error['input']!r}; wanted {wanted or error['msg']}"
