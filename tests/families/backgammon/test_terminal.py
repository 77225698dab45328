"""``play`` of backgammon: whole games by scripted input, the dice checked by their seed, undo, records, bad input."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.families.backgammon.game import OPENING_PROBABILITIES, PROBABILITIES, THROW_NAMES
from pipeline.families.backgammon.records import read_mat
from pipeline.games.contract import CHANCE
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.play.config import PlayConfig
from pipeline.play.game_in_progress import FairDice, GameInProgress
from pipeline.play.terminal import Opponent, Table, play
from pipeline.players.builtin import RandomPlayer
from pipeline.players.player import PlayerFault

GAME = parse_game("backgammon")


def run(*lines: str, model: str = "heuristic", game: str | None = "backgammon", **options) -> str:
    """Everything that is shown while these lines are typed."""
    shown = io.StringIO()
    typed = io.StringIO("".join(f"{line}\n" for line in lines))
    play(PlayConfig(model=model, game=game, seed=options.pop("seed", 1), **options), typed=typed, shown=shown)
    return shown.getvalue()


def refusals(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("? ")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_whole_game_with_dice_that_can_be_checked(tmp_path: Path) -> None:
    """The person always plays the first legal move, against random."""
    lines: list[str] = []
    table_game = GameInProgress(GAME, dice=FairDice("a seed"))
    opponent = Opponent("random", RandomPlayer(GAME, 1), 3)
    table = Table(table_game, opponent, 1, lines.append)
    table.begin()
    for _ in range(2000):
        if table_game.is_over:
            break
        assert table_game.to_move == 1
        table.answer(GAME.move_name(table_game.states[0], 0))
    text = "\n".join(lines)
    assert table_game.is_over and not refusals(text) and "The game is over" in text
    commitment = re.search(r"SHA-256 of their seed is (\w{64})", text)
    seed = re.search(r"the seed was (.*);", text)
    assert commitment and seed and text.index(commitment[0]) < 300
    assert hashlib.sha256(seed[1].encode()).hexdigest() == commitment[1]
    states = list(replay_one(GAME, table_game.actions))
    number = 0  # of the throw, as whoever checks them counts
    for state, move in zip(states, table_game.actions, strict=False):
        if GAME.to_move(state)[0] == CHANCE:
            number += 1
            share = int(hashlib.sha256(f"a seed:{number}".encode()).hexdigest()[:16], 16) / 2**64
            bounds = np.cumsum(GAME.chance(state)[0], dtype=np.float64)
            assert move == np.searchsorted(bounds / bounds[-1], share, side="right")
    table.answer("sgf game.mat")
    table.answer("sgf game.sgf")
    (record,) = read_mat(tmp_path / "game.mat", GAME)
    assert record.moves == table_game.actions and record.players == ("random", "a person")
    assert "GM[6]" in (tmp_path / "game.sgf").read_text()
    table.answer("24/23")
    assert lines[-1] == "? the game is over; undo, sgf FILE or quit"


def test_throws_have_the_chances_of_dice() -> None:
    start, later = np.zeros(21), np.zeros(21)
    state = GAME.initial(1)
    after = GAME.play(state, np.array([1], np.int32), GAME.initial_history(state))
    after = GAME.play(after, np.array([0], np.int32), GAME.initial_history(after))
    for number in range(4000):
        dice = FairDice(f"{number}")
        start[dice.outcome(GAME, state, 1)] += 1
        later[dice.outcome(GAME, after, 2)] += 1
    for counts, chances in ((start, OPENING_PROBABILITIES), (later, PROBABILITIES)):
        assert not counts[chances == 0].any()
        expected = 4000 * chances[chances > 0]
        assert ((counts[chances > 0] - expected) ** 2 / expected).sum() < 60  # chi-square with at most 20 degrees
    assert FairDice().seed != FairDice().seed


def test_undo_meets_the_same_dice_and_a_hint_is_a_move() -> None:
    text = run("hint", "undo", "24/18 24/1", "resign", "undo", "quit", seed=5)
    first, second = refusals(text)
    assert first == "? there is no move of yours to take back" and "is not a legal move here; wanted e.g." in second
    hint = re.search(r"heuristic would play (.*)", text)
    assert hint and "The game is over: O wins by resignation. You lose." in text and "the seed was 5" in text
    again = run(hint[1], "undo", hint[1], "quit", seed=5)
    boards = re.findall(r"X to move, dice \d\d, ply \d+", again)
    assert len(boards) == 4 and boards[:2] == boards[2:] and not refusals(again)
    assert len(set(re.findall(r"heuristic: .*", again))) == 1


def test_an_undo_goes_back_to_a_turn_with_a_choice() -> None:
    """In the game of the first seed with which a person who always plays the last legal move once can't move."""
    for seed in range(1000):
        lines: list[str] = []
        table_game = GameInProgress(GAME, dice=FairDice(str(seed)))
        opponent = Opponent("random", RandomPlayer(GAME, 1), seed)
        table = Table(table_game, opponent, 0, lines.append)
        table.begin()
        while "You can't move." not in lines and not table_game.is_over:
            ply, turn = len(table_game.moves), table_game.states.copy()
            table.answer(GAME.move_name(table_game.states[0], len(table_game.choices()) - 1))
        if "You can't move." in lines:
            break
    table.answer("undo")
    assert len(table_game.moves) == ply and np.array_equal(table_game.states, turn) and len(table_game.choices()) > 1


def test_an_undo_that_is_refused_leaves_the_opponents_turn() -> None:
    text = run("hint", "undo", "hint", "quit", colour="w", seed=0)
    assert refusals(text) == ["? there is no move of yours to take back"]
    before, after = re.findall(r"heuristic would play (.*)", text)
    assert before == after and not refusals(run("undo", before, "quit", colour="w", seed=0))[1:]


def test_an_opponent_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is its turn still: nothing that is typed is played for it, and resigning is the person's."""
    lines: list[str] = []
    table_game = GameInProgress(GAME, dice=FairDice("a seed"))
    opponent = Opponent("random", RandomPlayer(GAME, 1), 3)
    table = Table(table_game, opponent, 0, lines.append)
    table.begin()
    choose = opponent.choose

    def fail(game: GameInProgress) -> tuple[int, str]:
        raise PlayerFault("broken", "random", "took too long")

    monkeypatch.setattr(opponent, "choose", fail)
    table.answer(GAME.move_name(table_game.states[0], 0))
    ply = len(table_game.moves)
    assert table_game.to_move == 1 and lines[-1].startswith("? ") and "took too long" in lines[-1]
    for typed in (GAME.move_name(table_game.states[0], 0), "hint"):
        lines.clear()
        table.answer(typed)
        assert len(table_game.moves) == ply and "took too long" in lines[-1]
    table.answer("resign")
    table.answer("sgf game.sgf")
    assert "RE[B+1R]" in (tmp_path / "game.sgf").read_text()
    table.answer("undo")
    monkeypatch.setattr(opponent, "choose", choose)
    table.answer("hint")
    assert table_game.to_move == 0 and lines[-1].startswith("random would play")


def test_hypergammon_and_the_second_side() -> None:
    text = run("hint", "quit", game="hypergammon", colour="w", model="random")
    assert text.startswith("You are O, random is X.") and "O to move, dice" in text
    assert all(throw in (*THROW_NAMES, "00") for throw in re.findall(r"dice (\d\d)", text))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": "gnubg:9"}, "wanted gnubg:0 to gnubg:4"),
        ({"model": "gtp:gnugo --mode gtp"}, "engines play Go only; the game is backgammon"),
        ({"model": "gnubg:0", "game": "hypergammon"}, "backgammon only, not hypergammon"),
        ({"model": "gnubg:0", "game": "tictactoe"}, "backgammon only, not tictactoe"),
    ],
)
def test_who_cannot_play(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        run(**options)
