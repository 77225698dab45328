"""``show --csv``: the moves of shards as comma-separated values, one line per move.

Columns: shard, game (its index in the shard), ply, player (0, 1; empty for chance), move, value_to_move (empty if
unknown), result_first_player, opponent, learner (1 if the model made the move), then the method's own columns
(Method.facts).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.contract import CHANCE
from pipeline.games.replay import replay_one
from pipeline.games.specs import recorded_game
from pipeline.methods.named import method_named
from pipeline.reports.show_records import checked_index, is_pack, is_shard, sidecar_of
from pipeline.run.packs import is_gone, open_pack
from pipeline.run.shards import BOTH, NO_VALUE, newest_shards, read_shard


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
        game = recorded_game(shard.game_spec)
        method = method_named(shard.header["method"])
    for number in range(shard.num_games) if index is None else [checked_index(shard, index)]:
        record = shard.game(number)
        try:
            played = game.varied(record.setup)
            for ply, state in enumerate(replay_one(played, record.moves)):
                if ply == len(record.moves):
                    break
                mover = int(played.to_move(state)[0])
                by_chance = mover == CHANCE
                yield {
                    "shard": shard.id,
                    "game": number,
                    "ply": ply,
                    "player": "" if by_chance else mover,
                    "move": played.move_name(state[0], int(record.moves[ply])),
                    "value_to_move": "" if record.flags[ply] & NO_VALUE else f"{record.root_values[ply]:.4g}",
                    "result_first_player": f"{record.result_first_player:g}",
                    "opponent": record.opponent or "",
                    "learner": int(not by_chance and record.learner in (BOTH, mover)),
                    **method.facts(played, state[0], record, ply),
                }
        except (IllegalMove, IndexError) as error:
            raise FileError(path, f"damaged: game {number}: {error}") from error


def _line(cells: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
