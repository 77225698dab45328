"""``show`` recognises files and folders; its text for models, matches and whole runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.evaluate.promotion import Rule, match_status
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.reports.reading import counted_games
from pipeline.reports.show import show
from pipeline.reports.show_as import csv_lines
from pipeline.run import layout
from pipeline.run.chunks import ORIGIN, ChunkHeader, write_chunk
from pipeline.run.layout import SetName, chunk_name, holdout_name, match_name
from pipeline.run.matches import (
    End,
    MatchFailure,
    MatchGame,
    MatchHeader,
    MatchWriter,
    PlayerInfo,
    match_lock,
    open_match,
    read_match,
    write_summary,
)
from pipeline.run.models import ModelInfo, read_info, set_champion, write_model
from pipeline.run.ratings import Member, Pool, RatedPlayer, Ratings, write_record
from tests.reports.test_show_games import LEFT_COLUMN, record
from tests.run.random_games import window_of, write_shard

GAME = parse_game("tictactoe")
METRICS = {"train": {"policy": 1.5, "value_mse": 0.75}, "holdout_after": {"policy": 1.625, "value_mse": 0.875}}


def text_of(path: Path, game: int | None = None, moves: bool = False) -> str:
    return "\n".join(show(path, game, moves))


def make_model(folder: Path, number: int, parents: list[str], manifest: dict[str, object]) -> str:
    name = f"{number:06d}-m"
    info = ModelInfo(
        name=name, number=number, game="tictactoe", method="alphazero",
        architecture={"blocks": 2, "channels": 32}, parents=parents, manifest=manifest,
    )  # fmt: skip
    shapes = {"stem.weight": (8, 3), "stem.bias": (8,)}
    write_model(folder / name, info, {key: np.zeros(shape, np.float32) for key, shape in shapes.items()})
    return name


def make_set(folder: Path, name: SetName) -> None:
    """A hold-out and two chunks of two empty boards each."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {key: np.zeros((2, *shape), dtype) for key, (dtype, shape) in {**column_types(GAME), **ORIGIN}.items()}
    for index, file in ((-1, holdout_name(name)), (0, chunk_name(name, 0, 2)), (1, chunk_name(name, 1, 2))):
        header = ChunkHeader("tictactoe", str(name), index, 2, 0, GAME.num_planes, "alphazero", window_of())
        write_chunk(folder / file, header, columns, ["000000-m/w00/x.gz"])


def match_game(index: int, moves: list[int], result: int, end: End = "played_out") -> MatchGame:
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=1, moves=moves,
        values_to_move=[None, *([0.25] * (len(moves) - 1))], result_first_player=result, end=end,
    )  # fmt: skip


def player(name: str, **changes: object) -> PlayerInfo:
    return PlayerInfo.model_validate(
        {"name": name, "kind": "model", "spec": f"saved_models/{name}", "readouts": 16, "weights": name} | changes
    )


def make_match(folder: Path, players: tuple[PlayerInfo, PlayerInfo], openings: list[list[int]]) -> MatchWriter:
    header = MatchHeader(
        players=players, game="tictactoe", games=2 * len(openings), threshold=None, settings={"leaves": 4},
        openings=openings,
    )  # fmt: skip
    return open_match(folder, header)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two models, the first plays, a match of four games of which three are played."""
    models = tmp_path / "saved_models"
    models.mkdir()
    first = make_model(models, 0, [], {})
    second = make_model(models, 1, [first], {"metrics": METRICS, "window": {"shards": list(range(10))}})
    set_champion(models, models / first, {"reason": "init"})
    games = [record(LEFT_COLUMN), record([4, 0])]
    write_shard(tmp_path / "data/selfplay", first, "w00", "tictactoe", games, {"generation": 0})
    write_shard(tmp_path / "data/selfplay", first, "w01", "tictactoe", games, {"generation": 0})
    for number, digest in ((1, "ffffffff"), (2, "00000000")):
        make_set(tmp_path / "data/training_data", SetName(number, digest))
    folder = tmp_path / "data/evaluate" / match_name(second, first)
    with match_lock(folder):
        match = make_match(folder, (player(second), player(first)), [[0], [4]])
        match.add([match_game(0, LEFT_COLUMN, 1), match_game(1, LEFT_COLUMN, 1)])
        match.add([match_game(2, [4, 0, 3, 5, 1, 7, 2, 6, 8], 0)])
    return tmp_path


def test_model(run: Path) -> None:
    text = text_of(run / "saved_models/000001-m")
    assert "b2c32, 32 numbers in 2 arrays" in text and "000000-m" in text
    assert "metrics holdout_after policy" in text and "1.625" in text
    assert "0, 1, 2, 3, 4, 5, … (10 in all)" in text


def test_champion_says_which_model_it_is(run: Path) -> None:
    assert "best_model → 000000-m" in text_of(run / "saved_models/best_model")


def test_match_in_progress(run: Path) -> None:
    folder = run / "data/evaluate/000001-m-vs-000000-m"
    text = text_of(folder)
    assert text.startswith("000001-m against 000000-m: 1 won, 1 drawn, 1 lost; not decided\n50.0 % of the points (")
    assert "3 of 4, not decided yet" in text and "leaves" not in text and "leaves  4" in text_of(folder / "games.jsonl")
    lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()}
    assert lines["moving first"].startswith("1 won, 1 drawn, 0 lost")
    assert lines["moving second"].startswith("0 won, 0 drawn, 1 lost")
    assert "repeated games" not in lines  # the same moves, but the other colours
    assert lines["challenger"] == "000001-m (model with 16 readouts a move, saved_models/000001-m)"
    assert lines["pairs by points"] == "1 whole pairs: 1 with 1"
    assert lines["ends"] == "3 played out"
    assert "failures" not in lines


def test_a_match_begins_with_its_result_and_fits_on_a_screen(tmp_path: Path) -> None:
    """The games that the decision counts are the only ones whose results are counted."""
    writer = make_match(tmp_path / "a-vs-b", (player("a"), player("b")), [[0]] * 50)
    writer.add([match_game(index, LEFT_COLUMN, 1) for index in range(94)])
    summary = {"measured": 90, "games": 100, "promoted": True, "points_needed": 40.0, "games_that_count": 100}
    write_summary(writer.folder, {**summary, "reason": "45 points of the 40 needed", **{f"n{i}": i for i in range(40)}})
    lines = text_of(writer.folder).splitlines()
    assert lines[0] == "a against b: 45 won, 0 drawn, 45 lost; promoted"
    assert lines[1].startswith("50.0 % of the points (40–60), needed 40.0 %")
    assert lines[2] == "45 points of the 40 needed" and "94 of 100, 90 of which count" in "\n".join(lines)
    assert len(lines) <= 24 and max(map(len, lines)) < 200
    whole = text_of(writer.folder / "summary.json")
    assert whole.startswith(lines[0]) and "n39" in whole and "leaves" in whole and len(whole.splitlines()) > 60


def test_a_model_says_how_strong_it_is(run: Path) -> None:
    """In words; nothing where nothing is known."""
    model = run / "saved_models/000001-m"
    sha256 = read_info(model).files[layout.WEIGHTS].sha256

    def met(folder: str, opponent: PlayerInfo, *results: int) -> None:
        us = player("000001-m@16", weights=sha256)
        writer = make_match(run / folder, (us, opponent), [[0]] * (len(results) // 2))
        writer.add([match_game(i, LEFT_COLUMN, won if i % 2 == 0 else -won) for i, won in enumerate(results)])

    assert "strength" not in text_of(model)  # the match in the run was played by other weights of that name
    met("data/evaluate/watch/000001-m@16-vs-random", player("random", kind="random", weights=""), 1, 1, 1, 1)
    met("data/evaluate/000001-m-vs-000000-x", player("000000-x"), 1, -1, 0, -1)
    (run / "data/evaluate/000001-m-vs-gone").mkdir()
    said = "scores 100 % against random (4 games), 38 % against 000000-x (4, 1 drawn); with 16 readouts a move"
    assert f"strength  {said}\n" in text_of(model)
    ours = RatedPlayer(name="000001-m@16", bradley_terry=87.4, bradley_terry_error=20.0, games=8)
    ratings = Ratings(game="tictactoe", anchor="random", anchor_elo=0, matches=2, games=8, players=[ours])
    write_record(run / "data/ratings.json", ratings)
    assert f"{said}; rated 87 ± 20 Elo, number 1 of 1 player\n" in text_of(model)


def test_an_exported_model_says_how_strong_it_was(run: Path) -> None:
    measured = {"opponent": "gnugo", "wins": 60, "draws": 0, "losses": 40, "readouts": 200}
    strength = [measured, "odd", {**measured, "wins": "many"}, {**measured, "wins": 0, "losses": 0}]
    made = make_model(run, 7, [], {"strength": strength})
    assert "strength  scores 60 % against gnugo (100 games); with 200 readouts a move\n" in text_of(run / made)


def test_match_with_failures_and_a_game_given_up(tmp_path: Path) -> None:
    folder = tmp_path / "000001-m-vs-fish-1a2b"
    engine = player("fish-1a2b", kind="gtp", spec="gtp:fish --level 1", readouts=None, weights="")
    writer = make_match(folder, (player("000001-m"), engine), [[0], [4]])
    fact = {"attempt": 1, "kind": "broken", "player": "fish-1a2b"}
    for index in (0, 0, 1, 1, 1, 1):
        writer.add_failure(MatchFailure(failed=index, problem="it\ndied " + "x" * 200, moves=[0, 500], **fact))
    writer.add_failure(MatchFailure(failed=2, attempt=2, kind="crash", player="", problem="a worker died", moves=[]))
    writer.add([match_game(1, [0, 1, 3], 1, "resigned"), match_game(3, [4, 0], -1, "resigned")])
    text = text_of(folder / "games.jsonl")
    assert "fish-1a2b (gtp, gtp:fish --level 1)" in text and "2 resigned" in text
    assert "7 attempts at games 0, 1, 2; not played to an end: 0, 2" in text
    assert "a worker died" in text and text.count("it died xxx") == 4 and "… and 2 before them" in text
    assert max(map(len, text.splitlines())) < 170
    assert "O wins by resignation" not in text and "X wins by resignation after 3 plies" in text
    assert "score of X" not in text
    one = text_of(folder, game=1)
    assert one.count("failed after 2 plies (broken)") == 4 and "a3 #500" in one and "X wins by resignation" in one
    assert "attempt 2: failed after 0 plies (crash): a worker died" in text_of(folder, game=2)
    with pytest.raises(UsageError, match="game 4"):
        text_of(folder, game=4)


def test_failed_games_are_named(tmp_path: Path) -> None:
    writer = make_match(tmp_path / "a-vs-b", (player("a"), player("b")), [[0]] * 30)
    fact = {"kind": "broken", "player": "b", "problem": "it died", "moves": []}
    for index in (4, 6, 7, 8):
        writer.add_failure(MatchFailure(failed=index, attempt=1, **fact))
    assert "4 attempts at games 4, 6, 7, 8; not played to an end: 4, 6, 7, 8\n" in text_of(writer.folder)
    writer.add([match_game(index, [0, 1], 1, "resigned") for index in (4, 6, 7, 8)])
    assert "4 attempts at games 4, 6, 7, 8; all were played after all\n" in text_of(writer.folder)
    for index in range(10, 60):
        writer.add_failure(MatchFailure(failed=index, attempt=1, **fact))
    assert "24, 25, … (54 in all); not" in text_of(writer.folder)


@pytest.mark.parametrize("exclude", [None, False, True])
def test_games_that_repeat_others(run: Path, exclude: bool | None) -> None:
    folder = run / "data/evaluate/a-vs-b"
    header = MatchHeader(
        players=(player("a"), player("b")), game="tictactoe", games=6, threshold=None,
        settings={} if exclude is None else {"exclude_duplicates": exclude}, openings=[[0], [0], [0]],
    )  # fmt: skip
    writer = open_match(folder, header)
    other = [0, 4, 1, 3, 5, 2, 6, 7, 8]
    # a wins with X twice, by the same moves; loses against X by them; then two games of their own
    games = [match_game(index, LEFT_COLUMN, 1) for index in (0, 1, 2)]
    writer.add([*games, match_game(3, other, 0), match_game(4, other, 0)])
    rule = Rule(6, exclude_duplicates=bool(exclude))
    assert counted_games(read_match(folder)) == list(match_status(rule, writer.games).counted.values())
    text = text_of(folder)
    lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()}
    row = next(line.split() for line in text_of(run).splitlines() if line.startswith("a "))
    assert lines["games"].startswith("5 of 6")
    repeated = "1 of 5 have the moves and colours of an earlier one; they "
    if exclude:
        assert lines["repeated games"] == repeated + (
            "are excluded: decision, summary and what follows are about the other 4"
        )
        assert text.startswith("a against b: 1 won, 2 drawn, 1 lost") and "5 of 6, not decided yet, 4 of which" in text
        assert lines["pairs by points"] == "1 whole pairs: 1 with 1"  # not pair 1, of which game 2 is excluded
        assert row[2:8] == ["5/6,", "4", "count", "1", "2", "1"] and "50.0%" in row
    else:
        assert lines["repeated games"] == repeated + "count like the others"
        assert text.startswith("a against b: 2 won, 2 drawn, 1 lost")
        assert lines["pairs by points"] == "2 whole pairs: 1 with 1, 1 with 1½"
        assert row[2:6] == ["5/6", "2", "2", "1"] and "60.0%" in row


def test_repeated_games_of_a_match_that_ended_early_count(tmp_path: Path) -> None:
    """Four of five games decided the match; this doesn't mean that any was excluded."""
    writer = make_match(tmp_path / "a-vs-b", (player("a"), player("b")), [[0], [0], [0]])
    writer.add([match_game(index, LEFT_COLUMN, 1) for index in range(5)])
    write_summary(writer.folder, {"measured": 4, "games": 6})
    text = text_of(writer.folder)
    lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()}
    repeated = "2 of 4 have the moves and colours of an earlier one; they count like the others"
    assert lines["repeated games"] == repeated
    assert lines["games"] == "5 of 6, 4 of which count: the others weren't needed for the decision"
    assert text.startswith("a against b: 2 won, 0 drawn, 2 lost")


def test_match_that_grows(tmp_path: Path) -> None:
    folder = tmp_path / "heuristic-vs-random"
    names = ("heuristic", "random")
    players = [player(name, kind=name, spec=name, readouts=None, weights="") for name in names]
    writer = make_match(folder, (players[0], players[1]), [])
    assert "0 of 0, not decided yet" in text_of(folder)
    writer.extend([[0], [4]])
    text = text_of(folder)
    assert "0 of 4 asked for so far" in text and "challenger       heuristic\n" in text
    writer.add([match_game(index, LEFT_COLUMN, 1) for index in (0, 1)])
    assert "2 of 4 asked for so far" in text_of(folder)


def test_match_game_move_by_move(run: Path) -> None:
    match = run / "data/evaluate/000001-m-vs-000000-m"
    lines = text_of(match, game=1).splitlines()
    assert lines[0] == "game 1: X 000000-m, O 000001-m; X wins after 5 plies"
    assert lines[1].endswith("opening") and lines[2].endswith("value +0.25")
    assert text_of(match, game=1, moves=True).count("ply ") == 6
    with pytest.raises(UsageError, match="game 3"):
        text_of(match, game=3)


def test_whole_run(run: Path) -> None:
    text = text_of(run)
    assert "champion   000000-m" in text and "games      4" in text and "positions  14" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("00000")}
    assert "000000-m * " in text
    assert rows["000001-m"] == ["000001-m", "000000-m", "3/4", "1", "1", "1", "50.0%", "not", "decided"]
    assert "1.625" in text and "0.875" in text and "1.5 " not in text
    assert "main.py show saved_models/best_model" in text


def test_commands_to_try_are_for_the_run_that_is_shown(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr("sys.argv", ["main.py"])
    said = text_of(Path(run.name)).partition("next:")[2].split("\n")[1:]
    assert said[0] == f"  cd {run.name}" and len(said) > 1
    assert all(line.startswith("  python ../main.py ") and run.name not in line for line in said[1:])
    monkeypatch.chdir(run)
    monkeypatch.setattr("sys.argv", ["../main.py"])
    assert text_of(Path()).partition("next:")[2].split("\n")[1:] == said[1:]


def test_whole_run_after_the_match(run: Path) -> None:
    folder = run / "data/evaluate/000001-m-vs-000000-m"
    write_summary(folder, {"passed": True, "promoted": True, "measured": 4, "win_rate": 0.625})
    assert "promoted" in text_of(run)
    text = text_of(folder / "summary.json")
    assert "0.625" in text and "not decided" not in text


def test_whole_run_with_matches_of_another_version(run: Path) -> None:
    old = run / "data/evaluate/000001-m-vs-random"
    old.mkdir()
    (old / "games.jsonl").write_text('{"format":"mugo-match","version":2}\n')
    writer = make_match(run / "data/tournament/heuristic-vs-random", (player("heuristic"), player("random")), [[0]])
    assert "ratings" not in text_of(run)
    writer.add([match_game(0, LEFT_COLUMN, 1)])
    (run / "data/ratings.json").write_text("{}")
    text = text_of(run)
    assert "data/tournament: 1 match, 1 game" in text and "python main.py ratings " in text
    assert f"skipped: {old / 'games.jsonl'}: version 2; this program reads version 1" in text and "3/4" in text


def test_whole_run_lists_matches_for_promotion_conditions(run: Path) -> None:
    folder = run / "data/evaluate/required/000001-m-vs-random"
    writer = make_match(folder, (player("000001-m"), player("random")), [[0]])
    writer.add([match_game(0, LEFT_COLUMN, 1)])
    write_summary(folder, {"passed": True, "promoted": False, "measured": 4})
    (run / "data/evaluate/required/a-vs-b").mkdir()
    (run / "data/evaluate/required/a-vs-b/games.jsonl").touch()
    rows = [line.split() for line in text_of(run).splitlines() if line.startswith("000001-m ")]
    assert ["000001-m", "random", "1/2", "1", "0", "0", "100.0%", "passed"] in rows
    assert "skipped: " + str(run / "data/evaluate/required/a-vs-b/games.jsonl") in text_of(run)


def test_a_damaged_model_hides_no_other(run: Path) -> None:
    models = run / "saved_models"
    damaged = sorted(models.glob("0*"))[-1] / "model.json"
    damaged.write_text("{")
    for folder in (models, run):
        text = "\n".join(show(folder))
        assert f"skipped: {damaged}" in text and "000000" in text


def test_a_run_whose_champion_was_lost_says_what_restores_it(run: Path) -> None:
    (run / "saved_models/best_model").unlink()
    text = "\n".join(show(run))
    assert "skipped: " in text and "verify --repair" in text and "init  " not in text


def test_run_with_a_damaged_sidecar_names_it(run: Path) -> None:
    meta = next((run / "data/selfplay").rglob("*.meta"))
    meta.write_text("{")
    text = text_of(run)
    assert "skipped:" in text and meta.name in text and "games      2" in text


def test_csv_of_a_folder_with_a_damaged_sidecar_is_refused(run: Path) -> None:
    folder = run / "data/selfplay"
    assert len(list(csv_lines(folder))) == 1 + 14
    next(folder.rglob("*.meta")).write_text("{")
    with pytest.raises(FileError, match="damaged"):
        list(csv_lines(folder))


def test_run_with_damaged_matches_names_every_one(run: Path) -> None:
    first_lines = {"a-vs-b": "{}\n", "a-vs-c": "{}", "a-vs-d": "", "a-vs-e": "[]\n", "a-vs-f": '{"format": "x"}\n'}
    folders = [run / "data/evaluate", run / "data/tournament"]
    for folder in folders:
        for name, line in first_lines.items():
            (folder / name).mkdir(parents=True)
            (folder / name / "games.jsonl").write_text(line)
        (folder / "a-vs-g").mkdir()
        (folder / "a-vs-g/summary.json").write_text("{}")  # without its games
        (folder / "a-vs-h").mkdir()  # killed before the match had its first line
    skipped = [line for line in text_of(run).splitlines() if line.startswith("skipped: ")]
    names = [*first_lines, "a-vs-g"]
    assert len(skipped) == 2 * len(names)
    for file in (folder / name / "games.jsonl" for folder in folders for name in names):
        assert any(line.startswith(f"skipped: {file}: ") for line in skipped)
    assert "3/4" in text_of(run)


def test_where_games_count_several_points_the_share_is_that_of_games(run: Path) -> None:
    games = run / "data/evaluate/000001-m-vs-000000-m/games.jsonl"
    first, rest = games.read_text().split("\n", 1)
    games.write_text(json.dumps({**json.loads(first), "max_result": 3.0}) + "\n" + rest)
    header = next(line for line in text_of(run).splitlines() if line.startswith("challenger"))
    assert "share of games" in header and "points" not in header


def test_empty_run_says_how_to_begin(tmp_path: Path) -> None:
    (tmp_path / "saved_models").mkdir()
    assert "python main.py init" in text_of(tmp_path)


@pytest.mark.parametrize(
    ("folder", "wanted"),
    [
        ("saved_models", "* the champion"),
        ("data/selfplay", "positions   7"),
        ("data/selfplay/000000-m", "positions   7"),
        ("data/selfplay/000000-m/w01", "w01"),
        ("data/training_data", "000002-00000000-0001-of-0002.h5"),
        ("data/evaluate", "000001-m-vs-000000-m"),
    ],
)
def test_folder_stands_for_its_newest(run: Path, folder: str, wanted: str) -> None:
    (run / "data/evaluate/000009-m-vs-000000-m").mkdir()  # killed before the match had its first line
    assert wanted in text_of(run / folder)


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("data/evaluate/000001-m-vs-000000-m/games.jsonl", "3 of 4"),
        ("data/evaluate/000001-m-vs-000000-m/summary.json", "3 of 4"),
        ("data/evaluate/000001-m-vs-000000-m/sgf/000001.sgf", "game 1: X 000000-m, O 000001-m"),
        ("saved_models/000001-m/model.json", "b2c32"),
        ("saved_models/promotions.jsonl", "000000-m"),
    ],
)
def test_file_of_a_folder_stands_for_the_folder(run: Path, file: str, wanted: str) -> None:
    match = run / "data/evaluate/000001-m-vs-000000-m"
    write_summary(match, {"passed": False, "measured": 4})
    (match / "sgf").mkdir()
    (match / "sgf/000001.sgf").touch()
    assert wanted in text_of(run / file)


def test_promotions(run: Path) -> None:
    models = run / "saved_models"
    set_champion(models, models / "000001-m", {"reason": "promoted", "share": 0.75, "games": {"won": 3}})
    lines = text_of(models / "promotions.jsonl").splitlines()
    assert lines[0].split() == ["time", "champion", "after", "reason"]
    assert lines[1].split()[1:] == ["000000-m", "-", "init"]
    assert lines[2].split()[1:] == ["000001-m", "000000-m", "promoted"]
    assert "0.75" in lines[-2] and lines[-1].split() == ["games", "won", "3"]
    # A kill before the last line was appended: it is shown, and whoever promotes next appends it.
    journal, intent = models / "promotions.jsonl", models / layout.INTENT
    *others, last = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(others))
    intent.write_text(last)
    assert text_of(journal).splitlines() == lines
    assert intent.read_text() == last and journal.read_text() == "".join(others)


def test_ratings_and_pool(tmp_path: Path) -> None:
    rated = RatedPlayer(name="000001-m@16", games=10, wins=6, draws=1, losses=3, bradley_terry=123.4, elo=1510)
    other = RatedPlayer(name="random", kind="random", games=10)
    ratings = Ratings(game="tictactoe", anchor="random", anchor_elo=0, matches=1, games=10, players=[rated, other])
    write_record(tmp_path / "ratings.json", ratings)
    text = text_of(tmp_path / "ratings.json")
    assert "random = 0 Elo" in text and "1 match, 10 games" in text and "group" not in text
    row = next(line.split() for line in text.splitlines() if line.startswith("000001-m@16"))
    assert row == ["000001-m@16", "model", "10", "6", "1", "3", "123", "0", "1510", "25.0", "8.3"]
    apart = ratings.model_copy(update={"players": [rated, other.model_copy(update={"group": 1})]})
    write_record(tmp_path / "ratings.json", apart)
    assert "compare within a group only" in text_of(tmp_path / "ratings.json")
    write_record(tmp_path / "pool.json", Pool(members=(Member(name="fish", spec="gtp:fish --level 1"),)))
    text = text_of(tmp_path / "pool.json")
    assert "1 of at most 5" in text and "gtp:fish --level 1" in text
    write_record(tmp_path / "pool.json", Pool())
    assert "0 of at most 5" in text_of(tmp_path / "pool.json")
    with pytest.raises(UsageError, match="--game"):
        text_of(tmp_path / "pool.json", game=1)


@pytest.mark.parametrize("content", ["", "{", '{"format": "mugo-rat', "{}", "[]", '{"format": ["x"]}', "\x00"])
def test_damaged_ratings_and_pool_come_with_their_remedy(tmp_path: Path, content: str) -> None:
    for name, remedy in (
        ("ratings.json", "`python main.py ratings` makes it again"),
        ("pool.json", "`python main.py pool"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(FileError) as caught:
            text_of(tmp_path / name)
        assert f"{tmp_path / name}: damaged: " in str(caught.value) and remedy in str(caught.value)
        assert "game shard" not in str(caught.value)


def test_json_of_others(tmp_path: Path) -> None:
    for text, problem in (('{"format": "x"}', "format 'x'"), ("{", "not readable as JSON"), ("{}", "format None")):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(FileError, match=problem):
            text_of(tmp_path / "summary.json")


def test_what_is_not_ours_lists_what_is(tmp_path: Path) -> None:
    strange = tmp_path / "strange.txt"
    strange.write_text("hello")
    for path in (tmp_path, strange, tmp_path / "missing.gz"):
        with pytest.raises(FileError) as caught:
            text_of(path)
        assert str(path) in str(caught.value) and "a game shard (.gz)" in str(caught.value)


def test_options_that_do_not_apply(run: Path) -> None:
    for path in (run, run / "saved_models", run / "saved_models/000000-m"):
        with pytest.raises(UsageError, match="--game"):
            text_of(path, game=0)


def test_a_lost_or_replaced_champion_is_named_as_by_other_commands(tmp_path: Path) -> None:
    models = tmp_path / "saved_models"
    name = make_model(models, 0, [], {})
    set_champion(models, models / name, {})
    link = models / "best_model"
    assert f"best_model → {name}" in text_of(link)
    link.unlink()

    def check(found: str) -> None:
        for path in (link, link / "model.json"):
            with pytest.raises(FileError, match=rf"{found}.*verify .*--repair` points it to {name}"):
                show(path)

    check("no such link")
    link.write_text("")
    check("it is a file")
    link.unlink()
    shutil.copytree(models / name, link)
    check("it is a directory")
    alone = tmp_path / "best_model"
    shutil.copytree(models / name, alone)
    assert name in text_of(alone), "a copy of a model outside its run"
