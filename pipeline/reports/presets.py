"""What ``python main.py presets`` prints: the table of ours, or one of them."""

from __future__ import annotations

import yaml

from pipeline.config import CONFIGS
from pipeline.presets import lines_at, preset_names, preset_path, read_preset
from pipeline.schedules import START, RunState

HEADINGS = ("preset", "for", "needs", "gives")


def presets_table() -> str:
    """A line per preset that comes with MuGo."""
    rows = [HEADINGS, *((name, *preset_headline(name)) for name in preset_names())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def preset_headline(name: str) -> tuple[str, str, str]:
    """What one of our presets is for, what it needs and what it gives: its first line, ``# FOR; needs …; gives …``."""
    with preset_path(name).open(encoding="utf-8") as file:
        purpose, needs, gives = file.readline().removeprefix("#").strip().split("; ")
    return purpose, needs.removeprefix("needs "), gives.removeprefix("gives ")


def preset_text(name: str, run_state: RunState | None = None) -> str:
    """A preset as it was written, or with the values that count at a moment. Raises UsageError like read_preset."""
    sections = read_preset(name)
    if run_state is None:
        return preset_path(name).read_text(encoding="utf-8").rstrip("\n")
    effective = {
        stage: lines_at(CONFIGS[stage], lines, START if stage == "init" else run_state)
        for stage, lines in sections.items()
    }
    return yaml.safe_dump(effective, sort_keys=False).rstrip("\n")
