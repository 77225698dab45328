"""KataGo's analysis protocol from a client's side: queries, answers, many positions at once, errors, strange input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline import __version__
from pipeline.families.go.analysis import ROWS, Analysis
from pipeline.games.specs import parse_game
from pipeline.networks.modules import Estimates
from pipeline.play.command_lines import TOO_LONG, CommandLines
from pipeline.players.searching import SearchPlayer
from pipeline.search.options import SearchOptions
from tests.helpers import make_model
from tests.search.helpers import hashed_evaluator

ROOT = Path(__file__).parents[3]
ROOM = 2000


def ahead_by_12(planes):
    """An estimate: the first player owns everything but A9, and is ahead by 12.5 points."""
    white = planes[:, 13, 0, 0].astype(np.float32)
    sign = (1 - 2 * white)[:, None]
    owners = np.ones((len(planes), planes.shape[2] * planes.shape[3]), np.float32)
    owners[:, 0] = -1
    return Estimates(owners * sign, (12.5 * sign[:, 0]).astype(np.float32))


class Client:
    """Asks and collects answers, each a line of JSON."""

    def __init__(
        self, spec: str = "go:9,komi=7", readouts: int = 16, estimate=ahead_by_12, leaves: int = 1, network=None
    ) -> None:
        game = parse_game(spec).without_move_limit()
        self.batches: list[int] = []
        network = network or hashed_evaluator(game)

        def evaluate(planes):
            self.batches.append(len(planes))
            return network(planes)

        player = SearchPlayer(game, ROWS, evaluate, SearchOptions(noise_weight=0.0), ROOM, leaves)
        self.game, self.analysis = game, Analysis(player, estimate, readouts, ROOM)
        self.written: list[str] = []
        self.analysis._write = self.written.append

    def send(self, line: str | dict) -> list[dict]:
        """The answers before any search."""
        self.analysis.answer(line if isinstance(line, str) else json.dumps(line))
        return self.read()

    def read(self) -> list[dict]:
        lines, self.written[:] = "".join(self.written), []
        assert lines == "" or lines.endswith("\n")
        return [json.loads(line) for line in lines.splitlines()]

    def ask(self, line: str | dict) -> list[dict]:
        """All answers."""
        answers = self.send(line)
        while self.analysis.busy:
            self.analysis.step()
        return answers + self.read()

    def query(self, **fields) -> dict:
        size = self.game.board_shape[0]
        return {"id": "foo", "moves": [], "rules": "tromp-taylor", "boardXSize": size, "boardYSize": size, **fields}


@pytest.fixture
def client() -> Client:
    return Client()


def names(answer: dict) -> set[str]:
    return {move["move"] for move in answer["moveInfos"]}


def left_out(player: str, moves: list[str], depth: int = 1) -> dict:
    return {"player": player, "moves": moves, "untilDepth": depth}


def test_moves_are_left_out_or_alone_searched(client):
    """KaTrain's alternatives leave out the moves that it knows; its region of interest, all points around it."""
    query = client.query(moves=MOVES, maxVisits=100)
    (free,) = client.ask(query)
    known = sorted(names(free))[:20]
    (others,) = client.ask({**query, "avoidMoves": [left_out("W", known)]})
    assert names(others) and not names(others) & set(known) and others["rootInfo"]["visits"] == 100
    points = [f"{letter}{row}" for letter in "ABCDEFGHJ" for row in range(1, 10)]
    region = [point for point in points if point[0] not in "ABC"]
    (inside,) = client.ask({**query, "avoidMoves": [left_out(player, region) for player in "BW"]})
    assert {move[0] for move in names(inside) - {"pass"}} == set("ABC")
    both = [left_out("W", region), left_out("W", ["A1", "pass"])]
    (inside,) = client.ask({**query, "avoidMoves": both})
    assert {move[0] for move in names(inside)} == set("ABC") and "A1" not in names(inside)
    (two,) = client.ask({**query, "allowMoves": [left_out("W", ["C3", "G7"]), left_out("B", ["A1"], 2)]})
    assert names(two) == {"C3", "G7"} and {move["pv"][1] for move in two["moveInfos"] if len(move["pv"]) > 1} == {"A1"}
    (two,) = client.ask({**query, "allowMoves": [left_out("W", ["C3", "D4", "G7"])], "includePolicy": True})
    assert names(two) == {"C3", "G7"}, "D4 is occupied"
    assert sorted(two["policy"])[-3:][0] == 0.0
    (free,) = client.ask(query)
    assert len(names(free)) > 20, "the next query is free again"


def test_nothing_is_found_where_no_move_is_left(client):
    points = [f"{letter}{row}" for letter in "ABCDEFGHJ" for row in range(1, 10)]
    (nothing,) = client.ask(client.query(avoidMoves=[left_out("B", [*points, "pass"])]))
    assert nothing["noResults"] and nothing["turnNumber"] == 0
    (passes,) = client.ask(client.query(avoidMoves=[left_out("B", points)]))
    assert names(passes) == {"pass"}
    (answer,) = client.ask(client.query(allowMoves=[left_out("B", ["D4"])]))
    assert names(answer) == {"D4"}, "of an empty, symmetric board"


def test_whole_numbers_may_have_a_point(client):
    """As some languages write them."""
    (answer,) = client.ask(client.query(boardXSize=9.0, boardYSize=9.0, maxVisits=8.0, analyzeTurns=[0.0], komi=7))
    assert answer["rootInfo"]["visits"] == 8


def test_turns_before_an_illegal_move_are_answered(client):
    """Rules of New Zealand allow a suicide, ours don't."""
    moves = [["W", "A2"], ["W", "B1"], ["B", "A1"], ["W", "E5"]]
    warning, *answers = client.ask(client.query(moves=moves, analyzeTurns=[0, 1, 2, 3, 4], rules="new zealand"))
    assert warning["warning"].startswith("Illegal move 2: A1 (9×9 Go: A1: ") and warning["field"] == "moves"
    found = {answer["turnNumber"]: answer for answer in answers}
    assert sorted(found) == [0, 1, 2, 3, 4] and len(answers) == 5
    assert all(("noResults" in found[turn]) == (turn > 2) for turn in found)
    (error,) = client.ask(client.query(moves=moves, id="b"))
    assert error["error"].startswith("Illegal move 2: A1"), "nothing that was asked for can be answered"


MOVES = [["B", "D4"], ["W", "E5"], ["B", "F6"]]


def test_an_answer_has_katagos_fields(client):
    (answer,) = client.ask(client.query(moves=MOVES, komi=7.0, includeOwnership=True, includePolicy=True))
    assert (answer["id"], answer["turnNumber"], answer["isDuringSearch"]) == ("foo", 3, False)
    assert answer["rootInfo"]["visits"] == 16 and answer["rootInfo"]["currentPlayer"] == "W"
    moves = answer["moveInfos"]
    assert sum(move["visits"] for move in moves) == 16 and [move["order"] for move in moves] == list(range(len(moves)))
    assert [move["visits"] for move in moves] == sorted((move["visits"] for move in moves), reverse=True)
    wanted = {"move", "visits", "winrate", "utility", "scoreLead", "scoreMean", "scoreSelfplay", "prior", "lcb", "pv"}
    assert all(wanted | {"order"} == set(move) and move["pv"][0] == move["move"] for move in moves)
    assert {"winrate", "scoreLead", "utility", "visits", "currentPlayer"} <= set(answer["rootInfo"])
    assert len(answer["ownership"]) == 81 and answer["ownership"][:2] == [-1.0, 1.0]  # black's
    policy = answer["policy"]
    points = [client.game.parse_action(point) for _, point in MOVES]
    assert len(policy) == 82 and [policy[point] for point in points] == [-1.0] * 3
    assert sum(share for share in policy if share >= 0) == pytest.approx(1, abs=1e-4)
    assert min(policy) == -1 and policy.count(-1.0) == 3


def test_whose_view_the_values_are(client):
    (black,) = client.ask(client.query(moves=MOVES[:1]))
    turned = {
        view: client.ask(client.query(moves=MOVES[:1], overrideSettings={"reportAnalysisWinratesAs": view}))[0]
        for view in ("BLACK", "WHITE", "SIDETOMOVE")
    }
    assert turned["BLACK"] == black and turned["WHITE"] == turned["SIDETOMOVE"]  # white is to move
    for ours, theirs in zip(black["moveInfos"], turned["WHITE"]["moveInfos"], strict=True):
        assert ours["winrate"] == pytest.approx(1 - theirs["winrate"], abs=1e-5)
        assert ours["lcb"] == pytest.approx(1 - theirs["lcb"], abs=1e-5) and ours["lcb"] >= ours["winrate"]
        assert ours["utility"] == pytest.approx(-theirs["utility"]) and ours["prior"] == theirs["prior"]
        assert ours["scoreLead"] == 12.5 and theirs["scoreLead"] == -12.5
    values = [move["winrate"] for move in turned["WHITE"]["moveInfos"]]
    assert turned["WHITE"]["rootInfo"]["winrate"] == pytest.approx(np.mean(values), abs=0.5)


def test_turns_are_searched_together_and_as_if_alone():
    together, alone = Client(readouts=40), Client(readouts=40)
    moves = [[colour, f"{column}{row}"] for row in (2, 4, 6) for colour, column in zip("BWBW", "CDEF", strict=True)]
    turns = list(range(13))
    answers = {answer["turnNumber"]: answer for answer in together.ask(together.query(moves=moves, analyzeTurns=turns))}
    assert sorted(answers) == turns
    for turn in turns:
        (answer,) = alone.ask(alone.query(moves=moves, analyzeTurns=[turn]))
        assert answer == answers[turn]
    assert max(together.batches) == ROWS and np.mean(together.batches) > 5 and max(alone.batches) == 1


def test_rows_are_taken_over_by_those_who_wait(client):
    client.send(client.query(id="long", maxVisits=300))
    client.send(client.query(id="short", moves=MOVES, analyzeTurns=[0, 1, 2, 3], maxVisits=5))
    order = [
        (answer["id"], answer["rootInfo"]["visits"]) for answer in client.ask(client.query(id="last", maxVisits=9))
    ]
    assert order == [("short", 5)] * 4 + [("last", 9), ("long", 300)]


def test_the_highest_priority_goes_first(client):
    moves = [["BW"[i % 2], f"{'ABCDEFGHJ'[i % 9]}{1 + i // 9}"] for i in range(20)]
    client.send(client.query(id="low", moves=moves, analyzeTurns=list(range(20))))
    client.send(client.query(id="high", priority=3))
    answers = client.ask(client.query(id="own", moves=moves, analyzeTurns=[4, 5], priorities=[-1, 7]))
    order = [(answer["id"], answer["turnNumber"]) for answer in answers]
    assert {("own", 5), ("high", 0)} < set(order[:ROWS]) and order[-1] == ("own", 4)


def test_partial_answers(client):
    answers = client.ask(client.query(maxVisits=200, reportDuringSearchEvery=1e-6))
    assert [answer["isDuringSearch"] for answer in answers] == [True] * (len(answers) - 1) + [False]
    visits = [answer["rootInfo"]["visits"] for answer in answers]
    assert len(answers) > 50 and visits == sorted(visits) and visits[-1] == 200
    (answer,) = client.ask(client.query(maxVisits=ROOM, overrideSettings={"maxTime": 0.0}))
    assert answer["rootInfo"]["visits"] < 5


def test_terminate(client):
    moves = [["BW"[i % 2], f"{'ABCDEFGHJ'[i]}3"] for i in range(9)]
    client.send(client.query(id="a", moves=moves, analyzeTurns=list(range(10)), maxVisits=1000))
    for _ in range(5):
        client.analysis.step()
    action = {"id": "x", "action": "terminate", "terminateId": "a", "turnNumbers": [0, 9]}
    echo, waiting, searched = client.send(action)
    assert echo == action
    assert waiting == {"id": "a", "turnNumber": 9, "isDuringSearch": False, "noResults": True}
    assert searched["turnNumber"] == 0 and 0 < searched["rootInfo"]["visits"] < 6 and not searched["isDuringSearch"]
    assert client.send({"id": "y", "action": "terminate", "terminateId": "b"})[1:] == []
    assert len(client.send({"id": "z", "action": "terminate_all"})) == 1 + 8 and not client.analysis.busy
    (error,) = client.send({"id": "z", "action": "terminate"})
    assert error["field"] == "terminateId"


def test_other_actions(client):
    (version,) = client.send({"id": "v", "action": "query_version", "more": [1, {"a": None}]})
    assert version == {"id": "v", "action": "query_version", "more": [1, {"a": None}], "version": __version__,
                       "git_hash": "<omitted>"}  # fmt: skip
    assert client.send({"id": "c", "action": "clear_cache"}) == [{"id": "c", "action": "clear_cache"}]
    (error,) = client.send({"id": "d", "action": "dance"})
    assert error["field"] == "action" and error["id"] == "d"


@pytest.mark.parametrize(
    ("rules", "is_ours"),
    [
        ("tromp-taylor", True),
        ("Chinese", True),
        ("japanese", False),
        ("new zealand", True),
        ("Tromp Taylor", True),
        ("anything", False),
        ({"scoring": "AREA", "ko": "POSITIONAL", "tax": "NONE", "suicide": False}, True),
        ({"scoring": "TERRITORY"}, False),
        ({"scoring": "AREA", "tax": "ALL"}, False),
        ({"scoring": ["AREA"]}, False),
    ],
)
def test_other_rules_are_a_warning(client, rules, is_ours):
    answers = client.ask(client.query(rules=rules))
    assert len(answers) == 1 + (not is_ours) and "moveInfos" in answers[-1]
    if not is_ours:
        assert answers[0]["field"] == "rules" and answers[0]["id"] == "foo" and "area scoring" in answers[0]["warning"]


def test_what_is_not_known_is_a_warning(client):
    fields = {"includePVVisits": True, "rootPolicyTemperature": 1.5, "includeMovesOwnership": False}
    warning, answer = client.ask(client.query(**fields))
    assert warning["warning"] == "unexpected or unused: includePVVisits, rootPolicyTemperature"
    assert "moveInfos" in answer
    warning, _ = client.ask(client.query(overrideSettings={"wideRootNoise": 0.04}))
    assert warning["field"] == "overrideSettings" and "wideRootNoise" in warning["warning"]
    warning, answer = client.ask(client.query(maxVisits=10**9, overrideSettings={"maxTime": 0.01}))
    assert warning["field"] == "maxVisits" and answer["rootInfo"]["visits"] > 0
    again = {"wideRootNoise": 0.04, "maxTime": 0.01}
    (answer,) = client.ask(client.query(maxVisits=10**9, overrideSettings=again))
    assert "moveInfos" in answer, "each warning comes once"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("komi", {"komi": 6.5}),
        ("komi", {"komi": "seven"}),
        ("boardXSize", {"boardXSize": 19}),
        ("boardYSize", {"boardYSize": 13}),
        ("boardXSize", {"boardXSize": 9.5}),
        ("moves", {"moves": None}),
        ("moves", {"moves": [["B"]]}),
        ("moves", {"moves": [["B", "D4", "E5"]]}),
        ("moves", {"moves": [["green", "D4"]]}),
        ("moves", {"moves": [["B", "Z4"]]}),
        ("moves", {"moves": [["B", "D4"], ["W", "D4"]]}),
        ("moves", {"moves": [["B", "D4"]] * 6000}),
        ("initialStones", {"initialStones": [["B", "D4"], ["W", "D4"]]}),
        ("initialStones", {"initialStones": [["B", "pass"]]}),
        ("initialPlayer", {"initialPlayer": "X"}),
        ("analyzeTurns", {"analyzeTurns": [1]}),
        ("analyzeTurns", {"analyzeTurns": [-1]}),
        ("analyzeTurns", {"analyzeTurns": [True]}),
        ("priorities", {"priorities": [1, 2]}),
        ("maxVisits", {"maxVisits": 0}),
        ("maxVisits", {"maxVisits": "many"}),
        ("reportDuringSearchEvery", {"reportDuringSearchEvery": 0}),
        ("rules", {"rules": 7}),
        ("overrideSettings", {"overrideSettings": {"reportAnalysisWinratesAs": "GREEN"}}),
        ("avoidMoves", {"avoidMoves": [{"player": "B", "moves": ["D4"], "untilDepth": 0}]}),
        ("avoidMoves", {"avoidMoves": [{"player": "B", "moves": ["Z4"], "untilDepth": 1}]}),
        ("allowMoves", {"allowMoves": [{"player": "X", "moves": ["D4"], "untilDepth": 1}]}),
        ("allowMoves", {"allowMoves": [{"player": "B", "moves": "D4", "untilDepth": 1}]}),
        ("allowMoves", {"allowMoves": [{"player": "B", "moves": ["D4"]}]}),
        ("boardXSize", {"boardXSize": 9e300}),
    ],
)
def test_errors_name_the_field(client, field, fields):
    (error,) = client.ask(client.query(**fields))
    assert error["field"] == field and error["id"] == "foo" and len(error["error"]) < 300


def test_illegal_moves_are_called_so(client):
    """KaTrain looks for these words."""
    (error,) = client.send(client.query(moves=[["B", "D4"], ["W", "D4"]]))
    assert error["error"].startswith("Illegal move 1: D4")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "7",
        "null",
        '"id"',
        "{}",
        '{"id": 7}',
        '{"id": null, "moves": []}',
        "nonsense",
        "\0" * 50,
        "\ufffd\ufffd",
        TOO_LONG,
        '{"id": "a", "komi": NaN}',
        '{"id": "\\ud800"}',
        "[" * 100_000,
        '{"id":' * 100_000,
        '{"id": "a", "x": ' + "9" * 100_000 + "}",
        '{"id": "a", "action": "clear_cache", "x": ' + "9" * 100_000 + "}",
        '{"id": "a", "rules": ' + "[" * 190 + "]" * 190 + "}",
    ],
)
def test_lines_that_are_no_query_have_one_answer(client, line):
    (answer,) = client.ask(line)
    assert "error" in answer or answer.get("action") == "clear_cache"
    assert len(client.ask(client.query())) == 1


def test_an_empty_line_has_no_answer(client):
    assert client.ask("") == client.ask("  \t") == []


def test_random_lines(client):
    """Every line that isn't blank gets an answer, and none stops the engine."""
    rng = np.random.default_rng(0)
    values = [
        None,
        True,
        -1,
        0,
        3,
        1e300,
        "",
        "B",
        "D4",
        "x" * 999,
        [],
        [[]],
        [["B", "D4"]],
        {},
        {"a": [1]},
        [0, 1],
        -0.5,
    ]
    names = [*client.query(), "komi", "initialStones", "initialPlayer", "analyzeTurns", "maxVisits", "includeOwnership",
             "includePolicy", "reportDuringSearchEvery", "priority", "priorities", "overrideSettings", "action",
             "terminateId", "turnNumbers", "model_config", "__class__", "includeMovesOwnership"]  # fmt: skip
    for i in range(400):
        query = client.query(maxVisits=2, id=f"q{i}")
        for name in rng.choice(names, rng.integers(1, 4)):
            query[str(name)] = values[rng.integers(len(values))]
        assert client.ask(query)
        text = bytearray(json.dumps(client.query(maxVisits=2)).encode())
        for place in rng.integers(0, len(text), 3):
            text[place] = rng.integers(256)
        assert client.ask(text.decode(errors="replace"))
    assert "moveInfos" in client.ask(client.query())[0]


def test_set_up_positions_and_turns_out_of_order(client):
    handicap = client.query(initialStones=[["B", "C3"], ["B", "G7"]])
    assert client.ask(handicap)[0]["rootInfo"]["currentPlayer"] == "W"
    assert client.ask({**handicap, "initialPlayer": "B"})[0]["rootInfo"]["currentPlayer"] == "B"
    both = client.ask({**handicap, "moves": [["B", "D4"], ["B", "E4"]], "analyzeTurns": [0, 1, 2]})
    assert [answer["rootInfo"]["currentPlayer"] for answer in both] == ["B", "W", "W"]
    policy = client.ask({**handicap, "includePolicy": True})[0]["policy"]
    assert policy.count(-1.0) == 2


def test_superko_is_known_from_the_moves(client):
    ko = ["D5", "E5", "E6", "F6", "E4", "F4", "J9", "G5", "F5"]  # black takes E5 at last
    moves = [["BW"[i % 2], point] for i, point in enumerate(ko)]
    (answer,) = client.ask(client.query(moves=moves, includePolicy=True))
    assert answer["policy"][client.game.parse_action("E5")] == -1
    (error,) = client.ask(client.query(moves=[*moves, ["W", "E5"]]))
    assert "Illegal move 9" in error["error"]


def test_a_game_that_two_passes_ended_is_analysed_as_if_it_went_on(client):
    passes = [["B", "pass"], ["W", "PASS"]]
    (answer,) = client.ask(client.query(moves=passes))
    assert answer["rootInfo"]["currentPlayer"] == "B" and answer["rootInfo"]["visits"] == 16
    assert client.ask(client.query(moves=[*passes, ["B", "D4"]]))[0]["turnNumber"] == 3


def test_games_without_a_score():
    client = Client("tictactoe", estimate=None)
    game = client.game
    line = [["BW"[i % 2], game.action_name(action)] for i, action in enumerate((0, 3, 1, 4, 2))]
    won, *others = client.ask(client.query(moves=line, analyzeTurns=[5, 4, 3], includeOwnership=True))
    assert won["noResults"] and won["turnNumber"] == 5 and len(others) == 2
    assert all("scoreLead" not in answer["moveInfos"][0] and "ownership" not in answer for answer in others)
    (error,) = client.ask(client.query(moves=[["W", game.action_name(0)]]))
    assert error["field"] == "moves" and "out of turn" in error["error"]
    (error,) = client.ask(client.query(initialPlayer="W"))
    assert error["field"] == "initialPlayer"


def katrain_query(**changes) -> dict:
    """As KaTrain 1.14 builds it for a node of a 9×9 game."""
    return {
        "rules": "chinese",
        "priority": 1,
        "analyzeTurns": [3],
        "maxVisits": 25,
        "komi": 7,
        "boardXSize": 9,
        "boardYSize": 9,
        "includeOwnership": True,
        "includeMovesOwnership": True,
        "includePolicy": True,
        "initialStones": [],
        "initialPlayer": "B",
        "moves": MOVES,
        "overrideSettings": {"reportAnalysisWinratesAs": "BLACK", "maxTime": 8.0},
        "reportDuringSearchEvery": 1.0,
        "id": "QUERY:1",
        **changes,
    }


def test_katrains_queries(client):
    (answer,) = client.ask(katrain_query())
    assert answer["id"] == "QUERY:1" and answer["rootInfo"]["visits"] == 25 and answer["rootInfo"]["scoreLead"] == 12.5
    assert all(len(move["ownership"]) == 81 and move["ownership"][0] == -1 for move in answer["moveInfos"])
    (warning, answer) = client.ask(katrain_query(rules="japanese"))
    assert "warning" in warning and "error" not in warning and answer["moveInfos"]
    stop = {"action": "terminate", "terminateId": "QUERY:1", "id": "QUERY:2"}
    client.send(katrain_query())
    assert [line["id"] for line in client.send(stop)] == ["QUERY:2", "QUERY:1"]


def test_a_model_of_all_boards_analyses_any_komi():
    """The network likes the player who is given points."""
    given = parse_game("go:any").plane_names.index("komi for the mover above 0")

    def network(planes):
        values = planes[:, given, 0, 0].astype(np.float32) * 2 - 1
        return np.zeros((len(planes), planes[0, 0].size + 1), np.float32), values

    client = Client("go:any,size=7,komi=7", network=network)
    black = {"overrideSettings": {"reportAnalysisWinratesAs": "BLACK"}}
    for komi, winrate in ((None, 0.0), (7, 0.0), (0.5, 0.0), (-0.5, 1.0), (-49, 1.0)):
        for stones in ([], [["B", "D4"], ["W", "C3"]]):
            (answer,) = client.ask(client.query(komi=komi, initialStones=stones, **black))
            assert answer["rootInfo"]["winrate"] == pytest.approx(winrate, abs=0.01)
    for komi in (0.25, 50, -1000):
        (error,) = client.ask(client.query(komi=komi))
        assert error["field"] == "komi" and "multiple of 0.5" in error["error"]
    (error,) = client.ask(client.query(boardXSize=9, boardYSize=9))
    assert error["field"] == "boardXSize"


def test_over_real_pipes(tmp_path):
    model = make_model(tmp_path, spec="go:5")
    command = [sys.executable, "main.py", "engine", "--protocol", "analysis", "--model", str(model), "--readouts", "16",
               "--backend", "torch"]  # fmt: skip
    engine = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ)
    query = {"id": "a", "moves": [["B", "C3"]], "rules": "chinese", "boardXSize": 5, "boardYSize": 5, "komi": 7.5}
    lines = [b"\xff\xfe{", b"x" * 10_000_000, json.dumps(query).encode(), json.dumps({**query, "komi": 0}).encode()]
    try:
        engine.stdin.write(b"\n".join([*lines, b'{"id": "v", "action": "query_version"}', b""]))
        engine.stdin.flush()
        answers = [json.loads(engine.stdout.readline()) for _ in range(5)]
        assert [list(answer) for answer in answers[:2]] == [["error"], ["error"]] and "too long" in answers[1]["error"]
        later = {answer.get("field", answer.get("version", "found")): answer for answer in answers[2:]}
        assert set(later) == {"found", "komi", __version__} and later["found"]["rootInfo"]["visits"] == 16
        # The end of the input: what was asked is finished.
        query["analyzeTurns"] = [0, 1]
        engine.stdin.write(json.dumps({**query, "id": "b"}).encode() + b"\n")
        rest, _ = engine.communicate(timeout=300)  # on a busy machine
        assert sorted(json.loads(line)["turnNumber"] for line in rest.splitlines()) == [0, 1]
        assert engine.returncode == 0
    finally:
        engine.kill()
        engine.wait()


def test_an_idle_engine_answers_at_once_and_ends_with_its_input(client):
    read, write = os.pipe()
    commands, typed = os.fdopen(read), os.fdopen(write, "w")
    written = io.StringIO()
    running = threading.Thread(target=client.analysis.run, args=(CommandLines(commands, 1 << 20), written.write))
    running.start()
    typed.write(json.dumps(client.query(maxVisits=ROOM, id="long")) + "\n")
    typed.flush()
    time.sleep(0.3)
    typed.write('{"id": "t", "action": "terminate_all"}\n')
    typed.flush()
    time.sleep(0.5)
    assert running.is_alive()
    typed.close()
    running.join(20)
    assert not running.is_alive()
    commands.close()
    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    assert {first["id"], second["id"]} == {"t", "long"}
