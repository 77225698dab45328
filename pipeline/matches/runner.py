"""``MatchRunner``: plays the matches of evaluate and tournament, from an empty folder to the last game.

A MatchRunner opens match folders with a command's config and plays the missing games with a pool of threads, worker
processes or Ray actors. In a worker, a ``match_executor`` plays them. The caller decides when a match is settled.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.capabilities import AllBoards, InSgf, SeesOpponents, Spoken, usual_handicap
from pipeline.games.contract import AnyGame, Game
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.sgf import SgfFormat, sgf_name
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.matches.match import READER, Pairing, ThreadPool, WorkerPool, conduct
from pipeline.matches.openings import choose_openings, make_openings, read_openings
from pipeline.matches.options import MatchOptions
from pipeline.matches.statistics import score_of
from pipeline.methods.named import method_named
from pipeline.methods.resignation import NEVER
from pipeline.phrases import LOADING, results
from pipeline.players.kinds import ENGINE_ROWS, PlayerKind, kind_named, make_player
from pipeline.players.player import MakePlayer, Player
from pipeline.players.player_specs import HANDICAP, PlayerSpec, parse_player
from pipeline.players.searching import Evaluate
from pipeline.progress import SILENT, Progress, say_first
from pipeline.run import atomic, layout
from pipeline.run.matches import (
    MatchFailure,
    MatchGame,
    MatchHeader,
    MatchWriter,
    PlayerInfo,
    challenger_player,
    games_per_opening,
    has_match,
    open_match,
    verify_games,
)
from pipeline.run.models import Model, check_game, game_as_seen, read_model, resolve_champion
from pipeline.workers.processes import ProcessPool, check_workers, on_shares_of_the_machine
from pipeline.workers.worker_pool import Models

if TYPE_CHECKING:
    from pipeline.workers.cluster import Cluster

# As openvino_backend.MIN_BATCH: smaller batches may round differently, so games would depend on their number. Against
# an engine all batches have the size of its most_rows instead, as a thread never has more positions.
LEAST_BATCH = 16
NETWORKS_KEPT = 6
PLACEMENTS = 8  # attempts at handicap stones that no other game has
STONES = 0x57  # keeps the seeds of placements apart from those of games and openings
DIGEST = 16  # characters that identify a file of openings
GAMES_NAMED = 8  # in a warning about games that failed for the same reason
EXECUTOR = "pipeline.matches.runner:match_executor"


@dataclass(frozen=True)
class Entrant:
    """A player that takes part in a match. model: None for a player of another kind."""

    spec: PlayerSpec
    info: PlayerInfo
    model: Model | None

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def as_rated(self) -> Entrant:
        """The same player, under its name in ratings."""
        return replace(self, info=self.info.model_copy(update={"name": self.info.rated_as}))

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two entrants that are the same player, even under different names."""
        return self.info.kind, self.info.weights, self.info.readouts, self.spec.argument, self.info.handicap

    @property
    def kind(self) -> PlayerKind | None:
        """None for a model."""
        return None if self.spec.path is not None else kind_named(self.spec.kind)

    @property
    def full_spec(self) -> str:
        """A spec that names the same player in any process on this machine."""
        if self.spec.path is None:
            return f"{self.name}={self.spec.text.split('=', 1)[1] if self.spec.own_name else self.spec.text}"
        stones = f"{HANDICAP}{self.spec.handicap}:" if self.spec.handicap else ""
        return f"{self.name}={stones}{self.spec.path.resolve()}@{self.info.readouts}"


Sides = tuple[Entrant, Entrant]  # challenger, champion


def load_entrant(text: str, readouts: int, models: Models = MappingProxyType({})) -> Entrant:
    """The player that a spec string names. readouts: for a model whose spec gives none; models: not read from the disk.

    Raises UsageError for an invalid spec, FileError for a model that can't be read.
    """
    spec = parse_player(text, lambda path: path if str(path) in models else resolve_champion(path))
    if spec.path is None:
        plain = PlayerInfo(name=spec.name, kind=spec.kind, spec=spec.text, handicap=spec.handicap)
        return Entrant(spec, plain, None)
    model = read_model(spec.path, models.get(str(spec.path)))
    searches = method_named(model.info.method).searches
    own = 0 if not searches else readouts if spec.readouts is None else spec.readouts
    info = PlayerInfo(
        name=spec.name,
        kind="model",
        spec=spec.text,
        readouts=own,
        weights=model.info.files[layout.WEIGHTS].sha256,
        parents=[f"{parent}@{own}" for parent in model.info.parents],
        handicap=spec.handicap,
    )
    return Entrant(spec, info, model)


def handicap_side_of(entrants: Sequence[Entrant]) -> int | None:
    """The side that takes handicap stones; None: neither. Raises UsageError if both do."""
    sides = [side for side, entrant in enumerate(entrants) if entrant.spec.handicap]
    if len(sides) > 1:
        names = " and ".join(entrant.name for entrant in entrants)
        raise UsageError(f"{names}: both take handicap stones; only one of them may")
    return sides[0] if sides else None


def common_game(asked: str | None, entrants: Sequence[Entrant]) -> Game:
    """The game that all entrants can play: the one asked for, else the models'.

    Raises UsageError if there is neither or a player can't play it, FileError if a model plays another game.
    """
    specs = [entrant.model.info.game for entrant in entrants if entrant.model]
    # A model for a single board comes before models for all boards, which adapt to it.
    specs.sort(key=lambda spec: isinstance(parse_game(spec), AllBoards))
    if asked is None and not specs:
        names = " and ".join(entrant.name for entrant in entrants)
        raise UsageError(f"--game: not given, and {names} may play any; wanted e.g. --game go:9")
    game = parse_game(asked or specs[0])
    for entrant in entrants:
        if entrant.model:
            check_game(entrant.model.info, game.spec, entrant.spec.path)
        elif entrant.kind:
            entrant.kind.check_game(game, entrant.spec.text, entrant.spec.argument)
        if entrant.spec.handicap:
            try:
                usual_handicap(game, entrant.spec.handicap)
            except UsageError as error:
                raise UsageError(f"player {entrant.spec.text!r}: {error}") from error
    return game


def most_rows(entrants: Sequence[Entrant]) -> int | None:
    """The most games that a thread plays at once; None: any number."""
    limits = [one.kind.most_rows for one in entrants if one.kind and one.kind.most_rows is not None]
    return min(limits, default=None)


def batch_of(entrants: Sequence[Entrant], rows: int) -> int:
    """The largest batch of a thread that plays this many games at once."""
    most = most_rows(entrants)
    return max(rows, LEAST_BATCH if most is None else min(most, LEAST_BATCH))


def in_step(numbers: Sequence[int], at_once: int, handicap_side: int | None) -> list[int]:
    """The games that begin at once, those in which the challenger moves first before the others; then the rest.

    A thread takes neighbours. If two models think equally long, the same one is to move in all games of a thread, and
    its batches are twice as large.
    """
    first = sorted(numbers[:at_once], key=lambda number: challenger_player(number, handicap_side))
    return [*first, *numbers[at_once:]]


class PlayerFactory:
    """Makes the players of entrants, for num_threads threads with such batches. Keeps the last NETWORKS_KEPT models."""

    def __init__(self, config: MatchOptions, num_threads: int, batch: int, progress: Progress = SILENT) -> None:
        self.size = num_threads, batch
        self._config = config
        self._progress = progress
        self._networks: OrderedDict[str, list[Any]] = OrderedDict()

    def maker(self, entrant: Entrant, other: Entrant) -> MakePlayer:
        """other: the player that it meets."""
        if entrant.model is None:
            return make_player(entrant.spec.kind, entrant.spec.argument, entrant.name, self._config.engine_seconds)
        info = entrant.model.info
        method, loaded = method_named(info.method), self._loaded(entrant)
        search, readouts = self._config.search_options(), entrant.info.readouts or 0

        def make(game: AnyGame, rows: int, thread: int) -> Player:
            seen = game_as_seen(info, game) or game  # common_game() has checked that the model can play it
            player = method.player(seen, rows, loaded[thread], search, readouts)
            player.meets_fixed = isinstance(seen, SeesOpponents) and other.model is None
            return player

        return make

    def pairing(
        self,
        game: Game,
        entrants: Sequence[Entrant],
        openings: Sequence[Sequence[int]],
        stones: Sequence[Sequence[int]],
    ) -> Pairing:
        """entrants: challenger, champion. stones: as in Pairing."""
        challenger, champion = entrants
        makers = self.maker(challenger, champion), self.maker(champion, challenger)
        names = challenger.name, champion.name
        side, below = handicap_side_of(entrants), self._config.resign_threshold
        return Pairing(game, makers, names, self._config.seed, openings, side, stones, below)

    def policies(self, entrants: Sequence[Entrant]) -> list[Evaluate]:
        """The policy networks of the entrants that have one, for the calling thread."""
        models = [(entrant, method_named(entrant.model.info.method)) for entrant in entrants if entrant.model]
        found = [method.policy(self._loaded(entrant)[0]) for entrant, method in models]
        return [policy for policy in found if policy is not None]

    def _loaded(self, entrant: Entrant) -> list[Any]:
        assert entrant.model is not None
        key = entrant.info.weights
        if key not in self._networks:
            say_first(self._progress, LOADING)
            method, (threads, batch) = method_named(entrant.model.info.method), self.size
            config = self._config
            self._networks[key] = method.load(entrant.model, batch, threads, config.backend, self._progress, config)
            if len(self._networks) > NETWORKS_KEPT:
                self._networks.popitem(last=False)
        self._networks.move_to_end(key)
        return self._networks[key]


class MatchRunner:
    """Opens and plays matches with one command's config. Holds its Ray cluster: use it in a with statement."""

    def __init__(self, config: MatchOptions, game: Game, progress: Progress) -> None:
        """Raises UsageError for openings that don't fit the game, MuGoError for a cluster that can't be used."""
        if config.opening_plies >= game.max_plies:
            raise UsageError(
                f"--opening-plies {config.opening_plies}: games of {game.spec} end within {game.max_plies} plies; "
                "wanted fewer"
            )
        chosen = config.openings is not None or ("opening_plies" in config.model_fields_set and config.opening_plies)
        if chosen and isinstance(game, Spoken) and game.speaks:
            raise UsageError(f"--opening-plies and --openings: {game.spec} has no openings, as its moves are texts")
        self.config = config
        self.game = game
        self._progress = progress
        self._factory: PlayerFactory | None = None
        self._listed = None if config.openings is None else read_openings(config.openings, game)
        self._cluster: Cluster | None = None
        check_workers(config.runner, config.workers)
        if config.runner == "ray":
            from pipeline.workers.cluster import Cluster

            self._cluster = Cluster(progress)

    def __enter__(self) -> MatchRunner:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def open(
        self,
        folder: Path,
        entrants: Sides,
        num_games: int,
        threshold: float | None = None,
        settings: dict[str, Any] | None = None,
        needed: bool = True,
    ) -> MatchWriter:
        """Continue the match in the folder, or begin it with new openings. The caller holds its match_lock.

        settings  further settings that the decision depends on
        needed    whether any game will be played; if not, a new match has empty openings, and no player is loaded
        Raises UsageError if a model is to resign whose method never does.
        """
        resigns_below = self.config.resign_threshold
        for entrant in entrants if resigns_below > NEVER else ():
            if entrant.model and not (method := method_named(entrant.model.info.method)).resigns:
                raise UsageError(
                    f"--resign-threshold {resigns_below:g}: {entrant.name} is of method {method.name}, whose values "
                    "aren't chances of winning; leave it out"
                )
        side = handicap_side_of(entrants)
        num_openings = num_games // games_per_opening(side)
        openings: list[list[int]] = [[]] * num_openings
        stones = [] if side is None else [[0] * entrants[side].spec.handicap] * num_openings
        if needed and not has_match(folder):
            openings, stones = self._openings(entrants, num_openings)
        header = MatchHeader(
            players=(entrants[0].info, entrants[1].info),
            game=self.game.spec,
            games=num_games,
            threshold=threshold,
            settings={
                # A match whose games are needed after all can't go on without openings.
                **(self._opening_settings(side) if needed else {"opening_plies": 0}),
                "seed": self.config.seed,
                "resign_threshold": self.config.resign_threshold,
                **self.config.search_options().stored(),
                **(settings or {}),
            },
            openings=openings,
            stones=stones,
            max_result=self.game.max_result,
        )
        writer = open_match(folder, header)
        verify_games(folder / layout.MATCH_GAMES, self.game, list(writer.games.values()))
        return writer

    def extend(self, writer: MatchWriter, entrants: Sides, num_pairs: int) -> None:
        """Add openings for num_pairs pairs of games to a growing match."""
        num_openings = 2 * num_pairs // games_per_opening(handicap_side_of(entrants))
        writer.extend(*self._openings(entrants, num_openings, writer))

    def play(
        self,
        writer: MatchWriter,
        entrants: Sides,
        settled: Callable[[MatchWriter], bool],
        score: Callable[[MatchWriter], str] = lambda writer: results(*astuple(score_of(writer.games.values()))),
    ) -> None:
        """Play the missing games until the match is settled, or every game has ended or failed twice.

        score: the score so far as text, shown as progress.
        Raises MuGoError if all games, or all of the first ones, failed; KeyboardInterrupt after recording the games
        that ended.
        """
        missing = writer.missing()
        if not missing or settled(writer):
            return
        progress = self._progress
        failures: list[MatchFailure] = []
        given_up: set[int] = set()
        # Games that failed in an earlier run are tried first. If others ended, these say nothing about the rest.
        known = {failure.failed for failure in writer.failures} if writer.games else set()
        fresh = set(missing) - known
        added = len(writer.added)

        def on_outcomes(games: list[MatchGame], failed: list[MatchFailure]) -> bool:
            writer.add(games)
            for failure in failed:
                writer.add_failure(failure)
            _warn_of(failed, given_up, progress)
            failures.extend(failed)
            progress.advance(len(games))
            progress.describe(score(writer))
            return not nothing_works() and not settled(writer)

        def nothing_works() -> bool:
            """Whether the first games all failed, so that trying the others, perhaps hundreds, is pointless."""
            return len(writer.added) == added and len(fresh) > len(given_up - known) >= 2 * ENGINE_ROWS

        what = f"{writer.header.challenger} against {writer.header.champion}"
        at_once = min(self.config.parallel_games, len(missing))
        progress.start(what, writer.num_games, "games", len(writer.games), at_once)
        try:
            if all(entrant.model for entrant in entrants):
                missing = in_step(missing, at_once, writer.header.handicap_side)
            conduct(self._pool(writer, entrants, len(missing)), missing, on_outcomes, given_up)
        finally:
            progress.finish()
        if nothing_works() or (failures and not writer.games):
            which = f"all {len(given_up)} games that were tried" if writer.games else "every game"
            raise MuGoError(f"{writer.folder}: {which} failed, e.g. {failures[-1].problem}; fix that and run it again")

    def _openings(
        self, entrants: Sides, number: int, writer: MatchWriter | None = None
    ) -> tuple[list[list[int]], list[list[int]]]:
        """(moves, handicap stones) of `number` openings, after those of a match; no stones without a handicap."""
        known, known_stones = (writer.openings, writer.stones) if writer else ([], [])
        side = handicap_side_of(entrants)
        if side is not None and self._listed is not None:
            taker = entrants[side].name
            raise UsageError(f"--openings: {taker} takes handicap stones, with which its games begin; leave it out")
        if number == 0:
            return [], []
        if self._listed is not None:
            return choose_openings(self._listed, number, self.config.seed, len(known)), []
        stones = [] if side is None else self._stones(entrants[side], number, known_stones)
        plies = self._opening_plies(side)
        threads, rows = self._size(entrants, 2 * number, self.config.threads or available_cores())
        batch = batch_of(entrants, rows)
        policies = self._factory_for(threads, batch).policies(entrants) if plies else []
        views = [game_as_seen(one.model.info, self.game) or self.game for one in entrants if one.model]
        widest = max([self.game, *views], key=lambda game: getattr(game, "num_planes", 0))  # networks see the first
        return make_openings(widest, policies, number, plies, self.config.seed, batch, known, stones), stones

    def _stones(self, taker: Entrant, number: int, known: Sequence[Sequence[int]]) -> list[list[int]]:
        """The handicap stones of `number` games, numbered after those known, as their taker places them."""
        spec, kind = taker.spec, taker.kind
        if kind is None:
            return [usual_handicap(self.game, spec.handicap) for _ in range(number)]
        streams = [np.random.SeedSequence([self.config.seed, STONES, len(known) + one]) for one in range(number)]
        seeds = [stream.generate_state(PLACEMENTS, np.uint32).tolist() for stream in streams]
        seconds = self.config.engine_seconds
        return kind.place_handicap(self.game, spec.argument, taker.name, spec.handicap, seeds, seconds, known)

    def _opening_plies(self, side: int | None) -> int:
        """0 by default where dice (the same for both games of a pair) or handicap stones keep the games apart."""
        apart = self.game.has_chance or side is not None
        return 0 if apart and "opening_plies" not in self.config.model_fields_set else self.config.opening_plies

    def _opening_settings(self, side: int | None) -> dict[str, Any]:
        """The settings that a match's openings depend on, besides players and seed."""
        if self.config.openings is None or self._listed is None:
            return {"opening_plies": self._opening_plies(side)}
        digest = hashlib.sha256(json.dumps(self._listed).encode()).hexdigest()[:DIGEST]
        return {
            "opening_plies": max(map(len, self._listed)),
            "openings": f"{self.config.openings.name} {digest}",  # by content: the file may move
        }

    def _pool(self, writer: MatchWriter, entrants: Sides, num_games: int) -> WorkerPool:
        config = self.config
        by_default = available_cores() if self._cluster is None else 1
        threads, rows = self._size(entrants, num_games, config.threads or by_default)
        if self._cluster is None and config.workers == 0:
            factory = self._factory_for(threads, batch_of(entrants, rows))
            return ThreadPool(factory.pairing(self.game, entrants, writer.openings, writer.stones), threads, rows)
        workers = min(config.workers, num_games)
        if self._cluster is None:
            threads = max(1, threads // workers)
            rows = min(rows, -(-config.parallel_games // (workers * threads)))
        job = {
            "executor": EXECUTOR,
            "config": config.model_dump(mode="json", include=set(MatchOptions.model_fields)),
            "game": self.game.spec,
            "players": [entrant.full_spec for entrant in entrants],
            "weights": [entrant.info.weights for entrant in entrants],
            "openings": writer.openings,
            "stones": writer.stones,
            "threads": threads,
            "rows": rows,
        }
        if self._cluster is not None:
            from pipeline.workers.cluster import RayPool

            models = [entrant.spec.path for entrant in entrants if entrant.spec.path is not None]
            hang, most = config.hang_seconds, config.parallel_games
            return RayPool(self._cluster, READER, job, models, threads * rows, hang, most=most)
        say_first(self._progress, f"starting {workers} workers")
        # An engine is a child of its worker, and would have that share of the cores alone.
        has_engine = any(entrant.kind is not None and entrant.kind.runs_program for entrant in entrants)
        jobs = [job] * workers if has_engine else on_shares_of_the_machine(job, workers)
        return ProcessPool(READER, jobs, threads * rows, config.hang_seconds)

    def _size(self, entrants: Sides, num_games: int, threads: int) -> tuple[int, int]:
        """(threads, at most as many as given; games of each at once)."""
        together = min(self.config.parallel_games, num_games)
        threads = min(threads, together)
        rows = -(-together // threads)
        return threads, min(rows, most_rows(entrants) or rows)

    def _factory_for(self, threads: int, batch: int) -> PlayerFactory:
        """The factory of this size; only the last one is kept."""
        if self._factory is None or self._factory.size != (threads, batch):
            self._factory = PlayerFactory(self.config, threads, batch, self._progress)
        return self._factory


def write_sgfs(game: Game, writer: MatchWriter, directory: Path | None) -> None:
    """Write an SGF record of every game that is new or has none; does nothing for a game without SGF.

    directory: for the records of several matches; None: the match's own folder.
    """
    if not isinstance(game, InSgf):
        return
    folder = writer.folder / layout.MATCH_SGF if directory is None else directory / writer.folder.name
    atomic.make_folder(folder)
    atomic.sweep(folder)
    names = (writer.header.challenger, writer.header.champion)
    for one in sorted(writer.games.values(), key=lambda one: one.index):
        path = folder / sgf_name(one.index)
        if path.exists() and one.index not in writer.added:
            continue
        black, white = names if one.challenger_player == 0 else reversed(names)
        comments = [
            "opening" if ply < one.opening_plies else "" if value is None else f"value {value:+.3f} to move"
            for ply, value in enumerate(one.values_to_move)
        ]
        text = RecordText(black, white, event=writer.folder.name, round=str(one.index), comment=f"end: {one.end}")
        resigned_by = int(one.result_first_player > 0) if one.end == "resigned" else None
        played = PlayedGame(one.moves, text, comments, resigned_by=resigned_by, stones=one.stones)
        atomic.write_text(path, SgfFormat().write(game, played), folder_sync=False)
    atomic.sync(folder)


def _warn_of(failed: Sequence[MatchFailure], given_up: set[int], progress: Progress) -> None:
    """Warn in one line of all games that failed for the same reason, as a worker that ends takes many with it."""
    alike: dict[tuple[bool, str], list[int]] = {}
    for failure in failed:
        alike.setdefault((failure.failed in given_up, failure.problem), []).append(failure.failed)
    for (for_good, problem), numbers in alike.items():
        named = ", ".join(map(str, numbers[:GAMES_NAMED])) + (", …" if len(numbers) > GAMES_NAMED else "")
        who = f"game {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} games ({named})"
        outcome = "failed again and won't count" if for_good else "failed and will be tried again"
        progress.warn(f"{who} {outcome}: {problem}")


# In a worker


def match_executor(job: dict[str, Any], models: Models) -> ThreadPool:
    """Plays the games of one match. job: written by MatchRunner. models: that came with it; others are on the disk.

    Raises UsageError or FileError for a player that can't be found, FileError if a model's weights have changed.
    """
    entrants = [load_entrant(text, 0, models) for text in job["players"]]
    for entrant, weights in zip(entrants, job["weights"], strict=True):
        if entrant.info.weights != weights:
            where = entrant.spec.path or entrant.name
            raise FileError(where, "its weights changed since the match began; restore them")
    threads, rows = job["threads"], job["rows"]
    factory = PlayerFactory(MatchOptions(**job["config"]), threads, batch_of(entrants, rows))
    pairing = factory.pairing(parse_game(job["game"]), entrants, job["openings"], job["stones"])
    return ThreadPool(pairing, threads, rows, watched=False)
