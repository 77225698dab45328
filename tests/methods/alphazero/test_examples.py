from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.games.testing import symmetries_of_start
from pipeline.methods.alphazero.examples import Positions, column_types, make_examples
from pipeline.methods.alphazero.training_batch import make_batch
from pipeline.run.chunks import ORIGIN
from pipeline.run.shards import NO_VALUE, POLICY_COUNTS, End, GameRecord, Shard, read_shard
from tests.games.playing import SMALL
from tests.run.random_games import random_games, write_shard

DRAWN = [0, 1, 2, 4, 3, 5, 7, 6, 8]  # tic-tac-toe without a line
FIRST_WINS = [0, 3, 1, 4, 2]


def record(moves: Sequence[int], result: float, **more: Any) -> GameRecord:
    """Every move is a policy target: the only one visited, three times."""
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


def everything(shards: Sequence[Shard]) -> Positions:
    rows = [
        (number, index, ply)
        for number, shard in enumerate(shards)
        for index in range(shard.num_games)
        for ply in range(shard.lengths[index])
    ]
    return Positions(*np.array(rows, np.int64).T)


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


def test_a_board_that_the_move_limit_left_unfinished_is_not_learned(tmp_path: Path) -> None:
    """Its result is."""
    game = parse_game("go:5,moves=10")
    moves = [game.parse_action(name) for name in GO_MOVES[:10]]
    columns = examples_of(tmp_path, game.spec, record(moves, -1.0, end=End.MOVE_LIMIT))
    assert not columns["final_weight"].any() and not columns["ownership"].any() and not columns["score"].any()
    assert columns["value"].tolist() == [-1, 1] * 5
    # two passes end it by the rules, though the limit is reached with them
    passed = [game.parse_action(name) for name in [*GO_MOVES[:7], "D4", "pass", "pass"]]
    assert examples_of(tmp_path, game.spec, record(passed, -1.0))["final_weight"].all()


def test_a_move_limit_that_was_none_or_is_not_said(tmp_path: Path) -> None:
    moves = [parse_game("go:5").parse_action(name) for name in GO_MOVES]
    with pytest.raises(FileError, match="ended by the move limit; recorded is an end by its rules"):
        examples_of(tmp_path, "go:5,moves=10", record(moves[:10], -1.0))
    with pytest.raises(FileError, match="recorded is an end by the move limit"):
        examples_of(tmp_path, "go:5", record(moves, -1.0, end=End.MOVE_LIMIT))


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


# TD(lambda)


def test_td_targets_by_hand(tmp_path: Path) -> None:
    """lambda 1/2, the first player wins; root values seen by the mover, by the first player: .5 .2 .4 0 .8."""
    values = np.array([0.5, -0.2, 0.4, 0.0, 0.8])
    shard = shard_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0, root_values=values))
    columns = make_examples(parse_game("tictactoe"), [shard], everything([shard]), np.full(5, 0.5, np.float32))
    # .8/2 + 1/2 = .9;  0/2 + .9/2 = .45;  .4/2 + .45/2 = .425;  .2/2 + .425/2 = .3125;  .5/2 + .3125/2 = .40625
    np.testing.assert_allclose(columns["value"], [0.40625, -0.3125, 0.425, -0.45, 0.9], rtol=1e-6)


def test_td_targets_pass_over_movers_without_an_opinion(tmp_path: Path) -> None:
    flags = np.array([NO_VALUE, POLICY_COUNTS, NO_VALUE, POLICY_COUNTS, NO_VALUE])
    values = np.array([0, -0.2, 0, 0.4, 0])
    game = record(FIRST_WINS, 1.0, root_values=values, flags=flags)
    shard = shard_of(tmp_path, "tictactoe", game)
    columns = make_examples(parse_game("tictactoe"), [shard], everything([shard]), np.full(5, 0.5, np.float32))
    # by the first player: 1;  -.4/2 + 1/2 = .3;  .3;  .2/2 + .3/2 = .25;  .25
    np.testing.assert_allclose(columns["value"], [0.25, -0.25, 0.3, -0.3, 1], rtol=1e-6)


@pytest.mark.parametrize("spec", SMALL)
def test_td_targets_of_games_with_lambdas_of_their_own(tmp_path: Path, spec: str) -> None:
    game, rng = parse_game(spec), np.random.default_rng(3)
    games = random_games(game, 10, seed=8, resign_share=0.4)
    games = [replace(one, root_values=rng.uniform(-1, 1, len(one.moves)).astype(np.float32)) for one in games]
    shard = shard_of(tmp_path, spec, *games)
    wanted = everything([shard])
    lambdas = np.array([1, 0, 0.9, *rng.random(7)], np.float32)
    columns = make_examples(game, [shard], wanted, lambdas[wanted.game])
    for index, one in enumerate(games):
        here = wanted.game == index
        target, expected = one.result_first_player, []
        for ply in reversed(range(len(one.moves))):  # the players take turns
            sign = 1 if ply % 2 == 0 else -1
            target = lambdas[index] * target + (1 - lambdas[index]) * sign * one.root_values[ply]
            expected.append(sign * target)
        np.testing.assert_allclose(columns["value"][here], expected[::-1], atol=1e-6)
    plain = make_examples(game, [shard], wanted)
    of_first = wanted.game == 0
    np.testing.assert_array_equal(columns["value"][of_first], plain["value"][of_first])
    for name in set(columns) - {"value"}:
        np.testing.assert_array_equal(columns[name], plain[name], err_msg=name)
    some = np.flatnonzero(rng.random(len(wanted)) < 0.3)  # the rest of a game counts though it isn't wanted
    few = Positions(wanted.shard[some], wanted.game[some], wanted.ply[some])
    chosen = make_examples(game, [shard], few, lambdas[few.game])
    np.testing.assert_array_equal(chosen["value"], columns["value"][some])


# Replies


def visited(moves: Sequence[int], result: float, shares: Sequence[dict[int, int]], **more: Any) -> GameRecord:
    """Like record, with these visits in every move's search."""
    return record(
        moves,
        result,
        visit_lengths=np.array([len(visits) for visits in shares]),
        visit_actions=np.array([action for visits in shares for action in visits]),
        visit_counts=np.array([count for visits in shares for count in visits.values()]),
        **more,
    )


def test_replies_of_a_go_game_are_the_opponent_s_moves_on_the_same_board(tmp_path: Path) -> None:
    game = parse_game("go:5")
    moves = [game.parse_action(name) for name in GO_MOVES]
    columns = examples_of(tmp_path, "go:5", record(moves, -1.0))
    for ply in range(len(moves) - 1):
        assert np.flatnonzero(columns["reply"][ply]).tolist() == [moves[ply + 1]]
        assert columns["reply"][ply].max() == 1
    assert game.action_name(int(columns["reply"][0].argmax())) == "A1"  # white's answer to C3, where white plays it
    assert columns["reply_weight"].tolist() == [1] * (len(moves) - 1) + [0]
    assert not columns["reply"][-1].any()


def test_replies_of_a_connect_four_game_are_the_next_search_s_shares(tmp_path: Path) -> None:
    columns_played = [3, 2, 3, 2, 3, 2, 3]  # the first player's four in a column
    shares = [{3: 6, 0: 2}, {2: 4}, {3: 1, 4: 3}, {2: 2, 6: 2}, {3: 5}, {2: 1, 3: 7}, {3: 8}]
    found = examples_of(tmp_path, "connect4", visited(columns_played, 1.0, shares))
    assert found["value"].tolist() == [1, -1, 1, -1, 1, -1, 1]
    assert found["policy"][0].tolist() == [0.25, 0, 0, 0.75, 0, 0, 0]
    assert found["reply"].tolist() == [
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0.25, 0.75, 0, 0],
        [0, 0, 0.5, 0, 0, 0, 0.5],
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0.125, 0.875, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0] * 7,
    ]
    assert found["reply_weight"].tolist() == [1] * 6 + [0]


def test_no_reply_where_the_next_move_was_searched_cheaply(tmp_path: Path) -> None:
    found = examples_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0, flags=np.array([1, 0, 0, 1, 255])))
    assert found["policy_weight"].tolist() == [1, 0, 0, 1, 1]
    assert found["reply_weight"].tolist() == [0, 0, 1, 1, 0]
    assert found["reply"].any(axis=1).tolist() == [False, False, True, True, False]
    assert found["reply"][2].argmax() == FIRST_WINS[3]


@pytest.mark.parametrize(("loser", "result"), [(0, -1.0), (1, 1.0)])
def test_no_reply_across_a_resignation(tmp_path: Path, loser: int, result: float) -> None:
    moves = [0, 3, 1, 4][: 4 - loser]
    resigned = record(moves, result, end=End.RESIGNED)
    found = examples_of(tmp_path, "tictactoe", resigned, record(DRAWN, 0.0))  # another game follows in the shard
    assert found["reply_weight"].tolist() == [1] * (len(moves) - 1) + [0] + [1] * 8 + [0]
    assert not found["reply"][len(moves) - 1].any()


@pytest.mark.parametrize("learner", [0, 1])
def test_an_opponent_s_move_is_no_reply(tmp_path: Path, learner: int) -> None:
    flags = np.array([POLICY_COUNTS if ply % 2 == learner else 0 for ply in range(5)])
    met = record(FIRST_WINS, 1.0, flags=flags, opponent="random", learner=learner)
    found = examples_of(tmp_path, "tictactoe", met)
    # what the learner answers to the opponent is one
    assert found["reply_weight"].tolist() == [*flags[1:].tolist(), 0]
    assert found["reply"].any(axis=1).tolist() == [bool(flag) for flag in flags[1:]] + [False]


def test_an_opponent_that_teaches_is_learned_from_and_foretold(tmp_path: Path) -> None:
    met = record(FIRST_WINS, 1.0, visit_counts=np.ones(len(FIRST_WINS)), opponent="heuristic", learner=0)
    found = examples_of(tmp_path, "tictactoe", met)
    assert found["policy_weight"].all() and found["policy"].argmax(axis=1).tolist() == FIRST_WINS
    assert found["reply"][:-1].argmax(axis=1).tolist() == FIRST_WINS[1:]


def test_a_target_of_an_opponent_other_than_its_move_is_poison(tmp_path: Path) -> None:
    visited = np.array(FIRST_WINS)
    visited[1] = FIRST_WINS[2]
    shard = shard_of(tmp_path, "tictactoe", record(FIRST_WINS, 1.0, visit_actions=visited, opponent="x", learner=0))
    for ply in (0, 1):  # found as the reply to what is wanted, and as what is wanted
        wanted = Positions(*np.array([[0], [0], [ply]], np.int64))
        with pytest.raises(FileError, match="game 0, ply 1: an opponent's move is a policy target, but"):
            make_examples(parse_game("tictactoe"), [shard], wanted)


# Symmetries


def image(game: Game, played: GameRecord, k: int) -> GameRecord:
    """The same game on a board that was turned or mirrored before it."""
    actions = game.symmetries.actions[k]
    return replace(played, moves=actions[played.moves], visit_actions=actions[played.visit_actions])


@pytest.mark.parametrize("spec", SMALL)
def test_examples_of_a_turned_game_are_the_turned_examples(tmp_path: Path, spec: str) -> None:
    """Planes, policy, reply and ownership are transformed together; value, score and weights stay."""
    game = parse_game(spec)
    records = [
        replace(played, flags=(np.arange(len(played.moves)) % 3 != 2).astype(np.uint8))
        for played in random_games(game, 5, seed=3, resign_share=0.3)
    ]
    plain = examples_of(tmp_path, spec, *records)
    rows = np.arange(len(plain["value"]))
    assert set(plain["value"].tolist()) >= {1, -1} and set(plain["reply_weight"].tolist()) == {0, 1}
    for k in symmetries_of_start(game):
        turned = examples_of(tmp_path, spec, *(image(game, played, k) for played in records))
        found = make_batch(game, turned, rows, np.zeros_like(rows))
        wanted = make_batch(game, plain, rows, np.full_like(rows, k))
        for name in found._fields:
            one, other = getattr(found, name).numpy(), getattr(wanted, name).numpy()
            if name in ("policy", "reply"):
                np.testing.assert_allclose(one, other, atol=1e-3, err_msg=f"{name} {k}")
            else:
                np.testing.assert_array_equal(one, other, err_msg=f"{name} {k}")
        if k:  # and every one of them tells symmetries apart
            still = make_batch(game, plain, rows, np.zeros_like(rows))
            for name in ("planes", "policy", "reply"):
                assert not np.array_equal(getattr(found, name).numpy(), getattr(still, name).numpy()), (name, k)


# What an example holds


@pytest.mark.parametrize("spec", SMALL)
def test_examples_are_what_a_plain_replay_gives(tmp_path: Path, spec: str) -> None:
    game = parse_game(spec)
    records = random_games(game, 12, seed=5, resign_share=0.4)
    assert any(record.end == End.RESIGNED for record in records) and any(
        record.end == End.PLAYED_OUT for record in records
    )
    shard = shard_of(tmp_path, spec, *records)
    wanted = everything([shard])
    columns = make_examples(game, [shard], wanted)
    assert {name: (column.dtype.str, column.shape[1:]) for name, column in columns.items()} == {
        **column_types(game),
        **ORIGIN,
    }
    planes, turns = unpacked(game, columns["planes"]), spec.startswith("shogi")
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
            if ply:  # what the example before this one has as its reply
                reply = columns["reply"][row - 1]
                if turns:
                    reply = reply.reshape(-1, *game.board_shape)[:, ::-1, ::-1].reshape(-1)
                np.testing.assert_allclose(reply, policy / policy.sum(), atol=5e-4)
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
            if game_record.end == End.PLAYED_OUT and not game.cut_short(states)[0]:
                owners = game.ownership(states)[0].reshape(game.board_shape)
                seen = owners[::-1, ::-1] if turns and mover == 1 else owners
                np.testing.assert_array_equal(columns["ownership"][at], sign * seen.reshape(-1))
                assert columns["score"][at] == sign * game.scores(states)[0]
            else:
                assert not columns["ownership"][at].any() and columns["final_weight"][at] == 0
        assert not columns["reply"][row - 1].any()
        assert columns["reply_weight"][first_row:row].tolist() == [1] * (len(movers) - 1) + [0]
    assert row == len(wanted) and (columns["policy_weight"] == 1).all()


def test_positions_come_in_the_order_they_are_wanted_from_any_shards(tmp_path: Path) -> None:
    game = parse_game("go:5")
    shards = [shard_of(tmp_path, "go:5", *random_games(game, count, seed=count)) for count in (1, 3, 1, 2)]
    all_of_them = everything(shards)
    whole = make_examples(game, shards, all_of_them)
    chosen = np.random.default_rng(1).permutation(len(all_of_them))[:50]
    some = make_examples(
        game, shards, Positions(all_of_them.shard[chosen], all_of_them.game[chosen], all_of_them.ply[chosen])
    )
    for name, column in some.items():
        np.testing.assert_array_equal(column, whole[name][chosen], err_msg=name)
    # and a game's examples don't depend on the games beside it
    alone = make_examples(game, shards[1:2], everything(shards[1:2]))
    beside = all_of_them.shard == 1
    for name in ("planes", "policy", "value", "ownership", "score", "reply", "reply_weight"):
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
            "ply 0: an action's visits are listed twice",
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
