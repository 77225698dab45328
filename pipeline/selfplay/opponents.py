"""Whom self-play's model meets: the mix that a user asked for, and the players behind its names.

    mirror      the model plays itself; champion means the same, for the model that plays is the champion
    previous    the champion before the model that plays, by the journal of promotions
    random      uniform over the legal moves         heuristic   one ply of sense, per game
    pool:MODE   a member of the pool, chosen as ratings/pool.py describes

A game's own seed says whom it is played against and on which side, so game i is the same whoever plays it and whatever
else is played. Models that search answer greedily, with self-play's readouts and without noise; the learner's opening
moves keep the games apart. Models without a search draw their answers as the learner does. Where an entry
leads to nobody (no earlier champion, an empty pool, the model itself) the game is a mirror game.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame
from pipeline.methods.method import Encounter, Opponent
from pipeline.methods.named import method_named
from pipeline.players.builtin import BUILT_INS
from pipeline.players.kinds import kind_named
from pipeline.players.player import Player
from pipeline.players.player_specs import is_engine, parse_player
from pipeline.progress import Progress
from pipeline.ratings.pool import MODES, Mode, choose, parse_mode
from pipeline.run import atomic
from pipeline.run.models import Model, check_game, game_as_seen, has_model, read_champions, read_model
from pipeline.run.ratings import RatedPlayer, read_pool, read_ratings
from pipeline.selfplay.config import SelfplayConfig

MIRROR, CHAMPION, PREVIOUS, POOL = "mirror", "champion", "previous", "pool:"
NO_ENGINES, NO_PLUGINS = (f"{kind} don't take part in self-play" for kind in ("engines", "plugins"))
Load = Callable[[Model], list[Any]]  # what a model's Method.load gives for each thread
MOST_MODELS = 16  # opponents whose networks stay loaded; the longest unused goes first


@dataclass(frozen=True)
class OpponentChoice:
    """What a game's seed says. learner: the model's side, 0 or 1; seed: the opponent's, uint64.

    generator: for what is left to chance.
    """

    name: str
    learner: int
    seed: int
    generator: np.random.Generator


@dataclass(frozen=True)
class Mix:
    """Entries and how often each is met. names [E] as in the module docstring; shares [E], 1 in all."""

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @property
    def only_mirror(self) -> bool:
        return set(self.names) == {MIRROR}

    def draw(self, encounter: int) -> OpponentChoice:
        """encounter: GameSeed.encounter."""
        generator = np.random.Generator(np.random.PCG64(encounter))
        entry = int(np.searchsorted(np.cumsum(self.shares)[:-1], generator.random(), side="right"))
        learner = int(generator.integers(2))
        return OpponentChoice(self.names[entry], learner, int(generator.integers(0, 2**64, dtype=np.uint64)), generator)


def parse_mix(text: str) -> Mix:
    """``random=5,previous=30,pool:top-k=3=10,mirror=55`` → Mix.

    Raises UsageError that names the entry, what was found and what was wanted.
    """
    named: set[str] = set()
    weights: dict[str, float] = {}
    for entry in text.split(","):
        name, equals, number = (part.strip() for part in entry.rpartition("="))
        where = f"selfplay --opponents, entry {entry.strip()!r}"
        if not equals or not name:
            raise UsageError(f"{where}: wanted NAME=WEIGHT, where NAME is {_wanted()}")
        if name in named:
            raise UsageError(f"{where}: {name} has a weight already; wanted each name once")
        named.add(name)
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
        problem = NO_ENGINES if is_engine(name) else f"unknown opponent {name!r}"
        raise UsageError(f"{where}: {problem}; wanted {_wanted()}")


def _wanted() -> str:
    return f"{MIRROR}, {CHAMPION}, {PREVIOUS}, {', '.join(BUILT_INS)} or {POOL}MODE, where MODE is one of {MODES}"


@dataclass(frozen=True)
class Others:
    """Whom a model may meet, beside those that are always there, as the disk says when it begins to play.

    previous: the champion before it; None: nobody. models, built_ins: whom pool:MODE chooses from, by name, the latter
    with their kinds; rated, champions: as in ratings/pool.py.
    """

    previous: Path | None = None
    models: dict[str, Path] = field(default_factory=dict)
    built_ins: dict[str, str] = field(default_factory=dict)
    rated: dict[str, RatedPlayer] = field(default_factory=dict)
    champions: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[Path]:
        """Of all models."""
        return [*self.models.values(), *([] if self.previous is None else [self.previous])]

    def to_json(self) -> dict[str, Any]:
        return {
            "previous": None if self.previous is None else str(self.previous),
            "models": {name: str(path) for name, path in self.models.items()},
            "built_ins": self.built_ins,
            "rated": {name: player.model_dump(mode="json") for name, player in self.rated.items()},
            "champions": self.champions,
        }

    @staticmethod
    def from_json(said: dict[str, Any]) -> Others:
        return Others(
            None if said["previous"] is None else Path(said["previous"]),
            {name: Path(path) for name, path in said["models"].items()},
            said["built_ins"],
            {name: RatedPlayer.model_validate(player) for name, player in said["rated"].items()},
            said["champions"],
        )


class OthersReader:
    """Finds on the disk whom each model that learns may meet. For one thread at a time; says the same only once."""

    def __init__(self, config: SelfplayConfig, mix: Mix, game: AnyGame, progress: Progress) -> None:
        self._config, self._mix, self._game, self._progress = config, mix, game, progress
        self._told: set[str] = set()

    def of(self, learner: Path) -> Others:
        """learner: the real directory of the model that plays. Raises as OpponentSource.meet."""
        previous = self._champion_before(learner) if PREVIOUS in self._mix.names else None
        modes = [parse_mode(name.removeprefix(POOL)) for name in self._mix.names if name.startswith(POOL)]
        return replace(self._read_pool(modes), previous=previous) if modes else Others(previous)

    def once(self, tell: Callable[[str], None], text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            tell(text)

    def _read_pool(self, modes: Sequence[Mode]) -> Others:
        config = self._config
        pool = read_pool(config.pool)
        ratings = config.pool.with_name("ratings.json")
        rated = read_ratings(ratings).by_name if atomic.exists(ratings) else {}
        champions = [path.name for path in read_champions(config.network.parent)]
        found = Others(rated=rated, champions=champions)
        for member in pool.members:
            spec = parse_player(member.spec)
            if spec.handicap:
                found_one = f"{config.pool}: {member.name} takes {spec.handicap} handicap stones"
                raise UsageError(f"{found_one}; wanted even games: `python main.py pool remove {member.name}`")
            if spec.path is None and spec.kind not in BUILT_INS:
                is_engine = kind_named(spec.kind).runs_program
                what, why = ("an engine", NO_ENGINES) if is_engine else ("a plugin", NO_PLUGINS)
                if any(mode.kind == "fixed" and mode.name == member.name for mode in modes):
                    raise UsageError(f"selfplay --opponents: {member.name} is {what}; {why}")
                self.once(self._progress.warn, f"{config.pool}: {member.name} is left out; {why}")
            elif spec.path is not None:
                found.models[member.name] = spec.path
            else:
                _built_in(spec.kind, member.name, self._game)
                found.built_ins[member.name] = spec.kind
        return found

    def _champion_before(self, learner: Path) -> Path | None:
        path = champion_before(read_champions(self._config.network.parent), learner)
        if path is None:
            self.once(self._progress.say, f"no champion before {learner.name}: it meets itself instead")
        elif not has_model(path):
            gone = f"the champion before {learner.name}, {path}, is gone: it meets itself instead"
            self.once(self._progress.warn, gone)
            path = None
        return path


@dataclass
class OpponentSource:
    """The opponents of a run's new games. Threads ask it at the same time.

    leaves: of one tree in a batch. others: of a model that learns, whom it may meet; None: as the disk says. read: a
    model, by its path. Raises UsageError if the heuristic doesn't know the game.
    """

    config: SelfplayConfig
    mix: Mix
    game: AnyGame
    load: Load
    leaves: int
    progress: Progress
    others: Callable[[Path], Others] | None = None
    read: Callable[[Path], Model] = read_model

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._reader = OthersReader(self.config, self.mix, self.game, self.progress)
        self._models: dict[Path, list[Opponent]] = {}  # one per thread; the longest unused first
        self._built_ins = {name: _built_in(name, name, self.game) for name in self.mix.names if name in BUILT_INS}
        self._learner: Path | None = None  # the model whose opponents these are:
        self._others = Others()
        self._members: dict[str, Opponent] = {}  # the built-in ones of the pool

    def prepare(self, learner: Path) -> None:
        """Look at what is sure to be met, so that its errors come before the first game."""
        self._follow(learner)
        if self._others.previous is not None:
            self._model(0, self._others.previous)

    def meet(self, thread: int, encounter: int, learner: Path) -> Encounter | None:
        """The opponent's part in a new game of that thread; None: a mirror game.

        encounter: GameSeed.encounter; learner: the real directory of the model that plays.
        Raises FileError for a model that can't be loaded or plays another game.
        """
        draw = self.mix.draw(encounter)
        opponent = self._find(thread, learner, draw)
        return None if opponent is None else Encounter(opponent, draw.learner, draw.seed)

    def _find(self, thread: int, learner: Path, draw: OpponentChoice) -> Opponent | None:
        if draw.name == MIRROR:
            return None
        if draw.name in self._built_ins:
            return self._built_ins[draw.name]
        with self._lock:  # what follows may load a model: the other threads' new games wait for it
            self._follow(learner)
            if draw.name != PREVIOUS:
                return self._member(thread, learner, draw)
            return None if self._others.previous is None else self._model(thread, self._others.previous)

    def _follow(self, learner: Path) -> None:
        """Look up the last champion and the pool again for each model that learns, never between."""
        if self._learner != learner:
            self._others = (self.others or self._reader.of)(learner)
            kinds = self._others.built_ins.items()
            self._members = {name: _built_in(kind, name, self.game) for name, kind in kinds}
            self._learner = learner

    def _member(self, thread: int, learner: Path, draw: OpponentChoice) -> Opponent | None:
        """The member of the pool that the mode chooses; None if it is the learner or there is none."""
        found = self._others
        mode = parse_mode(draw.name.removeprefix(POOL))
        names = [*found.models, *found.built_ins]
        name = choose(mode, names, found.rated, learner.name, found.champions, draw.generator, self._warn_nobody)
        if name in self._members:
            return self._members[name]
        path = found.models.get(name) if name is not None else None
        return None if path is None or path == learner else self._model(thread, path)

    def _model(self, thread: int, path: Path) -> Opponent:
        found = self._models.pop(path, None) or self._opponents_of(path)
        self._models[path] = found
        if len(self._models) > MOST_MODELS:
            del self._models[next(iter(self._models))]
        return found[thread]

    def _opponents_of(self, path: Path) -> list[Opponent]:
        config, model = self.config, self.read(path)
        check_game(model.info, self.game.spec, path)
        self.progress.say(f"new games are also played against {path.name}")
        method = method_named(model.info.method)
        search = config.search_options().model_copy(update={"noise_weight": 0.0})

        def maker(evaluate: Any) -> Callable[[AnyGame, int], Player]:
            return lambda game, rows: method.player(
                game_as_seen(model.info, game), rows, evaluate, search, config.readouts, self.leaves
            )

        return [Opponent(path.name, maker(one), learns=True) for one in self.load(model)]

    def _warn_nobody(self, text: str) -> None:
        """What choose() says when a mode leads to nobody."""
        self._reader.once(self.progress.warn, f"{text}: the model meets itself instead")


def champion_before(champions: list[Path], champion: Path) -> Path | None:
    """Whom this one followed when it was last promoted; None if nobody, or if it never was."""
    places = [place for place, path in enumerate(champions) if path == champion]
    return champions[places[-1] - 1] if places and places[-1] > 0 else None


def _built_in(kind: str, name: str, game: Any) -> Opponent:
    BUILT_INS[kind](game, 1)  # refuses a game that it doesn't know
    return Opponent(name, BUILT_INS[kind])
