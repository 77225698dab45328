"""What each spec string means, and the messages about invalid ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.players.player_specs import PlayerSpec, is_engine, parse_player
from pipeline.run import layout
from pipeline.run.models import ModelInfo, write_model
from tests.families import having

MODEL = "000018-name"


def make_model(path: Path) -> Path:
    info = ModelInfo(name=path.name, number=18, game="tictactoe", method="alphazero", architecture={})
    write_model(path, info, {"w": np.zeros(1, np.float32)})
    return path


@pytest.fixture
def saved_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and the link best_model to it; the current directory is its parent."""
    folder = tmp_path / "saved_models"
    folder.mkdir()
    make_model(folder / MODEL)
    (folder / layout.CHAMPION).symlink_to(MODEL)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    ("text", "name", "readouts", "own_name"),
    [
        (f"saved_models/{MODEL}", MODEL, None, False),
        (f"saved_models/{MODEL}/", MODEL, None, False),
        ("saved_models/best_model", MODEL, None, False),
        ("saved_models/best_model@64", f"{MODEL}@64", 64, False),
        (f"saved_models/{MODEL}@0", f"{MODEL}@0", 0, False),
        ("policy:saved_models/best_model", f"{MODEL}@0", 0, False),
        ("strong=saved_models/best_model@800", "strong", 800, True),
        ("raw@now=policy:saved_models/best_model", "raw@now", 0, True),
        ("  saved_models/best_model ", MODEL, None, False),
    ],
)
def test_models(saved_models: Path, text: str, name: str, readouts: int | None, own_name: bool) -> None:
    real = (saved_models / MODEL).resolve()
    given = Path("saved_models", "best_model" if "best_model" in text else MODEL)
    assert parse_player(text) == PlayerSpec(text, "model", name, own_name, real, readouts, given=given)


def test_a_model_keeps_its_directory_when_best_model_moves_on(saved_models: Path) -> None:
    spec = parse_player("saved_models/best_model")
    make_model(saved_models / "000019-next")
    (saved_models / layout.CHAMPION).unlink()
    (saved_models / layout.CHAMPION).symlink_to("000019-next")
    assert spec.path is not None and spec.path.name == MODEL
    assert parse_player("saved_models/best_model").name == "000019-next"


def test_a_model_in_the_current_directory(saved_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved_models)
    assert parse_player(MODEL).name == parse_player("best_model").name == MODEL
    assert parse_player(f"{MODEL}@7").readouts == 7


def test_paths_may_hold_what_specs_use(tmp_path: Path) -> None:
    make_model(tmp_path / "a@5" / "m")
    make_model(tmp_path / "b=c" / "m")
    for folder in ("a@5", "b=c"):
        assert parse_player(f"{tmp_path}/{folder}/m").path == (tmp_path / folder / "m").resolve()
    assert parse_player(f"x={tmp_path}/b=c/m").name == "x"


@pytest.mark.parametrize(
    ("text", "kind", "name", "own_name", "command"),
    [
        ("handicap:2:random", "random", "random-h2", False, ""),
        ("strong=handicap:9:heuristic", "heuristic", "strong", True, ""),
        ("g=handicap:3:gtp:gnugo --mode gtp", "gtp", "g", True, "gnugo --mode gtp"),
        (" handicap:4: gtp:gnugo --mode gtp", "gtp", "gnugo-…-h4", False, "gnugo --mode gtp"),
    ],
)
def test_a_handicap(text: str, kind: str, name: str, own_name: bool, command: str) -> None:
    found = parse_player(text)
    if not own_name and kind == "gtp":
        name = parse_player("gtp:gnugo --mode gtp").name + "-h4"
    assert (found.kind, found.name, found.own_name, found.argument) == (kind, name, own_name, command)
    assert found.handicap == int(text.partition("handicap:")[2][0]) and found.text == text
    assert is_engine(text) == (kind == "gtp")


def test_a_model_takes_a_handicap(saved_models: Path) -> None:
    found = parse_player("handicap:2:saved_models/best_model@16")
    assert (found.kind, found.name, found.readouts, found.handicap) == ("model", f"{MODEL}@16-h2", 16, 2)
    assert found.path == (saved_models / MODEL).resolve() and found.given == Path("saved_models/best_model")
    assert parse_player("handicap:2:policy:saved_models/best_model").name == f"{MODEL}@0-h2"


@pytest.mark.parametrize(
    "text",
    [
        "handicap:1:random", "handicap:0:random", "handicap:x:random", "handicap:2", "handicap:2:", "handicap:random",
        "handicap:2:handicap:2:random", "handicap:2:g=random", "handicap:100:random",
        *having("backgammon", "handicap:2:gnubg:0"),
    ],
)  # fmt: skip
def test_what_is_no_handicap(text: str) -> None:
    with pytest.raises(UsageError, match="player"):
        parse_player(text)


def test_built_ins_come_before_directories_of_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model(tmp_path / "a")
    (tmp_path / "random").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    assert parse_player("random") == PlayerSpec("random", "random", "random")
    assert parse_player("heuristic") == PlayerSpec("heuristic", "heuristic", "heuristic")
    assert parse_player("dice=random") == PlayerSpec("dice=random", "random", "dice", own_name=True)
    assert parse_player("./random").kind == "model"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("gnugo --mode gtp --level 1", "gnugo"),
        ("/usr/games/gnugo --komi=7", "gnugo"),
        ("'my engine' -x", "my-engine"),
        ("./-odd_", "odd"),
        ("ä", "engine"),
    ],
)
def test_engines(command: str, program: str) -> None:
    digest = hashlib.sha256(command.encode()).hexdigest()[:8]
    text = f"gtp:{command}"
    assert parse_player(text) == PlayerSpec(text, "gtp", f"{program}-{digest}", argument=command)
    named = parse_player(f"gnugo1={text}")
    assert (named.name, named.argument, named.own_name) == ("gnugo1", command, True)


def test_other_options_are_another_engine() -> None:
    assert parse_player("gtp:gnugo --level 1").name != parse_player("gtp:gnugo --level 10").name
    assert parse_player("gtp: gnugo ").name == parse_player("gtp:gnugo").name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "PATH@READOUTS"),
        ("rnadom", "random or heuristic"),
        ("rnadom@8", "no such model or built-in"),
        ("policy:", "no such model"),
        ("policy:random", "no such model"),
        ("gtp:", "no command"),
        ("gtp:  ", "no command"),
        ("gtp:''", "no command"),
        ("gtp:a 'b", "command line"),
        ("gtp:a-vs-b", "player name"),
        ("a-vs-b=random", "player name"),
        ("best_model=random", "player name"),
        ("random=heuristic", "built-in"),
        ("x=", "no such model"),
        ("policy:saved_models/best_model@8", "drop one"),
        ("saved_models/best_model@many", "whole number"),
        ("saved_models/best_model@-1", "whole number"),
        ("saved_models/best_model@", "whole number"),
        ("saved_models/best_model@1234567890", "whole number"),
    ],
)
def test_what_is_no_spec(saved_models: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_player(text)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_paths_without_a_model_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for text, said in [
        ("saved_models/none", "no such model"),
        ("saved_models/none@8", "no such model"),
        ("saved_models/best_model", "no champion yet"),
        ("best_model", "no champion yet"),
        ("empty", "model.json"),
    ]:
        with pytest.raises(FileError, match=said):
            parse_player(text)


def test_a_directory_that_no_player_can_be_called_after(tmp_path: Path) -> None:
    make_model(tmp_path / "m").rename(tmp_path / "my model")
    with pytest.raises(UsageError, match="NAME="):
        parse_player(f"{tmp_path}/my model")
    assert parse_player(f"mine={tmp_path}/my model").name == "mine"
