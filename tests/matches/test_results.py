"""What games add up to: scores, and pairs, of which both games must be there."""

from pipeline.matches.results import pair_scores
from pipeline.matches.statistics import VOID, Score, pair_counts
from pipeline.storage.matches import MatchGame


def games_of(results: dict[int, int]) -> list[MatchGame]:
    """results: of the player that moves first, by number of the game."""
    return [
        MatchGame(index=index, challenger_player=index % 2, opening_plies=0, moves=[0, 1], values_to_move=[None, None],
                  result_first_player=result, end="played_out")
        for index, result in results.items()
    ]  # fmt: skip


def test_pairs_count_where_both_games_are_there() -> None:
    # challenger's results of pair 0, 1, …: (won, lost), (drawn, won), (drawn, drawn), (lost, lost), (won, ?)
    games = games_of({0: 1, 1: 1, 2: 0, 3: -1, 4: 0, 5: 0, 6: -1, 7: 1, 8: 1})
    assert pair_scores(games, 6) == [2, 3, 2, 0, None, None]
    assert pair_scores(games, 6, excluded={3, 8}) == [2, VOID, 2, 0, None, None]
    assert pair_counts(pair_scores(games, 8)) == (1, 0, 2, 1, 0)
    assert pair_counts(pair_scores([], 8)) == (0,) * 5


def test_a_score_from_both_sides() -> None:
    score = Score.of([1, 1, 0, -1, 1])
    assert score == Score(3, 1, 1) and score.reversed == Score(1, 1, 3)
    assert score + score.reversed == Score(4, 2, 4)
