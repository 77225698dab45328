"""The window: the self-play positions that may be trained on, and which of them are held out.

A window has a *capacity*: a fixed number, or one that grows with a power of the number of positions ever played. The
replacement says which positions leave a full window:

fifo     The oldest: the window is exactly the newest positions. The oldest shard may be cut, even within a game. A ring
         buffer, which overwrites its oldest positions, is the same, so ``ring`` is a synonym.
random   Any: each new position replaces a random one, so a position survives e replacements with probability
         (1 − 1/capacity)^e. A counter-based RNG decides this from the shard's name, the position's index and the seed:
         nothing needs to be stored, and a position that left never returns. Positions survive independently of each
         other, unlike in a real buffer, so the window has its capacity only on average, ± about its square root.
         Positions older than HORIZON times the capacity are skipped to bound the cost; at most 2 in a million of them
         would have survived.
         Source: Guertler et al. 2025, UnstableBaselines, its step buffer.

Whole games are held out, chosen by a hash of their id alone: a game and its copies are held out in every window, for
every seed. If several games have the same id, only the oldest is in the window. Opens sidecars only. Axes: S shards, G
games of a shard, M positions of a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import key_of, uniforms
from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.specs import are_related, recorded_game
from pipeline.gather.sampling import PositionSampler, Spans
from pipeline.methods.method import Method
from pipeline.methods.named import method_named
from pipeline.run import layout
from pipeline.run.order import Counted, generation_of, newest_files, place_generation
from pipeline.run.shards import ShardMeta, meta_of

HORIZON = 14  # e^-13 is 2 in a million


@dataclass(frozen=True)
class Capacity:
    """How many positions a window holds.

    most             the largest capacity
    start            0: always `most`; else the capacity until that many positions were played
    exponent, slope  growth from there on, see at()
    """

    most: int
    start: int = 0
    exponent: float = 0.65
    slope: float = 0.4

    def at(self, total: int) -> int:
        """The capacity once total positions have been played.

        β·(x^a − s^a)/(a·s^(a−1)) + s, with x = total, s = start, a = exponent, β = slope: its slope at s is β.
        Source: KataGo, python/shuffle.py, with its min_rows as the scale s, so that x = N − min_rows + s = N.
        """
        if not self.start or total <= self.start:
            return min(self.start or self.most, self.most)
        grown = (total / self.start) ** self.exponent - 1  # s^a is factored out to avoid large numbers
        return min(int(self.start + self.slope * self.start / self.exponent * grown), self.most)


@dataclass(frozen=True)
class Figures:
    """The size of a window without damaged shards. newest, oldest: shard ids."""

    positions: int
    games: int
    shards: int
    newest: str
    oldest: str


@dataclass(frozen=True)
class Window:
    metas: tuple[ShardMeta, ...]  # [S] newest shard first
    spans: Spans
    held_out: NDArray[np.bool_]  # [E]
    capacity: int
    counted: Counted  # up to this window
    new_positions: int  # since the previous count
    repeated: int = 0  # games left out because an older shard of the window has them
    repeated_in: str = ""  # the id of a shard with such a game
    seen: int = 0  # positions scanned, including those that nothing is learned from

    @property
    def num_positions(self) -> int:
        return self.spans.num_positions

    def figures(self, without: Collection[int] = ()) -> Figures:
        """without: shards (indices into metas) to leave out."""
        left = self.spans.at(~np.isin(self.spans.shard, list(without)))
        shards = np.unique(left.shard)
        ends = (self.metas[shards[0]].id, self.metas[shards[-1]].id) if len(shards) else ("", "")
        return Figures(left.num_positions, left.num_games, len(shards), *ends)

    def pool(self, held_out: bool, without: Collection[int] = (), surprise_weight: float = 0.0) -> PositionSampler:
        """The positions held out, or those to train on. without: see figures(); surprise_weight: PositionSampler."""
        inside = (self.held_out == held_out) & ~np.isin(self.spans.shard, list(without))
        return PositionSampler(self.spans.at(inside), [meta.surprises for meta in self.metas], surprise_weight)


def scan_window(
    directory: Path,
    capacity: Capacity,
    before: Counted,
    holdout_fraction: float,
    on_damage: Callable[[FileError], None],
    random_seed: int | None = None,
    searched_only: bool = False,
    check: Callable[[Method], None] = lambda method: None,
) -> Window:
    """The window of the shards under directory; see run/order.py for the order, meta_of for on_damage.

    before         what was counted earlier; counting continues from there, beyond the window too
    random_seed    random replacement with this seed; None: fifo
    searched_only  leave out positions that aren't policy targets (surprise 0); they still count for the capacity
    check          called with each method of the window's games before any positions are left out
    Opens the sidecars of the window and of new shards. Lists only the generations of this window and the previous one.
    A sidecar with an unknown game or method counts as damaged.
    Raises MuGoError if the window mixes games, FileError if all games are unknown, and what check raises.
    """
    metas: list[ShardMeta] = []
    known: set[tuple[str, str]] = set()  # games and methods
    unknown: FileError | None = None  # about the first sidecar with an unknown game or method
    numbers: dict[str, int] = {}
    found = new = 0
    generation: int | None = None
    most = capacity.most * (1 if random_seed is None else HORIZON)

    def total() -> int:
        return max(before.total + new, found)

    def reach() -> int:
        """How many of the newest positions may be in the window, as far as is known."""
        return capacity.at(total()) * (1 if random_seed is None else HORIZON)

    for file in newest_files(directory):
        is_new, is_full = not before.has(file), found >= reach()
        is_done = is_full and not is_new
        if is_done and file.generation != generation and file.generation < before.oldest:
            break  # never within a generation: other workers' shards in it would seem new to the next scan
        generation = file.generation
        numbers[file.place] = max(numbers.get(file.place, 0), file.number)
        if is_done:
            continue
        meta = meta_of(file, directory, on_damage)
        if meta is None:
            continue
        if (meta.game, meta.method) not in known:
            try:
                recorded_game(meta.game)
                method_named(meta.method)
            except UsageError as error:
                damage = FileError(layout.meta_path(meta.path), f"{error}; wanted games that this program knows")
                unknown = unknown or damage
                on_damage(damage)
                continue
            known.add((meta.game, meta.method))
        if metas and not are_related(meta.game, metas[0].game):
            if not is_full:
                raise MuGoError(
                    f"{directory}: the newest {reach():,} positions mix {metas[0].game} ({metas[0].id}) and "
                    f"{meta.game} ({meta.id}); wanted one game; move the others away or lower --max-positions"
                )
            break
        if found < most:  # sidecars that are only counted needn't stay in memory
            metas.append(meta)
        found += meta.positions
        new += meta.positions if is_new else 0
    if unknown is not None and not metas:
        raise unknown
    size = capacity.at(total())
    inside = _inside(metas, size, reach(), total(), random_seed, searched_only, check)
    if inside:  # generations before the window's are final
        reached = generation_of(inside[-1][0].path.parts[-3])
        numbers = {place: number for place, number in numbers.items() if place_generation(place) >= reached}
    inside, repeated, where = _once(inside)
    window = _window(inside, holdout_fraction, size, Counted(total(), numbers), new)
    return replace(window, repeated=repeated, repeated_in=where, seen=found)


Inside = list[tuple[ShardMeta, NDArray[np.bool_]]]
"""Shards with anything in the window, newest first, and [M] which of their positions that is."""


def _inside(
    metas: list[ShardMeta],
    size: int,
    reach: int,
    total: int,
    random_seed: int | None,
    searched_only: bool,
    check: Callable[[Method], None],
) -> Inside:
    """The newest `reach` positions, or with a random_seed the survivors among them."""
    checked: set[Method] = set()
    replacements = max(total - size, 0)  # none while the window was filling
    inside: Inside = []
    newer = 0
    for meta in metas:
        if newer >= reach:
            break
        later = newer + np.arange(meta.positions)[::-1]  # number of later positions
        stays = later < reach  # the window must not depend on how far the scan went
        if random_seed is not None:
            chance = (1.0 - 1.0 / size) ** np.minimum(later, replacements)
            stays &= uniforms(key_of(f"{random_seed} {meta.id}"), np.arange(meta.positions)) < chance
        method = method_named(meta.method)
        if method not in checked:
            check(method)
            checked.add(method)
        if method.steps_only or searched_only:
            stays &= meta.surprises > 0
        if stays.any():
            inside.append((meta, stays))
        newer += meta.positions
    return inside


def _once(inside: Inside) -> tuple[Inside, int, str]:
    """(the shards without games that an older shard has too, number of such games, id of a shard with one)."""
    known = [(meta, mask, _there(meta, mask), meta.game_ids) for meta, mask in inside[::-1]]
    if not known:
        return inside, 0, ""
    _, first = np.unique(np.concatenate([ids[there] for _, _, there, ids in known]), return_index=True)
    is_first = np.zeros(sum(int(there.sum()) for _, _, there, _ in known), np.bool_)
    is_first[first] = True
    where, start = "", 0
    for meta, mask, there, _ in known:
        keeps = np.ones(meta.games, np.bool_)
        keeps[there] = is_first[start : start + int(there.sum())]
        start += int(there.sum())
        if not keeps.all():
            mask &= np.repeat(keeps, meta.lengths)
            where = meta.id
    return [(meta, mask) for meta, mask in inside if mask.any()], int((~is_first).sum()), where


def _there(meta: ShardMeta, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[G] which games have a position in the window; mask [M]: which positions are in it."""
    return np.logical_or.reduceat(mask, np.cumsum(meta.lengths) - meta.lengths)


def _window(inside: Inside, holdout_fraction: float, capacity: int, counted: Counted, new: int) -> Window:
    metas = tuple(meta for meta, _ in inside)
    none = np.zeros(0, np.int64)
    if not metas:
        empty = Spans(none, none, none, none, none)
        return Window((), empty, np.zeros(0, np.bool_), capacity, counted, new)
    # Concatenate the positions of all shards, then cut them into spans.
    mask = np.concatenate([mask for _, mask in inside])
    lengths = np.concatenate([meta.lengths for meta in metas]).astype(np.int64)
    num_games = np.array([meta.games for meta in metas])
    first_game = np.cumsum(num_games) - num_games
    starts = np.cumsum(lengths) - lengths  # of each game
    edge = np.zeros(len(mask) + 1, np.bool_)
    edge[starts] = edge[-1] = True
    padded = np.concatenate([[False], mask, [False]])
    begin = np.flatnonzero(mask & (~padded[:-2] | edge[:-1]))
    end = np.flatnonzero(mask & (~padded[2:] | edge[1:])) + 1
    game = np.searchsorted(starts, begin, side="right") - 1
    shard = np.searchsorted(first_game, game, side="right") - 1
    spans = Spans(
        shard=shard,
        game=game - first_game[shard],
        first_ply=begin - starts[game],
        num_plies=end - begin,
        first_move=begin - starts[first_game[shard]],
    )
    held_out = np.concatenate([holdout_games(meta, holdout_fraction) for meta in metas])
    return Window(metas, spans, held_out[game], capacity, counted, new)


def holdout_games(meta: ShardMeta, share: float) -> NDArray[np.bool_]:
    """[G] which games of a shard are held out. A larger share holds out the same games and more."""
    return uniforms(meta.game_ids, np.zeros(meta.games, np.int64)) < share
