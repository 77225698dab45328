"""Games of all board sizes, made of games of one: planes, specs, which boards their models play, and a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.all_boards import sides
from pipeline.games.capabilities import AllBoards, family_of, seen_by
from pipeline.games.contract import Game, History, Planes, States
from pipeline.games.specs import are_related, parse_game
from pipeline.games.testing import check_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.networks.architecture import Architecture
from pipeline.networks.inference import make_evaluators
from pipeline.run.models import Model, read_model
from pipeline.run.shards import newest_shards
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init

HOMES = {"gomoku:any": 9, "gomoku:any,capture": 9, "othello:any": 8}
SIZES = {"gomoku": range(9, 20), "othello": range(4, 17, 2)}


def random_positions(game: Game) -> tuple[States, History]:
    """Of 30 random games, after 20 plies."""
    generator = np.random.default_rng(1)
    states = game.initial(30)
    history = game.initial_history(states)
    for _ in range(20):
        legal = game.legal(states, history)
        actions = (legal * generator.random(legal.shape)).argmax(axis=1).astype(np.int32)
        states = game.play(states, actions, history)
        history.append(np.arange(30), game.keys(states))
    assert not game.is_over(states).any()
    return states, history


@pytest.mark.parametrize("spec", [*HOMES, "gomoku:any,opponents", "othello:any,size=6", "gomoku:any,size=11,exact"])
def test_they_keep_the_contract(spec: str) -> None:
    check_game(parse_game(spec))


@pytest.mark.parametrize("spec", HOMES)
def test_rules_are_those_of_one_board_and_planes_tell_its_size(spec: str) -> None:
    home = parse_game(spec)
    assert isinstance(home, AllBoards) and home.board_shape == (HOMES[spec],) * 2 and family_of(home) == spec
    name, _, rules = spec.partition("any")
    bounds = np.array(sides(SIZES[name.rstrip(":")]))
    for size in (HOMES[spec], 12):
        game, plain = home.on_board(size), parse_game(f"{name}{size}{rules}")
        states, history = random_positions(plain)
        assert (game.legal(states, history) == plain.legal(states, history)).all()
        legal = plain.legal(states, history)
        ours, theirs = game.observe(states, legal), plain.observe(states, legal)
        assert (ours[:, : plain.num_planes] == theirs).all()
        told = ours[:, plain.num_planes :].reshape(len(states), game.num_global_planes, -1)
        assert (told == (size >= bounds)[:, None]).all()
    assert parse_game(game.spec).spec == game.spec and game.spec == f"{name}any,size=12{rules}"
    assert are_related(game.spec, spec) and not are_related(f"{name}12{rules}", spec)


def test_a_model_of_all_boards_plays_each() -> None:
    game = parse_game("gomoku:any")
    seen = seen_by(game, parse_game("gomoku:15"))
    assert seen is not None and seen.spec == "gomoku:any,size=15" and seen_by(game, seen) is not None
    for other in ("gomoku:15,capture", "othello:8", "go:9", "gomoku:any,capture"):
        assert seen_by(game, parse_game(other)) is None
    assert seen_by(parse_game("gomoku:any,opponents"), parse_game("gomoku:15")) is not None


def test_titles() -> None:
    titles = {spec: parse_game(spec).title for spec in ("gomoku:any,capture", "othello:any,size=10", "gomoku:any")}
    assert titles == {
        "gomoku:any,capture": "Gomoku with captures on all boards",
        "othello:any,size=10": "Othello on all boards, here 10×10",
        "gomoku:any": "Gomoku on all boards",
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("othello:any,size=7", "game othello: size '7'; wanted an even number from 4 to 16"),
        ("gomoku:any,size=8", "game gomoku: size '8'; wanted a number from 9 to 19"),
        ("gomoku:9,size=9", "unknown option 'size'"),
        ("connect4:any", "connect4"),
    ],
)
def test_what_is_refused(spec: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_game(spec)


def test_a_board_that_the_game_does_not_have() -> None:
    with pytest.raises(UsageError, match="othello:any: found size 7; wanted an even number from 4 to 16"):
        parse_game("othello:any").on_board(7)


def answers(model: Model, planes: Planes) -> tuple[np.ndarray, ...]:
    architecture = Architecture.from_dict(model.info.architecture)
    board = architecture if architecture.height == 4 else architecture.at(4, 4)
    return make_evaluators(board, model.weights, 1, 1, "torch")[0](planes)


def test_a_run_on_two_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a specialist, whose answers on its own board stay the same; a generation; a match on another board."""
    monkeypatch.chdir(tmp_path)
    old, new = Path("old/000000-init"), Path("saved_models/000000-init")
    init(InitConfig(game="othello:4", network_size="b1c8", new_model=old, seed=3))
    init(InitConfig(game="othello:any", original_model=old, new_model=new))
    plain = parse_game("othello:4")
    states = plain.initial(1)
    legal = plain.legal(states, plain.initial_history(states))
    before, after = (
        answers(read_model(path), game.observe(states, legal))
        for path, game in ((old, plain), (new, parse_game("othello:any").on_board(4)))
    )
    assert all(np.allclose(one, other, atol=1e-4) for one, other in zip(before, after, strict=True))
    selfplay(SelfplayConfig(games=12, readouts=2, boards="4=2,6=1", seed=1, backend="torch"))
    assert {meta.game for meta in newest_shards(Path("data/selfplay"))} == {
        "othello:any,size=4",
        "othello:any,size=6",
    }
    gather(GatherConfig(positions_per_chunk=32, as_many_as_possible=True))
    train(TrainConfig(batch_size=16, symmetries=True))
    assert read_model(Path("saved_models/000001-b1c8")).info.game == "othello:any"
    config = EvaluateConfig(
        game="othello:4", white_model="saved_models/000001-b1c8", black_model="old/000000-init", games=4, readouts=2,
        promote=False, output_dir=Path("matches"),
    )  # fmt: skip
    assert evaluate(config).games_played == 4
