from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.run import atomic, layout, models
from pipeline.run.models import ModelInfo

WEIGHTS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.array(7, np.int64)}
OPTIMIZER = {"a.weight.m": np.ones((2, 3), np.float32)}


def make(path: Path, game: str = "go:9", optimizer: dict[str, np.ndarray] | None = None) -> Path:
    info = ModelInfo(name=path.name, number=3, game=game, method="alphazero", architecture={"blocks": 2},
                     parents=["000002-b"], manifest={"seed": 5})  # fmt: skip
    models.write_model(path, info, WEIGHTS, optimizer)
    return path


def test_round_trip(tmp_path: Path) -> None:
    path = make(tmp_path / "000003-a", optimizer=OPTIMIZER)
    model = models.read_model(path)
    assert model.info.name == "000003-a" and model.info.parents == ["000002-b"] and model.info.manifest == {"seed": 5}
    assert models.read_info(path) == model.info
    assert set(model.weights) == set(WEIGHTS)
    for name, array in WEIGHTS.items():
        assert model.weights[name].dtype == array.dtype
        np.testing.assert_array_equal(model.weights[name], array)
    optimizer = models.read_optimizer(path)
    assert optimizer is not None
    np.testing.assert_array_equal(optimizer["a.weight.m"], OPTIMIZER["a.weight.m"])
    assert sorted(os.listdir(tmp_path)) == ["000003-a"]


def test_arrays_that_are_not_contiguous_keep_their_meaning(tmp_path: Path) -> None:
    info = ModelInfo(name="x", number=0, game="go:9", method="alphazero", architecture={})
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    models.write_model(tmp_path / "000000-x", info, {"w": turned})
    np.testing.assert_array_equal(models.read_model(tmp_path / "000000-x").weights["w"], turned)


def test_without_optimizer(tmp_path: Path) -> None:
    assert models.read_optimizer(make(tmp_path / "000003-a")) is None


def test_existing_models_are_never_overwritten(tmp_path: Path) -> None:
    make(tmp_path / "000003-a")
    with pytest.raises(FileError, match="exists already"):
        make(tmp_path / "000003-a", game="go:5")
    assert models.read_info(tmp_path / "000003-a").game == "go:9"
    with pytest.raises(UsageError, match="best_model"):
        make(tmp_path / "best_model")


@pytest.mark.parametrize("name", [layout.WEIGHTS, layout.OPTIMIZER])
def test_flipped_bit_and_cut_file(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "000003-a", optimizer=OPTIMIZER)
    read = models.read_model if name == layout.WEIGHTS else models.read_optimizer
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FileError, match=f"{name}: damaged: its checksum"):
        read(path)
    (path / name).write_bytes(whole[:-1])
    with pytest.raises(FileError, match=f"{len(whole) - 1} bytes"):
        read(path)
    (path / name).unlink()
    with pytest.raises(FileError, match="no such file"):
        read(path)


@pytest.mark.parametrize(
    ("line", "value", "problem"),
    [
        ("format", "other", "'other'; wanted 'mugo-model'"),
        ("version", 2, "version 2"),
        ("game", None, "damaged: game: Input should be a valid string; wanted the description of a model"),
        ("files", {}, "no checksum"),
    ],
)
def test_damaged_descriptions(tmp_path: Path, line: str, value: object, problem: str) -> None:
    path = make(tmp_path / "000003-a")
    raw = json.loads((path / "model.json").read_text())
    (path / "model.json").write_text(json.dumps({**raw, line: value}))
    with pytest.raises(FileError, match=problem):
        models.read_model(path)


def test_missing_and_unreadable_models(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no such directory.*main.py init"):
        models.read_model(tmp_path / "000003-a")
    make(tmp_path / "000003-a")
    (tmp_path / "000003-a" / "model.json").write_text("{")
    with pytest.raises(FileError, match="not readable as JSON"):
        models.read_info(tmp_path / "000003-a")


def test_another_game_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "000003-a", game="go:5")
    models.check_game(models.read_info(path), "go:5", path)
    with pytest.raises(FileError, match=f"{path}: it plays go:5; wanted .* go:9"):
        models.check_game(models.read_info(path), "go:9", path)


def test_listing(tmp_path: Path) -> None:
    folder = tmp_path / "saved_models"
    assert models.list_models(folder) == []
    assert models.next_model_path(folder, "a") == folder / "000000-a"
    with pytest.raises(FileError, match="no models here"):
        models.newest_model(folder)
    for name in ("000010-a", "000002-z", "000009-m", "unnumbered"):
        make(folder / name)
    (folder / "000011-half").mkdir()  # no model.json: not ours
    (folder / ".000012-x.training").mkdir()
    models.set_champion(folder, folder / "000002-z", {})
    assert [path.name for path in models.list_models(folder)] == ["000002-z", "000009-m", "000010-a"]
    assert models.newest_model(folder) == folder / "000010-a"
    assert models.next_model_path(folder, "b") == folder / "000011-b"


# The champion


def saved_models(tmp_path: Path) -> Path:
    folder = tmp_path / "saved_models"
    for name in ("000000-a", "000001-b"):
        make(folder / name)
    return folder


def test_champion_is_a_relative_link_and_its_history_is_kept(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    models.set_champion(folder, folder / "000000-a", {"why": "first"})
    assert models.resolve_champion(folder / "best_model") == folder / "000000-a"
    models.set_champion(folder, folder / "000001-b", {"why": "match", "wins": 9})
    assert os.readlink(folder / "best_model") == "000001-b"
    first, second = models.read_promotions(folder)
    assert (first["champion"], first["previous"], first["why"]) == ("000000-a", None, "first")
    assert (second["champion"], second["previous"], second["wins"]) == ("000001-b", "000000-a", 9)
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert models.resolve_champion(moved / "best_model") == moved / "000001-b"


def test_a_promotion_removes_what_killed_ones_left_half_written(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    left = folder / ".best_model~elsewhere~5~20260101T000000~0123abcd.tmp"
    left.symlink_to("000000-a")
    models.set_champion(folder, folder / "000000-a", {})
    assert not left.is_symlink()


def test_the_same_promotion_twice_is_one(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    for _ in range(2):
        models.set_champion(folder, folder / "000000-a", {"match": (1, 2)})
    assert len(models.read_promotions(folder)) == 1


def test_champion_errors_say_what_to_do(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    with pytest.raises(FileError, match=r"no champion yet.*main.py init"):
        models.resolve_champion(tmp_path / "best_model")
    with pytest.raises(FileError, match="no such model"):
        models.resolve_champion(folder / "000009-x")
    with pytest.raises(FileError, match="no model is here"):
        models.set_champion(folder, folder / "000009-x", {})
    with pytest.raises(FileError, match="no model is here"):
        models.resolve_champion(folder)
    os.symlink("000009-x", folder / "best_model")
    with pytest.raises(FileError, match="points to 000009-x, where no model is"):
        models.resolve_champion(folder / "best_model")
    (folder / "best_model").unlink()
    make(folder / "000002-c").rename(folder / "best_model")
    with pytest.raises(FileError, match="no symlink"):
        models.set_champion(folder, folder / "000000-a", {})


def test_a_lost_champion_is_never_crowned_anew(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    link = folder / "best_model"
    with pytest.raises(FileError, match=r"no such link.* models \(000001-b\); .*`ln -s 000001-b .*best_model`"):
        models.check_champion(folder)
    models.set_champion(folder, folder / "000000-a", {})
    models.check_champion(folder)
    link.unlink()
    with pytest.raises(FileError, match=r"promotion of 000000-a; .*`python main.py verify .* --repair` points it"):
        models.resolve_champion(link)
    assert models.restore_champion(folder) == "000000-a" == os.readlink(link)
    assert len(models.read_promotions(folder)) == 1


def test_what_a_copy_tool_made_of_the_link_is_replaced(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    link = folder / "best_model"
    for with_journal in (False, True):
        if with_journal:
            models.set_champion(folder, folder / "000001-b", {})
            link.unlink()
        shutil.copytree(folder / "000001-b", link)
        with pytest.raises(FileError, match=r"it is a directory; .*--repair` points it to 000001-b"):
            models.resolve_champion(link)
        assert models.restore_champion(folder) == "000001-b" == os.readlink(link)
        link.unlink()
        link.write_text("000001-b")
        with pytest.raises(FileError, match=r"it is a file; .*--repair` points it to 000001-b"):
            models.resolve_champion(link)
        assert models.restore_champion(folder) == "000001-b" == os.readlink(link)
        assert (folder / "best_model.moved").read_text() == "000001-b"
        link.unlink()


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.run import atomic, models
folder, step = Path(sys.argv[1]), int(sys.argv[2])
calls = 0
def count(event, arguments):
    global calls
    if event in ("open", "os.rename", "os.symlink", "os.remove"):
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)
target = folder / "000001-b"
sys.addaudithook(count)
models.set_champion(folder, target, {"why": "match"})
"""


def test_a_promotion_killed_anywhere_leaves_link_and_journal_agreeing(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    models.set_champion(folder, folder / "000000-a", {"why": "first"})
    outcomes = set()
    for step in range(1, 40):
        done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(step)])
        champion = models.resolve_champion(folder / "best_model").name
        journal = models.read_promotions(folder)
        assert journal[-1]["champion"] == champion
        outcomes.add((champion, len(journal)))
        atomic.sweep(folder)
        assert sorted(os.listdir(folder)) == [
            ".best_model.lock",
            "000000-a",
            "000001-b",
            "best_model",
            "promotions.jsonl",
        ]
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        if champion == "000001-b":
            (folder / "promotions.jsonl").unlink()
            atomic.replace_symlink(folder / "best_model", "000000-a")
            models.set_champion(folder, folder / "000000-a", {"why": "first"})
    else:
        pytest.fail("never got through")
    assert outcomes == {("000000-a", 1), ("000001-b", 2)}


def test_a_torn_line_of_the_journal_is_passed_over(tmp_path: Path) -> None:
    folder = saved_models(tmp_path)
    models.set_champion(folder, folder / "000000-a", {})
    with (folder / "promotions.jsonl").open("a") as file:
        file.write('{"champ')
    models.set_champion(folder, folder / "000001-b", {})
    assert [line["champion"] for line in models.read_promotions(folder)] == ["000000-a", "000001-b"]


# Many models


def test_the_newest_models_are_found_without_looking_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / layout.model_name(number, "m")).mkdir()
        (tmp_path / layout.model_name(number, "m") / layout.MODEL_JSON).touch()
    (tmp_path / "000020-not-whole").mkdir()
    (tmp_path / "other").mkdir()
    assert list(models.newest_models(tmp_path)) == models.list_models(tmp_path)[::-1]
    looked: list[str] = []
    has_model = models.has_model
    monkeypatch.setattr(models, "has_model", lambda path: looked.append(path.name) or has_model(path))
    assert models.newest_model(tmp_path).name == "000019-m" and models.newest_number(tmp_path) == 19
    assert set(looked) == {"000020-not-whole", "000019-m"}


def test_of_many_models_the_newest_is_looked_for_a_hundredth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Self-play asks at every game. In a small folder, where a look costs next to nothing, it looks every time."""
    now, looks = [100.0], [0]

    def names_in(folder: Path) -> list[str]:
        looks[0] += 1
        now[0] += listing
        return os.listdir(folder)

    monkeypatch.setattr(models.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(atomic, "names_in", names_in)
    make(tmp_path / "000003-a")
    newest, listing = models.NewestNumber(tmp_path), 0.0005
    assert [newest() for _ in range(5)] == [3] * 5 and looks[0] == 5
    listing = 0.04
    assert [newest() for _ in range(5)] == [3] * 5 and looks[0] == 6
    make(tmp_path / "000004-a")
    now[0] += 3.9
    assert newest() == 3 and looks[0] == 6
    now[0] += 0.1
    assert newest() == 4 and looks[0] == 7
