"""The loop: what is left to do, read from the run's files, and the calls that do it.

The loop keeps a few facts of its own, in data/.loop.json: how long it and each command have run in this folder, and the
shares of time with which the newest training and the newest match began. One that was cut off continues with that
share: at another one its settings might have other values; then the training would begin anew, and the match would be
refused. kill -9 loses the time of the command that it cuts off.
"""

from __future__ import annotations

import gc
import math
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from pipeline import extensions, machine
from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.specs import DEFAULT_GAME, name_in, parse_game
from pipeline.loop.config import LoopConfig
from pipeline.phrases import sparkline
from pipeline.players.kinds import kind_named
from pipeline.presets import preset_text, read_preset, scheduled_values
from pipeline.ratings.command import match_result, read_matches
from pipeline.ratings.strength import bradley_terry
from pipeline.reports.show_models import scores_in
from pipeline.run import atomic, layout
from pipeline.run.matches import PENDING, list_matches, read_summary
from pipeline.run.models import (
    check_champion,
    models_in_training,
    newest_models,
    newest_number,
    present_champion,
    read_champions,
    read_info,
)
from pipeline.run.store.requests import parse_address
from pipeline.schedules import RunState
from pipeline.selfplay.opponents import parse_mix
from pipeline.tracking.options import extras_of
from pipeline.train.checkpoint import remove_finished

GENERATIONS = 5  # without --generations and --minutes
BESIDE = "selfplay --background"
PLAYS_ON = ("--no-wait", "--no-top-up")  # overrides the preset
MEASURE = "measure"
STRENGTH = "strength"
LOOK_SECONDS = 1.0  # until the next try when another process plays as the same worker
OPPONENTS = ("random", "heuristic")
GAMES = 20  # against each; twice as many against the champion before
READOUTS = 8  # at most, the same in all of these matches, so that their results can be compared
FIRST_SECONDS = 60.0  # of the loop, before which it says nothing: a run that is over sooner needn't
MOST_TIME = 0.05
BARS = 60  # of the line of Elo

Call = Callable[..., bool]
"""call("gather", time_share=0.3) runs a command with the loop's preset. False: nothing to do yet, and it said so.

quiet=True: it says only why it failed; False: it had nothing to do, or failed.
"""
Say = Callable[[str], None]


class CommandTime(BaseModel):
    """seconds: how long a command ran; cpu_seconds: how long its threads were busy, summed over cores."""

    seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    cpu_seconds: float = Field(0.0, ge=0, allow_inf_nan=False)


class Kept(BaseModel):
    """data/.loop.json.

    process   the newest loop's process and
    host      the machine that it ran on
    seconds   the loop's total time
    commands  the time of each command; under BESIDE that of ending the player, with the player's CPU time; under
              MEASURE that of deriving the preset; under STRENGTH that of showing how strong the champion is
    training  generation and preset of the newest training, and the share of the time with which it began
    match     the same of the newest match
    tidied    the newest generation after which everything was packed and pruned
    began     when the newest loop began
    ended     when it had done all that it was asked for; "": it hasn't
    """

    process: int = 0
    host: str = ""
    seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    commands: dict[str, CommandTime] = {}
    training: tuple[int, str, float] | None = None
    match: tuple[int, str, float] | None = None
    tidied: int = -1
    began: str = ""
    ended: str = ""


class Clock:
    """The loop's total time in this folder, and the other facts that it keeps.

    limit: seconds; None: there is none. was_cut_off: whether the loop before this one was.
    """

    def __init__(self, file: Path, limit: float | None, say: Say, measured: float = 0.0) -> None:
        """measured: seconds since the loop began, for which it has measured."""
        self._file, self._limit, self._say = file, limit, say
        self.kept = read_kept(file)
        self._before, self._begun = self.kept.seconds, time.monotonic() - measured
        self.was_cut_off = bool(self.kept.seconds) and not self.kept.ended
        if measured:
            self.kept.commands[MEASURE] = CommandTime(seconds=measured)
        self.keep(began=atomic.utc_now(), ended="")

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begun

    @property
    def is_over(self) -> bool:
        return self._limit is not None and self.seconds >= self._limit

    @property
    def share(self) -> float | None:
        """The share of the time that has passed, in thousandths; None without a limit."""
        return None if self._limit is None else min(1000, int(1000 * self.seconds / self._limit)) / 1000

    @contextmanager
    def measured(self, command: str) -> Iterator[None]:
        """Add the time that the block takes to a command's, and save."""
        begun, busy = time.monotonic(), _cpu_seconds()
        try:
            yield
        finally:
            times = self.kept.commands.setdefault(command, CommandTime())
            times.seconds += time.monotonic() - begun
            times.cpu_seconds += _cpu_seconds() - busy
            self.keep()

    def begin_anew(self) -> None:
        """Forget what another run in this folder left: this loop makes its first model."""
        spent = {MEASURE: self.kept.commands[MEASURE]} if MEASURE in self.kept.commands else {}
        self.kept, self._before, self.was_cut_off = Kept(commands=spent, began=self.kept.began), 0.0, False
        self.keep()

    def keep(self, **facts: Any) -> None:
        """Save these facts and the time."""
        now = {"process": os.getpid(), "host": layout.this_host(), "seconds": self.seconds}
        self.kept = self.kept.model_copy(update={**now, **facts})
        try:
            atomic.write_text(self._file, self.kept.model_dump_json() + "\n", folder_sync=False)
        except FileError as error:  # on a full disk the next command that writes fails, and says why
            self._say(f"{error}; the next loop here won't know how long this one ran")


def _cpu_seconds() -> float:
    """The CPU time of this process and of its child processes that have ended."""
    return sum(os.times()[:4])


def read_kept(file: Path) -> Kept:
    """What the last loop here kept. If it can't be read, the time begins anew."""
    with suppress(FileError, FileNotFoundError, ValidationError):
        return Kept.model_validate_json(atomic.read_bytes(file, "the loop's time"))
    return Kept()


class Player:
    """The process that plays beside the other commands. It ends when this process does."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self, share: float | None) -> None:
        """Start it unless it is running."""
        if self._process is None or self._process.poll() is not None:
            more = [] if share is None else ["--time-share", f"{share:.3f}"]
            environment = {**os.environ, machine.STARTER: str(os.getpid())}
            self._process = subprocess.Popen([*self._command, *more], env=environment)

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


class Strength:
    """Measures each champion, as far as time allows: against the players that every run has, and the one before it.

    Elo comes from these matches alone: those of promotion flatter, as a challenger that was lucky is promoted. They are
    short, and take at most MOST_TIME of the loop's time, except the last ones.
    """

    def __init__(self, play: Callable[[Path, str], object], say: Say) -> None:
        """play: plays GAMES games of this model against this player, if it can."""
        self._play, self._say = play, say
        self._measured = ""

    def show(self, seconds: float, measuring: float, is_last: bool) -> None:
        """Measure the champion and say what was found, if it is new and this is affordable.

        seconds: of the loop; measuring: those of them that went into this.
        """
        champion = present_champion(layout.SAVED_MODELS)
        if champion is None or champion.name == self._measured or seconds < FIRST_SECONDS:
            return
        if not is_last and measuring > MOST_TIME * seconds:
            return
        with suppress(MuGoError):  # the commands report damaged files
            info = read_info(champion)
            game = parse_game(info.game)
            for opponent in OPPONENTS:
                with suppress(UsageError):  # not every game has a heuristic
                    kind_named(opponent).check_game(game, opponent, "")
                    self._play(champion, opponent)
            if before := [one for one in _measured() if one != champion.name][-1:]:
                self._play(champion, str(layout.SAVED_MODELS / before[0]))
            self._measured = champion.name
            self._say(f"champion {champion.name} {scores_in(layout.MEASURED_MATCHES, info)}")
            if line := elo_line():
                self._say(line)


def _measured() -> list[str]:
    """The champions, oldest first, that have played matches of Strength."""
    matches = [layout.parse_match_name(match.name) for match in list_matches(layout.MEASURED_MATCHES)]
    names = {name for sides in matches for name in sides or ()}
    champions = dict.fromkeys(path.name for path in read_champions(layout.SAVED_MODELS))
    return [name for name in champions if name in names]


def _name(rated: str) -> str:
    return rated.partition("@")[0]


def elo_line() -> str:
    """The Elo of these champions, and the last one's over the first; "" if there is only one."""
    results = [match_result(match) for match in read_matches([layout.MEASURED_MATCHES])]
    # Without "@READOUTS", which are the same everywhere, unless a person has changed them.
    fit = bradley_terry([replace(met, one=_name(met.one), other=_name(met.other)) for met in results])
    line = [name for name in _measured() if name in fit.index][-BARS:]
    if len(line) < 2:
        return ""
    apart, error = fit.difference(line[-1], line[0])
    course = sparkline([fit.ratings[name] for name in line])
    return f"Elo of the champions {course} {apart:+.0f} ± {error:.0f} over {line[0]}"


def loop(config: LoopConfig, call: Call, say: Say, program: Sequence[str], measured: float = 0.0) -> str:
    """Train in the current folder until config's generations or minutes are reached. See the module docstring.

    Returns why there was nothing to do; "" if there was.
    program: the words that run this program in a process of its own. measured: seconds that keep_preset took. Raises
    Busy if another loop runs in this folder, UsageError for a preset that can't be used, and what a command raises.
    """
    preset_text(config.preset, RunState(1, 0, None if config.minutes is None else 0.0))  # refuses it before all else
    for opponents in scheduled_values(config.preset, "selfplay", "opponents"):
        parse_mix(opponents)
    file = layout.LOOP_FILE
    kept = read_kept(file)
    who = f" (process {kept.process} on {kept.host})" if kept.process else ""
    busy = f"another loop is running in {Path.cwd()}{who}; nothing to do"
    with atomic.file_lock(layout.LOOP, wait=False, busy=busy):
        atomic.sweep(file.parent)
        limit = None if config.minutes is None else 60 * config.minutes
        clock = Clock(file, limit, say, measured)
        idle = _Loop(config, call, say, program, clock).run()
        clock.keep(ended=atomic.utc_now())
        return idle


def keep_preset(config: LoopConfig, folder: Path, say: Say) -> float:
    """Derive the preset for config.game and config.minutes in a run's folder, unless it has one for this game.

    Returns the seconds that it took, which count for the run unless they would leave no time for a generation. Writes
    nothing but that preset, at the end.
    Raises UsageError if no such run is possible here.
    """
    from pipeline.loop import measuring
    from pipeline.loop.recipe import LEAST_SECONDS, derive, shortest_minutes

    begun = time.monotonic()
    assert config.game is not None and config.minutes is not None
    game = measuring.playable(config.game)
    kept = folder / layout.PRESET_FILE
    if atomic.exists(kept):
        found = read_preset(str(kept)).get("init", {}).get("game", DEFAULT_GAME)
        if parse_game(found).spec != game.spec:
            raise UsageError(f"loop --game {config.game}: {kept} is for {found}; wanted a folder for each game")
        return 0.0
    check_champion(folder / layout.SAVED_MODELS)
    champion = present_champion(folder / layout.SAVED_MODELS)
    if champion is not None and (found := read_info(champion).game) != game.spec:
        raise UsageError(f"loop --game {config.game}: {champion} plays {found}; wanted a folder for each game")
    least = LEAST_SECONDS / 60
    if config.minutes >= least:
        say(f"measuring {game.spec} and this machine; on a new machine kernels are compiled first, for a minute")
        measurements = measuring.measure(game, config.minutes)
        least = shortest_minutes(measurements)
    if config.minutes < least:
        wanted = f"wanted {math.ceil(10 * least) / 10:g} or more"
        raise UsageError(f"loop --minutes {config.minutes:g}: too short for a generation of {game.spec}; {wanted}")
    spent = time.monotonic() - begun
    if spent > 60 * (config.minutes - least):
        say(f"measuring took {spent:.0f} s, too long for such a run; its {config.minutes:g} minutes begin now")
        spent = 0.0
    text, summary = derive(measurements, config.minutes, spent / (60 * config.minutes))
    if atomic.exists(kept):
        return 0.0  # another loop has begun here meanwhile
    atomic.make_folder(kept.parent)
    atomic.write_text(kept, text)
    say(summary)
    return spent


def check_preset(config: LoopConfig, folder: Path) -> None:
    """Raise UsageError if config.preset can't be used, or names no game and there is no model in the run's folder."""
    has_game = "game" in read_preset(config.preset).get("init", {})
    if not has_game and not os.path.lexists(folder / layout.CHAMPION_LINK):
        raise UsageError(f"preset {config.preset}: no game; wanted its line 'game: SPEC' in the section init")


def fetch_models(folder: Path) -> None:
    """Bring the model.json of a run's newest models, its champion included, to a new working copy of the run.

    The loop itself looks at this disk only. Call it while the working copy's store is in force.
    """
    models = folder / layout.SAVED_MODELS
    champion = present_champion(models)
    for path in newest_models(models):
        read_info(path)
        if champion is None or path.name == champion.name:
            break


class _Loop:
    def __init__(self, config: LoopConfig, call: Call, say: Say, program: Sequence[str], clock: Clock) -> None:
        self._config, self._call, self._say, self._clock = config, call, say, clock
        default = GENERATIONS if config.minutes is None else 0
        self._generations = default if config.generations is None else config.generations
        self._has_worked = False
        self._track = {} if config.track is None else {"track": config.track}
        self._given = self._track if config.runner is None else {"runner": config.runner, **self._track}
        words = ["selfplay", "--preset", config.preset, "--background", *PLAYS_ON, "--verbose", "0"]
        self._player = Player([*program, *words, *_given_words(config)])
        self._strength = Strength(self._measure, say)

    def run(self) -> str:
        """As loop()."""
        try:
            check_champion(layout.SAVED_MODELS)
            remove_finished(layout.SAVED_MODELS)  # train does so, but may not be called again
            if not os.path.lexists(layout.CHAMPION_LINK):
                if not any(newest_models(layout.SAVED_MODELS)):
                    self._clock.begin_anew()
                self._say("init: the first model")
                self._try("init")
            while True:
                generation = newest_number(layout.SAVED_MODELS)
                if not self._is_evaluated():
                    self._say(f"generation {generation}: evaluate")
                    share = self._share_of("match", generation, was_begun=True)
                    self._try("evaluate", time_share=share, **self._given)
                if self._config.tidy and (self._has_worked or self._clock.kept.tidied != generation):
                    self._say(f"generation {generation}: compact, prune")
                    if all([self._try("compact"), self._try("prune", apply=True)]):
                        self._clock.keep(tidied=generation)
                is_last = self._clock.is_over or 0 < self._generations <= generation
                if generation > 0 and (self._has_worked or self._clock.was_cut_off):
                    measuring = self._clock.kept.commands.get(STRENGTH, CommandTime()).seconds
                    with self._clock.measured(STRENGTH):
                        self._strength.show(self._clock.seconds, measuring, is_last)
                if is_last:
                    return "" if self._has_worked else self._idle(generation)
                self._make(generation + 1)
        finally:
            with self._clock.measured(BESIDE):
                self._player.end()

    def _idle(self, generation: int) -> str:
        if 0 < self._generations <= generation:
            made = f"{generation} of {self._generations} generations are made"
            return f"{made}; nothing to do: --generations {generation + GENERATIONS} goes on"
        return f"its time, --minutes {self._config.minutes:g}, is over; nothing to do: more --minutes go on"

    def _measure(self, model: Path, opponent: str) -> None:
        games = GAMES if opponent in OPPONENTS else 2 * GAMES
        options = {"white_model": str(model), "black_model": opponent, "games": games, "promote": False}
        options |= {"require": [], "sprt": ""}  # a preset's are for promotions
        options["seed"] = layout.number_of(model.name) or 0  # or similar models would repeat games
        options["output_dir"] = str(layout.MEASURED_MATCHES)  # so that a person may play longer matches of the same two
        given = read_preset(self._config.preset).get("evaluate", {}).get("readouts", READOUTS)
        options["readouts"] = READOUTS if isinstance(given, list) else min(READOUTS, given)
        self._call("evaluate", quiet=True, time_share=self._clock.share, **options, **self._given)

    def _is_evaluated(self) -> bool:
        """Whether the newest model is the champion, or has played it to the end.

        A promotion that was cut off is pending in a summary of one of the two until evaluate runs again. Only theirs
        are read: a long run has tens of thousands.
        """
        newest, champion = next(newest_models(layout.SAVED_MODELS), None), present_champion(layout.SAVED_MODELS)
        if newest is None or champion is None:
            return False  # evaluate says what is wrong
        matches = [match for name in {newest.name, champion.name} for match in list_matches(layout.MATCHES, name)]
        decided = {match.name: summary for match in matches if (summary := read_summary(match)) is not None}
        if any(summary.get(PENDING) for summary in decided.values()):
            return False
        return newest.name == champion.name or layout.match_name(newest.name, champion.name) in decided

    def _make(self, generation: int) -> None:
        """Make this generation's model."""
        name = f"generation {generation}"
        if self._generations:
            name += f" of {self._generations}"
        self._say(f"{name}: selfplay")
        self._play_missing_games()
        while True:
            if self._was_cut_off(generation):
                # It continues with the set that it began with; gather would make a new one from the newest games.
                self._say(f"{name}: train, from where it stopped")
                if self._train(generation):
                    return
            self._say(f"{name}: gather, train")
            if self._try("gather") and self._train(generation):
                return
            self._say(f"{name}: more selfplay")
            if not self._try("selfplay", **self._given):
                time.sleep(LOOK_SECONDS)

    def _play_missing_games(self) -> None:
        if self._config.overlap:
            self._player.ensure(self._clock.share)
            if self._try("selfplay", wait=True):
                return
        # While another process plays as this worker, it plays these games.
        while not (self._try("selfplay", top_up=True, **self._given) or self._try("selfplay", wait=True)):
            time.sleep(LOOK_SECONDS)

    def _was_cut_off(self, generation: int) -> bool:
        """Whether the training of this generation's model began and didn't end."""
        return generation in map(layout.number_of, models_in_training(layout.SAVED_MODELS))

    def _train(self, generation: int) -> bool:
        share = self._share_of("training", generation, self._was_cut_off(generation))
        return self._try("train", time_share=share, **self._track)

    def _share_of(self, what: str, generation: int, was_begun: bool) -> float | None:
        """The share of the time with which a generation's training or match began, or begins now: then it is kept."""
        share, begun = self._clock.share, getattr(self._clock.kept, what)
        if was_begun and begun is not None and begun[:2] == (generation, self._config.preset):
            return float(begun[2])
        if share is not None:
            self._clock.keep(**{what: (generation, self._config.preset, share)})
        return share

    def _try(self, command: str, **options: Any) -> bool:
        """Call a command. Returns False if it has nothing to do yet, or another process does it."""
        self._has_worked = True
        if command not in ("init", "compact", "prune"):
            options.setdefault("time_share", self._clock.share)
        with self._clock.measured(command):
            try:
                return self._call(command, **options)
            finally:
                gc.collect()
                if command == "evaluate" and not gc.get_freeze_count():  # most is imported: don't look at that again
                    gc.freeze()


def _given_words(config: LoopConfig) -> list[str]:
    given = {"--runner": config.runner, "--track": config.track}
    return [word for option, value in given.items() if value is not None for word in (option, value)]


def tracks(config: LoopConfig) -> set[str]:
    """The values of --track in a run's commands."""
    if config.track is not None:
        return {config.track}
    sections = {} if config.game or not config.preset else read_preset(config.preset)
    return {lines["track"] for lines in sections.values() if "track" in lines}


def extras(config: LoopConfig) -> set[str]:
    """The extras of pyproject.toml that a run needs: for its game, its runner and its place."""
    found = {"cloud"} if parse_address(str(config.directory)) else set()
    sections = {} if config.game else read_preset(config.preset)
    if "ray" in (config.runner or sections.get("selfplay", {}).get("runner"),):
        found.add("ray")
    found |= extras_of(tracks(config))
    extension = extensions.bundled(extensions.GAMES).get(name_in(_game_of(config)))
    return found if extension is None else found | extension.extras


def _game_of(config: LoopConfig) -> str:
    if config.game:
        return config.game
    return str(read_preset(config.preset).get("init", {}).get("game", DEFAULT_GAME))


def next_steps(config: LoopConfig, called: Path, root: Path | None = None, address: str = "") -> list[str]:
    """What a person may do next, now that the loop in the current folder has ended.

    called: where the loop was called; root: of the checkout that runs, None: the installed command does; address: of
    the run in object storage.
    """
    from pipeline.play.page.pages import has_page  # it imports what plays

    folder = Path.cwd()
    to_play, to_train = (["./play.sh"], ["./rl_loop.sh"]) if root else (["mugo", "serve"], ["mugo", "loop"])
    root = root or called
    of_run = [] if folder == root else ["--directory", address or str(folder)]
    options = [*(["--game", config.game] if config.game else ["--preset", config.preset]), *_given_words(config)]
    options += [f"--{name}" for name in ("overlap", "tidy") if getattr(config, name)]
    again = shlex.join([*to_train, *options, *of_run])
    model = [] if folder == root else ["--model", str(folder / layout.CHAMPION_LINK)]
    there = [] if called == root else [f"  cd {shlex.quote(str(root))}"]
    lines = ["to train on:", *there]
    if has_page(parse_game(_game_of(config))):
        lines = ["to play against it:", *there, f"  {shlex.join([*to_play, *model])}", "to train on:"]
    seconds = read_kept(layout.LOOP_FILE).seconds
    if config.minutes is None:
        more = newest_number(layout.SAVED_MODELS) + GENERATIONS
        return [*lines, f"  {again} --generations {more}", f"  {again} --generations 0     (until stopped)"]
    minutes = config.minutes * (int(seconds / (60 * config.minutes)) + 1)
    return [*lines, f"  {again} --minutes {minutes:g}"]
