"""Command-line options made from the fields of a command's config, in panels, everyday options first.

The options of ``show`` for formats of records come from the table of extensions.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from pipeline import extensions
from pipeline.commands import Command
from pipeline.errors import UsageError
from pipeline.options import panels_of

PRESET = (
    "Settings to start from: a name from `presets`, or a .yaml file. Options given here win; --no-OPTION switches off "
    "what a preset switches on."
)
VERBOSE = "0 warnings and a short summary, 1 progress too, 2 the whole summary. [default: 1]"
SGF = "Print the games of a shard or match as SGF, with what their searches found."
JSON = "Print the whole summary as JSON."
ON = "[default: yes]"

PLUGIN_LISTS = {"{players}": (extensions.PLAYERS, 34), "{protocols}": (extensions.PROTOCOLS, 10)}
"""Texts in a help → the extensions whose list replaces them, and the width of its first column."""


class PanelCommand(TyperCommand):
    """A command whose --help shows its options under the headings of their groups, and lists plug-ins."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for text, (group, width) in PLUGIN_LISTS.items():
            if text in (self.help or ""):
                lines = [f"  {what:{width}} {said}" for what, said in extensions.descriptions(group)]
                self.help = (self.help or "").replace(text, "\n".join(lines))
        super().format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.secondary_opts and ON not in record[1]:
                record = record[0].partition(" / ")[0], record[1]  # its --no-… is only for what a preset switches on
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
                panels.setdefault(heading, []).append(record)
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def options_of(command: Command, has_summary: bool) -> list[inspect.Parameter]:
    """All options of a command: its everyday options, those of every command, then its groups.

    All default to None, "not given", because presets fill those.
    """
    fields, panels = command.config.model_fields, panels_of(command.config)
    everyday = [_field_option(name, fields[name]) for name in panels.pop("", ())]
    if command.in_presets:
        everyday.insert(0, _option("preset", str, ["--preset"], PRESET))
    if has_summary:
        if "verbose" not in fields:
            everyday.append(_option("verbose", int, ["--verbose"], VERBOSE))
        everyday.append(_option("as_json", bool, ["--json"], JSON))
    return everyday + [_field_option(name, fields[name], panel) for panel, names in panels.items() for name in names]


def with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function, which takes keywords, with these as its parameters: typer makes options of them."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def with_record_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a flag for each format of records before its last option; ``wanted``: those given."""
    own = inspect.signature(command, eval_str=True).parameters
    try:
        found = extensions.find(extensions.RECORDS)
    except UsageError:  # the command raises it, too, when it looks for its format
        found = extensions.bundled(extensions.RECORDS)
    names = [name for name in found if re.fullmatch("[a-z][a-z0-9]*", name) and name not in {*own, "help"}]
    names.sort(key=lambda name: name != "sgf")

    def with_flags(**given: Any) -> None:
        command(wanted=[name for name in names if given.pop(name)], **given)

    with_flags.__doc__ = command.__doc__
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=kind) for name, parameter in own.items() if name != "wanted"]
    for name in names:
        flag = typer.Option(f"--{name}", help=SGF if name == "sgf" else f"Print the games as {name.upper()}.")
        parameters.insert(-1, inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, flag]))
    return with_parameters(with_flags, parameters)


def _option(name: str, kind: Any, flags: Sequence[str], text: str, panel: str = "") -> inspect.Parameter:
    parser = number_parser(kind)
    metavar = f"<{get_args(kind)[0].__name__.lower()}>" if get_origin(kind) is list else None
    meaning = typer.Option(
        *flags, help=text, show_default=False, parser=parser, metavar=metavar, rich_help_panel=panel or None
    )
    return _parameter(name, kind, meaning)


def _parameter(name: str, kind: Any, meaning: Any) -> inspect.Parameter:
    annotation = Annotated[kind | None, meaning]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _field_option(name: str, field: FieldInfo, panel: str = "") -> inspect.Parameter:
    kind, text, default = _type_without_none(field.annotation), field.description or "", field.default
    if default is True:
        text += f" {ON}"
    elif default is not False and default not in (None, [], ""):
        shown = ", ".join(map(str, default)) if isinstance(default, list) else default
        shown = f"{default:g}" if isinstance(default, float) else shown
        text += f" [default: {shown}]"
    extra: dict[str, Any] = field.json_schema_extra or {}  # type: ignore[assignment]
    if extra.get("argument"):
        return _parameter(name, kind, typer.Argument(help=text, show_default=False))
    flag = name.replace("_", "-")
    short = extra.get("short")
    flags = [f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}", *([f"-{short}"] if short else [])]
    return _option(name, kind, flags, text, panel)


def _type_without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        return next(kind for kind in get_args(annotation) if kind is not type(None))
    return annotation


def number_parser(kind: type) -> Callable[[str], Any] | None:
    """Parses numbers so that the error says what was found; typer parses other types."""
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
