"""``report``: its numbers against hand calculations, its charts, and the page in a browser."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline import main
from pipeline.errors import FileError, UsageError
from pipeline.games.specs import parse_game
from pipeline.matches.statistics import Score
from pipeline.methods.named import method_named
from pipeline.methods.resignation import RESIGN_THRESHOLD
from pipeline.progress import SILENT
from pipeline.reports.config import ReportConfig
from pipeline.reports.reading import Reading, ScoredMatch
from pipeline.reports.report import facts as facts_module
from pipeline.reports.report.charts import HEIGHT, Chart, Point, ticks
from pipeline.reports.report.command import report
from pipeline.reports.report.document import page
from pipeline.reports.report.facts import Facts, collect, policy_entropies, time_spent, wrong_resignations
from pipeline.reports.report.replays import replays
from pipeline.reports.run_files import spread
from pipeline.run.layout import Run
from pipeline.run.matches import read_results, write_summary
from pipeline.run.models import ModelInfo, set_champion
from pipeline.run.shards import POLICY_COUNTS, End, GameRecord, read_meta, read_shard
from tests.browser import headless_chromium, needs_chromium
from tests.reports.test_show import make_match, make_model, match_game, player
from tests.reports.test_show_games import LEFT_COLUMN
from tests.run.random_games import random_games, write_shard

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
VOID = {"meta", "input", "link", "br", "hr", "img"}


def record(
    moves: list[int], visits: list[dict[int, int]], values: list[float], result: float, **changes: object
) -> GameRecord:
    """A game of which every search is a policy target. visits: of each search, by action."""
    return GameRecord(
        **{
            "game_id": 1,
            "moves": np.array(moves),
            "flags": np.full(len(moves), POLICY_COUNTS),
            "root_values": np.array(values, np.float32),
            "visit_lengths": np.array([len(one) for one in visits]),
            "visit_actions": np.array([action for one in visits for action in one]),
            "visit_counts": np.array([count for one in visits for count in one.values()]),
            "result_first_player": result,
            **changes,
        }  # type: ignore[arg-type]
    )


SPEED = {"seconds": 30.0, "samples_per_second": 1234.5}


def metrics(value: float) -> dict[str, dict[str, float]]:
    names = ("total", "policy", "value", "value_mse", "policy_accuracy", "value_sign_accuracy", "policy_entropy")
    return {part: dict.fromkeys(names, value) for part in ("train", "holdout_before", "holdout_after")}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models; games of the first two generations; two matches, of which the second isn't decided."""
    folder = tmp_path_factory.mktemp("run")
    models = folder / "saved_models"
    models.mkdir()
    names = [make_model(models, 0, [], {})]
    names.append(make_model(models, 1, [names[0]], {"metrics": metrics(0.75), **SPEED}))
    names.append(make_model(models, 2, [names[1]], {"metrics": metrics(0.5), **SPEED}))
    set_champion(models, models / names[0], {"reason": "init"})
    game = parse_game("tictactoe")
    for number in (0, 1):
        games = random_games(game, 20, seed=number, resign_share=0.3)
        where = {"generation": number, RESIGN_THRESHOLD: -0.9}
        write_shard(folder / "data/selfplay", names[number], "w00", "tictactoe", games, where)
    for challenger, champion in ((1, 0), (2, 1)):
        title = f"{names[challenger]}-vs-{names[champion]}"
        players = (player(names[challenger]), player(names[champion]))
        match = make_match(folder / "data/evaluate" / title, players, [[0], [0]])
        match.add([match_game(index, LEFT_COLUMN, 1) for index in (0, 1, 2)])
        if challenger == 1:
            write_summary(match.folder, {"promoted": True, "measured": 4})
    set_champion(models, models / names[1], {"match": f"data/evaluate/{names[1]}-vs-{names[0]}"})
    return folder


# Facts


def test_entropies_are_those_of_each_search(tmp_path: Path) -> None:
    visits = [{0: 1, 1: 1, 2: 2}, {3: 7}, {4: 3, 5: 1}]
    path = write_shard(tmp_path, "000000-m", "w00", "tictactoe", [record([0, 3, 4], visits, [0.0] * 3, 1.0)], {})
    expected = [1.5 * math.log(2), 0.0, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))]
    assert policy_entropies(read_shard(path)) == pytest.approx(expected)


def test_wrong_resignations_are_counted_by_each_shard_s_own_threshold(tmp_path: Path) -> None:
    moves, visits = [0, 3, 1, 4, 2], [{0: 1}] * 5
    sure = [-0.95, 0.5, -0.95, 0.5, 0.5]  # the first player would have resigned at its second move

    def shard(threshold: float, *results: float) -> Path:
        games = [record(moves, visits, sure, result, no_resign=True) for result in results]
        return write_shard(tmp_path, "000000-m", "w00", "tictactoe", games, {RESIGN_THRESHOLD: threshold})

    shards = [read_shard(shard(-0.9, 1.0, -1.0, 0.0)), read_shard(shard(-0.99, 1.0))]
    assert wrong_resignations(shards) == (2, 3)  # won and drawn; at −0.99 nobody would have resigned
    assert wrong_resignations([read_shard(shard(-1.0, 1.0))]) is None  # there nobody could


def test_games_of_a_generation(tmp_path: Path) -> None:
    (tmp_path / "saved_models").mkdir()
    first, second, draw = [0, 3, 1, 4, 2], [0, 3, 1, 4, 8, 5], [0, 1, 2, 4, 3, 5, 7, 6, 8]
    games = [
        record(moves, [{0: 1, 1: 1}] * len(moves), [0.0] * len(moves), result, end=end)
        for moves, result, end in (
            (first, 1.0, End.PLAYED_OUT),
            (second, -1.0, End.PLAYED_OUT),
            (draw, 0.0, End.PLAYED_OUT),
            ([0], 1.0, End.RESIGNED),
        )
    ]
    write_shard(tmp_path / "data/selfplay", "000000-m", "w00", "tictactoe", games, {"generation": 4})
    (found,) = collect(Run(tmp_path), SILENT, NOW).games
    assert (found.generation, found.games, found.positions) == (4, 4, 21)
    assert found.winners == {"first player wins": 0.5, "drawn": 0.25, "second player wins": 0.25}
    assert found.ends["resignation"] == 0.25
    assert found.ends["move limit"] == 0  # the draw fills the board, as the rules want it
    assert found.lengths[1] == 5.5 and found.policy_entropy == pytest.approx(math.log(2))


def test_methods_without_searches_have_neither_their_entropy_nor_their_surprise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """reinforce marks the steps that are learned from, by a surprise of 1."""
    (tmp_path / "saved_models").mkdir()
    games = [record([0, 3, 1, 4, 2], [{}] * 5, [0.0] * 5, 1.0, surprises=np.ones(5))]
    write_shard(tmp_path / "data/selfplay", "000000-m", "w00", "tictactoe", games, {})
    (found,) = collect(Run(tmp_path), SILENT, NOW).games
    assert (found.policy_entropy, found.surprise) == (0.0, 1.0)  # of alphazero: moves that were the only one
    monkeypatch.setattr(method_named("alphazero"), "steps_only", True)
    (found,) = collect(Run(tmp_path), SILENT, NOW).games
    assert (found.policy_entropy, found.surprise, found.winners["first player wins"]) == (None, None, 1.0)


def test_games_and_methods_that_are_not_known_here_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "saved_models").mkdir()
    games = [record([0, 3, 1, 4, 2], [{0: 1}] * 5, [0.0] * 5, 1.0)]
    write_shard(tmp_path / "data/selfplay", "000000-m", "w00", "strange:3", games, {}, method="stranger")
    facts = collect(Run(tmp_path), SILENT, NOW)
    (found,) = facts.games
    assert (found.games, found.policy_entropy, found.tracked.numbers) == (1, None, {})
    assert (found.winners["first player wins"], found.ends["move limit"]) == (1.0, 0.0)
    assert [text.split(";")[0] for text in facts.reading.warnings] == ["method: unknown name 'stranger'"]
    assert "Game length" in page(facts, replays(facts))


def test_games_at_the_move_limit(tmp_path: Path) -> None:
    (tmp_path / "saved_models").mkdir()
    moves, passed = [0, 1, 2, 3], [0, 25, 25]
    games = [
        record(one, [{0: 1, 1: 1}] * len(one), [0.0] * len(one), -1.0, end=end)
        for one, end in (
            (moves, End.MOVE_LIMIT), (moves, End.MOVE_LIMIT), (passed, End.PLAYED_OUT), (moves[:2], End.RESIGNED),
        )
    ]  # fmt: skip
    write_shard(tmp_path / "data/selfplay", "000000-m", "w00", "go:5,moves=4", games, {"generation": 1})
    (found,) = collect(Run(tmp_path), SILENT, NOW).games
    assert (found.ends["move limit"], found.ends["resignation"]) == (0.5, 0.25)
    shards = [read_meta(path) for path in (tmp_path / "data/selfplay").rglob("*.meta")]
    assert [meta.cut_short for meta in shards] == [2]


def test_of_many_shards_every_generation_is_in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "MOST_META", 4)
    (tmp_path / "saved_models").mkdir()
    for generation, num_shards in ((0, 1), (1, 12), (2, 1), (3, 2)):
        for _ in range(num_shards):
            games = [record([0, 3, 1, 4, 2], [{0: 1}] * 5, [0.0] * 5, 1.0)]
            where = {"generation": generation}
            write_shard(tmp_path / "data/selfplay", f"{generation:06d}-m", "w00", "tictactoe", games, where)
    found = collect(Run(tmp_path), SILENT, NOW)
    assert [(one.generation, one.games, one.positions) for one in found.games] == [
        (0, 1, 5), (1, 12, 60), (2, 1, 5), (3, 2, 10),
    ]  # fmt: skip
    assert found.share_read == found.share_opened == 6 / 16
    monkeypatch.setattr(facts_module, "MOST_META", 16)
    monkeypatch.setattr(facts_module, "MOST_SHARDS", 4)
    found = collect(Run(tmp_path), SILENT, NOW)
    assert (found.share_read, found.share_opened) == (1, 4 / 16)
    html = page(found, [])
    says = "a sample of the shards, 25.0 % of them."
    assert [part.count(says) for part in html.split("<figure")[1:]] == [
        int(heading != "Game length") for heading in re.findall(r"<h3>(.*?)</h3>", html)
    ]


def trained(number: int, minutes: float, seconds: float | None) -> ModelInfo:
    return ModelInfo(
        name=f"00000{number}-m", number=number, game="tictactoe", architecture={}, method="alphazero",
        created=(NOW + timedelta(minutes=minutes)).isoformat(), manifest={"seconds": seconds},
    )  # fmt: skip


def test_time_is_shared_out_between_the_stages() -> None:
    shards = [NOW + timedelta(minutes=at) for at in (1, 5, 9, 14, 16, 18, 18 + 75, 97)]
    spent = time_spent([trained(0, 0, None), trained(1, 12, 120), trained(2, 20, None)], [], shards)
    minutes = {number: {name: value / 60 for name, value in of_one.items()} for number, of_one in spent.items()}
    zero = dict.fromkeys(("evaluate", "selfplay", "gather", "train", "other", "pause"), 0.0)
    assert minutes[0] == pytest.approx({**zero, "selfplay": 9, "gather": 1, "train": 2})
    # Nobody knows when its match ended, nor how long the next training took.
    assert minutes[1] == pytest.approx({**zero, "selfplay": 6, "other": 2})
    assert minutes[2] == pytest.approx({**zero, "selfplay": 77 - 73, "pause": 73})


def test_every_minute_counts_once() -> None:
    """Two hours of self-play, three of training; then a two-hour break during self-play, and another one after it."""
    shards = [NOW + timedelta(minutes=at) for at in (30, 60, 90, 120, 310, 430, 440)]
    found = time_spent([trained(0, 0, None), trained(1, 305, 180 * 60), trained(2, 600, 60 * 60)], [], shards)
    minutes = {number: {name: value / 60 for name, value in one.items() if value} for number, one in found.items()}
    assert minutes[0] == pytest.approx({"selfplay": 120, "gather": 5, "train": 180})
    assert minutes[1] == pytest.approx({"selfplay": 15, "train": 60, "pause": 120 + 100})


def test_a_stop_before_a_match_is_a_pause_and_the_last_match_counts(tmp_path: Path) -> None:
    match = read_results(make_match(tmp_path / "match", (player("000001-m"), player("000000-m")), [[0]]).folder)
    header = match.header.model_copy(update={"created": f"{NOW + timedelta(minutes=312)}"})
    decided = {"decided": f"{NOW + timedelta(minutes=315)}"}
    matches = [ScoredMatch(replace(match, header=header, summary=decided), Score())]
    models = [trained(0, 0, None), trained(1, 12, 120), trained(2, 320, 60)]
    for of_run, more in ((models, {"gather": 4, "train": 1}), (models[:2], {})):
        found = {name: value / 60 for name, value in time_spent(of_run, matches, [])[1].items() if value}
        assert found == pytest.approx({"pause": 300, "evaluate": 3, **more})


def test_a_promotion_match_ends_when_it_is_first_decided(tmp_path: Path) -> None:
    match = make_match(tmp_path / "match", (player("000001-m"), player("000000-m")), [[0]])
    first, again = (
        ScoredMatch(replace(read_results(match.folder), summary={"decided": f"{NOW + timedelta(minutes=at)}"}), Score())
        for at in (13, 15)
    )
    models = [trained(0, 0, None), trained(1, 12, 120), trained(2, 20, None)]
    for matches in ([first, again], [again, first]):
        assert time_spent(models, matches, [])[1]["evaluate"] == 60


def test_matches_with_others_than_models_are_not_for_the_championship(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, symlinks=True)
    players = player("000002-m"), player("random", kind="random", readouts=None, weights="")
    match = make_match(folder / "data/evaluate/000002-m-vs-random", players, [[0]])
    match.add([match_game(index, LEFT_COLUMN, 1) for index in (0, 1)])
    found = collect(Run(folder), SILENT, NOW)
    assert [one.match.folder.name for one in found.matches] == ["000001-m-vs-000000-m", "000002-m-vs-000001-m"]
    assert found.rated is not None and "random" in {one.name for one in found.rated.ratings.players}


@pytest.mark.parametrize(("count", "most"), [(0, 3), (2, 3), (3, 3), (10, 3), (1001, 400)])
def test_a_sample_is_spread_evenly_and_ends_at_the_end(count: int, most: int) -> None:
    found = spread(list(range(count)), most)
    assert len(found) <= most and found[-1:] == list(range(count))[-1:]
    assert len(set(np.diff(found))) <= 1 and (count > most or len(found) == count)


# Charts


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 2800), (0.2, 0.21), (5, 5.0000001), (0, 7)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 6 and low - 1e-9 <= min(found) and max(found) <= high + 1e-9
    steps = np.diff(found)
    assert np.allclose(steps, steps[:1])
    for step in steps[:1]:
        assert round(step / 10.0 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


def test_points_lie_where_the_axis_says() -> None:
    """A line chart from 0 to 10: 5 is in the middle, and larger values are higher up."""
    points = [Point(0, 0.0), Point(1, 5.0), Point(2, 10.0)]
    html = Chart("t", "a", {"s": points}).html()
    line = re.findall(r'stroke-dasharray="" d="M([^"]+)"', html)[0]
    places = [tuple(map(float, pair.split())) for pair in line.split("L")]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11) and y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert 0 < y2 < y0 < HEIGHT


def test_columns_are_stacked() -> None:
    stacks = {"one": [Point(0, 0.25), Point(1, 1.0)], "two": [Point(0, 0.75), Point(1, 0.0)]}
    html = Chart("t", "a", stacks=stacks).html()
    pattern = r'column s\d" x="(\S+)" y="(\S+)" width="\S+" height="([\d.]+)"><title'
    boxes = [tuple(map(float, box)) for box in re.findall(pattern, html)]
    (x0, y0, h0), (_, _, whole), (x2, y2, h2) = boxes  # the empty part isn't drawn
    assert x0 == x2 and y2 + h2 == pytest.approx(y0, abs=0.11)
    assert h2 == pytest.approx(3 * h0, rel=0.02) and h0 + h2 == pytest.approx(whole, abs=0.2)


def test_a_chart_says_its_numbers_in_a_table_and_escapes_names() -> None:
    points = [Point(3, 1.5, error=0.25), Point(4, 2.0, low=1.0, high=3.0)]
    html = Chart("<b>", "&", {"<i>": points}, levels={"<u>": 1.0}).html()
    assert "1.5 ± 0.25" in html and "2 (1 to 3)" in html
    assert "<b>" not in html and "<i>" not in html and "<u>" not in html and "&lt;i&gt;" in html
    assert Chart("t", "a", {"s": []}).html() == ""


# The page


class Structure(HTMLParser):
    """Checks that elements are closed, and collects what could load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def made(run: Path, output: Path) -> str:
    report(ReportConfig(directory=run, output=output))
    return output.read_text(encoding="utf-8")


def test_the_page_of_a_run(run: Path, tmp_path: Path) -> None:
    html = made(run, tmp_path / "report.html")
    found = Structure(html)
    assert all(one.startswith("a href=#") for one in found.loads)
    for heading in ("Elo", "Matches against the champion", "Ratings", "Policy loss", "Value error", "How games end",
                    "Agreement of policy and search", "Policy entropy and surprise", "Game length", "Who wins",
                    "Where the time went", "Speed of training"):  # fmt: skip
        assert f"<h3>{heading}</h3>" in html, heading
    shown = json.loads(re.search(r'id="replays">(.*?)</script>', html)[1])  # type: ignore[index]
    assert len(shown) >= 6 and not {"Warnings"} & set(re.findall(r"<h2>(.*?)</h2>", html))
    assert "promoted" in html and "not decided" in html


def test_where_games_count_several_points_the_share_is_that_of_games(run: Path) -> None:
    found = collect(Run(run), SILENT, NOW).matches[0]
    html = page(Facts(Reading(Run(Path())), NOW, matches=[found]), [])
    assert "share of the points" in html and "points, 95 %" in html
    header = found.match.header.model_copy(update={"max_result": 3.0})
    found = replace(found, match=replace(found.match, header=header))
    html = page(Facts(Reading(Run(Path())), NOW, matches=[found]), [])
    assert "share of the games" in html and "games, 95 %" in html


def test_replays_put_every_stone_where_the_rules_do(run: Path) -> None:
    game = parse_game("tictactoe")
    for one in replays(collect(Run(run), SILENT, NOW)):
        state, board = game.initial(1), [0] * 9
        history = game.initial_history(state)
        for ply, here in enumerate(one["plies"]):
            if ply:
                assert here["by"] == (ply - 1) % 2
                state = game.play(state, np.array([game.parse_action(here["move"])], np.int32), history)
            for point, owner in here["changes"]:
                board[point] = owner
            assert board == state[0][:9].tolist()
            assert 0 <= here.get("winrate", 0) <= 1 and sum(share for _, share in here.get("policy", [])) <= 1.01


def test_a_settled_game_is_won_by_what_can_be_captured_too(tmp_path: Path) -> None:
    (tmp_path / "saved_models").mkdir()
    walls = [5 * row + column for row in range(5) for column in (1, 3)]  # all three columns beside them are eyes
    moves = [walls[0], 0, *[move for wall in walls[1:] for move in (wall, 25)][:-1]]
    game = record(moves, [{move: 1} for move in moves], [0.0] * len(moves), 1.0, end=End.SETTLED)
    write_shard(tmp_path / "data/selfplay", "000000-m", "w00", "go:5,komi=2.5", [game], {})
    (shown, *_) = replays(collect(Run(tmp_path), SILENT, NOW))
    assert shown["result"] == "Black wins by 22.5 points, nothing left to decide"


def test_a_page_of_nothing_and_of_damage(run: Path, tmp_path: Path) -> None:
    (tmp_path / "data/selfplay").mkdir(parents=True)
    assert "Nothing to report yet" in made(tmp_path, tmp_path / "report.html")
    hurt = tmp_path / "hurt"
    shutil.copytree(run, hurt, symlinks=True)
    shard = next(hurt.glob("data/selfplay/*/*/*.gz"))
    shard.write_bytes(shard.read_bytes()[:-9])
    (hurt / "saved_models/000002-m/model.json").write_text("{}")
    next(hurt.glob("data/evaluate/*/games.jsonl")).write_text("</script><script>alert(1)</script>\n")
    html = made(hurt, tmp_path / "hurt.html")
    Structure(html)
    assert html.count("<h2>Warnings</h2>") == 1 and shard.name in html and "model.json" in html
    assert "<script>alert" not in html


def test_names_from_files_stay_text(run: Path, tmp_path: Path) -> None:
    """Models' and workers' names can't be hostile; the name of a run's folder can."""
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(run, folder, symlinks=True)
    html = made(folder, tmp_path / "report.html")
    assert "<img" not in html and "&lt;img" in html


def test_bad_input(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no run in this folder"):
        report(ReportConfig(directory=tmp_path))
    with pytest.raises(FileError, match="no such folder"):
        report(ReportConfig(directory=tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="ends in"):
        report(ReportConfig(directory=run, output=run / "saved_models/promotions.jsonl"))
    with pytest.raises(FileError, match="make it first"):
        report(ReportConfig(directory=run, output=tmp_path / "no/report.html"))


def test_the_command(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    result = CliRunner().invoke(main.app, ["report", str(run), "-o", str(output)])
    assert result.exit_code == 0 and str(output) in result.stdout and output.stat().st_size > 20_000


@needs_chromium
def test_the_page_in_a_browser(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    made(run, tmp_path / "report.html")
    with headless_chromium("390,800") as browser:
        browser.get((tmp_path / "report.html").as_uri())

        def text(name: str) -> str:
            return browser.find_element(By.ID, name).text

        def click(name: str) -> None:
            browser.execute_script("document.getElementById(arguments[0]).click()", name)

        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")  # fits a phone
        assert text("move") == "The initial position"
        stones = "return document.querySelectorAll('#position .cross').length"
        assert browser.execute_script(stones) == 0
        click("forth")
        assert text("move").startswith("1: X ") and browser.execute_script(stones) == 1
        click("last")
        assert "wins" in text("move") and browser.execute_script("return document.getElementById('forth').disabled")
        click("first")
        browser.find_element(By.ID, "position").click()
        browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        assert text("move").startswith("1: X ")
        browser.execute_script("document.getElementById('last').focus()")
        click("last")  # which switches the button off
        browser.switch_to.active_element.send_keys(Keys.HOME)
        assert text("move") == "The initial position"
        browser.execute_script(
            "const c = document.getElementById('choose'); c.selectedIndex = 2; c.dispatchEvent(new Event('change'))"
        )
        assert text("move") == "The initial position" and "Self-play, first generation" in text("choose")
        assert browser.get_log("browser") == []


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is written where the tests run."""
    monkeypatch.chdir(tmp_path)
    yield
