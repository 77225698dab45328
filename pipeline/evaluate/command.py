"""``evaluate``: the newest model plays the champion, and takes its place if it wins enough.

Reads two players, models mostly; writes a match folder and, after a win, best_model and the pool of opponents.
Finished games count: a killed match goes on where it stood and comes to the verdict it would have come to. It stops
as soon as the games left can't change the verdict, so rates are those of the games played, of which the short ones
finish first. Further conditions (--require) are matches of their own, played when the first is won.

White is the challenger, black the champion, whatever colour each has in a game.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.config import EvaluateConfig
from pipeline.errors import MuGoError, NotYet, UsageError
from pipeline.evaluate.promotion import MatchStatus, Rule, match_status
from pipeline.evaluate.sprt import Sprt
from pipeline.evaluate.summary import ConditionResult, EvaluateSummary, summarise
from pipeline.matches.runner import Entrant, MatchRunner, common_game, load_entrant, write_sgfs
from pipeline.progress import SILENT, Progress
from pipeline.ratings.pool import remember_champion
from pipeline.storage import layout
from pipeline.storage.matches import (
    MatchWriter,
    has_match,
    list_matches,
    match_lock,
    read_match,
    read_summary,
    write_summary,
)
from pipeline.storage.models import list_models, set_champion

TESTED_AT_ONCE = 64  # games, for a sequential test: those begun beyond the pair that decides are played for nothing
PENDING = "promotion_pending"  # in summary.json: the verdict is in, best_model may not be re-pointed yet


@dataclass(frozen=True)
class Condition:
    """``random>=0.95``: the challenger must make this share of the points against that player."""

    text: str
    player: str
    share: float


def parse_condition(text: str) -> Condition:
    """Raises UsageError for what isn't PLAYER>=SHARE."""
    player, sign, number = text.rpartition(">=")
    try:
        share = float(number)
    except ValueError:
        share = math.nan
    if not player.strip() or not sign or not 0 < share <= 1:
        raise UsageError(
            f"evaluate --require {text!r}: wanted PLAYER>=SHARE with a share from 0 to 1, e.g. 'random>=0.95'"
        )
    return Condition(text, player.strip(), share)


def evaluate(config: EvaluateConfig, progress: Progress = SILENT) -> EvaluateSummary:
    """Play, or finish, a match, and promote the challenger if it passed. See the module docstring.

    Raises NotYet if there is no challenger or another process plays this match, UsageError for an odd number of games
    or a player against itself, FileError for models that can't be loaded, that play different games, or a match begun
    with other settings, MuGoError if the verdict hangs on games that failed; KeyboardInterrupt after recording what
    was finished.
    """
    for name, number in (("--games", config.games), ("--require-games", config.require_games)):
        if number % 2:
            raise UsageError(f"evaluate {name} {number}: wanted an even number, so that each side begins half of them")
    sprt = None if config.sprt is None else Sprt.parse(config.sprt)
    if sprt is not None:
        sprt.check_games(config.games)
        if config.threshold is not None:
            raise UsageError("evaluate --threshold and --sprt: each decides the match; wanted one of them")
    guards = [parse_condition(text) for text in config.require]
    champion = load_entrant(config.black_model, config.readouts)
    home = _home(config, champion)
    _settle(config, champion, progress)
    challenger = load_entrant(_challenger(config, champion, home), config.readouts)
    against = [load_entrant(condition.player, config.readouts) for condition in guards]
    _check_different(challenger, champion)
    _check_conditions(config, challenger, champion, guards, against)
    if sprt is not None:
        config = config.model_copy(update={"parallel_games": min(config.parallel_games, TESTED_AT_ONCE)})
    runner = MatchRunner(config, common_game(config.game, [champion, challenger, *against]), progress)
    rule = Rule(config.games, config.threshold, sprt, config.exclude_duplicates)
    folder = _folder(config, challenger, champion)
    with match_lock(folder):
        settings = {"sprt": config.sprt, "exclude_duplicates": config.exclude_duplicates}
        # Nobody is promoted over an engine: unless a verdict is asked for, such a match is measured to its end.
        at_stake = bool(challenger.model and champion.model) or (config.threshold, sprt) != (None, None)
        writer, status = _play(runner, folder, (challenger, champion), rule, settings, at_stake)
        summary = summarise(rule, writer, status)
        if not status.decided and at_stake:
            _refuse_undecided(summary, writer)
        if status.passed:
            summary = _check_condition(config, runner, challenger, guards, against, summary, progress)
        return _conclude(config, summary, challenger, champion, home, progress)


# Choosing


def _home(config: EvaluateConfig, champion: Entrant) -> Path | None:
    """The folder whose best_model this match is about; None if the champion is no model."""
    if champion.spec.path is None:
        return None
    given = Path(config.black_model)
    return given.parent if given.name == layout.CHAMPION else champion.spec.path.parent


def _challenger(config: EvaluateConfig, champion: Entrant, home: Path | None) -> str:
    """The player asked for, or the newest model that is newer than the champion and has no finished match with it."""
    if config.white_model is not None:
        return config.white_model
    if home is None or champion.spec.path is None:
        raise UsageError(f"evaluate --white-model: not given; against {champion.name} there is no newest model to take")
    ours = layout.parse_model_name(champion.spec.path.name)
    newer = []
    for path in list_models(home):
        name = layout.parse_model_name(path.name)
        if name is not None and (ours is None or name.number > ours.number) and path.name != champion.spec.path.name:
            newer.append(path)
    for path in reversed(newer):
        summary = read_summary(config.output_dir / layout.match_name(path.name, champion.name))
        if summary is None or summary.get(PENDING):
            return str(path)
    found = f"newer ones: {len(newer)}, all have played it" if newer else "no model is newer"
    raise NotYet(
        f"evaluate: no new challenger for {champion.name} in {home} ({found}); 1 more model needed: run train first", 1
    )


def _check_different(challenger: Entrant, other: Entrant, where: str = "--white-model") -> None:
    """A player may meet itself only under another name: nobody does that by mistake."""
    same = challenger.info.weights == other.info.weights and challenger.info.readouts == other.info.readouts
    if challenger.model and same and not (challenger.spec.own_name or other.spec.own_name):
        who = "champion" if where == "--white-model" else "challenger"
        raise UsageError(
            f"evaluate {where} {other.spec.text}: it is the {who} itself; wanted another player, or another name for "
            "it: NAME=PLAYER"
        )
    if challenger.name == other.name:
        raise UsageError(
            f"evaluate {where}: both players are called {other.name}; give one a name of its own: NAME=PLAYER"
        )


def _check_conditions(
    config: EvaluateConfig,
    challenger: Entrant,
    champion: Entrant,
    guards: Sequence[Condition],
    against: Sequence[Entrant],
) -> None:
    """Whatever makes a further condition impossible is said before anything is played."""
    names = [entrant.name for entrant in against]
    for condition, entrant in zip(guards, against, strict=True):
        where = f"--require {condition.text!r}"
        _check_different(challenger, entrant, where)
        if entrant.name == champion.name:
            raise UsageError(f"evaluate {where}: that is the champion of this match; use --threshold")
        if names.count(entrant.name) > 1:
            raise UsageError(
                f"evaluate {where}: {entrant.name} is asked for {names.count(entrant.name)} times; wanted once"
            )
        folder = _condition_folder(config, challenger, entrant)
        if has_match(folder) and (begun := read_match(folder).header.games) != config.require_games:
            raise UsageError(
                f"evaluate --require-games {config.require_games}: {folder} was begun with {begun}; go on with that, "
                "or remove the folder"
            )


def _folder(config: EvaluateConfig, challenger: Entrant, other: Entrant) -> Path:
    return config.output_dir / layout.match_name(challenger.name, other.name)


def _condition_folder(config: EvaluateConfig, challenger: Entrant, other: Entrant) -> Path:
    """Apart from matches that somebody asked for by name, whose settings may be others."""
    return config.output_dir / layout.REQUIRED / layout.match_name(challenger.name, other.name)


# Playing


def _play(
    runner: MatchRunner,
    folder: Path,
    entrants: tuple[Entrant, Entrant],
    rule: Rule,
    settings: dict[str, Any],
    at_stake: bool,
) -> tuple[MatchWriter, MatchStatus]:
    """The match as far as it must be played: until it is decided, where there is something to decide.

    Call it under the match's lock.
    """
    # The share that a further condition asks for isn't part of its match: it may change, the games stay.
    threshold = rule.threshold if settings else None
    writer = runner.open(folder, entrants, rule.games, threshold, settings)
    try:
        runner.play(writer, entrants, lambda so_far: at_stake and match_status(rule, so_far.games).decided)
    finally:
        write_sgfs(runner.game, writer, runner.config.sgf_output)  # type: ignore[attr-defined]
    return writer, match_status(rule, writer.games)


def _check_condition(
    config: EvaluateConfig,
    runner: MatchRunner,
    challenger: Entrant,
    guards: Sequence[Condition],
    against: Sequence[Entrant],
    summary: EvaluateSummary,
    progress: Progress,
) -> EvaluateSummary:
    """Play the further conditions, until one fails."""
    for condition, entrant in zip(guards, against, strict=True):
        progress.say(f"further condition: {condition.text}")
        rule = Rule(config.require_games, condition.share)
        folder = _condition_folder(config, challenger, entrant)
        with match_lock(folder):
            writer, status = _play(runner, folder, (challenger, entrant), rule, {}, True)
            theirs = summarise(rule, writer, status)
            if not status.decided:
                _refuse_undecided(theirs, writer)
            write_summary(folder, asdict(theirs))
        score = status.score
        result = ConditionResult(
            status.passed, score.games, score.wins, score.draws, score.losses, score.share, condition.share, str(folder)
        )
        summary = replace(summary, guards={**summary.guards, condition.text: result})
        if not status.passed:
            reason = (
                f"{summary.reason}; {condition.text} not met: {score.half_points / 2:g} points of {score.games} games"
            )
            return replace(summary, passed=False, reason=reason)
    return summary


def _refuse_undecided(summary: EvaluateSummary, writer: MatchWriter) -> None:
    """Where the verdict hangs on games that failed twice, there is none yet."""
    last = writer.failures[-1].problem if writer.failures else "unknown"
    raise MuGoError(
        f"{writer.folder}: {summary.failed} games failed twice (the last: {last}) and the verdict hangs on them; mend "
        "that and run it again: only they are played"
    )


# Concluding


def _conclude(
    config: EvaluateConfig,
    summary: EvaluateSummary,
    challenger: Entrant,
    champion: Entrant,
    home: Path | None,
    progress: Progress,
) -> EvaluateSummary:
    """Write the summary and promote. Killed in between, the next run finds the promotion pending and makes it."""
    folder = Path(summary.match)
    why_not = _why_not(config, challenger, champion)
    if not summary.passed or why_not:
        outcome = "not promoted" + (f": {why_not}" if summary.passed else "")
        summary = _with_outcome(summary, False, outcome)
        write_summary(folder, asdict(summary))
        return summary
    assert home is not None and champion.spec.path is not None and challenger.spec.path is not None
    write_summary(folder, {**asdict(summary), PENDING: True})
    told = "games games_played wins draws losses threshold points_needed tail_probability match sprt guards reason"
    values = asdict(summary)
    entry = {
        "by": "evaluate",
        "challenger": summary.challenger,
        "over": summary.champion,
        **{name: values[name] for name in told.split()},
    }
    present = set_champion(home, challenger.spec.path, entry, over=champion.spec.path)
    if present == challenger.spec.path:
        summary = _with_outcome(summary, True, "promoted")
        _join_pool(config, home / challenger.spec.path.name, progress)
    else:
        who = present.name if present else "missing"
        summary = _with_outcome(
            summary, False, f"not promoted: {layout.CHAMPION} is {who} by now, the match was against {champion.name}"
        )
        progress.warn(summary.reason)
    write_summary(folder, asdict(summary))
    return summary


def _why_not(config: EvaluateConfig, challenger: Entrant, champion: Entrant) -> str:
    """What speaks against promoting a challenger that has passed; empty if nothing does."""
    for entrant in (challenger, champion):
        if entrant.spec.path is None:
            return f"{entrant.name} is no model"
    if challenger.spec.path == champion.spec.path:
        return f"{challenger.name} is the champion itself"
    return "" if config.promote else "--no-promote"


def _join_pool(config: EvaluateConfig, model: Path, progress: Progress) -> None:
    """Trouble with the pool doesn't undo a promotion, nor may it keep the summary from telling of it."""
    try:
        remember_champion(config.pool, config.ratings, str(model), progress)
    except MuGoError as error:
        progress.warn(f"{model.name} was promoted, but doesn't join the pool: {error}")


def _with_outcome(summary: EvaluateSummary, promoted: bool, outcome: str) -> EvaluateSummary:
    return replace(summary, promoted=promoted, reason=f"{summary.reason}; {outcome}")


def _settle(config: EvaluateConfig, champion: Entrant, progress: Progress) -> None:
    """Where a kill came between a promotion and the summary's last word, say it now."""
    for folder in list_matches(config.output_dir):
        parts = layout.parse_match_name(folder.name)
        if parts is not None and parts[0] == champion.name:
            summary = read_summary(folder)
            if summary is not None and summary.pop(PENDING, False):
                if champion.spec.path is not None:
                    _join_pool(config, champion.spec.path, progress)
                summary.update(promoted=True, reason=f"{summary['reason']}; promoted")
                write_summary(folder, summary)
