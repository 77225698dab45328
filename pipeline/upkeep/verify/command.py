"""``verify``: checks the integrity of a run's files. Reads each of them once.

Replays games, compares checksums and counts, searches chunks for games of their hold-out, and decides promotions again
from the games of their matches. Leftovers of killed processes are problems until the next command or ``repair`` removes
them; files of running processes are not. The run may be active, finished, or a copy from elsewhere. Needs memory for
twelve bytes per game, one set of chunks and one match. With ``newest`` it stops after so many positions, and the cost
doesn't grow with the run.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import FileError, NotYet
from pipeline.phrases import counted, duration
from pipeline.progress import SILENT, Progress
from pipeline.reports.run_files import RunFiles, scan_run
from pipeline.reports.tables import table
from pipeline.run import atomic, layout
from pipeline.run.layout import Run
from pipeline.run.models import pending_promotion, read_promotions
from pipeline.run.packs import packing
from pipeline.run.pruned import read_pruned
from pipeline.run.ratings import read_pool, read_ratings
from pipeline.train.checkpoint import finished_checkpoints
from pipeline.upkeep.config import VerifyConfig
from pipeline.upkeep.verify.check_games import check_chunks, check_games
from pipeline.upkeep.verify.check_matches import check_evaluations, check_matches
from pipeline.upkeep.verify.check_models import check_models
from pipeline.upkeep.verify.problems import LEFT_OVER, OTHERS, SUBJECTS, Findings, Problem

PROBLEMS_SHOWN = 40  # unless all are asked for
PLURALS = {"match": "matches", "summary": "summaries"}


@dataclass(frozen=True)
class VerifySummary:
    """What was checked, and what is wrong.

    checked  counts by subject and unit
    remarks  worth knowing, but no problems
    clean    no problem is left
    """

    directory: Path
    checked: dict[str, dict[str, int]]
    problems: list[Problem]
    remarks: list[str]
    clean: bool
    seconds: float

    def lines(self, whole: bool = False) -> list[str]:
        """A table of counts, then one line per problem. whole: all problems."""
        rows = [
            (
                subject,
                ", ".join(counted(number, unit, PLURALS.get(unit, "")) for unit, number in units.items()) or "none",
                str(sum(problem.subject == subject for problem in self.problems)),
            )
            for subject, units in self.checked.items()
        ]
        lines = table(rows, ("what", "checked", "problems")).splitlines()
        shown = self.problems if whole else self.problems[:PROBLEMS_SHOWN]
        lines += [f"{'repaired: ' if one.repaired else ''}{one.where}: {one.text}" for one in shown]
        if len(shown) < len(self.problems):
            lines.append(f"… and {len(self.problems) - len(shown):,} more problems; --verbose 2 shows all")
        lines += [f"note: {remark}" for remark in self.remarks]
        left = sum(not problem.repaired for problem in self.problems)
        found = counted(left, "problem") if left else "all is well"
        return [*lines, f"{self.directory}: {found}, checked in {duration(self.seconds)}"]


def verify(config: VerifyConfig, progress: Progress = SILENT) -> VerifySummary:
    """Check the run in a folder, and with config.repair remove leftovers and restore a lost best_model.

    Raises FileError if the folder is not that of a run, or something can't be removed.
    """
    start = time.monotonic()
    run = Run.at(config.directory)
    files = scan_run(run.folder, whole=config.newest is None)
    findings = Findings(run.folder)
    known = check_games(run.games, files.num_shards, findings, progress, config.newest)
    since = -1 if config.newest is None or known.oldest is None else known.oldest
    check_chunks(run.chunks, known, findings, progress)
    check_models(run.models, findings, progress, since, config.repair)
    check_matches(run.match_folders, findings, progress, since)
    check_evaluations(run.watch, findings, since)
    if not known.is_whole:
        findings.remark("older games were not checked: --newest")
    if since > 0:
        findings.remark(f"models and matches before generation {since} were not checked: --newest")
    _check_pool_and_ratings(run, config.repair, findings)
    _check_left_over(run, files, config.repair, findings)
    return VerifySummary(
        directory=run.folder,
        checked=findings.counts,
        problems=sorted(findings.problems, key=lambda problem: SUBJECTS.index(problem.subject)),
        remarks=findings.remarks,
        clean=all(problem.repaired for problem in findings.problems),
        seconds=time.monotonic() - start,
    )


def _check_pool_and_ratings(run: Run, repair: bool, findings: Findings) -> None:
    if run.pruned.exists():
        with findings.checking(OTHERS, run.pruned):
            read_pruned(run.games)
            findings.count(OTHERS, "list of pruned games")
    if run.pool.exists():
        with findings.checking(OTHERS, run.pool):
            read_pool(run.pool)
            findings.count(OTHERS, "pool")
    if run.ratings.exists():
        try:
            read_ratings(run.ratings)
            findings.count(OTHERS, "file of ratings")
        except FileError as error:
            if repair:
                atomic.remove([run.ratings])  # a copy of what the match records say
            findings.problem(OTHERS, error.path, error.problem, repaired=repair)


def _check_left_over(run: Run, files: RunFiles, repair: bool, findings: Findings) -> None:
    """Files that no process will resume."""
    for error in files.unreadable:
        findings.problem(LEFT_OVER, error.path, error.problem)
    findings.count(LEFT_OVER, "temporary file", len(files.temporaries))
    findings.count(LEFT_OVER, "uncommitted shard", len(files.uncommitted))
    findings.count(LEFT_OVER, "checkpoint", len(files.checkpoints))
    for path in files.temporaries:
        if atomic.is_left_over(path.name):
            _take_away(run.folder / path, "a temporary file of a killed process; nothing reads it", repair, findings)
    old = f"{datetime.now(UTC) - atomic.LONGEST_WRITE:{layout.TIME_FORMAT}}"
    uncommitted = [run.folder / path for path in files.uncommitted if path.name < old]
    with ExitStack() as stack:
        is_alone = True
        if repair and uncommitted:
            try:
                stack.enter_context(packing(run.games))
            except NotYet as error:
                is_alone = False
                findings.remark(f"nothing without a .meta file is removed: {error}")
        for path in uncommitted:
            if not layout.meta_path(path).exists():  # checked again: a pack may have been committed since the scan
                found = "a shard without its .meta file, a day old; nothing reads it"
                _take_away(path, found, repair and is_alone, findings)
    for path in finished_checkpoints(run.models):
        _take_away(path, "the checkpoint of a training that has ended", repair, findings)
    if repair and pending_promotion(run.models) is not None:
        read_promotions(run.models)  # which completes the journal


def _take_away(path: Path, found: str, repair: bool, findings: Findings) -> None:
    """Report a leftover, and with repair remove it. Ignores files that were renamed or removed since the scan."""
    if not os.path.lexists(path):
        return
    if repair:
        atomic.remove_tree(path)
    remedy = "wanted nothing left over; `python main.py verify --repair` removes it"
    findings.problem(LEFT_OVER, path, "removed: " + found if repair else f"{found}; {remedy}", repaired=repair)
