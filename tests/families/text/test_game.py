"""Environments as a game: replay, seeds, invalid moves, several environments, and those that misbehave."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from pipeline.errors import GameFault, IllegalMove, UsageError
from pipeline.families.text import environment as environments
from pipeline.families.text.game import INVALID, SEED, SEEDS, TextGame, _value
from pipeline.families.text.words import LISTED, SHOWN, Message, listed_actions, plain
from pipeline.games.contract import CHANCE
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game

KUHN = "text:KuhnPoker-v0,show=round"


def random_game(game: TextGame, seed: int, invalid: float = 0.0) -> tuple[list[int], list[str], np.ndarray]:
    """(moves, what was shown before each, the last state [1, S])."""
    generator = np.random.default_rng(seed)
    states = game.initial(1)
    history = game.initial_history(states)
    moves, shown = [], []
    while not game.is_over(states)[0]:
        if game.to_move(states)[0] == CHANCE:
            move = int(generator.integers(SEEDS))
        else:
            shown.append(game.observation(states[0]))
            move = INVALID if generator.random() < invalid else int(generator.integers(len(game.listed(states[0]))))
        moves.append(move)
        states = game.play(states, np.array([move]), history)
    return moves, shown, states


@pytest.mark.parametrize("kind", LISTED)
def test_every_environment_that_is_played_lists_all_it_takes(kind: str) -> None:
    """Random legal play ends by the rules: nothing listed is refused."""
    from textarena.envs.registration import ENV_REGISTRY

    name = min((one for one in (*ENV_REGISTRY, *environments.OWN) if one.startswith(f"{kind}-v0")), key=len)
    game = parse_game(f"text:{name},plies=400")
    for seed in range(3):
        moves, shown, states = random_game(game, seed)
        assert game.lost_by_invalid(states)[0] == -1 and not game.cut_short(states)[0]
        assert len(shown) == len(moves) - 1 == game.plies(states)[0] - 1
        assert game.returns(states)[0] == np.sign(game.rewards(states)[0] @ [1, -1])


@pytest.mark.parametrize(("text", "value"), [("on", True), ("True", True), ("off", False), ("False", False), ("3", 3),
                                             ("10000", 10000), ("-2", -2), ("0.50", 0.5)])
def test_settings_are_read_as_specs_write_them(text: str, value: bool | float) -> None:
    found = TextGame.from_spec("KuhnPoker-v0", {"max_rounds": text})
    assert found.spec == f"text:KuhnPoker-v0,max_rounds={value}"
    assert parse_game(found.spec).spec == found.spec and found._settings == {"max_rounds": value}
    for as_text in ("007", "1e5", "0.00000001", "1.", "--1"):
        assert _value(as_text) == as_text


def test_a_game_is_replayed_from_its_moves_whatever_is_played_meanwhile() -> None:
    game = TextGame.from_spec("KuhnPoker-v0", {})
    moves, shown, states = random_game(game, 5, invalid=0.1)
    other = TextGame.from_spec("KuhnPoker-v0", {})
    again = []
    for state in replay_one(other, moves):
        random.random()  # the global stream goes on, and another game is played in between
        random_game(other, int(moves[0]))
        if not state[0, 2] and game.to_move(state)[0] != CHANCE:
            again.append(other.observation(state[0]))
    assert again == shown
    assert (list(replay_one(other, moves))[-1] == states).all()
    before = random.getstate()
    random_game(other, 8)
    assert random.getstate() == before


def test_cards_depend_on_the_seed_and_are_dealt_evenly() -> None:
    game = parse_game(KUHN)
    states = game.play(game.initial(300), np.arange(300), game.initial_history(game.initial(300)))
    cards = [game.observation(state).split("Your card is: '")[1][0] for state in states]
    assert all(80 <= cards.count(card) <= 120 for card in "JQK")
    assert (game.to_move(states) == 1).all()  # TextArena's player 1 begins the first round


def test_an_invalid_move_is_forgiven_once_then_loses() -> None:
    game = parse_game(KUHN)
    states = game.initial(1)
    history = game.initial_history(states)
    for move in (0, INVALID):
        states = game.play(states, np.array([move]), history)
    assert not game.is_over(states)[0] and game.to_move(states)[0] == 1
    assert game.observation(states[0]).endswith("\nRefused.")
    states = game.play(states, np.array([INVALID]), history)
    assert game.is_over(states)[0] and game.lost_by_invalid(states)[0] == 1
    assert game.rewards(states).tolist() == [[1, -1]] and game.returns(states)[0] == 1


def test_answers_are_read_whatever_their_case_and_blanks() -> None:
    game = parse_game(KUHN)
    state = game.play(game.initial(1), np.array([0]), game.initial_history(game.initial(1)))[0]
    assert game.listed(state) == ("[check]", "[bet]")
    readings = {"[check]": 0, "[BET]": 1, "[ bet ]": 1, "[fold]": INVALID, "bet": INVALID, "": INVALID}
    assert {text: game.read(state, text) for text in readings} == readings
    assert [game.parse_move(state, game.move_name(state, move)) for move in (0, 1, INVALID)] == [0, 1, INVALID]
    with pytest.raises(IllegalMove, match=r"'\[fold\]': wanted one of \[check\], \[bet\]"):
        game.parse_move(state, "[fold]")
    for move in (2, -1, 9_998):
        with pytest.raises(IllegalMove, match="not one of the listed actions"):
            game.play(state[None], np.array([move]), game.initial_history(state[None]))


def test_several_environments_take_turns_by_the_seed() -> None:
    game = parse_game("text:KuhnPoker-v0+SimpleTak-v0")
    states = game.play(game.initial(4), np.arange(4), game.initial_history(game.initial(4)))
    assert [game.environment_of(state) for state in states] == [0, 1, 0, 1]
    assert ["Kuhn" in game.observation(state) for state in states] == [True, False, True, False]
    assert game.moves(states, game.initial_history(states)).counts.tolist() == [2, 16, 2, 16]


def test_a_game_is_cut_short() -> None:
    game = parse_game("text:SimpleTak-v0,plies=4")
    _, _, states = random_game(game, 0)
    assert game.cut_short(states)[0] and game.returns(states)[0] == 0 and game.plies(states)[0] == 4
    assert game.rewards(states).tolist() == [[0, 0]]


def test_settings_of_an_environment_stand_in_the_spec() -> None:
    game = parse_game("text:KuhnPoker-v0,show=round,max_rounds=1,reply=16")
    assert game.spec == "text:KuhnPoker-v0,max_rounds=1,show=round,reply=16" == parse_game(game.spec).spec
    moves, _, _ = random_game(game, 1)
    assert len(moves) <= 4


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("text", "no environment; wanted e.g. text:KuhnPoker-v0"),
        ("text:KuhnPoker-v0,show=all", "show=all; wanted one of whole, messages, board, position, newest, grid, round"),
        ("text:KuhnPoker-v0,reply=x", "reply=x; wanted a number"),
        ("text:KuhnPoker-v0,rounds=3", "creating it raised .*; wanted settings such as max_rounds=3; every .* show"),
        ("text:KuhnPoker-v0+SimpleTak-v0,board_size=4", "several environments can't have settings"),
    ],
)
def test_specs_that_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_game(spec)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("textarena")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'mugo\[text\]'"):
        TextGame.from_spec("KuhnPoker-v0", {})


def test_an_environment_that_raises_is_a_fault_of_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    game = TextGame.from_spec("KuhnPoker-v0", {})
    kind = environments.registered("KuhnPoker-v0").kind
    original = kind.step

    def step(self: Any, action: str) -> Any:
        if action == "[bet]":
            raise KeyError("no chips")
        return original(self, action)

    monkeypatch.setattr(kind, "step", step)
    states = game.initial(1)
    history = game.initial_history(states)
    states = game.play(states, np.array([0]), history)
    with pytest.raises(GameFault, match=r"text:KuhnPoker-v0: at action '\[bet\]' it raised KeyError: 'no chips'"):
        game.play(states, np.array([1]), history)
    assert game.to_move(game.play(states, np.array([0]), history))[0] == 0  # the game itself is none the worse


def test_a_refused_player_of_a_round_still_sees_its_card() -> None:
    """The preset text-kuhnchips has prompts of 200 characters, whose end counts."""
    kind = environments.registered("KuhnChips-v0")
    game = environments.Environment("KuhnChips-v0", kind, {}, seed=1)
    for action in ("[check]", "[bet]", "[nothing]"):
        game.step(action)
    text = SHOWN["round"](game.messages[game.to_move])
    assert "Your card is: 'K'" in text[-200:] and text.endswith("\nRefused.")


def test_what_players_are_shown() -> None:
    view = [
        Message(-1, "You are Player 0 in Chess.\nRules", "prompt"),
        Message(-1, "Current scores: Player 0: '1'", "event"),
        Message(-1, "### Round 2", "event"),
        Message(-1, "Board A\nAvailable Moves: [1], [2]", "board"),
        Message(0, "I say [9]. Valid actions: [7]", "action"),
        Message(-1, "Board B\nAvailable Moves: [2]", "board"),
        Message(-1, "Invalid: [7]", "admin"),
    ]
    assert listed_actions(view) == ("[2]",)
    assert SHOWN["newest"](view) == "You are Player 0 in Chess.\nBoard B\nAvailable Moves: [2]\nInvalid: [7]"
    assert SHOWN["round"](view).startswith(
        "You are Player 0 in Chess.\nCurrent scores: Player 0: '1'\n### Round 2\nBoard A"
    )
    tak = "You are Player 1 in SimpleTak.\nOn the board, your stones appear as 'X' and your opponent's appear as 'O'."
    drawn = Message(-1, "Current Board:\n\n+----+----+\n| 0  | O  |\n+----+----+\n| X  | 12 |\n+----+----+\n", "board")
    assert SHOWN["grid"]([Message(-1, tak, "prompt"), view[3], drawn]) == "0 X\nO 12"
    assert SHOWN["grid"]([view[0], drawn]) == "You are Player 0 in Chess.\n0 O\nX 12"
    assert "I say" not in SHOWN["round"](view) and "[Player 0] I say [9]" in SHOWN["whole"](view)
    assert SHOWN["board"](view).endswith("Board B\nAvailable Moves: [2]") and "Board A" not in SHOWN["board"](view)
    assert plain(" [ Col\n 3] ") == "[col 3]"
    assert SEED == 6
