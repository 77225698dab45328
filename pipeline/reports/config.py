"""The configs of ``status`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from pipeline.options import Options

RUN_FOLDER: Any = Field(
    Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
)


class StatusConfig(Options):
    """Show the state of a run on one screen. The run may be active, finished, or a copy from another machine.

    Shows generation, current stage, champion, speed, window, losses, the last match, ratings, disk, workers and
    warnings: damaged files, no new games, a rising error on held-out games, a disk that will soon be full. Everything
    comes from the run's files. The current stage is inferred from the locks held on this machine and from the newest
    games, or shown as unknown. Rates cover the last hour that has games. Damaged files are named and skipped.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing
    Exit:    0 shown, 1 no run in this folder, 2 wrong usage, 130 --watch ended by Ctrl-C
    Example: python main.py status runs/go9 --watch
    """

    directory: Path = RUN_FOLDER
    watch: bool = Field(False, description="Refresh the screen until Ctrl-C.")
    seconds: float = Field(5.0, ge=0.5, description="With --watch: seconds between refreshes.")
    prometheus: bool = Field(False, description="Print metrics in Prometheus text format.")


class ReportConfig(Options):
    """Write an HTML report of a run: one self-contained file that needs no network.

    Shows Elo with error bars, losses, agreement of policy and search, entropy, length and ends of games, colour
    balance, resignations, time spent, ratings, matches, and some games to step through. The run may be active,
    finished, or a copy from another machine. Long runs are sampled. Damaged files are named and skipped.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  the page, report.html
    Exit:    0 written, 1 no run in this folder or the page can't be written, 2 wrong usage
    Example: python main.py report runs/go9 -o go9.html
    """

    directory: Path = RUN_FOLDER
    output: Path = Field(
        Path("report.html"), description="File to write; an existing one is replaced.", json_schema_extra={"short": "o"}
    )
