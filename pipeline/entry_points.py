"""Games, players and methods of other installed packages, found through Python's entry points.

A package announces what it offers in its pyproject.toml, and installing it is all that is needed:

    [project.entry-points."mugo.games"]
    nim = "mugo_nim.game:from_spec"

Groups: ``mugo.games``, ``mugo.players`` and ``mugo.methods``; what each wants is said by the registry that reads it.
Built-in ones stand in tables of the registries, so that a checkout works uninstalled, and always come first: a package
can't replace one. ``find`` reads metadata and imports none of the packages; ``load`` imports the one it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GAMES, PLAYERS, METHODS = "mugo.games", "mugo.players", "mugo.methods"


def find(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer in a group, by name. Imports none of it.

    Raises UsageError if two packages offer different things under one name.
    """
    from importlib.metadata import entry_points  # 20 ms, which --help needn't wait for

    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            packages = " and ".join(sorted({_package(other), _package(point)}))
            raise UsageError(f"entry point {point.name!r} of {group} is offered by {packages}; uninstall one of them")
    return found


def load(point: EntryPoint) -> Any:
    """Import what an entry point names. Raises UsageError, naming the package, if that fails in whatever way."""
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"entry point {point.name!r} of {point.group} in package {_package(point)}: importing {point.value!r} "
            f"failed ({type(error).__name__}: {error}); reinstall or uninstall the package"
        ) from error


def refuse(point: EntryPoint, found: object, wanted: str) -> UsageError:
    """The error to raise for an entry point that loads but gives the wrong thing."""
    return UsageError(
        f"entry point {point.name!r} of {point.group} in package {_package(point)}: {point.value!r} gave {found!r}; "
        f"wanted {wanted}"
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
