"""What ``evaluate --watch`` decides about a model before its first game: the strategies that are due, and opponents.

A *candidate* is a model of the followed folder with the settings for its generation, whenever it is evaluated. The
*calendar* says which strategies are due for which models. It depends on the models' numbers and creation times, not on
the clock, so every process gets the same calendar at any time. A *plan* is made once for each model, from the pool,
champions and ratings of that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import FileError, MuGoError, NotYet
from pipeline.evaluate.config import EvaluateConfig
from pipeline.evaluate.watch_options import BENCHMARK, CHAMPION, LADDER, POOL, SINGLE, STRATEGIES, TOURNAMENT
from pipeline.matches.options import MatchOptions
from pipeline.matches.runner import Entrant, load_entrant
from pipeline.players.player_specs import is_engine
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import rate, read_matches
from pipeline.ratings.pool import choose, make_member, parse_mode, rating_of
from pipeline.ratings.strength import ELO_START
from pipeline.run import layout
from pipeline.run.evaluations import Evaluation, Opponent, Plan, Skipped
from pipeline.run.models import read_champions, read_info
from pipeline.run.ratings import Member, RatedPlayer, read_pool
from pipeline.run_state import state_of_model
from pipeline.schedules import RunState

SettingsAt = Callable[[RunState], EvaluateConfig]
"""The settings for a run state."""

SEED_OFFSET = 1_000_003  # added to the seed, so that games differ from those of evaluate between the same players
THE_POOL = "the pool"  # stands for all members of the pool if they are skipped
POOL_STRATEGIES = (LADDER, TOURNAMENT)
# Options that a match's games don't depend on: resources of this machine, and permissions of this run.
MACHINE_OPTIONS = (
    "parallel_games",
    "threads",
    "workers",
    "hang_seconds",
    "runner",
    "engine_seconds",
    "backend",
    "allow_engines",
)


def rated_entrant(text: str, readouts: int) -> Entrant:
    """Load a player under the name that it is rated as. Raises as load_entrant()."""
    entrant = load_entrant(text, readouts)
    return replace(entrant, info=entrant.info.model_copy(update={"name": entrant.info.rated_as}))


def folders_of_matches(config: EvaluateConfig) -> list[Path]:
    """The folders of all the run's matches that count for ratings."""
    evaluated = config.output_dir
    return [evaluated, evaluated / layout.REQUIRED, evaluated / layout.WATCH, evaluated.parent / layout.TOURNAMENT]


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

    def with_strategies(self, strategies: Sequence[str]) -> Candidate:
        return replace(self, strategies=tuple(strategies))

    @classmethod
    def read(cls, path: Path, settings_at: SettingsAt, time_share: float | None = None) -> Candidate:
        """time_share: for a model whose manifest has none. Raises FileError for a model that can't be read."""
        info = read_info(path)
        try:
            created: datetime | None = datetime.fromisoformat(info.created).astimezone(UTC)
        except (ValueError, OverflowError):
            created = None
        return cls(path, info.number, created, settings_at(state_of_model(info, time_share)), tuple(info.parents))


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


class Planner:
    """Makes plans from the current pool, champions and ratings."""

    def __init__(self, config: EvaluateConfig, home: Path, progress: Progress = SILENT) -> None:
        """home: the folder of models."""
        self._config, self._home, self._progress = config, home, progress

    def plan(self, candidate: Candidate, model: Entrant) -> Evaluation:
        """Raises MuGoError without a readable journal of promotions."""
        assert model.model is not None
        found = _PlanDraft(candidate, model, self._strengths(model.name))
        members = self._members(found)
        settings = candidate.settings
        plans = []
        for strategy in candidate.strategies:
            games = settings.games_of(strategy)
            if strategy == SINGLE:
                texts = self._single(found, members)
            elif strategy == BENCHMARK:
                texts = list(settings.benchmark)
            else:
                texts = [member.spec for member in members]
            names = found.opponents_of(texts, games, strategy)
            start = 0
            if strategy == LADDER:
                names = list(dict.fromkeys([*names, *found.opponents_of(settings.benchmark, games, strategy)]))
                names, start = found.ladder(names)
            plans.append(Plan(strategy=strategy, opponents=names, start=start))
        own = found.rated.get(model.name)
        return Evaluation(
            model=candidate.name,
            rated_as=model.name,
            weights=model.info.weights,
            generation=candidate.number,
            game=settings.game or model.model.info.game,
            settings=stored_settings(settings),
            opponents=list(found.opponents.values()),
            strategies=plans,
            elo_before=ELO_START if own is None else own.elo,
            rating_before=None if own is None else own.bradley_terry,
            skipped=list(found.skipped.values()),
        )

    def complete(self, record: Evaluation, candidate: Candidate, model: Entrant) -> Evaluation:
        """Add the opponents that the plan had to skip and that are available now; the record itself if none is.

        Everything else stays as planned.
        """
        wanted = [one for one in record.skipped if one.again and one.strategies]
        found = _PlanDraft(candidate, model, self._strengths(model.name))
        members = self._members(found) if any(one.opponent == THE_POOL for one in wanted) else []
        plans = []
        for plan in record.strategies:
            texts: list[str] = []
            for one in wanted:
                if plan.strategy not in one.strategies:
                    continue
                if one.opponent != THE_POOL:
                    texts.append(one.opponent)
                elif plan.strategy == SINGLE:
                    texts += self._single(found, members)
                else:
                    texts += [member.spec for member in members]
            default = candidate.settings.games_of(plan.strategy) or 2
            games = max((record.planned[name].games for name in plan.opponents), default=default)
            new = found.opponents_of(texts, games, plan.strategy)
            names, start = list(dict.fromkeys([*plan.opponents, *new])), plan.start
            if plan.strategy == LADDER and new:
                names, start = found.longer_ladder(plan, record.planned, new)
            plans.append(Plan(strategy=plan.strategy, opponents=names, start=start))
        if not found.opponents:
            return record
        update = {
            "opponents": [
                *record.opponents,
                *(one for one in found.opponents.values() if one.name not in record.planned),
            ],
            "strategies": plans,
            "skipped": [*(one for one in record.skipped if one not in wanted), *found.skipped.values()],
            "finished": None,
        }
        return record.model_copy(update=update)

    def _strengths(self, name: str) -> dict[str, RatedPlayer]:
        """All players' ratings, by the name that they are rated as, without the evaluations of player `name`.

        So a plan that is made again is equal to the first.
        """
        own = (self._config.output_dir / layout.WATCH).resolve()
        try:
            matches = [
                match
                for match in read_matches(folders_of_matches(self._config))[0]
                if match.folder.resolve().parent != own or not match.folder.name.startswith(f"{name}-vs-")
            ]
            return rate(matches).ratings.by_name if matches else {}
        except NotYet:
            return {}
        except MuGoError as error:
            self._progress.warn(f"all players count as unrated: {error}")
            return {}

    def _members(self, found: _PlanDraft) -> list[Member]:
        """The pool's members without engines, unless these are allowed."""
        try:
            members = read_pool(self._config.pool).members
        except FileError as error:
            affected = (
                (*POOL_STRATEGIES, SINGLE) if found.candidate.settings.single.startswith(POOL) else POOL_STRATEGIES
            )
            strategies = [one for one in found.candidate.strategies if one in affected]
            if strategies:
                found.skip(THE_POOL, error, True, *strategies)
            return []
        for member in members:
            if is_engine(member.spec) and not self._config.allow_engines:
                problem = f"an engine, which would run {member.spec!r}; the plan was made without --allow-engines"
                found.skip(member.name, problem, again=False)
        return [member for member in members if member.name not in found.skipped]

    def _single(self, found: _PlanDraft, members: Sequence[Member]) -> list[str]:
        """[the single opponent's spec], or [] if there is none."""
        text = found.candidate.settings.single
        if text == CHAMPION:
            champions = [path for path in read_champions(self._home) if _number(path) < found.candidate.number]
            if not champions:
                found.skip(CHAMPION, "no older model was champion", again=False)
                return []
            newest = champions[-1]
            is_in_home = newest.parent == Path(os.path.realpath(self._home))
            return [f"{self._home}/{newest.name}" if is_in_home else str(newest)]
        if not text.startswith(POOL):
            return [text]
        if THE_POOL in found.skipped:
            return []
        names = {member.name: member.spec for member in members}
        champions_so_far = [path.name for path in read_champions(self._home)]
        generator = np.random.default_rng([self._config.seed, found.candidate.number])
        said: list[str] = []
        mode = parse_mode(text.removeprefix(POOL))
        chosen = choose(mode, list(names), found.rated, found.candidate.name, champions_so_far, generator, said.append)
        if chosen in names:
            return [names[chosen]]
        found.skip(text, "; ".join(said) or f"{chosen} isn't a member of the pool", again=False)
        return []


class _PlanDraft:
    """Opponents found and skipped while a plan is made. rated: by the name that players are rated as."""

    def __init__(self, candidate: Candidate, model: Entrant, rated: dict[str, RatedPlayer]) -> None:
        self.candidate, self.model, self.rated = candidate, model, rated
        self.opponents: dict[str, Opponent] = {}
        self.skipped: dict[str, Skipped] = {}
        self._entrants: dict[str, Entrant] = {}

    def skip(self, name: str, problem: object, again: bool, *strategies: str) -> None:
        """again: a later run tries again. strategies: those that lack this opponent."""
        before = self.skipped[name].strategies if name in self.skipped else []
        lacking: list[Any] = list(dict.fromkeys([*before, *strategies]))
        self.skipped[name] = Skipped(opponent=name, reason=str(problem), again=again, strategies=lacking)

    def opponents_of(self, texts: Sequence[str], games: int, strategy: str) -> list[str]:
        """Make these players, except the model itself, opponents for at least `games` games; returns their names."""
        names = []
        for text in texts:
            try:
                entrant = rated_entrant(text, self.candidate.settings.readouts)
            except MuGoError as error:
                self.skip(text, error, True, strategy)
                continue
            name = entrant.name
            if name == self.model.name:
                continue
            known = self._entrants.setdefault(name, entrant)
            if _identity(known) != _identity(entrant):
                self.skip(text, f"{known.spec.text} is also called {name}; name one: NAME=PLAYER", again=False)
                continue
            self._add(entrant, text, games)
            names.append(name)
        return list(dict.fromkeys(names))

    def _add(self, entrant: Entrant, text: str, games: int) -> None:
        name = entrant.name
        if name in self.opponents:
            games = max(games, self.opponents[name].games)
            self.opponents[name] = self.opponents[name].model_copy(update={"games": games})
            return
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

    def ladder(self, names: Sequence[str]) -> tuple[list[str], int]:
        """(names by rating, lowest first; the model's first rung: beside its parent, else in the middle)."""
        rungs = sorted(names, key=lambda name: (rating_of(name, self.rated), name))
        readouts = self.model.info.readouts
        for parent in reversed(self.candidate.parents):
            rated = self.rated.get(f"{parent}@{readouts}")
            if rated is not None and rungs:
                nearest = [abs(rating_of(name, self.rated) - rated.bradley_terry) for name in rungs]
                return rungs, nearest.index(min(nearest))
        return rungs, len(rungs) // 2

    def longer_ladder(self, plan: Plan, planned: Mapping[str, Opponent], new: Sequence[str]) -> tuple[list[str], int]:
        """As ladder(), with new names inserted into a plan's ladder, whose order and first opponent stay."""
        if not plan.opponents:
            return self.ladder(new)
        then = [(name, planned[name].rating) for name in plan.opponents]
        ratings = [rating_of(name, self.rated) if rating is None else rating for name, rating in then]
        rungs, first = list(plan.opponents), plan.opponents[plan.start]
        for name in reversed(self.ladder([name for name in new if name not in plan.opponents])[0]):
            higher = (at for at, rating in enumerate(ratings) if rating > rating_of(name, self.rated))
            rungs.insert(next(higher, len(ratings)), name)
        return rungs, rungs.index(first)


def _identity(entrant: Entrant) -> tuple[object, ...]:
    info = entrant.info
    return info.kind, info.weights, entrant.spec.argument, info.handicap


def _number(model: Path) -> int:
    name = layout.parse_model_name(model.name)
    return layout.MAX_NUMBER + 1 if name is None else name.number


def stored_settings(settings: EvaluateConfig) -> dict[str, Any]:
    """The settings that a plan's games depend on. opening_plies only if given: games with dice have none."""
    left_out = {*MACHINE_OPTIONS, "game"}
    if "opening_plies" not in settings.model_fields_set:
        left_out.add("opening_plies")
    fields = MatchOptions(**{name: getattr(settings, name) for name in MatchOptions.model_fields})
    stored = fields.model_dump(mode="json", exclude=left_out)
    return {**stored, "seed": settings.seed + SEED_OFFSET}
