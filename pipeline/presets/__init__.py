"""Presets: settings of all commands as YAML, and the configs made of them and the command line's options.

A preset is a YAML file, in this folder or the user's own: a section per command, a line per field of its config. An
option on the command line wins over the preset's line, and that over the field's default. Imports config, errors and
schedules; never calls a command and knows no files but presets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from pipeline import extensions
from pipeline.commands import COMMANDS, SECTIONS
from pipeline.errors import UsageError
from pipeline.options import Options
from pipeline.schedules import START, RunState, parse_schedule

MOST_BYTES, MOST_LINES, MOST_NESTED = 1 << 16, 2_000, 8  # of a preset; ours have a twentieth of that, and three levels
WHOLE_NUMBERS = (int, int | None)
NUMBERS = (*WHOLE_NUMBERS, float, float | None)  # settings of these types can follow a schedule; others say so

# What a field wants: by the first word of pydantic's error type, by its bounds, by its pattern.
KINDS = {"int": "a whole number", "finite": "a whole number", "float": "a number", "bool": "yes or no",
         "string": "a text", "path": "a path", "list": "a list"}  # fmt: skip
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
PATTERNS = {
    r"^[A-Za-z0-9_-]+$": "letters, digits, - and _ only",
    r"^b\d{1,4}c\d{1,6}$": "bBLOCKScCHANNELS, e.g. b4c64",
}

# As players/player_specs.py reads it.
_PLAYER = re.compile(r"\s*([A-Za-z0-9][\w.@-]*=\s*)?(handicap:[0-9]{1,2}:\s*)?(?P<kind>[A-Za-z0-9][\w.-]*):", re.ASCII)
C = TypeVar("C", bound=Options)


def is_engine(text: str) -> bool:
    """Whether a text, as one of an option, may run an outside program as a player: it is of a kind with an argument.
    Imports no package.
    """
    found = _PLAYER.match(text)
    return found is not None and extensions.named(extensions.PLAYERS, found["kind"]) is not None


@cache
def _files() -> dict[str, Path]:
    """The presets of the families and of installed packages, by name. Imports no package that isn't bundled."""
    found: dict[str, Path] = {}
    offered = (*extensions.installed(extensions.PRESETS).values(), *extensions.bundled(extensions.PRESETS).values())
    for extension in offered:
        spec = find_spec(extension.value)
        for folder in (spec and spec.submodule_search_locations) or ():
            found.update((path.stem, path) for path in Path(folder, "presets").glob("*.yaml"))
    return found


def preset_names() -> list[str]:
    return sorted(_files())


def preset_path(name: str) -> Path:
    """The file of a preset: those of families and packages go by name, others by their path. It may not exist."""
    return Path(name) if name.endswith((".yaml", ".yml")) else _files().get(name, Path(f"{name}.yaml"))


def read_preset(name: str) -> dict[str, dict[str, Any]]:
    """The sections of a preset, given by its name or as a path to a YAML file.

    Raises UsageError if it doesn't exist or isn't YAML, or if a section or line is unknown or has a
    value that it can't have.
    """
    path = preset_path(name)
    if not path.is_file():
        raise UsageError(
            f"preset {name!r}: no such preset; known: {', '.join(preset_names())}; or give a path to a .yaml file"
        )
    sections = _load(path) or {}
    if not isinstance(sections, dict) or not all(isinstance(lines, dict) for lines in sections.values()):
        raise UsageError(f"preset {path}: wanted sections {', '.join(SECTIONS)}, each with lines 'name: value'")
    for stage, lines in sections.items():
        if stage not in SECTIONS:
            raise UsageError(f"preset {path}: unknown section {stage!r}; wanted one of {', '.join(SECTIONS)}")
        known = COMMANDS[stage].config.model_fields
        for field in lines:
            if field not in known:
                raise UsageError(f"preset {path}, {stage}: unknown line {field!r}; known: {', '.join(known)}")
            if isinstance(lines[field], list) and not isinstance(known[field].default, list):
                _check_list(COMMANDS[stage].config, field, lines[field], f"preset {path}, {stage}, {field}")
            else:
                _check_line(COMMANDS[stage].config, stage, field, lines[field], name)
    return sections


class _Loader(yaml.SafeLoader):
    """YAML whose merged mappings (``<<``) can't grow without bound, and in which no key stands twice in a mapping."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = key.tag, key.value
                if name in seen:
                    raise ValueError(f"line {key.start_mark.line + 1}: {key.value!r} stands here a second time")
                seen.add(name)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_LINES:
            raise ValueError(f"a mapping of more than {MOST_LINES} lines")


def _load(path: Path) -> Any:
    """The YAML in a file, whose depth and size are bounded, aliases counted as often as they stand there.

    Raises UsageError.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        found = yaml.load(data.decode(), _Loader)
        level = [found]
        for _ in range(MOST_NESTED):
            level = list(islice((inner for one in level for inner in _inside(one)), MOST_LINES + 1))
            if len(level) > MOST_LINES:
                raise ValueError(f"more than {MOST_LINES} values")
        if level:
            raise RecursionError
    except RecursionError as error:
        raise UsageError(f"preset {path}: not readable as YAML: lists or mappings nested too deeply") from error
    except OSError as error:
        raise UsageError(f"preset {path}: {error.strerror}; wanted a YAML file that can be read") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"preset {path}: not readable as YAML: {' '.join(str(error).split())}") from error
    return found


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | set | tuple) else ()


def _check_line(kind: type[Options], stage: str, field: str, value: Any, preset: str) -> None:
    """Raises UsageError for a value that its setting can't have, whichever command reads the preset: a mistake in the
    settings of training must not wait until self-play has ended. Doesn't check how settings go together.
    """
    try:
        kind(**{field: value})
    except ValidationError as error:
        found = [problem for problem in error.errors() if problem["loc"][:1] == (field,)]
        if found:
            option = "--" + field.replace("_", "-")
            raise UsageError(f"{stage} {option} (preset {preset}): {_problem(kind, found[0])}") from error


def _check_list(kind: type[Options], field: str, found: list[Any], where: str) -> None:
    """Raises UsageError unless a line's list is a schedule of valid values.

    All entries are checked at once: a mistake in a later one must not wait for its generation to be found.
    """
    if field not in scheduled_lines(kind, {field: found}):
        raise UsageError(f"{where}: found a list; wanted one value: this setting can't follow a schedule")
    schedule = parse_schedule(found, where)
    for value in (*schedule.values, *(start for start in schedule.starts if start is not None)):
        if value is None or isinstance(value, bool):
            wanted = "a number" if kind.model_fields[field].annotation in NUMBERS else "a text"
            raise UsageError(f"{where}: found the value {value!r}; wanted {wanted}")
        try:
            kind(**{field: value})
        except ValidationError as error:
            raise UsageError(f"{where}: {_problem(kind, error.errors()[0])}") from error


def scheduled_lines(kind: type[Options], lines: Mapping[str, Any]) -> list[str]:
    """The lines of a section that follow a schedule: given as lists, of settings that may follow one."""

    def may(field: str) -> bool:
        info = kind.model_fields[field]
        extra = info.json_schema_extra
        return info.annotation in NUMBERS or (isinstance(extra, dict) and bool(extra.get("scheduled")))

    return [field for field, value in lines.items() if isinstance(value, list) and may(field)]


def lines_at(kind: type[Options], lines: Mapping[str, Any], run_state: RunState) -> dict[str, Any]:
    """A section's lines with each schedule replaced by its value then, rounded where the setting is a whole number.

    Raises UsageError like Schedule.at.
    """
    values = {}
    for field in scheduled_lines(kind, lines):
        try:
            values[field] = parse_schedule(lines[field], field).at(run_state)
        except UsageError as error:
            raise UsageError(f"{field.replace('_', ' ')} {error}") from error
        if kind.model_fields[field].annotation in WHOLE_NUMBERS and isinstance(values[field], float):
            values[field] = round(values[field])
    return {**lines, **values}


def make_config(
    kind: type[C],
    stage: str,
    preset: str | None = None,
    run_state_of: Callable[[Options], RunState] = lambda _: START,
    /,  # bench has an option of its own that is called preset
    **options: Any,
) -> C:
    """The config of one stage from a preset's section and the options given (None = not given).

    run_state_of: gives the state of the run that a config belongs to; called only if there are schedules, with a config
    whose schedules are all at their start.
    Raises UsageError that names the option, what was found and what was wanted.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lines = {**(read_preset(preset).get(stage, {}) if preset is not None else {}), **given}
    _refuse_engines(stage, preset, lines, given)
    config = _validated(kind, stage, preset, lines_at(kind, lines, START), given)
    if scheduled_lines(kind, lines):
        config = _validated(kind, stage, preset, lines_at(kind, lines, run_state_of(config)), given)
    return config


def _refuse_engines(stage: str, preset: str | None, lines: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raises UsageError if a preset would run an engine that the command line neither names nor allows."""
    where = f"{stage} (preset {preset})"
    if "allow_engines" in lines and "allow_engines" not in given:
        raise UsageError(f"{where}: found allow_engines; wanted it on the command line alone: --allow-engines")
    if given.get("allow_engines"):
        return
    for name, value in lines.items():
        for text in value if isinstance(value, list) else [value]:
            if name not in (*given, "game") and isinstance(text, str) and is_engine(text):
                option = name.replace("_", "-")
                raise UsageError(f"{where}: --{option} would run the engine {text!r}; wanted --allow-engines to run it")


def _validated(kind: type[C], stage: str, preset: str | None, values: dict[str, Any], options: dict[str, Any]) -> C:
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else stage
        where = f" (preset {preset})" if preset and str(first["loc"][0]) not in options else ""
        raise UsageError(f"{stage} {option}{where}: {_problem(kind, first)}") from error


def _problem(kind: type[Options], error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words: what was found and what the field wants."""
    field = kind.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    facts = field.metadata if field is not None else []
    bounds = [
        f"{text} {getattr(fact, name):g}" for fact in facts for name, text in BOUNDS.items() if hasattr(fact, name)
    ]
    wanted = ", ".join(filter(None, [KINDS.get(error["type"].partition("_")[0]), " and ".join(bounds)]))
    for pattern in (fact.pattern for fact in facts if hasattr(fact, "pattern")):
        choices = re.fullmatch(r"\^\((.+)\)\$", pattern)
        wanted = f"one of {choices[1].replace('|', ', ')}" if choices else PATTERNS[pattern]
    return f"found {error['input']!r}; wanted {wanted or error['msg']}"


# As text


def preset_headline(name: str) -> tuple[str, str, str]:
    """What a built-in preset is for, needs and gives, from its first line: ``# FOR; needs …; gives …``."""
    with preset_path(name).open(encoding="utf-8") as file:
        purpose, needs, gives = file.readline().removeprefix("#").strip().split("; ")
    return purpose, needs.removeprefix("needs "), gives.removeprefix("gives ")


def preset_text(name: str, run_state: RunState | None = None) -> str:
    """A preset as written, or with the values that hold at run_state. Raises UsageError like read_preset."""
    sections = read_preset(name)
    if run_state is None:
        return preset_path(name).read_text(encoding="utf-8").rstrip("\n")
    effective = {
        stage: lines_at(COMMANDS[stage].config, lines, START if stage == "init" else run_state)
        for stage, lines in sections.items()
    }
    return yaml.safe_dump(effective, sort_keys=False).rstrip("\n")
