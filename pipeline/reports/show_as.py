"""``show --sgf``, other record formats and ``--csv``: games of shards and matches for other programs.

Records: a move's comment describes the search that chose it: the first player's winrate, the mover's value, visits, and
the moves visited most. SBKV, from which Sabaki draws winrates, is the first player's winrate in percent in the position
after the node's move. So it comes from the search before the next move.

CSV: a line per move of a shard. Columns: shard, game (its index in the shard), ply, player (0, 1; empty for chance),
move, value_to_move (empty if unknown), result_first_player, opponent, learner (1 if the model made the move), then the
method's own columns (Method.facts).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import FileError, UsageError, named_in
from pipeline.games.contract import CHANCE, AnyGame, Game
from pipeline.games.records import SGF, PlayedGame, RecordFormat, RecordText, formats_of, name_of, record_format
from pipeline.games.sgf import sgf_name
from pipeline.games.specs import recorded_game
from pipeline.methods.named import method_named
from pipeline.phrases import listed
from pipeline.reports.recorded_games import RecordedGame, damaged_game, search_text, sidecar_of
from pipeline.reports.show_games import game_in_pack, is_pack, is_shard
from pipeline.run.matches import read_match
from pipeline.run.packs import is_gone, open_pack
from pipeline.run.shards import POLICY_COUNTS, newest_shards, read_shard

Named = tuple[str, str]
"""A file name and its content."""


# Records


def shard_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The records of all games of a shard, or of one game. form: the name of a format.

    Raises UsageError if the format can't hold the game.
    """
    shard = read_shard(path, sidecar_of(path))
    writer = _format(path, shard.game_spec, form)
    for number in range(shard.num_games) if index is None else [index]:
        one = RecordedGame.of_shard(shard, number)
        assert one.record is not None
        text = RecordText(
            *one.players,
            event=f"self-play of {shard.model}, worker {shard.header.get('worker')}",
            round=str(number),
            comment=f"id {one.record.game_id:016x}; end: {one.end}; shard {path.name}",
        )
        yield _named(path.stem, number, writer), _record(one, text, writer)


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
    writer = _format(path, match.header.game, form)
    games = [one for one in match.games if index in (None, one.index)]
    if index is not None and not games:
        found = f"game {index} of {path} isn't there; it has {len(match.games)} games so far"
        raise UsageError(f"show --game: {found}")
    for game in games:
        one = RecordedGame.of_match(match, game)
        text = RecordText(*one.players, event=path.name, round=str(one.index), comment=f"end: {one.end}")
        yield _named(path.name, one.index, writer), _record(one, text, writer)


def _format(path: Path, spec: str, form: str) -> RecordFormat:
    """Raises UsageError if the format can't hold the game."""
    with named_in(path):
        game: AnyGame = recorded_game(spec)
    found = record_format(form)
    if refusal := found.refusal(game):
        if form == SGF and (others := formats_of(game)):
            refusal += f"; {name_of(game)} has {listed([f'--{name}' for name in others])}"
        raise UsageError(f"show --{form}: {path} holds games of {spec}; {refusal}")
    return found


def _named(source: str, number: int, form: RecordFormat) -> str:
    return f"{source}-{Path(sgf_name(number)).with_suffix(form.suffixes[0])}"


def _record(one: RecordedGame, text: RecordText, form: RecordFormat) -> str:
    comments, winrates = _comments(one)
    played = PlayedGame(
        one.moves,
        text,
        comments,
        winrates,
        resigned_by=int(one.result_first_player > 0) if one.end == "resigned" else None,
        stones=one.stones,
        settled=one.end == "settled",
    )
    with damaged_game(one.path, one.index):
        return form.write(one.game, played)


def _comments(one: RecordedGame) -> tuple[list[str], list[float | None]]:
    """(comments [T], the first player's winrates in percent [T]). Without winrates if a win may count more than 1."""
    if not isinstance(one.game, Game):
        return ["" if value is None else f"value {value:+.3f} to move" for value in one.values_to_move], []
    winrates = [None if value is None else 50 * (1 + value) for value in one.values_first]
    comments = []
    searches = list(_searches(one, one.game)) if one.record else ["opening"] * one.opening_plies
    for ply, (winrate, value) in enumerate(zip(winrates, one.values_to_move, strict=True)):
        colour = one.game.colours[0].lower()
        valued = "" if winrate is None else f"{colour}'s winrate {winrate:.1f}%, value {value:+.3f} to move"
        comments.append("\n".join(filter(None, [valued, *searches[ply : ply + 1]])))
    return comments, winrates


def _searches(one: RecordedGame, game: Game) -> Iterator[str]:
    """The visits before each move, or the opponent's name if it made the move."""
    assert one.record is not None
    for flags, mover, search, state in zip(one.record.flags, one.movers, one.searches, one.states(), strict=False):
        if one.made_by_opponent(mover):
            yield f"by {one.record.opponent}"
        elif len(search[0]):
            yield ("" if flags & POLICY_COUNTS else "cheap search, ") + search_text(game, state, search)
        else:
            yield ""


# CSV


def csv_lines(path: Path, index: int | None = None) -> Iterator[str]:
    """The header, then the lines of all games of a shard, pack or folder of shards, or of one game of a shard.

    Raises FileError for damaged games, UsageError for any other file.
    """
    shards = _shards_at(path)
    if index is not None and len(shards) != 1:
        raise UsageError(f"show --csv --game: {path} holds {len(shards)} shards; name one of them")
    names: tuple[str, ...] | None = None
    for shard in shards:
        for row in _rows(shard, index):
            if names is None:
                names = tuple(row)
                yield _line(list(names))
            yield _line([row.get(name, "") for name in names])


def _line(cells: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _shards_at(path: Path) -> list[Path]:
    if is_gone(path):
        raise FileError(path, "no such file; wanted a game shard or a folder of them")
    if is_pack(path):
        pack = open_pack(path)
        return [pack.folder / name.shard for name in pack.names]
    if is_shard(path):
        return [path]
    found = [meta.path for meta in newest_shards(path)] if path.is_dir() else []
    if not found:
        raise UsageError(f"show {path}: --csv is for game shards and data/selfplay")
    return found[::-1]


def _rows(path: Path, index: int | None) -> Iterator[dict[str, object]]:
    shard = read_shard(path, sidecar_of(path))
    with named_in(path):
        method = method_named(shard.header["method"])
    for number in range(shard.num_games) if index is None else [index]:
        one = RecordedGame.of_shard(shard, number)
        record, game = one.record, one.game
        assert record is not None
        plies = zip(one.movers, one.values_to_move, one.states(), strict=False)
        with damaged_game(path, number):
            for ply, (mover, value, state) in enumerate(plies):
                by_chance = mover == CHANCE
                yield {
                    "shard": shard.id,
                    "game": number,
                    "ply": ply,
                    "player": "" if by_chance else mover,
                    "move": game.move_name(state[0], one.moves[ply]),
                    "value_to_move": "" if value is None else f"{value:.4g}",
                    "result_first_player": f"{record.result_first_player:g}",
                    "opponent": record.opponent or "",
                    "learner": int(not by_chance and not one.made_by_opponent(mover)),
                    **method.facts(game, state[0], record, ply),
                }
