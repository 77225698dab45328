"""What plug-ins offer, by extension point: one table for the bundled families and for installed packages.

    mugo.games       name → function (size, options) -> game            pipeline/games/contract.py
    mugo.methods     name → subclass of Method                          pipeline/methods/method.py
    mugo.options     COMMAND.OWNER → a group of options                 pipeline/options.py
    mugo.players     name → PlayerKind                                  pipeline/players/kinds.py
    mugo.protocols   name → Protocol                                    pipeline/play/protocol.py
    mugo.records     name → subclass of RecordFormat             pipeline/games/records.py
    mugo.presets     any name → package with a folder presets/ of YAML  pipeline/presets/
    mugo.pages       name → Page                                        pipeline/play/page/kinds.py
    mugo.backends    name → subclass of Method whose models run on it   pipeline/networks/options.py

A bundled family lists what it offers in ``EXTENSIONS`` of its package, ``pipeline/families/NAME/__init__.py``; an
installed package lists the same lines as entry points in its pyproject.toml:

    [project.entry-points."mugo.games"]
    nim = "mugo_nim.game:from_spec"

``find`` reads tables and metadata only; ``load`` imports what one line names. Bundled lines come first: a package can't
replace one.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from traceback import walk_tb
from typing import Any

from pipeline.errors import MuGoError, UsageError

GAMES, METHODS, OPTIONS, PLAYERS = "mugo.games", "mugo.methods", "mugo.options", "mugo.players"
PROTOCOLS, RECORDS, PRESETS, PAGES = "mugo.protocols", "mugo.records", "mugo.presets", "mugo.pages"
BACKENDS = "mugo.backends"
FAMILIES = "pipeline.families"

Table = Mapping[str, Mapping[str, str]]
"""Extension point → name → "module:attribute"."""

CORE: dict[str, dict[str, str]] = {  # what serves games of every family
    GAMES: {},
    METHODS: {"alphazero": "pipeline.methods.alphazero.method:AlphaZero"},
    RECORDS: {"sgf": "pipeline.games.sgf:SgfFormat"},
    PLAYERS: {"random": "pipeline.players.kinds:Random", "heuristic": "pipeline.players.kinds:Heuristic"},
}


@dataclass(frozen=True)
class Extension:
    """One line of a table. package: the installed package that offers it; empty for a bundled one."""

    group: str
    name: str
    value: str
    package: str = ""

    def __str__(self) -> str:
        if not self.package:
            return f"{self.name!r} of {self.group}"
        return f"entry point {self.name!r} of {self.group} in package {self.package}"


def find(group: str) -> dict[str, Extension]:
    """What there is at an extension point, by name. Imports no package that isn't bundled.

    Raises UsageError if two packages offer different things under one name.
    """
    return {**installed(group), **bundled(group)}


def bundled(group: str) -> dict[str, Extension]:
    """What the core and the bundled families offer."""
    lines = (line for table in _tables() for line in table.get(group, {}).items())
    return {name: Extension(group, name, value) for name, value in lines}


def installed(group: str) -> dict[str, Extension]:
    """What other installed packages offer. Raises as find does."""
    from importlib.metadata import entry_points  # 20 ms, which --help needn't wait for

    found: dict[str, Extension] = {}
    for point in entry_points(group=group):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
        one = Extension(group, point.name, point.value, package)
        other = found.setdefault(point.name, one)
        if other.value != one.value:
            packages = " and ".join(sorted({other.package, package}))
            raise UsageError(f"entry point {point.name!r} of {group} is offered by {packages}; uninstall one of them")
    return found


def named(group: str, name: str) -> Extension | None:
    """What find gives under this name. Reads metadata of packages only for what isn't bundled. Raises as find does."""
    return bundled(group).get(name) or installed(group).get(name)


_IMPORTED: dict[str, Extension] = {}  # by the name of its package's outermost module: of other packages


def load(extension: Extension) -> Any:
    """Import what an extension names. Raises UsageError, naming the package, if that fails in any way."""
    if extension.package:
        _IMPORTED[_outermost(extension.value)] = extension
    try:
        return pkgutil.resolve_name(extension.value)
    except Exception as error:
        if not extension.package:
            raise
        raise UsageError(
            f"{extension}: importing {extension.value!r} failed ({type(error).__name__}: {error}); reinstall or "
            "uninstall the package"
        ) from error


def make(extension: Extension, kind: type, *arguments: Any) -> Any:
    """An instance of the subclass of `kind` that an extension names. Raises UsageError as load does."""
    found = load(extension)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise refuse(extension, found, f"a subclass of {kind.__name__}")
    try:
        return found(*arguments)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{extension}: making {extension.value!r} failed ({problem})") from error


def blame(error: BaseException) -> MuGoError | None:
    """One line about an exception that went through another package's code; None: it went through none."""
    line = None
    for frame, number in walk_tb(error.__traceback__):
        extension = _IMPORTED.get(_outermost(frame.f_globals.get("__name__", "")))
        if extension is not None:
            code = frame.f_code
            place = f"{code.co_filename}:{number}, in {code.co_name}"
            line = f"{extension}: {type(error).__name__}: {error} ({place}); update or uninstall the package"
    return None if line is None else MuGoError(line)


def _outermost(module: str) -> str:
    return module.partition(":")[0].partition(".")[0]


def refuse(extension: Extension, found: object, wanted: str) -> UsageError:
    """The error to raise for an extension that loads but gives the wrong thing."""
    return UsageError(f"{extension}: {extension.value!r} gave {found!r}; wanted {wanted}")


@cache
def _tables() -> tuple[Table, ...]:
    """The core's table, then those of the folders in pipeline/families."""
    folder = import_module(FAMILIES).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folder))
    return CORE, *(import_module(f"{FAMILIES}.{name}").EXTENSIONS for name in names)
