"""``serve``: listen on this machine, and open the page in a browser.

Loads the models first, so that the page needn't wait for compilers, except when a model of all boards first plays on a
board other than its own. Ends with Ctrl-C.
"""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.play.config import EngineConfig, ServeConfig
from pipeline.play.engine import open_player, open_session
from pipeline.play.page.analyst import Analyst
from pipeline.play.page.kinds import BoardPage, Models, OwnPage
from pipeline.play.page.loading import Pages, load_pages
from pipeline.progress import SILENT, Progress
from pipeline.run import layout
from pipeline.run.models import Model, read_model, resolve_champion

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS = 100


def serve(config: ServeConfig, progress: Progress = SILENT) -> None:
    """Serve the page until Ctrl-C.

    Raises FileError for a model that can't be loaded, UsageError for one whose game has no board here, MuGoError if the
    extra isn't installed or the port is taken.
    """
    try:
        import uvicorn

        from pipeline.play.page.app import Lobby, make_app
    except ModuleNotFoundError as missing:
        raise MuGoError(
            f"serve needs {missing.name}: run pip install '.[serve]', or let ./play.sh install it"
        ) from missing

    listening = listen(config.port)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"
    stopping = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            progress.say(f"the page is at {address} (for this machine only); Ctrl-C ends the server")
            if config.browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping.set()
            await super().shutdown(sockets)

    with listening:
        pages = load_pages(progress.warn)
        models = read_models(config, pages)
        analysts = load_analysts(models, config, pages, stopping, progress)
        players = load_players(models, config, pages, progress)
        if not models:
            champion = layout.CHAMPION_LINK
            progress.say(f"no model at {champion}: only built-in opponents and no hints; name models with --model")
        app = make_app(Lobby(pages, analysts, config.readouts, players))
        Server(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                loop="asyncio",
                log_level="error",
                access_log=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=2,
            )
        ).run(sockets=[listening])


def listen(port: int) -> socket.socket:
    """A socket on this port, for this machine alone. Raises MuGoError if the port isn't available."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        problem = "is taken by another program" if taken else f"isn't available ({error.strerror})"
        raise MuGoError(f"serve: port {port} of {ADDRESS} {problem}; choose another with --port") from error
    return listening


def read_models(config: ServeConfig, pages: Pages) -> dict[str, Model]:
    """The models of the config by name; models with the same name are listed by path.

    Raises UsageError for a model whose game no page shows.
    """
    paths = config.model or ([layout.CHAMPION_LINK] if layout.CHAMPION_LINK.exists() else [])
    models = {model.path: (model, str(path)) for model, path in ((_read(path, pages), path) for path in paths)}
    bearers = Counter(model.info.name for model, _ in models.values())
    return {model.info.name if bearers[model.info.name] == 1 else path: model for model, path in models.values()}


def load_players(models: Mapping[str, Model], config: ServeConfig, pages: Pages, progress: Progress) -> Models:
    """The models of games with a page of their own, loaded: for each, a function that makes a player per game."""
    engine = EngineConfig(readouts=config.readouts, backend=config.backend)
    return {
        name: (model.info.game, open_player(model, engine, progress))
        for name, model in models.items()
        if isinstance(pages.of(parse_game(model.info.game)), OwnPage)
    }


def load_analysts(
    models: Mapping[str, Model], config: ServeConfig, pages: Pages, stopping: threading.Event, progress: Progress
) -> list[Analyst]:
    """The models of games on the main page, each ready to search."""
    analysts = []
    for name, model in models.items():
        game = parse_game(model.info.game)
        page = pages.of(game)
        if not isinstance(page, BoardPage):
            continue
        assert isinstance(game, Game)
        progress.say(f"loading {name}; the first time on this machine, kernels and network are compiled")
        engine = EngineConfig(model=model.path, readouts=config.readouts, backend=config.backend)
        session, findings = open_session(model, engine, progress)
        session.warm_up()
        analysts.append(Analyst(name, page.offered(game), session, findings, stopping))
    return analysts


def _read(path: Path, pages: Pages) -> Model:
    model = read_model(resolve_champion(path))
    game = parse_game(model.info.game)
    page = pages.of(game)
    if page is None or (isinstance(page, BoardPage) and not isinstance(game, Game)):
        raise UsageError(f"serve --model {path}: the page has no board for {model.info.game}")
    return model
