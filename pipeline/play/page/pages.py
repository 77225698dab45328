"""``Pages``: the pages of the core, the families and other packages, checked once when the server starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from pathlib import PurePath

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.extensions import Extension
from pipeline.games.contract import AnyGame, Game
from pipeline.games.specs import name_in, parse_game
from pipeline.play.page.page_kinds import MEDIA_TYPES, BoardPage, OwnPage, Page
from pipeline.play.page.stones_page import StonesPage
from pipeline.play.page.table import Table

RESERVED = ("api", "pages", "stones")  # names that a plug-in's page can't have


class Pages:
    """All pages, in the order in which they are asked whether they show a game."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.boards = [page for page in pages if isinstance(page, BoardPage)]
        self.own = [page for page in pages if isinstance(page, OwnPage)]
        self._all = tuple(pages)

    def of(self, game: AnyGame) -> Page | None:
        """The page that shows a game; None if there is none."""
        return next((page for page in self._all if page.plays(game)), None)

    def can_show(self, game: AnyGame) -> bool:
        """Whether a game can be played on a page: those of board pages need a fixed list of actions."""
        page = self.of(game)
        return isinstance(page, OwnPage) or (isinstance(page, BoardPage) and isinstance(game, Game))


def has_page(game: AnyGame) -> bool:
    """Whether a page shows the game: one that comes with MuGo, or one of the package that offers the game."""
    offers = extensions.named(extensions.GAMES, name_in(game.spec))
    return load_pages(packages={offers.package} if offers else set()).can_show(game)


def load_pages(warn: Callable[[str], None] = lambda line: None, packages: Container[str] | None = None) -> Pages:
    """All pages. warn: called with one line for each installed package's page that is left out.

    packages: import no others; None: all that offer a page.
    """
    pages: list[Page] = []
    found = [
        one
        for one in extensions.find(extensions.PAGES).values()
        if not one.package or packages is None or one.package in packages
    ]
    for extension in sorted(found, key=lambda extension: (bool(extension.package), extension.name)):
        try:
            pages.append(_made(extension))
        except UsageError as error:
            if not extension.package:
                raise
            warn(f"{' '.join(str(error).split())}; left out")
    return Pages([*pages, StonesPage("stones")])


def _made(extension: Extension) -> Page:
    """Raises UsageError if it isn't a page, or if the page's files or games are missing."""
    page: Page = extensions.make(extension, Page, extension.name)
    try:
        problem = _problem(page)
    except Exception as error:
        if not extension.package:
            raise
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise UsageError(f"{extension}: {problem}")
    return page


def _problem(page: Page) -> str:
    """What is wrong with a page; "": nothing. May raise any exception if the page is broken."""
    if not isinstance(page, BoardPage | OwnPage):
        return "wanted a subclass of BoardPage or OwnPage of pipeline/play/page/page_kinds.py"
    if not re.fullmatch(r"[a-z0-9_-]+", page.name) or page.name in RESERVED:
        return f"wanted a name of lower-case letters, digits, - and _, not {', '.join(RESERVED)}"
    for file in page.files:
        page.content(file)
        if PurePath(file).suffix not in MEDIA_TYPES:
            return f"file {file!r}: wanted one of {', '.join(MEDIA_TYPES)}"
    for game in map(parse_game, page.specs):
        if not page.plays(game):
            return f"it offers {game.spec} but doesn't play it"
        if isinstance(page, BoardPage) and not isinstance(game, Game):
            return f"{game.spec} has no fixed list of actions; wanted an OwnPage for it"
    if isinstance(page, BoardPage):
        return "" if issubclass(page.table, Table) else f"table: found {page.table!r}; wanted a subclass of Table"
    if page.html not in page.files:
        return f"html: found {page.html!r}; wanted one of its files"
    wanted = page.title and page.verbs.keys() and page.new_game.model_fields
    return "" if wanted else "wanted a title, verbs and fields of new_game"
