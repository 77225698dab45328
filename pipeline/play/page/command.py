"""``serve``: listen, say where the page is, and open it in a browser.

Reads only the descriptions of models first; a model itself is loaded when it is chosen on the page. Listens on this
machine alone, or with --host on a network, where every browser needs a token (limits.py). Ends with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import AnyGame, Game
from pipeline.games.specs import DEFAULT_GAME, parse_game
from pipeline.play.config import EngineConfig, ServeConfig
from pipeline.play.engine import open_player, open_session
from pipeline.play.findings import Findings
from pipeline.play.page.analyst import Analyst
from pipeline.play.page.later import LoadedLater
from pipeline.play.page.page_kinds import BoardPage, Models, OwnModel, OwnPage
from pipeline.play.page.pages import Pages, load_pages
from pipeline.play.page.table import rules_of
from pipeline.play.session import SearchSession
from pipeline.progress import SILENT, Progress
from pipeline.run import layout
from pipeline.run.models import Model, check_champion, pretrained_models, read_info, read_model, resolve_champion

MOST_CONNECTIONS = 100
FAR_AWAY = "192.0.2.1"  # an address of no machine (RFC 5737): nothing is sent there

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Served:
    """A model on this server: what it is called, where it is, as given and in truth, and what it plays."""

    name: str
    given: Path
    path: Path
    game: AnyGame


def serve(config: ServeConfig, progress: Progress = SILENT) -> None:
    """Serve the page until Ctrl-C.

    Raises FileError for a model that isn't there, UsageError for one whose game has no board here and for a host that
    isn't this machine, MuGoError if the extra isn't installed or the port is taken.
    """
    try:
        import uvicorn

        from pipeline.play.page.app import Lobby, make_app
        from pipeline.play.page.limits import Guests
    except ModuleNotFoundError as missing:
        raise MuGoError(
            f"serve needs {missing.name}: install the extra serve, as ./play.sh does, e.g. pip install '.[serve]'"
        ) from missing

    listening = listen(config.port, config.host)
    stopping = threading.Event()
    with listening:
        pages = load_pages(progress.warn)
        models = served_models(config, pages, progress)
        address = address_of(listening, first_page(models, pages))
        next_line = f"a browser has opened the page; the address for another one is {address}?token="
        guests = None if is_loopback(listening) else Guests(lambda token: progress.say(next_line + token))

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                where = f"{address} (for this machine only)"
                if guests is not None:
                    where = f"{address}?token={guests.announced} (for one browser on this network)"
                progress.say(f"the page is at {where}; Ctrl-C ends the server")
                if config.browser:
                    own = address if guests is None else f"{address}?token={guests.invite()}"
                    threading.Thread(target=webbrowser.open, args=(own,), daemon=True).start()

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                stopping.set()
                await super().shutdown(sockets)

        analysts, players = open_later(models, config, pages, stopping, progress)
        champion = next((name for name, one in models.items() if one.given.name == layout.CHAMPION), "")
        app = make_app(Lobby(pages, analysts, config.readouts, players, champion), guests, config.host)
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


# Where the page is


def listen(port: int, host: str = ServeConfig.model_fields["host"].default) -> socket.socket:
    """A socket on this port of this host. Raises UsageError for a host that isn't this machine, MuGoError if the port
    isn't available.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"serve --host {host}: no such host; {HOSTS}") from error
    dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(place, family=family, dualstack_ipv6=dual)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
            raise UsageError(f"serve --host {host}: that isn't this machine; {HOSTS}") from error
        taken = error.errno == errno.EADDRINUSE
        problem = "is taken by another program" if taken else f"isn't available ({error.strerror})"
        raise MuGoError(f"serve: port {port} of {host} {problem}; choose another with --port") from error


HOSTS = "wanted an address of this machine, or 0.0.0.0 for all networks that it is on"


def is_loopback(listening: socket.socket) -> bool:
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def address_of(listening: socket.socket, path: str) -> str:
    """The address of a page for a browser, on this network if the socket listens on all."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        host = network_address()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def network_address() -> str:
    """This machine's address in the network that leads elsewhere; if there is none, the one that its name has."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((FAR_AWAY, 9))
            return str(probe.getsockname()[0])
    except OSError:
        name = socket.gethostname()
        try:
            return socket.gethostbyname(name)
        except OSError:
            return name


# The models


def served_models(config: ServeConfig, pages: Pages, progress: Progress = SILENT) -> dict[str, Served]:
    """The models of the config by name; without any the champion, if there is one, and those that come with MuGo.

    Models with the same name are listed by path. Raises FileError for a model that isn't there, UsageError for one of
    the config whose game no page shows.
    """
    if config.model:
        found = [_served(path) for path in config.model]
        for one in found:
            if not pages.can_show(one.game):
                raise UsageError(f"serve --model {one.given}: the page has no board for {one.game.title}")
    else:
        found = _usual_models(pages, progress)
    known = {one.path: one for one in found}.values()
    bearers = Counter(one.name for one in known)
    return {one.name if bearers[one.name] == 1 else str(one.given): one for one in known}


def _usual_models(pages: Pages, progress: Progress) -> list[Served]:
    link, found, ours = layout.CHAMPION_LINK, [], []
    check_champion(layout.SAVED_MODELS)
    if link.is_symlink() or link.exists():
        try:
            found.append(champion := _served(link))
        except UsageError as error:  # of a package that isn't installed here
            progress.say(f"{link}: {error}")
        else:
            if not pages.can_show(champion.game):
                progress.say(f"{link} plays {champion.game.title}, for which the page has no board")
    else:
        progress.say(f"no champion at {link} yet: the page has the models that come with MuGo")
    for path in pretrained_models():
        with contextlib.suppress(UsageError):  # the family of its game may have been deleted
            ours.append(_served(path))
    usual = parse_game(DEFAULT_GAME).board_title
    ours.sort(key=lambda one: one.game.board_title != usual)
    return [one for one in found + ours if pages.can_show(one.game)]


def _served(given: Path) -> Served:
    path = resolve_champion(given)
    info = read_info(path)
    return Served(info.name, given, path, parse_game(info.game))


def first_page(models: Mapping[str, Served], pages: Pages) -> str:
    """The path of the page on which the first model plays."""
    page = pages.of(next(iter(models.values())).game) if models else None
    return f"/{page.name}" if isinstance(page, OwnPage) else "/"


def open_later(
    models: Mapping[str, Served], config: ServeConfig, pages: Pages, stopping: threading.Event, progress: Progress
) -> tuple[list[Analyst], Models]:
    """(the models of games on the main page, those of games with a page of their own). Loads none yet.

    The measurements of backends that loading a model may begin with aren't shown: nobody waits for them here.
    """
    engine = EngineConfig(readouts=config.readouts, backend=config.backend)

    def later(name: str, load: Callable[[Model], Thing]) -> LoadedLater[Thing]:
        def loaded() -> Thing:
            progress.say(f"loading {name}; the first time on this machine, that takes a minute or two")
            begun = time.monotonic()
            thing = load(read_model(models[name].path))
            progress.say(f"{name} is ready after {time.monotonic() - begun:.0f} s")
            return thing

        return LoadedLater(name, loaded, stopping)

    def open_analysis(model: Model) -> tuple[SearchSession, Findings]:
        rules_of(parse_game(model.info.game)).get()  # first, because the person at the board waits for them
        session, findings = open_session(model, engine)
        session.warm_up()
        return session, findings

    analysts, players = [], {}
    for name, one in models.items():
        page = pages.of(one.game)
        if isinstance(page, OwnPage):
            makes = later(name, lambda model: open_player(model, engine, SILENT))
            players[name] = OwnModel(one.game.spec, makes)
        elif isinstance(page, BoardPage) and isinstance(one.game, Game):
            boards = {game.board_title: game for game in map(parse_game, page.offered(one.game))}
            analysts.append(Analyst(name, one.game, boards, later(name, open_analysis), stopping))
    return analysts, players
