"""examples/hex, as its author has it: installed from its folder, tested by its own tests, trained, shown and played."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.browser import headless_chromium, needs_chromium, served_page
from tests.plugins import ROOT, Site, install

TINY = """
init: {game: 'hex:4', network_size: b1c8}
selfplay: {games: 30, readouts: 4, temperature_plies: 6, backend: torch, threads: 1, parallel_games: 8}
gather: {positions_per_chunk: 32, as_many_as_possible: true}
train: {epochs: 1, batch_size: 32}
evaluate: {games: 4, readouts: 2, opening_plies: 1, backend: torch, threads: 1, parallel_games: 2}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, because installing leaves files of the build in its folder."""
    return Path(shutil.copytree(ROOT / "examples/hex", tmp_path_factory.mktemp("source") / "hex"))


@pytest.fixture(scope="module")
def installed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for sys.path."""
    install(source, target := tmp_path_factory.mktemp("site"))
    return target


@pytest.fixture(scope="module")
def site(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(installed, tmp_path_factory.mktemp("workshop")) as site:
        yield site


@pytest.fixture(scope="module")
def trained(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two generations."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "tiny.yaml").write_text(TINY)
    options = ("--preset", str(folder / "tiny.yaml"), "--directory", str(folder), "--generations", "2")
    site.run(folder, str(ROOT / "rl_loop.sh"), *options)
    return folder


def test_its_own_tests(site: Site, source: Path) -> None:
    said = site.run(source, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert "passed" in said and "failed" not in said


def test_its_preset_is_listed(site: Site, tmp_path: Path) -> None:
    assert "hex5" in site.run(tmp_path, "presets", fork=False)
    assert "game: hex:5" in site.run(tmp_path, "presets", "hex5")


def test_what_the_run_made_is_read_without_further_ado(trained: Path, site: Site, tmp_path: Path) -> None:
    shard = str(next((trained / "data/selfplay").rglob("*.gz")))
    for folder in (trained, tmp_path):  # in the run, and by the path alone
        assert "X to move" in site.run(folder, "show", shard, "--game", "0", "--moves")
    chunk = str(next((trained / "data/training_data").glob("*.h5")))
    assert "A B C D" in site.run(tmp_path, "show", chunk)
    assert "all is well" in site.run(trained, "verify")
    site.run(tmp_path, "report", str(trained), "--output", str(tmp_path / "report.html"))
    assert "hex:4" in (tmp_path / "report.html").read_text()
    assert "hex:4" in site.run(trained, "status", "--json")
    assert "hex:4" in site.run(trained, "show", fork=False)


def test_its_model_and_its_heuristic_play(trained: Path, site: Site) -> None:
    options = ("--games", "4", "--readouts", "4", "--backend", "torch", "--threads", "1")
    model = ("--white-model", "saved_models/best_model")
    site.run(trained, "evaluate", "--black-model", "random", *model, "--output-dir", "matches", *options)
    assert "random" in site.run(trained, "show", str(next((trained / "matches").glob("0*"))))
    players = ("--black-model", "random", "--white-model", "heuristic", "--game", "hex:4")
    site.run(trained, "evaluate", *players, "--output-dir", "matches", *options)


def test_its_model_speaks_gtp(trained: Path, site: Site) -> None:
    talk = "1 play b D4\n2 genmove w\n3 showboard\n4 quit\n"
    said = site.run(trained, "engine", "--protocol", "gtp", "--readouts", "4", "--backend", "torch", text=talk)
    assert "=1\n" in said.replace("=1 \n", "=1\n") and "=2 " in said and "A B C D" in said


def test_a_stray_file_imports_nothing(trained: Path, site: Site, tmp_path: Path) -> None:
    stray = tmp_path / "stray.gz"
    shutil.copy(next((trained / "data/selfplay").rglob("*.gz")), stray)
    said = " ".join(site.run(tmp_path, "show", str(stray), code=2).split())
    assert "game 'hex:4' is another package's" in said and "wanted a run whose models play it" in said


@needs_chromium
def test_a_stone_is_where_it_was_put_on_the_page(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
    pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
    from selenium.webdriver import ActionChains, Keys

    from tests.play.test_page_browser import Page

    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{installed}")
    with served_page() as address, headless_chromium() as browser:
        page = Page(browser, address)
        page.begin("nobody", "hex:7")

        def centres(part: str) -> np.ndarray:
            """[n, 2] of these parts of the points, in pixels."""
            script = f"""return [...document.querySelectorAll("#board .point {part}")].map((one) => {{
                const box = one.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})"""
            return np.array(browser.execute_script(script))

        cells = centres(".hit")
        distances = np.linalg.norm(cells[:, None] - cells, axis=2)
        row, column = np.divmod(np.arange(49), 7)
        down, right = row[:, None] - row, column[:, None] - column
        near = (abs(down) <= 1) & (abs(right) <= 1) & (down != right)  # as in the rules
        pitch = distances[near].max()
        assert distances[near].min() > pitch - 0.1 and distances[(distances > 0) & ~near].min() > 1.7 * pitch

        number = page.labels().index("D4, empty")
        click = ActionChains(browser)
        x, y = cells[number] + [0, 0.54 * pitch]  # just above the lower corner of its hexagon
        click.w3c_actions.pointer_action.move_to_location(round(x), round(y)).click()
        click.perform()
        page.until(lambda: page.where() == "1 / 1")
        assert page.labels()[number] == "D4, Black stone, last move"
        assert np.linalg.norm(centres(".disc") - cells[number]) < 1
        page.keys(Keys.ARROW_RIGHT, Keys.ENTER)
        page.until(lambda: page.where() == "2 / 2")
        assert "E4, White stone, last move" in page.labels()
        assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
