"""The page of backgammon: its table without a browser, then a browser in which a person plays some turns."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, IllegalMove
from pipeline.families.backgammon.game import Backgammon
from pipeline.play.config import ServeConfig
from pipeline.players.builtin import RandomPlayer
from pipeline.players.player import Player
from pipeline.progress import SILENT
from pipeline.run.models import ModelInfo, write_model
from tests.browser import headless_chromium, needs_chromium, served_page

pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
from starlette.testclient import TestClient

from pipeline.families.backgammon.page.table import GammonTable
from pipeline.play import engine
from pipeline.play.page import command
from pipeline.play.page.analyst import Refused
from pipeline.play.page.app import Lobby, make_app
from pipeline.play.page.later import LoadedLater
from pipeline.play.page.page_kinds import OwnModel
from pipeline.play.page.pages import load_pages

ROOT = Path(__file__).parents[3]
SECONDS = 60


def test_a_whole_game_step_by_step() -> None:
    table = GammonTable("backgammon", "heuristic", 0, seed="s")
    commitment = table.view()["commitment"]
    for _ in range(3000):
        view = table.view()
        if view["over"]:
            break
        assert view["commitment"] == commitment and view["seed"] is None
        if not view["mine"]:
            table.reply(view["ply"])
        elif view["must_pass"]:
            table.move("pass", view["ply"])
        else:
            table.step(*view["steps"][0], len(view["made"]), view["ply"])
        board = table.view()["board"]
        assert sum(count for count in board if count > 0) == 15
    assert view["over"] and "wins" in view["result"] and view["seed"] == "s"
    assert hashlib.sha256(b"s").hexdigest() == commitment
    assert table.record("mat").count("Wins") == 1 and "GM[6]" in table.record("sgf")
    with pytest.raises(Refused, match="the game is over"):
        table.step(6, 5, 0, view["ply"])


def test_undo_a_checker_then_a_turn_and_what_is_refused() -> None:
    table = GammonTable("backgammon", "random", 0)
    start = table.view()
    source, target = start["steps"][0]
    table.step(source, target, 0, start["ply"])
    with pytest.raises(Refused, match="has 1 step, not 0"):  # a second click that came before the answer
        table.step(source, target, 0, start["ply"])
    assert table.view()["made"] == [[source, target]] and table.view()["board"] != start["board"]
    table.undo(start["ply"])
    assert table.view() == start
    while table.view()["mine"]:
        view = table.view()
        table.step(*view["steps"][-1], len(view["made"]), view["ply"])
    table.reply(table.view()["ply"])
    table.undo(table.view()["ply"])
    assert {**table.view(), "last": ""} == {**start, "last": ""}
    for wrong, problem in (((24, 1), "point|24 to 1"), ((3, 2), "3 to 2")):
        with pytest.raises(Refused, match=problem):
            table.step(*wrong, 0, start["ply"])
    with pytest.raises(Refused, match="not a legal move here"):
        table.move("24/1", start["ply"])
    with pytest.raises(Refused, match="another window"):
        table.resign(start["ply"] + 1)
    with pytest.raises(IllegalMove, match="no move of yours"):
        table.undo(start["ply"])
    table.resign(start["ply"])
    assert table.view()["result"] == "White resigned: Black wins" and table.view()["seed"]
    table.undo(start["ply"])
    assert not table.view()["over"] and table.view()["seed"], "it is known now"
    table.resign(start["ply"])
    for game, opponent in (("chess", "random"), ("hypergammon", "gnubg-0ply")):
        with pytest.raises(Refused, match="wanted"):
            GammonTable(game, opponent, 0)


def test_an_undo_that_is_refused_changes_nothing() -> None:
    table = GammonTable("backgammon", "random", 1)
    table.resign(table.view()["ply"])  # while the opponent is to move
    assert "RE[W+1R]" in table.record("sgf") and "Wins 1 point" in table.record("mat")
    table.undo(table.view()["ply"])
    table.reply(table.view()["ply"])
    before = table.view()
    with pytest.raises(IllegalMove, match="no move of yours"):
        table.undo(before["ply"])
    assert table.view() == before and before["mine"]


@pytest.mark.parametrize("verb", ["resign", "undo", "reply"])
def test_a_table_answers_while_the_opponent_thinks(verb: str) -> None:
    """reply: asked again, as by a page that was loaded anew; it waits for the first."""
    asked, go_on, times = threading.Event(), threading.Event(), []

    def make(game: Backgammon) -> Player:
        player = RandomPlayer(game, 1)
        begin = player.begin

        def held(rows: np.ndarray) -> None:
            times.append(1)
            asked.set()
            assert go_on.wait(SECONDS)
            begin(rows)

        player.begin = held  # type: ignore[method-assign]
        return player

    models = {"slow": OwnModel("backgammon", LoadedLater("slow", lambda: make))}
    table = GammonTable("backgammon", "slow", 0, seed="s", models=models)
    while table.view()["mine"]:
        view = table.view()
        table.step(*view["steps"][-1], len(view["made"]), view["ply"])
    before = table.view()
    thinking = threading.Thread(target=table.reply, args=(before["ply"],), daemon=True)
    thinking.start()
    assert asked.wait(SECONDS)
    other = threading.Thread(target=getattr(table, verb), args=(before["ply"],), daemon=True)
    other.start()
    if verb != "reply":
        other.join(SECONDS)
        assert thinking.is_alive() and not other.is_alive()
        assert table.view()["result"] == ("White resigned: Black wins" if verb == "resign" else None)
    meanwhile = table.view()
    go_on.set()
    for thread in (thinking, other):
        thread.join(SECONDS)
    after = table.view()
    assert len(times) == 1 and (after["ply"] > before["ply"] if verb == "reply" else after == meanwhile)


def test_its_http() -> None:
    client = TestClient(make_app(Lobby(load_pages(), [], 0)), base_url="http://127.0.0.1")
    for path in ("/gammon", "/pages/gammon/gammon.js", "/pages/gammon/gammon.css"):
        assert client.get(path).status_code == 200
    games = {game["spec"]: game["opponents"] for game in client.get("/api/gammon").json()["games"]}
    assert games.keys() == {"backgammon", "hypergammon"} and {"heuristic", "random", "nobody"} <= set(
        games["hypergammon"]
    )
    view = client.post("/api/gammon", json={"game": "hypergammon", "opponent": "nobody"}).json()
    path = f"/api/gammon/{view['id']}"
    source, target = view["steps"][0]
    after = client.post(f"{path}/step", json={"ply": view["ply"], "made": 0, "source": source, "target": target}).json()
    assert after["made"] == [[source, target]] or after["ply"] > view["ply"]
    assert client.get(path).json() == after
    step = {"ply": after["ply"], "made": len(after["made"]), "source": 24, "target": 1}
    refused = client.post(f"{path}/step", json=step)
    assert refused.status_code == 400 and "not possible" in refused.json()["error"]
    refused = client.post(f"{path}/step", json={**step, "source": 99})
    assert refused.status_code == 400 and "source" in refused.json()["error"]
    assert client.post(f"{path}/jump", json={"ply": 0}).status_code == 404
    assert client.get(f"{path}/mat").status_code == 400 and "Hypergammon" in client.get(f"{path}/sgf").text
    assert client.get("/api/gammon/nothing").status_code == 404


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_page() as address:
        yield address


def test_the_board_is_there_while_its_model_is_loaded_and_if_it_cannot_be() -> None:
    loading, goes = threading.Event(), threading.Event()

    def load():
        loading.set()
        assert goes.wait(SECONDS)
        raise FileError("weights", "damaged")

    models = {"late": OwnModel("hypergammon", LoadedLater("late", load))}
    client = TestClient(make_app(Lobby(load_pages(), [], 0, models)), base_url="http://127.0.0.1")
    games = client.get("/api/gammon").json()["games"]
    assert [game["title"] for game in games] == ["Hypergammon", "Backgammon"] and games[0]["opponents"][0] == "late"
    view = client.post("/api/gammon", json={"game": "hypergammon", "opponent": "late", "human": 1}).json()
    assert loading.wait(SECONDS) and sum(map(abs, view["board"])) == 6
    assert (view["opponent_ready"], view["opponent_problem"], view["title"]) == (False, None, "Hypergammon")
    goes.set()
    refused = client.post(f"/api/gammon/{view['id']}/reply", json={"ply": view["ply"]})
    assert refused.status_code == 400 and refused.json()["error"] == "late can't be loaded: weights: damaged"
    assert "damaged" in client.get(f"/api/gammon/{view['id']}").json()["opponent_problem"]


@needs_chromium
def test_the_page_has_a_board_and_no_live_buttons_where_no_game_can_begin(address: str) -> None:
    pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with headless_chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/gammon"]})
        browser.get(f"{address}gammon")
        status = browser.find_element(By.ID, "status")
        WebDriverWait(browser, SECONDS, 0.05).until(lambda _: "doesn't answer" in status.text)
        assert len(browser.find_elements(By.CSS_SELECTOR, "#board .spike")) == 24
        buttons = browser.find_elements(By.CSS_SELECTOR, "#panel button")
        assert buttons and not any(button.is_enabled() for button in buttons)


@needs_chromium
def test_a_person_plays_some_turns_with_mouse_keyboard_and_text(address: str) -> None:
    pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
    from selenium.webdriver import Keys
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    def shot(name: str) -> None:
        if folder := os.environ.get("MUGO_SCREENSHOTS"):
            browser.save_screenshot(f"{folder}/{name}.png")

    with headless_chromium() as browser:
        browser.get(f"{address}gammon")

        def status() -> str:
            return browser.find_element(By.ID, "status").text

        def until(true) -> None:
            WebDriverWait(browser, SECONDS, 0.05).until(lambda _: true(), message=status())

        def places(kind: str) -> list[int]:
            script = f"return [...document.querySelectorAll('.place.{kind}')].map((one) => Number(one.dataset.place))"
            return browser.execute_script(script)  # at once: the page may draw its board anew in between

        def click(number: int) -> None:
            browser.find_element(By.CSS_SELECTOR, f"[data-place='{number}'] .edge").click()

        def last() -> str:
            return browser.find_element(By.ID, "last").text

        until(lambda: "Your turn" in status() and places("from"))
        shot("light")
        labels = browser.find_elements(By.CSS_SELECTOR, ".place")
        assert len(labels) == 26 and all(one.get_attribute("aria-label") for one in labels)
        assert any("Point 6, 5 own white" in one.get_attribute("aria-label") for one in labels)
        for _ in range(2):  # both dice, checker by checker
            source = places("from")[0]
            click(source)
            until(lambda: places("to") and "From " in status())
            shot("taken")
            click(places("to")[0])
            until(lambda: places("from") or last())
        until(lambda: "Black threw" in last() and "Your turn" in status())
        if places("from"):
            source = places("from")[0]
            ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
            browser.execute_script(f"document.querySelector(\"[data-place='{source}']\").focus()")
            ActionChains(browser).send_keys(Keys.ENTER).perform()
            until(lambda: places("taken") == [source])
            click(places("to")[0])
            until(lambda: browser.find_element(By.ID, "undo").is_enabled())
            browser.find_element(By.ID, "undo").click()
            until(lambda: source in places("from"))
        box = browser.find_element(By.ID, "turn")
        box.send_keys("24/1", Keys.ENTER)
        until(lambda: "not a legal move here" in status())
        browser.find_element(By.ID, "theme").click()
        browser.set_window_size(420, 900)
        shot("dark_phone")
        browser.find_element(By.ID, "resign").click()
        until(lambda: "White resigned" in status())
        seed = browser.execute_script("return document.getElementById('seed').textContent")
        assert "The seed was " in seed
        commitment = browser.execute_script("return document.getElementById('commitment').textContent")
        assert hashlib.sha256(seed.split()[3].rstrip(".").encode()).hexdigest() == commitment
        severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert all("status of 4" in entry["message"] for entry in severe), severe


def test_a_model_of_a_method_for_dice_is_an_opponent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method is a stand-in, whose player is the random one."""
    model = ModelInfo(name="000007-td", number=7, game="backgammon", architecture={}, method="stand-in")
    write_model(tmp_path / "000007-td", model, {"w": np.zeros(1, np.float32)})
    loads: list[int] = []

    class StandIn:
        def load(self, model, max_batch, num_threads, backend, progress, options):
            loads.append(max_batch)
            return ["loaded"]

        def player(self, game, num_rows, evaluate, search, readouts, leaves=1):
            assert evaluate == "loaded" and readouts == 3
            return RandomPlayer(game, num_rows)

    monkeypatch.setattr(engine, "method_named", lambda name: StandIn() if name == "stand-in" else None)
    config = ServeConfig(model=[tmp_path / "000007-td"], readouts=3)
    pages = load_pages()
    models, stopping = command.served_models(config, pages), threading.Event()
    assert command.first_page(models, pages) == "/gammon"
    analysts, players = command.open_later(models, config, pages, stopping, SILENT)
    assert analysts == []
    lobby = Lobby(pages, analysts, 3, players)
    client = TestClient(make_app(lobby), base_url="http://127.0.0.1")
    games = {game["spec"]: game["opponents"] for game in client.get("/api/gammon").json()["games"]}
    assert "000007-td" in games["backgammon"] and "000007-td" not in games["hypergammon"] and not loads
    for _ in range(2):
        view = client.post("/api/gammon", json={"game": "backgammon", "opponent": "000007-td", "human": 1}).json()
        after = client.post(f"/api/gammon/{view['id']}/reply", json={"ply": view["ply"]}).json()
    assert loads == [1] and after["ply"] > view["ply"] and after["mine"] and after["players"] == ["000007-td", "you"]
