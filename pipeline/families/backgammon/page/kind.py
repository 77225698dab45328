"""``GammonPage``: the page /gammon for backgammon and hypergammon."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from pipeline.families.backgammon.page.table import COLOURS, GAMES, NOBODY, GammonTable, opponents
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.play.page.page_kinds import At, Body, Models, OwnPage, Verbs


class NewGammon(Body):
    """human: 0 moves first. With the opponent "nobody" the person plays both sides."""

    game: str = Field("backgammon", max_length=100)
    opponent: str = Field(max_length=4096)  # may be a model's path
    human: int = Field(0, ge=0, le=1)


class Step(At):
    """made: how many steps of this turn the page showed."""

    made: int = Field(ge=0, le=4)
    source: int = Field(ge=0, le=25)
    target: int = Field(ge=0, le=25)


class Turn(At):
    move: str = Field(max_length=80)


class GammonPage(OwnPage):
    title, html = "Backgammon", "gammon.html"
    files = ("gammon.html", "gammon.js", "gammon.css")
    specs = GAMES
    new_game = NewGammon
    verbs: ClassVar[Verbs] = {"step": Step, "move": Turn, "reply": At, "undo": At, "resign": At}

    def plays(self, game: AnyGame) -> bool:
        return game.spec in GAMES

    def options(self, models: Models) -> dict[str, Any]:
        """The game of the first model comes first."""
        played = [one.spec for one in models.values()]
        games = sorted(GAMES, key=lambda spec: played.index(spec) if spec in played else len(played))
        return {
            "games": [
                {
                    "spec": spec,
                    "title": parse_game(spec).title,
                    "models": {name: {} for name, one in models.items() if one.spec == spec},
                    "opponents": [*opponents(spec, models), NOBODY],
                    "colours": COLOURS,
                }
                for spec in games
            ]
        }

    def begin(self, body: NewGammon, models: Models) -> GammonTable:
        return GammonTable(body.game, body.opponent, body.human, models=models)
