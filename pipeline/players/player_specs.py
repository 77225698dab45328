"""Spec strings: how the command line, a pool and a match record name a player.

    PATH             a model directory or a link to one; the command says how many readouts it gets
    PATH@READOUTS    the same with readouts of its own; policy:PATH is PATH@0, the raw policy
    random           uniform over the legal moves
    heuristic        the move that a heuristic evaluation of the game prefers, one ply deep
    gtp:COMMAND      an engine behind a pipe, started by this command line
    usi:COMMAND; …   an engine of shogi, with options and limits behind the command line; see
                     families/shogi/usi_engine.py
    gnubg:PLIES      GNU Backgammon, looking so many plies ahead: 0, 1, 2 …
    handicap:N:SPEC  any of the others in Go, with N handicap stones, so black, in every game; its opponent begins
    PLUGIN           a player that an installed package offers as an entry point of mugo.players
    NAME=SPEC        any of these under a given name

Write ``./random`` for a model's directory named like a built-in player, and likewise for a path that looks like NAME=….
Digits after the last '@' are always readouts. Knows names only: whether a model plays the game, or an engine starts,
turns out when the player is made.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.run import layout
from pipeline.run.matches import PlayerKind, handicap_suffix
from pipeline.run.models import resolve_champion

KNOWN: tuple[Literal["random", "heuristic"], ...] = ("random", "heuristic")  # players that are just a name
POLICY, GTP, USI, GNUBG, HANDICAP = "policy:", "gtp:", "usi:", "gnubg:", "handicap:"
USI_GO = "go btime 0 wtime 0 byoyomi 1000"  # a second a move
ENGINES = (GTP, USI, GNUBG)
MOST_PLIES = 4  # of gnubg; more take minutes a move

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._@-]*)=(.*)", re.DOTALL)
_READOUTS = re.compile(r"(.+)@([0-9]{1,9})", re.DOTALL)
_HANDICAP = re.compile(HANDICAP + r"([0-9]{1,2}):(.*)", re.DOTALL)
_OPTION = re.compile(r"([^=]+?)\s*=\s*(.*)")
_GO = re.compile(r"go(?: (?:btime|wtime|byoyomi|binc|winc|movetime|nodes|depth) \d{1,9})+")
_WANTED = "PATH, PATH@READOUTS or policy:PATH of a model, gtp:COMMAND, usi:COMMAND, gnubg:PLIES, " + " or ".join(KNOWN)


@dataclass(frozen=True)
class PlayerSpec:
    """A player and its name.

    text      the spec as it was given
    name      its name in matches and folders; see layout.check_player_name
    own_name  whether the spec itself gives the name
    path      a model's real directory, links resolved, since best_model may be re-pointed later; None for others
    readouts  a model's own number; None: the command's. None for others
    command   an engine's command line, gnubg's plies, a plugin's own name; empty for others
    handicap  stones that it takes in every game
    given     a model's path as the spec has it, without name, readouts and stones; None for others
    """

    text: str
    kind: PlayerKind
    name: str
    own_name: bool = False
    path: Path | None = None
    readouts: int | None = None
    command: str = ""
    handicap: int = 0
    given: Path | None = None


@dataclass(frozen=True)
class UsiCommand:
    """What a spec says. program: a command line; options: (name, value) in order; go: the line that asks for a move."""

    program: str
    options: tuple[tuple[str, str], ...]
    go: str


def parse_usi_command(text: str) -> UsiCommand:
    """Of what stands behind ``usi:``. Raises UsageError for a part that is neither an option nor go LIMITS."""
    program, *parts = (part.strip() for part in text.split(";"))
    options, go = [], USI_GO
    for part in parts:
        named = _OPTION.fullmatch(part)
        if _GO.fullmatch(part):
            go = part
        elif named and not part.startswith("go "):
            options.append((named[1], named[2]))
        else:
            raise UsageError(f"usi:{text}: {part!r}; wanted NAME=VALUE, or go with limits, e.g. go nodes 1000")
    return UsiCommand(program, tuple(options), go)


def is_engine(text: str) -> bool:
    """Whether this spec would run another program."""
    match = _NAMED.fullmatch(text.strip())
    body = match[2].strip() if match else text.strip()
    stones = _HANDICAP.fullmatch(body)
    return (stones[2].strip() if stones else body).startswith(ENGINES)


def parse_player(text: str, resolve: Callable[[Path], Path] = resolve_champion) -> PlayerSpec:
    """resolve: of a model's path, its real directory.

    Raises UsageError for anything but a spec, and FileError for a path without a model.
    """
    match = _NAMED.fullmatch(text.strip())
    own_name, body = (match[1], match[2].strip()) if match else (None, text.strip())
    if own_name is not None:
        layout.check_player_name(own_name)
        if own_name in KNOWN and body != own_name:
            raise UsageError(f"player {text!r}: the name {own_name!r} is the built-in player's; choose another")
    if body.startswith(HANDICAP):
        return _with_handicap(text, own_name, body, resolve)
    for kind in KNOWN:
        if body == kind:
            return PlayerSpec(text, kind, own_name or kind, own_name is not None)
    if body.startswith((GTP, USI)):
        engine: PlayerKind = "gtp" if body.startswith(GTP) else "usi"
        command = body.partition(":")[2].strip()
        if engine == "usi":
            parse_usi_command(command)
        default = _engine_name(text, command)
        return PlayerSpec(text, engine, own_name or default, own_name is not None, command=command)
    if body.startswith(GNUBG):
        plies = body.removeprefix(GNUBG)
        if plies not in map(str, range(MOST_PLIES + 1)):
            raise UsageError(f"player {text!r}: {plies[:20]!r} plies; wanted gnubg:0 to gnubg:{MOST_PLIES}")
        return PlayerSpec(text, "gnubg", own_name or f"gnubg-{plies}ply", own_name is not None, command=plies)
    if "/" not in body and body in extensions.find(extensions.PLAYERS):
        return PlayerSpec(text, "plugin", own_name or body, own_name is not None, command=body)
    given, readouts = _parse_model(text, body)
    path = resolve(given)
    name = own_name or _model_name(text, path, readouts)
    return PlayerSpec(text, "model", name, own_name is not None, path, readouts, given=given)


def _with_handicap(text: str, own_name: str | None, body: str, resolve: Callable[[Path], Path]) -> PlayerSpec:
    """Of ``handicap:N:SPEC``; the name says the stones unless the spec gives another."""
    match = _HANDICAP.fullmatch(body)
    stones = int(match[1]) if match else 0
    inner = match[2].strip() if match else ""
    if stones < 2 or inner.startswith((HANDICAP, USI, GNUBG)) or _NAMED.fullmatch(inner):
        wanted = f"{HANDICAP}N:PLAYER with N from 2 on, e.g. {HANDICAP}3:gtp:gnugo --mode gtp; a name stands before it"
        raise UsageError(f"player {text!r}: wanted {wanted}")
    player = parse_player(inner, resolve)
    name = own_name or layout.check_player_name(player.name + handicap_suffix(stones))
    return replace(player, text=text, name=name, own_name=own_name is not None, handicap=stones)


def _engine_name(text: str, command: str) -> str:
    """``gnugo-1a2b3c4d``: the program and a hash of its command line, so that other options are another player."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"player {text!r}: not readable as a command line ({error})") from error
    if not words or not words[0]:
        example = "usi:fairy-stockfish; go nodes 500" if "usi:" in text else "gtp:gnugo --mode gtp --level 1"
        raise UsageError(f"player {text!r}: no command; wanted e.g. {example!r}")
    program = re.sub(r"[^A-Za-z0-9._]+", "-", os.path.basename(words[0])).strip("-._") or "engine"
    return layout.check_player_name(f"{program}-{hashlib.sha256(command.encode()).hexdigest()[:8]}")


def _parse_model(text: str, body: str) -> tuple[Path, int | None]:
    """(the model's path as it was given, the readouts that the spec gives)."""
    raw_policy = body.startswith(POLICY)
    where = body.removeprefix(POLICY)
    match = _READOUTS.fullmatch(where)
    if match and raw_policy:
        raise UsageError(f"player {text!r}: {POLICY!r} means 0 readouts, and @{match[2]} stands behind it; drop one")
    readouts = 0 if raw_policy else int(match[2]) if match else None
    path = Path(match[1] if match else where)
    if not where or (not os.path.lexists(path) and "/" not in where and path.name != layout.CHAMPION):
        raise UsageError(f"player {text!r}: no such model or built-in player; wanted {_WANTED}")
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
