"""Where an engine that takes handicap stones places them: as it likes best.

An engine is asked for each game with seeds of its own: GNU Go has many placements and chooses by them. Knows nothing of
matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import IllegalMove
from pipeline.families.go.gtp_engine import GtpEngine
from pipeline.families.go.gtp_player import set_up_board
from pipeline.games.contract import Game
from pipeline.games.replay import handicap_start
from pipeline.players.player import PlayerFault

# Asked for in this order; the second is the same table as ours, the answer of an engine that knows no other.
PLACE_COMMANDS = ("place_free_handicap", "fixed_handicap")


def by_engine(
    game: Game,
    command: str,
    name: str,
    stones: int,
    seeds: Sequence[Sequence[int]],
    seconds: float,
    known: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """So many points for each game, as the engine of this command line places them on an empty board.

    seeds: of each game, to be tried one after another until its points are none of those known or of the games before;
    after the last they are accepted all the same. An engine that knows neither of GTP's commands gets the table's.
    seconds: limit of each answer. Raises PlayerFault, UsageError if there is no such program.
    """
    engine = GtpEngine(command, name, seconds)
    try:
        engine.handshake()
        place = next((one for one in PLACE_COMMANDS if one in engine.commands), None)
        if place is None:
            return [game.handicap(stones) for _ in seeds]
        found: list[list[int]] = []
        taken = {frozenset(points) for points in known}
        for of_game in seeds:
            for seed in of_game:
                set_up_board(engine, game, seed, seconds)
                points = _points(game, name, place, stones, engine.send(f"{place} {stones}"))
                if frozenset(points) not in taken:
                    break
            taken.add(frozenset(points))
            found.append(points)
        return found
    finally:
        engine.close()


def _points(game: Game, name: str, place: str, stones: int, answer: str) -> list[int]:
    """Raises PlayerFault for anything but so many free points: GTP lets an engine place fewer, a match doesn't."""
    try:
        points = [game.parse_action(vertex) for vertex in answer.split()]
        handicap_start(game, points)
    except IllegalMove as error:
        raise PlayerFault("protocol", name, f"answered {place} {stones} with {answer[:40]!r}: {error}") from None
    if len(points) != stones:
        problem = f"answered {place} {stones} with {answer[:40]!r}, {len(points)} stones; wanted {stones}"
        raise PlayerFault("protocol", name, problem)
    return points
