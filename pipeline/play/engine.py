"""``engine``: a model behind a protocol, for managers that run matches between programs.

Reads commands on standard input and writes answers to standard output until END or the end of input; everything else
goes to standard error. Writes no files.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from pipeline.errors import UsageError
from pipeline.families.go.analysis import ROWS, Analysis
from pipeline.families.go.gtp import Gtp
from pipeline.families.gomoku.gomocup import Gomocup
from pipeline.families.shogi.usi import Usi
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.play.config import EngineConfig
from pipeline.play.findings import Findings
from pipeline.play.lines import CommandLines, accept_any_bytes
from pipeline.play.session import SearchSession, tree_room
from pipeline.players.loading import load_estimator, load_tree_evaluator
from pipeline.players.searching import SearchPlayer, leaves_of_one_tree, leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.run.models import Model, read_model, resolve_champion

LONGEST_LINE = {"gtp": 65_536, "gomocup": 4096, "analysis": 1 << 20, "usi": 65_536}  # characters


def engine(
    config: EngineConfig, progress: Progress = SILENT, commands: TextIO | None = None, answers: TextIO | None = None
) -> None:
    """Serve until the manager ends it. commands, answers: instead of standard input and output.

    Raises FileError for a model that can't be loaded, UsageError for one whose game the protocol can't play.
    """
    accept_any_bytes()
    commands, answers = commands or sys.stdin, answers or sys.stdout
    model = read_model(resolve_champion(config.model))
    game = game_of(model, config)
    protocol = config.protocol or ("gomocup" if game.gomocup else "usi" if game.usi_variant else "gtp")
    if (protocol == "usi") != bool(game.usi_variant):
        wanted = "usi" if game.usi_variant else "a model of shogi"
        raise UsageError(f"engine --protocol {protocol}: {model.path} plays {game.spec}; wanted {wanted}")
    if protocol == "gomocup" and not game.gomocup:
        raise UsageError(f"engine --protocol {protocol}: {model.path} plays {game.spec}; wanted a Gomoku model")
    progress.say(f"loading {config.model}; kernels and network are compiled when this machine sees them first")

    def write(text: str) -> None:
        answers.write(text)
        answers.flush()

    if protocol == "analysis":
        analysis = open_analysis(model, config, progress)
        analysis.warm_up()
        progress.say("ready for queries")
        analysis.run(CommandLines(commands, LONGEST_LINE[protocol]), write)
        return
    session, findings = open_session(model, config, progress)
    session.warm_up()
    lines = CommandLines(commands, LONGEST_LINE[protocol])
    if protocol == "gtp":
        Gtp(session, findings, config.resign_threshold, config.ponder).run(lines, write)
        return
    if protocol == "usi":
        Usi(session, config.resign_threshold).run(lines, write)
        return
    gomocup = Gomocup(session)
    while not gomocup.ended and (line := lines.next()) is not None:
        for answer in gomocup.answer(line):
            write(answer + "\n")


def game_of(model: Model, config: EngineConfig) -> Any:
    """The game that the model is asked to play. Raises UsageError if it can't."""
    own = parse_game(model.info.game)
    if not isinstance(own, Game):
        raise UsageError(f"{model.path} plays {own.spec}; wanted a board game without dice")
    if config.game is None:
        return own
    game = own.as_seen(parse_game(config.game))
    if game is None:
        raise UsageError(f"engine --game {config.game}: {model.path} plays {own.spec}; leave --game out")
    return game


def open_session(model: Model, config: EngineConfig, progress: Progress = SILENT) -> tuple[SearchSession, Findings]:
    """A session in which this model plays its game, and what reads its findings. Games end only by their rules."""
    game = game_of(model, config).without_move_limit()
    leaves = leaves_of_one_tree(config.readouts)
    evaluate = load_tree_evaluator(model, leaves, config.backend, progress)
    session = SearchSession(game, evaluate, config.search_options(), config.readouts, leaves)
    return session, Findings(session, load_estimator(model) if game.can_set_up else None)


def open_analysis(model: Model, config: EngineConfig, progress: Progress = SILENT) -> Analysis:
    """The same for many positions of any games at once."""
    game = game_of(model, config).without_move_limit()
    leaves = leaves_per_tree(1, config.readouts)
    evaluate = load_tree_evaluator(model, ROWS * leaves, config.backend, progress)
    settings = config.search_options()
    room = tree_room(settings, config.readouts)
    player = SearchPlayer(game, ROWS, evaluate, settings, room, leaves)
    return Analysis(player, load_estimator(model) if game.can_set_up else None, config.readouts, room)
