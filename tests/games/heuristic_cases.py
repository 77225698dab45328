"""What a heuristic evaluation wants, as diagrams: X is the first player, O the second.

* marks where the mover must want to play: the best moves are some of these and nothing else.
? marks where it must not play: where the game has a pass, it would rather pass. Everything else is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.games.contract import Game, History, States

STONES = {"X": 1, "O": 2}


@dataclass(frozen=True)
class Case:
    name: str
    mover: str
    diagram: str


def move_scores(game: Game, states: States, history: History) -> np.ndarray:
    evaluate = game.heuristic()
    assert evaluate is not None
    return evaluate(states, history)


def stones_and_mover(case: Case) -> tuple[int, int]:
    """How many stones the diagram shows, and whose turn it is: 0 or 1."""
    return sum(mark in STONES for mark in case.diagram.split()), "XO".index(case.mover)


def set_up(game: Game, case: Case, words: Mapping[int, int]) -> tuple[States, History]:
    """The position of a diagram. words: what follows the points in the game's state, by its place there."""
    states = game.initial(1)
    states[0, : game.num_points] = [STONES.get(mark, 0) for mark in case.diagram.split()]
    for word, value in words.items():
        states[0, game.num_points + word] = value
    return states, game.initial_history(states)


def check(game: Game, case: Case, words: Mapping[int, int], passes: bool = False) -> None:
    """passes: whether the pass is among the moves that it must want."""
    states, history = set_up(game, case, words)
    scores = move_scores(game, states, history)[0]
    legal = game.legal(states, history)[0]
    np.testing.assert_array_equal(np.isfinite(scores), legal)
    best = set(np.flatnonzero(scores == scores.max()).tolist())
    report = f"{game.diagram(states[0])}\nbest: {sorted(map(game.action_name, best))}"
    width = game.board_shape[1]
    falls = game.num_actions == width
    marks = case.diagram.split()
    stars, unwanted = (
        {point % width if falls else point for point, mark in enumerate(marks) if mark == wanted} for wanted in "*?"
    )
    if passes:
        stars.add(game.pass_action)
    assert stars or unwanted, "the case says nothing"
    assert not stars or best <= stars, report
    floor = scores.max() if game.pass_action is None else scores[game.pass_action]
    assert all(scores[action] < floor for action in unwanted), report
