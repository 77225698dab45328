"""The documents: every relative link leads somewhere; README and index lead to every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
LOGS = sorted((ROOT / "docs" / "log").glob("*.md"))
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What GitHub makes of a page's headings, the second of two equal ones left out."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """(file, anchor or "") of every link that isn't to another site."""
    for target in LINK.findall(prose(path)):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (path.parent / file).resolve() if file else path, anchor


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES, *LOGS], ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for file, anchor in links(page):
        assert file.exists(), f"{name_of(page)} links to {file}"
        assert not anchor or anchor in anchors(file), f"{name_of(page)} links to {name_of(file)}#{anchor}"


@pytest.mark.parametrize("start", ["README.md", "docs/README.md"])
def test_every_page_is_linked_from(start: str) -> None:
    found = {file for file, _ in links(ROOT / start)} | {ROOT / start, ROOT / "README.md", ROOT / "docs/README.md"}
    assert not set(PAGES) - found


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES, *LOGS], ids=name_of)
def test_lines_end_where_contributing_says(page: Path) -> None:
    long = [line for line in prose(page).splitlines() if len(line) > 120 and not line.startswith("|")]
    assert not long


def test_the_readme_is_short_enough_to_finish() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1300
