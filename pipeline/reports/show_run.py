"""``show`` for a whole run: games, models, losses, matches, the champion, and commands to try next."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.errors import FileError
from pipeline.phrases import counted
from pipeline.reports.reading import Reading, ScoredMatch, metric
from pipeline.reports.tables import described, table
from pipeline.run import layout
from pipeline.run.layout import Run
from pipeline.run.matches import list_matches
from pipeline.run.models import ModelInfo, check_champion
from pipeline.run.order import model_of, newest_files
from pipeline.run.pruned import read_pruned

LOSSES = ("policy", "value")  # loss terms that every game has
MATCH_HEADER = ("challenger", "champion", "games", "won", "drawn", "lost")
NO_COUNTS: Mapping[str, Counter[str]] = {}


def show_run(directory: Path) -> Iterator[str]:
    """Texts that describe the run in a folder with data/ and saved_models/, in order."""
    run = Run(directory)
    reading = Reading.of(run)
    pruned = read_pruned(run.games)
    games, positions = (Counter(counts) for counts in pruned.totals(model_of))  # by the model that played them
    for shard in newest_files(run.games):
        if not pruned.has(shard) and (meta := reading.meta(shard)):
            games[meta.model] += meta.games
            positions[meta.model] += meta.positions
    matches = [*_matches(reading, run.matches), *_matches(reading, run.required)]
    others = {folder: _matches(reading, folder) for folder in (run.watch, run.tournament)}
    yield described(
        {
            "run": directory.resolve(),
            "game": ", ".join(sorted({info.game for info in reading.infos})) or "-",
            "models": f"{len(reading.infos)}",
            "champion": reading.champion or "none yet",
            "games": f"{games.total():,}",
            "positions": f"{positions.total():,}",
        }
    )
    for warning in reading.warnings:
        yield f"skipped: {warning}"
    if reading.infos:
        yield ""
        yield models_table(reading.infos, reading.champion, {"games": games, "positions": positions})
        yield "(loss on held-out games; games and positions played by the model)"
    if matches:
        yield ""
        share = "share of games" if any(found.match.header.max_result > 1 for found in matches) else "points"
        yield table([_row(found) for found in matches], (*MATCH_HEADER, share, "decision"))
    for folder, found in others.items():
        if found:
            yield ""
            yield f"{folder}: {counted(len(found), 'match', 'matches')}, {counted(_games_played(found), 'game')}"
    yield ""
    yield "next:"
    yield from (f"  {line}" for line in _next_commands(reading, bool(games), bool(matches)))


def models_table(
    infos: Sequence[ModelInfo], champion: str | None, counts: Mapping[str, Counter[str]] = NO_COUNTS
) -> str:
    """One line per model, oldest first. counts: further columns by name, then by model."""
    rows = [
        (
            info.name + (" *" if info.name == champion else ""),
            ", ".join(info.parents) or "-",
            *(f"{count[info.name]:,}" for count in counts.values()),
            *(_loss(info, name) for name in LOSSES),
        )
        for info in infos
    ]
    header = ("model", "trained from", *counts, *(f"{name} loss" for name in LOSSES))
    return table(rows, header) + ("\n* the champion" if champion else "")


def _games_played(matches: Sequence[ScoredMatch]) -> int:
    return sum(len(one.match.rows) for one in matches)


def _loss(info: ModelInfo, name: str) -> str:
    """The hold-out loss, or the training loss if there was no hold-out."""
    for part, note in (("holdout_after", ""), ("train", " (training)")):
        if (loss := metric(info, part, name)) is not None:
            return f"{loss:.3f}{note}"
    return "-"


def _matches(reading: Reading, directory: Path) -> list[ScoredMatch]:
    """By name. A folder with neither games nor a summary isn't a match yet."""
    without_games = {path.parent for path in directory.glob(f"*/{layout.MATCH_SUMMARY}")}
    folders = sorted({*list_matches(directory), *without_games})
    return [found for folder in folders if (found := reading.readable(ScoredMatch.read, folder))]


def _row(found: ScoredMatch) -> tuple[str, ...]:
    match, score = found.match, found.score
    left_out = f", {score.games} count" if score.games < len(match.games) else ""
    return (
        match.header.challenger, match.header.champion, f"{len(match.games)}/{match.num_games}{left_out}",
        str(score.wins), str(score.draws), str(score.losses), f"{score.share:.1%}" if score.games else "-",
        found.decision,
    )  # fmt: skip


def _next_commands(reading: Reading, has_games: bool, has_matches: bool) -> Iterator[str]:
    """Commands that make sense now, each with its purpose; preceded by `cd` if the run is in another folder."""
    run = reading.run
    directory, chunks = run.folder, any(run.chunks.glob(f"*{layout.CHUNK_SUFFIX}"))
    begun = bool(reading.infos) and reading.champion is not None
    try:
        check_champion(run.models)
        is_lost = False
    except FileError:
        is_lost = True
    commands = [
        (is_lost, "verify --repair", "point best_model to the champion again, or see how"),
        (not begun and not is_lost, "init", "make a first model"),
        (begun and not has_games, "selfplay --games 100 --readouts 32", "let it play"),
        (begun and has_games, f"show {layout.GAMES}", "the newest games"),
        (begun and has_games and not chunks, "gather --as-many-as-possible", "make training data from the games"),
        (chunks, f"show {layout.CHUNKS}", "what a model learns from"),
        (has_matches, f"show {layout.MATCHES}", "the newest match, with its games"),
        (run.ratings.exists(), "ratings", "how strong each player is"),
        (has_matches, "report", "charts and games on one page"),
        (reading.champion is not None, f"show {layout.CHAMPION_LINK}", "how the champion was made"),
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
