"""What a check has found: counts by subject, problems, and remarks on what is no problem.

A *subject* is a row of the table that verify prints. A *problem* says where, what was found, what was wanted and what
to do. A file that disappears while it is checked belongs to nobody any more and is no problem: the run may be going on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import FileError, MuGoError

GAMES, CHUNKS, MODELS, MATCHES, OTHERS, LEFT_OVER = "games", "chunks", "models", "matches", "other files", "left over"
MOST_BETWEEN = 100  # problems between two checks that come upon the same one
SUBJECTS = (GAMES, CHUNKS, MODELS, MATCHES, OTHERS, LEFT_OVER)


@dataclass(frozen=True)
class Problem:
    """text: found; wanted; next step. repaired: it was mended, and is none any more."""

    subject: str
    where: str
    text: str
    repaired: bool = False


@dataclass
class Findings:
    """Collects what the checks of one run say.

    directory  the run's, which paths are shown relative to
    counts     of what was checked, by subject and unit, e.g. counts["games"]["shards"]
    remarks    what a reader should know, though nothing is wrong
    """

    directory: Path
    counts: dict[str, dict[str, int]] = field(default_factory=lambda: {subject: {} for subject in SUBJECTS})
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def count(self, subject: str, unit: str, number: int = 1) -> None:
        """unit: in the singular."""
        self.counts[subject][unit] = self.counts[subject].get(unit, 0) + number

    def problem(self, subject: str, where: Path | str, text: str, repaired: bool = False) -> None:
        found = Problem(subject, self.shown(where), text, repaired)
        if not any((one.where, one.text) == (found.where, found.text) for one in self.problems[-MOST_BETWEEN:]):
            self.problems.append(found)

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def shown(self, path: Path | str) -> str:
        return os.path.relpath(path, self.directory) if isinstance(path, Path) else path

    @contextmanager
    def checking(self, subject: str, path: Path) -> Iterator[None]:
        """What the block raises about a file is a problem of this subject, unless `path` is gone by now."""
        try:
            yield
        except MuGoError as error:
            if os.path.lexists(path):
                where, text = (error.path, error.problem) if isinstance(error, FileError) else (path, str(error))
                self.problem(subject, where, text)
