"""The command line itself: options, help, messages, exit codes. What the stages do is tested with them."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pipeline import extensions, main
from pipeline.bench.config import BenchConfig
from pipeline.commands import COMMANDS as TABLE
from pipeline.commands import SECTIONS
from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.evaluate.promotion import ConditionResult, EvaluateSummary
from pipeline.loop.recipe import Measurements
from pipeline.options import Options
from pipeline.presets import preset_names, preset_path, preset_text
from pipeline.progress import Progress
from pipeline.reports.config import StatusConfig
from pipeline.reports.summaries import summary_text
from pipeline.run.store import working_copy
from pipeline.schedules import RunState
from pipeline.selfplay.command import SelfplaySummary
from pipeline.selfplay.config import SelfplayConfig
from pipeline.tracking import tracker
from pipeline.upkeep.config import CompactConfig, PruneConfig, VerifyConfig

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
GROUP: Any = get_command(main.app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}


@dataclasses.dataclass(frozen=True)
class Summary:
    """Stands for what a stage returns."""

    games: int = 1234
    losses: dict[str, float] = dataclasses.field(default_factory=lambda: {"policy": 2.34567, "value": 0.5})
    model: Path = Path("saved_models/000001-name")
    skipped: tuple[str, ...] = ()
    promoted: bool = True
    seed: int | None = None


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Replaces the selfplay stage; `given` holds the config that it got, `act` is what it does."""
    fake = types.SimpleNamespace(given=None, act=lambda config, progress: Summary())

    def selfplay(config: SelfplayConfig, progress: Progress) -> Summary:
        fake.given = config
        return fake.act(config, progress)

    module = types.ModuleType("pipeline.selfplay.command")
    module.selfplay = selfplay  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.selfplay.command", module)
    return fake


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, list(arguments))


def test_a_command_in_wrong_letters_is_suggested() -> None:
    for wrong, right in (("selfpaly", "selfplay"), ("shwo", "show")):
        result = run(wrong)
        assert result.exit_code == 2 and right in result.output


def raising(error: BaseException) -> Any:
    def act(config: SelfplayConfig, progress: Progress) -> Summary:
        raise error

    return act


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    command = COMMANDS[name]
    for word in ("Writes:", "Exit:", f"Example: python main.py {name}"):
        assert word in command.help
    for option in command.params:
        assert getattr(option, "help", None), f"{name} {option.name} has no help"


def test_what_runs_in_the_background_steps_back_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[bool] = []
    monkeypatch.setattr(main, "step_back", lambda end_with_parent=False, may_fork=True: steps.append(end_with_parent))
    module = types.ModuleType("pipeline.ratings.tournament")
    module.tournament = lambda config, progress: Summary()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.ratings.tournament", module)
    assert run("tournament").exit_code == 0 and not steps
    assert run("tournament", "--background").exit_code == 0 and len(steps) == 1
    other = types.ModuleType("pipeline.evaluate.watch")
    other.watch = lambda config, progress, settings_at: iter([Summary()])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.evaluate.watch", other)
    assert run("evaluate", "--watch").exit_code == 0 and len(steps) == 2
    player = types.ModuleType("pipeline.selfplay.background")
    player.play_on = lambda config, settings_at, progress: iter([Summary()])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.selfplay.background", player)
    assert run("selfplay", "--background").exit_code == 0 and steps == [False, False, True]
    for option in ("--wait", "--top-up"):
        refused = run("selfplay", "--background", option)
        assert refused.exit_code == 2 and "choose one" in refused.output and len(steps) == 3


def test_it_does_not_fork_beside_the_threads_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main.may_fork()
    monkeypatch.setattr("pipeline.run.store.base.current_store", lambda: types.SimpleNamespace(shared=True))
    assert not main.may_fork()


def test_what_a_process_tracks_ends_with_its_command(
    stage: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    class Sink(tracker.Sink):
        def close(self) -> None:
            closed.append("closed")
            raise RuntimeError("too late")

    def act(config: SelfplayConfig, progress: Progress) -> Summary:
        tracker._of_process["wandb", Path("logs"), os.getpid()] = Sink()
        raise MuGoError("no")

    stage.act = act
    failed = run("selfplay")
    assert failed.exit_code == 1 and closed == ["closed"]
    assert "mugo: logs: wandb couldn't be closed: too late\nmugo selfplay: no\n" in failed.stderr


def test_a_loop_refuses_to_track_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.tracking.options.find_spec", lambda name: None)
    done = run("loop", "--preset", "tictactoe", "--track", "mlflow", "--directory", "new")
    assert done.exit_code == 2 and not Path("new").exists()
    assert done.stderr == (
        "mugo loop: --track: found 'mlflow', but the package mlflow isn't installed; wanted the extra mlflow: "
        "python -m pip install -c constraints.txt -e '.[mlflow]'\n"
    )
    Path("mine.yaml").write_text("extends: tictactoe\ntrain: {track: wandb}\n")
    done = run("loop", "--preset", "mine.yaml", "--directory", "new")
    assert done.exit_code == 2 and "the package wandb isn't installed" in done.stderr


def test_a_loop_with_a_wrong_preset_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("extends: mine.yaml\n")
    done = run("loop", "--preset", "mine.yaml", "--directory", "new")
    assert done.exit_code == 2 and "it extends itself" in done.stderr and not Path("new").exists()


@pytest.mark.parametrize("text", ["", "selfplay: {readouts: 7}\n", "extends: recipe\n"])
def test_a_loop_needs_a_game_for_its_first_model(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text)
    done = run("loop", "--preset", "mine.yaml", "--directory", "new")
    assert done.exit_code == 2 and not Path("new").exists()
    path = tmp_path / "mine.yaml"
    assert done.stderr == f"mugo loop: preset {path}: no game; wanted its line 'game: SPEC' in the section init\n"
    assert run("init", "--game", "tictactoe", "--new-model", "new/saved_models/000000-init").exit_code == 0
    calls: list[str] = []
    monkeypatch.setattr("pipeline.loop.command.loop", lambda config, *more: calls.append(config.preset) or "")
    assert run("loop", "--preset", "mine.yaml", "--directory", "new").exit_code == 0 and calls == [str(path)]


def test_a_loop_for_a_game_calls_commands_with_the_preset_that_it_derives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Measurements("tictactoe", False, 9, 5.3, 7.6, 90_000, None, 60_000, 9_000)
    monkeypatch.setattr("pipeline.loop.measuring.measure", lambda game, minutes: found)
    calls: list[tuple[str, bool]] = []

    def loop(config: Any, call: Any, *more: Any) -> str:
        calls.append((config.preset, call("init")))
        return ""

    monkeypatch.setattr("pipeline.loop.command.loop", loop)
    monkeypatch.chdir(tmp_path)
    options = ["--minutes", "2", "--directory", "new"]
    done = run("loop", "--game", "tictactoe", *options)
    assert done.exit_code == 0, done.output
    assert calls == [("data/preset.yaml", True)]
    assert "games of 8 plies, 9 actions, 90,000 evaluations/s: " in done.stderr
    assert "--game tictactoe --directory" in done.stdout and "--preset" not in done.stdout.splitlines()[-1]
    manifest = json.loads((tmp_path / "new/saved_models/000000-init/model.json").read_text())
    assert manifest["game"] == "tictactoe" and manifest["architecture"]["value_head"] == "wdl"
    refused = run("loop", "--game", "connect4", *options)
    assert refused.exit_code == 2 and "is for tictactoe; wanted a folder for each game" in refused.stderr


def test_an_address_moves_a_command_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its preset is the one in the folder where it was called, however often its settings are looked up."""
    copy, here = tmp_path / "copy", tmp_path / "here"
    for folder in (copy, here):
        folder.mkdir()
    (here / "mine.yaml").write_text("selfplay: {readouts: 7}\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(working_copy, "make", lambda address: copy)
    monkeypatch.setattr(main, "step_back", lambda end_with_parent, may_fork: None)
    opened: list[Path] = []
    monkeypatch.setattr(main, "open_copy", lambda stack, command, folder: opened.append(folder))
    found: list[SelfplayConfig] = []
    player = types.ModuleType("pipeline.selfplay.background")

    def play_on(config: SelfplayConfig, settings_at: Any, progress: Progress) -> Any:
        found.extend([config, settings_at(RunState(1)), settings_at(RunState(2))])
        return iter(())

    player.play_on = play_on  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.selfplay.background", player)
    options = ["--preset", "mine.yaml", "--output-dir", "s3://b/r/data/selfplay", "--pool", "pool.json"]
    result = run("selfplay", "--background", *options)
    assert result.exit_code == 0, result.output
    assert opened == [Path()] and Path.cwd() == copy
    expected = (7, Path("data/selfplay"), here / "pool.json")
    assert [(one.readouts, one.output_dir, one.pool) for one in found] == [expected] * 3


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_docs(name: str) -> None:
    assert re.search(rf"main\.py {name}\b", DOCS)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in README


def goes_by_time(preset: str) -> bool:
    """Whether it runs only where the share of the run's time that has passed is known: see Schedule.at."""
    return "until_share" in preset_text(preset)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_every_command_parses(name: str) -> None:
    example = re.search(r"Example: python main\.py (.+)", COMMANDS[name].help)
    assert example is not None
    words = shlex.split(example.group(1))
    COMMANDS[name].make_context(name, words[1:])  # raises on an unknown option or a bad value


def test_every_command_line_in_the_docs_parses() -> None:
    text = DOCS.replace("\\\n", "")
    lines = re.findall(r"(?:^|&& )(?:\.venv/bin/)?python \S*main\.py (\w+)([^#\n&|>]*)", text, re.MULTILINE)
    assert len(lines) > 15
    for name, rest in lines:
        COMMANDS[name].make_context(name, shlex.split(rest))


def test_loops_in_the_docs_have_the_time_that_their_preset_goes_by() -> None:
    lines = re.findall(r"rl_loop\.sh --preset (\w[\w-]*)([^#\n]*)", DOCS.replace("\\\n", ""))
    by_time = [(name, rest) for name, rest in lines if name in preset_names() and goes_by_time(name)]
    assert len(by_time) > 5
    for name, rest in by_time:
        assert "--minutes" in rest, f"./rl_loop.sh --preset {name}{rest}"


@pytest.mark.parametrize(
    ("name", "config"),
    [
        *((name, TABLE[name].config) for name in SECTIONS),
        ("bench", BenchConfig),
        ("compact", CompactConfig),
        ("prune", PruneConfig),
        ("status", StatusConfig),
        ("verify", VerifyConfig),
    ],
)
def test_options_are_the_fields_of_the_config(name: str, config: type[Options]) -> None:
    options = {option.name for option in COMMANDS[name].params}
    assert options - {"preset"} == {*config.model_fields, "as_json", "verbose"} - {"preset"}
    assert ("preset" in options) == (name in SECTIONS or name == "bench")
    shown = run(name, "--help").output
    for field, info in config.model_fields.items():
        is_argument = (info.json_schema_extra or {}).get("argument")  # type: ignore[union-attr]
        assert (field if is_argument else f"--{field.replace('_', '-')}") in shown


EVERYDAY = 20  # options that a reader takes in at once
PANELS = {  # of every command with more than its everyday options, without those of families and packages
    "init": [],
    "selfplay": [
        "Threads and workers", "Beside other commands and workers", "Opponents", "Boards", "Tracking",
        "Openings, cheap searches and ends", "Resignation", "Search",
    ],
    "gather": ["Window", "Learning targets"],
    "train": ["Optimiser", "Prioritised replay", "Tracking", "Loss"],
    "evaluate": [
        "Openings and resignation", "Threads, workers and engines", "Other files",
        "Evaluating every new model (with --watch)", "Tracking", "Decided positions", "Search",
    ],
    "tournament": ["Openings and resignation", "Threads, workers and engines", "Decided positions", "Search"],
    "engine": ["Decided positions", "Search"],
}  # fmt: skip


def panels_in(shown: str) -> dict[str, list[str]]:
    """The options that a --help shows, by heading, in its order."""
    found: dict[str, list[str]] = {}
    for line in shown.splitlines():
        if heading := re.fullmatch(r"(\S.*):", line):
            found[heading[1]] = []
        elif found and (option := re.match(r"  (?:-\w, )?--([\w-]+)", line)):
            found[list(found)[-1]].append(option[1])
    return {heading: options for heading, options in found.items() if options}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_a_few_everyday_options_and_families_come_last(name: str) -> None:
    panels = panels_in(run(name, "--help").output)
    everyday = panels.pop("Options")
    assert len(everyday) <= EVERYDAY
    first = ["preset"] if name in SECTIONS else []
    last = [option for option in ("verbose", "json", "help") if option in everyday]
    assert everyday[: len(first)] == first and everyday[-len(last) :] == last
    core = PANELS.get(name, [])
    assert list(panels)[: len(core)] == core
    others = {extensions.load(one).panel for one in extensions.find(extensions.OPTIONS).values()}
    assert others.issuperset(list(panels)[len(core) :])


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("selfplay", "preset network games readouts"),
        ("evaluate", "preset black-model white-model game games readouts threshold"),
        ("tournament", "preset player pool"),
        ("train", "preset directory original-model new-model network-size epochs"),
        ("loop", "preset game minutes generations directory"),
    ],
)
def test_what_a_user_needs_first_stands_first(name: str, first: str) -> None:
    wanted = first.split()
    assert panels_in(run(name, "--help").output)["Options"][: len(wanted)] == wanted


def test_help_shows_how_to_switch_off_only_what_is_on() -> None:
    shown = {name: run(name, "--help").output for name in COMMANDS}
    both = {name: re.findall(r"--([\w-]+) / --no-\1\b", text) for name, text in shown.items()}
    assert both == {name: [] for name in COMMANDS} | {
        "train": ["symmetries"], "evaluate": ["promote"], "serve": ["browser"]
    }  # fmt: skip
    for name, text in shown.items():
        assert set(re.findall(r"^  .*--no-([a-z-]+)", text, re.MULTILINE)) <= {*both[name], "resign-fraction"}
        assert "[default: no]" not in text


def test_a_default_stands_at_the_end_of_a_help_and_once() -> None:
    for name, command in COMMANDS.items():
        for option in command.params:
            assert not re.search(r"default: [^]]*\](?!$)", option.help), f"{name} --{option.name}: {option.help}"


@pytest.mark.parametrize("name", COMMANDS)
def test_options_may_have_underscores(name: str) -> None:
    """--max_positions for --max-positions, as other systems spell options; --help shows one spelling."""
    command = COMMANDS[name]
    context = command.context_class(command, parent=GROUP.context_class(GROUP, **GROUP.context_settings))
    long = [
        (flag, option)
        for option in command.params
        for flag in (*option.opts, *option.secondary_opts)
        if flag.startswith("--")
    ]
    for flag, option in long:
        given = "--" + flag.removeprefix("--").replace("-", "_")
        for arguments in ([given] if option.is_flag else [given, "1"], [] if option.is_flag else [f"{given}=1"]):
            found, rest, _ = command.make_parser(context).parse_args(list(arguments))
            assert not rest and (not arguments or option.name in found), arguments
    assert not re.search(r"--\w+_", CliRunner().invoke(main.app, [name, "--help"]).output)


def test_options_reach_the_stage(stage: types.SimpleNamespace) -> None:
    assert run("selfplay", "--games", "3", "--network", "m", "--top-up", "--c-puct", "2.5").exit_code == 0
    assert stage.given == SelfplayConfig(games=3, network=Path("m"), top_up=True, c_puct=2.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--games 0", "--games: found 0; wanted at least 1"),
        ("--games many", "found 'many'; wanted a whole number"),
        ("--c-puct much", "found 'much'; wanted a number"),
        ("--c-puct nan", "--c-puct: found nan; wanted above 0"),
        ("--full-search-fraction 0", "--full-search-fraction: found 0.0; wanted above 0 and at most 1"),
        ("--resign-false-rate 1", "--resign-false-rate: found 1.0; wanted at least 0 and below 1"),
        ("--backend abacus", "--backend: found 'abacus'; wanted one of auto, torch, compile, openvino"),
        ("--worker a/b", "--worker: found 'a/b'; wanted letters, digits, - and _ only"),
    ],
)
def test_a_wrong_value_is_found_and_wanted(stage: types.SimpleNamespace, options: str, said: str) -> None:
    result = run("selfplay", *options.split())
    assert result.exit_code == 2 and said in result.stderr and stage.given is None


def test_a_wrong_argument_is_named_as_help_names_it() -> None:
    result = run("bench", "nothing")
    wanted = "WHAT: found 'nothing'; wanted one of pipeline, selfplay, train, evaluate"
    assert result.exit_code == 2 and wanted in result.stderr


def test_the_pool_is_changed_and_printed(tmp_path: Path) -> None:
    files = ("--path", str(tmp_path / "pool.json"), "--ratings", str(tmp_path / "ratings.json"))
    assert run("pool", "add", "random", *files).exit_code == 0
    result = run("pool", *files)
    assert result.exit_code == 0 and "random" in result.stdout


def test_options_win_over_the_preset(stage: types.SimpleNamespace, tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("selfplay: {games: 7, readouts: 9, top_up: true}")
    assert run("selfplay", "--preset", str(preset), "--games", "3", "--no-top-up").exit_code == 0
    assert stage.given == SelfplayConfig(games=3, readouts=9, top_up=False)


def test_summary_is_readable(stage: types.SimpleNamespace) -> None:
    """What is unknown or wasn't measured, here the seed, is left out."""
    lines = dict(re.split(r" {2,}", line) for line in run("selfplay").stdout.splitlines())
    assert lines == {
        "games": "1,234",
        "losses policy": "2.346",
        "losses value": "0.5",
        "model": "saved_models/000001-name",
        "skipped": "-",
        "promoted": "yes",
    }


@dataclasses.dataclass(frozen=True)
class ShortSummary(Summary):
    def lines(self) -> list[str]:
        return [f"{self.games:,} games", "promoted"]


def test_summary_is_short_unless_the_whole_is_wanted(stage: types.SimpleNamespace) -> None:
    stage.act = lambda config, progress: ShortSummary()
    for verbose in ([], ["--verbose", "0"], ["--verbose", "1"]):
        assert run("selfplay", *verbose).stdout == "1,234 games\npromoted\n"
    assert "losses policy  2.346" in run("selfplay", "--verbose", "2").stdout
    assert json.loads(run("selfplay", "--json").stdout)["losses"]["policy"] == 2.34567


def test_every_command_with_a_summary_takes_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of the command line: no config but self-play's, which shows games by it, knows of it."""
    module = types.ModuleType("pipeline.gather.command")
    given = []

    def gather(config: Options, progress: Progress) -> Summary:
        given.append(config)
        progress.say("on the way")
        return ShortSummary()

    module.gather = gather  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipeline.gather.command", module)
    quiet, whole = run("gather", "--verbose", "0"), run("gather", "--verbose", "2")
    wrong = run("gather", "--verbose", "9")
    assert wrong.exit_code == 2 and "found 9; wanted 0, 1 or 2" in wrong.stderr
    assert "on the way" not in quiet.stderr and quiet.stdout == "1,234 games\npromoted\n"
    assert "on the way" in whole.stderr and "losses policy  2.346" in whole.stdout
    assert given == [TABLE["gather"].config()] * 2
    assert {name for name, command in COMMANDS.items() if "verbose" in {option.name for option in command.params}} == {
        *SECTIONS,
        "bench",
        "compact",
        "export",
        "prune",
        "report",
        "status",
        "verify",
    }


def test_an_empty_preset_is_none_that_there_is() -> None:
    refused = run("gather", "--preset", "")
    assert refused.exit_code == 2 and "preset '': no such preset" in refused.stderr


def test_urls_that_are_no_addresses_of_runs_stay_what_they_are() -> None:
    for option, text in (
        ("note", "by https://example.org/me"),
        ("black_model", "gtp:client --url http://10.0.0.5:8080"),
    ):
        assert main.placed("evaluate", {option: text, "games": 2}, False) == {option: text, "games": 2}


def test_selfplay_that_has_nothing_to_play_says_so_in_one_line() -> None:
    nothing: dict[str, Any] = {
        field.name: 0 for field in dataclasses.fields(SelfplaySummary) if field.default is field.default_factory
    }
    summary = SelfplaySummary(**{**nothing, "model": "000003-x"}, note="has its 500 games")
    assert summary_text(summary) == "000003-x has its 500 games: nothing to play"


def test_evaluate_says_score_interval_and_decision() -> None:
    facts: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(EvaluateSummary)}
    facts |= {"challenger": "000001-x", "champion": "000000-x", "games": 64, "games_played": 64}
    facts |= {"wins": 60, "draws": 2, "losses": 2, "share": 0.953, "share_low": 0.871, "share_high": 0.984}
    facts |= {
        "points_needed": 34.0,
        "games_that_count": 64,
        "elo": 523.4,
        "elo_low": 331.0,
        "elo_high": None,
        "conditions": {},
        "points": None,
        "ends": {},
    }
    facts |= {"average_length": 57.25, "reason": "61 points of the 34 needed from 64 games; promoted"}
    summary = EvaluateSummary(**facts)
    assert summary_text(summary).splitlines() == [
        "000001-x against 000000-x: 60 won, 2 drawn, 2 lost",
        "95.3 % of the points (87–98), needed 53.1 %; Elo +523 (+331 to +∞); intervals of 95 %",
        "57.2 plies a game",
        "61 points of the 34 needed from 64 games; promoted",
    ]
    none_played = dataclasses.replace(summary, games_played=0, reason="0 needed; promoted")
    assert summary_text(none_played) == "000001-x against 000000-x: no game played; 0 needed; promoted"
    met = ConditionResult(True, 16, 12, 1, 3, 0.78, 0.0, "there")
    with_condition = dataclasses.replace(none_played, conditions={"random>=0": met})
    assert summary_text(with_condition).splitlines()[0] == "random>=0: met, 12 won, 1 drawn, 3 lost"


def test_summary_leaves_out_empty_texts(stage: types.SimpleNamespace) -> None:
    stage.act = lambda config, progress: {"note": "", "games": 0, "inner": {"note": "", "why": "so"}}
    assert run("selfplay").stdout.splitlines() == ["games      0", "inner why  so"]


def test_summary_as_json_is_exact_and_alone_on_stdout(stage: types.SimpleNamespace) -> None:
    def act(config: SelfplayConfig, progress: Progress) -> Summary:
        progress.say("on the way")
        progress.warn("odd")
        return Summary(games=np.int64(5))  # type: ignore[arg-type]

    stage.act = act
    result = run("selfplay", "--json")
    printed = json.loads(result.stdout)
    assert printed["games"] == 5 and printed["losses"]["policy"] == 2.34567 and printed["skipped"] == []
    assert "on the way" in result.stderr and "odd" in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MuGoError("it broke"), 1),
        (FileError("x.gz", "found 3, wanted 4"), 1),
        (UsageError("selfplay --games: wrong"), 2),
        (NotYet("12 positions are missing", 12), 75),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "No space left on device", "data/x"), 1),
        (PermissionError(errno.EACCES, "Permission denied", "data/x"), 1),
        (OSError(errno.EMFILE, "Too many open files", "data/x"), 1),
        (OSError(errno.ESTALE, "Stale file handle", "data/x"), 1),
        (MemoryError("Unable to allocate 5.2 TiB for an array with shape (9,)"), 1),
        (RuntimeError("can't start new thread"), 1),
    ],
)
def test_foreseen_failures_are_one_line_and_an_exit_code(
    stage: types.SimpleNamespace, error: BaseException, code: int
) -> None:
    stage.act = raising(error)
    result = run("selfplay")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("mugo selfplay: ") and result.stderr.count("\n") == 1
    assert "selfplay: selfplay" not in result.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileError("selfplay.html", "permission denied"), "selfplay.html: permission denied"),
        (FileError("selfplay", "it is a file"), "selfplay: it is a file"),
        (UsageError("selfplay/mine.yaml: no such preset"), "selfplay/mine.yaml: no such preset"),
        (UsageError("selfplay: no output given"), "no output given"),
        (UsageError("selfplay --games: wrong"), "--games: wrong"),
    ],
)
def test_a_path_that_begins_like_the_command_stays_whole(
    stage: types.SimpleNamespace, error: BaseException, said: str
) -> None:
    stage.act = raising(error)
    assert run("selfplay").stderr == f"mugo selfplay: {said}\n"


def test_bugs_keep_their_traceback(stage: types.SimpleNamespace) -> None:
    stage.act = raising(ZeroDivisionError("ours"))
    result = run("selfplay")
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["selfplay", "--games", "x"], "--games"),
        (["selfplay", "--games", "0"], "--games"),
        (["selfplay", "--gaems", "1"], "--gaems"),
        (["selfplay", "--preset", "go99"], "go9-tour"),
        (["selfplay", "--backend", "abacus"], "--backend"),
        (["selfplya"], "selfplya"),
        (["presets", "go99"], "go9-tour"),
    ],
)
def test_wrong_usage_exits_2_and_names_it(stage: types.SimpleNamespace, arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and said in result.stderr
    assert stage.given is None


def test_interrupted_stage_that_ends_by_itself_still_reports_the_signal(
    stage: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = main.Interrupts()
    monkeypatch.setattr(main, "INTERRUPTS", interrupts)

    def act(config: SelfplayConfig, progress: Progress) -> Summary:
        with pytest.raises(KeyboardInterrupt):
            interrupts.handle(signal.SIGTERM, None)
        interrupts.handle(signal.SIGTERM, None)  # the same wish again: cleaning up isn't disturbed
        return Summary()

    stage.act = act
    result = run("selfplay")
    assert result.exit_code == 143 and "1,234" in result.stdout and "interrupted" in result.stderr


def test_second_wish_to_stop_is_obeyed_when_cleaning_up_takes_long() -> None:
    interrupts = main.Interrupts()
    with pytest.raises(KeyboardInterrupt):
        interrupts.handle(signal.SIGINT, None)
    interrupts.last_time -= 2.0
    with pytest.raises(KeyboardInterrupt):
        interrupts.handle(signal.SIGTERM, None)
    assert interrupts.exit_code == 130


def test_an_engine_ends_as_soon_as_its_manager_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what Python does at its end, which takes longer than a manager likes to wait."""
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(main, "take_interrupts", lambda handler: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for name, wanted in (("status", []), ("engine", [0])):
        ended: list[str] = []
        monkeypatch.setattr(main, "ENDED", ended)

        def app(name: str = name, ended: list[str] = ended, **given: Any) -> None:
            ended.append(name)
            raise SystemExit(0)

        monkeypatch.setattr(main, "app", lambda app=app, **given: app())
        with pytest.raises(SystemExit):
            main.run_program([])
        assert left == wanted


def test_presets_are_listed_and_printed() -> None:
    listed = run("presets").output
    assert all(re.search(rf"^{name} +\S", listed, re.MULTILINE) for name in preset_names())
    assert run("presets", "go9-tour").output == preset_path("go9-tour").read_text(encoding="utf-8")


def test_text_that_the_locale_cannot_hold_is_printed_with_replacements(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("# 60 – 40\ninit:\n  game: tictactoe\n", encoding="utf-8")
    locale = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "main.py", "presets", str(preset)]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, **locale}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "# 60 ? 40" in done.stdout


def test_reader_that_closes_the_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody_reads:
        done = subprocess.run(
            [sys.executable, "main.py", "presets", "go9-tour"], cwd=ROOT, stdout=nobody_reads, stderr=subprocess.PIPE
        )
    assert done.returncode == 0 and done.stderr == b""


def test_an_interrupt_does_not_wait_for_threads_that_compute() -> None:
    """In an orderly exit they may abort the process, as threads of the network's libraries did in bench."""
    code = """
import atexit, os, signal, threading, time
from pipeline import main
atexit.register(lambda: os._exit(99))
def app(**options):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    print("begun")
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
main.app = app
main.run_program()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=15)
    assert (done.returncode, done.stdout) == (130, "begun\n") and "interrupted" in done.stderr


def test_an_interrupt_that_python_can_only_print_comes_again(tmp_path: Path) -> None:
    """In a weakref's callback or a __del__ an exception goes nowhere: the command would go on."""
    code = """
import os, signal, time
from pipeline import main
class Removed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass
def app(**options):
    Removed()
    time.sleep(20)
main.app = app
main.run_program()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=15)
    assert done.returncode == 143 and "interrupted" in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "stream", "code"),
    [(["presets"], "stdout", 0), (["loop", "--preset", "tictactoe", "--generations", "1"], "stderr", 1)],
)
def test_a_reader_that_ends_early_is_no_error_unless_work_is_left(
    words: list[str], stream: str, code: int, tmp_path: Path
) -> None:
    """As head does, and as a connection that is lost."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, ROOT / "main.py", *words], cwd=tmp_path, check=False, **{stream: writer})
    os.close(writer)
    assert done.returncode == code
