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

With max_games the window holds the positions of at most that number of games, the newest; the capacity still limits it.
Games sort as their positions do.

Whole games are held out, chosen by a hash of their id alone: a game and its copies are held out in every window, for
every seed. If several games have the same id, only the oldest is in the window. Opens sidecars only.

Positions are sampled uniformly, or more often where the search surprised the network. Axes: S shards, G games of a
shard, M positions of a shard, E spans (a span is consecutive plies of one game), N positions of a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import key_of, uniforms
from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.specs import are_related, recorded_game
from pipeline.gather.config import GatherConfig
from pipeline.methods.method import IndexArray, Positions
from pipeline.methods.named import method_named
from pipeline.run import layout
from pipeline.run.order import Counted, generation_of, newest_files
from pipeline.run.shards import ShardMeta, meta_of

HORIZON = 14  # e^-13 is 2 in a million
MOST_PLIES = 2**16  # a ply is a u2 in every file


def capacity_after(config: GatherConfig, total: int) -> int:
    """How many positions the window holds once total positions have been played.

    With a window_start it is β·(x^a − s^a)/(a·s^(a−1)) + s, where x = total, s = window_start, a = window_exponent,
    β = window_slope, which is its slope at s; at least s and at most max_positions.
    Source: KataGo, python/shuffle.py, with its min_rows as the scale s, so that x = N − min_rows + s = N.
    """
    most, start, exponent = config.max_positions, config.window_start, config.window_exponent
    if not start or total <= start:
        return min(start or most, most)
    grown = (total / start) ** exponent - 1  # s^a is factored out to avoid large numbers
    return min(int(start + config.window_slope * start / exponent * grown), most)


@dataclass(frozen=True)
class Spans:
    """E spans, ordered by shard, game and ply; they don't overlap."""

    shard: IndexArray  # [E] index into the window's metas
    game: IndexArray  # [E] index in the shard
    first_ply: IndexArray  # [E]
    num_plies: IndexArray  # [E] at least 1
    first_move: IndexArray  # [E] index of first_ply among the positions of its shard

    def __len__(self) -> int:
        return len(self.shard)

    def at(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Spans:
        return Spans(*(column[rows] for column in vars(self).values()))

    @property
    def num_positions(self) -> int:
        return int(self.num_plies.sum())

    @property
    def num_games(self) -> int:
        """Games that at least one span belongs to."""
        return len(self) and 1 + int(((np.diff(self.shard) != 0) | (np.diff(self.game) != 0)).sum())


class PositionSampler:
    """Samples the N positions of a pool, numbered from 0 in the order of the spans."""

    def __init__(
        self, spans: Spans, surprises: list[NDArray[np.float16]], surprise_weight: float, games: Sequence[str]
    ) -> None:
        """surprises: of every position, shard by shard; see ShardMeta. games: each shard's spec.

        surprise_weight s: a position's probability is proportional to (1 − s) + s · surprise / (mean surprise of the
        game's positions in the pool), so surprise decides the share s of a game's samples, and takes none from a board
        on which the network is surprised less. A position that isn't a policy target has surprise 0 and is sampled for
        its value only, by the share 1 − s. Where all surprises are 0, sampling is uniform.
        Source: KataGo, docs/KataGoMethods.md, "Policy Surprise Weighting", with s = 1/2 and the mean over a record.
        """
        self._spans = spans
        self._ends = np.cumsum(spans.num_plies)
        self._surprises = surprises
        self._surprise_weight = surprise_weight
        self._kinds = np.unique(games, return_inverse=True)[1]

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def positions(self, numbers: IndexArray) -> Positions:
        """The positions with these numbers."""
        at = np.searchsorted(self._ends, numbers, side="right")
        spans = self._spans
        ply = numbers - (self._ends[at] - spans.num_plies[at]) + spans.first_ply[at]
        return Positions(spans.shard[at], spans.game[at], ply)

    def sample(self, count: int, rng: np.random.Generator) -> Positions:
        """`count` positions in random order, at most as many as the pool has.

        Uniform sampling is without replacement. By surprise, a position occurs as often as expected, rounded down or
        up: at most once if its expected number of copies is at most 1.
        """
        return self.positions(self._choose(np.arange(len(self)), count, rng))

    def sample_others(
        self, count: int, taken: Positions, rng: np.random.Generator, without: Collection[int] = ()
    ) -> Positions:
        """As sample(), without the positions taken, those of some shards, and those that are never sampled.

        Fewer if fewer are left.
        """
        free = self.weights() > 0 if self._surprise_weight else np.ones(len(self), np.bool_)
        free &= np.repeat(~np.isin(self._spans.shard, list(without)), self._spans.num_plies)
        free[self.numbers(taken)] = False
        left = np.flatnonzero(free)
        return self.positions(self._choose(left, min(count, len(left)), rng))

    def numbers(self, positions: Positions) -> IndexArray:
        """The positions' numbers; positions outside the pool are left out."""
        spans = self._spans
        if not len(spans) or not len(positions):
            return np.zeros(0, np.int64)
        games_per_shard = int(max(spans.game.max(), positions.game.max())) + 1

        def keys(shard: IndexArray, game: IndexArray, ply: IndexArray) -> IndexArray:
            return (shard * games_per_shard + game) * MOST_PLIES + ply

        first = keys(spans.shard, spans.game, spans.first_ply)
        wanted = keys(positions.shard, positions.game, positions.ply)
        at = np.searchsorted(first, wanted, side="right") - 1
        behind = wanted - first[at]
        inside = (at >= 0) & (behind < spans.num_plies[at])
        at, behind = at[inside], behind[inside]
        return self._ends[at] - spans.num_plies[at] + behind

    def weights(self) -> NDArray[np.float64]:
        """[N] relative probabilities, 1 on average; see __init__."""
        spans, sizes = self._spans, np.array([len(surprises) for surprises in self._surprises], np.int64)
        begin = (np.cumsum(sizes) - sizes)[spans.shard] + spans.first_move
        shift = np.repeat(begin - (self._ends - spans.num_plies), spans.num_plies)
        surprises = np.concatenate(self._surprises)[np.arange(len(self)) + shift].astype(np.float64)
        kinds = np.repeat(self._kinds[spans.shard], spans.num_plies)
        means = (np.bincount(kinds, surprises) / np.maximum(np.bincount(kinds), 1))[kinds]
        relative = np.divide(surprises, means, out=np.ones(len(self)), where=means > 0)
        return (1.0 - self._surprise_weight) + self._surprise_weight * relative

    def _choose(self, numbers: IndexArray, count: int, rng: np.random.Generator) -> IndexArray:
        if count == 0:
            return np.zeros(0, np.int64)
        if self._surprise_weight == 0.0:
            return numbers[rng.choice(len(numbers), count, replace=False)]
        return numbers[choose_weighted(rng, self.weights()[numbers], count)]


def choose_weighted(rng: np.random.Generator, weights: NDArray[np.float64], count: int) -> IndexArray:
    """[count] numbers below N in random order; i occurs c = count · weights[i] / Σ weights times on average.

    It occurs ⌊c⌋ or ⌈c⌉ times, so at most once if c ≤ 1. weights [N] ≥ 0, not all 0. Systematic sampling of a shuffled
    list: i is an interval of length c on a line, sampled at points of distance 1.
    Source: Goodman, Kish 1950, "Controlled selection: a technique in probability sampling".
    """
    order = rng.permutation(len(weights))
    ends = np.cumsum(weights[order])
    points = (rng.random() + np.arange(count)) * (ends[-1] / count)
    chosen = order[np.searchsorted(ends, points, side="right").clip(max=len(order) - 1)]
    return rng.permutation(chosen)  # copies of one position must not be neighbours


@dataclass(frozen=True)
class Window:
    metas: tuple[ShardMeta, ...]  # [S] newest shard first
    spans: Spans
    held_out: NDArray[np.bool_]  # [E]
    capacity: int
    counted: Counted  # up to this window
    new_positions: int  # since the previous count
    repeated: int  # games left out because an older shard of the window has them
    repeated_in: str  # the id of a shard with such a game
    seen: int  # positions scanned, including those that nothing is learned from

    @property
    def num_positions(self) -> int:
        return self.spans.num_positions

    def figures(self, without: Collection[int] = ()) -> dict[str, Any]:
        """Counts, and the ids of the newest and the oldest shard. without: damaged shards, as indices into metas."""
        left = self.spans.at(~np.isin(self.spans.shard, list(without)))
        shards = np.unique(left.shard)
        newest, oldest = (self.metas[shards[end]].id if len(shards) else "" for end in (0, -1))
        counts = {"positions": left.num_positions, "games": left.num_games, "shards": len(shards)}
        return {**counts, "newest": newest, "oldest": oldest}

    def pool(self, held_out: bool, surprise_weight: float = 0.0) -> PositionSampler:
        """The positions held out, or those to train on. surprise_weight: see PositionSampler."""
        spans = self.spans.at(self.held_out == held_out)
        games = [meta.game for meta in self.metas]
        return PositionSampler(spans, [meta.surprises for meta in self.metas], surprise_weight, games)


def scan_window(config: GatherConfig, before: Counted, on_damage: Callable[[FileError], None]) -> Window:
    """The window of the shards under config.directory; see run/order.py for the order, meta_of for on_damage.

    before: what was counted earlier; counting continues from there, beyond the window too.
    Opens the sidecars of the window and of new shards. Lists only the generations of this window and the previous one.
    A sidecar with an unknown game or method counts as damaged.
    Raises MuGoError if the window mixes games, FileError if all games are unknown, UsageError for options that a
    game's method doesn't read.
    """
    metas: list[ShardMeta] = []
    known: set[tuple[str, str]] = set()  # games and methods
    unknown: FileError | None = None  # about the first sidecar with an unknown game or method
    numbers: dict[str, int] = {}
    found = new = games = 0
    generation: int | None = None
    horizon = HORIZON if config.replacement == "random" else 1

    def capacity() -> int:
        """As far as is known; positions older than `horizon` times this are never in the window."""
        return capacity_after(config, max(before.total + new, found))

    for file in newest_files(config.directory):
        if file.place not in numbers and before.has_restarted(file):
            before = before.without([file.place])
        is_new = not before.has(file)
        is_full = found >= horizon * capacity() or bool(config.max_games and games >= config.max_games)
        is_done = is_full and not is_new
        if is_done and file.generation != generation and file.generation < before.oldest:
            break  # never within a generation: other workers' shards in it would seem new to the next scan
        generation = file.generation
        numbers[file.place] = max(numbers.get(file.place, 0), file.number)
        if is_done:
            continue
        meta = meta_of(file, config.directory, on_damage)
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
            if is_full:
                break
            raise MuGoError(
                f"{config.directory}: the newest {horizon * capacity():,} positions mix {metas[0].game} "
                f"({metas[0].id}) and {meta.game} ({meta.id}); wanted one game; move the others away or lower "
                "--max-positions"
            )
        if found < horizon * config.max_positions:  # sidecars that are only counted needn't stay in memory
            metas.append(meta)
        found += meta.positions
        games += meta.games
        new += meta.positions if is_new else 0
    if unknown is not None and not metas:
        raise unknown
    total, size = max(before.total + new, found), capacity()
    inside = _inside(config, metas, size, horizon * size, total)
    if inside:  # generations before the window's are final
        reached = generation_of(inside[-1][0].path.parts[-3])
        numbers = {place: number for place, number in numbers.items() if generation_of(place) >= reached}
    inside, repeated, where = _without_repeated(inside)
    spans, held_out = _spans(inside, config.holdout_fraction)
    inside_metas = tuple(meta for meta, _ in inside)
    return Window(inside_metas, spans, held_out, size, Counted(total, numbers), new, repeated, where, found)


Inside = list[tuple[ShardMeta, NDArray[np.bool_]]]
"""Shards with anything in the window, newest first, and [M] which of their positions that is."""


def _inside(config: GatherConfig, metas: list[ShardMeta], size: int, reach: int, total: int) -> Inside:
    """The newest `reach` positions; with random replacement, those of them that survived in a window of this size.

    Positions that the method learns nothing from (surprise 0 where it has steps_only) are left out, and with
    searched_only those that weren't searched in full; they still count for the capacity.
    """
    checked: set[str] = set()
    replacements = max(total - size, 0)  # none while the window was filling
    inside: Inside = []
    newer = newer_games = 0
    for meta in metas:
        if newer >= reach:
            break
        later = newer + np.arange(meta.positions)[::-1]  # number of later positions
        stays = later < reach  # the window must not depend on how far the scan went
        if config.replacement == "random":
            chance = (1.0 - 1.0 / size) ** np.minimum(later, replacements)
            stays &= uniforms(key_of(f"{config.seed} {meta.id}"), np.arange(meta.positions)) < chance
        method = method_named(meta.method)
        if meta.method not in checked:
            method.check_options("gather", config)
            checked.add(meta.method)
        if method.steps_only:
            stays &= meta.surprises > 0
        if config.searched_only:
            stays &= meta.searched
        if config.max_games:
            later_games = newer_games + np.arange(meta.games)[::-1]
            stays &= np.repeat(later_games < config.max_games, meta.lengths)
        if stays.any():
            inside.append((meta, stays))
        newer += meta.positions
        newer_games += meta.games
    return inside


def _without_repeated(inside: Inside) -> tuple[Inside, int, str]:
    """(the shards without games that an older shard has too, number of such games, id of a shard with one)."""
    if not inside:
        return inside, 0, ""
    oldest_first = inside[::-1]
    present = [  # [G] the games of each shard with a position in the window
        np.logical_or.reduceat(mask, np.cumsum(meta.lengths) - meta.lengths) for meta, mask in oldest_first
    ]
    ids = [meta.game_ids[games] for (meta, _), games in zip(oldest_first, present, strict=True)]
    is_first = np.zeros(sum(map(len, ids)), np.bool_)
    is_first[np.unique(np.concatenate(ids), return_index=True)[1]] = True
    where, parts = "", np.split(is_first, np.cumsum([len(one) for one in ids])[:-1])
    for (meta, mask), games, part in zip(oldest_first, present, parts, strict=True):
        if not part.all():
            stays = games.copy()
            stays[games] = part
            mask &= np.repeat(stays, meta.lengths)
            where = meta.id
    return [(meta, mask) for meta, mask in inside if mask.any()], int((~is_first).sum()), where


def _spans(inside: Inside, holdout_fraction: float) -> tuple[Spans, NDArray[np.bool_]]:
    """The spans of these positions, and [E] which are held out."""
    # Concatenate the positions of all shards, then cut them into spans.
    mask = np.concatenate([np.zeros(0, np.bool_), *(mask for _, mask in inside)])
    lengths = np.concatenate([np.zeros(0, np.int64), *(meta.lengths for meta, _ in inside)])
    num_games = np.array([meta.games for meta, _ in inside], np.int64)
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
    held_out = np.concatenate([np.zeros(0, np.bool_), *(holdout_games(meta, holdout_fraction) for meta, _ in inside)])
    return spans, held_out[game]


def holdout_games(meta: ShardMeta, share: float) -> NDArray[np.bool_]:
    """[G] which games of a shard are held out. A larger share holds out the same games and more."""
    return uniforms(meta.game_ids, np.zeros(meta.games, np.int64)) < share
