"""How near is a model to perfect play, in games whose perfect play is known?

    python -m benchmarks.reach [--model saved_models/best_model] [--readouts N] [--positions 1000]

tictactoe  Plays games with both colours against an exact solver, which plays any best move, and against random play.
           Prints wins, draws and losses; a perfect player never loses.
connect4   Prints how often the model's move keeps the exact value in 1,000 fixed positions after 6 to 24 random plies:
           a won position stays won, a drawn one drawn; every move keeps a lost one. "where it matters": positions in
           which some legal move loses value. "random": the share of legal moves that keep it. Exact values come from
           BitBully (pip install bitbully).

Measures the model with search, as in matches (tictactoe with 32 readouts, connect4 with 200), and its raw policy. Takes
minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.strength import ending
from pipeline.errors import UsageError
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.lines.connect4 import ConnectFour
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.contract import Actions, BoolArray, FloatArray, Game, States
from pipeline.games.specs import parse_game
from pipeline.matches.statistics import Score, wilson_interval
from pipeline.players.loading import load_evaluators
from pipeline.players.player import Boards, Player, Rows
from pipeline.players.searching import SearchPlayer
from pipeline.progress import SILENT
from pipeline.run.models import read_model, resolve_champion

ROWS = 256  # games or positions per batch
FEWEST_PLIES, MOST_PLIES = 6, 24
READOUTS = {"tictactoe": 32, "connect4": 200}
NO_MOVE = -128  # in a table of values: the column is full
VALUE_NAMES = {1: "won", 0: "drawn", -1: "lost"}

Moves = tuple[int, ...]
Opponent = Callable[[States], Actions]


def decide(player: Player, rows: Rows) -> Actions:
    """[n] the player's moves in rows [n], n > 0. Raises the first fault that occurs."""
    actions = np.empty(rows.max() + 1, np.int32)  # by row
    player.begin(rows)
    missing = len(rows)
    while missing:
        decisions = player.step()
        for fault in decisions.faults.values():
            raise fault
        actions[decisions.rows] = decisions.actions
        missing -= len(decisions.rows)
    return actions[rows]


# Tic-tac-toe

Cells = tuple[int, ...]  # nine points: 0 empty, 1 the first player's, 2 the second's
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@cache
def solve(cells: Cells) -> int:
    """The exact result for the player to move: 1 won, 0 drawn, -1 lost. Plain minimax."""
    if any(cells[a] and cells[a] == cells[b] == cells[c] for a, b, c in LINES):
        return -1  # the opponent, who moved last, has completed a line
    return max((-solve(play_cell(cells, point)) for point in range(9) if not cells[point]), default=0)


def play_cell(cells: Cells, point: int) -> Cells:
    mover = 1 + sum(map(bool, cells)) % 2
    return (*cells[:point], mover, *cells[point + 1 :])


def best_points(cells: Cells) -> list[int]:
    """All moves that keep the exact value of a position, which isn't over."""
    return [point for point in range(9) if not cells[point] and -solve(play_cell(cells, point)) == solve(cells)]


def solver(seed: int, mistakes: bool = False) -> Opponent:
    """Plays a uniformly random exact best move; with mistakes, a uniformly random legal move."""
    rng = np.random.default_rng(seed)

    def choose(states: States) -> Actions:
        moves = []
        for state in states:
            cells: Cells = tuple(state[:9].tolist())
            free = [point for point in range(9) if not cells[point]]
            moves.append(rng.choice(free if mistakes else best_points(cells)))
        return np.array(moves, np.int32)

    return choose


def play_against(game: Game, player: Player, opponent: Opponent, num_games: int, first: bool, seed: int) -> FloatArray:
    """[num_games] the player's results with one colour, +1 for a win. Only for games in which players alternate."""
    everywhere = np.arange(num_games)
    boards = Boards(game, num_games)
    player.new_games(everywhere, everywhere.astype(np.uint64) + np.uint64(seed))
    own_turn = first
    while (going := everywhere[~boards.over(everywhere)]).size:
        actions = decide(player, going) if own_turn else opponent(boards.states[going])
        boards.advance(going, actions)
        player.advance(going, actions)
        own_turn = not own_turn
    returns = boards.returns(everywhere)
    return returns if first else -returns


def report_tictactoe(game: Game, players: dict[str, Player], num_games: int, seed: int) -> None:
    print(f"{'player':<12}{'colour':<8}{'opponent':<14}{'won':>6}{'drawn':>7}{'lost':>6}")
    lost = dict.fromkeys(players, 0)
    for name, player in players.items():
        for first in (True, False):
            for mistakes in (False, True):
                results = play_against(game, player, solver(seed, mistakes), num_games, first, seed)
                won, drawn, lost_here = (int((results == value).sum()) for value in (1, 0, -1))
                lost[name] += lost_here
                colour, opponent = "first" if first else "second", "any move" if mistakes else "exact solver"
                print(f"{name:<12}{colour:<8}{opponent:<14}{won:>6}{drawn:>7}{lost_here:>6}", flush=True)
    for name, number in lost.items():
        print(f"{name}: {number} lost of {4 * num_games}{'; never loses' if not number else ''}")


# Connect four


def draw_positions(count: int, seed: int = 0) -> list[Moves]:
    """Distinct positions that aren't over, as the uniformly random moves that lead there.

    Every length from FEWEST_PLIES to MOST_PLIES occurs equally often, give or take one.
    """
    game, rng = ConnectFour(), np.random.default_rng(seed)
    found: list[Moves] = []
    seen: set[bytes] = set()
    while len(found) < count:
        plies = FEWEST_PLIES + len(found) % (MOST_PLIES - FEWEST_PLIES + 1)
        boards, row = Boards(game, 1), np.array([0])
        moves: list[int] = []
        while len(moves) < plies and not boards.over(row)[0]:
            moves.append(int(rng.choice(np.flatnonzero(boards.legal(row)[0]))))
            boards.advance(row, np.array(moves[-1:], np.int32))
        key = boards.states.tobytes()
        if len(moves) == plies and not boards.over(row)[0] and key not in seen:
            seen.add(key)
            found.append(tuple(moves))
    return found


def exact_values(positions: Sequence[Moves]) -> NDArray[np.int8]:
    """[n, 7] the exact result (1, 0, -1) of each column for the player to move; NO_MOVE if the column is full.

    Raises UsageError if BitBully isn't installed.
    """
    try:
        from bitbully import BitBully, Board
    except ModuleNotFoundError as error:
        raise UsageError("exact values of connect four need BitBully: pip install bitbully") from error
    agent = BitBully()
    values = np.full((len(positions), ConnectFour.width), NO_MOVE, np.int8)
    for row, moves in enumerate(positions):
        for column, score in agent.score_all_moves(Board(list(moves))).items():
            values[row, column] = np.sign(score)
    return values


def moves_of(player: Player, positions: Sequence[Moves], num_rows: int, seed: int = 0) -> Actions:
    """[n] the moves of a player with num_rows rows in each position."""
    actions = np.empty(len(positions), np.int32)
    for begin in range(0, len(positions), num_rows):
        part = positions[begin : begin + num_rows]
        rows = np.arange(len(part))
        player.new_games(rows, np.arange(begin, begin + len(part), dtype=np.uint64) + np.uint64(seed))
        for ply in range(max(map(len, part))):
            going = np.array([row for row, moves in enumerate(part) if ply < len(moves)])
            player.advance(going, np.array([part[row][ply] for row in going], np.int32))
        actions[begin : begin + len(part)] = decide(player, rows)
    return actions


def keeps(values: NDArray[np.int8], actions: Actions) -> BoolArray:
    """[n] whether each action keeps its position's exact value. values [n, 7]: see exact_values()."""
    return values[np.arange(len(actions)), actions] == values.max(1)


def report_connect4(players: dict[str, Player], num_rows: int, positions: Sequence[Moves], seed: int) -> None:
    values = exact_values(positions)
    best = values.max(1)
    matters = np.array([np.unique(row[row != NO_MOVE]).size > 1 for row in values])
    classes = {name: best == value for value, name in VALUE_NAMES.items()}
    classes |= {"where it matters": matters, "all": np.ones(len(positions), bool)}
    print(f"{'value':<18}{'positions':>9}" + "".join(f"{name:>12}" for name in (*players, "random")))
    kept = {name: keeps(values, moves_of(player, positions, num_rows, seed)) for name, player in players.items()}
    chance = (values == best[:, None]).sum(1) / (values != NO_MOVE).sum(1)
    for name, chosen in classes.items():
        if chosen.any():
            shares = [*(kept[player][chosen].mean() for player in players), chance[chosen].mean()]
            print(f"{name:<18}{chosen.sum():>9}" + "".join(f"{share:>12.1%}" for share in shares))
    for name, mask in kept.items():
        low, high = wilson_interval(Score(wins=int(mask.sum()), losses=int((~mask).sum())))
        print(f"{name}: keeps the value in {mask.mean():.2%} ({low:.1%} to {high:.1%})")


def model_players(game: Game, path: Path, readouts: int, backend: str) -> dict[str, Player]:
    """The model with search, and its raw policy; ROWS rows each."""
    search = EvaluateConfig(margin_from=1).search_options()  # only the value counts here
    (evaluate,) = load_evaluators(read_model(path), ROWS, 1, backend, SILENT)
    return {
        "search": SearchPlayer(game, ROWS, evaluate, search, readouts),
        "raw policy": SearchPlayer(game, ROWS, evaluate, search, 0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("saved_models/best_model"))
    parser.add_argument("--readouts", type=int, help="simulations per move [default: tictactoe 32, connect4 200]")
    parser.add_argument("--games", type=int, default=100, help="tictactoe: games per colour and opponent")
    parser.add_argument("--positions", type=int, default=1000, help="connect4: number of positions")
    parser.add_argument("--seed", type=int, default=0, help="seed of positions, opponents and search")
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args(arguments)
    with ending(parser):
        path = resolve_champion(options.model)
        game = parse_game(read_model(path).info.game)
        if not isinstance(game, TicTacToe | ConnectFour):
            parser.error(f"--model {options.model}: it plays {game.spec}; wanted tictactoe or connect4")
        readouts = READOUTS[game.spec] if options.readouts is None else options.readouts
        print(f"{path.name}, {game.spec}, {readouts} readouts", flush=True)
        players = model_players(game, path, readouts, options.backend)
        if isinstance(game, ConnectFour):
            report_connect4(players, ROWS, draw_positions(options.positions, options.seed), options.seed)
        elif options.games > ROWS:
            parser.error(f"--games {options.games}: wanted at most {ROWS}")
        else:
            report_tictactoe(game, players, options.games, options.seed)


if __name__ == "__main__":
    main()
