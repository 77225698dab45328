"""Files of openings, ``benchmarks/openings/go9.json``: where games begin that are to favour neither player.

An opening is a list of moves from the initial position, in the game's own notation: ``["C7", "G3", …]``. origin says
how the file was made, by whatever made it. The file is for every komi: positions and moves are the same, though
what was even with the file's komi isn't with one far from it, where both colours must play each opening. Knows nothing
of matches; see matches/openings.py for who plays which.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.contract import AnyGame, Game
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.run import atomic

WANTED = "a file of openings, e.g. benchmarks/openings/go9.json"


class OpeningsFile(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The file as it stands."""

    format: Literal["mugo-openings"] = "mugo-openings"
    version: Literal[1] = 1
    game: str = Field(description="Game spec.")
    origin: dict[str, Any] = Field(description="How the openings were made.")
    openings: list[list[str]] = Field(min_length=1, description="Moves of each, in the game's notation.")


def begins(listed: str, game: AnyGame) -> bool:
    """Whether openings of the game with the spec `listed` are openings of this one: it is the same but for its komi."""
    with suppress(UsageError):  # no game that is known here, or none with such a komi
        seen = game.as_seen(parse_game(listed).with_komi(game.komi or 0.0))
        return seen is not None and seen.spec == game.spec
    return False


def read_openings(path: Path, game: Game) -> list[list[int]]:
    """The actions of every opening. Raises FileError unless they are legal openings of this game, each there once."""
    found = atomic.read_record(path, OpeningsFile, WANTED)
    if not begins(found.game, game):
        raise FileError(path, f"openings of {found.game}; wanted some of {game.spec}: name another file")
    openings = []
    for number, names in enumerate(found.openings):
        try:
            openings.append([game.parse_action(name) for name in names])
            *_, last = replay_one(game, openings[-1])
        except IllegalMove as error:
            raise FileError(path, f"opening {number} ({' '.join(names)}): {error}; wanted legal moves") from error
        if game.is_over(last)[0]:
            raise FileError(path, f"opening {number} ({' '.join(names)}) ends the game; remove it")
    if len({tuple(opening) for opening in openings}) < len(openings):
        raise FileError(path, "an opening is there twice; wanted each once: a pair of games more would count twice")
    return openings


def write_openings(path: Path, game: Game, openings: list[list[int]], origin: dict[str, Any]) -> None:
    """One opening a line, so that people can read it."""
    named = [[game.action_name(action) for action in opening] for opening in openings]
    record = OpeningsFile(game=game.spec, origin=origin, openings=named)
    head = json.dumps(record.model_dump(exclude={"openings"}), indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(names) for names in named)
    atomic.make_folder(path.parent)
    atomic.write_text(path, f'{head},\n "openings": [\n  {lines}\n ]\n}}\n')
