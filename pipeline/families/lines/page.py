"""``LinesPage``: tic-tac-toe and connect four in the browser, offered where no model plays them, too."""

from pipeline.families.lines.connect4 import ConnectFour
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.contract import AnyGame
from pipeline.play.page.stones import StonesPage


class LinesPage(StonesPage):
    specs = ("connect4", "tictactoe")

    def plays(self, game: AnyGame) -> bool:
        return isinstance(game, ConnectFour | TicTacToe)
