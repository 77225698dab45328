"""Presets: settings of all commands as YAML, and configs made of a preset and the command line's options.

A preset is a YAML file of a family, a package or the user: a section per command, a line per field of its config. A
preset may extend another, ``extends: NAME``: then it has only the lines that differ, and each replaces the other's line
whole, schedules too. An option on the command line overrides the preset's line, which overrides the field's default.
Imports only modules beside the packages; never calls a command or reads other files than presets.

recipe.yaml beside this module is the learning recipe that presets of many games extend.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice, takewhile
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from pipeline import extensions
from pipeline.commands import COMMANDS, SECTIONS
from pipeline.errors import UsageError
from pipeline.options import Options
from pipeline.schedules import START, RunState, parse_schedule

MOST_BYTES, MOST_LINES, MOST_NESTED = 1 << 16, 2_000, 8  # of a preset; bundled ones have a twentieth, and 3 levels
WHOLE_NUMBERS = (int, int | None)
NUMBERS = (*WHOLE_NUMBERS, float, float | None)  # settings of these types can follow schedules; others say so

EXTENDS = "extends"  # the line beside the sections that names another preset

# What a field wants, by the first word of pydantic's error type, its bounds and its pattern.
KINDS = {"int": "a whole number", "finite": "a whole number", "float": "a number", "bool": "yes or no",
         "string": "a text", "path": "a path", "list": "a list"}  # fmt: skip
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "multiple_of": "a multiple of"}
PATTERNS = {
    r"^[A-Za-z0-9_-]+$": "letters, digits, - and _ only",
    r"^b\d{1,4}c\d{1,6}$": "bBLOCKScCHANNELS, e.g. b4c64",
}

# The beginning of a player with an argument, as in players/player_specs.py.
_PLAYER = re.compile(r"\s*([A-Za-z0-9][\w.@-]*=\s*)?(handicap:[0-9]{1,2}:\s*)?(?P<kind>[A-Za-z0-9][\w.-]*):", re.ASCII)
C = TypeVar("C", bound=Options)


def is_engine(text: str) -> bool:
    """Whether an option's text may name a player that runs another program: one of a kind with an argument.

    Imports no package.
    """
    found = _PLAYER.match(text)
    return found is not None and extensions.named(extensions.PLAYERS, found["kind"]) is not None


@cache
def _files() -> dict[str, Path]:
    """The presets of families and installed packages, by name. Imports no installed package."""
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
    """The file of a preset, given by its name or as a path to a YAML file. It may not exist."""
    return Path(name) if name.endswith((".yaml", ".yml")) else _files().get(name, Path(f"{name}.yaml"))


def read_preset(name: str) -> dict[str, dict[str, Any]]:
    """The sections of a preset, given by its name or as a path to a YAML file, with the lines that it extends.

    Raises UsageError if it doesn't exist or isn't YAML, for an unknown section, an unknown line or an invalid value,
    or if it extends itself or an unknown preset.
    All sections are checked: a mistake in the settings of training must not wait until self-play has ended.
    """
    return _merged(_chain(name))


def _merged(chain: list[tuple[Path, dict[str, dict[str, Any]]]]) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for _, own in reversed(chain):
        for stage, lines in own.items():
            sections.setdefault(stage, {}).update(lines)
    return sections


def _chain(name: str) -> list[tuple[Path, dict[str, dict[str, Any]]]]:
    """The files of a preset and of those that it extends, itself first, each with its own sections.

    Raises UsageError as read_preset does.
    """
    path = preset_path(name)
    if not os.path.isfile(path):  # is_file() raises for a name that is too long
        raise UsageError(
            f"preset {name!r}: no such preset; known: {', '.join(preset_names())}; or give a path to a .yaml file"
        )
    base, sections = _own_sections(path, name)
    chain = [(path, sections)]
    while base is not None:
        where = f"preset {path}: extends {base!r}"
        path = path.parent / base if base.endswith((".yaml", ".yml")) else preset_path(base)
        if not os.path.isfile(path):
            raise UsageError(
                f"{where}: no such preset; known: {', '.join(preset_names())}; or name a .yaml file by its path from "
                "this one"
            )
        for number, (known, _) in enumerate(chain):
            if path.samefile(known):
                through = ", ".join(other.name for other, _ in chain[number + 1 :])
                itself = f"extends itself{through and f', through {through}'}"
                raise UsageError(f"preset {known}: it {itself}; wanted a last one without 'extends'")
        base, sections = _own_sections(path, str(path))
        chain.append((path, sections))
    return chain


def _own_sections(path: Path, name: str) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """The preset that a file extends, and its own sections, checked. name: in messages about values."""
    sections = _load(path) or {}
    base = sections.pop(EXTENDS, None) if isinstance(sections, dict) else None
    if base is not None and not isinstance(base, str):
        raise UsageError(f"preset {path}: {EXTENDS}: found {base!r}; wanted a preset's name, or a path to a .yaml file")
    if not isinstance(sections, dict) or not all(isinstance(lines, dict) for lines in sections.values()):
        raise UsageError(f"preset {path}: wanted sections {', '.join(SECTIONS)}, each with lines 'name: value'")
    for stage, lines in sections.items():
        if stage not in SECTIONS:
            wanted = f"one of {', '.join(SECTIONS)}, or {EXTENDS}"
            raise UsageError(f"preset {path}: unknown section {stage!r}; wanted {wanted}")
        kind, plain = COMMANDS[stage].config, dict(lines)
        known = kind.model_fields
        for field, value in lines.items():
            if field not in known:
                raise UsageError(f"preset {path}, {stage}: unknown line {field!r}; known: {', '.join(known)}")
            if isinstance(value, list) and not isinstance(known[field].default, list):
                _check_schedule(kind, field, plain.pop(field), f"preset {path}, {stage}, {field}")
        _validated(kind, stage, name, plain, {})
    return base, sections


class _Loader(yaml.SafeLoader):
    """YAML whose merged mappings (``<<``) can't grow without bound and whose mappings have no key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = key.tag, key.value
                if name in seen:
                    raise ValueError(f"line {key.start_mark.line + 1}: {key.value!r} appears a second time")
                seen.add(name)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_LINES:
            raise ValueError(f"a mapping of more than {MOST_LINES} lines")


def _load(path: Path) -> Any:
    """The YAML in a file. Its depth and size are bounded, aliases expanded. Raises UsageError."""
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


def _check_schedule(kind: type[Options], field: str, found: list[Any], where: str) -> None:
    """Raises UsageError unless a line's list is a schedule and all its values are valid."""
    if field not in scheduled_lines(kind, {field: found}):
        raise UsageError(f"{where}: found a list; wanted one value: this setting can't follow a schedule")
    schedule = parse_schedule(found, where)
    for value in (*schedule.values, *(start for start in schedule.starts if start is not None)):
        of_setting = kind.model_fields[field].annotation
        if value is None or (isinstance(value, bool) and of_setting is not bool):
            wanted = "a number" if of_setting in NUMBERS else "true or false" if of_setting is bool else "a text"
            raise UsageError(f"{where}: found the value {value!r}; wanted {wanted}")
        try:
            kind(**{field: value})
        except ValidationError as error:
            raise UsageError(f"{where}: {_problem(kind, error.errors()[0])}") from error


def scheduled_lines(kind: type[Options], lines: Mapping[str, Any]) -> list[str]:
    """The lines of a section that are schedules: lists, of settings that may follow one."""

    def may(field: str) -> bool:
        info = kind.model_fields[field]
        extra = info.json_schema_extra
        return info.annotation in NUMBERS or (isinstance(extra, dict) and bool(extra.get("scheduled")))

    return [field for field, value in lines.items() if isinstance(value, list) and may(field)]


def scheduled_values(name: str, stage: str, field: str) -> list[Any]:
    """All values that a preset's line ever has. Raises UsageError as read_preset() does."""
    found = read_preset(name).get(stage, {}).get(field, [])
    return list(parse_schedule(found, field).values) if isinstance(found, list) and found else []


def lines_at(kind: type[Options], lines: Mapping[str, Any], run_state: RunState) -> dict[str, Any]:
    """A section's lines with each schedule replaced by its value at run_state, rounded for whole-number settings.

    Raises UsageError like Schedule.at.
    """
    values = {}
    for field in scheduled_lines(kind, lines):
        try:
            values[field] = parse_schedule(lines[field], field).at(run_state)
        except UsageError as error:
            raise UsageError(f"{field.replace('_', ' ')} {error}") from error
        info = kind.model_fields[field]
        if info.annotation in WHOLE_NUMBERS and isinstance(values[field], float):
            step = next((fact.multiple_of for fact in info.metadata if hasattr(fact, "multiple_of")), 1)
            values[field] = step * round(values[field] / step)
    return {**lines, **values}


def make_config(
    kind: type[C],
    stage: str,
    preset: str | None = None,
    run_state_of: Callable[[Options], RunState] = lambda _: START,
    /,  # bench has an option of its own that is called preset
    **options: Any,
) -> C:
    """The config of one command from a preset's section and the options given (None = not given).

    run_state_of: from a config to the state of its run; called only if there are schedules, with a config in which all
    are at their start.
    Raises UsageError that names the option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lines = {**(read_preset(preset).get(stage, {}) if preset is not None else {}), **given}
    _refuse_engines(kind, stage, preset, lines, given)
    config = _validated(kind, stage, preset, lines_at(kind, lines, START), given)
    if scheduled_lines(kind, lines):
        config = _validated(kind, stage, preset, lines_at(kind, lines, run_state_of(config)), given)
    return config


def _refuse_engines(
    kind: type[Options], stage: str, preset: str | None, lines: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Raises UsageError if a preset would run an engine that the command line neither names nor allows.

    An option may list players with commas, as --opponents does.
    """
    where = f"{stage} (preset {preset})"
    if "allow_engines" in lines and "allow_engines" not in given:
        raise UsageError(f"{where}: found allow_engines; wanted it on the command line alone: --allow-engines")
    if given.get("allow_engines"):
        return
    for name, value in lines.items():
        for entry in value if isinstance(value, list) else [value]:
            text = entry.get("value") if isinstance(entry, dict) else entry  # an entry of a schedule
            if name in (*given, "game") or not isinstance(text, str):
                continue
            if engine := next((part.strip() for part in text.split(",") if is_engine(part)), ""):
                option = name.replace("_", "-")
                allowed = "allow_engines" in kind.model_fields
                wanted = "--allow-engines to run it" if allowed else f"--{option} on the command line, not in a preset"
                raise UsageError(f"{where}: --{option} would run the engine {engine!r}; wanted {wanted}")


def _validated(kind: type[C], stage: str, preset: str | None, values: dict[str, Any], options: dict[str, Any]) -> C:
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        option = f" {_as_typed(kind, field)}" if field else ""
        where = f" (preset {preset})" if preset and field not in options else ""
        raise UsageError(f"{stage}{option}{where}: {_problem(kind, first)}") from error


def _as_typed(kind: type[Options], field: str) -> str:
    """An option as help shows it: --batch-size, or WHAT for an argument."""
    info = kind.model_fields.get(field)
    extra = info.json_schema_extra if info else None
    is_argument = isinstance(extra, dict) and bool(extra.get("argument"))
    return field.upper() if is_argument else f"--{field.replace('_', '-')}"


def _problem(kind: type[Options], error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words."""
    field = kind.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    facts = field.metadata if field is not None else []
    bounds = [
        f"{text} {getattr(fact, name):g}" for fact in facts for name, text in BOUNDS.items() if hasattr(fact, name)
    ]
    bounds = ["even" if bound == "a multiple of 2" else bound for bound in bounds]
    wanted = ", ".join(filter(None, [KINDS.get(error["type"].partition("_")[0]), " and ".join(bounds)]))
    for pattern in (fact.pattern for fact in facts if hasattr(fact, "pattern")):
        choices = re.fullmatch(r"\^\((.+)\)\$", pattern)
        other = PATTERNS.get(pattern, f"a text that matches {pattern}")
        wanted = f"one of {choices[1].replace('|', ', ')}" if choices else other
    return f"found {error['input']!r}; wanted {wanted or error['msg']}"


# As text


def preset_headline(name: str) -> tuple[str, str, str]:
    """Purpose, needs and gains of a preset, from its first line: ``# FOR; needs …; gives …``; empty if it has none."""
    with preset_path(name).open(encoding="utf-8") as file:
        line = file.readline()
    parts = line[1:].strip().split("; ") if line.startswith("#") else []
    purpose, needs, gives = (*parts, "", "", "")[:3]
    return purpose, needs.removeprefix("needs "), gives.removeprefix("gives ")


def preset_text(name: str, run_state: RunState | None = None) -> str:
    """A preset as written, with the lines that it extends; or with its values at run_state.

    Raises UsageError as read_preset does.
    """
    chain = _chain(name)
    sections = _merged(chain)
    if run_state is None:
        if len(chain) == 1:
            return chain[0][0].read_text(encoding="utf-8").rstrip("\n")
        text = _merged_text([path for path, _ in chain])
        if _is_yaml_of(text, sections):
            return text
    effective = {
        stage: lines if run_state is None
        else lines_at(COMMANDS[stage].config, lines, START if stage == "init" else run_state)
        for stage, lines in sections.items()
    }  # fmt: skip
    return yaml.safe_dump(effective, sort_keys=False).rstrip("\n")


def _merged_text(files: list[Path]) -> str:
    """The lines of a preset and then of those that it extends, with their comments, section by section."""
    texts = [path.read_text(encoding="utf-8") for path in files]
    blocks = [_blocks(text) for text in texts]
    comments = list(takewhile(lambda line: line.startswith("#"), texts[0].splitlines()))
    lines = [
        *comments,
        f"# extends {', '.join(path.stem for path in files[1:])}; its lines follow those of this preset",
    ]
    for stage in SECTIONS:
        seen: set[str] = set()
        shown = []
        for path, own in zip(files, blocks, strict=True):
            new = {option: text for option, text in own.get(stage, {}).items() if option not in seen}
            seen |= new.keys()
            if new and path != files[0]:
                shown.append(f"  # of {path.stem}:")
            shown += new.values()
        lines += [f"{stage}:", *shown, ""] if shown else []
    return "\n".join(lines).rstrip("\n")


def _blocks(text: str) -> dict[str, dict[str, str]]:
    """For each section the text of each line as written, with its comments and the entries of its schedule."""
    found = {}
    for section in re.split(r"^(?=\w)", text, flags=re.MULTILINE):
        if first := re.search(r"^( +)\w", section, re.MULTILINE):
            lines = re.split(rf"^(?={first[1]}\w)", section, flags=re.MULTILINE)[1:]
            blocks = {line.partition(":")[0].strip(): indent(dedent(line).rstrip(), "  ") for line in lines}
            found[section.partition(":")[0]] = blocks
    return found


def _is_yaml_of(text: str, sections: Mapping[str, Any]) -> bool:
    """False where lines can't be copied one by one: sections in braces, anchors, unusual layouts."""
    try:
        return yaml.load(text, _Loader) == sections
    except (yaml.YAMLError, ValueError):
        return False
