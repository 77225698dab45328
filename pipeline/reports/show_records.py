"""``show`` for shards, their sidecars and chunks: games with boards, values and visits; examples with their labels.

Axes: T plies of one game, n examples of a chunk, A actions, C planes, H×W the board. Values and labels are seen by the
player to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.contract import CHANCE, AnyGame, Game, Planes, States
from pipeline.games.replay import replay_one
from pipeline.games.specs import recorded_game
from pipeline.methods.alphazero.examples import entries
from pipeline.methods.method import Method
from pipeline.methods.named import method_named
from pipeline.reports.tables import described, indented, table
from pipeline.run import layout
from pipeline.run.chunks import ORIGIN, Chunk, read_chunk, read_header
from pipeline.run.order import COUNTED
from pipeline.run.packs import Gone, Pack, is_gone, open_pack
from pipeline.run.shards import (
    BOTH,
    NO_VALUE,
    POLICY_COUNTS,
    SEARCH_COLUMNS,
    End,
    GameRecord,
    Shard,
    ShardMeta,
    read_meta,
    read_shard,
)
from pipeline.search.gumbel import TARGET_SUM

TOP_MOVES = 5
GAMES_LISTED = 20
POSITIONS_SHOWN = 3  # of a game, when nothing else is asked for
EXAMPLES_SHOWN = 3
MOST_SHOWN = 16  # numbers of a column of an example, for its average to say anything
BY = {
    End.PLAYED_OUT: "",
    End.RESIGNED: " by resignation",
    End.MOVE_LIMIT: " at the move limit",
    End.SETTLED: ", nothing left to decide",
}


def winner(result_first_player: float, game: AnyGame) -> str:
    if result_first_player == 0:
        return "draw"
    name = game.result_names.get(abs(result_first_player))
    return f"{'X' if result_first_player > 0 else 'O'} wins{f' a {name}' if name else ''}"


def sides(opponent: str | None, learner: int) -> str:
    """Which side the opponent played; empty where the model played both. learner: as in GameRecord."""
    return "" if opponent is None else f"{'XO'[1 - learner]} is {opponent}"


def more(path: Path) -> Iterator[str]:
    yield ""
    yield f"More: show {path} --game N for every move of game N, and --moves for every board."


def final_board(game: AnyGame, state: States, scored: bool, settled: bool = False) -> Iterator[str]:
    """state: [1, S]; settled: the game ended because nothing was left to decide."""
    yield indented(game.diagram(state[0]))
    if settled and isinstance(game, Game):
        score = float(game.settled_scores(state, game.settled_owners(state))[0])
        yield f"    score of X, with all that can be captured captured: {score:+g}"
    elif scored:
        yield f"    score of X: {float(game.scores(state)[0]):+g}"


def show_shard(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A shard's header and games, then the last positions of its first game; with index, that game move by move."""
    meta = sidecar_of(path)
    shard = read_shard(path, meta)
    with named_in(path):
        game = recorded_game(shard.game_spec)
    if index is not None:
        checked_index(shard, index)
    if index is None:
        yield shard_header(shard, committed=meta is not None)
        yield ""
        yield games_table(shard)
        yield ""
    try:
        record = shard.game(index or 0)
        method = method_named(shard.header["method"])
        yield from show_game(game.varied(record.setup), record, index or 0, moves, index is None, method)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {index or 0}: {error}") from error
    if index is None:
        yield from more(path)


def sidecar_of(shard: Path) -> ShardMeta | None:
    """None if it has none, and so isn't committed. Raises FileError if it is damaged."""
    try:
        return read_meta(shard)
    except Gone:
        return None


def show_pack(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """What a pack holds, then its last shard; with index, that game of all in it, move by move."""
    pack = open_pack(path)
    if index is not None:
        yield from show_shard(*game_in_pack(pack, index), moves)
        return
    metas = [read_meta(pack.folder / name.meta, pack) for name in pack.names]
    yield described(
        {
            "pack": pack.path,
            "game": metas[0].game,
            "played by": f"{metas[0].model}, worker {metas[0].worker}",
            "shards": f"{len(pack.names):,}, {pack.names[0].shard} to {pack.names[-1].shard}",
            "games": f"{sum(meta.games for meta in metas):,}",
            "positions": f"{sum(meta.positions for meta in metas):,}",
            "bytes": f"{pack.sizes.sum():,}",
        }
    )
    yield ""
    yield "its last shard, which can be shown by its own name, as the others can:"
    yield from show_shard(pack.folder / pack.names[-1].shard, None, moves)


def game_in_pack(pack: Pack, index: int) -> tuple[Path, int]:
    """(shard, number in it) of a game of a pack. Raises UsageError if it has fewer, FileError if it is damaged."""
    before = 0
    for name in pack.names:
        num_games = read_meta(pack.folder / name.meta, pack).games
        if 0 <= index - before < num_games:
            return pack.folder / name.shard, index - before
        before += num_games
    raise UsageError(f"show --game: found {index}; {pack.path} holds games 0 to {before - 1}")


def checked_index(shard: Shard, index: int) -> int:
    """The number of a game. Raises UsageError if the shard has no such game."""
    if not 0 <= index < shard.num_games:
        raise UsageError(f"show --game: found {index}; {shard.path} holds games 0 to {shard.num_games - 1}")
    return index


def shard_header(shard: Shard, committed: bool) -> str:
    provenance, method = shard.header["provenance"], shard.header["method"]
    return described(
        {
            "shard": shard.path,
            "game": shard.game_spec,
            "played by": f"{shard.model}, worker {shard.header.get('worker')}",
            **({"method": method, "of each move": _kept(shard)} if method != "alphazero" else {}),
            "generation": provenance.get("generation", "-"),
            "games": f"{shard.num_games:,}",
            "positions": f"{shard.num_positions:,}",
            "committed": "yes" if committed else "no: it has no .meta file, so no stage reads it",
        }
    )


def _kept(shard: Shard) -> str:
    """What a method keeps of each move."""
    names = [array["name"] for array in shard.header["arrays"]]
    return ", ".join(name for name in names if name in SEARCH_COLUMNS or name in shard.own) or "the move alone"


def games_table(shard: Shard) -> str:
    rows, game = [], recorded_game(shard.game_spec)
    for index in range(min(shard.num_games, GAMES_LISTED)):
        end = End(int(shard.ends[index])).name.lower().replace("_", " ")
        note = "never resigns" if shard.no_resign[index] else ""
        plies = str(int(shard.lengths[index]))
        met = sides(shard.opponent(index), int(shard.learners[index]))
        rows.append((str(index), plies, winner(float(shard.results[index]), game), end, met, note))
    return table(rows, ("game", "plies", "result", "end", "opponent", ""), shard.num_games - len(rows))


def show_game(game: Game, record: GameRecord, index: int, moves: bool, brief: bool, method: Method) -> Iterator[str]:
    """One game. brief: only its last positions, with boards; else every move, with boards if moves."""
    num_plies = len(record.moves)
    met = f"{sides(record.opponent, record.learner)}; " if record.opponent is not None else ""
    if record.setup:
        met = f"{game.spec}; {met}"
    who_moves = (int(game.to_move(state)[0]) for state in replay_one(game, record.moves))
    first = next((mover for mover in who_moves if mover != CHANCE), 0)
    yield (
        f"game {index}: {num_plies} plies, {winner(record.result_first_player, game)}"
        f"{BY[record.end]}   ({'XO'[first]} moves first; {met}id {record.game_id:016x})"
    )
    first_shown = max(0, num_plies - POSITIONS_SHOWN) if brief else 0
    offsets = [0, *np.cumsum(record.visit_lengths, dtype=np.int64).tolist()]
    searched = bool(len(record.visit_counts) or (record.flags & POLICY_COUNTS).any()) and not method.steps_only
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
        found = ""
        if searched:
            found = found_by_search(game, state, record.visit_actions[visits], record.visit_counts[visits])
        if record.learner not in (BOTH, mover) and mover != CHANCE:
            found = f"by {record.opponent}" + (": no policy target" if searched else "")
        elif searched and not record.flags[ply] & POLICY_COUNTS:
            found += "   (a cheap search: no policy target)"
        elif searched and record.surprises[ply] > 0:
            found += f"   surprise {record.surprises[ply]:.2f}"
        kept = method.facts(game, state[0], record, ply)
        found += "".join(f"   {name} {value}" for name, value in kept.items() if str(value) and "\n" not in str(value))
        name = game.move_name(state[0], int(record.moves[ply]))
        yield f"{ply:4d}  {'XO*'[mover]} {name:<5} value {value}   {found}".rstrip()
    if state is not None:
        yield ""
        yield from final_board(game, state, record.end != End.RESIGNED, record.end == End.SETTLED)
    surprise = "; surprise: how far the search differs from the network, in nats" if searched else ""
    yield f"    values are seen by the player to move{surprise}"


def without_places(window: Mapping[str, Any]) -> dict[str, Any]:
    """A window's description, without how many shards of every worker were counted."""
    return {name: value for name, value in window.items() if name != COUNTED}


def show_sidecar(path: Path) -> Iterator[str]:
    if layout.parse_pack_name(path.name):
        yield from show_pack(path, None, False)
        return
    meta = read_meta(path)
    lengths = meta.lengths
    yield described(
        {
            "sidecar": path,
            "commits": meta.path.name if not is_gone(meta.path) else f"{meta.path.name}, which is MISSING",
            "game": meta.game,
            "played by": f"{meta.model}, worker {meta.worker}",
            "generation": meta.generation,
            "games": f"{meta.games:,}",
            "positions": f"{meta.positions:,}",
            **({"ended by the move limit": f"{meta.cut_short:,} games"} if meta.cut_short else {}),
            "plies": f"{lengths.min()} to {lengths.max()}, {lengths.mean():.1f} on average",
            "bytes": f"{meta.num_bytes:,} ({meta.num_bytes / meta.positions:.1f} a position)",
            "sha256": meta.sha256,
        }
    )


def found_by_search(game: Game, state: States, actions: NDArray[np.integer], counts: NDArray[np.integer]) -> str:
    """ "32 visits: D4 18× (56%) …" in a state [1, S]; of Gumbel's full searches, which leave a policy instead,
    "policy: D4 56% …".
    """
    total = int(counts.sum())
    if abs(total - TARGET_SUM) <= len(counts):
        return f"policy: {top_moves(game, actions, counts, state=state)}"
    return f"{total} visits: {top_moves(game, actions, counts, '×', state)}" if total else "no visits"


def top_moves(
    game: Game,
    actions: NDArray[np.integer],
    weights: NDArray[np.number],
    unit: str = "",
    state: States | None = None,
) -> str:
    """The heaviest of some actions, e.g. "D4 18 (56%)  E5 9 (28%)  and 3 more".

    actions [n], weights [n] visits or probabilities; unit "" leaves the weight itself out and shows shares only.
    state [1, S]: the position before them; without it they are named as the mover sees them.
    """
    total = float(weights.sum())
    if total <= 0:
        return "none"
    order = np.argsort(-weights.astype(np.float64), kind="stable")
    order = order[weights[order] > 0]
    shown = []
    for i in order[:TOP_MOVES]:
        share = f"{100 * float(weights[i]) / total:.0f}%"
        name = game.action_name(int(actions[i])) if state is None else game.move_name(state[0], int(actions[i]))
        shown.append(f"{name} {int(weights[i])}{unit} ({share})" if unit else f"{name} {share}")
    left = len(order) - len(shown)
    return "  ".join(shown) + (f"  and {left} more" if left else "")


def show_chunk(path: Path) -> Iterator[str]:
    """A chunk's attributes, the distribution of its labels, and examples from all over it."""
    header = read_header(path)
    with named_in(path):
        game = recorded_game(header.game)
        types = method_named(header.method).columns(game)
    chunk = read_chunk(path, game.spec, types)
    columns = chunk.columns
    part = "hold-out: games that are never trained on" if header.index < 0 else f"{header.index} of {header.num_chunks}"
    yield described(
        {
            "chunk": path,
            "game": header.game,
            "set": header.set_id,
            "part": part,
            "seed": header.seed,
            "examples": f"{chunk.num_examples:,}",
            "sampled from": f"{num_games(columns):,} games in {len(np.unique(columns['shard'])):,} shards",
            **{f"window {name}": value for name, value in without_places(header.window).items()},
        }
    )
    if not chunk.num_examples:
        return
    yield ""
    if header.method != "alphazero":
        yield from _numbers(columns)
        return
    yield described(distributions(columns))
    for index in np.linspace(0, chunk.num_examples - 1, EXAMPLES_SHOWN).astype(int):
        yield ""
        yield example(game, chunk, int(index))


def _numbers(columns: dict[str, NDArray[Any]]) -> Iterator[str]:
    """Means of the columns of few numbers, if all are known; then some examples' single numbers."""
    shown = {name: column for name, column in columns.items() if column[0].size <= MOST_SHOWN}
    shown = {name: column for name, column in shown.items() if not np.isnan(column).any()}
    yield described({name: f"{column.mean():.4g} on average" for name, column in shown.items() if name not in ORIGIN})
    names = tuple(sorted((name for name in shown if shown[name].ndim == 1), key=lambda name: name not in ORIGIN))
    chosen = np.linspace(0, len(shown["ply"]) - 1, EXAMPLES_SHOWN).astype(int)
    yield ""
    yield table([tuple(f"{shown[name][index]:.4g}" for name in names) for index in chosen], names)


def num_games(columns: dict[str, NDArray[Any]]) -> int:
    return len(np.unique(np.stack([columns["shard"], columns["game"]], axis=1), axis=0))


def are_results(values: NDArray[np.floating]) -> bool:
    """Whether values are results alone: nothing between a win, a draw and a loss."""
    return bool(np.isin(values, (-1, 0, 1)).all())


def distributions(columns: dict[str, NDArray[Any]]) -> dict[str, object]:
    value, policy = columns["value"], columns["policy"].astype(np.float32)
    targets = columns["policy_weight"] > 0
    known = columns["final_weight"] > 0
    facts: dict[str, object] = {}
    if are_results(value):
        won, drawn, lost = np.mean(value > 0), np.mean(value == 0), np.mean(value < 0)
        facts["result"] = f"won {won:.1%}, drawn {drawn:.1%}, lost {lost:.1%}"
    else:
        facts["value"] = f"{value.mean():+.2f} on average, deviation {value.std():.2f}; mixed by gather --td-lambda"
    facts |= {
        "policy targets": f"{np.mean(targets):.1%} of the examples",
        "replies known": f"{np.mean(columns['reply_weight'] > 0):.1%} of the examples",
        "plies": f"{columns['ply'].min()} to {columns['ply'].max()}, {columns['ply'].mean():.1f} on average",
        "ends known": f"{np.mean(known):.1%} of the examples; the others' were resigned, or cut by the move limit",
    }
    if "side" in columns:
        shares = {side: np.mean(columns["side"] == side) for side in np.unique(columns["side"]).tolist()}
        facts["boards"] = ", ".join(f"{side}×{side} {share:.1%}" for side, share in shares.items())
    if targets.any():
        chosen = policy[targets]
        entropy = -np.sum(chosen * np.log(np.maximum(chosen, 1e-12)), axis=1)
        favourite = chosen.max(axis=1).mean()
        facts["policy"] = f"favourite move {favourite:.1%}, entropy {entropy.mean():.2f} nats, on average"
    if known.any():
        score = columns["score"][known]
        facts["score"] = f"{score.mean():+.1f} on average, deviation {score.std():.1f}"
        owned = columns["ownership"][known]
        points = owned.size
        if "side" in columns:
            points = int((columns["side"][known].astype(np.int64) ** 2).sum())
        own, others = ((owned > 0).sum() / points, (owned < 0).sum() / points)
        facts["ownership"] = f"own {own:.1%}, opponent's {others:.1%} of the points"
    return facts


def example(game: Game, chunk: Chunk, index: int) -> str:
    row = {name: column[index] for name, column in chunk.columns.items()}
    if "side" in row:  # the first entries are those of its own board
        game = game.on_board(int(row["side"]))
        row |= {name: row[name][:size] for name, size in entries(game).items()}
    actions = np.arange(game.num_actions)
    lines = [
        f"example {index}: from {chunk.shards[row['shard']]}, game {row['game']}, ply {row['ply']}",
        indented(planes_diagram(game, row["planes"])),
        "    X the player to move, O the opponent",
        f"    policy  {top_moves(game, actions, row['policy']) if row['policy_weight'] else 'not a target'}",
    ]
    if row["reply_weight"]:
        lines.append(f"    reply   {top_moves(game, actions, row['reply'])}")
    label, precision = ("result", "g") if are_results(chunk.columns["value"]) else ("value ", ".3f")
    lines.append(f"    {label}  {row['value']:+{precision}}")
    if row["final_weight"]:
        lines.append(f"    score   {row['score']:+g} at the end")
    return "\n".join(lines)


def planes_diagram(game: Game, bits: NDArray[np.uint8]) -> str:
    """A position as the network sees it, from its packed planes, X the mover's stones; and which planes are full."""
    height, width = game.board_shape
    planes: Planes = np.unpackbits(bits, count=game.num_planes * height * width).reshape(-1, height, width)
    full = [name for name, plane in zip(game.plane_names, planes, strict=True) if plane.all()]
    return game.planes_diagram(planes) + (f"\nplanes all 1: {', '.join(full)}" if full else "")
