"""MuGo: self-play training pipelines for board games, as four commands over files."""

import hashlib
import os
from pathlib import Path

__version__ = "0.1.0"

# By default OpenMP's threads spin while they wait for each other. Where something else runs on the same cores, every
# operation of torch then waits for a spinner that lost its core: a training step of 148 ms took 1,270 ms (two
# cores, three other processes). It must be said before torch is imported; who sets the variable keeps their choice.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _kernel_cache() -> Path:
    """Where numba keeps compiled kernels of exactly these sources.

    Numba compares a kernel with its own file only: one that calls a kernel of another file, or uses its constants,
    would go on running the old code after an update there.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("games/**/*.py")) + sorted(here.glob("search/*.py")):
        digest.update(source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    checked = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0" else ""  # compiles to different code
    return cache / "mugo" / f"kernels-{digest.hexdigest()[:12]}{checked}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernel_cache()))
