"""``GtpPlayer``: engines of Go behind pipes, which speak the Go Text Protocol.

Each row has an engine of its own, started when the row must first move and kept for its later games. The player
remembers the position on an engine's board and sends the missing moves just before the engine must move; the engine's
own moves are on its board already. If the board isn't the beginning of the present game, it is cleared and all moves
are sent.

Rules and komi: the player sends boardsize, clear_board and komi, and handicap stones (by set_free_handicap, or as
black's moves if the engine lacks that command). All other rules must be set on the command line (gnugo:
``--chinese-rules --capture-all-dead --positional-superko``; with ``--never-resign`` the board decides every game). By
our rules white gets no points for handicap stones. Many engines give one for each (GNU Go by Chinese rules). The player
measures this bonus once, on a board that is all black, and lowers the komi by it, so that both sides count alike. An
engine without ``final_score`` can't be measured and is assumed to give none.

An engine that knows ``set_random_seed`` (not part of the protocol; GNU Go has it) gets the game's seed, so that the
game can be repeated. Engines aren't told any time limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import IllegalMove
from pipeline.families.go.gtp_client import GtpEngine, parse_score
from pipeline.games.capabilities import Komi, usual_handicap
from pipeline.games.contract import Game
from pipeline.games.replay import handicap_start
from pipeline.players.player import RESIGN, PlayerFault
from pipeline.players.process_player import ProcessPlayer, Question

COLOURS = ("black", "white")
SEED_COMMAND = "set_random_seed"
SET_COMMAND = "set_free_handicap"
SCORE_COMMAND = "final_score"
# Asked for in this order. The second means the protocol's table, which is ours, too.
PLACE_COMMANDS = ("place_free_handicap", "fixed_handicap")
NUM_SEEDS = 1 << 31  # GNU Go reads a C int


def set_up_board(engine: GtpEngine, game: Game, seed: int, seconds: float, bonus: float = 0.0) -> None:
    """Send the empty board of this game, and the seed if the engine takes one. Raises PlayerFault.

    bonus: points that the engine gives white for handicap stones; they are taken off the komi.
    """
    assert isinstance(game, Komi)
    engine.send(f"boardsize {game.board_shape[0]}", seconds)
    engine.send("clear_board", seconds)
    engine.send(f"komi {game.komi - bonus:g}", seconds)
    if SEED_COMMAND in engine.commands:
        engine.send(f"{SEED_COMMAND} {seed % NUM_SEEDS}", seconds)


def set_up_stones(
    engine: GtpEngine, game: Game, stones: Sequence[int], seed: int, seconds: float, bonus: float = 0.0
) -> None:
    """set_up_board(), then black's handicap stones: as a handicap if the engine knows that, else as moves."""
    set_up_board(engine, game, seed, seconds, bonus)
    named = [game.action_name(point) for point in stones]
    if SET_COMMAND in engine.commands:
        engine.send(f"{SET_COMMAND} {' '.join(named)}", seconds)
    else:
        for vertex in named:
            engine.send(f"play {COLOURS[0]} {vertex}", seconds)


def white_bonus(engine: GtpEngine, game: Game, stones: Sequence[int], seconds: float) -> float:
    """How many points the engine gives white for these handicap stones; 0 if it doesn't know final_score.

    Black fills the board but for two eyes while white passes, so that the score is beyond doubt. Raises PlayerFault
    "protocol" if the difference can't be such a bonus: then the engine's rules aren't ours.
    """
    if SCORE_COMMAND not in engine.commands:
        return 0.0
    set_up_stones(engine, game, stones, 0, seconds)
    left = [point for point in range(game.num_points) if point not in stones]
    eyes = [left[0], next(point for point in left[1:] if point - left[0] not in (1, game.board_shape[1]))]
    for point in left:
        if point not in eyes:
            engine.send(f"play {COLOURS[1]} pass", seconds)
            engine.send(f"play {COLOURS[0]} {game.action_name(point)}", seconds)
    assert isinstance(game, Komi)
    wanted = game.num_points - game.komi
    found = parse_score(engine.name, engine.send(SCORE_COMMAND, seconds))
    if not 0 <= wanted - found <= len(stones):
        problem = (
            f"counts {found:+g} for black, with {len(stones)} handicap stones and komi {game.komi:g}, where the "
            f"whole board is black's; wanted {wanted:+g}, or up to {len(stones)} less for the stones; are the engine's "
            "rules ours (area scoring)?"
        )
        raise PlayerFault("protocol", engine.name, problem)
    return wanted - found


def place_handicap(
    game: Game,
    command: str,
    name: str,
    stones: int,
    seeds: Sequence[Sequence[int]],
    seconds: float,
    known: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """The points of the handicap stones of each game, as the engine of this command line places them.

    seeds: of each game, tried in turn until the placement differs from those known and those of the games before. If
    all fail, the last placement counts. (GNU Go has many placements and chooses by seed.) An engine without GTP's
    commands gets the points of the protocol's table. seconds: the limit of each answer. Raises PlayerFault, UsageError
    if there is no such program.
    """
    engine = GtpEngine(command, name, seconds)
    try:
        engine.handshake()
        place = next((one for one in PLACE_COMMANDS if one in engine.commands), None)
        if place is None:
            return [usual_handicap(game, stones) for _ in seeds]
        found: list[list[int]] = []
        taken = {frozenset(points) for points in known}
        for of_game in seeds:
            for seed in of_game:
                set_up_board(engine, game, seed, seconds)
                points = _points(game, name, place, stones, engine.send(f"{place} {stones}"))
                if frozenset(points) not in taken:
                    break
            taken.add(frozenset(points))
            found.append(points)
        return found
    finally:
        engine.close()


def _points(game: Game, name: str, place: str, stones: int, answer: str) -> list[int]:
    """Raises PlayerFault unless these are `stones` free points. GTP lets an engine place fewer; a match doesn't."""
    begin = f"answered {place} {stones} with {answer[:40]!r}"
    try:
        points = [game.parse_action(vertex) for vertex in answer.split()]
        handicap_start(game, points)
    except IllegalMove as error:
        raise PlayerFault("protocol", name, f"{begin}: {error}") from None
    if len(points) != stones:
        raise PlayerFault("protocol", name, f"{begin}, {len(points)} stones; wanted {stones}")
    return points


def _colour(question: Question, ply: int) -> str:
    """Who makes the move of this ply: by turns, white first where black has handicap stones."""
    return COLOURS[(ply + bool(question.stones)) % 2]


class _RowEngine(GtpEngine):
    """A row's process, and the game on its board. game_number: -1 before the first."""

    def __init__(self, command: str, name: str, seconds: float) -> None:
        self.game_number, self.moves = -1, list[int]()
        super().__init__(command, name, seconds)


class GtpPlayer(ProcessPlayer[_RowEngine]):
    """See the module docstring."""

    per_row = True

    def __init__(self, game: Game, num_rows: int, command: str, name: str, seconds: float) -> None:
        """game: one that GtpKind.check_game accepts. command: the engine's command line. seconds: time limit of each
        move; starting an engine and setting up a board may take START_SECONDS per command, as it may load a network.
        """
        self._go = game
        self._bonus: float | None = None  # points that it gives white for handicap stones; None: not known yet
        super().__init__(game, num_rows, name, lambda: _RowEngine(command, name, seconds))

    def _ask(self, engine: _RowEngine, question: Question, is_new: bool) -> int:
        if is_new:
            engine.handshake()
        self._bring_up_to_date(engine, question)
        vertex = engine.send(f"genmove {_colour(question, len(question.moves))}")
        if vertex.lower() == "resign":
            return RESIGN
        try:
            action = self._go.parse_action(vertex)
        except IllegalMove:
            problem = f"answered genmove with {vertex[:40]!r}; wanted a vertex of {self._go.spec}, pass or resign"
            raise PlayerFault("protocol", self._name, problem) from None
        hint = "; are the engine's rules ours (area scoring, positional superko, no suicide)?"
        engine.moves.append(self._allowed(question, self._go.action_name(action), action, hint))
        return action

    def _bring_up_to_date(self, engine: _RowEngine, question: Question) -> None:
        """Bring the engine's board to the position of the question."""
        known = len(engine.moves)
        if engine.game_number != question.game_number or tuple(engine.moves) != question.moves[:known]:
            limit = engine.start_seconds  # an engine may load something for a new board
            if question.stones:
                if self._bonus is None:
                    self._bonus = white_bonus(engine, self._go, question.stones, limit)
                set_up_stones(engine, self._go, question.stones, question.seed, limit, self._bonus)
            else:
                set_up_board(engine, self._go, question.seed, limit)
            engine.game_number, engine.moves = question.game_number, []
        for ply in range(len(engine.moves), len(question.moves)):
            action = question.moves[ply]
            engine.send(f"play {_colour(question, ply)} {self._go.action_name(action)}")
            engine.moves.append(action)
