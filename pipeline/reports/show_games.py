"""``show`` for games: shards, packs and their sidecars, matches, and other programs' records.

Each is shown as facts, a table of its games, and the end of the first one; with an index, as that game move by move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import cast

import numpy as np

from pipeline.errors import IllegalMove, UsageError, named_in
from pipeline.games.capabilities import recalled
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.records import RecordFormat
from pipeline.games.replay import move_names
from pipeline.games.specs import recorded_game
from pipeline.matches.statistics import (
    PairPoints,
    counts_by_name,
    measured_games,
    pair_counts,
    pair_points,
    pair_scores,
    repeated_games,
    score_of,
    wilson_interval,
)
from pipeline.methods.method import Method
from pipeline.methods.named import method_named
from pipeline.phrases import counted, percent, results
from pipeline.reports.reading import (
    MEASURED,
    countable_games,
    counted_games,
    decision_of,
    promotion_conditions,
    share_needed,
)
from pipeline.reports.recorded_games import RecordedGame, damaged_game, games_at, missing_game, sidecar_of, winner
from pipeline.reports.tables import described, flattened, shortened_list, table
from pipeline.run import layout
from pipeline.run.matches import Match, MatchFailure, MatchGame, PlayerInfo, read_match
from pipeline.run.packs import is_gone, open_pack
from pipeline.run.shards import POLICY_COUNTS, SEARCH_COLUMNS, End, Shard, read_meta, read_shard

GAMES_LISTED = 20
NOTES_SHOWN = 6  # about another program's record
POSITIONS_SHOWN = 3  # the last ones of a game in the short form
OPENINGS_LISTED, MOST_OPENINGS_LISTED = 4, 12  # games of a match in the table
FAILURES_LISTED = 5
NUMBERS_LISTED = 20
PROBLEM_WIDTH = 100
POINTS = ("0", "½", "1", "1½", "2")  # of a pair of games


# One game


def show_one(path: Path, index: int, moves: bool) -> Iterator[str]:
    """A game of a shard, pack or match move by move, in a match after its failed attempts. moves: with all boards."""
    if not path.is_dir():
        yield from show_game(next(games_at(path, index)), moves)
        return
    match = read_match(path)
    games = [one for one in match.games if one.index == index]
    failures = [one for one in match.failures if one.failed == index]
    if not games and not failures:
        raise missing_game(match, index)
    with named_in(path):
        game = recorded_game(match.header.game)
    for one in failures:
        yield f"game {index}, attempt {one.attempt}: failed after {len(one.moves)} plies ({one.kind}): {one.problem}"
        if one.moves:
            with suppress(IllegalMove):
                known = recalled(game, one.moves, one.said)
                yield indent(_moves_in_line(game, known, match.stones[index] if match.stones else []), "    ")
    for played in games:
        yield from show_game(RecordedGame.of_match(match, played), moves)


def show_game(one: RecordedGame, boards: bool, first_ply: int = 0) -> Iterator[str]:
    """A game's moves from a ply on, with boards each after its board; then the final position."""
    first, second = one.players
    method = method_named(one.shard.header["method"]) if one.shard else None
    marks = one.game.marks
    yield f"game {one.index}: {marks[0]} {first}, {marks[1]} {second}; {one.result} after {len(one.moves)} plies"
    for ply, state in enumerate(one.states()):
        if first_ply <= ply and ply in one.remarks:
            yield f"      {one.remarks[ply]}"
        if first_ply <= ply < len(one.moves):
            if boards:
                yield ""
                yield indent(one.game.diagram(state[0]), "    ")
            with damaged_game(one.path, one.index):
                name = one.game.move_name(state[0], one.moves[ply])
                note = "   ".join(_notes(one, ply, state, method))
            yield f"{ply:4d}  {'XO*'[int(one.game.to_move(state)[0])]} {name:<5} {note}".rstrip()
    yield indent(one.game.diagram(state[0]), "    ")
    if one.end == "settled" and isinstance(one.game, Game):
        score = float(one.game.settled_scores(state, one.game.settled_owners(state))[0])
        yield f"    score of X, with all that can be captured captured: {score + 0.0:+g}"
    elif one.end in ("played_out", "move_limit", ""):
        yield f"    score of X: {float(one.game.scores(state)[0]) + 0.0:+g}"
    if one.record and method:
        yield f"    id {one.record.game_id:016x}" + (f", {one.game.spec}" if one.record.setup else "")
        yield "    values are from the viewpoint of the player to move"
        searched = len(one.record.visit_counts) or (one.record.flags & POLICY_COUNTS).any()
        if searched and not method.steps_only:
            yield "    surprise: KL divergence of the search's policy from the network's, in nats"
            yield "    cheap searches and the moves of other players are no policy targets, unless marked learned"


def _notes(one: RecordedGame, ply: int, state: States, method: Method | None) -> Iterator[str]:
    if (value := one.values_to_move[ply]) is not None:
        yield f"value {value:+.2f}"
    if search := one.search_text(ply, state):
        yield search
    if one.record is None or method is None:
        return
    if one.record.surprises[ply] > 0 and not method.steps_only:
        yield f"surprise {one.record.surprises[ply]:.2f}"
    facts = method.facts(one.game, state[0], one.record, ply)
    yield from (f"{name} {fact}" for name, fact in facts.items() if str(fact) and "\n" not in str(fact))


def _with_overview(path: Path, texts: Sequence[str], game: Iterator[str]) -> Iterator[str]:
    for text in texts:
        yield text
        yield ""
    yield from game
    yield ""
    yield f"More: show {path} --game N for every move of game N, and --moves for every board."


# Shards and packs


def show_shard(path: Path) -> Iterator[str]:
    meta = sidecar_of(path)
    shard = read_shard(path, meta)
    one = RecordedGame.of_shard(shard, 0)
    game = show_game(one, True, max(0, len(one.moves) - POSITIONS_SHOWN))
    yield from _with_overview(path, [_shard_facts(shard, committed=meta is not None), _games_table(shard)], game)


def _shard_facts(shard: Shard, committed: bool) -> str:
    method = shard.header["method"]
    names = [array["name"] for array in shard.header["arrays"]]
    kept = ", ".join(name for name in names if name in SEARCH_COLUMNS or name in shard.own) or "the move alone"
    return described(
        {
            **_facts("shard", shard.path, shard.game_spec, shard.model, shard.header.get("worker")),
            **({"method": method, "of each move": kept} if method != "alphazero" else {}),
            "generation": shard.header["provenance"].get("generation", "-"),
            "games": f"{shard.num_games:,}",
            "positions": f"{shard.num_positions:,}",
            "committed": "yes" if committed else "no: it has no .meta file, so no stage reads it",
        }
    )


def _facts(kind: str, path: Path, game: str, model: str, worker: object) -> dict[str, object]:
    return {kind: path, "game": game, "played by": f"{model}, worker {worker}"}


def _games_table(shard: Shard) -> str:
    rows, game = [], recorded_game(shard.game_spec)
    for index in range(min(shard.num_games, GAMES_LISTED)):
        end = End(int(shard.ends[index])).name.lower().replace("_", " ")
        note = "never resigns" if shard.no_resign[index] else ""
        opponent = shard.opponent(index)
        met = "" if opponent is None else f"{'XO'[1 - int(shard.learners[index])]} is {opponent}"
        won = winner(float(shard.results[index]), game)
        rows.append((str(index), str(int(shard.lengths[index])), won, end, met, note))
    return table(rows, ("game", "plies", "result", "end", "opponent", ""), shard.num_games - len(rows))


def show_pack(path: Path) -> Iterator[str]:
    """A pack's contents, then its last shard."""
    pack = open_pack(path)
    metas = [read_meta(pack.folder / name.meta, pack) for name in pack.names]
    yield described(
        {
            **_facts("pack", pack.path, metas[0].game, metas[0].model, metas[0].worker),
            "shards": f"{len(pack.names):,}, {pack.names[0].shard} to {pack.names[-1].shard}",
            "games": f"{sum(meta.games for meta in metas):,}",
            "positions": f"{sum(meta.positions for meta in metas):,}",
            "bytes": f"{pack.sizes.sum():,}",
        }
    )
    yield ""
    yield "the last shard of the pack (each shard can also be shown by its own name):"
    yield from show_shard(pack.folder / pack.names[-1].shard)


def show_sidecar(path: Path) -> Iterator[str]:
    if layout.parse_pack_name(path.name):
        yield from show_pack(path)
        return
    meta = read_meta(path)
    lengths = meta.lengths
    yield described(
        {
            **_facts("sidecar", path, meta.game, meta.model, meta.worker),
            "commits": meta.path.name if not is_gone(meta.path) else f"{meta.path.name}, which is MISSING",
            "generation": meta.generation,
            "games": f"{meta.games:,}",
            "positions": f"{meta.positions:,}",
            **({"ended by the move limit": counted(meta.cut_short, "game")} if meta.cut_short else {}),
            "plies": f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average",
            "bytes": f"{meta.num_bytes:,} ({meta.num_bytes / meta.positions:.1f} a position)",
            "sha256": meta.sha256,
        }
    )


# Other programs' records


def show_foreign(form: RecordFormat, path: Path, index: int | None, moves: bool) -> Iterator[str]:
    game, games = form.read(path)
    if index is not None and not 0 <= index < len(games):
        raise UsageError(f"show --game: found {index}; {path} holds games 0 to {len(games) - 1}")
    read = games[index or 0]
    one = RecordedGame(
        path, index or 0, game, read.players, read.moves, [None] * len(read.moves), read.points, read.end,
        start=read.start, remarks=read.remarks,
    )  # fmt: skip
    if index is not None:
        yield from show_game(one, moves)
        return
    scores = any(each.score and any(each.score) for each in games)
    rows = [
        (
            str(i),
            *each.players,
            *(["–".join(map(str, each.score or ()))] if scores else []),
            str(len(each.moves)),
            winner(each.points, game, bool(each.remarks)),
            each.end,
        )
        for i, each in enumerate(games[:GAMES_LISTED])
    ]
    notes = list(dict.fromkeys(note for each in games for note in each.notes))
    more = f"; and {len(notes) - NOTES_SHOWN} more" if len(notes) > NOTES_SHOWN else ""
    told = {"note": "; ".join(notes[:NOTES_SHOWN]) + more} if notes else {}
    facts = described({f"{form.holds} of {game.spec.partition(',')[0]}": path, "games": len(games), **told})
    header = ("game", *game.marks, *(["score before"] if scores else []), "plies", "result", "")
    listed = table(rows, header, len(games) - len(rows))
    yield from _with_overview(path, [facts, listed], show_game(one, moves, len(one.moves)))


# Matches


def show_match(path: Path, moves: bool, whole: bool) -> Iterator[str]:
    """The result and what a screen holds; whole: with settings, summary and the first game."""
    match = read_match(path)
    with named_in(path):
        game = recorded_game(match.header.game)
    texts = ["\n".join(_headline(match)), described(_match_facts(match, game))]
    if whole:
        texts.append(f"settings:\n{described(dict(flattened(match.header.settings)))}")
        if match.summary:
            summary = described(dict(flattened(match.summary)))
            texts.append(f"summary of the stage that played the match:\n{summary}")
    if match.failures:
        texts.append(_failures_table(match.failures))
    if match.games:
        texts.append(_openings_table(game, match.games, MOST_OPENINGS_LISTED if whole else OPENINGS_LISTED))
    if whole and match.games:
        one = RecordedGame.of_match(match, match.games[0])
        yield from _with_overview(path, texts, show_game(one, moves, len(one.moves)))
        if (path / layout.MATCH_SGF).is_dir():
            yield f"Game records (SGF): {path / layout.MATCH_SGF}"
        return
    if match.games:
        texts.append(
            f"More: show {path} --game N for every move of game N, and --moves for every board;\n"
            f"show {path / layout.MATCH_GAMES} for all settings and figures."
        )
    yield "\n\n".join(texts)


def _headline(match: Match) -> Iterator[str]:
    header, score, summary = match.header, score_of(counted_games(match)), match.summary or {}
    text = f"{header.challenger} against {header.champion}: {results(score.wins, score.draws, score.losses)}"
    decision = decision_of(match)
    yield text if match.summary is None and match.num_games > header.games else f"{text}; {decision}"
    if score.games:
        low, high = wilson_interval(score)
        needed = share_needed(summary) if header.max_result == 1 and decision != MEASURED else None
        yield (
            f"{percent(score.share)} of the {'points' if header.max_result == 1 else 'games'} "
            f"({100 * low:.0f}–{100 * high:.0f}){'' if needed is None else f', needed {percent(needed)}'}"
        )
    if decision != MEASURED and isinstance(reason := summary.get("reason"), str):
        yield reason


def _moves_in_line(game: Game, moves: Sequence[int], stones: Sequence[int]) -> str:
    placed = [f"({' '.join(game.action_name(point) for point in stones)})"] if stones else []
    return " ".join([*placed, *move_names(game, moves, stones)])


def _match_facts(match: Match, game: AnyGame) -> dict[str, object]:
    header, games = match.header, cast(Sequence[MatchGame], counted_games(match))
    status = ""
    if match.summary is None:  # a growing match is never decided
        status = " asked for so far" if match.num_games > header.games else ", not decided yet"
    left_out = f", {len(games)} of which count" if len(games) < len(match.games) else ""
    if match.summary and len(measured_games(match)) < len(match.games):  # docs/statistics.md: they are no fair sample
        left_out += ": the others weren't needed for the decision"
    facts: dict[str, object] = {
        "game": header.game,
        "challenger": _player(header.players[0]),
        "opponent" if decision_of(match) == MEASURED else "champion": _player(header.players[1]),
        "games": f"{len(match.games)} of {match.num_games}{status}{left_out}",
    }
    if header.handicap_side is not None:
        taker = header.players[header.handicap_side].name
        facts["handicap"] = f"{header.handicap} stones for {taker}, who is black in every game; white moves first"
    if repeated := _repeated(match):
        facts["repeated games"] = repeated
    facts |= {
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
            facts["points a game"] = _points(match, game, games)
        lengths = np.array([one.length for one in games])
        facts["plies"] = f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average"
        ends = Counter(one.end.replace("_", " ") for one in games)
        facts["ends"] = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    if match.failures:
        facts["failures"] = _failure_counts(match)
    return {**facts, **promotion_conditions(match.summary or {}, match.folder.parent / layout.REQUIRED)}


def _score(games: Iterable[MatchGame]) -> str:
    score = score_of(games)
    share = f" ({score.wins / score.games:.1%} won)" if score.games else ""
    return results(score.wins, score.draws, score.losses) + share


def _points(match: Match, game: AnyGame, games: Sequence[MatchGame]) -> str:
    """The challenger's mean points over whole pairs, then wins and losses by kind."""
    found = PairPoints.of(pair_points(games))
    kinds = zip(("won", "lost"), counts_by_name(games, game.result_names), strict=True)
    counts = "; ".join(f"{what} {', '.join(f'{n} {name}' for name, n in named.items())}" for what, named in kinds)
    low, high = found.interval()
    return f"{found.mean:+.3f} ({low:+.3f} to {high:+.3f}) in {counted(found.pairs, 'whole pair')}; {counts}"


def _repeated(match: Match) -> str:
    """The number of duplicates, and whether they count; "" if there are none."""
    games = countable_games(match)
    repeated = len(repeated_games(games))
    if not repeated:
        return ""
    text = f"{repeated} of {len(games)} have the moves and colours of an earlier one"
    if not match.header.settings.get("exclude_duplicates"):
        return f"{text}; they count like the others"
    return f"{text}; they are excluded: decision, summary and what follows are about the other {len(games) - repeated}"


def _player(player: PlayerInfo) -> str:
    kind = player.kind if player.readouts is None else f"{player.kind} with {player.readouts} readouts a move"
    parts = [part for part in (kind, player.spec) if part != player.name]
    return player.name + (f" ({', '.join(parts)})" if parts else "")


def _failure_counts(match: Match) -> str:
    failed = {failure.failed for failure in match.failures}
    given_up = failed - {game.index for game in match.games}
    games = "game" if len(failed) == 1 else "games"
    text = f"{counted(len(match.failures), 'attempt')} at {games} {shortened_list(sorted(failed), NUMBERS_LISTED)}"
    if not given_up:
        return f"{text}; all were played after all"
    return f"{text}; not played to an end: {shortened_list(sorted(given_up), NUMBERS_LISTED)}"


def _failures_table(failures: Sequence[MatchFailure]) -> str:
    rows = []
    for one in failures[-FAILURES_LISTED:]:
        problem = " ".join(one.problem.split())
        if len(problem) > PROBLEM_WIDTH:
            problem = problem[: PROBLEM_WIDTH - 2] + " …"
        when = f"after {len(one.moves)} plies"
        rows.append((str(one.failed), str(one.attempt), one.kind, one.player or "-", when, problem))
    header = ("failed game", "attempt", "kind", "player", "when", "problem")
    return table(rows, header, len(failures) - len(rows), "before them")


def _openings_table(game: Game, games: Sequence[MatchGame], most: int) -> str:
    rows = []
    for one in games[:most]:
        opening = _moves_in_line(game, one.moves[: one.opening_plies], one.stones) or "-"
        points = one.challenger_result
        result = "won" if points > 0 else "lost" if points < 0 else "drawn"
        if (name := game.result_names.get(abs(points))) is not None:
            result += f" a {name}"
        end = "" if one.end == "played_out" else one.end.replace("_", " ")
        rows.append((str(one.index), "XO"[one.challenger_player], result, str(one.length), end, opening))
    return table(rows, ("game", "challenger", "result", "plies", "end", "opening"), len(games) - len(rows))
