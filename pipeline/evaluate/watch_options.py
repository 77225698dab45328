"""The options of ``evaluate --watch``: the strategies that evaluate new models, and their schedules.

    single      one opponent: the champion before the model, any player, or one that a mode of the pool chooses
    benchmark   a fixed set of players, so that results compare over a whole run
    ladder      the pool and the benchmark set by rating: up after at least half of the points, down otherwise
    tournament  every member of the pool

A strategy's *schedule*: it is due for models whose number is a multiple of N, at least M minutes after the last model
that it was due for. N and M may change during a run (schedules.py).
"""

from __future__ import annotations

from pydantic import Field

from pipeline.options import Options

SINGLE, BENCHMARK, LADDER, TOURNAMENT = STRATEGIES = ("single", "benchmark", "ladder", "tournament")
CHAMPION = "champion"  # as the single opponent
POOL = "pool:"


def _games(default: int, against: str) -> int:
    about = f"--watch: games against {against}; 0 = strategy off; odd numbers are rounded up."
    return Field(default, ge=0, description=about)  # type: ignore[no-any-return]


def _every(default: int, strategy: str) -> int:
    about = f"--watch, {strategy}: only models whose number is a multiple of this."
    return Field(default, ge=1, description=about)  # type: ignore[no-any-return]


def _minutes(strategy: str) -> float:
    about = f"--watch, {strategy}: only models made at least this many minutes after the last one that it was due for."
    return Field(0.0, ge=0, description=about)  # type: ignore[no-any-return]


class WatchOptions(Options):
    """See the module docstring."""

    panel = "Evaluating every new model (--watch)"

    watch: bool = Field(
        False,
        description="Evaluate every new model in the folder of --black-model, at the lowest priority, by the "
        "strategies single, benchmark, ladder and tournament. Promotes no model.",
    )
    once: bool = Field(False, description="--watch: stop when no model is left to evaluate; exit 75 if none was.")
    single: str = Field(
        CHAMPION,
        description="--watch: the single opponent: champion (the newest older champion), pool:MODE as in "
        "selfplay --opponents, or any player.",
    )
    single_games: int = _games(40, "the single opponent")
    single_every: int = _every(1, SINGLE)
    single_minutes: float = _minutes(SINGLE)
    benchmark: list[str] = Field(
        ["random", "heuristic"], description="--watch: a player of the benchmark set; may be given several times."
    )
    benchmark_games: int = _games(20, "each player of the benchmark set")
    benchmark_every: int = _every(1, BENCHMARK)
    benchmark_minutes: float = _minutes(BENCHMARK)
    ladder_games: int = _games(20, "each player of the ladder that it plays")
    ladder_every: int = _every(1, LADDER)
    ladder_minutes: float = _minutes(LADDER)
    tournament_games: int = _games(20, "every member of the pool")
    tournament_every: int = _every(5, TOURNAMENT)
    tournament_minutes: float = _minutes(TOURNAMENT)

    def games_of(self, strategy: str) -> int:
        """Games against each opponent; even."""
        games: int = getattr(self, f"{strategy}_games")
        return games + games % 2
