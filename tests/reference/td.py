"""TD(λ) of one game, by summing up the errors of all later turns: the plain twin of
``families/backgammon/td/targets.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

Chances = Sequence[float]


def other(chances: Chances) -> list[float]:
    """As the other player sees them."""
    if len(chances) == 1:
        return [1 - chances[0]]
    win, win_2, win_3, lose_2, lose_3 = chances
    return [1 - win, lose_2, lose_3, win_2, win_3]


def discounted(chances: Chances, gamma: float) -> list[float]:
    return [0.5 + gamma * (chances[0] - 0.5), *(gamma * chance for chance in chances[1:])]


def mean_of_n_steps(after_move: Sequence[Chances], turn: int, td_lambda: float, gamma: float) -> list[float]:
    """The target of a turn as the textbook has it: (1 - λ) Σ λ^(n-1) G^(n), and λ^(N-1) G^(N) for the result.

    after_move [K]: what was said after each move, seen by its mover; the last is the result.
    """
    last = len(after_move) - 1
    total = [0.0] * len(after_move[0])
    for n in range(1, last - turn + 2):
        seen = list(after_move[turn + n - 1])
        # The n-step return: the value n turns ahead, discounted for each; a result isn't.
        for step in range(n - 1, -1, -1):
            if step < n - 1:
                seen = other(seen)
            if turn + step < last:
                seen = discounted(seen, gamma)
        weight = td_lambda ** (n - 1) * (1.0 if turn + n - 1 == last else 1 - td_lambda)
        total = [t + weight * s for t, s in zip(total, seen, strict=True)]
    return total
