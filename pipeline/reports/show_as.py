"""``show --sgf`` and other formats: games of shards and matches as records for other programs, with search results.

A move's comment describes the search that chose it: the first player's winrate, the mover's value, visits, and the
moves visited most. SBKV, from which Sabaki draws winrates, is the first player's winrate in percent in the position
after the node's move. So it comes from the search before the next move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.records import SGF, PlayedGame, RecordFormat, RecordText, formats_of, name_of, record_format
from pipeline.games.replay import movers, replay_one
from pipeline.games.sgf import sgf_name
from pipeline.games.specs import recorded_game
from pipeline.phrases import listed
from pipeline.reports.show_records import (
    checked_index,
    game_in_pack,
    player_names,
    search_text,
    searches,
    sidecar_of,
    values_to_move,
)
from pipeline.run.matches import MatchGame, read_match
from pipeline.run.packs import open_pack
from pipeline.run.shards import BOTH, POLICY_COUNTS, End, GameRecord, Shard, read_shard

Named = tuple[str, str]
"""A file name and its content."""


def shard_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The records of all games of a shard, or of one game. form: the name of a format.

    Raises UsageError if the format can't hold the game.
    """
    shard = read_shard(path, sidecar_of(path))
    game, written = _written(path, shard.game_spec, form)
    for number in range(shard.num_games) if index is None else [checked_index(shard, index)]:
        yield f"{path.stem}-{_name(number, written)}", _shard_record(game, shard, number, written)


def pack_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """As shard_records, for all shards of a pack."""
    pack = open_pack(path)
    if index is not None:
        yield from shard_records(*game_in_pack(pack, index), form)
        return
    for name in pack.names:
        yield from shard_records(pack.folder / name.shard, None, form)


def match_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """As shard_records, for a match."""
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
    """The game and the format. Raises UsageError if the format can't hold the game."""
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
    text = RecordText(
        *player_names(shard, record),
        event=f"self-play of {shard.model}, worker {shard.header.get('worker')}",
        round=str(number),
        comment=f"id {record.game_id:016x}; end: {record.end.name.lower()}; shard {shard.path.name}",
    )
    try:
        game = game.varied(record.setup)
        found = [
            _found(game, record, ply, state, *search) if isinstance(game, Game) else ""
            for ply, (search, state) in enumerate(zip(searches(record), replay_one(game, record.moves), strict=False))
        ]
        played = PlayedGame(
            record.moves.tolist(),
            text,
            *_comments(game, movers(game, record.moves), values_to_move(record), found),
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
            *_comments(game, movers(game, one.moves, one.stones), one.values_to_move, openings),
            resigned_by=_loser(one.result_first_player) if one.end == "resigned" else None,
            stones=one.stones,
        )
        return form.write(game, played)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {one.index}: {error}") from error


def _loser(result_first_player: float) -> int:
    return int(result_first_player > 0)


def _comments(
    game: AnyGame, made_by: Sequence[int], values: Sequence[float | None], found: Sequence[str]
) -> tuple[list[str], list[float | None]]:
    """(comments [T], the first player's winrates [T]). Without winrates if a win may count more than 1.

    made_by: the mover of each move; values: from the mover's viewpoint; found: further text for each move.
    """
    if not isinstance(game, Game):
        return ["" if value is None else f"value {value:+.3f} to move" for value in values], []
    winrates = [_first_winrate(value, mover) for value, mover in zip(values, made_by, strict=True)]
    comments = []
    for winrate, value, text in zip(winrates, values, found, strict=True):
        name = game.colours[0].lower()
        valued = "" if winrate is None else f"{name}'s winrate {winrate:.1f}%, value {value:+.3f} to move"
        comments.append("\n".join(filter(None, [valued, text])))
    return comments, winrates


def _found(
    game: Game, record: GameRecord, ply: int, state: States, actions: NDArray[np.integer], counts: NDArray[np.integer]
) -> str:
    """The visits of the search in a state [1, S], or the opponent's name if it made the move."""
    if record.learner not in (BOTH, int(game.to_move(state)[0])):
        return f"by {record.opponent}"
    if not len(actions):
        return ""
    kind = "" if record.flags[ply] & POLICY_COUNTS else "cheap search, "
    return kind + search_text(game, state, actions, counts)


def _first_winrate(value_to_move: float | None, mover: int) -> float | None:
    """The first player's, in percent; a draw counts as half a win."""
    if value_to_move is None:
        return None
    return 50 * (1 + (value_to_move if mover == 0 else -value_to_move))
