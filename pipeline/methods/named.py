"""Methods by name: of the core, the bundled families and installed packages (extension point ``mugo.methods``).

Files name a method, never a module, so reading a file can't import code that its author chose.
"""

from __future__ import annotations

from functools import cache

from pipeline import extensions
from pipeline.methods.method import Method


@cache
def method_named(name: str) -> Method:
    """Raises UsageError if nothing offers this method."""
    method: Method = extensions.make(extensions.need(extensions.METHODS, name, "method"), Method)
    return method
