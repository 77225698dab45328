"""Groups of options: their order in --help, and what a package may add to a config."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import Field

from pipeline.options import Options, composed, panels_of


class Player(Options):
    __module__ = "pipeline.search.options"
    panel = "Player"
    of_methods = True

    depth: int = Field(1, description="Plies.")
    width: int = Field(2, description="Moves.")


class Files(Options):
    __module__ = "pipeline.matches.options"
    panel = "Files"

    folder: str = Field("a", description="Where.")


class Inherited(Options):
    seed: int = Field(0, description="Seed.")


class OfFamily(Options):
    __module__ = "pipeline.families.lines.options"
    panel = "Lines"

    length: int = Field(3, description="In a row.")


class OfPackage(Options):
    __module__ = "mugo_other.options"
    panel = "Other"

    extra: int = Field(1, description="More.")


class Config(OfPackage, OfFamily, Player, Files, Inherited):
    leading = ("games", "seed")

    network: str = Field("", description="Who.")
    games: int = Field(1, description="How many.")
    depth: int = Field(4, description="Its own default, in the player's panel.")


def test_everyday_options_come_first_then_panels_of_every_method_of_some_of_families_and_of_packages() -> None:
    assert list(panels_of(Config).items()) == [
        ("", ["games", "seed", "network"]),  # leading, then the config's own, then inherited
        ("Files", ["folder"]),
        ("Player", ["depth", "width"]),
        ("Lines", ["length"]),
        ("Other", ["extra"]),
    ]


MODULE = """
from pydantic import Field
from pipeline.options import Options

class Good(Options):
    panel = "Good"
    good: int = Field(1, description="Good.")

class Everyday(Options):
    bad: int = Field(1, description="Among the everyday options of every command.")
"""


def test_a_package_adds_groups_with_a_panel_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "offered_options.py").write_text(MODULE)
    info = tmp_path / "one-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one\nVersion: 1.2\n")
    lines = "[mugo.options]\nhere.good = offered_options:Good\nhere.bad = offered_options:Everyday\n"
    lines += "dotless = offered_options:Good\n"
    (info / "entry_points.txt").write_text(lines)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = composed("here")(Files)
    sys.modules.pop("offered_options")
    assert panels_of(made) == {"Files": ["folder"], "Good": ["good"]}
    said = capsys.readouterr().err
    assert said.count("'dotless' of mugo.options in package one 1.2: wanted a name COMMAND.OWNER, ") == 1
    assert "'here.bad' of mugo.options in package one 1.2" in said and "with a panel; its options are left out" in said
