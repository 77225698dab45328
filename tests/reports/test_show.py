"""``show`` finds out what a file or folder is; models, matches and whole runs as a person reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.games.registry import parse_game
from pipeline.records.chunks import ChunkHeader, column_types, write_chunk
from pipeline.records.layout import SetName, chunk_name, holdout_name, match_name
from pipeline.records.matches import MatchGame, MatchHeader, match_lock, open_match, write_summary
from pipeline.records.models import ModelInfo, set_champion, write_model
from pipeline.records.shards import write_shard
from pipeline.reports.show import show
from tests.reports.test_show_records import LEFT_COLUMN, record

GAME = parse_game("tictactoe")
METRICS = {"train": {"policy": 1.5, "value": 0.75}, "holdout_after": {"policy": 1.625, "value": 0.875}}


def text_of(path: Path, game: int | None = None, moves: bool = False) -> str:
    return "\n".join(show(path, game, moves))


def make_model(folder: Path, number: int, parents: list[str], manifest: dict[str, object]) -> str:
    name = f"{number:06d}-m"
    info = ModelInfo(
        name=name, number=number, game="tictactoe", architecture={"blocks": 2, "channels": 32}, parents=parents,
        manifest=manifest,
    )  # fmt: skip
    shapes = {"stem.weight": (8, 3), "stem.bias": (8,)}
    write_model(folder / name, info, {key: np.zeros(shape, np.float32) for key, shape in shapes.items()})
    return name


def make_set(folder: Path, name: SetName) -> None:
    """A hold-out and two chunks of two empty boards each."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {key: np.zeros((2, *shape), dtype) for key, (dtype, shape) in column_types(GAME).items()}
    for index, file in ((-1, holdout_name(name)), (0, chunk_name(name, 0, 2)), (1, chunk_name(name, 1, 2))):
        header = ChunkHeader("tictactoe", str(name), index, 2, 0, GAME.num_planes)
        write_chunk(folder / file, GAME, header, columns, ["000000-m/w00/x.gz"])


def match_game(index: int, moves: list[int], result: int) -> MatchGame:
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=1, moves=moves,
        values_to_move=[None, *([0.25] * (len(moves) - 1))], result_first_player=result, end="played_out",
    )  # fmt: skip


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
    header = MatchHeader(
        challenger=second, champion=first, challenger_weights="a", champion_weights="b", game="tictactoe", games=4,
        threshold=None, settings={"readouts": 16}, openings=[[0], [4]],
    )  # fmt: skip
    with match_lock(folder):
        match = open_match(folder, header)
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
    text = text_of(run / "data/evaluate/000001-m-vs-000000-m")
    assert "3 of 4, not decided yet" in text and "readouts" in text
    lines = {line[:19].strip(): line[19:].strip() for line in text.splitlines()}
    assert lines["challenger in all"].startswith("1 won, 1 drawn, 1 lost")
    assert lines["moving first"].startswith("1 won, 1 drawn, 0 lost")
    assert lines["moving second"].startswith("0 won, 0 drawn, 1 lost")
    assert "2 of 3" in lines["distinct games"]


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
    assert rows["000001-m"] == ["000001-m", "000000-m", "3/4", "1", "1", "1", "50.0%", "not", "finished"]
    assert "1.625" in text and "0.875" in text and "1.5 " not in text
    assert f"show {run / 'saved_models/best_model'}" in text


def test_whole_run_after_the_match(run: Path) -> None:
    folder = run / "data/evaluate/000001-m-vs-000000-m"
    write_summary(folder, {"passed": True, "promoted": True, "win_rate": 0.625})
    assert "promoted" in text_of(run)
    text = text_of(folder)
    assert "0.625" in text and "not decided" not in text


def test_run_with_a_damaged_sidecar_names_it(run: Path) -> None:
    meta = next((run / "data/selfplay").rglob("*.meta"))
    meta.write_text("{")
    text = text_of(run)
    assert "skipped:" in text and meta.name in text and "games      2" in text


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
    assert wanted in text_of(run / folder)


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
