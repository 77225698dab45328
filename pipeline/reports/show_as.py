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
from pipeline.games.contract import CHANCE, Game
from pipeline.games.records import SGF, PlayedGame, RecordText, formats_of, name_of, record_format
from pipeline.games.sgf import sgf_name
from pipeline.methods.named import method_named
from pipeline.phrases import counted, listed
from pipeline.reports.recorded_games import RecordedGame, damaged_game, games_at, is_pack, is_shard
from pipeline.run.packs import is_gone, open_pack
from pipeline.run.shards import newest_shards

Named = tuple[str, str]
"""A file name and its content."""


# Records


def records_of(path: Path, index: int | None = None, form: str = SGF) -> Iterator[Named]:
    """The records of all games of a shard, pack or match, or of one game. form: the name of a format.

    Raises UsageError if the format can't hold a game.
    """
    writer = record_format(form)
    for one in games_at(path, index):
        if refusal := writer.refusal(one.game):
            if form == SGF and (others := formats_of(one.game)):
                refusal += f"; {name_of(one.game)} has {listed([f'--{name}' for name in others])}"
            raise UsageError(f"show --{form}: {one.path} holds games of {one.game.spec}; {refusal}")
        end = f"end: {one.end}"
        if one.shard is None or one.record is None:
            source, event, comment = one.path.name, one.path.name, end
        else:
            source, event = one.path.stem, f"self-play of {one.shard.model}, worker {one.shard.header.get('worker')}"
            comment = f"id {one.record.game_id:016x}; {end}; shard {one.path.name}"
        text = RecordText(*one.players, event=event, round=str(one.index), comment=comment)
        resigned_by = int(one.result_first_player > 0) if one.end == "resigned" else None
        comments, winrates = _comments(one)
        settled = one.end == "settled"
        played = PlayedGame(one.moves, text, comments, winrates, resigned_by, one.stones, settled=settled)
        with damaged_game(one.path, one.index):
            written = writer.write(one.game, played)
        yield f"{source}-{Path(sgf_name(one.index)).with_suffix(writer.suffixes[0])}", written


def _comments(one: RecordedGame) -> tuple[list[str], list[float | None]]:
    """(comments [T], the first player's winrates in percent [T]). Without winrates if a win may count more than 1."""
    if not isinstance(one.game, Game):
        return ["" if value is None else f"value {value:+.3f} to move" for value in one.values_to_move], []
    winrates = [None if value is None else 50 * (1 + value) for value in one.values_first]
    colour = one.game.colours[0].lower()
    comments = []
    for ply, (winrate, value, state) in enumerate(zip(winrates, one.values_to_move, one.states(), strict=False)):
        valued = "" if winrate is None else f"{colour}'s winrate {winrate:.1f}%, value {value:+.3f} to move"
        with damaged_game(one.path, one.index):
            comments.append("\n".join(filter(None, [valued, one.search_text(ply, state)])))
    return comments, winrates


# CSV


def csv_lines(path: Path, index: int | None = None) -> Iterator[str]:
    """The header, then the lines of all games of a shard, pack or folder of shards, or of one game of a shard.

    Raises FileError for damaged games, UsageError for any other file.
    """
    shards = _shards_at(path)
    if index is not None and len(shards) != 1:
        raise UsageError(f"show --csv --game: {path} holds {counted(len(shards), 'shard')}; name one of them")
    names: tuple[str, ...] | None = None
    for shard in shards:
        for row in _rows(shard, index):
            if names is None:
                names = tuple(row)
                yield _line(list(names))
            yield _line([row.get(name, "") for name in names])


def _line(cells: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # it quotes what occurs in the terminator
    return text.getvalue().removesuffix("\r\n")


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
    for one in games_at(path, index):
        shard, record, game = one.shard, one.record, one.game
        assert shard is not None and record is not None
        with named_in(path):
            method = method_named(shard.header["method"])
        plies = zip(one.values_to_move, one.states(), strict=False)
        with damaged_game(path, one.index):
            for ply, (value, state) in enumerate(plies):
                mover = int(game.to_move(state)[0])
                by_chance = mover == CHANCE
                yield {
                    "shard": shard.id,
                    "game": one.index,
                    "ply": ply,
                    "player": "" if by_chance else mover,
                    "move": game.move_name(state[0], one.moves[ply]),
                    "value_to_move": "" if value is None else f"{value:.4g}",
                    "result_first_player": f"{one.result_first_player + 0.0:g}",
                    "opponent": record.opponent or "",
                    "learner": int(not by_chance and not one.made_by_opponent(mover)),
                    **method.facts(game, state[0], record, ply),
                }
