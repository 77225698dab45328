"""``play`` with dice, in a toy game: throws that can be checked, undo, and what is refused."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import pytest

from pipeline.errors import UsageError
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.play.config import PlayConfig
from pipeline.play.game_in_progress import FairDice, GameInProgress
from pipeline.play.terminal import Opponent, Table, open_opponent
from pipeline.players.builtin import RandomPlayer
from pipeline.progress import SILENT
from tests.games.toys import DiceRace

GAME = DiceRace()


class ThrowAgain(DiceRace):
    """A player who throws a 3 throws again, so throws and turns don't alternate. The die 3 never stays."""

    def play(self, states, actions, history):
        after = super().play(states, actions, history)
        after[:, 3][(states[:, 3] == 0) & (after[:, 3] == 3)] = 0
        return after


def table_of(game: AnyGame, person: int = 0, seed: str = "a seed") -> tuple[GameInProgress, Table, list[str]]:
    lines: list[str] = []
    played = GameInProgress(game, dice=FairDice(seed))
    opponent = Opponent("random", RandomPlayer(game, 1), 3)
    return played, Table(played, opponent, person, lines.append), lines


@pytest.mark.parametrize("game", [GAME, ThrowAgain(8)])
def test_every_throw_is_the_seeds(game: DiceRace) -> None:
    played, table, lines = table_of(game)
    table.begin()
    assert lines[0] == "You are X, random is O. Type a move (step), or help."
    while not played.is_over:
        table.answer("step")
    assert "The game is over" in lines[-1] and "the seed was a seed" in lines[-1]
    state, number = game.initial(1), 0
    for move in played.actions:
        if game.to_move(state)[0] == CHANCE:
            number += 1
            share = Fraction(int(hashlib.sha256(f"a seed:{number}".encode()).hexdigest()[:16], 16), 2**64)
            assert move == (share >= 0.5) + (share >= 0.8)
        state = game.play(state, [move], game.initial_history(state))


def test_undo_meets_the_same_dice_and_a_game_may_have_no_record() -> None:
    played, table, lines = table_of(GAME)
    table.begin()
    before = list(played.moves)
    for typed in ("run", "undo", "hint", "sgf game.sgf", "fly", "resign"):
        table.answer(typed)
    assert played.moves == before and any(line.startswith("random would play ") for line in lines)
    refusals = [line for line in lines if line.startswith("? ")]
    assert refusals[0] == "? dicerace:6 isn't written in SGF" and "'fly' is no move here" in refusals[1]
    assert "O wins by resignation. You lose." in lines[-1]


def test_who_cannot_play() -> None:
    with pytest.raises(UsageError, match="engines play Go only; the game is dicerace:6"):
        open_opponent(PlayConfig(model="gtp:gnugo --mode gtp"), GAME, None, SILENT)
    with pytest.raises(UsageError, match="games here have no handicap"):
        open_opponent(PlayConfig(model="handicap:3:random"), GAME, None, SILENT)
