"""``engine --protocol gomocup``: the protocol of Gomocup and Piskvork, for games with GomocupRules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.play.protocol import Manager, Protocol

if TYPE_CHECKING:
    from pipeline.families.gomoku.game import GomocupRules
    from pipeline.games.contract import Game
    from pipeline.play.config import EngineConfig
    from pipeline.progress import Progress
    from pipeline.run.models import Model


def rules_of(game: Game) -> GomocupRules | None:
    """What a game that the protocol plays has as its attribute ``gomocup``; None for others."""
    return getattr(game, "gomocup", None)


class GomocupProtocol(Protocol):
    help = "of Gomocup and Piskvork, for Gomoku"
    wanted = "a Gomoku model"
    longest_line = 4096

    def plays(self, game: Game) -> bool:
        return rules_of(game) is not None

    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        from pipeline.families.gomoku.gomocup import Gomocup
        from pipeline.play.engine import open_session

        session, _ = open_session(model, config, progress)
        session.warm_up()
        gomocup = Gomocup(session)
        while not gomocup.ended and (line := manager.lines.next()) is not None:
            for answer in gomocup.answer(line):
                manager.write(answer + "\n")
