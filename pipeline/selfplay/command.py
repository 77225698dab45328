"""``selfplay``: a model plays itself or a mix of opponents; every finished game becomes training data.

Reads a model directory (or the best_model link) and writes shards under output_dir/$MODEL/$WORKER, where $MODEL is the
model that learns, whoever it met. One actor of the model's method plays in each thread; the calling thread commits what
they finish, in groups of about commit_seconds. When the network is a link that is re-pointed while games run, the next
game to start uses the new model and meets the new model's predecessor. Ctrl-C loses only unfinished games.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.config import SelfplayConfig, available_cores
from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.base import AnyGame
from pipeline.games.registry import parse_game
from pipeline.methods import resignation
from pipeline.methods.base import (
    Actor,
    ActorJob,
    Encounter,
    FinishedGame,
    GameSeed,
    Learner,
    Method,
    game_seeds,
    run_in_turn,
)
from pipeline.methods.registry import method_named
from pipeline.phrases import counted, duration, percent, results
from pipeline.players.searching import leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.selfplay.committing import Committer
from pipeline.selfplay.numbering import Numbering, numbering
from pipeline.selfplay.opponents import MIRROR, Load, Mix, OpponentSource, parse_mix
from pipeline.selfplay.resignation import LEAST_GAMES, newest_games
from pipeline.selfplay.variety import Dealer, Numbered, Variety
from pipeline.stalls import Watch
from pipeline.storage import atomic
from pipeline.storage.models import Model, newest_number, read_info, read_model, resolve_champion
from pipeline.storage.shards import (
    BOTH,
    End,
    GameRecord,
    ShardMeta,
    check_same_game,
    newest_shards,
    prepare_folder,
    read_shard,
)

NOTHING = object()  # no actor sent anything
SHOWN_EVERY = 0.5  # seconds between two looks at how fast it goes


@dataclass(frozen=True)
class SelfplaySummary:
    """What one self-play run did. Speeds are of the playing itself, without loading the model.

    opponents: whom the model met → games, and the model's own wins, draws and losses, and where a game counts more than
    1 its points; empty if it only met itself.
    points_per_game: the first player's, and big_wins: games that counted more than 1, by name; None and empty for games
    that always count 1.
    calibration: how the threshold was found in earlier games; empty if it was given. Shares of resignations that would
    have been wrong: the one measured, and what it may really be (the upper end of its one-sided 95 % interval).
    """

    model: str
    games: int
    positions: int
    shards: int
    average_length: float
    first_player_wins: int
    draws: int
    resigned: int
    cut_short: int  # games that the move limit ended
    settled: int  # games that ended because nothing was left to decide
    resign_threshold: float  # -1: nobody resigned
    no_resign_games: int  # of the model against itself, as in what follows
    false_resignations: int  # no-resign games whose first would-be resigner did not lose
    would_be_resignations: int
    evaluations: int  # of the model's, not of its opponents'
    seconds: float
    evaluations_per_second: float
    games_per_second: float
    opponents: dict[str, dict[str, float]] = field(default_factory=dict)
    calibration: dict[str, float] = field(default_factory=dict)
    note: str = ""
    points_per_game: float | None = None
    big_wins: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The short form."""
        if self.note:
            return [f"{self.model} {self.note}: nothing to play"]
        speed = self.positions / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.model} played {counted(self.games, 'game')} in {duration(self.seconds)}: "
            f"{counted(self.positions, 'position')}, {self.average_length:.1f} plies a game",
            f"{speed:,.0f} positions/s, {self.evaluations_per_second:,.0f} evaluations/s, "
            f"{self.games_per_second:,.2f} games/s",
            self._first_player(),
        ]
        if self.cut_short:
            lines.append(
                f"{self.cut_short:,} of {counted(self.games, 'game')} reached the move limit; their score isn't learned"
            )
        if self.settled:
            lines.append(f"{self.settled:,} of {counted(self.games, 'game')} ended with nothing left to decide")
        if self.resign_threshold > -1:
            lines.append(
                f"{self.resigned:,} of {counted(self.games, 'game')} resigned, at a value below "
                f"{self.resign_threshold:.2f}; {self.false_resignations:,} of {self.would_be_resignations:,} would "
                f"have been wrong in {counted(self.no_resign_games, 'game')} that were played on"
            )
        for name, met in self.opponents.items():
            scored = f": {results(*(int(met[one]) for one in ('wins', 'draws', 'losses')))}" if "wins" in met else ""
            if "points" in met:
                scored += f", {met['points'] / met['games']:+.2f} points a game"
            lines.append(f"against {name}: {counted(int(met['games']), 'game')}{scored}")
        return lines

    def _first_player(self) -> str:
        scored = (self.first_player_wins + self.draws / 2) / max(1, self.games)
        if self.points_per_game is None:
            return f"the first player scored {percent(scored)} of the points"
        kinds = "".join(f", {percent(count / self.games)} {name}s" for name, count in self.big_wins.items())
        return f"the first player won {percent(scored)} and {self.points_per_game:+.2f} points a game{kinds}"


class ModelSource:
    """The model that new games are played with: follows the network path where that is a link."""

    def __init__(self, network: Path, load: Load, progress: Progress) -> None:
        self._network = network
        self._load = load
        self._progress = progress
        self._lock = threading.Lock()
        self.path = resolve_champion(network)
        model = read_model(self.path)
        self.game: AnyGame = parse_game(model.info.game)
        self.method: Method = method_named(model.info.method)
        self.method.check(self.game)
        self._players = self._players_of(model)

    @property
    def name(self) -> str:
        return self._players[0].name

    def generation(self) -> int:
        """Of a game that starts now: the number of the newest model beside the one that plays."""
        return newest_number(self.path.parent)

    def player(self, thread: int) -> Learner:
        """The player for a game that starts now. Called by actors; loads a newly promoted model when there is one."""
        with self._lock:
            path = resolve_champion(self._network)
            if path != self.path:
                model = read_model(path)
                if (parse_game(model.info.game).spec, model.info.method) != (self.game.spec, self.method.name):
                    raise MuGoError(
                        f"{path}: plays {model.info.game}, the games under way are {self.game.spec}; "
                        "restart selfplay to change the game"
                    )
                self._players = self._players_of(model)
                self._progress.say(f"new games are played by {self.name}")
                self.path = path
            return self._players[thread]

    def _players_of(self, model: Model) -> list[Learner]:
        return [Learner(model.info.name, one, model.path) for one in self._load(model)]


@dataclass
class _Tally:
    """Counts over committed games, named as in the summary. names: AnyGame.result_names; points: the first player's."""

    names: Mapping[float, str] = field(default_factory=dict)
    points: float = 0.0
    big_wins: Counter[str] = field(default_factory=Counter)
    games: int = 0
    positions: int = 0
    shards: int = 0
    first_player_wins: int = 0
    draws: int = 0
    resigned: int = 0
    cut_short: int = 0
    settled: int = 0
    no_resign_games: int = 0
    false_resignations: int = 0
    would_be_resignations: int = 0
    opponents: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, finished: FinishedGame) -> None:
        record = finished.record
        self.games += 1
        self.positions += len(record.moves)
        self.first_player_wins += record.result_first_player > 0
        self.draws += record.result_first_player == 0
        self.points += record.result_first_player
        if (name := self.names.get(abs(record.result_first_player))) is not None:
            self.big_wins[name] += 1
        self.resigned += record.end == End.RESIGNED
        self.cut_short += record.end == End.MOVE_LIMIT
        self.settled += record.end == End.SETTLED
        self._add_opponent(record)
        if record.learner != BOTH:
            return
        self.no_resign_games += record.no_resign
        if finished.would_have_resigned >= 0:
            self.would_be_resignations += 1
            self.false_resignations += _result_of(finished.would_have_resigned, record) >= 0

    def _add_opponent(self, record: GameRecord) -> None:
        if record.opponent is None:
            counts = self.opponents.setdefault(MIRROR, {"games": 0})
        else:
            counts = self.opponents.setdefault(record.opponent, {"games": 0, "wins": 0, "draws": 0, "losses": 0})
            result = _result_of(record.learner, record)
            counts["wins" if result > 0 else "losses" if result < 0 else "draws"] += 1
            if self.names:
                counts["points"] = counts.get("points", 0.0) + result
        counts["games"] += 1


def _result_of(player: int, record: GameRecord) -> float:
    return record.result_first_player if player == 0 else -record.result_first_player


def selfplay(config: SelfplayConfig, progress: Progress = SILENT) -> SelfplaySummary:
    """Play config.games games and commit them. See the module docstring.

    Raises NotYet if another process plays as the same worker, UsageError for a mix of opponents that can't be read or
    met in this game and for bounds of the threshold that contradict each other, FileError for a model that can't be
    loaded (nothing is ever played by a random stand-in) or a directory that can't be written or holds games of another
    board; after committing what was finished, KeyboardInterrupt, whatever an actor raised, and Hung for one that hangs.
    """
    if config.resign_lowest > config.resign_highest:
        raise UsageError(
            f"selfplay --resign-lowest: {config.resign_lowest} is above --resign-highest ({config.resign_highest}); "
            "swap them"
        )
    mix = parse_mix(config.opponents)
    network = resolve_champion(config.network)
    generation = newest_number(network.parent)
    told: set[str] = set()

    def skip(error: FileError) -> None:
        if str(error) not in told:
            progress.warn(f"not counted: {error}")
        told.add(str(error))

    with _alone(config):
        wanted = _games_wanted(config, generation, skip)
        if wanted == 0:
            note = f"already has {config.games} games"
            return _summary(network.name, _Tally(), config.resign_threshold, note=note)
        numbers = numbering(config.output_dir, config.worker, generation, wanted, skip)
        return _Run(config, mix, numbers, progress).play()


@contextmanager
def _alone(config: SelfplayConfig) -> Iterator[None]:
    """As the only one who plays under this worker's name. Raises NotYet if another process does."""
    with ExitStack() as held:
        try:
            held.enter_context(atomic.file_lock(config.output_dir / config.worker, wait=False))
        except atomic.Busy as error:
            raise NotYet(
                f"{config.output_dir}: another process plays as worker {config.worker}; wait until it is done, or "
                "choose another --worker",
                missing=1,
            ) from error
        yield


class _Arrival(NamedTuple):
    game: AnyGame
    finished: FinishedGame


class _Run:
    """One run of so many games: the threads that play, and the calling thread, which commits what they finish."""

    def __init__(self, config: SelfplayConfig, mix: Mix, numbers: Numbering, progress: Progress) -> None:
        self._config = config
        self._numbers = numbers
        self._wanted = wanted = numbers.wanted
        self._progress = progress
        self._num_threads = max(1, min(config.threads or available_cores(), wanted))
        self._rows = -(-min(config.parallel_games, wanted) // self._num_threads)  # that each thread plays at a time
        self._leaves = leaves_per_tree(self._rows, _least_readouts(config))
        max_batch = self._rows * self._leaves
        progress.say(f"loading {config.network}; kernels and network are compiled when this machine sees them first")

        def load(model: Model) -> list[Any]:
            method = method_named(model.info.method)
            return method.load(model, max_batch, self._num_threads, config.backend, progress)

        self._source = source = ModelSource(config.network, load, progress)
        if config.end_settled and not source.game.can_settle:
            raise UsageError(
                f"selfplay --end-settled: {source.game.spec} is played to its end, or decided by chance; wanted Go"
            )
        self._variety = Variety.of(config, source.game)
        check_same_game(config.output_dir, source.game.spec)
        self._opponents = None
        if not mix.only_mirror:
            self._opponents = OpponentSource(config, mix, source.game, load, self._leaves, progress)
            self._opponents.prepare(source.path)
        prepare_folder(config.output_dir, source.name, config.worker, numbers.run.since)
        self._threshold: float = resignation.NEVER
        self._calibration: dict[str, float] = {}
        if source.method.resigns:
            self._threshold, self._calibration = _resign_threshold(config, source.game, numbers.continues, progress)
        fresh = np.random.SeedSequence().generate_state(1, np.uint64)[0]
        self._seed = int(fresh) if config.seed is None else config.seed
        provenance = {
            "seed": self._seed,
            resignation.EFFECTIVE: self._threshold,
            "resign_calibration": self._calibration,
            "config": config.stored({"output_dir", "network", "verbose", "backend", "threads"}),
        }
        boards = self._variety.games
        self._committer = Committer(config, boards, source.method, provenance, self._evaluations, numbers.run)
        self._begun: dict[int, tuple[int, int]] = {}  # ids of games in play → their generations and numbers
        self._actors: list[list[Actor]] = [[] for _ in range(self._num_threads)]
        self._arrived: queue.SimpleQueue[_Arrival | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._watch = Watch()
        self._tally = _Tally(source.game.result_names)
        self._started = self._shown = time.monotonic()

    def play(self) -> SelfplaySummary:
        progress, committer = self._progress, self._committer
        threads = self._threads = [
            threading.Thread(target=self._run_actors, args=(number,), daemon=True)
            for number in range(self._num_threads)
        ]
        self._started = time.monotonic()
        progress.start("selfplay", self._wanted, "games")
        for thread in threads:
            thread.start()
        try:
            self._take_games()
        finally:
            self._stop.set()
            try:
                self._watch.join(threads, self._counts)
            finally:
                while (left := self._next(0.0)) is not NOTHING:  # after an interrupt: what was finished still counts
                    if isinstance(left, _Arrival):
                        self._take(left)
                committer.commit()
                progress.finish()
        self._tally.shards = committer.shards
        seconds = time.monotonic() - self._started
        return _summary(
            self._source.name, self._tally, self._threshold, self._calibration, self._evaluations(), seconds
        )

    def _run_actors(self, thread: int) -> None:
        """In a thread of its own: play every game whose number leaves this thread's when divided by their number."""
        try:
            config = self._config.model_copy(update={"resign_threshold": self._threshold})
            dealer = Dealer(self._games_of(thread), self._variety)
            actors = self._actors[thread]
            for board, (game, rows) in enumerate(zip(self._variety.games, self._variety.rows(self._rows), strict=True)):
                job = ActorJob(
                    game,
                    rows,
                    config,
                    self._starting(dealer.games_on(board)),
                    partial(self._source.player, thread),
                    partial(self._arrive, game),
                    partial(self._meet, thread) if self._opponents else None,
                    self._leaves,
                )
                actors.append(self._source.method.actor(job))
            run_in_turn(actors, self._stop.is_set)
            for actor in actors:
                actor.close()
        except BaseException as error:  # handed to the calling thread, which raises it
            self._arrived.put(error)
        finally:
            self._arrived.put(None)

    def _games_of(self, thread: int) -> Iterator[Numbered]:
        for number in self._numbers.of_thread(thread, self._num_threads):
            (seed,) = game_seeds(self._seed, iter([number]), self._config.no_resign_fraction, self._config.worker)
            yield Numbered(number, seed)

    def _starting(self, games: Iterator[Numbered]) -> Iterator[GameSeed]:
        """The seeds of games, each asked for when its game starts.

        Notes the game's generation, because models are made meanwhile.
        """
        for number, seed in games:
            self._begun[seed.game_id] = self._source.generation(), number
            yield seed

    def _arrive(self, game: AnyGame, finished: FinishedGame) -> None:
        self._arrived.put(_Arrival(game, finished))

    def _meet(self, thread: int, seed: GameSeed, learner: Learner) -> Encounter | None:
        assert self._opponents is not None and learner.path is not None
        return self._opponents.meet(thread, seed.encounter, learner.path)

    def _take_games(self) -> None:
        """Commit games as they end until every actor has ended. Raises what the first actor that failed raised."""
        running, failure = self._num_threads, None
        while running:
            arrived = self._next(self._committer.due_in())
            if arrived is None:
                running -= 1
            elif isinstance(arrived, BaseException):
                failure = failure or arrived
                self._stop.set()
            elif isinstance(arrived, _Arrival):
                self._take(arrived)
                self._progress.advance()
                _describe(self._config, *arrived, self._progress)
            if self._committer.due_in() <= 0:
                self._committer.commit()
            self._show_speed()
            self._watch.look(self._counts())
        if failure is not None:
            raise failure

    def _counts(self) -> list[object]:
        """For the watch."""
        made = [
            tuple((actor.steps, actor.plies, actor.evaluations, actor.live) for actor in actors)
            for actors in self._actors
        ]
        return [count if one.is_alive() else None for one, count in zip(self._threads, made, strict=True)]

    def _next(self, seconds: float) -> object:
        """What a thread sent: a finished game, an exception, None as its last word; NOTHING if all stay silent."""
        try:
            return self._arrived.get(timeout=max(0.0, min(seconds, SHOWN_EVERY)))
        except queue.Empty:
            return NOTHING

    def _take(self, arrival: _Arrival) -> None:
        game, finished = arrival
        self._tally.add(finished)
        self._committer.add(finished, game, *self._begun.pop(finished.record.game_id))

    def _show_speed(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOWN_EVERY:
            self._shown, seconds = now, now - self._started
            plies = sum(actor.plies for actors in self._actors for actor in actors)
            speed = f"{plies / seconds:,.0f} positions/s, {self._evaluations() / seconds:,.0f} evaluations/s"
            self._progress.describe(speed)

    def _evaluations(self) -> int:
        return sum(actor.evaluations for actors in self._actors for actor in actors)


def _resign_threshold(
    config: SelfplayConfig, game: AnyGame, continues: ShardMeta | None, progress: Progress
) -> tuple[float, dict[str, float]]:
    """The threshold to resign at, and how it was found: empty if it is the one given.

    continues: a shard of the run that this one goes on with. With the same seed it plays that run's games, so that
    run's threshold stays in force.
    """
    if config.resign_false_rate == 0:
        return config.resign_threshold, {}
    if config.seed is not None and continues is not None and (before := _effective(continues, config.seed)) is not None:
        progress.say(f"resigning at {before[0]:.3f}, as in the games of this run so far")
        return before
    games = newest_games(config.output_dir, game.spec)
    if len(games) < LEAST_GAMES:
        found = f"{len(games)} games that never resigned; wanted {LEAST_GAMES}"
        progress.say(f"{found}; the threshold is --resign-threshold ({config.resign_threshold})")
        return config.resign_threshold, {}
    best = resignation.calibrate(games, config.resign_false_rate, config.resign_lowest, config.resign_highest)
    rule = "nobody resigns" if best.threshold == resignation.NEVER else f"resigning at {best.threshold:.3f}"
    progress.say(
        f"{rule}: in {best.games} games that never resigned {best.wrong} of "
        f"{best.resignations} resignations at {max(best.threshold, config.resign_lowest):.3f} would have been wrong, "
        f"so at most {best.wrong_share_at_most:.1%} are"
    )
    measured = ("games", "resignations", "wrong", "wrong_share", "wrong_share_at_most")
    return best.threshold, {name: getattr(best, name) for name in measured}


def _effective(meta: ShardMeta, seed: int) -> tuple[float, dict[str, float]] | None:
    """The threshold that a shard's games were played with, and its calibration; None if it is of another seed."""
    try:
        provenance = read_shard(meta.path, meta).header.get("provenance", {})
    except FileError:
        return None
    threshold, calibration = provenance.get(resignation.EFFECTIVE), provenance.get("resign_calibration")
    if provenance.get("seed") != seed or not isinstance(threshold, int | float) or not isinstance(calibration, dict):
        return None
    return float(threshold), calibration


def _least_readouts(config: SelfplayConfig) -> int:
    """Of the searches that there are; a move without readouts is none."""
    kinds = [config.readouts]
    if config.full_search_fraction < 1 and config.cheap_readouts > 0:
        kinds.append(config.cheap_readouts)
    if config.decided_value < 1:
        kinds.append(config.decided_readouts)
    return min(kinds)


def refuse_other_game(preset: str, spec: str, network: Path) -> None:
    """Raise UsageError if the preset is made for another game (spec) than the network plays."""
    found = read_info(resolve_champion(network)).game
    if parse_game(spec).family != found:
        raise UsageError(
            f"preset {preset} is for {spec}, {network} plays {found}; choose another --preset, or a folder for {spec}"
        )


def _games_wanted(config: SelfplayConfig, generation: int, on_damage: Callable[[FileError], None]) -> int:
    """How many games to play. Sidecars that can't be read count for nothing; on_damage is told."""
    if not config.top_up:
        return config.games
    have = 0
    for meta in newest_shards(config.output_dir, on_damage):
        if meta.generation is None or meta.generation < generation:
            break
        have += meta.games
    return max(0, config.games - have)


def _describe(config: SelfplayConfig, game: AnyGame, finished: FinishedGame, progress: Progress) -> None:
    record = finished.record
    if config.verbose > 2:
        progress.say(game.diagram(finished.final_state))
    if config.verbose > 1:
        result = record.result_first_player
        winner = "first player" if result > 0 else "second player" if result < 0 else "nobody"
        named = f" a {name}" if (name := game.result_names.get(abs(result))) else ""
        met = "" if record.opponent is None else f", {('second', 'first')[record.learner]} player: {record.opponent}"
        ended = record.end.name.lower()
        progress.say(f"game {record.game_id:016x}: {len(record.moves)} plies, {winner} wins{named}, {ended}{met}")


def _summary(
    model: str,
    tally: _Tally,
    resign_threshold: float,
    calibration: dict[str, float] | None = None,
    evaluations: int = 0,
    seconds: float = 0.0,
    note: str = "",
) -> SelfplaySummary:
    def per_second(count: int) -> float:
        return count / seconds if seconds else 0.0

    met_itself_only = set(tally.opponents) <= {MIRROR}
    counts = vars(tally) | {"opponents": {} if met_itself_only else dict(sorted(tally.opponents.items()))}
    counts |= {"big_wins": {name: tally.big_wins[name] for name in tally.names.values()}}
    del counts["names"], counts["points"]
    return SelfplaySummary(
        **counts,
        points_per_game=tally.points / tally.games if tally.names and tally.games else None,
        model=model,
        average_length=tally.positions / tally.games if tally.games else 0.0,
        resign_threshold=resign_threshold,
        evaluations=evaluations,
        seconds=seconds,
        evaluations_per_second=per_second(evaluations),
        games_per_second=per_second(tally.games),
        calibration=calibration or {},
        note=note,
    )
