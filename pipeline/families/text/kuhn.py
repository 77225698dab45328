"""``KuhnChips-v0``: Kuhn poker in which bets count.

TextArena 0.7.4's ``KuhnPoker-v0`` never adds bets to the pot and rewards only the winner. ``KuhnChips-v0`` is the same
environment with the standard rules: a bet or a call costs one chip, and rewards are the chips won. Source: Kuhn 1950,
"A simplified two-person poker". Imports textarena, so import this module only for that environment.
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
            # The environment takes both antes once more after the last round; the difference is still right.
            chips = (facts["player_chips"][0] - facts["player_chips"][1]) / 2
            self.state.rewards = {0: chips, 1: -chips}
        return done, info
