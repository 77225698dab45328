"""What ``evaluate --watch`` decides about a model before its first game: the strategies that are due, and opponents.

A *candidate* is a model of the followed folder with the settings for its generation. The *calendar* says which
strategies are due for which models, by their numbers and creation times, not by the clock. A *plan* is made once for
each model, from the pool, champions and ratings of that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import FileError, MuGoError, NotYet
from pipeline.evaluate.config import BENCHMARK, CHAMPION, LADDER, POOL, SINGLE, STRATEGIES, EvaluateConfig
from pipeline.matches.options import SEED_OF_WATCH, MatchOptions, WorkerOptions
from pipeline.matches.runner import Entrant, load_entrant
from pipeline.players.player_specs import is_engine
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import rate, read_matches
from pipeline.ratings.pool import choose, make_member, parse_mode, rating_of
from pipeline.ratings.strength import ELO_START
from pipeline.run import layout
from pipeline.run.evaluations import Evaluation, Opponent, Plan, Skipped
from pipeline.run.models import read_champions, read_info, state_of
from pipeline.run.ratings import RatedPlayer, read_pool
from pipeline.schedules import RunState

SettingsAt = Callable[[RunState], EvaluateConfig]  # the settings for a run state

THE_POOL = "the pool"  # stands for all members of the pool if they are skipped
# Options that a match's games don't depend on: resources of this machine, and permissions of this run.
MACHINE_OPTIONS = tuple(WorkerOptions.model_fields)


def folders_of_matches(config: EvaluateConfig) -> list[Path]:
    """The folders of all the run's matches that count for ratings."""
    home = layout.home_of_matches(config.output_dir)
    return layout.match_folders(home, home.parent / layout.TOURNAMENT)


# Which strategies are due


@dataclass(frozen=True)
class Candidate:
    """A model that may be evaluated. created: None if unknown; strategies: those that are due."""

    path: Path
    number: int
    created: datetime | None
    settings: EvaluateConfig
    parents: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.name

    @classmethod
    def read(cls, path: Path, settings_at: SettingsAt, time_share: float | None = None) -> Candidate:
        """time_share: for a model whose manifest has none. Raises FileError for a model that can't be read."""
        info = read_info(path)
        try:
            created: datetime | None = datetime.fromisoformat(info.created).astimezone(UTC)
        except (ValueError, OverflowError):
            created = None
        return cls(path, info.number, created, settings_at(state_of(info, time_share)), tuple(info.parents))


def calendar(candidates: Sequence[Candidate], planned: Mapping[str, Sequence[Plan]]) -> dict[str, list[str]]:
    """The strategies that are due for each model, by name. planned: the existing plans, by model."""
    last: dict[str, datetime] = {}
    due: dict[str, list[str]] = {}
    for one in sorted(candidates, key=lambda one: (one.number, one.name)):
        if one.name in planned:
            due[one.name] = [plan.strategy for plan in planned[one.name]]
        else:
            due[one.name] = [strategy for strategy in STRATEGIES if _is_due(one, strategy, last.get(strategy))]
        if one.created is not None:
            last.update(dict.fromkeys(due[one.name], one.created))
    return due


def _is_due(one: Candidate, strategy: str, last: datetime | None) -> bool:
    settings = one.settings
    if not settings.games_of(strategy) or one.number % getattr(settings, f"{strategy}_every"):
        return False
    if last is None or one.created is None:
        return True
    # A model created before the last one, by its clock, is due: the real interval is unknown.
    return not timedelta() <= one.created - last < timedelta(minutes=getattr(settings, f"{strategy}_minutes"))


# Opponents


class Draft:
    """A plan in the making: the opponents of a candidate, from the current pool, champions and ratings.

    rated      by the name that players are rated as
    opponents  found so far, by name
    skipped    by spec, or by name for a member of the pool
    """

    def __init__(
        self,
        config: EvaluateConfig,
        home: Path,
        candidate: Candidate,
        model: Entrant,
        readouts: int,
        progress: Progress = SILENT,
    ) -> None:
        """home: the folder of models; readouts: of opponents whose spec gives none."""
        self._config, self._home, self._candidate, self._model = config, home, candidate, model
        self._readouts = readouts
        self.rated = _strengths(config, model.name, progress)
        self.opponents: dict[str, Opponent] = {}
        self.skipped: dict[str, Skipped] = {}
        self._entrants: dict[str, Entrant] = {}

    def plan(self) -> Evaluation:
        """The record of an evaluation without games. Raises MuGoError without a readable journal of promotions."""
        assert self._model.model is not None
        settings = self._candidate.settings
        plans = [
            self._extended(Plan(strategy=one, opponents=[]), {}, self._specs(one), settings.games_of(one))
            for one in self._candidate.strategies
        ]
        own = self.rated.get(self._model.name)
        return Evaluation(
            model=self._candidate.name,
            rated_as=self._model.name,
            weights=self._model.info.weights,
            generation=self._candidate.number,
            game=settings.game or self._model.model.info.game,
            settings=_stored_settings(settings),
            opponents=list(self.opponents.values()),
            strategies=plans,
            elo_before=ELO_START if own is None else own.elo,
            rating_before=None if own is None else own.bradley_terry,
            skipped=list(self.skipped.values()),
        )

    def complete(self, record: Evaluation) -> Evaluation:
        """Add the opponents that the plan had to skip and that are available now; the record itself if none is.

        Everything else stays as planned.
        """
        wanted = [one for one in record.skipped if one.again and one.strategies]
        plans = []
        for plan in record.strategies:
            specs: list[str] = []
            for one in wanted:
                if plan.strategy in one.strategies:
                    specs += self._of_pool(plan.strategy) if one.opponent == THE_POOL else [one.opponent]
            default = self._candidate.settings.games_of(plan.strategy) or 2
            games = max((record.planned[name].games for name in plan.opponents), default=default)
            plans.append(self._extended(plan, record.planned, specs, games))
        if not self.opponents:
            return record
        added = [one for one in self.opponents.values() if one.name not in record.planned]
        skipped = [*(one for one in record.skipped if one not in wanted), *self.skipped.values()]
        opponents = [*record.opponents, *added]
        update = {"opponents": opponents, "strategies": plans, "skipped": skipped, "finished": None}
        return record.model_copy(update=update)

    def _extended(self, plan: Plan, planned: Mapping[str, Opponent], specs: Sequence[str], games: int) -> Plan:
        """A plan with these players as further opponents. planned: the opponents of all plans of the record."""
        new = [name for name in self._add(specs, games, plan.strategy) if name not in plan.opponents]
        if plan.strategy == LADDER and new:
            return self._longer_ladder(plan, planned, new)
        return plan.model_copy(update={"opponents": [*plan.opponents, *new]})

    # The players of a strategy

    def _specs(self, strategy: str) -> list[str]:
        """The specs of a strategy's opponents."""
        of_pool = [] if strategy == BENCHMARK else self._of_pool(strategy)
        return [*of_pool, *self._candidate.settings.benchmark] if strategy in (BENCHMARK, LADDER) else of_pool

    def _of_pool(self, strategy: str) -> list[str]:
        """Those that the pool provides, and the single opponent, also from elsewhere."""
        return self._single() if strategy == SINGLE else list(self._members(strategy).values())

    def _members(self, strategy: str) -> dict[str, str]:
        """The specs of the pool's members by name, without engines, unless these are allowed."""
        try:
            members = read_pool(self._config.pool).members
        except FileError as error:
            self._skip(THE_POOL, error, True, strategy)
            return {}
        specs = {}
        for member in members:
            if is_engine(member.spec) and not self._config.allow_engines:
                problem = f"an engine, which would run {member.spec!r}; the plan was made without --allow-engines"
                self._skip(member.name, problem, again=False)
            else:
                specs[member.name] = member.spec
        return specs

    def _single(self) -> list[str]:
        """[the single opponent's spec], or [] if there is none."""
        text, number = self._candidate.settings.single, self._candidate.number
        if text != CHAMPION and not text.startswith(POOL):
            return [text]
        champions = read_champions(self._home)
        if text == CHAMPION:
            numbered = [(path, layout.number_of(path.name)) for path in champions]
            older = [path for path, found in numbered if found is not None and found < number]
            if not older:
                self._skip(CHAMPION, "no older model was champion", again=False)
                return []
            is_in_home = older[-1].parent == Path(os.path.realpath(self._home))
            return [f"{self._home}/{older[-1].name}" if is_in_home else str(older[-1])]
        specs = self._members(SINGLE)
        if THE_POOL in self.skipped:
            return []
        generator = np.random.default_rng([self._config.seed, number])
        said: list[str] = []
        mode, so_far = parse_mode(text.removeprefix(POOL)), [path.name for path in champions]
        chosen = choose(mode, list(specs), self.rated, self._candidate.name, so_far, generator, said.append)
        if chosen in specs:
            return [specs[chosen]]
        self._skip(text, "; ".join(said) or f"{chosen} isn't a member of the pool", again=False)
        return []

    def _skip(self, name: str, problem: object, again: bool, *strategies: str) -> None:
        """again: whether a later run retries. strategies: those that miss this opponent."""
        before = self.skipped[name].strategies if name in self.skipped else []
        lacking: list[Any] = list(dict.fromkeys([*before, *strategies]))
        self.skipped[name] = Skipped(opponent=name, reason=str(problem), again=again, strategies=lacking)

    def _add(self, specs: Sequence[str], games: int, strategy: str) -> list[str]:
        """Make these players, except the model itself, opponents for at least `games` games; returns their names."""
        names: dict[str, None] = {}
        for text in specs:
            try:
                entrant = load_entrant(text, self._readouts).as_rated
            except MuGoError as error:
                self._skip(text, error, True, strategy)
                continue
            name = entrant.name
            if name == self._model.name:
                continue
            known = self._entrants.setdefault(name, entrant)
            if known.identity != entrant.identity:
                self._skip(text, f"{known.spec.text} is also called {name}; name one: NAME=PLAYER", again=False)
                continue
            names[name] = None
            if name in self.opponents:
                games_so_far = self.opponents[name].games
                self.opponents[name] = self.opponents[name].model_copy(update={"games": max(games, games_so_far)})
                continue
            rated = self.rated.get(name)
            is_pinned = entrant.model is not None and not entrant.spec.handicap
            self.opponents[name] = Opponent(
                name=name,
                spec=make_member(text).spec if is_pinned else text,  # best_model may be re-pointed
                weights=entrant.info.weights,
                games=games,
                elo=ELO_START if rated is None else rated.elo,
                rating=None if rated is None else rated.bradley_terry,
            )
        return list(names)

    def _longer_ladder(self, plan: Plan, planned: Mapping[str, Opponent], new: Sequence[str]) -> Plan:
        """A ladder with new rungs, by rating and lowest first. The order and first opponent of an existing one stay.

        A model begins a new ladder beside its parent, or in the middle.
        """
        rungs = sorted(new, key=lambda name: (rating_of(name, self.rated), name))
        if plan.opponents:
            then = [(name, planned[name].rating) for name in plan.opponents]
            ratings = [rating_of(name, self.rated) if rating is None else rating for name, rating in then]
            longer = list(plan.opponents)
            for name in reversed(rungs):
                higher = (at for at, rating in enumerate(ratings) if rating > rating_of(name, self.rated))
                longer.insert(next(higher, len(ratings)), name)
            return plan.model_copy(update={"opponents": longer, "start": longer.index(plan.opponents[plan.start])})
        start = len(rungs) // 2
        parents = (self.rated.get(f"{one}@{self._model.info.readouts}") for one in reversed(self._candidate.parents))
        if parent := next(filter(None, parents), None):
            start = min(range(len(rungs)), key=lambda at: abs(rating_of(rungs[at], self.rated) - parent.bradley_terry))
        return plan.model_copy(update={"opponents": rungs, "start": start})


def _strengths(config: EvaluateConfig, name: str, progress: Progress) -> dict[str, RatedPlayer]:
    """All players' ratings, without the evaluations of player `name`: a plan that is made again equals the first."""
    own = (config.output_dir / layout.WATCH).resolve()
    try:
        return rate(
            match
            for match in read_matches(folders_of_matches(config))
            if match.folder.resolve().parent != own or not match.folder.name.startswith(f"{name}{layout.VERSUS}")
        ).ratings.by_name
    except NotYet:
        return {}
    except MuGoError as error:
        progress.warn(f"all players count as unrated: {error}")
        return {}


def _stored_settings(settings: EvaluateConfig) -> dict[str, Any]:
    """The settings that a plan's games depend on. opening_plies only if given: games with dice have none."""
    names = set(MatchOptions.model_fields) - {*MACHINE_OPTIONS, "game"}
    if "opening_plies" not in settings.model_fields_set:
        names.remove("opening_plies")
    return {**settings.model_dump(mode="json", include=names), "seed": settings.seed + SEED_OF_WATCH}
