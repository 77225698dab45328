"""``show`` for shards, sidecars and chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.reports.recorded_games import top_moves
from pipeline.reports.show_as import records_of
from pipeline.reports.show_chunks import show_chunk
from pipeline.reports.show_games import show_one, show_shard, show_sidecar
from pipeline.reports.tables import described, table
from pipeline.run.chunks import ORIGIN, ChunkHeader, write_chunk
from pipeline.run.layout import SetName, chunk_name, meta_path
from pipeline.run.shards import End, GameRecord
from tests.run.random_games import window_of, write_shard

# X takes the left column while O plays in the middle one: X wins after five plies.
LEFT_COLUMN = [0, 1, 3, 4, 6]


def record(moves: list[int], result: float = 1.0, end: End = End.PLAYED_OUT, game_id: int = 7) -> GameRecord:
    """A game in which every move was searched with 8 visits: 6 for the move played, 2 for point 8."""
    num_moves = len(moves)
    return GameRecord(
        game_id=game_id,
        moves=np.array(moves, np.uint16),
        flags=np.ones(num_moves, np.uint8),
        root_values=np.linspace(-0.5, 0.5, num_moves).astype(np.float32),
        visit_lengths=np.full(num_moves, 2, np.uint16),
        visit_actions=np.array([action for move in moves for action in (8, move)], np.uint16),
        visit_counts=np.array([2, 6] * num_moves, np.uint32),
        result_first_player=result,
        end=end,
    )


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    games = [record(LEFT_COLUMN), record([4, 0], result=-1.0, end=End.RESIGNED)]
    return write_shard(tmp_path / "selfplay", "000001-a", "w00", "tictactoe", games, {"generation": 3})


def text_of(texts: object) -> str:
    return "\n".join(texts)  # type: ignore[call-overload]


def test_shard_shows_header_games_and_last_positions(shard: Path) -> None:
    text = text_of(show_shard(shard))
    for wanted in ("tictactoe", "000001-a", "w00", "committed   yes", "positions   7"):
        assert wanted in text
    assert text.count("X wins") == 2 and "O wins" in text and "resigned" in text  # in the table, and above the game
    game = parse_game("tictactoe")
    assert f"{game.action_name(6)}" in text and "6× (75%)" in text and "2× (25%)" in text
    assert "over, ply 5" in text and "ply 4" in text and "ply 1\n" not in text


def test_game_asked_for_is_shown_move_by_move(shard: Path) -> None:
    lines = list(show_one(shard, 0, False))
    moves = [line for line in lines if "visits" in line]
    assert len(moves) == 5 and moves[0].split()[:2] == ["0", "X"] and moves[1].split()[:2] == ["1", "O"]
    assert "value -0.50" in moves[0] and "value +0.50" in moves[4]
    assert text_of(lines).count("ply ") == 1  # only the final board


def test_boards_of_every_move(shard: Path) -> None:
    assert text_of(show_one(shard, 0, True)).count("ply ") == 6


def test_resigned_game_shows_no_score(shard: Path) -> None:
    text = text_of(show_one(shard, 1, False))
    assert "O wins by resignation" in text and "score" not in text


def test_game_that_does_not_exist(shard: Path) -> None:
    with pytest.raises(UsageError, match="games 0 to 1"):
        list(show_one(shard, 2, False))


def test_uncommitted_shard_is_called_so(shard: Path) -> None:
    meta_path(shard).unlink()
    assert "no stage reads it" in text_of(show_shard(shard))


def test_an_unknown_game_is_said_with_the_file(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "selfplay", "000001-a", "w00", "chess", [record([0])], {"generation": 3})
    for shown in (show_shard(path), records_of(path)):
        with pytest.raises(UsageError, match=rf"{path.name}: game 'chess': unknown name"):
            list(shown)


def test_illegal_move_in_a_shard_names_file_and_game(tmp_path: Path) -> None:
    path = write_shard(tmp_path, "000001-a", "w00", "tictactoe", [record([0, 0])], {})
    with pytest.raises(FileError, match="game 0"):
        list(show_shard(path))


def test_damaged_shard_is_an_error(shard: Path) -> None:
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(FileError, match="checksum"):
        list(show_shard(shard))


def test_sidecar(shard: Path) -> None:
    text = text_of(show_sidecar(meta_path(shard)))
    assert "2 to 5, 3.5 on average" in text and "generation  3" in text and shard.name in text
    shard.unlink()
    assert "MISSING" in text_of(show_sidecar(meta_path(shard)))


def test_chunk(tmp_path: Path) -> None:
    game = parse_game("tictactoe")
    num_examples = 4
    columns = {
        name: np.zeros((num_examples, *shape), dtype)
        for name, (dtype, shape) in {**column_types(game), **ORIGIN}.items()
    }
    planes = np.zeros((game.num_planes, 3, 3), np.uint8)
    planes[game.plane_names.index("own stones"), 0, 2] = 1
    planes[game.plane_names.index("opponent's stones"), 1, 1] = 1
    columns["planes"][:] = np.packbits(planes.ravel())
    columns["policy"][:, 5] = 0.75
    columns["policy"][:, 0] = 0.25
    columns["policy_weight"][:] = 1
    columns["reply"][:2, 7] = 1
    columns["reply_weight"][:2] = 1
    columns["value"][:] = [1, 1, -1, 0]
    columns["ply"][:] = [2, 3, 4, 5]
    set_name = SetName(1, "1a2b3c4d")
    path = tmp_path / chunk_name(set_name, 0, 2)
    header = ChunkHeader("tictactoe", str(set_name), 0, 2, 5, game.num_planes, "alphazero", window_of(positions=1234))
    write_chunk(path, header, columns, ["000001-a/w00/x.gz"])

    text = text_of(show_chunk(path))
    assert "won 50.0%, drawn 25.0%, lost 25.0%" in text
    assert "2 to 5" in text and "1 game in 1 shard" in text and "1234" in text and "0 of 2" in text
    assert "    3 . . X\n    2 . O .\n    1 . . .\n      a b c" in text
    assert f"{game.action_name(5)} 75%  {game.action_name(0)} 25%" in text
    assert text.count(f"reply   {game.action_name(7)} 100%") == 2 and "50.0% of the examples" in text
    assert "000001-a/w00/x.gz, game 0, ply 2" in text and "score" not in text  # final_weight is 0
    assert "result  +1" in text and "td-lambda" not in text

    columns["value"][:] = [1, 0.25, -1, 0]  # not all of them are results
    mixed = tmp_path / chunk_name(set_name, 1, 2)
    write_chunk(mixed, header, columns, ["000001-a/w00/x.gz"])
    text = text_of(show_chunk(mixed))
    assert "+0.06 on average" in text and "td-lambda" in text and "value   +0.250" in text and "result" not in text


def test_top_moves_are_the_heaviest() -> None:
    game = parse_game("tictactoe")
    names = [game.action_name(action) for action in range(9)]
    text = top_moves(game.action_name, np.arange(9), np.array([0, 1, 2, 3, 4, 5, 6, 7, 0]), unit="×")
    assert text.startswith(f"{names[7]} 7× (25%)  {names[6]} 6×") and text.endswith("and 2 more")
    assert top_moves(game.action_name, np.arange(9), np.zeros(9)) == "none"


def test_tables_align() -> None:
    assert table([("a", "5"), ("bcd", "10")], ("name", "n")).splitlines() == ["name   n", "a      5", "bcd   10"]
    assert described({"a": 1, "long": "x"}).splitlines() == ["a     1", "long  x"]
