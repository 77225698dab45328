"""``show`` for shards and their sidecars: games with boards, values and visits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.base import Game
from pipeline.games.registry import recorded_game
from pipeline.games.replay import replay_one
from pipeline.reports.boards import top_moves
from pipeline.reports.tables import described, indented, table
from pipeline.storage import layout
from pipeline.storage.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, GameRecord, Shard, read_meta, read_shard

GAMES_LISTED = 20
POSITIONS_SHOWN = 3  # of a game, when nothing else is asked for


def winner(result_first_player: float) -> str:
    return "X wins" if result_first_player > 0 else "O wins" if result_first_player < 0 else "draw"


def sides(opponent: str | None, learner: int) -> str:
    """Which side the opponent played; empty where the model played both. learner: as in GameRecord."""
    return "" if opponent is None else f"{'XO'[1 - learner]} is {opponent}"


def show_shard(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A shard's header and games, then the last positions of its first game; with index, that game move by move."""
    meta = read_meta(path) if layout.meta_path(path).exists() else None
    shard = read_shard(path, meta)
    game = recorded_game(shard.game_spec)
    if index is not None and not 0 <= index < shard.num_games:
        raise UsageError(f"show --game: found {index}; {path} holds games 0 to {shard.num_games - 1}")
    if index is None:
        yield shard_header(shard, committed=meta is not None)
        yield ""
        yield games_table(shard)
        yield ""
    try:
        yield from show_game(game, shard.game(index or 0), index or 0, moves, brief=index is None)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {index or 0}: {error}") from error
    if index is None:
        yield ""
        yield f"More: show {path} --game N for every move of game N, and --moves for every board."


def shard_header(shard: Shard, committed: bool) -> str:
    provenance = shard.header.get("provenance", {})
    return described(
        {
            "shard": shard.path,
            "game": shard.game_spec,
            "played by": f"{shard.model}, worker {shard.header.get('worker')}",
            "generation": provenance.get("generation", "-"),
            "games": f"{shard.num_games:,}",
            "positions": f"{shard.num_positions:,}",
            "committed": "yes" if committed else "no: it has no .meta file, so no stage reads it",
        }
    )


def games_table(shard: Shard) -> str:
    rows = []
    for index in range(min(shard.num_games, GAMES_LISTED)):
        end = End(int(shard.ends[index])).name.lower().replace("_", " ")
        note = "never resigns" if shard.no_resign[index] else ""
        plies = str(int(shard.lengths[index]))
        met = sides(shard.opponent(index), int(shard.learners[index]))
        rows.append((str(index), plies, winner(float(shard.results[index])), end, met, note))
    text = table(rows, ("game", "plies", "result", "end", "opponent", ""))
    left = shard.num_games - len(rows)
    return text + (f"\n… and {left} more" if left else "")


def show_game(game: Game, record: GameRecord, index: int, moves: bool, brief: bool) -> Iterator[str]:
    """One game. brief: only its last positions, with boards; else every move, with boards if moves."""
    num_plies = len(record.moves)
    met = f"{sides(record.opponent, record.learner)}; " if record.opponent is not None else ""
    yield (
        f"game {index}: {num_plies} plies, {winner(record.result_first_player)}"
        f"{' by resignation' if record.end == End.RESIGNED else ''}   (X moves first; {met}id {record.game_id:016x})"
    )
    first_shown = max(0, num_plies - POSITIONS_SHOWN) if brief else 0
    offsets = [0, *np.cumsum(record.visit_lengths, dtype=np.int64).tolist()]
    state = None
    for ply, state in enumerate(replay_one(game, record.moves)):
        if ply < first_shown or ply == num_plies:
            continue
        if brief or moves:
            yield ""
            yield indented(game.diagram(state[0]))
        mover = int(game.to_move(state)[0])
        value = "none " if record.flags[ply] & NO_VALUE else f"{record.root_values[ply]:+.2f}"
        visits = slice(offsets[ply], offsets[ply + 1])
        found = f"visits {top_moves(game, record.visit_actions[visits], record.visit_counts[visits], unit='×')}"
        if record.learner not in (BOTH, mover):
            found = f"by {record.opponent}: no policy target"
        elif not record.flags[ply] & POLICY_COUNTS:
            found += "   (a cheap search: no policy target)"
        elif record.surprises is not None and record.surprises[ply] > 0:
            found += f"   surprise {record.surprises[ply]:.2f}"
        yield f"{ply:4d}  {'XO'[mover]} {game.action_name(int(record.moves[ply])):<5} value {value}   {found}"
    if state is not None:
        yield ""
        yield indented(game.diagram(state[0]))
        if record.end == End.PLAYED_OUT:
            yield f"    score of X: {float(game.scores(state)[0]):+g}"
    yield "    values are seen by the player to move; surprise: how far the search differs from the network, in nats"


def show_sidecar(path: Path) -> Iterator[str]:
    meta = read_meta(path)
    lengths = meta.lengths
    yield described(
        {
            "sidecar": path,
            "commits": meta.path.name if meta.path.exists() else f"{meta.path.name}, which is MISSING",
            "game": meta.game,
            "played by": f"{meta.model}, worker {meta.worker}",
            "generation": "-" if meta.generation is None else meta.generation,
            "games": f"{meta.games:,}",
            "positions": f"{meta.positions:,}",
            "plies": f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average",
            "bytes": f"{meta.num_bytes:,} ({meta.num_bytes / meta.positions:.1f} a position)",
            "sha256": meta.sha256,
        }
    )
