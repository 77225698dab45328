"""The commands that have a config, by name: each one's function and config, without importing them.

``main.py`` makes the command line from this table; presets have a section for each command that trains or measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.options import Options


@dataclass(frozen=True)
class Command:
    """function, kind  "module:name" of the function and of its config's class
    in_presets      whether presets have a section for it
    goes_on         whether the same command, given again after an interrupt, continues
    log_seconds     between two lines of its progress in a log
    """

    name: str
    function: str
    kind: str
    in_presets: bool = False
    goes_on: bool = True
    log_seconds: float = 30.0

    @cached_property
    def config(self) -> type[Options]:
        found: type[Options] = resolve_name(self.kind)
        return found

    def __call__(self, *arguments: Any) -> Any:
        return resolve_name(self.function)(*arguments)


def _command(package: str, name: str, module: str = "command", **facts: Any) -> Command:
    config = f"pipeline.{package.partition('.')[0]}.config:{name.capitalize()}Config"
    return Command(name, f"pipeline.{package}.{module}:{name}", config, **facts)


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        _command("train", "init", "init", in_presets=True),
        _command("selfplay", "selfplay", in_presets=True),
        _command("gather", "gather", in_presets=True),
        _command("train", "train", in_presets=True),
        _command("evaluate", "evaluate", in_presets=True),
        _command("ratings", "ratings", in_presets=True),
        _command("ratings", "tournament", "tournament", in_presets=True),
        _command("loop", "loop"),
        _command("bench", "bench", goes_on=False, log_seconds=4.0),
        _command("play", "engine", "engine", goes_on=False),
        _command("train", "export", "export", goes_on=False),
        _command("play", "play", "terminal", goes_on=False),
        _command("play.page", "serve", goes_on=False),
        _command("reports", "status", "status", goes_on=False),
        _command("reports.report", "report", goes_on=False),
        _command("upkeep.verify", "verify", goes_on=False),
        _command("upkeep", "compact", "compact"),
        _command("upkeep", "prune", "prune"),
    )
}
SECTIONS = tuple(name for name, command in COMMANDS.items() if command.in_presets)
