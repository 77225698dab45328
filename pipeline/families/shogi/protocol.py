"""``engine --protocol usi``: the Universal Shogi Interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.play.protocol import Manager, Protocol

if TYPE_CHECKING:
    from pipeline.games.contract import Game
    from pipeline.play.config import EngineConfig
    from pipeline.progress import Progress
    from pipeline.run.models import Model


class UsiProtocol(Protocol):
    help = "the Universal Shogi Interface, of ShogiGUI and Shogidokoro"
    wanted = "a model of shogi"

    def plays(self, game: Game) -> bool:
        from pipeline.families.shogi.game import Shogi

        return isinstance(game, Shogi)

    def run(self, model: Model, config: EngineConfig, manager: Manager, progress: Progress) -> None:
        from pipeline.families.shogi.usi import Usi
        from pipeline.play.engine import game_of, open_session
        from pipeline.play.session import SearchSession, tree_room

        def opened() -> SearchSession:
            session, _ = open_session(model, config, progress)
            session.warm_up()
            return session

        game = game_of(model, config).without_move_limit()
        most = tree_room(config.search_options(), config.readouts)
        Usi(game, config.readouts, most, opened, config.resign_threshold).run(manager.lines, manager.write)
