"""Decided positions of a game in which a player may only pass if there is no other move."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pipeline.games.specs import parse_game
from pipeline.players.endings import Endings
from pipeline.search.options import PlaySearchOptions


def test_a_forced_pass_is_valued_though_the_opponent_may_not_pass() -> None:
    game, rng = parse_game("othello:6"), np.random.default_rng(0)
    states = game.initial(64)
    history = game.initial_history(states)
    rows = np.arange(64)
    while True:
        past = history.select(rows)
        legal = game.legal(states[rows], past)
        passing = legal[:, game.pass_action]
        if passing.any():
            break
        actions = (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32)
        states[rows] = game.play(states[rows], actions, past)
        rows = rows[~game.is_over(states[rows])]
        history.append(rows, game.keys(states[rows]))
    evaluate = lambda planes: (None, np.full(len(planes), -0.75, np.float32))  # noqa: E731
    endings = Endings(game, 64, evaluate, None, PlaySearchOptions(), 1, 1)
    values = endings._after_pass(SimpleNamespace(states=states, history=history), rows[passing])
    over = game.is_over(endings._passed(states[rows[passing]], history.select(rows[passing])))
    assert not over.all() and (values[~over] == 0.75).all()
