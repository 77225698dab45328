"""Gomoku in the browser, offered even without a model."""

from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.play.page.stones_page import StonesPage

USUAL_BOARDS = (9, 15, 19)  # on which a model of all boards is offered


class GomokuPage(StonesPage):
    specs = ("gomoku:15",)

    def offered(self, game: Game) -> list[str]:
        """The game's own board; for a model of all boards, the usual boards with its rules."""
        if not isinstance(game, AllBoards):
            return [game.spec]
        rules = game.family.removesuffix(",opponents")  # a person learns
        return [parse_game(rules.replace("any", str(side), 1)).spec for side in USUAL_BOARDS]
