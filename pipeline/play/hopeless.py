"""When a model resigns a game against a person: as people do, who play close games to the end."""

from __future__ import annotations

from pipeline.games.contract import AnyGame

HOPELESS = -0.95  # the value of a lost position, at two of a player's moves in a row


def resigns(game: AnyGame, value_to_move: float, lead_to_move: float | None) -> bool:
    """Whether a position is so bad that people resign. lead_to_move: in the unit of scores(); None: not known."""
    behind = game.resigned_behind
    if behind is None or value_to_move > HOPELESS:
        return False
    return lead_to_move is None or lead_to_move <= -behind
