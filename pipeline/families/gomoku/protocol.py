"""``engine --protocol gomocup``: the protocol of Gomocup and Piskvork, for Gomoku."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.play.protocol import Manager, Protocol

if TYPE_CHECKING:
    from pipeline.games.contract import Game
    from pipeline.play.config import EngineConfig
    from pipeline.progress import Progress
    from pipeline.run.models import Model


class GomocupProtocol(Protocol):
    help = "of Gomocup and Piskvork, for Gomoku"
    wanted = "a Gomoku model"
    longest_line = 4096
    last_command = "end"

    def plays(self, game: Game) -> bool:
        from pipeline.families.gomoku.game import Gomoku

        return isinstance(game, Gomoku)

    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        from pipeline.families.gomoku.gomocup import Gomocup
        from pipeline.play.engine import open_session

        session, _ = open_session(model, config, progress)
        session.warm_up()
        gomocup = Gomocup(session, manager.lines)
        while not gomocup.ended and (line := manager.lines.next()) is not None:
            for answer in gomocup.answer(line):
                manager.write(answer + "\n")
