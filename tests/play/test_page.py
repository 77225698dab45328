"""The server of the board page, from a client's side: games, analysis, records, and requests from elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve: pip install '.[serve]'")
pytest.importorskip("httpx", reason="needs the extra test: pip install '.[test]'")
from starlette.testclient import TestClient

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.capabilities import AnyPosition
from pipeline.games.specs import parse_game
from pipeline.play.config import ServeConfig
from pipeline.play.findings import Findings
from pipeline.play.game_in_progress import Line, PlayerOpponent
from pipeline.play.page import analyst as analyst_module
from pipeline.play.page import table as table_module
from pipeline.play.page.analyst import Analyst
from pipeline.play.page.app import Lobby, make_app
from pipeline.play.page.command import listen, open_later, served_models
from pipeline.play.page.later import LoadedLater
from pipeline.play.page.limits import MOST_BYTES, Guests
from pipeline.play.page.page_kinds import BoardPage
from pipeline.play.page.pages import load_pages
from pipeline.play.page.stones_page import StonesTable
from pipeline.play.page.table import MOST_TABLES, rules_of
from pipeline.play.session import SearchSession
from pipeline.progress import SILENT, Progress
from pipeline.search.ending_search import EndingSearch
from pipeline.search.options import PlaySearchOptions, SearchOptions
from tests.families.go.test_gtp import dead_at
from tests.helpers import make_champion, make_model, wait_for
from tests.players.finished import GO, SETTLED, behind, counted, position, white_wins
from tests.search.helpers import hashed_evaluator

ROOT = Path(__file__).parent.parent.parent
ADDRESS = "http://127.0.0.1:8000"
PAGES = load_pages()


def make_analyst(spec: str, name: str = "tiny", evaluator=hashed_evaluator) -> Analyst:
    game, page, stopping = parse_game(spec), PAGES.of(parse_game(spec)), threading.Event()
    assert isinstance(page, BoardPage)

    def load() -> tuple[SearchSession, Findings]:
        played = game.without_move_limit()
        session = SearchSession(played, evaluator(played), SearchOptions(noise_weight=0.0), 100)
        return session, Findings(session, dead_at([0]) if isinstance(game, AnyPosition) else None)

    boards = {board.board_title: board for board in map(parse_game, page.offered(game))}
    return Analyst(name, game, boards, LoadedLater(name, load, stopping), stopping)


class Page:
    """Asks like the page does; every refusal is JSON with one sentence."""

    def __init__(self, *analysts: Analyst, **options) -> None:
        self.lobby = Lobby(PAGES, list(analysts), 16)
        self.client = TestClient(make_app(self.lobby), base_url=ADDRESS, **options)

    def ask(self, path: str, json=None, *, status: int = 200, **more):
        method = "GET" if json is None and "content" not in more else "POST"
        answer = self.client.request(method, path, json=json, **more)
        assert answer.status_code == status, answer.text
        if status == 200:
            return answer.json()
        problem = answer.json()
        assert list(problem) == ["error"] and problem["error"] and "\n" not in problem["error"]
        return problem["error"]

    def begin(
        self, game: str, opponent: str = "nobody", human: int | None = 0, readouts: int = 8, beginning="",
        status: int = 200, **more
    ):
        new = {"game": game, "opponent": opponent, "human": human, "readouts": readouts, "beginning": beginning}
        view = self.ask("/api/games", {**new, **more}, status=status)
        if status == 200 and not view["rules_ready"]:  # their kernels are being compiled
            rules_of(self.lobby.tables.find(view["id"]).game).get()
            view = self.ask(f"/api/games/{view['id']}")
        return view

    def act(self, view, verb: str, status: int = 200, **body):
        body = {"ply": len(view["moves"]), **body}
        return self.ask(f"/api/games/{view['id']}/{verb}", body, status=status)

    def play(self, view, *moves: str):
        for move in moves:
            view = self.act(view, "play", move=move)
        return view


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(make_analyst("tictactoe"), make_analyst("go:9,komi=7", "go"), make_analyst("connect4", "four"))


def of_all_boards() -> Analyst:
    """A model of go:any that prefers the upper left corner, and the side that is given points."""
    given = parse_game("go:any").plane_names.index("komi for the mover above 0")

    def evaluator(game):
        def evaluate(planes):
            logits = np.zeros((len(planes), planes[0, 0].size + 1), np.float32)
            logits[:, 0] = 5.0
            return logits, planes[:, given, 0, 0].astype(np.float32) * 2 - 1

        return evaluate

    return make_analyst("go:any,komi=7", "all", evaluator)


def test_a_model_of_all_boards_plays_the_usual_ones_in_turn() -> None:
    page = Page(of_all_boards(), make_analyst("go:9,komi=7", "nine"))
    games = {game["spec"]: game["opponents"] for game in page.ask("/api/options")["games"]}
    assert {spec for spec, opponents in games.items() if "all" in opponents} == {
        f"go:{side},komi=7" for side in (7, 9, 13, 19)
    }
    assert games["go:9,komi=7"][:2] == ["all", "nine"] and "nine" not in games["go:13,komi=7"]
    views = {side: page.begin(f"go:{side},komi=7", "all") for side in (13, 7, 9)}
    for turn in range(2):  # the model goes from board to board and back
        for side, view in views.items():
            view = page.act(page.play(view, "DC"[turn] + "4"), "reply")
            views[side] = page.act(view, "analyse", readouts=8)
            assert len(view["moves"]) == 2 * turn + 2 and view["height"] == side
            assert views[side]["analysis"]["winrate"] < 0.1, "black gives komi"
    assert all(view["moves"][1] == f"A{side}" for side, view in views.items())


def test_the_page_comes_with_a_strict_policy(page: Page) -> None:
    for path, kind in (
        ("/", "html"),
        ("/common.js", "javascript"),
        ("/page.js", "javascript"),
        ("/page.css", "css"),
        ("/icon.svg", "svg"),
    ):
        answer = page.client.get(path)
        assert answer.status_code == 200 and kind in answer.headers["content-type"]
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")


def test_a_model_of_all_boards_of_gomoku_plays_the_usual_ones_by_its_rules() -> None:
    page = PAGES.of(parse_game("gomoku:9"))
    assert isinstance(page, BoardPage)
    for rules in (",capture", ",capture,opponents", ""):
        wanted = [f"gomoku:{side}{rules.removesuffix(',opponents')}" for side in (9, 15, 19)]
        assert page.offered(parse_game(f"gomoku:any{rules}")) == wanted


def test_what_the_board_does_not_show_is_said() -> None:
    """Pairs that have been taken, and a five that must be answered."""
    page = Page(make_analyst("gomoku:9,capture"))
    view = page.begin("gomoku:9,capture", human=None)
    assert view["remark"] == "pairs: Black 0, White 0"
    view = page.play(view, "E5", "F5", "A1", "G5", "H5")
    assert view["remark"] == "pairs: Black 1, White 0"
    assert page.begin("gomoku:15", human=None)["remark"] == ""
    view = page.begin("gomoku:9,capture", human=None)
    view = page.play(view, "D5", "E4", "E5", "A9", "F5", "A7", "G5", "A1", "E6", "I9", "H5")  # E7 takes E6 and E5
    assert not view["over"] and view["remark"] == "pairs: Black 0, White 0; Black's five must be answered"


def test_a_position_that_another_window_has_taken_back_is_a_conflict(page) -> None:
    """So that the page shows the game as it is now."""
    view = page.play(page.begin("tictactoe", human=None), "A1", "B2", "C3")
    page.act(view, "undo")
    gone = "ply: found 3; this game has the positions 0 to 2"
    assert page.ask(f"/api/games/{view['id']}?ply=3", status=409) == gone
    assert page.act(view, "analyse", ply=3, readouts=4, status=409) == gone


def test_there_is_one_entry_per_board_with_its_komi() -> None:
    page = Page(make_analyst("go:9,komi=7", "nine"), of_all_boards())
    games = page.ask("/api/options")["games"]
    titles = [game["title"] for game in games]
    assert titles[:4] == ["9×9 Go", "7×7 Go", "13×13 Go", "19×19 Go"] and len(set(titles)) == len(titles)
    own = {"spec": "go:9,komi=7", "komi": 7.0}
    models = {"nine": {**own, "takes_komi": False}, "all": {**own, "takes_komi": True}}
    assert games[0]["models"] == models and (games[0]["komi"], games[0]["takes_komi"]) == (7.0, True)
    (four,) = (game for game in games if game["title"] == "Connect four")
    assert (four["komi"], four["takes_komi"], four["models"]) == (None, False, {})


def test_komi_can_be_chosen_where_the_opponent_plays_with_it() -> None:
    page = Page(make_analyst("go:9,komi=7", "nine"), of_all_boards())
    for opponent, komi in (("all", 5.5), ("heuristic", 5.5), ("nobody", 0.0), ("nine", 7.0)):
        view = page.begin("go:9,komi=7", opponent, komi=komi)
        assert view["title"] == f"9×9 Go, komi {komi:g}"
    assert page.begin("go:9,komi=7", "nobody", komi=5.5)["adviser"] == "all", "who plays with it gives the hints"
    refused = page.begin("go:9,komi=7", "nine", komi=5.5, status=400)
    assert refused == "nine plays 9×9 Go, komi 7, not 9×9 Go, komi 5.5"
    assert page.begin("go:9", komi=99.0, status=400) == "9×9 Go: found komi 99; wanted a multiple of 0.5, at most 81"
    assert page.begin("connect4", komi=1.0, status=400) == "Connect four: found komi 1; wanted no other than its own"


def test_a_game_that_nobody_plays_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lobby, "_built_ins", staticmethod(lambda game: []))
    assert [game["title"] for game in Page(make_analyst("tictactoe")).ask("/api/options")["games"]] == ["Tic-tac-toe"]


class Gate:
    """Loading a model waits here until it is opened."""

    def __init__(self, analyst: Analyst, *problems: MuGoError) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.problems = list(problems)
        load = analyst.model._load

        def loaded():
            self.begun.set()
            assert self.opened.wait(30)
            if self.problems:
                raise self.problems.pop(0)
            return load()

        analyst.model._load = loaded  # type: ignore[method-assign]


def test_a_model_is_loaded_when_it_is_chosen() -> None:
    chosen, other = make_analyst("tictactoe"), make_analyst("connect4", "other")
    gate, untouched = Gate(chosen), Gate(other)
    page = Page(chosen, other)
    assert page.ask("/api/options") and not gate.begun.is_set()
    view = page.play(page.begin("tictactoe", "tiny"), "B2")
    assert gate.begun.wait(30) and not view["opponent_ready"] and view["opponent_problem"] is None
    gate.opened.set()
    view = page.act(view, "reply")
    assert view["opponent_ready"] and view["adviser_ready"] and len(view["moves"]) == 2
    assert not untouched.begun.is_set()


def test_hints_load_a_model_too() -> None:
    analyst = make_analyst("tictactoe")
    page, gate = Page(analyst), Gate(analyst)
    gate.opened.set()
    view = page.begin("tictactoe")
    assert view["opponent_ready"] and not view["adviser_ready"] and not gate.begun.is_set()
    assert page.act(view, "analyse", readouts=4)["adviser_ready"]


def test_a_model_that_cannot_be_loaded_is_named_and_tried_again() -> None:
    analyst = make_analyst("tictactoe")
    page, gate = Page(analyst), Gate(analyst, FileError("weights", "damaged"))
    gate.opened.set()
    view = page.play(page.begin("tictactoe", "tiny"), "B2")
    wait_for(lambda: page.ask(f"/api/games/{view['id']}")["opponent_problem"] is not None)
    problem = page.ask(f"/api/games/{view['id']}")["opponent_problem"]
    assert problem == "tiny can't be loaded: weights: damaged"
    assert len(page.act(view, "reply")["moves"]) == 2


def test_nobody_waits_for_a_model_when_the_server_ends() -> None:
    stopping = threading.Event()
    model = LoadedLater("slow", lambda: time.sleep(1), stopping)
    stopping.set()
    with pytest.raises(MuGoError, match="ending"):
        model.get()


def test_the_board_is_shown_before_its_rules_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = threading.Event()
    rules = LoadedLater("rules", lambda: compiled.wait(30), alone=False)
    monkeypatch.setattr(table_module, "rules_of", lambda game: rules)
    monkeypatch.setattr(table_module, "PATIENCE_SECONDS", 0.01)
    page = Page()
    view = page.ask("/api/games", {"game": "othello:8", "opponent": "nobody", "readouts": 0})
    assert not view["rules_ready"] and sum(map(bool, view["board"])) == 4 and not any(view["legal"])
    compiled.set()
    wait_for(lambda: page.ask(f"/api/games/{view['id']}")["rules_ready"])
    assert sum(page.ask(f"/api/games/{view['id']}")["legal"]) == 4


def test_options_name_games_with_their_opponents(page: Page) -> None:
    options = page.ask("/api/options")
    opponents = {game["spec"]: game["opponents"] for game in options["games"]}
    assert next(iter(opponents)) == "tictactoe"  # the models' games come first
    assert opponents["tictactoe"] == ["tiny", "heuristic", "random", "nobody"]
    assert opponents["go:19"] == ["heuristic", "random", "nobody"]
    assert options["readouts"] == 16


@pytest.mark.parametrize("game", ["go:9", "gomoku:15", "othello:8", "connect4", "tictactoe"])
@pytest.mark.parametrize("opponent", ["heuristic", "random"])
def test_every_game_can_be_played_against_built_in_players(page: Page, game: str, opponent: str) -> None:
    view = page.begin(game, opponent, human=1)
    rng = random.Random(0)
    for _ in range(6):
        view = page.act(view, "reply")
        if view["over"]:
            break
        legal = [point for point, allowed in enumerate(view["legal"]) if allowed]
        point = rng.choice(legal) if legal else None
        view = page.play(view, "pass" if point is None else view["plays"][point])
        assert view["last"] == point and (point is None or view["board"][point] == 2)
    assert len(view["moves"]) >= 5


def test_a_model_replies_and_says_how_it_stands(page: Page) -> None:
    view = page.play(page.begin("tictactoe", "tiny"), "B2")
    assert view["turn"] == 1 and view["analysis"] is None
    view = page.act(view, "reply")
    assert len(view["moves"]) == 2 and view["turn"] == 0
    assert {"1", "2"} <= set(view["winrates"]) or view["winrates"].keys() == {"1"}
    assert all(0 <= rate <= 1 for rate in view["winrates"].values())
    before = page.ask(f"/api/games/{view['id']}?ply=1")["analysis"]
    assert before["moves"][0]["move"] == view["moves"][1] and before["visits"] == 8


def test_it_is_not_the_opponents_turn_to_reply(page: Page) -> None:
    view = page.begin("tictactoe", "tiny")
    assert page.act(view, "reply")["moves"] == []


def test_illegal_moves_are_refused_with_the_reason(page: Page) -> None:
    view = page.play(page.begin("tictactoe"), "B2")
    assert page.act(view, "play", 400, move="B2") == "b2 is not possible: the point is occupied"
    assert page.act(view, "play", 400, move="Z9") == "'Z9' is no move of Tic-tac-toe"
    assert "the game has 1 moves, not 0" in page.ask(
        f"/api/games/{view['id']}/play", {"ply": 0, "move": "A1"}, status=409
    )


def test_a_game_to_its_end_and_nothing_after_it(page: Page) -> None:
    view = page.play(page.begin("tictactoe"), "A1", "A2", "B1", "B2", "C1")
    assert view["over"] and view["result"] == "X wins" and not any(view["legal"])
    assert "the game is over" in page.act(view, "play", 400, move="C3")
    assert "there is no move" in page.act(view, "analyse", 400, readouts=1)


def test_undo_takes_back_a_move_of_the_persons(page: Page) -> None:
    view = page.act(page.play(page.begin("tictactoe", "tiny"), "B2"), "reply")
    view = page.act(view, "undo")
    assert view["moves"] == [] and view["winrates"] == {}
    assert "no move of yours" in page.act(view, "undo", 400)
    white = page.act(page.begin("tictactoe", "tiny", human=1), "reply")
    assert "no move of yours" in page.act(white, "undo", 400)


def loser(lead: float, margins=None) -> Page:
    """A page with a model that has lost as black, and is this far behind."""
    config = SearchOptions(noise_weight=0.0) if margins is None else PlaySearchOptions()
    session = SearchSession(GO.without_move_limit(), white_wins(), config, 60, 1, margins)
    stopping = threading.Event()
    model = LoadedLater("loser", lambda: (session, Findings(session, behind(lead))), stopping)
    return Page(Analyst("loser", GO, {GO.board_title: GO}, model, stopping))


@pytest.mark.parametrize(("lead", "resigns"), [(-20.0, True), (-5.0, False)])
def test_a_hopeless_model_resigns_at_its_second_move_unless_the_game_is_close(lead: float, resigns: bool) -> None:
    page = loser(lead)
    view = page.act(page.begin(GO.spec, "loser", 1), "reply")
    assert len(view["moves"]) == 1 and not view["over"]
    view = page.act(page.play(view, "pass"), "reply")
    assert view["over"] == resigns and len(view["moves"]) == (2 if resigns else 3)
    assert view["result"] == ("Black resigned: White wins" if resigns else None)
    view = page.act(view, "undo")
    assert len(view["moves"]) == 1 and not view["over"], "otherwise it would resign again at once"


def test_a_model_that_has_lost_answers_a_pass_with_a_pass() -> None:
    """On a finished board."""
    analyst = loser(-5.5, counted()).lobby.analysts["loser"]
    passes = GO.pass_action
    line = Line(GO.without_move_limit(), position(SETTLED, 1), ((1, passes),))
    assert analyst.search(line, 60, lambda: False, plays=True)[0] == passes


def test_resignation_ends_the_game_and_can_be_taken_back(page: Page) -> None:
    view = page.act(page.play(page.begin("go:9"), "D4"), "resign")
    assert view["result"] == "White resigned: Black wins"
    assert "the game is over" in page.act(view, "play", 400, move="E5")
    assert "RE[B+R]" in page.client.get(f"/api/games/{view['id']}/sgf").text
    view = page.act(view, "undo")
    assert not view["over"] and view["moves"] == ["D4"]
    view = page.act(page.play(page.begin("go:9", "random"), "D4"), "resign")  # while the opponent thinks
    assert view["result"] == "Black resigned: White wins"
    assert "RE[W+R]" in page.client.get(f"/api/games/{view['id']}/sgf").text


def test_stones_fall_in_connect_four(page: Page) -> None:
    view = page.play(page.begin("connect4"), "4", "4")
    assert view["board"][5 * 7 + 3] == 1 and view["board"][4 * 7 + 3] == 2 and view["last"] == 4 * 7 + 3
    assert view["plays"][3] == "4" and view["names"][4 * 7 + 3] == "column 4, row 2"
    assert [point for point, legal in enumerate(view["legal"]) if legal].count(3 * 7 + 3) == 1
    view = page.act(view, "analyse", readouts=8)
    assert all(view["legal"][move["point"]] for move in view["analysis"]["moves"])


def test_analysis_has_candidates_policy_and_territory(page: Page) -> None:
    view = page.act(page.play(page.begin("go:9,komi=7"), "D4"), "analyse", readouts=20)
    found = view["analysis"]
    assert found["visits"] >= 19 and len(found["policy"]) == 81 and 0.9 < sum(found["policy"]) <= 1.01
    assert found["ownership"][0] == -1 and found["ownership"][40] == 1  # seen by black, though white is to move
    assert found["lead"] == pytest.approx(12.5)
    assert found["moves"][0]["pv"][0] == found["moves"][0]["move"]
    assert view["winrates"]["1"] == pytest.approx(found["winrate"])
    earlier = page.ask(f"/api/games/{view['id']}/analyse", {"ply": 0, "readouts": 4})
    assert earlier["ply"] == 0 and earlier["to_move"] == 0 and earlier["analysis"]["visits"] >= 4


def test_the_area_is_shown_where_go_is_over(page: Page) -> None:
    view = page.play(page.begin("go:9"), "D4", "pass", "pass")
    assert view["result"] == "Black wins by 73.5 points" and view["area"] == [1] * 81
    assert "the game is over" in page.act(view, "play", 400, move="E5")
    assert page.ask(f"/api/games/{view['id']}?ply=1")["area"] is None


def test_without_a_model_nobody_gives_hints(page: Page) -> None:
    assert "no model on this server" in page.act(page.begin("othello:8"), "analyse", 400, readouts=1)


def test_the_model_says_which_stones_are_dead_at_the_end(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall of white stones has the board, but for a black one behind it, which area scoring counts as alive."""
    white = "AW" + "".join(f"[{letter}e]" for letter in "abcdefghi")
    record = f"(;SZ[9]KM[7]{white}AB[ba];B[];W[])".encode()
    view = page.ask("/api/records?game=go:9,komi=7", content=record)
    assert view["over"] and view["to_judge"] and view["result"].startswith("White wins by")
    analyst = page.lobby.analysts["go"]
    monkeypatch.setattr(analyst, "owners", lambda line: np.full(81, -0.9, np.float32))
    judged = page.act(view, "judge")
    assert not judged["to_judge"] and "go takes a group for dead" in judged["result"]
    assert judged["result"].endswith("White winning by 88 points")  # all 81 points and the komi
    monkeypatch.setattr(analyst, "owners", lambda line: None)
    assert page.act(view, "judge")["result"] == view["result"]
    again = page.act(judged, "rewind", to=0)
    assert not again["to_judge"] and "nothing to judge" in page.act(again, "judge", status=400)


def test_records_go_out_and_in_again(page: Page) -> None:
    view = page.play(page.begin("go:9"), "D4", "E5", "pass", "F6")
    text = page.client.get(f"/api/games/{view['id']}/sgf")
    assert text.headers["content-disposition"].startswith("attachment") and "SZ[9]" in text.text
    again = page.ask("/api/records", content=text.content)
    assert again["moves"] == view["moves"] and again["board"] == view["board"]
    assert again["adviser"] == "go"  # the first game that fits is the model's
    first = page.ask(f"/api/games/{again['id']}?ply=1")
    assert sum(map(bool, first["board"])) == 1 and first["last"] == view["names"].index("D4")
    rewound = page.act(again, "rewind", to=2)
    assert rewound["moves"] == ["D4", "E5"]


@pytest.mark.parametrize(
    ("result", "shown"), [("B+R", "White resigned: Black wins"), ("w+resign", "Black resigned: White wins")]
)
def test_a_resignation_in_a_record_counts(page: Page, result: str, shown: str) -> None:
    view = page.ask("/api/records?game=go:9", content=f"(;SZ[9]RE[{result}];B[dd];W[ff])".encode())
    assert view["result"] == shown and view["over"]
    assert f"RE[{result[0].upper()}+R]" in page.client.get(f"/api/games/{view['id']}/sgf").text


def test_other_results_of_records_are_told(page: Page) -> None:
    view = page.ask("/api/records?game=go:9", content=b"(;SZ[9]RE[W+T];B[dd];W[ff])")
    assert view["notes"] == ["its result is W+T"] and not view["over"]
    assert page.ask("/api/records?game=go:9", content=b"(;SZ[9]RE[?];B[dd];W[ff])")["notes"] == []


def test_records_with_handicap_go_out_and_in_again(page: Page) -> None:
    view = page.ask("/api/records", content=b"(;SZ[9]AB[cc][gg]PB[Ann];W[ee];W[ff];B[aa])")
    assert sum(map(bool, view["board"])) == 5 and view["players"][0] == "Ann"
    view = page.act(view, "analyse", readouts=4)
    assert view["analysis"]["visits"] >= 4
    text = page.client.get(f"/api/games/{view['id']}/sgf")
    again = page.ask("/api/records", content=text.content)
    assert again["board"] == view["board"] and again["moves"] == view["moves"] and again["movers"] == view["movers"]


def test_records_tell_what_was_guessed(page: Page) -> None:
    text = "(;SZ[9]KM[700]PB[許功蓋];B[cc];W[gg];AB[ce]AE[gg];W[ee];B[aa])"
    view = page.ask("/api/records", content=text.encode("big5"))
    assert (view["moves"], view["movers"], view["players"][0]) == (["E5", "A9"], [1, 0], "許功蓋")
    assert sum(map(bool, view["board"])) == 4 and view["notes"] == [
        "its text is in Big5", "its komi 700 is read as 7 points",
        "stones are set up after move 2: the game begins there",
    ]  # fmt: skip
    assert page.begin("go:9")["notes"] == []


def test_a_record_is_counted_with_its_own_komi() -> None:
    """Black has 45 points, White 36."""
    page, told = Page(make_analyst("go:9,komi=7", "go")), Page(make_analyst("go:9,komi=7", "go"), of_all_boards())
    for komi, result, other, adviser in (
        ("9.5", "White wins by 0.5 points", 7, "all"), ("9", "The game is drawn", 7, "all"),
        ("7", "Black wins by 2 points", None, "go"), ("3.3", "Black wins by 2 points", None, "go"),
    ):  # fmt: skip
        record = f"(;SZ[9]KM[{komi}]AB[ae:ie]AW[af:if]PL[B];B[];W[])".encode()
        view = page.ask("/api/records?game=go:9,komi=7", content=record)
        assert view["result"] == result and (view["other_komi"], view["adviser"]) == (other, "go")
        assert page.act(view, "judge")["result"].startswith(result) and page.act(view, "rewind", to=1)["moves"]
        view = told.ask("/api/records?game=go:9,komi=7", content=record)
        assert view["result"] == result and (view["other_komi"], view["adviser"]) == (None, adviser)
        view = told.act(told.act(view, "rewind", to=1), "analyse", readouts=4)
        assert adviser == "go" or told.lobby.analysts["all"].model.get()[0].game.komi == float(komi)


def test_a_game_that_went_on_after_two_passes_is_analysed_to_its_end(page: Page) -> None:
    view = page.ask("/api/records?game=go:9,komi=7", content=b"(;SZ[9]KM[7];B[ee];W[];B[];W[cc])")
    found = [page.ask(f"/api/games/{view['id']}/analyse", {"ply": ply, "readouts": 4}) for ply in (2, 3, 4)]
    assert [one["analysis"] is None for one in found] == [False, True, False]
    assert found[-1]["winrates"].keys() == {"2", "4"}


@pytest.mark.parametrize(
    ("record", "problem"),
    [(b"", "no game found"), (b"\xff\x00[[;", "in no known encoding"),
     (b"(;SZ[9];B[aa];W[aa])", "move 2 of the record"), (b"(;SZ[37];B[aa])", "the board is 37×37"),
     (b"(\n;SZ[9:13])", "the board is 9×13"), (b"(;GM[7])", "another game"),
     (b"(;SZ[9];B[ab];W[ba];AB[aa]AW[bb][ac])", "the stones that node 3 sets up"),
     (b"(;GM[4]SZ[15];B[zz])", "no point of 15×15 Gomoku")],
)  # fmt: skip
def test_bad_records_are_refused(page: Page, record: bytes, problem: str) -> None:
    assert problem in page.ask("/api/records?game=go:9", content=record, status=400)


def test_games_that_sgf_does_not_know_are_not_written(page: Page) -> None:
    assert "isn't written as sgf" in page.ask(f"/api/games/{page.begin('connect4')['id']}/sgf", status=400)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8000"}, 200),
        ({"host": "localhost:9"}, 200),
        ({"host": "rebound.example:8000"}, 403),
        ({"host": "127.0.0.1.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": ADDRESS}, 200),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_other_sites_are_turned_away(page: Page, headers: dict[str, str], status: int) -> None:
    for path in ("/", "/api/options"):
        answer = page.client.get(path, headers=headers)
        assert answer.status_code == status
        assert "content-security-policy" in answer.headers


LAN = "http://192.168.1.5:8000"


def guest(guests: Guests) -> TestClient:
    """A browser on the same network."""
    return TestClient(make_app(Lobby(PAGES, [], 16), guests), base_url=LAN, follow_redirects=False)


def test_on_a_network_nothing_is_served_without_a_token() -> None:
    printed: list[str] = []
    guests = Guests(printed.append)
    client, token = guest(guests), guests.announced
    for path in ("/", "/page.js", "/icon.svg", "/api/options", "/?token=", "/?token=x", "/?other=" + token, "/none"):
        refused = client.get(path)
        assert refused.status_code == 403 and "works once" in refused.json()["error"], path
    assert client.post(f"/api/games?token={token}", json={}).status_code == 403
    assert not printed and token == guests.announced, "no request has used it up"


def test_a_token_lets_one_browser_in() -> None:
    printed: list[str] = []
    guests = Guests(printed.append)
    client, token = guest(guests), guests.announced
    answer = client.get(f"/?token={token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/") and "HttpOnly" in answer.headers["set-cookie"]
    assert client.get("/").status_code == 200 and client.get("/api/options").status_code == 200
    begun = {"game": "tictactoe", "opponent": "nobody", "readouts": 0}
    assert client.post("/api/games", json=begun, headers={"origin": LAN}).status_code == 200
    assert printed == [guests.announced] != [token]
    assert guest(guests).get(f"/?token={token}").status_code == 403, "it worked once"
    again = client.get(f"/?token={guests.announced}")
    assert again.status_code == 303 and len(printed) == 1, "who is in uses up no other"
    assert client.get(f"{LAN}//elsewhere.example/?token={token}").headers["location"] == "/elsewhere.example/"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "192.168.1.6:8000"}, 403),
        ({"host": "rebound.example"}, 403),
        ({"host": "0.0.0.0:8000"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_on_a_network_other_sites_are_turned_away(headers: dict[str, str], status: int) -> None:
    guests = Guests(lambda token: None)
    client = guest(guests)
    client.get(f"/?token={guests.announced}")
    cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
    assert client.get("/", headers={**cookie, **headers}).status_code == status


def test_large_requests_are_refused(page: Page) -> None:
    def parts():
        yield from (b" " * 1000 for _ in range(MOST_BYTES // 1000 + 2))

    for path in ("/api/games", "/api/records", "/api/games/x/play"):
        assert "longer than 256 KiB" in page.ask(path, content=b"x" * (MOST_BYTES + 1), status=413)
        assert "longer than 256 KiB" in page.ask(path, content=parts(), status=413)  # without content-length


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b"[" * 100_000, b'{"game":' * 10_000,
     b'{"game": "go:9", "opponent": "nobody", "readouts": 1e400}',
     b'{"game": "go:9", "opponent": "nobody", "readouts": 99999999999999999999999999}',
     b'{"game": "go:9", "opponent": "nobody", "readouts": -1}',
     b'{"game": "go:9", "opponent": "nobody", "readouts": true}',
     b'{"game": "go:9", "opponent": "nobody", "readouts": 1, "human": 2}',
     b'{"game": "go:9", "opponent": "random", "readouts": 1, "human": null}',
     b'{"game": "go:9", "opponent": "gtp:rm", "readouts": 1}',
     b'{"game": "go:9,komi=1", "opponent": "random", "readouts": 1}',
     b'{"game": "go:9", "opponent": "random", "readouts": 1, "more": 1}',
     b'{"game": "' + b"x" * 1000 + b'", "opponent": "random", "readouts": 1}'],
)  # fmt: skip
def test_nonsense_is_answered_with_a_sentence(page: Page, body: bytes) -> None:
    assert len(page.ask("/api/games", content=body, status=400)) < 300


def test_a_fuzzed_client_never_breaks_the_server() -> None:
    page = Page(make_analyst("tictactoe"))
    rng = random.Random(7)
    view = page.begin("tictactoe")
    words = [b'"ply"', b'"move"', b":", b",", b"{", b"}", b"[", b"]", b"1" * 400, b"-1", b'"B2"', b"null", b'"to"',
             b"1.5", b"\x00", b"\xf0\x9f", b'"readouts"', b"true", b"NaN", b'"\\ud800"', b"0", b"9"]  # fmt: skip
    places = ["play", "reply", "undo", "rewind", "resign", "analyse", "sgf", "no-such", "%00", "..%2f"]
    for _ in range(400):
        junk = b"".join(rng.choices(words, k=rng.randrange(12)))
        body = rng.choice([junk, b"{" + junk + b"}", rng.randbytes(rng.randrange(60)), b'{"ply": 0, ' + junk + b"}"])
        name = rng.choice([view["id"], "x", "", "%ff", "a" * 3000])
        ply = rng.choice(["-1", "x", "9" * 5000, "1e9", "0", "%ff"])
        path = rng.choice(["/api/games", "/api/records", "/api/options", "/", "/api/../page.js",
                           f"/api/games/{name}/{rng.choice(places)}",
                           f"/api/games/{name}?ply={ply}"])  # fmt: skip
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"])
        answer = page.client.request(method, path, content=body)
        assert answer.status_code in (200, 400, 404, 405, 409), (method, path, body, answer.text)
        if answer.status_code != 200 and method != "HEAD":
            assert answer.json()["error"]
    assert page.play(page.begin("tictactoe"), "B2")["moves"] == ["b2"]


def test_a_bug_is_answered_and_the_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(raise_server_exceptions=False)
    view = page.begin("tictactoe")
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.play.page.table.Table.undo", lambda table, ply: 1 / 0)
        assert "bug" in page.act(view, "undo", 500)
    assert page.play(view, "B2")["moves"] == ["b2"]


def test_the_game_idle_for_longest_makes_room() -> None:
    page = Page()
    views = [page.begin("tictactoe") for _ in range(MOST_TABLES)]
    page.ask(f"/api/games/{views[0]['id']}")
    page.begin("tictactoe")
    assert "no such game" in page.ask(f"/api/games/{views[1]['id']}", status=404)
    page.ask(f"/api/games/{views[0]['id']}")


class Held:
    """An evaluator that waits until it is let go."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __call__(self, game):
        evaluate = hashed_evaluator(game)

        def held(planes):
            self.asked.set()
            assert self.go_on.wait(30)
            return evaluate(planes)

        return held


def test_during_a_search_the_server_answers_and_a_stale_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyst_module, "MOST_WAITING", 1)
    held = Held()
    page = Page(make_analyst("tictactoe", evaluator=held))
    with page.client:
        view = page.play(page.begin("tictactoe", "tiny", readouts=50), "B2")
        replies = []
        thinking = threading.Thread(target=lambda: replies.append(page.act(view, "reply")))
        thinking.start()
        assert held.asked.wait(30)
        assert page.ask("/api/options")
        assert "waiting" in page.act(page.begin("tictactoe"), "analyse", 503, readouts=1)
        assert page.act(view, "undo")["moves"] == []
        held.go_on.set()
        thinking.join(30)
        assert replies[0]["moves"] == []
        view = page.act(page.play(view | {"moves": []}, "A1"), "reply")  # and the model still plays
        assert len(view["moves"]) == 2


@pytest.mark.parametrize("meanwhile", ["reply", "resign", "leave"])
def test_a_reply_that_nobody_can_use_is_not_searched_for(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the page was loaded again and asked once more, or when a person gave up or began another game."""
    analyst = make_analyst("tictactoe")
    table = StonesTable(parse_game("tictactoe"), "tiny", 0, 8, analyst)
    table.play("B2", 0)
    search, was_stale = analyst.search, []

    def slow(line, readouts, stale, plays):
        monkeypatch.setattr(analyst, "search", search)
        was_stale.append(stale())
        getattr(table, meanwhile)(1)
        was_stale.append(stale())
        return search(line, readouts, stale, plays)

    monkeypatch.setattr(analyst, "search", slow)
    table.reply(1)
    assert was_stale == [False, True]
    assert len(table.view()["moves"]) == (2 if meanwhile == "reply" else 1)
    if meanwhile == "leave":  # and has come back
        table.reply(1)
        assert len(table.view()["moves"]) == 2


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("meanwhile", ["play", "analyse", "leave"])
def test_a_hint_that_nobody_waits_for_ends(meanwhile: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't kept either, so that the position is searched in full when somebody comes back to it.

    whole: it is one of all positions of the game, which goes on, unless the person begins another game.
    """
    analyst = make_analyst("tictactoe")
    table = StonesTable(parse_game("tictactoe"), "nobody", None, 8, analyst)
    search, was_stale = analyst.search, []

    def slow(line, readouts, stale):
        monkeypatch.setattr(analyst, "search", search)
        was_stale.append(stale())
        getattr(table, meanwhile)(*{"play": ("B2", 0), "analyse": (0, 20), "leave": (0,)}[meanwhile])
        was_stale.append(stale())
        return search(line, readouts, stale)

    monkeypatch.setattr(analyst, "search", slow)
    table.analyse(0, 10, whole)
    goes_on = whole and meanwhile != "leave"
    assert was_stale == [False, not goes_on]
    found = table.view(0)["analysis"]
    if goes_on or meanwhile == "analyse":
        assert found["visits"] >= (9 if whole else 19)
    else:
        assert found is None


def test_a_search_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyst_module, "SEARCH_SECONDS", 0.0)
    page = Page(make_analyst("go:9", "go"))
    view = page.act(page.begin("go:9"), "analyse", readouts=100)
    assert view["analysis"]["visits"] < 100


def test_tables_share_a_model_without_mixing_games() -> None:
    shared, alone = Page(make_analyst("go:9", "go")), Page(make_analyst("go:9", "go"))
    views = [shared.begin("go:9", "go", readouts=6) for _ in range(2)]
    for moves in (("C3", "G7"), ("G3", "C7"), ("E5", "A1")):
        views = [shared.act(shared.play(view, move), "reply") for view, move in zip(views, moves, strict=True)]
    replayed = alone.play(alone.begin("go:9"), *views[1]["moves"])
    assert replayed["board"] == views[1]["board"]


def test_models_are_loaded_by_name(tmp_path: Path) -> None:
    config = ServeConfig(model=[make_model(tmp_path)], readouts=4, backend="torch")
    models = served_models(config, PAGES)
    analysts, _ = open_later(models, config, PAGES, threading.Event(), SILENT)
    view = Page(*analysts).begin("tictactoe", "000000-test", human=1)
    assert len(Page(*analysts).client.get("/api/options").json()["games"][0]["opponents"]) == 4
    assert view["adviser"] == "000000-test"


def test_models_of_one_name_are_called_by_their_paths(tmp_path: Path) -> None:
    paths = [make_model(tmp_path / run, number) for run, number in (("a", 0), ("b", 0), ("b", 1))]
    models = served_models(ServeConfig(model=[*paths, paths[2]]), PAGES)
    assert {name: model.path for name, model in models.items()} == {
        str(paths[0]): paths[0],
        str(paths[1]): paths[1],
        "000001-test": paths[2],
    }


def test_all_models_that_come_with_mugo_are_served_beside_a_champion(tmp_path: Path) -> None:
    ours = sorted((ROOT / "pretrained").iterdir())
    models = served_models(ServeConfig(model=[make_model(tmp_path), *ours]), PAGES)
    assert list(models) == ["000000-test", *(path.name for path in ours)]


def test_without_a_model_it_serves_the_champion_and_those_that_come_with_mugo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    progress = Progress()
    progress.say = said.append  # type: ignore[method-assign]
    ours = list(served_models(ServeConfig(), PAGES, progress))
    assert set(ours) == {path.name for path in (ROOT / "pretrained").iterdir()} and said[0].startswith("no champion")
    if "go9" in ours:
        assert ours[0] == "go9", "a model of the usual game is the first"
    make_champion(tmp_path / "saved_models")
    assert list(served_models(ServeConfig(), PAGES, progress)) == ["000000-test", *ours] and len(said) == 1
    monkeypatch.setattr(type(PAGES), "can_show", lambda pages, game: game.spec != "tictactoe")
    assert list(served_models(ServeConfig(), PAGES, progress)) == ours
    assert said[1] == "saved_models/best_model plays Tic-tac-toe, for which the page has no board"
    with pytest.raises(UsageError, match="the page has no board for Tic-tac-toe"):
        served_models(ServeConfig(model=[tmp_path / "saved_models/best_model"]), PAGES)


def test_a_port_that_is_taken_is_named() -> None:
    with listen(0) as taken, pytest.raises(MuGoError, match=r"port \d+ of 127.0.0.1 is taken.*--port"):
        listen(taken.getsockname()[1])


@pytest.mark.parametrize("host", ["192.0.2.77", "nowhere.invalid", "x" * 80, "1.2.3.4.5"])
def test_a_host_that_is_not_this_machine_is_named(host: str) -> None:
    with pytest.raises(UsageError, match=f"--host {host}: .*wanted an address of this machine, or 0.0.0.0"):
        listen(0, host)


def main_serve(*options: str, browser: bool = False, **more) -> subprocess.Popen[str]:
    command = [sys.executable, "main.py", "serve", *(() if browser else ("--no-browser",)), *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, **more)


@contextlib.contextmanager
def served(*options: str, **more) -> Iterator[subprocess.Popen[str]]:
    """The same, killed at the end: a test that fails must not wait for a server that goes on."""
    with main_serve(*options, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_serves_until_ctrl_c(tmp_path: Path) -> None:
    model = make_model(tmp_path)
    with served("--port", "0", "--model", str(model), "--readouts", "4", "--backend", "torch") as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "http://" in line)
        address = said[said.index("http://") :].split()[0]
        with urllib.request.urlopen(address + "api/options") as answer:
            assert b"000000-test" in answer.read()
        with socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2]))) as raw:
            raw.sendall(os.urandom(200) + b"\r\n\r\n")
            raw.settimeout(10)
            raw.recv(100)
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(30) == 130
        assert "interrupted" in rest and "Traceback" not in rest


def test_on_a_network_the_command_prints_an_address_with_a_token(tmp_path: Path) -> None:
    model = str(make_model(tmp_path))
    with served("--port", "0", "--host", "0.0.0.0", "--model", model, "--backend", "torch") as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        port, token = re.search(r"http://[^:/]+:(\d+)/\?token=(\S+)", said).groups()  # type: ignore[union-attr]
        here = f"http://127.0.0.1:{port}/"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(here)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{here}?token={token}") as answer:
            assert answer.status == 200 and answer.geturl() == here
        assert re.search(r"another one is http://[^:/]+:\d+/\?token=", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_the_command_opens_a_browser(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {opened}.new && mv {opened}.new {opened}\n")
    browser.chmod(0o755)
    model = make_model(tmp_path)
    options = ("--port", "0", "--model", str(model), "--readouts", "4", "--backend", "torch")
    with served(*options, browser=True, env={**os.environ, "BROWSER": f"{browser} %s"}) as process:
        assert process.stderr is not None
        address = next(line for line in process.stderr if "http://" in line).partition("http://")[2].split()[0]
        until = time.monotonic() + 60
        while not opened.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert opened.read_text().strip() == f"http://{address}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


def test_a_taken_port_and_a_missing_extra_are_one_line(tmp_path: Path) -> None:
    with listen(0) as taken:
        process = main_serve("--port", str(taken.getsockname()[1]))
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1 and said.startswith("mugo serve: port ") and said.count("\n") == 1
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')\n")
    process = main_serve(env={**os.environ, "PYTHONPATH": str(tmp_path)})
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1 and said.startswith("mugo serve: needs uvicorn: ") and said.count("\n") == 1


def test_the_server_ends_while_a_search_is_running(tmp_path: Path) -> None:
    started = time.monotonic()
    model = make_model(tmp_path, spec="go:9")
    with served("--port", "0", "--model", str(model), "--readouts", "4", "--backend", "torch") as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "http://" in line)
        address = said[said.index("http://") :].split()[0]
        started = time.monotonic()

        def post(path: str, body: bytes) -> bytes:
            with urllib.request.urlopen(urllib.request.Request(address + path, body)) as answer:
                return answer.read()

        view = post("api/games", b'{"game": "go:9", "opponent": "nobody", "readouts": 1}')
        name = view.partition(b'"id":"')[2].partition(b'"')[0].decode()
        body = b'{"ply": 0, "readouts": 10000}'

        def analyse() -> None:
            with contextlib.suppress(OSError):  # the server may be gone before it answers
                post(f"api/games/{name}/analyse", body)

        threading.Thread(target=analyse).start()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - started < 20


def test_undo_takes_effect_while_a_built_in_opponent_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page()
    view = page.act(page.begin("go:9", "heuristic"), "play", move="E5")
    choose = PlayerOpponent.choose

    def slow(opponent, line):
        page.act(view, "undo")
        return choose(opponent, line)

    monkeypatch.setattr(PlayerOpponent, "choose", slow)
    assert page.act(view, "reply")["moves"] == []


def test_a_komi_that_cannot_be_played_with_is_named() -> None:
    view = Page().ask("/api/records?game=go:9,komi=7", content=b"(;SZ[9]KM[6.3];B[ee])")
    assert any("its komi 6.3 can't be played with; 7" in note for note in view["notes"])


def test_a_champion_of_a_game_that_is_not_installed_hides_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_champion(tmp_path / "saved_models")
    raw = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(raw | {"game": "nosuch:9"}))
    said: list[str] = []
    progress = Progress()
    progress.say = said.append  # type: ignore[method-assign]
    assert set(served_models(ServeConfig(), PAGES, progress)) == {path.name for path in (ROOT / "pretrained").iterdir()}
    assert len(said) == 1 and said[0].startswith("saved_models/best_model: ") and "nosuch" in said[0]


def test_a_second_search_keeps_to_the_readouts_asked_for_and_none_to_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    begin_at = EndingSearch.begin_at

    def noted(self, other, rows, readouts, allowed):
        searched.extend(readouts.tolist())
        return begin_at(self, other, rows, readouts, allowed)

    monkeypatch.setattr(EndingSearch, "begin_at", noted)
    for asked, session_has, second in ((0, 60, []), (10, 60, [10]), (30, 0, [30]), (None, 0, []), (500, 60, [200])):
        searched.clear()
        session = SearchSession(GO.without_move_limit(), white_wins(), PlaySearchOptions(), session_has, 1, counted())
        session.set_up(position(SETTLED, 0))
        session.think(None, asked)
        assert searched == second, asked


def test_warming_up_loads_what_decided_positions_need() -> None:
    asked: list[str] = []
    margins = counted()

    def noted(name, ask):
        return lambda planes: (asked.append(name), ask(planes))[1]

    margins = margins._replace(evaluate=noted("margins", margins.evaluate), owners=noted("owners", margins.owners))
    for readouts, needed in ((8, {"margins", "owners"}), (0, set())):
        asked.clear()
        SearchSession(GO, hashed_evaluator(GO), PlaySearchOptions(), readouts, 1, margins).warm_up()
        assert set(asked) == needed
