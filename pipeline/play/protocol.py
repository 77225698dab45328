"""``Protocol``: an extension of ``mugo.protocols``, and the functions that find one for a game.

    [project.entry-points."mugo.protocols"]
    uci = "mugo_chess.uci:Uci"

Modules of protocols must be light to import, as --help loads them: import what answers a manager in run().
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipeline import extensions
from pipeline.extensions import GAMES, PROTOCOLS
from pipeline.games.specs import name_in

if TYPE_CHECKING:
    from pipeline.games.contract import Game
    from pipeline.play.command_lines import CommandLines
    from pipeline.play.config import EngineConfig
    from pipeline.progress import Progress
    from pipeline.run.models import Model

NEVER, FOR_MANY_GAMES, FOR_THIS_GAME = range(3)

Write = Callable[[str], None]


@dataclass(frozen=True)
class Manager:
    """The program that commands the engine. write: sends text at once; a protocol ends its own lines."""

    lines: CommandLines
    write: Write


class Protocol(ABC):
    """A protocol that ``engine --protocol NAME`` speaks. A plug-in offers a subclass, made without arguments.

    help          one line for engine --help
    wanted        what it plays, for messages: "a model of chess"
    longest_line  characters of a manager's line, the end included; a longer one begins with command_lines.TOO_LONG
    last_command  by which a manager ends the engine, in lower case
    """

    help: ClassVar[str] = ""
    wanted: ClassVar[str] = "another game"
    longest_line: ClassVar[int] = 65_536
    last_command: ClassVar[str] = "quit"

    @abstractmethod
    def plays(self, game: Game) -> bool:
        """Whether the protocol can express this game's moves."""

    def fit(self, game: Game) -> int:
        """Its rank as the default for this game: FOR_THIS_GAME before FOR_MANY_GAMES, or NEVER."""
        return FOR_THIS_GAME if self.plays(game) else NEVER

    @abstractmethod
    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        """Load the model, e.g. by engine.open_session(), and answer until the manager ends it or its lines end.

        No line from a manager may end the engine. Raises FileError for a model that can't be loaded.
        """


def protocol_named(name: str) -> Protocol:
    """The protocol of this name. Imports the package that offers it.

    Raises UsageError if there is none, if it can't be imported, or if it isn't a Protocol.
    """
    return extensions.make(extensions.need(PROTOCOLS, name, "engine --protocol"), Protocol)


def usual_protocol(game: Game) -> str | None:
    """The name of the protocol that fits this game best, among the bundled ones and those of the game's own package.

    None if none of them plays it. Raises UsageError as protocol_named does.
    """
    offered = extensions.named(GAMES, name_in(game.spec))
    package = offered.package if offered else ""
    found = extensions.find(PROTOCOLS) if package else extensions.bundled(PROTOCOLS)
    own = [name for name, one in sorted(found.items()) if one.package in ("", package)]
    fits = {name: extensions.make(found[name], Protocol).fit(game) for name in own}
    best = max(own, key=lambda name: fits[name], default=None)
    return best if best is not None and fits[best] > NEVER else None
