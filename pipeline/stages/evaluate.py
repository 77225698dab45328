"""``evaluate``: the newest model plays the champion, and takes its place if it wins enough.

Reads two model directories; writes a match folder and, after a win, best_model. Finished games count: a killed match
goes on where it stood and comes to the verdict it would have come to. It stops as soon as the games left can't change
the verdict, so rates are those of the games played, of which the short ones finish first.

White is the challenger, black the champion, whatever colour each has in a game.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipeline.arena import statistics
from pipeline.arena.match import MatchSettings, Sides, make_openings, play_match
from pipeline.arena.statistics import Score
from pipeline.config import EvaluateConfig
from pipeline.errors import FileError, NotYet, UsageError
from pipeline.games.base import Game
from pipeline.games.registry import parse_game
from pipeline.progress import SILENT, Progress
from pipeline.records import atomic, layout
from pipeline.records.matches import (
    MatchGame,
    MatchHeader,
    MatchWriter,
    has_match,
    list_matches,
    match_lock,
    open_match,
    read_summary,
    verify_games,
    write_summary,
)
from pipeline.records.models import Model, check_game, list_models, read_model, resolve_champion, set_champion
from pipeline.records.sgf import SgfText, game_sgf, has_sgf, sgf_name
from pipeline.stages.lanes import lanes_and_rows, load_evaluators

POWER_ELO = 35.0  # the gain whose chance of passing the summary states
PENDING = "promotion_pending"  # in summary.json: the verdict is in, best_model may not be re-pointed yet


@dataclass(frozen=True)
class Results:
    """Games of one colour."""

    wins: int
    draws: int
    losses: int


@dataclass(frozen=True)
class EvaluateSummary:
    """A match and what followed from it. Wins, losses, shares and Elo are the challenger's; None: not bounded.

    share: points per game, a draw counting 1/2. tail_probability: that an equal model does so well in these games;
    false_promotion: that an equal model passes the gate; power_35_elo: that one 35 Elo stronger does.
    duplicates: games whose moves repeat those of another.
    """

    challenger: str
    champion: str
    game: str
    games: int
    games_played: int
    wins: int
    losses: int
    draws: int
    win_rate: float
    loss_rate: float
    draw_rate: float
    share: float
    share_low: float
    share_high: float
    average_length: float
    moving_first: Results
    moving_second: Results
    duplicates: int
    threshold: float
    wins_needed: int
    tail_probability: float
    false_promotion: float
    power_35_elo: float
    elo: float | None
    elo_low: float | None
    elo_high: float | None
    passed: bool
    promoted: bool
    reason: str
    match: str


def evaluate(config: EvaluateConfig, progress: Progress = SILENT) -> EvaluateSummary:
    """Play, or finish, a match, and promote the challenger if it passed. See the module docstring.

    Raises NotYet if there is no challenger, UsageError for an odd number of games or a model against itself, FileError
    for models that can't be loaded, that play different games, or a match begun with other settings; KeyboardInterrupt
    after recording what was finished.
    """
    if config.games % 2:
        raise UsageError(
            f"evaluate --games {config.games}: wanted an even number, so that each side begins half of them"
        )
    champion_path = resolve_champion(config.black_model)
    _settle(config, champion_path)
    challenger_path = _challenger(config, champion_path)
    champion, challenger = read_model(champion_path), read_model(challenger_path)
    check_game(challenger.info, champion.info.game, challenger_path)
    if challenger_path == champion_path:
        raise UsageError(f"evaluate --white-model {challenger_path}: it is the champion itself; wanted another model")
    game = parse_game(champion.info.game)
    if config.opening_plies >= game.max_plies:
        raise UsageError(
            f"evaluate --opening-plies {config.opening_plies}: games of {game.spec} end within {game.max_plies} plies; "
            "wanted fewer"
        )
    folder = config.output_dir / layout.match_name(challenger_path.name, champion_path.name)
    gate = statistics.gate_half_points(config.games, config.threshold)
    with match_lock(folder):
        writer = _play(config, game, challenger, champion, folder, gate, progress)
        games = sorted(writer.games.values(), key=lambda one: one.index)
        _write_sgfs(config, game, writer, games)
        summary = _summarise(config, writer.header, games, gate, folder)
        return _conclude(config, summary, challenger_path, champion_path, folder, progress)


# Choosing


def _challenger(config: EvaluateConfig, champion: Path) -> Path:
    """The model asked for, or the newest one that is newer than the champion and has no finished match with it."""
    if config.white_model is not None:
        return resolve_champion(config.white_model)
    models = config.black_model.parent
    ours = layout.parse_model_name(champion.name)
    newer = []
    for path in list_models(models):
        name = layout.parse_model_name(path.name)
        if name is not None and (ours is None or name.number > ours.number) and path.name != champion.name:
            newer.append(path)
    for path in reversed(newer):
        summary = read_summary(config.output_dir / layout.match_name(path.name, champion.name))
        if summary is None or summary.get(PENDING):
            return resolve_champion(path)
    found = f"newer ones: {len(newer)}, all have played it" if newer else "no model is newer"
    raise NotYet(
        f"evaluate: no new challenger for {champion.name} in {models} ({found}); 1 more model needed: run train first",
        1,
    )


# Playing


def _play(
    config: EvaluateConfig,
    game: Game,
    challenger: Model,
    champion: Model,
    folder: Path,
    gate: int,
    progress: Progress,
) -> MatchWriter:
    """The match as far as it must be played."""
    openings = None
    lanes: list[Sides] = []
    if not has_match(folder):
        # Openings come from the networks, and the match doesn't exist before it has its openings.
        lanes = _load(config, challenger, champion, config.games, progress)
        batch = lanes_and_rows(config, config.games)[1]
        openings = make_openings(game, lanes[0], config.games // 2, config.opening_plies, config.seed, batch)
    writer = open_match(folder, _header(config, challenger, champion, openings))
    verify_games(folder / layout.MATCH_GAMES, game, list(writer.games.values()))
    missing = writer.missing()
    score = _score(writer.games.values())
    if not missing or statistics.is_decided(score, config.games, gate):
        return writer
    known = f", {score.games} of them played before" if score.games else ""
    progress.say(f"{challenger.path.name} against the champion {champion.path.name}: {config.games} games{known}")
    if not lanes:
        lanes = _load(config, challenger, champion, len(missing), progress)
    settings = MatchSettings(config.search_config(), config.readouts, config.seed)

    def on_games(games: list[MatchGame]) -> bool:
        writer.add(games)
        progress.advance(len(games))
        so_far = _score(writer.games.values())
        progress.describe(f"{so_far.wins} won, {so_far.draws} drawn, {so_far.losses} lost")
        return not statistics.is_decided(so_far, config.games, gate)

    progress.start("evaluate", config.games, "games")
    try:
        progress.advance(score.games)
        rows = lanes_and_rows(config, len(missing))[1]
        play_match(game, lanes, settings, writer.header.openings, missing, rows, on_games)
    finally:
        progress.finish()
    return writer


def _load(
    config: EvaluateConfig, challenger: Model, champion: Model, num_games: int, progress: Progress
) -> list[Sides]:
    """Each lane's two evaluators, for num_games still to be played."""
    progress.say("loading both models; kernels and networks are compiled when this machine sees them first")
    lanes, rows = lanes_and_rows(config, num_games)
    both = [load_evaluators(model, rows, lanes, config.backend, progress) for model in (challenger, champion)]
    return list(zip(*both, strict=True))


def _header(
    config: EvaluateConfig, challenger: Model, champion: Model, openings: list[list[int]] | None
) -> MatchHeader:
    return MatchHeader(
        challenger=challenger.path.name,
        champion=champion.path.name,
        challenger_weights=challenger.info.files[layout.WEIGHTS].sha256,
        champion_weights=champion.info.files[layout.WEIGHTS].sha256,
        game=champion.info.game,
        games=config.games,
        threshold=config.threshold,
        settings={
            "readouts": config.readouts,
            "opening_plies": config.opening_plies,
            "seed": config.seed,
            **config.search_config().model_dump(),
        },
        openings=openings or [],
    )


# Concluding


def _score(games: Iterable[MatchGame]) -> Score:
    results = [game.challenger_result for game in games]
    return Score(results.count(1), results.count(0), results.count(-1))


def _of_colour(games: Sequence[MatchGame], challenger_player: int) -> Results:
    score = _score([game for game in games if game.challenger_player == challenger_player])
    return Results(score.wins, score.draws, score.losses)


def _summarise(
    config: EvaluateConfig, header: MatchHeader, games: Sequence[MatchGame], gate: int, folder: Path
) -> EvaluateSummary:
    score = _score(games)
    played = max(1, score.games)
    low, high = statistics.wilson_interval(score)
    elo_low, elo, elo_high = (value if math.isfinite(value) else None for value in statistics.elo_interval(score))
    needed = statistics.wins_needed(gate)
    passed = statistics.passes(score, gate)
    verdict = f"{score.half_points / 2:g} points of the {gate / 2:g} needed from {config.games} games"
    if score.games < config.games:
        verdict += f", decided after {score.games}"
    return EvaluateSummary(
        challenger=header.challenger,
        champion=header.champion,
        game=header.game,
        games=config.games,
        games_played=score.games,
        wins=score.wins,
        losses=score.losses,
        draws=score.draws,
        win_rate=score.wins / played,
        loss_rate=score.losses / played,
        draw_rate=score.draws / played,
        share=score.share,
        share_low=low,
        share_high=high,
        average_length=sum(game.length for game in games) / played,
        moving_first=_of_colour(games, 0),
        moving_second=_of_colour(games, 1),
        duplicates=len(games) - len({tuple(game.moves) for game in games}),
        threshold=statistics.derived_threshold(config.games) if config.threshold is None else config.threshold,
        wins_needed=needed,
        tail_probability=statistics.result_tail(score),
        false_promotion=statistics.false_promotion(config.games, gate),
        power_35_elo=statistics.power(config.games, gate, statistics.share_of_elo(POWER_ELO)),
        elo=elo,
        elo_low=elo_low,
        elo_high=elo_high,
        passed=passed,
        promoted=False,
        reason=verdict,
        match=str(folder),
    )


def _conclude(
    config: EvaluateConfig,
    summary: EvaluateSummary,
    challenger: Path,
    champion: Path,
    folder: Path,
    progress: Progress,
) -> EvaluateSummary:
    """Write the summary and promote. Killed in between, the next run finds the promotion pending and makes it."""
    if not summary.passed or not config.promote:
        outcome = "not promoted: --no-promote" if summary.passed else "not promoted"
        summary = _with_outcome(summary, False, outcome)
        write_summary(folder, asdict(summary))
        return summary
    write_summary(folder, {**asdict(summary), PENDING: True})
    saved_models = config.black_model.parent
    entry = {
        "by": "evaluate",
        "challenger": summary.challenger,
        "over": summary.champion,
        **{name: getattr(summary, name) for name in ("games", "games_played", "wins", "draws", "losses")},
        **{name: getattr(summary, name) for name in ("threshold", "wins_needed", "tail_probability", "match")},
    }
    # Its own lock, around the look and the change: two matches may end at the same time.
    with atomic.file_lock(saved_models / layout.PROMOTIONS):
        present = _present_champion(saved_models)
        promoted = present in (champion, challenger)
        if present == champion:
            set_champion(saved_models, challenger, entry)
    if promoted:
        summary = _with_outcome(summary, True, "promoted")
    else:
        who = present.name if present else "missing"
        summary = _with_outcome(
            summary, False, f"not promoted: {layout.CHAMPION} is {who} by now, the match was against {champion.name}"
        )
        progress.warn(summary.reason)
    write_summary(folder, asdict(summary))
    return summary


def _with_outcome(summary: EvaluateSummary, promoted: bool, outcome: str) -> EvaluateSummary:
    return replace(summary, promoted=promoted, reason=f"{summary.reason}; {outcome}")


def _present_champion(saved_models: Path) -> Path | None:
    try:
        return resolve_champion(saved_models / layout.CHAMPION)
    except FileError:
        return None


def _settle(config: EvaluateConfig, champion: Path) -> None:
    """Where a kill came between a promotion and the summary's last word, say it now."""
    for folder in list_matches(config.output_dir):
        parts = layout.parse_match_name(folder.name)
        if parts is not None and parts[0] == champion.name:
            summary = read_summary(folder)
            if summary is not None and summary.pop(PENDING, False):
                summary.update(promoted=True, reason=f"{summary['reason']}; promoted")
                write_summary(folder, summary)


def _write_sgfs(config: EvaluateConfig, game: Game, writer: MatchWriter, games: Sequence[MatchGame]) -> None:
    """A record of every new game, and of older ones that have none, where the game has a format for it."""
    if not has_sgf(game):
        return
    folder = writer.folder / layout.MATCH_SGF
    if config.sgf_output is not None:
        folder = config.sgf_output / writer.folder.name  # several matches may share the directory
    atomic.make_folder(folder)
    header = writer.header
    names = (header.challenger, header.champion)
    for one in games:
        path = folder / sgf_name(one.index)
        if path.exists() and one.index not in writer.added:
            continue
        black, white = names if one.challenger_player == 0 else reversed(names)
        comments = ["opening" if value is None else f"value {value:+.3f} to move" for value in one.values_to_move]
        text = SgfText(black, white, event=writer.folder.name, round=str(one.index), comment=f"end: {one.end}")
        atomic.write_text(path, game_sgf(game, one.moves, text, comments), folder_sync=False)
    atomic.sync_folder(folder)
