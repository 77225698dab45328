"""``play`` with text games: a person sees what their player is shown, and no more."""

from __future__ import annotations

import io
import re

import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from pipeline.families.text.game import INVALID
from pipeline.games.specs import parse_game
from pipeline.play.config import PlayConfig
from pipeline.play.game_in_progress import FairDice, GameInProgress
from pipeline.play.terminal import Opponent, Table, play
from pipeline.players.builtin import RandomPlayer


def played(game: str, *lines: str, **options: object) -> str:
    shown = io.StringIO()
    config = PlayConfig(model="random", game=game, **{"seed": 1, **options})
    play(config, typed=io.StringIO("".join(f"{line}\n" for line in lines)), shown=shown)
    return shown.getvalue()


@pytest.mark.parametrize("colour", ["b", "w"])
def test_a_person_sees_their_own_card_until_the_end(colour: str) -> None:
    text = played("text:KuhnPoker-v0", *["[check]", "[fold]", "[call]"] * 12, colour=colour)
    mine = "bw".index(colour)
    during, _, after = text.partition("The game is over")
    assert during.startswith(f"You are player {mine}, random is player {1 - mine}.")
    cards = re.findall(r"[Yy]our card is: '(\w)'", during)
    rounds = re.findall(r"Starting round (\d)", during)
    assert len(cards) == len(rounds) >= 4 and len(set(rounds)) == len(rounds) and during.count("Game Rules") == 1
    theirs = re.findall(r"[Yy]our card is: '(\w)'", after)
    assert "random also saw:" in after and theirs
    assert "random: [" not in during and "random moves" in during


def test_moves_that_no_list_has_are_refused_and_free_texts_are_said() -> None:
    assert "? wanted one of [fold], [call]; help lists" in played("text:KuhnPoker-v0", "[raise]")
    long = "x" * 200
    assert f"{long} [1 1]" in played("text:ConnectFour-v0", f"{long} [1 1]", seed=4)


def test_sentences_that_begin_like_a_command_are_said() -> None:
    for line in ("Resign yourself to it: [1 1]", "quit stalling [1 1]", " undo [1 1]"):
        assert line.strip() in played("text:ConnectFour-v0", line, "quit", seed=4)
    assert "the seed was 4" in played("text:ConnectFour-v0", "resign", seed=4)  # the game is over


def test_taking_back_a_move_shows_the_text_before_it() -> None:
    game = parse_game("text:TicTacToe-v0")
    lines: list[str] = []
    opponent = Opponent("random", RandomPlayer(game, 1), 1)
    table = Table(GameInProgress(game, dice=FairDice("a")), opponent, 0, lines.append)
    table.begin()
    before = lines[-1]
    table.answer("[4]")
    table.answer("undo")
    assert lines[-1].strip() == before.strip() and "player 0" in lines[0]


def test_an_invalid_move_of_the_opponent_is_said() -> None:
    game = parse_game("text:TicTacToe-v0")
    lines: list[str] = []
    opponent = Opponent("random", RandomPlayer(game, 1), 1)
    opponent.choose = lambda line: (INVALID, None)  # type: ignore[method-assign]
    table = Table(GameInProgress(game, dice=FairDice("a")), opponent, 1, lines.append)
    table.begin()
    assert "random moves   (an invalid move)" in lines and "The game is over" in lines[-1]


def test_what_a_player_says_cannot_command_the_terminal() -> None:
    assert "\x1b" not in played("text:ConnectFour-v0", "\x1b[2J [1 1]", seed=4)
