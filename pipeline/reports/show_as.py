"""``show --sgf`` and the like: games of shards and matches as records for other programs, with what searches found.

A move's comment is about the search that chose it: black's winrate, the mover's value, visits and the moves visited
most. SBKV, from which Sabaki draws a game's winrates, is black's in percent in the position that a node shows, which is
the one after its move: it comes from the search before the next move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.records import SGF, PlayedGame, RecordFormat, RecordText, formats_of, name_of, record_format
from pipeline.games.replay import movers, replay_one
from pipeline.games.sgf import sgf_name
from pipeline.games.specs import recorded_game
from pipeline.phrases import listed
from pipeline.reports.show_records import checked_index, found_by_search, game_in_pack, sidecar_of
from pipeline.run.matches import MatchGame, read_match
from pipeline.run.packs import open_pack
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, GameRecord, Shard, read_shard

Named = tuple[str, str]
"""A file name and what it holds."""


def shard_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The records of a shard's games, or of this one. form: the name of a format.

    Raises UsageError for a game that isn't written so.
    """
    shard = read_shard(path, sidecar_of(path))
    game, written = _written(path, shard.game_spec, form)
    for number in range(shard.num_games) if index is None else [checked_index(shard, index)]:
        yield f"{path.stem}-{_name(number, written)}", _shard_record(game, shard, number, written)


def pack_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The same of all shards of a pack."""
    pack = open_pack(path)
    if index is not None:
        yield from shard_records(*game_in_pack(pack, index), form)
        return
    for name in pack.names:
        yield from shard_records(pack.folder / name.shard, None, form)


def match_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The same of a match."""
    match = read_match(path)
    game, written = _written(path, match.header.game, form)
    games = sorted(match.games, key=lambda one: one.index)
    if index is not None and not any(one.index == index for one in games):
        raise UsageError(f"show --game: game {index} of {path} isn't there; it has {len(games)} games so far")
    names = (match.header.challenger, match.header.champion)
    for one in games:
        if index is None or one.index == index:
            first, second = names if one.challenger_player == 0 else names[::-1]
            text = RecordText(first, second, event=match.folder.name, round=str(one.index), comment=f"end: {one.end}")
            name = f"{match.folder.name}-{_name(one.index, written)}"
            yield name, _match_record(path, game, one, text, written)


def _written(path: Path, spec: str, form: str) -> tuple[AnyGame, RecordFormat]:
    """The game and the format, if it is written so."""
    with named_in(path):
        game: AnyGame = recorded_game(spec)
    found = record_format(form)
    if refusal := found.refusal(game):
        if form == SGF and (others := formats_of(game)):
            refusal += f"; {name_of(game)} has {listed([f'--{name}' for name in others])}"
        raise UsageError(f"show --{form}: {path} holds games of {spec}; {refusal}")
    return game, found


def _name(number: int, form: RecordFormat) -> str:
    return str(Path(sgf_name(number)).with_suffix(form.suffixes[0]))


def _shard_record(game: AnyGame, shard: Shard, number: int, form: RecordFormat) -> str:
    record = shard.game(number)
    names = [shard.model, shard.model]
    if record.opponent is not None and record.learner != BOTH:
        names[1 - record.learner] = record.opponent
    text = RecordText(
        names[0],
        names[1],
        event=f"self-play of {shard.model}, worker {shard.header.get('worker')}",
        round=str(number),
        comment=f"id {record.game_id:016x}; end: {record.end.name.lower()}; shard {shard.path.name}",
    )
    values = [
        None if flags & NO_VALUE else float(value)
        for flags, value in zip(record.flags.tolist(), record.root_values, strict=True)
    ]
    try:
        game = game.varied(record.setup)
        ends = np.cumsum(record.visit_lengths, dtype=np.int64).tolist()
        found = [
            _search_of(game, record, ply, state, ends[ply]) if isinstance(game, Game) else ""
            for ply, state in zip(range(len(record.moves)), replay_one(game, record.moves), strict=False)
        ]
        played = PlayedGame(
            record.moves.tolist(),
            text,
            *_told(game, movers(game, record.moves), values, found),
            resigned_by=_loser(record.result_first_player) if record.end == End.RESIGNED else None,
            settled=record.end == End.SETTLED,
        )
        return form.write(game, played)
    except IllegalMove as error:
        raise FileError(shard.path, f"damaged: game {number}: {error}") from error


def _match_record(path: Path, game: AnyGame, one: MatchGame, text: RecordText, form: RecordFormat) -> str:
    try:
        openings = ["opening" if ply < one.opening_plies else "" for ply in range(len(one.moves))]
        played = PlayedGame(
            one.moves,
            text,
            *_told(game, movers(game, one.moves, one.stones), one.values_to_move, openings),
            resigned_by=_loser(one.result_first_player) if one.end == "resigned" else None,
            stones=one.stones,
        )
        return form.write(game, played)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {one.index}: {error}") from error


def _loser(result_first_player: float) -> int:
    return int(result_first_player > 0)


def _told(
    game: AnyGame, made_by: Sequence[int], values: Sequence[float | None], found: Sequence[str]
) -> tuple[list[str], list[float | None]]:
    """(comments, the first player's winrates), each of T moves. Where a game counts more than 1 a value is no winrate.

    made_by: who moved; values: to the mover; found: what else is known of each move.
    """
    if not isinstance(game, Game):
        return ["" if value is None else f"value {value:+.3f} to move" for value in values], []
    comments = [_comment(game, *one) for one in zip(values, made_by, found, strict=True)]
    return comments, [_first_winrate(value, mover) for value, mover in zip(values, made_by, strict=True)]


def _search_of(game: Game, record: GameRecord, ply: int, state: States, end: int) -> str:
    """What was visited before a move in a state [1, S], or who else made it. end: of its visits in the record's
    columns.
    """
    if record.learner not in (BOTH, int(game.to_move(state)[0])):
        return f"by {record.opponent}"
    visits = slice(end - int(record.visit_lengths[ply]), end)
    if visits.start == visits.stop:
        return ""
    kind = "" if record.flags[ply] & POLICY_COUNTS else "cheap search, "
    return kind + found_by_search(game, state, record.visit_actions[visits], record.visit_counts[visits])


def _comment(game: Game, value: float | None, mover: int, found: str) -> str:
    """One line for each thing that is known."""
    winrate = _first_winrate(value, mover)
    valued = (
        "" if winrate is None else f"{game.colours[0].lower()}'s winrate {winrate:.1f}%, value {value:+.3f} to move"
    )
    return "\n".join(filter(None, [valued, found]))


def _first_winrate(value_to_move: float | None, mover: int) -> float | None:
    """In percent; a draw counts as half a win."""
    if value_to_move is None:
        return None
    return 50 * (1 + (value_to_move if mover == 0 else -value_to_move))
