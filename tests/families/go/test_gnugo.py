"""GNU Go as an outside oracle of Go's rules: legal moves, captures and scores.

GNU Go runs once per test: all commands go in at once, all answers are read at the end.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pipeline.families.go.game import Go
from pipeline.games.contract import History, States
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.games.playing import assert_same_board

GNUGO = shutil.which("gnugo") or next((path for path in ["/usr/games/gnugo"] if Path(path).is_file()), None)
RULES = ["--chinese-rules", "--capture-all-dead", "--positional-superko", "--forbid-suicide"]

pytestmark = pytest.mark.skipif(GNUGO is None, reason="GNU Go is not installed (Debian: apt install gnugo)")


def ask_gnugo(commands: list[str]) -> list[str]:
    """GNU Go's answers to GTP commands. Fails with GNU Go's words at the first command that it refuses."""
    assert GNUGO is not None
    done = subprocess.run(
        [GNUGO, "--mode", "gtp", "--level", "1", *RULES],
        input="\n".join(commands) + "\nquit\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = done.stdout.split("\n\n")
    for at, (command, answer) in enumerate(zip(commands, answers, strict=False)):
        assert answer.startswith("="), f"command {at}, {command!r}, after {commands[at - 3 : at]}: GNU Go says {answer}"
    assert len(answers) >= len(commands)
    return [answer[1:].strip() for answer in answers[: len(commands)]]


def points_of(game: Go, vertices: str) -> list[int]:
    """[P] 1 where one of the blank-separated vertices is."""
    marks = [0] * game.num_points
    for vertex in vertices.split():
        marks[game.parse_action(vertex)] = 1
    return marks


@pytest.mark.parametrize(
    ("spec", "num_games"), [("go:5,moves=200", 40), ("go:7,moves=200", 20), ("go:9,moves=300", 10), ("go:13", 2)]
)
def test_gnugo_allows_the_same_moves_and_captures_the_same_stones(spec: str, num_games: int) -> None:
    """At every ply of random games: all_legal of the player to move, and both players' stones after the move."""
    game = parse_game(spec)
    assert isinstance(game, Go)
    steps = list(random_games(game, num_games, seed=11))
    for row in range(num_games):
        commands = [f"boardsize {game.size}", "clear_board"]
        wanted: list[tuple[int, States, np.ndarray]] = []
        for step in steps:
            if row not in step.rows:
                break
            i = int(np.searchsorted(step.rows, row))
            colour = ("black", "white")[game.to_move(step.states)[i]]
            name = game.action_name(int(step.actions[i]))
            commands += [f"all_legal {colour}", f"play {colour} {name}", "list_stones black", "list_stones white"]
            wanted.append((len(commands) - 4, step.after[i, : game.num_points], step.legal[i, :-1]))
        answers = ask_gnugo(commands)
        for at, stones, legal in wanted:
            where = f"{spec}, game {row}, {commands[at + 1]}: GNU Go, ours"
            assert_same_board(points_of(game, answers[at]), legal, game.size, f"legal: {where}")
            black, white = points_of(game, answers[at + 2]), points_of(game, answers[at + 3])
            theirs = np.array(black) - np.array(white)
            ours = (stones == 1).astype(int) - (stones == 2)
            assert_same_board(theirs, ours, game.size, f"stones: {where}")


def settled_game(game: Go, rng: np.random.Generator) -> tuple[list[int], States]:
    """A random game in which a player passes only if all legal moves fill own one-point eyes. -> actions, end."""
    states = game.initial(1)
    history: History = game.initial_history(states)
    actions = []
    while not game.is_over(states)[0]:
        stones = np.full(
            (game.size + 2, game.size + 2), int(game.to_move(states)[0]) + 1
        )  # the edge is like own stones
        stones[1:-1, 1:-1] = states[0, : game.num_points].reshape(game.size, game.size)
        own = stones == int(game.to_move(states)[0]) + 1
        eyes = own[:-2, 1:-1] & own[2:, 1:-1] & own[1:-1, :-2] & own[1:-1, 2:]
        useful = np.flatnonzero(game.legal(states, history)[0, :-1] & ~eyes.ravel())
        actions.append(int(rng.choice(useful)) if useful.size else game.pass_action)
        states = game.play(states, np.array([actions[-1]], np.int32), history)
        history.append(np.arange(1), game.keys(states))
    return actions, states


def has_atari(game: Go, states: States) -> bool:
    """Whether any group of a state has a single liberty."""
    planes = game.observe(states, np.zeros((1, game.num_actions), np.bool_))[0]
    return any(planes[game.plane_names.index(f"{side}, 1 liberty")].any() for side in ("own", "opponent's"))


@pytest.mark.parametrize(
    ("spec", "num_games"), [("go:5,komi=0.5,moves=480", 100), ("go:7,moves=480", 60), ("go:9,moves=480", 40)]
)
def test_gnugo_counts_the_same_score(spec: str, num_games: int) -> None:
    """Final scores of boards on which no stone needs to be judged.

    GNU Go removes stones that it considers dead; our rules don't. So the games go on until all legal moves of both
    sides fill own one-point eyes: then nothing can be captured, except by a move that superko forbids at the moment.
    Games that end with a group in atari (such a ban, which GNU Go judges differently), with neutral points (seki) or at
    the move limit aren't compared.
    """
    game = parse_game(spec)
    assert isinstance(game, Go)
    rng = np.random.default_rng(5)
    commands, wanted = [f"boardsize {game.size}", f"komi {game.komi}"], []
    for _ in range(num_games):
        actions, states = settled_game(game, rng)
        if len(actions) >= game.max_plies or (game.ownership(states)[0] == 0).any() or has_atari(game, states):
            continue
        commands.append("clear_board")
        commands += [f"play {('black', 'white')[ply % 2]} {game.action_name(a)}" for ply, a in enumerate(actions)]
        commands.append("final_score")
        score = float(game.scores(states)[0])
        wanted.append((len(commands) - 1, f"{'B' if score > 0 else 'W'}+{abs(score):.1f}", game.diagram(states[0])))
    answers = ask_gnugo(commands)
    assert len(wanted) > num_games / 2, "too few games were settled"
    for at, score, diagram in wanted:
        assert answers[at] == score, f"GNU Go {answers[at]}, ours {score}\n{diagram}"
