"""``GomokuPage``: Gomoku in the browser, offered where no model plays it, too."""

from pipeline.families.gomoku.game import Gomoku
from pipeline.games.contract import AnyGame
from pipeline.play.page.stones import StonesPage


class GomokuPage(StonesPage):
    specs = ("gomoku:15",)

    def plays(self, game: AnyGame) -> bool:
        return isinstance(game, Gomoku)
