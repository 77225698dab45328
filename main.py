"""The command line: build a stage's config from its options and a preset, call the stage, print its summary.

Options are not written here: they are the fields of the configs in ``pipeline/config.py``, with their types, defaults
and texts. All that is heavy (numpy, numba, torch) is imported inside the command that needs it: ``--help`` is instant.

Output: a command's summary goes to stdout, everything said on the way to stderr.
Exit codes: 0 done, 1 failed, 2 wrong usage, 75 nothing to do yet, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib
import inspect
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

try:
    import typer
    from pydantic.fields import FieldInfo
except ModuleNotFoundError as missing:
    sys.exit(f"mugo: {missing}; run ./rl_loop.sh once, or activate its environment: source .venv/bin/activate")

from pipeline.config import CONFIGS, BenchConfig, EngineConfig, SearchConfig, SelfplayConfig, StageConfig
from pipeline.errors import MuGoError
from pipeline.help import HELP
from pipeline.presets import make_config, preset_names, read_preset
from pipeline.schedules import RunState

ABOUT = """MuGo: self-play training for board games, as four commands over files.

\b
selfplay -> data/selfplay -> gather -> data/training_data -> train -> saved_models -> evaluate -> best_model

Start with `python main.py init`, or let ./rl_loop.sh run everything in order. Every command may be killed at any moment
and started again. Exit codes: 0 done, 1 failed, 2 wrong usage, 75 nothing to do yet, 130 and 143 interrupted.
"""

app = typer.Typer(
    help=ABOUT, rich_markup_mode=None, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt and remembers which came first.

    A terminal sends Ctrl-C to every process of a job and rl_loop.sh passes it on as well, so signals within a second
    of the first are the same wish and don't disturb the cleaning up.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last_time = 0.0

    def install(self) -> None:
        signal.signal(signal.SIGINT, self.handle)
        signal.signal(signal.SIGTERM, self.handle)

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
COMMANDS = {  # where each command's function of that name is
    "init": "pipeline.train.init",
    "selfplay": "pipeline.selfplay.command",
    "gather": "pipeline.gather.command",
    "train": "pipeline.train.command",
    "evaluate": "pipeline.evaluate.command",
    "ratings": "pipeline.ratings.command",
    "tournament": "pipeline.ratings.tournament",
    "bench": "pipeline.bench.command",
    "engine": "pipeline.protocols.engine",
}
NOTHING_KEPT = {"bench", "engine", "show", "presets"}  # commands that begin anew however they ended
DISK_TROUBLE = {
    errno.ENOSPC: "free some space and run it again",
    errno.EDQUOT: "free some space and run it again",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "choose a folder that you may use, or change its permissions",
    errno.EPERM: "choose a folder that you may use, or change its permissions",
    errno.ENOTDIR: "a part of this path is a file; choose another folder",
    errno.EISDIR: "this is a folder, a file was wanted",
    errno.EIO: "the disk reports a fault",
}


@contextlib.contextmanager
def reported(command: str) -> Iterator[None]:
    """Turn every foreseen failure into one line on stderr and an exit code. Bugs keep their traceback."""
    try:
        yield
        sys.stdout.flush()
    except MuGoError as error:
        text = str(error).removeprefix(command).lstrip(": ")
        print(f"mugo {command}: {text}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as error:
        goes_on = "" if command in NOTHING_KEPT else "; the same command goes on where it stood"
        print(f"mugo {command}: interrupted{goes_on}", file=sys.stderr)
        raise typer.Exit(INTERRUPTS.exit_code) from error
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Point stdout elsewhere, or the exit would try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in DISK_TROUBLE:
            raise
        where = error.filename2 or error.filename or "disk"
        print(f"mugo {command}: {where}: {error.strerror}; {DISK_TROUBLE[error.errno]}", file=sys.stderr)
        raise typer.Exit(1) from error


def command_type(annotation: Any) -> Any:
    """What the command line must parse for a field: the annotation without its None."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return annotation


def number_parser(kind: type) -> Callable[[str], Any] | None:
    """Numbers are parsed here so that the error says what was found; other types are typer's."""
    if kind not in (int, float):
        return None
    wanted = "a whole number" if kind is int else "a number"

    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise typer.BadParameter(f"found {text!r}; wanted {wanted}") from error

    parse.__name__ = "INTEGER" if kind is int else "FLOAT"
    return parse


def option_of(name: str, field: FieldInfo) -> inspect.Parameter:
    """One config field as a typer option whose default is None, "not given": presets fill what isn't given."""
    kind = command_type(field.annotation)
    flag = "--" + name.replace("_", "-")
    declaration = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    shown = "no" if field.default is False else "yes" if field.default is True else field.default
    if isinstance(shown, list):
        shown = ", ".join(map(str, shown))
    text = field.description or ""
    if field.default not in (None, []):
        text += f" [default: {shown}]"
    if (field.json_schema_extra or {}).get("argument"):  # type: ignore[union-attr]
        argument = typer.Argument(help=text, show_default=False)
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, argument]
        )
    option = typer.Option(declaration, help=text, show_default=False, parser=number_parser(kind))
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def extra_option(name: str, kind: Any, default: Any, text: str, declaration: str) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(declaration, help=text, show_default=False)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def run_state_of(config: StageConfig) -> RunState:
    """Where the run stands that this config is for; see pipeline/run_state.py, which needs numpy."""
    return importlib.import_module("pipeline.run_state").run_state_of(config)


def add_stage_command(name: str, kind: type[StageConfig]) -> None:
    """Register `main.py NAME` with an option for every field of its config, and --preset if presets fill it."""

    def command(as_json: bool = False, **options: Any) -> None:
        with reported(name):
            preset = options.pop("preset", None) if name in CONFIGS else None
            config = make_config(kind, name, preset, run_state_of, **options)
            game = read_preset(preset).get("init", {}).get("game") if preset else None
            if isinstance(config, SelfplayConfig) and preset and game:
                from pipeline.selfplay.command import refuse_other_game

                refuse_other_game(preset, game, config.network)
            from pipeline.reports.progress import ConsoleProgress

            stage: Callable[..., Any] = getattr(importlib.import_module(COMMANDS[name]), name)
            with ConsoleProgress(quiet=getattr(config, "verbose", 1) == 0) as progress:
                summary = stage(config, progress)
            if summary is not None:
                print(summary_json(summary) if as_json else text_of(name)(summary))
            if INTERRUPTS.first is not None:
                raise KeyboardInterrupt

    own_first = sorted(kind.model_fields.items(), key=lambda item: item[0] in SearchConfig.model_fields)
    parameters = [option_of(field_name, field) for field_name, field in own_first]
    if name in CONFIGS:
        text = f"Settings to start from: {', '.join(preset_names())}, or a .yaml file. Options given here win."
        parameters.insert(0, extra_option("preset", str | None, None, text, "--preset"))
    if name != "engine":  # it has no summary
        parameters.append(extra_option("as_json", bool, False, "Print the summary as JSON.", "--json"))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, help=HELP[name])(command)


def plain(value: Any) -> Any:
    """A summary's value as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    return value


def summary_json(summary: Any) -> str:
    return json.dumps(plain(summary), indent=2)


def summary_text(summary: Any) -> str:
    """One aligned line per number; tables within the summary are flattened to 'outer inner', empty texts left out."""
    lines: list[tuple[str, str]] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                add(f"{name} {key}".strip(), item)
        elif value != "":
            lines.append((name.replace("_", " "), value_text(value)))

    add("", plain(summary))
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in lines)


def text_of(command: str) -> Callable[[Any], str]:
    """What prints a command's summary for a person."""
    if command in ("ratings", "tournament"):
        from pipeline.reports.rating_tables import ratings_table

        return ratings_table
    return summary_text


def value_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        shown = ", ".join(value_text(item) for item in value[:8])
        return f"{shown}, … ({len(value)} in all)" if len(value) > 8 else shown or "-"
    return str(value)


for stage_name, config_class in CONFIGS.items():
    add_stage_command(stage_name, config_class)
add_stage_command("bench", BenchConfig)
add_stage_command("engine", EngineConfig)


@app.command()
def show(
    path: Annotated[
        Path, typer.Argument(help="A file of ours, or a folder that holds data/ and saved_models/.")
    ] = Path(),
    game: Annotated[int | None, typer.Option(help="Show this game of a shard or match, counted from 0.")] = None,
    moves: Annotated[bool, typer.Option("--moves", help="Every move of that game with its board.")] = False,
) -> None:
    """Print any file of ours for a human; without a path, the state of the run in this folder.

    \b
    Knows:   a game shard (.gz), its .meta, a chunk (.h5), a model directory, a match directory, promotions.jsonl,
             ratings, a pool, a whole run
    Writes:  nothing
    Exit:    0 shown, 1 missing, damaged or not a file of ours, 2 wrong usage
    Example: python main.py show saved_models/best_model
    """
    with reported("show"):
        from pipeline.reports.show import show as describe

        for text in describe(path, game=game, moves=moves):
            print(text)


@app.command()
def pool(
    action: Annotated[str | None, typer.Argument(help="add or remove; without it the pool is shown.")] = None,
    player: Annotated[str | None, typer.Argument(help="Whom: a player to add, a member's name to remove.")] = None,
    capacity: Annotated[int | None, typer.Option(help="Keep at most so many; the lowest rated leave.")] = None,
    path: Annotated[Path, typer.Option(help="The pool.")] = Path("data/pool.json"),
    ratings: Annotated[Path, typer.Option(help="Where the ratings are kept.")] = Path("data/ratings.json"),
) -> None:
    """The pool of opponents: who plays tournaments, and whom self-play's --opponents pool:MODE chooses from.

    Of a full pool the lowest rated leaves, never the one just added; who is unrated counts as the mean of all rated
    players; of equals the one longest there leaves. A model without @READOUTS has its rating with the most games.

    \b
    Reads:   data/pool.json, data/ratings.json
    Writes:  data/pool.json
    Exit:    0 done, 1 failed, 2 wrong usage
    Example: python main.py pool add saved_models/best_model
    """
    with reported("pool"):
        from pipeline.ratings.pool import pool as change
        from pipeline.reports.progress import ConsoleProgress
        from pipeline.reports.rating_tables import pool_table

        with ConsoleProgress() as progress:
            summary = change(action, player, path, ratings, capacity, progress)
        print(pool_table(summary))


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this preset, one of ours or a .yaml file.")] = None,
    generation: Annotated[
        int | None, typer.Option(min=0, help="Print the values that count for this generation, schedules resolved.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="With --generation: after training on so many samples.")] = 0,
    time_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="The same when so much of the run's time is over, 0 to 1.")
    ] = None,
) -> None:
    """List the presets with what each needs and gives, or print one of them.

    \b
    Reads:   pipeline/presets/*.yaml
    Writes:  nothing
    Exit:    0 shown, 2 no such preset
    Example: python main.py presets go9-tour
    """
    with reported("presets"):
        from pipeline.reports.presets import preset_text, presets_table

        if name is None:
            print(presets_table())
        else:
            as_written = generation is None and time_share is None
            print(preset_text(name, None if as_written else RunState(generation or 1, samples, time_share)))


if __name__ == "__main__":
    INTERRUPTS.install()
    app(prog_name="main.py")
