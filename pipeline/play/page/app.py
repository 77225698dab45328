"""The server's HTTP: the page's files, and JSON about tables.

    GET   /                              the main page; /common.js, /page.js, /stones.js, /page.css, /icon.svg
    GET   /pages/NAME/FILE               a file of the page NAME
    GET   /api/options                   games, opponents and limits to choose from
    POST  /api/games                     begin a game (NewGame) → the table's view
    POST  /api/records?game=…            begin with a record, the request's body, in any format that a page reads
    GET   /api/games/ID?ply=N            the view: the game, and the position before move N
    GET   /api/games/ID/SUFFIX           the game as a file
    POST  /api/games/ID/VERB             play, reply, judge, undo, rewind, resign, analyse, leave → the view afterwards
    GET   /NAME, /api/NAME …             a page of its own: see OwnPage in page_kinds.py

Table.view describes a view. Every error is {"error": one sentence}, with the HTTP status for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from html import escape
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.errors import MuGoError, UsageError
from pipeline.games.capabilities import Komi, komi_of
from pipeline.games.contract import Game
from pipeline.games.sgf import AnotherGame
from pipeline.games.specs import parse_game
from pipeline.play.config import MOST_SERVED_READOUTS as MOST_READOUTS
from pipeline.play.page.analyst import Analyst, Refused
from pipeline.play.page.limits import Guests, RequestCheck, read_body
from pipeline.play.page.page_kinds import MEDIA_TYPES, NO_MODELS, At, BoardPage, Body, Models, OwnPage, OwnTable, Verbs
from pipeline.play.page.pages import Pages
from pipeline.play.page.table import NOBODY, Beginning, Table, Tables

LONGEST_PATH = 4096  # models with the same name are listed by path
HERE = Path(__file__).parent
FILES = ("common.js", "page.js", "stones.js", "page.css", "icon.svg")  # each at /NAME

Wanted = TypeVar("Wanted", bound=BaseModel)


class NewGame(Body):
    """komi      None: the game's own
    human     the person's side, 0 the first player; None: both sides
    readouts  the opponent's
    beginning where the game begins, as the page's BeginningField reads it; "": as usual
    """

    game: str = Field(max_length=100)
    komi: float | None = Field(None, ge=-1000, le=1000, allow_inf_nan=False)
    opponent: str = Field(max_length=LONGEST_PATH)
    human: int | None = Field(0, ge=0, le=1)
    readouts: int = Field(ge=0, le=MOST_READOUTS)
    beginning: str = Field("", max_length=300)


class NewRecord(Body):
    game: str = Field("", max_length=100)  # the game that is shown
    readouts: int = Field(0, ge=0, le=MOST_READOUTS)


class Look(Body):
    ply: int | None = Field(None, ge=0, le=100_000)


class Move(At):
    move: str = Field(max_length=40)


class Rewind(At):
    to: int = Field(ge=0, le=100_000)


class Analysis(At):
    """ply: the position to analyse. whole: it is one of all positions of the game, which are wanted in any case."""

    readouts: int = Field(ge=0, le=MOST_READOUTS)
    whole: bool = False


VERBS: Verbs = {
    "play": Move, "reply": At, "judge": At, "undo": At, "rewind": Rewind, "resign": At, "analyse": Analysis,
    "leave": At,
}  # fmt: skip


class Lobby:
    """The models on this server, the games that can be played, and the games of the main page."""

    def __init__(
        self, pages: Pages, analysts: list[Analyst], readouts: int, models: Models = NO_MODELS, champion: str = ""
    ) -> None:
        """readouts: an opponent's, unless the page says otherwise. models: those of games with a page of their own.

        champion: the name of the run's, if it is one of the models.
        """
        self.pages, self.models, self.champion = pages, models, champion
        self.readouts = min(readouts, MOST_READOUTS)
        self.analysts = {analyst.name: analyst for analyst in analysts}
        self.games: dict[str, Game] = {}  # by spec, those of models first
        self.boards: dict[str, Game] = {}  # by board_title: the game that the page begins there
        offered = [[game.spec for game in one.boards.values()] for one in analysts]
        for game in map(parse_game, chain(*offered, *(page.specs for page in pages.boards))):
            assert isinstance(game, Game), f"{game.spec} has no fixed list of actions"
            if self._opponents(game):
                self.games[game.spec] = game
                self.boards.setdefault(game.board_title, game)
        self.tables = Tables()

    def options(self) -> dict[str, Any]:
        """games: an entry per board, those that models play first. Of an entry:

        komi       of its usual game, None without; takes_komi: whether it is also played with others
        models     by name, how those among the opponents play it: spec, komi, takes_komi
        """
        return {
            "games": [self._entry(title, game) for title, game in self.boards.items()],
            "readouts": self.readouts,
            "most_readouts": MOST_READOUTS,
            "record_names": {suffix: name for page in self.pages.boards for suffix, name in page.record_names.items()},
            "opens": sorted({suffix for page in self.pages.boards for suffix in page.opens}),
            "champion": self.champion,
        }

    def _entry(self, title: str, game: Game) -> dict[str, Any]:
        field = self._page(game).beginning
        models = {one.name: (one, one.boards[title]) for one in self.analysts.values() if title in one.boards}
        return {
            "spec": game.spec,
            "title": title,
            "komi": komi_of(game),
            "takes_komi": _with_other_komi(game) is not None,
            "models": {
                name: {"spec": own.spec, "komi": komi_of(own), "takes_komi": takes_komi(one, own)}
                for name, (one, own) in models.items()
            },
            "opponents": [*models, *self._built_ins(game), NOBODY],
            "colours": game.colours,
            "beginning": field and {"label": f"Begin at {field.what}", "placeholder": field.placeholder},
        }

    def new_game(self, body: NewGame) -> Table:
        game = self.games.get(body.game)
        if game is None:
            raise Refused(400, f"game: found {body.game[:40]!r}; wanted one of {', '.join(self.games)}")
        if isinstance(game, Komi) and body.komi is not None:
            game = game.with_komi(body.komi)
        elif body.komi:
            raise UsageError(f"{game.title}: found komi {body.komi:g}; wanted no other than its own")
        known = [*self._opponents(game), NOBODY]
        if body.opponent in self.analysts and body.opponent not in known:
            played = " and ".join(one.title for one in self.analysts[body.opponent].boards.values())
            raise Refused(400, f"{body.opponent} plays {played}, not {game.title}")
        if body.opponent not in known:
            raise Refused(400, f"opponent: found {body.opponent[:40]!r}; wanted one of {', '.join(known)}")
        human = None if body.opponent == NOBODY else body.human
        if human is None and body.opponent != NOBODY:
            raise Refused(400, f"human: found null; wanted 0 or 1, your side, or the opponent {NOBODY}")
        text, field = body.beginning.strip(), self._page(game).beginning
        if text and not field:
            raise Refused(400, f"beginning: found {text[:40]!r}; {game.title} always begins as usual; leave it empty")
        begin = field.parse(game, text) if text and field else None
        return self._opened(game, body.opponent, human, body.readouts, begin)

    def new_record(self, data: bytes, body: NewRecord) -> Table:
        """A table for the record, by the first page that can read it; the page of the game shown is asked first.

        Raises Refused with what the pages say, except those that the record doesn't belong to.
        """
        games = sorted(self.games.values(), key=lambda game: game.spec != body.game)
        problems: list[MuGoError] = []
        for page in sorted(self.pages.boards, key=lambda page: page is not self._page(games[0])):
            try:
                game, begin = page.read(data, [game for game in games if self._page(game) is page])
            except MuGoError as error:
                problems.append(error)
                continue
            return self._opened(game, NOBODY, None, body.readouts, begin)
        said = [str(problem) for problem in problems if not isinstance(problem, AnotherGame)]
        raise Refused(400, "; ".join(dict.fromkeys(said or [str(problems[0])])))

    def _opened(self, game: Game, opponent: str, human: int | None, readouts: int, begin: Beginning | None) -> Table:
        models, adviser = self._models(game), self._nearest(game)
        if models:
            adviser = self.analysts[opponent if opponent in models else models[0]]
        table = self._page(game).table(game, opponent, human, readouts, adviser, begin)
        self.tables.add(table)
        if adviser is not None and opponent == adviser.name:
            adviser.model.prepare()
        return table

    def _page(self, game: Game) -> BoardPage:
        page = self.pages.of(game)
        assert isinstance(page, BoardPage), f"{game.spec} has no board here"
        return page

    def _models(self, game: Game) -> list[str]:
        return [name for name, analyst in self.analysts.items() if analyst.plays(game)]

    def _opponents(self, game: Game) -> list[str]:
        return [*self._models(game), *self._built_ins(game)]

    def _nearest(self, game: Game) -> Analyst | None:
        """A model for this game that sees its komi, or else one for another komi; None if there is none."""
        title = game.without_move_limit().board_title
        known = [
            analyst
            for analyst in self.analysts.values()
            if any(own.without_move_limit().board_title == title for own in analyst.boards.values())
        ]
        return min(known, key=lambda analyst: analyst.komi_in(game) != komi_of(game), default=None)

    @staticmethod
    def _built_ins(game: Game) -> list[str]:
        return ["random"] if game.heuristic() is None else ["heuristic", "random"]


def _with_other_komi(game: Game) -> Game | None:
    """The game with a slightly higher komi; None if it isn't played so."""
    if not isinstance(game, Komi):
        return None
    for more in (0.5, 1.0):
        with contextlib.suppress(UsageError):
            return game.with_komi(game.komi + more)
    return None


def takes_komi(analyst: Analyst, game: Game) -> bool:
    """Whether a model plays this game with other komi, too."""
    other = _with_other_komi(game)
    return other is not None and analyst.plays(other)


def main_page(pages: Pages) -> bytes:
    """page.html with the scripts and style sheets of all boards, and links to the other pages."""
    files = [(f"/pages/{page.name}/{file}", PurePath(file).suffix) for page in pages.boards for file in page.files]
    tags = [f'<link rel="stylesheet" href="{escape(address)}">' for address, suffix in files if suffix == ".css"]
    tags += [f'<script type="module" src="{escape(address)}"></script>' for address, suffix in files if suffix == ".js"]
    html = (HERE / "page.html").read_bytes().replace(b"<!-- boards -->", "\n".join(tags).encode())
    return with_frame(html, [(f"/{page.name}", page.title) for page in pages.own])


def with_frame(html: bytes, links: Sequence[tuple[str, str]]) -> bytes:
    """A page's HTML with the header and the dialog that it asks for. links: (address, title) in the header."""
    tags = "\n    ".join(f'<a class="button" href="{address}">{escape(title)}</a>' for address, title in links)
    header = (HERE / "header.html").read_bytes().replace(b"<!-- pages -->", tags.encode())
    dialog = (HERE / "dialog.html").read_bytes()
    return html.replace(b"<!-- header -->", header.rstrip()).replace(b"<!-- dialog -->", dialog.rstrip())


def files_of(pages: Pages) -> dict[str, tuple[bytes, str]]:
    """By address: content and media type."""
    found = {f"/{name}": ((HERE / name).read_bytes(), MEDIA_TYPES[PurePath(name).suffix]) for name in FILES}
    found["/"] = main_page(pages), MEDIA_TYPES[".html"]
    for page in (*pages.boards, *pages.own):
        for file in page.files:
            found[f"/pages/{page.name}/{file}"] = page.content(file), MEDIA_TYPES[PurePath(file).suffix]
    for page in pages.own:
        found[f"/{page.name}"] = with_frame(page.content(page.html), [("/", "Board games")]), MEDIA_TYPES[".html"]
    return found


def make_app(lobby: Lobby, guests: Guests | None = None, host: str = "") -> Starlette:
    """guests, host: see RequestCheck."""
    files = files_of(lobby.pages)

    async def file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind)

    async def new_record(request: Request) -> Response:
        wanted, data = NewRecord.model_validate(dict(request.query_params)), await read_body(request)
        return await answer(lambda: lobby.new_record(data, wanted).view())

    return Starlette(
        routes=[
            *(Route(path, file) for path in files),
            options_route("/api/options", lobby.options),
            Route("/api/records", new_record, methods=["POST"]),
            *game_routes(
                "/api/games", NewGame, lobby.new_game, VERBS, lobby.tables, lambda table, ply: table.view(ply)
            ),
            *(route for page in lobby.pages.own for route in own_routes(page, lobby)),
        ],
        middleware=[Middleware(RequestCheck, guests=guests, host=host)],
        exception_handlers={
            kind: _failed for kind in (HTTPException, MuGoError, ValidationError, ClientDisconnect, Exception)
        },
    )


def own_routes(page: OwnPage, lobby: Lobby) -> list[Route]:
    path, tables = f"/api/{page.name}", Tables()
    models = {name: one for name, one in lobby.models.items() if lobby.pages.of(parse_game(one.spec)) is page}

    def begin(body: Body) -> OwnTable:
        table = page.begin(body, models)
        tables.add(table)
        return table

    return [
        options_route(path, lambda: {**page.options(models), "champion": lobby.champion}),
        *game_routes(path, page.new_game, begin, page.verbs, tables, lambda table, ply: table.view()),
    ]


def options_route(path: str, options: Callable[[], dict[str, Any]]) -> Route:
    async def get(request: Request) -> Response:
        return await answer(options)

    return Route(path, get)


def game_routes(
    path: str,
    new_game: type[Body],
    begin: Callable[[Any], Any],
    verbs: Verbs,
    tables: Tables,
    view: Callable[[Any, int | None], dict[str, Any]],
) -> list[Route]:
    """Begin a game, look at one, save one and play one, under this path. view: of a table, before move number ply."""

    async def new(request: Request) -> Response:
        body = await read(new_game, request)
        return await answer(lambda: view(begin(body), None))

    async def look(request: Request) -> Response:
        wanted = Look.model_validate(dict(request.query_params))
        return await answer(lambda: view(tables.find(request.path_params["id"]), wanted.ply))

    async def save(request: Request) -> Response:
        name, suffix = request.path_params["id"], request.path_params["suffix"]
        text = await run_in_threadpool(lambda: tables.find(name).record(suffix))
        named = {"content-disposition": f'attachment; filename="game.{suffix}"'}
        return Response(text, media_type="text/plain", headers=named)

    async def act(request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in verbs:
            raise HTTPException(404, f"found {verb[:20]!r}; wanted one of {', '.join(verbs)}")
        body = await read(verbs[verb], request)

        def acted() -> dict[str, Any]:
            table = tables.find(request.path_params["id"])
            return view(table, getattr(table, verb)(**dict(body)))

        return await answer(acted)

    return [
        Route(path, new, methods=["POST"]),
        Route(f"{path}/{{id}}", look),
        Route(f"{path}/{{id}}/{{suffix}}", save, methods=["GET"]),
        Route(f"{path}/{{id}}/{{verb}}", act, methods=["POST"]),
    ]


async def answer(work: Callable[[], Any]) -> Response:
    """The work's result as JSON. It runs in a thread, so that the server goes on answering."""
    return JSONResponse(await run_in_threadpool(work))


async def read(kind: type[Wanted], request: Request) -> Wanted:
    """The request's body. Raises ValidationError, and as read_body does."""
    return kind.model_validate_json(await read_body(request), strict=True)


async def _failed(request: Request, error: Exception) -> Response:
    status, problem, headers = 500, "this is a bug; the terminal that runs the server shows where", None
    match error:
        case HTTPException():
            status, problem, headers = error.status_code, error.detail, error.headers
        case MuGoError():
            status, problem = error.status if isinstance(error, Refused) else 400, str(error)
        case ValidationError():
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part)[:20] for part in first["loc"][:3])
            status, problem = 400, f"{where}: {first['msg']}" if where else first["msg"]
        case ClientDisconnect():
            status, problem = 400, "the request ended in the middle"
    return JSONResponse({"error": problem}, status, headers)
