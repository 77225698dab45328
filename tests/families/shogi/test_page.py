"""The page with shogi: tables over HTTP, then a browser in which a person captures, drops and promotes pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.families.shogi.kifu import parse_kifu
from pipeline.games.specs import parse_game
from tests.browser import headless_chromium, needs_chromium, served_page
from tests.helpers import make_model

pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
from tests.play.test_page import Page, make_analyst

ROOT = Path(__file__).parents[3]
SECONDS = 60
BISHOPS = ("7g7f", "3c3d", "8h2b+", "3a2b")  # exchanged


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(make_analyst("shogi"), make_analyst("shogi:5", "mini"))


def test_what_the_page_sees_of_a_position(page: Page) -> None:
    view = page.begin("shogi")
    assert (view["board_kind"], view["colours"], view["records"]) == (
        "shogi",
        ["Sente", "Gote"],
        ["kifu", "csa", "usi"],
    )
    assert len(view["legal"]) == 30 and view["last"] is None and not view["check"] and view["hands"] == [{}, {}]
    view = page.play(view, *BISHOPS)
    assert view["moves"] == list(BISHOPS) and view["hands"] == [{"B": 1}, {"B": 1}] and view["last"] == [6, 16]
    assert view["board"][16] == "s" and "B*5e" in view["legal"]
    view = page.play(view, "B*5e")
    assert view["last"] == [None, 40] and view["sfen"].endswith(" w b 6")
    earlier = page.ask(f"/api/games/{view['id']}?ply=2")
    assert earlier["hands"] == [{}, {}] and earlier["last"] == [24, 33]
    checked = page.begin("shogi", beginning="4k4/9/9/9/9/9/9/9/R3K4 b - 1")
    assert page.play(checked, "9i9a")["check"]


def test_moves_that_are_refused_say_why(page: Page) -> None:
    view = page.play(page.begin("shogi"), *BISHOPS)
    for move, problem in (
        ("7f7e+", "7f7e+ is not possible: it can't promote there"),
        ("B*2b", "an own piece stands there, or a drop needs an empty point"),
        ("8h7g", "'8h7g' is no move of Shogi"),
        ("U5e", "'U5e' is no move of Shogi"),
    ):
        assert problem in page.act(view, "play", move=move, status=400)
    nifu = page.begin("shogi", beginning="4k4/9/9/9/9/9/4P4/9/4K4 b P 1")
    assert "a second pawn on its column" in page.act(nifu, "play", move="P*5e", status=400)


@pytest.mark.parametrize("game", ["shogi", "shogi:5"])
def test_a_model_plays_and_its_moves_have_names_of_their_position(page: Page, game: str) -> None:
    name = "tiny" if game == "shogi" else "mini"
    view = page.act(page.begin(game, name, human=1), "reply")
    for _ in range(3):
        view = page.act(page.play(view, view["legal"][0]), "reply")
        view = page.act(view, "analyse", readouts=40)
        rules, state = parse_game(game), parse_game(game).from_sfen(view["sfen"])
        for move in view["analysis"]["moves"]:
            names = rules.line_names(state, [rules.parse_move(state[0], move["move"])])
            assert move["move"] in view["legal"] and names == [move["move"]] == move["pv"][:1]
        assert len(view["moves"]) % 2 == 1 and 0 <= view["winrates"][str(len(view["moves"]) - 1)] <= 1
    assert page.act(page.act(view, "undo"), "undo")["ply"] == len(view["moves"]) - 4


@pytest.mark.parametrize(("opponent", "plies"), [("heuristic", 400), ("random", 40)])
def test_built_in_players_play(page: Page, opponent: str, plies: int) -> None:
    """heuristic wins soon against moves from the middle of the list; random may go on for long."""
    view = page.begin("shogi:5", opponent)
    while not view["over"] and view["ply"] < plies:
        view = page.play(view, view["legal"][len(view["legal"]) // 2])
        view = view if view["over"] else page.act(view, "reply")
    assert (view["over"] and view["result"]) or (opponent == "random" and view["ply"] >= plies)


ENDS = [
    ("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", "G*5b", "Sente wins by checkmate"),
    (
        "1+P+P+P+P+P+P2/K+P+P+P+P4/9/9/9/9/9/9/8k w 2R2B 1",
        "1i2i",
        "Sente wins by declaration: the king has entered",
    ),
]


@pytest.mark.parametrize(("sfen", "move", "result"), ENDS)
def test_ends_are_said(page: Page, sfen: str, move: str, result: str) -> None:
    view = page.play(page.begin("shogi", beginning=sfen), move)
    assert view["over"] and view["result"].startswith(result) and view["legal"] == []


def test_repetition_and_perpetual_check_are_said(page: Page) -> None:
    view = page.play(page.begin("shogi"), *(["2h3h", "8b7b", "3h2h", "7b8b"] * 3))
    assert view["result"] == "The game is drawn by repetition"
    view = page.begin("shogi", beginning="8k/9/9/9/9/9/9/7R1/K8 b - 1")
    view = page.play(view, *(["2h1h", "1a2a", "1h2h", "2a1a"] * 3))
    assert view["result"] == "Gote wins: Sente gave perpetual check"


def test_records_are_saved_and_opened(page: Page) -> None:
    view = page.act(page.play(page.begin("shogi"), *BISHOPS), "resign")
    assert view["result"] == "Sente resigned: Gote wins"
    for suffix in view["records"]:
        answer = page.client.get(f"/api/games/{view['id']}/{suffix}")
        assert answer.headers["content-disposition"] == f'attachment; filename="game.{suffix}"'
        opened = page.ask("/api/records?game=go:9", content=answer.content)
        assert opened["moves"] == list(BISHOPS) and opened["game"] == "shogi"
        assert opened["result"] == (None if suffix == "usi" else view["result"])
    left = page.act(page.play(page.begin("shogi", "random"), "7g7f"), "resign")  # while the opponent thinks
    assert left["result"] == "Sente resigned: Gote wins"
    assert "まで1手で後手の勝ち" in page.client.get(f"/api/games/{left['id']}/kifu").text
    assert "isn't written as sgf; wanted kifu, csa, usi" in page.ask(f"/api/games/{view['id']}/sgf", status=400)
    mini = page.play(page.begin("shogi:5", beginning="2k2/5/5/1p3/+R1K2 w RBSbsgp 1"), "B*2b")
    assert mini["records"] == ["kifu", "usi"]
    for suffix in mini["records"]:
        opened = page.ask("/api/records", content=page.client.get(f"/api/games/{mini['id']}/{suffix}").content)
        assert (opened["game"], opened["moves"], opened["sfen"]) == ("shogi:5", ["B*2b"], mini["sfen"])
    assert page.ask("/api/records", content=mini["sfen"].encode())["sfen"].split()[:3] == mini["sfen"].split()[:3]


NOTES = [
    ("   1 ７六歩(77)\n   2 切れ負け\n", "Sente wins: out of time"),
    ("   1 ７六歩(77)\n   2 持将棋\n", "a draw: impasse"),
    ("   1 ７六歩(77)\n   2 引き分け\n", "a draw"),
    ("   1 ７六歩(77)\nまで1手で後手の勝ち\n",
     "only line 3 says how it ended: 'まで1手で後手の勝ち'; Gote wins: no reason given"),
    ("   1 ７六歩(77)\n   2 投了\n手合割：平手\n   1 ７六歩(77)\n", "a second game begins at line 4 and isn't read"),
]  # fmt: skip


@pytest.mark.parametrize(("moves", "notes"), NOTES)
def test_what_a_record_says_besides_its_moves_is_said(page: Page, moves: str, notes: str) -> None:
    assert page.ask("/api/records?game=shogi", content=f"手合割：平手\n{moves}".encode())["notes"] == notes.split("; ")
    two = "PI\n+\n+7776FU\n%TORYO\n/\nPI\n+\n+2726FU\n"
    view = page.ask("/api/records?game=shogi", content=two.encode())
    assert view["notes"] == ["the first of 2 games"] and view["result"] == "Gote resigned: Sente wins"


def test_a_record_that_goes_on_behind_a_declaration_is_read_to_its_end(page: Page) -> None:
    """A record is read as by `show`. A game on the page ends at such a position, even if it continues a record."""
    begin, moves = "1+P+P+P+P+P+P2/K+P+P+P+P4/9/9/9/9/9/9/8k w 2R2B", ["1i2i", "R*9i", "2i1h", "9i9h"]
    record = f"sfen {begin} 1 moves {' '.join(moves)}"
    view = page.ask("/api/records?game=shogi", content=record.encode())
    assert view["moves"] == moves and not view["over"]
    for suffix in view["records"]:
        opened = page.ask("/api/records", content=page.client.get(f"/api/games/{view['id']}/{suffix}").content)
        assert opened["moves"] == moves
    seen = page.act(view, "analyse", ply=4, readouts=8)
    assert seen["analysis"]["moves"][0]["move"] in seen["legal"]
    assert page.ask(f"/api/games/{view['id']}?ply=1")["over_here"]
    assert page.act(view, "analyse", ply=1, readouts=8)["analysis"] is None
    ended = page.act(view, "rewind", to=1)
    assert ended["result"].startswith("Sente wins by declaration")
    assert "the game is over" in page.act(ended, "play", move="R*9i", status=400)


BAD_RECORDS = [
    (b"position startpos moves 7g7f 7g7f", "line 1: 7g7f"),
    ("手合割：平手\n   1 ７六歩(67)\n".encode("cp932"), "line 2: ７六歩(67)"),
    (b"4k4/9/9/9/9/9/9/4K4/4K4 b - 1", "2 kings of the first player"),
    (b"4k4/9/4P4/9/9/9/9/9/9 b G 1", "0 kings of the first player (problems with a single king can't be played)"),
    ("手合割：平手\n   1 ５五角打\n".encode(), "line 2: ５五角打: B*5e: there is none in hand"),
]


@pytest.mark.parametrize(("record", "problem"), BAD_RECORDS)
def test_bad_records_of_shogi_are_refused_with_their_line(page: Page, record: bytes, problem: str) -> None:
    assert problem in page.ask("/api/records?game=shogi", content=record, status=400)


def test_positions_that_no_game_begins_at(page: Page) -> None:
    new = {"opponent": "nobody", "readouts": 8}
    for game, sfen, problem in (
        ("shogi", "4k4/9/9/9/9/9/9/4K4/4K4 b - 1", "2 kings of the first player"),
        ("shogi:5", "4k4/9/9/9/9/9/9/9/4K4 b - 1", "9 rows on a board of 5"),
        ("shogi", "4k4/4G4/4G4/9/9/9/9/9/4K4 w - 1", "the game is over there"),
        ("go:9", "x", "always begins as usual"),
    ):
        assert problem in page.ask("/api/games", {**new, "game": game, "beginning": sfen}, status=400)


# In a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = make_model(tmp_path_factory.mktemp("models"), spec="shogi:5")
    with served_page("--readouts", "8", "--backend", "torch", "--model", str(model)) as address:
        yield address


@pytest.fixture(scope="module")
def driver() -> Iterator[object]:
    pytest.importorskip("selenium", reason="needs the extra test: pip install '.[test]'")
    with headless_chromium() as driver:
        yield driver


@pytest.fixture
def shown(driver, address: str) -> Iterator[object]:
    from tests.play.test_page_browser import Page as Browsed

    class ShogiPage(Browsed):
        def press(self, *places: str) -> None:
            """Click on these places, e.g. 7g, or P* in the hand of the player to move."""
            for place in places:
                where = f".point[data-at='{place}']:not([data-row='-1'])"
                self.until(lambda where=where: clicked(where))

        def marked(self, word: str) -> set[str]:
            """Where a screen reader says this."""
            script = "return [...document.querySelectorAll('.point')].map((one) => [one.dataset.at, one.ariaLabel])"
            return {at for at, label in self.browser.execute_script(script) if label.endswith(word)}

        def shot(self, name: str) -> None:
            if folder := os.environ.get("MUGO_SCREENSHOTS"):
                self.browser.save_screenshot(f"{folder}/{name}.png")

        def begin_at(self, sfen: str, game: str = "shogi", opponent: str = "nobody", colour: str = "0") -> None:
            self.browser.execute_script("document.getElementById('choose-beginning').value = arguments[0]", sfen)
            self.begin(opponent, game, colour)
            self.until(lambda: sfen.split()[0] in self.find("sfen").get_attribute("textContent"))

    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By

    def clicked(where: str) -> bool:
        """Whether it could be clicked; the page redraws its board after every change."""
        try:
            driver.find_element(By.CSS_SELECTOR, where).click()
        except StaleElementReferenceException:
            return False
        return True

    page = ShogiPage(driver, address)
    yield page
    severe = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert all("status of 4" in entry["message"] for entry in severe), severe


@needs_chromium
def test_a_person_takes_drops_and_promotes(shown, tmp_path: Path) -> None:
    shown.begin("nobody", "shogi")
    assert "7g, Sente pawn, can move" in shown.labels() and "5i, Sente king, can move" in shown.labels()
    shown.press("7g")
    shown.until(lambda: shown.marked("possible") == {"7f"})
    assert shown.marked("taken, can move") | shown.marked("taken") == {"7g"}
    shown.press("7g")  # put back
    shown.until(lambda: not shown.marked("possible"))
    shown.press("7g", "7f")
    shown.until(lambda: "Sente played 7g7f" in shown.status())
    shown.press("3c", "3d")
    shown.until(lambda: "7f" not in shown.marked("last move") and "3d" in shown.marked("last move"))
    shown.press("8h")
    shown.press("2b")
    shown.until(lambda: shown.find("promotion").is_displayed())
    shown.shot("promotion")
    shown.find("promote").click()
    shown.until(lambda: "Sente played 8h2b+" in shown.status())
    assert any(label.startswith("Sente in hand: 1 bishop") for label in shown.labels())
    shown.press("3a", "2b")
    shown.until(lambda: "Gote played 3a2b" in shown.status())
    shown.press("B*")
    shown.until(lambda: len(shown.marked("possible")) > 40)
    shown.shot("drop")
    shown.press("9g", "6e")  # another piece is taken instead, which can't go there
    shown.until(lambda: shown.status() == "'9g6e' is no move of Shogi")
    shown.press("B*", "5e")
    shown.until(lambda: "Sente played B*5e" in shown.status())
    for suffix, text in (("KIF", "５五角打"), ("USI", "B*5e"), ("CSA", "+0055KA")):
        link = next(link for link in shown.find("downloads").find_elements("tag name", "a") if suffix in link.text)
        script = "const done = arguments[1]; fetch(arguments[0]).then((got) => got.text()).then(done)"
        assert text in shown.browser.execute_async_script(script, link.get_attribute("href"))
    shown.find("undo").click()
    shown.until(lambda: shown.where() == "4 / 4")
    shown.find("resign").click()
    shown.until(lambda: shown.status() == "Sente resigned: Gote wins.")


@needs_chromium
def test_forced_promotion_and_check_need_no_question(shown) -> None:
    shown.begin_at("4k4/P8/9/9/9/9/9/9/4K4 b - 1")
    shown.press("9b", "9a")
    shown.until(lambda: "9b9a+" in shown.status())
    shown.begin_at("4k4/9/4P4/9/9/9/9/9/4K4 b G 1")
    shown.press("G*", "6b")
    shown.until(lambda: "Check!" in shown.status() and shown.marked("in check") == {"5a"})
    shown.find("undo").click()
    shown.until(lambda: shown.where() == "0 / 0")
    shown.press("G*", "5b")
    shown.until(lambda: shown.status() == "Sente wins by checkmate.")


@needs_chromium
def test_escape_leaves_a_promotion_undecided(shown) -> None:
    from selenium.webdriver import Keys

    shown.begin_at("4k4/9/9/9/9/9/9/9/R3K4 b - 1")
    shown.press("9i", "9a")
    shown.until(lambda: shown.find("promotion").is_displayed())
    shown.keys(Keys.ESCAPE)
    shown.until(lambda: not shown.find("promotion").is_displayed())
    assert shown.where() == "0 / 0"
    shown.press("9a")
    shown.until(lambda: shown.find("promotion").is_displayed())
    shown.find("keep").click()
    shown.until(lambda: "Sente played 9i9a." in shown.status())


@needs_chromium
def test_a_game_against_the_model_as_gote_with_hints(shown) -> None:
    shown.begin("000000-test", "shogi:5", colour="1")
    shown.until(lambda: "Your turn: Gote" in shown.status())
    first = shown.browser.execute_script("return document.querySelector('.point[data-row=\"0\"]').dataset.at")
    assert first == "1e", "the board is turned"
    shown.keys("h")
    shown.until(lambda: "best move" in shown.status())
    assert shown.find("candidates").is_displayed()
    assert shown.browser.execute_script("return document.querySelectorAll('#arrows .arrow').length") > 1
    shown.shot("mini")
    best = shown.status().partition("best move: ")[2].partition(",")[0]
    shown.press(best[:2], best[2:4])
    if len(best) == 5 or shown.find("promotion").is_displayed():
        shown.find("promote" if best.endswith("+") else "keep").click()
    shown.until(lambda: shown.where() == "3 / 3" or shown.status().endswith("wins by checkmate."))


@needs_chromium
def test_the_keyboard_plays(shown) -> None:
    from selenium.webdriver import Keys

    shown.begin_at("4k4/9/9/9/9/9/9/4P4/4K4 b G 1")
    shown.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)  # the pawn, which is taken
    shown.until(lambda: shown.marked("possible") == {"5g"})
    shown.keys(Keys.ESCAPE)
    shown.until(lambda: not shown.marked("possible"))
    shown.keys(Keys.ENTER, Keys.ARROW_UP, " ")
    shown.until(lambda: "Sente played 5h5g" in shown.status())
    shown.press("5a", "5b")
    shown.until(lambda: "Gote played 5a5b" in shown.status())
    shown.keys(*[Keys.ARROW_DOWN] * 9)  # the hand
    focused = "return document.activeElement.dataset.at"
    shown.until(lambda: shown.browser.execute_script(focused) == "G*")
    shown.keys(Keys.ENTER)
    shown.until(lambda: len(shown.marked("possible")) > 60)


@needs_chromium
def test_a_record_is_opened_and_pieces_may_have_letters(shown, tmp_path: Path) -> None:
    record = tmp_path / "game.kif"
    record.write_bytes("手合割：平手\n先手：羽生\n   1 ７六歩(77)\n   2 ３四歩(33)\n".encode("cp932"))
    shown.find("file").send_keys(str(record))
    shown.until(lambda: shown.where() == "0 / 2")
    assert "羽生" in shown.find("players").text
    letters, glyphs = (
        shown.find("letters"),
        "return [...document.querySelectorAll('.glyph')].map((one) => one.textContent)",
    )
    if not letters.is_selected():
        letters.click()
    shown.until(lambda: "R" in shown.browser.execute_script(glyphs))
    letters.click()
    shown.until(lambda: "飛" in shown.browser.execute_script(glyphs))
    wrong = tmp_path / "wrong.sfen"
    wrong.write_text("4k4/9/9/9/9/9/9/4K4/4K4 b - 1")
    shown.find("file").send_keys(str(wrong))
    shown.until(lambda: "2 kings of the first player" in shown.status())
    assert len(parse_kifu(record.read_bytes())[1][0].moves) == 2


@needs_chromium
def test_shogi_fits_a_phone(shown) -> None:
    for game in ("shogi", "shogi:5"):
        shown.begin("nobody", game)
        metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        shown.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert shown.browser.execute_script("return document.documentElement.scrollWidth") <= 360
        assert shown.find("board").size["width"] > 320
        shown.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
