"""A method unlike AlphaZero, on a game with dice, through the same four commands and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline import extensions
from pipeline.commands import COMMANDS
from pipeline.errors import FileError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.named import method_named
from pipeline.presets import make_config, preset_names
from pipeline.progress import SILENT
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.reports.show import show
from pipeline.reports.summaries import summary_text
from pipeline.run.matches import read_match
from pipeline.run.models import read_model
from pipeline.run.shards import newest_shards, read_shard
from pipeline.schedules import RunState
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init
from pipeline.upkeep.verify.check_matches import check_matches
from pipeline.upkeep.verify.problems import Findings
from tests.families import having
from tests.games.toys import DiceRace
from tests.methods.toy import index_of

GAME = DiceRace(6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which three generations were made; the tests work there."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(extensions.CORE[extensions.GAMES], "dicerace", "tests.games.toys:DiceRace.from_spec")
        patch.setitem(extensions.CORE[extensions.METHODS], "toy", "tests.methods.toy:ToyMethod")
        patch.chdir(folder)
        init(InitConfig(game="dicerace:6", method="toy"))
        for generation in range(3):
            selfplay(SelfplayConfig(games=200, seed=generation, threads=1))
            gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=256, seed=generation))
            new_model = Path(f"saved_models/00000{generation + 1}-t")
            train(TrainConfig(epochs=8, batch_size=64, learning_rate=0.02, new_model=new_model))
            evaluate(EvaluateConfig(games=2, threshold=0.0, readouts=0))
        yield Path("saved_models/000003-t")
    parse_game.cache_clear()


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *having("text", ("init", "pretraining_steps", 5)),
        ("selfplay", "temperature_plies", 3),
        ("selfplay", "resign_threshold", -0.9),
        ("selfplay", "noise_weight", 0.5),
        ("gather", "searched_only", True),
        ("train", "ownership_weight", 0.5),
    ],
)
def test_options_of_another_method_are_refused(run: Path, command: str, option: str, value: object) -> None:
    calls = {
        "init": lambda **given: init(InitConfig(game="dicerace:6", method="toy", new_model=Path("new/0-t"), **given)),
        "selfplay": lambda **given: selfplay(SelfplayConfig(output_dir=Path("new"), **given)),
        "gather": lambda **given: gather(GatherConfig(output_directory=Path("new"), **given)),
        "train": lambda **given: train(TrainConfig(original_model=run, new_model=Path("new/9-t"), **given)),
    }
    named = option.replace("_", "-")
    with pytest.raises(UsageError, match=f"^{command} --{named}: method toy doesn't read it; leave it out$"):
        calls[command](**{option: value})
    assert not list(Path("new").rglob("*-t")) and not list(Path("new").rglob("*.gz")) + list(Path("new").rglob("*.h5"))


def test_all_four_commands_and_show(run: Path) -> None:
    model = read_model(run)
    assert model.info.method == "toy" and model.info.parents == ["000002-t"]
    assert Path("saved_models/best_model").resolve().name == run.name
    table = model.weights["table"]
    learned = [table[index_of(GAME, np.array([own, theirs]))] for own in range(4) for theirs in range(4)]
    exact = [1 - 2 * GAME.value(theirs, own) for own in range(4) for theirs in range(4)]  # the opponent throws next
    # A table that knew nothing would be at 0 ± 0.26.
    assert np.corrcoef(learned, exact)[0, 1] > 0.5
    meta = next(newest_shards(Path("data/selfplay")))
    shard = read_shard(meta.path, meta)
    assert meta.method == "toy" and shard.header["method"] == "toy"
    assert [array["name"] for array in shard.header["arrays"]][-3:] == ["moves", "flags", "liked"]
    assert shard.own["liked"].shape == (shard.num_positions, 2) and shard.own["liked"].any()
    assert (
        not shard.visit_lengths.any()
        and len(shard.visit_counts) == 0
        and meta.surprises.tolist() == [0] * len(shard.moves)
    )
    liked = [line for line in "\n".join(show(meta.path, game=0)).splitlines() if " liked " in line]
    assert len(liked) == len(shard.game(0).moves) and not any("visits" in line or "policy" in line for line in liked)
    for path in (run, Path("data/selfplay"), Path("data/training_data"), Path()):
        assert "dicerace:6" in "\n".join(show(path))


def test_games_that_count_several_points(run: Path) -> None:
    """From self-play's records to its summary; the folder has shards of its own."""
    spec, folder = "dicerace:6,double=on", Path("points")
    init(InitConfig(game=spec, method="toy", new_model=folder / "000000-t"))
    wanted = {"network": folder / "000000-t", "output_dir": folder / "games", "threads": 1}
    played = selfplay(SelfplayConfig(games=60, seed=3, **wanted))
    shard_games = [read_shard(meta.path, meta) for meta in newest_shards(folder / "games")]
    results = np.concatenate([shard.results for shard in shard_games])
    assert {shard.max_result for shard in shard_games} == {2.0}
    assert {1, 2} <= set(np.abs(results)) <= {0, 1, 2}
    assert played.points_per_game == pytest.approx(results.mean())
    assert played.big_wins == {"double": (np.abs(results) == 2).sum()}
    text = "\n".join(played.lines())
    assert f"{played.points_per_game:+.2f} points a game" in text and " doubles" in text


def test_matches_by_points(run: Path) -> None:
    """Promotion, records, show, tournament and ratings of a game that counts up to 2."""
    spec, folder = "dicerace:6,double=on", Path("points_match")
    init(InitConfig(game=spec, method="toy", new_model=folder / "models/000000-t"))
    here = {"output_dir": folder / "evaluate", "pool": folder / "pool.json", "ratings": folder / "ratings.json"}
    players = {"white_model": str(folder / "models/000000-t"), "black_model": "random"}
    config = EvaluateConfig(**players, **here, games=80, readouts=0)
    summary = evaluate(config)
    match = read_match(Path(summary.match))
    assert (match.header.max_result, match.header.settings["opening_plies"]) == (2.0, 0)
    assert len(match.games) == 80 and summary.points is not None and summary.points.pairs == 40
    results = [game.challenger_result for game in match.games]
    assert {1, 2} <= {abs(result) for result in results}
    assert summary.points.per_game == pytest.approx(np.mean(results))
    assert summary.points.won["double"] == results.count(2) and summary.points.lost["single"] == results.count(-1)
    assert match.summary is not None and match.summary["points"]["pairs"] == 40
    of_pairs = [(one + other) / 2 for one, other in zip(results[::2], results[1::2], strict=True)]
    low, high = np.mean(of_pairs) + np.array([-1.96, 1.96]) * np.std(of_pairs, ddof=1) / np.sqrt(40)
    assert (summary.points.low, summary.points.high) == pytest.approx((low, high), abs=1e-3)
    assert summary.passed == (np.mean(of_pairs) >= 2 * np.std(of_pairs, ddof=1) / np.sqrt(40))
    text = "\n".join(summary.lines())
    assert f"{summary.points.per_game:+.3f} points a game ({low:+.3f} to {high:+.3f}), needed" in text
    shown = "\n".join(show(Path(summary.match)))
    assert f"{summary.points.per_game:+.3f} ({low:+.3f} to {high:+.3f}) in 40 whole pairs" in shown
    assert " a double" in shown
    low_bar = evaluate(config.model_copy(update={"threshold": 0.0, "output_dir": folder / "low"}))
    assert low_bar.threshold == 0.0 and low_bar.passed == (low_bar.points.per_game >= 0)
    with pytest.raises(UsageError, match="the sequential test is about wins; wanted --threshold"):
        evaluate(config.model_copy(update={"sprt": "0,35,0.05,0.05"}))
    found = tournament(
        TournamentConfig(player=list(players.values()), games=40, readouts=0, output_dir=folder / "tournament")
    )
    assert [row.points_per_game for row in found.rows] == [
        pytest.approx(-found.rows[1].points_per_game),
        pytest.approx(-found.rows[0].points_per_game),
    ]
    assert "points a game" in summary_text(found) and "from games won, however many points" in summary_text(found)


def test_verify_decides_conditions_by_points_too(run: Path) -> None:
    """Half of the games won is more than 0.05 of the games, but not 0.05 points a game."""
    players = {"white_model": "one=random", "black_model": "other=random", "game": "dicerace:6,double=on"}
    folder = Path("conditions/required")
    config = EvaluateConfig(**players, games=40, threshold=0.05, output_dir=folder)
    runs = (config.model_copy(update={"seed": seed, "output_dir": folder / f"{seed}/required"}) for seed in range(20))
    found = next(summary for run in runs if not (summary := evaluate(run)).passed)
    assert found.points is not None and found.points.per_game < 0.05 < found.share
    findings = Findings(Path())
    check_matches([Path(found.match).parent], findings, SILENT)
    assert not findings.problems


def test_it_beats_random_and_pairs_of_games_have_the_same_dice(run: Path) -> None:
    players = {"white_model": str(run), "black_model": "random"}
    summary = evaluate(EvaluateConfig(**players, games=400, readouts=0, opening_plies=0, promote=False))
    assert summary.games_played > 100 and summary.share > 0.5
    match = read_match(Path(summary.match))
    by_index = {one.index: one for one in match.games}
    first_throws = [
        (by_index[i].moves[:3:2], by_index[i + 1].moves[:3:2])
        for i in range(0, 400, 2)
        if i in by_index and i + 1 in by_index
    ]
    assert all(one == other for one, other in first_throws)
    assert len({tuple(one) for one, _ in first_throws}) > 3


def test_summaries_say_nothing_of_another_methods(run: Path) -> None:
    played = selfplay(SelfplayConfig(games=20, seed=9, threads=1, output_dir=Path("more")))
    assert played.resign_threshold is None and not any("resigned" in line for line in played.lines())
    folders = {"directory": Path("more"), "output_directory": Path("chunks")}
    gather(GatherConfig(**folders, as_many_as_possible=True, positions_per_chunk=64, holdout_fraction=0.3))
    more = {"directory": Path("chunks"), "new_model": Path("other/000009-t"), "original_model": run}
    trained = train(TrainConfig(**more, epochs=1, batch_size=64))
    text = "\n".join(trained.lines())
    assert trained.method == "toy" and trained.metrics["train"].keys() == {"total"} and trained.holdout_examples
    assert f"training: loss {trained.loss:.3f}\n" in text
    assert "policy" not in text and "value" not in text and "right" not in text


def test_who_asks_for_the_wrong_thing_is_told(run: Path) -> None:
    with pytest.raises(UsageError, match=r"dicerace:6 .*wanted a board game without chance"):
        init(InitConfig(game="dicerace:6"))
    with pytest.raises(UsageError, match="tictactoe is no dice race"):
        init(InitConfig(game="tictactoe", method="toy"))
    known = ", ".join(sorted(extensions.bundled(extensions.METHODS)))  # toy among them
    with pytest.raises(UsageError, match=f"method: unknown name 'none'; known methods: {known}"):
        init(InitConfig(game="tictactoe", method="none"))


def test_examples_of_another_game_are_refused(run: Path) -> None:
    init(InitConfig(game="tictactoe", new_model=Path("another/000000-init"), network_size="b1c8"))
    with pytest.raises(FileError):
        train(TrainConfig(original_model=Path("another/000000-init"), new_model=Path("another/000001-x")))


@pytest.mark.parametrize("preset", preset_names())
def test_a_method_reads_what_its_presets_set(preset: str) -> None:
    method = make_config(COMMANDS["init"].config, "init", preset).method
    for command in ("init", "selfplay", "gather", "train"):
        config = make_config(COMMANDS[command].config, command, preset, lambda _: RunState(3, 10**6, 0.5))
        method_named(method).check_options(command, config)
