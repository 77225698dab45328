"""Methods by name: the built-in ones, and those of installed packages (entry points ``mugo.methods``).

An entry point names a subclass of Method. A file can name a method, never a module: what isn't built in or installed
is an error, so that reading a file never imports what its author wished for.
"""

from __future__ import annotations

import importlib
from functools import cache

from pipeline import entry_points
from pipeline.errors import UsageError
from pipeline.methods.base import Method
from pipeline.storage.layout import DEFAULT_METHOD

BUILT_IN = {
    DEFAULT_METHOD: ("pipeline.methods.alphazero.method", "AlphaZero"),
    "a2c": ("pipeline.methods.reinforce.method", "ActorCritic"),
    "reinforce": ("pipeline.methods.reinforce.method", "Reinforce"),
    "td": ("pipeline.methods.td.method", "TemporalDifference"),
}


@cache
def method_named(name: str) -> Method:
    """Raises UsageError if there is no such method."""
    if name in BUILT_IN:
        module, kind = BUILT_IN[name]
        found = getattr(importlib.import_module(module), kind)
    else:
        points = entry_points.find(entry_points.METHODS)
        if name not in points:
            known = ", ".join(sorted([*BUILT_IN, *points]))
            raise UsageError(f"method {name!r}: unknown; known methods: {known}; is its package installed?")
        found = entry_points.load(points[name])
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise entry_points.refuse(points[name], found, "a subclass of pipeline.methods.base.Method")
    method: Method = found()
    return method
