"""What is compiled again after a change of the sources: code, never prose."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLAY = """
import numpy as np
from pipeline.families.lines import kernels
from pipeline.games.specs import parse_game
game = parse_game("tictactoe")
states = game.initial(1)
game.play(states, np.array([4], np.int32), game.initial_history(states))
loaded, compiled = kernels.play.stats.cache_hits, kernels.play.stats.cache_misses
print(sum(loaded.values()), sum(compiled.values()))
"""


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package beside the cache of its kernels, which one game has filled."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    assert play(folder) == {"loaded": 0, "compiled": 1}
    return folder


@pytest.fixture
def copy(compiled_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(compiled_once, tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "own"


def play(folder: Path) -> dict[str, int]:
    """How often the kernel of a move was loaded, and how often compiled, by a process that makes one."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(folder)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", PLAY], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(("loaded", "compiled"), map(int, done.stdout.split()), strict=True))


@pytest.mark.parametrize(("suffix", "kept"), [("nbi", 0), ("nbc", 1000)])
def test_a_damaged_cache_is_compiled_again(copy: Path, suffix: str, kept: int) -> None:
    """As a power cut, a full disk or a bad copy leaves it."""
    for file in (copy / "cache").rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:kept])
    assert play(copy) == {"loaded": 0, "compiled": 1}
    assert play(copy) == {"loaded": 1, "compiled": 0}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("games/row_kernels.py", '"""Kernels for games', '"""Kernels,\n\namong them, for games'),
        ("games/row_kernels.py", "    points: ", "    the points: "),
        (
            "families/lines/kernels.py",
            "    num_points = height * width\n",
            "    # why\n\n    num_points = height * width  # P\n",
        ),
        ("games/contract.py", '"""The contract of a game', '"""What a game is\n\nThe contract of a game'),
        ("families/lines/game.py", "class LineGame", "UNUSED = 1\n\n\nclass LineGame"),
        ("families/gomoku/shapes.py", "\ndef ", "\nUNUSED = 1\n\n\ndef "),
    ],
)
def test_prose_and_other_modules_compile_nothing(copy: Path, file: str, old: str, new: str) -> None:
    path = copy / "pipeline" / file
    text = path.read_text()
    path.write_text(text.replace(old, new, 1) if old in text else f"# {new}\n{text}")
    assert play(copy) == {"loaded": 1, "compiled": 0}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("games/row_kernels.py", "LEGAL, OUT_OF_RANGE, GAME_OVER, OCCUPIED = 0, 1, 2, 3",
         "LEGAL, OUT_OF_RANGE, GAME_OVER, OCCUPIED = 0, 1, 2, 4"),
        ("games/contract.py", 'ON = "on"', 'ON = "yes"'),
    ],
)  # fmt: skip
def test_code_that_a_kernel_may_use_compiles_it_again(copy: Path, file: str, old: str, new: str) -> None:
    path = copy / "pipeline" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert play(copy) == {"loaded": 0, "compiled": 1}
