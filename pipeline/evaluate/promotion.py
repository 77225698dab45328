"""The promotion decision: what the games of a match say under its rule, and whether more games could say otherwise.

The decision depends on results by number of game, never on the order in which games end: a match that was killed,
resumed or spread over processes comes to the same one. Games that failed or were not played yet are simply missing;
the match is decided when none of them can change the decision. All results are the challenger's, in half points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.evaluate.sprt import Sprt, SprtState
from pipeline.matches import statistics
from pipeline.matches.results import pair_scores, repeated_games, score_of
from pipeline.matches.statistics import Score
from pipeline.storage.matches import MatchGame


@dataclass(frozen=True)
class Rule:
    """What a challenger must achieve.

    games               of the whole match; even
    threshold           share of the points; None: derived from the number of games
    sprt                decides instead of the threshold
    exclude_duplicates  of games with the same moves and colours only the one with the lowest number counts; the
                        threshold is then a share of the games that are left
    """

    games: int
    threshold: float | None = None
    sprt: Sprt | None = None
    exclude_duplicates: bool = False


@dataclass(frozen=True)
class MatchStatus:
    """A match as far as it was played.

    counted      games that count, by number
    score        the challenger's in these games
    duplicates   games whose moves and colours repeat those of a game with a lower number
    pair_scores  [games / 2] half points 0..4; None: not both played, VOID: one is an excluded duplicate
    gate         half points to reach, unless sprt decides
    """

    counted: dict[int, MatchGame]
    score: Score
    duplicates: int
    pair_scores: list[int | None]
    gate: int
    sprt: SprtState | None
    decided: bool
    passed: bool

    @property
    def pair_counts(self) -> tuple[int, int, int, int, int]:
        """Pairs by half points, of those that were played whole."""
        return statistics.pair_counts(self.pair_scores)


def match_status(rule: Rule, games: Mapping[int, MatchGame]) -> MatchStatus:
    """The status of a match. passed: by the games so far; final only when decided."""
    repetitions = repeated_games(games.values())
    excluded = repetitions if rule.exclude_duplicates else set()
    counted = {number: games[number] for number in sorted(games) if number not in excluded}
    pairs = pair_scores(games.values(), rule.games // 2, excluded)
    score = score_of(counted.values())
    # Excluded games don't belong to the match: the share to reach is that of the others.
    most = rule.games - len(excluded)
    gate = statistics.gate_half_points(most, rule.threshold)
    state = None if rule.sprt is None else rule.sprt.run(pairs, rule.games // 2)
    if state is None:
        decided, passed = statistics.is_decided(score, most, gate), statistics.passes(score, gate)
    else:
        decided, passed = state.decision is not None, state.decision == "accepted"
    return MatchStatus(counted, score, len(repetitions), pairs, gate, state, decided, passed)
