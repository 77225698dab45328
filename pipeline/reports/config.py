"""The configs of ``status`` and ``report``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.options import Options


class StatusConfig(Options):
    """Show on one screen where a run stands, whether it is running, finished, or a copy from elsewhere.

    Generation, the stage at work, champion, speed, window, losses, the last match, ratings, disk, workers, and
    warnings: damaged files, no new games, a rising hold-out loss, a disk that will soon be full. Everything comes from
    the run's files. Which stage is at work shows in the locks held on this machine and in the newest games; where they
    don't tell, it says unknown. Rates are those of the last hour that has games. Damaged files are named and left out.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing
    Exit:    0 shown, 1 no run in this folder, 2 wrong usage, 130 --watch ended by Ctrl-C
    Example: python main.py status runs/go9 --watch
    """

    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    watch: bool = Field(False, description="Renew the screen until Ctrl-C.")
    seconds: float = Field(5.0, ge=0.5, description="With --watch: seconds between two screens.")
    prometheus: bool = Field(False, description="Print metrics in the text format of Prometheus.")


class ReportConfig(Options):
    """Write one page about a run for the browser: everything in one file, which needs no network.

    Elo with error bars, losses, agreement of policy and search, entropy, length and ends of games, colour balance,
    resignations, where the time went, ratings, matches, and some games to step through. Works on a run that is going
    on, finished, or copied from elsewhere. Of very many shards a sample is read. Damaged files are named and left out.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  the page, report.html
    Exit:    0 written, 1 no run in this folder or the page can't be written, 2 wrong usage
    Example: python main.py report runs/go9 -o go9.html
    """

    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    output: Path = Field(
        Path("report.html"), description="The page to write; replaced if it is there.", json_schema_extra={"short": "o"}
    )
