"""``show`` for a whole run, from its files alone: games, models, losses, matches, the champion, what to try next."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import FileError
from pipeline.matches.statistics import score_of
from pipeline.reports.show_match import counted_games
from pipeline.reports.tables import described, table
from pipeline.storage import layout
from pipeline.storage.matches import Match, list_matches, read_match
from pipeline.storage.models import ModelInfo, list_models, read_info, resolve_champion
from pipeline.storage.shards import newest_shards

SELFPLAY, TRAINING, EVALUATE = Path("data/selfplay"), Path("data/training_data"), Path("data/evaluate")
TOURNAMENT, RATINGS = Path("data/tournament"), Path("data/ratings.json")
LOSSES = ("policy", "value")  # the terms of the loss that every game has


@dataclass
class Played:
    """The games that one model played."""

    games: int = 0
    positions: int = 0


def is_run(path: Path) -> bool:
    return (path / layout.SAVED_MODELS).is_dir() or (path / SELFPLAY).is_dir()


def show_run(directory: Path) -> Iterator[str]:
    """Texts that describe the run in the folder with data/ and saved_models/, in order."""
    infos = [read_info(model) for model in list_models(directory / layout.SAVED_MODELS)]
    champion = champion_name(directory / layout.SAVED_MODELS)
    damaged: list[FileError] = []
    played = games_by_model(directory / SELFPLAY, damaged)
    matches = matches_in(directory / EVALUATE, damaged) + matches_in(directory / EVALUATE / layout.REQUIRED, damaged)
    tournament = matches_in(directory / TOURNAMENT, damaged)
    yield described(
        {
            "run": directory.resolve(),
            "game": ", ".join(sorted({info.game for info in infos})) or "-",
            "models": f"{len(infos)}",
            "champion": champion or "none yet",
            "games": f"{sum(one.games for one in played.values()):,}",
            "positions": f"{sum(one.positions for one in played.values()):,}",
        }
    )
    for error in damaged:
        yield f"skipped: {error}"
    if infos:
        yield ""
        yield models_table(directory / layout.SAVED_MODELS, infos, played)
        yield "(loss on the games held out from training; games and positions that the model played)"
    if matches:
        yield ""
        header = ("challenger", "champion", "games", "won", "drawn", "lost", "points", "decision")
        yield table([match_line(match) for match in matches], header)
    if tournament:
        yield ""
        games = sum(len(match.games) for match in tournament)
        yield f"{directory / TOURNAMENT}: {len(tournament)} matches, {games:,} games"
    yield ""
    yield "next:"
    yield from (f"  {line}" for line in next_commands(directory, infos, champion, bool(played), bool(matches)))


def champion_name(saved_models: Path) -> str | None:
    try:
        return resolve_champion(saved_models / layout.CHAMPION).name
    except FileError:
        return None


def games_by_model(directory: Path, damaged: list[FileError]) -> dict[str, Played]:
    """Counts from the sidecars alone; errors of unreadable ones are added to damaged."""
    played: dict[str, Played] = defaultdict(Played)
    for meta in newest_shards(directory, on_damage=damaged.append):
        played[meta.model].games += meta.games
        played[meta.model].positions += meta.positions
    return dict(played)


def models_table(saved_models: Path, infos: Sequence[ModelInfo], played: dict[str, Played] | None = None) -> str:
    """A line per model, oldest first. played: by model name, if known."""
    champion = champion_name(saved_models)
    rows = []
    for info in infos:
        row = [info.name + (" *" if info.name == champion else ""), ", ".join(info.parents) or "-"]
        if played is not None:
            one = played.get(info.name, Played())
            row += [f"{one.games:,}", f"{one.positions:,}"]
        row += [_loss(info.manifest, name) for name in LOSSES]
        rows.append(tuple(row))
    counts = ("games", "positions") if played is not None else ()
    header = ("model", "trained from", *counts, *(f"{name} loss" for name in LOSSES))
    return table(rows, header) + ("\n* the champion" if champion else "")


def _loss(manifest: dict[str, Any], name: str) -> str:
    """The loss on the hold-out, or in training if there was no hold-out."""
    metrics = manifest.get("metrics", {})
    for part, note in (("holdout_after", ""), ("train", " (training)")):
        value = (metrics.get(part) or {}).get(name)
        if isinstance(value, int | float):
            return f"{value:.3f}{note}"
    return "-"


def matches_in(directory: Path, damaged: list[FileError]) -> list[Match]:
    """The matches in a folder, by name; errors of unreadable ones are added to damaged.

    A folder with neither games nor a summary is not a match yet: it was left before its first line.
    """
    matches = []
    without_games = {path.parent for path in directory.glob(f"*/{layout.MATCH_SUMMARY}")}
    for folder in sorted({*list_matches(directory), *without_games}):
        try:
            matches.append(read_match(folder))
        except FileError as error:
            damaged.append(error)
    return matches


def match_line(match: Match) -> tuple[str, ...]:
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
    directory: Path, infos: Sequence[ModelInfo], champion: str | None, has_games: bool, has_matches: bool
) -> Iterator[str]:
    """Commands that make sense now, each with its purpose."""
    chunks = any((directory / TRAINING).glob(f"*{layout.CHUNK_SUFFIX}"))
    commands: list[tuple[str, str]] = []
    if not infos or champion is None:
        commands.append(("init", "make a first model"))
    elif not has_games:
        commands.append(("selfplay --games 100 --readouts 32", "let it play"))
    else:
        commands.append((f"show {directory / SELFPLAY}", "the newest games"))
        if not chunks:
            commands.append(("gather --as-many-as-possible", "make training data from the games"))
    if chunks:
        commands.append((f"show {directory / TRAINING}", "what a model learns from"))
    if has_matches:
        commands.append((f"show {directory / EVALUATE}", "the newest match, with its games"))
    if (directory / RATINGS).exists():
        commands.append(("ratings", "how strong each player is"))
    if champion is not None:
        commands.append((f"show {directory / layout.SAVED_MODELS / layout.CHAMPION}", "how the champion was made"))
    width = max(len(command) for command, _ in commands)
    for command, purpose in commands:
        yield f"python {_main_path()} {command:<{width}}  {purpose}"


def _main_path() -> str:
    """main.py as it was called, so that the commands printed work in the same place."""
    called = Path(sys.argv[0])
    return "main.py" if called.name != "main.py" or called.resolve().parent == Path.cwd() else str(called)
