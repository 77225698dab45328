"""Tests of the families, a package each; with a family's folder in pipeline/families its tests can be deleted.

What the core's tests do with every family stands in its package's ``__init__.py``:

    SPECS    specs of games with a fixed list of actions, with the sizes and options that change what their code does
    OTHERS   of games with chance, or without such a list
    FUZZED   "module:attribute", where it has files of its own: suffix → (a whole file, what reads it) for tests/fuzz
"""

import pkgutil
from importlib import import_module
from typing import Any


def there_is(family: str) -> bool:
    """Whether it hasn't been deleted."""
    return any(module.name == family for module in pkgutil.iter_modules(__path__))


def having(family: str, *cases: Any) -> tuple[Any, ...]:
    """The cases of a test that need this family; none if it has been deleted."""
    return cases if there_is(family) else ()


def of_each(what: str) -> list[Any]:
    """This attribute of each family's package that has it."""
    packages = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return [getattr(package, what) for package in packages if hasattr(package, what)]


def offered(what: str) -> tuple[str, ...]:
    """The specs of all families under this name, SPECS or OTHERS."""
    return tuple(spec for specs in of_each(what) for spec in specs)
