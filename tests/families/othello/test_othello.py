"""Othello's rules in diagrams; its kernels against the plain twin and against OpenSpiel over random games."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.othello.game import Othello
from pipeline.games.contract import States
from pipeline.games.records import RecordText
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from pipeline.play.game_in_progress import GameInProgress
from tests.games.playing import NO_HISTORY, assert_same_board, game_sgf
from tests.reference.othello import OthelloReference


def test_a_forced_pass_may_be_left_out() -> None:
    """As in the records of programs that don't write it, from whose moves the rest follows."""
    game = parse_game("othello:6")
    left_out, rng = 0, np.random.default_rng(1)
    for _ in range(20):
        written, short = GameInProgress(game), GameInProgress(game)
        while not written.has_ended:
            player, action = written.to_move, int(rng.choice(written.choices()))
            written.play(action, player)
            if action == game.pass_action:
                left_out += 1
            else:
                short.play(action, player)
        assert board(game, short.states) == board(game, written.states) and short.has_ended == written.has_ended
    assert left_out > 5
    with pytest.raises(IllegalMove, match="out of turn"):
        GameInProgress(game).play(game.parse_action("c2"), 1)


def position(text: str, mover: str = "X") -> tuple[Othello, States]:
    """The game and the state [1, S] of a diagram of X, O and other marks, which are empty points."""
    marks = text.split()
    game = Othello(int(len(marks) ** 0.5))
    state = game.initial(1)
    state[0, : game.num_points] = [{"X": 1, "O": 2}.get(mark, 0) for mark in marks]
    state[0, game.num_points] = "XO".index(mover)
    return game, state


def legal_names(game: Othello, state: States) -> set[str]:
    return {game.action_name(action) for action in np.flatnonzero(game.legal(state, NO_HISTORY)[0])}


def play(game: Othello, state: States, *names: str) -> States:
    for name in names:
        state = game.play(state, np.array([game.parse_action(name)], np.int32), NO_HISTORY)
    return state


def board(game: Othello, state: States) -> str:
    return "".join(".XO"[found] for found in state[0, : game.num_points])


def test_the_start() -> None:
    game = Othello(8)
    state = game.initial(1)
    assert legal_names(game, state) == {"d3", "c4", "f5", "e6"}
    assert game.diagram(state[0]).splitlines() == [
        " 1 . . . . . . . .",
        " 2 . . . . . . . .",
        " 3 . . . . . . . .",
        " 4 . . . O X . . .",
        " 5 . . . X O . . .",
        " 6 . . . . . . . .",
        " 7 . . . . . . . .",
        " 8 . . . . . . . .",
        "   a b c d e f g h",
        "   X to move, ply 0",
    ]


def test_all_eight_directions_are_flipped_at_once() -> None:
    game, state = position("""
        . . . . . . . .
        . X . X . X . .
        . . O O O . . .
        . X O . O O X .
        . . O O O . . .
        . X . O . O . .
        . . . X . . X .
        . . . . . . . .""")
    after = play(game, state, "d4")
    wanted = """
        . . . . . . . .
        . X . X . X . .
        . . X X X . . .
        . X X X X X X .
        . . X X X . . .
        . X . X . X . .
        . . . X . . X .
        . . . . . . . ."""
    assert board(game, after) == "".join(wanted.split())
    assert game.to_move(after)[0] == 1 and game.scores(after)[0] == 20


@pytest.mark.parametrize("symmetry", range(8))
def test_only_enclosed_lines_are_flipped(symmetry: int) -> None:
    """The line upwards ends at an empty point, the one to the left at the edge; only the third line is enclosed."""
    game, state = position("""
        . . . . . .
        . . O . . .
        O O * O O X
        . . O . . .
        . . O . . .
        . . O . . .""")
    points = game.symmetries.points[symmetry]
    turned = state.copy()
    turned[:, points] = state[:, : game.num_points]
    action = game.symmetries.actions[symmetry, 14]
    after = game.play(turned, np.array([action], np.int32), NO_HISTORY)
    changed = set(np.flatnonzero((after != turned)[0, : game.num_points]).tolist())
    assert changed == {int(points[point]) for point in (14, 15, 16)}


def test_lines_do_not_wrap_around_the_edge() -> None:
    game, state = position("""
        . . . . O O
        X . . . . .
        . . . . . .
        . . . . . .
        . . . . . .
        . . . . . .""")
    with pytest.raises(IllegalMove, match=r"action 3 \(d1\): it flips no disc"):
        play(game, state, "d1")


def test_a_pass_is_forced_and_only_then_legal() -> None:
    game, state = position("""
        X O . .
        . . . .
        . . . .
        O O O .""", mover="O")  # fmt: skip
    assert legal_names(game, state) == {"pass"}
    after = play(game, state, "pass")
    assert board(game, after) == board(game, state) and not game.is_over(after)[0]
    assert (game.to_move(after)[0], game.plies(after)[0]) == (0, 1)
    assert legal_names(game, after) == {"c1"}
    with pytest.raises(IllegalMove, match=r"action 16 \(pass\): a player who can place a disc may not pass"):
        play(game, after, "pass")
    assert game.observe(state, game.legal(state, NO_HISTORY))[0, 2].sum() == 0  # seen as no legal point
    assert game.observe(after, game.legal(after, NO_HISTORY))[0, 2].ravel().nonzero()[0].tolist() == [2]


def test_the_game_ends_with_empty_points_when_nobody_can_move() -> None:
    game, state = position("""
        X O . .
        . . . .
        . . . .
        O O O O""")
    after = play(game, state, "c1")
    assert game.is_over(after)[0] and (after[0, :16] == 0).sum() == 9
    assert (game.scores(after)[0], game.returns(after)[0]) == (-1, -1)  # empty points count for nobody
    assert not game.legal(after, NO_HISTORY).any()
    with pytest.raises(IllegalMove, match="the game is over"):
        play(game, after, "pass")


def test_a_wipe_out_ends_the_game() -> None:
    """The shortest game: white has no disc left after nine moves (found by hand, long known)."""
    game = Othello(8)
    state = play(game, game.initial(1), *["e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5"])
    assert game.is_over(state)[0] and (game.scores(state)[0], game.returns(state)[0]) == (13, 1)
    assert "O" not in board(game, state) and game.diagram(state[0]).endswith("over, ply 9")


def test_equal_discs_draw() -> None:
    game, state = position("X O . . . . . . . . . . O O O .")
    after = play(game, state, "c1")
    assert game.is_over(after)[0] and (game.scores(after)[0], game.returns(after)[0]) == (0, 0)


@pytest.mark.parametrize(
    ("name", "why"), [("d4", "the point is occupied"), ("a1", "it flips no disc"), ("pass", "may not pass")]
)
def test_refusals_say_why(name: str, why: str) -> None:
    game = Othello(8)
    with pytest.raises(IllegalMove, match=rf"othello:8, row 0: action \d+ \({name}\): .*{why}"):
        play(game, game.initial(1), name)


def test_specs() -> None:
    assert {parse_game(f"othello:{size}").spec for size in (4, 6, 8, 16)} == {f"othello:{s}" for s in (4, 6, 8, 16)}
    for spec in ("othello", "othello:7", "othello:2", "othello:18", "othello:x"):
        with pytest.raises(UsageError, match="wanted an even number from 4 to 16"):
            parse_game(spec)
    with pytest.raises(UsageError, match="unknown option 'komi'"):
        parse_game("othello:8,komi=1")


def test_points_are_counted_from_above() -> None:
    game = Othello(8)
    assert [game.action_name(action) for action in (0, 7, 8, 63, 64)] == ["a1", "h1", "a2", "h8", "pass"]


def test_sgf() -> None:
    game = Othello(8)
    moves = [game.parse_action(name) for name in ["e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5"]]
    record = game_sgf(game, moves, RecordText("one", "other"))
    assert "GM[2]" in record and "SZ[8]" in record and "RE[B+]" in record
    assert ";B[ef]\n;W[fd]\n;B[ec]" in record


@pytest.mark.parametrize(("size", "num_games"), [(4, 200), (6, 1600), (8, 400)])
def test_kernels_equal_the_plain_twin(size: int, num_games: int) -> None:
    game = parse_game(f"othello:{size}")
    twins = [OthelloReference(size) for _ in range(num_games)]
    passes, results, plies = 0, set(), 0
    for step in random_games(game, num_games, 7, pass_share=0):
        over, returns, owners = game.is_over(step.after), game.returns(step.after), game.ownership(step.after)
        scores, movers = game.scores(step.after), game.to_move(step.after)
        for i, row in enumerate(step.rows):
            twin = twins[row]
            assert np.flatnonzero(step.legal[i]).tolist() == twin.legal(), game.diagram(step.states[i])
            twin.play(int(step.actions[i]))
            discs = [(".XO".index(mark) + 1) % 3 - 1 for line in twin.board for mark in line]
            assert_same_board(discs, owners[i], size, "twin, kernel")
            assert (twin.is_over, twin.result()) == (over[i], returns[i]), game.diagram(step.after[i])
            assert (twin.count("X") - twin.count("O"), "XO".index(twin.to_move)) == (scores[i], movers[i])
            passes += step.actions[i] == game.pass_action
            if over[i]:
                results.add(twin.result())
                plies = max(plies, int(game.plies(step.after)[i]))
    assert passes > 50 and results == {-1, 0, 1} and plies <= game.max_plies


@pytest.mark.parametrize("size", range(4, 17, 2))
def test_placements_on_any_board_equal_the_twin(size: int) -> None:
    """Boards filled at random, which have more long lines and crowded edges than games do."""
    game, num_boards = Othello(size), 2000 // size
    generator = np.random.default_rng(size)
    kinds = generator.dirichlet([1, 1, 1], num_boards).cumsum(axis=1)
    drawn = generator.random((num_boards, game.num_points, 1))
    states = np.zeros((num_boards, game.state_size), np.int16)
    states[:, : game.num_points] = np.minimum((drawn > kinds[:, None]).sum(axis=2), 2)
    states[:, game.num_points] = generator.integers(2, size=num_boards)
    legal = game.legal(states, NO_HISTORY)
    twin = OthelloReference(size)
    for state, found in zip(states, legal, strict=True):
        marks = [".XO"[mark] for mark in state[: game.num_points]]
        twin.board = [marks[row * size : (row + 1) * size] for row in range(size)]
        disc = "XO"[state[game.num_points]]
        wanted = [point for point in twin.empty_points() if twin.flips(point, disc)]
        assert np.flatnonzero(found).tolist() == (wanted or [game.pass_action]), game.diagram(state)


def test_open_spiel_plays_the_same_game() -> None:
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel isn't installed: pip install open_spiel")
    game, oracle = parse_game("othello:8"), pyspiel.load_game("othello")
    others = [oracle.new_initial_state() for _ in range(1000)]
    passes, results = 0, set()
    for step in random_games(game, len(others), 11, pass_share=0):
        over, returns, movers = game.is_over(step.after), game.returns(step.after), game.to_move(step.states)
        for i, row in enumerate(step.rows):
            other = others[row]
            assert other.current_player() == movers[i]
            assert np.flatnonzero(step.legal[i]).tolist() == other.legal_actions(), game.diagram(step.states[i])
            other.apply_action(int(step.actions[i]))  # OpenSpiel's pass is 64, too
            passes += step.actions[i] == game.pass_action
            assert other.is_terminal() == over[i], game.diagram(step.after[i])
            if over[i]:
                assert other.returns()[0] == returns[i], game.diagram(step.after[i])
                results.add(float(returns[i]))
    assert passes > 100 and results == {-1.0, 0.0, 1.0}


def test_the_heuristic_takes_corners_and_does_not_hand_them_over() -> None:
    game, state = position("""
        * O X . . .
        . ? . . . .
        . . O . . .
        . . . X . .
        . . . . . .
        . . . . . .""")
    evaluate = game.heuristic()
    assert evaluate is not None
    scores = evaluate(state, NO_HISTORY)
    assert game.action_name(int(scores[0].argmax())) == "a1"
    worst = np.where(np.isfinite(scores[0]), scores[0], np.inf).argmin()
    assert game.action_name(int(worst)) == "b2"
    assert (np.isfinite(scores) == game.legal(state, NO_HISTORY)).all()
