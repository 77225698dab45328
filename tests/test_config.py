"""Presets fill configs, options override them, and every mistake is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pipeline.commands import COMMANDS, SECTIONS
from pipeline.errors import UsageError
from pipeline.evaluate.config import EvaluateConfig
from pipeline.gather.config import GatherConfig
from pipeline.methods.named import method_named
from pipeline.networks.options import BACKENDS
from pipeline.presets import make_config, preset_names, preset_path, preset_text, read_preset, scheduled_lines
from pipeline.schedules import RunState
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import TrainConfig
from tests.families import having

PRESETS = preset_names()


def test_there_are_presets() -> None:
    wanted = {"go9-tour", "go9", "go9-gpu", "go19-gpu", "tictactoe", "gomoku-any"}
    assert wanted <= set(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stage", SECTIONS)
def test_every_preset_gives_a_valid_config_for_every_stage(preset: str, stage: str) -> None:
    config = make_config(COMMANDS[stage].config, stage, preset)
    lines = read_preset(preset).get(stage, {})
    for name, value in lines.items():
        field = getattr(config, name)
        if name in scheduled_lines(COMMANDS[stage].config, lines):
            value = value[0].get("from", value[0]["value"])  # of a schedule, at its start
        assert (str(field) if isinstance(field, Path) else field) == value


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_says_in_its_first_line_what_it_is_for_needs_and_gives(preset: str) -> None:
    first_line = preset_path(preset).read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"# [^;]{8,}; needs [^;]+; gives [^;]+", first_line) and len(first_line) <= 120


@pytest.mark.parametrize("preset", PRESETS)
def test_every_line_of_a_preset_has_a_comment(preset: str) -> None:
    text = preset_path(preset).read_text(encoding="utf-8")
    section, bare = "", []
    for line in text.splitlines():
        if re.match(r"\w", line):
            section = line
        # An entry of a schedule is explained by the line that it belongs to, the game's spec by the preset's first.
        elif line.strip() and "#" not in line and not line.strip().startswith(("- ", "game:")):
            bare.append(f"{section} {line}")
    assert not bare


@pytest.mark.parametrize("preset", PRESETS)
def test_every_schedule_of_a_preset_ends_with_a_valid_config(preset: str) -> None:
    for stage in SECTIONS:
        kind = COMMANDS[stage].config
        lines = read_preset(preset).get(stage, {})
        config = make_config(kind, stage, preset, lambda _: RunState(1_000_000, 10**12, 1.0))
        for name in scheduled_lines(kind, lines):
            assert getattr(config, name) == lines[name][-1]["value"]


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_names_a_game_that_exists(preset: str) -> None:
    from pipeline.games.specs import parse_game

    config = make_config(COMMANDS["init"].config, "init", preset)
    method_named(config.method).check(parse_game(config.game))


def test_defaults_are_the_documented_ones() -> None:
    selfplay, gather, train, evaluate = SelfplayConfig(), GatherConfig(), TrainConfig(), EvaluateConfig()
    assert (selfplay.network, selfplay.output_dir) == (Path("saved_models/best_model"), Path("data/selfplay"))
    assert (selfplay.readouts, selfplay.games, selfplay.verbose) == (0, 1, 1)
    assert (gather.directory, gather.output_directory) == (Path("data/selfplay"), Path("data/training_data"))
    assert (gather.max_positions, gather.positions_per_chunk, gather.chunks_to_make) == (2_500_000, 2_048, 190)
    assert (train.directory, train.original_model, train.new_model) == (Path("data/training_data"), None, None)
    assert (train.epochs, train.directory) == (10, Path("data/training_data"))
    assert (evaluate.black_model, evaluate.white_model) == ("saved_models/best_model", None)
    assert (evaluate.games, evaluate.readouts, evaluate.threshold) == (400, 800, None)


def test_option_wins_over_preset_and_preset_over_default(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("selfplay:\n  games: 7\n  readouts: 9\n")
    config = make_config(SelfplayConfig, "selfplay", str(preset), games=3, readouts=None)
    assert (config.games, config.readouts, config.threads) == (3, 9, 0)


def test_boolean_option_given_as_false_wins_over_preset(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("selfplay:\n  top_up: true\n")
    assert make_config(SelfplayConfig, "selfplay", str(preset)).top_up
    assert not make_config(SelfplayConfig, "selfplay", str(preset), top_up=False).top_up


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selfplay: [1", "YAML"),
        ("- selfplay", "sections"),
        ("selfplay: 3", "sections"),
        ("selfpaly:\n  games: 1", "selfpaly"),
        ("selfplay:\n  gaems: 1", "gaems"),
        ("selfplay:\n  games: many", "--games"),
        ("selfplay:\n  games: 0", "--games"),
        ("selfplay:\n  backend: abacus", "--backend"),
    ],
)
def test_mistake_in_a_preset_is_named_with_the_preset(tmp_path: Path, text: str, said: str) -> None:
    preset = tmp_path / "wrong.yaml"
    preset.write_text(text)
    with pytest.raises(UsageError) as caught:
        make_config(SelfplayConfig, "selfplay", str(preset))
    message = str(caught.value)
    assert said in message and "wrong.yaml" in message and "\n" not in message


BOMB = "\n".join([f"a0: &a0 [{'x, ' * 9}]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 12))])
MERGED = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{'<<': [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selfplay: {games: " + "9" * 5000 + "}", "not readable as YAML"),
        ("selfplay: {games: 2026-99-99}", "not readable as YAML"),
        ("selfplay: {games: " + "[" * 30_000 + "}", "nested too deeply"),
        ("selfplay: {games: " + "[" * 20 + "]" * 20 + "}", "nested too deeply"),
        ("selfplay: &a {games: [*a]}", "nested too deeply"),
        (BOMB, "more than 2000 values"),
        (MERGED.replace("'<<'", "<<"), "more than 2000 lines"),
        ("# " + "x" * 99_999, "more than 65536 bytes"),
        ("selfplay: {games: \x00}", "not readable as YAML"),
        ("selfplay: {? [1, 2] : 3}", "not readable as YAML"),
        ("train: {epochs: 1}\ninit: {seed: 3}\ntrain: {batch_size: 64}", "line 3: 'train' appears a second time"),
        ("train:\n  epochs: 1\n  epochs: 2", "line 3: 'epochs' appears a second time"),
    ],
)
def test_yaml_that_is_made_to_do_harm_or_says_two_things_at_once(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_preset(str(tmp_path / "wrong.yaml"))
    assert "wrong.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_merged_mappings_may_be_overruled(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("selfplay: &a {games: 10, readouts: 8}\nevaluate: {<<: *a, games: 20}\n")
    assert read_preset(str(path))["evaluate"] == {"games": 20, "readouts": 8}


def test_a_mistake_in_another_commands_section_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("selfplay:\n  games: 10\ntrain:\n  epochs: x\n")
    with pytest.raises(UsageError, match=r"^train --epochs \(preset .*mine\.yaml\): found 'x'; wanted a whole number"):
        make_config(SelfplayConfig, "selfplay", str(path))
    path.write_text("train:\n  gradient_clip: -1\n")
    with pytest.raises(UsageError, match=r"found -1; wanted a number, greater than 0|wanted .*above 0"):
        read_preset(str(path))


def test_a_preset_has_the_lines_of_the_one_it_extends_except_its_own(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "selfplay:\n  games: 7\n  readouts: [{until: 2, value: 8}, {until: 9, value: 16}]\ntrain:\n  epochs: 3\n"
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "middle.yaml").write_text(
        "extends: ../base.yaml\nselfplay:\n  readouts: [{until: 5, value: 9}]\n"
    )
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: more/middle.yaml  # relative to this file\nselfplay:\n  games: 5\ngather:\n  seed: 2\n")
    wanted = {
        "selfplay": {"games": 5, "readouts": [{"until": 5, "value": 9}]}, "train": {"epochs": 3}, "gather": {"seed": 2}
    }  # fmt: skip
    assert read_preset(str(mine)) == wanted
    mine.write_text("extends: recipe\ntrain: {epochs: 9}\n")
    assert read_preset(str(mine)) == {**read_preset("recipe"), "train": {**read_preset("recipe")["train"], "epochs": 9}}


def test_a_preset_that_extends_another_is_printed_whole_and_says_where_lines_are_from(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text(
        "# base\nselfplay:\n    games: 7      # many\n    # few at first\n    readouts:\n"
        "      - {until: 2, value: 8}   # two\n      - {until: 9, value: 16}\ntrain:\n  epochs: 3\n"
    )
    mine.write_text("# mine\nextends: base.yaml\ntrain:\n  seed: 1 # one\nselfplay:\n  games: 5 # few\n")
    assert preset_text(str(mine)) == (
        "# mine\n# extends base; its lines follow those of this preset\n"
        "selfplay:\n  games: 5 # few\n  # of base:\n  readouts:\n"
        "    - {until: 2, value: 8}   # two\n    - {until: 9, value: 16}\n\n"
        "train:\n  seed: 1 # one\n  # of base:\n  epochs: 3"
    )
    mine.write_text("extends: base.yaml\nselfplay: {games: 5}\n")  # no lines to copy
    assert yaml.safe_load(preset_text(str(mine))) == read_preset(str(mine))
    for name in PRESETS:
        assert yaml.safe_load(preset_text(name)).items() >= read_preset(name).items()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends: mine.yaml", "preset {mine}: it extends itself; wanted a last one without 'extends'"),
        ("extends: b.yaml", "preset {mine}: it extends itself, through b.yaml; wanted a last one without 'extends'"),
        ("extends: go99", "preset {mine}: extends 'go99': no such preset; known: "),
        ("extends: no.yaml", "preset {mine}: extends 'no.yaml': no such preset; known: "),
        (f"extends: {'x' * 999}.yaml", "preset {mine}: extends 'xxx"),
        ("extends: [a]", "preset {mine}: extends: found ['a']; wanted a preset's name, or a path to a .yaml file"),
        ("extends: wrong.yaml", "train --epochs (preset {wrong}): found 'x'; wanted a whole number"),
    ],
)
def test_what_a_preset_can_not_extend(tmp_path: Path, text: str, said: str) -> None:
    mine = tmp_path / "mine.yaml"
    (tmp_path / "b.yaml").write_text("extends: mine.yaml")
    (tmp_path / "wrong.yaml").write_text("train: {epochs: x}")
    mine.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_preset(str(mine))
    assert str(caught.value).startswith(said.format(mine=mine, wrong=tmp_path / "wrong.yaml"))


def test_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="go9-tour"):
        make_config(SelfplayConfig, "selfplay", "go99")


def test_wrong_option_is_not_blamed_on_the_preset() -> None:
    with pytest.raises(UsageError) as caught:
        make_config(SelfplayConfig, "selfplay", "tictactoe", games=-1)
    assert "--games" in str(caught.value) and "-1" in str(caught.value) and "tictactoe" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("games: 1.5", "--games (preset P): found 1.5; wanted a whole number, at least 1"),
        ("games: null", "--games (preset P): found None; wanted a whole number, at least 1"),
        ("games: .inf", "--games (preset P): found inf; wanted a whole number, at least 1"),
        ("games: 0", "--games (preset P): found 0; wanted at least 1"),
        ("c_puct: much", "--c-puct (preset P): found 'much'; wanted a number, above 0"),
        ("c_puct: .nan", "--c-puct (preset P): found nan; wanted above 0"),
        ("full_search_fraction: 1.5", "--full-search-fraction (preset P): found 1.5; wanted above 0 and at most 1"),
        ("resign_false_rate: 1", "--resign-false-rate (preset P): found 1; wanted at least 0 and below 1"),
        ("top_up: maybe", "--top-up (preset P): found 'maybe'; wanted yes or no"),
        ("network: 3", "--network (preset P): found 3; wanted a path"),
        ("opponents: 3", "--opponents (preset P): found 3; wanted a text"),
        ("worker: a b", "--worker (preset P): found 'a b'; wanted letters, digits, - and _ only"),
        ("backend: 3", f"--backend (preset P): found 3; wanted one of {', '.join(BACKENDS)}"),
    ],
)
def test_a_wrong_value_is_found_and_wanted_in_our_words(tmp_path: Path, line: str, said: str) -> None:
    preset = tmp_path / "wrong.yaml"
    preset.write_text(f"selfplay:\n  {line}\n")
    with pytest.raises(UsageError) as caught:
        make_config(SelfplayConfig, "selfplay", str(preset))
    assert str(caught.value) == "selfplay " + said.replace("(preset P)", f"(preset {preset})")


def test_wrong_lists_and_schedules_are_found_and_wanted_in_our_words(tmp_path: Path) -> None:
    preset = tmp_path / "wrong.yaml"
    for line, said in (
        ("require: x", "--require (preset P): found 'x'; wanted a list"),
        ("require: [random>=0.5, 3]", "--require (preset P): found 3; wanted a text"),
        ("readouts: [{until: 2, value: 8}, {until: 9, value: -8}]", "readouts: found -8; wanted at least 0"),
        ("sprt: [a]", "sprt: found a list; wanted one value"),
    ):
        preset.write_text(f"evaluate:\n  {line}\n")
        with pytest.raises(UsageError) as caught:
            make_config(GatherConfig, "gather", str(preset))  # whichever command reads it
        assert said.replace("(preset P)", f"(preset {preset})") in str(caught.value)


@pytest.mark.parametrize("stage", SECTIONS)
def test_every_pattern_has_words(stage: str) -> None:
    for name, field in COMMANDS[stage].config.model_fields.items():
        if any(hasattr(fact, "pattern") for fact in field.metadata):
            with pytest.raises(UsageError) as caught:
                make_config(COMMANDS[stage].config, stage, **{name: "no such thing"})
            assert "^" not in str(caught.value) and "wanted" in str(caught.value)


def test_the_size_of_the_network_may_follow_a_schedule(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("train:\n  network_size: [{until: 4, value: b2c32}, {until: 9, value: b4c64}]\n")
    for generation, size in ((1, "b2c32"), (4, "b2c32"), (5, "b4c64"), (90, "b4c64")):
        config = make_config(TrainConfig, "train", str(preset), lambda _, now=generation: RunState(now))  # type: ignore[misc]
        assert config.network_size == size
    preset.write_text("train:\n  network_size: [{until: 4, value: large}]\n")
    with pytest.raises(UsageError, match=r"found 'large'; wanted bBLOCKScCHANNELS"):
        make_config(TrainConfig, "train", str(preset))


@pytest.mark.parametrize(
    ("stage", "line", "option"),
    [
        ("evaluate", "black_model: 'gtp:touch x'", "--black-model"),
        ("evaluate", "white_model: 'e= gtp:touch x'", "--white-model"),
        ("evaluate", "single: 'e=handicap:3:gtp:touch x'", "--single"),
        *having("shogi", ("evaluate", "white_model: 'usi:touch x'", "--white-model")),
        ("evaluate", "benchmark: [random, 'gtp:touch x']", "--benchmark"),
        ("evaluate", "require: ['random>=0.5', 'e=gtp:touch x>=0.5']", "--require"),
        ("tournament", "player: [random, 'gtp:touch x']", "--player"),
        *having("backgammon", ("evaluate", "require: ['gnubg:0>=0']", "--require")),
    ],
)
def test_a_preset_runs_engines_only_if_the_command_line_allows_it(
    tmp_path: Path, stage: str, line: str, option: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{stage}:\n  {line}\n")
    with pytest.raises(UsageError, match=rf"{option} would run the engine .*--allow-engines"):
        make_config(COMMANDS[stage].config, stage, str(path))
    assert make_config(COMMANDS[stage].config, stage, str(path), allow_engines=True)
    given = {option.removeprefix("--").replace("-", "_"): ["gtp:x"] if "[" in line else "gtp:x"}
    assert make_config(COMMANDS[stage].config, stage, str(path), **given)  # the command line's own
    path.write_text(f"{stage}:\n  {line}\n  allow_engines: true\n")
    with pytest.raises(UsageError, match="on the command line alone"):
        make_config(COMMANDS[stage].config, stage, str(path))


def test_a_schedule_runs_no_engine_either(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("selfplay:\n  opponents: [{until: 1, value: 'mirror=1'}, {until: 2, value: 'gtp:touch x=1'}]\n")
    with pytest.raises(UsageError, match="--opponents would run the engine 'gtp:touch x=1'"):
        make_config(COMMANDS["selfplay"].config, "selfplay", str(path))


def test_true_and_false_may_follow_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("selfplay:\n  opponents_teach: [{until: 3, value: true}, {until: 4, value: false}]\n")
    for generation, wanted in ((3, True), (4, False)):
        config = make_config(SelfplayConfig, "selfplay", str(path), lambda _, now=generation: RunState(now))  # type: ignore[misc]
        assert config.model_dump()["opponents_teach"] is wanted
    path.write_text("selfplay:\n  opponents_teach: [{until: 3, value: maybe so}]\n")
    with pytest.raises(UsageError, match="opponents_teach"):
        make_config(SelfplayConfig, "selfplay", str(path))
