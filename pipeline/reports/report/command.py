"""``report``: writes the HTML report of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import FileError, UsageError
from pipeline.phrases import counted, size
from pipeline.progress import SILENT, Progress
from pipeline.reports.config import ReportConfig
from pipeline.reports.report.document import page
from pipeline.reports.report.facts import collect
from pipeline.reports.report.replays import replays
from pipeline.run import atomic
from pipeline.run.layout import Run


@dataclass(frozen=True)
class ReportSummary:
    path: Path
    num_bytes: int
    models: int
    generations: int  # that have games
    games_shown: int
    warnings: list[str]

    def lines(self) -> list[str]:
        models, games = counted(self.models, "model"), counted(self.games_shown, "game")
        return [f"{self.path}: {size(self.num_bytes)}, {models}, {games} to step through; open it in a browser"]


def report(config: ReportConfig, progress: Progress = SILENT) -> ReportSummary:
    """Write the page, replacing an older one.

    Raises FileError if the folder is not that of a run or the page can't be written, UsageError if the name isn't that
    of a page, so that no other file is overwritten.
    """
    run, output = Run.at(config.directory), config.output
    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"report --output {output}: wanted a name that ends in .html")
    if not output.parent.is_dir():
        raise FileError(output, "its folder doesn't exist; make it first")
    facts = collect(run, progress, datetime.now(UTC))
    shown = replays(facts)
    warnings = facts.reading.warnings
    for warning in warnings:
        progress.warn(warning)
    text = page(facts, shown)
    atomic.write_text(output, text)
    return ReportSummary(
        output, len(text.encode()), len(facts.reading.infos), len(facts.games), len(shown), list(warnings)
    )
