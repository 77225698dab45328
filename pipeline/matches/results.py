"""What the games of a match add up to: the challenger's score, its pairs of games, and games that repeat others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.matches.statistics import VOID, Score
from pipeline.storage.matches import MatchGame


def score_of(games: Iterable[MatchGame]) -> Score:
    """The challenger's."""
    return Score.of(game.challenger_result for game in games)


def repeated_games(games: Iterable[MatchGame]) -> set[int]:
    """Numbers of the games whose moves and colours are those of a game with a lower number."""
    first: dict[tuple[int, ...], int] = {}
    return {
        game.index
        for game in sorted(games, key=lambda game: game.index)
        if first.setdefault((game.challenger_player, *game.moves), game.index) != game.index
    }


def pair_scores(games: Iterable[MatchGame], num_pairs: int, excluded: Collection[int] = ()) -> list[int | None]:
    """[num_pairs] the challenger's half points 0..4 in games 2k and 2k + 1; None: not both of them are there.

    VOID: both are, but one is among the excluded, which are numbers of games.
    """
    half_points = {game.index: 1 + game.challenger_result for game in games}
    scores: list[int | None] = []
    for pair in ((first, first + 1) for first in range(0, 2 * num_pairs, 2)):
        if not half_points.keys() >= set(pair):
            scores.append(None)
        elif any(number in excluded for number in pair):
            scores.append(VOID)
        else:
            scores.append(sum(half_points[number] for number in pair))
    return scores
