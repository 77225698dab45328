"""What plug-ins offer at each extension point: one table of bundled families and installed packages.

    mugo.games       name → function (size, options) -> game            pipeline/games/contract.py
    mugo.methods     name → subclass of Method                          pipeline/methods/method.py
    mugo.options     COMMAND.OWNER → a group of options                 pipeline/options.py
    mugo.players     name → PlayerKind                                  pipeline/players/kinds.py
    mugo.protocols   name → Protocol                                    pipeline/play/protocol.py
    mugo.records     name → subclass of RecordFormat                    pipeline/games/records.py
    mugo.presets     any name → package with a folder presets/ of YAML  pipeline/presets/
    mugo.pages       name → Page                                        pipeline/play/page/page_kinds.py
    mugo.backends    name → subclass of Method whose models run on it   pipeline/networks/options.py

A bundled family lists what it offers in ``EXTENSIONS`` of its package, ``pipeline/families/NAME/__init__.py``; an
installed package lists the same lines as entry points in its pyproject.toml:

    [project.entry-points."mugo.games"]
    nim = "mugo_nim.game:from_spec"

A line may name the extras of its package that it needs, as entry points do: ``"mugo_nim.game:from_spec [solver]"``.

``find`` reads tables and metadata only; ``load`` imports what one line names. Bundled lines come first: a package can't
replace one.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator, Mapping
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

CORE: dict[str, dict[str, str]] = {  # what serves games of all families
    GAMES: {},
    PRESETS: {"core": "pipeline"},
    METHODS: {"alphazero": "pipeline.methods.alphazero.method:AlphaZero"},
    RECORDS: {"sgf": "pipeline.games.sgf:SgfFormat"},
    PLAYERS: {"random": "pipeline.players.kinds:Random", "heuristic": "pipeline.players.kinds:Heuristic"},
}


@dataclass(frozen=True)
class Extension:
    """One line of a table.

    package: the installed package that offers it; empty for a bundled one. extras: those of its package that it needs.
    """

    group: str
    name: str
    value: str
    extras: frozenset[str] = frozenset()
    package: str = ""

    def __str__(self) -> str:
        if not self.package:
            return f"{self.name!r} of {self.group}"
        return f"entry point {self.name!r} of {self.group} in package {self.package}"


def find(group: str) -> dict[str, Extension]:
    """All extensions at an extension point, by name. Imports no installed package.

    Raises UsageError if two packages offer different things under one name.
    """
    return {**installed(group), **bundled(group)}


def bundled(group: str) -> dict[str, Extension]:
    """The extensions of the core and the bundled families."""
    lines = (line for table in _tables() for line in table.get(group, {}).items())
    return {name: Extension(group, name, *_parsed(value)) for name, value in lines}


def installed(group: str) -> dict[str, Extension]:
    """The extensions of other installed packages. Raises as find does."""
    found: dict[str, Extension] = {}
    for point in _entry_points(tuple(sys.path)).select(group=group):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
        one = Extension(group, point.name, *_parsed(point.value), package)
        other = found.setdefault(point.name, one)
        if other.value != one.value:
            packages = " and ".join(sorted({other.package, package}))
            raise UsageError(f"entry point {point.name!r} of {group} is offered by {packages}; uninstall one of them")
    return found


def _parsed(line: str) -> tuple[str, frozenset[str]]:
    """What a line ``module:attribute [extra, …]`` names, and its extras."""
    value, _, extras = line.partition("[")
    return value.strip(), frozenset(extras.rstrip("] ").replace(",", " ").split())


@cache
def _entry_points(path: tuple[str, ...]) -> Any:
    """The entry points of all packages installed on a module search path. Reading them takes 20 ms."""
    from importlib.metadata import entry_points

    return entry_points()


def named(group: str, name: str) -> Extension | None:
    """The extension that find has under this name. Reads packages' metadata only if none is bundled."""
    return bundled(group).get(name) or installed(group).get(name)


def need(group: str, name: str, where: str) -> Extension:
    """As named. Raises UsageError if there is none. where: the message's beginning."""
    if (found := named(group, name)) is not None:
        return found
    known = f"known {group.partition('.')[2]}: {', '.join(sorted(find(group)))}"
    raise UsageError(f"{where}: unknown name {name!r}; {known}; is its package installed?")


_IMPORTED: dict[str, str] = {}  # installed packages, by the name of the outermost module


def load(extension: Extension) -> Any:
    """Import what an extension names. Raises UsageError that names the package if that fails in any way."""
    if extension.package:
        _IMPORTED[_outermost(extension.value)] = extension.package
    try:
        return pkgutil.resolve_name(extension.value)
    except (Exception, SystemExit) as error:
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


def descriptions(group: str) -> Iterator[tuple[str, str]]:
    """(NAME, or NAME:ARGUMENT if it takes one; its help) of all kinds of players or all protocols.

    Of installed packages only the name, as none is imported.
    """
    for name, extension in sorted(find(group).items(), key=lambda one: (one[1].package != "", one[0])):
        found = None if extension.package else load(extension)
        argument = getattr(found, "argument", "")
        yield f"{name}:{argument}" if argument else name, found.help if found else f"of package {extension.package}"


def blame(error: BaseException) -> MuGoError | None:
    """One line about an exception that passed through an installed package's code; None: it didn't.

    A MuGoError is one already.
    """
    if isinstance(error, MuGoError):
        return error
    line = None
    for frame, number in walk_tb(error.__traceback__):
        package = _IMPORTED.get(_outermost(frame.f_globals.get("__name__", "")))
        if package is not None:
            code = frame.f_code
            place = f"{code.co_filename}:{number}, in {code.co_name}"
            line = f"package {package}: {type(error).__name__}: {error} ({place}); update or uninstall the package"
    return None if line is None else MuGoError(line)


def _outermost(module: str) -> str:
    return module.partition(":")[0].partition(".")[0]


def refuse(extension: Extension, found: object, wanted: str) -> UsageError:
    """The error for an extension that loads but gives the wrong thing."""
    return UsageError(f"{extension}: {extension.value!r} gave {found!r}; wanted {wanted}")


@cache
def _tables() -> tuple[Table, ...]:
    """The core's table, then those of the folders in pipeline/families."""
    folder = import_module(FAMILIES).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folder))
    return CORE, *(import_module(f"{FAMILIES}.{name}").EXTENSIONS for name in names)
