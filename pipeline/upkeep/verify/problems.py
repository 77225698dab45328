"""The result of checks: counts by subject, problems, and remarks.

A *subject* is a row of the table that verify prints. A *problem* says where it is, what was found, what was wanted and
what to do. A *remark* is worth knowing, but no problem. A file that disappears while it is checked is no problem: the
run may be active.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import FileError, MuGoError

GAMES, CHUNKS, MODELS, MATCHES, OTHERS, LEFT_OVER = "games", "chunks", "models", "matches", "other files", "left over"
RECENT = 100  # problems that are searched for duplicates, since two checks may find the same one
SUBJECTS = (GAMES, CHUNKS, MODELS, MATCHES, OTHERS, LEFT_OVER)


@dataclass(frozen=True)
class Problem:
    """text: found; wanted; next step. repaired: the problem is solved."""

    subject: str
    where: str
    text: str
    repaired: bool = False


@dataclass
class Findings:
    """Collects the results of the checks of one run.

    directory  the run's; paths are shown relative to it
    counts     of what was checked, by subject and unit, e.g. counts["games"]["shard"]
    """

    directory: Path
    counts: dict[str, dict[str, int]] = field(default_factory=lambda: {subject: {} for subject in SUBJECTS})
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def count(self, subject: str, unit: str, number: int = 1) -> None:
        """unit: in the singular."""
        self.counts[subject][unit] = self.counts[subject].get(unit, 0) + number

    def problem(self, subject: str, where: Path | str, text: str, repaired: bool = False) -> None:
        shown = os.path.relpath(where, self.directory) if isinstance(where, Path) else where
        found = Problem(subject, shown, text, repaired)
        if not any((one.where, one.text) == (found.where, found.text) for one in self.problems[-RECENT:]):
            self.problems.append(found)

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    @contextmanager
    def checking(self, subject: str, path: Path) -> Iterator[None]:
        """Turns errors raised in the block into problems of this subject, unless `path` is gone by then."""
        try:
            yield
        except MuGoError as error:
            if os.path.lexists(path):
                where, text = (error.path, error.problem) if isinstance(error, FileError) else (path, str(error))
                self.problem(subject, where, text)
