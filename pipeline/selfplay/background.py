"""``selfplay --background``: games beside other commands, generation after generation, until somebody stops it.

Games that are under way when a model is trained or promoted go on, so nothing waits for the last games of a generation,
and cores are busy while other commands start, read files or wait. Whoever gathers meanwhile sees its games come in as
those of any worker. What it plays with is looked up for each new model; only where a setting has changed does it begin
anew, and unfinished games are lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pipeline.errors import FileError
from pipeline.progress import Progress
from pipeline.run.models import NewestNumber, resolve_champion
from pipeline.run_state import state_of_next
from pipeline.schedules import RunState
from pipeline.selfplay.command import SelfplaySummary, play, told_once
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import Played, alone, check_lead

MANY = 1_000_000  # games; after so many it begins anew
LOOK_SECONDS = 1.0  # between two looks for a new model
PATIENCE_SECONDS = 5.0  # for whoever only looks whether somebody plays

SettingsAt = Callable[[RunState], SelfplayConfig]
"""The settings that hold in a state of the run."""


def play_on(config: SelfplayConfig, settings_at: SettingsAt, progress: Progress) -> Iterator[SelfplaySummary]:
    """Play until interrupted, and say what was played whenever it begins anew.

    Of config only the paths, the worker and time_share matter: the share of time is that of the newest model, or this
    one where the model says none. Raises what selfplay() does, NotYet also when train falls behind (max_lead).
    """
    skip = told_once(progress)
    with alone(config, PATIENCE_SECONDS):
        while True:
            round = _Round(config, settings_at, skip)
            yield play(round.config, progress, skip, round.over)


class _Round:
    """As long as one config holds. config: that one."""

    def __init__(self, config: SelfplayConfig, settings_at: SettingsAt, on_damage: Callable[[FileError], None]) -> None:
        self._time_share, self._settings_at = config.time_share, settings_at
        self._played = Played(config.output_dir, on_damage)
        self._folder = resolve_champion(config.network).parent
        self._newest = NewestNumber(self._folder)
        self._generation = self._newest()
        self._next_look = time.monotonic() + LOOK_SECONDS
        self.config = self._settings()

    def _settings(self) -> SelfplayConfig:
        now = self._settings_at(state_of_next(self._folder, self._time_share))
        return now.model_copy(update={"games": MANY, "top_up": False, "time_share": None})

    def over(self) -> bool:
        """Whether to begin anew: with other settings, or to calibrate the threshold for resigning on more games."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_SECONDS
        newest = self._newest()
        check_lead(self.config, newest, self._played)
        if newest == self._generation:
            return False
        self._generation = newest
        calibrates = self.config.resign_false_rate > 0 and newest & (newest - 1) == 0  # 1, 2, 4, 8, …
        return calibrates or self._settings() != self.config
