"""The extensions of ``mugo.pages``: ``BoardPage`` and ``OwnPage``.

    [project.entry-points."mugo.pages"]
    nim = "mugo_nim.page:NimPage"

Both are subclasses of Page, made once when the server starts. The entry point's name is the page's name: its files are
served at /pages/nim/FILE. ``serve`` imports every installed package that offers a page. A page that can't be loaded is
left out, with one line that names its package.

A ``BoardPage`` adds a board to the main page: a script that draws it, and a table that says what is on it. Games of
stones need neither: the main page shows every BoardGame of games/stones.py as its ``look`` says. A subclass of
StonesPage (stones_page.py) offers such games even without a model; its script may give their cells another shape: see
stones.js and docs/add-a-game.md. Games of a board page have a fixed list of actions (Game); their models play, advise
and analyse there.

An ``OwnPage`` is for games with another interface, such as dice: its own HTML at /nim, linked from the main page, and
its own JSON at /api/nim. A model of such a game is an opponent through its method's player.
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

from pipeline.games.capabilities import AllBoards, seen_by
from pipeline.games.contract import AnyGame, Game
from pipeline.games.sgf import AnotherGame
from pipeline.games.specs import parse_game
from pipeline.play.page.later import LoadedLater
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
    """What both kinds have in common.

    files  names of files beside the module that defines the class, of the kinds in MEDIA_TYPES. The main page loads a
           board page's scripts and style sheets; an own page's HTML loads what it needs
    specs  the games that are offered even without a model
    """

    files: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def plays(self, game: AnyGame) -> bool:
        """Whether this page shows the game. Bundled pages are asked first, the page of stones last."""

    def content(self, file: str) -> bytes:
        return (Path(str(sys.modules[type(self).__module__].__file__)).parent / file).read_bytes()


@dataclass(frozen=True)
class BeginningField:
    """A text field in the dialog for a new game, for a beginning other than the usual one.

    what   the label after "Begin at", such as "a FEN"      placeholder  shown while the field is empty
    parse  (game, text, not empty) → Beginning; raises MuGoError if the text is wrong
    """

    what: str
    parse: Callable[[Any, str], Beginning]
    placeholder: str = "as usual"


class BoardPage(Page):
    """A board on the main page.

    table         the server's side of a game; its ``board`` is the name that the script registers
    beginning     None: its games always begin as usual
    record_names  the button's name for each file that the table writes, by suffix: {"sgf": "SGF"}
    opens         suffixes of the records that read() knows: (".sgf",)

    Scripts are JavaScript modules, each with names of its own. One of them registers the board, an object with the
    functions that page.js lists:

        boards.nim = { build() {…}, draw() {…}, … };
    """

    table: type[Table]
    beginning: BeginningField | None = None
    record_names: Mapping[str, str] = MappingProxyType({})
    opens: tuple[str, ...] = ()

    def offered(self, game: Game) -> list[str]:
        """The specs of the games that a model of this game plays on the page; of all boards, those in `specs`."""
        boards = self.specs if isinstance(game, AllBoards) else ()
        return [spec for spec in boards if seen_by(game, parse_game(spec)) is not None] or [game.spec]

    def read(self, data: bytes, games: Sequence[Game]) -> tuple[Game, Beginning]:
        """(the game of a record, what it contains). games: this page's games that are offered, the preferred one first.

        Raises AnotherGame if the record belongs to another page or to none of these games, MuGoError if it is damaged.
        """
        raise AnotherGame(f"the page {self.name} reads no records")


class Body(BaseModel):
    """A request's JSON. Fields that the subclass doesn't have are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class At(Body):
    """ply: the number of moves that the page knows."""

    ply: int = Field(ge=0, le=100_000)


Verbs = Mapping[str, type[At]]
"""The methods of a table that a page may call, and the type of their request, whose fields are the arguments.

A method raises Refused (analyst.py) if it doesn't grant the request. On the main page, it returns the ply to show
afterwards; None: the latest.
"""


@dataclass(frozen=True)
class OwnModel:
    """A model that plays on an own page.

    spec    of its game
    makes   gives a function that makes the model's player for that game. Call makes.prepare() when somebody chooses the
            model, and makes.get(), which may take a minute, only where its first move is wanted
    """

    spec: str
    makes: LoadedLater[Callable[[Any], Player]]


Models = Mapping[str, OwnModel]  # by name, the preferred one first

NO_MODELS: Models = MappingProxyType({})


class OwnTable(Protocol):
    """A game on an own page. Thread-safe: requests come from several threads."""

    id: str  # secrets.token_urlsafe, so that nobody guesses it

    def view(self) -> dict[str, Any]:
        """What the page shows, as JSON, with the id."""

    def record(self, suffix: str) -> str:
        """The game as a file's text. Raises Refused for an unknown suffix."""

    def close(self) -> None:
        """Called when the server drops the game."""


class OwnPage(Page):
    """A page of its own. Under its name, here nim, the server answers:

        GET   /nim                 its HTML, which may use /common.js and /page.css. The lines <!-- header --> and
                                   <!-- dialog --> become the header and the dialog for a new game
        GET   /api/nim             options()
        POST  /api/nim             begin a game with a body of new_game → the table's view
        GET   /api/nim/ID          the view
        GET   /api/nim/ID/SUFFIX   the game as a file
        POST  /api/nim/ID/VERB     calls one of verbs → the view afterwards

    title     of the link on the main page      html   the page's HTML, one of files
    new_game  the request for a new game        verbs  see Verbs
    """

    title: str
    html: str
    new_game: type[Body]
    verbs: ClassVar[Verbs]

    @abstractmethod
    def options(self, models: Models) -> dict[str, Any]:
        """The games and opponents to choose from. models: those that play games of this page, as in begin().

        For setUpDialog() of common.js: {"games": [{"spec", "title", "opponents": names, "colours"}, …]}, games of
        models first. The page also gets "champion", the name of the run's, or "".
        """

    @abstractmethod
    def begin(self, body: Any, models: Models) -> OwnTable:
        """A new game. body: a new_game. Raises Refused."""
