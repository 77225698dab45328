"""Environments whose actions are texts: what is said, recorded and said again, and environments that changed since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from benchmarks.text_environments import outcome, play, random_game, replayed
from pipeline.errors import FileError, GameFault, IllegalMove, UsageError
from pipeline.families.text import game as text_game
from pipeline.families.text.environment import registered
from pipeline.families.text.game import INVALID, SPOKEN, TO_MOVE, TextGame
from pipeline.families.text.game_tree import build_tree
from pipeline.families.text.texts import FIRST, MOST_CHARACTERS, OVERHEAD, TEXTS, Texts, clean
from pipeline.families.text.words import Message, suggested_actions
from pipeline.games.capabilities import recalled, written
from pipeline.games.specs import parse_game
from pipeline.players.builtin import RandomPlayer
from pipeline.run.matches import MatchGame, verify_games

FOUR = "text:ConnectFour-v0"


def said(game: TextGame, *texts: str, seed: int = 0) -> tuple[list[int], np.ndarray]:
    """(the actions, the last state [1, S]) of a game in which these texts are said."""
    states = game.play(game.initial(1), np.array([seed]), game.initial_history(game.initial(1)))
    moves = [seed]
    for text in texts:
        moves.append(game.parse_move(states[0], text))
        states = game.play(states, np.array(moves[-1:]), game.initial_history(states))
    return moves, states


def test_what_is_said_is_played_recorded_and_said_again() -> None:
    game = parse_game(FOUR)
    moves, states = said(game, "[col 3]", "I take [4]", "3")
    assert all(move >= FIRST for move in moves[1:]) and states[0, TO_MOVE] == 1
    assert "into column 4" in game.observation(states[0]) and "[Player 0] [3]" in game.observation(states[0])
    assert game.move_name(states[0], moves[2]) == "I take [4]"
    numbers, texts = game.written(moves)
    assert numbers == [0, SPOKEN, SPOKEN, SPOKEN] and [text for text, _ in texts] == ["[col 3]", "I take [4]", "3"]
    assert recalled(parse_game(FOUR), numbers, texts) == moves
    assert recalled(game, *json.loads(json.dumps(written(game, moves)))) == moves


def test_who_connects_four_wins() -> None:
    game = parse_game(FOUR)
    _, states = said(game, *["[1]", "[2]"] * 3, "[1]")
    assert game.is_over(states)[0] and game.returns(states)[0] == 1 and game.rewards(states).tolist() == [[1, -1]]
    with pytest.raises(IllegalMove, match="the game is over"):
        game.play(states, np.array([INVALID]), game.initial_history(states))


def test_the_environment_says_which_texts_are_invalid() -> None:
    game = parse_game(FOUR)
    _, states = said(game, "[9]")
    assert game.refused(states)[0] and game.to_move(states)[0] == 0 and not game.is_over(states)[0]
    _, states = said(game, "[9]", "[1]")
    assert not game.refused(states)[0] and game.to_move(states)[0] == 1
    _, states = said(game, "[9]", "")
    assert game.refused(states)[0] and game.lost_by_invalid(states)[0] == 0 and game.returns(states)[0] == -1


@pytest.mark.parametrize("name", ["ConnectFour-v0", "SimpleNegotiation-v0", "TruthAndDeception-v0", "Othello-v0-tiny",
                                  "KuhnPoker-v0", "2048-v0-ultra-easy"])  # fmt: skip
def test_random_games_are_replayed_with_the_same_observations(name: str) -> None:
    found = play(name)
    assert outcome(replayed(dict(found))) == outcome(found)
    kind = "lists its actions" if name.startswith("Kuhn") else "actions are texts"
    assert outcome(found) == f"{'one player' if name.startswith('2048') else 'two players'}, {kind}"


def test_random_players_say_the_same_in_every_process() -> None:
    """Suggestions depend on the position alone, not on what was said before."""
    game = parse_game(FOUR)
    for number in range(50):
        TEXTS.number(f"noise {number}")
    states = said(game)[1]
    assert game.listed(states[0])[:2] == ("[col 4]", "[col 1]") and len(game.listed(states[0])) > 8
    moves = game.moves(states, game.initial_history(states)).of(0)
    assert (np.diff(moves) > 0).all() and {TEXTS.text(int(one)) for one in moves} == set(game.listed(states[0]))
    player = RandomPlayer(game, 1)
    player.new_games(np.array([0]), np.array([5], np.uint64))
    player.advance(np.array([0]), np.array([0], np.int32))
    player.begin(np.array([0]))
    (action,) = player.step().actions.tolist()
    assert action in moves


def test_suggestions() -> None:
    rules = Message(-1, "Move like [e2e4] or [pass]. Rows 1 to 8. [GAME] says so.", "prompt")
    found = suggested_actions([rules])
    assert found[:2] == ("[e2e4]", "[pass]") and len(found) == 64 and "[GAME]" not in found
    listed = Message(-1, "Valid moves: [a1], [b2]", "board")
    assert suggested_actions([rules, listed]) == ("[a1]", "[b2]")
    assert set(suggested_actions([Message(-1, "You may talk now", "prompt")])) == {"You", "may", "talk", "now"}
    assert suggested_actions([Message(0, "[c3]", "action")]) == ("pass",)


def test_texts_that_are_unfit() -> None:
    game = parse_game(FOUR)
    moves, states = said(game, "[1]\0\ud800", "x" * 2 * MOST_CHARACTERS + "[2]")
    _, texts = game.written(moves)
    assert texts[0][0] == "[1]\ufffd\ufffd" and len(texts[1][0]) == MOST_CHARACTERS and texts[1][0].endswith("x[2]")
    assert "into column 2" in game.observation(states[0])
    assert "\n" not in game.move_name(states[0], TEXTS.number(clean("[1]\n\x1b[31m")))
    assert recalled(game, *game.written(moves)) == moves


def test_texts_used_longest_ago_are_forgotten() -> None:
    texts = Texts(3 * (OVERHEAD + 1))
    numbers = [texts.number(letter) for letter in "abc"]
    assert len(set(numbers)) == 3 and texts.number("a") == numbers[0]
    texts.number("d")
    assert len(texts) == 3 and numbers[1] not in texts and texts.text(numbers[0]) == "a"
    with pytest.raises(KeyError):
        texts.text(numbers[1])
    assert all(FIRST <= number < 2**31 for number in numbers)


def test_texts_with_the_same_hash_have_different_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Same:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def digest(self) -> bytes:
            return b"\xff\xff\xff\xff"

    monkeypatch.setattr("pipeline.families.text.texts.hashlib.blake2b", Same)
    texts = Texts()
    assert [texts.number(one) for one in ("a", "b", "a")] == [2**31 - 1, FIRST, 2**31 - 1]
    assert texts.text(FIRST) == "b"


def test_a_game_whose_texts_were_forgotten_is_a_fault_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game(FOUR)
    moves, states = said(game, "[1]", "[2]")
    monkeypatch.setattr(text_game, "TEXTS", Texts())
    with pytest.raises(IllegalMove, match="no text that was said in this process"):
        game.play(states, np.array([moves[1]]), game.initial_history(states))
    game._known.clear()
    with pytest.raises(GameFault, match="a text of this game was forgotten"):
        game.observation(states[0])


def match_game(moves: list[int], texts: Any, result: int) -> MatchGame:
    return MatchGame(index=0, challenger_player=0, opening_plies=0, moves=moves, said=texts, end="played_out",
                     values_to_move=[None] * len(moves), result_first_player=result)  # fmt: skip


def test_a_difference_is_named_by_file_game_and_ply(monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game(FOUR)
    moves, _ = said(game, *["[1]", "[2]"] * 3, "[1]")
    numbers, texts = game.written(moves)
    whole = match_game(numbers, texts, 1)
    verify_games(Path("games.jsonl"), parse_game(FOUR), [whole])
    assert MatchGame.model_validate_json(whole.model_dump_json()) == whole
    assert "said" not in match_game([1, 2], (), 1).model_dump_json()

    kind = registered("ConnectFour-v0").kind
    original = kind._render_board

    def another(self: Any) -> str:
        return str(original(self)).replace("O", "Q")

    monkeypatch.setattr(kind, "_render_board", another)
    with pytest.raises(FileError, match=r"^games\.jsonl: game 0, ply 3: the environment's observation differs from the "
                                        r"recorded one; was another version of textarena used\?"):  # fmt: skip
        verify_games(Path("games.jsonl"), parse_game(FOUR), [whole])
    with pytest.raises(IllegalMove, match="ply 3: the environment's observation differs"):
        parse_game(FOUR).recalled(numbers, texts)


def test_an_environment_that_ends_earlier_or_raises_now(monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game(FOUR)
    moves, _ = said(game, "[1]", "[2]", "[3]")
    numbers, texts = game.written(moves)
    kind = registered("ConnectFour-v0").kind
    monkeypatch.setattr(kind, "_check_win", lambda self, row, col: True)
    with pytest.raises(IllegalMove, match=r"ply 2: the environment's observation differs .* It ends the game here"):
        parse_game(FOUR).recalled(numbers, texts)
    monkeypatch.setattr(kind, "_check_win", None)
    with pytest.raises(IllegalMove, match=r"ply 1: text:ConnectFour-v0: at action '\[1\]' it raised TypeError"):
        parse_game(FOUR).recalled(numbers, texts)
    with pytest.raises(GameFault, match=r"at action '\[5\]' it raised TypeError"):
        said(parse_game(FOUR), "[5]")


@pytest.mark.parametrize(
    ("moves", "texts", "problem"),
    [
        ([0, SPOKEN], (), "0 texts for 1 moves that are texts"),
        ([0, 3], (("[1]", 1),), "1 texts for 0 moves that are texts"),
        ([0, SPOKEN, 3], (("[1]", None),), "ply 2: action 3; wanted a text"),
        ([9_999, SPOKEN], (("[1]", 1),), "ply 1: a text, but"),
        ([0, SPOKEN], (("[1]", 1),), "ply 1: the environment's observation differs"),
    ],
)
def test_records_that_contradict_the_game(moves: list[int], texts: Any, problem: str) -> None:
    game = parse_game(FOUR)
    right = game.written(said(game, "[1]")[0])[1][0][1]
    texts = tuple((text, right if number is None else number) for text, number in texts)
    with pytest.raises(IllegalMove, match=problem):
        game.recalled(moves, texts)


def test_texts_in_games_without_texts() -> None:
    with pytest.raises(IllegalMove, match="lists its actions"):
        parse_game("text:KuhnPoker-v0").recalled([0, SPOKEN], (("[bet]", 1),))
    with pytest.raises(IllegalMove, match="1 texts are among the moves, but gomoku:9 has none"):
        recalled(parse_game("gomoku:9"), [3], (("[3]", 1),))
    assert written(parse_game("gomoku:9"), [3]) == ([3], ())
    kuhn = parse_game("text:KuhnPoker-v0")
    moves, texts, _ = random_game(kuhn, 3)
    assert texts == () and kuhn.recalled(moves, ()) == moves


def test_several_environments_may_list_actions_or_not() -> None:
    game = parse_game("text:KuhnPoker-v0+ConnectFour-v0")
    assert game.speaks and [game.lists(said(game, seed=seed)[1][0]) for seed in (0, 1)] == [True, False]
    for seed in range(4):
        moves, texts, states = random_game(game, seed)
        assert bool(texts) == bool(seed % 2) and len(game.recalled(moves, texts)) == game.plies(states)[0]


def test_games_of_texts_have_no_tree() -> None:
    with pytest.raises(UsageError, match="its actions are texts; wanted an environment that lists its actions"):
        build_tree(parse_game(FOUR))


def test_an_answer_without_an_action_is_said_as_a_whole() -> None:
    game = parse_game(FOUR)
    state = said(game)[1][0]
    assert TEXTS.text(game.answered(state, None, "column 3")) == "column 3"
    assert TEXTS.text(game.answered(state, "[3]", "I say [3]")) == "[3]"
    kuhn = parse_game("text:KuhnPoker-v0")
    state = said(kuhn)[1][0]
    assert kuhn.answered(state, "[bet]", "") == kuhn.answered(state, None, "I think [so]. [Bet], not [check]") == 1
    assert kuhn.answered(state, "[so]", "[bet]") == kuhn.answered(state, None, "bet") == INVALID
