"""Finished boards of 5×5 Go, and a network that knows who has won and counts stones."""

from __future__ import annotations

import numpy as np

from pipeline.games.margins import MarginNetwork, squash
from pipeline.games.specs import parse_game
from pipeline.networks.modules import Estimates

GO = parse_game("go:5,komi=0.5")
# Both sides have two eyes. White is 5.5 points ahead.
SETTLED = """
    . X O . O
    X X O O O
    . X O . O
    X X O O O
    X X O O O
"""
# The same with a black stone that can't live: white is 6.5 points ahead once it is captured, now 3.5.
DEAD_STONE = """
    . X O O O
    X X O . O
    . X O X .
    X X O O O
    X X O . O
"""
# White is 1.5 points ahead once the black stone is captured. As long as it stands there, black is ahead.
BEHIND_BY_A_DEAD_STONE = """
    . X O O O
    X X O . O
    . X O X .
    X X X O O
    X X X O .
"""


def position(rows: str, to_move: int):
    """[1, S]"""
    board = "".join(rows.split())
    return GO.position(*([i for i, at in enumerate(board) if at == stone] for stone in "XO"), to_move)


def stones(planes) -> tuple[np.ndarray, np.ndarray]:
    """[B, P] own and the opponent's."""
    own, theirs = (planes[:, GO.plane_names.index(name)] for name in ("own stones", "opponent's stones"))
    return own.reshape(len(planes), -1).astype(np.float32), theirs.reshape(len(planes), -1).astype(np.float32)


def white_wins(value: float = 0.99):
    """White is sure of winning; no move is likelier than another."""

    def evaluate(planes):
        white = planes[:, GO.plane_names.index("white to move")].any(axis=(1, 2))
        logits = np.zeros((len(planes), GO.num_actions), np.float32)
        return logits, np.where(white, value, -value).astype(np.float32)

    return evaluate


def counted(owned=None) -> MarginNetwork:
    """The margin is that of the stones on the board. owned: the expected owners [P], +1 white; None: of the stones."""

    def evaluate(planes):
        own, theirs = stones(planes)
        return np.zeros((len(planes), GO.num_actions), np.float32), squash((own - theirs).sum(axis=1), GO.num_points)

    def owners(planes):
        own, theirs = stones(planes)
        white = planes[:, GO.plane_names.index("white to move")].any(axis=(1, 2))[:, None]
        return own - theirs if owned is None else np.where(white, owned, -owned)

    return MarginNetwork(evaluate, owners)


def behind(lead: float):
    """An estimator that sees black behind by this much."""

    def estimate(planes):
        white = planes[:, GO.plane_names.index("white to move")].any(axis=(1, 2))
        owners = np.zeros((len(planes), GO.num_points), np.float32)
        return Estimates(owners, np.where(white, -lead, lead).astype(np.float32))

    return estimate
