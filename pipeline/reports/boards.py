"""Positions and moves as text, for ``show``.

Axes: T plies of one game, A actions, C planes, H×W the board.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Game, Planes

TOP_MOVES = 5


def top_moves(game: Game, actions: NDArray[np.integer], weights: NDArray[np.number], unit: str = "") -> str:
    """The heaviest of some actions, e.g. "D4 18 (56%)  E5 9 (28%)  and 3 more".

    actions [n], weights [n] visits or probabilities; unit "" leaves the weight itself out and shows shares only.
    """
    total = float(weights.sum())
    if total <= 0:
        return "none"
    order = np.argsort(-weights.astype(np.float64), kind="stable")
    order = order[weights[order] > 0]
    shown = []
    for i in order[:TOP_MOVES]:
        share = f"{100 * float(weights[i]) / total:.0f}%"
        name = game.action_name(int(actions[i]))
        shown.append(f"{name} {int(weights[i])}{unit} ({share})" if unit else f"{name} {share}")
    left = len(order) - len(shown)
    return "  ".join(shown) + (f"  and {left} more" if left else "")


def planes_diagram(game: Game, planes: Planes) -> str:
    """A position as the network sees it, planes [C, H, W], X the mover's stones; and which planes are full."""
    lines = [game.planes_diagram(planes)]
    full = [name for name, plane in zip(game.plane_names, planes, strict=True) if plane.all()]
    if full:
        lines.append(f"planes all 1: {', '.join(full)}")
    return "\n".join(lines)
