"""``show`` for models and whole runs: how strong a model is, its manifest, promotions, and all about a run at a glance.

Strength is known from a model's matches in the run it lies in, from the run's ratings, and from its manifest. A match
counts for the model with the weights that played it, in the games that its decision counts. Damaged matches and ratings
are left out.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.errors import FileError, MuGoError
from pipeline.matches.statistics import Score
from pipeline.phrases import counted, measured, percent
from pipeline.reports.reading import Reading, ScoredMatch, metric, number_in, tabled
from pipeline.reports.show_chunks import without_counts
from pipeline.reports.tables import described, flattened, table
from pipeline.run import layout
from pipeline.run.layout import Run
from pipeline.run.matches import list_matches
from pipeline.run.models import (
    ModelInfo,
    check_champion,
    list_models,
    pending_promotion,
    present_champion,
    read_info,
    read_journal,
    read_model,
)
from pipeline.run.order import model_of, newest_files
from pipeline.run.pruned import read_pruned
from pipeline.run.ratings import read_ratings

NO_COUNTS: Mapping[str, Counter[str]] = {}
PROMOTIONS_LISTED = 20
OPPONENTS_NAMED = 4
NEXT = "next:"  # the line before the commands that make sense now
EXPORTED = "strength"  # in the manifest of an exported model, see train/export.py


# Runs


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
    folders = (run.matches, run.required, run.measured)
    matches = [one for folder in folders for one in _matches(reading, folder)]
    others = {folder: _matches(reading, folder) for folder in (run.watch, run.tournament)}
    yield described(
        {
            "run": directory.resolve(),
            "game": ", ".join(sorted({info.game for info in reading.infos})) or "-",
            "models": f"{len(reading.infos)}",
            "champion": reading.champion or ("lost" if reading.infos else "none yet"),
            "games": f"{games.total():,}",
            "positions": f"{positions.total():,}",
        }
    )
    for warning in reading.warnings:
        yield f"skipped: {warning}"
    if reading.infos:
        yield ""
        yield models_table(reading.infos, reading.champion, {"games": games, "positions": positions})
        yield "(of training: on held-out games, if there are any; games and positions played by the model)"
    if matches:
        yield ""
        share = "share of games" if any(found.match.header.max_result > 1 for found in matches) else "points"
        header = ("challenger", "champion", "games", "won", "drawn", "lost", share, "decision")
        yield table([_row(found) for found in matches], header)
    for folder, found in others.items():
        if found:
            yield ""
            games_played = sum(len(one.match.rows) for one in found)
            yield f"{folder}: {counted(len(found), 'match', 'matches')}, {counted(games_played, 'game')}"
    yield ""
    yield NEXT
    yield from (f"  {line}" for line in _next_commands(reading, bool(games), bool(matches)))


def models_table(
    infos: Sequence[ModelInfo], champion: str | None, counts: Mapping[str, Counter[str]] = NO_COUNTS
) -> str:
    """One line per model, oldest first. counts: further columns by name, then by model."""
    columns = {
        name: measure
        for info in infos
        for name, measure in tabled(info).items()
        if _trained(info, name, measure.share)
    }
    rows = [
        (
            info.name + (" *" if info.name == champion else ""),
            ", ".join(info.parents) or "-",
            *(f"{count[info.name]:,}" for count in counts.values()),
            *(_trained(info, name, measure.share) or "-" for name, measure in columns.items()),
        )
        for info in infos
    ]
    header = ("model", "trained from", *counts, *(measure.heading for measure in columns.values()))
    return table(rows, header) + ("\n* the champion" if champion else "")


def _trained(info: ModelInfo, name: str, is_share: bool) -> str:
    """A metric of a model's training; "" if it wasn't measured."""
    for part, note in (("holdout_after", ""), ("train", " (training)")):
        if (found := metric(info, part, name)) is not None:
            return f"{measured(found, is_share)}{note}"
    return ""


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


# Models


def show_models(path: Path) -> Iterator[str]:
    champion, infos = present_champion(path), []
    for model in list_models(path):
        try:
            infos.append(read_info(model))
        except FileError as error:
            yield f"skipped: {error}"
    yield models_table(infos, champion.name if champion else None)


def show_promotions(path: Path) -> Iterator[str]:
    """A table of the latest champions, then all about the last one, which a kill may have kept out of the journal."""
    lines = read_journal(path.parent)
    if (pending := pending_promotion(path.parent)) is not None:
        lines.append(pending)
    if not lines:
        raise FileError(path, "no promotion in it; wanted the journal of a folder of models")
    rows = [
        tuple(str(line.get(key) or "-") for key in ("time", "champion", "previous", "reason"))
        for line in lines[-PROMOTIONS_LISTED:]
    ]
    yield table(rows, ("time", "champion", "after", "reason"), len(lines) - len(rows), "before them")
    yield ""
    yield "the last one:"
    yield described(dict(flattened(lines[-1])))


def show_model(path: Path) -> Iterator[str]:
    """A model's game, network, parents and files, then its manifest. path: its folder or its model.json."""
    path = path.parent if path.name == layout.MODEL_JSON else path
    model = read_model(path)
    info, architecture = model.info, model.info.architecture
    numbers = sum(array.size for array in model.weights.values())
    size = "b{blocks}c{channels}, ".format(**architecture) if {"blocks", "channels"} <= set(architecture) else ""
    yield described(
        {
            "model": path if path.name == info.name else f"{path} → {info.name}",
            "game": info.game,
            **({"strength": known} if (known := strength(path, info)) else {}),
            "network": f"{size}{numbers:,} numbers in {len(model.weights)} arrays",
            "method": info.method,
            "parents": ", ".join(info.parents) or "none: random weights",
            "created": info.created,
            "files": ", ".join(f"{name} {stamp.bytes:,} bytes" for name, stamp in info.files.items()),
        }
    )
    facts = dict(flattened({**info.manifest, "window": without_counts(info.manifest.get("window", {}))}))
    if facts:
        yield ""
        yield described(facts)


# Strength


Met = tuple[str, bool, int | None, Score]
"""An opponent, whether it is a model, the readouts of the model that is shown, and its score."""


def strength(path: Path, info: ModelInfo) -> str:
    """E.g. "scores 100 % against random (64 games), 70 % against 000012-x (100, 12 drawn); with 200 readouts a move".

    path: of the model. "" if nothing is known.
    """
    met, rated = [*_exported(info)], ""
    folder = Path(os.path.realpath(path)).parent
    if folder.name == layout.SAVED_MODELS.name:
        run = Run(folder.parent)
        met += _matches_of(run.match_folders, info)
        rated = _rating(run, info)
    return "; ".join(filter(None, [_words(met), rated]))


def scores_in(folder: Path, info: ModelInfo) -> str:
    """The same from the matches in one folder alone."""
    return _words(list(_matches_of([folder], info)))


def _words(met: list[Met]) -> str:
    scores: dict[tuple[str, int | None], Score] = {}
    models = {name for name, is_model, _, _ in met if is_model}
    for name, _, readouts, score in met:
        scores[name, readouts] = scores.get((name, readouts), Score()) + score
    if not scores:
        return ""
    by_games = sorted(scores, key=lambda key: (-scores[key].games, -scores[key].share, key[0]))
    newest = sorted(by_games, key=lambda key: key[0], reverse=True)
    named = [key for key in by_games if key[0] not in models] + [key for key in newest if key[0] in models]
    more = len(named[OPPONENTS_NAMED:])
    named = named[:OPPONENTS_NAMED]
    alike = len({readouts for _, readouts in named}) == 1
    parts: list[str] = []
    for name, readouts in named:
        score = scores[name, readouts]
        games = f"{score.games:,}" if parts else counted(score.games, "game")
        drawn = f", {score.draws:,} drawn" if score.draws else ""
        at = "" if alike else _search(readouts, ", ")
        parts.append(f"{percent(score.share, 0)} against {name} ({games}{drawn}{at})")
    if more:
        parts.append(f"and {counted(more, 'more result')}")
    return f"scores {', '.join(parts)}" + (_search(named[0][1], "; ") if alike else "")


def _search(readouts: int | None, before: str) -> str:
    if readouts is None:
        return ""
    return f"{before}with {counted(readouts, 'readout')} a move" if readouts else f"{before}without search"


def _exported(info: ModelInfo) -> Iterator[Met]:
    found = info.manifest.get(EXPORTED)
    for one in found if isinstance(found, list) else ():
        counts = [number_in(one, name) for name in ("wins", "draws", "losses")]
        if isinstance(one, dict) and all(count is not None and 0 <= count < 1e12 for count in counts) and any(counts):
            readouts = number_in(one, "readouts")
            score = Score(*(int(count or 0) for count in counts))
            yield str(one.get("opponent"))[:80], False, None if readouts is None else int(readouts), score


def _matches_of(folders: Sequence[Path], info: ModelInfo) -> Iterator[Met]:
    weights = info.files[layout.WEIGHTS].sha256 if layout.WEIGHTS in info.files else None
    for directory in folders:
        with suppress(OSError):
            for name in os.listdir(directory):
                sides = layout.parse_match_name(name)
                if weights is None or sides is None or info.name not in {one.partition("@")[0] for one in sides}:
                    continue
                with suppress(MuGoError, OSError):
                    yield from _met(ScoredMatch.read(directory / name), weights)


def _met(found: ScoredMatch, weights: str) -> Iterator[Met]:
    players = found.match.header.players
    for side, one in enumerate(players):
        if one.weights == weights and found.score.games and not one.handicap and not players[1 - side].handicap:
            other = players[1 - side]
            score = found.score if side == 0 else found.score.reversed
            yield other.name.partition("@")[0], other.kind == "model", one.readouts, score
            return


def _rating(run: Run, info: ModelInfo) -> str:
    with suppress(MuGoError, OSError):
        players = read_ratings(run.ratings).anchored
        ours = [one for one in players if one.name.partition("@")[0] == info.name]
        if ours:
            one = max(ours, key=lambda player: player.games)
            place = [player.name for player in players].index(one.name) + 1
            return (
                f"rated {one.bradley_terry:.0f} ± {one.bradley_terry_error:.0f} Elo, number {place} of "
                f"{counted(len(players), 'player')}"
            )
    return ""
