from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.base import Game
from pipeline.games.registry import parse_game
from pipeline.learning.examples import Wanted, make_examples
from pipeline.records.chunks import column_types
from pipeline.records.shards import POLICY_COUNTS, End, GameRecord, Shard, read_shard, write_shard
from tests.records.random_games import random_games

DRAWN = [0, 1, 2, 4, 3, 5, 7, 6, 8]  # tic-tac-toe without a line
FIRST_WINS = [0, 3, 1, 4, 2]


def record(moves: Sequence[int], result: float, **more: Any) -> GameRecord:
    """Every move is a policy target that was visited alone, thrice."""
    length = len(moves)
    game = GameRecord(
        game_id=1,
        moves=np.array(moves),
        flags=np.full(length, POLICY_COUNTS),
        root_values=np.zeros(length),
        visit_lengths=np.ones(length, np.int64),
        visit_actions=np.array(moves),
        visit_counts=np.full(length, 3),
        result_first_player=result,
    )
    return replace(game, **more)


def shard_of(tmp_path: Path, spec: str, *games: GameRecord) -> Shard:
    return read_shard(write_shard(tmp_path, "000001-a", "w00", spec, games, {}))


def everything(shards: Sequence[Shard]) -> Wanted:
    rows = [
        (number, index, ply)
        for number, shard in enumerate(shards)
        for index in range(shard.num_games)
        for ply in range(shard.lengths[index])
    ]
    return Wanted(*np.array(rows, np.int64).T)


def examples_of(tmp_path: Path, spec: str, *games: GameRecord) -> dict[str, np.ndarray]:
    shard = shard_of(tmp_path, spec, *games)
    return make_examples(parse_game(spec), [shard], everything([shard]))


def unpacked(game: Game, planes: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(planes, axis=1, count=game.num_planes * game.num_points)
    return bits.reshape(len(planes), game.num_planes, *game.board_shape)


# Viewpoints


def test_values_are_seen_by_the_mover(tmp_path: Path) -> None:
    won = examples_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0))
    assert won["value"].tolist() == [1, -1, 1, -1, 1]
    drawn = examples_of(tmp_path, "tictactoe", record(DRAWN, 0.0))
    assert drawn["value"].tolist() == [0] * 9
    assert drawn["final_weight"].tolist() == [1] * 9


def test_a_win_of_the_second_player(tmp_path: Path) -> None:
    lost = examples_of(tmp_path, "tictactoe", record([0, 3, 1, 4, 8, 5], -1.0))
    assert lost["value"].tolist() == [-1, 1, -1, 1, -1, 1]


def test_resigned_games_keep_their_result_and_have_no_final_position(tmp_path: Path) -> None:
    columns = examples_of(tmp_path, "tictactoe", record([0, 3, 1], -1.0, end=End.RESIGNED))
    assert columns["value"].tolist() == [-1, 1, -1]
    assert columns["final_weight"].tolist() == [0, 0, 0]
    assert not columns["ownership"].any() and not columns["score"].any()


GO_MOVES = ["C3", "A1", "C2", "pass", "C1", "pass", "C4", "pass", "C5", "D4", "pass", "pass"]
# 5  . . X . .      Black's wall on C; white's stone on D4 makes the right side nobody's, the one on A1 the left.
# 4  . . X O .      Black owns its 5 stones, white its 2, nobody the rest: black is 3 ahead, 4.5 behind with komi 7.5.
GO_OWNERSHIP = """
. . X . .
. . X O .
. . X . .
. . X . .
O . X . .
"""


def test_ownership_and_score_of_a_known_go_game(tmp_path: Path) -> None:
    game = parse_game("go:5")
    moves = [game.parse_action(name) for name in GO_MOVES]
    columns = examples_of(tmp_path, "go:5", record(moves, -1.0))
    black = np.array([{".": 0, "X": 1, "O": -1}[mark] for mark in GO_OWNERSHIP.split()])
    for ply in range(len(moves)):
        sign = 1 if ply % 2 == 0 else -1
        np.testing.assert_array_equal(columns["ownership"][ply], sign * black)
        assert columns["score"][ply] == sign * (5 - 2 - 7.5)
        assert columns["value"][ply] == -sign
    assert columns["final_weight"].all()


def test_territory_counts_for_its_owner(tmp_path: Path) -> None:
    game = parse_game("go:5,komi=0.5")
    moves = [
        game.parse_action(name)
        for name in ("B1", "D1", "B2", "D2", "B3", "D3", "B4", "D4", "B5", "D5", "C3", "pass", "pass")
    ]
    columns = examples_of(tmp_path, game.spec, record(moves, 1.0))
    ownership = columns["ownership"][1].reshape(5, 5)  # white to move: her own is +1
    assert (ownership[:, :2] == -1).all() and (ownership[:, 3:] == 1).all()
    assert ownership[:, 2].tolist() == [0, 0, -1, 0, 0]
    assert columns["score"][:2].tolist() == [0.5, -0.5]


# What an example holds


@pytest.mark.parametrize("spec", ["tictactoe", "connect4", "go:5"])
def test_examples_are_what_a_plain_replay_gives(tmp_path: Path, spec: str) -> None:
    game = parse_game(spec)
    records = random_games(game, 12, seed=5, resign_share=0.4)
    assert any(record.end == End.RESIGNED for record in records) and any(
        record.end == End.PLAYED_OUT for record in records
    )
    shard = shard_of(tmp_path, spec, *records)
    wanted = everything([shard])
    columns = make_examples(game, [shard], wanted)
    assert {name: (column.dtype.str, column.shape[1:]) for name, column in columns.items()} == column_types(game)
    planes = unpacked(game, columns["planes"])
    row = 0
    for index, game_record in enumerate(records):
        states, history = game.initial(1), game.initial_history(game.initial(1))
        visits = 0
        first_row = row
        movers = []
        for ply, action in enumerate(game_record.moves):
            legal = game.legal(states, history)
            np.testing.assert_array_equal(planes[row], game.observe(states, legal)[0])
            policy = np.zeros(game.num_actions)
            for edge in range(visits, visits + int(game_record.visit_lengths[ply])):
                policy[game_record.visit_actions[edge]] = game_record.visit_counts[edge]
            visits += int(game_record.visit_lengths[ply])
            np.testing.assert_allclose(columns["policy"][row], policy / policy.sum(), atol=5e-4)
            assert not columns["policy"][row][~legal[0]].any()
            movers.append(int(game.to_move(states)[0]))
            assert (columns["shard"][row], columns["game"][row], columns["ply"][row]) == (0, index, ply)
            states = game.play(states, np.array([action], np.int32), history)
            history.append(np.arange(1), game.keys(states))
            row += 1
        for at, mover in enumerate(movers, first_row):
            sign = 1 - 2 * mover
            assert columns["value"][at] == sign * game_record.result_first_player
            if game_record.end == End.PLAYED_OUT:
                np.testing.assert_array_equal(columns["ownership"][at], sign * game.ownership(states)[0])
                assert columns["score"][at] == sign * game.scores(states)[0]
            else:
                assert not columns["ownership"][at].any() and columns["final_weight"][at] == 0
    assert row == len(wanted) and (columns["policy_weight"] == 1).all()


def test_positions_come_in_the_order_they_are_wanted_from_any_shards(tmp_path: Path) -> None:
    game = parse_game("go:5")
    shards = [shard_of(tmp_path, "go:5", *random_games(game, count, seed=count)) for count in (1, 3, 1, 2)]
    all_of_them = everything(shards)
    whole = make_examples(game, shards, all_of_them)
    chosen = np.random.default_rng(1).permutation(len(all_of_them))[:50]
    some = make_examples(
        game, shards, Wanted(all_of_them.shard[chosen], all_of_them.game[chosen], all_of_them.ply[chosen])
    )
    for name, column in some.items():
        np.testing.assert_array_equal(column, whole[name][chosen], err_msg=name)
    # and a game's examples don't depend on the games beside it
    alone = make_examples(game, shards[1:2], everything(shards[1:2]))
    beside = all_of_them.shard == 1
    for name in ("planes", "policy", "value", "ownership", "score"):
        np.testing.assert_array_equal(alone[name], whole[name][beside], err_msg=name)


def test_bit_0_of_the_flags_is_the_weight_of_the_policy(tmp_path: Path) -> None:
    flags = np.array([1, 0, 3, 2, 255])
    columns = examples_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0, flags=flags))
    assert columns["policy_weight"].tolist() == [1, 0, 1, 0, 1]
    np.testing.assert_allclose(columns["policy"].sum(axis=1), 1)


def test_moves_that_were_not_searched_have_no_policy(tmp_path: Path) -> None:
    none = np.zeros(0, np.int64)
    unsearched = record(
        FIRST_WINS, 1.0, flags=np.zeros(5), visit_lengths=np.zeros(5), visit_actions=none, visit_counts=none
    )
    columns = examples_of(tmp_path, "tictactoe", unsearched)
    assert not columns["policy"].any() and not columns["policy_weight"].any()


# Damage


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (record([0, 3, 0, 4, 2], 1.0), "game 1, ply 2: illegal move"),
        (record([*FIRST_WINS, 8], 1.0), "game 1, ply 5: illegal move"),
        (record([0, 3, 1, 9, 2], 1.0), "game 1, ply 3: illegal move"),
        (record(FIRST_WINS[:-1], 1.0), "game 1, ply 4: the game is not over"),
        (record(FIRST_WINS, -1.0), "game 1: recorded result -1 .first player.; the final position gives +1"),
        (record(FIRST_WINS, 0.0), "recorded result"),
        (record(DRAWN, 1.0), "recorded result"),
        (record(FIRST_WINS, 1.0, end=End.RESIGNED), "game 1, ply 5: the game is over"),
        (record(FIRST_WINS[:-1], 0.0, end=End.RESIGNED), "resigned with recorded result 0"),
        (
            record(FIRST_WINS, 1.0, visit_actions=np.array([0, 0, 1, 4, 2])),
            "game 1, ply 1: visits of an illegal action",
        ),
        (
            record(FIRST_WINS, 1.0, visit_actions=np.array([0, 3, 1, 9, 2])),
            "ply 3: visits of action 9; tictactoe has 9",
        ),
        (record(FIRST_WINS, 1.0, visit_counts=np.array([3, 3, 3, 3, 0])), "ply 4: a policy target without visits"),
        (
            record(
                FIRST_WINS,
                1.0,
                visit_lengths=np.array([2, 1, 1, 1, 1]),
                visit_actions=np.array([0, 0, 3, 1, 4, 2]),
                visit_counts=np.array([3, 5, 3, 3, 3, 3]),
            ),
            "ply 0: visits of one action stand twice",
        ),
    ],
)
def test_poison_is_refused_and_named(tmp_path: Path, broken: GameRecord, problem: str) -> None:
    good = shard_of(tmp_path, "tictactoe", record(DRAWN, 0.0))
    bad = shard_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0), broken, record(DRAWN, 0.0))
    with pytest.raises(FileError, match=problem.replace("+", r"\+")) as caught:
        make_examples(parse_game("tictactoe"), [good, bad], everything([good, bad]))
    assert caught.value.path == bad.path and "\n" not in str(caught.value)


def test_another_game_is_refused(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, "tictactoe", record(DRAWN, 0.0))
    with pytest.raises(FileError, match="games of tictactoe; wanted go:5"):
        make_examples(parse_game("go:5"), [shard], everything([shard]))
