"""Where a result came from: this program's commit and the versions of the libraries that matter."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

LIBRARIES = ("torch", "numpy", "numba", "openvino")


def source_commit() -> str | None:
    """The git commit of this program, with ``-changed`` if files differ from it; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=-changed"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None


def library_versions() -> dict[str, str]:
    """Versions by name, including Python's; libraries that aren't installed are left out."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
