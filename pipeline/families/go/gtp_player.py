"""``GtpPlayer``: engines of Go behind pipes, which speak the Go Text Protocol.

Each row has a process of its own, started when that row must first move and kept for the row's later games. The player
remembers the position on an engine's board, and sends the missing moves just before the engine must move; the engine's
own moves are on its board already. An engine whose board isn't the beginning of the game at hand is cleared and sent
all moves.

Rules and komi: boardsize, clear_board and komi are sent, and handicap stones (set_free_handicap, or as black's moves
where an engine doesn't know that); all other rules must be set by the command line (gnugo: ``--chinese-rules
--capture-all-dead --positional-superko``; with ``--never-resign`` the board decides every game). By our rules white
gets no points for handicap stones. Many engines give a point for each (GNU Go by Chinese rules): how many is found out
once, on a board that is all black, and the komi is that much lower, so that both count alike. That takes an engine that
knows ``final_score``; of another one it is believed that it gives none.

An engine that knows ``set_random_seed`` (not part of the protocol; GNU Go has it) gets the game's seed, so that the
game can be repeated. Engines aren't told any time limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import IllegalMove
from pipeline.families.go.gtp_engine import GtpEngine, parse_score
from pipeline.games.contract import Game
from pipeline.players.player import RESIGN, PlayerFault
from pipeline.players.process_player import ProcessPlayer, Question

COLOURS = ("black", "white")
SEED_COMMAND = "set_random_seed"
SET_COMMAND = "set_free_handicap"
SCORE_COMMAND = "final_score"
NUM_SEEDS = 1 << 31  # GNU Go reads a C int


def set_up_board(engine: GtpEngine, game: Game, seed: int, seconds: float, bonus: float = 0.0) -> None:
    """The empty board of this game, and the seed if the engine takes one. Raises PlayerFault.

    The komi is the game's, less what the engine gives white besides.
    """
    assert game.gtp_komi is not None
    engine.send(f"boardsize {game.board_shape[0]}", seconds)
    engine.send("clear_board", seconds)
    engine.send(f"komi {game.gtp_komi - bonus:g}", seconds)
    if SEED_COMMAND in engine.commands:
        engine.send(f"{SEED_COMMAND} {seed % NUM_SEEDS}", seconds)


def set_up_stones(
    engine: GtpEngine, game: Game, stones: Sequence[int], seed: int, seconds: float, bonus: float = 0.0
) -> None:
    """The same with these handicap stones of black's on it: as a handicap, if the engine knows that, or as moves."""
    set_up_board(engine, game, seed, seconds, bonus)
    named = [game.action_name(point) for point in stones]
    if SET_COMMAND in engine.commands:
        engine.send(f"{SET_COMMAND} {' '.join(named)}", seconds)
    else:
        for vertex in named:
            engine.send(f"play {COLOURS[0]} {vertex}", seconds)


def white_bonus(engine: GtpEngine, game: Game, stones: Sequence[int], seconds: float) -> float:
    """How many points the engine gives white for these handicap stones; 0 if it knows no final_score.

    Black fills a board but for two eyes while white passes, so that nobody can count it in two ways. Raises PlayerFault
    "protocol" for what can't be such a bonus: then its rules aren't ours.
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
    assert game.gtp_komi is not None
    wanted = game.num_points - game.gtp_komi
    found = parse_score(engine.name, engine.send(SCORE_COMMAND, seconds))
    if not 0 <= wanted - found <= len(stones):
        problem = (
            f"counts {found:+g} for black, with {len(stones)} handicap stones and komi {game.gtp_komi:g}, where the "
            f"whole board is black's; wanted {wanted:+g}, or up to {len(stones)} less for the stones; are the engine's "
            "rules ours (area scoring)?"
        )
        raise PlayerFault("protocol", engine.name, problem)
    return wanted - found


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
