"""Connect four and tic-tac-toe in the browser, offered even without a model."""

from pipeline.play.page.stones_page import StonesPage


class LinesPage(StonesPage):
    specs = ("connect4", "tictactoe")
