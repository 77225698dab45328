"""What a user meets when something is wrong: one line that says where, found and wanted; nothing half-written."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import make_champion, make_model

MAIN = Path(__file__).parents[1] / "main.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(MAIN), *arguments], cwd=folder, capture_output=True, text=True)


def last_line(done: subprocess.CompletedProcess) -> str:
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


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
        ("init --game chess:8", 2, "chess"),
        ("init --game go:4", 2, "5 to 19"),
        ("init --game go:9,komi=x", 2, "komi"),
        ("init --network-size huge", 2, "huge"),
        ("show nothing-here", 1, "nothing-here"),
        ("selfplay --nonsense 3", 2, "nonsense"),
    ],
)
def test_in_an_empty_folder(tmp_path, command, code, says):
    done = run(tmp_path, *command.split())
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.gz")) and not list(tmp_path.rglob("*.h5"))


def test_a_damaged_model_is_named_by_every_command_that_reads_it(tmp_path):
    champion = make_champion(tmp_path / "saved_models", number=0)
    challenger = make_model(tmp_path / "saved_models", number=1, seed=1)
    weights = challenger / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    for command in (["evaluate", "--games", "2"], ["selfplay", "--network", str(challenger)]):
        done = run(tmp_path, *command)
        assert done.returncode == 1 and "weights.safetensors" in last_line(done) and "damaged" in last_line(done)
    (champion / "model.json").write_text("{}")
    done = run(tmp_path, "selfplay")
    assert done.returncode == 1 and "model.json" in last_line(done)


def test_a_model_whose_architecture_is_not_one_is_named(tmp_path):
    champion = make_champion(tmp_path / "saved_models")
    file = champion / "model.json"
    file.write_text(file.read_text().replace('"blocks": 1', '"blocks": 3'))
    done = run(tmp_path, "selfplay", "--games", "2")
    assert done.returncode == 1 and "000000-test" in last_line(done)


def test_models_of_two_games_do_not_meet(tmp_path):
    make_champion(tmp_path / "saved_models", number=0, spec="tictactoe")
    make_model(tmp_path / "saved_models", number=1, spec="connect4")
    done = run(tmp_path, "evaluate", "--games", "2", "--readouts", "2")
    assert done.returncode == 1
    assert "connect4" in last_line(done) and "tictactoe" in last_line(done)


def test_games_of_two_boards_do_not_mix_and_train_refuses_another_game(tmp_path):
    small = ["--games", "6", "--readouts", "2", "--backend", "torch"]
    make_champion(tmp_path / "saved_models", number=0, spec="tictactoe")
    assert run(tmp_path, "selfplay", *small).returncode == 0
    made = run(tmp_path, "gather", "--chunks-to-make", "1", "--positions-per-chunk", "8")
    assert made.returncode == 0, made.stderr
    make_model(tmp_path / "saved_models", number=1, spec="go:5")
    refused = run(tmp_path, "train")
    assert refused.returncode == 1 and "go:5" in last_line(refused) and "tictactoe" in last_line(refused)
    other = ["selfplay", "--network", "saved_models/000001-test", *small]
    refused = run(tmp_path, *other)
    assert refused.returncode == 1 and "go:5" in last_line(refused) and "tictactoe" in last_line(refused)
    assert run(tmp_path, *other, "--output-dir", "elsewhere").returncode == 0
    (tmp_path / "elsewhere" / "000001-test").rename(tmp_path / "data" / "selfplay" / "000001-test")  # by hand
    mixed = run(tmp_path, "gather", "--chunks-to-make", "1", "--positions-per-chunk", "8", "--seed", "1")
    assert mixed.returncode == 1 and "go:5" in last_line(mixed) and "tictactoe" in last_line(mixed)
    assert len(list((tmp_path / "data" / "training_data").glob("*-of-*.h5"))) == 1


def test_asking_for_more_than_there_is_says_how_many_are_missing(tmp_path):
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    assert run(tmp_path, "selfplay", "--games", "4", "--readouts", "0", "--backend", "torch").returncode == 0
    done = run(tmp_path, "gather", "--chunks-to-make", "9", "--positions-per-chunk", "1000")
    assert done.returncode == 1 and "missing" in last_line(done)
    done = run(tmp_path, "gather", "--min-positions", "5000")
    assert done.returncode == 75 and any(character.isdigit() for character in last_line(done))


def test_a_preset_of_another_game_is_refused(tmp_path):
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    done = run(tmp_path, "selfplay", "--preset", "connect4")
    assert done.returncode == 2 and "connect4" in last_line(done) and "tictactoe" in last_line(done)
    assert not (tmp_path / "data").exists()


def test_the_same_gather_makes_a_truncated_chunk_again(tmp_path):
    make_champion(tmp_path / "saved_models", spec="tictactoe")
    assert run(tmp_path, "selfplay", "--games", "30", "--readouts", "2", "--backend", "torch").returncode == 0
    gather = ["gather", "--chunks-to-make", "3", "--positions-per-chunk", "16"]
    assert run(tmp_path, *gather).returncode == 0
    chunk = sorted((tmp_path / "data" / "training_data").glob("*-of-*.h5"))[1]
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-100])
    train = run(tmp_path, "train", "--epochs", "1")
    assert train.returncode == 1 and chunk.name in last_line(train) and str(len(whole)) in last_line(train)
    again = run(tmp_path, *gather)
    assert again.returncode == 0 and chunk.name in again.stderr
    assert chunk.read_bytes() == whole
