"""``export``: a copy of a model to give away, with its measured strength and without what only training needs.

Weights of two or more axes become float16, which rounds less than the bfloat16 or int8 that most processors compute
with; biases and norms' statistics stay float32. Reading converts all to float32, so a copy can be used like any model,
for training too. Of an adapted base model only the adapter is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import FileError, UsageError
from pipeline.matches.statistics import rated_games, score_of, wilson_interval
from pipeline.methods.named import method_named
from pipeline.phrases import percent, results, size
from pipeline.progress import SILENT, Progress
from pipeline.run import layout
from pipeline.run.matches import read_match
from pipeline.run.models import Model, read_calibration, read_model, resolve_champion, write_model
from pipeline.train.config import ExportConfig

STRENGTH = "strength"  # in the manifest: a list of Strength


@dataclass(frozen=True)
class Strength:
    """A match of the model. Counts and points are the model's; low and high bound the 95 % interval."""

    opponent: str
    spec: str  # of the opponent
    readouts: int | None  # of the model
    opening_plies: int
    games: int
    wins: int
    draws: int
    losses: int
    points_share: float
    points_share_low: float
    points_share_high: float


@dataclass(frozen=True)
class ExportSummary:
    model: Path
    exported: str  # the original model's name
    game: str
    num_bytes: int
    strength: list[Strength]
    base: str = ""  # an adapter's base model: its folder beside the copy, or its whole path
    others: Sequence[str] = ()  # files that other programs read

    def lines(self) -> list[str]:
        shown = [f"{self.model}: {self.game}, {size(self.num_bytes)}, a copy of {self.exported}"]
        if self.base:
            shown.append(f"its base model {self.base} isn't part of it; give both away together")
        if self.others:
            shown.append(f"for other programs: {', '.join(self.others)}")
        for one in self.strength:
            at = "" if one.readouts is None else f" at {one.readouts} readouts"
            share = f"{percent(one.points_share)} ({100 * one.points_share_low:.0f}–{100 * one.points_share_high:.0f})"
            shown.append(f"against {one.opponent}{at}: {results(one.wins, one.draws, one.losses)}, {share}")
        return shown


def export(config: ExportConfig, progress: Progress = SILENT) -> ExportSummary:
    """Write a copy of the model to config.output.

    Raises UsageError without an output or for a match that the model didn't play, FileError if the output exists, or a
    file or a base model is missing or damaged.
    """
    if config.output is None:
        raise UsageError("export: no output given; wanted the folder to make, e.g. export saved_models/best_model mine")
    model = read_model(resolve_champion(config.model))
    strength = [_strength(model, folder) for folder in config.match]
    manifest = model.info.manifest  # perhaps of a copy: then what is known of the original stays
    original = {"name": model.info.name, "weights": model.info.files[layout.WEIGHTS].sha256}
    weights = {name: _halved(model, name) for name in model.weights}
    method = method_named(model.info.method)
    architecture = method.stored(method.with_absolute_paths(model), config.output.parent)
    info = model.info.model_copy(
        update={
            "architecture": architecture,
            "manifest": {
                **manifest,
                "exported": manifest.get("exported", original),
                STRENGTH: [*manifest.get(STRENGTH, []), *map(asdict, strength)],
                **({"note": config.note} if config.note else {}),
            },
        }
    )
    others = method.files_for_others(model)
    write_model(config.output, info, weights, calibration=read_calibration(model), others=others)
    num_bytes = sum(path.stat().st_size for path in config.output.iterdir())
    return ExportSummary(
        config.output,
        model.info.name,
        model.info.game,
        num_bytes,
        strength,
        str(architecture.get("base", "")),
        sorted(others),
    )


def _halved(model: Model, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    array = model.weights[name]
    if array.ndim < 2:
        return array
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    if not np.isfinite(half).all():
        raise FileError(model.path / layout.WEIGHTS, f"{name} has a weight that 16 bits can't hold; can't export it")
    return half


def _strength(model: Model, folder: Path) -> Strength:
    match = read_match(folder)
    players: Sequence[Any] = match.header.players
    sides = [i for i, one in enumerate(players) if one.weights == model.info.files[layout.WEIGHTS].sha256]
    if not sides or not match.games:
        found = f"players {players[0].name} and {players[1].name}, {len(match.games)} games"
        raise UsageError(f"export --match {folder}: {found}; wanted a match that {model.info.name} played")
    opening_plies = match.header.settings.get("opening_plies")
    if not isinstance(opening_plies, int):
        found = f"its opening_plies are {str(opening_plies)[:40]}"
        raise FileError(folder / layout.MATCH_GAMES, f"damaged: {found}; wanted a number of plies")
    side, score = sides[0], score_of(rated_games(match))
    score = score.reversed if side == 1 else score
    low, high = wilson_interval(score)
    return Strength(
        opponent=players[1 - side].rated_as,
        spec=players[1 - side].spec,
        readouts=players[side].readouts,
        opening_plies=opening_plies,
        games=score.games,
        **asdict(score),
        points_share=score.share,
        points_share_low=low,
        points_share_high=high,
    )
