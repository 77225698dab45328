"""Kernels: functions compiled by numba, which release the interpreter's lock and are cached on disk.

A kernel runs in one thread and takes all parameters as arguments. It doesn't check the shapes of arrays.

Numba only compares a compiled kernel with the time stamp of its own file. So a kernel that uses another file's kernels
or constants would run old code after a change there, and a new docstring would cost a minute of compiling. Here the
code itself decides: a kernel's folder is named by a hash of its module and of all modules that it imports from its own
package and from this one, without docstrings, comments and line numbers.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from pipeline.caches import cache_folder, is_writable
from pipeline.phrases import write

Decorator = Callable[[Callable[..., Any]], Any]


def make_kernel(**options: Any) -> Decorator:
    """A decorator like ``kernel`` with further options of numba's njit."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        if hasattr(dispatcher, "_cache"):  # not with NUMBA_DISABLE_JIT
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


kernel = make_kernel()


class _Locator:
    """Where numba keeps a kernel; its interface is numba.core.caching._CacheLocator."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # named in a warning of numba's
        checked = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0" else ""  # other code
        self._folder = _root() / f"{function.__module__}-{code_hash(function.__module__)}{checked}"

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        """None, so that numba looks for another place, if the folder can't be written."""
        try:
            locator = cls(function, file)
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator if os.access(locator._folder, os.W_OK) else None

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return ""  # the folder's name says it

    def get_disambiguator(self) -> str:
        return ""  # a module's functions have different names


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012  numba's way


class _Cache(FunctionCache):
    """Its damaged files count as missing: a power cut may leave them empty, a full disk or a bad copy too short."""

    _impl_class = _CacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling what isn't whole fails in many ways
            with suppress(OSError):
                self.flush()  # an index that can't be read couldn't be replaced either
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk: the kernel is compiled, only not kept
            super().save_overload(sig, data)


@cache
def _root() -> Path:
    own = os.environ.get("NUMBA_CACHE_DIR")
    if own and is_writable(Path(own)):
        return Path(own)
    folder = cache_folder() / "kernels"
    if own:
        write(f"mugo: NUMBA_CACHE_DIR={own} can't be written; compiled kernels go to {folder}", sys.stderr)
        os.environ["NUMBA_CACHE_DIR"] = str(folder)  # processes that this one starts don't warn again
    return folder


def code_hash(module: str) -> str:
    """A hash of the code of a module and of its direct and indirect imports from its package and from this one."""
    codes, waiting = {}, [module]
    while waiting:
        name = waiting.pop()
        if name not in codes:
            codes[name], imported = _code_and_imports(name)
            waiting += imported
    return hashlib.sha256("\n".join(codes[name] for name in sorted(codes)).encode()).hexdigest()[:12]


@cache
def _code_and_imports(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's code as text, and the modules that its top level imports from its package and from this one."""
    path = _file_of(module)
    tree = ast.parse(path.read_bytes()) if path else ast.Module([], [])
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    imported = tuple(name for name in _imports(tree, module) if name.partition(".")[0] in packages and _file_of(name))
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            node.body = node.body[1:]  # type: ignore[attr-defined]
    return ast.dump(tree), imported


def _imports(tree: ast.Module, module: str) -> Iterator[str]:
    """Possible modules: of ``from a.b import c`` both a.b and a.b.c."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


@cache
def _file_of(module: str) -> Path | None:
    """The source of a module; None for other names, and for packages, whose __init__ has no kernels."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or spec.submodule_search_locations is not None:
        return None
    return Path(spec.origin) if spec.origin.endswith(".py") else None
