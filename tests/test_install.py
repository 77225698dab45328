"""The command ``mugo``: what a wheel holds, and how the program behaves where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pipeline
from pipeline import main, phrases

ROOT = Path(__file__).parent.parent


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages in which MuGo is installed, by links."""
    package = tmp_path / "site" / "pipeline"
    package.mkdir(parents=True)
    for path in (ROOT / "pipeline").iterdir():
        if path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    (package / "pretrained").symlink_to(ROOT / "pretrained")
    return package.parent


def mugo(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    program = [sys.executable, "-P", "-m", "pipeline", *arguments]
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)


def test_it_works_outside_a_checkout_and_calls_itself_by_its_name(site: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "pipeline").mkdir(parents=True)  # a user's own
    (here / "pipeline/__init__.py").write_text("raise SystemExit('not this one')")
    assert mugo(site, here, "--version").stdout == f"mugo {pipeline.__version__}\n"
    listed = mugo(site, here, "--help").stdout
    assert "Usage: mugo [OPTIONS]" in listed and "main.py" not in listed
    assert "Example: mugo show " in mugo(site, here, "show", "--help").stdout
    assert "go9-tour" in mugo(site, here, "presets").stdout
    assert f"{site}/pipeline/pretrained/go9" in mugo(site, here, "show", "pretrained/go9").stdout
    assert "play --model pretrained/go9" in mugo(site, here, "play").stderr
    assert "`mugo init`" in mugo(site, here, "selfplay").stderr
    assert "Usage: mugo selfplay" in mugo(site, here, "selfplay", "--nothing").stderr
    (here / "saved_models").mkdir()
    said = mugo(site, here, "show").stdout
    assert "\n  mugo init  make a first model\n" in said


def test_main_py_is_the_same_program() -> None:
    program = [sys.executable, str(ROOT / "main.py")]
    said = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"mugo {pipeline.__version__}\n"
    usage = subprocess.run([*program, "show", "--help"], capture_output=True, text=True, check=True).stdout
    assert "Usage: main.py show" in usage and "python main.py show saved_models" in usage


def test_its_words_start_it_in_another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for call in (phrases.INSTALLED, phrases.CHECKOUT):
        monkeypatch.setattr(phrases, "_call", call)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = [*main.program(), "--version"]
        assert subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True).returncode == 0
        assert ("main.py" in " ".join(words)) == (call == phrases.CHECKOUT)


def test_a_missing_package_is_one_line(site: Path, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without/typer.py").write_text("raise ModuleNotFoundError(\"No module named 'typer'\")")
    done = mugo(site, tmp_path / "without", "presets")
    assert done.returncode == 0  # -P
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "without")}
    for program, said in (([str(ROOT / "main.py")], "./rl_loop.sh"), (["-m", "pipeline"], "pip install")):
        done = subprocess.run(
            [sys.executable, *program, "presets"], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert "mugo: No module named 'typer'" in done.stderr and said in done.stderr


def test_a_wheel_has_everything_and_building_it_leaves_nothing(tmp_path: Path) -> None:
    """Skipped where the build's own requirements can't be had."""
    tree = tmp_path / "tree"
    for name in ("pipeline", "pretrained"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "main.py", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    before = sorted(tree.rglob("*"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution" in done.stderr or "No module named pip" in done.stderr:
        pytest.skip("hatchling can't be had here")
    assert done.returncode == 0, done.stderr
    assert sorted(tree.rglob("*")) == before
    (wheel,) = tmp_path.glob(f"mugo-{pipeline.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
        (points,) = (name for name in opened.namelist() if name.endswith("entry_points.txt"))
        assert b"mugo = pipeline.__main__:run" in opened.read(points)
    wanted = {str(path.relative_to(tree)) for path in (tree / "pipeline").rglob("*") if path.is_file()}
    models = {f"pipeline/{path.relative_to(tree)}" for path in (tree / "pretrained").rglob("*") if path.is_file()}
    assert names == wanted | models
