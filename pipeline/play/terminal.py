"""``play``: a game in the terminal against a model or a built-in player.

A line is a move or one of COMMANDS; the board is drawn after every move. Whatever is typed, the answer is the new
board or one line that says why not. A game that is over may still be saved or taken back. The end of the input ends it,
so a pipe can play, too. Writes no file but the records asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pipeline.errors import IllegalMove, MuGoError, UsageError
from pipeline.games.contract import AnyGame, Evaluation, Game, Planes
from pipeline.games.records import PlayedGame, RecordText, format_to_write
from pipeline.games.specs import DEFAULT_GAME, parse_game
from pipeline.phrases import write
from pipeline.play.config import EngineConfig, PlayConfig
from pipeline.play.engine import open_session
from pipeline.play.findings import winrate
from pipeline.play.lines import accept_any_bytes, read_line
from pipeline.play.session import ROW, SearchSession
from pipeline.players.builtin import BUILT_INS, make_builtin
from pipeline.players.kinds import kind_named
from pipeline.players.player_specs import is_engine, parse_player
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic
from pipeline.run.models import Model, read_model, resolve_champion
from pipeline.search.options import SearchOptions

COMMANDS = {
    "hint": "the moves that the opponent would consider in your place",
    "undo": "take back your last move and the reply to it",
    "resign": "give the game up",
    "sgf FILE": "write the game so far to a new file: SGF, or another format of the game that FILE's suffix names",
    "help": "this list",
    "quit": "end here",
}
HINTS = 5
HINT_MOVES = 6  # of a variation
LONGEST_MOVE = 20  # characters
LONGEST_LINE = 65_536  # characters


def play(
    config: PlayConfig, progress: Progress = SILENT, typed: TextIO | None = None, shown: TextIO | None = None
) -> None:
    """Play until "quit" or the end of the input. typed, shown: instead of standard input and output.

    Raises FileError for a model that can't be loaded, UsageError for options that don't go together.
    """
    accept_any_bytes()
    typed, shown = typed or sys.stdin, shown or sys.stdout
    person, say = "bw".index(config.colour), lambda text: write(text, shown)
    game, model = _game_of(config)
    table: Table
    if game.has_chance:
        from pipeline.play.dice_terminal import open_table

        table = open_table(config, game, model, person, say, progress)
    else:
        opponent = _open_builtin(config) if model is None else _open_model(config, model, progress)
        table = Table(opponent, person, say)
    try:
        _run(table, typed, shown)
    finally:
        table.close()


def _run(table: Table, typed: TextIO, shown: TextIO) -> None:
    table.begin()
    while not table.ended:
        if typed.isatty():
            print("> ", end="", file=shown, flush=True)
        line = read_line(typed, LONGEST_LINE)
        if not line:
            return
        table.answer(line.strip())


class Opponent:
    """A session, and whoever chooses moves in it: here its model."""

    def __init__(self, name: str, session: SearchSession) -> None:
        self.name, self.session = name, session

    def choose(self) -> tuple[int, str]:
        """A move for the player to move, and what is to be said of it."""
        action = self.session.think(None)
        return action, f"winrate {winrate(self.session.value_to_move()):.0%}"

    def hints(self) -> list[str]:
        """The best moves, a line each."""
        session, game = self.session, self.session.game
        session.think(None)
        return [
            f"{game.move_name(session.state[0], found.action):<5} winrate {winrate(found.value_to_move):4.0%}   "
            f"{found.visits:5d} visits   prior {found.prior:4.0%}   "
            f"{' '.join(game.line_names(session.state, found.variation[:HINT_MOVES]))}"
            for found in session.candidates()[:HINTS]
        ]


class BuiltinOpponent(Opponent):
    """``random`` or ``heuristic``: a player without values."""

    def __init__(self, kind: str, game: Game, seed: int | None) -> None:
        """seed: of its choice among equal moves; None: another every time."""
        super().__init__(kind, SearchSession(game, _no_network, SearchOptions(), 0))
        self._player = make_builtin(kind)(game, 1, 0)
        self._rng = np.random.default_rng(seed)

    def choose(self) -> tuple[int, str]:
        """Plays the game again for the player, which knows nothing of moves taken back."""
        self._player.new_games(ROW, self._rng.integers(0, 2**63, 1, np.uint64))
        for action in self.session.moves:
            self._player.advance(ROW, np.array([action], np.int32))
        self._player.begin(ROW)
        return int(self._player.step().actions[0]), ""

    def hints(self) -> list[str]:
        move = self.choose()[0]
        return [f"{self.name} would play {self.session.game.move_name(self.session.state[0], move)}"]


class Table:
    """One game between a person and an opponent."""

    def __init__(self, opponent: Opponent, person: int, say: Callable[[str], None]) -> None:
        """person: 0 if they move first, 1 if second. say: shows a line, or several."""
        self.ended = False
        self._opponent, self._session = opponent, opponent.session
        self._game: Any = opponent.session.game
        self._person, self._say = person, say
        self._movers: list[int] = []
        self._resigned = False
        self._saved: set[Path] = set()  # by this game: it may replace them

    def close(self) -> None:
        """End what plays, if that takes anything."""

    def begin(self) -> None:
        mark, theirs = "XO"[self._person], "XO"[1 - self._person]
        example = self._game.move_name(self._session.state[0], int(np.flatnonzero(self._session.legal())[0]))
        self._say(f"You play {mark}, {self._opponent.name} plays {theirs}. Type a move ({example}), or help.")
        self._draw()
        self._let_opponent_move()

    def answer(self, line: str) -> None:
        """Do what a line says, or say why not."""
        word, _, rest = line.partition(" ")
        try:
            match word.lower():
                case "":
                    return
                case "help":
                    self._say("\n".join(f"{name:<9} {text}" for name, text in COMMANDS.items()))
                case "quit" | "exit":
                    self.ended = True
                case "hint":
                    self._refuse_if_over()
                    self._hint()
                case "undo":
                    self._undo()
                case "resign":
                    self._refuse_if_over()
                    self._resigned = True
                    self._say(self._result())
                case "sgf":
                    self._save(rest.strip())
                case _:
                    self._refuse_if_over()
                    self._move(line)
        except MuGoError as error:
            self._say(f"? {error}")

    def _hint(self) -> None:
        self._let_opponent_move()  # it is its turn still where it has failed
        if not self._is_over():
            self._say("\n".join(self._opponent.hints()))

    # Moves

    def _move(self, text: str) -> None:
        if self._session.to_move != self._person:  # it has failed; what is typed was meant for another position
            self._let_opponent_move()
            return
        try:
            self._play(self._game.parse_move(self._session.state[0], text[:LONGEST_MOVE]))
        except IllegalMove as error:
            reason = str(error).rpartition(": ")[2]  # without the game and the row
            raise UsageError(f"{reason}; help lists what else can be typed") from error
        self._let_opponent_move()

    def _let_opponent_move(self) -> None:
        while not self._is_over() and self._session.to_move != self._person:
            action, said = self._opponent.choose()
            name = self._game.move_name(self._session.state[0], action)
            self._say(f"{self._opponent.name}: {name}" + (f"   ({said})" if said else ""))
            self._play(action)

    def _play(self, action: int) -> None:
        mover = self._session.to_move
        self._session.play(action)
        self._movers.append(mover)
        self._draw()
        if self._is_over():
            self._say(self._result())

    def _undo(self) -> None:
        """To the person's last turn; where they have resigned, that alone."""
        if self._resigned:
            self._resigned = False
        elif self._person not in self._movers:
            raise UsageError("you haven't moved yet")
        else:
            while True:
                self._session.undo()
                if self._movers.pop() == self._person:
                    break
        self._draw()

    # What is said

    def _draw(self) -> None:
        self._say(self._game.diagram(self._session.state[0]) + "\n")

    def _is_over(self) -> bool:
        return self._resigned or self._session.is_over

    def _refuse_if_over(self) -> None:
        if self._is_over():
            raise UsageError("the game is over; undo, sgf FILE or quit")

    def _result(self) -> str:
        score = float(self._game.scores(self._session.state)[0])
        if self._resigned:
            score, how = float(2 * self._person - 1), " by resignation"
        else:
            form = self._game.sgf
            how = f" by {abs(score):g}" if form is not None and form.margin else ""
        if not score:
            return "The game is over: a draw."
        winner = int(score < 0)
        return f"The game is over: {'XO'[winner]} wins{how}. " + ("You win." if winner == self._person else "You lose.")

    def _save(self, name: str) -> None:
        if not name:
            raise UsageError("wanted sgf FILE")
        path = self._path(name)
        form = format_to_write(self._game, path.suffix.lower())
        names = ["a person", self._opponent.name]
        text = RecordText(*(names if self._person == 0 else names[::-1]))
        atomic.write_text(
            path, form.write(self._game, PlayedGame(self._moves(), text, resigned_by=self._resigned_by()))
        )
        self._saved.add(path)
        self._say(f"written: {path}")

    def _moves(self) -> list[int]:
        return self._session.moves

    def _resigned_by(self) -> int | None:
        return self._person if self._resigned else None

    def _path(self, name: str) -> Path:
        """Of a new file, or of one that this game has written. Raises UsageError."""
        try:
            path = Path(name).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"{name[:LONGEST_MOVE]!r} is no file name ({error})") from error
        with atomic.os_errors(path):
            if path.exists() and path not in self._saved:
                raise UsageError(f"{path} exists; choose another name")
        return path


def _game_of(config: PlayConfig) -> tuple[AnyGame, Model | None]:
    """What is played, and the model that plays it; None: another opponent."""
    if config.model in BUILT_INS:
        return parse_game(config.game or DEFAULT_GAME), None
    if is_engine(config.model):
        kind = kind_named(parse_player(config.model).kind)
        return parse_game(config.game or kind.default_game or DEFAULT_GAME), None
    model = read_model(resolve_champion(Path(config.model)))
    if config.game is not None and parse_game(config.game).spec != model.info.game:
        raise UsageError(f"play --game {config.game}: {model.path} plays {model.info.game}; leave --game out")
    return parse_game(model.info.game), model


def _open_model(config: PlayConfig, model: Model, progress: Progress) -> Opponent:
    progress.say(f"loading {config.model}; kernels and network are compiled when this machine sees them first")
    search = EngineConfig(model=Path(config.model), readouts=config.readouts, backend=config.backend)
    session, _ = open_session(model, search, progress)
    session.warm_up()
    return Opponent(model.info.name, session)


def _open_builtin(config: PlayConfig) -> Opponent:
    game = parse_game(config.game or DEFAULT_GAME)
    if config.model not in BUILT_INS:
        spec = parse_player(config.model)
        kind_named(spec.kind).check_game(game, config.model, spec.argument)
        raise UsageError(f"play {config.model}: engines to play against are for games with dice; wanted a model")
    return BuiltinOpponent(config.model, game.without_move_limit(), config.seed)


def _no_network(planes: Planes) -> Evaluation:
    raise AssertionError("a built-in player asks no network")
