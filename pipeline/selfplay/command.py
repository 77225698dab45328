"""``selfplay``: a model plays itself or a mix of opponents; every finished game becomes training data.

Reads a model directory (or the best_model link) and writes shards under output_dir/$MODEL/$WORKER, where $MODEL is the
model that learns, whoever it met. One actor of the model's method plays in each thread; the calling thread commits what
they finish, in groups of about commit_seconds. When the network is a link that is re-pointed while games run, the next
game to start uses the new model and meets the new model's predecessor. Ctrl-C loses only unfinished games.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import FileError, UsageError
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.machine import available_cores
from pipeline.methods import resignation
from pipeline.methods.method import FinishedGame
from pipeline.phrases import counted, duration, percent, results
from pipeline.players.searching import leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.run.models import newest_number, read_info, resolve_champion
from pipeline.run.shards import BOTH, End, GameRecord, ShardMeta, prepare_folder, read_shard
from pipeline.selfplay.committing import Committer
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import Played, alone, check_lead, check_same_game, games_missing, wait_for_games
from pipeline.selfplay.numbering import Numbering, numbering
from pipeline.selfplay.opponents import MIRROR, Mix, parse_mix
from pipeline.selfplay.playing import Arrival, GamePool, LocalSource, Plan, Source
from pipeline.selfplay.variety import Variety
from pipeline.workers.processes import check_workers

if TYPE_CHECKING:
    from pipeline.workers.cluster import Cluster

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
    board, MuGoError for a cluster that can't be used; after committing what was finished, KeyboardInterrupt, whatever
    an actor raised, and Hung for one that hangs.
    """
    if config.resign_lowest > config.resign_highest:
        raise UsageError(
            f"selfplay --resign-lowest: {config.resign_lowest} is above --resign-highest ({config.resign_highest}); "
            "swap them"
        )
    parse_mix(config.opponents)
    network = resolve_champion(config.network)
    skip = told_once(progress)
    if config.wait:
        wait_for_games(config, newest_number(network.parent), skip, progress)
        return _nothing_to_play(config, network)
    with alone(config):
        return play(config, progress, skip)


def play(
    config: SelfplayConfig,
    progress: Progress,
    on_damage: Callable[[FileError], None],
    ended: Callable[[], bool] = lambda: False,
) -> SelfplaySummary:
    """The same for whoever is alone. ended: asked again and again; True ends the run, and unfinished games are lost."""
    check_workers(config.runner, config.workers)
    mix = parse_mix(config.opponents)
    network = resolve_champion(config.network)
    generation = newest_number(network.parent)
    played = Played(config.output_dir, on_damage)
    check_lead(config, generation, played)
    wanted = games_missing(config, generation, played) if config.top_up else config.games
    if wanted == 0:
        return _nothing_to_play(config, network)
    numbers = numbering(config.output_dir, config.worker, generation, wanted, on_damage)
    with ExitStack() as held:
        cluster = None
        if config.runner == "ray":
            from pipeline.workers.cluster import Cluster

            cluster = held.enter_context(Cluster(progress))
        return _Run(config, mix, numbers, progress, cluster).play(ended)


def told_once(progress: Progress) -> Callable[[FileError], None]:
    """What warns of a damaged file the first time."""
    told: set[str] = set()

    def tell(error: FileError) -> None:
        if str(error) not in told:
            progress.warn(f"not counted: {error}")
        told.add(str(error))

    return tell


def _nothing_to_play(config: SelfplayConfig, network: Path) -> SelfplaySummary:
    note = f"has its {config.games} games"
    return _summary(network.name, _Tally(), config.resign_threshold, note=note)


class _Run:
    """One run of so many games: a pool that plays them, and the calling thread, which commits what it finishes."""

    def __init__(
        self, config: SelfplayConfig, mix: Mix, numbers: Numbering, progress: Progress, cluster: Cluster | None
    ) -> None:
        """cluster: whose actors play; None: threads of this process."""
        self._config = config
        self._wanted = wanted = numbers.wanted
        self._progress = progress
        workers = min(config.workers, wanted)  # processes; 0: this one
        threads = config.threads or (1 if cluster else available_cores())
        num_threads = max(1, min(threads // max(1, workers), wanted))  # of each worker
        rows = -(-min(config.parallel_games, wanted) // (num_threads * max(1, workers)))  # of each thread at a time
        leaves = leaves_per_tree(rows, _least_readouts(config))
        if cluster is None and not workers:
            source: Source = LocalSource(config, mix, rows, leaves, num_threads, progress)
        else:
            remote = importlib.import_module("pipeline.selfplay.in_workers")
            pool = partial(remote.ProcessGames, workers) if cluster is None else partial(remote.ClusterGames, cluster)
            source = remote.RemoteSource(config, mix, progress, pool)
        self._source = source
        source.method.check_options("selfplay", config)
        if config.end_settled and not source.game.can_settle:
            raise UsageError(
                f"selfplay --end-settled: {source.game.spec} is played to its end, or decided by chance; leave it out"
            )
        if config.pass_after and source.game.pass_action is None:
            raise UsageError(f"selfplay --pass-after: nobody passes in {source.game.spec}; leave it out")
        variety = Variety.of(config, source.game)
        check_same_game(config.output_dir, source.game.spec)
        source.prepare()
        prepare_folder(config.output_dir, source.name, config.worker, numbers.run.since)
        self._threshold: float = resignation.NEVER
        self._calibration: dict[str, float] = {}
        if source.method.resigns:
            self._threshold, self._calibration = _resign_threshold(config, source.game, numbers.continues, progress)
        fresh = np.random.SeedSequence().generate_state(1, np.uint64)[0]
        seed = int(fresh) if config.seed is None else config.seed
        provenance = {
            "seed": seed,
            resignation.RESIGN_THRESHOLD: self._threshold,
            "resign_calibration": self._calibration,
            "config": config.stored({"output_dir", "network", "verbose", "backend", "threads", "workers", "runner"}),
        }
        self._committer = Committer(config, variety.games, source.method, provenance, self._evaluations, numbers.run)
        plan = Plan(config.model_copy(update={"resign_threshold": self._threshold}), seed, variety, rows, leaves)
        self._begin = partial(source.begin, plan, num_threads, numbers.of_thread)
        self._pool: GamePool | None = None
        self._waiting: deque[Arrival] = deque()  # finished games to be committed
        self._tally = _Tally(source.game.result_names)
        self._started = self._shown = time.monotonic()

    def play(self, ended: Callable[[], bool]) -> SelfplaySummary:
        progress, committer = self._progress, self._committer
        self._started = time.monotonic()
        progress.start("selfplay", self._wanted, "games")
        self._pool = pool = self._begin()
        try:
            self._take_games(pool, ended)
        finally:
            try:
                pool.close()
            finally:
                while left := pool.outcomes(0.0):  # after an interrupt: what was finished still counts
                    self._waiting.extend(left)
                while self._waiting:
                    self._take(self._waiting.popleft())
                committer.commit()
                progress.finish()
        self._tally.shards = committer.shards
        seconds = time.monotonic() - self._started
        return _summary(
            self._source.name, self._tally, self._threshold, self._calibration, self._evaluations(), seconds
        )

    def _take_games(self, pool: GamePool, ended: Callable[[], bool]) -> None:
        """Commit games as they end until all have, or the run is ended. Raises what the pool raises."""
        while (self._waiting or not pool.done) and not ended():
            if not self._waiting:
                self._waiting.extend(pool.outcomes(max(0.0, min(self._committer.due_in(), SHOWN_EVERY))))
            if self._waiting:
                arrival = self._waiting.popleft()
                self._take(arrival)
                self._progress.advance()
                _describe(self._config, arrival.game, arrival.finished, self._progress)
            if self._committer.due_in() <= 0:
                self._committer.commit()
            self._show_speed()

    def _take(self, arrival: Arrival) -> None:
        game, finished, generation, number = arrival
        self._tally.add(finished)
        self._committer.add(finished, game, generation, number)

    def _show_speed(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOWN_EVERY:
            self._shown, seconds = now, now - self._started
            plies, evaluations = self._counted("plies"), self._evaluations()
            self._progress.describe(f"{plies / seconds:,.0f} positions/s, {evaluations / seconds:,.0f} evaluations/s")

    def _evaluations(self) -> int:
        return self._counted("evaluations")

    def _counted(self, what: str) -> int:
        return 0 if self._pool is None else self._pool.counts().totals.get(what, 0)


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
    games = resignation.newest_games(config.output_dir, game.spec)
    if len(games) < resignation.MIN_GAMES:
        found = f"{len(games)} games that never resigned; wanted {resignation.MIN_GAMES}"
        progress.say(f"{found}; the threshold is --resign-threshold ({config.resign_threshold})")
        return config.resign_threshold, {}
    best = resignation.calibrate(games, config.resign_false_rate, config.resign_lowest, config.resign_highest)
    rule = "nobody resigns" if best.threshold == resignation.NEVER else f"resigning at {best.threshold:.3f}"
    progress.say(
        f"{rule}: in {best.games} games that never resigned {best.wrong_resignations} of "
        f"{best.resignations} resignations at {max(best.threshold, config.resign_lowest):.3f} would have been wrong, "
        f"so at most {best.wrong_share_at_most:.1%} are"
    )
    measured = ("games", "resignations", "wrong_resignations", "wrong_share", "wrong_share_at_most")
    return best.threshold, {name: getattr(best, name) for name in measured}


def _effective(meta: ShardMeta, seed: int) -> tuple[float, dict[str, float]] | None:
    """The threshold that a shard's games were played with, and its calibration; None if it is of another seed."""
    try:
        provenance = read_shard(meta.path, meta).header["provenance"]
    except FileError:
        return None
    threshold, calibration = provenance.get(resignation.RESIGN_THRESHOLD), provenance.get("resign_calibration")
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
