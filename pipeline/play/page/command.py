"""``serve``: listen on this machine, and open the page in a browser.

Loads the models first, so that whoever opens the page doesn't wait for compilers, but where a model of all boards first
plays on one that isn't its own. Ends with Ctrl-C.
"""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.errors import MuGoError, UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.page.table import GAMES, Models
from pipeline.families.shogi.game import Shogi
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.games.stones import BoardGame
from pipeline.methods.named import method_named
from pipeline.play.config import EngineConfig, ServeConfig
from pipeline.play.engine import open_session
from pipeline.play.page.analyst import Analyst
from pipeline.players.player import Player
from pipeline.progress import SILENT, Progress
from pipeline.run.models import Model, read_model, resolve_champion

ADDRESS = "127.0.0.1"
CHAMPION = Path("saved_models/best_model")
USUAL_BOARDS = (9, 7, 13, 19)  # that a model of go:any is offered on
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
            progress.say(f"the page is at {address} and for this machine only; Ctrl-C ends it")
            if config.browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping.set()
            await super().shutdown(sockets)

    with listening:
        models = read_models(config)
        analysts = load(models, config, stopping, progress)
        dice_models = load_with_dice(models, config, progress)
        if not models:
            progress.say(f"no model at {CHAMPION}: only built-in opponents, and no hints; name models with --model")
        app = make_app(Lobby(analysts, config.readouts, dice_models))
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
    """A socket at this port of this machine alone. Raises MuGoError if it can't be had."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen()
    except OSError as error:
        listening.close()
        problem = (
            "is taken by another program" if error.errno == errno.EADDRINUSE else f"can't be had ({error.strerror})"
        )
        raise MuGoError(f"serve: port {port} of {ADDRESS} {problem}; choose another with --port") from error
    return listening


def read_models(config: ServeConfig) -> dict[str, Model]:
    """The models of the config, by name, as many as there are; models of one name are called by their paths.

    Raises UsageError for one that no page can show.
    """
    paths = config.model or ([CHAMPION] if CHAMPION.exists() else [])
    models = {model.path: (model, str(path)) for model, path in zip(map(_read, paths), paths, strict=True)}
    bearers = Counter(model.info.name for model, _ in models.values())
    return {model.info.name if bearers[model.info.name] == 1 else path: model for model, path in models.values()}


def load_with_dice(models: Mapping[str, Model], config: ServeConfig, progress: Progress) -> Models:
    """Those of backgammon, loaded: what makes a player of each, anew for every game."""
    search = EngineConfig(readouts=config.readouts).search_options()

    def maker(model: Model) -> Callable[[Backgammon], Player]:
        method = method_named(model.info.method)
        (loaded,) = method.load(model, 1, 1, config.backend, progress)  # any thread may ask td's networks

        def make(game: Backgammon) -> Player:
            return method.player(game, 1, loaded, search, config.readouts)

        return make

    return {name: (model.info.game, maker(model)) for name, model in models.items() if model.info.game in GAMES}


def load(
    models: Mapping[str, Model], config: ServeConfig, stopping: threading.Event, progress: Progress
) -> list[Analyst]:
    """The models of board games, each ready to search."""
    analysts = []
    for name, model in models.items():
        if model.info.game in GAMES:
            continue
        progress.say(f"loading {name}; kernels and network are compiled when this machine sees them first")
        engine = EngineConfig(model=model.path, readouts=config.readouts, backend=config.backend)
        session, findings = open_session(model, engine, progress)
        session.warm_up()
        analysts.append(Analyst(name, offered(parse_game(model.info.game)), session, findings, stopping))
    return analysts


def offered(game: Game) -> list[str]:
    """The specs of what a model of this game plays on the page: its own board, or of all boards the usual ones that
    have room for its komi.
    """
    if not game.num_global_planes:
        return [game.spec]
    komi = game.gtp_komi or 0.0
    return [parse_game(f"go:{side},komi={komi}").spec for side in USUAL_BOARDS if abs(komi) <= side * side]


def _read(path: Path) -> Model:
    model = read_model(resolve_champion(path))
    if model.info.game not in GAMES and not isinstance(parse_game(model.info.game), BoardGame | Shogi):
        raise UsageError(f"serve --model {path}: {model.info.game} is played on no board that the page has")
    return model
