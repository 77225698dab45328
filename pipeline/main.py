"""The command line: parse the options, build one command's config, call the command, print its summary.

Most options are the fields of configs, which ``pipeline/commands.py`` names; ``pipeline/command_line.py`` turns them
into options. Heavy modules (numpy, numba, torch) are imported inside the command that needs them, so ``--help`` is
instant.

Output: a command's summary goes to stdout, all other lines to stderr.
Exit codes: 0 done, 1 failed, 2 wrong usage, 75 nothing to do yet, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core

import pipeline
from pipeline import phrases
from pipeline.command_line import PanelCommand, number_parser, options_of, with_parameters, with_record_options
from pipeline.commands import COMMANDS, Command
from pipeline.errors import SYSTEM_PROBLEMS, FileError, MuGoError, NotYet, UsageError, explain
from pipeline.extensions import blame
from pipeline.machine import step_back
from pipeline.options import Options
from pipeline.phrases import write
from pipeline.presets import (
    make_config,
    preset_headline,
    preset_names,
    preset_path,
    preset_text,
    read_preset,
    scheduled_lines,
)
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.schedules import RunState
from pipeline.stalls import Hung
from pipeline.train.rank import is_quiet, processes_here

ABOUT = """MuGo: self-play training for board games, as four commands that talk through files.

\b
selfplay -> data/selfplay -> gather -> data/training_data -> train -> saved_models -> evaluate -> best_model

Start with `python main.py init`, or let `python main.py loop` call all in order. Every command may be killed at any
moment and run again. Exit codes: 0 done, 1 failed, 2 wrong usage, 75 nothing to do yet, 130 Ctrl-C, 143 SIGTERM.
"""
LISTS = {"show", "presets"}  # commands that only print
GO_ON = "run the same command again to go on where it stood"
NEXT_STEPS = {"selfplay": "finished games are kept; with --top-up the same command plays only those that are missing"}
WITHOUT_RUN = {"attach", "presets", "loop"}  # commands that read no run themselves
READ_ALL = {"report", "verify"}  # commands that need all files of a working copy
LOOK_AROUND = {"show", "status"}  # commands that need all names of a working copy
COPIES: list[contextlib.ExitStack] = []  # of the command that is running
ENDED: list[str] = []  # commands that did what they were asked to
LEFT_AT_ONCE = {"engine"}  # a manager waits for its end, which takes longer if Python takes everything apart
WITHOUT_SUMMARY = {"engine", "play", "serve", "loop"}
MAYBE_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|Path\('[a-z][a-z0-9+.-]*:['/]")  # in the repr of an option's value

CHECKOUT = Path(__file__).parents[1]  # where main.py is, unless the program is installed

Caller = Callable[[Command, dict[str, Any]], None]
"""(command, the options given)"""


class LazyGroup(typer.core.TyperGroup):
    """All commands; those of the table are made when one is called or listed: making all takes 0.2 s."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = {**dict.fromkeys(COMMANDS), **self.commands}  # names, to be listed and suggested

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            command = made_command(COMMANDS[cmd_name], OWN_WAYS.get(cmd_name, run_stage))
        else:
            command = super().get_command(ctx, cmd_name)
        if command is not None and command.help:
            command.help = phrases.as_called(command.help)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = phrases.as_called(self.help or "")
        super().format_help(ctx, formatter)


app = typer.Typer(
    help=ABOUT,
    cls=LazyGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # --max_positions is --max-positions: other systems spell options so, and so do presets.
    context_settings={"max_content_width": 120, "token_normalize_func": lambda name: name.replace("_", "-")},
)


def print_version(wanted: bool) -> None:
    if wanted:
        write(f"mugo {pipeline.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Of no command."""


AGAIN_SECONDS = 0.01  # until a lost interrupt is sent again


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt and remembers which came first.

    A terminal sends Ctrl-C to every process of a job, and a script may pass it on as well. So a signal within a second
    of the last one handled belongs to the same request and must not disturb the cleanup.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last_time = 0.0

    def take_back(self, args: sys.UnraisableHookArgs) -> None:
        """Send an interrupt again that came while an object was destroyed, where Python can only print it."""
        if issubclass(args.exc_type, KeyboardInterrupt) and self.first is not None:
            signal.signal(signal.SIGALRM, self.repeat)
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            sys.__unraisablehook__(args)

    def repeat(self, number: int, frame: types.FrameType | None) -> None:
        self.last_time = 0.0
        signal.raise_signal(self.first or signal.SIGINT)

    def handle(self, number: int, frame: types.FrameType | None) -> None:
        now = time.monotonic()
        if self.first is not None and now - self.last_time < 1.0:
            return
        self.first, self.last_time = self.first or number, now
        raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        return 128 + (self.first or signal.SIGINT)


INTERRUPTS = Interrupts()


def quit_at_once(number: int, frame: types.FrameType | None) -> None:
    """For when a command has ended and nothing is left to clean up."""
    os.write(2, b"mugo: interrupted when all was done\n")
    os._exit(128 + number)


def take_interrupts(handler: Callable[[int, types.FrameType | None], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


@contextlib.contextmanager
def reported(command: str, in_loop: bool = False) -> Iterator[None]:
    """Turn every expected failure into one line on stderr and an exit code. Bugs keep their traceback.

    in_loop: the loop calls this command, and reports an interrupt itself.
    """

    def fail(text: str, exit_code: int) -> typer.Exit:
        if text:
            write(f"mugo {command}: {' '.join(text.splitlines())}", sys.stderr)
        return typer.Exit(exit_code)

    try:
        with contextlib.ExitStack() as stack:
            if command not in WITHOUT_RUN and Path(layout.WORKING_COPY).exists():
                open_copy(stack, command, Path())
            COPIES.append(stack)
            try:
                yield
            finally:
                COPIES.pop()
        sys.stdout.flush()
    except Hung as error:
        write(f"mugo {command}: {error}", sys.stderr)
        sys.stdout.flush()
        os._exit(error.exit_code)  # an orderly exit might wait for the thread that hangs
    except MuGoError as error:
        # Messages about options begin with the command, which is printed anyway; those about files with a path.
        text = str(error) if isinstance(error, FileError) else re.sub(rf"^{command}(:\s*|\s+)", "", str(error))
        raise fail(text, error.exit_code) from error
    except KeyboardInterrupt as error:
        if in_loop:
            raise
        goes_on = COMMANDS[command].goes_on if command in COMMANDS else command not in LISTS
        next_step = f"; {NEXT_STEPS.get(command, GO_ON)}" if goes_on else ""
        raise fail("" if is_quiet() else f"interrupted{next_step}", INTERRUPTS.exit_code) from error
    except BrokenPipeError as error:
        if in_loop:
            raise
        goes_on = command in COMMANDS and COMMANDS[command].goes_on  # it may have stopped in the middle of its work
        if goes_on:
            with contextlib.suppress(OSError):
                fail(f"nobody reads its output any more; {NEXT_STEPS.get(command, GO_ON)}", 1)
        # The reader (head, less) has ended, or the terminal. Redirect both, or the exit would try to flush them again.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if goes_on:
            raise typer.Exit(1) from error
    except MemoryError as error:
        found = f"not enough memory ({str(error).rstrip('.') or 'none is left'})"
        wanted = "wanted less at once: fewer games, readouts or positions, or a smaller network"
        raise fail(f"{found}; {wanted}", 1) from error
    except typer.Exit:  # told already
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            wanted = "wanted more; raise the limit (ulimit -u, a container's pids) or give fewer --threads"
            raise fail(f"the system gives this process no more threads; {wanted}", 1) from error
        fault = blame(error)
        if fault is None and isinstance(error, OSError) and error.errno in SYSTEM_PROBLEMS:
            fault = explain(error.filename2 or error.filename or "disk", error)
        if fault is None:
            raise
        raise fail(str(fault), 1) from error


def open_copy(stack: contextlib.ExitStack, command: str, folder: Path) -> None:
    """Keep this working copy of a run in object storage up to date until the stack closes."""
    from pipeline.run.store.working_copy import opened

    store: Any = None

    @stack.callback  # called after the store has sent its last lines
    def tell() -> None:
        if store is not None and (said := store.traffic()):
            write(f"mugo: {said}", sys.stderr)

    store = stack.enter_context(opened(folder))
    if command in READ_ALL:
        store.fetch_whole()
    elif command in LOOK_AROUND:
        store.fetch_names()


@functools.cache
def made_command(command: Command, run: Caller) -> Any:
    """``main.py NAME``, with an option for every field of its config. run: what the command does."""

    def call(**given: Any) -> None:
        with reported(command.name), tracking_ended():
            processes_here(command.name)  # refuses several processes started by mistake, before anything is read
            is_run = "directory" in command.config.model_fields and not command.in_presets
            # With --extras the loop asks what an address needs before it can be read.
            run(command, given if run is run_loop else placed(command.name, given, is_run))
        ENDED.append(command.name)

    parameters = options_of(command, has_summary=command.name not in WITHOUT_SUMMARY)
    alone = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    alone.command(command.name, help=command.config.__doc__, cls=PanelCommand)(with_parameters(call, parameters))
    return typer.main.get_command(alone)


@contextlib.contextmanager
def tracking_ended() -> Iterator[None]:
    """At the end of the block, close what keeps the numbers of all commands of this process."""
    try:
        yield
    finally:
        tracker = sys.modules.get("pipeline.tracking.tracker")
        if tracker is not None:
            tracker.close_shared(lambda problem: write(f"mugo: {problem}", sys.stderr))


def run_stage(command: Command, given: dict[str, Any]) -> None:
    """What most commands do."""
    call_stage(command, *configured(command, given))


def call_stage(command: Command, config: Any, as_json: bool, verbose: int) -> None:
    """Call a command's function and print its summary."""
    if getattr(config, "background", False):
        step_back(may_fork=may_fork())
    with console(verbose, command.log_seconds) as progress:
        summary = command(config, progress)
    print_each([] if summary is None or is_quiet() else [summary], as_json, verbose)


def console(verbose: int = 1, log_seconds: float = 30.0) -> contextlib.AbstractContextManager[Progress]:
    """The progress of a command, drawn on stderr. log_seconds: between two lines in a log."""
    from pipeline.reports.progress_bars import ConsoleProgress

    return ConsoleProgress(quiet=verbose == 0, log_seconds=log_seconds)


def may_fork() -> bool:
    """Not in a working copy of a run in object storage: its client has threads, which a fork would lose."""
    from pipeline.run.store.base import current_store

    return not current_store().shared


def run_selfplay(command: Command, given: dict[str, Any]) -> None:
    """Play the number of games asked for, or with --background play on until stopped."""
    config, as_json, verbose = configured(command, given)
    if not config.background:
        call_stage(command, config, as_json, verbose)
        return
    if config.wait or config.top_up:
        raise UsageError("selfplay --background plays on; --wait and --top-up end it; choose one")
    step_back(end_with_parent=True, may_fork=may_fork())
    from pipeline.selfplay.background import play_on

    with console(verbose) as progress:
        rounds = play_on(config, lambda run_state: configured(command, given, run_state)[0], progress)
        print_each((one for one in rounds if verbose > 0), as_json, verbose)


def run_evaluate(command: Command, given: dict[str, Any]) -> None:
    """Play a match, or with --watch print every evaluation as it ends."""
    from pipeline.evaluate.config import WatchOptions

    config, as_json, verbose = configured(command, given)
    if not config.watch:
        for option in WatchOptions.model_fields:
            if given.get(option):
                raise UsageError(f"evaluate --{option.replace('_', '-')}: it is for --watch; wanted --watch with it")
        call_stage(command, config, as_json, verbose)
        return
    step_back(may_fork=may_fork())
    from pipeline.evaluate.watch import watch

    preset = given.get("preset")
    follows_schedule = preset and scheduled_lines(command.config, read_preset(preset).get(command.name, {}))
    with console(verbose) as progress:
        settings_at = (lambda run_state: configured(command, given, run_state)[0]) if follows_schedule else None
        print_each(watch(config, progress, settings_at), as_json, verbose)


def print_each(summaries: Iterable[Any], as_json: bool, verbose: int) -> None:
    """Print a command's summaries as they come. Raises KeyboardInterrupt if it was interrupted and ended by itself."""
    for summary in summaries:
        print_summary(summary, as_json, verbose)
        sys.stdout.flush()
    if INTERRUPTS.first is not None:
        raise KeyboardInterrupt


def run_status(command: Command, given: dict[str, Any]) -> None:
    """Print a run's status in one of its forms; with --watch update its screen until interrupted."""
    from pipeline.reports.status import status

    config, as_json, verbose = configured(command, given)
    if config.watch + config.prometheus + as_json + (verbose == 2) > 1:
        raise UsageError("--watch, --prometheus, --json and --verbose 2 exclude each other; choose one")
    if config.prometheus:
        from pipeline.reports.status_metrics import exposition

        write(exposition(status(config)), end="")
        return
    if as_json or verbose > 1:
        print_summary(status(config), as_json, verbose)
        return
    from rich.console import Console
    from rich.live import Live

    from pipeline.reports.status_screen import screen

    terminal = Console()
    if not config.watch:
        terminal.print(screen(status(config)))
        return
    with contextlib.ExitStack() as stack:
        show: Callable[..., None] = terminal.print  # one screen after another where it is no terminal
        if terminal.is_terminal:
            live = stack.enter_context(Live(console=terminal, screen=True, auto_refresh=False))
            show = functools.partial(live.update, refresh=True)
        while True:
            show(screen(status(config)))
            time.sleep(config.seconds)


def run_verify(command: Command, given: dict[str, Any]) -> None:
    """Check a run and print what was found; exit code 1 if a problem is left."""
    config, as_json, verbose = configured(command, given)
    with console(verbose) as progress:
        summary = command(config, progress)
    if as_json:
        print_summary(summary, as_json)
    else:
        write("\n".join(summary.lines(whole=verbose > 1)))
    if not summary.clean:
        raise typer.Exit(1)


def run_loop(command: Command, given: dict[str, Any]) -> None:
    """Call the other commands in the run's folder until the run is as long as asked for, and sum it up."""
    from pipeline.loop.command import check_preset, extras, fetch_models, keep_preset, loop, next_steps, tracks
    from pipeline.run.atomic import make_folder
    from pipeline.run.store.requests import parse_address
    from pipeline.tracking.options import check_packages

    config = configured(command, given)[0].with_defaults()
    if config.extras:
        write(",".join(sorted(extras(config))))
        return
    for track in sorted(tracks(config)):
        check_packages(command.name, track)
    called = Path.cwd()
    if config.preset not in preset_names():
        config = config.model_copy(update={"preset": os.path.abspath(preset_path(config.preset))})
    folder = placed(command.name, {"directory": config.directory}, is_run=True)["directory"]
    measured = 0.0
    with contextlib.ExitStack() as stack:
        if (folder / layout.WORKING_COPY).exists():
            open_copy(stack, command.name, folder)
            fetch_models(folder)
        if config.game is not None:
            measured = keep_preset(config, folder, say)
            config = config.model_copy(update={"preset": str(layout.PRESET_FILE)})
        else:
            check_preset(config, folder)
    make_folder(folder)
    os.chdir(folder)
    address = "://".join(parse_address(str(config.directory)) or ())
    if address:
        say(f"the working copy of {address} is {Path.cwd()}")

    def call(name: str, quiet: bool = False, **options: Any) -> bool:
        stage = COMMANDS[name]
        if stage.in_presets:
            options["preset"] = config.preset
        try:
            with reported(name, in_loop=True), silence() if quiet else contextlib.nullcontext():
                OWN_WAYS.get(name, run_stage)(stage, options)
        except typer.Exit as ended:
            if ended.exit_code != NotYet.exit_code and not quiet:
                raise
            return False
        return True

    idle = loop(config, call, say, program(), measured)
    root = None if phrases.is_installed() else CHECKOUT
    advice = next_steps(config, called, root, address)
    folder = Path.cwd()
    if idle and not sys.stdout.isatty():  # a cron job
        write(f"mugo loop: {folder}: {idle}", sys.stderr)
        return
    os.chdir(called)  # the paths in the last lines are relative to where the loop was called
    print_run(Path() if folder == called else folder, advice)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Nothing is printed on standard output or drawn on stderr."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def program() -> list[str]:
    """The words that run this program in another process."""
    if phrases.is_installed():
        return [sys.executable, "-P", "-m", "pipeline"]  # -P: a folder named pipeline may be here
    return [sys.executable, str(CHECKOUT / "main.py")]


def print_run(folder: Path, advice: Sequence[str]) -> None:
    """As ``show FOLDER`` does, with this advice before its own."""
    with reported("show"):
        from pipeline.reports.show import show as describe
        from pipeline.reports.show_models import NEXT

        trust_games([folder])
        texts = list(describe(folder))
        end = texts.index(NEXT) if NEXT in texts else len(texts)
        for text in (*texts[:end], *advice, *texts[end:]):
            write(text)


def say(text: str) -> None:
    write(f"{time.strftime('%H:%M:%S')}  {text}", sys.stderr)


def placed(name: str, given: dict[str, Any], is_run: bool) -> dict[str, Any]:
    """The options, with paths instead of addresses. If there are addresses, the command moves to their run's copy.

    is_run: an address may be that of a run itself.
    """
    may_have = {option: value for option, value in given.items() if option != "note"}  # a note is text for people
    if not any(MAYBE_ADDRESS.search(repr(value)) for value in may_have.values()):
        return given
    from pipeline.run.store.working_copy import moved

    options, copy = moved(may_have, is_run)
    if copy is not None:
        COPIES[-1].close()  # the copy in which the command began
        os.chdir(copy)
        if name not in WITHOUT_RUN:
            open_copy(COPIES[-1], name, Path())
    return {**given, **options}


def configured(command: Command, given: dict[str, Any], run_state: RunState | None = None) -> tuple[Any, bool, int]:
    """The config that the options and the preset make, whether to print the summary as JSON, and verbose.

    run_state: where schedules take their values; None: the run's current state.
    """
    options = dict(given)
    preset = options.pop("preset", None) if command.in_presets else None
    as_json = bool(options.pop("as_json", False))
    verbose = options.pop("verbose", None) if "verbose" not in command.config.model_fields else None
    if verbose not in (None, 0, 1, 2):
        raise UsageError(f"{command.name} --verbose: found {verbose}; wanted 0, 1 or 2")

    def run_state_of(config: Options) -> RunState:
        from pipeline import command_state  # needs numpy

        return run_state or command_state.run_state_of(config)

    config: Any = make_config(command.config, command.name, preset, run_state_of, **options)
    trust_games(value for _, value in config)
    game = None if preset is None else read_preset(preset).get("init", {}).get("game")
    if command.name == "selfplay" and preset is not None and game:
        from pipeline.selfplay.command import refuse_other_game

        refuse_other_game(preset, game, config.network)
    return config, as_json, getattr(config, "verbose", 1 if verbose is None else verbose)


def trust_games(options: Iterable[Any]) -> None:
    """Let data files name the games of the runs in this folder and in those that the options' paths lie in."""
    from pipeline.run.models import trust_games as trust

    trust([Path(), *(value for value in options if isinstance(value, Path))])


def print_summary(summary: Any, as_json: bool = False, verbose: int = 1) -> None:
    from pipeline.reports.summaries import summary_json, summary_text

    write(summary_json(summary) if as_json else summary_text(summary, whole=verbose > 1))


OWN_WAYS: dict[str, Caller] = {
    "selfplay": run_selfplay,
    "evaluate": run_evaluate,
    "loop": run_loop,
    "status": run_status,
    "verify": run_verify,
}


@app.command("show")
@with_record_options
def show(
    path: Annotated[
        Path, typer.Argument(help="A file or folder. [default: the run in this folder]", show_default=False)
    ] = Path(),
    game: Annotated[
        int | None,
        typer.Option(help="Show this game of a shard or match, counted from 0.", parser=number_parser(int)),
    ] = None,
    moves: Annotated[bool, typer.Option("--moves", help="Show the board before every move of that game.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the moves of shards as comma-separated values, a line each.")
    ] = False,
    sgf_output: Annotated[
        Path | None,
        typer.Option(help="Write these records into this folder, a file a game; those of the same name are replaced."),
    ] = None,
    *,
    wanted: list[str],
) -> None:
    """Print one of MuGo's files for a person; without a path, the state of the run in this folder.

    --sgf prints the games of a shard or match instead, as SGF that Sabaki and other programs open: each move with its
    visits and the winrate before it, and black's winrates as a graph. Other record formats have options like it, for
    their games. --sgf-output writes a file per game. A folder stands for its newest match or shard. `serve` and
    `engine` open SGF; most other formats are shown like matches, whichever program wrote them (docs/files.md).

    \b
    Reads:   a game shard (.gz), its .meta file, a chunk (.h5), a model directory, a match directory, promotions.jsonl,
             ratings, a pool, an evaluation of --watch, a pack, the folder of a run, or records of other programs
    Writes:  nothing, except with --sgf-output: records in that folder
    Exit:    0 shown, 1 missing, damaged or not one of MuGo's files, 2 wrong usage
    Example: python main.py show saved_models/best_model
    """
    with reported("show"):
        from pipeline.reports.show import game_records
        from pipeline.reports.show import show as describe

        path, sgf_output = placed("show", {"path": path, "output": sgf_output}, is_run=True).values()
        trust_games([path])
        if csv:
            if moves or wanted or sgf_output is not None:
                raise UsageError("--csv prints lines of moves; choose it alone")
            from pipeline.reports.show_as import csv_lines

            for line in csv_lines(path, game):
                write(line)
            return
        if wanted or sgf_output is not None:
            if moves:
                raise UsageError("--moves shows boards, --sgf and the like write records; choose one")
            if len(wanted) > 1:
                raise UsageError(f"--{wanted[0]} and --{wanted[1]}: two formats; choose one")
            print_or_write(game_records(path, game, wanted[0] if wanted else "sgf"), sgf_output)
            return
        for text in describe(path, game=game, moves=moves):
            write(text)


def print_or_write(records: Iterable[tuple[str, str]], folder: Path | None) -> None:
    """Print texts one after another, or write them into this folder as files of these names."""
    from pipeline.run import atomic

    count = 0
    for name, text in records:
        if folder is None:
            write(text, end="")
            continue
        atomic.make_folder(folder)
        atomic.write_text(folder / name, text, folder_sync=False)
        count += 1
    if folder is not None:
        if count:
            atomic.sync(folder)
        write(f"{count} records in {folder}")


@app.command()
def pool(
    action: Annotated[str | None, typer.Argument(help="add or remove. [default: print the pool]")] = None,
    player: Annotated[str | None, typer.Argument(help="The player to add, or the member to remove.")] = None,
    capacity: Annotated[
        int | None,
        typer.Option(help="Largest number of members; the lowest rated leave.", parser=number_parser(int)),
    ] = None,
    path: Annotated[
        Path | None, typer.Option(help="The file that keeps the pool. [default: data/pool.json]", show_default=False)
    ] = None,
    ratings: Annotated[
        Path | None,
        typer.Option(help="The file that keeps the ratings. [default: data/ratings.json]", show_default=False),
    ] = None,
) -> None:
    """Print or change the pool of opponents, which plays tournaments and self-play's --opponents pool:MODE.

    When the pool is full, its lowest rated member leaves, but never the one just added, a built-in player or the
    champion of its folder. An unrated member counts as the mean of all rated players; among equals the oldest member
    leaves. A model without @READOUTS takes the rating it earned over the most games.

    \b
    Reads:   data/pool.json, data/ratings.json
    Writes:  data/pool.json
    Exit:    0 done, 1 failed, 2 wrong usage
    Example: python main.py pool add saved_models/best_model
    """
    with reported("pool"):
        from pipeline.ratings.pool import pool as change

        given = {"player": player, "path": path, "ratings": ratings}
        player, path, ratings = placed("pool", given, is_run=False).values()
        path, ratings = path or layout.POOL_FILE, ratings or layout.RATINGS_FILE
        with console() as progress:
            summary = change(action, player, path, ratings, capacity, progress)
        print_summary(summary)


@app.command()
def attach(
    address: Annotated[str, typer.Argument(help="Of the run's folder in a bucket, e.g. s3://bucket/runs/go9.")],
    folder: Annotated[
        Path | None,
        typer.Argument(help="The working copy to make. [default: one below ~/.cache/mugo/runs]", show_default=False),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Bring all files there, e.g. for verify and report.")] = False,
) -> None:
    """Make a folder the working copy of a run in object storage, and print it.

    Commands that begin in that folder work on the run in the bucket: what they commit is there first, what they need is
    brought from there. The folder is a cache and may be removed when nothing runs in it. An address in an option of
    another command, e.g. gather --directory s3://bucket/runs/go9/data/selfplay, moves that command to the run at that
    address. Addresses are s3://, gs:// (Google) or az:// (Azure). Needs the extra cloud; credentials are those of the
    environment: AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS,
    AZURE_STORAGE_CONNECTION_STRING, …

    \b
    Reads:   the names in the bucket; with --whole all of the run
    Writes:  the folder
    Exit:    0 done, 1 the store can't be reached, refuses or doesn't honour conditional writes, 2 wrong usage
    Example: python main.py attach s3://bucket/runs/go9 runs/go9
    """
    with reported("attach"):
        from pipeline.run.store.working_copy import attach as make

        write(str(make(address, folder, whole)))


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this preset, or this .yaml file.")] = None,
    generation: Annotated[
        int | None, typer.Option(min=0, metavar="<int>", help="Print this generation's values instead of schedules.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, metavar="<int>", help="With --generation: at this many samples.")] = 0,
    time_share: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="<float>", help="Likewise, at this share of the run's time.")
    ] = None,
) -> None:
    """List the presets with what each needs and gives, or print one of them.

    \b
    Reads:   the presets of games and of installed packages
    Writes:  nothing
    Exit:    0 shown, 2 no such preset
    Example: python main.py presets go9-tour
    """
    with reported("presets"):
        if name is None:
            from pipeline.reports.tables import table

            rows = [(known, *preset_headline(known)) for known in preset_names()]
            write(table(rows, ("preset", "for", "needs", "gives")))
        else:
            if generation is None and (samples or time_share is not None):
                raise UsageError("presets --samples, --time-share: wanted --generation with them")
            state = None if generation is None else RunState(generation, samples, time_share)
            write(preset_text(name, state))


def run_program(arguments: Sequence[str] | None = None, name: str = "main.py") -> None:
    """Run one command and exit by SystemExit.

    arguments: instead of those of the command line; name: main.py or mugo, as it was called.
    """
    phrases.call(phrases.INSTALLED if name == phrases.INSTALLED else phrases.CHECKOUT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # in a locale without UTF-8, printing must not fail what was done
            stream.reconfigure(errors="replace")
    try:
        take_interrupts(INTERRUPTS.handle)
        sys.unraisablehook = INTERRUPTS.take_back
        app(prog_name=name, args=arguments)
    except MuGoError as error:  # options of installed packages that contradict each other
        write(f"mugo: {error}", sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # before or after the command, which reports its own interrupts
        write("mugo: interrupted", sys.stderr)
        end(INTERRUPTS.exit_code)
    except SystemExit as ended:
        if LEFT_AT_ONCE.intersection(ENDED):
            leave(0)
        if INTERRUPTS.first is not None and isinstance(ended.code, int):
            end(ended.code)
        raise
    finally:
        take_interrupts(quit_at_once)


def end(exit_code: int) -> NoReturn:
    """Exit after an interrupt. In an orderly exit, threads that still compute may abort the process: they find Python
    gone when they return from other languages' code.
    """
    if any(thread.daemon for thread in threading.enumerate()):
        leave(exit_code)
    sys.exit(exit_code)


def leave(exit_code: int) -> NoReturn:
    """Exit at once, without taking anything apart."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)
