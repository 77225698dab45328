"""Moves in decided positions: by the margin or by the length of the game, and no others than the options allow."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.margins import squash
from pipeline.games.specs import parse_game
from pipeline.players.searching import SearchPlayer
from pipeline.search.options import PlaySearchOptions, SearchOptions
from tests.players.finished import BEHIND_BY_A_DEAD_STONE, DEAD_STONE, GO, SETTLED, counted, position, white_wins
from tests.players.test_searching import decide
from tests.search.helpers import hashed_evaluator

ROW = np.arange(1)
PASS, BLACK, WHITE = GO.pass_action, 0, 1
ALWAYS_WINS = PlaySearchOptions(margin_from=1.0)


def answer(rows: str, to_move: int, passed: bool = False, config=None, evaluate=None, margins=None, readouts=60):
    """(move, value). passed: whether the opponent has just passed."""
    margins = margins or counted()
    player = SearchPlayer(GO, 1, evaluate or white_wins(), config or PlaySearchOptions(), readouts, 1, margins)
    player.new_games(ROW, np.zeros(1, np.uint64))
    player.set_up(ROW, position(rows, 1 - to_move if passed else to_move), [[]])
    if passed:
        player.advance(ROW, np.array([PASS], np.int32))
    player.begin(ROW)
    return decide(player)[0]


def test_a_loser_passes_on_a_finished_board_instead_of_filling_its_eyes() -> None:
    assert answer(SETTLED, BLACK, config=ALWAYS_WINS)[0] != PASS
    assert answer(SETTLED, BLACK) == (PASS, pytest.approx(-0.99, abs=0.02))
    assert answer(SETTLED, BLACK, passed=True)[0] == PASS


def test_a_winner_answers_a_pass_with_a_pass() -> None:
    assert answer(SETTLED, WHITE, passed=True)[0] == PASS


def test_a_winner_captures_dead_stones_before_it_passes() -> None:
    owned = np.ones(GO.num_points, np.float32)
    owned[[0, 1, 5, 6, 10, 11, 15, 16, 20, 21]] = -1
    move, _ = answer(DEAD_STONE, WHITE, passed=True, margins=counted(owned))
    assert move in {GO.parse_action("D4"), GO.parse_action("E3")}  # the last liberties of the black stone


def test_a_winner_gives_up_no_value_for_the_margin() -> None:
    """Here the network believes that any pass loses, so none is played though no other move gains anything."""
    wins = white_wins()

    def afraid(planes):
        logits, values = wins(planes)
        passed = planes[:, GO.plane_names.index("white to move")].any(axis=(1, 2))
        return logits, np.where(passed, values, np.float32(0.9))

    assert answer(SETTLED, WHITE)[0] == PASS
    assert answer(SETTLED, WHITE, evaluate=afraid)[0] != PASS


def test_a_winner_never_passes_first_where_another_pass_would_cost_the_win() -> None:
    """White wins by capturing a dead stone. The network expects nobody to pass, and any move to be as good."""
    white_is_ahead = white_wins(float(squash(np.float32(5), GO.num_points)))

    def unlikely(evaluate):
        def changed(planes):
            logits, values = evaluate(planes)
            logits[:, PASS] = -30.0
            return logits, values

        return changed

    margins = counted()._replace(evaluate=unlikely(white_is_ahead))
    move, _ = answer(BEHIND_BY_A_DEAD_STONE, WHITE, evaluate=unlikely(white_wins()), margins=margins)
    assert move != PASS


def test_a_loser_doesnt_pass_on_an_open_board() -> None:
    """The network expects black to lose everything, whatever it plays."""
    lost = white_wins(float(squash(np.float32(20), GO.num_points)))
    margins = counted()._replace(evaluate=lost)
    rows = "..... .O.O. ..O.. .O.O. ....."
    assert answer(rows, BLACK, margins=margins)[0] != PASS
    assert answer(rows.replace(".", "O", 8).replace("OOOOO", "OO.OO", 1), BLACK, margins=margins)[0] == PASS


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluate": white_wins(0.9)},  # not decided
        {"config": SearchOptions(noise_weight=0.0)},  # self-play's options
        {"config": PlaySearchOptions(margin_from=1.0)},
    ],
)
def test_other_positions_and_self_play_are_searched_as_before(changes) -> None:
    config = changes.get("config", PlaySearchOptions())
    plain = SearchOptions(**config.model_dump(include=set(SearchOptions.model_fields)))
    assert answer(SETTLED, BLACK, **changes) == answer(SETTLED, BLACK, **{**changes, "config": plain})


def test_each_row_plays_as_if_alone() -> None:
    game = parse_game("connect4")
    rng = np.random.default_rng(1)
    lines = [rng.integers(0, 7, ply) for ply in (3, 8, 13, 18)]
    config = PlaySearchOptions(margin_from=0.01)

    def played(lines) -> list[tuple[int, float]]:
        player = SearchPlayer(game, len(lines), hashed_evaluator(game), config, 30)
        rows = np.arange(len(lines))
        player.new_games(rows, np.zeros(len(lines), np.uint64))
        for row, line in enumerate(lines):
            for action in line:
                player.advance(rows[row : row + 1], np.array([action], np.int32))
        player.begin(rows)
        found = decide(player)
        return [found[row] for row in range(len(lines))]

    assert played(lines) == [found for line in lines for found in played([line])]


def test_without_margins_a_winner_wins_soon() -> None:
    """First has three in column 4; its network is as sure of winning after every other move, and prefers column 1."""
    game = parse_game("connect4")
    line = [game.parse_action(name) for name in "414241"]

    def evaluate(planes):
        second = planes[:, game.plane_names.index("second player to move")].any(axis=(1, 2))
        logits = np.zeros((len(planes), game.num_actions), np.float32)
        logits[:, game.parse_action("1")] = 3.0
        return logits, np.where(second, -0.999, 0.999).astype(np.float32)

    def move(margin_from: float) -> str:
        player = SearchPlayer(game, 1, evaluate, PlaySearchOptions(margin_from=margin_from), 40)
        player.new_games(ROW, np.zeros(1, np.uint64))
        for action in line:
            player.advance(ROW, np.array([action], np.int32))
        player.begin(ROW)
        return game.action_name(decide(player)[0][0])

    assert move(1.0) == "1"
    assert move(0.95) == "4"
