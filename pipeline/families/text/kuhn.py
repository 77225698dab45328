"""Kuhn poker in which bets count, and an exact equilibrium of Kuhn poker.

TextArena 0.7.4's ``KuhnPoker-v0`` never adds bets to the pot, and only says who won. ``KuhnChips-v0`` is the same
environment with the rules as they are known: a bet and a call cost a chip, and rewards are the chips won. Source: Kuhn
1950, "A simplified two-person poker". Imports textarena, so it is imported only where that environment is asked for.
"""

from __future__ import annotations

import re
from typing import Any

from textarena.envs.KuhnPoker.env import KuhnPokerEnv

_BETS = re.compile(r"\[(bet|call)\]", re.IGNORECASE)


class KuhnChips(KuhnPokerEnv):  # type: ignore[misc]
    """See the module docstring."""

    def step(self, action: str) -> tuple[bool, Any]:
        facts, found = self.state.game_state, _BETS.search(action)
        if found and found[1].lower() in facts["current_legal_action_tree"]:
            facts["pot"] += 1
            facts["player_chips"][self.state.current_player_id] -= 1
        done, info = super().step(action)
        if done and not any(self.state.game_info[player].get("invalid_move") for player in (0, 1)):
            # Antes are paid once more when all rounds are over; the difference is right all the same.
            chips = (facts["player_chips"][0] - facts["player_chips"][1]) / 2
            self.state.rewards = {0: chips, 1: -chips}
        return done, info
