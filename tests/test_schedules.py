"""Schedules: which value counts when, and every mistake in one; the state of the run that a stage reads them at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipeline import main
from pipeline.command_state import run_state_of
from pipeline.errors import FileError, UsageError
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.specs import parse_game
from pipeline.gather.config import GatherConfig
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.options import Options
from pipeline.presets import make_config, read_preset
from pipeline.ratings.config import TournamentConfig
from pipeline.run import layout
from pipeline.run.matches import write_summary
from pipeline.run.models import ModelInfo, set_champion, write_model
from pipeline.schedules import START, RunState, parse_schedule
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig, TrainConfig

FROM_THE_SPEC = "[{until: 30, value: .002}, {until: 137, value: .0008}]"


def preset(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("generation", "value"),
    [(0, 0.002), (1, 0.002), (30, 0.002), (31, 0.0008), (137, 0.0008), (138, 0.0008), (100_000, 0.0008)],
)
def test_the_specs_example_works_as_written(tmp_path: Path, generation: int, value: float) -> None:
    path = preset(tmp_path, f"train:\n  learning_rate: {FROM_THE_SPEC}\n")
    config = make_config(TrainConfig, "train", path, lambda _: RunState(generation))
    assert config.learning_rate == value and type(config.learning_rate) is float


@pytest.mark.parametrize(
    ("samples", "value"), [(0, 16), (999_999, 16), (1_000_000, 32), (4_999_999, 32), (5_000_000, 9), (9_000_000, 9)]
)
def test_by_samples_trained(tmp_path: Path, samples: int, value: int) -> None:
    entries = "{until_samples: 1e6, value: 16}, {value: 32, until_samples: 5_000_000}, {until_samples: 6.e+6, value: 9}"
    path = preset(tmp_path, f"selfplay: {{readouts: [{entries}]}}")
    config = make_config(SelfplayConfig, "selfplay", path, lambda _: RunState(99, samples))
    assert config.readouts == value and type(config.readouts) is int


@pytest.mark.parametrize(
    ("generation", "value"), [(0, 1.5), (1, 1.49975), (2000, 1.0), (4000, 0.5), (4001, 0.5), (90_000, 0.5)]
)
def test_a_value_that_changes_linearly(tmp_path: Path, generation: int, value: float) -> None:
    path = preset(tmp_path, "selfplay: {gumbel_scale: [{until: 4000, from: 1.5, value: 0.5}]}")
    config = make_config(SelfplayConfig, "selfplay", path, lambda _: RunState(generation))
    assert config.gumbel_scale == pytest.approx(value, abs=1e-9)


def test_steps_and_slopes_follow_each_other_and_whole_numbers_stay_whole(tmp_path: Path) -> None:
    entries = "{until_share: 0.5, value: 8}, {until_share: 1, from: 8, value: 13}"
    path = preset(tmp_path, f"selfplay: {{readouts: [{entries}]}}")
    shares = [0.0, 0.25, 0.5, 0.6, 0.75, 1.0]
    found = [
        make_config(SelfplayConfig, "selfplay", path, lambda _, share=share: RunState(1, 0, share)).readouts
        for share in shares
    ]
    assert found == [8, 8, 8, 9, 10, 13]


@pytest.mark.parametrize(("share", "whole"), [("from: 1, value: 0", "from: 16.0, value: 2"),
                                              ("from: 1.0, value: 0", "from: 16, value: 2")])  # fmt: skip
def test_the_settings_type_says_whether_a_slope_is_rounded(tmp_path: Path, share: str, whole: str) -> None:
    lines = f"td_lambda: [{{until: 30, {share}}}], keep_sets: [{{until: 30, {whole}}}]"
    path = preset(tmp_path, f"gather: {{{lines}}}")
    config = make_config(GatherConfig, "gather", path, lambda _: RunState(12))
    assert config.td_lambda == pytest.approx(0.6)
    assert config.keep_sets == 10 and type(config.keep_sets) is int


def test_games_of_a_match_stay_even(tmp_path: Path) -> None:
    path = preset(tmp_path, "evaluate: {games: [{until: 20, from: 40, value: 100}]}")
    found = [make_config(EvaluateConfig, "evaluate", path, lambda _, at=at: RunState(at)).games for at in range(21)]
    assert all(games % 2 == 0 for games in found) and found[1:4] == [44, 46, 48] and found[-1] == 100
    with pytest.raises(UsageError, match=r"--games .*found 65; wanted at least 2 and even"):
        read_preset(preset(tmp_path, "evaluate: {games: 65}"))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("[{until: 3, from: x, value: 1}]", "wanted numbers after from and value"),
        ("[{until: 0, from: 2, value: 1}]", "wanted it to last"),
        ("[{until: 3, from: -2, value: 1}]", "found -2; wanted at least 0"),
        ("[{until: 3, from: 2}]", "wanted a list of"),
    ],
)
def test_mistakes_in_slopes_are_found(tmp_path: Path, entries: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_preset(preset(tmp_path, f"selfplay: {{gumbel_scale: {entries}}}"))


SHARES = "[{until_share: 0.25, value: b2c32}, {until_share: 0.5, value: b4c32}, {until_share: 1, value: b4c64}]"


@pytest.mark.parametrize(
    ("share", "value"), [(0, "b2c32"), (0.249, "b2c32"), (0.25, "b4c32"), (0.5, "b4c64"), (0.99, "b4c64"), (1, "b4c64")]
)
def test_by_the_share_of_the_time_that_is_over(run: Path, tmp_path: Path, share: float, value: str) -> None:
    path = preset(tmp_path, f"train: {{network_size: {SHARES}}}\ngather: {{chunks_to_make: [{{until: 9, value: 7}}]}}")
    assert make_config(TrainConfig, "train", path, run_state_of, time_share=share).network_size == value
    assert make_config(GatherConfig, "gather", path, run_state_of).chunks_to_make == 7  # goes by generations


def test_nobody_said_how_much_time_is_over(run: Path, tmp_path: Path) -> None:
    path = preset(tmp_path, f"train: {{network_size: {SHARES}}}")
    with pytest.raises(UsageError, match=r"network size depends on the share .* --minutes .* --time-share"):
        make_config(TrainConfig, "train", path, run_state_of)
    with pytest.raises(UsageError, match=r"--time-share: found 1.5; wanted at least 0 and at most 1"):
        make_config(TrainConfig, "train", path, run_state_of, time_share=1.5)


def test_settings_that_may_be_absent_and_numbers_that_yaml_takes_for_text(tmp_path: Path) -> None:
    path = preset(
        tmp_path,
        "evaluate: {threshold: [{until: 3, value: 0.6}, {until: 4, value: 55e-2}]}\n"
        "train: {weight_decay: [{until: 1, value: 1e-4}]}",
    )
    config = make_config(EvaluateConfig, "evaluate", path, lambda _: RunState(4))
    assert config.threshold == 0.55
    assert make_config(TrainConfig, "train", path).weight_decay == 1e-4


def test_the_moment_is_asked_only_for_sections_with_a_schedule(tmp_path: Path) -> None:
    path = preset(tmp_path, f"train: {{learning_rate: {FROM_THE_SPEC}, epochs: 2}}\nselfplay: {{games: 3}}")

    def never(config: Options) -> RunState:
        raise AssertionError("asked")

    assert make_config(SelfplayConfig, "selfplay", path, never).games == 3
    assert make_config(TrainConfig, "train", path, never, learning_rate=0.5).learning_rate == 0.5  # an option wins
    with pytest.raises(AssertionError, match="asked"):
        make_config(TrainConfig, "train", path, never)


def test_the_moment_is_asked_with_the_options_in_place(tmp_path: Path) -> None:
    path = preset(tmp_path, f"train: {{learning_rate: {FROM_THE_SPEC}, new_model: elsewhere/000001-x}}")
    asked: list[Any] = []

    def run_state_of(config: Options) -> RunState:
        asked.append(config)
        return START

    make_config(TrainConfig, "train", path, run_state_of)
    make_config(TrainConfig, "train", path, run_state_of, new_model=Path("m/000007-y"))
    assert [config.new_model for config in asked] == [Path("elsewhere/000001-x"), Path("m/000007-y")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("learning_rate: []", ["learning_rate", "empty"]),
        ("learning_rate: [0.1, 0.2]", ["learning_rate", "0.1", "until"]),
        ("learning_rate: [{until: 3}]", ["learning_rate", "{'until': 3}", "value"]),
        ("learning_rate: [{value: 3}]", ["learning_rate", "{'value': 3}", "until"]),
        ("learning_rate: [{untill: 3, value: 1}]", ["learning_rate", "untill"]),
        ("learning_rate: [{until: 3, until_samples: 5, value: 1}]", ["learning_rate", "until_samples"]),
        ("learning_rate: [{until: 3, value: 1, then: 2}]", ["learning_rate", "then"]),
        ("learning_rate: [{until: 3, value: 1}, {until_samples: 9, value: 2}]", ["learning_rate", "both"]),
        ("learning_rate: [{until: 3, value: 1}, {until: 3, value: 2}]", ["learning_rate", "until 3 after 3"]),
        ("learning_rate: [{until: 30, value: 1}, {until: 7, value: 2}]", ["learning_rate", "until 7 after 30"]),
        ("learning_rate: [{until: -1, value: 1}]", ["learning_rate", "until", "-1", "whole number"]),
        ("learning_rate: [{until: 2.5, value: 1}]", ["learning_rate", "2.5", "whole number"]),
        ("learning_rate: [{until: soon, value: 1}]", ["learning_rate", "soon", "whole number"]),
        ("learning_rate: [{until: .inf, value: 1}]", ["learning_rate", "inf", "whole number"]),
        ("learning_rate: [{until_share: 2, value: 1}]", ["learning_rate", "until_share", "2", "share, above 0"]),
        ("learning_rate: [{until_share: half, value: 1}]", ["learning_rate", "'half'", "share, above 0"]),
        ("learning_rate: [{until_share: 0.5, value: 1}, {until: 5, value: 1}]", ["both until and until_share"]),
        ("learning_rate: [{until: true, value: 1}]", ["learning_rate", "True", "whole number"]),
        ("learning_rate: [{until: [1], value: 1}]", ["learning_rate", "[1]", "whole number"]),
        ("learning_rate: [{until: 1, value: 1}, {until: 2, value: -1}]", ["learning_rate", "-1", "above 0"]),
        ("learning_rate: [{until: 1, value: high}]", ["learning_rate", "'high'", "number"]),
        ("learning_rate: [{until: 1, value: yes}]", ["learning_rate", "True", "number"]),
        ("learning_rate: [{until: 1, value: }]", ["learning_rate", "None", "number"]),
        ("epochs: [{until: 1, value: 1}, {until: 2, value: 1.5}]", ["epochs", "1.5", "whole number"]),
        ("precision: [{until: 1, value: float32}]", ["precision", "can't follow a schedule"]),
    ],
)
def test_mistakes_are_named_at_once_whichever_generation_it_is(tmp_path: Path, line: str, said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_preset(preset(tmp_path, f"train:\n  {line}\n"))
    message = str(caught.value)
    assert all(word in message for word in ["mine.yaml", "train", "found", *said]), message
    assert "\n" not in message


def test_flags_follow_no_schedule_and_lists_stay_lists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"top_up.*can't follow a schedule"):
        read_preset(preset(tmp_path, "selfplay: {top_up: [{until: 1, value: true}]}"))
    path = preset(tmp_path, "evaluate: {require: ['random>=0.9']}")
    assert make_config(EvaluateConfig, "evaluate", path).require == ["random>=0.9"]


def test_messages_begin_with_where() -> None:
    with pytest.raises(UsageError, match=r"^here: found"):
        parse_schedule([1], "here")


# The state of the run


def model(path: Path, number: int, total_samples: int | None = None) -> Path:
    game = parse_game("tictactoe")
    architecture = Architecture.for_game("b1c8", game)
    manifest = {} if total_samples is None else {"total_samples": total_samples}
    info = ModelInfo(
        name=path.name,
        number=number,
        game=game.spec,
        method="alphazero",
        architecture=architecture.to_dict(),
        manifest=manifest,
    )
    write_model(path, info, random_weights(architecture, 0))
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of four models whose champion is number 1, in this folder's saved_models."""
    monkeypatch.chdir(tmp_path)
    saved = tmp_path / "saved_models"
    for number, samples in ((0, None), (1, 1000), (2, 2500), (3, 4000)):
        model(saved / f"{number:06d}-x", number, samples)
    set_champion(saved, saved / "000001-x", {"reason": "test"})
    return saved


def test_self_play_gathering_and_training_make_the_next_generation(run: Path) -> None:
    for config in (SelfplayConfig(), GatherConfig(), TrainConfig()):
        assert run_state_of(config) == RunState(4, 4000), config


def test_matches_judge_the_newest_model_or_the_one_named(run: Path) -> None:
    assert run_state_of(EvaluateConfig()) == run_state_of(TournamentConfig()) == RunState(3, 4000)
    assert run_state_of(EvaluateConfig(black_model="random")) == RunState(3, 4000)
    assert run_state_of(EvaluateConfig(white_model="saved_models/000002-x@5")) == RunState(2, 2500)
    assert run_state_of(EvaluateConfig(white_model="random")) == RunState(3, 4000)


def test_a_match_that_is_left_to_play_is_judged_by_its_own_challenger(run: Path) -> None:
    match = Path("data/evaluate") / layout.match_name("000003-x", "000001-x")
    match.mkdir(parents=True)
    write_summary(match, {"promoted": False, "measured": 4})
    assert run_state_of(EvaluateConfig()) == RunState(2, 2500)  # number 3 has played the champion, number 1


def test_the_models_looked_at_are_those_the_stage_uses(run: Path) -> None:
    other = model(run.parent / "other" / "000008-y", 8, 70)
    assert run_state_of(SelfplayConfig(network=other)) == RunState(9, 70)
    assert run_state_of(EvaluateConfig(black_model=str(other))) == RunState(8, 70)
    assert run_state_of(TrainConfig(new_model=other.parent / "some-name")) == RunState(9, 70)
    assert run_state_of(TrainConfig(new_model=run / "000030-again", original_model=other)) == RunState(30, 70)
    assert run_state_of(TrainConfig(original_model=Path("pretrained/backgammon"))).samples > 0  # in any folder


def test_a_champion_that_lies_elsewhere_belongs_to_the_run_all_the_same(run: Path) -> None:
    elsewhere = model(run.parent / "pretrained" / "strong", 8, 70)
    (run / layout.CHAMPION).unlink()
    (run / layout.CHAMPION).symlink_to(elsewhere)
    assert run_state_of(SelfplayConfig()) == RunState(4, 4000)
    assert run_state_of(EvaluateConfig()) == RunState(3, 4000)


def test_before_there_are_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_state_of(InitConfig()) == START == RunState(0, 0, 0.0)
    assert run_state_of(TrainConfig()) == run_state_of(GatherConfig()) == RunState(1, 0)
    with pytest.raises(FileError):
        run_state_of(SelfplayConfig())


# End to end


def test_a_stage_gets_and_stores_what_was_effective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = preset(
        tmp_path,
        "init: {game: tictactoe, network_size: b1c8}\n"
        "selfplay: {games: [{until: 1, value: 12}, {until: 2, value: 8}], seed: 1, backend: torch, threads: 1}\n"
        "gather: {as_many_as_possible: true, positions_per_chunk: 32}\n"
        "train: {epochs: 1, batch_size: 32, learning_rate: [{until: 1, value: 0.002}, {until: 2, value: 0.0005}]}\n",
    )

    def call(stage: str) -> dict[str, Any]:
        result = CliRunner().invoke(main.app, [stage, "--preset", path, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    call("init")
    for games, rate in ((12, 0.002), (8, 0.0005)):
        assert call("selfplay")["games"] == games
        call("gather")
        stored = json.loads((Path(call("train")["model"]) / "model.json").read_text())["manifest"]["config"]
        assert stored["learning_rate"] == rate


def test_presets_shows_what_counts_for_a_generation(tmp_path: Path) -> None:
    path = preset(tmp_path, f"init: {{seed: [{{until: 0, value: 5}}, {{until: 9, value: 6}}]}}\n"
                            f"train: {{learning_rate: {FROM_THE_SPEC}, epochs: [{{until_samples: 9, value: 1}}, "
                            "{until_samples: 10, value: 2}], batch_size: 7}\n")  # fmt: skip
    shown = CliRunner().invoke(main.app, ["presets", path, "--generation", "31", "--samples", "9"])
    assert yaml.safe_load(shown.stdout) == {
        "init": {"seed": 5},
        "train": {"learning_rate": 0.0008, "epochs": 2, "batch_size": 7},
    }
    assert CliRunner().invoke(main.app, ["presets", path]).stdout == Path(path).read_text()
    for option in ("--samples", "--time-share"):
        refused = CliRunner().invoke(main.app, ["presets", path, option, "1"])
        assert refused.exit_code == 2 and "wanted --generation with them" in refused.output
    mine = preset(tmp_path, "train: {epochs: [{until: 0, value: 5}, {until: 9, value: 6}]}\n")
    shown = CliRunner().invoke(main.app, ["presets", mine, "--generation", "0"])
    assert yaml.safe_load(shown.stdout) == {"train": {"epochs": 5}}
