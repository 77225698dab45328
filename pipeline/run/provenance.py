"""What made a result: this program's commit, a hash of its modules, and the versions of relevant libraries."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

LIBRARIES = ("torch", "numpy", "numba", "openvino")
DIGEST = 12  # characters of a hash


def source_commit() -> str | None:
    """The git commit of this program, with ``-changed`` if files differ from it. None outside a checkout, even if the
    program was unpacked or installed inside another repository.
    """
    file = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)  # fails unless the repository has this file
        return git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=-changed") or None
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def source_digest() -> str:
    """A hash of this program's modules, which compares two machines also without git."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:DIGEST]


def library_versions() -> dict[str, str]:
    """Versions by name, Python's too, of the libraries that are installed."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
