"""``evaluate``: the newest model plays the champion and replaces it if it wins enough.

Reads two players, usually models. Writes a match folder and, after a promotion, best_model and the pool of opponents.
Finished games are kept, so a killed match resumes and comes to the same decision. A match stops as soon as its first
games by number decide it, and its figures are of these games; see promotion.py. Promotion conditions (--require) are
separate matches, played once the main match is won.

"White" is the challenger and "black" the champion, whatever their colours in a game.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.errors import MuGoError, NotYet, UsageError
from pipeline.evaluate.conditions import Condition, check_conditions, check_different, parse_condition
from pipeline.evaluate.config import EvaluateConfig
from pipeline.evaluate.promotion import (
    ConditionResult,
    EvaluateSummary,
    Rule,
    against,
    deciding_games,
    match_status,
    score_so_far,
    score_values,
    stored,
    summarise,
)
from pipeline.evaluate.sprt import Sprt
from pipeline.evaluate.threshold import LEAST_PAIRS
from pipeline.evaluate.watch_plan import folders_of_matches
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.matches.runner import Entrant, MatchRunner, Sides, common_game, handicap_side_of, load_entrant, write_sgfs
from pipeline.matches.statistics import Score
from pipeline.progress import SILENT, Progress
from pipeline.ratings.command import checked_results, rate, read_matches
from pipeline.ratings.pool import pool
from pipeline.run import atomic, layout
from pipeline.run.matches import PENDING, list_matches, match_lock, read_summary, write_summary
from pipeline.run.models import home_of, newest_models, present_champion, read_promotions, set_champion
from pipeline.tracking.options import check_packages
from pipeline.tracking.tracker import Tracker, Value, place_of, step_of
from pipeline.workers.processes import check_workers

MOST_RATED = 300  # matches from which a challenger's rating is tracked: they take 0.1 s
SPRT_PARALLEL_GAMES = 64  # at most in a sequential test: games begun after the deciding pair are wasted
NOT_IN_POOL = "not_in_pool"  # in summary.json: promoted, but an error kept the model out of the pool
# Fields of the summary that the journal of promotions repeats
IN_JOURNAL = (
    *("games", "games_played", "wins", "draws", "losses", "threshold", "points_needed", "tail_probability"),
    *("match", "sprt", "conditions", "reason", "points"),
)


def evaluate(config: EvaluateConfig, progress: Progress = SILENT) -> EvaluateSummary:
    """Play or finish a match, and promote the challenger if it passed. See the module docstring.

    Raises NotYet if there is no challenger or another process plays this match; UsageError for too few games to pass,
    a player against itself, or local workers beside a cluster; FileError for models that can't be loaded or play
    different games, or a match begun with other settings; MuGoError if the decision depends on games that failed;
    KeyboardInterrupt after recording the finished games.
    """
    check_workers(config.runner, config.workers)
    check_packages("evaluate", config.track)
    if not config.sprt:
        config = config.model_copy(update={"sprt": None})
    sprt = None if config.sprt is None else Sprt.parse(config.sprt)
    if sprt is not None:
        sprt.check_games(config.games)
        if config.threshold is not None:
            raise UsageError("evaluate --threshold and --sprt: each decides the match; wanted one of them")
        config = config.model_copy(update={"parallel_games": min(config.parallel_games, SPRT_PARALLEL_GAMES)})
    champion = load_entrant(config.black_model, config.readouts)
    conditions = [parse_condition(text, config.readouts) for text in config.require]
    if not config.promote:  # then a preset's condition may be about this match's champion, which it meets anyway
        conditions = [one for one in conditions if one.opponent.name != champion.name]
    _finish_promotions(config, champion, progress)
    challenger = load_entrant(_challenger(config, champion), config.readouts)
    entrants = (challenger, champion)
    check_different(challenger, champion)
    check_conditions(config, entrants, conditions)
    game = common_game(config.game, [champion, challenger, *(one.opponent for one in conditions)])
    _check_rule(config, game, entrants)
    rule = Rule(config.games, config.threshold, sprt, config.exclude_duplicates, game.max_result)
    folder = config.output_dir / layout.match_name(challenger.name, champion.name)
    with MatchRunner(config, game, progress) as runner, match_lock(folder):
        settings = {"sprt": config.sprt, "exclude_duplicates": config.exclude_duplicates}
        # A match with an engine or a handicap can't promote, nor one with --no-promote. It is a measurement, played to
        # its end in spite of a threshold, which a preset may have set for matches that promote. Only a sequential test
        # ends it early.
        both = challenger.model and champion.model
        can_promote = config.promote and bool(both) and handicap_side_of(entrants) is None
        summary = _play(config, runner, folder, entrants, rule, settings, can_promote or sprt is not None)
        for condition in conditions:
            if summary.passed:
                progress.say(f"promotion condition: {condition.text}")
                summary = _play_condition(config, runner, challenger, condition, summary)
        before = read_summary(folder) or {PENDING: True}
        summary = _conclude(config, summary, entrants, progress)
        # Otherwise an earlier run has tracked it; one that only measured tracked no promotion.
        if before.get(PENDING) or (summary.promoted and not before.get("promoted")):
            _track(config, summary, challenger, conditions, can_promote, progress)
        return summary


# Choosing


def _home(champion: Entrant) -> Path | None:
    """The folder whose best_model may be re-pointed; None if the champion isn't a model."""
    if champion.spec.path is None or champion.spec.given is None:
        return None
    return home_of(champion.spec.given, champion.spec.path)


def _is_by_link(champion: Entrant) -> bool:
    """Whether the champion was given as best_model, not by its own name."""
    return champion.spec.given is not None and champion.spec.given.name == layout.CHAMPION


def _challenger(config: EvaluateConfig, champion: Entrant) -> str:
    """The given player, else the newest model since the champion that hasn't finished a match with it."""
    if config.white_model is not None:
        return config.white_model
    home = _home(champion)
    if home is None or champion.spec.path is None:
        raise UsageError(f"evaluate --white-model: not given; against {champion.name} there is no newest model to take")
    path, newer = next_challenger(config.output_dir, home, champion.spec.path, champion.name)
    if path is not None:
        return str(path)
    found = f"newer ones: {newer}, all have played it" if newer else "no model is newer"
    again = ", or name one of them with --white-model" if newer else ""
    raise NotYet(f"evaluate: no new challenger for {champion.name} in {home} ({found}); run train first{again}", 1)


def next_challenger(matches: Path, home: Path, champion: Path, name: str) -> tuple[Path | None, int]:
    """(the newest model since the champion that hasn't finished a match with it, the number of newer ones seen).

    name: the champion's in matches
    """
    current = layout.number_of(champion.name)
    newer = 0
    for path in newest_models(home):
        number = layout.number_of(path.name)
        if number is None or (current is not None and number <= current):
            break  # older models needn't be looked at
        if path.name == champion.name:
            continue
        newer += 1
        summary = read_summary(matches / layout.match_name(path.name, name))
        if summary is None or summary.get(PENDING):
            return path, newer
    return None, newer


def _check_rule(config: EvaluateConfig, game: Game, entrants: Sides) -> None:
    """Raises UsageError for options that don't fit what the game counts."""
    if game.max_result == 1:
        if config.threshold is not None and config.threshold < 0:
            raise UsageError(
                f"evaluate --threshold: found {config.threshold:g}; wanted at least 0, a share of the points: a game "
                f"of {game.spec} counts 1"
            )
        return
    counts = f"{game.spec} counts up to {game.max_result:g} points"
    if config.sprt is not None:
        raise UsageError(
            f"evaluate --sprt: {counts}, and the sequential test is about wins; wanted --threshold, or nothing for the "
            "derived one"
        )
    if config.threshold is None and all(one.model for one in entrants) and config.games < 2 * LEAST_PAIRS:
        raise UsageError(
            f"evaluate --games {config.games}: {counts}, about which so few games show nothing; wanted at least "
            f"{2 * LEAST_PAIRS}, or --threshold"
        )


# Playing


def _play(
    config: EvaluateConfig,
    runner: MatchRunner,
    folder: Path,
    entrants: Sides,
    rule: Rule,
    settings: dict[str, Any],
    stops_early: bool,
) -> EvaluateSummary:
    """Play the match to its end, or with stops_early until it is decided. Call it under the match's lock."""
    # A promotion condition's share may change between runs without making its games invalid, so the match omits it.
    threshold = rule.threshold if settings else None
    needed = not stops_early or deciding_games(rule, {}) is None
    writer = runner.open(folder, entrants, rule.games, threshold, settings, needed)
    try:
        runner.play(
            writer,
            entrants,
            lambda so_far: stops_early and deciding_games(rule, so_far.games) is not None,
            lambda so_far: score_so_far(rule, so_far.games, stops_early),
        )
    finally:
        write_sgfs(runner.game, writer, config.sgf_output)
    checked_results(folder, keep=True)
    summary = summarise(rule, writer, whole=not stops_early)
    if stops_early and not match_status(rule, writer.games).decided:
        last = writer.failures[-1].problem if writer.failures else "unknown"
        raise MuGoError(
            f"{folder}: {summary.failed} games failed twice (the last: {last}) and the decision depends on them; fix "
            "the cause and run it again: only these games are played"
        )
    return summary


def _play_condition(
    config: EvaluateConfig, runner: MatchRunner, challenger: Entrant, condition: Condition, summary: EvaluateSummary
) -> EvaluateSummary:
    """Play a promotion condition's match; returns the summary with its result added."""
    rule = Rule(config.require_games, condition.share, max_result=runner.game.max_result)
    folder = condition.folder(config, challenger)
    with match_lock(folder):
        stops_early = config.promote and (condition.share > 0 or rule.by_points)
        match = _play(config, runner, folder, (challenger, condition.opponent), rule, {}, stops_early)
        write_summary(folder, stored(match))
    played = (match.games_played, match.wins, match.draws, match.losses)
    share = match.share if match.points is None else match.points.per_game
    result = ConditionResult(match.passed, *played, share, needed=condition.share, match=match.match)
    summary = replace(summary, conditions={**summary.conditions, condition.text: result})
    if match.passed:
        return summary
    points = f"{match.wins + match.draws / 2:g} points of {match.games_played} games"
    if match.points is not None:
        points = f"{match.points.per_game:+.3f} points a game in {match.games_played} games"
    return replace(summary, passed=False, reason=f"{summary.reason}; {condition.text} not met: {points}")


# Concluding


def _track(
    config: EvaluateConfig,
    summary: EvaluateSummary,
    challenger: Entrant,
    conditions: Sequence[Condition],
    can_promote: bool,
    progress: Progress,
) -> None:
    """Add the point of a challenger that is a model, if a game was played.

    Names of conditions' matches and of matches that can't promote include the opponent.
    """
    values: dict[str, Value] = {}
    game = parse_game(summary.game)
    if summary.games_played:
        place = "" if can_promote else against(summary.champion)
        points = None if summary.points is None else summary.points.per_game
        values |= score_values(place, Score(summary.wins, summary.draws, summary.losses), points)
        values[f"{place}plies_per_game"] = summary.average_length
        if summary.elo is not None:
            values[f"{place}elo_difference"] = summary.elo
    for condition in conditions:
        if (found := summary.conditions.get(condition.text)) is not None:
            score = Score(found.wins, found.draws, found.losses)
            points = found.share if game.max_result > 1 else None
            values |= score_values(against(condition.opponent.name), score, points)
    if challenger.model is None or not values:
        return
    if can_promote:
        values["promoted"] = float(summary.promoted)
    folders = folders_of_matches(config)
    if sum(len(list_matches(folder)) for folder in folders) <= MOST_RATED:
        with suppress(MuGoError):  # damaged matches, games of several kinds: `ratings` says so
            for one in rate(read_matches(folders)).ratings.anchored:
                if one.name == challenger.info.rated_as:
                    values["elo"] = one.bradley_terry
    home = layout.home_of_matches(config.output_dir)
    with Tracker(config, home, place_of("evaluate"), "evaluate/step", progress) as tracker:
        tracker.add(values, step_of(challenger.model.info.manifest))


def _conclude(config: EvaluateConfig, summary: EvaluateSummary, entrants: Sides, progress: Progress) -> EvaluateSummary:
    """Write the summary and promote, unless an earlier run has. After a kill in between, the next run completes it."""
    challenger, champion = entrants
    folder, home, model = Path(summary.match), _home(champion), challenger.spec.path

    def end(promoted: bool, outcome: str, marks: dict[str, Any]) -> EvaluateSummary:
        ended = replace(summary, promoted=promoted, reason=f"{summary.reason}; {outcome}")
        write_summary(folder, {**stored(ended), **marks})
        return ended

    before = read_summary(folder) or {}
    if model is not None and _was_promoted(before, home, entrants):
        missed = PENDING in before or NOT_IN_POOL in before
        return end(True, "promoted", _join_pool(config, model, progress) if missed else {})
    why_not = _why_not(config, home, entrants)
    if not summary.passed or why_not:
        # A promotion that a kill cut off stays for a run that may promote.
        marks = {PENDING: True} if summary.passed and not config.promote and before.get(PENDING) else {}
        return end(False, "not promoted" + (f": {why_not}" if summary.passed else ""), marks)
    assert home is not None and champion.spec.path is not None and model is not None
    values = stored(summary)
    write_summary(folder, {**values, PENDING: True})
    entry = {"by": "evaluate", "challenger": summary.challenger, "over": summary.champion}
    entry |= {name: values[name] for name in IN_JOURNAL if name in values}
    present = set_champion(home, model, entry, over=champion.spec.path)
    if present == model:
        return end(True, "promoted", _join_pool(config, model, progress))
    who = present.name if present else "missing"
    outcome = f"not promoted: {layout.CHAMPION} is now {who}, the match was against {champion.name}"
    ended = end(False, outcome, {})
    progress.warn(ended.reason)
    return ended


def _was_promoted(before: dict[str, Any], home: Path | None, entrants: Sides) -> bool:
    """Whether an earlier run, which left the summary `before`, has promoted the challenger, which still stands."""
    if home is None or not (before.get("promoted") or before.get(PENDING)):
        return False
    challenger, champion = entrants
    present = present_champion(home)
    # Pending, and the kill came after best_model was re-pointed.
    return present == challenger.spec.path if before.get(PENDING) else present != champion.spec.path


def _why_not(config: EvaluateConfig, home: Path | None, entrants: Sides) -> str:
    """Why a challenger that has passed isn't promoted; "" if it is."""
    challenger, champion = entrants
    for entrant in entrants:
        if entrant.spec.path is None:
            return f"{entrant.name} isn't a model"
        if entrant.spec.handicap:
            return f"{entrant.name} took handicap stones"
    if challenger.spec.path == champion.spec.path:
        return f"{challenger.name} is the champion itself"
    if not config.promote:
        return "--no-promote"
    # A player given as best_model was the champion when the match began.
    is_champion = home is not None and present_champion(home) == champion.spec.path
    return "" if _is_by_link(champion) or is_champion else f"{champion.name} isn't the champion"


def _join_pool(config: EvaluateConfig, model: Path, progress: Progress) -> dict[str, Any]:
    """Add a promoted model to the pool; returns the mark for the summary, with which the next run tries again."""
    try:
        pool("add", str(model), config.pool, config.ratings, progress=progress)
    except MuGoError as error:
        progress.warn(f"{model.name} was promoted but couldn't join the pool: {error}")
        return {NOT_IN_POOL: True}
    return {}


def _finish_promotions(config: EvaluateConfig, champion: Entrant, progress: Progress) -> None:
    """Complete this champion's promotion after a kill or an error: journal, summary, place in the pool."""
    home, model = _home(champion), champion.spec.path
    if home is not None:
        atomic.sweep(home)  # what a kill left beside best_model
        read_promotions(home)
    is_champion = home is not None and present_champion(home) == model
    # Its name may say with how many readouts it plays: the match that promoted it was won without that.
    names = [champion.name] if model is None else sorted({champion.name, model.name})
    for folder in [match for name in names for match in list_matches(config.output_dir, name)]:
        atomic.sweep(folder)
        summary = read_summary(folder)
        if model is None or summary is None or not (PENDING in summary or NOT_IN_POOL in summary):
            continue
        if PENDING in summary and not is_champion:
            continue  # killed before best_model was re-pointed
        if summary.pop(PENDING, False):
            summary.update(promoted=True, reason=f"{summary.get('reason', '')}; promoted")
        summary.pop(NOT_IN_POOL, None)
        write_summary(folder, {**summary, **_join_pool(config, model, progress)})
