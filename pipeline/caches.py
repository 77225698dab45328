"""Where caches lie on this machine: compiled kernels, the choice of backend, working copies of runs in object storage.

That is ``$XDG_CACHE_HOME/mugo``, by default ``~/.cache/mugo``. A container's user may have no home, or one that belongs
to another user. Caches then go into a folder of their own among temporary files, and a line on stderr says so:
without any cache, every process would compile all kernels anew.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path

from pipeline.phrases import write

VARIABLE = "XDG_CACHE_HOME"


def cache_folder() -> Path:
    """The folder of all caches, made if it is missing."""
    return _folder(os.environ.get(VARIABLE))


@cache
def _folder(set_to: str | None) -> Path:
    """set_to: the variable's value, so that a change is noticed."""
    try:
        folder = (Path(set_to) if set_to else Path.home() / ".cache") / "mugo"
        problem = f"{folder.parent} can't be written"
    except RuntimeError:  # neither HOME nor an entry in the list of users
        folder, problem = None, "this user has no home folder"
    if folder is not None and is_writable(folder):
        return folder
    found = temporary_folder()
    # Processes that this one starts find it there, and don't warn again.
    os.environ[VARIABLE] = str(found.parent)
    write(
        f"mugo: {problem}, so compiled kernels and other caches go to {found}; set {VARIABLE} to a "
        "folder that stays, or they are made again for each container",
        sys.stderr,
    )
    return found


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def temporary_folder() -> Path:
    """This user's folder among temporary files: code is loaded from it, so no other user may write there."""
    base = Path(tempfile.gettempdir()) / f"mugo-cache-{os.getuid()}"
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    except OSError:
        is_own = False
    folder = (base if is_own else Path(tempfile.mkdtemp(prefix="mugo-cache-"))) / "mugo"
    folder.mkdir(exist_ok=True)
    return folder
