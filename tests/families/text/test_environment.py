"""TextArena's names: what players see there and here, and names that can't be played."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

import nltk
import textarena

from benchmarks.text_environments import random_game
from pipeline.errors import UsageError
from pipeline.families.text.environment import Environment, registered
from pipeline.families.text.game import TO_MOVE, TextGame
from pipeline.families.text.texts import TEXTS
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game

# One of each observation wrapper, of boards, cards and negotiation; with roles; with one player; with three; one that
# tells more to who is asked
NAMES = ["SimpleTak-v0", "KuhnPoker-v0", "ConnectFour-v0", "PigDice-v0", "SimpleNegotiation-v0", "TruthAndDeception-v0",
         "ColonelBlotto-v0", "Briscola-v0", "IteratedPrisonersDilemma-v0", "2048-v0", "ThreePlayerTicTacToe-v0",
         "ThreePlayerIPD-v0", "TwoDollar-v0"]  # fmt: skip


def theirs(name: str, seed: int, texts: list[str], num_players: int) -> list[str | None]:
    """What TextArena's own wrappers show before each text, and after the last; None where they raise."""
    environment = textarena.make(name)
    random.seed(seed)
    environment.reset(num_players=num_players, seed=seed)
    shown: list[str | None] = []
    for text in [*texts, None]:
        try:
            shown.append(environment.get_observation()[1])
        except (ValueError, IndexError):  # a wrapper that wants a board where there is none
            shown.append(None)
        if text is not None:
            environment.step(text)
    return shown


@pytest.mark.parametrize("form", ["", "-train"])
@pytest.mark.parametrize("name", NAMES)
def test_players_see_what_textarenas_wrapper_shows(name: str, form: str) -> None:
    """Word for word, but for the line break that some of its wrappers put first."""
    game = parse_game(f"text:{name}{form},plies=30")
    compared = 0
    for seed in range(2):
        moves, said, _ = random_game(game, seed)
        shown, texts = [], []
        for action, states in zip(moves := game.recalled(moves, said), replay_one(game, moves), strict=False):
            if game.plies(states)[0]:
                shown.append(game.observation(states[0]))
                texts.append(game.listed(states[0])[action] if game.lists(states[0]) else TEXTS.text(action))
        expected = theirs(name + form, seed, texts, game.num_seats[0])
        for ours, other in zip(shown, expected, strict=False):
            if other is not None:
                assert other.removeprefix("\n").removeprefix(" ") == ours
                compared += 1
    assert compared or (name, form) == ("KuhnPoker-v0", "-train")


def test_what_the_names_stand_for() -> None:
    assert [registered(f"SimpleTak-v0{form}").show for form in ("", "-train", "-raw")] == ["whole", "board", "whole"]
    assert registered("PigDice-v0-train").show == "position"
    assert registered("SimpleNegotiation-v0").show == "messages" == registered("Briscola-v0-train").show
    assert [len(registered(f"ConnectFour-v0{form}").wrappers) for form in ("", "-train", "-raw")] == [1, 1, 0]
    game = parse_game("text:SimpleTak-v0-train,show=board")
    assert game.spec == "text:SimpleTak-v0-train" and parse_game(game.spec).spec == game.spec
    assert parse_game("text:SimpleTak-v0-train,show=whole").spec == "text:SimpleTak-v0-train,show=whole"
    both = parse_game("text:SimpleTak-v0-train+SimpleTak-v0")
    assert both.spec == "text:SimpleTak-v0-train+SimpleTak-v0"
    states = both.play(both.initial(2), np.array([0, 1]), both.initial_history(both.initial(2)))
    assert [both.observation(state).startswith("[GAME]") for state in states] == [False, True]


def test_action_wrappers_are_textarenas() -> None:
    """NAME adds brackets that are missing, NAME-raw doesn't."""
    for name, column in (("ConnectFour-v0", True), ("ConnectFour-v0-train", True), ("ConnectFour-v0-raw", False)):
        game = parse_game(f"text:{name}")
        state = game.play(game.initial(1), np.array([0]), game.initial_history(game.initial(1)))
        state = game.play(state, np.array([game.parse_move(state[0], "3")]), game.initial_history(state))
        assert (state[0, TO_MOVE] == 1) == column


def test_an_environments_luck_is_its_seeds_alone() -> None:
    """Also what its constructor draws."""
    kind = registered("ConnectFour-v0")

    class Drawn(kind.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.drawn = random.random(), np.random.random()
            super().__init__()

    entry = kind._replace(kind=Drawn, settings={}, wrappers=())
    before = random.getstate()
    made = [Environment("X", entry, {}, seed)._env.drawn for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2] and random.getstate() == before


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("KuhnPoker-v9", "unknown environment; wanted KuhnPoker-v0"),
        ("kuhnpoker-v0", "unknown environment; wanted KuhnPoker-v0"),
        ("ConectFour-v0-train", "wanted ConnectFour-v0-train"),
        ("§§§", "unknown environment; wanted a name such as KuhnPoker-v0; docs/text.md lists them"),
        ("Debate-v0", "it asks language models on the network; wanted an environment that needs none"),
        ("GuessWho-v0", "it asks language models on the network"),
        ("ThreePlayerTicTacToe-v0,players=2", "wanted another number of players"),
    ],
)
def test_names_that_are_refused(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as error:
        parse_game(f"text:{name}")
    assert len(str(error.value)) < 400


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """An environment that needs nltk's data is refused in one line, unless they are installed."""
    asked: list[Any] = []
    monkeypatch.setattr(nltk, "download", lambda *names, **_: asked.append(names))
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(UsageError, match=r"it needs nltk's words, which aren't installed: python -m nltk"):
        parse_game("text:WordChains-v0")
    assert not asked
    words = tmp_path / "corpora/words"
    words.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (words / name).write_text("\n".join(["apple", "elder", "rather", "orange", "exact", "tango"]))
    (words / "README").write_text("")
    game = parse_game("text:WordChains-v0")
    assert isinstance(game, TextGame) and game.speaks and not asked


def test_a_game_of_one_player() -> None:
    game = parse_game("text:2048-v0-ultra-easy,plies=100")
    states = game.play(game.initial(1), np.array([3]), game.initial_history(game.initial(1)))
    assert game.num_seats == [1]
    while not game.is_over(states)[0]:
        assert game.to_move(states)[0] == 0
        action = int(np.random.default_rng(int(states[0, 0])).choice(game.actions(states[0])))
        states = game.play(states, np.array([action]), game.initial_history(states))
    assert game.returns(states)[0] == np.sign(game.rewards(states)[0, 0]) and game.rewards(states)[0, 1] == 0
