"""The opponents of self-play's model, the learner: the mix that a user asked for, and the players behind its names.

    mirror      the model plays itself; champion means the same, as the model that plays is the champion
    previous    the champion before the model that plays, by the journal of promotions
    random      uniform over the legal moves         heuristic   a game's heuristic evaluation, one ply ahead
    pool:MODE   a member of the pool, chosen as ratings/pool.py describes
    KIND:…      a player behind an API, where a family offers one (PlayerKind.in_selfplay)

A game's own seed determines its opponent and the learner's side. Models that search play greedily, with self-play's
readouts and without noise; others sample their moves as the learner does. If an entry leads to no opponent (no earlier
champion, an empty pool, the model itself), the model plays itself.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from pipeline.errors import FileError, UsageError
from pipeline.games.contract import AnyGame
from pipeline.methods.method import Encounter, Opponent
from pipeline.methods.named import method_named
from pipeline.players.builtin import BUILT_INS, RandomPlayer
from pipeline.players.kinds import kind_named, make_player
from pipeline.players.player import Player
from pipeline.players.player_specs import PlayerSpec, is_engine, parse_player
from pipeline.progress import Progress
from pipeline.ratings.pool import MODES, Mode, choose, parse_mode
from pipeline.run import atomic
from pipeline.run.models import Model, game_as_seen, has_model, read_champions, read_model
from pipeline.run.ratings import RatedPlayer, read_pool, read_ratings

if TYPE_CHECKING:
    from pipeline.selfplay.playing import Plan

MIRROR, CHAMPION, PREVIOUS, POOL = "mirror", "champion", "previous", "pool:"
NO_ENGINES, NO_PLUGINS = (f"{kind} don't take part in self-play" for kind in ("engines", "plugins"))
NAMES = f"{MIRROR}, {CHAMPION}, {PREVIOUS}, {', '.join(BUILT_INS)} or {POOL}MODE, where MODE is one of {MODES}"
ENGINE_SECONDS = 60.0  # of an attempt at a move
MAX_MODELS = 16  # opponents whose networks stay loaded; the least recently used is dropped first


@dataclass(frozen=True)
class OpponentChoice:
    """An opponent by a game's seed."""

    name: str  # an entry of the mix
    learner: int  # the model's side, 0 or 1
    seed: int  # the opponent's, uint64
    generator: np.random.Generator  # for the choice among the pool's members


@dataclass(frozen=True)
class Mix:
    """E entries. names [E] as in the module docstring; shares [E] of the games, which sum to 1."""

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @property
    def only_mirror(self) -> bool:
        return set(self.names) == {MIRROR}

    @property
    def others(self) -> dict[str, PlayerSpec]:
        """The players of kinds that the mix names, by entry."""
        known = (MIRROR, PREVIOUS, *BUILT_INS)
        return {name: parse_player(name) for name in self.names if name not in known and not name.startswith(POOL)}

    def check(self, game: AnyGame) -> None:
        """Raises UsageError for a game that one of the others can't play."""
        for text, spec in self.others.items():
            kind_named(spec.kind).check_game(game, text, spec.argument)

    def sample(self, encounter: int) -> OpponentChoice:
        """encounter: GameSeed.encounter."""
        generator = np.random.Generator(np.random.PCG64(encounter))
        entry = int(np.searchsorted(np.cumsum(self.shares)[:-1], generator.random(), side="right"))
        learner = int(generator.integers(2))
        return OpponentChoice(self.names[entry], learner, int(generator.integers(0, 2**64, dtype=np.uint64)), generator)


def parse_mix(text: str) -> Mix:
    """``random=5,previous=30,pool:top-k=3=10,mirror=55`` → Mix. Raises UsageError."""
    listed: set[str] = set()
    weights: dict[str, float] = {}
    for entry in text.split(","):
        name, equals, number = (part.strip() for part in entry.rpartition("="))
        where = f"selfplay --opponents, entry {entry.strip()!r}"
        if not equals or not name:
            raise UsageError(f"{where}: wanted NAME=WEIGHT, where NAME is {NAMES}")
        if name in listed:
            raise UsageError(f"{where}: {name} has a weight already; wanted each name once")
        listed.add(name)
        name = MIRROR if name == CHAMPION else name
        _check_name(name, where)
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not 0 < weight < math.inf:
            raise UsageError(f"{where}: weight {number!r}; wanted a number above 0")
        weights[name] = weights.get(name, 0.0) + weight
    total = sum(weights.values())
    return Mix(tuple(weights), tuple(weight / total for weight in weights.values()))


def _check_name(name: str, where: str) -> None:
    if name.startswith(POOL):
        try:
            parse_mode(name.removeprefix(POOL))
        except UsageError as error:
            raise UsageError(f"{where}: {error}; then =WEIGHT") from error
    elif name not in (MIRROR, PREVIOUS, *BUILT_INS):
        if not is_engine(name):
            raise UsageError(f"{where}: unknown opponent {name!r}; wanted {NAMES}")
        if not kind_named(parse_player(name).kind).in_selfplay:
            raise UsageError(f"{where}: {NO_ENGINES}; wanted {NAMES}")


class Others(BaseModel, frozen=True):
    """The opponents that a learner may meet, as the disk says when it begins to play; but for random and heuristic."""

    previous: Path | None = None  # the champion before it; None: there is none
    models: dict[str, Path] = {}  # members of the pool, by name
    built_ins: dict[str, str] = {}  # members of the pool: name → kind
    rated: dict[str, RatedPlayer] = {}  # as in ratings/pool.py, like champions
    champions: list[str] = []

    @property
    def paths(self) -> list[Path]:
        """Of all models."""
        return [*self.models.values(), *([] if self.previous is None else [self.previous])]


class OthersReader:
    """Reads from the disk whom each learner may meet. For one thread at a time; warns of each problem once."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._config, self._mix, self._game = plan.config, plan.mix, plan.game
        self._say, self._warn = cache(progress.say), cache(progress.warn)

    def of(self, learner: Path) -> Others:
        """learner: the real directory of the model that plays. Raises as OpponentSource.meet."""
        previous = self._champion_before(learner) if PREVIOUS in self._mix.names else None
        modes = [parse_mode(name.removeprefix(POOL)) for name in self._mix.names if name.startswith(POOL)]
        return Others(previous=previous, **(self._read_pool(modes) if modes else {}))

    def _read_pool(self, modes: Sequence[Mode]) -> dict[str, Any]:
        """The fields of Others that modes need."""
        config, models, built_ins = self._config, {}, {}
        for member in read_pool(config.pool).members:
            try:
                spec = parse_player(member.spec)
            except FileError as error:
                found = f"{config.pool}: {member.name}: {error}"
                if any(mode.kind == "fixed" and mode.value == member.name for mode in modes):
                    raise UsageError(f"{found}; or `python main.py pool remove {member.name}`") from error
                self._warn(f"{found}; it is left out")
                continue
            if spec.handicap:
                found = f"{config.pool}: {member.name} takes {spec.handicap} handicap stones"
                raise UsageError(f"{found}; wanted even games: `python main.py pool remove {member.name}`")
            if spec.path is not None:
                models[member.name] = spec.path
            elif spec.kind in BUILT_INS:
                _built_in(spec.kind, member.name, self._game)
                built_ins[member.name] = spec.kind
            else:
                is_engine = kind_named(spec.kind).runs_program
                what, why = ("an engine", NO_ENGINES) if is_engine else ("a plugin", NO_PLUGINS)
                if any(mode.kind == "fixed" and mode.value == member.name for mode in modes):
                    raise UsageError(f"selfplay --opponents: {member.name} is {what}; {why}")
                self._warn(f"{config.pool}: {member.name} is left out; {why}")
        ratings = config.pool.with_name("ratings.json")
        return {
            "models": models,
            "built_ins": built_ins,
            "rated": read_ratings(ratings).by_name if atomic.exists(ratings) else {},
            "champions": [path.name for path in read_champions(config.network.parent)],
        }

    def _champion_before(self, learner: Path) -> Path | None:
        path = champion_before(read_champions(self._config.network.parent), learner)
        if path is None:
            self._say(f"no champion before {learner.name}: it meets itself instead")
        elif not has_model(path):
            self._warn(f"the champion before {learner.name}, {path}, is gone: it meets itself instead")
            return None
        return path


class OpponentSource:
    """The opponents of a run's new games. Threads call it at the same time."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        others_of: Callable[[Path], Others],
        read: Callable[[Path], Model] = read_model,
    ) -> None:
        """others_of: of a learner, by its path. Raises UsageError if the heuristic doesn't know the game."""
        self._plan, self._progress, self._others_of, self._read = plan, progress, others_of, read
        self._lock = threading.Lock()
        self._warn = cache(progress.warn)  # each text once
        self._models: dict[Path, list[Opponent]] = {}  # one per thread; the least recently used first
        self._fixed = {name: _built_in(name, name, plan.game) for name in plan.mix.names if name in BUILT_INS}
        self._fixed |= {text: _other(spec) for text, spec in plan.mix.others.items()}
        self._learner: Path | None = None  # the model that may meet:
        self._others = Others()
        self._members: dict[str, Opponent] = {}  # the built-in ones of the pool

    def prepare(self, learner: Path) -> None:
        """Load what is sure to be met, so that errors come before the first game."""
        self._follow(learner)
        if self._others.previous is not None:
            self._model(0, self._others.previous)

    def meet(self, thread: int, encounter: int, learner: Path) -> Encounter | None:
        """The opponent in a new game of that thread; None: the model plays itself.

        encounter: GameSeed.encounter; learner: the real directory of the model that plays.
        Raises FileError for the champion before, if it can't be loaded or plays another game.
        """
        choice = self._plan.mix.sample(encounter)
        opponent = self._find(thread, learner, choice)
        return None if opponent is None else Encounter(opponent, choice.learner, choice.seed)

    def _find(self, thread: int, learner: Path, choice: OpponentChoice) -> Opponent | None:
        if choice.name == MIRROR:
            return None
        if choice.name in self._fixed:
            return self._fixed[choice.name]
        with self._lock:  # what follows may load a model: the other threads' new games wait for it
            self._follow(learner)
            if choice.name != PREVIOUS:
                return self._member(thread, learner, choice)
            return None if self._others.previous is None else self._model(thread, self._others.previous)

    def _follow(self, learner: Path) -> None:
        """Look up the last champion and the pool again for each learner, never in between."""
        if self._learner != learner:
            self._others = self._others_of(learner)
            kinds = self._others.built_ins.items()
            self._members = {name: _built_in(kind, name, self._plan.game) for name, kind in kinds}
            self._learner = learner

    def _member(self, thread: int, learner: Path, choice: OpponentChoice) -> Opponent | None:
        """The member of the pool that the mode chooses; None if that is the learner, can't be read or doesn't exist."""

        def warn(text: str) -> None:
            self._warn(f"{text}: the model meets itself instead")

        others = self._others
        mode = parse_mode(choice.name.removeprefix(POOL))
        names = [*others.models, *others.built_ins]
        name = choose(mode, names, others.rated, learner.name, others.champions, choice.generator, warn)
        if name in self._members:
            return self._members[name]
        path = others.models.get(name) if name is not None else None
        if path is None or path == learner:
            return None
        try:
            return self._model(thread, path)
        except FileError as error:  # one of many; a run of days needn't end
            warn(str(error))
            return None

    def _model(self, thread: int, path: Path) -> Opponent:
        found = self._models.pop(path, None) or self._load(path)
        self._models[path] = found
        if len(self._models) > MAX_MODELS:
            del self._models[next(iter(self._models))]
        return found[thread]

    def _load(self, path: Path) -> list[Opponent]:
        """A model as the opponent of each thread's games."""
        plan, model = self._plan, self._read(path)
        plan.check_opponent(model.info, path)
        method = method_named(model.info.method)
        search = plan.config.search_options().model_copy(update={"noise_weight": 0.0})

        def maker(evaluate: Any) -> Callable[[AnyGame, int], Player]:
            return lambda game, rows: method.player(
                game_as_seen(model.info, game), rows, evaluate, search, plan.config.readouts, plan.leaves
            )

        loaded = plan.load(model, self._progress)
        self._progress.say(f"new games are also played against {path.name}")
        return [Opponent(path.name, maker(one), learns=True) for one in loaded]


def champion_before(champions: list[Path], champion: Path) -> Path | None:
    """The champion that this one replaced when it was last promoted; None if it replaced none or was never promoted."""
    places = [place for place, path in enumerate(champions) if path == champion]
    return champions[places[-1] - 1] if places and places[-1] > 0 else None


def _built_in(kind: str, name: str, game: Any) -> Opponent:
    BUILT_INS[kind](game, 1)  # refuses a game that it doesn't know
    return Opponent(name, BUILT_INS[kind], is_random=BUILT_INS[kind] is RandomPlayer)


def _other(spec: PlayerSpec) -> Opponent:
    make = make_player(spec.kind, spec.argument, spec.name, ENGINE_SECONDS)
    return Opponent(spec.name, lambda game, rows: make(game, rows, 0))
