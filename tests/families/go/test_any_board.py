"""go:any: boards of every size, komi by game, and planes that show both to a network."""

import numpy as np
import pytest

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.go import any_board
from pipeline.games.capabilities import AllBoards, beginning, family_of, seen_by, variant
from pipeline.games.contract import Game, States
from pipeline.games.specs import are_related, largest, parse_game
from pipeline.games.testing import sample_positions


@pytest.mark.parametrize(
    ("spec", "canonical", "family", "side"),
    [
        ("go:any", "go:any", "go:any", 9),
        ("go:any,size=9", "go:any", "go:any", 9),
        ("go:any,komi=7,size=13", "go:any,size=13,komi=7", "go:any,komi=7", 13),
        ("go:any,size=5,moves=40", "go:any,size=5,moves=40", "go:any,moves=40", 5),
        ("go:any,moves=162", "go:any,moves=162", "go:any,moves=162", 9),
        ("go:13,komi=7", "go:13,komi=7", "go:13,komi=7", 13),
    ],
)
def test_specs(spec: str, canonical: str, family: str, side: int) -> None:
    game = parse_game(spec)
    assert (game.spec, family_of(game), game.board_shape) == (canonical, family, (side, side))
    assert parse_game(canonical).spec == canonical


@pytest.mark.parametrize("spec", ["go:any,size=4", "go:any,size=20", "go:any,size=x", "go:9,size=9", "go:any,side=9"])
def test_specs_that_mean_nothing(spec: str) -> None:
    with pytest.raises(UsageError):
        parse_game(spec)


def test_relations() -> None:
    assert are_related("go:any", "go:any,size=19") and are_related("gomoku:9", "gomoku:9")
    assert not are_related("go:any", "go:9") and not are_related("go:any,komi=7", "go:any")
    assert largest(["go:any", "go:any,size=13", "go:any,size=7"]).spec == "go:any,size=13"
    home, plain = parse_game("go:any,komi=7"), parse_game("go:13")
    seen = seen_by(home, plain)
    assert seen is not None and seen.spec == "go:any,size=13" and seen.max_plies == plain.max_plies
    assert seen_by(plain, home) is None and seen_by(home, parse_game("gomoku:9")) is None
    assert isinstance(home, AllBoards) and not isinstance(plain, AllBoards)
    with pytest.raises(UsageError, match="5 to 19"):
        home.on_board(4)
    assert parse_game("go:any,moves=40").on_board(13).spec == "go:any,size=13,moves=40"
    assert parse_game("go:any").on_board(13).max_plies == plain.max_plies
    limited = parse_game("go:any,moves=200")  # also where 200 is the usual limit
    assert limited.on_board(10).spec == "go:any,size=10,moves=200"
    assert limited.on_board(10).varied(1).spec == "go:any,size=10,komi=8,moves=200"
    assert family_of(limited.on_board(10)) == family_of(limited)
    much = parse_game("go:any,komi=30")
    assert parse_game(recorded := much.on_board(6).spec).spec == recorded
    with pytest.raises(UsageError, match="komi 30 on size 5; wanted a board of more points"):
        much.on_board(5)


@pytest.mark.parametrize("side", [5, 9, 13])
def test_planes_are_those_of_the_plain_game_and_what_komi_and_size_say(side: int) -> None:
    game, plain = parse_game(f"go:any,size={side}"), parse_game(f"go:{side}")
    states, history = sample_positions(plain, 6, 1, 0.2)
    setups = np.random.default_rng(side).integers(-30, 31, len(states))
    legal, planes = game.legal_and_observe(with_komi(game, states, setups), history)
    wanted_legal, wanted = plain.legal_and_observe(states, history)
    assert (legal == wanted_legal).all() and (planes[:, : plain.num_planes] == wanted).all()
    told = planes[:, plain.num_planes :]
    assert told.shape[1] == game.num_global_planes and (told == told[:, :, :1, :1]).all()
    for row in range(len(states)):
        komi = 7.5 + setups[row] / 2
        for_mover = komi if plain.to_move(states[row : row + 1])[0] == 1 else -komi
        says = [for_mover > bound for bound in any_board.KOMI]
        says += [komi == round(komi)] + [side >= least for least in any_board.SIDES]
        assert told[row, :, 0, 0].tolist() == says


def with_komi(game: Game, states: States, setups: np.ndarray) -> States:
    """The same positions with this many half points more komi."""
    rows = [game.varied(setup).adopt(states[row : row + 1]) for row, setup in enumerate(setups.tolist())]
    return np.concatenate(rows)


def test_komi_decides_by_game() -> None:
    game = parse_game("go:any,size=5,komi=7")
    states = game.begin(np.array([0, 1, -14, -15, 40]))
    history = game.initial_history(states)
    for action in (12, 25, 25):  # one black stone owns the board: 25 points
        states = game.play(states, np.full(len(states), action, np.int32), history)
        history.append(np.arange(len(states)), game.keys(states))
    assert game.scores(states).tolist() == [18, 17.5, 25, 25.5, -2]
    assert game.returns(states).tolist() == [1, 1, 1, 1, -1]
    for setup, score in zip((0, 1, -14, -15, 40), game.scores(states).tolist(), strict=True):
        other = game.varied(setup)
        assert other.scores(other.adopt(states[:1]))[0] == score and other.komi == 7 + setup / 2
        assert (other.initial(1) == game.begin(np.array([setup]))).all()


def test_other_games_have_one_beginning() -> None:
    game = parse_game("gomoku:9")
    assert (beginning(game, np.zeros(3, int)) == game.initial(3)).all() and variant(game, 0) is game
    with pytest.raises(IllegalMove, match="setup 2"):
        beginning(game, np.array([0, 2]))
    with pytest.raises(IllegalMove, match="setup -1"):
        variant(game, -1)
