"""``GammonTable``: one game of backgammon on the server, played checker by checker, and its view for the page.

Thread-safe: a lock guards each table and is released while an opponent thinks. Throws come from FairDice: the page gets
the commitment at the start and the seed after the game. The board is seen by the viewer, who is the person or, if the
person plays both sides, the player to move: points in the viewer's numbering, the viewer's checkers positive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pipeline.errors import IllegalMove
from pipeline.families.backgammon import notation
from pipeline.families.backgammon.game import STARTS, Backgammon
from pipeline.families.backgammon.gnubg import GnubgPlayer, installed
from pipeline.families.backgammon.kernels import BAR, HIGH_DIE, LOW_DIE, OFF
from pipeline.families.backgammon.records import MAT_SUFFIX, gammon_sgf, mat_record
from pipeline.families.backgammon.stepping import Stepper
from pipeline.games.contract import States
from pipeline.games.records import RecordText
from pipeline.games.specs import parse_game
from pipeline.phrases import counted
from pipeline.play.game_in_progress import FairDice, Line, PlayerOpponent
from pipeline.play.page.analyst import Refused
from pipeline.play.page.page_kinds import NO_MODELS, Models
from pipeline.play.page.table import NOBODY, BaseTable, readiness
from pipeline.players.builtin import BUILT_INS
from pipeline.players.player import RESIGN, Player

GAMES = tuple(STARTS)
GNUBG_PLIES = (0, 2)
ENGINE_SECONDS = 60.0
COLOURS = ("White", "Black")
MAT, SGF = MAT_SUFFIX.removeprefix("."), "sgf"  # suffixes of records

MakeOpponent = Callable[[Backgammon], Player]


def opponents(game: str, models: Models) -> dict[str, MakeOpponent]:
    """The available opponents of a game, by name."""
    found: dict[str, MakeOpponent] = {
        name: lambda game, one=one: one.makes.get()(game)  # type: ignore[misc]
        for name, one in models.items()
        if one.spec == game
    }
    for name in ("heuristic", "random"):
        found[name] = lambda game, name=name: BUILT_INS[name](game, 1)  # type: ignore[misc]
    if game == "backgammon" and installed():
        for plies in GNUBG_PLIES:
            name = f"gnubg-{plies}ply"
            found[name] = lambda game, n=name, plies=plies: GnubgPlayer(game, 1, plies, n, ENGINE_SECONDS)  # type: ignore[misc]
    return found


class GammonTable(BaseTable):
    game: Backgammon

    def __init__(
        self,
        spec: str,
        opponent: str,
        human: int | None,
        seed: str | None = None,
        models: Models = NO_MODELS,
    ) -> None:
        """Raises Refused for an unknown game or opponent."""
        if spec not in GAMES:
            raise Refused(400, f"game: found {spec[:40]!r}; wanted {' or '.join(GAMES)}")
        known = opponents(spec, models)
        if opponent not in (*known, NOBODY):
            raise Refused(400, f"opponent: found {opponent[:40]!r}; wanted one of {', '.join((*known, NOBODY))}")
        self._dice = FairDice(seed)
        human = None if opponent == NOBODY else human or 0
        super().__init__(parse_game(spec), COLOURS, opponent, human, None, self._dice)
        self._make = known.get(opponent)  # None: the person plays both sides
        self._player: PlayerOpponent | None = None  # made for the first move
        self._thinking = threading.Lock()  # guards the opponent
        self._model = models[opponent].makes if opponent in models else None
        self._steps: list[notation.Step] = []  # of the incomplete turn
        self._stepper: tuple[int, Stepper] | None = None  # with its ply
        self._last = ""  # the last turn, in words
        self._shown = False  # whether the seed of the dice is known: a resignation can be taken back
        if self._model is not None:
            self.view()  # compiles what the board needs, before the model's loading compiles much more
            self._model.prepare()

    def close(self) -> None:
        if self._player is not None:
            self._player.close()

    # Requests of the page

    def step(self, source: int, target: int, made: int, ply: int) -> None:
        """Move one of the person's checkers; play the turn once it is complete. Raises Refused. made: see Step."""
        with self._at_present(ply):
            self._check_mine()
            if (now := len(self._steps)) != made:
                said = f"this turn has {counted(now, 'step')}, not {made}"
                raise Refused(409, f"{said}: it was changed from another window")
            stepper, steps = self._current_stepper(), [*self._steps, (source, target)]
            if (source, target) not in stepper.options(self._steps):
                raise Refused(400, f"{_point(source)} to {_point(target)} is not possible with these dice")
            self._steps, action = steps, stepper.action(steps)
            if action is not None:
                self._play(action)

    def move(self, move: str, ply: int) -> None:
        """Play a complete turn in notation, or "pass". Raises Refused."""
        with self._at_present(ply):
            self._check_mine()
            try:
                action = self.game.parse_move(self._played.positions[-1].state, move)
            except IllegalMove as error:
                raise Refused(400, str(error).removeprefix(f"{self.game.spec}: ")) from error
            self._play(action)

    def reply(self, ply: int) -> None:
        """Play the opponent's turn; do nothing if it isn't their turn or the game has changed meanwhile."""
        if self._make is None:
            return
        with self._at_present(ply):
            line = self._played.line()
        with self._thinking:
            if not self._waits_after(line):
                return
            if self._player is None:
                self._player = PlayerOpponent(self.opponent, self._make(self.game))
            action, _ = self._player.choose(line)
            with self._lock:
                if not self._waits_after(line):
                    return
                if action == RESIGN:
                    self._played.resigned = self.to_move
                else:
                    self._play(action)

    @property
    def records(self) -> tuple[str, ...]:
        return (MAT, SGF) if self.game.spec == "backgammon" else (SGF,)

    def _written(self, suffix: str, text: RecordText) -> str:
        played = self._played
        if suffix == MAT:
            return mat_record(self.game, played.actions, text, played.resigned)
        return gammon_sgf(self.game, played.actions, text, (), played.resigned)

    def view(self) -> dict[str, Any]:
        with self._lock:
            state, turn = self._played.positions[-1].state, self.to_move
            viewer = self.human if self.human is not None else turn if turn in (0, 1) else 0
            self._shown |= self.over
            mine = not self.over and (self.human is None or turn == self.human)
            board = notation.view(state, viewer)
            theirs = [int(state[OFF + 1 - viewer]), int(state[BAR + 1 - viewer])]
            steps, must_pass = [], False
            if mine:
                stepper = self._current_stepper()
                board, steps = stepper.board(self._steps), stepper.options(self._steps)
                theirs[1] += sum(before == -1 and after >= 0 for before, after in zip(
                    notation.view(state, viewer)[1:25], board[1:25], strict=True))  # fmt: skip
                must_pass = not steps and not self._steps
            high, low = int(state[HIGH_DIE]), int(state[LOW_DIE])
            return {
                "id": self.id,
                "game": self.game.spec,
                "title": self.game.title,
                "opponent": self.opponent,
                **readiness(self._model),
                "human": self.human,
                "viewer": viewer,
                "players": [self._player_name(player) for player in (0, 1)],
                "colours": self.colours,
                "ply": len(self._played.moves),
                "turn": turn if turn in (0, 1) else None,
                "mine": mine,
                "board": board,
                "theirs_off": theirs[0],
                "theirs_bar": theirs[1],
                "dice": [] if not high else [high] * 4 if high == low else [high, low],
                "made": [list(step) for step in self._steps],
                "steps": [list(step) for step in steps],
                "must_pass": must_pass,
                "last": self._last,
                "over": self.over,
                "result": self._result(),
                "commitment": self._dice.commitment,
                "seed": self._dice.seed if self._shown else None,
            }

    # The game

    def _waits_after(self, line: Line) -> bool:
        """Whether the line is still the whole game and it is the opponent's turn."""
        with self._lock:
            return self._waits_at(line) and not self.over and self.to_move != self.human

    def _undo(self) -> None:
        """Take back the last checker of an incomplete turn, else the person's last turn. The dice stay the same."""
        if self._steps and not self.over:
            self._steps.pop()
            return
        plies = len(self._played.moves)
        super()._undo()
        if len(self._played.moves) < plies:
            self._last = ""

    def _current_stepper(self) -> Stepper:
        ply = len(self._played.moves)
        if self._stepper is None or self._stepper[0] != ply:
            self._stepper = ply, Stepper(self.game, self._played.positions[-1].state)
        return self._stepper[1]

    def _play(self, action: int) -> None:
        state = self._played.positions[-1].state
        mover, dice = self.to_move, f"{state[HIGH_DIE]}{state[LOW_DIE]}"
        self._last = f"{self.colours[mover]} threw {dice} and played {self.game.move_name(state, action)}."
        self._played.play(action)
        self._steps, self._stepper = [], None

    def _check_mine(self) -> None:
        if self.over:
            raise Refused(400, "the game is over")
        if self.human is not None and self.to_move != self.human:
            raise Refused(409, "it is your opponent's turn")

    def _outcome(self, states: States) -> str:
        points = float(self.game.returns(states)[0])
        if not points:
            return "Nobody wins: the game reached its move limit"
        kind = self.game.result_names.get(abs(points))
        wins = f"{self.colours[points < 0]} wins{f' a {kind}' if kind else ''}"
        return f"{wins}: {abs(points):g} point{'s' * (abs(points) > 1)}"


def _point(point: int) -> str:
    return notation.WORDS.get(point, str(point))
