"""The first model: made once, champion if there is none, never overwritten."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.networks.architecture import Architecture, check_weights
from pipeline.networks.inference import make_evaluators
from pipeline.run.models import read_model, read_optimizer, read_promotions, resolve_champion
from pipeline.train.config import InitConfig
from pipeline.train.init import init


def config(tmp_path: Path, **changes: object) -> InitConfig:
    values = {"game": "tictactoe", "network_size": "b1c8", "new_model": tmp_path / "saved_models" / "000000-init"}
    return InitConfig(**{**values, **changes})


def test_makes_a_model_that_is_the_champion(tmp_path: Path) -> None:
    summary = init(config(tmp_path))
    model = read_model(summary.model)
    architecture = Architecture.from_dict(model.info.architecture)
    check_weights(architecture, model.weights)
    assert (model.info.game, model.info.number, architecture.size) == ("tictactoe", 0, "b1c8")
    assert model.info.parents == []
    assert model.info.manifest["config"]["seed"] == 0
    assert read_optimizer(summary.model) is None
    assert summary.champion
    assert summary.parameters == sum(array.size for array in model.weights.values())
    assert resolve_champion(tmp_path / "saved_models" / "best_model") == summary.model.resolve()
    assert len(read_promotions(tmp_path / "saved_models")) == 1


def test_the_value_head_is_the_model_s_own(tmp_path: Path) -> None:
    planes = np.zeros((2, 3, 3, 3), np.uint8)
    for number, value_head in enumerate(("scalar", "wdl")):
        path = tmp_path / "saved_models" / f"00000{number}-{value_head}"
        model = read_model(init(config(tmp_path, new_model=path, value_head=value_head)).model)
        assert model.info.architecture["value_head"] == value_head
        architecture = Architecture.from_dict(model.info.architecture)
        assert model.weights["value_output.weight"].shape == (1 if value_head == "scalar" else 3, 64)
        _, value = make_evaluators(architecture, model.weights, 16, 1, "torch")[0](planes)
        assert np.abs(value).max() < 0.5


def test_a_second_one_leaves_the_champion_alone(tmp_path: Path) -> None:
    first = init(config(tmp_path))
    second = init(config(tmp_path, new_model=tmp_path / "saved_models" / "000001-other", seed=1))
    assert not second.champion
    assert resolve_champion(tmp_path / "saved_models" / "best_model") == first.model.resolve()
    weights = [read_model(summary.model).weights["stem.conv.weight"] for summary in (first, second)]
    assert not np.array_equal(*weights)


def test_another_game_wants_another_folder(tmp_path: Path) -> None:
    init(config(tmp_path))
    other = tmp_path / "saved_models" / "000001-other"
    with pytest.raises(FileError, match="plays tictactoe, the new model would play connect4; wanted a folder for each"):
        init(config(tmp_path, new_model=other, game="connect4"))
    assert not other.exists()


def test_never_overwrites(tmp_path: Path) -> None:
    init(config(tmp_path))
    before = (tmp_path / "saved_models" / "000000-init" / "model.json").read_bytes()
    for seed in (0, 1):
        with pytest.raises(FileError, match="exists already"):
            init(config(tmp_path, seed=seed))
    assert (tmp_path / "saved_models" / "000000-init" / "model.json").read_bytes() == before


def test_a_killed_init_is_completed(tmp_path: Path) -> None:
    init(config(tmp_path))
    link = tmp_path / "saved_models" / "best_model"
    link.unlink()
    (link.parent / "promotions.jsonl").unlink()
    with pytest.raises(FileError, match="exists already"):
        init(config(tmp_path, seed=1))
    assert not link.is_symlink()
    assert init(config(tmp_path)).champion
    assert link.is_symlink()


def test_no_first_model_where_others_are(tmp_path: Path) -> None:
    init(config(tmp_path))
    (tmp_path / "saved_models" / "best_model").unlink()
    other = tmp_path / "saved_models" / "000000-other"
    with pytest.raises(FileError, match=r"promotion of 000000-init; .*--repair` points it to 000000-init"):
        init(config(tmp_path, new_model=other))
    (tmp_path / "saved_models" / "promotions.jsonl").unlink()
    with pytest.raises(FileError, match=r"models \(000000-init\)"):
        init(config(tmp_path, new_model=other))
    assert not other.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"game": "chess"},
        {"game": "go:any,size=13,moves=60"},
        {"network_size": "huge"},
        {"new_model": Path("a-vs-b")},
    ],
)
def test_wrong_usage_writes_nothing(tmp_path: Path, change: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        init(config(tmp_path, **change))
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_a_small_board_begins_a_larger_one(tmp_path: Path) -> None:
    small = init(config(tmp_path, game="go:5", seed=3)).model
    large = tmp_path / "other" / "saved_models" / "000000-init"
    summary = init(config(tmp_path, game="go:7,komi=5.5", new_model=large, original_model=small, network_size="b2c32"))
    model, original = read_model(large), read_model(small)
    assert (summary.game, summary.network_size, summary.champion) == ("go:7,komi=5.5", "b1c8", True)
    assert all((model.weights[name] == array).all() for name, array in original.weights.items())
    assert model.info.architecture == {**original.info.architecture, "height": 7, "width": 7, "actions": 50}
    assert model.info.manifest["began_with"] == {"name": "000000-init", "game": "go:5"}
    planes = np.zeros((2, original.info.architecture["planes"], 7, 7), np.uint8)
    policy, _ = make_evaluators(Architecture.from_dict(model.info.architecture), model.weights, 16, 1, "torch")[0](
        planes
    )
    assert policy.shape == (2, 50)


def test_models_that_come_with_it_are_known_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    grown = init(config(tmp_path, game="go:any,komi=7", original_model=Path("pretrained/go9"))).model
    assert read_model(grown).info.manifest["began_with"] == {"name": "go9", "game": "go:9,komi=7"}
    assert read_model(grown).info.manifest["config"]["original_model"] == "pretrained/go9"
    mine = init(config(tmp_path, new_model=tmp_path / "pretrained" / "go9")).model
    assert resolve_champion(Path("pretrained/go9")) == mine.resolve()
    with pytest.raises(FileError, match="pretrained/none: no such model"):
        resolve_champion(Path("pretrained/none"))


@pytest.mark.parametrize("game", ["gomoku:9", "tictactoe", "connect4"])
def test_other_games_see_something_else(tmp_path: Path, game: str) -> None:
    small = init(config(tmp_path, game="go:5")).model
    other = tmp_path / "other" / "saved_models" / "000000-init"
    with pytest.raises(
        FileError, match=r"000000-init: its network sees a board of go:5; .* wanted another size of the"
    ):
        init(config(tmp_path, game=game, new_model=other, original_model=small))
    assert not other.exists()
