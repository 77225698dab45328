"""``selfplay --background``: games beside other commands, generation after generation, until it is stopped.

Games in progress continue when a model is trained or promoted. Settings are looked up for each new model. Where one
has changed, self-play starts anew, and unfinished games are lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pipeline.progress import Progress
from pipeline.run.models import NewestNumber, home_of, resolve_champion, state_of_next
from pipeline.schedules import RunState
from pipeline.selfplay.command import SelfplaySummary, check_options, play
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import PlayedGames, alone

MANY = 1_000_000  # games, whose numbers are held in memory (45 MB); after this many it starts anew
LOOK_SECONDS = 1.0  # between two looks for a new model
PATIENCE_SECONDS = 5.0  # for processes that hold the lock only to see whether it is free

SettingsAt = Callable[[RunState], SelfplayConfig]  # the settings that hold in a state of the run


def play_on(config: SelfplayConfig, settings_at: SettingsAt, progress: Progress) -> Iterator[SelfplaySummary]:
    """Play until interrupted; yields a summary whenever it starts anew.

    Of config only the paths, the worker and time_share matter. The share of time is that of the newest model, or
    config's if the model has none. Raises what selfplay() does, NotYet also when train falls behind (max_lead).
    """
    with alone(config, PATIENCE_SECONDS):
        played = PlayedGames(config.output_dir, progress)
        while True:
            round = _Round(config, settings_at, played)
            check_options(round.config)
            yield play(round.config, progress, played, round.over)


class _Round:
    """The time for which one config holds."""

    def __init__(self, config: SelfplayConfig, settings_at: SettingsAt, played: PlayedGames) -> None:
        self._time_share, self._settings_at, self._played = config.time_share, settings_at, played
        self._folder = home_of(config.network, resolve_champion(config.network))
        self._newest = NewestNumber(self._folder)
        self._generation = self._newest()
        self._next_look = time.monotonic() + LOOK_SECONDS
        self.config = self._settings()

    def _settings(self) -> SelfplayConfig:
        now = self._settings_at(state_of_next(self._folder, self._time_share))
        return now.model_copy(update={"games": MANY, "top_up": False, "time_share": None})

    def over(self) -> bool:
        """Whether to start anew: with other settings, or to calibrate the resignation threshold on more games."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_SECONDS
        newest = self._newest()
        self._played.check_lead(self.config, newest)
        if newest == self._generation:
            return False
        self._generation = newest
        calibrates = self.config.resign_false_rate > 0 and newest & (newest - 1) == 0  # 1, 2, 4, 8, …
        return calibrates or self._settings() != self.config
