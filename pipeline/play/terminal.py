"""``play``: a game in the terminal against a model, a built-in player or an engine.

A line is a move or one of COMMANDS; the board is drawn after every move. Every line is answered with the new board or
with one line that says what is wrong. A game that is over can still be saved or taken back. The end of the input ends
the game, so that a pipe can play too. The only files written are the records asked for.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.games.capabilities import InSgf, Spoken, seen_by
from pipeline.games.contract import AnyGame
from pipeline.games.records import PlayedGame, RecordText, format_to_write, formats_of
from pipeline.games.specs import DEFAULT_GAME, parse_game
from pipeline.methods.resignation import AgainstPerson
from pipeline.phrases import write
from pipeline.play.command_lines import TOO_LONG, accept_any_bytes, read_line
from pipeline.play.config import EngineConfig, PlayConfig
from pipeline.play.engine import open_player, open_session, resolve_to_play
from pipeline.play.findings import Findings, winrate
from pipeline.play.game_in_progress import FairDice, GameInProgress, PlayerOpponent
from pipeline.play.session import SearchSession
from pipeline.players.kinds import kind_named, make_player
from pipeline.players.player import RESIGN
from pipeline.players.player_specs import names_kind, parse_player
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic
from pipeline.run.models import Model, read_model

SAVE = "sgf FILE"
COMMANDS = {
    "hint": "the moves that the opponent would consider in your place",
    "undo": "take back your last move and the reply to it",
    "resign": "give the game up",
    SAVE: "write the game so far to a new file: SGF, or another format of the game that FILE's suffix names",
    "help": "this list",
    "quit": "end here",
}
HINTS = 5
HINT_MOVES = 6  # of a variation
LONGEST_MOVE = 80  # characters
LONGEST_LINE = 65_536  # characters
ENGINE_SECONDS = 60.0  # per move
PASS = "pass"  # the name of a turn in which nothing can be played, in games with dice


def play(
    config: PlayConfig, progress: Progress = SILENT, typed: TextIO | None = None, shown: TextIO | None = None
) -> None:
    """Play until "quit" or the end of the input. typed, shown: instead of standard input and output.

    Raises FileError for a model that can't be loaded, UsageError for options that don't go together.
    """
    accept_any_bytes()
    typed, shown = typed or sys.stdin, shown or sys.stdout
    game, model = _game_of(config)
    opponent = open_opponent(config, game, model, progress)
    dice = FairDice(None if config.seed is None else str(config.seed)) if game.has_chance else None
    game = game.without_move_limit()
    table = Table(GameInProgress(game, dice=dice), opponent, "bw".index(config.colour), lambda text: write(text, shown))
    try:
        table.begin()
        while not table.ended:
            if typed.isatty():
                print("> ", end="", file=shown, flush=True)
            line = read_line(typed, LONGEST_LINE)
            if not line:
                return
            table.answer(line.rstrip())
    finally:
        opponent.close()


def _game_of(config: PlayConfig) -> tuple[AnyGame, Model | None]:
    """The game, and the model that plays it; None: another kind of player."""
    if names_kind(config.model):
        kind = kind_named(parse_player(config.model).kind)
        return parse_game(config.game or kind.default_game or DEFAULT_GAME), None
    asked = None if config.game is None else parse_game(config.game)

    def fits(game: AnyGame) -> bool:
        return asked is None or seen_by(game, asked) is not None

    model = read_model(resolve_to_play(Path(config.model), fits, otherwise="--model heuristic"))
    own = parse_game(model.info.game)
    game = own if asked is None else seen_by(own, asked)
    if game is None:
        raise UsageError(f"play --game {config.game}: {model.path} plays {own.title} ({own.spec}); leave --game out")
    return game, model


def open_opponent(config: PlayConfig, game: AnyGame, model: Model | None, progress: Progress) -> AnyOpponent:
    """Raises UsageError if the opponent doesn't play the game, FileError for a model that can't be loaded."""
    played = game.without_move_limit()
    search = EngineConfig(
        model=Path(config.model), game=config.game, readouts=config.readouts, backend=config.backend
    )
    if model is None:
        spec = parse_player(config.model)
        if spec.handicap:
            raise UsageError(f"play --model {config.model}: games here have no handicap; leave handicap:N: out")
        kind_named(spec.kind).check_game(game, config.model, spec.argument)
        name, make = spec.name, make_player(spec.kind, spec.argument, spec.name, ENGINE_SECONDS)
        return Opponent(name, make(played, 1, 0), config.seed)
    if game.has_chance:
        return Opponent(model.info.name, open_player(model, search, progress)(played), config.seed)
    progress.say(f"loading {config.model}; the first time on this machine, kernels and network are compiled")
    session, findings = open_session(model, search, progress)
    session.warm_up()
    return SearchOpponent(model.info.name, session, findings)


class Opponent(PlayerOpponent):
    """Any player."""

    def answer(self, game: GameInProgress) -> tuple[int, str]:
        """(a move for the player to move or RESIGN, what the opponent says of it)."""
        action, value = self.choose(game.line())
        return action, "" if value is None else f"value {value:+.2f}"

    def hints(self, game: GameInProgress) -> list[str]:
        """The best moves, a line each."""
        action, said = self.answer(game)
        move = "resign" if action == RESIGN else game.name_of(action)
        return [f"{self.name} would play {move}" + (f"   ({said})" if said else "")]


class SearchOpponent:
    """A model that searches: the same methods."""

    def __init__(self, name: str, session: SearchSession, findings: Findings) -> None:
        self.name, self._session, self._findings = name, session, findings
        self._resignation = AgainstPerson(session.game)

    def answer(self, game: GameInProgress) -> tuple[int, str]:
        action, value = self._search(game), self._session.value_to_move()
        if self._resignation.resigns(len(game.moves), value, self._findings.lead()):
            action = RESIGN
        return action, f"winrate {winrate(value):.0%}"

    def _search(self, game: GameInProgress) -> int:
        self._session.follow(game.line())
        return self._session.think(None)

    def hints(self, game: GameInProgress) -> list[str]:
        self._search(game)
        return [
            f"{game.name_of(found.action):<5} winrate {winrate(found.value_to_move):4.0%}   "
            f"{found.visits:5d} visits   prior {found.prior:4.0%}   "
            f"{' '.join(game.game.line_names(game.states, found.variation[:HINT_MOVES]))}"
            for found in self._session.candidates()[:HINTS]
        ]

    def close(self) -> None:
        """Nothing to end."""


AnyOpponent = Opponent | SearchOpponent


class Table:
    """One game between a person and an opponent."""

    def __init__(self, game: GameInProgress, opponent: AnyOpponent, person: int, say: Callable[[str], None]) -> None:
        """person: 0 if they move first, 1 if second. say: shows one or more lines."""
        self.ended = False
        self._game, self._opponent, self._person, self._say = game, opponent, person, say
        self._saved: set[Path] = set()  # files of this game, which it may replace
        self._shown = ""  # the view that was drawn last

    def begin(self) -> None:
        game, person = self._game, self._person
        mine, theirs = game.game.marks[person], game.game.marks[1 - person]
        known = game.game.perfect_information or game.to_move == person
        example = f" ({game.name_of(int(game.choices()[0]))})" if known else ""
        self._say(f"You are {mine}, {self._opponent.name} is {theirs}. Type a move{example}, or help.")
        if dice := self._game.dice:
            self._say(f"dice: the SHA-256 of their seed is {dice.commitment}; the seed is shown after the game")
        self._draw()
        self._let_opponent_move()

    def answer(self, line: str) -> None:
        """Do what a line says, or say why not.

        Where moves are free texts, a line of several words is one, and so is any that begins with a space.
        """
        if line.startswith(TOO_LONG):
            self._say(f"? a line of more than {LONGEST_LINE:,} characters; nothing was done")
            return
        word, _, rest = line.strip().partition(" ")
        if self._speaks and ((rest and word.lower() != "sgf") or line.startswith(" ")):
            word = line
        try:
            match word.lower():
                case "":
                    return
                case "help":
                    known = [name for name in COMMANDS if name != SAVE or formats_of(self._game.game)]
                    self._say("\n".join(f"{name:<9} {COMMANDS[name]}" for name in known))
                case "quit" | "exit":
                    self.ended = True
                case "hint":
                    self._refuse_if_over()
                    self._let_opponent_move()  # it is still to move if it has failed
                    if not self._game.is_over:
                        self._say("\n".join(self._opponent.hints(self._game)))
                case "undo":
                    self._undo()
                case "resign":
                    self._refuse_if_over()
                    self._game.resigned = self._person
                    self._say(self._result())
                case "sgf":
                    self._save(rest.strip())
                case _:
                    self._refuse_if_over()
                    self._move(line.strip())
        except MuGoError as error:
            self._say(f"? {error}")

    @property
    def _speaks(self) -> bool:
        game = self._game.game
        return isinstance(game, Spoken) and game.speaks

    # Moves

    def _move(self, text: str) -> None:
        if self._game.to_move == self._person:  # otherwise the opponent has failed: the move was for another position
            longest = LONGEST_LINE if self._speaks else LONGEST_MOVE
            try:
                self._play(self._game.game.parse_move(self._game.positions[-1].state, text[:longest]))
            except IllegalMove as error:
                reason = str(error).rpartition(": ")[2]  # without the game and the row
                raise UsageError(f"{reason}; help lists what else can be typed") from error
        self._let_opponent_move()

    def _let_opponent_move(self) -> None:
        """Also play the person's turns in which nothing can be played."""
        while not self._game.is_over:
            if self._game.to_move == self._person:
                if not self._must_pass():
                    return
                self._say("You can't move.")
                self._play(int(self._game.choices()[0]))
                continue
            action, said = self._opponent.answer(self._game)
            if action == RESIGN:
                self._game.resigned = 1 - self._person
                self._say(f"{self._opponent.name} resigns.\n{self._result()}")
                return
            seen = self._game.game.perfect_information
            move = f"{self._opponent.name}: {self._game.name_of(action)}" if seen else f"{self._opponent.name} moves"
            self._game.play(action)
            played = self._game.game
            wrong = "an invalid move" if isinstance(played, Spoken) and played.refused(self._game.states)[0] else ""
            self._say("   ".join([move, *(f"({note})" for note in (said, wrong) if note)]))
            self._show_played()

    def _must_pass(self) -> bool:
        """Whether the dice leave nothing to play. In games without dice, the person must type the pass."""
        if self._game.dice is None:
            return False
        choices = self._game.choices()
        return len(choices) == 1 and self._game.name_of(int(choices[0])) == PASS

    def _play(self, action: int) -> None:
        self._game.play(action)
        self._show_played()

    def _show_played(self) -> None:
        self._draw()
        if self._game.is_over:
            self._say(self._result())

    def _undo(self) -> None:
        """Take back a person's resignation; else go back to the person's last turn in which there was a choice."""
        resigned = self._game.resigned
        self._game.undo(self._person)
        with contextlib.suppress(IllegalMove):  # there is no earlier turn
            while resigned != self._person and self._must_pass():
                self._game.undo(self._person)
        self._draw()

    # What is said

    def _draw(self) -> None:
        """Of games with hidden information, only what is new."""
        game, before = self._game.game, self._shown
        self._shown = game.view(self._game.positions[-1].state, self._person)
        new = self._shown if game.perfect_information else self._shown.removeprefix(before).lstrip("\n")
        self._say(new + "\n")

    def _refuse_if_over(self) -> None:
        if self._game.is_over:
            raise UsageError("the game is over; undo, sgf FILE or quit")

    def _result(self) -> str:
        game, states, how = self._game.game, self._game.states, ""
        result = float(game.returns(states)[0])
        if (loser := self._game.resigned) is not None:
            result, how = float(2 * loser - 1), " by resignation"
        elif name := game.result_names.get(abs(result)):
            how = f" a {name}"
        elif isinstance(game, InSgf) and game.sgf.margin:
            how = f" by {abs(float(game.scores(states)[0])):g}"
        winner = int(result < 0)
        you = "You win." if winner == self._person else "You lose."
        said = f"The game is over: {game.marks[winner]} wins{how}. {you}" if result else "The game is over: a draw."
        if not game.perfect_information:
            mine, theirs = (game.view(states[0], player).splitlines() for player in (self._person, 1 - self._person))
            hidden = [line for line in theirs if line not in mine]
            said = "\n".join([said, *([f"{self._opponent.name} also saw:", *hidden] if hidden else [])])
        if dice := self._game.dice:
            said += f"\ndice: the seed was {dice.seed}; throw N came from the SHA-256 of {dice.seed}:N"
        return said

    def _save(self, name: str) -> None:
        if not name:
            raise UsageError(f"wanted {SAVE}")
        path = self._path(name)
        form = format_to_write(self._game.game, path.suffix.lower())
        names = ["a person", self._opponent.name]
        text = RecordText(*(names if self._person == 0 else names[::-1]))
        played = PlayedGame(self._game.actions, text, resigned_by=self._game.resigned)
        atomic.write_text(path, form.write(self._game.game, played))
        self._saved.add(path)
        self._say(f"written: {path}")

    def _path(self, name: str) -> Path:
        """The path of a new file, or of one that this game has written. Raises UsageError."""
        try:
            path = Path(name).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"{name[:LONGEST_MOVE]!r} is no file name ({error})") from error
        with atomic.os_errors(path):
            if path.exists() and path not in self._saved:
                raise UsageError(f"{path} exists; choose another name")
        return path
