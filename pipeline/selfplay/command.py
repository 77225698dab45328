"""``selfplay``: a model plays itself or a mix of opponents; every finished game becomes training data.

Reads a model directory (or the best_model link) and writes shards under output_dir/$MODEL/$WORKER, where $MODEL is the
learner. One actor of the model's method plays in each thread; the calling thread commits finished games, in groups of
about commit_seconds. If the link is re-pointed while games run, the next game to start uses the new model and meets the
new model's predecessor. Ctrl-C loses only unfinished games.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.capabilities import AllBoards, family_of, komi_of, recalled, variant
from pipeline.games.contract import AnyGame
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.interrupts import held_back
from pipeline.machine import available_cores
from pipeline.methods import resignation
from pipeline.methods.method import FinishedGame
from pipeline.methods.named import method_named
from pipeline.phrases import counted, duration, percent, results
from pipeline.players.searching import leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.run.layout import games_folder
from pipeline.run.models import ModelInfo, home_of, newest_number, read_info, resolve_champion
from pipeline.run.shards import (
    BOTH,
    End,
    GameRecord,
    RunNumbers,
    ShardMeta,
    fitting,
    prepare_folder,
    read_shard,
    write_shard,
)
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import PlayedGames, alone, check_same_game, wait_for_games
from pipeline.selfplay.fair_komi import FairKomi
from pipeline.selfplay.numbering import Numbering, numbering
from pipeline.selfplay.opponents import MIRROR, parse_mix
from pipeline.selfplay.playing import GameThreads, ModelSource, Plan, PlayedGame, games_here
from pipeline.selfplay.points import Points
from pipeline.selfplay.variety import MOST_FAIR
from pipeline.tracking.options import FIELDS, check_packages
from pipeline.workers.processes import check_workers

if TYPE_CHECKING:
    from pipeline.selfplay.in_workers import DiskUpdates
    from pipeline.workers.worker_pool import RemotePool

MOST_GAMES = 10_000_000  # of a run, whose numbers are in memory
SHOWN_EVERY = 0.5  # seconds between two updates of the speed shown
FAIR_SETUPS = "fair_setups"  # key of a shard's provenance: see Variety, as the run began
FAIR_STEP = 2  # half points of komi by which new games' differs at least, so that workers aren't told after each game
NO_RESIGNATIONS = dict.fromkeys(
    ("resign_threshold", "resigned", "no_resign_games", "false_resignations", "would_be_resignations")
)
NOT_STORED = {"output_dir", "network", "verbose", "backend", "threads", "workers", "runner", *FIELDS}


@dataclass(frozen=True)
class SelfplaySummary:
    """What one self-play run did. Speeds are of the playing itself, without loading the model.

    resign_threshold and the fields about resignations are None if the method never resigns.

    opponents    name → games, and the model's own wins, draws and losses; also its points where a game may count more
                 than 1; empty if the model only met itself
    calibration  how the threshold was found in earlier games; empty if it was given. Shares of resignations that would
                 have been wrong: the measured one, and the upper end of its one-sided 95 % interval
    """

    model: str
    games: int = 0
    positions: int = 0
    shards: int = 0
    average_length: float = 0.0
    first_player_wins: int = 0
    draws: int = 0
    resigned: int | None = 0
    cut_short: int = 0  # games that the move limit ended
    settled: int = 0  # games that ended because nothing was left to decide
    dropped: int = 0  # games without a record, because the environment or an opponent failed
    resign_threshold: float | None = resignation.NEVER
    no_resign_games: int | None = 0  # of the model against itself, as in the next two
    false_resignations: int | None = 0  # no-resign games whose first would-be resigner did not lose
    would_be_resignations: int | None = 0
    evaluations: int = 0  # of the model's, not of its opponents'
    seconds: float = 0.0
    evaluations_per_second: float = 0.0
    games_per_second: float = 0.0
    opponents: dict[str, dict[str, float]] = field(default_factory=dict)
    calibration: dict[str, float] = field(default_factory=dict)
    note: str = ""
    points_per_game: float | None = None  # the first player's; None for games that always count 1
    big_wins: dict[str, int] = field(default_factory=dict)  # name → games that counted more than 1

    def lines(self) -> list[str]:
        """The short form."""
        if self.note:
            return [f"{self.model} {self.note}: nothing to play"]
        games = counted(self.games, "game")
        speed = self.positions / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.model} played {games} in {duration(self.seconds)}: "
            f"{counted(self.positions, 'position')}, {self.average_length:.1f} plies a game",
            f"{speed:,.0f} positions/s, {self.evaluations_per_second:,.0f} evaluations/s, "
            f"{self.games_per_second:,.2f} games/s",
            self._first_player(),
        ]
        if self.cut_short:
            lines.append(f"{self.cut_short:,} of {games} reached the move limit; their score isn't learned")
        if self.settled:
            lines.append(f"{self.settled:,} of {games} ended with nothing left to decide")
        if self.dropped:
            what = counted(self.dropped, "further game")
            lines.append(f"{what} counted for nobody: the environment or an opponent failed")
        if self.resign_threshold is not None and self.resign_threshold > resignation.NEVER:
            lines.append(
                f"{self.resigned:,} of {games} resigned, at a value below {self.resign_threshold:.2f}; "
                f"{self.false_resignations:,} of {self.would_be_resignations:,} would have been wrong in "
                f"{counted(self.no_resign_games or 0, 'game')} that were played on"
            )
        for name, met in self.opponents.items():
            line = f"against {name}: {counted(int(met['games']), 'game')}"
            if "wins" in met:
                line += f": {results(*(int(met[one]) for one in ('wins', 'draws', 'losses')))}"
            if "points" in met:
                line += f", {met['points'] / met['games']:+.2f} points a game"
            lines.append(line)
        return lines

    def _first_player(self) -> str:
        scored = (self.first_player_wins + self.draws / 2) / max(1, self.games)
        if self.points_per_game is None:
            return f"the first player scored {percent(scored)} of the points"
        kinds = "".join(f", {percent(count / self.games)} {name}s" for name, count in self.big_wins.items())
        return f"the first player won {percent(scored)} and {self.points_per_game:+.2f} points a game{kinds}"


class _Tally:
    """Counts over finished games. counts: by field of the summary; points: the first player's."""

    def __init__(self, result_names: Mapping[float, str]) -> None:
        """result_names: AnyGame.result_names."""
        self.counts: Counter[str] = Counter()
        self.points = 0.0
        self.big_wins = dict.fromkeys(result_names.values(), 0)
        self.opponents: dict[str, dict[str, float]] = {}
        self._names = result_names

    def add(self, finished: FinishedGame) -> None:
        record, counts = finished.record, self.counts
        result = record.result_first_player
        counts["games"] += 1
        counts["positions"] += len(record.moves)
        counts["first_player_wins"] += result > 0
        counts["draws"] += result == 0
        counts["resigned"] += record.end == End.RESIGNED
        counts["cut_short"] += record.end == End.MOVE_LIMIT
        counts["settled"] += record.end == End.SETTLED
        self.points += result
        if (name := self._names.get(abs(result))) is not None:
            self.big_wins[name] += 1
        if record.opponent is None:
            self.opponents.setdefault(MIRROR, {"games": 0})["games"] += 1
        else:
            self._add_opponent(record.opponent, record.result_of(record.learner))
        if record.learner == BOTH:
            counts["no_resign_games"] += record.no_resign
            if finished.would_have_resigned >= 0:
                counts["would_be_resignations"] += 1
                counts["false_resignations"] += record.result_of(finished.would_have_resigned) >= 0

    def _add_opponent(self, name: str, result: float) -> None:
        """result: the learner's."""
        met = self.opponents.setdefault(name, {"games": 0, "wins": 0, "draws": 0, "losses": 0})
        met["games"] += 1
        met["wins" if result > 0 else "losses" if result < 0 else "draws"] += 1
        if self._names:
            met["points"] = met.get("points", 0.0) + result

    def summary(self, model: str, evaluations: int = 0, seconds: float = 0.0, **more: Any) -> SelfplaySummary:
        games = self.counts["games"]
        more = {**self.counts, **more}
        return SelfplaySummary(
            model,
            average_length=self.counts["positions"] / games if games else 0.0,
            evaluations=evaluations,
            seconds=seconds,
            evaluations_per_second=evaluations / seconds if seconds else 0.0,
            games_per_second=games / seconds if seconds else 0.0,
            opponents=dict(sorted(self.opponents.items())) if set(self.opponents) != {MIRROR} else {},
            points_per_game=self.points / games if self._names and games else None,
            big_wins=self.big_wins,
            **more,
        )


def selfplay(config: SelfplayConfig, progress: Progress = SILENT) -> SelfplaySummary:
    """Play config.games games and commit them. See the module docstring.

    Raises NotYet if another process plays as the same worker, UsageError for options that contradict each other or that
    can't be used in this game, FileError for a model that can't be loaded (random play never replaces it) or a
    directory that can't be written or holds games of another board, MuGoError for a cluster that can't be used; after
    committing what was finished, KeyboardInterrupt, any error of an actor, and Hung for one that hangs.
    """
    check_options(config)
    network = resolve_champion(config.network)
    if config.wait:
        wait_for_games(config, newest_number(home_of(config.network, network)), progress)
        return _nothing_to_play(config, network)
    with alone(config):
        return play(config, progress, PlayedGames(config.output_dir, progress))


def check_options(config: SelfplayConfig) -> None:
    """Raises UsageError for options that no model could play with."""
    if config.resign_lowest > config.resign_highest:
        raise UsageError(
            f"selfplay --resign-lowest: {config.resign_lowest} is above --resign-highest ({config.resign_highest}); "
            "swap them"
        )
    if config.resign_false_rate and not config.no_resign_fraction:
        raise UsageError(
            f"selfplay --resign-false-rate {config.resign_false_rate}: it is measured in games that never resign; "
            "wanted --no-resign-fraction above 0"
        )
    if config.games > MOST_GAMES:
        raise UsageError(
            f"selfplay --games {config.games}: wanted at most {MOST_GAMES:,}, or --background, which plays on until "
            "stopped"
        )
    if config.algorithm != "puct":
        for name in ("forced_playouts", "noise_shape"):
            if getattr(config, name):
                raise UsageError(
                    f"selfplay --{name.replace('_', '-')}: it is PUCT's, and with --algorithm {config.algorithm} the "
                    "moves that explore are searched by Gumbel's rule; leave one of them out"
                )
    parse_mix(config.opponents)
    check_workers(config.runner, config.workers)
    check_packages("selfplay", config.track)


def play(
    config: SelfplayConfig, progress: Progress, played: PlayedGames, ended: Callable[[], bool] = lambda: False
) -> SelfplaySummary:
    """As selfplay(), while this process is the only one that plays as this worker.

    ended: called again and again; True ends the run, and unfinished games are lost.
    """
    network = resolve_champion(config.network)
    generation = newest_number(home_of(config.network, network))
    played.check_lead(config, generation)
    num_games = played.missing(config, generation) if config.top_up else config.games
    if num_games == 0:
        return _nothing_to_play(config, network)
    games = numbering(config.output_dir, config.worker, generation, num_games, played.on_damage)
    workers = min(config.workers, num_games, config.parallel_games)
    with ExitStack() as held:
        info = read_info(network)
        keeps = config.resign_false_rate or config.fair_komi_fraction  # what the run that it continues has found
        continued = _provenance(games.continues, config.seed) if keeps else {}
        plan, calibration = _make_plan(config, info, games, continued, workers, config.runner == "ray", progress)
        fair = FairKomi(plan.variety.games) if config.fair_komi_fraction else None
        if fair is not None:
            _make_fair(fair, plan, continued, progress)
        cluster = None
        if config.runner == "ray":
            from pipeline.workers.cluster import Cluster

            cluster = held.enter_context(Cluster(progress))
        prepare_folder(config.output_dir, info.name, config.worker, games.run.since)
        pool: GameThreads | RemotePool[PlayedGame, Any]
        source: ModelSource | DiskUpdates
        if cluster is None and not workers:
            pool, source = games_here(plan, progress)
        else:
            from pipeline.selfplay.in_workers import games_in_workers

            pool, source = games_in_workers(plan, workers, cluster, progress)

        def evaluations() -> int:
            return pool.counts().totals.get("evaluations", 0)

        threshold = plan.config.resign_threshold
        provenance = {
            "seed": plan.config.seed,
            resignation.RESIGN_THRESHOLD: threshold,
            "resign_calibration": calibration,
            **({} if fair is None else {FAIR_SETUPS: plan.variety.fair_setups}),
            "config": config.stored({*NOT_STORED, *plan.method.unread(config)}),
        }
        committer = Committer(plan, provenance, evaluations, games.run)
        tally = _Tally(plan.game.result_names)
        points = held.enter_context(Points(plan, pool.counts, lambda: committer.num_waiting, progress))
        # In the background it follows the games as they end; else a run that goes on after a kill plays the same games.
        following = fair if config.background else None
        seconds = _Session(pool, committer, tally, points, progress, following).play(games.numbers, ended)
        tally.counts["shards"] = committer.shards
        about: dict[str, Any] = {"resign_threshold": threshold, "calibration": calibration}
        if not plan.method.resigns:
            about |= NO_RESIGNATIONS
        return tally.summary(source.name, evaluations(), seconds, **about)


def _nothing_to_play(config: SelfplayConfig, network: Path) -> SelfplaySummary:
    note = f"has its {config.games} games"
    about: dict[str, Any] = {"resign_threshold": config.resign_threshold}
    if not method_named(read_info(network).method).resigns:
        about |= NO_RESIGNATIONS
    return SelfplaySummary(network.name, note=note, **about)


def _make_plan(
    config: SelfplayConfig,
    model: ModelInfo,
    games: Numbering,
    continued: Mapping[str, Any],
    workers: int,
    on_cluster: bool,
    progress: Progress,
) -> tuple[Plan, dict[str, float]]:
    """The plan of a run, and how its resignation threshold was found; see _resign_threshold.

    continued: see _provenance; workers: processes; 0: this one. Raises as selfplay() for a game that can't be played
    like this or into this folder.
    """
    game, method = parse_game(model.game), method_named(model.method)
    method.check(game)
    method.check_options("selfplay", config)
    if config.end_settled and not game.can_settle:
        raise UsageError(
            f"selfplay --end-settled: {game.spec} is played to its end, or decided by chance; leave it out"
        )
    if config.pass_after and game.pass_action is None:
        raise UsageError(f"selfplay --pass-after: nobody passes in {game.spec}; leave it out")
    processes, most_threads = max(1, workers), config.threads or (1 if on_cluster else available_cores())

    def shared(num_games: int) -> tuple[int, int]:
        """(threads of each process, games in parallel of each thread)"""
        together = min(config.parallel_games, num_games)
        threads = max(1, min(most_threads // processes, -(-together // processes)))
        return threads, -(-together // (threads * processes))

    threads, rows = shared(len(games.numbers))
    # As for the whole run, so that the games that are missing after a kill are those that it would have played.
    leaves = leaves_per_tree(shared(max(config.games, len(games.numbers)))[1], min(config.readouts_of_searches()))
    seed = config.seed
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    plan = Plan(config, game, method, threads, rows, leaves)
    check_same_game(config.output_dir, game.spec)
    threshold, calibration = (
        _resign_threshold(config, game, continued, progress) if method.resigns else (resignation.NEVER, {})
    )
    plan.config = config.model_copy(update={"seed": seed, "resign_threshold": threshold})
    return plan, calibration


class _Kind(NamedTuple):
    """What the games of a shard have in common. spec: of their game."""

    generation: int
    model: str
    spec: str


class Committer:
    """Collects finished games and writes them as shards every commit_seconds (0: each game at once).

    A shard's games are of one generation, of one model and on one board. shards: how many were written
    """

    def __init__(self, plan: Plan, provenance: dict[str, Any], evaluations: Callable[[], int], run: RunNumbers) -> None:
        """evaluations: returns the number of the network's so far; each sidecar has those since the one before."""
        self.plan, self._provenance, self._evaluations, self._run = plan, provenance, evaluations, run
        self.shards = 0
        self._counted = 0  # evaluations that a sidecar has
        self._waiting: dict[_Kind, list[tuple[int, GameRecord]]] = defaultdict(list)
        self._since = 0.0  # when the oldest waiting game came

    def add(self, played: PlayedGame) -> None:
        """Games that a model took over are of that model's generation."""
        assert played.finished is not None
        if not self._waiting:
            self._since = time.monotonic()
        model = played.finished.player
        kind = _Kind(games_folder(model, played.generation).generation, model, played.game.spec)
        self._waiting[kind].append((played.number, played.finished.record))

    @property
    def num_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def due_in(self) -> float:
        """Seconds until the oldest waiting game must be committed."""
        return self._since + self.plan.config.commit_seconds - time.monotonic() if self._waiting else float("inf")

    def commit(self) -> None:
        """Write what waits. If writing fails, the games that aren't written still wait, and the error is raised.

        An interrupt comes between two shards: games are written and wait no longer, or neither.
        """
        for kind, games in sorted(self._waiting.items()):
            while games:
                with held_back():
                    del games[: self._write(kind, games)]
                    if not games:
                        del self._waiting[kind]

    def _write(self, kind: _Kind, games: list[tuple[int, GameRecord]]) -> int:
        """Write the first of the games as a shard; returns how many."""
        evaluations = self._evaluations()
        (board,) = (one for one in self.plan.variety.games if one.spec == kind.spec)
        recorded = self.plan.method.recorded(board)
        records = [record for _, record in games]
        new = max(0, evaluations - self._counted)  # workers' messages can overtake each other
        count = fitting(records, recorded) if self.plan.config.commit_seconds > 0 else 1
        write_shard(
            self.plan.config.output_dir,
            kind.model,
            self.plan.config.worker,
            kind.spec,
            records[:count],
            {"generation": kind.generation, **self._provenance},
            method=self.plan.method.name,
            recorded=recorded,
            max_result=board.max_result,
            evaluations=new,
            numbers=[number for number, _ in games[:count]],
            run=self._run,
        )
        self._counted += new
        self.shards += 1
        return count


class _Session:
    """Plays games with a pool; the calling thread commits those that have ended."""

    def __init__(
        self,
        pool: GameThreads | RemotePool[PlayedGame, Any],
        committer: Committer,
        tally: _Tally,
        points: Points,
        progress: Progress,
        fair: FairKomi | None = None,
    ) -> None:
        """fair: which komi the games that begin are to have, as others end; None: it stays."""
        self._pool, self._committer, self._tally, self._progress = pool, committer, tally, progress
        self._points, self._fair = points, fair
        self._waiting: deque[PlayedGame] = deque()  # to be committed
        self._started = self._shown = time.monotonic()
        self._total = self._left = 0  # games to be played; those that haven't come back

    def play(self, numbers: Sequence[int], ended: Callable[[], bool]) -> float:
        """Play and commit these games, or those that have finished when the run is ended; returns the seconds."""
        self._started = time.monotonic()
        self._total = self._left = len(numbers)
        self._progress.start("selfplay", self._total, "games")
        self._progress.left(None)
        try:
            self._pool.give(numbers)
            self._take_games(ended)
        finally:
            try:
                self._pool.close()
            finally:
                while left := self._pool.outcomes(0.0):  # after an interrupt: what was finished still counts
                    self._waiting.extend(left)
                while self._waiting:
                    self._take(self._waiting.popleft())
                self._committer.commit()
                self._progress.finish()
        return time.monotonic() - self._started

    def _take_games(self, ended: Callable[[], bool]) -> None:
        """Commit games as they end until all have, or the run is ended. Raises what the pool raises."""
        while self._left and not ended():
            if not self._waiting:
                self._waiting.extend(self._pool.outcomes(max(0.0, min(self._committer.due_in(), SHOWN_EVERY))))
            if self._waiting:
                played = self._waiting.popleft()
                self._left -= 1
                self._take(played)
                if played.finished is not None:
                    self._progress.advance()
                    self._describe(played.game, played.finished)
            if self._committer.due_in() <= 0:
                self._points.update()  # before: it counts the games to commit
                self._committer.commit()
            self._show_speed()

    def _take(self, played: PlayedGame) -> None:
        if played.finished is None:
            self._tally.counts["dropped"] += 1
        else:
            self._tally.add(played.finished)
            self._points.add(played.finished)
            self._committer.add(played)
            if self._fair is not None:
                self._fair.add(played.game, played.finished.record, played.finished.final_state[None])
                now, variety = self._fair.setups(), self._committer.plan.variety
                if any(abs(setup - variety.fair_setups[spec]) >= FAIR_STEP for spec, setup in now.items()):
                    variety.fair_setups = now

    def _show_speed(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOWN_EVERY:
            self._shown, seconds = now, now - self._started
            counts, tally = self._pool.counts(), self._tally.counts
            plies, evaluations = counts.totals.get("plies", 0), counts.totals.get("evaluations", 0)
            games, positions, recorded = tally["games"], tally["positions"], self._total - tally["dropped"]
            left = plies_left(recorded, games, positions, sum(counts.live), plies)
            self._progress.left(None if left is None else left * seconds / plies)
            self._progress.describe(f"{plies / seconds:,.0f} positions/s, {evaluations / seconds:,.0f} evaluations/s")

    def _describe(self, game: AnyGame, finished: FinishedGame) -> None:
        record = finished.record
        if self._committer.plan.config.verbose > 2:
            self._progress.say(_last_board(game, finished))
        if self._committer.plan.config.verbose > 1:
            result = record.result_first_player
            winner = "first player" if result > 0 else "second player" if result < 0 else "nobody"
            named = f" a {name}" if (name := game.result_names.get(abs(result))) else ""
            line = f"game {record.game_id:016x}: {len(record.moves)} plies, {winner} wins{named}"
            met = f", {('second', 'first')[record.learner]} player: {record.opponent}" if record.opponent else ""
            self._progress.say(f"{line}, {record.end.name.lower()}{met}")


def _last_board(game: AnyGame, finished: FinishedGame) -> str:
    """The final position for people."""
    record, state = finished.record, finished.final_state
    if record.said:  # a state has texts by numbers, which may be another process's
        try:
            *_, last = replay_one(game, recalled(game, record.moves.tolist(), record.said))
        except IllegalMove as error:
            return f"no position is shown: {error}"
        state = last[0]
    return game.diagram(state)


def plies_left(total: int, ended: int, positions: int, live: int, plies: int) -> float | None:
    """About how many plies the rest of a run has; None: not known yet, as short games end first.

    total: games of the run; ended, positions: games that have ended, and their positions; live: games in progress;
    plies: of all games so far.
    """
    if not ended or 2 * ended < live:
        return None
    length, begun = positions / ended, plies - positions
    if ended <= live:  # those that play on will be longer
        length = max(length, begun / live)
    left = (total - ended - live) * length + max(0.0, live * length - begun)
    return left if left > 0 else None


def _resign_threshold(
    config: SelfplayConfig, game: AnyGame, continued: Mapping[str, Any], progress: Progress
) -> tuple[float, dict[str, float]]:
    """The threshold to resign at, and how it was found; empty if it is the one given.

    continued: see _provenance; that run's threshold stays in force.
    """
    if config.resign_false_rate == 0:
        return config.resign_threshold, {}
    before, its = continued.get(resignation.RESIGN_THRESHOLD), continued.get("resign_calibration")
    if isinstance(before, int | float) and isinstance(its, dict):
        progress.say(f"resigning at {before:.3f}, as in the games of this run so far")
        return float(before), its
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


def _make_fair(fair: FairKomi, plan: Plan, continued: Mapping[str, Any], progress: Progress) -> None:
    """Set the plan's fair_setups: by the newest games, or those of the run that this one continues, see _provenance."""
    variety, before = plan.variety, continued.get(FAIR_SETUPS, {})
    if before.keys() == {game.spec for game in variety.games} and not plan.config.background:
        variety.fair_setups = before
    else:
        fair.read(plan.config.output_dir)
        variety.fair_setups = fair.setups()
    komis = []
    for game in variety.games:
        assert isinstance(game, AllBoards)  # or its networks see no komi
        setup = variety.fair_setups[game.spec]
        most = ", the most," if abs(setup) == MOST_FAIR else ""
        komis.append(f"{komi_of(variant(game, setup)):g}{most} on {'x'.join(map(str, game.board_shape))}")
    since = ", as in the games of this run so far" if variety.fair_setups is before else ""
    progress.say(f"komi that makes games even: {', '.join(komis)}{since}")


def _provenance(continues: ShardMeta | None, seed: int | None) -> Mapping[str, Any]:
    """What a run with this seed continues: the provenance of a shard of it. Empty if it continues none."""
    if continues is None or seed is None:
        return {}
    try:
        found: dict[str, Any] = read_shard(continues.path, continues).header["provenance"]
    except FileError:
        return {}
    return found if found.get("seed") == seed else {}


def refuse_other_game(preset: str, spec: str, network: Path) -> None:
    """Raise UsageError if the preset is made for another game (spec) than the network plays."""
    found = read_info(resolve_champion(network)).game
    if family_of(parse_game(spec)) != found:
        raise UsageError(
            f"preset {preset} is for {spec}, {network} plays {found}; choose another --preset, or a folder for {spec}"
        )
