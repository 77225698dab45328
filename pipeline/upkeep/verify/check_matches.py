"""Matches: every game is legal and ended as recorded, and every summary agrees with the games.

An undecided match has no summary, and a game that a kill interrupted isn't recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import FileError
from pipeline.evaluate.promotion import Rule, deciding_games, match_status, rule_of
from pipeline.matches.statistics import Score
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.run.evaluations import Evaluation, Result, list_evaluations, read_evaluation
from pipeline.run.matches import MEASURED, Match, has_match, list_matches, read_match, read_summary, verify_match
from pipeline.upkeep.verify.problems import MATCHES, Findings

REMEDY = "remove it and run `evaluate --watch` again: it is made from the games"
SCORE = ("wins", "draws", "losses")


def check_matches(directories: Sequence[Path], findings: Findings, progress: Progress, since: int = -1) -> None:
    """since: only matches of models with at least this number; -1: all."""
    folders = [folder for directory in directories for folder in list_matches(directory, since=since)]
    for folder in progress.each(folders, "checking matches", "matches"):
        games = folder / layout.MATCH_GAMES
        with findings.checking(MATCHES, games):
            summary = read_summary(folder)  # before the games: more may be added meanwhile
            match = read_match(folder, with_summary=False)
            verify_match(match)
            if layout.parse_match_name(folder.name) != (match.header.challenger, match.header.champion):
                found = f"a match of {match.header.challenger} with {match.header.champion}"
                raise FileError(games, f"{found}; wanted the players of its folder's name; was it renamed?")
            findings.count(MATCHES, "match")
            findings.count(MATCHES, "game", len(match.games))
            if summary is not None:
                _check_summary(match, summary)
                findings.count(MATCHES, "summary")


def check_evaluations(directory: Path, findings: Findings, since: int = -1) -> None:
    """Check that the results of evaluate --watch in this folder agree with the games. since: as in check_matches."""
    for path in list_evaluations(directory, since):
        with findings.checking(MATCHES, path):
            found = read_evaluation(path)
            for one in found.results:
                _check_result(path, found, one)
            findings.count(MATCHES, "evaluation")


def _check_result(path: Path, found: Evaluation, one: Result) -> None:
    """Raises FileError unless the result agrees with the games of its match."""
    folder = path.parent / one.match
    if not has_match(folder):
        return
    match = read_match(folder, with_summary=False)
    sign = 1 if match.header.players[0].rated_as == found.rated_as else -1
    score = Score.of(sign * game.challenger_result for game in match.games)
    said = (one.wins, one.draws, one.losses)
    if said != (score.wins, score.draws, score.losses) and one.games == len(match.games):
        raise FileError(
            path, f"{said} against {one.opponent}; the games say {(score.wins, score.draws, score.losses)}; {REMEDY}"
        )


def _check_summary(match: Match, summary: Mapping[str, Any]) -> None:
    """Raises FileError unless score and decision agree with the games."""
    path = match.folder / layout.MATCH_SUMMARY
    remedy = "remove it and run the same evaluate again: it is made from the games"
    rule = rule_of(match.header)
    if match.folder.parent.name == layout.REQUIRED:  # each evaluate sets its own threshold
        threshold = summary.get("threshold")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float | None):
            raise FileError(path, f"its threshold is {str(threshold)[:40]!r}; wanted a share of points; {remedy}")
        rule = Rule(rule.games, threshold, max_result=rule.max_result)
    games = {game.index: game for game in match.games}
    measured = summary[MEASURED]
    if measured not in (rule.games, deciding_games(rule, games)):
        raise FileError(path, f"it says that the first {measured} games decide the match; they don't; {remedy}")
    status = match_status(rule, {number: game for number, game in games.items() if number < measured})
    score = tuple(getattr(status.score, name) for name in SCORE)
    said = tuple(summary.get(name) for name in SCORE)
    if said != score:
        raise FileError(path, f"its wins, draws and losses are {said}; the games say {score}; {remedy}")
    conditions = summary.get("conditions")
    results = conditions.values() if isinstance(conditions, dict) else ()
    met = all(isinstance(one, dict) and one.get("passed") for one in results)
    if bool(summary.get("passed")) != (status.passed and met):
        found, wanted = ("passed", "not passed") if summary.get("passed") else ("not passed", "passed")
        raise FileError(path, f"it says that the challenger has {found}; by the games it has {wanted}; {remedy}")
