"""Entry points: found without importing anything; every fault names the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.extensions import find, load, refuse

GROUP = "mugo.tests"


def offer(folder: Path, package: str, line: str) -> None:
    """The metadata of an installed package that offers one thing."""
    info = folder / f"{package}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{line}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_finding_imports_nothing_and_loading_gives_the_thing(site: Path) -> None:
    (site / "offered_module.py").write_text("THING = 7\n")
    offer(site, "one", "thing = offered_module:THING")
    points = find(GROUP)
    assert list(points) == ["thing"]
    assert "offered_module" not in sys.modules
    assert load(points["thing"]) == 7
    sys.modules.pop("offered_module")


def test_nothing_is_found_where_nothing_is_offered() -> None:
    assert find(GROUP) == {}


def test_two_packages_under_one_name_are_refused(site: Path) -> None:
    offer(site, "one", "thing = first:THING")
    offer(site, "two", "thing = second:THING")
    with pytest.raises(UsageError, match=r"'thing' of mugo\.tests is offered by one 1\.2 and two 1\.2; uninstall one"):
        find(GROUP)


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise OSError('no disk')", r"OSError: no disk"), ("", r"AttributeError"), ("1 +", "SyntaxError")],
)
def test_what_fails_to_import_names_the_package(site: Path, text: str, said: str) -> None:
    (site / "broken_module.py").write_text(text)
    offer(site, "one", "thing = broken_module:THING")
    with pytest.raises(UsageError, match=rf"in package one 1\.2: importing 'broken_module:THING' failed \({said}"):
        load(find(GROUP)["thing"])
    sys.modules.pop("broken_module", None)


def test_the_wrong_thing_names_the_package_and_what_was_wanted(site: Path) -> None:
    offer(site, "one", "thing = somewhere:THING")
    error = refuse(find(GROUP)["thing"], 7, "a Game")
    assert str(error).endswith("in package one 1.2: 'somewhere:THING' gave 7; wanted a Game")
