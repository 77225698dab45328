"""The protocols of Go, which suit other board games, too: GTP, and KataGo's JSON analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.play.protocol import FOR_MANY_GAMES, NEVER, Manager, Protocol

if TYPE_CHECKING:
    from pipeline.games.contract import Game
    from pipeline.play.config import EngineConfig
    from pipeline.progress import Progress
    from pipeline.run.models import Model


class _NamedMoves(Protocol):
    wanted = "a game whose moves are named alike in every position"

    def plays(self, game: Game) -> bool:
        return not game.names_need_position


class GtpProtocol(_NamedMoves):
    help = "the Go Text Protocol of Sabaki, GoGui and KGS, with analysis; other board games have its basic commands"

    def fit(self, game: Game) -> int:
        return FOR_MANY_GAMES if self.plays(game) else NEVER

    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        from pipeline.families.go.gtp import Gtp
        from pipeline.games.stones import in_protocol_letters
        from pipeline.play.engine import open_session

        session, findings = open_session(model, config, progress)
        if (game := in_protocol_letters(session.game)) is not session.game:
            session.change_game(game)
        session.warm_up()
        Gtp(session, findings, config.resign_threshold, config.ponder, progress.say).run(manager.lines, manager.write)


class AnalysisProtocol(_NamedMoves):
    help = "KataGo's JSON, for KaTrain and whole games, a query a line; --readouts is for queries without maxVisits"
    longest_line = 1 << 20

    def fit(self, game: Game) -> int:
        return NEVER

    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        from pipeline.families.go.analysis import open_analysis

        analysis = open_analysis(model, config, progress)
        analysis.warm_up()
        progress.say("ready for queries")
        analysis.run(manager.lines, manager.write)
