"""Positions and moves as text, for ``show``.

Axes: T plies of one game, A actions, C planes, H×W the board.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Game, Planes

TOP_MOVES = 5
OWN_STONES, OPPONENTS_STONES = "own stones", "opponent's stones"  # planes that every game of stones has


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
    """A position as the network sees it [C, H, W]: X the mover's stones, O the opponent's; and what full planes say."""
    lines = []
    if {OWN_STONES, OPPONENTS_STONES} <= set(game.plane_names):
        own = planes[game.plane_names.index(OWN_STONES)]
        opponents = planes[game.plane_names.index(OPPONENTS_STONES)]
        lines += [" ".join(".XO"[min(2, mine + 2 * theirs)] for mine, theirs in zip(*row, strict=True)) for row in
                  zip(own.tolist(), opponents.tolist(), strict=True)]  # fmt: skip
    full = [name for name, plane in zip(game.plane_names, planes, strict=True) if plane.all()]
    if full:
        lines.append(f"planes all 1: {', '.join(full)}")
    return "\n".join(lines)
