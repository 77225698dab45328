"""Pages of another package: a board with a script and a table, a page for itself, and those that are wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
pytest.importorskip("httpx", reason="needs the extra test: pip install '.[test]'")
from starlette.testclient import TestClient

from pipeline import extensions
from pipeline.play.page.app import Lobby, make_app
from pipeline.play.page.pages import load_pages
from tests.browser import headless_chromium, needs_chromium, served_page
from tests.play.test_page import ADDRESS, Page, make_analyst

PAGE_FILES = Path(__file__).parents[2] / "pipeline" / "play" / "page"
ENTRY_POINTS = """
[mugo.games]
wide = mugo_board:Wide.from_spec
narrow = mugo_board:Narrow.from_spec

[mugo.pages]
wide = mugo_board:WidePage
count = mugo_board:CountPage
absent = mugo_board:not_there
number = mugo_board:NUMBER
lost = mugo_board:LostPage
stranger = mugo_board:StrangerPage
api = mugo_board:WidePage
"""
MODULE = '''
"""Three in a row on a wide board, shown by a script of its own; on a narrow one without; and a page that counts."""

import secrets

import numpy as np
from pydantic import Field

from pipeline.families.lines.game import LineGame
from pipeline.games.contract import board_symmetries
from pipeline.play.page.page_kinds import At, BeginningField, BoardPage, Body, OwnPage
from pipeline.play.page.table import Beginning, Table

NUMBER = 7


class Wide(LineGame):
    height, width, length, falls = 3, 4, 3, False
    spec, examples = "wide", "A1 to D3"
    symmetries = board_symmetries(3, 4)

    def __init__(self):
        super().__init__()
        self.symmetries = board_symmetries(self.height, self.width)


class Narrow(Wide):
    width, spec, examples = 3, "narrow", "A1 to C3"


class WideTable(Table):
    board = "wide"
    records = ("txt",)

    def _position(self, ply, legal):
        state = self._played.positions[ply].state
        names = [self.game.action_name(int(action)) for action in np.flatnonzero(legal)]
        return {"cells": state[:12].tolist(), "legal": names, "can_pass": False, "last": self._named[ply - 1 : ply]}

    def _written(self, suffix, text):
        return " ".join(self._named)

    def _outcome(self, states):
        return f"It ends {float(self.game.returns(states)[0]):+g}"


def _with_first_move(game, text):
    return Beginning(moves=[(0, game.parse_action(text))])


class WidePage(BoardPage):
    files = ("wide.js", "wide.css", "broken.js", "king.svg")
    specs = ("wide",)
    table = WideTable
    beginning = BeginningField("a first move", _with_first_move, "e.g. B2")
    record_names = {"txt": "text"}
    opens = (".txt",)

    def plays(self, game):
        return type(game) is Wide

    def read(self, data, games):
        moves = [games[0].parse_action(name) for name in data.decode().split()]
        return games[0], Beginning(moves=[(number % 2, move) for number, move in enumerate(moves)])


class LostPage(WidePage):
    files = ("nowhere.js",)


class StrangerPage(WidePage):
    specs = ("tictactoe",)


class New(Body):
    first: int = Field(0, ge=0)


class Count:
    def __init__(self, first):
        self.id, self.number = secrets.token_urlsafe(9), first

    def up(self, ply):
        self.number += 1

    def view(self):
        return {"id": self.id, "number": self.number}

    def record(self, suffix):
        return str(self.number)

    def close(self):
        pass


class CountPage(OwnPage):
    title, html, files = "Counting <up>", "count.html", ("count.html",)
    new_game = New
    verbs = {"up": At}

    def plays(self, game):
        return False

    def options(self, models):
        return {"models": list(models)}

    def begin(self, body, models):
        return Count(body.first)
'''
SCRIPT = """
const view_of_mine = 1, short = "a name that page.js has, too";
boards.wide = {
  setUp() { $("extras").insertAdjacentHTML("beforeend", '<p id="wide-note" data-board="wide">A wide board.</p>'); },
  build() { $("board").replaceChildren(element("text", { id: "cells" })); },
  draw() { $("cells").textContent = view.cells.join(""); },
  follow() {},
  picture: () => element("circle", { r: 9 }),
  press() {}, moveCursor() {}, cancel() {},
};
"""
FILES = {
    "wide.js": SCRIPT,
    "wide.css": "#cells { font-weight: 700; }",
    "broken.js": "throw new Error('a script that fails');",
    "king.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "count.html": "<!doctype html><title>Counting</title>",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for sys.path as pip leaves it behind."""
    site = tmp_path_factory.mktemp("site")
    information = site / "mugo_board-0.3.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mugo-board\nVersion: 0.3\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    package = site / "mugo_board"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    for name, text in FILES.items():
        (package / name).write_text(text)
    return site


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said while its pages are loaded."""
    monkeypatch.syspath_prepend(str(site))
    said: list[str] = []
    monkeypatch.setattr("tests.play.test_page.PAGES", load_pages(said.append))
    return said


def test_a_board_of_another_package_is_shown_and_played(installed: list[str]) -> None:
    page = Page(make_analyst("wide", "ours"), make_analyst("narrow", "theirs"))
    html = page.client.get("/").text
    assert '<script type="module" src="/pages/wide/wide.js">' in html and 'href="/pages/wide/wide.css"' in html
    for name, text in FILES.items():
        if name != "count.html":
            assert page.client.get(f"/pages/wide/{name}").text == text
    assert page.client.get("/pages/wide/__init__.py").status_code == 404
    options = page.ask("/api/options")
    games = {game["spec"]: game for game in options["games"]}
    assert games["wide"]["opponents"] == ["ours", "heuristic", "random", "nobody"]
    assert games["wide"]["beginning"] == {"label": "Begin at a first move", "placeholder": "e.g. B2"}
    assert options["record_names"]["txt"] == "text" and ".txt" in options["opens"]
    view = page.act(page.play(page.begin("wide", "ours"), "A1"), "reply")
    assert view["board_kind"] == "wide" and sorted(view["cells"])[-2:] == [1, 2]
    assert page.act(view, "analyse", readouts=4)["analysis"]["visits"] >= 4
    view = page.play(page.begin("wide", beginning="A1"), "A2", "B1", "B2", "C1")
    assert view["moves"][0] == "A1" and view["result"] == "It ends +1"
    text = page.client.get(f"/api/games/{view['id']}/txt").text
    assert page.ask("/api/records?game=wide", content=text.encode())["moves"] == view["moves"]
    assert "Narrow always begins as usual" in page.ask(
        "/api/games", {"game": "narrow", "opponent": "nobody", "readouts": 1, "beginning": "A1"}, status=400
    )


def test_a_game_of_stones_of_another_package_needs_no_page(installed: list[str]) -> None:
    page = Page(make_analyst("narrow", "theirs"))
    view = page.act(page.play(page.begin("narrow", "theirs"), "B2"), "reply")
    assert view["board_kind"] == "stones" and len(view["moves"]) == 2 and view["names"][0] == "A3"
    assert view["look"] == {
        "ground": "wood", "on_lines": False, "stones": ["black", "white"], "called": "stone", "shows_legal": False,
    }  # fmt: skip


def test_a_page_for_itself_of_another_package(installed: list[str]) -> None:
    page = Page()
    assert '<a class="button" href="/count">Counting &lt;up&gt;</a>' in page.client.get("/").text
    assert page.client.get("/count").text == FILES["count.html"]
    assert page.ask("/api/count") == {"models": [], "champion": ""}
    view = page.ask("/api/count", {"first": 4})
    assert page.ask(f"/api/count/{view['id']}/up", {"ply": 0}) == {**view, "number": 5}
    assert page.ask(f"/api/count/{view['id']}")["number"] == 5
    assert page.client.get(f"/api/count/{view['id']}/txt").text == "5"
    assert "wanted one of up" in page.ask(f"/api/count/{view['id']}/down", {"ply": 0}, status=404)
    assert "first" in page.ask("/api/count", {"first": -1}, status=400)


def test_pages_that_are_wrong_are_one_line_each_and_the_others_work(installed: list[str]) -> None:
    wanted = {
        "absent": "importing 'mugo_board:not_there' failed",
        "number": "gave 7; wanted a subclass of Page",
        "lost": "FileNotFoundError",
        "stranger": "it offers tictactoe but doesn't play it",
        "api": "wanted a name of lower-case letters",
    }
    said = {re.match(r"entry point '(\w+)' of mugo.pages in package mugo-board 0.3: ", line)[1]: line  # type: ignore[index]
            for line in installed}  # fmt: skip
    assert said.keys() == wanted.keys()
    for name, problem in wanted.items():
        assert problem in said[name] and "\n" not in said[name]
    page = Page()
    assert page.play(page.begin("tictactoe"), "B2")["board_kind"] == "stones" and page.begin("wide")["cells"]


def test_families_can_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every folder in families but lines had been deleted."""
    from pipeline.families import lines

    monkeypatch.setattr(extensions, "_tables", lambda: (extensions.CORE, lines.EXTENSIONS))
    client = TestClient(make_app(Lobby(load_pages(), [], 8)), base_url=ADDRESS)
    html = client.get("/").text
    assert "/pages/" not in html and "stones.js" in html and client.get("/gammon").status_code == 404
    assert [game["spec"] for game in client.get("/api/options").json()["games"]] == ["connect4", "tictactoe"]
    begun = client.post("/api/games", json={"game": "tictactoe", "opponent": "heuristic", "readouts": 0, "human": 1})
    reply = client.post(f"/api/games/{begun.json()['id']}/reply", json={"ply": 0}).json()
    assert len(reply["moves"]) == 1 and reply["look"]["called"] == "mark"
    assert client.post("/api/records", content=b"(;SZ[9];B[aa])").status_code == 400


def test_the_page_itself_names_no_family() -> None:
    names = re.compile(r"(?i:shogi|gammon|gomoku|othello|connect4|tictactoe|sfen|kifu)|\bgo:\w|\bGo\b(?! on )")
    for path in sorted(PAGE_FILES.iterdir()):
        if path.is_file():
            assert not names.search(path.read_text(encoding="utf-8")), path.name


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]))
        with served_page() as address:
            yield address


@needs_chromium
def test_its_script_draws_in_a_browser_beside_one_that_fails(address: str) -> None:
    pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
    from tests.play.test_page_browser import Page as Browsed

    with headless_chromium() as browser:
        page = Browsed(browser, address)
        page.begin("nobody", "wide")
        page.until(lambda: page.find("cells").get_attribute("textContent") == "0" * 12)
        assert page.find("wide-note").is_displayed()
        browser.execute_script("play('A3')")
        page.until(lambda: page.find("cells").get_attribute("textContent") == "1" + "0" * 11)
        page.begin("nobody", "tictactoe")
        page.click("b2")
        page.until(lambda: page.where() == "1 / 1")
        assert not page.find("wide-note").is_displayed()
