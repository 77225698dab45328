"""Finished games of shards, matches and other programs' records in one form, with their searches in words.

Axes: T plies of a game, S the size of a state. Values are from the viewpoint of the player to move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.games.capabilities import recalled, variant
from pipeline.games.contract import CHANCE, AnyGame, States
from pipeline.games.replay import replay_one
from pipeline.games.specs import recorded_game
from pipeline.phrases import counted
from pipeline.run import layout
from pipeline.run.matches import Match, MatchGame, read_match
from pipeline.run.packs import Gone, open_pack
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, GameRecord, Shard, ShardMeta, read_meta, read_shard
from pipeline.search.gumbel import TARGET_SUM

TOP_MOVES = 5
ENDINGS = {
    "": "",
    "played_out": "",
    "resigned": " by resignation",
    "move_limit": " at the move limit",
    "settled": ", nothing left to decide",
}

Search = tuple[NDArray[np.integer], NDArray[np.integer]]
"""The actions visited at the root and their visits."""


@contextmanager
def damaged_game(path: Path, index: int) -> Iterator[None]:
    """Turns an illegal move into the FileError of the file that has it."""
    try:
        yield
    except (IllegalMove, IndexError) as error:
        raise FileError(path, f"damaged: game {index}: {error}") from error


@dataclass(frozen=True)
class RecordedGame:
    """A finished game.

    path            of the shard, of the match's folder, or of the other program's file
    players         first, second
    values_to_move  [T]; None: unknown
    end             a name of End in small letters, or how another program describes it
    start           [1, S] where it begins; None: at the initial position, or after the stones
    shard, record   the game as self-play recorded it
    remarks         as in ReadGame
    """

    path: Path
    index: int
    game: AnyGame
    players: tuple[str, str]
    moves: Sequence[int]
    values_to_move: Sequence[float | None]
    result_first_player: float
    end: str
    stones: Sequence[int] = ()
    opening_plies: int = 0
    start: States | None = None
    shard: Shard | None = None
    record: GameRecord | None = None
    remarks: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of_shard(cls, shard: Shard, index: int) -> RecordedGame:
        """Raises UsageError for a game that isn't known here or that the shard doesn't have."""
        if not 0 <= index < shard.num_games:
            raise UsageError(f"show --game: found {index}; {shard.path} holds games 0 to {shard.num_games - 1}")
        record = shard.game(index)
        with named_in(shard.path), damaged_game(shard.path, index):
            game = variant(recorded_game(shard.game_spec), record.setup)
            moves = recalled(game, record.moves.tolist(), record.said)
        names = [shard.model, shard.model]
        if record.opponent is not None and record.learner != BOTH:
            names[1 - record.learner] = record.opponent
        pairs = zip(record.flags.tolist(), record.root_values.tolist(), strict=True)
        values = [None if flags & NO_VALUE else value for flags, value in pairs]
        return cls(
            shard.path, index, game, (names[0], names[1]), moves, values, record.result_first_player,
            record.end.name.lower(), shard=shard, record=record,
        )  # fmt: skip

    @classmethod
    def of_match(cls, match: Match, one: MatchGame) -> RecordedGame:
        """Raises UsageError for a game that isn't known here."""
        with named_in(match.folder), damaged_game(match.folder, one.index):
            game = recorded_game(match.header.game)
            moves = recalled(game, one.moves, one.said)
        names = (match.header.challenger, match.header.champion)
        players = names if one.challenger_player == 0 else (names[1], names[0])
        return cls(
            match.folder, one.index, game, players, moves, one.values_to_move, one.result_first_player, one.end,
            one.stones, one.opening_plies,
        )  # fmt: skip

    def states(self) -> Iterator[States]:
        """The T + 1 states [1, S]. Raises FileError for an illegal move."""
        with damaged_game(self.path, self.index):
            yield from replay_one(self.game, self.moves, self.stones, self.start)

    @cached_property
    def movers(self) -> list[int]:
        """[T] the player of each move, or CHANCE. Raises as states() does."""
        return [int(self.game.to_move(state)[0]) for state in self.states()][: len(self.moves)]

    @property
    def values_first(self) -> list[float | None]:
        """[T] from the first player's viewpoint; None: unknown, or a chance move; the next move has its value."""
        pairs = zip(self.values_to_move, self.movers, strict=True)
        return [None if v is None or mover == CHANCE else v if mover == 0 else -v for v, mover in pairs]

    @cached_property
    def searches(self) -> list[Search]:
        """[T], or empty if the searches weren't recorded."""
        if self.record is None:
            return []
        ends = np.cumsum(self.record.visit_lengths, dtype=np.int64)[:-1]
        actions, counts = (np.split(one, ends) for one in (self.record.visit_actions, self.record.visit_counts))
        return list(zip(actions, counts, strict=True))

    def made_by_opponent(self, mover: int) -> bool:
        """Whether this player's moves were made by the opponent that the model met in self-play."""
        return self.record is not None and self.record.learner not in (BOTH, mover) and mover != CHANCE

    def search_text(self, ply: int, state: States) -> str:
        """The search before a move, made in a state [1, S], or what was played instead of it; "" if unknown.

        E.g. "32 visits: D4 18× (56%) …", or "policy: D4 56% …" for Gumbel's full searches, which store a policy.
        """
        if self.record is None:
            return "opening" if ply < self.opening_plies else ""
        if self.made_by_opponent(int(self.game.to_move(state)[0])):
            return f"by {self.record.opponent}" + (", learned" if self.record.flags[ply] & POLICY_COUNTS else "")
        actions, counts = self.searches[ply]
        if not len(actions):
            return ""

        def name(action: int) -> str:
            return self.game.move_name(state[0], action)

        kind = "" if self.record.flags[ply] & POLICY_COUNTS else "cheap search, "
        total = int(counts.sum())
        if abs(total - TARGET_SUM) <= len(counts):
            return f"{kind}policy: {top_moves(name, actions, counts)}"
        return f"{kind}{total} visits: {top_moves(name, actions, counts, '×')}"

    @property
    def result(self) -> str:
        """E.g. "X wins a double by resignation"."""
        return winner(self.result_first_player, self.game, bool(self.remarks)) + ENDINGS.get(self.end, f", {self.end}")


def games_at(path: Path, index: int | None = None) -> Iterator[RecordedGame]:
    """The games of a shard, a pack or a match's folder, or the one with this index.

    Raises FileError for damaged files, UsageError for an unknown game or an index without a game.
    """
    if is_pack(path):
        pack, before = open_pack(path), 0
        for name in pack.names:
            if index is None:
                yield from games_at(pack.folder / name.shard)
                continue
            num_games = read_meta(pack.folder / name.meta, pack).games
            if 0 <= index - before < num_games:
                yield from games_at(pack.folder / name.shard, index - before)
                return
            before += num_games
        if index is not None:
            raise UsageError(f"show --game: found {index}; {pack.path} holds games 0 to {before - 1}")
    elif is_shard(path):
        shard = read_shard(path, sidecar_of(path))
        for number in range(shard.num_games) if index is None else [index]:
            yield RecordedGame.of_shard(shard, number)
    else:
        match = read_match(path)
        games = [one for one in match.games if index in (None, one.index)]
        if index is not None and not games:
            raise missing_game(match, index)
        for game in games:
            yield RecordedGame.of_match(match, game)


def is_pack(path: Path) -> bool:
    return layout.parse_pack_name(path.name) is not None and not path.is_dir()


def is_shard(path: Path) -> bool:
    return path.suffix == layout.SHARD_SUFFIX and not path.is_dir()


def sidecar_of(shard: Path) -> ShardMeta | None:
    """None if the shard has no sidecar: it isn't committed. Raises FileError for a damaged sidecar."""
    try:
        return read_meta(shard)
    except Gone:
        return None


def missing_game(match: Match, index: int) -> UsageError:
    found = f"game {index} of {match.folder} isn't there; it has {len(match.games)} games so far"
    return UsageError(f"show --game: {found}")


# In words


def winner(result_first_player: float, game: AnyGame, with_cube: bool = False) -> str:
    """with_cube: the points were multiplied, so they don't tell which kind of win it was."""
    if result_first_player == 0:
        return "draw"
    name, points = game.result_names.get(abs(result_first_player)), counted(round(abs(result_first_player)), "point")
    what = f" {points}" if with_cube else f" a {name}" if name else ""
    return f"{game.marks[int(result_first_player < 0)]} wins{what}"


def top_moves(
    name: Callable[[int], str], actions: NDArray[np.integer], weights: NDArray[np.number], unit: str = ""
) -> str:
    """The actions of the largest weights, e.g. "D4 18× (56%)  E5 9× (28%)  and 3 more".

    actions [n]; weights [n]: visits or probabilities; unit "" omits the weights and shows only shares.
    """
    total = float(weights.sum())
    if total <= 0:
        return "none"
    order = np.argsort(-weights.astype(np.float64), kind="stable")
    order = order[weights[order] > 0]
    shown = []
    for i in order[:TOP_MOVES]:
        share = f"{100 * float(weights[i]) / total:.0f}%"
        shown.append(f"{name(int(actions[i]))} " + (f"{int(weights[i])}{unit} ({share})" if unit else share))
    left = len(order) - len(shown)
    return "  ".join(shown) + (f"  and {left} more" if left else "")
