"""``play`` for games with chance: the terminal's table with throws between the moves, and dice that can be checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import AnyGame
from pipeline.methods.named import method_named
from pipeline.play.config import EngineConfig, PlayConfig
from pipeline.play.dice_game import DiceGame, PlayerOpponent
from pipeline.play.fair_dice import FairDice
from pipeline.play.terminal import Opponent, Table
from pipeline.players.kinds import kind_named
from pipeline.players.player import RESIGN, Player
from pipeline.players.player_specs import parse_player
from pipeline.progress import Progress
from pipeline.run.models import Model

LONGEST_TURN = 80  # characters
ENGINE_SECONDS = 60.0  # a move
PASS = "pass"  # what games call a turn in which nothing can be played


def open_table(
    config: PlayConfig, game: AnyGame, model: Model | None, person: int, say: Callable[[str], None], progress: Progress
) -> DiceTable:
    """Raises UsageError for a game that isn't played here and for a player that doesn't play it, FileError for a model
    that can't be loaded.
    """
    if not game.perfect_information:
        raise UsageError(f"play: {game.spec} isn't played here, where its board shows what is hidden from a player")
    player: Player
    if model is not None:
        method = method_named(model.info.method)
        method.check(game)
        (loaded,) = method.load(model, 1, 1, config.backend, progress)
        search = EngineConfig(readouts=config.readouts).search_options()
        name, player = model.info.name, method.player(game, 1, loaded, search, config.readouts)
    else:
        spec = parse_player(config.model)
        name, kind = spec.name, kind_named(spec.kind)
        kind.check_game(game, config.model, spec.argument)
        player = kind.make(spec.argument, name, ENGINE_SECONDS)(game, 1, 0)
    dice = FairDice(None if config.seed is None else str(config.seed))
    return DiceTable(DiceOpponent(PlayerOpponent(name, player, config.seed), DiceGame(game, dice)), person, say)


class DiceOpponent(Opponent):
    """What the table asks of an opponent, from any player."""

    def __init__(self, player: PlayerOpponent, game: DiceGame) -> None:
        self.name, self.player, self.table = player.name, player, game

    def choose(self) -> tuple[int, str]:
        action, value = self.player.choose(self.table.moves)
        return action, "" if value is None else f"value {value:+.2f}"

    def hints(self) -> list[str]:
        action, said = self.choose()
        what = "resign" if action == RESIGN else self.table.game.move_name(self.table.state[0], action)
        return [f"{self.name} would play {what}" + (f"   ({said})" if said else "")]


class DiceTable(Table):
    """One game between a person and an opponent, with dice."""

    def __init__(self, opponent: DiceOpponent, person: int, say: Callable[[str], None]) -> None:
        self.ended = False
        self._opponent, self._table = opponent, opponent.table
        self._game = self._table.game
        self._player = opponent.player
        self._person, self._say = person, say
        self._resigned, self._resigner = False, person
        self._saved: set[Path] = set()

    def close(self) -> None:
        self._player.close()

    def begin(self) -> None:
        mark, theirs = "XO"[self._person], "XO"[1 - self._person]
        example = self._game.move_name(self._table.state[0], int(self._table.actions()[0]))
        self._say(f"You play {mark}, {self._opponent.name} plays {theirs}. Type a move, e.g. {example}, or help.")
        self._say(f"dice: the SHA-256 of their seed is {self._table.dice.commitment}; the seed is shown after the game")
        self._draw()
        self._let_opponent_move()

    def _move(self, text: str) -> None:
        if self._table.to_move != self._person:  # it has failed; what is typed was meant for other dice
            self._let_opponent_move()
            return
        try:
            action = self._game.parse_move(self._table.state[0], text[:LONGEST_TURN])
        except IllegalMove as error:
            problem = str(error).removeprefix(f"{self._game.spec}: ")
            raise UsageError(f"{problem}; help lists what else can be typed") from error
        self._play(action)
        self._let_opponent_move()

    def _let_opponent_move(self) -> None:
        """Also plays turns of the person's in which nothing can be played."""
        while not self._is_over():
            if self._table.to_move == self._person:
                if not self._must_pass():
                    return
                self._say("You can't move.")
                self._play(int(self._table.actions()[0]))
                continue
            action, said = self._opponent.choose()
            if action == RESIGN:
                self._resigned, self._resigner = True, 1 - self._person
                self._say(f"{self._opponent.name} resigns.\n{self._result()}")
                return
            name = self._game.move_name(self._table.state[0], action)
            self._say(f"{self._opponent.name}: {name}" + (f"   ({said})" if said else ""))
            self._play(action)

    def _must_pass(self) -> bool:
        actions = self._table.actions()
        return len(actions) == 1 and self._game.move_name(self._table.state[0], int(actions[0])) == PASS

    def _play(self, action: int) -> None:
        self._table.play(action)
        self._draw()
        if self._is_over():
            self._say(self._result())

    def _undo(self) -> None:
        """To the person's last turn in which there was something to choose, with the same dice; where somebody has
        resigned, that alone.
        """
        if self._resigned:
            self._resigned, self._resigner = False, self._person
        else:
            self._table.undo_to(self._person)
            with contextlib.suppress(IllegalMove):  # there is no earlier one
                while self._must_pass():
                    self._table.undo_to(self._person)
        self._draw()

    def _draw(self) -> None:
        self._say(self._game.diagram(self._table.state[0]) + "\n")

    def _is_over(self) -> bool:
        return self._resigned or self._table.is_over

    def _result(self) -> str:
        points, how = float(self._game.returns(self._table.state)[0]), ""
        if self._resigned:
            points, how = float(2 * self._resigner - 1), " by resignation"
        elif (name := self._game.result_names.get(abs(points))) is not None:
            how = f" a {name}"
        winner = int(points < 0)
        you = "You win." if winner == self._person else "You lose."
        said = f"{'XO'[winner]} wins{how}. {you}" if points else "a draw."
        seed = self._table.dice.seed
        return f"The game is over: {said}\ndice: the seed was {seed}; throw N came from the SHA-256 of {seed}:N"

    def _moves(self) -> list[int]:
        return self._table.moves

    def _resigned_by(self) -> int | None:
        return self._resigner if self._resigned else None
