"""``show`` for a whole run: games, models, losses, matches, the champion, and commands to try next."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import FileError
from pipeline.matches.statistics import score_of
from pipeline.reports.show_match import counted_games
from pipeline.reports.tables import described, table
from pipeline.run import layout
from pipeline.run.matches import MatchResults, list_matches, read_results
from pipeline.run.models import ModelInfo, list_models, read_info, resolve_champion
from pipeline.run.pruned import read_pruned
from pipeline.run.run import Run
from pipeline.run.shards import newest_shards

LOSSES = ("policy", "value")  # loss terms that every game has
NO_COUNTS: Mapping[str, Counter[str]] = {}


def show_run(directory: Path) -> Iterator[str]:
    """Texts that describe the run in a folder with data/ and saved_models/, in order."""
    run = Run(directory)
    infos = [read_info(model) for model in list_models(run.models)]
    champion = champion_name(run.models)
    damaged: list[FileError] = []
    games: Counter[str] = Counter()  # by the model that played them
    positions: Counter[str] = Counter()
    pruned = read_pruned(run.games)
    for meta in newest_shards(run.games, on_damage=damaged.append):
        if not pruned.has(meta.path):
            games[meta.model] += meta.games
            positions[meta.model] += meta.positions
    for counts, before in zip((games, positions), pruned.by_model(), strict=True):
        counts.update(before)
    matches = matches_in(run.matches, damaged) + matches_in(run.required, damaged)
    unpromoted = {folder: matches_in(folder, damaged) for folder in (run.watch, run.tournament)}
    yield described(
        {
            "run": directory.resolve(),
            "game": ", ".join(sorted({info.game for info in infos})) or "-",
            "models": f"{len(infos)}",
            "champion": champion or "none yet",
            "games": f"{games.total():,}",
            "positions": f"{positions.total():,}",
        }
    )
    for error in damaged:
        yield f"skipped: {error}"
    if infos:
        yield ""
        yield models_table(run.models, infos, {"games": games, "positions": positions})
        yield "(loss on held-out games; games and positions played by the model)"
    if matches:
        yield ""
        share = "share of games" if any(match.header.max_result > 1 for match in matches) else "points"
        header = ("challenger", "champion", "games", "won", "drawn", "lost", share, "decision")
        yield table([match_line(match) for match in matches], header)
    for folder, found in unpromoted.items():
        if found:
            yield ""
            num_games = sum(len(match.rows) for match in found)
            yield f"{folder}: {len(found)} matches, {num_games:,} games"
    yield ""
    yield "next:"
    yield from (f"  {line}" for line in next_commands(run, infos, champion, bool(games), bool(matches)))


def champion_name(saved_models: Path) -> str | None:
    try:
        return resolve_champion(saved_models / layout.CHAMPION).name
    except FileError:
        return None


def models_table(saved_models: Path, infos: Sequence[ModelInfo], counts: Mapping[str, Counter[str]] = NO_COUNTS) -> str:
    """One line per model, oldest first. counts: further columns by name, then by model."""
    champion = champion_name(saved_models)
    rows = [
        (
            info.name + (" *" if info.name == champion else ""),
            ", ".join(info.parents) or "-",
            *(f"{count[info.name]:,}" for count in counts.values()),
            *(_loss(info.manifest, name) for name in LOSSES),
        )
        for info in infos
    ]
    header = ("model", "trained from", *counts, *(f"{name} loss" for name in LOSSES))
    return table(rows, header) + ("\n* the champion" if champion else "")


def _loss(manifest: dict[str, Any], name: str) -> str:
    """The hold-out loss, or the training loss if there was no hold-out."""
    metrics = manifest.get("metrics", {})
    for part, note in (("holdout_after", ""), ("train", " (training)")):
        value = (metrics.get(part) or {}).get(name)
        if isinstance(value, int | float):
            return f"{value:.3f}{note}"
    return "-"


def matches_in(directory: Path, damaged: list[FileError]) -> list[MatchResults]:
    """The matches in a folder with their summaries, by name. Adds the errors of unreadable ones to damaged.

    A folder with neither games nor a summary isn't a match yet.
    """
    matches = []
    without_games = {path.parent for path in directory.glob(f"*/{layout.MATCH_SUMMARY}")}
    for folder in sorted({*list_matches(directory), *without_games}):
        try:
            matches.append(read_results(folder).with_summary())
        except FileError as error:
            damaged.append(error)
    return matches


def match_line(match: MatchResults) -> tuple[str, ...]:
    score = score_of(counted_games(match))
    left_out = f", {score.games} count" if score.games < len(match.games) else ""
    share = f"{score.share:.1%}" if score.games else "-"
    return (
        match.header.challenger, match.header.champion, f"{len(match.games)}/{match.num_games}{left_out}",
        str(score.wins), str(score.draws), str(score.losses), share, _decision(match.summary),
    )  # fmt: skip


def _decision(summary: dict[str, Any] | None) -> str:
    if summary is None:
        return "not finished"
    if summary.get("promoted"):
        return "promoted"
    return "passed" if summary.get("passed") else "not promoted"


def next_commands(
    run: Run, infos: Sequence[ModelInfo], champion: str | None, has_games: bool, has_matches: bool
) -> Iterator[str]:
    """Commands that make sense now, each with its purpose; preceded by `cd` if the run is in another folder."""
    directory, chunks = run.folder, any(run.chunks.glob(f"*{layout.CHUNK_SUFFIX}"))
    begun = bool(infos) and champion is not None
    commands = [
        (not begun, "init", "make a first model"),
        (begun and not has_games, "selfplay --games 100 --readouts 32", "let it play"),
        (begun and has_games, f"show {layout.GAMES}", "the newest games"),
        (begun and has_games and not chunks, "gather --as-many-as-possible", "make training data from the games"),
        (chunks, f"show {layout.CHUNKS}", "what a model learns from"),
        (has_matches, f"show {layout.MATCHES}", "the newest match, with its games"),
        (run.ratings.exists(), "ratings", "how strong each player is"),
        (has_matches, "report", "charts and games on one page"),
        (champion is not None, f"show {layout.CHAMPION_LINK}", "how the champion was made"),
    ]
    possible = [(command, purpose) for makes_sense, command, purpose in commands if makes_sense]
    width = max(len(command) for command, _ in possible)
    if directory.resolve() != Path.cwd():
        yield f"cd {shlex.quote(str(directory))}"
    for command, purpose in possible:
        yield f"python {_main_path(directory)} {command:<{width}}  {purpose}"


def _main_path(directory: Path) -> str:
    """The path of main.py that works from the run's directory."""
    called = Path(sys.argv[0])
    if called.name != "main.py" or called.resolve().parent == directory.resolve():
        return "main.py"
    return str(called) if called.is_absolute() else os.path.relpath(called.resolve(), directory.resolve())
