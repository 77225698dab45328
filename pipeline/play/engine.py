"""``engine``: a model behind a protocol, for managers that run matches between programs.

Answers on standard output until the manager ends it or the input ends. Writes no files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from pipeline.errors import FileError, UsageError
from pipeline.games.capabilities import AnyPosition, seen_by
from pipeline.games.contract import AnyGame, Game
from pipeline.games.specs import DEFAULT_GAME, parse_game
from pipeline.methods.named import method_named
from pipeline.play.command_lines import CommandLines, accept_any_bytes
from pipeline.play.config import EngineConfig
from pipeline.play.findings import Findings
from pipeline.play.protocol import Manager, protocol_named, usual_protocol
from pipeline.play.session import SearchSession
from pipeline.players.loading import load_estimator, load_tree_evaluator, load_tree_margins
from pipeline.players.player import Player
from pipeline.players.searching import leaves_of_one_tree
from pipeline.progress import SILENT, Progress
from pipeline.run import layout
from pipeline.run.models import Model, check_champion, pretrained_models, read_info, read_model, resolve_champion


def engine(
    config: EngineConfig, progress: Progress = SILENT, commands: TextIO | None = None, answers: TextIO | None = None
) -> None:
    """Serve until the manager ends it. commands, answers: instead of standard input and output.

    Raises FileError for a model that can't be loaded, UsageError for an unknown protocol and for one that can't play
    the model's game.
    """
    accept_any_bytes()
    commands, answers = commands or sys.stdin, answers or sys.stdout
    asked = None if config.protocol is None else protocol_named(config.protocol)

    def fits(game: AnyGame) -> bool:
        return asked is None or (isinstance(game, Game) and asked.plays(game))

    model = read_model(resolve_to_play(config.model, fits))
    game = game_of(model, config)
    if asked is None or not asked.plays(game):
        usual = usual_protocol(game)
        if asked is not None:
            instead = f", or --protocol {usual}" if usual else ""
            found = f"engine --protocol {config.protocol}: {model.path} plays {game.title}"
            raise UsageError(f"{found}; wanted {asked.wanted}{instead}")
        if usual is None:
            raise UsageError(f"engine: {model.path} plays {game.title}, which no known protocol plays")
        asked = protocol_named(usual)
    progress.say(f"loading {config.model}; the first time on this machine, kernels and network are compiled")

    def write(text: str) -> None:
        answers.write(text)
        answers.flush()

    lines = CommandLines(commands, asked.longest_line)
    if commands is sys.stdin:
        lines.leave_on(asked.last_command)
    asked.run(model, config, Manager(lines, write), progress)


def resolve_to_play(path: Path, fits: Callable[[AnyGame], bool], otherwise: str = "") -> Path:
    """A model's real directory, like resolve_champion. Where there is no champion yet, the error says what to do.

    fits: whether another model may play this game; those of the usual game come first. otherwise: what to play if no
    model that comes with MuGo fits.
    """
    try:
        return resolve_champion(path)
    except FileError:
        if path != layout.CHAMPION_LINK or os.path.lexists(path):
            raise
        check_champion(path.parent)
    usual = parse_game(DEFAULT_GAME).board_title
    games = {model.name: game for model in pretrained_models() if (game := _game_of(model)) and fits(game)}
    fitting = [name for name, game in games.items() if game.board_title == usual] or games
    others = " or ".join(f"--model {layout.PRETRAINED}/{name}" for name in fitting) or otherwise
    play = f"play {others}, or " if others else ""
    raise FileError(path, f"no champion yet: {play}train one with `python main.py loop`")


def _game_of(model: Path) -> AnyGame | None:
    """A model's game; None if its family isn't there."""
    try:
        return parse_game(read_info(model).game)
    except UsageError:
        return None


def game_of(model: Model, config: EngineConfig) -> Any:
    """The game that the model is to play. Raises UsageError if it can't."""
    own = parse_game(model.info.game)
    if not isinstance(own, Game):
        raise UsageError(f"{model.path} plays {own.title}; wanted a board game without dice")
    if config.game is None:
        return own
    game = seen_by(own, parse_game(config.game))
    if game is None:
        raise UsageError(f"engine --game {config.game}: {model.path} plays {own.title}; leave --game out")
    return game


def open_session(model: Model, config: EngineConfig, progress: Progress = SILENT) -> tuple[SearchSession, Findings]:
    """A session in which this model plays its game, and a reader of its findings. Games end only by their rules."""
    game = game_of(model, config).without_move_limit()
    leaves = leaves_of_one_tree(config.readouts)
    evaluate = load_tree_evaluator(model, leaves, config.backend, progress)
    margins = load_tree_margins(model, leaves, config.backend, progress) if config.margin_from < 1 else None
    session = SearchSession(game, evaluate, config.search_options(), config.readouts, leaves, margins)
    return session, Findings(session, load_estimator(model) if isinstance(game, AnyPosition) else None)


def open_player(model: Model, config: EngineConfig, progress: Progress) -> Callable[[AnyGame], Player]:
    """Load the model by its method, for any game that it plays. Returns a function that makes a player of one row.

    Different threads may use players at the same time, but not the same one. Raises FileError, naming the model.
    """
    method = method_named(model.info.method)
    (loaded,) = method.load(model, 1, 1, config.backend, progress, config)
    return lambda game: method.player(game, 1, loaded, config.search_options(), config.readouts)
