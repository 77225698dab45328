"""``GoPage`` and ``GoTable``: Go in the browser, with territory and the stones that a model considers dead."""

from __future__ import annotations

from pipeline.families.go.dead_stones import dead_groups, score_without
from pipeline.families.go.game import Go, GoAnyBoard
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.specs import parse_game
from pipeline.play.page.analyst import Refused
from pipeline.play.page.stones_page import StonesPage, StonesTable

USUAL_BOARDS = (9, 7, 13, 19)  # on which a model of go:any is offered


class GoTable(StonesTable):
    game: Go
    territory = True
    _judged: tuple[int, float] | None = None  # at the end: number of dead groups, the score without them

    def judge(self, ply: int) -> None:
        """Ask the adviser which stones are dead at the end of the game."""
        with self._at_present(ply):
            if self.adviser is None or not self._ended:
                raise Refused(400, "nothing to judge: wanted a game that has ended by its rules, and a model")
            line, state = self._played.line(), self._played.positions[-1].state
        dead = dead_groups(self.game, state, self.adviser.owners(line))
        with self._lock:
            if tuple(self._played.moves) == line.moves:
                self._judged = len(dead), score_without(self.game, state, dead)

    @property
    def to_judge(self) -> bool:
        return self.adviser is not None and self._ended and self._judged is None

    @property
    def _ended(self) -> bool:
        """Whether the game is over and decided by area, dead stones included."""
        return self._played.resigned is None and self._played.has_ended

    def _cut(self, ply: int) -> None:
        self._judged = None
        super()._cut(ply)

    def _area(self, ply: int) -> list[int] | None:
        if not self._over_at(ply):
            return None
        return self.game.ownership(self._played.positions[ply].states)[0].tolist()

    def _outcome(self, states: States) -> str:
        """With the result that the adviser sees, if it takes stones for dead."""
        outcome = super()._outcome(states)
        if self._judged is None or not self._judged[0]:
            return outcome
        found, score = self._judged
        stones = "a group" if found == 1 else f"{found} groups"
        said = "a draw" if not score else self._won(int(score < 0), abs(score)).replace("wins", "winning", 1)
        name = self.adviser.name if self.adviser else ""
        return f"{outcome} with every stone on the board. {name} takes {stones} for dead, which makes it {said}"


class GoPage(StonesPage):
    specs = ("go:9", "go:13", "go:19")
    table = GoTable

    def plays(self, game: AnyGame) -> bool:
        return isinstance(game, Go)

    def offered(self, game: Game) -> list[str]:
        """The game's own board; for a model of all boards, the usual boards that have room for its komi."""
        if not isinstance(game, GoAnyBoard):
            return [game.spec]
        boards = [side for side in USUAL_BOARDS if abs(game.komi) <= side * side]
        return [parse_game(f"go:{side},komi={game.komi}").spec for side in boards]
