"""Models, the champion and the journal of promotions.

Every model is readable and fits its network. best_model is the journal's last promotion. Every line of the journal is a
promotion, or a part of one that a kill left. The games of each promotion's match decide it for the challenger under the
match's own rule. A match that was removed since is a remark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pipeline.errors import FileError, MuGoError
from pipeline.evaluate.promotion import Rule, match_status, rule_of
from pipeline.games.specs import recorded_game
from pipeline.methods.named import method_named
from pipeline.phrases import counted
from pipeline.progress import Progress
from pipeline.run import atomic, layout
from pipeline.run.matches import has_match, read_match
from pipeline.run.models import (
    Model,
    check_champion,
    damaged_promotions,
    has_model,
    newest_models,
    pending_promotion,
    read_calibration,
    read_info,
    read_journal,
    read_model,
    read_optimizer,
    restore_champion,
)
from pipeline.train.config import TrainConfig
from pipeline.upkeep.verify.problems import MODELS, Findings


def check_models(
    saved_models: Path, findings: Findings, progress: Progress, since: int = -1, repair: bool = False
) -> None:
    """saved_models: the run's folder of models, best_model and the journal.

    since: only models with at least this number, and their promotions; -1: all. repair: restore a lost best_model.
    """
    models = [*takewhile(lambda path: (layout.number_of(path.name) or 0) >= since, newest_models(saved_models))][::-1]
    games: set[str] = set()
    for path in progress.each(models, "checking models", "models"):
        with findings.checking(MODELS, path):
            model = read_model(path)
            read_optimizer(path)
            read_calibration(model)
            _check_model(model)
            games.add(model.info.game)
            findings.count(MODELS, "model")
    if len(games) > 1:
        findings.problem(
            MODELS, saved_models, f"models of {' and '.join(sorted(games))}; wanted a folder for each game"
        )
    if models or (saved_models / layout.PROMOTIONS).exists():
        _check_champion(saved_models, findings, since, repair)


def _check_model(model: Model) -> None:
    """Raises MuGoError."""
    info, path = model.info, model.path
    if layout.number_of(path.name) not in (None, info.number):
        raise FileError(path, f"it says that it is number {info.number}; was it renamed? rename it back")
    if info.manifest.get("stage") == "train" and not info.parents:
        raise FileError(path / layout.MODEL_JSON, "it was trained but names no parent; wanted one; restore the file")
    for parent in info.parents:
        ancestor = path.parent / parent
        if has_model(ancestor):
            before, after = (int(one.manifest.get("total_samples", 0)) for one in (read_info(ancestor), info))
            if after < before:
                text = f"trained on {after:,} samples in all, its parent {parent} on {before:,}"
                raise FileError(path / layout.MODEL_JSON, f"{text}; wanted no fewer; restore the file")
    try:
        method, config = method_named(info.method), TrainConfig()
        grown = method.grown(recorded_game(info.game), model, config)  # the model that a training would start from
        method.objective(grown.architecture, config).network(grown.weights)
    except MuGoError as error:
        raise error if isinstance(error, FileError) else FileError(path, str(error)) from error


# The champion


def _check_champion(saved_models: Path, findings: Findings, since: int, repair: bool) -> None:
    link = saved_models / layout.CHAMPION
    with findings.checking(MODELS, saved_models):
        target, journal, pending = _promotions(saved_models)
        try:
            check_champion(saved_models)
        except FileError as error:
            restored = restore_champion(saved_models) if repair else None
            text = error.problem if restored is None else f"it was lost; it points to {restored} again"
            findings.problem(MODELS, link, text, repaired=restored is not None)
            return
        if not os.path.lexists(link):
            findings.remark(f"no champion yet: init was stopped before it set {layout.CHAMPION}; run it again")
            return
        if pending is not None:
            findings.remark(
                f"the promotion of {pending.get('champion')} isn't in the journal yet; evaluate completes it"
            )
            journal.append(pending)
        damaged = damaged_promotions(saved_models, pending)
        for number in damaged:
            found = f"line {number} is neither a promotion nor part of one that a kill interrupted"
            findings.problem(MODELS, saved_models / layout.PROMOTIONS, f"{found}; restore it from a copy, or remove it")
        last = journal[-1].get("champion") if journal else None
        if target != last and not damaged:
            found = f"it points to {target}, the last promotion is {'missing' if last is None else f'of {last}'}"
            raise FileError(
                link, f"{found}; ignore this if you changed it by hand, otherwise point it to {last or target}"
            )
        for line in journal:
            if (layout.number_of(str(line.get("champion"))) or 0) >= since:
                _check_promotion(saved_models, line, findings)


def _promotions(saved_models: Path) -> tuple[str | None, list[dict[str, Any]], dict[str, Any] | None]:
    """(best_model's target, None if it isn't a link; the journal; a promotion that isn't in it yet), all consistent."""
    link = saved_models / layout.CHAMPION
    while True:
        atomic.bring(link)
        target = os.readlink(link) if link.is_symlink() else None
        pending = pending_promotion(saved_models)
        journal = read_journal(saved_models)
        if (os.readlink(link) if link.is_symlink() else None) == target:
            return target, journal, pending if not journal or journal[-1] != pending else None


def _check_promotion(saved_models: Path, line: Mapping[str, Any], findings: Findings) -> None:
    findings.count(MODELS, "champion")
    if "match" not in line:
        return  # the first model, or one promoted by hand
    where = saved_models / layout.PROMOTIONS
    name = str(line.get("champion"))
    champion = saved_models / name
    folder = _match_folder(saved_models, line["match"])
    if folder is None:
        findings.remark(f"the match that promoted {name} is gone: {line['match']}")
        return
    with findings.checking(MODELS, where):
        header = read_match(folder, with_summary=False).header
        said = (line.get("challenger"), line.get("over"))
        if said != (header.challenger, header.champion):
            found = (
                f"{said[0]} over {said[1]} by {line['match']}, a match of {header.challenger} with {header.champion}"
            )
            raise FileError(where, f"{found}; wanted their own match; restore it from a copy")
        if has_model(champion) and read_info(champion).files[layout.WEIGHTS].sha256 != header.players[0].weights:
            raise FileError(where, f"{name} was promoted by {line['match']}, but another model of that name played it")
        _check_passed(where, folder, rule_of(header), line)
        conditions = line.get("conditions")
        for text, result in (conditions if isinstance(conditions, dict) else {}).items():
            share = result.get("needed") if isinstance(result, dict) else None
            further = _match_folder(saved_models, result.get("match")) if isinstance(result, dict) else None
            if further is None or not isinstance(share, int | float):
                findings.remark(f"the match of {name} for the condition {text} is gone")
                continue
            theirs = read_match(further, with_summary=False).header
            rule = Rule(theirs.games, float(share), max_result=theirs.max_result)
            _check_passed(where, further, rule, line)


def _check_passed(where: Path, folder: Path, rule: Rule, line: Mapping[str, Any]) -> None:
    """Raises FileError unless the games of this match decide it for the challenger."""
    match = read_match(folder, with_summary=False)
    status = match_status(rule, {game.index: game for game in match.games})
    if not (status.decided and status.passed):
        score = status.score
        found = f"{score.half_points / 2:g} points of {counted(score.games, 'game')} in {folder}"
        decided = "don't reach what was needed" if status.decided else "don't decide it"
        text = f"{line.get('champion')} was promoted, but {found} {decided}"
        raise FileError(where, f"{text}; point best_model back to {line.get('previous')}, and evaluate again")


def _match_folder(saved_models: Path, named: object) -> Path | None:
    """The match that a file of the run names, also after the run was moved; None if it is gone."""
    if not isinstance(named, str):
        return None
    path = Path(named)
    within = Path(*path.parts[-2:]) if path.parent.name == layout.REQUIRED else path.name
    for folder in (saved_models.parent / path, saved_models.parent / layout.MATCHES / within):
        if has_match(folder):
            return folder
    return None
