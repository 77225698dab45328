"""What a user meets when something is wrong: one line that says where, found and wanted; nothing half-written."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.workshop import Done, Workshop
from tests.helpers import make_champion, make_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")
Run = Callable[..., Done]


@pytest.fixture
def run(workshop: Workshop, tmp_path: Path) -> Run:
    """Runs a command in the test's folder."""
    return lambda *arguments: workshop.run(arguments, tmp_path)


def last_line(done: Done) -> str:
    assert "Traceback" not in done.said, done.said
    return done.said.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("selfplay", 1, "best_model"),
        ("gather", 75, "selfplay"),
        ("train", 75, "gather"),
        ("evaluate", 1, "best_model"),
        ("selfplay --preset nonsense", 2, "nonsense"),
        ("selfplay --readouts -1", 2, "readouts"),
        ("selfplay --readouts many", 2, "many"),
        ("gather --holdout-fraction 2", 2, "holdout-fraction"),
        ("evaluate --games 7", 2, "even"),
        ("evaluate --require-games 7", 2, "even"),
        ("tournament --games 7", 2, "even"),
        ("init --game chess:8", 2, "chess"),
        ("init --game go:4", 2, "5 to 19"),
        ("init --game go:9,komi=x", 2, "komi"),
        ("init --network-size huge", 2, "huge"),
        ("show nothing-here", 1, "nothing-here"),
        ("selfplay --nonsense 3", 2, "nonsense"),
    ],
)
def test_in_an_empty_folder(run: Run, tmp_path: Path, command: str, code: int, says: str) -> None:
    done = run(*command.split())
    assert done.code == code, done.said
    assert says in done.said and "Traceback" not in done.said
    assert not list(tmp_path.rglob("*.gz")) and not list(tmp_path.rglob("*.h5"))


def test_a_damaged_model_is_named_by_every_command_that_reads_it(run: Run, tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models", number=0)
    challenger = make_model(tmp_path / "saved_models", number=1, seed=1)
    weights = challenger / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    for command in (["evaluate", "--games", "2"], ["selfplay", "--network", str(challenger)]):
        done = run(*command)
        assert done.code == 1 and "weights.safetensors" in last_line(done) and "damaged" in last_line(done)
    (champion / "model.json").write_text("{}")
    done = run("selfplay")
    assert done.code == 1 and "model.json" in last_line(done)


def test_a_model_whose_architecture_is_not_one_is_named(run: Run, tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models")
    file = champion / "model.json"
    file.write_text(file.read_text().replace('"blocks": 1', '"blocks": 3'))
    done = run("selfplay", "--games", "2")
    assert done.code == 1 and "000000-test" in last_line(done)


def test_models_of_two_games_do_not_meet(run: Run, tmp_path: Path) -> None:
    make_champion(tmp_path / "saved_models", number=0, spec="tictactoe")
    make_model(tmp_path / "saved_models", number=1, spec="connect4")
    done = run("evaluate", "--games", "2", "--readouts", "2")
    assert done.code == 1
    assert "connect4" in last_line(done) and "tictactoe" in last_line(done)


def test_games_of_two_boards_do_not_mix_and_train_refuses_another_game(run: Run, tmp_path: Path) -> None:
    small = ["--games", "6", "--readouts", "2", "--backend", "torch"]
    make_champion(tmp_path / "saved_models", number=0, spec="tictactoe")
    assert run("selfplay", *small).code == 0
    made = run("gather", "--chunks-to-make", "1", "--positions-per-chunk", "8")
    assert made.code == 0, made.said
    make_model(tmp_path / "saved_models", number=1, spec="go:5")
    refused = run("train")
    assert refused.code == 1 and "go:5" in last_line(refused) and "tictactoe" in last_line(refused)
    other = ["selfplay", "--network", "saved_models/000001-test", *small]
    refused = run(*other)
    assert refused.code == 1 and "go:5" in last_line(refused) and "tictactoe" in last_line(refused)
    assert run(*other, "--output-dir", "elsewhere").code == 0
    (tmp_path / "elsewhere" / "000001-test").rename(tmp_path / "data" / "selfplay" / "000001-test")  # by hand
    mixed = run("gather", "--chunks-to-make", "1", "--positions-per-chunk", "8", "--seed", "1")
    assert mixed.code == 1 and "go:5" in last_line(mixed) and "tictactoe" in last_line(mixed)
    assert len(list((tmp_path / "data" / "training_data").glob("*-of-*.h5"))) == 1


def test_asking_for_more_than_there_is_says_how_many_are_missing(run: Run, tmp_path: Path) -> None:
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    assert run("selfplay", "--games", "4", "--readouts", "0", "--backend", "torch").code == 0
    done = run("gather", "--chunks-to-make", "9", "--positions-per-chunk", "1000")
    assert done.code == 1 and "missing" in last_line(done)
    done = run("gather", "--min-positions", "5000")
    assert done.code == 75 and any(character.isdigit() for character in last_line(done))


def test_a_preset_of_another_game_is_refused(run: Run, tmp_path: Path) -> None:
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    done = run("selfplay", "--preset", "go9")
    assert done.code == 2 and "go:9" in last_line(done) and "tictactoe" in last_line(done)
    assert not (tmp_path / "data").exists()


def test_the_same_gather_makes_a_truncated_chunk_again(run: Run, tmp_path: Path) -> None:
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    assert run("selfplay", "--games", "30", "--readouts", "2", "--backend", "torch").code == 0
    gather = ["gather", "--chunks-to-make", "3", "--positions-per-chunk", "16"]
    assert run(*gather).code == 0
    chunk = sorted((tmp_path / "data" / "training_data").glob("*-of-*.h5"))[1]
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-100])
    train = run("train", "--epochs", "1")
    assert train.code == 1 and chunk.name in last_line(train) and str(len(whole)) in last_line(train)
    again = run(*gather)
    assert again.code == 0 and chunk.name in again.said
    assert chunk.read_bytes() == whole
