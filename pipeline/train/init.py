"""``init``: makes the model that a run starts from, with random weights or with those of a model of another board.

Writes one model directory, and points best_model beside it to it if there is no champion yet. Never overwrites.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import FileError, MuGoError, UsageError, naming
from pipeline.games.capabilities import family_of
from pipeline.games.specs import parse_game
from pipeline.methods.named import method_named
from pipeline.phrases import counted
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic, layout
from pipeline.run.models import (
    ModelInfo,
    check_champion,
    has_model,
    read_info,
    read_model,
    resolve_champion,
    set_champion,
    write_model,
)
from pipeline.run.provenance import library_versions, source_commit
from pipeline.train.config import InitConfig


@dataclass(frozen=True)
class InitSummary:
    model: Path
    game: str
    network_size: str
    parameters: int  # numbers in all weights, norms' statistics included
    champion: bool  # best_model points to it now

    def lines(self) -> list[str]:
        """The short form."""
        champion = "; best_model points to it" if self.champion else ""
        return [f"{self.model}: {self.game}, {self.network_size}, {counted(self.parameters, 'parameter')}{champion}"]


def init(config: InitConfig, progress: Progress = SILENT) -> InitSummary:
    """Make the first model. If it was made by an init with this config that was killed, only set best_model.

    Raises FileError if new_model exists, the champion beside it plays another game or its link is lost, or
    original_model can't be read or can't play this game; UsageError for an unknown game or network size.
    """
    game = parse_game(config.game)
    family = family_of(game)
    if game.spec != family:
        raise UsageError(f"game {game.spec}: a model of {family} plays all boards; wanted {family}")
    original = read_model(resolve_champion(config.original_model)) if config.original_model else None
    method = method_named(original.info.method if original else config.method)
    method.check(game)
    method.check_options("init", config)
    # Check all this before the method makes a base model, which takes minutes and isn't removed.
    name = layout.check_model_name(config.new_model.name)
    stored = config.stored({"method", *method.unread(config)})
    saved_models = config.new_model.parent
    champion = saved_models / layout.CHAMPION
    check_champion(saved_models, making=config.new_model)
    has_champion = champion.is_symlink()
    if has_champion and has_model(champion) and (found := read_info(champion).game) != family:
        would = f"the new model would play {family}"
        raise FileError(champion, f"plays {found}, {would}; wanted a folder for each game")
    is_made = not has_champion and _is_what_we_would_make(config.new_model, method.name, stored)
    if not is_made:
        atomic.refuse_existing(config.new_model)
    began_with: dict[str, str] = {}
    if original is None:
        architecture, weights = method.first_model(game, config, progress)
    else:
        with naming(original.path):
            architecture, weights = method.moved(parse_game(original.info.game), game, original)
        began_with = {"name": original.info.name, "game": original.info.game}
    info = ModelInfo(
        name=name,
        number=layout.number_of(name) or 0,
        game=family,
        architecture=architecture,
        method=method.name,
        manifest={
            "stage": "init",
            "config": stored,
            "commit": source_commit(),
            "versions": library_versions(),
            **({"began_with": began_with} if began_with else {}),
        },
    )
    if not is_made:
        write_model(config.new_model, info, weights)
        progress.say(f"made {config.new_model}")
    if not (has_champion := champion.is_symlink()):
        set_champion(saved_models, config.new_model, {"reason": "the first model"})
    return InitSummary(
        model=config.new_model,
        game=family,
        network_size=method.size(architecture),
        parameters=sum(array.size for array in weights.values()),
        champion=not has_champion,
    )


def _is_what_we_would_make(path: Path, method: str, config: dict[str, Any]) -> bool:
    """Whether an earlier init of this method and config made path; the path may have been written differently then."""
    try:
        found = read_info(path)
    except MuGoError:
        return False
    made_with = {**found.manifest.get("config", {}), "new_model": config["new_model"]}
    return found.manifest.get("stage") == "init" and found.method == method and made_with == config
