"""What the loop says about the champion: its score against the players that every run has, and Elo from the first on.

These matches are short, and measure only: they take at most MOST_TIME of the loop's time, except the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pipeline.errors import MuGoError, UsageError
from pipeline.games.specs import parse_game
from pipeline.phrases import sparkline
from pipeline.players.kinds import kind_named
from pipeline.ratings.command import rate, read_matches
from pipeline.reports.show_models import strength
from pipeline.run import layout
from pipeline.run.models import present_champion, read_champions, read_info

OPPONENTS = ("random", "heuristic")
GAMES = 20  # against each
FIRST_SECONDS = 60.0  # of the loop, before which it says nothing: a run that is over sooner needn't
MOST_TIME = 0.04
BARS = 60  # of the line of Elo


class Strength:
    """Measures each champion once, as far as time allows."""

    def __init__(self, play: Callable[[Path, str], object], say: Callable[[str], None]) -> None:
        """play: plays GAMES games of this model against this player, if it can."""
        self._play, self._say = play, say
        self._measured = ""

    def show(self, seconds: float, measuring: float, is_last: bool) -> None:
        """Measure the champion and say what was found, if it is new and this is affordable.

        seconds: of the loop; measuring: those of them that went into this.
        """
        champion = present_champion(layout.SAVED_MODELS)
        if champion is None or champion.name == self._measured or seconds < FIRST_SECONDS:
            return
        if not is_last and measuring > MOST_TIME * seconds:
            return
        with suppress(MuGoError):  # the commands report damaged files
            info = read_info(champion)
            game = parse_game(info.game)
            for opponent in OPPONENTS:
                with suppress(UsageError):  # not every game has a heuristic
                    kind_named(opponent).check_game(game, opponent, "")
                    self._play(champion, opponent)
            self._measured = champion.name
            self._say(f"champion {champion.name} {strength(champion, info)}")
            self._say_elo()

    def _say_elo(self) -> None:
        rated = rate(read_matches([layout.MATCHES])).ratings
        elo = {player.name.partition("@")[0]: player.bradley_terry for player in rated.players}
        line = [elo[path.name] for path in read_champions(layout.SAVED_MODELS) if path.name in elo][-BARS:]
        if len(line) > 1:
            self._say(f"Elo of the champions {sparkline(line)} {line[0]:+.0f} to {line[-1]:+.0f}; {rated.anchor} is 0")
