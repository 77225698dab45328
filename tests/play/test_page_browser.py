"""The board page in a headless Chromium: what a person does with mouse and keyboard, and what they then see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.run import layout
from tests.browser import headless_chromium, needs_chromium, served_page
from tests.helpers import make_champion, make_model

pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

ROOT = Path(__file__).parent.parent.parent
pytestmark = needs_chromium
SECONDS = 60  # that anything may take; the machine may be busy


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server with a champion, a tiny model of tic-tac-toe, and one of Go."""
    folder = tmp_path_factory.mktemp("models")
    models = [make_champion(folder).parent / layout.CHAMPION, make_model(folder, number=1, spec="go:5")]
    options = [word for model in models for word in ("--model", str(model))]
    with served_page("--readouts", "8", "--backend", "torch", *options) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with headless_chromium() as driver:
        yield driver


class Page:
    """What a person sees and does."""

    def __init__(self, browser: Chrome, address: str) -> None:
        self.browser, self.address = browser, address
        browser.get("about:blank")
        browser.get(address)
        self.until(lambda: self.where() == "0 / 0")

    def until(self, true) -> None:
        WebDriverWait(self.browser, SECONDS, 0.05).until(lambda _: true(), message=f"status: {self.status()}")

    def find(self, name: str):
        return self.browser.find_element(By.ID, name)

    def status(self) -> str:
        return self.find("status").text

    def where(self) -> str:
        return self.find("where").text

    def labels(self) -> list[str]:
        """What a screen reader says of each point."""
        script = "return [...document.querySelectorAll('.point')].map((point) => point.getAttribute('aria-label'))"
        return self.browser.execute_script(script)

    def click(self, point: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, f".point[aria-label^='{point},']").click()

    def begin(self, opponent: str, game: str = "tictactoe", colour: str = "0") -> None:
        self.find("new").click()
        Select(self.find("choose-game")).select_by_value(game)
        Select(self.find("choose-opponent")).select_by_value(opponent)
        if opponent != "nobody":
            Select(self.find("choose-colour")).select_by_value(colour)
        before = self.browser.current_url
        self.find("start").click()
        self.until(lambda: self.browser.current_url != before)
        self.until(lambda: self.browser.execute_script("return view.rules_ready && view.opponent_ready"))

    def keys(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()


@pytest.fixture
def page(browser: Chrome, address: str) -> Iterator[Page]:
    page = Page(browser, address)
    yield page
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert all("status of 4" in entry["message"] for entry in severe), (
        severe
    )  # refused moves; no broken script or policy


def test_a_whole_game_with_an_illegal_move(page: Page) -> None:
    page.begin("nobody")
    assert "X to move" in page.status()
    for point in ("a1", "a2", "b1"):
        page.click(point)
        page.until(lambda point=point: f"played {point}" in page.status())
    page.click("a2")
    page.until(lambda: page.status() == "A2 is not possible: the point is occupied")
    assert page.where() == "3 / 3"
    page.click("b2")
    page.until(lambda: page.where() == "4 / 4")
    page.click("c1")
    page.until(lambda: page.status() == "X wins.")
    assert "c1, X mark, last move" in page.labels()
    page.click("c3")
    page.until(lambda: "the game is over" in page.status())


def test_a_game_against_the_model_to_its_end(page: Page) -> None:
    page.begin("000000-test")
    for _ in range(5):
        page.until(lambda: "Your turn" in page.status() or page.status().endswith(("wins.", "drawn.")))
        if "Your turn" not in page.status():
            break
        page.click(next(label for label in page.labels() if "empty" in label).partition(",")[0])
        page.until(lambda: "Your turn" not in page.status() or "played" in page.status())
    page.until(lambda: page.status().endswith(("wins.", "drawn.")))
    assert page.find("rate").text.endswith("%")


def test_undo_takes_both_moves_back(page: Page) -> None:
    page.begin("000000-test")
    page.click("b2")
    page.until(lambda: page.where() == "2 / 2")
    page.find("undo").click()
    page.until(lambda: page.where() == "0 / 0")
    assert all("empty" in label for label in page.labels())


def test_a_resignation_before_the_first_move_can_be_taken_back(page: Page) -> None:
    page.begin("nobody")
    page.find("resign").click()
    page.until(lambda: "resigned" in page.status())
    page.find("undo").click()
    page.until(lambda: "X to move" in page.status())


def test_a_dialog_that_no_button_closes_begins_no_game(page: Page) -> None:
    """Escape leaves the value of the last button in some browsers; close() does in all."""
    page.begin("nobody")
    page.find("new").click()
    dialog = "const dialog = document.getElementById('dialog'); dialog.close(); return dialog.returnValue"
    assert page.browser.execute_script(dialog) == ""


def test_a_reload_keeps_the_game(page: Page) -> None:
    page.begin("000000-test", colour="1")
    page.until(lambda: page.where() == "1 / 1")
    free = next(label for label in page.labels() if "empty" in label).partition(",")[0]
    page.click(free)
    page.until(lambda: page.where() == "3 / 3")
    before = page.labels()
    page.browser.refresh()
    page.until(lambda: page.where() == "3 / 3")
    assert page.labels() == before


def test_the_keyboard_plays_and_steps(page: Page) -> None:
    page.begin("nobody")
    page.keys(Keys.ARROW_UP)
    page.until(lambda: "empty" in page.browser.switch_to.active_element.get_attribute("aria-label"))
    page.keys(Keys.ARROW_LEFT, Keys.ENTER)
    page.until(lambda: page.where() == "1 / 1")
    assert sum("X mark" in label for label in page.labels()) == 1
    page.keys(Keys.ARROW_RIGHT, " ")
    page.until(lambda: page.where() == "2 / 2")
    page.keys(",")
    page.until(lambda: page.where() == "1 / 2")
    page.keys(".")
    page.until(lambda: page.where() == "2 / 2")
    page.keys("u")
    page.until(lambda: page.where() == "1 / 1")


def test_a_hint_shows_candidates(page: Page) -> None:
    page.begin("000000-test")
    page.keys("h")
    page.until(lambda: "best move" in page.status())
    assert page.find("candidates").is_displayed()
    assert any("candidate, win rate" in label for label in page.labels())


def test_a_record_is_reviewed(page: Page, tmp_path: Path) -> None:
    record = tmp_path / "game.sgf"
    record.write_text("(;GM[1]SZ[9]PB[Ann]PW[Ben];B[ee];W[cc];B[])")
    page.find("file").send_keys(str(record))
    page.until(lambda: page.where() == "0 / 3")
    assert "Ann" in page.find("players").text
    page.keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.where() == "1 / 3")
    assert "E5, Black stone, last move" in page.labels()
    page.keys(Keys.END)
    page.until(lambda: page.where() == "3 / 3")
    page.keys(Keys.ARROW_LEFT)
    page.until(lambda: page.where() == "2 / 3")
    page.find("rewind").click()
    page.until(lambda: page.where() == "2 / 2")


def on_request(page: Page, script: str) -> None:
    """Before the page asks for a `verb`, let it do this; `real` asks, `gate` holds it until window.release()."""
    page.browser.execute_script(
        f"""
        const real = window.fetch, gate = new Promise((done) => {{ window.release = done; }});
        window.asked = [];
        window.fetch = async (path, request) => {{
          const verb = path.split("/").at(-1);
          window.asked.push(verb);
          {script}
          return real(path, request);
        }};"""
    )


def test_top_moves_can_be_switched_on_while_the_opponent_thinks(page: Page) -> None:
    page.begin("000000-test")
    on_request(page, "if (verb === 'reply') await gate;")
    page.click("b2")
    page.until(lambda: "is thinking" in page.status())
    page.find("review").click()
    time.sleep(0.5)  # it would be searched for by now
    assert "analyse" not in page.browser.execute_script("return window.asked")
    page.browser.execute_script("window.release()")
    page.until(lambda: page.where() == "2 / 2" and page.find("candidates").is_displayed())


def test_a_reply_made_from_another_window_is_shown(page: Page) -> None:
    page.begin("000000-test")
    on_request(page, "if (verb === 'reply') await real(path, request);")
    page.click("b2")
    page.until(lambda: page.where() == "2 / 2")
    assert "another window" in page.status()


def step_back_while_it_thinks(page: Page, script: str) -> None:
    """Then let the request for its move go on. script: see on_request()."""
    page.begin("000000-test")
    on_request(page, script)
    page.click("b2")
    page.until(lambda: "is thinking" in page.status())
    page.find("previous").click()
    page.until(lambda: page.where() == "0 / 1")
    page.browser.execute_script("window.release()")


def test_a_reply_that_comes_at_an_earlier_position_is_known_there(page: Page) -> None:
    step_back_while_it_thinks(page, "if (verb === 'reply') await gate;")
    page.until(lambda: page.where() == "0 / 2")
    page.find("latest").click()
    page.until(lambda: page.where() == "2 / 2" and "Your turn" in page.status())


def test_the_last_position_is_that_of_the_server(page: Page) -> None:
    """The opponent moved on the way to it."""
    step_back_while_it_thinks(page, """
        if (verb === "reply") {
          await gate;
          await real(path, request);
          window.moved = true;
          await new Promise(() => {});
        }""")  # fmt: skip
    page.until(lambda: page.browser.execute_script("return window.moved"))
    page.keys(Keys.END)
    page.until(lambda: page.where() == "2 / 2" and "Your turn" in page.status())


def test_a_reply_ended_by_another_window_is_asked_for_again(page: Page) -> None:
    """There, a new game began: the server answers without a move."""
    page.begin("000000-test")
    on_request(page, "if (verb === 'reply' && window.asked.length === 2) { return real(path.replace('/reply', '')); }")
    page.click("b2")
    page.until(lambda: page.where() == "2 / 2")
    assert page.browser.execute_script("return window.asked").count("reply") == 2


def test_top_moves_of_a_record_end_with_it(page: Page, tmp_path: Path) -> None:
    record = tmp_path / "game.sgf"
    record.write_text("(;GM[1]SZ[5];B[cc];W[bb])")
    page.find("file").send_keys(str(record))
    page.until(lambda: page.where() == "0 / 2" and page.find("review").is_selected())
    page.begin("000000-test")
    assert not page.find("review").is_selected()


def test_arrows_step_after_a_click(page: Page) -> None:
    page.begin("nobody")
    for number, point in enumerate(("a1", "a2"), start=1):
        page.click(point)
        page.until(lambda number=number: page.where() == f"{number} / {number}")
    page.keys(Keys.ARROW_RIGHT)  # from the last point that was clicked
    page.until(lambda: page.browser.switch_to.active_element.get_attribute("aria-label").startswith("b2"))
    page.click("b1")
    page.until(lambda: page.where() == "3 / 3")
    page.find("resign").click()
    page.until(lambda: "resigned" in page.status())
    page.click("c3")
    page.until(lambda: "the game is over" in page.status())
    page.keys(Keys.ARROW_LEFT)
    page.until(lambda: page.where() == "2 / 3")


def show_territory_after_a_move(page: Page) -> None:
    """It needs no search."""
    page.begin("nobody", "go:5")
    page.find("territory").click()
    page.click("B2")
    page.until(lambda: page.browser.execute_script("return view.ply === 1 && view.analysis?.visits === 0"))


def test_an_analysis_of_the_game_searches_where_only_territory_was_shown(page: Page) -> None:
    show_territory_after_a_move(page)
    page.find("analyse").click()
    page.until(lambda: page.browser.execute_script("return view.searched.length") == 2)


def test_a_reload_while_the_server_fails_does_not_lose_the_game(page: Page) -> None:
    page.begin("nobody")
    page.click("b2")
    page.until(lambda: page.where() == "1 / 1")
    address = page.browser.current_url
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/games*"]})
    page.browser.refresh()
    page.until(lambda: "doesn't answer" in page.status())
    assert page.browser.current_url == address
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.browser.get_log("browser")  # of the blocked request
    page.browser.refresh()
    page.until(lambda: page.where() == "1 / 1")


def test_a_second_click_before_the_answer_changes_nothing(page: Page) -> None:
    page.begin("000000-test")
    on_request(page, "if (verb === 'play') await gate;")
    page.click("b2")
    page.click("b2")
    page.keys("h", "u", ",")
    page.browser.execute_script("window.release()")
    page.until(lambda: page.where() == "2 / 2")
    assert "Your turn" in page.status()
    assert page.browser.execute_script("return window.asked") == ["play", "reply"]


def test_a_new_game_that_is_refused_leaves_the_present_one_going_on(page: Page) -> None:
    page.begin("000000-test")
    on_request(page, "if (verb === 'reply') await gate;")
    page.click("b2")
    page.until(lambda: "is thinking" in page.status())
    page.browser.execute_script("begin({ game: 'no such', opponent: 'nobody', human: null, readouts: 8 })")
    page.until(lambda: "no such" in page.status())
    page.browser.execute_script("window.release()")
    page.until(lambda: page.where() == "2 / 2")


def test_an_opponent_whose_answer_was_lost_is_asked_again(page: Page) -> None:
    page.begin("000000-test")
    on_request(page, "if (verb === 'reply' && window.asked.length === 2) throw new TypeError('offline');")
    page.click("b2")
    page.until(lambda: "doesn't answer" in page.status())
    page.browser.execute_script("draw()")
    assert "000000-test is to move. Click on the board to ask again." in page.status()
    page.browser.execute_script("dispatchEvent(new Event('online'))")
    page.until(lambda: page.where() == "2 / 2")


def test_presses_that_come_before_the_position_are_counted(page: Page) -> None:
    page.begin("nobody")
    for number, point in enumerate(("a1", "a2", "b1"), start=1):
        page.click(point)
        page.until(lambda number=number: page.where() == f"{number} / {number}")
    on_request(page, "if (verb.includes('?ply=')) await gate;")
    page.keys(",", ",", ",", ".")
    page.browser.execute_script("window.release()")
    page.until(lambda: page.where() == "1 / 3")


def test_an_analysis_of_the_game_ends_silently_where_moves_were_taken_back(page: Page) -> None:
    page.begin("heuristic")
    page.click("b2")
    page.until(lambda: page.where() == "2 / 2")
    on_request(page, """
        if (verb === "analyse" && JSON.parse(request.body).ply === 2) await gate;
        if (verb === "reply") await new Promise(() => {});""")  # fmt: skip
    page.find("analyse").click()
    page.until(lambda: page.browser.execute_script("return window.asked").count("analyse") == 3)
    page.find("previous").click()
    page.until(lambda: page.where() == "1 / 2")
    page.find("rewind").click()
    page.until(lambda: "is thinking" in page.status())
    page.browser.execute_script("window.release()")
    page.until(lambda: page.browser.execute_script("return stopAnalysis === null"))
    assert "is thinking" in page.status()


def test_an_analysis_of_the_game_says_why_it_ended(page: Page) -> None:
    page.begin("nobody")
    page.click("b2")
    page.until(lambda: page.where() == "1 / 1")
    on_request(page, "if (verb === 'analyse') path = '/api/games/none/analyse';")
    page.find("analyse").click()
    page.until(lambda: "No such game" in page.status())


def test_readouts_that_are_not_asked_for_are_not_checked(page: Page) -> None:
    page.find("new").click()
    page.find("choose-readouts").clear()
    page.find("cancel").click()
    page.begin("heuristic")
    assert page.browser.execute_script("return view.readouts") == 8


def test_enter_in_a_field_of_the_dialog_begins_the_game(page: Page) -> None:
    page.find("new").click()
    page.find("choose-readouts").clear()
    page.find("choose-readouts").send_keys("3", Keys.ENTER)
    page.until(lambda: page.browser.execute_script("return view.readouts") == 3)


def test_a_browser_that_keeps_nothing_for_the_page(browser: Chrome, address: str) -> None:
    refused = "() => { throw new Error('blocked'); }"
    source = f"for (const name of ['getItem', 'setItem']) Storage.prototype[name] = {refused};"
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        page = Page(browser, address)
        page.find("theme").click()
        page.begin("nobody", "shogi:5")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_a_hint_ends_with_its_game(page: Page) -> None:
    page.begin("nobody", "go:5")
    page.find("hint").click()
    page.until(lambda: page.find("candidates").is_displayed())
    page.find("territory").click()
    page.begin("nobody", "go:5")
    page.until(lambda: page.browser.execute_script("return view.analysis !== null"))
    assert not page.find("candidates").is_displayed() and "best move" not in page.status()


def test_top_moves_are_searched_where_territory_was_shown(page: Page) -> None:
    show_territory_after_a_move(page)
    page.find("review").click()
    page.until(lambda: page.browser.execute_script("return view.analysis.visits") > 0)
    assert page.find("candidates").is_displayed()
    page.find("review").send_keys(",")  # it has the focus, and is no field to type in
    page.until(lambda: page.where() == "0 / 1")


def test_territory_is_looked_for_where_there_is_some_alone(page: Page) -> None:
    page.begin("nobody", "go:5")
    page.find("territory").click()
    page.until(lambda: page.browser.execute_script("return view.analysis !== null"))
    page.begin("nobody")
    page.click("b2")
    page.until(lambda: "played b2" in page.status())
    time.sleep(0.5)
    assert page.browser.execute_script("return view.analysis") is None


def test_the_end_is_not_changed_from_an_earlier_position(page: Page) -> None:
    page.begin("nobody")
    page.click("b2")
    page.until(lambda: page.where() == "1 / 1")
    page.keys(",")
    page.until(lambda: page.where() == "0 / 1")
    assert not page.find("undo").is_enabled() and not page.find("resign").is_enabled()
    page.keys("u")
    page.keys(".")
    page.until(lambda: page.where() == "1 / 1")
    assert page.find("undo").is_enabled() and page.find("resign").is_enabled()


def test_the_page_fits_a_phone(page: Page) -> None:
    for game, title in (("go:19", "19×19 Go, komi 7.5"), ("connect4", "Connect four")):
        page.begin("nobody", game)
        page.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        )
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 360
        assert page.find("board").size["width"] > 320
        name = page.find("game-name")
        assert name.text == title and name.rect["x"] + name.rect["width"] <= 360, "cut off"
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_board_fits_a_phone_held_sideways(page: Page) -> None:
    page.begin("nobody")
    page.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 844, "height": 390, "deviceScaleFactor": 2, "mobile": True}
    )
    assert 300 < page.find("board").size["height"] <= 390
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_light_and_dark(page: Page) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.browser.execute_script(colour)
    page.find("theme").click()
    other = page.browser.execute_script(colour)
    assert other != before
    page.browser.refresh()
    page.until(lambda: page.where() == "0 / 0")
    assert page.browser.execute_script(colour) == other


def test_games_are_chosen_by_name_and_komi_is_a_field(page: Page) -> None:
    page.find("new").click()
    games, opponents = Select(page.find("choose-game")), Select(page.find("choose-opponent"))
    assert games.first_selected_option.text == "Tic-tac-toe"
    assert opponents.first_selected_option.text == "000000-test: your champion"
    groups = page.find("choose-game").find_elements(By.TAG_NAME, "optgroup")
    labels = [group.get_attribute("label") for group in groups]
    assert labels == ["Against trained models", "Against built-in players"]
    assert not page.find("komi-label").is_displayed()
    games.select_by_visible_text("9×9 Go")
    assert page.find("choose-komi").get_attribute("value") == "7.5"
    page.find("choose-komi").clear()
    page.find("choose-komi").send_keys("5.5")
    page.find("start").click()
    page.until(lambda: page.find("game-name").text == "9×9 Go, komi 5.5")
    page.find("new").click()
    games.select_by_visible_text("Tic-tac-toe")
    assert opponents.first_selected_option.text == "000000-test: your champion", "the model is the first choice again"
    page.find("cancel").click()


def test_nothing_can_be_pressed_until_there_is_a_game(page: Page) -> None:
    """A server that doesn't answer leaves the page without one."""
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/api/games"]})
    page.browser.get("about:blank")
    page.browser.get(page.address)
    page.until(lambda: "doesn't answer" in page.status())
    buttons = page.browser.find_elements(By.CSS_SELECTOR, "#panel button")
    assert buttons and not any(button.is_enabled() for button in buttons) and page.find("new").is_enabled()
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.begin("nobody")
    assert page.find("resign").is_enabled()
    page.browser.get_log("browser")  # of the blocked request
