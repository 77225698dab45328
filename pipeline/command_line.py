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
from pipeline.options import Options, group_of
from pipeline.presets import preset_names

PRESET = "Settings to start from: {}, or a path to a .yaml file. Options given here win."
VERBOSE = "0 warnings and a short summary, 1 progress too, 2 the whole summary. [default: 1]"
SGF = "Print the games of a shard or match as SGF, with what their searches found."
JSON = "Print the whole summary as JSON."

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
    kind = command.config
    panels = {name: _panel(kind, name) for name in kind.model_fields}
    order = ["", *(one.__dict__["panel"] for one in kind.__mro__ if one.__dict__.get("panel"))]
    fields = sorted(panels, key=lambda name: order.index(panels[name]))
    options = [_field_option(name, kind.model_fields[name], panels[name]) for name in fields]
    everyday = sum(not panel for panel in panels.values())
    if command.in_presets:
        options.insert(0, _option("preset", str, ["--preset"], PRESET.format(", ".join(preset_names()))))
        everyday += 1
    if has_summary:
        if "verbose" not in kind.model_fields:
            options.insert(everyday, _option("verbose", int, ["--verbose"], VERBOSE))
            everyday += 1
        options.insert(everyday, _option("as_json", bool, ["--json"], JSON))
    return options


def _panel(kind: type[Options], name: str) -> str:
    group = group_of(kind, name)
    return "" if group is kind else group.panel


def with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function, which takes keywords, with these as its parameters: typer makes options of them."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def with_record_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a flag for each format of records before its last two options; ``wanted``: those given."""
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
        parameters.insert(-2, inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, flag]))
    return with_parameters(with_flags, parameters)


def _option(name: str, kind: Any, flags: Sequence[str], text: str, panel: str = "") -> inspect.Parameter:
    parser = _number_parser(kind)
    meaning = typer.Option(*flags, help=text, show_default=False, parser=parser, rich_help_panel=panel or None)
    return _parameter(name, kind, meaning)


def _parameter(name: str, kind: Any, meaning: Any) -> inspect.Parameter:
    annotation = Annotated[kind | None, meaning]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _field_option(name: str, field: FieldInfo, panel: str) -> inspect.Parameter:
    kind = _type_without_none(field.annotation)
    shown = {False: "no", True: "yes"}.get(field.default, field.default) if kind is bool else field.default
    if isinstance(shown, list):
        shown = ", ".join(map(str, shown))
    text = field.description or ""
    if field.default not in (None, [], ""):
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


def _number_parser(kind: type) -> Callable[[str], Any] | None:
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
