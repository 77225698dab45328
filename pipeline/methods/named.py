"""Methods by name: of the core, the bundled families and installed packages (extension point ``mugo.methods``).

Files name a method, never a module, so reading a file can't import code that its author chose.
"""

from __future__ import annotations

from functools import cache

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.methods.method import Method


@cache
def method_named(name: str) -> Method:
    """Raises UsageError if nothing offers this method."""
    offered = extensions.find(extensions.METHODS)
    if name not in offered:
        known = ", ".join(sorted(offered))
        raise UsageError(f"method {name!r}: unknown; known methods: {known}; is its package installed?")
    found = extensions.load(offered[name])
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise extensions.refuse(offered[name], found, "a subclass of pipeline.methods.method.Method")
    method: Method = found()
    return method
