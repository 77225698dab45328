"""verify finds all damage in a run's files, and removes leftovers and nothing else."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import main
from pipeline.errors import FileError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.specs import parse_game
from pipeline.gather import extraction
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.alphazero.examples import column_types
from pipeline.reports.config import StatusConfig
from pipeline.reports.run_files import RunFiles, scan_run
from pipeline.reports.show import show
from pipeline.reports.status import status
from pipeline.run import atomic, layout, packs
from pipeline.run.chunks import read_chunk, write_chunk
from pipeline.run.evaluations import Evaluation, write_evaluation
from pipeline.run.matches import Match, read_match
from pipeline.run.models import read_journal, set_champion
from pipeline.run.shards import read_meta, read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import TrainConfig
from pipeline.upkeep.compact import compact
from pipeline.upkeep.config import CompactConfig, PruneConfig, VerifyConfig
from pipeline.upkeep.prune import prune
from pipeline.upkeep.verify import check_games as verify_games
from pipeline.upkeep.verify import check_matches as verify_matches
from pipeline.upkeep.verify import check_models as verify_models
from pipeline.upkeep.verify import command
from pipeline.upkeep.verify.command import VerifySummary, verify
from tests.helpers import make_model
from tests.run.random_games import write_shard
from tests.runs import make_run

SEED = 3


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    return folder


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    """In a folder of another name: a run may be moved."""
    return Path(shutil.copytree(pristine, tmp_path / "a run, cópied", symlinks=True))


def check(run: Path, repair: bool = False) -> VerifySummary:
    return verify(VerifyConfig(directory=run, repair=repair))


def problems(run: Path) -> list[str]:
    found = check(run)
    assert found.clean == (not found.problems)
    return [f"{one.where}: {one.text}" for one in found.problems]


def one_of(run: Path, pattern: str) -> Path:
    return min(run.glob(pattern))


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def files(run: Path) -> dict[Path, bytes]:
    """Without lock files, which stay."""
    paths = [path for path in run.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(run): path.read_bytes() for path in paths}


def test_a_run_as_it_was_made(run: Path) -> None:
    before = files(run)
    found = check(run)
    assert (found.clean, found.problems, found.remarks) == (True, [], [])
    assert found.checked["games"] == {"shard": 24, "game": 24, "position": found.checked["games"]["position"]}
    assert found.checked["chunks"]["set"] == 1 and found.checked["chunks"]["chunk"] > 2
    assert found.checked["models"] == {"model": 2, "champion": 2}
    assert found.checked["matches"]["match"] == found.checked["matches"]["summary"] == 1
    assert found.checked["other files"] == {"priority list": 1, "pool": 1}
    assert files(run) == before
    text = "\n".join(found.lines())
    assert "24 games" in text and "all is well" in text


STRANGERS = (
    *(".DS_Store", "._000000-init", "Thumbs.db", "desktop.ini", "Icon\r", "notes.txt~", ".#lock", ".nfs00000000001"),
    *("2019 backup.gz", "000001-b1c8 (1)", "000000-init - Copy", "copy of 000000-init.gz", "conflict.h5", "lost+found"),
)


def test_what_desktops_and_sync_tools_leave_everywhere_is_ignored(run: Path) -> None:
    """And odd characters in the folder's name."""
    run = run.rename(run.with_name("a [run] #1 %20 -x"))
    plain = [show_text(run), str(status(StatusConfig(directory=run)).play), check(run).checked]
    for folder in [path for path in (run, *run.rglob("*")) if path.is_dir() and not path.name.startswith(".")]:
        for name in STRANGERS:
            (folder / name).write_bytes(b"\0\1 stranger")
        (folder / ".ipynb_checkpoints").mkdir(exist_ok=True)
        (folder / "@eaDir").mkdir(exist_ok=True)
    found = check(run, repair=True)
    assert (found.problems, found.remarks) == ([], [])
    assert [show_text(run), str(status(StatusConfig(directory=run)).play), found.checked] == plain
    before = Path.cwd()
    os.chdir(run)
    try:
        playing: dict[str, Any] = {"backend": "torch", "threads": 1, "parallel_games": 8, "seed": 2}
        selfplay(SelfplayConfig(games=8, readouts=2, temperature_plies=9, **playing))
        gather(GatherConfig(positions_per_chunk=32, as_many_as_possible=True))
        train(TrainConfig(epochs=1, batch_size=32))
        evaluate(EvaluateConfig(games=4, threshold=0.25, readouts=2, opening_plies=2, **playing))
        compact(CompactConfig())
        prune(PruneConfig(apply=True))
    finally:
        os.chdir(before)
    assert check(run).problems == []
    assert all((run / "saved_models" / name).exists() for name in STRANGERS)


def show_text(run: Path) -> str:
    return "\n".join(show(run))


def test_the_newest_positions_alone(run: Path) -> None:
    shards = sorted(run.glob("data/selfplay/*/*/*.gz"))
    cut(shards[0])
    found = verify(VerifyConfig(directory=run, newest=20))
    assert found.clean and 0 < found.checked["games"]["shard"] < len(shards)
    assert found.checked["games"]["position"] >= 20
    assert found.remarks == ["older games were not checked: --newest"]
    cut(shards[-1])
    assert [problem.where for problem in verify(VerifyConfig(directory=run, newest=1)).problems] == [
        str(shards[-1].relative_to(run))
    ]


def test_models_and_matches_before_the_newest_games_are_left_out(run: Path) -> None:
    for path in sorted(run.glob("data/selfplay/000000-*")):  # what is left began in generation 1
        path.rename(path.with_name(f"000001+{path.name}"))
    (run / "data/evaluate/watch").mkdir()
    for model in ("000000-init", "000001-b1c8"):
        facts = {"model": model, "rated_as": model, "weights": "", "game": "tictactoe", "settings": {}, "elo_before": 0}
        lists = {"opponents": [], "strategies": [], "rating_before": None}
        write_evaluation(run / "data/evaluate/watch", Evaluation(generation=0, **facts, **lists))
    found = verify(VerifyConfig(directory=run, newest=20))
    assert found.checked["models"] == {"model": 1, "champion": 1} and found.checked["matches"]["match"] == 1
    assert found.checked["matches"]["evaluation"] == 1
    assert found.remarks[1] == "models and matches before generation 1 were not checked: --newest"


def test_more_positions_than_there_are(run: Path) -> None:
    found = verify(VerifyConfig(directory=run, newest=10**9))
    assert found.clean and found.remarks == [] and found.checked == check(run).checked


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    rng = random.Random(SEED)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink], ids=["flipped", "cut", "missing"])
@pytest.mark.parametrize(
    "pattern",
    [
        "data/selfplay/*/*/*.gz",
        "data/training_data/*-of-*.h5",
        "data/training_data/*-holdout.h5",
        "data/training_data/*-priorities.safetensors",
        "saved_models/000001-*/weights.safetensors",
        "saved_models/000001-*/optimizer.safetensors",
    ],
)
def test_a_file_with_a_checksum_that_is_damaged_or_missing(
    run: Path, pattern: str, harm: Callable[[Path], None]
) -> None:
    path = one_of(run, pattern)
    harm(path)
    if harm is Path.unlink and "training_data" in pattern and "holdout" not in pattern:  # an incomplete set
        assert problems(run) == []
        return
    (found,) = problems(run)
    assert path.name in found or path.parent.name in found


@pytest.mark.parametrize(
    ("pattern", "values", "says"),
    [
        ("data/selfplay/*/*/*.meta", {"games": 2}, "lengths of shape"),
        ("data/pool.json", {"capacity": -1}, "capacity"),
        ("data/evaluate/*/summary.json", {"wins": 7}, "the games say"),
        ("data/evaluate/*/summary.json", {"passed": False}, "by the games it has passed"),
        ("data/evaluate/*/summary.json", {"measured": 1}, "they don't"),
        ("data/evaluate/*/summary.json", {"conditions": {"random>=0.9": 1}}, "by the games it has not passed"),
        ("saved_models/000001-*/model.json", {"number": 5}, "number 5"),
        ("saved_models/000001-*/model.json", {"parents": []}, "names no parent"),
        ("saved_models/000001-*/model.json", {"architecture": {}}, "architecture"),
        ("saved_models/000000-*/model.json", {"manifest": {"total_samples": 10**9}}, "its parent"),
    ],
)
def test_a_wrong_value(run: Path, pattern: str, values: dict[str, object], says: str) -> None:
    edit(one_of(run, pattern), **values)
    found = problems(run)
    assert len(found) == 1 and says in found[0], found


def test_a_match_whose_name_no_file_system_takes_is_gone(run: Path) -> None:
    path = run / "saved_models/promotions.jsonl"
    *before, last = path.read_text().splitlines()
    path.write_text("\n".join([*before, json.dumps({**json.loads(last), "match": "x" * 300})]) + "\n")
    found = verify(VerifyConfig(directory=run))
    assert found.problems == [] and any("is gone" in remark for remark in found.remarks)


def rewrite(run: Path, **changes: object) -> None:
    """A shard with a changed game, under a sidecar that fits."""
    path = one_of(run, "data/selfplay/*/w00/*.gz")
    shard = read_shard(path)
    record = shard.game(0)
    new = type(record)(**{**vars(record), **changes})
    write_shard(path.parents[2], shard.model, "other", shard.game_spec, [new], shard.header["provenance"])
    path.unlink()
    layout.meta_path(path).unlink()


def test_games_that_cant_have_been_played(run: Path) -> None:
    """Under sidecars that fit. The set was made from shards that are gone then."""
    shard = read_shard(one_of(run, "data/selfplay/*/*/*.gz"))
    moves = shard.game(0).moves.copy()
    moves[1] = moves[0]
    rewrite(run, moves=moves)
    rewrite(run, end=1)
    result = read_shard(one_of(run, "data/selfplay/*/w00/*.gz")).results[0]
    rewrite(run, result_first_player=-1.0 if result == 1 else 1.0)
    found = problems(run)
    assert len(found) == 3
    for says in ("illegal move", "wanted a resigned game to stop", "the final position gives"):
        assert any(says in one for one in found), found


def test_a_game_that_stands_twice(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_games, "POSITIONS_PER_GROUP", 10)  # more than one group, more than one batch
    folder = one_of(run, "data/selfplay/*/*")
    shutil.copytree(folder, folder.with_name("w01"))
    found = problems(run)
    assert len(found) == 24 and all("1 game of it is in" in one for one in found)


TYPES = column_types(parse_game("tictactoe"))


def test_a_game_on_both_sides_of_the_holdout(run: Path) -> None:
    path = one_of(run, "data/training_data/*-holdout.h5")
    chunk = read_chunk(one_of(run, "data/training_data/*-of-*.h5"), "tictactoe", TYPES)
    write_chunk(path, read_chunk(path, "tictactoe", TYPES).header, chunk.columns, chunk.shards)
    (problem,) = problems(run)
    assert "of the hold-out are in its chunks, too" in problem


def test_a_copy_of_a_game_on_the_other_side_of_the_holdout(run: Path) -> None:
    """Under another name, so that only its id tells."""
    path = one_of(run, "data/training_data/*-holdout.h5")
    chunk = read_chunk(one_of(run, "data/training_data/*-of-*.h5"), "tictactoe", TYPES)
    folder = one_of(run, "data/selfplay/*/*")
    shutil.copytree(folder, folder.with_name("w01"))
    shards = [name.replace("/w00/", "/w01/") for name in chunk.shards]
    write_chunk(path, read_chunk(path, "tictactoe", TYPES).header, chunk.columns, shards)
    assert any("of the hold-out are in its chunks, too" in one for one in problems(run))


@pytest.mark.parametrize(("column", "value", "says"), [("game", 1, "which has 1 game"), ("ply", 9, "behind its end")])
def test_an_example_from_nowhere(run: Path, column: str, value: int, says: str) -> None:
    path = one_of(run, "data/training_data/*-of-*.h5")
    chunk = read_chunk(path, "tictactoe", TYPES)
    chunk.columns[column][3] = value
    write_chunk(path, chunk.header, chunk.columns, chunk.shards)
    (problem,) = problems(run)
    assert says in problem


def test_a_renamed_chunk(run: Path) -> None:
    first, *_, last = sorted(run.glob("data/training_data/*-of-*.h5"))
    spare = last.with_name("spare")
    first.rename(spare)
    last.rename(first)
    spare.rename(last)
    found = problems(run)
    assert len(found) == 2 and all("was it renamed?" in one for one in found)


def test_an_incomplete_set_is_no_problem(run: Path) -> None:
    one_of(run, "data/training_data/*-of-*.h5").unlink()
    one_of(run, "data/training_data/*-holdout.h5").unlink()
    found = check(run)
    assert found.clean and "incomplete" in found.remarks[0]


def test_games_that_are_gone_since_are_no_problem(run: Path) -> None:
    shutil.rmtree(run / "data/selfplay")
    assert problems(run) == []


# Promotions


def games_file(run: Path) -> Path:
    return one_of(run, "data/evaluate/*/games.jsonl")


def test_a_promotion_that_the_games_dont_bear_out(run: Path) -> None:
    path = games_file(run)
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header.replace('"threshold":0.25', '"threshold":1.0'), *lines]) + "\n")
    found = problems(run)
    assert any("was promoted, but" in one and "promotions.jsonl" in one for one in found)


def test_a_promotion_by_another_match(run: Path) -> None:
    journal = run / "saved_models/promotions.jsonl"
    lines = read_journal(run / "saved_models")
    lines[-1]["challenger"] = "somebody"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = problems(run)
    assert "wanted their own match" in found


def test_a_promotion_condition_has_a_match_of_its_own(run: Path) -> None:
    """In a run that was moved, with a match of the same players for the promotion itself."""
    match, journal = games_file(run).parent, run / "saved_models/promotions.jsonl"
    lines = read_journal(run / "saved_models")
    result = {"needed": 1.0, "match": f"runs/ttt/data/evaluate/required/{match.name}", "passed": True}
    lines[-1]["conditions"] = {"000000-init>=1": result}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = check(run)
    assert found.clean and "for the condition 000000-init>=1 is gone" in found.remarks[0]
    shutil.copytree(match, match.parent / "required" / match.name)
    (problem,) = problems(run)
    assert "was promoted, but" in problem and f"required/{match.name}" in problem


def test_a_match_that_ends_while_verify_reads(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = games_file(run).parent
    summary = folder / "summary.json"
    ended = summary.read_text()
    games = (folder / "games.jsonl").read_text().splitlines(keepends=True)
    summary.unlink()
    (folder / "games.jsonl").write_text("".join(games[:-3]))

    def read_and_end(folder: Path, with_summary: bool) -> Match:
        found = read_match(folder, with_summary)
        (folder / "games.jsonl").write_text("".join(games))
        summary.write_text(ended)
        return found

    monkeypatch.setattr(verify_matches, "read_match", read_and_end)
    monkeypatch.setattr(verify_models, "_check_promotion", lambda *line: None)
    assert problems(run) == []


def test_a_promotion_while_verify_reads(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    third = make_model(run / "saved_models", 2)

    def read_and_promote(saved_models: Path) -> list[dict[str, Any]]:
        found = read_journal(saved_models)
        set_champion(saved_models, third, {"reason": "by hand"})
        return found

    monkeypatch.setattr(verify_models, "read_journal", read_and_promote)
    found = check(run)
    assert (found.problems, found.remarks) == ([], []) and found.checked["models"]["champion"] == 3


def test_a_match_that_is_gone_is_a_remark(run: Path) -> None:
    shutil.rmtree(run / "data/evaluate")
    found = check(run)
    assert found.clean and "is gone" in found.remarks[0]


def test_a_link_that_is_not_the_last_promotion(run: Path) -> None:
    link = run / "saved_models/best_model"
    link.unlink()
    link.symlink_to("000000-init")
    (found,) = problems(run)
    assert "it points to 000000-init, the last promotion is of 000001-b1c8" in found


@pytest.mark.parametrize("make", [lambda link: None, lambda link: link.mkdir(), lambda link: link.symlink_to("nobody")])
def test_no_champion(run: Path, make: Callable[[Path], None]) -> None:
    link = run / "saved_models/best_model"
    link.unlink()
    make(link)
    (found,) = problems(run)
    assert "best_model" in found and "--repair` points it to 000001-b1c8" in found
    (repaired,) = check(run, repair=True).problems
    assert repaired.repaired and link.readlink() == Path("000001-b1c8")
    assert problems(run) == []


def test_a_champion_that_nothing_names(run: Path) -> None:
    (run / "saved_models/best_model").unlink()
    (run / "saved_models/promotions.jsonl").unlink()
    assert not check(run, repair=True).clean
    assert "`ln -s 000001-b1c8 " in problems(run)[0]


def test_an_init_that_a_kill_interrupted(run: Path) -> None:
    (run / "saved_models/best_model").unlink()
    (run / "saved_models/promotions.jsonl").unlink()
    shutil.rmtree(run / "saved_models/000001-b1c8")
    found = check(run)
    assert found.clean and "init was stopped" in found.remarks[0]


def test_a_damaged_line_of_the_journal(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = run / "saved_models/promotions.jsonl"
    first, last = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + last[:40] + b"\n" + last[:9] + b"\n\n" + last)  # two kills
    assert problems(run) == []
    for damaged, number in ((b"#" + first[1:] + last, 1), (first + b"#" + last[1:], 2), (first + last + last[:40], 3)):
        journal.write_bytes(damaged)
        (problem,) = problems(run)
        assert problem.startswith(f"saved_models/promotions.jsonl: line {number} is neither a promotion")
    journal.write_bytes(first + last)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(atomic, "append_line", interrupted)
        set_champion(run / "saved_models", make_model(run / "saved_models", 2), {"reason": "by hand"})
    line = (run / "saved_models" / layout.INTENT).read_text()
    journal.write_bytes(first + last + json.dumps(json.loads(line)).encode()[:30])
    assert problems(run) == []


def interrupted(*args: object) -> None:
    raise KeyboardInterrupt


def test_a_promotion_that_a_kill_interrupted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_models = run / "saved_models"
    third = make_model(saved_models, 2)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(atomic, "append_line", interrupted)
        set_champion(saved_models, third, {"reason": "by hand"})
    found = check(run)
    assert found.clean and "isn't in the journal yet" in found.remarks[0]
    assert check(run, repair=True).clean and check(run).remarks == []
    assert read_journal(saved_models)[-1]["champion"] == third.name


# What is left over


def left_over(run: Path) -> list[Path]:
    """What killed processes leave, in every folder."""
    host, dead = layout.this_host(), 2**22 + 1  # no process has this number
    made = []
    for folder in ("data", "saved_models", "data/training_data", "data/evaluate", "data/selfplay/000000-init/w00"):
        path = run / folder / f".x~{host}~{dead}~20261124T000000~0123abcd.tmp"
        path.write_text("half")
        made.append(path)
    folder = run / "saved_models" / f".000002-x~{host}~{dead}~20261124T000000~0123abcd.tmp"
    folder.mkdir()
    (folder / "weights.safetensors").write_text("half")
    checkpoint = run / "saved_models/.000001-b1c8.training"
    checkpoint.mkdir()
    (checkpoint / "checkpoint.safetensors").write_text("x")
    old = layout.ShardName(datetime.now(UTC) - timedelta(days=2), 1)
    orphan = run / "data/selfplay/000000-init/w00" / old.shard
    orphan.write_text("half")
    ratings = run / "data/ratings.json"
    ratings.write_text("{")
    return [*made, folder, checkpoint, orphan, ratings]


def test_what_killed_processes_left_is_found_and_removed_and_nothing_else(run: Path) -> None:
    before = files(run)
    made = left_over(run)
    found = check(run)
    assert len(found.problems) == len(made) and not found.clean
    assert all(path.exists() for path in made)
    repaired = check(run, repair=True)
    assert repaired.clean and len(repaired.problems) == len(made) and "repaired: " in "\n".join(repaired.lines())
    assert files(run) == before
    assert problems(run) == []


def test_what_living_processes_are_at_work_on_is_left_alone(run: Path) -> None:
    ours = layout.temporary_path(run / "data/evaluate/x")
    ours.write_text("half")
    young = run / "data/selfplay/000000-init/w00" / layout.ShardName(datetime.now(UTC), 1).shard
    young.write_text("half")
    training = run / "saved_models/.000002-b1c8.training"
    training.mkdir()
    found = check(run, repair=True)
    assert found.problems == [] and found.checked["left over"] == {
        "temporary file": 1,
        "uncommitted shard": 1,
        "checkpoint": 1,
    }
    assert ours.exists() and young.exists() and training.exists()


def test_a_pack_that_is_committed_while_verify_reads_stays(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compact was killed before the pack's .meta, and has run again since the names were read."""
    (place,) = run.glob("data/selfplay/*/w00")
    for path in sorted(place.glob("*")):  # a pack has the name of its last shard: days ago
        path.rename(path.with_name(path.name.replace(path.name[:8], "20250101")))
    names = sorted(packs.shards_in(place))
    shards = [(name, (place / name.shard).read_bytes(), (place / name.meta).read_bytes()) for name in names]
    torn = place / layout.PackName(names[-1], len(names)).shard
    torn.write_bytes(b"half")
    monkeypatch.setattr(command, "scan_run", lambda *args, **more: read_and_pack(*args, **more))

    def read_and_pack(directory: Path, whole: bool) -> RunFiles:
        found = scan_run(directory, whole)
        packs.write_pack(place, shards)
        packs.remove_files(place, names)
        return found

    found = check(run, repair=True)
    assert torn.exists() and [one for one in found.problems if one.subject == "left over"] == []


@pytest.mark.parametrize("repair", [False, True])
def test_what_was_left_over_and_is_gone_by_now_is_no_problem(
    run: Path, monkeypatch: pytest.MonkeyPatch, repair: bool
) -> None:
    """As beside a loop: temporary files are renamed, and prune removes a shard after its .meta."""

    def look_and_lose(directory: Path, whole: bool) -> RunFiles:
        left_over(run)
        found = scan_run(directory, whole)
        for path in (directory / one for one in (*found.temporaries, *found.uncommitted)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return found

    monkeypatch.setattr(command, "scan_run", look_and_lose)
    found = check(run, repair)
    assert [one.where for one in found.problems] == ["data/ratings.json", "saved_models/.000001-b1c8.training"]


def test_what_has_no_sidecar_stays_while_another_process_packs(run: Path) -> None:
    old = layout.ShardName(datetime.now(UTC) - timedelta(days=2), 1)
    orphan = run / "data/selfplay/000000-init/w00" / old.shard
    orphan.write_text("half")
    with packs.packing(run / "data/selfplay"):
        found = check(run, repair=True)
    assert orphan.exists() and not found.clean and any("another process packs" in one for one in found.remarks)


def test_what_disappears_meanwhile_is_no_problem(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = one_of(run, "data/selfplay/*/*/*.meta")

    def read_and_lose(path: Path, meta: object) -> object:
        if layout.meta_path(path) == gone:
            path.unlink()
            gone.unlink()
        return read_shard(path, meta)  # type: ignore[arg-type]

    monkeypatch.setattr(extraction, "read_shard", read_and_lose)
    assert problems(run) == []
    assert read_meta(one_of(run, "data/selfplay/*/*/*.meta")).games == 1


# The command line


def test_exit_codes_and_output(run: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    fine = runner.invoke(main.app, ["verify", str(run)])
    assert fine.exit_code == 0 and "all is well" in fine.stdout
    one_of(run, "data/selfplay/*/*/*.gz").unlink()
    bad = runner.invoke(main.app, ["verify", str(run), "--json"])
    assert bad.exit_code == 1 and not json.loads(bad.stdout)["clean"]
    bad = runner.invoke(main.app, ["verify", str(run)])
    assert bad.exit_code == 1 and "1 problem," in bad.stdout
    nothing = runner.invoke(main.app, ["verify", str(tmp_path / "nothing")])
    assert nothing.exit_code == 1 and "no such folder" in nothing.stderr
    with pytest.raises(FileError, match="no run in this folder"):
        verify(VerifyConfig(directory=tmp_path))


def test_many_problems_are_shown_in_part(run: Path) -> None:
    folder = one_of(run, "data/selfplay/*/*")
    for worker in ("w01", "w02"):
        shutil.copytree(folder, folder.with_name(worker))
    found = check(run)
    assert len(found.problems) == 48
    assert "8 more problems" in "\n".join(found.lines()) and "more problems" not in "\n".join(found.lines(whole=True))
