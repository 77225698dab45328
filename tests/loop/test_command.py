"""The loop's order of commands, its time, its lock and its player, with commands that do what a test has planned.

tests/test_loop.py runs the real ones.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.errors import FileError, NotYet, UsageError
from pipeline.loop import command, measuring
from pipeline.loop.command import extras, keep_preset, loop, next_steps, read_kept
from pipeline.loop.config import LoopConfig
from pipeline.loop.recipe import Measurements
from pipeline.presets import read_preset
from pipeline.run import atomic, layout
from pipeline.run.models import list_models

PASS = ["evaluate", "selfplay top_up", "gather", "train"]
FIRST_PASS = PASS[1:]  # the first model has no opponent
OVERLAPPED = ["selfplay wait", "gather", "train"]

# Plays beside the others: notes that it has begun, and with which options, then ends, or hangs until it is stopped.
PLAYER = """
import signal, sys, time
def note(text):
    with open("notes-of-player", "a") as notes:
        print(text, file=notes, flush=True)
def stopped(number, frame):
    note("stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
note(" ".join(sys.argv[2:]))
while sys.argv[1] == "hang":
    time.sleep(0.01)
"""


class Commands:
    """Commands that note that they were called, and do what is planned: by name, a list of what each call in turn does.
    False: nothing yet; an exception is raised; without a plan it is done. Each takes `seconds`.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.said: list[str] = []
        self.shares: list[tuple[str, float]] = []
        self.given: list[tuple[str, dict[str, Any]]] = []
        self.plan: dict[str, list[bool | BaseException]] = {}
        self.seconds = 0.0
        self.player = "hang"
        self.waits = 0
        self.idle = ""  # what the last loop said of having had nothing to do

    def call(self, name: str, **options: Any) -> bool:
        flags = [option for option, value in options.items() if value is True]
        note = " ".join([name, *flags])
        self.notes.append(note)
        self.given.append((name, options))
        if options.get("time_share") is not None:
            self.shares.append((name, options["time_share"]))
        time.sleep(self.seconds)
        if "wait" in flags:  # until the player has begun
            self.waits += 1
            wanted = 1 if self.player == "hang" else self.waits
            while sum(line != "stopped" for line in of_player()) < wanted:
                time.sleep(0.01)
        planned = self.plan.get(note, self.plan.get(name, []))
        happens = planned.pop(0) if planned else True
        if isinstance(happens, BaseException):
            raise happens
        if happens and name == "init":
            add_model("000000-init")
            layout.CHAMPION_LINK.symlink_to("000000-init")
        if happens and name == "train":
            newest = max(int(path.name[:6]) for path in layout.SAVED_MODELS.glob("0*"))
            add_model(f"{newest + 1:06d}-x")
        return happens

    def run(self, **options: Any) -> list[str]:
        """The notes of one loop."""
        self.notes.clear()
        config = LoopConfig(**{"preset": "tictactoe", **options})
        self.idle = loop(config, self.call, self.said.append, [sys.executable, "-c", PLAYER, self.player])
        return self.notes

    def told(self) -> list[float]:
        """The shares of the time that the commands were given; they are forgotten."""
        told = [share for _, share in self.shares]
        self.shares.clear()
        return told


def add_model(name: str) -> None:
    (layout.SAVED_MODELS / name).mkdir(parents=True)
    (layout.SAVED_MODELS / name / layout.MODEL_JSON).write_text("{}")


def begin_training(name: str) -> None:
    (layout.SAVED_MODELS / f".{name}.training").mkdir()


def finish_match(challenger: str, champion: str, **summary: Any) -> Path:
    folder = layout.MATCHES / layout.match_name(challenger, champion)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / layout.MATCH_GAMES).touch()
    (folder / layout.MATCH_SUMMARY).write_text(json.dumps({"measured": 2, **summary}))
    return folder


def of_player() -> list[str]:
    path = Path("notes-of-player")
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.01)
    yield Commands()


def test_order_of_commands(commands: Commands) -> None:
    assert commands.run(generations=2) == ["init", *FIRST_PASS, *PASS, "evaluate"]
    assert "generation 0: evaluate" not in commands.said
    assert "generation 2 of 2: gather, train" in commands.said


def test_a_finished_run_only_evaluates_and_a_larger_number_goes_on(commands: Commands) -> None:
    commands.run(generations=1)
    assert commands.run(generations=1) == ["evaluate"]
    assert commands.run(generations=2) == [*PASS, "evaluate"]


def test_without_a_number_it_makes_five_generations_and_with_minutes_as_many_as_they_allow(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commands.run().count("train") == 5
    layout.LOOP_FILE.unlink()
    clock = SimpleNamespace(monotonic=lambda: 10.0 * len(commands.notes))  # a command takes ten seconds
    monkeypatch.setattr(command, "time", clock)
    assert commands.run(minutes=5).count("train") == 8  # four commands each, and the first evaluate


def test_zero_generations_go_on_until_stopped(commands: Commands) -> None:
    commands.plan["gather"] = [True, True, True, KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        commands.run(generations=0)
    assert commands.notes.count("train") == 3


def test_a_tidy_loop_packs_and_prunes_after_each_generation(commands: Commands) -> None:
    tidied = ["compact", "prune apply"]
    commands.plan = {"compact": [True, False, True], "prune": [False]}  # another machine may be at it
    notes = commands.run(generations=2, minutes=60, tidy=True)
    assert notes == ["init", *tidied, *FIRST_PASS, "evaluate", *tidied, *FIRST_PASS, "evaluate", *tidied]
    assert {name for name, _ in commands.shares} == {"selfplay", "gather", "train", "evaluate"}


def test_a_loop_with_nothing_to_do_says_why(commands: Commands) -> None:
    commands.run(generations=1, tidy=True)
    assert commands.idle == ""
    finish_match("000001-x", "000000-init", passed=False)
    commands.said.clear()
    for options in ({}, {"tidy": True}):  # it was tidied after this generation
        assert commands.run(generations=1, **options) == [] and commands.said == []
        assert commands.idle == "1 of 1 generations are made; nothing to do: --generations 6 goes on"
    commands.run(minutes=read_kept(layout.LOOP_FILE).seconds / 60)
    assert commands.idle.startswith("its time, --minutes ")
    assert commands.idle.endswith(", is over; nothing to do: more --minutes go on")


def test_what_was_not_tidied_is_tidied_later(commands: Commands) -> None:
    commands.run(generations=1)
    finish_match("000001-x", "000000-init", passed=False)
    commands.plan = {"prune": [False]}  # another process is at it
    for _ in range(2):
        assert commands.run(generations=1, tidy=True) == ["compact", "prune apply"]
    assert commands.run(generations=1, tidy=True) == []


def test_that_it_has_ended_is_kept_until_it_goes_on(commands: Commands) -> None:
    commands.run(generations=1)
    assert read_kept(layout.LOOP_FILE).ended
    commands.plan["gather"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        commands.run(generations=2)
    assert not read_kept(layout.LOOP_FILE).ended


def test_a_lost_link_crowns_nobody(commands: Commands) -> None:
    commands.run(generations=1)
    layout.CHAMPION_LINK.unlink()
    with pytest.raises(FileError, match=r"no such link.*models \(000001-x\)"):
        commands.run(generations=2)
    assert commands.notes == []


def test_a_newest_model_whose_match_is_over_is_not_evaluated_again(commands: Commands) -> None:
    commands.run(generations=1)
    folder = finish_match("000001-x", "000000-init", passed=False)
    assert commands.run(generations=1) == []
    finish_match("000001-x", "000000-init", passed=True, promotion_pending=True)  # cut off: it must be made
    assert commands.run(generations=1) == ["evaluate"]
    layout.CHAMPION_LINK.unlink()
    layout.CHAMPION_LINK.symlink_to("000001-x")
    assert commands.run(generations=1) == ["evaluate"]  # it is made, but not yet noted
    finish_match("000001-x", "000000-init", passed=True, promoted=True)
    finish_match("000000-y", "000000-init", promotion_pending=True)  # of no model that may be promoted
    assert commands.run(generations=1) == []
    (folder / layout.MATCH_SUMMARY).write_text("[")
    with pytest.raises(FileError, match="summary"):
        commands.run(generations=1)


@pytest.mark.parametrize("preset", ["no-such", "go9"])
def test_a_wrong_preset_is_refused_before_anything_is_done(commands: Commands, preset: str) -> None:
    """As one that goes by the share of time is without --minutes."""
    with pytest.raises(UsageError, match=preset if preset == "no-such" else "share"):
        commands.run(preset=preset)
    assert commands.notes == [] and not list(Path().iterdir())


@pytest.mark.parametrize("option", ["minutes=0", "minutes=inf", "minutes=soon", "generations=-1", "runner=moon"])
def test_wrong_options_are_refused(option: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(ValueError, match=name):
        LoopConfig(**{name: value})


def test_too_few_positions_means_more_games(commands: Commands) -> None:
    commands.plan["gather"] = [False, False]
    notes = commands.run(generations=1)
    assert notes[1:7] == ["selfplay top_up", "gather", "selfplay", "gather", "selfplay", "gather"]


def test_selfplay_goes_on_while_training_may_not(commands: Commands) -> None:
    commands.plan["train"] = [False]
    assert commands.run(generations=1)[1:7] == ["selfplay top_up", "gather", "train", "selfplay", "gather", "train"]


def test_games_that_another_process_plays_are_waited_for(commands: Commands) -> None:
    Path("notes-of-player").write_text("it plays as the same worker\n")
    commands.plan = {"selfplay top_up": [False, False], "selfplay wait": [False, True]}
    again = ["selfplay top_up", "selfplay wait"] * 2
    assert commands.run(generations=1) == ["init", *again, "gather", "train", "evaluate"]


@pytest.mark.parametrize("name", ["init", "evaluate", "selfplay", "gather", "train"])
def test_a_failure_ends_the_loop(commands: Commands, name: str) -> None:
    commands.plan[name] = [FileError("a file", "is damaged")]
    with pytest.raises(FileError):
        commands.run(generations=1)
    assert commands.notes[-1].split()[0] == name


def test_a_training_that_was_cut_off_goes_on_with_its_own_set(commands: Commands) -> None:
    commands.run(generations=1)
    begin_training("000002-x")
    begin_training("000001-x")  # of an older model: ignored
    (layout.SAVED_MODELS / ".x.training").mkdir()
    commands.plan["train"] = [False]  # another process trains it or has trained it
    assert commands.run(generations=2) == ["evaluate", "selfplay top_up", "train", "gather", "train", "evaluate"]
    assert "generation 2 of 2: train, from where it stopped" in commands.said
    begin_training("000003-x")
    assert commands.run(generations=3) == ["evaluate", "selfplay top_up", "train", "evaluate"]


def test_what_a_kill_left_is_removed_where_no_command_looks_again(commands: Commands) -> None:
    """A checkpoint whose model was written, when nothing is left to train; a half-written file of the loop's own."""
    commands.run(generations=1)
    half = layout.LOOP_FILE.with_name(f"{layout.LOOP_FILE.name}~elsewhere~5~20260101T000000~0123abcd.tmp")
    half.touch()
    newest = list_models(layout.SAVED_MODELS)[-1]
    begin_training(newest.name)
    begin_training("000002-x")
    assert commands.run(generations=1) == ["evaluate"]
    assert not layout.checkpoint_path(newest).exists() and not half.exists()
    assert layout.checkpoint_path(newest.with_name("000002-x")).exists()


# Time


def test_commands_hear_how_much_of_the_time_is_over(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 10.0 * len(commands.given))  # a command takes ten seconds
    monkeypatch.setattr(command, "time", clock)
    commands.run(minutes=1)
    assert commands.told() == [0.166, 0.333, 0.5, 0.666, 0.833, 1, 1, 1]
    commands.run(minutes=3)  # it has run for 90 s: half of the time
    again, *told = commands.told()  # the first is of the last match: these commands leave no summaries
    assert again == 1 and told == sorted(told) and told[0] == 0.555 and told[-1] > 0.9
    commands.run(generations=1)
    assert commands.told() == told[-1:]  # of the last match again


def test_a_training_that_was_cut_off_goes_on_at_the_share_that_it_was_begun_with(commands: Commands) -> None:
    def trained(seconds: float, *happens: bool | BaseException, **options: Any) -> list[float]:
        """The shares that training was given in a loop that had run so long."""
        kept = read_kept(layout.LOOP_FILE)
        layout.LOOP_FILE.write_text(kept.model_copy(update={"seconds": seconds}).model_dump_json())
        commands.plan["train"] = list(happens)
        commands.shares.clear()
        with suppress(KeyboardInterrupt):
            commands.run(**{"minutes": 2000, **options})
        return [share for name, share in commands.shares if name == "train"]

    commands.run(generations=1)
    (begun,) = trained(60_000, KeyboardInterrupt())
    begin_training("000002-x")
    (again,) = trained(100_000, KeyboardInterrupt())  # and once more
    assert again == begun == 0.5
    ended, later = trained(100_000, minutes=5000, generations=3)  # other minutes make it another share, too
    assert (ended, later) == (0.5, 0.333)
    assert trained(60_000, KeyboardInterrupt(), generations=4) == [0.5]
    begin_training("000004-x")
    assert trained(100_000, generations=4, preset="go9") == [0.833]  # another preset: it begins anew


def test_a_match_that_was_cut_off_goes_on_at_the_share_that_it_was_begun_with(commands: Commands) -> None:
    """A schedule by shares may set its number of games, and a match can't change that."""

    def judged(seconds: float, *happens: bool | BaseException, **options: Any) -> list[float]:
        kept = read_kept(layout.LOOP_FILE).model_copy(update={"seconds": seconds})
        layout.LOOP_FILE.write_text(kept.model_dump_json())
        commands.plan["evaluate"] = list(happens)
        commands.shares.clear()
        with suppress(KeyboardInterrupt):
            commands.run(**{"minutes": 2000, "generations": 2, **options})
        return [share for name, share in commands.shares if name == "evaluate"]

    commands.run(generations=1)
    assert read_kept(layout.LOOP_FILE).match is None  # there was no share
    (begun,) = judged(60_000, KeyboardInterrupt())
    (again,) = judged(100_000, KeyboardInterrupt())
    (with_more_minutes,) = judged(100_000, KeyboardInterrupt(), minutes=5000)
    assert again == with_more_minutes == begun == 0.5


def test_time_is_kept_when_the_loop_is_stopped(commands: Commands) -> None:
    commands.plan["selfplay"] = [KeyboardInterrupt()]
    commands.seconds = 0.2
    with pytest.raises(KeyboardInterrupt):
        commands.run(minutes=1)
    assert 0.4 <= read_kept(layout.LOOP_FILE).seconds < 30


def test_a_full_disk_keeps_the_time(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.run(generations=1)
    layout.LOOP_FILE.write_text('{"seconds": 1234}\n')

    def full(path: Path, text: str, folder_sync: bool = True) -> None:
        raise FileError(path, "No space left on device")

    monkeypatch.setattr(atomic, "write_text", full)
    commands.run(generations=2)
    assert "No space left" in commands.said[-1] and read_kept(layout.LOOP_FILE).seconds == 1234


@pytest.mark.parametrize("text", ["", "{", '{"seconds": -1}', '{"seconds": "soon"}', "[]", '{"seconds": NaN}'])
def test_a_damaged_time_begins_anew(commands: Commands, text: str) -> None:
    layout.LOOP_FILE.parent.mkdir()
    layout.LOOP_FILE.write_text(text)
    assert commands.run(generations=1) and read_kept(layout.LOOP_FILE).seconds < 60


def test_a_new_run_where_another_was_begins_its_time_anew(commands: Commands) -> None:
    """Its data and models were removed, but not the hidden file."""
    commands.run(generations=1)
    layout.LOOP_FILE.write_text('{"seconds": 1234, "match": [1, "tictactoe", 0.9], "tidied": 7}\n')
    shutil.rmtree(layout.SAVED_MODELS)
    assert commands.run(generations=2, minutes=1).count("train") == 2
    kept = read_kept(layout.LOOP_FILE)
    assert kept.seconds < 60 and kept.tidied == -1 and all(share < 0.9 for share in commands.told())


def test_the_systems_clock_does_not_count(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    commands.run(generations=1, minutes=60)
    assert all(0 <= share < 0.1 for share in commands.told())


# The lock


def test_a_second_loop_here_is_refused_and_told_which_process_runs(commands: Commands) -> None:
    holds = (
        "from pipeline.loop.command import loop\nfrom pipeline.loop.config import LoopConfig\n"
        "def call(name, **options): print('held', flush=True); sys.stdin.read()\n"
        "loop(LoopConfig(preset='tictactoe'), call, print, [])"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{holds}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        while "held" not in other.stdout.readline():
            assert other.poll() is None
        before = read_kept(layout.LOOP_FILE)
        with pytest.raises(NotYet, match=rf"another loop is running.*process {other.pid} on {layout.this_host()}"):
            commands.run()
        assert commands.notes == [] and read_kept(layout.LOOP_FILE) == before
        other.kill()
    assert commands.run(generations=1)[0] == "init"  # the lock ends with its process


# The player beside the others


def test_with_overlap_one_player_plays_beside_all_other_commands(commands: Commands) -> None:
    commands.seconds = 0.1
    notes = commands.run(generations=2, overlap=True, runner="local")
    assert notes == ["init", *OVERLAPPED, "evaluate", *OVERLAPPED, "evaluate"]
    words = "selfplay --preset tictactoe --background --no-wait --no-top-up --verbose 0 --runner local"
    assert of_player() == [words, "stopped"]


def test_the_player_hears_of_the_time(commands: Commands) -> None:
    commands.seconds = 0.1
    commands.run(generations=1, overlap=True, minutes=60)
    assert of_player()[0].endswith("--verbose 0 --time-share 0.000")


def test_a_player_that_ends_is_started_again_and_without_one_the_loop_plays(commands: Commands) -> None:
    commands.player, commands.seconds = "end", 0.3
    commands.plan["selfplay wait"] = [False, False]
    played = ["selfplay wait", "selfplay top_up", "gather", "train"]
    assert commands.run(generations=2, overlap=True) == ["init", *played, "evaluate", *played, "evaluate"]
    assert len(of_player()) == 2


def test_the_player_ends_with_the_loop(commands: Commands) -> None:
    commands.seconds = 0.2
    commands.plan["train"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        commands.run(overlap=True)
    assert of_player()[1:] == ["stopped"]


def test_where_games_are_played_is_told_to_those_who_play(commands: Commands) -> None:
    commands.run(generations=1, runner="ray")
    assert {name for name, options in commands.given if options.get("runner") == "ray"} == {"selfplay", "evaluate"}


def test_what_is_tracked_where_is_told_to_those_who_track(commands: Commands) -> None:
    commands.run(generations=1, track="wandb,mlflow", overlap=True)
    given = {name for name, options in commands.given if options.get("track") == "wandb,mlflow"}
    assert given - {"evaluate"} == {"train"} and not any("track" in options for name, options in commands.given[:1])
    assert of_player()[0].endswith("--verbose 0 --track wandb,mlflow")
    commands.run(generations=2, track="none")
    assert {name for name, options in commands.given if options.get("track") == "none"} == {
        "selfplay", "train", "evaluate",
    }  # fmt: skip
    commands.given.clear()
    commands.run(generations=3)
    assert not any("track" in options for _, options in commands.given)


def test_a_wrong_place_for_tracked_numbers_is_refused() -> None:
    with pytest.raises(ValidationError, match="wandb:online"):
        LoopConfig(track="wand")


# A game instead of a preset

FOUND = Measurements("tictactoe", False, 9, 5.3, 7.6, 90_000, None, 60_000, 9_000)


@pytest.fixture
def measured(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The minutes of each measurement, which finds FOUND."""
    minutes: list[float] = []

    def measure(game: Any, of_run: float) -> Measurements:
        minutes.append(of_run)
        return FOUND

    monkeypatch.setattr(measuring, "measure", measure)
    return minutes


def test_without_options_it_trains_9x9_go_for_a_quarter_of_an_hour() -> None:
    def found(**options: Any) -> tuple[str, str | None, float | None]:
        config = LoopConfig(**options).with_defaults()
        return config.preset, config.game, config.minutes

    assert found() == ("", "go:9,komi=7", 15)
    assert found(game="connect4", minutes=3) == ("", "connect4", 3)
    assert found(preset="go9") == ("go9", None, None)


def keep(minutes: float | None = 2, game: str = "tictactoe", **options: Any) -> float:
    config = LoopConfig(game=game, minutes=minutes, **options).with_defaults()
    return keep_preset(config, Path.cwd(), lambda text: None)


def test_a_preset_is_derived_once_and_kept(commands: Commands, measured: list[float]) -> None:
    assert keep() > 0 and measured == [2]
    text = layout.PRESET_FILE.read_text()
    assert "extends: recipe" in text and read_preset(str(layout.PRESET_FILE))["init"]["game"] == "tictactoe"
    assert keep(minutes=5) == 0 and measured == [2] and layout.PRESET_FILE.read_text() == text
    layout.PRESET_FILE.write_text(text.replace("batch_size: 128", "batch_size: 64"))
    commands.run(preset=str(layout.PRESET_FILE), minutes=1, generations=1)
    assert commands.notes[:2] == ["init", *FIRST_PASS[:1]]


def test_time_for_measuring_counts(commands: Commands) -> None:
    config = LoopConfig(preset="tictactoe", minutes=1, generations=1)
    loop(config, commands.call, commands.said.append, [], measured=3.0)
    kept = read_kept(layout.LOOP_FILE)
    assert kept.seconds > 3 and kept.commands["measure"].seconds == 3
    assert min(commands.told()) >= 0.05


def test_measuring_that_leaves_no_time_for_a_generation_does_not_count(
    commands: Commands, measured: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 88.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    said: list[str] = []
    assert keep_preset(LoopConfig(game="tictactoe", minutes=1.5, preset=""), Path.cwd(), said.append) == 0
    assert "measuring took 88 s, too long for such a run; its 1.5 minutes begin now" in said
    settings = read_preset(str(layout.PRESET_FILE))
    assert settings["train"]["network_size"][0]["until_share"] == 1


def test_a_preset_that_another_loop_has_written_meanwhile_stays(
    commands: Commands, measured: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(game: Any, minutes: float) -> Measurements:
        layout.PRESET_FILE.parent.mkdir()
        layout.PRESET_FILE.write_text("extends: recipe")
        return FOUND

    monkeypatch.setattr(measuring, "measure", measure)
    assert keep() == 0 and layout.PRESET_FILE.read_text() == "extends: recipe"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "go9"}, "loop --game tictactoe, --preset go9: a preset names its game; choose one"),
        ({"minutes": 0.05}, "loop --minutes 0.05: too short for a generation of tictactoe; wanted 0.1 or more"),
    ],
)
def test_what_a_game_is_not_given_with(measured: list[float], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        keep(**options)
    assert not measured and not list(Path.cwd().iterdir())


def test_a_run_too_short_for_this_machine(measured: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(FOUND, simulations=60)
    monkeypatch.setattr(measuring, "measure", lambda game, minutes: slow)
    with pytest.raises(
        UsageError, match=r"loop --minutes 1: too short for a generation of tictactoe; wanted 2.2 or more"
    ):
        keep(minutes=1)
    assert not list(Path.cwd().iterdir())


def test_a_folder_of_another_game(measured: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    with pytest.raises(UsageError, match=r"loop --game connect4: .*preset.yaml is for tictactoe; wanted a folder for"):
        keep(game="connect4")
    layout.PRESET_FILE.write_text("extends: nowhere")
    with pytest.raises(UsageError, match=r"preset .*preset.yaml: extends 'nowhere': no such preset"):
        keep()
    layout.PRESET_FILE.unlink()
    monkeypatch.setattr(command, "present_champion", lambda models: Path("saved_models/000003-x"))
    monkeypatch.setattr(command, "read_info", lambda path: SimpleNamespace(game="connect4"))
    with pytest.raises(
        UsageError, match=r"loop --game tictactoe: saved_models/000003-x plays connect4; wanted a folder"
    ):
        keep()
    assert measured == [2]


# What is printed


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, set()),
        ({"preset": "text-kuhn"}, {"text"}),
        ({"runner": "ray"}, {"ray"}),
        ({"track": "tensorboard,wandb"}, {"wandb"}),
        ({"game": "tictactoe"}, set()),
        ({"directory": Path("s3://bucket/run")}, {"cloud"}),
    ],
)
def test_the_extras_that_a_run_needs(options: dict[str, Any], wanted: set[str]) -> None:
    if "preset" in options:
        pytest.importorskip("pipeline.families.text")
    assert extras(LoopConfig(**{"preset": "tictactoe", **options})) == wanted


def test_what_to_do_next(commands: Commands) -> None:
    commands.run(generations=1)
    here = Path.cwd()
    said = next_steps(LoopConfig(preset="tictactoe", overlap=True), here, here)
    again = "  ./rl_loop.sh --preset tictactoe --overlap"
    assert said == [
        *("to play against it:", "  ./play.sh"),
        *("to train on:", f"{again} --generations 6", f"{again} --generations 0     (until stopped)"),
    ]
    said = next_steps(LoopConfig(preset="go9", minutes=30), here, Path("/the program"))
    model = here / "saved_models/best_model"
    assert said[1:3] == ["  cd '/the program'", f"  ./play.sh --model {model}"]
    assert said[-1] == f"  ./rl_loop.sh --preset go9 --directory {here} --minutes 30"
    said = next_steps(LoopConfig(preset="go9", minutes=30), Path("/the program"), Path("/the program"))
    assert said[:2] == ["to play against it:", f"  ./play.sh --model {model}"]
    layout.LOOP_FILE.write_text('{"seconds": 7300}')  # with other minutes before
    assert next_steps(LoopConfig(preset="go9", minutes=15), here, here)[-1].endswith("--minutes 135")
    layout.LOOP_FILE.write_text('{"seconds": 1801}')
    said = next_steps(LoopConfig(preset="go9", minutes=30), here, here, "s3://bucket/run")
    assert said[-1] == "  ./rl_loop.sh --preset go9 --minutes 60"
    said = next_steps(LoopConfig(preset="go9", minutes=30), here)  # the installed command
    assert said == ["to play against it:", "  mugo serve", "to train on:", "  mugo loop --preset go9 --minutes 60"]
    said = next_steps(LoopConfig(game="go:9", minutes=30, preset="data/preset.yaml"), here)
    assert said[-1] == "  mugo loop --game go:9 --minutes 60"
    said = next_steps(LoopConfig(preset="go9", minutes=30), here.parent)
    assert said[1] == f"  mugo serve --model {model}" and said[-1].startswith("  mugo loop") and f" {here} " in said[-1]


def test_a_game_without_a_page_is_not_offered_for_play(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.run(generations=1)
    monkeypatch.setattr("pipeline.play.page.pages.has_page", lambda game: game.spec != "tictactoe")
    said = next_steps(LoopConfig(preset="tictactoe"), Path.cwd(), Path("/the program"))
    assert said[:2] == ["to train on:", "  cd '/the program'"] and "play.sh" not in " ".join(said)


def test_the_champion_is_measured_in_a_folder_of_its_own(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's longer match of the same two players can't go on with the loop's."""
    monkeypatch.setattr(command.Strength, "show", lambda self, *facts: self._play(Path("model"), "random"))
    commands.run(generations=1)
    matches = [options for name, options in commands.given if options.get("black_model") == "random"]
    assert matches and {options["output_dir"] for options in matches} == {str(layout.MEASURED_MATCHES)}


def test_no_schedule_changes_the_readouts_of_measuring_matches(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command.Strength, "show", lambda self, *facts: self._play(Path("model"), "random"))
    commands.run(generations=1)
    schedule = [{"until": 2, "value": 16}, {"until": 3, "value": 2}]
    found = [[options.get("readouts") for _, options in commands.given if "games" in options][-1]]
    for generation, given in enumerate((schedule, 800, 0), start=2):
        monkeypatch.setattr(command, "read_preset", lambda name, given=given: {"evaluate": {"readouts": given}})
        commands.run(generations=generation)
        found.append([options.get("readouts") for _, options in commands.given if "games" in options][-1])
    assert found == [8, command.READOUTS, command.READOUTS, 0] and command.READOUTS == 8


def test_who_is_measured_and_when(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first model, which has learned nothing; the last one, even if a kill came before it was measured."""
    shown: list[bool] = []
    monkeypatch.setattr(command.Strength, "show", lambda self, seconds, measuring, is_last: shown.append(is_last))
    commands.run(generations=2)
    assert shown == [False, True]
    finish_match("000002-x", "000000-init")
    commands.run(generations=2)
    assert commands.idle and len(shown) == 2
    layout.LOOP_FILE.write_text(read_kept(layout.LOOP_FILE).model_copy(update={"ended": ""}).model_dump_json())
    commands.run(generations=2)
    assert commands.idle and shown == [False, True, True]
