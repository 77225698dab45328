"""``evaluate --watch``: evaluates every new model of a folder beside training. Promotes none.

The decisions for a model are its *plan* (watch_plan.py), which is written before the first game and holds until the
last, also for a process that resumes after a kill. Evaluations already begun come first, then the newest model, then
older ones. Their matches count for ratings like all matches.

A model that can't be loaded, a missing engine or a missing member of the pool is skipped and reported. The model's file
lists skipped opponents, and the next run tries them again. Evaluated models that are rated high enough join the pool.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.evaluate.config import BENCHMARK, CHAMPION, LADDER, POOL, SINGLE, EvaluateConfig
from pipeline.evaluate.promotion import against, score_values
from pipeline.evaluate.watch_plan import MACHINE_OPTIONS, Candidate, Draft, SettingsAt, calendar, folders_of_matches
from pipeline.games.specs import parse_game
from pipeline.matches.options import MatchOptions
from pipeline.matches.runner import Entrant, MatchRunner, common_game, load_entrant
from pipeline.matches.statistics import Score, measured_games, repeated_games, wilson_interval
from pipeline.phrases import counted
from pipeline.players.player_specs import is_engine, parse_player
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import checked_results, rate_and_write
from pipeline.ratings.config import RatingsConfig
from pipeline.ratings.pool import parse_mode, pool
from pipeline.ratings.strength import elo_gain
from pipeline.run import atomic, layout
from pipeline.run.evaluations import (
    Counts,
    Evaluation,
    Opponent,
    Outcome,
    Rates,
    Result,
    Skipped,
    list_evaluations,
    read_evaluation,
    write_evaluation,
)
from pipeline.run.matches import MatchResults, has_match, list_matches, match_lock
from pipeline.run.models import check_champion, list_models
from pipeline.stalls import Hung
from pipeline.tracking.options import check_packages
from pipeline.tracking.tracker import Tracker, Value, place_of, step_of

LOOK_SECONDS = 5.0  # between two looks for new models
NO_GAMES = "no game was played"  # an outcome's conclusion
BUSY = "another watcher is at work here; it evaluates every new model; wait until it is done, or stop it"


def watch(
    config: EvaluateConfig,
    progress: Progress = SILENT,
    settings_at: SettingsAt | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Evaluation]:
    """Yield each finished evaluation; endless, unless config.once. See the module docstring.

    settings_at: of a model's run state; config has the paths. wait: called when there is nothing to do.
    Raises NotYet if another watcher is at work, or with config.once if there was no model to evaluate; UsageError for
    conflicting options or wrong players; FileError if its files can't be written; Hung.
    """
    check_packages("evaluate", config.track)
    given = Path(config.black_model)
    if config.white_model is not None:
        raise UsageError("evaluate --watch --white-model: every new model is evaluated; leave one of them out")
    spec = parse_player(config.black_model, lambda _: Path("champion"))  # best_model needn't exist yet
    if given.name != layout.CHAMPION or spec.given != given:
        raise UsageError(
            f"evaluate --watch --black-model {given}: its folder is followed; wanted FOLDER/{layout.CHAMPION}"
        )
    if not given.is_symlink():  # a link to a folder that is gone is a champion to be skipped
        check_champion(given.parent)
    _check_players(config)
    folder = config.output_dir / layout.WATCH
    with match_lock(folder, BUSY):
        atomic.make_folder(folder)
        for path in (folder, *list_matches(folder)):
            atomic.sweep(path)
        watcher = _Watcher(config, given.parent, folder, progress, settings_at or (lambda _: config))
        num_done, is_waiting = 0, False
        while True:
            candidate = watcher.next_candidate()
            if candidate is not None:
                is_waiting = False
                evaluation = watcher.evaluate(candidate)
                if evaluation is not None:
                    num_done += 1
                    yield evaluation
            elif config.once:
                if num_done:
                    return
                raise NotYet(f"evaluate --watch: no model in {given.parent} is left to evaluate{watcher.left_out()}", 1)
            else:
                if not is_waiting:
                    progress.say(f"waiting for new models in {given.parent}{watcher.left_out()}")
                is_waiting = True
                wait(LOOK_SECONDS)


def _check_players(config: EvaluateConfig) -> None:
    """Raises UsageError for a wrong player or mode of the pool. A model needn't exist yet."""
    if config.single.startswith(POOL):
        parse_mode(config.single.removeprefix(POOL))
    singles = [] if config.single == CHAMPION or config.single.startswith(POOL) else [config.single]
    for text in (*singles, *config.benchmark):
        with suppress(FileError):  # its matches are skipped until it exists
            parse_player(text)


class _Watcher:
    """Chooses models and evaluates them. Only one works in a folder, under its lock."""

    def __init__(
        self, config: EvaluateConfig, home: Path, folder: Path, progress: Progress, settings_at: SettingsAt
    ) -> None:
        """home: the folder of models; folder: of evaluations and their matches."""
        self._config, self._home, self.folder, self.progress = config, home, folder, progress
        self._settings_at = settings_at
        self._candidates: dict[str, Candidate | None] = {}  # by model; None: it can't be read
        self._tried: set[str] = set()  # models that this process has evaluated or tried to evaluate
        self._skipped: set[str] = set()  # models that can't be evaluated
        self._runner: tuple[Any, MatchRunner] | None = None  # with its key; see runner()
        self._records: dict[str, Evaluation] = {}  # by model
        for path in list_evaluations(folder):
            try:
                record = read_evaluation(path)
                self._records[record.model] = record
            except FileError as error:
                progress.warn(f"made anew from its matches: {error}")

    # Choosing a model

    def next_candidate(self) -> Candidate | None:
        """The newest unfinished evaluation, else the newest due model, else the newest with skipped opponents."""
        candidates = [one for path in list_models(self._home) if (one := self._candidate(path)) is not None]
        due = calendar(candidates, {name: record.strategies for name, record in self._records.items()})

        def rank(one: Candidate) -> tuple[int, int, str]:
            record = self._records.get(one.name)
            return 1 if record is None else 2 if record.finished is None else 0, one.number, one.name

        def is_left(one: Candidate) -> bool:
            record = self._records.get(one.name)
            is_done = record is not None and record.is_whole
            return bool(due[one.name]) and one.name not in self._tried and not is_done

        best = max(filter(is_left, candidates), default=None, key=rank)
        return best and replace(best, strategies=tuple(due[best.name]))

    def _candidate(self, path: Path) -> Candidate | None:
        if path.name not in self._candidates:
            try:
                self._candidates[path.name] = Candidate.read(path, self._settings_at, self._config.time_share)
            except FileError as error:
                self._candidates[path.name] = None
                self._skip_model(path.name, error)
        return self._candidates[path.name]

    def _skip_model(self, name: str, error: MuGoError) -> None:
        self._skipped.add(name)
        self.progress.warn(f"{name} is not evaluated: {error}")

    def left_out(self) -> str:
        if not self._skipped:
            return ""
        named = ", ".join(sorted(self._skipped))
        return f"; {counted(len(self._skipped), 'model')} skipped, the next run tries again: {named}"

    # An evaluation

    def evaluate(self, candidate: Candidate) -> Evaluation | None:
        """None, with a warning, if the model can't be loaded, or all opponents to try again are still missing."""
        self._tried.add(candidate.name)
        try:
            playing = self._begin(candidate)
        except FileError as error:
            if self.is_ours(error):
                raise
            self._skip_model(candidate.name, error)
            return None
        if playing is None:
            return None
        record = playing.record
        names = ", ".join(plan.strategy for plan in record.strategies)
        self.progress.say(f"{record.model}: {names}; {counted(len(record.opponents), 'opponent')} at most")
        finished = self._finish(playing.play())
        self._records[record.model] = finished
        with Tracker(
            self._config, self._config.output_dir, place_of("watch"), "evaluate/step", self.progress
        ) as tracker:
            tracker.add(tracked(finished), playing.step)
        return finished

    def _begin(self, candidate: Candidate) -> _Playing | None:
        """Make, complete or continue a plan. Returns and raises as evaluate()."""
        record, settings = self._records.get(candidate.name), candidate.settings
        planned = record.settings.get("readouts") if record is not None else None
        readouts = planned if isinstance(planned, int) else settings.readouts
        try:
            model = load_entrant(str(candidate.path), readouts).as_rated
            assert model.model is not None
            parse_game(model.model.info.game)
        except UsageError as error:  # an unknown game or method
            raise FileError(candidate.path, str(error)) from error
        if record is not None and record.weights != model.info.weights:
            raise FileError(candidate.path, "its weights changed since its evaluation began; restore them")
        if record is None or record.finished is not None:
            draft = Draft(self._config, self._home, candidate, model, readouts, self.progress)
            before, record = record, draft.plan() if record is None else draft.complete(record)
            again = [one for one in record.skipped if one.again]
            if record is before and not any(one.opponent in record.planned for one in again):
                for one in again:
                    self.progress.warn(f"{record.model} still can't play {one.opponent}: {one.reason}")
                return None
            write_evaluation(self.folder, record)
        machine = {name: getattr(settings, name) for name in MACHINE_OPTIONS}
        machine["threads"] = settings.threads or 1
        # One batch size for all matches, so that networks stay loaded from one match to the next.
        machine["parallel_games"] = min([settings.parallel_games, *(one.games for one in record.opponents)])
        try:
            options = MatchOptions(**{**record.settings, **machine, "game": record.game})
        except ValidationError as error:
            path = self.folder / layout.evaluation_name(record.model)
            raise FileError(path, f"damaged: settings, {atomic.first_problem(error)}; remove it") from error
        return _Playing(record, model, settings, options, self)

    def runner(self, options: MatchOptions, entrants: Sequence[Entrant]) -> MatchRunner:
        """The last runner, with its loaded networks, if it fits, else a new one. Raises as common_game()."""
        game = common_game(options.game, entrants)
        key = (game.spec, options.model_dump_json(), sorted(options.model_fields_set))
        if self._runner is None or self._runner[0] != key:
            self._runner = key, MatchRunner(options, game, self.progress)
        return self._runner[1]

    def is_ours(self, error: MuGoError) -> bool:
        """Whether the watcher couldn't read or write its own files (a full disk), which must stop it."""
        if not isinstance(error, FileError) or not isinstance(error.__cause__, OSError):
            return False
        return error.path.absolute().is_relative_to(self.folder.absolute())

    def _finish(self, record: Evaluation) -> Evaluation:
        """Update ratings and pool, then mark the record as finished."""
        rating, error = None, None
        ratings = RatingsConfig(directory=folders_of_matches(self._config), output=self._config.ratings)
        try:
            found = rate_and_write(ratings, self.progress)
            groups = {row.name: row.group for row in found.rows}
            for row in found.rows:
                if row.name == record.rated_as and row.group == groups[found.anchor.rpartition("=")[0]]:
                    rating, error = row.rating, row.error
        except NotYet:
            pass
        except MuGoError as problem:
            if isinstance(problem.__cause__, OSError):
                raise
            self.progress.warn(f"not rated: {problem}")
        if any(one.games for one in record.results):
            try:
                path = self._home / record.model
                pool("add", str(path), self._config.pool, self._config.ratings, progress=self.progress, by_rating=True)
            except MuGoError as problem:
                if isinstance(problem.__cause__, OSError):
                    raise
                self.progress.warn(f"{record.model} couldn't join the pool: {problem}")
        update = {"rating": rating, "rating_error": error, "finished": atomic.utc_now()}
        finished = record.model_copy(update=update)
        write_evaluation(self.folder, finished)
        return finished


class _Playing:
    """Plays one evaluation. Each match is played when the first strategy needs it."""

    def __init__(
        self, record: Evaluation, model: Entrant, settings: EvaluateConfig, options: MatchOptions, watcher: _Watcher
    ) -> None:
        """settings: this run's permissions; options: the record's match options."""
        self.record, self._model, self._settings = record, model, settings
        self.step = 0 if model.model is None else step_of(model.model.info.manifest)
        self._options, self._watcher = options, watcher
        self._results: dict[str, Result] = {}
        # Players that the plan had to skip. Planned opponents that an earlier run skipped are tried again.
        self._skipped = {one.opponent: one for one in record.skipped if one.opponent not in record.planned}
        self._elo = record.elo_before

    def play(self) -> Evaluation:
        """The record with its results, not yet marked as finished. Raises errors that must stop the watcher."""
        outcomes = []
        for plan in self.record.strategies:
            if plan.strategy == LADDER:
                met = climb(plan.opponents, plan.start, self._meet)
            else:
                met = [found for name in plan.opponents if (found := self._meet(name)) is not None]
            outcomes.append(outcome_of(plan.strategy, met))
        return self.record.model_copy(
            update={
                "results": list(self._results.values()),
                "outcomes": outcomes,
                "skipped": list(self._skipped.values()),
                "elo_after": self._elo,
            }
        )

    def _meet(self, name: str) -> Result | None:
        """Play the match with this opponent, unless an evaluation of either has played it; None if it has no games."""
        if name in self._results or name in self._skipped:
            return self._results.get(name)
        opponent = self.record.planned[name]
        folder = self._watcher.folder / layout.match_name(self._model.name, name)
        swapped = self._watcher.folder / layout.match_name(name, self._model.name)
        as_champion = has_match(swapped) and not has_match(folder)
        folder = swapped if as_champion else folder
        found = _results(folder)
        num_games = opponent.games if found is None else found.num_games
        if found is None or len(found.rows) < num_games:
            problem = self._play(folder, opponent, num_games, as_champion)
            found = _results(folder)
            missing = num_games - (len(found.rows) if found else 0)
            if missing and not problem:
                problem = f"{counted(missing, 'game')} failed twice"
            if problem:
                self._skipped[name] = Skipped(opponent=name, reason=problem, again=True)
                self._watcher.progress.warn(f"{self.record.model} against {name}: {problem}")
        if found is None or not measured_games(found):
            return None
        result = _result(opponent, found, as_champion, self._elo)
        self._elo = result.elo_after
        self._results[name] = result
        return result

    def _play(self, folder: Path, opponent: Opponent, num_games: int, as_champion: bool) -> str:
        """Play a match as far as possible; returns why it can't be played, or ""."""
        try:
            own = (self._settings.single, *self._settings.benchmark)
            if is_engine(opponent.spec) and not self._settings.allow_engines and opponent.spec not in own:
                # Reading a folder must not run programs named in it.
                raise UsageError(
                    f"the plan names an engine, which would run {opponent.spec!r}; wanted --allow-engines, or the "
                    "engine among this run's own players"
                )
            other = load_entrant(opponent.spec, self._options.readouts).as_rated
            if other.info.weights != opponent.weights:
                raise FileError(other.spec.path or other.name, "its weights changed since the plan was made")
            entrants = (other, self._model) if as_champion else (self._model, other)
            runner = self._watcher.runner(self._options, entrants)
            with match_lock(folder):
                writer = runner.open(folder, entrants, num_games)
                runner.play(writer, entrants, lambda _: False)
        except Hung:
            raise
        except MuGoError as error:
            if self._watcher.is_ours(error):
                raise
            return str(error)
        return ""


def climb(rungs: Sequence[str], start: int, meet: Callable[[str], Result | None]) -> list[Result]:
    """The results on a ladder: up after at least half of the points, down otherwise, until the next rung was played.

    rungs: lowest first; meet: None for an opponent without games, which is taken off the ladder.
    """
    left, place, step = list(rungs), start, 0
    results: list[Result] = []
    while 0 <= place < len(left):
        result = meet(left[place])
        if result is None:
            del left[place]
            place -= 1 if step < 0 or (step == 0 and place == len(left)) else 0
            continue
        results.append(result)
        before, step = step, 1 if result.share >= 0.5 else -1
        if before and before != step:
            break
        place += step
    return results


# From games to figures


def outcome_of(strategy: str, met: Sequence[Result]) -> Outcome:
    """What the results of a strategy's matches, in the order of play, say together."""
    rates = _rates(sum((Score(one.wins, one.draws, one.losses) for one in met), Score()))
    above = [one.opponent for one in met if one.share >= 0.5]
    below = [one.opponent for one in met if one.share < 0.5]
    if not rates.games:
        conclusion = NO_GAMES
    elif strategy == SINGLE:
        said = "stronger than" if rates.low > 0.5 else "weaker than" if rates.high < 0.5 else "not told apart from"
        conclusion = f"{said} {met[0].opponent}"
    elif strategy == LADDER:
        conclusion = ", ".join([*(f"above {name}" for name in above[-1:]), *(f"below {name}" for name in below[-1:])])
    else:
        what = "players of the set" if strategy == BENCHMARK else "members of the pool"
        unit = "points" if all(one.points_per_game is None for one in met) else "games"
        conclusion = f"at least half of the {unit} against {len(above)} of {len(met)} {what}"
    return Outcome(**rates.model_dump(), strategy=strategy, conclusion=conclusion)


def tracked(record: Evaluation) -> dict[str, Value]:
    """What is tracked of a finished evaluation: of all games and of each opponent's, from the model's view."""
    values: dict[str, Value] = {}
    scores = [Score(one.wins, one.draws, one.losses) for one in record.results]
    total = sum(scores, Score())
    points = [one.points_per_game * one.games for one in record.results if one.points_per_game is not None]
    values |= score_values("", total, math.fsum(points) / total.games if points else None)
    if total.games:
        plies = math.fsum(one.average_length * one.games for one in record.results)
        values["plies_per_game"] = plies / total.games
    for one, score in zip(record.results, scores, strict=True):
        values |= score_values(against(one.opponent), score, one.points_per_game)
    if record.rating is not None:
        values["elo"] = record.rating
    if record.rating_error is not None:
        values["elo_error"] = record.rating_error
    return values


def _rates(score: Score) -> Rates:
    low, high = wilson_interval(score)
    return Rates(**asdict(score), share=score.share, low=low, high=high)


def _results(folder: Path) -> MatchResults | None:
    """A match's results so far; None if there is none, or it is damaged, which MatchRunner.open() reports."""
    if has_match(folder):
        with suppress(FileError):
            return checked_results(folder, keep=True)
    return None


def _result(opponent: Opponent, match: MatchResults, as_champion: bool, elo: float) -> Result:
    """The figures of a match's measured_games() from the model's viewpoint.

    as_champion: the match belongs to the opponent's evaluation and was rated before this plan. elo: the model's before
    the match.
    """
    games, sign = measured_games(match), -1 if as_champion else 1
    first = 1 if match.header.handicap else 0  # the player who makes the first move
    won = [sign * game.challenger_result for game in games]
    began = [(game.challenger_player == first) != as_champion for game in games]
    by_turn = {
        turn: Counts(**asdict(Score.of(one for one, is_first in zip(won, began, strict=True) if is_first == turn)))
        for turn in (True, False)
    }
    score = Score.of(won)
    lengths = [game.length for game in games]
    return Result(
        **_rates(score).model_dump(),
        opponent=opponent.name,
        match=match.folder.name,
        moving_first=by_turn[True],
        moving_second=by_turn[False],
        average_length=sum(lengths) / len(lengths),
        shortest=min(lengths),
        longest=max(lengths),
        ends=dict(sorted(Counter(game.end for game in games).items())),
        duplicates=len(repeated_games(games)),
        failed=len(match.failed - {game.index for game in match.games}),
        elo_before=elo,
        elo_after=elo + (0.0 if as_champion else elo_gain(elo, opponent.elo, score.share)),
        points_per_game=math.fsum(won) / len(won) if match.header.max_result > 1 else None,
    )
