"""The server's HTTP: the page's files, and JSON about tables.

    GET   /                              the page; /common.js, /page.js, /stones.js, /shogi.js, /page.css, /icon.svg
    GET   /api/options                   games, opponents and limits to choose from
    POST  /api/games                     begin a game (NewGame) → the table's view
    POST  /api/records?game=…            begin with a record, the request's body: SGF, or of shogi KIF, CSA, USI, SFEN
    GET   /api/games/ID?ply=N            the view: the game, and the position before move N
    GET   /api/games/ID/SUFFIX           the game as a file: sgf; of shogi kifu, csa, usi
    GET   /gammon                        the page of backgammon; /gammon.js, /gammon.css
    GET   /api/gammon                    its games and opponents
    POST  /api/gammon                    begin a game (NewGammon) → its view, see gammon.py
    GET   /api/gammon/ID, …/ID/mat, …/ID/sgf
    POST  /api/gammon/ID/VERB            step, move, reply, undo, resign → the view afterwards
    POST  /api/games/ID/VERB             play, reply, judge, undo, rewind, resign, analyse → the view afterwards

A view is described in table.py. Every error is {"error": one sentence} with HTTP's number for it. What takes time runs
in threads, so that the server goes on answering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.errors import MuGoError, UsageError
from pipeline.families.backgammon.page.table import COLOURS, NO_MODELS, GammonTable, Models, opponents
from pipeline.families.backgammon.page.table import GAMES as GAMMON_GAMES
from pipeline.families.backgammon.page.table import NOBODY as GAMMON_NOBODY
from pipeline.families.go.game import Go
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.page.table import ShogiTable, beginning_at, beginning_of_record
from pipeline.games.contract import Game
from pipeline.games.sgf import AnotherGame, is_sgf, read_sgf
from pipeline.games.specs import parse_game
from pipeline.games.stones import BoardGame
from pipeline.play.config import MOST_SERVED_READOUTS as MOST_READOUTS
from pipeline.play.page.analyst import Analyst, Refused
from pipeline.play.page.limits import RequestCheck, read_body
from pipeline.play.page.stones import SGF, StonesTable
from pipeline.play.page.table import HEURISTIC, NOBODY, RANDOM, Beginning, Table, Tables

# Games to play without a model, behind those of the models.
GAMES = ("go:9", "go:13", "go:19", "gomoku:15", "othello:8", "shogi", "shogi:5", "connect4", "tictactoe")
LONGEST_PATH = 4096  # which a model may be called by
FILES = {
    "/": ("page.html", "text/html"),
    "/common.js": ("common.js", "text/javascript"),
    "/page.js": ("page.js", "text/javascript"),
    "/stones.js": ("stones.js", "text/javascript"),
    "/shogi.js": ("../../families/shogi/page/shogi.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/gammon": ("../../families/backgammon/page/gammon.html", "text/html"),
    "/gammon.js": ("../../families/backgammon/page/gammon.js", "text/javascript"),
    "/gammon.css": ("../../families/backgammon/page/gammon.css", "text/css"),
}

Wanted = TypeVar("Wanted", bound=BaseModel)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NewGame(Body):
    """human: whose stones the person plays, 0 the first player; None: both sides. readouts: of the opponent.

    sfen: where a game of shogi begins; "" as usual.
    """

    game: str = Field(max_length=100)
    opponent: str = Field(max_length=LONGEST_PATH)
    human: int | None = Field(0, ge=0, le=1)
    readouts: int = Field(ge=0, le=MOST_READOUTS)
    sfen: str = Field("", max_length=300)


class NewRecord(Body):
    game: str = Field("", max_length=100)  # which to try first
    readouts: int = Field(0, ge=0, le=MOST_READOUTS)


class At(Body):
    """ply: how many moves the page knows; for views and analyses, the position to look at."""

    ply: int = Field(ge=0, le=100_000)


class Look(Body):
    ply: int | None = Field(None, ge=0, le=100_000)


class Move(At):
    move: str = Field(max_length=10)


class NewGammon(Body):
    """human: 0 moves first; the opponent nobody: both sides."""

    game: str = Field("backgammon", max_length=100)
    opponent: str = Field(max_length=LONGEST_PATH)
    human: int = Field(0, ge=0, le=1)


class Step(At):
    source: int = Field(ge=0, le=25)
    target: int = Field(ge=0, le=25)


class Turn(At):
    move: str = Field(max_length=80)


GAMMON_VERBS: Mapping[str, tuple[type[At], Callable[[GammonTable, Any], None]]] = {
    "step": (Step, lambda table, body: table.step(body.source, body.target, body.ply)),
    "move": (Turn, lambda table, body: table.move(body.move, body.ply)),
    "reply": (At, lambda table, body: table.reply(body.ply)),
    "undo": (At, lambda table, body: table.undo(body.ply)),
    "resign": (At, lambda table, body: table.resign(body.ply)),
}


class Rewind(At):
    to: int = Field(ge=0, le=100_000)


class Analysis(At):
    readouts: int = Field(ge=0, le=MOST_READOUTS)


VERBS: Mapping[str, tuple[type[At], Callable[[Table, Any], None]]] = {
    "play": (Move, lambda table, body: table.play(body.move, body.ply)),
    "reply": (At, lambda table, body: table.reply(body.ply)),
    "judge": (At, lambda table, body: table.judge(body.ply)),
    "undo": (At, lambda table, body: table.undo(body.ply)),
    "rewind": (Rewind, lambda table, body: table.rewind(body.ply, body.to)),
    "resign": (At, lambda table, body: table.resign(body.ply)),
    "analyse": (Analysis, lambda table, body: table.analyse(body.ply, body.readouts)),
}


class Lobby:
    """The models at this server, the games that can be played, and the tables."""

    def __init__(self, analysts: list[Analyst], readouts: int, dice_models: Models = NO_MODELS) -> None:
        """readouts: of an opponent, unless the page says otherwise. dice_models: those of games with dice."""
        self.dice_models = dice_models
        self.readouts = min(readouts, MOST_READOUTS)
        self.analysts = {analyst.name: analyst for analyst in analysts}
        specs = [*(spec for analyst in analysts for spec in analyst.specs), *GAMES]
        self.games: dict[str, Game] = {game.spec: game for game in map(parse_game, specs)}
        self.tables: Tables[Table] = Tables()
        self.gammon_tables: Tables[GammonTable] = Tables()

    def options(self) -> dict[str, Any]:
        return {
            "games": [
                {
                    "spec": spec,
                    "opponents": [*self._models(spec), *self._built_ins(game), NOBODY],
                    "colours": game.colours,
                }
                for spec, game in self.games.items()
            ],
            "readouts": self.readouts,
            "most_readouts": MOST_READOUTS,
        }

    def new_game(self, body: NewGame) -> Table:
        game = self.games.get(body.game)
        if game is None:
            raise Refused(400, f"game: found {body.game[:40]!r}; wanted one of {', '.join(self.games)}")
        models = self._models(body.game)
        known = [*models, *self._built_ins(game), NOBODY]
        if body.opponent not in known:
            raise Refused(400, f"opponent: found {body.opponent[:40]!r}; wanted one of {', '.join(known)}")
        human = None if body.opponent == NOBODY else body.human
        if human is None and body.opponent != NOBODY:
            raise Refused(400, f"human: an opponent plays one side, so say which is yours: 0 or 1, or choose {NOBODY}")
        begin = None
        if body.sfen.strip():
            if not isinstance(game, Shogi):
                raise Refused(400, f"sfen: found one for {body.game}; only games of shogi begin at an SFEN")
            begin = beginning_at(game, body.sfen.strip().removeprefix("position ").removeprefix("sfen "))
        return self._opened(game, body.opponent, human, body.readouts, begin)

    def new_record(self, data: bytes, body: NewRecord) -> Table:
        """A table of this record, of the first game that it fits, with the record's komi.

        What is wrong with a record is said of the first game that it is of, else of the one that the page shows.
        """
        specs = sorted(self.games, key=lambda spec: spec != body.game)
        problems = []
        for game in (self.games[spec] for spec in specs):
            if game.sgf is None:
                continue
            try:
                record = read_sgf(data, game)
            except MuGoError as error:
                problems.append(error)
                continue
            game = _with_komi(game, record.komi)
            start = None if record.start is None else game.adopt(record.start)
            begin = Beginning(start, record.moves, (record.black, record.white))
            return self._opened(game, NOBODY, None, body.readouts, begin, self._nearest(game))
        if is_sgf(data):
            raise Refused(400, str(min(problems, key=lambda problem: isinstance(problem, AnotherGame))))
        try:
            size, begin = beginning_of_record(data)
        except MuGoError as error:
            raise Refused(400, f"{problems[0]}; nor is it a record of shogi: {error}") from error
        found = (game for game in map(self.games.__getitem__, specs) if isinstance(game, Shogi) and game.size == size)
        return self._opened(next(found), NOBODY, None, body.readouts, begin)

    def _opened(
        self,
        game: Game,
        opponent: str,
        human: int | None,
        readouts: int,
        begin: Beginning | None,
        adviser: Analyst | None = None,
    ) -> Table:
        """adviser: where no model here plays the very game."""
        if models := self._models(game.spec):
            adviser = self.analysts[opponent if opponent in models else models[0]]
        assert isinstance(game, BoardGame | Shogi)
        kind = ShogiTable if isinstance(game, Shogi) else StonesTable
        table = kind(game, opponent, human, readouts, adviser, begin)
        self.tables.add(table)
        return table

    def _models(self, spec: str) -> list[str]:
        return [name for name, analyst in self.analysts.items() if spec in analyst.specs]

    def _nearest(self, game: Game) -> Analyst | None:
        """A model that plays Go on this board with any komi, or else with another; None where none does."""
        if not isinstance(game, Go):
            return None
        known = [
            analyst
            for analyst in self.analysts.values()
            if any(isinstance(own := self.games[spec], Go) and own.size == game.size for spec in analyst.specs)
        ]
        return min(known, key=lambda analyst: analyst.komi_in(game) != game.gtp_komi, default=None)

    @staticmethod
    def _built_ins(game: Game) -> list[str]:
        return [RANDOM] if game.heuristic() is None else [HEURISTIC, RANDOM]


def _with_komi(game: Game, komi: float | None) -> Game:
    """The game of a record: with its komi, where the record gives one that is played with."""
    try:
        return game if komi is None else game.with_komi(komi)
    except UsageError:
        return game


def make_app(lobby: Lobby) -> Starlette:
    files = {path: ((Path(__file__).parent / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}

    async def file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind)

    async def options(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(lobby.options))

    async def new_game(request: Request) -> Response:
        body = parsed(NewGame, await read_body(request))
        return await seen(lambda: lobby.new_game(body))

    async def new_record(request: Request) -> Response:
        wanted, data = asked(NewRecord, request), await read_body(request)
        return await seen(lambda: lobby.new_record(data, wanted))

    async def look(request: Request) -> Response:
        wanted = asked(Look, request)
        return await seen(lambda: lobby.tables.find(request.path_params["id"]), wanted.ply)

    async def gammon_options(request: Request) -> Response:
        games = [{"spec": spec, "opponents": _against(spec), "colours": COLOURS} for spec in GAMMON_GAMES]
        return JSONResponse({"games": games})

    def _against(spec: str) -> list[str]:
        return [*opponents(spec, lobby.dice_models), GAMMON_NOBODY]

    async def new_gammon(request: Request) -> Response:
        body = parsed(NewGammon, await read_body(request))

        def begun() -> GammonTable:
            table = GammonTable(body.game, body.opponent, body.human, models=lobby.dice_models)
            lobby.gammon_tables.add(table)
            return table

        return await gammon_seen(begun)

    async def gammon_look(request: Request) -> Response:
        return await gammon_seen(lambda: lobby.gammon_tables.find(request.path_params["id"]))

    async def gammon_record(request: Request) -> Response:
        table, as_mat = lobby.gammon_tables.find(request.path_params["id"]), request.url.path.endswith("/mat")
        name, text = await run_in_threadpool(lambda: table.record(as_mat))
        named = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="text/plain", headers=named)

    async def asked_of_table(request: Request, verbs: Any, tables: Any) -> tuple[Callable[[], Any], Any]:
        """What the verb in the address does to its table, to be called elsewhere: it gives the table. And the body."""
        name = request.path_params["verb"]
        if name not in verbs:
            raise HTTPException(404, f"found {name[:20]!r}; wanted one of {', '.join(verbs)}")
        kind, verb = verbs[name]
        body = parsed(kind, await read_body(request))

        def acted() -> Any:
            table = tables.find(request.path_params["id"])
            verb(table, body)
            return table

        return acted, body

    async def gammon_act(request: Request) -> Response:
        acted, _ = await asked_of_table(request, GAMMON_VERBS, lobby.gammon_tables)
        return await gammon_seen(acted)

    async def gammon_seen(find: Callable[[], GammonTable]) -> Response:
        return JSONResponse(await run_in_threadpool(lambda: find().view()))

    async def record(request: Request) -> Response:
        name, suffix = request.path_params["id"], request.path_params["suffix"]
        text = await run_in_threadpool(lambda: lobby.tables.find(name).record(suffix))
        named = {"content-disposition": f'attachment; filename="game.{suffix}"'}
        kind = "application/x-go-sgf" if suffix == SGF else "text/plain"
        return Response(text, media_type=kind, headers=named)

    async def act(request: Request) -> Response:
        acted, body = await asked_of_table(request, VERBS, lobby.tables)
        return await seen(acted, body.ply if request.path_params["verb"] == "analyse" else None)

    async def seen(find: Callable[[], Table], ply: int | None = None) -> Response:
        return JSONResponse(await run_in_threadpool(lambda: find().view(ply)))

    return Starlette(
        routes=[
            *(Route(path, file) for path in FILES),
            Route("/api/options", options),
            Route("/api/gammon", gammon_options),
            Route("/api/gammon", new_gammon, methods=["POST"]),
            Route("/api/gammon/{id}", gammon_look),
            Route("/api/gammon/{id}/mat", gammon_record),
            Route("/api/gammon/{id}/sgf", gammon_record),
            Route("/api/gammon/{id}/{verb}", gammon_act, methods=["POST"]),
            Route("/api/games", new_game, methods=["POST"]),
            Route("/api/records", new_record, methods=["POST"]),
            Route("/api/games/{id}", look),
            Route("/api/games/{id}/{suffix}", record, methods=["GET"]),
            Route("/api/games/{id}/{verb}", act, methods=["POST"]),
        ],
        middleware=[Middleware(RequestCheck)],
        exception_handlers={
            HTTPException: _http_error,
            MuGoError: _foreseen,
            ClientDisconnect: _gone,
            Exception: _bug,
        },
    )


def parsed(kind: type[Wanted], body: bytes) -> Wanted:
    """Raises HTTPException 400 that says in one sentence what is wrong."""
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise HTTPException(400, _sentence(error)) from None


def asked(kind: type[Wanted], request: Request) -> Wanted:
    """The same from the address's query."""
    try:
        return kind.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise HTTPException(400, _sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:20] for part in first["loc"][:3])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _failed(status: int, problem: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": problem}, status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _failed(error.status_code, error.detail, error.headers)


async def _foreseen(request: Request, error: Exception) -> Response:
    return _failed(error.status if isinstance(error, Refused) else 400, str(error))


async def _gone(request: Request, error: Exception) -> Response:
    return _failed(400, "the request ended in the middle")


async def _bug(request: Request, error: Exception) -> Response:
    return _failed(500, "this is a bug; the terminal that runs the server shows where")
