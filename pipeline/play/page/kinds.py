"""What a plug-in offers at the extension point ``mugo.pages``: a ``BoardPage`` or an ``OwnPage``. For authors.

    [project.entry-points."mugo.pages"]
    nim = "mugo_nim.page:NimPage"

Both are subclasses of Page, made once when the server starts. The entry point's name is the page's: its files are
served at /pages/nim/FILE. ``serve`` imports every installed package that offers a page.

A ``BoardPage`` brings a board to the main page: a script that draws it and a table that says what is on it. Games of
stones need neither: the main page shows every BoardGame of games/stones.py, drawn by its ``look``; a subclass of
StonesPage (stones.py) offers such games where no model plays them. Games of a board page have a fixed list of actions
(Game); a model of one plays, advises and analyses there.

An ``OwnPage`` is for games that are played otherwise, with dice for example: HTML of its own at /nim, JSON of its own
at /api/nim, linked from the main page. A model of such a game is an opponent through its method's player.

A page that can't be loaded is left out, with one line that names its package.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from pipeline.games.contract import AnyGame, Game
from pipeline.games.sgf import AnotherGame
from pipeline.play.page.table import Beginning, Table
from pipeline.players.player import Player

MEDIA_TYPES: Mapping[str, str] = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""The kinds of files that a page may have, by suffix."""


class Page(ABC):
    """What both kinds have.

    files  names of files beside the module that defines the class, of the kinds in MEDIA_TYPES. A board page's scripts
           and style sheets are loaded by the main page; an own page's HTML names those that it needs
    specs  the games that are offered even where no model plays them
    """

    files: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def plays(self, game: AnyGame) -> bool:
        """Whether this page shows the game. Bundled pages are asked first, stones.py's last."""

    def content(self, file: str) -> bytes:
        return (Path(str(sys.modules[type(self).__module__].__file__)).parent / file).read_bytes()


@dataclass(frozen=True)
class BeginningField:
    """A text field of the dialog for a new game: another beginning than the usual one.

    what   it asks for, after "Begin at": "a FEN"        placeholder  shown while it is empty
    parse  (game, text, not empty) → Beginning; raises MuGoError with what is wrong
    """

    what: str
    parse: Callable[[Any, str], Beginning]
    placeholder: str = "as usual"


class BoardPage(Page):
    """A board on the main page.

    table         the server's side of a game; its ``board`` is the name that the script registers
    beginning     None: its games begin as usual
    record_names  what the button is to call each file that the table writes, by suffix: {"sgf": "SGF"}
    opens         suffixes of the records that read() knows: (".sgf",)

    Scripts are JavaScript modules: what they declare is theirs alone. One of them registers the board, an object with
    the functions that page.js lists:

        boards.nim = { build() {…}, draw() {…}, … };
    """

    table: type[Table]
    beginning: BeginningField | None = None
    record_names: Mapping[str, str] = MappingProxyType({})
    opens: tuple[str, ...] = ()

    def offered(self, game: Game) -> list[str]:
        """The specs of what a model of this game plays on the page."""
        return [game.spec]

    def read(self, data: bytes, games: Sequence[Game]) -> tuple[Game, Beginning]:
        """A record, and which of this page's games it is of; games: those that are offered, the preferred one first.

        Raises AnotherGame if it belongs to another page or to none of these games, MuGoError for what is wrong with it.
        """
        raise AnotherGame(f"the page {self.name} reads no records")


class Body(BaseModel):
    """What a request says, as JSON; other fields than the subclass's are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class At(Body):
    """ply: how many moves the page knows."""

    ply: int = Field(ge=0, le=100_000)


Verb = tuple[type[At], Callable[[Any, Any], None]]
"""What the request says, and (table, that) → what the table does. Raises Refused (analyst.py)."""

Models = Mapping[str, tuple[str, Callable[[Any], Player]]]
"""By name: the spec of the game that a model plays, and what makes its player for such a game."""

NO_MODELS: Models = MappingProxyType({})


class OwnTable(Protocol):
    """A game at an own page. Thread-safe: requests come from several threads."""

    id: str  # secrets.token_urlsafe, so that nobody guesses it

    def view(self) -> dict[str, Any]:
        """What the page shows, as JSON, with the id."""

    def record(self, suffix: str) -> str:
        """The game as a file's text. Raises Refused for a suffix that it hasn't."""

    def close(self) -> None:
        """It is kept no longer."""


class OwnPage(Page):
    """A page for itself. Under its name, here nim, the server answers:

        GET   /nim                 its HTML, which may use /common.js and /page.css
        GET   /api/nim             options()
        POST  /api/nim             begin a game with a body of new_game → the table's view
        GET   /api/nim/ID          the view
        GET   /api/nim/ID/SUFFIX   the game as a file
        POST  /api/nim/ID/VERB     one of verbs → the view afterwards

    title     of the link on the main page      html  the name of one of files
    new_game  what a new game must be told      verbs  by name
    """

    title: str
    html: str
    new_game: type[Body]
    verbs: ClassVar[Mapping[str, Verb]]

    @abstractmethod
    def options(self, models: Models) -> dict[str, Any]:
        """The games and opponents to choose from. models: those that play games of this page, here and in begin()."""

    @abstractmethod
    def begin(self, body: Any, models: Models) -> OwnTable:
        """A new game; body: one of new_game. Raises Refused."""
