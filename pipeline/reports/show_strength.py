"""How strong a model is, in words: by its matches in the run it lies in, by the run's ratings, and by its manifest.

A match counts for the model with the weights that played it, in the games that its decision counts. Damaged matches and
ratings are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import MuGoError
from pipeline.matches.statistics import Score
from pipeline.phrases import counted, percent
from pipeline.reports.reading import ScoredMatch, number_in
from pipeline.run import layout
from pipeline.run.layout import Run
from pipeline.run.models import ModelInfo
from pipeline.run.ratings import read_ratings

OPPONENTS_NAMED = 4
EXPORTED = "strength"  # in the manifest of an exported model, see train/export.py


class Met(NamedTuple):
    """An opponent. score, readouts: the model's."""

    opponent: str
    is_model: bool
    score: Score
    readouts: int | None


def strength(path: Path, info: ModelInfo) -> str:
    """E.g. "beats random in 100 % of 64 games, 000012-x in 64 % of 100 (12 drawn); with 200 readouts a move".

    path: of the model. "" if nothing is known.
    """
    real = Path(os.path.realpath(path))
    run = Run(real.parent.parent) if real.parent.name == layout.SAVED_MODELS.name else None
    met = list(_exported(info))
    rated = ""
    if run is not None:
        met += _matches(run, info)
        rated = _rating(run, info)
    return "; ".join(filter(None, [_words(met), rated]))


def _words(met: list[Met]) -> str:
    scores: dict[tuple[str, int | None], Score] = {}
    models = {one.opponent for one in met if one.is_model}
    for one in met:
        key = one.opponent, one.readouts
        scores[key] = scores.get(key, Score()) + one.score
    if not scores:
        return ""
    by_games = sorted(scores, key=lambda key: -scores[key].games)
    newest = sorted(by_games, key=lambda key: key[0], reverse=True)
    named = [key for key in by_games if key[0] not in models] + [key for key in newest if key[0] in models]
    more = len(named[OPPONENTS_NAMED:])
    named = named[:OPPONENTS_NAMED]
    alike = len({readouts for _, readouts in named}) == 1
    parts: list[str] = []
    for name, readouts in named:
        score = scores[name, readouts]
        games = f"{score.games:,}" if parts else counted(score.games, "game")
        drawn = f" ({score.draws:,} drawn)" if score.draws else ""
        at = "" if alike else _search(readouts, " ")
        parts.append(f"{name} in {percent(score.wins / score.games, 0)} of {games}{drawn}{at}")
    if more:
        parts.append(f"and {counted(more, 'more result')}")
    return f"beats {', '.join(parts)}" + (_search(named[0][1], "; ") if alike else "")


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
            yield Met(str(one.get("opponent"))[:80], False, score, None if readouts is None else int(readouts))


def _matches(run: Run, info: ModelInfo) -> Iterator[Met]:
    weights = info.files[layout.WEIGHTS].sha256 if layout.WEIGHTS in info.files else None
    for directory in (run.matches, run.required, run.watch, run.tournament):
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
            yield Met(other.name.partition("@")[0], other.kind == "model", score, one.readouts)
            return


def _rating(run: Run, info: ModelInfo) -> str:
    with suppress(MuGoError, OSError):
        players = read_ratings(run.ratings).players
        ours = [one for one in players if one.name.partition("@")[0] == info.name]
        if ours:
            one = max(ours, key=lambda player: player.games)
            place = [player.name for player in players].index(one.name) + 1
            return (
                f"rated {one.bradley_terry:.0f} ± {one.bradley_terry_error:.0f} Elo, number {place} of "
                f"{counted(len(players), 'player')}"
            )
    return ""
