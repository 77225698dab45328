"""``show`` for shards, packs, sidecars and chunks: games with boards, values and visits; examples with their labels.

Axes: T plies of one game, N examples of a chunk, A actions, C planes, H×W the board. Values and labels are from the
viewpoint of the player to move.
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
POSITIONS_SHOWN = 3  # the last ones of a game in the short form
EXAMPLES_SHOWN = 3
MOST_NUMBERS = 16  # per example; the average of a larger column means nothing
BY = {
    End.PLAYED_OUT: "",
    End.RESIGNED: " by resignation",
    End.MOVE_LIMIT: " at the move limit",
    End.SETTLED: ", nothing left to decide",
}


def is_pack(path: Path) -> bool:
    return layout.parse_pack_name(path.name) is not None and not path.is_dir()


def is_shard(path: Path) -> bool:
    return path.suffix == layout.SHARD_SUFFIX and not path.is_dir()


def winner(result_first_player: float, game: AnyGame) -> str:
    if result_first_player == 0:
        return "draw"
    name = game.result_names.get(abs(result_first_player))
    return f"{'X' if result_first_player > 0 else 'O'} wins{f' a {name}' if name else ''}"


def sides(opponent: str | None, learner: int) -> str:
    """The opponent's side; empty if the model played both. learner: as in GameRecord."""
    return "" if opponent is None else f"{'XO'[1 - learner]} is {opponent}"


def player_names(shard: Shard, record: GameRecord) -> tuple[str, str]:
    """The first and the second player of a game of self-play."""
    names = [shard.model, shard.model]
    if record.opponent is not None and record.learner != BOTH:
        names[1 - record.learner] = record.opponent
    return names[0], names[1]


def values_to_move(record: GameRecord) -> list[float | None]:
    """[T]; None for moves without a value."""
    pairs = zip(record.flags.tolist(), record.root_values, strict=True)
    return [None if flags & NO_VALUE else float(value) for flags, value in pairs]


def searches(record: GameRecord) -> list[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    """[T] pairs of the visited actions and their counts."""
    ends = np.cumsum(record.visit_lengths, dtype=np.int64).tolist()
    visits = [slice(end - length, end) for end, length in zip(ends, record.visit_lengths.tolist(), strict=True)]
    return [(record.visit_actions[one], record.visit_counts[one]) for one in visits]


def more(path: Path) -> Iterator[str]:
    yield ""
    yield f"More: show {path} --game N for every move of game N, and --moves for every board."


def move_lines(game: AnyGame, state: States, ply: int, move: int, board: bool, note: str = "") -> Iterator[str]:
    """A move made in a state [1, S], after the board if that is wanted."""
    if board:
        yield ""
        yield indented(game.diagram(state[0]))
    yield f"{ply:4d}  {'XO*'[int(game.to_move(state)[0])]} {game.move_name(state[0], move):<5} {note}".rstrip()


def final_board(game: AnyGame, state: States, scored: bool, settled: bool = False) -> Iterator[str]:
    """state: [1, S]; settled: the game ended because nothing was left to decide."""
    yield indented(game.diagram(state[0]))
    if settled and isinstance(game, Game):
        score = float(game.settled_scores(state, game.settled_owners(state))[0])
        yield f"    score of X, with all that can be captured captured: {score:+g}"
    elif scored:
        yield f"    score of X: {float(game.scores(state)[0]):+g}"


def show_shard(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A shard's header and games, then the last positions of its first game. With index, that game move by move."""
    meta = sidecar_of(path)
    shard = read_shard(path, meta)
    with named_in(path):
        game = recorded_game(shard.game_spec)
    if index is not None:
        checked_index(shard, index)
    else:
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
    """None if the shard has no sidecar: it isn't committed. Raises FileError for a damaged sidecar."""
    try:
        return read_meta(shard)
    except Gone:
        return None


def show_pack(path: Path, index: int | None, moves: bool) -> Iterator[str]:
    """A pack's contents, then its last shard. With index, that one of its games move by move."""
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
    yield "the last shard of the pack (each shard can also be shown by its own name):"
    yield from show_shard(pack.folder / pack.names[-1].shard, None, moves)


def game_in_pack(pack: Pack, index: int) -> tuple[Path, int]:
    """(shard, index in it) of a game of a pack. Raises UsageError for too large an index, FileError for damage."""
    before = 0
    for name in pack.names:
        num_games = read_meta(pack.folder / name.meta, pack).games
        if 0 <= index - before < num_games:
            return pack.folder / name.shard, index - before
        before += num_games
    raise UsageError(f"show --game: found {index}; {pack.path} holds games 0 to {before - 1}")


def checked_index(shard: Shard, index: int) -> int:
    """index itself. Raises UsageError if the shard has no such game."""
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
    """The data that a method keeps for each move."""
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
    """One game. brief: only its last positions, with boards; otherwise every move, with boards if moves."""
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
    values, visits = values_to_move(record), searches(record)
    searched = bool(len(record.visit_counts) or (record.flags & POLICY_COUNTS).any()) and not method.steps_only
    state = None
    for ply, state in enumerate(replay_one(game, record.moves)):
        if ply < first_shown or ply == num_plies:
            continue
        mover = int(game.to_move(state)[0])
        found = search_text(game, state, *visits[ply]) if searched else ""
        if record.learner not in (BOTH, mover) and mover != CHANCE:
            found = f"by {record.opponent}" + (": no policy target" if searched else "")
        elif searched and not record.flags[ply] & POLICY_COUNTS:
            found += "   (a cheap search: no policy target)"
        elif searched and record.surprises[ply] > 0:
            found += f"   surprise {record.surprises[ply]:.2f}"
        kept = method.facts(game, state[0], record, ply)
        found += "".join(f"   {name} {fact}" for name, fact in kept.items() if str(fact) and "\n" not in str(fact))
        value = "none " if (known := values[ply]) is None else f"{known:+.2f}"
        yield from move_lines(game, state, ply, int(record.moves[ply]), brief or moves, f"value {value}   {found}")
    if state is not None:
        yield ""
        yield from final_board(game, state, record.end != End.RESIGNED, record.end == End.SETTLED)
    surprise = "; surprise: KL divergence of the search's policy from the network's, in nats" if searched else ""
    yield f"    values are from the viewpoint of the player to move{surprise}"


def without_counts(window: Mapping[str, Any]) -> dict[str, Any]:
    """A window's description without the number of shards counted for every worker."""
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


def search_text(game: Game, state: States, actions: NDArray[np.integer], counts: NDArray[np.integer]) -> str:
    """A search in a state [1, S], e.g. "32 visits: D4 18× (56%) …".

    Gumbel's full searches store a policy instead of visits: "policy: D4 56% …".
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
    """The actions of the largest weights, e.g. "D4 18 (56%)  E5 9 (28%)  and 3 more".

    actions [n]; weights [n]: visits or probabilities; unit "" omits the weights and shows only shares.
    state [1, S]: the position before them; without it, actions are named from the mover's viewpoint.
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
    """A chunk's attributes, the distribution of its labels, and some evenly spaced examples."""
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
            **{f"window {name}": value for name, value in without_counts(header.window).items()},
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
    """Means of the small columns without NaN, then the scalar columns of some examples."""
    small = {name: column for name, column in columns.items() if column[0].size <= MOST_NUMBERS}
    shown = {name: column for name, column in small.items() if not np.isnan(column).any()}
    yield described({name: f"{column.mean():.4g} on average" for name, column in shown.items() if name not in ORIGIN})
    names = tuple(sorted((name for name in shown if shown[name].ndim == 1), key=lambda name: name not in ORIGIN))
    chosen = np.linspace(0, len(shown["ply"]) - 1, EXAMPLES_SHOWN).astype(int)
    yield ""
    yield table([tuple(f"{shown[name][index]:.4g}" for name in names) for index in chosen], names)


def num_games(columns: dict[str, NDArray[Any]]) -> int:
    return len(np.unique(np.stack([columns["shard"], columns["game"]], axis=1), axis=0))


def are_results(values: NDArray[np.floating]) -> bool:
    """Whether all values are wins, draws or losses, with nothing in between."""
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
        "ends known": f"{np.mean(known):.1%} of the examples; other games were resigned or cut by the move limit",
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
    if "side" in row:  # smaller boards use the first entries
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
    """A position from its packed planes, X the mover's stones; then the names of the planes that are all 1."""
    height, width = game.board_shape
    planes: Planes = np.unpackbits(bits, count=game.num_planes * height * width).reshape(-1, height, width)
    full = [name for name, plane in zip(game.plane_names, planes, strict=True) if plane.all()]
    return game.planes_diagram(planes) + (f"\nplanes all 1: {', '.join(full)}" if full else "")
