"""The promotion decision: whether a match's games promote the challenger under its rule, and whether that is final.

The decision depends on results by game number, not on the order in which games end, so a killed, resumed or distributed
match comes to the same decision. Games that failed or weren't played yet are missing; the match is decided when no
missing game can change the decision. It may end once its first games by number decide it. Its figures, as in
summary.json, are of these games alone (docs/statistics.md). All results are the challenger's, in half points.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.evaluate import threshold
from pipeline.evaluate.sprt import ACCEPTED, REJECTED, UNDECIDED, Sprt, SprtState
from pipeline.games.specs import parse_game
from pipeline.matches import statistics
from pipeline.matches.match import ATTEMPTS
from pipeline.matches.statistics import VOID, PairPoints, Score, pair_points, pair_scores, repeated_games, score_of
from pipeline.phrases import counted, percent, results
from pipeline.run.matches import MatchGame, MatchHeader, MatchWriter
from pipeline.tracking.tracker import Value

POWER_ELO = 35.0  # the gain whose chance of passing the summary states


@dataclass(frozen=True)
class Rule:
    """What a challenger must achieve.

    exclude_duplicates  of games with the same moves and colours only the one with the lowest number counts; the
                        threshold is a share of the remaining games
    max_result          the most points that a game counts. Above 1, points decide: the threshold is in points per game
                        over whole pairs, None: derived from their variance
    """

    games: int  # of the whole match; even
    threshold: float | None = None  # share of the points; None: derived from the numbers of games and draws
    sprt: Sprt | None = None  # decides instead of the threshold
    exclude_duplicates: bool = False
    max_result: float = 1.0

    @property
    def by_points(self) -> bool:
        return self.max_result > 1


def rule_of(header: MatchHeader) -> Rule:
    """The rule that a match was begun with. Raises UsageError for a sequential test that can't be parsed."""
    sprt = header.settings.get("sprt")
    return Rule(
        header.games,
        header.threshold,
        None if sprt is None else Sprt.parse(str(sprt)),
        bool(header.settings.get("exclude_duplicates")),
        header.max_result,
    )


@dataclass(frozen=True)
class MatchStatus:
    """The status of a match after the games played so far."""

    counted: dict[int, MatchGame]  # games that count, by number
    score: Score  # the challenger's in these games
    duplicates: int  # games whose moves and colours repeat those of a game with a lower number
    pair_scores: list[int | None]  # [games / 2] half points 0..4; None: not both played, VOID: an excluded duplicate
    pair_points: list[float]  # [N] the challenger's points per game in the whole pairs that count
    games_that_count: int  # games of the whole match, played or not, without the duplicates excluded so far
    gate: int  # half points to reach in these, with the draws so far, unless sprt or points decide
    sprt: SprtState | None
    decided: bool
    passed: bool  # by the games so far; final only when decided

    @property
    def pair_counts(self) -> statistics.Pentanomial:
        """Number of whole pairs by their half points."""
        return statistics.pair_counts(self.pair_scores)


def match_status(rule: Rule, games: Mapping[int, MatchGame]) -> MatchStatus:
    repetitions = repeated_games(games.values())
    excluded = repetitions if rule.exclude_duplicates else set()
    counted = {number: games[number] for number in sorted(games) if number not in excluded}
    score = score_of(counted.values())
    scores, points = pair_scores(games.values(), rule.games // 2, excluded), pair_points(counted.values())
    # Excluded games don't belong to the match: the threshold is a share of the others.
    most = rule.games - len(excluded)
    gate = threshold.gate_half_points(most, rule.threshold, score.draws)
    state = None if rule.sprt is None else rule.sprt.run(scores, rule.games // 2)
    if rule.by_points:
        found, left = PairPoints.of(points), rule.games // 2 - len(points) - scores.count(VOID)
        decided = threshold.points_decided(found, left, rule.max_result, rule.threshold)
        passed = threshold.points_pass(found, rule.threshold)
    elif state is None:
        decided, passed = threshold.is_decided(score, most, gate), score.half_points >= gate
    else:
        decided, passed = state.decision != UNDECIDED, state.decision == ACCEPTED
    return MatchStatus(counted, score, len(repetitions), scores, points, most, gate, state, decided, passed)


def deciding_games(rule: Rule, games: Mapping[int, MatchGame]) -> int | None:
    """The smallest even n such that games 0 to n - 1 have all been played and decide the match; None: there is none."""

    def is_decided(pairs: int) -> bool:
        return match_status(rule, _first_games(games, 2 * pairs)).decided

    pairs = next((number for number in range(rule.games) if number not in games), rule.games) // 2
    if not match_status(rule, games).decided or not is_decided(pairs):
        return None
    return 2 * bisect_left(range(pairs), True, key=is_decided)  # a decided match stays decided


def score_so_far(rule: Rule, games: Mapping[int, MatchGame], stops_early: bool) -> str:
    """The challenger's score in the games that count, as summarise() counts them."""
    deciding = deciding_games(rule, games) if stops_early else None
    known = games if deciding is None else _first_games(games, deciding)
    score = match_status(rule, known).score
    text = results(score.wins, score.draws, score.losses)
    return text if score.games == len(games) else f"{text} in the {counted(score.games, 'game')} that count"


def _first_games(games: Mapping[int, MatchGame], count: int) -> dict[int, MatchGame]:
    return {number: games[number] for number in range(count)}


# The summary


@dataclass(frozen=True)
class PointsSummary:
    """The challenger's points in a match whose games count more than 1."""

    per_game: float  # mean over whole pairs
    low: float | None  # its 95 % interval, to high; None: unknown
    high: float | None
    deviation: float | None  # standard deviation of a pair's points per game; None for fewer than two pairs
    pairs: int  # number of pairs with both games played
    needed: float | None  # points per game that promote, from the pairs' variance; None: unknown
    won: dict[str, int]  # number of games by the name of their result
    lost: dict[str, int]

    def lines(self) -> list[str]:
        spread = "" if self.low is None or self.high is None else f" ({self.low:+.3f} to {self.high:+.3f})"
        wanted = "" if self.needed is None else f", needed {self.needed:+.3f}"
        kinds = [
            f"{what} {', '.join(f'{count:,} {name}' for name, count in found.items())}"
            for what, found in (("won", self.won), ("lost", self.lost))
        ]
        return [f"{self.per_game:+.3f} points a game{spread}{wanted}; {'; '.join(kinds)}"]


@dataclass(frozen=True)
class ConditionResult:
    """The result of a promotion condition's match. share, needed: in points per game if games count more than 1."""

    passed: bool
    games_played: int
    wins: int
    draws: int
    losses: int
    share: float
    needed: float
    match: str


@dataclass(frozen=True)
class EvaluateSummary:
    """A match and its consequences. Wins, losses, shares and Elo are the challenger's; an Elo of None is unbounded.

    points: only if games count more than 1. Points then decide: threshold is in points per game, None if derived;
    share, Elo and their intervals are of games won; points_needed and power_35_elo are None; tail and false
    promotion are over pairs, for any distribution of points.
    """

    challenger: str
    champion: str
    game: str
    games: int
    games_that_count: int  # without excluded duplicates; points_needed refers to these
    games_played: int
    wins: int
    losses: int
    draws: int
    win_rate: float
    loss_rate: float
    draw_rate: float
    share: float  # points per game; a draw counts 1/2
    share_low: float
    share_high: float
    average_length: float
    moving_first: Score
    moving_second: Score
    pairs: list[int]  # number of pairs worth 0, 1/2, 1, 1 1/2, 2 points
    duplicates: int  # games whose moves and colours repeat another's
    ends: dict[str, int]  # number of games by how they ended: played_out, move_limit, resigned
    failed: int  # games that failed in both attempts
    measured: int  # all figures are of the games below this number, which alone decide the match
    threshold: float | None  # without draws, if derived; None if the sequential test decides, like the next
    points_needed: float | None  # with the draws so far, which change a derived threshold
    tail_probability: float  # that an equal player does at least this well
    tail_over: str  # games if none was drawn, else pairs
    false_promotion_at_most: float | None  # probability that an equal player passes, for any number of draws
    power_35_elo: float | None  # probability that a player 35 Elo stronger passes, without draws
    elo: float | None
    elo_low: float | None
    elo_high: float | None
    sprt: SprtState | None
    conditions: dict[str, ConditionResult]  # the promotion conditions' results, by the conditions' text
    passed: bool
    promoted: bool
    reason: str
    match: str
    points: PointsSummary | None = None

    def lines(self) -> list[str]:
        """The short form."""
        title = f"{self.challenger} against {self.champion}"
        conditions = [
            f"{text}: {'met' if met.passed else 'not met'}, {results(met.wins, met.draws, met.losses)}"
            for text, met in self.conditions.items()
        ]
        if not self.games_played:
            return [*conditions, f"{title}: no game played; {self.reason}"]
        needed = ""
        if self.points_needed is not None:
            needed = f", needed {percent(self.points_needed / self.games_that_count)}"
        lines = [
            f"{title}: {results(self.wins, self.draws, self.losses)}",
            *([] if self.points is None else self.points.lines()),
            f"{percent(self.share)} of the {'points' if self.points is None else 'games'} "
            f"({100 * self.share_low:.0f}–{100 * self.share_high:.0f}){needed}; "
            f"Elo {_elo_text(self.elo, self.share > 0.5)} "
            f"({_elo_text(self.elo_low, False)} to {_elo_text(self.elo_high, True)}); intervals of 95 %",
        ]
        odd = [
            f"{counted(number, 'game')} {what}"
            for number, what in (
                (self.ends.get("move_limit", 0), "ended by the move limit"),
                (self.duplicates, "repeated another"),
                (self.failed, "failed twice"),
            )
            if number
        ]
        length = f"{self.average_length:.1f} plies a game"
        return [*lines, *conditions, "; ".join([length, *odd]), self.reason]


def against(opponent: str) -> str:
    """The prefix of what is tracked of the matches against an opponent."""
    return f"against/{opponent}/"


def score_values(prefix: str, score: Score, points_per_game: float | None) -> dict[str, Value]:
    """What is tracked of a score, from its viewpoint; nothing without a game."""
    if not score.games:
        return {}
    values: dict[str, Value] = {
        "games": score.games,
        "win_rate": score.wins / score.games,
        "draw_rate": score.draws / score.games,
        "score": score.share,
    }
    if points_per_game is not None:
        values["points_per_game"] = points_per_game
    return {f"{prefix}{name}": value for name, value in values.items()}


def summarise(rule: Rule, writer: MatchWriter, whole: bool = False) -> EvaluateSummary:
    """The figures of a match so far, without promotion conditions and outcome. whole: all games always count."""
    measured = None if whole else deciding_games(rule, writer.games)
    known = writer.games if measured is None else _first_games(writer.games, measured)
    status = match_status(rule, known)
    header, games, score = writer.header, list(status.counted.values()), status.score
    played, most = max(1, score.games), status.games_that_count
    low, high = statistics.wilson_interval(score)
    elo_low, elo, elo_high = map(_finite, statistics.elo_interval(score))
    by_gate = status.sprt is None and not rule.by_points
    undrawn = threshold.gate_half_points(most, rule.threshold)
    over_pairs = rule.by_points or (score.draws > 0 and not header.handicap)
    if rule.by_points:
        tail = statistics.sign_tail(status.pair_points)
        pairs = rule.games // 2 - status.pair_scores.count(VOID)
        false_promotion = threshold.points_false_promotion(pairs) if rule.threshold is None else None
    else:
        tail = statistics.result_tail(score, None if header.handicap else status.pair_counts)
        unpaired = sum(status.pair_scores[number // 2] == VOID for number in status.counted)
        false_promotion = threshold.false_promotion(most, rule.threshold, unpaired) if by_gate else None
    failed = {failure.failed for failure in writer.failures if failure.attempt >= ATTEMPTS} - writer.games.keys()
    return EvaluateSummary(
        challenger=header.challenger,
        champion=header.champion,
        game=header.game,
        games=rule.games,
        games_that_count=most,
        games_played=score.games,
        **asdict(score),
        win_rate=score.wins / played,
        loss_rate=score.losses / played,
        draw_rate=score.draws / played,
        share=score.share,
        share_low=low,
        share_high=high,
        average_length=sum(game.length for game in games) / played,
        moving_first=score_of(game for game in games if game.challenger_began),
        moving_second=score_of(game for game in games if not game.challenger_began),
        pairs=list(status.pair_counts),
        duplicates=status.duplicates,
        ends=dict(Counter(game.end for game in games)),
        failed=len(failed),
        measured=rule.games if measured is None else measured,
        threshold=threshold.derived_threshold(most) if by_gate and rule.threshold is None else rule.threshold,
        points_needed=status.gate / 2 if by_gate else None,
        tail_probability=tail,
        tail_over="pairs" if over_pairs else "games",
        false_promotion_at_most=false_promotion,
        power_35_elo=threshold.power(most, undrawn, statistics.share_of_elo(POWER_ELO)) if by_gate else None,
        elo=elo,
        elo_low=elo_low,
        elo_high=elo_high,
        sprt=status.sprt,
        conditions={},
        passed=status.passed,
        promoted=False,
        reason=_reason(rule, status, 0 if measured is None else len(writer.games) - len(known)),
        match=str(writer.folder),
        points=_points_summary(rule, status, header.game) if rule.by_points else None,
    )


def _points_summary(rule: Rule, status: MatchStatus, game: str) -> PointsSummary:
    found = PairPoints.of(status.pair_points)
    low, high = map(_finite, found.interval())
    needed = threshold.points_needed(found, rule.threshold)
    won, lost = statistics.counts_by_name(status.counted.values(), parse_game(game).result_names)
    return PointsSummary(found.mean, low, high, _finite(found.deviation), found.pairs, needed, won, lost)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def stored(summary: EvaluateSummary) -> dict[str, Any]:
    """What summary.json stores: without `points` if games count 1."""
    found = asdict(summary)
    if summary.points is None:
        del found["points"]
    return found


def _reason(rule: Rule, status: MatchStatus, unneeded: int) -> str:
    """unneeded: games played that weren't needed for the decision."""
    left_out = f"; {unneeded} more were played, and don't count" if unneeded else ""
    if status.sprt is not None:
        state = status.sprt
        said = {ACCEPTED: "stronger", REJECTED: "not shown to be stronger"}.get(state.decision, UNDECIDED)
        return (
            f"sequential test: {said} after {state.pairs} of {counted(rule.games // 2, 'pair')} "
            f"(log-likelihood ratio {state.llr:+.2f}, bounds {state.lower:+.2f} and {state.upper:+.2f}){left_out}"
        )
    most, played = status.games_that_count, status.score.games
    if rule.by_points:
        found = PairPoints.of(status.pair_points)
        needed = threshold.points_needed(found, rule.threshold)
        wanted = "unknown" if needed is None else f"{needed:+.3f}"
        text = f"{found.mean:+.3f} points a game of the {wanted} needed over {counted(rule.games // 2, 'pair')}"
    else:
        if not status.gate and not played:
            return f"threshold {rule.threshold:g}: no game is needed"
        games = f"{most} games" if most == rule.games else f"{most} different games"
        text = f"{status.score.half_points / 2:g} points of the {status.gate / 2:g} needed from {games}"
    return text + (f", decided after {played}{left_out}" if played < most else "")


def _elo_text(elo: float | None, above: bool) -> str:
    """elo None: unbounded, above or below."""
    return f"{elo:+.0f}" if elo is not None else "+∞" if above else "−∞"
