"""``show --sgf``: games of shards and matches as records with what their searches found, for Sabaki and others; and
``--mat``, ``--kif``, ``--csa``, ``--usi``, for programs of backgammon and shogi.

A move's comment is about the search that chose it: black's winrate, the mover's value, visits and the moves visited
most. SBKV, from which Sabaki draws a game's winrates, is black's in percent in the position that a node shows, which is
the one after its move: it comes from the search before the next move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError, named_in
from pipeline.families.backgammon.game import STARTS, Backgammon
from pipeline.families.backgammon.kernels import TURN
from pipeline.families.backgammon.records import gammon_sgf, mat_record, turns
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import CSA, FILE_SUFFIXES, KIF, USI, kifu_record
from pipeline.games.contract import AnyGame, Game, States
from pipeline.games.replay import movers, replay_one
from pipeline.games.sgf import SgfText, game_sgf, sgf_name
from pipeline.games.specs import recorded_game
from pipeline.reports.show_records import checked_index, found_by_search, game_in_pack, sidecar_of
from pipeline.run.matches import MatchGame, read_match
from pipeline.run.packs import open_pack
from pipeline.run.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, GameRecord, Shard, read_shard

SGF, MAT = "sgf", "mat"
FORMS = (SGF, MAT, KIF, CSA, USI)
MAT_CHECKERS = sum(STARTS["backgammon"].values())
Named = tuple[str, str]
"""A file name and what it holds."""


def shard_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The records of a shard's games, or of this one. form: one of FORMS.

    Raises UsageError for a game that isn't written so.
    """
    shard = read_shard(path, sidecar_of(path))
    game = _written(path, shard.game_spec, form)
    for number in range(shard.num_games) if index is None else [checked_index(shard, index)]:
        yield f"{path.stem}-{_name(number, form)}", _shard_record(game, shard, number, form)


def pack_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The same of all shards of a pack."""
    pack = open_pack(path)
    if index is not None:
        yield from shard_records(*game_in_pack(pack, index), form)
        return
    for name in pack.names:
        yield from shard_records(pack.folder / name.shard, None, form)


def match_records(path: Path, index: int | None, form: str = SGF) -> Iterator[Named]:
    """The same of a match."""
    match = read_match(path)
    game = _written(path, match.header.game, form)
    games = sorted(match.games, key=lambda one: one.index)
    if index is not None and not any(one.index == index for one in games):
        raise UsageError(f"show --game: game {index} of {path} isn't there; it has {len(games)} games so far")
    names = (match.header.challenger, match.header.champion)
    for one in games:
        if index is None or one.index == index:
            black, white = names if one.challenger_player == 0 else names[::-1]
            text = SgfText(black, white, event=match.folder.name, round=str(one.index), comment=f"end: {one.end}")
            yield f"{match.folder.name}-{_name(one.index, form)}", _match_record(path, game, one, text, form)


def _written(path: Path, spec: str, form: str) -> AnyGame:
    """The game, if it is written so."""
    with named_in(path):
        game: AnyGame = recorded_game(spec)
    if form == MAT and not (isinstance(game, Backgammon) and game.num_checkers == MAT_CHECKERS):
        raise UsageError(f"show --mat: {path} holds games of {spec}; .mat is for backgammon")
    if form in (KIF, CSA, USI) and not (isinstance(game, Shogi) and (form != CSA or game.size == 9)):
        board = " on the large board" if form == CSA else ""
        raise UsageError(f"show --{form}: {path} holds games of {spec}; --{form} is for shogi{board}")
    if form == SGF and game.sgf is None and not isinstance(game, Backgammon):
        others = "; shogi has --kif, --csa and --usi" if isinstance(game, Shogi) else ""
        raise UsageError(f"show --sgf: {path} holds games of {spec}, which isn't written in SGF{others}")
    return game


def _name(number: int, form: str) -> str:
    return str(Path(sgf_name(number)).with_suffix(FILE_SUFFIXES.get(form, f".{form}")))


def _gammon_record(
    game: Backgammon, moves: Sequence[int], text: SgfText, comments: Sequence[str], resigned: bool, form: str
) -> str:
    """resigned: the player to move after the moves gave up."""
    resigned_by = int(turns(game, moves)[1][TURN]) if resigned else None
    if form == MAT:
        return mat_record(game, moves, text, resigned_by)
    return gammon_sgf(game, moves, text, comments, resigned_by)


def _kifu_record(
    game: Shogi, moves: Sequence[int], text: SgfText, comments: Sequence[str], resigned: bool, form: str
) -> str:
    """resigned: the player to move after the moves gave up. Players take turns from the usual beginning."""
    return kifu_record(form, game, moves, text, comments, len(moves) % 2 if resigned else None)


def _shard_record(game: Any, shard: Shard, number: int, form: str) -> str:
    record = shard.game(number)
    names = [shard.model, shard.model]
    if record.opponent is not None and record.learner != BOTH:
        names[1 - record.learner] = record.opponent
    text = SgfText(
        names[0],
        names[1],
        event=f"self-play of {shard.model}, worker {shard.header.get('worker')}",
        round=str(number),
        comment=f"id {record.game_id:016x}; end: {record.end.name.lower()}; shard {shard.path.name}",
    )
    values = [
        None if flags & NO_VALUE else float(value)
        for flags, value in zip(record.flags.tolist(), record.root_values, strict=True)
    ]
    resigned = record.end == End.RESIGNED
    try:
        game = game.varied(record.setup)
        made_by = movers(game, record.moves)
        if isinstance(game, Backgammon):
            said = ["" if value is None else f"value {value:+.3f} to move" for value in values]
            return _gammon_record(game, record.moves.tolist(), text, said, resigned, form)
        states = replay_one(game, record.moves)
        ends = np.cumsum(record.visit_lengths, dtype=np.int64).tolist()
        comments = [
            _comment(game, value, mover, _search_of(game, record, ply, state, ends[ply]))
            for ply, (value, mover, state) in enumerate(zip(values, made_by, states, strict=False))
        ]
        if isinstance(game, Shogi):
            return _kifu_record(game, record.moves.tolist(), text, comments, resigned, form)
        winrates = [_black_winrate(value, mover) for value, mover in zip(values, made_by, strict=True)]
        settled = record.end == End.SETTLED
        return game_sgf(game, record.moves.tolist(), text, comments, resigned, winrates, settled=settled)
    except IllegalMove as error:
        raise FileError(shard.path, f"damaged: game {number}: {error}") from error


def _match_record(path: Path, game: Any, one: MatchGame, text: SgfText, form: str) -> str:
    try:
        if isinstance(game, Backgammon):
            said = ["" if value is None else f"value {value:+.3f} to move" for value in one.values_to_move]
            return _gammon_record(game, one.moves, text, said, one.end == "resigned", form)
        made_by = movers(game, one.moves, one.stones)
        comments = [
            _comment(game, value, mover, "opening" if ply < one.opening_plies else "")
            for ply, (value, mover) in enumerate(zip(one.values_to_move, made_by, strict=True))
        ]
        if isinstance(game, Shogi):
            return _kifu_record(game, one.moves, text, comments, one.end == "resigned", form)
        winrates = [_black_winrate(value, mover) for value, mover in zip(one.values_to_move, made_by, strict=True)]
        return game_sgf(game, one.moves, text, comments, one.end == "resigned", winrates, one.stones)
    except IllegalMove as error:
        raise FileError(path, f"damaged: game {one.index}: {error}") from error


def _search_of(game: Game, record: GameRecord, ply: int, state: States, end: int) -> str:
    """What was visited before a move in a state [1, S], or who else made it. end: of its visits in the record's
    columns.
    """
    if record.learner not in (BOTH, int(game.to_move(state)[0])):
        return f"by {record.opponent}"
    visits = slice(end - int(record.visit_lengths[ply]), end)
    if visits.start == visits.stop:
        return ""
    kind = "" if record.flags[ply] & POLICY_COUNTS else "cheap search, "
    return kind + found_by_search(game, state, record.visit_actions[visits], record.visit_counts[visits])


def _comment(game: Game, value: float | None, mover: int, found: str) -> str:
    """One line for each thing that is known."""
    winrate = _black_winrate(value, mover)
    valued = (
        "" if winrate is None else f"{game.colours[0].lower()}'s winrate {winrate:.1f}%, value {value:+.3f} to move"
    )
    return "\n".join(filter(None, [valued, found]))


def _black_winrate(value_to_move: float | None, mover: int) -> float | None:
    """In percent; a draw counts as half a win."""
    if value_to_move is None:
        return None
    return 50 * (1 + (value_to_move if mover == 0 else -value_to_move))
