"""Games of shards and matches as SGF, read back by another library and by our own reader."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline.errors import FileError, UsageError
from pipeline.games.records import record_names
from pipeline.games.sgf import read_sgf
from pipeline.games.specs import parse_game
from pipeline.main import app
from pipeline.phrases import listed
from pipeline.reports.show import game_records
from pipeline.run.matches import MatchGame, MatchHeader, PlayerInfo, match_lock, open_match
from pipeline.run.shards import NO_VALUE, POLICY_COUNTS, End, GameRecord
from tests.run.random_games import random_games, write_shard

sgf = pytest.importorskip("sgfmill.sgf")


def write(folder: Path, games: list[GameRecord], spec: str = "go:5") -> Path:
    return write_shard(folder / "selfplay", "000001-a", "w00", spec, games, {"generation": 3})


def small_game(**changes: object) -> GameRecord:
    """C3, D4, pass, pass on 5×5: black expects to win, white sees an even game and then a loss."""
    game = GameRecord(
        game_id=7,
        moves=np.array([12, 8, 25, 25], np.uint16),
        flags=np.array([POLICY_COUNTS, POLICY_COUNTS, 0, POLICY_COUNTS], np.uint8),
        root_values=np.array([0.9, 0.0, 0.8, -0.5], np.float32),
        visit_lengths=np.array([2, 1, 1, 0], np.uint16),
        visit_actions=np.array([8, 12, 8, 25], np.uint16),
        visit_counts=np.array([2, 6, 5, 4], np.uint32),
        result_first_player=-1.0,
    )
    return dataclasses.replace(game, **changes)


@pytest.mark.parametrize("spec", ["go:5", "go:9,komi=7", "gomoku:9", "othello:6"])
def test_every_game_of_a_shard_is_read_back(tmp_path: Path, spec: str) -> None:
    game = parse_game(spec)
    games = random_games(game, 5, seed=1, resign_share=0.5)
    path = write(tmp_path, games, spec)
    records = list(game_records(path))
    assert [name for name, _ in records] == [f"{path.stem}-{number:06d}.sgf" for number in range(5)]
    for record, (_, text) in zip(games, records, strict=True):
        moves = [action for _, action in read_sgf(text.encode(), game).moves]
        assert moves == record.moves.tolist()
        winner = "BW"[record.result_first_player < 0]
        result = read_sgf(text.encode(), game).result
        if record.end == End.RESIGNED:
            assert result == f"{winner}+R"
        elif record.result_first_player:
            assert result.startswith(f"{winner}+")
        else:
            assert result == "0"
        if game.sgf.game == 1:
            tree = sgf.Sgf_game.from_bytes(text.encode())
            assert len(tree.get_main_sequence()) == 1 + len(moves) and tree.get_size() == game.board_shape[0]


def test_winrates_and_comments_are_of_the_right_positions(tmp_path: Path) -> None:
    ((_, text),) = game_records(write(tmp_path, [small_game()]))
    root, *nodes = sgf.Sgf_game.from_bytes(text.encode()).get_main_sequence()
    # The root shows the position before black's first move, which black valued at 0.9, and so on.
    shown = [node.get_raw("SBKV").decode() if node.has_property("SBKV") else None for node in (root, *nodes)]
    assert shown == ["95.00", "50.00", "90.00", "75.00", None]
    assert [node.get("C") for node in nodes] == [
        "black's winrate 95.0%, value +0.900 to move\n8 visits: C3 6× (75%)  D4 2× (25%)",
        "black's winrate 50.0%, value +0.000 to move\n5 visits: D4 5× (100%)",
        "black's winrate 90.0%, value +0.800 to move\ncheap search, 4 visits: pass 4× (100%)",
        "black's winrate 75.0%, value -0.500 to move",
    ]
    assert root.get("PB") == root.get("PW") == "000001-a" and root.get("RO") == "0"
    assert root.get("EV") == "self-play of 000001-a, worker w00" and "id 0000000000000007" in root.get("C")


def test_games_against_others_name_both_and_show_no_values_where_there_are_none(tmp_path: Path) -> None:
    against = small_game(
        opponent="random", learner=0, flags=np.array([1, NO_VALUE, 1, NO_VALUE], np.uint8),
        root_values=np.array([0.9, 0, 0.8, 0], np.float32),
    )  # fmt: skip
    path = write(tmp_path, [small_game(), against])
    ((name, text),) = game_records(path, 1)
    assert name.endswith("-000001.sgf")
    root, *nodes = sgf.Sgf_game.from_bytes(text.encode()).get_main_sequence()
    assert (root.get("PB"), root.get("PW")) == ("000001-a", "random")
    assert [node.has_property("SBKV") for node in (root, *nodes)] == [True, False, True, False, False]
    assert nodes[1].get("C") == "by random"
    with pytest.raises(UsageError, match="games 0 to 1"):
        list(game_records(path, 2))


@pytest.fixture
def match(tmp_path: Path) -> Path:
    players = [
        PlayerInfo.model_validate({"name": name, "kind": "model", "spec": name, "readouts": 16, "weights": name})
        for name in ("000001-a", "000000-b")
    ]
    header = MatchHeader(
        players=(players[0], players[1]), game="go:5", games=2, threshold=None, settings={}, openings=[[12]]
    )
    game = MatchGame(
        index=0, challenger_player=0, opening_plies=1, moves=[12, 8, 25, 25],
        values_to_move=[None, -0.5, 0.25, None], result_first_player=-1, end="played_out",
    )  # fmt: skip
    folder = tmp_path / "evaluate" / "000001-a-vs-000000-b"
    with match_lock(folder):
        open_match(folder, header).add([game.model_copy(update={"index": 1, "challenger_player": 1}), game])
    return folder


def test_matches(match: Path) -> None:
    first, second = game_records(match)
    assert (first[0], second[0]) == ("000001-a-vs-000000-b-000000.sgf", "000001-a-vs-000000-b-000001.sgf")
    root, *nodes = sgf.Sgf_game.from_bytes(second[1].encode()).get_main_sequence()
    assert (root.get("PB"), root.get("PW")) == ("000000-b", "000001-a")
    shown = [node.get_raw("SBKV").decode() if node.has_property("SBKV") else None for node in (root, *nodes)]
    assert shown == [None, "75.00", "62.50", None, None]
    comments = [node.get("C") if node.has_property("C") else "" for node in nodes]
    assert comments[0] == "opening" and comments[1].endswith("value -0.500 to move") and comments[3] == ""
    later_by_name = match.with_name("heuristic-vs-random")
    later_by_name.mkdir()
    (later_by_name / "games.jsonl").write_bytes((match / "games.jsonl").read_bytes())
    assert list(game_records(match.parent, 1)) == [second]  # the folder's newest match
    with pytest.raises(UsageError, match="it has 2 games"):
        list(game_records(match, 7))


def test_what_has_no_records(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        game_records(tmp_path / "nothing")
    flags = listed([f"--{name}" for name in record_names()])  # --sgf, --mat, --kif, --csa and --usi, unless others are
    with pytest.raises(UsageError, match=f"{flags} are for game shards, matches and"):
        game_records(tmp_path)
    lines = write(tmp_path, [dataclasses.replace(small_game(), moves=np.array([0, 3, 1, 4], np.uint16))], "tictactoe")
    with pytest.raises(UsageError, match="isn't written in SGF"):
        list(game_records(lines))
    damaged = write(tmp_path / "b", [dataclasses.replace(small_game(), moves=np.array([12, 12, 25, 25], np.uint16))])
    with pytest.raises(FileError, match="damaged: game 0"):
        list(game_records(damaged))


def test_a_match_without_a_finished_game_gives_no_records(match: Path, tmp_path: Path) -> None:
    games = match / "games.jsonl"
    games.write_text(games.read_text().splitlines()[0] + "\n")
    written = CliRunner().invoke(app, ["show", str(match), "--sgf-output", str(tmp_path / "records")])
    assert written.exit_code == 0 and "0 records" in written.stdout and not (tmp_path / "records").exists()


def test_on_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path, [small_game(), small_game(game_id=8)])
    whole = CliRunner().invoke(app, ["show", str(path), "--sgf"])
    assert whole.exit_code == 0 and whole.stdout == "".join(text for _, text in game_records(path))
    assert len(re.findall(r"^\(;FF\[4\]", whole.stdout, re.MULTILINE)) == 2  # a collection
    written = CliRunner().invoke(app, ["show", str(path), "--sgf-output", str(tmp_path / "new" / "records")])
    assert written.exit_code == 0 and "2 records" in written.stdout
    found = {file.name: file.read_text() for file in (tmp_path / "new" / "records").iterdir()}
    assert found == dict(game_records(path))
    one = CliRunner().invoke(app, ["show", str(tmp_path / "selfplay"), "--sgf", "--game", "1"])
    assert one.stdout == list(game_records(path))[1][1]
    both = CliRunner().invoke(app, ["show", str(path), "--sgf", "--moves"])
    assert both.exit_code == 2 and "choose one" in both.stderr
