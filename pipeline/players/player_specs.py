"""Spec strings: the names of players on the command line, in a pool and in match records.

    PATH             a model directory or a link to one, with the command's readouts
    PATH@READOUTS    the same with its own readouts; policy:PATH is PATH@0, the raw policy
    random           uniform over the legal moves
    heuristic        the move that a heuristic evaluation of the game prefers, one ply deep
    KIND:ARGUMENT    or KIND alone: a player of another kind, as plug-ins offer them at mugo.players, e.g. an
                     engine behind a pipe and its command; see kinds.py
    handicap:N:SPEC  any of the others, with N handicap stones, so the first player, in every game; its opponent begins
    NAME=SPEC        any of these under a given name

Write ``./random`` for a model directory named like a built-in player, and likewise for a path that looks like NAME=….
Digits after the last '@' are always readouts. This module parses names only: whether a model plays the game, or an
engine starts, is checked when the player is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.players.kinds import kind_named, name_of, split
from pipeline.run import layout
from pipeline.run.matches import handicap_suffix
from pipeline.run.models import resolve_champion

BUILT_IN_NAMES: tuple[Literal["random", "heuristic"], ...] = ("random", "heuristic")
POLICY, HANDICAP = "policy:", "handicap:"

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._@-]*)=(.*)", re.DOTALL)
_READOUTS = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)
_HANDICAP = re.compile(HANDICAP + r"([0-9]{1,2}):(.*)", re.DOTALL)


@dataclass(frozen=True)
class PlayerSpec:
    """A parsed spec.

    kind      its name in mugo.players, or "model"
    own_name  whether the spec itself gives the name
    path      a model's real directory: best_model may point elsewhere later. None for others
    readouts  a model's own; None: the command's, or not a model
    argument  of the kind, e.g. an engine's command line; empty for kinds without one and for models
    handicap  stones that it takes in every game
    given     a model's path as written in the spec; None for others
    """

    text: str
    kind: str
    name: str
    own_name: bool = False
    path: Path | None = None
    readouts: int | None = None
    argument: str = ""
    handicap: int = 0
    given: Path | None = None


def is_engine(text: str) -> bool:
    """Whether this player runs another program. Raises UsageError for a kind that can't be loaded."""
    found = _kind_in(text)
    return found is not None and found[1] is not None and kind_named(found[0]).runs_program


def names_kind(text: str) -> bool:
    """Whether this player is of a kind in mugo.players, and not a model. Imports nothing."""
    return _kind_in(text) is not None


def _kind_in(text: str) -> tuple[str, str | None] | None:
    """As kinds.split, behind a name and handicap stones."""
    _, body = _split_name(text)
    stones = _HANDICAP.fullmatch(body)
    return split(stones[2].strip() if stones else body)


def parse_player(text: str, resolve: Callable[[Path], Path] = resolve_champion) -> PlayerSpec:
    """Parse a spec. resolve: from a model's path to its real directory.

    Raises UsageError for an invalid spec, FileError for a path without a model.
    """
    own_name, body = _split_name(text)
    if own_name is not None:
        layout.check_player_name(own_name)
        if own_name in BUILT_IN_NAMES and body != own_name:
            raise UsageError(f"player {text!r}: the name {own_name!r} is the built-in player's; choose another")
    if body.startswith(HANDICAP):
        return _with_handicap(text, own_name, body, resolve)
    found = split(body)
    if found is not None:
        kind, argument = found
        wanted = kind_named(kind).argument
        if (argument is not None) != bool(wanted):
            form = f"{kind}:{wanted}" if wanted else f"{kind} alone"
            raise UsageError(f"player {text!r}: wanted {form}")
        default = name_of(kind, argument or "")
        return PlayerSpec(text, kind, own_name or default, own_name is not None, argument=argument or "")
    given, readouts = _parse_model(text, body)
    path = resolve(given)
    name = own_name or _model_name(text, path, readouts)
    return PlayerSpec(text, "model", name, own_name is not None, path, readouts, given=given)


def _split_name(text: str) -> tuple[str | None, str]:
    """(the name that the spec gives, the rest)."""
    match = _NAMED.fullmatch(text.strip())
    return (match[1], match[2].strip()) if match else (None, text.strip())


def _with_handicap(text: str, own_name: str | None, body: str, resolve: Callable[[Path], Path]) -> PlayerSpec:
    """Parse ``handicap:N:SPEC``. The default name ends with the number of stones."""
    match = _HANDICAP.fullmatch(body)
    stones = int(match[1]) if match else 0
    inner = match[2].strip() if match else ""
    found = split(inner)
    wrong = stones < 2 or inner.startswith(HANDICAP) or _NAMED.fullmatch(inner)
    if wrong or (found is not None and not kind_named(found[0]).takes_handicap):
        wanted = f"{HANDICAP}N:PLAYER with N from 2 on, e.g. {HANDICAP}3:random; a name stands before it"
        raise UsageError(f"player {text!r}: wanted {wanted}")
    player = parse_player(inner, resolve)
    name = own_name or layout.check_player_name(player.name + handicap_suffix(stones))
    return replace(player, text=text, name=name, own_name=own_name is not None, handicap=stones)


def _parse_model(text: str, body: str) -> tuple[Path, int | None]:
    """(the model's path as given, the spec's readouts)."""
    raw_policy = body.startswith(POLICY)
    where = body.removeprefix(POLICY)
    match = _READOUTS.fullmatch(where)
    if match and raw_policy:
        raise UsageError(f"player {text!r}: {POLICY!r} means 0 readouts, but @{match[2]} follows; drop one")
    readouts = 0 if raw_policy else int(match[2]) if match else None
    path = Path(match[1] if match else where)
    if not where or (not os.path.lexists(path) and "/" not in where and path.name != layout.CHAMPION):
        others = [form for form, _ in extensions.descriptions(extensions.PLAYERS) if form not in BUILT_IN_NAMES]
        wanted = f"PATH, PATH@READOUTS or policy:PATH of a model, {', '.join(others)}, {' or '.join(BUILT_IN_NAMES)}"
        raise UsageError(f"player {text!r}: no such model or built-in player; wanted {wanted}")
    bare, at, number = where.rpartition("@")
    if at and not match and not os.path.lexists(path) and os.path.lexists(bare):
        raise UsageError(f"player {text!r}: readouts {number!r}; wanted a whole number of at most 9 digits")
    return path, readouts


def _model_name(text: str, path: Path, readouts: int | None) -> str:
    name = path.name if readouts is None else f"{path.name}@{readouts}"
    try:
        return layout.check_player_name(name)
    except UsageError as error:
        raise UsageError(f"{error}; to name it yourself write NAME={text}") from error
