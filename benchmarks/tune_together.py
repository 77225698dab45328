"""Which settings of a search matter, all asked at once: a model meets itself, both sides with settings drawn at random.

    python -m benchmarks.tune_together DATA --readouts 50 --matches 20 c_puct=0.5..3 fpu_reduction=0..0.6 \\
        algorithm=puct,gumbel

A factor is a setting with a range (LOW..HIGH, drawn evenly, or evenly by logarithm if LOW is above 0) or with a list of
values, the default among them. In every match each side draws all of them anew (a Sobol sequence), so each game says
something about every factor, where `benchmarks.tune` has to play a match for each. The price: it's assumed that what
settings are worth adds up. So play what looks best again, with `benchmarks.tune` and another --seed.

DATA gets a line of JSON per match; a rerun goes on, and all matches there with these readouts count. They must be of
one model in one game, and what they drew for a factor must be among its values now. The output is what each value is
worth against the default in Elo, all else equal, with 95 % intervals. A range has a parabola, a value of a list a
number of its own; they are fitted by logistic regression over games that count as independent.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from scipy.stats import qmc

from benchmarks.strength import HelpFormatter, ending
from benchmarks.tune import ROWS, changed, meet
from pipeline.bench.match import OPENING_PLIES, SEARCH
from pipeline.errors import FileError, UsageError
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.matches.statistics import Z_95
from pipeline.players.loading import load_evaluators
from pipeline.progress import Progress
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run import atomic, layout
from pipeline.run.models import read_model, resolve_champion

Settings = dict[str, Any]  # a value by factor
Matrix = NDArray[np.float64]
WANTED = "a match as a line of JSON, written by benchmarks.tune_together"
SHOWN = 6  # values of a range
ELO = 400 / math.log(10)  # of a logit
WIDE = 1000.0  # Elo: the standard deviation that is believed of a term beforehand, so that every fit has a solution


@dataclass(frozen=True)
class Factor:
    """A setting and the values it may take: all from values[0] to values[1] if is_range, else these."""

    name: str
    values: tuple[Any, ...]
    is_range: bool
    default: Any

    @property
    def by_logarithm(self) -> bool:
        return self.is_range and self.values[0] > 0

    def draw(self, u: float) -> Any:
        """The value at u in [0, 1)."""
        if not self.is_range:
            return self.values[int(u * len(self.values))]
        low, high = self.values
        value = low * (high / low) ** u if self.by_logarithm else low + u * (high - low)
        return round(value) if type(self.default) is int else float(f"{value:.3g}")

    def takes(self, value: Any) -> bool:
        """Whether terms() knows a value. A range's are on a parabola, which goes on beyond its ends."""
        if not self.is_range:
            return value in self.values
        return isinstance(value, int | float) and (value > 0 or not self.by_logarithm)

    def terms(self, value: Any) -> list[float]:
        """What stands for a value that it takes in the fit; 0 for the default."""
        if not self.is_range:
            return [float(value == one) - float(self.default == one) for one in self.values[1:]]
        distance = self._place(value) - self._place(self.default)
        return [distance, distance * distance]

    def _place(self, value: float) -> float:
        """Where in the range: 0 at its low end, 1 at its high one."""
        low, high = self.values
        if self.by_logarithm:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def factor(text: str) -> Factor:
    """Of NAME=LOW..HIGH, or NAME=VALUE,VALUE… with the default among the values. Raises UsageError."""
    name, _, values = text.partition("=")
    low, dots, high = values.partition("..")
    try:
        span = (float(low), float(high)) if dots else tuple(yaml.safe_load(one) for one in values.split(","))
    except (ValueError, yaml.YAMLError):
        span = ()
    if len(span) < 2 or (dots and not span[0] < span[1]):
        raise UsageError(f"{text!r}: wanted NAME=LOW..HIGH or NAME=VALUE,VALUE…")
    for value in span:
        changed(SEARCH, f"{name}={json.dumps(value)}")
    found = Factor(name, span, bool(dots), getattr(SEARCH, name))
    if found.by_logarithm and found.default <= 0:
        raise UsageError(f"{text!r}: the default is {found.default}; wanted a range from 0")
    if not dots and found.default not in span:
        raise UsageError(f"{text!r}: wanted the default, {found.default}, among the values: they are compared with it")
    return found


def draw_both(factors: Sequence[Factor], number: int, seed: int) -> tuple[Settings, Settings]:
    """The settings of both sides in a match of this number."""
    sequence = qmc.Sobol(2 * len(factors), seed=seed)
    if number:
        sequence.fast_forward(number)
    places = sequence.random(1)[0].reshape(2, len(factors)).tolist()
    one, other = ({f.name: f.draw(u) for f, u in zip(factors, side, strict=True)} for side in places)
    return one, other


class Played(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A match: a line of DATA."""

    one: Settings
    other: Settings
    half_points: int = Field(ge=0, description="Of `one`.")
    games: int = Field(ge=2)
    readouts: int = Field(ge=0)
    model: str | None = Field(None, description="Its name and its weights' checksum; earlier versions didn't say.")
    game: str | None = Field(None, description="Its spec; earlier versions didn't say.")


@dataclass(frozen=True)
class Fit:
    """Logits of all terms, and their covariance."""

    factors: tuple[Factor, ...]
    logits: Matrix
    covariance: Matrix

    def elo(self, settings: Settings) -> tuple[float, float]:
        """(against the default, half of the 95 % interval)."""
        terms = _terms(self.factors, settings)
        return ELO * float(terms @ self.logits), ELO * Z_95 * math.sqrt(terms @ self.covariance @ terms)


def fit(factors: Sequence[Factor], matches: Sequence[tuple[Settings, Settings, int, int]]) -> Fit:
    """matches: the settings of both sides, half points of the first, games. A factor that a match doesn't name had its
    default there."""
    rows = np.array([_terms(factors, one) - _terms(factors, other) for one, other, _, _ in matches])
    games = np.array([number for _, _, _, number in matches], np.float64)
    points = np.array([half_points for _, _, half_points, _ in matches]) / 2
    believed = np.eye(rows.shape[1]) / (WIDE / ELO) ** 2
    logits = np.zeros(rows.shape[1])
    for _ in range(20):  # Newton's steps; the likelihood is concave
        expected = 1 / (1 + np.exp(-rows @ logits))
        curvature = rows.T @ ((games * expected * (1 - expected))[:, None] * rows) + believed
        logits = logits + np.linalg.solve(curvature, rows.T @ (points - games * expected) - believed @ logits)
    return Fit(tuple(factors), logits, np.linalg.inv(curvature))


def _terms(factors: Sequence[Factor], settings: Settings) -> Matrix:
    return np.array([term for one in factors for term in one.terms(settings.get(one.name, one.default))])


def lines(found: Fit) -> list[str]:
    """A line per factor: what its values are worth."""
    said = []
    for one in found.factors:
        shown = [one.draw(i / (SHOWN - 1)) for i in range(SHOWN)] if one.is_range else list(one.values)
        worth = [(value, *found.elo({one.name: value})) for value in shown]
        figures = ", ".join(f"{value}: {elo:+.0f} ± {error:.0f}" for value, elo, error in worth)
        said.append(f"{one.name} (default {one.default}): {figures}")
    return said


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tune_together", description=__doc__, formatter_class=HelpFormatter
    )
    parser.add_argument("data", type=Path, help="file of matches, made or added to")
    parser.add_argument("factors", nargs="+", metavar="NAME=LOW..HIGH|NAME=VALUE,VALUE…", help="what is varied")
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"), help="who plays")
    parser.add_argument("--matches", type=int, default=10, help="to play now; 0 only reads DATA")
    parser.add_argument("--games", type=int, default=160, help="of each match")
    parser.add_argument("--readouts", type=int, default=200, help="simulations per move")
    parser.add_argument("--resign", type=float, help="a value of --resign of benchmarks.tune")
    parser.add_argument("--seed", type=int, default=0, help="of settings and openings")
    options = parser.parse_args(arguments)
    if options.games < 2 or options.games % 2 or options.matches < 0:
        parser.error(f"--games {options.games} --matches {options.matches}: wanted an even number, and at least 0")
    with ending(parser):
        factors = [factor(text) for text in options.factors]
        if options.matches:
            atomic.make_folder(options.data.parent)
            with atomic.file_lock(options.data, wait=False), ConsoleProgress() as progress:
                play(options, factors, progress)
        matches = counting(options.data, options.readouts, factors)
    games = sum(match.games for match in matches)
    print(f"{len(matches)} matches, {games} games of {options.readouts} readouts a move; Elo against the default:")
    if matches:
        rows = [(match.one, match.other, match.half_points, match.games) for match in matches]
        print("\n".join(lines(fit(factors, rows))))


def play(options: argparse.Namespace, factors: Sequence[Factor], progress: Progress) -> None:
    """Play so many matches more, and add each to the file. Call it under the file's lock."""
    model = read_model(resolve_champion(options.model))
    game = parse_game(model.info.game)
    who = {"model": f"{model.info.name} {model.info.files[layout.WEIGHTS].sha256}", "game": game.spec}
    before = len(counting(options.data, options.readouts, factors, **who))
    drop_torn_line(options.data)
    evaluators = load_evaluators(model, ROWS, available_cores(), "auto", progress)
    for number in range(before, before + options.matches):
        both = draw_both(factors, number, options.seed)
        one, other = (SEARCH.model_copy(update=settings) for settings in both)
        terms = (options.games, options.readouts, progress, OPENING_PLIES, options.seed + number)
        score = meet(game, [evaluators, evaluators], (one, other), *terms, resign=options.resign)
        line = {"one": both[0], "other": both[1], "half_points": score.half_points, "games": score.games}
        atomic.append_line(options.data, json.dumps({**line, "readouts": options.readouts, **who}))


def counting(
    data: Path, readouts: int, factors: Sequence[Factor], model: str | None = None, game: str | None = None
) -> list[Played]:
    """The matches of the file with these readouts. Raises UsageError unless they and who plays now go together."""
    matches = [match for match in read(data) if match.readouts == readouts]
    players = {(match.model, match.game) for match in matches} | {(model, game)}
    players.discard((None, None))  # of an earlier version's lines, and of nobody who plays now
    if len(players) > 1:
        found = ", ".join(sorted(f"{str(model).partition(' ')[0]} in {game}" for model, game in players))
        raise UsageError(f"{data}: matches of one model in one game count together, not of {found}; use another file")
    for one in factors:
        drawn = [side[one.name] for match in matches for side in (match.one, match.other) if one.name in side]
        unknown = [value for value in drawn if not one.takes(value)]
        if unknown:
            raise UsageError(f"{data}: matches with {one.name}={unknown[0]}; name that value, too, or use another file")
    return matches


def read(data: Path) -> list[Played]:
    """All matches of the file, none if it isn't there, without a last line that was cut off. Raises FileError."""
    matches: list[Played] = []
    texts = atomic.read_bytes(data, WANTED).splitlines(keepends=True) if data.exists() else []
    for number, text in enumerate(texts, start=1):
        try:
            matches.append(Played.model_validate(atomic.load_json(text)))
        except ValueError as error:
            if not text.endswith(b"\n"):
                break
            problem = atomic.first_problem(error) if isinstance(error, ValidationError) else error
            raise FileError(data, f"line {number}: {problem}; wanted {WANTED}") from error
    return matches


def drop_torn_line(data: Path) -> None:
    """Remove a last line that was cut off: matches are to follow."""
    text = data.read_bytes() if data.exists() else b""
    whole = text.splitlines(keepends=True)[: len(read(data))]
    if sum(map(len, whole)) < len(text):
        atomic.write_bytes(data, b"".join(whole))


if __name__ == "__main__":
    main()
