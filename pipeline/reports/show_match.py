"""``show`` for matches: the players, the result so far, by colour and by pairs, failures, and games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.contract import AnyGame, Game
from pipeline.games.replay import move_names, replay_one
from pipeline.games.specs import recorded_game
from pipeline.matches.statistics import (
    PairPoints,
    Played,
    Record,
    counts_by_name,
    measured_games,
    pair_counts,
    pair_points,
    pair_scores,
    repeated_games,
    score_of,
)
from pipeline.phrases import counted, results
from pipeline.reports.show_records import final_board, more, move_lines, winner
from pipeline.reports.tables import described, flattened, further_conditions, indented, shortened_list, table
from pipeline.run import layout
from pipeline.run.matches import Match, MatchFailure, MatchGame, PlayerInfo, read_match

GAMES_LISTED = 12
FAILURES_LISTED = 5
MOVES_LISTED = 12
NUMBERS_LISTED = 20
PROBLEM_WIDTH = 100
POINTS = ("0", "½", "1", "1½", "2")  # of a pair of games
ENDS = {
    "played_out": "played out",
    "move_limit": "ended by the move limit",
    "resigned": "resigned",
}


def counted_games(match: Record) -> Sequence[Played]:
    """The games that count: the measured ones of a decided match, otherwise all.

    If the match excludes duplicates, games that repeat the moves and colours of an earlier one don't count.
    """
    games = _may_count(match)
    if not match.header.settings.get("exclude_duplicates"):
        return games
    repeated = repeated_games(games)
    return [game for game in games if game.index not in repeated]


def _may_count(match: Record) -> Sequence[Played]:
    """The games that count, duplicates included."""
    return match.games if match.summary is None else measured_games(match)


def show_match(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A match's result, settings and games, then the end of its first game. With index, that game move by move."""
    match = read_match(path)
    header = match.header
    with named_in(path):
        game = recorded_game(header.game)
    if index is not None:
        yield from _one(path, game, match, index, moves)
        return
    yield described(_facts(match, game))
    if match.summary:
        yield ""
        yield "summary of the stage that played the match:"
        yield described(dict(flattened(match.summary)))
    if match.failures:
        yield ""
        yield _failures_table(match.failures)
    if not match.games:
        return
    yield ""
    yield _games_table(game, match.games)
    yield ""
    yield from _game(path, game, match, match.games[0], moves, brief=True)
    yield from more(path)
    if (path / layout.MATCH_SGF).is_dir():
        yield f"Game records (SGF): {path / layout.MATCH_SGF}"


def _facts(match: Match, game: AnyGame) -> dict[str, object]:
    header, games = match.header, cast(Sequence[MatchGame], counted_games(match))
    facts: dict[str, object] = {
        "match": match.folder,
        "game": header.game,
        "challenger": _player(header.players[0]),
        "champion": _player(header.players[1]),
        "games": f"{len(match.games)} of {match.num_games}" + _status(match),
    }
    if header.handicap_side is not None:
        taker = header.players[header.handicap_side].name
        facts["handicap"] = f"{header.handicap} stones for {taker}, who is black in every game; white moves first"
    if match.summary and (measured := measured_games(match)) and len(measured) < len(match.games):
        facts["measured by"] = f"games 0 to {measured[-1].index}; the others ended early, so they aren't typical"
    if match.games:
        facts["repeated games"] = _repeated(match)
    facts |= {
        "challenger in all": _score(games),
        "  moving first": _score(one for one in games if one.challenger_began),
        "  moving second": _score(one for one in games if not one.challenger_began),
    }
    kinds = [game.kind_of(one.moves) for one in games]
    for kind in sorted(set(kinds) - {""}):
        facts[f"  in {kind}"] = _score(one for one, its in zip(games, kinds, strict=True) if its == kind)
    if games:
        pairs = pair_counts(pair_scores(games, match.num_games // 2))
        counts = [f"{count} with {points}" for count, points in zip(pairs, POINTS, strict=True) if count]
        if header.handicap_side is None:  # handicap games aren't played in pairs
            facts["pairs by points"] = f"{sum(pairs)} whole pairs" + (f": {', '.join(counts)}" if counts else "")
        if header.max_result > 1:
            facts["points a game"] = _points(match, games)
        lengths = np.array([game.length for game in games])
        facts["plies"] = f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average"
        ends = Counter(game.end for game in games)
        facts["ends"] = ", ".join(f"{count} {ENDS[end]}" for end, count in ends.most_common())
    if match.failures:
        facts["failures"] = _failure_counts(match)
    facts |= further_conditions(match.summary or {})
    return {**facts, **dict(flattened(header.settings))}


def _score(games: Iterable[MatchGame]) -> str:
    score = score_of(games)
    share = f" ({score.wins / score.games:.1%} won)" if score.games else ""
    return results(score.wins, score.draws, score.losses) + share


def _points(match: Match, games: Sequence[MatchGame]) -> str:
    """The challenger's mean points over whole pairs, then wins and losses by kind."""
    found = PairPoints.of(pair_points(games))
    kinds = zip(("won", "lost"), counts_by_name(games, recorded_game(match.header.game).result_names), strict=True)
    counts = "; ".join(f"{what} {', '.join(f'{n} {name}' for name, n in named.items())}" for what, named in kinds)
    low, high = found.interval()
    return f"{found.mean:+.3f} ({low:+.3f} to {high:+.3f}) in {counted(found.pairs, 'whole pair')}; {counts}"


def _repeated(match: Match) -> str:
    """The number of duplicates, and whether they count."""
    games = _may_count(match)
    repeated = len(repeated_games(games))
    if not repeated:
        return "none"
    text = f"{repeated} of {len(games)} have the moves and colours of an earlier one"
    if not match.header.settings.get("exclude_duplicates"):
        return f"{text}; they count like the others"
    return f"{text}; they are excluded: decision, summary and what follows are about the other {len(games) - repeated}"


def _player(player: PlayerInfo) -> str:
    """Name, kind and spec, without repetition."""
    kind = player.kind if player.readouts is None else f"{player.kind} with {player.readouts} readouts a move"
    parts = [part for part in (kind, player.spec) if part != player.name]
    return player.name + (f" ({', '.join(parts)})" if parts else "")


def _status(match: Match) -> str:
    if match.summary is not None:
        return ""
    if match.num_games > match.header.games:
        return " asked for so far"  # a growing match is never decided
    return ", not decided yet"


def _failure_counts(match: Match) -> str:
    failed = {failure.failed for failure in match.failures}
    given_up = failed - {game.index for game in match.games}
    games = "game" if len(failed) == 1 else "games"
    text = f"{counted(len(match.failures), 'attempt')} at {games} {shortened_list(sorted(failed), NUMBERS_LISTED)}"
    if not given_up:
        return f"{text}; all were played after all"
    return f"{text}; not played to an end: {shortened_list(sorted(given_up), NUMBERS_LISTED)}"


def _failures_table(failures: Sequence[MatchFailure]) -> str:
    """The last failures."""
    rows = [
        (str(one.failed), str(one.attempt), one.kind, one.player or "-", f"after {len(one.moves)} plies", _line(one))
        for one in failures[-FAILURES_LISTED:]
    ]
    header = ("failed game", "attempt", "kind", "player", "when", "problem")
    return table(rows, header, len(failures) - len(rows), "before them")


def _line(failure: MatchFailure) -> str:
    problem = " ".join(failure.problem.split())
    return problem if len(problem) <= PROBLEM_WIDTH else problem[: PROBLEM_WIDTH - 2] + " …"


def _games_table(game: Game, games: Sequence[MatchGame]) -> str:
    rows = []
    for one in games[:GAMES_LISTED]:
        named = move_names(game, one.moves[: one.opening_plies], one.stones)
        opening = " ".join([*stone_names(game, one.stones), *named]) or "-"
        points = one.challenger_result
        result = "won" if points > 0 else "lost" if points < 0 else "drawn"
        if (name := game.result_names.get(abs(points))) is not None:
            result += f" a {name}"
        end = "" if one.end == "played_out" else ENDS[one.end]
        rows.append((str(one.index), "XO"[one.challenger_player], result, str(one.length), end, opening))
    return table(rows, ("game", "challenger", "result", "plies", "end", "opening"), len(games) - len(rows))


def stone_names(game: Game, stones: Sequence[int]) -> list[str]:
    """Handicap stones in parentheses, to precede the moves of a game."""
    return [f"({' '.join(game.action_name(point) for point in stones)})"] if stones else []


def _one(path: Path, game: Game, match: Match, index: int, moves: bool) -> Iterator[str]:
    """One game, after its failed attempts."""
    games = [one for one in match.games if one.index == index]
    failures = [one for one in match.failures if one.failed == index]
    if not games and not failures:
        raise UsageError(f"show --game: game {index} of {path} isn't there; it has {len(match.games)} games so far")
    for failure in failures:
        yield (
            f"game {index}, attempt {failure.attempt}: failed after {len(failure.moves)} plies ({failure.kind}): "
            f"{failure.problem}"
        )
        if failure.moves:
            stones = match.stones[index] if match.stones else []
            yield indented(" ".join([*stone_names(game, stones), *move_names(game, failure.moves, stones)]))
    for one in games:
        yield from _game(path, game, match, one, moves, brief=False)


def _game(path: Path, game: Game, match: Match, one: MatchGame, moves: bool, brief: bool) -> Iterator[str]:
    """One game. brief: its moves in one line and the final board; otherwise a line per move, with boards if moves."""
    names = (match.header.challenger, match.header.champion)
    first, second = names if one.challenger_player == 0 else names[::-1]
    result = winner(one.result_first_player, game) + (" by resignation" if one.end == "resigned" else "")
    yield f"game {one.index}: X {first}, O {second}; {result} after {one.length} plies"
    state = None
    try:
        for ply, state in enumerate(replay_one(game, one.moves, one.stones)):
            if brief or ply == one.length:
                continue
            value = one.values_to_move[ply]
            note = "opening" if ply < one.opening_plies else "" if value is None else f"value {value:+.2f}"
            yield from move_lines(game, state, ply, one.moves[ply], moves, note)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {one.index}: {error}") from error
    if brief:
        named = move_names(game, one.moves[:MOVES_LISTED], one.stones)
        shown = " ".join([*stone_names(game, one.stones), *named])
        yield f"    {shown}{' …' if one.length > MOVES_LISTED else ''}"
    if state is not None:
        yield from final_board(game, state, scored=one.end != "resigned")
