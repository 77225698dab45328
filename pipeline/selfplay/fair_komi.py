"""The komi that would have made the newest games of each board even.

A network may misjudge a board that it hardly knows, so this looks at how games ended, not at its values (KataGo's
self-play asks the network). A game says that a fair komi lies above its own by as much as the first player won by, or
below by as much as it lost by: at most MOST_LEAD, as much as a resignation counts. The fair komi is the mean of what
games say, so it moves until wins and losses are in balance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove
from pipeline.games.capabilities import komi_of, variant
from pipeline.games.contract import AnyGame, States
from pipeline.games.replay import replay_one
from pipeline.run.shards import BOTH, End, GameRecord, newest_shards, read_shard
from pipeline.selfplay.variety import HALF_POINTS, MOST_FAIR, within

GAMES = 40  # of a board; more would follow the players' progress too slowly
LEAST_GAMES = 8
MOST_READ = 4_000  # games that are looked through when a run starts, if a board has few
MOST_LEAD = 10.0  # points


class FairKomi:
    """games: one for each board, as in Variety."""

    def __init__(self, games: Sequence[AnyGame]) -> None:
        self._games = {game.spec: game for game in games}
        self._said: dict[str, deque[float]] = {spec: deque(maxlen=GAMES) for spec in self._games}  # oldest first

    def read(self, directory: Path) -> None:
        """Add the newest games under directory, before those known. Skips shards that can't be read; gather reports
        those.
        """
        seen = 0
        for meta in newest_shards(directory, on_damage=lambda error: None):
            if seen >= MOST_READ or all(len(said) == GAMES for said in self._said.values()):
                return
            seen += meta.games
            if meta.game not in self._games or len(said := self._said[meta.game]) == GAMES:
                continue
            try:
                shard = read_shard(meta.path, meta)
                for index in reversed(range(shard.num_games)):
                    if len(said) < GAMES and (komi := self._said_by(meta.game, shard.game(index))) is not None:
                        said.appendleft(komi)
            except (FileError, IllegalMove):
                continue

    def add(self, game: AnyGame, record: GameRecord, final: States) -> None:
        """A game that has ended. final [1, S]: its last position."""
        if (komi := komi_said_by(game, record, final)) is not None:
            self._said[game.spec].append(komi)

    def setups(self) -> dict[str, int]:
        """For each board, by its spec, the setup with the fair komi; 0 if too few games are known."""
        found = {}
        for spec, said in self._said.items():
            beyond = HALF_POINTS * (float(np.mean(said)) - _komi(self._games[spec])) if len(said) >= LEAST_GAMES else 0
            found[spec] = round(within(beyond, MOST_FAIR))
        return found

    def _said_by(self, spec: str, record: GameRecord) -> float | None:
        game, last = self._games[spec], None
        if record.end not in (End.RESIGNED, End.MOVE_LIMIT):
            *_, last = replay_one(variant(game, record.setup), record.moves)
        return komi_said_by(game, record, last)


def komi_said_by(game: AnyGame, record: GameRecord, final: States | None) -> float | None:
    """What a game says about the fair komi, in points; None: nothing, as its players weren't equally strong, or as the
    move limit ended it.

    final [1, S]: its last position, which a resigned game doesn't need
    """
    if record.learner != BOTH or record.end == End.MOVE_LIMIT:
        return None
    komi = _komi(game) + record.setup / HALF_POINTS
    if record.end == End.RESIGNED:
        return komi + MOST_LEAD * float(np.sign(record.result_first_player))
    assert final is not None
    if record.end == End.SETTLED:
        lead = game.settled_scores(final, game.settled_owners(final))
    else:
        lead = game.scores(final)
    return komi + within(float(lead[0]), MOST_LEAD)


def _komi(game: AnyGame) -> float:
    return komi_of(game) or 0.0
