"""The pool of opponents: its command, members and eviction, and the modes that choose an opponent.

Ratings are in a file of their own, so they outlive eviction. An unrated member gets the mean of all rated players, as
by the Bradley-Terry prior. Every change reads and writes the pool under its lock. A full pool evicts its lowest rated
member, but never built-in players or the champion: they are the common reference.

A *mode* is a string that names a probability distribution over the candidates:

    uniform               uniform over all
    champion              the newest champion
    lagged=1-5            uniform over the champions 1 to 5 before ``me`` (or the newest, if ``me`` was no champion)
    mirror                ``me`` itself
    fixed=NAME            that player
    top-k=3               uniform over the three with the highest ratings
    nearest=200           softmax of −|rating difference| / 200 Elo
    match-quality=0.1     softmax of TrueSkill's match quality / 0.1
    ts-dist=4             softmax of −|difference of TrueSkill's mu| / 4
    exploration           in proportion to 1 / (1 + games)

Only mirror, champion and fixed may choose ``me``. Chooses names; makes no players.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import trueskill

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.players.player_specs import BUILT_IN_NAMES, HANDICAP, parse_player
from pipeline.progress import SILENT, Progress
from pipeline.ratings.strength import resolve_name
from pipeline.run import atomic, layout
from pipeline.run.ratings import Member, Pool, RatedPlayer, pool_lock, read_pool, read_ratings, write_record

TEMPERATURES = {  # by default
    "nearest": 200.0,  # in Elo
    "match-quality": 0.1,  # in TrueSkill's match quality, from 0 to 1
    "ts-dist": 4.0,  # in TrueSkill's mu, whose own scale, beta, is 4.17
}
FORMS = {  # what follows a mode's kind
    **dict.fromkeys(("uniform", "champion", "mirror", "exploration"), ""),
    "lagged": r"=\d{1,6}-\d{1,6}",
    "fixed": r"=.+",
    "top-k": r"=[1-9]\d{0,5}",
    **dict.fromkeys(TEMPERATURES, r"(=\d*\.?\d+)?"),
}
MODES = (
    "uniform, champion, lagged=FROM-TO, mirror, fixed=NAME, top-k=K, nearest[=ELO], match-quality[=TEMPERATURE], "
    "ts-dist[=POINTS], exploration"
)

RatedPlayers = Mapping[str, RatedPlayer]


# The command


@dataclass(frozen=True)
class PoolRow:
    """A member of the pool.

    rated_as       its name in the ratings, for a model with readouts; None while unrated
    rating, error  by Bradley-Terry, in Elo; None while unrated
    """

    name: str
    spec: str
    rating: float | None
    error: float | None
    games: int
    rated_as: str | None = None


@dataclass(frozen=True)
class PoolSummary:
    """The pool after the command.

    members                  best first, the unrated last
    added, removed, evicted  names; evicted: the lowest rated first
    already                  names that were to be added but were members
    """

    path: str
    capacity: int
    members: list[PoolRow]
    added: list[str]
    removed: list[str]
    evicted: list[str]
    already: list[str] = field(default_factory=list)


def pool(
    action: str | None = None,
    what: str | None = None,
    path: Path = layout.POOL_FILE,
    ratings_path: Path = layout.RATINGS_FILE,
    capacity: int | None = None,
    progress: Progress = SILENT,
    by_rating: bool = False,
) -> PoolSummary:
    """Show the pool (no action), "add" the player of a spec, or "remove" a name; capacity changes its size.

    by_rating: add the player to a full pool only if it isn't the lowest rated itself.
    If the ratings can't be read, it warns and treats all as unrated.
    Raises UsageError for a wrong action, spec or name, or a pool full of permanent members, FileError for damage.
    """
    if action not in (None, "add", "remove") or (action is None) != (what is None):
        wanted = "wanted add SPEC, remove NAME, or nothing to show the pool; e.g. `python main.py pool add heuristic`"
        raise UsageError(f"pool {action or what}: {wanted}")
    if capacity is not None and capacity < 1:
        raise UsageError(f"pool --capacity {capacity}: wanted at least 1")
    rated = _rated_players(ratings_path, progress)
    new = make_member(what) if action == "add" and what is not None else None
    removed = [what] if action == "remove" and what is not None else []
    if what is None and capacity is None:
        before = after = read_pool(path)
    else:
        with pool_lock(path):
            before = read_pool(path)
            after = remove(before, *removed) if removed else before
            after = resize(after, capacity or before.capacity, rated)
            if new is not None:
                after = add(after, new, rated, by_rating)
            if new is None or after != before:
                write_record(path, after)
    added = [name for name in after.names if name not in before.names]
    evicted = [name for name in before.names if name not in (*after.names, *removed)]
    rows = [_row(member, rated) for member in after.members]
    return PoolSummary(
        path=str(path),
        capacity=after.capacity,
        members=sorted(rows, key=lambda row: (row.rating is None, -(row.rating or 0.0))),
        added=added,
        removed=removed,
        evicted=sorted(evicted, key=lambda name: rating_of(name, rated)),
        already=[one.name for one in after.members if new is not None and one.spec == new.spec and not added],
    )


def _row(member: Member, rated: RatedPlayers) -> PoolRow:
    one = rated_player(member.name, rated)
    if one is None:
        return PoolRow(member.name, member.spec, None, None, 0)
    return PoolRow(member.name, member.spec, one.bradley_terry, one.bradley_terry_error, one.games, one.name)


def _rated_players(ratings_path: Path, progress: Progress) -> dict[str, RatedPlayer]:
    if not atomic.exists(ratings_path):
        return {}
    try:
        return read_ratings(ratings_path).by_name
    except FileError as error:
        progress.warn(f"the pool treats all players as unrated: {error}")
        return {}


# Members


def make_member(spec: str) -> Member:
    """The member of a spec. A link such as best_model is replaced by the model that it points to now.

    Raises UsageError for an invalid spec, FileError for a path without a model.
    """
    player = parse_player(spec)
    if player.handicap:
        raise UsageError(f"pool add {spec!r}: members meet in even games; wanted the player without {HANDICAP!r}")
    if player.path is None:
        return Member(name=player.name, spec=player.text.strip())
    path = player.path
    if path.is_relative_to(Path.cwd()):  # so that a run's folder can be moved
        path = path.relative_to(Path.cwd())
    named = f"{player.name}=" if player.own_name else "./" if len(path.parts) == 1 else ""
    readouts = f"@{player.readouts}" if player.readouts is not None else ""
    return Member(name=player.name, spec=f"{named}{path}{readouts}")


def add(pool: Pool, member: Member, rated: RatedPlayers, by_rating: bool = False) -> Pool:
    """The pool with a new member. A full pool evicts its lowest rated member, of equals the oldest.

    The new member itself stays, even with the lowest rating, unless by_rating. Adding a member again changes nothing.
    Raises UsageError if its name belongs to another player, or if all members of a full pool are permanent.
    """
    for other in pool.members:
        if other.name == member.name and other.spec != member.spec:
            raise UsageError(
                f"pool: {member.name} is already {other.spec}, not {member.spec}; remove that one first, or add this "
                f"one under another name: NAME={member.spec}"
            )
        if other.spec == member.spec:
            return pool
    if by_rating:
        members = _best((*pool.members, member), pool.capacity, rated)
        return pool.model_copy(update={"members": members}) if len(members) <= pool.capacity else pool
    return pool.model_copy(update={"members": (*resize(pool, pool.capacity - 1, rated).members, member)})


def remove(pool: Pool, name: str) -> Pool:
    """The pool without a member. Raises UsageError if there is no such member."""
    if name not in pool.names:
        raise UsageError(f"pool: no member {name!r}; members: {', '.join(pool.names) or 'none'}")
    return pool.model_copy(update={"members": tuple(one for one in pool.members if one.name != name)})


def resize(pool: Pool, capacity: int, rated: RatedPlayers) -> Pool:
    """The pool with another capacity. Evicts the lowest rated members, of equals the oldest.

    Raises UsageError if the permanent members don't fit.
    """
    members = _best(pool.members, capacity, rated)
    if len(members) > capacity:
        names = ", ".join(member.name for member in members)
        raise UsageError(
            f"pool: {names} never leave (the champion and built-in players), so there is no room; wanted a larger "
            "--capacity, or `python main.py pool remove NAME`"
        )
    return pool.model_copy(update={"capacity": capacity, "members": members})


def is_permanent(member: Member) -> bool:
    """Whether a full pool never evicts this member: a built-in player, or the champion of its folder."""
    try:
        player = parse_player(member.spec)
    except MuGoError:  # a missing model: a match will report it
        return False
    path = player.path
    if path is None:
        return player.kind in BUILT_IN_NAMES
    return path == Path(os.path.realpath(path.parent / layout.CHAMPION))


def _best(members: Sequence[Member], num: int, rated: RatedPlayers) -> tuple[Member, ...]:
    """The num members with the highest ratings, of equals the newest, in the order given; more if permanent."""
    worst_first = sorted(members, key=lambda member: rating_of(member.name, rated))
    if len(members) > num:
        worst_first = [member for member in worst_first if not is_permanent(member)]
    leave = worst_first[: max(0, len(members) - num)]
    return tuple(member for member in members if member not in leave)


def rated_player(name: str, rated: RatedPlayers) -> RatedPlayer | None:
    """The rated player of a name; None: unrated. A model without readouts is its NAME@READOUTS with the most games."""
    found = resolve_name(name, {one: player.games for one, player in rated.items()})
    return rated[found] if found is not None else None


def rating_of(name: str, rated: RatedPlayers) -> float:
    """The Bradley-Terry rating in Elo; for an unrated player the mean of all."""
    one = rated_player(name, rated)
    if one is not None:
        return one.bradley_terry
    return math.fsum(one.bradley_terry for one in rated.values()) / len(rated) if rated else 0.0


# Modes


@dataclass(frozen=True)
class Mode:
    """A parsed mode. text: as given; kind, value: what stands before and after its =."""

    text: str
    kind: str
    value: str

    @property
    def temperature(self) -> float:
        return float(self.value or TEMPERATURES[self.kind])

    @property
    def lags(self) -> tuple[int, int]:
        first, _, last = self.value.partition("-")
        return int(first), int(last)


def parse_mode(text: str) -> Mode:
    """Parse a mode of the module docstring. Raises UsageError."""
    kind, _, value = text.partition("=")
    mode = Mode(text, kind, value)
    is_valid = kind in FORMS and bool(re.fullmatch(FORMS[kind], text.removeprefix(kind)))
    if is_valid and kind == "lagged":
        is_valid = 1 <= mode.lags[0] <= mode.lags[1]
    if is_valid and kind in TEMPERATURES:
        is_valid = 0 < mode.temperature < math.inf
    if not is_valid:
        raise UsageError(f"mode {text!r}: wanted one of {MODES}; e.g. top-k=3, lagged=1-5, nearest=200")
    return mode


def distribution(
    mode: Mode, candidates: Sequence[str], rated: RatedPlayers, me: str | None = None, champions: Sequence[str] = ()
) -> dict[str, float]:
    """The probability of each opponent; they sum to 1. Empty if no candidate fits the mode.

    candidates  names of possible opponents, e.g. the pool's members
    rated       the rated players, by their names in ratings
    me          the player that needs an opponent, as named in candidates or champions; None: in neither
    champions   all champions so far, oldest first
    """
    if mode.kind == "mirror":
        return {me: 1.0} if me is not None else {}
    names = list(dict.fromkeys(candidates))
    if mode.kind == "fixed":
        return {mode.value: 1.0} if mode.value in names else {}
    if mode.kind == "champion":
        return _equal([name for name in names if champions and _same_model(name, champions[-1])][:1])
    others = [name for name in names if me is None or not _same_model(name, me)]
    if not others:
        return {}
    if mode.kind == "lagged":
        mine = [i for i, champion in enumerate(champions) if me is not None and _same_model(champion, me)]
        now = mine[-1] if mine else len(champions) - 1
        lagged = [champions[now - lag] for lag in range(mode.lags[0], min(mode.lags[1], now) + 1)]
        return _equal([name for name in others if any(_same_model(name, one) for one in lagged)])
    if mode.kind == "top-k":
        return _equal(sorted(others, key=lambda name: -rating_of(name, rated))[: int(mode.value)])
    if mode.kind == "exploration":
        players = {name: rated_player(name, rated) for name in others}
        return _normalised({name: 1 / (1 + (one.games if one else 0)) for name, one in players.items()})
    if mode.kind == "nearest":
        elo = rating_of(me or "", rated)
        return _softmax({name: -abs(rating_of(name, rated) - elo) for name in others}, mode.temperature)
    if mode.kind == "match-quality":
        # The chance of a draw, relative to that of two players known to be equal: Herbrich et al. 2006, section 4.
        mine = _skill(me or "", rated)
        return _softmax({name: trueskill.quality_1vs1(_skill(name, rated), mine) for name in others}, mode.temperature)
    if mode.kind == "ts-dist":
        mu = _skill(me or "", rated).mu
        return _softmax({name: -abs(_skill(name, rated).mu - mu) for name in others}, mode.temperature)
    return _equal(others)


def choose(
    mode: Mode,
    candidates: Sequence[str],
    rated: RatedPlayers,
    me: str | None,
    champions: Sequence[str],
    generator: np.random.Generator,
    say: Callable[[str], None],
) -> str | None:
    """An opponent sampled from distribution(); None if there is none, with the reason passed to say()."""
    chances = distribution(mode, candidates, rated, me, champions)
    if not chances:
        found = f"none of {', '.join(candidates)} fits" if candidates else "the pool is empty"
        say(f"no opponent by mode {mode.text}: {found}; skipped (`python main.py pool add SPEC` adds one)")
        return None
    return str(generator.choice(list(chances), p=list(chances.values())))


def _skill(name: str, rated: RatedPlayers) -> trueskill.Rating:
    one = rated_player(name, rated)
    return trueskill.Rating(one.trueskill_mu, one.trueskill_sigma) if one else trueskill.Rating()


def _same_model(name: str, model: str) -> bool:
    """Whether both names mean the same model, with any readouts."""
    return name == model or name == model.rpartition("@")[0] or name.rpartition("@")[0] == model


def _equal(names: Sequence[str]) -> dict[str, float]:
    return {name: 1 / len(names) for name in names}


def _normalised(weights: dict[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _softmax(values: dict[str, float], temperature: float) -> dict[str, float]:
    top = max(values.values())
    return _normalised({name: math.exp((value - top) / temperature) for name, value in values.items()})
