"""The reach benchmark: its exact values against other solvers, and players whose result is known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks import reach
from pipeline.families.lines.connect4 import ConnectFour
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.contract import Actions, FloatArray
from pipeline.players.builtin import RandomPlayer, ScoringPlayer
from pipeline.players.player import Boards, Decisions, Player, Rows
from tests.helpers import make_model

CONNECT4, TICTACTOE = ConnectFour(), TicTacToe()


class TablePlayer(Player):
    """Answers row i of each batch with the i-th of the actions it was given, two rows a step."""

    def __init__(self, actions: Actions) -> None:
        self.actions, self.begun, self.thinking = list(actions), 0, []

    def new_games(self, rows: Rows, seeds: np.ndarray) -> None:
        pass

    def advance(self, rows: Rows, actions: Actions) -> None:
        pass

    def begin(self, rows: Rows) -> None:
        self.thinking = list(rows)
        self.answers = dict(zip(rows, self.actions[self.begun :], strict=False))
        self.begun += len(rows)

    def step(self) -> Decisions:
        rows, self.thinking = np.array(self.thinking[-2:]), self.thinking[:-2]
        return Decisions(rows, np.array([self.answers[row] for row in rows], np.int32), np.zeros(len(rows), np.float32))


class PerfectTicTacToe(ScoringPlayer):
    """All exact best moves alike."""

    def scores(self, rows: Rows) -> FloatArray:
        scores = np.full((len(rows), 9), -np.inf)
        for index, state in enumerate(self._boards.states[rows]):
            scores[index, reach.best_points(tuple(state[:9].tolist()))] = 0
        return scores


# Tic-tac-toe


def test_the_solver_knows_what_is_known_of_tictactoe() -> None:
    assert reach.solve((0,) * 9) == 0
    assert len(reach.best_points((0,) * 9)) == 9  # every opening draws
    assert reach.best_points((1, 0, 0, 0, 0, 0, 0, 0, 0)) == [4]  # only the centre answers a corner
    assert sorted(reach.best_points((0, 0, 0, 0, 1, 0, 0, 0, 0))) == [0, 2, 6, 8]  # and only a corner the centre
    assert reach.best_points((1, 1, 0, 2, 2, 0, 0, 0, 0)) == [2]  # wins at once, where the other would next
    assert reach.solve.cache_info().currsize <= 5478  # as many positions as play can reach


def test_the_solver_agrees_with_our_rules() -> None:
    boards = Boards(TICTACTOE, 64)
    rng, rows = np.random.default_rng(0), np.arange(64)
    for _ in range(9):
        for row in rows:
            cells = tuple(boards.states[row, :9].tolist())
            over = bool(boards.over(np.array([row]))[0])
            if over:
                mover_won = boards.returns(np.array([row]))[0] * (1 - 2 * boards.to_move(np.array([row]))[0])
                assert reach.solve(cells) == mover_won
        going = rows[~boards.over(rows)]
        if going.size:
            moves = [rng.choice(np.flatnonzero(legal)) for legal in boards.legal(going)]
            boards.advance(going, np.array(moves, np.int32))


@pytest.mark.parametrize("first", [True, False])
def test_a_perfect_player_never_loses_and_a_random_one_does(first: bool) -> None:
    perfect, careless = PerfectTicTacToe(TICTACTOE, 60), RandomPlayer(TICTACTOE, 60)
    assert (reach.play_against(TICTACTOE, perfect, reach.solver(1), 60, first, 0) == 0).all()
    mistaken = reach.play_against(TICTACTOE, perfect, reach.solver(1, mistakes=True), 60, first, 0)
    assert (mistaken >= 0).all() and (mistaken > 0).sum() > 20
    assert (reach.play_against(TICTACTOE, careless, reach.solver(1), 60, first, 0) < 0).sum() > 20


def test_the_solver_plays_every_best_move_and_with_mistakes_every_move() -> None:
    states = np.repeat(TICTACTOE.initial(1), 300, 0)
    states[:, :9] = (0, 0, 0, 0, 1, 0, 0, 0, 0)
    assert set(reach.solver(3)(states)) == {0, 2, 6, 8}
    assert set(reach.solver(3, mistakes=True)(states)) == {0, 1, 2, 3, 5, 6, 7, 8}


# Connect four


def test_the_positions_are_distinct_going_on_and_spread_over_the_plies() -> None:
    positions = reach.draw_positions(570)
    assert len({final_state(moves).tobytes() for moves in positions}) == 570
    lengths, counts = np.unique([len(moves) for moves in positions], return_counts=True)
    assert list(lengths) == list(range(6, 25)) and set(counts) == {30}
    for moves in positions:
        state = final_state(moves)[None]
        assert not CONNECT4.is_over(state)[0] and CONNECT4.plies(state)[0] == len(moves)


def test_the_positions_are_always_the_same() -> None:
    text = " ".join("".join(map(str, moves)) for moves in reach.draw_positions(40))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "3244ffb152a82681"
    assert reach.draw_positions(40) == reach.draw_positions(60)[:40]
    assert reach.draw_positions(5, seed=1) != reach.draw_positions(5)


def final_state(moves: Sequence[int]) -> np.ndarray:
    state = CONNECT4.initial(1)
    for move in moves:
        state = CONNECT4.play(state, np.array([move], np.int32), CONNECT4.initial_history(state))
    return state[0]


def late_positions(count: int, fewest_plies: int, seed: int) -> list[tuple[int, ...]]:
    """Random games that go on after so many plies; most are not their own mirror image."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        boards, moves, row = Boards(CONNECT4, 1), [], np.array([0])
        plies = int(rng.integers(fewest_plies, 42))
        while len(moves) < plies and not boards.over(row)[0]:
            moves.append(int(rng.choice(np.flatnonzero(boards.legal(row)[0]))))
            boards.advance(row, np.array(moves[-1:], np.int32))
        if len(moves) == plies and not boards.over(row)[0]:
            found.append(tuple(moves))
    return found


def columns_of(moves: Sequence[int]) -> tuple[str, ...]:
    columns = [""] * 7
    for ply, move in enumerate(moves):
        columns[move] += "XO"[ply % 2]
    return tuple(columns)


def wins(columns: tuple[str, ...], column: int) -> bool:
    """Whether the top stone of a column stands in four in a row. Columns are strings, the lowest stone first."""
    row, colour = len(columns[column]) - 1, columns[column][-1]

    def stone(c: int, r: int) -> str:
        return columns[c][r] if 0 <= c < 7 and 0 <= r < len(columns[c]) else ""

    for dc, dr in ((0, 1), (1, 0), (1, 1), (1, -1)):
        line = "".join(colour if stone(column + k * dc, row + k * dr) == colour else "." for k in range(-3, 4))
        if colour * 4 in line:
            return True
    return False


@cache
def negamax(columns: tuple[str, ...]) -> int:
    """The exact result for the player to move."""
    best = -1 if sum(map(len, columns)) < 42 else 0
    for column in range(7):
        if len(columns[column]) < 6:
            best = max(best, value_of(columns, column))
            if best == 1:
                break
    return best


def value_of(columns: tuple[str, ...], column: int) -> int:
    stone = "XO"[sum(map(len, columns)) % 2]
    after = (*columns[:column], columns[column] + stone, *columns[column + 1 :])
    return 1 if wins(after, column) else -negamax(after)


def test_bitbullys_values_are_those_of_plain_alpha_beta_column_by_column() -> None:
    pytest.importorskip("bitbully", reason="bitbully is not installed: connect four's exact values are not tested")
    positions = late_positions(80, fewest_plies=29, seed=5)
    found = reach.exact_values(positions)
    lopsided = 0
    for moves, values in zip(positions, found, strict=True):
        columns = columns_of(moves)
        expected = [value_of(columns, column) if len(columns[column]) < 6 else reach.NO_MOVE for column in range(7)]
        assert list(values) == expected, moves
        legal = CONNECT4.legal(final_state(moves)[None], CONNECT4.initial_history(final_state(moves)[None]))[0]
        assert list(values != reach.NO_MOVE) == list(legal), moves
        lopsided += list(values) != list(values[::-1])
    assert lopsided > 40  # mirrored columns would have been noticed
    assert {-1, 0, 1} <= set(found.max(1))


def test_known_values_of_the_opening() -> None:
    pytest.importorskip("bitbully", reason="bitbully is not installed: connect four's exact values are not tested")
    # Allis 1988: the centre wins, its neighbours draw, the rest lose. And three that lack the fourth on the right.
    values = reach.exact_values([(), (0, 0, 1, 1, 2, 2)])
    assert list(values[0]) == [-1, -1, 0, 1, 0, -1, -1]
    assert values[1, 3] == 1


def test_a_perfect_player_keeps_every_value_and_the_worst_only_where_nothing_matters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("bitbully", reason="bitbully is not installed: connect four's exact values are not tested")
    positions = [moves for moves in reach.draw_positions(76) if len(moves) > 16]  # quicker to solve
    values = reach.exact_values(positions)
    best, worst = values.argmax(1), np.where(values == reach.NO_MOVE, 2, values).argmin(1)
    assert reach.keeps(values, best).all()
    assert not reach.keeps(values, worst)[values.max(1) != values[np.arange(len(values)), worst]].any()
    players: dict[str, Player] = {"search": TablePlayer(best), "raw policy": TablePlayer(worst)}
    reach.report_connect4(players, 7, positions, seed=0)
    lines = capsys.readouterr().out.splitlines()
    matters = next(line for line in lines if line.startswith("where it matters")).split()
    assert matters[-3:-1] == ["100.0%", "0.0%"]
    assert lines[-2].startswith("search: keeps the value in 100.00% ")
    assert lines[-1].startswith("raw policy: keeps the value in ") and "100.00%" not in lines[-1]


def test_moves_are_asked_for_in_the_position_and_for_its_row() -> None:
    """A player that always plays where the last stone of its own row fell, over batches of different lengths."""

    class Follower(ScoringPlayer):
        def advance(self, rows: Rows, actions: Actions) -> None:
            super().advance(rows, actions)
            self.last = getattr(self, "last", np.zeros(5, np.int32))
            self.last[rows] = actions

        def scores(self, rows: Rows) -> FloatArray:
            assert (self._boards.game.plies(self._boards.states[rows]) > 0).all()
            return np.where(np.arange(7) == self.last[rows][:, None], 0.0, -np.inf)

    positions = [moves for moves in reach.draw_positions(38) if moves.count(moves[-1]) < 6]
    chosen = reach.moves_of(Follower(CONNECT4, 5), positions, 5)
    assert list(chosen) == [moves[-1] for moves in positions]


# The command


def test_an_untrained_model_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bitbully", reason="bitbully is not installed: connect four's exact values are not tested")
    model = make_model(tmp_path, spec="connect4")
    reach.main(["--model", str(model), "--positions", "6", "--readouts", "8", "--backend", "torch"])
    shown = capsys.readouterr().out
    assert "connect4, 8 readouts" in shown and "where it matters" in shown and "raw policy: keeps" in shown


def test_an_untrained_model_loses_at_tictactoe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path, spec="tictactoe")
    reach.main(["--model", str(model), "--games", "20", "--backend", "torch"])
    shown = capsys.readouterr().out
    assert "32 readouts" in shown and len(shown.splitlines()) == 12
    assert int(shown.split("raw policy: ")[1].split()[0]) > 10


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [(["--model", "nowhere"], "nowhere", 1), (["--preset", "go99"], "go99", 2), (["--games", "9999"], "9999", 2)],
)
def test_wrong_usage_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str, code: int
) -> None:
    model = make_model(tmp_path)
    with pytest.raises(SystemExit) as ended:
        reach.main(["--model", str(model), "--backend", "torch", *arguments])
    assert ended.value.code == code and said in capsys.readouterr().err


def test_a_game_that_is_not_solved_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        reach.main(["--model", str(make_model(tmp_path, spec="go:5"))])
    assert "go:5" in capsys.readouterr().err
