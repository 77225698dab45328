"""The settings of a run that depend on its game, its machine and its time, derived from a few measurements.

Everything else is the learning recipe (presets/recipe.yaml), which the derived preset extends. All functions are pure:
measuring.py measures, command.py stores the preset in the run's folder.

A *target* is a position searched in full, from which training learns the policy. A *step* of growth is a network size
and the share of the run's time at which it ends. Rates are per second, on all cores together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SMALL, LARGE, LARGER = "b2c32", "b4c64", "b6c64"
LARGER_RATE = 2 / 3  # evaluations of LARGER in the time of one of LARGE: six blocks instead of four
FULL_FRACTION = 0.33  # of moves that get a full search, as in the recipe
PLAY_SHARE, TRAIN_SHARE = 0.5, 1 / 3  # of a generation's time; the rest evaluates, gathers and starts commands
LEAST_SECONDS = 5.0  # of a generation: what commands cost before they do anything must stay a small part
AT_ONCE = 256  # games that selfplay plays at once where a preset doesn't say
LEAST_GAMES = 32  # per generation: fewer teach next to nothing
RESIGNED_LENGTH = 0.5  # of random games' length, in games where lost ones are resigned (9x9 Go: some 60 plies of 122)
LATE, LAST = 0.8, 0.99  # of the time: late gains are small, which 64 games rarely show; the last match comes at its end
MATCH_RATE = 1 / 3  # of self-play's: two networks share its batches, the last games end alone (docs/log, 2026-11-30)
LEAST_MATCH = 32  # games: fewer save little, as each of two threads pads its batches to 16 positions
LARGEST_REUSE = 8  # samples per target, as in KataGo; more would learn games by heart


@dataclass(frozen=True)
class Measurements:
    """What the derived settings depend on.

    game               canonical spec
    has_margins        whether results have a margin, so that the end of a decided game still teaches something
    actions            A, of the game in all
    moves              legal moves per position, on average over random games
    plies              of a random game, on average
    evaluations        positions of the bare network SMALL
    evaluations_large  the same of LARGE; None: not measured, since the run is too short for it
    simulations        of self-play with SMALL, rules and trees included
    samples            training samples of SMALL
    """

    game: str
    has_margins: bool
    actions: int
    moves: float
    plies: float
    evaluations: float
    evaluations_large: float | None
    simulations: float
    samples: float


def measuring_seconds(minutes: float) -> float:
    """For all measurements: a fortieth of the run, at most 15 s; loading networks takes as long again."""
    return min(15.0, 60 * minutes / 40)


def generation_seconds(minutes: float) -> float:
    """A fifteenth of the run, but 75 s from 19 minutes to two hours, as in the best presets, and 3 minutes in days.

    A generation learns from the one before, so many short ones beat few long ones; in a long run the network needs more
    games to improve at all.
    """
    return max(LEAST_SECONDS, min(4 * minutes, 75 * max(1.0, minutes / 120) ** 0.35, 180))


def growth(plies: float, evaluations: float, minutes: float, spent: float = 0.0) -> list[tuple[float, str]]:
    """The steps of growth.

    The small network is worth its speed while play is random: for some six million evaluations. A run without time for
    twice as many stays small, as does one of a game of a few plies. After two hours at the speed of two cores (300
    million) the middle size has learned what it can; it grows at 0.4 of the time left.

    spent: the share of the time that has passed before the first game
    """
    total = 60 * minutes * evaluations
    first = round(spent + max(0.05, 6e6 / total), 2)
    if plies < 12 or first > 0.5:
        return [(1, SMALL)]
    if total < 3e8:
        return [(first, SMALL), (1, LARGE)]
    return [(first, SMALL), (round(spent + 0.4 * (1 - spent), 2), LARGE), (1, LARGER)]


def readouts(games: float) -> int:
    """Of a full search in the end: where there are games enough (in all, at 48 readouts), better targets teach more.

    The best preset has 48, for 5,000 games in a quarter of an hour and 50,000 in two hours.
    """
    return 32 if games < 4_000 else 48 if games < 200_000 else 64


def per_move(full: int) -> float:
    """Simulations of an average move; a cheap search has a quarter of the readouts."""
    return FULL_FRACTION * full + (1 - FULL_FRACTION) * full / 4


def random_plies(games: float, moves: float, plies: float) -> int:
    """Enough for several times more openings than the run has games, but at most half of a game."""
    needed = 1.5 * math.log(max(games, 2)) / math.log(max(moves, 2))
    return max(1, min(round(needed), int(plies / 2)))


def match_readouts(generation: float) -> int:
    """Of the match of this generation's model, as the recipe has them."""
    return 16 if generation <= 2 else 4 if generation <= 5 else 2


def resigns(plies: float) -> bool:
    """Whether lost games are given up: where that saves much. The end of a short game costs little and teaches most."""
    return plies >= 40


def length(plies: float) -> float:
    """Plies of a game of self-play, guessed from random games."""
    return RESIGNED_LENGTH * plies if resigns(plies) else plies


def derive(found: Measurements, minutes: float, spent: float = 0.0) -> tuple[str, str]:
    """(the preset of a run of this length, as YAML; one line for people). shortest_minutes: how short it may be.

    spent: as in growth()
    """
    steps = growth(found.plies, found.evaluations, minutes, spent)
    simulations, samples = (_average(steps, rates) for rates in _rates(found))
    plies, run = length(found.plies), 60 * minutes
    full = readouts(PLAY_SHARE * run * simulations / (plies * per_move(48)))
    # Seconds of playing one game, of training on it as often as is useful, and of a generation for each of its games.
    to_play = plies * per_move(full) / simulations
    to_train = LARGEST_REUSE * FULL_FRACTION * plies / samples
    seconds = generation_seconds(minutes)
    if to_train / to_play <= TRAIN_SHARE / PLAY_SHARE:
        to_make = (to_play + to_train) / (PLAY_SHARE + TRAIN_SHARE)
    else:
        to_make = to_play / PLAY_SHARE
    games = max(LEAST_GAMES, _rounded(seconds / to_make))
    seconds = max(seconds, LEAST_GAMES * to_make)  # longer on a slow machine
    in_all = games * run / seconds
    targets = games * plies * FULL_FRACTION
    wanted = min(LARGEST_REUSE * targets, TRAIN_SHARE * seconds * samples)
    first = max(LEAST_GAMES // 2, _rounded(0.6 * games))
    first_targets = 0.9 * first * plies * FULL_FRACTION  # a twentieth of the games is held out
    chunk = 2 ** max(6, min(11, int(math.log2(first_targets / 3))))
    chunks = max(1, round(wanted / chunk))
    trained = chunks * chunk
    batch = 256 if trained >= 20_000 else 128
    steps_of_training = trained / batch
    epochs = max(1, min(3, int(wanted / first_targets)))
    window = max(_rounded(2.5 * games * plies), 4 * chunk)
    match_games, late, last = (
        _halved(most, share * seconds * MATCH_RATE * simulations / (plies * match_readouts(when * run / seconds)))
        for most, share, when in ((64, 0.1, LATE / 2), (256, 0.2, LATE), (512, 0.4, 1))
    )
    early = _halved(64, 0.2 * seconds * MATCH_RATE * found.simulations / (found.plies * match_readouts(1)))
    # After two generations, which may take longer than planned, but before the late ones.
    early_ends = round(max(0.01, min(spent + 2.3 * seconds / run, (spent + LATE) / 2, LATE - 0.01)), 2)
    matches = [(early_ends, early), (LATE, match_games), (LAST, late), (1, last)]
    matches = [one for one, after in itertools.pairwise([*matches, (1, 0)]) if one[1] != after[1]]
    opening = max(2, min(6, int(found.plies / 5)))
    sizes = ", ".join(size for _, size in steps)
    selfplay = [
        _line("games", [(1, first), (2, games)],
              f"per generation, about {_seconds(seconds)} each; random play teaches little"),
        *([_line("parallel_games", games, "no more than a generation has, so that they end soon")]
          if games < AT_ONCE else []),
        _line("readouts", [(2, max(24, round(full * 2 / 3))), (6, round(full * 5 / 6)), (7, full)],
              f"of a full search: the run has time for some {_rounded(in_all):,} games"),
        _line("cheap_readouts", [(2, full // 8), (6, round(full * 5 / 24)), (7, full // 4)],
              "of the other moves, which only carry the game on"),
        _line("random_plies", random_plies(in_all, found.moves, found.plies),
              f"at {found.moves:.0f} legal moves, several times as many openings as games"),
    ]  # fmt: skip
    if resigns(found.plies):
        selfplay += [
            _line("resign_threshold", -0.95, "a player this sure of losing at two moves resigns"),
            _line("no_resign_fraction", 0.25, "a quarter of the games are played to the end"),
        ]
        if found.has_margins:
            selfplay += [
                _line("decided_value", 0.95, "quickly, once one side is this sure of winning ..."),
                _line("decided_readouts", 8, "... with so many simulations per move"),
            ]
    gather = [
        _line("window_start", window, "two and a half generations; it grows from here"),
        _line("positions_per_chunk", chunk, "a third of the first generation's at most"),
        _line("chunks_to_make", chunks,
              f"{trained:,} samples, {trained / targets:.1f} per new target; a third of the time at most"),
    ]  # fmt: skip
    if 16 * window > 1_000_000:  # as large as the recipe's
        gather.append(_line("max_positions", 16 * window, "the largest window"))
    train = [
        _line("network_size", steps, "by the share of the time; 6,000,000 evaluations with the first", "until_share"),
        _line("epochs", [(3, epochs), (4, 1)], "while the window is small"),
        _line("batch_size", batch, f"{steps_of_training:.0f} steps in a generation"),
    ]
    if steps_of_training < 250:
        decay = round(max(0.9, 1 - 2 / steps_of_training), 3)
        train.append(_line("ema_decay", decay, "the model averages half of a generation's steps"))
    first_steps = epochs * min(first_targets, trained) / batch
    if first_steps < 100:
        train.append(_line("warmup_steps", max(5, int(first_steps / 2)), "half of the first generation"))
    evaluate = [
        _line("games", matches,
              "about a tenth of a generation's time; more at first, and when the gains are small", "until_share"),
        _line("opening_plies", opening, "varied openings, each played with both colours"),
    ]  # fmt: skip
    summary = f"{_facts(found)}: {games} games per generation (about {_seconds(seconds)}), {_growth_in_words(steps)}"
    text = [
        f"# {found.game}; needs --minutes {minutes:g}; gives a player ({sizes})",
        f"# Derived from {_facts(found)} ({SMALL}),",
        f"# {found.simulations:,.0f} simulations/s of self-play, {found.samples:,.0f} samples/s of training, "
        f"{found.moves:.0f} legal moves.",
        "# The loop keeps to this file: edit it as you like, or copy it for --preset.",
        "extends: recipe",
        *("", "init:", f"  game: {found.game}"),
        *("", "selfplay:", *selfplay),
        *("", "gather:", *gather),
        *("", "train:", *train),
        *("", "evaluate:", *evaluate),
    ]
    return "\n".join(text) + "\n", summary


def _halved(games: int, affordable: float) -> int:
    """Games of a match, halved until they are affordable, but at least LEAST_MATCH."""
    return games if games <= max(LEAST_MATCH, affordable) else _halved(games // 2, affordable)


def _line(option: str, value: Any, reason: str, clock: str = "until") -> str:
    """An option in the preset. value: of a schedule, its entries (until, value) in order; clock: their key."""
    if not isinstance(value, list):
        return f"{f'  {option}: {value}':<29} # {reason}"
    entries = [f"    - {{{clock}: {until}, value: {entry}}}" for until, entry in value]
    return "\n".join([f"{f'  {option}:':<29} # {reason}", *entries])


def shortest_minutes(found: Measurements) -> float:
    """How long a run must be for a generation."""
    play = length(found.plies) * per_move(32) / found.simulations
    return max(LEAST_SECONDS, LEAST_GAMES * play / PLAY_SHARE) / 60


def _rates(found: Measurements) -> tuple[dict[str, float], dict[str, float]]:
    """(simulations of self-play, samples of training), by network size.

    The rules and trees take the same time with each network. A training step is slower by as much as an evaluation.
    """
    large = min(found.evaluations_large or found.evaluations, found.evaluations)
    rates = {SMALL: found.evaluations, LARGE: large, LARGER: LARGER_RATE * large}
    simulations = {size: 1 / (1 / found.simulations + 1 / rate - 1 / rates[SMALL]) for size, rate in rates.items()}
    return simulations, {size: found.samples * rate / rates[SMALL] for size, rate in rates.items()}


def _average(steps: Sequence[tuple[float, str]], rates: dict[str, float]) -> float:
    """A rate over the run's time."""
    begins = [0.0, *(until for until, _ in steps)]
    return sum((until - begin) * rates[size] for begin, (until, size) in zip(begins, steps, strict=False))


def _rounded(number: float) -> int:
    """To two digits, as a person would choose it."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return int(round(number / unit) * unit)


def _facts(found: Measurements) -> str:
    rate = f"{_rounded(found.evaluations):,} evaluations/s"
    return f"games of {found.plies:.0f} plies, {found.actions} actions, {rate}"


def _growth_in_words(steps: Sequence[tuple[float, str]]) -> str:
    words = steps[0][1]
    for (until, _), (_, size) in itertools.pairwise(steps):
        words += f"{' growing' if words == steps[0][1] else ','} to {size} after {100 * until:.0f} % of the time"
    return words


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} minutes"
