"""``OthelloPage``: Othello in the browser, offered where no model plays it, too."""

from pipeline.families.othello.game import Othello
from pipeline.games.contract import AnyGame
from pipeline.play.page.stones import StonesPage


class OthelloPage(StonesPage):
    specs = ("othello:8",)

    def plays(self, game: AnyGame) -> bool:
        return isinstance(game, Othello)
